/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "stage0/verb.h"

/* What "prepare --dry-run" shows of a pod that is not going to be: its apps, volumes and isolators. */
int context_show_plan(Context *c, Pod *p);
