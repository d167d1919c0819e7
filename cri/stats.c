/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* ContainerStats, PodSandboxStats and the lists of both. What this host cannot tell is absent, as a zero would be a figure. */

#include "cri/usage.h"
#include "stage0/report/report.h"

#define NSEC_PER_USEC 1000U
#define LOOPBACK "lo"

typedef Runtime__V1__ContainerStats ContainerStats;
typedef Runtime__V1__PodSandboxStats PodStats;

/* Of a message that is being made: that the memory for a part was not there is noticed at the end. */
typedef struct Maker {
        CriJob *j;
        bool failed;
} Maker;

static void *make(Maker *m, const ProtobufCMessageDescriptor *d)
{
        void *p = cri_message(&m->j->memory, d);

        m->failed |= !p;
        return p;
}

/* NULL: it is not known. */
static Runtime__V1__UInt64Value *number(Maker *m, uint64_t value)
{
        Runtime__V1__UInt64Value *n =
                        value == UINT64_MAX ? NULL : make(m, &runtime__v1__uint64_value__descriptor);

        if (n)
                n->value = value;
        return n;
}

static uint64_t times(uint64_t value, uint64_t factor)
{
        return value == UINT64_MAX ? UINT64_MAX : value * factor;
}

static int64_t nanoseconds(uint64_t usec)
{
        return (int64_t) (usec * NSEC_PER_USEC);
}

/* --- Cgroups ------------------------------------------------------------------------------------------- */

static Runtime__V1__PsiData *pressure_line(Maker *m, const CriPressureLine *l)
{
        Runtime__V1__PsiData *p = make(m, &runtime__v1__psi_data__descriptor);

        if (!p)
                return NULL;
        p->total = l->total_usec * NSEC_PER_USEC;
        p->avg10 = l->averages[0];
        p->avg60 = l->averages[1];
        p->avg300 = l->averages[2];
        return p;
}

static Runtime__V1__PsiStats *pressure(Maker *m, const CriPressure *c)
{
        Runtime__V1__PsiStats *p = c->known ? make(m, &runtime__v1__psi_stats__descriptor) : NULL;

        if (!p)
                return NULL;
        p->some = pressure_line(m, &c->some);
        p->full = pressure_line(m, &c->full);
        return p;
}

static Runtime__V1__CpuUsage *processor(Maker *m, const CriUsage *u)
{
        Runtime__V1__CpuUsage *p =
                        u->cpu_usec == UINT64_MAX ? NULL : make(m, &runtime__v1__cpu_usage__descriptor);

        if (!p)
                return NULL;
        p->timestamp = nanoseconds(u->taken_usec);
        p->usage_core_nano_seconds = number(m, times(u->cpu_usec, NSEC_PER_USEC));
        p->usage_nano_cores = number(m, u->nano_cores);
        p->psi = pressure(m, &u->cpu_pressure);
        return p;
}

static uint64_t available(const CriUsage *u)
{
        uint64_t used = cri_working_set(u);

        if (u->memory_max == UINT64_MAX || used == UINT64_MAX)
                return UINT64_MAX;
        return u->memory_max > used ? u->memory_max - used : 0;
}

static Runtime__V1__MemoryUsage *memory(Maker *m, const CriUsage *u)
{
        bool known = u->memory != UINT64_MAX || u->memory_pressure.known;
        Runtime__V1__MemoryUsage *p = known ? make(m, &runtime__v1__memory_usage__descriptor) : NULL;

        if (!p)
                return NULL;
        p->timestamp = nanoseconds(u->taken_usec);
        p->working_set_bytes = number(m, cri_working_set(u));
        p->available_bytes = number(m, available(u));
        p->usage_bytes = number(m, u->memory);
        p->rss_bytes = number(m, u->anon);
        p->page_faults = number(m, u->faults);
        p->major_page_faults = number(m, u->major_faults);
        p->psi = pressure(m, &u->memory_pressure);
        return p;
}

