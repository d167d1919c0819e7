/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Executes the hooks of an app, in a process of their own.
 *
 * In a mount namespace with the mounts of the host, which gets none of the host any more and passes none on, the root of the app is at
 * BUNDLE/rootfs, with its /dev and its volumes, as for the hooks of an OCI runtime. BUNDLE is in memory and has config.json as far as
 * hooks read it; standard input is the state of the container. What hooks write below the root are files of the app. What they mount there would
 * not be in the app, whose launcher makes mounts of its own: that is an error, and not passed over.
 *
 * Hooks are root of the host, and their other namespaces are those of the host: they come from files of its root. */

#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "stage0/host/host.h"
#include "stage0/supervisor/apps/app-hooks.h"

#define OCI_VERSION "1.0.2"
#define PATH_VARIABLE "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define MOUNTINFO_MAX (64U * 1024U * 1024U)
#define OUTPUT_SIZE 512U /* bytes at the end of what a hook has written */

typedef struct Bundle {
        char *path, *root;
        int root_fd;
} Bundle;

static void bundle_done(Bundle *b)
{
        free(b->path);
        free(b->root);
        safe_close(b->root_fd);
}

/* --- Mounts -------------------------------------------------------------------------------------------- */

static int real_path(int fd, char **ret)
{
        char link[64], path[PATH_MAX];

        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, path, sizeof(path));
        if (n < 0)
                return -errno;
        *ret = strndup(path, (size_t) n);
        return *ret ? 0 : -ENOMEM;
}

/* Missing targets are made, as the launcher does. */
static int open_target(int root_fd, int mount_fd, const char *path)
{
        struct stat st;
        int fd;

        if (fstat(mount_fd, &st) < 0)
                return -errno;
        if (!S_ISDIR(st.st_mode))
                return open_mount_target_in_root(root_fd, path);
        int r = mkdir_p_in_root(root_fd, path, 0755, &fd);
        return r < 0 ? r : fd;
}

static int attach(int root_fd, int mount_fd, const char *path)
{
        _cleanup_close_ int target = open_target(root_fd, mount_fd, path);

        if (target < 0)
                return target;
        return syscall(SYS_move_mount, mount_fd, "", target, "",
                       MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0
                               ? -errno
                               : 0;
}

/* Those that are inside of others come after them. */
static int compare_paths(const void *a, const void *b, void *mounts)
{
        const Mount *m = mounts;

        return strcmp(m[*(const size_t *) a].path, m[*(const size_t *) b].path);
}

static int attach_volumes(const HookJob *j, int root_fd)
{
        size_t n = j->app->n_mounts;
        _cleanup_free_ size_t *order = calloc(n + 1, sizeof(size_t));
        int r = order ? 0 : -ENOMEM;

        for (size_t i = 0; r >= 0 && i < n; i++)
                order[i] = i;
        if (r >= 0)
                qsort_r(order, n, sizeof(size_t), compare_paths, j->app->mounts);
        for (size_t i = 0; r >= 0 && i < n; i++)
                r = attach(root_fd, j->volume_fds[order[i]], j->app->mounts[order[i]].path);
        return r;
}

static int attach_all(const HookJob *j, int root_fd)
{
        static const char *const targets[] = {"/proc",
                                              "/sys"}; /* hooks mount their own, if they need some */
        int r = attach(root_fd, j->dev_fd, "/dev");

        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(targets); i++) {
                int fd;
                r = mkdir_p_in_root(root_fd, targets[i], 0755, &fd);
                if (r >= 0)
                        safe_close(fd);
        }
        if (r >= 0)
                r = attach_volumes(j, root_fd);
        return r;
}

