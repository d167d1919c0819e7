/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The file of a command: a script's first line, an ELF program's headers, or anything else. */

#include <sys/mman.h>
#include <sys/stat.h>

#include "stage1/launch/launch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _cleanup_close_ int fd = memfd_create("command", MFD_CLOEXEC);
        _cleanup_(command_done) Command c = {};
        Failure f = {};
        char path[64];
        char *argv[] = {path, NULL}, *environment[] = {NULL};

        if (fd < 0 || fchmod(fd, 0755) < 0 || loop_write(fd, data, size) < 0)
                return 0;
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        if (command_find(argv, environment, &c, &f) < 0) {
                if (!f.error.message || f.cause == CAUSE_NONE)
                        abort();
        } else if (!streq(c.path, path) || (c.interpreter && strlen(c.interpreter) > 4096) ||
                   (c.format == COMMAND_TEXT) != (c.shell_argv != NULL))
                abort();
        error_done(&f.error);
        return 0;
}
