/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Compares a tree with the record of its original state.
 *
 * The record is read and checked as a whole first, so that damage of the record itself is reported as such.
 * Then both are compared line by line, as both are sorted in the same way; differences that are visible
 * without reading a file are reported here. Files without such differences are passed to threads that hash
 * their content (see verify-content.c). The files below a directory that is missing or was added are not
 * listed.
 */

#include <sys/sysmacros.h>

#include "library/libcrypto.h"
#include "prepare/unpack/record-verify.h"

static const char *const kinds[_DIFFERENCE_KIND_MAX] = {
                [DIFFERENCE_MISSING] = "missing", [DIFFERENCE_ADDED] = "added",
                [DIFFERENCE_TYPE] = "type",       [DIFFERENCE_CONTENT] = "content",
                [DIFFERENCE_SIZE] = "size",       [DIFFERENCE_OWNER] = "owner",
                [DIFFERENCE_MODE] = "mode",       [DIFFERENCE_XATTRS] = "attributes",
                [DIFFERENCE_LINK] = "target",     [DIFFERENCE_DEVICE] = "device",
                [DIFFERENCE_NAMES] = "hard link", [DIFFERENCE_ERROR] = "error",
};

const char *difference_kind_to_string(DifferenceKind k)
{
        return kinds[k];
}

static void difference_done(Difference *d)
{
        free(d->path);
        free(d->expected);
        free(d->found);
}

void record_check_done(RecordCheck *c)
{
        for (size_t i = 0; i < c->n_kept; i++)
                difference_done(&c->differences[i]);
        free(c->differences);
        *c = (RecordCheck){};
}

int record_check_add(RecordCheck *c, const char *path, DifferenceKind kind, const char *expected,
                     const char *found)
{
        Difference d = {.kind = kind};

        c->n_found++;
        if (c->n_kept >= c->n_max)
                return 0;
        if (xasprintf(&d.path, "%s%s", c->prefix ?: "", path) < 0)
                return -ENOMEM;
        d.expected = expected ? strdup(expected) : NULL;
        d.found = found ? strdup(found) : NULL;
        if ((expected && !d.expected) || (found && !d.found) ||
            GREEDY_REALLOC(c->differences, c->allocated, c->n_kept + 1) < 0) {
                difference_done(&d);
                return -ENOMEM;
        }
        c->differences[c->n_kept++] = d;
        return 0;
}

/* --- The record itself --------------------------------------------------------------------------------- */

typedef struct Verifier {
        RecordCheck *check;
        int dir_fd;
        FILE *record;
        char *line, *expected_line; /* read last; the line to compare with, NULL: at the end */
        size_t line_size;
        RecordSort *lines;
        char *found_line;
        char *hidden; /* differences below this path are not reported */
        Hashers *hashers;
} Verifier;

static void verifier_done(Verifier *v)
{
        v->hashers = hashers_free(v->hashers);
        (void) record_sort_free(v->lines);
        if (v->record)
                fclose(v->record);
        free(v->line);
        free(v->hidden);
}

static int damaged(Error *e)
{
        return error_set(e, -EBADMSG, "The record of its files is damaged");
}

/* The last line. */
static int check_end(char *line, EVP_MD_CTX *digest, uint64_t n_lines)
{
        _cleanup_free_ char *hex = NULL, *end = NULL;
        unsigned char hash[EVP_MAX_MD_SIZE];
        unsigned n;

        if (EVP_DigestFinal_ex(digest, hash, &n) != 1 || !(hex = hex_encode(hash, n)) ||
            xasprintf(&end, "end %" PRIu64 " %s\n", n_lines, hex) < 0)
                return -ENOMEM;
        return streq(line, end) ? 0 : -EBADMSG;
}

static int check_line(Verifier *v, char *line, uint64_t *ret_bytes)
{
        RecordEntry x;

        line[strlen(line) - 1] = 0;
        int r = record_line_parse(line, &x);
        if (r < 0)
                return r;
        if (S_ISREG(x.mode) && !x.hash && x.first == 0)
                return -EBADMSG;
        v->check->n_entries++;
        if (x.hash)
                *ret_bytes += x.size;
        return 0;
}

static int check_lines(Verifier *v, EVP_MD_CTX *digest, uint64_t *ret_bytes)
{
        uint64_t n_lines = 0;
        ssize_t n = getline(&v->line, &v->line_size, v->record);

        if (n < 0 || !streq(v->line, RECORD_HEADER))
                return -EBADMSG;
        for (;;) {
                if (EVP_DigestUpdate(digest, v->line, (size_t) n) != 1)
                        return -EIO;
                n = getline(&v->line, &v->line_size, v->record);
                if (n <= 0 || v->line[n - 1] != '\n' || strlen(v->line) != (size_t) n)
                        return -EBADMSG;
                if (startswith(v->line, "end "))
                        break;
                /* Parsing modifies the line, so a copy is parsed. */
                _cleanup_free_ char *copy = strdup(v->line);
                int r = copy ? check_line(v, copy, ret_bytes) : -ENOMEM;
                if (r < 0)
                        return r;
                n_lines++;
        }
        int r = check_end(v->line, digest, n_lines);
        return r < 0 ? r : fgetc(v->record) == EOF ? 0 : -EBADMSG;
}

