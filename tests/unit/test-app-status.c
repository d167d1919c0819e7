/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* stage1/app-status.c: records of apps read back as they were written, malformed ones are refused, and their values
 * are shown to users in the usual words. */

#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "stage1/app-status.h"
#include "stage1/backoff.h"
#include "tests/unit/scratch.h"
#include "tests/unit/small-disk.h"
#include "tests/unit/test.h"

static void check_handler(const HandlerStatus *a, const HandlerStatus *b)
{
        ASSERT_EQ(a->ran, b->ran);
        ASSERT_EQ(a->timed_out, b->timed_out);
        ASSERT_EQ(a->exit_status, b->exit_status);
        ASSERT_EQ(a->signal, b->signal);
}

static void check_equal(const AppStatus *a, const AppStatus *b)
{
        ASSERT_EQ(a->state, b->state);
        ASSERT_EQ(a->cause, b->cause);
        ASSERT_EQ(a->exit_status, b->exit_status);
        ASSERT_EQ(a->signal, b->signal);
        ASSERT_EQ(a->core_dumped, b->core_dumped);
        ASSERT_STREQ(a->message, b->message);
        ASSERT_STREQ(a->identity, b->identity);
        ASSERT_EQ(a->started_usec, b->started_usec);
        ASSERT_EQ(a->ended_usec, b->ended_usec);
        ASSERT_EQ(a->readiness, b->readiness);
        ASSERT_EQ(a->starts, b->starts);
        ASSERT_EQ(a->consecutive_starts, b->consecutive_starts);
        check_handler(&a->pre_start, &b->pre_start);
        check_handler(&a->post_stop, &b->post_stop);
}

TEST(round_trip)
{
        /* The last one contains the word that marks the end of a record. */
        static const char *const messages[] = {NULL, "=a \"b\" %c \xff", "SUM=1 is not CHECKSUM=2"};
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;

        ASSERT_OK(scratch_new(&s));
        for (int state = 0; state < _APP_STATE_MAX; state++)
                for (int cause = 0; cause < _APP_CAUSE_MAX; cause++) {
                        _cleanup_app_status_ AppStatus out = {};
                        AppStatus in = {
                                        .state = (AppState) state,
                                        .cause = (AppCause) cause,
                                        .exit_status = state % 2 ? 255 : -1,
                                        .signal = cause,
                                        .core_dumped = cause % 2,
                                        .message = (char *) messages[cause % 3],
                                        .identity = (char *) (state % 2 ? "1000:50:50,4294967294" : NULL),
                                        .pre_start = {true, false, 0, 9},
                                        .post_stop = {true, true, -1, 64},
                                        .started_usec = 1,
                                        .ended_usec = UINT64_MAX,
                                        .readiness = (AppReadiness) (state % _APP_READINESS_MAX),
                                        .starts = UINT64_MAX,
                                        .consecutive_starts = UINT64_MAX,
                        };
                        ASSERT_OK(app_status_write(s.fd, "web", &in));
                        ASSERT_OK(app_status_read(s.fd, "web", &out));
                        check_equal(&in, &out);
                }
}

TEST(every_key_stands_once)
{
        _cleanup_strv_free_ char **lines = NULL;
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_free_ char *record = NULL;

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(app_status_write(s.fd, "web", &(AppStatus){.exit_status = -1}));
        ASSERT_OK(read_file_at(s.fd, "web", APP_RECORD_SIZE_MAX, &record, NULL));
        ASSERT_OK(strv_split(record, "\n", &lines));
        for (char **a = lines; *a; a++) {
                ASSERT_TRUE(strchr(*a, '='));
                for (char **b = lines; b < a; b++)
                        ASSERT_FALSE(strncmp(*a, *b, strcspn(*a, "=") + 1) == 0);
        }
}

