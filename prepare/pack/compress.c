/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Writes compressed data reproducibly.
 *
 * The parameters of each library are chosen for good and identical output everywhere: fixed levels, no time
 * and no name in headers, checksums. xz and zstd use all processors. Their output consists of blocks or jobs
 * whose size is fixed here or by the level, so the number of threads affects only the duration; therefore a
 * single thread uses the same code as many. The threads of xz use at most a quarter of the memory.
 */

#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <sys/stat.h>

#include "library/libbz2.h"
#include "library/liblzma.h"
#include "library/libz.h"
#include "library/libzstd.h"
#include "prepare/pack/pack-internal.h"

#define OUTPUT_SIZE (256U * 1024U)
#define INPUT_MAX (1U << 30) /* per call: the limit of all libraries */

#define GZIP_LEVEL 6
#define BZIP2_LEVEL 9
#define XZ_LEVEL 6
#define XZ_BLOCK_SIZE (24ULL << 20) /* three times the dictionary of that level, as in xz(1) */
#define XZ_STEP_MSEC 200            /* interval of checks of the operation while its threads work */
#define ZSTD_LEVEL 9
#define THREADS_MAX 64

typedef struct Codec Codec;

struct Compressor {
        const Codec *codec;
        const Operation *operation;
        int fd;
        char *what;
        unsigned char *output;
        size_t used;
        bool is_regular, started;
        union {
                z_stream gzip;
                bz_stream bzip2;
                lzma_stream xz;
                ZSTD_CCtx *zstd;
        };
};

/* The remaining input, and the buffer for output. */
typedef struct Step {
        const unsigned char *in;
        size_t in_left;
        unsigned char *out;
        size_t out_left;
        bool finish; /* this is the last input */
} Step;

struct Codec {
        const char *name;
        Library *library;
        int (*start)(Compressor *c);         /* -ENOMEM, -ENOTSUP */
        int (*step)(Compressor *c, Step *s); /* 1: FINISH is complete; 0: continue; negative errno */
        void (*stop)(Compressor *c);
};

static unsigned n_processors(void)
{
        cpu_set_t set;

        if (sched_getaffinity(0, sizeof(set), &set) < 0)
                return 1;
        return (unsigned) MAX(CPU_COUNT(&set), 1);
}

/* --- gzip ---------------------------------------------------------------------------------------------- */

static int gzip_start(Compressor *c)
{
        int r = deflateInit2(&c->gzip, GZIP_LEVEL, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);

        return r == Z_OK ? 0 : r == Z_MEM_ERROR ? -ENOMEM : -ENOTSUP;
}

static int gzip_step(Compressor *c, Step *s)
{
        c->gzip.next_in = (unsigned char *) s->in;
        c->gzip.avail_in = (uInt) s->in_left;
        c->gzip.next_out = s->out;
        c->gzip.avail_out = (uInt) s->out_left;
        int r = deflate(&c->gzip, s->finish ? Z_FINISH : Z_NO_FLUSH);
        s->in = c->gzip.next_in;
        s->in_left = c->gzip.avail_in;
        s->out_left = c->gzip.avail_out;
        return r == Z_STREAM_END ? 1 : r == Z_OK || r == Z_BUF_ERROR ? 0 : -EIO;
}

static void gzip_stop(Compressor *c)
{
        (void) deflateEnd(&c->gzip);
}

/* --- bzip2 --------------------------------------------------------------------------------------------- */

static int bzip2_start(Compressor *c)
{
        int r = BZ2_bzCompressInit(&c->bzip2, BZIP2_LEVEL, 0, 0);

        return r == BZ_OK ? 0 : r == BZ_MEM_ERROR ? -ENOMEM : -ENOTSUP;
}

static int bzip2_step(Compressor *c, Step *s)
{
        c->bzip2.next_in = (char *) s->in;
        c->bzip2.avail_in = (unsigned) s->in_left;
        c->bzip2.next_out = (char *) s->out;
        c->bzip2.avail_out = (unsigned) s->out_left;
        int r = BZ2_bzCompress(&c->bzip2, s->finish ? BZ_FINISH : BZ_RUN);
        s->in = (unsigned char *) c->bzip2.next_in;
        s->in_left = c->bzip2.avail_in;
        s->out_left = c->bzip2.avail_out;
        return r == BZ_STREAM_END ? 1 : r == BZ_RUN_OK || r == BZ_FINISH_OK ? 0 : -EIO;
}

