/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The launch file of an app: everything the launcher needs to know, as NUL-separated key and value pairs. No
 * value is quoted or interpreted, so that arguments and environment reach the app byte for byte. Depends on
 * basic/ alone. */

#include <linux/filter.h>

#include "basic/basic.h"

/* As group: the groups of the user in the image's passwd and group, as OCI images specify it (also defined
 * in schema/oci.h). */
#define GROUPS_OF_USER ":user"

typedef struct LaunchConfig {
        char *app;
        char **exec, **pre_start, **post_stop, **health;
        char **environment; /* NAME=VALUE, without what the launcher adds */
        char *user, *group; /* name, number, or path whose owner is taken; resolved in the app's root */
        gid_t *gids;        /* supplementary */
        size_t n_gids, gids_allocated;
        bool merges_groups; /* those that the image has for the user are added in any case, … */
        bool strict_groups; /* … or in none; without either if the group is GROUPS_OF_USER */
        char *working_directory;
        char **mounts;              /* targets of the volumes, absolute and normalized */
        char **masked, **read_only; /* paths in the app's root that are hidden, or read-only; only if … */
        bool has_masked, has_read_only; /* … the app does not have the default ones */
        char **sockets;                 /* names of the ports whose sockets systemd passes to the app */
        uint64_t capabilities;          /* bounding set: bit n is capability n */
        uint64_t ambient;               /* those of them that the app has whatever its user is */
        struct sock_filter *filter;     /* of system calls */
        size_t n_filter; /* instructions; 0: no filter, which the file has to state explicitly */
        bool has_filter;
        char *apparmor_profile, *selinux_context; /* or NULL */
        bool control;                             /* the app has a socket to launch others */
        bool hostname;                            /* the app gets the variable HOSTNAME */
        bool notify;                              /* the app notifies that it is ready */
        bool no_new_privileges;
        bool may_mount; /* with its capabilities, or in a user namespace that it creates */
        bool read_only_root;
        bool writable_sys;
        bool landlock_optional; /* where it is refused */
        bool shares_processes;  /* may inspect the other apps that its pid namespace has */
} LaunchConfig;

void launch_config_done(LaunchConfig *c);
#define _cleanup_launch_config_ _cleanup_(launch_config_done)
int launch_config_parse(const char *data, size_t size, LaunchConfig *ret);
int launch_config_format(const LaunchConfig *c, char **ret, size_t *ret_size);
