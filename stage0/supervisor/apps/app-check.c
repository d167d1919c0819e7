/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The state of the health check of an app, and when its action is requested.
 *
 * What is recorded of it (HealthStatus) follows from the state. A check that succeeds after the action was requested does not take it
 * back: the app is being ended. */

#include "stage0/supervisor/apps/app-check.h"
#include "stage0/supervisor/apps/app-table.h"
#include "stage0/supervisor/apps/state-table.h"

typedef enum CheckAction {
        IMPOSSIBLE, /* the event cannot occur in this state */
        ACT,
} CheckAction;

static const char *const states[_CHECK_STATE_MAX] = {
                [CHECK_NONE] = "none",           [CHECK_STARTING] = "starting", [CHECK_HEALTHY] = "healthy",
                [CHECK_UNHEALTHY] = "unhealthy", [CHECK_ACTS] = "acts",
};

static const char *const events[_CHECK_EVENT_MAX] = {
                [CHECKED_APP_BEGINS] = "app-begins", [CHECK_PASSED] = "passed",
                [CHECK_FAILED] = "failed",           [FAILED_TOO_OFTEN] = "failed-too-often",
                [ACTION_DUE] = "action-due",         [ACTION_FAILED] = "action-failed",
                [CHECKED_APP_GONE] = "app-gone",
};

static const StateTransition transitions[_CHECK_STATE_MAX][_CHECK_EVENT_MAX] = {
                [CHECK_NONE] = {[CHECKED_APP_BEGINS] = {CHECK_STARTING, STATE_ONLY},
                                [CHECKED_APP_GONE] = {CHECK_NONE, STATE_ONLY}},
                [CHECK_STARTING] = {[CHECKED_APP_BEGINS] = {CHECK_STARTING, STATE_ONLY},
                                    [CHECK_PASSED] = {CHECK_HEALTHY, STATE_ONLY},
                                    [CHECK_FAILED] = {CHECK_STARTING, STATE_ONLY},
                                    [FAILED_TOO_OFTEN] = {CHECK_UNHEALTHY, STATE_ONLY},
                                    [ACTION_DUE] = {CHECK_ACTS, ACT},
                                    [CHECKED_APP_GONE] = {CHECK_NONE, STATE_ONLY}},
                [CHECK_HEALTHY] = {[CHECKED_APP_BEGINS] = {CHECK_STARTING, STATE_ONLY},
                                   [CHECK_PASSED] = {CHECK_HEALTHY, STATE_ONLY},
                                   [CHECK_FAILED] = {CHECK_HEALTHY, STATE_ONLY},
                                   [FAILED_TOO_OFTEN] = {CHECK_UNHEALTHY, STATE_ONLY},
                                   [ACTION_DUE] = {CHECK_ACTS, ACT},
                                   [CHECKED_APP_GONE] = {CHECK_NONE, STATE_ONLY}},
                [CHECK_UNHEALTHY] = {[CHECKED_APP_BEGINS] = {CHECK_STARTING, STATE_ONLY},
                                     [CHECK_PASSED] = {CHECK_HEALTHY, STATE_ONLY},
                                     [CHECK_FAILED] = {CHECK_UNHEALTHY, STATE_ONLY},
                                     [FAILED_TOO_OFTEN] = {CHECK_UNHEALTHY, STATE_ONLY},
                                     [ACTION_DUE] = {CHECK_ACTS, ACT},
                                     [CHECKED_APP_GONE] = {CHECK_NONE, STATE_ONLY}},
                [CHECK_ACTS] = {[CHECKED_APP_BEGINS] = {CHECK_STARTING, STATE_ONLY},
                                [CHECK_PASSED] = {CHECK_ACTS, STATE_ONLY},
                                [CHECK_FAILED] = {CHECK_ACTS, STATE_ONLY},
                                [ACTION_DUE] = {CHECK_ACTS, STATE_ONLY},
                                [ACTION_FAILED] = {CHECK_UNHEALTHY, STATE_ONLY},
                                [CHECKED_APP_GONE] = {CHECK_NONE, STATE_ONLY}},
};

static const StateTable table = STATE_TABLE("check", states, events, transitions);

static const struct {
        HealthState state;
        bool acts;
} recorded[_CHECK_STATE_MAX] = {
                [CHECK_NONE] = {HEALTH_STARTING, false},   [CHECK_STARTING] = {HEALTH_STARTING, false},
                [CHECK_HEALTHY] = {HEALTH_HEALTHY, false}, [CHECK_UNHEALTHY] = {HEALTH_UNHEALTHY, false},
                [CHECK_ACTS] = {HEALTH_UNHEALTHY, true},
};

bool app_check_handle(AppInstance *a, CheckEvent event)
{
        const StateTransition *t = state_table_find(&table, a->check, event);

        if (!t)
                return false;
        a->check = t->to;
        a->health.state = recorded[a->check].state;
        a->health.action_sent = recorded[a->check].acts;
        return t->action == ACT;
}
