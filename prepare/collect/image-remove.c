/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Removes an image, unless a pod or another image needs it.
 *
 * A process that looks an image up for a pod holds the store's lock shared until the pod's files record the
 * image; removal holds it exclusively while it searches for users of the image and renames it away. The
 * images of a pod are found in its files as text: an image ID is long enough not to occur by chance, and a
 * pod whose files cannot be read keeps its images. Trees that were rendered from the image are removed with
 * it; files in them that are hard links to other images stay in those. So do the layers of an OCI image that
 * other images have as well.
 */

#include <dirent.h>

#include "prepare/collect/collect-internal.h"

#define POD_FILE_MAX (16U * 1024U * 1024U)
#define USERS_SHOWN_MAX 8U

#define PLACE_OF_ENDED 3U

const char *const needing_places[N_NEEDING_PLACES] = {"pods/preparing", "pods/prepared",
                                                      "pods/running", [PLACE_OF_ENDED] = "pods/exited"};

bool pod_needs_images(const Store *s, size_t place, const char *path)
{
        return place != PLACE_OF_ENDED || pod_is_read(s, path);
}

static DIR *open_dir(int dir_fd, const char *path)
{
        int fd = open_beneath(dir_fd, path, O_RDONLY | O_DIRECTORY);

        if (fd < 0) {
                errno = -fd;
                return NULL;
        }
        DIR *d = fdopendir(fd);
        if (!d)
                safe_close(fd);
        return d;
}

static void closedirp(DIR **d)
{
        if (*d)
                closedir(*d);
}

#define _cleanup_closedir_ _cleanup_(closedirp)

/* The next name that is not hidden. NULL: the end, or an error (errno is set). */
static const char *next_name(DIR *d)
{
        struct dirent *de;

        do {
                errno = 0;
                de = readdir(d);
        } while (de && de->d_name[0] == '.');
        return de ? de->d_name : NULL;
}

/* --- Pods ---------------------------------------------------------------------------------------------- */

/* Whether the file PATH contains the image's ID. A missing file does not; a file that cannot be read counts
 * as if it did. */
static int file_names(int dir_fd, const char *path, const char *id)
{
        _cleanup_free_ char *text = NULL;
        size_t size;

        int r = read_file_at(dir_fd, path, POD_FILE_MAX, &text, &size);
        if (r == -ENOENT)
                return 0;
        return r < 0 ? r : memmem(text, size, id, strlen(id)) != NULL;
}

/* Whether a layer of the app was rendered from the image. */
static int lowers_need(Store *s, int pod_fd, const char *lowers, const char *id)
{
        _cleanup_free_ char *text = NULL;
        _cleanup_strv_free_ char **lines = NULL;

        int r = read_file_at(pod_fd, lowers, POD_FILE_MAX, &text, NULL);
        if (r == -ENOENT)
                return 0;
        if (r < 0)
                return r;
        if (strstr(text, id))
                return 1;
        r = strv_split(text, "\n", &lines);
        STRV_FOREACH (line, lines) {
                _cleanup_free_ char *layers = NULL;
                const char *key = strstr(*line, "/rendered/");
                if (r != 0 || !key)
                        continue;
                if (xasprintf(&layers, "rendered/%.64s/layers", key + strlen("/rendered/")) < 0)
                        return -ENOMEM;
                r = file_names(s->fd, layers, id);
        }
        return r;
}

static int pod_needs(Store *s, int pods_fd, const char *pod, const char *id)
{
        _cleanup_close_ int fd = open_beneath(pods_fd, pod, O_RDONLY | O_DIRECTORY);
        _cleanup_closedir_ DIR *apps = NULL;
        const char *app;

        if (fd < 0)
                return fd == -ENOENT ? 0 : fd;
        int r = file_names(fd, "pod", id);
        if (r != 0)
                return r;
        apps = open_dir(fd, "apps");
        if (!apps)
                return errno == ENOENT ? 0 : -errno;
        while (r == 0 && (app = next_name(apps))) {
                _cleanup_free_ char *lowers = NULL;
                if (xasprintf(&lowers, "apps/%s/lowers", app) < 0)
                        return -ENOMEM;
                r = lowers_need(s, fd, lowers, id);
        }
        return r;
}

