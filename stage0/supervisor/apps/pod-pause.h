/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* pod-pause.c: whether the pod runs or is paused, and timers that do not run while it is. */

#include "stage0/supervisor/run-internal.h"

typedef struct PodPause PodPause;

int pod_pause_new(Pod *p, sd_event *event, PodPause **ret);
PodPause *pod_pause_free(PodPause *x); /* NULL is fine; there are no timers any more */
DEFINE_TRIVIAL_CLEANUP_FUNC(PodPause *, pod_pause_free);

/* R is negative: it could not be done, E says why; -ESHUTDOWN: the pod ends. */
typedef void (*PauseFunction)(void *userdata, int r, const Error *e);
/* Pauses the pod, or resumes it; one request at a time. DONE is called once, perhaps before this returns. */
void pod_pause_request(PodPause *x, bool freeze, PauseFunction done, void *userdata);
/* The pod is to end: it is thawed, and not paused any more. A request that is not done yet is answered with -ESHUTDOWN.
 * X may be NULL. */
void pod_pause_release(PodPause *x);

/* Runs out after a time in which the pod was not paused, by whomever. FUNCTION may free the timer, or set it again. */
typedef struct PodTimer PodTimer;

/* X may be NULL: the time always runs. */
int pod_timer_new(PodPause *x, sd_event *event, uint64_t usec, void (*function)(void *userdata),
                  void *userdata, PodTimer **ret);
int pod_timer_set(PodTimer *t, uint64_t usec);
PodTimer *pod_timer_free(PodTimer *t); /* NULL is fine */
