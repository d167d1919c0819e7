/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The privileges of the launcher that remain in the app: a child performs the launcher's last steps and
 * executes this program again, which reports its own /proc/self. Most cases need root. */

#include <linux/capability.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "stage1/launch/launch.h"
#include "stage1/seccomp-filter.h"
#include "tests/unit/scratch.h"
#include "tests/unit/test.h"

#define CAP(n) (UINT64_C(1) << (n))
#define CAPABILITIES (CAP(CAP_CHOWN) | CAP(CAP_KILL) | CAP(CAP_NET_RAW) | CAP(CAP_SETUID))
#define SHOW "show"

/* The state of a process; the launcher's is sent by the child itself through a pipe. */
typedef struct Process {
        unsigned long long permitted, effective, inheritable, bounding, ambient;
        unsigned uid, gid, n_groups, no_new_privileges, seccomp;
        int dumpable, keep_capabilities;
} Process;

/* --- The executed program ------------------------------------------------------------------------------ */

static unsigned long long status_field(const char *status, const char *name, int base)
{
        const char *p = strstr(status, name);

        return p ? strtoull(p + strlen(name), NULL, base) : ~0ULL;
}

static int show(void)
{
        _cleanup_close_ int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
        char status[8192] = {};

        if (fd < 0 || loop_read(fd, status, sizeof(status) - 1) <= 0)
                return 1;
        Process p = {
                        .permitted = status_field(status, "\nCapPrm:", 16),
                        .effective = status_field(status, "\nCapEff:", 16),
                        .inheritable = status_field(status, "\nCapInh:", 16),
                        .bounding = status_field(status, "\nCapBnd:", 16),
                        .ambient = status_field(status, "\nCapAmb:", 16),
                        .uid = getuid(),
                        .gid = getgid(),
                        .n_groups = (unsigned) getgroups(0, NULL),
                        .no_new_privileges = (unsigned) status_field(status, "\nNoNewPrivs:", 10),
                        .seccomp = (unsigned) status_field(status, "\nSeccomp:", 10),
                        .dumpable = prctl(PR_GET_DUMPABLE),
                        .keep_capabilities = prctl(PR_GET_KEEPCAPS),
        };
        return loop_write(STDOUT_FILENO, &p, sizeof(p)) < 0;
}

/* --- The launcher's last steps ------------------------------------------------------------------------- */

static const char *self = "/proc/self/exe";

static _noreturn_ void launch(const LaunchConfig *c, const Identity *id, int out)
{
        char *argv[] = {(char *) self, (char *) SHOW, NULL};
        Command command = {.path = (char *) self};
        Failure f = {};

        int r = confine_identity(c, id, &f);
        if (r >= 0) {
                dup2(out, STDOUT_FILENO);
                r = confine_system_calls(c, &f);
        }
        if (r >= 0)
                r = command_execute(&command, argv, argv + 2, &f);
        fprintf(stderr, "%s\n", f.error.message);
        _exit(78);
}

static int try(const LaunchConfig *c, uid_t uid, gid_t gid, Process *ret)
{
        Identity id = {.uid = uid, .gid = gid};
        int fds[2], status;

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        pid_t pid = fork();
        if (pid == 0)
                launch(c, &id, fds[1]);
        safe_close(fds[1]);
        ssize_t n = loop_read(fds[0], ret, sizeof(*ret));
        safe_close(fds[0]);
        if (pid < 0 || waitpid(pid, &status, 0) < 0)
                return -ECHILD;
        return n == (ssize_t) sizeof(*ret) && status == 0 ? 0 : -EPROTO;
}

static int make_config(uint64_t capabilities, bool no_new_privileges, bool filter, LaunchConfig *ret)
{
        _cleanup_seccomp_program_ SeccompProgram p = {};
        IsolatorList none = {};

        if (filter && seccomp_compile(&none, capabilities, &p, NULL) < 0)
                return -ENOMEM;
        *ret = (LaunchConfig){
                        .capabilities = capabilities,
                        .no_new_privileges = no_new_privileges,
                        .has_filter = true,
                        .n_filter = p.n,
                        .filter = TAKE_PTR(p.items),
        };
        return 0;
}

/* All capabilities available in a pod: the set that nspawn leaves to its systemd includes CAP_SYS_ADMIN. */
static const struct {
        uint64_t capabilities;
        bool no_new_privileges, filter;
} variants[] = {
                {CAPABILITIES, false, true},
                {CAPABILITIES, true, true},
                {CAPABILITIES, false, false},
                {CAPABILITIES | CAP(CAP_SYS_ADMIN), false, true},
                {CAPABILITIES | CAP(CAP_SYS_ADMIN), true, true},
                {0, false, true},
                {0, true, true},
};

