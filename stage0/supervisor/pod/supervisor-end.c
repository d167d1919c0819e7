/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The end of a pod: its result, the rest of its output, and the removal of everything that was made for
 * it. */

#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>

#include "stage0/cli/interrupt.h"
#include "stage0/supervisor/pod/supervisor-internal.h"

static bool nothing_ran(const AppTable *apps)
{
        FOREACH_APP(app, apps)
        if (app->status.state != APP_WAITING)
                return false;
        return true;
}

/* nspawn and the pod's systemd report an exceeded limit of the host as an errno; which limit it is follows
 * from the current usage. */
static int find_limit(const Supervisor *s, HostLimit *ret)
{
        const HostLimitPlaces places = {.proc = "/proc",
                                        .cgroup = "/sys/fs/cgroup",
                                        .store = store_path(s->pod->store),
                                        .uid = pod_root_uid(s->pod)};
        _cleanup_free_ char *text = strndup(s->console.text, s->console.size);

        return text ? host_limits_find(&places, host_limits_code(text), ret) : -ENOMEM;
}

/* A pod that was asked to end has no other reason, unless a limit has already ended it: systemd-machined of newer versions stops
 * a pod that it could not register for the same limit. */
static bool did_not_boot(const Supervisor *s)
{
        _cleanup_(host_limit_done) HostLimit l = {};

        return !supervisor_has_booted(s) && nothing_ran(s->apps) &&
               (!supervisor_was_asked_to_end(s) || (find_limit(s, &l) > 0 && !l.is_filter));
}

static int name_limit(const Supervisor *s, char **reason, char **hint)
{
        _cleanup_(host_limit_done) HostLimit l = {};
        _cleanup_free_ char *all = NULL;

        int r = find_limit(s, &l);
        if (r <= 0)
                return r == -ENOMEM ? r : 0;
        if (xasprintf(&all, "%s\n%s%s", l.remedy, *hint ? "" : "It was said: ", *hint ?: *reason) < 0)
                return -ENOMEM;
        free(*reason);
        free(*hint);
        *reason = TAKE_PTR(l.what);
        *hint = TAKE_PTR(all);
        return 0;
}

