/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* stage0/host/host-limits.c: the limit that caused a failure. /proc and the cgroups are directories of the
 * test; limits of namespaces and descriptors are lowered for a child. */

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "stage0/host/host.h"
#include "tests/unit/scratch.h"
#include "tests/unit/test.h"

#define ROOT_UID 655360

/* A host on which nothing is short. */
static const struct {
        const char *name, *content;
} plenty[] = {
                {"sys/fs/file-nr", "1000\t0\t100000\n"},
                {"sys/fs/file-max", "100000\n"},
                {"sys/fs/mount-max", "100000\n"},
                {"sys/fs/inotify/max_user_instances", "128\n"},
                {"sys/kernel/pid_max", "32768\n"},
                {"sys/kernel/threads-max", "30000\n"},
                {"sys/kernel/pty/nr", "3\n"},
                {"sys/kernel/pty/max", "4096\n"},
                {"sys/kernel/pty/reserve", "1024\n"},
                {"loadavg", "0.20 0.18 0.12 1/80 11206\n"},
                {"key-users",
                 "    0:    54 53/53 40/1000000 800/25000000\n655360:     5 5/5 3/200 37/20000\n"},
                {"self/cgroup", "0::/user.slice/session-1.scope\n"},
                {"self/mountinfo", "1 0 0:1 / / rw - tmpfs a rw\n2 1 0:1 / /b rw - tmpfs b rw\n"},
                {"cgroup/user.slice/session-1.scope/pids.max", "max\n"},
                {"cgroup/user.slice/session-1.scope/pids.current", "20\n"},
                {"cgroup/user.slice/pids.max", "1000\n"},
                {"cgroup/user.slice/pids.current", "100\n"},
                {"cgroup/machine.slice/pids.max", "1000\n"},
                {"cgroup/machine.slice/pids.current", "100\n"},
};

static int write_file(const Scratch *s, const char *name, const char *content)
{
        char path[PATH_MAX];

        for (const char *slash = strchr(name, '/'); slash; slash = strchr(slash + 1, '/')) {
                snprintf(path, sizeof(path), "%.*s", (int) (slash - name), name);
                if (mkdirat(s->fd, path, 0755) < 0 && errno != EEXIST)
                        return -errno;
        }
        return scratch_file(s, name, content);
}

static int host_new(Scratch *s)
{
        int r = scratch_new(s);

        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(plenty); i++)
                r = write_file(s, plenty[i].name, plenty[i].content);
        return r;
}

static int no_instance(void)
{
        return EMFILE;
}

static int some_instance(void)
{
        return 0;
}

static int find(const Scratch *s, bool inotify, int code, HostLimit *ret)
{
        _cleanup_free_ char *cgroup = NULL;

        if (xasprintf(&cgroup, "%s/cgroup", s->path) < 0)
                return -ENOMEM;
        const HostLimitPlaces w = {.proc = s->path,
                                   .cgroup = cgroup,
                                   .store = s->path,
                                   .uid = ROOT_UID,
                                   .try_inotify = inotify ? some_instance : no_instance};
        return host_limits_find(&w, code, ret);
}

TEST(nothing_is_short)
{
        static const int codes[] = {0, -ENFILE, -EAGAIN, -EDQUOT, -ENOSPC, -ENOENT, -EIO};
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;

        ASSERT_OK(host_new(&s));
        for (size_t i = 0; i < ELEMENTSOF(codes); i++) {
                _cleanup_(host_limit_done) HostLimit l = {};
                ASSERT_EQ(find(&s, true, codes[i], &l), 0);
                ASSERT_NULL(l.what);
        }
}

