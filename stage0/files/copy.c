/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Copies a tree of files, from descriptor to descriptor.
 *
 * On one of the sides an app may exchange files concurrently. So no name is resolved twice: each file is
 * opened once, without following symlinks and without side effects (O_PATH), and its type, attributes and
 * content are read through this descriptor. Directories are entered by descriptor, on both sides, and a new
 * directory is owned by the copying process, and inaccessible to others, until it is complete. If there is
 * another file in place of a directory, the copy ends.
 *
 * Directories are read incrementally, however many entries they have. The open directories are kept in a
 * bounded list; besides that only files with several names are remembered.
 */

#include <dirent.h>
#include <search.h>

#include "stage0/files/files-internal.h"

typedef struct Level {
        DIR *dir;
        int to_fd; /* destination of its entries */
        struct stat st;
        bool made;        /* created here, so that it gets its attributes at the end */
        size_t path_size; /* of the directory's own path */
} Level;

/* A file with several names, and the first of these in the copy. */
typedef struct Link {
        dev_t device;
        ino_t inode;
        char path[];
} Link;

typedef struct Copy {
        const Attributes *attributes;
        const Operation *operation;
        const FilesNotes *notes;
        const char *shown; /* name of the source in messages */
        int top_fd;        /* what paths in the target are relative to */
        size_t skip;       /* length of the prefix that is not part of the source's path */
        struct stat top;   /* the copied directory, so that it is not copied into itself */
        Level *levels;
        size_t n_levels, allocated;
        void *links; /* a tree of tsearch() */
        uint64_t n_entries;
        char path[PATH_SIZE_MAX + 1]; /* in the target, from top_fd on */
} Copy;

static void copy_done(Copy *c)
{
        while (c->n_levels > 0) {
                Level *l = &c->levels[--c->n_levels];
                closedir(l->dir);
                safe_close(l->to_fd);
        }
        free(c->levels);
        tdestroy(c->links, free);
}

/* --- Messages ------------------------------------------------------------------------------------------ */

/* The current file, by its path on the side of the source. */
static char *show_path(const Copy *c)
{
        _cleanup_free_ char *path = NULL;
        size_t n = strlen(c->shown);

        const char *inside = c->path + MIN(c->skip, strlen(c->path));
        inside += *inside == '/';
        if (xasprintf(&path, "%s%s%s", c->shown, *inside && n > 0 && c->shown[n - 1] != '/' ? "/" : "",
                      inside) < 0)
                return NULL;
        return text_escape_for_terminal(path);
}

static int copy_error(const Copy *c, int code, Error *e)
{
        _cleanup_free_ char *shown = show_path(c);

        if (e && e->code == code && operation_ended(code))
                return code;
        if (code == -EISDIR || code == -EEXIST)
                return error_set(e, code, "Cannot copy '%s': there is a directory in its place",
                                 shown ?: "?");
        if (code == -EBUSY) {
                int r = error_set(e, code, "Cannot copy '%s': a file is mounted in its place", shown ?: "?");
                return error_hint(e, r, "If that is a volume of the pod, write to its file on the host.");
        }
        if (code == -ENOTDIR || code == -ELOOP)
                return error_set(e, code, "Cannot copy the directory '%s': something else is in its place",
                                 shown ?: "?");
        if (code == -ESTALE)
                return error_set(e, code, "Cannot copy '%s': it was exchanged while it was created",
                                 shown ?: "?");
        return error_set_errno(e, code, "Cannot copy '%s'", shown ?: "?");
}

static void note(const Copy *c, const char *why)
{
        _cleanup_free_ char *shown = why && c->notes->note ? show_path(c) : NULL;

        if (shown)
                c->notes->note(shown, why, c->notes->userdata);
}

/* --- Directories --------------------------------------------------------------------------------------- */

