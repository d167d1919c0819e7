/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What another program says, for tests that compare with it. */

#include <sys/wait.h>

#include "basic/basic.h"

/* Runs ARGV, without a shell, and returns what it writes to its standard output (at most 1 MiB). -ENOENT:
 * the program does not exist; -EPROTO: it failed. */
__attribute__((unused)) static int child_output(char *const argv[], char **ret)
{
        _cleanup_free_ char *text = NULL;
        int fds[2], status;

        if (access(argv[0], X_OK) < 0)
                return -errno;
        text = calloc(1, 1024 * 1024 + 1);
        if (!text || pipe2(fds, O_CLOEXEC) < 0)
                return -ENOMEM;
        pid_t pid = fork();
        if (pid == 0) {
                dup2(fds[1], STDOUT_FILENO);
                execv(argv[0], argv);
                _exit(127);
        }
        safe_close(fds[1]);
        ssize_t n = pid < 0 ? -EAGAIN : loop_read(fds[0], text, 1024 * 1024);
        safe_close(fds[0]);
        if (pid < 0 || waitpid(pid, &status, 0) < 0)
                return -EAGAIN;
        if (n < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
                return -EPROTO;
        *ret = TAKE_PTR(text);
        return 0;
}
