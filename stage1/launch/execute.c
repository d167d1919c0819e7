/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The last steps of a launch: environment, working directory, identity, exec.
 *
 * The environment is the specification's four variables, HOME if the image's passwd has it, and the
 * variables of the manifest, byte for byte; no variable of systemd's is passed. The executable is searched
 * as a shell does (spec: aci.md, "exec"). Once the filter of system calls is in force, the only call is the
 * exec.
 */

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "stage1/launch/launch.h"

static bool environment_has(char *const *environment, const char *name)
{
        STRV_FOREACH (e, environment) {
                const char *rest = startswith(*e, name);
                if (rest && *rest == '=')
                        return true;
        }
        return false;
}

static int add_default(char ***environment, const char *name, const char *value)
{
        if (!value || environment_has(*environment, name))
                return 0;
        return strv_extendf(environment, "%s=%s", name, value);
}

/* Variables that describe the process itself, which a manifest must not set. */
static bool is_reserved(const char *assignment)
{
        static const char *const names[] = {"AC_APP_NAME=", "AC_METADATA_URL=", "container=",
                                            "LISTEN_FDS=",  "LISTEN_PID=",      "LISTEN_FDNAMES="};

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (startswith(assignment, names[i]))
                        return true;
        return false;
}

/* Variables that the app must be able to rely on come last and override; PATH and HOME may be set by the
 * manifest. */
static int build_environment(Launch *l, const Identity *id, char ***ret)
{
        _cleanup_strv_free_ char **environment = NULL;
        char hostname[65] = "";
        int r = 0;

        STRV_FOREACH (e, l->config.environment) {
                if (is_reserved(*e) || (l->has_credentials && startswith(*e, "CREDENTIALS_DIRECTORY=")) ||
                    (l->notify && startswith(*e, "NOTIFY_SOCKET=")) ||
                    (l->config.control && startswith(*e, LAUNCH_CONTROL_VARIABLE "=")))
                        continue;
                r = strv_extend(&environment, *e);
                if (r < 0)
                        return r;
        }
        if (!isempty(l->terminal_type))
                r = add_default(&environment, "TERM", l->terminal_type);
        if (r >= 0 && l->has_credentials)
                r = strv_extend(&environment, "CREDENTIALS_DIRECTORY=" LAUNCH_CREDENTIALS_PATH);
        if (r >= 0)
                r = add_default(&environment, "PATH", DEFAULT_PATH);
        if (r >= 0)
                r = add_default(&environment, "HOME", id->home);
        /* As in other engines. Apps of App Container images only get the variables of the specification. */
        bool appc = !isempty(l->metadata_url);
        if (r >= 0 && (l->config.hostname || !appc) && gethostname(hostname, sizeof(hostname)) >= 0)
                r = add_default(&environment, "HOSTNAME", hostname);
        if (r >= 0 && appc)
                r = add_default(&environment, "AC_APP_NAME", l->config.app);
        if (r >= 0 && appc)
                r = add_default(&environment, "AC_METADATA_URL", l->metadata_url);
        if (r >= 0)
                r = add_default(&environment, "container", "acnspawn");
        if (r >= 0 && l->notify)
                r = add_default(&environment, "NOTIFY_SOCKET", LAUNCH_NOTIFY_PATH);
        if (r >= 0 && l->config.control && l->has_credentials)
                r = add_default(&environment, LAUNCH_CONTROL_VARIABLE,
                                LAUNCH_CREDENTIALS_PATH "/" LAUNCH_CONTROL_SOCKET);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(environment);
        return 0;
}

/* The pipes are given to the app's user, so that the app can open /dev/stdout; a terminal keeps the group
 * "tty". The null device is everybody's. */
static int give_stream(int fd, const Identity *id, Failure *f)
{
        struct stat st;

        if (fstat(fd, &st) >= 0 && S_ISCHR(st.st_mode) && !isatty(fd))
                return 0;
        if (fchown(fd, id->uid, isatty(fd) ? (gid_t) -1 : id->gid) < 0)
                return errno == EINVAL ? confine_no_such_id(id, f)
                                       : failure_set_errno(
                                                         f, CAUSE_SETUP, -errno,
                                                         "Cannot give the standard streams to user %u, group %u",
                                                         id->uid, id->gid);
        return 0;
}

/* Opens the null device of the launcher's own mount of /dev: /dev in the root may be a symlink of the image,
 * which a running app can redirect to a file whose opening blocks, or that the app itself may not open. */
