/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Clients: calls out, replies in, either waited for or from the event loop.
 *
 * Any number of calls, up to 64, may wait for their replies, which come in the order of the calls. Of each,
 * one bit says whether it may have several.
 */

#include <poll.h>
#include <sys/un.h>

#include "varlink/varlink-internal.h"

#define PENDING_MAX 64U

struct VarlinkClient {
        Link link;
        VarlinkFds pushed;
        uint64_t more; /* of the calls that wait for replies, the first is the lowest bit */
        unsigned n_pending;
        VarlinkReplyFunction function;
        void *userdata;
};

/* --- Connecting ---------------------------------------------------------------------------------------- */

int varlink_client_new(int fd, const VarlinkLimits *limits, VarlinkClient **ret)
{
        VarlinkClient *c = calloc(1, sizeof(VarlinkClient));

        if (!c) {
                safe_close(fd);
                return -ENOMEM;
        }
        int r = link_init(&c->link, fd, limits);
        if (r < 0) {
                free(c);
                return r;
        }
        *ret = c;
        return 0;
}

VarlinkClient *varlink_client_free(VarlinkClient *c)
{
        if (!c)
                return NULL;
        link_done(&c->link);
        varlink_fds_done(&c->pushed);
        free(c);
        return NULL;
}

int varlink_client_connect(const char *path, uint64_t timeout_usec, VarlinkClient **ret, Error *e)
{
        struct timeval t = {.tv_sec = (time_t) MIN(timeout_usec / 1000000U, (uint64_t) INT32_MAX),
                            .tv_usec = (suseconds_t) (timeout_usec % 1000000U)};
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        _cleanup_close_ int socket_fd = open(path, O_PATH | O_CLOEXEC), fd = -EBADF;

        if (socket_fd < 0)
                return error_set_errno(e, -errno, "Cannot connect to '%s'", path);
        /* Paths in addresses are short; waiting is for room in the queue of those who connect. */
        snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d", socket_fd);
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t)) < 0 ||
            connect(fd, (struct sockaddr *) &address, sizeof(address)) < 0)
                return error_set_errno(e, errno == EAGAIN ? -ETIMEDOUT : -errno, "Cannot connect to '%s'",
                                       path);
        int r = varlink_client_new(TAKE_FD(fd), NULL, ret);
        return r < 0 ? error_set_errno(e, r, "Cannot connect to '%s'", path) : 0;
}

/* --- Calls --------------------------------------------------------------------------------------------- */

int varlink_client_push_fd(VarlinkClient *c, int fd)
{
        return varlink_fds_push(&c->pushed, fd);
}

int varlink_client_send(VarlinkClient *c, const char *method, json_object *parameters,
                        VarlinkCallFlags flags)
{
        _cleanup_json_ json_object *m = json_object_new_object();
        json_object *p = parameters ? json_object_get(parameters) : json_object_new_object();

        if (json_member_add(m, "parameters", p) < 0 || json_member_add_text(m, "method", method) < 0 ||
            (flags & VARLINK_CALL_MORE && json_member_add(m, "more", json_object_new_boolean(true)) < 0) ||
            (flags & VARLINK_CALL_ONEWAY && json_member_add(m, "oneway", json_object_new_boolean(true)) < 0))
                return -ENOMEM;
        if (c->n_pending == PENDING_MAX)
                return -EBUSY;
        int r = link_send(&c->link, m, &c->pushed);
        if (r < 0 || flags & VARLINK_CALL_ONEWAY)
                return r;
        c->more |= (uint64_t) (flags & VARLINK_CALL_MORE) << c->n_pending++;
        return 0;
}

/* --- Replies ------------------------------------------------------------------------------------------- */

