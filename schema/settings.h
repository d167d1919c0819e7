/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Settings of an app beyond the specification: annotations of the app in the pod manifest, named
 * acnspawn/<setting>. They are set by the user, on the command line or in a pod manifest; those of an image
 * are never copied there, so that no image decides how it is restarted. */

#include "schema/nested.h"
#include "schema/schema.h"

#define SETTING_PREFIX "acnspawn/"

typedef enum RestartPolicy {
        RESTART_NO,
        RESTART_ON_FAILURE,
        RESTART_ALWAYS,
        _RESTART_POLICY_MAX
} RestartPolicy;

/* The standard input of an app. */
typedef enum AppInput {
        INPUT_NULL,     /* /dev/null */
        INPUT_PIPE,     /* input of attached clients; open even if there are none */
        INPUT_TERMINAL, /* a terminal of the pod, also for standard output and standard error */
        _APP_INPUT_MAX,
} AppInput;

/* The pid namespace of an app. */
typedef enum PidMode {
        PID_POD, /* that of the pod's systemd */
        PID_PRIVATE,
        PID_SHARED, /* one of all apps that have this mode */
        PID_APP,    /* that of another app */
        _PID_MODE_MAX,
} PidMode;

typedef struct PidSetting {
        int mode;  /* PidMode */
        char *app; /* PID_APP: its name */
} PidSetting;

#define SETTING_PATHS_MAX 16384U

/* Paths in the root of an app, in place of the ones by default. */
typedef struct PathsSetting {
        bool given;
        char **paths; /* absolute and normalized */
} PathsSetting;

#define SETTING_DEVICES_MAX 4096U

/* What can be done with a device. */
enum {
        DEVICE_READ = 1 << 0,
        DEVICE_WRITE = 1 << 1,
        DEVICE_MAKE = 1 << 2, /* nodes of it; this is not filtered */
        DEVICE_ACCESS_ALL = DEVICE_READ | DEVICE_WRITE | DEVICE_MAKE,
};

/* A device of the host, or a directory with devices, in the /dev of an app. */
typedef struct DeviceSetting {
        char *source, *target; /* absolute and normalized; TARGET is below /dev */
        unsigned access;       /* DEVICE_READ and so on; 0: not given, which is all */
} DeviceSetting;

typedef struct DevicesSetting {
        bool all; /* every device in the host's /dev */
        DeviceSetting *items;
        size_t n;
} DevicesSetting;

/* Whether an app can open other devices than those that every app has, and those that it is given. */
typedef enum DevicePolicy {
        DEVICE_POLICY_AUTO,   /* it can, unless one is given with permissions, or a mount forbids it */
        DEVICE_POLICY_CLOSED, /* it cannot */
        _DEVICE_POLICY_MAX,
} DevicePolicy;

/* Supplementary groups of an app beside those that it is given by number. */
typedef enum GroupPolicy {
        GROUP_POLICY_AUTO,   /* those of the user in the image, if the group is to be the user's, too */
        GROUP_POLICY_MERGE,  /* those of the user in the image */
        GROUP_POLICY_STRICT, /* none but its group */
        _GROUP_POLICY_MAX,
} GroupPolicy;
const char *group_policy_to_string(GroupPolicy p);

/* The action for an app that has become unhealthy. */
typedef enum HealthAction {
        HEALTH_NONE,    /* it is only reported */
        HEALTH_KILL,    /* SIGKILL for its main process; restart and exit policies count this as a failure */
        HEALTH_RESTART, /* stopped and started again, whatever the restart policy, with its delays and limit */
        HEALTH_STOP,    /* stopped; for the exit policy it has failed */
        _HEALTH_ACTION_MAX,
} HealthAction;

/* A command that is run beside the app periodically. The defaults are those of the image format that health
 * checks come from. */
typedef struct HealthCheck {
        char **command; /* NULL: there is no health check */
        uint64_t interval_usec, timeout_usec;
        uint64_t start_period_usec;   /* after a start; failures do not count meanwhile */
        uint64_t start_interval_usec; /* between checks in that period */
        uint32_t retries;             /* consecutive failures that make an app unhealthy */
        int action;                   /* HealthAction */
} HealthCheck;

