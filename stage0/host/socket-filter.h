/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* socket-filter.c: what the processes of a pod can do with sockets of another network than their own. */

#include "prepare/prepare.h"

#define SOCKET_FILTER_NETWORKS_MAX 8U

typedef struct SocketFilter SocketFilter;

/* Whether this process can make such filters; determined once. 0; -EOPNOTSUPP: this kernel has no such programs; -EPERM: it lets
 * this process load none. */
int socket_filter_available(void);
/* The same for unix sockets, which came with Linux 6.7. */
int socket_filter_available_unix(void);
/* The number of the network namespace that a socket is in. -EOPNOTSUPP: before Linux 5.14. */
int socket_network(int fd, uint64_t *ret);
/* Filters the sockets in NETWORKS for the processes of the pod P, whose PID 1 is there. It ends with the filter. -EUSERS: there are too
 * many on the host. */
int socket_filter_new(Pod *p, const uint64_t *networks, size_t n, SocketFilter **ret);
/* Why there is no filter, according to such an error. */
const char *socket_filter_failure(int code);
SocketFilter *socket_filter_free(SocketFilter *f);
/* After a supervisor was killed. */
void socket_filter_remove_leftovers(void);
