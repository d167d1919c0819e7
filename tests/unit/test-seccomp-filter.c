/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The filters of apps: the default one, those of the isolators, and that the kernel accepts and enforces
 * them. */

#include <linux/audit.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "stage1/seccomp-filter.h"
#include "stage1/seccomp-rules.h"
#include "tests/unit/filter-machine.h"
#include "tests/unit/test.h"

#define RETAIN "os/linux/seccomp-retain-set"
#define REMOVE "os/linux/seccomp-remove-set"
#define BEYOND 1000 /* no kernel has so many calls yet */

#define ALLOW SECCOMP_RET_ALLOW
#define KILL SECCOMP_RET_KILL_PROCESS
#define FAIL(e) SECCOMP_ERRNO(e)

#define CAP(n) (UINT64_C(1) << (n))
#define CAP_SYS_ADMIN 21
#define CAP_SYS_TIME 25

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#elif defined(__i386__)
#define ARCHITECTURE AUDIT_ARCH_I386
#elif defined(__riscv) && __riscv_xlen == 64
#define ARCHITECTURE AUDIT_ARCH_RISCV64
#elif defined(__s390x__)
#define ARCHITECTURE AUDIT_ARCH_S390X
#elif defined(__powerpc64__)
#define ARCHITECTURE AUDIT_ARCH_PPC64LE
#endif

/* --- What programs decide ------------------------------------------------------------------------------ */

static uint32_t decide_for(const SeccompProgram *p, uint32_t architecture, int nr, uint64_t a0, uint64_t a2)
{
        struct seccomp_data data = {.nr = nr, .arch = architecture, .args = {a0, SOCK_STREAM, a2}};

        return filter_run(p, &data);
}

static uint32_t decide_socket(const SeccompProgram *p, int nr, int family, int type, int protocol)
{
        struct seccomp_data data = {.nr = nr,
                                    .arch = ARCHITECTURE,
                                    .args = {(unsigned) family, (unsigned) type, (unsigned) protocol}};

        return filter_run(p, &data);
}

static uint32_t decide(const SeccompProgram *p, int nr)
{
        return decide_for(p, ARCHITECTURE, nr, 0, 0);
}

static int compile(const char *name, const char *value, uint64_t capabilities, SeccompProgram *ret, Error *e)
{
        IsolatorList l = {};
        int r = 0;

        if (name) {
                l.items = calloc(1, sizeof(Isolator));
                l.n = l.allocated = 1;
                if (!l.items)
                        return -ENOMEM;
                r = isolator_parse(name, value, &l.items[0], e);
                if (r < 0)
                        l.n = 0;
        }
        if (r >= 0)
                r = seccomp_compile(&l, capabilities, ret, e);
        isolator_list_done(&l);
        return r;
}

