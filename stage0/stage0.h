/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* stage0/: the acnspawn command. Verbs (verb-*.c) are thin: they turn a command line into a call of the
 * operations of the rooms below and their result into text. They work on a Pod and are independent of
 * command lines, so that other frontends (a node agent, for instance) can call them as well. Folders, from
 * the lowest layer up:
 *
 *     cli/        command lines, tables and other output
 *     declared/   files that declare pods
 *     network/    interfaces, addresses and ports of a pod
 *     host/       resources of a running pod on the host besides its processes
 *     mounts/     roots, volumes and devices of apps, as mounts
 *     report/     the status of a pod, and the output of its apps
 *     api/        calls of the interface of running pods
 *     control/    operations on pods: preparing, stopping
 *     pods/       all pods of a store: rows of lists, events
 *     supervisor/ the supervisor, a program of its own (supervise.c), and running a pod as its client
 *     files/      files of apps: copying, exporting
 *     update/     newer images for running apps
 *
 * host-service/, the Varlink service of the host, parses requests by the options of the verbs, so it is
 * above them; only its program uses it (serve-host.c). */

#include "stage0/api/acn.h"
#include "stage0/control/control.h"
#include "stage0/declared/declared.h"
#include "stage0/files/files.h"
#include "stage0/network/network.h"
#include "stage0/report/report.h"
#include "stage0/supervisor/supervisor.h"
#include "stage0/update/update.h"
#include "stage0/host/host.h"
