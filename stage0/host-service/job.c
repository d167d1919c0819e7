/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Calls that take long run in a separate process, a fork of the service, as they fetch, read many files or
 * wait: so the service never blocks, calls cannot affect each other, and a call can be cancelled by a
 * signal, after which its process undoes its effects. Pods that it has started do not depend on it.
 *
 * The process closes the service's descriptors and sends its replies through a pipe: JSON objects, each
 * followed by a NUL, with the members of Varlink replies: error, parameters, continues. It ends after the
 * last reply. While the caller does not read its replies, the pipe is not read. */

#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "stage0/host-service/service-internal.h"

#define UNSENT_MAX (256U * 1024U) /* bytes of replies */
#define PAUSE_USEC 5000U

typedef struct HostTask {
        struct HostTask *next;
        HostService *service;
        VarlinkCall *call; /* NULL: the caller has disconnected, or got its last reply */
        pid_t pid;
        HostCallKind kind;
        pid_t client;
        int fd;
        bool cancelled;
        sd_event_source *io, *pause;
        Text text; /* an incomplete reply */
} HostTask;

/* --- In the process ------------------------------------------------------------------------------------ */

static int send_reply(HostJob *j, const char *error, json_object *o, bool continues)
{
        _cleanup_json_ json_object *m = json_object_new_object();

        if (j->answered) {
                json_object_put(o);
                return -EALREADY;
        }
        if (!o || json_member_add(m, "parameters", o) < 0 ||
            (error && json_member_add_text(m, "error", error) < 0) ||
            (continues && json_member_add(m, "continues", json_object_new_boolean(true)) < 0))
                return -ENOMEM;
        const char *text = json_print(m);
        if (!text)
                return -ENOMEM;
        j->answered = !continues;
        return loop_write(j->fd, text, strlen(text) + 1);
}

int job_reply(HostJob *j, json_object *o)
{
        return send_reply(j, NULL, o, false);
}

int job_reply_continues(HostJob *j, json_object *o)
{
        return send_reply(j, NULL, o, true);
}

int job_reply_error(HostJob *j, const char *error, json_object *o)
{
        char name[64];

        snprintf(name, sizeof(name), HOST_INTERFACE ".%s", error);
        return send_reply(j, name, o, false);
}

int job_reply_invalid_parameter(HostJob *j, const char *parameter)
{
        json_object *o = json_object_new_object();

        if (json_member_add_text(o, "parameter", parameter) >= 0)
                return send_reply(j, "org.varlink.service.InvalidParameter", o, false);
        json_object_put(o);
        return -ENOMEM;
}

const char *job_text(const HostJob *j, const char *key)
{
        json_object *v = json_object_object_get(j->parameters, key);

        return v ? json_object_get_string(v) : NULL;
}

int job_usec(const HostJob *j, const char *key, uint64_t otherwise, uint64_t *ret)
{
        json_object *v = json_object_object_get(j->parameters, key);

        if (v && json_object_get_int64(v) < 0)
                return -EINVAL;
        *ret = v ? (uint64_t) json_object_get_int64(v) : otherwise;
        return 0;
}

bool job_flag(const HostJob *j, const char *key)
{
        return json_object_get_boolean(json_object_object_get(j->parameters, key));
}

static int fail(HostJob *j, int r, const Error *e)
{
        json_object *o = error_to_json(e);
        const char *name = strerrorname_np(-r);

        if (json_member_add(o, "errno", json_object_new_int(-r)) >= 0 &&
            (!name || json_member_add_text(o, "errnoName", name) >= 0))
                return job_reply_error(j, "OperationFailed", o);
        json_object_put(o);
        return -ENOMEM;
}

static const char *const phases[_OPERATION_PHASE_MAX] = {
                [OPERATION_LOOKING] = "looking",     [OPERATION_DOWNLOADING] = "downloading",
                [OPERATION_IMPORTING] = "importing", [OPERATION_DONE] = "done",
                [OPERATION_UNCHANGED] = "unchanged", [OPERATION_FAILED] = "failed",
};

static void send_under(HostJob *j, const char *key, json_object *value)
{
        json_object *o = json_object_new_object();

        if (json_member_add(o, key, value) < 0) {
                json_object_put(o);
                return;
        }
        (void) job_reply_continues(j, o);
}

/* Progress within a phase is limited to ten replies a second. That a phase has begun is always told: nothing
 * may follow for as long as a server is silent. */
