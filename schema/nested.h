/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* nested.c: apps that are nested under other apps of a running pod. */

#include "basic/basic.h"

#define NESTED_LEVELS_MAX 32U /* an app that is not nested is at the first */
/* The setting with the path of a nested app: the names of the apps that it is nested under, and its own. */
#define NESTED_PATH_SETTING "nested-path"

/* Whether NAME is that of a nested app. */
bool nested_is_name(const char *name);
/* 1: it is not nested. */
size_t nested_level(const char *name);
/* The length of the name of the app that NAME is nested under. 0: it is not nested. */
size_t nested_parent_length(const char *name);
/* Whether NAME is nested under ANCESTOR, at any level. */
bool nested_is_below(const char *name, const char *ancestor);
/* The name of the app with that NUMBER, which is unique in a pod, under PARENT. -ENAMETOOLONG: it would be too long for the files
 * and cgroups of an app; -E2BIG: it would be at too deep a level. */
int nested_name(const char *parent, uint64_t number, char **ret);
/* The cgroup of an app's slice, below that of all apps: "app-web.slice/app-web-0n1.slice". */
int nested_slices(const char *name, char **ret);
/* The last part of it. */
int nested_slice(const char *name, char **ret);
/* Whether PATH is one: two to NESTED_LEVELS_MAX names, with '/' between. */
bool nested_is_path(const char *path);