static bool as_asked(const Process *p, size_t variant)
{
        return p->bounding == variants[variant].capabilities && p->inheritable == 0 && p->ambient == 0 &&
               p->no_new_privileges == variants[variant].no_new_privileges &&
               p->seccomp == (variants[variant].filter ? SECCOMP_MODE_FILTER : 0) &&
               p->keep_capabilities == 0 && p->n_groups == 0 && p->dumpable == 1;
}

TEST(root)
{
        if (geteuid() != 0)
                TEST_SKIP("only root has privileges to give up");
        for (size_t i = 0; i < ELEMENTSOF(variants); i++) {
                _cleanup_launch_config_ LaunchConfig c = {};
                Process p = {};
                ASSERT_OK(make_config(variants[i].capabilities, variants[i].no_new_privileges,
                                      variants[i].filter, &c));
                ASSERT_OK(try(&c, 0, 0, &p));
                ASSERT_TRUE(as_asked(&p, i));
                ASSERT_EQ(p.permitted, variants[i].capabilities);
                ASSERT_EQ(p.effective, variants[i].capabilities);
                ASSERT_EQ(p.uid, 0);
        }
}

TEST(others)
{
        if (geteuid() != 0)
                TEST_SKIP("only root can become somebody else");
        for (size_t i = 0; i < ELEMENTSOF(variants); i++) {
                _cleanup_launch_config_ LaunchConfig c = {};
                Process p = {};
                ASSERT_OK(make_config(variants[i].capabilities, variants[i].no_new_privileges,
                                      variants[i].filter, &c));
                ASSERT_OK(try(&c, 1234, 4321, &p));
                ASSERT_TRUE(as_asked(&p, i));
                ASSERT_EQ(p.permitted, 0);
                ASSERT_EQ(p.effective, 0);
                ASSERT_EQ(p.uid, 1234);
                ASSERT_EQ(p.gid, 4321);
        }
}

/* They are in all sets of root, and of others, whether or not programs may gain privileges. */
TEST(ambient_capabilities)
{
        if (geteuid() != 0)
                TEST_SKIP("only root has capabilities to pass on");
        for (size_t i = 0; i < ELEMENTSOF(variants); i++)
                for (uid_t uid = 0; uid < 2; uid++) {
                        _cleanup_launch_config_ LaunchConfig c = {};
                        uint64_t ambient = variants[i].capabilities & (CAP(CAP_NET_RAW) | CAP(CAP_KILL));
                        Process p = {};
                        ASSERT_OK(make_config(variants[i].capabilities, variants[i].no_new_privileges,
                                              variants[i].filter, &c));
                        c.ambient = ambient;
                        ASSERT_OK(try(&c, uid, uid, &p));
                        ASSERT_EQ(p.ambient, ambient);
                        ASSERT_EQ(p.inheritable, ambient);
                        ASSERT_EQ(p.permitted, uid == 0 ? variants[i].capabilities : ambient);
                        ASSERT_EQ(p.effective, p.permitted);
                        ASSERT_EQ(p.bounding, variants[i].capabilities);
                }
}

/* A copy of this program with file capabilities, which no_new_privs must disable even if the launcher itself
 * had them before. */
TEST(file_capabilities)
{
        struct vfs_ns_cap_data data = {.magic_etc = VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE,
                                       .data[0].permitted = CAP(CAP_SYS_ADMIN) | CAP(CAP_KILL)};
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_free_ char *path = NULL;
        char command[PATH_MAX * 2];

        if (geteuid() != 0)
                TEST_SKIP("only root can give capabilities to files");
        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(chmod(s.path, 0755));
        ASSERT_OK(xasprintf(&path, "%s/show", s.path));
        _cleanup_close_ int in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
        _cleanup_close_ int out = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
        ASSERT_OK(in);
        ASSERT_OK(out);
        for (ssize_t n; (n = read(in, command, sizeof(command))) > 0;)
                ASSERT_OK(loop_write(out, command, (size_t) n));
        ASSERT_OK(fchmod(out, 0755));
        out = safe_close(out);
        if (setxattr(path, "security.capability", &data, XATTR_CAPS_SZ_2, 0) < 0)
                TEST_SKIP("files cannot have capabilities here");

        const char *before = self;
        self = path;
        for (int nnp = 0; nnp < 2; nnp++) {
                _cleanup_launch_config_ LaunchConfig c = {};
                Process p = {};
                int r = make_config(CAPABILITIES | CAP(CAP_SYS_ADMIN), nnp, true, &c);
                if (r >= 0)
                        r = try(&c, 1234, 4321, &p);
                if (r < 0 || p.permitted != (nnp ? 0 : CAP(CAP_SYS_ADMIN) | CAP(CAP_KILL)))
                        self = before;
                ASSERT_OK(r);
                ASSERT_EQ(p.permitted, nnp ? 0 : CAP(CAP_SYS_ADMIN) | CAP(CAP_KILL));
        }
        self = before;
}

