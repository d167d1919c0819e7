/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Calls that wait, or read many files, run in a fork of the server: so the server never blocks, calls cannot affect each
 * other, and a call is cancelled by a signal, after which its process undoes its effects. That happens when the client
 * cancels the call or disconnects, when the deadline is over, and when the server ends, in whatever way.
 *
 * The process sends messages through a pipe: a header, and the bytes of a reply, or the text of the status that ends the
 * call. While the client does not read its replies, the pipe is not read. */

#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "cri/events/events.h"
#include "cri/exporter/exporter.h"
#include "cri/statistics/usage.h"
#include "library/libsystemd.h"
#include "stage0/cli/interrupt.h"
#include "stage0/cli/options.h"

#define UNSENT_MAX (256U * 1024U) /* bytes of replies */
#define PAUSE_USEC 5000U

typedef struct Header {
        uint32_t size;
        int32_t status; /* or one of these */
} Header;

enum { REPLY = -1, NOTE = -2, EVENT = -3, USAGE = -4 };

typedef struct CriWorker {
        struct CriWorker *next;
        CriServer *server;
        const CriCall *what;
        GrpcCall *call; /* NULL: it is over, or there was none */
        pid_t pid;
        int fd;
        bool cancelled, noted;
        CriEventNote note; /* what it has told last, if NOTED */
        sd_event_source *io, *pause;
        Text text; /* an incomplete message */
} CriWorker;

/* --- In the process ------------------------------------------------------------------------------------ */

static int send_message(int fd, int status, const void *data, size_t size)
{
        const Header h = {.size = (uint32_t) size, .status = status};
        int r = loop_write(fd, &h, sizeof(h));

        return r < 0 ? r : loop_write(fd, data, size);
}

int cri_worker_send(CriJob *j, const void *reply, size_t size)
{
        return send_message(j->fd, REPLY, reply, size);
}

void cri_worker_note(CriJob *j, const void *sample, size_t size)
{
        if (!j->grpc)
                (void) send_message(j->fd, NOTE, sample, size);
}

void cri_worker_note_usage(CriJob *j, const void *data, size_t size)
{
        (void) send_message(j->fd, USAGE, data, size);
}

void cri_worker_note_event(CriJob *j, const void *note, size_t size)
{
        (void) send_message(j->fd, EVENT, note, size);
}

/* All descriptors are the server's, but for the pipe and the store. */
static int close_others(int a, int b)
{
        unsigned low = (unsigned) MIN(a, b), high = (unsigned) MAX(a, b);

        if ((low > 3 && syscall(SYS_close_range, 3, low - 1, 0) < 0) ||
            (high > low + 1 && syscall(SYS_close_range, low + 1, high - 1, 0) < 0) ||
            syscall(SYS_close_range, high + 1, ~0U, 0) < 0)
                return -errno;
        return 0;
}

/* Only the server answers the watchdog. */
static void leave_service(void)
{
        static const char *const variables[] = {"NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"};

        for (size_t i = 0; i < ELEMENTSOF(variables); i++)
                (void) unsetenv(variables[i]);
}

/* Signals are blocked until there is an operation that they cancel. */
static int prepare_process(CriJob *j, Operation **ret)
{
        const OperationOptions o = {.message = cri_trace_message, .userdata = j};
        sigset_t none;

        int r = operation_new(&o, ret);
        if (r >= 0)
                r = store_open_again(j->server->store, *ret, &j->store, NULL);
        if (r < 0)
                return r;
        (void) interrupt_catch(*ret);
        (void) sigemptyset(&none);
        return sigprocmask(SIG_SETMASK, &none, NULL) < 0 ? -errno : 0;
}

