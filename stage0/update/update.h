/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* stage0/update/: replaces the apps of running pods that have an image policy when there is a newer image. */

#include "schema/settings.h"
#include "prepare/pods/pods.h"

typedef enum UpdateResult {
        UPDATE_CURRENT,       /* the app has the newest image */
        UPDATE_AVAILABLE,     /* there is a newer one (dry run) */
        UPDATE_REPLACED,      /* the app has the newer one now */
        UPDATE_ROLLED_BACK,   /* it was not ready with the newer one, and has the old one again */
        UPDATE_FAILED_BEFORE, /* the same was so with this image before: it was not tried */
        UPDATE_FAILED,        /* nothing was changed */
        UPDATE_PASSED_OVER,   /* the pod was stopped meanwhile, is paused, or another call changes the app */
        _UPDATE_RESULT_MAX,
} UpdateResult;

const char *update_result_to_string(UpdateResult r);

/* One app of which the newest image was looked for. */
typedef struct AppUpdate {
        const PodApp *app;
        ImagePolicy policy;
        char *reference; /* as shown; NULL: unknown */
        char *newer_id;  /* NULL: none, or unknown */
        UpdateResult result;
        char **warnings;
        Error error; /* of UPDATE_ROLLED_BACK, _FAILED and _PASSED_OVER; names pod, app and reference */
} AppUpdate;

#define UPDATE_READY_DEFAULT (UINT64_MAX - 1)

typedef struct UpdateOptions {
        FetchOptions fetch;          /* its policy is not used: each app has its own */
        bool dry_run;                /* newer images are fetched, and no app is replaced */
        bool retry;                  /* also images that failed before */
        bool passes_over;            /* what cannot be updated just now; otherwise that is UPDATE_FAILED */
        bool allow_older;            /* also images that are older than the app's present one */
        uint64_t ready_timeout_usec; /* as acn_replace_app(); UPDATE_READY_DEFAULT: that of the app, or ten minutes */
        uint64_t fetch_timeout_usec; /* of asking for, and fetching, one image; UINT64_MAX: none */
        void (*done)(const Pod *p, const AppUpdate *u,
                     void *userdata); /* for each app, as soon as its result is known */
        void *userdata;
} UpdateOptions;

/* Resolves each reference once, however many apps have it. O, and what it points to, must outlive the updater. */
typedef struct Updater Updater;

int updater_new(Store *s, const UpdateOptions *o, Updater **ret, Error *e);
Updater *updater_free(Updater *u);
DEFINE_TRIVIAL_CLEANUP_FUNC(Updater *, updater_free);

/* Looks for newer images of the apps of P, a running pod, in the order in which the apps start. Takes P over, also on
 * failure. A failure for one app is stored in its AppUpdate. Returns a negative errno only if the pod cannot be read or the
 * operation has ended. *RET_N: the number of apps that have an image policy. */
int updater_add(Updater *u, Pod *p, size_t *ret_n, Error *e);
/* Replaces the apps of all added pods, those of different pods in parallel, and reports the results in the order of the
 * pods. */
int updater_finish(Updater *u, Error *e);
