/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What a profile of system calls says of a call, read from the profile itself: for comparison with its filter. */

#include "stage1/seccomp-profile.h"

static bool reference_matches(const SeccompArgument *a, const uint64_t *args)
{
        uint64_t v = args[a->index];

        switch (a->op) {
        case SECCOMP_NE:
                return v != a->value;
        case SECCOMP_LT:
                return v < a->value;
        case SECCOMP_LE:
                return v <= a->value;
        case SECCOMP_EQ:
                return v == a->value;
        case SECCOMP_GE:
                return v >= a->value;
        case SECCOMP_GT:
                return v > a->value;
        default:
                return (v & a->value) == a->value_two;
        }
}

static bool reference_rule_matches(const SeccompProfileRule *r, const uint64_t *args)
{
        unsigned seen = 0;
        bool twice = false, all = true, any = false;

        for (size_t i = 0; i < r->n_arguments; i++) {
                const SeccompArgument *a = &r->arguments[i];
                bool matches = reference_matches(a, args);

                twice = twice || seen & 1U << a->index;
                seen |= 1U << a->index;
                all = all && matches;
                any = any || matches;
        }
        return twice ? any : all;
}

__attribute__((unused)) static uint32_t reference_decide(const SeccompProfile *p, uint64_t capabilities, const char *call,
                                                         const uint64_t *args)
{
        for (int with_arguments = 0; with_arguments < 2; with_arguments++)
                for (size_t i = 0; i < p->n_rules; i++) {
                        const SeccompProfileRule *r = &p->rules[i];
                        if ((r->n_arguments > 0) == with_arguments && strv_contains(r->names, call) &&
                            seccomp_profile_rule_applies(r, capabilities) && reference_rule_matches(r, args))
                                return r->action;
                }
        return p->default_action;
}
