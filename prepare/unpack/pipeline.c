/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Reads an archive ahead of the unpacking thread.
 *
 * Decompressing, hashing and unpacking take about the same time, so each has a thread: one reads and
 * decompresses into a ring of blocks, one hashes them, and the caller's unpacks them. A block is reused when
 * both have released it, which bounds how far the reader can run ahead. The hash covers every byte up to the
 * end of the stream, including those after the end of the archive. Nothing is read twice, so exactly the
 * unpacked bytes were hashed.
 */

#include <sys/eventfd.h>

#include "library/libcrypto.h"
#include "prepare/unpack/unpack.h"

#define BLOCK_SIZE (256U * 1024U)
#define N_BLOCKS 16U

enum { CONSUMER_HASH, CONSUMER_CALLER, _CONSUMER_MAX };

struct Pipeline {
        int fd, wake_fd;
        PipelineOptions options;
        unsigned char *data; /* N_BLOCKS of BLOCK_SIZE */
        size_t sizes[N_BLOCKS];
        EVP_MD_CTX *digest;
        uint64_t data_size; /* owned by the hashing thread while it runs */

        pthread_t threads[2];
        unsigned n_threads;

        pthread_mutex_t mutex; /* protects the members below */
        pthread_cond_t changed;
        uint64_t produced, consumed[_CONSUMER_MAX]; /* blocks */
        uint64_t size, compressed_size;
        bool ended, stop, hash_failed;
        Error error; /* of the reading thread; valid after all blocks */

        bool holding; /* the caller has a block that it has not released yet */
};

static unsigned char *block_data(Pipeline *p, uint64_t n)
{
        return p->data + (n % N_BLOCKS) * BLOCK_SIZE;
}

/* Waits for a free block. False: stop. */
static bool wait_for_room(Pipeline *p)
{
        pthread_mutex_lock(&p->mutex);
        while (!p->stop &&
               p->produced - MIN(p->consumed[CONSUMER_HASH], p->consumed[CONSUMER_CALLER]) >= N_BLOCKS)
                pthread_cond_wait(&p->changed, &p->mutex);
        bool go_on = !p->stop;
        pthread_mutex_unlock(&p->mutex);
        return go_on;
}

/* Waits for the next block. False: end of the stream, or stop. */
static bool wait_for_block(Pipeline *p, unsigned consumer)
{
        pthread_mutex_lock(&p->mutex);
        while (!p->stop && !p->ended && p->consumed[consumer] == p->produced)
                pthread_cond_wait(&p->changed, &p->mutex);
        bool there = !p->stop && p->consumed[consumer] < p->produced;
        pthread_mutex_unlock(&p->mutex);
        return there;
}

static void give_back(Pipeline *p, unsigned consumer)
{
        pthread_mutex_lock(&p->mutex);
        p->consumed[consumer]++;
        pthread_cond_broadcast(&p->changed);
        pthread_mutex_unlock(&p->mutex);
}

static int produce(Pipeline *p, Stream *s, Error *e)
{
        for (uint64_t n = 0; wait_for_room(p); n++) {
                ssize_t k = stream_read(s, block_data(p, n), BLOCK_SIZE, e);
                if (k <= 0)
                        return (int) k;
                pthread_mutex_lock(&p->mutex);
                p->sizes[n % N_BLOCKS] = (size_t) k;
                p->size += (uint64_t) k;
                p->compressed_size = stream_compressed_size(s);
                p->produced++;
                bool too_long = p->size > p->options.size_max;
                pthread_cond_broadcast(&p->changed);
                pthread_mutex_unlock(&p->mutex);
                if (too_long)
                        return error_set(e, -ENOSPC,
                                         "The uncompressed archive does not fit into the free space of the "
                                         "store (%" PRIu64 " bytes)",
                                         p->options.size_max);
        }
        return 0;
}

static void *reading_thread(void *userdata)
{
        _cleanup_(stream_freep) Stream *s = NULL;
        _cleanup_error_ Error error = ERROR_NULL;
        Pipeline *p = userdata;

        int r = stream_new(p->fd, p->wake_fd, &p->options.hooks, &s, &error);
        if (r >= 0)
                r = produce(p, s, &error);

        pthread_mutex_lock(&p->mutex);
        if (r < 0) {
                error.code = r;
                p->error = TAKE_GENERIC(error, Error, ERROR_NULL);
        }
        p->compressed_size = s ? stream_compressed_size(s) : 0;
        p->ended = true;
        pthread_cond_broadcast(&p->changed);
        pthread_mutex_unlock(&p->mutex);
        return NULL;
}

