/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* freezer.c: tells whether a user has frozen a cgroup above the pod ("systemctl freeze" of its unit), and thaws it. The supervisor
 * may be frozen, too. */

#include "stage0/host/host.h"

bool pod_is_frozen(Pod *p);
/* Thaws the unit that holds the pod; 0 also if nothing is frozen. -EBUSY, with a hint: something above it is. */
int pod_thaw(Pod *p, Error *e);
/* -EBUSY: the pod is frozen; the hint says what thaws it. */
int pod_frozen(Pod *p, Error *e);
