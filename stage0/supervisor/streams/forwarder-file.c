/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Output of apps, to log files of the host: each file has a process that writes it (log-writer.c), as its file system may hang.
 *
 * While it hangs, the app is not read, and has to wait when its pipe is full. Nothing else waits for it: when the app ends, and
 * once the pod ends, the supervisor goes on without the process after a moment, and says what is given up.
 *
 * What the process cannot write is dropped and counted. The journal, even if the app's lines do not go there, has a line
 * about it; `status` has the counts. */

#include "stage0/supervisor/streams/forwarder-internal.h"

#define OPEN_USEC UINT64_C(5000000)    /* the start of a pod, or a call, waits so long for an answer */
#define SETTLE_USEC UINT64_C(200000)   /* the end of an app does, once: the event loop stands still */
#define GIVE_UP_USEC UINT64_C(3000000) /* the end of a pod, without any progress */
#define QUEUE_MAX (1U << 20)           /* bytes; more is not read even if an app has ended */
#define REOPENINGS_MAX 64U
#define UNANSWERED_MAX 256U /* of one process */

/* A call that waits for the answers of processes. */
struct Reopening {
        Reopening *next;
        Forwarders *all;
        sd_event_source *timer;
        LogsFunction function; /* NULL: it was called already */
        void *userdata;
        int r;
        Error error;
        size_t n, n_left;
        struct {
                AppLog *log; /* NULL: it has answered */
                uint64_t number;
        } items[];
};

/* --- Reports ------------------------------------------------------------------------------------------- */

/* The stream of APP that has a place in the journal for a line about its file. */
static Forwarder *find_stream(const AppLog *l, bool error)
{
        Forwarder *found = NULL;

        for (Forwarder *p = l->all->first; p; p = p->next)
                if (p->log == l && (!found || p->error == error))
                        found = p;
        return found;
}

static void report(const AppLog *l, bool error, const char *what, const char *more)
{
        _cleanup_free_ char *line = NULL;
        Forwarder *p = find_stream(l, error);

        log_warning("%s", what);
        if (p && xasprintf(&line, "acnspawn: %c%s%s", what[0] == 'T' ? 't' : what[0], what + 1, more) >= 0)
                forwarder_report_in_journal(p, line);
}

static void on_dropped(AppLog *l, const LogReply *r)
{
        _cleanup_free_ char *what = NULL;

        l->lines += r->lines;
        l->bytes += r->bytes;
        l->changed = true;
        forwarder_bounds_record(l->all, false);
        if (l->reported ||
            xasprintf(&what, "The log file %s of app %s takes no more: %s. Lines are dropped", l->file.path,
                      l->app, r->code == -EFBIG ? "it has its max-size=" : strerror(-r->code)) < 0)
                return;
        l->reported = true;
        report(l, r->error, what, "; 'acnspawn status' says how many.");
}

static void on_lost(void *userdata, uint64_t bytes)
{
        _cleanup_free_ char *what = NULL;
        AppLog *l = userdata;

        if (bytes == 0 && l->killed) /* again, at once */
                return;
        l->killed = true;
        if (xasprintf(&what,
                      "The process that writes the log file %s of app %s was killed: %" PRIu64
                      " bytes of output that it had not written may be lost",
                      l->file.path, l->app, bytes) >= 0)
                report(l, false, what, ".");
}

/* --- Opening anew -------------------------------------------------------------------------------------- */

static void conclude(Reopening *x)
{
        if (x->function)
                x->function(x->userdata, x->r, &x->error);
        x->function = NULL;
        x->timer = sd_event_source_disable_unref(x->timer);
}

static void reopening_free(Reopening *x)
{
        conclude(x);
        error_done(&x->error);
        free(x);
}

/* Of several failures the first one is reported. */
static void note_answer(Reopening *x, const AppLog *l, uint64_t number, int r, mode_t type)
{
        for (size_t i = 0; i < x->n; i++) {
                if (x->items[i].log != l || x->items[i].number > number)
                        continue;
                x->items[i].log = NULL;
                x->n_left--;
                if (r < 0 && x->r >= 0)
                        x->r = log_file_error(l->app, l->file.path, r, type, &x->error);
        }
}

