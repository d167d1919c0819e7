/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Files of an image that is a tar archive, read in place.
 *
 * One scan of the headers records the offset of each member. A compressed archive, or one from a pipe, is
 * first written to the store uncompressed, as an unnamed temporary file. The content of a member is checked
 * against its digest by the reader.
 */

#include <poll.h>
#include <sys/stat.h>

#include "library/libarchive.h"
#include "prepare/oci/oci-internal.h"

#define MEMBERS_MAX 65536U
#define LINKS_MAX 8U /* maximal number of links to links */
#define COPY_SIZE (1U << 20)
#define SCAN_SIZE (64U << 10)

typedef struct Member {
        char *name; /* as unpack_normalize_path() makes it */
        char *link; /* the target of a symbolic link or a hard link, in the same form; or NULL */
        uint64_t offset, size;
        size_t number; /* position; of duplicate names the last one counts */
        bool usable;   /* a regular file without holes, or a link */
} Member;

typedef struct Archive {
        Files files;
        int fd;
        uint64_t size;
        Member *members; /* sorted */
        size_t n_members, allocated;
} Archive;

static void files_archive_done(Files *f)
{
        Archive *a = (Archive *) f;

        for (size_t i = 0; i < a->n_members; i++) {
                free(a->members[i].name);
                free(a->members[i].link);
        }
        free(a->members);
        safe_close(a->fd);
        free(a);
}

/* --- Members ------------------------------------------------------------------------------------------- */

static int compare_members(const void *a, const void *b)
{
        const Member *x = a, *y = b;
        int c = strcmp(x->name, y->name);

        return c ?: (x->number > y->number) - (x->number < y->number);
}

