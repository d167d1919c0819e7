/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Images that are encrypted by a passphrase (spec: aci.md, "Image Archives"), decrypted while they are read.
 *
 * A thread runs gpg between the file and a pipe, from which the importer reads. gpg outputs decrypted data
 * before it has verified it, as the integrity check is at the end of a message; so the data from the pipe is
 * valid only after decryption_finish() succeeds, and an image is not published before.
 *
 * Where gpg is too permissive, the input is checked in addition: exactly one message that is encrypted with
 * a passphrase and integrity-protected, and nothing after it.
 */

#include <poll.h>
#include <sys/eventfd.h>

#include "prepare/trust/trust-internal.h"

#define PIPE_SIZE (1 << 20)
#define SESSION_KEYS_MAX 16U /* passphrases that a message may be encrypted with */

struct Decryption {
        int fd;       /* the caller's: what is encrypted */
        int plain_fd; /* our end of the pipe; not blocking */
        int wake_fd;  /* readable: stop */
        int passphrase_fd;
        GpgHome home;
        gpgme_ctx_t context;
        GpgCall call;

        DecryptionObserve observe;
        void *userdata;

        pthread_t thread;
        bool running;

        /* The thread's while it runs. */
        PacketReader packets;
        unsigned n_session_keys;
        bool has_data, has_begun;
        uint64_t n_plain;
        gpgme_error_t result;
        Error error; /* found by these checks: takes precedence over gpg's error */
};

/* --- Format of encrypted images ------------------------------------------------------------------------ */

bool is_encrypted_data(const void *data, size_t size)
{
        static const char armor[] = "-----BEGIN PGP MESSAGE-----";
        const unsigned char *p = data;

        if (size >= strlen(armor) && memcmp(p, armor, strlen(armor)) == 0)
                return true;
        if (size < 8 || !(p[0] & 0x80))
                return false;
        bool is_new = p[0] & 0x40;
        int tag = is_new ? p[0] & 0x3f : p[0] >> 2 & 15;
        return tag == PACKET_SYMKEY_SESSION_KEY || tag == PACKET_PUBKEY_SESSION_KEY ||
               tag == PACKET_ENCRYPTED || tag == PACKET_ENCRYPTED_MDC || tag == PACKET_ENCRYPTED_AEAD;
}

bool is_encrypted(int fd)
{
        unsigned char head[32];
        off_t at = lseek(fd, 0, SEEK_CUR);
        ssize_t n = at < 0 ? -1 : pread(fd, head, sizeof(head), at);

        return n > 0 && is_encrypted_data(head, (size_t) n);
}

static int check_packet(int tag, const unsigned char *head, size_t n_head, uint64_t offset, void *userdata,
                        Error *e)
{
        Decryption *d = userdata;

        if (d->has_data)
                return error_set(e, -EBADMSG, "there is data after the encrypted message");
        if (tag == PACKET_ENCRYPTED)
                return error_set(e, -EBADMSG,
                                 "it has no integrity protection (MDC), so it could have been altered");
        if (tag == PACKET_PUBKEY_SESSION_KEY)
                return error_set(e, -EBADMSG, "it is encrypted to a public key, not by a passphrase");
        if (tag == PACKET_MARKER)
                return 0;
        if (tag == PACKET_SYMKEY_SESSION_KEY)
                return ++d->n_session_keys <= SESSION_KEYS_MAX
                                       ? 0
                                       : error_set(e, -E2BIG, "it is encrypted by more than %u passphrases",
                                                   SESSION_KEYS_MAX);
        d->has_data = tag == PACKET_ENCRYPTED_MDC || tag == PACKET_ENCRYPTED_AEAD;
        if (d->has_data && d->n_session_keys > 0)
                return 0;
        return error_set(e, -EBADMSG, "it is not encrypted by a passphrase");
}

static int look_at(Decryption *d, const void *data, size_t size)
{
        if (!d->has_begun && armor_is(data, size)) {
                int r = error_set(&d->error, -EBADMSG, "it is armored; only binary messages are images");
                return error_hint(&d->error, r, "Convert it by: gpg --dearmor");
        }
        d->has_begun = true;
        int r = packet_reader_feed(&d->packets, data, size, &d->error);
        if (r == -EBADMSG && d->has_data)
                return error_set(&d->error, r, "there is data after the encrypted message");
        return r;
}

