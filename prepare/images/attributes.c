/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Directories for which a layer has no entry, although it has entries below them ("implied" directories).
 *
 * For the builder of the image such a directory existed in the layers below, and should keep the owner, mode
 * and attributes that it had there. In an overlay it would get them from the uppermost layer that has it,
 * where they are only defaults: /tmp would lose its sticky bit as soon as a layer puts a file into it. A
 * layer cannot be unpacked differently for each image that uses it; so an image that needs it gets one more
 * layer, on top, with only these directories and their correct attributes. The same layers always result in
 * the same additional layer.
 *
 * Layers are directories of the store that have "rootfs" and, if the layer has such directories, the file
 * "implied", which unpacking wrote.
 */

#include <sys/stat.h>

#include "prepare/images/images-internal.h"
#include "prepare/unpack/unpack.h"

#define LOOKUPS_MAX (8U << 20) /* limit of opened directories, which takes seconds */

typedef struct LayerView {
        int fd;     /* borrowed */
        char *text; /* the file "implied" */
        char **implied;
        size_t n_implied;
} LayerView;

typedef struct Made {
        char *path;
        struct timespec times[2];
} Made;

typedef struct Attributes {
        Store *store;
        LayerView *views; /* lowest first */
        size_t n_views;
        int dir_fd; /* of the new layer */
        Made *made;
        size_t n_made, made_allocated;
        SpaceMeter meter;
} Attributes;

static void attributes_done(Attributes *a)
{
        for (size_t i = 0; i < a->n_views; i++) {
                free(a->views[i].text);
                free(a->views[i].implied);
        }
        for (size_t i = 0; i < a->n_made; i++)
                free(a->made[i].path);
        free(a->views);
        free(a->made);
}

/* --- Reading the layers -------------------------------------------------------------------------------- */

static int compare_strings(const void *a, const void *b)
{
        return strcmp(*(char *const *) a, *(char *const *) b);
}

static int read_implied(LayerView *v)
{
        size_t size = 0, n = 0;

        int r = read_file_at(v->fd, "implied", IMPLIED_SIZE_MAX + PATH_SIZE_MAX + 16, &v->text, &size);
        if (r < 0)
                return r == -ENOENT ? 0 : r;
        for (size_t i = 0; i < size; i++)
                n += v->text[i] == 0;
        v->implied = calloc(n + 1, sizeof(char *));
        if (!v->implied)
                return -ENOMEM;
        for (char *p = v->text; v->n_implied < n; p += strlen(p) + 1)
                v->implied[v->n_implied++] = p;
        if (n > 0)
                qsort(v->implied, n, sizeof(char *), compare_strings);
        return 0;
}

static int read_views(Attributes *a, const int *fds, size_t n, Error *e)
{
        a->views = calloc(n + 1, sizeof(LayerView));
        if (!a->views)
                return error_oom(e);
        while (a->n_views < n) {
                LayerView *v = &a->views[a->n_views];

                v->fd = fds[a->n_views++];
                int r = read_implied(v);
                if (r < 0)
                        return error_set_errno(e, r, "Cannot read the implied directories of layer %zu",
                                               a->n_views);
        }
        return 0;
}

static bool is_implied(const LayerView *v, const char *path)
{
        return v->n_implied > 0 && bsearch(&path, v->implied, v->n_implied, sizeof(char *), compare_strings);
}

/* Whether the layer hides PATH of the layers below it: by a component that is not a directory, or is an
 * opaque one. */
static int hides_below(const LayerView *v, const char *path)
{
        _cleanup_free_ char *prefix = strdup(path);

        if (!prefix)
                return -ENOMEM;
        for (char *p = prefix; p;) {
                _cleanup_close_ int fd = -EBADF;
                char *slash = strchr(p, '/');

                if (slash)
                        *slash = 0;
                fd = open_beneath(v->fd, prefix, O_RDONLY | O_DIRECTORY);
                if (fd == -ENOENT)
                        return 0;
                if (fd < 0)
                        return fd == -ENOTDIR || fd == -ELOOP ? 1 : fd;
                if (unpack_is_opaque(fd))
                        return 1;
                if (slash)
                        *slash = '/';
                p = slash ? slash + 1 : NULL;
        }
        return 0;
}

/* Opens the directory PATH of the layer whose attributes the merged one has to have. 1: it differs from
 * overlayfs' choice; 0: it is the same; -ENOENT: there is none. */
