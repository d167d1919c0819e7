/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Output files that appear atomically.
 *
 * If the file system supports it, a file has no name until it is complete (O_TMPFILE), so that nothing is
 * left of it however the process ends. Otherwise it has a hidden temporary name, which is removed in every
 * case except SIGKILL. A file that must not be replaced is not replaced even if it was created meanwhile.
 */

#include <linux/fs.h>
#include <sys/stat.h>

#include "prepare/build/build.h"

static int open_directory(const char *path, int *ret_fd, char **ret_name, Error *e)
{
        const char *slash = strrchr(path, '/');
        _cleanup_free_ char *dir = slash ? strndup(path, (size_t) (slash - path + 1)) : strdup(".");
        _cleanup_free_ char *name = strdup(slash ? slash + 1 : path);

        if (!dir || !name)
                return error_oom(e);
        int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0) {
                int r = error_set_errno(e, errno, "Cannot write '%s': cannot open its directory", path);
                return r == -ENOENT ? error_hint(e, r, "Create it first, or name another file.") : r;
        }
        *ret_fd = fd;
        *ret_name = TAKE_PTR(name);
        return 0;
}

static int exists_error(const Output *o, Error *e)
{
        int r = error_set(e, -EEXIST, "Cannot write '%s': it already exists", o->path);

        return error_hint(e, r, "Name another file, or replace it with --force.");
}

static int check_free(const Output *o, bool replace, Error *e)
{
        struct stat st;

        if (fstatat(o->dir_fd, o->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : error_set_errno(e, errno, "Cannot write '%s'", o->path);
        if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode)) {
                int r = error_set(e, -EEXIST, "Cannot write '%s': it exists and is not a regular file",
                                  o->path);
                return error_hint(e, r, "Name a file.");
        }
        return replace ? 0 : exists_error(o, e);
}

static int random_name(const char *name, char **ret)
{
        char hex[RANDOM_HEX_SIZE];
        int r = random_hex(hex);

        /* The name may already have the maximum length, so only its beginning is used. */
        return r < 0 ? r : xasprintf(ret, ".%.200s.%s", name, hex);
}

static int open_named(Output *o, mode_t mode)
{
        int r = random_name(o->name, &o->temporary);

        if (r < 0)
                return r;
        o->fd = openat(o->dir_fd, o->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
        if (o->fd >= 0)
                return 0;
        r = -errno;
        free(TAKE_PTR(o->temporary));
        return r;
}

int output_open(const char *path, bool replace, Output *ret, Error *e)
{
        _cleanup_(output_done) Output o = OUTPUT_NULL;

        o.path = text_escape_for_terminal(path);
        if (!o.path)
                return error_oom(e);
        int r = open_directory(path, &o.dir_fd, &o.name, e);
        if (r >= 0)
                r = check_free(&o, replace, e);
        if (r < 0)
                return r;
        o.fd = openat(o.dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
        if (o.fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT))
                r = open_named(&o, 0666);
        else if (o.fd < 0)
                r = -errno;
        if (r >= 0 && fchmod(o.fd, 0666U & ~umask_of_caller()) < 0)
                r = -errno;
        if (r < 0)
                return error_set_errno(e, r, "Cannot write '%s'", o.path);
        *ret = TAKE_GENERIC(o, Output, OUTPUT_NULL);
        return 0;
}

int output_scratch(int dir_fd, int *ret_fd, Error *e)
{
        _cleanup_(output_done) Output o = OUTPUT_NULL;
        int r = 0;

        o.fd = openat(dir_fd, ".", O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);
        if (o.fd >= 0) {
                *ret_fd = TAKE_FD(o.fd);
                return 0;
        }
        o.dir_fd = fcntl(dir_fd, F_DUPFD_CLOEXEC, 3);
        o.name = strdup("scratch");
        r = o.dir_fd < 0 ? -errno : !o.name ? -ENOMEM : open_named(&o, 0600);
        if (r < 0)
                return error_set_errno(e, r, "Cannot create a temporary file");
        *ret_fd = TAKE_FD(o.fd);
        return 0; /* its temporary name is removed */
}

/* Gives the unnamed file its final name, or a temporary one if an existing file is to be replaced. */
static int link_output(Output *o, bool replace)
{
        char link[32];

        snprintf(link, sizeof(link), "/proc/self/fd/%d", o->fd);
        if (linkat(AT_FDCWD, link, o->dir_fd, o->name, AT_SYMLINK_FOLLOW) >= 0)
                return 1;
        if (errno != EEXIST || !replace)
                return -errno;
        int r = random_name(o->name, &o->temporary);
        if (r < 0)
                return r;
        if (linkat(AT_FDCWD, link, o->dir_fd, o->temporary, AT_SYMLINK_FOLLOW) >= 0)
                return 0;
        r = -errno;
        free(TAKE_PTR(o->temporary));
        return r;
}

static int publish(Output *o, bool replace)
{
        int r = o->temporary ? 0 : link_output(o, replace);

        if (r != 0)
                return MIN(r, 0);
        if (renameat2(o->dir_fd, o->temporary, o->dir_fd, o->name, replace ? 0 : RENAME_NOREPLACE) < 0)
                return -errno;
        free(TAKE_PTR(o->temporary));
        return 0;
}

int output_publish(Output *o, bool replace, Error *e)
{
        int r = fsync(o->fd) < 0 ? -errno : publish(o, replace);

        if (r == -EEXIST)
                return exists_error(o, e);
        if (r >= 0)
                r = fsync_dir(o->dir_fd);
        return r < 0 ? error_set_errno(e, r, "Cannot write '%s'", o->path) : 0;
}

void output_done(Output *o)
{
        if (o->temporary)
                (void) unlinkat(o->dir_fd, o->temporary, 0);
        safe_close(o->fd);
        safe_close(o->dir_fd);
        free(o->temporary);
        free(o->name);
        free(o->path);
        *o = OUTPUT_NULL;
}
