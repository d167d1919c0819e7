/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Shared by the sources of stage1/; not for use by other folders. */

#include "schema/settings.h"
#include "stage1/stage1.h"

/* root-files.c: append one file, or one symlink, to the list. Everything is copied. */
int stage1_files_add(Stage1Files *f, const char *path, const char *content, size_t size, mode_t mode);
int stage1_files_add_symlink(Stage1Files *f, const char *path, const char *target);

/* sockets.c: adds the units of socket-activated ports, if there are any. */
/* health-units.c: arguments of the launcher for checking an app; and the units that run the checks
 * periodically. Without a health check nothing is added. */
void stage1_health_arguments(const HealthCheck *h, bool starting, Text *t);
int stage1_add_health_units(Stage1Files *files, const PodApp *app, const AppSettings *s, const char *slice,
                            const Text *service);

/* units.c */
/* The argument of the launcher for the app's pid namespace. */
void stage1_pid_argument(const PidSetting *pid, Text *t);
int stage1_add_unit(Stage1Files *files, const char *name, const char *text);
/* Whether the unit is not one app's alone: it stays when an app is removed, until no app needs it. */
bool stage1_is_shared_unit(const char *name);
bool stage1_has_unit(const Stage1Files *files, const char *name);
int stage1_add_unit_text(Stage1Files *files, const char *name, Text *t);

/* Those of one app. */
int stage1_generate_app(const PodApp *app, const Stage1Options *o, Stage1Files *files, Error *e);
int stage1_generate_units(const PodManifest *m, const Stage1Options *o, Stage1Files *files, Error *e);
