/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* ListMetricDescriptors and ListPodSandboxMetrics: what a kubelet without cAdvisor has at /metrics/cadvisor, by the names, units
 * and labels of the latter. Values are integers, so times are in whole seconds. */

#include <sys/statvfs.h>

#include "cri/statistics/usage.h"
#include "stage0/report/report.h"

#define COUNTER RUNTIME__V1__METRIC_TYPE__COUNTER
#define GAUGE RUNTIME__V1__METRIC_TYPE__GAUGE
#define USEC_PER_SEC 1000000U

typedef Runtime__V1__Metric Metric;

/* Of a cgroup. */
static const struct {
        const char *name, *help;
        size_t offset;
        Runtime__V1__MetricType type;
        unsigned divisor;
        const char *key, *value; /* a label of its own; NULL: none */
        bool again;              /* the descriptor is that of the line before */
} metrics[] = {
#define M(field) offsetof(CriUsage, field)
                {"container_cpu_usage_seconds_total", "Cumulative CPU time consumed in seconds.",
                 M(cpu_usec), COUNTER, USEC_PER_SEC, "cpu", "total"},
                {"container_cpu_user_seconds_total", "Cumulative user CPU time consumed in seconds.",
                 M(cpu_user_usec), COUNTER, USEC_PER_SEC},
                {"container_cpu_system_seconds_total", "Cumulative system CPU time consumed in seconds.",
                 M(cpu_system_usec), COUNTER, USEC_PER_SEC},
                {"container_cpu_cfs_periods_total", "Number of elapsed enforcement periods.", M(cpu_periods),
                 COUNTER, 1},
                {"container_cpu_cfs_throttled_periods_total", "Number of throttled periods.",
                 M(cpu_throttled_periods), COUNTER, 1},
                {"container_cpu_cfs_throttled_seconds_total",
                 "Total time for which the container was throttled.", M(cpu_throttled_usec), COUNTER,
                 USEC_PER_SEC},
                {"container_memory_usage_bytes", "Current memory usage, with the page cache, in bytes.",
                 M(memory), GAUGE, 1},
                {"container_memory_max_usage_bytes", "Highest memory usage so far in bytes.", M(memory_peak),
                 GAUGE, 1},
                {"container_memory_rss", "Anonymous memory in bytes.", M(anon), GAUGE, 1},
                {"container_memory_cache", "Page cache in bytes.", M(file), GAUGE, 1},
                {"container_memory_mapped_file", "Mapped files in bytes.", M(file_mapped), GAUGE, 1},
                {"container_memory_kernel_usage", "Memory of the kernel in bytes.", M(kernel), GAUGE, 1},
                {"container_memory_swap", "Swap usage in bytes.", M(swap), GAUGE, 1},
                {"container_memory_failcnt", "How often the memory limit was hit.", M(limit_hits), COUNTER,
                 1},
                {"container_memory_failures_total", "Cumulative number of page faults.", M(faults), COUNTER,
                 1, "failure_type", "pgfault"},
                {"container_memory_failures_total", NULL, M(major_faults), COUNTER, 1, "failure_type",
                 "pgmajfault", true},
                {"container_oom_events_total", "Number of processes that were killed for lack of memory.",
                 M(oom_kills), COUNTER, 1},
                {"container_spec_memory_limit_bytes", "Memory limit in bytes.", M(memory_max), GAUGE, 1},
                {"container_spec_memory_reservation_limit_bytes", "Protected memory in bytes.",
                 M(memory_low), GAUGE, 1},
                {"container_spec_memory_swap_limit_bytes", "Swap limit in bytes.", M(swap_max), GAUGE, 1},
                {"container_fs_reads_bytes_total", "Cumulative number of bytes read.", M(read_bytes),
                 COUNTER, 1},
                {"container_fs_writes_bytes_total", "Cumulative number of bytes written.", M(written_bytes),
                 COUNTER, 1},
                {"container_fs_reads_total", "Cumulative number of reads.", M(reads), COUNTER, 1},
                {"container_fs_writes_total", "Cumulative number of writes.", M(writes), COUNTER, 1},
                {"container_fs_usage_bytes", "Disk space of the writable layer in bytes.", M(disk_bytes),
                 GAUGE, 1},
                {"container_processes", "Number of processes and threads.", M(pids), GAUGE, 1},
                {"container_threads_max", "Highest number of processes and threads that is allowed.",
                 M(pids_max), GAUGE, 1},
                {"container_file_descriptors", "Number of open files.", M(descriptors), GAUGE, 1},
                {"container_sockets", "Number of open sockets.", M(sockets), GAUGE, 1},
                {"container_ulimits_soft", "Soft limits of the first process.", M(descriptors_max), GAUGE, 1,
                 "ulimit", "max_open_files"},
                {"container_last_seen", "When the container was seen last, in seconds since the epoch.",
                 M(taken_usec), GAUGE, USEC_PER_SEC},
#undef M
};

