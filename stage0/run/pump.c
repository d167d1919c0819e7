/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What apps write, from their pipes to the pod's journal, to log files and, in the foreground, to our own
 * standard output and standard error.
 *
 * Every process that the launcher starts has two pipes, whose reading ends are here, and two streams of the
 * journal, which its launcher opened. Bytes go on as they come; for several apps in the foreground they are
 * cut into lines, so that each can have its app's name in front. Before an app counts as ended, its launcher
 * has everything flushed, so that the journal, which ends with the pod, has every line.
 *
 * Nothing here waits. Where the journal or our own output takes no more for now, the pipe is not read until
 * it does, and so the app that writes is what waits. An app can stop the journal daemon if it is root, and
 * anybody can stop a terminal: requests to stop the pod, and the launchers of other apps, must not notice.
 */

#include <sys/epoll.h>
#include <sys/ioctl.h>

#include "stage0/run/pump-internal.h"

#define CHUNK 65536U
#define TERMINAL_MAX (256 * 1024)
#define WAITERS_MAX 1024U /* more than there are apps in a pod */

static Pump *pump_free(Pump *p)
{
        sd_event_source_disable_unref(p->source);
        sd_event_source_disable_unref(p->journal_source);
        sd_event_source_disable_unref(p->timer);
        safe_close(p->read_fd);
        safe_close(p->journal_fd);
        text_done(&p->line);
        text_done(&p->pending);
        text_done(&p->formatter.rest);
        text_done(&p->message);
        free(p);
        return NULL;
}

/* --- When to go on ------------------------------------------------------------------------------------- */

static bool must_wait(const Pump *p)
{
        return p->pending.size > 0 || pump_must_wait(p);
}

static void update(Pump *p)
{
        if (p->source)
                (void) sd_event_source_set_enabled(p->source, must_wait(p) ? SD_EVENT_OFF : SD_EVENT_ON);
}

static void on_room(void *userdata)
{
        Pumps *all = userdata;

        for (Pump *p = all->first; p; p = p->next)
                update(p);
        if (pumps_have_shown(all))
                inputs_shown(all->inputs);
}

bool pumps_have_shown(const Pumps *all)
{
        for (size_t i = 0; i < ELEMENTSOF(all->outlets); i++)
                if (all->show && all->outlets[i] && !outlet_is_empty(all->outlets[i]))
                        return false;
        return true;
}

static void forget(Pump *p)
{
        pump_show_rest(p);
        for (Pump **i = &p->all->first; *i; i = &(*i)->next)
                if (*i == p) {
                        *i = p->next;
                        break;
                }
        pump_free(p);
}

static bool is_flushed(const Pumps *all, const AppInstance *app)
{
        for (const Pump *p = all->first; p; p = p->next)
                if (p->pending.size > 0 && p->app == app)
                        return false;
        return true;
}

static void waiter_free(Waiter *w)
{
        safe_close(w->fd);
        free(w);
}

static void answer_waiters(Pumps *all)
{
        for (Waiter **i = &all->waiters, *w; (w = *i);) {
                if (!is_flushed(all, w->app)) {
                        i = &w->next;
                        continue;
                }
                *i = w->next;
                all->n_waiters--;
                w->flushed(w->fd);
                waiter_free(w);
        }
}

void pump_resume(Pump *p)
{
        Pumps *all = p->all;

        p->journal_source = sd_event_source_disable_unref(p->journal_source);
        p->timer = sd_event_source_disable_unref(p->timer);
        text_done(&p->pending);
        if (p->ended)
                forget(p);
        else
                update(p);
        answer_waiters(all);
}

/* --- Moving -------------------------------------------------------------------------------------------- */

/* How many bytes were moved; 0: nothing is there now; -EPIPE: nothing will ever come again. */
static int move(Pump *p)
{
        static char chunk[CHUNK];
        ssize_t n;

        do
                n = read(p->read_fd, chunk, sizeof(chunk));
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return errno == EAGAIN ? 0 : -EPIPE;
        if (n == 0)
                return -EPIPE;
        pump_show(p, chunk, (size_t) n);
        pump_store(p, chunk, (size_t) n);
        return (int) n;
}

