/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Running a prepared pod: in the foreground by this very process, or, on a terminal, with one between it and
 * us; or detached by a child that goes on alone. */

#include <poll.h>

#include "library/libcapng.h"
#include "stage0/run/front.h"

static int detach_from_terminal(void)
{
        _cleanup_close_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        if (null < 0 || setsid() < 0 || chdir("/") < 0)
                return -errno;
        for (int fd = 0; fd <= 2; fd++)
                if (dup2(null, fd) < 0)
                        return -errno;
        return 0;
}

static _noreturn_ void detached_child(Pod *p, const RunOptions *o, PodSockets *sockets, int report_fd)
{
        interrupt_release();
        if (detach_from_terminal() < 0)
                _exit(1);
        report_run(p, o, sockets, fcntl(report_fd, F_DUPFD_CLOEXEC, 3), report_fd, NULL);
}

static int run_detached(Pod *p, const RunOptions *o, PodSockets *sockets, Error *e)
{
        int fds[2];

        if (pipe2(fds, O_CLOEXEC) < 0)
                return error_set_errno(e, -errno, "Cannot create a pipe");
        (void) fflush(NULL);
        pid_t pid = fork();
        if (pid == 0) {
                safe_close(fds[0]);
                detached_child(p, o, sockets, fds[1]);
        }
        safe_close(fds[1]);
        _cleanup_close_ int report_fd = fds[0];
        if (pid < 0)
                return error_set_errno(e, -errno, "Cannot fork");
        int status = 0, r = interrupt_poll(report_fd, POLLIN, -1, NULL);
        if (r != -EINTR)
                r = report_read(p, report_fd, &status, e);
        else
                log_info("Pod %s is still starting: 'acnspawn status %s' shows how far it is, 'acnspawn "
                         "stop %s' ends it.",
                         pod_display_name(p), pod_display_name(p), pod_display_name(p));
        return r < 0 ? r : status;
}

/* Before the pod counts as running: so it can be run once they are free. */
static int check_ports(const Pod *p, const PodSockets *sockets, Error *e)
{
        _cleanup_free_ ServedPort *served = NULL;
        size_t n_served = 0;

        if (pod_sockets_served(sockets, &served, &n_served) < 0)
                return error_oom(e);
        return network_check_ports(p, served, n_served, e);
}

int run_pod(Pod *p, const RunOptions *o, bool *ret_left, Error *e)
{
        _cleanup_(pod_sockets_freep) PodSockets *sockets = NULL;
        PassedSockets none = {};

        if (p->state != POD_PREPARED)
                return pod_begin_run(p, e); /* says why it cannot be */
        int r = pod_isolators_check(p, e);

        /* What is needed once the pod counts as running is there before. */
        if (r >= 0)
                r = library_load(&systemd_library, e);
        if (r >= 0)
                r = library_load(&capng_library, e);
        if (r >= 0)
                r = pod_sockets_new(p, o->sockets ?: &none, &sockets, e);
        if (r >= 0 && o->keep_unit)
                r = unit_keep(e);
        if (r >= 0 && (o->strict || p->config.strict))
                r = pod_require_isolators(p, o->config_dirs, o->keep_unit, e);
        if (r >= 0)
                r = check_ports(p, sockets, e);
        if (r >= 0)
                r = pod_begin_run(p, e);
        if (r < 0)
                return r;
        if (o->detach)
                return run_detached(p, o, sockets, e);
        return front_is_needed(p) ? front_run(p, o, sockets, ret_left, e)
                                  : supervise_pod(p, o, sockets, -EBADF, NULL, e);
}
