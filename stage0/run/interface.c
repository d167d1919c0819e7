/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The Varlink interface of a running pod: what it is, what happens in it, and its end.
 *
 * The socket is "interface" in the pod directory, which only root of the host gets to. Everything that happens has a
 * number. Describe() tells the number of the last event, and Monitor() begins behind a given number, so that
 * nothing is lost between the two; the last events are kept for that.
 */

#include <sys/socket.h>

#include "config.h"
#include "stage0/run/interface-internal.h"

#define SOCKET_NAME "interface"

static const char description[] =
                "# A running pod of acnspawn, and its apps\n"
                "interface org.acnspawn.Pod\n"
                "\n"
                "# An app. A created app was not started yet. What is known only of an app that has ended "
                "comes with it;\n"
                "# exitCode is its exit status, 128 + its signal, or 125 to 127 if it could not be "
                "executed\n"
                "type App (\n"
                "  name: string,\n"
                "  state: (created, starting, running, stopping, exited, removed),\n"
                "  image: ?string,\n"
                "  imageID: string,\n"
                "  starts: int,\n"
                "  ready: ?bool,\n"
                "  startedUSec: ?int,\n"
                "  endedUSec: ?int,\n"
                "  exitStatus: ?int,\n"
                "  signal: ?int,\n"
                "  exitCode: ?int,\n"
                "  cause: ?string,\n"
                "  message: ?string\n"
                ")\n"
                "\n"
                "type PodState (running, paused, stopping, exited)\n"
                "\n"
                "# The pod as it is, and the number of the last event\n"
                "method Describe() -> (\n"
                "  uuid: string,\n"
                "  name: ?string,\n"
                "  state: PodState,\n"
                "  exitPolicy: string,\n"
                "  apps: []App,\n"
                "  sequence: int\n"
                ")\n"
                "\n"
                "# Events from now on, or those after event number since. The last is the end of the pod,\n"
                "# before which the end of each app was reported\n"
                "method Monitor(since: ?int) -> (\n"
                "  sequence: int,\n"
                "  timeUSec: int,\n"
                "  state: PodState,\n"
                "  app: ?App,\n"
                "  exitStatus: ?int\n"
                ")\n"
                "\n"
                "# Add an app, which is created then; its image has to be in the store. The definition is "
                "that of the "
                "file of this\n"
                "# name in the pod directory, with one app. Credentials are in hexadecimal\n"
                "type Credential (name: string, data: string)\n"
                "method AddApp(definition: object, imageID: ?string, credentials: ?[]Credential) -> (\n"
                "  app: string,\n"
                "  warnings: []string\n"
                ")\n"
                "\n"
                "# Remove an app that was created or has exited; what it has written is lost, but for its "
                "log\n"
                "method RemoveApp(app: string) -> ()\n"
                "\n"
                "# Start an app that was created or has exited\n"
                "method StartApp(app: string) -> ()\n"
                "\n"
                "# Stop an app in order; after the time-out it is killed\n"
                "method StopApp(app: string, timeoutUSec: ?int) -> ()\n"
                "\n"
                "# Stop an app in order, if it runs, and start it with a clean root\n"
                "method RestartApp(app: string) -> ()\n"
                "\n"
                "# Send a signal to the main process of an app that has one\n"
                "method SignalApp(app: string, signal: int) -> ()\n"
                "\n"
                "# Run a command beside an app, confined as the app is; without a command the shell of the "
                "user. "
                "Streams are pipes, by\n"
                "# their indexes among the descriptors of the call; those that are not given are the null "
                "device, or "
                "with terminal a\n"
                "# new terminal of the app. With more, the first reply comes when the command is executed: "
                "process is "
                "a pidfd and\n"
                "# terminal the terminal's master, among the descriptors of the reply. The last one comes "
                "when it has "
                "ended.\n"
                "# With hex, command, environment and workingDirectory are hexadecimal digits, and may be "
                "any bytes.\n"
                "# If it takes longer than timeoutUSec, or the caller disconnects, all that it has started "
                "is "
                "killed.\n"
                "method Exec(\n"
                "  app: string,\n"
                "  command: ?[]string,\n"
                "  environment: ?[]string,\n"
                "  user: ?string,\n"
                "  group: ?string,\n"
                "  workingDirectory: ?string,\n"
                "  hex: ?bool,\n"
                "  terminal: ?bool,\n"
                "  terminalType: ?string,\n"
                "  rows: ?int,\n"
                "  columns: ?int,\n"
                "  stdin: ?int,\n"
                "  stdout: ?int,\n"
                "  stderr: ?int,\n"
                "  timeoutUSec: ?int\n"
                ") -> (\n"
                "  id: int,\n"
                "  pid: ?int,\n"
                "  process: ?int,\n"
                "  terminal: ?int,\n"
                "  exitStatus: ?int,\n"
                "  signal: ?int,\n"
                "  timedOut: ?bool\n"
                ")\n"
                "\n"
                "# Change the size of the terminal of a command that runs beside an app, by the id of Exec\n"
                "method ResizeTerminal(id: int, rows: int, columns: int) -> ()\n"
                "\n"
                "# Freeze all processes of the pod\n"
                "method Pause() -> ()\n"
                "\n"
                "method Resume() -> ()\n"
                "\n"
                "# Stop the pod in order; after the time-out it is killed. Answered when the pod has ended\n"
                "method Stop(timeoutUSec: ?int) -> (exitStatus: ?int, killed: ?bool)\n"
                "\n"
                "# Open the log file of an app, or of all apps, anew\n"
                "method ReopenLogs(app: ?string) -> ()\n"
                "\n"
                "# Bytes, and microseconds of processors; what this host cannot measure is not there, nor a "
                "limit\n"
                "# if there is none. Pressure is for how long some process could not go on for want of it.\n"
                "type Usage (\n"
                "  cpuUSec: ?int,\n"
                "  memory: ?int,\n"
                "  memoryPeak: ?int,\n"
                "  memoryMax: ?int,\n"
                "  readBytes: ?int,\n"
                "  writtenBytes: ?int,\n"
                "  processes: ?int,\n"
                "  cpuPressureUSec: ?int,\n"
                "  memoryPressureUSec: ?int,\n"
                "  ioPressureUSec: ?int\n"
                ")\n"
                "\n"
                "type AppUsage (app: string, usage: Usage)\n"
                "\n"
                "type NetworkUsage (\n"
                "  name: string,\n"
                "  receivedBytes: int,\n"
                "  receivedPackets: int,\n"
                "  receivedErrors: int,\n"
                "  receivedDropped: int,\n"
                "  sentBytes: int,\n"
                "  sentPackets: int,\n"
                "  sentErrors: int,\n"
                "  sentDropped: int\n"
                ")\n"
                "\n"
                "# What the pod, and its apps or one of them, use, at a time of the monotonic clock; the "
                "counters of\n"
                "# the interfaces of the pod's network if it has one of its own\n"
                "method Stats(app: ?string) -> (\n"
                "  timeUSec: int,\n"
                "  pod: Usage,\n"
                "  apps: []AppUsage,\n"
                "  networks: ?[]NetworkUsage\n"
                ")\n"
                "\n"
                "# Change limits of an app while it runs; those that are not given stay as they are. Memory "
                "is in bytes,\n"
                "# cpu in thousandths of a processor; cpuShares is a weight, of which 1024 is the default. "
                "They are in\n"
                "# force when this returns, also for later starts of the app in this pod. Below what the "
                "app uses, memory\n"
                "# is reclaimed; processes are killed if that does not suffice. Processes beyond tasks "
                "stay.\n"
                "method UpdateApp(\n"
                "  app: string,\n"
                "  memory: ?int,\n"
                "  cpu: ?int,\n"
                "  cpuShares: ?int,\n"
                "  tasks: ?int\n"
                ") -> ()\n"
                "\n"
                "error NoSuchApp (app: string)\n"
                "\n"
                "# This host has no such cgroup controller for pods; nothing was changed\n"
                "error NotSupported (controller: string)\n"
                "\n"
                "# The call is not for an app in this state\n"
                "error WrongState (app: string, state: string)\n"
                "\n"
                "# The app cannot be added\n"
                "error AppRefused (message: string, hint: ?string, errno: int)\n"
                "\n"
                "# The result is that of the job of the pod's systemd, the message that of the app's "
                "record\n"
                "error JobFailed (app: string, result: string, message: ?string)\n"
                "\n"
                "# What the pod's systemd calls the main process of the app is not in the app's cgroup "
                "(yet)\n"
                "error ForeignProcess (app: string, pid: ?int)\n"
                "\n"
                "error LogsNotReopened (message: string)\n"
                "\n"
                "error PodPaused ()\n"
                "\n"
                "# The command does not exist in the image; it cannot be executed; or something else was in "
                "the way, "
                "and cause says what\n"
                "error CommandNotFound (app: string, message: string)\n"
                "error CannotExecute (app: string, message: string)\n"
                "error ExecFailed (app: string, cause: string, message: string)\n"
                "\n"
                "# The first thread of the app's main process has ended, though others go on\n"
                "error AppUnreachable (app: string)\n"
                "\n"
                "# So many commands run beside apps at a time\n"
                "error TooManyExecs (limit: int)\n"
                "\n"
                "# No command runs that has this id and a terminal\n"
                "error NoSuchTerminal (id: int)\n"
                "\n"
                "# Nothing can be started any more\n"
                "error PodEnds ()\n"
                "\n"
                "# Events between these numbers are not kept any more\n"
                "error EventsLost (since: int, oldest: int)\n";

