/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the parts of reifying share. */

#include "prepare/pods/pods-internal.h"

/* Mounts and mount points that one app may have; an image could name any number. */
#define APP_MOUNTS_MAX 512U

/* What an app is made of. */
typedef struct AppImage {
        Image *image;
        char **layers; /* see image_layers() */
} AppImage;

typedef struct Reify {
        Pod *pod;
        const PodRequest *request;
        PodManifest *manifest; /* what becomes the pod's */
        AppImage *images;      /* of the apps, in their order */
        size_t n_images, images_allocated;
        Fetcher *fetcher;
        ImageIndex *index; /* of the store; the fetcher's */
        Image **found;     /* for each app what it was fetched as, until it is taken */
        size_t n_found;
        char ***warnings;
} Reify;

int reify_warn(Reify *r, Error *e, const char *format, ...) _printf_(3, 4);

/* Copies of parts of manifests (pod-request.c). What RET holds before is not looked at. */
int copy_string(const char *s, char **ret); /* NULL stays NULL */
int volume_copy(const Volume *v, Volume *ret);
int mount_copy(const Mount *m, Mount *ret);
int exposed_port_copy(const ExposedPort *p, ExposedPort *ret);
int isolator_list_copy(const IsolatorList *l, IsolatorList *ret);
/* Sets all pairs of FROM in INTO. */
int pair_list_merge(PairList *into, const PairList *from);

/* Merges the isolators of a command line into those of a manifest (reify-app.c): they replace those of the
 * same name, and those that contradict them. WHOSE names the app or the pod in messages. */
int isolators_override(IsolatorList *into, const IsolatorList *overrides, const char *whose, Error *e);

/* Brings every image into the store (reify-images.c). The store is not locked yet; once it is, each is
 * taken. */
int reify_fetch(Reify *r, Error *e);
int reify_take_image(Reify *r, size_t i, Image **ret, Error *e);
/* The apps: their images, and what was asked of them beyond these (reify-app.c). */
int reify_apps(Reify *r, Error *e);
/* What the image says about how its app is run, where the user says nothing (reify-image-settings.c). */
int reify_image_settings(Reify *r, PodApp *a, const ImageManifest *image, Error *e);
/* What can be checked of the apps and volumes of a template without their images and without the host. */
int template_app_check(const PodApp *t, Error *e);
int template_volume_check(const Volume *v, Error *e);
/* A's own mount points: how many they are, and that no two have the same path. */
int mount_points_check(const PodApp *a, Error *e);
/* Volumes, mounts and mount points (reify-volumes.c, reify-mounts.c). */
int reify_volumes(Reify *r, Error *e);
int reify_mounts(Reify *r, Error *e);
/* Checks where the mounts of A are in its root, and warns of what they hide (reify-targets.c). */
int reify_targets(Reify *r, const PodApp *a, char *const *layers, Error *e);
/* Adds an empty volume of a name that begins with NAME and that nothing else has. The name stays the
 * volume's. */
int reify_add_volume(Reify *r, const char *name, const Volume *like, const char **ret_name, Error *e);
/* The directories and files of the pod (reify-write.c). */
int reify_write(Reify *r, Error *e);
/* Their credentials, until the pod runs (credentials.c). */
int reify_write_credentials(Reify *r, Error *e);
