/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* enter-join.c: joining the cgroups, limits and namespaces of an app's process. */

#include <sched.h>
#include <sys/resource.h>

#include "stage1/launch/launch.h"

/* Settings that a process passes to its children besides its namespaces. */
typedef struct InheritedSettings {
        struct rlimit limits[RLIM_NLIMITS];
        char oom_score_adj[16], timer_slack[24];
        cpu_set_t cpus;
        bool has_cpus;
        struct sched_param priority;
        int policy, nice, io_priority;
        unsigned long personality;
        uint64_t bounding; /* bounding set: the pod may have fewer capabilities than the launch file lists */
} InheritedSettings;

/* Reads the settings of process PID, a number of the caller's pid namespace. */
int inherited_settings_read(pid_t pid, const char *app, InheritedSettings *ret, Failure *f);
/* Applies them to this process, which needs privileges on the host. */
int inherited_settings_apply(const InheritedSettings *i, Failure *f);
/* Moves this process, which has a single thread, to the cgroups whose "tasks" or cgroup.procs are FDS. */
int join_cgroups(const int *fds, size_t n, const char *app, Failure *f);
/* Joins all namespaces, except the pid namespace, of the process PID that PID_FD refers to, at once, and
 * becomes their root. */
int join_namespaces(pid_t pid, int pid_fd, const char *app, Failure *f);
