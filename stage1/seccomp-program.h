/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Assembles the kernel's filter programs from tables of actions. Depends on basic/ alone. */

#include <linux/filter.h>
#include <linux/seccomp.h>

#include "basic/basic.h"

typedef struct SeccompTable SeccompTable;

/* For the values FIRST to LAST of the word that a table examines: an action (SECCOMP_RET_…), or another
 * table. */
typedef struct SeccompEntry {
        uint32_t first, last;
        uint32_t action;
        const SeccompTable *table;
} SeccompEntry;

/* Examines one word of struct seccomp_data, after ANDing it with MASK unless that is 0. */
struct SeccompTable {
        uint32_t offset;
        uint32_t mask;
        uint32_t otherwise;          /* the action for values without an entry */
        const SeccompEntry *entries; /* in ascending order, not overlapping */
        size_t n;
        bool shared; /* it is assembled once, however many entries lead to it */
};

/* Offset of the lower half of a call's Nth argument. */
#define SECCOMP_ARGUMENT(n)                                                                                 \
        ((uint32_t) (offsetof(struct seccomp_data, args) + (n) *8U +                                        \
                     (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? 4U : 0U)))

/* Where a shared table is, while a program is assembled. */
typedef struct SeccompPlace {
        const SeccompTable *table;
        int place;
} SeccompPlace;

typedef struct SeccompProgram {
        struct sock_filter *items;
        size_t n, allocated;
        SeccompPlace *places;
        size_t n_places, places_allocated;
} SeccompProgram;

void seccomp_program_done(SeccompProgram *p);
#define _cleanup_seccomp_program_ _cleanup_(seccomp_program_done)
/* -E2BIG: more instructions than the kernel accepts. */
int seccomp_program_assemble(const SeccompTable *t, SeccompProgram *ret);
