/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The unit generator: a reified manifest goes in, the text of every unit of the pod comes out.
 *
 * The text of a unit is either fixed or restricted by the specification to letters, digits and dashes (names
 * of apps, names of images): untrusted arguments, environment and paths are in the launch files.
 *
 * Units say how an app is started, restarted and stopped. None of them ends the pod: what the end of an app means
 * is decided by the supervisor (stage0/supervisor/apps/exit-policy.c). The end of the pod, by its signal to PID 1 or by
 * machinectl, goes through exit.target, so that the manager stops the apps in order, runs their post-stop
 * handlers, and leaves only when the last of them is inactive:
 *
 *     app-<app>.service  --Conflicts, Before-->  shutdown.target
 *                                                   ^-- After --  systemd-exit.service: exit-force
 */

#include "stage1/backoff.h"
#include "stage1/launch-protocol.h"
#include "stage1/stage1-internal.h"

#define UNITS "acnspawn/units/"
#define HEADER "# Made by acnspawn for this pod.\n\n"

/* The units that are the same in every pod. */
static const struct {
        const char *name, *text;
} common_units[] = {
                {"exit.target", "[Unit]\n"
                                "Description=End of the Pod\n"
                                "DefaultDependencies=no\n"
                                "AllowIsolate=yes\n"
                                "Requires=systemd-exit.service\n"
                                "After=systemd-exit.service\n"},
                {"shutdown.target", "[Unit]\n"
                                    "Description=All Apps Have Ended\n"
                                    "DefaultDependencies=no\n"
                                    "RefuseManualStart=yes\n"},
                {"systemd-exit.service", "[Unit]\n"
                                         "Description=Leave the Pod\n"
                                         "DefaultDependencies=no\n"
                                         "Requires=shutdown.target\n"
                                         /* An app may end before the journal daemon has finished starting;
                                          * if the daemon were killed then, the app's output would be
                                          * lost. */
                                         "After=shutdown.target systemd-journald.service\n"
                                         "SuccessAction=exit-force\n"},
                {"systemd-journald.socket", "[Unit]\n"
                                            "Description=Journal Socket\n"
                                            "DefaultDependencies=no\n"
                                            "IgnoreOnIsolate=yes\n"
                                            "\n"
                                            "[Socket]\n"
                                            "ListenStream=/run/systemd/journal/stdout\n"
                                            "ListenDatagram=/run/systemd/journal/socket\n"
                                            "SocketMode=0666\n"
                                            "PassCredentials=yes\n"
                                            "ReceiveBuffer=8M\n"
                                            "Service=systemd-journald.service\n"},
                /* journald writes to /var/log/journal from the start only if the flag file exists that says
                 * that the journal was flushed; a runtime directory of that name is the cheapest way to
                 * create it.
                 */
                {"systemd-journald.service", "[Unit]\n"
                                             "Description=Journal of the Pod\n"
                                             "DefaultDependencies=no\n"
                                             "IgnoreOnIsolate=yes\n"
                                             "Requires=systemd-journald.socket\n"
                                             "After=systemd-journald.socket\n"
                                             "\n"
                                             "[Service]\n"
                                             "Type=notify\n"
                                             "ExecStart=/usr/lib/systemd/systemd-journald\n"
                                             "Sockets=systemd-journald.socket\n"
                                             "RuntimeDirectory=systemd/journal/flushed\n"
                                             "RuntimeDirectoryPreserve=yes\n"
                                             "Environment=RUNTIME_DIRECTORY=/run/systemd/journal\n"
                                             "StandardOutput=null\n"
                                             "Restart=always\n"
                                             "RestartSec=0\n"
                                             "FileDescriptorStoreMax=4224\n"
                                             "OOMScoreAdjust=-250\n"},
};

/* Signals to PID 1, and machinectl, activate these targets; all of them end the pod in the same way. */
static const char *const exit_aliases[] = {"halt.target", "poweroff.target", "reboot.target",
                                           "kexec.target"};

int stage1_add_unit(Stage1Files *files, const char *name, const char *text)
{
        _cleanup_free_ char *path = NULL, *content = NULL;
        int r = xasprintf(&path, UNITS "%s", name);

        if (r >= 0)
                r = xasprintf(&content, HEADER "%s", text);
        return r < 0 ? r : stage1_files_add(files, path, content, strlen(content), 0644);
}

int stage1_add_unit_text(Stage1Files *files, const char *name, Text *t)
{
        _cleanup_free_ char *text = NULL;
        int r = text_take(t, &text, NULL);

        return r < 0 ? r : stage1_add_unit(files, name, text);
}