TEST(default_decisions)
{
        static const struct {
                int nr;
                uint32_t decision;
        } calls[] = {
                        {SYS_read, ALLOW},
                        {SYS_getpid, ALLOW},
                        {SYS_execve, ALLOW},
                        {SYS_rseq, ALLOW},
                        {SYS_statx, ALLOW},
                        {SYS_faccessat2, ALLOW},
                        {SYS_openat2, ALLOW},
                        {SYS_close_range, ALLOW},
                        {SYS_pidfd_open, ALLOW},
                        {SYS_pidfd_getfd, FAIL(EPERM)},
                        {SYS_epoll_pwait2, ALLOW},
                        {SYS_futex_waitv, ALLOW},
                        {SYS_memfd_create, ALLOW},
                        {SYS_membarrier, ALLOW},
                        {SYS_landlock_restrict_self, ALLOW},
                        {SYS_sched_setattr, ALLOW},
                        {SYS_personality, ALLOW},
                        {SYS_ptrace, ALLOW},
                        {SYS_process_vm_readv, ALLOW},
                        {SYS_pkey_alloc, ALLOW},
                        {SYS_chroot, ALLOW},
                        {SYS_seccomp, ALLOW},
                        {SYS_setresuid, ALLOW},
                        {SYS_capset, ALLOW},
                        {SYS_mknodat, ALLOW},
                        {SYS_mincore, ALLOW},
                        {SYS_clock_adjtime, FAIL(EPERM)},
                        {SYS_adjtimex, FAIL(EPERM)},
                        {SYS_kcmp, FAIL(EPERM)},
                        {SYS_process_madvise, FAIL(EPERM)},
                        {SYS_vmsplice, FAIL(EPERM)},
                        {SYS_move_pages, FAIL(EPERM)},
                        {SYS_migrate_pages, FAIL(EPERM)},
                        {SYS_fanotify_mark, FAIL(EPERM)},
                        {459 /* lsm_get_self_attr */, FAIL(ENOSYS)},
                        {452 /* fchmodat2 */, ALLOW},
                        {462 /* mseal */, ALLOW},
                        {SYS_keyctl, FAIL(EPERM)},
                        {SYS_add_key, FAIL(EPERM)},
                        {SYS_reboot, FAIL(EPERM)},
                        {SYS_mount, FAIL(EPERM)},
                        {SYS_move_mount, FAIL(EPERM)},
                        {SYS_setns, FAIL(EPERM)},
                        {SYS_bpf, FAIL(EPERM)},
                        {SYS_perf_event_open, FAIL(EPERM)},
                        {SYS_io_uring_setup, FAIL(EPERM)},
                        {SYS_io_setup, FAIL(ENOSYS)},
                        {SYS_userfaultfd, FAIL(EPERM)},
                        {SYS_init_module, FAIL(EPERM)},
                        {SYS_kexec_load, FAIL(EPERM)},
                        {SYS_swapon, FAIL(EPERM)},
                        {SYS_clock_settime, FAIL(EPERM)},
                        {SYS_open_by_handle_at, FAIL(EPERM)},
                        {SYS_syslog, FAIL(EPERM)},
                        {SYS_sethostname, FAIL(EPERM)},
                        {SYS_clone3, FAIL(ENOSYS)},
                        {BEYOND, FAIL(ENOSYS)},
                        {999999, FAIL(ENOSYS)},
                        {-1, ALLOW},
        };
        _cleanup_seccomp_program_ SeccompProgram p = {};

        ASSERT_OK(compile(NULL, NULL, 0, &p, NULL));
        for (size_t i = 0; i < ELEMENTSOF(calls); i++)
                if (decide(&p, calls[i].nr) != calls[i].decision)
                        TEST_FAIL("call %d: 0x%08x", calls[i].nr, decide(&p, calls[i].nr));
        ASSERT_LT(p.n, 300); /* each one costs every process of every app */
}

/* Only these three actions, for arbitrary arguments: in particular, no call kills. */
TEST(default_never_kills)
{
        _cleanup_seccomp_program_ SeccompProgram p = {};

        ASSERT_OK(compile(NULL, NULL, 0, &p, NULL));
        for (int nr = -2; nr < 2000; nr++)
                for (uint64_t a = 0; a < 64; a++) {
                        uint32_t d = decide_for(&p, ARCHITECTURE, nr, UINT64_C(1) << a, a);
                        if (d != ALLOW && (d & SECCOMP_RET_ACTION_FULL) != SECCOMP_RET_ERRNO)
                                TEST_FAIL("call %d: 0x%08x", nr, d);
                }
        ASSERT_EQ(decide_for(&p, 0xdeadbeef, SYS_read, 0, 0), FAIL(ENOSYS));
}

TEST(default_arguments)
{
        _cleanup_seccomp_program_ SeccompProgram p = {};
        static const uint32_t namespaces[] = {CLONE_NEWNS,   CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
                                              CLONE_NEWUSER, CLONE_NEWPID,    CLONE_NEWNET};

        ASSERT_OK(compile(NULL, NULL, 0, &p, NULL));
        for (size_t i = 0; i < ELEMENTSOF(namespaces); i++) {
                ASSERT_EQ(decide_for(&p, ARCHITECTURE, SYS_unshare, namespaces[i] | CLONE_FILES, 0),
                          FAIL(EPERM));
#ifndef __s390x__
                ASSERT_EQ(decide_for(&p, ARCHITECTURE, SYS_clone, namespaces[i] | SIGCHLD, 0), FAIL(EPERM));
#endif
        }
        ASSERT_EQ(decide_for(&p, ARCHITECTURE, SYS_unshare, 0x80 /* CLONE_NEWTIME */, 0), FAIL(EPERM));
        ASSERT_EQ(decide_for(&p, ARCHITECTURE, SYS_unshare, CLONE_FILES | CLONE_FS, 0), ALLOW);
        ASSERT_EQ(decide_for(&p, ARCHITECTURE, SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD, 0), ALLOW);
        ASSERT_EQ(decide_for(&p, ARCHITECTURE, SYS_clone, 0x80, 0), ALLOW);
        ASSERT_EQ(decide_for(&p, ARCHITECTURE, SYS_socket, AF_INET, 0), ALLOW);
        ASSERT_EQ(decide_for(&p, ARCHITECTURE, SYS_socket, AF_NETLINK, NETLINK_ROUTE), ALLOW);
        ASSERT_EQ(decide_for(&p, ARCHITECTURE, SYS_socket, AF_NETLINK, NETLINK_AUDIT),
                  FAIL(EPROTONOSUPPORT));
        ASSERT_EQ(decide_for(&p, ARCHITECTURE, SYS_socket, AF_NETLINK, NETLINK_CRYPTO),
                  FAIL(EPROTONOSUPPORT));
        /* The kernel uses only the lower half, so the filter must ignore the upper one. */
        ASSERT_EQ(decide_for(&p, ARCHITECTURE, SYS_socket, AF_VSOCK | UINT64_C(1) << 32, 0),
                  FAIL(EAFNOSUPPORT));
        ASSERT_EQ(decide_for(&p, ARCHITECTURE, SYS_unshare, CLONE_NEWUSER | UINT64_C(1) << 40, 0),
                  FAIL(EPERM));
}