static void drop_answered(Forwarders *all)
{
        for (Reopening **i = &all->reopenings, *x; (x = *i);) {
                if (x->n_left > 0) {
                        i = &x->next;
                        continue;
                }
                *i = x->next;
                all->n_reopenings--;
                reopening_free(x);
        }
}

static void note_answers(const AppLog *l, uint64_t number, int r, mode_t type)
{
        for (Reopening *x = l->all->reopenings; x; x = x->next)
                note_answer(x, l, number, r, type);
        drop_answered(l->all);
}

/* The files will be opened as soon as their file systems answer. The call does not wait for that, and is not counted any more. */
static int on_late(sd_event_source *source, uint64_t usec, void *userdata)
{
        Reopening *x = userdata;

        for (size_t i = 0; x->r >= 0 && i < x->n; i++)
                if (x->items[i].log)
                        x->r = log_file_error(x->items[i].log->app, x->items[i].log->file.path, -ETIME, 0,
                                              &x->error);
        conclude(x);
        x->n_left = 0;
        drop_answered(x->all);
        return 0;
}

int forwarders_check_log(const Forwarders *all, const PodApp *app, Error *e)
{
        _cleanup_app_settings_ AppSettings s = {};
        int r = app_settings_read(app, &s, e);

        return r < 0 || !s.log_file.path ? r : log_file_check(app->name, &s.log_file, &all->host, e);
}

static bool is_reopened(const AppInstance *a, const char *app)
{
        return a->log && a->log->file.path && (!app || streq(a->name, app));
}

static void ask_to_reopen(Reopening *x, AppLog *l)
{
        /* Its file system hangs, and what was asked is still in its queue. */
        if (log_writer_unanswered(l->writer) >= UNANSWERED_MAX) {
                x->r = log_file_error(l->app, l->file.path, -ETIME, 0, x->r < 0 ? NULL : &x->error);
                return;
        }
        x->items[x->n].log = l;
        x->items[x->n++].number = log_writer_ask(l->writer, (LogMessage){.step = LOG_REOPEN});
        x->n_left++;
}

int forwarders_reopen(Forwarders *all, const char *app, LogsFunction function, void *userdata, Error *e)
{
        size_t n = 0;

        FOREACH_APP(a, all->apps)
        n += is_reopened(a, app);
        if (n == 0)
                return app ? error_set(e, -ENODATA, "App %s has no log file", app)
                           : error_set(e, -ENODATA, "No app of pod %s has a log file",
                                       pod_display_name(all->pod));
        if (all->n_reopenings >= REOPENINGS_MAX) {
                int r = error_set(e, -EUSERS, "Too many calls wait for log files of pod %s to be opened",
                                  pod_display_name(all->pod));
                return error_hint(e, r, "Each of them waits for a few seconds at most. Try it again then.");
        }
        Reopening *x = calloc(1, sizeof(Reopening) + n * sizeof(x->items[0]));
        if (!x)
                return error_oom(e);
        x->next = all->reopenings;
        int r = sd_event_add_time_relative(all->event, &x->timer, CLOCK_MONOTONIC, OPEN_USEC, 0, on_late, x);
        if (r < 0) {
                free(x);
                return error_set_errno(e, r, "Cannot wait for log files to be opened");
        }
        x->all = all;
        x->function = function;
        x->userdata = userdata;
        all->reopenings = x;
        all->n_reopenings++;
        FOREACH_APP(a, all->apps)
        if (is_reopened(a, app) && a->log->writer) /* otherwise the file is not open yet */
                ask_to_reopen(x, a->log);
        drop_answered(all);
        return 0;
}

/* --- The processes ------------------------------------------------------------------------------------- */

static void on_room(void *userdata)
{
        const AppLog *l = userdata;

        for (Forwarder *p = l->all->first; p; p = p->next)
                if (p->log == l)
                        forwarder_update(p);
}

/* Streams that have ended go on when the process has written all of them. */
static void end_streams(const AppLog *l, bool all)
{
        for (Forwarder *p = l->all->first, *next; p; p = next) {
                next = p->next;
                if (p->log == l && p->ended && !p->stored && (all || !forwarder_file_is_pending(p)))
                        forwarder_end_written(p);
        }
}