/* Reads all of it and seeks back to the end of the header. */
static int check_record(Verifier *v, uint64_t *ret_bytes, Error *e)
{
        EVP_MD_CTX *digest = EVP_MD_CTX_new();
        int r = digest && EVP_DigestInit_ex(digest, EVP_sha256(), NULL) == 1 ? 0 : -ENOMEM;

        if (r >= 0)
                r = check_lines(v, digest, ret_bytes);
        EVP_MD_CTX_free(digest);
        if (r >= 0 && ferror(v->record))
                r = -EIO;
        if (r == -EBADMSG)
                return damaged(e);
        if (r < 0)
                return error_set_errno(e, r, "Cannot read the record of its files");
        rewind(v->record);
        return getline(&v->line, &v->line_size, v->record) > 0 ? 0 : damaged(e);
}

/* The path in the line that begins at OFFSET of the record. */
static int path_at(Verifier *v, uint64_t offset, char **ret)
{
        _cleanup_free_ char *buffer = calloc(1, RECORD_LINE_MAX + 1);
        RecordEntry x;

        if (!buffer)
                return -ENOMEM;
        ssize_t n = pread(fileno(v->record), buffer, RECORD_LINE_MAX, (off_t) offset);
        if (n < 0)
                return -errno;
        buffer[strcspn(buffer, "\n")] = 0;
        int r = record_line_parse(buffer, &x);
        if (r < 0)
                return r;
        *ret = strdup(x.path);
        return *ret ? 0 : -ENOMEM;
}

/* --- One entry ----------------------------------------------------------------------------------------- */

static int differ(Verifier *v, const char *path, DifferenceKind kind, const char *expected,
                  const char *found)
{
        return hashers_report(v->hashers, path, kind, expected, found);
}

static int differ_in_number(Verifier *v, const char *path, DifferenceKind kind, const char *format,
                            uint64_t a, uint64_t b)
{
        char expected[64], found[64];

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(expected, sizeof(expected), format, a);
        snprintf(found, sizeof(found), format, b);
#pragma GCC diagnostic pop
        return differ(v, path, kind, expected, found);
}

static int differ_in_pair(Verifier *v, const char *path, DifferenceKind kind, unsigned a, unsigned b,
                          unsigned c, unsigned d)
{
        char expected[64], found[64];

        snprintf(expected, sizeof(expected), "%u:%u", a, b);
        snprintf(found, sizeof(found), "%u:%u", c, d);
        return differ(v, path, kind, expected, found);
}

static const char *type_to_string(mode_t mode)
{
        static const struct {
                mode_t type;
                const char *name;
        } types[] = {
                        {S_IFREG, "regular file"}, {S_IFDIR, "directory"},        {S_IFLNK, "symbolic link"},
                        {S_IFIFO, "FIFO"},         {S_IFCHR, "character device"}, {S_IFBLK, "block device"},
                        {S_IFSOCK, "socket"},
        };

        for (size_t i = 0; i < ELEMENTSOF(types); i++)
                if ((mode & S_IFMT) == types[i].type)
                        return types[i].name;
        return "something unknown";
}

/* Compares entries that are further names of a file. */
static int check_names(Verifier *v, const RecordEntry *want, const RecordEntry *have)
{
        _cleanup_free_ char *other = NULL;
        _cleanup_close_ int fd = -EBADF;
        struct stat st;

        int r = path_at(v, want->first, &other);
        if (r < 0)
                return r;
        fd = open_beneath(v->dir_fd, other, O_PATH | O_NOFOLLOW);
        if (fd >= 0 && fstat(fd, &st) >= 0 && st.st_ino == have->inode)
                return 0;
        return differ(v, want->path, DIFFERENCE_NAMES, other, NULL);
}

static int check_content(Verifier *v, const RecordEntry *want, const RecordEntry *have)
{
        if (want->size != have->size)
                return differ_in_number(v, want->path, DIFFERENCE_SIZE, "%" PRIu64, want->size, have->size);
        if (want->first > 0)
                return check_names(v, want, have);
        return v->check->skip_content ? 0 : hashers_add(v->hashers, want);
}

static int check_by_type(Verifier *v, const RecordEntry *want, const RecordEntry *have)
{
        if (S_ISREG(want->mode))
                return check_content(v, want, have);
        if (S_ISLNK(want->mode) && !streq(want->link, have->link))
                return differ(v, want->path, DIFFERENCE_LINK, want->link, have->link);
        if (want->device != have->device)
                return differ_in_pair(v, want->path, DIFFERENCE_DEVICE, major(want->device),
                                      minor(want->device), major(have->device), minor(have->device));
        return 0;
}

