/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Apps as tasks. */

#include "stage0/supervisor/apps/task-state.h"

#include "tests/unit/test.h"

TEST(states)
{
        static const struct {
                const char *state, *stopped, *task, *reason;
                AppStatus status;
        } cases[] = {
                        {"created", NULL, "STAGING", NULL, {}},
                        {"starting", NULL, "STARTING", NULL, {}},
                        {"running", NULL, "RUNNING", NULL, {.state = APP_RUNNING}},
                        {"running", NULL, "STARTING", NULL, {.readiness = READINESS_STARTING}},
                        {"running", NULL, "RUNNING", NULL, {.readiness = READINESS_READY}},
                        {"stopping", "requested", "RUNNING", NULL, {.state = APP_RUNNING}},
                        {"exited", NULL, "FINISHED", NULL, {.cause = CAUSE_EXITED}},
                        {"exited", NULL, "FAILED", "exited", {.cause = CAUSE_EXITED, .exit_status = 3}},
                        {"exited",
                         NULL,
                         "FAILED",
                         "signal",
                         {.cause = CAUSE_SIGNAL, .exit_status = -1, .signal = 11}},
                        {"exited",
                         NULL,
                         "FAILED",
                         "oom-kill",
                         {.cause = CAUSE_OOM_KILL, .exit_status = -1, .signal = 9}},
                        {"exited", NULL, "FAILED", "unhealthy", {.cause = CAUSE_UNHEALTHY}},
                        {"exited", NULL, "FAILED", "setup-failed", {.cause = CAUSE_SETUP}},
                        {"exited", "requested", "KILLED", "requested", {.cause = CAUSE_EXITED}},
                        {"exited",
                         "parent-ended",
                         "KILLED",
                         "parent-ended",
                         {.cause = CAUSE_SIGNAL, .signal = 15}},
                        {"exited", NULL, "LOST", "pod-killed", {.cause = CAUSE_POD_KILLED}},
                        {"exited", NULL, "LOST", "host-rebooted", {.cause = CAUSE_HOST_REBOOTED}},
                        {"exited", NULL, "LOST", "not-started", {.cause = CAUSE_NOT_STARTED}},
                        {"exited", NULL, "LOST", "unknown", {}},
                        {"removing", NULL, NULL, NULL, {}},
                        {"removed", "requested", NULL, NULL, {}},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                const char *reason = "unset",
                           *task = task_state(cases[i].state, &cases[i].status, cases[i].stopped, &reason);
                ASSERT_TRUE(streq_ptr(task, cases[i].task));
                if (!streq_ptr(reason, cases[i].reason))
                        TEST_FAIL("case %zu has the reason %s", i, reason ?: "none");
        }
}

int main(void)
{
        RUN(states);
        return TEST_END();
}