static void on_reply(void *userdata, const LogReply *r)
{
        AppLog *l = userdata;

        if (r->kind == LOG_DROPPED) {
                on_dropped(l, r);
                return;
        }
        if (r->step == LOG_REOPEN) {
                l->open_code = r->code;
                l->open_type = r->type;
                l->reported = l->reported && r->code < 0;
                l->killed = false;
        }
        note_answers(l, r->number, r->step == LOG_REOPEN ? r->code : 0, r->type);
        end_streams(l, false);
}

static void on_end(void *userdata)
{
        AppLog *l = userdata;

        for (AppLog **i = &l->all->leaving; *i; i = &(*i)->next)
                if (*i == l) {
                        *i = l->next;
                        break;
                }
        (void) forwarder_log_free(l);
}

/* The process of an app that was removed may still write the file. */
static int find_process(const Forwarders *all, const char *path)
{
        for (const AppLog *l = all->leaving; l; l = l->next)
                if (l->writer && streq(l->file.path, path))
                        return log_writer_process(l->writer);
        return -EBADF;
}

static int start_writer(AppLog *l, Error *e)
{
        const LogWriterOptions o = {.event = l->all->event,
                                    .settings = l->file,
                                    .host = &l->all->host,
                                    .after_fd = find_process(l->all, l->file.path),
                                    .on_room = on_room,
                                    .on_reply = on_reply,
                                    .on_lost = on_lost,
                                    .on_end = on_end,
                                    .userdata = l};
        int r = log_writer_new(&o, &l->writer);

        return r < 0 ? error_set_errno(e, r, "Cannot start the process that writes the log file of app %s",
                                       l->app)
                     : 0;
}

int forwarder_log_new(Forwarders *all, const char *app, const AppSettings *settings, AppLog **ret, Error *e)
{
        _cleanup_(forwarder_log_freep) AppLog *l = calloc(1, sizeof(AppLog));

        if (!l)
                return error_oom(e);
        *l = (AppLog){.all = all, .app = strdup(app), .target = settings->log, .file = settings->log_file};
        if (l->file.path)
                l->file.path = strdup(l->file.path);
        if (!l->app || (settings->log_file.path && !l->file.path))
                return error_oom(e);
        int r = l->file.path && all->opens_logs ? start_writer(l, e) : 0;
        if (r < 0)
                return r;
        *ret = TAKE_PTR(l);
        return 0;
}

AppLog *forwarder_log_free(AppLog *l)
{
        if (!l)
                return NULL;
        if (l->writer)
                note_answers(l, UINT64_MAX, -ECANCELED, 0);
        log_writer_free(l->writer);
        free(l->app);
        free(l->file.path);
        free(l);
        return NULL;
}

void forwarder_log_leave(AppLog *l)
{
        if (!l)
                return;
        if (!l->writer || log_writer_finish(l->writer)) {
                uint64_t lost = l->writer ? log_writer_unwritten(l->writer) : 0;
                if (lost > 0) /* since the process was killed */
                        on_lost(l, lost);
                (void) forwarder_log_free(l);
                return;
        }
        l->next = l->all->leaving;
        l->all->leaving = l;
}

int forwarders_open_logs(Forwarders *all, Error *e)
{
        int r = 0;

        all->opens_logs = true;
        FOREACH_APP(a, all->apps)
        if (r >= 0 && a->log->file.path)
                r = start_writer(a->log, e);
        return r;
}

int forwarders_await_logs(Forwarders *all, Error *e)
{
        uint64_t deadline = now_usec(CLOCK_MONOTONIC) + OPEN_USEC;

        FOREACH_APP(a, all->apps)
        {
                const AppLog *l = a->log;
                if (!l->writer)
                        continue;
                bool opened = log_writer_wait(l->writer, 1, deadline);
                int r = opened ? l->open_code : now_usec(CLOCK_MONOTONIC) < deadline ? -ECHILD : -ETIME;
                if (r < 0)
                        return log_file_error(l->app, l->file.path, r, l->open_type, e);
        }
        return 0;
}

static void move_process(const AppLog *l, const Cgroups *c)
{
        pid_t pid = l && l->writer ? log_writer_pid(l->writer) : 0;

        if (pid > 0)
                (void) pod_cgroup_move(l->all->pod, c, pid, NULL);
}

