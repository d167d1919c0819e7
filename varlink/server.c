/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Services: their socket, connections and interfaces.
 *
 * A connection takes turns: a call is read only when the one before is answered and the peer has read all
 * replies. So a peer that does not read its replies is not served, and what is queued for it is one reply, or
 * those of a call with "more". A connection ends from the event loop only; what is found out elsewhere shuts
 * the socket down, which the event loop reports.
 */

#include <sys/epoll.h>
#include <sys/socket.h>

#include "varlink/varlink-internal.h"

#define MESSAGE_USEC (30U * 1000000U)

/* --- org.varlink.service ------------------------------------------------------------------------------- */

const Interface *find_interface(const VarlinkServer *s, const char *name, size_t size)
{
        for (const Interface *i = s->interfaces; i < s->interfaces + s->n_interfaces; i++)
                if (strlen(i->table->name) == size && memcmp(i->table->name, name, size) == 0)
                        return i;
        return NULL;
}

static int get_info(VarlinkCall *c, json_object *parameters, void *userdata)
{
        VarlinkServer *s = userdata;
        _cleanup_json_ json_object *reply = json_object_new_object();
        json_object *names = json_object_new_array();

        for (size_t i = 0; i < s->n_interfaces; i++)
                if (json_list_append(names, json_object_new_string(s->interfaces[i].table->name)) < 0) {
                        json_object_put(names);
                        return -ENOMEM;
                }
        if (json_member_add(reply, "interfaces", names) < 0 ||
            json_member_add_text(reply, "vendor", s->product) < 0 ||
            json_member_add_text(reply, "product", s->product) < 0 ||
            json_member_add_text(reply, "version", s->version) < 0 ||
            json_member_add_text(reply, "url", "") < 0)
                return -ENOMEM;
        return varlink_reply(c, reply);
}

static int get_description(VarlinkCall *c, json_object *parameters, void *userdata)
{
        const char *name = json_object_get_string(json_object_object_get(parameters, "interface"));
        const Interface *i = find_interface(userdata, name, strlen(name));

        if (!i)
                return call_refuse(c, "InterfaceNotFound", "interface", name);
        _cleanup_json_ json_object *reply = message_one_string("description", i->table->description);
        return reply ? varlink_reply(c, reply) : -ENOMEM;
}

static const VarlinkMethod service_methods[] = {
                {"GetInfo", get_info, 0},
                {"GetInterfaceDescription", get_description, 0},
};

static const VarlinkInterface service_interface = {
                .name = "org.varlink.service",
                .description = "# What every Varlink service offers: information about itself and its "
                               "interfaces.\n"
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
                               "error ExpectedMore ()\n",
                .methods = service_methods,
                .n_methods = ELEMENTSOF(service_methods),
};

/* --- Connections --------------------------------------------------------------------------------------- */

static void disconnect(Connection *k)
{
        Connection **i = &k->server->connections;

        while (*i != k)
                i = &(*i)->next;
        *i = k->next;
        k->server->n_connections--;
        sd_event_source_disable_unref(k->io);
        sd_event_source_disable_unref(k->timer);
        link_done(&k->link);
        if (k->call)
                call_gone(k->call);
        free(k);
}

void connection_settle(Connection *k)
{
        bool reads = !k->call && !k->link.out, timed = k->link.out || (reads && k->link.in_size > 0);

        (void) sd_event_source_set_io_events(k->io, (reads ? EPOLLIN : 0) | (k->link.out ? EPOLLOUT : 0));
        /* A call without reply goes on when its peer has gone, which would be reported all the time. */
        (void) sd_event_source_set_enabled(k->io, k->call && k->call->oneway ? SD_EVENT_OFF : SD_EVENT_ON);
        if (timed && !k->timed)
                (void) sd_event_source_set_time_relative(k->timer, k->server->message_usec);
        (void) sd_event_source_set_enabled(k->timer, timed ? SD_EVENT_ONESHOT : SD_EVENT_OFF);
        k->timed = timed;
}

static int read_or_write(Connection *k)
{
        _cleanup_json_ json_object *message = NULL;
        _cleanup_(varlink_fds_done) VarlinkFds fds = {};

        if (k->link.out) {
                int r = link_flush(&k->link);
                k->timed = k->timed && r == 0;
                return r;
        }
        if (k->call) /* only the end of the peer is reported then */
                return -ECONNRESET;
        int r = link_receive(&k->link, &message, &fds);
        if (r <= 0)
                return r < 0 ? r : -ECONNRESET;
        k->timed = false;
        return call_dispatch(k, message, &fds);
}

