/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Reproduces an archive from its recipe (recipe.c) and the unpacked files.
 *
 * The receiver of the bytes compares their hash with the original: an altered file is detected here only if
 * its size differs. The recipe was written by acnspawn, but may be damaged, so values in it that could use
 * much memory or refer to files outside of the directory are checked.
 */

#include <endian.h>

#include "prepare/unpack/record.h"

#define BUFFER_SIZE (256U * 1024U)

typedef struct Replay {
        int dir_fd;
        const Operation *operation;
        Stream *stream;
        unsigned char *buffer;
        RecipeSink sink;
        void *userdata;
} Replay;

static void replay_done(Replay *p)
{
        (void) stream_free(p->stream);
        free(p->buffer);
}

static int damaged(Error *e)
{
        return error_set(e, -EBADMSG, "The file " RECIPE_FILE " is damaged");
}

static int read_exactly(Replay *p, void *buffer, size_t n, Error *e)
{
        ssize_t k = stream_read(p->stream, buffer, n, e);

        if (k < 0)
                return error_prefix(e, (int) k, "The file " RECIPE_FILE " is damaged");
        return (size_t) k == n ? 0 : damaged(e);
}

static int read_number(Replay *p, uint64_t *ret, Error *e)
{
        uint64_t le;

        int r = read_exactly(p, &le, sizeof(le), e);
        if (r >= 0)
                *ret = le64toh(le);
        return r;
}

static int replay_raw(Replay *p, Error *e)
{
        uint64_t size;

        int r = read_number(p, &size, e);
        while (r >= 0 && size > 0) {
                size_t n = (size_t) MIN(size, (uint64_t) BUFFER_SIZE);
                r = read_exactly(p, p->buffer, n, e);
                if (r >= 0)
                        r = p->sink(p->buffer, n, p->userdata, e);
                size -= n;
        }
        return r;
}

static int file_error(Error *e, int code, const char *path, const char *why)
{
        _cleanup_free_ char *shown = text_escape_for_terminal(path);

        return error_set(e, code, "The file '%s' %s", shown ?: "?", why);
}

static int copy_file(Replay *p, int fd, const char *path, uint64_t size, Error *e)
{
        while (size > 0) {
                ssize_t n = loop_read(fd, p->buffer, (size_t) MIN(size, (uint64_t) BUFFER_SIZE));
                if (n < 0)
                        return file_error(e, (int) n, path, strerror((int) -n));
                if (n == 0)
                        return file_error(e, -EBADMSG, path, "was altered: it has become shorter");
                int r = p->sink(p->buffer, (size_t) n, p->userdata, e);
                if (r < 0)
                        return r;
                size -= (uint64_t) n;
        }
        return 0;
}

static int replay_file(Replay *p, Error *e)
{
        _cleanup_close_ int fd = -EBADF;
        char path[PATH_SIZE_MAX + 1];
        uint64_t size, n;
        struct stat st;

        int r = read_number(p, &size, e);
        if (r >= 0)
                r = read_number(p, &n, e);
        if (r >= 0)
                r = n > PATH_SIZE_MAX ? damaged(e) : read_exactly(p, path, (size_t) n, e);
        if (r < 0)
                return r;
        path[n] = 0;
        fd = open_quietly(p->dir_fd, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
        if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
                return file_error(e, -EBADMSG, path, "is missing");
        if (fd < 0)
                return error_set_errno(e, fd, "Cannot open '%s'", path);
        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (uint64_t) st.st_size != size)
                return file_error(e, -EBADMSG, path, "was altered: it has another size");
        return copy_file(p, fd, path, size, e);
}

/* 0 at the end. */
static int replay_step(Replay *p, Error *e)
{
        char what;

        int r = read_exactly(p, &what, 1, e);
        if (r < 0)
                return r;
        if (what == 'E')
                return stream_read(p->stream, p->buffer, 1, e) == 0 ? 0 : damaged(e);
        r = what == 'R' ? replay_raw(p, e) : what == 'F' ? replay_file(p, e) : damaged(e);
        if (r >= 0)
                r = operation_check(p->operation, e);
        return r < 0 ? r : 1;
}

int recipe_replay(int dir_fd, const Operation *o, RecipeSink sink, void *userdata, Error *e)
{
        _cleanup_(replay_done)
                        Replay p = {.dir_fd = dir_fd, .operation = o, .sink = sink, .userdata = userdata};
        _cleanup_close_ int fd = openat(dir_fd, RECIPE_FILE,
                                        O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        char header[sizeof(RECIPE_HEADER)] = "";

        if (fd < 0)
                return error_set_errno(e, errno, "Cannot open its file " RECIPE_FILE);
        p.buffer = malloc(BUFFER_SIZE);
        if (!p.buffer)
                return error_oom(e);
        int r = stream_new(fd, -EBADF, NULL, &p.stream, e);
        if (r < 0)
                return error_prefix(e, r, "The file " RECIPE_FILE " is damaged");
        r = read_exactly(&p, header, strlen(RECIPE_HEADER), e);
        if (r >= 0 && !streq(header, RECIPE_HEADER))
                r = damaged(e);
        while (r >= 0 && (r = replay_step(&p, e)) > 0)
                ;
        return r;
}
