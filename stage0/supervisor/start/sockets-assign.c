/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Assigns the sockets that were passed to us to ports of the pod: by their name, or else by the exposed port
 * or the port that has their number. Sockets and ports that are left over are an error, and so are
 * ambiguities: a socket that no app serves would accept connections nevertheless. */

#include <sys/socket.h>

#include "stage0/supervisor/run-internal.h"

PodSockets *pod_sockets_free(PodSockets *s)
{
        if (!s)
                return NULL;
        for (size_t i = 0; i < s->n; i++)
                passed_socket_done(&s->items[i]);
        free(s->items);
        free(s->targets);
        free(s->target_of);
        free(s);
        return NULL;
}

/* --- Assignment ---------------------------------------------------------------------------------------- */

static int find_targets(PodApp *const *apps, size_t n_apps, PodSockets *s)
{
        size_t n = 0;

        for (size_t i = 0; i < n_apps; i++)
                n += apps[i]->app->n_ports;
        s->targets = calloc(n + 1, sizeof(SocketTarget));
        if (!s->targets)
                return -ENOMEM;
        for (size_t i = 0; i < n_apps; i++)
                for (size_t k = 0; k < apps[i]->app->n_ports; k++)
                        if (apps[i]->app->ports[k].socket_activated)
                                s->targets[s->n_targets++] = (SocketTarget){.app = apps[i],
                                                                            .port = &apps[i]->app->ports[k]};
        return 0;
}

int pod_sockets_new_app(const PodApp *app, PodSockets **ret)
{
        _cleanup_(pod_sockets_freep) PodSockets *s = calloc(1, sizeof(PodSockets));
        PodApp *const apps[] = {(PodApp *) app};

        if (!s || find_targets(apps, 1, s) < 0)
                return -ENOMEM;
        *ret = TAKE_PTR(s);
        return 0;
}

static const char *protocol_of(bool udp)
{
        return udp ? "udp" : "tcp";
}

/* "3 (tcp 127.0.0.1:80, named 'web')" */
const char *socket_show(const PassedSocket *x, char buffer[static 512])
{
        _cleanup_free_ char *name = text_escape_for_terminal(x->name ?: "");

        snprintf(buffer, 512, "%d (%s%s %s%s%.200s%s)", x->number, x->port > 0 ? "" : "unix ",
                 x->port > 0 ? protocol_of(x->udp)
                 : x->udp    ? "datagram"
                             : "stream",
                 x->listen, isempty(name) ? "" : ", named '", name ?: "", isempty(name) ? "" : "'");
        return buffer;
}

/* The possible names, for the hint. */
static int list_targets(const PodSockets *s, int r, Error *e)
{
        _cleanup_text_ Text t = {};

        for (size_t i = 0; i < s->n_targets; i++)
                text_addf(&t, "%s%s/%s (%u/%s)", i > 0 ? ", " : "", s->targets[i].app->name,
                          s->targets[i].port->name, s->targets[i].port->port, s->targets[i].port->protocol);
        if (s->n_targets == 0)
                return error_hint(e, r,
                                  "No app has a port that is socketActivated in its image, or named by "
                                  "--socket-activated=; without LISTEN_FDS in the environment the pod runs "
                                  "as it is.");
        if (t.failed)
                return r;
        return error_hint(e, r,
                          "The pod's socket-activated ports are %s: name the socket after one with "
                          "FileDescriptorName=, or let it listen on its number.",
                          t.data);
}

/* Whether NAME is the port's, or with the app's in front. */
static bool is_named(const SocketTarget *t, const char *name)
{
        const char *rest = startswith(name, t->app->name);

        return streq(name, t->port->name) || (rest && *rest == '/' && streq(rest + 1, t->port->name));
}

/* 1: found. */
static int find_by_name(const PodSockets *s, const PassedSocket *x, size_t *ret, Error *e)
{
        char buffer[512];
        bool found = false;

        for (size_t i = 0; i < s->n_targets; i++) {
                if (isempty(x->name) || !is_named(&s->targets[i], x->name))
                        continue;
                if (found) {
                        int r = error_set(e, -ENOTUNIQ, "Socket %s fits the port of two apps, %s and %s",
                                          socket_show(x, buffer), s->targets[*ret].app->name,
                                          s->targets[i].app->name);
                        return error_hint(e, r, "Name it APP/PORT.");
                }
                *ret = i;
                found = true;
        }
        return found;
}

static bool exposes(const ExposedPort *x, const SocketTarget *t)
{
        if (x->pod_port)
                return x->pod_port->port == t->port->port &&
                       streq_ptr(x->pod_port->protocol, t->port->protocol);
        return streq_ptr(x->name, t->port->name);
}

static bool is_in_range(uint32_t first, const Port *port, const PassedSocket *x)
{
        return streq(port->protocol, protocol_of(x->udp)) && x->port >= first &&
               x->port - first < stage1_port_count(port);
}

const ExposedPort *socket_find_exposure(const PodManifest *m, const SocketTarget *t, const PassedSocket *x)
{
        for (size_t i = 0; i < m->n_ports; i++)
                if (exposes(&m->ports[i], t) && (!x || is_in_range(m->ports[i].host_port, t->port, x)))
                        return &m->ports[i];
        return NULL;
}

