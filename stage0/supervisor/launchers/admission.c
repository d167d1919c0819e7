/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Access control for launchers: which process of the pod gets an app's root, volumes and credentials.
 *
 * The supervisor's socket is in the pod's root, which no app has in its mount namespace. If a process of an
 * app reaches it nevertheless, it gets nothing: a launcher asks from the cgroup of its app, and from the
 * mount namespace of the pod's systemd, which every app has left before its first instruction. Each phase of
 * an execution is answered once. A health check, which runs many times, is answered once per run while the
 * app is up.
 *
 * An execution is over when its end is known, or when the process that got the last answer has ended. */

#include <sys/stat.h>

#include "stage0/supervisor/launchers/admission.h"

typedef struct Execution {
        bool given[LAUNCH_HEALTH]; /* by phase */
        bool ended;
        pid_t pid;               /* of the process that got the last answer, */
        int fd;                  /* which this stands for */
        pid_t delay_pid;         /* of the launcher that waits before a restart, */
        int delay_fd;            /* which this stands for */
        sd_event_source *source; /* of the end of the process that becomes the app, */
        uint64_t ended_usec;     /* which was then; 0: not noticed yet */
} Execution;

struct Admission {
        Pod *pod;
        sd_event *event;
        AppTable *apps;
        bool mounts_known;
        struct stat mounts; /* the mount namespace of the pod's systemd */
};

Admission *admission_free(Admission *a)
{
        if (!a)
                return NULL;
        FOREACH_APP(app, a->apps)
        admission_remove_app(app);
        free(a);
        return NULL;
}

int admission_add_app(AppInstance *app)
{
        app->execution = calloc(1, sizeof(Execution));
        if (!app->execution)
                return -ENOMEM;
        app->execution->fd = app->execution->delay_fd = -EBADF;
        return 0;
}

void admission_remove_app(AppInstance *app)
{
        if (!app->execution)
                return;
        sd_event_source_disable_unref(app->execution->source);
        safe_close(app->execution->fd);
        safe_close(app->execution->delay_fd);
        app->execution = (free(app->execution), NULL);
}

int admission_new(Pod *p, AppTable *apps, sd_event *event, Admission **ret, Error *e)
{
        _cleanup_(admission_freep) Admission *a = calloc(1, sizeof(Admission));

        if (!a)
                return error_oom(e);
        a->pod = p;
        a->apps = apps;
        a->event = event;
        FOREACH_APP(app, apps)
        if (admission_add_app(app) < 0)
                return error_oom(e);
        *ret = TAKE_PTR(a);
        return 0;
}

/* --- The process --------------------------------------------------------------------------------------- */

/* The first process of the pod that asks is a launcher, as no app starts without an answer. Its mount
 * namespace is therefore the one to compare with. */
static int is_in_mounts_of_systemd(Admission *a, pid_t pid)
{
        struct stat st;
        char path[64];

        snprintf(path, sizeof(path), "/proc/%d/ns/mnt", (int) pid);
        if (stat(path, &st) < 0)
                return errno == ENOENT ? -ESRCH : -errno;
        if (!a->mounts_known)
                a->mounts = st;
        a->mounts_known = true;
        return a->mounts.st_dev == st.st_dev && a->mounts.st_ino == st.st_ino;
}

/* What was read by the number belongs to this process if the process still exists afterwards. */
int admission_check_process(Admission *a, AppInstance *app, pid_t pid, int pid_fd, Error *e)
{
        int r = process_is_alive(pid_fd) ? pod_app_has_process(a->pod, app->name, pid) : -ESRCH;

        if (r == 0)
                return error_set(e, -EPERM, "Process %d is not one of app %s", (int) pid, app->name);
        if (r > 0)
                r = is_in_mounts_of_systemd(a, pid);
        if (r == 0)
                return error_set(e, -EPERM, "Process %d is not a launcher of app %s", (int) pid, app->name);
        if (r > 0 && !process_is_alive(pid_fd))
                r = -ESRCH;
        return r < 0 ? error_set_errno(e, r, "Cannot determine the app of process %d", (int) pid) : 0;
}

/* --- Once ---------------------------------------------------------------------------------------------- */

static bool is_over(const Execution *x)
{
        return x->ended || !process_is_alive(x->fd);
}

/* The phase that has to be answered before PHASE, if any. */
static bool is_next(const Execution *x, AppInstance *app, LaunchPhase phase)
{
        if (phase == LAUNCH_PRE_START || (phase == LAUNCH_MAIN && !app->app->pre_start))
                return is_over(x);
        if (phase == LAUNCH_MAIN)
                return x->given[LAUNCH_PRE_START] && !x->given[LAUNCH_MAIN];
        if (phase == LAUNCH_POST_STOP)
                return x->given[LAUNCH_MAIN] && !x->given[LAUNCH_POST_STOP];
        return x->given[LAUNCH_MAIN] && !is_over(x);
}

