/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A pod in the foreground: the client that the caller sees, and the supervisor.
 *
 * The client passes on signals and input, and writes nothing: the supervisor has its standard output and
 * standard error. Ctrl-Z stops the client alone, as apps must go on being served: their launchers wait for
 * answers, and the pod for requests to end. Meanwhile output of the apps is held back. If the client dies,
 * so does the supervisor, and the pod.
 *
 * An app that reads its standard input gets the client's. Its terminal is the client's as long as it runs;
 * the detach keys leave the whole pod, which then goes on as one that was started with --detach. */

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "stage0/cli/interrupt.h"
#include "stage0/control/control.h"
#include "stage0/supervisor/start/foreground.h"

typedef struct Ends {
        pid_t pid; /* of the supervisor */
        int report_fd;
        bool attached;
} Ends;

/* The first app that has a standard input. */
static int find_app(Pod *p, ForegroundProxy *f, Error *e)
{
        for (size_t i = 0; i < p->manifest->n_apps && !f->app; i++) {
                _cleanup_app_settings_ AppSettings s = {};
                int r = app_settings_read(p->manifest->apps[i], &s, e);
                if (r < 0)
                        return r;
                if (s.input == INPUT_NULL)
                        continue;
                f->app = strdup(p->manifest->apps[i]->name);
                if (!f->app)
                        return error_oom(e);
                f->kind = (AppInput) s.input;
        }
        return 0;
}

/* --- What happens -------------------------------------------------------------------------------------- */

static void tell(Forward *f, ForegroundEvent event, const struct winsize *size)
{
        const Ends *ends = f->userdata;

        if (ends->attached)
                (void) foreground_send(f->socket, event, false, size);
}

/* Without an app there is only the report, which has the message. */
static int on_event(Forward *f)
{
        Ends *ends = f->userdata;
        ForegroundMessage m;

        if (!ends->attached)
                return 1;
        int r = foreground_receive(f->socket, &m);
        if (r == -EAGAIN)
                return 0;
        if (r <= 0)
                return 1;
        if (m.event == FOREGROUND_ESCAPES)
                forward_note_escapes(f);
        if (m.event == FOREGROUND_STARTED || m.event == FOREGROUND_ENDED)
                forward_set_terminal(f, m.event == FOREGROUND_STARTED && m.terminal);
        if (f->terminal)
                tell(f, FOREGROUND_READY, NULL);
        return 0;
}

/* Signals that end a pod are forwarded to its supervisor; others are for this process. */
static int on_signal(Forward *f, int sig)
{
        const Ends *ends = f->userdata;

        if (sig != SIGINT && sig != SIGTERM && sig != SIGHUP)
                return 1;
        (void) kill(ends->pid, sig);
        return 0;
}

static void on_resize(Forward *f, const struct winsize *size)
{
        tell(f, FOREGROUND_SIZE, size);
}

static void on_input_end(Forward *f)
{
        tell(f, FOREGROUND_CLOSE_STDIN, NULL);
}

static void on_suspend(Forward *f, bool stop)
{
        const Ends *ends = f->userdata;

        (void) kill(ends->pid, stop ? SIGTSTP : SIGCONT);
}

static const ForwardOps ops = {
                .what = "The pod",
                .on_event = on_event,
                .on_signal = on_signal,
                .on_resize = on_resize,
                .on_input_end = on_input_end,
                .on_suspend = on_suspend,
};

/* --- The supervisor ------------------------------------------------------------------------------------ */

static int make_channels(ForegroundProxy *front, Forward *f, Ends *ends)
{
        int pair[2];

        if (pipe2(pair, O_CLOEXEC) < 0)
                return -errno;
        ends->report_fd = pair[0];
        front->report_fd = pair[1];
        if (!front->app) {
                f->socket = fcntl(ends->report_fd, F_DUPFD_CLOEXEC, 3);
                return f->socket < 0 ? -errno : 0;
        }
        ends->attached = true;
        if (pipe2(pair, O_CLOEXEC) < 0)
                return -errno;
        front->in_fd = pair[0];
        f->fds[0] = pair[1];
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
                return -errno;
        front->socket = pair[0];
        f->socket = pair[1];
        return 0;
}

static void close_ours(Forward *f, Ends *ends)
{
        forward_done(f);
        ends->report_fd = safe_close(ends->report_fd);
}

/* A signal that was not for the pod ends this process as by default, and thereby the pod. */
static _noreturn_ void die(int sig)
{
        sigset_t set;

        sigemptyset(&set);
        sigaddset(&set, sig);
        (void) signal(sig, SIG_DFL);
        (void) raise(sig);
        (void) sigprocmask(SIG_UNBLOCK, &set, NULL);
        _exit(128 + sig);
}

/* By then it has sent its report, or was killed. */
static int wait_for(Pod *p, Ends *ends, bool *ret_detached, Error *e)
{
        int result = 0, sig = 0, status = 0, r = report_read(p, ends->report_fd, &result, e);

        if (r > 0) {
                *ret_detached = true;
                return 0;
        }
        if (r == 0 && e->message) {
                error_print(e, -EIO);
                error_done(e);
        }
        if (r == -ECHILD) {
                r = report_silence(p, ends->pid, &sig, e);
                if (sig == SIGINT || sig == SIGTERM || sig == SIGHUP)
                        die(sig); /* the signal that was passed on */
                return r;
        }
        while (waitpid(ends->pid, &status, 0) < 0 && errno == EINTR)
                ;
        /* The supervisor stopped waiting for the reader of its output. This eventually ends the client, too. */
        if (WIFSIGNALED(status))
                interrupt_note(WTERMSIG(status));
        return r < 0 ? r : result;
}

static int forward_until_end(Pod *p, const RunOptions *o, Forward *f, Ends *ends, bool *ret_detached,
                             Error *e)
{
        f->ops = &ops;
        f->userdata = ends;
        f->keys = o->detach_keys;
        int r = forward_streams(f, e);
        if (r < 0) /* there is no way to handle it */
                (void) kill(ends->pid, SIGTERM);
        if (f->signal > 0)
                die(f->signal);
        if (f->detached)
                tell(f, FOREGROUND_LEAVE, NULL);
        int k = wait_for(p, ends, ret_detached, r < 0 ? NULL : e);
        return r < 0 ? r : k;
}

int foreground_run(Pod *p, const RunOptions *o, bool *ret_detached, Error *e)
{
        ForegroundProxy front = FOREGROUND_PROXY_NULL;
        Forward f = FORWARD_NULL;
        Ends ends = {.report_fd = -EBADF};

        int r = find_app(p, &front, e);
        if (r >= 0) {
                r = make_channels(&front, &f, &ends);
                if (r < 0)
                        r = error_set_errno(e, r, "Cannot create the channels to pod %s",
                                            pod_display_name(p));
        }
        if (front.app && front.kind == INPUT_TERMINAL && !isatty(STDIN_FILENO))
                log_warning("Standard input is not a terminal, as app %s has one: nobody can type, and its input ends with ours",
                            front.app);
        if (r >= 0)
                r = supervisor_spawn(p, o, &front, &ends.pid, e);
        if (r >= 0)
                r = forward_until_end(p, o, &f, &ends, ret_detached, e);
        foreground_done(&front);
        close_ours(&f, &ends);
        return r;
}