TEST(health)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_health_status_ HealthStatus none = {};

        ASSERT_OK(scratch_new(&s));
        ASSERT_ERR(health_status_read(s.fd, "web", &none), -ENOENT);
        for (int state = 0; state < _HEALTH_STATE_MAX; state++) {
                _cleanup_health_status_ HealthStatus out = {};
                HealthStatus in = {.state = (HealthState) state,
                                   .failures = 7,
                                   .checked_usec = 8,
                                   .last = {true, state % 2, 9, -1},
                                   .action_sent = state % 2,
                                   .message = state ? (char *) "it\nsays" : NULL};
                ASSERT_OK(health_status_write(s.fd, "web", &in));
                ASSERT_OK(health_status_read(s.fd, "web", &out));
                ASSERT_EQ(out.state, in.state);
                ASSERT_EQ(out.failures, in.failures);
                ASSERT_EQ(out.checked_usec, in.checked_usec);
                check_handler(&out.last, &in.last);
                ASSERT_EQ(out.action_sent, in.action_sent);
                ASSERT_STREQ(out.message, state ? "it says" : NULL);
        }
        /* The record of an app is not accepted as a record of its health, and vice versa. */
        ASSERT_OK(app_status_write(s.fd, "db", &(AppStatus){.exit_status = -1}));
        ASSERT_ERR(health_status_read(s.fd, "db", &none), -ENOENT);
        ASSERT_OK(app_status_write(s.fd, "db.health", &(AppStatus){.exit_status = -1}));
        ASSERT_ERR(health_status_read(s.fd, "db", &none), -EBADMSG);
}

TEST(delays)
{
        ASSERT_EQ(backoff_delay(100, 1000, 1), 100);
        ASSERT_EQ(backoff_delay(100, 1000, 2), 200);
        ASSERT_EQ(backoff_delay(100, 1000, 4), 800);
        ASSERT_EQ(backoff_delay(100, 1000, 5), 1000);
        ASSERT_EQ(backoff_delay(100, 1000, 100000), 1000);
        ASSERT_EQ(backoff_delay(2000, 1000, 1), 2000);
        ASSERT_EQ(backoff_delay(2000, 1000, 50), 2000);
        ASSERT_TRUE(backoff_delay(UINT64_MAX / 2, UINT64_MAX - 1, 100) >= UINT64_MAX / 2);
        ASSERT_EQ(backoff_interval(100, 1000, 2), 300 + 3 * RESTART_QUIET_USEC);
}

TEST(a_run_that_lasted_begins_the_row_anew)
{
        AppStatus s = {.state = APP_ENDED,
                       .cause = CAUSE_EXITED,
                       .exit_status = 1,
                       .consecutive_starts = 5,
                       .started_usec = 1000,
                       .ended_usec = 999 + RESTART_QUIET_USEC};

        AppSettings settings = {.restart = RESTART_ON_FAILURE, .restart_limit = 5};

        ASSERT_EQ(backoff_consecutive_starts(&s), 5);
        ASSERT_TRUE(backoff_restarts(&s, &settings));
        settings.restart_limit = 4;
        ASSERT_FALSE(backoff_restarts(&s, &settings));
        s.ended_usec++;
        ASSERT_EQ(backoff_consecutive_starts(&s), 0);
        ASSERT_TRUE(backoff_restarts(&s, &settings));
        s.state = APP_RUNNING; /* the start after it is counted already */
        ASSERT_EQ(backoff_consecutive_starts(&s), 5);
}

TEST(an_unhealthy_app_has_not_lasted)
{
        AppSettings settings = {.restart_limit = 5, .health.action = HEALTH_RESTART};
        AppStatus s = {.state = APP_ENDED,
                       .cause = CAUSE_UNHEALTHY,
                       .consecutive_starts = 5,
                       .started_usec = 1000,
                       .ended_usec = 1000 + 9 * RESTART_QUIET_USEC};

        ASSERT_EQ(backoff_consecutive_starts(&s), 5);
        ASSERT_TRUE(backoff_restarts(&s, &settings));
        s.consecutive_starts++;
        ASSERT_FALSE(backoff_restarts(&s, &settings));
        settings.restart_limit = RESTART_LIMIT_NONE;
        ASSERT_TRUE(backoff_restarts(&s, &settings));
        settings.health.action = HEALTH_STOP;
        ASSERT_FALSE(backoff_restarts(&s, &settings));
        settings.health.action = HEALTH_RESTART;
        s.cause = CAUSE_EXITED; /* the policy "no" is for other ends */
        ASSERT_FALSE(backoff_restarts(&s, &settings));
}

TEST(no_record)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_app_status_ AppStatus status = {};

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(app_status_read(s.fd, "web", &status));
        ASSERT_EQ(status.state, APP_WAITING);
        ASSERT_EQ(status.cause, CAUSE_NONE);
        ASSERT_EQ(status.exit_status, -1);
        ASSERT_EQ(status.pre_start.exit_status, -1);
        ASSERT_NULL(status.message);
        ASSERT_EQ(app_status_to_exit_code(&status), 0);
        ASSERT_FALSE(app_status_failed(&status));
}

