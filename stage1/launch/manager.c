/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The systemd of a pod that is in the pid namespace of the host, where it cannot be PID 1: it runs as that of a user, root. It
 * has the same units, takes SIGTERM as the order to end, and listens where PID 1 of other pods does. Processes whose parents
 * have ended are its children. It starts only where a systemd seems to be the init. */

#include <sys/stat.h>
#include <unistd.h>

#include "stage1/launch/launch.h"

#define MANAGER "/usr/lib/systemd/systemd"

int manager_main(void)
{
        static const char *const directories[] = {"/run/systemd", "/run/systemd/system"};

        for (size_t i = 0; i < ELEMENTSOF(directories); i++)
                if (mkdir(directories[i], 0755) < 0 && errno != EEXIST) {
                        fprintf(stderr, "Cannot create %s: %m\n", directories[i]);
                        return 125;
                }
        if (setenv("XDG_RUNTIME_DIR", "/run", 1) < 0 || setenv("HOME", "/", 1) < 0)
                return 125;
        (void) execl(MANAGER, MANAGER, "--user", NULL);
        fprintf(stderr, "Cannot execute " MANAGER ": %m\n");
        return 125;
}
