/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* freeze.c: a pod that does not go on because a cgroup above its own is frozen, as by "systemctl freeze" of its unit, and with
 * that perhaps its supervisor. */

#include "stage0/host/host.h"

bool pod_is_frozen(Pod *p);
/* Thaws the unit that holds the pod; 0 also if nothing is frozen. -EBUSY, with a hint: something above it is. */
int pod_thaw(Pod *p, Error *e);
/* -EBUSY: the pod is frozen; the hint says what thaws it. */
int pod_frozen(Pod *p, Error *e);