TEST(each_limit_is_named)
{
        static const struct {
                const char *file, *content;
                int code;
                const char *what, *remedy;
        } cases[] = {
                        {"sys/fs/file-nr", "99900\t0\t100000\n", -ENFILE,
                         "this host's limit of open files (fs.file-max=100000) is reached",
                         "Raise it with 'sysctl -w fs.file-max=400000', and permanently in a file of "
                         "/etc/sysctl.d."},
                        {"loadavg", "0.2 0.1 0.1 3/32760 1\n", -EAGAIN,
                         "this host's limit of processes and threads (kernel.pid_max=32768) is reached",
                         "'sysctl -w kernel.pid_max=131072'"},
                        {"loadavg", "0.2 0.1 0.1 3/29990 1\n", -EAGAIN,
                         "this host's limit of processes and threads (kernel.threads-max=30000) is reached",
                         "'sysctl -w kernel.threads-max=120000'"},
                        {"cgroup/user.slice/pids.current", "990\n", -EAGAIN,
                         "/user.slice (pids.max=1000) is reached",
                         "'systemctl set-property user.slice TasksMax=4000'"},
                        {"cgroup/machine.slice/pids.current", "990\n", -EAGAIN,
                         "/machine.slice (pids.max=1000) is reached",
                         "'systemctl set-property machine.slice TasksMax=4000'"},
                        {"sys/kernel/pty/nr", "3072\n", -ENOSPC,
                         "this host's limit of terminals (kernel.pty.max=4096) is reached",
                         "'sysctl -w kernel.pty.max=16384'"},
                        {"sys/fs/mount-max", "100\n", -ENOSPC,
                         "this host's limit of mounts of a mount namespace (fs.mount-max=100) is reached",
                         "'sysctl -w fs.mount-max=400'"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(host_limit_done) HostLimit l = {}, other = {};
                _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;

                ASSERT_OK(host_new(&s));
                ASSERT_OK(write_file(&s, cases[i].file, cases[i].content));
                ASSERT_EQ(find(&s, true, cases[i].code, &l), 1);
                ASSERT_CONTAINS(l.what, cases[i].what);
                ASSERT_CONTAINS(l.remedy, cases[i].remedy);
                /* A failure with another cause is not attributed to a limit. */
                ASSERT_EQ(find(&s, true, -EIO, &other), 0);
        }
}

TEST(keys_are_counted_for_root_and_for_the_root_of_the_pod)
{
        static const struct {
                const char *line, *sysctl;
        } cases[] = {
                        {"655360:     5 5/5 199/200 37/20000\n", "kernel.keys.maxkeys"},
                        {"655360:     5 5/5 3/200 19990/20000\n", "kernel.keys.maxbytes"},
                        {"    0:     5 5/5 1000/1000 37/20000\n", "kernel.keys.root_maxkeys"},
                        {"    0:     5 5/5 10/1000 20000/20000\n", "kernel.keys.root_maxbytes"},
                        {" 1000:     5 5/5 200/200 20000/20000\n", NULL},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(host_limit_done) HostLimit l = {};
                _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;

                ASSERT_OK(host_new(&s));
                ASSERT_OK(write_file(&s, "key-users", cases[i].line));
                ASSERT_OK(write_file(&s, "sys/kernel/keys/maxkeys", "200"));
                ASSERT_OK(scratch_file(&s, "sys/kernel/keys/maxbytes", "20000"));
                ASSERT_OK(scratch_file(&s, "sys/kernel/keys/root_maxkeys", "1000"));
                ASSERT_OK(scratch_file(&s, "sys/kernel/keys/root_maxbytes", "20000"));
                ASSERT_EQ(find(&s, true, -EDQUOT, &l), cases[i].sysctl ? 1 : 0);
                if (cases[i].sysctl)
                        ASSERT_CONTAINS(l.what, cases[i].sysctl);
        }
}

TEST(inotify_instances_are_tried)
{
        _cleanup_(host_limit_done) HostLimit l = {};
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;

        ASSERT_OK(host_new(&s));
        ASSERT_EQ(find(&s, false, -EMFILE, &l), 1);
        ASSERT_STREQ(l.what, "this host's limit of inotify instances of one user "
                             "(fs.inotify.max_user_instances=128) is reached");
        ASSERT_STREQ(l.remedy,
                     "Raise it with 'sysctl -w fs.inotify.max_user_instances=8192', and permanently in a "
                     "file of /etc/sysctl.d.");
}

TEST(pods_that_do_not_fit)
{
        _cleanup_(host_limit_done) HostLimit l = {};
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;

        ASSERT_OK(host_new(&s));
        const HostLimitPlaces w = {.proc = s.path}, none = {.proc = "/none"};
        ASSERT_EQ(host_limits_check_pods(&w, 42, &l), 0);
        ASSERT_NULL(l.what);
        ASSERT_EQ(host_limits_check_pods(&w, 43, &l), 1);
        ASSERT_STREQ(l.what,
                     "this host's limit of inotify instances of one user (fs.inotify.max_user_instances=128) allows "
                     "less than 43 pods that have the users of the host");
        ASSERT_CONTAINS(l.remedy, "'sysctl -w fs.inotify.max_user_instances=8192'");
        ASSERT_ERR(host_limits_check_pods(&none, 43, &l), -ENOENT);
}

/* A process that may open no more files can make no inotify instance either. */
TEST(with_instances_left_it_is_the_limit_of_the_process)
{
        _cleanup_(host_limit_done) HostLimit l = {};
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;

        ASSERT_OK(host_new(&s));
        ASSERT_EQ(find(&s, true, -EMFILE, &l), 1);
        ASSERT_CONTAINS(l.what, "the limit of open files of a process (RLIMIT_NOFILE=");
}

TEST(cgroups_of_v1_are_looked_at)
{
        _cleanup_(host_limit_done) HostLimit l = {};
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;

        ASSERT_OK(host_new(&s));
        ASSERT_OK(write_file(&s, "self/cgroup", "3:pids:/jobs/a\n1:name=systemd:/x\n0::/y\n"));
        ASSERT_OK(write_file(&s, "cgroup/pids/jobs/a/pids.max", "40\n"));
        ASSERT_OK(write_file(&s, "cgroup/pids/jobs/a/pids.current", "39\n"));
        ASSERT_EQ(find(&s, true, -EAGAIN, &l), 1);
        ASSERT_CONTAINS(l.what, "/pids/jobs/a (pids.max=40) is reached");
        ASSERT_CONTAINS(l.remedy, "Raise it with 'echo 160 > ");
}

/* What is not as it should be is no reason. */
TEST(files_that_are_missing_or_odd)
{
        static const int codes[] = {-ENFILE, -EAGAIN, -EDQUOT, -ENOSPC};
        static const char *const odd[] = {"", "x", "/", "99999999999999999999999999", "0::\n", "1:\n"};
        static const char *const files[] = {"loadavg", "key-users", "self/cgroup", "sys/fs/file-nr",
                                            "sys/kernel/pty/nr"};
        _cleanup_(scratch_done) Scratch empty = SCRATCH_NULL;

        ASSERT_OK(scratch_new(&empty));
        for (size_t i = 0; i < ELEMENTSOF(codes); i++) {
                _cleanup_(host_limit_done) HostLimit l = {};
                ASSERT_EQ(find(&empty, true, codes[i], &l), 0);
        }
        for (size_t f = 0; f < ELEMENTSOF(files); f++)
                for (size_t k = 0; k < ELEMENTSOF(odd); k++) {
                        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
                        ASSERT_OK(host_new(&s));
                        ASSERT_OK(write_file(&s, files[f], odd[k]));
                        for (size_t i = 0; i < ELEMENTSOF(codes); i++) {
                                _cleanup_(host_limit_done) HostLimit l = {};
                                ASSERT_EQ(find(&s, true, codes[i], &l), 0);
                        }
                }
}

TEST(words_of_systemd)
{
        ASSERT_EQ(host_limits_code("Failed to create control group inotify object: Too many open files"),
                  -EMFILE);
        ASSERT_EQ(host_limits_code("Too many open files in system"), -ENFILE);
        ASSERT_EQ(host_limits_code("Failed to fork: Resource temporarily unavailable"), -EAGAIN);
        ASSERT_EQ(host_limits_code("Disk quota exceeded"), -EDQUOT);
        ASSERT_EQ(host_limits_code("a\nNo space left on device\nb"), -ENOSPC);
        /* systemd in a container says what it must do without, too. */
        ASSERT_EQ(host_limits_code("Too many open files\nOperation not permitted\nPermission denied"),
                  -EMFILE);
        ASSERT_EQ(host_limits_code("Function not implemented\nNo space left on device"), -ENOSPC);
        ASSERT_EQ(host_limits_code("Operation not permitted"), -EPERM);
        ASSERT_EQ(host_limits_code("No such file or directory"), 0);
        ASSERT_EQ(host_limits_code(""), 0);
}

/* --- With limits of the kernel ------------------------------------------------------------------------- */

/* Runs FUNCTION in a child: its exit status. */
static int in_child(int (*function)(void))
{
        int status = 0;
        pid_t pid = fork();

        if (pid == 0)
                _exit(function());
        return pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFEXITED(status) ? 99 : WEXITSTATUS(status);
}

static bool hint_is(int code, const char *text)
{
        _cleanup_error_ Error e = ERROR_NULL;

        (void) error_set(&e, code, "It failed");
        (void) host_limits_hint("/", &e, code);
        return e.hint && strstr(e.hint, text);
}

/* The user namespace is a child namespace: only this process is subject to its limits. */
static int with_few_namespaces(void)
{
        if (unshare(CLONE_NEWUSER) < 0)
                return 77;
        int fd = open("/proc/sys/user/max_net_namespaces", O_WRONLY | O_CLOEXEC);
        if (fd < 0 || write(fd, "0", 1) != 1)
                return 77;
        close(fd);
        return hint_is(-ENOSPC, "This host's limit of network namespaces of one user "
                                "(user.max_net_namespaces=0) is reached. Raise it with 'sysctl -w "
                                "user.max_net_namespaces=16384'")
                               ? 0
                               : 1;
}

TEST(namespaces_are_tried)
{
        int r = in_child(with_few_namespaces);

        if (r == 77)
                TEST_SKIP("no user namespace can be made here");
        ASSERT_EQ(r, 0);
}

/* A file system of ours that is full: OPTIONS are its size. */
static int on_small_disk(const char *options, const char *what)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_(host_limit_done) HostLimit l = {};

        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 || scratch_new(&s) < 0 ||
            mount("small", s.path, "tmpfs", 0, options) < 0)
                return 77;
        const HostLimitPlaces w = {.proc = "/proc", .cgroup = "/sys/fs/cgroup", .store = s.path};
        int r = host_limits_find(&w, -ENOSPC, &l);
        (void) umount(s.path);
        return r == 1 && startswith(l.what, what) && strstr(l.what, s.path) &&
                                               startswith(l.remedy,
                                                          "Free space, for example with 'acnspawn gc'")
                               ? 0
                               : 1;
}

