/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The server: its lock, its methods, and its end.
 *
 * It is one thread with an event loop. What it knows, it reads from the store, so that it can be restarted at any time
 * without an effect on pods. One process serves a store: two would not see each other's changes. */

#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include "cri/events/events.h"
#include "cri/exporter/exporter.h"
#include "cri/streaming/streaming.h"
#include "cri/statistics/usage.h"
#include "library/libsystemd.h"

#define LOCK_FILE "cri.lock"
#define LOCK_TRIES 1000U
#define LOCK_PAUSE_USEC 10000U
#define DRAIN_USEC (20 * UINT64_C(1000000)) /* for calls that were accepted, when the server is to end */

/* --- The lock ------------------------------------------------------------------------------------------ */

/* 0: it is not known. */
static uint32_t read_holder(int fd)
{
        _cleanup_free_ char *pid = NULL;
        uint32_t number;

        return lseek(fd, 0, SEEK_SET) == 0 && read_fd_bounded(fd, 16, &pid, NULL) >= 0 &&
                                               parse_u32(pid, &number) >= 0
                               ? number
                               : 0;
}

static int refuse_second(const Store *s, int fd, Error *e)
{
        uint32_t number = read_holder(fd);

        int r = error_set(e, -EBUSY, "The store '%s' is served by another acnspawn-cri", store_path(s));
        return number > 0 ? error_hint(e, r, "It is process %u.", number) : r;
}

static bool has_ended(uint32_t pid)
{
        _cleanup_free_ char *text = NULL;
        char path[64];

        snprintf(path, sizeof(path), "/proc/%u/stat", pid);
        if (read_file_at(AT_FDCWD, path, 4096, &text, NULL) < 0)
                return true;
        const char *state = strrchr(text, ')');
        return state && (startswith(state, ") Z") || startswith(state, ") X"));
}

/* A process that was killed may leave one that it had just started, which inherits the lock, and is about to close it. */
static int lock_with_retries(int fd)
{
        for (unsigned i = 0;; i++) {
                if (flock(fd, LOCK_EX | LOCK_NB) >= 0)
                        return 0;
                if (errno != EWOULDBLOCK)
                        return -errno;
                uint32_t holder = read_holder(fd);
                if (i == LOCK_TRIES || holder == 0 || !has_ended(holder))
                        return -EBUSY;
                (void) usleep(LOCK_PAUSE_USEC);
        }
}

