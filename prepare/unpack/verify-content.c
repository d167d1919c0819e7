/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Hashes many files in parallel, and reports those that differ from the record.
 *
 * One thread per processor takes files from a bounded queue, so that memory does not grow with their number.
 * A file is opened by its path below the directory without following a symlink, as it may have been replaced
 * since the walk.
 */

#include "prepare/unpack/record-verify.h"

#define THREADS_MAX 8U
#define QUEUE_SIZE 256U

typedef struct Job {
        char *path;
        uint64_t size;
        bool sparse;
        char hash[HASH_HEX_SIZE + 1];
} Job;

struct Hashers {
        int dir_fd;
        pthread_t threads[THREADS_MAX];
        size_t n_threads;

        pthread_mutex_t mutex; /* protects the members below */
        pthread_cond_t changed;
        RecordCheck *check;
        Job queue[QUEUE_SIZE];
        uint64_t n_added, n_taken;
        uint64_t done, total;
        bool ended, stop;
        int error;
};

static int report_locked(Hashers *h, const char *path, DifferenceKind kind, const char *expected,
                         const char *found)
{
        pthread_mutex_lock(&h->mutex);
        int r = record_check_add(h->check, path, kind, expected, found);
        pthread_mutex_unlock(&h->mutex);
        return r;
}

int hashers_report(Hashers *h, const char *path, DifferenceKind kind, const char *expected,
                   const char *found)
{
        return report_locked(h, path, kind, expected, found);
}

static int count(uint64_t n, void *userdata)
{
        Hashers *h = userdata;

        pthread_mutex_lock(&h->mutex);
        h->done += n;
        h->check->n_bytes += n;
        int r = h->stop ? -ECANCELED : operation_check(h->check->operation, NULL);
        if (r >= 0 && h->check->progress)
                r = h->check->progress(h->done, h->total, h->check->userdata);
        pthread_mutex_unlock(&h->mutex);
        return r;
}

static int hash_job(Hashers *h, const Job *j, ContentHash *c)
{
        _cleanup_close_ int fd =
                        open_quietly(h->dir_fd, j->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
        _cleanup_free_ char *hex = NULL;
        unsigned char hash[CONTENT_HASH_SIZE];
        struct stat st;

        int r = fd < 0 ? fd : fstat(fd, &st) < 0 ? -errno : S_ISREG(st.st_mode) ? 0 : -EBADMSG;
        if (r >= 0)
                r = content_hash_file(c, fd, j->size, j->sparse, count, h, hash);
        if (r == -ECANCELED || operation_ended(r) || r == -ENOMEM)
                return r;
        if (r < 0 && r != -EBADMSG)
                return report_locked(h, j->path, DIFFERENCE_ERROR, NULL, strerror(-r));
        hex = r >= 0 ? hex_encode(hash, sizeof(hash)) : NULL;
        if (r >= 0 && !hex)
                return -ENOMEM;
        return hex && streq(hex, j->hash) ? 0 : report_locked(h, j->path, DIFFERENCE_CONTENT, NULL, NULL);
}

/* False: there are no more jobs. */
static bool take_job(Hashers *h, Job *ret)
{
        pthread_mutex_lock(&h->mutex);
        while (!h->stop && !h->ended && h->n_taken == h->n_added)
                pthread_cond_wait(&h->changed, &h->mutex);
        bool there = !h->stop && h->n_taken < h->n_added;
        if (there) {
                *ret = h->queue[h->n_taken % QUEUE_SIZE];
                h->queue[h->n_taken++ % QUEUE_SIZE].path = NULL;
                pthread_cond_broadcast(&h->changed);
        }
        pthread_mutex_unlock(&h->mutex);
        return there;
}

static void *hashing_thread(void *userdata)
{
        _cleanup_content_hash_ ContentHash c = {};
        Hashers *h = userdata;
        Job j;

        while (take_job(h, &j)) {
                int r = hash_job(h, &j, &c);
                free(j.path);
                if (r >= 0)
                        continue;
                pthread_mutex_lock(&h->mutex);
                h->error = h->error ?: r;
                h->stop = true;
                pthread_cond_broadcast(&h->changed);
                pthread_mutex_unlock(&h->mutex);
        }
        return NULL;
}

static int start_threads(Hashers *h)
{
        long n = sysconf(_SC_NPROCESSORS_ONLN);
        size_t wanted = n < 1 ? 1 : MIN((size_t) n, (size_t) THREADS_MAX);
        int r = 0;

        h->n_threads = threads_start(h->threads, wanted, hashing_thread, h, &r);
        return h->n_threads > 0 ? 0 : r; /* one is enough */
}

int hashers_new(int dir_fd, RecordCheck *c, uint64_t total, Hashers **ret)
{
        _cleanup_(hashers_freep) Hashers *h = calloc(1, sizeof(Hashers));

        if (!h)
                return -ENOMEM;
        h->dir_fd = dir_fd;
        h->check = c;
        h->total = total;
        pthread_mutex_init(&h->mutex, NULL);
        pthread_cond_init(&h->changed, NULL);
        int r = start_threads(h);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(h);
        return 0;
}

static void end_and_join(Hashers *h, bool stop)
{
        pthread_mutex_lock(&h->mutex);
        h->ended = true;
        h->stop = h->stop || stop;
        pthread_cond_broadcast(&h->changed);
        pthread_mutex_unlock(&h->mutex);
        for (; h->n_threads > 0; h->n_threads--)
                (void) pthread_join(h->threads[h->n_threads - 1], NULL);
}

Hashers *hashers_free(Hashers *h)
{
        if (!h)
                return NULL;
        end_and_join(h, true);
        for (size_t i = 0; i < QUEUE_SIZE; i++)
                free(h->queue[i].path);
        pthread_cond_destroy(&h->changed);
        pthread_mutex_destroy(&h->mutex);
        free(h);
        return NULL;
}

int hashers_add(Hashers *h, const RecordEntry *x)
{
        Job j = {.path = strdup(x->path), .size = x->size, .sparse = x->sparse};

        if (!j.path)
                return -ENOMEM;
        memcpy(j.hash, x->hash, sizeof(j.hash));
        pthread_mutex_lock(&h->mutex);
        while (!h->stop && h->n_added - h->n_taken >= QUEUE_SIZE)
                pthread_cond_wait(&h->changed, &h->mutex);
        int r = h->stop ? h->error ?: -ECANCELED : 0;
        if (r >= 0) {
                h->queue[h->n_added++ % QUEUE_SIZE] = j;
                pthread_cond_broadcast(&h->changed);
        }
        pthread_mutex_unlock(&h->mutex);
        if (r < 0)
                free(j.path);
        return r;
}

int hashers_finish(Hashers *h)
{
        end_and_join(h, false);
        return h->error;
}