TEST(newlines_stay_in_their_line)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_app_status_ AppStatus out = {};
        AppStatus in = {.state = APP_ENDED,
                        .cause = CAUSE_SETUP,
                        .exit_status = -1,
                        .message = (char *) "bad\nSTATE=running\nCAUSE=none"};

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(app_status_write(s.fd, "web", &in));
        ASSERT_OK(app_status_read(s.fd, "web", &out));
        ASSERT_EQ(out.state, APP_ENDED);
        ASSERT_EQ(out.cause, CAUSE_SETUP);
        ASSERT_STREQ(out.message, "bad STATE=running CAUSE=none");
}

static const char *const refused[] = {
                "STATE",
                "STATE=",
                "STATE=Running",
                "STATE=running ",
                " STATE=running",
                "state=running",
                "UNKNOWN=1",
                "=",
                "STATE=ended\nGARBAGE",
                "CAUSE=unknown",
                "CAUSE=-1",
                "EXIT_STATUS=256",
                "EXIT_STATUS=-2",
                "EXIT_STATUS=0x1",
                "EXIT_STATUS= 1",
                "EXIT_STATUS=99999999999999999999",
                "EXIT_STATUS=",
                "SIGNAL=300",
                "CORE_DUMPED=perhaps",
                "STARTED=-1",
                "STARTED=18446744073709551616",
                "ENDED=now",
                "PRE_START_RAN=2",
                "POST_STOP_SIGNAL=x",
};

static int put_record(const Scratch *s, const char *name, const char *line)
{
        char lines[256];

        snprintf(lines, sizeof(lines), "%s\n", line);
        return scratch_file(s, name, lines);
}

TEST(malformed_records)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;

        ASSERT_OK(scratch_new(&s));
        for (size_t i = 0; i < ELEMENTSOF(refused); i++) {
                AppStatus status = {.state = APP_RUNNING};
                ASSERT_OK(put_record(&s, "web", refused[i]));
                if (app_status_read(s.fd, "web", &status) != -EBADMSG)
                        TEST_FAIL("\"%s\" is taken", refused[i]);
                ASSERT_EQ(status.state, APP_RUNNING); /* untouched */
        }
}

TEST(hostile_files)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_free_ char *big = malloc(APP_RECORD_SIZE_MAX + 2);
        AppStatus status = {};

        ASSERT_OK(scratch_new(&s));
        /* Files that could be in the place of a record, and names that an app could use. */
        ASSERT_OK(scratch_dir(&s, "directory"));
        ASSERT_ERR(app_status_read(s.fd, "directory", &status), -EBADMSG);
        ASSERT_OK(mkfifoat(s.fd, "fifo", 0600));
        ASSERT_ERR(app_status_read(s.fd, "fifo", &status), -EBADMSG);
        ASSERT_OK(scratch_symlink(&s, "link", "/etc/passwd"));
        ASSERT_ERR(app_status_read(s.fd, "link", &status), -ELOOP);
        ASSERT_OK(put_record(&s, "record", "STATE=ended"));
        ASSERT_OK(scratch_symlink(&s, "inside", "record"));
        ASSERT_ERR(app_status_read(s.fd, "inside", &status), -ELOOP);
        ASSERT_ERR(app_status_read(s.fd, "../record", &status), -EXDEV);
        ASSERT_ERR(app_status_read(s.fd, "/etc/passwd", &status), -EXDEV);
        ASSERT_NOT_NULL(big);
        memset(big, '\n', APP_RECORD_SIZE_MAX + 1);
        big[APP_RECORD_SIZE_MAX + 1] = 0;
        ASSERT_OK(scratch_file(&s, "big", big));
        ASSERT_ERR(app_status_read(s.fd, "big", &status), -EFBIG);
        ASSERT_OK(write_file_new_at(s.fd, "nul", "STATE=ended\n\0CAUSE=none\n", 24, 0600));
        ASSERT_ERR(app_status_read(s.fd, "nul", &status), -EBADMSG);
}

/* A record is replaced as a whole: a reader has the old one open, or gets the new one, and nothing else is left. */
TEST(records_are_replaced)
{
        const AppStatus old = {.state = APP_RUNNING, .exit_status = -1, .started_usec = 1234567},
                        new = {.state = APP_ENDED, .cause = CAUSE_EXITED, .exit_status = 1};
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_free_ char *before = NULL, *after = NULL, *kept = NULL;
        _cleanup_close_ int fd = -EBADF;
        size_t n = 0;

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(app_status_write(s.fd, "web", &old));
        ASSERT_OK(read_file_at(s.fd, "web", APP_RECORD_SIZE_MAX, &before, NULL));
        ASSERT_OK(fd = openat(s.fd, "web", O_RDONLY | O_CLOEXEC));
        ASSERT_OK(app_status_write(s.fd, "web", &new));
        ASSERT_OK(read_fd_bounded(fd, APP_RECORD_SIZE_MAX, &kept, &n));
        ASSERT_OK(read_file_at(s.fd, "web", APP_RECORD_SIZE_MAX, &after, NULL));
        ASSERT_STREQ(kept, before);
        ASSERT_TRUE(strstr(after, "STATE=ended\n"));
        ASSERT_NULL(strstr(after, "running"));
}

