/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* A pod's report as text and as JSON. Pure: the same report gives the same text. */

#include "stage0/pod-words.h"

int pod_status_text(const Pod *p, const PodReport *report, const Display *d, char **ret);
json_object *pod_status_json(const Pod *p, const PodReport *report); /* NULL: out of memory */

/* The state of an app, or how it ended, as a short phrase: "exited with status 3". */
int app_status_phrase(const AppStatus *s, char **ret);

/* --- Parts --------------------------------------------------------------------------------------------- */

#define STATUS_LABEL_WIDTH 11
void status_add_label(Text *t, const char *label);
void status_add_escaped(Text *t, const char *s);
/* pod-status-shared.c */
void status_add_network(Text *t, const Pod *p, const PodReport *r);
void status_add_volumes(Text *t, const PodManifest *m);
/* "host", "empty" or "tmpfs". */
const char *volume_kind_word(const PodManifest *m, const Volume *v);