static void on_progress(const OperationProgress *p, void *userdata)
{
        HostJob *j = userdata;
        uint64_t now = now_usec(CLOCK_MONOTONIC);
        bool repeated = p->phase == OPERATION_DOWNLOADING || p->phase == OPERATION_IMPORTING;
        json_object *o;

        if (!j->tells_progress ||
            (repeated && p->phase == j->progress_phase && now - j->progress_usec < 100000))
                return;
        j->progress_usec = now;
        j->progress_phase = p->phase;
        o = json_object_new_object();
        if (json_member_add_text(o, "what", p->what) < 0 ||
            json_member_add_text(o, "phase", phases[p->phase]) < 0 ||
            json_member_add(o, "done", json_object_new_uint64(MIN(p->done, (uint64_t) INT64_MAX))) < 0 ||
            (p->total > 0 &&
             json_member_add(o, "total", json_object_new_uint64(MIN(p->total, (uint64_t) INT64_MAX))) < 0)) {
                json_object_put(o);
                return;
        }
        send_under(j, "progress", o);
}

static void on_message(LogLevel level, const char *line, void *userdata)
{
        HostJob *j = userdata;

        if (level == LOG_LEVEL_DEBUG)
                return;
        if (j->tells_progress)
                send_under(j, "message", json_new_string_lossy(line));
        else
                (void) strv_extend(&j->warnings, line);
}

static int open_store(HostJob *j, HostStoreUse use, Error *e)
{
        if (use == STORE_IF_THERE && access(j->options->dir, F_OK) < 0 && errno == ENOENT)
                return 0;
        return store_open(j->options->dir, j->operation, &j->store, e);
}

static int work(HostJob *j, HostStoreUse use, HostJobFunction function, Error *e)
{
        const OperationOptions o = {.message = on_message, .progress = on_progress, .userdata = j};
        int r = operation_new(&o, &j->operation);
        sigset_t none;

        if (r < 0)
                return error_set_errno(e, r, "Cannot start");
        (void) interrupt_catch(j->operation);
        (void) sigemptyset(&none);
        (void) sigprocmask(SIG_SETMASK, &none, NULL);
        r = open_store(j, use, e);
        return r < 0 ? r : function(j, e);
}

/* The descriptors of the service, among which are connections of other callers. */
static int close_others(int fd)
{
        if (syscall(SYS_close_range, 3, fd - 1, 0) < 0 && fd > 3)
                return -errno;
        return syscall(SYS_close_range, fd + 1, ~0U, 0) < 0 ? -errno : 0;
}

static _noreturn_ void process(HostJob *j, HostStoreUse use, HostJobFunction function, pid_t parent)
{
        Error e = ERROR_NULL;

        (void) prctl(PR_SET_NAME, "host-call");
        if (prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0) < 0 || getppid() != parent || close_others(j->fd) < 0)
                _exit(1);
        int r = work(j, use, function, &e);
        if (r < 0 && !j->answered)
                (void) fail(j, r, &e);
        (void) fflush(NULL);
        _exit(0);
}

/* --- In the service ------------------------------------------------------------------------------------ */

static void task_free(HostTask *t)
{
        HostTask **i = &t->service->tasks;

        while (*i != t)
                i = &(*i)->next;
        *i = t->next;
        t->service->n_tasks[t->kind]--;
        sd_event_source_disable_unref(t->io);
        sd_event_source_disable_unref(t->pause);
        safe_close(t->fd);
        while (t->pid > 0 && waitpid(t->pid, NULL, 0) < 0 && errno == EINTR)
                ;
        varlink_call_unref(t->call);
        text_done(&t->text);
        free(t);
}

/* A second signal would kill the process. */
static void cancel(HostTask *t)
{
        if (!t->cancelled)
                (void) kill(t->pid, SIGTERM);
        t->cancelled = true;
}

static void on_gone(VarlinkCall *call, void *userdata)
{
        HostTask *t = userdata;

        t->call = varlink_call_unref(t->call);
        cancel(t);
}

void host_tasks_cancel(HostService *s)
{
        for (HostTask *t = s->tasks; t; t = t->next)
                cancel(t);
}

static int pass_on(HostTask *t, const char *text, size_t size)
{
        _cleanup_json_ json_object *m = NULL;

        if (!t->call)
                return 0;
        int r = json_parse_bounded(text, size, VARLINK_DEPTH_MAX, VARLINK_VALUES_MAX, &m, NULL, NULL);
        if (r < 0)
                return r;
        json_object *parameters = json_object_object_get(m, "parameters"),
                    *error = json_object_object_get(m, "error");
        if (json_object_get_boolean(json_object_object_get(m, "continues")))
                return varlink_reply_continues(t->call, parameters);
        return error ? varlink_reply_error(t->call, json_object_get_string(error), parameters)
                     : varlink_reply(t->call, parameters);
}

/* Keeps what follows the last NUL. */
static int pass_all_on(HostTask *t)
{
        char *at = t->text.data, *end = at + t->text.size, *nul;
        int r = 0;

        while (r >= 0 && at < end && (nul = memchr(at, 0, (size_t) (end - at)))) {
                r = pass_on(t, at, (size_t) (nul - at));
                at = nul + 1;
        }
        t->text.size = (size_t) (end - at);
        memmove(t->text.data, at, t->text.size);
        return r;
}

