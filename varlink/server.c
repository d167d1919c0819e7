/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Services: their sockets, connections and interfaces, and how a message finds its method. */

#include <sys/epoll.h>

#include "varlink/varlink-internal.h"

typedef struct Interface {
        const VarlinkInterface *table;
        Idl *idl;
        void *userdata;
} Interface;

struct VarlinkServer {
        sd_event *event;
        VarlinkServerOptions options;
        Interface *interfaces;
        size_t n_interfaces, n_allocated;
        sd_event_source **listeners;
        size_t n_listeners, n_listeners_allocated;
        Connection *connections;
        size_t n_connections;
};

/* --- org.varlink.service ------------------------------------------------------------------------------- */

static const char service_description[] =
                "# What every Varlink service offers: information about itself and its interfaces.\n"
                "interface org.varlink.service\n"
                "\n"
                "# The service, and the names of its interfaces.\n"
                "method GetInfo() -> (\n"
                "  vendor: string,\n"
                "  product: string,\n"
                "  version: string,\n"
                "  url: string,\n"
                "  interfaces: []string\n"
                ")\n"
                "\n"
                "# The description of an interface, as a text like this one.\n"
                "method GetInterfaceDescription(interface: string) -> (description: string)\n"
                "\n"
                "error InterfaceNotFound (interface: string)\n"
                "error MethodNotFound (method: string)\n"
                "error MethodNotImplemented (method: string)\n"
                "error InvalidParameter (parameter: string)\n"
                "error PermissionDenied ()\n"
                "error ExpectedMore ()\n";

static const Interface *find_interface(const VarlinkServer *s, const char *name, size_t size)
{
        for (size_t i = 0; i < s->n_interfaces; i++) {
                const IdlNode *n = s->interfaces[i].idl->nodes;
                if (n->name_size == size && memcmp(n->name, name, size) == 0)
                        return s->interfaces + i;
        }
        return NULL;
}

static int get_info(VarlinkCall *c, json_object *parameters, void *userdata)
{
        VarlinkServer *s = userdata;
        const VarlinkServerOptions *o = &s->options;
        _cleanup_json_ json_object *reply = json_object_new_object();
        json_object *names = json_object_new_array();

        for (const Interface *i = s->interfaces; names && i < s->interfaces + s->n_interfaces; i++) {
                const IdlNode *n = i->idl->nodes;
                if (json_list_append(names, json_object_new_string_len(n->name, (int) n->name_size)) < 0) {
                        json_object_put(names);
                        names = NULL;
                }
        }
        if (json_member_add(reply, "interfaces", names) < 0 ||
            json_member_add_text(reply, "vendor", o->vendor ?: "") < 0 ||
            json_member_add_text(reply, "product", o->product ?: "") < 0 ||
            json_member_add_text(reply, "version", o->version ?: "") < 0 ||
            json_member_add_text(reply, "url", o->url ?: "") < 0)
                return -ENOMEM;
        return varlink_reply(c, reply);
}

static int get_description(VarlinkCall *c, json_object *parameters, void *userdata)
{
        json_object *name = json_object_object_get(parameters, "interface");
        const Interface *i = find_interface(userdata, json_object_get_string(name),
                                            (size_t) json_object_get_string_len(name));
        _cleanup_json_ json_object *reply = NULL;

        if (!i)
                return call_refuse(c, "InterfaceNotFound", "interface", json_object_get_string(name));
        reply = message_one_string("description", i->table->description);
        return reply ? varlink_reply(c, reply) : -ENOMEM;
}

static const VarlinkMethod service_methods[] = {
                {"GetInfo", get_info, 0},
                {"GetInterfaceDescription", get_description, 0},
};
static const VarlinkInterface service_interface = {
                .description = service_description,
                .methods = service_methods,
                .n_methods = ELEMENTSOF(service_methods),
};

/* --- Connections --------------------------------------------------------------------------------------- */

static void on_end(void *userdata, int reason)
{
        Connection *k = userdata, **i = &k->server->connections;
        VarlinkServer *s = k->server;

        while (*i != k)
                i = &(*i)->next;
        *i = k->next;
        s->n_connections--;
        link_done(&k->link);
        if (k->call)
                call_gone(k->call);
        free(k);
        if (s->n_connections == 0 && s->options.on_idle)
                s->options.on_idle(s->options.userdata);
}

