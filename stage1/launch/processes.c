/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The pid namespace of an app that is not in the pod's (the setting "pid").
 *
 * A pid namespace applies to children only. The launcher that systemd has started therefore makes the
 * namespace, or joins one, and creates a second process, which becomes the app, as a child of its own
 * parent: the app is a child of the pod's systemd, which reaps it, so that its exit status is right and no
 * process stays between the two. systemd is told by MAINPID=, and the first process ends. The second one
 * waits until systemd has handled the message: systemd refuses a main process that has ended.
 *
 * Namespaces that exist are found by their process 1: the process in the cgroup of a unit that is a child of
 * the pod's systemd, and number 1 in a namespace directly below the pod's. Processes of an app cannot be
 * that: they become children of the process 1 of their own namespace when their parents end.
 *
 *     launch processes        is process 1 of the namespace that apps share ("pid=shared"), in a root without
 *                             any file, without any privilege. It only reaps.
 */

#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "schema/nested.h"
#include "stage1/launch/launch.h"

#define CGROUP_ROOT "/sys/fs/cgroup"
#define PROCS_FILE_MAX (1U << 20)
#define STATUS_FILE_MAX 65536U
#define NOBODY 65534U

/* --- Finding process 1 of a namespace ------------------------------------------------------------------ */

/* In this process's view of /proc: the parent is the pod's systemd, and its numbers are that of the pod and a 1. */
static bool is_first_process(pid_t pid)
{
        _cleanup_free_ char *text = NULL;
        char path[64], numbers[64];

        snprintf(path, sizeof(path), "/proc/%d/status", (int) pid);
        if (read_file_at(AT_FDCWD, path, STATUS_FILE_MAX, &text, NULL) < 0)
                return false;
        snprintf(numbers, sizeof(numbers), "\nNSpid:\t%d\t1\n", (int) pid);
        return strstr(text, "\nPPid:\t1\n") && strstr(text, numbers);
}

/* What was read by the number belongs to the process of the descriptor if that still exists afterwards. */
static int open_first_process(const char *procs)
{
        for (const char *line = procs; *line; line += strcspn(line, "\n"), line += *line == '\n') {
                pid_t pid = (pid_t) strtol(line, NULL, 10);
                if (pid <= 1)
                        continue;
                _cleanup_close_ int fd = (int) syscall(SYS_pidfd_open, pid, 0);
                if (fd >= 0 && is_first_process(pid) && process_signal(fd, 0) >= 0)
                        return TAKE_FD(fd);
        }
        return -ESRCH;
}

static int find_first_process(const char *cgroup)
{
        _cleanup_free_ char *path = NULL, *procs = NULL;

        if (xasprintf(&path, CGROUP_ROOT "/%s/cgroup.procs", cgroup) < 0)
                return -ENOMEM;
        int r = read_file_at(AT_FDCWD, path, PROCS_FILE_MAX, &procs, NULL);
        return r == -ENOENT || r == -ENODEV ? -ESRCH : r < 0 ? r : open_first_process(procs);
}

/* The cgroup of an app's service. */
static int app_cgroup(const char *app, char **ret)
{
        _cleanup_free_ char *slices = NULL;
        int r = nested_slices(app, &slices);

        return r < 0 ? r : xasprintf(ret, "app.slice/%s/app-%s.service", slices, app);
}

static int find_app(const char *app)
{
        _cleanup_free_ char *cgroup = NULL;

        int r = app_cgroup(app, &cgroup);
        return r < 0 ? r : find_first_process(cgroup);
}

/* --- Making and joining namespaces --------------------------------------------------------------------- */

static int make_namespace(Failure *f)
{
        if (unshare(CLONE_NEWPID) < 0)
                return failure_set_errno(f, CAUSE_SETUP, -errno, "Cannot create a pid namespace");
        return 0;
}

static int join_first_process(int fd, const char *what, const char *name, Failure *f)
{
        int r = fd < 0 ? fd : setns(fd, CLONE_NEWPID) < 0 ? -errno : 0;

        if (r == -ESRCH)
                return failure_set(f, CAUSE_SETUP, r,
                                   "Cannot join the processes of %s%s, which does not run", what, name);
        return r < 0 ? failure_set_errno(f, CAUSE_SETUP, r, "Cannot join the processes of %s%s", what, name)
                     : 0;
}

/* A handler runs while its app does not: it has a namespace of its own where the app has, or would join that of an app
 * that has ended. */
static int join_app(Launch *l, const char *app, Failure *f)
{
        bool handler = l->phase == LAUNCH_PRE_START || l->phase == LAUNCH_POST_STOP;
        _cleanup_close_ int fd = find_app(app);

        if (fd == -ESRCH && handler)
                return make_namespace(f);
        return join_first_process(fd, "app ", app, f);
}

