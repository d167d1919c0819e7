/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* user-claim.c: the users of a running pod, as systemd sees them. */

#include "prepare/prepare.h"

typedef struct UserClaim UserClaim;

/* -EUSERS: a container of systemd-nspawn has them. Of a pod without users of its own there is nothing to claim. */
int user_claim_new(const Pod *p, UserClaim **ret, Error *e);
UserClaim *user_claim_free(UserClaim *c);
/* Removes what a process that ran P and was killed has left. */
void user_claim_remove_leftovers(const Pod *p);
