/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Pods that do not end, as their processes wait for a file system that an app serves: SIGKILL does not end those.
 *
 * The pod's systemd, and nspawn, which are each the first process of a pid namespace, wait in their exit for all others of it. If that takes
 * longer than a while, the connections of the pod's file systems are aborted, by a child: what it writes to is the kernel's, but if that should not
 * answer, it is no business of the supervisor's. */

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "stage0/supervisor/pod/supervisor-internal.h"

#define LOOK_USEC UINT64_C(2000000)
#define STAT_MAX 4096U
#define CHILD_MSEC 1000
#define FLAGS_FIELD 9U   /* of /proc/PID/stat */
#define IS_EXITING 0x4UL /* PF_EXITING */

static bool is_exiting(pid_t pid)
{
        _cleanup_free_ char *text = NULL;
        char path[64];

        snprintf(path, sizeof(path), "/proc/%d/stat", (int) pid);
        if (pid <= 0 || read_file_at(AT_FDCWD, path, STAT_MAX, &text, NULL) < 0)
                return false;
        const char *p = strrchr(text, ')');
        for (unsigned field = 2; field < FLAGS_FIELD && p; field++) {
                p = strchr(p, ' ');
                p += p ? 1 : 0;
        }
        return p && strtoul(p, NULL, 10) & IS_EXITING;
}

/* All processes of the pod have been sent SIGKILL, by the kernel. A zombie does not wait any more. */
static bool is_ending(const Supervisor *s)
{
        return (is_exiting(s->runtime.leader) && process_is_alive(s->leader_fd)) ||
               (is_exiting(s->nspawn.pid) && process_is_alive(s->nspawn.pid_fd));
}

/* Closes inherited descriptors, such as the pod's lock. */
static _noreturn_ void child(const Supervisor *s, pid_t parent)
{
        (void) prctl(PR_SET_NAME, "abort-fuse");
        int n = prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent
                                ? -ESRCH
                                : mount_namespace_return(forwarders_host(s->forwarders));
        if (n >= 0 && syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0) >= 0)
                n = pod_abort_file_systems(s->pod);
        if (n > 0)
                log_warning("Pod %s did not end when it was killed, as its processes waited for file systems that "
                            "they served themselves (FUSE). These were aborted (%d).",
                            pod_display_name(s->pod), n);
        _exit(0);
}

static void begin(Supervisor *s)
{
        pid_t parent = getpid(), pid = fork();

        if (pid == 0)
                child(s, parent);
        s->stuck_pid = MAX(pid, 0);
}

static int on_look(sd_event_source *source, uint64_t usec, void *userdata)
{
        Supervisor *s = userdata;

        if (s->stuck_pid > 0 && waitpid(s->stuck_pid, NULL, WNOHANG) > 0)
                s->stuck_pid = 0;
        bool ending = is_ending(s);
        if (ending && s->was_ending && s->stuck_pid == 0 && s->n_looks++ == s->next_child) {
                s->next_child = s->next_child * 2 + 1; /* what it waits for may be another's */
                begin(s);
        }
        s->was_ending = ending;
        /* A connection that was lost is no end. */
        if (!ending && !supervisor_ends(s) && s->connection == CONNECTION_KNOWN)
                return 0;
        (void) sd_event_source_set_time_relative(source, LOOK_USEC);
        return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

void supervisor_watch_end(Supervisor *s)
{
        if (!s->stuck_source)
                (void) sd_event_add_time_relative(s->event, &s->stuck_source, CLOCK_MONOTONIC, LOOK_USEC, 0,
                                                  on_look, s);
        else if (sd_event_source_get_enabled(s->stuck_source, NULL) == 0) {
                (void) sd_event_source_set_time_relative(s->stuck_source, LOOK_USEC);
                (void) sd_event_source_set_enabled(s->stuck_source, SD_EVENT_ONESHOT);
        }
}

void supervisor_leave_end(Supervisor *s)
{
        s->stuck_source = sd_event_source_disable_unref(s->stuck_source);
        if (s->stuck_pid > 0) {
                (void) kill(s->stuck_pid, SIGKILL); /* nothing waits any more */
                (void) process_leave(s->stuck_pid, CHILD_MSEC);
        }
        s->stuck_pid = 0;
}