static int open_null(const Launch *l)
{
        int fd = openat(l->dev_fd, "null", O_RDONLY | O_NOCTTY | O_CLOEXEC);

        return fd < 0 ? -errno : fd;
}

static bool is_null(int fd)
{
        struct stat st;

        return fstat(fd, &st) >= 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3);
}

/* A null device of another mount namespace would show in /proc/self/fd where that is mounted on the host, or show a path that the app
 * does not have. An app that has something else in the place of its own keeps the one it was given. */
static void use_own_null(int stream)
{
        int flags = is_null(stream) ? fcntl(stream, F_GETFL) : -1;
        _cleanup_close_ int fd = flags < 0 ? -EBADF
                                           : open_no_symlinks(AT_FDCWD, "/dev/null",
                                                              (flags & O_ACCMODE) | O_NONBLOCK | O_NOCTTY |
                                                                              O_CLOEXEC);

        if (fd >= 0 && is_null(fd) && fcntl(fd, F_SETFL, flags & O_APPEND) >= 0)
                (void) dup2(fd, stream);
}

static int use_streams(Launch *l, const Identity *id, Failure *f)
{
        _cleanup_close_ int null = l->stdin_fd < 0 ? open_null(l) : -EBADF;
        const int fds[] = {l->stdin_fd, l->stdout_fd, l->stderr_fd};
        int r = 0;

        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(fds); i++)
                r = fds[i] < 0 ? 0 : give_stream(fds[i], id, f);
        if (r < 0)
                return r;
        if (dup2(l->stdin_fd >= 0 ? l->stdin_fd : null, STDIN_FILENO) < 0 ||
            dup2(l->stdout_fd, STDOUT_FILENO) < 0 || dup2(l->stderr_fd, STDERR_FILENO) < 0)
                return failure_set_errno(f, CAUSE_SETUP, -errno, "Cannot set up the standard streams");
        if (l->terminal && ioctl(STDIN_FILENO, TIOCSCTTY, 0) < 0)
                return failure_set_errno(f, CAUSE_SETUP, -errno, "Cannot acquire the terminal");
        return 0;
}

static void reset_signals(void)
{
        sigset_t none;

        for (int s = 1; s < NSIG; s++)
                (void) signal(s, SIG_DFL);
        sigemptyset(&none);
        (void) sigprocmask(SIG_SETMASK, &none, NULL);
}

/* From here on untrusted paths are followed, and /proc/self/fd must not lead to anything that the app may
 * not access: the mounts of volumes, for example, lead to the host's directories. */
static void close_descriptors(Launch *l)
{
        unsigned next = 3U + (unsigned) l->n_sockets;
        int *kept = l->parent_fd >= 0 ? &l->parent_fd : &l->link_fd; /* at most one of them is open */

        if (*kept >= 0) {
                if (*kept != (int) next)
                        *kept = dup3(*kept, (int) next, O_CLOEXEC);
                next++;
        }
        (void) syscall(SYS_close_range, next, ~0U, 0U);
        l->stdin_fd = l->root_fd = l->pts_fd = l->dev_fd = l->stdout_fd = l->stderr_fd = -EBADF;
        l->credentials_fd = l->notify_fd = -EBADF;
        l->n_volumes = 0;
}

/* No magic links: those in /proc/self are the launcher's, not the app's. */
static int change_directory(const char *path)
{
        _cleanup_close_ int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), fd = -EBADF;

        if (root < 0)
                return -errno;
        fd = open_in_root(root, path, O_PATH | O_DIRECTORY);
        if (fd < 0)
                return fd;
        return fchdir(fd) < 0 ? -errno : 0;
}

static int enter_working_directory(const Launch *l, Failure *f)
{
        int r = change_directory(l->config.working_directory);

        if (r < 0)
                return failure_set_errno(f, CAUSE_WORKING_DIRECTORY, r,
                                         "Cannot change to the working directory %s",
                                         l->config.working_directory);
        return 0;
}

/* Set late, because the kernel clears it when the identity changes. The remaining descriptors close on
 * exec. */
static int die_with_parent(const Launch *l, Failure *f)
{
        struct pollfd p = {.fd = l->parent_fd};

        if (l->parent_fd < 0)
                return 0;
        if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || poll(&p, 1, 0) != 0)
                return failure_set(f, CAUSE_SETUP, -ECHILD, "The process that started this one has ended");
        return 0;
}

/* Only after the change of identity: if the user already exceeds the limit, setresuid() marks the process
 * and the kernel refuses its exec. */
