/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Services: their socket, connections and interfaces.
 *
 * A connection alternates: a call is read only after the previous one is answered and the peer has read all
 * replies. So a peer that does not read its replies is not served, and at most one reply, or those of a call
 * with "more", are queued for it. Connections are closed from the event loop only; code that detects a
 * failure elsewhere shuts the socket down, which the event loop reports.
 *
 * An idle connection does not keep other clients out: when the limit is reached, the server closes the idle connection that
 * was not used for the longest time. Users other than root displace only their own connections. */

#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "varlink/service-interface.h" /* generated from org.varlink.service.varlink */
#include "varlink/varlink-internal.h"

#define MESSAGE_USEC (30U * 1000000U)

/* --- org.varlink.service ------------------------------------------------------------------------------- */

const Interface *find_interface(const VarlinkServer *s, const char *name)
{
        for (const Interface *i = s->interfaces; i < s->interfaces + s->n_interfaces; i++)
                if (streq(i->table->name, name))
                        return i;
        return NULL;
}

static int get_info(VarlinkCall *c, json_object *parameters, void *userdata)
{
        VarlinkServer *s = userdata;
        _cleanup_json_ json_object *reply = json_object_new_object();
        json_object *names = json_object_new_array();

        int r = json_member_add(reply, "interfaces", names);
        for (size_t i = 0; r >= 0 && i < s->n_interfaces; i++)
                r = json_list_append(names, json_object_new_string(s->interfaces[i].table->name));
        if (r < 0 || json_member_add_text(reply, "vendor", s->product) < 0 ||
            json_member_add_text(reply, "product", s->product) < 0 ||
            json_member_add_text(reply, "version", s->version) < 0 ||
            json_member_add_text(reply, "url", "") < 0)
                return -ENOMEM;
        return varlink_reply(c, reply);
}

static int get_description(VarlinkCall *c, json_object *parameters, void *userdata)
{
        const char *name = json_object_get_string(json_object_object_get(parameters, "interface"));
        const Interface *i = find_interface(userdata, name);

        if (!i)
                return call_refuse(c, VARLINK_SERVICE "InterfaceNotFound", "interface", name);
        _cleanup_json_ json_object *reply = json_new_text_member("description", i->table->description);
        return reply ? varlink_reply(c, reply) : -ENOMEM;
}

static const VarlinkMethod service_methods[] = {
                {"GetInfo", get_info, 0},
                {"GetInterfaceDescription", get_description, 0},
};

static const VarlinkInterface service_interface = {.name = "org.varlink.service",
                                                   .description = SERVICE_INTERFACE_DESCRIPTION,
                                                   .methods = service_methods,
                                                   .n_methods = ELEMENTSOF(service_methods)};

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

void connection_touch(Connection *k)
{
        k->used = ++k->server->n_used;
}

void connection_settle(Connection *k)
{
        bool reads = !k->call && !k->link.out, timed = k->link.out || (reads && k->link.in_size > 0);

        (void) sd_event_source_set_io_events(k->io, (reads ? EPOLLIN : 0) | (k->link.out ? EPOLLOUT : 0));
        /* A one-way call continues after its peer has disconnected, which epoll would report repeatedly. */
        (void) sd_event_source_set_enabled(k->io, k->call && k->call->oneway ? SD_EVENT_OFF : SD_EVENT_ON);
        if (timed && sd_event_source_get_enabled(k->timer, NULL) <= 0)
                (void) sd_event_source_set_time_relative(k->timer, k->server->message_usec);
        (void) sd_event_source_set_enabled(k->timer, timed ? SD_EVENT_ONESHOT : SD_EVENT_OFF);
}