/* 1: found. The port that is exposed at this number of the host is preferred to the port of this number in
 * the pod. */
static int find_by_number(const PodManifest *m, const PodSockets *s, const PassedSocket *x, size_t *ret)
{
        if (x->port == 0)
                return 0;
        for (size_t i = 0; i < s->n_targets; i++)
                if (socket_find_exposure(m, &s->targets[i], x)) {
                        *ret = i;
                        return 1;
                }
        for (size_t i = 0; i < s->n_targets; i++)
                if (is_in_range(s->targets[i].port->port, s->targets[i].port, x)) {
                        *ret = i;
                        return 1;
                }
        return 0;
}

static int check_match(const PodManifest *m, const SocketTarget *t, const PassedSocket *x, Error *e)
{
        const ExposedPort *wanted = socket_find_exposure(m, t, NULL);
        char buffer[512];

        if (!streq(t->port->protocol, protocol_of(x->udp)))
                return error_set(e, -EPROTOTYPE, "Socket %s is named after port '%s' of app %s, which is %s",
                                 socket_show(x, buffer), t->port->name, t->app->name, t->port->protocol);
        if (x->port > 0 && wanted && !socket_find_exposure(m, t, x))
                return error_set(e, -EADDRNOTAVAIL,
                                 "Socket %s is named after port '%s' of app %s, which is exposed as port %u "
                                 "of the host",
                                 socket_show(x, buffer), t->port->name, t->app->name, wanted->host_port);
        return 0;
}

int pod_sockets_add(PodSockets *s, PassedSocket *x, size_t target)
{
        if (GREEDY_REALLOC(s->items, s->allocated, s->n + 1) < 0 ||
            GREEDY_REALLOC(s->target_of, s->allocated_targets_of, s->n + 1) < 0)
                return -ENOMEM;
        s->target_of[s->n] = target;
        s->items[s->n++] = *x;
        *x = (PassedSocket){.fd = -EBADF};
        s->targets[target].n++;
        return 0;
}

static int check_duplicates(const PodSockets *s, const PassedSocket *x, Error *e)
{
        char buffer[512];

        for (size_t i = 0; i < s->n; i++)
                if (s->items[i].type == x->type && streq(s->items[i].listen, x->listen))
                        return error_set(e, -EADDRINUSE,
                                         "Socket %s has the same address as socket %d: they cannot be "
                                         "distinguished",
                                         socket_show(x, buffer), s->items[i].number);
        return 0;
}

static int assign(const Pod *p, PodSockets *s, PassedSocket *x, Error *e)
{
        char buffer[512];
        size_t target = 0;

        int r = check_duplicates(s, x, e);
        if (r >= 0)
                r = find_by_name(s, x, &target, e);
        if (r == 0)
                r = find_by_number(p->manifest, s, x, &target);
        if (r == 0) {
                r = error_set(e, -EADDRNOTAVAIL,
                              "Socket %s, passed by LISTEN_FDS, fits no socket-activated port of pod %s",
                              socket_show(x, buffer), pod_display_name(p));
                return list_targets(s, r, e);
        }
        if (r > 0)
                r = check_match(p->manifest, &s->targets[target], x, e);
        if (r >= 0 && pod_sockets_add(s, x, target) < 0)
                return error_oom(e);
        return r;
}

/* --- Completeness -------------------------------------------------------------------------------------- */

static int check_target(const Pod *p, const SocketTarget *t, const PassedSockets *passed, Error *e)
{
        const ExposedPort *wanted = socket_find_exposure(p->manifest, t, NULL);
        uint32_t count = stage1_port_count(t->port);

        if (t->n > 0 && count > 1 && t->n != count)
                return error_set(e, -EADDRNOTAVAIL,
                                 "%zu sockets were passed for port '%s' of app %s, which has %u numbers, "
                                 "from %u on",
                                 t->n, t->port->name, t->app->name, count, t->port->port);
        if (t->n > 0 || p->config.net != NET_NONE || !wanted)
                return 0;
        int r = error_set(e, -EADDRNOTAVAIL,
                          "Port '%s' of app %s is exposed as port %u of the host, but no socket was passed "
                          "for it, and the pod has no network (--net=none)",
                          t->port->name, t->app->name, wanted->host_port);
        if (passed->foreign_pid > 0)
                return error_hint(e, r, "LISTEN_PID says %d, but this is process %d.",
                                  (int) passed->foreign_pid, (int) passed->pid);
        return error_hint(e, r,
                          "Start the pod by a .socket unit that listens on it, or give the pod a network.");
}

int pod_sockets_new(const Pod *p, PassedSockets *passed, PodSockets **ret, Error *e)
{
        _cleanup_(pod_sockets_freep) PodSockets *s = NULL;
        int r = 0;

        if (passed->n == 0 && !stage1_pod_is_socket_activated(p->manifest)) {
                *ret = NULL;
                return 0;
        }
        s = calloc(1, sizeof(PodSockets));
        if (!s || find_targets(p->manifest->apps, p->manifest->n_apps, s) < 0)
                return error_oom(e);
        for (size_t i = 0; r >= 0 && i < passed->n; i++)
                r = assign(p, s, &passed->items[i], e);
        for (size_t i = 0; r >= 0 && i < s->n_targets; i++)
                r = check_target(p, &s->targets[i], passed, e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(s);
        return 0;
}
