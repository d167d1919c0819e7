/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Removes the files that an app has written in its last execution, before the next one.
 *
 * These can be a million files. Only that app should wait for it, not the others of the pod, whose
 * launchers, output and health checks are handled by the same process: so it is done by a child process.
 * Files that are left, if it is killed with the pod, are removed with the pod. */

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "stage0/supervisor/apps/cleaner.h"

typedef struct Cleaning Cleaning;

struct Cleaning {
        Cleaning *next;
        Cleaner *all;
        AppInstance *app;
        pid_t pid;
        int pid_fd;
        sd_event_source *source;
};

struct Cleaner {
        sd_event *event;
        void (*done)(void *userdata, AppInstance *app);
        void *userdata;
        Cleaning *first;
};

static Cleaning *cleaning_free(Cleaning *c)
{
        if (!c)
                return NULL;
        sd_event_source_disable_unref(c->source);
        safe_close(c->pid_fd);
        if (c->pid > 0) {
                (void) kill(c->pid, SIGKILL);
                (void) waitpid(c->pid, NULL, 0);
        }
        free(c);
        return NULL;
}

DEFINE_TRIVIAL_CLEANUP_FUNC(Cleaning *, cleaning_free);

Cleaner *cleaner_free(Cleaner *all)
{
        if (!all)
                return NULL;
        while (all->first) {
                Cleaning *c = all->first;

                all->first = c->next;
                cleaning_free(c);
        }
        free(all);
        return NULL;
}

int cleaner_new(sd_event *event, void (*done)(void *userdata, AppInstance *app), void *userdata,
                Cleaner **ret)
{
        Cleaner *all = malloc(sizeof(Cleaner));

        if (!all)
                return -ENOMEM;
        *all = (Cleaner){.event = event, .done = done, .userdata = userdata};
        *ret = all;
        return 0;
}

bool cleaner_is_at(const Cleaner *all, const AppInstance *app)
{
        for (const Cleaning *c = all->first; c; c = c->next)
                if (c->app == app)
                        return true;
        return false;
}

void cleaner_forget(Cleaner *all, const AppInstance *app)
{
        for (Cleaning **i = &all->first, *c; (c = *i);) {
                if (c->app != app) {
                        i = &c->next;
                        continue;
                }
                *i = c->next;
                cleaning_free(c);
        }
}

/* Closes inherited descriptors, such as the pod's lock. */
static _noreturn_ void child(int dir_fd, const char *name, pid_t parent)
{
        (void) prctl(PR_SET_NAME, "remove-files");
        if (dup2(dir_fd, 0) < 0 || syscall(SYS_close_range, 1, ~0U, 0) < 0 ||
            prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent)
                _exit(1);
        _exit(rm_rf_at(0, name) < 0);
}

static int on_end(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        Cleaning *c = userdata;
        Cleaner *all = c->all;
        AppInstance *app = c->app;

        for (Cleaning **i = &all->first; *i; i = &(*i)->next)
                if (*i == c) {
                        *i = c->next;
                        break;
                }
        cleaning_free(c);
        all->done(all->userdata, app);
        return 0;
}

static int begin(Cleaner *all, AppInstance *app, int dir_fd, const char *name)
{
        _cleanup_(cleaning_freep) Cleaning *c = malloc(sizeof(Cleaning));
        pid_t parent = getpid();

        if (!c)
                return -ENOMEM;
        *c = (Cleaning){.all = all, .app = app, .pid = fork(), .pid_fd = -EBADF};
        if (c->pid == 0)
                child(dir_fd, name, parent);
        if (c->pid < 0)
                return -errno;
        c->pid_fd = (int) syscall(SYS_pidfd_open, c->pid, 0);
        int r = c->pid_fd < 0 ? -errno
                              : sd_event_add_io(all->event, &c->source, c->pid_fd, EPOLLIN, on_end, c);
        if (r < 0)
                return r;
        c->next = all->first;
        all->first = TAKE_PTR(c);
        return 0;
}

int cleaner_begin(Cleaner *all, AppInstance *app, int dir_fd, const char *name)
{
        int r = begin(all, app, dir_fd, name);

        if (r < 0)
                (void) rm_rf_at(dir_fd, name);
        return r;
}
