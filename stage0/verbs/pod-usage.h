/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Common to "stats" and "top": samples of the resource usage of pods, and their table. */

#include "stage0/verbs/pod-words.h"

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
/* Samples the pods in WORDS, or all running ones. *RET_STATUS is EXIT_STATUS_FAILURE if one of WORDS failed;
 * its message is printed. */
int usage_sample_take(Context *c, const Words *words, UsageSample *ret, int *ret_status);
/* BEFORE: an earlier sample, for CPU shares; NULL: CPU time as a sum. */
Table *usage_table(const UsageSample *s, const UsageSample *before);
/* Shows that there is nothing to show: as a message, as JSON, or not at all if messages about the pods were
 * printed. */
int usage_show_none(Context *c, const Words *words);
/* Reports what this host cannot measure, if anything: as a line of TEXT, or (NULL) on standard error. */
void usage_note(const UsageSample *s, Text *text);
