/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the processes of a cgroup have open, from their directories in /proc.
 *
 * A container decides how many processes and descriptors there are, and all of them are looked at for a list of all containers: so
 * there is a bound, beyond which the figures are unknown. Where the kernel tells the number of descriptors without the list of
 * them (from version 6.2 on), that has none. */

#include <dirent.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "cri/statistics/usage.h"

#define PROCESSES_MAX 4096U
#define LOOKS_MAX 16384U /* at what a descriptor is */

typedef struct Counts {
        uint64_t descriptors, sockets;
        size_t n_looks;
} Counts;

static bool is_socket(int dir_fd, const char *name)
{
        char target[sizeof("socket:") - 1];

        return readlinkat(dir_fd, name, target, sizeof(target)) == (ssize_t) sizeof(target) &&
               memcmp(target, "socket:", sizeof(target)) == 0;
}

/* A process that has ended meanwhile has nothing open. */
static void count(pid_t pid, Counts *c)
{
        char path[64];
        struct stat st;

        snprintf(path, sizeof(path), "/proc/%d/fd", (int) pid);
        DIR *d = opendir(path);
        if (!d)
                return;
        bool known = fstat(dirfd(d), &st) >= 0 && st.st_size > 0;
        uint64_t n = known ? (uint64_t) st.st_size : 0;
        if (known && c->n_looks + n > LOOKS_MAX)
                c->n_looks = LOOKS_MAX + 1;
        for (struct dirent *de; c->n_looks <= LOOKS_MAX && (de = readdir(d));) {
                if (de->d_name[0] == '.')
                        continue;
                c->n_looks++;
                n += !known;
                c->sockets += is_socket(dirfd(d), de->d_name);
        }
        closedir(d);
        if (c->n_looks > LOOKS_MAX)
                c->sockets = UINT64_MAX;
        c->descriptors = c->n_looks > LOOKS_MAX && !known ? UINT64_MAX : c->descriptors + n;
}

void cri_descriptors_read(const char *path, CriUsage *u)
{
        _cleanup_free_ pid_t *list = NULL;
        Counts c = {};
        struct rlimit l;
        size_t n;

        if (cgroup_list_processes(path, &list, &n) < 0 || n > PROCESSES_MAX)
                return;
        for (size_t i = 0; i < n && c.descriptors != UINT64_MAX; i++)
                count(list[i], &c);
        u->descriptors = c.descriptors;
        u->sockets = c.descriptors == UINT64_MAX ? UINT64_MAX : c.sockets;
        if (n > 0 && prlimit(list[0], RLIMIT_NOFILE, NULL, &l) >= 0 && l.rlim_cur != RLIM_INFINITY)
                u->descriptors_max = l.rlim_cur;
}
