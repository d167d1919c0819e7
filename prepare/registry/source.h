/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Inside of prepare/registry/: the source, which asks one place after the other. */

#include "prepare/registry/endpoint.h"

typedef struct RegistrySource RegistrySource;

/* Where a blob came from. */
typedef struct BlobOrigin {
        char *digest;
        const Endpoint *place;
        bool rejected; /* it was something else */
} BlobOrigin;

struct RegistrySource {
        OciSource source; /* first */
        RegistryOptions options;
        Transfer *transfer;
        Store *store;
        RegistryReference reference;
        Endpoint *endpoints;
        size_t n_endpoints;
        pthread_mutex_t lock; /* of what follows */
        size_t preferred;     /* where something was found last */
        BlobOrigin *origins;
        size_t n_origins, origins_allocated;
        /* Of the thread that asks for manifests: */
        char **accept; /* headers for manifests */

        char *digest; /* what the reference came to */
        char *kept;   /* and the document, if it has not been asked for */
        size_t kept_size;
        char *kept_media_type;
};

/* Asks one place. */
typedef int (*AskPlace)(RegistrySource *r, Endpoint *p, void *userdata, Error *e);

/* The place that had something last, then the others in their order; those that do not answer are only asked
 * when there is no other left. If all fail, what the registry itself says is what counts. */
int ask_places(RegistrySource *r, AskPlace ask, void *userdata, Error *e);

/* --- blobs.c: see OciSourceVTable ---------------------------------------------------------------------- */

int registry_open_blob(OciSource *s, const OciDescriptor *d, int *ret_fd, Error *e);
int registry_reject_blob(OciSource *s, const OciDescriptor *d);
void blob_origins_done(RegistrySource *r);