static bool begins(AppInstance *app, LaunchPhase phase)
{
        return phase == (app->app->pre_start ? LAUNCH_PRE_START : LAUNCH_MAIN);
}

static int on_process_end(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        Execution *x = userdata;

        x->ended_usec = now_usec(CLOCK_REALTIME);
        x->source = sd_event_source_disable_unref(x->source);
        return 0;
}

/* Only when the process ends is noted; without that the end counts as now when it is known. */
static void set_process(Admission *a, Execution *x, pid_t pid, int fd, bool watch)
{
        x->source = sd_event_source_disable_unref(x->source);
        safe_close(x->fd);
        x->fd = fd;
        x->pid = pid;
        x->ended_usec = 0;
        if (watch)
                (void) sd_event_add_io(a->event, &x->source, fd, EPOLLIN, on_process_end, x);
}

static int give(Admission *a, AppInstance *app, LaunchPhase phase, pid_t pid, int pid_fd, Error *e)
{
        int fd = fcntl(pid_fd, F_DUPFD_CLOEXEC, 3);
        Execution *x = app->execution;

        if (fd < 0)
                return error_set_errno(e, -errno, "Cannot copy a descriptor");
        set_process(a, x, pid, fd, phase == LAUNCH_MAIN);
        if (begins(app, phase)) {
                memset(x->given, 0, sizeof(x->given));
                x->ended = false;
        }
        x->given[phase] = true;
        return 0;
}

int admission_check_phase(Admission *a, AppInstance *app, LaunchPhase phase, pid_t pid, int pid_fd, Error *e)
{
        Execution *x = app->execution;

        if (!is_next(x, app, phase))
                return error_set(e, -EALREADY,
                                 "The files of app %s were passed on in this execution already", app->name);
        return phase < LAUNCH_HEALTH ? give(a, app, phase, pid, pid_fd, e) : 0;
}

int admission_begin_delay(AppInstance *app, pid_t pid, int pid_fd)
{
        int fd = fcntl(pid_fd, F_DUPFD_CLOEXEC, 3);
        Execution *x = app->execution;

        if (fd < 0)
                return -errno;
        safe_close(x->delay_fd);
        x->delay_fd = fd;
        x->delay_pid = pid;
        return 0;
}

void admission_end(AppInstance *app)
{
        app->execution->ended = true;
}

int admission_main_process(const AppInstance *app, pid_t *ret_pid)
{
        const Execution *x = app->execution;

        if (!x->given[LAUNCH_MAIN] || x->given[LAUNCH_POST_STOP] || !process_is_alive(x->fd))
                return -ESRCH;
        *ret_pid = x->pid;
        return x->fd;
}

int admission_awaited_process(const AppInstance *app, pid_t *ret_pid)
{
        const Execution *x = app->execution;
        pid_t pid = x->pid;

        int r = admission_main_process(app, ret_pid);
        if (r >= 0)
                return 0;
        if (process_is_alive(x->delay_fd)) {
                *ret_pid = x->delay_pid;
                return 0;
        }
        if (process_is_alive(x->fd))
                r = process_parent(x->pid, &pid);
        if (r >= 0 && (pid == 0 || !process_is_alive(x->fd)))
                r = -ESRCH;
        if (r >= 0)
                *ret_pid = pid;
        return r;
}

bool admission_runs_post_stop(const AppInstance *app)
{
        return app->execution->given[LAUNCH_POST_STOP] && process_is_alive(app->execution->fd);
}

bool admission_process_is_alive(const AppInstance *app)
{
        return app->execution && process_is_alive(app->execution->fd);
}

int admission_wait_status(const AppInstance *app, int *ret, uint64_t *ret_usec)
{
        const Execution *x = app->execution;

        if (!x || !x->given[LAUNCH_MAIN] || x->given[LAUNCH_POST_STOP] || x->fd < 0 ||
            process_is_alive(x->fd))
                return -ESRCH;
        int r = process_wait_status(x->fd, ret);
        if (r >= 0)
                *ret_usec = x->ended_usec;
        return r;
}

int admission_may_be_main_process(Admission *a, pid_t pid)
{
        int r = is_in_mounts_of_systemd(a, pid);

        return r > 0 ? -EPERM : r;
}

int admission_set_main_process(Admission *a, AppInstance *app, pid_t pid, int pid_fd)
{
        int fd = fcntl(pid_fd, F_DUPFD_CLOEXEC, 3);

        if (fd < 0)
                return -errno;
        set_process(a, app->execution, pid, fd, true);
        return 0;
}