static int limit_processes(const Launch *l, Failure *f)
{
        const struct rlimit limit = {.rlim_cur = l->processes, .rlim_max = l->processes};

        if (l->processes > 0 && setrlimit(RLIMIT_NPROC, &limit) < 0 && errno != EPERM)
                return failure_set_errno(f, CAUSE_SETUP, -errno, "Cannot limit the processes of app %s",
                                         l->app);
        return 0; /* EPERM: the limit is already lower */
}

int launch_execute(Launch *l, char *const *argv, const Identity *id, Failure *f)
{
        _cleanup_(command_done) Command command = {};
        _cleanup_strv_free_ char **environment = NULL;
        int r = build_environment(l, id, &environment);

        if (r < 0)
                return failure_set_errno(f, CAUSE_SETUP, r, "Cannot build the environment of app %s",
                                         l->app);
        r = use_streams(l, id, f);
        if (r >= 0)
                r = sockets_arrange(l, &environment, f);
        if (r < 0)
                return r;
        close_descriptors(l);
        r = own_users_enter(l, f);
        for (int fd = STDIN_FILENO; r >= 0 && fd <= STDERR_FILENO; fd++)
                use_own_null(fd);
        if (r >= 0)
                r = apply_landlock(&l->config, f);
        if (r >= 0)
                r = confine_identity(&l->config, id, f);
        if (r >= 0)
                r = limit_processes(l, f);
        if (r >= 0)
                r = die_with_parent(l, f);
        if (r >= 0)
                r = enter_working_directory(l, f);
        if (r >= 0)
                r = command_find(argv, environment, &command, f);
        if (r >= 0 && label_describe(&l->config, l->modules, &command.label) < 0)
                r = failure_set_errno(f, CAUSE_SETUP, -ENOMEM, "Cannot execute %s", command.path);
        if (r < 0)
                return r;
        umask(0022);
        reset_signals();
        r = confine_system_calls(&l->config, f);
        return r < 0 ? r : command_execute(&command, argv, environment, f);
}

static char *const *phase_command(const Launch *l)
{
        switch (l->phase) {
        case LAUNCH_PRE_START:
                return l->config.pre_start;
        case LAUNCH_POST_STOP:
                return l->config.post_stop;
        case LAUNCH_HEALTH:
                return l->config.health;
        default:
                return l->config.exec;
        }
}

int launch_choose_label(Launch *l, Failure *f)
{
        _cleanup_close_ int fd = -EBADF;

        if (!(l->modules & LAUNCH_APPARMOR) && !l->config.selinux_context)
                return 0;
        fd = open("/proc/self/attr", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return failure_set_errno(f, CAUSE_SETUP, -errno, "Cannot open /proc/self/attr");
        return label_next_exec(&l->config, l->modules, fd, f);
}

/* The output of a health check is not logged as the app's. */
static int check_streams(const LaunchCheck *check, int ret[static _LAUNCH_STREAM_MAX], Failure *f)
{
        for (size_t i = 0; i < _LAUNCH_STREAM_MAX; i++) {
                ret[i] = fcntl(check->write_fd, F_DUPFD_CLOEXEC, 3);
                if (ret[i] < 0)
                        return failure_set_errno(f, CAUSE_SETUP, -errno, "Cannot duplicate a pipe");
        }
        return 0;
}

int launch_become(Launch *l, int (*running)(Launch *l, Failure *f), Failure *f)
{
        Identity id = {};
        int streams[_LAUNCH_STREAM_MAX] = {-EBADF, -EBADF};
        int r = l->check ? check_streams(l->check, streams, f) : launch_open_streams(l, streams, f);

        if (r >= 0)
                r = launch_request(l, streams, f);
        for (size_t i = 0; i < ELEMENTSOF(streams); i++)
                safe_close(streams[i]);
        if (r >= 0 && !phase_command(l))
                r = failure_set(f, CAUSE_SETUP, -EBADMSG, "The launch file of app %s has no such command",
                                l->app);
        if (r >= 0 && l->phase == LAUNCH_MAIN)
                r = sockets_check(l, f);
        if (r >= 0)
                r = launch_choose_label(l, f);
        if (r >= 0)
                r = launch_enter_root(l, f);
        if (r >= 0)
                r = identity_find(l, &id, f);
        if (r >= 0)
                r = launch_give_credentials(l, &id, f);
        if (r >= 0 && running)
                r = running(l, f);
        if (r >= 0)
                r = launch_execute(l, phase_command(l), &id, f);
        identity_done(&id);
        return r;
}