/* Finds the last member of that name. */
static const Member *find_member(const Archive *a, const char *name)
{
        size_t low = 0, high = a->n_members;

        while (low < high) {
                size_t middle = low + (high - low) / 2;
                if (strcmp(a->members[middle].name, name) <= 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low > 0 && streq(a->members[low - 1].name, name) ? &a->members[low - 1] : NULL;
}

/* TARGET as seen from the directory that NAME is in, without leaving the archive. */
static int resolve_link(const char *name, const char *target, char **ret)
{
        _cleanup_text_ Text t = {};
        const char *slash = strrchr(name, '/');

        if (!path_is_absolute(target) && slash)
                text_add_bytes(&t, name, (size_t) (slash - name));
        for (const char *p = target; *p;) {
                size_t n = strcspn(p, "/");

                if (n == 2 && p[0] == '.' && p[1] == '.') {
                        if (t.size == 0)
                                return -EBADMSG;
                        while (t.size > 0 && t.data[--t.size] != '/')
                                ;
                } else if (n > 0 && !(n == 1 && p[0] == '.')) {
                        text_add(&t, t.size > 0 ? "/" : "");
                        text_add_bytes(&t, p, n);
                }
                p += n;
                p += strspn(p, "/");
        }
        return text_take(&t, ret, NULL);
}

static int read_link(const char *name, struct archive_entry *entry, char **ret)
{
        const char *hard = archive_entry_hardlink(entry);

        if (hard)
                return resolve_link("", hard, ret);
        return resolve_link(name, archive_entry_symlink(entry) ?: "", ret);
}

static int add_member(Archive *a, struct archive *reader, struct archive_entry *entry, Error *e)
{
        bool link = archive_entry_hardlink(entry) || archive_entry_filetype(entry) == AE_IFLNK;
        _cleanup_free_ char *name = NULL;
        Member m = {
                        .offset = (uint64_t) archive_filter_bytes(reader, 0),
                        .size = (uint64_t) MAX(archive_entry_size(entry), 0),
                        .number = a->n_members,
                        .usable = link || (archive_entry_filetype(entry) == AE_IFREG &&
                                           archive_entry_sparse_count(entry) == 0),
        };

        if (a->n_members >= MEMBERS_MAX)
                return error_set(e, -E2BIG, "The archive has more than %u members", MEMBERS_MAX);
        int r = unpack_normalize_path(archive_entry_pathname(entry), &name, e);
        if (r < 0)
                return r;
        if (GREEDY_REALLOC(a->members, a->allocated, a->n_members + 1) < 0)
                return error_oom(e);
        /* A link whose target is outside of the archive has no target. */
        if (link && read_link(name, entry, &m.link) < 0)
                m.usable = false;
        m.name = TAKE_PTR(name);
        a->members[a->n_members++] = m;
        return 0;
}

/* The state of the scan of all headers. */
typedef struct Scan {
        Archive *archive;
        const Operation *operation;
        struct archive *reader;
        unsigned char *buffer;
        uint64_t n_read; /* bytes since the last header */
        Error error;     /* of reading */
} Scan;

static void scan_done(Scan *s)
{
        (void) archive_read_free(s->reader);
        free(s->buffer);
        error_done(&s->error);
}

/* The map of a sparse file is part of the header, and takes far more memory than its size in the archive. */
static la_ssize_t scan_read(struct archive *reader, void *userdata, const void **ret)
{
        Scan *s = userdata;

        ssize_t n = s->n_read > ENTRY_HEADERS_MAX
                                    ? error_set(&s->error, -E2BIG,
                                                "A member of the archive has more than %u bytes of headers",
                                                ENTRY_HEADERS_MAX)
                                    : loop_read(s->archive->fd, s->buffer, SCAN_SIZE);
        if (n < 0) {
                if (s->error.code == 0)
                        (void) error_set_errno(&s->error, (int) n, "Cannot read the archive");
                archive_set_error(reader, (int) -n, "no more data");
                return -1;
        }
        s->n_read += (uint64_t) n;
        *ret = s->buffer;
        return n;
}

static la_int64_t scan_skip(struct archive *reader, void *userdata, la_int64_t n)
{
        const Scan *s = userdata;

        return lseek(s->archive->fd, n, SEEK_CUR) < 0 ? 0 : n;
}

static int scan_error(Scan *s, Error *e)
{
        if (s->error.code < 0)
                return error_set(e, s->error.code, "%s", s->error.message ?: "?");
        return error_set(e, -EBADMSG, "The archive is damaged: %s",
                         archive_error_string(s->reader) ?: "unknown error");
}

/* Checks the headers of ENTRY, which begin at START and have just been read. */
static int check_headers(const Scan *s, uint64_t start, struct archive_entry *entry, Error *e)
{
        size_t n = (size_t) ((uint64_t) archive_filter_bytes(s->reader, 0) - start);
        _cleanup_free_ char *headers = malloc(n + 1);

        if (!headers)
                return error_oom(e);
        ssize_t k = pread(s->archive->fd, headers, n, (off_t) start);
        if (k < 0)
                return error_set_errno(e, errno, "Cannot read the archive");
        return tar_headers_check(headers, (size_t) k, archive_entry_pathname(entry) ?: "", e);
}

static int scan_members(Scan *s, Error *e)
{
        struct archive_entry *entry;

        for (;;) {
                uint64_t start = (uint64_t) archive_filter_bytes(s->reader, 0);
                int k = archive_read_next_header(s->reader, &entry);
                if (k == ARCHIVE_EOF)
                        return 0;
                if (k != ARCHIVE_OK && k != ARCHIVE_WARN)
                        return scan_error(s, e);
                int r = operation_check(s->operation, e);
                if (r >= 0)
                        r = check_headers(s, start, entry, e);
                if (r >= 0)
                        r = add_member(s->archive, s->reader, entry, e);
                if (r < 0)
                        return r;
                if (archive_read_data_skip(s->reader) != ARCHIVE_OK)
                        return scan_error(s, e);
                s->n_read = 0;
        }
}

static int no_archive(Error *e)
{
        int r = error_set(e, -EBADMSG, "The file is not a tar archive");

        return error_hint(e, r,
                          "It has to be an uncompressed tar archive: if it is compressed, decompress it "
                          "first.");
}

static int scan(Archive *a, const Operation *o, Error *e)
{
        _cleanup_(scan_done) Scan s = {.archive = a, .operation = o};

        int r = library_load(&archive_library, e);
        if (r < 0)
                return r;
        s.reader = archive_read_new();
        s.buffer = malloc(SCAN_SIZE);
        if (!s.reader || !s.buffer || archive_read_support_format_tar(s.reader) != ARCHIVE_OK)
                r = error_oom(e);
        else if (archive_read_open2(s.reader, &s, NULL, scan_read, scan_skip, NULL) != ARCHIVE_OK)
                r = s.error.code < 0 ? scan_error(&s, e) : no_archive(e);
        else
                r = scan_members(&s, e);
        if (a->n_members > 0)
                qsort(a->members, a->n_members, sizeof(Member), compare_members);
        return r;
}

/* The member at the highest offset. */
static const Member *last_member(const Archive *a)
{
        const Member *last = NULL;

        for (size_t i = 0; i < a->n_members; i++)
                if (!last || a->members[i].number > last->number)
                        last = &a->members[i];
        return last;
}

/* docker and podman write the documents that list the other members last. */
static bool last_is_truncated(const Archive *a)
{
        const Member *last = last_member(a);

        return last && (last->offset > a->size || last->size > a->size - last->offset);
}

static int archive_open(Files *f, const char *name, int *ret_fd, uint64_t *ret_size, Error *e)
{
        Archive *a = (Archive *) f;
        _cleanup_free_ char *normal = NULL;
        _cleanup_close_ int fd = -EBADF;

        int r = unpack_normalize_path(name, &normal, e);
        if (r < 0)
                return r;
        const Member *m = find_member(a, normal);
        for (unsigned i = 0; m && m->link && i < LINKS_MAX; i++)
                m = find_member(a, m->link);
        if (!m && last_is_truncated(a))
                return error_set(
                                e, -EBADMSG,
                                "The archive is truncated in its member %s: the missing part may have contained %s",
                                last_member(a)->name, normal);
        if (!m)
                return -ENOENT;
        if (!m->usable || m->link)
                return error_set(e, -EBADMSG, "The member %s of the archive is not a regular file", normal);
        if (m->offset > a->size || m->size > a->size - m->offset)
                return error_set(e, -EBADMSG, "The archive is truncated in its member %s", normal);
        fd = fd_reopen(a->fd, O_RDONLY);
        if (fd < 0)
                return error_set_errno(e, fd, "Cannot open the archive again");
        if (lseek(fd, (off_t) m->offset, SEEK_SET) < 0)
                return error_set_errno(e, errno, "Cannot read the archive");
        *ret_fd = TAKE_FD(fd);
        *ret_size = m->size;
        return 0;
}

/* --- Copies of archives that are not seekable ---------------------------------------------------------- */

static int check_space(SpaceMeter *m, int fd, size_t n, Error *e)
{
        int r = space_meter_add(m, fd, n, 0);

        if (r == -ENOSPC)
                return error_set(e, r, "The archive needs more space than the store has");
        return r < 0 ? error_set_errno(e, r, "Cannot determine the free space of the store") : 0;
}

static int copy_stream(Stream *s, int to_fd, Error *e)
{
        _cleanup_free_ char *buffer = malloc(COPY_SIZE);
        SpaceMeter meter = {};
        ssize_t n;

        if (!buffer)
                return error_oom(e);
        while ((n = stream_read(s, buffer, COPY_SIZE, e)) > 0) {
                int r = check_space(&meter, to_fd, (size_t) n, e);
                if (r >= 0) {
                        r = loop_write(to_fd, buffer, (size_t) n);
                        if (r < 0)
                                r = error_set_errno(e, r, "Cannot write the archive to the store");
                }
                if (r < 0)
                        return r;
        }
        return (int) n;
}

static int make_copy(Store *s, Stream *from, int *ret_fd, Error *e)
{
        _cleanup_(store_temporary_done) StoreTemporary temporary = STORE_TEMPORARY_NULL;
        _cleanup_close_ int fd = -EBADF;

        int r = store_temporary_new(s, &temporary, e);
        if (r < 0)
                return r;
        fd = openat(temporary.dir_fd, "archive", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0 || unlinkat(temporary.dir_fd, "archive", 0) < 0)
                return error_set_errno(e, errno, "Cannot create a temporary file in the store");
        r = copy_stream(from, fd, e);
        if (r < 0)
                return r;
        *ret_fd = TAKE_FD(fd);
        return 0;
}

/* FD itself if its members can be read in place, else a copy. */
static int make_seekable(Store *s, int fd, const Operation *o, int *ret_fd, Error *e)
{
        const StreamHooks hooks = {.operation = o};
        _cleanup_(stream_freep) Stream *stream = NULL;
        struct stat st;

        int r = stream_new(fd, -EBADF, &hooks, &stream, e);
        if (r < 0)
                return r;
        if (fstat(fd, &st) < 0)
                return error_set_errno(e, errno, "Cannot read the archive");
        if (!s && (!S_ISREG(st.st_mode) || !stream_is_plain(stream)))
                return error_hint(e,
                                  error_set(e, -ENOTSUP, "The archive is compressed, or not a regular file"),
                                  "Give it as a file that is not compressed.");
        if (!S_ISREG(st.st_mode) || !stream_is_plain(stream))
                return make_copy(s, stream, ret_fd, e);
        *ret_fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        return *ret_fd < 0 ? error_set_errno(e, errno, "Cannot read the archive") : 0;
}

static int check_type(int fd, Error *e)
{
        struct stat st;

        if (fstat(fd, &st) < 0)
                return error_set_errno(e, errno, "Cannot examine the archive");
        if (S_ISDIR(st.st_mode))
                return error_set(e, -EISDIR, "It is a directory, not an archive");
        if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode))
                return error_set(e, -EBADMSG, "It is neither a regular file nor a pipe");
        return 0;
}

