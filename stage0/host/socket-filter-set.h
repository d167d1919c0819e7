/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* socket-filter-set.c: what the filters of sockets of all pods have in common in the kernel. */

#include "basic/basic.h"

#define SOCKET_FILTER_HOOKS_MAX 16U

/* A pod, by the cgroup of its processes, and a network of sockets that were passed to it. CGROUP 0: of any pod. */
typedef struct SocketFilterKey {
        uint64_t cgroup, network;
} SocketFilterKey;

typedef struct SocketFilterSet {
        int networks_fd; /* map of SocketFilterKey */
        int peers_fd;    /* map of maps: those of each pod, by its cgroup */
        int levels_fd;   /* array of one: the levels at which cgroups of pods can be, as bits */
        int links[SOCKET_FILTER_HOOKS_MAX];
        size_t n_links;
} SocketFilterSet;

#define SOCKET_FILTER_SET_NULL                                                                              \
        ((SocketFilterSet){.networks_fd = -EBADF, .peers_fd = -EBADF, .levels_fd = -EBADF})

void socket_filter_set_done(SocketFilterSet *s);
/* The maps alone. -EOPNOTSUPP: this kernel has none of that kind. */
int socket_filter_set_make_maps(SocketFilterSet *s);
/* Joins the set of the host, which MAKE_LINKS completes if there is none yet, and adds a pod to it. */
int socket_filter_set_join(int (*make_links)(SocketFilterSet *s, int root_fd), int root_fd, uint64_t cgroup,
                           uint32_t levels, const uint64_t *networks, size_t n_networks,
                           SocketFilterSet *ret);
/* Takes the pod out, and frees S. */
void socket_filter_set_leave(SocketFilterSet *s, uint64_t cgroup);
/* What is left of supervisors that were killed, if they were the last ones. */
void socket_filter_set_remove_leftovers(void);
