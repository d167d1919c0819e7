/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Giving up what the app is not to have: capabilities, root's identity, system calls.
 *
 * The filter of system calls comes last, right before the exec, since it may forbid whatever the launcher
 * would still want to do. Installing one takes either no_new_privs, which would break the programs of the
 * image that are set-uid, or CAP_SYS_ADMIN over the pod's user namespace. The launcher has that, and keeps
 * it alone until the exec: there the kernel computes the capabilities anew, for root from the bounding set
 * and for everybody else to none, so that it never reaches the app. With no_new_privs an exec would be
 * allowed to keep it for a program with file capabilities; but then it is not needed.
 *
 * Apps of a pod see each other's processes, and root with the same capabilities could look into them: at
 * environment, memory, and through /proc/PID/root at all files. A Landlock domain of its own stops that,
 * whatever its rules are: who is in one can trace, and look into in /proc, only who is in the same. The
 * price is that nobody in a domain with a rule about files can mount, which most apps cannot anyway; one
 * that can gets no domain.
 */

#include <grp.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "stage1/launch/launch.h"

/* Capabilities by prctl() and capset() themselves: this runs once per process of every app, and libcap-ng
 * would read /proc for what is known here. */
static int drop_bounding_set(uint64_t keep)
{
        for (int cap = 0; cap < 64; cap++) {
                if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) < 0)
                        return 0; /* beyond the last one that the kernel knows */
                if (!(keep & UINT64_C(1) << cap) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
                        return -errno;
        }
        return 0;
}

static int set_capabilities(uint64_t mask)
{
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct data[2] = {
                        {.effective = (uint32_t) mask, .permitted = (uint32_t) mask},
                        {.effective = (uint32_t) (mask >> 32), .permitted = (uint32_t) (mask >> 32)},
        };

        return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

static uint64_t bounding_set(void)
{
        uint64_t mask = 0;

        for (int cap = 0; cap < 64; cap++)
                if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) > 0)
                        mask |= UINT64_C(1) << cap;
        return mask;
}

/* Until the exec. Root has to have all that the exec is to leave it: with no_new_privs an exec adds nothing,
 * and a process that gains something by it cannot be looked at in /proc. */
static uint64_t capabilities_until_exec(const LaunchConfig *c, const Identity *id)
{
        uint64_t mask = id->uid == 0 ? bounding_set() : 0;

        if (c->n_filter > 0 && !c->no_new_privileges)
                mask |= UINT64_C(1) << CAP_SYS_ADMIN;
        return mask;
}

static int change_ids(const Identity *id, Failure *f)
{
        if (setgroups(id->n_groups, id->groups) < 0)
                return failure_set_errno(f, CAUSE_SETUP, -errno, "Cannot set the supplementary groups");
        /* Else setresuid() clears the permitted capabilities, too. The exec takes this back. */
        if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0)
                return failure_set_errno(f, CAUSE_SETUP, -errno, "Cannot keep capabilities");
        if (setresgid(id->gid, id->gid, id->gid) < 0 || setresuid(id->uid, id->uid, id->uid) < 0)
                return failure_set_errno(f, errno == EINVAL ? CAUSE_USER : CAUSE_SETUP, -errno,
                                         "Cannot become user %u, group %u%s", id->uid, id->gid,
                                         errno == EINVAL ? ", which the pod's range does not have" : "");
        return 0;
}

int confine_identity(const LaunchConfig *c, const Identity *id, Failure *f)
{
        int r = drop_bounding_set(c->capabilities);

        if (r < 0)
                return failure_set_errno(f, CAUSE_SETUP, r, "Cannot drop capabilities");
        if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
                return failure_set_errno(f, CAUSE_SETUP, -errno, "Cannot clear ambient capabilities");
        r = change_ids(id, f);
        if (r < 0)
                return r;
        r = set_capabilities(capabilities_until_exec(c, id));
        if (r < 0)
                return failure_set_errno(f, CAUSE_SETUP, r, "Cannot set capabilities");
        if (c->no_new_privileges && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return failure_set_errno(f, CAUSE_SETUP, -errno, "Cannot set no_new_privs");
        return 0;
}

/* --- Other apps ---------------------------------------------------------------------------------------- */

/* Of all that Landlock can forbid, moving files between directories is what can be allowed again by one
 * rule. */
static int make_domain(void)
{
        const struct landlock_ruleset_attr attr = {.handled_access_fs = LANDLOCK_ACCESS_FS_REFER};
        struct landlock_path_beneath_attr everywhere = {.allowed_access = LANDLOCK_ACCESS_FS_REFER};
        _cleanup_close_ int rules = -EBADF, root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

        if (root < 0)
                return -errno;
        rules = (int) syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr.handled_access_fs), 0U);
        if (rules < 0)
                return -errno;
        everywhere.parent_fd = root;
        if (syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &everywhere, 0U) < 0 ||
            syscall(SYS_landlock_restrict_self, rules, 0U) < 0)
                return -errno;
        return 0;
}

int confine_sight(const LaunchConfig *c, Failure *f)
{
        if (c->may_mount)
                return 0;
        int r = make_domain();
        /* Not built in, not switched on, or older than Linux 5.19, whose rules would forbid to move
         * files. */
        if (r == -ENOSYS || r == -EOPNOTSUPP || r == -EINVAL)
                return 0;
        return r < 0 ? failure_set_errno(f, CAUSE_SETUP, r, "Cannot shut app %s off from the other apps",
                                         c->app)
                     : 0;
}

int confine_system_calls(const LaunchConfig *c, Failure *f)
{
        struct sock_fprog program = {.len = (unsigned short) c->n_filter, .filter = c->filter};

        if (c->n_filter > 0 && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0U, &program) < 0)
                return failure_set_errno(f, CAUSE_SETUP, -errno,
                                         "Cannot install the filter of system calls");
        return 0;
}
