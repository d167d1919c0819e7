/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Which system calls an app may make: from its isolators and capabilities to the program that the launcher
 * installs. */

#include "schema/schema.h"
#include "stage1/seccomp-program.h"

/* In a retain set: the default filter bounds what the rest of the set allows. */
#define SECCOMP_WITHIN_DEFAULT "@acnspawn/within-default"

/* The filter of an app with these isolators and this bounding set. Without an isolator it is the default
 * one; with os/linux/seccomp-retain-set of @appc.io/all it is empty: there is none. -EINVAL: an isolator
 * that cannot be applied. */
int seccomp_compile(const IsolatorList *isolators, uint64_t capabilities, SeccompProgram *ret, Error *e);
/* Whether that filter lets CALL through, if only with some arguments. */
bool seccomp_allows(const IsolatorList *isolators, uint64_t capabilities, const char *call);

/* Whether there is a filter at all. */
bool seccomp_has_filter(const IsolatorList *isolators);

/* The calls that a retain set names and that the default filter of an app with this bounding set refuses. What
 * is in the set only by one of systemd's groups of usual calls is left out, and @appc.io/all is not looked at
 * (see seccomp_has_filter()). */
int seccomp_beyond_default(const Isolator *i, uint64_t capabilities, char ***ret);
/* The calls of a retain set, whatever they are in it by, that the default filter does not simply allow. */
int seccomp_limited_by_default(const Isolator *i, uint64_t capabilities, char ***ret);
bool seccomp_is_within_default(const Isolator *i);
/* Whether @appc.io/all is in it. */
bool seccomp_names_all(const Isolator *i);
/* Whether the calls that a process needs to begin and to end are in the set itself. */
bool seccomp_names_life_cycle(const Isolator *i);

/* What a seccomp isolator comes to on its own, for people; -EINVAL with an error as above. RET_DIFFERENT:
 * names of the set that mean nothing here, or not exactly what they say. */
int seccomp_isolator_check(const Isolator *i, char ***ret_different, Error *e);
