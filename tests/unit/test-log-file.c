/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Log files of apps: other kinds of files in their place, and their content when writing fails partly. */

#include <signal.h>
#include <sys/resource.h>

#include "stage0/supervisor/streams/log-file.h"
#include "tests/unit/scratch.h"
#include "tests/unit/test.h"

#define HEADER_SIZE (sizeof("2016-10-06T00:17:09.669794202Z stdout F ") - 1)

typedef struct Fixture {
        Scratch scratch;
        LogFile file;
        uint64_t lines, bytes; /* that were dropped */
        int code;
        mode_t type;
        char path[PATH_MAX + 64];
} Fixture;

#define FIXTURE_NULL ((Fixture){.scratch = SCRATCH_NULL, .file = LOG_FILE_NULL})

static void fixture_done(Fixture *f)
{
        log_file_done(&f->file);
        scratch_done(&f->scratch);
}

static void on_dropped(void *userdata, bool error, uint64_t lines, uint64_t bytes, int code)
{
        Fixture *f = userdata;

        f->lines += lines;
        f->bytes += bytes;
        f->code = code;
}

/* Opens the file NAME; -EBADF and such if that is refused. */
static int open_log(Fixture *f, const char *name, LogFormat format, uint64_t max_size)
{
        snprintf(f->path, sizeof(f->path), "%s/%s", f->scratch.path, name);
        f->file = LOG_FILE_NULL;
        f->file.settings = (LogFileSettings){.path = f->path, .format = (int) format, .max_size = max_size};
        f->file.dropped = on_dropped;
        f->file.userdata = f;
        f->type = 0;
        return log_file_open(&f->file, &f->type);
}

static int set_up(Fixture *f, LogFormat format, uint64_t max_size)
{
        int r = scratch_new(&f->scratch);

        return r < 0 ? r : open_log(f, "log", format, max_size);
}

static void take(Fixture *f, LogStep step, bool error, const char *text)
{
        const LogMessage m = {.step = step,
                              .size = text ? (uint32_t) strlen(text) : 0,
                              .stream = 1U + error,
                              .error = error};

        log_file_take(&f->file, &m, text);
}

static void say(Fixture *f, const char *text)
{
        take(f, LOG_ADD, false, text);
        log_file_write(&f->file);
}

/* The texts of all records, with their tags in front if MARK: "F one|F two|". "?" stands for text that is
 * not a record. */
static char *read_back(Fixture *f)
{
        _cleanup_free_ char *content = NULL;
        _cleanup_text_ Text t = {};
        char *result = NULL;
        size_t size = 0;

        if (read_file_at(AT_FDCWD, f->path, 1 << 24, &content, &size) < 0)
                return NULL;
        for (const char *p = content, *end = content + size; p < end;) {
                const char *newline = memchr(p, '\n', (size_t) (end - p));
                if (!newline || (size_t) (newline - p) < HEADER_SIZE)
                        text_add(&t, "?");
                else
                        text_add_bytes(&t, p + HEADER_SIZE - 2, (size_t) (newline - p) - HEADER_SIZE + 2);
                text_add(&t, "|");
                p = newline ? newline + 1 : end;
        }
        return text_take(&t, &result, NULL) < 0 ? NULL : result;
}

TEST(lines_are_appended)
{
        _cleanup_(fixture_done) Fixture f = FIXTURE_NULL;
        _cleanup_free_ char *text = NULL;
        struct stat st;

        ASSERT_OK(set_up(&f, LOG_FORMAT_CRI, UINT64_MAX));
        ASSERT_OK(stat(f.path, &st));
        ASSERT_EQ(st.st_mode & 07777 & ~0640U, 0);
        say(&f, "one\ntw");
        say(&f, "o\nthree");
        log_file_done(&f.file);
        ASSERT_OK(open_log(&f, "log", LOG_FORMAT_CRI, UINT64_MAX));
        say(&f, "four\n");
        text = read_back(&f);
        /* An unterminated last line is not joined with the first line of the next start. */
        ASSERT_STREQ(text, "F one|F two|P three|F |F four|");
}

TEST(a_part_of_a_record_at_the_end_is_separated)
{
        _cleanup_(fixture_done) Fixture f = FIXTURE_NULL;
        _cleanup_free_ char *text = NULL;

        ASSERT_OK(scratch_new(&f.scratch));
        ASSERT_OK(scratch_file(&f.scratch, "log", "2016-10-06T00:17:09"));
        ASSERT_OK(open_log(&f, "log", LOG_FORMAT_CRI, UINT64_MAX));
        say(&f, "one\n");
        text = read_back(&f);
        ASSERT_STREQ(text, "?|F one|");
}

