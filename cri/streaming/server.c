/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The server of streams: its tokens, its socket, and the heads of requests.
 *
 * It does no more than that: a request with a token that is known becomes a process, which gets the connection. */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "cri/streaming/streaming-internal.h"
#include "library/libsystemd.h"

#define TOKEN_BYTES 32U

typedef struct Token {
        char text[2 * TOKEN_BYTES + 1];
        char *name;
        StreamOffer offer; /* its data is of the token */
        uint64_t end_usec; /* it is not valid any more */
} Token;

/* A connection whose request is not complete. */
typedef struct Connection {
        struct Connection *next;
        StreamServer *server;
        Wire wire;
        sd_event_source *io, *timer;
        char head[HTTP_HEAD_SIZE_MAX];
        size_t n;
} Connection;

typedef struct Process {
        struct Process *next;
        StreamServer *server;
        pid_t pid;
        int fd; /* of a pipe whose other end it has until it ends */
        sd_event_source *io;
} Process;

struct StreamServer {
        sd_event *event;
        StreamFunction function;
        void *userdata;
        int fd, kept_fd;
        StreamTls *tls; /* NULL: without */
        uint16_t port;
        sd_event_source *accept;
        Token *tokens;
        size_t n_tokens, tokens_allocated;
        Connection *connections;
        Process *processes;
        size_t n_connections, n_processes;
        uint64_t token_usec, head_usec;
};

/* --- Tokens -------------------------------------------------------------------------------------------- */

static void token_done(Token *t)
{
        explicit_bzero(t->text, sizeof(t->text));
        free((void *) t->offer.data);
        free(t->name);
}

static void drop_token(StreamServer *s, size_t i)
{
        token_done(&s->tokens[i]);
        s->tokens[i] = s->tokens[--s->n_tokens];
}

static void expire_tokens(StreamServer *s)
{
        uint64_t now = now_usec(CLOCK_MONOTONIC);

        for (size_t i = s->n_tokens; i-- > 0;)
                if (s->tokens[i].end_usec <= now)
                        drop_token(s, i);
}

static int make_token(const StreamServer *s, const StreamOffer *o, Token *ret)
{
        static const char digits[] = "0123456789abcdef";
        uint8_t random[TOKEN_BYTES];
        Token t = {.offer = *o, .end_usec = now_usec(CLOCK_MONOTONIC) + s->token_usec};

        if (getrandom(random, sizeof(random), 0) != (ssize_t) sizeof(random))
                return -EIO;
        for (size_t i = 0; i < TOKEN_BYTES; i++) {
                t.text[2 * i] = digits[random[i] >> 4];
                t.text[2 * i + 1] = digits[random[i] & 15];
        }
        explicit_bzero(random, sizeof(random));
        t.name = strdup(o->name);
        t.offer.data = malloc(o->size + 1);
        if (!t.name || !t.offer.data) {
                token_done(&t);
                return -ENOMEM;
        }
        memcpy((void *) t.offer.data, o->data, o->size);
        t.offer.name = t.name;
        *ret = t;
        return 0;
}

static size_t size_of_tokens(const StreamServer *s)
{
        size_t size = 0;

        for (size_t i = 0; i < s->n_tokens; i++)
                size += s->tokens[i].offer.size;
        return size;
}

int stream_server_offer(StreamServer *s, const StreamOffer *o, char **ret_url, Error *e)
{
        Token t;

        expire_tokens(s);
        if (s->n_tokens >= STREAM_TOKENS_MAX || o->size > STREAM_TOKENS_SIZE_MAX - size_of_tokens(s))
                return error_set(
                                e, -EUSERS,
                                "Too many streams were requested and not opened: %u are kept, with %u bytes",
                                STREAM_TOKENS_MAX, STREAM_TOKENS_SIZE_MAX);
        if (GREEDY_REALLOC(s->tokens, s->tokens_allocated, s->n_tokens + 1) < 0 || make_token(s, o, &t) < 0)
                return error_oom(e);
        if (xasprintf(ret_url, "%s://127.0.0.1:%u/%s/%s", s->tls ? "https" : "http", s->port, o->name,
                      t.text) < 0) {
                token_done(&t);
                return error_oom(e);
        }
        s->tokens[s->n_tokens++] = t;
        return 0;
}

