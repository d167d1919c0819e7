/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Shows the output of the apps of a pod, up to now or until the pod has ended. */

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

static int follow(Pod *p, JournalReader *reader, const OutputOptions *output, const LogOptions *o, Error *e)
{
        for (;;) {
                bool ended = logs_have_ended(p, o, 0);

                int r = journal_reader_wait(reader, o->end_fd, ended ? 0 : END_CHECK_MSEC, e);
                if (r >= 0)
                        r = output_all(reader, output, e);
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

/* Output that is not in the journal: it is in the log file, or lost. */
static int show_log_file(Pod *p, const PodApp *app, const LogFileSettings *f, const LogOptions *o,
                         const OutputOptions *output, Error *e)
{
        if (!f->path)
                return error_set(e, -ENODATA,
                                 "App %s of pod %s has no logs: it has neither the journal nor a log file",
                                 app->name, pod_display_name(p));
        log_info("The output of app %s is not in the journal: this is its log file %s.", app->name, f->path);
        return log_file_show(p, app->name, f, o, output, e);
}

static void point_to_log_file(const Pod *p, const PodApp *app, const LogFileSettings *f)
{
        if (f->path)
                log_info("The output of app %s is not in the journal: 'acnspawn logs --app=%s %s' shows its "
                         "log "
                         "file %s.",
                         app->name, app->name, pod_display_name(p), f->path);
        else
                log_info("The output of app %s is not in the journal, and it has no log file.", app->name);
}

/* 1: the requested app is not in the journal, and was shown. */
static int show_unjournaled(Pod *p, const LogOptions *o, const OutputOptions *output, Error *e)
{
        for (size_t i = 0; i < p->manifest->n_apps; i++) {
                const PodApp *app = p->manifest->apps[i];
                _cleanup_app_settings_ AppSettings s = {};

                if (o->app && !streq(o->app, app->name))
                        continue;
                int r = app_settings_read(app, &s, NULL);
                if (r == -ENOMEM)
                        return error_oom(e);
                if (r < 0 || log_target_has_pod(s.log)) /* versions with other settings always used the journal */
                        continue;
                if (o->app || p->manifest->n_apps == 1) {
                        r = show_log_file(p, app, &s.log_file, o, output, e);
                        return r < 0 ? r : 1;
                }
                point_to_log_file(p, app, &s.log_file);
        }
        return 0;
}

int pod_logs(Pod *p, const LogOptions *o, Error *e)
{
        const OutputOptions output = {
                        .prefix = o->prefix, .json = o->json, .timestamps = o->timestamps, .raw = o->raw};
        const JournalQuery query = {
                        .app = o->app,
                        .since_usec = o->since_usec,
                        .until_usec = o->until_usec,
                        .lines = o->lines,
                        .follow = o->follow && p->state == POD_RUNNING,
        };
        _cleanup_(journal_reader_freep) JournalReader *reader = NULL;

        if (o->app && !pod_manifest_find_app(p->manifest, o->app))
                return error_set(e, -ENOENT, "Pod %s has no app %s", pod_display_name(p), o->app);
        if (p->state != POD_RUNNING && p->state != POD_EXITED)
                return refuse_pod(p, e);
        int r = show_unjournaled(p, o, &output, e);
        if (r != 0)
                return r < 0 ? r : 0;
        r = journal_reader_new(p, &query, &reader, e);
        if (r >= 0)
                r = output_all(reader, &output, e);
        if (r < 0)
                return r;
        return query.follow ? follow(p, reader, &output, o, e) : 0;
}