/* The errors that everybody has. */
static const struct {
        const char *name;
        VarlinkOutcome outcome;
        int code;
        const char *parameter, *text;
} known_errors[] = {
                {"io.systemd.System", VARLINK_SYSTEM_ERROR, 0, NULL, NULL},
                {"org.varlink.service.InterfaceNotFound", VARLINK_INTERFACE_NOT_FOUND, -EOPNOTSUPP,
                 "interface", "The service has no interface '%s'"},
                {"org.varlink.service.MethodNotFound", VARLINK_METHOD_NOT_FOUND, -EOPNOTSUPP, "method",
                 "The service has no method '%s'"},
                {"org.varlink.service.MethodNotImplemented", VARLINK_METHOD_NOT_IMPLEMENTED, -EOPNOTSUPP,
                 "method", "The service does not implement method '%s'"},
                {"org.varlink.service.InvalidParameter", VARLINK_INVALID_PARAMETER, -EINVAL, "parameter",
                 "The service refuses parameter '%s'"},
                {VARLINK_ERROR_PERMISSION_DENIED, VARLINK_PERMISSION_DENIED, -EACCES, NULL,
                 "The service does not permit this"},
                {"org.varlink.service.ExpectedMore", VARLINK_EXPECTED_MORE, -EINVAL, NULL,
                 "The service expects a call with \"more\""},
};

void varlink_reply_done(VarlinkReply *r)
{
        free(r->error);
        json_object_put(r->parameters);
        varlink_fds_done(&r->fds);
        *r = (VarlinkReply){};
}

int varlink_reply_to_error(const VarlinkReply *r, Error *e)
{
        _cleanup_free_ char *error = NULL, *word = NULL;

        if (r->outcome == VARLINK_OK)
                return 0;
        if (r->outcome == VARLINK_SYSTEM_ERROR) {
                int code = json_object_get_int(json_object_object_get(r->parameters, "errno"));
                return error_set_errno(e, code > 0 && code < 4096 ? -code : -EREMOTEIO,
                                       "The service failed");
        }
        for (size_t i = 0; i < ELEMENTSOF(known_errors); i++) {
                if (known_errors[i].outcome != r->outcome)
                        continue;
                const char *key = known_errors[i].parameter;
                json_object *o = key ? json_object_object_get(r->parameters, key) : NULL;
                word = text_escape_for_terminal(o ? json_object_get_string(o) : "");
                return error_set(e, known_errors[i].code, known_errors[i].text, word ?: "");
        }
        error = text_escape_for_terminal(r->error);
        word = text_escape_for_terminal(json_object_to_json_string_ext(r->parameters, JSON_C_TO_STRING_PLAIN)
                                                        ?: "");
        return error_set(e, -EREMOTEIO, "The service answered with error '%s' %s", error ?: "", word ?: "");
}

/* Takes MESSAGE apart, which answers the first call that waits. */
static int read_reply(VarlinkClient *c, json_object *message, VarlinkFds *fds, VarlinkReply *ret)
{
        _cleanup_(varlink_reply_done) VarlinkReply reply = {};
        const char *error = NULL;
        json_object *parameters = NULL;
        const MessageField fields[] = {
                        {"error", json_type_string, &error},
                        {"parameters", json_type_object, &parameters},
                        {"continues", json_type_boolean, &reply.continues},
        };

        int r = message_read(message, fields, ELEMENTSOF(fields));
        if (r < 0)
                return r;
        if (c->n_pending == 0 || (reply.continues && (error || !(c->more & 1))))
                return -EBADMSG;
        reply.parameters = parameters ? json_object_get(parameters) : json_object_new_object();
        reply.error = error ? strdup(error) : NULL;
        if (!reply.parameters || (error && !reply.error))
                return -ENOMEM;
        reply.outcome = error ? VARLINK_ERROR : VARLINK_OK;
        for (size_t i = 0; error && i < ELEMENTSOF(known_errors); i++)
                if (streq(error, known_errors[i].name))
                        reply.outcome = known_errors[i].outcome;
        if (!reply.continues) {
                c->n_pending--;
                c->more >>= 1;
        }
        reply.fds = *fds;
        fds->n = 0;
        *ret = reply;
        reply = (VarlinkReply){};
        return (int) ret->outcome;
}

