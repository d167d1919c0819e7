/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A pod as an object: the location of its directory, the state that follows from it, and its files.
 *
 * The state of a pod is not stored anywhere: it follows from the parent of the pod directory, and from
 * whether a process holds a flock(2) on it. Pods only ever move forward, by rename(2), and the places are
 * tried in the order of a pod's life; so a pod that is moved during the search is found at the next place.
 * After opening it, its place is checked again, and the search is repeated if it was moved: the result was
 * true at one moment. If a process dies, the kernel releases its lock, and the place of its pod shows what
 * happened.
 *
 * A check takes a shared lock for an instant, but only in places where no process takes an exclusive one
 * without waiting: pods that are being prepared are locked before they are moved to "preparing", those that
 * run before they are moved to "running".
 */

#include <sys/file.h>
#include <sys/stat.h>

#include "prepare/pods/pods-internal.h"

/* Far more than the number of moves of a pod. */
#define LOOK_TRIES 64

static const struct {
        const char *name;
        const char *place; /* the directory of pods in this state */
} pod_states[_POD_STATE_MAX] = {
                [POD_EMBRYO] = {"embryo", "pods/embryo"},
                [POD_PREPARING] = {"preparing", "pods/preparing"},
                [POD_ABORTED_PREPARE] = {"aborted prepare", "pods/preparing"},
                [POD_PREPARED] = {"prepared", "pods/prepared"},
                [POD_RUNNING] = {"running", "pods/running"},
                [POD_EXITED] = {"exited", "pods/exited"},
                [POD_GARBAGE] = {"garbage", "pods/garbage"},
};

const PodState pod_places[N_POD_PLACES] = {
                POD_EMBRYO, POD_PREPARING, POD_PREPARED, POD_RUNNING, POD_EXITED, POD_GARBAGE,
};

const char *pod_state_to_string(PodState s)
{
        return (unsigned) s < ELEMENTSOF(pod_states) ? pod_states[s].name : NULL;
}

const char *pod_state_to_place(PodState s)
{
        return (unsigned) s < ELEMENTSOF(pod_states) ? pod_states[s].place : NULL;
}

int pod_alloc(Store *s, const char *uuid, Pod **ret)
{
        _cleanup_(pod_freep) Pod *p = calloc(1, sizeof(Pod));

        if (!p)
                return -ENOMEM;
        *p = (Pod){.store = store_ref(s),
                   .uuid = strdup(uuid),
                   .dir_fd = -EBADF,
                   .store_lock_fd = -EBADF,
                   .readers_fd = -EBADF};
        if (!p->uuid)
                return -ENOMEM;
        *ret = TAKE_PTR(p);
        return 0;
}

Pod *pod_free(Pod *p)
{
        if (!p)
                return NULL;
        safe_close(p->store_lock_fd);
        safe_close(p->readers_fd);
        safe_close(p->dir_fd);
        pod_config_done(&p->config);
        free(p->former_name);
        pod_manifest_free(p->manifest);
        free(p->uuid);
        store_unref(p->store);
        free(p);
        return NULL;
}

int pod_place_path(const char *uuid, PodState place, char **ret)
{
        return xasprintf(ret, "%s/%s", pod_states[place].place, uuid);
}

uint32_t pod_root_uid(const Pod *p)
{
        return p->config.private_users ? p->config.uid_base : 0;
}

int pod_path(const Pod *p, char **ret)
{
        return xasprintf(ret, "%s/%s/%s", store_path(p->store), pod_states[p->place].place, p->uuid);
}

bool pod_is_at(Store *s, int dir_fd, const char *uuid, PodState place)
{
        _cleanup_free_ char *path = NULL;
        struct stat ours, there;

        return pod_place_path(uuid, place, &path) >= 0 && fstat(dir_fd, &ours) >= 0 &&
               fstatat(store_fd(s), path, &there, AT_SYMLINK_NOFOLLOW) >= 0 && ours.st_dev == there.st_dev &&
               ours.st_ino == there.st_ino;
}

int pod_exists(Store *s, const char *uuid, PodState first, PodState last)
{
        for (size_t i = 0; i < N_POD_PLACES && pod_places[i] <= last; i++) {
                _cleanup_free_ char *path = NULL;

                if (pod_places[i] < first)
                        continue;

                int r = pod_place_path(uuid, pod_places[i], &path);
                if (r < 0)
                        return r;
                if (faccessat(store_fd(s), path, F_OK, AT_SYMLINK_NOFOLLOW) >= 0)
                        return 1;
                if (errno != ENOENT)
                        return -errno;
        }
        return 0;
}

/* Whether a process holds the lock of the pod directory. */
static int is_locked(int dir_fd)
{
        if (flock(dir_fd, LOCK_SH | LOCK_NB) < 0)
                return errno == EWOULDBLOCK ? 1 : -errno;
        (void) flock(dir_fd, LOCK_UN);
        return 0;
}

/* The state of a pod at PLACE. */
static int state_at(PodState place, int dir_fd, PodState *ret)
{
        PodState unlocked = place;

        if (place == POD_PREPARING)
                unlocked = POD_ABORTED_PREPARE;
        if (place == POD_RUNNING)
                unlocked = POD_EXITED; /* the process that ran it was killed */
        if (unlocked == place) {
                *ret = place;
                return 0;
        }
        int r = is_locked(dir_fd);
        if (r < 0)
                return r;
        *ret = r > 0 ? place : unlocked;
        return 0;
}

