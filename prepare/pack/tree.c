/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Writes a directory tree to an archive.
 *
 * The tree is walked by descriptor. Each file is opened once, without following symlinks and without side
 * effects (O_PATH); its type, attributes and content are then read through this descriptor, so that it
 * cannot be replaced in between. Its times are checked afterwards, to detect changes while a file or a
 * directory was read: an inconsistent archive is refused. Files that unpacking refuses are refused here,
 * with their name.
 *
 * The walk keeps its directories in a list, not on the stack; its depth is limited like that of archives.
 * Only files with several hard links are recorded.
 */

#include <dirent.h>
#include <search.h>
#include <sys/stat.h>

#include "prepare/pack/pack-internal.h"

#define CONTENT_SIZE (256U * 1024U)

typedef struct Level {
        int fd;
        char **names;
        size_t next;      /* index of the next name */
        size_t path_size; /* length of the directory's own path */
        struct stat st;
} Level;

/* The first name of a file with several hard links. */
typedef struct Link {
        dev_t device;
        ino_t inode;
        char path[];
} Link;

typedef struct Walk {
        TarWriter *writer;
        const TreeOptions *options;
        Level *levels;
        size_t n_levels, allocated;
        void *links; /* a tree of tsearch() */
        dev_t device;
        uint64_t n_entries;
        unsigned char *content;
        char path[PATH_SIZE_MAX + 1], target[LINK_SIZE_MAX + 2];
} Walk;

static void closedirp(DIR **d)
{
        if (*d)
                closedir(*d);
}

static void level_done(Level *l)
{
        safe_close(l->fd);
        strv_free(l->names);
}

static Walk *walk_free(Walk *w)
{
        if (!w)
                return NULL;
        while (w->n_levels > 0)
                level_done(&w->levels[--w->n_levels]);
        tdestroy(w->links, free);
        free(w->levels);
        free(w->content);
        free(w);
        return NULL;
}

DEFINE_TRIVIAL_CLEANUP_FUNC(Walk *, walk_free);

int pack_error(Error *e, int code, const char *path, const char *format, ...)
{
        _cleanup_free_ char *shown = text_escape_for_terminal(path), *why = NULL;
        va_list ap;

        va_start(ap, format);
        (void) xvasprintf(&why, format, ap);
        va_end(ap);
        return error_set(e, code, "Cannot pack '%s': %s", shown ?: "?", why ?: "?");
}

int pack_error_errno(Error *e, int code, const char *path, const char *what)
{
        code = code > 0 ? -code : code;
        int r = pack_error(e, code, path, "%s: %s", what, strerror(-code));
        if (code == -EACCES || code == -EPERM)
                return error_hint(e, r, "Pack as a user who may read all of the tree, such as root.");
        return r;
}

/* --- One file ------------------------------------------------------------------------------------------ */

static int compare_links(const void *a, const void *b)
{
        const Link *x = a, *y = b;

        if (x->device != y->device)
                return x->device < y->device ? -1 : 1;
        return x->inode != y->inode ? (x->inode < y->inode ? -1 : 1) : 0;
}

/* The earlier name of this file; NULL: there is none, and this one is recorded. */
static int find_link(Walk *w, const struct stat *st, const char **ret, Error *e)
{
        size_t size = strlen(w->path) + 1;
        Link *link = malloc(sizeof(Link) + size);

        if (!link)
                return error_oom(e);
        link->device = st->st_dev;
        link->inode = st->st_ino;
        memcpy(link->path, w->path, size);
        Link *const *found = tsearch(link, &w->links, compare_links);
        if (!found) {
                free(link);
                return error_oom(e);
        }
        *ret = *found == link ? NULL : (*found)->path;
        if (*ret)
                free(link);
        return 0;
}

