/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One request and its answer.
 *
 * Uses libcurl, with all implicit behaviour disabled: it follows no redirect (follow.c does), sends no
 * credentials except the given header, and speaks http and https only. The loop around it waits for three
 * events at once: the network, the end of the operation, and a stalled server. All sizes are checked while data is
 * received, regardless of announced sizes.
 */

#include <sys/socket.h>

#include "prepare/transfer/transfer-internal.h"

#include "config.h"

#define HEADERS_SIZE_MAX (256U << 10) /* bytes of all headers of an answer */
#define HEADERS_MAX 1000U             /* lines of them */
#define ERROR_BODY_KEPT 4096U         /* bytes of the page that comes with an error */
#define ERROR_BODY_MAX (64U << 10)    /* bytes of it that are read before the connection is dropped */
#define STALL_SIZE 1024U              /* fewer bytes than that in the stall time-out is nothing */
#define PROGRESS_USEC (100 * 1000ULL)
#define AUTHORITIES_SIZE_MAX (8U << 20) /* bytes of a file of certificates */
#define POLL_MSEC 1000                  /* at most; it is the stall that has to be noticed in time */

void exchange_done(Exchange *x)
{
        for (struct curl_slist *l = x->headers; l; l = l->next)
                explicit_bzero(l->data, strlen(l->data));
        curl_slist_free_all(x->headers);
        x->headers = NULL;
        response_done(&x->response);
        text_done(&x->error_body);
        error_done(&x->error);
}

/* --- What libcurl calls -------------------------------------------------------------------------------- */

/* Keeps the reason of a failure; the return value tells libcurl to stop. */
static size_t stop(Exchange *x, int r)
{
        x->result = r;
        return 0;
}

static size_t on_header(char *data, size_t size, size_t n, void *userdata)
{
        Exchange *x = userdata;

        x->header_size += n;
        if (++x->n_headers <= HEADERS_MAX && x->header_size <= HEADERS_SIZE_MAX)
                return n;
        return stop(x, exchange_error(x, &x->error, -EFBIG,
                                      "the server sends more than %u KiB or %u lines of headers",
                                      HEADERS_SIZE_MAX >> 10, HEADERS_MAX));
}

static bool is_success(unsigned status)
{
        return status >= 200 && status < 300;
}

static int too_large(Exchange *x)
{
        return exchange_error(x, &x->error, -EFBIG,
                              "it is larger than %llu bytes, which is the limit for it",
                              (unsigned long long) x->sink->size_max);
}

static int begin(Exchange *x)
{
        x->begun = true;
        int r = response_read(x->easy, &x->response);
        if (r < 0)
                return error_oom(&x->error);
        if (!is_success(x->response.status))
                return 0;
        if (x->response.length_is_absurd)
                return exchange_error(x, &x->error, -EBADMSG, "the server announces an impossible length");
        r = x->sink->begin(x->sink, &x->response, &x->error);
        if (r < 0) {
                x->again = r == -ESTALE ? AGAIN_AT_ONCE : AGAIN_NEVER;
                return x->error.message ? exchange_error(x, &x->error, r, NULL) : r;
        }
        if (x->sink->total != UNKNOWN && x->sink->total > x->sink->size_max)
                return too_large(x);
        return 0;
}

static void show_progress(Exchange *x, bool always)
{
        const TransferRequest *q = x->request;
        uint64_t now = now_usec(CLOCK_MONOTONIC);

        if (!q->progress || (!always && now - x->sink->shown_usec < PROGRESS_USEC))
                return;
        x->sink->shown_usec = now;
        q->progress(x->sink->done, x->sink->total == UNKNOWN ? 0 : x->sink->total, q->userdata);
}

static int keep_body(Exchange *x, const void *data, size_t n)
{
        const Sink *s = x->sink;

        if (s->done > s->size_max || n > s->size_max - s->done)
                return too_large(x);
        if (s->total != UNKNOWN && (s->done > s->total || n > s->total - s->done))
                return exchange_error(x, &x->error, -EBADMSG,
                                      "the server sends more than the announced %llu bytes",
                                      (unsigned long long) s->total);
        int r = x->sink->write(x->sink, data, n, &x->error);
        if (r < 0)
                return x->error.message ? exchange_error(x, &x->error, r, NULL) : r;
        x->sink->done += n;
        show_progress(x, false);
        return 0;
}

