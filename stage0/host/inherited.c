/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a process passes on to all that it starts, for the supervisor of a pod: a pod is the same, whatever it was started by.
 *
 * systemd-nspawn sets limits and signals for the pod's PID 1. Priorities, processors and the like go to every app. In a unit
 * of the host that holds the pod they are the unit's own words (Nice=, OOMScoreAdjust=, CPUAffinity=, Personality=). Otherwise
 * they are those of a shell, of cron, or of a daemon with an OOM score of its own; then the pod gets what services of this
 * host get without such words: that of PID 1.
 */

#include <sched.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "stage0/host/host.h"

#define IO_PRIORITY_OF_PROCESS 1

static void set_limit(int resource, rlim_t soft, rlim_t hard)
{
        struct rlimit limit = {.rlim_cur = soft, .rlim_max = hard}, own;

        if (setrlimit((__rlimit_resource_t) resource, &limit) >= 0 ||
            getrlimit((__rlimit_resource_t) resource, &own) < 0)
                return;
        limit.rlim_cur = MIN(soft, own.rlim_max); /* a hard limit is raised only by the privileged */
        limit.rlim_max = own.rlim_max;
        (void) setrlimit((__rlimit_resource_t) resource, &limit);
}

/* What the supervisor may use itself: each process of an app holds four descriptors here, and a limit of the time or of the
 * size of files would end the pod. The limits of stacks and of dumps are only passed on. */
static void raise_limits(bool in_unit)
{
        for (int i = 0; i < RLIM_NLIMITS; i++) {
                bool passed_on = i == RLIMIT_STACK || i == RLIMIT_CORE;
                struct rlimit own, inits;

                if (getrlimit((__rlimit_resource_t) i, &own) < 0)
                        continue;
                if (in_unit || prlimit(1, (__rlimit_resource_t) i, NULL, &inits) < 0)
                        inits = own;
                rlim_t hard = MAX(own.rlim_max, inits.rlim_max);
                set_limit(i, passed_on ? inits.rlim_cur : hard, hard);
        }
}

static void take_scheduling(void)
{
        struct sched_param param;
        cpu_set_t cpus;
        int policy = sched_getscheduler(1), io = (int) syscall(SYS_ioprio_get, IO_PRIORITY_OF_PROCESS, 1);

        errno = 0;
        int nice = getpriority(PRIO_PROCESS, 1);
        if (errno == 0)
                (void) setpriority(PRIO_PROCESS, 0, nice);
        if (policy >= 0 && sched_getparam(1, &param) >= 0)
                (void) sched_setscheduler(0, policy, &param);
        if (io >= 0)
                (void) syscall(SYS_ioprio_set, IO_PRIORITY_OF_PROCESS, 0, io);
        if (sched_getaffinity(1, sizeof(cpus), &cpus) >= 0)
                (void) sched_setaffinity(0, sizeof(cpus), &cpus);
}

/* The attribute NAME of PID 1, without the line break; or NULL. *TEXT is to be freed. */
static const char *read_of_init(const char *name, char **text)
{
        char path[64];

        snprintf(path, sizeof(path), "/proc/1/%s", name);
        if (read_file_at(AT_FDCWD, path, 64, text, NULL) < 0)
                return NULL;
        (*text)[strcspn(*text, "\n")] = 0;
        return *text;
}

/* Where PID 1 cannot be looked at: what a kernel starts it with. */
#define TIMER_SLACK_NSEC 50000U

static void take_attributes(void)
{
        _cleanup_free_ char *score = NULL, *persona = NULL, *slack = NULL, *filter = NULL, *hex = NULL;
        unsigned long nsec = read_of_init("timerslack_ns", &slack) ? strtoul(slack, NULL, 10) : 0;

        if (read_of_init("oom_score_adj", &score))
                (void) write_attribute_at(AT_FDCWD, "/proc/self/oom_score_adj", score);
        if (read_of_init("coredump_filter", &filter) && xasprintf(&hex, "0x%s", filter) >= 0)
                (void) write_attribute_at(AT_FDCWD, "/proc/self/coredump_filter", hex);
        (void) personality(read_of_init("personality", &persona) ? strtoul(persona, NULL, 16) : 0);
        (void) prctl(PR_SET_TIMERSLACK, nsec ?: TIMER_SLACK_NSEC, 0, 0, 0);
        (void) prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
}

void inherited_settings_leave(bool in_unit)
{
        raise_limits(in_unit);
        if (in_unit)
                return;
        take_scheduling();
        take_attributes();
}