static json_object *pod_state(const Interface *i, bool exited)
{
        const char *state = exited                     ? "exited"
                            : i->ops.ends(i->userdata) ? "stopping"
                            : pod_is_paused(i->pod)    ? "paused"
                                                       : "running";

        return json_object_new_string(state);
}

/* --- Events -------------------------------------------------------------------------------------------- */

/* STATUS: the exit status of the pod if it has ended. */
static json_object *make_event(const Interface *i, AppInstance *app, bool exited, int status)
{
        json_object *o = json_object_new_object();

        int r = json_member_add(o, "sequence", json_object_new_uint64(i->sequence));
        if (r >= 0)
                r = json_member_add(o, "timeUSec", json_object_new_uint64(now_usec(CLOCK_REALTIME)));
        if (r >= 0)
                r = json_member_add(o, "state", pod_state(i, exited));
        if (r >= 0 && app)
                r = json_member_add(o, "app", interface_app_json(i, app));
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

/* A peer that does not read loses its connection, which is reported by on_monitor_gone(), later. */
/* Kept as text, which takes a tenth of the memory of objects. The event is the caller's. */
static json_object *record_event(Interface *i, AppInstance *app, bool exited, int status)
{
        i->sequence++;
        char **place = &i->events[i->sequence % EVENTS_KEPT];
        json_object *event = make_event(i, app, exited, status);

        free(*place);
        *place = event ? strdup(json_object_to_json_string_ext(
                                                event,
                                                JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)
                                                ?: "")
                       : NULL;
        return event;
}

void interface_changed(Interface *i, AppInstance *app)
{
        _cleanup_json_ json_object *event = i ? record_event(i, app, false, -1) : NULL;

        for (Monitor *m = event ? i->monitors : NULL; m; m = m->next)
                (void) varlink_reply_continues(m->call, event);
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
                _cleanup_json_ json_object *event = text ? json_tokener_parse(text) : NULL;
                int r = event ? varlink_reply_continues(call, event) : -ENOMEM;
                if (r < 0)
                        return r;
        }
        return keep_call(i, &i->monitors, call, on_monitor_gone);
}

