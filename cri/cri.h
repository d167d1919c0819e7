/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* cri/: the Container Runtime Interface (CRI) v1 of Kubernetes, on a Unix socket: acnspawn-cri. */

#include "basic/basic.h"

/* Which calls have a trace. */
typedef enum CriTrace {
        CRI_TRACE_NONE,
        CRI_TRACE_CHANGES, /* of pods, containers and images; and the end of those that fail */
        CRI_TRACE_ALL,
} CriTrace;

typedef struct CriOptions {
        const char *socket;             /* an absolute path; a socket that systemd passes is used instead */
        const char *dir;                /* the store's directory */
        const char *const *config_dirs; /* as in PrepareOptions */
        bool cgroupfs; /* the client makes cgroups itself, also where systemd is the init of the host */
        uint16_t stream_port;                         /* of 127.0.0.1, for streams; 0: any that is free */
        const char *stream_tls_cert, *stream_tls_key; /* PEM files, for streams by TLS; or NULL, both */
        char *const *cni_conf_dirs;                   /* of network configurations, by precedence */
        char *const *cni_bin_dirs;                    /* of network plugins, by precedence */
        char *const *pinned_images;                   /* references or IDs; or NULL */
        const char *metrics; /* where the service's own are served: a path of a socket, a port of 127.0.0.1, or NULL */
        CriTrace trace;
        char *const *cdi_dirs; /* of files of the Container Device Interface; later ones have precedence */
} CriOptions;

/* Serves until SIGTERM or SIGINT. Calls that were accepted are completed, within a time, after which they are cancelled, and
 * their effects undone. READY is called when it serves; it may be NULL. -EBUSY: another process serves the store;
 * -EADDRINUSE: another process listens on the socket. */
int cri_run(const CriOptions *o, void (*ready)(void), Error *e);
