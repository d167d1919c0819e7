/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The app's record: one small file, rewritten at every step of the app's life.
 *
 * The final state is written by the unit's last process (ExecStopPost), when systemd has made sure that no
 * process of the app is left and passes in the environment how the main process ended. More specific causes
 * that the launcher found (the command does not exist, the pre-start handler failed) are in the record by
 * then and are kept.
 */

#include <signal.h>
#include <sys/mman.h>

#include "stage1/launch/launch.h"

#define MESSAGE_MAX 2048U

static uint64_t now(void)
{
        return now_usec(CLOCK_REALTIME);
}

static int read_record(Launch *l, AppStatus *ret)
{
        int r = app_status_read(l->status_fd, l->app, ret);

        if (r < 0)
                *ret = (AppStatus){
                                .exit_status = -1, .pre_start.exit_status = -1, .post_stop.exit_status = -1};
        return r;
}

/* A new execution: of an earlier one only the counters are kept. */
static void reset_for_execution(AppStatus *s)
{
        uint64_t starts = s->starts, consecutive_starts = s->consecutive_starts;

        app_status_done(s);
        *s = (AppStatus){.exit_status = -1,
                         .pre_start.exit_status = -1,
                         .post_stop.exit_status = -1,
                         .starts = starts,
                         .consecutive_starts = consecutive_starts};
}

static void set_failure(AppStatus *s, const Failure *f)
{
        s->cause = f->cause != CAUSE_NONE ? f->cause : CAUSE_SETUP;
        free(s->message);
        s->message = f->error.message ? strndup(f->error.message, MESSAGE_MAX) : NULL;
}

int record_pre_start_begin(Launch *l)
{
        _cleanup_app_status_ AppStatus s = {};

        (void) read_record(l, &s);
        reset_for_execution(&s);
        s.state = APP_PRE_START;
        s.pre_start.ran = true;
        return app_status_write(l->status_fd, l->app, &s);
}

static int describe_handler(const HandlerStatus *h, char **ret)
{
        if (h->timed_out)
                return xasprintf(ret, "The pre-start handler was stopped");
        if (h->signal > 0)
                return xasprintf(ret, "The pre-start handler was killed by SIG%s",
                                 sigabbrev_np(h->signal) ?: "?");
        return xasprintf(ret, "The pre-start handler exited with status %d", h->exit_status);
}

static int keep_identity(const Launch *l, AppStatus *s)
{
        free(s->identity);
        s->identity = l->identity ? strdup(l->identity) : NULL;
        return l->identity && !s->identity ? -ENOMEM : 0;
}

void record_load_identity(Launch *l)
{
        _cleanup_app_status_ AppStatus s = {};

        if (!l->identity && app_status_read(l->status_fd, l->app, &s) >= 0)
                l->identity = TAKE_PTR(s.identity);
}

int record_pre_start_end(Launch *l, const HandlerStatus *h, const Failure *f)
{
        _cleanup_app_status_ AppStatus s = {};

        (void) read_record(l, &s);
        s.pre_start = *h;
        if (keep_identity(l, &s) < 0)
                return -ENOMEM;
        if (f) {
                set_failure(&s, f);
                /* The missing program is the handler's, not the app's. */
                if (s.cause == CAUSE_COMMAND_NOT_FOUND || s.cause == CAUSE_COMMAND_NOT_EXECUTABLE)
                        s.cause = CAUSE_PRE_START;
        } else if (h->exit_status != 0) {
                s.cause = CAUSE_PRE_START;
                int r = describe_handler(h, &s.message);
                if (r < 0)
                        return r;
        }
        return app_status_write(l->status_fd, l->app, &s);
}

/* Once privileges are dropped and the filter of system calls is in force, the record can only be written as
 * mapped memory. Empty lines reserve room for that. */
