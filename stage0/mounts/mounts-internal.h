/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Shared by the sources of stage0/mounts/. */

#include <sys/mount.h>

#include "stage0/host/host.h"
#include "stage0/mounts/mounts.h"
#include "stage0/network/network.h"

/* --- names.c: /etc/hostname, /etc/hosts and /etc/resolv.conf of apps ----------------------------------- */

typedef enum NameFile { NAME_HOSTNAME, NAME_HOSTS, NAME_RESOLV_CONF, _NAME_FILE_MAX } NameFile;

const char *name_file_path(NameFile f); /* "/etc/hosts" */

#define HOST_NAME_FILES 3U

typedef struct NameFiles {
        char *text[_NAME_FILE_MAX]; /* NULL: none is made */
        bool asked[_NAME_FILE_MAX]; /* by the user: it takes the place of what an image brings */
        bool lacks_servers;         /* the pod has networks, and no name server that it can reach */
        struct {
                dev_t device;
                ino_t inode;
                struct timespec changed;
        } read[HOST_NAME_FILES]; /* files of the host that they are made of, as they were then */
} NameFiles;

void name_files_done(NameFiles *f);
/* For a pod whose networks are up; in the host's mounts. */
int name_files_make(Pod *p, NameFiles *ret, Error *e);
/* Whether files of the host were changed since then. */
bool name_files_are_old(const NameFiles *f);
/* Pure. The content of a resolver file; with REACHABLE only those servers that are not on the host's own
 * loopback and can be reached from elsewhere. Lines that are not understood are skipped. */
int resolv_conf_parse(const char *text, bool reachable, NetworkDns *ret);
/* Pure. NULL: the file is to be empty. */
int resolv_conf_format(const NetworkDns *d, char **ret);

/* --- mounts.c ------------------------------------------------------------------------------------------- */

typedef struct Layer {
        char *path; /* in the store; NULL: the place is free */
        unsigned index;
} Layer;

/* The root of an app. */
typedef struct AppOverlay {
        unsigned index;   /* in the name of the mount; no other has it, or had it before */
        unsigned *layers; /* by their indices */
        size_t n_layers;
        bool mounted;
        bool used;            /* a process of the app had it */
        bool kept;            /* it is to be reused as it is */
        bool retired;         /* pod_mounts_retire_app() */
        unsigned credentials; /* in the name of their mount: that of the app, or of the one that it got them from */
} AppOverlay;

typedef struct AppMount {
        char *name;
        unsigned index; /* no other app has it, or had it before */
        AppOverlay root;
        AppOverlay *parked; /* of the app before this one: pod_mounts_replace_app(); NULL: there is none */
} AppMount;

/* What is known of a volume that was mounted before. */
typedef struct VolumeMount {
        char *name; /* NULL: the place is free */
        VolumeSettings settings;
        int ranges_fd;    /* user namespace of settings.ranges, or -EBADF */
        bool held;        /* of a volume in memory: it is in the holder, as v<index> */
        AppOverlay image; /* that it is; without layers if it is none, or was not mounted yet */
} VolumeMount;

struct PodMounts {
        Pod *pod;
        int dir_fd; /* the pod directory, opened in our namespace: mounts are made and cloned from this one
                       only */
        int holder_fd; /* the root of the tmpfs */
        int userns_fd;
        MountNamespace host; /* or none */
        NameFiles names;
        Layer *layers;
        size_t n_layers, layers_allocated;
        bool has_credentials; /* some app has credentials */
        bool has_plain_dev;   /* the /dev without a console exists */
        bool has_nothing;     /* image-volume.c has its empty file system */
        bool has_notify;      /* the sockets of notify.c have their place */
        AppMount *apps;
        size_t n_apps, apps_allocated;
        unsigned next_index; /* of apps */
        VolumeMount *volumes;
        size_t n_volumes, volumes_allocated;
};

/* mounts.c. Mounts the layers of an app's image below the holder, and appends their names, as an overlay
 * wants them. *RET_TOP is where the uppermost one is in the store. */
int pod_mounts_list_layers(PodMounts *m, const char *app, Text *t, char **ret_top, Error *e);
/* The same of any LOWERS, which are layers of O from now on. */
int pod_mounts_add_layers(PodMounts *m, char *const *lowers, AppOverlay *o, Text *t, Error *e);
#define OVERLAY_OPTIONS_MAX 4000U /* the kernel takes one page */
/* As pod_app_path(), of an app of the pod by its name. */
int pod_mounts_app_path(const PodMounts *m, const char *app, const char *file, char **ret);
/* The directory of APP in the pod's. */
int pod_mounts_open_app(const PodMounts *m, const char *app);
/* Makes the directory NAME in it anew. */
int pod_mounts_renew(int app_fd, const char *name);
/* Gives the root in the app's writable layer the owner and mode that the image has for it; RENEW: after
 * emptying it. */
