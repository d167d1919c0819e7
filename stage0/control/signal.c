/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A signal to the main process of an app. The pod's systemd knows which process that is; the signal is sent
 * from here, by a descriptor of the process, once that is known to be in the app's cgroup. */

#include <sys/syscall.h>

#include "stage0/control/control-internal.h"

#define LOST_TIMEOUT_USEC (5 * UINT64_C(1000000))

/* 1: sent, 0: it does not run. */
static int kill_one(Pod *p, const PodApp *app, int signal, Error *e)
{
        AppProcess process = {.pid_fd = -EBADF};
        int r = app_main_process_open(p, app, &process, e);

        if (r <= 0)
                return r;
        if (syscall(SYS_pidfd_send_signal, process.pid_fd, signal, NULL, 0) < 0)
                r = errno == ESRCH ? 0
                                   : error_set_errno(e, -errno, "Cannot send the signal to app %s of pod %s",
                                                     app->name, pod_display_name(p));
        safe_close(process.pid_fd);
        return r;
}

/* A pod may end by the signal before its systemd can say that it was sent, and by that of one app before it
 * is another's turn. */
static bool is_lost(int code, size_t n_sent)
{
        return n_sent > 0 || code == -ENOTCONN || code == -ECONNRESET || code == -EPIPE;
}

int kill_app(Pod *p, const char *name, int signal, Error *e)
{
        const PodApp *app = NULL;
        size_t n_sent = 0;
        int r = pod_check_running(p, e);

        if (r >= 0 && name)
                r = pod_find_app(p, name, &app, e);
        for (size_t i = 0; r >= 0 && p->manifest && i < p->manifest->n_apps; i++) {
                if (app && app != p->manifest->apps[i])
                        continue;
                r = kill_one(p, p->manifest->apps[i], signal, e);
                n_sent += r > 0;
        }
        if (r < 0 && is_lost(r, n_sent) && pod_wait(p, LOST_TIMEOUT_USEC, NULL) >= 0) {
                error_done(e); /* that is what came of it */
                return 0;
        }
        if (r < 0)
                return r;
        if (n_sent == 0 && app)
                return app_not_running(p, app, e);
        return n_sent == 0 ? error_set(e, -ESRCH, "No app of pod %s is running", pod_display_name(p)) : 0;
}
