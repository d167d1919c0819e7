/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The status of an app, from its first launcher to the end of its last process.
 *
 * It follows from what launchers ask and report, and from what the pod's systemd says of the main process. More
 * specific causes that a launcher has found (the command does not exist, the pre-start handler failed) win over the
 * exit status of the launcher. Every change is recorded in the pod directory, for processes that look at the pod while
 * it runs, after its end, or after that of the supervisor. Nothing in the pod can write there.
 */

#include <sys/mman.h>

#include "stage0/host/spare-records.h"
#include "stage0/supervisor/apps/app-life.h"
#include "stage1/backoff.h"

#define RETRY_USEC UINT64_C(2000000)

/* --- Records ------------------------------------------------------------------------------------------- */

static int write_status(const AppInstance *a, int fd)
{
        return app_status_write(fd, a->name, &a->status);
}

static int write_health(const AppInstance *a, int fd)
{
        return health_status_write(fd, a->name, &a->health);
}

static int write_replacement(const AppInstance *a, int fd)
{
        const PodApp *by = a->replaced_by;
        const ReplacementStatus s = {.image_id = by ? by->image_id : NULL,
                                     .image_name = by ? by->image_name : NULL};

        return replacement_status_write(fd, a->name, by ? &s : NULL);
}

static int write_records(const AppInstance *a, int fd)
{
        int r = write_status(a, fd);

        if (r >= 0 && a->check != CHECK_NONE)
                r = write_health(a, fd);
        return r < 0 ? r : write_replacement(a, fd);
}

/* Those in memory are not complete: readers take the ones on disk, and know that they are old. */
static void leave_memory(AppTable *t)
{
        (void) spare_records_show(t->status_fd, -EBADF);
        if (t->spare_fd > 0)
                safe_close(t->spare_fd);
        t->spare_fd = 0;
}

/* Readers take all records from there. */
static void keep_in_memory(AppTable *t)
{
        int r = spare_records_new(t->pod, &t->spare_fd);

        FOREACH_APP(a, t)
        {
                if (r >= 0)
                        r = write_records(a, t->spare_fd);
        }
        if (r >= 0)
                r = spare_records_show(t->status_fd, t->spare_fd);
        if (r < 0)
                leave_memory(t);
}

static void keep_on_disk(AppTable *t)
{
        spare_records_hide(t->status_fd);
        if (t->spare_fd > 0)
                safe_close(t->spare_fd);
        t->spare_fd = 0;
}

static void on_retry(void *userdata)
{
        AppTable *t = userdata;
        bool all = true;

        FOREACH_APP(a, t)
        {
                a->is_behind = a->is_behind && write_records(a, t->status_fd) < 0;
                all = all && !a->is_behind;
        }
        if (!all && t->spare_fd == 0)
                keep_in_memory(t);
        if (!all && pod_timer_set(t->retry, RETRY_USEC) >= 0)
                return;
        t->retry = pod_timer_free(t->retry);
        if (!all)
                return;
        keep_on_disk(t);
        log_notice("The states of all apps of pod %s are recorded again.", pod_display_name(t->pod));
}

/* The pod continues. */
static void try_later(AppInstance *a, int r)
{
        AppTable *t = a->table;

        a->is_behind = true;
        if (t->retry)
                return;
        if (t->spare_fd == 0)
                keep_in_memory(t);
        log_warning("The state of app %s of pod %s cannot be recorded: %s. Until it can be, %s.", a->name,
                    pod_display_name(t->pod), strerror(-r),
                    t->spare_fd > 0 ? "it is in memory, where other commands read it"
                                    : "other programs see an earlier one");
        if (t->event)
                (void) pod_timer_new(NULL, t->event, RETRY_USEC, on_retry, t, &t->retry);
}

static void write_to_memory(const AppInstance *a, int (*write)(const AppInstance *a, int fd))
{
        AppTable *t = a->table;
        int r = t->spare_fd > 0 ? write(a, t->spare_fd) : 0;

        if (r >= 0)
                return;
        leave_memory(t);
        log_warning("The states of the apps of pod %s cannot be kept in memory, either: %s. Other programs "
                    "see earlier ones.",
                    pod_display_name(t->pod), strerror(-r));
}

