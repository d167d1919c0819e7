/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* A pod's report as text and as JSON. Pure: the same report gives the same text. */

#include "stage0/pod-words.h"

int pod_status_text(const Pod *p, const PodReport *report, const Display *d, char **ret);
json_object *pod_status_json(const Pod *p, const PodReport *report); /* NULL: out of memory */

/* How an app is, or how it ended, in a few words: "exited with status 3". */
int app_status_phrase(const AppStatus *s, char **ret);