static int map_record(Launch *l)
{
        _cleanup_close_ int fd = open_beneath(l->status_fd, l->app, O_RDWR);
        char *p;

        if (fd < 0)
                return fd;
        p = mmap(NULL, APP_RECORD_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED)
                return -errno;
        l->record = p;
        /* The directory is not needed any more, and its parent directories would lead to the pod's root. */
        l->status_fd = safe_close(l->status_fd);
        return 0;
}

int record_running(Launch *l, Failure *f)
{
        AppStatus *s = &l->status;

        (void) read_record(l, s);
        if (s->state != APP_PRE_START)
                reset_for_execution(s);
        s->starts++;
        s->state = APP_RUNNING;
        s->readiness = l->config.readiness ? READINESS_STARTING : READINESS_NONE;
        s->started_usec = now();
        int r = keep_identity(l, s);
        if (r >= 0)
                r = app_status_write(l->status_fd, l->app, s);
        if (r >= 0)
                r = map_record(l);
        if (r < 0)
                return failure_set_errno(f, CAUSE_SETUP, r, "Cannot record that app %s runs", l->app);
        return 0;
}

static void overwrite_record(Launch *l, const AppStatus *s)
{
        (void) app_status_format(s, l->record);
}

void record_main_failed(Launch *l, const Failure *f)
{
        if (!l->record) {
                (void) read_record(l, &l->status);
                if (l->status.state == APP_ENDED)
                        reset_for_execution(&l->status);
        }
        l->status.started_usec = 0; /* it never ran */
        set_failure(&l->status, f);
        if (l->record)
                overwrite_record(l, &l->status);
        else
                (void) app_status_write(l->status_fd, l->app, &l->status);
}

int record_sockets_failed(Launch *l)
{
        static const char message[] =
                        "Its sockets failed: they were shut down, or the app repeatedly ended without "
                        "accepting the connections";
        _cleanup_app_status_ AppStatus s = {};

        (void) read_record(l, &s);
        s.state = APP_ENDED;
        s.cause = CAUSE_SOCKETS;
        s.ended_usec = now();
        free(s.message);
        s.message = strdup(message);
        return s.message ? app_status_write(l->status_fd, l->app, &s) : -ENOMEM;
}

/* The name systemd gives a signal ("KILL", "RTMIN+3") as a number; 0 if it is none. */
static int signal_from_name(const char *name)
{
        uint32_t n;
        const char *rest;

        if (parse_u32(name, &n) >= 0)
                return n < NSIG ? (int) n : 0;
        for (int s = 1; s < NSIG; s++)
                if (streq_ptr(sigabbrev_np(s), name))
                        return s;
        rest = startswith(name, "RTMIN");
        if (rest && *rest == '+' && parse_u32(rest + 1, &n) >= 0 && n < 64)
                return SIGRTMIN + (int) n;
        return rest && !*rest ? SIGRTMIN : 0;
}

static const struct {
        const char *result;
        AppCause cause;
} results[] = {
                {"oom-kill", CAUSE_OOM_KILL},
                {"timeout", CAUSE_TIMEOUT},
                {"watchdog", CAUSE_TIMEOUT},
};

/* systemd gave up waiting for a process that it may not signal, for example because of an AppArmor
 * profile. */
static void set_signal_denied(AppStatus *s)
{
        s->cause = CAUSE_POD_KILLED;
        if (!s->message)
                s->message = strdup("The pod's systemd has no permission to send it the signals that would "
                                    "stop it");
}

static void add_main_result(AppStatus *s)
{
        const char *result = getenv("SERVICE_RESULT") ?: "", *code = getenv("EXIT_CODE"),
                   *status = getenv("EXIT_STATUS");
        uint32_t n;

        if (code && status && streq(code, "exited") && parse_u32(status, &n) >= 0 && n <= 255) {
                s->exit_status = (int) n;
                s->cause = CAUSE_EXITED;
        } else if (code && status) {
                s->signal = signal_from_name(status);
                s->core_dumped = streq(code, "dumped");
                s->cause = CAUSE_SIGNAL;
        } else if (s->state == APP_RUNNING)
                set_signal_denied(s);
        else
                s->cause = s->state == APP_PRE_START ? CAUSE_PRE_START : CAUSE_NOT_STARTED;
        for (size_t i = 0; i < ELEMENTSOF(results); i++)
                if (streq(results[i].result, result) && s->cause != CAUSE_NOT_STARTED)
                        s->cause = results[i].cause;
}