static int on_io(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        Connection *k = userdata;
        int r = read_or_write(k);

        if (r < 0 && r != -EAGAIN)
                disconnect(k);
        else
                connection_settle(k);
        return 0;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
        disconnect(userdata);
        return 0;
}

static bool is_full(const VarlinkServer *s, uid_t uid)
{
        size_t n = 0;

        if (uid == 0 || uid == geteuid())
                return s->n_connections >= VARLINK_CONNECTIONS_MAX;
        for (const Connection *k = s->connections; k; k = k->next)
                n += k->uid == uid;
        return s->n_connections >= VARLINK_CONNECTIONS_MAX * 3 / 4 || n >= VARLINK_CONNECTIONS_PER_USER;
}

int varlink_server_add_connection(VarlinkServer *s, int fd)
{
        struct ucred peer;
        socklen_t size = sizeof(peer);
        int r = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 ? -errno : 0;

        if (r >= 0 && is_full(s, peer.uid))
                r = -EUSERS;
        Connection *k = r < 0 ? NULL : calloc(1, sizeof(Connection));
        if (!k) {
                safe_close(fd);
                return r < 0 ? r : -ENOMEM;
        }
        *k = (Connection){.server = s, .uid = peer.uid, .next = s->connections};
        link_init(&k->link, fd);
        s->connections = k;
        s->n_connections++;
        r = sd_event_add_io(s->event, &k->io, fd, EPOLLIN, on_io, k);
        if (r >= 0)
                r = sd_event_add_time_relative(s->event, &k->timer, CLOCK_MONOTONIC, 0, 0, on_timer, k);
        if (r >= 0)
                connection_settle(k);
        else
                disconnect(k);
        return r;
}

/* --- Services ------------------------------------------------------------------------------------------ */

static int on_connection(sd_event_source *source, int listen_fd, uint32_t revents, void *userdata)
{
        int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);

        if (fd >= 0)
                (void) varlink_server_add_connection(userdata, fd);
        return 0;
}

int varlink_server_listen(VarlinkServer *s, int listen_fd)
{
        int r = sd_event_add_io(s->event, &s->listener, listen_fd, EPOLLIN, on_connection, s);

        if (r < 0) {
                safe_close(listen_fd);
                return r;
        }
        (void) sd_event_source_set_io_fd_own(s->listener, true);
        /* Also for when no descriptors are left, and a connection stays where it is. */
        return sd_event_source_set_ratelimit(s->listener, 100000, 50);
}

int varlink_server_add_interface(VarlinkServer *s, const VarlinkInterface *table, void *userdata, Error *e)
{
        const char *p;

        if (idl_find(table->description, "", "", &p) != -ENOENT)
                return error_set(e, -EBADMSG, "The description of interface '%s' is not valid", table->name);
        for (size_t i = 0; i < table->n_methods; i++)
                if (idl_find(table->description, "method", table->methods[i].name, &p) < 0)
                        return error_set(e, -EINVAL, "Interface '%s' does not describe method '%s'",
                                         table->name, table->methods[i].name);
        if (s->n_interfaces == ELEMENTSOF(s->interfaces))
                return error_set(e, -E2BIG, "There are too many interfaces");
        s->interfaces[s->n_interfaces++] = (Interface){.table = table, .userdata = userdata};
        return 0;
}

int varlink_server_new(sd_event *event, const char *product, const char *version, VarlinkServer **ret,
                       Error *e)
{
        _cleanup_(varlink_server_freep) VarlinkServer *s = calloc(1, sizeof(VarlinkServer));

        if (!s)
                return error_oom(e);
        *s = (VarlinkServer){.event = event,
                             .product = product,
                             .version = version,
                             .message_usec = MESSAGE_USEC};
        int r = varlink_server_add_interface(s, &service_interface, s, e);
        if (r >= 0)
                *ret = TAKE_PTR(s);
        return r;
}

VarlinkServer *varlink_server_free(VarlinkServer *s)
{
        if (!s)
                return NULL;
        sd_event_source_disable_unref(s->listener);
        while (s->connections)
                disconnect(s->connections);
        free(s);
        return NULL;
}
