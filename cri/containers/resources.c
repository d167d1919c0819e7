/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* UpdateContainerResources and UpdatePodSandboxResources.
 *
 * Fields that a request does not set stay. Clients send the fields that they do not change as well, so only differences count:
 * a field that cannot be changed may be there with its value. What is in force is recorded in the request that the container
 * was made from, which statuses are made of. The resources of a sandbox are those of the cgroup of the client, who has changed
 * it already: they are recorded only. */

#include <unistd.h>

#include "cri/statistics/usage.h"

typedef Runtime__V1__LinuxContainerResources Resources;

/* --- Differences --------------------------------------------------------------------------------------- */

/* Zero: the field is not set. */
static void take_number(int64_t wanted, int64_t *value, int64_t *changed)
{
        if (wanted == 0 || wanted == *value)
                return;
        *value = *changed = wanted;
}

/* Empty: the field is not set. */
static void take_text(char *wanted, char **value, char **changed)
{
        if (*wanted && !streq(wanted, *value))
                *value = *changed = wanted;
}

static int add_unified(CriMemory *m, Resources *r, const char *key, const char *value)
{
        return cri_map_add(m, &r->n_unified, &r->unified,
                           &runtime__v1__linux_container_resources__unified_entry__descriptor, key, value);
}

/* Both maps are made anew, as that of NOW is the recorded request's. Keys without a value stay as they are. */
static int take_unified(CriMemory *m, const Resources *now, const Resources *wanted, Resources *merged,
                        Resources *changed)
{
        int r = 0;

        merged->n_unified = 0;
        merged->unified = NULL;
        for (size_t i = 0; r >= 0 && i < now->n_unified; i++) {
                const char *value = cri_map_get(wanted->n_unified, wanted->unified, now->unified[i]->key);
                r = add_unified(m, merged, now->unified[i]->key,
                                isempty(value) ? now->unified[i]->value : value);
        }
        for (size_t i = 0; r >= 0 && i < wanted->n_unified; i++) {
                const char *key = wanted->unified[i]->key, *value = wanted->unified[i]->value,
                           *old = cri_map_get(now->n_unified, now->unified, key);
                if (isempty(value) || streq_ptr(old, value))
                        continue;
                r = old ? 0 : add_unified(m, merged, key, value);
                if (r >= 0)
                        r = add_unified(m, changed, key, value);
        }
        return r;
}

/* NULL: there is none. */
static const Runtime__V1__HugepageLimit *find_huge_limit(const Resources *r, const char *size)
{
        for (size_t i = 0; i < r->n_hugepage_limits; i++)
                if (streq(r->hugepage_limits[i]->page_size, size))
                        return r->hugepage_limits[i];
        return NULL;
}

static int add_huge_limit(CriMemory *m, Resources *r, const Runtime__V1__HugepageLimit *h)
{
        Runtime__V1__HugepageLimit **l = cri_alloc(m, (r->n_hugepage_limits + 1) * sizeof(*l));

        if (!l)
                return -ENOMEM;
        if (r->n_hugepage_limits > 0)
                memcpy(l, r->hugepage_limits, r->n_hugepage_limits * sizeof(*l));
        l[r->n_hugepage_limits++] = (Runtime__V1__HugepageLimit *) h;
        r->hugepage_limits = l;
        return 0;
}

/* The list is made anew, as that of NOW is the recorded request's. Sizes of pages that the request does not have stay as they are. What
 * changes is an attribute of the cgroup, as 0 bytes are a limit here. */
static int take_huge_limits(CriMemory *m, const Resources *now, const Resources *wanted, Resources *merged,
                            Resources *changed)
{
        int r = 0;

        if (wanted->n_hugepage_limits == 0)
                return 0;
        merged->n_hugepage_limits = 0;
        merged->hugepage_limits = NULL;
        for (size_t i = 0; r >= 0 && i < now->n_hugepage_limits; i++)
                if (!find_huge_limit(wanted, now->hugepage_limits[i]->page_size))
                        r = add_huge_limit(m, merged, now->hugepage_limits[i]);
        for (size_t i = 0; r >= 0 && i < wanted->n_hugepage_limits; i++) {
                const Runtime__V1__HugepageLimit *h = wanted->hugepage_limits[i],
                                                 *old = find_huge_limit(now, h->page_size);
                r = add_huge_limit(m, merged, h);
                if (r < 0 || h->limit == (old ? old->limit : 0))
                        continue;
                char *key = cri_printf(m, "hugetlb.%s.max", h->page_size),
                     *value = cri_printf(m, "%" PRIu64, h->limit);
                r = key && value ? add_unified(m, changed, key, value) : -ENOMEM;
        }
        return r;
}

