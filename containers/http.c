/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The HTTP side: requests of one app, each in a thread that waits for the reply of the supervisor. There are as many threads as
 * connections, which are few; further ones are closed at once. A client has 15 seconds for each step of a request.
 *
 * A request is checked here as far as it can be without the supervisor, and a body that is too large is not kept. */

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "containers/http-internal.h"

#define CONNECTION_MEMORY (16U * 1024U)
#define STACK_SIZE (512U * 1024U)
/* Bytes of a body that is read and not kept, so that the client gets the answer. */
#define DISCARD_MAX (1024U * 1024U)
/* An app can call before the supervisor knows that it runs. */
#define BUSY_TRIES 100U
#define BUSY_USEC 50000U

#define NO_TOKEN "The request has no token: Authorization: Bearer TOKEN\n"

typedef struct Request {
        unsigned status; /* of a request that is refused already; 0: it is not */
        const char *why;
        char *body;
        size_t size, discarded;
        bool records;       /* the content is a stream of records */
        InputStream *input; /* NULL: it is refused, or is not a stream */
} Request;

typedef struct Output {
        VarlinkClient *client; /* to disconnect is to detach */
        int fds[2];            /* standard output, standard error */
        int http_fd;
        char *record;
        size_t at;
        Service *service;
} Output;

/* --- Bounds -------------------------------------------------------------------------------------------- */

bool service_take_stream(Service *s)
{
        (void) pthread_mutex_lock(&s->lock);
        bool room = s->n_streams < CONTROL_STREAMS_MAX;
        s->n_streams += room;
        (void) pthread_mutex_unlock(&s->lock);
        return room;
}

void service_release_stream(Service *s)
{
        (void) pthread_mutex_lock(&s->lock);
        s->n_streams--;
        (void) pthread_mutex_unlock(&s->lock);
}

static bool service_exceeds_rate(Service *s)
{
        (void) pthread_mutex_lock(&s->lock);
        bool exceeds = control_exceeds_rate(&s->next_usec, now_usec(CLOCK_MONOTONIC), CONTROL_CALLS_BURST,
                                            CONTROL_CALLS_USEC);
        (void) pthread_mutex_unlock(&s->lock);
        return exceeds;
}

/* --- Answers ------------------------------------------------------------------------------------------- */

static enum MHD_Result respond(struct MHD_Connection *http, unsigned status, const char *text,
                               const char *type)
{
        struct MHD_Response *response = MHD_create_response_from_buffer(
                        strlen(text), (void *) (uintptr_t) text, MHD_RESPMEM_MUST_COPY);
        if (!response)
                return MHD_NO;
        (void) MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
        if (status == 405)
                (void) MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "POST");
        if (status == 429)
                (void) MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
        if (status == 401)
                (void) MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
        enum MHD_Result r = MHD_queue_response(http, status, response);
        MHD_destroy_response(response);
        return r;
}

enum MHD_Result http_refuse(struct MHD_Connection *http, unsigned status, const char *text)
{
        return respond(http, status, text, "text/plain; charset=utf-8");
}

int http_socket(struct MHD_Connection *http)
{
        const union MHD_ConnectionInfo *i = MHD_get_connection_info(http, MHD_CONNECTION_INFO_CONNECTION_FD);

        return i ? i->connect_fd : -EBADF;
}

/* --- Output -------------------------------------------------------------------------------------------- */

static void output_free(void *p)
{
        Output *o = p;

        varlink_client_free(o->client);
        safe_close(o->fds[0]);
        safe_close(o->fds[1]);
        service_release_stream(o->service);
        free(o->record);
        free(o);
}

