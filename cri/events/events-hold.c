/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Calls that are done, and wait for the table (events-table.c): it follows the pods within milliseconds, and lists, which are made
 * from it, have to show what a call has done once it is answered. */

#include "cri/events/events-internal.h"
#include "library/libsystemd.h"

#define WAIT_USEC UINT64_C(2000000) /* the effect may have been undone meanwhile */

static const Seen *find_container(const SeenSandbox *x, const char *id)
{
        for (size_t i = 0; i < x->n; i++)
                if (streq(x->containers[i].id, id))
                        return &x->containers[i];
        return NULL;
}

/* A container that was never started is not stopped, either. */
static bool is_settled(const CriServer *s, const CriEventNote *note)
{
        const SeenSandbox *x = events_table_find(s, note->uuid);
        const Seen *seen = !x                               ? NULL
                           : streq(x->sandbox.id, note->id) ? &x->sandbox
                                                            : find_container(x, note->id);

        if (!seen)
                return !x || note->kind != CRI_NOTE_CREATED;
        switch (note->kind) {
        case CRI_NOTE_STARTED:
                return seen->state >= STARTED;
        case CRI_NOTE_STOPPED:
                return seen->state != STARTED;
        case CRI_NOTE_DELETED:
                return false;
        default:
                return true;
        }
}

void events_drop_held(Held *h)
{
        Held **i = &h->server->events->held;

        while (*i != h)
                i = &(*i)->next;
        *i = h->next;
        sd_event_source_disable_unref(h->timer);
        grpc_call_on_gone(h->call, NULL, NULL);
        grpc_call_unref(h->call);
        free(h);
}

static void answer(Held *h)
{
        (void) grpc_call_finish(h->call, GRPC_OK, NULL);
        events_drop_held(h);
}

static void on_gone(GrpcCall *c, void *userdata)
{
        events_drop_held(userdata);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
        answer(userdata);
        return 0;
}

void events_answer_held(CriServer *s)
{
        for (Held *h = s->events->held, *next; h; h = next) {
                next = h->next;
                if (is_settled(s, &h->note))
                        answer(h);
        }
}

bool cri_events_hold(CriServer *s, GrpcCall *c, const CriEventNote *note)
{
        if (!s->events || is_settled(s, note))
                return false;
        Held *h = calloc(1, sizeof(Held));
        if (!h)
                return false;
        if (sd_event_add_time_relative(s->event, &h->timer, CLOCK_MONOTONIC, WAIT_USEC, 0, on_timer, h) <
            0) {
                free(h);
                return false;
        }
        h->next = s->events->held;
        h->server = s;
        h->call = c;
        h->note = *note;
        s->events->held = h;
        grpc_call_on_gone(c, on_gone, h);
        return true;
}
