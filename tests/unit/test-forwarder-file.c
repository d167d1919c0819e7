/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Log files of apps: other kinds of files in their place, and their content when writing fails partly. */

#include <signal.h>
#include <sys/resource.h>

#include "library/libsystemd.h"
#include "stage0/supervisor/streams/forwarder-internal.h"
#include "tests/unit/scratch.h"
#include "tests/unit/test.h"

#define HEADER_SIZE (sizeof("2016-10-06T00:17:09.669794202Z stdout F ") - 1)

typedef struct Fixture {
        Scratch scratch;
        Pod pod;
        AppInstance app, *apps[1];
        AppTable table;
        LogBound bound;
        Forwarders all;
        Forwarder forwarder;
        char path[PATH_MAX + 64];
} Fixture;

#define FIXTURE_NULL ((Fixture){.scratch = SCRATCH_NULL})

static void fixture_done(Fixture *f)
{
        forwarder_log_free(f->app.log);
        text_done(&f->all.records);
        text_done(&f->forwarder.formatter.rest);
        text_done(&f->forwarder.message);
        sd_event_source_disable_unref(f->all.record_timer);
        sd_event_unref(f->all.event);
        scratch_done(&f->scratch);
}

/* Opens the file NAME; -EINVAL and such if that is refused. */
static int open_log(Fixture *f, const char *name, LogFormat format, uint64_t max_size, Error *e)
{
        AppSettings s = {.log_file = {.format = (int) format, .max_size = max_size}};

        snprintf(f->path, sizeof(f->path), "%s/%s", f->scratch.path, name);
        s.log_file.path = strdup(f->path);
        f->app = (AppInstance){.name = "web", .bound = &f->bound};
        f->apps[0] = &f->app;
        f->table = (AppTable){.items = f->apps, .n = 1};
        f->pod = (Pod){.dir_fd = f->scratch.fd};
        f->all.pod = &f->pod;
        f->all.apps = &f->table;
        int r = forwarder_log_new("web", &s, &f->app.log, e);
        app_settings_done(&s);
        f->forwarder = (Forwarder){
                        .all = &f->all, .journal_fd = -EBADF, .formatter = {.format = (int) format}};
        f->forwarder.log = f->app.log;
        return r;
}

static int set_up(Fixture *f, LogFormat format, uint64_t max_size)
{
        int r = scratch_new(&f->scratch);

        if (r >= 0)
                r = sd_event_new(&f->all.event);
        return r < 0 ? r : open_log(f, "log", format, max_size, NULL);
}

static void say(Fixture *f, const char *text)
{
        forwarder_write_to_file(&f->forwarder, text, strlen(text));
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
        forwarder_flush_file(&f.forwarder);
        text_done(&f.forwarder.formatter.rest);
        forwarder_log_free(f.app.log);
        ASSERT_OK(open_log(&f, "log", LOG_FORMAT_CRI, UINT64_MAX, NULL));
        say(&f, "four\n");
        text = read_back(&f);
        /* An unterminated last line is not joined with the first line of the next start. */
        ASSERT_STREQ(text, "F one|F two|P three|F |F four|");
}