static int at_end(Decryption *d)
{
        int r = packet_reader_finish(&d->packets, &d->error);

        if (r < 0 || d->has_data)
                return r;
        return error_set(&d->error, -EBADMSG, "it is not encrypted by a passphrase");
}

/* --- The thread ---------------------------------------------------------------------------------------- */

/* -ECANCELED: stop. */
static int wait_for(Decryption *d, int fd, short events)
{
        struct pollfd p[] = {{.fd = d->wake_fd, .events = POLLIN},
                             {.fd = fd, .events = events},
                             {.fd = operation_fd(d->call.operation), .events = POLLIN}};
        int r = 0;

        gpg_call_waits(&d->call, true);
        while (r >= 0 && poll(p, ELEMENTSOF(p), -1) < 0)
                r = errno == EINTR ? 0 : -errno;
        gpg_call_waits(&d->call, false);
        return r < 0 ? r : p[0].revents || p[2].revents ? -ECANCELED : 0;
}

/* The next bytes of what is encrypted; 0 at the end. Errors go to D->error as well. */
static ssize_t read_some(Decryption *d, void *buffer, size_t size)
{
        int r = wait_for(d, d->fd, POLLIN);
        ssize_t n = 0;

        if (r >= 0) {
                do
                        n = read(d->fd, buffer, size);
                while (n < 0 && errno == EINTR);
                r = n < 0 ? -errno : 0;
        }
        if (r < 0)
                return error_set_errno(&d->error, r, "cannot read it");
        if (n == 0)
                return at_end(d);
        if (d->observe)
                r = d->observe(buffer, (size_t) n, d->userdata, &d->error);
        if (r >= 0)
                r = look_at(d, buffer, (size_t) n);
        return r < 0 ? r : n;
}

static ssize_t encrypted_read(void *userdata, void *buffer, size_t size)
{
        Decryption *d = userdata;
        ssize_t n = d->error.code < 0 ? d->error.code : read_some(d, buffer, size);

        if (n >= 0)
                return n;
        d->error.code = (int) n;
        errno = EIO;
        return -1;
}

static ssize_t plain_write(void *userdata, const void *data, size_t size)
{
        Decryption *d = userdata;
        ssize_t n;

        if (!data) /* gpg is done */
                return 0;
        for (;;) {
                int r = wait_for(d, d->plain_fd, POLLOUT);
                n = r < 0 ? r : write(d->plain_fd, data, size);
                if (n >= 0)
                        break;
                if (r < 0 || (errno != EAGAIN && errno != EINTR)) {
                        errno = r < 0 ? -r : errno;
                        return -1;
                }
        }
        d->n_plain += (uint64_t) n;
        return n;
}

/* Reads the rest that gpg has not read, to detect data after the message. */
static void read_rest(Decryption *d)
{
        char buffer[16384];

        while (encrypted_read(d, buffer, sizeof(buffer)) > 0)
                ;
}

static gpgme_error_t decrypt(Decryption *d)
{
        static struct gpgme_data_cbs encrypted = {.read = encrypted_read}, plain = {.write = plain_write};
        _cleanup_gpg_data_ gpgme_data_t in = NULL, out = NULL;

        if (gpg_data_from_callbacks(&encrypted, d, &in, NULL) < 0 ||
            gpg_data_from_callbacks(&plain, d, &out, NULL) < 0)
                return gpgme_error(GPG_ERR_ENOMEM);
        return gpgme_op_decrypt(d->context, in, out);
}

static void *decrypting_thread(void *userdata)
{
        Decryption *d = userdata;

        gpg_call_enter(&d->call);
        d->result = decrypt(d);
        gpg_call_leave();
        if (!d->result)
                read_rest(d);
        d->plain_fd = safe_close(d->plain_fd);
        return NULL;
}

/* --- Interface ----------------------------------------------------------------------------------------- */

static void end(Decryption *d, bool stop)
{
        if (!d->running)
                return;
        if (stop) {
                (void) eventfd_write(d->wake_fd, 1);
                gpg_call_stop(&d->call);
        }
        pthread_join(d->thread, NULL);
        d->running = false;
}

Decryption *decryption_free(Decryption *d)
{
        if (!d)
                return NULL;
        end(d, true);
        gpg_call_done(&d->call);
        if (d->context)
                gpgme_release(d->context);
        gpg_home_done(&d->home);
        safe_close(d->plain_fd);
        safe_close(d->wake_fd);
        safe_close(d->passphrase_fd);
        error_done(&d->error);
        free(d);
        return NULL;
}