static void save_by(AppInstance *a, int (*write)(const AppInstance *a, int fd))
{
        if (!a->table)
                return;
        write_to_memory(a, write);
        int r = write(a, a->table->status_fd);
        if (r < 0)
                try_later(a, r);
}

static void save(AppInstance *a)
{
        save_by(a, write_status);
}

static void save_health(AppInstance *a)
{
        save_by(a, write_health);
}

void app_life_replaced(AppInstance *a, const PodApp *by)
{
        a->replaced_by = by;
        save_by(a, write_replacement);
}

int app_life_reserve(AppInstance *a)
{
        return app_status_reserve(a->table->status_fd, a->name, a->settings.health.command);
}

/* Text from a launcher is stored as one line. */
static void set_text(char **place, const char *text)
{
        free(*place);
        *place = isempty(text) ? NULL : strdup(text);
        for (char *c = *place; c && *c; c++)
                if (*c == '\n')
                        *c = ' ';
}

/* --- Beginning ----------------------------------------------------------------------------------------- */

/* A new execution keeps only the counters of earlier ones. */
static void reset(AppInstance *a)
{
        AppStatus s = app_status_initial();

        s.starts = a->status.starts;
        s.consecutive_starts = a->status.consecutive_starts;
        app_status_done(&a->status);
        a->status = s;
}

/* The kernel counts the processes that it has killed for want of memory, for the cgroup of the app and all below. */
static uint64_t count_oom_kills(const AppInstance *a)
{
        _cleanup_free_ char *own = NULL, *slice = NULL, *path = NULL, *events = NULL;

        if (!a->table || pod_cgroup_unified(a->table->pod, &own) < 0 || nested_slices(a->name, &slice) < 0 ||
            xasprintf(&path, "%s/payload/app.slice/%s/memory.events", own, slice) < 0 ||
            read_file_at(AT_FDCWD, path, 4096, &events, NULL) < 0)
                return 0;
        const char *kills = strstr(events, "\noom_kill ");
        return kills ? strtoull(kills + strlen("\noom_kill "), NULL, 10) : 0;
}

/* The units of a pod that an earlier version has prepared have no delay for restarts by health checks. */
bool app_life_is_first_phase(const AppInstance *a, LaunchPhase phase)
{
        LaunchPhase after_delay = a->app->pre_start ? LAUNCH_PRE_START : LAUNCH_MAIN;

        if (!app_settings_restarts(&a->settings))
                return phase == after_delay;
        return phase == LAUNCH_DELAY || (phase == after_delay && !a->status.restarting);
}

void app_life_begin_phase(AppInstance *a, LaunchPhase phase)
{
        bool first = app_life_is_first_phase(a, phase);

        if (first)
                app_stop_handle(a, APP_BEGINS_ANEW);
        if (phase == LAUNCH_DELAY || phase == LAUNCH_PRE_START || phase == LAUNCH_MAIN)
                app_run_handle(a, RUN_ASKED_FOR);
        if (first && a->status.starts > 0)
                a->oom_kills = count_oom_kills(a);
        if (phase == LAUNCH_PRE_START) {
                reset(a);
                a->status.state = APP_PRE_START;
                a->status.pre_start.ran = true;
                save(a);
        }
        if (phase == LAUNCH_POST_STOP) {
                a->status.post_stop = (HandlerStatus){.ran = true, .exit_status = -1};
                save(a);
        }
}

static uint64_t earlier_starts(const AppInstance *a)
{
        /* The next start is triggered by a connection, or by a call. */
        if (a->status.state == APP_ENDED && !backoff_applies(&a->status, &a->settings))
                return 0;
        return backoff_consecutive_starts(&a->status);
}

