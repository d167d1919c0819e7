/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* cri/events/: the table of sandboxes and containers, which is filled from what the supervisors and the workers report. It
 * answers lists, sends events, and holds a call until the table has its effect. */

#include "cri/sandbox.h"

/* What a worker has to tell. */
typedef enum CriNoteKind {
        CRI_NOTE_UP,      /* a sandbox is up, which no supervisor reports */
        CRI_NOTE_REMOVED, /* the same: a container was removed from a pod that has ended */
        /* The effect of the call, which will be reported to the server. Lists show it before the call is answered. */
        CRI_NOTE_CREATED,
        CRI_NOTE_STARTED,
        CRI_NOTE_STOPPED,
        CRI_NOTE_DELETED,
        CRI_NOTE_ABSENT, /* gone from the store: dropped from lists without an event */
} CriNoteKind;

typedef struct CriEventNote {
        CriNoteKind kind;
        char uuid[UUID_TEXT_SIZE];
        char id[CRI_ID_SIZE]; /* of a sandbox or container */
} CriEventNote;

/* Watches the pods of the store from now on. */
int cri_events_start(CriServer *s, Error *e);
/* How many sandboxes and containers the table has, by their state. */
typedef struct CriCounts {
        size_t ready, not_ready;         /* sandboxes */
        size_t created, running, exited; /* containers */
} CriCounts;
void cri_events_count(const CriServer *s, CriCounts *ret);
/* Ends the streams. */
void cri_events_end(CriServer *s);
void cri_events_done(CriServer *s);
/* Takes the call over, to which all later events are sent. */
int cri_events_subscribe(CriServer *s, GrpcCall *c);
/* In a worker: sends a note to the server; there: takes it. */
void cri_event_note(CriJob *j, CriNoteKind kind, const char *uuid, const char *id);
/* A sandbox or container, whose ID has the UUID of its pod from digit UUID_AT on, does not exist. Lists come from a table that follows
 * the pods with a delay: it is removed from that. */
void cri_event_note_absent(CriJob *j, const char *id, size_t uuid_at);
void cri_events_take(CriServer *s, const CriEventNote *note);
/* Takes over a call that has succeeded, unless the table has the effect already (false). */
bool cri_events_hold(CriServer *s, GrpcCall *c, const CriEventNote *note);
/* In the server: the worker CALL has sent a reply, or has ended; NOTED: it has sent a note. True: it was
 * that of the events. */
bool cri_events_reply(CriServer *s, const CriCall *call, const void *data, size_t size);
void cri_events_ended(CriServer *s, const CriCall *call, bool noted);
