/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* metadata-service.c: the metadata service of a pod that runs. */

#include "stage0/supervisor/run-internal.h"

typedef struct MetadataService MetadataService;

/* The service is started at the first connection, and again whenever it ends and a connection comes. */
int metadata_service_new(Pod *p, sd_event *event, MetadataService **ret, Error *e);
MetadataService *metadata_service_free(MetadataService *m);
DEFINE_TRIVIAL_CLEANUP_FUNC(MetadataService *, metadata_service_free);
/* Opens its socket in the network namespace of process PID, if that was not done before. */
int metadata_service_listen(MetadataService *m, pid_t pid, Error *e);
/* The manifest of the pod in memory has changed: if the service runs, it serves the new one soon. M may be NULL. */
void metadata_service_changed(MetadataService *m);
/* The URL, with the token; NULL: there is no socket yet. M may be NULL. */
const char *metadata_service_url(const MetadataService *m);
