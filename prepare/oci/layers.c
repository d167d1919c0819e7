/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Reads the layers of an image, several at a time.
 *
 * Each layer goes through a pipeline of its own: read and decompressed, hashed, unpacked. Both of its
 * digests are of the bytes that were unpacked: that of the blob is taken on the way in, that of the
 * uncompressed layer by the pipeline. A complete layer stays in its temporary directory, which is not
 * collected while this process lives, until the image is published.
 *
 * If a source has several places, wrong data from one of them is detected here, while or after reading the
 * layer. The unpacked files are removed, and the layer is read again from the next place.
 *
 * A layer of the store is reused only for a blob that was hashed here: the digest of the content in the
 * config is only a claim of the image, by which it could get a layer of another image that its source does
 * not have. So a layer has a list of the blobs that were read here and had its content; a blob that is not in
 * it is read and hashed, and added. That the store has an image with the same config says nothing about the
 * blobs of a manifest, and archives that name layers by the digest of their content do not name blobs.
 *
 * Beside rootfs a layer has the record "files", and the files "size" (bytes, uncompressed), "hashed" (the
 * digests of these blobs), "implied" (directories without an entry of their own, see attributes.c), if it
 * hides something of the layers below it "whiteouts", and "devices" if devices were left out of the lowest layer of an image: further up in
 * another one they may have to hide something, and it is read again. Layers of earlier versions, which hid nothing there, have no
 * file "devices" and stay as they are. Earlier versions had a list "blobs", which had digests of other kinds in it, too: it is not
 * read, so that blobs of their layers are hashed once more.
 */

#include <sys/stat.h>

#include "prepare/oci/oci-internal.h"

#define PARALLEL_MAX 8U
#define HASHED_FILE "hashed"
#define DEVICES_FILE "devices"
#define HASHED_SIZE_MAX (64U << 10) /* of that file; when it is full, it is started again */

typedef struct Readers {
        Store *store;
        OciSource *source;
        Layer *layers;
        size_t n_layers;
        const OciImportOptions *options;

        pthread_mutex_t mutex; /* protects the following members */
        size_t next;
        uint64_t done, total;
        int result;
        Error error; /* the first failure */
} Readers;

/* A layer that is being read. */
typedef struct Reading {
        Readers *readers;
        Layer *layer;
        Unpack unpack;
        Digester digester;
        ArchiveReader *archive;
        Pipeline *pipeline; /* if nothing is unpacked */
        PipelineResult result;
        int fd;
        off_t offset; /* offset of the blob in it */
} Reading;

static void reading_done(Reading *x)
{
        x->archive = archive_reader_free(x->archive);
        x->pipeline = pipeline_free(x->pipeline);
        unpack_done(&x->unpack);
        digester_done(&x->digester);
        free(x->result.id);
        safe_close(x->fd);
}

void layer_done(Layer *l)
{
        store_temporary_done(&l->temporary);
        l->links = links_below_free(l->links);
        free(l->content_id);
        free(l->chain_id);
        free(l->id);
        l->content_id = l->chain_id = l->id = NULL;
}

static bool is_repeated_above(const OciConfig *c, size_t k)
{
        for (size_t j = k + 1; c->diff_ids[j]; j++)
                if (streq(c->diff_ids[j], c->diff_ids[k]))
                        return true;
        return false;
}

int layers_of_config(const OciConfig *config, Layer **ret, size_t *ret_n, Error *e)
{
        size_t n = strv_length(config->diff_ids);
        Layer *layers = calloc(n + 1, sizeof(Layer));
        int r = 0;

        if (!layers)
                return error_oom(e);
        *ret = layers;
        /* A layer that is repeated further up has no effect here, and overlayfs refuses duplicates. */
        for (size_t k = 0; k < n && r >= 0; k++) {
                if (is_repeated_above(config, k))
                        continue;
                Layer *l = &layers[(*ret_n)++];
                *l = (Layer){
                                .diff_ids = config->diff_ids,
                                .diff_id = config->diff_ids[k],
                                .number = (unsigned) k + 1,
                                .temporary = STORE_TEMPORARY_NULL,
                };
                r = layer_set_ids(l, e);
        }
        return r;
}

int layer_path(const Layer *l, char **ret)
{
        return xasprintf(ret, "layers/%s", l->id);
}