/* The cost of installing the filter: not checked, as machines differ, but printed. */
TEST(cost)
{
        _cleanup_launch_config_ LaunchConfig c = {};
        int status = -1;

        ASSERT_OK(make_config(CAPABILITIES, true, true, &c));
        pid_t pid = fork();
        if (pid == 0) {
                Failure f = {};
                if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                        _exit(1);
                uint64_t begin = now_usec(CLOCK_MONOTONIC);
                int r = confine_system_calls(&c, &f);
                fprintf(stderr, "%zu instructions are installed in %llu us\n", c.n_filter,
                        (unsigned long long) (now_usec(CLOCK_MONOTONIC) - begin));
                _exit(r < 0);
        }
        ASSERT_EQ(waitpid(pid, &status, 0), pid);
        ASSERT_EQ(status, 0);
}

/* Which files are written, with what content. A directory stands for /proc/self/attr. */
TEST(labels)
{
        static const struct {
                unsigned modules;
                const char *apparmor, *selinux, *exec; /* what the files hold then */
        } l[] = {
                        {0, "", "", ""},
                        {LAUNCH_APPARMOR, "exec web//inner", "", ""},
                        {LAUNCH_SELINUX, "", "u:r:t:s0", ""},
                        {LAUNCH_APPARMOR | LAUNCH_SELINUX, "exec web//inner", "u:r:t:s0", ""},
        };
        LaunchConfig c = {.app = (char *) "a",
                          .apparmor_profile = (char *) "web//inner",
                          .selinux_context = (char *) "u:r:t:s0"};

        for (size_t i = 0; i < ELEMENTSOF(l); i++) {
                _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
                _cleanup_free_ char *apparmor = NULL, *selinux = NULL, *exec = NULL;
                Failure f = {};
                ASSERT_OK(scratch_new(&s));
                ASSERT_OK(scratch_dir(&s, "apparmor"));
                ASSERT_OK(scratch_dir(&s, "selinux"));
                ASSERT_OK(scratch_file(&s, "apparmor/exec", ""));
                ASSERT_OK(scratch_file(&s, "selinux/exec", ""));
                ASSERT_OK(scratch_file(&s, "exec", ""));
                ASSERT_OK(label_next_exec(&c, l[i].modules, s.fd, &f));
                ASSERT_OK(read_file_at(s.fd, "apparmor/exec", 64, &apparmor, NULL));
                ASSERT_OK(read_file_at(s.fd, "selinux/exec", 64, &selinux, NULL));
                ASSERT_OK(read_file_at(s.fd, "exec", 64, &exec, NULL));
                ASSERT_STREQ(apparmor, l[i].apparmor);
                ASSERT_STREQ(selinux, l[i].selinux);
                ASSERT_STREQ(exec, l[i].exec);
        }
}

/* A file that accepts only numbers stands for a policy without the context. The message about a program that
 * cannot be executed names the possible cause. */
TEST(labels_in_messages)
{
        static const struct {
                unsigned modules;
                const char *expected;
        } l[] = {
                        {0, ""},
                        {LAUNCH_APPARMOR, " in the AppArmor profile web"},
                        {LAUNCH_SELINUX, " in the SELinux context u:r:t:s0"},
                        {LAUNCH_APPARMOR | LAUNCH_SELINUX,
                         " in the AppArmor profile web in the SELinux context u:r:t:s0"},
        };
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        LaunchConfig c = {.app = (char *) "a",
                          .apparmor_profile = (char *) "web",
                          .selinux_context = (char *) "u:r:t:s0"};
        Failure f = {};

        for (size_t i = 0; i < ELEMENTSOF(l); i++) {
                _cleanup_free_ char *text = NULL;
                ASSERT_OK(label_describe(&c, l[i].modules, &text));
                ASSERT_STREQ(text, l[i].expected);
        }
        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(scratch_symlink(&s, "exec", "/proc/self/oom_score_adj"));
        ASSERT_ERR(label_next_exec(&c, LAUNCH_SELINUX, s.fd, &f), -EINVAL);
        ASSERT_STREQ(f.error.message,
                     "The SELinux policy has no context u:r:t:s0, which app a is to run in");
        error_done(&f.error);
}

