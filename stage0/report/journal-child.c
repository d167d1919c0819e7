/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The process that reads the files of a journal: that of a pod, or that of the host.
 *
 * It is confined before it reads any of them (journal-confine.c), and gets them as descriptors. The launcher
 * gives every app two streams, one for standard output and one for standard error, which are distinguished
 * by priority; only root inside the pod can open such streams. journald splits streams into lines and
 * records where there was no newline, so that output can be shown byte for byte.
 *
 * Files are added while the process runs, because journald creates new ones. libsystemd cannot add a file to
 * an open journal; so all are opened again, and reading continues after the last entry that was read.
 */

#include <dlfcn.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "library/libsystemd.h"
#include "stage0/report/journal-internal.h"
#include "stage0/report/journal-mark.h"

#define BUFFER_SIZE 65536U
#define NEW_FILES_MAX 16U /* at once */

typedef struct File {
        int fd;
        bool left_out, reported;
        off_t size; /* when reading it failed */
} File;

typedef struct Child {
        const JournalQuery *query;
        sd_journal *journal; /* NULL: no file is readable */
        File files[JOURNAL_FILES_MAX];
        int copies[JOURNAL_FILES_MAX]; /* of those that JOURNAL has */
        size_t n_files, n_copies;
        char *cursor;  /* of the last entry that was read */
        bool at_entry; /* JOURNAL is at an entry that was not read yet */
        bool finished;
        Text out;
} Child;

/* --- Sending ------------------------------------------------------------------------------------------- */

static void flush(Child *c)
{
        for (size_t done = 0; done < c->out.size;) {
                ssize_t n = send(JOURNAL_CHILD_SOCKET, c->out.data + done, c->out.size - done, MSG_NOSIGNAL);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        _exit(0); /* the other process has ended */
                done += (size_t) n;
        }
        c->out.size = 0;
}

static void add_record(Child *c, const JournalRecord *r)
{
        journal_record_add(&c->out, r);
        if (c->out.failed)
                _exit(1);
        if (c->out.size >= BUFFER_SIZE)
                flush(c);
}

static _noreturn_ void fail(Child *c, int code)
{
        add_record(c, &(JournalRecord){.kind = JOURNAL_FAILED, .code = code});
        flush(c);
        _exit(0);
}

/* --- Opening ------------------------------------------------------------------------------------------- */

static void close_journal(Child *c)
{
        sd_journal_close(c->journal);
        c->journal = NULL;
        /* Some versions of libsystemd have closed them. */
        for (size_t i = 0; i < c->n_copies; i++)
                (void) close(c->copies[i]);
        c->n_copies = 0;
}

/* For libsystemd, which closes what it gets. */
static int copy_files(Child *c)
{
        for (size_t i = 0; i < c->n_files; i++) {
                if (c->files[i].left_out)
                        continue;
                int fd = fcntl(c->files[i].fd, F_DUPFD_CLOEXEC, 3);
                if (fd < 0)
                        return -errno;
                c->copies[c->n_copies++] = fd;
        }
        return 0;
}

static int open_copies(Child *c)
{
        int r = copy_files(c);

        if (r >= 0 && c->n_copies > 0)
                r = sd_journal_open_files_fd(&c->journal, c->copies, (unsigned) c->n_copies, 0);
        if (r < 0)
                close_journal(c);
        return r;
}

static struct stat status_of(int fd)
{
        struct stat st;

        return fstat(fd, &st) < 0 ? (struct stat){} : st;
}

/* A file that journald has just created cannot be read yet: an error is reported only if a retry fails. */
static void leave_out(Child *c, size_t i, int code)
{
        File *f = &c->files[i];
        struct stat st = status_of(f->fd);
        bool again = f->size > 0;

        f->left_out = true;
        f->size = st.st_size;
        if (f->reported || f->size == 0 || (c->query->follow && !again))
                return;
        f->reported = true;
        add_record(c, &(JournalRecord){.kind = JOURNAL_DAMAGED, .inode = st.st_ino, .code = code});
}

