/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* state-table.c: tables of states. tools/state-tables draws the pictures of docs/ARCHITECTURE.md from their text. */

#include "basic/basic.h"

typedef struct StateTransition {
        unsigned char to;
        unsigned char action; /* the object's own; 0: the event cannot occur in this state */
} StateTransition;

/* The action of a transition that changes the state, and nothing else. */
#define STATE_ONLY 255

typedef struct StateTable {
        const char *object;
        const char *const *states, *const *events; /* names */
        size_t n_events;
        const StateTransition *transitions; /* by state and event */
} StateTable;

#define STATE_TABLE(name, state_names, event_names, all)                                                    \
        {                                                                                                   \
                .object = name, .states = state_names, .events = event_names,                               \
                .n_events = ELEMENTSOF(event_names), .transitions = &all[0][0]                              \
        }

/* NULL: the event cannot occur in this state, which is an error of the program. It is logged; a sanitized build aborts. */
const StateTransition *state_table_find(const StateTable *t, size_t state, size_t event);
