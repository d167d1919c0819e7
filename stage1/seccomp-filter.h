/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The system calls that an app may make: compiles its isolators and capabilities into the program that the
 * launcher installs. */

#include "schema/schema.h"
#include "stage1/seccomp-program.h"

/* In a retain set: limits the rest of the set to what the default filter allows. */
#define SECCOMP_WITHIN_DEFAULT "@acnspawn/within-default"

/* The filter of an app with these isolators and this bounding set. Without an isolator it is the default
 * one; with os/linux/seccomp-retain-set of @appc.io/all it is empty: there is none. -EINVAL: an isolator
 * that cannot be applied. */
int seccomp_compile(const IsolatorList *isolators, uint64_t capabilities, SeccompProgram *ret, Error *e);
/* Whether that filter allows CALL, if only with some arguments. */
bool seccomp_allows(const IsolatorList *isolators, uint64_t capabilities, const char *call);

/* The calls that the filter of an app with these isolators and this bounding set allows, and one with LIMIT and LIMIT_CAPABILITIES
 * does not, or only with some arguments. Both have a filter. */
int seccomp_beyond(const IsolatorList *l, uint64_t capabilities, const IsolatorList *limit,
                   uint64_t limit_capabilities, char ***ret, Error *e);

/* Whether there is a filter at all. */
bool seccomp_has_filter(const IsolatorList *isolators);

/* The calls that a retain set names and that the default filter of an app with this bounding set refuses.
 * Calls that are in the set only through one of systemd's groups of usual calls are left out, and
 * @appc.io/all is not considered (see seccomp_has_filter()). */
int seccomp_beyond_default(const Isolator *i, uint64_t capabilities, char ***ret);
/* The calls of a retain set, named directly or by any group, that the default filter does not allow
 * unconditionally. */
int seccomp_limited_by_default(const Isolator *i, uint64_t capabilities, char ***ret);
bool seccomp_is_within_default(const Isolator *i);
/* Whether @appc.io/all is in it. */
bool seccomp_names_all(const Isolator *i);
/* Whether the set itself contains the calls that a process needs to start and to exit. */
bool seccomp_names_life_cycle(const Isolator *i);

/* Checks a seccomp isolator on its own; -EINVAL with an error as above. RET_DIFFERENT: names of the set that
 * are unknown here, or have a different meaning. */
int seccomp_isolator_check(const Isolator *i, char ***ret_different, Error *e);