/* libsystemd opens either all files or none. */
static void find_damaged(Child *c)
{
        for (size_t i = 0; i < c->n_files; i++) {
                sd_journal *alone = NULL;
                int copy;

                if (c->files[i].left_out)
                        continue;
                copy = fcntl(c->files[i].fd, F_DUPFD_CLOEXEC, 3);
                if (copy < 0)
                        fail(c, -errno);
                int r = sd_journal_open_files_fd(&alone, &copy, 1, 0);
                if (r < 0)
                        leave_out(c, i, r);
                else
                        sd_journal_close(alone);
                (void) close(copy);
        }
}

static int add_match(Child *c, const char *field, const char *value)
{
        _cleanup_free_ char *match = NULL;

        int r = xasprintf(&match, "%s=%s", field, value);
        return r < 0 ? r : sd_journal_add_match(c->journal, match, 0);
}

/* Every process of the host may send a record with fields of acnspawn; _UID is journald's, and the supervisor's is 0. */
static int add_host_matches(Child *c)
{
        const JournalQuery *q = c->query;

        int r = add_match(c, "ACNSPAWN_UUID", q->uuid);
        if (r >= 0)
                r = add_match(c, "_UID", "0");
        if (r >= 0)
                r = add_match(c, "_TRANSPORT", "journal");
        if (r >= 0)
                r = add_match(c, "ACNSPAWN_STREAM",
                              "stdout"); /* either of them: matches of a field are alternatives */
        if (r >= 0)
                r = add_match(c, "ACNSPAWN_STREAM", "stderr");
        for (size_t i = 0; r >= 0 && i < q->n_host_apps; i++)
                r = add_match(c, "ACNSPAWN_APP", q->host_apps[i]);
        return r;
}

static int add_matches(Child *c)
{
        (void) sd_journal_set_data_threshold(c->journal, JOURNAL_MESSAGE_MAX + 64);
        if (c->query->n_host_apps > 0)
                return add_host_matches(c);
        int r = sd_journal_add_match(c->journal, "_TRANSPORT=stdout", 0);
        if (r < 0 || !c->query->app)
                return r;
        return add_match(c, "SYSLOG_IDENTIFIER", c->query->app);
}

/* --- Entries ------------------------------------------------------------------------------------------- */

/* The value of FIELD in the current entry; NULL if it has none. */
static const char *get_field(sd_journal *j, const char *field, size_t *ret_size)
{
        const void *data;
        size_t size, prefix = strlen(field) + 1;

        if (sd_journal_get_data(j, field, &data, &size) < 0 || size < prefix)
                return NULL;
        *ret_size = size - prefix;
        return (const char *) data + prefix;
}

static bool equals(const char *s, size_t size, const char *value)
{
        return s && size == strlen(value) && memcmp(s, value, size) == 0;
}

/* For a record that the supervisor sent to the journal of the host. */
static uint32_t host_entry_flags(sd_journal *j)
{
        uint32_t flags = 0;
        size_t size = 0;

        const char *s = get_field(j, "ACNSPAWN_STREAM", &size);
        if (equals(s, size, "stderr"))
                flags |= JOURNAL_ERROR;
        s = get_field(j, "ACNSPAWN_LINE_BREAK", &size);
        if (s)
                flags |= JOURNAL_PARTIAL | (equals(s, size, "eof") ? 0 : JOURNAL_CONTINUES);
        return flags;
}

static uint32_t entry_flags(sd_journal *j)
{
        uint32_t flags = 0;
        size_t size = 0;

        const char *s = get_field(j, "PRIORITY", &size);
        if (equals(s, size, "3")) /* LOG_ERR */
                flags |= JOURNAL_ERROR;
        s = get_field(j, "_LINE_BREAK", &size);
        if (equals(s, size, "nul"))
                flags |= JOURNAL_NUL;
        if (equals(s, size, "eof"))
                flags |= JOURNAL_PARTIAL;
        if (equals(s, size, "line-max") || equals(s, size, "pid-change"))
                flags |= JOURNAL_PARTIAL | JOURNAL_CONTINUES;
        return flags;
}