static int find_source(const Attributes *a, const char *path, int *ret_fd)
{
        _cleanup_close_ int uppermost = -EBADF;

        for (size_t i = a->n_views; i-- > 0;) {
                const LayerView *v = &a->views[i];
                _cleanup_close_ int fd = open_beneath(v->fd, path, O_RDONLY | O_DIRECTORY);

                if (fd < 0 && fd != -ENOENT && fd != -ENOTDIR && fd != -ELOOP)
                        return fd;
                if (fd >= 0 && !is_implied(v, path)) {
                        *ret_fd = TAKE_FD(fd);
                        return uppermost >= 0;
                }
                int r = hides_below(v, path);
                if (r < 0)
                        return r;
                if (fd >= 0 && uppermost < 0)
                        uppermost = TAKE_FD(fd);
                if (r > 0)
                        break;
        }
        if (uppermost < 0)
                return -ENOENT;
        *ret_fd = TAKE_FD(uppermost);
        return 0;
}

/* --- The layer ----------------------------------------------------------------------------------------- */

static int copy_attributes(const Attributes *a, int from, int to, Made *made)
{
        struct stat st;

        int r = directory_copy_metadata(a->store, from, to, &st);
        if (r < 0)
                return r;
        made->times[0] = st.st_atim;
        made->times[1] = st.st_mtim;
        return 0;
}

static int make_directory(Attributes *a, const char *path)
{
        _cleanup_close_ int from = -EBADF, to = -EBADF;

        if (mkdirat(a->dir_fd, path, 0700) < 0)
                return errno == EEXIST ? 0 : -errno;
        int r = space_meter_add(&a->meter, a->dir_fd, 0, 1);
        if (r < 0)
                return r;
        if (GREEDY_REALLOC(a->made, a->made_allocated, a->n_made + 1) < 0)
                return -ENOMEM;
        Made *made = &a->made[a->n_made];
        *made = (Made){.path = strdup(path)};
        if (!made->path)
                return -ENOMEM;
        a->n_made++;
        r = find_source(a, path, &from);
        if (r < 0)
                return r;
        to = open_beneath(a->dir_fd, path, O_RDONLY | O_DIRECTORY);
        return to < 0 ? to : copy_attributes(a, from, to, made);
}

/* Makes PATH and its parent directories, which would otherwise be implied. */
static int make_path(Attributes *a, const char *path)
{
        _cleanup_free_ char *prefix = strdup(path);
        int r = prefix ? 0 : -ENOMEM;

        for (char *p = prefix; r >= 0 && p;) {
                char *slash = strchr(p, '/');

                if (slash)
                        *slash = 0;
                r = make_directory(a, prefix);
                if (slash)
                        *slash = '/';
                p = slash ? slash + 1 : NULL;
        }
        return r;
}

static int make_path_if_needed(Attributes *a, const char *path, Error *e)
{
        _cleanup_close_ int fd = -EBADF;

        int r = find_source(a, path, &fd);
        if (r > 0)
                r = make_path(a, path);
        if (r < 0 && r != -ENOENT) {
                _cleanup_free_ char *shown = text_escape_for_terminal(path);
                return error_set_errno(e, r, "Cannot determine the attributes of '%s'", shown ?: "?");
        }
        return 0;
}

/* The directories implied by the layers from number FIRST on, sorted, without duplicates. The strings belong
 * to the views. */
static int list_implied(const Attributes *a, size_t first, char ***ret, size_t *ret_n)
{
        size_t n = 0, unique = 0;

        for (size_t i = first; i < a->n_views; i++)
                n += a->views[i].n_implied;
        char **all = calloc(n + 1, sizeof(char *));
        if (!all)
                return -ENOMEM;
        n = 0;
        for (size_t i = first; i < a->n_views; i++)
                for (size_t k = 0; k < a->views[i].n_implied; k++)
                        all[n++] = a->views[i].implied[k];
        if (n > 0)
                qsort(all, n, sizeof(char *), compare_strings);
        for (size_t i = 0; i < n; i++)
                if (unique == 0 || !streq(all[unique - 1], all[i]))
                        all[unique++] = all[i];
        *ret = all;
        *ret_n = unique;
        return 0;
}

/* Checking one path opens its parent directories in each layer. */
static int check_cost(const Attributes *a, char *const *paths, size_t n, Error *e)
{
        uint64_t cost = 0;

        for (size_t i = 0; i < n; i++)
                for (const char *p = paths[i]; p; p = strchr(p, '/') ? strchr(p, '/') + 1 : NULL)
                        cost += a->n_views;
        if (cost <= LOOKUPS_MAX)
                return 0;
        return error_set(e, -E2BIG,
                         "The image's layers have files in %zu directories for which they have no entry", n);
}

