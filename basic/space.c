/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The free space of a file system, less what is kept free for others.
 *
 * The store is often on the file system of the host. Without free blocks or inodes every program of the host
 * fails, so whatever grows by untrusted input leaves some of both. Several processes may write at the same
 * time, each of which has looked before: so the free space is read again after every few writes
 * (SPACE_INTERVAL, SPACE_INTERVAL_INODES), which are a small part of the reserve.
 */

#include <sys/statvfs.h>

#include "basic/basic.h"

static uint64_t beyond(uint64_t available, uint64_t reserve)
{
        return available > reserve ? available - reserve : 0;
}

int free_space_read(int fd, FreeSpace *ret)
{
        FreeSpace s = {.bytes = UINT64_MAX, .inodes = UINT64_MAX};
        struct statvfs fs;

        if (fstatvfs(fd, &fs) < 0)
                return -errno;
        if (fs.f_blocks > 0) /* not a tmpfs without a limit */
                s.bytes = beyond((uint64_t) fs.f_bavail * fs.f_frsize, DISK_RESERVE);
        if (fs.f_files > 0) /* not a file system that makes inodes of blocks, such as btrfs */
                s.inodes = beyond(fs.f_favail, INODE_RESERVE);
        *ret = s;
        return 0;
}

int space_meter_add(SpaceMeter *m, int fd, uint64_t bytes, unsigned files)
{
        FreeSpace space;

        m->bytes += bytes;
        m->files += files;
        if (m->bytes < SPACE_INTERVAL && m->files < SPACE_INTERVAL_INODES)
                return 0;
        *m = (SpaceMeter){};
        int r = free_space_read(fd, &space);
        if (r < 0)
                return r;
        return space.bytes == 0 || space.bytes < bytes || space.inodes == 0 ? -ENOSPC : 0;
}
