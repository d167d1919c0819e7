/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A client that waits for its replies. It has at most one call at a time. */

#include <poll.h>

#include "varlink/varlink-internal.h"

struct VarlinkClient {
        Link link;
        const Operation *operation;
        VarlinkFds pushed;
        bool pending, more; /* a call waits for one reply; for several */
};

int varlink_client_new(int fd, const Operation *o, VarlinkClient **ret)
{
        VarlinkClient *c = calloc(1, sizeof(VarlinkClient));

        if (!c) {
                safe_close(fd);
                return -ENOMEM;
        }
        link_init(&c->link, fd);
        c->operation = o;
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

int varlink_client_fd(const VarlinkClient *c)
{
        return c->link.fd;
}

int varlink_client_push_fd(VarlinkClient *c, int fd)
{
        return varlink_fds_push(&c->pushed, fd);
}

int varlink_client_send(VarlinkClient *c, const char *method, json_object *parameters, bool more, Error *e)
{
        _cleanup_json_ json_object *m = json_object_new_object();
        json_object *p = parameters ? json_object_get(parameters) : json_object_new_object();

        if (json_member_add(m, "parameters", p) < 0 || json_member_add_text(m, "method", method) < 0 ||
            (more && json_member_add(m, "more", json_object_new_boolean(true)) < 0))
                return error_oom(e);
        int r = c->pending ? -EBUSY : link_send(&c->link, m, &c->pushed);
        if (r < 0 && r != -EPIPE) /* there may still be a reply */
                return error_set_errno(e, r, "Cannot call '%s'", method);
        c->pending = true;
        c->more = more;
        return 0;
}

/* --- Replies ------------------------------------------------------------------------------------------- */

void varlink_reply_done(VarlinkReply *r)
{
        json_object_put(r->message);
        varlink_fds_done(&r->fds);
        *r = (VarlinkReply){};
}

int varlink_reply_to_error(const VarlinkReply *r, Error *e)
{
        if (!r->error)
                return 0;
        if (streq(r->error, "io.systemd.System")) {
                int code = json_object_get_int(json_object_object_get(r->parameters, "errno"));
                return error_set_errno(e, code > 0 && code < 4096 ? -code : -EREMOTEIO,
                                       "The service failed");
        }
        _cleanup_free_ char *error = text_escape_for_terminal(r->error);
        _cleanup_free_ char *parameters = text_escape_for_terminal(
                        json_object_to_json_string_ext(r->parameters, JSON_C_TO_STRING_PLAIN) ?: "");
        return error_set(e, -EREMOTEIO, "The service answered with error '%s' %s", error ?: "",
                         parameters ?: "");
}

/* Parses MESSAGE, which belongs to *RET from now on. */
static int read_reply(VarlinkClient *c, VarlinkReply *ret)
{
        json_object *error, *parameters, *continues;

        if (!message_get(ret->message, "error", json_type_string, &error) ||
            !message_get(ret->message, "parameters", json_type_object, &parameters) ||
            !message_get(ret->message, "continues", json_type_boolean, &continues))
                return -EBADMSG;
        if (!parameters) {
                parameters = json_object_new_object();
                if (json_member_add(ret->message, "parameters", parameters) < 0)
                        return -ENOMEM;
        }
        ret->error = error ? json_object_get_string(error) : NULL;
        ret->parameters = parameters;
        ret->continues = json_object_get_boolean(continues);
        if (ret->continues && (error || !c->more))
                return -EBADMSG;
        c->pending = ret->continues;
        return 0;
}

/* Reads or writes what is possible, or waits until something is. 1: a message is complete. */
static int step(Link *l, const Operation *o, uint64_t deadline, VarlinkReply *reply, Error *e)
{
        uint64_t now = now_usec(CLOCK_MONOTONIC), left = deadline > now ? deadline - now : 0;
        int msec = deadline == UINT64_MAX ? -1 : (int) MIN((left + 999) / 1000, (uint64_t) INT32_MAX);
        int r = link_receive(l, &reply->message, &reply->fds);

        if (r != -EAGAIN)
                return r != 0 ? r : -ECONNRESET;
        r = link_flush(l);
        if (r < 0 && r != -EPIPE)
                return r;
        r = operation_poll(o, l->fd, (short) (POLLIN | (l->out ? POLLOUT : 0)), msec, e);
        return r > 0 ? 0 : r < 0 ? r : -ETIMEDOUT;
}

int varlink_client_next(VarlinkClient *c, uint64_t timeout_usec, VarlinkReply *ret, Error *e)
{
        uint64_t now = now_usec(CLOCK_MONOTONIC);
        uint64_t deadline = timeout_usec > UINT64_MAX - now ? UINT64_MAX : now + timeout_usec;
        _cleanup_(varlink_reply_done) VarlinkReply reply = {};
        int r = 0;

        if (!c->pending)
                return error_set(e, -ENODATA, "No call waits for a reply");
        while (r == 0)
                r = step(&c->link, c->operation, deadline, &reply, e);
        if (r > 0)
                r = read_reply(c, &reply);
        if (operation_ended(r))
                return r; /* with a message */
        if (r == -ETIMEDOUT)
                return error_set(e, r, "The service did not answer in time");
        if (r < 0) {
                link_done(&c->link);
                c->pending = false;
                return error_set_errno(e, r, "No valid reply came from the service");
        }
        *ret = reply;
        reply = (VarlinkReply){};
        return 0;
}

int varlink_client_call(VarlinkClient *c, const char *method, json_object *parameters, uint64_t timeout_usec,
                        VarlinkReply *ret, Error *e)
{
        int r = varlink_client_send(c, method, parameters, false, e);

        return r < 0 ? r : varlink_client_next(c, timeout_usec, ret, e);
}
