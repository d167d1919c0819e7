/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* stage0/mounts/: roots, volumes, devices and credentials of apps, as mounts.
 *
 * The supervisor of a running pod mounts them in its own mount namespace, and passes clones of them, as descriptors, to
 * each process of an app (mounts.c). Commands mount the root of an app of a pod that does not run (app-root.c). */

#include "prepare/prepare.h"
#include "stage0/host/device-filter.h"
#include "stage1/launch-protocol.h"

/* --- mounts.c: in the mount namespace of the supervisor ------------------------------------------------- */

typedef struct PodMounts PodMounts;

/* The caller must have a mount namespace of its own by then. */
int pod_mounts_new(Pod *p, PodMounts **ret, Error *e);
/* Passes the mount namespace of the host, which is taken over, where the sources of volumes and devices are. */
void pod_mounts_set_host(PodMounts *m, MountNamespace *host);
/* Mounts /dev and the credentials. Credentials are moved: after this they are not in the pod directory any
 * more. Only for the supervisor. */
int pod_mounts_mount_devices(PodMounts *m, Error *e);
PodMounts *pod_mounts_free(PodMounts *m);
DEFINE_TRIVIAL_CLEANUP_FUNC(PodMounts *, pod_mounts_free);
/* Sets the content of the files of names for overlays that are made from now on, until files of the host are changed; without this
 * call they are not written. The pod's networks must be up. */
int pod_mounts_make_names(PodMounts *m, Error *e);
/* Makes the overlay of APP, if it is not there yet; with FRESH one that nothing was written to. */
int pod_mounts_prepare_app(PodMounts *m, const PodApp *app, bool fresh, Error *e);
#define RETIRED_UPPER "upper.old"
/* Moves the files that the last execution of APP has written to RETIRED_UPPER in the directory of which a
 * descriptor is returned. -ENOENT: there are none, or this is done when the next execution gets its root.
 * Until then the app has no root. */
int pod_mounts_retire_app(PodMounts *m, const PodApp *app);
/* Adds the mounts of APP, which was added to the running pod: its credentials, and (NOTIFY) a directory for its
 * readiness socket. */
int pod_mounts_take_app(PodMounts *m, const PodApp *app, bool notify, Error *e);
/* Unmounts everything that is mounted only for the app of that name, which has no process any more. */
void pod_mounts_remove_app(PodMounts *m, const char *name);
/* The pod has no volume of that name any more: another one may get it. Frees what a volume in memory has. */
void pod_mounts_forget_volume(PodMounts *m, const char *name);
/* Another APP replaces the one of that name: it gets a new root, and that of the old app is kept
 * unchanged. */
int pod_mounts_replace_app(PodMounts *m, const PodApp *app, bool notify, Error *e);
/* Restores the root of the old app, or (if the new app stays) drops it. */
void pod_mounts_restore_app(PodMounts *m, const char *name);
void pod_mounts_forget_replaced(PodMounts *m, const char *name);
/* credentials.c: the names, sorted, of the credentials in which L differs from what APP has. */
int pod_mounts_compare_credentials(const PodMounts *m, const PodApp *app, const CredentialList *l,
                                   char ***ret);
/* sources.c: the sources of an app's volumes and devices on the host. */
typedef struct MountSources MountSources;
MountSources *mount_sources_free(MountSources *s);
DEFINE_TRIVIAL_CLEANUP_FUNC(MountSources *, mount_sources_free);
/* Opens the sources of one process of APP, without requests to file systems, which may hang. 1: all are open; 0: a child has
 * to open the rest. */
int pod_mounts_open_sources(PodMounts *m, const PodApp *app, MountSources **ret, Error *e);
/* Runs in that child and ends it: opens the rest of S, and sends the descriptors. */
_noreturn_ void pod_mounts_ask_sources(PodMounts *m, const PodApp *app, const MountSources *s, int sock);
/* In the parent: receives one message of the child. 1: it was the last one. */
int mount_sources_receive(MountSources *s, int sock, Error *e);

typedef struct ClonedMounts {
        size_t n;
        bool has_credentials, has_maker;
} ClonedMounts;

/* Detached mounts for one process of APP, in the order of the launch protocol from LAUNCH_FD_ROOT on. What is in SOURCES, which are
 * complete, is used up. *RET_RULES, also on failure: the devices that it can open; to be freed. */
int pod_mounts_clone_app(PodMounts *m, const PodApp *app, MountSources *sources, int *ret_fds,
                         ClonedMounts *ret, DeviceRules *ret_rules, Error *e);
/* devices.c: the null device in the /dev of apps. */
int pod_mounts_open_null(const PodMounts *m);
/* control.c: a listening socket for the calls of APP, with TOKEN beside it, where only APP finds them. 0: both are there already, and
 * not to be renewed; 1: they are new. -EEXIST: the app has a credential of such a name. */
int pod_mounts_open_control(PodMounts *m, const PodApp *app, const char *token, bool renew, int *ret);
/* notify.c: a new socket, bound where only APP can send to it. */
int pod_mounts_open_notify(PodMounts *m, const PodApp *app);
/* A detached mount of the file that it is bound to. */
int pod_mounts_clone_notify(PodMounts *m, const PodApp *app);
/* pod-terminals.c: bounds the terminals in the pod's own /dev/pts, which its PID 1, LEADER, has. */
int pod_limit_terminals(const Pod *p, pid_t leader);
/* Moves this process to a new mount namespace that receives mounts and unmounts of the host, but passes none back. *RET_BEFORE,
 * unless it is NULL, is the namespace before. */
int mount_namespace_unshare(MountNamespace *ret_before, Error *e);

/* --- name-files.c ---------------------------------------------------------------------------------------- */

/* Whether the file FD (O_PATH will do) with the attributes ST is one of the files of names that were made
 * for an app whose image had none, and is unchanged since: it is no part of the changes that the app has
 * made to its image. */
bool name_file_is_made(int fd, const struct stat *st);

/* --- app-root.c: roots of apps that are not running ---------------------------------------------------- */

/* The root of an app of a pod that does not run, and that is locked: the image's layers and the files that
 * the app wrote, without volumes. It is mounted nowhere, and disappears when its last descriptor is closed.
 * WRITABLE: changes go to the app's writable layer; otherwise the pod is unchanged. */
int app_root_mount(Pod *p, const PodApp *app, bool writable, int *ret_fd, Error *e);
