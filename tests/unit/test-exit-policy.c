/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the end of an app means for the pod, for every exit policy. */

#include "stage0/supervisor/apps/app-table.h"
#include "stage0/host/host.h"

#include "tests/unit/test.h"

static AppInstance web = {.name = "web"}, db = {.name = "db"};

/* Two apps, the second of which connections start. */
static void make(PodUnit units[static 3])
{
        units[0] = (PodUnit){.name = (char *) "app-web.service", .app = &web, .kind = POD_UNIT_APP};
        units[1] = (PodUnit){.name = (char *) "app-db.service", .app = &db, .kind = POD_UNIT_APP_ON_DEMAND};
        units[2] = (PodUnit){.app = &db, .kind = POD_UNIT_SOCKETS, .life = UNIT_UP, .known = true};
}

static void set(PodUnit units[static 3], UnitLife a, UnitLife b, UnitLife c)
{
        const UnitLife lives[] = {a, b, c};

        for (size_t i = 0; i < ELEMENTSOF(lives); i++)
                pod_unit_set(&units[i], lives[i]);
}

static PodEnd judge_unit(ExitPolicy policy, PodUnit *units, const PodUnit **ret)
{
        PodUnit *const list[] = {&units[0], &units[1], &units[2]};

        return exit_policy_judge(policy, list, ELEMENTSOF(list), ret);
}

static PodEnd judge(ExitPolicy policy, PodUnit *units)
{
        const PodUnit *unit = NULL;

        return judge_unit(policy, units, &unit);
}

TEST(lives_of_units)
{
        static const struct {
                const char *active, *sub;
                uint32_t job;
                UnitLife life;
        } cases[] = {
                        {"active", "running", 0, UNIT_UP},
                        {"activating", "start-pre", 0, UNIT_UP},
                        {"activating", "auto-restart", 0, UNIT_UP},
                        {"deactivating", "stop-post", 0, UNIT_UP},
                        {"reloading", "reload", 0, UNIT_UP},
                        {"inactive", "dead", 0, UNIT_DOWN},
                        {"inactive", "dead", 7, UNIT_UP},
                        {"failed", "failed", 7, UNIT_UP},
                        {"failed", "failed", 0, UNIT_FAILED},
                        {"failed", "failed-before-auto-restart", 0, UNIT_UP},
                        {"inactive", "dead-before-auto-restart", 0, UNIT_UP},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++)
                ASSERT_EQ(unit_life(cases[i].active, cases[i].sub, cases[i].job), cases[i].life);
}

/* No process of the app is left, whatever comes next. */
TEST(states_at_rest)
{
        static const char *const rest[] = {"dead",
                                           "failed",
                                           "auto-restart",
                                           "auto-restart-queued",
                                           "dead-before-auto-restart",
                                           "failed-before-auto-restart"},
                                 *const others[] = {"",
                                                    "condition",
                                                    "start-pre",
                                                    "start",
                                                    "start-post",
                                                    "running",
                                                    "exited",
                                                    "reload",
                                                    "stop",
                                                    "stop-watchdog",
                                                    "stop-sigterm",
                                                    "stop-sigkill",
                                                    "stop-post",
                                                    "final-sigterm",
                                                    "final-watchdog",
                                                    "final-sigkill",
                                                    "cleaning",
                                                    "dead-resources-pinned"};

        for (size_t i = 0; i < ELEMENTSOF(rest); i++)
                ASSERT_TRUE(unit_is_at_rest(rest[i]));
        for (size_t i = 0; i < ELEMENTSOF(others); i++)
                ASSERT_FALSE(unit_is_at_rest(others[i]));
}

/* It may be down, and fail, on the way. */
TEST(an_app_that_is_replaced_counts_as_up)
{
        PodUnit units[3];

        for (ExitPolicy p = 0; p < _EXIT_POLICY_MAX; p++) {
                make(units);
                set(units, UNIT_UP, UNIT_DOWN, UNIT_DOWN);
                units[0].held = true;
                pod_unit_set(&units[0], UNIT_FAILED);
                ASSERT_EQ(judge(p, units), POD_GOES_ON);
                pod_unit_set(&units[0], UNIT_DOWN);
                ASSERT_EQ(judge(p, units), POD_GOES_ON);
                units[0].held = false;
                ASSERT_TRUE(p == EXIT_NEVER || judge(p, units) != POD_GOES_ON);
        }
}

TEST(an_app_that_is_transient_keeps_the_pod_up_and_has_no_other_effect)
{
        PodUnit units[3];

        for (ExitPolicy p = 0; p < _EXIT_POLICY_MAX; p++) {
                make(units);
                units[0].transient = true;
                set(units, UNIT_UP, UNIT_UP, UNIT_DOWN);
                pod_unit_set(&units[0], UNIT_FAILED);
                ASSERT_EQ(judge(p, units), POD_GOES_ON);
                pod_unit_set(&units[0], UNIT_UP);
                pod_unit_set(&units[1], UNIT_DOWN);
                ASSERT_EQ(judge(p, units) == POD_GOES_ON, p != EXIT_ON_ANY);
                pod_unit_set(&units[0], UNIT_DOWN);
                ASSERT_EQ(judge(p, units) == POD_GOES_ON, p == EXIT_NEVER);
        }
}

