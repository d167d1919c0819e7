/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Shared by events.c, which sends, events-table.c, which finds out what there is to send, and lists.c, which reads the table. */

#include "cri/events.h"
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
        uint64_t created_usec;
        /* Of containers: */
        CriMemory memory;
        ContainerConfig *config;
        char *image_id;
} Seen;

typedef struct SeenSandbox {
        struct SeenSandbox *next;
        char uuid[UUID_TEXT_SIZE];
        Seen sandbox;
        CriMemory memory;
        SandboxConfig *config;
        char *handler;
        Seen *containers;
        size_t n, allocated;
        void *status; /* packed, for when the sandbox is gone */
        size_t status_size;
} SeenSandbox;

/* An event that is to be sent. */
typedef struct EventItem {
        uint64_t number;
        char uuid[UUID_TEXT_SIZE], id[CRI_ID_SIZE];
        EventType type;
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
/* The watch of the pods reports V; USERDATA is the server. */
void events_table_take(const PodsEvent *v, void *userdata);

/* --- events-hold.c ------------------------------------------------------------------------------------- */

/* Answers the calls whose effects the table has by now. */
void events_answer_held(CriServer *s);
void events_drop_held(Held *h);