static _noreturn_ void process(CriJob *j, const uint8_t *request, size_t size, pid_t parent)
{
        GrpcStatus status = GRPC_RESOURCE_EXHAUSTED;
        Operation *operation = NULL;
        char *message = NULL;

        (void) prctl(PR_SET_NAME, "cri-call");
        if (prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0) < 0 || getppid() != parent ||
            close_others(j->fd, store_fd(j->server->store)) < 0)
                _exit(1);
        leave_service();
        if (prepare_process(j, &operation) >= 0)
                cri_job_run(j, request, size, &status, &message);
        (void) send_message(j->fd, (int) status, message, message ? strlen(message) : 0);
        (void) fflush(NULL);
        _exit(0);
}

/* --- In the server ------------------------------------------------------------------------------------- */

static void worker_free(CriWorker *w)
{
        CriWorker **i = &w->server->workers;

        while (*i != w)
                i = &(*i)->next;
        *i = w->next;
        w->server->n_workers--;
        sd_event_source_disable_unref(w->io);
        sd_event_source_disable_unref(w->pause);
        safe_close(w->fd);
        while (w->pid > 0 && waitpid(w->pid, NULL, 0) < 0 && errno == EINTR)
                ;
        if (w->call)
                grpc_call_on_gone(w->call, NULL, NULL);
        grpc_call_unref(w->call);
        text_done(&w->text);
        free(w);
}

/* A second signal would kill the process. */
static void cancel(CriWorker *w)
{
        if (!w->cancelled)
                (void) kill(w->pid, SIGTERM);
        w->cancelled = true;
}

static void on_gone(GrpcCall *c, void *userdata)
{
        CriWorker *w = userdata;

        w->call = grpc_call_unref(w->call);
        cancel(w);
}

void cri_workers_end_idle(CriServer *s)
{
        for (CriWorker *w = s->workers; w; w = w->next)
                if (!w->call)
                        cancel(w);
}

void cri_workers_cancel(CriServer *s)
{
        for (CriWorker *w = s->workers; w; w = w->next)
                cancel(w);
}

bool cri_worker_runs(const CriServer *s, CriFunction function)
{
        const CriWorker *w = s->workers;

        while (w && w->what->function != function)
                w = w->next;
        return w;
}

static void take_note(CriWorker *w, const Header *h, const char *data)
{
        CriSample sample;

        if (h->status == NOTE && h->size == sizeof(sample)) {
                memcpy(&sample, data, sizeof(sample));
                cri_sample_put(w->server, &sample);
        } else if (h->status == USAGE)
                cri_usage_take(w->server, data, h->size);
        else if (h->status == EVENT && h->size == sizeof(w->note)) {
                memcpy(&w->note, data, sizeof(w->note));
                w->noted = true;
                cri_events_take(w->server, &w->note);
        }
}

static void answer(CriWorker *w, const Header *h, const char *data)
{
        _cleanup_free_ char *message = NULL;

        if (h->status == REPLY) {
                (void) grpc_call_send(w->call, data, h->size);
                return;
        }
        if (h->status == GRPC_OK && w->noted && cri_events_hold(w->server, w->call, &w->note)) {
                w->call = NULL;
                return;
        }
        message = h->size > 0 ? strndup(data, h->size) : NULL;
        (void) grpc_call_finish(w->call, (GrpcStatus) h->status, message);
        w->call = grpc_call_unref(w->call);
}

static void handle_message(CriWorker *w, const Header *h, const char *data)
{
        if (h->status == NOTE || h->status == EVENT || h->status == USAGE)
                take_note(w, h, data);
        else if (!(h->status == REPLY && cri_events_reply(w->server, w->what, data, h->size)) && w->call)
                answer(w, h, data);
}

/* Keeps an incomplete message. */
static void handle_messages(CriWorker *w)
{
        size_t at = 0;
        Header h;

        while (w->text.size - at >= sizeof(h)) {
                memcpy(&h, w->text.data + at, sizeof(h));
                if (w->text.size - at - sizeof(h) < h.size)
                        break;
                handle_message(w, &h, w->text.data + at + sizeof(h));
                at += sizeof(h) + h.size;
        }
        w->text.size -= at;
        memmove(w->text.data, w->text.data + at, w->text.size);
}