static bool same_state(const struct stat *a, const struct stat *b)
{
        return a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
               a->st_mtim.tv_nsec == b->st_mtim.tv_nsec && a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
               a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static int changed_error(Error *e, const char *path, const char *what)
{
        int r = pack_error(e, -EAGAIN, path, "%s", what);

        return error_hint(e, r, "Pack a tree that nothing writes to: a copy, or a snapshot.");
}

static int check_unchanged(int fd, const struct stat *before, const char *path, Error *e)
{
        struct stat after;

        if (fstat(fd, &after) < 0)
                return pack_error_errno(e, errno, path, "cannot examine it");
        return same_state(before, &after) ? 0 : changed_error(e, path, "it changed while it was read");
}

static int add_content(Walk *w, int path_fd, const struct stat *st, Error *e)
{
        _cleanup_close_ int fd = fd_reopen(path_fd, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        uint64_t left = (uint64_t) st->st_size;

        if (fd < 0)
                return pack_error_errno(e, fd, w->path, "cannot open it");
        (void) posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
        for (;;) {
                ssize_t n = loop_read(fd, w->content, CONTENT_SIZE);
                if (n < 0)
                        return pack_error_errno(e, (int) n, w->path, "cannot read it");
                /* If the file has become longer, its times show that; only the announced size is written. */
                size_t k = (size_t) MIN((uint64_t) n, left);
                int r = k > 0 ? tar_writer_add_content(w->writer, w->content, k, e) : 0;
                if (r < 0)
                        return r;
                left -= k;
                if (k < (size_t) n || (left > 0 && n < (ssize_t) CONTENT_SIZE))
                        return changed_error(e, w->path, "its size changed while it was read");
                if (n < (ssize_t) CONTENT_SIZE)
                        return check_unchanged(fd, st, w->path, e);
        }
}

static int read_target(Walk *w, int fd, const char **ret, Error *e)
{
        ssize_t n = readlinkat(fd, "", w->target, sizeof(w->target) - 1);

        if (n < 0)
                return pack_error_errno(e, errno, w->path, "cannot read its target");
        if (n > (ssize_t) LINK_SIZE_MAX)
                return pack_error(e, -ENAMETOOLONG, w->path, "the symbolic link is longer than %u bytes",
                                  LINK_SIZE_MAX);
        w->target[n] = 0;
        *ret = w->target;
        return 0;
}

static int check_kind(const Walk *w, const struct stat *st, Error *e)
{
        if (S_ISSOCK(st->st_mode)) {
                int r = pack_error(e, -ENOTSUP, w->path, "it is a socket, which archives cannot contain");
                return error_hint(e, r, "Remove it: a socket is useless without its process.");
        }
        if (S_ISCHR(st->st_mode) && st->st_rdev == 0)
                return pack_error(e, -ENOTSUP, w->path,
                                  "a character device 0:0 is a whiteout, which images must not contain");
        return 0;
}

static int describe(Walk *w, int fd, const struct stat *st, TarEntry *x, Error *e)
{
        const TreeOptions *o = w->options;

        int r = check_kind(w, st, e);
        if (r < 0)
                return r;
        *x = (TarEntry){
                        .path = w->path,
                        .mode = st->st_mode,
                        .uid = o->owner_root ? 0 : st->st_uid,
                        .gid = o->owner_root ? 0 : st->st_gid,
                        .mtime = o->has_mtime_max ? MIN(st->st_mtim.tv_sec, o->mtime_max)
                                                  : st->st_mtim.tv_sec,
                        .size = S_ISREG(st->st_mode) ? (uint64_t) st->st_size : 0,
                        .device = st->st_rdev,
        };
        if (S_ISLNK(st->st_mode))
                return read_target(w, fd, &x->link, e);
        /* Unpacking supports hard links to regular files only. */
        if (S_ISREG(st->st_mode) && st->st_nlink > 1)
                return find_link(w, st, &x->link, e);
        return 0;
}

/* Adds the file of FD, of any type; of a directory only its own entry. */
static int add_file(Walk *w, int fd, const struct stat *st, Error *e)
{
        _cleanup_(pack_xattrs_done) PackXattrs xattrs = {};
        TarEntry x;

        int r = operation_check(tar_writer_operation(w->writer), e);
        if (r < 0)
                return r;
        if (++w->n_entries > ENTRIES_MAX)
                return error_set(e, -E2BIG, "Cannot pack the tree: it has more than %u files", ENTRIES_MAX);
        r = describe(w, fd, st, &x, e);
        if (r < 0)
                return r;
        bool has_content = S_ISREG(st->st_mode) && !x.link;
        if (S_ISLNK(st->st_mode) || !x.link)
                r = pack_xattrs_read(fd, w->path, &xattrs, e);
        const PackXattr *top = w->n_entries == 1 ? w->options->top_xattr : NULL;
        if (r >= 0 && top)
                r = pack_xattrs_add(&xattrs, top->name, top->value, top->size, e);
        if (r < 0)
                return r;
        x.xattrs = xattrs.items;
        x.n_xattrs = xattrs.n;
        x.acl_access = xattrs.acl_access;
        x.acl_default = xattrs.acl_default;
        x.size = has_content ? x.size : 0;
        r = tar_writer_add(w->writer, &x, e);
        return r < 0 || !has_content ? r : add_content(w, fd, st, e);
}

/* --- The walk ------------------------------------------------------------------------------------------ */

/* Sorted, and unlike in list_names() limited in number. */
static int read_names(int dir_fd, char ***ret)
{
        _cleanup_strv_free_ char **l = NULL;
        size_t n = 0, allocated = 0;
        struct dirent *de;

        int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        _cleanup_(closedirp) DIR *d = fdopendir(fd);
        if (!d) {
                safe_close(fd);
                return -ENOMEM;
        }
        while ((errno = 0, de = readdir(d))) {
                if (streq(de->d_name, ".") || streq(de->d_name, ".."))
                        continue;
                if (n >= ENTRIES_MAX)
                        return -E2BIG;
                if (GREEDY_REALLOC(l, allocated, n + 2) < 0)
                        return -ENOMEM;
                l[n + 1] = NULL;
                l[n] = strdup(de->d_name);
                if (!l[n++])
                        return -ENOMEM;
        }
        if (errno != 0)
                return -errno;
        strv_sort(l);
        *ret = TAKE_PTR(l);
        return 0;
}

static int enter(Walk *w, int path_fd, const struct stat *st, Error *e)
{
        if (w->n_levels >= PATH_DEPTH_MAX)
                return pack_error(e, -E2BIG, w->path, "the tree is deeper than %u directories",
                                  PATH_DEPTH_MAX);
        if (GREEDY_REALLOC(w->levels, w->allocated, w->n_levels + 1) < 0)
                return error_oom(e);
        Level *l = &w->levels[w->n_levels];
        *l = (Level){.fd = fd_reopen(path_fd, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                     .path_size = strlen(w->path)};
        if (l->fd < 0)
                return pack_error_errno(e, l->fd, w->path, "cannot open the directory");
        w->n_levels++;
        l->st = *st;
        int r = read_names(l->fd, &l->names);
        return r < 0 ? pack_error_errno(e, r, w->path, "cannot read the directory") : 0;
}

static int leave(Walk *w, Error *e)
{
        Level *l = &w->levels[w->n_levels - 1];

        w->path[l->path_size] = 0;
        int r = check_unchanged(l->fd, &l->st, w->path, e);
        if (r < 0)
                return r;
        level_done(l);
        w->n_levels--;
        return 0;
}

static int append_name(Walk *w, const Level *l, const char *name, Error *e)
{
        size_t n = strlen(name);

        w->path[l->path_size] = 0;
        /* One more byte for the slash after a directory. */
        if (l->path_size + 1 + n + 1 > PATH_SIZE_MAX)
                return pack_error(e, -ENAMETOOLONG, w->path, "it contains paths of more than %u bytes",
                                  PATH_SIZE_MAX);
        w->path[l->path_size] = '/';
        memcpy(w->path + l->path_size + 1, name, n + 1);
        return 0;
}

static int visit(Walk *w, Level *l, const char *name, Error *e)
{
        _cleanup_close_ int fd = -EBADF;
        struct stat st;

        int r = append_name(w, l, name, e);
        if (r < 0)
                return r;
        fd = openat(l->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
                return errno == ENOENT ? pack_error(e, -EAGAIN, w->path,
                                                    "it was removed while the tree was read")
                                       : pack_error_errno(e, errno, w->path, "cannot open it");
        if (w->options->leave_out && w->options->leave_out(fd, &st, w->path, w->options->userdata))
                return 0;
        r = add_file(w, fd, &st, e);
        if (r < 0 || !S_ISDIR(st.st_mode) || (w->options->one_file_system && st.st_dev != w->device))
                return r;
        return enter(w, fd, &st, e);
}

int tar_writer_add_file(TarWriter *writer, int fd, const char *name, const TreeOptions *o, Error *e)
{
        _cleanup_(walk_freep) Walk *w = calloc(1, sizeof(Walk));
        struct stat st;

        if (!w)
                return error_oom(e);
        w->writer = writer;
        w->options = o;
        w->content = malloc(CONTENT_SIZE);
        if (!w->content)
                return error_oom(e);
        snprintf(w->path, sizeof(w->path), "%s", name);
        if (fstat(fd, &st) < 0)
                return pack_error_errno(e, errno, w->path, "cannot examine it");
        w->device = st.st_dev;
        int r = add_file(w, fd, &st, e);
        if (r >= 0 && S_ISDIR(st.st_mode))
                r = enter(w, fd, &st, e);
        while (r >= 0 && w->n_levels > 0) {
                Level *l = &w->levels[w->n_levels - 1];
                const char *next = l->names ? l->names[l->next] : NULL;
                if (next)
                        l->next++;
                r = next ? visit(w, l, next, e) : leave(w, e);
        }
        return r;
}

int tar_writer_add_tree(TarWriter *writer, int dir_fd, const char *name, const TreeOptions *o, Error *e)
{
        _cleanup_close_ int fd = openat(dir_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);

        return fd < 0 ? pack_error_errno(e, errno, name, "cannot open it")
                      : tar_writer_add_file(writer, fd, name, o, e);
}

int pack_image(int rootfs_fd, const char *manifest, size_t manifest_size, const PackOptions *o, int out_fd,
               const char *what, char **ret_id, Error *e)
{
        _cleanup_(compressor_freep) Compressor *c = NULL;
        _cleanup_(tar_writer_freep) TarWriter *w = NULL;

        int r = compressor_new(o->compression, out_fd, what, o->operation, &c, e);
        if (r >= 0)
                r = tar_writer_new(c, &w, e);
        if (r >= 0)
                r = tar_writer_add_text(w, "manifest", manifest, manifest_size, e);
        if (r >= 0)
                r = tar_writer_add_tree(w, rootfs_fd, "rootfs", &o->tree, e);
        return r < 0 ? r : tar_writer_finish(w, ret_id, NULL, e);
}
