/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a cgroup has read from and written to each block device, and its huge pages of each size. */

#include <dirent.h>

#include "cri/statistics/usage.h"

#define TEXT_SIZE_MAX 65536U

/* --- Devices ------------------------------------------------------------------------------------------- */

static uint64_t value_of(const char *line, size_t size, const char *key)
{
        const char *found = memmem(line, size, key, strlen(key));

        return found ? strtoull(found + strlen(key), NULL, 10) : 0;
}

/* Lines "8:0 rbytes=1 wbytes=2 rios=3 …". A device without figures has a line of its numbers alone. */
size_t cri_devices_parse(const char *text, CriDevice ret[static CRI_DEVICES_MAX])
{
        size_t n = 0;

        for (const char *p = text; *p && n < CRI_DEVICES_MAX; p += strcspn(p, "\n"), p += *p == '\n') {
                size_t size = strcspn(p, "\n");
                unsigned major, minor;

                if (sscanf(p, "%u:%u ", &major, &minor) != 2 || !memmem(p, size, " rbytes=", 8))
                        continue;
                ret[n++] = (CriDevice){.major = major,
                                       .minor = minor,
                                       .read_bytes = value_of(p, size, " rbytes="),
                                       .written_bytes = value_of(p, size, " wbytes=")};
        }
        return n;
}

/* The name of its directory in sysfs, in which '!' stands for '/'. */
static void find_name(CriDevice *d)
{
        char path[64], target[256];

        snprintf(path, sizeof(path), "/sys/dev/block/%" PRIu32 ":%" PRIu32, d->major, d->minor);
        ssize_t n = readlink(path, target, sizeof(target) - 1);
        if (n < 0)
                return;
        target[n] = 0;
        const char *slash = strrchr(target, '/');
        snprintf(d->name, sizeof(d->name), "/dev/%.48s", slash ? slash + 1 : target);
        for (char *p = d->name; (p = strchr(p, '!'));)
                *p = '/';
}

size_t cri_devices_read(const char *path, CriDevice ret[static CRI_DEVICES_MAX])
{
        _cleanup_free_ char *file = NULL, *text = NULL;

        if (xasprintf(&file, "%s/io.stat", path) < 0 ||
            read_file_at(AT_FDCWD, file, TEXT_SIZE_MAX, &text, NULL) < 0)
                return 0;
        size_t n = cri_devices_parse(text, ret);
        for (size_t i = 0; i < n; i++)
                find_name(&ret[i]);
        return n;
}

/* --- Huge pages ---------------------------------------------------------------------------------------- */

/* "hugetlb.2MB.current", not "hugetlb.2MB.rsvd.current". */
static bool parse_name(const char *name, char ret[static 16])
{
        const char *size = startswith(name, "hugetlb.");
        size_t n = size ? strcspn(size, ".") : 0;

        if (n == 0 || n >= 16 || !streq(size + n, ".current"))
                return false;
        memcpy(ret, size, n);
        ret[n] = 0;
        return true;
}

static bool read_bytes(int dir_fd, const char *name, uint64_t *ret)
{
        _cleanup_free_ char *text = NULL;

        if (read_file_at(dir_fd, name, 64, &text, NULL) < 0)
                return false;
        text[strcspn(text, "\n")] = 0;
        return parse_u64(text, ret) >= 0;
}

size_t cri_huge_pages_read(const char *path, CriHugePages ret[static CRI_PAGE_SIZES_MAX])
{
        DIR *d = opendir(path);
        size_t n = 0;

        for (struct dirent *de; d && n < CRI_PAGE_SIZES_MAX && (de = readdir(d));)
                if (parse_name(de->d_name, ret[n].size) && read_bytes(dirfd(d), de->d_name, &ret[n].bytes))
                        n++;
        if (d)
                closedir(d);
        return n;
}
