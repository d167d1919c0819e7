/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How far an execution of an app is, as launchers and the pod's systemd tell it. What is recorded of it is in the app's status
 * (app-life.c).
 *
 * A launcher's report may come after the end of the execution, which systemd has told. */

#include "stage0/supervisor/apps/app-run.h"
#include "stage0/supervisor/apps/app-table.h"
#include "stage0/supervisor/apps/state-table.h"

static const char *const states[_APP_RUN_MAX] = {
                [APP_RUN_NONE] = "none",         [APP_RUN_DELAYED] = "delayed",   [APP_RUN_BEGUN] = "begun",
                [APP_RUN_EXECUTED] = "executed", [APP_RUN_GIVEN_UP] = "given-up",
};

static const char *const events[_RUN_EVENT_MAX] = {
                [RUN_ASKED_FOR] = "asked-for",
                [RUN_DELAY_BEGINS] = "delay-begins",
                [RUN_DELAY_ENDS] = "delay-ends",
                [RUN_IS_EXECUTED] = "executed",
                [RUN_IS_NOT_EXECUTED] = "not-executed",
                [RUN_IS_GIVEN_UP] = "given-up",
                [RUN_ENDED] = "ended",
};

static const StateTransition transitions[_APP_RUN_MAX][_RUN_EVENT_MAX] = {
                [APP_RUN_NONE] = {[RUN_ASKED_FOR] = {APP_RUN_BEGUN, STATE_ONLY},
                                  [RUN_DELAY_ENDS] = {APP_RUN_NONE, STATE_ONLY},
                                  [RUN_IS_EXECUTED] = {APP_RUN_NONE, STATE_ONLY},
                                  [RUN_IS_NOT_EXECUTED] = {APP_RUN_NONE, STATE_ONLY},
                                  [RUN_IS_GIVEN_UP] = {APP_RUN_NONE, STATE_ONLY},
                                  [RUN_ENDED] = {APP_RUN_NONE, STATE_ONLY}},
                [APP_RUN_DELAYED] = {[RUN_ASKED_FOR] = {APP_RUN_BEGUN, STATE_ONLY},
                                     [RUN_DELAY_BEGINS] = {APP_RUN_DELAYED, STATE_ONLY},
                                     [RUN_DELAY_ENDS] = {APP_RUN_BEGUN, STATE_ONLY},
                                     [RUN_IS_EXECUTED] = {APP_RUN_EXECUTED, STATE_ONLY},
                                     [RUN_IS_NOT_EXECUTED] = {APP_RUN_DELAYED, STATE_ONLY},
                                     [RUN_IS_GIVEN_UP] = {APP_RUN_GIVEN_UP, STATE_ONLY},
                                     [RUN_ENDED] = {APP_RUN_NONE, STATE_ONLY}},
                [APP_RUN_BEGUN] = {[RUN_ASKED_FOR] = {APP_RUN_BEGUN, STATE_ONLY},
                                   [RUN_DELAY_BEGINS] = {APP_RUN_DELAYED, STATE_ONLY},
                                   [RUN_DELAY_ENDS] = {APP_RUN_BEGUN, STATE_ONLY},
                                   [RUN_IS_EXECUTED] = {APP_RUN_EXECUTED, STATE_ONLY},
                                   [RUN_IS_NOT_EXECUTED] = {APP_RUN_BEGUN, STATE_ONLY},
                                   [RUN_IS_GIVEN_UP] = {APP_RUN_GIVEN_UP, STATE_ONLY},
                                   [RUN_ENDED] = {APP_RUN_NONE, STATE_ONLY}},
                [APP_RUN_EXECUTED] = {[RUN_ASKED_FOR] = {APP_RUN_BEGUN, STATE_ONLY},
                                      [RUN_DELAY_ENDS] = {APP_RUN_EXECUTED, STATE_ONLY},
                                      [RUN_IS_EXECUTED] = {APP_RUN_EXECUTED, STATE_ONLY},
                                      [RUN_IS_NOT_EXECUTED] = {APP_RUN_BEGUN, STATE_ONLY},
                                      [RUN_IS_GIVEN_UP] = {APP_RUN_GIVEN_UP, STATE_ONLY},
                                      [RUN_ENDED] = {APP_RUN_NONE, STATE_ONLY}},
                [APP_RUN_GIVEN_UP] = {[RUN_ASKED_FOR] = {APP_RUN_GIVEN_UP, STATE_ONLY},
                                      [RUN_DELAY_BEGINS] = {APP_RUN_GIVEN_UP, STATE_ONLY},
                                      [RUN_DELAY_ENDS] = {APP_RUN_GIVEN_UP, STATE_ONLY},
                                      [RUN_IS_EXECUTED] = {APP_RUN_GIVEN_UP, STATE_ONLY},
                                      [RUN_IS_NOT_EXECUTED] = {APP_RUN_GIVEN_UP, STATE_ONLY},
                                      [RUN_IS_GIVEN_UP] = {APP_RUN_GIVEN_UP, STATE_ONLY},
                                      [RUN_ENDED] = {APP_RUN_NONE, STATE_ONLY}},
};

static const StateTable table = STATE_TABLE("run", states, events, transitions);

void app_run_handle(AppInstance *a, RunEvent event)
{
        const StateTransition *t = state_table_find(&table, a->run, event);

        if (t)
                a->run = t->to;
}