static const struct {
        const char *waiting, *stalled, *of;
        size_t offset;
} pressures[] = {
                {"container_pressure_cpu_waiting_seconds_total",
                 "container_pressure_cpu_stalled_seconds_total", "CPU time",
                 offsetof(CriUsage, cpu_pressure)},
                {"container_pressure_memory_waiting_seconds_total",
                 "container_pressure_memory_stalled_seconds_total", "memory",
                 offsetof(CriUsage, memory_pressure)},
                {"container_pressure_io_waiting_seconds_total",
                 "container_pressure_io_stalled_seconds_total", "I/O", offsetof(CriUsage, io_pressure)},
};

/* Of each interface of a sandbox. */
static const struct {
        const char *name, *help;
        size_t offset;
} network_metrics[] = {
#define N(field) offsetof(NetworkUsage, field)
                {"container_network_receive_bytes_total", "Cumulative number of bytes received.",
                 N(received_bytes)},
                {"container_network_receive_packets_total", "Cumulative number of packets received.",
                 N(received_packets)},
                {"container_network_receive_packets_dropped_total",
                 "Cumulative number of received packets dropped.", N(received_dropped)},
                {"container_network_receive_errors_total", "Cumulative number of errors while receiving.",
                 N(received_errors)},
                {"container_network_transmit_bytes_total", "Cumulative number of bytes sent.",
                 N(sent_bytes)},
                {"container_network_transmit_packets_total", "Cumulative number of packets sent.",
                 N(sent_packets)},
                {"container_network_transmit_packets_dropped_total",
                 "Cumulative number of sent packets dropped.", N(sent_dropped)},
                {"container_network_transmit_errors_total", "Cumulative number of errors while sending.",
                 N(sent_errors)},
#undef N
};

/* What follows from more than a cgroup. UINT64_MAX: it is not known here. C is NULL for a sandbox. */
typedef struct Facts {
        CriJob *j;
        const Container *c;
        const CriUsage *u;
} Facts;

static uint64_t working_set(const Facts *f)
{
        return f->u->memory == UINT64_MAX ? UINT64_MAX : cri_working_set(f->u);
}

static uint64_t threads(const Facts *f)
{
        return f->u->pids;
}

static uint64_t made(const Facts *f)
{
        return f->c ? f->c->created_usec / USEC_PER_SEC : UINT64_MAX;
}

static const Runtime__V1__LinuxContainerResources *resources_of(const Facts *f)
{
        return f->c && f->c->config->linux ? f->c->config->linux->resources : NULL;
}

static uint64_t if_positive(int64_t value)
{
        return value > 0 ? (uint64_t) value : UINT64_MAX;
}

static uint64_t cpu_period(const Facts *f)
{
        return resources_of(f) ? if_positive(resources_of(f)->cpu_period) : UINT64_MAX;
}

static uint64_t cpu_quota(const Facts *f)
{
        return resources_of(f) ? if_positive(resources_of(f)->cpu_quota) : UINT64_MAX;
}