int resources_merge(CriJob *j, const Resources *now, const Resources *wanted, Resources *ret,
                    Resources *ret_changed, Error *e)
{
        Resources merged = *now, changed = RUNTIME__V1__LINUX_CONTAINER_RESOURCES__INIT;

        take_number(wanted->memory_limit_in_bytes, &merged.memory_limit_in_bytes,
                    &changed.memory_limit_in_bytes);
        take_number(wanted->memory_swap_limit_in_bytes, &merged.memory_swap_limit_in_bytes,
                    &changed.memory_swap_limit_in_bytes);
        take_number(wanted->cpu_period, &merged.cpu_period, &changed.cpu_period);
        take_number(wanted->cpu_quota, &merged.cpu_quota, &changed.cpu_quota);
        take_number(wanted->cpu_shares, &merged.cpu_shares, &changed.cpu_shares);
        take_number(wanted->oom_score_adj, &merged.oom_score_adj, &changed.oom_score_adj);
        take_text(wanted->cpuset_cpus, &merged.cpuset_cpus, &changed.cpuset_cpus);
        take_text(wanted->cpuset_mems, &merged.cpuset_mems, &changed.cpuset_mems);
        int r = take_unified(&j->memory, now, wanted, &merged, &changed);
        if (r >= 0)
                r = take_huge_limits(&j->memory, now, wanted, &merged, &changed);
        if (r < 0)
                return error_oom(e);
        /* A quota is one of a period. */
        if (changed.cpu_period != 0 || changed.cpu_quota != 0) {
                changed.cpu_period = merged.cpu_period;
                changed.cpu_quota = merged.cpu_quota;
        }
        /* How much may be swapped stays as it is; the limit that includes it follows the limit of memory. */
        int64_t swap = now->memory_swap_limit_in_bytes > 0
                                       ? now->memory_swap_limit_in_bytes - now->memory_limit_in_bytes
                                       : 0,
                both = merged.memory_limit_in_bytes + (merged.memory_limit_in_bytes > 0 ? swap : 0);
        if (merged.memory_swap_limit_in_bytes > 0 && merged.memory_swap_limit_in_bytes != both) {
                if (wanted->memory_swap_limit_in_bytes > 0)
                        return error_set(
                                        e, -EINVAL,
                                        "The field 'linux.memory_swap_limit_in_bytes' cannot be changed while the container exists, but "
                                        "with 'memory_limit_in_bytes', by as much");
                merged.memory_swap_limit_in_bytes = both;
        }
        changed.memory_swap_limit_in_bytes = 0;
        *ret = merged;
        *ret_changed = changed;
        return 0;
}

/* --- Containers ---------------------------------------------------------------------------------------- */

static int remove_limit(IsolatorList *l, IsolatorType type)
{
        if (GREEDY_REALLOC(l->items, l->allocated, l->n + 1) < 0)
                return -ENOMEM;
        int r = isolator_parse(isolator_type_to_string(type), "{}", &l->items[l->n], NULL);
        l->n += r >= 0;
        return r;
}

/* The limits that the supervisor changes; negative values are no limit. */
static int make_limits(const Resources *changed, AppOverrides *limits, Error *e)
{
        Resources set = *changed;
        int r = 0;

        set.oom_score_adj = 0;
        if (set.memory_limit_in_bytes < 0)
                r = remove_limit(&limits->isolators, ISOLATOR_RESOURCE_MEMORY);
        if (r >= 0 && set.cpu_quota < 0)
                r = remove_limit(&limits->isolators, ISOLATOR_RESOURCE_CPU);
        return r < 0 ? error_set_errno(e, r, "Cannot remove a limit") : container_resources(&set, limits, e);
}

/* The kernel would end processes of the container if it could not take back enough memory. */
static int check_memory(CriJob *j, const Container *c, const char *cgroup, int64_t limit, Error *e)
{
        CriUsage u;

        if (limit <= 0 || cri_usage_read(cgroup, CRI_PARTS_STATS, &u) < 0)
                return 0;
        uint64_t used = cri_working_set(&u);
        if (used == UINT64_MAX || used <= (uint64_t) limit)
                return 0;
        int r = error_set(e, -EBUSY,
                          "The memory limit of container %s cannot be set to %" PRId64
                          " bytes: it uses %" PRIu64 " bytes",
                          c->id, limit, used);
        return cri_status(j, GRPC_FAILED_PRECONDITION, r);
}