static int hide_below(Verifier *v, const char *path)
{
        free(v->hidden);
        return xasprintf(&v->hidden, "%s/", path);
}

static int compare(Verifier *v, const RecordEntry *want, const RecordEntry *have)
{
        int r = 0;

        if ((want->mode & S_IFMT) != (have->mode & S_IFMT)) {
                r = differ(v, want->path, DIFFERENCE_TYPE, type_to_string(want->mode),
                           type_to_string(have->mode));
                return r < 0 ? r : hide_below(v, want->path);
        }
        if (want->uid != have->uid || want->gid != have->gid)
                r = differ_in_pair(v, want->path, DIFFERENCE_OWNER, want->uid, want->gid, have->uid,
                                   have->gid);
        if (r >= 0 && want->mode != have->mode)
                r = differ_in_number(v, want->path, DIFFERENCE_MODE, "%04" PRIo64, want->mode & 07777U,
                                     have->mode & 07777U);
        if (r >= 0 && !streq_ptr(want->xattrs, have->xattrs))
                r = differ(v, want->path, DIFFERENCE_XATTRS, want->xattrs ? NULL : "none",
                           have->xattrs ? NULL : "none");
        return r < 0 ? r : check_by_type(v, want, have);
}

/* Reports an entry that only one side has. */
static int check_alone(Verifier *v, const RecordEntry *x, DifferenceKind kind)
{
        if (v->hidden && startswith(x->path, v->hidden))
                return 0;
        int r = differ(v, x->path, kind, NULL, NULL);
        return r >= 0 && S_ISDIR(x->mode) ? hide_below(v, x->path) : r;
}

/* --- The comparison ------------------------------------------------------------------------------------ */

static int advance_expected(Verifier *v)
{
        ssize_t n = getline(&v->line, &v->line_size, v->record);

        if (n <= 0)
                return ferror(v->record) ? -EIO : -EBADMSG;
        v->line[n - 1] = 0;
        v->expected_line = startswith(v->line, "end ") ? NULL : v->line;
        return 0;
}

static int advance_found(Verifier *v)
{
        int r = record_sort_next(v->lines, &v->found_line);

        if (r == 0)
                v->found_line = NULL;
        return r;
}

static int step(Verifier *v)
{
        RecordEntry want, have;
        int order = !v->expected_line ? 1
                    : !v->found_line  ? -1
                                      : record_line_compare(v->expected_line, v->found_line);

        int r = order <= 0 ? record_line_parse(v->expected_line, &want) : 0;
        if (r >= 0 && order >= 0)
                r = record_line_parse(v->found_line, &have);
        if (r >= 0 && order < 0)
                r = check_alone(v, &want, DIFFERENCE_MISSING);
        else if (r >= 0 && order > 0)
                r = check_alone(v, &have, DIFFERENCE_ADDED);
        else if (r >= 0)
                r = compare(v, &want, &have);
        if (r >= 0 && order <= 0)
                r = advance_expected(v);
        if (r >= 0 && order >= 0)
                r = advance_found(v);
        return r;
}

static int check_tree(Verifier *v, Error *e)
{
        int r = advance_expected(v);

        if (r >= 0)
                r = advance_found(v);
        while (r >= 0 && (v->expected_line || v->found_line))
                r = step(v);
        int k = hashers_finish(v->hashers);
        r = r < 0 ? r : k;
        if (operation_ended(r))
                return operation_check(v->check->operation, e) ?: error_set(e, r, "Interrupted");
        return r < 0 ? error_set_errno(e, r, "Cannot compare the files with their record") : 0;
}

static int compare_differences(const void *a, const void *b)
{
        const Difference *x = a, *y = b;

        int r = record_line_compare(x->path, y->path);
        return r ?: (int) x->kind - (int) y->kind;
}

int record_verify(int dir_fd, int tmp_fd, RecordCheck *c, Error *e)
{
        _cleanup_(verifier_done) Verifier v = {.check = c, .dir_fd = dir_fd};
        uint64_t bytes = 0;

        int k = library_load(&crypto_library, e);
        if (k < 0)
                return k;
        int fd = openat(dir_fd, RECORD_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        v.record = fd < 0 ? NULL : fdopen(fd, "r");
        if (!v.record) {
                int r = fd < 0 ? -errno : -ENOMEM;
                safe_close(fd);
                return error_set_errno(e, r, "Cannot open the record of its files");
        }
        int r = check_record(&v, &bytes, e);
        if (r >= 0)
                r = record_walk(dir_fd, tmp_fd, record_tops, c->operation, &v.lines, e);
        if (r < 0)
                return r;
        r = hashers_new(dir_fd, c, bytes, &v.hashers);
        if (r < 0)
                return error_set_errno(e, r, "Cannot start threads to read files");
        r = check_tree(&v, e);
        if (r >= 0 && c->n_kept > 1)
                qsort(c->differences, c->n_kept, sizeof(Difference), compare_differences);
        return r;
}
