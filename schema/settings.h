/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* How an app of a pod is to be run beyond what the specification says: annotations of the app in the pod
 * manifest, named acnspawn/<setting>. They are the user's, from the command line or a pod manifest; those of
 * an image never get there, so that no image decides how it is restarted. */

#include "schema/schema.h"

#define SETTING_PREFIX "acnspawn/"

typedef enum RestartPolicy { RESTART_NO, RESTART_ON_FAILURE, RESTART_ALWAYS, _RESTART_POLICY_MAX } RestartPolicy;

typedef struct AppSettings {
        int restart;                /* RestartPolicy */
        uint64_t restart_usec;      /* between an end and the next start */
        int stop_signal;            /* 0: SIGTERM */
        uint64_t stop_timeout_usec; /* 0: the pod's */
        char **after;               /* apps that have to be ready before this one starts */
        bool oom_group;             /* out of memory kills all processes of the app */
} AppSettings;

void app_settings_done(AppSettings *s);
#define _cleanup_app_settings_ _cleanup_(app_settings_done)
/* Reads the annotations of APP. -EINVAL with the annotation's name, its value, and what it may be. */
int app_settings_read(const PodApp *app, AppSettings *ret, Error *e);
/* Checks one setting, for command lines, whose message names it already: the error says only what VALUE has to
 * be. NAME is without the prefix. */
int app_setting_check(const char *name, const char *value, Error *e);
/* Checks those of all apps, and that "after" names apps of the pod and nobody waits for himself. */
int pod_settings_check(const PodManifest *m, Error *e);

/* "SIGTERM", "TERM" or "15". 0 or less: there is no such signal. */
int signal_from_string(const char *s);
