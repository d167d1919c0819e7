/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Shared by events.c, which sends, events-table.c, which finds out what there is to send, and lists.c, which reads the table. */

#include "cri/events/events.h"
#include "cri/statistics/usage.h"
#include "stage0/pods/pods.h"

typedef Runtime__V1__ContainerEventType EventType;
#define CREATED RUNTIME__V1__CONTAINER_EVENT_TYPE__CONTAINER_CREATED_EVENT
#define STARTED RUNTIME__V1__CONTAINER_EVENT_TYPE__CONTAINER_STARTED_EVENT
#define STOPPED RUNTIME__V1__CONTAINER_EVENT_TYPE__CONTAINER_STOPPED_EVENT
#define DELETED RUNTIME__V1__CONTAINER_EVENT_TYPE__CONTAINER_DELETED_EVENT

/* What was reported last: the state is the type of the last event. */
typedef struct Seen {
        char app[CRI_ID_SIZE], id[CRI_ID_SIZE];
        EventType state;
        uint64_t created_usec, changed_usec; /* the latter: of the state, CLOCK_MONOTONIC */
        CriUsage usage;                      /* the last sample; see usage-sample.c */
        uint64_t sampled_usec;               /* CLOCK_MONOTONIC; 0: there is none of this state */
        /* Of containers: */
        CriMemory memory;
        ContainerConfig *config;
        char *image_id;
} Seen;

typedef struct SeenSandbox {
        struct SeenSandbox *next;
        char uuid[UUID_TEXT_SIZE];
        bool named; /* the watch of the pods has reported it, and will report its end */
        Seen sandbox;
        CriMemory memory;
        SandboxConfig *config;
        char *handler;
        Seen *containers;
        size_t n, allocated;
        NetworkUsage *networks; /* of the same sample as that of the sandbox */
        size_t n_networks;
        void *status; /* packed, for when the sandbox is gone */
        size_t status_size;
} SeenSandbox;

/* An event that is to be sent. */
typedef struct EventItem {
        uint64_t number;
        char uuid[UUID_TEXT_SIZE], id[CRI_ID_SIZE];
        EventType type;
        bool ready; /* the sandbox was ready at that time */
        uint64_t time_usec;
        void *status;
        size_t status_size;
} EventItem;

/* A call that is done, and is not answered before the table has its effect. */
typedef struct Held {
        struct Held *next;
        CriServer *server;
        GrpcCall *call;
        CriEventNote note;
        sd_event_source *timer;
} Held;

struct CriEvents {
        PodsWatch *watch;
        SeenSandbox *sandboxes;
        bool stale; /* there may be sandboxes that are not in the table */
        Held *held;
        struct Subscriber *subscribers;
        size_t n_subscribers;
        uint64_t number; /* of the last event */
        EventItem *queue;
        size_t n, allocated, n_sent; /* n_sent: of those that the worker was started for */
        size_t queue_bytes;          /* of their statuses */
        bool sending;
};

/* --- events.c ------------------------------------------------------------------------------------------ */

/* Appends an event to the queue, if there are subscribers. */
void events_emit(CriServer *s, const SeenSandbox *sandbox, Seen *x, EventType type);
/* Starts to send what is in the queue. */
void events_send(CriServer *s);

/* --- events-table.c ------------------------------------------------------------------------------------ */

/* Adds what is in the store, and not in the table yet. */
int events_table_read(CriServer *s, Error *e);
void events_table_done(CriServer *s);
/* NULL: there is none. */
SeenSandbox *events_table_find(const CriServer *s, const char *uuid);
/* All of them by time of creation, in memory of the call. The server has read the store before, if there may be others. */
int events_table_sorted(CriJob *j, SeenSandbox ***ret, size_t *ret_n, Error *e);
/* The watch of the pods reports V; USERDATA is the server. */
void events_table_take(const PodsEvent *v, void *userdata);

/* --- usage-sample.c -------------------------------------------------------------------------------------- */

/* What a worker sends of a sandbox: this, the containers, and the network interfaces. */
typedef struct UsageNote {
        char uuid[UUID_TEXT_SIZE];
        uint64_t begin_usec; /* CLOCK_MONOTONIC */
        CriUsage usage;
        size_t n_apps, n_networks;
} UsageNote;

typedef struct UsageNoteApp {
        char app[CRI_ID_SIZE];
        CriUsage usage;
} UsageNoteApp;

/* 1: X and its running containers have samples that are recent enough; they are taken now if need be. 0: the sandbox has ended. -EAGAIN: that
 * takes a worker (J->needs_worker). */
int usage_sample(CriJob *j, SeenSandbox *x, Error *e);
/* Whether the container X is to be reported with its sample. */
bool usage_is_sampled(const Seen *x);

/* --- events-hold.c ------------------------------------------------------------------------------------- */

/* Answers the calls whose effects the table has by now. */
void events_answer_held(CriServer *s);
void events_drop_held(Held *h);
