/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* manager-link.c: the connection of the supervisor to the pod's systemd, and the units that it follows. */

#include "stage0/supervisor/run-internal.h"

/* The state of a unit, as far as the end of the pod depends on it. */
typedef enum UnitLife {
        UNIT_DOWN,   /* inactive, and nothing is about to start it */
        UNIT_UP,     /* active, on the way up or down, between two starts, or with a job that waits */
        UNIT_FAILED, /* failed, and nothing is about to start it */
        _UNIT_LIFE_MAX,
} UnitLife;

/* What a unit does while it is UNIT_UP. */
typedef enum UnitActivity {
        UNIT_STARTS, /* or waits to be started */
        UNIT_RUNS,
        UNIT_STOPS,
        _UNIT_ACTIVITY_MAX,
} UnitActivity;

/* How the main process of a service has ended. */
typedef struct MainEnd {
        bool known;      /* exit_status or signal is */
        bool given_up;   /* it has not ended, and systemd does not wait for it any more */
        int exit_status; /* 0…255, or -1 */
        int signal;      /* or 0 */
        bool core_dumped;
        uint64_t usec;   /* realtime; 0: unknown */
        char result[24]; /* the result of the unit in systemd's words: "success", "timeout", "oom-kill", … */
} MainEnd;

/* Pure. From the properties of a unit as systemd has them; JOB is the number of its job, or 0. */
UnitLife unit_life(const char *active_state, const char *sub_state, uint32_t job);

/* Pure. From ActiveState. */
UnitActivity unit_activity(const char *active_state);

/* Pure. Whether a service in that state certainly has no process. */
bool unit_is_at_rest(const char *sub_state);

typedef struct ManagerLink ManagerLink;

typedef struct ManagerLinkEvents {
        /* The state of a unit, by the TAG that it is followed with: once soon after the connection, and at
         * each change, also between states that are all UNIT_UP. */
        void (*changed)(void *userdata, void *tag, UnitLife life, UnitActivity activity);
        /* No process of a service is left; END says how its main process has ended, also if that was long
         * ago. Comes before the change of state that it belongs to, more than once for one end, and also for
         * a service that will be started again. */
        void (*stopped)(void *userdata, void *tag, const MainEnd *end);
        /* How the main process of a service has ended whose unit is inactive, if that is known without systemd; optional.
         * Nothing more is asked of systemd then, which takes ten times as long. */
        bool (*find_end)(void *userdata, void *tag, MainEnd *ret);
        /* The connection has ended. The link cannot be used any more; it must not be freed in this
         * callback. */
        void (*lost)(void *userdata);
        /* The states of all units that were followed from the beginning are known. */
        void (*ready)(void *userdata);
} ManagerLinkEvents;

/* Connects to the systemd of a running pod. The events are reported in EVENT's loop. */
int manager_link_new(Pod *p, sd_event *event, const ManagerLinkEvents *events, void *userdata,
                     ManagerLink **ret, Error *e);
ManagerLink *manager_link_free(ManagerLink *l); /* NULL is fine */
DEFINE_TRIVIAL_CLEANUP_FUNC(ManagerLink *, manager_link_free);

/* Processes what was received, without waiting. Must not be called from an event of the link. */
void manager_link_drain(ManagerLink *l);

/* Follows the unit NAME, which is lent until manager_link_unfollow(). Events are called with TAG. */
int manager_link_follow(ManagerLink *l, const char *name, void *tag);
void manager_link_unfollow(ManagerLink *l, const void *tag);

/* How a job has ended: RESULT as systemd has it ("done", "failed", "timeout", "canceled", "dependency", …), or R is
 * negative: systemd has refused the job, or the connection has ended (-ECONNRESET). */
typedef void (*ManagerJobFunction)(void *userdata, int r, const char *result);

/* Enqueues a job ("StartUnit", "StopUnit", "RestartUnit") for the unit. FUNCTION, which may be NULL, is called once, from
 * the event loop or from manager_link_free(), unless the call fails. */
int manager_link_run(ManagerLink *l, const char *method, const char *unit, ManagerJobFunction function,
                     void *userdata);
/* The main process of a service according to systemd: NUMBER, in the pod's pid namespace; 0: none. R is
 * negative: systemd does not know it, or the connection has ended (-ECONNRESET). */
typedef void (*ManagerProcessFunction)(void *userdata, int r, uint32_t number);
/* Reads it. FUNCTION is called once, as that of a job. */
int manager_link_main_process(ManagerLink *l, const char *unit, ManagerProcessFunction function,
                              void *userdata);
/* Not if systemd has closed it, also before that was reported as lost. L may be NULL. */
bool manager_link_is_open(const ManagerLink *l);
/* Asks whether systemd has the unit loaded. The answer is an error if it is not; FUNCTION gets it once, unless *RET_SLOT is unreferenced before, or the
 * connection ends. */
int manager_link_is_loaded(ManagerLink *l, const char *unit, sd_bus_message_handler_t function,
                           void *userdata, sd_bus_slot **ret_slot);
/* Sends SIG to the main process of the unit, or with ALL to every process of it. */
int manager_link_kill(ManagerLink *l, const char *unit, bool all, int sig);
/* Sets properties of a unit until the pod ends. FUNCTION is called as with manager_link_run(), with
 * "done" as the result, when they are in force. */
#define UNIT_PROPERTIES_MAX 12U
#define UNIT_LIST_SIZE_MAX 1024U /* 8192 numbers, as many as systemd takes */
typedef struct UnitProperty {
        const char *name;
        uint64_t value;
        const char *list; /* instead of VALUE: "0-3,7" and the end of the line */
} UnitProperty;
/* Pure. Sets the bits of the numbers in LIST, up to the end of the line; *RET_SIZE is how many bytes they take. -EINVAL: it is not such a
 * list; -ERANGE: a number is too large. */
int manager_link_list_bits(const char *list, uint8_t ret[static UNIT_LIST_SIZE_MAX], size_t *ret_size);
int manager_link_set(ManagerLink *l, const char *unit, const UnitProperty *properties, size_t n,
                     ManagerJobFunction function, void *userdata);
/* Resets the failed state of the unit and the counter of its starts. */
int manager_link_reset(ManagerLink *l, const char *unit);