static int add_common_units(Stage1Files *files)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(common_units); i++)
                r = stage1_add_unit(files, common_units[i].name, common_units[i].text);
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(exit_aliases); i++) {
                _cleanup_free_ char *path = NULL;
                r = xasprintf(&path, UNITS "%s", exit_aliases[i]);
                if (r >= 0)
                        r = stage1_files_add_symlink(files, path, "exit.target");
        }
        return r;
}

int stage1_app_unit_name(const char *app, char **ret)
{
        return xasprintf(ret, "app-%s.service", app);
}

/* In the name of a slice a dash means "below", so that the slice of the app "a-b" would be inside that of
 * the app "a". It is replaced by a character that names of apps cannot contain; systemd's own escape would
 * make long names too long for a file. That of a nested app is inside that of its parent (schema/nested.c). */
int stage1_app_slice_name(const char *app, char **ret)
{
        return nested_slice(app, ret);
}

static void add_time(Text *t, const char *key, uint64_t usec)
{
        if (usec == UINT64_MAX)
                text_addf(t, "%s=infinity\n", key);
        else
                text_addf(t, "%s=%lluus\n", key, (unsigned long long) usec);
}

/* Effective if the controller exists; services have no limit of their own: see etc/systemd/system.conf. */
static void add_tasks_max(Text *t, uint64_t max)
{
        if (max == STAGE1_TASKS_UNLIMITED)
                text_add(t, "TasksMax=infinity\n");
        else
                text_addf(t, "TasksMax=%llu\n", (unsigned long long) max);
}

/* The slice of an app, or, if APP is NULL, that of the pod. */
static int format_slice(const char *app, const IsolatorList *isolators, Text *t, Text *service)
{
        text_addf(t, "[Unit]\nDescription=Resources of %s%s\nDefaultDependencies=no\n\n[Slice]\n",
                  app ? "App " : "the Pod", app ?: "");
        /* The only controller whose accounting systemd does not enable by default. */
        if (app)
                text_add(t, "IOAccounting=yes\n");
        add_tasks_max(t, stage1_tasks_max(isolators, !app));
        return stage1_isolator_directives(isolators, !app, t, service);
}

static int add_slice(Stage1Files *files, const char *name, const char *app, const IsolatorList *isolators,
                     Text *service)
{
        _cleanup_text_ Text t = {};
        int r = format_slice(app, isolators, &t, service);

        return r < 0 ? r : stage1_add_unit_text(files, name, &t);
}

int stage1_app_slice_text(const char *app, const IsolatorList *isolators, char **ret)
{
        _cleanup_text_ Text t = {};
        int r = format_slice(app, isolators, &t, NULL);

        return r < 0 ? r : text_take(&t, ret, NULL);
}

static bool needs_start_extension(const AppSettings *s)
{
        return app_settings_restarts(s) && s->start_timeout_usec != UINT64_MAX;
}

/* An app that is restarted too often is not started any more: its unit fails then. */
static void add_start_limit(Text *t, const PodApp *app, const AppSettings *s)
{
        /* If connections start an app, or its health check restarts it, the supervisor counts the starts. */
        bool by_supervisor = stage1_app_is_socket_activated(app->app) || app_settings_health_restarts(s);

        if (s->restart == RESTART_NO && !by_supervisor)
                return;
        if (s->restart_limit == RESTART_LIMIT_NONE || by_supervisor) {
                text_add(t, "StartLimitIntervalSec=0\n");
                return;
        }
        add_time(t, "StartLimitIntervalSec",
                 backoff_interval(s->restart_usec, s->restart_max_usec, s->restart_limit));
        text_addf(t, "StartLimitBurst=%u\n", s->restart_limit + 1);
}

/* What is started along with an app. */
static void add_wants(Text *t, const char *app, const AppSettings *s)
{
        const char *separator = "Wants=";

        if (s->health.command) {
                text_addf(t, "%shealth-%s.timer", separator, app);
                separator = " ";
        }
        if (s->pid.mode == PID_SHARED) {
                text_addf(t, "%s" LAUNCH_PROCESSES_UNIT, separator);
                separator = " ";
        }
        STRV_FOREACH (name, s->after) {
                text_addf(t, "%sstarted-%s.target", separator, *name);
                separator = " ";
        }
        if (streq(separator, " "))
                text_add(t, "\n");
}

