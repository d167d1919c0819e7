/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* stage0/: the acnspawn command. Verbs (verb-*.c) are thin: they turn a command line into a call of the
 * operations of the rooms below and their result into text. They work on a Pod and are independent of
 * command lines, so that other frontends (a node agent, for instance) can call them as well. Folders, from
 * the lowest layer up:
 *
 *     cli/        command lines, tables and other output
 *     network/    interfaces, addresses and ports of a pod
 *     runtime/    resources of a running pod on the host besides its processes
 *     report/     the status of a pod, and the output of its apps
 *     api/        what is done to running pods by calls of their interface
 *     control/    operations on pods: preparing, stopping
 *     run/        the supervisor, a program of its own (supervise.c), and running a pod as its client
 *     files/      files of apps: copying, exporting
 */

#include "stage0/api/acn.h"
#include "stage0/control/control.h"
#include "stage0/files/files.h"
#include "stage0/network/network.h"
#include "stage0/report/report.h"
#include "stage0/run/run.h"
#include "stage0/runtime/runtime.h"