void forwarders_move_writers(const Forwarders *all, const Cgroups *c)
{
        FOREACH_APP(a, all->apps)
        move_process(a->log, c);
        for (const AppLog *l = all->leaving; l; l = l->next)
                move_process(l, c);
}

/* --- Streams ------------------------------------------------------------------------------------------- */

static bool has_file(const Forwarder *p)
{
        return p->log && p->log->writer;
}

static LogMessage message(const Forwarder *p, LogStep step, size_t size)
{
        LogMessage m = {.step = step, .size = (uint32_t) size, .stream = p->file_stream, .error = p->error};

        (void) clock_gettime(CLOCK_REALTIME, &m.time);
        return m;
}

void forwarder_write_to_file(Forwarder *p, const char *data, size_t size)
{
        if (!has_file(p))
                return;
        if (p->file_stream == 0)
                p->file_stream = ++p->log->n_streams;
        p->file_unflushed = true;
        const LogMessage m = message(p, LOG_ADD, size);
        log_writer_add(p->log->writer, &m, data);
}

void forwarder_flush_file(Forwarder *p)
{
        if (!has_file(p) || !p->file_unflushed)
                return;
        p->file_unflushed = false;
        const LogMessage m = message(p, LOG_FLUSH, 0);
        log_writer_add(p->log->writer, &m, NULL);
}

void forwarder_end_file(Forwarder *p)
{
        if (has_file(p) && p->file_stream > 0 && p->file_end == 0)
                p->file_end = log_writer_ask(p->log->writer, message(p, LOG_END, 0));
}

bool forwarder_file_is_pending(const Forwarder *p)
{
        return has_file(p) && p->file_end > 0 && !log_writer_has_answered(p->log->writer, p->file_end);
}

bool forwarder_file_is_full(const Forwarder *p)
{
        return has_file(p) && log_writer_is_full(p->log->writer);
}

bool forwarder_file_is_flooded(const Forwarder *p)
{
        return has_file(p) && log_writer_unwritten(p->log->writer) > QUEUE_MAX;
}

void forwarders_settle_files(Forwarders *all, const AppInstance *app)
{
        uint64_t deadline = now_usec(CLOCK_MONOTONIC) + SETTLE_USEC;

        FOREACH_APP(a, all->apps)
        if ((!app || a == app) && a->log && a->log->writer)
                log_writer_sync(a->log->writer);
        FOREACH_APP(a, all->apps)
        {
                if ((app && a != app) || !a->log || !a->log->writer)
                        continue;
                if (!log_writer_settle(a->log->writer, deadline))
                        end_streams(a->log, true);
        }
}

/* --- The end of the pod -------------------------------------------------------------------------------- */

/* False: it has ended, or was given up. */
static bool wait_for_end(AppLog *l)
{
        LogEnd end = l->writer ? log_writer_wait_for_end(l->writer, GIVE_UP_USEC) : LOG_ENDED;

        if (end == LOG_ENDS)
                return true;
        uint64_t lost = l->writer ? log_writer_unwritten(l->writer) : 0;
        if (lost > 0 && end == LOG_GIVEN_UP)
                log_warning("The file system of the log file %s of app %s does not answer: %" PRIu64
                            " bytes of output at its end are given up",
                            l->file.path, l->app, lost);
        else if (lost > 0)
                on_lost(l, lost);
        note_answers(l, UINT64_MAX, -ECANCELED, 0);
        l->writer = log_writer_free(l->writer);
        return false;
}

void forwarders_end_files(Forwarders *all)
{
        bool waits = true;

        FOREACH_APP(a, all->apps)
        if (a->log && a->log->writer)
                (void) log_writer_finish(a->log->writer);
        while (waits) {
                waits = false;
                FOREACH_APP(a, all->apps)
                waits |= a->log && wait_for_end(a->log);
                for (AppLog *l = all->leaving; l; l = l->next)
                        waits |= wait_for_end(l);
        }
}

void forwarders_free_files(Forwarders *all)
{
        for (AppLog *l; (l = all->leaving);) {
                all->leaving = l->next;
                (void) forwarder_log_free(l);
        }
        for (Reopening *x; (x = all->reopenings);) {
                all->reopenings = x->next;
                reopening_free(x);
        }
}
