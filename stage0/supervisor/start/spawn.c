/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Starting a supervisor: a separate program in a session of its own, which gets a request and descriptors,
 * and nothing else of this process. */

#include <signal.h>
#include <sys/mman.h>

#include "stage0/supervisor/start/foreground.h"

#define FIRST 3 /* the number of the first descriptor in the supervisor; it is the request */

/* Descriptors to pass, in the order of their numbers in the supervisor. */
typedef struct Passing {
        int *fds;
        size_t n, allocated;
} Passing;

static void passing_done(Passing *l)
{
        for (size_t i = 0; i < l->n; i++)
                safe_close(l->fds[i]);
        free(l->fds);
}

/* The number that FD will have after it was copied. -EBADF stays -EBADF. */
static int pass(Passing *l, int fd, int *ret)
{
        *ret = -EBADF;
        if (fd < 0)
                return 0;
        if (GREEDY_REALLOC(l->fds, l->allocated, l->n + 1) < 0)
                return -ENOMEM;
        int copy = fcntl(fd, F_DUPFD_CLOEXEC, FIRST);
        if (copy < 0)
                return -errno;
        *ret = FIRST + (int) l->n;
        l->fds[l->n++] = copy;
        return 0;
}

/* The members of *Q are lent, and its descriptors are the numbers in the supervisor. */
static int fill_request(const Pod *p, const RunOptions *o, const ForegroundProxy *front,
                        PassedSocket *sockets, Passing *l, RunRequest *q)
{
        *q = (RunRequest){.options = *o,
                          .log_level = log_max_level(),
                          .by_uuid = p->found_by_uuid,
                          .client = getpid(),
                          .front = {.app = front->app, .kind = front->kind}};
        int r = pass(l, p->locked ? p->dir_fd : -EBADF, &q->pod_fd);
        if (r >= 0)
                r = pass(l, front->report_fd, &q->front.report_fd);
        if (r >= 0)
                r = pass(l, front->in_fd, &q->front.in_fd);
        if (r >= 0)
                r = pass(l, front->socket, &q->front.socket);
        if (r < 0 || !o->sockets)
                return r;
        q->sockets = *o->sockets;
        q->sockets.items = sockets;
        for (size_t i = 0; r >= 0 && i < o->sockets->n; i++) {
                sockets[i] = o->sockets->items[i];
                r = pass(l, o->sockets->items[i].fd, &sockets[i].fd);
        }
        return r;
}

static int write_request(int fd, const Pod *p, const RunOptions *o, const ForegroundProxy *front, Passing *l)
{
        _cleanup_free_ PassedSocket *sockets =
                        calloc(1 + (o->sockets ? o->sockets->n : 0), sizeof(PassedSocket));
        _cleanup_free_ char *text = NULL;
        RunRequest q;

        int r = sockets ? fill_request(p, o, front, sockets, l, &q) : -ENOMEM;
        if (r >= 0)
                r = run_request_format(&q, &text);
        if (r >= 0)
                r = loop_write(fd, text, strlen(text));
        return r >= 0 && lseek(fd, 0, SEEK_SET) < 0 ? -errno : r;
}

/* The store and the configuration as arguments, so that they appear in a list of processes, and may be any
 * bytes. */
static int build_arguments(const Pod *p, const RunOptions *o, const char *program, char ***ret)
{
        _cleanup_strv_free_ char **argv = NULL;

        int r = strv_extend(&argv, program);
        if (r >= 0)
                r = strv_extend(&argv, p->uuid);
        if (r >= 0)
                r = strv_extendf(&argv, "--dir=%s", store_path(p->store));
        for (size_t i = 0; r >= 0 && o->config_dirs && o->config_dirs[i]; i++)
                r = strv_extendf(&argv, "--config-dir=%s", o->config_dirs[i]);
        if (r >= 0)
                r = strv_extendf(&argv, "--request-fd=%d", FIRST);
        if (r >= 0)
                *ret = TAKE_PTR(argv);
        return r;
}

/* Signals that are passed on stay pending until the supervisor watches them. */
static void get_mask(bool detach, sigset_t *ret)
{
        static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGCONT};

        (void) sigprocmask(SIG_SETMASK, NULL, ret);
        for (size_t i = 0; !detach && i < ELEMENTSOF(signals); i++)
                sigaddset(ret, signals[i]);
}

/* Replaces the descriptors by copies above all of the numbers, so that none is overwritten while it is still
 * needed. */
static int move_descriptors_up(Passing *l)
{
        int above = FIRST + (int) l->n;

        for (size_t i = 0; i < l->n; i++) {
                int copy = fcntl(l->fds[i], F_DUPFD_CLOEXEC, above);
                if (copy < 0)
                        return -errno;
                safe_close(l->fds[i]);
                l->fds[i] = copy;
        }
        return 0;
}

static int start(Pod *p, const RunOptions *o, const ForegroundProxy *front, pid_t *ret_pid, Error *e)
{
        _cleanup_(passing_done) Passing l = {};
        _cleanup_strv_free_ char **argv = NULL;
        _cleanup_free_ char *program = NULL;
        sigset_t mask;
        int number;

        int r = helper_program_path(SUPERVISE_PROGRAM, &program, e);
        if (r < 0)
                return r;
        _cleanup_close_ int request_fd = memfd_create("acnspawn-request", MFD_CLOEXEC);
        if (request_fd < 0)
                return error_set_errno(e, -errno, "Cannot create a file in memory");
        (void) fflush(NULL);
        r = pass(&l, request_fd, &number);
        if (r >= 0)
                r = write_request(request_fd, p, o, front, &l);
        if (r >= 0)
                r = build_arguments(p, o, program, &argv);
        if (r >= 0)
                r = move_descriptors_up(&l);
        if (r < 0)
                return error_set_errno(e, r, "Cannot write the request to the supervisor of pod %s",
                                       pod_display_name(p));
        get_mask(o->detach, &mask);
        return helper_program_spawn(argv, &mask, FIRST, l.fds, l.n, ret_pid, e);
}

int supervisor_spawn(Pod *p, const RunOptions *o, ForegroundProxy *front, pid_t *ret_pid, Error *e)
{
        int r = start(p, o, front, ret_pid, e);

        foreground_done(front);
        if (o->sockets)
                passed_sockets_done(o->sockets);
        if (r >= 0 && p->locked) {
                p->dir_fd = safe_close(p->dir_fd);
                p->locked = false;
        }
        return r;
}
