/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* spare-records.c: the records of apps in memory, while they cannot be written to the disk. */

#include "stage0/host/host.h"

/* For the supervisor: makes the directory for them. */
int spare_records_new(const Pod *p, int *ret_fd);
/* For the supervisor: from now on readers take the records of SPARE_FD instead of those of STATUS_FD, its descriptor of status/;
 * -EBADF: there are none, and those on disk are old. */
int spare_records_show(int status_fd, int spare_fd);
/* The records on disk are current again. */
void spare_records_hide(int status_fd);

/* For readers. 1: *RET is the directory that has the records in place of STATUS_FD; 0: STATUS_FD has them; -ESTALE: they are old, and the
 * current ones cannot be read. */
int spare_records_open(const Pod *p, int status_fd, int *ret);
/* True if the supervisor of a running pod knows more than the records have that pod_open_statuses() opens. */
bool pod_statuses_are_old(const Pod *p);
