/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The protocol between the process that reads a journal and the one that shows it, and the confinement of
 * the former. */

#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "stage0/report/journal-internal.h"
#include "stage0/report/journal-mark.h"
#include "tests/unit/test.h"

static const JournalRecord line = {
                .kind = JOURNAL_LINE,
                .flags = JOURNAL_ERROR | JOURNAL_PARTIAL,
                .time_usec = 42,
                .app = "web",
                .app_size = 3,
                .data = "a\0b",
                .data_size = 3,
};

TEST(records_arrive)
{
        static const JournalRecord damaged = {.kind = JOURNAL_DAMAGED, .inode = 7, .code = -EBADMSG};
        _cleanup_text_ Text t = {};
        JournalRecord r;

        journal_record_add(&t, &line);
        size_t size = t.size;
        journal_record_add(&t, &damaged);
        ASSERT_FALSE(t.failed);
        ASSERT_EQ(journal_record_parse(t.data, t.size, &r), (ssize_t) size);
        ASSERT_EQ(r.kind, JOURNAL_LINE);
        ASSERT_EQ(r.flags, line.flags);
        ASSERT_EQ(r.time_usec, 42);
        ASSERT_EQ(r.app_size, 3);
        ASSERT_EQ(memcmp(r.app, "web", 3), 0);
        ASSERT_EQ(r.data_size, 3);
        ASSERT_EQ(memcmp(r.data, "a\0b", 3), 0);
        ASSERT_EQ(journal_record_parse(t.data + size, t.size - size, &r), (ssize_t) (t.size - size));
        ASSERT_EQ(r.kind, JOURNAL_DAMAGED);
        ASSERT_EQ(r.inode, 7);
        ASSERT_EQ(r.code, -EBADMSG);
}

TEST(parts_of_records_are_waited_for)
{
        _cleanup_text_ Text t = {};
        JournalRecord r;

        journal_record_add(&t, &line);
        for (size_t i = 0; i < t.size; i++)
                ASSERT_EQ(journal_record_parse(t.data, i, &r), 0);
}

/* For every changed byte of the header: the results are within the bounds, and the reader does not wait for
 * larger records. */
TEST(forged_records_are_refused)
{
        _cleanup_text_ Text t = {};
        unsigned refused = 0;
        JournalRecord r;

        journal_record_add(&t, &line);
        size_t header = t.size - 6;
        for (size_t i = 0; i < header; i++)
                for (unsigned value = 0; value < 256; value++) {
                        char copy[128];
                        memcpy(copy, t.data, t.size);
                        copy[i] = (char) value;
                        ssize_t n = journal_record_parse(copy, t.size, &r);
                        refused += n == -EBADMSG;
                        if (n > 0) {
                                ASSERT_TRUE((size_t) n <= t.size && r.kind < _JOURNAL_RECORD_KIND_MAX);
                                ASSERT_TRUE(r.app_size <= JOURNAL_APP_MAX);
                                ASSERT_TRUE(r.app + r.app_size + r.data_size <= copy + t.size);
                                ASSERT_TRUE(r.code <= 0);
                        }
                }
        ASSERT_TRUE(refused > 1000);
}

TEST(long_values_are_cut)
{
        _cleanup_free_ char *big = calloc(1, JOURNAL_MESSAGE_MAX + 10);
        _cleanup_text_ Text t = {};
        JournalRecord r = line;

        ASSERT_TRUE(big);
        r.data = big;
        r.data_size = JOURNAL_MESSAGE_MAX + 10;
        journal_record_add(&t, &r);
        ASSERT_EQ(journal_record_parse(t.data, t.size, &r), (ssize_t) t.size);
        ASSERT_EQ(r.data_size, (size_t) JOURNAL_MESSAGE_MAX);
}

/* --- The confinement ----------------------------------------------------------------------------------- */

#define DENIED(call) ((call) < 0 && errno == EPERM)