TEST(nothing_ends_before_all_units_are_known)
{
        PodUnit units[3];

        make(units);
        ASSERT_EQ(judge(EXIT_ON_ANY, units), POD_GOES_ON);
        pod_unit_set(&units[0], UNIT_FAILED);
        ASSERT_EQ(judge(EXIT_ON_ANY, units), POD_GOES_ON);
        pod_unit_set(&units[1], UNIT_DOWN);
        ASSERT_EQ(judge(EXIT_ON_ANY, units), POD_END_APP_FAILED);
}

TEST(policies)
{
        static const struct {
                UnitLife app, on_demand, socket;
                PodEnd ends[_EXIT_POLICY_MAX]; /* after both apps were up */
        } cases[] = {
                        {UNIT_UP, UNIT_UP, UNIT_UP, {POD_GOES_ON, POD_GOES_ON, POD_GOES_ON}},
                        {UNIT_FAILED,
                         UNIT_UP,
                         UNIT_UP,
                         {POD_END_APP_FAILED, POD_GOES_ON, POD_END_APP_FAILED}},
                        {UNIT_DOWN, UNIT_UP, UNIT_UP, {POD_GOES_ON, POD_GOES_ON, POD_END_APP_ENDED}},
                        {UNIT_UP, UNIT_DOWN, UNIT_UP, {POD_GOES_ON, POD_GOES_ON, POD_END_APP_ENDED}},
                        {UNIT_UP,
                         UNIT_FAILED,
                         UNIT_UP,
                         {POD_END_APP_FAILED, POD_GOES_ON, POD_END_APP_FAILED}},
                        {UNIT_DOWN, UNIT_DOWN, UNIT_UP, {POD_GOES_ON, POD_GOES_ON, POD_END_APP_ENDED}},
                        {UNIT_DOWN,
                         UNIT_DOWN,
                         UNIT_DOWN,
                         {POD_END_NOTHING_RUNS, POD_END_NOTHING_RUNS, POD_END_APP_ENDED}},
                        {UNIT_FAILED,
                         UNIT_FAILED,
                         UNIT_DOWN,
                         {POD_END_APP_FAILED, POD_END_NOTHING_RUNS, POD_END_APP_FAILED}},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++)
                for (ExitPolicy p = 0; p < _EXIT_POLICY_MAX; p++) {
                        PodUnit units[3];

                        make(units);
                        set(units, UNIT_UP, UNIT_UP, UNIT_UP);
                        set(units, cases[i].app, cases[i].on_demand, cases[i].socket);
                        ASSERT_EQ(judge(p, units), cases[i].ends[p == EXIT_ON_TASKS ? EXIT_ON_ALL : p]);
                }
}

/* A service that is inactive at the first query has ended; a socket-activated one has not started. */
TEST(ends_before_the_first_look)
{
        PodUnit units[3];

        make(units);
        set(units, UNIT_DOWN, UNIT_DOWN, UNIT_UP);
        ASSERT_EQ(judge(EXIT_ON_FAILURE, units), POD_GOES_ON);
        ASSERT_EQ(judge(EXIT_ON_ANY, units), POD_END_APP_ENDED);
        set(units, UNIT_UP, UNIT_DOWN, UNIT_UP);
        ASSERT_EQ(judge(EXIT_ON_ANY, units), POD_GOES_ON);
}

/* Under every policy by which apps end the pod: nothing can start the app any more. */
TEST(apps_that_are_given_up_end_the_pod)
{
        for (ExitPolicy p = 0; p < _EXIT_POLICY_MAX; p++) {
                const PodUnit *unit = NULL;

                PodUnit units[3];

                if (p == EXIT_NEVER)
                        continue;
                make(units);
                set(units, UNIT_UP, UNIT_UP, UNIT_UP);
                ASSERT_EQ(judge(p, units), POD_GOES_ON);
                units[2].life = UNIT_FAILED;
                ASSERT_EQ(judge_unit(p, units, &unit), POD_END_APP_GIVEN_UP);
                ASSERT_STREQ(unit->app->name, "db");
        }
}

/* An app that was stopped because it is unhealthy has failed; when it is started again that is forgotten. */
TEST(unsound_apps)
{
        PodUnit units[3];

        make(units);
        set(units, UNIT_UP, UNIT_DOWN, UNIT_UP);
        units[0].unsound = true;
        ASSERT_EQ(judge(EXIT_ON_FAILURE, units), POD_GOES_ON);
        pod_unit_set(&units[0], UNIT_DOWN);
        ASSERT_EQ(judge(EXIT_ON_FAILURE, units), POD_END_APP_FAILED);
        ASSERT_EQ(judge(EXIT_ON_ALL, units), POD_GOES_ON);
        pod_unit_set(&units[0], UNIT_UP);
        pod_unit_set(&units[0], UNIT_DOWN);
        ASSERT_EQ(judge(EXIT_ON_FAILURE, units), POD_GOES_ON);
}