/* A directory of the pod, which goes with it, with a file system that goes with this process. */
static int make_bundle(const HookJob *j, Bundle *b)
{
        _cleanup_free_ char *path = NULL;
        _cleanup_close_ int dir_fd = -EBADF, bundle_fd = -EBADF;

        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                return -errno;
        int r = pod_app_path(j->pod, j->app, "bundle", &path);
        if (r < 0)
                return r;
        if (mkdirat(j->pod->dir_fd, path, 0700) < 0 && errno != EEXIST)
                return -errno;
        dir_fd = open_beneath(j->pod->dir_fd, path, O_PATH | O_DIRECTORY);
        r = dir_fd < 0 ? dir_fd : real_path(dir_fd, &b->path);
        if (r < 0)
                return r;
        if (mount("acnspawn-bundle", b->path, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
                  "mode=0700,size=16m") < 0 ||
            (bundle_fd = open(b->path, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0 ||
            mkdirat(bundle_fd, "rootfs", 0755) < 0)
                return -errno;
        r = mount_attach(j->root_fd, bundle_fd, "rootfs");
        if (r >= 0)
                r = xasprintf(&b->root, "%s/rootfs", b->path);
        if (r < 0)
                return r;
        b->root_fd = open(b->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
        return b->root_fd < 0 ? -errno : attach_all(j, b->root_fd);
}

/* How many mounts there are below PATH. */
static int count_mounts(const char *path, size_t *ret)
{
        _cleanup_free_ char *text = NULL;
        size_t n = 0;

        int r = read_file_at(AT_FDCWD, "/proc/self/mountinfo", MOUNTINFO_MAX, &text, NULL);
        for (const char *line = text; r >= 0 && line && *line; line = strchr(line, '\n'), line += !!line) {
                const char *at = line;
                for (size_t i = 0; at && i < 4; i++)
                        at = strchr(at, ' '), at += !!at;
                n += at && startswith(at, path);
        }
        if (r >= 0)
                *ret = n;
        return r;
}

/* --- What hooks read ----------------------------------------------------------------------------------- */

static json_object *make_environment(const App *app)
{
        json_object *list = json_object_new_array();

        for (size_t i = 0; i < app->environment.n; i++) {
                _cleanup_free_ char *word = NULL;
                if (!list ||
                    xasprintf(&word, "%s=%s", app->environment.items[i].name,
                              app->environment.items[i].value) < 0 ||
                    json_list_append(list, json_new_string_lossy(word)) < 0) {
                        json_object_put(list);
                        return NULL;
                }
        }
        return list;
}

static int make_config(const HookJob *j, const Bundle *b, json_object *o)
{
        json_object *root = json_object_new_object(), *process = json_object_new_object();

        int r = json_member_add_text(o, "ociVersion", OCI_VERSION);
        int k = json_member_add(o, "root", root);
        r = MIN(r, k);
        k = json_member_add(o, "process", process);
        r = MIN(r, k);
        if (r >= 0)
                r = json_member_add_text(root, "path", b->root);
        if (r >= 0)
                r = json_member_add(process, "args", json_new_string_list(j->app->app->exec));
        if (r >= 0)
                r = json_member_add(process, "env", make_environment(j->app->app));
        return r < 0 ? r : json_member_add_text(process, "cwd", j->app->app->working_directory ?: "/");
}

static int write_config(const HookJob *j, const Bundle *b)
{
        _cleanup_json_ json_object *o = json_object_new_object();
        _cleanup_free_ char *path = NULL;

        int r = o ? make_config(j, b, o) : -ENOMEM;
        if (r >= 0)
                r = xasprintf(&path, "%s/config.json", b->path);
        if (r < 0)
                return r;
        const char *text = json_print(o);
        return text ? write_file_atomic_at(AT_FDCWD, path, text, strlen(text), 0600, false) : -ENOMEM;
}

static int make_state(const HookJob *j, const Bundle *b, int *ret_fd)
{
        _cleanup_json_ json_object *o = json_object_new_object();
        _cleanup_close_ int fd = memfd_create("state", MFD_CLOEXEC);

        int r = fd < 0 ? -errno : !o ? -ENOMEM : json_member_add_text(o, "ociVersion", OCI_VERSION);
        if (r >= 0)
                r = json_member_add_text(o, "id", j->app->name);
        if (r >= 0)
                r = json_member_add_text(o, "status", "creating");
        if (r >= 0)
                r = json_member_add(o, "pid", json_object_new_int64(j->pid));
        if (r >= 0)
                r = json_member_add_text(o, "bundle", b->path);
        const char *text = r < 0 ? NULL : json_print(o);
        if (!text)
                return r < 0 ? r : -ENOMEM;
        r = loop_write(fd, text, strlen(text));
        if (r >= 0 && lseek(fd, 0, SEEK_SET) < 0)
                r = -errno;
        if (r >= 0)
                *ret_fd = TAKE_FD(fd);
        return r;
}

/* --- One hook ------------------------------------------------------------------------------------------ */

/* The last bytes that it has written, for messages. */
typedef struct HookOutput {
        char text[OUTPUT_SIZE + 1];
        size_t n;
} HookOutput;

static void add_output(HookOutput *o, const char *data, size_t n)
{
        size_t kept = MIN(n, (size_t) OUTPUT_SIZE),
               drop = o->n + kept > OUTPUT_SIZE ? o->n + kept - OUTPUT_SIZE : 0;

        memmove(o->text, o->text + drop, o->n - drop);
        o->n -= drop;
        memcpy(o->text + o->n, data + n - kept, kept);
        o->n += kept;
        o->text[o->n] = 0;
}

static _noreturn_ void become_hook(const Hook *h, int state_fd, int output_fd, pid_t parent)
{
        char *plain[] = {h->path, NULL}, *no_environment[] = {(char *) PATH_VARIABLE, NULL};
        sigset_t none;

        sigemptyset(&none);
        if (dup2(state_fd, STDIN_FILENO) < 0 || dup2(output_fd, STDOUT_FILENO) < 0 ||
            dup2(output_fd, STDERR_FILENO) < 0 || syscall(SYS_close_range, 3, ~0U, 0) < 0 ||
            prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent || setpgid(0, 0) < 0 ||
            chdir("/") < 0)
                _exit(127);
        (void) umask(022);
        (void) signal(SIGPIPE, SIG_DFL);
        (void) sigprocmask(SIG_SETMASK, &none, NULL);
        execve(h->path, h->args ?: plain, h->env ?: no_environment);
        dprintf(STDERR_FILENO, "cannot execute it: %s\n", strerror(errno));
        _exit(127);
}

static void read_some(int *fd, HookOutput *o)
{
        char chunk[4096];
        ssize_t n = read(*fd, chunk, sizeof(chunk));

        if (n > 0)
                add_output(o, chunk, (size_t) n);
        else if (n == 0 || (errno != EAGAIN && errno != EINTR))
                *fd = safe_close(*fd);
}

/* Until it has ended. Other processes that hold its output open are not waited for. */
static int follow(const Hook *h, int pid_fd, int *output_fd, HookOutput *o)
{
        uint64_t end = now_usec(CLOCK_MONOTONIC) + h->timeout_sec * UINT64_C(1000000);

        for (;;) {
                struct pollfd fds[] = {{.fd = *output_fd, .events = POLLIN},
                                       {.fd = pid_fd, .events = POLLIN}};
                uint64_t now = now_usec(CLOCK_MONOTONIC);
                if (now >= end)
                        return -ETIME;
                int n = poll(fds, ELEMENTSOF(fds), (int) ((end - now) / 1000) + 1);
                if (n < 0 && errno != EINTR)
                        return -errno;
                if (n <= 0)
                        continue;
                if (fds[0].revents)
                        read_some(output_fd, o);
                if (!fds[1].revents)
                        continue;
                if (*output_fd >= 0)
                        read_some(output_fd, o);
                return 0;
        }
}

static int explain(const HookJob *j, const Hook *h, int r, int status, HookOutput *o, Error *e)
{
        while (o->n > 0 && strchr("\n ", o->text[o->n - 1]))
                o->text[--o->n] = 0;
        const char *colon = o->n > 0 ? ": " : "";

        if (r == -ETIME)
                return error_set(e, r, "The hook %s of app %s did not end within %u s, and was killed",
                                 h->path, j->app->name, h->timeout_sec);
        if (r < 0)
                return error_set_errno(e, r, "Cannot execute the hook %s of app %s", h->path, j->app->name);
        if (WIFSIGNALED(status))
                return error_set(e, -EIO, "The hook %s of app %s was killed by signal %d%s%s", h->path,
                                 j->app->name, WTERMSIG(status), colon, o->text);
        if (WEXITSTATUS(status) != 0)
                return error_set(e, -EIO, "The hook %s of app %s failed with exit status %d%s%s", h->path,
                                 j->app->name, WEXITSTATUS(status), colon, o->text);
        return 0;
}

static int execute(const HookJob *j, const Hook *h, int state_fd, Error *e)
{
        _cleanup_close_ int ours = -EBADF, theirs = -EBADF, pid_fd = -EBADF;
        pid_t parent = getpid();
        HookOutput o = {};
        int fds[2], status = 0;

        if (lseek(state_fd, 0, SEEK_SET) < 0 || pipe2(fds, O_CLOEXEC) < 0)
                return explain(j, h, -errno, 0, &o, e);
        ours = fds[0];
        theirs = fds[1];
        pid_t pid = fork();
        if (pid == 0)
                become_hook(h, state_fd, theirs, parent);
        theirs = safe_close(theirs);
        if (pid < 0)
                return explain(j, h, -errno, 0, &o, e);
        (void) setpgid(pid, pid);
        (void) fcntl(ours, F_SETFL, O_NONBLOCK);
        pid_fd = (int) syscall(SYS_pidfd_open, pid, 0);
        int r = pid_fd < 0 ? -errno : follow(h, pid_fd, &ours, &o);
        (void) kill(-pid, SIGKILL); /* what it has left behind, too */
        (void) kill(pid, SIGKILL);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        return explain(j, h, r, status, &o, e);
}

int hooks_execute(const HookJob *j, const HookList *l, Error *e)
{
        _cleanup_(bundle_done) Bundle b = {.root_fd = -EBADF};
        _cleanup_close_ int state_fd = -EBADF;
        size_t before = 0, after = 0;

        int r = make_bundle(j, &b);
        if (r >= 0)
                r = write_config(j, &b);
        if (r >= 0)
                r = make_state(j, &b, &state_fd);
        if (r >= 0)
                r = count_mounts(b.root, &before);
        if (r < 0)
                return error_set_errno(e, r, "Cannot prepare the hooks of app %s", j->app->name);
        for (size_t i = 0; i < l->n; i++) {
                r = execute(j, &l->items[i], state_fd, e);
                if (r < 0)
                        return r;
                r = count_mounts(b.root, &after);
                if (r < 0 || after != before)
                        return error_set(
                                        e, -EOPNOTSUPP,
                                        "The hook %s of app %s has mounted something in its root, which the app "
                                        "would not see: this is not supported",
                                        l->items[i].path, j->app->name);
        }
        return 0;
}