/* A kernel without stacked modules has only one of the files; without any file no module is active. */
TEST(labels_without_directories)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_free_ char *exec = NULL;
        LaunchConfig c = {.app = (char *) "a", .apparmor_profile = (char *) "web"};
        Failure f = {};

        ASSERT_OK(scratch_new(&s));
        ASSERT_ERR(label_next_exec(&c, LAUNCH_APPARMOR, s.fd, &f), -ENOSYS);
        ASSERT_CONTAINS(f.error.message, "Cannot use the AppArmor profile web for app a");
        error_done(&f.error);
        ASSERT_OK(scratch_file(&s, "exec", ""));
        ASSERT_OK(label_next_exec(&c, LAUNCH_APPARMOR, s.fd, &f));
        ASSERT_OK(read_file_at(s.fd, "exec", 64, &exec, NULL));
        ASSERT_STREQ(exec, "exec web");
}

/* --- Landlock ------------------------------------------------------------------------------------------ */

/* Earlier kernels detect unknown rules by the size of the structure. */
static int know_rules_up_to(uint32_t size)
{
        struct sock_filter filter[] = {
                        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_landlock_create_ruleset, 0, 3),
                        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
                        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, size, 0, 1),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (size > 0 ? E2BIG : ENOSYS)),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = {.len = ELEMENTSOF(filter), .filter = filter};

        return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0 ? -errno : 0;
}

enum { CAN_LOOK = 1, CAN_MOUNT = 2 };

/* The access of a process of app C on a kernel that supports structures up to SIZE. */
static int what_is_left(const LaunchConfig *c, uint32_t size)
{
        int status;
        pid_t pid = fork();

        if (pid == 0) {
                Failure f = {};
                char path[64], target[256];
                int left = 0;

                if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
                    know_rules_up_to(size) < 0 || apply_landlock(c, &f) < 0)
                        _exit(78);
                snprintf(path, sizeof(path), "/proc/%d/exe", (int) getppid());
                if (readlink(path, target, sizeof(target)) >= 0)
                        left |= CAN_LOOK;
                if (mount("none", "/tmp", "tmpfs", 0, NULL) >= 0)
                        left |= CAN_MOUNT;
                _exit(left);
        }
        if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFEXITED(status))
                return -ECHILD;
        return WEXITSTATUS(status);
}

TEST(landlock)
{
        const LaunchConfig plain = {.app = (char *) "a", .capabilities = CAPABILITIES},
                           unfiltered = {.app = (char *) "a",
                                         .capabilities = CAPABILITIES,
                                         .may_mount = true},
                           granted = {.app = (char *) "a",
                                      .capabilities = CAPABILITIES | CAP(CAP_SYS_ADMIN),
                                      .may_mount = true};
        const struct {
                const LaunchConfig *config;
                uint32_t rules_size;
                int left;
        } l[] = {
                        {&plain, 24, 0},
                        {&plain, 16, 0},
                        {&plain, 8, 0},
                        {&plain, 0, CAN_LOOK | CAN_MOUNT},
                        {&unfiltered, 24, CAN_MOUNT},
                        {&unfiltered, 16, 0},
                        {&unfiltered, 8, 0},
                        {&unfiltered, 0, CAN_LOOK | CAN_MOUNT},
                        {&granted, 24, CAN_MOUNT},
                        {&granted, 16, CAN_LOOK | CAN_MOUNT},
                        {&granted, 8, CAN_LOOK | CAN_MOUNT},
                        {&granted, 0, CAN_LOOK | CAN_MOUNT},
        };

        if (geteuid() != 0)
                TEST_SKIP("only root can mount");
        if (syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) < 6)
                TEST_SKIP("this kernel's Landlock is older than that of Linux 6.12");
        for (size_t i = 0; i < ELEMENTSOF(l); i++)
                ASSERT_EQ(what_is_left(l[i].config, l[i].rules_size), l[i].left);
}

int main(int argc, char *argv[])
{
        if (argc == 2 && streq(argv[1], SHOW))
                return show();
        RUN(root);
        RUN(others);
        RUN(ambient_capabilities);
        RUN(file_capabilities);
        RUN(cost);
        RUN(labels);
        RUN(landlock);
        RUN(labels_in_messages);
        RUN(labels_without_directories);
        return TEST_END();
}
