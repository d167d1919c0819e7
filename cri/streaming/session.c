/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A stream in its process: passes on what comes from the client and what goes to it, with as little in memory as there is on
 * its way: nothing is read for a side that does not take it. */

#include <json-c/json.h>
#include <poll.h>
#include <sys/socket.h>

#include "cri/streaming/streaming-internal.h"

#define CHUNK_SIZE 32768U
#define WAITING_MAX (256U * 1024U) /* bytes for one side; then nothing more is read for it */
#define IN_SIZE (FRAME_SIZE_MAX + 64U)
#define OPEN_USEC (30 * UINT64_C(1000000))  /* in which the client opens its streams */
#define IDLE_MSEC (4 * 3600 * 1000)         /* without a byte either way */
#define CLOSE_USEC (10 * UINT64_C(1000000)) /* in which the client takes what is left, and closes */
#define RESIZE_SIZE_MAX 1024U

typedef struct Output {
        int fd; /* -EBADF: it has ended, or there is none */
} Output;

struct Session {
        int fd; /* the connection; it does not block */
        Protocol *protocol;
        uint8_t *in; /* what is not complete yet */
        size_t n_in;
        Text out, input;      /* to the client, and from it */
        size_t sent, written; /* bytes of them that are gone */
        int input_fd;         /* -EBADF: it is not known yet, or not any more */
        bool input_ended, drops_input, gone;
        Output outputs[_STREAM_CHANNEL_MAX];
        unsigned opened;
        char resize[RESIZE_SIZE_MAX];
        size_t n_resize;
        const SessionHandler *handler;
};

