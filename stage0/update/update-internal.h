/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the files of stage0/update/ share: candidates, and whether an image may replace theirs. */

#include "stage0/api/acn.h"
#include "stage0/control/control.h"
#include "stage0/pods/pods.h"
#include "stage0/update/update.h"

/* --- candidates.c -------------------------------------------------------------------------------------- */

/* An app that has an image policy. */
typedef struct Candidate {
        const PodApp *app; /* of the pod's manifest */
        ImagePolicy policy;
} Candidate;

/* Those of P, in the order in which they start: after the apps that they have to wait for. *RET is to be freed. */
int candidates_list(const Pod *p, Candidate **ret, size_t *ret_n, Error *e);
/* What the user calls the image of APP. -ENODATA: nothing that could mean another image by now. */
int candidate_reference(const Pod *p, const PodApp *app, char **ret, Error *e);

/* --- age.c --------------------------------------------------------------------------------------------- */

/* Whether the image with that ID may replace the present one of APP: it has to have the same name, and must not be older,
 * unless ALLOW_OLDER. -EBADMSG, -ESTALE; -ENOENT: the present one is not in the store any more, and that matters. */
int check_successor(Store *s, const PodApp *app, const char *id, bool allow_older, Error *e);

/* --- resolve.c ----------------------------------------------------------------------------------------- */

typedef struct Resolver Resolver;

/* TIMEOUT_USEC: for each reference, UINT64_MAX for none. */
int resolver_new(Store *s, const FetchOptions *o, uint64_t timeout_usec, Resolver **ret, Error *e);
Resolver *resolver_free(Resolver *x);

/* The ID of the image that REFERENCE means now, which is in the store then; *RET is lent. The same question has the same
 * answer, also if that is an error. */
int resolver_resolve(Resolver *x, ImagePolicy policy, const char *reference, const char **ret, Error *e);

/* --- replace.c ----------------------------------------------------------------------------------------- */

/* An app whose reference was resolved to look for a newer image. */
typedef struct AppReplacement {
        AppUpdate update;
        char *reference; /* as the user wrote it */
        bool pending;    /* the replacement has no result yet */
        bool begun;      /* the replacement may be why the pod has ended */
        int code;        /* the code of the error */
} AppReplacement;

typedef struct PodUpdate {
        Pod *pod;
        AppReplacement *apps;
        size_t n, n_pending; /* apps, and apps to replace */
        pid_t pid;           /* of the child that replaces them; 0: none */
        int fd, failure;     /* the pipe from the child; or why it could not be started */
} PodUpdate;

/* Starts the child process (replace.c). */
void pod_update_begin(PodUpdate *x, const UpdateOptions *o);
/* Waits until the child ends, and reads its results. Negative: the operation has ended. */
int pod_update_finish(PodUpdate *x, const Operation *o, Error *e);
/* Kills the child and reaps it. */
void pod_update_kill(PodUpdate *x);
