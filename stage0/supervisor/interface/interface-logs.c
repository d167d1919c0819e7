/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The method that passes output of apps to clients.
 *
 * Each call has its own process, which reads the journal, or a log file, and writes to pipes of the caller
 * (stage0/read-logs.c): a child without any rights parses there what apps have written, and a caller that
 * does not read delays no other. The reply is sent when that process has ended. */

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "stage0/supervisor/interface/interface-internal.h"

#define POD "org.acnspawn.Pod."
#define READERS_MAX 16U
#define READER_SOCKET 3
#define MESSAGE_SIZE_MAX 4096U
#define END_MSEC 3000 /* how long the end of the pod waits for clients that do not read */

typedef struct LogReader {
        struct LogReader *next;
        Interface *interface;
        VarlinkCall *call;
        pid_t pid;
        int socket;
        sd_event_source *source;
        Text message; /* why it has failed */
} LogReader;

static void reader_free(LogReader *l)
{
        sd_event_source_disable_unref(l->source);
        safe_close(l->socket);
        if (l->pid > 0)
                (void) waitpid(l->pid, NULL, 0);
        text_done(&l->message);
        varlink_call_unref(l->call);
        free(l);
}

static void forget(LogReader *l)
{
        LogReader **i = &l->interface->log_readers;

        while (*i != l)
                i = &(*i)->next;
        *i = l->next;
        reader_free(l);
}

/* It has closed its end of the socket, or was killed. */
static void conclude(LogReader *l)
{
        int status = 0, r;
        bool reaped = waitpid(l->pid, &status, 0) == l->pid;

        l->pid = 0;
        if (reaped && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS)
                r = varlink_reply(l->call, NULL);
        else
                r = interface_reply_error(l->call, POD "LogsFailed", "message",
                                          l->message.size > 0 && !l->message.failed
                                                          ? l->message.data
                                                          : "The process that reads them was killed",
                                          NULL, NULL);
        if (r < 0)
                log_debug("Cannot report to a caller that its logs are complete: %s", strerror(-r));
        forget(l);
}

