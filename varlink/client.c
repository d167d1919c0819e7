/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A client that waits for its replies. It has at most one call at a time. */

#include <poll.h>

#include "varlink/varlink-internal.h"

struct VarlinkClient {
        Link link;
        const Operation *operation;
        FdList pushed;
        bool pending, more; /* a call waits for one reply; for several */
        bool broken;        /* the connection has failed and cannot be used */
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
        fd_list_done(&c->pushed);
        free(c);
        return NULL;
}

int varlink_client_fd(const VarlinkClient *c)
{
        return c->link.fd;
}

int varlink_client_push_fd(VarlinkClient *c, int fd)
{
        return fd_list_push(&c->pushed, fd);
}

int varlink_client_send(VarlinkClient *c, const char *method, json_object *parameters, bool more, Error *e)
{
        _cleanup_json_ json_object *m = json_new_text_member("method", method);

        if (message_add_parameters(m, parameters) < 0 ||
            (more && json_member_add(m, "more", json_object_new_boolean(true)) < 0))
                return error_oom(e);
        int r = c->broken ? -ENOTCONN : c->pending ? -EBUSY : link_send(&c->link, m, &c->pushed);
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
        fd_list_done(&r->fds);
        *r = (VarlinkReply){};
}

/* Parses MESSAGE, which belongs to *RET from now on. */
static int read_reply(VarlinkClient *c, VarlinkReply *ret)
{
        json_object *error, *parameters, *continues;

        if (json_member_read(ret->message, "error", json_type_string, "", &error, NULL) < 0 ||
            json_member_read(ret->message, "parameters", json_type_object, "", &parameters, NULL) < 0 ||
            json_member_read(ret->message, "continues", json_type_boolean, "", &continues, NULL) < 0)
                return -EBADMSG;
        if (!parameters && message_add_parameters(ret->message, NULL) < 0)
                return -ENOMEM;
        ret->parameters = json_object_object_get(ret->message, "parameters");
        ret->error = json_object_get_string(error);
        ret->continues = json_object_get_boolean(continues);
        if (ret->continues && (error || !c->more))
                return -EBADMSG;
        c->pending = ret->continues;
        return 0;
}

/* Waits for a message, and writes what is queued meanwhile. */
static int wait_for_message(Link *l, const Operation *o, uint64_t timeout_usec, VarlinkReply *reply,
                            Error *e)
{
        uint64_t deadline = deadline_after(timeout_usec);

        for (;;) {
                int r = link_receive(l, &reply->message, &reply->fds);
                if (r != -EAGAIN)
                        return r != 0 ? r : -ECONNRESET;
                r = link_flush(l);
                if (r < 0 && r != -EPIPE)
                        return r;
                r = operation_poll(o, l->fd, (short) (POLLIN | (l->out ? POLLOUT : 0)),
                                   deadline_left_msec(deadline), e);
                if (r <= 0)
                        return r < 0 ? r : -ETIMEDOUT;
        }
}

int varlink_client_next(VarlinkClient *c, uint64_t timeout_usec, VarlinkReply *ret, Error *e)
{
        _cleanup_(varlink_reply_done) VarlinkReply reply = {};

        if (!c->pending)
                return error_set(e, -ENODATA, "No call waits for a reply");
        int r = wait_for_message(&c->link, c->operation, timeout_usec, &reply, e);
        if (r > 0)
                r = read_reply(c, &reply);
        if (operation_ended(r))
                return r; /* with a message */
        if (r == -ETIMEDOUT)
                return error_set(e, r, "The service did not answer in time");
        if (r < 0) {
                /* The descriptor stays open until the client is freed: the caller may watch it, and has to free its event
                 * source first. */
                link_break(&c->link);
                c->pending = false;
                c->broken = true;
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
