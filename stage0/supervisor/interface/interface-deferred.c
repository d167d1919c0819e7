/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Calls that need the pod's systemd and came while it could not be reached: while the pod boots, or while
 * the connection is made again. They are executed in their order once the connection is there. */

#include "stage0/supervisor/interface/interface-internal.h"

typedef struct DeferredCall {
        struct DeferredCall *next;
        VarlinkCall *call;
        json_object *parameters;
        VarlinkMethodFunction method;
} DeferredCall;

static void deferred_free(DeferredCall *d)
{
        varlink_call_unref(d->call);
        json_object_put(d->parameters);
        free(d);
}

int interface_defer(Interface *i, VarlinkCall *call, json_object *parameters, VarlinkMethodFunction method)
{
        DeferredCall *d = malloc(sizeof(DeferredCall)), **last = &i->deferred;

        if (!d)
                return -ENOMEM;
        *d = (DeferredCall){.call = varlink_call_ref(call),
                            .parameters = json_object_get(parameters),
                            .method = method};
        while (*last)
                last = &(*last)->next;
        *last = d;
        return 0;
}

/* A call that has to wait again goes to the new list. */
void interface_resume(Interface *i)
{
        DeferredCall *next = i ? TAKE_PTR(i->deferred) : NULL;

        if (i)
                interface_repeat_calls(i);
        for (DeferredCall *d; (d = next);) {
                next = d->next;
                int r = d->method(d->call, d->parameters, i);
                if (r < 0)
                        (void) varlink_reply_errno(d->call, r);
                deferred_free(d);
        }
}

void interface_drop_deferred(Interface *i)
{
        for (DeferredCall *d; (d = i->deferred);) {
                i->deferred = d->next;
                (void) interface_reply_error(d->call, "org.acnspawn.Pod.PodEnds", NULL, NULL, NULL, NULL);
                deferred_free(d);
        }
}
