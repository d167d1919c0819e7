/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Shared by watch.c and watch-pod.c. */

#include "stage0/pods/pods.h"
#include "varlink/varlink.h"

typedef enum ConnectionStep {
        STEP_NONE,     /* not connected */
        STEP_DESCRIBE, /* its description was requested */
        STEP_MONITOR,  /* it sends events */
} ConnectionStep;

typedef struct WatchedPod {
        struct WatchedPod *next;
        PodsWatch *watch;
        char uuid[37];
        PodState state;    /* the latest place that it was found in */
        json_object *json; /* as reported last */
        bool seen;         /* found by the last listing */

        VarlinkClient *client; /* to its supervisor */
        sd_event_source *io;
        ConnectionStep step;
        bool knows_events; /* the number of its last event */
        uint64_t sequence;
        bool ending;         /* it is among the pods that have ended, and its last events are read */
        uint64_t since_usec; /* when it began to run, or to end; CLOCK_MONOTONIC */
} WatchedPod;

struct PodsWatch {
        Store *store;
        sd_event *event;
        void (*function)(const PodsEvent *v, void *userdata);
        void *userdata;
        uint64_t sequence;
        WatchedPod *pods;
        bool is_complete;     /* all pods were listed once */
        uint64_t relist_usec; /* when a listing that has failed is repeated (CLOCK_MONOTONIC); 0: none has */
        int fd;               /* inotify */
        int places[_POD_STATE_MAX]; /* watch descriptors */
        sd_event_source *io, *timer, *start;
};

/* --- watch.c ------------------------------------------------------------------------------------------- */

void watch_tell(PodsWatch *w, PodsEventKind kind, WatchedPod *p, json_object *app);
/* Reports the state SHOWN of the pod, unless it was reported before. */
void watch_tell_state(WatchedPod *p, const char *shown);
/* Reads the records of the pod again. On failure the previous ones are kept. */
void watch_read_pod(WatchedPod *p, Pod *pod);
/* Reports that the pod has ended. */
void watch_pod_ended(WatchedPod *p);
/* The timer has to check this pod. */
void watch_arm(PodsWatch *w);

/* --- watch-pod.c: the connection to the supervisor of a pod -------------------------------------------- */

/* Connects to the supervisor, if it can be reached already, and starts receiving events. */
void watch_connect(WatchedPod *p);
void watch_disconnect(WatchedPod *p);
