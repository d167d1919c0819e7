/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Runs a command beside a running app ("launch enter"), confined exactly as the app is.
 *
 * The supervisor starts this on the host, from a sealed copy in memory, through which no process of the pod can
 * reach a file of the host. Only a child enters the app's pid namespace: it joins all other namespaces and
 * cgroups of the app, then takes the last steps of every launch (execute.c), with the same launch file. So
 * the code that confines exists once, and nothing of the host is left when the command begins. The child is one
 * of the supervisor, which waits for the command itself: this process ends as soon as it has made it. If the
 * supervisor dies, the kernel kills the command, unless it got privileges or a label by its exec; then it ends
 * with the pod.
 */

#include <linux/capability.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "stage1/enter-protocol.h"
#include "stage1/launch/enter.h"

#ifndef CLONE_INTO_CGROUP
#define CLONE_INTO_CGROUP UINT64_C(0x200000000)
#endif

typedef struct Enter {
        Launch launch;
        EnterRequest request;
        int app_fd;    /* the app's main process */
        int cgroup_fd; /* the command's cgroup */
        int cgroup_fds[ENTER_CGROUPS_MAX + 1];
        size_t n_cgroups;
        InheritedSettings inheritance;
        EnterReport *report; /* shared memory: the child's filter may forbid every system call to report by */
} Enter;

/* --- The request --------------------------------------------------------------------------------------- */

static int read_launch_file(Enter *x, int fd)
{
        _cleanup_free_ char *data = NULL;
        size_t size;
        int r = read_fd_bounded(fd, LAUNCH_FILE_SIZE_MAX, &data, &size);

        if (r >= 0)
                r = launch_config_parse(data, size, &x->launch.config);
        if (r >= 0)
                x->launch.app = x->launch.config.app;
        return r;
}

/* An empty WORD leaves *RET as NULL. */
static int copy_word(const char *word, char **ret)
{
        *ret = *word ? strdup(word) : NULL;
        return *word && !*ret ? -ENOMEM : 0;
}

static int map_report(Enter *x, int fd)
{
        void *p = mmap(NULL, sizeof(EnterReport), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

        if (p == MAP_FAILED)
                return -errno;
        x->report = p;
        return 0;
}

static int receive_request(Enter *x, Failure *f)
{
        int fds[ENTER_FD_CGROUPS + ENTER_CGROUPS_MAX];
        size_t n = 0;
        ssize_t size = recv_fds(ENTER_SOCKET, &x->request, sizeof(x->request), fds, ELEMENTSOF(fds), &n);
        EnterRequest *q = &x->request;
        int r;

        if (size != (ssize_t) sizeof(*q) || q->version != ENTER_PROTOCOL_VERSION || n < ENTER_FD_CGROUPS)
                return failure_set(f, CAUSE_SETUP, -EBADMSG, "This is not a request to enter an app");
        q->user[sizeof(q->user) - 1] = q->metadata_url[sizeof(q->metadata_url) - 1] = 0;
        q->identity[sizeof(q->identity) - 1] = 0;
        x->launch.modules = q->modules;
        x->app_fd = fds[ENTER_FD_APP];
        x->cgroup_fd = fds[ENTER_FD_CGROUP];
        x->launch.has_credentials = q->credentials;
        x->launch.stdin_fd = fds[ENTER_FD_STDIN];
        x->launch.stdout_fd = fds[ENTER_FD_STDOUT];
        x->launch.stderr_fd = fds[ENTER_FD_STDERR];
        for (size_t i = ENTER_FD_CGROUPS; i < n; i++)
                x->cgroup_fds[x->n_cgroups++] = fds[i];
        r = read_launch_file(x, fds[ENTER_FD_FILE]);
        safe_close(fds[ENTER_FD_FILE]);
        if (r >= 0)
                r = map_report(x, fds[ENTER_FD_REPORT]);
        safe_close(fds[ENTER_FD_REPORT]);
        if (r >= 0)
                r = copy_word(q->metadata_url, &x->launch.metadata_url);
        if (r >= 0)
                r = copy_word(q->identity, &x->launch.identity);
        return r < 0 ? failure_set_errno(f, CAUSE_SETUP, r, "Cannot read the launch file of the app") : 0;
}

/* --- The terminal -------------------------------------------------------------------------------------- */

static int make_terminal(Enter *x, int *ret_master)
{
        _cleanup_close_ int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), master = -EBADF;
        int slave = -EBADF, r = root < 0 ? -errno : terminal_open_in_root(root, &master, &slave);

        if (r < 0)
                return r;
        if (x->request.size.ws_row > 0)
                (void) ioctl(slave, TIOCSWINSZ, &x->request.size);
        safe_close(x->launch.stdin_fd);
        safe_close(x->launch.stdout_fd);
        x->launch.stdin_fd = slave;
        x->launch.stdout_fd = fcntl(slave, F_DUPFD_CLOEXEC, 3);
        if (x->request.terminal_errors) {
                safe_close(x->launch.stderr_fd);
                x->launch.stderr_fd = fcntl(slave, F_DUPFD_CLOEXEC, 3);
        }
        if (x->launch.stdout_fd < 0 || x->launch.stderr_fd < 0)
                return -errno;
        x->launch.terminal = true;
        *ret_master = TAKE_FD(master);
        return 0;
}

