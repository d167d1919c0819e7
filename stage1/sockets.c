/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Ports with "socketActivated": the pod's systemd listens, and starts the app with the first connection
 * (spec: aci.md, "ports").
 *
 * Every such port is a socket unit of its own, since all descriptors of a unit have the same name, here the
 * port's:
 *
 *     app-<app>:<number>.socket   --OnFailure->  app-<app>:failed.service
 *
 * The number is the port's index among the socket-activated ports of the app; names of apps cannot contain a
 * colon. PID 1 passes sockets that it was started with only to units that are already loaded, so the root
 * slice refers to them by an ordering dependency, which holds anyway.
 *
 * These units are not stopped at the end of the pod. If they were, systemd would drop the connections that
 * wait in them, while another process will serve them if the socket is the host's. A connection that arrives
 * then starts nothing, because the pod's end is irreversible, and remains in the queue.
 */

#include "stage1/stage1-internal.h"

#define SLICE_DROP_IN "-.slice.d/sockets.conf"
#define FDNAME_MAX 255U /* of systemd */
/* A socket unit that is triggered more often than this within two seconds fails. One less than the number at
 * which systemd, since version 255, throttles polling instead (PollLimitBurst=): the socket would never fail
 * then, and earlier versions do not have that setting. */
#define TRIGGERS_MAX 14U

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

int stage1_socket_unit_name(const PodApp *app, const Port *port, char **ret)
{
        size_t number = 0;

        for (const Port *p = app->app->ports; p <= port; p++)
                number += p->socket_activated;
        return xasprintf(ret, "app-%s:%zu.socket", app->name, number);
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

/* --- Units --------------------------------------------------------------------------------------------- */

/* If the pod is started without a socket for the port, its systemd creates one. */
static int add_socket(Stage1Files *files, const PodApp *app, const Port *p)
{
        bool udp = streq(p->protocol, "udp");
        _cleanup_free_ char *unit = NULL;
        _cleanup_text_ Text t = {};

        int r = stage1_socket_unit_name(app, p, &unit);
        if (r < 0)
                return r;
        text_addf(&t, "[Unit]\nDescription=Port %s of App %s\n", p->name, app->name);
        text_add(&t, "DefaultDependencies=no\n"
                     "IgnoreOnIsolate=yes\n");
        text_addf(&t, "OnFailure=app-%s:failed.service\n", app->name);
        text_addf(&t,
                  "\n[Socket]\nService=app-%s.service\nFileDescriptorName=%s\nBindIPv6Only=both\n"
                  "TriggerLimitIntervalSec=2s\nTriggerLimitBurst=%u\n",
                  app->name, p->name, TRIGGERS_MAX);
        for (uint32_t k = 0; k < stage1_port_count(p); k++)
                text_addf(&t, "%s=%u\n", udp ? "ListenDatagram" : "ListenStream", p->port + k);
        return stage1_add_unit_text(files, unit, &t);
}

/* Records why the pod ends: an app that cannot be started any more is a failure, which the user has to
 * see. */
int stage1_given_up_unit_name(const char *app, char **ret)
{
        return xasprintf(ret, "app-%s:failed.service", app);
}

static int add_failed_service(Stage1Files *files, const PodApp *app)
{
        _cleanup_free_ char *unit = NULL;
        _cleanup_text_ Text t = {};

        if (stage1_given_up_unit_name(app->name, &unit) < 0)
                return -ENOMEM;
        text_addf(&t, "[Unit]\nDescription=End of the Sockets of App %s\n", app->name);
        text_add(&t, "DefaultDependencies=no\n"
                     "Conflicts=shutdown.target\n"
                     "Before=shutdown.target\n");
        text_addf(&t, "\n[Service]\nType=oneshot\nExecStart=/acnspawn/launch sockets-failed %s\n",
                  app->name);
        text_add(&t, "StandardInput=null\nStandardOutput=null\nStandardError=null\n");
        return stage1_add_unit_text(files, unit, &t);
}

static int add_app_units(Stage1Files *files, const PodApp *app, Text *slice)
{
        int r = add_failed_service(files, app);

        for (size_t i = 0; r >= 0 && i < app->app->n_ports; i++) {
                const Port *p = &app->app->ports[i];
                _cleanup_free_ char *unit = NULL;

                if (!p->socket_activated)
                        continue;
                r = add_socket(files, app, p);
                if (r >= 0)
                        r = stage1_socket_unit_name(app, p, &unit);
                if (r >= 0)
                        text_addf(slice, "Before=%s\n", unit);
        }
        return r;
}

int stage1_generate_sockets(const PodManifest *m, Stage1Files *files)
{
        _cleanup_text_ Text slice = {};
        int r = 0;

        if (!stage1_pod_is_socket_activated(m))
                return 0;
        text_add(&slice, "[Unit]\n");
        for (size_t i = 0; r >= 0 && i < m->n_apps; i++)
                if (stage1_app_is_socket_activated(m->apps[i]->app))
                        r = add_app_units(files, m->apps[i], &slice);
        return r < 0 ? r : stage1_add_unit_text(files, SLICE_DROP_IN, &slice);
}

int stage1_socket_unit_names(const PodApp *app, char ***ret)
{
        _cleanup_strv_free_ char **l = NULL;

        for (size_t i = 0; i < app->app->n_ports; i++) {
                _cleanup_free_ char *unit = NULL;
                int r = app->app->ports[i].socket_activated
                                        ? stage1_socket_unit_name(app, &app->app->ports[i], &unit)
                                        : 0;
                if (r >= 0 && unit)
                        r = strv_consume(&l, TAKE_PTR(unit));
                if (r < 0)
                        return r;
        }
        *ret = TAKE_PTR(l);
        return 0;
}
