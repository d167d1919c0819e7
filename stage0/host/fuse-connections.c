/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Aborts the file systems that processes of a pod serve (FUSE), once the pod is to be killed.
 *
 * A process that waits for an answer to a request that was read already is not ended by SIGKILL. If the server shares its table of descriptors,
 * as a thread of it does, /dev/fuse is not closed either, and the process waits for itself. The kernel ends the
 * wait if the connection is aborted, by the file system fusectl: a directory for each connection, whose owner is the user that it was mounted
 * for. That is a user of the user namespace that it was mounted in, so that those of a pod are known by the pod's users, also those that are
 * mounted nowhere any more. What a process outside of the pod has mounted is left alone in any case. Without a user namespace nothing can be
 * told apart, and nothing is done. */

#include <dirent.h>
#include <sys/stat.h>

#include "stage0/host/host.h"

#define MOUNTINFO_MAX (64U << 20)
#define ATTRIBUTE_MAX 64U

static bool is_number(const char *name)
{
        return *name && name[strspn(name, "0123456789")] == 0;
}

/* Whether the process, outside of the pod, has DEVICE in its mount namespace. One that has ended meanwhile has none. */
static bool has_mounted(const Pod *p, pid_t pid, const char *device)
{
        _cleanup_free_ char *place = NULL, *table = NULL;
        char path[64];

        int r = pod_cgroup_of_process(p, pid, &place);
        if (r == -ESRCH || (r >= 0 && startswith(place, "payload")))
                return false;
        snprintf(path, sizeof(path), "/proc/%d/mountinfo", (int) pid);
        r = read_file_at(AT_FDCWD, path, MOUNTINFO_MAX, &table, NULL);
        if (r == -ENOENT || r == -ESRCH || r == -EINVAL)
                return false;
        return r < 0 || strstr(table, device);
}

/* NAME is the number of a device, as fusectl has it. */
static bool is_mounted_elsewhere(const Pod *p, const char *name)
{
        _cleanup_free_ char *device = NULL;
        DIR *d = opendir("/proc");
        bool found = !d || xasprintf(&device, " 0:%s ", name) < 0;

        for (const struct dirent *de; !found && (de = readdir(d));)
                found = is_number(de->d_name) &&
                        has_mounted(p, (pid_t) strtol(de->d_name, NULL, 10), device);
        if (d)
                closedir(d);
        return found;
}

/* Whether a process waits for an answer. The kernel counts requests: an aborted connection has none. */
static bool is_awaited(int dir_fd, const char *name)
{
        _cleanup_free_ char *path = NULL;
        char text[ATTRIBUTE_MAX] = {};

        if (xasprintf(&path, "%s/waiting", name) < 0)
                return false;
        _cleanup_close_ int fd = openat(dir_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        return fd >= 0 && loop_read(fd, text, sizeof(text) - 1) > 0 && strtoul(text, NULL, 10) > 0;
}

/* The descriptor is that of one connection: its number may be another one's by the time that it is written to, for which the kernel then
 * does nothing. */
static bool abort_one(const Pod *p, int dir_fd, const char *name)
{
        const PodConfig *c = &p->config;
        _cleanup_free_ char *path = NULL;
        struct stat st;

        if (!is_number(name) || !is_awaited(dir_fd, name) || xasprintf(&path, "%s/abort", name) < 0)
                return false;
        _cleanup_close_ int fd = openat(dir_fd, path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
        return fd >= 0 && fstat(fd, &st) >= 0 && st.st_uid >= c->uid_base &&
               st.st_uid - c->uid_base < pod_n_uids(c) && !is_mounted_elsewhere(p, name) &&
               loop_write(fd, "1", 1) >= 0;
}

int pod_abort_file_systems(const Pod *p)
{
        int fd = -EBADF, n = 0;

        if (!p->config.private_users || access("/sys/fs/fuse", F_OK) < 0)
                return 0;
        int r = mount_new("fusectl", NULL, 0, &fd);
        if (r < 0)
                return r;
        _cleanup_close_ int dir_fd = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        r = -errno;
        safe_close(fd);
        fd = dir_fd < 0 ? -EBADF : fcntl(dir_fd, F_DUPFD_CLOEXEC, 3);
        DIR *d = fd < 0 ? NULL : fdopendir(fd);
        if (!d) {
                safe_close(fd);
                return dir_fd < 0 ? r : -errno;
        }
        for (const struct dirent *de; (de = readdir(d));)
                n += abort_one(p, dir_fd, de->d_name);
        closedir(d);
        return n;
}