int pods_that_need(Store *s, const char *id, char ***pods, Error *e)
{
        for (size_t i = 0; i < ELEMENTSOF(needing_places); i++) {
                _cleanup_closedir_ DIR *d = open_dir(s->fd, needing_places[i]);
                const char *pod;

                if (!d && errno == ENOENT)
                        continue;
                while (d && (pod = next_name(d))) {
                        _cleanup_free_ char *path = NULL;
                        int r = xasprintf(&path, "%s/%s", needing_places[i], pod);
                        if (r >= 0)
                                r = pod_needs(s, dirfd(d), pod, id);
                        if (r != 0 && path && !pod_needs_images(s, i, path))
                                r = 0;
                        if (r < 0)
                                return error_set_errno(
                                                e, r, "Cannot determine which images the pod %s needs", pod);
                        if (r > 0 && strv_extend(pods, pod) < 0)
                                return error_oom(e);
                        errno = 0;
                }
                if (errno != 0)
                        return error_set_errno(e, errno, "Cannot list %s/%s", s->path, needing_places[i]);
        }
        return 0;
}

int image_users(Store *s, const char *id, char ***ret, Error *e)
{
        _cleanup_strv_free_ char **pods = NULL;

        int r = pods_that_need(s, id, &pods, e);
        if (r >= 0)
                *ret = TAKE_PTR(pods);
        return r;
}

/* --- Other images -------------------------------------------------------------------------------------- */

/* Whether the dependency D is satisfied by the image X and by no other image of the store, except those in
 * GONE. */
static bool only_satisfied_by(const Dependency *d, const Image *x, Image **list, size_t n, char *const *gone)
{
        if (d->image_id)
                return streq(d->image_id, x->id);
        if (!image_name_matches(d->image_name, &d->labels, x->manifest))
                return false;
        for (size_t i = 0; i < n; i++)
                if (!streq(list[i]->id, x->id) && !strv_contains(gone, list[i]->id) &&
                    image_name_matches(d->image_name, &d->labels, list[i]->manifest))
                        return false;
        return true;
}

static int list_images_that_need(ImageIndex *index, const char *id, char *const *gone, char ***images,
                                 Error *e)
{
        Image **list, *x = NULL;
        size_t n;

        int r = image_index_refresh(index, e);
        if (r >= 0)
                r = image_index_check_read(index, id, e);
        if (r < 0)
                return r;
        list = image_index_images(index, &n);
        for (size_t i = 0; i < n; i++)
                if (streq(list[i]->id, id))
                        x = list[i];
        for (size_t i = 0; x && i < n && r >= 0; i++) {
                const ImageManifest *m = list[i]->manifest;
                _cleanup_free_ char *name = NULL;
                bool needs = false;

                if (strv_contains(gone, list[i]->id))
                        continue;
                for (size_t k = 0; k < m->n_dependencies && list[i] != x && !needs; k++)
                        needs = only_satisfied_by(&m->dependencies[k], x, list, n, gone);
                if (needs)
                        r = image_name_format(m->name, &m->labels, &name);
                if (needs && r >= 0)
                        r = strv_consume(images, TAKE_PTR(name));
        }
        return r < 0 ? error_oom(e) : 0;
}

/* WHAT is the kind of the users, in the singular. */
static int refuse(char **users, const char *id, const char *what, const char *hint, Error *e)
{
        _cleanup_free_ char *list = NULL;
        size_t n = strv_length(users);

        if (n == 0)
                return 0;
        for (size_t i = USERS_SHOWN_MAX; i < n; i++) {
                free(users[i]);
                users[i] = NULL;
        }
        list = strv_join(users, ", ");
        if (!list)
                return error_oom(e);
        int r = error_set(e, -EBUSY, "The image %s is needed by the %s%s %s%s", id, what, n > 1 ? "s" : "",
                          list, n > USERS_SHOWN_MAX ? " and others" : "");
        return error_hint(e, r, "%s", hint);
}

