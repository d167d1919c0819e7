/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The part of a pod's status about resources shared by its apps, and what the parts of a status share. */

#include "stage0/verbs/verb.h"

#define STATUS_LABEL_WIDTH 11
/* Labels are aligned to the right. */
void status_add_label(Text *t, const char *label);
/* Text of images or pods. */
void status_add_escaped(Text *t, const char *s);
void status_add_network(Text *t, const Pod *p, const PodReport *r);
void status_add_volumes(Text *t, const PodManifest *m);
/* "host", "empty", "tmpfs" or "named". */
const char *volume_kind_word(const PodManifest *m, const Volume *v);
/* The path of a host volume, the name of a named one. NULL: it has none, or out of memory. */
char *volume_source(const PodManifest *m, const Volume *v);
