/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Which system calls an app may make: from its isolators and capabilities to the program that the launcher
 * installs. */

#include "schema/schema.h"
#include "stage1/seccomp-program.h"

/* The filter of an app with these isolators and this bounding set. Without an isolator it is the default
 * one; with os/linux/seccomp-retain-set of @appc.io/all it is empty: there is none. -EINVAL: an isolator
 * that cannot be applied. */
int seccomp_compile(const IsolatorList *isolators, uint64_t capabilities, SeccompProgram *ret, Error *e);
/* Whether that filter lets CALL through, if only with some arguments. */
bool seccomp_allows(const IsolatorList *isolators, uint64_t capabilities, const char *call);

/* What a seccomp isolator comes to on its own, for people; -EINVAL with an error as above. RET_DIFFERENT:
 * names of the set that mean nothing here, or not exactly what they say. */
int seccomp_isolator_check(const Isolator *i, char ***ret_different, Error *e);
