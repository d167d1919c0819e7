/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What becomes of an app's status, from what launchers report and what the pod's systemd says, in any order. */

#include <signal.h>
#include <sys/mman.h>

#include "stage0/supervisor/apps/app-life.h"
#include "tests/unit/test.h"

typedef struct Fixture {
        App image;
        PodApp manifest;
        AppInstance app;
        LaunchReport *report;
} Fixture;

static void fixture_new(Fixture *f)
{
        *f = (Fixture){.manifest = {.name = (char *) "web", .app = &f->image},
                       .app = {.name = "web",
                               .app = &f->image,
                               .manifest = &f->manifest,
                               .status = app_status_initial(),
                               .report_fd = -EBADF}};
        f->app.settings.restart_limit = RESTART_LIMIT_NONE;
}

static void fixture_done(Fixture *f)
{
        if (f->report)
                (void) munmap(f->report, sizeof(LaunchReport));
        safe_close(f->app.report_fd);
        app_status_done(&f->app.status);
        health_status_done(&f->app.health);
}

#define FIXTURE(f)                                                                                          \
        _cleanup_(fixture_done) Fixture f;                                                                  \
        fixture_new(&f)

/* As the launcher has it. */
static void launch(Fixture *f)
{
        _cleanup_close_ int fd = -EBADF;

        app_life_begin_phase(&f->app, LAUNCH_MAIN);
        ASSERT_OK(app_life_open_report(&f->app, &fd));
        if (f->report)
                (void) munmap(f->report, sizeof(LaunchReport));
        f->report = mmap(NULL, sizeof(LaunchReport), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        ASSERT_TRUE(f->report != MAP_FAILED);
        /* The supervisor cannot be made to read what is not there. */
        ASSERT_TRUE(ftruncate(fd, 1) < 0);
}

static void run(Fixture *f, uint64_t started_usec)
{
        launch(f);
        f->report->started_usec = started_usec;
        snprintf(f->report->identity, sizeof(f->report->identity), "7:8:9");
        app_life_take_report(&f->app);
}

static MainEnd exited(int status)
{
        return (MainEnd){.known = true, .exit_status = status, .usec = 5000, .result = "success"};
}

static MainEnd killed(int sig, const char *result)
{
        MainEnd end = {.known = true, .exit_status = -1, .signal = sig, .usec = 5000};

        snprintf(end.result, sizeof(end.result), "%s", result);
        return end;
}

TEST(a_life)
{
        MainEnd end = exited(3);
        FIXTURE(f);

        ASSERT_TRUE(app_life_is_first_phase(&f.app, LAUNCH_MAIN));
        run(&f, 1000);
        ASSERT_EQ(f.app.status.state, APP_RUNNING);
        ASSERT_EQ(f.app.status.starts, 1);
        ASSERT_EQ(f.app.status.started_usec, 1000);
        ASSERT_STREQ(f.app.status.identity, "7:8:9");
        ASSERT_TRUE(app_life_ended(&f.app, &end));
        ASSERT_EQ(f.app.status.state, APP_ENDED);
        ASSERT_EQ(f.app.status.cause, CAUSE_EXITED);
        ASSERT_EQ(f.app.status.exit_status, 3);
        ASSERT_EQ(f.app.status.ended_usec, 5000);
        ASSERT_FALSE(app_life_ended(&f.app, &end)); /* systemd says it again */
}

/* The end is known before the launcher is seen to have gone. */
TEST(an_end_that_is_faster_than_its_report)
{
        MainEnd end = exited(0);
        FIXTURE(f);

        launch(&f);
        f.report->started_usec = 1000;
        ASSERT_TRUE(app_life_ended(&f.app, &end));
        ASSERT_EQ(f.app.status.starts, 1);
        ASSERT_EQ(f.app.status.started_usec, 1000);
        ASSERT_EQ(f.app.status.cause, CAUSE_EXITED);
        app_life_take_report(&f.app);
        ASSERT_EQ(f.app.status.state, APP_ENDED);
}

/* What the launcher has found wins over the exit status that it has left with. */
TEST(an_app_that_cannot_be_executed)
{
        MainEnd end = exited(127);
        FIXTURE(f);

        launch(&f);
        f.report->started_usec = 1000;
        f.report->cause = CAUSE_COMMAND_NOT_FOUND;
        snprintf(f.report->message, sizeof(f.report->message), "no\nsuch");
        app_life_take_report(&f.app);
        ASSERT_EQ(f.app.status.started_usec, 0);
        ASSERT_TRUE(app_life_ended(&f.app, &end));
        ASSERT_EQ(f.app.status.cause, CAUSE_COMMAND_NOT_FOUND);
        ASSERT_STREQ(f.app.status.message, "no such");
        ASSERT_EQ(f.app.status.exit_status, -1);
}

/* Memory that a process of the pod has written to: nothing in it is believed. */
TEST(reports_that_are_none)
{
        FIXTURE(f);

        launch(&f);
        memset(f.report, 0xff, sizeof(*f.report));
        app_life_take_report(&f.app);
        ASSERT_EQ(f.app.status.state, APP_WAITING);
        launch(&f);
        memset(f.report, 'x', sizeof(*f.report));
        f.report->cause = CAUSE_SETUP;
        app_life_take_report(&f.app);
        ASSERT_EQ(strlen(f.app.status.message), LAUNCH_MESSAGE_MAX - 1);
        ASSERT_EQ(strlen(f.app.status.identity), APP_IDENTITY_MAX - 1);
}

TEST(causes)
{
        static const struct {
                int sig;
                const char *result;
                AppCause cause;
        } cases[] = {{SIGTERM, "success", CAUSE_SIGNAL},    {SIGSEGV, "core-dump", CAUSE_SIGNAL},
                     {SIGKILL, "oom-kill", CAUSE_OOM_KILL}, {SIGKILL, "timeout", CAUSE_TIMEOUT},
                     {SIGABRT, "watchdog", CAUSE_TIMEOUT},  {SIGKILL, "signal", CAUSE_SIGNAL}};

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                MainEnd end = killed(cases[i].sig, cases[i].result);
                FIXTURE(f);

                run(&f, 1000);
                ASSERT_TRUE(app_life_ended(&f.app, &end));
                ASSERT_EQ(f.app.status.cause, cases[i].cause);
                ASSERT_EQ(f.app.status.signal, cases[i].sig);
                ASSERT_EQ(f.app.status.exit_status, -1);
        }
}

