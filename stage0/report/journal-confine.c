/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The confinement of the process that reads a pod's journal.
 *
 * Journal files are written by the pod, so their parser, which is libsystemd's, is assumed to be compromised
 * by them. It runs as the user "acnspawn-journal", which the packages make (units/acnspawn.sysusers.conf),
 * without capabilities and without a way to gain any, and can make only the system calls required to read open
 * files: it cannot open files, connect to sockets, start programs or access other processes. Its memory is
 * limited here, its time by the process that it writes to. */

#include <grp.h>
#include <linux/landlock.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "stage0/report/journal-internal.h"
#include "stage1/seccomp-rules.h"

#define JOURNAL_USER "acnspawn-journal"
#define OVERFLOW_ID                                                                                         \
        65534U /* the fallback if that user does not exist; processes of others may have it, too */
#define PASSWD_MAX (16U << 20)
#define DATA_LIMIT (256U << 20)          /* bytes of memory of its own: values are decompressed there */
#define SPACE_LIMIT (UINT64_C(16) << 30) /* bytes of address space: files are mapped */
#define STAT_EMPTY_PATH 0x1000U          /* AT_EMPTY_PATH alone: of a descriptor, not of a name */

/* Names that an architecture does not have are skipped. */
static const char *const calls[] = {
                "_llseek",       "brk",
                "clock_gettime", "clock_gettime64",
                "close",         "exit",
                "exit_group",    "fcntl",
                "fcntl64",       "fstat",
                "fstat64",       "fstatfs",
                "fstatfs64",     "futex",
                "futex_time64",  "getpid",
                "getrandom",     "gettid",
                "gettimeofday",  "lseek",
                "madvise",       "mremap",
                "munmap",        "poll",
                "ppoll",         "ppoll_time64",
                "pread64",       "read",
                "recvmsg",       "restart_syscall",
                "rt_sigreturn",  "rt_sigprocmask",
                "sched_yield",   "sendto",
                "sigaltstack",   "sigreturn", /* the first is AddressSanitizer's, before it exits */
                "write",
};

static const SeccompEntry allow_zero[] = {{0, 0, SECCOMP_RET_ALLOW, NULL}};
static const SeccompEntry allow_empty_path[] = {{STAT_EMPTY_PATH, STAT_EMPTY_PATH, SECCOMP_RET_ALLOW, NULL}};

/* No memory that can be executed. */
static const SeccompTable not_executable = {
                .offset = SECCOMP_ARGUMENT(2),
                .mask = PROT_EXEC,
                .otherwise = SECCOMP_ERRNO(EPERM),
                .entries = allow_zero,
                .n = ELEMENTSOF(allow_zero),
};
static const SeccompTable third_empty_path = {
                .offset = SECCOMP_ARGUMENT(2),
                .otherwise = SECCOMP_ERRNO(EPERM),
                .entries = allow_empty_path,
                .n = ELEMENTSOF(allow_empty_path),
};
static const SeccompTable fourth_empty_path = {
                .offset = SECCOMP_ARGUMENT(3),
                .otherwise = SECCOMP_ERRNO(EPERM),
                .entries = allow_empty_path,
                .n = ELEMENTSOF(allow_empty_path),
};

static const struct {
        const char *name;
        const SeccompTable *check;
} checked_calls[] = {
                {"mmap", &not_executable},          {"mmap2", &not_executable},
                {"mprotect", &not_executable},      {"statx", &third_empty_path},
                {"newfstatat", &fourth_empty_path}, {"fstatat64", &fourth_empty_path},
};

static int set_rule(SeccompRules *rules, const char *name, const SeccompTable *check)
{
        int r = seccomp_rules_set(rules, name, (SeccompRule){.action = SECCOMP_RET_ALLOW, .check = check});

        return r == -ENOENT ? 0 : r;
}

