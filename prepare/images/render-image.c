/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Renders the root of an image as a plain directory (spec: ace.md, "Filesystem Setup"): the files that an
 * app of it would see, without a mount.
 *
 * The layers are merged as overlayfs does it. In each directory a name is that of the uppermost layer that
 * has it; a character device 0:0 there means that it does not exist; directories of one name are merged down
 * to the first layer that has another type of file there, or marks the directory as "opaque". Files are
 * cloned if the file system supports that, otherwise copied with their holes; hard links of one layer stay
 * hard links.
 *
 * All operations use descriptors, in a private directory. Directories get their metadata after everything
 * has been created, the deepest first, as creating entries would change it.
 *
 * Outside of the store an image is not to give rights on the host: unless it is asked for, files have no set-ID bits, no capabilities and
 * no ACLs there, and device nodes are left out, which images in the store may have that were unpacked by earlier versions.
 */

#include <dirent.h>
#include <search.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "prepare/images/images-internal.h"

#define NAMES_MAX (64U * 1024U)

typedef struct Directory {
        char *path;     /* relative, "." for the top */
        size_t *layers; /* layers whose directories of that path are merged, uppermost first */
        size_t n_layers;
} Directory;

/* A file with several hard links, the first of which has been created. */
typedef struct Link {
        size_t layer;
        ino_t inode;
        char *path;
} Link;

typedef struct Merge {
        const Store *store;
        int *layer_fds;
        size_t n_layers;
        int top_fd;
        Directory *pending; /* a stack */
        size_t n_pending, pending_allocated;
        Directory *done; /* parents before children */
        size_t n_done, done_allocated;
        void *links;
        char *names, *value; /* of attributes */
        bool archive;
        unsigned n_reduced; /* files that are not as in the image */
} Merge;

static void directory_done(Directory *d)
{
        free(d->path);
        free(d->layers);
}

static void link_free(void *p)
{
        Link *l = p;

        free(l->path);
        free(l);
}

static void merge_done(Merge *m)
{
        for (size_t i = 0; i < m->n_layers; i++)
                safe_close(m->layer_fds[i]);
        for (size_t i = 0; i < m->n_pending; i++)
                directory_done(&m->pending[i]);
        for (size_t i = 0; i < m->n_done; i++)
                directory_done(&m->done[i]);
        tdestroy(m->links, link_free);
        free(m->layer_fds);
        free(m->pending);
        free(m->done);
        free(m->names);
        free(m->value);
}

static int render_error(Error *e, int code, const char *path, const char *what)
{
        _cleanup_free_ char *shown = text_escape_for_terminal(path);

        return error_set_errno(e, code, "Cannot %s '%s'", what, shown ?: "?");
}

/* --- Metadata ------------------------------------------------------------------------------------------ */

static int copy_xattrs(Merge *m, const char *from, const char *to)
{
        ssize_t n = llistxattr(from, m->names, NAMES_MAX);

        if (n < 0)
                return errno == EOPNOTSUPP ? 0 : -errno;
        for (const char *p = m->names; p < m->names + n; p += strlen(p) + 1) {
                /* Attributes of overlayfs do not belong to the result, and labels are the host's. */
                if (startswith(p, "trusted.overlay.") || startswith(p, "user.overlay.") ||
                    startswith(p, "security.selinux") || startswith(p, "btrfs."))
                        continue;
                if (!m->archive && !startswith(p, "user.")) {
                        m->n_reduced++;
                        continue;
                }
                ssize_t k = lgetxattr(from, p, m->value, NAMES_MAX);
                if (k < 0 || lsetxattr(to, p, m->value, (size_t) k, 0) < 0)
                        return -errno;
        }
        return 0;
}