/* A loss of power may undo a part of an exchange with the reserve. */
TEST(records_of_another_app_are_none)
{
        const AppStatus running = {.state = APP_RUNNING, .exit_status = -1};
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_app_status_ AppStatus found = {};

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(app_status_write(s.fd, "web", &running));
        ASSERT_OK(renameat(s.fd, "web", s.fd, "db"));
        ASSERT_OK(app_status_read(s.fd, "db", &found));
        ASSERT_EQ(found.state, APP_WAITING);
}

/* What is reserved stands for no record; a reserve that is used has the space of the record that it replaces. */
TEST(space_for_records_is_reserved)
{
        const AppStatus running = {.state = APP_RUNNING, .exit_status = -1};
        const HealthStatus healthy = {.state = HEALTH_HEALTHY};
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_app_status_ AppStatus out = {};
        _cleanup_health_status_ HealthStatus health = {};

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(app_status_reserve(s.fd, "web", true));
        ASSERT_OK(app_status_read(s.fd, "web", &out));
        ASSERT_EQ(out.state, APP_WAITING);
        ASSERT_ERR(health_status_read(s.fd, "web", &health), -ENOENT);
        ASSERT_OK(app_status_write(s.fd, "web", &running));
        ASSERT_OK(health_status_write(s.fd, "web", &healthy));
        ASSERT_OK(app_status_reserve(s.fd, "web", true));
        ASSERT_OK(app_status_read(s.fd, "web", &out));
        ASSERT_EQ(out.state, APP_RUNNING);
        ASSERT_OK(health_status_read(s.fd, "web", &health));
        ASSERT_EQ(health.state, HEALTH_HEALTHY);
        health_status_remove(s.fd, "web");
        ASSERT_ERR(health_status_read(s.fd, "web", &health), -ENOENT);
        app_status_remove(s.fd, "web");
        ASSERT_ERR(faccessat(s.fd, "web", F_OK, 0) < 0 ? -errno : 0, -ENOENT);
        ASSERT_OK(faccessat(s.fd, STATUS_RESERVE, F_OK, 0));
}

/* Writes the records of two apps by turns. */
static pid_t write_in_turn(int status_fd)
{
        const AppStatus web = {.state = APP_RUNNING, .exit_status = -1, .message = (char *) "web"},
                        db = {.state = APP_ENDED, .exit_status = 7, .message = (char *) "database"};
        pid_t pid = fork();

        if (pid != 0)
                return pid;
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (app_status_write(status_fd, "web", &web) >= 0 &&
               app_status_write(status_fd, "db", &db) >= 0) {
        }
        _exit(1);
}

