/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The running service. Internal to metadata/. */

#include "metadata/protocol.h"
#include "metadata/tables.h"

/* How many connections are served at once. From METADATA_CONNECTIONS_EVICT on, each new one ends the one
 * that has gone longest without completing a request, so that nobody can keep others out by holding
 * connections. */
#define METADATA_CONNECTIONS_MAX 512U
#define METADATA_CONNECTIONS_EVICT 480U
#define METADATA_BODIES_MAX (32U * 1024U * 1024U) /* bytes of all requests' bodies together */
#define METADATA_DISCARD_MAX                                                                                \
        (4U * 1024U * 1024U)       /* bytes of a body that is read only to be able to refuse it politely */
#define METADATA_QUESTIONS_MAX 64U /* that wait for the parent */

/* The answers that do not depend on the pod. */
typedef enum MetadataAnswer {
        METADATA_ANSWER_NONE, /* none of these */
        METADATA_ANSWER_VALID,
        METADATA_ANSWER_INVALID,
        METADATA_ANSWER_BAD_FORM,
        METADATA_ANSWER_NOT_FOUND,
        METADATA_ANSWER_ONLY_GET,
        METADATA_ANSWER_ONLY_POST,
        METADATA_ANSWER_TOO_LARGE,
        METADATA_ANSWER_NOT_A_FORM,
        METADATA_ANSWER_FAILED,
        METADATA_ANSWER_BUSY,
        _METADATA_ANSWER_MAX,
} MetadataAnswer;

typedef struct MetadataRequest {
        bool begun;
        bool asked; /* the parent, whose answer is in ANSWER when the connection goes on */
        struct MHD_Response *signature; /* that is given out as soon as the parent says that it may be */
        MetadataRoute route;
        MetadataAnswer answer; /* decided already */
        char *body;
        size_t body_size, body_allocated;
        uint64_t discarded;
} MetadataRequest;

typedef struct MetadataConnection MetadataConnection;
struct MetadataConnection {
        MetadataConnection *previous, *next; /* longest without a completed request first */
        struct MHD_Connection *http;
        int fd;
        uint64_t since; /* when it began, or completed its last request */
        bool ended;     /* by us; not in the list any more */
        bool suspended; /* waits for the parent; not in the list */
        MetadataRequest request;
};

typedef struct MetadataQuestion {
        MetadataConnection *connection; /* NULL: free */
        uint64_t serial, deadline;
} MetadataQuestion;

typedef struct MetadataServer {
        int channel;
        int signal_fd;
        int listen_fd; /* until the daemon has it */
        struct MHD_Daemon *daemon;
        int epoll_fd; /* the daemon's */
        uint64_t now; /* monotonic, as of this turn of the loop */
        MetadataTables *tables;
        struct MHD_Response *answers[_METADATA_ANSWER_MAX];
        MetadataConnection *first, *last;
        unsigned n_connections;
        size_t bodies; /* bytes allocated for bodies */
        MetadataQuestion questions[METADATA_QUESTIONS_MAX];
        uint64_t question_serial;
        unsigned n_questions;
        bool may_sign;
        MetadataConnection *signers; /* that wait until it may */
        uint64_t sign_serial;        /* of the question whether it may; 0: it was not asked */
        uint64_t sign_deadline;
        bool resumed; /* there are connections that go on, which the library looks at only when it is run */
} MetadataServer;

/* server.c */
/* Serves until the channel closes or SIGTERM comes, then returns 0. */
int metadata_serve(int channel, Error *e);

/* http.c */
int metadata_http_prepare(MetadataServer *s, Error *e); /* makes the fixed answers */
int metadata_http_start(MetadataServer *s, Error *e);   /* takes listen_fd */
void metadata_http_stop(MetadataServer *s);

/* request.c */
enum MHD_Result metadata_request_handle(void *server, struct MHD_Connection *http, const char *url,
                                        const char *method, const char *version, const char *upload,
                                        size_t *upload_size, void **closure);
void metadata_request_reset(MetadataServer *s, MetadataRequest *q);

/* connection.c */
void metadata_connection_notify(void *server, struct MHD_Connection *http, void **context,
                                enum MHD_ConnectionNotificationCode code);
void metadata_connection_completed(void *server, struct MHD_Connection *http, void **closure,
                                   enum MHD_RequestTerminationCode code);
MetadataConnection *metadata_connection_get(struct MHD_Connection *http);
void metadata_connection_suspend(MetadataServer *s, MetadataConnection *c);
void metadata_connection_resume(MetadataServer *s, MetadataConnection *c);
/* Ends those that have been at it for too long; returns when the next will be (UINT64_MAX: none). */
uint64_t metadata_connections_expire(MetadataServer *s);

/* question.c */
/* Asks the parent about a signature and suspends the connection. -EBUSY: too many are waiting. */
int metadata_question_ask(MetadataServer *s, MetadataConnection *c, const MetadataForm *form);
/* Asks the parent, if that was not done before, whether signatures may be given out, and suspends the
 * connection. */
int metadata_question_ask_to_sign(MetadataServer *s, MetadataConnection *c);
void metadata_question_answered(MetadataServer *s, uint64_t serial, bool valid);
/* Answers for the parent what it has not answered in time; returns when the next will be due (UINT64_MAX:
 * none). */
uint64_t metadata_questions_expire(MetadataServer *s);
/* Answers all of them with no. */
void metadata_questions_cancel(MetadataServer *s);