/* The unit times out, as other processes had to be killed. The main process was started at 1000, and has ended at 5000. */
TEST(a_success_before_a_timeout)
{
        static const struct {
                uint64_t max_runtime_usec, ended_usec;
                bool notify, stopped;
                AppCause cause;
        } cases[] = {{0, 5000, false, false, CAUSE_EXITED},
                     {UINT64_MAX, 5000, false, false, CAUSE_EXITED},
                     {4001, 5000, false, false, CAUSE_EXITED},
                     {4000, 5000, false, false, CAUSE_TIMEOUT},
                     {4000, 5000, false, true, CAUSE_EXITED},
                     {4000, 999, false, false, CAUSE_TIMEOUT},
                     {4000, 0, false, false, CAUSE_TIMEOUT},
                     {UINT64_MAX, 0, false, false, CAUSE_EXITED},
                     {0, 5000, true, false, CAUSE_NOT_READY}};

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                MainEnd end = exited(0);
                FIXTURE(f);

                f.app.settings.max_runtime_usec = cases[i].max_runtime_usec;
                f.app.settings.notify = cases[i].notify;
                run(&f, 1000);
                if (cases[i].stopped)
                        f.app.stop = STOP_REQUESTED;
                end.usec = cases[i].ended_usec;
                snprintf(end.result, sizeof(end.result), "timeout");
                ASSERT_TRUE(app_life_ended(&f.app, &end));
                ASSERT_EQ(f.app.status.cause, cases[i].cause);
                ASSERT_EQ(f.app.status.exit_status, 0);
        }
}

