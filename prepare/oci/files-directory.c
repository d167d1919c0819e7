/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Files of an image layout that is a directory, and the common part of both kinds of files.
 *
 * The directory is untrusted: names are walked by descriptor, no symlink is followed, and nothing but
 * regular files is opened.
 */

#include <sys/stat.h>

#include "prepare/oci/oci-internal.h"

Files *files_free(Files *f)
{
        if (f)
                f->free(f);
        return NULL;
}

int document_read(int fd, uint64_t size, const char *what, const char *name, char **ret, size_t *ret_size,
                  Error *e)
{
        _cleanup_free_ char *text = NULL;

        if (size > MANIFEST_SIZE_MAX)
                return error_set(e, -EFBIG, "The %s %s is longer than %u bytes", what, name,
                                 MANIFEST_SIZE_MAX);
        text = malloc(size + 1);
        if (!text)
                return error_oom(e);
        ssize_t n = loop_read(fd, text, size);
        if (n < 0)
                return error_set_errno(e, (int) n, "Cannot read the %s %s", what, name);
        text[n] = 0;
        *ret = TAKE_PTR(text);
        *ret_size = (size_t) n;
        return 0;
}

int files_read(Files *f, const char *name, char **ret, size_t *ret_size, Error *e)
{
        _cleanup_close_ int fd = -EBADF;
        uint64_t size;

        int r = f->open(f, name, &fd, &size, e);
        return r < 0 ? r : document_read(fd, size, "file", name, ret, ret_size, e);
}

/* --- Directories --------------------------------------------------------------------------------------- */

typedef struct Directory {
        Files files;
        int fd;
} Directory;

static int directory_open(Files *f, const char *name, int *ret_fd, uint64_t *ret_size, Error *e)
{
        Directory *d = (Directory *) f;
        _cleanup_close_ int fd = open_beneath(d->fd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
        struct stat st;

        if (fd == -ENOENT)
                return -ENOENT;
        if (fd == -ELOOP)
                return error_set(e, -ELOOP, "The path of the file %s of the layout contains a symbolic link",
                                 name);
        if (fd < 0 || fstat(fd, &st) < 0)
                return error_set_errno(e, fd < 0 ? fd : -errno, "Cannot open the file %s of the layout",
                                       name);
        if (!S_ISREG(st.st_mode))
                return error_set(e, -EBADMSG, "The file %s of the layout is not a regular file", name);
        *ret_fd = TAKE_FD(fd);
        *ret_size = (uint64_t) st.st_size;
        return 0;
}

static void directory_free(Files *f)
{
        Directory *d = (Directory *) f;

        safe_close(d->fd);
        free(d);
}

int files_open_directory(const char *dir, Files **ret, Error *e)
{
        _cleanup_close_ int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0) {
                int r = error_set_errno(e, errno, "Cannot open the image layout");
                return r == -ENOENT || r == -ENOTDIR
                                       ? error_hint(e, r,
                                                    "Give a directory, and the tag after a colon: "
                                                    "oci:DIR:TAG; for archives use oci-archive:.")
                                       : r;
        }
        Directory *d = calloc(1, sizeof(Directory));
        if (!d)
                return error_oom(e);
        *d = (Directory){.files = {directory_open, directory_free}, .fd = TAKE_FD(fd)};
        *ret = &d->files;
        return 0;
}
