/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The default filter of apps, step by step: what a service needs, by systemd's groups; minus calls that
 * reach parts of the kernel that are not namespaced, and calls that container engines refuse because of past
 * vulnerabilities; plus the calls that a capability of the app is for. Every difference to the filters of
 * podman and systemd-nspawn is in a table of acnspawn-defaults(7), which tests/unit/test-filter-table.py
 * compares with what is built here.
 *
 * Calls that are known but not allowed fail with EPERM. Unknown calls, newer than this build, fail with
 * ENOSYS, so that programs fall back on what they did before the call existed; the same holds for calls that
 * many kernels are built without. No process is killed. New user namespaces are refused, since in them a
 * process could reach much more of the kernel; the flags of clone3() are not visible to filters, so it fails
 * with ENOSYS, and C libraries use clone() then. All other calls are decided by the kernel as without a
 * filter.
 */

#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/personality.h>
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
/* On s390 the flags of clone() are the second argument. */
#ifdef __s390x__
#define CLONE_FLAGS 1
#else
#define CLONE_FLAGS 0
#endif

static const SeccompEntry no_flag[] = {{0, 0, ALLOW, NULL}};
/* In clone() the bit of the time namespace is part of the exit signal. */
static const SeccompTable clone_check = {SECCOMP_ARGUMENT(CLONE_FLAGS), NAMESPACES, REFUSE, no_flag,
                                         ELEMENTSOF(no_flag)};
static const SeccompTable unshare_check = {SECCOMP_ARGUMENT(0), NAMESPACES | CLONE_NEWTIME, REFUSE, no_flag,
                                           ELEMENTSOF(no_flag)};

/* Sockets of the families that services use. Each of the others is a separate protocol in the kernel, most
 * of them little used and little tested; AF_ALG is the kernel's cryptography, and AF_VSOCK reaches the
 * hypervisor regardless of network namespaces. The errors are those of a kernel that was built without them.
 * Within a family the same goes for its protocols, which the kernel also loads on demand: SMC has a number of AF_INET as well, and SCTP,
 * DCCP and L2TP are sockets of types and protocols of their own. Raw sockets, which take CAP_NET_RAW, load none. Of netlink, audit is the
 * host's, and programs continue without it if it is reported as missing; NETLINK_CRYPTO is another interface to what AF_ALG offers. */
#define NO_FAMILY SECCOMP_ERRNO(EAFNOSUPPORT)
#define NO_TYPE SECCOMP_ERRNO(ESOCKTNOSUPPORT)
#define NO_PROTOCOL SECCOMP_ERRNO(EPROTONOSUPPORT)
#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif
#define SOCKET_TYPE_MASK 0xfU /* the other bits are flags */

#define ONE(value)                                                                                          \
        {                                                                                                   \
                (value), (value), ALLOW, NULL                                                               \
        }

static const SeccompEntry stream_protocols[] = {ONE(0), ONE(IPPROTO_TCP), ONE(IPPROTO_MPTCP)};
static const SeccompEntry datagram_protocols[] = {ONE(0), ONE(IPPROTO_ICMP), ONE(IPPROTO_UDP),
                                                  ONE(IPPROTO_ICMPV6), ONE(IPPROTO_UDPLITE)};
static const SeccompTable stream_check = {SECCOMP_ARGUMENT(2),          0,   NO_PROTOCOL, stream_protocols,
                                          ELEMENTSOF(stream_protocols), true};
static const SeccompTable datagram_check = {SECCOMP_ARGUMENT(2),
                                            0,
                                            NO_PROTOCOL,
                                            datagram_protocols,
                                            ELEMENTSOF(datagram_protocols),
                                            true};
static const SeccompEntry internet_types[] = {
                {SOCK_STREAM, SOCK_STREAM, ALLOW, &stream_check},
                {SOCK_DGRAM, SOCK_DGRAM, ALLOW, &datagram_check},
                ONE(SOCK_RAW),
};
static const SeccompTable internet_check = {SECCOMP_ARGUMENT(1), SOCKET_TYPE_MASK,           NO_TYPE,
                                            internet_types,      ELEMENTSOF(internet_types), true};