static int on_socket(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        LogReader *l = userdata;
        char chunk[512];

        ssize_t n = recv(fd, chunk, sizeof(chunk), MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        if (n <= 0)
                conclude(l);
        else if (l->message.size + (size_t) n <= MESSAGE_SIZE_MAX)
                text_add_bytes(&l->message, chunk, (size_t) n);
        return 0;
}

static void on_gone(VarlinkCall *call, void *userdata)
{
        LogReader *l = userdata;

        (void) kill(l->pid, SIGKILL);
        forget(l);
}

/* --- The process --------------------------------------------------------------------------------------- */

/* A separate open file description, which blocks even if the caller has set its own to O_NONBLOCK. */
static int open_stream(int fd)
{
        _cleanup_close_ int own_fd = fd_reopen(fd, O_WRONLY);

        if (own_fd < 0)
                return own_fd;
        int above = fcntl(own_fd, F_DUPFD_CLOEXEC, READER_SOCKET + 1);
        return above < 0 ? -errno : above;
}

/* Without a pipe for standard error the lines of both go to the other one. */
static int start_process(LogReader *l, const char *parameters, const int streams[static 2], Error *e)
{
        const Pod *p = l->interface->pod;
        _cleanup_free_ char *program = NULL;
        _cleanup_close_ int out = open_stream(streams[0]);
        _cleanup_close_ int err = open_stream(streams[1] < 0 ? streams[0] : streams[1]);
        int pair[2];

        int r = helper_program_path(READ_LOGS_PROGRAM, &program, e);
        if (r < 0)
                return r;
        if (out < 0 || err < 0)
                return error_set_errno(e, MIN(out, err), "Cannot open the pipe");
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return error_set_errno(e, -errno, "Cannot make a pair of sockets");
        l->socket = pair[0];
        _cleanup_close_ int theirs = fcntl(pair[1], F_DUPFD_CLOEXEC, READER_SOCKET + 1);
        safe_close(pair[1]);
        if (theirs < 0)
                return error_set_errno(e, -errno, "Cannot copy a descriptor");
        char *const argv[] = {program, (char *) store_path(p->store), p->uuid, (char *) parameters, NULL};
        const int fds[] = {out, err, theirs};
        sigset_t none;
        (void) sigemptyset(&none);
        return helper_program_spawn(argv, &none, STDOUT_FILENO, fds, ELEMENTSOF(fds), &l->pid, e);
}

/* --- The method ---------------------------------------------------------------------------------------- */

static int start(Interface *i, VarlinkCall *call, json_object *parameters, const int streams[static 2],
                 Error *e)
{
        const char *text = json_print(parameters);
        LogReader *l = calloc(1, sizeof(LogReader));

        if (!l || !text) {
                free(l);
                return error_oom(e);
        }
        *l = (LogReader){.interface = i, .call = varlink_call_ref(call), .socket = -EBADF};
        int r = start_process(l, text, streams, e);
        if (r >= 0) {
                r = sd_event_add_io(i->event, &l->source, l->socket, EPOLLIN, on_socket, l);
                if (r < 0) {
                        (void) kill(l->pid, SIGKILL);
                        (void) error_set_errno(e, r, "Cannot wait for the process that reads the logs");
                }
        }
        if (r < 0) {
                reader_free(l);
                return r;
        }
        l->next = i->log_readers;
        i->log_readers = l;
        call->on_gone = on_gone;
        call->userdata = l;
        return 0;
}

/* 1: the call was answered with an error. */
static int check(Interface *i, VarlinkCall *call, json_object *parameters, int streams[static 2])
{
        const char *wrong = NULL;
        LogOptions o;
        size_t n = 0;

        int r = log_options_read(parameters, &o, &wrong);
        for (size_t k = 0; r >= 0 && k < 2; k++)
                r = exec_read_stream(parameters, &call->fds, STDOUT_FILENO + k, &streams[k], &wrong);
        if (r >= 0 && streams[0] < 0) {
                wrong = "stdout";
                r = -EINVAL;
        }
        if (r < 0)
                return varlink_reply_invalid_parameter(call, wrong) ?: 1;
        if (o.app && !interface_find_app(i, o.app))
                return interface_reply_error(call, POD "NoSuchApp", "app", o.app, NULL, NULL) ?: 1;
        for (const LogReader *l = i->log_readers; l; l = l->next)
                n++;
        if (n < READERS_MAX)
                return 0;
        _cleanup_json_ json_object *limit = json_object_new_object();
        r = json_member_add(limit, "limit", json_object_new_int((int) READERS_MAX));
        return r < 0 ? r : varlink_reply_error(call, POD "TooManyLogs", limit) ?: 1;
}

int interface_logs(VarlinkCall *call, json_object *parameters, void *userdata)
{
        int streams[2] = {-EBADF, -EBADF};
        _cleanup_error_ Error e = ERROR_NULL;
        Interface *i = userdata;

        if (call->oneway) /* a one-way call has no reply to end it */
                return -EINVAL;
        int r = check(i, call, parameters, streams);
        if (r == 0) {
                r = start(i, call, parameters, streams, &e);
                if (r < 0)
                        r = interface_reply_error(call, POD "LogsFailed", "message",
                                                  e.message ?: strerror(-r), NULL, NULL);
        }
        for (size_t k = 0; k < ELEMENTSOF(streams); k++)
                safe_close(streams[k]);
        return MIN(r, 0);
}

/* One deadline for all of them. */
void interface_end_logs(Interface *i)
{
        uint64_t deadline = now_usec(CLOCK_MONOTONIC) + END_MSEC * UINT64_C(1000);

        for (LogReader *l = i->log_readers; l; l = l->next)
                (void) shutdown(l->socket, SHUT_WR);
        while (i->log_readers) {
                LogReader *l = i->log_readers;
                struct pollfd p = {.fd = l->socket, .events = POLLIN};
                uint64_t now = now_usec(CLOCK_MONOTONIC), left = deadline > now ? deadline - now : 0;

                int n = poll(&p, 1, (int) (left / 1000));
                if (n > 0)
                        (void) on_socket(l->source, l->socket, 0, l);
                else if (n == 0 || errno != EINTR)
                        on_gone(l->call, l);
        }
}
