/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Whether an app is a part of its pod, and what changes that.
 *
 * While it is added, launched or replaced it counts as up for the exit policy. */

#include "stage0/supervisor/apps/app-place.h"
#include "stage0/supervisor/apps/app-table.h"
#include "stage0/supervisor/apps/state-table.h"

typedef enum PlaceAction {
        IMPOSSIBLE, /* the event cannot occur in this state */
        HOLD,       /* for the exit policy it is up */
        RELEASE,
} PlaceAction;

static const char *const states[_APP_PLACE_MAX] = {
                [PLACE_THERE] = "there",         [PLACE_ADDING] = "adding",
                [PLACE_LAUNCHING] = "launching", [PLACE_REPLACING] = "replacing",
                [PLACE_REMOVING] = "removing",   [PLACE_REMOVED] = "removed",
};

static const char *const events[_PLACE_EVENT_MAX] = {
                [PLACE_IS_ADDED] = "is-added",       [PLACE_IS_LAUNCHED] = "is-launched",
                [PLACE_IS_REPLACED] = "is-replaced", [PLACE_IS_SETTLED] = "is-settled",
                [PLACE_IS_LEFT] = "is-left",         [PLACE_IS_FREE] = "is-free",
};

static const StateTransition transitions[_APP_PLACE_MAX][_PLACE_EVENT_MAX] = {
                [PLACE_THERE] = {[PLACE_IS_ADDED] = {PLACE_ADDING, HOLD},
                                 [PLACE_IS_LAUNCHED] = {PLACE_LAUNCHING, HOLD},
                                 [PLACE_IS_REPLACED] = {PLACE_REPLACING, HOLD},
                                 [PLACE_IS_LEFT] = {PLACE_REMOVING, STATE_ONLY}},
                [PLACE_ADDING] = {[PLACE_IS_SETTLED] = {PLACE_THERE, RELEASE}},
                [PLACE_LAUNCHING] = {[PLACE_IS_SETTLED] = {PLACE_THERE, RELEASE},
                                     [PLACE_IS_FREE] = {PLACE_REMOVED, STATE_ONLY}},
                [PLACE_REPLACING] = {[PLACE_IS_REPLACED] = {PLACE_REPLACING, HOLD},
                                     [PLACE_IS_SETTLED] = {PLACE_THERE, RELEASE}},
                [PLACE_REMOVING] = {[PLACE_IS_FREE] = {PLACE_REMOVED, STATE_ONLY}},
};

static const StateTable table = STATE_TABLE("place", states, events, transitions);

void app_place_handle(AppInstance *a, PlaceEvent event)
{
        const StateTransition *t = state_table_find(&table, a->place, event);

        if (!t) {
                if (event == PLACE_IS_FREE) /* those who wait for it are to be told */
                        a->place = PLACE_REMOVED;
                return;
        }
        a->place = t->to;
        if (t->action != STATE_ONLY)
                a->units[0].held = t->action == HOLD;
}

bool app_is_leaving(const AppInstance *a)
{
        return a->place == PLACE_REMOVING || a->place == PLACE_REMOVED;
}

const char *app_change_of(const AppInstance *a)
{
        return a->place == PLACE_THERE || app_is_leaving(a) ? NULL : states[a->place];
}