/* Of all address families, existing and future ones, only those that services need. */
TEST(default_socket_families)
{
        static const int calls[] = {SYS_socket, SYS_socketpair};
        _cleanup_seccomp_program_ SeccompProgram p = {};

        ASSERT_OK(compile(NULL, NULL, 0, &p, NULL));
        for (size_t i = 0; i < ELEMENTSOF(calls); i++)
                for (uint64_t family = 0; family < 300; family++) {
                        bool common = family == AF_UNIX || family == AF_INET || family == AF_INET6 ||
                                      family == AF_NETLINK || family == AF_PACKET;
                        uint32_t d = decide_for(&p, ARCHITECTURE, calls[i], family, 0);
                        if (d != (common ? ALLOW : FAIL(EAFNOSUPPORT)))
                                TEST_FAIL("call %d, family %d: 0x%08x", calls[i], (int) family, d);
                }
        ASSERT_EQ(decide_for(&p, ARCHITECTURE, SYS_socket, AF_ALG, 0), FAIL(EAFNOSUPPORT));
}

/* Those that would load a module of the host for a protocol that services do not use. */
TEST(default_socket_protocols)
{
        static const int calls[] = {SYS_socket, SYS_socketpair}, internet[] = {AF_INET, AF_INET6};
        static const struct {
                int type, protocols[8];
        } possible[] = {
                        {SOCK_STREAM, {0, IPPROTO_TCP, 262 /* IPPROTO_MPTCP */, -1}},
                        {SOCK_DGRAM, {0, IPPROTO_UDP, IPPROTO_ICMP, IPPROTO_ICMPV6, IPPROTO_UDPLITE, -1}},
        };
        static const int netlink[] = {NETLINK_ROUTE,     NETLINK_USERSOCK,  NETLINK_SOCK_DIAG,
                                      NETLINK_XFRM,      NETLINK_SELINUX,   NETLINK_FIB_LOOKUP,
                                      NETLINK_CONNECTOR, NETLINK_NETFILTER, NETLINK_KOBJECT_UEVENT,
                                      NETLINK_GENERIC};
        _cleanup_seccomp_program_ SeccompProgram p = {};

        ASSERT_OK(compile(NULL, NULL, 0, &p, NULL));
        for (size_t c = 0; c < ELEMENTSOF(calls) * ELEMENTSOF(internet); c++)
                for (int type = 0; type < 16; type++)
                        for (int protocol = 0; protocol < 300; protocol++) {
                                uint32_t expected = type == SOCK_RAW ? ALLOW : FAIL(ESOCKTNOSUPPORT);
                                for (size_t i = 0; i < ELEMENTSOF(possible); i++) {
                                        if (possible[i].type != type)
                                                continue;
                                        expected = FAIL(EPROTONOSUPPORT);
                                        for (size_t k = 0; possible[i].protocols[k] >= 0; k++)
                                                if (possible[i].protocols[k] == protocol)
                                                        expected = ALLOW;
                                }
                                uint32_t d = decide_socket(&p, calls[c % 2], internet[c / 2],
                                                           type | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
                                if (d != expected)
                                        TEST_FAIL("type %d, protocol %d: 0x%08x", type, protocol, d);
                        }
        for (int protocol = 0; protocol < 64; protocol++) {
                bool common = false;
                for (size_t i = 0; i < ELEMENTSOF(netlink); i++)
                        common = common || netlink[i] == protocol;
                ASSERT_EQ(decide_socket(&p, SYS_socket, AF_NETLINK, SOCK_RAW, protocol),
                          common ? ALLOW : FAIL(EPROTONOSUPPORT));
        }
}

TEST(default_personalities)
{
        static const uint32_t harmless[] = {0, 8, 0x20000, 0x20008, 0xffffffff};
        _cleanup_seccomp_program_ SeccompProgram p = {};

        ASSERT_OK(compile(NULL, NULL, 0, &p, NULL));
        for (size_t i = 0; i < ELEMENTSOF(harmless); i++)
                ASSERT_EQ(decide_for(&p, ARCHITECTURE, SYS_personality, harmless[i], 0), ALLOW);
        ASSERT_EQ(decide_for(&p, ARCHITECTURE, SYS_personality, ADDR_NO_RANDOMIZE, 0), FAIL(EPERM));
        ASSERT_EQ(decide_for(&p, ARCHITECTURE, SYS_personality, READ_IMPLIES_EXEC, 0), FAIL(EPERM));
        for (unsigned bit = 0; bit < 32; bit++)
                if (UINT32_C(1) << bit != PER_LINUX32 && UINT32_C(1) << bit != UNAME26)
                        ASSERT_EQ(decide_for(&p, ARCHITECTURE, SYS_personality, UINT32_C(1) << bit, 0),
                                  FAIL(EPERM));
}

TEST(capabilities_open_calls)
{
        _cleanup_seccomp_program_ SeccompProgram admin = {}, clock = {};

        ASSERT_OK(compile(NULL, NULL, CAP(CAP_SYS_ADMIN), &admin, NULL));
        ASSERT_EQ(decide(&admin, SYS_mount), ALLOW);
        ASSERT_EQ(decide(&admin, SYS_setns), ALLOW);
        ASSERT_EQ(decide(&admin, SYS_clone3), ALLOW);
        ASSERT_EQ(decide_for(&admin, ARCHITECTURE, SYS_unshare, CLONE_NEWUSER, 0), ALLOW);
        ASSERT_EQ(decide(&admin, SYS_bpf), ALLOW);
        ASSERT_EQ(decide(&admin, SYS_keyctl), FAIL(EPERM));
        ASSERT_EQ(decide(&admin, SYS_reboot), FAIL(EPERM));
        ASSERT_EQ(decide(&admin, SYS_clock_settime), FAIL(EPERM));
        ASSERT_EQ(decide(&admin, BEYOND), FAIL(ENOSYS));
        ASSERT_OK(compile(NULL, NULL, CAP(CAP_SYS_TIME), &clock, NULL));
        ASSERT_EQ(decide(&clock, SYS_clock_settime), ALLOW);
        ASSERT_EQ(decide(&clock, SYS_mount), FAIL(EPERM));
}

#ifdef __x86_64__
#define I386(nr, a0) decide_for(&p, AUDIT_ARCH_I386, (nr), (a0), 0)

TEST(other_architectures)
{
        _cleanup_seccomp_program_ SeccompProgram p = {};

        ASSERT_OK(compile(NULL, NULL, 0, &p, NULL));
        ASSERT_EQ(I386(3 /* read */, 0), ALLOW);
        ASSERT_EQ(I386(11 /* execve */, 0), ALLOW);
        ASSERT_EQ(I386(192 /* mmap2 */, 0), ALLOW);
        /* The pointer argument of socketcall() may refer to any family. */
        ASSERT_EQ(I386(102 /* socketcall */, 1 /* socket */), FAIL(ENOSYS));
        ASSERT_EQ(I386(102, 8 /* socketpair */), FAIL(ENOSYS));
        ASSERT_EQ(I386(102, 2 /* bind */), ALLOW);
        ASSERT_EQ(I386(102, 16 /* sendmsg */), ALLOW);
        ASSERT_EQ(I386(359 /* socket */, AF_ALG), FAIL(EAFNOSUPPORT));
        ASSERT_EQ(I386(123 /* modify_ldt */, 1), FAIL(ENOSYS));
        ASSERT_EQ(I386(59 /* oldolduname */, 0), FAIL(EPERM));
        ASSERT_EQ(I386(136 /* personality */, ADDR_NO_RANDOMIZE), FAIL(EPERM));
        ASSERT_EQ(I386(117 /* ipc */, 21), ALLOW);
        ASSERT_EQ(I386(21 /* mount */, 0), FAIL(EPERM));
        ASSERT_EQ(I386(88 /* reboot */, 0), FAIL(EPERM));
        ASSERT_EQ(I386(288 /* keyctl */, 0), FAIL(EPERM));
        ASSERT_EQ(I386(310 /* unshare */, CLONE_NEWUSER), FAIL(EPERM));
        ASSERT_EQ(I386(359 /* socket */, AF_VSOCK), FAIL(EAFNOSUPPORT));
        ASSERT_EQ(I386(BEYOND, 0), FAIL(ENOSYS));
        ASSERT_EQ(decide(&p, 0x40000000 + SYS_read), FAIL(ENOSYS)); /* x32 */
        ASSERT_EQ(decide(&p, 0x40000000 + 520), FAIL(ENOSYS));
}

/* A call that is encoded in an argument of another one is also filtered, regardless of other bits of the
 * argument. */
TEST(multiplexed_calls)
{
        _cleanup_seccomp_program_ SeccompProgram p = {};

        ASSERT_OK(compile(REMOVE, "{\"set\": [\"socket\", \"shmat\"], \"errno\": \"ENOTTY\"}", 0, &p, NULL));
        ASSERT_EQ(I386(102, 1), FAIL(ENOTTY));
        ASSERT_EQ(I386(102, 2), ALLOW);
        ASSERT_EQ(I386(359, AF_INET), FAIL(ENOTTY));
        ASSERT_EQ(I386(117, 21), FAIL(ENOTTY));
        ASSERT_EQ(I386(117, 21 | 1 << 16), FAIL(ENOTTY));
        ASSERT_EQ(I386(117, 22), ALLOW);
        seccomp_program_done(&p);

        ASSERT_OK(compile(RETAIN, "{\"set\": [\"socket\", \"bind\"], \"errno\": \"ENOTTY\"}", 0, &p, NULL));
        ASSERT_EQ(I386(102, 1), ALLOW);
        ASSERT_EQ(I386(102, 2), ALLOW);
        ASSERT_EQ(I386(102, 3), FAIL(ENOTTY));
        ASSERT_EQ(I386(102, 77), FAIL(ENOTTY));
        seccomp_program_done(&p);

        /* 32-bit programs with older C libraries have no other call for sockets: if named, it is allowed. */
        for (size_t i = 0; i < 2; i++) {
                ASSERT_OK(compile(RETAIN,
                                  i == 0 ? "{\"set\": [\"@acnspawn/default\", \"socketcall\"]}"
                                         : "{\"set\": [\"@acnspawn/default\", \"socket\"]}",
                                  0, &p, NULL));
                ASSERT_EQ(I386(102, 1), ALLOW);
                seccomp_program_done(&p);
        }

        ASSERT_OK(compile(RETAIN, "{\"set\": [\"socketcall\"], \"errno\": \"ENOTTY\"}", 0, &p, NULL));
        ASSERT_EQ(I386(102, 3), ALLOW);
        ASSERT_EQ(I386(359, AF_INET), FAIL(ENOTTY));
}
#endif

/* --- Isolators ----------------------------------------------------------------------------------------- */

TEST(retain_set)
{
        _cleanup_seccomp_program_ SeccompProgram p = {};

        ASSERT_OK(compile(RETAIN, "{\"set\": [\"read\", \"write\", \"mount\"]}", 0, &p, NULL));
        ASSERT_EQ(decide(&p, SYS_read), ALLOW);
        ASSERT_EQ(decide(&p, SYS_mount), ALLOW);
        ASSERT_EQ(decide(&p, SYS_execve), ALLOW);
        ASSERT_EQ(decide(&p, SYS_exit_group), ALLOW);
        ASSERT_EQ(decide(&p, SYS_rt_sigreturn), ALLOW);
        ASSERT_EQ(decide(&p, SYS_openat), KILL);
        ASSERT_EQ(decide(&p, SYS_clone3), KILL);
        ASSERT_EQ(decide(&p, BEYOND), KILL);
        ASSERT_EQ(decide(&p, -1), ALLOW); /* cancelled by a debugger */
        ASSERT_EQ(decide_for(&p, 0xdeadbeef, SYS_read, 0, 0), KILL);
        seccomp_program_done(&p);

        /* Calls that are named are allowed with all arguments. */
        ASSERT_OK(compile(RETAIN, "{\"set\": [\"unshare\", \"socket\"], \"errno\": \"EACCES\"}", 0, &p,
                          NULL));
        ASSERT_EQ(decide_for(&p, ARCHITECTURE, SYS_unshare, CLONE_NEWUSER, 0), ALLOW);
        ASSERT_EQ(decide_for(&p, ARCHITECTURE, SYS_socket, AF_VSOCK, 0), ALLOW);
        ASSERT_EQ(decide(&p, SYS_openat), FAIL(EACCES));
}

TEST(retain_wildcards)
{
        _cleanup_seccomp_program_ SeccompProgram p = {};

        ASSERT_OK(compile(RETAIN, "{\"set\": [\"@appc.io/all\", \"read\"]}", 0, &p, NULL));
        ASSERT_EQ(p.n, 0);
        ASSERT_OK(compile(RETAIN, "{\"set\": [\"@acnspawn/default\", \"keyctl\"]}", 0, &p, NULL));
        ASSERT_EQ(decide(&p, SYS_openat), ALLOW);
        ASSERT_EQ(decide(&p, SYS_keyctl), ALLOW);
        ASSERT_EQ(decide(&p, SYS_add_key), KILL);
        /* Without this no C library could make a thread. */
        ASSERT_EQ(decide(&p, SYS_clone3), FAIL(ENOSYS));
        ASSERT_EQ(decide(&p, BEYOND), FAIL(ENOSYS));
        ASSERT_EQ(decide_for(&p, ARCHITECTURE, SYS_unshare, CLONE_NEWUSER, 0), FAIL(EPERM));
        seccomp_program_done(&p);
        ASSERT_OK(compile(RETAIN, "{\"set\": [\"unshare\", \"@acnspawn/default\"]}", 0, &p, NULL));
        ASSERT_EQ(decide_for(&p, ARCHITECTURE, SYS_unshare, CLONE_NEWUSER, 0), ALLOW);
        seccomp_program_done(&p);
        ASSERT_OK(compile(RETAIN, "{\"set\": [\"@systemd/file-system\"]}", 0, &p, NULL));
        ASSERT_EQ(decide(&p, SYS_openat), ALLOW);
        ASSERT_EQ(decide(&p, SYS_socket), KILL);
}

TEST(remove_set)
{
        _cleanup_seccomp_program_ SeccompProgram p = {};

        ASSERT_OK(compile(REMOVE, "{\"set\": [\"getpid\", \"reboot\"], \"errno\": \"ENOTSUP\"}", 0, &p,
                          NULL));
        ASSERT_EQ(decide(&p, SYS_getpid), FAIL(ENOTSUP));
        ASSERT_EQ(decide(&p, SYS_reboot), FAIL(ENOTSUP));
        ASSERT_EQ(decide(&p, SYS_read), ALLOW);
        ASSERT_EQ(decide(&p, SYS_keyctl), FAIL(EPERM));
        ASSERT_EQ(decide(&p, SYS_clone3), FAIL(ENOSYS));
        ASSERT_EQ(decide(&p, BEYOND), FAIL(ENOSYS));
        seccomp_program_done(&p);
        ASSERT_OK(compile(REMOVE, "{\"set\": [\"@systemd/clock\", \"socket\"]}", 0, &p, NULL));
        ASSERT_EQ(decide(&p, SYS_clock_settime), KILL);
        ASSERT_EQ(decide(&p, SYS_adjtimex), KILL);
        ASSERT_EQ(decide_for(&p, ARCHITECTURE, SYS_socket, AF_INET, 0), KILL);
        ASSERT_EQ(decide(&p, SYS_clock_gettime), ALLOW);
}

TEST(remove_wildcards)
{
        _cleanup_seccomp_program_ SeccompProgram p = {}, def = {}, all = {};

        ASSERT_OK(compile(NULL, NULL, 0, &def, NULL));
        ASSERT_OK(compile(REMOVE, "{\"set\": [\"read\", \"@appc.io/empty\"]}", 0, &p, NULL));
        ASSERT_EQ(p.n, def.n);
        ASSERT_MEMEQ(p.items, def.items, def.n * sizeof(def.items[0]));
        ASSERT_OK(compile(REMOVE, "{\"set\": [\"@acnspawn/default\"]}", 0, &all, NULL));
        ASSERT_EQ(all.n, def.n);
        ASSERT_MEMEQ(all.items, def.items, def.n * sizeof(def.items[0]));
}

TEST(errno_names)
{
        static const struct {
                const char *name;
                int number;
        } names[] = {{"EPERM", EPERM},         {"ENOSYS", ENOSYS},       {"EWOULDBLOCK", EAGAIN},
                     {"EAGAIN", EAGAIN},       {"ENOTSUP", ENOTSUP},     {"EOPNOTSUPP", EOPNOTSUPP},
                     {"EDEADLK", EDEADLK},     {"EDEADLOCK", EDEADLOCK}, {"EILSEQ", EILSEQ},
                     {"EHWPOISON", EHWPOISON}, {"EOVERFLOW", EOVERFLOW}};

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                _cleanup_seccomp_program_ SeccompProgram p = {};
                char value[128];
                snprintf(value, sizeof(value), "{\"set\": [\"getpid\"], \"errno\": \"%s\"}", names[i].name);
                ASSERT_OK(compile(REMOVE, value, 0, &p, NULL));
                ASSERT_EQ(decide(&p, SYS_getpid), FAIL(names[i].number));
        }
}

