/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* varlink/: Varlink services and clients on AF_UNIX stream sockets, with json-c and sd-event.
 *
 * A message is a JSON object that ends with a NUL byte; descriptors travel with its bytes. A service serves
 * interfaces, each described by a text in Varlink's interface language, against which parameters are checked
 * before a method's function is called. Calls of a connection are answered one after the other; a connection
 * can be answered any time later, and any number of times if the caller set "more".
 *
 * Everything that a peer controls is bounded by VarlinkLimits. A peer that breaks the protocol or a bound
 * loses its connection, which affects no other. Nothing here blocks, but for varlink_client_connect(),
 * varlink_client_call() and varlink_client_next(), which have time-outs.
 *
 * A service, a client and their calls belong to the thread that runs the event loop.
 */

#include <sys/socket.h>

#include "library/libsystemd.h"
#include "schema/schema.h"

/* --- Bounds and descriptors ---------------------------------------------------------------------------- */

/* A zero stands for the default. */
typedef struct VarlinkLimits {
        size_t message_size;   /* bytes of a message, either way: 1 MiB, at most 4 MiB */
        size_t depth;          /* levels of nesting of a message that comes in: 32, at most 64 */
        size_t n_values;       /* JSON values in it: 65536 */
        size_t queue_size;     /* bytes that a peer has not read yet: 2 MiB */
        size_t queue_length;   /* messages that a peer has not read yet: 256 */
        uint64_t message_usec; /* to complete a message that has begun, either way: 30 s */
        size_t connections;    /* of a service: 128, a quarter of them only for root and our own user */
        size_t connections_per_user; /* of a user other than those two: 16 */
} VarlinkLimits;

#define VARLINK_FDS_MAX 16U /* descriptors with one message */

/* Descriptors of a message, all of them O_CLOEXEC. A peer can send anything that can be opened: check what
 * they are before use. */
typedef struct VarlinkFds {
        int fds[VARLINK_FDS_MAX]; /* -EBADF where one was taken */
        size_t n;
} VarlinkFds;

/* Closes those that were not taken. */
void varlink_fds_done(VarlinkFds *f);
/* Appends FD and takes it, also on failure. -E2BIG: there are VARLINK_FDS_MAX; -EBADF: FD is negative. */
int varlink_fds_push(VarlinkFds *f, int fd);
/* The descriptor with index I, which is the caller's from now on. -ENXIO: not there, or taken before. */
int varlink_fds_take(VarlinkFds *f, size_t i);

/* --- Interfaces ---------------------------------------------------------------------------------------- */

typedef struct VarlinkCall VarlinkCall;
typedef struct VarlinkServer VarlinkServer;

/* A method. PARAMETERS, borrowed, is an object that matches the description: members without "?" are there
 * and of their type, others may be absent or null, and there are no further ones.
 *
 * It answers with one of the varlink_reply functions, now or later: to answer later it keeps a reference
 * (varlink_call_ref()) and returns 0. A negative errno answers the call with that error, unless it has been
 * answered; so does dropping the last reference (ECANCELED). The service must not be freed in it. */
typedef int (*VarlinkMethodFunction)(VarlinkCall *call, json_object *parameters, void *userdata);

typedef enum VarlinkMethodFlags {
        VARLINK_METHOD_MORE = 1 << 0,       /* only with "more"; else ExpectedMore */
        VARLINK_METHOD_PRIVILEGED = 1 << 1, /* only for root and our own user; else PermissionDenied */
        VARLINK_METHOD_FDS = 1 << 2, /* wants descriptors; otherwise those of a call are closed first */
} VarlinkMethodFlags;

typedef struct VarlinkMethod {
        const char *name; /* without the interface */
        VarlinkMethodFunction function;
        VarlinkMethodFlags flags;
} VarlinkMethod;

/* All of it has to stay as long as the service. Methods of the description that are not in the table are
 * answered with MethodNotImplemented. */
typedef struct VarlinkInterface {
        const char *description; /* in the interface language */
        const VarlinkMethod *methods;
        size_t n_methods;
} VarlinkInterface;

/* --- Services ------------------------------------------------------------------------------------------ */

