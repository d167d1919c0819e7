/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Output of apps, from their pipes to the pod's journal, to log files and, in the foreground, to standard
 * output and standard error of this process.
 *
 * Every process that the launcher starts has two pipes, whose reading ends are here, and two streams of the
 * journal, which its launcher opened. Bytes are passed on as they come; for several apps in the foreground
 * they are cut into lines, with the app's name in front. Before an app counts as ended, all its output is
 * read; before the journal ends with the pod, it has every line.
 *
 * Nothing here blocks. While the journal or our own output takes no more, the pipe is not read, and the app
 * that writes has to wait. An app that is root can stop the journal daemon, and a user can stop a terminal:
 * requests to stop the pod, and the launchers of other apps, are served nevertheless. */

#include <sys/epoll.h>
#include <sys/ioctl.h>

#include "stage0/supervisor/streams/forwarder-internal.h"

#define CHUNK 65536U
#define TERMINAL_MAX (256 * 1024)
#define WAITERS_MAX 1024U   /* more than the apps of a pod */
#define HOST_WAIT_MSEC 1000 /* for a journal of the host that takes nothing, when the pod has ended */

static Forwarder *forwarder_free(Forwarder *p)
{
        sd_event_source_disable_unref(p->source);
        sd_event_source_disable_unref(p->journal_source);
        pod_timer_free(p->timer);
        safe_close(p->read_fd);
        safe_close(p->journal_fd);
        text_done(&p->line);
        text_done(&p->pending);
        text_done(&p->message);
        text_done(&p->marked);
        text_done(&p->host_lines);
        free(p);
        return NULL;
}

/* --- When to go on ------------------------------------------------------------------------------------- */

/* A journal does not take what the app has written. */
static bool is_pending(const Forwarder *p)
{
        return p->pending.size > 0 || p->host_full;
}

static bool must_wait(const Forwarder *p)
{
        return is_pending(p) || forwarder_must_wait(p) || forwarder_file_is_full(p);
}

void forwarder_update(Forwarder *p)
{
        if (p->source)
                (void) sd_event_source_set_enabled(p->source, must_wait(p) ? SD_EVENT_OFF : SD_EVENT_ON);
}

static void on_room(void *userdata)
{
        Forwarders *all = userdata;

        for (Forwarder *p = all->first; p; p = p->next)
                forwarder_update(p);
        if (forwarders_have_shown(all))
                inputs_shown(all->inputs);
}

bool forwarders_have_shown(const Forwarders *all)
{
        for (size_t i = 0; i < ELEMENTSOF(all->writers); i++)
                if (all->show && all->writers[i] && !buffered_writer_is_empty(all->writers[i]))
                        return false;
        return true;
}

static void forget(Forwarder *p)
{
        forwarder_show_rest(p);
        for (Forwarder **i = &p->all->first; *i; i = &(*i)->next)
                if (*i == p) {
                        *i = p->next;
                        break;
                }
        forwarder_free(p);
}

static bool is_flushed(const Forwarders *all, const AppInstance *app)
{
        for (const Forwarder *p = all->first; p; p = p->next)
                if (is_pending(p) && (!app || p->app == app))
                        return false;
        return true;
}

static void waiter_free(Waiter *w)
{
        safe_close(w->fd);
        free(w);
}

static void answer_waiters(Forwarders *all)
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

/* P may be freed. */
static void settle(Forwarder *p)
{
        if (p->stored && !is_pending(p))
                forget(p);
        else
                forwarder_update(p);
}

void forwarder_resume(Forwarder *p)
{
        Forwarders *all = p->all;

        p->journal_source = sd_event_source_disable_unref(p->journal_source);
        p->timer = pod_timer_free(p->timer);
        text_done(&p->pending);
        settle(p);
        answer_waiters(all);
}

static void on_host_room(void *userdata)
{
        Forwarders *all = userdata;

        for (Forwarder *p = all->first, *next; p; p = next) {
                next = p->next;
                if (p->host_full && forwarder_resume_host(p))
                        settle(p);
        }
        answer_waiters(all);
}

/* --- Moving -------------------------------------------------------------------------------------------- */

/* The number of bytes moved; 0: nothing to read now; -EPIPE: the writers have closed it. */
static int move(Forwarder *p)
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
        forwarder_show(p, chunk, (size_t) n);
        forwarder_store(p, chunk, (size_t) n);
        return (int) n;
}

