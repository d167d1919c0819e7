/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The verbs of the command line. Each has its own file, verb-<name>.c, which exports one Verb value; verbs.c lists them. */

#include "stage0/context/context.h"
#include "stage0/stage0.h"

/* The argument of verbs that work on pods, for messages. */
#define A_POD "a pod: its UUID, a prefix of it, or its name"

extern const Verb *const verbs[]; /* verbs.c; NULL at the end */

extern const Verb verb_trust;
extern const Verb verb_cp, verb_export;
extern const Verb verb_attach, verb_enter, verb_exec, verb_kill, verb_pause, verb_resume;
extern const Verb verb_network_reload;
extern const Verb verb_add_app, verb_launch, verb_launch_group, verb_rm_app, verb_start_app, verb_stop_app,
                verb_restart_app, verb_update_app, verb_update, verb_apply;
extern const Verb verb_wait, verb_monitor;
extern const Verb verb_df, verb_prune;
extern const Verb verb_config;
extern const Verb verb_stats, verb_top;
extern const Verb verb_fetch, verb_image_list, verb_image_rm, verb_image_cat_manifest, verb_validate;
extern const Verb verb_image_show, verb_image_verify, verb_image_export, verb_image_render, verb_image_gc;
extern const Verb verb_volume_create, verb_volume_list, verb_volume_show, verb_volume_rm, verb_volume_prune,
                verb_volume_export, verb_volume_import;
extern const Verb verb_pod_create, verb_pod_verify, verb_pod_list, verb_pod_cat;
extern const Verb verb_prepare, verb_run, verb_list, verb_status, verb_cat, verb_cat_manifest, verb_logs;
extern const Verb verb_build, verb_stop, verb_rm, verb_gc, verb_version, verb_help;

/* --- Completion (complete.c) --------------------------------------------------------------------------- */

/* Prints candidates of the KIND that begin with CURRENT, for shells. WORDS is the command line, NULL at the
 * end. */
int context_complete(Context *c, const char *kind, const char *current, char **words);
