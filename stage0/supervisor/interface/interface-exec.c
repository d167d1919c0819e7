/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The methods that run commands beside apps.
 *
 * A call is a session: it lasts as long as the command, and if its connection ends, everything that the
 * command has started is killed. A one-way call leaves the command running, and no caller waits for its
 * end. */

#include <sys/wait.h>

#include "stage0/supervisor/launchers/admission.h"
#include "stage0/supervisor/interface/interface-internal.h"

#define POD "org.acnspawn.Pod."

/* A call that has not ended. */
typedef struct ExecCall {
        Interface *interface;
        VarlinkCall *call; /* NULL: no caller waits for the reply */
        char *app;
        Exec *exec;
} ExecCall;

static ExecCall *exec_call_free(ExecCall *c)
{
        if (!c)
                return NULL;
        varlink_call_unref(c->call);
        free(c->app);
        free(c);
        return NULL;
}

/* --- Errors -------------------------------------------------------------------------------------------- */

static int reply_number(VarlinkCall *call, const char *error, const char *key, uint64_t value)
{
        _cleanup_json_ json_object *o = json_object_new_object();

        int r = json_member_add(o, key, json_object_new_uint64(value));
        return r < 0 ? r : varlink_reply_error(call, error, o);
}

/* An app that has gone counts as not running, whatever state was reported last. */
static int reply_wrong_state(const Interface *i, VarlinkCall *call, const char *app)
{
        const AppInstance *a = interface_find_app(i, app);
        const char *state = a ? interface_app_state(i, a) : "exited";

        if (streq(state, "running"))
                state = "stopping";
        return interface_reply_error(call, POD "WrongState", "app", app, "state", state);
}

static int reply_failed(VarlinkCall *call, const char *app, AppCause cause, const char *text)
{
        _cleanup_json_ json_object *o = json_object_new_object();

        int r = json_member_add_text(o, "app", app);
        if (r >= 0)
                r = json_member_add_text(o, "cause", app_cause_to_string(cause));
        if (r >= 0)
                r = json_member_add_text(o, "message", text);
        return r < 0 ? r : varlink_reply_error(call, POD "ExecFailed", o);
}

static int reply_end_of_start(const Interface *i, VarlinkCall *call, const char *app, int code,
                              AppCause cause, const char *text)
{
        if (code == -ESRCH)
                return reply_wrong_state(i, call, app);
        if (code == -EOPNOTSUPP)
                return interface_reply_error(call, POD "AppUnreachable", "app", app, NULL, NULL);
        if (code == -EUSERS)
                return reply_number(call, POD "TooManyExecs", "limit", EXECS_MAX);
        if (cause == CAUSE_COMMAND_NOT_FOUND)
                return interface_reply_error(call, POD "CommandNotFound", "app", app, "message", text);
        if (cause == CAUSE_COMMAND_NOT_EXECUTABLE)
                return interface_reply_error(call, POD "CannotExecute", "app", app, "message", text);
        return reply_failed(call, app, cause, text);
}

/* --- Events -------------------------------------------------------------------------------------------- */

static int get_main_process(void *userdata, const char *app, pid_t *ret_pid)
{
        const Interface *i = userdata;
        const AppInstance *a = interface_find_app(i, app);

        int r = a ? admission_main_process(a, ret_pid) : -ESRCH;
        return r >= 0 || !a || !streq(interface_app_state(i, a), "running") ? r : -EAGAIN;
}

static int open_null(void *userdata)
{
        const Interface *i = userdata;

        return i->ops.open_null(i->userdata);
}

static int push_copy(VarlinkCall *call, int fd)
{
        int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);

        return copy < 0 ? -errno : fd_list_push(&call->reply_fds, copy);
}

static int reply_executed(VarlinkCall *call, const Exec *x, pid_t pid, int pid_fd, int terminal_fd)
{
        _cleanup_json_ json_object *o = json_object_new_object();

        int r = json_member_add(o, "id", json_object_new_uint64(exec_id(x)));
        if (r >= 0)
                r = json_member_add(o, "pid", json_object_new_int(pid));
        if (r >= 0)
                r = json_member_add(o, "process", json_object_new_int(0));
        if (r >= 0)
                r = push_copy(call, pid_fd);
        if (r >= 0 && terminal_fd >= 0)
                r = json_member_add(o, "terminal", json_object_new_int(1));
        if (r >= 0 && terminal_fd >= 0)
                r = push_copy(call, terminal_fd);
        return r < 0 ? r : varlink_reply_continues(call, o);
}

static void on_executed(void *userdata, Exec *x, pid_t pid, int pid_fd, int terminal_fd)
{
        ExecCall *c = userdata;

        if (!c->call || !c->call->more)
                return;
        int r = reply_executed(c->call, x, pid, pid_fd, terminal_fd);
        if (r < 0)
                log_debug("The start of a command in app %s cannot be reported: %s", c->app, strerror(-r));
}

