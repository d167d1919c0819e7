/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Removes unused pods, partly unpacked images, layers and downloads.
 *
 * No state is kept for that: whether something can be removed follows from its location, its age, and
 * whether its lock can be taken. So any number of collectors may run at the same time, and concurrently with
 * all other operations, and if one of them is killed, the next one continues. A failed removal is repeated
 * the next time.
 */

#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "prepare/collect/collect-internal.h"

#define SHORT_SHARE 10U                              /* less than one of so many blocks is free: */
#define SHORT_AGE_USEC (10 * 60 * UINT64_C(1000000)) /* parts of downloads are removed after so long */

typedef struct Collector {
        Store *store;
        const GcOptions *options;
        uint64_t downloads_age_usec;
        int result; /* of the first failure; its error is kept */
        Error *error;
} Collector;

static void note_failure(Collector *c, int r, Error *e)
{
        if (c->result >= 0) {
                c->result = r;
                if (c->error) {
                        error_done(c->error);
                        *c->error = *e;
                        *e = ERROR_NULL;
                }
        }
}

static void note_removed(const Collector *c, const GcItem *item)
{
        if (c->options->removed)
                c->options->removed(item, c->options->userdata);
}

static bool is_selected(const Collector *c, const char *kind, const char *id)
{
        return !c->options->selected || c->options->selected(kind, id, c->options->userdata);
}

static uint64_t measure(const Collector *c, int dir_fd, const char *name)
{
        bool measured = c->options->removed && !c->options->unmeasured;

        return measured ? disk_usage_at(dir_fd, name, c->store->operation) : 0;
}

/* --- Pods ---------------------------------------------------------------------------------------------- */

static bool is_older(uint64_t since, uint64_t age)
{
        uint64_t now = now_usec(CLOCK_REALTIME);

        return now >= since && now - since >= age;
}

void kept_pods_done(KeptPods *k)
{
        strv_free(k->names);
        *k = (KeptPods){};
}

bool kept_pods_have(const KeptPods *k, const Pod *p)
{
        if (!k || k->all)
                return k;
        STRV_FOREACH (name, k->names)
                if (streq_ptr(p->config.name, *name) ||
                    (strlen(*name) >= KEPT_PREFIX_MIN && strncasecmp(p->uuid, *name, strlen(*name)) == 0))
                        return true;
        return false;
}

/* The owner of a pod decides how long it is kept, except for a pod of an earlier boot whose files a loss of power has
 * emptied. */
static bool is_emptied(const Pod *p)
{
        return pod_is_of_former_boot(p) && (!p->config.owner || !p->manifest);
}

static bool is_due(const Collector *c, const Pod *p)
{
        bool owned = p->config.owner || pod_is_of_former_boot(p);

        switch (p->state) {
        case POD_EMBRYO: /* if it can be locked */
        case POD_ABORTED_PREPARE:
        case POD_GARBAGE:
                return true;
        case POD_PREPARED:
                if (owned)
                        return pod_is_of_former_boot(p);
                return c->options->expire_prepared_usec != UINT64_MAX &&
                       !kept_pods_have(c->options->kept, p) &&
                       pod_created_age_usec(p) >= c->options->expire_prepared_usec;
        case POD_EXITED:
                if (owned)
                        return is_emptied(p);
                return !kept_pods_have(c->options->kept, p) &&
                       pod_ended_age_usec(p) >= c->options->grace_usec;
        default:
                return false;
        }
}

/* Collectors do not wait for a lock: its holder may need the pod. */
static int lock_without_waiting(Pod *p, Error *e)
{
        return pod_lock(p, false, e);
}

/* A pod whose process was killed is moved to "exited", and the time when it ended is recorded. */
static int mark_exited(Collector *c, Pod *p, Error *e)
{
        if (c->options->dry_run || p->state != POD_EXITED || p->place != POD_RUNNING)
                return 0;
        int r = lock_without_waiting(p, e);
        if (r < 0 || p->place != POD_RUNNING)
                return r;
        return pod_end_run(p, e);
}

