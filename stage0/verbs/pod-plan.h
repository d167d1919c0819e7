/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* pod-plan.c: what "prepare --dry-run" shows. */

#include "stage0/verbs/verb.h"

/* Shows the output of "prepare --dry-run": the apps, volumes and isolators of the pod. */
int context_show_plan(Context *c, Pod *p);
