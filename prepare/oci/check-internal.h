/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Shared by check.c and check-layers.c. */

#include "prepare/oci/oci-internal.h"

#define BLOBS_MAX 10000U

typedef enum BlobKind { BLOB_DOCUMENT, BLOB_CONFIG, BLOB_LAYER } BlobKind;

typedef struct Blob {
        OciDescriptor descriptor;
        BlobKind kind;
} Blob;

/* The parts of an image according to its manifest: the names of their files. */
typedef struct CheckImage {
        char *config;
        char **layers;
} CheckImage;

typedef struct Check {
        Files *files;
        const Operation *operation;
        OciReport report;
        void *userdata;
        uint64_t n_findings;
        Blob *blobs; /* all reachable ones, in this order */
        size_t n_blobs, allocated;
        CheckImage *images;
        size_t n_images, images_allocated;
        char **bad;    /* names of blobs with reported errors */
        char **layers; /* that were uncompressed: digest and name */
        bool too_many;
} Check;

/* PATH: in the document, "" for all of it. */
void check_report(Check *c, const char *document, const char *path, const char *message);

/* The layers of an image, each uncompressed, and as many as its config has digests of. CONFIG_NAME and
 * MANIFEST are the names, for messages, of the config and of the document that lists the layers. */
int check_layers(Check *c, const char *config_name, const OciConfig *config, char *const *layers,
                 const char *manifest, Error *e);