/* 1: it is to be removed, and is locked. 0: it stays. A start waits for the lock only for some seconds, so its size is measured before. */
static int lock_if_due(Collector *c, Pod *p, uint64_t *ret_size, Error *e)
{
        if (!is_due(c, p) || !is_selected(c, "pod", p->uuid))
                return 0;
        *ret_size = measure(c, p->dir_fd, ".");
        if (c->options->dry_run) /* an embryo is most often about to be prepared */
                return p->state != POD_EMBRYO;
        int r = lock_without_waiting(p, e);
        if (r >= 0 && p->place == POD_EXITED)
                r = pod_exclude_readers(p, false, e);
        return r < 0 ? r : is_due(c, p); /* its state may have changed meanwhile */
}

static int remove_pod(Collector *c, Pod *p, uint64_t size, Error *e)
{
        const char *was = pod_state_to_string(p->state);
        int r = 0;

        if (!c->options->dry_run && c->options->release)
                r = c->options->release(p, c->options->userdata, e);
        if (r >= 0 && !c->options->dry_run)
                r = pod_remove(p, e);
        if (r >= 0)
                note_removed(c, &(GcItem){.kind = "pod",
                                          .id = p->uuid,
                                          .name = p->config.name,
                                          .state = was,
                                          .size = size});
        return r;
}

/* Only the files of a pod say whether it has an owner. Pods of other states are removed regardless of that, or stay. */
static int read_again(Pod *p, Error *e)
{
        if (!p->unreadable || (p->state != POD_PREPARED && p->state != POD_EXITED))
                return 0;
        int r = pod_load(p, e);
        if (p->unreadable)
                return r;
        error_done(e);
        return 0;
}

static void collect_pod(Collector *c, const char *uuid)
{
        _cleanup_(pod_freep) Pod *p = NULL;
        _cleanup_error_ Error e = ERROR_NULL;
        uint64_t size = 0;

        int r = pod_open(c->store, uuid, &p, &e);
        if (r >= 0)
                r = read_again(p, &e);
        if (r >= 0)
                r = mark_exited(c, p, &e);
        if (r >= 0)
                r = lock_if_due(c, p, &size, &e);
        if (r == -ENOENT || r == -EBUSY)
                return; /* removed, or in use by another process */
        if (r > 0)
                r = remove_pod(c, p, size, &e);
        if (r < 0)
                note_failure(c, r, &e);
}

static void collect_pods(Collector *c)
{
        _cleanup_strv_free_ char **uuids = NULL;
        _cleanup_error_ Error e = ERROR_NULL;

        int r = pod_list_uuids(c->store, &uuids, &e);
        if (r < 0)
                note_failure(c, r, &e);
        STRV_FOREACH (uuid, uuids)
                collect_pod(c, *uuid);
}

/* --- Temporary directories
 * ------------------------------------------------------------------------------------------ */

/* Tries to lock the file or directory; on success *RET has the lock. */
static int lock_temporary(int tmp_fd, const char *name, int *ret)
{
        _cleanup_close_ int fd =
                        openat(tmp_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);

        if (fd < 0)
                return errno == ELOOP || errno == ENXIO ? 0 : -errno; /* not created by acnspawn */
        if (flock(fd, LOCK_EX | LOCK_NB) < 0)
                return -errno;
        *ret = TAKE_FD(fd);
        return 0;
}

/* A file system that is mounted below a former image prevents its removal, and does not belong to
 * acnspawn. */
static int removal_failed(const Collector *c, const char *name, int r, Error *e)
{
        const char *store = store_path(c->store);

        if (r != -EXDEV && r != -EBUSY)
                return error_set_errno(e, r, "Cannot remove %s/tmp/%s", store, name);
        r = error_set(e, -EBUSY, "Cannot remove %s/tmp/%s: something is mounted below it", store, name);
        return error_hint(e, r,
                          "/proc/self/mountinfo has what; unmount it, then run 'acnspawn gc' again. The "
                          "mounted file system was not changed.");
}

