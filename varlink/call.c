/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A call and its replies, on the side of the service.
 *
 * A connection has at most one call that is not answered; until it is, no message is taken from it. The call
 * belongs to those who hold references; it outlives its connection if it has to.
 */

#include "varlink/varlink-internal.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

int call_new(Connection *k, const char *method, json_object *parameters, VarlinkFds *fds, VarlinkCall **ret)
{
        VarlinkCall *c = calloc(1, sizeof(VarlinkCall));
        char *name = c ? strdup(method) : NULL;
        json_object *o = name ? (parameters ? json_object_get(parameters) : json_object_new_object()) : NULL;

        if (!o) {
                free(name);
                free(c);
                return -ENOMEM;
        }
        *c = (VarlinkCall){.n_ref = 1, .connection = k, .method = name, .parameters = o, .peer = k->peer};
        c->fds = *fds;
        fds->n = 0;
        *ret = c;
        return 0;
}

/* Nothing more is said to the peer about this call. */
static void finish(VarlinkCall *c)
{
        Connection *k = TAKE_PTR(c->connection);

        c->answered = true;
        if (!k)
                return;
        k->call = NULL;
        link_hold(&k->link, false, false);
}

void call_gone(VarlinkCall *c)
{
        c->connection = NULL;
        if (!c->on_gone || c->oneway)
                return;
        varlink_call_ref(c);
        c->on_gone(c, c->userdata);
        varlink_call_unref(c);
}

VarlinkCall *varlink_call_ref(VarlinkCall *c)
{
        c->n_ref++;
        return c;
}

VarlinkCall *varlink_call_unref(VarlinkCall *c)
{
        if (!c)
                return NULL;
        if (c->n_ref == 1 && c->connection && varlink_reply_errno(c, -ECANCELED) < 0 && c->connection)
                link_break(&c->connection->link, -ENOMEM);
        if (--c->n_ref > 0)
                return NULL;
        if (c->connection)
                finish(c);
        varlink_fds_done(&c->fds);
        varlink_fds_done(&c->pushed);
        json_object_put(c->parameters);
        free(c->method);
        free(c);
        return NULL;
}

const char *varlink_call_method(const VarlinkCall *c)
{
        return c->method;
}

bool varlink_call_more(const VarlinkCall *c)
{
        return c->more;
}

bool varlink_call_oneway(const VarlinkCall *c)
{
        return c->oneway;
}

const struct ucred *varlink_call_peer(const VarlinkCall *c)
{
        return &c->peer;
}

int varlink_call_peer_pidfd(const VarlinkCall *c)
{
        int fd = -EBADF;
        socklen_t size = sizeof(fd);

        if (!c->connection)
                return -ECONNRESET;
        if (getsockopt(c->connection->link.fd, SOL_SOCKET, SO_PEERPIDFD, &fd, &size) >= 0)
                return fd;
        return errno == ENOPROTOOPT ? -EOPNOTSUPP : errno == EINVAL ? -ESRCH : -errno;
}

VarlinkFds *varlink_call_fds(VarlinkCall *c)
{
        return &c->fds;
}

void varlink_call_on_gone(VarlinkCall *c, void (*function)(VarlinkCall *c, void *userdata), void *userdata)
{
        c->on_gone = function;
        c->userdata = userdata;
}

int varlink_call_push_fd(VarlinkCall *c, int fd)
{
        return varlink_fds_push(&c->pushed, fd);
}

/* --- Replies ------------------------------------------------------------------------------------------- */

json_object *message_one_string(const char *key, const char *value)
{
        _cleanup_json_ json_object *o = json_object_new_object();

        return json_member_add_text(o, key, value) < 0 ? NULL : TAKE_PTR(o);
}

/* Whether PARAMETERS are what the description says: of a reply, or of an error of this interface. */
static bool is_described(const VarlinkCall *c, const char *error, json_object *parameters)
{
        char where[IDL_WHERE_MAX];
        size_t node = c->reply;

        if (!c->idl)
                return true;
        if (error) {
                const IdlNode *i = c->idl->nodes;
                if (strncmp(error, i->name, i->name_size) != 0 || error[i->name_size] != '.')
                        return true;
                const char *name = error + i->name_size + 1;
                node = c->idl->nodes[idl_find(c->idl, 0, IDL_ERROR, name, strlen(name))].child;
                if (c->idl->nodes[node].kind != IDL_STRUCT)
                        return false; /* the interface has no such error */
        }
        return idl_matches(c->idl, node, parameters, where);
}

static int reply(VarlinkCall *c, const char *error, json_object *parameters, bool continues)
{
        _cleanup_json_ json_object *m = json_object_new_object(), *p = NULL;

        if (c->answered)
                return -EALREADY;
        if (!c->connection)
                return -ECONNRESET;
        if (continues && !c->more)
                return -EINVAL;
        p = parameters ? json_object_get(parameters) : json_object_new_object();
        if (!m || !p)
                return -ENOMEM;
        if (!is_described(c, error, p))
                return -EINVAL;
        if (!c->oneway) {
                if ((error && json_member_add_text(m, "error", error) < 0) ||
                    json_member_add(m, "parameters", json_object_get(p)) < 0 ||
                    (continues && json_member_add(m, "continues", json_object_new_boolean(true)) < 0))
                        return -ENOMEM;
                int r = link_send(&c->connection->link, m, &c->pushed);
                if (r < 0)
                        return r;
        }
        varlink_fds_done(&c->pushed);
        if (!continues)
                finish(c);
        return 0;
}

int varlink_reply(VarlinkCall *c, json_object *parameters)
{
        return reply(c, NULL, parameters, false);
}

int varlink_reply_continues(VarlinkCall *c, json_object *parameters)
{
        return reply(c, NULL, parameters, true);
}

int varlink_reply_error(VarlinkCall *c, const char *error, json_object *parameters)
{
        return reply(c, error, parameters, false);
}

int call_refuse(VarlinkCall *c, const char *error, const char *key, const char *value)
{
        _cleanup_json_ json_object *parameters = message_one_string(key, value);
        char name[64];

        if (!parameters)
                return -ENOMEM;
        snprintf(name, sizeof(name), "org.varlink.service.%s", error);
        return reply(c, name, parameters, false);
}

int varlink_reply_invalid_parameter(VarlinkCall *c, const char *parameter)
{
        return call_refuse(c, "InvalidParameter", "parameter", parameter);
}

int varlink_reply_errno(VarlinkCall *c, int code)
{
        _cleanup_json_ json_object *o = json_object_new_object();
        const char *name = strerrorname_np(-code);

        if (json_member_add_text(o, "origin", "linux") < 0 ||
            json_member_add(o, "errno", json_object_new_int(-code)) < 0 ||
            (name && json_member_add_text(o, "errnoName", name) < 0))
                return -ENOMEM;
        return reply(c, "io.systemd.System", o, false);
}
