/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Drops what the app must not have: capabilities, root's identity, system calls.
 *
 * The filter of system calls comes last, right before the exec, since it may forbid any call that the
 * launcher still has to make. Installing one takes either no_new_privs, which would break the programs of
 * the image that are set-uid, or CAP_SYS_ADMIN over the pod's user namespace. The launcher has that, and
 * keeps only that until the exec: there the kernel recomputes the capabilities, for root from the bounding
 * set and for other users to none, so that the app never has it. With no_new_privs the kernel could preserve
 * it across the exec of a program with file capabilities; but then it is not needed and dropped as well.
 *
 * Apps of a pod see each other's processes, and root with the same capabilities could inspect them:
 * environment, memory, and through /proc/PID/root all files. A Landlock domain for each process of an app
 * prevents that, whatever its rules are and whatever capabilities the process has: a process in a domain can
 * trace, or inspect in /proc, only processes of the same domain or of nested domains. See apply_landlock()
 * for the rules that an app gets.
 */

#include <grp.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "stage1/launch/launch.h"

/* Uses prctl() and capset() directly: this runs once per process of every app, and libcap-ng would read from
 * /proc what is already known here. */
static int limit_bounding_set(uint64_t keep, uint64_t *ret_left)
{
        *ret_left = 0;
        for (int cap = 0; cap < 64; cap++) {
                bool kept = keep & UINT64_C(1) << cap;
                int r = prctl(kept ? PR_CAPBSET_READ : PR_CAPBSET_DROP, cap, 0, 0, 0);
                if (r < 0 && errno == EINVAL)
                        return 0; /* past the last capability of this kernel */
                if (r < 0)
                        return -errno;
                if (kept && r > 0)
                        *ret_left |= UINT64_C(1) << cap;
        }
        return 0;
}

static int set_capabilities(uint64_t mask, uint64_t inheritable)
{
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct data[2] = {
                        {(uint32_t) mask, (uint32_t) mask, (uint32_t) inheritable},
                        {(uint32_t) (mask >> 32), (uint32_t) (mask >> 32), (uint32_t) (inheritable >> 32)},
        };

        return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

/* The capabilities kept until the exec. Root has to have all capabilities that it is to have after the exec:
 * with no_new_privs an exec adds none, and a process that gains capabilities by the exec cannot be inspected
 * in /proc. */
static uint64_t capabilities_until_exec(const LaunchConfig *c, const Identity *id, uint64_t bounding)
{
        uint64_t mask = c->ambient | (id->uid == 0 ? bounding : 0);

        if (c->n_filter > 0 && !c->no_new_privileges)
                mask |= UINT64_C(1) << CAP_SYS_ADMIN;
        return mask;
}

/* They are inheritable, and permitted, by now. */
static int raise_ambient(uint64_t mask)
{
        for (int cap = 0; cap < 64; cap++)
                if (mask & UINT64_C(1) << cap && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) < 0)
                        return -errno;
        return 0;
}

int confine_no_such_id(const Identity *id, Failure *f)
{
        return failure_set(
                        f, CAUSE_USER, -EINVAL,
                        "The pod has no user %u, or no group %u: it has those from 0 to 65535, unless it was "
                        "made with a larger range, or with --no-userns",
                        id->uid, id->gid);
}

static int change_ids(const Identity *id, Failure *f)
{
        if (setgroups(id->n_groups, id->groups) < 0)
                return failure_set_errno(f, CAUSE_SETUP, -errno, "Cannot set the supplementary groups");
        /* Otherwise setresuid() also clears the permitted capabilities. The exec resets this flag. */
        if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0)
                return failure_set_errno(f, CAUSE_SETUP, -errno, "Cannot keep capabilities");
        if (setresgid(id->gid, id->gid, id->gid) < 0 || setresuid(id->uid, id->uid, id->uid) < 0)
                return errno == EINVAL ? confine_no_such_id(id, f)
                                       : failure_set_errno(f, CAUSE_SETUP, -errno,
                                                           "Cannot become user %u, group %u", id->uid,
                                                           id->gid);
        return 0;
}