static void collect_temporary(Collector *c, int tmp_fd, const char *name)
{
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_close_ int fd = -EBADF;

        if (!is_selected(c, "image", name))
                return;
        int r = lock_temporary(tmp_fd, name, &fd);
        if (r == -EWOULDBLOCK || r == -ENOENT)
                return;
        uint64_t size = measure(c, tmp_fd, name);
        if (r >= 0 && !c->options->dry_run)
                r = rm_rf_at(tmp_fd, name);
        if (r < 0) {
                note_failure(c, removal_failed(c, name, r, &e), &e);
        } else
                note_removed(c, &(GcItem){.kind = "image", .id = name, .state = "unfinished", .size = size});
}

static void collect_temporaries(Collector *c)
{
        _cleanup_strv_free_ char **names = NULL;
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_close_ int fd =
                        openat(store_fd(c->store), "tmp", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        int r = fd < 0 ? -errno : list_names(fd, &names);
        if (r < 0) {
                (void) error_set_errno(&e, r, "Cannot read %s/tmp", store_path(c->store));
                note_failure(c, r, &e);
        }
        STRV_FOREACH (name, names)
                collect_temporary(c, fd, *name);
        if (!c->options->dry_run)
                volume_quotas_release(c->store);
}

/* --- Interrupted downloads ----------------------------------------------------------------------------- */

/* Of all that uses a disk that is nearly full, they can be missed most easily. */
static uint64_t downloads_age(const Collector *c)
{
        uint64_t age = c->options->expire_downloads_usec;
        struct statvfs fs;

        if (age == UINT64_MAX || fstatvfs(store_fd(c->store), &fs) < 0 ||
            fs.f_bavail >= fs.f_blocks / SHORT_SHARE)
                return age;
        return MIN(age, SHORT_AGE_USEC);
}

static bool entry_is_old(const Collector *c, int fd, const char *name)
{
        uint64_t age = c->downloads_age_usec;
        struct stat st;

        return age != UINT64_MAX && fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) >= 0 &&
               is_older((uint64_t) st.st_mtim.tv_sec * 1000000ULL, age);
}

/* NAME.json is removed with NAME.part, and before it: without it the download just starts again. */
static int remove_download(const Collector *c, int fd, const char *name)
{
        _cleanup_free_ char *info = NULL;
        const char *dot = endswith(name, ".part");

        if (c->options->dry_run)
                return 0;
        if (dot) {
                int r = xasprintf(&info, "%.*s.json", (int) (dot - name), name);
                if (r >= 0)
                        r = rm_rf_at(fd, info);
                if (r < 0)
                        return r;
        }
        return rm_rf_at(fd, name);
}

/* The description of an existing download is removed together with it. */
static bool is_part_of_another(int fd, const char *name)
{
        _cleanup_free_ char *part = NULL;
        const char *dot = endswith(name, ".json");

        return dot && xasprintf(&part, "%.*s.part", (int) (dot - name), name) >= 0 &&
               faccessat(fd, part, F_OK, AT_SYMLINK_NOFOLLOW) >= 0;
}

static void collect_download(Collector *c, int downloads_fd, const char *name)
{
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_close_ int fd = -EBADF;

        if (!entry_is_old(c, downloads_fd, name) || is_part_of_another(downloads_fd, name) ||
            !is_selected(c, "download", name))
                return;
        int r = lock_temporary(downloads_fd, name, &fd);
        if (r == -EWOULDBLOCK || r == -ENOENT || (r >= 0 && !entry_is_old(c, downloads_fd, name)))
                return; /* in use by another process, or was until just now */
        uint64_t size = measure(c, downloads_fd, name);
        if (r >= 0)
                r = remove_download(c, downloads_fd, name);
        if (r < 0) {
                (void) error_set_errno(&e, r, "Cannot remove %s/downloads/%s", store_path(c->store), name);
                note_failure(c, r, &e);
        } else
                note_removed(c,
                             &(GcItem){.kind = "download", .id = name, .state = "unfinished", .size = size});
}

