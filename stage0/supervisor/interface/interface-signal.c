/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Signals to apps by calls of the pod's interface.
 *
 * The pod's systemd knows the main process of an app, but clients and notify messages can name another
 * process. So the signal is sent from here, by a descriptor of the process, after checking that it is in the
 * cgroup of the app's service. systemd's child enters that cgroup just before it executes the launcher: a
 * call that comes earlier fails and can be repeated. */

#include <signal.h>

#include "stage0/supervisor/interface/interface-internal.h"
#include "stage0/supervisor/apps/task-state.h"

typedef struct SignalCall {
        Interface *interface;
        VarlinkCall *call;
        json_object *parameters;
        char *app;
        int signal;
} SignalCall;

static void signal_call_free(SignalCall *s)
{
        varlink_call_unref(s->call);
        json_object_put(s->parameters);
        free(s->app);
        free(s);
}

static int foreign_process(const SignalCall *s, pid_t leader, uint32_t number)
{
        _cleanup_json_ json_object *o = json_object_new_object();
        pid_t pid = 0;

        int r = json_member_add_text(o, "app", s->app);
        if (r >= 0 && pod_find_process(leader, number, &pid) >= 0)
                r = json_member_add(o, "pid", json_object_new_int64(pid));
        return r < 0 ? r : varlink_reply_error(s->call, "org.acnspawn.Pod.ForeignProcess", o);
}

/* Records SIGKILL as the reason of the stop. An app without a main process is not stopped by it, and an app that is being
 * stopped keeps its reason. */
static void note_kill(const SignalCall *s, AppInstance *app)
{
        if (s->signal == SIGKILL && app->units[0].life == UNIT_UP)
                app_stop_handle(app, KILL_SENT);
}

static int send_signal(const SignalCall *s, AppInstance *app, uint32_t number)
{
        PodRuntime runtime = {};
        pid_t pid = 0;

        int r = pod_runtime_read(s->interface->pod, &runtime);
        if (r < 0)
                return r;
        _cleanup_close_ int fd =
                        pod_app_open_process(s->interface->pod, s->app, runtime.leader, number, &pid);
        /* ENODEV: the cgroup was removed while it was read */
        if (fd == -ESRCH || fd == -ECHILD || fd == -ENOENT || fd == -ENODEV)
                return foreign_process(s, runtime.leader, number);
        if (fd < 0)
                return fd;
        r = process_signal(fd, s->signal);
        if (r >= 0)
                note_kill(s, app);
        else if (r != -ESRCH)
                return r;
        return varlink_reply(s->call, NULL);
}

static void on_main_process(void *userdata, int r, uint32_t number)
{
        SignalCall *s = userdata;
        AppInstance *app = r < 0 ? NULL : interface_find_app(s->interface, s->app);

        if (r == -ECONNRESET) /* the query was lost with the connection, and can be repeated */
                r = interface_defer(s->interface, s->call, s->parameters, interface_signal_app);
        else if (r >= 0 && !app)
                r = interface_reply_error(s->call, "org.acnspawn.Pod.NoSuchApp", "app", s->app, NULL, NULL);
        else if (r >= 0)
                r = number == 0 ? interface_wrong_state(s->interface, s->call, app)
                                : send_signal(s, app, number);
        if (r < 0)
                (void) varlink_reply_errno(s->call, r);
        signal_call_free(s);
}

static int ask(Interface *i, VarlinkCall *call, json_object *parameters, const AppInstance *app, int sig)
{
        SignalCall *s = calloc(1, sizeof(SignalCall));

        if (!s)
                return -ENOMEM;
        *s = (SignalCall){.interface = i,
                          .call = varlink_call_ref(call),
                          .parameters = json_object_get(parameters),
                          .app = strdup(app->name),
                          .signal = sig};
        int r = s->app ? manager_link_main_process(i->ops.manager(i->userdata), app->units[0].name,
                                                   on_main_process, s)
                       : -ENOMEM;
        if (r < 0)
                signal_call_free(s);
        /* The connection may have been lost a moment ago. */
        return r == -ENOTCONN || r == -ECONNRESET
                               ? interface_defer(i, call, parameters, interface_signal_app)
                               : r;
}

int interface_signal_app(VarlinkCall *call, json_object *parameters, void *userdata)
{
        json_object *number = NULL;
        Interface *i = userdata;
        AppInstance *app = NULL;

        int r = interface_begin(i, call, parameters, false, interface_signal_app, &app);
        if (r != 0)
                return MIN(r, 0);
        int64_t sig = json_object_object_get_ex(parameters, "signal", &number)
                                      ? json_object_get_int64(number)
                                      : 0;
        if (sig < 1 || sig > SIGRTMAX)
                return varlink_reply_invalid_parameter(call, "signal");
        return app->units[0].life == UNIT_UP ? ask(i, call, parameters, app, (int) sig)
                                             : interface_wrong_state(i, call, app);
}
