/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* prepare/collect/: removing pods, images, layers and downloads that are not used. It knows both images and
 * pods, which do not know each other's users. */

#include "prepare/pods/pods.h"

typedef struct GcItem {
        const char *kind;  /* "pod", "image", "download", "name", "uids", "layer", "rendered", "origin" */
        const char *id;    /* UUID; name in the store; the origin of an image */
        const char *name;  /* of a pod or image that has one, or NULL */
        const char *state; /* former state of a pod; "unfinished"; or NULL */
        uint64_t size;     /* bytes of disk space */
} GcItem;

typedef struct GcOptions {
        uint64_t grace_usec;            /* exited pods younger than this stay */
        uint64_t expire_prepared_usec;  /* prepared pods older than this are removed; UINT64_MAX: never */
        uint64_t expire_downloads_usec; /* the same for interrupted downloads */
        bool dry_run;
        /* Called before a pod directory is removed, to clean up what the pod left elsewhere (cgroups, for
         * example); if it fails, the pod stays. May be NULL. */
        int (*release)(Pod *p, void *userdata, Error *e);
        /* Called for each thing that was removed (or would be). May be NULL. */
        void (*removed)(const GcItem *item, void *userdata);
        void *userdata;
} GcOptions;

/* Removes pods that ended, preparations that were interrupted, partly unpacked images, unused layers, names
 * and uid ranges without a pod. Continues after a failure and returns the first one. */
int store_gc(Store *s, const GcOptions *o, Error *e);

typedef struct ImageGcOptions {
        uint64_t grace_usec; /* images used more recently stay */
        bool dry_run;
        /* Called for each "image", "layer" or "rendered" tree that was (or would be) removed; may be NULL. */
        void (*removed)(const GcItem *item, void *userdata);
        void *userdata;
} ImageGcOptions;

/* Removes images that were not used for a while and that neither pods nor other images need, layers that no
 * image has, and trees that were rendered from removed images or layers. Continues after a failure and
 * returns the first one. */
int image_gc(Store *s, const ImageGcOptions *o, Error *e);

/* The pods that are prepared or running and need the image. */
int image_users(Store *s, const char *id, char ***ret, Error *e);

/* Refuses an image that a pod that is prepared or running needs (message lists the pods) or another image
 * depends on. */
int image_remove(Store *s, const char *reference, char **ret_id, Error *e);
