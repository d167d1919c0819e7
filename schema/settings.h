/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* How an app of a pod is to be run beyond what the specification says: annotations of the app in the pod
 * manifest, named acnspawn/<setting>. They are the user's, from the command line or a pod manifest; those of
 * an image never get there, so that no image decides how it is restarted. */

#include "schema/schema.h"

#define SETTING_PREFIX "acnspawn/"

typedef enum RestartPolicy {
        RESTART_NO,
        RESTART_ON_FAILURE,
        RESTART_ALWAYS,
        _RESTART_POLICY_MAX
} RestartPolicy;

/* What an app reads: its standard input. */
typedef enum AppInput {
        INPUT_NULL,     /* nothing */
        INPUT_PIPE,     /* what those who are attached to it write; open even if there is nobody */
        INPUT_TERMINAL, /* a terminal of the pod's; standard output and standard error are it, too */
        _APP_INPUT_MAX,
} AppInput;

/* What is done to an app whose health check has failed as often as it may. */
typedef enum HealthAction {
        HEALTH_NONE,    /* it is told */
        HEALTH_KILL,    /* SIGKILL for its main process; restart and exit policies count this as a failure */
        HEALTH_RESTART, /* ended in order and started again, whatever the restart policy */
        HEALTH_STOP,    /* ended in order; for the exit policy it has failed */
        _HEALTH_ACTION_MAX,
} HealthAction;

/* A command that is run beside the app from time to time. The defaults are those of the image format that
 * health checks come from. */
typedef struct HealthCheck {
        char **command; /* NULL: there is no health check */
        uint64_t interval_usec, timeout_usec;
        uint64_t start_period_usec;   /* after a start, in which failures do not count */
        uint64_t start_interval_usec; /* between checks then */
        uint32_t retries;             /* failures in a row that make an app unhealthy */
        int action;                   /* HealthAction */
} HealthCheck;

#define RESTART_LIMIT_NONE UINT32_MAX
#define LOG_RATE_DEFAULT (UINT64_MAX - 1) /* what fills the size again within an hour */

typedef struct AppSettings {
        int restart;                 /* RestartPolicy */
        uint64_t restart_usec;       /* between an end and the next start; doubled each time … */
        uint64_t restart_max_usec;   /* … up to this */
        uint32_t restart_limit;      /* restarts in a row after which the app is given up */
        bool notify;                 /* the app tells that it is ready (sd_notify) */
        uint64_t start_timeout_usec; /* from a start until the app is ready; UINT64_MAX: for ever */
        HealthCheck health;
        int stop_signal;            /* 0: SIGTERM */
        uint64_t stop_timeout_usec; /* 0: the pod's */
        int input;                  /* AppInput */
        char **after;               /* apps that have to be ready before this one starts */
        bool oom_group;             /* out of memory kills all processes of the app */
        char **grants;              /* what the image may have of what it asks for; see grants_parse() */
        uint64_t log_size; /* bytes of the journal that it fills at once; 0: a share, UINT64_MAX: all */
        uint64_t log_rate; /* … and goes on with, a second */
} AppSettings;

void app_settings_done(AppSettings *s);
#define _cleanup_app_settings_ _cleanup_(app_settings_done)
/* Whether there is more to the app's being ready than that it runs. */
static inline bool app_settings_readiness(const AppSettings *s)
{
        return s->notify || s->health.command;
}
/* Reads the annotations of APP. -EINVAL with the annotation's name, its value, and what it may be. */
int app_settings_read(const PodApp *app, AppSettings *ret, Error *e);
/* Checks one setting, for command lines, whose message names it already: the error says only what VALUE has
 * to be. NAME is without the prefix. */
int app_setting_check(const char *name, const char *value, Error *e);
/* Which privileges an image gets of those that it asks for beyond the defaults (stage1/privileges.c): names
 * with commas between, that is CAP_NAME, seccomp, sysctl:NAME, port:NAME, oom-score-adj, apparmor-profile and
 * selinux-context; or "all", or "none", which runs the app without them. -EINVAL. */
int grants_parse(const char *value, char ***ret);
/* Checks those of all apps, and that "after" names apps of the pod and nobody waits for himself. */
int pod_settings_check(const PodManifest *m, Error *e);

/* --- healthcheck.c ------------------------------------------------------------------------------------- */

/* The command of a health check as users write it: a line for the image's shell; or a JSON array, which is
 * the arguments of a command, or begins with "CMD" and goes on with them, or with "CMD-SHELL" and a line; or
 * "none" or ["NONE"], for which *RET is NULL. -EINVAL. */
int health_command_parse(const char *text, char ***ret);
/* The settings that the health check of an OCI image (its config's Healthcheck, JSON text) comes to, with
 * SETTING_PREFIX. Times that it leaves out or that are zero are left out. -EINVAL. */
int health_settings_from_oci(const char *text, PairList *ret, Error *e);

/* --- Volumes ------------------------------------------------------------------------------------------- */

#define VOLUME_SETTINGS_PREFIX SETTING_PREFIX "volume/"
#define VOLUME_ID_RANGES_MAX 32U
#define VOLUME_POD_IDS 65536U /* users that a pod has */

typedef enum IdMap {
        ID_MAP_AUTO,   /* owners are the pod's where the file system can do that (default) */
        ID_MAP_YES,    /* they are, or the pod does not run */
        ID_MAP_NO,     /* they are the host's, who are nobody in the pod */
        ID_MAP_RANGES, /* only those of the ranges are anybody */
} IdMap;

/* COUNT users (and groups) from HOST on are the pod's users from POD on. */
typedef struct IdRange {
        uint32_t host, pod, count;
} IdRange;

/* What a volume is beyond the specification: pairs in the annotation acnspawn/volume/<name> of the pod. */
typedef struct VolumeSettings {
        bool tmpfs;        /* an empty volume in memory */
        uint64_t size;     /* of which at most so many bytes; 0: what the kernel takes */
        uint64_t n_inodes; /* and so many files */
        bool symlinks;     /* the source of a host volume may be, or pass through, a symbolic link */
        IdMap id_map;
        IdRange ranges[VOLUME_ID_RANGES_MAX];
        size_t n_ranges;
} VolumeSettings;

/* Reads those of V, a volume of M's; the defaults if there are none. -EINVAL with the volume's name. */
int volume_settings_read(const PodManifest *m, const Volume *v, VolumeSettings *ret, Error *e);
/* Checks one, for command lines. RET_EXPECTED: what VALUE has to be. -ENOENT: there is none of that name. */
int volume_setting_check(const char *key, const char *value, const char **ret_expected);
/* Checks those of all volumes, and that there is none of another. */
int pod_volume_settings_check(const PodManifest *m, Error *e);

/* --- Words --------------------------------------------------------------------------------------------- */

/* "SIGTERM", "TERM" or "15". 0 or less: there is no such signal. */
int signal_from_string(const char *s);
