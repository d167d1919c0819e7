/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* stage0/apply/: changes a running pod, app by app, to what its .pod file declares. */

#include "prepare/pods/pods.h"

typedef enum ApplyChange {
        APPLY_ADD,
        APPLY_REPLACE,
        APPLY_LIMIT, /* limits that can be changed while the app runs, and nothing else */
        APPLY_REMOVE,
        APPLY_START, /* who added the app was ended before it was started */
        _APPLY_CHANGE_MAX,
} ApplyChange;

typedef enum ApplyResult {
        APPLY_PLANNED,
        APPLY_DONE,
        APPLY_UNDONE,  /* the app did not get ready, and the pod has what it had before */
        APPLY_FAILED,  /* nothing was changed */
        APPLY_SKIPPED, /* a step before it has failed */
        _APPLY_RESULT_MAX,
} ApplyResult;

const char *apply_change_to_string(ApplyChange c);
const char *apply_result_to_string(ApplyResult r);

typedef struct ApplyStep {
        ApplyChange change;
        char *app;
        char **keys; /* what is different: "image", "environment", "resource/memory", …; of APPLY_REPLACE and APPLY_LIMIT */
        size_t index;         /* of the app in the request; not of APPLY_REMOVE and APPLY_START */
        const char *image_id; /* this and the next one are lent by the pod that was prepared */
        const PodApp *wanted;
        ApplyResult result;
        char **warnings;
} ApplyStep;

typedef struct ApplyPlan {
        ApplyStep *steps; /* in the order in which they are taken */
        size_t n;
        char **new_pod; /* what only a new pod can have: keys of the pod */
        char **later; /* what has no effect before the next start, and does not hinder the steps: keys of the pod */
} ApplyPlan;

/* Computes the steps from P, which runs and is loaded, to the pod that Q describes. WANTED was prepared from Q and not
 * published (PrepareOptions.dry_run), so that Q is valid on this host and all images are in the store; it must outlive the
 * plan. Makes Q separate (pod_request_separate()), and loads P again. The steps add and change apps in the order in which
 * these start, and then remove the others in reverse. */
int apply_plan_new(Pod *p, const Pod *wanted, PodRequest *q, ApplyPlan **ret, Error *e);
ApplyPlan *apply_plan_free(ApplyPlan *plan);
DEFINE_TRIVIAL_CLEANUP_FUNC(ApplyPlan *, apply_plan_free);

/* Waits until no other process changes P by a plan, of which it says at once that it does, and keeps others from it until *RET_FD is closed. */
int apply_lock(Pod *p, int *ret_fd, Error *e);

/* Takes the steps of PLAN, which needs no new pod, one after the other; each app is ready, or executed if it does not report
 * that, before the next step. The first that fails is undone and ends it: its error is in E, and the steps after it are
 * skipped. -EBUSY: another call changes the app or has changed it since the plan was made, so that a new plan is needed. */
int apply_plan_run(ApplyPlan *plan, Pod *p, const PodRequest *q, Error *e);