/* The next record. 0: there is no more. */
static int read_record(Output *o)
{
        char chunk[CONTROL_OUTPUT_STEP];

        while (o->fds[0] >= 0 || o->fds[1] >= 0) {
                struct pollfd p[] = {{.fd = o->fds[0], .events = POLLIN},
                                     {.fd = o->fds[1], .events = POLLIN},
                                     {.fd = o->http_fd}};
                if (poll(p, ELEMENTSOF(p), -1) < 0 && errno != EINTR)
                        return -errno;
                if (p[2].revents)
                        return -ECONNRESET;
                for (size_t i = 0; i < 2; i++) {
                        ssize_t n = p[i].revents ? read(o->fds[i], chunk, sizeof(chunk)) : -1;
                        if (n == 0)
                                o->fds[i] = safe_close(o->fds[i]);
                        if (n <= 0)
                                continue;
                        o->record = output_record(i == 1, chunk, (size_t) n);
                        o->at = 0;
                        return o->record ? 1 : -ENOMEM;
                }
        }
        return 0;
}

static ssize_t read_output(void *closure, uint64_t position, char *buffer, size_t max)
{
        Output *o = closure;

        if (!o->record) {
                int r = read_record(o);
                if (r <= 0)
                        return r < 0 ? MHD_CONTENT_READER_END_WITH_ERROR : MHD_CONTENT_READER_END_OF_STREAM;
        }
        size_t n = MIN(max, strlen(o->record) - o->at);
        memcpy(buffer, o->record + o->at, n);
        o->at += n;
        if (o->record[o->at] == 0) {
                free(o->record);
                o->record = NULL;
        }
        return (ssize_t) n;
}

/* Takes over CLIENT, FDS and the stream that was counted. */
static enum MHD_Result respond_output(Service *s, struct MHD_Connection *http, VarlinkClient *client,
                                      int fds[static 2])
{
        Output *o = malloc(sizeof(Output));

        if (!o) {
                service_release_stream(s);
                varlink_client_free(client);
                return http_refuse(http, 500, "Out of memory\n");
        }
        *o = (Output){.service = s,
                      .client = client,
                      .fds = {TAKE_FD(fds[0]), TAKE_FD(fds[1])},
                      .http_fd = http_socket(http)};
        struct MHD_Response *response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 8192,
                                                                          read_output, o, output_free);
        if (!response) {
                output_free(o);
                return MHD_NO;
        }
        (void) MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "application/recordio");
        enum MHD_Result r = MHD_queue_response(http, 200, response);
        MHD_destroy_response(response);
        return r;
}

static int make_pipes(int mine[static 2], int theirs[static 2])
{
        for (size_t i = 0; i < 2; i++) {
                int fds[2];
                if (pipe2(fds, O_CLOEXEC) < 0)
                        return -errno;
                mine[i] = fds[0];
                theirs[i] = fds[1];
        }
        return 0;
}

/* --- Calls --------------------------------------------------------------------------------------------- */

static enum MHD_Result respond_call(struct MHD_Connection *http, const ContainerCall *call,
                                    const VarlinkReply *reply)
{
        _cleanup_free_ char *text = NULL;
        unsigned status = control_answer(call, reply->error, reply->parameters, &text);

        if (!text)
                return http_refuse(http, 500, "Out of memory\n");
        return reply->error ? http_refuse(http, status, text)
                            : respond(http, status, text, "application/json");
}

void http_limit_time(struct MHD_Connection *http, unsigned seconds)
{
        (void) MHD_set_connection_option(http, MHD_CONNECTION_OPTION_TIMEOUT, seconds);
}

static bool has_output(const ContainerCall *call)
{
        return call->kind == CALL_OUTPUT || call->kind == CALL_SESSION;
}

/* Until the pod can be changed. MINE are the pipes of the output. */
static int exchange(Service *s, struct MHD_Connection *http, const ContainerCall *call, const char *token,
                    int mine[static 2], VarlinkClient **ret, VarlinkReply *reply)
{
        for (unsigned i = 0;; i++) {
                int theirs[2] = {-EBADF, -EBADF};
                int r = has_output(call) ? make_pipes(mine, theirs) : 0;

                if (r >= 0)
                        r = control_exchange(s->channel, http_socket(http), call, token, theirs, ret, reply);
                for (size_t k = 0; k < 2; k++)
                        safe_close(theirs[k]);
                if (r < 0 || !reply->error || !streq(reply->error, CONTROL_BUSY) || i + 1 == BUSY_TRIES)
                        return r;
                for (size_t k = 0; k < 2; k++)
                        mine[k] = safe_close(mine[k]);
                *ret = varlink_client_free(*ret);
                varlink_reply_done(reply);
                (void) usleep(BUSY_USEC);
        }
}

