/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Rendering the layers of an image that has a pathWhitelist (spec: ace.md, "Filesystem Setup", step 3).
 *
 * Files that are not in the list have to be absent, which an overlay of the layers cannot achieve, so a
 * separate tree is made; its files are hard links to those of the images, so only directories take space. It
 * is made once (rendered.c).
 *
 * The layers are processed from the lowest to the uppermost, as the specification extracts them, but only
 * the listed paths and their parent directories are visited. The list is sorted as a tree, so that
 * consecutive paths share their common parent directories. A listed directory is created, but its entries
 * only if they are listed as well: the list is "a complete and absolute set".
 */

#include <sys/stat.h>

#include "prepare/unpack/unpack.h"
#include "prepare/images/images-internal.h"

typedef struct Rendering {
        Store *store;
        char *const *layers; /* uppermost first */
        char **paths;        /* normalized, sorted, each once */
        size_t n_paths;
        int *layer_fds;
        size_t n_layers;
        int root_fd; /* the tree being made */
        SpaceMeter meter;
} Rendering;

static void rendering_done(Rendering *x)
{
        for (size_t i = 0; i < x->n_paths; i++)
                free(x->paths[i]);
        for (size_t i = 0; i < x->n_layers; i++)
                safe_close(x->layer_fds[i]);
        free(x->paths);
        free(x->layer_fds);
        safe_close(x->root_fd);
}

/* --- The list ------------------------------------------------------------------------------------------ */

/* As strcmp(), with "/" before any other character: the entries of a directory follow it immediately. */
static int compare_paths(const void *a, const void *b)
{
        const unsigned char *x = *(unsigned char *const *) a, *y = *(unsigned char *const *) b;

        while (*x && *x == *y)
                x++, y++;
        int p = *x == '/' ? 1 : *x == 0 ? 0 : *x + 1, q = *y == '/' ? 1 : *y == 0 ? 0 : *y + 1;
        return p - q;
}

static int check_path(const char *path, Error *e)
{
        size_t depth = 0;

        for (const char *p = path; *p; p++)
                depth += *p == '/';
        if (strlen(path) > PATH_SIZE_MAX || depth > PATH_DEPTH_MAX)
                return error_set(e, -ENAMETOOLONG, "A path of its pathWhitelist is too long or too deep");
        return 0;
}

static int read_paths(Rendering *x, char *const *paths, Error *e)
{
        size_t n = 0;

        x->paths = calloc(strv_length(paths) + 1, sizeof(char *));
        if (!x->paths)
                return error_oom(e);
        STRV_FOREACH (p, paths) {
                int r = check_path(*p, e);
                if (r < 0)
                        return r;
                _cleanup_free_ char *absolute = NULL;
                if (xasprintf(&absolute, "/%s", *p) < 0)
                        return error_oom(e);
                r = path_normalize(absolute, &x->paths[x->n_paths]);
                if (r < 0)
                        return error_set_errno(e, r, "Its pathWhitelist has a path that is not valid");
                x->n_paths++;
        }
        qsort(x->paths, x->n_paths, sizeof(char *), compare_paths);
        for (size_t i = 0; i < x->n_paths; i++)
                if (n > 0 && streq(x->paths[n - 1], x->paths[i]))
                        free(x->paths[i]);
                else
                        x->paths[n++] = x->paths[i];
        x->n_paths = n;
        return 0;
}

/* --- One path of one layer ----------------------------------------------------------------------------- */

/* Opens the parent directory of PATH (absolute), and returns the last component. -ENOENT: it does not
 * exist. */
static int open_parent(int root_fd, const char *path, const char **ret_name)
{
        _cleanup_free_ char *parent = NULL;
        const char *slash = strrchr(path, '/');

        parent = slash == path ? strdup(".") : strndup(path + 1, (size_t) (slash - path - 1));
        if (!parent)
                return -ENOMEM;
        int fd = open_beneath(root_fd, parent, O_PATH | O_DIRECTORY);
        *ret_name = slash + 1;
        return fd == -ENOTDIR || fd == -ELOOP ? -ENOENT : fd;
}