static int with_few_blocks(void)
{
        return on_small_disk("size=64k", "no free blocks are left on the file system of /");
}

static int with_few_inodes(void)
{
        return on_small_disk("size=8m,nr_inodes=20", "no free inodes are left on the file system of /");
}

TEST(full_disks)
{
        int r = in_child(with_few_blocks);

        if (r == 77)
                TEST_SKIP("no file system can be mounted in a user namespace here");
        ASSERT_EQ(r, 0);
        ASSERT_EQ(in_child(with_few_inodes), 0);
}

static int with_few_files(void)
{
        struct rlimit limit = {};

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
                return 77;
        limit.rlim_cur = 3;
        if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
                return 77;
        return hint_is(-EMFILE,
                       "The limit of open files of a process (RLIMIT_NOFILE=3) is reached. Raise it "
                       "with 'ulimit -n")
                               ? 0
                               : 1;
}

TEST(descriptors_are_tried)
{
        ASSERT_EQ(in_child(with_few_files), 0);
}

/* Kills for memfd_create(), and refuses pidfd_send_signal() and statx(). */
static int with_filter(void)
{
        struct sock_filter rules[] = {
                        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_send_signal, 1, 0),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_statx, 0, 1),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        const struct sock_fprog program = {.len = ELEMENTSOF(rules), .filter = rules};
        const HostLimitPlaces w = {.proc = "/proc", .cgroup = "/sys/fs/cgroup"};
        _cleanup_(host_limit_done) HostLimit l = {};

        if (host_limits_find(&w, -EPERM, &l) > 0) /* another filter: of the container that this runs in */
                return 77;
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
            prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0)
                return 77;
        if (host_limits_find(&w, -EPERM, &l) != 1)
                return 1;
        return l.is_filter && endswith(l.what, " refuses memfd_create(), pidfd_send_signal(), statx()") &&
                                               startswith(l.remedy,
                                                          "If that is the reason, have it allow them.")
                               ? 0
                               : 2;
}

