/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* varlink/: Varlink services and blocking clients on AF_UNIX stream sockets, with json-c and sd-event.
 *
 * A message is a JSON object that ends with a NUL byte; descriptors travel with its first byte. A service
 * serves interfaces, each described by a text in Varlink's interface language, against which parameters are
 * checked before a method's function is called. Calls of a connection are answered one after the other; a
 * call can be answered any time later, and any number of times if the caller set "more".
 *
 * Everything that a peer controls is limited by the numbers below, and descriptors of a message by FD_LIST_MAX;
 * they can be of anything that can be opened: check their type before use. A peer that breaks the protocol or a
 * bound loses its connection, which affects no other. A service never blocks.
 *
 * A service and its calls belong to the thread that runs the event loop. */

#include "library/libsystemd.h"
#include "schema/schema.h"

#define VARLINK_MESSAGE_SIZE_MAX (1024U * 1024U) /* bytes in either direction, without the NUL */
#define VARLINK_DEPTH_MAX 32U                    /* levels of nesting of a received message */
#define VARLINK_VALUES_MAX 65536U                /* JSON values in it */
#define VARLINK_QUEUE_MAX (2U * 1024U * 1024U)   /* bytes that a peer has not read yet */
#define VARLINK_CONNECTIONS_MAX 128U             /* a quarter of them for root and our own user only */
#define VARLINK_CONNECTIONS_PER_USER 16U         /* of any other user */

/* The error for a new connection when all connections have unanswered calls, before it is closed; its parameter "limit" is
 * the number of connections. An idle connection is closed in favour of a new one, the least recently used first. */
#define VARLINK_TOO_MANY_CONNECTIONS "org.acnspawn.service.TooManyConnections"

/* --- Calls, as the service sees them ------------------------------------------------------------------- */

typedef struct VarlinkCall {
        const char *method; /* "interface.Method" */
        bool more;          /* several replies are accepted, see varlink_reply_continues() */
        bool oneway;        /* the caller expects no reply */
        FdList fds;         /* received with the call; closed with it unless taken */
        FdList reply_fds;   /* sent with the next reply */

        /* Set both to have on_gone() called once, from the event loop, if the peer disconnects before the call
         * is answered, so that what the call has started can be cancelled and references dropped. Never for a
         * call that wants no reply. */
        void (*on_gone)(struct VarlinkCall *c, void *userdata);
        void *userdata;

        /* Internal. */
        unsigned n_ref;
        struct Connection *connection; /* NULL: disconnected, or the call is answered */
        bool answered;
        json_object *message;
} VarlinkCall;

VarlinkCall *varlink_call_ref(VarlinkCall *c);
/* True if the peer has disconnected and waits for a reply. */
bool varlink_call_is_gone(const VarlinkCall *c);
/* NULL is fine; returns NULL. */
VarlinkCall *varlink_call_unref(VarlinkCall *c);
DEFINE_TRIVIAL_CLEANUP_FUNC(VarlinkCall *, varlink_call_unref);

/* Reply; PARAMETERS, borrowed, may be NULL for none. The first is the final reply, after which the
 * connection's next call is read; the second is followed by others. -EINVAL: the caller did not set "more";
 * -EALREADY: the call has been answered; -EMSGSIZE: too long; -ENOBUFS: the peer does not read, and loses its
 * connection; -ECONNRESET: the connection has ended. After -EINVAL, -EMSGSIZE and -ENOMEM the call can still
 * be answered. A call that wants no reply gets none, but can be answered in the same way. */
int varlink_reply(VarlinkCall *c, json_object *parameters);
int varlink_reply_continues(VarlinkCall *c, json_object *parameters);
/* Answers with an error, by its full name. */
int varlink_reply_error(VarlinkCall *c, const char *error, json_object *parameters);
/* The PID of the peer; 0: unknown, or it has ended. */
pid_t varlink_call_peer(const VarlinkCall *c);
/* How many bytes of replies the peer has not read yet: before there are VARLINK_QUEUE_MAX, wait. */
size_t varlink_call_unsent(const VarlinkCall *c);
/* org.varlink.service.InvalidParameter, and io.systemd.System with CODE, a negative errno. */
int varlink_reply_invalid_parameter(VarlinkCall *c, const char *parameter);
int varlink_reply_errno(VarlinkCall *c, int code);

/* --- Services ------------------------------------------------------------------------------------------ */

/* A method. PARAMETERS, borrowed, is an object that matches the description: members without "?" are there
 * and of their type, others may be absent or null, and there are no further ones.
 *
 * It answers with one of the varlink_reply functions, now or later: to answer later it keeps a reference
 * (varlink_call_ref()) and returns 0. A negative errno answers the call with that error, unless it has been
 * answered; so does dropping the last reference (ECANCELED). The service must not be freed in it. */
typedef int (*VarlinkMethodFunction)(VarlinkCall *call, json_object *parameters, void *userdata);