static void expect_refusal(Fixture *f, const char *name, const char *message)
{
        _cleanup_error_ Error e = ERROR_NULL, other = ERROR_NULL;
        char all[PATH_MAX + 300];

        int r = open_log(f, name, LOG_FORMAT_CRI, UINT64_MAX);
        ASSERT_TRUE(r < 0);
        ASSERT_ERR(log_file_error("web", f->path, r, f->type, &e), r);
        snprintf(all, sizeof(all), "Cannot write the log of app web to %s%s", f->path, message);
        ASSERT_CONTAINS(e.message, all);
        ASSERT_TRUE(f->file.fd < 0);
        /* The same before an app is added. */
        ASSERT_ERR(log_file_check("web", &f->file.settings, &MOUNT_NAMESPACE_NULL, &other), r);
        ASSERT_STREQ(other.message, e.message);
}

TEST(special_files_are_refused)
{
        _cleanup_(fixture_done) Fixture f = FIXTURE_NULL;

        ASSERT_OK(scratch_new(&f.scratch));
        ASSERT_OK(scratch_file(&f.scratch, "file", "x"));
        ASSERT_OK(symlinkat("file", f.scratch.fd, "link"));
        ASSERT_OK(symlinkat("missing", f.scratch.fd, "dangling"));
        ASSERT_OK(mkdirat(f.scratch.fd, "directory", 0700));
        ASSERT_OK(mkfifoat(f.scratch.fd, "fifo", 0600));
        expect_refusal(&f, "link", ": it is a symbolic link");
        expect_refusal(&f, "dangling", ": it is a symbolic link");
        expect_refusal(&f, "directory", ": it is a directory");
        expect_refusal(&f, "fifo", ": it is a FIFO");
        expect_refusal(&f, "../../../../../../../../dev/null", ": it is a character device");
        expect_refusal(&f, "missing/log", ": No such file or directory");
        expect_refusal(&f, "file/log", ": Not a directory");
        ASSERT_TRUE(faccessat(f.scratch.fd, "missing", F_OK, AT_SYMLINK_NOFOLLOW) < 0);
}

TEST(a_renamed_file_is_written_until_it_is_reopened)
{
        _cleanup_(fixture_done) Fixture f = FIXTURE_NULL;
        _cleanup_free_ char *before = NULL, *after = NULL;

        ASSERT_OK(set_up(&f, LOG_FORMAT_CRI, UINT64_MAX));
        say(&f, "one\n");
        ASSERT_OK(renameat(f.scratch.fd, "log", f.scratch.fd, "log.1"));
        say(&f, "two\nthr");
        ASSERT_OK(mkdirat(f.scratch.fd, "log", 0700)); /* a failure leaves the old file */
        ASSERT_TRUE(log_file_open(&f.file, &f.type) < 0);
        ASSERT_TRUE(S_ISDIR(f.type));
        take(&f, LOG_ADD, false, "ee\n"); /* taken before, and so in the old file */
        ASSERT_OK(unlinkat(f.scratch.fd, "log", AT_REMOVEDIR));
        ASSERT_OK(log_file_open(&f.file, &f.type));
        say(&f, "four\n");
        after = read_back(&f);
        ASSERT_STREQ(after, "F four|");
        strcat(f.path, ".1");
        before = read_back(&f);
        ASSERT_STREQ(before, "F one|F two|F three|");
}

/* Records of messages that come at once are written by one call, but for those of another stream. */
TEST(streams_are_separate)
{
        _cleanup_(fixture_done) Fixture f = FIXTURE_NULL;
        _cleanup_free_ char *text = NULL;

        ASSERT_OK(set_up(&f, LOG_FORMAT_CRI, UINT64_MAX));
        take(&f, LOG_ADD, false, "a\nb");
        take(&f, LOG_ADD, true, "x");
        take(&f, LOG_ADD, false, "c\n");
        take(&f, LOG_FLUSH, true, NULL);
        ASSERT_EQ(log_file_unwritten(&f.file), 0);
        take(&f, LOG_ADD, true, "y\nz");
        ASSERT_EQ(log_file_unwritten(&f.file), 1);
        take(&f, LOG_END, true, NULL);
        take(&f, LOG_ADD, true, "new\n"); /* of the next execution */
        log_file_write(&f.file);
        text = read_back(&f);
        ASSERT_STREQ(text, "F a|F bc|P x|F y|P z|F |F new|");
        ASSERT_EQ(f.lines + f.bytes, 0);
}

/* All output is dropped, and counted, until the file can be opened. */
TEST(a_file_that_is_not_open_drops)
{
        _cleanup_(fixture_done) Fixture f = FIXTURE_NULL;
        _cleanup_free_ char *text = NULL;

        ASSERT_OK(scratch_new(&f.scratch));
        ASSERT_ERR(open_log(&f, "missing/log", LOG_FORMAT_CRI, UINT64_MAX), -ENOENT);
        say(&f, "one\n");
        ASSERT_EQ(f.lines, 1);
        ASSERT_EQ(f.bytes, 4);
        ASSERT_EQ(f.code, -ENOENT);
        ASSERT_OK(mkdirat(f.scratch.fd, "missing", 0700));
        ASSERT_OK(log_file_open(&f.file, &f.type));
        say(&f, "two\n");
        text = read_back(&f);
        ASSERT_STREQ(text, "F two|");
        ASSERT_EQ(f.lines, 1);
}