static size_t on_body(char *data, size_t size, size_t n, void *userdata)
{
        Exchange *x = userdata;
        int r = x->begun ? 0 : begin(x);

        if (r < 0)
                return stop(x, r);
        x->body_size += n;
        if (is_success(x->response.status)) {
                r = keep_body(x, data, n);
                return r < 0 ? stop(x, r) : n;
        }
        if (x->error_body.size < ERROR_BODY_KEPT)
                text_add_bytes(&x->error_body, data, MIN(n, ERROR_BODY_KEPT - x->error_body.size));
        if (x->body_size <= ERROR_BODY_MAX)
                return n;
        x->enough = true; /* the status has said it */
        return 0;
}

/* Close-on-exec, so that programs started meanwhile do not inherit connections. */
static curl_socket_t on_socket(void *userdata, curlsocktype purpose, struct curl_sockaddr *a)
{
        return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

/* --- Setting it up ------------------------------------------------------------------------------------- */

static int add_header(Exchange *x, const char *line)
{
        struct curl_slist *l = curl_slist_append(x->headers, line);

        if (!l)
                return error_oom(&x->error);
        x->headers = l;
        return 0;
}

/* What we have already. Dates are for servers that have no ETags (RFC 9110, 13.1.3). */
static int add_condition(Exchange *x)
{
        const char *etag = x->request->etag, *date = x->request->last_modified;
        _cleanup_free_ char *line = NULL;

        if (!etag && !date)
                return 0;
        int r = xasprintf(&line, "%s: %s", etag ? "If-None-Match" : "If-Modified-Since", etag ?: date);
        return r < 0 ? r : add_header(x, line);
}

static int set_headers(Exchange *x)
{
        int r = add_condition(x);

        if (r < 0)
                return r;
        if (x->sink->headers)
                r = x->sink->headers(x->sink, &x->headers);
        if (r < 0)
                return r;
        return curl_easy_setopt(x->easy, CURLOPT_HTTPHEADER, x->headers) == CURLE_OK ? 0 : -ENOMEM;
}

static long to_msec(uint64_t usec)
{
        return (long) MIN(usec / 1000 + (usec % 1000 != 0), (uint64_t) INT32_MAX);
}

#define SET(option, value) ((code) = (code) != CURLE_OK ? (code) : curl_easy_setopt(easy, (option), (value)))

/* Of our own configuration, or else of the request. */
static CURLcode set_client_certificate(Exchange *x, CURL *easy)
{
        const Credential *c = x->request->no_certificate ? NULL : x->credential;
        const TransferTls *tls = c ? x->request->tls : NULL; /* no credential: another host */
        CURLcode code = CURLE_OK;

        if (c && c->certificate) {
                SET(CURLOPT_SSLCERT, c->certificate);
                SET(CURLOPT_SSLKEY, c->key ?: c->certificate);
        } else if (tls && tls->certificate) {
                SET(CURLOPT_SSLCERT, tls->certificate);
                SET(CURLOPT_SSLKEY, tls->key);
        }
        return code;
}

static CURLcode set_security(Exchange *x, CURL *easy)
{
        const Transfer *t = x->transfer;
        unsigned insecure = x->insecure;
        bool check = !(insecure & INSECURE_TLS);
        CURLcode code = CURLE_OK;

        SET(CURLOPT_PROTOCOLS_STR, insecure & INSECURE_HTTP ? "http,https" : "https");
        SET(CURLOPT_FOLLOWLOCATION, 0L);
        SET(CURLOPT_SSLVERSION, (long) CURL_SSLVERSION_TLSv1_2);
        SET(CURLOPT_SSL_VERIFYPEER, check ? 1L : 0L);
        SET(CURLOPT_SSL_VERIFYHOST, check ? 2L : 0L);
        if (t->ca_file) {
                SET(CURLOPT_CAINFO, t->ca_file);
                SET(CURLOPT_PROXY_CAINFO, t->ca_file);
        }
        if (t->ca_dir) {
                SET(CURLOPT_CAPATH, t->ca_dir);
                SET(CURLOPT_PROXY_CAPATH, t->ca_dir);
        }
        return code == CURLE_OK ? set_client_certificate(x, easy) : code;
}

/* A text of authorities takes the place of libcurl's file, but not of its directory; so that file comes
 * first. */
static int set_authorities(Exchange *x)
{
        const TransferTls *tls = x->request->tls;
        _cleanup_free_ char *own = NULL, *text = NULL;
        const char *file = x->transfer->ca_file;
        size_t size = 0, text_size;
        _cleanup_text_ Text t = {};

        if (!tls || !tls->authorities)
                return 0;
        if (!file)
                (void) curl_easy_getinfo(x->easy, CURLINFO_CAINFO, &file);
        int r = file ? read_file_at(AT_FDCWD, file, AUTHORITIES_SIZE_MAX, &own, &size) : 0;
        if (r < 0 && r != -ENOENT)
                return error_set_errno(&x->error, r, "Cannot read the trusted authorities in %s", file);
        text_add_bytes(&t, own ?: "", size);
        text_addf(&t, "\n%s", tls->authorities);
        if (text_take(&t, &text, &text_size) < 0)
                return error_oom(&x->error);
        struct curl_blob blob = {.data = text, .len = text_size, .flags = CURL_BLOB_COPY};
        return curl_easy_setopt(x->easy, CURLOPT_CAINFO_BLOB, &blob) == CURLE_OK ? 0 : error_oom(&x->error);
}

static CURLcode set_options(Exchange *x, CURL *easy)
{
        CURLcode code = set_security(x, easy);

        SET(CURLOPT_URL, x->url);
        if (x->request->form) {
                SET(CURLOPT_POSTFIELDSIZE, (long) strlen(x->request->form));
                SET(CURLOPT_POSTFIELDS, x->request->form);
        }
        SET(CURLOPT_USERAGENT, "acnspawn/" ACNSPAWN_VERSION);
        SET(CURLOPT_NOSIGNAL, 1L);
        SET(CURLOPT_QUICK_EXIT, 1L); /* do not wait for the name server when the operation ends */
        SET(CURLOPT_CONNECTTIMEOUT_MS, to_msec(x->transfer->options.connect_timeout_usec));
        SET(CURLOPT_TCP_KEEPALIVE, 1L);
        SET(CURLOPT_OPENSOCKETFUNCTION, on_socket);
        SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
        SET(CURLOPT_ERRORBUFFER, x->detail);
        SET(CURLOPT_PRIVATE, x);
        SET(CURLOPT_HEADERFUNCTION, on_header);
        SET(CURLOPT_HEADERDATA, x);
        SET(CURLOPT_WRITEFUNCTION, on_body);
        SET(CURLOPT_WRITEDATA, x);
        /* A libcurl without HTTP/2 stays with HTTP/1.1, and one with a buffer at hand keeps that. */
        (void) curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 256L << 10);
        (void) curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_2TLS);
        return code;
}

