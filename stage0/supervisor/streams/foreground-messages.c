/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The packets between `acnspawn run` in the foreground and the supervisor that it has started. */

#include "stage0/host/host.h"
#include "stage0/supervisor/streams/foreground-messages.h"

int foreground_send(int fd, ForegroundEvent event, bool terminal, const struct winsize *size)
{
        const ForegroundMessage m = {.event = (uint32_t) event,
                                     .terminal = terminal,
                                     .size = size ? *size : (struct winsize){}};

        return send_fds_now(fd, &m, sizeof(m), NULL, 0);
}

int foreground_receive(int fd, ForegroundMessage *ret)
{
        ForegroundMessage m;
        size_t n_fds = 0;
        int none[1];

        ssize_t n = recv_fds(fd, &m, sizeof(m), none, 0, &n_fds);
        if (n <= 0)
                return (int) n;
        if (n != (ssize_t) sizeof(m) || m.event >= _FOREGROUND_EVENT_MAX)
                return -EBADMSG;
        *ret = m;
        return 1;
}
