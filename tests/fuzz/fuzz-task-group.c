/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Groups of tasks of Mesos. What is accepted has a name and an image for each app. */

#include <stdlib.h>

#include "stage0/arguments/task-group.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        for (int nested = 0; nested < 2; nested++) {
                PodRequest q = {};
                int r = task_group_parse((const char *) data, size, NULL, nested, &q, NULL);
                for (size_t i = 0; r >= 0 && i < q.n_apps; i++)
                        if (!q.apps[i].name || !q.apps[i].reference)
                                abort();
                pod_request_done(&q);
        }
        return 0;
}
