/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A stream in its process: passes on what comes from the client and what goes to it, with as little in memory as there is on
 * its way: nothing is read for a side that does not take it. */

#include <sys/ioctl.h>

#include "cri/streaming/streaming-internal.h"
#include "schema/schema.h"

#define CHUNK_SIZE 32768U
#define OPEN_USEC (30 * UINT64_C(1000000)) /* in which the client opens its streams */
#define IDLE_MSEC (4 * 3600 * 1000)        /* without a byte either way */
#define RESIZE_SIZE_MAX 1024U

typedef struct Output {
        int fd;      /* -EBADF: it has ended, or there is none */
        size_t left; /* what was there at the end of the handler, and was not read since */
} Output;

struct Session {
        Transport transport;
        Buffer input; /* from the client */
        int input_fd; /* -EBADF: it is not known yet, or not any more */
        bool input_ended, drops_input;
        Output outputs[_STREAM_CHANNEL_MAX];
        unsigned opened;
        char resize[RESIZE_SIZE_MAX];
        size_t n_resize;
        const SessionHandler *handler;
        uint64_t drain_until_usec; /* 0: outputs are waited for, whatever it takes */
};

Transport *session_transport(Session *s)
{
        return &s->transport;
}

Session *session_free(Session *s)
{
        if (!s)
                return NULL;
        transport_done(&s->transport);
        safe_close(s->input_fd);
        for (size_t i = 0; i < ELEMENTSOF(s->outputs); i++)
                safe_close(s->outputs[i].fd);
        buffer_done(&s->input);
        free(s);
        return NULL;
}

void session_set_input(Session *s, int fd)
{
        safe_close(s->input_fd);
        s->input_fd = fd;
        (void) fd_set_nonblocking(fd);
}

void session_set_output(Session *s, StreamChannel channel, int fd)
{
        s->outputs[channel].fd = fd;
        (void) fd_set_nonblocking(fd);
}

int session_add_pipes(Session *s, const bool wanted[static 3], int ret_fds[static 3], Error *e)
{
        for (unsigned i = STREAM_STDIN; i <= STREAM_STDERR; i++) {
                int fds[2];
                if (!wanted[i])
                        continue;
                if (pipe2(fds, O_CLOEXEC) < 0)
                        return error_set_errno(e, -errno, "Cannot create a pipe");
                if (i == STREAM_STDIN)
                        session_set_input(s, fds[1]);
                else
                        session_set_output(s, (StreamChannel) i, fds[0]);
                ret_fds[i] = fds[i != STREAM_STDIN];
        }
        return 0;
}

/* --- From the client ----------------------------------------------------------------------------------- */

static int on_opened(void *userdata, unsigned c, uint16_t port)
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

static int on_data(void *userdata, unsigned c, const uint8_t *data, size_t n)
{
        Session *s = userdata;

        if (c == STREAM_RESIZE)
                return take_sizes(s, data, n);
        if (c != STREAM_STDIN)
                return -EPROTO;
        if (!s->drops_input && !s->input_ended)
                text_add_bytes(&s->input.text, data, n);
        return s->input.text.failed ? -ENOMEM : 0;
}

static int on_ended(void *userdata, unsigned c)
{
        Session *s = userdata;

        if (c == STREAM_STDIN)
                s->input_ended = true;
        return 0;
}

static int on_closed(void *userdata)
{
        Session *s = userdata;

        s->transport.gone = true;
        return 0;
}

int session_new(const Wire *w, Protocol *p, const uint8_t *rest, size_t n_rest, const Text *out,
                Session **ret)
{
        _cleanup_(session_freep) Session *s = calloc(1, sizeof(Session));

        if (!s) {
                Wire own = *w;
                wire_done(&own);
                protocol_free(p);
                return -ENOMEM;
        }
        s->input_fd = -EBADF;
        for (size_t i = 0; i < ELEMENTSOF(s->outputs); i++)
                s->outputs[i].fd = -EBADF;
        int r = transport_init(&s->transport, w, p, rest, n_rest, out);
        if (r < 0)
                return r;
        s->transport.events = (ProtocolEvents){.opened = on_opened,
                                               .data = on_data,
                                               .ended = on_ended,
                                               .closed = on_closed,
                                               .userdata = s};
        *ret = TAKE_PTR(s);
        return 0;
}

/* What a command does not read is dropped, once it has closed its end. */
static void end_input(Session *s)
{
        s->input_fd = safe_close(s->input_fd);
        s->drops_input = true;
        buffer_done(&s->input);
}

