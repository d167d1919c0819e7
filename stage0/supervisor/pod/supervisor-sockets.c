/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Apps that connections start: what becomes of a connection.
 *
 * The sockets of an app are watched while its unit is down, and nothing else is done with the app; a connection then starts
 * the unit. Whatever changes that calls supervisor_listen(). A pod that ends starts nothing any more: what waits then stays
 * in the sockets, which another process may have, too.
 */

#include "stage0/supervisor/pod/supervisor-internal.h"

#define RETRY_USEC UINT64_C(1000000)

static PodUnit *find_sockets_unit(const AppInstance *app)
{
        for (size_t i = 0; i < app->n_units; i++)
                if (app->units[i].kind == POD_UNIT_SOCKETS)
                        return &app->units[i];
        return NULL;
}

static bool can_start(const Supervisor *s, const AppInstance *app)
{
        const PodUnit *u = &app->units[0];

        return s->connection == CONNECTION_KNOWN && !supervisor_ends(s) && u->known && u->life != UNIT_UP &&
               !u->held && !app->waking && !supervisor_removes_app(s, app) &&
               !app_sockets_are_closed(app->sockets);
}

void supervisor_give_up_app(Supervisor *s, AppInstance *app)
{
        PodUnit *u = find_sockets_unit(app);

        if (!u)
                return;
        u->life = UNIT_FAILED;
        supervisor_judge(s);
}

static void on_started(void *userdata, int r, const char *result)
{
        AppInstance *app = userdata;
        Supervisor *s = app->sockets ? app_sockets_userdata(app->sockets) : NULL;

        app->waking = false;
        if (s && r < 0)
                (void) app_sockets_watch_later(app->sockets, RETRY_USEC);
        else if (s)
                supervisor_listen(s, app);
}

/* A start that fails is seen from the state of the unit. The pod's systemd refuses it while it ends the pod, which it can do
 * without the supervisor. */
static void start(Supervisor *s, AppInstance *app)
{
        cgroup_moves_expect(s->moves, MOVES_OF_START_USEC);
        int r = manager_link_run(s->manager, "StartUnit", app->units[0].name, on_started, app);

        app->waking = r >= 0;
        app_stop_handle(app, APP_BEGINS_ANEW);
        log_debug("A connection starts app %s%s%s", app->name, r < 0 ? ": " : "", r < 0 ? strerror(-r) : "");
}

static void on_connection(void *userdata, AppInstance *app, bool failed)
{
        Supervisor *s = userdata;

        if (!can_start(s, app))
                return;
        if (!failed && !app_sockets_count_start(app->sockets)) {
                start(s, app);
                return;
        }
        app_sockets_close(app->sockets);
        app_life_sockets_failed(app);
        supervisor_give_up_app(s, app);
        interface_changed(s->interface, app);
}

void supervisor_listen(Supervisor *s, AppInstance *app)
{
        PodUnit *u = find_sockets_unit(app);

        if (!u || !app->sockets)
                return;
        u->life = app_sockets_are_closed(app->sockets) ? UNIT_FAILED : UNIT_UP;
        int r = app_sockets_watch(app->sockets, can_start(s, app), s->event, app, on_connection, s);
        if (r < 0)
                log_warning("Connections do not start app %s of pod %s any more: %s.", app->name,
                            pod_display_name(s->pod), strerror(-r));
}

void supervisor_listen_all(Supervisor *s)
{
        FOREACH_APP(app, s->apps)
        supervisor_listen(s, app);
}

/* --- The beginning ------------------------------------------------------------------------------------- */

int supervisor_take_sockets(Supervisor *s, PodSockets *sockets, Error *e)
{
        if (!sockets)
                return 0;
        FOREACH_APP(app, s->apps)
        {
                int r = app_sockets_take(sockets, app->manifest, &app->sockets, e);
                if (r < 0)
                        return r;
        }
        return app_sockets_record(s->apps, e);
}

int supervisor_open_sockets(Supervisor *s, Error *e)
{
        FOREACH_APP(app, s->apps)
        {
                int r = app_sockets_complete(app->sockets, s->pod, s->runtime.leader, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* --- What apps can do with those of the host ----------------------------------------------------------- */

static int make_filter(Supervisor *s, size_t *ret_n)
{
        uint64_t networks[SOCKET_FILTER_NETWORKS_MAX];

        *ret_n = 0;
        FOREACH_APP(app, s->apps)
        {
                int r = app_sockets_networks(app->sockets, networks, ret_n);
                if (r < 0)
                        return r;
        }
        return *ret_n > 0 ? socket_filter_new(s->pod, networks, *ret_n, &s->socket_filter) : 0;
}

static int refuse_unfiltered(const Supervisor *s, int code, Error *e)
{
        return error_set(
                        e, code,
                        "Cannot keep apps of pod %s from reaching the host's network by sockets that were passed to it: %s",
                        pod_display_name(s->pod),
                        code == -EUSERS ? socket_filter_failure(code) : strerror(-code));
}

/* Without a filter the pod runs all the same, unless it is to be strict. */
int supervisor_filter_sockets(Supervisor *s, Error *e)
{
        size_t n = 0, n_exposed = 0;

        if (s->sockets_filtered || s->pod->config.net == NET_HOST)
                return 0;
        int r = make_filter(s, &n);
        if (r >= 0 && n == 0) {
                s->sockets_filtered = true;
                return 0;
        }
        int unix_filter = r < 0 ? r : socket_filter_available_unix();
        FOREACH_APP(app, s->apps)
        n_exposed += app_sockets_judge(app->sockets, s->pod, r, unix_filter);
        if (r < 0)
                log_debug("Cannot filter the sockets that were passed to the pod: %s", strerror(-r));
        if (n_exposed > 0 && (s->options->strict || s->pod->config.strict))
                return refuse_unfiltered(s, r < 0 ? r : -EOPNOTSUPP, e);
        s->sockets_filtered = true;
        return app_sockets_record(s->apps, e);
}
