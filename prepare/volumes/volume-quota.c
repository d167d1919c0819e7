/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Quotas of named volumes: project quotas of the file system.
 *
 * The directory of a volume gets a project ID that new files below it inherit, and the file system limits the
 * space of all files of the project. The IDs are a range that other programs do not use. The first one to try
 * is a hash of the volume's name, so that volumes rarely try the same; from there on the next free one is used.
 *
 * An ID is free if no file has it: its directory counts, so an ID in use has at least one. A limit that was
 * left over, since a process was killed, is therefore not an obstacle, and is reset when the ID is used again or
 * when unused ones are released, after volumes were removed and by "gc". A lock of the host covers the time from
 * looking for an ID until the directory has it, as two stores may be on one file system.
 */

#include <linux/dqblk_xfs.h>
#include <linux/fs.h>
#include <linux/quota.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "prepare/volumes/volumes-internal.h"

#define PROJECT_MIN 0x41400000U
#define N_PROJECTS 0x00100000U
#define LIMIT_UNIT 512U /* of limits in this interface, whatever the file system */

#define LOCK_DIRECTORY "/run/acnspawn"
#define LOCK_FILE LOCK_DIRECTORY "/projects.lock"

/* --- Calls --------------------------------------------------------------------------------------------- */

static int quota_call(int fd, unsigned command, uint32_t project, void *argument)
{
        return syscall(SYS_quotactl_fd, fd, QCMD(command, PRJQUOTA), project, argument) < 0 ? -errno : 0;
}

static bool is_limited(int fd)
{
        struct fs_quota_statv state = {.qs_version = FS_QSTATV_VERSION1};

        return quota_call(fd, Q_XGETQSTATV, 0, &state) >= 0 && (state.qs_flags & FS_QUOTA_PDQ_ENFD) != 0;
}

static int set_limit(int fd, uint32_t project, uint64_t bytes)
{
        struct fs_disk_quota d = {.d_version = FS_DQUOT_VERSION,
                                  .d_flags = FS_PROJ_QUOTA,
                                  .d_fieldmask = FS_DQ_BHARD | FS_DQ_BSOFT | FS_DQ_IHARD | FS_DQ_ISOFT,
                                  .d_id = project,
                                  .d_blk_hardlimit = (bytes + LIMIT_UNIT - 1) / LIMIT_UNIT};

        return quota_call(fd, Q_XSETQLIM, project, &d);
}

/* -ENOENT: XFS has no record of the project. */
static int is_free(int fd, uint32_t project)
{
        struct fs_disk_quota d = {};
        int r = quota_call(fd, Q_XGETQUOTA, project, &d);

        if (r < 0)
                return r == -ENOENT ? 1 : r;
        return d.d_icount == 0;
}

static int set_project(int fd, uint32_t project)
{
        struct fsxattr x;

        if (ioctl(fd, FS_IOC_FSGETXATTR, &x) < 0)
                return -errno;
        x.fsx_projid = project;
        x.fsx_xflags |= FS_XFLAG_PROJINHERIT;
        return ioctl(fd, FS_IOC_FSSETXATTR, &x) < 0 ? -errno : 0;
}

/* --- Project IDs --------------------------------------------------------------------------------------- */

static int lock_projects(int *ret, Error *e)
{
        int r = mkdir_p(LOCK_DIRECTORY, 0755);
        int fd = r < 0 ? r : lock_file_at(AT_FDCWD, LOCK_FILE, LOCK_EX, NULL, NULL);

        if (fd < 0)
                return error_set_errno(e, fd, "Cannot lock %s", LOCK_FILE);
        *ret = fd;
        return 0;
}

static uint32_t project_nth(const char *name, uint32_t n)
{
        uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

        for (const char *p = name; *p; p++)
                hash = (hash ^ (unsigned char) *p) * UINT64_C(0x100000001b3);
        return PROJECT_MIN + (uint32_t) ((hash % N_PROJECTS + n) % N_PROJECTS);
}

static int choose_project(int fd, const char *name, uint32_t *ret)
{
        for (uint32_t i = 0; i < N_PROJECTS; i++) {
                uint32_t project = project_nth(name, i);
                int r = is_free(fd, project);

                if (r < 0)
                        return r;
                if (r > 0) {
                        *ret = project;
                        return 0;
                }
        }
        return -ENOSPC;
}

