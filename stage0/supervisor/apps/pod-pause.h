/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* pod-pause.c: pauses and resumes the pod; timers that stop while it is paused. */

#include "stage0/supervisor/run-internal.h"

typedef struct PodPause PodPause;

int pod_pause_new(Pod *p, sd_event *event, PodPause **ret);
PodPause *pod_pause_free(PodPause *x); /* NULL is fine; all timers were freed before */
DEFINE_TRIVIAL_CLEANUP_FUNC(PodPause *, pod_pause_free);

/* R is negative if the request failed, for the reason E; -ESHUTDOWN: the pod ends. */
typedef void (*PauseFunction)(void *userdata, int r, const Error *e);
/* Pauses or resumes the pod. Only one request can be pending. DONE is called once, perhaps before this returns. */
void pod_pause_request(PodPause *x, bool freeze, PauseFunction done, void *userdata);
/* The pod is about to end: thaws it, and refuses later pauses. A pending request fails with -ESHUTDOWN. X may be NULL. */
void pod_pause_release(PodPause *x);

/* FUNCTION is called when all processes of the pod are frozen, by acnspawn or a user, and when they continue. The latter may be noticed only by a
 * request or a timer. */
void pod_pause_watch(PodPause *x, void (*function)(void *userdata, bool frozen), void *userdata);

/* A timer that stops while the pod is frozen, by acnspawn or a user. FUNCTION may free the timer, or set it again. */
typedef struct PodTimer PodTimer;

/* If X is NULL the timer never stops. */
int pod_timer_new(PodPause *x, sd_event *event, uint64_t usec, void (*function)(void *userdata),
                  void *userdata, PodTimer **ret);
int pod_timer_set(PodTimer *t, uint64_t usec);
/* True if FUNCTION was called, and the timer was not set again since. T may be NULL. */
bool pod_timer_has_expired(const PodTimer *t);
PodTimer *pod_timer_free(PodTimer *t); /* NULL is fine */
