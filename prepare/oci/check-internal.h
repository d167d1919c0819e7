/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What check.c and check-layers.c share. */

#include "prepare/oci/oci-internal.h"

#define BLOBS_MAX 10000U

typedef enum BlobKind { BLOB_DOCUMENT, BLOB_CONFIG, BLOB_LAYER } BlobKind;

typedef struct Blob {
        OciDescriptor descriptor;
        BlobKind kind;
} Blob;

/* What a manifest says of an image: the names of the files that hold its parts. */
typedef struct CheckImage {
        char *config;
        char **layers;
} CheckImage;

typedef struct Check {
        Files *files;
        OciReport report;
        void *userdata;
        uint64_t n_findings;
        Blob *blobs; /* all that were reached, in this order */
        size_t n_blobs, allocated;
        CheckImage *images;
        size_t n_images, images_allocated;
        char **bad;    /* names of blobs of which something was reported */
        char **layers; /* that were uncompressed: digest and name */
        bool too_many;
} Check;

/* PATH: in the document, "" for all of it. */
void check_report(Check *c, const char *document, const char *path, const char *message);

/* The layers of an image, each uncompressed, and as many as its config has digests of. CONFIG_NAME and
 * MANIFEST are what messages call the config, and where the layers are listed. */
int check_layers(Check *c, const char *config_name, const OciConfig *config, char *const *layers,
                 const char *manifest, Error *e);
