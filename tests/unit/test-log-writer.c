/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The process that writes a log file, and the queue to it. A process that is stopped is as good as one whose file system hangs. */

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "stage0/supervisor/streams/log-writer.h"
#include "tests/unit/scratch.h"
#include "tests/unit/test.h"

#define SECOND UINT64_C(1000000)
#define LINE "a line of the app\n"

typedef struct Fixture {
        Scratch scratch;
        sd_event *event;
        char path[PATH_MAX + 64];
        LogWriterOptions options;
        LogWriter *writer;
        unsigned rooms, losses, ends;
        uint64_t lost, dropped;
        LogReply last;
} Fixture;

static const MountNamespace this_one = {.fd = -EBADF, .root_fd = -EBADF};

#define FIXTURE_NULL ((Fixture){.scratch = SCRATCH_NULL})

static void fixture_done(Fixture *f)
{
        log_writer_free(f->writer);
        sd_event_unref(f->event);
        scratch_done(&f->scratch);
}

static void on_room(void *userdata)
{
        Fixture *f = userdata;

        f->rooms++;
}

static void on_reply(void *userdata, const LogReply *r)
{
        Fixture *f = userdata;

        f->last = *r;
        f->dropped += r->bytes;
}

static void on_lost(void *userdata, uint64_t bytes)
{
        Fixture *f = userdata;

        f->losses++;
        f->lost += bytes;
}

static void on_end(void *userdata)
{
        Fixture *f = userdata;

        f->ends++;
}

static int start_writer(Fixture *f)
{
        int r = sd_event_new(&f->event);

        if (r < 0)
                return r;
        snprintf(f->path, sizeof(f->path), "%s/log", f->scratch.path);
        f->options = (LogWriterOptions){
                        .event = f->event,
                        .settings = {.path = f->path, .format = LOG_FORMAT_PLAIN, .max_size = UINT64_MAX},
                        .host = &this_one,
                        .after_fd = -EBADF,
                        .on_room = on_room,
                        .on_reply = on_reply,
                        .on_lost = on_lost,
                        .on_end = on_end,
                        .userdata = f};
        return log_writer_new(&f->options, &f->writer);
}

static int set_up(Fixture *f)
{
        int r = scratch_new(&f->scratch);

        return r < 0 ? r : start_writer(f);
}

static void say(LogWriter *w, const char *data, size_t size)
{
        const LogMessage m = {.step = LOG_ADD, .stream = 1, .size = (uint32_t) size};

        log_writer_add(w, &m, data);
}

static void say_line(LogWriter *w)
{
        say(w, LINE, strlen(LINE));
}

static int signal_process(const LogWriter *w, int signal)
{
        return (int) syscall(SYS_pidfd_send_signal, log_writer_process(w), signal, NULL, 0);
}

static uint64_t in(uint64_t usec)
{
        return now_usec(CLOCK_MONOTONIC) + usec;
}

static bool settle(Fixture *f)
{
        return log_writer_settle(f->writer, in(20 * SECOND));
}

/* Handles events until *N is not 0 any more. */
static bool wait_for_event(Fixture *f, const unsigned *n)
{
        uint64_t deadline = in(20 * SECOND);

        while (*n == 0 && now_usec(CLOCK_MONOTONIC) < deadline)
                if (sd_event_run(f->event, SECOND / 10) < 0)
                        return false;
        return *n > 0;
}

static char *content(const Fixture *f, const char *name, size_t *ret_size)
{
        char *text = NULL;

        return read_file_at(f->scratch.fd, name, 1 << 24, &text, ret_size) < 0 ? NULL : text;
}

TEST(output_is_in_the_file_once_it_has_settled)
{
        _cleanup_(fixture_done) Fixture f = FIXTURE_NULL;
        _cleanup_free_ char *text = NULL, *all = NULL;

        ASSERT_OK(set_up(&f));
        say(f.writer, "one\ntw", 6);
        say(f.writer, "o\nthree", 7);
        ASSERT_TRUE(settle(&f));
        ASSERT_EQ(log_writer_unwritten(f.writer), 5); /* no whole line */
        text = content(&f, "log", NULL);
        ASSERT_STREQ(text, "one\ntwo\n");
        ASSERT_TRUE(!log_writer_finish(f.writer));
        ASSERT_TRUE(wait_for_event(&f, &f.ends));
        ASSERT_EQ(f.losses, 0);
        all = content(&f, "log", NULL);
        ASSERT_STREQ(all, "one\ntwo\nthree\n");
}