/* Until the connection can be used, or DEADLINE. */
static int wait_for_service(Link *l, uint64_t deadline, Error *e)
{
        uint64_t now = now_usec(CLOCK_MONOTONIC), left = deadline > now ? deadline - now : 0;
        int msec = deadline == UINT64_MAX ? -1 : (int) MIN((left + 999) / 1000, (uint64_t) INT32_MAX);
        int r = interrupt_poll(l->fd, (short) (POLLIN | (l->out ? POLLOUT : 0)), msec, e);

        if (r == 0)
                return error_set(e, -ETIMEDOUT, "The service did not answer in time");
        return r;
}

static int next_message(Link *l, uint64_t deadline, json_object **ret, VarlinkFds *ret_fds, Error *e)
{
        for (;;) {
                int r = link_take(l, ret, ret_fds);
                if (r != 0)
                        return r < 0 ? error_set_errno(e, r, "The service sent something that is no reply")
                                     : r;
                r = link_flush(l);
                if (r < 0 && r != -EPIPE) /* there may still be a reply */
                        return error_set_errno(e, r, "Cannot send to the service");
                r = wait_for_service(l, deadline, e);
                if (r < 0)
                        return r;
                r = link_receive(l);
                if (r == 0 || (r < 0 && r != -EAGAIN))
                        return error_set(e, r ?: -ECONNRESET, "The service has ended the connection");
        }
}

int varlink_client_next(VarlinkClient *c, uint64_t timeout_usec, VarlinkReply *ret, Error *e)
{
        uint64_t now = now_usec(CLOCK_MONOTONIC);
        uint64_t deadline = timeout_usec > UINT64_MAX - now ? UINT64_MAX : now + timeout_usec;
        _cleanup_json_ json_object *message = NULL;
        _cleanup_(varlink_fds_done) VarlinkFds fds = {};

        if (c->n_pending == 0)
                return error_set(e, -ENODATA, "No call waits for a reply");
        if (c->link.broken < 0)
                return error_set_errno(e, c->link.broken,
                                       "The connection to the service is of no use any more");
        int r = next_message(&c->link, deadline, &message, &fds, e);
        if (r >= 0) {
                r = read_reply(c, message, &fds, ret);
                if (r < 0)
                        error_set_errno(e, r, "The service sent something that is no reply");
        }
        if (r < 0 && r != -ETIMEDOUT && r != -EINTR)
                link_break(&c->link, r);
        return r;
}

int varlink_client_call(VarlinkClient *c, const char *method, json_object *parameters, uint64_t timeout_usec,
                        VarlinkReply *ret, Error *e)
{
        if (c->n_pending > 0)
                return error_set(e, -EBUSY, "Another call waits for a reply");
        int r = varlink_client_send(c, method, parameters, 0);
        if (r < 0)
                return error_set_errno(e, r, "Cannot call '%s'", method);
        return varlink_client_next(c, timeout_usec, ret, e);
}

/* --- In the event loop --------------------------------------------------------------------------------- */

static void on_message(void *userdata, json_object *message, VarlinkFds *fds)
{
        _cleanup_(varlink_reply_done) VarlinkReply reply = {};
        VarlinkClient *c = userdata;

        int r = read_reply(c, message, fds, &reply);
        if (r < 0)
                link_break(&c->link, r);
        else
                c->function(c, r, &reply, c->userdata);
}

static void on_end(void *userdata, int reason)
{
        VarlinkClient *c = userdata;

        link_break(&c->link, reason);
        c->function(c, reason, NULL, c->userdata);
}

int varlink_client_attach(VarlinkClient *c, sd_event *event, VarlinkReplyFunction function, void *userdata)
{
        c->function = function;
        c->userdata = userdata;
        return link_attach(&c->link, event, on_message, on_end, c);
}