/* Replaces the request that the sandbox, or the container, was made from. */
static int record(CriJob *j, const Pod *p, const PodApp *app, const ProtobufCMessage *m, Error *e)
{
        OwnerData d = {.size = protobuf_c_message_get_packed_size(m)};

        d.data = cri_alloc(&j->memory, MAX(d.size, (size_t) 1));
        if (!d.data)
                return error_oom(e);
        (void) protobuf_c_message_pack(m, d.data);
        return pod_owner_data_replace(p, app, &d, e);
}

static int apply(CriJob *j, const Container *c, int64_t score, const Resources *changed, Error *e)
{
        _cleanup_(app_overrides_done) AppOverrides limits = {};
        _cleanup_(acn_disconnectp) AcnPod *a = NULL;
        _cleanup_free_ char *cgroup = NULL;

        if (!sandbox_is_ready(c->sandbox))
                return cri_status(j, GRPC_FAILED_PRECONDITION,
                                  error_set(e, -ESRCH, "Sandbox %s is not ready", c->sandbox->id));
        if (cri_app_cgroup(c->sandbox, c->app, &cgroup) < 0 || access(cgroup, F_OK) < 0)
                return cri_status(j, GRPC_FAILED_PRECONDITION,
                                  error_set(e, -ESRCH, "Container %s is not running", c->id));
        int r = make_limits(changed, &limits, e);
        if (r >= 0)
                r = check_memory(j, c, cgroup, changed->memory_limit_in_bytes, e);
        if (r >= 0 && limits.isolators.n > 0) {
                r = acn_connect(c->sandbox->pod, &a, e);
                if (r >= 0)
                        r = acn_update_app(a, c->app->name, &limits.isolators, e);
        }
        if (r < 0 || changed->oom_score_adj == 0)
                return r;
        r = oom_score_change(cgroup, score, changed->oom_score_adj);
        return r < 0 ? error_set_errno(e, r, "Cannot change the OOM score of container %s", c->id) : 0;
}

static bool is_empty(const Resources *r)
{
        return protobuf_c_message_get_packed_size(&r->base) == 0;
}

int cri_update_container_resources(CriJob *j, const void *request, void *reply, Error *e)
{
        const Runtime__V1__UpdateContainerResourcesRequest *q = request;
        Resources none = RUNTIME__V1__LINUX_CONTAINER_RESOURCES__INIT, merged, changed;
        _cleanup_sandbox_ Sandbox s = {};
        Container c;

        int r = container_find(j, q->container_id, &s, &c, e);
        if (r < 0 || !q->linux)
                return r;
        if (!c.config->linux)
                c.config->linux = cri_message(&j->memory, &runtime__v1__linux_container_config__descriptor);
        if (!c.config->linux)
                return error_oom(e);
        const Resources *now = c.config->linux->resources ?: &none;
        r = resources_merge(j, now, q->linux, &merged, &changed, e);
        if (r < 0 || is_empty(&changed))
                return r;
        r = apply(j, &c, now->oom_score_adj, &changed, e);
        if (r < 0)
                return r == -ESRCH ? cri_status(j, GRPC_FAILED_PRECONDITION, r) : r;
        c.config->linux->resources = &merged;
        return record(j, s.pod, c.app, &c.config->base, e);
}

/* --- Sandboxes ----------------------------------------------------------------------------------------- */

int cri_update_pod_sandbox_resources(CriJob *j, const void *request, void *reply, Error *e)
{
        const Runtime__V1__UpdatePodSandboxResourcesRequest *q = request;
        Runtime__V1__RunPodSandboxRequest made = RUNTIME__V1__RUN_POD_SANDBOX_REQUEST__INIT;
        _cleanup_sandbox_ Sandbox s = {};

        int r = sandbox_find(j, q->pod_sandbox_id, &s, e);
        if (r < 0 || (!q->overhead && !q->resources))
                return r;
        if (!s.config->linux)
                s.config->linux =
                                cri_message(&j->memory, &runtime__v1__linux_pod_sandbox_config__descriptor);
        if (!s.config->linux)
                return error_oom(e);
        if (q->overhead)
                s.config->linux->overhead = q->overhead;
        if (q->resources)
                s.config->linux->resources = q->resources;
        made.config = s.config;
        made.runtime_handler = (char *) s.handler;
        return record(j, s.pod, NULL, &made.base, e);
}
