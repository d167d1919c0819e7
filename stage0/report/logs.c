/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Showing what the apps of a pod wrote, as far as it goes or until the pod has ended. */

#include <poll.h>

#include "stage0/report/report-internal.h"

/* The end of the pod is seen by its lock; the journal wakes us for everything else. */
#define END_CHECK_MSEC 250

static int follow(Pod *p, JournalReader *reader, const OutputOptions *o, uint64_t until_usec, Error *e)
{
        for (;;) {
                struct pollfd fd = {.fd = journal_reader_fd(reader), .events = POLLIN};
                bool ended = pod_wait(p, 0, NULL) >= 0 ||
                             (until_usec > 0 && now_usec(CLOCK_REALTIME) > until_usec);

                int r = poll(&fd, 1, ended ? 0 : END_CHECK_MSEC);
                if (r < 0 && errno != EINTR)
                        return error_set_errno(e, -errno, "Cannot wait for the journal of pod %s", p->uuid);
                r = journal_reader_process(reader);
                if (r >= 0)
                        r = output_all(reader, o);
                if (r < 0 || ended)
                        return r < 0 ? error_set_errno(e, r, "Cannot show the output of pod %s", p->uuid)
                                     : 0;
        }
}

int pod_logs(Pod *p, const LogOptions *o, Error *e)
{
        OutputOptions output = {.prefix = o->prefix, .json = o->json, .timestamps = o->timestamps};
        _cleanup_(journal_reader_freep) JournalReader *reader = NULL;

        if (o->app && !pod_manifest_find_app(p->manifest, o->app))
                return error_set(e, -ENOENT, "Pod %s has no app %s", p->uuid, o->app);
        if (p->state != POD_RUNNING && p->state != POD_EXITED) {
                int r = error_set(e, -ENODATA, "Pod %s has not run: it is %s", p->uuid,
                                  pod_state_to_string(p->state));
                return p->state == POD_PREPARED ? error_hint(e, r, "'acnspawn run %s' runs it.",
                                                             p->config.name ?: p->uuid)
                                                : r;
        }
        int r = journal_reader_new(p, &reader, e);
        if (r < 0)
                return r;
        if (o->app)
                r = journal_reader_set_app(reader, o->app);
        if (r >= 0)
                r = journal_reader_set_range(reader, o->since_usec, o->until_usec);
        if (r >= 0)
                r = journal_reader_skip_to_last(reader, o->lines);
        if (r >= 0)
                r = output_all(reader, &output);
        if (r < 0)
                return error_set_errno(e, r, "Cannot show the output of pod %s", p->uuid);
        return o->follow && p->state == POD_RUNNING ? follow(p, reader, &output, o->until_usec, e) : 0;
}
