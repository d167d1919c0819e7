/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* prepare/collect/: removes pods, images, layers, downloads and volumes that are not used. It is above images/ and
 * pods/, as both together tell which image is used. */

#include "prepare/volumes/volumes.h"

typedef struct GcItem {
        const char *kind;  /* "pod", "image", "download", "name", "uids", "layer", "rendered", "origin",
                      * "volume" */
        const char *id;    /* UUID; name in the store; the origin of an image */
        const char *name;  /* of a pod or image that has one, or NULL */
        const char *state; /* former state of a pod; "unfinished"; or NULL */
        uint64_t size;     /* bytes of disk space */
} GcItem;

/* Whether the object of this KIND and ID, as in a GcItem, may be removed. Trees that are rendered from an image are removed with
 * it, and records of what is not there any more ("name", "uids", "origin") are always. */
typedef bool (*GcSelected)(const char *kind, const char *id, void *userdata);

typedef enum GcParts {
        GC_PODS = 1 << 0,      /* with names and uid ranges */
        GC_DOWNLOADS = 1 << 1, /* with partly unpacked images */
        GC_LAYERS = 1 << 2,
        GC_ORIGINS = 1 << 3, /* what is recorded of the origins of removed images */
} GcParts;

/* Pods that stay though they are due: something outside of the store refers to them. */
typedef struct KeptPods {
        char **names; /* names, UUIDs and beginnings of UUIDs, of KEPT_PREFIX_MIN characters at least */
        bool all;     /* it is not known which */
} KeptPods;

#define KEPT_PREFIX_MIN 4U
void kept_pods_done(KeptPods *k);
#define _cleanup_kept_pods_ _cleanup_(kept_pods_done)
/* True if P is one of them; K may be NULL. */
bool kept_pods_have(const KeptPods *k, const Pod *p);

typedef struct GcOptions {
        unsigned parts;                 /* GcParts; 0: all */
        uint64_t grace_usec;            /* exited pods younger than this stay */
        uint64_t expire_prepared_usec;  /* prepared pods older than this are removed; UINT64_MAX: never */
        uint64_t expire_downloads_usec; /* the same for interrupted downloads */
        const KeptPods *kept;           /* prepared and exited pods that stay; or NULL */
        bool dry_run;
        bool unmeasured; /* the items have no sizes, which take a while */
        /* Called before a pod directory is removed, to clean up what the pod left elsewhere (cgroups, for
         * example); if it fails, the pod stays. May be NULL. */
        int (*release)(Pod *p, void *userdata, Error *e);
        GcSelected selected; /* NULL: each */
        /* Called for each thing that was removed (or would be). May be NULL. */
        void (*removed)(const GcItem *item, void *userdata);
        void *userdata;
} GcOptions;

#define GC_OPTIONS_DEFAULT                                                                                  \
        ((GcOptions){.grace_usec = 30 * 60 * UINT64_C(1000000),                                             \
                     .expire_prepared_usec = 24 * 3600 * UINT64_C(1000000),                                 \
                     .expire_downloads_usec = 24 * 3600 * UINT64_C(1000000)})

/* Removes pods that ended, preparations that were interrupted, partly unpacked images, unused layers, names
 * and uid ranges without a pod. Continues after a failure and returns the first one. */
int store_gc(Store *s, const GcOptions *o, Error *e);

typedef struct ImageGcOptions {
        uint64_t grace_usec; /* images used more recently stay */
        char *const *kept;   /* IDs of images that stay, with what they depend on; or NULL */
        bool dry_run;
        bool unmeasured;     /* the items have no sizes */
        GcSelected selected; /* NULL: each */
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

/* --- Pruning (prune.c) --------------------------------------------------------------------------------- */

typedef enum PruneParts {
        PRUNE_IMAGES = 1
                       << 0, /* images that neither a pod nor another image needs, layers, rendered trees */
        PRUNE_PODS = 1 << 1, /* pods that ended, and preparations that were interrupted */
        PRUNE_DOWNLOADS = 1 << 2, /* downloads that were interrupted, and partly unpacked images */
        PRUNE_VOLUMES = 1 << 3,   /* named volumes that no pod uses */
} PruneParts;

/* What stays though no pod of the store needs it: what pods need that are declared in files. */
typedef struct PruneKept {
        KeptPods pods;
        char **images;                /* IDs, as in ImageGcOptions */
        char **volumes;               /* names */
        bool all_images, all_volumes; /* it is not known which */
} PruneKept;

void prune_kept_done(PruneKept *k);
#define _cleanup_prune_kept_ _cleanup_(prune_kept_done)

typedef struct PruneOptions {
        unsigned parts;        /* PruneParts */
        const PruneKept *kept; /* or NULL */
        bool dry_run, unmeasured;
        /* As in GcOptions. */
        GcSelected selected;
        int (*release)(Pod *p, void *userdata, Error *e);
        void (*removed)(const GcItem *item, void *userdata);
        void *userdata;
} PruneOptions;

/* Removes what is not used, whatever its age. Continues after a failure and returns the first one. */
int store_prune(Store *s, const PruneOptions *o, Error *e);

/* --- Disk space of the store (store-usage.c) ----------------------------------------------------------- */

typedef enum StoreKind {
        STORE_IMAGES,
        STORE_LAYERS,
        STORE_RENDERED,
        STORE_PODS, /* without their logs */
        STORE_LOGS, /* journals of pods */
        STORE_VOLUMES,
        STORE_DOWNLOADS, /* with partly unpacked images */
        _STORE_KIND_MAX
} StoreKind;

const char *store_kind_to_string(StoreKind k);

typedef struct StoreObject {
        StoreKind kind;
        char *id;       /* UUID of a pod, also for its logs; name of a volume; else the name in the store */
        char *name;     /* of an image or a pod; or NULL */
        uint64_t size;  /* bytes of disk space */
        uint64_t quota; /* of a volume: the most that it may use; or 0 */
        bool reclaimable; /* store_prune() would remove it now */
} StoreObject;

typedef struct StoreUsage {
        StoreObject *items;
        size_t n, allocated;
} StoreUsage;

/* KEPT: as in PruneOptions. */
int store_usage_read(Store *s, const PruneKept *kept, StoreUsage *ret, Error *e);
void store_usage_done(StoreUsage *u);
#define _cleanup_store_usage_ _cleanup_(store_usage_done)