int session_new(int fd, Protocol *p, const uint8_t *rest, size_t n_rest, Session **ret)
{
        _cleanup_(session_freep) Session *s = calloc(1, sizeof(Session));

        if (!s || n_rest > IN_SIZE) {
                safe_close(fd);
                protocol_free(p);
                return -ENOMEM;
        }
        *s = (Session){.fd = fd, .protocol = p, .input_fd = -EBADF};
        for (size_t i = 0; i < ELEMENTSOF(s->outputs); i++)
                s->outputs[i].fd = -EBADF;
        s->in = malloc(IN_SIZE);
        if (!s->in)
                return -ENOMEM;
        memcpy(s->in, rest, n_rest);
        s->n_in = n_rest;
        if (fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
                return -errno;
        *ret = TAKE_PTR(s);
        return 0;
}

Session *session_free(Session *s)
{
        if (!s)
                return NULL;
        safe_close(s->fd);
        safe_close(s->input_fd);
        for (size_t i = 0; i < ELEMENTSOF(s->outputs); i++)
                safe_close(s->outputs[i].fd);
        protocol_free(s->protocol);
        text_done(&s->out);
        text_done(&s->input);
        free(s->in);
        free(s);
        return NULL;
}

static int set_nonblock(int fd)
{
        int flags = fcntl(fd, F_GETFL);

        return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

void session_set_input(Session *s, int fd)
{
        safe_close(s->input_fd);
        s->input_fd = fd;
        (void) set_nonblock(fd);
}

void session_set_output(Session *s, StreamChannel channel, int fd)
{
        s->outputs[channel].fd = fd;
        (void) set_nonblock(fd);
}

/* --- Bytes on their way -------------------------------------------------------------------------------- */

/* Writes what is waiting. *DONE counts what is gone. */
static int flush_text(int fd, Text *t, size_t *done, bool is_socket)
{
        while (*done < t->size) {
                ssize_t n = is_socket ? send(fd, t->data + *done, t->size - *done, MSG_NOSIGNAL)
                                      : write(fd, t->data + *done, t->size - *done);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return errno == EAGAIN ? 0 : -errno;
                *done += (size_t) n;
        }
        t->size = *done = 0;
        return 0;
}

/* Makes room at the beginning, from time to time. */
static void compact(Text *t, size_t *done)
{
        if (*done < WAITING_MAX)
                return;
        memmove(t->data, t->data + *done, t->size - *done);
        t->size -= *done;
        *done = 0;
}

static size_t waiting(const Text *t, size_t done)
{
        return t->size - done;
}

/* --- From the client ----------------------------------------------------------------------------------- */

static int on_opened(void *userdata, StreamChannel c)
{
        Session *s = userdata;

        s->opened |= STREAM_BIT(c);
        return 0;
}

static void report_size(Session *s, const char *text)
{
        json_object *o = json_tokener_parse(text), *width = NULL, *height = NULL;

        if (json_object_is_type(o, json_type_object) && json_object_object_get_ex(o, "Width", &width) &&
            json_object_object_get_ex(o, "Height", &height) && s->handler && s->handler->resized) {
                int64_t columns = json_object_get_int64(width), rows = json_object_get_int64(height);
                if (columns > 0 && columns <= UINT16_MAX && rows > 0 && rows <= UINT16_MAX)
                        s->handler->resized((uint16_t) rows, (uint16_t) columns, s->handler->userdata);
        }
        json_object_put(o);
}

/* Objects without objects in them, one after the other. */
static int take_sizes(Session *s, const uint8_t *data, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                if (s->n_resize + 1 >= sizeof(s->resize))
                        return -EPROTO;
                s->resize[s->n_resize++] = (char) data[i];
                if (data[i] != '}')
                        continue;
                s->resize[s->n_resize] = 0;
                s->n_resize = 0;
                if (strlen(s->resize) > 0)
                        report_size(s, s->resize);
        }
        return 0;
}

static int on_data(void *userdata, StreamChannel c, const uint8_t *data, size_t n)
{
        Session *s = userdata;

        if (c == STREAM_RESIZE)
                return take_sizes(s, data, n);
        if (c != STREAM_STDIN)
                return -EPROTO;
        if (!s->drops_input && !s->input_ended)
                text_add_bytes(&s->input, data, n);
        return s->input.failed ? -ENOMEM : 0;
}

static int on_ended(void *userdata, StreamChannel c)
{
        Session *s = userdata;

        if (c == STREAM_STDIN)
                s->input_ended = true;
        return 0;
}

static int on_closed(void *userdata)
{
        Session *s = userdata;

        s->gone = true;
        return 0;
}

/* Also what was there from the beginning. */
static int take_in(Session *s)
{
        const ProtocolEvents events = {.opened = on_opened,
                                       .data = on_data,
                                       .ended = on_ended,
                                       .closed = on_closed,
                                       .userdata = s};
        ssize_t n = s->protocol->ops->take(s->protocol, s->in, s->n_in, &events, &s->out);

        if (n < 0)
                return (int) n;
        s->n_in -= (size_t) n;
        memmove(s->in, s->in + n, s->n_in);
        return 0;
}

static int receive(Session *s)
{
        ssize_t n = recv(s->fd, s->in + s->n_in, MIN((size_t) CHUNK_SIZE, IN_SIZE - s->n_in), 0);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        if (n <= 0) {
                s->gone = true;
                return 0;
        }
        s->n_in += (size_t) n;
        return take_in(s);
}

/* What a command does not read is dropped, once it has closed its end. */
static void end_input(Session *s)
{
        s->input_fd = safe_close(s->input_fd);
        s->drops_input = true;
        text_done(&s->input);
        s->input = (Text){};
        s->written = 0;
}

static void write_input(Session *s)
{
        if (s->input_fd >= 0 && flush_text(s->input_fd, &s->input, &s->written, false) < 0)
                end_input(s);
        compact(&s->input, &s->written);
        if (s->input_fd < 0 || !s->input_ended || waiting(&s->input, s->written) > 0)
                return;
        end_input(s);
        if (s->handler && s->handler->input_ended)
                s->handler->input_ended(s->handler->userdata);
}

/* --- To the client ------------------------------------------------------------------------------------- */

/* The end of a terminal is an error of reading. */
static int read_output(Session *s, StreamChannel c)
{
        uint8_t chunk[CHUNK_SIZE];
        ssize_t n = read(s->outputs[c].fd, chunk, sizeof(chunk));

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        if (n > 0)
                return s->protocol->ops->send(s->protocol, c, chunk, (size_t) n, &s->out);
        s->outputs[c].fd = safe_close(s->outputs[c].fd);
        return s->protocol->ops->end(s->protocol, c, &s->out);
}

static int flush_out(Session *s)
{
        int r = flush_text(s->fd, &s->out, &s->sent, true);

        compact(&s->out, &s->sent);
        if (r == -EPIPE || r == -ECONNRESET) {
                s->gone = true;
                return 0;
        }
        return r;
}

/* --- Altogether ---------------------------------------------------------------------------------------- */

enum { POLL_CLIENT, POLL_INPUT, POLL_HANDLER, POLL_OUTPUTS, _POLL_MAX = POLL_OUTPUTS + _STREAM_CHANNEL_MAX };

static void fill_poll(const Session *s, bool ended, struct pollfd fds[static _POLL_MAX])
{
        bool takes = waiting(&s->out, s->sent) < WAITING_MAX;

        fds[POLL_CLIENT] = (struct pollfd){.fd = s->fd};
        if (takes && waiting(&s->input, s->written) < WAITING_MAX)
                fds[POLL_CLIENT].events |= POLLIN;
        if (waiting(&s->out, s->sent) > 0)
                fds[POLL_CLIENT].events |= POLLOUT;
        fds[POLL_INPUT] = (struct pollfd){.fd = waiting(&s->input, s->written) > 0 ? s->input_fd : -1,
                                          .events = POLLOUT};
        fds[POLL_HANDLER] = (struct pollfd){.fd = ended ? -1 : s->handler->fd, .events = POLLIN};
        for (size_t i = 0; i < _STREAM_CHANNEL_MAX; i++)
                fds[POLL_OUTPUTS + i] =
                                (struct pollfd){.fd = takes ? s->outputs[i].fd : -1, .events = POLLIN};
}

static bool has_outputs(const Session *s)
{
        for (size_t i = 0; i < ELEMENTSOF(s->outputs); i++)
                if (s->outputs[i].fd >= 0)
                        return true;
        return false;
}

static int pass_on(Session *s, const struct pollfd fds[static _POLL_MAX])
{
        int r = fds[POLL_CLIENT].revents & (POLLIN | POLLERR | POLLHUP) ? receive(s) : 0;

        for (size_t i = 0; r >= 0 && i < _STREAM_CHANNEL_MAX; i++)
                if (fds[POLL_OUTPUTS + i].fd >= 0 && fds[POLL_OUTPUTS + i].revents)
                        r = read_output(s, (StreamChannel) i);
        write_input(s);
        return r < 0 ? r : flush_out(s);
}

int session_run(Session *s, const SessionHandler *h)
{
        bool ended = h->fd < 0;

        s->handler = h;
        int r = take_in(s);
        write_input(s);
        while (r >= 0 && !s->gone && (!ended || has_outputs(s))) {
                struct pollfd fds[_POLL_MAX];

                fill_poll(s, ended, fds);
                int n = poll(fds, _POLL_MAX, IDLE_MSEC);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : -ETIMEDOUT;
                r = pass_on(s, fds);
                if (r < 0 || ended || !fds[POLL_HANDLER].revents)
                        continue;
                r = h->ready(h->userdata);
                ended = r == 0;
                write_input(s); /* where it goes may be known now */
        }
        return r < 0 ? r : s->gone ? -EPIPE : 0;
}

int session_begin(Session *s, Text *out, unsigned streams)
{
        uint64_t end = now_usec(CLOCK_MONOTONIC) + OPEN_USEC;

        text_add_bytes(&s->out, out->data, out->size);
        if (s->protocol->ops->implicit)
                s->opened = streams;
        int r = take_in(s);
        while (r >= 0 && !s->gone) {
                struct pollfd p = {.fd = s->fd, .events = POLLIN};
                uint64_t now = now_usec(CLOCK_MONOTONIC);

                r = flush_out(s);
                if (r < 0 || (waiting(&s->out, s->sent) == 0 && (s->opened & streams) == streams))
                        return r;
                if (waiting(&s->out, s->sent) > 0)
                        p.events |= POLLOUT;
                if (now >= end)
                        return -ETIMEDOUT;
                int n = poll(&p, 1, (int) ((end - now) / 1000) + 1);
                if (n < 0 && errno != EINTR)
                        return -errno;
                if (n > 0 && p.revents & ~POLLOUT)
                        r = receive(s);
        }
        return r < 0 ? r : -EPIPE;
}

/* --- The end ------------------------------------------------------------------------------------------- */

static json_object *make_details(int exit_code)
{
        json_object *details = json_object_new_object(), *causes = json_object_new_array(),
                    *cause = json_object_new_object();
        char number[16];

        snprintf(number, sizeof(number), "%d", exit_code);
        json_object_object_add(cause, "reason", json_object_new_string("ExitCode"));
        json_object_object_add(cause, "message", json_object_new_string(number));
        json_object_array_add(causes, cause);
        json_object_object_add(details, "causes", causes);
        return details;
}

/* A Status of Kubernetes (metav1.Status); before version 4 the message alone, and nothing if there is none. */
static int add_status(Session *s, int exit_code, const char *message)
{
        _cleanup_free_ char *text = NULL;
        bool failed = message || exit_code != 0;

        if (!message && exit_code != 0 &&
            xasprintf(&text, "command terminated with exit code %d", exit_code) < 0)
                return -ENOMEM;
        message = message ?: text;
        if (s->protocol->version < 4)
                return failed ? s->protocol->ops->send(s->protocol, STREAM_ERROR, (const uint8_t *) message,
                                                       strlen(message), &s->out)
                              : 0;
        json_object *o = json_object_new_object();
        json_object_object_add(o, "metadata", json_object_new_object());
        json_object_object_add(o, "status", json_object_new_string(failed ? "Failure" : "Success"));
        if (failed) {
                json_object_object_add(o, "message", json_object_new_string(message));
                json_object_object_add(o, "reason",
                                       json_object_new_string(text ? "NonZeroExitCode" : "InternalError"));
        }
        if (text)
                json_object_object_add(o, "details", make_details(exit_code));
        else if (failed)
                json_object_object_add(o, "code", json_object_new_int(500));
        const char *json = json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN);
        int r = json ? s->protocol->ops->send(s->protocol, STREAM_ERROR, (const uint8_t *) json,
                                              strlen(json), &s->out)
                     : -ENOMEM;
        json_object_put(o);
        return r;
}