static uint64_t cpu_shares(const Facts *f)
{
        return resources_of(f) ? if_positive(resources_of(f)->cpu_shares) : UINT64_MAX;
}

/* Of the file system that the writable layers are on. */
static bool disk_of(const Facts *f, struct statvfs *ret)
{
        return f->c && fstatvfs(store_fd(f->j->store), ret) >= 0;
}

static uint64_t disk_size(const Facts *f)
{
        struct statvfs v;

        return disk_of(f, &v) ? (uint64_t) v.f_blocks * v.f_frsize : UINT64_MAX;
}

static uint64_t disk_inodes(const Facts *f)
{
        struct statvfs v;

        return disk_of(f, &v) ? (uint64_t) v.f_files : UINT64_MAX;
}

static uint64_t disk_inodes_free(const Facts *f)
{
        struct statvfs v;

        return disk_of(f, &v) ? (uint64_t) v.f_ffree : UINT64_MAX;
}

static const struct {
        const char *name, *help;
        Runtime__V1__MetricType type;
        uint64_t (*value)(const Facts *f);
} facts[] = {
                {"container_memory_working_set_bytes", "Memory that cannot be taken back easily, in bytes.",
                 GAUGE, working_set},
                {"container_threads", "Number of threads.", GAUGE, threads},
                {"container_start_time_seconds", "When the container was made, in seconds since the epoch.",
                 GAUGE, made},
                {"container_spec_cpu_period", "Period of the processor time in microseconds.", GAUGE,
                 cpu_period},
                {"container_spec_cpu_quota", "Processor time in each period in microseconds.", GAUGE,
                 cpu_quota},
                {"container_spec_cpu_shares", "Share of the processors.", GAUGE, cpu_shares},
                {"container_fs_limit_bytes", "Size of the file system of the writable layer in bytes.",
                 GAUGE, disk_size},
                {"container_fs_inodes_total", "Number of inodes of that file system.", GAUGE, disk_inodes},
                {"container_fs_inodes_free", "Number of its inodes that are free.", GAUGE, disk_inodes_free},
};

#define LABELS 6U
#define OWN_LABELS_MAX 4U /* of a metric beside these */
static const char *const labels[LABELS] = {"container", "id", "image", "name", "namespace", "pod"};

/* Of each device, or size of pages. The last one is known by its name alone, as cgroups of version 2 do not have it: tools ask for
 * the descriptors of all that cAdvisor has. */
static const struct Listed {
        const char *name, *help;
        Runtime__V1__MetricType type;
        const char *keys[OWN_LABELS_MAX];
} device_metric = {"container_blkio_device_usage_total",
                   "Bytes read and written, by device.",
                   COUNTER,
                   {"device", "major", "minor", "operation"}},
  pages_metric = {"container_hugetlb_usage_bytes", "Huge pages in bytes, by size.", GAUGE, {"pagesize"}},
  pages_max_metric = {"container_hugetlb_max_usage_bytes",
                      "Highest use of huge pages in bytes, by size.",
                      GAUGE,
                      {"pagesize"}};
static const struct Listed *const listed[] = {&device_metric, &pages_metric, &pages_max_metric};

/* --- Descriptors --------------------------------------------------------------------------------------- */

static int describe_labelled(CriJob *j, Runtime__V1__ListMetricDescriptorsResponse *p, const char *name,
                             const char *help, const char *const keys[static OWN_LABELS_MAX])
{
        Runtime__V1__MetricDescriptor *d =
                        cri_message(&j->memory, &runtime__v1__metric_descriptor__descriptor);

        if (!d || !(d->label_keys = cri_alloc(&j->memory, (LABELS + OWN_LABELS_MAX) * sizeof(char *))))
                return -ENOMEM;
        d->name = (char *) name;
        d->help = (char *) help;
        memcpy(d->label_keys, labels, sizeof(labels));
        d->n_label_keys = LABELS;
        for (size_t i = 0; i < OWN_LABELS_MAX && keys[i]; i++)
                d->label_keys[d->n_label_keys++] = (char *) keys[i];
        p->descriptors[p->n_descriptors++] = d;
        return 0;
}