/* Nobody can write any more. */
static void end(Pump *p)
{
        p->source = sd_event_source_disable_unref(p->source);
        p->read_fd = safe_close(p->read_fd);
        p->ended = true;
        pump_end_storing(p);
        if (p->pending.size == 0)
                forget(p);
}

static int on_readable(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        if (move(userdata) < 0)
                end(userdata);
        else
                update(userdata);
        return 0;
}

/* As much as was in the pipe when it was called: a process that goes on writing does not keep us. What is on
 * its way through a terminal is not counted by the kernel, but can never be more than this. Whether more may
 * come; else P may be freed. */
static bool flush_one(Pump *p)
{
        int pending = TERMINAL_MAX, r;

        if (p->ended || (!p->terminal && ioctl(p->read_fd, FIONREAD, &pending) < 0))
                return !p->ended;
        do { /* once more when all is out, to find the end */
                r = move(p);
                pending -= r;
        } while (r > 0 && pending >= 0);
        if (r < 0)
                end(p);
        else
                update(p);
        return r >= 0;
}

static int add_waiter(Pumps *all, const AppInstance *app, int fd, void (*flushed)(int fd))
{
        Waiter *w = all->n_waiters < WAITERS_MAX ? calloc(1, sizeof(Waiter)) : NULL;

        if (!w)
                return all->n_waiters < WAITERS_MAX ? -ENOMEM : -EUSERS;
        *w = (Waiter){.next = all->waiters,
                      .app = app,
                      .fd = fcntl(fd, F_DUPFD_CLOEXEC, 3),
                      .flushed = flushed};
        if (w->fd < 0) {
                int r = -errno;
                free(w);
                return r;
        }
        all->waiters = w;
        all->n_waiters++;
        return 0;
}

int pumps_flush(Pumps *all, const AppInstance *app, int fd, void (*flushed)(int fd))
{
        Pump *next;

        for (Pump *p = all->first; p; p = next) {
                next = p->next;
                if (p->app == app && flush_one(p))
                        pump_flush_file(p);
        }
        int r = add_waiter(all, app, fd, flushed);
        answer_waiters(all);
        return r;
}

void pumps_end(Pumps *all)
{
        Pump *next;

        for (Pump *p = all->first; p; p = next) {
                next = p->next;
                (void) flush_one(p);
        }
        while (all->first) {
                pump_end_storing(all->first);
                forget(all->first);
        }
        pump_bounds_record(all, true);
}

void pumps_show_rest(Pumps *all, const Operation *o)
{
        for (size_t i = 0; all->show && i < ELEMENTSOF(all->outlets); i++) {
                int r = outlet_finish(all->outlets[i], o, -1);

                if (r < 0)
                        pumps_stop_showing(all, r);
        }
}

/* --- Making -------------------------------------------------------------------------------------------- */

static int open_pipe(Pump *p, uid_t owner, int *ret_write_fd)
{
        int fds[2];

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        p->read_fd = fds[0];
        if (fcntl(fds[0], F_SETFL, O_NONBLOCK) < 0 || fchown(fds[1], owner, owner) < 0) {
                int r = -errno;
                safe_close(fds[1]);
                return r;
        }
        *ret_write_fd = fds[1];
        return 0;
}

/* READ_FD is taken over on success, JOURNAL_FD as well. */
static int add(Pumps *all, const Pump *like, uid_t owner, int *ret_write_fd)
{
        _cleanup_close_ int write_fd = -EBADF;
        Pump *p = calloc(1, sizeof(Pump));

        if (!p)
                return -ENOMEM;
        *p = *like;
        p->all = all;
        p->journal_fd = -EBADF;
        p->neutralizer = (Neutralizer){
                        .colors = colors_enabled(p->error ? STDERR_FILENO : STDOUT_FILENO),
                        .returns = true,
        };
        int r = p->terminal ? 0 : open_pipe(p, owner, &write_fd);
        if (r >= 0)
                r = sd_event_add_io(all->event, &p->source, p->read_fd, EPOLLIN, on_readable, p);
        if (r < 0) {
                if (p->terminal)
                        p->read_fd = -EBADF;
                pump_free(p);
                return r;
        }
        p->journal_fd = like->journal_fd;
        p->bound = p->app->bound;
        p->log = p->app->log;
        p->formatter = (LogFormatter){.format = p->log ? p->log->file.format : 0, .error = p->error};
        p->next = all->first;
        all->first = p;
        if (!p->terminal)
                *ret_write_fd = TAKE_FD(write_fd);
        update(p);
        return 0;
}

