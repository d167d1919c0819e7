/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* From tables of what is allowed to the kernel's filter programs. Depends on basic/ alone. */

#include <linux/filter.h>
#include <linux/seccomp.h>

#include "basic/basic.h"

typedef struct SeccompTable SeccompTable;

/* The values FIRST to LAST of the word that a table looks at: an action (SECCOMP_RET_…), or another
 * table. */
typedef struct SeccompEntry {
        uint32_t first, last;
        uint32_t action;
        const SeccompTable *table;
} SeccompEntry;

/* Looks at one word of struct seccomp_data, after ANDing it with MASK unless that is 0. */
struct SeccompTable {
        uint32_t offset;
        uint32_t mask;
        uint32_t otherwise;          /* the action for values that no entry has */
        const SeccompEntry *entries; /* in ascending order, not overlapping */
        size_t n;
};

/* The lower half of a call's Nth argument. */
#define SECCOMP_ARGUMENT(n)                                                                                 \
        ((uint32_t) (offsetof(struct seccomp_data, args) + (n) *8U +                                        \
                     (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? 4U : 0U)))

typedef struct SeccompProgram {
        struct sock_filter *items;
        size_t n, allocated;
} SeccompProgram;

void seccomp_program_done(SeccompProgram *p);
#define _cleanup_seccomp_program_ _cleanup_(seccomp_program_done)
/* -E2BIG: more instructions than the kernel takes. */
int seccomp_program_assemble(const SeccompTable *t, SeccompProgram *ret);
