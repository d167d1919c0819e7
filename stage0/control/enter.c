/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Runs a command in a running app, with the standard streams of this process.
 *
 * The command gets pipes or a new terminal of the pod, never the descriptors of this process: they would
 * give access to the file, or to input of the terminal. If this process ends, its connection is closed, and
 * the supervisor kills the command. */

#include <signal.h>

#include "stage0/api/acn.h"
#include "stage0/control/control-internal.h"

#define EXIT_TIMED_OUT 124

typedef struct Session {
        AcnPod *connection;
        int process;    /* a pidfd of the command, once it is executed */
        sigset_t early; /* signals that came before */
        int result;     /* of the last acn_exec_next(), */
        AcnExecState state;
        Error error; /* and its message */
        Forward forward;
} Session;

static void session_init(Session *s)
{
        *s = (Session){.process = -EBADF, .forward = FORWARD_NULL};
        sigemptyset(&s->early);
}

static void session_done(Session *s)
{
        s->forward.socket = -EBADF; /* the connection's */
        forward_done(&s->forward);
        acn_disconnect(s->connection);
        safe_close(s->process);
        error_done(&s->error);
}

/* --- The call ------------------------------------------------------------------------------------------ */

static int make_pipe(Session *s, size_t i, AcnExecOptions *x)
{
        int fds[2];

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        x->fds[i] = fds[i == 0 ? 0 : 1];
        s->forward.fds[i] = fds[i == 0 ? 1 : 0];
        return 0;
}

/* A terminal if this process has one; redirected streams stay separate. */
static int open_streams(Session *s, const EnterOptions *o, AcnExecOptions *x, Error *e)
{
        x->terminal = !o->no_terminal && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
        if (x->terminal) {
                x->terminal_type = terminal_type();
                forward_get_size(&x->size);
        }
        for (size_t i = x->terminal ? STDERR_FILENO : STDIN_FILENO; i <= STDERR_FILENO; i++) {
                bool none = x->terminal ? isatty(STDERR_FILENO) : i == STDIN_FILENO && o->no_input;
                int r = none ? 0 : make_pipe(s, i, x);
                if (r < 0)
                        return error_set_errno(e, r, "Cannot create the streams of the command");
        }
        return 0;
}

static int start(Session *s, Pod *p, const PodApp *app, const EnterOptions *o, Error *e)
{
        AcnExecOptions x = {.app = pod_app_path_name(app),
                            .argv = o->argv,
                            .environment = o->environment,
                            .user = o->user,
                            .directory = o->directory,
                            .timeout_usec = o->timeout_usec,
                            .fds = {-EBADF, -EBADF, -EBADF}};

        int r = acn_connect(p, &s->connection, e);
        if (r < 0)
                return r;
        s->forward.socket = acn_exec_fd(s->connection);
        r = open_streams(s, o, &x, e);
        if (r >= 0)
                return acn_exec(s->connection, &x, e);
        for (size_t i = 0; i < ELEMENTSOF(x.fds); i++)
                safe_close(x.fds[i]);
        return r;
}

/* --- While it runs ------------------------------------------------------------------------------------- */

static void send_signal(const Session *s, int sig)
{
        (void) process_signal(s->process, sig);
}

static void on_executed(Session *s)
{
        s->process = s->state.process_fd;
        if (s->state.terminal_fd >= 0)
                forward_take_terminal(&s->forward, s->state.terminal_fd);
        for (int sig = 1; sig < NSIG; sig++)
                if (sigismember(&s->early, sig) > 0)
                        send_signal(s, sig);
}

/* Two replies may have come at once. */
static int on_event(Forward *f)
{
        Session *s = f->userdata;

        for (;;) {
                s->result = acn_exec_next(s->connection, 0, &s->state, &s->error);
                if (s->result == -ETIMEDOUT)
                        return 0;
                if (s->result == -ECONNRESET && s->process >= 0)
                        return s->result;
                if (s->result <= 0)
                        return 1;
                on_executed(s);
        }
}

static int pass_on_signal(Forward *f, int sig)
{
        Session *s = f->userdata;

        if (s->process >= 0)
                send_signal(s, sig);
        else
                sigaddset(&s->early, sig);
        return 0;
}

static void set_size(Forward *f, const struct winsize *size)
{
        if (f->fds[0] >= 0)
                (void) ioctl(f->fds[0], TIOCSWINSZ, size);
}

static const ForwardOps ops = {
                .what = "The command",
                .on_event = on_event,
                .on_signal = pass_on_signal,
                .on_resize = set_size,
};

/* --- The end ------------------------------------------------------------------------------------------- */

static int conclude(Session *s, Pod *p, const PodApp *app, int *ret_status, Error *e)
{
        if (s->result == -ESRCH)
                return app_not_running(p, app, e);
        if (s->result < 0) {
                *ret_status = s->result == -ENOEXEC ? s->state.exit_code : 0;
                return error_move(e, &s->error);
        }
        *ret_status = s->state.timed_out ? EXIT_TIMED_OUT : s->state.exit_code;
        return s->state.timed_out ? error_set(e, -ETIMEDOUT, "The command timed out and was killed") : 0;
}

int enter_app(Pod *p, const EnterOptions *o, int *ret_status, Error *e)
{
        const PodApp *app = NULL;
        Session s;

        int r = pod_check_running(p, e);
        if (r >= 0)
                r = pod_find_app(p, o->app, &app, e);
        if (r < 0)
                return r;
        session_init(&s);
        s.forward.ops = &ops;
        s.forward.userdata = &s;
        r = start(&s, p, app, o, e);
        if (r >= 0)
                r = forward_streams(&s.forward, e);
        if (r >= 0 && s.forward.signal > 0)
                *ret_status = 128 + s.forward.signal;
        else if (r >= 0)
                r = conclude(&s, p, app, ret_status, e);
        session_done(&s);
        return r;
}