int image_check_unneeded(Store *s, ImageIndex *x, const char *id, char *const *gone, Error *e)
{
        _cleanup_strv_free_ char **pods = NULL, **images = NULL;

        int r = pods_that_need(s, id, &pods, e);
        if (r >= 0)
                r = refuse(pods, id, "pod",
                           "Stop running pods with 'acnspawn stop', remove prepared ones with 'acnspawn "
                           "rm', and wait for 'acnspawn cp' and 'acnspawn export' of those that have ended.",
                           e);
        if (r >= 0)
                r = list_images_that_need(x, id, gone, &images, e);
        if (r >= 0)
                r = refuse(images, id, "image", "Remove the images that need it first.", e);
        return r;
}

/* --- Trees rendered from it ---------------------------------------------------------------------------- */

int image_rendered_trees(Store *s, const char *id, char ***ret, Error *e)
{
        _cleanup_closedir_ DIR *d = open_dir(s->fd, "rendered");
        _cleanup_strv_free_ char **keys = NULL;
        const char *key;

        if (!d && errno != ENOENT)
                return error_set_errno(e, errno, "Cannot list %s/rendered", s->path);
        while (d && (key = next_name(d))) {
                _cleanup_free_ char *layers = NULL;

                if (xasprintf(&layers, "rendered/%s/layers", key) < 0)
                        return error_oom(e);
                int r = file_names(s->fd, layers, id);
                if (r < 0)
                        return error_set_errno(e, r, "Cannot read %s/%s", s->path, layers);
                if (r > 0 && strv_extend(&keys, key) < 0)
                        return error_oom(e);
        }
        if (d && errno != 0)
                return error_set_errno(e, errno, "Cannot list %s/rendered", s->path);
        *ret = TAKE_PTR(keys);
        return 0;
}

static int remove_rendered(Store *s, const char *id, Error *e)
{
        _cleanup_strv_free_ char **keys = NULL;

        int r = image_rendered_trees(s, id, &keys, e);
        if (r < 0)
                return r;
        STRV_FOREACH (key, keys) {
                _cleanup_(store_temporary_done) StoreTemporary t = STORE_TEMPORARY_NULL;
                _cleanup_free_ char *path = NULL;

                if (xasprintf(&path, "rendered/%s", *key) < 0)
                        return error_oom(e);
                r = store_detach_tree(s, path, &t, e);
                if (r < 0 && r != -ENOENT)
                        return error_prefix(e, r,
                                            "Cannot remove the trees that were rendered from the image %s",
                                            id);
        }
        return 0;
}

int image_detach(Store *s, const char *id, StoreTemporary *ret, Error *e)
{
        _cleanup_free_ char *path = NULL;

        if (xasprintf(&path, "images/%s", id) < 0)
                return error_oom(e);
        int r = remove_rendered(s, id, e);
        if (r < 0)
                return r;
        r = store_detach_tree(s, path, ret, e);
        return r == -ENOENT ? error_set(e, r, "The image %s is not in the store %s", id, s->path) : r;
}

static int check_and_detach(Store *s, const char *id, StoreTemporary *ret, Error *e)
{
        _cleanup_(image_index_freep) ImageIndex *x = NULL;
        _cleanup_close_ int lock = -EBADF;

        int r = image_index_new(s, &x, e);
        if (r >= 0)
                r = store_lock_exclusive(s, &lock, e);
        if (r >= 0)
                r = image_check_unneeded(s, x, id, NULL, e);
        return r < 0 ? r : image_detach(s, id, ret, e);
}

int image_remove(Store *s, const char *reference, char **ret_id, Error *e)
{
        /* Emptied after the lock is released. */
        _cleanup_(store_temporary_done) StoreTemporary t = STORE_TEMPORARY_NULL;
        _cleanup_free_ char *id = NULL;

        int r = image_find_id(s, reference, &id, e);
        if (r >= 0)
                r = check_and_detach(s, id, &t, e);
        /* If this fails, the next collection repeats it; the image has been removed as requested. */
        if (r >= 0)
                (void) layers_collect(s, &(LayersCollect){}, NULL);
        if (r < 0)
                return r;
        if (ret_id)
                *ret_id = TAKE_PTR(id);
        return 0;
}