static bool is_privileged(const struct ucred *peer)
{
        return peer->uid == 0 || peer->uid == geteuid();
}

static bool is_full(const VarlinkServer *s, const struct ucred *peer)
{
        size_t n = 0, max = s->options.limits.connections;

        if (is_privileged(peer))
                return s->n_connections >= max;
        for (const Connection *k = s->connections; k; k = k->next)
                n += k->peer.uid == peer->uid;
        return s->n_connections >= max - max / 4 || n >= s->options.limits.connections_per_user;
}

static int call_method(VarlinkServer *s, VarlinkCall *c, bool upgrade)
{
        const char *dot = strrchr(c->method, '.') ?: c->method;
        size_t size = (size_t) (dot - c->method);
        const Interface *i = find_interface(s, c->method, size);
        const VarlinkMethod *m = NULL;
        char where[IDL_WHERE_MAX];

        if (!i) {
                _cleanup_free_ char *name = strndup(c->method, size);
                return name ? call_refuse(c, "InterfaceNotFound", "interface", name) : -ENOMEM;
        }
        size_t node = idl_find(i->idl, 0, IDL_METHOD, dot + 1, strlen(dot + 1));
        if (node == 0)
                return call_refuse(c, "MethodNotFound", "method", c->method);
        for (size_t k = 0; k < i->table->n_methods; k++)
                if (streq(i->table->methods[k].name, dot + 1))
                        m = i->table->methods + k;
        if (!m || upgrade)
                return call_refuse(c, "MethodNotImplemented", "method", c->method);
        if (m->flags & VARLINK_METHOD_PRIVILEGED && !is_privileged(&c->peer))
                return varlink_reply_error(c, VARLINK_ERROR_PERMISSION_DENIED, NULL);
        if (m->flags & VARLINK_METHOD_MORE && !c->more)
                return varlink_reply_error(c, "org.varlink.service.ExpectedMore", NULL);
        if (!idl_matches(i->idl, i->idl->nodes[node].child, c->parameters, where))
                return varlink_reply_invalid_parameter(c, where);
        if (!(m->flags & VARLINK_METHOD_FDS))
                varlink_fds_done(&c->fds);
        c->idl = i->idl;
        c->reply = i->idl->nodes[i->idl->nodes[node].child].next;
        return m->function(c, c->parameters, i->userdata);
}

static int read_call(Connection *k, json_object *message, VarlinkFds *fds, bool *ret_upgrade,
                     VarlinkCall **ret)
{
        const char *method = NULL;
        json_object *parameters = NULL;
        bool more = false, oneway = false, upgrade = false;
        const MessageField fields[] = {
                        {"method", json_type_string, &method},
                        {"parameters", json_type_object, &parameters},
                        {"more", json_type_boolean, &more},
                        {"oneway", json_type_boolean, &oneway},
                        {"upgrade", json_type_boolean, &upgrade},
        };

        int r = message_read(message, fields, ELEMENTSOF(fields));
        if (r < 0)
                return r;
        if (!method || more + oneway + upgrade > 1)
                return -EBADMSG;
        r = call_new(k, method, parameters, fds, ret);
        if (r < 0)
                return r;
        (*ret)->more = more;
        (*ret)->oneway = oneway;
        *ret_upgrade = upgrade;
        return 0;
}

static void on_message(void *userdata, json_object *message, VarlinkFds *fds)
{
        _cleanup_(varlink_call_unrefp) VarlinkCall *c = NULL;
        Connection *k = userdata;
        bool upgrade;

        int r = read_call(k, message, fds, &upgrade, &c);
        if (r < 0) {
                link_break(&k->link, r);
                return;
        }
        k->call = c;
        link_hold(&k->link, true, c->oneway);
        r = call_method(k->server, c, upgrade);
        if (r < 0 && !c->answered)
                (void) varlink_reply_errno(c, r);
}