static void bzip2_stop(Compressor *c)
{
        (void) BZ2_bzCompressEnd(&c->bzip2);
}

/* --- xz ------------------------------------------------------------------------------------------------ */

static int xz_start(Compressor *c)
{
        lzma_mt mt = {
                        .threads = MIN(n_processors(), (unsigned) THREADS_MAX),
                        .block_size = XZ_BLOCK_SIZE,
                        .timeout = XZ_STEP_MSEC,
                        .preset = XZ_LEVEL,
                        .check = LZMA_CHECK_CRC64,
        };
        uint64_t max = lzma_physmem() / 4;

        while (mt.threads > 1 && lzma_stream_encoder_mt_memusage(&mt) > max)
                mt.threads--;
        c->xz = (lzma_stream) LZMA_STREAM_INIT;
        lzma_ret r = lzma_stream_encoder_mt(&c->xz, &mt);
        return r == LZMA_OK ? 0 : r == LZMA_MEM_ERROR ? -ENOMEM : -ENOTSUP;
}

static int xz_step(Compressor *c, Step *s)
{
        c->xz.next_in = s->in;
        c->xz.avail_in = s->in_left;
        c->xz.next_out = s->out;
        c->xz.avail_out = s->out_left;
        lzma_ret r = lzma_code(&c->xz, s->finish ? LZMA_FINISH : LZMA_RUN);
        s->in = c->xz.next_in;
        s->in_left = c->xz.avail_in;
        s->out_left = c->xz.avail_out;
        if (r == LZMA_MEM_ERROR)
                return -ENOMEM;
        return r == LZMA_STREAM_END ? 1 : r == LZMA_OK || r == LZMA_BUF_ERROR ? 0 : -EIO;
}

static void xz_stop(Compressor *c)
{
        lzma_end(&c->xz);
}

/* --- zstd ---------------------------------------------------------------------------------------------- */

static int zstd_start(Compressor *c)
{
        const struct {
                ZSTD_cParameter parameter;
                int value;
        } parameters[] = {
                        {ZSTD_c_compressionLevel, ZSTD_LEVEL},
                        {ZSTD_c_checksumFlag, 1},
                        {ZSTD_c_nbWorkers, (int) MIN(n_processors(), (unsigned) THREADS_MAX)},
        };

        c->zstd = ZSTD_createCCtx();
        if (!c->zstd)
                return -ENOMEM;
        /* The last one may fail in a library without threads. All versions support the others. */
        for (size_t i = 0; i < ELEMENTSOF(parameters); i++)
                (void) ZSTD_CCtx_setParameter(c->zstd, parameters[i].parameter, parameters[i].value);
        return 0;
}

static int zstd_step(Compressor *c, Step *s)
{
        ZSTD_inBuffer in = {.src = s->in, .size = s->in_left};
        ZSTD_outBuffer out = {.dst = s->out, .size = s->out_left};

        size_t left = ZSTD_compressStream2(c->zstd, &out, &in, s->finish ? ZSTD_e_end : ZSTD_e_continue);
        s->in += in.pos;
        s->in_left -= in.pos;
        s->out_left -= out.pos;
        if (ZSTD_isError(left))
                return -EIO;
        return s->finish && left == 0;
}

static void zstd_stop(Compressor *c)
{
        (void) ZSTD_freeCCtx(c->zstd);
}

/* --- All compressions
 * ----------------------------------------------------------------------------------------------- */

static int none_step(Compressor *c, Step *s)
{
        size_t n = MIN(s->in_left, s->out_left);

        if (n > 0)
                memcpy(s->out, s->in, n);
        s->in += n;
        s->in_left -= n;
        s->out_left -= n;
        return s->finish && s->in_left == 0;
}

