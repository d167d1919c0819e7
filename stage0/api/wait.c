/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Waiting for the end of a pod, or of some of its apps.
 *
 * First the state of a running pod is read, and then its events from that state on. If the supervisor was
 * killed, or is of an earlier version, the rest is read from the records of the pod, as for a pod that has
 * ended before. A supervisor that removes its pod has reported everything before that. */

#include "stage0/api/api-internal.h"

/* The time beyond that of the wait that a busy supervisor has to say how its apps are. */
#define LATE_ANSWER_USEC (5 * UINT64_C(1000000))

typedef struct Waiter {
        Pod *pod;
        char *const *apps;
        int *codes; /* exit statuses of APPS; -1: not known to have ended */
        size_t n;
        int pod_status; /* -1: not known */
        uint64_t deadline;
} Waiter;

static int too_late(const Waiter *w, Error *e)
{
        const char *pod = pod_display_name(w->pod);

        for (size_t i = 0; i < w->n; i++)
                if (w->codes[i] < 0)
                        return error_set(e, -ETIME, "App %s of pod %s has not ended in time", w->apps[i],
                                         pod);
        return error_set(e, -ETIME, "Pod %s has not ended in time", pod);
}

static bool is_over(const Waiter *w)
{
        for (size_t i = 0; i < w->n; i++)
                if (w->codes[i] < 0)
                        return false;
        return w->n > 0 || w->pod_status >= 0;
}

/* An app that is started again while others are waited for counts as ended. */
static void note_app(Waiter *w, const AcnApp *app)
{
        for (size_t i = 0; i < w->n; i++)
                if (app->state == ACN_APP_EXITED && streq_ptr(app->name, w->apps[i]))
                        w->codes[i] = app->exit_code;
}

/* An app that is removed before it ran never ends. */
static int check_removed(const Waiter *w, const AcnApp *app, Error *e)
{
        for (size_t i = 0; i < w->n; i++)
                if (app->state == ACN_APP_REMOVED && streq_ptr(app->name, w->apps[i]) && w->codes[i] < 0)
                        return error_set(e, -ENOENT, "App %s of pod %s was removed before it ran",
                                         w->apps[i], pod_display_name(w->pod));
        return 0;
}

/* --- Running pods -------------------------------------------------------------------------------------- */

static int check_apps(const Waiter *w, const AcnDescription *d, Error *e)
{
        for (size_t i = 0; i < w->n; i++) {
                bool found = false;

                for (size_t k = 0; !found && k < d->n_apps; k++)
                        found = streq(d->apps[k].name, w->apps[i]);
                if (!found)
                        return acn_no_such_app(w->pod, w->apps[i], d, e);
        }
        return 0;
}

static int begin(Waiter *w, AcnPod *a, Error *e)
{
        _cleanup_(acn_description_done) AcnDescription d = {};
        uint64_t left = deadline_left(w->deadline);

        if (left < a->answer_usec)
                a->answer_usec = MIN(a->answer_usec, left + LATE_ANSWER_USEC);
        int r = acn_describe(a, &d, e);
        if (r >= 0)
                r = check_apps(w, &d, e);
        if (r < 0)
                return r;
        for (size_t i = 0; i < d.n_apps; i++)
                note_app(w, &d.apps[i]);
        return is_over(w) ? 0 : acn_monitor(a, d.sequence, e);
}

/* 0: the events have ended, or all statuses are known. */
static int follow(Waiter *w, AcnPod *a, Error *e)
{
        while (!is_over(w)) {
                _cleanup_(acn_event_done) AcnEvent event = {};

                int r = acn_monitor_next(a, deadline_left(w->deadline), &event, e);
                if (r <= 0)
                        return r == -ETIMEDOUT ? too_late(w, e) : r;
                note_app(w, &event.app);
                r = check_removed(w, &event.app, e);
                if (r < 0)
                        return r;
                if (event.state == ACN_POD_EXITED && !event.app.name)
                        w->pod_status = event.exit_status;
        }
        return 0;
}

