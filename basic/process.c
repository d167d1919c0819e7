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
        int r;

        if (pid_fd < 0)
                return false;
        do
                r = poll(&p, 1, 0);
        while (r < 0 && errno == EINTR);
        return r == 0;
}

/* The number that /proc has is the process's own only if /proc is that of this pid namespace: then the process that has that number here has it in
 * /proc, too, and is this one, if this one is still alive afterwards. */
static bool find_own_number(int pid_fd, pid_t *ret)
{
        _cleanup_close_ int fd = -EBADF;
        pid_t there;

        if (process_number(pid_fd, ret) < 0)
                return false;
        fd = (int) syscall(SYS_pidfd_open, *ret, 0);
        return fd >= 0 && process_number(fd, &there) >= 0 && there == *ret;
}

/* The number is looked up just before: another process can have it only if this one ends, is reaped and its number is used again in between.
 * REFUSAL: the error where the number is not certain. */
static int signal_by_number(int pid_fd, int sig, int refusal)
{
        pid_t pid = 0;
        bool is_certain = sig == 0 || find_own_number(pid_fd, &pid);

        if (!process_is_alive(pid_fd))
                return -ESRCH;
        if (!is_certain)
                return refusal;
        return sig == 0 || kill(pid, sig) >= 0 ? 0 : -errno;
}

int process_signal(int pid_fd, int sig)
{
        if (syscall(SYS_pidfd_send_signal, pid_fd, sig, NULL, 0) >= 0)
                return 0;
        return is_refusal(-errno) ? signal_by_number(pid_fd, sig, -errno) : -errno;
}
