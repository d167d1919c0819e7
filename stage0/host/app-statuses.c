/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The recorded status of all apps of a pod, and the pod's exit status. */

#include "stage0/host/spare-records.h"

void app_statuses_free(AppStatus *l, size_t n)
{
        for (size_t i = 0; l && i < n; i++)
                app_status_done(&l[i]);
        free(l);
}

bool app_status_finish(const PodApp *app, AppStatus *s, AppCause cause, uint64_t ended_usec)
{
        if (s->state == APP_ENDED)
                return false;
        if (s->state == APP_WAITING && s->cause == CAUSE_NONE && !s->message &&
            stage1_app_is_socket_activated(app->app))
                return false;
        /* After a loss of power, records that were written shortly before are missing. */
        if (s->cause == CAUSE_NONE)
                s->cause = s->state == APP_WAITING && cause == CAUSE_POD_KILLED ? CAUSE_NOT_STARTED : cause;
        if (s->cause == CAUSE_POD_KILLED && !s->message)
                s->message = strdup("The pod was killed while the app ran");
        else if (s->cause == CAUSE_HOST_REBOOTED && !s->message)
                s->message = strdup(
                                "The host was rebooted, or lost power, before the end of the app was recorded");
        s->state = APP_ENDED;
        if (s->ended_usec == 0 && s->started_usec != 0)
                s->ended_usec = ended_usec;
        return true;
}

static AppStatus unreadable_status(int code, AppCause cause)
{
        AppStatus s = {
                        .cause = cause,
                        .exit_status = -1,
                        .pre_start.exit_status = -1,
                        .post_stop.exit_status = -1,
        };

        if (cause == CAUSE_HOST_REBOOTED) /* the rest of one */
                return s;
        if (xasprintf(&s.message, "The record of the app cannot be read: %s", strerror(-code)) < 0)
                s.message = NULL;
        return s;
}

/* While the supervisor cannot write on the disk, its directory in memory. RET_OLD: as pod_statuses_are_old(). */
static int open_statuses(const Pod *p, bool *ret_old)
{
        int fd = open_beneath(p->dir_fd, "status", O_RDONLY | O_DIRECTORY), spare;
        int r = fd < 0 ? 0 : spare_records_open(p, fd, &spare);

        *ret_old = r < 0;
        if (r <= 0)
                return fd;
        safe_close(fd);
        return spare;
}

int pod_open_statuses(const Pod *p)
{
        bool old;

        return open_statuses(p, &old);
}

bool pod_statuses_are_old(const Pod *p)
{
        bool old = false;
        int fd = p->state == POD_RUNNING ? open_statuses(p, &old) : -EBADF;

        safe_close(fd);
        return old;
}

int pod_read_statuses(Pod *p, bool ended, AppStatus **ret)
{
        const AppCause cause = pod_ended_by_reboot(p) ? CAUSE_HOST_REBOOTED : CAUSE_POD_KILLED;
        size_t n = p->manifest->n_apps;
        AppStatus *l = calloc(n + 1, sizeof(AppStatus));
        uint64_t ended_usec = ended ? pod_ended_usec(p) : 0;
        _cleanup_close_ int fd = -EBADF;

        if (!l)
                return -ENOMEM;
        fd = pod_open_statuses(p);
        for (size_t i = 0; i < n; i++) {
                int r = fd < 0 ? fd : app_status_read(fd, p->manifest->apps[i]->name, &l[i]);
                if (r == -ENOENT) /* no process has run the pod yet */
                        l[i] = app_status_initial();
                else if (r < 0)
                        l[i] = unreadable_status(r, cause);
                if (ended)
                        (void) app_status_finish(p->manifest->apps[i], &l[i], cause, ended_usec);
        }
        *ret = l;
        return 0;
}

/* Whether this app determines the pod's exit status: the first that failed, or, if any end ends the pod, the
 * first that ended (the others were stopped then). Apps whose end was not recorded come last. */
static bool decides(const AppStatus *s, ExitPolicy policy)
{
        return policy == EXIT_ON_ANY ? s->cause != CAUSE_NONE : app_status_failed(s);
}

int pod_exit_status(ExitPolicy policy, bool in_order, const AppStatus *l, size_t n)
{
        const AppStatus *first = NULL;

        if (policy == EXIT_NEVER)
                return in_order ? 0 : POD_KILLED_STATUS;
        for (size_t i = 0; i < n; i++) {
                uint64_t t = l[i].ended_usec ?: UINT64_MAX;
                if (decides(&l[i], policy) && (!first || t < (first->ended_usec ?: UINT64_MAX)))
                        first = &l[i];
        }
        return first ? app_status_to_exit_code(first) : 0;
}