/* The time of a message ends with it: connection_settle() starts that of the next one. */
static int read_or_write(Connection *k)
{
        _cleanup_json_ json_object *message = NULL;
        _cleanup_fd_list_ FdList fds = {};

        if (k->link.out) {
                int r = link_flush(&k->link);
                if (r > 0)
                        (void) sd_event_source_set_enabled(k->timer, SD_EVENT_OFF);
                return r;
        }
        if (k->call) /* only EPOLLHUP is reported then */
                return -ECONNRESET;
        int r = link_receive(&k->link, &message, &fds);
        if (r <= 0)
                return r < 0 ? r : -ECONNRESET;
        (void) sd_event_source_set_enabled(k->timer, SD_EVENT_OFF);
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

static bool is_privileged(uid_t uid)
{
        return uid == 0 || uid == geteuid();
}

/* Returns the limit that a new connection of the user would exceed, or 0. */
static unsigned limit_reached(const VarlinkServer *s, uid_t uid)
{
        const unsigned shared = VARLINK_CONNECTIONS_MAX * 3 / 4;
        size_t n = 0;

        if (is_privileged(uid))
                return s->n_connections >= VARLINK_CONNECTIONS_MAX ? VARLINK_CONNECTIONS_MAX : 0;
        for (const Connection *k = s->connections; k; k = k->next)
                n += k->uid == uid;
        if (n >= VARLINK_CONNECTIONS_PER_USER)
                return VARLINK_CONNECTIONS_PER_USER;
        return s->n_connections >= shared ? shared : 0;
}

/* True if the connection has no call, not even one that is unread or still received, and no reply that the peer still has
 * to read: time-outs bound both. */
static bool is_idle(const Connection *k)
{
        int n = 0;

        return !k->call && !k->link.out && k->link.in_size == 0 &&
               (ioctl(k->link.fd, FIONREAD, &n) < 0 || n == 0);
}

/* Closes the idle connection that was not used for the longest time. False: none is idle. */
static bool make_room(VarlinkServer *s, uid_t uid)
{
        Connection *oldest = NULL;

        for (Connection *k = s->connections; k; k = k->next)
                if ((is_privileged(uid) || k->uid == uid) && (!oldest || k->used < oldest->used) &&
                    is_idle(k))
                        oldest = k;
        if (oldest)
                disconnect(oldest);
        return oldest;
}

static void refuse(int fd, unsigned limit)
{
        char text[128];
        int n = snprintf(text, sizeof(text), "{\"error\":\"%s\",\"parameters\":{\"limit\":%u}}",
                         VARLINK_TOO_MANY_CONNECTIONS, limit);

        (void) send(fd, text, (size_t) n + 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

int varlink_server_add_connection(VarlinkServer *s, int fd)
{
        _cleanup_close_ int taken = fd;
        struct ucred peer;
        socklen_t size = sizeof(peer);

        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
                return -errno;
        for (unsigned limit; (limit = limit_reached(s, peer.uid)) > 0;)
                if (!make_room(s, peer.uid)) {
                        refuse(fd, limit);
                        return -EUSERS;
                }
        Connection *k = calloc(1, sizeof(Connection));
        if (!k)
                return -ENOMEM;
        *k = (Connection){.server = s, .uid = peer.uid, .pid = peer.pid, .next = s->connections};
        link_init(&k->link, TAKE_FD(taken));
        s->connections = k;
        s->n_connections++;
        s->n_accepted++;
        connection_touch(k);
        int r = sd_event_add_io(s->event, &k->io, fd, EPOLLIN, on_io, k);
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

size_t varlink_server_connections(const VarlinkServer *s, uint64_t *ret_all)
{
        *ret_all = s->n_accepted;
        return s->n_connections;
}

int varlink_server_listen(VarlinkServer *s, int listen_fd)
{
        int r = sd_event_add_io(s->event, &s->listener, listen_fd, EPOLLIN, on_connection, s);

        if (r < 0) {
                safe_close(listen_fd);
                return r;
        }
        (void) sd_event_source_set_io_fd_own(s->listener, true);
        /* Also while no descriptor is available for accepting, and the connection stays in the queue. */
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

void varlink_server_end(VarlinkServer *s)
{
        if (!s)
                return;
        s->listener = sd_event_source_disable_unref(s->listener);
        for (Connection *k = s->connections, *next; k; k = next) {
                next = k->next;
                if (!k->call)
                        disconnect(k);
        }
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
