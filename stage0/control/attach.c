/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Attaches to an app: the standard streams of this process are connected to those of the app, through the
 * supervisor, which has the other ends of all of them.
 *
 * No descriptor of this process is passed into the pod, in particular not its terminal: input and output go
 * through pipes, which are the streams of a call of the pod's interface. */

#include "schema/settings.h"
#include "stage0/api/acn.h"
#include "stage0/control/control-internal.h"
#include "stage0/report/report.h"

#define ANSWER_USEC (30 * UINT64_C(1000000))

typedef struct Attachment {
        const AttachOptions *options;
        Forward forward;
        Pod *pod;
        AcnPod *connection;
        AcnAttachState state; /* as of the last reply */
        bool terminal;        /* the app's */
} Attachment;

/* --- Selecting the app --------------------------------------------------------------------------------- */

static int input_of(const PodApp *app, AppInput *ret, Error *e)
{
        _cleanup_app_settings_ AppSettings s = {};
        int r = app_settings_read(app, &s, e);

        if (r >= 0)
                *ret = (AppInput) s.input;
        return r;
}

/* Of several apps, the only one with a standard input. */
static const char *only_app(const Pod *p)
{
        const char *found = NULL;

        for (size_t i = 0; i < p->manifest->n_apps; i++) {
                AppInput input = INPUT_NULL;

                if (input_of(p->manifest->apps[i], &input, NULL) < 0 || input == INPUT_NULL)
                        continue;
                if (found)
                        return NULL;
                found = pod_app_path_name(p->manifest->apps[i]);
        }
        return found;
}

static int find_app(Pod *p, const AttachOptions *o, const PodApp **ret, AppInput *ret_input, Error *e)
{
        AppInput input = INPUT_NULL;

        if (o->no_input)
                return pod_find_app(p, o->app, ret, e);
        int r = pod_find_app(p, o->app ?: only_app(p), ret, e);
        if (r >= 0)
                r = input_of(*ret, &input, e);
        if (r < 0)
                return r;
        *ret_input = input;
        if (input != INPUT_NULL)
                return 0;
        r = error_set(e, -ENOTCONN,
                      "App %s of pod %s cannot be attached to: its standard input is /dev/null",
                      (*ret)->name, pod_display_name(p));
        return error_hint(e, r,
                          "Prepare the pod with --interactive or --stdin; 'acnspawn attach --no-stdin %s' "
                          "shows the output of the app, and 'acnspawn enter %s' runs a command beside it.",
                          pod_display_name(p), pod_display_name(p));
}

/* --- The call ------------------------------------------------------------------------------------------ */

static int make_pipe(Forward *f, size_t i, AcnAttachOptions *x)
{
        int fds[2];

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        x->fds[i] = fds[i == 0 ? 0 : 1];
        f->fds[i] = fds[i == 0 ? 1 : 0];
        return 0;
}

