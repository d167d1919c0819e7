/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Processes referred to by a descriptor (pidfd), which is never reused for another process. */

#include <poll.h>

#include "stage0/runtime/runtime.h"

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
