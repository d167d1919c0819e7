/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What sandboxes and containers use: read from cgroups and from trees of the store, and kept for a while. */

#include "cri/sandbox.h"
#include "stage0/report/report.h"

/* --- usage-cgroup.c: the files of a cgroup --------------------------------------------------------------- */

#define CRI_PRESSURE_SPANS 3U /* 10, 60 and 300 seconds */

typedef struct CriPressureLine {
        uint64_t total_usec;
        double averages[CRI_PRESSURE_SPANS]; /* percent */
} CriPressureLine;

/* How long processes were delayed (PSI). */
typedef struct CriPressure {
        bool known;
        CriPressureLine some, full; /* one of them, all of them at the same time */
} CriPressure;

/* UINT64_MAX: this host does not tell, or there is no limit. */
typedef struct CriUsage {
        uint64_t taken_usec; /* CLOCK_REALTIME */
        uint64_t cpu_usec, cpu_user_usec, cpu_system_usec, cpu_periods, cpu_throttled_periods,
                        cpu_throttled_usec;
        uint64_t memory, memory_peak, memory_max, memory_low;
        uint64_t anon, file, file_mapped, inactive_file, kernel, faults, major_faults, limit_hits, oom_kills;
        uint64_t swap, swap_max;
        uint64_t read_bytes, written_bytes, reads, writes;
        uint64_t pids, pids_max;
        uint64_t descriptors, sockets,
                        descriptors_max; /* that are open; that the first process may have open */
        CriPressure cpu_pressure, memory_pressure, io_pressure;
        /* Of two samples, and of the writable layer; see below. */
        uint64_t nano_cores, disk_bytes, disk_inodes, disk_usec;
} CriUsage;

/* Nothing is known. */
void cri_usage_init(CriUsage *u);
/* What is read, as each file takes its time. */
typedef enum CriParts {
        CRI_PARTS_STATS = 0,            /* what statistics have */
        CRI_PARTS_PROCESSES = 1 << 0,   /* the number of processes, too */
        CRI_PARTS_METRICS = 1 << 1,     /* what only metrics have */
        CRI_PARTS_DESCRIPTORS = 1 << 2, /* those of all processes of a container */
        CRI_PARTS_ALL = CRI_PARTS_PROCESSES | CRI_PARTS_METRICS | CRI_PARTS_DESCRIPTORS,
} CriParts;

/* Reads the cgroup at PATH. -ENOENT: there is none. */
int cri_usage_read(const char *path, CriParts parts, CriUsage *ret);
/* Pure: the text of a file with the pressure. */
void cri_pressure_parse(const char *text, CriPressure *ret);
/* Memory that the kernel cannot take back easily: without files that were not used lately. */
uint64_t cri_working_set(const CriUsage *u);

/* --- usage-processes.c: what processes have open --------------------------------------------------------- */

/* Fills in the descriptors of the processes of the cgroup at PATH. */
void cri_descriptors_read(const char *path, CriUsage *u);

/* --- usage-devices.c: lists in the files of a cgroup ----------------------------------------------------- */

#define CRI_DEVICES_MAX 64U /* the rest is left out */
#define CRI_PAGE_SIZES_MAX 8U

typedef struct CriDevice {
        char name[64]; /* "/dev/sda"; empty: the kernel has none */
        uint32_t major, minor;
        uint64_t read_bytes, written_bytes;
} CriDevice;

typedef struct CriHugePages {
        char size[16]; /* "2MB" */
        uint64_t bytes;
} CriHugePages;

/* Of the cgroup at PATH. How many; 0 also if the host does not tell. */
size_t cri_devices_read(const char *path, CriDevice ret[static CRI_DEVICES_MAX]);
size_t cri_huge_pages_read(const char *path, CriHugePages ret[static CRI_PAGE_SIZES_MAX]);
/* Pure: the text of io.stat; the names stay empty. */
size_t cri_devices_parse(const char *text, CriDevice ret[static CRI_DEVICES_MAX]);

/* --- usage-cache.c: samples ------------------------------------------------------------------------------ */

#define CRI_SAMPLE_KEY_SIZE 80U
#define CRI_IMAGES_KEY "images"
#define CRI_LAYERS_KEY "containers"

/* The last sample of a pod (its UUID), an app (UUID/NAME), all images or all writable layers. The server keeps it; workers have
 * a copy of the time when they were started, and send back what they have measured. */
typedef struct CriSample {
        char key[CRI_SAMPLE_KEY_SIZE];
        uint64_t cpu_usec, cpu_taken_usec, nano_cores; /* taken 0: never */
        uint64_t bytes, inodes, measured_usec;         /* measured 0: never */
        uint64_t seen_usec;
} CriSample;

/* NULL: there is none. */
const CriSample *cri_sample_find(const CriServer *s, const char *key);
/* In the server: takes over what is known by the sample. */
void cri_sample_put(CriServer *s, const CriSample *sample);
void cri_samples_done(CriServer *s);
/* The processor time of U is a new sample: the share of the processors since the last one is filled in, if that is not too
 * recent. */
void cri_sample_processor(CriJob *j, const char *key, CriUsage *u);
/* The disk space of a writable layer, from the last sample; measured now if there is none, unless the time that may be spent on
 * that is over. */
void cri_sample_layer(CriJob *j, const Pod *p, const PodApp *app, CriUsage *u, uint64_t *budget_usec);
int cri_sample_key(const Pod *p, const PodApp *app, char ret[static CRI_SAMPLE_KEY_SIZE]);

/* --- usage-measure.c: trees ------------------------------------------------------------------------------ */

/* In a worker: measures the writable layer of APP, and notes it. */
void cri_measure_layer(CriJob *j, const Pod *p, const PodApp *app, CriUsage *u);

/* --- network.c: interfaces ------------------------------------------------------------------------------- */

/* Those of a sandbox in a network of its own, as in messages. A container that may make interfaces decides about names and number: only
 * text can be in a message, which clients could not read otherwise, and a list of all sandboxes has to fit into one. */
int sandbox_networks(const Sandbox *s, NetworkUsage **ret, size_t *ret_n);
/* How many of L remain. */
size_t cri_networks_check(NetworkUsage *l, size_t n);

/* --- usage-read.c ------------------------------------------------------------------------------------------ */

/* The usage of a sandbox, unless RET_POD is NULL, and of each of its containers, in the order of the manifest; PARTS are
 * read of both, of the former the number of processes, too. Of what does not run, all but the writable layer is unknown. */
int cri_usage_of(CriJob *j, const Sandbox *s, CriParts parts, CriUsage *ret_pod, CriUsage **ret_apps,
                 Error *e);
/* The path of the cgroup of a container, which is there while it runs. */
int cri_app_cgroup(const Sandbox *s, const PodApp *app, char **ret);