static enum MHD_Result forward(Service *s, struct MHD_Connection *http, const ContainerCall *call,
                               const char *token)
{
        _cleanup_(varlink_reply_done) VarlinkReply reply = {};
        int mine[2] = {-EBADF, -EBADF};
        bool lasts = call->kind == CALL_WAIT || has_output(call);
        VarlinkClient *client = NULL;
        enum MHD_Result result;

        if (lasts && !service_take_stream(s))
                return http_refuse(http, 429, "Too many calls wait, or have input or output\n");
        http_limit_time(http, 0); /* the end of an app can be waited for as long as the client likes */
        int r = exchange(s, http, call, token, mine, &client, &reply);
        if (r == -EAGAIN)
                result = http_refuse(http, 503, "Too many calls\n");
        else if (r < 0)
                result = http_refuse(http, 503, "The call was cut off\n");
        else if (has_output(call) && !reply.error) {
                lasts = false;
                result = respond_output(s, http, TAKE_PTR(client), mine);
        } else
                result = respond_call(http, call, &reply);
        if (lasts)
                service_release_stream(s);
        if (!has_output(call))
                http_limit_time(http, STEP_SECONDS);
        varlink_client_free(client);
        for (size_t i = 0; i < 2; i++)
                safe_close(mine[i]);
        return result;
}

/* NULL: there is none. */
static const char *token_of(struct MHD_Connection *http)
{
        const char *header =
                        MHD_lookup_connection_value(http, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);

        return header ? startswith(header, "Bearer ") : NULL;
}

static enum MHD_Result answer(Service *s, struct MHD_Connection *http, const Request *q)
{
        const char *token = token_of(http);
        _cleanup_container_call_ ContainerCall call = {};
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_free_ char *text = NULL;

        if (q->status > 0)
                return http_refuse(http, q->status, q->why);
        if (!token)
                return http_refuse(http, 401, NO_TOKEN);
        if (q->input)
                return input_stream_answer(q->input);
        int r = container_call_parse(q->body ?: "", q->size, &call, &e);
        if (r < 0) {
                int k = xasprintf(&text, "%s\n", e.message ?: "The call is not valid");
                return http_refuse(http, r == -ENOMEM ? 500 : 400, k < 0 ? "The call is not valid\n" : text);
        }
        if (call.kind == CALL_INPUT)
                return http_refuse(http, 415, "The content of this call has to be application/recordio\n");
        return forward(s, http, &call, token);
}

/* --- Requests ------------------------------------------------------------------------------------------ */

static bool is_type(const char *type, const char *word)
{
        const char *rest = startswith(type, word);

        return rest && ((unsigned char) *rest <= ' ' || *rest == ';');
}

static void refuse_later(Request *q, unsigned status, const char *why)
{
        q->status = status;
        q->why = why;
}

static void check_header(Service *s, struct MHD_Connection *http, const char *url, const char *method,
                         Request *q)
{
        const char *length = MHD_lookup_connection_value(http, MHD_HEADER_KIND,
                                                         MHD_HTTP_HEADER_CONTENT_LENGTH),
                   *type = MHD_lookup_connection_value(http, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_TYPE);
        bool records = type && is_type(type, "application/recordio");
        uint64_t size;

        if (service_exceeds_rate(s))
                refuse_later(q, 429, "Too many calls in a short time\n");
        else if (!streq(url, "/api/v1"))
                refuse_later(q, 404, "There is /api/v1 alone\n");
        else if (!streq(method, MHD_HTTP_METHOD_POST))
                refuse_later(q, 405, "Only POST is allowed\n");
        else if (type && !records && !is_type(type, "application/json"))
                refuse_later(q, 415, "The content has to be application/json\n");
        else if (length && !records && (parse_u64(length, &size) < 0 || size > CONTROL_BODY_MAX))
                refuse_later(q, 413, "The call is larger than 64 KiB\n");
        else if (records && !token_of(http))
                refuse_later(q, 401, NO_TOKEN);
        else if (records && !(q->input = input_stream_new(s, http, token_of(http))))
                refuse_later(q, 500, "Out of memory\n");
        q->records = records;
}