typedef enum LogFormat {
        LOG_FORMAT_CRI,   /* TIME stdout|stderr F|P TEXT */
        LOG_FORMAT_PLAIN, /* TEXT */
        _LOG_FORMAT_MAX,
} LogFormat;

/* A file of the host that has what the app writes, too. */
typedef struct LogFileSettings {
        char *path;        /* absolute; NULL: there is none */
        int format;        /* LogFormat */
        uint64_t max_size; /* bytes beyond which nothing is added; UINT64_MAX: there is no limit */
} LogFileSettings;

/* The journals that have the output of an app. */
typedef enum LogTarget {
        LOG_TARGET_AUTO, /* that of the pod; and that of the host if the supervisor's own output goes there */
        LOG_TARGET_POD,
        LOG_TARGET_JOURNAL, /* of the host */
        LOG_TARGET_BOTH,
        LOG_TARGET_NONE,
        _LOG_TARGET_MAX,
} LogTarget;
const char *log_target_to_string(LogTarget t);
static inline bool log_target_has_pod(int t)
{
        return t == LOG_TARGET_AUTO || t == LOG_TARGET_POD || t == LOG_TARGET_BOTH;
}

/* How 'acnspawn update' finds a newer image of an app. */
typedef enum ImagePolicy {
        IMAGE_POLICY_NONE,     /* not at all */
        IMAGE_POLICY_REGISTRY, /* the registry or server that the image comes from is asked */
        IMAGE_POLICY_LOCAL,    /* what the reference of the image means without the network */
        _IMAGE_POLICY_MAX,
} ImagePolicy;
const char *image_policy_to_string(ImagePolicy p);

#define RESTART_LIMIT_NONE UINT32_MAX
#define LOG_RATE_DEFAULT (UINT64_MAX - 1) /* the rate that fills log_size within an hour */

typedef struct AppSettings {
        int restart;                 /* RestartPolicy */
        uint64_t restart_usec;       /* between an end and the next start; doubled each time … */
        uint64_t restart_max_usec;   /* … up to this */
        uint32_t restart_limit;      /* consecutive restarts after which the app is not restarted any more */
        bool hostname_variable;      /* the app gets the variable HOSTNAME, as OCI images expect */
        bool notify;                 /* the app notifies that it is ready (sd_notify) */
        uint64_t start_timeout_usec; /* from a start until the app is ready; UINT64_MAX: no limit */
        HealthCheck health;
        int stop_signal;            /* 0: SIGTERM */
        uint64_t stop_timeout_usec; /* 0: the pod's */
        uint64_t max_runtime_usec;  /* after which the app is stopped, and has failed; 0: no limit */
        int input;                  /* AppInput */
        char **after;               /* apps that have to be ready before this one starts */
        char **socket_activated;    /* ports; see socket_port_parse() */
        bool oom_group;             /* an OOM kill applies to all processes of the app */
        char **grants;              /* privileges that the image gets of those it requests; see
                                     * grants_parse() */
        uint64_t log_size; /* bytes of the journal it may fill in a burst; 0: a share, UINT64_MAX: all */
        uint64_t log_rate; /* … and bytes per second after that */
        int log;           /* LogTarget */
        LogFileSettings log_file;
        int image_policy; /* ImagePolicy */
        PidSetting pid;
        PathsSetting masked, read_only;
        int group_policy;    /* GroupPolicy */
        char **caps_ambient; /* "CAP_…", in upper case */
        DevicesSetting devices;
        int device_policy;      /* DevicePolicy */
        bool landlock_optional; /* run without it where it is refused from outside */
        bool writable_sys;
        char *hooks;           /* JSON, see schema/hooks.h; or NULL */
        char *fate_group;      /* the other apps that have it are stopped if this one fails; or NULL */
        bool transient;        /* its end means nothing for the pod */
        char *seccomp_profile; /* JSON, see schema/seccomp-profile.h; or NULL */
        char *nested_path;     /* of an app that is nested under another one; or NULL */
        bool control;          /* the app may launch others that are nested under it, */
        char **control_images; /* of its own image, and of those whose names match one of these patterns */
        bool own_limits; /* of such an app: what it uses does not only count against the limits of its parent */
} AppSettings;