static int describe(CriJob *j, Runtime__V1__ListMetricDescriptorsResponse *p, const char *name,
                    const char *help, const char *key)
{
        return describe_labelled(j, p, name, help, (const char *const[OWN_LABELS_MAX]){key});
}

int cri_list_metric_descriptors(CriJob *j, const void *request, void *reply, Error *e)
{
        size_t max = ELEMENTSOF(metrics) + ELEMENTSOF(facts) + ELEMENTSOF(listed) +
                     2 * ELEMENTSOF(pressures) + ELEMENTSOF(network_metrics);
        Runtime__V1__ListMetricDescriptorsResponse *p = reply;
        int r = 0;

        p->descriptors = cri_alloc(&j->memory, max * sizeof(Runtime__V1__MetricDescriptor *));
        if (!p->descriptors)
                return error_oom(e);
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(metrics); i++)
                if (!metrics[i].again)
                        r = describe(j, p, metrics[i].name, metrics[i].help, metrics[i].key);
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(facts); i++)
                r = describe(j, p, facts[i].name, facts[i].help, NULL);
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(listed); i++)
                r = describe_labelled(j, p, listed[i]->name, listed[i]->help, listed[i]->keys);
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(pressures); i++) {
                const char *some = cri_printf(&j->memory, "Time for which a process waited for %s.",
                                              pressures[i].of),
                           *full = cri_printf(&j->memory, "Time for which all processes waited for %s.",
                                              pressures[i].of);
                r = some && full ? describe(j, p, pressures[i].waiting, some, NULL) : -ENOMEM;
                if (r >= 0)
                        r = describe(j, p, pressures[i].stalled, full, NULL);
        }
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(network_metrics); i++)
                r = describe(j, p, network_metrics[i].name, network_metrics[i].help, "interface");
        return r < 0 ? error_oom(e) : 0;
}

/* --- Values -------------------------------------------------------------------------------------------- */

/* The metrics of a container, or of a sandbox. */
typedef struct Series {
        CriJob *j;
        const char *labels[LABELS];
        uint64_t taken_usec;
        Metric **list;
        size_t n, max;
} Series;

/* OWN are the values of its own labels. */
static int add_labelled(Series *s, const char *name, Runtime__V1__MetricType type,
                        const char *const own[static OWN_LABELS_MAX], uint64_t value)
{
        Metric *m = cri_message(&s->j->memory, &runtime__v1__metric__descriptor);

        if (!m || s->n >= s->max ||
            !(m->label_values = cri_alloc(&s->j->memory, (LABELS + OWN_LABELS_MAX) * sizeof(char *))) ||
            !(m->value = cri_message(&s->j->memory, &runtime__v1__uint64_value__descriptor)))
                return -ENOMEM;
        m->name = (char *) name;
        m->metric_type = type;
        m->timestamp = (int64_t) (s->taken_usec * 1000U);
        memcpy(m->label_values, s->labels, sizeof(s->labels));
        m->n_label_values = LABELS;
        for (size_t i = 0; i < OWN_LABELS_MAX && own[i]; i++)
                if (!(m->label_values[m->n_label_values++] = cri_strdup(&s->j->memory, own[i])))
                        return -ENOMEM;
        m->value->value = value;
        s->list[s->n++] = m;
        return 0;
}

static int add(Series *s, const char *name, Runtime__V1__MetricType type, const char *label, uint64_t value)
{
        return add_labelled(s, name, type, (const char *const[OWN_LABELS_MAX]){label}, value);
}

