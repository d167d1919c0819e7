/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The input of an app: the body of a request, as long as the client likes, is a stream of records. The first names the app, whose
 * standard input then gets what the others have, through a pipe to the supervisor.
 *
 * The thread of the connection waits for room in the pipe, and reads nothing from the client meanwhile: one record is kept, no more. To
 * disconnect from the supervisor is the end of the input. While the thread waits for the client, another one waits for the end of the
 * app, and shuts the client's connection down.
 *
 * The HTTP library can answer before the body of a request and behind it. A record that is refused within is answered here, and the
 * connection is closed. */

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "containers/http-internal.h"

#define RESIZE_TRIES 50U
#define RESIZE_USEC 20000U
#define WATCHER_STACK_SIZE (128U * 1024U)

struct InputStream {
        Service *service;
        struct MHD_Connection *http;
        char *token;
        RecordReader reader;
        bool counted, opened, ended; /* ended: by a record without bytes */
        VarlinkClient *client;       /* to disconnect is the end of the input */
        int64_t id;
        int pipe_fd, stop_fd;
        bool watched;
        pthread_t watcher;
};

/* --- Answers within a request -------------------------------------------------------------------------- */

static enum MHD_Result fail(InputStream *i, unsigned status, const char *text)
{
        _cleanup_free_ char *answer = NULL;
        int n = xasprintf(
                        &answer,
                        "HTTP/1.1 %u %s\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\n"
                        "%sContent-Length: %zu\r\n\r\n%s",
                        status, MHD_get_reason_phrase_for(status), status == 429 ? "Retry-After: 1\r\n" : "",
                        strlen(text), text);

        if (n >= 0) /* a client that does not read gets what fits */
                (void) send(http_socket(i->http), answer, strlen(answer), MSG_DONTWAIT | MSG_NOSIGNAL);
        return MHD_NO;
}

static enum MHD_Result fail_with(InputStream *i, int r, const Error *e)
{
        _cleanup_free_ char *text = NULL;

        if (r == -ENOMEM || xasprintf(&text, "%s\n", e->message ?: "The record is not valid") < 0)
                return fail(i, 500, "Out of memory\n");
        return fail(i, 400, text);
}

/* --- The end of the app -------------------------------------------------------------------------------- */

static void *watch(void *userdata)
{
        const InputStream *i = userdata;
        struct pollfd p[] = {{.fd = varlink_client_fd(i->client), .events = POLLIN},
                             {.fd = i->stop_fd, .events = POLLIN}};

        while (poll(p, ELEMENTSOF(p), -1) < 0 && errno == EINTR)
                ;
        if (p[0].revents) /* the reply to the call, which comes when the app has ended */
                (void) shutdown(http_socket(i->http), SHUT_RD);
        return NULL;
}

static int start_watcher(InputStream *i)
{
        pthread_attr_t attributes;
        int r = pthread_attr_init(&attributes);

        if (r != 0)
                return -r;
        i->stop_fd = eventfd(0, EFD_CLOEXEC);
        r = i->stop_fd < 0 ? errno : pthread_attr_setstacksize(&attributes, WATCHER_STACK_SIZE);
        if (r == 0)
                r = pthread_create(&i->watcher, &attributes, watch, i);
        (void) pthread_attr_destroy(&attributes);
        i->watched = r == 0;
        return -r;
}

static void stop_watcher(InputStream *i)
{
        uint64_t one = 1;

        if (i->watched && write(i->stop_fd, &one, sizeof(one)) == sizeof(one))
                (void) pthread_join(i->watcher, NULL);
        i->watched = false;
        i->stop_fd = safe_close(i->stop_fd);
}

/* --- Records ------------------------------------------------------------------------------------------- */

static void close_input(InputStream *i)
{
        stop_watcher(i);
        i->pipe_fd = safe_close(i->pipe_fd);
        i->client = varlink_client_free(i->client);
}

static enum MHD_Result attach(InputStream *i, const ContainerCall *call)
{
        _cleanup_(varlink_reply_done) VarlinkReply reply = {};
        int fds[2], theirs[2] = {-EBADF, -EBADF};

        if (!(i->counted = service_take_stream(i->service)))
                return fail(i, 429, "Too many calls wait, or have input or output\n");
        if (pipe2(fds, O_CLOEXEC) < 0)
                return fail(i, 503, "Too many calls\n");
        i->pipe_fd = fds[1];
        theirs[0] = fds[0];
        http_limit_time(i->http, 0); /* a client can type as slowly as it likes */
        int r = fcntl(fds[1], F_SETFL, O_WRONLY | O_NONBLOCK) < 0 ? -errno : 0;
        if (r >= 0)
                r = control_exchange(i->service->channel, http_socket(i->http), call, i->token, theirs,
                                     &i->client, &reply);
        safe_close(theirs[0]);
        if (r < 0)
                return fail(i, 503, "The call was cut off\n");
        if (reply.error) {
                _cleanup_free_ char *text = NULL;
                unsigned status = control_answer(call, reply.error, reply.parameters, &text);
                return fail(i, status, text ?: "The call has failed\n");
        }
        i->id = json_object_get_int64(json_object_object_get(reply.parameters, "id"));
        i->opened = true;
        return start_watcher(i) < 0 ? fail(i, 503, "Too many calls\n") : MHD_YES;
}

