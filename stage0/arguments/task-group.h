/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Groups of tasks as Mesos has them. */

#include "prepare/prepare.h"

/* Whether TEXT is JSON of such a group: an object with "tasks". */
bool task_group_is(const char *text, size_t size);
/* Reads a TaskGroupInfo in the JSON of Mesos' v1 API: the apps and volumes of RET, which is empty. M is the manifest of the pod that
 * they are for; with NESTED they are to be nested under an app of it. -EINVAL with all fields that cannot be honoured; -EBADMSG. */
int task_group_parse(const char *text, size_t size, const PodManifest *m, bool nested, PodRequest *ret,
                     Error *e);