/* Before a restart of its own systemd has waited for the first part. */
uint64_t app_life_delay(const AppInstance *a)
{
        bool by_health = a->status.state == APP_ENDED && backoff_is_by_health(&a->status, &a->settings);
        uint64_t n = earlier_starts(a), first = a->settings.restart_usec;

        if (n == 0)
                return 0;
        return backoff_delay(first, a->settings.restart_max_usec, n) - (by_health ? 0 : first);
}

/* Set here and not earlier: during the delay the status shows that the next start is pending. */
void app_life_starts(AppInstance *a)
{
        a->status.consecutive_starts = earlier_starts(a) + 1;
        a->status.restarting = true;
        app_run_handle(a, RUN_DELAY_ENDS);
        save(a);
}

void app_life_forget_starts(AppInstance *a)
{
        if (a->status.consecutive_starts == 0)
                return;
        a->status.consecutive_starts = 0;
        save(a);
}

void app_life_pre_start_ended(AppInstance *a, const LaunchEvent *event)
{
        AppStatus *s = &a->status;

        if (s->state != APP_PRE_START)
                return;
        s->pre_start = (HandlerStatus){.ran = true,
                                       .timed_out = event->timed_out,
                                       .exit_status = event->exit_status,
                                       .signal = event->signal};
        set_text(&s->identity, event->identity);
        if (event->cause != CAUSE_NONE) {
                s->cause = (AppCause) event->cause;
                set_text(&s->message, event->message);
                /* The missing program is the handler's, not the app's. */
                if (s->cause == CAUSE_COMMAND_NOT_FOUND || s->cause == CAUSE_COMMAND_NOT_EXECUTABLE)
                        s->cause = CAUSE_PRE_START;
        } else if (event->exit_status != 0) {
                char message[80];

                s->cause = CAUSE_PRE_START;
                if (event->timed_out)
                        snprintf(message, sizeof(message), "The pre-start handler was stopped");
                else if (event->signal > 0)
                        snprintf(message, sizeof(message), "The pre-start handler was killed by SIG%s",
                                 sigabbrev_np(event->signal) ?: "?");
                else
                        snprintf(message, sizeof(message), "The pre-start handler exited with status %d",
                                 event->exit_status);
                set_text(&s->message, message);
        }
        save(a);
}

/* --- The main process ---------------------------------------------------------------------------------- */

int app_life_open_report(AppInstance *a, int *ret_fd)
{
        _cleanup_close_ int fd = memfd_create("report", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        if (fd < 0 || ftruncate(fd, sizeof(LaunchReport)) < 0 ||
            fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW) < 0)
                return -errno;
        int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        if (copy < 0)
                return -errno;
        safe_close(a->report_fd);
        a->report_fd = copy;
        *ret_fd = TAKE_FD(fd);
        return 0;
}

static void set_failed(AppInstance *a, uint32_t cause, const char *message)
{
        a->status.started_usec = 0; /* it never ran */
        a->status.cause = (AppCause) cause;
        set_text(&a->status.message, message);
}

static void begin_health(AppInstance *a)
{
        if (!a->settings.health.command)
                return;
        health_status_done(&a->health);
        a->health = (HealthStatus){.last.exit_status = -1};
        a->healthy_usec = 0;
        (void) app_check_handle(a, CHECKED_APP_BEGINS);
        save_health(a);
}

static void set_running(AppInstance *a, const LaunchReport *report)
{
        AppStatus *s = &a->status;

        if (s->state != APP_PRE_START)
                reset(a);
        s->starts++;
        s->state = APP_RUNNING;
        s->readiness = app_settings_readiness(&a->settings) ? READINESS_STARTING : READINESS_NONE;
        s->started_usec = MIN(report->started_usec, now_usec(CLOCK_REALTIME));
        set_text(&s->identity, report->identity);
        begin_health(a);
}

