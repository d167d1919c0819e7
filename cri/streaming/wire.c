/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The connection of a client: a socket, or TLS on it.
 *
 * The state of TLS is memory of the process, so a process that is forked for a stream goes on with the connection where the
 * server has left it; the server then forgets it without a word to the client. Sessions are not resumed. The certificate and its
 * key are read anew when their files have changed, as they do where certificates are renewed; if they cannot be read then,
 * connections are served with what was read before. */

#include <sys/socket.h>
#include <sys/stat.h>

#include "cri/streaming/streaming-internal.h"
#include "library/libcrypto.h"
#include "library/libssl.h"

typedef struct Stamp {
        dev_t device;
        ino_t inode;
        off_t size;
        struct timespec changed;
} Stamp;

struct StreamTls {
        char *cert, *key;
        Stamp stamps[2];
        SSL_CTX *context;
};

/* --- Certificates -------------------------------------------------------------------------------------- */

static int read_stamps(const char *cert, const char *key, Stamp ret[static 2])
{
        const char *paths[] = {cert, key};

        for (size_t i = 0; i < ELEMENTSOF(paths); i++) {
                struct stat st;
                if (stat(paths[i], &st) < 0)
                        return -errno;
                ret[i] = (Stamp){st.st_dev, st.st_ino, st.st_size, st.st_ctim};
        }
        return 0;
}

static bool stamps_are_equal(const Stamp a[static 2], const Stamp b[static 2])
{
        for (size_t i = 0; i < 2; i++)
                if (a[i].device != b[i].device || a[i].inode != b[i].inode || a[i].size != b[i].size ||
                    a[i].changed.tv_sec != b[i].changed.tv_sec ||
                    a[i].changed.tv_nsec != b[i].changed.tv_nsec)
                        return false;
        return true;
}

/* There is no terminal to ask at. */
static int refuse_password(char *buffer, int size, int writes, void *userdata)
{
        return 0;
}

static int fail(Error *e, const char *what, const char *path)
{
        const char *reason = ERR_reason_error_string(ERR_peek_error());

        return error_set(e, -EINVAL, "Cannot use '%s' as the %s of the streams: %s", path, what,
                         reason ?: "it is not valid");
}

static int check_readable(const char *path, const char *what, Error *e)
{
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

        return fd < 0 ? error_set_errno(e, -errno, "Cannot open '%s', the %s of the streams", path, what)
                      : 0;
}

static int load(const StreamTls *t, SSL_CTX *c, Error *e)
{
        int r = check_readable(t->cert, "certificate", e);

        if (r >= 0)
                r = check_readable(t->key, "key", e);
        if (r < 0)
                return r;
        ERR_clear_error();
        if (SSL_CTX_use_certificate_chain_file(c, t->cert) != 1)
                return fail(e, "certificate", t->cert);
        if (SSL_CTX_use_PrivateKey_file(c, t->key, SSL_FILETYPE_PEM) != 1 ||
            SSL_CTX_check_private_key(c) != 1)
                return fail(e, "key", t->key);
        return 0;
}

static int make_context(const StreamTls *t, SSL_CTX **ret, Error *e)
{
        SSL_CTX *c = SSL_CTX_new(TLS_server_method());

        if (!c)
                return error_oom(e);
        SSL_CTX_set_default_passwd_cb(c, refuse_password);
        (void) SSL_CTX_set_options(c, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION |
                                                      SSL_OP_IGNORE_UNEXPECTED_EOF);
        (void) SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                                   SSL_MODE_RELEASE_BUFFERS);
        (void) SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
        int r = SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION) == 1
                                ? load(t, c, e)
                                : error_set(e, -EINVAL, "The TLS library has no version 1.2");
        if (r < 0)
                SSL_CTX_free(c);
        else
                *ret = c;
        return r;
}

int stream_tls_new(const char *cert, const char *key, StreamTls **ret, Error *e)
{
        _cleanup_(stream_tls_freep) StreamTls *t = NULL;
        int r = library_load(&crypto_library, e);

        if (r >= 0)
                r = library_load(&ssl_library, e);
        if (r < 0)
                return r;
        t = calloc(1, sizeof(StreamTls));
        if (!t || !(t->cert = strdup(cert)) || !(t->key = strdup(key)))
                return error_oom(e);
        (void) read_stamps(cert, key, t->stamps); /* before they are read, which says what is wrong */
        r = make_context(t, &t->context, e);
        if (r >= 0)
                *ret = TAKE_PTR(t);
        return r;
}

StreamTls *stream_tls_free(StreamTls *t)
{
        if (!t)
                return NULL;
        if (t->context)
                SSL_CTX_free(t->context);
        free(t->cert);
        free(t->key);
        free(t);
        return NULL;
}

/* A failure is not repeated until the files change again. */
static void read_again(StreamTls *t)
{
        _cleanup_error_ Error e = ERROR_NULL;
        SSL_CTX *new = NULL;
        Stamp now[2];

        if (read_stamps(t->cert, t->key, now) < 0 || stamps_are_equal(now, t->stamps))
                return;
        memcpy(t->stamps, now, sizeof(now));
        int r = make_context(t, &new, &e);
        if (r < 0) {
                error_print(&e, r);
                return;
        }
        SSL_CTX_free(t->context); /* connections keep theirs */
        t->context = new;
}

/* --- Connections --------------------------------------------------------------------------------------- */

int wire_new(int fd, StreamTls *tls, Wire *ret)
{
        Wire w = {.fd = fd};

        if (tls) {
                read_again(tls);
                w.ssl = SSL_new(tls->context);
                if (!w.ssl)
                        return -ENOMEM;
                if (SSL_set_fd(w.ssl, fd) != 1) {
                        SSL_free(w.ssl);
                        return -ENOMEM;
                }
                SSL_set_accept_state(w.ssl);
        }
        *ret = w;
        return 0;
}

void wire_done(Wire *w)
{
        if (w->ssl)
                SSL_free(w->ssl);
        w->ssl = NULL;
        w->fd = safe_close(w->fd);
}

/* What the return value N of a function of TLS means. */
static ssize_t result(Wire *w, int n)
{
        int why = SSL_get_error(w->ssl, n);

        w->wants_write = why == SSL_ERROR_WANT_WRITE;
        if (n > 0)
                return n;
        if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)
                return -EAGAIN;
        return why == SSL_ERROR_ZERO_RETURN ? 0 : -ECONNRESET;
}

ssize_t wire_receive(Wire *w, void *p, size_t n)
{
        if (!w->ssl) {
                ssize_t k = recv(w->fd, p, n, MSG_DONTWAIT);
                return k < 0 ? -errno : k;
        }
        ERR_clear_error();
        return result(w, SSL_read(w->ssl, p, (int) MIN(n, (size_t) INT_MAX)));
}

ssize_t wire_send(Wire *w, const void *p, size_t n)
{
        if (!w->ssl) {
                ssize_t k = send(w->fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
                return k < 0 ? -errno : k;
        }
        ERR_clear_error();
        return result(w, SSL_write(w->ssl, p, (int) MIN(n, (size_t) INT_MAX)));
}

bool wire_has_data(const Wire *w)
{
        return w->ssl && SSL_pending(w->ssl) > 0;
}

void wire_end(Wire *w)
{
        if (w->ssl) {
                ERR_clear_error();
                (void) SSL_shutdown(w->ssl);
        }
        (void) shutdown(w->fd, SHUT_WR);
}