/* systemd could not start anything; it had nothing to start; or what it started never asked. */
TEST(apps_that_never_asked)
{
        const MainEnd failed = {.exit_status = -1, .result = "resources"}, none = {.exit_status = -1};
        const MainEnd dead = killed(SIGKILL, "signal");
        FIXTURE(f);

        ASSERT_FALSE(app_life_ended(&f.app, &none));
        ASSERT_FALSE(app_life_ended(&f.app, &(MainEnd){.exit_status = -1, .result = "success"}));
        ASSERT_EQ(f.app.status.state, APP_WAITING);
        ASSERT_TRUE(app_life_ended(&f.app, &failed));
        ASSERT_EQ(f.app.status.cause, CAUSE_NOT_STARTED);
        FIXTURE(g);
        ASSERT_TRUE(app_life_ended(&g.app, &dead));
        ASSERT_EQ(g.app.status.cause, CAUSE_SIGNAL);
}

TEST(handlers)
{
        LaunchEvent event = {.exit_status = 4, .identity = "1:2:3"};
        const MainEnd unknown = {.exit_status = -1, .result = "exit-code"}, end = exited(0);
        FIXTURE(f);

        f.image.pre_start = (char **) &(char *[]){(char *) "x", NULL};
        ASSERT_TRUE(app_life_is_first_phase(&f.app, LAUNCH_PRE_START));
        app_life_begin_phase(&f.app, LAUNCH_PRE_START);
        ASSERT_EQ(f.app.status.state, APP_PRE_START);
        app_life_pre_start_ended(&f.app, &event);
        ASSERT_TRUE(app_life_ended(&f.app, &unknown));
        ASSERT_EQ(f.app.status.cause, CAUSE_PRE_START);
        ASSERT_STREQ(f.app.status.message, "The pre-start handler exited with status 4");

        event.exit_status = 0;
        app_life_begin_phase(&f.app, LAUNCH_PRE_START);
        ASSERT_NULL(f.app.status.message);
        app_life_pre_start_ended(&f.app, &event);
        ASSERT_STREQ(f.app.status.identity, "1:2:3");
        run(&f, 1000);
        ASSERT_TRUE(f.app.status.pre_start.ran);
        app_life_main_ended(&f.app, &end);
        ASSERT_EQ(f.app.status.state, APP_POST_STOP);
        app_life_begin_phase(&f.app, LAUNCH_POST_STOP);
        event.exit_status = 9;
        app_life_post_stop_ended(&f.app, &event);
        ASSERT_TRUE(app_life_ended(&f.app, &unknown));
        ASSERT_EQ(f.app.status.cause, CAUSE_EXITED);
        ASSERT_EQ(f.app.status.exit_status, 0);
        ASSERT_EQ(f.app.status.post_stop.exit_status, 9);
}

/* Events that do not fit the state change nothing: whatever a process of the pod sends, and whenever. */
TEST(events_out_of_order)
{
        LaunchEvent event = {.exit_status = 4, .cause = CAUSE_SETUP, .message = "x", .identity = "1:2:3"};
        FIXTURE(f);

        app_life_pre_start_ended(&f.app, &event);
        app_life_post_stop_ended(&f.app, &event);
        ASSERT_EQ(app_life_checked(&f.app, &event), 0);
        ASSERT_EQ(f.app.status.state, APP_WAITING);
        ASSERT_EQ(f.app.status.cause, CAUSE_NONE);
        ASSERT_FALSE(f.app.status.pre_start.ran || f.app.status.post_stop.ran);
        ASSERT_EQ(app_life_checkable(&f.app), 0);
}

TEST(restarts)
{
        MainEnd end = exited(1);
        FIXTURE(f);

        f.app.settings.restart = RESTART_ALWAYS;
        f.app.settings.restart_usec = 100;
        f.app.settings.restart_max_usec = 1000;
        for (uint64_t n = 0; n < 5; n++) {
                ASSERT_TRUE(app_life_is_first_phase(&f.app, LAUNCH_DELAY));
                ASSERT_TRUE(app_life_is_first_phase(&f.app, LAUNCH_MAIN)); /* the unit has no delay */
                app_life_begin_phase(&f.app, LAUNCH_DELAY);
                ASSERT_EQ(app_life_delay(&f.app), n == 0 ? 0 : MIN(100U << (n - 1), 1000U) - 100);
                ASSERT_EQ(f.app.status.consecutive_starts, n);
                app_life_starts(&f.app);
                ASSERT_TRUE(f.app.status.restarting);
                ASSERT_FALSE(app_life_is_first_phase(&f.app, LAUNCH_MAIN));
                run(&f, 1000);
                ASSERT_EQ(f.app.status.consecutive_starts, n + 1);
                ASSERT_EQ(f.app.status.starts, n + 1);
                ASSERT_TRUE(app_life_ended(&f.app, &end));
                ASSERT_FALSE(f.app.status.restarting);
        }
        app_life_forget_starts(&f.app);
        ASSERT_EQ(app_life_delay(&f.app), 0);
        /* It is stopped while it waits: what is known of the last execution stays. */
        app_life_begin_phase(&f.app, LAUNCH_DELAY);
        end = killed(SIGTERM, "signal");
        ASSERT_TRUE(app_life_ended(&f.app, &end));
        ASSERT_EQ(f.app.status.cause, CAUSE_EXITED);
        ASSERT_EQ(f.app.status.exit_status, 1);
}

