/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Limits of the number of processes and threads of an app, and of all apps of a pod together. Without a
 * limit a fork bomb in one app would use up the process IDs of all others and of the host, so there is
 * always one, unless an unlimited number is requested explicitly.
 *
 * The pids controller of cgroup v2 counts for the pod's systemd (TasksMax= of the slices), that of version 1
 * for stage0, which puts each process of an app into a cgroup there (stage0/supervisor/apps/app-tasks.c). Where a pod
 * has neither, the launcher sets RLIMIT_NPROC: since Linux 5.14 the kernel counts the processes of a user in
 * each user namespace for itself, for its root as well. That is a limit for each user of the pod, shared by
 * all apps that run as that user: it bounds a fork bomb, but not to one app.
 */

#include "stage1/isolators-internal.h"

#define APP_TASKS_MAX 2048U
#define POD_TASKS_MAX 8192U
/* The largest process ID. */
#define TASKS_LIMIT (UINT64_C(1) << 22)

static const Isolator app_default = {.name = (char *) "resource/tasks",
                                     .type = ISOLATOR_RESOURCE_TASKS,
                                     .has_limit = true,
                                     .limit = APP_TASKS_MAX};
static const Isolator pod_default = {.name = (char *) "resource/tasks",
                                     .type = ISOLATOR_RESOURCE_TASKS,
                                     .has_limit = true,
                                     .limit = POD_TASKS_MAX};

static const Isolator *find_tasks(const IsolatorList *l)
{
        for (size_t i = l->n; i > 0; i--)
                if (l->items[i - 1].type == ISOLATOR_RESOURCE_TASKS && l->items[i - 1].has_limit)
                        return &l->items[i - 1];
        return NULL;
}

uint64_t stage1_tasks_max(const IsolatorList *l, bool pod_scope)
{
        const Isolator *i = find_tasks(l) ?: pod_scope ? &pod_default : &app_default;

        return i->limit >= TASKS_LIMIT ? STAGE1_TASKS_UNLIMITED : i->limit;
}

const Isolator *tasks_default(const IsolatorList *l, bool pod_scope)
{
        return find_tasks(l) ? NULL : pod_scope ? &pod_default : &app_default;
}

static IsolatorVerdict verdict_by_user(const VerdictInput *j, Text *detail)
{
        if (!j->host->own_users || j->pod_scope) {
                text_addf(detail, "this host has no cgroup controller 'pids' for pods%s",
                          j->host->own_users ? "; only the limits of its apps hold, for each user of the pod"
                                             : ", and the pod's users are the host's");
                return ISOLATOR_IGNORED;
        }
        text_addf(detail,
                  "each user of the pod at most %llu processes and threads, in all apps together: this host "
                  "has no cgroup controller 'pids' for pods",
                  (unsigned long long) j->isolator->limit);
        return ISOLATOR_MODIFIED;
}

IsolatorVerdict tasks_verdict(const VerdictInput *j, Text *detail)
{
        const Isolator *i = j->isolator;

        if (!i->has_limit)
                return ISOLATOR_IGNORED;
        if (i->limit >= TASKS_LIMIT) {
                text_add(detail, "as many processes and threads as the host has");
                return ISOLATOR_OFF;
        }
        if (!j->host->pids && !j->host->pids_v1)
                return verdict_by_user(j, detail);
        text_addf(detail, "%s at most %llu processes and threads",
                  j->pod_scope ? "all apps together" : "the app", (unsigned long long) i->limit);
        return ISOLATOR_ENFORCED;
}