/* A device that is always full, which log_file_open() would refuse. */
TEST(lost_output_is_counted)
{
        _cleanup_(fixture_done) Fixture f = FIXTURE_NULL;
        _cleanup_free_ char *text = NULL;

        ASSERT_OK(set_up(&f, LOG_FORMAT_CRI, UINT64_MAX));
        LogFile *l = &f.file;
        int file = l->fd;
        say(&f, "one\n");
        l->fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
        ASSERT_TRUE(l->fd >= 0);
        say(&f, "two\nthree\nfo");
        ASSERT_EQ(f.lines, 2);
        ASSERT_EQ(f.bytes, 10);
        say(&f, "ur\n");
        ASSERT_EQ(f.lines, 3);
        ASSERT_EQ(f.bytes, 15);
        close(l->fd);
        l->fd = file;
        say(&f, "five\n");
        ASSERT_EQ(f.lines, 3);
        text = read_back(&f);
        ASSERT_STREQ(text, "F one|F five|");
        ASSERT_EQ(f.code, -ENOSPC);
}

/* The kernel takes a part of what is written. */
TEST(no_part_of_a_record_stays)
{
        _cleanup_(fixture_done) Fixture f = FIXTURE_NULL;
        _cleanup_free_ char *text = NULL, *later = NULL;
        struct rlimit before, low;

        ASSERT_OK(set_up(&f, LOG_FORMAT_CRI, UINT64_MAX));
        ASSERT_OK(getrlimit(RLIMIT_FSIZE, &before));
        low = (struct rlimit){.rlim_cur = 2 * (HEADER_SIZE + 4) + 10, .rlim_max = before.rlim_max};
        ASSERT_TRUE(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
        ASSERT_OK(setrlimit(RLIMIT_FSIZE, &low));
        say(&f, "one\ntwo\nthree\nfour\n");
        ASSERT_OK(setrlimit(RLIMIT_FSIZE, &before));
        text = read_back(&f);
        ASSERT_STREQ(text, "F one|F two|");
        ASSERT_EQ(f.lines, 2);
        ASSERT_EQ(f.bytes, 11);
        say(&f, "five\n");
        later = read_back(&f);
        ASSERT_STREQ(later, "F one|F two|F five|");
}

TEST(a_line_whose_end_was_dropped_is_closed)
{
        _cleanup_(fixture_done) Fixture f = FIXTURE_NULL;
        _cleanup_free_ char *text = NULL;

        ASSERT_OK(set_up(&f, LOG_FORMAT_CRI, UINT64_MAX));
        LogFile *l = &f.file;
        int file = l->fd;
        say(&f, "begun");
        take(&f, LOG_FLUSH, false, NULL);
        log_file_write(l);
        l->fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
        say(&f, " and ended\n");
        say(&f, "lost\n");
        ASSERT_EQ(f.lines, 2);
        ASSERT_EQ(f.bytes, 16);
        close(l->fd);
        l->fd = file;
        say(&f, "next\n");
        text = read_back(&f);
        ASSERT_STREQ(text, "P begun|F |F next|");
        ASSERT_EQ(f.lines, 2);
}

TEST(a_file_does_not_grow_beyond_its_limit)
{
        _cleanup_(fixture_done) Fixture f = FIXTURE_NULL;
        struct stat st;

        ASSERT_OK(set_up(&f, LOG_FORMAT_PLAIN, 65536));
        for (unsigned i = 0; i < 10000; i++)
                say(&f, "ten bytes\n");
        ASSERT_OK(stat(f.path, &st));
        ASSERT_EQ(st.st_size, 65530);
        ASSERT_EQ(f.lines, 10000 - 6553);
        ASSERT_EQ(f.bytes, (10000 - 6553) * 10);
        /* One that was made empty has room again. */
        ASSERT_OK(truncate(f.path, 0));
        say(&f, "ten bytes\n");
        ASSERT_OK(stat(f.path, &st));
        ASSERT_EQ(st.st_size, 10);
}

int main(void)
{
        RUN(lines_are_appended);
        RUN(a_part_of_a_record_at_the_end_is_separated);
        RUN(special_files_are_refused);
        RUN(a_renamed_file_is_written_until_it_is_reopened);
        RUN(streams_are_separate);
        RUN(a_file_that_is_not_open_drops);
        RUN(lost_output_is_counted);
        RUN(no_part_of_a_record_stays);
        RUN(a_line_whose_end_was_dropped_is_closed);
        RUN(a_file_does_not_grow_beyond_its_limit);
        return TEST_END();
}
