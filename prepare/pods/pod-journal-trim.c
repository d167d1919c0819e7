/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Frees what the journal of an ended pod has allocated and never written.
 *
 * journald allocates a journal file in steps of 4 MiB, and a pod that has said little uses some pages of that. The ranges that
 * are not written read as zeros before and after, so the content of a file stays the same whatever it is: nothing is
 * interpreted. Files of a pod are untrusted: they are opened beneath its directory, and regular files only. It is a convenience:
 * failures are not reported.
 */

#include <fcntl.h>
#include <sys/stat.h>

#include "prepare/pods/pods-internal.h"

#define FILES_MAX 64U  /* of a pod */
#define RANGES_MAX 64U /* of a file */

static void free_unwritten(int fd, off_t size)
{
        off_t at = 0;

        for (unsigned i = 0; i < RANGES_MAX && at < size; i++) {
                off_t from = lseek(fd, at, SEEK_HOLE), to;

                if (from < 0 || from >= size)
                        return;
                to = lseek(fd, from, SEEK_DATA);
                if (to < 0) /* ENXIO: up to the end */
                        to = size;
                if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from, to - from) < 0)
                        return;
                at = to;
        }
}

static void trim_file(int dir_fd, const char *name)
{
        _cleanup_close_ int fd =
                        openat(dir_fd, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return;
        /* What journald has mapped and not written is in the kernel's cache, and counts as written for as long. What it has written stays. */
        (void) posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        free_unwritten(fd, st.st_size);
}

void pod_journal_trim(const Pod *p)
{
        _cleanup_close_ int fd = -EBADF;
        _cleanup_strv_free_ char **names = NULL;
        char id[POD_MACHINE_ID_SIZE], path[sizeof("root/var/log/journal/") + POD_MACHINE_ID_SIZE];

        pod_machine_id(p, id);
        snprintf(path, sizeof(path), "root/var/log/journal/%s", id);
        fd = open_beneath(p->dir_fd, path, O_RDONLY | O_DIRECTORY);
        if (fd < 0 || list_names(fd, &names) < 0)
                return;
        unsigned n = 0;
        STRV_FOREACH (name, names)
                if (endswith(*name, ".journal") && n++ < FILES_MAX)
                        trim_file(fd, *name);
}
