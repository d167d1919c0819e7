/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* cri/streaming/: the streams of Exec, Attach and PortForward, as clients of the CRI open them: by an HTTP request to a URL with
 * a token that is valid once, upgraded to WebSocket (v5.channel.k8s.io down to channel.k8s.io, also in base64) or SPDY/3.1.
 *
 * The server accepts connections and reads the heads of their requests. Each stream has a process of its own, which outlives
 * the server: what a client sends is parsed there. */

#include <systemd/sd-event.h>

#include "basic/basic.h"

/* --- server.c: the listening socket, and the tokens ---------------------------------------------------- */

#define STREAM_TOKENS_MAX 1000U
#define STREAM_TOKENS_SIZE_MAX (64U * 1024U * 1024U) /* bytes of their data */
#define STREAM_TOKEN_USEC (60 * UINT64_C(1000000))
#define STREAM_HEAD_USEC (10 * UINT64_C(1000000)) /* in which a client sends its request */
#define STREAM_CONNECTIONS_MAX 256U               /* whose requests are not complete */
#define STREAM_PROCESSES_MAX 256U

typedef struct StreamServer StreamServer;
typedef struct Session Session;

/* In a process of its own: serves a stream that was requested with the DATA of SIZE bytes and the number KIND. The streams
 * are open when it is called. It ends the session with session_finish(). */
typedef void (*StreamFunction)(Session *s, unsigned kind, const void *data, size_t size, void *userdata);

/* --- wire.c: the certificate --------------------------------------------------------------------------- */

typedef struct StreamTls StreamTls;

/* Of PEM files: a certificate, with those of authorities that lead to its issuer, and its key. Changed files are read again. */
int stream_tls_new(const char *cert, const char *key, StreamTls **ret, Error *e);
StreamTls *stream_tls_free(StreamTls *t);
DEFINE_TRIVIAL_CLEANUP_FUNC(StreamTls *, stream_tls_free);

/* Listens on PORT of 127.0.0.1; 0: any that is free. EVENT, TLS (NULL: plain connections) and USERDATA are lent. KEPT_FD is the one
 * descriptor, besides that of the session, which processes have of this one. */
int stream_server_new(sd_event *event, uint16_t port, StreamTls *tls, int kept_fd, StreamFunction function,
                      void *userdata, StreamServer **ret, Error *e);
/* Streams go on. NULL is fine. */
StreamServer *stream_server_free(StreamServer *s);
DEFINE_TRIVIAL_CLEANUP_FUNC(StreamServer *, stream_server_free);
/* Makes a URL by which a client can open the stream once, within a minute: "http://127.0.0.1:PORT/NAME/TOKEN",
 * or https with TLS. A copy of DATA
 * is kept as long. STREAMS are those that the client has to open, as bits of StreamChannel. -EUSERS: too many are not used. */
typedef struct StreamOffer {
        const char *name; /* "exec", "attach" or "portforward" */
        unsigned kind;
        unsigned streams;
        bool forwards;    /* ports: the client opens streams at any time */
        unsigned n_ports; /* that were requested */
        const void *data;
        size_t size;
} StreamOffer;
/* For tests: other times than STREAM_TOKEN_USEC and STREAM_HEAD_USEC, of URLs and connections that come later. */
void stream_server_set_times(StreamServer *s, uint64_t token_usec, uint64_t head_usec);
/* How many streams are open. */
size_t stream_server_processes(const StreamServer *s);
int stream_server_offer(StreamServer *s, const StreamOffer *o, char **ret_url, Error *e);

/* --- session.c: in the process ------------------------------------------------------------------------- */

typedef enum StreamChannel {
        STREAM_STDIN,
        STREAM_STDOUT,
        STREAM_STDERR,
        STREAM_ERROR,
        STREAM_RESIZE,
        _STREAM_CHANNEL_MAX,
} StreamChannel;

#define STREAM_BIT(channel) (1U << (channel))

typedef struct SessionHandler {
        /* More to wait for; -EBADF: nothing. READY is called when it is readable: 1: go on; 0: it has ended, the rest of the
         * output is still passed on; negative: the session fails with that. */
        int fd;
        int (*ready)(void *userdata);
        /* How long outputs that do not end are waited for after that, as other processes hold them; 0: until they end. */
        uint64_t drain_usec;
        /* The client has closed its standard input, and all of it was written. May be NULL. */
        void (*input_ended)(void *userdata);
        /* The size of the client's terminal. May be NULL. */
        void (*resized)(uint16_t rows, uint16_t columns, void *userdata);
        void *userdata;
} SessionHandler;

/* What the client sends as standard input is written to FD, which is taken over, and is closed at its end. */
void session_set_input(Session *s, int fd);
/* What is read from FD, which is taken over, is sent on CHANNEL. */
void session_set_output(Session *s, StreamChannel channel, int fd);
/* The same with new pipes for those of STREAM_STDIN, STREAM_STDOUT and STREAM_STDERR that are WANTED; their other ends are in RET_FDS, of
 * which the others stay as they are. */
int session_add_pipes(Session *s, const bool wanted[static 3], int ret_fds[static 3], Error *e);
/* Passes streams on, until the handler's descriptor and all outputs have ended, or these were drained. -EPIPE: the client is gone; -EPROTO: what it
 * has sent is not valid. */
int session_run(Session *s, const SessionHandler *h);
/* Sends how the stream has ended, in the form of the version that was chosen, and closes the connection in order. MESSAGE
 * is NULL unless there was a failure other than the exit code. Streams that forward ports have no such end. */
int session_finish(Session *s, int exit_code, const char *message);

/* --- forward.c: the same for streams that forward ports ------------------------------------------------ */

#define FORWARDS_MAX 100U /* connections of a session at a time */

typedef struct ForwardHandler {
        /* Connects to a port, in a process of its own: may wait, and enter namespaces. */
        int (*connect)(uint16_t port, void *userdata, int *ret_fd, Error *e);
        /* Readable when connections are not possible any more, those that there are included; -EBADF: it is not known. */
        int fd;
        const char *ended;     /* the message to the client when FD is readable */
        const uint16_t *ports; /* that were requested: with WebSocket they are connected at once */
        size_t n_ports;
        void *userdata;
} ForwardHandler;

/* Passes connections on until the client, or the target, has ended. The same errors as of session_run(). */
int session_forward(Session *s, const ForwardHandler *h);
