/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What is done about an app whose health check has failed too often.
 *
 * It takes as long as the app takes to stop, so a process of its own does it, in the same way as a user who
 * asks for it from outside.
 */

#include <sys/syscall.h>
#include <sys/wait.h>

#include "stage0/control/control.h"
#include "stage0/run/readiness.h"

/* A lock of the supervisor that the child held open would outlive the supervisor. */
static int leave_supervisor(Pod *p)
{
        sigset_t none;
        int fd = openat(p->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0 || dup3(fd, 3, O_CLOEXEC) < 0 || syscall(SYS_close_range, 4U, ~0U, 0U) < 0)
                return -errno;
        p->dir_fd = 3;
        sigemptyset(&none);
        (void) sigprocmask(SIG_SETMASK, &none, NULL);
        return 0;
}

static int act(Pod *p, const PodApp *app, HealthAction action, Error *e)
{
        if (action == HEALTH_KILL)
                return kill_app(p, app->name, SIGKILL, e);
        if (action == HEALTH_RESTART)
                return restart_app(p, app->name, e);
        int r = stop_app(p, app->name, e);
        if (r < 0 || p->config.exit_policy == EXIT_ON_ALL)
                return r;
        return control_send(p, CONTROL_STOP, e);
}

/* Forks once more, so that the supervisor need not wait for the process that does it. */
static _noreturn_ void act_in_child(Pod *p, const PodApp *app, HealthAction action)
{
        _cleanup_error_ Error e = ERROR_NULL;

        pid_t pid = fork();
        if (pid != 0)
                _exit(pid < 0);
        int r = leave_supervisor(p);
        if (r >= 0)
                r = act(p, app, action, &e);
        if (r < 0 && r != -ESRCH)
                log_warning("App %s is not healthy, and nothing can be done about it: %s.", app->name,
                            e.message ?: strerror(-r));
        _exit(r < 0);
}

void unhealthy_act(Pod *p, const PodApp *app, HealthAction action)
{
        if (action == HEALTH_NONE)
                return;
        pid_t pid = fork();
        if (pid == 0)
                act_in_child(p, app, action);
        if (pid > 0)
                (void) waitpid(pid, NULL, 0);
}