/* --- The loop ------------------------------------------------------------------------------------------ */

/* Before the request is sent it is the time-out of the connection that counts. */
static int check_stall(Exchange *x)
{
        uint64_t now = now_usec(CLOCK_MONOTONIC), size = x->header_size + x->body_size;
        uint64_t limit = x->transfer->options.stall_timeout_usec;
        curl_off_t sent = 0;

        (void) curl_easy_getinfo(x->easy, CURLINFO_PRETRANSFER_TIME_T, &sent);
        if (sent == 0)
                return 0;
        if (x->window_usec == 0 || size - x->window_size >= STALL_SIZE) {
                x->window_usec = now;
                x->window_size = size;
        }
        if (now - x->window_usec < limit)
                return 0;
        x->again = size == 0 ? AGAIN_IF_NOT_PROBE : AGAIN_LATER;
        if (size == 0)
                return exchange_error(x, &x->error, -ETIMEDOUT, "the server has not answered within %g s",
                                      (double) limit / 1e6);
        return exchange_error(x, &x->error, -ETIMEDOUT,
                              "the transfer has stalled: %llu bytes within %g s, after %llu bytes",
                              (unsigned long long) (size - x->window_size), (double) limit / 1e6,
                              (unsigned long long) x->sink->done);
}

/* Adds NOW as a sample, if the last one is old enough that SPEED_SAMPLES of them cover WINDOW. */
static void add_sample(Sink *s, SpeedSample now, uint64_t window)
{
        if (s->n_samples > 0 && now.usec - s->samples[s->n_samples - 1].usec < window / (SPEED_SAMPLES - 2))
                return;
        if (s->n_samples == SPEED_SAMPLES) {
                memmove(s->samples, s->samples + 1, sizeof(SpeedSample) * (SPEED_SAMPLES - 1));
                s->n_samples--;
        }
        s->samples[s->n_samples++] = now;
}

