/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Drops privileges, before any byte of a client is read.
 *
 * What remains: the control channel and stderr, no capabilities and no way to get any, a user of the pod's
 * own, an empty read-only file system, a network namespace without interfaces (the listening socket, which
 * comes through the channel, keeps living in the pod's), no processes to start, no files to write. The
 * namespaces also drop all mounts, so that the service never keeps a mount of the host or of the pod busy.
 *
 * If it is not started as root, the program can only do the part that needs no privileges. The result of
 * every step is verified afterwards.
 */

#include <cap-ng.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "metadata/drop.h"
#include "metadata/protocol.h"

#define DATA_LIMIT (512U * 1024U * 1024U)
/* The channel, the standard three, epoll, signals, event counter, listening socket, memfds in passing. */
#define DESCRIPTORS_BESIDES 32U

/* The working directory becomes the root, and all other mounts are detached. The very first file system of a
 * machine (an initramfs that never switched its root) cannot be pivoted away, only covered. */
static int change_root(void)
{
        if (syscall(SYS_pivot_root, ".", ".") >= 0)
                return umount2(".", MNT_DETACH);
        if (errno != EINVAL || mount(".", "/", NULL, MS_MOVE, NULL) < 0)
                return -1;
        return chroot(".");
}

/* Makes an empty tmpfs the root, with no other mount left. The path on which it is mounted first does not
 * matter. */
static int empty_root(Error *e)
{
        static const char place[] = "/proc";

        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                return error_set_errno(e, -errno, "Cannot set the mounts to private propagation");
        if (mount("tmpfs", place, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
                  "size=4k,nr_inodes=2,mode=0555") < 0)
                return error_set_errno(e, -errno, "Cannot mount an empty file system");
        if (chdir(place) < 0 || change_root() < 0 || chdir("/") < 0)
                return error_set_errno(e, -errno, "Cannot change to an empty root");
        if (mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
                  NULL) < 0)
                return error_set_errno(e, -errno, "Cannot remount the empty root read-only");
        return 0;
}

static int become(uid_t uid, gid_t gid, Error *e)
{
        uid_t ruid, euid, suid;
        gid_t rgid, egid, sgid;

        capng_clear(CAPNG_SELECT_ALL);
        int r = capng_change_id((int) uid, (int) gid,
                                CAPNG_DROP_SUPP_GRP | CAPNG_CLEAR_BOUNDING | CAPNG_CLEAR_AMBIENT);
        if (r < 0)
                return error_set(e, -EPERM, "Cannot become user %u and group %u (step %d)", (unsigned) uid,
                                 (unsigned) gid, -r);
        if (getresuid(&ruid, &euid, &suid) < 0 || getresgid(&rgid, &egid, &sgid) < 0 || ruid != uid ||
            euid != uid || suid != uid || rgid != gid || egid != gid || sgid != gid ||
            getgroups(0, NULL) != 0)
                return error_set(e, -EPERM, "Have not become user %u and group %u", (unsigned) uid,
                                 (unsigned) gid);
        return 0;
}

/* A parent that is not root may still have passed capabilities to this process. */
static int drop_as_user(uid_t uid, gid_t gid, Error *e)
{
        if ((uid != (uid_t) -1 && uid != getuid()) || (gid != (gid_t) -1 && gid != getgid()))
                return error_set(e, -EPERM, "Only root can start the metadata service as another user");
        capng_clear(CAPNG_SELECT_CAPS);
        if (capng_apply(CAPNG_SELECT_CAPS) < 0)
                return error_set(e, -EPERM, "Cannot drop the capabilities");
        return 0;
}

static int drop_as_root(uid_t uid, gid_t gid, Error *e)
{
        if (uid == 0 || gid == 0 || uid == (uid_t) -1 || gid == (gid_t) -1)
                return error_set(e, -EINVAL,
                                 "The metadata service does not run as root; give it --uid= and --gid=");
        if (unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWUTS) < 0)
                return error_set_errno(e, -errno, "Cannot create namespaces");
        int r = empty_root(e);
        return r < 0 ? r : become(uid, gid, e);
}

static int limit_resources(unsigned connections, unsigned tasks, Error *e)
{
        const struct {
                int resource;
                rlim_t limit;
        } limits[] = {
                        {RLIMIT_NOFILE, connections + DESCRIPTORS_BESIDES},
                        {RLIMIT_CORE, 0},
                        {RLIMIT_NPROC, SANITIZED ? RLIM_INFINITY : tasks},
                        {RLIMIT_MEMLOCK, 0},
                        {RLIMIT_MSGQUEUE, 0},
                        {RLIMIT_FSIZE, METADATA_BODY_MAX}, /* a query to the parent is a memfd */
                        {RLIMIT_DATA, SANITIZED ? RLIM_INFINITY : DATA_LIMIT},
        };

        for (size_t i = 0; i < ELEMENTSOF(limits); i++) {
                struct rlimit l;
                if (getrlimit(limits[i].resource, &l) < 0)
                        return error_set_errno(e, -errno, "Cannot read a resource limit");
                l.rlim_max = MIN(l.rlim_max, limits[i].limit);
                l.rlim_cur = l.rlim_max;
                if (setrlimit(limits[i].resource, &l) < 0)
                        return error_set_errno(e, -errno, "Cannot set a resource limit");
        }
        return 0;
}

static int check_no_capabilities(Error *e)
{
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct data[2] = {};

        if (syscall(SYS_capget, &header, data) < 0)
                return error_set_errno(e, -errno, "Cannot read the capabilities");
        for (size_t i = 0; i < ELEMENTSOF(data); i++)
                if (data[i].effective || data[i].permitted || data[i].inheritable)
                        return error_set(e, -EPERM, "Capabilities are left after dropping them");
        return 0;
}

int metadata_drop(uid_t uid, gid_t gid, unsigned connections, unsigned tasks, Error *e)
{
        int r;

        if (close_range(METADATA_CHANNEL_FD + 1, ~0U, 0) < 0)
                return error_set_errno(e, -errno, "Cannot close inherited descriptors");
        (void) umask(0077);
        r = geteuid() == 0 ? drop_as_root(uid, gid, e) : drop_as_user(uid, gid, e);
        if (r < 0)
                return r;

        /* After the change of user, which makes a process dumpable again. */
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, SANITIZED, 0, 0, 0) < 0)
                return error_set_errno(e, -errno, "Cannot renounce new privileges");
        r = limit_resources(connections, tasks, e);
        return r < 0 ? r : check_no_capabilities(e);
}
