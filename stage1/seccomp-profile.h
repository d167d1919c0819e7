/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* From a profile of system calls to the program that the launcher installs. */

#include "schema/seccomp-profile.h"
#include "stage1/seccomp-program.h"

/* The filter of an app with this bounding set. -EINVAL: it would not let the app start; -E2BIG: it is longer than the kernel
 * accepts. */
int seccomp_profile_compile(const SeccompProfile *p, uint64_t capabilities, SeccompProgram *ret, Error *e);
/* Whether RULE holds for such an app on this machine. */
bool seccomp_profile_rule_applies(const SeccompProfileRule *rule, uint64_t capabilities);
/* Whether the profile allows CALL, if only with some arguments. */
bool seccomp_profile_allows(const SeccompProfile *p, uint64_t capabilities, const char *call);