int launch_enter_processes(Launch *l, Failure *f)
{
        const char *app = l->pid ? startswith(l->pid, LAUNCH_PID_APP) : NULL;

        if (!l->pid)
                return 0;
        if (app)
                return join_app(l, app, f);
        if (streq(l->pid, LAUNCH_PID_SHARED)) {
                _cleanup_close_ int fd = find_first_process("system.slice/" LAUNCH_PROCESSES_UNIT);
                return join_first_process(fd, LAUNCH_PROCESSES_UNIT, "", f);
        }
        return l->phase == LAUNCH_HEALTH ? join_app(l, l->app, f) : make_namespace(f);
}

/* --- The second process -------------------------------------------------------------------------------- */

static int notify_systemd(const char *text, int fd)
{
        const char *path = getenv("NOTIFY_SOCKET");
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        _cleanup_close_ int sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        if (sock < 0)
                return -errno;
        if (!path || !path_is_absolute(path) || strlen(path) >= sizeof(address.sun_path))
                return -EINVAL;
        memcpy(address.sun_path, path, strlen(path));
        if (connect(sock, (const struct sockaddr *) &address, sizeof(address)) < 0)
                return -errno;
        return send_fds(sock, text, strlen(text), &fd, fd >= 0 ? 1 : 0);
}

/* systemd closes the descriptor of a barrier when it has handled the messages before. */
static int await_systemd(void)
{
        int fds[2];

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        int r = notify_systemd("BARRIER=1", fds[1]);
        safe_close(fds[1]);
        struct pollfd p = {.fd = fds[0]};
        while (r >= 0 && poll(&p, 1, -1) < 0 && errno == EINTR)
                ;
        safe_close(fds[0]);
        return r;
}

/* Ends this process once systemd regards PID as the main one, which may go on then. */
static _noreturn_ void hand_over(pid_t pid, int go_fd)
{
        char text[64];

        snprintf(text, sizeof(text), "MAINPID=%d\nREADY=1", (int) pid);
        int r = notify_systemd(text, -EBADF);
        if (r >= 0)
                r = await_systemd();
        if (r >= 0)
                r = loop_write(go_fd, "", 1);
        _exit(r < 0 ? 125 : 0);
}

/* As process 1 of a namespace it does not die of SIGTERM: it ends when the first process has. */
static void await_go(int go_fd)
{
        char c;

        if (read(go_fd, &c, 1) != 1)
                _exit(125);
        safe_close(go_fd);
        (void) setsid(); /* the first process was the leader of its session */
}

int launch_fork_into_processes(Launch *l, Failure *f)
{
        int go[2], r = launch_enter_processes(l, f);

        if (r < 0)
                return r;
        if (pipe2(go, O_CLOEXEC) < 0)
                return failure_set_errno(f, CAUSE_SETUP, -errno, "Cannot create a pipe");
        pid_t pid = (pid_t) syscall(SYS_clone, CLONE_PARENT, NULL, NULL, NULL, NULL);
        if (pid > 0) {
                safe_close(go[0]);
                hand_over(pid, go[1]);
        }
        safe_close(go[1]);
        if (pid == 0)
                await_go(go[0]);
        else {
                r = failure_set_errno(f, CAUSE_SETUP, -errno, "Cannot create the process of %s", l->app);
                safe_close(go[0]);
        }
        return r;
}

/* --- Process 1 of the shared namespace ----------------------------------------------------------------- */

/* An app that may inspect this process finds nothing in it: no file of the pod, no descriptor, no privilege. */
static int leave_everything(void)
{
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct none[2] = {};

        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("tmpfs", LAUNCH_MOUNT_PATH, "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
                  "size=4k,nr_inodes=1,mode=0") < 0 ||
            chdir(LAUNCH_MOUNT_PATH) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
            umount2(".", MNT_DETACH) < 0 || chdir("/") < 0 || syscall(SYS_close_range, 0U, ~0U, 0U) < 0)
                return -errno;
        for (int cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
                if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
                        return -errno;
        if (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
            setresuid(NOBODY, NOBODY, NOBODY) < 0 || syscall(SYS_capset, &header, none) < 0 ||
            prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
                return -errno;
        return 0;
}

/* With SIGCHLD ignored the kernel reaps. Signals of the namespace's own processes have no effect. */
int processes_main(void)
{
        Launch l = {.app = LAUNCH_PROCESSES_UNIT, .phase = LAUNCH_MAIN, .pid = LAUNCH_PID_PRIVATE};
        Failure f = {};

        if (signal(SIGCHLD, SIG_IGN) == SIG_ERR || launch_fork_into_processes(&l, &f) < 0 ||
            leave_everything() < 0)
                return 125;
        for (;;)
                (void) pause();
}