TEST(a_file_is_opened_anew_between_messages)
{
        _cleanup_(fixture_done) Fixture f = FIXTURE_NULL;
        _cleanup_free_ char *old = NULL, *new = NULL;

        ASSERT_OK(set_up(&f));
        ASSERT_TRUE(log_writer_wait(f.writer, 1, in(20 * SECOND)));
        ASSERT_EQ(f.last.code, 0);
        say(f.writer, "old\n", 4);
        ASSERT_OK(renameat(f.scratch.fd, "log", f.scratch.fd, "log.1"));
        ASSERT_OK(mkdirat(f.scratch.fd, "log", 0700));
        uint64_t n = log_writer_ask(f.writer, (LogMessage){.step = LOG_REOPEN});
        ASSERT_TRUE(!log_writer_has_answered(f.writer, n));
        ASSERT_TRUE(log_writer_wait(f.writer, n, in(20 * SECOND)));
        ASSERT_EQ(f.last.code, -EBADF);
        ASSERT_TRUE(S_ISDIR(f.last.type));
        say(f.writer, "still old\n", 10);
        ASSERT_TRUE(settle(&f));
        ASSERT_OK(unlinkat(f.scratch.fd, "log", AT_REMOVEDIR));
        (void) log_writer_ask(f.writer, (LogMessage){.step = LOG_REOPEN});
        say(f.writer, "new\n", 4);
        ASSERT_TRUE(settle(&f));
        old = content(&f, "log.1", NULL);
        new = content(&f, "log", NULL);
        ASSERT_STREQ(old, "old\nstill old\n");
        ASSERT_STREQ(new, "new\n");
}

/* The app is not read any more then. Nothing is lost when the process goes on. */
TEST(the_queue_is_bounded)
{
        _cleanup_(fixture_done) Fixture f = FIXTURE_NULL;
        _cleanup_free_ char *text = NULL;
        size_t n = 0, size = 0;

        ASSERT_OK(set_up(&f));
        ASSERT_TRUE(settle(&f));
        ASSERT_OK(signal_process(f.writer, SIGSTOP));
        for (; !log_writer_is_full(f.writer) && n < 1000000; n++)
                say_line(f.writer);
        ASSERT_TRUE(n * strlen(LINE) > 50000 && n * strlen(LINE) < 1000000);
        ASSERT_EQ(log_writer_unwritten(f.writer), n * strlen(LINE));
        uint64_t begun = now_usec(CLOCK_MONOTONIC);
        ASSERT_TRUE(!log_writer_settle(f.writer, begun + SECOND / 10));
        /* From now on nothing waits for it. */
        for (unsigned i = 0; i < 1000; i++)
                ASSERT_TRUE(!log_writer_settle(f.writer, in(20 * SECOND)));
        ASSERT_TRUE(now_usec(CLOCK_MONOTONIC) < begun + 15 * SECOND);
        ASSERT_OK(signal_process(f.writer, SIGCONT));
        ASSERT_TRUE(wait_for_event(&f, &f.rooms));
        say_line(f.writer);
        n++;
        ASSERT_TRUE(!log_writer_finish(f.writer));
        ASSERT_TRUE(wait_for_event(&f, &f.ends));
        text = content(&f, "log", &size);
        ASSERT_EQ(size, n * strlen(LINE));
        for (size_t i = 0; i < n; i++)
                ASSERT_EQ(memcmp(text + i * strlen(LINE), LINE, strlen(LINE)), 0);
        ASSERT_EQ(f.losses, 0);
}

TEST(a_process_that_is_killed_is_replaced)
{
        _cleanup_(fixture_done) Fixture f = FIXTURE_NULL;
        _cleanup_free_ char *text = NULL;

        ASSERT_OK(set_up(&f));
        say_line(f.writer);
        ASSERT_TRUE(settle(&f));
        ASSERT_OK(signal_process(f.writer, SIGSTOP));
        say_line(f.writer);
        say_line(f.writer);
        ASSERT_OK(signal_process(f.writer, SIGKILL));
        ASSERT_TRUE(wait_for_event(&f, &f.losses));
        ASSERT_EQ(f.lost, 2 * strlen(LINE));
        /* The second one in a second is not started at once: what comes meanwhile is lost, too. */
        while (log_writer_process(f.writer) < 0)
                ASSERT_OK(sd_event_run(f.event, SECOND));
        ASSERT_OK(signal_process(f.writer, SIGKILL));
        f.losses = 0;
        ASSERT_TRUE(wait_for_event(&f, &f.losses));
        ASSERT_TRUE(log_writer_process(f.writer) < 0 && log_writer_is_full(f.writer));
        say_line(f.writer);
        while (log_writer_process(f.writer) < 0)
                ASSERT_OK(sd_event_run(f.event, SECOND));
        ASSERT_EQ(f.lost, 3 * strlen(LINE));
        say(f.writer, "last\n", 5);
        ASSERT_TRUE(settle(&f));
        text = content(&f, "log", NULL);
        ASSERT_STREQ(text, LINE "last\n");
}

