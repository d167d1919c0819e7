/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The default filter of apps, step by step: what a service needs, by systemd's groups; less what reaches
 * parts of the kernel that know nothing of pods; plus what a capability that the app may have is for.
 *
 * Whatever has a name but is not allowed fails with EPERM. What has none, being newer than this build, fails
 * with ENOSYS, so that programs fall back on what they did before the call existed. Nothing is killed. New
 * user namespaces are refused, which hold most of what a process could reach more of the kernel with;
 * clone3() hides its flags from filters, and with ENOSYS C libraries use clone(). The kernel decides on all
 * the rest as it would without a filter.
 */

#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/netlink.h>
#include <sched.h>
#include <sys/socket.h>

#include "stage1/seccomp-rules.h"

#define CAPABILITY(c) (UINT64_C(1) << (c))
#define ADMIN CAPABILITY(CAP_SYS_ADMIN)

#define ALLOW SECCOMP_RET_ALLOW
#define REFUSE SECCOMP_ERRNO(EPERM)
#define MISSING SECCOMP_ERRNO(ENOSYS)

#define NAMESPACES                                                                                          \
        (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |       \
         CLONE_NEWNET)
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif
/* Where s390 has the flags of clone(). */
#ifdef __s390x__
#define CLONE_FLAGS 1
#else
#define CLONE_FLAGS 0
#endif

static const SeccompEntry no_flag[] = {{0, 0, ALLOW, NULL}};
/* In clone() the bit of the time namespace is one of the signal's. */
static const SeccompTable clone_check = {SECCOMP_ARGUMENT(CLONE_FLAGS), NAMESPACES, REFUSE, no_flag,
                                         ELEMENTSOF(no_flag)};
static const SeccompTable unshare_check = {SECCOMP_ARGUMENT(0), NAMESPACES | CLONE_NEWTIME, REFUSE, no_flag,
                                           ELEMENTSOF(no_flag)};

/* AF_VSOCK reaches the hypervisor past every network namespace; audit is the host's, and programs that are
 * told that it is missing do without. Both look like a kernel that was built without them. */
static const SeccompEntry netlink_protocols[] = {
                {NETLINK_AUDIT, NETLINK_AUDIT, SECCOMP_ERRNO(EPROTONOSUPPORT), NULL}};
static const SeccompTable netlink_check = {SECCOMP_ARGUMENT(2), 0, ALLOW, netlink_protocols,
                                           ELEMENTSOF(netlink_protocols)};
static const SeccompEntry families[] = {
                {AF_NETLINK, AF_NETLINK, ALLOW, &netlink_check},
                {AF_VSOCK, AF_VSOCK, SECCOMP_ERRNO(EAFNOSUPPORT), NULL},
};
static const SeccompTable socket_check = {SECCOMP_ARGUMENT(0), 0, ALLOW, families, ELEMENTSOF(families)};
static const SeccompTable socket_audit_check = {SECCOMP_ARGUMENT(0), 0, ALLOW, families + 1,
                                                ELEMENTSOF(families) - 1};

/* Later steps win over earlier ones. A step with capabilities is for apps that have at least one of them.
 * Names that this build's tables do not have (yet, or any more) are no error. */
