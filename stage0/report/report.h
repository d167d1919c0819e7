/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* stage0/report/: the status of a pod, and the output of its apps. */

#include "stage0/host/host.h"

/* What the filter of system calls of an app comes from (filter.c). */
typedef enum FilterKind {
        FILTER_DEFAULT,   /* acnspawn-defaults(7) */
        FILTER_NONE,      /* there is none */
        FILTER_ISOLATORS, /* of the image or of the user */
        FILTER_PROFILE,   /* of the user, in the form of OCI */
        _FILTER_KIND_MAX,
} FilterKind;
const char *filter_kind_to_string(FilterKind k);

/* pod-status.c: the data of "status". */
typedef struct AppReport {
        const PodApp *app;
        AppStatus status;
        HealthStatus health;
        bool has_health;
        int image_policy;              /* ImagePolicy */
        ReplacementStatus replaced_by; /* its image_id is NULL unless the app is being replaced */
        char *failed_image;       /* the ID of one that it was not ready with when it was updated, or NULL */
        bool restarts;            /* it may be restarted */
        uint32_t restart_limit;   /* RESTART_LIMIT_NONE: there is none */
        uint64_t next_start_usec; /* realtime; 0: no restart is pending */
        LogDrops drops;           /* output that is not in the journal, or not in its log file */
        LogTarget log;
        char *log_file; /* and to this file of the host; or NULL */
        FilterKind filter;
        char *filter_digest; /* "sha256:…" of a profile; or NULL */
} AppReport;

typedef struct IsolatorReport {
        const char *app; /* NULL: the pod's own */
        const char *name;
        IsolatorVerdict verdict;
        char *detail;
        GrantSource source;
} IsolatorReport;

typedef struct PodReport {
        AppReport *apps;
        size_t n_apps;
        IsolatorReport *isolators;
        size_t n_isolators;
        PodGrants grants;         /* privileges requested by images beyond the defaults */
        IsolatorReport *defaults; /* defaults that apply without an isolator */
        size_t n_defaults;
        char **addresses; /* "lo 127.0.0.1", …: of a running pod */
        NetworkReport *networks;
        size_t n_networks;
        PortMapping *ports; /* ports of the host that are (or would be) forwarded to the pod */
        size_t n_ports;
        ServedSocket *sockets; /* sockets sockets of the host that a running pod was started with */
        size_t n_sockets;
        uint64_t started_usec, ended_usec; /* realtime; 0: never */
        int exit_status;                   /* the pod's, or -1 while it has none */
        bool ended_by_reboot;              /* in order at the shutdown of the host, or by a crash of it */
        pid_t leader;                      /* host's pid of the pod's PID 1, or 0 */
        char *unit; /* unit of the host's systemd that contains a running pod; or NULL */
        bool paused;
        /* Of a pod with several apps: those whose processes are not prevented from accessing processes of
         * the others. EXPOSED_TO_ALL: all of them, for lack of Landlock. */
        char **exposed_to;
        bool exposed_to_all, landlock_refused;
} PodReport;

/* Why all are exposed, as the rest of a sentence. */
const char *pod_report_exposure_reason(const PodReport *r);

/* The member "endedBy" of a pod that was ended by a reboot of the host. */
#define POD_ENDED_BY_REBOOT "reboot"

/* CONFIG_DIRS as in PrepareOptions. */
int pod_report(Pod *p, const char *const *config_dirs, PodReport *ret, Error *e);
void pod_report_done(PodReport *r);
/* Only its isolators; also for a pod that is being prepared. KEEP_UNIT: as they would be in the current unit
 * of the host, after unit_keep(). */
int pod_report_isolators(Pod *p, const char *const *config_dirs, bool keep_unit, PodReport *ret, Error *e);
/* isolators-strict.c: -EOPNOTSUPP, with all of them in the message, if one of the isolators would not be
 * enforced on this host. */
int pod_require_isolators(Pod *p, const char *const *config_dirs, bool keep_unit, Error *e);