static void *hashing_thread(void *userdata)
{
        Pipeline *p = userdata;
        uint64_t offset = 0;
        bool failed = false;

        for (uint64_t n = 0; wait_for_block(p, CONSUMER_HASH); n++) {
                const unsigned char *b = block_data(p, n);
                size_t size = p->sizes[n % N_BLOCKS], used = size;

                failed = failed || EVP_DigestUpdate(p->digest, b, size) != 1;
                while (used > 0 && b[used - 1] == 0)
                        used--;
                if (used > 0)
                        p->data_size = offset + used;
                offset += size;
                give_back(p, CONSUMER_HASH);
        }
        if (failed) {
                pthread_mutex_lock(&p->mutex);
                p->hash_failed = true;
                pthread_mutex_unlock(&p->mutex);
        }
        return NULL;
}

static int start_threads(Pipeline *p)
{
        static void *(*const functions[])(void *) = {reading_thread, hashing_thread};
        int r = 0;

        for (unsigned i = 0; i < ELEMENTSOF(functions) && r == 0; i++) {
                r = thread_start(&p->threads[i], functions[i], p);
                if (r == 0)
                        p->n_threads++;
        }
        return r;
}

int pipeline_new(int fd, const PipelineOptions *o, Pipeline **ret, Error *e)
{
        _cleanup_(pipeline_freep) Pipeline *p = NULL;

        int k = library_load(&crypto_library, e);
        if (k < 0)
                return k;
        p = calloc(1, sizeof(Pipeline));
        if (!p)
                return error_oom(e);
        p->fd = fd;
        p->options = *o;
        pthread_mutex_init(&p->mutex, NULL);
        pthread_cond_init(&p->changed, NULL);
        p->data = malloc((size_t) N_BLOCKS * BLOCK_SIZE);
        p->digest = EVP_MD_CTX_new();
        p->wake_fd = eventfd(0, EFD_CLOEXEC);
        const EVP_MD *algorithm = o->sha256 ? EVP_sha256() : EVP_sha512();
        if (!p->data || !p->digest || EVP_DigestInit_ex(p->digest, algorithm, NULL) != 1)
                return error_oom(e);
        if (p->wake_fd < 0)
                return error_set_errno(e, errno, "Cannot create an event descriptor");
        int r = start_threads(p);
        if (r < 0)
                return error_set_errno(e, r, "Cannot start a thread to read the image");
        *ret = TAKE_PTR(p);
        return 0;
}

Pipeline *pipeline_free(Pipeline *p)
{
        if (!p)
                return NULL;
        pthread_mutex_lock(&p->mutex);
        p->stop = true;
        pthread_cond_broadcast(&p->changed);
        pthread_mutex_unlock(&p->mutex);
        if (p->wake_fd >= 0)
                (void) eventfd_write(p->wake_fd, 1);
        for (unsigned i = 0; i < p->n_threads; i++)
                (void) pthread_join(p->threads[i], NULL);
        pthread_cond_destroy(&p->changed);
        pthread_mutex_destroy(&p->mutex);
        EVP_MD_CTX_free(p->digest);
        safe_close(p->wake_fd);
        error_done(&p->error);
        free(p->data);
        free(p);
        return NULL;
}

/* Moves the error to the caller; later calls return the same code. */
static int take_error(Pipeline *p, Error *e)
{
        int code = p->error.code;

        if (code < 0 && e) {
                error_done(e);
                *e = TAKE_GENERIC(p->error, Error, ERROR_NULL);
                p->error.code = code;
        }
        return code;
}

ssize_t pipeline_next(Pipeline *p, const void **ret, Error *e)
{
        if (p->holding) {
                p->holding = false;
                give_back(p, CONSUMER_CALLER);
        }
        if (!wait_for_block(p, CONSUMER_CALLER))
                return take_error(p, e);
        uint64_t n = p->consumed[CONSUMER_CALLER];
        *ret = block_data(p, n);
        p->holding = true;
        return (ssize_t) p->sizes[n % N_BLOCKS];
}

uint64_t pipeline_compressed_size(Pipeline *p)
{
        pthread_mutex_lock(&p->mutex);
        uint64_t size = p->compressed_size;
        pthread_mutex_unlock(&p->mutex);
        return size;
}

int pipeline_finish(Pipeline *p, PipelineResult *ret, Error *e)
{
        _cleanup_free_ char *hex = NULL;
        unsigned char hash[EVP_MAX_MD_SIZE];
        unsigned size = 0;
        char *id;

        for (; p->n_threads > 0; p->n_threads--)
                (void) pthread_join(p->threads[p->n_threads - 1], NULL);
        if (p->hash_failed || EVP_DigestFinal_ex(p->digest, hash, &size) != 1)
                return error_set(e, -EIO, "Cannot hash the image");
        hex = hex_encode(hash, size);
        if (!hex || xasprintf(&id, "%s%s", p->options.sha256 ? "sha256-" : IMAGE_ID_PREFIX, hex) < 0)
                return error_oom(e);
        *ret = (PipelineResult){
                        .id = id,
                        .size = p->size,
                        .compressed_size = p->compressed_size,
                        .data_size = p->data_size,
        };
        return 0;
}