static void read_on_a_full_disk(void)
{
        const AppStatus running = {.state = APP_RUNNING, .exit_status = -1};
        static const char blank[65536];
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_close_ int filler = -EBADF;
        int status;

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(app_status_reserve(s.fd, "web", false));
        ASSERT_OK(app_status_reserve(s.fd, "db", false));
        ASSERT_OK(app_status_write(s.fd, "web", &running));
        ASSERT_OK(filler = openat(s.fd, "filler", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        while (write(filler, blank, sizeof(blank)) > 0) {
        }
        ASSERT_EQ(errno, ENOSPC);
        pid_t pid = write_in_turn(s.fd);
        ASSERT_TRUE(pid > 0);
        for (unsigned i = 0; i < 20000; i++) {
                _cleanup_app_status_ AppStatus out = {};

                ASSERT_OK(app_status_read(s.fd, "web", &out));
                ASSERT_EQ(out.state, APP_RUNNING);
                ASSERT_EQ(out.exit_status, -1);
        }
        ASSERT_EQ(waitpid(pid, &status, WNOHANG), 0);
        ASSERT_OK(kill(pid, SIGKILL));
        ASSERT_EQ(waitpid(pid, &status, 0), pid);
}

/* The file that a reader has open becomes the reserve, and then the record of another app. */
TEST(a_reader_sees_no_record_of_another_app)
{
        on_small_disk("size=128k", read_on_a_full_disk);
}

TEST(long_messages_are_cut)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_app_status_ AppStatus out = {};
        char message[8192];
        AppStatus in = {.state = APP_ENDED, .cause = CAUSE_SETUP, .exit_status = -1, .message = message};

        memset(message, 'm', sizeof(message) - 1);
        message[sizeof(message) - 1] = 0;
        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(app_status_write(s.fd, "web", &in));
        ASSERT_OK(app_status_read(s.fd, "web", &out));
        ASSERT_EQ(strlen(out.message), 2048);
}

static const struct {
        AppStatus status;
        int code;
        bool failed;
} codes[] = {
                {{.cause = CAUSE_NONE, .exit_status = -1}, 0, false},
                {{.cause = CAUSE_NONE, .exit_status = 7}, 0, false},
                {{.cause = CAUSE_EXITED, .exit_status = 0}, 0, false},
                {{.cause = CAUSE_EXITED, .exit_status = 42}, 42, true},
                {{.cause = CAUSE_EXITED, .exit_status = 255}, 255, true},
                {{.cause = CAUSE_EXITED, .exit_status = -1}, 125, true},
                {{.cause = CAUSE_SIGNAL, .exit_status = -1, .signal = 9}, 137, true},
                {{.cause = CAUSE_SIGNAL, .exit_status = -1, .signal = 15}, 143, true},
                {{.cause = CAUSE_OOM_KILL, .exit_status = -1, .signal = 9}, 137, true},
                {{.cause = CAUSE_TIMEOUT, .exit_status = -1, .signal = 9}, 137, true},
                {{.cause = CAUSE_TIMEOUT, .exit_status = 3}, 3, true},
                {{.cause = CAUSE_TIMEOUT, .exit_status = 0}, 125, true},
                {{.cause = CAUSE_TIMEOUT, .exit_status = -1}, 125, true},
                {{.cause = CAUSE_PRE_START, .exit_status = -1, .pre_start = {true, false, 3, 0}}, 125, true},
                {{.cause = CAUSE_COMMAND_NOT_FOUND, .exit_status = -1}, 127, true},
                {{.cause = CAUSE_COMMAND_NOT_EXECUTABLE, .exit_status = -1}, 126, true},
                {{.cause = CAUSE_WORKING_DIRECTORY, .exit_status = -1}, 125, true},
                {{.cause = CAUSE_USER, .exit_status = -1}, 125, true},
                {{.cause = CAUSE_SETUP, .exit_status = -1}, 125, true},
                {{.cause = CAUSE_NOT_STARTED, .exit_status = -1}, 125, true},
                {{.cause = CAUSE_POD_KILLED, .exit_status = -1}, 125, true},
                {{.cause = CAUSE_HOST_REBOOTED, .exit_status = -1}, 125, true},
};

TEST(exit_codes)
{
        for (size_t i = 0; i < ELEMENTSOF(codes); i++) {
                if (app_status_to_exit_code(&codes[i].status) != codes[i].code)
                        TEST_FAIL("%s: %d instead of %d", app_cause_to_string(codes[i].status.cause),
                                  app_status_to_exit_code(&codes[i].status), codes[i].code);
                ASSERT_EQ(app_status_failed(&codes[i].status), codes[i].failed);
        }
}

TEST(names)
{
        for (int i = 0; i < _APP_STATE_MAX; i++)
                ASSERT_NOT_NULL(app_state_to_string((AppState) i));
        for (int i = 0; i < _APP_CAUSE_MAX; i++)
                ASSERT_NOT_NULL(app_cause_to_string((AppCause) i));
        ASSERT_NULL(app_state_to_string(_APP_STATE_MAX));
        ASSERT_NULL(app_cause_to_string(_APP_CAUSE_MAX));
}

int main(void)
{
        RUN(round_trip);
        RUN(every_key_stands_once);
        RUN(no_record);
        RUN(health);
        RUN(delays);
        RUN(a_run_that_lasted_begins_the_row_anew);
        RUN(an_unhealthy_app_has_not_lasted);
        RUN(newlines_stay_in_their_line);
        RUN(malformed_records);
        RUN(hostile_files);
        RUN(records_are_replaced);
        RUN(records_of_another_app_are_none);
        RUN(space_for_records_is_reserved);
        RUN(a_reader_sees_no_record_of_another_app);
        RUN(long_messages_are_cut);
        RUN(exit_codes);
        RUN(names);
        return TEST_END();
}