static const struct {
        const char *what;
        uint32_t action;
        uint64_t capabilities;
        const SeccompTable *check;
} steps[] = {
                {"@system-service", ALLOW},
                {"@pkey", ALLOW},
                {"@keyring", REFUSE},       /* keys belong to users, not to pods */
                {"io_uring_setup", REFUSE}, /* its calls pass by this filter */
                {"io_uring_enter", REFUSE},
                {"io_uring_register", REFUSE},
                {"userfaultfd", REFUSE},
                {"clone", ALLOW, 0, &clone_check},
                {"unshare", ALLOW, 0, &unshare_check},
                {"clone3", MISSING},
                {"setns", REFUSE},
                {"socket", ALLOW, 0, &socket_check},

                /* Debuggers, sandboxes and what is newer than the groups. */
                {"adjtimex", ALLOW}, /* reads, too; setting takes CAP_SYS_TIME */
                {"cachestat", ALLOW},
                {"chroot", ALLOW},
                {"clock_adjtime", ALLOW},
                {"clock_adjtime64", ALLOW},
                {"fanotify_mark", ALLOW},
                {"fchmodat2", ALLOW},
                {"file_getattr", ALLOW},
                {"file_setattr", ALLOW},
                {"futex_requeue", ALLOW},
                {"futex_wait", ALLOW},
                {"futex_waitv", ALLOW},
                {"futex_wake", ALLOW},
                {"getxattrat", ALLOW},
                {"landlock_add_rule", ALLOW},
                {"landlock_create_ruleset", ALLOW},
                {"landlock_restrict_self", ALLOW},
                {"listmount", ALLOW},
                {"listxattrat", ALLOW},
                {"lsm_get_self_attr", ALLOW},
                {"lsm_list_modules", ALLOW},
                {"lsm_set_self_attr", ALLOW},
                {"map_shadow_stack", ALLOW},
                {"membarrier", ALLOW},
                {"memfd_secret", ALLOW},
                {"mincore", ALLOW},
                {"modify_ldt", ALLOW},
                {"mseal", ALLOW},
                {"pidfd_getfd", ALLOW},
                {"process_madvise", ALLOW},
                {"process_mrelease", ALLOW},
                {"ptrace", ALLOW},
                {"removexattrat", ALLOW},
                {"rseq", ALLOW},
                {"seccomp", ALLOW},
                {"set_mempolicy_home_node", ALLOW},
                {"setxattrat", ALLOW},
                {"statmount", ALLOW},
                {"uprobe",
                 ALLOW}, /* these two are what the kernel itself puts into a program that is traced */
                {"uretprobe", ALLOW},
                {"get_tls", ALLOW}, /* 32-bit ARM */
                {"breakpoint", ALLOW},

                {"socket", ALLOW, CAPABILITY(CAP_AUDIT_CONTROL) | CAPABILITY(CAP_AUDIT_READ),
                 &socket_audit_check},
                {"bpf", ALLOW, CAPABILITY(CAP_BPF)},
                {"open_by_handle_at", ALLOW, CAPABILITY(CAP_DAC_READ_SEARCH)},
                {"perf_event_open", ALLOW, CAPABILITY(CAP_PERFMON)},
                {"reboot", ALLOW, CAPABILITY(CAP_SYS_BOOT)},
                {"@module", ALLOW, CAPABILITY(CAP_SYS_MODULE)},
                {"acct", ALLOW, CAPABILITY(CAP_SYS_PACCT)},
                {"@raw-io", ALLOW, CAPABILITY(CAP_SYS_RAWIO)},
                {"@clock", ALLOW, CAPABILITY(CAP_SYS_TIME)},
                {"stime", ALLOW, CAPABILITY(CAP_SYS_TIME)},
                {"vhangup", ALLOW, CAPABILITY(CAP_SYS_TTY_CONFIG)},
                {"syslog", ALLOW, CAPABILITY(CAP_SYSLOG) | ADMIN},
                {"@mount", ALLOW, ADMIN},
                {"bpf", ALLOW, ADMIN},
                {"clone", ALLOW, ADMIN},
                {"clone3", ALLOW, ADMIN},
                {"fanotify_init", ALLOW, ADMIN},
                {"lookup_dcookie", ALLOW, ADMIN},
                {"open_tree_attr", ALLOW, ADMIN},
                {"perf_event_open", ALLOW, ADMIN},
                {"quotactl", ALLOW, ADMIN},
                {"quotactl_fd", ALLOW, ADMIN},
                {"setdomainname", ALLOW, ADMIN},
                {"sethostname", ALLOW, ADMIN},
                {"setns", ALLOW, ADMIN},
                {"unshare", ALLOW, ADMIN},
};

int seccomp_rules_init_default(SeccompRules *r, uint64_t capabilities)
{
        _cleanup_seccomp_rules_ SeccompRules rules = {};

        int k = seccomp_rules_init(&rules, REFUSE);
        if (k < 0)
                return k;
        rules.otherwise = MISSING;
        for (size_t i = 0; i < ELEMENTSOF(steps); i++) {
                if (steps[i].capabilities != 0 && !(steps[i].capabilities & capabilities))
                        continue;
                (void) seccomp_rules_set(&rules, steps[i].what,
                                         (SeccompRule){steps[i].action, steps[i].check, false});
        }
        *r = rules;
        rules = (SeccompRules){};
        return 0;
}
