/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Standard output and standard error as two streams of the pod's journal.
 *
 * systemd would give the app one stream for both. Two keep them apart: what an app writes to standard error
 * gets the priority "err", so that acnspawn logs can put it on its own standard error, and journalctl -p
 * finds it. The streams are opened here, by a process in the app's cgroup, because journald derives the unit
 * from the process that connects; stage0 writes to them.
 */

#include <sys/socket.h>
#include <sys/un.h>
#include <syslog.h>

#include "stage1/launch/launch.h"

static int open_stream(const char *app, int priority)
{
        static const struct sockaddr_un address = {
                        .sun_family = AF_UNIX,
                        .sun_path = "/run/systemd/journal/stdout",
        };
        _cleanup_free_ char *header = NULL;
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd < 0)
                return -errno;
        if (connect(fd, (const struct sockaddr *) &address, sizeof(address)) < 0 ||
            shutdown(fd, SHUT_RD) < 0)
                return -errno;
        /* Identifier, unit (journald derives it from the cgroup), priority, whether lines have a level
         * prefix, and whether to forward to syslog, kmsg and the console. */
        int r = xasprintf(&header, "%s\n\n%d\n0\n0\n0\n0\n", app, priority);
        if (r >= 0)
                r = loop_write(fd, header, strlen(header));
        return r < 0 ? r : TAKE_FD(fd);
}

int launch_open_streams(Launch *l, int ret[static _LAUNCH_STREAM_MAX], Failure *f)
{
        _cleanup_close_ int out = open_stream(l->app, LOG_INFO), err = open_stream(l->app, LOG_ERR);

        if (out < 0 || err < 0)
                return failure_set_errno(f, CAUSE_SETUP, out < 0 ? out : err,
                                         "Cannot connect app %s to the pod's journal", l->app);
        ret[LAUNCH_STREAM_STDOUT] = TAKE_FD(out);
        ret[LAUNCH_STREAM_STDERR] = TAKE_FD(err);
        return 0;
}