/* --- What cannot be applied ---------------------------------------------------------------------------- */

TEST(errors)
{
        static const struct {
                const char *isolator, *value, *says;
        } cases[] = {
                        {RETAIN, "{\"set\": [\"opennat\"]}",
                         "names no system call that is known here: opennat"},
                        {REMOVE, "{\"set\": [\"@appc.io/all\"]}", "names no system call"},
                        {RETAIN, "{\"set\": [\"@appc.io/empty\"]}", "names no system call"},
                        {REMOVE, "{\"set\": [\"@systemd/nonsense\", \"@systemd/\"]}",
                         "names no system call"},
                        {REMOVE, "{\"set\": [\"@clock\", \"@systemd\"]}", "names no system call"},
                        {REMOVE, "{\"set\": [\"execve\", \"reboot\"]}", "blocks execve"},
                        {REMOVE, "{\"set\": [\"@systemd/default\"]}", "blocks execve"},
                        {REMOVE, "{\"set\": [\"reboot\"], \"errno\": \"EFANTASY\"}",
                         "no error code EFANTASY"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_seccomp_program_ SeccompProgram p = {};
                _cleanup_error_ Error e = ERROR_NULL;
                ASSERT_ERR(compile(cases[i].isolator, cases[i].value, 0, &p, &e), -EINVAL);
                ASSERT_CONTAINS(e.message, cases[i].says);
                ASSERT_CONTAINS(e.message, cases[i].isolator);
                ASSERT_NULL(p.items);
        }
}

static int different(const char *isolator, const char *value, char ***ret)
{
        Isolator i = {};
        int r = isolator_parse(isolator, value, &i, NULL);

        if (r >= 0)
                r = seccomp_isolator_check(&i, ret, NULL);
        isolator_done(&i);
        return r;
}

TEST(names_that_mean_nothing)
{
        _cleanup_strv_free_ char **names = NULL;
        char long_name[200];

        ASSERT_OK(different(RETAIN, "{\"set\": [\"read\", \"opennat\", \"@systemd/io-event\"]}", &names));
        ASSERT_EQ(strv_length(names), 1);
        ASSERT_STREQ(names[0], "opennat");
        names = strv_free(names);
        ASSERT_OK(different(RETAIN, "{\"set\": [\"@docker/default-whitelist\"]}", &names));
        ASSERT_EQ(strv_length(names), 1);
        names = strv_free(names);
        ASSERT_OK(different(REMOVE, "{\"set\": [\"opennat\", \"@appc.io/empty\"]}", &names));
        ASSERT_EQ(strv_length(names), 0);
        /* Calls of other architectures are known, and need no rules. */
        ASSERT_OK(different(REMOVE, "{\"set\": [\"riscv_flush_icache\", \"s390_runtime_instr\"]}", &names));
        ASSERT_EQ(strv_length(names), 0);
        snprintf(long_name, sizeof(long_name), "{\"set\": [\"read\", \"@systemd/%0100d\"]}", 1);
        ASSERT_OK(different(REMOVE, long_name, &names));
        ASSERT_EQ(strv_length(names), 1);
}

/* --- The kernel ---------------------------------------------------------------------------------------- */

static int install(const SeccompProgram *p)
{
        struct sock_fprog program = {.len = (unsigned short) p->n, .filter = p->items};

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return -errno;
        return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0U, &program) < 0 ? -errno : 0;
}