static void write_input(Session *s)
{
        if (s->input_fd >= 0 && buffer_flush(&s->input, s->input_fd, false) < 0)
                end_input(s);
        if (s->input_fd < 0 || !s->input_ended || buffer_waiting(&s->input) > 0)
                return;
        end_input(s);
        if (s->handler && s->handler->input_ended)
                s->handler->input_ended(s->handler->userdata);
}

/* --- To the client ------------------------------------------------------------------------------------- */

static int end_output(Session *s, StreamChannel c)
{
        s->outputs[c].fd = safe_close(s->outputs[c].fd);
        return s->transport.protocol->ops->end(s->transport.protocol, c, &s->transport.out.text);
}

/* The end of a terminal is an error of reading. */
static int read_output(Session *s, StreamChannel c)
{
        uint8_t chunk[CHUNK_SIZE];
        ssize_t n = read(s->outputs[c].fd, chunk, sizeof(chunk));

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        if (n <= 0)
                return end_output(s, c);
        s->outputs[c].left -= MIN(s->outputs[c].left, (size_t) n);
        return s->transport.protocol->ops->send(s->transport.protocol, c, chunk, (size_t) n,
                                                &s->transport.out.text);
}

/* --- Altogether ---------------------------------------------------------------------------------------- */

enum { POLL_CLIENT, POLL_INPUT, POLL_HANDLER, POLL_OUTPUTS, _POLL_MAX = POLL_OUTPUTS + _STREAM_CHANNEL_MAX };

static void fill_poll(const Session *s, bool ended, struct pollfd fds[static _POLL_MAX])
{
        bool takes = buffer_waiting(&s->transport.out) < WAITING_MAX;

        fds[POLL_CLIENT] = transport_poll(&s->transport, takes && buffer_waiting(&s->input) < WAITING_MAX);
        fds[POLL_INPUT] = (struct pollfd){.fd = buffer_waiting(&s->input) > 0 ? s->input_fd : -1,
                                          .events = POLLOUT};
        fds[POLL_HANDLER] = (struct pollfd){.fd = ended ? -1 : s->handler->fd, .events = POLLIN};
        for (size_t i = 0; i < _STREAM_CHANNEL_MAX; i++)
                fds[POLL_OUTPUTS + i] =
                                (struct pollfd){.fd = takes ? s->outputs[i].fd : -1, .events = POLLIN};
}

/* The handler has ended: what is in the outputs by now is passed on, however long the client takes for it. */
static void begin_drain(Session *s)
{
        if (s->handler->drain_usec == 0)
                return;
        s->drain_until_usec = now_usec(CLOCK_MONOTONIC) + s->handler->drain_usec;
        for (size_t i = 0; i < ELEMENTSOF(s->outputs); i++) {
                int n = 0;
                if (s->outputs[i].fd >= 0 && ioctl(s->outputs[i].fd, FIONREAD, &n) >= 0 && n > 0)
                        s->outputs[i].left = (size_t) n;
        }
}

static bool has_outputs(const Session *s)
{
        bool drained = s->drain_until_usec > 0 && now_usec(CLOCK_MONOTONIC) >= s->drain_until_usec;

        for (size_t i = 0; i < ELEMENTSOF(s->outputs); i++)
                if (s->outputs[i].fd >= 0 && (!drained || s->outputs[i].left > 0))
                        return true;
        return false;
}

/* Other processes hold them. */
static int end_outputs(Session *s)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(s->outputs); i++)
                if (s->outputs[i].fd >= 0)
                        r = end_output(s, (StreamChannel) i);
        return r;
}

static int wait_msec(const Session *s)
{
        uint64_t now = now_usec(CLOCK_MONOTONIC);

        return s->drain_until_usec > now ? (int) ((s->drain_until_usec - now) / 1000) + 1 : IDLE_MSEC;
}

static int pass_on(Session *s, const struct pollfd fds[static _POLL_MAX])
{
        int r = transport_is_readable(&s->transport, fds[POLL_CLIENT].revents)
                                ? transport_receive(&s->transport)
                                : 0;

        for (size_t i = 0; r >= 0 && i < _STREAM_CHANNEL_MAX; i++)
                if (fds[POLL_OUTPUTS + i].fd >= 0 && fds[POLL_OUTPUTS + i].revents)
                        r = read_output(s, (StreamChannel) i);
        write_input(s);
        return r < 0 ? r : transport_flush(&s->transport);
}