bool layer_is_there(Store *s, const Layer *l)
{
        _cleanup_free_ char *path = NULL;

        return layer_path(l, &path) >= 0 && faccessat(s->fd, path, F_OK, AT_SYMLINK_NOFOLLOW) >= 0;
}

/* --- The blobs of a layer ------------------------------------------------------------------------------ */

/* Whether that blob was read here, and had the content of the layer DIR_FD. */
static bool was_hashed(int dir_fd, const char *digest)
{
        _cleanup_free_ char *text = NULL;
        size_t n = strlen(digest);

        if (read_file_at(dir_fd, HASHED_FILE, HASHED_SIZE_MAX, &text, NULL) < 0)
                return false;
        for (const char *p = text; (p = strstr(p, digest)); p++)
                if ((p == text || p[-1] == '\n') && p[n] == '\n')
                        return true;
        return false;
}

static int note_blob(int dir_fd, const char *digest)
{
        _cleanup_close_ int fd = openat(dir_fd, HASHED_FILE,
                                        O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0644);
        _cleanup_free_ char *line = NULL;
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        /* Begins a new line even after a truncated one. */
        if (xasprintf(&line, "%s%s\n", st.st_size > 0 ? "\n" : "", digest) < 0)
                return -ENOMEM;
        if (st.st_size > HASHED_SIZE_MAX / 2 && ftruncate(fd, 0) < 0)
                return -errno;
        return loop_write(fd, line, strlen(line));
}

/* If this fails, the blob is read again the next time. */
void layer_note_blob(Store *s, const Layer *l)
{
        _cleanup_close_ int fd = l->hashed ? layer_open(s, l, NULL) : -EBADF;

        if (fd >= 0 && !was_hashed(fd, l->descriptor->digest))
                (void) note_blob(fd, l->descriptor->digest);
}

/* What has to be done for a layer that may be in the store by that ID. */
static LayerNeed find_need(Store *s, const Layer *l, const char *id, bool by_diff_id)
{
        _cleanup_free_ char *path = NULL;
        _cleanup_close_ int fd = -EBADF;

        if (xasprintf(&path, "layers/%s", id) < 0)
                return LAYER_NEEDS_ALL;
        fd = open_beneath(s->fd, path, O_RDONLY | O_DIRECTORY);
        if (fd < 0)
                return LAYER_NEEDS_ALL;
        if (l->number > 1 && faccessat(fd, DEVICES_FILE, F_OK, AT_SYMLINK_NOFOLLOW) >= 0)
                return LAYER_NEEDS_ALL;
        if (l->checked) /* by the previous attempt to publish the image */
                return LAYER_NEEDS_NOTHING;
        /* A source that names layers by what the config says has not said which blob it has. */
        return !by_diff_id && was_hashed(fd, l->descriptor->digest) ? LAYER_NEEDS_NOTHING
                                                                    : LAYER_NEEDS_DIGEST;
}

/* Finds out what L needs, and its ID in the store. */
static int look_for_layer(Store *s, const OciSource *src, Layer *l, Error *e)
{
        const char *const ids[] = {l->chain_id, l->content_id};
        const char *id = NULL;

        l->need = LAYER_NEEDS_NOTHING;
        if (l->temporary.name || !l->content_id)
                return 0;
        l->need = LAYER_NEEDS_ALL;
        for (size_t i = 0; i < ELEMENTSOF(ids) && l->need == LAYER_NEEDS_ALL; i++) {
                id = ids[i];
                l->need = find_need(s, l, id, src->layers_by_diff_id);
        }
        char *copy = strdup(id);
        if (!copy)
                return error_oom(e);
        free(l->id);
        l->id = copy;
        return 0;
}

/* --- One layer ----------------------------------------------------------------------------------------- */

static int observe(const void *data, size_t size, void *userdata, Error *e)
{
        Reading *x = userdata;

        digester_add(&x->digester, data, size);
        return x->digester.failed ? error_set(e, -EIO, "Cannot hash the layer") : 0;
}

static void progress(uint64_t done, void *userdata)
{
        Reading *x = userdata;
        Readers *r = x->readers;

        pthread_mutex_lock(&r->mutex);
        r->done += done - x->layer->done;
        x->layer->done = done;
        if (r->options->progress)
                r->options->progress(r->done, r->total, r->options->userdata);
        pthread_mutex_unlock(&r->mutex);
}