static void add_service_head(Text *t, const PodApp *app, const AppSettings *s, const char *slice)
{
        text_addf(t, "[Unit]\nDescription=App %s of image %s\n", pod_app_path_name(app),
                  app->image_name ?: app->image_id);
        text_add(t, "DefaultDependencies=no\n"
                    "Requires=systemd-journald.socket\n"
                    "Conflicts=shutdown.target\n");
        text_addf(t, "Before=shutdown.target started-%s.target\n", app->name);
        text_addf(t, "After=systemd-journald.socket%s",
                  s->pid.mode == PID_SHARED ? " " LAUNCH_PROCESSES_UNIT : "");
        STRV_FOREACH (name, s->after)
                text_addf(t, " started-%s.target", *name);
        /* A nested app is stopped before its parent is. It is removed before, too, so that the name does not keep the unit of the
         * parent loaded. */
        size_t parent = nested_parent_length(app->name);
        if (parent > 0)
                text_addf(t, " app-%.*s.service", (int) parent, app->name);
        text_add(t, "\n");
        add_wants(t, app->name, s);
        add_start_limit(t, app, s);
        /* In another pid namespace than the pod's the launcher says which process becomes the app. */
        text_addf(t, "\n[Service]\nType=%s\nSlice=%s\n", s->pid.mode == PID_POD ? "exec" : "notify", slice);
        /* The launcher asks for time to wait before a restart; status texts of the app, and the time that a call
         * gives it to stop, are forwarded on behalf of its main process. systemd's notify socket itself is in no
         * app's root. */
        text_add(t, "NotifyAccess=exec\n");
}

/* How an app is stopped, and what happens then. */
static void add_service_end(Text *t, const AppSettings *s, const Stage1Options *o)
{
        static const char *const restarts[] = {
                        [RESTART_ON_FAILURE] = "on-failure",
                        [RESTART_ALWAYS] = "always",
        };

        if (s->restart != RESTART_NO) {
                text_addf(t, "Restart=%s\n", restarts[s->restart]);
                add_time(t, "RestartSec", s->restart_usec);
        }
        if (s->stop_signal > 0)
                text_addf(t, "KillSignal=%d\n", s->stop_signal);
        add_time(t, "TimeoutStopSec",
                 s->stop_timeout_usec > 0 ? s->stop_timeout_usec : o->stop_timeout_usec);
        if (s->max_runtime_usec > 0 && s->max_runtime_usec != UINT64_MAX)
                add_time(t, "RuntimeMaxSec", s->max_runtime_usec);
        if (s->oom_group)
                text_add(t, "OOMPolicy=kill\n");
}

void stage1_pid_argument(const PidSetting *pid, Text *t)
{
        static const char *const words[_PID_MODE_MAX] = {
                        [PID_PRIVATE] = LAUNCH_PID_PRIVATE,
                        [PID_SHARED] = LAUNCH_PID_SHARED,
                        [PID_APP] = LAUNCH_PID_APP,
        };

        if (words[pid->mode])
                text_addf(t, " pid=%s%s", words[pid->mode], pid->app ?: "");
}

static void add_launch(Text *t, const char *key, const char *phase, const PodApp *app, const AppSettings *s)
{
        text_addf(t, "%s=/acnspawn/launch %s %s", key, phase, app->name);
        stage1_pid_argument(&s->pid, t);
}

static void add_service_commands(Text *t, const PodApp *app, const AppSettings *s)
{
        if (app_settings_restarts(s))
                text_addf(t, "ExecStartPre=/acnspawn/launch delay %s%s\n", app->name,
                          needs_start_extension(s) ? " extend" : "");
        if (app->app->pre_start) {
                add_launch(t, "ExecStartPre", "pre-start", app, s);
                text_add(t, "\n");
        }
        add_launch(t, "ExecStart", "main", app, s);
        text_add(t, "\n");
        if (app_settings_readiness(s)) {
                add_launch(t, "ExecStartPost", "ready", app, s);
                text_add(t, s->notify ? " notify" : "");
                stage1_health_arguments(&s->health, true, t);
                text_add(t, "\n");
        }
        if (app->app->post_stop) {
                add_launch(t, "ExecStopPost", "post-stop", app, s);
                text_add(t, "\n");
        }
        /* The launcher connects the streams itself, one for output and one for errors. */
        text_add(t, "StandardInput=null\nStandardOutput=null\nStandardError=null\n");
        add_time(t, "TimeoutStartSec", s->start_timeout_usec);
}

bool stage1_is_shared_unit(const char *name)
{
        return startswith(name, "started-") || streq(name, LAUNCH_PROCESSES_UNIT);
}