/* The newest sample that is at least as old as the window, or NULL. */
static const SpeedSample *window_begin(const Sink *s, uint64_t now, uint64_t window)
{
        for (unsigned i = s->n_samples; i > 0; i--)
                if (now - s->samples[i - 1].usec >= window)
                        return s->samples + i - 1;
        return NULL;
}

static int check_answer(Exchange *x)
{
        if (x->answer_usec == 0 || x->header_size > 0 || now_usec(CLOCK_MONOTONIC) < x->answer_usec)
                return 0;
        x->again = AGAIN_NEVER;
        return exchange_error(x, &x->error, -ETIMEDOUT, "the server has not answered within %g s",
                              (double) x->transfer->options.answer_timeout_usec / 1e6);
}

/* A server that sends just enough not to stall could delay a transfer indefinitely: so the speed of its last
 * minutes is checked, including the requests by which it was resumed. The average of the whole transfer would
 * let a server that begins fast trickle for days. */
static int check_speed(Exchange *x)
{
        uint64_t now = now_usec(CLOCK_MONOTONIC), floor = x->transfer->options.speed_min;
        uint64_t window = x->transfer->options.speed_window_usec;

        if (x->window_usec == 0) /* it has not been sent */
                return 0;
        if (x->begin_usec == 0)
                x->begin_usec = now;
        const SpeedSample here = {.usec = x->sink->active_usec + (now - x->begin_usec),
                                  .size = x->sink->received + x->body_size};
        add_sample(x->sink, here, window);
        const SpeedSample *from = window_begin(x->sink, here.usec, window);
        if (floor == 0 || !from)
                return 0;
        uint64_t usec = here.usec - from->usec, size = here.size - from->size;
        if ((double) size * 1e6 >= (double) floor * (double) usec)
                return 0;
        x->again = AGAIN_NEVER;
        int r = exchange_error(x, &x->error, -ETIMEDOUT,
                               "the server is too slow: %llu bytes in the last %.0f s, less than %llu per "
                               "second",
                               (unsigned long long) size, (double) usec / 1e6, (unsigned long long) floor);
        return error_hint(
                        &x->error, r,
                        "If the network is not faster, set a lower limit with --min-speed=; 0 disables it.");
}

/* For the requests that follow. */
static void add_up(Exchange *x)
{
        if (x->begin_usec != 0)
                x->sink->active_usec += now_usec(CLOCK_MONOTONIC) - x->begin_usec;
        x->sink->received += x->body_size;
}

static int wait_for_something(Exchange *x, CURLM *multi)
{
        struct curl_waitfd wake = {.fd = operation_fd(x->transfer->options.operation),
                                   .events = CURL_WAIT_POLLIN};
        uint64_t stall = x->transfer->options.stall_timeout_usec / 4, now = now_usec(CLOCK_MONOTONIC);

        if (x->answer_usec > now && x->header_size == 0)
                stall = MIN(stall, x->answer_usec - now);

        CURLMcode m = curl_multi_poll(multi, &wake, wake.fd >= 0 ? 1 : 0,
                                      (int) MIN(to_msec(stall) + 1, (long) POLL_MSEC), NULL);
        if (m != CURLM_OK)
                return error_set(&x->error, -EIO, "Cannot wait for the network: %s", curl_multi_strerror(m));
        return operation_check(x->transfer->options.operation, &x->error);
}

/* 1: it has ended, with *RET. */
static int ended(CURLM *multi, CURLcode *ret)
{
        int left;

        for (CURLMsg *m; (m = curl_multi_info_read(multi, &left));)
                if (m->msg == CURLMSG_DONE) {
                        *ret = m->data.result;
                        return 1;
                }
        return 0;
}