static bool was_stopped(Readers *r)
{
        pthread_mutex_lock(&r->mutex);
        bool stopped = r->result < 0;
        pthread_mutex_unlock(&r->mutex);
        return stopped;
}

static int stopped(Error *e)
{
        return error_set(e, -ECANCELED, "Another layer cannot be imported");
}

static int take_entry(struct archive *a, struct archive_entry *entry, void *userdata, Error *e)
{
        Reading *x = userdata;

        if (was_stopped(x->readers))
                return stopped(e);
        return unpack_layer_entry(&x->unpack, a, entry, e);
}

static PipelineOptions pipeline_options(Reading *x)
{
        return (PipelineOptions){
                        .sha256 = true,
                        .lenient = true,
                        .hooks = {.length = x->layer->descriptor->size,
                                  .observe = observe,
                                  .progress = progress,
                                  .userdata = x,
                                  .operation = x->readers->store->operation},
        };
}

static int read_archive(Reading *x, Error *e)
{
        PipelineOptions o = pipeline_options(x);

        if (__builtin_add_overflow(x->unpack.budget, STREAM_SLACK, &o.size_max))
                o.size_max = UINT64_MAX;
        int r = archive_reader_new(x->fd, &o, &x->archive, e);
        return r < 0 ? r : archive_reader_run(x->archive, take_entry, x, &x->result, e);
}

static int check_digests(Reading *x, Error *e)
{
        const OciDescriptor *d = x->layer->descriptor;
        _cleanup_free_ char *found = NULL;

        if (x->digester.size != d->size)
                return error_set(e, -EBADMSG, "It has %" PRIu64 " bytes instead of %" PRIu64,
                                 x->digester.size, d->size);
        int r = digester_finish(&x->digester, &found);
        if (r < 0)
                return error_set_errno(e, r, "Cannot hash it");
        if (!x->readers->source->layers_by_diff_id && !streq(found, d->digest))
                return error_set(e, -EBADMSG, "It is damaged or was replaced: its digest is %s, not %s",
                                 found, d->digest);
        if (!streq(x->result.id, x->layer->content_id))
                return error_set(e, -EBADMSG,
                                 "Uncompressed, it does not match the image's config: its digest is %s, "
                                 "not %s",
                                 x->result.id, x->layer->content_id);
        x->layer->checked = true;
        x->layer->hashed = !x->readers->source->layers_by_diff_id;
        return 0;
}

static int write_files(Reading *x, Error *e)
{
        int dir_fd = x->layer->temporary.dir_fd;
        const Unpack *u = &x->unpack;
        char size[32];

        int n = snprintf(size, sizeof(size), "%" PRIu64 "\n", x->result.size);
        int r = write_file_new_at(dir_fd, "size", size, (size_t) n, 0644);
        if (r >= 0)
                r = implied_write(dir_fd, &u->implied);
        if (r >= 0 && u->has_whiteouts)
                r = write_file_new_at(dir_fd, WHITEOUTS_FILE, "", 0, 0644);
        if (r >= 0 && u->lowest && u->n_devices > 0)
                r = write_file_new_at(dir_fd, DEVICES_FILE, "", 0, 0644);
        if (r >= 0 && x->layer->hashed)
                r = note_blob(dir_fd, x->layer->descriptor->digest);
        if (r < 0)
                return error_set_errno(e, r, "Cannot write the layer's files to the store");
        /* The record is written when all files exist. */
        return u->links_below ? 0 : record_write(dir_fd, u->digests, x->readers->store->operation, e);
}

static int open_blob(Reading *x, Error *e)
{
        int r = x->readers->source->vtable->open_blob(x->readers->source, x->layer->descriptor, &x->fd, e);

        if (r < 0)
                return r;
        x->offset = lseek(x->fd, 0, SEEK_CUR);
        return digester_init(&x->digester, x->layer->descriptor->digest) < 0 ? error_oom(e) : 0;
}

