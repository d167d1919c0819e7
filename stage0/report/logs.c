/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Shows the output of the apps of a pod, up to now or until the pod has ended.
 *
 * It is read from the pod's journal; of apps that have none there (--log=journal) from the journal of the host; and if
 * this host has none, or of apps without any journal, from the log file. */

#include <poll.h>

#include "stage0/report/report-internal.h"

/* The end of the pod is detected by its lock; the journal causes wake-ups for everything else. */
#define END_CHECK_MSEC 250

bool logs_have_ended(Pod *p, const LogOptions *o, uint64_t timeout_usec)
{
        struct pollfd fd = {.fd = o->end_fd, .events = POLLIN};

        if (o->end_fd > 0 ? poll(&fd, 1, (int) (timeout_usec / 1000)) > 0
                          : pod_wait(p, timeout_usec, NULL) >= 0)
                return true;
        return o->until_usec > 0 && now_usec(CLOCK_REALTIME) > o->until_usec;
}

static int follow(Pod *p, LogSources *sources, const OutputOptions *output, const LogOptions *o, Error *e)
{
        for (;;) {
                bool ended = logs_have_ended(p, o, 0);

                int r = log_sources_wait(sources, o->end_fd, ended ? 0 : END_CHECK_MSEC, e);
                if (r >= 0)
                        r = output_all(sources, output, e);
                if (r < 0 || ended)
                        return r;
        }
}

static int refuse_pod(const Pod *p, Error *e)
{
        int r = error_set(e, -ENODATA, "Pod %s has not run: it is %s", pod_display_name(p),
                          pod_state_to_string(p->state));

        return p->state == POD_PREPARED ? error_hint(e, r, "'acnspawn run %s' runs it.", pod_display_name(p))
                                        : r;
}

/* Which journals have what is to be shown. */
typedef struct Places {
        const char **host_apps; /* apps whose output is only in the journal of the host */
        size_t n_host_apps;
        bool has_host, shown;
} Places;

static const char *reason(const Places *places, int target)
{
        return target == LOG_TARGET_JOURNAL && !places->has_host
                               ? "is in the journal of the host, and this host has none"
                               : "is not in the journal";
}

/* Output that is not in a journal: it is in the log file, or lost. */
static int show_log_file(Pod *p, const PodApp *app, const AppSettings *s, const Places *places,
                         const LogOptions *o, const OutputOptions *output, Error *e)
{
        if (!s->log_file.path && s->log == LOG_TARGET_JOURNAL)
                return error_set(e, -ENODATA,
                                 "The output of app %s of pod %s is in the journal of the host, and this "
                                 "host has none in /var/log/journal or /run/log/journal",
                                 app->name, pod_display_name(p));
        if (!s->log_file.path)
                return error_set(e, -ENODATA,
                                 "App %s of pod %s has no logs: it has neither the journal nor a log file",
                                 app->name, pod_display_name(p));
        log_info("The output of app %s %s: this is its log file %s.", app->name, reason(places, s->log),
                 s->log_file.path);
        return log_file_show(p, app->name, &s->log_file, o, output, e);
}

static void point_to_log_file(const Pod *p, const PodApp *app, const AppSettings *s, const Places *places)
{
        const char *why = reason(places, s->log);

        if (s->log_file.path)
                log_info("The output of app %s %s: 'acnspawn logs --app=%s %s' shows its log file %s.",
                         app->name, why, app->name, pod_display_name(p), s->log_file.path);
        else
                log_info("The output of app %s %s, and it has no log file.", app->name, why);
}

/* Shows the log file of APP if no journal has its output. */
static int find_place(Pod *p, const PodApp *app, const LogOptions *o, const OutputOptions *output,
                      Places *places, Error *e)
{
        _cleanup_app_settings_ AppSettings s = {};

        int r = app_settings_read(app, &s, NULL);
        if (r == -ENOMEM)
                return error_oom(e);
        if (r < 0 || log_target_has_pod(s.log)) /* versions with other settings always used the journal */
                return 0;
        if (s.log == LOG_TARGET_JOURNAL && places->has_host) {
                places->host_apps[places->n_host_apps++] = app->name;
                return 0;
        }
        if (o->app || p->manifest->n_apps == 1) {
                places->shown = true;
                return show_log_file(p, app, &s, places, o, output, e);
        }
        point_to_log_file(p, app, &s, places);
        return 0;
}

static int find_places(Pod *p, const LogOptions *o, const OutputOptions *output, Places *places, Error *e)
{
        int r = 0;

        places->has_host = journal_of_host_exists();
        places->host_apps = calloc(p->manifest->n_apps + 1, sizeof(char *));
        if (!places->host_apps)
                return error_oom(e);
        for (size_t i = 0; r >= 0 && i < p->manifest->n_apps; i++)
                if (!o->app || streq(o->app, p->manifest->apps[i]->name))
                        r = find_place(p, p->manifest->apps[i], o, output, places, e);
        return r;
}

static int show_journals(Pod *p, const LogOptions *o, const OutputOptions *output, const Places *places,
                         Error *e)
{
        const JournalQuery query = {
                        .app = o->app,
                        .uuid = p->uuid,
                        .host_apps = places->host_apps,
                        .n_host_apps = places->n_host_apps,
                        .since_usec = o->since_usec,
                        .until_usec = o->until_usec,
                        .lines = o->lines,
                        .follow = o->follow && p->state == POD_RUNNING,
        };
        _cleanup_(log_sources_done) LogSources sources = {};

        /* That of the pod has the lines of apps that are added. */
        int r = log_sources_open(&sources, p, &query, !o->app || places->n_host_apps == 0, e);
        if (r >= 0)
                r = output_all(&sources, output, e);
        if (r < 0)
                return r;
        return query.follow ? follow(p, &sources, output, o, e) : 0;
}

int pod_logs(Pod *p, const LogOptions *options, Error *e)
{
        LogOptions own = *options, *o = &own;
        const PodApp *app = o->app ? pod_manifest_find_app(p->manifest, o->app) : NULL;
        OutputState state = {};
        const OutputOptions output = {.prefix = o->prefix,
                                      .json = o->json,
                                      .timestamps = o->timestamps,
                                      .raw = o->raw,
                                      .state = &state};
        Places places = {};

        if (o->app && !app)
                return error_set(e, -ENOENT, "Pod %s has no app %s", pod_display_name(p), o->app);
        o->app = app ? app->name : NULL; /* of a nested app its path was given */
        if (p->state != POD_RUNNING && p->state != POD_EXITED)
                return refuse_pod(p, e);
        int r = find_places(p, o, &output, &places, e);
        if (r >= 0 && !places.shown)
                r = show_journals(p, o, &output, &places, e);
        free(places.host_apps);
        int k = output_end_line(&output);
        if (k < 0 && r >= 0)
                r = error_set_errno(e, k, "Cannot show the output of the apps");
        return r < 0 ? r : 0;
}
