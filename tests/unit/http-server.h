/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* An HTTP(S) server for tests, on the loopback interface and a port that the kernel chooses. Its responses
 * are written by a function, as arbitrary bytes, not necessarily valid HTTP:
 *
 *     static void hello(Connection *c)
 *     {
 *             answer(c, "200 OK", "", "hello");
 *     }
 *
 *     SERVER(s, hello);
 *
 * Each connection has a thread, gets one answer, and is closed. With a certificate it speaks TLS.
 */

#include <arpa/inet.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "basic/basic.h"

#define SERVER_CONNECTIONS_MAX 64U
#define SERVER_REQUEST_MAX 16384U

typedef struct Server Server;

typedef struct Connection {
        Server *server;
        int fd;
        SSL *ssl;
        unsigned n;                       /* of this request, from 1 on */
        char request[SERVER_REQUEST_MAX]; /* with all headers */
} Connection;

struct Server {
        int fd;
        uint16_t port;
        SSL_CTX *tls;
        void (*handler)(Connection *c);
        const void *userdata;
        atomic_uint n_requests;
        atomic_bool stopping;
        pthread_t thread;
        bool running;
        pthread_mutex_t lock;
        pthread_t threads[SERVER_CONNECTIONS_MAX];
        int fds[SERVER_CONNECTIONS_MAX];
        unsigned n_threads;
        char last[SERVER_REQUEST_MAX]; /* the last request */
};

/* --- Answers ------------------------------------------------------------------------------------------- */

/* Whether it was taken; the client may be gone. */
static inline bool say_bytes(Connection *c, const void *p, size_t n)
{
        if (c->ssl)
                return n == 0 || SSL_write(c->ssl, p, (int) n) == (int) n;
        for (size_t done = 0; done < n;) {
                ssize_t k = send(c->fd, (const char *) p + done, n - done, MSG_NOSIGNAL);
                if (k <= 0)
                        return false;
                done += (size_t) k;
        }
        return true;
}

__attribute__((format(printf, 2, 3))) static inline bool say(Connection *c, const char *format, ...)
{
        char text[8192];
        va_list ap;

        va_start(ap, format);
        int n = vsnprintf(text, sizeof(text), format, ap);
        va_end(ap);
        return n >= 0 && (size_t) n < sizeof(text) && say_bytes(c, text, (size_t) n);
}

/* HEADERS: complete lines with \r\n. */
static inline bool answer(Connection *c, const char *status, const char *headers, const char *body)
{
        return say(c, "HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: %zu\r\n%s\r\n%s", status,
                   strlen(body), headers, body);
}

/* Until the test ends the server, or for a second. */
static inline void server_stall(Connection *c)
{
        for (unsigned i = 0; i < 300 && !c->server->stopping; i++)
                usleep(10000);
}

/* The value of a header of the request in BUFFER; NULL: it has none. */
static inline const char *asked(const char *request, const char *name, char *buffer, size_t size)
{
        size_t n = strlen(name);

        for (const char *p = strstr(request, "\r\n"); p; p = strstr(p, "\r\n")) {
                p += 2;
                if (strncasecmp(p, name, n) != 0 || p[n] != ':')
                        continue;
                p += n + 1 + strspn(p + n + 1, " ");
                snprintf(buffer, size, "%.*s", (int) strcspn(p, "\r\n"), p);
                return buffer;
        }
        return NULL;
}

static inline bool asks_for(const Connection *c, const char *path)
{
        const char *p = strchr(c->request, ' ');

        return p && strncmp(p + 1, path, strlen(path)) == 0 && strchr(" ?", p[1 + strlen(path)]);
}

/* --- Serving ------------------------------------------------------------------------------------------- */

static inline bool read_request(Connection *c)
{
        size_t size = 0;

        while (size < sizeof(c->request) - 1) {
                size_t left = sizeof(c->request) - 1 - size;
                ssize_t n = c->ssl ? SSL_read(c->ssl, c->request + size, (int) left)
                                   : recv(c->fd, c->request + size, left, 0);
                if (n <= 0)
                        return false;
                size += (size_t) n;
                c->request[size] = 0;
                /* A TLS client of a server without TLS gets a response, too. */
                if (strstr(c->request, "\r\n\r\n") || c->request[0] == 0x16)
                        return true;
        }
        return false;
}

