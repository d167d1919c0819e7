/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Finds the pods that a command line names, and works on them. */

#include "stage0/verbs/verb.h"

/* The colour of a state, in lists and in the first line of a pod's status. */
Color pod_state_color(PodState s, int exit_status);
/* Finds the pod given on the command line. */
int context_find_pod(Context *c, const char *reference, Pod **ret);
/* context_parse(), and finds the pod given by the first word. 0: nothing more to do. */
int context_parse_pod(Context *c, const Option *options, void *data, int argc, char **argv, Words *words,
                      Pod **ret);
/* Shows the UUID of a new pod, with --json also its name. */
int context_show_pod(Context *c, const Pod *p);
/* context_for_each() with the pods of the words. */
int context_for_each_pod(Context *c, const Words *words, int (*function)(Context *c, Pod *p, void *userdata),
                         void *userdata);
/* pod-many.c: the same with many pods in parallel, in separate processes. */
typedef struct PodWork {
        /* With several pods it is called in a child: changes to variables are lost. Results as for
         * context_for_each(). */
        int (*function)(Context *c, Pod *p, void *userdata);
        /* Called in the caller's process, in the order of the words, for each pod for which FUNCTION
         * succeeded; or NULL. */
        void (*done)(Context *c, const char *uuid, void *userdata);
        void *userdata;
} PodWork;

int context_for_many_pods(Context *c, const Words *words, const PodWork *w);
/* Number of characters of the UUIDs that are unique among these pods, at least eight. */
size_t pod_short_uuid_length(Pod *const *pods, size_t n);

/* uint64_t: number of lines, UINT64_MAX for "all". */
int option_lines(const Option *o, const char *value, void *target, Error *e);
