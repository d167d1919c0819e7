/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Maps of text in messages. Every field that is a map has a type of its own for its entries; all of them have the layout
 * of the first, as protoc-c generates them from the same two fields. */

#include "cri/cri-internal.h"

typedef Runtime__V1__StatusResponse__InfoEntry Entry;

int cri_map_add(CriMemory *m, size_t *n, void *list, const ProtobufCMessageDescriptor *d, const char *key,
                const char *value)
{
        Entry ***entries = list, **grown = cri_alloc(m, (*n + 1) * sizeof(Entry *));
        Entry *entry = cri_message(m, d);

        if (!value || !grown || !entry || d->sizeof_message != sizeof(Entry) ||
            !(entry->key = cri_strdup(m, key)) || !(entry->value = cri_strdup(m, value)))
                return -ENOMEM;
        if (*n > 0)
                memcpy(grown, *entries, *n * sizeof(Entry *));
        grown[(*n)++] = entry;
        *entries = grown;
        return 0;
}
