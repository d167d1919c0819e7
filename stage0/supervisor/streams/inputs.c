/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The standard inputs of apps: pipes and terminals, whose other ends are here.
 *
 * Every process that is an app gets a new one. A pipe stays open as long as the app runs, whatever is
 * attached, until it is closed on purpose. A terminal comes from the devpts that is to be the app's /dev/pts,
 * so that its name is true in the app; it is held open on both sides, as an app may close its side and open
 * it again.
 * What is written to a terminal is read by the forwarders, as all else that an app writes. Clients can be attached to what
 * an app writes also if it reads nothing.
 */

#include <sys/ioctl.h>

#include "stage0/supervisor/streams/inputs-internal.h"

#define INPUT_CLOSED_USEC UINT64_C(1000000)

void input_ends_done(InputEnds *ends)
{
        ends->stdin_fd = safe_close(ends->stdin_fd);
        ends->master_fd = safe_close(ends->master_fd);
}

Input *inputs_find(const Inputs *all, const char *app)
{
        const AppInstance *a = app_table_find(all->apps, app);

        return a ? a->input : NULL;
}

/* --- While an app runs --------------------------------------------------------------------------------- */

void input_close(Input *i)
{
        i->room = sd_event_source_disable_unref(i->room);
        i->fd = safe_close(i->fd);
}

static int on_closed_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
        Input *i = userdata;

        i->closed_timer = sd_event_source_disable_unref(i->closed_timer);
        clients_stop_reading(i);
        return 0;
}

/* The end of the process also closes its input, and is reported a little later: the app may be restarted, and the new
 * process reads further input of the same clients. So clients are only disconnected after a delay. */
static ssize_t note_closed(Input *i)
{
        if (!i->closed_timer)
                (void) sd_event_add_time_relative(i->all->event, &i->closed_timer, CLOCK_MONOTONIC,
                                                  INPUT_CLOSED_USEC, 0, on_closed_timeout, i);
        return -EPIPE;
}

ssize_t input_write(Input *i, const void *data, size_t size)
{
        ssize_t n;

        if (i->fd < 0)
                return i->kind == INPUT_PIPE && i->runs ? note_closed(i) : (ssize_t) size;
        do
                n = write(i->fd, data, size);
        while (n < 0 && errno == EINTR);
        if (n >= 0)
                return n;
        if (errno == EAGAIN && sd_event_source_set_enabled(i->room, SD_EVENT_ON) >= 0)
                return -EAGAIN;
        if (i->kind != INPUT_PIPE)
                return (ssize_t) size;
        input_close(i); /* the app has closed its end */
        return note_closed(i);
}

static int on_room(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        (void) sd_event_source_set_enabled(source, SD_EVENT_OFF);
        clients_resume(userdata);
        return 0;
}

void input_set_size(Input *i, const struct winsize *size)
{
        if (i->kind == INPUT_TERMINAL && i->fd >= 0 && size->ws_row > 0 && size->ws_col > 0)
                (void) ioctl(i->fd, TIOCSWINSZ, size);
}

void input_show_all(Input *i, const struct winsize *size)
{
        struct winsize other = *size;

        if (size->ws_row == 0)
                return;
        other.ws_row++;
        input_set_size(i, &other);
        input_set_size(i, size);
}

/* --- The life of an app -------------------------------------------------------------------------------- */

static int open_pipe(Input *i, uid_t owner, InputEnds *ret)
{
        int fds[2];

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        if (fcntl(fds[1], F_SETFL, O_WRONLY | O_NONBLOCK) < 0 || fchown(fds[0], owner, owner) < 0) {
                int r = -errno;
                safe_close(fds[0]);
                safe_close(fds[1]);
                return r;
        }
        i->fd = fds[1];
        ret->stdin_fd = fds[0];
        return 0;
}

static int open_terminal(Input *i, uid_t owner, int pts_fd, InputEnds *ret)
{
        int unlock = 0;

        i->fd = openat(pts_fd, "ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
        if (i->fd < 0 || ioctl(i->fd, TIOCSPTLCK, &unlock) < 0)
                return -errno;
        i->slave_fd = ioctl(i->fd, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
        if (i->slave_fd < 0)
                return -errno;
        ret->stdin_fd = fcntl(i->slave_fd, F_DUPFD_CLOEXEC, 3);
        ret->master_fd = fcntl(i->fd, F_DUPFD_CLOEXEC, 3);
        /* This process is root of the host, which the pod's user namespace does not map. */
        if (ret->stdin_fd < 0 || ret->master_fd < 0 || fchown(i->slave_fd, owner, (gid_t) -1) < 0)
                return -errno;
        return 0;
}

int input_start(Input *i, int pts_fd, InputEnds *ret, Error *e)
{
        InputEnds ends = INPUT_ENDS_NULL;

        uid_t owner = pod_root_uid(i->all->pod);
        input_stop(i);
        ends.kind = i->kind;
        if (i->kind == INPUT_NULL) {
                i->runs = true;
                *ret = ends;
                clients_start(i);
                return 0;
        }
        int r = i->kind == INPUT_PIPE ? open_pipe(i, owner, &ends) : open_terminal(i, owner, pts_fd, &ends);
        if (r >= 0)
                r = sd_event_add_io(i->all->event, &i->room, i->fd, EPOLLOUT, on_room, i);
        if (r >= 0)
                r = sd_event_source_set_enabled(i->room, SD_EVENT_OFF);
        if (r < 0) {
                input_ends_done(&ends);
                input_stop(i);
                return error_set_errno(e, r, "Cannot create a %s for app %s",
                                       i->kind == INPUT_PIPE ? "standard input" : "terminal", i->app->name);
        }
        i->runs = true;
        *ret = ends;
        clients_start(i);
        return 0;
}

void input_stop(Input *i)
{
        if (!i)
                return;
        input_close(i);
        i->closed_timer = sd_event_source_disable_unref(i->closed_timer);
        i->slave_fd = safe_close(i->slave_fd);
        i->runs = false;
}

/* --- Making -------------------------------------------------------------------------------------------- */

int inputs_add_app(Inputs *all, AppInstance *app, Error *e)
{
        app->input = malloc(sizeof(Input));
        if (!app->input)
                return error_oom(e);
        *app->input = (Input){.all = all,
                              .app = app,
                              .kind = (AppInput) app->settings.input,
                              .fd = -EBADF,
                              .slave_fd = -EBADF};
        return 0;
}

void inputs_remove_app(AppInstance *app)
{
        if (!app->input)
                return;
        clients_leave(app->input);
        input_stop(app->input);
        app->input = (free(app->input), NULL);
}

int inputs_new(Pod *p, AppTable *apps, sd_event *event, Inputs **ret, Error *e)
{
        _cleanup_(inputs_freep) Inputs *all = calloc(1, sizeof(Inputs));

        if (!all)
                return error_oom(e);
        *all = (Inputs){.pod = p, .apps = apps, .event = event};
        FOREACH_APP(app, apps)
        {
                int r = inputs_add_app(all, app, e);
                if (r < 0)
                        return r;
        }
        *ret = TAKE_PTR(all);
        return 0;
}

Inputs *inputs_free(Inputs *all)
{
        if (!all)
                return NULL;
        clients_free(all);
        FOREACH_APP(app, all->apps)
        inputs_remove_app(app);
        free(all);
        return NULL;
}