static int make_directories(Attributes *a, Error *e)
{
        _cleanup_free_ char **paths = NULL;
        size_t n;

        if (list_implied(a, 1, &paths, &n) < 0)
                return error_oom(e);
        int r = check_cost(a, paths, n, e);
        for (size_t i = 0; r >= 0 && i < n; i++) {
                r = operation_check(a->store->operation, e);
                if (r >= 0)
                        r = make_path_if_needed(a, paths[i], e);
        }
        return r;
}

/* Creating entries changes the times of a directory, so they are set last. */
static int set_times(const Attributes *a)
{
        for (size_t i = 0; i < a->n_made; i++) {
                _cleanup_close_ int fd = open_beneath(a->dir_fd, a->made[i].path, O_RDONLY | O_DIRECTORY);
                if (fd < 0 || futimens(fd, a->made[i].times) < 0)
                        return fd < 0 ? fd : -errno;
        }
        return 0;
}

int attributes_make(Store *s, const int *fds, size_t n, int dir_fd, Error *e)
{
        _cleanup_(attributes_done) Attributes a = {.store = s, .dir_fd = dir_fd};

        int r = read_views(&a, fds, n, e);
        if (r >= 0)
                r = make_directories(&a, e);
        if (r < 0)
                return r;
        r = set_times(&a);
        return r < 0 ? error_set_errno(e, r, "Cannot set the times of directories in the store")
                     : a.n_made > 0;
}

/* Whether none of the layers that have the directory PATH, and are not hidden there, has an entry for it. */
static int is_implied_by_all(const Attributes *a, const char *path)
{
        for (size_t i = a->n_views; i-- > 0;) {
                _cleanup_close_ int fd = open_beneath(a->views[i].fd, path, O_PATH | O_DIRECTORY);

                if (fd >= 0 && !is_implied(&a->views[i], path))
                        return 0;
                int r = hides_below(&a->views[i], path);
                if (r != 0)
                        return r < 0 ? r : 1;
        }
        return 1;
}

int attributes_note_implied(Store *s, const int *fds, size_t n, int dir_fd, Error *e)
{
        _cleanup_(attributes_done) Attributes a = {.store = s};
        _cleanup_free_ char **paths = NULL;
        _cleanup_text_ Text t = {};
        size_t n_paths;

        int r = read_views(&a, fds, n, e);
        if (r < 0)
                return r;
        if (list_implied(&a, 0, &paths, &n_paths) < 0)
                return error_oom(e);
        r = check_cost(&a, paths, n_paths, e);
        if (r < 0)
                return r;
        for (size_t i = 0; i < n_paths && r >= 0; i++) {
                _cleanup_close_ int fd = open_beneath(dir_fd, paths[i], O_PATH | O_DIRECTORY);

                r = fd >= 0 ? is_implied_by_all(&a, paths[i]) : 0;
                if (r > 0)
                        text_add_bytes(&t, paths[i], strlen(paths[i]) + 1);
        }
        if (r >= 0)
                r = implied_write(dir_fd, &t);
        return r < 0 ? error_set_errno(e, r, "Cannot determine which directories its layers imply") : 0;
}

int implied_write(int dir_fd, const Text *implied)
{
        if (implied->failed)
                return -ENOMEM;
        return implied->size > 0 ? write_file_new_at(dir_fd, "implied", implied->data, implied->size, 0644)
                                 : 0;
}

/* --- Layers of the store ------------------------------------------------------------------------------- */

typedef struct Top {
        Store *store;
        char *const *layers;
} Top;

static int make_top(int dir_fd, void *userdata, Error *e)
{
        _cleanup_layer_fds_ LayerFds l = {};
        const Top *t = userdata;

        int r = layer_fds_open(t->store, t->layers, &l, e);
        return r < 0 ? r : attributes_make(t->store, l.fds, l.n, dir_fd, e);
}

int render_attributes(Store *s, char *const *layers, char **ret, Error *e)
{
        Top top = {.store = s, .layers = layers};
        const RenderedTree t = {.store = s, .layers = layers, .make = make_top, .userdata = &top};
        size_t n = strv_length(layers);

        int r = n > 1 ? layers_imply(s, layers, n - 1, e) : 0;
        return r <= 0 ? r : rendered_get(&t, ret, e);
}