/* Without those of storage (NETLINK_ISCSI, NETLINK_SCSITRANSPORT, NETLINK_ECRYPTFS), RDMA and SMC. */
#define NETLINK_USUAL                                                                                       \
        ONE(NETLINK_FIB_LOOKUP), ONE(NETLINK_CONNECTOR), ONE(NETLINK_NETFILTER),                            \
        {                                                                                                   \
                NETLINK_KOBJECT_UEVENT, NETLINK_GENERIC, ALLOW, NULL                                        \
        }

static const SeccompEntry netlink_protocols[] = {
                ONE(NETLINK_ROUTE),     ONE(NETLINK_USERSOCK),
                ONE(NETLINK_SOCK_DIAG), {NETLINK_XFRM, NETLINK_SELINUX, ALLOW, NULL},
                NETLINK_USUAL,
};
static const SeccompEntry netlink_audit_protocols[] = {
                ONE(NETLINK_ROUTE),     ONE(NETLINK_USERSOCK),
                ONE(NETLINK_SOCK_DIAG), {NETLINK_XFRM, NETLINK_SELINUX, ALLOW, NULL},
                ONE(NETLINK_AUDIT),     NETLINK_USUAL,
};
static const SeccompTable netlink_check = {
                SECCOMP_ARGUMENT(2), 0, NO_PROTOCOL, netlink_protocols, ELEMENTSOF(netlink_protocols), true};
static const SeccompTable netlink_audit_check = {SECCOMP_ARGUMENT(2),
                                                 0,
                                                 NO_PROTOCOL,
                                                 netlink_audit_protocols,
                                                 ELEMENTSOF(netlink_audit_protocols),
                                                 true};

#define FAMILIES(netlink)                                                                                   \
        {                                                                                                   \
                ONE(AF_UNIX), {AF_INET, AF_INET, ALLOW, &internet_check},                                   \
                                {AF_INET6, AF_INET6, ALLOW, &internet_check},                               \
                                {AF_NETLINK, AF_NETLINK, ALLOW, (netlink)},                                 \
                                {AF_PACKET, AF_PACKET, ALLOW, NULL},                                        \
        }
static const SeccompEntry families[] = FAMILIES(&netlink_check);
static const SeccompEntry families_with_audit[] = FAMILIES(&netlink_audit_check);
static const SeccompTable socket_check = {SECCOMP_ARGUMENT(0),  0,   NO_FAMILY, families,
                                          ELEMENTSOF(families), true};
static const SeccompTable socket_audit_check = {SECCOMP_ARGUMENT(0),
                                                0,
                                                NO_FAMILY,
                                                families_with_audit,
                                                ELEMENTSOF(families_with_audit),
                                                true};

/* Other values disable protections of a process (ADDR_NO_RANDOMIZE, READ_IMPLIES_EXEC, MMAP_PAGE_ZERO), or
 * are for binaries of obsolete systems. */
static const SeccompEntry personalities[] = {
                {PER_LINUX, PER_LINUX, ALLOW, NULL},
                {PER_LINUX32, PER_LINUX32, ALLOW, NULL},
                {UNAME26, UNAME26, ALLOW, NULL},
                {UNAME26 | PER_LINUX32, UNAME26 | PER_LINUX32, ALLOW, NULL},
                {UINT32_MAX, UINT32_MAX, ALLOW, NULL}, /* queries the current personality */
};
static const SeccompTable personality_check = {SECCOMP_ARGUMENT(0), 0, REFUSE, personalities,
                                               ELEMENTSOF(personalities)};

/* Later steps override earlier ones. A step with capabilities applies to apps that have at least one of
 * them. Names that this build's tables lack (not yet added, or removed) are no error. */