typedef struct VarlinkServerOptions {
        const char *vendor, *product, *version, *url; /* of GetInfo; NULL: "" */
        VarlinkLimits limits;
        /* The last connection has ended: a service that was started by its socket may exit now. Called from
         * the event loop; the service must not be freed in it. May be NULL. */
        void (*on_idle)(void *userdata);
        void *userdata; /* of on_idle */
} VarlinkServerOptions;

/* A service without sockets yet; org.varlink.service is built in. EVENT, and the strings of OPTIONS, have to
 * stay as long as the service. */
int varlink_server_new(sd_event *event, const VarlinkServerOptions *options, VarlinkServer **ret, Error *e);
/* Ends all connections, as if their peers had: pending calls are told. NULL is fine; returns NULL. */
VarlinkServer *varlink_server_free(VarlinkServer *s);
DEFINE_TRIVIAL_CLEANUP_FUNC(VarlinkServer *, varlink_server_free);
/* USERDATA is passed to the methods. -EBADMSG: the description is not valid, with line; -EINVAL: a method of
 * the table is not in the description; -EEXIST: there is an interface of that name. */
int varlink_server_add_interface(VarlinkServer *s, const VarlinkInterface *i, void *userdata, Error *e);
/* Accepts connections on a listening AF_UNIX stream socket, which is taken, also on failure, and made
 * non-blocking. Can be called several times. */
int varlink_server_listen(VarlinkServer *s, int listen_fd);
/* Serves a connected socket, which is taken, also on failure. -EUSERS: there are too many. */
int varlink_server_add_connection(VarlinkServer *s, int fd);
size_t varlink_server_n_connections(const VarlinkServer *s);

/* --- Calls, as the service sees them ------------------------------------------------------------------- */

VarlinkCall *varlink_call_ref(VarlinkCall *c);
/* NULL is fine; returns NULL. */
VarlinkCall *varlink_call_unref(VarlinkCall *c);
DEFINE_TRIVIAL_CLEANUP_FUNC(VarlinkCall *, varlink_call_unref);

/* "interface.Method", which lives as long as the call. */
const char *varlink_call_method(const VarlinkCall *c);
/* Whether the caller wants several replies: only then varlink_reply_continues() works. */
bool varlink_call_more(const VarlinkCall *c);
/* Whether the caller wants none: replies of any kind only mean that the next message may come. */
bool varlink_call_oneway(const VarlinkCall *c);
/* The peer, as of when it connected; the pid may have been reused since. */
const struct ucred *varlink_call_peer(const VarlinkCall *c);
/* A new pidfd of the process that connected, for the caller to close. -EOPNOTSUPP: the kernel is older than
 * 6.5; -ECONNRESET: the connection has ended; -ESRCH: the process has. */
int varlink_call_peer_pidfd(const VarlinkCall *c);
/* The descriptors that came with the call, for varlink_fds_take(); the rest is closed with the call. There
 * are fewer than were sent if this process has too many open. */
VarlinkFds *varlink_call_fds(VarlinkCall *c);
/* FUNCTION is called once, from the event loop, if the peer disconnects before the call is answered, so that
 * what the call has started can be cancelled and kept references dropped; never for a one-way call. */
void varlink_call_on_gone(VarlinkCall *c, void (*function)(VarlinkCall *c, void *userdata), void *userdata);
/* Lets FD travel with the next reply, and takes it, also on failure. -E2BIG, -EBADF. */
int varlink_call_push_fd(VarlinkCall *c, int fd);

/* Reply; PARAMETERS, borrowed, may be NULL for none. The first is the final reply, after which the
 * connection's next call is read; the second is followed by others. -EINVAL: PARAMETERS does not match the
 * description, or the caller did not set "more"; -EALREADY: the call has been answered; -EMSGSIZE: too long;
 * -ENOBUFS: the peer does not read and loses its connection; -ECONNRESET: the connection has ended. After
 * -EINVAL, -EMSGSIZE and -ENOMEM the call can still be answered. */
int varlink_reply(VarlinkCall *c, json_object *parameters);
int varlink_reply_continues(VarlinkCall *c, json_object *parameters);
/* Answers with an error, by its full name. One of the call's own interface is checked as replies are. */
int varlink_reply_error(VarlinkCall *c, const char *error, json_object *parameters);
/* org.varlink.service.InvalidParameter, and io.systemd.System with CODE, a negative errno. */
int varlink_reply_invalid_parameter(VarlinkCall *c, const char *parameter);
int varlink_reply_errno(VarlinkCall *c, int code);
#define VARLINK_ERROR_PERMISSION_DENIED "org.varlink.service.PermissionDenied"

