/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Takes the steps of a plan, one after the other, as a client of the pod's supervisor, which does each of them as a whole
 * or not at all. An app that was added and does not get ready is removed again; one that was replaced the supervisor puts
 * back itself. */

#include <sys/file.h>

#include "stage0/apply/apply-internal.h"
#include "stage1/stage1.h"

const char *apply_change_to_string(ApplyChange c)
{
        static const char *const names[_APPLY_CHANGE_MAX] = {
                        [APPLY_ADD] = "add",       [APPLY_REPLACE] = "replace", [APPLY_LIMIT] = "limit",
                        [APPLY_REMOVE] = "remove", [APPLY_START] = "start",
        };

        return names[c];
}

const char *apply_result_to_string(ApplyResult r)
{
        static const char *const names[_APPLY_RESULT_MAX] = {
                        [APPLY_PLANNED] = "planned", [APPLY_DONE] = "done",       [APPLY_UNDONE] = "undone",
                        [APPLY_FAILED] = "failed",   [APPLY_SKIPPED] = "skipped",
        };

        return names[r];
}

typedef struct Applier {
        Pod *pod;
        AcnPod *connection;
        const PodRequest *request;
        HostFeatures features;
} Applier;

/* --- What is asked of the supervisor ------------------------------------------------------------------- */

/* By a mount of its own, or by a mount point of its image: the pod that was prepared has both. */
static bool is_mounted(const PodApp *app, const char *volume)
{
        for (size_t i = 0; i < app->n_mounts; i++)
                if (streq_ptr(app->mounts[i].volume, volume))
                        return true;
        return false;
}

/* Volumes that the app mounts and the pod does not have; VOLUMES has room for all. */
static size_t pick_volumes(const Applier *a, const PodApp *app, Volume *volumes)
{
        const PodRequest *q = a->request;
        size_t n = 0;

        for (size_t i = 0; i < q->n_volumes; i++)
                if (is_mounted(app, q->volumes[i].name) &&
                    !pod_manifest_find_volume(a->pod->manifest, q->volumes[i].name))
                        volumes[n++] = q->volumes[i];
        return n;
}

/* The app of the step alone. All of it is lent. */
static PodRequest request_of(const Applier *a, const ApplyStep *s, Volume *volumes)
{
        return (PodRequest){.apps = &a->request->apps[s->index],
                            .n_apps = 1,
                            .volumes = volumes,
                            .n_volumes = pick_volumes(a, s->wanted, volumes),
                            .verify = a->request->verify};
}

/* --- Steps --------------------------------------------------------------------------------------------- */

static int take_back(Applier *a, ApplyStep *s, int r, Error *e)
{
        _cleanup_error_ Error second = ERROR_NULL;
        _cleanup_free_ char *reason = e->hint ? strdup(e->hint) : NULL; /* why it did not start */
        const char *before = reason ?: "", *space = reason ? " " : "";

        if (acn_remove_app(a->connection, s->app, true, UINT64_MAX, &second) < 0)
                return error_hint(e, r, "%s%sIt cannot be removed again: %s", before, space,
                                  second.message ?: "for an unknown reason");
        s->result = APPLY_UNDONE;
        return error_hint(e, r, "%s%sApp %s was removed again.", before, space, s->app);
}

/* An app that is started by connections is not started here. */
static bool starts(const Applier *a, const char *app)
{
        const PodApp *added =
                        pod_load(a->pod, NULL) >= 0 ? pod_manifest_find_app(a->pod->manifest, app) : NULL;

        return !added || !stage1_app_is_socket_activated(added->app);
}

/* Another call was faster; what it has made of the app is its own. */
static bool is_of_others(int r)
{
        return r == -EALREADY || r == -EBUSY || r == -ENOENT;
}

/* 0 as well if another call has started the app. */
static int note_start(int r, Error *e)
{
        if (r != -EALREADY)
                return r;
        error_done(e);
        return 0;
}

/* A step before this one may have brought volumes. */
static int add(Applier *a, ApplyStep *s, Error *e)
{
        _cleanup_free_ Volume *volumes = calloc(a->request->n_volumes + 1, sizeof(Volume));
        _cleanup_free_ char *name = NULL;

        if (!volumes)
                return error_oom(e);
        int r = pod_load(a->pod, e);
        if (r < 0)
                return r;
        PodRequest q = request_of(a, s, volumes);
        r = acn_add_app(a->connection, &q, s->image_id, &name, &s->warnings, e);
        if (r < 0 || !starts(a, s->app))
                return r;
        r = acn_start_app_tentatively(a->connection, s->app, e);
        if (is_of_others(r))
                return note_start(r == -ENOENT ? -EBUSY : r, e);
        return r < 0 ? take_back(a, s, r, e) : 0;
}

