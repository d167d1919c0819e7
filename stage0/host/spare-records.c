/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Records of apps that cannot be written, as the disk is full, read-only or broken.
 *
 * The supervisor keeps all records in memory then: in a directory of a tmpfs that is mounted nowhere. A lock on the directory status/
 * of the pod says so, as locks need no space, also work on a read-only file system, and go with the process; the locked byte is the number
 * of the descriptor of the directory in memory, which readers open in /proc. They wait for nothing, not even for a supervisor that is
 * stopped. A reader that may not look into the supervisor, or is in another PID namespace, gets the records on disk, and knows that they
 * are old.
 */

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "stage0/host/spare-records.h"

/* The number of a descriptor of the supervisor that is no such directory. */
#define NO_RECORDS 0

/* What links in /proc to that directory say. */
static int directory_name(const Pod *p, char **ret)
{
        return xasprintf(ret, "/status-%s", p->uuid);
}

static int copy_replacements(const Pod *p, int from, int to)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < p->manifest->n_apps; i++) {
                _cleanup_(replacement_status_done) ReplacementStatus s = {};

                if (replacement_status_read(from, p->manifest->apps[i]->name, &s) >= 0)
                        r = replacement_status_write(to, p->manifest->apps[i]->name, &s);
        }
        return r;
}

int spare_records_new(const Pod *p, int status_fd, int *ret_fd)
{
        static const char *const options[] = {"mode", "0700", NULL};
        _cleanup_close_ int mount = -EBADF, fd = -EBADF;
        _cleanup_free_ char *name = NULL;

        int r = directory_name(p, &name);
        if (r >= 0)
                r = mount_new("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
                              &mount);
        if (r < 0)
                return r;
        if (mkdirat(mount, name + 1, 0700) < 0)
                return -errno;
        fd = openat(mount, name + 1, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        r = copy_replacements(p, status_fd, fd);
        if (r >= 0)
                *ret_fd = TAKE_FD(fd);
        return r;
}

/* Of LENGTH bytes; 0: all. */
static int set_lock(int fd, short type, off_t start, off_t length)
{
        struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = length};

        return fcntl(fd, F_OFD_SETLK, &l) < 0 ? -errno : 0;
}

int spare_records_show(int status_fd, int spare_fd)
{
        return set_lock(status_fd, F_RDLCK, spare_fd < 0 ? NO_RECORDS : spare_fd, 1);
}

void spare_records_hide(int status_fd)
{
        (void) set_lock(status_fd, F_UNLCK, 0, 0);
}

/* -ENOENT: there are none. */
static int find(int status_fd, int *ret_number)
{
        struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

        if (fcntl(status_fd, F_OFD_GETLK, &l) < 0 || l.l_type == F_UNLCK)
                return -ENOENT;
        *ret_number = (int) l.l_start;
        return 0;
}

static int open_of_supervisor(const Pod *p, int number, int *ret)
{
        _cleanup_free_ char *name = NULL;
        char path[64], link[64];
        PodRuntime runtime;

        int r = pod_runtime_read((Pod *) p, &runtime);
        if (r >= 0)
                r = directory_name(p, &name);
        if (r < 0)
                return r;
        snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int) runtime.supervisor, number);
        ssize_t n = readlink(path, link, sizeof(link) - 1);
        if (n < 0)
                return -errno;
        link[n] = 0;
        if (!streq(link, name))
                return -ESTALE;
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        *ret = fd;
        return 0;
}

int spare_records_open(const Pod *p, int status_fd, int *ret)
{
        int number;

        if (find(status_fd, &number) < 0)
                return 0;
        if (open_of_supervisor(p, number, ret) >= 0)
                return 1;
        return find(status_fd, &number) < 0 ? 0 : -ESTALE; /* they may be on disk by now */
}