/* The same as warnings, for isolators of the command line only: those of a manifest may be intended for
 * other hosts. FIRST: the index of the first app of REQUEST in the pod; above 0 they are added to a pod that has others. */
int pod_warn_isolators(Pod *p, const PodRequest *request, size_t first, const char *const *config_dirs,
                       char ***warnings, Error *e);

/* usage.c: resource usage of a running pod. UINT64_MAX: this host cannot measure it, or there is no
 * limit. */
typedef struct Usage {
        uint64_t cpu_usec;
        uint64_t memory, memory_peak, memory_max; /* bytes; the peak is known from Linux 5.19 on */
        uint64_t io_read, io_written;
        uint64_t pids;
        /* The time during which some process waited for this resource, where the kernel counts that (PSI). */
        uint64_t cpu_pressure_usec, memory_pressure_usec, io_pressure_usec;
} Usage;

/* The usage of the pod as a whole, and an array of that of each app, in the order of the manifest. */
int pod_usage(Pod *p, Usage *ret_pod, Usage **ret_apps, Error *e);
/* The number of processes in the cgroup at PATH, and below it. UINT64_MAX: out of memory. */
uint64_t cgroup_count_processes(const char *path);
/* The same processes, those of the cgroup itself first, in the order in which they came. *RET is NULL if there are none. */
int cgroup_list_processes(const char *path, pid_t **ret, size_t *ret_n);

/* usage-network.c: the counters of a pod's network interfaces. */
typedef struct NetworkUsage {
        char name[64];
        uint64_t received_bytes, received_packets, received_errors, received_dropped;
        uint64_t sent_bytes, sent_packets, sent_errors, sent_dropped;
} NetworkUsage;
/* -ENODATA: the pod has no network of its own. */
int pod_network_usage(Pod *p, NetworkUsage **ret, size_t *ret_n);
/* Pure. Parses TEXT, the content of /proc/PID/net/dev. */
int network_usage_parse(const char *text, NetworkUsage **ret, size_t *ret_n);

/* logs.c: the apps' output from the pod's journal. */
typedef struct LogOptions {
        bool follow;     /* until the pod has ended */
        const char *app; /* NULL: all */
        bool prefix;     /* the app's name in front of each line */
        bool json, timestamps;
        bool raw;                        /* do not escape output on a terminal */
        uint64_t lines;                  /* number of last lines; UINT64_MAX: all */
        uint64_t since_usec, until_usec; /* realtime, both included; UNTIL 0: to the end */
        int end_fd; /* a socket that the peer shuts down when the pod has ended; 0: the pod's lock tells it */
} LogOptions;
/* log-options.c. Pure: the parameters of the interface's Logs, of which RET->app is. -EINVAL: *RET_WRONG is not valid. */
int log_options_read(json_object *parameters, LogOptions *ret, const char **ret_wrong);
int pod_logs(Pod *p, const LogOptions *o, Error *e);

/* --- output.c: lines to standard output and standard error --------------------------------------------- */

/* A line written by an app. */
typedef struct JournalLine {
        const char *app;
        const char *data;
        size_t size;
        bool error;     /* came from standard error */
        char end[1];    /* the terminator: a newline or NUL */
        bool partial;   /* without a terminator: END is not set */
        bool continues; /* the next record of the app and stream continues the line */
        uint64_t time_usec;
} JournalLine;

/* The line that was shown last, if its continuation is still to come. */
typedef struct OutputState {
        char *app; /* NULL: the last line is complete */
        bool error;
} OutputState;

typedef struct OutputOptions {
        bool prefix, json, timestamps;
        bool raw;           /* otherwise control characters are escaped on a terminal */
        OutputState *state; /* NULL: every record is shown as a line of its own */
} OutputOptions;
/* Local time with microseconds, as the journal's tools write it and "logs --since" takes it; "-": it is not known. */
void text_add_moment(Text *t, uint64_t usec);
/* Formats a line for output. */
int output_format(const JournalLine *l, const OutputOptions *o, Text *t);
