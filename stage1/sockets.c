/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Ports with "socketActivated": the first connection starts the app (spec: aci.md, "ports").
 *
 * No unit listens on them. The supervisor has the sockets, starts the unit of the app when a connection waits on one of
 * them, and passes them to the launcher of the app (stage0/supervisor/apps/app-sockets.c): so they can come and go with apps
 * of a running pod, and stay open while an app is replaced. Units that listen would keep those of the apps loaded, and
 * the pod's systemd takes sockets that were opened outside only when it starts.
 */

#include "stage1/stage1-internal.h"

#define FDNAME_MAX 255U /* of systemd */
bool stage1_app_is_socket_activated(const App *app)
{
        for (size_t i = 0; app && i < app->n_ports; i++)
                if (app->ports[i].socket_activated)
                        return true;
        return false;
}

bool stage1_pod_is_socket_activated(const PodManifest *m)
{
        for (size_t i = 0; i < m->n_apps; i++)
                if (stage1_app_is_socket_activated(m->apps[i]->app))
                        return true;
        return false;
}

uint32_t stage1_port_count(const Port *port)
{
        return MAX(port->count, 1U);
}

/* --- Checks -------------------------------------------------------------------------------------------- */

static int check_port(const PodApp *app, const Port *p, Error *e)
{
        if (!streq_ptr(p->protocol, "tcp") && !streq_ptr(p->protocol, "udp"))
                return error_set(e, -EINVAL,
                                 "Port '%s' of app %s cannot be socket-activated: its protocol is '%s', not "
                                 "tcp or udp",
                                 p->name, app->name, p->protocol ?: "");
        if (p->port == 0 || p->port + (uint64_t) stage1_port_count(p) - 1 > UINT16_MAX)
                return error_set(e, -EINVAL,
                                 "Port '%s' of app %s cannot be socket-activated: %u ports from %u on are "
                                 "not within 1 to 65535",
                                 p->name, app->name, stage1_port_count(p), p->port);
        if (strlen(p->name) > FDNAME_MAX)
                return error_set(e, -ENAMETOOLONG,
                                 "A port of app %s cannot be socket-activated: its name has more than %u "
                                 "characters",
                                 app->name, FDNAME_MAX);
        return 0;
}

static int check_against(const PodApp *app, const Port *p, const PodApp *other_app, const Port *other,
                         Error *e)
{
        if (app == other_app && streq(p->name, other->name))
                return error_set(e, -EINVAL, "App %s has two socket-activated ports named '%s'", app->name,
                                 p->name);
        if (streq(p->protocol, other->protocol) && p->port < other->port + stage1_port_count(other) &&
            other->port < p->port + stage1_port_count(p))
                return error_set(e, -EINVAL,
                                 "Port '%s' of app %s and port '%s' of app %s are both socket-activated as "
                                 "port %u/%s",
                                 other->name, other_app->name, p->name, app->name, MAX(p->port, other->port),
                                 p->protocol);
        return 0;
}

/* All earlier ports have been checked. */
static int check_against_earlier(const PodManifest *m, const PodApp *app, const Port *p, Error *e)
{
        for (size_t k = 0; k < m->n_apps; k++)
                for (size_t i = 0; m->apps[k]->app && i < m->apps[k]->app->n_ports; i++) {
                        const PodApp *a = m->apps[k];
                        const Port *other = &a->app->ports[i];

                        if (other == p)
                                return 0;
                        int r = other->socket_activated ? check_against(app, p, a, other, e) : 0;
                        if (r < 0)
                                return r;
                }
        return 0;
}

int stage1_sockets_check(const PodManifest *m, Error *e)
{
        uint64_t sum = 0;

        for (size_t i = 0; i < m->n_apps; i++)
                for (size_t k = 0; m->apps[i]->app && k < m->apps[i]->app->n_ports; k++) {
                        const Port *p = &m->apps[i]->app->ports[k];

                        if (!p->socket_activated)
                                continue;
                        int r = check_port(m->apps[i], p, e);
                        sum += stage1_port_count(p);
                        if (r >= 0 && sum > STAGE1_SOCKETS_MAX)
                                r = error_set(e, -E2BIG,
                                              "The pod has %llu socket-activated ports with port '%s' of "
                                              "app %s; at most %u are possible",
                                              (unsigned long long) sum, p->name, m->apps[i]->name,
                                              STAGE1_SOCKETS_MAX);
                        if (r >= 0)
                                r = check_against_earlier(m, m->apps[i], p, e);
                        if (r < 0)
                                return r;
                }
        return 0;
}