/* From now on exactly two more descriptors can be opened. */
static int limit_descriptors(struct rlimit *ret_before)
{
        int first = dup(STDIN_FILENO), second = dup(STDIN_FILENO); /* the lowest ones that are free */

        if (second < 0 || getrlimit(RLIMIT_NOFILE, ret_before) < 0)
                return -errno;
        const struct rlimit limit = {.rlim_cur = (rlim_t) second + 1, .rlim_max = ret_before->rlim_max};
        close(first);
        close(second);
        return setrlimit(RLIMIT_NOFILE, &limit) < 0 ? -errno : 0;
}

/* The queue would block the event loop. */
TEST(a_process_without_a_queue_is_refused)
{
        _cleanup_(fixture_done) Fixture f = FIXTURE_NULL;
        struct rlimit before;

        ASSERT_OK(set_up(&f));
        f.writer = log_writer_free(f.writer);
        ASSERT_OK(limit_descriptors(&before));
        int r = log_writer_new(&f.options, &f.writer);
        ASSERT_OK(setrlimit(RLIMIT_NOFILE, &before));
        ASSERT_ERR(r, -EMFILE);
        ASSERT_NULL(f.writer);
}

static size_t count(const char *text, const char *words)
{
        size_t n = 0;

        for (; text && (text = strstr(text, words)); text++)
                n++;
        return n;
}

TEST(what_comes_while_no_process_can_be_started_is_reported)
{
        _cleanup_(fixture_done) Fixture f = FIXTURE_NULL;
        _cleanup_free_ char *said = NULL;
        struct rlimit before;
        int attempts = 0;

        ASSERT_OK(set_up(&f));
        ASSERT_TRUE(settle(&f));
        ASSERT_OK(scratch_file(&f.scratch, "said", ""));
        int old = dup(STDERR_FILENO), err = openat(f.scratch.fd, "said", O_WRONLY | O_APPEND | O_CLOEXEC);
        ASSERT_TRUE(old >= 0 && err >= 0 && dup2(err, STDERR_FILENO) >= 0);
        close(err);
        int r = signal_process(f.writer, SIGKILL);
        /* It is not started at once: streams are not read meanwhile. */
        f.rooms = 0;
        bool ended = wait_for_event(&f, &f.rooms) && log_writer_process(f.writer) < 0 &&
                     log_writer_is_full(f.writer);
        say_line(f.writer);
        int k = limit_descriptors(&before);
        for (; ended && k >= 0 && attempts < 2; attempts++) {
                f.rooms = 0;
                ended = wait_for_event(&f, &f.rooms) && log_writer_process(f.writer) < 0;
        }
        say_line(f.writer);
        (void) setrlimit(RLIMIT_NOFILE, &before);
        while (log_writer_process(f.writer) < 0 && sd_event_run(f.event, SECOND) >= 0)
                ;
        (void) dup2(old, STDERR_FILENO);
        close(old);
        ASSERT_OK(r);
        ASSERT_OK(k);
        ASSERT_TRUE(ended);
        ASSERT_EQ(attempts, 2);
        ASSERT_EQ(f.lost, 2 * strlen(LINE));
        said = content(&f, "said", NULL);
        ASSERT_EQ(count(said, "Cannot start the process that writes the log file"), 1);
        ASSERT_CONTAINS(said, strerror(EMFILE));
}

TEST(what_was_sent_is_written_after_the_death_of_the_supervisor)
{
        _cleanup_(fixture_done) Fixture f = FIXTURE_NULL;
        size_t n = 100, size = 0; /* as many as the socket takes */
        int status = 1;

        ASSERT_OK(scratch_new(&f.scratch));
        pid_t pid = fork();
        if (pid == 0) {
                int r = start_writer(&f);
                if (r >= 0)
                        r = signal_process(f.writer, SIGSTOP);
                for (size_t i = 0; r >= 0 && i < n; i++)
                        say_line(f.writer);
                if (r >= 0)
                        r = signal_process(f.writer, SIGCONT);
                _exit(r < 0);
        }
        ASSERT_TRUE(pid > 0);
        ASSERT_EQ(waitpid(pid, &status, 0), pid);
        ASSERT_EQ(status, 0);
        uint64_t deadline = in(20 * SECOND);
        while (size < n * strlen(LINE) && now_usec(CLOCK_MONOTONIC) < deadline) {
                free(content(&f, "log", &size));
                (void) poll(NULL, 0, 10);
        }
        ASSERT_EQ(size, n * strlen(LINE));
}

