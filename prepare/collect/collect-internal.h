/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Shared by the sources of prepare/collect/. */

#include "prepare/collect/collect.h"

/* The directories of pods that may need their images, relative to the store (image-remove.c). */
#define N_NEEDING_PLACES 4U
extern const char *const needing_places[N_NEEDING_PLACES];
/* Whether the pod whose directory is PATH, in that place, does: one that has ended only while it is read. */
bool pod_needs_images(const Store *s, size_t place, const char *path);

typedef struct LayersCollect {
        bool dry_run, unmeasured;
        char *const *gone_images; /* for a dry run, counted as already removed: IDs of images … */
        char *const *gone_trees;  /* … and keys of rendered trees */
        GcSelected selected;      /* NULL: each */
        /* For each layer and rendered tree that is removed, or would be; or NULL. */
        void (*removed)(const GcItem *item, void *userdata);
        void *userdata;
} LayersCollect;

/* Removes the layers that neither an image nor a pod needs, and the trees rendered from them (layers.c).
 * Takes the store's lock exclusively. */
int layers_collect(Store *s, const LayersCollect *c, Error *e);

/* Checked with the store's lock held exclusively (image-remove.c). -EBUSY, with a message: a pod that is
 * prepared or running, or an image not in GONE, needs the image. The index X is brought up to date. */
int image_check_unneeded(Store *s, ImageIndex *x, const char *id, char *const *gone, Error *e);
/* The keys of the trees that were rendered from the image. */
int image_rendered_trees(Store *s, const char *id, char ***ret, Error *e);
/* Moves it out of the store, with the trees rendered from it; store_temporary_done() then removes them. */
int image_detach(Store *s, const char *id, StoreTemporary *ret, Error *e);
/* The pods that are prepared or running and whose files name WHAT: an ID, the key of a rendered tree. */
int pods_that_need(Store *s, const char *what, char ***ret, Error *e);
