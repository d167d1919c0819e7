/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Limits what interrupted downloads occupy in downloads/, where they wait to be resumed.
 *
 * Servers decide how much arrives before a connection breaks, so all parts together may occupy an eighth of
 * the file system at most. The limit is applied when a download begins and when another part is to be kept.
 * The oldest parts are removed first, except for those that are being written to.
 */

#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "prepare/transfer/transfer-internal.h"

#define PARTS_MAX 256U
#define PARTS_SHARE 8U /* of the blocks of the file system, one of so many */

typedef struct Part {
        const char *name;
        uint64_t bytes;
        struct timespec changed;
        bool own;
} Part;

static int compare_parts(const void *a, const void *b)
{
        const Part *x = a, *y = b;

        if (x->own != y->own)
                return x->own ? -1 : 1;
        if (x->changed.tv_sec != y->changed.tv_sec)
                return x->changed.tv_sec > y->changed.tv_sec ? -1 : 1;
        return (x->changed.tv_nsec < y->changed.tv_nsec) - (x->changed.tv_nsec > y->changed.tv_nsec);
}

static uint64_t bytes_max(int dir_fd)
{
        struct statvfs fs;

        if (fstatvfs(dir_fd, &fs) < 0 || fs.f_blocks == 0)
                return UINT64_MAX;
        return (uint64_t) fs.f_blocks * fs.f_frsize / PARTS_SHARE;
}

/* NAME.json first: without it the download just begins again. */
static void remove_part(int dir_fd, const char *name)
{
        _cleanup_free_ char *info = NULL;
        _cleanup_close_ int fd =
                        openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);

        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0)
                return; /* in use */
        if (xasprintf(&info, "%.*s.json", (int) (strlen(name) - strlen(".part")), name) < 0)
                return;
        (void) unlinkat(dir_fd, info, 0);
        (void) unlinkat(dir_fd, name, 0);
}

int downloads_limit(int dir_fd, const char *own)
{
        _cleanup_strv_free_ char **names = NULL;
        _cleanup_free_ Part *parts = NULL;
        uint64_t bytes = 0, max = bytes_max(dir_fd);
        bool own_fits = true;
        size_t n = 0;

        int r = list_names(dir_fd, &names);
        if (r < 0)
                return r;
        parts = calloc(strv_length(names) + 1, sizeof(Part));
        if (!parts)
                return -ENOMEM;
        STRV_FOREACH (name, names) {
                struct stat st;

                if (!endswith(*name, ".part") || fstatat(dir_fd, *name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                        continue;
                parts[n++] = (Part){.name = *name,
                                    .bytes = (uint64_t) st.st_blocks * 512U,
                                    .changed = st.st_mtim,
                                    .own = streq_ptr(*name, own)};
        }
        qsort(parts, n, sizeof(Part), compare_parts);
        for (size_t i = 0; i < n; i++) {
                bytes += parts[i].bytes;
                if (bytes <= max && i < PARTS_MAX)
                        continue;
                if (parts[i].own)
                        own_fits = false; /* and its bytes do not count against the others */
                else
                        remove_part(dir_fd, parts[i].name);
                bytes -= parts[i].bytes;
        }
        return own_fits;
}
