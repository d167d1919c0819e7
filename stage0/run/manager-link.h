/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* manager-link.c: the connection of the supervisor to the pod's systemd, and the units that it follows. */

#include "stage0/run/run-internal.h"

/* What a unit is, as far as the end of the pod depends on it. */
typedef enum UnitLife {
        UNIT_DOWN,   /* inactive, and nothing is about to start it */
        UNIT_UP,     /* active, on the way up or down, between two starts, or with a job that waits */
        UNIT_FAILED, /* failed, and nothing is about to start it */
        _UNIT_LIFE_MAX,
} UnitLife;

/* Pure. From the properties of a unit as systemd has them; JOB is the number of its job, or 0. */
UnitLife unit_life(const char *active_state, const char *sub_state, uint32_t job);

typedef struct ManagerLink ManagerLink;

typedef struct ManagerLinkEvents {
        /* The state of a unit, by the TAG that it is followed with: once soon after the connection, and whenever it
         * changes, also between states that are all UNIT_UP. */
        void (*changed)(void *userdata, void *tag, UnitLife life);
        /* The connection has ended. The link is of no use any more; it must not be freed in here. */
        void (*lost)(void *userdata);
} ManagerLinkEvents;

/* Connects to the systemd of a running pod. The events are reported in EVENT's loop. */
int manager_link_new(Pod *p, sd_event *event, const ManagerLinkEvents *events, void *userdata,
                     ManagerLink **ret, Error *e);
ManagerLink *manager_link_free(ManagerLink *l); /* NULL is fine */
DEFINE_TRIVIAL_CLEANUP_FUNC(ManagerLink *, manager_link_free);

/* Follows the unit NAME, which is lent until it is followed no more. TAG is what events call it. */
int manager_link_follow(ManagerLink *l, const char *name, void *tag);
void manager_link_unfollow(ManagerLink *l, const void *tag);
/* The state of a unit that is followed, as systemd calls it: "active", "activating", "deactivating", "inactive",
 * "failed". Lives as long as the link and until its next event. */
const char *manager_link_state(const ManagerLink *l, const void *tag);

/* How a job has ended: RESULT as systemd has it ("done", "failed", "timeout", "canceled", "dependency", …), or R is
 * negative: systemd has refused the job, or the connection has ended (-ECONNRESET). */
typedef void (*ManagerJobFunction)(void *userdata, int r, const char *result);

/* Enqueues a job ("StartUnit", "StopUnit", "RestartUnit") for the unit. FUNCTION, which may be NULL, is called once, from
 * the event loop or from manager_link_free(), unless the call fails. */
int manager_link_run(ManagerLink *l, const char *method, const char *unit, ManagerJobFunction function,
                     void *userdata);
/* What systemd calls the main process of a service: NUMBER, by the pod's numbers, or 0, there is none. R is negative: systemd
 * cannot tell, or the connection has ended (-ECONNRESET). */
typedef void (*ManagerProcessFunction)(void *userdata, int r, uint32_t number);
/* Asks for it. FUNCTION is called once, as that of a job. */
int manager_link_main_process(ManagerLink *l, const char *unit, ManagerProcessFunction function,
                              void *userdata);
/* Asks whether systemd has the unit loaded. The answer is an error if it is not; FUNCTION gets it once, unless *RET_SLOT is unreferenced before, or the
 * connection ends. */
int manager_link_is_loaded(ManagerLink *l, const char *unit, sd_bus_message_handler_t function,
                           void *userdata, sd_bus_slot **ret_slot);
/* Sends SIG to the main process of the unit, or with ALL to every process of it. */
int manager_link_kill(ManagerLink *l, const char *unit, bool all, int sig);
/* Sets properties of a unit that are numbers, until the pod ends. FUNCTION is called as with manager_link_run(), with
 * "done" as the result, when they are in force. */
#define UNIT_PROPERTIES_MAX 8U
typedef struct UnitProperty {
        const char *name;
        uint64_t value;
} UnitProperty;
int manager_link_set(ManagerLink *l, const char *unit, const UnitProperty *properties, size_t n,
                     ManagerJobFunction function, void *userdata);
/* Forgets that the unit has failed, and how often it was started. */
int manager_link_reset(ManagerLink *l, const char *unit);
