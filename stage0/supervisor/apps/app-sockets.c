/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The sockets by which connections start an app: the supervisor has them, as long as the app is a part of the pod.
 *
 * While the app is down they are watched; what is to be done about a connection is not decided here
 * (supervisor-sockets.c). The launcher of the app gets copies. So a socket stays open, and keeps what waits in it, from
 * one execution of the app to the next, and while another version takes its place.
 *
 * An app may shut a socket down, which ends it for all, or end without taking what waits, and would be started again and
 * again: then connections are refused, and the app is given up.
 */

#include "stage0/supervisor/apps/app-table.h"
#include "stage1/launch-protocol.h"

/* As socket units of systemd have it by default, but for the number, with which systemd 255 and later only wait. */
#define STARTS_USEC UINT64_C(2000000)
#define STARTS_MAX 14U

struct AppSockets {
        PodSockets *set;
        sd_event_source **sources; /* of the first items of the set, which were watched already */
        size_t n_sources;
        sd_event_source *timer;
        bool closed;
        bool passed; /* closed, and some were passed to the pod */
        uint64_t since_usec;
        unsigned n_starts; /* since then */
        sd_event *event;   /* this and the next ones: once they were watched */
        AppInstance *app;
        AppSocketsFunction function;
        void *userdata;
};

static int take_set(PodSockets *set, AppSockets **ret, Error *e)
{
        AppSockets *s = calloc(1, sizeof(AppSockets));

        if (!s) {
                pod_sockets_free(set);
                return error_oom(e);
        }
        s->set = set;
        *ret = s;
        return 0;
}

int app_sockets_take(PodSockets *all, const PodApp *app, AppSockets **ret, Error *e)
{
        PodSockets *set = NULL;

        if (!all || !stage1_app_is_socket_activated(app->app)) {
                *ret = NULL;
                return 0;
        }
        return pod_sockets_take_app(all, app, &set) < 0 ? error_oom(e) : take_set(set, ret, e);
}

int app_sockets_new(const Pod *p, pid_t leader, const PodApp *app, const AppSockets *old, AppSockets **ret,
                    Error *e)
{
        _cleanup_(pod_sockets_freep) PodSockets *set = NULL;

        if (!stage1_app_is_socket_activated(app->app)) {
                *ret = NULL;
                return 0;
        }
        if (pod_sockets_new_app(app, &set) < 0)
                return error_oom(e);
        int r = pod_sockets_open(p, leader, old ? old->set : NULL, set, e);
        return r < 0 ? r : take_set(TAKE_PTR(set), ret, e);
}

static void stop_watching(AppSockets *s)
{
        s->timer = sd_event_source_disable_unref(s->timer);
        for (size_t i = 0; i < s->n_sources; i++)
                sd_event_source_disable_unref(s->sources[i]);
        s->sources = (free(s->sources), NULL);
        s->n_sources = 0;
}

AppSockets *app_sockets_free(AppSockets *s)
{
        if (!s)
                return NULL;
        stop_watching(s);
        pod_sockets_free(s->set);
        free(s);
        return NULL;
}

int app_sockets_complete(AppSockets *s, const Pod *p, pid_t leader, Error *e)
{
        if (!s)
                return 0;
        if (s->passed)
                return error_set(e, -ENOTCONN, "Sockets of app %s that were passed to the pod were given up",
                                 s->set->targets[0].app->name);
        int r = pod_sockets_open(p, leader, NULL, s->set, e);
        if (r < 0)
                return r;
        s->closed = false;
        return 0;
}

void app_sockets_close(AppSockets *s)
{
        if (!s || s->closed)
                return;
        stop_watching(s);
        for (size_t i = 0; i < s->set->n; i++) {
                s->passed = s->passed || s->set->items[i].number >= 0;
                s->set->targets[s->set->target_of[i]].n = 0;
                passed_socket_done(&s->set->items[i]);
        }
        s->set->n = 0;
        s->closed = true;
}

bool app_sockets_are_closed(const AppSockets *s)
{
        return s && s->closed;
}

/* --- What waits ---------------------------------------------------------------------------------------- */

static void set_watched(AppSockets *s, int enabled)
{
        for (size_t i = 0; i < s->n_sources; i++)
                (void) sd_event_source_set_enabled(s->sources[i], enabled);
}

static int on_event(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        AppSockets *s = userdata;

        set_watched(s, SD_EVENT_OFF);
        s->function(s->userdata, s->app, !(revents & EPOLLIN) || (revents & EPOLLHUP));
        return 0;
}