/* Copies the metadata of NAME in FROM_FD to NAME in TO_FD. */
static int copy_metadata(Merge *m, int from_fd, int to_fd, const char *name, const struct stat *st)
{
        const struct timespec times[2] = {st->st_atim, st->st_mtim};
        char from[PATH_MAX], to[PATH_MAX];

        snprintf(from, sizeof(from), "/proc/self/fd/%d/%s", from_fd, name);
        snprintf(to, sizeof(to), "/proc/self/fd/%d/%s", to_fd, name);
        if (fchownat(to_fd, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0 &&
            !(errno == EPERM && m->store->flags & STORE_UNPRIVILEGED))
                return -errno;
        /* It is not a symlink, and no other process accesses the directory. */
        mode_t special = S_ISDIR(st->st_mode) || !S_ISREG(st->st_mode) ? S_ISUID : S_ISUID | S_ISGID;
        m->n_reduced += !m->archive && st->st_mode & special;
        if (!S_ISLNK(st->st_mode) &&
            fchmodat(to_fd, name, st->st_mode & (m->archive ? 07777U : 01777U), 0) < 0)
                return -errno;
        int r = copy_xattrs(m, from, to);
        if (r < 0)
                return r;
        return utimensat(to_fd, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

/* --- Files --------------------------------------------------------------------------------------------- */

static int make_file(const Merge *m, int from_fd, int to_fd, const char *name, const struct stat *st)
{
        _cleanup_close_ int from =
                        openat(from_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
        _cleanup_close_ int to = -EBADF;

        if (from < 0)
                return -errno;
        to = openat(to_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        return to < 0 ? -errno : file_copy_content(from, to, st->st_size, m->store->operation);
}

static int make_symlink(int from_fd, int to_fd, const char *name)
{
        char target[PATH_MAX];
        ssize_t n = readlinkat(from_fd, name, target, sizeof(target));

        if (n < 0 || (size_t) n >= sizeof(target))
                return n < 0 ? -errno : -ENAMETOOLONG;
        target[n] = 0;
        return symlinkat(target, to_fd, name) < 0 ? -errno : 0;
}

static int compare_links(const void *a, const void *b)
{
        const Link *x = a, *y = b;

        if (x->inode != y->inode)
                return x->inode < y->inode ? -1 : 1;
        return x->layer < y->layer ? -1 : x->layer > y->layer;
}

/* 1: it was created as a link to an existing one. 0: it is the first, whose path is recorded. */
static int make_link(Merge *m, size_t layer, int to_fd, const char *name, const char *path, ino_t inode)
{
        Link *l = calloc(1, sizeof(Link));
        _cleanup_close_ int fd = -EBADF;

        if (!l)
                return -ENOMEM;
        *l = (Link){.layer = layer, .inode = inode, .path = strdup(path)};
        Link **there = l->path ? tsearch(l, &m->links, compare_links) : NULL;
        if (there && *there == l)
                return 0;
        link_free(l);
        if (!there)
                return -ENOMEM;
        char *slash = strrchr((*there)->path, '/');
        *slash = 0;
        fd = open_beneath(m->top_fd, (*there)->path, O_PATH | O_DIRECTORY);
        *slash = '/';
        if (fd < 0)
                return fd;
        return linkat(fd, slash + 1, to_fd, name, 0) < 0 ? -errno : 1;
}

/* Anything but a directory. */
static int make_other(Merge *m, size_t layer, int from_fd, int to_fd, const char *name, const char *path,
                      const struct stat *st)
{
        int r = 0;

        if (!m->archive && (S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode))) {
                m->n_reduced++;
                return 0;
        }
        if (st->st_nlink > 1 && S_ISREG(st->st_mode))
                r = make_link(m, layer, to_fd, name, path, st->st_ino);
        if (r != 0)
                return r < 0 ? r : 0;
        if (S_ISREG(st->st_mode))
                r = make_file(m, from_fd, to_fd, name, st);
        else if (S_ISLNK(st->st_mode))
                r = make_symlink(from_fd, to_fd, name);
        else if (mknodat(to_fd, name, (st->st_mode & S_IFMT) | 0600, st->st_rdev) < 0)
                r = -errno;
        return r < 0 ? r : copy_metadata(m, from_fd, to_fd, name, st);
}

/* --- Directories --------------------------------------------------------------------------------------- */

static bool is_opaque(int parent_fd, const char *name)
{
        _cleanup_close_ int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        return fd >= 0 && unpack_is_opaque(fd);
}

/* Determines from which layers the content of the directory NAME of D comes, beginning with the FIRSTth of
 * D. */
static int push_directory(Merge *m, const Directory *d, const int *fds, size_t first, const char *name,
                          const char *path)
{
        Directory x = {.path = strdup(path), .layers = calloc(d->n_layers, sizeof(size_t))};
        struct stat st;

        if (!x.path || !x.layers || GREEDY_REALLOC(m->pending, m->pending_allocated, m->n_pending + 1) < 0) {
                directory_done(&x);
                return -ENOMEM;
        }
        for (size_t i = first; i < d->n_layers; i++) {
                if (fstatat(fds[i], name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
                        if (errno == ENOENT)
                                continue;
                        int r = -errno;
                        directory_done(&x);
                        return r;
                }
                if (!S_ISDIR(st.st_mode))
                        break;
                x.layers[x.n_layers++] = d->layers[i];
                if (is_opaque(fds[i], name))
                        break;
        }
        m->pending[m->n_pending++] = x;
        return 0;
}

/* Whether one of the layers above the one at AT has the name. */
static bool is_hidden(const int *fds, size_t at, const char *name)
{
        struct stat st;

        for (size_t i = 0; i < at; i++)
                if (fstatat(fds[i], name, &st, AT_SYMLINK_NOFOLLOW) >= 0)
                        return true;
        return false;
}

static int merge_entry(Merge *m, const Directory *d, const int *fds, size_t at, int to_fd, const char *name,
                       Error *e)
{
        _cleanup_free_ char *path = NULL;
        struct stat st;

        if (is_hidden(fds, at, name))
                return 0;
        if (xasprintf(&path, "%s/%s", d->path, name) < 0)
                return error_oom(e);
        int r = fstatat(fds[at], name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
        if (r >= 0 && unpack_is_whiteout(&st))
                return 0;
        if (r >= 0 && S_ISDIR(st.st_mode)) {
                r = mkdirat(to_fd, name, 0700) < 0 ? -errno : push_directory(m, d, fds, at, name, path);
        } else if (r >= 0)
                r = make_other(m, d->layers[at], fds[at], to_fd, name, path, &st);
        return r < 0 ? render_error(e, r, path, "render") : 0;
}

static int merge_layer(Merge *m, const Directory *d, const int *fds, size_t at, int to_fd, Error *e)
{
        int fd = openat(fds[at], ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
        DIR *dir = fd < 0 ? NULL : fdopendir(fd);
        struct dirent *de;

        if (!dir) {
                r = render_error(e, errno, d->path, "read the directory");
                safe_close(fd);
                return r;
        }
        while (r >= 0 && (errno = 0, de = readdir(dir)))
                if (!streq(de->d_name, ".") && !streq(de->d_name, ".."))
                        r = merge_entry(m, d, fds, at, to_fd, de->d_name, e);
        if (r >= 0 && errno != 0)
                r = render_error(e, errno, d->path, "read the directory");
        closedir(dir);
        return r;
}

static void close_all(int *fds, size_t n)
{
        for (size_t i = 0; i < n; i++)
                safe_close(fds[i]);
        free(fds);
}

static int open_all(const Merge *m, const Directory *d, int **ret)
{
        int *fds = calloc(d->n_layers + 1, sizeof(int));

        if (!fds)
                return -ENOMEM;
        for (size_t i = 0; i < d->n_layers; i++) {
                fds[i] = open_beneath(m->layer_fds[d->layers[i]], d->path, O_PATH | O_DIRECTORY);
                if (fds[i] < 0) {
                        int r = fds[i];
                        close_all(fds, i);
                        return r;
                }
        }
        *ret = fds;
        return 0;
}

static int merge_directory(Merge *m, const Directory *d, Error *e)
{
        _cleanup_close_ int to_fd = open_beneath(m->top_fd, d->path, O_PATH | O_DIRECTORY);
        int *fds = NULL, r = to_fd;

        if (r >= 0)
                r = open_all(m, d, &fds);
        if (r < 0)
                return render_error(e, r, d->path, "open the directory");
        for (size_t i = 0; i < d->n_layers && r >= 0; i++)
                r = merge_layer(m, d, fds, i, to_fd, e);
        close_all(fds, d->n_layers);
        return r < 0 ? r : operation_check(m->store->operation, e);
}

static int merge_all(Merge *m, Error *e)
{
        while (m->n_pending > 0) {
                if (GREEDY_REALLOC(m->done, m->done_allocated, m->n_done + 1) < 0)
                        return error_oom(e);
                m->done[m->n_done++] = m->pending[--m->n_pending];
                /* A copy of the structure: the array may move. */
                Directory d = m->done[m->n_done - 1];
                int r = merge_directory(m, &d, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* From the uppermost layer that has it. */
static int finish_directory(Merge *m, const Directory *d)
{
        _cleanup_close_ int from = open_beneath(m->layer_fds[d->layers[0]], d->path, O_RDONLY | O_DIRECTORY),
                            to = -EBADF;
        struct stat st;

        if (from < 0 || fstat(from, &st) < 0)
                return from < 0 ? from : -errno;
        to = open_beneath(m->top_fd, d->path, O_RDONLY | O_DIRECTORY);
        return to < 0 ? to : copy_metadata(m, from, to, ".", &st);
}

/* --- The tree
 * ----------------------------------------------------------------------------------------------- */

static int open_layers(Merge *m, char *const *layers, Error *e)
{
        size_t n = strv_length(layers);

        m->layer_fds = calloc(n + 1, sizeof(int));
        m->names = malloc(NAMES_MAX);
        m->value = malloc(NAMES_MAX);
        Directory top = {.path = strdup("."), .layers = calloc(n + 1, sizeof(size_t)), .n_layers = n};
        if (!m->layer_fds || !m->names || !m->value || !top.path || !top.layers ||
            GREEDY_REALLOC(m->pending, m->pending_allocated, 1) < 0) {
                directory_done(&top);
                return error_oom(e);
        }
        m->pending[m->n_pending++] = top;
        for (; m->n_layers < n; m->n_layers++) {
                int fd = open_no_symlinks(AT_FDCWD, layers[m->n_layers], O_PATH | O_DIRECTORY);
                if (fd < 0)
                        return error_set_errno(e, fd, "Cannot open the layer %s", layers[m->n_layers]);
                m->layer_fds[m->n_layers] = fd;
                top.layers[m->n_layers] = m->n_layers;
        }
        return 0;
}

int image_render(Store *s, const Image *i, int dir_fd, unsigned flags, Error *e)
{
        _cleanup_(merge_done) Merge m = {.store = s, .top_fd = dir_fd, .archive = flags & RENDER_ARCHIVE};
        _cleanup_(image_index_freep) ImageIndex *x = NULL;
        _cleanup_strv_free_ char **layers = NULL;

        int r = image_index_new(s, &x, e);
        if (r >= 0)
                r = image_layers_used(s, x, i, &layers, e);
        if (r >= 0)
                r = open_layers(&m, layers, e);
        if (r >= 0)
                r = merge_all(&m, e);
        size_t first = flags & RENDER_TOP ? 0 : 1;
        for (size_t k = m.n_done; r >= 0 && k-- > first;) {
                r = finish_directory(&m, &m.done[k]);
                if (r < 0)
                        r = render_error(e, r, m.done[k].path, "set the metadata of");
        }
        if (r >= 0 && m.n_reduced > 0)
                operation_message(
                                s->operation, LOG_LEVEL_WARNING,
                                "Files without the set-ID bits, capabilities or ACLs of the image, or left out as "
                                "device nodes: %u; --archive keeps them",
                                m.n_reduced);
        return r;
}