static Runtime__V1__SwapUsage *swap(Maker *m, const CriUsage *u)
{
        Runtime__V1__SwapUsage *p =
                        u->swap == UINT64_MAX ? NULL : make(m, &runtime__v1__swap_usage__descriptor);

        if (!p)
                return NULL;
        p->timestamp = nanoseconds(u->taken_usec);
        p->swap_usage_bytes = number(m, u->swap);
        p->swap_available_bytes = number(m, u->swap_max == UINT64_MAX ? UINT64_MAX
                                            : u->swap_max > u->swap   ? u->swap_max - u->swap
                                                                      : 0);
        return p;
}

static Runtime__V1__IoUsage *io(Maker *m, const CriUsage *u)
{
        Runtime__V1__IoUsage *p = u->io_pressure.known ? make(m, &runtime__v1__io_usage__descriptor) : NULL;

        if (!p)
                return NULL;
        p->timestamp = nanoseconds(u->taken_usec);
        p->psi = pressure(m, &u->io_pressure);
        return p;
}

/* --- Containers ---------------------------------------------------------------------------------------- */

static Runtime__V1__FilesystemUsage *layer(Maker *m, const CriUsage *u)
{
        Runtime__V1__FilesystemUsage *p =
                        u->disk_bytes == UINT64_MAX ? NULL
                                                    : make(m, &runtime__v1__filesystem_usage__descriptor);

        if (!p)
                return NULL;
        p->timestamp = nanoseconds(u->disk_usec);
        p->used_bytes = number(m, u->disk_bytes);
        p->inodes_used = number(m, u->disk_inodes);
        p->fs_id = make(m, &runtime__v1__filesystem_identifier__descriptor);
        if (p->fs_id)
                p->fs_id->mountpoint = (char *) store_path(m->j->store);
        return p;
}

static ContainerStats *container_stats(Maker *m, const Container *c, const CriUsage *u)
{
        ContainerStats *p = make(m, &runtime__v1__container_stats__descriptor);
        Runtime__V1__ContainerAttributes *a = make(m, &runtime__v1__container_attributes__descriptor);

        if (!p || !a)
                return NULL;
        p->attributes = a;
        a->id = cri_strdup(&m->j->memory, c->id);
        m->failed |= !a->id;
        a->metadata = c->config->metadata;
        a->n_labels = c->config->n_labels;
        a->labels = (void *) c->config->labels;
        a->n_annotations = c->config->n_annotations;
        a->annotations = (void *) c->config->annotations;
        p->cpu = processor(m, u);
        p->memory = memory(m, u);
        p->swap = swap(m, u);
        p->io = io(m, u);
        p->writable_layer = layer(m, u);
        return p;
}

static bool runs(const CriUsage *u)
{
        return u->taken_usec > 0;
}

int cri_container_stats(CriJob *j, const void *request, void *reply, Error *e)
{
        const Runtime__V1__ContainerStatsRequest *q = request;
        Runtime__V1__ContainerStatsResponse *answer = reply;
        _cleanup_sandbox_ Sandbox s = {};
        Maker m = {.j = j};
        CriUsage *apps;
        Container c;

        int r = container_find(j, q->container_id, &s, &c, e);
        if (r >= 0)
                r = cri_usage_of(j, &s, CRI_PARTS_STATS, NULL, &apps, e);
        for (size_t i = 0; r >= 0 && i < s.pod->manifest->n_apps; i++)
                if (s.pod->manifest->apps[i] == c.app)
                        answer->stats = container_stats(&m, &c, &apps[i]);
        return r >= 0 && m.failed ? error_oom(e) : r;
}

/* --- Sandboxes ----------------------------------------------------------------------------------------- */

static Runtime__V1__NetworkInterfaceUsage *interface(Maker *m, const NetworkUsage *u)
{
        Runtime__V1__NetworkInterfaceUsage *p = make(m, &runtime__v1__network_interface_usage__descriptor);

        if (!p || !(p->name = cri_strdup(&m->j->memory, u->name))) {
                m->failed = true;
                return NULL;
        }
        p->rx_bytes = number(m, u->received_bytes);
        p->rx_errors = number(m, u->received_errors);
        p->tx_bytes = number(m, u->sent_bytes);
        p->tx_errors = number(m, u->sent_errors);
        return p;
}

