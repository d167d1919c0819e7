/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the sources of the pod's mounts (mounts*.c) share. */

#include <sys/mount.h>

#include "stage0/run/run-internal.h"

typedef struct Layer {
        char *path; /* in the store */
        unsigned index;
} Layer;

typedef struct AppMount {
        char *name;
        unsigned index;
        bool mounted;
        bool used; /* a process of the app had it */
} AppMount;

struct PodMounts {
        Pod *pod;
        int dir_fd; /* the pod directory, opened in our namespace: mounts are made and cloned from this one
                       only */
        int holder_fd; /* root of the tmpfs */
        int userns_fd;
        NameFiles names;
        Layer *layers;
        size_t n_layers, layers_allocated;
        AppMount *apps;
        size_t n_apps, apps_allocated;
};

/* mounts.c. A detached clone of the mount at PATH in DIR_FD, or of DIR_FD itself if PATH is empty. */
int mount_clone(int dir_fd, const char *path, bool recursive);
/* Moves a detached mount to what is at NAME of DIR_FD. */
int mount_attach(int mount_fd, int dir_fd, const char *name);
int mount_set_attributes(int mount_fd, struct mount_attr attr, bool recursive);
/* Makes owners on a detached mount those of the pod's range, if it has one. */
int pod_mounts_id_map(PodMounts *m, int mount_fd, bool recursive);
/* Mounts the layers of an app's image below the holder, and appends their names, as an overlay wants them. *RET_TOP is
 * where the uppermost one is in the store. */
int pod_mounts_list_layers(PodMounts *m, const char *app, Text *t, char **ret_top, Error *e);
/* Gives the root in the app's writable layer the owner and mode that the image has for it; RENEW: after emptying it. */
int pod_mounts_make_upper(PodMounts *m, const char *app, const char *top, bool renew);
AppMount *pod_mounts_find_app(PodMounts *m, const char *name);

/* Puts a detached mount at NAME of the holder. */
int pod_mounts_hold(PodMounts *m, int mount_fd, const char *name);

/* mounts-lock.c. Clones of these detached mounts, in their places, whose restrictions nobody in the pod can take
 * away. */
int pod_mounts_lock(PodMounts *m, int *mount_fds, size_t n, Error *e);

/* mounts-names.c. Puts the files of names into the root of APP, an overlay nothing was written to yet. */
int pod_mounts_write_names(PodMounts *m, const PodApp *app, int root_fd, Error *e);

/* mounts-dev.c */
int pod_mounts_make_dev(PodMounts *m);
