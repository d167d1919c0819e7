/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* metadata-key.c: the key by which a pod's metadata service signs. */

#include "stage0/supervisor/run-internal.h"

/* Makes the key of a pod that runs. */
int metadata_key_make(Pod *p);
int metadata_key_read(int dir_fd, uint8_t key[static METADATA_KEY_SIZE]);

/* Makes the key durable. */
typedef struct KeyKeeper KeyKeeper;

/* DONE gets the result; see key_keeper_begin(). EVENT and P are the caller's. */
int key_keeper_new(const Pod *p, sd_event *event, void (*done)(bool kept, void *userdata), void *userdata,
                   KeyKeeper **ret);
KeyKeeper *key_keeper_free(KeyKeeper *k);
DEFINE_TRIVIAL_CLEANUP_FUNC(KeyKeeper *, key_keeper_free);
/* 1: it is on disk; 0: it will be, and DONE is called then. Nothing is written before the first call. */
int key_keeper_begin(KeyKeeper *k);
