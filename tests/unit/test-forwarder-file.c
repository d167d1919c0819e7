/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Output of an app between its pipe and the process that writes its log file. A process that is stopped is as good as one whose
 * file system hangs. */

#include <signal.h>
#include <sys/syscall.h>

#include "stage0/supervisor/streams/forwarder-internal.h"
#include "tests/unit/scratch.h"
#include "tests/unit/test.h"

#define SECOND UINT64_C(1000000)
#define LINE "a line of the app\n"
#define FLOOD (2U << 20) /* bytes; see forwarder_file_is_flooded() */

typedef struct Fixture {
        Scratch scratch;
        sd_event *event;
        char path[PATH_MAX + 64];
        Pod pod;
        AppInstance app, *items[1];
        AppTable table;
        Forwarders *all;
        int pipe; /* of the app */
        Error error;
} Fixture;

#define FIXTURE_NULL ((Fixture){.scratch = SCRATCH_NULL, .pipe = -EBADF})

static void fixture_done(Fixture *f)
{
        safe_close(f->pipe);
        forwarders_free(f->all);
        sd_event_unref(f->event);
        error_done(&f->error);
        scratch_done(&f->scratch);
}

/* With an app that has a log file, which no process has opened yet. */
static int set_up(Fixture *f)
{
        const ForwarderOptions o = {.pod = &f->pod, .apps = &f->table};
        int r = scratch_new(&f->scratch);

        if (r >= 0)
                r = sd_event_new(&f->event);
        if (r < 0)
                return r;
        snprintf(f->path, sizeof(f->path), "%s/log", f->scratch.path);
        f->pod.dir_fd = f->scratch.fd;
        f->app = (AppInstance){.table = &f->table,
                               .name = "a",
                               .settings = {.log = LOG_TARGET_NONE,
                                            .log_file = {.path = f->path,
                                                         .format = LOG_FORMAT_PLAIN,
                                                         .max_size = UINT64_MAX}}};
        f->items[0] = &f->app;
        f->table = (AppTable){.pod = &f->pod, .items = f->items, .n = 1};
        return forwarders_new(f->event, &o, &f->all, &f->error);
}

static int open_log(Fixture *f)
{
        int r = forwarders_open_logs(f->all, &f->error);

        if (r >= 0)
                r = forwarders_await_logs(f->all, &f->error);
        return r < 0 ? r : forwarders_add(f->all, &f->app, false, -EBADF, getuid(), &f->pipe);
}

static int signal_writer(const Fixture *f, int signal)
{
        return (int) syscall(SYS_pidfd_send_signal, log_writer_process(f->app.log->writer), signal, NULL, 0);
}

static uint64_t in(uint64_t usec)
{
        return now_usec(CLOCK_MONOTONIC) + usec;
}

TEST(a_process_that_opens_no_file_is_reported)
{
        _cleanup_(fixture_done) Fixture f = FIXTURE_NULL;

        ASSERT_OK(set_up(&f));
        /* This is no mount namespace, and the process ends. */
        ASSERT_OK(forwarders_set_host(f.all, &(MountNamespace){f.scratch.fd, f.scratch.fd}));
        ASSERT_ERR(open_log(&f), -ECHILD);
        ASSERT_CONTAINS(f.error.message, ": the process that opens it ended without an answer");
}

/* Then its pipe is closed. */
TEST(the_rest_of_a_removed_app_is_read_also_in_a_flood)
{
        _cleanup_(fixture_done) Fixture f = FIXTURE_NULL;
        _cleanup_free_ char *flood = calloc(1, FLOOD), *text = NULL;
        uint64_t deadline = in(20 * SECOND);
        size_t size = 0;

        ASSERT_NOT_NULL(flood);
        memset(flood, '\n', FLOOD);
        ASSERT_OK(set_up(&f));
        ASSERT_OK(open_log(&f));
        ASSERT_OK(signal_writer(&f, SIGSTOP));
        forwarder_write_to_file(f.all->first, flood, FLOOD);
        ASSERT_TRUE(forwarder_file_is_flooded(f.all->first));
        ASSERT_OK(loop_write(f.pipe, LINE, strlen(LINE)));
        ASSERT_OK(signal_writer(&f, SIGCONT));
        forwarders_remove_app(f.all, &f.app);
        while (f.all->leaving && now_usec(CLOCK_MONOTONIC) < deadline)
                ASSERT_OK(sd_event_run(f.event, SECOND / 10));
        ASSERT_OK(read_file_at(f.scratch.fd, "log", 1 << 24, &text, &size));
        ASSERT_EQ(size, FLOOD + strlen(LINE));
        ASSERT_STREQ(text + FLOOD, LINE);
}

TEST(output_without_a_process_is_reported_when_the_app_is_removed)
{
        _cleanup_(fixture_done) Fixture f = FIXTURE_NULL;
        _cleanup_free_ char *said = NULL;
        uint64_t deadline = in(20 * SECOND);

        ASSERT_OK(set_up(&f));
        ASSERT_OK(open_log(&f));
        ASSERT_OK(signal_writer(&f, SIGKILL));
        while (log_writer_pid(f.app.log->writer) > 0 && now_usec(CLOCK_MONOTONIC) < deadline)
                ASSERT_OK(sd_event_run(f.event, SECOND / 10));
        ASSERT_OK(loop_write(f.pipe, LINE, strlen(LINE)));
        ASSERT_OK(scratch_file(&f.scratch, "said", ""));
        int old = dup(STDERR_FILENO), err = openat(f.scratch.fd, "said", O_WRONLY | O_APPEND | O_CLOEXEC);
        ASSERT_TRUE(old >= 0 && err >= 0 && dup2(err, STDERR_FILENO) >= 0);
        forwarders_remove_app(f.all, &f.app);
        (void) dup2(old, STDERR_FILENO);
        close(old);
        close(err);
        ASSERT_OK(read_file_at(f.scratch.fd, "said", 65536, &said, NULL));
        ASSERT_CONTAINS(said, " was killed: 18 bytes of output that it had not written may be lost");
}

int main(void)
{
        if (library_load(&systemd_library, NULL) < 0)
                return 1;
        RUN(a_process_that_opens_no_file_is_reported);
        RUN(the_rest_of_a_removed_app_is_read_also_in_a_flood);
        RUN(output_without_a_process_is_reported_when_the_app_is_removed);
        return TEST_END();
}
