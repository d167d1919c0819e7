/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Declarations shared by the files of stage0/control/. */

#include "library/libsystemd.h"
#include "stage0/control/control.h"

/* --- manager.c: the pod's systemd ---------------------------------------------------------------------- */

/* Calls FUNCTION in a process that has joined the pod's user and pid namespaces, with a connection to the
 * pod's systemd. DATA of SIZE bytes (at most MANAGER_DATA_MAX, no pointers) is copied there and, on success,
 * back. A descriptor that FUNCTION leaves in *RET_FD is passed back, too; RET_FD may be NULL. */
#define MANAGER_DATA_MAX 1024U
int pod_manager_call(Pod *p, int (*function)(sd_bus *bus, void *data, int *ret_fd, Error *e), void *data,
                     size_t size, int *ret_fd, Error *e);
/* The error of a call that failed. */
int manager_error(const sd_bus_error *error, int r, const char *what, Error *e);

/* --- app-process.c ------------------------------------------------------------------------------------- */

/* The error of an app that should run and does not. */
int app_not_running(Pod *p, const PodApp *app, Error *e);

/* --- image-policy.c ------------------------------------------------------------------------------------ */

/* image_policy_check() for the apps of a request. */
int image_policies_check(const PodRequest *q, Error *e);

/* --- name-files.c -------------------------------------------------------------------------------------- */

/* Warns if files of the apps' images are replaced, or volumes cover the requested files: the lines are added
 * to WARNINGS. To be called after the pod's apps have been written; those from FIRST on are checked. */
int check_name_files(Pod *p, size_t first, char ***warnings, Error *e);
/* True if the image of APP has a file at PATH that is not empty. */
int app_image_has(Pod *p, const PodApp *app, const char *path);

/* --- init-app.c ---------------------------------------------------------------------------------------- */

/* Warns of apps, from the one with index FIRST on, that run systemd. To be called after the pod's apps have been written. */
int warn_of_init(Pod *p, size_t first, char ***warnings, Error *e);

/* --- nested.c ------------------------------------------------------------------------------------------ */

/* Gives the last app of P, which is nested under another one, the confinement of that one in all that it does not say itself, and
 * refuses it if it says more than its parent has (-EPERM). Volumes from FIRST on came with it. Without effect for other apps. */
int confine_nested(Pod *p, size_t first_volume, Error *e);
/* The same for all nested apps of a pod that is prepared: a pod manifest can have some. Its volumes are those of the pod. */
int confine_all_nested(Pod *p, Error *e);

/* --- privileges.c -------------------------------------------------------------------------------------- */

/* Refuses the reified pod if its images request more privileges than the operator grants (-EPERM, with all
 * of them and the options that grant them in the message); else limits its isolators to the granted ones,
 * and records this in the pod directory. To be called after the pod's apps have been written. */
/* Warns of privileges that --grant= names, and the image of the app does not ask for. Apps of REQUEST begin at FIRST. */
int warn_of_grants(Pod *p, const PodRequest *request, size_t first, char ***warnings, Error *e);
/* The apps and volumes of P from these indices on have nothing that takes a pod with the users of the host, or P is one (fit.c).
 * -EINVAL, with the app or volume. */
int check_users(const Pod *p, size_t first_app, size_t first_volume, Error *e);
int decide_privileges(Pod *p, const PodRequest *request, Error *e);
/* The same for the last app of P, which is added to it as the only one of REQUEST. */
int decide_app_privileges(Pod *p, const PodRequest *request, Error *e);