static enum MHD_Result open_stream(InputStream *i)
{
        _cleanup_container_call_ ContainerCall call = {};
        _cleanup_error_ Error e = ERROR_NULL;

        int r = container_call_parse(i->reader.text, i->reader.size, &call, &e);
        if (r < 0)
                return fail_with(i, r, &e);
        if (call.kind != CALL_INPUT)
                return fail(i, 415, "The content of this call has to be application/json\n");
        return attach(i, &call);
}

/* MHD_NO: the app, or the client, has gone. */
static enum MHD_Result pass_on(InputStream *i, const unsigned char *p, size_t n)
{
        while (n > 0) {
                struct pollfd events[] = {{.fd = i->pipe_fd, .events = POLLOUT},
                                          {.fd = varlink_client_fd(i->client), .events = POLLIN},
                                          {.fd = http_socket(i->http)}};
                if (poll(events, ELEMENTSOF(events), -1) < 0 && errno != EINTR)
                        return MHD_NO;
                if (events[1].revents ||
                    (!events[0].revents && events[2].revents & (POLLHUP | POLLERR | POLLNVAL)))
                        return MHD_NO;
                if (events[0].revents & POLLERR) /* the app has closed its standard input */
                        return MHD_YES;
                ssize_t k = events[0].revents ? write(i->pipe_fd, p, n) : 0;
                if (k < 0 && errno != EAGAIN && errno != EINTR)
                        return errno == EPIPE ? MHD_YES : MHD_NO;
                p += MAX(k, 0);
                n -= (size_t) MAX(k, 0);
        }
        return MHD_YES;
}

/* Too many in a short time have to wait, as the last one counts. */
static enum MHD_Result resize(InputStream *i, const ProcessIo *io)
{
        for (unsigned n = 0; n < RESIZE_TRIES; n++) {
                _cleanup_container_call_ ContainerCall call = {.kind = CALL_RESIZE,
                                                               .method = "Resize",
                                                               .parameters = json_object_new_object()};
                _cleanup_(varlink_reply_done) VarlinkReply reply = {};
                VarlinkClient *client = NULL;
                int none[2] = {-EBADF, -EBADF};

                if (json_member_add(call.parameters, "id", json_object_new_int64(i->id)) < 0 ||
                    json_member_add(call.parameters, "rows", json_object_new_int(io->rows)) < 0 ||
                    json_member_add(call.parameters, "columns", json_object_new_int(io->columns)) < 0)
                        return fail(i, 500, "Out of memory\n");
                int r = control_exchange(i->service->channel, http_socket(i->http), &call, i->token, none,
                                         &client, &reply);
                varlink_client_free(client);
                if (r < 0 && r != -EAGAIN)
                        return MHD_NO;
                if (r >= 0 && (!reply.error || !streq(reply.error, CONTROL_TOO_MANY)))
                        return MHD_YES;
                (void) usleep(RESIZE_USEC);
        }
        return MHD_YES;
}

static enum MHD_Result take_record(InputStream *i)
{
        _cleanup_(process_io_done) ProcessIo io = {};
        _cleanup_error_ Error e = ERROR_NULL;

        if (!i->opened)
                return open_stream(i);
        int r = process_io_parse(i->reader.text, i->reader.size, &io, &e);
        if (r < 0)
                return fail_with(i, r, &e);
        if (i->ended || io.kind == IO_HEARTBEAT)
                return MHD_YES;
        if (io.kind == IO_SIZE)
                return resize(i, &io);
        if (io.size > 0)
                return pass_on(i, io.data, io.size);
        close_input(i);
        i->ended = true;
        return MHD_YES;
}

/* --- The stream ---------------------------------------------------------------------------------------- */

enum MHD_Result input_stream_take(InputStream *i, const char *data, size_t n)
{
        enum MHD_Result result = MHD_YES;

        while (n > 0 && result == MHD_YES) {
                size_t taken = 0;
                int r = record_reader_take(&i->reader, data, n, &taken);

                if (r == -EMSGSIZE)
                        return fail(i, 413, "The record is larger than 64 KiB\n");
                if (r < 0)
                        return r == -ENOMEM ? fail(i, 500, "Out of memory\n")
                                            : fail(i, 400,
                                                   "A record does not begin with its length and a line "
                                                   "feed\n");
                if (r > 0)
                        result = take_record(i);
                data += taken;
                n -= taken;
        }
        return result;
}

enum MHD_Result input_stream_answer(InputStream *i)
{
        bool within = record_reader_is_within(&i->reader);

        close_input(i);
        if (!i->opened || within)
                return http_refuse(i->http, 400,
                                   within ? "The last record is not complete\n" : "There is no record\n");
        http_limit_time(i->http, STEP_SECONDS);
        return http_refuse(i->http, 200, "");
}

InputStream *input_stream_new(Service *s, struct MHD_Connection *http, const char *token)
{
        InputStream *i = malloc(sizeof(InputStream));

        if (!i)
                return NULL;
        *i = (InputStream){.service = s,
                           .http = http,
                           .token = strdup(token),
                           .pipe_fd = -EBADF,
                           .stop_fd = -EBADF};
        return i->token ? i : input_stream_free(i);
}

InputStream *input_stream_free(InputStream *i)
{
        if (!i)
                return NULL;
        close_input(i);
        if (i->counted)
                service_release_stream(i->service);
        record_reader_done(&i->reader);
        free(i->token);
        free(i);
        return NULL;
}