/* nspawn says that the program of PID 1 is missing also if a directory on the way to it is closed to the users of the pod. */
static int name_closed(const Supervisor *s, char **reason, char **hint)
{
        static const char *const way[] = {"root", "root/usr", "root/usr/lib", "root/usr/lib/systemd"};
        _cleanup_free_ char *path = NULL, *what = NULL, *all = NULL;
        struct stat st;

        for (size_t i = 0; strstr(*reason, "execv(") && i < ELEMENTSOF(way); i++) {
                if (fstatat(s->pod->dir_fd, way[i], &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_mode & S_IXOTH ||
                    st.st_uid == pod_root_uid(s->pod))
                        continue;
                if (pod_path(s->pod, &path) < 0 ||
                    xasprintf(&what,
                              "its PID 1 cannot enter %s/%s, which has the mode %04o and is of user %u",
                              path, way[i], (unsigned) (st.st_mode & 07777), (unsigned) st.st_uid) < 0 ||
                    xasprintf(&all,
                              "Let others search the directory, or prepare the pod anew.\nIt was said: %s%s%s",
                              *reason, *hint ? "\n" : "", *hint ?: "") < 0)
                        return -ENOMEM;
                free(*reason);
                free(*hint);
                *reason = TAKE_PTR(what);
                *hint = TAKE_PTR(all);
                return 0;
        }
        return 0;
}

/* What is left of a pod that did not start may show the reason, too. */
static int boot_failed(Supervisor *s, char **ret_reason, Error *e)
{
        _cleanup_free_ char *reason = NULL, *hint = NULL;

        int r = console_reason(&s->console, &reason, &hint);
        if (r >= 0)
                r = name_limit(s, &reason, &hint);
        if (r >= 0)
                r = name_closed(s, &reason, &hint);
        if (r < 0)
                return error_oom(e);
        r = error_set(e, -EIO, "Pod %s did not start: %s", pod_display_name(s->pod), reason);
        *ret_reason = TAKE_PTR(reason);
        return hint ? error_hint(e, r, "%s", hint) : r;
}

/* Why the app failed, if not by its own exit status; or NULL. */
static char *failure_of(const AppStatus *l)
{
        return l->cause == CAUSE_NOT_STARTED || !l->message ? NULL /* the pod's own message */
                                                            : text_escape_for_terminal(l->message);
}

static void explain_failures(Supervisor *s, const AppStatus *l)
{
        for (size_t i = 0; !s->detached && i < s->pod->manifest->n_apps; i++) {
                _cleanup_free_ char *why = failure_of(&l[i]);
                if (why)
                        log_error("App %s: %s.", s->pod->manifest->apps[i]->name, why);
        }
}

/* The same for the process that waits until the pod is up; one line for each app. */
static void describe_failures(Supervisor *s, const AppStatus *l, Text *t)
{
        for (size_t i = 0; i < s->pod->manifest->n_apps; i++) {
                _cleanup_free_ char *why = failure_of(&l[i]);
                if (why)
                        text_addf(t, "%sApp %s: %s", t->size > 0 ? ".\n" : "",
                                  s->pod->manifest->apps[i]->name, why);
        }
}

/* The statuses of all apps, in the order of the manifest; their pointers are lent. */
static AppStatus *list_statuses(const Supervisor *s)
{
        const PodManifest *m = s->pod->manifest;
        AppStatus *l = calloc(m->n_apps + 1, sizeof(AppStatus));

        for (size_t i = 0; l && i < m->n_apps; i++) {
                const AppInstance *app = app_table_find(s->apps, m->apps[i]->name);
                l[i] = app ? app->status : app_status_initial();
        }
        return l;
}

/* Those that the pod's result depends on; the others are as if they had not run. */
static AppStatus *list_counted(const Supervisor *s, const AppStatus *statuses)
{
        const PodManifest *m = s->pod->manifest;
        AppStatus *l = calloc(m->n_apps + 1, sizeof(AppStatus));

        for (size_t i = 0; l && i < m->n_apps; i++) {
                const AppInstance *app = app_table_find(s->apps, m->apps[i]->name);
                l[i] = app && app->settings.transient ? app_status_initial() : statuses[i];
        }
        return l;
}

/* Reads how the apps ended, and derives the pod's result from that. *RET, which may stay NULL, is for
 * explain_failures(). UNRECORDED gets the failure to write the result, which it does not change. */
static int conclude(Supervisor *s, AppStatus **ret, Error *unrecorded, Error *e)
{
        PodResult result = {.started_usec = s->runtime.started_usec, .ended_usec = now_usec(CLOCK_REALTIME)};
        _cleanup_free_ char *reason = NULL;

        int booted = did_not_boot(s) ? boot_failed(s, &reason, e) : 0;
        FOREACH_APP(app, s->apps)
        app_life_finish(app, reason);
        app_life_finished(s->apps);
        AppStatus *statuses = *ret = list_statuses(s);
        _cleanup_free_ AppStatus *counted = statuses ? list_counted(s, statuses) : NULL;
        if (!counted)
                return error_oom(e);
        result.exit_status = pod_exit_status(s->pod->config.exit_policy, s->in_order, counted,
                                             s->pod->manifest->n_apps);
        result.at_shutdown = (s->stopped_by_host || !s->in_order) && host_is_shutting_down();
        int r = pod_result_write(s->pod, &result);
        if (r < 0)
                (void) error_set_errno(unrecorded, r, "The result of pod %s cannot be recorded",
                                       pod_display_name(s->pod));
        return booted < 0 ? booted : result.exit_status;
}

static void drain(Supervisor *s)
{
        while (supervisor_read_console(s))
                ;
        forwarders_end(s->forwarders);
}

/* The reader of our output may be slow: the pod is over and given back by then. In the foreground a signal ends the
 * wait and lets the last work, such as the removal of the pod, be done; the next one ends this process. A
 * detached supervisor is in the scope of the pod, which systemd-machined stops as soon as the machine is gone: its
 * signals stay blocked, or the pod would be left half removed. */
static void show_rest(Supervisor *s, const AppStatus *statuses)
{
        s->pod->locked = flock(s->pod->dir_fd, LOCK_UN) < 0;
        if (!s->detached) {
                signals_release();
                (void) interrupt_catch(pod_operation(s->pod));
        }
        log_set_blocking(true);
        inputs_finish(s->inputs, statuses);
        forwarders_show_rest(s->forwarders, pod_operation(s->pod));
        s->forwarders = forwarders_free(s->forwarders);
        if (statuses)
                explain_failures(s, statuses);
}

/* Whether the pod ended before it was up. */
static void describe_early_end(Supervisor *s, const AppStatus *l, Error *e)
{
        _cleanup_free_ char *why = NULL;
        _cleanup_text_ Text failures = {};
        const char *up = readiness_is_used(s->readiness) ? "ready" : "up", *pod = pod_display_name(s->pod);

        if (supervisor_was_asked_to_end(s))
                (void) error_set(e, -ECANCELED, "Pod %s was stopped before it was %s", pod, up);
        else {
                describe_failures(s, l, &failures);
                if (!readiness_is_used(s->readiness) && failures.size > 0 && !failures.failed)
                        (void) error_set(e, -EIO, "%s", failures.data);
                else if (readiness_describe(s->readiness, &why) >= 0)
                        (void) error_set(e, -EIO, "Pod %s ended before it was %s%s%s", pod, up,
                                         isempty(why) ? "" : ": ", why);
        }
        (void) error_hint(e, -EIO, "'acnspawn status %s' and 'acnspawn logs %s' say more.", pod, pod);
}

/* The error for the process that waits for the pod to be up: *E, also where the pod's exit status is
 * returned. Apps that were executed, and ended at once, were up. In the foreground, apps that ended by
 * themselves were reported already. */
static int judge_readiness(Supervisor *s, const AppStatus *l, int status, Error *e)
{
        if (status < 0 || supervisor_is_up(s))
                return status;
        if (s->boot >= BOOT_LATE_SILENT) {
                int r = error_set(e, -ETIME, "Pod %s %s: %s", pod_display_name(s->pod),
                                  s->unhealthy ? "does not get ready, as a health check fails"
                                               : "was not ready in time",
                                  !isempty(s->late) ? s->late : "its systemd was still starting");
                return error_hint(e, r, "'acnspawn status %s' and 'acnspawn logs %s' say more.",
                                  pod_display_name(s->pod), pod_display_name(s->pod));
        }
        if (!s->options->detach)
                return status;
        /* In a pod that can be without apps the ends of apps do not explain the end of the pod. */
        bool by_apps = !exit_policy_is_open(s->pod->config.exit_policy);
        if (by_apps && readiness_is_complete(s->readiness))
                return 0;
        if (by_apps && status == 0 && !readiness_is_used(s->readiness)) /* the end of one app ends the pod */
                return 0;
        describe_early_end(s, l, e);
        return status > 0 ? status : -EIO;
}

/* Operations in the host's mount namespace are reverted there; our own mounts are not needed any more. */
void supervisor_leave_networks(Supervisor *s, Error *e)
{
        int r = pod_network_return(s->network);

        if (r < 0)
                (void) error_set_errno(
                                e, r,
                                "Cannot return to the host's mounts to take pod %s out of its networks",
                                pod_display_name(s->pod));
        else if (s->network)
                (void) network_down(s->pod, e);
        s->network = pod_network_free(s->network);
}

int supervisor_finish(Supervisor *s, Error *e)
{
        Error errors[4] = {};
        _cleanup_free_ AppStatus *statuses = NULL;
        int wait_status = 0;

        interface_end_execs(s->interface); /* the pod's PID 1 does not end before they are reaped */
        s->in_order = waitpid(s->nspawn.pid, &wait_status, 0) > 0 && WIFEXITED(wait_status) &&
                      WEXITSTATUS(wait_status) == 0;
        s->nspawn.pid = 0;
        supervisor_leave_end(s);
        supervisor_notify_stopping(s);
        supervisor_end_apps(s, s->in_order);
        drain(s);
        s->machine = machine_free(s->machine);
        supervisor_leave_manager(s);
        s->server = server_free(s->server);
        s->mounts = pod_mounts_free(s->mounts);
        (void) pod_cgroup_remove(s->pod, &errors[0]);
        supervisor_leave_networks(s, &errors[2]);
        int status = conclude(s, &statuses, &errors[3], e);
        status = judge_readiness(s, statuses, status, e);
        if (s->refusal.code < 0)
                status = error_move(e, &s->refusal);
        if (s->reader_gone && status >= 0)
                status = 128 + SIGPIPE;
        /* A pod whose apps were done before readiness could be reported has started successfully. */
        supervisor_notify_end(s, (status >= 0 && readiness_is_complete(s->readiness)) ||
                                                 (status == 0 && !readiness_is_used(s->readiness)));
        (void) pod_end_run(s->pod, &errors[1]);
        supervisor_journal_end(s, status);
        interface_end(s->interface, status);
        show_rest(s, statuses);
        s->interface = interface_free(s->interface);
        for (size_t i = 0; i < ELEMENTSOF(errors); i++) {
                if (errors[i].message)
                        log_warning("%s%s%s", errors[i].message, errors[i].hint ? ". " : "",
                                    errors[i].hint ?: "");
                error_done(&errors[i]);
        }
        if (!s->detached)
                pod_cgroup_wait_for_scope(s->pod);
        return status;
}
