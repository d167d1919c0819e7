/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Formats a pod's report as text. No I/O: the same report gives the same text. */

#include "stage0/verbs/pod-words.h"

int pod_status_text(const Pod *p, const PodReport *report, const Display *d, char **ret);

/* The state of an app, or how it ended, as a short phrase: "exited with status 3". */
int app_status_phrase(const AppStatus *s, char **ret);