/* The launcher was killed before it executed the app. */
static bool never_ran(const AppStatus *s)
{
        return s->started_usec == 0 && s->signal > 0;
}

/* For an app that was to become ready and did not. systemd reports success if it exits with 0 when it is
 * stopped. */
static void add_readiness(AppStatus *s, bool has_readiness)
{
        const char *result = getenv("SERVICE_RESULT") ?: "", *why;

        if (s->readiness != READINESS_STARTING && !(has_readiness && never_ran(s)))
                return;
        if (streq(result, "timeout"))
                why = "It was not ready in time";
        else if (s->cause == CAUSE_EXITED && s->exit_status == 0 && !streq(result, "success"))
                why = "It ended before it was ready";
        else
                return;
        s->cause = CAUSE_NOT_READY;
        free(s->message);
        s->message = strdup(why);
}

/* Whether its health check caused the end. */
static void add_health(Launch *l, AppStatus *s)
{
        _cleanup_health_status_ HealthStatus h = {};
        _cleanup_free_ char *before = NULL;

        if (s->readiness == READINESS_NONE || health_status_read(l->status_fd, l->app, &h) < 0)
                return;
        if (h.action_sent)
                s->cause = CAUSE_UNHEALTHY;
        if (s->cause != CAUSE_UNHEALTHY && s->cause != CAUSE_NOT_READY)
                return;
        before = s->message;
        s->message = NULL;
        if (xasprintf(&s->message, "%s%s%s",
                      h.action_sent ? "Its health check failed too often" : before ?: "",
                      h.message ? "; the check says: " : "", h.message ?: "") < 0)
                s->message = NULL;
}

/* The kernel counts OOM kills by cgroup, and this process is in the app's. It does not record which process
 * was killed; it may have been another process of the app, and SIGKILL of the main process may have had
 * another cause. */
static bool killed_for_memory(void)
{
        _cleanup_free_ char *own = NULL, *path = NULL, *events = NULL;

        if (read_file_at(AT_FDCWD, "/proc/self/cgroup", 4096, &own, NULL) < 0)
                return false;
        char *unified = startswith(own, "0::") ? own : strstr(own, "\n0::");
        if (!unified)
                return false;
        unified += *unified == '\n' ? 4 : 3;
        unified[strcspn(unified, "\n")] = 0;
        if (xasprintf(&path, "/sys/fs/cgroup%s/memory.events", unified) < 0 ||
            read_file_at(AT_FDCWD, path, 4096, &events, NULL) < 0)
                return false;
        const char *kills = strstr(events, "\noom_kill ");
        return kills && kills[strlen("\noom_kill ")] != '0';
}

int record_ready(Launch *l)
{
        _cleanup_app_status_ AppStatus s = {};
        int r = app_status_read(l->status_fd, l->app, &s);

        if (r < 0)
                return r;
        s.readiness = READINESS_READY;
        return app_status_write(l->status_fd, l->app, &s);
}

void record_main_ended(Launch *l, bool has_readiness, AppStatus *ret)
{
        (void) read_record(l, ret);
        if (ret->state == APP_ENDED)
                return; /* no new execution has begun */
        if (ret->cause == CAUSE_NONE) {
                add_main_result(ret);
                if (ret->cause == CAUSE_SIGNAL && ret->signal == SIGKILL && killed_for_memory())
                        ret->cause = CAUSE_OOM_KILL;
                add_readiness(ret, has_readiness);
                add_health(l, ret);
        }
        ret->state = APP_POST_STOP;
        ret->ended_usec = now();
}