static int reply_ended(VarlinkCall *call, const Exec *x, const ExecEnd *end)
{
        _cleanup_json_ json_object *o = json_object_new_object();

        int r = json_member_add(o, "id", json_object_new_uint64(exec_id(x)));
        if (r >= 0 && end->error >= 0 && WIFEXITED(end->status))
                r = json_member_add(o, "exitStatus", json_object_new_int(WEXITSTATUS(end->status)));
        if (r >= 0 && end->error >= 0 && WIFSIGNALED(end->status))
                r = json_member_add(o, "signal", json_object_new_int(WTERMSIG(end->status)));
        if (r >= 0 && end->timed_out)
                r = json_member_add(o, "timedOut", json_object_new_boolean(true));
        return r < 0 ? r : varlink_reply(call, o);
}

static void on_ended(void *userdata, Exec *x, const ExecEnd *end)
{
        ExecCall *c = userdata;
        int r = 0;

        if (c->call && end->error < 0 && !end->timed_out)
                r = reply_end_of_start(c->interface, c->call, c->app, end->error, end->cause, end->text);
        else if (c->call)
                r = reply_ended(c->call, x, end);
        if (r < 0)
                log_debug("The end of a command in app %s cannot be reported: %s", c->app, strerror(-r));
        exec_call_free(c);
}

static void on_gone(VarlinkCall *call, void *userdata)
{
        ExecCall *c = userdata;

        c->call = varlink_call_unref(c->call);
        exec_kill(c->exec);
}

/* --- The methods --------------------------------------------------------------------------------------- */

static int start(Interface *i, VarlinkCall *call, const PodApp *app, ExecOptions *o)
{
        _cleanup_error_ Error e = ERROR_NULL;
        ExecCall *c = calloc(1, sizeof(ExecCall));

        if (!c)
                return -ENOMEM;
        *c = (ExecCall){.interface = i, .app = strdup(app->name)};
        int r = c->app ? exec_new(i->execs, app, o, c, &c->exec, &e) : -ENOMEM;
        if (r < 0) {
                exec_call_free(c);
                return reply_end_of_start(i, call, app->name, r, CAUSE_SETUP, e.message ?: strerror(-r));
        }
        if (call->oneway)
                return varlink_reply(call, NULL);
        c->call = varlink_call_ref(call);
        call->on_gone = on_gone;
        call->userdata = c;
        return 0;
}

/* 1: the call was answered with an error. */
static int read_options(VarlinkCall *call, json_object *parameters, ExecOptions *o)
{
        const char *wrong = NULL;

        int r = exec_options_read(parameters, &call->fds, o, &wrong);
        if (r == -EINVAL)
                r = varlink_reply_invalid_parameter(call, wrong) ?: 1;
        return r;
}

int interface_exec(VarlinkCall *call, json_object *parameters, void *userdata)
{
        const char *name = json_object_get_string(json_object_object_get(parameters, "app"));
        ExecOptions o = EXEC_OPTIONS_NULL;
        Interface *i = userdata;

        const AppInstance *app = interface_find_app(i, name);
        if (!app)
                return interface_reply_error(call, POD "NoSuchApp", "app", name, NULL, NULL);
        if (!i->execs)
                return varlink_reply_error(call, POD "PodEnds", NULL);
        if (interface_pod_is_paused(i))
                return varlink_reply_error(call, POD "PodPaused", NULL);
        int r = read_options(call, parameters, &o);
        if (r == 0 && o.terminal && !call->more && !call->oneway)
                r = varlink_reply_error(call, "org.varlink.service.ExpectedMore", NULL);
        else if (r == 0 && app->status.identity && !(o.identity = strdup(app->status.identity)))
                r = -ENOMEM;
        else if (r == 0)
                r = start(i, call, app->manifest, &o);
        exec_options_done(&o);
        return MIN(r, 0);
}

int interface_resize_terminal(VarlinkCall *call, json_object *parameters, void *userdata)
{
        int64_t id = json_object_get_int64(json_object_object_get(parameters, "id"));
        struct winsize size = {};
        Interface *i = userdata;

        if (exec_read_size(parameters, "rows", &size.ws_row) < 0)
                return varlink_reply_invalid_parameter(call, "rows");
        if (exec_read_size(parameters, "columns", &size.ws_col) < 0)
                return varlink_reply_invalid_parameter(call, "columns");
        Exec *x = i->execs && id > 0 ? execs_find(i->execs, (uint64_t) id) : NULL;
        int r = x ? exec_resize(x, &size) : interface_resize_attached(i, id, &size);
        if (r == -ENOTTY)
                return reply_number(call, POD "NoSuchTerminal", "id", (uint64_t) id);
        return r < 0 ? r : varlink_reply(call, NULL);
}

int interface_open_execs(Interface *i, Error *e)
{
        static const ExecEvents events = {.main_process = get_main_process,
                                          .open_null = open_null,
                                          .executed = on_executed,
                                          .ended = on_ended};

        return execs_new(i->pod, i->event, i->apps->pause, &events, i, &i->execs, e);
}

void interface_end_execs(Interface *i)
{
        if (i)
                i->execs = execs_free(i->execs);
}
