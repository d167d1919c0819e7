/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* machine.c: registers the pod with systemd-machined. */

#include "stage0/supervisor/run-internal.h"

typedef struct Machine Machine;

typedef struct MachineHandlers {
        void (*stop)(void *userdata);                    /* systemd requests an orderly end */
        void (*refused)(const Error *e, void *userdata); /* the pod is not registered */
        void *userdata;
} MachineHandlers;

/* Connects to the bus, if MODE and the host make that worthwhile: *RET stays NULL if not. With REGISTER_YES
 * it is an error if the pod could not be registered: no bus, no systemd-machined, a machine of the same name
 * (-EEXIST). */
int machine_new(Pod *p, RegisterMode mode, const MachineHandlers *handlers, Machine **ret, Error *e);
/* Unregisters, if need be. */
Machine *machine_free(Machine *m);
DEFINE_TRIVIAL_CLEANUP_FUNC(Machine *, machine_free);
/* The connection by which the pod's scope is to be created, so that systemd sends it the request to stop.
 * NULL if M is NULL. */
sd_bus *machine_bus(Machine *m);
/* Attaches the connection to EVENT. */
int machine_watch(Machine *m, sd_event *event);
/* Registers the pod, whose PID 1 is LEADER. Does not wait; errors are reported to the handler. M may be
 * NULL. */
void machine_register(Machine *m, pid_t leader);
