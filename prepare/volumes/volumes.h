/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* prepare/volumes/: named volumes, which belong to the store and stay when pods are removed. Files in them have the
 * users of pods as owners (0…65535); pods with a range of uids of their own mount them id-mapped.
 *
 * A process that makes volumes for a pod holds the store's lock shared until the pod's files record them;
 * removal holds it exclusively. */

#include "prepare/pods/pods.h"

/* --- One volume (volume.c) ----------------------------------------------------------------------------- */

typedef struct NamedVolume {
        char *name;
        uint64_t created_usec; /* since the epoch; 0: not known */
        uint32_t mode, uid, gid;
        PairList labels;
        uint64_t quota; /* bytes that its files may use; 0: no limit */
} NamedVolume;

void named_volume_done(NamedVolume *v);
#define _cleanup_named_volume_ _cleanup_(named_volume_done)

/* Makes the volume with the name, mode, owner, labels and quota of V. 1: it was made; 0: it exists, and was not
 * changed. -EINVAL: the name; -EOPNOTSUPP: the file system has no quotas. */
int named_volume_create(Store *s, const NamedVolume *v, Error *e);
/* Makes those volumes of the pod P (with its manifest), from the index FIRST on, that do not exist. The caller holds the store's lock. */
int pod_volumes_create(const Pod *p, size_t first, Error *e);
/* Quotas of the pod's volumes from the index FIRST on that exist with another one: -EEXIST, or a line of WARNINGS, if that is not NULL,
 * for a pod that is made again. */
int pod_volume_quotas_check(const Pod *p, size_t first, char ***warnings, Error *e);
/* -EINVAL: the name; -ENOENT: there is none; -EBADMSG: its file "meta" is damaged. */
int named_volume_read(const Store *s, const char *name, NamedVolume *ret, Error *e);
/* Its directory with the files, opened with FLAGS; or a negative errno, without a message. */
int named_volume_open_data(const Store *s, const char *name, int flags);
/* The names of all, sorted. */
int named_volume_list(const Store *s, char ***ret, Error *e);
/* Bytes of disk space of its files. */
uint64_t named_volume_size(const Store *s, const char *name);

/* --- Quotas (volume-quota.c) --------------------------------------------------------------------------- */

/* Whether the file system enforces the quota of V: not after the store was copied, or was mounted without quotas. */
bool named_volume_quota_in_force(const Store *s, const NamedVolume *v);
/* Drops limits of volumes that do not exist any more. */
void volume_quotas_release(const Store *s);

/* --- The pods that use them (volume-users.c) ----------------------------------------------------------- */

typedef struct VolumeUser {
        char *volume, *pod; /* the pod as it is shown: its name, or else its UUID */
        PodState state;
} VolumeUser;

typedef struct VolumeUsers {
        VolumeUser *items;
        size_t n, allocated;
        char *unknown; /* a pod whose volumes are not known, as its manifest cannot be read; or NULL */
} VolumeUsers;

/* Those that are being prepared, prepared, running or ended. */
int volume_users_read(Store *s, VolumeUsers *ret, Error *e);
void volume_users_done(VolumeUsers *u);
#define _cleanup_volume_users_ _cleanup_(volume_users_done)
/* The pods of one volume. */
int volume_users_of(const VolumeUsers *u, const char *volume, char ***ret);

/* --- Removing (volume-remove.c) ------------------------------------------------------------------------ */

/* -EBUSY: pods use it, which the message names, or another process reads it; -ENOENT. */
int named_volume_remove(Store *s, const char *name, Error *e);

typedef struct VolumePrune {
        char *const *kept; /* names of volumes that stay; or NULL */
        bool dry_run;
        bool unmeasured; /* sizes are 0, as they take a while */
        /* Says whether a volume may be removed; NULL: each. */
        bool (*selected)(const char *name, void *userdata);
        /* Called for each volume that was, or would be, removed. */
        void (*removed)(const char *name, uint64_t size, void *userdata);
        void *userdata;
} VolumePrune;

/* Removes all volumes that no pod uses, other than KEPT. Continues after a failure and returns the first one. */
int named_volumes_prune(Store *s, const VolumePrune *o, Error *e);

/* --- As archives (volume-archive.c) -------------------------------------------------------------------- */

/* Writes its files to FD as a tar archive, with the owners that apps see; sockets and devices are left out, with
 * a message of the store's operation. -EAGAIN: a file changed meanwhile. */
int named_volume_export(Store *s, const char *name, int fd, Error *e);

typedef struct VolumeImport {
        const NamedVolume *volume; /* its name and labels */
        bool has_mode, has_owner;  /* its mode and owner; else those that the archive has for "." */
        bool has_quota;            /* its quota; else the one that the archive has */
        int fd;                    /* the archive, which may be compressed */
} VolumeImport;

/* Makes a volume of the archive, which is checked like an image. -EEXIST. Nothing is left after a failure. */
int named_volume_import(Store *s, const VolumeImport *i, Error *e);