/* It has sent a status, unless it was killed. */
static void on_end(CriWorker *w)
{
        CriServer *s = w->server;

        if (w->call)
                (void) grpc_call_finish(w->call, GRPC_INTERNAL, "The process of this call was killed");
        const CriCall *what = w->what;
        bool noted = w->noted;
        worker_free(w);
        cri_measure_ended(s, what);
        cri_usage_ended(s, what);
        cri_events_ended(s, what, noted);
        cri_server_check_end(s);
}

static int on_replies(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        CriWorker *w = userdata;
        char chunk[65536];

        if (w->call && grpc_call_unsent(w->call) > UNSENT_MAX) {
                (void) sd_event_source_set_enabled(w->io, SD_EVENT_OFF);
                (void) sd_event_source_set_time_relative(w->pause, PAUSE_USEC);
                return sd_event_source_set_enabled(w->pause, SD_EVENT_ONESHOT);
        }
        ssize_t n = read(fd, chunk, sizeof(chunk));
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        if (n <= 0) {
                on_end(w);
                return 0;
        }
        text_add_bytes(&w->text, chunk, (size_t) n);
        if (!w->text.failed) {
                handle_messages(w);
                return 0;
        }
        if (w->call)
                (void) grpc_call_finish(w->call, GRPC_RESOURCE_EXHAUSTED, "Out of memory");
        on_gone(w->call, w);
        text_done(&w->text);
        return 0;
}

static int on_pause_end(sd_event_source *source, uint64_t usec, void *userdata)
{
        CriWorker *w = userdata;

        return sd_event_source_set_enabled(w->io, SD_EVENT_ON);
}

static int watch(CriWorker *w)
{
        int r = fcntl(w->fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;

        if (r >= 0)
                r = sd_event_add_io(w->server->event, &w->io, w->fd, EPOLLIN, on_replies, w);
        if (r >= 0)
                r = sd_event_add_time_relative(w->server->event, &w->pause, CLOCK_MONOTONIC, 0, 1000,
                                               on_pause_end, w);
        return r < 0 ? r : sd_event_source_set_enabled(w->pause, SD_EVENT_OFF);
}

/* The signals that end the server are blocked (server.c), and so they are in the process at first. */
static pid_t start_process(CriJob *j, const uint8_t *request, size_t size)
{
        pid_t parent = getpid(), pid;

        (void) fflush(NULL);
        pid = fork();
        if (pid == 0)
                process(j, request, size, parent);
        return pid < 0 ? -errno : pid;
}

int cri_worker_start(CriServer *s, GrpcCall *c, const CriCall *call, const uint8_t *request, size_t size)
{
        CriJob j = {.server = s, .call = call, .trace_id = cri_trace_id(s, call, c)};
        int fds[2];

        if (s->n_workers >= (call->flags & CRI_WAITS ? CRI_WORKERS_WAITING_MAX : CRI_WORKERS_MAX))
                return c ? grpc_call_finish(c, GRPC_UNAVAILABLE, "Too many calls are served at this time")
                         : -EUSERS;
        CriWorker *w = calloc(1, sizeof(CriWorker));
        if (!w)
                return -ENOMEM;
        if (pipe2(fds, O_CLOEXEC) < 0) {
                int r = -errno;
                free(w);
                return r;
        }
        j.fd = fds[1];
        *w = (CriWorker){.next = s->workers, .server = s, .what = call, .fd = fds[0]};
        s->workers = w;
        s->n_workers++;
        int r = start_process(&j, request, size);
        safe_close(fds[1]);
        if (r >= 0) {
                w->pid = r;
                r = watch(w);
        }
        if (r < 0) {
                if (w->pid > 0)
                        (void) kill(w->pid, SIGKILL);
                worker_free(w);
                return r;
        }
        if (c) {
                w->call = grpc_call_ref(c);
                grpc_call_on_gone(c, on_gone, w);
        }
        return 0;
}