typedef enum VarlinkMethodFlags {
        VARLINK_METHOD_MORE = 1 << 0, /* only with "more"; else ExpectedMore */
        VARLINK_METHOD_FDS = 1 << 1,  /* wants descriptors; otherwise those of a call are closed first */
} VarlinkMethodFlags;

typedef struct VarlinkMethod {
        const char *name; /* without the interface */
        VarlinkMethodFunction function;
        VarlinkMethodFlags flags;
} VarlinkMethod;

/* All of it has to stay as long as the service. The description uses bool, int, string, object, lists, enums,
 * structs, and names of types that it declares. Methods of it that are not in the table are answered with
 * MethodNotImplemented. Replies are not compared with it: that is for tests. */
typedef struct VarlinkInterface {
        const char *name, *description;
        const VarlinkMethod *methods;
        size_t n_methods;
} VarlinkInterface;

typedef struct VarlinkServer VarlinkServer;

/* A service without a socket yet; org.varlink.service is built in, GetInfo of which tells PRODUCT and
 * VERSION. These and EVENT have to stay as long as the service. */
int varlink_server_new(sd_event *event, const char *product, const char *version, VarlinkServer **ret,
                       Error *e);
/* Listens no more, and ends all connections but those with calls that are not answered yet. NULL is fine. */
void varlink_server_end(VarlinkServer *s);
/* Ends all connections, as if their peers had: on_gone() of pending calls is called. NULL is fine; returns
 * NULL. */
VarlinkServer *varlink_server_free(VarlinkServer *s);
DEFINE_TRIVIAL_CLEANUP_FUNC(VarlinkServer *, varlink_server_free);
/* USERDATA is passed to the methods. -EBADMSG: the description is not valid; -EINVAL: a method of the table
 * is not in the description; -E2BIG: there are too many interfaces. */
int varlink_server_add_interface(VarlinkServer *s, const VarlinkInterface *i, void *userdata, Error *e);
/* Accepts connections on a listening AF_UNIX stream socket, which is taken, also on failure. Once. */
int varlink_server_listen(VarlinkServer *s, int listen_fd);
/* Serves a connected socket, which is taken, also on failure. -EUSERS: the limit is reached, and the peer was sent
 * VARLINK_TOO_MANY_CONNECTIONS. */
int varlink_server_add_connection(VarlinkServer *s, int fd);
/* The number of its connections, and of all that there have been. */
size_t varlink_server_connections(const VarlinkServer *s, uint64_t *ret_all);

/* --- Clients ------------------------------------------------------------------------------------------- */

typedef struct VarlinkClient VarlinkClient;

typedef struct VarlinkReply {
        const char *error;       /* the full name; NULL: there was none */
        json_object *parameters; /* an object, also of an error; not checked against any description */
        bool continues;          /* there is another reply to this call */
        FdList fds;
        json_object *message; /* internal */
} VarlinkReply;

void varlink_reply_done(VarlinkReply *r);

/* A client on a connected socket, which is taken, also on failure. Waiting for replies ends with the operation, which
 * must outlive the client; NULL: with none. */
int varlink_client_new(int fd, const Operation *o, VarlinkClient **ret);
/* Disconnects. NULL is fine; returns NULL. */
VarlinkClient *varlink_client_free(VarlinkClient *c);
DEFINE_TRIVIAL_CLEANUP_FUNC(VarlinkClient *, varlink_client_free);

/* The connection, to be polled for replies; lent. */
int varlink_client_fd(const VarlinkClient *c);
/* Lets FD travel with the next call, and takes it, also on failure. -E2BIG, -EBADF. */
int varlink_client_push_fd(VarlinkClient *c, int fd);
/* Sends a call without waiting for anything; PARAMETERS, borrowed, may be NULL. With MORE there are as many
 * replies as the service sends, the last of which does not continue. -EBUSY: the last call was not answered
 * yet; -ENOTCONN: the connection cannot be used any more. */
int varlink_client_send(VarlinkClient *c, const char *method, json_object *parameters, bool more, Error *e);
/* Waits at most TIMEOUT_USEC (UINT64_MAX: without limit) for the next reply and puts it into *RET, also if it
 * is an error of the service. A negative errno: -ETIMEDOUT, after which it can be called again; -EINTR,
 * -ETIME: the operation has ended; -ENODATA: no call is pending; -ECONNRESET, -EBADMSG and others: the
 * connection cannot be used any more. Its descriptor stays open until varlink_client_free(): free an event source on it
 * before that. */
int varlink_client_next(VarlinkClient *c, uint64_t timeout_usec, VarlinkReply *ret, Error *e);
/* Sends a call and waits for its only reply, as varlink_client_next(). */
int varlink_client_call(VarlinkClient *c, const char *method, json_object *parameters, uint64_t timeout_usec,
                        VarlinkReply *ret, Error *e);
