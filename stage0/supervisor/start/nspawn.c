/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Starting systemd-nspawn on the root of a pod.
 *
 * A child of ours goes into the pod's cgroup and a mount namespace of its own, binds the files of the host's
 * systemd over their places in the pod's root, and becomes nspawn. It inherits the pod's lock, so that the
 * pod counts as running for as long as nspawn is there.
 *
 * The kernel kills nspawn when we die. nspawn has asked for the same for the pod's PID 1, but with user
 * namespaces this is lost when that process changes its user. So nspawn is made the first process of a pid
 * namespace of its own, around the pod's: when it dies, however it dies, nothing in there survives it.
 *
 * A pod in the pid namespace of the host has no PID 1. Its systemd is a user's one, of root, which the launcher
 * starts (stage1/launch/manager.c). What such a pod leaves behind when nspawn is killed is killed by its cgroup.
 */

#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "stage0/owner/owner.h"
#include "stage0/supervisor/run-internal.h"

#define OWN_TMPFS "/run/systemd/nspawn"
#define NOTIFY_LINK OWN_TMPFS "/acnspawn-%s" /* the pod's UUID */

/* --- The command line ---------------------------------------------------------------------------------- */

static const char *const fixed_arguments[] = {
                NSPAWN_PROGRAM,
                "--quiet",
                "--settings=no",
                "--link-journal=no",
                "--notify-ready=yes",
                "--resolv-conf=off",
                "--timezone=off",
                "--console=read-only",
                "--setenv=SYSTEMD_UNIT_PATH=/acnspawn/units",
                "--register=no", /* its numbers would not be those of the host */
                "--keep-unit",   /* the cgroup it is in is the pod's */
};

/* Instead of the PID 1 that nspawn finds. */
static const char *const manager_arguments[] = {"/acnspawn/launch", "manager"};

/* The default capabilities of the pod's PID 1 may not include all that an app, now or later, is to have. */
static int add_capabilities(const Pod *p, char ***argv)
{
        _cleanup_text_ Text t = {};
        _cleanup_free_ char *list = NULL;
        uint64_t mask = pod_capabilities(p);

        for (unsigned cap = 0; cap < 64; cap++) {
                char name[STAGE1_CAPABILITY_NAME_SIZE];
                if (mask & UINT64_C(1) << cap && stage1_capability_name(cap, name))
                        text_addf(&t, "%s%s", t.size > 0 ? "," : "", name);
        }
        int r = text_take(&t, &list, NULL);
        return r < 0 || !*list ? r : strv_extendf(argv, "--capability=%s", list);
}

static int add_list(char ***argv, const char *const *list, size_t n)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < n; i++)
                r = strv_extend(argv, list[i]);
        return r;
}

static int add_identity(const Pod *p, const char *root, char ***argv)
{
        _cleanup_free_ char *machine = NULL, *hostname = NULL;

        int r = pod_machine_name(p, &machine);
        if (r >= 0)
                r = pod_hostname(p, &hostname);
        if (r >= 0)
                r = strv_extendf(argv, "--machine=%s", machine);
        if (r >= 0)
                r = strv_extendf(argv, "--hostname=%s", hostname);
        if (r >= 0)
                r = strv_extendf(argv, "--uuid=%s", p->uuid);
        if (r >= 0)
                r = strv_extendf(argv, "--directory=%s", root);
        return r;
}

static int build_arguments(const Pod *p, const char *root, char ***ret)
{
        _cleanup_strv_free_ char **argv = NULL;

        int r = add_list(&argv, fixed_arguments, ELEMENTSOF(fixed_arguments));
        if (r >= 0)
                r = add_identity(p, root, &argv);
        if (r >= 0 && p->config.net == NET_NONE)
                r = strv_extend(&argv, "--private-network");
        if (r >= 0 && p->config.private_users) {
                r = strv_extendf(&argv, "--private-users=%u:%u", p->config.uid_base, pod_n_uids(&p->config));
                if (r >= 0)
                        r = strv_extend(&argv, "--private-users-ownership=off");
        }
        if (r >= 0 && p->config.host_ipc)
                r = strv_extend(&argv, "--bind=/dev/shm");
        if (r >= 0)
                r = add_capabilities(p, &argv);
        if (r >= 0)
                r = p->config.host_pid ? add_list(&argv, manager_arguments, ELEMENTSOF(manager_arguments))
                                       : strv_extend(&argv, "--boot");
        if (r >= 0)
                *ret = TAKE_PTR(argv);
        return r;
}

