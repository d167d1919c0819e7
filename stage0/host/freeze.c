/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Pausing a pod: the freezer of cgroup v2, on the pod's own directory, which is not writable in the pod. All
 * processes in it stop, including systemd and nspawn; the process that runs the pod is outside, and does
 * not. */

#include <poll.h>

#include "stage0/host/host.h"

#define FREEZE_TIMEOUT_USEC (10 * UINT64_C(1000000))

static int open_cgroup(Pod *p)
{
        _cleanup_free_ char *path = NULL;
        int r = pod_cgroup_unified(p, &path);

        if (r < 0)
                return r;
        int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

int pod_open_freezer(Pod *p)
{
        _cleanup_close_ int dir_fd = open_cgroup(p);

        if (dir_fd < 0)
                return dir_fd;
        int fd = openat(dir_fd, "cgroup.freeze", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        return fd < 0 ? -errno : fd;
}

bool freezer_is_frozen(int fd)
{
        char c;

        return fd >= 0 && pread(fd, &c, 1, 0) == 1 && c == '1';
}

bool pod_is_paused(Pod *p)
{
        _cleanup_close_ int fd = pod_open_freezer(p);

        return freezer_is_frozen(fd);
}

const char *pod_shown_state(Pod *p)
{
        return p->state == POD_RUNNING && pod_is_paused(p) ? "paused" : pod_state_to_string(p->state);
}

/* 1: the requested state is reached. The kernel signals a change by POLLPRI. */
static int check_events(int fd, bool freeze)
{
        char text[256];
        ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

        if (n < 0)
                return -errno;
        text[n] = 0;
        return strstr(text, freeze ? "frozen 1" : "frozen 0") != NULL;
}

static int wait_for(int dir_fd, bool freeze)
{
        _cleanup_close_ int fd = openat(dir_fd, "cgroup.events", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        uint64_t end = now_usec(CLOCK_MONOTONIC) + FREEZE_TIMEOUT_USEC;
        struct pollfd p = {.fd = fd, .events = POLLPRI};

        if (fd < 0)
                return -errno;
        for (;;) {
                int r = check_events(fd, freeze);
                if (r != 0)
                        return r < 0 ? r : 0;
                if (now_usec(CLOCK_MONOTONIC) >= end)
                        return -ETIME;
                (void) poll(&p, 1, 100);
        }
}

int pod_freeze(Pod *p, bool freeze, Error *e)
{
        _cleanup_close_ int fd = open_cgroup(p);
        int r = fd;

        if (r >= 0)
                r = write_attribute_at(fd, "cgroup.freeze", freeze ? "1" : "0");
        if (r >= 0)
                r = wait_for(fd, freeze);
        if (r == -ETIME) { /* a process is blocked in the kernel; undo the incomplete pause */
                (void) write_attribute_at(fd, "cgroup.freeze", "0");
                return error_set(e, r, "The processes of pod %s did not %s in time", pod_display_name(p),
                                 freeze ? "stop" : "go on");
        }
        return r < 0 ? error_set_errno(e, r, "Cannot %s pod %s", freeze ? "pause" : "resume",
                                       pod_display_name(p))
                     : 0;
}
