/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A pod's report as text, in the format of "systemctl status": a line with the pod's name, then fields whose
 * names are right-aligned. Fields without a value are left out. Messages and names come from images and from
 * the pod, and are escaped.
 */

#include <inttypes.h>
#include <signal.h>

#include "schema/settings.h"
#include "stage0/host/spare-records.h"
#include "stage0/pods/pods.h"
#include "stage0/verbs/pod-status-shared.h"
#include "stage0/verbs/pod-status-text.h"
#include "stage1/backoff.h"

static void add_colored(Text *t, const Display *d, Color c, const char *s)
{
        if (c == COLOR_NONE)
                text_add(t, s);
        else
                text_addf(t, "%s%s%s", color_sequence(d, c), s, color_sequence(d, COLOR_NONE));
}

static void add_dot(Text *t, const Display *d, Color c)
{
        add_colored(t, d, c, d->utf8 ? "●" : "*");
        text_add(t, " ");
}

/* "Thu 2016-05-12 08:30:00 UTC; 2min ago" */
static void add_time(Text *t, const Display *d, uint64_t usec)
{
        _cleanup_free_ char *when = format_timestamp(usec), *distance = format_relative(usec, d->now);

        if (when && distance)
                text_addf(t, "%s; %s", when, distance);
        else
                t->failed = true;
}

static void add_time_field(Text *t, const Display *d, const char *label, uint64_t usec)
{
        if (usec == 0)
                return;
        status_add_label(t, label);
        add_time(t, d, usec);
        text_add(t, "\n");
}

/* --- Apps ---------------------------------------------------------------------------------------------- */

static void add_signal(Text *t, int sig)
{
        const char *name = sigabbrev_np(sig);

        if (name)
                text_addf(t, "SIG%s", name);
        else
                text_addf(t, "signal %i", sig);
}

static void add_handler(Text *t, const char *name, const HandlerStatus *h)
{
        text_addf(t, "%s handler ", name);
        if (h->timed_out)
                text_add(t, "timed out");
        else if (h->signal > 0) {
                text_add(t, "killed by ");
                add_signal(t, h->signal);
        } else
                text_addf(t, "exited with status %i", h->exit_status);
}

static bool handler_failed(const HandlerStatus *h)
{
        return h->ran && (h->timed_out || h->signal > 0 || h->exit_status != 0);
}

/* Descriptions of causes without parameters. */
static const char *const cause_words[_APP_CAUSE_MAX] = {
                [CAUSE_NONE] = "ended",
                [CAUSE_OOM_KILL] = "killed for lack of memory",
                [CAUSE_TIMEOUT] = "killed after a time-out",
                [CAUSE_COMMAND_NOT_FOUND] = "command not found",
                [CAUSE_COMMAND_NOT_EXECUTABLE] = "command not executable",
                [CAUSE_WORKING_DIRECTORY] = "working directory missing",
                [CAUSE_USER] = "user or group not in the image",
                [CAUSE_SETUP] = "could not be set up",
                [CAUSE_SOCKETS] = "nothing can start it any more",
                [CAUSE_NOT_STARTED] = "not started: the pod ended before",
                [CAUSE_POD_KILLED] = "ended with the pod, which was killed",
                [CAUSE_NOT_READY] = "did not get ready",
                [CAUSE_UNHEALTHY] = "ended for not being healthy",
                [CAUSE_HOST_REBOOTED] = "ended by a reboot of the host",
};

static void add_end(Text *t, const AppStatus *s)
{
        if (s->cause == CAUSE_EXITED)
                text_addf(t, "exited with status %i", s->exit_status);
        else if (s->cause == CAUSE_SIGNAL) {
                text_add(t, "killed by ");
                add_signal(t, s->signal);
        } else if (s->cause == CAUSE_PRE_START)
                add_handler(t, "pre-start", &s->pre_start);
        else
                text_add(t, s->cause >= 0 && s->cause < _APP_CAUSE_MAX ? cause_words[s->cause] : "ended");
        if (s->core_dumped)
                text_add(t, ", core dumped");
        if (handler_failed(&s->post_stop)) {
                text_add(t, "; ");
                add_handler(t, "post-stop", &s->post_stop);
        }
}

