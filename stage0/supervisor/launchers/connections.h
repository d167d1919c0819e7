/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* connections.c: connections to a socket of ours, on which one packet is expected. */

#include "library/libsystemd.h"

typedef struct Connections Connections;

/* Something may have come over FD, which does not block and is closed afterwards. PEER_FD stands for the
 * process that has connected, or is negative if that has ended; it is lent. -EAGAIN: nothing has come yet;
 * anything else: the connection is done with. */
typedef int (*ConnectionFunction)(void *userdata, int fd, int peer_fd);

/* Accepts connections to LISTEN_FD, which is lent, from EVENT's loop, and calls FUNCTION for each. */
int connections_new(sd_event *event, int listen_fd, ConnectionFunction function, void *userdata,
                    Connections **ret);
Connections *connections_free(Connections *all); /* NULL is fine */
DEFINE_TRIVIAL_CLEANUP_FUNC(Connections *, connections_free);