/* Which of the attempts has succeeded; 0: none. */
static int attempt(int fd)
{
        struct stat st;
        char byte;

        if (journal_confine() < 0)
                return 1;
        if (!DENIED(open("/etc/passwd", O_RDONLY)) || !DENIED(open(".", O_RDONLY | O_DIRECTORY)))
                return 2;
        if (!DENIED(socket(AF_UNIX, SOCK_STREAM, 0)) || !DENIED(socket(AF_INET, SOCK_STREAM, 0)))
                return 3;
        if (!DENIED(kill(getppid(), 0)))
                return 4;
        if (!DENIED(fork()))
                return 5;
        if (!DENIED(execl("/bin/true", "true", (char *) NULL)))
                return 6;
        if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
                return 7;
        if (!DENIED(stat("/etc/passwd", &st)) || !DENIED(unlink("/nowhere")) || !DENIED(chdir("/")))
                return 8;
        if (!DENIED(setuid(0)))
                return 9;
        if (!JOURNAL_SANITIZED &&
            mmap(NULL, 1U << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
                return 10;
        /* What it is there for. */
        if (fstat(fd, &st) < 0 || read(fd, &byte, 1) != 1 ||
            mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED)
                return 11;
        return 0;
}

TEST(reader_can_do_nothing_but_read)
{
        _cleanup_close_ int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
        int status;

        ASSERT_TRUE(fd >= 0);
        pid_t pid = fork();
        if (pid == 0)
                _exit(attempt(fd));
        ASSERT_EQ(waitpid(pid, &status, 0), pid);
        ASSERT_TRUE(WIFEXITED(status));
        ASSERT_EQ(WEXITSTATUS(status), 0);
}

/* --- Marks --------------------------------------------------------------------------------------------- */

#define LINE_MAX_OF_JOURNALD 49152U

/* What journald makes an entry of, read back: without blanks at the end, and nothing if it is empty. */
static void add_entry(Text *t, const char *data, size_t size, int end)
{
        const char ending = (char) end;

        while (size > 0 && strchr(" \t\r\n", data[size - 1]) && data[size - 1] != 0)
                size--;
        if (size == 0)
                return;
        text_add_bytes(t, data, journal_unmarked_size(data, size));
        text_add_bytes(t, &ending, end >= 0);
}

static void pass_journald(Text *t, const char *data, size_t size)
{
        while (size > 0) {
                size_t n = 0;

                while (n < MIN(size, LINE_MAX_OF_JOURNALD) && data[n] != '\n' && data[n] != 0)
                        n++;
                bool ended = n < size && n < LINE_MAX_OF_JOURNALD;
                add_entry(t, data, n, ended ? data[n] : -1);
                data += n + ended;
                size -= n + ended;
        }
}

/* Written in pieces of STEP bytes. */
static void assert_kept(const char *data, size_t size, size_t step)
{
        _cleanup_text_ Text marked = {}, back = {};
        JournalMarker m = {};

        for (size_t i = 0; i < size; i += step)
                journal_mark(&m, data + i, MIN(step, size - i), &marked);
        journal_mark_end(&m, &marked);
        pass_journald(&back, marked.data, marked.size);
        ASSERT_FALSE(marked.failed || back.failed);
        ASSERT_EQ(back.size, size);
        ASSERT_EQ(memcmp(back.data, data, size), 0);
}

TEST(lines_stay_as_they_are)
{
        static const char *const lines[] = {
                        "a\n",
                        "\n",
                        "\n\n\na\n\n",
                        "a \n",
                        "a\t\n",
                        "a\r\n",
                        " \n",
                        "\r\n",
                        "  a  \n \t\r",
                        "a ",
                        "a",
                        "\xe2\x80\x8b\n",
                        "a\xe2\x80\x8b",
                        "\xe2\x80\x8b\xe2\x80\x8b\n",
                        "\x8b\n\x80\x8b\n",
                        "\xe2\x80\n\x8b\n",
        };
        static const char nul[] = "a\0 \0\0b\n\0\n";

        for (size_t i = 0; i < ELEMENTSOF(lines); i++)
                for (size_t step = 1; step < 5; step++)
                        assert_kept(lines[i], strlen(lines[i]), step);
        for (size_t step = 1; step < 5; step++)
                assert_kept(nul, sizeof(nul), step);
}

TEST(long_lines_stay_as_they_are)
{
        static char data[3 * LINE_MAX_OF_JOURNALD];

        memset(data, ' ', sizeof(data));
        for (size_t size = LINE_MAX_OF_JOURNALD - 8; size < LINE_MAX_OF_JOURNALD + 8; size++) {
                assert_kept(data, size, 4096);
                data[size - 1] = '\n';
                assert_kept(data, size, 4096);
                assert_kept(data, size + 7, 65536);
                data[size - 1] = ' ';
        }
        assert_kept(data, sizeof(data), 4096);
}

/* An ordinary line is as long in the journal as it was. */
TEST(ordinary_lines_have_no_mark)
{
        _cleanup_text_ Text t = {};
        JournalMarker m = {};

        journal_mark(&m, "one\n two\n", 9, &t);
        ASSERT_EQ(t.size, 9);
}

int main(void)
{
        RUN(records_arrive);
        RUN(parts_of_records_are_waited_for);
        RUN(forged_records_are_refused);
        RUN(long_values_are_cut);
        RUN(lines_stay_as_they_are);
        RUN(long_lines_stay_as_they_are);
        RUN(ordinary_lines_have_no_mark);
        RUN(reader_can_do_nothing_but_read);
        return TEST_END();
}