/* Opens the directory NAME of the target, creating it if it is missing. */
static int open_or_make(const Attributes *a, int dir_fd, const char *name, bool *ret_made)
{
        struct stat st;

        bool made = mkdirat(dir_fd, name, 0700) >= 0;
        if (!made && errno != EEXIST)
                return -errno;
        int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        /* The owner shows that it was created here. */
        if (made && (fstat(fd, &st) < 0 || st.st_uid != attributes_maker(a))) {
                safe_close(fd);
                return -ESTALE;
        }
        *ret_made = made;
        return fd;
}

static int push(Copy *c, int from_fd, int to_fd, const struct stat *st, bool made)
{
        int fd = fd_reopen(from_fd, O_RDONLY | O_DIRECTORY);
        DIR *dir = fd < 0 ? NULL : fdopendir(fd);

        if (!dir) {
                int r = fd < 0 ? fd : -errno;
                safe_close(fd);
                safe_close(to_fd);
                return r;
        }
        c->levels[c->n_levels++] = (Level){
                        .dir = dir, .to_fd = to_fd, .st = *st, .made = made, .path_size = strlen(c->path)};
        return 0;
}

static bool is_top(const Copy *c, const struct stat *st)
{
        return c->top.st_ino != 0 && c->top.st_ino == st->st_ino && c->top.st_dev == st->st_dev;
}

/* The destination is NAME in DIR_FD; NULL: DIR_FD itself. */
static int enter(Copy *c, int from_fd, const struct stat *st, int dir_fd, const char *name, Error *e)
{
        bool made = false;

        if (c->n_levels >= PATH_DEPTH_MAX)
                return copy_error(c, -E2BIG, e);
        if (GREEDY_REALLOC(c->levels, c->allocated, c->n_levels + 1) < 0)
                return error_oom(e);
        if (is_kernel_file_system(from_fd)) {
                note(c, "it is a kernel file system");
                return 0;
        }
        if (is_top(c, st)) {
                note(c, "it is the target itself");
                return 0;
        }
        int fd = name ? open_or_make(c->attributes, dir_fd, name, &made)
                      : openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return copy_error(c, name ? fd : -errno, e);
        if (c->n_levels == 0)
                (void) fstat(fd, &c->top);
        int r = push(c, from_fd, fd, st, made);
        return r < 0 ? copy_error(c, r, e) : 0;
}

static int leave(Copy *c, Error *e)
{
        Level *l = &c->levels[c->n_levels - 1];
        const char *why = NULL;
        int r = 0;

        c->path[l->path_size] = 0;
        if (l->made)
                r = attributes_copy(c->attributes, dirfd(l->dir), &l->st, l->to_fd, &why);
        if (r < 0)
                return copy_error(c, r, e);
        note(c, why);
        closedir(l->dir);
        safe_close(l->to_fd);
        c->n_levels--;
        return 0;
}

/* --- Files --------------------------------------------------------------------------------------------- */

static int compare_links(const void *a, const void *b)
{
        const Link *x = a, *y = b;

        if (x->device != y->device)
                return x->device < y->device ? -1 : 1;
        return x->inode != y->inode ? (x->inode < y->inode ? -1 : 1) : 0;
}

/* An earlier name of this file in the copy, or NULL, in which case this one is remembered. */
static int find_link(Copy *c, const struct stat *st, const char **ret)
{
        size_t size = strlen(c->path) + 1;
        Link *link = malloc(sizeof(Link) + size);

        if (!link)
                return -ENOMEM;
        link->device = st->st_dev;
        link->inode = st->st_ino;
        memcpy(link->path, c->path, size);
        Link *const *found = tsearch(link, &c->links, compare_links);
        if (!found || *found != link)
                free(link);
        if (!found)
                return -ENOMEM;
        *ret = *found == link ? NULL : (*found)->path;
        return 0;
}

static int link_to(const Copy *c, const char *path, int dir_fd, const char *name)
{
        const char *slash = strrchr(path, '/');
        _cleanup_free_ char *parent = slash ? strndup(path, (size_t) (slash - path)) : strdup(".");
        _cleanup_close_ int fd = -EBADF;

        if (!parent)
                return -ENOMEM;
        fd = open_beneath(c->top_fd, parent, O_PATH | O_DIRECTORY);
        return fd < 0 ? fd : hard_link_copy(fd, slash ? slash + 1 : path, dir_fd, name);
}

