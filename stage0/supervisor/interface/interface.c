/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The Varlink interface of a running pod: its description, its events, and its end.
 *
 * The socket is "interface" in the pod directory, which only root of the host gets to. Events are numbered.
 * Describe() returns the number of the last event, and Monitor() begins after a given number, so that
 * nothing is lost between the two; the last events are kept for that. */

#include <sys/socket.h>

#include "config.h"
#include "stage0/supervisor/interface/control-api.h"
#include "stage0/supervisor/interface/interface-internal.h"
#include "stage0/supervisor/apps/pod-pause.h"
#include "stage0/supervisor/pod-interface.h" /* generated from org.acnspawn.Pod.varlink */

#define SOCKET_NAME "interface"

bool interface_pod_is_paused(Interface *i)
{
        if (i->freezer_fd < 0)
                i->freezer_fd = pod_open_freezer(i->pod);
        return freezer_is_frozen(i->freezer_fd);
}

static json_object *pod_state(Interface *i, bool exited)
{
        const char *state = exited                       ? "exited"
                            : i->ops.ends(i->userdata)   ? "stopping"
                            : interface_pod_is_paused(i) ? "paused"
                                                         : "running";

        return json_object_new_string(state);
}

/* --- Events -------------------------------------------------------------------------------------------- */

/* STATUS: the exit status of the pod if it has ended. */
static json_object *make_event(Interface *i, AppInstance *app, bool exited, int status, const char *change,
                               const char *why)
{
        json_object *o = json_object_new_object();

        int r = json_member_add(o, "sequence", json_object_new_uint64(i->sequence));
        if (r >= 0)
                r = json_member_add(o, "timeUSec", json_object_new_uint64(now_usec(CLOCK_REALTIME)));
        if (r >= 0)
                r = json_member_add(o, "state", pod_state(i, exited));
        if (r >= 0 && app)
                r = json_member_add(o, "app", interface_app_json(i, app));
        if (r >= 0 && change)
                r = json_member_add_text(o, "change", change);
        if (r >= 0 && why)
                r = json_member_add_text(o, "message", why);
        if (r >= 0 && exited && status >= 0)
                r = json_member_add(o, "exitStatus", json_object_new_int(status));
        if (r >= 0)
                return o;
        json_object_put(o);
        return NULL;
}

static void drop_monitor(Monitor **list, VarlinkCall *call)
{
        for (Monitor **m = list; *m; m = &(*m)->next)
                if ((*m)->call == call) {
                        Monitor *gone = *m;
                        *m = gone->next;
                        varlink_call_unref(gone->call);
                        free(gone);
                        return;
                }
}

static void on_monitor_gone(VarlinkCall *call, void *userdata)
{
        Interface *i = userdata;

        drop_monitor(&i->monitors, call);
}

static void on_stop_gone(VarlinkCall *call, void *userdata)
{
        Interface *i = userdata;

        drop_monitor(&i->stops, call);
}

static int keep_call(Interface *i, Monitor **list, VarlinkCall *call,
                     void (*gone)(VarlinkCall *call, void *userdata))
{
        Monitor *m = calloc(1, sizeof(Monitor));

        if (!m)
                return -ENOMEM;
        *m = (Monitor){.next = *list, .call = varlink_call_ref(call)};
        *list = m;
        call->on_gone = gone;
        call->userdata = i;
        return 0;
}

/* Kept as text, which takes a tenth of the memory of objects. The event is the caller's. */
static json_object *record_event(Interface *i, AppInstance *app, bool exited, int status, const char *change,
                                 const char *why)
{
        i->sequence++;
        char **place = &i->events[i->sequence % EVENTS_KEPT];
        json_object *event = make_event(i, app, exited, status, change, why);

        free(*place);
        const char *text = event ? json_print(event) : NULL;
        *place = text ? strdup(text) : NULL;
        return event;
}

void interface_changed(Interface *i, AppInstance *app)
{
        interface_announce(i, app, NULL, NULL);
}

