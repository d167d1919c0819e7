/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The command line of prepare and run: a pod, described word by word.
 *
 *     [pod options] IMAGE [app options] [-- ARGUMENTS…] [--- IMAGE [app options] [-- ARGUMENTS…]]…
 *
 * Options before the first image are the pod's, those after an image that app's. "--" begins the app's
 * arguments, which end at "---" or with the command line.
 */

#include "stage0/verb.h"

typedef struct PodArguments {
        PodRequest request;
        PrepareOptions options;
        FetchOptions fetch;
        PairList input;            /* annotations for the only app */
        char *stage1;              /* owns what options.stage1 points to */
        const char *manifest_file; /* --pod-manifest */
        const char *uuid_file;
        bool describes_pod;       /* something was said that only makes sense for a new pod */
        bool describes_whole_pod; /* one of the pod's options was given */
        bool fetches;             /* the same, or for one that is run again with its images resolved anew */
        bool has_arguments;       /* "--" was given */
        bool declares_capabilities; /* for apps that are added later */
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

/* Prepares the pod and prints the warnings; the store is open. */
int pod_arguments_prepare(Context *c, PodArguments *a, Pod **ret);
/* The same for the successor of OLD (see make_successor()). RESOLVE: the images are fetched as A says. */
int pod_arguments_prepare_again(Context *c, PodArguments *a, Pod *old, bool resolve, Pod **ret);
/* The usage error about --replace without the name of a pod. */
int pod_arguments_refuse_replace(Context *c);

/* Handlers of values with a structure (pod-values.c, pod-volumes.c, pod-isolators.c, pod-network.c), by what
 * TARGET is. What may be given several times adds up; of what has a name the last one counts. */

/* PairList: NAME=VALUE, or NAME for the variable as it is here. */
int option_environment(const Option *o, const char *value, void *target, Error *e);
/* PairList: a file of such lines (pod-environment.c). */
int option_environment_file(const Option *o, const char *value, void *target, Error *e);
/* PairList: NAME=VALUE, the name of an annotation being an AC Identifier. */
int option_annotation(const Option *o, const char *value, void *target, Error *e);
/* The same of an app, among whose annotations are its settings. */
int option_app_annotation(const Option *o, const char *value, void *target, Error *e);
int option_setting(const Option *o, const char *value, void *target, Error *e); /* PairList: annotations */
int option_grant(const Option *o, const char *value, void *target, Error *e);   /* adds to earlier ones */
int option_interactive(const Option *o, const char *value, void *target, Error *e);
int option_stdin(const Option *o, const char *value, void *target, Error *e);
int option_no_healthcheck(const Option *o, const char *value, void *target, Error *e);
int option_pair(const Option *o, const char *value, void *target, Error *e);
/* CredentialList */
int option_credential(const Option *o, const char *value, void *target, Error *e);
int option_set_credential(const Option *o, const char *value, void *target, Error *e);
/* PodRequest */
int option_volume(const Option *o, const char *value, void *target,
                  Error *e); /* or a mount that brings one */
int option_pod_mount(const Option *o, const char *value, void *target, Error *e);
int option_port(const Option *o, const char *value, void *target, Error *e);
/* PrepareOptions */
int option_net(const Option *o, const char *value, void *target, Error *e);
/* char **: appended to. */
int option_dns(const Option *o, const char *value, void *target, Error *e);
int option_dns_search(const Option *o, const char *value, void *target, Error *e);
int option_dns_option(const Option *o, const char *value, void *target, Error *e);
int option_hosts_entry(const Option *o, const char *value, void *target, Error *e);
/* AppOverrides */
int option_app_volume(const Option *o, const char *value, void *target, Error *e);
int option_app_mount(const Option *o, const char *value, void *target, Error *e);
int option_gids(const Option *o, const char *value, void *target, Error *e);
int option_user(const Option *o, const char *value, void *target, Error *e); /* and maybe a group */
/* IsolatorList: NAME=JSON, and short forms for the usual ones. */
int option_isolator(const Option *o, const char *value, void *target, Error *e);
int option_isolator_short(const Option *o, const char *value, void *target,
                          Error *e); /* by the option's name */
int option_sysctl(const Option *o, const char *value, void *target, Error *e);
int option_selinux_context(const Option *o, const char *value, void *target, Error *e);
int option_seccomp(const Option *o, const char *value, void *target, Error *e);
int option_caps_retain(const Option *o, const char *value, void *target, Error *e);
int option_caps_remove(const Option *o, const char *value, void *target, Error *e);
/* What all of them end in. */
int option_add_isolator(const Option *o, const char *value, const char *name, const char *json,
                        IsolatorList *l, Error *e);
/* const char *: in argv, and fit to be the name of a pod, or of a host. */
int option_pod_name(const Option *o, const char *value, void *target, Error *e);
int option_hostname(const Option *o, const char *value, void *target, Error *e);
/* char *: owned, replaced. */
int option_app_name(const Option *o, const char *value, void *target, Error *e);
int option_group(const Option *o, const char *value, void *target, Error *e);
int option_working_directory(const Option *o, const char *value, void *target, Error *e);
/* char **: becomes a list of this one word. */
int option_exec(const Option *o, const char *value, void *target, Error *e);