/* The token of a path; its text is compared in constant time. NULL: there is none. */
static Token *find_token(StreamServer *s, const char *path)
{
        const char *slash = strchr(path + 1, '/');

        expire_tokens(s);
        if (!slash || strlen(slash + 1) != 2 * (size_t) TOKEN_BYTES)
                return NULL;
        for (size_t i = 0; i < s->n_tokens; i++) {
                Token *t = &s->tokens[i];
                unsigned difference = 0;

                for (size_t k = 0; k < 2 * (size_t) TOKEN_BYTES; k++)
                        difference |= (unsigned) (t->text[k] ^ slash[1 + k]);
                if (difference == 0 && strlen(t->name) == (size_t) (slash - path - 1) &&
                    memcmp(t->name, path + 1, strlen(t->name)) == 0)
                        return t;
        }
        return NULL;
}

/* --- Processes ----------------------------------------------------------------------------------------- */

static void process_free(Process *p)
{
        Process **i = &p->server->processes;

        while (*i != p)
                i = &(*i)->next;
        *i = p->next;
        p->server->n_processes--;
        sd_event_source_disable_unref(p->io);
        safe_close(p->fd);
        free(p);
}

static int on_process_end(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        Process *p = userdata;

        while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR)
                ;
        process_free(p);
        return 0;
}

/* The others are the server's. */
static int close_others(int kept[static 3])
{
        unsigned from = STDERR_FILENO + 1;

        for (size_t i = 0; i < 3; i++)
                for (size_t k = i + 1; k < 3; k++)
                        if (kept[k] < kept[i]) {
                                int other = kept[i];
                                kept[i] = kept[k];
                                kept[k] = other;
                        }
        for (size_t i = 0; i < 3; from = (unsigned) kept[i++] + 1)
                if ((unsigned) kept[i] > from &&
                    syscall(SYS_close_range, from, (unsigned) kept[i] - 1, 0) < 0)
                        return -errno;
        return syscall(SYS_close_range, from, ~0U, 0) < 0 ? -errno : 0;
}

static void begin_process(void)
{
        static const int signals[] = {SIGTERM, SIGINT};
        sigset_t none;

        (void) prctl(PR_SET_NAME, "cri-stream");
        (void) signal(SIGPIPE, SIG_IGN);
        for (size_t i = 0; i < ELEMENTSOF(signals); i++)
                (void) signal(signals[i], SIG_DFL);
        (void) sigemptyset(&none);
        (void) sigprocmask(SIG_SETMASK, &none, NULL);
}

/* In the process. W is the connection; REST is what followed the head. */
static void serve_stream(const StreamServer *s, const StreamOffer *o, const Wire *w, const HttpHead *h,
                         const uint8_t *rest, size_t n)
{
        _cleanup_(session_freep) Session *session = NULL;
        _cleanup_text_ Text out = {};
        Protocol *p = NULL;

        int r = websocket_is_asked_for(h) ? websocket_accept(h, o, &p, &out) : spdy_accept(h, o, &p, &out);
        if (r >= 0)
                r = session_new(w, p, rest, n, &out, &session);
        if (r >= 0 && !o->forwards)
                r = session_begin(session, o->streams);
        if (r >= 0)
                s->function(session, o->kind, o->data, o->size, s->userdata);
}

static int start_process(StreamServer *s, Connection *c, const Token *t, const HttpHead *h, size_t head_size)
{
        int fds[2];

        if (s->n_processes >= STREAM_PROCESSES_MAX)
                return -EUSERS;
        Process *p = calloc(1, sizeof(Process));
        if (!p)
                return -ENOMEM;
        if (pipe2(fds, O_CLOEXEC) < 0) {
                free(p);
                return -errno;
        }
        (void) fflush(NULL);
        *p = (Process){.next = s->processes, .server = s, .fd = fds[0]};
        s->processes = p;
        s->n_processes++;
        p->pid = fork();
        if (p->pid == 0) {
                begin_process();
                if (close_others((int[]){c->wire.fd, s->kept_fd, fds[1]}) < 0)
                        _exit(1);
                serve_stream(s, &t->offer, &c->wire, h, (const uint8_t *) c->head + head_size,
                             c->n - head_size);
                _exit(0);
        }
        int r = p->pid < 0 ? -errno : 0;
        safe_close(fds[1]);
        if (r >= 0)
                r = sd_event_add_io(s->event, &p->io, p->fd, EPOLLIN, on_process_end, p);
        if (r < 0)
                process_free(p);
        return r;
}

