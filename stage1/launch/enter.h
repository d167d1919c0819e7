/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* enter-join.c: becoming a neighbour of an app's process. */

#include <sched.h>
#include <sys/resource.h>

#include "stage1/launch/launch.h"

/* What a process hands on to its children besides its namespaces. */
typedef struct Inheritance {
        struct rlimit limits[RLIM_NLIMITS];
        char oom_score_adj[16], timer_slack[24];
        cpu_set_t cpus;
        struct sched_param priority;
        int policy, nice, io_priority;
        unsigned long personality;
        uint64_t bounding; /* capabilities: the pod may have fewer than the launch file gives */
} Inheritance;

/* Reads what process PID, by our numbers, would hand on. */
int inheritance_read(pid_t pid, const char *app, Inheritance *ret, Failure *f);
/* Takes it; that takes the host's privileges. */
int inheritance_take(const Inheritance *i, Failure *f);
/* Goes to the cgroups whose cgroup.procs are FDS. */
int join_cgroups(const int *fds, size_t n, const char *app, Failure *f);
/* Goes to all namespaces of the process PID that PID_FD stands for, but that of processes, at once, and
 * becomes their root. */
int join_namespaces(pid_t pid, int pid_fd, const char *app, Failure *f);
