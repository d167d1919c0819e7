/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* stage0/pods/: all pods of a store, for the verbs and the service of the host. */

#include "library/libsystemd.h"
#include "stage0/api/acn.h"
#include "stage0/report/report.h"

/* --- Rows of lists (pod-row.c) ------------------------------------------------------------------------- */

/* How a pod has ended. */
typedef struct PodEnd {
        int exit_status; /* -1: it has not ended, or its status cannot be read */
        bool by_reboot;  /* of the host */
} PodEnd;

PodEnd pod_end(Pod *p);
/* A pod in a list: uuid, name, state, apps, created (microseconds since the epoch), exitStatus and endedBy. Unknown
 * values are left out. */
int pod_to_json(Pod *p, json_object **ret);
/* True if the exit status is a failure. An end by SIGTERM, as at a stop, is none. */
bool pod_end_is_failure(int exit_status);
/* The worst health among the apps of a running pod with a health check, a static string; NULL: no app has one. */
const char *pod_health(Pod *p);
/* Whether P has ended before the first process of any app was started: its networks or its systemd have
 * failed. */
bool pod_never_ran(Pod *p);

/* --- Events of all pods (watch.c) ---------------------------------------------------------------------- */

typedef enum PodsEventKind {
        PODS_PRESENT,  /* the pod existed when the watch began */
        PODS_COMPLETE, /* all existing pods were reported */
        PODS_CHANGED,  /* the pod is new, or in another state */
        PODS_APP,      /* an app of the pod has changed, or was there when the watch began */
        PODS_REMOVED,  /* the pod was removed */
        PODS_APPS,     /* the complete list of the pod's apps, after a PODS_APP for each; not numbered */
        _PODS_EVENT_MAX,
} PodsEventKind;

/* Its members are borrowed, and valid during the call of the function. */
typedef struct PodsEvent {
        PodsEventKind kind;
        uint64_t sequence; /* from 1, each one more than the last */
        uint64_t time_usec;
        json_object *pod; /* as by pod_to_json(), or "stopping" as state; NULL: PODS_COMPLETE */
        json_object *app; /* of PODS_APP: as in events of org.acnspawn.Pod; of PODS_APPS: an array of such objects */
} PodsEvent;

const char *pods_event_kind_to_string(PodsEventKind k);
/* As a JSON object: sequence, timeUSec, event, pod, app. NULL: out of memory. */
json_object *pods_event_to_json(const PodsEvent *v);

typedef struct PodsWatch PodsWatch;

/* Watches the pods of a store, which has to stay open as long as the watch: the function is called from the
 * event loop for each existing pod, and from then on for every change, without gaps or duplicates. The
 * states of a pod only go forward: preparing, prepared, running, exited, garbage, removed; "paused" and
 * "stopping" are reported in between. Short-lived states are reported as well, except "paused", "stopping",
 * and events of apps of a pod that has ended before its supervisor could be reached. If the kernel has
 * dropped notifications, intermediate states may be left out.
 *
 * The function may not free the watch. -EMFILE: the limit of inotify instances is reached. */
int pods_watch_new(Store *s, sd_event *event, void (*function)(const PodsEvent *v, void *userdata),
                   void *userdata, PodsWatch **ret, Error *e);
/* NULL is fine; returns NULL. */
PodsWatch *pods_watch_free(PodsWatch *w);
DEFINE_TRIVIAL_CLEANUP_FUNC(PodsWatch *, pods_watch_free);