int cri_lock(Store *s, int *ret_fd, Error *e)
{
        _cleanup_close_ int fd =
                        openat(store_fd(s), LOCK_FILE, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        char pid[16];

        if (fd < 0)
                return error_set_errno(e, -errno, "Cannot open '%s/" LOCK_FILE "'", store_path(s));
        int r = lock_with_retries(fd);
        if (r == -EBUSY)
                return refuse_second(s, fd, e);
        if (r < 0)
                return error_set_errno(e, r, "Cannot lock '%s/" LOCK_FILE "'", store_path(s));
        snprintf(pid, sizeof(pid), "%d", (int) getpid());
        if (ftruncate(fd, 0) < 0 || pwrite(fd, pid, strlen(pid), 0) < 0)
                return error_set_errno(e, -errno, "Cannot write '%s/" LOCK_FILE "'", store_path(s));
        *ret_fd = TAKE_FD(fd);
        return 0;
}

/* --- The end ------------------------------------------------------------------------------------------- */

void cri_server_check_end(CriServer *s)
{
        if (s->drained && !s->workers)
                (void) sd_event_exit(s->event, 0);
}

static void on_drained(void *userdata)
{
        CriServer *s = userdata;

        s->drained = true;
        cri_server_check_end(s);
}

/* Ends what is left. Connections take their calls with them, whose workers undo their effects. */
static int end_now(CriServer *s)
{
        s->timer = sd_event_source_disable_unref(s->timer);
        s->grpc = grpc_server_free(s->grpc);
        cri_workers_cancel(s);
        on_drained(s);
        return 0;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
        return end_now(userdata);
}

/* A second signal cancels what the first waits for. */
static int on_signal(sd_event_source *source, const struct signalfd_siginfo *si, void *userdata)
{
        CriServer *s = userdata;

        if (s->ending)
                return end_now(s);
        s->ending = true;
        (void) sd_pid_notify(0, 0, "STOPPING=1");
        cri_workers_end_idle(s);
        cri_events_end(s);
        int r = sd_event_add_time_relative(s->event, &s->timer, CLOCK_MONOTONIC, DRAIN_USEC, 0, on_timer, s);
        if (r < 0)
                return end_now(s);
        grpc_server_drain(s->grpc, on_drained, s);
        return 0;
}

static int watch_signals(CriServer *s)
{
        static const int signals[] = {SIGTERM, SIGINT};
        sigset_t set;

        sigemptyset(&set);
        for (size_t i = 0; i < ELEMENTSOF(signals); i++)
                sigaddset(&set, signals[i]);
        if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
                return -errno;
        for (size_t i = 0; i < ELEMENTSOF(signals); i++) {
                int r = sd_event_add_signal(s->event, NULL, signals[i], on_signal, s);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* --- The whole ----------------------------------------------------------------------------------------- */

static int make_methods(CriServer *s)
{
        s->methods = calloc(n_cri_calls, sizeof(GrpcMethod));
        if (!s->methods)
                return -ENOMEM;
        for (size_t i = 0; i < n_cri_calls; i++)
                s->methods[i] = (GrpcMethod){cri_calls[i].path, cri_dispatch};
        return 0;
}

static int prepare_streams(CriServer *s, Error *e)
{
        const CriOptions *o = s->options;
        int r = o->stream_tls_cert ? stream_tls_new(o->stream_tls_cert, o->stream_tls_key, &s->stream_tls, e)
                                   : 0;

        return r < 0 ? r
                     : stream_server_new(s->event, o->stream_port, s->stream_tls, store_fd(s->store),
                                         cri_stream_serve, s, &s->streams, e);
}

static int prepare(CriServer *s, Error *e)
{
        int r = library_load(&systemd_library, e);

        if (r >= 0)
                r = store_open(s->options->dir, NULL, &s->store, e);
        if (r >= 0)
                r = cri_lock(s->store, &s->lock_fd, e);
        if (r < 0)
                return r;
        s->has_users = cri_users_are_supported(s->store);
        r = sd_event_new(&s->event);
        if (r >= 0)
                r = sd_event_set_watchdog(s->event, true);
        if (r >= 0)
                r = watch_signals(s);
        if (r >= 0)
                r = make_methods(s);
        if (r >= 0)
                r = cri_figures_new(&s->figures);
        if (r < 0)
                return error_set_errno(e, r, "Cannot prepare the service");
        r = grpc_server_new(s->event, s->methods, n_cri_calls, s, &s->grpc, e);
        if (r < 0)
                return r;
        cri_trace_calls(s);
        r = prepare_streams(s, e);
        return r >= 0 && s->options->metrics ? exporter_new(s, s->options->metrics, &s->exporter, e) : r;
}

static void server_done(CriServer *s)
{
        exporter_free(s->exporter);
        cri_events_done(s);
        grpc_server_free(s->grpc);
        cri_figures_free(s->figures);
        stream_server_free(s->streams);
        stream_tls_free(s->stream_tls);
        sd_event_source_disable_unref(s->timer);
        sd_event_source_disable_unref(s->usage_timer);
        sd_event_unref(s->event);
        free(s->methods);
        cri_samples_done(s);
        store_unref(s->store);
        safe_close(s->lock_fd);
}

/* The socket comes last: clients that can connect to a socket of its own are served. Connections to a socket of systemd wait. */
static int serve(CriServer *s, void (*ready)(void), Error *e)
{
        bool passed;
        int r = cri_events_start(s, e);

        if (r < 0)
                return r;
        int fd = cri_socket_open(s->options->socket, &passed, e);
        if (fd < 0)
                return fd;
        r = grpc_server_listen(s->grpc, fd, e);
        if (r < 0)
                return r;
        if (ready)
                ready();
        cri_sandboxes_clean(s);
        cri_measure_start(s);
        r = sd_event_loop(s->event);
        if (!passed)
                (void) unlink(s->options->socket);
        return r < 0 ? error_set_errno(e, r, "The event loop failed") : 0;
}

int cri_run(const CriOptions *o, void (*ready)(void), Error *e)
{
        _cleanup_(server_done) CriServer s = {.options = o, .lock_fd = -EBADF};
        int r = prepare(&s, e);

        return r < 0 ? r : serve(&s, ready, e);
}
