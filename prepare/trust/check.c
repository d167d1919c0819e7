/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Checking signatures of an image while it is read.
 *
 * The importer reads an image once; gpg gets the same bytes, so that they cannot be replaced in between. A
 * thread runs the verification; it takes the bytes from a ring that the importer's thread fills, which waits
 * only when gpg is the slower one by more than the ring holds.
 *
 * The signatures themselves are checked first: they have to be armored signatures of files and nothing else.
 * A message with embedded content, or a signature of a text (which ignores line ends) is never passed to
 * gpg. A first run of gpg without the image then determines whether any of them is by a trusted key, before
 * the image is downloaded.
 */

#include "prepare/trust/trust-internal.h"

#define RING_SIZE (1U << 20)
#define SIGNATURES_MAX 32U /* in one file */

struct SignatureCheck {
        Trust *trust;
        char *what;
        const char *home;
        unsigned char *signature; /* binary */
        size_t signature_size;

        pthread_t thread;
        bool running;
        gpgme_ctx_t context; /* the thread's while it runs */
        GpgCall call;
        gpgme_error_t result;

        char *ring;
        pthread_mutex_t mutex; /* for what follows */
        pthread_cond_t changed;
        size_t begin, size; /* of what is in the ring */
        bool ended;         /* end of input */
        bool stop;          /* stop requested */
        bool done;          /* gpg reads no more */
};

/* --- What a signature has to look like ----------------------------------------------------------------- */

static int check_packet(int tag, const unsigned char *head, size_t n_head, uint64_t offset, void *userdata,
                        Error *e)
{
        unsigned *n = userdata;

        if (tag == PACKET_MARKER || tag == PACKET_PADDING)
                return 0;
        if (tag != PACKET_SIGNATURE || n_head < 3)
                return error_set(e, -EBADMSG, "it contains data other than signatures");
        if (++*n > SIGNATURES_MAX)
                return error_set(e, -E2BIG, "it contains more than %u signatures", SIGNATURES_MAX);
        /* Version 3 has the length of what follows in between. */
        unsigned char type = head[0] == 3 ? head[2] : head[1];
        if (type == 0)
                return 0;
        return error_set(e, -EBADMSG,
                         type == 1 ? "it is a signature of a text, not of a file"
                                   : "it is not a signature of a file");
}

static int decode_signature(SignatureCheck *c, const void *data, size_t size, Error *e)
{
        size_t n_blocks = 0;
        unsigned n = 0;
        PacketReader p;

        if (size > TRUST_SIGNATURE_MAX)
                return error_set(e, -EFBIG, "it is longer than %u bytes", TRUST_SIGNATURE_MAX);
        int r = armor_decode(data, size, "PGP SIGNATURE", &c->signature, &c->signature_size, &n_blocks, e);
        if (r < 0)
                return r;
        packet_reader_init(&p, check_packet, &n);
        r = packet_reader_feed(&p, c->signature, c->signature_size, e);
        if (r >= 0)
                r = packet_reader_finish(&p, e);
        if (r >= 0 && n == 0)
                r = error_set(e, -EBADMSG, "it contains no armored signature");
        return r;
}

/* --- The ring ------------------------------------------------------------------------------------------ */

/* gpg's side. 0: the end. */
static ssize_t ring_read(void *userdata, void *buffer, size_t size)
{
        SignatureCheck *c = userdata;

        pthread_mutex_lock(&c->mutex);
        gpg_call_waits(&c->call, true);
        while (c->size == 0 && !c->ended && !c->stop)
                pthread_cond_wait(&c->changed, &c->mutex);
        gpg_call_waits(&c->call, false);
        if (c->stop) {
                pthread_mutex_unlock(&c->mutex);
                errno = ECANCELED;
                return -1;
        }
        size_t n = MIN(MIN(size, c->size), RING_SIZE - c->begin);
        memcpy(buffer, c->ring + c->begin, n);
        c->begin = (c->begin + n) % RING_SIZE;
        c->size -= n;
        pthread_cond_signal(&c->changed);
        pthread_mutex_unlock(&c->mutex);
        return (ssize_t) n;
}

void signature_check_update(SignatureCheck *c, const void *data, size_t size)
{
        const char *p = data;

        pthread_mutex_lock(&c->mutex);
        while (size > 0 && !c->done) {
                if (c->size == RING_SIZE) {
                        pthread_cond_wait(&c->changed, &c->mutex);
                        continue;
                }
                size_t end = (c->begin + c->size) % RING_SIZE;
                size_t n = MIN(MIN(size, RING_SIZE - c->size), RING_SIZE - end);
                memcpy(c->ring + end, p, n);
                c->size += n;
                p += n;
                size -= n;
                pthread_cond_signal(&c->changed);
        }
        pthread_mutex_unlock(&c->mutex);
}

/* --- gpg ----------------------------------------------------------------------------------------------- */