void app_settings_done(AppSettings *s);
#define _cleanup_app_settings_ _cleanup_(app_settings_done)
/* True if the app or its health check reports readiness; other apps are ready once they are executed. */
static inline bool app_settings_readiness(const AppSettings *s)
{
        return s->notify || s->health.command;
}
/* True if an app may be restarted, by its restart policy or by its health check. */
static inline bool app_settings_restarts(const AppSettings *s)
{
        return s->restart != RESTART_NO || (s->health.command && s->health.action == HEALTH_RESTART);
}
/* True if the app may be restarted because its health check has ended it. Its restarts are counted by the supervisor: whether
 * a run was successful depends on the health check, and systemd knows only when the app was started. */
static inline bool app_settings_health_restarts(const AppSettings *s)
{
        return s->health.command && (s->health.action == HEALTH_RESTART ||
                                     (s->health.action == HEALTH_KILL && s->restart != RESTART_NO));
}
/* True if the user shares the pid namespace of the app with other apps. */
static inline bool app_settings_share_processes(const AppSettings *s)
{
        return s->pid.mode == PID_SHARED || s->pid.mode == PID_APP;
}
/* Whether a filter is to decide which devices its processes can open. */
bool app_settings_filter_devices(const AppSettings *s);
/* Reads the annotations of APP. -EINVAL with the annotation's name, its value, and the valid values. */
int app_settings_read(const PodApp *app, AppSettings *ret, Error *e);
/* Checks one setting of a command line, whose message already names it: the error describes only the valid
 * values. NAME is without the prefix. */
int app_setting_check(const char *name, const char *value, Error *e);
/* Whether an annotation of a pod can have this name: with the prefix there are the settings of its volumes alone. -EINVAL. */
int pod_setting_check(const char *name, Error *e);
/* The privileges that an image gets of those that it requests beyond the defaults (stage1/privileges.c):
 * names separated by commas, that is CAP_NAME, seccomp, sysctl:NAME, port:NAME, oom-score-adj,
 * apparmor-profile and selinux-context; or "all", or "none", which runs the app without them. -EINVAL. */
int grants_parse(const char *value, char ***ret);
/* A word of "socket-activated": a port by its number, as 80 or 53/udp. 1: it is one; 0: it is the name of a port of
 * the image. -EINVAL. */
int socket_port_parse(const char *word, uint32_t *ret_port, const char **ret_protocol);
/* Whether it denotes P, by name or number. */
bool socket_port_is(const char *word, const Port *p);
/* Checks the settings of all apps, and that "after" names apps of the pod and has no cycles. */
int pod_settings_check(const PodManifest *m, Error *e);
/* Checks the names of the annotations of the pod itself. Earlier versions took any. */
int pod_annotations_check(const PodManifest *m, Error *e);

/* --- healthcheck.c ------------------------------------------------------------------------------------- */

/* The command of a health check as users write it: a line for the image's shell; or a JSON array: the
 * arguments of a command, optionally after "CMD", or "CMD-SHELL" and a line; or "none" or ["NONE"], for
 * which *RET is NULL. -EINVAL. */
int health_command_parse(const char *text, char ***ret);
/* The settings for the health check of an OCI image (its config's Healthcheck, JSON text), with
 * SETTING_PREFIX. Times that are absent or zero are omitted. -EINVAL. */
int health_settings_from_oci(const char *text, PairList *ret, Error *e);

/* --- Volumes ------------------------------------------------------------------------------------------- */

#define VOLUME_SETTINGS_PREFIX SETTING_PREFIX "volume/"
#define VOLUME_ID_RANGES_MAX 32U
#define VOLUME_POD_IDS 65536U     /* number of users of a pod */
#define VOLUME_NAME_MAX 63U       /* characters of the name of a named volume */
#define VOLUME_IMAGE_MAX 1023U    /* bytes of the reference of an image */
#define VOLUME_SUB_PATH_MAX 1023U /* bytes of a path in it */
#define VOLUME_QUOTA_MIN (UINT64_C(64) << 10)
#define VOLUME_QUOTA_MAX (UINT64_C(1) << 60)
#define VOLUME_QUOTA_EXPECTED "must be a number of bytes from 64Ki to 1Ei, as 500Mi or 10G"