TEST(a_process_that_does_not_end_is_given_up)
{
        _cleanup_(fixture_done) Fixture f = FIXTURE_NULL;
        LogEnd end;

        ASSERT_OK(set_up(&f));
        ASSERT_TRUE(settle(&f));
        ASSERT_OK(signal_process(f.writer, SIGSTOP));
        say_line(f.writer);
        ASSERT_TRUE(!log_writer_finish(f.writer));
        while ((end = log_writer_wait_for_end(f.writer, SECOND / 10)) == LOG_ENDS)
                ;
        ASSERT_EQ(end, LOG_GIVEN_UP);
        ASSERT_EQ(log_writer_unwritten(f.writer), strlen(LINE));
        /* Another one does not wait for it without end, but that long; and it does if it goes on. */
        LogWriter *first = f.writer;
        f.writer = NULL;
        f.options.after_fd = log_writer_process(first);
        int r = log_writer_new(&f.options, &f.writer);
        bool early = r >= 0 && log_writer_wait(f.writer, 1, in(SECOND / 10));
        int k = signal_process(first, SIGCONT);
        bool opened = r >= 0 && log_writer_wait(f.writer, 1, in(20 * SECOND));
        end = log_writer_wait_for_end(first, SECOND);
        log_writer_free(first);
        ASSERT_OK(r);
        ASSERT_OK(k);
        ASSERT_TRUE(!early && opened);
        ASSERT_EQ(end, LOG_ENDED);
}

/* Its patience counts from the end of the pod, not from the time when it was taken to hang. */
TEST(a_slow_process_is_not_given_up_at_once)
{
        _cleanup_(fixture_done) Fixture f = FIXTURE_NULL;

        ASSERT_OK(set_up(&f));
        ASSERT_TRUE(settle(&f));
        ASSERT_OK(signal_process(f.writer, SIGSTOP));
        say_line(f.writer);
        ASSERT_FALSE(log_writer_settle(f.writer, in(0)));
        uint64_t hung = now_usec(CLOCK_MONOTONIC);
        ASSERT_OK(signal_process(f.writer, SIGCONT));
        while (log_writer_unwritten(f.writer) > 0 || now_usec(CLOCK_MONOTONIC) < hung + 3 * SECOND)
                (void) poll(NULL, 0, 10);
        ASSERT_OK(signal_process(f.writer, SIGSTOP));
        say_line(f.writer);
        ASSERT_FALSE(log_writer_finish(f.writer));
        ASSERT_EQ(log_writer_wait_for_end(f.writer, 3 * SECOND), LOG_ENDS);
        ASSERT_OK(signal_process(f.writer, SIGCONT));
        ASSERT_TRUE(wait_for_event(&f, &f.ends));
        ASSERT_EQ(f.losses, 0);
}

TEST(what_is_dropped_is_reported)
{
        _cleanup_(fixture_done) Fixture f = FIXTURE_NULL;

        ASSERT_OK(set_up(&f));
        log_writer_free(f.writer);
        f.options.settings.max_size = strlen(LINE);
        ASSERT_OK(log_writer_new(&f.options, &f.writer));
        for (unsigned i = 0; i < 10; i++)
                say_line(f.writer);
        ASSERT_TRUE(settle(&f));
        ASSERT_EQ(f.dropped, 9 * strlen(LINE));
        ASSERT_EQ(log_writer_unwritten(f.writer), 0);
}

int main(void)
{
        if (library_load(&systemd_library, NULL) < 0)
                return 1;
        RUN(output_is_in_the_file_once_it_has_settled);
        RUN(a_file_is_opened_anew_between_messages);
        RUN(the_queue_is_bounded);
        RUN(a_process_that_is_killed_is_replaced);
        RUN(a_process_without_a_queue_is_refused);
        RUN(what_comes_while_no_process_can_be_started_is_reported);
        RUN(what_was_sent_is_written_after_the_death_of_the_supervisor);
        RUN(a_process_that_does_not_end_is_given_up);
        RUN(a_slow_process_is_not_given_up_at_once);
        RUN(what_is_dropped_is_reported);
        return TEST_END();
}