static int open_terminal(Enter *x, Failure *f)
{
        const EnterMessage message = {.event = ENTER_TERMINAL};
        _cleanup_close_ int master = -EBADF;

        if (!x->request.terminal)
                return 0;
        int r = make_terminal(x, &master);
        if (r >= 0)
                r = send_fds(ENTER_SOCKET, &message, sizeof(message), &master, 1);
        return r < 0 ? failure_set_errno(f, CAUSE_SETUP, r, "Cannot create a terminal in app %s",
                                         x->launch.app)
                     : 0;
}

/* --- User and command
 * -------------------------------------------------------------------------------------- */

/* Allows the app's user, and users and groups to which the app could change itself. */
static int check_user(const LaunchConfig *c, const Identity *app, const Identity *id, Failure *f)
{
        const uint64_t needed = UINT64_C(1) << CAP_SETUID | UINT64_C(1) << CAP_SETGID;

        if (app->uid == 0 && (c->capabilities & needed) == needed)
                return 0;
        if (app->uid == id->uid && app->gid == id->gid && id->n_groups <= app->n_groups &&
            memcmp(app->groups ?: (gid_t *) "", id->groups ?: (gid_t *) "", id->n_groups * sizeof(gid_t)) ==
                            0)
                return 0;
        return failure_set(f, CAUSE_USER, -EPERM,
                           "App %s runs as user %u, group %u, and could not become user %u, group %u itself",
                           c->app, app->uid, app->gid, id->uid, id->gid);
}

/* "USER", "USER:GROUP"; ":GROUP" is the app's user. */
static int replace_user(LaunchConfig *c, const Identity *app, const char *user)
{
        const char *colon = path_is_absolute(user) ? NULL : strchr(user, ':');
        char *name = NULL;
        char *group = strdup(colon && colon[1] ? colon + 1 : GROUPS_OF_USER);

        if (colon == user)
                (void) xasprintf(&name, "%u", app->uid);
        else
                name = colon ? strndup(user, (size_t) (colon - user)) : strdup(user);

        if (!name || !group) {
                free(name);
                free(group);
                return -ENOMEM;
        }
        free(c->user);
        free(c->group);
        c->user = name;
        c->group = group;
        c->n_gids = 0;
        c->merges_groups = false;
        return 0;
}

static int find_identity(Enter *x, Identity *ret, Failure *f)
{
        LaunchConfig *c = &x->launch.config;
        Identity app = {};
        int r = identity_find(&x->launch, &app, f);

        if (r < 0)
                return r;
        if (!x->request.user[0]) {
                *ret = app;
                return 0;
        }
        r = replace_user(c, &app, x->request.user);
        if (r < 0)
                r = failure_set_errno(f, CAUSE_SETUP, r, "Cannot look up user %s", x->request.user);
        else
                r = identity_resolve(c, ret, f);
        if (r >= 0)
                r = check_user(c, &app, ret, f);
        identity_done(&app);
        return r;
}

/* The user's login shell, unless it is one that denies logins. */
static int use_shell(Launch *l, const Identity *id)
{
        const char *shell = id->shell;
        _cleanup_close_ int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), fd = -EBADF;

        if (root >= 0 && shell && !endswith(shell, "/nologin") && !endswith(shell, "/false"))
                fd = open_in_root(root, shell, O_PATH);
        l->config.exec = strv_free(l->config.exec);
        return strv_extend(&l->config.exec, fd >= 0 ? shell : "/bin/sh");
}

/* --- The child ----------------------------------------------------------------------------------------- */