static int reply_lost(VarlinkCall *call, uint64_t since, uint64_t oldest)
{
        json_object *o = json_object_new_object();

        int r = json_member_add(o, "since", json_object_new_uint64(since));
        if (r >= 0)
                r = json_member_add(o, "oldest", json_object_new_uint64(oldest));
        if (r >= 0)
                r = varlink_reply_error(call, "org.acnspawn.Pod.EventsLost", o);
        json_object_put(o);
        return r;
}

/* A client that cannot be sent an event must not get the next one as if there had been none in between: its call ends, with
 * an error if that can be sent. One that does not read loses its connection, which on_monitor_gone() reports later. */
static void send_event(Interface *i, json_object *event)
{
        Monitor *next;

        for (Monitor *m = i->monitors; m; m = next) {
                VarlinkCall *call = m->call;
                next = m->next;
                int r = event ? varlink_reply_continues(call, event) : -ENOMEM;
                if (r >= 0 || r == -ECONNRESET || r == -ENOBUFS)
                        continue;
                (void) reply_lost(call, i->sequence - 1, i->sequence + 1);
                drop_monitor(&i->monitors, call);
        }
}

void interface_announce(Interface *i, AppInstance *app, const char *change, const char *why)
{
        _cleanup_json_ json_object *event = i ? record_event(i, app, false, -1, change, why) : NULL;

        if (i && app)
                control_api_changed(i, app);
        if (i)
                send_event(i, event);
}

static int monitor(VarlinkCall *call, json_object *parameters, void *userdata)
{
        Interface *i = userdata;
        json_object *value = NULL;
        uint64_t since = i->sequence, oldest = i->sequence > EVENTS_KEPT ? i->sequence - EVENTS_KEPT + 1 : 1;

        if (json_object_object_get_ex(parameters, "since", &value) && value) {
                int64_t n = json_object_get_int64(value);
                if (n < 0 || (uint64_t) n > i->sequence)
                        return varlink_reply_invalid_parameter(call, "since");
                since = (uint64_t) n;
        }
        if (since + 1 < oldest)
                return reply_lost(call, since, oldest);
        for (uint64_t n = since + 1; n <= i->sequence; n++) {
                const char *text = i->events[n % EVENTS_KEPT];
                _cleanup_json_ json_object *event = NULL;
                int r = text ? json_parse_strict(text, strlen(text), &event, NULL, NULL) : -ENOMEM;
                if (r >= 0)
                        r = varlink_reply_continues(call, event);
                if (r < 0)
                        return r;
        }
        return keep_call(i, &i->monitors, call, on_monitor_gone);
}

/* --- The pod ------------------------------------------------------------------------------------------- */

/* Without an app that is being added: its event comes when it has been. */
static json_object *apps_json(const Interface *i)
{
        json_object *l = json_object_new_array();

        FOREACH_APP(app, i->apps)
        {
                if (app->place == PLACE_ADDING)
                        continue;
                json_object *o = l ? interface_app_json(i, app) : NULL;
                if (o && json_object_array_add(l, o) >= 0)
                        continue;
                json_object_put(o);
                json_object_put(l);
                l = NULL;
        }
        return l;
}

static int describe(VarlinkCall *call, json_object *parameters, void *userdata)
{
        Interface *i = userdata;
        json_object *o = json_object_new_object();

        int r = json_member_add_text(o, "uuid", i->pod->uuid);
        if (r >= 0 && i->pod->config.name)
                r = json_member_add_text(o, "name", i->pod->config.name);
        if (r >= 0)
                r = json_member_add(o, "state", pod_state(i, false));
        if (r >= 0)
                r = json_member_add_text(o, "exitPolicy", exit_policy_to_string(i->pod->config.exit_policy));
        if (r >= 0)
                r = json_member_add(o, "apps", apps_json(i));
        if (r >= 0)
                r = json_member_add(o, "sequence", json_object_new_uint64(i->sequence));
        if (r >= 0)
                r = varlink_reply(call, o);
        json_object_put(o);
        return r;
}