/* It has replied, unless it was killed. */
static void on_end(HostTask *t)
{
        _cleanup_json_ json_object *o = json_object_new_object();

        if (t->call && json_member_add_text(o, "message", "The process of this call was killed") >= 0 &&
            json_member_add(o, "errno", json_object_new_int(ECHILD)) >= 0 &&
            json_member_add_text(o, "errnoName", "ECHILD") >= 0)
                (void) varlink_reply_error(t->call, HOST_INTERFACE ".OperationFailed", o);
        task_free(t);
}

static int on_replies(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        HostTask *t = userdata;
        char chunk[16384];

        if (t->call && varlink_call_unsent(t->call) > UNSENT_MAX) {
                (void) sd_event_source_set_enabled(t->io, SD_EVENT_OFF);
                (void) sd_event_source_set_time_relative(t->pause, PAUSE_USEC);
                (void) sd_event_source_set_enabled(t->pause, SD_EVENT_ONESHOT);
                return 0;
        }
        ssize_t n = read(fd, chunk, sizeof(chunk));
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        if (n <= 0) {
                HostService *s = t->service;
                on_end(t);
                return s->ending && !s->tasks ? sd_event_exit(s->event, 0) : 0;
        }
        if (t->text.size + (size_t) n <= 2 * VARLINK_MESSAGE_SIZE_MAX)
                text_add_bytes(&t->text, chunk, (size_t) n);
        else
                t->text.failed = true;
        if (t->text.failed || pass_all_on(t) < 0) {
                if (t->call)
                        (void) varlink_reply_errno(t->call, -EMSGSIZE);
                on_gone(t->call, t);
                text_done(&t->text);
        }
        return 0;
}

static int on_pause(sd_event_source *source, uint64_t usec, void *userdata)
{
        HostTask *t = userdata;

        return sd_event_source_set_enabled(t->io, SD_EVENT_ON);
}

static int refuse_number(VarlinkCall *call, unsigned limit)
{
        _cleanup_json_ json_object *o = json_object_new_object();

        if (json_member_add(o, "limit", json_object_new_int((int) limit)) < 0)
                return -ENOMEM;
        return varlink_reply_error(call, HOST_INTERFACE ".TooManyOperations", o);
}

/* Returns the limit that this call would exceed, or 0. */
static unsigned limit_reached(const HostService *s, HostCallKind kind, pid_t client)
{
        size_t n = 0;

        if (s->n_tasks[kind] >= HOST_TASKS_MAX)
                return HOST_TASKS_MAX;
        for (const HostTask *t = s->tasks; t; t = t->next)
                n += t->kind == kind && t->client == client;
        return n >= HOST_TASKS_PER_CLIENT ? HOST_TASKS_PER_CLIENT : 0;
}

/* Until the process has an operation that a signal would cancel, signals are blocked. */
static pid_t start_process(HostJob *j, int service_fd, HostStoreUse use, HostJobFunction function)
{
        pid_t parent = getpid(), pid;

        (void) fflush(NULL);
        pid = fork();
        if (pid == 0) {
                safe_close(service_fd);
                process(j, use, function, parent);
        }
        return pid < 0 ? -errno : pid;
}

static int watch(HostTask *t)
{
        int r = sd_event_add_io(t->service->event, &t->io, t->fd, EPOLLIN, on_replies, t);

        if (r >= 0)
                r = sd_event_add_time_relative(t->service->event, &t->pause, CLOCK_MONOTONIC, 0, 1000,
                                               on_pause, t);
        return r < 0 ? r : sd_event_source_set_enabled(t->pause, SD_EVENT_OFF);
}

int host_task_start(HostService *s, VarlinkCall *call, json_object *parameters, HostCallKind kind,
                    HostStoreUse use, HostJobFunction function)
{
        pid_t client = varlink_call_peer(call);
        unsigned limit = limit_reached(s, kind, client);
        HostJob j = {.options = s->options, .parameters = parameters, .more = call->more};
        int fds[2];

        if (limit > 0)
                return refuse_number(call, limit);
        HostTask *t = calloc(1, sizeof(HostTask));
        if (!t)
                return -ENOMEM;
        if (pipe2(fds, O_CLOEXEC) < 0) {
                free(t);
                return -errno;
        }
        j.fd = fds[1];
        *t = (HostTask){.next = s->tasks, .service = s, .kind = kind, .client = client, .fd = fds[0]};
        s->tasks = t;
        s->n_tasks[kind]++;
        int r = start_process(&j, fds[0], use, function);
        safe_close(fds[1]);
        if (r >= 0) {
                t->pid = r;
                r = fcntl(t->fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : watch(t);
        }
        if (r < 0) {
                if (t->pid > 0)
                        (void) kill(t->pid, SIGKILL);
                task_free(t);
                return r;
        }
        t->call = varlink_call_ref(call);
        if (!call->oneway) {
                call->on_gone = on_gone;
                call->userdata = t;
        }
        return 0;
}