/* Of a body that is too large nothing is kept. */
static enum MHD_Result take_body(Request *q, const char *data, size_t n)
{
        if (q->input)
                return input_stream_take(q->input, data, n);
        q->discarded += q->status > 0 ? n : 0;
        if (q->status > 0)
                return q->discarded > DISCARD_MAX ? MHD_NO : MHD_YES;
        if (n > CONTROL_BODY_MAX - q->size) {
                q->status = 413;
                q->why = "The call is larger than 64 KiB\n";
                return MHD_YES;
        }
        char *body = realloc(q->body, q->size + n);
        if (!body)
                return MHD_NO;
        memcpy(body + q->size, data, n);
        q->body = body;
        q->size += n;
        return MHD_YES;
}

/* To be answered at once, so that the client does not send the body: the connection is closed then. */
static bool is_early(struct MHD_Connection *http, const Request *q)
{
        const char *length =
                        MHD_lookup_connection_value(http, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
        uint64_t size;

        if (q->status == 0)
                return false;
        return q->records || MHD_lookup_connection_value(http, MHD_HEADER_KIND, MHD_HTTP_HEADER_EXPECT) ||
               (length && (parse_u64(length, &size) < 0 || size > DISCARD_MAX));
}

static enum MHD_Result handle(void *userdata, struct MHD_Connection *http, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_size, void **closure)
{
        Service *s = userdata;
        Request *q = *closure;

        if (!q) {
                q = calloc(1, sizeof(Request));
                if (!q)
                        return MHD_NO;
                *closure = q;
                check_header(s, http, url, method, q);
                return is_early(http, q) ? http_refuse(http, q->status, q->why) : MHD_YES;
        }
        if (*upload_size == 0)
                return answer(s, http, q);
        enum MHD_Result r = take_body(q, upload, *upload_size);
        *upload_size = 0;
        return r;
}

static void completed(void *userdata, struct MHD_Connection *http, void **closure,
                      enum MHD_RequestTerminationCode code)
{
        Request *q = *closure;

        if (!q)
                return;
        input_stream_free(q->input);
        free(q->body);
        free(q);
        *closure = NULL;
}

int control_serve(int channel, int listen_fd, Error *e)
{
        static Service service = {
                        .lock = PTHREAD_MUTEX_INITIALIZER}; /* threads have it until the process ends */
        struct pollfd p = {.fd = channel, .events = POLLIN};

        service.channel = channel;
        struct MHD_Daemon *daemon = MHD_start_daemon(
                        MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL, 0,
                        NULL, NULL, handle, &service, MHD_OPTION_LISTEN_SOCKET, listen_fd,
                        MHD_OPTION_CONNECTION_LIMIT, CONTROL_CONNECTIONS_MAX,
                        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t) CONNECTION_MEMORY,
                        MHD_OPTION_CONNECTION_TIMEOUT, STEP_SECONDS, MHD_OPTION_THREAD_STACK_SIZE,
                        (size_t) STACK_SIZE, MHD_OPTION_NOTIFY_COMPLETED, completed, NULL, MHD_OPTION_END);

        if (!daemon)
                return error_set(e, -EIO, "Cannot start the HTTP server");
        while (poll(&p, 1, -1) < 0 && errno == EINTR)
                ; /* the supervisor sends nothing more: it has gone, or has freed the service */
        return 0; /* without waiting for the threads, which wait for the supervisor */
}
