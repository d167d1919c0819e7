/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Programs of the host that are executed for the start of an app, before its launcher gets the root: the hooks that the runtime specification
 * of OCI calls createContainer, as drivers of devices need them.
 *
 * Hooks may take seconds, and only that app is to wait for them, so a child process executes them (hooks-child.c). If the
 * child is killed, at the end of the pod or with the removal of the app, the kernel kills the hook, too. The supervisor
 * abandons a child that is blocked in the file system of a volume (left-process.c). */

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "stage0/supervisor/apps/app-hooks.h"
#include "stage0/supervisor/apps/left-process.h"

typedef struct Running Running;

struct Running {
        Running *next;
        AppHooks *all;
        AppInstance *app;
        pid_t pid;
        int pid_fd, message_fd;
        sd_event_source *source;
};

struct AppHooks {
        sd_event *event;
        void (*done)(void *userdata, AppInstance *app, const char *message);
        void *userdata;
        Running *first;
};

static Running *running_free(Running *r)
{
        if (!r)
                return NULL;
        sd_event_source_disable_unref(r->source);
        safe_close(r->pid_fd);
        safe_close(r->message_fd);
        if (r->pid > 0) {
                (void) kill(r->pid, SIGKILL);
                leave_process(r->all->event, r->pid); /* may be blocked in the file system of a volume */
        }
        free(r);
        return NULL;
}

DEFINE_TRIVIAL_CLEANUP_FUNC(Running *, running_free);

AppHooks *app_hooks_free(AppHooks *all)
{
        if (!all)
                return NULL;
        for (Running *r; (r = all->first);) {
                all->first = r->next;
                running_free(r);
        }
        free(all);
        return NULL;
}

int app_hooks_new(sd_event *event, void (*done)(void *userdata, AppInstance *app, const char *message),
                  void *userdata, AppHooks **ret)
{
        AppHooks *all = malloc(sizeof(AppHooks));

        if (!all)
                return -ENOMEM;
        *all = (AppHooks){.event = event, .done = done, .userdata = userdata};
        *ret = all;
        return 0;
}

void app_hooks_forget(AppHooks *all, const AppInstance *app)
{
        for (Running **i = &all->first, *r; (r = *i);) {
                if (r->app != app) {
                        i = &r->next;
                        continue;
                }
                *i = r->next;
                running_free(r);
        }
}

/* --- The child ----------------------------------------------------------------------------------------- */

/* Of what is inherited only what is needed: the others include the pod's lock, and ends of pipes whose other ends wait for the last one. */
static int close_others(const HookJob *j, int message_fd)
{
        size_t n = 0, n_volumes = j->app->n_mounts;
        int *kept = calloc(n_volumes + 4, sizeof(int));

        if (!kept)
                return -ENOMEM;
        j->pod->dir_fd = openat(j->pod->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        for (size_t i = 0; i < n_volumes; i++)
                kept[n++] = j->volume_fds[i];
        kept[n++] = j->pod->dir_fd;
        kept[n++] = j->root_fd;
        kept[n++] = j->dev_fd;
        kept[n++] = message_fd;
        int r = fds_close_others(kept, n);
        if (r >= 0 && kept[0] < 0) /* by now the first */
                r = -EBADF;
        free(kept);
        return r;
}

static _noreturn_ void child(const HookJob *j, const HookList *l, int message_fd, pid_t parent)
{
        _cleanup_error_ Error e = ERROR_NULL;

        (void) prctl(PR_SET_NAME, "run-hooks");
        if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent)
                _exit(1);
        int r = process_leave_streams();
        if (r >= 0)
                r = close_others(j, message_fd);
        if (r >= 0)
                r = hooks_execute(j, l, &e);
        if (r < 0) {
                const char *message = e.message ?: strerror(-r);
                (void) loop_write(message_fd, message, MIN(strlen(message), HOOKS_MESSAGE_MAX));
        }
        _exit(r < 0);
}

/* The message fits into the pipe. */
static bool read_end(Running *x, char message[static HOOKS_MESSAGE_MAX + 1])
{
        int status = 1;

        while (waitpid(x->pid, &status, 0) < 0 && errno == EINTR)
                ;
        x->pid = 0;
        ssize_t n = read(x->message_fd, message, HOOKS_MESSAGE_MAX);
        message[MAX(n, 0)] = 0;
        if (!*message)
                snprintf(message, HOOKS_MESSAGE_MAX, "The process for the hooks of app %s was killed",
                         app_instance_path(x->app));
        return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int on_end(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        char message[HOOKS_MESSAGE_MAX + 1];
        Running *x = userdata;
        AppHooks *all = x->all;
        AppInstance *app = x->app;
        bool succeeded = read_end(x, message);

        for (Running **i = &all->first; *i; i = &(*i)->next)
                if (*i == x) {
                        *i = x->next;
                        break;
                }
        running_free(x);
        all->done(all->userdata, app, succeeded ? NULL : message);
        return 0;
}

static int begin(AppHooks *all, AppInstance *app, const HookJob *j, const HookList *l)
{
        _cleanup_(running_freep) Running *x = malloc(sizeof(Running));
        _cleanup_close_ int theirs = -EBADF;
        pid_t parent = getpid();
        int fds[2];

        if (!x)
                return -ENOMEM;
        *x = (Running){.all = all, .app = app, .pid_fd = -EBADF, .message_fd = -EBADF};
        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        x->message_fd = fds[0];
        theirs = fds[1];
        x->pid = fork();
        if (x->pid == 0)
                child(j, l, theirs, parent);
        if (x->pid < 0)
                return -errno;
        x->pid_fd = (int) syscall(SYS_pidfd_open, x->pid, 0);
        int r = x->pid_fd < 0 ? -errno
                              : sd_event_add_io(all->event, &x->source, x->pid_fd, EPOLLIN, on_end, x);
        if (r < 0)
                return r;
        x->next = all->first;
        all->first = TAKE_PTR(x);
        return 0;
}

int app_hooks_begin(AppHooks *all, AppInstance *app, const HookJob *job, Error *e)
{
        _cleanup_hook_list_ HookList l = {};

        /* Files that hooks write are owned by root of the host, a user that such a pod does not have. */
        if (job->pod->config.private_users)
                return error_set(e, -EINVAL,
                                 "App %s has hooks on the host, which take a pod without users of its own",
                                 app_instance_path(app));
        int r = hook_list_parse(app->settings.hooks, &l, e);
        if (r < 0)
                return r;
        r = begin(all, app, job, &l);
        return r < 0 ? error_set_errno(e, r, "Cannot execute the hooks of app %s", app_instance_path(app))
                     : 0;
}
