/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Formats a pod's report as JSON. No I/O. */

#include "stage0/verbs/verb.h"

/* NULL: out of memory. */
json_object *pod_status_json(const Pod *p, const PodReport *report);
