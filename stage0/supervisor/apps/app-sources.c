/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Opens the sources of an app's volumes and devices on the host whose file systems have to be asked.
 *
 * A file system that does not answer delays the start of the app that uses it, and nothing else: a child process opens the sources, and
 * the supervisor reads its messages from the event loop. If the start is given up, or the pod ends, the supervisor abandons the
 * child, as SIGKILL takes effect only when the file system answers. Each app has at most one such child, however often it is
 * started meanwhile. */

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "stage0/supervisor/apps/app-sources.h"

#define SLOW_USEC (UINT64_C(5) * 1000000)

typedef struct Opening Opening;

struct Opening {
        Opening *next;
        AppSources *all;
        AppInstance *app; /* NULL: it was left behind */
        MountSources *sources;
        pid_t pid;
        int pid_fd, sock;
        sd_event_source *io, *end, *timer;
};

struct AppSources {
        sd_event *event;
        AppSourcesFunction done;
        void *userdata;
        Opening *first;
};

/* Does not wait for the process. */
static Opening *opening_free(Opening *o)
{
        if (!o)
                return NULL;
        sd_event_source_disable_unref(o->io);
        sd_event_source_disable_unref(o->end);
        sd_event_source_disable_unref(o->timer);
        safe_close(o->sock);
        safe_close(o->pid_fd);
        mount_sources_free(o->sources);
        if (o->pid > 0) {
                (void) kill(o->pid, SIGKILL);
                (void) waitpid(o->pid, NULL, WNOHANG);
        }
        free(o);
        return NULL;
}

DEFINE_TRIVIAL_CLEANUP_FUNC(Opening *, opening_free);

AppSources *app_sources_free(AppSources *all)
{
        if (!all)
                return NULL;
        for (Opening *o; (o = all->first);) {
                all->first = o->next;
                opening_free(o);
        }
        free(all);
        return NULL;
}

int app_sources_new(sd_event *event, AppSourcesFunction done, void *userdata, AppSources **ret)
{
        AppSources *all = malloc(sizeof(AppSources));

        if (!all)
                return -ENOMEM;
        *all = (AppSources){.event = event, .done = done, .userdata = userdata};
        *ret = all;
        return 0;
}

static Opening *find(const AppSources *all, const AppInstance *app)
{
        Opening *o = all->first;

        while (o && o->app != app)
                o = o->next;
        return o;
}

bool app_sources_are_opened(const AppSources *all, const AppInstance *app)
{
        return find(all, app);
}

/* The process is known until it has ended. */
static MountSources *abandon(Opening *o)
{
        MountSources *s = TAKE_PTR(o->sources);

        o->app = NULL;
        o->io = sd_event_source_disable_unref(o->io);
        o->timer = sd_event_source_disable_unref(o->timer);
        o->sock = safe_close(o->sock);
        (void) kill(o->pid, SIGKILL);
        return s;
}

void app_sources_forget(AppSources *all, const AppInstance *app)
{
        Opening *o = find(all, app);

        if (o)
                mount_sources_free(abandon(o));
}

static int on_end(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        Opening *o = userdata;
        Opening **i = &o->all->first;

        if (o->app)
                return 0; /* what it has sent is read first */
        while (*i != o)
                i = &(*i)->next;
        *i = o->next;
        opening_free(o);
        return 0;
}

static int on_message(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        _cleanup_error_ Error e = ERROR_NULL;
        Opening *o = userdata;
        AppInstance *app = o->app;
        int r = mount_sources_receive(o->sources, fd, &e);

        if (r == 0)
                return 0;
        _cleanup_(mount_sources_freep) MountSources *s = abandon(o);
        o->all->done(o->all->userdata, app, r > 0 ? TAKE_PTR(s) : NULL, MIN(r, 0), &e);
        return 0;
}

static int on_slow(sd_event_source *source, uint64_t usec, void *userdata)
{
        const Opening *o = userdata;

        log_warning("App %s waits for a file system of the host that has one of its volumes or devices, and does not answer",
                    app_instance_path(o->app));
        return 0;
}

static int watch(Opening *o)
{
        sd_event *event = o->all->event;
        int r = fcntl(o->sock, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;

        if (r >= 0)
                r = sd_event_add_io(event, &o->io, o->sock, EPOLLIN, on_message, o);
        if (r >= 0)
                r = sd_event_add_time_relative(event, &o->timer, CLOCK_MONOTONIC, SLOW_USEC, 0, on_slow, o);
        if (r < 0)
                return r;
        o->pid_fd = (int) syscall(SYS_pidfd_open, o->pid, 0);
        if (o->pid_fd < 0)
                return -errno;
        r = sd_event_add_io(event, &o->end, o->pid_fd, EPOLLIN, on_end, o);
        /* After its messages, and never instead of them. */
        return r < 0 ? r : sd_event_source_set_priority(o->end, SD_EVENT_PRIORITY_NORMAL + 1);
}

int app_sources_begin(AppSources *all, AppInstance *app, PodMounts *m, MountSources *sources)
{
        _cleanup_(opening_freep) Opening *o = malloc(sizeof(Opening));
        _cleanup_close_ int theirs = -EBADF;
        pid_t parent = getpid();
        int pair[2];

        if (!o)
                return -ENOMEM;
        *o = (Opening){.all = all, .app = app, .pid_fd = -EBADF, .sock = -EBADF};
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return -errno;
        o->sock = pair[0];
        theirs = pair[1];
        o->pid = fork();
        if (o->pid < 0)
                return -errno;
        if (o->pid == 0) {
                if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent)
                        _exit(1);
                pod_mounts_ask_sources(m, app->manifest, sources, theirs);
        }
        int r = watch(o);
        if (r < 0)
                return r;
        o->sources = sources;
        o->next = all->first;
        all->first = TAKE_PTR(o);
        return 0;
}
