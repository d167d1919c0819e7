/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* readiness.c: which apps of a pod are ready, as far as there is more to it than that they run; what follows
 * from a health check that fails. */

#include "stage0/run/run-internal.h"

typedef struct Readiness Readiness;

int readiness_new(Pod *p, Readiness **ret, Error *e);
Readiness *readiness_free(Readiness *r);
DEFINE_TRIVIAL_CLEANUP_FUNC(Readiness *, readiness_free);
/* WHAT a launcher tells of APP. */
void readiness_told(Readiness *r, const PodApp *app, LaunchPhase what);
/* Whether any app of the pod is waited for. */
bool readiness_is_used(const Readiness *r);
/* Whether there is nothing to wait for (any more): every app is ready, or has ended for good and the pod
 * goes on without it. */
bool readiness_is_settled(const Readiness *r);
/* Which apps are not ready, and why, in one line; "" if all are. */
int readiness_describe(Readiness *r, char **ret);
/* "2 of 3 apps are ready" */
int readiness_summary(const Readiness *r, char **ret);