static int compile_filter(SeccompProgram *ret)
{
        _cleanup_seccomp_rules_ SeccompRules rules = {};

        int r = seccomp_rules_init(&rules, SECCOMP_ERRNO(EPERM));
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(calls); i++)
                r = set_rule(&rules, calls[i], NULL);
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(checked_calls); i++)
                r = set_rule(&rules, checked_calls[i].name, checked_calls[i].check);
        return r < 0 ? r : seccomp_rules_assemble(&rules, ret);
}

static int limit_resources(void)
{
        const struct {
                int resource;
                rlim_t limit;
        } limits[] = {
                        {RLIMIT_CORE, 0},
                        {RLIMIT_FSIZE, 0},
                        {RLIMIT_MEMLOCK, 0},
                        {RLIMIT_DATA, JOURNAL_SANITIZED ? RLIM_INFINITY : DATA_LIMIT},
                        {RLIMIT_AS, JOURNAL_SANITIZED ? RLIM_INFINITY : (rlim_t) SPACE_LIMIT},
        };

        for (size_t i = 0; i < ELEMENTSOF(limits); i++) {
                struct rlimit l;

                if (getrlimit(limits[i].resource, &l) < 0)
                        return -errno;
                l.rlim_max = l.rlim_cur = MIN(l.rlim_max, limits[i].limit);
                if (setrlimit(limits[i].resource, &l) < 0)
                        return -errno;
        }
        return 0;
}

/* Forbids access to all files, in case a newer kernel has system calls that the filter does not know.
 * Without Landlock there is only the filter. */
static void forbid_files(void)
{
        const struct landlock_ruleset_attr all = {.handled_access_fs =
                                                                  (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1};
        _cleanup_close_ int rules =
                        (int) syscall(SYS_landlock_create_ruleset, &all, sizeof(all.handled_access_fs), 0U);

        if (rules >= 0)
                (void) syscall(SYS_landlock_restrict_self, rules, 0U);
}

/* UID and GID in LINE of /etc/passwd, if it is that of the user. */
static bool read_account(char *line, uid_t *ret_uid, gid_t *ret_gid)
{
        char *fields[4] = {};
        uint32_t uid, gid;

        for (size_t i = 0; i < ELEMENTSOF(fields); i++)
                if (!(fields[i] = strsep(&line, ":")))
                        return false;
        if (!streq(fields[0], JOURNAL_USER) || parse_u32(fields[2], &uid) < 0 ||
            parse_u32(fields[3], &gid) < 0 || uid == 0 || gid == 0)
                return false;
        *ret_uid = uid;
        *ret_gid = gid;
        return true;
}

/* The file is read, as systemd-sysusers writes it, because the C library would load modules that ask other
 * machines. */
static void find_user(uid_t *ret_uid, gid_t *ret_gid)
{
        _cleanup_free_ char *text = NULL;
        size_t size = 0;

        *ret_uid = *ret_gid = OVERFLOW_ID;
        if (read_file_at(AT_FDCWD, "/etc/passwd", PASSWD_MAX, &text, &size) < 0)
                return;
        for (char *rest = text, *line; (line = strsep(&rest, "\n"));)
                if (read_account(line, ret_uid, ret_gid))
                        return;
}

/* Changing the user drops all capabilities. */
static int drop_privileges(void)
{
        uid_t uid;
        gid_t gid;

        if (geteuid() != 0)
                return 0;
        find_user(&uid, &gid);
        if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
                return -errno;
        return 0;
}

int journal_confine(void)
{
        _cleanup_seccomp_program_ SeccompProgram filter = {};

        int r = compile_filter(&filter);
        if (r >= 0)
                r = limit_resources();
        if (r >= 0)
                r = drop_privileges();
        if (r < 0)
                return r;
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
            prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
                return -errno;
        forbid_files();
        const struct sock_fprog program = {.len = (unsigned short) filter.n, .filter = filter.items};
        return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0U, &program) < 0 ? -errno : 0;
}