int app_status_phrase(const AppStatus *s, char **ret)
{
        static const char *const words[_APP_STATE_MAX] = {
                        [APP_WAITING] = "waiting",
                        [APP_PRE_START] = "pre-start handler runs",
                        [APP_RUNNING] = "running",
                        [APP_POST_STOP] = "post-stop handler runs",
        };
        _cleanup_text_ Text t = {};

        if (s->state == APP_ENDED)
                add_end(&t, s);
        else if (s->state == APP_RUNNING && s->readiness != READINESS_NONE)
                text_add(&t, s->readiness == READINESS_READY ? "running, ready" : "starting");
        else
                text_add(&t, words[s->state]);
        return text_take(&t, ret, NULL);
}

static Color app_color(const AppStatus *s)
{
        if (s->state == APP_ENDED)
                return pod_end_is_failure(app_status_to_exit_code(s)) ? COLOR_RED : COLOR_GREY;
        if (s->state == APP_RUNNING)
                return s->readiness == READINESS_STARTING ? COLOR_YELLOW : COLOR_GREEN;
        return s->state == APP_WAITING ? COLOR_NONE : COLOR_YELLOW;
}

/* "example.com/web:1.2 sha512-0123456789ab" */
static void add_image(Text *t, const Display *d, const PodApp *app)
{
        const char *version = pair_list_get(&app->image_labels, "version");

        if (!app->image_name && !app->image_id)
                return;
        text_addf(t, "%s  ", color_sequence(d, COLOR_GREY));
        status_add_escaped(t, app->image_name ?: "");
        if (version) {
                text_add(t, ":");
                status_add_escaped(t, version);
        }
        if (app->image_id)
                text_addf(t, "%s%.19s", app->image_name ? " " : "", app->image_id);
        text_add(t, color_sequence(d, COLOR_NONE));
}

/* ", healthy", ", unhealthy (3 failures)" */
static void add_health(Text *t, const Display *d, const AppReport *a)
{
        static const Color colors[_HEALTH_STATE_MAX] = {
                        [HEALTH_HEALTHY] = COLOR_GREEN,
                        [HEALTH_UNHEALTHY] = COLOR_RED,
        };

        if (!a->has_health || a->status.state != APP_RUNNING || a->health.state == HEALTH_STARTING)
                return;
        text_add(t, ", ");
        add_colored(t, d, colors[a->health.state], health_state_to_string(a->health.state));
        if (a->health.failures > 0)
                text_addf(t, " (%" PRIu64 " failure%s)", a->health.failures,
                          a->health.failures == 1 ? "" : "s");
}

/* "restarted 3 of at most 10 times in a row, again in 800ms" */
static void add_restarts(Text *t, const Display *d, const AppReport *a)
{
        uint64_t starts = backoff_consecutive_starts(&a->status), n = starts > 0 ? starts - 1 : 0;

        if (!a->restarts || (n == 0 && a->next_start_usec == 0))
                return;
        text_addf(t, "%*srestarted %" PRIu64, STATUS_LABEL_WIDTH + 4, "", n);
        if (a->restart_limit != RESTART_LIMIT_NONE)
                text_addf(t, " of at most %" PRIu32, a->restart_limit);
        text_add(t, " times in a row");
        if (a->next_start_usec > d->now) {
                _cleanup_free_ char *span = format_span(a->next_start_usec - d->now);
                text_addf(t, ", again in %s", span ?: "");
        } else if (a->status.state == APP_ENDED && !a->status.restarting && n > 0 &&
                   starts > a->restart_limit)
                text_add(t, ", and given up");
        text_add(t, "\n");
}

/* "12345 lines (1.2M) not in the journal" */
static void add_drops(Text *t, const Display *d, uint64_t lines, uint64_t bytes, const char *where,
                      const char *why)
{
        _cleanup_free_ char *size = format_size(bytes);
        char words[128];

        if (bytes == 0)
                return;
        snprintf(words, sizeof(words), "%" PRIu64 " line%s (%s) not in the %s", lines, lines == 1 ? "" : "s",
                 size ?: "?", where);
        text_addf(t, "%*s", STATUS_LABEL_WIDTH + 4, "");
        add_colored(t, d, COLOR_YELLOW, words);
        text_addf(t, ": %s\n", why);
}

