/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sorts more lines than fit into memory.
 *
 * Lines are collected up to a bound, sorted, and written to a file as one run; in the end the runs are
 * merged by a heap that has the next line of each. An image of a usual size never reaches the bound, so
 * nothing is written. The memory used is the bound, and a small buffer for each run.
 */

#include <sys/random.h>

#include "prepare/unpack/record.h"

#define MEMORY_MAX (16U << 20)
#define RUN_BUFFER (RECORD_LINE_MAX)

typedef struct Run {
        uint64_t offset, end; /* what is still to be read */
        char *buffer;
        size_t size, used, line; /* bytes in the buffer; those before the line after this one; this line */
} Run;

struct RecordSort {
        int tmp_fd, fd; /* the file of the runs */
        uint64_t written;
        SpaceMeter meter;
        Text lines; /* each with a NUL instead of the newline */
        size_t *starts;
        size_t n_starts, n_allocated, next;
        Run *runs;
        size_t n_runs, runs_allocated;
        Run **heap; /* by their lines */
        size_t n_heap;
        bool started; /* the line of the topmost run was returned */
};

int temporary_file(int tmp_fd, int *ret_fd)
{
        uint64_t number;
        char name[32];

        int fd = openat(tmp_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        if (fd < 0 && errno != EOPNOTSUPP && errno != EISDIR)
                return -errno;
        if (fd < 0) {
                if (getrandom(&number, sizeof(number), 0) != sizeof(number))
                        return -EIO;
                snprintf(name, sizeof(name), "spill.%016" PRIx64, number);
                fd = openat(tmp_fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
                if (fd < 0)
                        return -errno;
                (void) unlinkat(tmp_fd, name, 0);
        }
        *ret_fd = fd;
        return 0;
}

int record_sort_new(int tmp_fd, RecordSort **ret)
{
        RecordSort *s = calloc(1, sizeof(RecordSort));

        if (!s)
                return -ENOMEM;
        s->tmp_fd = tmp_fd;
        s->fd = -EBADF;
        *ret = s;
        return 0;
}

RecordSort *record_sort_free(RecordSort *s)
{
        if (!s)
                return NULL;
        for (size_t i = 0; i < s->n_runs; i++)
                free(s->runs[i].buffer);
        free(s->runs);
        free(s->heap);
        free(s->starts);
        text_done(&s->lines);
        safe_close(s->fd);
        free(s);
        return NULL;
}

static int compare_starts(const void *a, const void *b, void *lines)
{
        return record_line_compare((char *) lines + *(const size_t *) a,
                                   (char *) lines + *(const size_t *) b);
}

static void sort_lines(RecordSort *s)
{
        if (s->n_starts > 1)
                qsort_r(s->starts, s->n_starts, sizeof(size_t), compare_starts, s->lines.data);
}

static int write_lines(RecordSort *s, FILE *f)
{
        for (size_t i = 0; i < s->n_starts; i++) {
                const char *line = s->lines.data + s->starts[i];
                size_t n = strlen(line) + 1;
                int r = space_meter_add(&s->meter, s->fd, n, 0);
                if (r < 0)
                        return r;
                if (fwrite(line, 1, n, f) != n)
                        return -EIO;
                s->written += n;
        }
        return fflush(f) != 0 ? -errno : 0;
}

/* Writes the lines in memory as another run. */
static int write_run(RecordSort *s)
{
        _cleanup_fclose_ FILE *f = NULL;
        uint64_t start = s->written;

        if (s->fd < 0) {
                int r = temporary_file(s->tmp_fd, &s->fd);
                if (r < 0)
                        return r;
        }
        int copy = fcntl(s->fd, F_DUPFD_CLOEXEC, 3);
        f = copy < 0 ? NULL : fdopen(copy, "a");
        if (!f) {
                safe_close(copy);
                return -ENOMEM;
        }
        if (GREEDY_REALLOC(s->runs, s->runs_allocated, s->n_runs + 1) < 0)
                return -ENOMEM;
        sort_lines(s);
        int r = write_lines(s, f);
        if (r < 0)
                return r;
        s->runs[s->n_runs++] = (Run){.offset = start, .end = s->written};
        s->n_starts = 0;
        s->lines.size = 0;
        return 0;
}

int record_sort_add(RecordSort *s, const char *line, size_t size)
{
        if (size > RECORD_LINE_MAX)
                return -ENAMETOOLONG;
        if (s->lines.size + size > MEMORY_MAX) {
                int r = write_run(s);
                if (r < 0)
                        return r;
        }
        if (GREEDY_REALLOC(s->starts, s->n_allocated, s->n_starts + 1) < 0)
                return -ENOMEM;
        s->starts[s->n_starts++] = s->lines.size;
        text_add_bytes(&s->lines, line, size);
        if (s->lines.failed)
                return -ENOMEM;
        s->lines.data[s->lines.size - 1] = 0;
        return 0;
}

/* --- Merging ------------------------------------------------------------------------------------------- */

/* The next line of a run into its buffer. 1, or 0 at its end. */
static int run_next(RecordSort *s, Run *r)
{
        char *end = NULL;

        r->line = r->used;
        if (r->size > r->line)
                end = memchr(r->buffer + r->line, 0, r->size - r->line);
        if (!end) {
                memmove(r->buffer, r->buffer + r->line, r->size - r->line);
                r->size -= r->line;
                r->line = 0;
                size_t n = (size_t) MIN(r->end - r->offset, (uint64_t) (RUN_BUFFER - r->size));
                ssize_t k = pread(s->fd, r->buffer + r->size, n, (off_t) r->offset);
                if (k < 0 || (size_t) k < n)
                        return -EIO;
                r->offset += n;
                r->size += n;
                if (r->size == 0)
                        return 0;
                end = memchr(r->buffer, 0, r->size);
                if (!end)
                        return -EIO;
        }
        r->used = (size_t) (end - r->buffer) + 1;
        return 1;
}

static bool run_is_before(const Run *a, const Run *b)
{
        return record_line_compare(a->buffer + a->line, b->buffer + b->line) < 0;
}

static void sift_down(RecordSort *s, size_t i)
{
        for (;;) {
                size_t least = i;
                for (size_t k = 2 * i + 1; k <= 2 * i + 2 && k < s->n_heap; k++)
                        if (run_is_before(s->heap[k], s->heap[least]))
                                least = k;
                if (least == i)
                        return;
                Run *r = s->heap[i];
                s->heap[i] = s->heap[least];
                s->heap[least] = r;
                i = least;
        }
}

int record_sort_finish(RecordSort *s)
{
        if (s->n_runs == 0) {
                sort_lines(s);
                return 0;
        }
        int r = write_run(s);
        if (r < 0)
                return r;
        text_done(&s->lines);
        s->lines = (Text){};
        s->heap = calloc(s->n_runs, sizeof(Run *));
        if (!s->heap)
                return -ENOMEM;
        for (size_t i = 0; i < s->n_runs; i++) {
                s->runs[i].buffer = malloc(RUN_BUFFER);
                if (!s->runs[i].buffer)
                        return -ENOMEM;
                r = run_next(s, &s->runs[i]);
                if (r < 0)
                        return r;
                if (r > 0)
                        s->heap[s->n_heap++] = &s->runs[i];
        }
        for (size_t i = s->n_heap; i-- > 0;)
                sift_down(s, i);
        return 0;
}

static int merge_next(RecordSort *s, char **ret)
{
        if (s->started) {
                int r = run_next(s, s->heap[0]);
                if (r < 0)
                        return r;
                if (r == 0)
                        s->heap[0] = s->heap[--s->n_heap];
                sift_down(s, 0);
        }
        s->started = s->n_heap > 0;
        if (s->n_heap > 0)
                *ret = s->heap[0]->buffer + s->heap[0]->line;
        return s->n_heap > 0;
}

int record_sort_next(RecordSort *s, char **ret)
{
        if (s->n_runs > 0)
                return merge_next(s, ret);
        if (s->next == s->n_starts)
                return 0;
        *ret = s->lines.data + s->starts[s->next++];
        return 1;
}