void app_life_take_report(AppInstance *a)
{
        LaunchReport report = {};
        ssize_t n = a->report_fd < 0 ? -1 : pread(a->report_fd, &report, sizeof(report), 0);

        a->report_fd = safe_close(a->report_fd);
        if (n != (ssize_t) sizeof(report) || report.cause >= _APP_CAUSE_MAX)
                return;
        report.identity[sizeof(report.identity) - 1] = 0;
        report.message[sizeof(report.message) - 1] = 0;
        if (report.started_usec > 0)
                set_running(a, &report);
        if (report.cause != CAUSE_NONE) {
                if (a->status.state == APP_ENDED)
                        reset(a);
                set_failed(a, report.cause, report.message);
        }
        if (report.started_usec > 0 || report.cause != CAUSE_NONE)
                save(a);
}

void app_life_failed(AppInstance *a, const LaunchEvent *event)
{
        if (a->status.state == APP_ENDED)
                reset(a);
        set_failed(a, event->cause == CAUSE_NONE ? CAUSE_SETUP : event->cause, event->message);
        save(a);
}

void app_life_ready(AppInstance *a)
{
        a->status.readiness = READINESS_READY;
        save(a);
}

/* --- Health -------------------------------------------------------------------------------------------- */

uint64_t app_life_checkable(const AppInstance *a)
{
        const AppStatus *s = &a->status;

        return s->state == APP_RUNNING && s->readiness == READINESS_READY ? s->starts : 0;
}

/* An app that has been healthy for RESTART_QUIET_USEC was started successfully: the next restart is the first of a row. */
static void reset_restarts(AppInstance *a)
{
        AppStatus *s = &a->status;

        if (s->consecutive_starts <= 1 || now_usec(CLOCK_MONOTONIC) < a->healthy_usec + RESTART_QUIET_USEC)
                return;
        s->consecutive_starts = 1;
        save(a);
}

static CheckEvent count_failure(AppInstance *a, const LaunchEvent *event)
{
        const HealthCheck *check = &a->settings.health;

        if (!event->counts || ++a->health.failures < check->retries)
                return CHECK_FAILED;
        return check->action == HEALTH_NONE ? FAILED_TOO_OFTEN : ACTION_DUE;
}

/* A check may have failed because the app ended; a result for an earlier execution is not taken. */
int app_life_checked(AppInstance *a, const LaunchEvent *event)
{
        HealthStatus *h = &a->health;

        if (a->check == CHECK_NONE ||
            (event->number == 0 ? a->status.state != APP_RUNNING : event->number != app_life_checkable(a)))
                return 0;
        h->last = (HandlerStatus){.ran = true,
                                  .timed_out = event->timed_out,
                                  .exit_status = event->exit_status,
                                  .signal = event->signal};
        h->checked_usec = now_usec(CLOCK_REALTIME);
        set_text(&h->message, event->message);
        bool good = event->exit_status == 0 && !event->timed_out;
        a->healthy_usec = !good ? 0 : a->healthy_usec ?: now_usec(CLOCK_MONOTONIC);
        if (good) {
                h->failures = 0;
                reset_restarts(a);
        }
        bool acts = app_check_handle(a, good ? CHECK_PASSED : count_failure(a, event));
        save_health(a);
        return acts;
}

void app_life_action_failed(AppInstance *a)
{
        (void) app_check_handle(a, ACTION_FAILED);
        save_health(a);
}

/* --- Ending -------------------------------------------------------------------------------------------- */

static const struct {
        const char *result;
        AppCause cause;
} results[] = {
                {"oom-kill", CAUSE_OOM_KILL},
                {"timeout", CAUSE_TIMEOUT},
                {"watchdog", CAUSE_TIMEOUT},
};

void app_life_signal_denied(AppInstance *a)
{
        AppStatus *s = &a->status;

        if (s->state != APP_RUNNING || s->message)
                return;
        s->message = strdup("The pod's systemd has no permission to send it the signals that would stop it");
        save(a);
}

/* Its main process may end with success before the unit times out: stopped on request, or by itself in the time that it has. systemd's
 * result is "timeout" then if other processes of it had to be killed. */
