/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The list of verbs, in the order and the groups of the help. A new one is added here, and declared in
 * verb.h.
 */

#include "stage0/verb.h"

const Verb *const verbs[] = {
                &verb_fetch,
                &verb_image_list,
                &verb_image_rm,
                &verb_image_show,
                &verb_image_cat_manifest,
                &verb_image_verify,
                &verb_image_export,
                &verb_image_render,
                &verb_image_gc,
                &verb_trust,
                &verb_build,
                &verb_validate,
                &verb_prepare,
                &verb_run,
                &verb_enter,
                &verb_cp,
                &verb_export,
                &verb_attach,
                &verb_stop,
                &verb_kill,
                &verb_pause,
                &verb_resume,
                &verb_add_app,
                &verb_start_app,
                &verb_stop_app,
                &verb_restart_app,
                &verb_update_app,
                &verb_rm_app,
                &verb_wait,
                &verb_rm,
                &verb_gc,
                &verb_list,
                &verb_status,
                &verb_stats,
                &verb_top,
                &verb_logs,
                &verb_monitor,
                &verb_cat_manifest,
                &verb_cat,
                &verb_help,
                &verb_version,
                NULL,
};