void volume_quotas_release(const Store *s)
{
        _cleanup_close_ int lock = -EBADF;

        if (!is_limited(s->fd) || lock_projects(&lock, NULL) < 0)
                return;
        for (uint32_t next = PROJECT_MIN; next < PROJECT_MIN + N_PROJECTS;) {
                struct fs_disk_quota d = {};

                if (quota_call(s->fd, Q_XGETNEXTQUOTA, next, &d) < 0 || d.d_id < next ||
                    d.d_id >= PROJECT_MIN + N_PROJECTS)
                        return;
                if (d.d_icount == 0 && d.d_blk_hardlimit > 0)
                        (void) set_limit(s->fd, d.d_id, 0);
                next = d.d_id + 1;
        }
}

/* --- Quotas -------------------------------------------------------------------------------------------- */

/* File systems that have project quotas, with what a device needs beyond the mount option. */
static const struct {
        const char *type, *needs;
} file_systems[] = {
                {"ext4", "; 'tune2fs -O project,quota DEVICE' prepares it for that while it is not mounted"},
                {"xfs", "; for the root file system by rootflags=prjquota on the kernel's command line"},
                {"f2fs", "; 'fsck.f2fs -O extra_attr,project_quota,quota DEVICE' prepares it for that while "
                         "it is not mounted"},
};

static int refuse(const Store *s, int fd, const char *name, Error *e)
{
        _cleanup_free_ char *type = file_system_type(fd);

        for (size_t i = 0; type && i < ELEMENTSOF(file_systems); i++) {
                if (!streq(type, file_systems[i].type))
                        continue;
                int r = error_set(e, -EOPNOTSUPP,
                                  "The volume %s cannot have a quota: the file system of the store %s (%s) "
                                  "is not mounted with the option prjquota",
                                  name, s->path, type);
                return error_hint(e, r, "Mount the file system that 'findmnt --target %s' shows with it%s.",
                                  s->path, file_systems[i].needs);
        }
        int r = error_set(e, -EOPNOTSUPP,
                          "The volume %s cannot have a quota: the file system of the store %s (%s) has no "
                          "project quotas",
                          name, s->path, type ?: "unknown");
        return error_hint(e, r,
                          "Put the store on ext4 or XFS, mounted with the option prjquota, with --dir=.");
}

int volume_quota_set(const Store *s, int data_fd, const char *name, uint64_t quota, Error *e)
{
        _cleanup_close_ int lock = -EBADF;
        uint32_t project;

        if (quota == 0)
                return 0;
        if (!is_limited(data_fd))
                return refuse(s, data_fd, name, e);
        int r = lock_projects(&lock, e);
        if (r < 0)
                return r;
        r = choose_project(data_fd, name, &project);
        if (r >= 0)
                r = set_project(data_fd, project);
        if (r >= 0)
                r = set_limit(data_fd, project, quota);
        return r < 0 ? error_set_errno(e, r, "Cannot set the quota of the volume %s", name) : 0;
}

/* The record of the directory's project, if it is a volume's and limits are in force. */
static int read_quota(int data_fd, struct fs_disk_quota *ret)
{
        struct fsxattr x;

        if (!is_limited(data_fd))
                return -EOPNOTSUPP;
        if (ioctl(data_fd, FS_IOC_FSGETXATTR, &x) < 0)
                return -errno;
        if (x.fsx_projid == 0 || !(x.fsx_xflags & FS_XFLAG_PROJINHERIT))
                return -ENOENT;
        return quota_call(data_fd, Q_XGETQUOTA, x.fsx_projid, ret);
}

bool volume_quota_is_exceeded(int data_fd)
{
        struct fs_disk_quota d = {};

        return read_quota(data_fd, &d) >= 0 && d.d_blk_hardlimit > 0 && d.d_bcount > d.d_blk_hardlimit;
}

bool named_volume_quota_in_force(const Store *s, const NamedVolume *v)
{
        _cleanup_close_ int fd = named_volume_open_data(s, v->name, O_RDONLY);
        struct fs_disk_quota d = {};

        return fd >= 0 && v->quota > 0 && read_quota(fd, &d) >= 0 && d.d_blk_hardlimit > 0 &&
               d.d_blk_hardlimit <= (v->quota + LIMIT_UNIT - 1) / LIMIT_UNIT + 1;
}