static int open_streams(Attachment *a, AcnAttachOptions *x)
{
        size_t n = a->terminal ? 2 : 3;

        for (size_t i = a->options->no_input ? STDOUT_FILENO : STDIN_FILENO; i < n; i++) {
                int r = make_pipe(&a->forward, i, x);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int call(Attachment *a, const PodApp *app, Error *e)
{
        AcnAttachOptions x = {.app = pod_app_path_name(app), .fds = {-EBADF, -EBADF, -EBADF}};

        if (a->terminal)
                forward_get_size(&x.size);
        int r = open_streams(a, &x);
        if (r < 0) {
                for (size_t i = 0; i < ELEMENTSOF(x.fds); i++)
                        safe_close(x.fds[i]);
                return error_set_errno(e, r, "Cannot create pipes");
        }
        r = acn_attach(a->connection, &x, e);
        return r < 0 ? r : acn_attach_next(a->connection, ANSWER_USEC, &a->state, e);
}

static int connect_to(Attachment *a, Pod *p, const PodApp *app, Error *e)
{
        int r = acn_connect(p, &a->connection, e);

        if (r < 0)
                return r;
        a->forward.socket = acn_exec_fd(a->connection);
        r = call(a, app, e);
        if (r == 0)
                return app_not_running(p, app, e); /* it has ended just now */
        if (r == -ETIMEDOUT)
                return error_set(e, r, "The supervisor of pod %s does not respond", pod_display_name(p));
        return r < 0 ? r : 0;
}

/* --- While attached ------------------------------------------------------------------------------------ */

/* Several replies may have come at once. */
static int on_event(Forward *f)
{
        Attachment *a = f->userdata;

        for (;;) {
                int r = acn_attach_next(a->connection, 0, &a->state, NULL);
                if (r == -ETIMEDOUT)
                        return 0;
                if (r < 0)
                        return -ECONNRESET;
                if (a->state.skipped > 0)
                        a->options->skipped(a->state.skipped, f->terminal && isatty(STDIN_FILENO));
                if (r == 0)
                        return a->state.exit_code < 0 ? -ECONNRESET : 1;
        }
}

/* Signals are not forwarded to the app: there are other ways to send it signals. */
static int on_signal(Forward *f, int sig)
{
        return 1;
}

/* The first connection is in use by the pending call. Failures do not matter any more at this point. */
static void on_resize(Forward *f, const struct winsize *size)
{
        _cleanup_(acn_disconnectp) AcnPod *other = NULL;
        const Attachment *a = f->userdata;

        if (acn_connect(a->pod, &other, NULL) >= 0)
                (void) acn_resize_terminal(other, a->state.id, size, NULL);
}

static void on_input_end(Forward *f)
{
        _cleanup_(acn_disconnectp) AcnPod *other = NULL;
        const Attachment *a = f->userdata;

        if (!a->options->keep_input && acn_connect(a->pod, &other, NULL) >= 0)
                (void) acn_close_stdin(other, a->state.id, NULL);
}

static const ForwardOps ops = {
                .what = "The app",
                .on_event = on_event,
                .on_signal = on_signal,
                .on_resize = on_resize,
                .on_input_end = on_input_end,
};

static int show_earlier_output(Pod *p, const PodApp *app, uint64_t lines, Error *e)
{
        const LogOptions o = {.app = app->name, .lines = lines};

        return lines > 0 ? pod_logs(p, &o, e) : 0;
}

static int run_attached(Attachment *a, Pod *p, const PodApp *app, Error *e)
{
        Forward *f = &a->forward;

        f->ops = &ops;
        f->userdata = a;
        f->terminal = a->terminal;
        f->detach_when_unread = true;
        f->keys = a->options->keys;
        int r = forward_streams(f, e);
        if (r == -ECONNRESET)
                return error_set(e, r, "The process that runs pod %s was killed, and app %s with it",
                                 pod_display_name(p), app->name);
        return r;
}

/* The connection is closed first, so that the end of a pipe is not interpreted as the end of the input. */
static void detach(Attachment *a)
{
        a->connection = acn_disconnect(a->connection);
        a->forward.socket = -EBADF; /* was the connection's */
        forward_done(&a->forward);
}

int attach_app(Pod *p, const AttachOptions *o, int *ret_status, bool *ret_detached, Error *e)
{
        Attachment a = {.options = o, .pod = p, .forward = FORWARD_NULL};
        const PodApp *app = NULL;
        AppInput input = INPUT_NULL;

        int r = pod_check_running(p, e);
        if (r >= 0)
                r = find_app(p, o, &app, &input, e);
        if (r < 0)
                return r;
        a.terminal = input == INPUT_TERMINAL;
        r = connect_to(&a, p, app, e);
        if (r >= 0)
                r = show_earlier_output(p, app, o->lines, e);
        if (r >= 0)
                r = run_attached(&a, p, app, e);
        detach(&a);
        if (r < 0)
                return r;
        *ret_detached = a.forward.detached;
        *ret_status = a.forward.signal > 0 ? 128 + a.forward.signal
                      : a.forward.detached ? 0
                                           : a.state.exit_code;
        return 0;
}
