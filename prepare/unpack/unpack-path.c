/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The path of an archive's entry.
 *
 * Names are normalized here, once, to a relative path without "." and "..". It is then walked by descriptor
 * and without following symlinks, so that an entry cannot be placed outside of the directory, whatever
 * earlier entries have created. The directory of the last entry is kept open, as archives are mostly in
 * order.
 */

#include <limits.h>
#include <sys/stat.h>

#include "prepare/unpack/unpack-internal.h"

static int append_component(Text *t, const char *c, size_t n, unsigned *depth, const char *name, Error *e)
{
        if (n == 0 || (n == 1 && c[0] == '.'))
                return 0;
        if (n == 2 && c[0] == '.' && c[1] == '.')
                return unpack_error(e, -EBADMSG, name, "the name has a '..' component");
        if (n > NAME_MAX)
                return unpack_error(e, -ENAMETOOLONG, name,
                                    "a component of the name is longer than %d bytes", NAME_MAX);
        if (++*depth > PATH_DEPTH_MAX)
                return unpack_error(e, -E2BIG, name, "the name has more than %u components", PATH_DEPTH_MAX);
        if (t->size > 0)
                text_add(t, "/");
        text_add_bytes(t, c, n);
        return 0;
}

int unpack_normalize_path(const char *name, char **ret, Error *e)
{
        _cleanup_text_ Text t = {};
        unsigned depth = 0;

        if (isempty(name))
                return error_set(e, -EBADMSG, "The archive has an entry without a name");
        if (name[0] == '/')
                return unpack_error(e, -EBADMSG, name, "the name is absolute");
        if (strlen(name) > PATH_SIZE_MAX)
                return unpack_error(e, -ENAMETOOLONG, name, "the name is longer than %u bytes",
                                    PATH_SIZE_MAX);
        for (const char *p = name; *p;) {
                size_t n = strcspn(p, "/");
                int r = append_component(&t, p, n, &depth, name, e);
                if (r < 0)
                        return r;
                p += n;
                p += strspn(p, "/");
        }
        return text_take(&t, ret, NULL) < 0 ? error_oom(e) : 0;
}

#define SHOWN_MAX 200U

int unpack_error(Error *e, int code, const char *path, const char *format, ...)
{
        _cleanup_free_ char *beginning = NULL, *shown = NULL, *why = NULL;
        va_list ap;

        beginning = strndup(path, SHOWN_MAX);
        shown = beginning ? text_escape_for_terminal(beginning) : NULL;
        va_start(ap, format);
        (void) xvasprintf(&why, format, ap);
        va_end(ap);
        return error_set(e, code, "Cannot unpack '%s%s': %s", shown ?: "?",
                         strlen(path) > SHOWN_MAX ? "…" : "", why ?: "?");
}

int unpack_error_errno(Error *e, int code, const char *path, const char *what)
{
        code = code > 0 ? -code : code;
        return unpack_error(e, code, path, "%s: %s", what, strerror(-code));
}

/* Opens the directory NAME in PARENT_FD; creates it if it is missing. PATH is its whole path. */
static int open_or_make(Unpack *u, int parent_fd, const char *name, const char *path,
                        const struct timespec *mtime, int *ret_fd, Error *e)
{
        const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
        const Metadata m = {.mode = 0755, .times = {*mtime, *mtime}};
        _cleanup_close_ int fd = openat(parent_fd, name, flags);
        bool hides = false;
        struct stat st;

        /* A layer may hide a path of the layers below, and contain a new directory there itself. */
        if (fd < 0 && u->layer && fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) >= 0 &&
            unpack_is_whiteout(&st)) {
                hides = true;
                errno = unlinkat(parent_fd, name, 0) < 0 ? errno : ENOENT;
        }
        if (fd < 0 && errno == ENOENT) {
                int r = unpack_charge(u, 0, e);
                if (r < 0)
                        return r;
                if (mkdirat(parent_fd, name, DIRECTORY_MODE_IMPLIED) < 0)
                        return unpack_error_errno(e, errno, path, "cannot create the directory");
                fd = openat(parent_fd, name, flags);
                if (fd < 0 || fchmod(fd, DIRECTORY_MODE_IMPLIED) < 0) /* independent of the umask */
                        return unpack_error_errno(e, errno, path, "cannot open the new directory");
                r = metadata_defer(u, fd, &m, NULL, path, e);
                if (r >= 0 && (hides || (u->layer && unpack_hides_by_device(u, path))))
                        r = unpack_set_opaque(u, fd, path, e);
                if (r < 0)
                        return r;
        }
        if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
                return unpack_error(e, -EBADMSG, path,
                                    "it is not a directory, but the archive has entries below it");
        if (fd < 0)
                return unpack_error_errno(e, errno, path, "cannot open the directory");
        *ret_fd = TAKE_FD(fd);
        return 0;
}

/* Walks to DIRECTORY one component after the other, creating missing ones. */
static int make_directories(Unpack *u, const char *directory, const struct timespec *mtime, int *ret_fd,
                            Error *e)
{
        _cleanup_free_ char *path = strdup(directory);
        _cleanup_close_ int fd = -EBADF;

        if (!path)
                return error_oom(e);
        for (char *p = path; p;) {
                char *slash = strchr(p, '/');
                int next = -EBADF;

                if (slash)
                        *slash = 0;
                int r = open_or_make(u, fd < 0 ? u->dir_fd : fd, p, path, mtime, &next, e);
                if (r < 0)
                        return r;
                safe_close(fd);
                fd = next;
                if (slash)
                        *slash = '/';
                p = slash ? slash + 1 : NULL;
        }
        *ret_fd = TAKE_FD(fd);
        return 0;
}

static int open_directory(Unpack *u, const char *directory, const char *path, const struct timespec *mtime,
                          int *ret_fd, Error *e)
{
        int fd = directory[0] ? open_beneath(u->dir_fd, directory, O_PATH | O_DIRECTORY)
                              : open_beneath(u->dir_fd, ".", O_PATH | O_DIRECTORY);

        if (fd == -ENOENT || (fd == -ENOTDIR && u->layer))
                return make_directories(u, directory, mtime, ret_fd, e);
        if (fd == -ELOOP)
                return unpack_error(e, -EBADMSG, path,
                                    "the name leads through a symbolic link of the archive");
        if (fd == -ENOTDIR)
                return unpack_error(e, -EBADMSG, path,
                                    "the name leads through something that is not a directory");
        if (fd < 0)
                return unpack_error_errno(e, fd, path, "cannot open its directory");
        *ret_fd = fd;
        return 0;
}

int unpack_open_parent(Unpack *u, const char *path, const struct timespec *mtime, int *ret_fd,
                       const char **ret_name, Error *e)
{
        _cleanup_free_ char *directory = NULL;
        const char *slash = strrchr(path, '/');
        size_t n = slash ? (size_t) (slash - path) : 0;
        int fd = -EBADF;

        if (!u->parent || strlen(u->parent) != n || strncmp(u->parent, path, n) != 0) {
                directory = strndup(path, n);
                if (!directory)
                        return error_oom(e);
                int r = open_directory(u, directory, path, mtime, &fd, e);
                if (r < 0)
                        return r;
                safe_close(u->parent_fd);
                u->parent_fd = fd;
                free(u->parent);
                u->parent = TAKE_PTR(directory);
        }
        *ret_fd = u->parent_fd;
        *ret_name = slash ? slash + 1 : path;
        return 0;
}
