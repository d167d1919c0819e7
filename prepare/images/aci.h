/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What importing and checking an image archive share. Internal to prepare/images/. */

#include "prepare/images/images.h"
#include "prepare/unpack/unpack.h"

/* The layout of an image archive, as an ArchiveEntryFunction with an AciReader as its data sees it. */
typedef struct AciReader {
        ArchiveReader *reader;
        char *manifest; /* once its entry has come */
        size_t manifest_size;
        char *stranger; /* the name that has no business in an image, if there was one */
        /* Takes an entry that is rootfs or below it. */
        int (*entry)(const char *path, struct archive *a, struct archive_entry *entry, void *userdata,
                     Error *e);
        void *userdata;
} AciReader;

void aci_reader_done(AciReader *x);
int aci_reader_entry(struct archive *a, struct archive_entry *entry, void *userdata, Error *e);
/* After the last entry: there is a manifest, there was a rootfs, and the manifest is valid. */
int aci_reader_finish(AciReader *x, bool has_rootfs, ImageManifest **ret, Findings *findings, Error *e);
