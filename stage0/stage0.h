/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* stage0/: the acnspawn command, and what the supervisor and the service of the host share with it. Operations work on a Pod
 * and know no command lines, so that other frontends can call them as well. Folders, from the lowest layer up:
 *
 *     cli/        command lines, tables and other output
 *     declared/   files that declare pods
 *     network/    interfaces, addresses and ports of a pod
 *     owner/      a library that systemd-nspawn loads, for the owner of the user namespace
 *     host/       resources of a running pod on the host besides its processes
 *     mounts/     roots, volumes and devices of apps, as mounts
 *     report/     the status of a pod, and the output of its apps
 *     api/        calls of the interface of running pods
 *     control/    operations on pods: preparing, stopping
 *     pods/       all pods of a store: rows of lists, events
 *     supervisor/ the supervisor, a program of its own (supervise.c), and running a pod as its client
 *     files/      files of apps: copying, exporting
 *     apply/      a running pod becomes what its file declares
 *     update/     newer images for running apps
 *     context/    what verbs share
 *     arguments/  words and files, made into requests
 *     verbs/      one file per verb: it turns a command line into a call of an operation, and the result into text
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