static int on_kill(sd_event_source *source, uint64_t usec, void *userdata)
{
        Interface *i = userdata;

        i->killed = true;
        i->ops.stop(i->userdata, true);
        return 0;
}

/* The first time-out that has expired counts. */
static int stop(VarlinkCall *call, json_object *parameters, void *userdata)
{
        json_object *value = NULL;
        Interface *i = userdata;
        int64_t usec = -1;

        if (json_object_object_get_ex(parameters, "timeoutUSec", &value) && value) {
                usec = json_object_get_int64(value);
                if (usec < 0)
                        return varlink_reply_invalid_parameter(call, "timeoutUSec");
        }
        int r = usec <= 0 ? 0
                          : sd_event_add_time_relative(i->event, i->kill_timer ? NULL : &i->kill_timer,
                                                       CLOCK_MONOTONIC, (uint64_t) usec, 0, on_kill, i);
        if (r >= 0)
                r = keep_call(i, &i->stops, call, on_stop_gone);
        if (r < 0)
                return r;
        i->killed = i->killed || usec == 0;
        i->ops.stop(i->userdata, usec == 0);
        interface_changed(i, NULL);
        return 0;
}

static int answer_reopening(VarlinkCall *call, int r, const Error *e)
{
        if (r >= 0)
                return varlink_reply(call, NULL);
        return interface_reply_error(call, "org.acnspawn.Pod.LogsNotReopened", "message",
                                     e->message ?: strerror(-r), NULL, NULL);
}

static void on_reopened(void *userdata, int r, const Error *e)
{
        (void) answer_reopening(userdata, r, e);
        varlink_call_unref(userdata);
}

static int reopen_logs(VarlinkCall *call, json_object *parameters, void *userdata)
{
        _cleanup_error_ Error e = ERROR_NULL;
        json_object *app = NULL;
        Interface *i = userdata;

        (void) json_object_object_get_ex(parameters, "app", &app);
        const char *name = app ? json_object_get_string(app) : NULL;
        if (name && !interface_find_app(i, name))
                return interface_reply_error(call, "org.acnspawn.Pod.NoSuchApp", "app", name, NULL, NULL);
        int r = i->ops.reopen_logs(i->userdata, name ? interface_find_app(i, name)->name : NULL, on_reopened,
                                   varlink_call_ref(call), &e);
        if (r >= 0)
                return 0;
        varlink_call_unref(call);
        return answer_reopening(call, r, &e);
}

/* --- The service --------------------------------------------------------------------------------------- */

static const VarlinkMethod methods[] = {
                {"Describe", describe, 0},
                {"Monitor", monitor, VARLINK_METHOD_MORE},
                {"AddApp", interface_add_app, 0},
                {"LaunchGroup", interface_launch_group, 0},
                {"RemoveApp", interface_remove_app, 0},
                {"StartApp", interface_start_app, 0},
                {"StopApp", interface_stop_app, 0},
                {"RestartApp", interface_restart_app, 0},
                {"SignalApp", interface_signal_app, 0},
                {"Exec", interface_exec, VARLINK_METHOD_FDS},
                {"Attach", interface_attach, VARLINK_METHOD_MORE | VARLINK_METHOD_FDS},
                {"CloseStdin", interface_close_stdin, 0},
                {"ResizeTerminal", interface_resize_terminal, 0},
                {"Pause", interface_pause_pod, 0},
                {"Resume", interface_resume_pod, 0},
                {"Stop", stop, 0},
                {"Logs", interface_logs, VARLINK_METHOD_FDS},
                {"ReopenLogs", reopen_logs, 0},
                {"Stats", interface_stats, 0},
                {"UpdateApp", interface_update_app, 0},
                {"ReplaceApp", interface_replace_app, 0},
                {"CompareCredentials", interface_compare_credentials, 0},
};

