/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A call on the side of the service: finding its method, and its replies.
 *
 * A connection has at most one unanswered call, and is not read until that is answered. A call is
 * reference-counted, and may outlive its connection. */

#include "varlink/varlink-internal.h"

/* No further reply is sent for this call. */
static void finish(VarlinkCall *c)
{
        Connection *k = TAKE_PTR(c->connection);

        c->answered = true;
        if (!k)
                return;
        k->call = NULL;
        connection_touch(k);
        connection_settle(k);
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

bool varlink_call_is_gone(const VarlinkCall *c)
{
        return !c->connection && !c->answered && !c->oneway;
}

VarlinkCall *varlink_call_ref(VarlinkCall *c)
{
        c->n_ref++;
        return c;
}

VarlinkCall *varlink_call_unref(VarlinkCall *c)
{
        if (!c || --c->n_ref > 0)
                return NULL;
        if (c->connection && varlink_reply_errno(c, -ECANCELED) < 0 && c->connection)
                link_break(&c->connection->link);
        finish(c);
        fd_list_done(&c->fds);
        fd_list_done(&c->reply_fds);
        json_object_put(c->message);
        free(c);
        return NULL;
}

/* --- Replies ------------------------------------------------------------------------------------------- */

static int reply(VarlinkCall *c, const char *error, json_object *parameters, bool continues)
{
        _cleanup_json_ json_object *m = json_object_new_object();

        if (c->answered)
                return -EALREADY;
        if (!c->connection)
                return -ECONNRESET;
        if (continues && !c->more)
                return -EINVAL;
        if ((error && json_member_add_text(m, "error", error) < 0) ||
            message_add_parameters(m, parameters) < 0 ||
            (continues && json_member_add(m, "continues", json_object_new_boolean(true)) < 0))
                return -ENOMEM;
        int r = c->oneway ? 0 : link_send(&c->connection->link, m, &c->reply_fds);
        if (r == -ENOMEM || r == -EMSGSIZE)
                return r;
        if (r < 0)
                link_break(&c->connection->link);
        else
                fd_list_done(&c->reply_fds);
        connection_settle(c->connection);
        if (r < 0)
                return r == -ENOBUFS ? r : -ECONNRESET;
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

size_t varlink_call_unsent(const VarlinkCall *c)
{
        return c->connection ? c->connection->link.out_size : 0;
}

pid_t varlink_call_peer(const VarlinkCall *c)
{
        return c->connection ? c->connection->pid : 0;
}

int call_refuse(VarlinkCall *c, const char *error, const char *key, const char *value)
{
        _cleanup_json_ json_object *parameters = json_new_text_member(key, value);

        return parameters ? reply(c, error, parameters, false) : -ENOMEM;
}

int varlink_reply_invalid_parameter(VarlinkCall *c, const char *parameter)
{
        return call_refuse(c, VARLINK_SERVICE "InvalidParameter", "parameter", parameter);
}

int varlink_reply_errno(VarlinkCall *c, int code)
{
        _cleanup_json_ json_object *o = json_new_text_member("origin", "linux");
        const char *name = strerrorname_np(-code);

        if (json_member_add(o, "errno", json_object_new_int(-code)) < 0 ||
            (name && json_member_add_text(o, "errnoName", name) < 0))
                return -ENOMEM;
        return reply(c, "io.systemd.System", o, false);
}

/* --- Methods ------------------------------------------------------------------------------------------- */

static const VarlinkMethod *find_method(const VarlinkInterface *i, const char *name)
{
        for (const VarlinkMethod *m = i->methods; m < i->methods + i->n_methods; m++)
                if (streq(m->name, name))
                        return m;
        return NULL;
}

static int call_method(const VarlinkServer *s, VarlinkCall *c, json_object *parameters)
{
        const char *dot = strrchr(c->method, '.') ?: c->method, *type;
        _cleanup_free_ char *name = strndup(c->method, (size_t) (dot - c->method));
        char where[IDL_NAME_MAX];

        if (!name)
                return -ENOMEM;
        const Interface *i = find_interface(s, name);
        if (!i)
                return call_refuse(c, VARLINK_SERVICE "InterfaceNotFound", "interface", name);
        if (idl_find(i->table->description, "method", dot + 1, &type) < 0)
                return call_refuse(c, VARLINK_SERVICE "MethodNotFound", "method", c->method);
        const VarlinkMethod *m = find_method(i->table, dot + 1);
        if (!m)
                return call_refuse(c, VARLINK_SERVICE "MethodNotImplemented", "method", c->method);
        if (m->flags & VARLINK_METHOD_MORE && !c->more)
                return varlink_reply_error(c, VARLINK_SERVICE "ExpectedMore", NULL);
        int r = idl_compare(i->table->description, type, parameters, where);
        if (r < 0)
                return r == -EINVAL ? varlink_reply_invalid_parameter(c, where) : r;
        if (!(m->flags & VARLINK_METHOD_FDS))
                fd_list_done(&c->fds);
        return m->function(c, parameters, i->userdata);
}

int call_dispatch(Connection *k, json_object *message, FdList *fds)
{
        _cleanup_(varlink_call_unrefp) VarlinkCall *c = NULL;
        json_object *method, *parameters, *more, *oneway, *upgrade;

        if (json_member_read(message, "method", json_type_string, "", &method, NULL) < 0 || !method ||
            json_member_read(message, "parameters", json_type_object, "", &parameters, NULL) < 0 ||
            json_member_read(message, "more", json_type_boolean, "", &more, NULL) < 0 ||
            json_member_read(message, "oneway", json_type_boolean, "", &oneway, NULL) < 0 ||
            json_member_read(message, "upgrade", json_type_boolean, "", &upgrade, NULL) < 0 ||
            json_object_get_boolean(upgrade) ||
            (json_object_get_boolean(more) && json_object_get_boolean(oneway)))
                return -EBADMSG;
        if (!parameters && message_add_parameters(message, NULL) < 0)
                return -ENOMEM;
        c = calloc(1, sizeof(VarlinkCall));
        if (!c)
                return -ENOMEM;
        *c = (VarlinkCall){.method = json_object_get_string(method),
                           .more = json_object_get_boolean(more),
                           .oneway = json_object_get_boolean(oneway),
                           .fds = *fds,
                           .n_ref = 1,
                           .connection = k,
                           .message = json_object_get(message)};
        fds->n = 0;
        k->call = c;
        int r = call_method(k->server, c, json_object_object_get(message, "parameters"));
        if (r < 0 && !c->answered)
                (void) varlink_reply_errno(c, r);
        return 0;
}
