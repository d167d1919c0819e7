/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* app-devices.c: the filter of devices on the cgroup of an app, and the bound of its cgroups. */

#include "stage0/host/device-filter.h"
#include "stage0/supervisor/apps/app-table.h"

/* Before the process PID, which is in the cgroup of A, becomes one of A: filters its devices by L, which it takes over, or, if that is not
 * closed, no more; and bounds the number of cgroups below its own, if it can make any. */
int app_devices_apply(Pod *p, AppInstance *a, DeviceRules *l, pid_t pid, Error *e);
void app_devices_forget(AppInstance *a);
