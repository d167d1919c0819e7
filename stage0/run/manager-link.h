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
        /* The state of the unit with this index: once soon after the connection, and whenever it changes. */
        void (*changed)(void *userdata, size_t unit, UnitLife life);
        /* The connection has ended. The link is of no use any more; it must not be freed in here. */
        void (*lost)(void *userdata);
} ManagerLinkEvents;

/* Connects to the systemd of a running pod, and follows UNITS, which are lent. The events are reported in EVENT's
 * loop. */
int manager_link_new(Pod *p, sd_event *event, char *const *units, const ManagerLinkEvents *events,
                     void *userdata, ManagerLink **ret, Error *e);
ManagerLink *manager_link_free(ManagerLink *l); /* NULL is fine */
DEFINE_TRIVIAL_CLEANUP_FUNC(ManagerLink *, manager_link_free);

/* Enqueues a job ("StopUnit", "RestartUnit") for the unit, without waiting for it. */
int manager_link_enqueue(ManagerLink *l, const char *method, const char *unit);
/* Sends SIG to the main process of the unit. */
int manager_link_kill(ManagerLink *l, const char *unit, int sig);