TEST(restarts_for_failed_checks)
{
        LaunchEvent bad = {.exit_status = 1, .counts = true, .message = ""}, good = {.message = ""};
        MainEnd end = killed(SIGTERM, "success");
        FIXTURE(f);

        f.app.settings.health.command = (char **) &(char *[]){(char *) "x", NULL};
        f.app.settings.health.retries = 1;
        f.app.settings.health.action = HEALTH_RESTART;
        f.app.settings.restart_usec = 100;
        f.app.settings.restart_max_usec = 1000;
        for (uint64_t n = 0; n < 7; n++) {
                uint64_t now = now_usec(CLOCK_REALTIME);
                /* The whole delay: systemd has not waited before. */
                ASSERT_TRUE(app_life_is_first_phase(&f.app, LAUNCH_DELAY));
                ASSERT_EQ(app_life_delay(&f.app), n == 0 ? 0 : MIN(100U << (n - 1), 1000U));
                app_life_starts(&f.app);
                /* The checks fail for longer than a run that lasts. */
                run(&f, now);
                ASSERT_EQ(app_life_checked(&f.app, &good), 0);
                app_life_ready(&f.app);
                bad.number = app_life_checkable(&f.app);
                ASSERT_EQ(app_life_checked(&f.app, &bad), 1);
                end.usec = now + 5 * RESTART_QUIET_USEC;
                ASSERT_TRUE(app_life_ended(&f.app, &end));
                ASSERT_EQ(f.app.status.cause, CAUSE_UNHEALTHY);
                ASSERT_EQ(f.app.status.consecutive_starts, n + 1);
        }
        /* It takes long to start, and is healthy for long enough. */
        app_life_starts(&f.app);
        run(&f, now_usec(CLOCK_REALTIME) - 2 * RESTART_QUIET_USEC);
        for (unsigned i = 0; i < 2; i++) {
                ASSERT_EQ(app_life_checked(&f.app, &good), 0);
                ASSERT_EQ(f.app.status.consecutive_starts, 8);
        }
        f.app.healthy_usec -= RESTART_QUIET_USEC;
        bad.number = 0;
        bad.counts = false;
        ASSERT_EQ(app_life_checked(&f.app, &bad), 0);
        ASSERT_EQ(app_life_checked(&f.app, &good), 0);
        ASSERT_EQ(f.app.status.consecutive_starts, 8);
        f.app.healthy_usec -= RESTART_QUIET_USEC;
        ASSERT_EQ(app_life_checked(&f.app, &good), 0);
        ASSERT_EQ(f.app.status.consecutive_starts, 1);
        /* It ends by itself: a call or a connection starts it again. */
        app_life_ready(&f.app);
        end = exited(1);
        ASSERT_TRUE(app_life_ended(&f.app, &end));
        ASSERT_EQ(app_life_delay(&f.app), 0);
}

