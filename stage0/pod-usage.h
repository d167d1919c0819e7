/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What "stats" and "top" have in common: samples of what pods use, and the table of them. */

#include "stage0/pod-words.h"

typedef struct UsageRow {
        char *pod, *app; /* shown name; app NULL: the pod as a whole */
        Usage usage;
} UsageRow;

typedef struct UsageSample {
        UsageRow *rows;
        size_t n, allocated;
        uint64_t taken_usec; /* CLOCK_MONOTONIC */
} UsageSample;

void usage_sample_done(UsageSample *s);
/* Of the pods that WORDS name, or of all that run. *RET_STATUS is EXIT_STATUS_FAILURE if one that was named
 * could not be looked at; its message is printed. */
int usage_sample_take(Context *c, const Words *words, UsageSample *ret, int *ret_status);
/* BEFORE: an earlier sample, for shares of processors; NULL: processor time as a sum. */
Table *usage_table(const UsageSample *s, const UsageSample *before);
/* That there is nothing to show: in words, as JSON, or by what was said of each pod already. */
int usage_show_none(Context *c, const Words *words);
/* Says what this host cannot measure, if there is something: as a line of TEXT, or (NULL) on standard error. */
void usage_note(const UsageSample *s, Text *text);
