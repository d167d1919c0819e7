/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Threads that hash files and compare the hashes with those of a record (verify-content.c). */

#include "prepare/unpack/record.h"

typedef struct Hashers Hashers;

/* TOTAL: bytes of content to be hashed. Differences are added to C, which is owned by the hashers until they
 * are freed. */
int hashers_new(int dir_fd, RecordCheck *c, uint64_t total, Hashers **ret);
Hashers *hashers_free(Hashers *h); /* stops and waits */
DEFINE_TRIVIAL_CLEANUP_FUNC(Hashers *, hashers_free);
/* Queues a file whose content should have the hash of X; blocks while the queue is full. A failure of the
 * threads is returned here. */
int hashers_add(Hashers *h, const RecordEntry *x);
/* Adds a difference found by the caller. */
int hashers_report(Hashers *h, const char *path, DifferenceKind kind, const char *expected,
                   const char *found);
/* Waits until all files are hashed. */
int hashers_finish(Hashers *h);