/* Runs CHECK with the filter in force; the status that waitpid() gives. 200: the filter could not be
 * installed. */
static int run_with(const SeccompProgram *p, int (*check)(void))
{
        int status = -1;
        pid_t pid = fork();

        if (pid == 0) {
                if (install(p) < 0)
                        _exit(200);
                _exit(check());
        }
        if (pid < 0 || waitpid(pid, &status, 0) < 0)
                return -1;
        return status;
}

static bool fails_with(long r, int code)
{
        return r < 0 && errno == code;
}

static void *thread(void *p)
{
        *(int *) p = 1;
        return NULL;
}

static int check_default(void)
{
        struct statx st;
        pthread_t t;
        int ran = 0;

        if (getpid() <= 0)
                return 1;
        if (!fails_with(syscall(SYS_keyctl, 0, -3, 0, 0, 0), EPERM))
                return 2;
        if (!fails_with(syscall(SYS_reboot, 0, 0, 0, NULL), EPERM))
                return 3;
        if (!fails_with(syscall(BEYOND), ENOSYS))
                return 4;
        if (!fails_with(syscall(SYS_clone3, NULL, 0), ENOSYS))
                return 5;
        if (!fails_with(unshare(CLONE_NEWUSER), EPERM))
                return 6;
        if (!fails_with(socket(AF_VSOCK, SOCK_STREAM, 0), EAFNOSUPPORT))
                return 7;
        if (statx(AT_FDCWD, "/", 0, STATX_BASIC_STATS, &st) < 0)
                return 8;
        if (pthread_create(&t, NULL, thread, &ran) != 0 || pthread_join(t, NULL) != 0 || !ran)
                return 9;
        pid_t pid = fork();
        if (pid == 0)
                _exit(0);
        return pid > 0 && waitpid(pid, NULL, 0) == pid ? 0 : 10;
}