static bool main_has_succeeded(const AppInstance *a, const MainEnd *end)
{
        uint64_t max = a->settings.max_runtime_usec, started = a->status.started_usec,
                 ended = end->usec ?: now_usec(CLOCK_REALTIME);

        if (!end->known || end->signal != 0 || end->exit_status != 0)
                return false;
        if (a->stop != STOP_NONE)
                return true;
        if (a->status.readiness == READINESS_STARTING)
                return false; /* that had its time, too */
        return max == 0 || max == UINT64_MAX || (started > 0 && ended >= started && ended - started < max);
}

static void set_cause(AppInstance *a, const MainEnd *end)
{
        AppStatus *s = &a->status;

        if (end->known) {
                s->exit_status = end->signal > 0 ? -1 : end->exit_status;
                s->signal = end->signal;
                s->core_dumped = end->core_dumped;
                s->cause = end->signal > 0 ? CAUSE_SIGNAL : CAUSE_EXITED;
        } else if (s->state == APP_RUNNING) {
                app_life_signal_denied(a);
                s->cause = CAUSE_POD_KILLED;
        } else
                s->cause = s->state == APP_PRE_START ? CAUSE_PRE_START : CAUSE_NOT_STARTED;
        for (size_t i = 0; i < ELEMENTSOF(results); i++)
                if (streq(results[i].result, end->result) && s->cause != CAUSE_NOT_STARTED &&
                    !(streq(end->result, "timeout") && main_has_succeeded(a, end)))
                        s->cause = results[i].cause;
        /* Which process it was is not known: SIGKILL of the main process may have had another cause. */
        if (s->cause == CAUSE_SIGNAL && s->signal == SIGKILL && count_oom_kills(a) > a->oom_kills)
                s->cause = CAUSE_OOM_KILL;
}

/* One whose health is checked, and that has done its work before the first check, has not failed: readiness is for those who
 * wait for it. One that reports readiness itself and has not done so has. */
static bool has_succeeded(const AppInstance *a)
{
        return !a->settings.notify && a->settings.restart == RESTART_NO && a->status.cause == CAUSE_EXITED &&
               a->status.exit_status == 0;
}

/* Sets CAUSE_NOT_READY for an app that ended before it became ready. systemd reports success if such an app exits with 0
 * when it is stopped, or if systemd learns of the end before the exec: it does not wait for readiness then. The supervisor
 * may not have received systemd's result. */
static void add_readiness(AppInstance *a, const MainEnd *end)
{
        AppStatus *s = &a->status;
        /* Its launcher was killed, or that of its pre-start handler. */
        bool never_ran = s->started_usec == 0 && (s->signal > 0 || s->cause == CAUSE_TIMEOUT);

        if (has_succeeded(a) ||
            (s->readiness != READINESS_STARTING && !(app_settings_readiness(&a->settings) && never_ran)))
                return;
        bool in_order = a->stop != STOP_NONE && (isempty(end->result) || streq(end->result, "success"));
        const char *why = streq(end->result, "timeout") ? "It was not ready in time"
                          : s->cause == CAUSE_EXITED && s->exit_status == 0 && !in_order
                                          ? "It ended before it was ready"
                                          : NULL;
        if (!why)
                return;
        s->cause = CAUSE_NOT_READY;
        set_text(&s->message, why);
}

/* Whether its health check caused the end. */
static void add_health(AppInstance *a)
{
        const HealthStatus *h = &a->health;
        _cleanup_free_ char *before = NULL;
        AppStatus *s = &a->status;

        if (s->readiness == READINESS_NONE || a->check == CHECK_NONE)
                return;
        if (a->check == CHECK_ACTS)
                s->cause = CAUSE_UNHEALTHY;
        if (s->cause != CAUSE_UNHEALTHY && s->cause != CAUSE_NOT_READY)
                return;
        before = TAKE_PTR(s->message);
        if (xasprintf(&s->message, "%s%s%s",
                      a->check == CHECK_ACTS ? "Its health check failed too often" : before ?: "",
                      h->message ? "; the check says: " : "", h->message ?: "") < 0)
                s->message = NULL;
}