static int join(Enter *x, Failure *f)
{
        int r = join_cgroups(x->cgroup_fds, x->n_cgroups, x->launch.app, f);

        if (r >= 0)
                r = inherited_settings_apply(&x->inheritance, f);
        if (r >= 0)
                r = launch_choose_label(&x->launch, f);
        if (r >= 0)
                r = join_namespaces(x->request.app, x->app_fd, x->launch.app, f);
        return r;
}

static int become_command(Enter *x, Failure *f)
{
        Identity id = {};

        (void) setsid();
        int r = join(x, f);
        if (r >= 0)
                r = open_terminal(x, f);
        if (r >= 0)
                r = find_identity(x, &id, f);
        if (r >= 0 && x->request.shell && use_shell(&x->launch, &id) < 0)
                r = failure_set_errno(f, CAUSE_SETUP, -ENOMEM, "Cannot look for a shell");
        if (r >= 0)
                x->launch.joined = true;
        if (r >= 0)
                r = launch_execute(&x->launch, x->launch.config.exec, &id, f);
        identity_done(&id);
        return r;
}

static void report_failure(Enter *x, const Failure *f, int r)
{
        if (!x->report)
                return;
        snprintf(x->report->text, sizeof(x->report->text), "%s", f->error.message ?: strerror(-r));
        x->report->cause = (int32_t) f->cause;
        x->report->failed = true;
}

static _noreturn_ void child(Enter *x)
{
        Failure f = {};

        report_failure(x, &f, become_command(x, &f));
        _exit(125);
}

/* --- The parent ---------------------------------------------------------------------------------------- */

/* As struct clone_args of the kernel, up to the member that is needed. */
typedef struct CloneArguments {
        uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid,
                        set_tid_size, cgroup;
} CloneArguments;

/* The child begins in the command's cgroup, which is much faster than going there. Where it cannot, as in an app
 * that has reached its limit of processes, it goes there, which that limit does not refuse. */
static pid_t clone_child(Enter *x)
{
        CloneArguments a = {.flags = CLONE_PARENT | CLONE_INTO_CGROUP, .cgroup = (uint64_t) x->cgroup_fd};

        pid_t pid = (pid_t) syscall(SYS_clone3, &a, sizeof(a));
        if (pid >= 0)
                return pid;
        x->cgroup_fds[x->n_cgroups] = openat(x->cgroup_fd, "cgroup.procs", O_WRONLY | O_CLOEXEC | O_NOCTTY);
        if (x->cgroup_fds[x->n_cgroups] < 0)
                return -1;
        x->n_cgroups++;
        return (pid_t) syscall(SYS_clone, CLONE_PARENT, NULL, NULL, NULL, NULL);
}

static int start_child(Enter *x, Failure *f)
{
        EnterMessage message = {.event = ENTER_PROCESS};

        x->launch.parent_fd = ENTER_SOCKET;
        message.pid = clone_child(x);
        if (message.pid == 0)
                child(x);
        if (message.pid < 0)
                return failure_set_errno(f, CAUSE_SETUP, -errno, "Cannot create a process in app %s%s",
                                         x->launch.app,
                                         errno == ENODEV || errno == ENOENT ? ", which has ended" : "");
        int r = send_fds(ENTER_SOCKET, &message, sizeof(message), NULL, 0);
        return r < 0 ? failure_set_errno(f, CAUSE_SETUP, r, "Cannot report the process of the command") : 0;
}

static int run(Enter *x, Failure *f)
{
        int r = receive_request(x, f);

        if (r >= 0)
                r = inherited_settings_read(x->request.app, x->launch.app, &x->inheritance, f);
        if (r >= 0)
                x->launch.config.capabilities &= x->inheritance.bounding;
        if (r >= 0 && setns(x->app_fd, CLONE_NEWPID) < 0)
                r = failure_set_errno(f, CAUSE_SETUP, -errno, "Cannot join the processes of app %s%s",
                                      x->launch.app, errno == ESRCH ? ", which has ended" : "");
        return r < 0 ? r : start_child(x, f);
}

int enter_main(void)
{
        Enter x = {.launch = LAUNCH_NULL, .app_fd = -EBADF, .cgroup_fd = -EBADF};
        Failure f = {};

        if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || fcntl(ENTER_SOCKET, F_SETFD, FD_CLOEXEC) < 0)
                return 125;
        int r = run(&x, &f);
        if (r < 0)
                report_failure(&x, &f, r);
        error_done(&f.error);
        return r < 0 ? 125 : 0;
}
