/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Showing what the apps of a pod wrote, as far as it goes or until the pod has ended. */

#include "stage0/report/report-internal.h"

/* The end of the pod is seen by its lock; the journal wakes us for everything else. */
#define END_CHECK_MSEC 250

static int follow(Pod *p, JournalReader *reader, const OutputOptions *o, uint64_t until_usec, Error *e)
{
        for (;;) {
                bool ended = pod_wait(p, 0, NULL) >= 0 ||
                             (until_usec > 0 && now_usec(CLOCK_REALTIME) > until_usec);

                int r = journal_reader_wait(reader, ended ? 0 : END_CHECK_MSEC, e);
                if (r >= 0)
                        r = output_all(reader, o, e);
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
        int r = journal_reader_new(p, &query, &reader, e);
        if (r >= 0)
                r = output_all(reader, &output, e);
        if (r < 0)
                return r;
        return query.follow ? follow(p, reader, &output, o->until_usec, e) : 0;
}