/* The first interface is that of the cluster's network; the loopback of a pod does not count. */
static Runtime__V1__NetworkUsage *network(Maker *m, const Sandbox *s)
{
        _cleanup_free_ NetworkUsage *l = NULL;
        size_t n = 0;

        if (!sandbox_is_ready(s) || pod_network_usage(s->pod, &l, &n) < 0)
                return NULL;
        Runtime__V1__NetworkUsage *p = make(m, &runtime__v1__network_usage__descriptor);
        Runtime__V1__NetworkInterfaceUsage **list =
                        cri_alloc(&m->j->memory, (n + 1) * sizeof(Runtime__V1__NetworkInterfaceUsage *));
        if (!p || !list) {
                m->failed = true;
                return NULL;
        }
        p->timestamp = nanoseconds(now_usec(CLOCK_REALTIME));
        p->interfaces = list;
        for (size_t i = 0; i < n && !m->failed; i++)
                if (!streq(l[i].name, LOOPBACK))
                        list[p->n_interfaces++] = interface(m, &l[i]);
        for (size_t i = 0; i < p->n_interfaces && !m->failed; i++)
                if (i == 0 || streq(list[i]->name, "eth0"))
                        p->default_interface = list[i];
        return p;
}

static Runtime__V1__ProcessUsage *processes(Maker *m, const CriUsage *u)
{
        Runtime__V1__ProcessUsage *p =
                        u->pids == UINT64_MAX ? NULL : make(m, &runtime__v1__process_usage__descriptor);

        if (!p)
                return NULL;
        p->timestamp = nanoseconds(u->taken_usec);
        p->process_count = number(m, u->pids);
        return p;
}

static int add_containers(Maker *m, Sandbox *s, const CriUsage *apps, Runtime__V1__LinuxPodSandboxStats *p,
                          Error *e)
{
        size_t n = s->pod->manifest->n_apps;

        p->containers = cri_alloc(&m->j->memory, MAX(n, (size_t) 1) * sizeof(ContainerStats *));
        if (!p->containers)
                return error_oom(e);
        for (size_t i = 0; i < n; i++) {
                Container c;
                if (!runs(&apps[i]) ||
                    container_open_listed(m->j, s, s->pod->manifest->apps[i], &c, NULL) < 0)
                        continue;
                p->containers[p->n_containers] = container_stats(m, &c, &apps[i]);
                if (!p->containers[p->n_containers++])
                        return error_oom(e);
        }
        return 0;
}

static int pod_stats(CriJob *j, Sandbox *s, PodStats **ret, Error *e)
{
        Maker m = {.j = j};
        PodStats *p = make(&m, &runtime__v1__pod_sandbox_stats__descriptor);
        Runtime__V1__PodSandboxAttributes *a = make(&m, &runtime__v1__pod_sandbox_attributes__descriptor);
        Runtime__V1__LinuxPodSandboxStats *l = make(&m, &runtime__v1__linux_pod_sandbox_stats__descriptor);
        CriUsage pod, *apps;

        if (m.failed || !(a->id = cri_strdup(&j->memory, s->id)))
                return error_oom(e);
        int r = cri_usage_of(j, s, CRI_PARTS_STATS, &pod, &apps, e);
        if (r < 0)
                return r;
        a->metadata = s->config->metadata;
        a->n_labels = s->config->n_labels;
        a->labels = (void *) s->config->labels;
        a->n_annotations = s->config->n_annotations;
        a->annotations = (void *) s->config->annotations;
        p->attributes = a;
        p->linux = l;
        l->cpu = processor(&m, &pod);
        l->memory = memory(&m, &pod);
        l->io = io(&m, &pod);
        l->network = network(&m, s);
        l->process = processes(&m, &pod);
        r = add_containers(&m, s, apps, l, e);
        *ret = p;
        return r >= 0 && m.failed ? error_oom(e) : r;
}

