/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The options of run beyond those of a pod. */

#include "stage0/arguments/pod-arguments.h"
#include "stage0/context/context.h"
#include "stage0/control/control.h"
#include "stage0/supervisor/supervisor.h"

typedef struct RunArguments {
        bool executor; /* --executor */
        bool detach, remove, strict, keep_unit, raw;
        bool again;             /* --images= or --apps= was given, */
        bool resolve;           /* the former with "resolve", */
        bool as_prepared;       /* the latter with "prepared" */
        const char *declared;   /* --declared= */
        bool service;           /* --service */
        bool has_ready_timeout; /* on the command line */
        RegisterMode registration;
        PassedSockets sockets;
        DetachKeys keys;
        uint64_t ready_timeout_usec, start_wait_usec;
} RunArguments;

void run_arguments_init(RunArguments *a);
void run_arguments_done(RunArguments *a);
#define _cleanup_run_arguments_ _cleanup_(run_arguments_done)

/* The exit policy of a new pod: that of --executor is "tasks". */
int run_arguments_take_policy(Context *c, const RunArguments *own, PodArguments *a);

/* What of A a running pod cannot show: PodConfig.declared_run. -ENOMEM. */
int run_arguments_format(const RunArguments *a, char **ret);

extern const Option run_options[]; /* data: RunArguments */

int option_detach_keys(const Option *o, const char *value, void *target, Error *e); /* DetachKeys */
