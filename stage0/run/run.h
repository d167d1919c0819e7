/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* stage0/run/: the process that runs a pod. */

#include "prepare/prepare.h"

/* run.c: runs a prepared pod. In the foreground returns when the pod has ended, with the pod's exit status
 * (0…255); detached, returns 0 once the pod is up, the supervisor having become a process of its own. */
typedef struct RunOptions {
        bool detach;
        bool quiet;                     /* do not show the apps' output */
        bool strict;                    /* not unless all isolators are enforced */
        const char *const *config_dirs; /* as in PrepareOptions */
} RunOptions;
int run_pod(Pod *p, const RunOptions *o, Error *e);