static void end_main(AppInstance *a, const MainEnd *end)
{
        AppStatus *s = &a->status;

        if (s->cause == CAUSE_NONE) {
                set_cause(a, end);
                add_readiness(a, end);
                add_health(a);
        }
        s->state = APP_POST_STOP;
        s->ended_usec = MAX(end->usec, s->started_usec) ?: now_usec(CLOCK_REALTIME);
        if (end->usec == 0)
                s->ended_usec = now_usec(CLOCK_REALTIME);
}

void app_life_main_ended(AppInstance *a, const MainEnd *end)
{
        app_life_take_report(a);
        if (a->status.state == APP_ENDED || a->status.state == APP_POST_STOP)
                return; /* no new execution has begun */
        end_main(a, end);
        save(a);
}

void app_life_post_stop_ended(AppInstance *a, const LaunchEvent *event)
{
        AppStatus *s = &a->status;

        if (s->state != APP_POST_STOP)
                return;
        s->post_stop = (HandlerStatus){.ran = true,
                                       .timed_out = event->timed_out,
                                       .exit_status = event->exit_status,
                                       .signal = event->signal};
        if (event->cause != CAUSE_NONE && !s->message)
                set_text(&s->message, event->message);
        save(a);
}

/* An app that has never begun may have failed as well: its first process was killed before it sent a
 * request. */
bool app_life_ended(AppInstance *a, const MainEnd *end)
{
        AppStatus *s = &a->status;

        if (a->run == APP_RUN_NONE &&
            !(s->state == APP_WAITING && s->cause == CAUSE_NONE &&
              (end->known || !(isempty(end->result) || streq(end->result, "success")))))
                return false;
        app_run_handle(a, RUN_ENDED);
        app_life_take_report(a);
        s->restarting = false;
        if (s->state != APP_ENDED && s->state != APP_POST_STOP)
                end_main(a, end);
        s->state = APP_ENDED;
        save(a);
        return true;
}

void app_life_sockets_failed(AppInstance *a)
{
        static const char message[] =
                        "Its sockets failed: they were shut down, or the app repeatedly ended without "
                        "accepting the connections";

        if (a->status.cause == CAUSE_SOCKETS)
                return;
        a->status.state = APP_ENDED;
        a->status.cause = CAUSE_SOCKETS;
        a->status.ended_usec = now_usec(CLOCK_REALTIME);
        set_text(&a->status.message, message);
        save(a);
}

void app_life_finish(AppInstance *a, const char *message)
{
        bool changed = false;

        app_life_take_report(a);
        if (message && !a->status.message) {
                set_text(&a->status.message, message);
                changed = true;
        }
        changed |= app_status_finish(a->manifest, &a->status, CAUSE_POD_KILLED, now_usec(CLOCK_REALTIME));
        if (!a->table || !(changed || a->is_behind))
                return;
        write_to_memory(a, write_records);
        int r = write_records(a, a->table->status_fd);
        a->is_behind = r < 0;
        if (r < 0) /* which is not tried again */
                log_warning("How app %s of pod %s has ended cannot be recorded: %s", a->name,
                            pod_display_name(a->table->pod), strerror(-r));
}

void app_life_finished(AppTable *t)
{
        FOREACH_APP(a, t)
        {
                if (a->is_behind)
                        return;
        }
        keep_on_disk(t);
}

void app_life_forget(AppInstance *a)
{
        if (!a->table)
                return;
        app_status_remove(a->table->status_fd, a->name);
        if (a->table->spare_fd > 0)
                app_status_remove(a->table->spare_fd, a->name);
}

void app_life_reset(AppInstance *a)
{
        if (!a->table)
                return;
        health_status_remove(a->table->status_fd, a->name);
        if (a->table->spare_fd > 0)
                health_status_remove(a->table->spare_fd, a->name);
        (void) app_life_reserve(a); /* the record of its state stays */
        save(a);
}
