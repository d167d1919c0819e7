/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the verbs that look at pods have in common. */

#include "stage0/verb.h"

/* The colour of a state, as it is shown in lists and in front of a pod's status. */
Color pod_state_color(PodState s, int exit_status);
/* Finds the pod that was named on the command line. */
int context_find_pod(Context *c, const char *reference, Pod **ret);
/* context_parse(), and finds the pod that the first of the words names. 0: no more is to be done. */
int context_parse_pod(Context *c, const Option *options, void *data, int argc, char **argv, Words *words,
                      Pod **ret);
/* What a pod that was made is known by: its UUID, with --json also its name. */
int context_show_pod(Context *c, const Pod *p);
/* context_for_each() with the pods that the words name. */
int context_for_each_pod(Context *c, const Words *words, int (*function)(Context *c, Pod *p, void *userdata),
                         void *userdata);
/* pod-many.c: the same with many pods at a time, in processes of their own. */
typedef struct PodWork {
        /* Where there are several pods, a child calls it: what it changes is lost. Results as for
         * context_for_each(). */
        int (*function)(Context *c, Pod *p, void *userdata);
        /* Called by the caller's own process, in the order of the words, for each pod for which FUNCTION did
         * not fail; or NULL. */
        void (*done)(Context *c, const char *uuid, void *userdata);
        void *userdata;
} PodWork;

int context_for_many_pods(Context *c, const Words *words, const PodWork *w);
/* How many characters of the UUIDs are needed to tell these pods apart, at least eight. */
size_t pod_short_uuid_length(Pod *const *pods, size_t n);

/* uint64_t: so many lines, UINT64_MAX for "all". */
int option_lines(const Option *o, const char *value, void *target, Error *e);
/* DetachKeys */
int option_detach_keys(const Option *o, const char *value, void *target, Error *e);