typedef enum IdMap {
        ID_MAP_AUTO,   /* owners are mapped to the pod's users if the file system supports that (default) */
        ID_MAP_YES,    /* they are mapped, or the pod does not run */
        ID_MAP_NO,     /* not mapped: the host's users, shown as "nobody" in the pod */
        ID_MAP_RANGES, /* only the users of the ranges are mapped */
} IdMap;

/* COUNT users (and groups) from HOST on are mapped to the pod's users from POD on. */
typedef struct IdRange {
        uint32_t host, pod, count;
} IdRange;

/* What becomes of mounts that are made below a host volume later. */
typedef enum VolumePropagation {
        PROPAGATION_NONE,
        PROPAGATION_SLAVE,  /* those of the host are in the apps, too */
        PROPAGATION_SHARED, /* and those of the apps on the host */
        _PROPAGATION_MAX,
} VolumePropagation;

/* Properties of a volume beyond the specification: pairs in the annotation acnspawn/volume/<name> of the
 * pod. */
typedef struct VolumeSettings {
        bool nested;                     /* apps that are nested under an app that mounts it have it, too */
        bool tmpfs;                      /* an empty volume in memory */
        char named[VOLUME_NAME_MAX + 1]; /* the named volume of the store that it is; "": none */
        char image[VOLUME_IMAGE_MAX +
                   1]; /* the image that it is, read-only: a reference, in the manifest of a pod its ID */
        char sub_path[VOLUME_SUB_PATH_MAX + 1]; /* of the image only this file or directory; "": its root */
        bool no_exec;                           /* programs in the image cannot be executed */
        bool owner_image;    /* a new named volume gets owner and mode of the image's directory */
        uint64_t quota;      /* the bytes that the files of a new named volume may use; 0: no limit */
        uint64_t size;       /* its limit in bytes; 0: the kernel's default */
        uint64_t n_inodes;   /* its limit of files */
        bool symlinks;       /* the source of a host volume may be, or pass through, a symbolic link */
        bool devices;        /* devices in a host volume can be used, */
        bool set_uid;        /* and programs in it gain what their modes say */
        bool writable_below; /* what is mounted below a read-only host volume is not made read-only */
        int propagation;     /* VolumePropagation, of host volumes */
        IdMap id_map;
        IdRange ranges[VOLUME_ID_RANGES_MAX];
        size_t n_ranges;
} VolumeSettings;

/* Reads the quota of a named volume, a number of bytes. -EINVAL. */
int volume_quota_parse(const char *value, uint64_t *ret);

/* Reads the settings of V, a volume of M; the defaults if there are none. -EINVAL with the volume's name. */
int volume_settings_read(const PodManifest *m, const Volume *v, VolumeSettings *ret, Error *e);
/* The same of the text of an annotation. */
int volume_settings_parse(const char *text, const Volume *v, VolumeSettings *ret, Error *e);
/* Checks one setting, for command lines. RET_EXPECTED: the valid values. -ENOENT: there is no setting of
 * that name. */
int volume_setting_check(const char *key, const char *value, const char **ret_expected);
/* Appends KEY=VALUE to *LIST, which may be NULL, as the annotation has it. -ENOMEM. */
int volume_setting_add(char **list, const char *key, const char *value);
/* Checks the name of a named volume: an AC Name of at most VOLUME_NAME_MAX characters. -EINVAL. */
int volume_name_check(const char *s, Error *e);
/* Checks the settings of all volumes, and that there are none for other volumes. */
int pod_volume_settings_check(const PodManifest *m, Error *e);

/* --- Conversion of words
 * --------------------------------------------------------------------------------------------- */

/* "SIGTERM", "term", "15", "SIGRTMIN+3" or "SIGRTMAX-1". 0 or less: there is no such signal. */
int signal_from_string(const char *s);
