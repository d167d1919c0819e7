/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What becomes of each system call, by name; the parts that stage1/seccomp-filter.h is made of. */

#include "stage1/seccomp-program.h"

#define SECCOMP_ERRNO(e) (SECCOMP_RET_ERRNO | (uint32_t) (e))

typedef struct SeccompRule {
        uint32_t action;
        const SeccompTable *check; /* decides by the arguments, if there is one */
        bool named;                /* an isolator names the call itself */
} SeccompRule;

/* One rule for every call that has a name. */
typedef struct SeccompRules {
        SeccompRule *items;
        uint32_t otherwise; /* the action for numbers without a name */
} SeccompRules;

void seccomp_rules_done(SeccompRules *r);
#define _cleanup_seccomp_rules_ _cleanup_(seccomp_rules_done)
/* All calls, those without a name too, get the same action. */
int seccomp_rules_init(SeccompRules *r, uint32_t action);
/* NAME is a call, or with a leading "@" a group of systemd's. -ENOENT: there is no such name. */
int seccomp_name_check(const char *name);
int seccomp_rules_set(SeccompRules *r, const char *name, SeccompRule rule);
/* What FROM allows, if only after a look at the arguments, R allows as well. What is missing in FROM, that is
 * fails with ENOSYS, is missing in R, too, unless R allows it: programs rely on that error to fall back. */
void seccomp_rules_allow_as(SeccompRules *r, const SeccompRules *from);
/* What R allows gets the rule that it has in LIMIT: R never allows more than LIMIT, and what LIMIT decides by
 * arguments, or answers as if the call did not exist, R does, too. */
void seccomp_rules_limit(SeccompRules *r, const SeccompRules *limit);
/* Appends the calls that R allows and LIMIT refuses; CHECKS: or allows with some arguments only, or answers as
 * if they did not exist. */
int seccomp_rules_beyond(const SeccompRules *r, const SeccompRules *limit, bool checks, char ***ret);
/* Whether GROUP ("@NAME") is part of the group OF, and RULES allow some of it. */
bool seccomp_group_is_common(const char *group, const char *of, const SeccompRules *rules);
const SeccompRule *seccomp_rules_get(const SeccompRules *r,
                                     const char *call); /* NULL: there is no such name */
int seccomp_rules_assemble(const SeccompRules *r, SeccompProgram *ret);

/* seccomp-default.c: the default filter of an app with this bounding set of capabilities. */
int seccomp_rules_init_default(SeccompRules *r, uint64_t capabilities);
