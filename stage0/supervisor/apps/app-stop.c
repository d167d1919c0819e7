/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Why an app is being stopped, or was.
 *
 * The last request counts, but the end of the pod is no reason for an app that was to stop before, and a signal is none for one that is being
 * stopped. The reason lasts until the app begins anew. */

#include "stage0/supervisor/apps/app-stop.h"
#include "stage0/supervisor/apps/app-table.h"
#include "stage0/supervisor/apps/state-table.h"

static const char *const states[_STOP_REASON_MAX] = {
                [STOP_NONE] = "none",
                [STOP_TO_RESTART] = "to-restart",
                [STOP_TO_CHANGE] = "to-change",
                [STOP_REQUESTED] = "requested",
                [STOP_KILLED] = "killed",
                [STOP_PARENT_ENDED] = "parent-ended",
                [STOP_GROUP_FAILED] = "group-failed",
                [STOP_POD_ENDED] = "pod-ended",
};

static const char *const events[_STOP_EVENT_MAX] = {
                [FATE_GROUP_FAILED] = "group-failed",
                [APP_BEGINS_ANEW] = "begins-anew",
                [APP_RESTARTS] = "restarts",
                [NOT_RESTARTED] = "not-restarted",
                [STOP_ASKED] = "asked",
                [STOP_FAILED] = "failed",
                [KILL_SENT] = "kill-sent",
                [POD_IS_ENDED] = "pod-ends",
                [PARENT_ENDS] = "parent-ends",
                [CHANGE_STOPS] = "change-stops",
};