int pumps_add(Pumps *all, const AppInstance *app, bool error, int journal_fd, uid_t owner, int *ret_write_fd)
{
        const Pump like = {.app = app, .error = error, .read_fd = -EBADF, .journal_fd = journal_fd};

        return add(all, &like, owner, ret_write_fd);
}

int pumps_add_terminal(Pumps *all, const AppInstance *app, int journal_fd, int master_fd)
{
        const Pump like = {.app = app, .terminal = true, .read_fd = master_fd, .journal_fd = journal_fd};

        return add(all, &like, 0, NULL);
}

void pumps_set_inputs(Pumps *all, Inputs *inputs)
{
        all->inputs = inputs;
}

void pumps_show_only(Pumps *all, const char *app)
{
        all->only = app;
}

void pumps_hold(Pumps *all, bool hold)
{
        all->hold = hold;
        on_room(all);
}

void pumps_show_nothing(Pumps *all)
{
        all->show = false;
        on_room(all);
}

int pumps_add_app(Pumps *all, AppInstance *app, Error *e)
{
        if (pump_bound_new(all->pod, app->name, &app->settings, all->apps->n, &app->bound) < 0)
                return error_oom(e);
        all->prefix |= all->apps->n > 1;
        return pump_log_new(app->name, &app->settings, &app->log, e);
}

static void release_app(AppInstance *app)
{
        app->bound = (free(app->bound), NULL);
        app->log = pump_log_free(app->log);
}

static Pump *find_pump(const Pumps *all, const AppInstance *app)
{
        Pump *p = all->first;

        while (p && p->app != app)
                p = p->next;
        return p;
}

void pumps_remove_app(Pumps *all, AppInstance *app)
{
        for (Pump *p = all->first, *next; p; p = next) {
                next = p->next;
                if (p->app == app)
                        (void) flush_one(p);
        }
        for (Pump *p; (p = find_pump(all, app));) {
                pump_end_storing(p);
                forget(p);
        }
        for (Waiter **i = &all->waiters, *w; (w = *i);) {
                if (w->app != app) {
                        i = &w->next;
                        continue;
                }
                *i = w->next;
                all->n_waiters--;
                waiter_free(w);
        }
        release_app(app);
}

int pumps_new(sd_event *event, const PumpOptions *o, Pumps **ret, Error *e)
{
        static const int fds[] = {STDOUT_FILENO, STDERR_FILENO};
        _cleanup_(pumps_freep) Pumps *all = calloc(1, sizeof(Pumps));

        if (!all)
                return error_oom(e);
        *all = (Pumps){.event = event,
                       .pod = o->pod,
                       .apps = o->apps,
                       .show = o->show,
                       .prefix = o->prefix,
                       .raw = o->raw};
        for (size_t i = 0; o->show && i < ELEMENTSOF(fds); i++) {
                int r = outlet_new(event, fds[i], on_room, all, &all->outlets[i]);
                if (r < 0)
                        return error_set_errno(e, r, "Cannot write to %s", i == 0 ? "stdout" : "stderr");
        }
        FOREACH_APP(app, all->apps)
        {
                int r = pumps_add_app(all, app, e);
                if (r < 0)
                        return r;
        }
        *ret = TAKE_PTR(all);
        return 0;
}

Pumps *pumps_free(Pumps *all)
{
        if (!all)
                return NULL;
        while (all->first)
                forget(all->first);
        while (all->waiters) {
                Waiter *w = all->waiters;
                all->waiters = w->next;
                waiter_free(w);
        }
        for (size_t i = 0; i < ELEMENTSOF(all->outlets); i++)
                outlet_free(all->outlets[i]);
        sd_event_source_disable_unref(all->record_timer);
        FOREACH_APP(app, all->apps)
        release_app(app);
        text_done(&all->records);
        free(all);
        return NULL;
}
