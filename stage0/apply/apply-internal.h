/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the files of stage0/apply/ share: the plan, and the comparison that it is made of. */

#include "stage0/api/acn.h"
#include "stage0/apply/apply.h"
#include "stage0/control/control.h"

/* --- differences.c ------------------------------------------------------------------------------------- */

/* What P and WANTED differ in as a whole, and their requests, OLD and Q: for ApplyPlan.new_pod. -ENOMEM. */
int differences_of_pods(const Pod *p, const Pod *wanted, const PodRequest *old, const PodRequest *q,
                        char ***ret);
/* The volumes of images, other than those of the start, that would be other images, appended to L: for ApplyPlan.later. -ENOMEM. */
int differences_of_images(const Pod *p, const Pod *wanted, const PodRequest *old, const PodRequest *q,
                          char ***l);
/* The options of "run" (rm, register, ready-timeout) that differ from the declaration: for ApplyPlan.later. -ENOMEM. */
int differences_of_runs(const Pod *p, const Pod *wanted, char ***ret);
/* What OLD and NEW, of which the image is IMAGE_ID, differ in, but for limits that this host ignores, which are warned of;
 * CREDENTIALS are the names of those that do. *RET_LIMITS: all of them are limits that can be changed while the app runs.
 * -ENOMEM. */
int differences_of_apps(const PodApp *app, const AppOverrides *old, const AppOverrides *new,
                        const char *image_id, char *const *credentials, const HostFeatures *h, char ***ret,
                        bool *ret_limits);
/* Whether it is the type of such a limit, and this host has the controller. */
bool is_live_limit(IsolatorType type, const HostFeatures *h);

/* --- plan.c -------------------------------------------------------------------------------------------- */

/* Those of the host for P, which runs. */
int apply_features(Pod *p, HostFeatures *ret, Error *e);