int pod_mounts_make_upper(PodMounts *m, const char *app, const char *top, bool renew);
/* What is known of APP, which becomes known with this. NULL: out of memory. Stays until another app becomes known. */
AppMount *pod_mounts_know_app(PodMounts *m, const char *name);

/* Puts a detached mount at NAME of the holder. */
int pod_mounts_hold(PodMounts *m, int mount_fd, const char *name);
/* Unmounts and removes NAME of the holder, if it is there. */
void pod_mounts_let_go(PodMounts *m, const char *name);

/* lock.c. Clones of these detached mounts, in their places, whose restrictions cannot be lifted in
 * the pod. */
int pod_mounts_lock(PodMounts *m, int *mount_fds, size_t n, Error *e);

/* name-files.c. Puts the files of names into the root of APP, an overlay nothing was written to yet: as they would be for a pod that
 * is started now. */
int pod_mounts_write_names(PodMounts *m, const PodApp *app, int root_fd, Error *e);

/* volume.c. A detached mount of the volume for one process of an app. SOURCE, which is taken: that of its source, if it is of the host. */
int pod_mounts_clone_volume(PodMounts *m, const Volume *v, int source, bool read_only, Error *e);
/* What is known of the volume from now on. Stays until another one becomes known. */
int pod_mounts_know_volume(PodMounts *m, const Volume *v, VolumeMount **ret, Error *e);
void volume_mount_done(VolumeMount *v);

/* clone.c. Of an instance of devpts in the pod that has at most MAX terminals. */
#define TERMINALS_MIN 16U
typedef struct TerminalOptions {
        char group[16], max[16];
        const char *list[9];
} TerminalOptions;
void terminal_options(const Pod *p, unsigned max, TerminalOptions *ret);
/* Of mount I of APP; NULL: there is none. */
const Volume *pod_mounts_volume_of(const PodMounts *m, const PodApp *app, size_t i);

/* sources.c. Of mount I; -EBADF: there is none. Is given away. */
int mount_sources_take(MountSources *s, size_t i);
int mount_sources_take_dev(MountSources *s, DeviceRules *ret_rules);

/* image-volume.c. A detached mount of the image that the volume V, known as KNOWN, is. */
int pod_mounts_clone_image(PodMounts *m, const Volume *v, VolumeMount *known, Error *e);
/* mounts.c. Unmounts what is mounted for it. */
void pod_mounts_release_image(PodMounts *m, VolumeMount *v);

/* credentials.c */
int pod_mounts_take_credentials(PodMounts *m, Error *e);
/* Those of APP, which replaces another one whose place A is, if it has others. */
int pod_mounts_exchange_credentials(PodMounts *m, const PodApp *app, AppMount *a);
/* The directory of what APP has as credentials, which is made if it has none. */
int pod_mounts_open_credentials(PodMounts *m, const PodApp *app);
/* A detached mount of the credentials of APP. -ENOENT (without a message): it has none. */
int pod_mounts_clone_credentials(PodMounts *m, const PodApp *app, Error *e);

/* devices.c */
int pod_mounts_make_dev(PodMounts *m);
/* What an app with these settings has in /dev in any case, in the empty file system at DEV_FD. */
int pod_mounts_fill_dev(const PodMounts *m, const AppSettings *s, int dev_fd, bool credentials);
/* The same as a detached mount, which apps share. */
int pod_mounts_clone_common_dev(PodMounts *m, const AppSettings *s);
/* app-devices.c: a detached mount of /dev for APP: that of the pod, or one with its devices as well. *RET_RULES, which is empty
 * before: what its processes can open. Unless this process may wait for file systems (WAITS), -EAGAIN if it had to; one that may is
 * in the mount namespace of the host. */
int pod_mounts_clone_dev(PodMounts *m, const PodApp *app, bool waits, DeviceRules *ret_rules, Error *e);
/* The places in DEV_FD, which that function has returned, for volumes of the app, whose mounts are VOLUME_FDS. */
int pod_mounts_finish_dev(const PodApp *app, int dev_fd, const int *volume_fds, Error *e);
/* devices.c: whether FD is one of the devices that every app has. Does not wait for a file system. */
bool device_is_everyones(int fd);
/* Makes the mount points in /dev for an app that was added later. */
int pod_mounts_extend_dev(PodMounts *m, bool notify, bool credentials);