/* 1: found, 0: it was moved meanwhile, -ENOENT: it does not exist. */
static int find_once(Store *s, const char *uuid, int *ret_fd, PodState *ret_place, PodState *ret_state)
{
        for (size_t i = 0; i < N_POD_PLACES; i++) {
                _cleanup_free_ char *path = NULL;
                _cleanup_close_ int fd = -EBADF;
                PodState state;

                int r = pod_place_path(uuid, pod_places[i], &path);
                if (r < 0)
                        return r;
                fd = openat(store_fd(s), path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                if (fd < 0) {
                        if (errno == ENOENT)
                                continue;
                        return -errno;
                }
                r = state_at(pod_places[i], fd, &state);
                if (r < 0)
                        return r;
                if (!pod_is_at(s, fd, uuid, pod_places[i]))
                        return 0;
                *ret_fd = TAKE_FD(fd);
                *ret_place = pod_places[i];
                *ret_state = state;
                return 1;
        }
        return -ENOENT;
}

int pod_look(Store *s, const char *uuid, Pod **ret, Error *e)
{
        _cleanup_(pod_freep) Pod *p = NULL;

        int r = pod_alloc(s, uuid, &p);
        if (r < 0)
                return error_oom(e);
        r = 0;
        for (unsigned tries = 0; r == 0 && tries < LOOK_TRIES; tries++)
                r = find_once(s, uuid, &p->dir_fd, &p->place, &p->state);
        if (r == -ENOENT)
                return error_set(e, r, "There is no pod %s in the store %s", uuid, store_path(s));
        if (r == 0)
                r = -EAGAIN;
        if (r < 0)
                return error_set_errno(e, r, "Cannot open pod %s", uuid);
        *ret = TAKE_PTR(p);
        return 0;
}

int pod_open(Store *s, const char *uuid, Pod **ret, Error *e)
{
        _cleanup_error_ Error ignored = ERROR_NULL;

        int r = pod_look(s, uuid, ret, e);
        if (r < 0)
                return r;
        /* Incomplete pods have none, and damaged ones must be removable. */
        (void) pod_load(*ret, &ignored);
        return 0;
}

/* A loss of power empties or removes a file; after any other failure it may be whole. */
static int read_part(Pod *p, const char *name, size_t max, char **ret, size_t *ret_size, Error *e)
{
        int r = read_file_at(p->dir_fd, name, max, ret, ret_size);

        if (r == -ENOENT)
                return error_set(e, r, "Pod %s has no %s", pod_display_name(p),
                                 streq(name, "pod") ? "manifest" : name);
        if (r < 0) {
                p->unreadable = true;
                return error_set_errno(e, r, "Cannot read '%s' of pod %s", name, pod_display_name(p));
        }
        return 0;
}

static int parse_error(Pod *p, int r, const char *what, Error *e)
{
        p->unreadable |= r == -ENOMEM;
        return error_prefix(e, r, "The %s of pod %s is damaged", what, pod_display_name(p));
}

/* A name that passed to a successor is still in the configuration. */
static int check_name(Pod *p, Error *e)
{
        int r = registry_holds(p->store, REGISTRY_NAMES, p->config.name, p->uuid);

        if (r < 0) {
                p->unreadable = true;
                return error_set_errno(e, r, "Cannot read whether pod %s still has its name", p->uuid);
        }
        if (r == 0) {
                free(p->former_name);
                p->former_name = TAKE_PTR(p->config.name);
        }
        return 0;
}

static int load_config(Pod *p, Error *e)
{
        _cleanup_(pod_config_done) PodConfig c = {};
        _cleanup_free_ char *text = NULL;
        size_t size;

        int r = read_part(p, "config", POD_CONFIG_SIZE_MAX, &text, &size, e);
        if (r < 0)
                return r;
        r = pod_config_parse(text, size, &c, e);
        if (r < 0)
                return parse_error(p, r, "configuration", e);
        pod_config_done(&p->config);
        p->config = c;
        c = (PodConfig){};
        return p->config.name && p->place != POD_GARBAGE ? check_name(p, e) : 0;
}

int check_reified(const PodManifest *m, Error *e)
{
        for (size_t i = 0; i < m->n_apps; i++)
                if (!m->apps[i]->app)
                        return error_set(e, -EINVAL, "apps[%zu].app is missing", i);
        return pod_manifest_check_reified(m, e);
}

static int load_manifest(Pod *p, Error *e)
{
        _cleanup_(pod_manifest_freep) PodManifest *m = NULL;
        _cleanup_free_ char *text = NULL;
        size_t size;

        int r = read_part(p, "pod", MANIFEST_SIZE_MAX, &text, &size, e);
        if (r < 0)
                return r;
        r = pod_manifest_parse(text, size, &m, NULL, e);
        if (r >= 0)
                r = check_reified(m, e);
        if (r < 0)
                return parse_error(p, r, "manifest", e);
        pod_manifest_free(p->manifest);
        p->manifest = TAKE_PTR(m);
        return 0;
}

int pod_load(Pod *p, Error *e)
{
        p->unreadable = false;
        /* Independently: a pod is found by its name even if its manifest is damaged. */
        int r = load_config(p, e);
        int q = load_manifest(p, r < 0 ? NULL : e);
        return r < 0 ? r : q;
}