TEST(kernel_default)
{
        _cleanup_seccomp_program_ SeccompProgram p = {};

        ASSERT_OK(compile(NULL, NULL, 0, &p, NULL));
        int status = run_with(&p, check_default);
        ASSERT_TRUE(WIFEXITED(status));
        ASSERT_EQ(WEXITSTATUS(status), 0);
}

/* A statically linked program, from start to exit. */
TEST(kernel_static_program)
{
        const char *program = getenv("ACNSPAWN_TEST_STATIC");
        _cleanup_seccomp_program_ SeccompProgram p = {};
        int status = -1;

        if (!program)
                TEST_SKIP("ACNSPAWN_TEST_STATIC does not name the program");
        ASSERT_OK(compile(NULL, NULL, 0, &p, NULL));
        pid_t pid = fork();
        if (pid == 0) {
                if (install(&p) >= 0)
                        execl(program, program, NULL);
                _exit(200);
        }
        ASSERT_EQ(waitpid(pid, &status, 0), pid);
        ASSERT_TRUE(WIFEXITED(status));
        ASSERT_EQ(WEXITSTATUS(status), 0);
}

static int check_getppid(void)
{
        return fails_with(syscall(SYS_getppid), ENOTTY) ? 0 : 1;
}

static int call_sync(void)
{
        (void) syscall(SYS_sync_file_range, -1, 0, 0, 0);
        return 0;
}

