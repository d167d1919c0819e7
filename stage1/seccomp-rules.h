/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The rule for each system call, by name; used by stage1/seccomp-filter.h. */

#include "stage1/seccomp-program.h"

#define SECCOMP_ERRNO(e) (SECCOMP_RET_ERRNO | (uint32_t) (e))

typedef struct SeccompRule {
        uint32_t action;
        const SeccompTable *check; /* the check of the arguments, or NULL */
        bool named;                /* an isolator names the call itself */
} SeccompRule;

/* One rule for every call that has a name. */
typedef struct SeccompRules {
        SeccompRule *items;
        uint32_t otherwise; /* the action for numbers without a name */
} SeccompRules;

void seccomp_rules_done(SeccompRules *r);
#define _cleanup_seccomp_rules_ _cleanup_(seccomp_rules_done)
/* Sets the same action for all calls, including those without a name. */
int seccomp_rules_init(SeccompRules *r, uint32_t action);
/* NAME is a call, or "@systemd/GROUP". */
bool seccomp_name_is_known(const char *name);
/* -ENOENT: the name is unknown. */
int seccomp_rules_set(SeccompRules *r, const char *name, SeccompRule rule);
/* Adds to R what FROM allows, including calls that it allows with some arguments only. Calls that are
 * missing in FROM, that is fail with ENOSYS, are missing in R as well, unless R allows them: programs rely
 * on that error to fall back. */
void seccomp_rules_allow_as(SeccompRules *r, const SeccompRules *from);
/* Calls that R allows get the rule that they have in LIMIT: R never allows more than LIMIT, and checks of
 * arguments and ENOSYS are taken over from LIMIT. */
void seccomp_rules_limit(SeccompRules *r, const SeccompRules *limit);
/* Appends the calls that R allows and LIMIT refuses; with LIMITED also those that LIMIT allows with some
 * arguments only, or that fail there with ENOSYS. */
int seccomp_rules_beyond(const SeccompRules *r, const SeccompRules *limit, bool limited, char ***ret);
/* Appends the calls that R allows and LIMIT does not, or only with arguments that R does not check likewise. */
int seccomp_rules_wider(const SeccompRules *r, const SeccompRules *limit, char ***ret);
/* Whether GROUP is part of the group OF (both are "@systemd/NAME"), and RULES allow at least one of its
 * calls. */
bool seccomp_group_is_common(const char *group, const char *of, const SeccompRules *rules);
/* Whether CALL is known and allowed, if only with some arguments. */
bool seccomp_rules_allow(const SeccompRules *r, const char *call);
int seccomp_rules_assemble(const SeccompRules *r, SeccompProgram *ret);
/* The rule of the call NAME; NULL: there is no such call. */
SeccompRule *seccomp_rules_find(SeccompRules *r, const char *name);
/* The same as seccomp_rules_assemble() for programs of those architectures for which IS_COVERED returns true; others are
 * killed. */
int seccomp_rules_assemble_for(const SeccompRules *r,
                               bool (*is_covered)(uint32_t architecture, const void *userdata),
                               const void *userdata, SeccompProgram *ret);
/* How many calls have a rule. */
size_t seccomp_rules_count(void);
/* The architecture of the kernel itself (AUDIT_ARCH_…). */
uint32_t seccomp_native_architecture(void);

/* seccomp-default.c: the default filter of an app with this bounding set of capabilities. */
int seccomp_rules_init_default(SeccompRules *r, uint64_t capabilities);