static int open_pipe(Decryption *d, int *ret_fd, Error *e)
{
        int fds[2];

        d->wake_fd = eventfd(0, EFD_CLOEXEC);
        if (d->wake_fd < 0 || pipe2(fds, O_CLOEXEC) < 0)
                return error_set_errno(e, errno, "Cannot create a pipe for the decrypted image");
        d->plain_fd = fds[1];
        *ret_fd = fds[0];
        (void) fcntl(fds[1], F_SETPIPE_SZ, PIPE_SIZE); /* a smaller one is slower only */
        if (fcntl(fds[1], F_SETFL, O_NONBLOCK) < 0)
                return error_set_errno(e, errno, "Cannot create a pipe for the decrypted image");
        return 0;
}

int decryption_new(int fd, const char *passphrase_file, const Operation *o, DecryptionObserve observe,
                   void *userdata, Decryption **ret, int *ret_fd, Error *e)
{
        _cleanup_(decryption_freep) Decryption *d = calloc(1, sizeof(Decryption));
        _cleanup_close_ int plain = -EBADF;

        if (!d)
                return error_oom(e);
        *d = (Decryption){.fd = fd,
                          .plain_fd = -EBADF,
                          .wake_fd = -EBADF,
                          .passphrase_fd = -EBADF,
                          .home = GPG_HOME_NULL,
                          .call = GPG_CALL_NULL,
                          .observe = observe,
                          .userdata = userdata};
        packet_reader_init(&d->packets, check_packet, d);
        int r = passphrase_home_new(passphrase_file, NULL, &d->home, &d->passphrase_fd, e);
        if (r >= 0)
                r = open_pipe(d, &plain, e);
        if (r >= 0)
                r = gpg_context_new(o, d->home.path, &d->context, e);
        if (r >= 0)
                r = gpg_call_start(&d->call, o, GPG_TIME_LIMIT_USEC, e);
        if (r >= 0)
                r = gpg_thread_start(&d->thread, decrypting_thread, d, e);
        if (r < 0)
                return r;
        d->running = true;
        *ret = TAKE_PTR(d);
        *ret_fd = TAKE_FD(plain);
        return 0;
}

/* gpg only reports a failure: if there is no plain text at all, the key was wrong. */
static int explain(const Decryption *d, Error *e)
{
        if (gpgme_err_code(d->result) == GPG_ERR_INV_ENGINE || gpgme_err_code(d->result) == GPG_ERR_ENOMEM)
                return gpg_fail(e, d->result, "Cannot decrypt the image");
        if (d->n_plain > 0)
                return error_set(e, -EBADMSG,
                                 "Cannot decrypt the image: it has been altered, or is damaged");
        int r = error_set(e, -EKEYREJECTED,
                          "Cannot decrypt the image: the passphrase is wrong, or the image is damaged");
        return error_hint(e, r, "Check the passphrase file; a newline at its end is ignored.");
}

static int check_cipher(gpgme_ctx_t context, Error *e)
{
        gpgme_decrypt_result_t result = gpgme_op_decrypt_result(context);
        const char *cipher = result && result->symkey_algo ? result->symkey_algo : "an unknown cipher";

        if (result && result->legacy_cipher_nomdc)
                return error_set(e, -EBADMSG,
                                 "Cannot decrypt the image: it has no integrity protection (MDC)");
        if (startswith(cipher, "AES"))
                return 0;
        int r = error_set(e, -EBADMSG, "Cannot decrypt the image: it is encrypted by %s, not by AES",
                          cipher);
        return error_hint(e, r, "Encrypt it by: gpg --cipher-algo AES256 --symmetric IMAGE");
}

int decryption_finish(Decryption *d, Error *e)
{
        end(d, false);
        int k = gpg_call_finish(&d->call, e);
        if (k >= 0) /* it may have ended after gpg, or while gpg was waiting for the image */
                k = d->result || d->error.code < 0 ? operation_check(d->call.operation, e) : 0;
        if (k < 0)
                return error_prefix(e, k, "Cannot decrypt the image");
        if (d->error.code < 0) {
                int r = error_set(e, d->error.code, "Cannot decrypt the image: %s",
                                  d->error.message ?: strerror(-d->error.code));
                return d->error.hint ? error_hint(e, r, "%s", d->error.hint) : r;
        }
        return d->result ? explain(d, e) : check_cipher(d->context, e);
}