int cri_pod_sandbox_stats(CriJob *j, const void *request, void *reply, Error *e)
{
        const Runtime__V1__PodSandboxStatsRequest *q = request;
        Runtime__V1__PodSandboxStatsResponse *answer = reply;
        _cleanup_sandbox_ Sandbox s = {};

        int r = sandbox_find(j, q->pod_sandbox_id, &s, e);
        return r < 0 ? r : pod_stats(j, &s, &answer->stats, e);
}

/* --- Lists --------------------------------------------------------------------------------------------- */

/* Of ready sandboxes. */
int cri_list_pod_sandbox_stats(CriJob *j, const void *request, void *reply, Error *e)
{
        const Runtime__V1__ListPodSandboxStatsRequest *q = request;
        const Runtime__V1__PodSandboxStatsFilter *f = q->filter;
        Runtime__V1__ListPodSandboxStatsResponse *answer = reply;
        Sandbox *l = NULL;
        size_t n = 0;

        int r = sandbox_list_ready(j, &l, &n, e);
        if (r >= 0 && !(answer->stats = cri_alloc(&j->memory, (n + 1) * sizeof(PodStats *))))
                r = error_oom(e);
        for (size_t i = 0; r >= 0 && i < n; i++) {
                if (!sandbox_is_ready(&l[i]) ||
                    (f && (!startswith(l[i].id, f->id) ||
                           !cri_map_matches(l[i].config->n_labels, l[i].config->labels, f->n_label_selector,
                                            f->label_selector))))
                        continue;
                r = pod_stats(j, &l[i], &answer->stats[answer->n_stats], e);
                answer->n_stats += r >= 0;
        }
        sandbox_list_free(l, n);
        return r;
}

static bool matches(const Container *c, const Runtime__V1__ContainerStatsFilter *f)
{
        return !f || (startswith(c->id, f->id) && cri_map_matches(c->config->n_labels, c->config->labels,
                                                                  f->n_label_selector, f->label_selector));
}

static int list_in(CriJob *j, Sandbox *s, const Runtime__V1__ContainerStatsFilter *f,
                   Runtime__V1__ListContainerStatsResponse *answer, Error *e)
{
        size_t n = s->pod->manifest->n_apps;
        ContainerStats **grown = cri_alloc(&j->memory, (answer->n_stats + n + 1) * sizeof(ContainerStats *));
        Maker m = {.j = j};
        CriUsage *apps;

        int r = grown ? cri_usage_of(j, s, CRI_PARTS_STATS, NULL, &apps, e) : error_oom(e);
        if (r < 0)
                return r;
        if (answer->n_stats > 0)
                memcpy(grown, answer->stats, answer->n_stats * sizeof(ContainerStats *));
        answer->stats = grown;
        for (size_t i = 0; i < n; i++) {
                Container c;
                if (!runs(&apps[i]) ||
                    container_open_listed(j, s, s->pod->manifest->apps[i], &c, NULL) < 0 || !matches(&c, f))
                        continue;
                grown[answer->n_stats++] = container_stats(&m, &c, &apps[i]);
        }
        return m.failed ? error_oom(e) : 0;
}

/* Of running containers. */
int cri_list_container_stats(CriJob *j, const void *request, void *reply, Error *e)
{
        const Runtime__V1__ListContainerStatsRequest *q = request;
        Sandbox *l = NULL;
        size_t n = 0;

        int r = sandbox_list_ready(j, &l, &n, e);
        for (size_t i = 0; r >= 0 && i < n; i++)
                if (sandbox_is_ready(&l[i]) &&
                    (!q->filter || startswith(l[i].id, q->filter->pod_sandbox_id)))
                        r = list_in(j, &l[i], q->filter, reply, e);
        sandbox_list_free(l, n);
        return r;
}
