/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* stage0/run/: the process that runs a pod. */

#include <sys/stat.h>

#include "prepare/prepare.h"

/* run.c: runs a prepared pod. In the foreground returns when the pod has ended, with the pod's exit status
 * (0…255); detached, returns 0 once the pod is up, the supervisor having become a process of its own. */
/* Whether systemd-machined is told of the pod. */
typedef enum RegisterMode {
        REGISTER_AUTO, /* where it can be; a refusal is a warning */
        REGISTER_NO,
        REGISTER_YES, /* the pod does not run without */
} RegisterMode;

typedef struct RunOptions {
        bool detach;
        bool quiet;                     /* do not show the apps' output */
        bool strict;                    /* not unless all isolators are enforced */
        RegisterMode registration;
        const char *const *config_dirs; /* as in PrepareOptions */
} RunOptions;
int run_pod(Pod *p, const RunOptions *o, Error *e);

/* --- mounts-names.c ------------------------------------------------------------------------------------ */

/* Whether the file FD (O_PATH will do) with the attributes ST is one of the files of names that were made for an app
 * whose image had none, and that nobody has changed since: it is no part of what the app has made of its image. */
bool name_file_is_made(int fd, const struct stat *st);

/* --- app-root.c: roots of apps that nobody runs -------------------------------------------------------- */

/* The root of an app of a pod that does not run, and that is locked: the image's layers and what the app wrote, without
 * volumes. It is mounted nowhere, and gone when the last descriptor of it is closed. WRITABLE: what is written
 * goes to the app's writable layer; else nothing of the pod's changes. */
int app_root_mount(Pod *p, const PodApp *app, bool writable, int *ret_fd, Error *e);