static const struct {
        const char *what;
        uint32_t action;
        uint64_t capabilities;
        const SeccompTable *check;
} steps[] = {
                {"@systemd/system-service", ALLOW},
                {"@systemd/pkey", ALLOW},
                {"@systemd/keyring", REFUSE}, /* keyrings are per user, not per pod */
                {"io_setup", MISSING}, /* its requests are counted for the whole host; programs do without */
                {"io_uring_setup", REFUSE}, /* its operations bypass this filter */
                {"io_uring_enter", REFUSE},
                {"io_uring_register", REFUSE},
                {"userfaultfd", REFUSE},
                {"clone", ALLOW, 0, &clone_check},
                {"unshare", ALLOW, 0, &unshare_check},
                {"clone3", MISSING},
                {"setns", REFUSE},
                {"socket", ALLOW, 0, &socket_check},
                {"socketpair", ALLOW, 0, &socket_check},
                {"personality", ALLOW, 0, &personality_check},
                {"nice", REFUSE}, /* 32-bit calls that C libraries have not used for decades */
                {"oldfstat", REFUSE},
                {"oldlstat", REFUSE},
                {"oldolduname", REFUSE},
                {"oldstat", REFUSE},
                {"olduname", REFUSE},

                /* For debuggers and sandboxes, and calls that are newer than the groups. */
                {"cachestat", ALLOW},
                {"chroot", ALLOW},
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
                {"map_shadow_stack", ALLOW},
                {"membarrier", ALLOW},
                {"memfd_secret", ALLOW},
                {"mincore", ALLOW},
                {"mseal", ALLOW},
                {"process_mrelease", ALLOW},
                {"ptrace", ALLOW},
                {"removexattrat", ALLOW},
                {"rseq", ALLOW},
                {"seccomp", ALLOW},
                {"set_mempolicy_home_node", ALLOW},
                {"setxattrat", ALLOW},
                {"statmount", ALLOW},
                {"uprobe", ALLOW}, /* the kernel itself inserts these two into a traced program */
                {"uretprobe", ALLOW},
                {"get_tls", ALLOW}, /* 32-bit ARM */
                {"breakpoint", ALLOW},

                /* Newer systemd has some of these in its groups. */
                /* Some calls of this group can also only read, but that depends on memory behind a pointer. */
                {"@systemd/clock", REFUSE},
                {"fanotify_init", REFUSE},
                {"fanotify_mark", REFUSE},
                {"kcmp", REFUSE}, /* reveals addresses of kernel objects and information about other
                                   * processes */
                {"migrate_pages", REFUSE},
                {"move_pages", REFUSE},
                {"pidfd_getfd", REFUSE},
                {"process_madvise", REFUSE},
                {"vmsplice", REFUSE},           /* user pages in pipes: exploited repeatedly */
                {"lsm_get_self_attr", MISSING}, /* labels are chosen by the launcher; */
                {"lsm_list_modules", MISSING},  /* libraries fall back on /proc */
                {"lsm_set_self_attr", MISSING},
                {"modify_ldt", MISSING}, /* 16-bit programs */

                {"socket", ALLOW, CAPABILITY(CAP_AUDIT_CONTROL) | CAPABILITY(CAP_AUDIT_READ),
                 &socket_audit_check},
                {"bpf", ALLOW, CAPABILITY(CAP_BPF)},
                {"open_by_handle_at", ALLOW, CAPABILITY(CAP_DAC_READ_SEARCH)},
                {"perf_event_open", ALLOW, CAPABILITY(CAP_PERFMON)},
                {"reboot", ALLOW, CAPABILITY(CAP_SYS_BOOT)},
                {"@systemd/module", ALLOW, CAPABILITY(CAP_SYS_MODULE)},
                {"acct", ALLOW, CAPABILITY(CAP_SYS_PACCT)},
                {"@systemd/raw-io", ALLOW, CAPABILITY(CAP_SYS_RAWIO)},
                {"kcmp", ALLOW, CAPABILITY(CAP_SYS_PTRACE)},
                {"pidfd_getfd", ALLOW, CAPABILITY(CAP_SYS_PTRACE)},
                {"process_madvise", ALLOW, CAPABILITY(CAP_SYS_PTRACE)},
                {"migrate_pages", ALLOW, CAPABILITY(CAP_SYS_NICE)},
                {"move_pages", ALLOW, CAPABILITY(CAP_SYS_NICE)},
                {"@systemd/clock", ALLOW, CAPABILITY(CAP_SYS_TIME)},
                {"stime", ALLOW, CAPABILITY(CAP_SYS_TIME)},
                {"vhangup", ALLOW, CAPABILITY(CAP_SYS_TTY_CONFIG)},
                {"syslog", ALLOW, CAPABILITY(CAP_SYSLOG) | ADMIN},
                {"@systemd/mount", ALLOW, ADMIN},
                {"bpf", ALLOW, ADMIN},
                {"clone", ALLOW, ADMIN},
                {"clone3", ALLOW, ADMIN},
                {"fanotify_init", ALLOW, ADMIN},
                {"fanotify_mark", ALLOW, ADMIN},
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