static void expect_refusal(Fixture *f, const char *name, const char *message)
{
        _cleanup_error_ Error e = ERROR_NULL;
        char all[PATH_MAX + 300];

        ASSERT_TRUE(open_log(f, name, LOG_FORMAT_CRI, UINT64_MAX, &e) < 0);
        snprintf(all, sizeof(all), "Cannot write the log of app web to %s%s", f->path, message);
        ASSERT_CONTAINS(e.message, all);
        ASSERT_NULL(f->app.log);
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
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_free_ char *before = NULL, *after = NULL;

        ASSERT_OK(set_up(&f, LOG_FORMAT_CRI, UINT64_MAX));
        say(&f, "one\n");
        ASSERT_OK(renameat(f.scratch.fd, "log", f.scratch.fd, "log.1"));
        say(&f, "two\nthr");
        ASSERT_OK(mkdirat(f.scratch.fd, "log", 0700)); /* a failure leaves the old file */
        ASSERT_TRUE(forwarders_reopen(&f.all, "web", &e) < 0);
        ASSERT_CONTAINS(e.message, "it is a directory");
        say(&f, "ee\n");
        ASSERT_OK(unlinkat(f.scratch.fd, "log", AT_REMOVEDIR));
        ASSERT_OK(forwarders_reopen(&f.all, NULL, NULL));
        say(&f, "four\n");
        after = read_back(&f);
        ASSERT_STREQ(after, "F four|");
        strcat(f.path, ".1");
        before = read_back(&f);
        ASSERT_STREQ(before, "F one|F two|F three|");
        ASSERT_ERR(forwarders_reopen(&f.all, "db", NULL), -ENODATA);
}

/* A device that is always full, which open_log() would refuse. */
TEST(lost_output_is_counted)
{
        _cleanup_(fixture_done) Fixture f = FIXTURE_NULL;
        _cleanup_free_ char *text = NULL;

        ASSERT_OK(set_up(&f, LOG_FORMAT_CRI, UINT64_MAX));
        AppLog *l = f.forwarder.log;
        int file = l->fd;
        say(&f, "one\n");
        l->fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
        ASSERT_TRUE(l->fd >= 0);
        say(&f, "two\nthree\nfo");
        ASSERT_EQ(l->lines, 2);
        ASSERT_EQ(l->bytes, 10);
        say(&f, "ur\n");
        ASSERT_EQ(l->lines, 3);
        ASSERT_EQ(l->bytes, 15);
        close(l->fd);
        l->fd = file;
        say(&f, "five\n");
        ASSERT_EQ(l->lines, 3);
        text = read_back(&f);
        ASSERT_STREQ(text, "F one|F five|");
        /* Said once. */
        ASSERT_TRUE(l->reported && l->changed);
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
        ASSERT_EQ(f.forwarder.log->lines, 2);
        ASSERT_EQ(f.forwarder.log->bytes, 11);
        say(&f, "five\n");
        later = read_back(&f);
        ASSERT_STREQ(later, "F one|F two|F five|");
}

TEST(a_line_whose_end_was_dropped_is_closed)
{
        _cleanup_(fixture_done) Fixture f = FIXTURE_NULL;
        _cleanup_free_ char *text = NULL;

        ASSERT_OK(set_up(&f, LOG_FORMAT_CRI, UINT64_MAX));
        AppLog *l = f.forwarder.log;
        int file = l->fd;
        say(&f, "begun");
        forwarder_flush_file(&f.forwarder);
        l->fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
        say(&f, " and ended\n");
        say(&f, "lost\n");
        ASSERT_EQ(l->lines, 2);
        ASSERT_EQ(l->bytes, 16);
        close(l->fd);
        l->fd = file;
        say(&f, "next\n");
        text = read_back(&f);
        ASSERT_STREQ(text, "P begun|F |F next|");
        ASSERT_EQ(l->lines, 2);
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
        ASSERT_EQ(f.forwarder.log->lines, 10000 - 6553);
        ASSERT_EQ(f.forwarder.log->bytes, (10000 - 6553) * 10);
        /* One that was made empty has room again. */
        ASSERT_OK(truncate(f.path, 0));
        say(&f, "ten bytes\n");
        ASSERT_OK(stat(f.path, &st));
        ASSERT_EQ(st.st_size, 10);
}

int main(void)
{
        if (library_load(&systemd_library, NULL) < 0)
                return 1;
        RUN(lines_are_appended);
        RUN(special_files_are_refused);
        RUN(a_renamed_file_is_written_until_it_is_reopened);
        RUN(lost_output_is_counted);
        RUN(no_part_of_a_record_stays);
        RUN(a_line_whose_end_was_dropped_is_closed);
        RUN(a_file_does_not_grow_beyond_its_limit);
        return TEST_END();
}