TEST(refused_system_calls_are_named)
{
        int r = in_child(with_filter);

        if (r == 77)
                TEST_SKIP("no filter of system calls can be set here, or there is one");
        ASSERT_EQ(r, 0);
}

TEST(a_hint_that_is_there_stays)
{
        _cleanup_error_ Error e = ERROR_NULL;

        (void) error_set(&e, -ENOSPC, "It failed");
        (void) error_hint(&e, -ENOSPC, "Do this.");
        ASSERT_EQ(host_limits_hint("/", &e, -ENOSPC), -ENOSPC);
        ASSERT_STREQ(e.hint, "Do this.");
}

int main(void)
{
        RUN(nothing_is_short);
        RUN(each_limit_is_named);
        RUN(keys_are_counted_for_root_and_for_the_root_of_the_pod);
        RUN(inotify_instances_are_tried);
        RUN(pods_that_do_not_fit);
        RUN(with_instances_left_it_is_the_limit_of_the_process);
        RUN(cgroups_of_v1_are_looked_at);
        RUN(files_that_are_missing_or_odd);
        RUN(words_of_systemd);
        RUN(namespaces_are_tried);
        RUN(full_disks);
        RUN(descriptors_are_tried);
        RUN(refused_system_calls_are_named);
        RUN(a_hint_that_is_there_stays);
        return TEST_END();
}