TEST(kernel_remove)
{
        _cleanup_seccomp_program_ SeccompProgram p = {}, kills = {};

        ASSERT_OK(compile(REMOVE, "{\"set\": [\"getppid\"], \"errno\": \"ENOTTY\"}", 0, &p, NULL));
        int status = run_with(&p, check_getppid);
        ASSERT_TRUE(WIFEXITED(status));
        ASSERT_EQ(WEXITSTATUS(status), 0);
        ASSERT_OK(compile(REMOVE, "{\"set\": [\"sync_file_range\"]}", 0, &kills, NULL));
        status = run_with(&kills, call_sync);
        ASSERT_TRUE(WIFSIGNALED(status));
        ASSERT_EQ(WTERMSIG(status), SIGSYS);
}

static int check_retained(void)
{
        if (!fails_with(syscall(SYS_sync_file_range, -1, 0, 0, 0), EDOM))
                return 1;
        return write(-1, "", 0) < 0 && errno == EBADF ? 0 : 2;
}

TEST(kernel_retain)
{
        _cleanup_seccomp_program_ SeccompProgram p = {}, kills = {};

        ASSERT_OK(compile(RETAIN, "{\"set\": [\"write\", \"sigaltstack\"], \"errno\": \"EDOM\"}", 0, &p,
                          NULL));
        int status = run_with(&p, check_retained);
        ASSERT_TRUE(WIFEXITED(status));
        ASSERT_EQ(WEXITSTATUS(status), 0);
        ASSERT_OK(compile(RETAIN, "{\"set\": [\"write\"]}", 0, &kills, NULL));
        status = run_with(&kills, call_sync);
        ASSERT_TRUE(WIFSIGNALED(status));
        ASSERT_EQ(WTERMSIG(status), SIGSYS);
}

int main(void)
{
        RUN(default_decisions);
        RUN(default_never_kills);
        RUN(default_arguments);
        RUN(default_socket_families);
        RUN(default_socket_protocols);
        RUN(default_personalities);
        RUN(capabilities_open_calls);
#ifdef __x86_64__
        RUN(other_architectures);
        RUN(multiplexed_calls);
#endif
        RUN(retain_set);
        RUN(retain_wildcards);
        RUN(remove_set);
        RUN(remove_wildcards);
        RUN(errno_names);
        RUN(errors);
        RUN(names_that_mean_nothing);
        RUN(kernel_default);
        RUN(kernel_static_program);
        RUN(kernel_remove);
        RUN(kernel_retain);
        return TEST_END();
}