static int add_sources(AppSockets *s)
{
        sd_event_source **grown = reallocarray(s->sources, s->set->n + 1, sizeof(sd_event_source *));

        if (!grown)
                return -ENOMEM;
        s->sources = grown;
        for (; s->n_sources < s->set->n; s->n_sources++) {
                s->sources[s->n_sources] = NULL;
                int r = sd_event_add_io(s->event, &s->sources[s->n_sources], s->set->items[s->n_sources].fd,
                                        EPOLLIN, on_event, s);
                if (r < 0)
                        return r;
        }
        return 0;
}

int app_sockets_watch(AppSockets *s, bool on, sd_event *event, AppInstance *app, AppSocketsFunction function,
                      void *userdata)
{
        if (!s)
                return 0;
        s->event = event;
        s->app = app;
        s->function = function;
        s->userdata = userdata;
        int r = on && s->n_sources < s->set->n ? add_sources(s) : 0;
        set_watched(s, on ? SD_EVENT_ON : SD_EVENT_OFF);
        return r;
}

static int on_time(sd_event_source *source, uint64_t usec, void *userdata)
{
        AppSockets *s = userdata;

        s->timer = sd_event_source_disable_unref(s->timer);
        set_watched(s, SD_EVENT_ON);
        return 0;
}

int app_sockets_watch_later(AppSockets *s, uint64_t usec)
{
        if (!s->event)
                return 0;
        s->timer = sd_event_source_disable_unref(s->timer);
        return sd_event_add_time_relative(s->event, &s->timer, CLOCK_MONOTONIC, usec, 0, on_time, s);
}

void *app_sockets_userdata(const AppSockets *s)
{
        return s->userdata;
}

bool app_sockets_count_start(AppSockets *s)
{
        uint64_t now = now_usec(CLOCK_MONOTONIC);

        if (s->n_starts == 0 || now - s->since_usec > STARTS_USEC) {
                s->since_usec = now;
                s->n_starts = 0;
        }
        return ++s->n_starts > STARTS_MAX;
}

/* --- Launchers ----------------------------------------------------------------------------------------- */

size_t app_sockets_number(const AppSockets *s)
{
        return s ? s->set->n : 0;
}

static int send_packet(int sock, LaunchSockets *packet, const int *fds)
{
        size_t n = packet->n;

        packet->n = (uint32_t) n;
        int r = n == 0 ? 0 : send_fds_now(sock, packet, LAUNCH_SOCKETS_SIZE(n), fds, n);
        *packet = (LaunchSockets){};
        return r;
}

/* In the order of the ports of the app. */
int app_sockets_send(const AppSockets *s, int sock)
{
        const PodSockets *set = s ? s->set : NULL;
        LaunchSockets packet = {};
        int fds[LAUNCH_SOCKETS_STEP], r = 0;

        for (size_t k = 0; set && k < set->n_targets; k++)
                for (size_t i = 0; i < set->n; i++) {
                        if (set->target_of[i] != k)
                                continue;
                        snprintf(packet.names[packet.n], sizeof(packet.names[0]), "%s",
                                 set->targets[k].port->name);
                        fds[packet.n++] = set->items[i].fd;
                        if (packet.n == LAUNCH_SOCKETS_STEP)
                                r = send_packet(sock, &packet, fds);
                        if (r < 0)
                                return r;
                }
        return send_packet(sock, &packet, fds);
}

int app_sockets_networks(const AppSockets *s, uint64_t *list, size_t *n)
{
        return s ? pod_sockets_networks(s->set, list, n) : 0;
}

size_t app_sockets_judge(AppSockets *s, const Pod *p, int filter, int unix_filter)
{
        return s ? pod_sockets_judge(p, s->set, filter, unix_filter) : 0;
}

/* --- Record -------------------------------------------------------------------------------------------- */

int app_sockets_record(const AppTable *t, Error *e)
{
        ServedSocket *l = NULL;
        size_t n = 0;
        int r = 0;

        FOREACH_APP(a, t)
        if (r >= 0 && a->sockets)
                r = pod_sockets_describe(a->sockets->set, &l, &n);
        if (r >= 0)
                r = served_sockets_write(t->pod, l, n);
        served_sockets_free(l, n);
        return r < 0 ? error_set_errno(e, r, "Cannot record the sockets of pod %s", pod_display_name(t->pod))
                     : 0;
}