/* ID is that of the sandbox, and belongs to the memory of the call, as the labels do. */
static int begin(Series *s, CriJob *j, const Sandbox *sandbox, const char *id, size_t max)
{
        const Runtime__V1__PodSandboxMetadata *m = sandbox->config->metadata;

        *s = (Series){.j = j, .max = max, .labels = {"", id, "", "", m->namespace_, m->name}};
        s->list = cri_alloc(&j->memory, MAX(max, (size_t) 1) * sizeof(Metric *));
        return s->list ? 0 : -ENOMEM;
}

static int add_facts(Series *s, const Facts *f)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(facts); i++) {
                uint64_t value = facts[i].value(f);
                if (value != UINT64_MAX)
                        r = add(s, facts[i].name, facts[i].type, NULL, value);
        }
        return r;
}

static int add_devices(Series *s, const char *cgroup)
{
        CriDevice l[CRI_DEVICES_MAX];
        size_t n = cri_devices_read(cgroup, l);
        int r = 0;

        for (size_t i = 0; r >= 0 && i < n; i++) {
                char major[16], minor[16];

                snprintf(major, sizeof(major), "%" PRIu32, l[i].major);
                snprintf(minor, sizeof(minor), "%" PRIu32, l[i].minor);
                r = add_labelled(s, device_metric.name, COUNTER,
                                 (const char *const[]){l[i].name, major, minor, "Read"}, l[i].read_bytes);
                if (r >= 0)
                        r = add_labelled(s, device_metric.name, COUNTER,
                                         (const char *const[]){l[i].name, major, minor, "Write"},
                                         l[i].written_bytes);
        }
        return r;
}

static int add_huge_pages(Series *s, const char *cgroup)
{
        CriHugePages l[CRI_PAGE_SIZES_MAX];
        size_t n = cri_huge_pages_read(cgroup, l);
        int r = 0;

        for (size_t i = 0; r >= 0 && i < n; i++)
                r = add(s, pages_metric.name, GAUGE, l[i].size, l[i].bytes);
        return r;
}

/* Of the cgroup at PATH; NULL: it is not known. */
static int add_lists(Series *s, const char *path)
{
        int r = path ? add_devices(s, path) : 0;

        return r < 0 || !path ? r : add_huge_pages(s, path);
}

/* C is NULL for a sandbox. */
static int add_usage(Series *s, const Container *c, const CriUsage *u)
{
        int r = 0;

        s->taken_usec = u->taken_usec;
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(metrics); i++) {
                uint64_t value = *(const uint64_t *) (const void *) ((const char *) u + metrics[i].offset);
                if (value != UINT64_MAX)
                        r = add(s, metrics[i].name, metrics[i].type, metrics[i].value,
                                value / metrics[i].divisor);
        }
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(pressures); i++) {
                const CriPressure *p = (const CriPressure *) (const void *) ((const char *) u +
                                                                             pressures[i].offset);
                if (p->known)
                        r = add(s, pressures[i].waiting, COUNTER, NULL, p->some.total_usec / USEC_PER_SEC);
                if (r >= 0 && p->known)
                        r = add(s, pressures[i].stalled, COUNTER, NULL, p->full.total_usec / USEC_PER_SEC);
        }
        return r < 0 ? r : add_facts(s, &(Facts){s->j, c, u});
}

static int add_network(Series *s, const NetworkUsage *l, size_t n)
{
        int r = 0;

        for (size_t i = 0; i < n; i++)
                for (size_t k = 0; r >= 0 && k < ELEMENTSOF(network_metrics); k++)
                        r = add(s, network_metrics[k].name, COUNTER, l[i].name,
                                *(const uint64_t *) (const void *) ((const char *) &l[i] +
                                                                    network_metrics[k].offset));
        return r;
}

#define USAGE_METRICS                                                                                       \
        (ELEMENTSOF(metrics) + ELEMENTSOF(facts) + 2 * ELEMENTSOF(pressures) + 2 * CRI_DEVICES_MAX +        \
         CRI_PAGE_SIZES_MAX)