int session_run(Session *s, const SessionHandler *h)
{
        bool ended = h->fd < 0;

        s->handler = h;
        int r = transport_take(&s->transport);
        write_input(s);
        while (r >= 0 && !s->transport.gone && (!ended || has_outputs(s))) {
                struct pollfd fds[_POLL_MAX];

                fill_poll(s, ended, fds);
                int timeout = wait_msec(s), n = poll(fds, _POLL_MAX, timeout);
                if ((n < 0 && errno == EINTR) || (n == 0 && timeout < IDLE_MSEC))
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : -ETIMEDOUT;
                r = pass_on(s, fds);
                if (r < 0 || ended || !fds[POLL_HANDLER].revents)
                        continue;
                r = h->ready(h->userdata);
                ended = r == 0;
                if (ended)
                        begin_drain(s);
                write_input(s); /* where it goes may be known now */
        }
        if (r >= 0 && !s->transport.gone)
                r = end_outputs(s);
        return r < 0 ? r : s->transport.gone ? -EPIPE : 0;
}

int session_begin(Session *s, unsigned streams)
{
        uint64_t end = now_usec(CLOCK_MONOTONIC) + OPEN_USEC;

        if (s->transport.protocol->implicit)
                s->opened = streams;
        int r = transport_take(&s->transport);
        while (r >= 0 && !s->transport.gone) {
                uint64_t now = now_usec(CLOCK_MONOTONIC);

                r = transport_flush(&s->transport);
                if (r < 0 || (buffer_waiting(&s->transport.out) == 0 && (s->opened & streams) == streams))
                        return r;
                if (now >= end)
                        return -ETIMEDOUT;
                struct pollfd p = transport_poll(&s->transport, true);
                int n = poll(&p, 1, (int) ((end - now) / 1000) + 1);
                if (n < 0 && errno != EINTR)
                        return -errno;
                if (n > 0 && transport_is_readable(&s->transport, p.revents))
                        r = transport_receive(&s->transport);
        }
        return r < 0 ? r : -EPIPE;
}

/* --- The end ------------------------------------------------------------------------------------------- */

static int add_details(json_object *o, int exit_code)
{
        json_object *details = json_object_new_object(), *causes = json_object_new_array(),
                    *cause = json_object_new_object();
        char number[16];

        snprintf(number, sizeof(number), "%d", exit_code);
        int r = json_member_add(o, "details", details);
        int q = json_member_add(r < 0 ? NULL : details, "causes", causes);
        r = json_list_append(q < 0 ? NULL : causes, cause);
        if (r >= 0)
                r = json_member_add_text(cause, "reason", "ExitCode");
        return r < 0 ? r : json_member_add_text(cause, "message", number);
}

static int make_status(json_object *o, int exit_code, const char *message, bool exited)
{
        bool failed = message;

        int r = json_member_add(o, "metadata", json_object_new_object());
        if (r >= 0)
                r = json_member_add_text(o, "status", failed ? "Failure" : "Success");
        if (r < 0 || !failed)
                return r;
        r = json_member_add_text(o, "message", message);
        if (r >= 0)
                r = json_member_add_text(o, "reason", exited ? "NonZeroExitCode" : "InternalError");
        if (r < 0)
                return r;
        return exited ? add_details(o, exit_code) : json_member_add(o, "code", json_object_new_int(500));
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
        if (s->transport.protocol->version < 4)
                return failed ? s->transport.protocol->ops->send(s->transport.protocol, STREAM_ERROR,
                                                                 (const uint8_t *) message, strlen(message),
                                                                 &s->transport.out.text)
                              : 0;
        _cleanup_json_ json_object *o = json_object_new_object();
        const char *json = make_status(o, exit_code, message, text) < 0 ? NULL : json_print(o);
        return json ? s->transport.protocol->ops->send(s->transport.protocol, STREAM_ERROR,
                                                       (const uint8_t *) json, strlen(json),
                                                       &s->transport.out.text)
                    : -ENOMEM;
}

int session_finish(Session *s, int exit_code, const char *message)
{
        bool status = !s->transport.protocol->forwards;
        int r = s->transport.gone ? -EPIPE : status ? add_status(s, exit_code, message) : 0;

        if (r >= 0 && status)
                r = s->transport.protocol->ops->end(s->transport.protocol, STREAM_ERROR,
                                                    &s->transport.out.text);
        return r < 0 ? r : transport_close(&s->transport);
}