/* A pod that ends is not judged, so no group spreads its fate. */
static const StateTransition transitions[_STOP_REASON_MAX][_STOP_EVENT_MAX] = {
                [STOP_NONE] = {[APP_BEGINS_ANEW] = {STOP_NONE, STATE_ONLY},
                               [APP_RESTARTS] = {STOP_TO_RESTART, STATE_ONLY},
                               [NOT_RESTARTED] = {STOP_NONE, STATE_ONLY},
                               [STOP_ASKED] = {STOP_REQUESTED, STATE_ONLY},
                               [STOP_FAILED] = {STOP_NONE, STATE_ONLY},
                               [KILL_SENT] = {STOP_KILLED, STATE_ONLY},
                               [POD_IS_ENDED] = {STOP_POD_ENDED, STATE_ONLY},
                               [PARENT_ENDS] = {STOP_PARENT_ENDED, STATE_ONLY},
                               [FATE_GROUP_FAILED] = {STOP_GROUP_FAILED, STATE_ONLY},
                               [CHANGE_STOPS] = {STOP_TO_CHANGE, STATE_ONLY}},
                [STOP_TO_RESTART] = {[APP_BEGINS_ANEW] = {STOP_NONE, STATE_ONLY},
                                     [APP_RESTARTS] = {STOP_TO_RESTART, STATE_ONLY},
                                     [NOT_RESTARTED] = {STOP_NONE, STATE_ONLY},
                                     [STOP_ASKED] = {STOP_REQUESTED, STATE_ONLY},
                                     [STOP_FAILED] = {STOP_TO_RESTART, STATE_ONLY},
                                     [KILL_SENT] = {STOP_TO_RESTART, STATE_ONLY},
                                     [POD_IS_ENDED] = {STOP_TO_RESTART, STATE_ONLY},
                                     [PARENT_ENDS] = {STOP_PARENT_ENDED, STATE_ONLY},
                                     [FATE_GROUP_FAILED] = {STOP_GROUP_FAILED, STATE_ONLY},
                                     [CHANGE_STOPS] = {STOP_TO_CHANGE, STATE_ONLY}},
                [STOP_TO_CHANGE] = {[APP_BEGINS_ANEW] = {STOP_NONE, STATE_ONLY},
                                    [APP_RESTARTS] = {STOP_TO_RESTART, STATE_ONLY},
                                    [NOT_RESTARTED] = {STOP_TO_CHANGE, STATE_ONLY},
                                    [STOP_ASKED] = {STOP_REQUESTED, STATE_ONLY},
                                    [STOP_FAILED] = {STOP_NONE, STATE_ONLY},
                                    [KILL_SENT] = {STOP_TO_CHANGE, STATE_ONLY},
                                    [POD_IS_ENDED] = {STOP_TO_CHANGE, STATE_ONLY},
                                    [PARENT_ENDS] = {STOP_PARENT_ENDED, STATE_ONLY},
                                    [FATE_GROUP_FAILED] = {STOP_GROUP_FAILED, STATE_ONLY},
                                    [CHANGE_STOPS] = {STOP_TO_CHANGE, STATE_ONLY}},
                [STOP_REQUESTED] = {[APP_BEGINS_ANEW] = {STOP_NONE, STATE_ONLY},
                                    [APP_RESTARTS] = {STOP_TO_RESTART, STATE_ONLY},
                                    [NOT_RESTARTED] = {STOP_REQUESTED, STATE_ONLY},
                                    [STOP_ASKED] = {STOP_REQUESTED, STATE_ONLY},
                                    [STOP_FAILED] = {STOP_NONE, STATE_ONLY},
                                    [KILL_SENT] = {STOP_REQUESTED, STATE_ONLY},
                                    [POD_IS_ENDED] = {STOP_REQUESTED, STATE_ONLY},
                                    [PARENT_ENDS] = {STOP_PARENT_ENDED, STATE_ONLY},
                                    [FATE_GROUP_FAILED] = {STOP_GROUP_FAILED, STATE_ONLY},
                                    [CHANGE_STOPS] = {STOP_TO_CHANGE, STATE_ONLY}},
                [STOP_KILLED] = {[APP_BEGINS_ANEW] = {STOP_NONE, STATE_ONLY},
                                 [APP_RESTARTS] = {STOP_TO_RESTART, STATE_ONLY},
                                 [NOT_RESTARTED] = {STOP_KILLED, STATE_ONLY},
                                 [STOP_ASKED] = {STOP_REQUESTED, STATE_ONLY},
                                 [STOP_FAILED] = {STOP_KILLED, STATE_ONLY},
                                 [KILL_SENT] = {STOP_KILLED, STATE_ONLY},
                                 [POD_IS_ENDED] = {STOP_KILLED, STATE_ONLY},
                                 [PARENT_ENDS] = {STOP_PARENT_ENDED, STATE_ONLY},
                                 [FATE_GROUP_FAILED] = {STOP_GROUP_FAILED, STATE_ONLY},
                                 [CHANGE_STOPS] = {STOP_TO_CHANGE, STATE_ONLY}},
                [STOP_PARENT_ENDED] = {[APP_BEGINS_ANEW] = {STOP_NONE, STATE_ONLY},
                                       [APP_RESTARTS] = {STOP_TO_RESTART, STATE_ONLY},
                                       [NOT_RESTARTED] = {STOP_PARENT_ENDED, STATE_ONLY},
                                       [STOP_ASKED] = {STOP_REQUESTED, STATE_ONLY},
                                       [STOP_FAILED] = {STOP_PARENT_ENDED, STATE_ONLY},
                                       [KILL_SENT] = {STOP_PARENT_ENDED, STATE_ONLY},
                                       [POD_IS_ENDED] = {STOP_PARENT_ENDED, STATE_ONLY},
                                       [PARENT_ENDS] = {STOP_PARENT_ENDED, STATE_ONLY},
                                       [FATE_GROUP_FAILED] = {STOP_GROUP_FAILED, STATE_ONLY},
                                       [CHANGE_STOPS] = {STOP_TO_CHANGE, STATE_ONLY}},
                [STOP_GROUP_FAILED] = {[APP_BEGINS_ANEW] = {STOP_NONE, STATE_ONLY},
                                       [APP_RESTARTS] = {STOP_TO_RESTART, STATE_ONLY},
                                       [NOT_RESTARTED] = {STOP_GROUP_FAILED, STATE_ONLY},
                                       [STOP_ASKED] = {STOP_REQUESTED, STATE_ONLY},
                                       [STOP_FAILED] = {STOP_GROUP_FAILED, STATE_ONLY},
                                       [KILL_SENT] = {STOP_GROUP_FAILED, STATE_ONLY},
                                       [POD_IS_ENDED] = {STOP_GROUP_FAILED, STATE_ONLY},
                                       [PARENT_ENDS] = {STOP_PARENT_ENDED, STATE_ONLY},
                                       [FATE_GROUP_FAILED] = {STOP_GROUP_FAILED, STATE_ONLY},
                                       [CHANGE_STOPS] = {STOP_TO_CHANGE, STATE_ONLY}},
                [STOP_POD_ENDED] = {[APP_BEGINS_ANEW] = {STOP_NONE, STATE_ONLY},
                                    [APP_RESTARTS] = {STOP_TO_RESTART, STATE_ONLY},
                                    [NOT_RESTARTED] = {STOP_POD_ENDED, STATE_ONLY},
                                    [STOP_ASKED] = {STOP_REQUESTED, STATE_ONLY},
                                    [STOP_FAILED] = {STOP_POD_ENDED, STATE_ONLY},
                                    [KILL_SENT] = {STOP_POD_ENDED, STATE_ONLY},
                                    [POD_IS_ENDED] = {STOP_POD_ENDED, STATE_ONLY},
                                    [PARENT_ENDS] = {STOP_POD_ENDED, STATE_ONLY},
                                    [CHANGE_STOPS] = {STOP_TO_CHANGE, STATE_ONLY}},
};

static const StateTable table = STATE_TABLE("stop", states, events, transitions);

void app_stop_handle(AppInstance *a, StopEvent event)
{
        const StateTransition *t = state_table_find(&table, a->stop, event);

        if (t)
                a->stop = t->to;
}