static void add_log(Text *t, const Display *d, const AppReport *a)
{
        const LogDrops *drops = &a->drops;

        if (a->log_file) {
                text_addf(t, "%*s", STATUS_LABEL_WIDTH + 4, "");
                text_add(t, "log file ");
                status_add_escaped(t, a->log_file);
                text_add(t, "\n");
        }
        add_drops(t, d, drops->lines, drops->bytes, "journal",
                  "it writes more than --log-size= and --log-rate= allow");
        add_drops(t, d, drops->file_lines, drops->file_bytes, "log file",
                  "it has its max-size=, or could not be written");
}

/* The message of the app, or of its failing health check. */
static void add_message(Text *t, const char *message)
{
        if (isempty(message))
                return;
        text_addf(t, "%*s", STATUS_LABEL_WIDTH + 4, "");
        status_add_escaped(t, message);
        text_add(t, "\n");
}

/* "image policy registry; sha512-0123456789ab failed" */
static void add_image_policy(Text *t, const AppReport *a)
{
        if (a->image_policy == IMAGE_POLICY_NONE)
                return;
        text_addf(t, "%*simage policy %s", STATUS_LABEL_WIDTH + 4, "",
                  image_policy_to_string((ImagePolicy) a->image_policy));
        if (a->failed_image)
                text_addf(t, "; %.19s failed", a->failed_image);
        text_add(t, "\n");
}

/* "profile of system calls sha256:0123456789ab" */
static void add_filter(Text *t, const AppReport *a)
{
        static const char *const words[_FILTER_KIND_MAX] = {
                        [FILTER_NONE] = "system calls are not filtered",
                        [FILTER_ISOLATORS] = "filter of system calls by isolators",
                        [FILTER_PROFILE] = "profile of system calls",
        };

        if (words[a->filter])
                text_addf(t, "%*s%s%s%.19s\n", STATUS_LABEL_WIDTH + 4, "", words[a->filter],
                          a->filter_digest ? " " : "", a->filter_digest ?: "");
}

/* During a replacement the new app may run already, before it is ready. */
static void add_replacement(Text *t, const AppReport *a)
{
        if (!a->replaced_by.image_id)
                return;
        text_addf(t, "%*sis being replaced by ", STATUS_LABEL_WIDTH + 4, "");
        status_add_escaped(t, a->replaced_by.image_name ?: "");
        text_addf(t, "%s%.19s\n", a->replaced_by.image_name ? " " : "", a->replaced_by.image_id);
}

static void add_app(Text *t, const Display *d, const AppReport *a, size_t name_width)
{
        _cleanup_free_ char *phrase = NULL;
        Color color = app_color(&a->status);
        uint64_t since = a->status.state == APP_ENDED ? a->status.ended_usec : a->status.started_usec;

        if (app_status_phrase(&a->status, &phrase) < 0) {
                t->failed = true;
                return;
        }
        add_dot(t, d, color);
        text_addf(t, "%-*s  ", (int) name_width, pod_app_path_name(a->app));
        add_colored(t, d, color, phrase);
        add_health(t, d, a);
        if (since > 0) {
                _cleanup_free_ char *distance = format_relative(since, d->now);
                text_addf(t, "; %s", distance ?: "");
        }
        if (a->status.starts > 1)
                text_addf(t, "; started %llu times", (unsigned long long) a->status.starts);
        add_image(t, d, a->app);
        text_add(t, "\n");
        add_replacement(t, a);
        add_message(t, a->status.message);
        if (a->has_health && a->status.state == APP_RUNNING && a->health.state != HEALTH_HEALTHY)
                add_message(t, a->health.message);
        add_restarts(t, d, a);
        add_log(t, d, a);
        add_image_policy(t, a);
        add_filter(t, a);
}

static void add_apps(Text *t, const Display *d, const PodReport *report)
{
        size_t width = 0;

        if (report->n_apps == 0) {
                status_add_label(t, "Apps");
                text_add(t, "none\n");
        }
        for (size_t i = 0; i < report->n_apps; i++)
                width = MAX(width,
                            strlen(pod_app_path_name(report->apps[i].app))); /* an AC Name: plain ASCII */
        for (size_t i = 0; i < report->n_apps; i++) {
                if (i == 0)
                        status_add_label(t, "Apps");
                else
                        text_addf(t, "%*s", STATUS_LABEL_WIDTH + 2, "");
                add_app(t, d, &report->apps[i], width);
        }
}

