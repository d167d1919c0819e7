/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The usage of a sandbox and of its containers. */

#include "cri/statistics/usage.h"

#define LAYERS_BUDGET_USEC UINT64_C(300000) /* of one sandbox, for layers that were never measured */

static int app_cgroup(const char *pod, const PodApp *app, char **ret)
{
        _cleanup_free_ char *slice = NULL;
        int r = nested_slices(app->name, &slice);

        return r < 0 ? r : xasprintf(ret, "%s/payload/app.slice/%s", pod, slice);
}

int cri_app_cgroup(const Sandbox *s, const PodApp *app, char **ret)
{
        _cleanup_free_ char *pod = NULL;
        int r = pod_cgroup_unified(s->pod, &pod);

        return r < 0 ? r : app_cgroup(pod, app, ret);
}

/* Its cgroup is gone when it has ended. */
static void read_app(CriJob *j, const Pod *p, const PodApp *app, const char *pod, CriParts parts,
                     CriUsage *ret)
{
        _cleanup_free_ char *path = NULL;
        char key[CRI_SAMPLE_KEY_SIZE];

        if (pod && app_cgroup(pod, app, &path) >= 0 && cri_usage_read(path, parts, ret) >= 0 &&
            cri_sample_key(p, app, key) >= 0)
                cri_sample_processor(j, key, ret);
}

/* What the pod's cgroup may use is limited by the client, in the cgroup around it. */
static void limit_memory(const char *path, CriUsage *u)
{
        _cleanup_free_ char *copy = strdup(path);

        for (char *end; copy && (end = strrchr(copy, '/')) && end > copy;) {
                _cleanup_free_ char *text = NULL, *file = NULL;
                uint64_t limit;

                *end = 0;
                if (xasprintf(&file, "%s/memory.max", copy) < 0 ||
                    read_file_at(AT_FDCWD, file, 64, &text, NULL) < 0)
                        return;
                text[strcspn(text, "\n")] = 0;
                if (parse_u64(text, &limit) >= 0)
                        u->memory_max = MIN(u->memory_max, limit);
        }
}

/* Where the controller is in a hierarchy of version 1, the pod has a cgroup there, too. */
static bool read_processes(Pod *p, uint64_t *ret)
{
        _cleanup_free_ char *path = NULL, *file = NULL, *text = NULL;

        if (pod_cgroup_pids_v1(p, &path) < 0 || xasprintf(&file, "%s/pids.current", path) < 0 ||
            read_file_at(AT_FDCWD, file, 64, &text, NULL) < 0)
                return false;
        text[strcspn(text, "\n")] = 0;
        return parse_u64(text, ret) >= 0;
}

static void read_pod(CriJob *j, const Sandbox *s, const char *path, CriParts parts, CriUsage *ret)
{
        char key[CRI_SAMPLE_KEY_SIZE];
        uint64_t n = UINT64_MAX;

        cri_usage_init(ret);
        if (!path)
                return;
        parts &= ~CRI_PARTS_DESCRIPTORS;
        parts = read_processes(s->pod, &n) ? parts & ~CRI_PARTS_PROCESSES : parts | CRI_PARTS_PROCESSES;
        if (cri_usage_read(path, parts, ret) < 0 || cri_sample_key(s->pod, NULL, key) < 0)
                return;
        if (n != UINT64_MAX)
                ret->pids = n;
        limit_memory(path, ret);
        cri_sample_processor(j, key, ret);
}

int cri_usage_of(CriJob *j, const Sandbox *s, CriParts parts, CriUsage *ret_pod, CriUsage **ret_apps,
                 Error *e)
{
        const PodManifest *m = s->pod->manifest;
        _cleanup_free_ char *path = NULL;
        uint64_t budget = LAYERS_BUDGET_USEC;
        CriUsage *apps = cri_alloc(&j->memory, MAX(m->n_apps, (size_t) 1) * sizeof(CriUsage));

        if (!apps)
                return error_oom(e);
        if (sandbox_is_ready(s))
                (void) pod_cgroup_unified(s->pod, &path);
        if (ret_pod)
                read_pod(j, s, path, parts, ret_pod);
        for (size_t i = 0; i < m->n_apps; i++) {
                cri_usage_init(&apps[i]);
                read_app(j, s->pod, m->apps[i], path, parts, &apps[i]);
                cri_sample_layer(j, s->pod, m->apps[i], &apps[i], &budget);
        }
        *ret_apps = apps;
        return 0;
}
