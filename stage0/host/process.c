/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Processes referred to by a descriptor (pidfd), which is never reused for another process. */

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "stage0/host/host.h"

/* Whether the process, a child, has ended, and was reaped. */
static bool ends_within(int pid_fd, pid_t pid, int msec)
{
        struct pollfd p = {.fd = pid_fd, .events = POLLIN};
        int r;

        do
                r = poll(&p, 1, msec);
        while (r < 0 && errno == EINTR);
        return waitpid(pid, NULL, WNOHANG) != 0;
}

bool process_leave(pid_t pid, int msec)
{
        _cleanup_close_ int pid_fd = (int) syscall(SYS_pidfd_open, pid, 0);

        if (ends_within(pid_fd, pid, msec))
                return true;
        (void) kill(pid, SIGKILL);
        return ends_within(pid_fd, pid, msec);
}

int process_leave_streams(void)
{
        _cleanup_close_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
                if (null < 0 || dup2(null, fd) < 0)
                        return -errno;
        return 0;
}

/* linux/pidfd.h, as of the version that introduced this call. */
typedef struct ProcessInfo {
        uint64_t mask, cgroup;
        uint32_t numbers[11];
        int32_t exit_code;
} ProcessInfo;

#define PROCESS_INFO_EXIT (UINT64_C(1) << 3)
#define PROCESS_INFO_GET _IOWR(0xff, 11, ProcessInfo)

int process_wait_status(int pid_fd, int *ret)
{
        ProcessInfo info = {.mask = PROCESS_INFO_EXIT};

        if (ioctl(pid_fd, PROCESS_INFO_GET, &info) < 0)
                return errno == ENOTTY || errno == EINVAL ? -EOPNOTSUPP : -errno;
        if (!(info.mask & PROCESS_INFO_EXIT))
                return -EOPNOTSUPP;
        *ret = info.exit_code;
        return 0;
}