static const Codec codecs[_COMPRESSION_MAX] = {
                [COMPRESSION_NONE] = {"none", NULL, NULL, none_step, NULL},
                [COMPRESSION_GZIP] = {"gzip", &z_library, gzip_start, gzip_step, gzip_stop},
                [COMPRESSION_BZIP2] = {"bzip2", &bz2_library, bzip2_start, bzip2_step, bzip2_stop},
                [COMPRESSION_XZ] = {"xz", &lzma_library, xz_start, xz_step, xz_stop},
                [COMPRESSION_ZSTD] = {"zstd", &zstd_library, zstd_start, zstd_step, zstd_stop},
};

int compression_from_string(const char *s)
{
        for (int i = 0; i < _COMPRESSION_MAX; i++)
                if (streq(codecs[i].name, s))
                        return i;
        return -EINVAL;
}

int compressor_new(Compression k, int fd, const char *what, const Operation *o, Compressor **ret, Error *e)
{
        _cleanup_(compressor_freep) Compressor *c = calloc(1, sizeof(Compressor));

        struct stat st;

        if (!c)
                return error_oom(e);
        c->codec = &codecs[k];
        c->operation = o;
        c->fd = fd;
        c->what = strdup(what);
        c->output = malloc(OUTPUT_SIZE);
        if (!c->what || !c->output)
                return error_oom(e);
        c->is_regular = fstat(fd, &st) >= 0 && S_ISREG(st.st_mode);
        int r = c->codec->library ? library_load(c->codec->library, e) : 0;
        if (r < 0)
                return r;
        r = c->codec->start ? c->codec->start(c) : 0;
        c->started = r >= 0;
        if (r == -ENOMEM)
                return error_oom(e);
        if (r < 0)
                return error_set(e, r, "Cannot write %s: the library for %s cannot compress", what,
                                 c->codec->name);
        *ret = TAKE_PTR(c);
        return 0;
}

const Operation *compressor_operation(const Compressor *c)
{
        return c->operation;
}

Compressor *compressor_free(Compressor *c)
{
        if (!c)
                return NULL;
        if (c->started && c->codec->stop)
                c->codec->stop(c);
        free(c->output);
        free(c->what);
        free(c);
        return NULL;
}

/* Waits until a pipe is writable; the operation may end before. */
static int wait_for_room(Compressor *c, Error *e)
{
        int r = operation_poll(c->operation, c->fd, POLLOUT, -1, e);

        return r < 0 && !operation_ended(r) ? error_set_errno(e, r, "Cannot write %s", c->what) : MIN(r, 0);
}

static int flush(Compressor *c, Error *e)
{
        size_t done = 0;

        while (done < c->used) {
                int r = wait_for_room(c, e);
                if (r < 0)
                        return r;
                /* At most as much as a writable pipe accepts without blocking. */
                ssize_t n = write(c->fd, c->output + done,
                                  c->is_regular ? c->used - done : MIN(c->used - done, (size_t) PIPE_BUF));
                if (n < 0 && errno != EINTR && errno != EAGAIN)
                        return error_set_errno(e, errno, "Cannot write %s", c->what);
                done += n > 0 ? (size_t) n : 0;
        }
        c->used = 0;
        return 0;
}

static int run(Compressor *c, const void *p, size_t size, bool finish, Error *e)
{
        Step s = {.in = p, .in_left = size, .finish = finish};

        for (;;) {
                s.out = c->output + c->used;
                s.out_left = OUTPUT_SIZE - c->used;
                int done = operation_check(c->operation, e);
                if (done < 0)
                        return done;
                done = c->codec->step(c, &s);
                c->used = OUTPUT_SIZE - s.out_left;
                if (done == -ENOMEM)
                        return error_oom(e);
                if (done < 0)
                        return error_set(e, done, "Cannot write %s: compressing with %s failed", c->what,
                                         c->codec->name);
                if (s.out_left == 0) {
                        int r = flush(c, e);
                        if (r < 0)
                                return r;
                }
                if (done > 0 || (!finish && s.in_left == 0))
                        return 0;
        }
}

int compressor_write(Compressor *c, const void *p, size_t size, Error *e)
{
        for (size_t n; size > 0; size -= n, p = (const char *) p + n) {
                n = MIN(size, (size_t) INPUT_MAX);
                int r = run(c, p, n, false, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

int compressor_finish(Compressor *c, Error *e)
{
        int r = run(c, NULL, 0, true, e);

        return r < 0 ? r : flush(c, e);
}