static int add_pod(CriJob *j, const Sandbox *s, const CriUsage *u, Runtime__V1__PodSandboxMetrics *p)
{
        _cleanup_free_ NetworkUsage *l = NULL;
        _cleanup_free_ char *cgroup = NULL;
        size_t n = 0;
        Series series;

        if (sandbox_networks(s, &l, &n) < 0)
                n = 0;
        int r = begin(&series, j, s, p->pod_sandbox_id, USAGE_METRICS + n * ELEMENTSOF(network_metrics));
        if (r >= 0)
                r = add_usage(&series, NULL, u);
        if (r >= 0)
                r = add_network(&series, l, n);
        (void) pod_cgroup_unified(s->pod, &cgroup);
        if (r >= 0)
                r = add_lists(&series, cgroup);
        p->metrics = series.list;
        p->n_metrics = series.n;
        return r;
}

static int add_container(CriJob *j, const Container *c, const CriUsage *u, Runtime__V1__PodSandboxMetrics *p)
{
        Runtime__V1__ContainerMetrics *m =
                        cri_message(&j->memory, &runtime__v1__container_metrics__descriptor);
        _cleanup_free_ char *cgroup = NULL;
        Series series;

        if (!m || begin(&series, j, c->sandbox, p->pod_sandbox_id, USAGE_METRICS) < 0 ||
            !(m->container_id = cri_strdup(&j->memory, c->id)))
                return -ENOMEM;
        series.labels[0] = c->config->metadata->name;
        series.labels[1] = series.labels[3] = m->container_id;
        series.labels[2] = c->config->image ? c->config->image->image : "";
        int r = add_usage(&series, c, u);
        (void) cri_app_cgroup(c->sandbox, c->app, &cgroup);
        if (r >= 0)
                r = add_lists(&series, cgroup);
        m->metrics = series.list;
        m->n_metrics = series.n;
        p->container_metrics[p->n_container_metrics++] = m;
        return r;
}

static int add_sandbox(CriJob *j, Sandbox *s, Runtime__V1__PodSandboxMetrics **ret, Error *e)
{
        Runtime__V1__PodSandboxMetrics *p =
                        cri_message(&j->memory, &runtime__v1__pod_sandbox_metrics__descriptor);
        size_t n = s->pod->manifest->n_apps;
        CriUsage pod, *apps;

        if (!p || !(p->pod_sandbox_id = cri_strdup(&j->memory, s->id)) ||
            !(p->container_metrics =
                              cri_alloc(&j->memory, (n + 1) * sizeof(Runtime__V1__ContainerMetrics *))))
                return error_oom(e);
        int r = cri_usage_of(j, s, CRI_PARTS_ALL, &pod, &apps, e);
        if (r < 0)
                return r;
        r = add_pod(j, s, &pod, p);
        for (size_t i = 0; r >= 0 && i < n; i++) {
                Container c;
                if (apps[i].taken_usec > 0 && container_open(j, s, s->pod->manifest->apps[i], &c, NULL) >= 0)
                        r = add_container(j, &c, &apps[i], p);
        }
        *ret = p;
        return r < 0 ? error_oom(e) : 0;
}

int cri_list_pod_sandbox_metrics(CriJob *j, const void *request, void *reply, Error *e)
{
        Runtime__V1__ListPodSandboxMetricsResponse *answer = reply;
        Sandbox *l = NULL;
        size_t n = 0;

        int r = sandbox_list(j, &l, &n, e);
        if (r >= 0 && !(answer->pod_metrics = cri_alloc(&j->memory,
                                                        (n + 1) * sizeof(Runtime__V1__PodSandboxMetrics *))))
                r = error_oom(e);
        for (size_t i = 0; r >= 0 && i < n; i++)
                if (sandbox_is_ready(&l[i])) {
                        r = add_sandbox(j, &l[i], &answer->pod_metrics[answer->n_pod_metrics], e);
                        answer->n_pod_metrics += r >= 0;
                }
        sandbox_list_free(l, n);
        return r;
}
