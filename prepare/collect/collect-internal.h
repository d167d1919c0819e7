/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the files of prepare/collect/ share. */

#include "prepare/collect/collect.h"

/* Where the pods are that need their images, relative to the store (image-remove.c). */
#define N_NEEDING_PLACES 3U
extern const char *const needing_places[N_NEEDING_PLACES];

typedef struct LayersCollect {
        bool dry_run;
        void (*removed)(const char *id, void *userdata); /* for each that goes, or would; or NULL */
        void *userdata;
} LayersCollect;

/* Removes the layers that nobody needs (layers.c). Takes the store's lock exclusively. */
int layers_collect(Store *s, const LayersCollect *c, Error *e);