int confine_identity(const LaunchConfig *c, const Identity *id, Failure *f)
{
        uint64_t bounding;
        int r = limit_bounding_set(c->capabilities, &bounding);

        if (r < 0)
                return failure_set_errno(f, CAUSE_SETUP, r, "Cannot drop capabilities");
        if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
                return failure_set_errno(f, CAUSE_SETUP, -errno, "Cannot clear ambient capabilities");
        r = change_ids(id, f);
        if (r < 0)
                return r;
        r = set_capabilities(capabilities_until_exec(c, id, bounding), c->ambient);
        if (r >= 0)
                r = raise_ambient(c->ambient);
        if (r < 0)
                return failure_set_errno(f, CAUSE_SETUP, r, "Cannot set capabilities");
        if (c->no_new_privileges && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return failure_set_errno(f, CAUSE_SETUP, -errno, "Cannot set no_new_privs");
        return 0;
}

/* --- Other apps ---------------------------------------------------------------------------------------- */

/* struct landlock_ruleset_attr as of Linux 6.12; older headers have fewer fields. */
typedef struct LandlockRules {
        uint64_t handled_access_fs, handled_access_net, scoped;
} LandlockRules;
#define SCOPE_ABSTRACT_UNIX_SOCKET (UINT64_C(1) << 0)

static int create_rules(const LandlockRules *rules, size_t size)
{
        int fd = (int) syscall(SYS_landlock_create_ruleset, rules, size, 0U);

        return fd < 0 ? -errno : fd;
}

static int enter_domain(int rules_fd)
{
        return syscall(SYS_landlock_restrict_self, rules_fd, 0U) < 0 ? -errno : 0;
}

/* Of all access rights of files, the domain handles only moving files between directories, which one rule
 * allows again. A process in such a domain cannot mount: the kernel refuses that in every domain with file
 * system rights. */
static int enter_domain_of_files(void)
{
        const LandlockRules rules = {.handled_access_fs = LANDLOCK_ACCESS_FS_REFER};
        struct landlock_path_beneath_attr everywhere = {.allowed_access = LANDLOCK_ACCESS_FS_REFER};
        _cleanup_close_ int fd = -EBADF, root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

        if (root < 0)
                return -errno;
        fd = create_rules(&rules, sizeof(rules.handled_access_fs));
        if (fd < 0)
                return fd;
        everywhere.parent_fd = root;
        if (syscall(SYS_landlock_add_rule, fd, LANDLOCK_RULE_PATH_BENEATH, &everywhere, 0U) < 0)
                return -errno;
        return enter_domain(fd);
}

/* A domain without file system rights does not forbid mounting. It needs Linux 6.12; its disadvantage is
 * that abstract sockets of processes outside of it cannot be connected to. */
static int enter_domain_of_sockets(void)
{
        const LandlockRules rules = {.scoped = SCOPE_ABSTRACT_UNIX_SOCKET};
        _cleanup_close_ int fd = create_rules(&rules, sizeof(rules));

        return fd < 0 ? fd : enter_domain(fd);
}

/* Landlock is not built in, not enabled, or older than Linux 5.19, whose rules would forbid moving files;
 * -E2BIG: older than 6.12. */
static bool is_missing(int r)
{
        return r == -ENOSYS || r == -EOPNOTSUPP || r == -EINVAL || r == -E2BIG;
}

/* An app that may mount can still do so. Before Linux 6.12 it has no domain if it has CAP_SYS_ADMIN, which
 * 'acnspawn status' reports (see stage1_app_is_confined()); if only its filter allows mount(), it cannot
 * mount in a user namespace of its own any more. An app that shares a pid namespace with others on purpose
 * has none: it sees no other processes than theirs. */
int apply_landlock(const LaunchConfig *c, Failure *f)
{
        if (c->shares_processes)
                return 0;
        int r = c->may_mount ? enter_domain_of_sockets() : -EOPNOTSUPP;

        if (is_missing(r) && !(c->capabilities & UINT64_C(1) << CAP_SYS_ADMIN))
                r = enter_domain_of_files();
        bool is_refused = is_refusal(r) && !is_missing(r);
        if (is_refused && c->landlock_optional)
                return 0;
        if (is_refused)
                return failure_set(
                                f, CAUSE_SETUP, r,
                                "Cannot isolate app %s from the other apps: Landlock is refused, by a filter of "
                                "system calls that acnspawn itself runs in, as in a container; "
                                "--landlock=optional runs the app without it",
                                c->app);
        if (r < 0 && !is_missing(r))
                return failure_set_errno(f, CAUSE_SETUP, r, "Cannot isolate app %s from the other apps",
                                         c->app);
        return 0;
}

int confine_system_calls(const LaunchConfig *c, Failure *f)
{
        struct sock_fprog program = {.len = (unsigned short) c->n_filter, .filter = c->filter};

        if (c->n_filter > 0 && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0U, &program) < 0)
                return failure_set_errno(f, CAUSE_SETUP, -errno,
                                         "Cannot install the filter of system calls");
        return 0;
}
