/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Runs a function in a child process, which may enter other namespaces, and receives its result: an error
 * with its message, or a text and a descriptor; child_fork_with_pipe() is for other results. */

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "stage0/host/host.h"

typedef struct Report {
        int32_t code;
        char message[1024], hint[1024], text[256];
} Report;

static _noreturn_ void child(const ChildWork *w, int sock, pid_t parent)
{
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_free_ char *text = NULL;
        Report report = {};
        int fd = -EBADF, r;

        if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent)
                _exit(1);
        r = w->function(w->data, &fd, &text, &e);
        report.code = MIN(r, 0);
        snprintf(report.message, sizeof(report.message), "%s", e.message ?: "");
        snprintf(report.hint, sizeof(report.hint), "%s", e.hint ?: "");
        snprintf(report.text, sizeof(report.text), "%s", text ?: "");
        (void) fflush(NULL);
        (void) send_fds(sock, &report, sizeof(report), &fd, r >= 0 && fd >= 0 ? 1 : 0);
        _exit(0);
}

static int take_report(const ChildWork *w, int sock, int *ret_fd, char **ret_text, Error *e)
{
        _cleanup_close_ int fd = -EBADF;
        size_t n_fds = 0;
        Report report;

        int r = operation_poll(w->operation, sock, POLLIN, -1, e);
        if (r < 0)
                return operation_ended(r) ? r : error_set_errno(e, r, "Cannot wait for a process");
        ssize_t n = recv_fds(sock, &report, sizeof(report), &fd, 1, &n_fds);
        if (n != (ssize_t) sizeof(report))
                return error_set(e, -EIO, "The process to %s was killed", w->what);
        if (report.code < 0) {
                if (report.message[0])
                        (void) error_set(e, report.code, "%s", report.message);
                else
                        (void) error_set_errno(e, report.code, "Cannot %s", w->what);
                return report.hint[0] ? error_hint(e, report.code, "%s", report.hint) : report.code;
        }
        if (ret_text && !(*ret_text = strdup(report.text)))
                return error_oom(e);
        if (ret_fd)
                *ret_fd = TAKE_FD(fd);
        return 0;
}

int child_run(const ChildWork *w, int *ret_fd, char **ret_text, Error *e)
{
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return error_set_errno(e, -errno, "Cannot create a pair of sockets");
        (void) fflush(NULL);
        pid_t parent = getpid(), pid = fork();
        if (pid == 0) {
                safe_close(pair[0]);
                child(w, pair[1], parent);
        }
        _cleanup_close_ int sock = pair[0];
        safe_close(pair[1]);
        if (pid < 0)
                return error_set_errno(e, -errno, "Cannot fork");
        int r = take_report(w, sock, ret_fd, ret_text, e);
        if (r < 0)
                (void) kill(pid, SIGKILL); /* it may still be running when the operation has ended */
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;
        return r;
}

pid_t child_fork_with_pipe(int *ret_fd)
{
        int fds[2];

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        pid_t pid = fork();
        if (pid < 0)
                pid = -errno;
        safe_close(fds[pid != 0]);
        if (pid < 0)
                safe_close(fds[0]);
        else
                *ret_fd = fds[pid == 0];
        return pid;
}
