/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* An operation on a store, with a fault at each of its steps. */

#include <ftw.h>

#include "prepare/collect/collect.h"
#include "tests/unit/faults.h"
#include "tests/unit/store-fixture.h"

#define STEPS_MAX 2000U

/* --- What the store holds ------------------------------------------------------------------------------ */

static char **listing;
static size_t listing_skip;

static inline int list_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
        (void) type, (void) ftw;
        return strv_extendf(&listing, "%s %o %lld %u", path + listing_skip, st->st_mode,
                            S_ISREG(st->st_mode) ? (long long) st->st_size : 0,
                            S_ISREG(st->st_mode) ? (unsigned) st->st_nlink : 0);
}

static inline char *list_store(Store *s)
{
        listing_skip = strlen(store_path(s));
        if (nftw(store_path(s), list_one, 32, FTW_PHYS) != 0)
                return NULL;
        strv_sort(listing);
        char *text = strv_join(listing, "\n");
        listing = strv_free(listing);
        return text;
}

static inline int collect(Store *s, Error *e)
{
        return store_gc(s, &(GcOptions){.expire_prepared_usec = UINT64_MAX}, e);
}

/* --- One operation under all faults -------------------------------------------------------------------- */

typedef struct Operation {
        Fixture *fixture;
        const Image *image;
        int fd; /* the archive */
        FaultFunction run;
        int (*undo)(struct Operation *o); /* after a success: takes away what it made */
        const char *prefix;               /* what messages begin with */
        bool leaves; /* a failure may leave files that the next try finds, and the next collection removes */
} Operation;

static inline void check_message(const Fault *f, const Operation *o)
{
        if (!startswith(f->message, o->prefix))
                TEST_FAIL("%s at step %u (system call %d): \"%s\"", fault_kinds[f->kind].name, f->step,
                          f->call, f->message);
        if (!strstr(f->message, strerror(fault_kinds[f->kind].error)))
                TEST_FAIL("%s at step %u (system call %d) is not told: \"%s\"", fault_kinds[f->kind].name,
                          f->step, f->call, f->message);
}

/* Published objects are complete, and repeating the operation finds them. Unpublished ones are leftovers,
 * which remain for the next collection only if the process was killed. A failure may occur after publishing,
 * if it is unknown whether the rename is on disk. */
static inline void check_store(const Fault *f, Operation *o, const char *before)
{
        bool killed = f->reached && f->kind == FAULT_KILL;
        _cleanup_free_ char *after = list_store(o->fixture->store);

        if (f->result < 0 && !killed && streq_ptr(before, after))
                return;
        ASSERT_WORKS(*o->fixture, o->run(o, &o->fixture->error));
        ASSERT_OK(o->undo(o));
        if (killed || o->leaves)
                ASSERT_WORKS(*o->fixture, collect(o->fixture->store, &o->fixture->error));
        free(after);
        after = list_store(o->fixture->store);
        if (!streq_ptr(before, after))
                TEST_FAIL("%s at step %u (system call %d, result %d %s): the store was changed: %s",
                          fault_kinds[f->kind].name, f->step, f->call, f->result, f->message, after);
}

static inline void try_step(Fault *f, Operation *o, const char *before)
{
        int r = fault_run(f, o->run, o);

        if (r == -ENOSYS)
                TEST_SKIP("system calls cannot be made to fail here");
        if (r == -EPROTO)
                TEST_FAIL("%s at step %u (system call %d): it crashed", fault_kinds[f->kind].name, f->step,
                          f->call);
        ASSERT_OK(r);
        if (f->kind != FAULT_KILL && f->result < 0)
                check_message(f, o);
        check_store(f, o, before);
}

static inline void try_all(Operation *o, FaultKind kind, unsigned min_steps)
{
        _cleanup_free_ char *before = list_store(o->fixture->store);
        unsigned n = 0;

        ASSERT_NOT_NULL(before);
        for (bool more = true; more && test_state_ == TEST_GOING_; n++) {
                Fault f = {.kind = kind, .step = n + 1};
                ASSERT_LT(n, STEPS_MAX);
                try_step(&f, o, before);
                more = f.reached;
        }
        if (test_state_ == TEST_GOING_)
                ASSERT_GT(n, min_steps);
}
