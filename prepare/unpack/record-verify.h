/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Threads that hash files and compare the hashes with those of a record (verify-content.c). */

#include "prepare/unpack/record.h"

typedef struct Hashers Hashers;

/* TOTAL: bytes of content that there will be. Findings go to C, which is theirs until they are freed. */
int hashers_new(int dir_fd, RecordCheck *c, uint64_t total, Hashers **ret);
Hashers *hashers_free(Hashers *h); /* stops and waits */
DEFINE_TRIVIAL_CLEANUP_FUNC(Hashers *, hashers_free);
/* A file whose content should have the hash of X; waits while many others do. A failure of the threads is
 * returned here. */
int hashers_add(Hashers *h, const RecordEntry *x);
/* A finding of the caller's. */
int hashers_report(Hashers *h, const char *path, DifferenceKind kind, const char *expected,
                   const char *found);
/* Waits until all is done. */
int hashers_finish(Hashers *h);
