/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* cri/cdi/: reads files of the Container Device Interface (github.com/cncf-tags/container-device-interface), in JSON or YAML,
 * and checks them. */

#include "schema/hooks.h"
#include "schema/schema.h"

#define CDI_FILE_SIZE_MAX (4U * 1024U * 1024U)
#define CDI_HOOK "the hook " /* with which messages about one begin */

typedef struct CdiNode {
        char *path, *host_path; /* in the container, and on the host */
        char permissions[4];    /* letters of "rwm", in this order */
} CdiNode;

typedef struct CdiMount {
        char *source, *target;
        bool read_only, plain; /* plain: no devices and set-user-ID programs count there */
} CdiMount;

/* What a container gets. */
typedef struct CdiEdits {
        PairList environment;
        CdiNode *nodes;
        CdiMount *mounts;
        uint32_t *gids; /* supplementary groups, without group 0 */
        size_t n_nodes, nodes_allocated, n_mounts, mounts_allocated, n_gids, gids_allocated;
        HookList hooks;    /* createContainer */
        char *unsupported; /* a member that cannot be honoured, so that no container can have this; or NULL */
} CdiEdits;

typedef struct CdiDevice {
        char *name;
        CdiEdits edits;
} CdiDevice;

typedef struct CdiSpec {
        char *kind;     /* "example.com/net" */
        CdiEdits edits; /* with any of the devices */
        CdiDevice *devices;
        size_t n_devices, devices_allocated;
} CdiSpec;

/* -EINVAL: it is not valid. */
int cdi_spec_parse(const char *text, size_t size, bool yaml, CdiSpec **ret, Error *e);
CdiSpec *cdi_spec_free(CdiSpec *s);
DEFINE_TRIVIAL_CLEANUP_FUNC(CdiSpec *, cdi_spec_free);
/* "example.com/net=eth0": where the name of the device begins; NULL: it is not the name of one. */
const char *cdi_name_split(const char *s);
/* Letters of "rwm" in any order; false: S has others, or none. */
bool cdi_read_permissions(const char *s, char ret[static 4]);
const CdiDevice *cdi_spec_find(const CdiSpec *s, const char *name);