static int replace(Applier *a, ApplyStep *s, Error *e)
{
        _cleanup_free_ Volume *volumes = calloc(a->request->n_volumes + 1, sizeof(Volume));

        if (!volumes)
                return error_oom(e);
        PodRequest q = request_of(a, s, volumes);
        const AcnReplaceOptions o = {.reference = q.apps[0].reference,
                                     .image_id = s->image_id,
                                     .definition = &q,
                                     .ready_timeout_usec = UINT64_MAX};
        bool replaced;

        int r = acn_replace_app(a->connection, s->app, &o, &replaced, &s->warnings, e);
        if (r == -ECONNABORTED)
                s->result = APPLY_UNDONE;
        return r;
}

/* Limits that are the same are set once more. */
static int change_limits(Applier *a, ApplyStep *s, Error *e)
{
        const IsolatorList *all = &a->request->apps[s->index].isolators;
        _cleanup_free_ Isolator *items = calloc(all->n + 1, sizeof(Isolator));
        IsolatorList limits = {.items = items};

        if (!items)
                return error_oom(e);
        for (size_t i = 0; i < all->n; i++)
                if (is_live_limit(all->items[i].type, &a->features))
                        items[limits.n++] = all->items[i];
        return acn_update_app(a->connection, s->app, &limits, e);
}

static int remove_app(Applier *a, ApplyStep *s, Error *e)
{
        return acn_remove_app(a->connection, s->app, true, UINT64_MAX, e);
}

/* It stays if that fails, as it is the app of another call. */
static int start(Applier *a, ApplyStep *s, Error *e)
{
        return note_start(acn_start_app(a->connection, s->app, e), e);
}

/* Whether another call has added the app or removed it since the plan was made. */
static bool is_overtaken(const Applier *a, const ApplyStep *s, int r)
{
        if ((r != -ENOENT && r != -EEXIST) || pod_load(a->pod, NULL) < 0)
                return false;
        bool exists = pod_manifest_find_app(a->pod->manifest, s->app);
        return exists == (s->change == APPLY_ADD);
}

static int take_step(Applier *a, ApplyStep *s, Error *e)
{
        static int (*const functions[_APPLY_CHANGE_MAX])(Applier * a, ApplyStep * s, Error * e) = {
                        [APPLY_ADD] = add,
                        [APPLY_REPLACE] = replace,
                        [APPLY_LIMIT] = change_limits,
                        [APPLY_REMOVE] = remove_app,
                        [APPLY_START] = start,
        };

        s->result = APPLY_FAILED;
        int r = functions[s->change](a, s, e);
        if (is_overtaken(a, s, r))
                return -EBUSY;
        if (r >= 0)
                s->result = APPLY_DONE;
        return r;
}

#define LOCK_FILE "applying"

/* The process that has the lock, as it has noted itself. On a full disk it could not. */
static void tell_wait(const Pod *p)
{
        _cleanup_free_ char *text = NULL;
        uint32_t pid = 0;
        char process[32] = "";

        if (read_file_at(p->dir_fd, LOCK_FILE, 16, &text, NULL) >= 0 && parse_u32(text, &pid) >= 0)
                snprintf(process, sizeof(process), ", process %u", pid);
        operation_message(pod_operation(p), LOG_LEVEL_INFO,
                          "Waiting for another 'acnspawn apply' of pod %s%s, which is changing the pod.",
                          pod_display_name(p), process);
}

static void note_process(const Pod *p)
{
        _cleanup_close_ int fd = openat(p->dir_fd, LOCK_FILE, O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC);
        char pid[16];

        snprintf(pid, sizeof(pid), "%d", (int) getpid());
        if (fd >= 0)
                (void) loop_write(fd, pid, strlen(pid));
}

int apply_lock(Pod *p, int *ret_fd, Error *e)
{
        int fd = lock_file_at(p->dir_fd, LOCK_FILE, LOCK_EX | LOCK_NB, NULL, e);

        if (fd == -EWOULDBLOCK) {
                tell_wait(p);
                fd = lock_file_at(p->dir_fd, LOCK_FILE, LOCK_EX, pod_operation(p), e);
        }
        if (fd < 0)
                return operation_ended(fd) ? fd
                                           : error_set_errno(e, fd, "Cannot lock pod %s for its changes",
                                                             pod_display_name(p));
        note_process(p);
        *ret_fd = fd;
        return 0;
}

int apply_plan_run(ApplyPlan *plan, Pod *p, const PodRequest *q, Error *e)
{
        _cleanup_(acn_disconnectp) AcnPod *connection = NULL;
        int r = plan->n > 0 ? acn_connect(p, &connection, e) : 0;
        Applier a = {.pod = p, .connection = connection, .request = q};

        if (r >= 0 && plan->n > 0)
                r = apply_features(p, &a.features, e);
        for (size_t i = 0; i < plan->n; i++)
                if (r < 0)
                        plan->steps[i].result = APPLY_SKIPPED;
                else
                        r = take_step(&a, &plan->steps[i], e);
        return r;
}