TEST(readiness)
{
        MainEnd end = exited(0);
        FIXTURE(f);

        f.app.settings.notify = true;
        run(&f, 1000);
        ASSERT_EQ(f.app.status.readiness, READINESS_STARTING);
        snprintf(end.result, sizeof(end.result), "protocol");
        ASSERT_TRUE(app_life_ended(&f.app, &end));
        ASSERT_EQ(f.app.status.cause, CAUSE_NOT_READY);
        /* systemd has learnt of the end before the exec. */
        snprintf(end.result, sizeof(end.result), "success");
        run(&f, 1000);
        ASSERT_TRUE(app_life_ended(&f.app, &end));
        ASSERT_EQ(f.app.status.cause, CAUSE_NOT_READY);
        run(&f, 1000);
        f.app.stop = STOP_REQUESTED;
        ASSERT_TRUE(app_life_ended(&f.app, &end));
        ASSERT_EQ(f.app.status.cause, CAUSE_EXITED);
        /* What systemd says of it is not known. */
        end.result[0] = 0;
        run(&f, 1000);
        f.app.stop = STOP_REQUESTED;
        ASSERT_TRUE(app_life_ended(&f.app, &end));
        ASSERT_EQ(f.app.status.cause, CAUSE_EXITED);
        run(&f, 1000);
        ASSERT_EQ(f.app.stop, STOP_NONE);
        ASSERT_TRUE(app_life_ended(&f.app, &end));
        ASSERT_EQ(f.app.status.cause, CAUSE_NOT_READY);
        run(&f, 1000);
        app_life_ready(&f.app);
        ASSERT_TRUE(app_life_ended(&f.app, &end));
        ASSERT_EQ(f.app.status.cause, CAUSE_EXITED);
}

TEST(health)
{
        LaunchEvent bad = {.exit_status = 1, .counts = true, .message = "down"}, good = {.message = ""};
        MainEnd end = killed(SIGTERM, "success");
        FIXTURE(f);

        f.app.settings.health.command = (char **) &(char *[]){(char *) "x", NULL};
        f.app.settings.health.retries = 2;
        f.app.settings.health.action = HEALTH_KILL;
        run(&f, 1000);
        ASSERT_EQ(f.app.check, CHECK_STARTING);
        bad.counts = false;
        for (unsigned i = 0; i < 5; i++)
                ASSERT_EQ(app_life_checked(&f.app, &bad), 0);
        ASSERT_EQ(f.app.health.state, HEALTH_STARTING);
        ASSERT_EQ(app_life_checked(&f.app, &good), 0);
        ASSERT_EQ(f.app.health.state, HEALTH_HEALTHY);
        app_life_ready(&f.app);
        bad.counts = true;
        bad.number = app_life_checkable(&f.app) + 1; /* of another execution */
        ASSERT_EQ(app_life_checked(&f.app, &bad), 0);
        ASSERT_EQ(f.app.health.failures, 0);
        bad.number--;
        ASSERT_EQ(app_life_checked(&f.app, &bad), 0);
        ASSERT_EQ(app_life_checked(&f.app, &bad), 1);
        ASSERT_EQ(app_life_checked(&f.app, &bad), 0); /* it is done once */
        ASSERT_EQ(f.app.health.state, HEALTH_UNHEALTHY);
        ASSERT_TRUE(app_life_ended(&f.app, &end));
        ASSERT_EQ(f.app.status.cause, CAUSE_UNHEALTHY);
        ASSERT_STREQ(f.app.status.message, "Its health check failed too often; the check says: down");
}

/* The pod is killed: what ran is not known to have ended by itself. */
TEST(ends_of_the_pod)
{
        FIXTURE(f);
        FIXTURE(g);

        run(&f, 1000);
        app_life_finish(&f.app, NULL);
        ASSERT_EQ(f.app.status.cause, CAUSE_POD_KILLED);
        app_life_finish(&g.app, "It did not boot");
        ASSERT_EQ(g.app.status.cause, CAUSE_NOT_STARTED);
        ASSERT_STREQ(g.app.status.message, "It did not boot");
}

int main(void)
{
        RUN(a_life);
        RUN(an_end_that_is_faster_than_its_report);
        RUN(an_app_that_cannot_be_executed);
        RUN(reports_that_are_none);
        RUN(causes);
        RUN(a_success_before_a_timeout);
        RUN(apps_that_never_asked);
        RUN(handlers);
        RUN(events_out_of_order);
        RUN(restarts);
        RUN(restarts_for_failed_checks);
        RUN(readiness);
        RUN(health);
        RUN(ends_of_the_pod);
        return TEST_END();
}
