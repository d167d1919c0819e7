/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Shared by importing and checking an image archive. Internal to prepare/images/. */

#include "prepare/images/images.h"
#include "prepare/unpack/unpack.h"

/* The state of reading an image archive, for an ArchiveEntryFunction. */
typedef struct AciReader {
        ArchiveReader *reader;
        char *manifest; /* set when its entry was read */
        size_t manifest_size;
        char *unexpected_entry; /* a name that is not allowed in an image, if there was one */
        /* Called for an entry that is rootfs or below it. */
        int (*entry)(const char *path, struct archive *a, struct archive_entry *entry, void *userdata,
                     Error *e);
        void *userdata;
} AciReader;

void aci_reader_done(AciReader *x);
int aci_reader_entry(struct archive *a, struct archive_entry *entry, void *userdata, Error *e);
/* After the last entry: there is a manifest, there was a rootfs, and the manifest is valid. */
int aci_reader_finish(AciReader *x, bool has_rootfs, ImageManifest **ret, Findings *findings, Error *e);