/* Apps are ordered by a target, not by naming each other: a unit that another one names stays loaded, and when its
 * app is removed and another of that name added, the pod's systemd would go on with the old unit. */
static int add_started_target(Stage1Files *files, const char *app)
{
        _cleanup_free_ char *name = NULL;
        _cleanup_text_ Text t = {};

        if (xasprintf(&name, "started-%s.target", app) < 0)
                return -ENOMEM;
        if (stage1_has_unit(files, name))
                return 0;
        text_addf(&t,
                  "[Unit]\n"
                  "Description=App %s Has Started\n"
                  "DefaultDependencies=no\n"
                  "Conflicts=shutdown.target\n"
                  "Before=shutdown.target\n",
                  app);
        return stage1_add_unit_text(files, name, &t);
}

/* Process 1 of the pid namespace that apps share. It ends after them, and takes them along if it is killed. */
static int add_processes_unit(Stage1Files *files)
{
        if (stage1_has_unit(files, LAUNCH_PROCESSES_UNIT))
                return 0;
        return stage1_add_unit(files, LAUNCH_PROCESSES_UNIT,
                               "[Unit]\n"
                               "Description=Processes that Apps Share\n"
                               "DefaultDependencies=no\n"
                               "IgnoreOnIsolate=yes\n"
                               "Conflicts=shutdown.target\n"
                               "Before=shutdown.target\n"
                               "StartLimitIntervalSec=0\n"
                               "\n"
                               "[Service]\n"
                               "Type=notify\n"
                               "NotifyAccess=exec\n"
                               "Slice=system.slice\n"
                               "ExecStart=/acnspawn/launch processes\n"
                               "StandardInput=null\nStandardOutput=null\nStandardError=null\n"
                               "Restart=always\n"
                               "RestartSec=0\n"
                               "KillSignal=9\n"
                               "OOMScoreAdjust=-250\n");
}

int stage1_generate_app(const PodApp *app, const Stage1Options *o, Stage1Files *files, Error *e)
{
        _cleanup_free_ char *slice = NULL, *unit = NULL;
        _cleanup_app_settings_ AppSettings settings = {};
        _cleanup_text_ Text t = {}, service = {};

        int r = app_settings_read(app, &settings, e);
        if (r >= 0)
                r = stage1_app_slice_name(app->name, &slice);
        if (r >= 0)
                r = stage1_app_unit_name(app->name, &unit);
        if (r >= 0)
                r = add_slice(files, slice, app->name, &app->app->isolators, &service);
        if (r < 0)
                return r;
        add_service_head(&t, app, &settings, slice);
        add_service_commands(&t, app, &settings);
        add_service_end(&t, &settings, o);
        text_add_bytes(&t, service.data, service.size);
        r = stage1_add_unit_text(files, unit, &t);
        STRV_FOREACH (name, settings.after)
                if (r >= 0)
                        r = add_started_target(files, *name);
        if (r >= 0 && settings.pid.mode == PID_SHARED)
                r = add_processes_unit(files);
        return r < 0 ? r : stage1_add_health_units(files, app, &settings, slice, &service);
}

static int add_default_target(Stage1Files *files, const PodManifest *m, const Stage1Options *o)
{
        _cleanup_text_ Text t = {};

        text_addf(&t, "[Unit]\nDescription=Pod %s\nDefaultDependencies=no\nAllowIsolate=yes\n", o->uuid);
        text_add(&t, "Requires=systemd-journald.socket\nWants=systemd-journald.service\n");
        if (o->keeps_slice)
                text_add(&t, "Wants=app.slice\nAfter=app.slice\n");
        /* A unit that connections start is kept loaded, as the others are: systemd knows how it has ended. */
        for (size_t i = 0; i < m->n_apps; i++)
                if (stage1_app_is_socket_activated(m->apps[i]->app))
                        text_addf(&t, "PropagatesReloadTo=app-%s.service\n", m->apps[i]->name);
                else
                        text_addf(&t, "Wants=app-%s.service\nAfter=app-%s.service\n", m->apps[i]->name,
                                  m->apps[i]->name);
        return stage1_add_unit_text(files, "default.target", &t);
}

int stage1_generate_units(const PodManifest *m, const Stage1Options *o, Stage1Files *files, Error *e)
{
        int r = add_common_units(files);

        if (r >= 0)
                r = add_default_target(files, m, o);
        if (r >= 0)
                r = add_slice(files, "app.slice", NULL, &m->isolators, NULL);
        for (size_t i = 0; r >= 0 && i < m->n_apps; i++)
                r = stage1_generate_app(m->apps[i], o, files, e);
        return r;
}