/* A FIFO may never get a writer: opening it does not wait for one, and the wait can be cancelled. */
static int wait_for_data(int fd, const Operation *o, Error *e)
{
        int r = operation_poll(o, fd, POLLIN, -1, e);

        if (operation_ended(r))
                return r;
        if (r < 0)
                return error_set_errno(e, r, "Cannot wait for the archive");
        r = fd_set_blocking(fd);
        return r < 0 ? error_set_errno(e, r, "Cannot read the archive") : 0;
}

static int open_file(const char *file, const Operation *o, int *ret_fd, Error *e)
{
        _cleanup_close_ int fd = input_open(file, O_RDONLY | O_NONBLOCK);

        if (fd < 0)
                return error_set(e, fd, "Cannot open the archive: %s", input_problem(fd));
        int r = check_type(fd, e);
        if (r >= 0)
                r = wait_for_data(fd, o, e);
        if (r < 0)
                return r;
        *ret_fd = TAKE_FD(fd);
        return 0;
}

int files_open_archive(Store *s, const char *file, const Operation *o, Files **ret, Error *e)
{
        _cleanup_(files_freep) Files *files = NULL;
        _cleanup_close_ int fd = -EBADF;
        struct stat st;

        int r = open_file(file, o, &fd, e);
        if (r < 0)
                return r;
        Archive *a = calloc(1, sizeof(Archive));
        if (!a)
                return error_oom(e);
        *a = (Archive){.files = {archive_open, files_archive_done}, .fd = -EBADF};
        files = &a->files;
        r = make_seekable(s, fd, o, &a->fd, e);
        if (r < 0)
                return r;
        if (fstat(a->fd, &st) < 0 || lseek(a->fd, 0, SEEK_SET) < 0)
                return error_set_errno(e, errno, "Cannot read the archive");
        a->size = (uint64_t) st.st_size;
        r = scan(a, o, e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(files);
        return 0;
}
