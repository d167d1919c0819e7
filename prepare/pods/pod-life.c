/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The life of a pod: embryo, preparing, prepared, running, exited, garbage.
 *
 * Each step is one rename(2) of the pod directory, done by the process that holds the flock(2) on it. A new
 * pod begins as an embryo, which may be without a lock for an instant; it is locked before it moves on, so
 * that a pod which lies in "preparing" or "running" and is not locked has lost its process. All files of a
 * pod are synced before it becomes prepared, and the move to running before anything is done that cannot be
 * repeated, so that after a loss of power there are no incomplete pods and no pod runs twice. A pod that has
 * ended is run again as another pod, its successor (pod-successor.c).
 *
 * A pod that has an owner (pod-owner.c) does not run in another boot. Only what the owner reads in the next boot is synced: the
 * pod while it starts, its apps when they are added, and the status of an app when it ends. What a loss of power before that leaves
 * may be empty.
 */

#include <sys/file.h>
#include <sys/stat.h>

#include "prepare/pods/pods-internal.h"

#define NEW_TRIES 64
#define DEFAULT_STOP_TIMEOUT_USEC (10ULL * 1000000ULL)
/* Retries while another process briefly holds the lock only to check whether the pod is locked. */
#define LOCK_TRIES 50
#define LOCK_TRIES_LONG 5000 /* while only processes that look at the pod hold it, or one that removes it */
#define LOCK_PAUSE_NSEC 1000000L