static inline void *serve_connection(void *userdata)
{
        Connection *c = userdata;
        Server *s = c->server;

        bool good = true;
        if (s->tls) {
                c->ssl = SSL_new(s->tls);
                good = c->ssl && SSL_set_fd(c->ssl, c->fd) == 1 && SSL_accept(c->ssl) == 1;
        }
        if (good && read_request(c)) {
                c->n = ++s->n_requests;
                (void) pthread_mutex_lock(&s->lock);
                memcpy(s->last, c->request, sizeof(s->last));
                (void) pthread_mutex_unlock(&s->lock);
                s->handler(c);
                if (c->ssl)
                        (void) SSL_shutdown(c->ssl);
        }
        if (c->ssl)
                SSL_free(c->ssl);
        /* Read until the client closes, or data that it has not read yet may be lost. */
        (void) shutdown(c->fd, SHUT_WR);
        free(c);
        return NULL;
}

static inline void *serve(void *userdata)
{
        Server *s = userdata;

        while (!s->stopping) {
                int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC);
                if (fd < 0)
                        continue;
                Connection *c = s->n_threads < SERVER_CONNECTIONS_MAX ? calloc(1, sizeof(Connection)) : NULL;
                if (!c) {
                        close(fd);
                        continue;
                }
                c->server = s;
                c->fd = fd;
                s->fds[s->n_threads] = fd;
                if (pthread_create(&s->threads[s->n_threads], NULL, serve_connection, c) != 0)
                        abort();
                s->n_threads++;
        }
        return NULL;
}

static inline int server_listen(Server *s, void (*handler)(Connection *))
{
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t n = sizeof(a);

        *s = (Server){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), .handler = handler};
        (void) signal(SIGPIPE, SIG_IGN); /* of SSL_write() */
        (void) pthread_mutex_init(&s->lock, NULL);
        if (s->fd < 0 || bind(s->fd, (struct sockaddr *) &a, n) < 0 || listen(s->fd, 16) < 0 ||
            getsockname(s->fd, (struct sockaddr *) &a, &n) < 0)
                return -errno;
        s->port = ntohs(a.sin_port);
        return 0;
}

static inline int server_start(Server *s)
{
        if (pthread_create(&s->thread, NULL, serve, s) != 0)
                return -EAGAIN;
        s->running = true;
        return 0;
}

static inline void server_done(Server *s)
{
        s->stopping = true;
        (void) shutdown(s->fd, SHUT_RDWR);
        if (s->running)
                (void) pthread_join(s->thread, NULL);
        for (unsigned i = 0; i < s->n_threads; i++)
                (void) shutdown(s->fds[i], SHUT_RDWR);
        for (unsigned i = 0; i < s->n_threads; i++) {
                (void) pthread_join(s->threads[i], NULL);
                close(s->fds[i]);
        }
        if (s->fd >= 0)
                close(s->fd);
        if (s->tls)
                SSL_CTX_free(s->tls);
        s->fd = -1;
}

#define SERVER(s, handler_)                                                                                 \
        _cleanup_(server_done) Server s = {.fd = -1};                                                       \
        ASSERT_OK(server_listen(&s, handler_));                                                             \
        ASSERT_OK(server_start(&s))

/* --- TLS ----------------------------------------------------------------------------------------------- */

/* A certificate for NAMES ("IP:127.0.0.1", "DNS:example.com") that signs itself, valid from and to so many
 * seconds from now, written to FILE for clients that trust it. */
static inline SSL_CTX *make_tls(const char *names, long from, long to, const char *file)
{
        EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
        X509 *x = X509_new();
        SSL_CTX *tls = SSL_CTX_new(TLS_server_method());
        X509_EXTENSION *alt = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, names);
        X509_NAME *name = X509_NAME_new();

        bool good = key && x && tls && alt && name &&
                    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *) "test", -1,
                                               -1, 0) &&
                    X509_set_version(x, 2) && ASN1_INTEGER_set(X509_get_serialNumber(x), 1) &&
                    X509_gmtime_adj(X509_getm_notBefore(x), from) &&
                    X509_gmtime_adj(X509_getm_notAfter(x), to) && X509_set_subject_name(x, name) &&
                    X509_set_issuer_name(x, name) && X509_set_pubkey(x, key) && X509_add_ext(x, alt, -1) &&
                    X509_sign(x, key, EVP_sha256()) > 0 && SSL_CTX_use_certificate(tls, x) == 1 &&
                    SSL_CTX_use_PrivateKey(tls, key) == 1;
        FILE *f = good && file ? fopen(file, "we") : NULL;
        if (f) {
                good = PEM_write_X509(f, x) == 1;
                (void) fclose(f);
        }
        X509_NAME_free(name);
        X509_EXTENSION_free(alt);
        X509_free(x);
        EVP_PKEY_free(key);
        if (!good) {
                SSL_CTX_free(tls);
                tls = NULL;
        }
        return tls;
}