/* --- Connections --------------------------------------------------------------------------------------- */

static void connection_free(Connection *c)
{
        Connection **i = &c->server->connections;

        while (*i != c)
                i = &(*i)->next;
        *i = c->next;
        c->server->n_connections--;
        sd_event_source_disable_unref(c->io);
        sd_event_source_disable_unref(c->timer);
        wire_done(&c->wire);
        free(c);
}

/* A client that does not read it at once does not get it. */
static void refuse(Connection *c, const char *status, const char *why)
{
        char text[512];

        int n = snprintf(text, sizeof(text),
                         "HTTP/1.1 %s\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: "
                         "%zu\r\n\r\n%s\n",
                         status, strlen(why) + 1, why);
        (void) wire_send(&c->wire, text, (size_t) n);
        wire_end(&c->wire);
}

/* The message of a request that cannot become a stream; NULL: it can. The protocols check the rest in the process. */
static const char *check_upgrade(const HttpHead *h, const StreamOffer *o)
{
        Protocol *p = NULL;
        _cleanup_text_ Text out = {};
        int r;

        if (websocket_is_asked_for(h))
                r = websocket_accept(h, o, &p, &out);
        else if (spdy_is_asked_for(h))
                r = spdy_accept(h, o, &p, &out);
        else
                return "Streams are served by an upgrade to websocket or SPDY/3.1";
        protocol_free(p);
        if (r == -ENODATA)
                return "Ports are forwarded by v4.channel.k8s.io only if the call of PortForward has listed them";
        if (r == -EPROTONOSUPPORT && o->forwards)
                return "The client requests no supported protocol: portforward.k8s.io over SPDY/3.1; "
                       "SPDY/3.1+portforward.k8s.io, v4.channel.k8s.io, v4.base64.channel.k8s.io over WebSocket";
        if (r == -EPROTONOSUPPORT)
                return "The client requests no supported protocol: v5.channel.k8s.io, v4.channel.k8s.io, "
                       "v4.base64.channel.k8s.io, channel.k8s.io, base64.channel.k8s.io over WebSocket; "
                       "v4.channel.k8s.io and earlier ones over SPDY/3.1";
        return r < 0 ? "The request is not valid" : NULL;
}

static void take_request(Connection *c, const HttpHead *h, size_t head_size)
{
        StreamServer *s = c->server;
        Token *t = find_token(s, h->path);
        const char *wrong;
        int r;

        if (!t) {
                refuse(c, "404 Not Found",
                       "There is no such stream: its URL was used, or is older than a minute");
                return;
        }
        wrong = check_upgrade(h, &t->offer);
        if (wrong) {
                refuse(c, "400 Bad Request", wrong);
                return;
        }
        r = start_process(s, c, t, h, head_size);
        if (r == -EUSERS)
                refuse(c, "503 Service Unavailable", "Too many streams are open");
        else if (r < 0)
                refuse(c, "500 Internal Server Error", "The stream cannot be served now");
        if (r >= 0)
                drop_token(s, (size_t) (t - s->tokens));
}

/* False: the connection has ended. */
static bool receive_head(Connection *c)
{
        HttpHead h;
        ssize_t n = wire_receive(&c->wire, c->head + c->n, sizeof(c->head) - c->n);

        if (n == -EAGAIN || n == -EINTR)
                return true;
        if (n <= 0)
                return false;
        c->n += (size_t) n;
        ssize_t size = http_head_parse(c->head, c->n, &h);
        if (size == 0)
                return true;
        if (size == -EMSGSIZE)
                refuse(c, "431 Request Header Fields Too Large", "The head of the request is too large");
        else if (size < 0)
                refuse(c, "400 Bad Request", "The request is not valid");
        else
                take_request(c, &h, (size_t) size);
        return false;
}

static int on_data(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        Connection *c = userdata;
        bool open;

        do
                open = receive_head(c);
        while (open && wire_has_data(&c->wire));
        if (open &&
            sd_event_source_set_io_events(source, EPOLLIN | (c->wire.wants_write ? EPOLLOUT : 0)) < 0)
                open = false;
        if (!open)
                connection_free(c);
        return 0;
}

