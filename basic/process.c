/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Processes referred to by a descriptor (pidfd), which is never reused for another process, and what a filter of system calls around acnspawn, as
 * that of a container, answers. */

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "basic/basic.h"

bool is_refusal(int r)
{
        return r == -EPERM || r == -EACCES || r == -ENOSYS;
}

int process_number(int pid_fd, pid_t *ret)
{
        _cleanup_free_ char *text = NULL;
        char path[64];

        snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pid_fd);
        int r = read_file_at(AT_FDCWD, path, 4096, &text, NULL);
        const char *p = r < 0 ? NULL : strstr(text, "\nPid:");
        if (!p)
                return r < 0 ? r : -EBADMSG;
        pid_t pid = (pid_t) strtol(p + strlen("\nPid:"), NULL, 10);
        if (pid <= 0)
                return -ESRCH;
        *ret = pid;
        return 0;
}

bool process_is_alive(int pid_fd)
{
        struct pollfd p = {.fd = pid_fd, .events = POLLIN};

        return pid_fd >= 0 && poll(&p, 1, 0) == 0;
}

/* The number is looked up just before: another process can have it only if this one ends, is reaped and its number is used again in between. */
static int signal_by_number(int pid_fd, int sig)
{
        pid_t pid;

        if (!process_is_alive(pid_fd))
                return -ESRCH;
        int r = sig == 0 ? 0 : process_number(pid_fd, &pid);
        if (r < 0 || sig == 0)
                return r;
        return kill(pid, sig) < 0 ? -errno : 0;
}

int process_signal(int pid_fd, int sig)
{
        if (syscall(SYS_pidfd_send_signal, pid_fd, sig, NULL, 0) >= 0)
                return 0;
        return is_refusal(-errno) ? signal_by_number(pid_fd, sig) : -errno;
}
