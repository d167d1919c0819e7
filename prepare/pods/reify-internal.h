/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Shared by the sources of reifying. */

#include "prepare/pods/pods-internal.h"
#include "schema/settings.h"

/* Mounts and mount points that one app may have; an image could name any number. */
#define APP_MOUNTS_MAX 512U

/* The image of an app. */
typedef struct AppImage {
        Image *image;
        char **layers; /* see image_layers() */
} AppImage;

/* An image that is mounted as a volume. */
typedef struct VolumeImage {
        char *reference; /* of the request */
        Image *image;
        char **layers; /* NULL: no volume has it yet */
} VolumeImage;

typedef struct Reify {
        Pod *pod;
        const PodRequest *request;
        PodManifest *manifest;          /* becomes the pod's manifest */
        size_t first_app, first_volume; /* those before are there already, and stay as they are */
        bool adds;                      /* one app to a pod that runs */
        const PodApp *old;              /* which takes the place of this one; or NULL */
        const char **kept; /* for each mount of the app: the volume that the old one has there; NULL: none */
        size_t n_kept;
        AppImage *images; /* of the apps from the first on, in their order */
        size_t n_images, images_allocated;
        Fetcher *fetcher;
        ImageIndex *index; /* of the store; owned by the fetcher */
        Image **found;     /* the fetched image of each app, until it is taken */
        size_t n_found;
        VolumeImage *volume_images;
        size_t n_volume_images, volume_images_allocated;
        char ***warnings;
} Reify;

#define DEFINITION_FILE "definition"

/* pod-app-path.c: the annotation with which the manifest distinguishes an app from the one of the same image that it replaced. */
#define APP_REVISION "acnspawn-revision"
/* Sets it for APP, which replaces OLD. -ENOMEM. */
int pod_app_set_revision(PodApp *app, const PodApp *old);

/* The definition in the file PATH of the pod directory; errors as pod_definition_read() (definition.c). */
int definition_read(const Pod *p, const char *path, PodDefinition *ret, Error *e);
/* What a definition has of a request as a whole, and of an app (definition.c). -ENOMEM. */
int pod_request_members(const PodRequest *q, json_object **ret);
int app_overrides_members(const AppOverrides *o, json_object **ret);

int reify_warn(Reify *r, Error *e, const char *format, ...) _printf_(3, 4);

/* Record the named volumes of the request with the pod while its images are fetched (request-volumes.c). */
int awaited_volumes_write(const Pod *p, const PodRequest *q, Error *e);
void awaited_volumes_drop(const Pod *p);

/* Copies of parts of manifests (pod-request.c). The previous value of RET is ignored. */
int copy_string(const char *s, char **ret); /* NULL stays NULL */
int volume_copy(const Volume *v, Volume *ret);
int mount_copy(const Mount *m, Mount *ret);
int exposed_port_copy(const ExposedPort *p, ExposedPort *ret);
int isolator_list_copy(const IsolatorList *l, IsolatorList *ret);
/* Copies the settings of VOLUME, an annotation of a pod, if it has some (pod-apps.c). */
int volume_settings_copy(const PairList *from, const char *volume, PairList *to);
/* Sets all pairs of FROM in INTO. */
int pair_list_merge(PairList *into, const PairList *from);

/* Merges the isolators of a command line into those of a manifest (reify-app.c): they replace those of the
 * same name, and those that contradict them. WHOSE names the app or the pod in messages. */
int isolators_override(IsolatorList *into, const IsolatorList *overrides, const char *whose, Error *e);

/* Fetches every image into the store (reify-images.c). The store is not locked yet; once it is, the images
 * are taken. */
int reify_fetch(Reify *r, Error *e);
int reify_take_image(Reify *r, size_t i, Image **ret, Error *e);
/* The app of O, which is nested under another one, gets a *NAME for its place instead of its own, and a path (reify-nested.c).
 * Without O->parent it stays. */
int reify_nested_name(const Reify *r, const AppOverrides *o, char **name, char **ret_path, Error *e);
/* Gives A, which has this path, the volumes that its parent shares with it. */
int reify_nested_app(const Reify *r, PodApp *a, const char *path, Error *e);
/* The apps: their images, and the options for them (reify-app.c). */
int reify_apps(Reify *r, Error *e);
/* Applies the image's settings for running its app, unless the user has set them
 * (reify-image-settings.c). */
int reify_image_settings(Reify *r, PodApp *a, const ImageManifest *image, bool oci, Error *e);
/* Marks the ports of A that its setting "socket-activated" names, and adds those that the image does not declare
 * (reify-socket-ports.c). */
int reify_socket_ports(PodApp *a, Error *e);
/* Check the apps and volumes of a template, as far as possible without their images and without the host. */
int template_app_check(const PodApp *t, Error *e);
int template_volume_check(const Volume *v, Error *e);
/* Checks A's mount points: their number, and that no two have the same path. */
int mount_points_check(const PodApp *a, Error *e);
/* Volumes, mounts and mount points (reify-volumes.c, reify-mounts.c). */
int reify_volumes(Reify *r, Error *e);
int reify_mounts(Reify *r, Error *e);
/* Fetches the images that are volumes, as reify_fetch() does those of apps (reify-volume-images.c). */
int reify_fetch_volumes(Reify *r, Error *e);
/* V, a volume of the manifest with the settings S, is an image: the manifest gets its ID. */
int reify_volume_image(Reify *r, Volume *v, const VolumeSettings *s, Error *e);
/* Its layers, once that is done. */
char *const *reify_volume_layers(const Reify *r, const char *id);
void reify_volume_images_done(Reify *r);
/* Fills in KEPT. (reify-kept.c) */
int reify_keep_volumes(Reify *r, Error *e);
/* Checks the targets of A's mounts in its root, and warns of files that they hide (reify-targets.c). */
int reify_targets(Reify *r, const PodApp *a, char *const *layers, Error *e);
/* Finds PATH in the merged LAYERS, following symlinks within them. -ENOENT, -ELOOP, -ENAMETOOLONG. (reify-targets.c) */
int reify_find_path(char *const *layers, const char *path, struct stat *ret);
/* Adds an empty volume with a unique name that begins with NAME. The name remains owned by the volume. */
int reify_add_volume(Reify *r, const char *name, const Volume *like, const char **ret_name, Error *e);
/* The directories and files of the pod (reify-write.c). */
int reify_write(Reify *r, Error *e);
/* Writes the credentials of the apps (credentials.c). */
int reify_write_credentials(Reify *r, Error *e);