static int drive(Exchange *x, CURLM *multi, CURLcode *ret)
{
        for (;;) {
                int running = 0;
                CURLMcode m = curl_multi_perform(multi, &running);

                if (m != CURLM_OK)
                        return error_set(&x->error, -EIO, "The transfer cannot be driven: %s",
                                         curl_multi_strerror(m));
                if (ended(multi, ret) > 0)
                        return 0;
                int r = operation_check(x->transfer->options.operation, &x->error);
                if (r >= 0)
                        r = check_answer(x);
                if (r >= 0)
                        r = check_stall(x);
                if (r >= 0)
                        r = check_speed(x);
                if (r >= 0 && x->deadline_usec != 0 && now_usec(CLOCK_MONOTONIC) >= x->deadline_usec)
                        r = exchange_error(x, &x->error, -ETIMEDOUT, "it takes too long");
                if (r >= 0)
                        r = wait_for_something(x, multi);
                if (r < 0)
                        return r;
        }
}

/* libcurl takes that time when everything is set up that comes before the request: proxy, TLS. */
static void note_connection(Exchange *x)
{
        curl_off_t usec = 0;

        (void) curl_easy_getinfo(x->easy, CURLINFO_PRETRANSFER_TIME_T, &usec);
        x->connected = usec > 0 || x->header_size > 0;
}

/* The address is used, as libcurl returns the name of a proxy only together with its password. */
static void note_peer(Exchange *x)
{
        char *address = NULL;
        long port = 0;

        (void) curl_easy_getinfo(x->easy, CURLINFO_PRIMARY_IP, &address);
        (void) curl_easy_getinfo(x->easy, CURLINFO_PRIMARY_PORT, &port);
        if (!isempty(address) && port > 0)
                snprintf(x->peer, sizeof(x->peer), strchr(address, ':') ? " at [%s]:%ld" : " at %s:%ld",
                         address, port);
}

/* The end of the answer, which may have had no body. */
static int finish(Exchange *x, CURLcode code)
{
        int r = 0;

        if (x->result < 0) /* the error of a callback takes precedence over libcurl's */
                return x->result;
        if (code != CURLE_OK && !(x->enough && code == CURLE_WRITE_ERROR))
                return exchange_explain(x, code, &x->error);
        if (!x->begun)
                r = begin(x);
        else if (!is_success(x->response.status) && response_read(x->easy, &x->response) < 0)
                return error_oom(&x->error);
        if (r < 0)
                return r;
        if (x->error_body.size > 0 && text_take(&x->error_body, &x->response.error_body, NULL) < 0)
                return error_oom(&x->error);
        if (!is_success(x->response.status))
                return 0;
        /* A part may be complete, and still not be all that was asked for. */
        if (x->sink->total != UNKNOWN && x->sink->done < x->sink->total)
                return exchange_explain(x, CURLE_PARTIAL_FILE, &x->error);
        show_progress(x, true);
        return 0;
}

static int run(Exchange *x, Handle *h)
{
        CURLcode code = CURLE_OK;

        x->easy = h->easy;
        if (set_options(x, h->easy) != CURLE_OK)
                return error_set(&x->error, -EIO,
                                 "libcurl does not know an option that is needed, or memory is short");
        int r = set_authorities(x);
        if (r < 0)
                return r;
        r = set_headers(x);
        if (r < 0)
                return error_oom(&x->error);
        if (curl_multi_add_handle(h->multi, h->easy) != CURLM_OK)
                return error_oom(&x->error);
        r = drive(x, h->multi, &code);
        add_up(x);
        note_connection(x);
        note_peer(x);
        if (r >= 0)
                r = finish(x, code);
        (void) curl_multi_remove_handle(h->multi, h->easy);
        return r;
}

int exchange_run(Exchange *x, Error *e)
{
        Operation *o = x->transfer->options.operation;
        Handle *h = NULL;

        int r = transfer_take_handle(x->transfer, &h, e);
        if (r < 0)
                return r;
        operation_message(o, LOG_LEVEL_DEBUG, "%s %s", x->request->form ? "POST" : "GET", x->shown);
        r = run(x, h);
        if (r >= 0)
                operation_message(o, LOG_LEVEL_DEBUG, "%s answers with status %u", x->shown,
                                  x->response.status);
        transfer_return_handle(x->transfer, h);
        x->easy = NULL;
        if (r < 0)
                (void) error_move(e, &x->error);
        return r;
}
