/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A command beside a container, whose streams are a client's. When the client goes, the command is killed.
 *
 * Processes that it leaves in the background may hold its streams open, which end soon after it nevertheless: those of a terminal at once. */

#include <sys/ioctl.h>

#include "cri/streams/streams.h"

#define DRAIN_USEC (2 * UINT64_C(1000000)) /* as of ExecSync */
#define DRAIN_TERMINAL_USEC (UINT64_C(100000))

typedef struct Exec {
        AcnPod *pod;
        Session *session;
        const Runtime__V1__ExecRequest *request;
        int terminal_fd;     /* the master, for its size; or -EBADF */
        struct winsize size; /* of the client's, before there is a terminal */
        AcnExecState state;
        Error *error;
} Exec;

static void on_resized(uint16_t rows, uint16_t columns, void *userdata)
{
        Exec *x = userdata;

        x->size = (struct winsize){.ws_row = rows, .ws_col = columns};
        if (x->terminal_fd >= 0)
                (void) ioctl(x->terminal_fd, TIOCSWINSZ, &x->size);
}

static int connect_terminal(Exec *x, int fd)
{
        int in = x->request->stdin ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -EBADF,
            out = x->request->stdout ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -EBADF;

        if (in >= 0)
                session_set_input(x->session, in);
        if (out >= 0)
                session_set_output(x->session, STREAM_STDOUT, out);
        x->terminal_fd = fd;
        if (x->size.ws_row > 0)
                (void) ioctl(fd, TIOCSWINSZ, &x->size);
        return 0;
}

/* Once when the command is executed, and once when it has ended. */
static int on_state(void *userdata)
{
        Exec *x = userdata;

        int r = acn_exec_next(x->pod, 0, &x->state, x->error);
        if (r == -ETIMEDOUT) {
                error_done(x->error);
                return 1;
        }
        if (r != 1)
                return r;
        safe_close(x->state.process_fd);
        if (x->state.terminal_fd >= 0)
                r = connect_terminal(x, x->state.terminal_fd);
        return r < 0 ? r : 1;
}

static int start(Exec *x, const Container *c, CriJob *j, Error *e)
{
        const Runtime__V1__ExecRequest *q = x->request;
        const bool wanted[] = {q->stdin, q->stdout, q->stderr};
        char **argv = cri_alloc(&j->memory, (q->n_cmd + 1) * sizeof(char *));
        AcnExecOptions o = {.app = c->app->name,
                            .argv = argv,
                            .terminal = q->tty,
                            .terminal_type = q->tty ? "xterm" : NULL,
                            .fds = {-EBADF, -EBADF, -EBADF}};

        if (!argv)
                return error_oom(e);
        memcpy(argv, q->cmd, q->n_cmd * sizeof(char *));
        int r = q->tty ? 0 : session_add_pipes(x->session, wanted, o.fds, e);
        return r < 0 ? r : acn_exec(x->pod, &o, e);
}

int cri_stream_exec(CriJob *j, Session *session, const void *request, int *ret_exit, Error *e)
{
        const Runtime__V1__ExecRequest *q = request;
        _cleanup_(acn_disconnectp) AcnPod *pod = NULL;
        _cleanup_sandbox_ Sandbox s = {};
        Exec x = {.session = session, .request = q, .terminal_fd = -EBADF, .error = e};
        Container c;

        int r = container_find(j, q->container_id, &s, &c, e);
        if (r >= 0)
                r = acn_connect(s.pod, &pod, e);
        if (r < 0)
                return r;
        x.pod = pod;
        r = start(&x, &c, j, e);
        if (r < 0)
                return r;
        const SessionHandler h = {.fd = acn_exec_fd(pod),
                                  .ready = on_state,
                                  .drain_usec = q->tty ? DRAIN_TERMINAL_USEC : DRAIN_USEC,
                                  .resized = on_resized,
                                  .userdata = &x};
        r = session_run(session, &h);
        safe_close(x.terminal_fd);
        if (r < 0)
                return r;
        *ret_exit = x.state.exit_code;
        return 0;
}