int varlink_server_add_connection(VarlinkServer *s, int fd)
{
        struct ucred peer;
        socklen_t size = sizeof(peer);

        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) {
                int r = -errno;
                safe_close(fd);
                return r;
        }
        Connection *k = is_full(s, &peer) ? NULL : calloc(1, sizeof(Connection));
        if (!k) {
                safe_close(fd);
                return is_full(s, &peer) ? -EUSERS : -ENOMEM;
        }
        *k = (Connection){.server = s, .peer = peer};
        int r = link_init(&k->link, fd, &s->options.limits);
        if (r >= 0)
                r = link_attach(&k->link, s->event, on_message, on_end, k);
        if (r < 0) {
                link_done(&k->link);
                free(k);
                return r;
        }
        k->next = s->connections;
        s->connections = k;
        s->n_connections++;
        return 0;
}

/* --- Services ------------------------------------------------------------------------------------------ */

static int on_connection(sd_event_source *source, int listen_fd, uint32_t revents, void *userdata)
{
        int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd >= 0)
                (void) varlink_server_add_connection(userdata, fd);
        return 0;
}

int varlink_server_listen(VarlinkServer *s, int listen_fd)
{
        int flags = fcntl(listen_fd, F_GETFL);

        if (flags < 0 || fcntl(listen_fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
            fcntl(listen_fd, F_SETFD, FD_CLOEXEC) < 0) {
                int r = -errno;
                safe_close(listen_fd);
                return r;
        }
        int r = GREEDY_REALLOC(s->listeners, s->n_listeners_allocated, s->n_listeners + 1);
        if (r >= 0)
                r = sd_event_add_io(s->event, s->listeners + s->n_listeners, listen_fd, EPOLLIN,
                                    on_connection, s);
        if (r < 0) {
                safe_close(listen_fd);
                return r;
        }
        sd_event_source *source = s->listeners[s->n_listeners++];
        (void) sd_event_source_set_io_fd_own(source, true);
        /* Also for when no descriptors are left, and a connection stays where it is. */
        return sd_event_source_set_ratelimit(source, 100000, 50);
}

int varlink_server_add_interface(VarlinkServer *s, const VarlinkInterface *table, void *userdata, Error *e)
{
        _cleanup_(idl_freep) Idl *idl = NULL;
        int r = idl_parse(table->description, &idl, e);

        if (r < 0)
                return r;
        if (find_interface(s, idl->nodes->name, idl->nodes->name_size))
                return error_set(e, -EEXIST, "Interface '%.*s' is there already",
                                 (int) idl->nodes->name_size, idl->nodes->name);
        for (size_t i = 0; i < table->n_methods; i++)
                if (idl_find(idl, 0, IDL_METHOD, table->methods[i].name, strlen(table->methods[i].name)) ==
                    0)
                        return error_set(e, -EINVAL, "Interface '%.*s' does not describe method '%s'",
                                         (int) idl->nodes->name_size, idl->nodes->name,
                                         table->methods[i].name);
        if (GREEDY_REALLOC(s->interfaces, s->n_allocated, s->n_interfaces + 1) < 0)
                return error_oom(e);
        s->interfaces[s->n_interfaces++] =
                        (Interface){.table = table, .idl = TAKE_PTR(idl), .userdata = userdata};
        return 0;
}

int varlink_server_new(sd_event *event, const VarlinkServerOptions *options, VarlinkServer **ret, Error *e)
{
        _cleanup_(varlink_server_freep) VarlinkServer *s = calloc(1, sizeof(VarlinkServer));

        if (!s)
                return error_oom(e);
        s->event = event;
        s->options = *options;
        s->options.limits.connections = s->options.limits.connections ?: 128;
        s->options.limits.connections_per_user = s->options.limits.connections_per_user ?: 16;
        int r = library_load(&systemd_library, e);
        if (r < 0)
                return r;
        r = varlink_server_add_interface(s, &service_interface, s, e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(s);
        return 0;
}

VarlinkServer *varlink_server_free(VarlinkServer *s)
{
        if (!s)
                return NULL;
        s->options.on_idle = NULL;
        for (size_t i = 0; i < s->n_listeners; i++)
                sd_event_source_disable_unref(s->listeners[i]);
        while (s->connections)
                on_end(s->connections, -ECONNRESET);
        for (size_t i = 0; i < s->n_interfaces; i++)
                idl_free(s->interfaces[i].idl);
        free(s->listeners);
        free(s->interfaces);
        free(s);
        return NULL;
}

size_t varlink_server_n_connections(const VarlinkServer *s)
{
        return s->n_connections;
}