/* All writers have closed it. */
static void end(Forwarder *p)
{
        p->source = sd_event_source_disable_unref(p->source);
        p->read_fd = safe_close(p->read_fd);
        p->ended = true;
        forwarder_end_file(p);
        if (!forwarder_file_is_pending(p))
                forwarder_end_written(p);
}

/* By then the journal has the line about what the file did not take. */
void forwarder_end_written(Forwarder *p)
{
        forwarder_end_storing(p);
        p->stored = true;
        if (!is_pending(p))
                forget(p);
}

static int on_readable(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        if (move(userdata) < 0)
                end(userdata);
        else
                forwarder_update(userdata);
        return 0;
}

/* Reads as much as was in the pipe when it was called, so that a process that goes on writing does not keep
 * us here. The kernel does not count what is in flight through a terminal, but it is bounded by this size.
 * Returns whether more may come; if not, P may be freed. CLOSES: the caller closes the pipe then. It is read
 * although much waits for the log file: the journals get the rest, and what the file does not get is counted. */
static bool flush_one(Forwarder *p, bool closes)
{
        int pending = TERMINAL_MAX, r;

        if (p->ended || (!closes && forwarder_file_is_flooded(p)) ||
            (!p->terminal && ioctl(p->read_fd, FIONREAD, &pending) < 0))
                return !p->ended;
        do { /* once more when the pipe is empty, to detect its end */
                r = move(p);
                pending -= r;
        } while (r > 0 && pending >= 0);
        if (r < 0)
                end(p);
        else
                forwarder_update(p);
        return r >= 0;
}

static int add_waiter(Forwarders *all, const AppInstance *app, int fd, void (*flushed)(int fd))
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

void forwarders_drain(Forwarders *all, const AppInstance *app)
{
        Forwarder *next;

        for (Forwarder *p = all->first; p; p = next) {
                next = p->next;
                if ((!app || p->app == app) && flush_one(p, false))
                        forwarder_flush_file(p);
        }
        forwarders_settle_files(all, app);
        answer_waiters(all);
}

int forwarders_flush(Forwarders *all, const AppInstance *app, int fd, void (*flushed)(int fd))
{
        int r = add_waiter(all, app, fd, flushed);

        forwarders_drain(all, app);
        return r;
}

void forwarders_end(Forwarders *all)
{
        Forwarder *next;

        for (Forwarder *p = all->first; p; p = next) {
                next = p->next;
                (void) flush_one(p, true);
        }
        for (Forwarder *p = all->first; p; p = p->next)
                if (p->host_full) {
                        host_journal_wait(all->host_journal, HOST_WAIT_MSEC);
                        (void) forwarder_resume_host(p);
                }
        for (Forwarder *p = all->first; p; p = p->next)
                forwarder_end_file(p);
        forwarders_end_files(all);
        while (all->first) {
                forwarder_end_storing(all->first);
                forget(all->first);
        }
        forwarder_bounds_record(all, true);
}

void forwarders_show_rest(Forwarders *all, const Operation *o)
{
        for (size_t i = 0; all->show && i < ELEMENTSOF(all->writers); i++) {
                int r = buffered_writer_finish(all->writers[i], o, -1);

                if (r < 0)
                        forwarders_stop_showing(all, r);
        }
}

/* --- Making -------------------------------------------------------------------------------------------- */

static int open_pipe(Forwarder *p, uid_t owner, int *ret_write_fd)
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
static int add(Forwarders *all, const Forwarder *like, uid_t owner, int *ret_write_fd)
{
        _cleanup_close_ int write_fd = -EBADF;
        Forwarder *p = calloc(1, sizeof(Forwarder));

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
                forwarder_free(p);
                return r;
        }
        p->journal_fd = like->journal_fd;
        p->bound = p->app->bound;
        p->log = p->app->log;
        forwarder_open_host(p);
        p->next = all->first;
        all->first = p;
        if (!p->terminal)
                *ret_write_fd = TAKE_FD(write_fd);
        forwarder_update(p);
        return 0;
}

int forwarders_add(Forwarders *all, const AppInstance *app, bool error, int journal_fd, uid_t owner,
                   int *ret_write_fd)
{
        const Forwarder like = {.app = app, .error = error, .read_fd = -EBADF, .journal_fd = journal_fd};

        return add(all, &like, owner, ret_write_fd);
}