/* Hashes the blob without unpacking it: if it matches the config, the store's layer is used. */
static int read_digest(Reading *x, Error *e)
{
        PipelineOptions o = pipeline_options(x);
        const void *block;
        uint64_t size = 0;
        ssize_t n;

        /* It has as many bytes as the layer that has this digest. A layer that an earlier version made of
         * several has the digest of a text in its name, and another size. */
        int r = layer_read_size(x->readers->store, x->layer, &size, e);
        o.size_max = size;
        if (r >= 0)
                r = open_blob(x, e);
        if (r >= 0)
                r = pipeline_new(x->fd, &o, &x->pipeline, e);
        if (r < 0)
                return r;
        while ((n = pipeline_next(x->pipeline, &block, e)) > 0)
                if (was_stopped(x->readers))
                        return stopped(e);
        if (n == -ENOSPC)
                return error_set(e, -EBADMSG,
                                 "Uncompressed, it does not match the image's config: it is longer than "
                                 "%" PRIu64 " bytes",
                                 o.size_max);
        r = n < 0 ? (int) n : pipeline_finish(x->pipeline, &x->result, e);
        if (r >= 0)
                r = check_digests(x, e);
        if (r >= 0 && x->result.size != size)
                r = error_set(e, -EBADMSG,
                              "It has %" PRIu64 " bytes, uncompressed, but the layer %s in the store was "
                              "made of %" PRIu64,
                              x->result.size, x->layer->id, size);
        if (r < 0)
                return r;
        layer_note_blob(x->readers->store, x->layer);
        return 0;
}

static int read_layer(Reading *x, Error *e)
{
        Store *s = x->readers->store;

        int r = open_blob(x, e);
        if (r >= 0)
                r = store_temporary_new(s, &x->layer->temporary, e);
        if (r >= 0)
                r = unpack_layer_init(&x->unpack, x->layer->temporary.dir_fd, s->flags & STORE_UNPRIVILEGED,
                                      e);
        x->unpack.link_below = true;
        x->unpack.lowest = x->layer->number == 1;
        if (r >= 0)
                r = read_archive(x, e);
        if (r >= 0)
                r = check_digests(x, e);
        if (r >= 0)
                r = unpack_finish(&x->unpack, e);
        if (r >= 0)
                unpack_report(&x->unpack, s->operation);
        if (r >= 0)
                r = write_files(x, e);
        if (r < 0)
                store_temporary_done(&x->layer->temporary);
        else
                x->layer->links = TAKE_PTR(x->unpack.links_below);
        return r;
}

/* 1: the blob of a failed read does not match its digest. */
static int is_damaged(const Reading *x, int why, Error *e)
{
        const OciDescriptor *d = x->layer->descriptor;

        if (x->fd < 0 || x->offset < 0 || x->readers->source->layers_by_diff_id || operation_ended(why) ||
            why == -ENOMEM || why == -ECANCELED)
                return 0;
        int r = digest_check_fd(d->digest, x->fd, x->offset, d->size, x->readers->store->operation, e);
        return r < 0 ? r : !r;
}

/* 1: another place can be asked. Errors in the archive are not reported if the bytes do not match the
 * digest. */
static int classify_failure(Reading *x, int why, Error *e)
{
        const OciSourceVTable *v = x->readers->source->vtable;
        _cleanup_error_ Error error = ERROR_NULL;

        x->archive = archive_reader_free(x->archive); /* its thread reads from the same file */
        x->pipeline = pipeline_free(x->pipeline);
        int r = is_damaged(x, why, &error);
        if (r < 0)
                return error_set(e, r, "%s", error.message ?: strerror(-r));
        if (r > 0 && v->reject_blob && v->reject_blob(x->readers->source, x->layer->descriptor) > 0)
                return 1;
        if (r > 0 && why == -EBADMSG && !x->result.id)
                why = error_set(e, why, "It is damaged or was replaced: its digest is wrong");
        return error_prefix(e, why, "Layer %u (%s)", x->layer->number, x->layer->descriptor->digest);
}

/* 1: it has to be repeated. */
static int try_layer(Readers *r, Layer *l, Error *e)
{
        _cleanup_(reading_done) Reading x = {.readers = r, .layer = l, .unpack = UNPACK_NULL, .fd = -EBADF};

        int k = l->need == LAYER_NEEDS_DIGEST ? read_digest(&x, e) : read_layer(&x, e);
        return k < 0 ? classify_failure(&x, k, e) : 0;
}

/* --- All layers ---------------------------------------------------------------------------------------- */

static Layer *next_layer(Readers *r)
{
        Layer *l = NULL;

        pthread_mutex_lock(&r->mutex);
        while (!l && r->result >= 0 && r->next < r->n_layers) {
                Layer *candidate = &r->layers[r->next++];
                l = candidate->need != LAYER_NEEDS_NOTHING ? candidate : NULL;
        }
        pthread_mutex_unlock(&r->mutex);
        return l;
}