static void collect_downloads(Collector *c)
{
        _cleanup_strv_free_ char **names = NULL;
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_close_ int fd = openat(store_fd(c->store), "downloads",
                                        O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        int r = fd < 0 ? -errno : list_names(fd, &names);
        if (r < 0) {
                (void) error_set_errno(&e, r, "Cannot read %s/downloads", store_path(c->store));
                note_failure(c, r, &e);
        }
        c->downloads_age_usec = downloads_age(c);
        if (names) /* NAME.json sorts before NAME.part */
                strv_sort(names);
        STRV_FOREACH (name, names)
                collect_download(c, fd, *name);
}

static void collect_keys(Collector *c, const char *kind, int r, char *const *removed, Error *e)
{
        if (r < 0)
                note_failure(c, r, e);
        STRV_FOREACH (key, removed)
                note_removed(c, &(GcItem){.kind = kind, .id = *key});
}

static void collect_registry(Collector *c, Registry g, const char *kind)
{
        _cleanup_strv_free_ char **removed = NULL;
        _cleanup_error_ Error e = ERROR_NULL;

        int r = registry_collect(c->store, g, c->options->dry_run, &removed, &e);
        collect_keys(c, kind, r, removed, &e);
}

static void collect_host_uids(Collector *c)
{
        _cleanup_strv_free_ char **removed = NULL;
        _cleanup_error_ Error e = ERROR_NULL;

        int r = host_uids_collect(c->store, c->options->dry_run, &removed, &e);
        collect_keys(c, "uids", r, removed, &e);
}

static void note_layer(const GcItem *item, void *userdata)
{
        note_removed(userdata, item);
}

static bool layer_is_selected(const char *kind, const char *id, void *userdata)
{
        return is_selected(userdata, kind, id);
}

static void collect_layers(Collector *c)
{
        const LayersCollect options = {.dry_run = c->options->dry_run,
                                       .unmeasured = c->options->unmeasured,
                                       .selected = layer_is_selected,
                                       .removed = note_layer,
                                       .userdata = c};
        _cleanup_error_ Error e = ERROR_NULL;

        int r = layers_collect(c->store, &options, &e);
        if (r < 0)
                note_failure(c, r, &e);
}

static void collect_remotes(Collector *c)
{
        _cleanup_strv_free_ char **removed = NULL;
        _cleanup_error_ Error e = ERROR_NULL;

        int r = remotes_collect(c->store, c->options->dry_run, &removed, &e);
        if (r < 0)
                note_failure(c, r, &e);
        STRV_FOREACH (place, removed)
                note_removed(c, &(GcItem){.kind = "origin", .id = *place});
}

static bool has_part(const GcOptions *o, unsigned part)
{
        return o->parts == 0 || (o->parts & part) != 0;
}

int store_gc(Store *s, const GcOptions *o, Error *e)
{
        Collector c = {.store = s, .options = o, .error = e};

        if (has_part(o, GC_PODS))
                collect_pods(&c);
        if (has_part(o, GC_DOWNLOADS))
                collect_temporaries(&c);
        if (has_part(o, GC_LAYERS))
                collect_layers(&c);
        if (has_part(o, GC_DOWNLOADS))
                collect_downloads(&c);
        if (has_part(o, GC_ORIGINS))
                collect_remotes(&c);
        if (has_part(o, GC_PODS)) {
                collect_registry(&c, REGISTRY_NAMES, "name");
                collect_registry(&c, REGISTRY_UIDS, "uids");
                collect_host_uids(&c);
                if (!o->dry_run)
                        pod_journal_links_collect(s);
        }
        return c.result;
}