int forwarders_add_terminal(Forwarders *all, const AppInstance *app, int journal_fd, int master_fd)
{
        const Forwarder like = {
                        .app = app, .terminal = true, .read_fd = master_fd, .journal_fd = journal_fd};

        return add(all, &like, 0, NULL);
}

int forwarders_set_host(Forwarders *all, const MountNamespace *host)
{
        mount_namespace_done(&all->host);
        return mount_namespace_copy(host, &all->host);
}

const MountNamespace *forwarders_host(const Forwarders *all)
{
        return &all->host;
}

void forwarders_set_inputs(Forwarders *all, Inputs *inputs)
{
        all->inputs = inputs;
}

void forwarders_show_only(Forwarders *all, const char *app)
{
        all->only = app;
}

void forwarders_hold(Forwarders *all, bool hold)
{
        all->hold = hold;
        on_room(all);
}

void forwarders_show_nothing(Forwarders *all)
{
        all->show = false;
        on_room(all);
}

static int add_app(Forwarders *all, AppInstance *app, Error *e)
{
        if (forwarder_bound_new(all->pod, app->name, &app->settings, all->apps->n, &app->bound) < 0)
                return error_oom(e);
        all->prefix |= all->apps->n > 1;
        return forwarder_log_new(all, app->name, &app->settings, &app->log, e);
}

int forwarders_add_app(Forwarders *all, AppInstance *app, Error *e)
{
        int r = add_app(all, app, e);

        forwarder_bounds_share(all);
        return r;
}

static void release_app(AppInstance *app)
{
        app->bound = (free(app->bound), NULL);
        forwarder_log_leave(app->log);
        app->log = NULL;
}

static Forwarder *find_forwarder(const Forwarders *all, const AppInstance *app)
{
        Forwarder *p = all->first;

        while (p && p->app != app)
                p = p->next;
        return p;
}

void forwarders_remove_app(Forwarders *all, AppInstance *app)
{
        for (Forwarder *p = all->first, *next; p; p = next) {
                next = p->next;
                if (p->app == app)
                        (void) flush_one(p, true);
        }
        for (Forwarder *p; (p = find_forwarder(all, app));) {
                forwarder_end_storing(p);
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
        forwarder_bounds_share(all);
}

int forwarders_new(sd_event *event, const ForwarderOptions *o, Forwarders **ret, Error *e)
{
        static const int fds[] = {STDOUT_FILENO, STDERR_FILENO};
        _cleanup_(forwarders_freep) Forwarders *all = calloc(1, sizeof(Forwarders));

        if (!all)
                return error_oom(e);
        *all = (Forwarders){.event = event,
                            .pod = o->pod,
                            .apps = o->apps,
                            .show = o->show,
                            .prefix = o->prefix,
                            .raw = o->raw,
                            .reader_gone = o->reader_gone,
                            .userdata = o->userdata,
                            .host = MOUNT_NAMESPACE_NULL};
        for (size_t i = 0; o->show && i < ELEMENTSOF(fds); i++) {
                int r = buffered_writer_new(event, fds[i], on_room, all, &all->writers[i]);
                if (r < 0)
                        return error_set_errno(e, r, "Cannot write to %s", i == 0 ? "stdout" : "stderr");
                all->journal_streams[i] = fd_is_journal_stream(fds[i]);
        }
        if (host_journal_new(event, o->pod, HOST_JOURNAL_SOCKET, on_host_room, all, &all->host_journal) < 0)
                return error_oom(e);
        FOREACH_APP(app, all->apps)
        {
                int r = add_app(all, app, e);
                if (r < 0)
                        return r;
        }
        *ret = TAKE_PTR(all);
        return 0;
}

Forwarders *forwarders_free(Forwarders *all)
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
        for (size_t i = 0; i < ELEMENTSOF(all->writers); i++)
                buffered_writer_free(all->writers[i]);
        sd_event_source_disable_unref(all->record_timer);
        host_journal_free(all->host_journal);
        FOREACH_APP(app, all->apps)
        release_app(app);
        forwarders_free_files(all);
        mount_namespace_done(&all->host);
        free(all);
        return NULL;
}