/* Verifies the signatures of what SIGNED_DATA gives. */
static gpgme_error_t verify(SignatureCheck *c, gpgme_ctx_t context, gpgme_data_t signed_data)
{
        _cleanup_gpg_data_ gpgme_data_t signature = NULL;
        gpgme_error_t err = gpgme_data_new_from_mem(&signature, (const char *) c->signature,
                                                    c->signature_size, 0);

        return err ?: gpgme_op_verify(context, signature, signed_data, NULL);
}

static void *verifying_thread(void *userdata)
{
        static struct gpgme_data_cbs callbacks = {.read = ring_read};
        _cleanup_gpg_data_ gpgme_data_t data = NULL;
        SignatureCheck *c = userdata;

        gpg_call_enter(&c->call);
        if (gpg_data_from_callbacks(&callbacks, c, &data, NULL) < 0)
                c->result = gpgme_error(GPG_ERR_ENOMEM);
        else
                c->result = verify(c, c->context, data);
        gpg_call_leave();
        pthread_mutex_lock(&c->mutex);
        c->done = true;
        pthread_cond_broadcast(&c->changed);
        pthread_mutex_unlock(&c->mutex);
        return NULL;
}

/* Checks without the image whether any signature can be accepted. */
static int try_signature(SignatureCheck *c, Error *e)
{
        _cleanup_gpg_context_ gpgme_ctx_t context = NULL;
        _cleanup_gpg_data_ gpgme_data_t nothing = NULL;
        GpgCall call;

        int r = gpg_context_new(c->trust->operation, c->home, &context, e);
        if (r >= 0)
                r = gpg_call_begin(&call, c->trust->operation, e);
        if (r < 0)
                return r;
        gpgme_error_t err = gpgme_data_new(&nothing);
        if (!err)
                err = verify(c, context, nothing);
        r = gpg_call_end(&call, e);
        if (r < 0)
                return error_prefix(e, r, "Cannot check %s", c->what);
        if (err)
                return gpg_fail(e, err, "Cannot check %s", c->what);
        return verdict(c->trust, context, c->what, NULL, NULL, e);
}

static void end(SignatureCheck *c, bool stop)
{
        pthread_mutex_lock(&c->mutex);
        c->ended = true;
        c->stop = c->stop || stop;
        pthread_cond_broadcast(&c->changed);
        pthread_mutex_unlock(&c->mutex);
        if (stop)
                gpg_call_stop(&c->call);
        if (c->running)
                pthread_join(c->thread, NULL);
        c->running = false;
}

SignatureCheck *signature_check_free(SignatureCheck *c)
{
        if (!c)
                return NULL;
        end(c, true);
        gpg_call_done(&c->call);
        if (c->context)
                gpgme_release(c->context);
        pthread_mutex_destroy(&c->mutex);
        pthread_cond_destroy(&c->changed);
        free(c->signature);
        free(c->what);
        free(c->ring);
        free(c);
        return NULL;
}

int signature_check_new(Trust *t, const void *signature, size_t size, const char *what, SignatureCheck **ret,
                        Error *e)
{
        _cleanup_(signature_check_freep) SignatureCheck *c = calloc(1, sizeof(SignatureCheck));

        if (!c)
                return error_oom(e);
        c->trust = t;
        c->call = GPG_CALL_NULL;
        pthread_mutex_init(&c->mutex, NULL);
        pthread_cond_init(&c->changed, NULL);
        c->what = strdup(what);
        c->ring = malloc(RING_SIZE);
        if (!c->what || !c->ring)
                return error_oom(e);
        int r = decode_signature(c, signature, size, e);
        if (r < 0) {
                r = error_prefix(e, r, "Cannot use %s", what);
                return error_hint(e, r, "A signature is made by: gpg --armor --detach-sign IMAGE");
        }
        r = trust_home(t, &c->home, e);
        if (r >= 0)
                r = try_signature(c, e);
        if (r >= 0)
                r = gpg_context_new(t->operation, c->home, &c->context, e);
        if (r >= 0)
                r = gpg_call_start(&c->call, t->operation, GPG_TIME_LIMIT_USEC, e);
        if (r >= 0)
                r = gpg_thread_start(&c->thread, verifying_thread, c, e);
        if (r < 0)
                return r;
        c->running = true;
        *ret = TAKE_PTR(c);
        return 0;
}

int signature_check_finish(SignatureCheck *c, const char *image_name, Signer *ret, Error *e)
{
        end(c, false);
        int r = gpg_call_finish(&c->call, e);
        if (r < 0)
                return error_prefix(e, r, "Cannot check %s", c->what);
        if (isempty(image_name)) /* without a name any trusted key would be accepted */
                return error_set(e, -EINVAL, "Cannot check %s for an image without a name", c->what);
        if (c->result)
                return gpg_fail(e, c->result, "Cannot check %s", c->what);
        return verdict(c->trust, c->context, c->what, image_name, ret, e);
}