static const VarlinkInterface pod_interface = {.name = "org.acnspawn.Pod",
                                               .description = POD_INTERFACE_DESCRIPTION,
                                               .methods = methods,
                                               .n_methods = ELEMENTSOF(methods)};

static int listen_for_calls(Interface *i)
{
        int fd = socket_bind_at(i->pod->dir_fd, SOCKET_NAME, SOCK_STREAM);

        if (fd < 0)
                return fd;
        if (listen(fd, 128) < 0) {
                int r = -errno;
                safe_close(fd);
                return r;
        }
        return varlink_server_listen(i->server, fd);
}

int interface_serve(Interface *i, Error *e)
{
        int r = varlink_server_new(i->event, "acnspawn", ACNSPAWN_VERSION, &i->server, e);

        if (r >= 0)
                r = varlink_server_add_interface(i->server, &pod_interface, i, e);
        if (r < 0)
                return r;
        r = listen_for_calls(i);
        return r < 0 ? error_set_errno(e, r, "Cannot make the socket of the interface of pod %s",
                                       pod_display_name(i->pod))
                     : 0;
}

int interface_new(Pod *p, sd_event *event, AppTable *apps, FileKeeper *keeper, const InterfaceOps *ops,
                  void *userdata, Interface **ret, Error *e)
{
        Interface *i = calloc(1, sizeof(Interface));

        if (!i)
                return error_oom(e);
        *i = (Interface){.pod = p,
                         .event = event,
                         .apps = apps,
                         .keeper = keeper,
                         .ops = *ops,
                         .userdata = userdata,
                         .freezer_fd = -EBADF};
        int r = interface_open_execs(i, e);
        if (r >= 0)
                r = interface_serve(i, e);
        if (r < 0) {
                interface_free(i);
                return r;
        }
        *ret = i;
        return 0;
}

static void answer_stops(Interface *i, int status)
{
        json_object *o = json_object_new_object();

        if (status >= 0)
                (void) json_member_add(o, "exitStatus", json_object_new_int(status));
        if (i->killed)
                (void) json_member_add(o, "killed", json_object_new_boolean(true));
        while (i->stops) {
                VarlinkCall *call = i->stops->call;
                (void) varlink_reply(call, o);
                drop_monitor(&i->stops, call);
        }
        json_object_put(o);
}

/* The ends of apps that the pod's systemd could not report before it ended; and tasks that were never started. */
static void report_apps(Interface *i)
{
        FOREACH_APP(app, i->apps)
        {
                PodUnit *u = &app->units[0];
                if (u->life == UNIT_UP)
                        pod_unit_set(u, UNIT_DOWN);
                else if (!interface_task_is_lost(i, app))
                        continue;
                interface_changed(i, app);
        }
}

void interface_end(Interface *i, int status)
{
        if (!i || i->ended)
                return;
        i->ended = true;
        interface_end_execs(i);
        if (i->monitors)
                report_apps(i);
        _cleanup_json_ json_object *event =
                        i->monitors ? record_event(i, NULL, true, status, NULL, NULL) : NULL;
        while (i->monitors) {
                VarlinkCall *call = i->monitors->call;
                if (event)
                        (void) varlink_reply(call, event);
                drop_monitor(&i->monitors, call);
        }
        interface_drop_starts(i);
        interface_drop_deferred(i);
        pod_pause_release(i->apps->pause);
        answer_stops(i, status);
        i->kill_timer = sd_event_source_disable_unref(i->kill_timer);
        varlink_server_end(i->server);
}

Interface *interface_free(Interface *i)
{
        if (!i)
                return NULL;
        interface_end(i, -1);
        interface_end_logs(i);
        interface_drop_attachments(i);
        varlink_server_free(i->server);
        safe_close(i->freezer_fd);
        for (size_t k = 0; k < EVENTS_KEPT; k++)
                free(i->events[k]);
        free(i);
        return NULL;
}
