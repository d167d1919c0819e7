/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The running service. Internal to metadata/. */

#include "metadata/protocol.h"
#include "metadata/tables.h"

/* The number of simultaneous connections. From METADATA_CONNECTIONS_EVICT on, each new one ends the one that
 * has completed no request for the longest time, so that a client cannot lock out others by holding
 * connections. */
#define METADATA_CONNECTIONS_MAX 512U
#define METADATA_CONNECTIONS_EVICT 480U
#define METADATA_BODIES_MAX (32U * 1024U * 1024U) /* bytes of all requests' bodies together */
#define METADATA_DISCARD_MAX                                                                                \
        (4U * 1024U * 1024U)     /* bytes of a body that is read and discarded so that the client gets the
                                  * response */
#define METADATA_QUERIES_MAX 64U /* pending queries to the parent */

/* The responses that do not depend on the pod. */
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
        bool query_sent; /* to the parent; the result is in ANSWER when the connection is resumed */
        struct MHD_Response *signature; /* to be sent once the parent permits it */
        MetadataRoute route;
        MetadataAnswer answer; /* decided already */
        char *body;
        size_t body_size, body_allocated;
        uint64_t discarded;
} MetadataRequest;

typedef struct MetadataConnection MetadataConnection;
struct MetadataConnection {
        MetadataConnection *previous, *next; /* ordered by the time of the last completed request, oldest
                                              * first */
        struct MHD_Connection *http;
        int fd;
        uint64_t since; /* when it began, or completed its last request */
        bool ended;     /* by the service; not in the list any more */
        bool suspended; /* waits for the parent; not in the list */
        MetadataRequest request;
};

typedef struct MetadataQuery {
        MetadataConnection *connection; /* NULL: free */
        uint64_t serial, deadline;
} MetadataQuery;

typedef struct MetadataServer {
        int channel;
        int signal_fd;
        int listen_fd; /* until it is passed to the daemon */
        struct MHD_Daemon *daemon;
        int epoll_fd; /* the daemon's */
        uint64_t now; /* monotonic time of this iteration */
        MetadataTables *tables;
        struct MHD_Response *answers[_METADATA_ANSWER_MAX];
        MetadataConnection *first, *last;
        unsigned n_connections;
        size_t bodies; /* bytes allocated for bodies */
        MetadataQuery queries[METADATA_QUERIES_MAX];
        uint64_t query_serial;
        unsigned n_queries;
        bool may_sign;
        MetadataConnection *sign_waiters; /* connections that wait for permission to sign */
        uint64_t sign_serial;             /* of the query for permission to sign; 0: not sent */
        uint64_t sign_deadline;
        bool resumed; /* there are resumed connections, which the library processes only when it is run */
} MetadataServer;

/* server.c */
/* Serves until the channel closes or SIGTERM comes, then returns 0. */
int metadata_serve(int channel, Error *e);

/* http.c */
int metadata_http_prepare(MetadataServer *s, Error *e); /* creates the fixed responses */
int metadata_http_start(MetadataServer *s, Error *e);   /* takes ownership of listen_fd */
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
/* Ends overdue connections; returns when the next will be due (UINT64_MAX: none). */
uint64_t metadata_connections_expire(MetadataServer *s);

/* query.c */
/* Queries the parent about a signature and suspends the connection. -EBUSY: too many queries are pending. */
int metadata_query_verify(MetadataServer *s, MetadataConnection *c, const MetadataForm *form);
/* Queries the parent, unless that was done before, whether signatures may be returned, and suspends the
 * connection. */
int metadata_query_may_sign(MetadataServer *s, MetadataConnection *c);
void metadata_query_answered(MetadataServer *s, uint64_t serial, bool valid);
/* Completes queries that the parent has not answered in time; returns when the next will be due (UINT64_MAX:
 * none). */
uint64_t metadata_queries_expire(MetadataServer *s);
/* Completes all queries with the answer no. */
void metadata_queries_cancel(MetadataServer *s);