static uint32_t flags_of_entry(const Child *c)
{
        return c->query->n_host_apps > 0 ? host_entry_flags(c->journal) : entry_flags(c->journal);
}

/* --- Seeking ------------------------------------------------------------------------------------------- */

static int skip_to_last(Child *c)
{
        uint64_t n = c->query->lines;
        int k = c->query->until_usec > 0
                                ? sd_journal_seek_realtime_usec(c->journal, c->query->until_usec + 1)
                                : sd_journal_seek_tail(c->journal);

        if (k < 0 || n == 0)
                return k < 0 ? k : sd_journal_previous(c->journal);
        /* Moves one line further back, so that "next" reads the first requested line; at the beginning of the journal there
         * is no such line. An entry that continues in the next one belongs to the same line. */
        for (uint64_t lines = 0, entries = 0; lines <= n; entries++) {
                k = sd_journal_previous(c->journal);
                if (k <= 0)
                        return k < 0 ? k : sd_journal_seek_head(c->journal);
                lines += entries == 0 || !(flags_of_entry(c) & JOURNAL_CONTINUES);
        }
        return 0;
}

static int seek_begin(Child *c)
{
        if (c->query->lines != UINT64_MAX)
                return skip_to_last(c);
        return c->query->since_usec > 0 ? sd_journal_seek_realtime_usec(c->journal, c->query->since_usec)
                                        : 0;
}

/* After the last entry that was read. */
static int seek_cursor(Child *c)
{
        int r = sd_journal_seek_cursor(c->journal, c->cursor);

        if (r >= 0)
                r = sd_journal_next(c->journal);
        if (r <= 0)
                return r;
        r = sd_journal_test_cursor(c->journal, c->cursor);
        c->at_entry = r == 0;
        return r;
}

static void open_journal(Child *c, bool first)
{
        close_journal(c);
        c->at_entry = false;
        int r = open_copies(c);
        if (r < 0) {
                find_damaged(c);
                r = open_copies(c);
        }
        if (r >= 0 && c->journal)
                r = add_matches(c);
        if (r >= 0 && c->journal)
                r = c->cursor ? seek_cursor(c) : first ? seek_begin(c) : 0;
        if (r < 0)
                fail(c, r);
}

/* --- Reading ------------------------------------------------------------------------------------------- */

/* The next entry of the range. If the last N of all lines are shown, the first of them may be before the
 * range. */
static int next_entry(Child *c, uint64_t *ret_usec)
{
        int k;

        do {
                k = c->at_entry ? 1 : sd_journal_next(c->journal);
                c->at_entry = false;
                if (k <= 0)
                        return k;
                *ret_usec = 0;
                (void) sd_journal_get_realtime_usec(c->journal, ret_usec);
        } while (*ret_usec < c->query->since_usec);
        c->finished = c->query->until_usec > 0 && *ret_usec > c->query->until_usec;
        return !c->finished;
}

/* The message, with the level "<N>" put back in front of it. */
static const char *host_message(sd_journal *j, Text *joined, size_t *ret_size)
{
        size_t size = 0;
        const char *s = get_field(j, "ACNSPAWN_LEVEL", &size);

        text_add_bytes(joined, s, s ? size : 0);
        s = get_field(j, "MESSAGE", &size);
        text_add_bytes(joined, s, s ? size : 0);
        *ret_size = joined->failed ? 0 : joined->size;
        return joined->failed || !joined->data ? "" : joined->data;
}

