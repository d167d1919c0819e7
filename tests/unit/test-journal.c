/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The protocol between the process that reads a journal and the one that shows it, and the confinement of
 * the former. */

#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "stage0/report/journal-internal.h"
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

int main(void)
{
        RUN(records_arrive);
        RUN(parts_of_records_are_waited_for);
        RUN(forged_records_are_refused);
        RUN(long_values_are_cut);
        RUN(reader_can_do_nothing_but_read);
        return TEST_END();
}
