/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The transitions of sandboxes and containers, for GetContainerEvents. */

#include "cri/sandbox.h"

/* What the worker of a call has done that no supervisor reports. */
typedef struct CriEventNote {
        char uuid[UUID_TEXT_SIZE];
        char id[CRI_ID_SIZE]; /* of a sandbox that is up, or of a container that was removed from a pod that has ended */
        bool removed;
} CriEventNote;

/* Watches the pods of the store from now on. */
int cri_events_start(CriServer *s, Error *e);
/* Ends the streams. */
void cri_events_end(CriServer *s);
void cri_events_done(CriServer *s);
/* Takes the call over, to which all later events are sent. */
int cri_events_subscribe(CriServer *s, GrpcCall *c);
/* In a worker: sends a note to the server; there: takes it. */
void cri_event_note(CriJob *j, const char *uuid, const char *id, bool removed);
void cri_events_take(CriServer *s, const CriEventNote *note);
/* In the server: the worker CALL has sent a reply, or has ended. True: it was that of the events. */
bool cri_events_reply(CriServer *s, const CriCall *call, const void *data, size_t size);
void cri_events_ended(CriServer *s, const CriCall *call);