/* --- The pod ------------------------------------------------------------------------------------------- */

static void add_state(Text *t, const Display *d, const Pod *p, const PodReport *r)
{
        Color color = pod_state_color(p->state, r->exit_status);
        uint64_t since = r->ended_usec > 0 ? r->ended_usec : r->started_usec;

        status_add_label(t, "State");
        add_colored(t, d, color, pod_shown_state((Pod *) p));
        if (p->state == POD_EXITED && r->exit_status >= 0)
                text_addf(t, " with status %i", r->exit_status);
        if (r->ended_by_reboot)
                text_add(t, " by a reboot of the host");
        if (since > 0) {
                text_add(t, r->ended_usec > 0 ? " at " : " since ");
                add_time(t, d, since);
        }
        text_add(t, "\n");
        if (!pod_statuses_are_old(p))
                return;
        status_add_label(t, "Apps");
        add_colored(t, d, COLOR_YELLOW, "old states");
        text_add(t,
                 ": the current ones can neither be written to the disk nor be read from the supervisor\n");
}

static void add_config(Text *t, const Pod *p)
{
        _cleanup_free_ char *timeout = format_span(p->config.stop_timeout_usec);

        status_add_label(t, "Users");
        if (p->config.private_users)
                text_addf(t, "private, %" PRIu32 " to %" PRIu32 "\n", p->config.uid_base,
                          p->config.uid_base + (pod_n_uids(&p->config) - 1));
        else
                text_add(t, "the host's\n");
        status_add_label(t, "Exit policy");
        text_addf(t, "%s, stop time-out %s", exit_policy_to_string(p->config.exit_policy), timeout ?: "");
        if (p->config.exit_idle_usec > 0) {
                _cleanup_free_ char *idle = format_span(p->config.exit_idle_usec);
                text_addf(t, ", when idle for %s", idle ?: "");
        }
        text_add(t, "\n");
        if (p->config.stage1) {
                status_add_label(t, "Stage1");
                status_add_escaped(t, p->config.stage1);
                text_add(t, "\n");
        }
}

static void add_verdict(Text *t, const Display *d, const IsolatorReport *k)
{
        static const Color colors[] = {
                        [ISOLATOR_ENFORCED] = COLOR_NONE,
                        [ISOLATOR_MODIFIED] = COLOR_YELLOW,
                        [ISOLATOR_IGNORED] = COLOR_RED,
                        [ISOLATOR_OFF] = COLOR_YELLOW,
        };

        status_add_escaped(t, k->name);
        text_add(t, ": ");
        add_colored(t, d, colors[k->verdict], isolator_verdict_to_string(k->verdict));
        if (!isempty(k->detail)) {
                text_add(t, ", ");
                status_add_escaped(t, k->detail);
        }
        if (k->source != GRANT_UNKNOWN)
                text_addf(t, " [%s]", grant_source_to_string(k->source));
        text_add(t, "\n");
}

/* LABEL for the first line, spaces for the others. */
static void add_label_or_indent(Text *t, const char *label, bool first)
{
        if (first)
                status_add_label(t, label);
        else
                text_addf(t, "%*s", STATUS_LABEL_WIDTH + 2, "");
}

static void add_isolators(Text *t, const Display *d, const PodReport *report)
{
        for (size_t i = 0; i < report->n_isolators; i++) {
                add_label_or_indent(t, "Isolators", i == 0);
                text_addf(t, "%s ", report->isolators[i].app ?: "pod");
                add_verdict(t, d, &report->isolators[i]);
        }
}

/* Several apps, which nearly always have the same defaults, show each verdict once. */
static bool is_same_default(const IsolatorReport *a, const IsolatorReport *b)
{
        return !a->app == !b->app && streq(a->name, b->name) && a->verdict == b->verdict &&
               streq(a->detail, b->detail);
}

