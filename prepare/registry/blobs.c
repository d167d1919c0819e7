/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Blobs of a registry: layers and configs, which are returned as files.
 *
 * Only their size is checked here. The importer checks the digest of the bytes that it unpacks; if a place
 * has sent wrong data, it rejects the blob and requests it again: then that place is skipped, with a message
 * that names it, and the next one is used.
 */

#include <sys/stat.h>

#include "prepare/registry/source.h"

typedef struct BlobQuery {
        const OciDescriptor *descriptor;
        const RegistrySource *source;
        char *what;
        int fd;
} BlobQuery;

static void blob_query_done(BlobQuery *b)
{
        free(b->what);
        safe_close(b->fd);
}

static void pass_on_progress(uint64_t done, uint64_t total, void *userdata)
{
        const BlobQuery *b = userdata;

        b->source->options.progress(b->what, done, total, b->source->options.userdata);
}

/* --- Where blobs came from ----------------------------------------------------------------------------- */

void blob_origins_done(RegistrySource *r)
{
        for (size_t i = 0; i < r->n_origins; i++)
                free(r->origins[i].digest);
        free(r->origins);
}

static int add_origin(RegistrySource *r, const char *digest, const Endpoint *p)
{
        if (GREEDY_REALLOC(r->origins, r->origins_allocated, r->n_origins + 1) < 0)
                return -ENOMEM;
        BlobOrigin o = {.digest = strdup(digest), .place = p};
        if (!o.digest)
                return -ENOMEM;
        r->origins[r->n_origins++] = o;
        return 0;
}

static int note_origin(RegistrySource *r, const char *digest, const Endpoint *p)
{
        (void) pthread_mutex_lock(&r->lock);
        int k = add_origin(r, digest, p);
        (void) pthread_mutex_unlock(&r->lock);
        return k;
}

/* Under the lock of R. */
static bool has_rejected(const RegistrySource *r, const char *digest, const Endpoint *p)
{
        for (size_t i = 0; i < r->n_origins; i++)
                if (r->origins[i].rejected && r->origins[i].place == p &&
                    streq(r->origins[i].digest, digest))
                        return true;
        return false;
}

static bool is_rejected(RegistrySource *r, const char *digest, const Endpoint *p)
{
        (void) pthread_mutex_lock(&r->lock);
        bool rejected = has_rejected(r, digest, p);
        (void) pthread_mutex_unlock(&r->lock);
        return rejected;
}

int registry_reject_blob(OciSource *s, const OciDescriptor *d)
{
        RegistrySource *r = (RegistrySource *) s;
        size_t n_left = 0;

        (void) pthread_mutex_lock(&r->lock);
        for (size_t i = 0; i < r->n_origins; i++)
                if (streq(r->origins[i].digest, d->digest))
                        r->origins[i].rejected = true;
        for (size_t i = 0; i < r->n_endpoints; i++)
                n_left += !has_rejected(r, d->digest, r->endpoints + i);
        (void) pthread_mutex_unlock(&r->lock);
        return n_left > 0;
}

/* --- One place ----------------------------------------------------------------------------------------- */

/* The error says why this place is skipped. */
static int refuse_place(const BlobQuery *b, Error *e)
{
        return error_set(e, -EBADMSG, "What it sent as %s has another digest", b->what);
}

static int ask_blob(RegistrySource *r, Endpoint *p, void *userdata, Error *e)
{
        _cleanup_(transfer_reply_done) TransferReply reply = TRANSFER_REPLY_NULL;
        _cleanup_free_ char *path = NULL;
        _cleanup_close_ int fd = -EBADF;
        BlobQuery *b = userdata;
        struct stat st;

        if (is_rejected(r, b->descriptor->digest, p))
                return refuse_place(b, e);
        if (xasprintf(&path, "blobs/%s", b->descriptor->digest) < 0)
                return error_oom(e);
        const EndpointRequest q = {.path = path,
                                   .what = b->what,
                                   .size_max = b->descriptor->size ?: 1, /* 0 would be: without limit */
                                   .has_alternatives = p->place.mirror,
                                   .progress = r->options.progress ? pass_on_progress : NULL,
                                   .userdata = b};
        int k = endpoint_download(p, &q, r->store, &fd, &reply, e);
        if (k < 0)
                return k;
        if (fstat(fd, &st) < 0)
                return error_set_errno(e, -errno, "Cannot examine %s", b->what);
        if ((uint64_t) st.st_size != b->descriptor->size)
                return error_set(e, -EBADMSG,
                                 "%s has %llu bytes at the registry '%s', but the manifest says %llu",
                                 b->what, (unsigned long long) st.st_size, p->place.host,
                                 (unsigned long long) b->descriptor->size);
        if (note_origin(r, b->descriptor->digest, p) < 0)
                return error_oom(e);
        b->fd = TAKE_FD(fd);
        return 0;
}

int registry_open_blob(OciSource *s, const OciDescriptor *d, int *ret_fd, Error *e)
{
        RegistrySource *r = (RegistrySource *) s;
        _cleanup_(blob_query_done) BlobQuery b = {.descriptor = d, .source = r, .fd = -EBADF};

        int k = registry_digest_check(d->digest, e);
        if (k < 0)
                return k;
        if (xasprintf(&b.what, "the blob %s of %s", d->digest, r->source.reference) < 0)
                return error_oom(e);
        k = ask_places(r, ask_blob, &b, e);
        if (k < 0)
                return k;
        *ret_fd = TAKE_FD(b.fd);
        return 0;
}