static int place_directory(int parent_fd, const char *name)
{
        struct stat st;

        if (mkdirat(parent_fd, name, 0700) >= 0)
                return 0;
        if (errno != EEXIST || fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        if (S_ISDIR(st.st_mode))
                return 0;
        if (unlinkat(parent_fd, name, 0) < 0 || mkdirat(parent_fd, name, 0700) < 0)
                return -errno;
        return 0;
}

static bool is_opaque(int parent_fd, const char *name)
{
        _cleanup_close_ int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        return fd >= 0 && unpack_is_opaque(fd);
}

/* Adds PATH of a layer to the tree. LISTED: it is in the list itself, not only a parent of a listed path. */
static int place(Rendering *x, int layer_fd, const char *path, bool listed)
{
        _cleanup_close_ int from = -EBADF, to = -EBADF;
        const char *name;
        struct stat st;

        from = open_parent(layer_fd, path, &name);
        if (from < 0)
                return from == -ENOENT ? 0 : from;
        if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : -errno;
        to = open_parent(x->root_fd, path, &name);
        if (to < 0)
                return to;
        int r = !S_ISDIR(st.st_mode) || is_opaque(from, name) ? rm_rf_at(to, name) : 0;
        if (r >= 0)
                r = space_meter_add(&x->meter, x->root_fd, 0, 1);
        if (r < 0)
                return r;
        if (S_ISDIR(st.st_mode))
                return place_directory(to, name);
        return listed && !unpack_is_whiteout(&st) ? render_place_file(x->store, from, to, name, &st) : 0;
}

/* --- All paths ----------------------------------------------------------------------------------------- */

/* Owner, mode, attributes and times of a directory of the tree, from the uppermost layer that has it. */
static int copy_metadata(const Rendering *x, const char *path)
{
        const char *relative = path[1] ? path + 1 : ".";
        _cleanup_close_ int to = open_beneath(x->root_fd, relative, O_RDONLY | O_DIRECTORY), from = -ENOENT;
        struct stat st;

        if (to == -ENOTDIR || to == -ELOOP || to == -ENOENT)
                return 0;
        if (to < 0)
                return to;
        for (size_t i = 0; i < x->n_layers && from < 0; i++)
                from = open_beneath(x->layer_fds[i], relative, O_RDONLY | O_DIRECTORY);
        if (from < 0)
                return from;
        int r = directory_copy_metadata(x->store, from, to, &st);
        if (r < 0)
                return r;
        const struct timespec times[2] = {st.st_atim, st.st_mtim};
        return futimens(to, times) < 0 ? -errno : 0;
}

/* The length of the parent directories that PATH shares with PREVIOUS, the path before it. */
static size_t common_part(const char *previous, const char *path)
{
        size_t n = 0, common = 0;

        for (; previous && path[n]; n++) {
                if (path[n] == '/' && (previous[n] == '/' || !previous[n]))
                        common = n;
                if (previous[n] != path[n])
                        break;
        }
        return common;
}

/* Visits the listed paths, and their parent directories, parents first, each once. LAYER_FD: add the layer's
 * files; negative: copy the metadata of directories. */
static int walk_paths(Rendering *x, int layer_fd, Error *e)
{
        const char *previous = NULL;

        for (size_t i = 0; i < x->n_paths; previous = x->paths[i++]) {
                _cleanup_free_ char *path = strdup(x->paths[i]);
                if (!path)
                        return error_oom(e);
                if (streq(path, "/"))
                        continue; /* always exists */
                for (char *p = path + common_part(previous, path) + 1; p;) {
                        char *slash = strchr(p, '/');
                        if (slash)
                                *slash = 0;
                        int r = layer_fd < 0 ? copy_metadata(x, path) : place(x, layer_fd, path, !slash);
                        if (r < 0) {
                                _cleanup_free_ char *shown = text_escape_for_terminal(path);
                                return error_set_errno(e, r, "Cannot render %s", shown ?: "a path");
                        }
                        if (slash)
                                *slash = '/';
                        p = slash ? slash + 1 : NULL;
                }
        }
        return 0;
}

static int open_layers(Rendering *x, Error *e)
{
        size_t n = strv_length(x->layers);

        x->layer_fds = calloc(n + 1, sizeof(int));
        if (!x->layer_fds)
                return error_oom(e);
        for (; x->n_layers < n; x->n_layers++) {
                int fd = open_beneath(x->store->fd, x->layers[x->n_layers], O_PATH | O_DIRECTORY);
                if (fd < 0)
                        return error_set_errno(e, fd, "Cannot open the layer %s", x->layers[x->n_layers]);
                x->layer_fds[x->n_layers] = fd;
        }
        return 0;
}

static int make_tree(int dir_fd, void *userdata, Error *e)
{
        Rendering *x = userdata;

        if (mkdirat(dir_fd, "rootfs", 0700) < 0)
                return error_set_errno(e, errno, "Cannot create a directory in the store");
        x->root_fd = openat(dir_fd, "rootfs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (x->root_fd < 0)
                return error_set_errno(e, errno, "Cannot open a directory in the store");
        int r = open_layers(x, e);
        for (size_t i = x->n_layers; r >= 0 && i-- > 0;)
                r = walk_paths(x, x->layer_fds[i], e);
        if (r >= 0)
                r = walk_paths(x, -EBADF, e);
        if (r < 0)
                return r;
        r = copy_metadata(x, "/");
        return r < 0 ? error_set_errno(e, r, "Cannot set the metadata of the root") : 0;
}

int render_whitelist(Store *s, char *const *layers, char *const *paths, char **ret, Error *e)
{
        _cleanup_(rendering_done) Rendering x = {.store = s, .layers = layers, .root_fd = -EBADF};

        int r = read_paths(&x, paths, e);
        if (r < 0)
                return r;
        const RenderedTree t = {
                        .store = s,
                        .layers = layers,
                        .paths = x.paths,
                        .n_paths = x.n_paths,
                        .make = make_tree,
                        .userdata = &x,
        };
        return rendered_get(&t, ret, e);
}