/* Until the client has closed its end, so that it gets all of it. */
static void drain(Session *s)
{
        uint64_t end = now_usec(CLOCK_MONOTONIC) + CLOSE_USEC, now;
        bool shut = false;
        char chunk[4096];

        while (!s->gone && (now = now_usec(CLOCK_MONOTONIC)) < end) {
                struct pollfd p = {.fd = s->fd, .events = POLLIN};

                if (flush_out(s) < 0)
                        return;
                if (waiting(&s->out, s->sent) > 0)
                        p.events |= POLLOUT;
                else if (!shut) {
                        (void) shutdown(s->fd, SHUT_WR);
                        shut = true;
                }
                if (poll(&p, 1, (int) ((end - now) / 1000) + 1) > 0 && p.revents & ~POLLOUT) {
                        ssize_t n = recv(s->fd, chunk, sizeof(chunk), 0);
                        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
                                return;
                }
        }
}

int session_finish(Session *s, int exit_code, const char *message)
{
        int r = s->gone ? -EPIPE : add_status(s, exit_code, message);

        if (r >= 0)
                r = s->protocol->ops->end(s->protocol, STREAM_ERROR, &s->out);
        if (r >= 0)
                r = s->protocol->ops->close(s->protocol, &s->out);
        if (r >= 0)
                drain(s);
        return r;
}
