/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Records of apps that cannot be written, as the disk is full, read-only or broken.
 *
 * The supervisor keeps all records in memory then: in a directory of a tmpfs that is mounted nowhere. A lock on the directory status/
 * of the pod says so, as locks need no space, also work on a read-only file system, and go with the process; the first locked byte is the
 * number of the descriptor of the directory in memory, which readers open in /proc, and the count of locked bytes is the device of its
 * tmpfs, which no other file system has while the lock is there: what else the number may mean by now, or in the PID namespace of the
 * reader, is not taken for it. Readers wait for nothing, not even for a supervisor that is stopped. A reader that may not look into the
 * supervisor, or is in another PID namespace, gets the records on disk, and knows that they are old.
 */

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "stage0/host/spare-records.h"

/* The number of a descriptor of the supervisor that is no such directory. */
#define NO_RECORDS 0

int spare_records_new(const Pod *p, int *ret_fd)
{
        static const char *const options[] = {"mode", "0700", NULL};
        _cleanup_close_ int mount = -EBADF;
        _cleanup_free_ char *name = NULL; /* what links in /proc say */

        int r = xasprintf(&name, "status-%s", p->uuid);
        if (r >= 0)
                r = mount_new("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
                              &mount);
        if (r < 0)
                return r;
        if (mkdirat(mount, name, 0700) < 0)
                return -errno;
        int fd = openat(mount, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        *ret_fd = fd;
        return 0;
}

/* Of LENGTH bytes; 0: all. */
static int set_lock(int fd, short type, off_t start, off_t length)
{
        struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = length};

        return fcntl(fd, F_OFD_SETLK, &l) < 0 ? -errno : 0;
}

/* First the new lock, then the end of the other: in between readers take the records for old. */
int spare_records_show(int status_fd, int spare_fd)
{
        struct stat st = {};

        if (spare_fd >= 0 && fstat(spare_fd, &st) < 0)
                return -errno;
        int r = spare_fd < 0 ? set_lock(status_fd, F_RDLCK, NO_RECORDS, 1)
                             : set_lock(status_fd, F_RDLCK, spare_fd, (off_t) st.st_dev);
        if (r < 0)
                return r;
        return spare_fd < 0 ? set_lock(status_fd, F_UNLCK, NO_RECORDS + 1, 0)
                            : set_lock(status_fd, F_UNLCK, NO_RECORDS, 1);
}

void spare_records_hide(int status_fd)
{
        (void) set_lock(status_fd, F_UNLCK, 0, 0);
}

/* -ENOENT: there are none. */
static int find(int status_fd, int *ret_number, dev_t *ret_device)
{
        struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

        if (fcntl(status_fd, F_OFD_GETLK, &l) < 0 || l.l_type == F_UNLCK)
                return -ENOENT;
        *ret_number = (int) l.l_start;
        *ret_device = (dev_t) l.l_len;
        return 0;
}

/* Asks no server of a file system, which may not answer, before it is known what it is. */
static int open_of_supervisor(const Pod *p, int number, dev_t device, int *ret)
{
        _cleanup_close_ int found = -EBADF;
        PodRuntime runtime;
        struct statx st;
        char path[64];

        int r = pod_runtime_read((Pod *) p, &runtime);
        if (r < 0)
                return r;
        snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int) runtime.supervisor, number);
        found = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (found < 0 || statx(found, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, 0, &st) < 0)
                return -errno;
        if (makedev(st.stx_dev_major, st.stx_dev_minor) != device)
                return -ESTALE;
        int fd = openat(found, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        *ret = fd;
        return 0;
}

int spare_records_open(const Pod *p, int status_fd, int *ret)
{
        dev_t device;
        int number;

        if (find(status_fd, &number, &device) < 0)
                return 0;
        if (number != NO_RECORDS && open_of_supervisor(p, number, device, ret) >= 0)
                return 1;
        return find(status_fd, &number, &device) < 0 ? 0 : -ESTALE; /* they may be on disk by now */
}