/* --- Clients ------------------------------------------------------------------------------------------- */

typedef struct VarlinkClient VarlinkClient;

/* What a service answered with. */
typedef enum VarlinkOutcome {
        VARLINK_OK,
        VARLINK_ERROR, /* one of the interface's own, or of another */
        VARLINK_SYSTEM_ERROR,
        VARLINK_INTERFACE_NOT_FOUND,
        VARLINK_METHOD_NOT_FOUND,
        VARLINK_METHOD_NOT_IMPLEMENTED,
        VARLINK_INVALID_PARAMETER,
        VARLINK_PERMISSION_DENIED,
        VARLINK_EXPECTED_MORE,
} VarlinkOutcome;

typedef struct VarlinkReply {
        VarlinkOutcome outcome;
        char *error;             /* the full name; NULL if there was none */
        json_object *parameters; /* an object, also of an error; not checked against any description */
        bool continues;          /* there is another reply to this call */
        VarlinkFds fds;
} VarlinkReply;

void varlink_reply_done(VarlinkReply *r);
/* Turns an error of a service into one of ours, with a sentence: the errno of a system error; -EACCES,
 * -EINVAL, -EOPNOTSUPP for org.varlink.service's; -EREMOTEIO for others. 0 if there was none. */
int varlink_reply_to_error(const VarlinkReply *r, Error *e);

/* Connects to the socket at PATH, which may be of any length, within TIMEOUT_USEC. */
int varlink_client_connect(const char *path, uint64_t timeout_usec, VarlinkClient **ret, Error *e);
/* The same with a socket that is connected, which is taken, also on failure. LIMITS may be NULL. */
int varlink_client_new(int fd, const VarlinkLimits *limits, VarlinkClient **ret);
/* Disconnects. NULL is fine; returns NULL. May be called in the function of varlink_client_attach(). */
VarlinkClient *varlink_client_free(VarlinkClient *c);
DEFINE_TRIVIAL_CLEANUP_FUNC(VarlinkClient *, varlink_client_free);

typedef enum VarlinkCallFlags {
        VARLINK_CALL_MORE = 1 << 0,   /* as many replies as there are; the last has no "continues" */
        VARLINK_CALL_ONEWAY = 1 << 1, /* no reply */
} VarlinkCallFlags;

/* Lets FD travel with the next call, and takes it, also on failure. -E2BIG, -EBADF. */
int varlink_client_push_fd(VarlinkClient *c, int fd);
/* Sends a call without waiting for anything; PARAMETERS, borrowed, may be NULL. Replies come in the order of
 * the calls. -EBUSY: 64 calls are pending; others as for varlink_reply(). */
int varlink_client_send(VarlinkClient *c, const char *method, json_object *parameters,
                        VarlinkCallFlags flags);
/* Waits at most TIMEOUT_USEC (UINT64_MAX: without limit) for the next reply and puts it into *RET. Returns
 * its VarlinkOutcome, or a negative errno with a message: -ETIMEDOUT, after which it can be called again;
 * -EINTR: a signal was noted (interrupt_catch()); -ENODATA: no call is pending; -ECONNRESET, -EBADMSG and
 * others: the connection is unusable from now on. Not after varlink_client_attach(). */
int varlink_client_next(VarlinkClient *c, uint64_t timeout_usec, VarlinkReply *ret, Error *e);
/* Sends a call and waits for its only reply, as varlink_client_next(). -EBUSY: another call is pending. */
int varlink_client_call(VarlinkClient *c, const char *method, json_object *parameters, uint64_t timeout_usec,
                        VarlinkReply *ret, Error *e);

/* Called for each reply, which is borrowed (descriptors may be taken), with its VarlinkOutcome in RESULT;
 * and a last time with a negative errno and no REPLY when the connection has ended. */
typedef void (*VarlinkReplyFunction)(VarlinkClient *c, int result, VarlinkReply *reply, void *userdata);
/* From now on the event loop sends, and calls FUNCTION for replies. */
int varlink_client_attach(VarlinkClient *c, sd_event *event, VarlinkReplyFunction function, void *userdata);