static int add_place(const Pod *p, PodState place, SyncSet *s)
{
        _cleanup_close_ int fd = openat(store_fd(p->store), pod_state_to_place(place),
                                        O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        return fd < 0 ? -errno : sync_add(s, fd);
}

/* Makes a move durable. */
static int sync_places(const Pod *p, PodState from, PodState to, Error *e)
{
        _cleanup_sync_ SyncSet s = {};

        int r = add_place(p, to, &s);
        if (r >= 0)
                r = add_place(p, from, &s);
        if (r >= 0)
                r = sync_finish(&s);
        return r < 0 ? error_set_errno(e, r, "Cannot write %s/pods to disk", store_path(p->store)) : 0;
}

int pod_move(Pod *p, PodState to)
{
        _cleanup_free_ char *from_path = NULL, *to_path = NULL;

        if (pod_place_path(p->uuid, p->place, &from_path) < 0 || pod_place_path(p->uuid, to, &to_path) < 0)
                return -ENOMEM;
        if (renameat2(store_fd(p->store), from_path, store_fd(p->store), to_path, RENAME_NOREPLACE) < 0)
                return -errno;
        p->place = p->state = to;
        return 0;
}

/* Moves it durably. */
static int advance(Pod *p, PodState to, Error *e)
{
        PodState from = p->place;

        int r = pod_move(p, to);
        if (r < 0)
                return error_set_errno(e, r, "Cannot move pod %s from %s to %s", pod_display_name(p),
                                       pod_state_to_place(from), pod_state_to_place(to));
        return p->config.owner ? 0 : sync_places(p, from, to, e);
}

/* --- New pods ------------------------------------------------------------------------------------------ */

static int try_lock(int fd)
{
        if (flock(fd, LOCK_EX | LOCK_NB) < 0)
                return errno == EWOULDBLOCK ? -EBUSY : -errno;
        return 0;
}

/* Embryo to preparing. -EAGAIN: a collector removed it as an aborted one before it was locked. */
static int embryo_to_preparing(Pod *p)
{
        _cleanup_free_ char *path = NULL;

        int r = pod_place_path(p->uuid, POD_EMBRYO, &path);
        if (r < 0)
                return r;
        if (mkdirat(store_fd(p->store), path, 0711) < 0)
                return errno == EEXIST ? -EAGAIN : -errno;
        p->dir_fd = openat(store_fd(p->store), path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        r = p->dir_fd < 0 ? -errno : try_lock(p->dir_fd);
        if (r >= 0)
                r = fchmod(p->dir_fd, 0711) < 0 ? -errno
                                                : pod_move(p, POD_PREPARING); /* independent of the umask */
        if (r == -ENOENT || r == -EBUSY)
                return -EAGAIN;
        if (r < 0)
                (void) unlinkat(store_fd(p->store), path, AT_REMOVEDIR);
        return r;
}

int pod_new(Store *s, Pod **ret, Error *e)
{
        int r = -EAGAIN;

        for (unsigned tries = 0; r == -EAGAIN && tries < NEW_TRIES; tries++) {
                _cleanup_(pod_freep) Pod *p = NULL;
                char uuid[UUID_TEXT_SIZE];

                r = random_uuid(uuid);
                if (r >= 0)
                        r = pod_alloc(s, uuid, &p);
                if (r >= 0)
                        r = embryo_to_preparing(p);
                if (r < 0)
                        continue;
                p->locked = true;
                p->config.private_users = true;
                p->config.stop_timeout_usec = DEFAULT_STOP_TIMEOUT_USEC;
                p->config.created_usec = now_usec(CLOCK_REALTIME);
                *ret = TAKE_PTR(p);
                return 0;
        }
        return error_set_errno(e, r, "Cannot create a pod in the store %s", store_path(s));
}

static int write_part(Pod *p, const char *name, const char *text, size_t size, Error *e)
{
        int r = write_file_new_at(p->dir_fd, name, text, size, 0600);

        return r < 0 ? error_set_errno(e, r, "Cannot write '%s' of pod %s", name, pod_display_name(p)) : 0;
}

/* Formats the manifest, and parses it as starting the pod will: a manifest that cannot be read back must not
 * be published. */
static int format_manifest(const Pod *p, char **ret, Error *e)
{
        _cleanup_(pod_manifest_freep) PodManifest *again = NULL;
        _cleanup_free_ char *text = NULL;

        if (pod_manifest_format(p->manifest, &text) < 0)
                return error_oom(e);
        int r = pod_manifest_parse(text, strlen(text), &again, NULL, e);
        if (r >= 0)
                r = check_reified(again, e);
        if (r < 0)
                return error_prefix(e, r, "The request does not result in a valid pod manifest");
        *ret = TAKE_PTR(text);
        return 0;
}

static int add_links(const Pod *p, SyncSet *s, Error *e)
{
        int r = registry_add_to_sync(p->store, REGISTRY_UIDS, s, e);

        if (r >= 0)
                r = host_uids_add_to_sync(p->store, s, e);
        return r < 0 || !p->config.name ? r : registry_add_to_sync(p->store, REGISTRY_NAMES, s, e);
}

static int finish_sync(const Pod *p, SyncSet *s, int r, Error *e)
{
        if (r >= 0)
                r = sync_finish(s);
        return r < 0 ? error_set_errno(e, r, "Cannot write pod %s to disk", pod_display_name(p)) : 0;
}

/* Syncs all of the pod, and the links that belong to it. */
static int sync_content(const Pod *p, Error *e)
{
        _cleanup_sync_ SyncSet s = {};
        int r = add_links(p, &s, e);

        return r < 0 ? r : finish_sync(p, &s, sync_add_tree(&s, p->dir_fd), e);
}

/* Syncs what is read of a pod with an owner in the next boot, and that it is there. */
static int sync_owned(const Pod *p, Error *e)
{
        static const char *const files[] = {"config", POD_MANIFEST_FILE};
        _cleanup_sync_ SyncSet s = {};
        int r = add_links(p, &s, e);

        if (r < 0)
                return r;
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(files); i++)
                r = sync_add_file(&s, p->dir_fd, files[i]);
        if (r >= 0 && (r = sync_add_file(&s, p->dir_fd, POD_OWNER_DATA_FILE)) == -ENOENT)
                r = 0; /* the owner has no data */
        if (r >= 0)
                r = sync_add(&s, p->dir_fd);
        if (r >= 0)
                r = add_place(p, POD_RUNNING, &s);
        return finish_sync(p, &s, r, e);
}

/* In place of that of pod_keep_images(), if there is one. */
static int write_manifest(Pod *p, const char *text, Error *e)
{
        int r = write_file_atomic_at(p->dir_fd, POD_MANIFEST_FILE, text, strlen(text), 0600, false);

        return r < 0 ? error_set_errno(e, r, "Cannot write '" POD_MANIFEST_FILE "' of pod %s",
                                       pod_display_name(p))
                     : 0;
}

int pod_keep_images(Pod *p, Error *e)
{
        _cleanup_free_ char *manifest = NULL;

        int r = format_manifest(p, &manifest, e);
        if (r >= 0)
                r = write_manifest(p, manifest, e);
        if (r < 0)
                return r;
        p->store_lock_fd = safe_close(p->store_lock_fd);
        return 0;
}

static int publish(Pod *p, Error *e)
{
        _cleanup_free_ char *config = NULL, *manifest = NULL;

        if (p->state != POD_PREPARING || !p->locked || !p->manifest)
                return error_set(e, -EINVAL, "Pod %s is not ready to be published", pod_display_name(p));
        int r = pod_config_format(&p->config, &config, e);
        if (r >= 0)
                r = format_manifest(p, &manifest, e);
        if (r >= 0)
                r = write_part(p, "config", config, strlen(config), e);
        if (r >= 0)
                r = write_manifest(p, manifest, e);
        if (r < 0)
                return r;
        r = p->config.owner ? 0 : sync_content(p, e);
        if (r >= 0)
                r = advance(p, POD_PREPARED, e);
        if (r < 0)
                return r;
        /* From now on other processes see which images it needs, and it has its predecessor's name. */
        p->store_lock_fd = safe_close(p->store_lock_fd);
        if (p->config.predecessor && p->config.name)
                registry_settle(p->store, REGISTRY_NAMES, p->config.name, p->uuid);
        return 0;
}

static bool mounts_volume(const PodApp *app, const char *volume)
{
        for (size_t i = 0; i < app->n_mounts; i++)
                if (streq_ptr(app->mounts[i].volume, volume))
                        return true;
        return false;
}

/* Whether only apps mount it that are tentative. */
static bool is_tentative_volume(const PodManifest *m, const char *volume)
{
        bool tentative = false;

        for (size_t i = 0; i < m->n_apps; i++)
                if (mounts_volume(m->apps[i], volume)) {
                        if (!m->apps[i]->tentative)
                                return false;
                        tentative = true;
                }
        return tentative;
}

/* Without what is tentative. The content of the lists is lent; the lists themselves are to be freed. */
static int settle_manifest(const PodManifest *m, PodManifest *ret)
{
        PodApp **apps = calloc(m->n_apps + 1, sizeof(PodApp *));
        Volume *volumes = calloc(m->n_volumes + 1, sizeof(Volume));

        if (!apps || !volumes) {
                free(apps);
                free(volumes);
                return -ENOMEM;
        }
        *ret = *m;
        ret->apps = apps;
        ret->volumes = volumes;
        ret->n_apps = ret->n_volumes = 0;
        for (size_t i = 0; i < m->n_apps; i++)
                if (!m->apps[i]->tentative)
                        apps[ret->n_apps++] = m->apps[i]->instead ?: m->apps[i];
        for (size_t i = 0; i < m->n_volumes; i++)
                if (!is_tentative_volume(m, m->volumes[i].name))
                        volumes[ret->n_volumes++] = m->volumes[i];
        return 0;
}

static int format_settled_manifest(Pod *p, char **ret, Error *e)
{
        PodManifest settled, *all = p->manifest;

        if (settle_manifest(all, &settled) < 0)
                return error_oom(e);
        p->manifest = &settled;
        int r = format_manifest(p, ret, e);
        p->manifest = all;
        free(settled.apps);
        free(settled.volumes);
        return r;
}

int pod_format_manifest(Pod *p, char **ret, Error *e)
{
        _cleanup_free_ char *text = NULL;
        int r = format_settled_manifest(p, &text, e);

        if (r < 0)
                return r;
        if (strlen(text) > MANIFEST_SIZE_MAX)
                return error_set(e, -E2BIG, "The manifest of pod %s would be larger than %u bytes",
                                 pod_display_name(p), MANIFEST_SIZE_MAX);
        *ret = TAKE_PTR(text);
        return 0;
}

int pod_update_manifest(Pod *p, Error *e)
{
        _cleanup_free_ char *text = NULL;
        int r = pod_format_manifest(p, &text, e);

        if (r < 0)
                return r;
        r = write_file_atomic_at(p->dir_fd, POD_MANIFEST_FILE, text, strlen(text), 0600, true);
        return r < 0 ? error_set_errno(e, r, "Cannot write '" POD_MANIFEST_FILE "' of pod %s",
                                       pod_display_name(p))
                     : 0;
}

int pod_publish(Pod *p, Error *e)
{
        int r = publish(p, e);

        if (r < 0)
                pod_abandon(p);
        return r;
}

/* --- Running ------------------------------------------------------------------------------------------- */

#define ANOTHER "'acnspawn prepare' or 'acnspawn run' creates another pod from its images."

/* Why a pod of this state cannot be started. */
static const struct {
        int code;
        const char *why, *hint;
} not_startable[_POD_STATE_MAX] = {
                [POD_EMBRYO] = {-EBUSY, "is still being prepared", "Try again when it is."},
                [POD_PREPARING] = {-EBUSY, "is still being prepared", "Try again when it is."},
                [POD_ABORTED_PREPARE] = {-ESTALE, "was never fully prepared",
                                         ANOTHER " 'acnspawn gc' removes this one."},
                [POD_PREPARED] = {-EBUSY, "is being started or removed by another process",
                                  "'acnspawn list' shows its state."},
                [POD_RUNNING] = {-EBUSY, "is running already",
                                 "'acnspawn run --replace %s' stops it first."},
                [POD_EXITED] = {-ESTALE, "has run and ended", "'acnspawn run %s' runs it again."},
                [POD_GARBAGE] = {-ESTALE, "is being removed", ANOTHER},
};

static int refuse_start(const Pod *p, PodState state, Error *e)
{
        int r = error_set(e, not_startable[state].code, "Pod %s cannot be started: it %s",
                          pod_display_name(p), not_startable[state].why);

        const char *hint = not_startable[state].hint, *name = strstr(hint, "%s");
        if (!name)
                return error_hint(e, r, "%s", hint);
        return error_hint(e, r, "%.*s%s%s", (int) (name - hint), hint, pod_display_name(p), name + 2);
}

/* Another process was faster: reports the pod's new state. */
static int refuse_start_now(Pod *p, Error *e)
{
        _cleanup_(pod_freep) Pod *now = NULL;

        int r = pod_look(p->store, p->uuid, &now, e);
        return r < 0 ? r : refuse_start(p, now->state, e);
}

int pod_lock_to_run(Pod *p, Error *e)
{
        if (p->state != POD_PREPARED)
                return refuse_start(p, p->state, e);
        int r = p->manifest ? 0 : pod_load(p, e);
        if (r < 0)
                return r;
        r = p->locked ? 0 : try_lock(p->dir_fd);
        if (r == -EBUSY)
                return refuse_start_now(p, e);
        if (r < 0)
                return error_set_errno(e, r, "Cannot lock pod %s", pod_display_name(p));
        p->locked = true;
        return pod_is_at(p->store, p->dir_fd, p->uuid, POD_PREPARED) ? 0 : refuse_start_now(p, e);
}

int pod_begin_run(Pod *p, Error *e)
{
        bool was_locked = p->locked;
        int r = pod_lock_to_run(p, e);

        if (r >= 0) {
                (void) pod_record_boot(p);  /* only for "status" */
                (void) pod_record_store(p); /* only for copies of the store */
                r = host_uids_claim(p, e);
        }
        if (r >= 0 && (r = pod_move(p, POD_RUNNING)) < 0)
                (void) error_set_errno(e, r, "Cannot start pod %s", pod_display_name(p));
        if (r >= 0)
                pod_journal_link(p);
        if (r < 0 && p->locked && !was_locked)
                p->locked = flock(p->dir_fd, LOCK_UN) < 0;
        return r == -ENOENT ? refuse_start_now(p, e) : r;
}

int pod_sync_run(const Pod *p, Error *e)
{
        return p->config.owner ? sync_owned(p, e) : sync_places(p, POD_PREPARED, POD_RUNNING, e);
}

#define ENDED_SIZE_MAX 128U

/* What the clock of this boot, which is never set, showed at the time USEC of the other, as far as can be said. */
static uint64_t boot_time_of(uint64_t usec)
{
        uint64_t now = now_usec(CLOCK_REALTIME), since = now - MIN(usec, now),
                 boot = now_usec(CLOCK_BOOTTIME);

        return boot - MIN(since, boot);
}

/* Writes the time when the pod ended to a file, as the times of the directory may change; and the boot (pod-boot.c) with its own clock,
 * as the host's may be set later. */
static void write_ended(Pod *p, uint64_t usec)
{
        _cleanup_free_ char *text = NULL, *boot = NULL;

        (void) read_boot_id(&boot);
        int r = boot ? xasprintf(&text, "%" PRIu64 "\n%s\n%" PRIu64 "\n", usec, boot, boot_time_of(usec))
                     : xasprintf(&text, "%" PRIu64 "\n", usec);
        if (r >= 0)
                r = write_file_reserved_at(p->dir_fd, "ended", POD_ENDED_RESERVE, text, strlen(text));
        if (r < 0) /* this must not keep the pod from ending */
                log_warning("The time when pod %s ended cannot be recorded: %s", pod_display_name(p),
                            strerror(-r));
}

int pod_read_ended(const Pod *p, char **ret)
{
        size_t n;
        int r = read_file_at(p->dir_fd, "ended", ENDED_SIZE_MAX, ret, &n);

        if (r >= 0 && n > 0 && (*ret)[n - 1] == '\n')
                (*ret)[n - 1] = 0;
        return r;
}

/* Also those that a supervisor has left that was killed. */
static void drop_reserves(const Pod *p)
{
        static const char *const names[] = {POD_ENDED_RESERVE, POD_RESULT_RESERVE, POD_STATUS_RESERVE};

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                (void) unlinkat(p->dir_fd, names[i], 0);
}

int pod_end_run(Pod *p, Error *e)
{
        if (p->place != POD_RUNNING || !p->locked)
                return error_set(e, -EINVAL, "Pod %s is not run by this process", pod_display_name(p));
        write_ended(p, p->state == POD_RUNNING ? now_usec(CLOCK_REALTIME) : pod_ended_usec(p));
        drop_reserves(p);
        (void) rm_rf_at(p->dir_fd, "credentials"); /* also if they were never used */
        int r = advance(p, POD_EXITED, e);
        if (r >= 0) {
                pod_journal_link(p);
                pod_journal_trim(p);
        }
        return r;
}

static uint64_t timespec_usec(struct timespec t)
{
        return t.tv_sec < 0 ? 0 : (uint64_t) t.tv_sec * 1000000ULL + (uint64_t) t.tv_nsec / 1000ULL;
}

uint64_t pod_ended_usec(const Pod *p)
{
        /* If the process that ran the pod was killed, only the time of the last change is known. */
        static const char *const traces[] = {".", "result", "status", "root/var/log/journal"};
        _cleanup_free_ char *text = NULL;
        uint64_t usec, latest = 0;

        if (pod_read_ended(p, &text) >= 0) {
                text[strcspn(text, "\n")] = 0;
                if (parse_u64(text, &usec) >= 0)
                        return usec;
        }
        for (size_t i = 0; i < ELEMENTSOF(traces); i++) {
                struct stat st;

                if (fstatat(p->dir_fd, traces[i], &st, AT_SYMLINK_NOFOLLOW) >= 0)
                        latest = MAX(latest, timespec_usec(st.st_ctim));
        }
        return latest;
}

/* --- Ages ---------------------------------------------------------------------------------------------- */

#define CLOCK_IS_SET_USEC                                                                                   \
        (UINT64_C(1577836800) * 1000000U) /* 2020: what is earlier was recorded before the clock was set */

/* How long ago that was, by a clock that may have been set since: if it cannot be true, at most since the host was booted. */
static uint64_t age_by_clock(uint64_t usec)
{
        uint64_t now = now_usec(CLOCK_REALTIME);

        return usec > now || usec < CLOCK_IS_SET_USEC ? now_usec(CLOCK_BOOTTIME) : now - usec;
}

/* Here it is at least zero if it cannot be true, as the pod may just have been prepared: staying too long loses nothing. */
uint64_t pod_created_age_usec(const Pod *p)
{
        uint64_t usec = pod_created_usec(p), now = now_usec(CLOCK_REALTIME);

        if (usec > now)
                return 0;
        return usec < CLOCK_IS_SET_USEC && now >= CLOCK_IS_SET_USEC ? now_usec(CLOCK_BOOTTIME) : now - usec;
}

uint64_t pod_ended_age_usec(const Pod *p)
{
        _cleanup_free_ char *text = NULL, *boot = NULL;
        uint64_t then, now = now_usec(CLOCK_BOOTTIME);
        char *id, *time;

        if (pod_read_ended(p, &text) >= 0 && (id = strchr(text, '\n')) && (time = strchr(++id, '\n'))) {
                *time++ = 0;
                if (read_boot_id(&boot) >= 0 && streq(boot, id) && parse_u64(time, &then) >= 0 &&
                    then <= now)
                        return now - then;
        }
        return age_by_clock(pod_ended_usec(p));
}

/* --- The lock ------------------------------------------------------------------------------------------ */

/* The state of a pod at PLACE that only this process has locked. */
static PodState state_unlocked(PodState place)
{
        if (place == POD_RUNNING)
                return POD_EXITED;
        return place == POD_PREPARING ? POD_ABORTED_PREPARE : place;
}

static bool find_place(const Pod *p, PodState *ret)
{
        for (size_t i = 0; i < N_POD_PLACES; i++)
                if (pod_is_at(p->store, p->dir_fd, p->uuid, pod_places[i])) {
                        *ret = pod_places[i];
                        return true;
                }
        return false;
}

/* A process that only checks the state of a pod holds a shared lock briefly, but longer on a slow host. An
 * exclusive lock is held by a process that works on the pod; if the pod has ended, most likely one that
 * removes it. */
static int lock_patiently(const Pod *p)
{
        unsigned limit = p->place == POD_EXITED || p->place == POD_GARBAGE ? LOCK_TRIES_LONG : LOCK_TRIES;

        for (unsigned tries = 1, shared = 1;;) {
                int r = try_lock(p->dir_fd);
                if (r != -EBUSY)
                        return r;
                if (flock(p->dir_fd, LOCK_SH | LOCK_NB) < 0)
                        tries++;
                else {
                        (void) flock(p->dir_fd, LOCK_UN);
                        shared++;
                }
                if (tries >= limit || shared >= LOCK_TRIES_LONG)
                        return -EBUSY;
                nanosleep(&(struct timespec){.tv_nsec = LOCK_PAUSE_NSEC}, NULL);
        }
}

int pod_lock(Pod *p, bool wait, Error *e)
{
        PodState place;

        if (p->locked)
                return 0;
        int r = wait ? lock_patiently(p) : try_lock(p->dir_fd);
        /* Before it was locked it may have been moved or removed. */
        if (!find_place(p, &place)) {
                if (r >= 0)
                        (void) flock(p->dir_fd, LOCK_UN);
                return error_set(e, -ENOENT, "Pod %s was removed", pod_display_name(p));
        }
        if (r == -EBUSY)
                return error_set(e, r, "Pod %s is in use by another process", pod_display_name(p));
        if (r < 0)
                return error_set_errno(e, r, "Cannot lock pod %s", pod_display_name(p));
        p->place = place;
        p->state = state_unlocked(place);
        p->locked = true;
        return 0;
}

void pod_unlock(Pod *p)
{
        if (p->locked)
                (void) flock(p->dir_fd, LOCK_UN);
        p->locked = false;
}

int pod_take_lock(Pod *p, int fd, Error *e)
{
        struct stat given, ours;

        if (fstat(fd, &given) < 0 || fstat(p->dir_fd, &ours) < 0)
                return error_set_errno(e, -errno, "Cannot stat the directory of pod %s",
                                       pod_display_name(p));
        if (given.st_dev != ours.st_dev || given.st_ino != ours.st_ino)
                return error_set(e, -ESTALE, "The lock that was passed is not that of pod %s",
                                 pod_display_name(p));
        int r = try_lock(fd);
        if (r == -EBUSY)
                return error_set(e, r, "Pod %s is in use by another process", pod_display_name(p));
        if (r < 0)
                return error_set_errno(e, r, "Cannot lock pod %s", pod_display_name(p));
        safe_close(p->dir_fd);
        p->dir_fd = fd;
        p->locked = true;
        return 0;
}
