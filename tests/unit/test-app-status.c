/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* stage1/app-status.c: records of apps come out of the pod, so hostile ones are refused, and what they say
 * reaches users as they know it. */

#include <sys/stat.h>

#include "stage1/app-status.h"
#include "tests/unit/scratch.h"
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
        ASSERT_EQ(a->started_usec, b->started_usec);
        ASSERT_EQ(a->ended_usec, b->ended_usec);
        check_handler(&a->pre_start, &b->pre_start);
        check_handler(&a->post_stop, &b->post_stop);
}

TEST(round_trip)
{
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
                                        .message = cause % 3 ? (char *) "=a \"b\" %c \xff" : NULL,
                                        .pre_start = {true, false, 0, 9},
                                        .post_stop = {true, true, -1, 64},
                                        .started_usec = 1,
                                        .ended_usec = UINT64_MAX,
                        };
                        ASSERT_OK(app_status_write(s.fd, "web", &in));
                        ASSERT_OK(app_status_read(s.fd, "web", &out));
                        check_equal(&in, &out);
                }
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

TEST(hostile_records)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;

        ASSERT_OK(scratch_new(&s));
        for (size_t i = 0; i < ELEMENTSOF(refused); i++) {
                AppStatus status = {.state = APP_RUNNING};
                ASSERT_OK(scratch_file(&s, "web", refused[i]));
                if (app_status_read(s.fd, "web", &status) != -EBADMSG)
                        TEST_FAIL("\"%s\" is taken", refused[i]);
                ASSERT_EQ(status.state, APP_RUNNING); /* untouched */
        }
}

TEST(hostile_files)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_free_ char *big = malloc(16385 + 1);
        AppStatus status = {};

        ASSERT_OK(scratch_new(&s));
        /* What an app could put in the place of a record, or call itself. */
        ASSERT_OK(scratch_dir(&s, "directory"));
        ASSERT_ERR(app_status_read(s.fd, "directory", &status), -EBADMSG);
        ASSERT_OK(mkfifoat(s.fd, "fifo", 0600));
        ASSERT_ERR(app_status_read(s.fd, "fifo", &status), -EBADMSG);
        ASSERT_OK(scratch_symlink(&s, "link", "/etc/passwd"));
        ASSERT_ERR(app_status_read(s.fd, "link", &status), -ELOOP);
        ASSERT_OK(scratch_file(&s, "record", "STATE=ended\n"));
        ASSERT_OK(scratch_symlink(&s, "inside", "record"));
        ASSERT_ERR(app_status_read(s.fd, "inside", &status), -ELOOP);
        ASSERT_ERR(app_status_read(s.fd, "../record", &status), -EXDEV);
        ASSERT_ERR(app_status_read(s.fd, "/etc/passwd", &status), -EXDEV);
        ASSERT_NOT_NULL(big);
        memset(big, '\n', 16385);
        big[16385] = 0;
        ASSERT_OK(scratch_file(&s, "big", big));
        ASSERT_ERR(app_status_read(s.fd, "big", &status), -EFBIG);
        ASSERT_OK(write_file_new_at(s.fd, "nul", "STATE=ended\n\0CAUSE=none\n", 24, 0600));
        ASSERT_ERR(app_status_read(s.fd, "nul", &status), -EBADMSG);
}

/* A record is replaced as a whole, so half of one is never seen; reading one does no harm. */
TEST(truncated_anywhere)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_free_ char *text = NULL;
        AppStatus in = {.state = APP_ENDED,
                        .cause = CAUSE_EXITED,
                        .exit_status = 1,
                        .message = (char *) "text"};
        size_t size;

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(app_status_format(&in, &text, &size));
        ASSERT_EQ(size, strlen(text));
        for (size_t n = 0; n < size; n++) {
                _cleanup_app_status_ AppStatus out = {};
                _cleanup_free_ char *part = strndup(text, n);
                ASSERT_OK(scratch_file(&s, "web", part));
                int r = app_status_read(s.fd, "web", &out);
                if (r != 0 && r != -EBADMSG)
                        TEST_FAIL("%zu bytes: %d", n, r);
                if (r == 0)
                        ASSERT_TRUE(out.cause == CAUSE_NONE || out.cause == CAUSE_EXITED);
        }
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
        {{.cause = CAUSE_PRE_START, .exit_status = -1, .pre_start = {true, false, 3, 0}}, 125, true},
        {{.cause = CAUSE_COMMAND_NOT_FOUND, .exit_status = -1}, 127, true},
        {{.cause = CAUSE_COMMAND_NOT_EXECUTABLE, .exit_status = -1}, 126, true},
        {{.cause = CAUSE_WORKING_DIRECTORY, .exit_status = -1}, 125, true},
        {{.cause = CAUSE_USER, .exit_status = -1}, 125, true},
        {{.cause = CAUSE_SETUP, .exit_status = -1}, 125, true},
        {{.cause = CAUSE_NOT_STARTED, .exit_status = -1}, 125, true},
        {{.cause = CAUSE_POD_KILLED, .exit_status = -1}, 125, true},
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
                ASSERT_EQ(app_state_from_string(app_state_to_string((AppState) i)), i);
        for (int i = 0; i < _APP_CAUSE_MAX; i++)
                ASSERT_EQ(app_cause_from_string(app_cause_to_string((AppCause) i)), i);
        ASSERT_NULL(app_state_to_string(_APP_STATE_MAX));
        ASSERT_NULL(app_cause_to_string(_APP_CAUSE_MAX));
        ASSERT_ERR((int) app_state_from_string("dead"), -EINVAL);
        ASSERT_ERR((int) app_cause_from_string(""), -EINVAL);
}

int main(void)
{
        RUN(round_trip);
        RUN(no_record);
        RUN(newlines_stay_in_their_line);
        RUN(hostile_records);
        RUN(hostile_files);
        RUN(truncated_anywhere);
        RUN(exit_codes);
        RUN(names);
        return TEST_END();
}
