/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The rendered form of a configuration: every response, ready to send. Internal to metadata/. */

#include <microhttpd.h>

#include "metadata/routes.h"

typedef struct MetadataTablesApp {
        char *name;
        struct MHD_Response *responses[METADATA_APP_RESOURCES];
} MetadataTablesApp;

typedef struct MetadataTables {
        char *uuid, *token;
        size_t token_size;
        uint8_t key[METADATA_KEY_SIZE];
        uint64_t request_timeout_usec, verify_timeout_usec;
        struct MHD_Response *responses[METADATA_POD_RESOURCES];
        MetadataTablesApp *apps; /* by name */
        size_t n_apps;
} MetadataTables;

/* Parses the manifests and renders all responses. Error messages name the app. */
int metadata_tables_new(const MetadataConfig *config, MetadataTables **ret, Error *e);
/* Responses that are being sent stay alive until they have been sent. */
MetadataTables *metadata_tables_free(MetadataTables *t);
DEFINE_TRIVIAL_CLEANUP_FUNC(MetadataTables *, metadata_tables_free);
/* The response for a readable resource; NULL: there is no such app. */
struct MHD_Response *metadata_tables_find(const MetadataTables *t, const MetadataRoute *route);
/* Takes ownership of TEXT, also on failure. NULL: out of memory. ALLOW may be NULL. */
struct MHD_Response *metadata_response_new(char *text, size_t size, const char *content_type,
                                           const char *allow);