static void read_entry(Child *c, uint64_t usec)
{
        _cleanup_text_ Text joined = {};
        bool host = c->query->n_host_apps > 0;
        JournalRecord r = {.kind = JOURNAL_LINE, .time_usec = usec, .flags = flags_of_entry(c)};
        char app[JOURNAL_APP_MAX];

        /* The data returned by libsystemd is valid until the next field is requested. */
        const char *s = get_field(c->journal, host ? "ACNSPAWN_APP" : "SYSLOG_IDENTIFIER", &r.app_size);
        if (!s || r.app_size > sizeof(app))
                return;
        memcpy(app, s, r.app_size);
        r.app = app;
        if (host)
                r.data = host_message(c->journal, &joined, &r.data_size);
        else {
                r.data = get_field(c->journal, "MESSAGE", &r.data_size) ?: "";
                r.data_size = journal_unmarked_size(r.data, r.data_size);
        }
        add_record(c, &r);
}

/* Reads all available entries. */
static void read_entries(Child *c)
{
        uint64_t usec;
        bool any = false;
        int r = 0;

        while (c->journal && !c->finished && (r = next_entry(c, &usec)) > 0) {
                read_entry(c, usec);
                any = true;
        }
        if (r < 0)
                fail(c, r);
        if (!any && c->cursor)
                return;
        char *cursor = NULL;
        if (c->journal && c->query->follow && sd_journal_get_cursor(c->journal, &cursor) >= 0) {
                free(c->cursor);
                c->cursor = cursor;
        }
}

/* --- Following ----------------------------------------------------------------------------------------- */

/* Closes files that journald has removed and that were read to their end, to release their space. */
static void forget_removed(Child *c)
{
        size_t n = 0;

        for (size_t i = 0; i < c->n_files; i++)
                if (status_of(c->files[i].fd).st_nlink > 0)
                        c->files[n++] = c->files[i];
                else
                        safe_close(c->files[i].fd);
        c->n_files = n;
}

/* A file that could not be read, and has changed since, is tried again. */
static bool retry_changed(Child *c)
{
        bool any = false;

        for (size_t i = 0; i < c->n_files; i++) {
                File *f = &c->files[i];
                if (!f->left_out || (f->reported && status_of(f->fd).st_size == f->size))
                        continue;
                f->left_out = false;
                any = true;
        }
        return any;
}

/* Whether files may have changed. At the end of the socket this process exits. */
static bool wait_for_changes(Child *c)
{
        int fds[NEW_FILES_MAX];
        size_t n = 0;
        char byte;

        if (recv_fds(JOURNAL_CHILD_SOCKET, &byte, 1, fds, NEW_FILES_MAX, &n) <= 0)
                _exit(0);
        read_entries(c); /* to the end of removed files */
        if (n > 0)
                forget_removed(c);
        for (size_t i = 0; i < n; i++)
                if (c->n_files < JOURNAL_FILES_MAX)
                        c->files[c->n_files++] = (File){.fd = fds[i]};
                else
                        fail(c, -E2BIG);
        return n > 0;
}

/* Newer versions of libsystemd load these at the first compressed value, which is not possible after
 * confinement. */
static void load_decompressors(void)
{
        static const char *const files[] = {"libzstd.so.1", "liblz4.so.1", "liblzma.so.5"};

        for (size_t i = 0; i < ELEMENTSOF(files); i++)
                (void) dlopen(files[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

_noreturn_ void journal_child(const JournalQuery *q, size_t n)
{
        static Child c;

        c.query = q;
        for (size_t i = 0; i < n; i++)
                c.files[c.n_files++] = (File){.fd = JOURNAL_CHILD_FILES + (int) i};
        load_decompressors();
        int r = journal_confine();
        if (r < 0)
                fail(&c, r);
        open_journal(&c, true);
        for (;;) {
                read_entries(&c);
                add_record(&c, &(JournalRecord){.kind = JOURNAL_IDLE});
                flush(&c);
                bool more = wait_for_changes(&c);
                if (retry_changed(&c) || more)
                        open_journal(&c, false);
        }
}