/* 1: it has ended meanwhile, and its records are to be read. */
static int wait_for_events(Waiter *w, Error *e)
{
        _cleanup_(acn_disconnectp) AcnPod *a = NULL;

        int r = acn_connect(w->pod, &a, e);
        if (r >= 0)
                r = begin(w, a, e);
        if (r >= 0)
                r = follow(w, a, e);
        if (r == -ECONNRESET || r == -ESRCH || (r == -EOPNOTSUPP && w->n == 0)) {
                error_done(e);
                return 1;
        }
        return r < 0 ? r : !is_over(w);
}

/* --- Pods that have ended ------------------------------------------------------------------------------ */

static int find_in_manifest(const Pod *p, const char *name, size_t *ret, Error *e)
{
        _cleanup_(acn_description_done) AcnDescription d = {};
        const PodManifest *m = p->manifest;
        size_t n = m ? m->n_apps : 0;

        d.apps = calloc(n + 1, sizeof(AcnApp));
        if (!d.apps)
                return error_oom(e);
        for (; d.n_apps < n; d.n_apps++) {
                const char *own = m->apps[d.n_apps]->name;
                if (streq(own, name)) {
                        *ret = d.n_apps;
                        return 0;
                }
                d.apps[d.n_apps].name = strdup(own);
                if (!d.apps[d.n_apps].name)
                        return error_oom(e);
        }
        return acn_no_such_app(p, name, &d, e);
}

static int read_apps(Waiter *w, Pod *p, const AppStatus *statuses, Error *e)
{
        for (size_t i = 0; i < w->n; i++) {
                size_t k = 0;

                int r = find_in_manifest(p, w->apps[i], &k, e);
                if (r < 0)
                        return r;
                if (w->codes[i] < 0)
                        w->codes[i] = app_status_to_exit_code(&statuses[k]);
        }
        return 0;
}

static int read_records(Waiter *w, Pod *p, Error *e)
{
        AppStatus *statuses = NULL;
        PodResult result = {};

        if (!p->manifest)
                return error_set(e, -ENODATA,
                                 "How pod %s has ended is not known: its manifest cannot be read",
                                 pod_display_name(p));
        int r = pod_read_statuses(p, true, &statuses);
        if (r < 0)
                return error_oom(e);
        /* A supervisor that was killed has not written a result. */
        w->pod_status = pod_result_read(p, &result) >= 0 ? result.exit_status
                                                         : pod_exit_status(p->config.exit_policy, false,
                                                                           statuses, p->manifest->n_apps);
        r = read_apps(w, p, statuses, e);
        app_statuses_free(statuses, p->manifest->n_apps);
        return r;
}

static int wait_for_records(Waiter *w, Error *e)
{
        _cleanup_(pod_freep) Pod *again = NULL;

        int r = pod_wait(w->pod, deadline_left(w->deadline), e);
        if (r < 0)
                return r == -ETIME ? too_late(w, e) : r;
        r = pod_open(w->pod->store, w->pod->uuid, &again, e);
        if (r == -ENOENT)
                return error_set(e, -ENODATA,
                                 "Pod %s has ended and was removed: its exit status is not known",
                                 pod_display_name(w->pod));
        return r < 0 ? r : read_records(w, again, e);
}

/* --- Both ---------------------------------------------------------------------------------------------- */

static int wait_for_end(Waiter *w, Error *e)
{
        if (w->pod->state == POD_EXITED)
                return read_records(w, w->pod, e);
        if (w->pod->state != POD_RUNNING)
                return pod_not_running(w->pod, e);
        int r = wait_for_events(w, e);
        return r > 0 ? wait_for_records(w, e) : r;
}

static int status_of(const Waiter *w)
{
        for (size_t i = 0; i < w->n; i++)
                if (w->codes[i] > 0)
                        return w->codes[i];
        return w->n > 0 ? 0 : w->pod_status;
}

int acn_wait(Pod *p, char *const *apps, uint64_t timeout_usec, int *ret_status, Error *e)
{
        size_t n = strv_length(apps);
        _cleanup_free_ int *codes = malloc((n + 1) * sizeof(int));
        Waiter w = {.pod = p,
                    .apps = apps,
                    .codes = codes,
                    .n = n,
                    .pod_status = -1,
                    .deadline = deadline_after(timeout_usec)};

        if (!codes)
                return error_oom(e);
        for (size_t i = 0; i < n; i++)
                codes[i] = -1;
        int r = wait_for_end(&w, e);
        if (r < 0)
                return r;
        *ret_status = status_of(&w);
        return 0;
}