/* Optional: a pod runs without the libraries below. */
static bool can_preload(const char *library)
{
        return library && !strpbrk(library, " :"); /* separators of LD_PRELOAD */
}

/* The pod's user namespace is to be its own root's, so that limits of one user are not those of all pods
 * together. STUB, that of libcrypto, takes the place of the library of that name. */
static int add_preloads(const Pod *p, const char *stub, char ***environment)
{
        _cleanup_free_ char *owner = NULL;
        int r = 0;

        if (p->config.private_users)
                (void) helper_program_path(USERNS_OWNER_LIBRARY, &owner, NULL);
        bool has_owner = can_preload(owner), has_stub = can_preload(stub);
        if (has_owner || has_stub)
                r = strv_extendf(environment, "LD_PRELOAD=%s%s%s", has_owner ? owner : "",
                                 has_owner && has_stub ? ":" : "", has_stub ? stub : "");
        if (r >= 0 && has_owner)
                r = strv_extendf(environment, USERNS_OWNER_VARIABLE "=%u", p->config.uid_base);
        return r;
}

/* nspawn compiles its system call filter three times, which takes longer than all the rest of a start. The
 * pod's systemd is the host's own program and needs none; every process of an app gets one from the
 * launcher. */
static int build_environment(const Pod *p, const char *stub, char ***ret)
{
        _cleanup_strv_free_ char **environment = NULL;

        int r = strv_extend(&environment,
                            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        if (r >= 0)
                r = strv_extend(&environment, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1");
        if (r >= 0)
                r = strv_extend(&environment, "SYSTEMD_SECCOMP=0");
        if (r >= 0 && p->config.host_pid)
                r = strv_extend(&environment, "SYSTEMD_NSPAWN_SHARE_NS_PID=1");
        if (r >= 0 && p->config.host_ipc)
                r = strv_extend(&environment, "SYSTEMD_NSPAWN_SHARE_NS_IPC=1");
        if (r >= 0)
                r = add_preloads(p, stub, &environment);
        if (r >= 0)
                r = strv_extend(&environment, "SYSTEMD_LOG_TARGET=console");
        if (r >= 0)
                r = strv_extendf(&environment, "NOTIFY_SOCKET=" NOTIFY_LINK, p->uuid);
        if (r >= 0)
                *ret = TAKE_PTR(environment);
        return r;
}

static void tell_command(char *const *argv)
{
        _cleanup_free_ char *line = strv_join(argv, " ");

        log_debug("Executing %s", line ?: NSPAWN_PROGRAM);
}

/* --- The child ----------------------------------------------------------------------------------------- */

/* nspawn makes directories on the host that stay if it is killed: they are made in a tmpfs that disappears
 * with it. */
static int hide_leftovers(const char *root, Error *e)
{
        static const char *const places[] = {"/tmp", OWN_TMPFS};

        if (mkdir_p(OWN_TMPFS, 0755) < 0)
                return error_set_errno(e, -errno, "Cannot mount " OWN_TMPFS);
        for (size_t i = 0; i < ELEMENTSOF(places); i++)
                if (!path_has_prefix(root, places[i]) &&
                    mount("acnspawn", places[i], "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=1m") < 0)
                        return error_set_errno(e, -errno, "Cannot mount a tmpfs on %s for the pod",
                                               places[i]);
        return 0;
}

typedef struct Child {
        Pod *pod;
        char *root;
        char **argv;
        int output_fd;
        int their_go, our_go; /* socket pair; ours is closed when the parent dies */
} Child;

/* Waits until this process is in the pod's cgroup. The parent may have died before PR_SET_PDEATHSIG. */
static int wait_for_go(const Child *c)
{
        char word;

        safe_close(c->our_go);
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
                return -errno;
        return loop_read(c->their_go, &word, 1) == 1 ? 0 : -ECHILD;
}

/* nspawn needs a /proc of its own pid namespace. */
static int mount_proc(void)
{
        return mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0 ? -errno : 0;
}

/* The address of a socket must be short, and the pod directory's path may be long. */
static int link_notify_socket(const Child *c, Error *e)
{
        _cleanup_free_ char *name = NULL, *target = NULL;

        int r = xasprintf(&name, NOTIFY_LINK, c->pod->uuid);
        if (r >= 0)
                r = xasprintf(&target, "%s/../" NOTIFY_SOCKET_NAME, c->root);
        if (r >= 0 && symlink(target, name) < 0 && errno != EEXIST)
                r = -errno;
        return r < 0 ? error_set_errno(e, r, "Cannot create the link %s", name ?: OWN_TMPFS) : 0;
}

static int child_setup(const Child *c, char ***ret_environment, Error *e)
{
        _cleanup_close_ int root_fd = -EBADF, null = -EBADF;
        _cleanup_free_ char *stub = NULL;

        (void) setsid(); /* Ctrl-C is handled by the parent alone */
        int r = wait_for_go(c);
        if (r < 0)
                return error_set_errno(e, r, "The supervisor is gone");
        /* With --network-namespace-path= nspawn would enter it from the pod's user namespace, which has no
         * right to. */
        r = network_enter(c->pod, e);
        if (r >= 0)
                r = mount_namespace_unshare(NULL, e);
        if (r < 0)
                return r;
        r = c->pod->config.host_pid ? 0 : mount_proc();
        if (r < 0)
                return error_set_errno(e, r, "Cannot mount /proc for systemd-nspawn");
        root_fd = open(c->root, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (root_fd < 0)
                return error_set_errno(e, -errno, "Cannot open the root of pod %s",
                                       pod_display_name(c->pod));
        r = pod_bind_host_files(c->pod, root_fd, &stub, e);
        if (r >= 0)
                r = build_environment(c->pod, stub, ret_environment) < 0 ? error_oom(e) : 0;
        if (r >= 0)
                r = hide_leftovers(c->root, e);
        if (r >= 0)
                r = link_notify_socket(c, e);
        if (r < 0)
                return r;
        null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(c->output_fd, STDOUT_FILENO) < 0 ||
            dup2(c->output_fd, STDERR_FILENO) < 0)
                return error_set_errno(e, -errno, "Cannot set up the standard streams of systemd-nspawn");
        signals_release(); /* Ctrl-C may have come before setsid() */
        return 0;
}

/* The lock is inherited. */
static int pass_lock(const Child *c, Error *e)
{
        if (fcntl(c->pod->dir_fd, F_DUPFD, 3) < 0)
                return error_set_errno(e, -errno, "Cannot pass on the lock of pod %s",
                                       pod_display_name(c->pod));
        return 0;
}

static _noreturn_ void child(const Child *c)
{
        _cleanup_error_ Error e = ERROR_NULL;
        char **environment = NULL;

        int r = child_setup(c, &environment, &e);
        if (r < 0)
                (void) dup2(c->output_fd, STDERR_FILENO);
        else
                r = pass_lock(c, &e);
        if (r >= 0) {
                execve(NSPAWN_PROGRAM, c->argv, environment);
                r = error_set_errno(&e, -errno, "Cannot execute " NSPAWN_PROGRAM);
                (void) error_hint(&e, 0, "Install the package systemd-container.");
        }
        error_print(&e, r);
        _exit(125);
}

/* Like fork(), but the child is the first process of a pid namespace, unless the pod is in that of the host. */
static pid_t fork_child(const Pod *p)
{
        return (pid_t) syscall(SYS_clone, (p->config.host_pid ? 0 : CLONE_NEWPID) | SIGCHLD, NULL, NULL,
                               NULL, NULL);
}

static int cannot_start(const Child *c, int code, Error *e)
{
        (void) error_set_errno(e, code, "Cannot start a process for pod %s in a pid namespace of its own",
                               pod_display_name(c->pod));
        if (code == -EPERM)
                return error_hint(e, code,
                                  "Running pods takes all of root's privileges, CAP_SYS_ADMIN among them.");
        return code;
}

static int start_child(const Child *c, Nspawn *ret, int read_fd, Error *e)
{
        pid_t pid = fork_child(c->pod);

        if (pid == 0)
                child(c);
        if (pid < 0)
                return cannot_start(c, -errno, e);
        int pid_fd = (int) syscall(SYS_pidfd_open, pid, 0);
        if (pid_fd < 0) {
                int r = error_set_errno(e, -errno, "Cannot watch systemd-nspawn");
                (void) kill(pid, SIGKILL);
                (void) waitpid(pid, NULL, 0);
                return r;
        }
        *ret = (Nspawn){.pid = pid, .pid_fd = pid_fd, .output_fd = read_fd};
        return 0;
}

int nspawn_start(Pod *p, Nspawn *ret, Error *e)
{
        _cleanup_free_ char *path = NULL, *root = NULL;
        _cleanup_strv_free_ char **argv = NULL;
        _cleanup_close_ int read_fd = -EBADF, write_fd = -EBADF, their_go = -EBADF, our_go = -EBADF;
        int fds[2], go[2];

        int r = pod_path(p, &path);
        if (r >= 0)
                r = xasprintf(&root, "%s/root", path);
        if (r >= 0)
                r = build_arguments(p, root, &argv);
        if (r < 0)
                return error_oom(e);
        tell_command(argv);
        if (pipe2(fds, O_CLOEXEC) < 0)
                return error_set_errno(e, -errno, "Cannot create a pipe");
        read_fd = fds[0];
        write_fd = fds[1];
        (void) fcntl(read_fd, F_SETFL, O_NONBLOCK);
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, go) < 0)
                return error_set_errno(e, -errno, "Cannot create a pair of sockets");
        their_go = go[0];
        our_go = go[1];

        const Child c = {
                        .pod = p,
                        .root = root,
                        .argv = argv,
                        .output_fd = write_fd,
                        .their_go = their_go,
                        .our_go = our_go,
        };
        r = start_child(&c, ret, read_fd, e);
        if (r < 0)
                return r;
        (void) TAKE_FD(read_fd);
        ret->go_fd = TAKE_FD(our_go);
        return 0;
}

int nspawn_go(Nspawn *n, Error *e)
{
        int r = send(n->go_fd, "1", 1, MSG_NOSIGNAL) < 0 ? -errno : 0;

        n->go_fd = safe_close(n->go_fd);
        return r < 0 ? error_set_errno(e, r, "The process that becomes systemd-nspawn is gone") : 0;
}

void nspawn_done(Nspawn *n)
{
        if (n->pid > 0) {
                (void) kill(n->pid, SIGKILL);
                (void) waitpid(n->pid, NULL, 0);
        }
        safe_close(n->pid_fd);
        safe_close(n->output_fd);
        safe_close(n->go_fd);
        *n = NSPAWN_NULL;
}

/* nspawn has one child. nspawn itself reports a number of its own pid namespace, so the number is read
 * here. */
pid_t nspawn_leader(const Nspawn *n)
{
        _cleanup_free_ char *text = NULL;
        char path[64];
        uint32_t pid;

        snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int) n->pid, (int) n->pid);
        if (read_file_at(AT_FDCWD, path, 4096, &text, NULL) < 0)
                return 0;
        text[strcspn(text, " \n")] = 0;
        return parse_u32(text, &pid) >= 0 ? (pid_t) pid : 0;
}