/* All states of apps: every combination of the states of the three units. */
TEST(a_pod_that_never_ends_by_its_apps)
{
        static const UnitLife lives[] = {UNIT_UP, UNIT_DOWN, UNIT_FAILED};
        const PodUnit *unit = &(const PodUnit){};

        ASSERT_EQ(exit_policy_judge(EXIT_NEVER, NULL, 0, &unit), POD_GOES_ON);
        ASSERT_NULL(unit);
        for (unsigned i = 0; i < 3 * 3 * 3; i++) {
                PodUnit units[3];

                make(units);
                set(units, UNIT_UP, UNIT_UP, UNIT_UP);
                units[0].unsound = i % 2;
                set(units, lives[i % 3], lives[i / 3 % 3], lives[i / 9]);
                ASSERT_EQ(judge(EXIT_NEVER, units), POD_GOES_ON);
        }
}

/* Without apps the other policies have nothing to wait for. */
TEST(no_apps)
{
        const PodUnit *unit = NULL;

        for (ExitPolicy p = 0; p < _EXIT_POLICY_MAX; p++)
                ASSERT_EQ(exit_policy_judge(p, NULL, 0, &unit),
                          exit_policy_is_open(p) ? POD_GOES_ON : POD_END_NOTHING_RUNS);
}

/* Under policies by which apps end the pod, its status is that of an app; otherwise it depends on how the
 * pod itself has ended. */
TEST(exit_statuses)
{
        const AppStatus good = {.state = APP_ENDED, .cause = CAUSE_EXITED, .ended_usec = 1},
                        bad = {.state = APP_ENDED, .cause = CAUSE_EXITED, .exit_status = 3, .ended_usec = 2},
                        worse = {.state = APP_ENDED, .cause = CAUSE_SIGNAL, .signal = 9, .ended_usec = 3};
        const AppStatus all[] = {worse, bad, good};

        for (int in_order = 0; in_order < 2; in_order++) {
                ASSERT_EQ(pod_exit_status(EXIT_ON_FAILURE, in_order, all, 3), 3);
                ASSERT_EQ(pod_exit_status(EXIT_ON_ALL, in_order, all, 3), 3);
                ASSERT_EQ(pod_exit_status(EXIT_ON_ANY, in_order, all, 3), 0);
                ASSERT_EQ(pod_exit_status(EXIT_ON_ANY, in_order, all, 2), 3);
        }
        for (size_t n = 0; n <= 3; n++) {
                ASSERT_EQ(pod_exit_status(EXIT_NEVER, true, all, n), 0);
                ASSERT_EQ(pod_exit_status(EXIT_NEVER, false, all, n), POD_KILLED_STATUS);
        }
}

/* A pod that begins without apps, and ends with the last of those that it is given. */
TEST(a_pod_that_ends_with_its_tasks)
{
        PodUnit units[3];

        make(units);
        ASSERT_EQ(exit_policy_judge(EXIT_ON_TASKS, NULL, 0, &(const PodUnit *){NULL}), POD_GOES_ON);
        set(units, UNIT_DOWN, UNIT_DOWN, UNIT_DOWN);
        units[0].was_up = units[1].was_up = false; /* none has started */
        ASSERT_EQ(judge(EXIT_ON_TASKS, units), POD_GOES_ON);
        set(units, UNIT_UP, UNIT_DOWN, UNIT_DOWN);
        ASSERT_EQ(judge(EXIT_ON_TASKS, units), POD_GOES_ON);
        set(units, UNIT_FAILED, UNIT_UP, UNIT_DOWN);
        ASSERT_EQ(judge(EXIT_ON_TASKS, units), POD_GOES_ON);
        set(units, UNIT_FAILED, UNIT_DOWN, UNIT_DOWN);
        ASSERT_EQ(judge(EXIT_ON_TASKS, units), POD_END_NOTHING_RUNS);
}

int main(void)
{
        RUN(lives_of_units);
        RUN(states_at_rest);
        RUN(an_app_that_is_replaced_counts_as_up);
        RUN(an_app_that_is_transient_keeps_the_pod_up_and_has_no_other_effect);
        RUN(nothing_ends_before_all_units_are_known);
        RUN(policies);
        RUN(ends_before_the_first_look);
        RUN(apps_that_are_given_up_end_the_pod);
        RUN(unsound_apps);
        RUN(a_pod_that_never_ends_by_its_apps);
        RUN(no_apps);
        RUN(a_pod_that_ends_with_its_tasks);
        RUN(exit_statuses);
        return TEST_END();
}
