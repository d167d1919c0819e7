/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Ends a child that may be blocked in a file system that does not answer: SIGKILL takes effect only when the file system
 * answers, perhaps hours later. The supervisor continues without the child, and reaps it then. It polls with a timer: a
 * pidfd becomes readable as soon as the child has ended, but while the child is traced only its tracer can reap it. */

#include <sys/wait.h>

#include "stage0/supervisor/apps/left-process.h"

#define END_MSEC 1000
#define POLL_USEC UINT64_C(1000000)

static int on_poll(sd_event_source *source, uint64_t usec, void *userdata)
{
        pid_t pid = (pid_t) (intptr_t) userdata;

        if (waitpid(pid, NULL, WNOHANG) != 0) {
                sd_event_source_disable_unref(source);
                return 0;
        }
        (void) sd_event_source_set_time_relative(source, POLL_USEC);
        return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

void leave_process(sd_event *event, pid_t pid)
{
        if (!process_leave(pid, END_MSEC))
                (void) sd_event_add_time_relative(event, NULL, CLOCK_MONOTONIC, POLL_USEC, 0, on_poll,
                                                  (void *) (intptr_t) pid);
}