static int on_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
        connection_free(userdata);
        return 0;
}

static int connection_new(StreamServer *s, int fd)
{
        Connection *c = malloc(sizeof(Connection));

        if (!c)
                return -ENOMEM;
        int r = wire_new(fd, s->tls, &c->wire);
        if (r < 0) {
                free(c);
                return r;
        }
        c->server = s;
        c->n = 0;
        c->io = c->timer = NULL;
        c->next = s->connections;
        s->connections = c;
        s->n_connections++;
        r = sd_event_add_io(s->event, &c->io, fd, EPOLLIN, on_data, c);
        if (r >= 0)
                r = sd_event_add_time_relative(s->event, &c->timer, CLOCK_MONOTONIC, s->head_usec, 0,
                                               on_timeout, c);
        if (r < 0) {
                c->wire.fd = -EBADF;
                connection_free(c);
        }
        return r;
}

/* Any process in the host's network can connect, and say nothing. When there are too many such connections, the oldest makes way: a
 * client sends its request at once, so that its connection is not among them for long. */
static void make_place(StreamServer *s)
{
        Connection *oldest = s->connections;

        if (s->n_connections < STREAM_CONNECTIONS_MAX)
                return;
        while (oldest->next)
                oldest = oldest->next;
        connection_free(oldest);
}

static int on_connection(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        StreamServer *s = userdata;
        const int on = 1;

        int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (client < 0)
                return 0;
        (void) setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        make_place(s);
        if (connection_new(s, client) < 0)
                safe_close(client);
        return 0;
}

/* --- The whole ----------------------------------------------------------------------------------------- */

static int listen_on(StreamServer *s, uint16_t port, Error *e)
{
        struct sockaddr_in a = {.sin_family = AF_INET,
                                .sin_port = htons(port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof(a);
        const int on = 1;

        s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (s->fd < 0)
                return error_set_errno(e, -errno, "Cannot create a socket");
        (void) setsockopt(s->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
        if (bind(s->fd, (struct sockaddr *) &a, sizeof(a)) < 0 || listen(s->fd, SOMAXCONN) < 0 ||
            getsockname(s->fd, (struct sockaddr *) &a, &size) < 0)
                return error_set_errno(e, -errno, "Cannot listen on port %u of 127.0.0.1 for streams", port);
        s->port = ntohs(a.sin_port);
        int r = sd_event_add_io(s->event, &s->accept, s->fd, EPOLLIN, on_connection, s);
        /* Without descriptors left it would be called again and again. */
        if (r >= 0)
                r = sd_event_source_set_ratelimit(s->accept, 1000000, 1000);
        return r < 0 ? error_set_errno(e, r, "Cannot watch the socket for streams") : 0;
}

int stream_server_new(sd_event *event, uint16_t port, StreamTls *tls, int kept_fd, StreamFunction function,
                      void *userdata, StreamServer **ret, Error *e)
{
        _cleanup_(stream_server_freep) StreamServer *s = calloc(1, sizeof(StreamServer));

        if (!s)
                return error_oom(e);
        *s = (StreamServer){.event = event,
                            .function = function,
                            .userdata = userdata,
                            .fd = -EBADF,
                            .tls = tls,
                            .kept_fd = kept_fd,
                            .token_usec = STREAM_TOKEN_USEC,
                            .head_usec = STREAM_HEAD_USEC};
        int r = listen_on(s, port, e);
        if (r >= 0)
                *ret = TAKE_PTR(s);
        return r;
}

void stream_server_set_times(StreamServer *s, uint64_t token_usec, uint64_t head_usec)
{
        s->token_usec = token_usec;
        s->head_usec = head_usec;
}

size_t stream_server_processes(const StreamServer *s)
{
        return s->n_processes;
}

StreamServer *stream_server_free(StreamServer *s)
{
        if (!s)
                return NULL;
        while (s->connections)
                connection_free(s->connections);
        while (s->processes)
                process_free(s->processes);
        while (s->n_tokens > 0)
                drop_token(s, s->n_tokens - 1);
        free(s->tokens);
        sd_event_source_disable_unref(s->accept);
        safe_close(s->fd);
        free(s);
        return NULL;
}
