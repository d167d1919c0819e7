/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* stage0/host-service/: the Varlink interface org.acnspawn.Host, of all pods and images of a store. */

#include "stage0/arguments/pod-arguments.h"

typedef struct HostServiceOptions {
        const char *dir;                /* the store's directory */
        const char *const *config_dirs; /* as in PrepareOptions */
        uint64_t exit_idle_usec; /* exits after this time without connections and calls; UINT64_MAX: never */
} HostServiceOptions;

/* Serves the listening socket FD, which is taken over, until it is idle, or SIGTERM or SIGINT arrives: then
 * calls are cancelled, and their effects are undone. READY is called when it serves; it may be NULL. */
int host_service_run(int fd, const HostServiceOptions *o, void (*ready)(void), Error *e);

/* --- request.c ----------------------------------------------------------------------------------------- */

/* Reads the parameters of PreparePod() and RunPod(), which match the description of the interface, into A, which
 * pod_arguments_init() has initialized. PARAMETERS have to stay as long as A. Images and volumes that are files have to be
 * absolute paths. -EINVAL: *RET_FIELD, to be freed, is the parameter that is not valid, as in "options.net"; NULL: out of
 * memory, or another failure. */
int host_request_parse(json_object *parameters, PodArguments *a, char **ret_field, Error *e);
/* The same for the options of fetching images. */
int host_fetch_options_parse(json_object *o, PodArguments *a, char **ret_field, Error *e);
/* Whether the service can resolve REFERENCE: not standard input, no relative path. */
int host_reference_check(const char *reference, Error *e);