static void add_defaults(Text *t, const Display *d, const PodReport *report)
{
        for (size_t i = 0; i < report->n_defaults; i++) {
                const IsolatorReport *k = &report->defaults[i];
                size_t before = 0, same = 0;

                for (size_t j = 0; j < report->n_defaults; j++)
                        if (is_same_default(k, &report->defaults[j])) {
                                same++;
                                before += j < i;
                        }
                if (before > 0)
                        continue;
                add_label_or_indent(t, "Defaults", i == 0);
                text_add(t, !k->app ? "pod " : same > 1 ? "each of " : "");
                for (size_t j = i, n = 0; k->app && j < report->n_defaults; j++)
                        if (is_same_default(k, &report->defaults[j]))
                                text_addf(t, "%s%s", n++ > 0 ? ", " : "", report->defaults[j].app);
                text_add(t, k->app ? " " : "");
                add_verdict(t, d, k);
        }
}

/* "web no system call filter: asked for by its image, granted on the command line" */
static void add_privileges(Text *t, const Display *d, const PodGrants *g)
{
        static const Color colors[_GRANT_DECISION_MAX] = {[GRANT_GRANTED] = COLOR_YELLOW};

        for (size_t i = 0; i < g->n_grants; i++) {
                const Grant *k = &g->grants[i];

                if (i == 0)
                        status_add_label(t, "Privileges");
                else
                        text_addf(t, "%*s", STATUS_LABEL_WIDTH + 2, "");
                text_addf(t, "%s ", k->app);
                status_add_escaped(t, k->text);
                text_add(t, ": asked for by its image, ");
                add_colored(t, d, colors[k->decision], grant_decision_to_string(k->decision));
                text_addf(t, " %s the %s\n", k->by == GRANT_COMMAND_LINE ? "on" : "in",
                          grant_source_to_string(k->by));
        }
}

/* Missing protection is reported, as for isolators: see SECURITY.md on apps of one pod. */
static void add_exposure(Text *t, const Display *d, const PodReport *report)
{
        if (!report->exposed_to)
                return;
        status_add_label(t, "Neighbours");
        add_colored(t, d, COLOR_YELLOW, "exposed");
        if (report->exposed_to_all) {
                text_addf(t, ", apps of one user can access each other's processes: %s\n",
                          pod_report_exposure_reason(report));
                return;
        }
        text_add(t, " to ");
        STRV_FOREACH (name, report->exposed_to)
                text_addf(t, "%s%s", name == report->exposed_to ? "" : ", ", *name);
        text_add(t, ", which may mount: Linux prevents such apps from accessing others from 6.12 on\n");
}

/* The predecessor and the successor of this pod. */
static void add_relatives(Text *t, const Pod *p)
{
        _cleanup_free_ char *successor = NULL;

        if (p->config.predecessor) {
                status_add_label(t, "After");
                text_addf(t, "%s, which ended\n", p->config.predecessor);
        }
        if (pod_successor(p, &successor) < 0 || !successor)
                return;
        status_add_label(t, "Again as");
        text_addf(t, "%s%s%s\n", successor, p->former_name ? ", which has its name, " : "",
                  p->former_name ?: "");
}

int pod_status_text(const Pod *p, const PodReport *report, const Display *d, char **ret)
{
        _cleanup_text_ Text t = {};

        add_dot(&t, d, pod_state_color(p->state, report->exit_status));
        if (!isempty(p->config.name))
                text_addf(&t, "%s - ", p->config.name);
        text_addf(&t, "%s\n", p->uuid);
        add_state(&t, d, p, report);
        add_relatives(&t, p);
        add_time_field(&t, d, "Created", p->config.created_usec);
        if (report->ended_usec > 0)
                add_time_field(&t, d, "Started", report->started_usec);
        if (report->leader > 0) {
                status_add_label(&t, "Leader");
                text_addf(&t, "%i\n", (int) report->leader);
        }
        if (report->unit) {
                status_add_label(&t, "Unit");
                text_addf(&t, "%s\n", report->unit);
        }
        if (p->manifest) {
                status_add_network(&t, p, report);
                status_add_volumes(&t, p->manifest);
                add_config(&t, p);
                add_apps(&t, d, report);
        }
        add_isolators(&t, d, report);
        add_privileges(&t, d, &report->grants);
        add_defaults(&t, d, report);
        add_exposure(&t, d, report);
        return text_take(&t, ret, NULL);
}
