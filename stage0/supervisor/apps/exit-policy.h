/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* exit-policy.c: what the end of an app means for the pod. */

#include "stage0/supervisor/manager/manager-link.h"

struct AppInstance;

/* A unit that the pod's lifetime depends on. */
typedef enum PodUnitKind {
        POD_UNIT_APP,
        POD_UNIT_APP_ON_DEMAND, /* a service that connections start */
        POD_UNIT_SOCKETS, /* no unit of systemd: the sockets of such an app, up while they are listened on; failed when
                           * nothing can start the app any more */
        _POD_UNIT_KIND_MAX,
} PodUnitKind;

typedef struct PodUnit {
        char *name; /* NULL: systemd has none */
        struct AppInstance *app;
        PodUnitKind kind;
        UnitLife life;
        UnitActivity activity; /* valid if LIFE is UNIT_UP */
        bool known;            /* LIFE was reported */
        bool was_up;           /* the unit has been up */
        bool held; /* its app is being replaced, or was started tentatively: for the exit policy it is up */
        bool transient; /* its app has no effect on the pod but that it keeps it up */
        bool unsound;   /* its app counts as failed once it is down, however it ends */
} PodUnit;

typedef enum PodEnd {
        POD_GOES_ON,
        POD_END_APP_FAILED,
        POD_END_APP_ENDED,
        POD_END_APP_GIVEN_UP, /* No connection can start it any more. */
        POD_END_NOTHING_RUNS,
        _POD_END_MAX,
} PodEnd;

/* Pure. Whether the pod ends, now that its units are as they are; *RET_UNIT is the unit that decides it, or NULL.
 * Nothing ends before all units are known. */
PodEnd exit_policy_judge(ExitPolicy policy, PodUnit *const *units, size_t n, const PodUnit **ret_unit);
/* Takes over what systemd reports of a unit. */
void pod_unit_set(PodUnit *u, UnitLife life);

/* The units of an app; the first runs it. */
int pod_units_new(struct AppInstance *app, PodUnit **ret, size_t *ret_n);
void pod_units_free(PodUnit *units, size_t n);