/* --- The pod ------------------------------------------------------------------------------------------- */

static json_object *apps_json(const Interface *i)
{
        json_object *l = json_object_new_array();

        FOREACH_APP(app, i->apps)
        {
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

static int set_frozen(VarlinkCall *call, Interface *i, bool frozen)
{
        int r = pod_freeze(i->pod, frozen, NULL);

        if (r < 0)
                return r;
        r = varlink_reply(call, NULL); /* first, as the event takes longer */
        interface_changed(i, NULL);
        return r;
}

static int pause_by_call(VarlinkCall *call, json_object *parameters, void *userdata)
{
        return set_frozen(call, userdata, true);
}

static int resume_by_call(VarlinkCall *call, json_object *parameters, void *userdata)
{
        return set_frozen(call, userdata, false);
}

static int on_kill(sd_event_source *source, uint64_t usec, void *userdata)
{
        Interface *i = userdata;

        i->killed = true;
        i->ops.stop(i->userdata, true);
        return 0;
}

/* The first time-out that is over counts. */
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

static int reopen_logs(VarlinkCall *call, json_object *parameters, void *userdata)
{
        _cleanup_error_ Error e = ERROR_NULL;
        json_object *app = NULL;
        Interface *i = userdata;

        (void) json_object_object_get_ex(parameters, "app", &app);
        const char *name = app ? json_object_get_string(app) : NULL;
        if (name && !app_table_find(i->apps, name))
                return interface_reply_error(call, "org.acnspawn.Pod.NoSuchApp", "app", name, NULL, NULL);
        int r = i->ops.reopen_logs(i->userdata, name, &e);
        if (r >= 0)
                return varlink_reply(call, NULL);
        return interface_reply_error(call, "org.acnspawn.Pod.LogsNotReopened", "message",
                                     e.message ?: strerror(-r), NULL, NULL);
}

/* --- The service --------------------------------------------------------------------------------------- */

static const VarlinkMethod methods[] = {
                {"Describe", describe, 0},
                {"Monitor", monitor, VARLINK_METHOD_MORE},
                {"AddApp", interface_add_app, 0},
                {"RemoveApp", interface_remove_app, 0},
                {"StartApp", interface_start_app, 0},
                {"StopApp", interface_stop_app, 0},
                {"RestartApp", interface_restart_app, 0},
                {"SignalApp", interface_signal_app, 0},
                {"Exec", interface_exec, VARLINK_METHOD_FDS},
                {"ResizeTerminal", interface_resize_terminal, 0},
                {"Pause", pause_by_call, 0},
                {"Resume", resume_by_call, 0},
                {"Stop", stop, 0},
                {"ReopenLogs", reopen_logs, 0},
                {"Stats", interface_stats, 0},
                {"UpdateApp", interface_update_app, 0},
};

static const VarlinkInterface pod_interface = {.name = "org.acnspawn.Pod",
                                               .description = description,
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

int interface_new(Pod *p, sd_event *event, AppTable *apps, const InterfaceOps *ops, void *userdata,
                  Interface **ret, Error *e)
{
        Interface *i = calloc(1, sizeof(Interface));

        if (!i)
                return error_oom(e);
        *i = (Interface){.pod = p, .event = event, .apps = apps, .ops = *ops, .userdata = userdata};
        int r = varlink_server_new(event, "acnspawn", ACNSPAWN_VERSION, &i->server, e);
        if (r >= 0)
                r = interface_open_execs(i, e);
        if (r >= 0)
                r = varlink_server_add_interface(i->server, &pod_interface, i, e);
        if (r >= 0) {
                r = listen_for_calls(i);
                if (r < 0)
                        (void) error_set_errno(e, r, "Cannot make the socket of the interface of pod %s",
                                               pod_display_name(p));
        }
        if (r < 0) {
                interface_free(i, -1);
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

/* The ends of apps that the pod's systemd could not report any more. */
static void report_apps(Interface *i)
{
        FOREACH_APP(app, i->apps)
        {
                PodUnit *u = &app->units[0];
                if (u->life != UNIT_UP)
                        continue;
                pod_unit_set(u, UNIT_DOWN);
                interface_changed(i, app);
        }
}

Interface *interface_free(Interface *i, int status)
{
        if (!i)
                return NULL;
        interface_end_execs(i);
        if (i->monitors)
                report_apps(i);
        _cleanup_json_ json_object *event = i->monitors ? record_event(i, NULL, true, status) : NULL;
        while (i->monitors) {
                VarlinkCall *call = i->monitors->call;
                if (event)
                        (void) varlink_reply(call, event);
                drop_monitor(&i->monitors, call);
        }
        interface_drop_starts(i);
        answer_stops(i, status);
        sd_event_source_disable_unref(i->kill_timer);
        varlink_server_free(i->server);
        for (size_t k = 0; k < EVENTS_KEPT; k++)
                free(i->events[k]);
        free(i);
        return NULL;
}
