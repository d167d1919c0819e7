/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Declared pods as arguments of prepare and run: each long option is a key of a .pod file (acnspawn.pod(5)). */

#include "stage0/arguments/pod-arguments.h"
#include "stage0/arguments/run-arguments.h"
#include "stage0/declared/declared.h"

/* The key of a long option, as in "ReadyTimeout". */
#define KEY_MAX 64
void option_key(const Option *o, char ret[static KEY_MAX]);

typedef enum KeySection { KEY_IN_POD, KEY_IN_APP, _KEY_SECTION_MAX } KeySection;

/* The tables with the options that are keys of a section, NULL at the end. */
extern const Option *const declared_options[_KEY_SECTION_MAX][4];
/* Why an option of these is not a key; NULL: it is one. */
const char *declared_excluded(KeySection section, const Option *o);

/* Fills in A, which is new, and OWN. What is wrong becomes a finding of D, and the result is 0 all the same; only
 * failures of the system are errors. */
int declared_apply(Declared *d, PodArguments *a, RunArguments *own, Error *e);

/* Shows the findings: to stderr as messages. -EINVAL with an error if one of them is a mistake. */
int declared_report(Context *c, const Declared *d);

/* Loads the pod NAME, and fills in A, which is new, with it and its name; prints what is wrong. */
int context_load_declared(Context *c, const char *name, PodArguments *a, RunArguments *own);
/* Prepares the pod that A, of context_load_declared(), describes: in place of one of its name that was never run, or as
 * the successor of one that has ended. -EBUSY: it runs. */
int context_prepare_declared(Context *c, PodArguments *a, Pod **ret);

/* pod-declared-write.c: the file of a pod as text. */
typedef struct PodWriter PodWriter;
int pod_writer_new(const char *name, PodWriter **ret);
PodWriter *pod_writer_free(PodWriter *w);
DEFINE_TRIVIAL_CLEANUP_FUNC(PodWriter *, pod_writer_free);
/* Starts the section of the next app; until then settings are the pod's. */
int pod_writer_app(PodWriter *w, const char *name, const char *image);
/* A value as it is given to the option of that name; VALUE NULL: it has none. */
int pod_writer_add(PodWriter *w, const char *option, const char *value, Error *e);
int pod_writer_arguments(PodWriter *w, char *const *args);
int pod_writer_take(PodWriter *w, char **ret);
/* Everything that the pod P was made of. */
int pod_writer_add_pod(PodWriter *w, const Pod *p, Error *e);

/* Gives options of the pod and its apps that D does not set the values of acnspawn.conf, whatever the verb. */
int context_apply_declared_conf(Context *c, const Declared *d, PodArguments *a, RunArguments *own);

/* --- Images (pod-declared-images.c) -------------------------------------------------------------------- */

/* For both functions the store is open, or does not exist. */
/* The IDs of the images that declared pods would be made of now; to be freed. */
int context_declared_images(Context *c, char ***ret);
/* The same, with those of the pods in KEPT that have ended: they can be run again. */
int context_needed_images(Context *c, const KeptPods *kept, char ***ret);
/* The names of the named volumes that they would have, whether or not these exist (pod-declared-volumes.c); to be freed. -EINVAL:
 * a mistake in a file, so they are not all known. */
int context_declared_volumes(Context *c, char ***ret);
/* Calls FUNCTION for each declared pod. WHAT, as "Cannot find out …", begins the message of an error. */
int context_for_each_declared(Context *c, int (*function)(Context *c, Declared *d, void *userdata),
                              void *userdata, const char *what);
/* Gives A and RUN, which declared_apply() has filled in, the values of acnspawn.conf, and adds findings about what is not valid
 * there, and about the images and networks of D: images that cannot be read, that are not in the store (a warning), or that
 * cannot make a pod. A and RUN cannot be used afterwards. STORE: the content of the store is known, which takes root. */
int context_verify_declared_images(Context *c, Declared *d, PodArguments *a, RunArguments *run, bool store);
