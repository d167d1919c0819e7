/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* ContainerStats, PodSandboxStats and the lists of both. What this host cannot tell is absent, as a zero would be a figure. The lists are
 * made from the table of the server and recent samples (usage-sample.c), and say of what time these are; the calls for one read its cgroups. */

#include "cri/events/events-internal.h"

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

static ContainerStats *container_stats(Maker *m, const char *id, const ContainerConfig *c, const CriUsage *u)
{
        ContainerStats *p = make(m, &runtime__v1__container_stats__descriptor);
        Runtime__V1__ContainerAttributes *a = make(m, &runtime__v1__container_attributes__descriptor);

        if (!p || !a)
                return NULL;
        p->attributes = a;
        a->id = cri_strdup(&m->j->memory, id);
        m->failed |= !a->id;
        a->metadata = c->metadata;
        a->n_labels = c->n_labels;
        a->labels = (void *) c->labels;
        a->n_annotations = c->n_annotations;
        a->annotations = (void *) c->annotations;
        p->cpu = processor(m, u);
        p->memory = memory(m, u);
        p->swap = swap(m, u);
        p->io = io(m, u);
        p->writable_layer = layer(m, u);
        return p;
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
                        answer->stats = container_stats(&m, c.id, c.config, &apps[i]);
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
static Runtime__V1__NetworkUsage *network(Maker *m, const NetworkUsage *l, size_t n, uint64_t taken_usec)
{
        if (n == 0)
                return NULL;
        Runtime__V1__NetworkUsage *p = make(m, &runtime__v1__network_usage__descriptor);
        Runtime__V1__NetworkInterfaceUsage **list =
                        cri_alloc(&m->j->memory, (n + 1) * sizeof(Runtime__V1__NetworkInterfaceUsage *));
        if (!p || !list) {
                m->failed = true;
                return NULL;
        }
        p->timestamp = nanoseconds(taken_usec);
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

/* A sandbox with its figures; its containers are added by the caller, of which there are N at most. */
static PodStats *pod_stats(Maker *m, const char *id, const SandboxConfig *c, const CriUsage *u, size_t n)
{
        PodStats *p = make(m, &runtime__v1__pod_sandbox_stats__descriptor);
        Runtime__V1__PodSandboxAttributes *a = make(m, &runtime__v1__pod_sandbox_attributes__descriptor);
        Runtime__V1__LinuxPodSandboxStats *l = make(m, &runtime__v1__linux_pod_sandbox_stats__descriptor);

        if (m->failed || !(a->id = cri_strdup(&m->j->memory, id)) ||
            !(l->containers = cri_alloc(&m->j->memory, MAX(n, (size_t) 1) * sizeof(ContainerStats *)))) {
                m->failed = true;
                return NULL;
        }
        a->metadata = c->metadata;
        a->n_labels = c->n_labels;
        a->labels = (void *) c->labels;
        a->n_annotations = c->n_annotations;
        a->annotations = (void *) c->annotations;
        p->attributes = a;
        p->linux = l;
        l->cpu = processor(m, u);
        l->memory = memory(m, u);
        l->io = io(m, u);
        l->process = processes(m, u);
        return p;
}

static void add_container(PodStats *p, ContainerStats *c)
{
        if (c)
                p->linux->containers[p->linux->n_containers++] = c;
}

/* Of a sandbox that has ended, all but its name is unknown. */
int cri_pod_sandbox_stats(CriJob *j, const void *request, void *reply, Error *e)
{
        const Runtime__V1__PodSandboxStatsRequest *q = request;
        Runtime__V1__PodSandboxStatsResponse *answer = reply;
        _cleanup_free_ NetworkUsage *l = NULL;
        _cleanup_sandbox_ Sandbox s = {};
        Maker m = {.j = j};
        CriUsage pod, *apps;
        size_t n = 0;

        int r = sandbox_find(j, q->pod_sandbox_id, &s, e);
        if (r >= 0)
                r = cri_usage_of(j, &s, CRI_PARTS_STATS, &pod, &apps, e);
        if (r < 0)
                return r;
        const PodManifest *manifest = s.pod->manifest;
        answer->stats = pod_stats(&m, s.id, s.config, &pod, manifest->n_apps);
        if (!answer->stats)
                return error_oom(e);
        if (sandbox_is_ready(&s) && sandbox_networks(&s, &l, &n) >= 0)
                answer->stats->linux->network = network(&m, l, n, now_usec(CLOCK_REALTIME));
        for (size_t i = 0; i < manifest->n_apps; i++) {
                Container c;
                if (apps[i].taken_usec > 0 && container_open(j, &s, manifest->apps[i], &c, NULL) >= 0)
                        add_container(answer->stats, container_stats(&m, c.id, c.config, &apps[i]));
        }
        return m.failed ? error_oom(e) : 0;
}

/* --- Lists --------------------------------------------------------------------------------------------- */

static PodStats *sampled_pod_stats(Maker *m, const SeenSandbox *x)
{
        PodStats *p = pod_stats(m, x->sandbox.id, x->config, &x->sandbox.usage, x->n);

        if (!p)
                return NULL;
        p->linux->network = network(m, x->networks, x->n_networks, x->sandbox.usage.taken_usec);
        for (size_t i = 0; i < x->n; i++) {
                const Seen *c = &x->containers[i];
                if (usage_is_sampled(c))
                        add_container(p, container_stats(m, c->id, c->config, &c->usage));
        }
        return p;
}

static bool sandbox_matches(const SeenSandbox *x, const Runtime__V1__PodSandboxStatsFilter *f)
{
        return !f ||
               (startswith(x->sandbox.id, f->id) && cri_map_matches(x->config->n_labels, x->config->labels,
                                                                    f->n_label_selector, f->label_selector));
}

/* Of ready sandboxes. */
int cri_list_pod_sandbox_stats(CriJob *j, const void *request, void *reply, Error *e)
{
        const Runtime__V1__ListPodSandboxStatsRequest *q = request;
        Runtime__V1__ListPodSandboxStatsResponse *answer = reply;
        Maker m = {.j = j};
        SeenSandbox **l;
        size_t n;

        int r = events_table_sorted(j, &l, &n, e);
        if (r >= 0 && !(answer->stats = cri_alloc(&j->memory, (n + 1) * sizeof(PodStats *))))
                r = error_oom(e);
        for (size_t i = 0; r >= 0 && i < n; i++) {
                if (l[i]->sandbox.state != STARTED || !sandbox_matches(l[i], q->filter) ||
                    (r = usage_sample(j, l[i], e)) <= 0)
                        continue;
                answer->stats[answer->n_stats] = sampled_pod_stats(&m, l[i]);
                if (m.failed)
                        return error_oom(e);
                answer->n_stats++;
        }
        return r;
}

static bool container_matches(const Seen *c, const Runtime__V1__ContainerStatsFilter *f)
{
        return !f || (startswith(c->id, f->id) && cri_map_matches(c->config->n_labels, c->config->labels,
                                                                  f->n_label_selector, f->label_selector));
}

static bool has_match(const SeenSandbox *x, const Runtime__V1__ContainerStatsFilter *f)
{
        if (x->sandbox.state != STARTED || (f && !startswith(x->sandbox.id, f->pod_sandbox_id)))
                return false;
        for (size_t i = 0; i < x->n; i++)
                if (x->containers[i].state == STARTED && container_matches(&x->containers[i], f))
                        return true;
        return false;
}

/* Of running containers. */
int cri_list_container_stats(CriJob *j, const void *request, void *reply, Error *e)
{
        const Runtime__V1__ListContainerStatsRequest *q = request;
        Runtime__V1__ListContainerStatsResponse *answer = reply;
        Maker m = {.j = j};
        size_t n, all = 1;
        SeenSandbox **l;

        int r = events_table_sorted(j, &l, &n, e);
        for (size_t i = 0; r >= 0 && i < n; i++)
                all += l[i]->n;
        if (r >= 0 && !(answer->stats = cri_alloc(&j->memory, all * sizeof(ContainerStats *))))
                r = error_oom(e);
        for (size_t i = 0; r >= 0 && i < n; i++) {
                if (!has_match(l[i], q->filter) || (r = usage_sample(j, l[i], e)) <= 0)
                        continue;
                for (size_t k = 0; k < l[i]->n; k++) {
                        const Seen *c = &l[i]->containers[k];
                        if (!usage_is_sampled(c) || !container_matches(c, q->filter))
                                continue;
                        answer->stats[answer->n_stats++] = container_stats(&m, c->id, c->config, &c->usage);
                        if (m.failed)
                                return error_oom(e);
                }
        }
        return r;
}