static int copy_regular(Copy *c, int from_fd, const struct stat *st, int dir_fd, const char *name,
                        const char **why, Error *e)
{
        const char *earlier = NULL;
        int r = st->st_nlink > 1 ? find_link(c, st, &earlier) : 0;

        if (r < 0)
                return r;
        /* If the earlier name does not exist any more, an app has removed it: the file is copied again. */
        if (earlier && link_to(c, earlier, dir_fd, name) >= 0)
                return 0;
        return file_copy(c->attributes, from_fd, st, dir_fd, name, c->operation, why, e);
}

static int copy_entry(Copy *c, int from_fd, const struct stat *st, int dir_fd, const char *name, Error *e)
{
        const char *why = NULL;
        int r = operation_check(c->operation, e);

        if (r < 0)
                return r;
        if (++c->n_entries > ENTRIES_MAX)
                return error_set(e, -E2BIG, "Cannot copy '%s': there are more than %u files", c->shown,
                                 ENTRIES_MAX);
        if (S_ISDIR(st->st_mode))
                return enter(c, from_fd, st, dir_fd, name, e);
        if (S_ISREG(st->st_mode))
                r = copy_regular(c, from_fd, st, dir_fd, name, &why, e);
        else if (S_ISLNK(st->st_mode))
                r = symlink_copy(c->attributes, from_fd, st, dir_fd, name);
        else
                why = "it is a device, a socket or a FIFO";
        if (r < 0)
                return copy_error(c, r, e);
        note(c, why);
        return 0;
}

/* --- The walk ------------------------------------------------------------------------------------------ */

static int append_name(Copy *c, const Level *l, const char *name, Error *e)
{
        size_t n = strlen(name), at = l->path_size;

        c->path[at] = 0;
        if (at + 1 + n > PATH_SIZE_MAX)
                return copy_error(c, -ENAMETOOLONG, e);
        if (at > 0)
                c->path[at++] = '/';
        memcpy(c->path + at, name, n + 1);
        return 0;
}

static int visit(Copy *c, const char *name, Error *e)
{
        Level *l = &c->levels[c->n_levels - 1];
        int to_fd = l->to_fd;
        struct stat st;

        if (streq(name, ".") || streq(name, ".."))
                return 0;
        int r = append_name(c, l, name, e);
        if (r < 0)
                return r;
        _cleanup_close_ int fd = openat(dirfd(l->dir), name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && errno == ENOENT) {
                note(c, "it was removed meanwhile");
                return 0;
        }
        if (fd < 0 || fstat(fd, &st) < 0)
                return copy_error(c, -errno, e);
        return copy_entry(c, fd, &st, to_fd, name, e);
}

static int walk(Copy *c, Error *e)
{
        int r = 0;

        while (r >= 0 && c->n_levels > 0) {
                errno = 0;
                struct dirent *de = readdir(c->levels[c->n_levels - 1].dir);
                if (!de && errno != 0)
                        r = copy_error(c, -errno, e);
                else
                        r = de ? visit(c, de->d_name, e) : leave(c, e);
        }
        return r;
}

int tree_copy(const Source *source, const Target *target, const char *shown, const Attributes *a,
              const CopyOptions *o, Error *e)
{
        _cleanup_(copy_done) Copy c = {.attributes = a,
                                       .operation = o->operation,
                                       .notes = &o->notes,
                                       .shown = shown,
                                       .top_fd = target->dir_fd};
        const char *name = target->name ?: source->content ? target->name : source->name;

        if (!name && !S_ISDIR(source->st.st_mode))
                return error_set(e, -EINVAL, "Cannot copy '%s': it has no name", shown);
        snprintf(c.path, sizeof(c.path), "%s", name ?: "");
        c.skip = strlen(c.path);
        int r = copy_entry(&c, source->fd, &source->st, target->dir_fd, name, e);
        return r < 0 ? r : walk(&c, e);
}