static void note_failure(Readers *r, int result, Error *e)
{
        pthread_mutex_lock(&r->mutex);
        if (r->result >= 0) {
                r->result = result;
                r->error = TAKE_GENERIC(*e, Error, ERROR_NULL);
        }
        pthread_mutex_unlock(&r->mutex);
}

static void *reading_thread(void *userdata)
{
        Readers *readers = userdata;

        for (Layer *l; (l = next_layer(readers));) {
                _cleanup_error_ Error error = ERROR_NULL;
                int r;
                do
                        r = try_layer(readers, l, &error);
                while (r > 0);
                if (r < 0)
                        note_failure(readers, r, &error);
        }
        return NULL;
}

/* The number of threads in addition to this one. */
static unsigned n_helpers(const Readers *r)
{
        long processors = sysconf(_SC_NPROCESSORS_ONLN);
        unsigned n = r->options->n_parallel;
        size_t pending = 0;

        if (n == 0)
                n = processors > 0 ? (unsigned) MIN(processors, (long) PARALLEL_MAX) : 1;
        for (size_t i = 0; i < r->n_layers; i++)
                pending += r->layers[i].need != LAYER_NEEDS_NOTHING;
        return (unsigned) MIN((size_t) MIN(n, PARALLEL_MAX), MAX(pending, (size_t) 1)) - 1;
}

static void run_threads(Readers *r)
{
        pthread_t threads[PARALLEL_MAX];

        /* If a thread cannot be started, there are fewer. */
        size_t n = threads_start(threads, n_helpers(r), reading_thread, r, NULL);
        (void) reading_thread(r);
        threads_join(threads, n);
}

int layers_read(Store *s, OciSource *src, Layer *layers, size_t n, const OciImportOptions *o, Error *e)
{
        Readers r = {.store = s, .source = src, .layers = layers, .n_layers = n, .options = o};

        for (size_t i = 0; i < n; i++) {
                int k = look_for_layer(s, src, &layers[i], e);
                if (k < 0)
                        return k;
                layers[i].done = 0;
                if (layers[i].need != LAYER_NEEDS_NOTHING)
                        r.total += layers[i].descriptor->size;
        }
        if (o->progress && r.total > 0)
                o->progress(0, r.total, o->userdata);
        pthread_mutex_init(&r.mutex, NULL);
        run_threads(&r);
        pthread_mutex_destroy(&r.mutex);
        if (r.result < 0) {
                (void) error_move(e, &r.error);
                return r.result;
        }
        return layers_fill_links(s, layers, n, e);
}

/* --- Information about a layer
 * -------------------------------------------------------------------------- */

int layer_open(Store *s, const Layer *l, Error *e)
{
        _cleanup_free_ char *path = NULL;

        if (l->temporary.name) {
                int fd = fcntl(l->temporary.dir_fd, F_DUPFD_CLOEXEC, 3);
                return fd < 0 ? error_set_errno(e, errno, "Cannot open layer %u", l->number) : fd;
        }
        if (layer_path(l, &path) < 0)
                return error_oom(e);
        int fd = open_beneath(s->fd, path, O_RDONLY | O_DIRECTORY);
        return fd < 0 ? error_set_errno(e, fd, "Cannot open layer %u in the store (%s)", l->number, path)
                      : fd;
}

int layer_read_size(Store *s, const Layer *l, uint64_t *ret, Error *e)
{
        _cleanup_close_ int fd = layer_open(s, l, e);
        _cleanup_free_ char *text = NULL;

        if (fd < 0)
                return fd;
        int r = read_file_at(fd, "size", 32, &text, NULL);
        if (r >= 0) {
                text[strcspn(text, "\n")] = 0;
                r = parse_u64(text, ret);
        }
        return r < 0 ? error_set_errno(e, r, "Cannot read the size of layer %u", l->number) : 0;
}

int layer_hides_all(Store *s, const Layer *l, Error *e)
{
        _cleanup_close_ int dir_fd = layer_open(s, l, e), fd = -EBADF;

        if (dir_fd < 0)
                return dir_fd;
        fd = openat(dir_fd, "rootfs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return error_set_errno(e, errno, "Cannot open the files of layer %u", l->number);
        return unpack_is_opaque(fd);
}
