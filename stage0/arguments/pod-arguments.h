/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The command line of prepare and run: a pod, described word by word.
 *
 *     [pod options] IMAGE [app options] [-- ARGUMENTS…] [--- IMAGE [app options] [-- ARGUMENTS…]]…
 *
 * Options before the first image are the pod's, those after an image that app's. "--" begins the app's
 * arguments, which end at "---" or with the command line.
 */

#include "stage0/context/context.h"
#include "stage0/control/control.h"

typedef struct PodArguments {
        PodRequest request;
        PrepareOptions options;
        FetchOptions fetch;
        AppOverrides only_app;                  /* what was given before the first image, for the only app */
        char only_app_option[OPTION_LABEL_MAX]; /* the first such option; empty: none */
        PairList app_settings;     /* for the apps that have none of the same name, as annotations */
        char *stage1;              /* owns what options.stage1 points to */
        const char *manifest_file; /* --pod-manifest */
        const char *uuid_file;
        bool describes_pod;       /* something was said that only makes sense for a new pod */
        bool describes_whole_pod; /* one of the pod's options was given */
        bool fetches;             /* the same, or for one that is run again with its images resolved anew */
        bool has_arguments;       /* "--" was given */
        bool declared;            /* by a .pod file: the command line names no images */
        bool declares_capabilities; /* for apps that are added later */
        char **strings;             /* own what some members point to, if that is not the command line */
        /* Called for each option of the line that was accepted, APP being what was before the first image (NULL) or the
         * present app; or NULL. */
        int (*on_option)(const Option *o, const char *value, const AppOverrides *app, void *userdata,
                         Error *e);
        void *userdata;
} PodArguments;

void pod_arguments_init(PodArguments *a);
void pod_arguments_done(PodArguments *a);
#define _cleanup_pod_arguments_ _cleanup_(pod_arguments_done)

extern const Option pod_options[];   /* data: PodArguments */
extern const Option image_options[]; /* the same: how the images of a pod are fetched */
extern const Option app_options[];   /* data: AppOverrides */

/* Parses the whole line. VERB_OPTIONS, with VERB_DATA, are the verb's own and stand where the pod's do;
 * NULL: none. Returns as context_parse() does. */
int pod_arguments_parse(Context *c, const Option *verb_options, void *verb_data, int argc, char **argv,
                        PodArguments *a);

/* The same for a verb that adds apps to a running pod, which the first word names: *RET_POD, or NULL if there is none. */
int pod_arguments_parse_with_pod(Context *c, const Option *verb_options, void *verb_data, int argc,
                                 char **argv, PodArguments *a, const char **ret_pod);

/* Marks what acnspawn.conf has no values for: in the set of the pod's options, limits that A has in another way, or in its
 * pod manifest, and those of a resolv.conf that is not made; in that of an app, limits that it has in another way. */
void pod_arguments_mark_conf(const PodArguments *a, OptionSet *pod);
/* The isolators of L from the index FIRST on are values of acnspawn.conf. */
void isolators_mark_conf(IsolatorList *l, size_t first);
void app_arguments_mark_conf(const AppOverrides *app, OptionSet *set);

/* Why options of the pod cannot be combined; NULL: they can. */
const char *pod_arguments_conflict(const PodArguments *a);

/* Options before the first image that are for the only app (pod-only-app.c): the handler of all of them, whose
 * target is the PodArguments; and what gives them to the app, at the end of the command line, or of the pod
 * manifest once that is read. */
int option_only_app(const Option *o, const char *value, void *target, Error *e);
int only_app_give(PodArguments *a, Error *e); /* there is one app */
int only_app_complete(Context *c, PodArguments *a);
int only_app_complete_template(Context *c, PodArguments *a);

/* Gives app_settings to the apps, once all are known. */
int pod_arguments_give_settings(PodArguments *a, Error *e);
/* Nests the apps under PARENT (NULL: they are not nested), an app of P, which runs. One whose image is PARENT_IMAGE has that of its
 * parent, read-only. */
#define PARENT_IMAGE "@parent"
int pod_arguments_nest(PodArguments *a, const Pod *p, const char *parent, Error *e);
/* Reads the file manifest_file, or standard input ("-"), into the template of the request. */
int pod_arguments_read_manifest(Context *c, PodArguments *a);
/* Prepares the pod and prints the warnings; the store is open. */
int pod_arguments_prepare(Context *c, PodArguments *a, Pod **ret);
/* The same for the successor of OLD (see make_successor()). RESOLVE: the images are fetched as A says. */
int pod_arguments_prepare_again(Context *c, PodArguments *a, Pod *old, bool resolve, bool as_prepared,
                                Pod **ret);
/* The usage error about --replace without the name of a pod. */
int pod_arguments_refuse_replace(Context *c);
