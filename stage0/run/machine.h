/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* machine.c: the pod as a machine of the host's systemd. */

#include "stage0/run/run-internal.h"

typedef struct Machine Machine;

typedef struct MachineHandlers {
        void (*stop)(void *userdata);                    /* systemd asks for an orderly end */
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
/* The connection over which the pod's scope is to be asked for, so that systemd knows whom to tell when it
 * is to end. NULL if M is NULL. */
sd_bus *machine_bus(Machine *m);
/* From here on the connection is EVENT's. */
int machine_watch(Machine *m, sd_event *event);
/* Registers the pod, whose PID 1 is LEADER. Does not wait; what goes wrong is for the handler. M may be
 * NULL. */
void machine_register(Machine *m, pid_t leader);
