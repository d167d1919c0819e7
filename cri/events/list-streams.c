/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Lists in pieces: the calls Stream… have the requests of the lists, and their items in replies of limited size. Requests of both
 * kinds, and replies of both kinds, have one member each, of the same type. */

#include "cri/sandbox.h"

#define ITEMS 64U /* per reply */

typedef struct List {
        ProtobufCMessage base;
        size_t n;
        void **items;
} List;

static int stream(CriJob *j, const void *request, void *reply, CriFunction list,
                  const ProtobufCMessageDescriptor *list_reply, Error *e)
{
        List *all = cri_message(&j->memory, list_reply), *part = reply;

        if (!all)
                return error_oom(e);
        if (list_reply->sizeof_message != sizeof(List) ||
            part->base.descriptor->sizeof_message != sizeof(List))
                return error_set(e, -EPROTO, "%s is not a list", list_reply->short_name);
        int r = list(j, request, all, e);
        for (size_t i = 0; r >= 0 && i < all->n; i += ITEMS) {
                part->items = all->items + i;
                part->n = MIN(all->n - i, ITEMS);
                r = cri_send(j, &part->base, e);
        }
        return r;
}

#define STREAM(name, list)                                                                                  \
        int cri_stream_##name(CriJob *j, const void *request, void *reply, Error *e)                        \
        {                                                                                                   \
                return stream(j, request, reply, cri_##list, &runtime__v1__##list##_response__descriptor,   \
                              e);                                                                           \
        }

STREAM(pod_sandboxes, list_pod_sandbox)
STREAM(containers, list_containers)
STREAM(container_stats, list_container_stats)
STREAM(pod_sandbox_stats, list_pod_sandbox_stats)
STREAM(pod_sandbox_metrics, list_pod_sandbox_metrics)
