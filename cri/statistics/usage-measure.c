/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Disk space of images and of the writable layers of containers.
 *
 * Trees are walked by a worker that belongs to no call, with low priority: when the server starts, and when a call wants the
 * figures and they are older than a minute, or of the time before an image was pulled or removed. */

#include <sys/resource.h>
#include <sys/syscall.h>

#include "cri/statistics/usage.h"

#define PAUSE_USEC UINT64_C(60000000)
#define NICE 19
#define IO_PRIORITY_OF_PROCESS 1
#define IO_PRIORITY_IDLE (3 << 13)

void cri_measure_layer(CriJob *j, const Pod *p, const PodApp *app, CriUsage *u)
{
        CriSample sample = {};
        _cleanup_free_ char *path = NULL;

        if (cri_sample_key(p, app, sample.key) < 0 || pod_app_path(p, app, "upper", &path) < 0)
                return;
        disk_usage_count_at(p->dir_fd, path, store_operation(j->store), &sample.bytes, &sample.inodes);
        sample.measured_usec = now_usec(CLOCK_REALTIME);
        u->disk_bytes = sample.bytes;
        u->disk_inodes = sample.inodes;
        u->disk_usec = sample.measured_usec;
        cri_worker_note(j, &sample, sizeof(sample));
}

static void measure_images(CriJob *j)
{
        static const char *const trees[] = {"images", "layers", "rendered", "downloads", "tmp"};
        CriSample sample = {.key = CRI_IMAGES_KEY};

        for (size_t i = 0; i < ELEMENTSOF(trees); i++) {
                uint64_t bytes, inodes;
                disk_usage_count_at(store_fd(j->store), trees[i], store_operation(j->store), &bytes,
                                    &inodes);
                sample.bytes += bytes;
                sample.inodes += inodes;
        }
        sample.measured_usec = now_usec(CLOCK_REALTIME);
        if (operation_check(store_operation(j->store), NULL) >= 0)
                cri_worker_note(j, &sample, sizeof(sample));
}

static int measure(CriJob *j, const void *request, void *reply, Error *e)
{
        CriSample sum = {.key = CRI_LAYERS_KEY};
        Sandbox *l = NULL;
        size_t n = 0;

        (void) setpriority(PRIO_PROCESS, 0, NICE);
        (void) syscall(SYS_ioprio_set, IO_PRIORITY_OF_PROCESS, 0, IO_PRIORITY_IDLE);
        measure_images(j);
        int r = sandbox_list(j, &l, &n, e);
        for (size_t i = 0; r >= 0 && i < n; i++)
                for (size_t k = 0; r >= 0 && k < l[i].pod->manifest->n_apps; k++) {
                        CriUsage u = {};
                        cri_measure_layer(j, l[i].pod, l[i].pod->manifest->apps[k], &u);
                        sum.bytes += u.disk_bytes;
                        sum.inodes += u.disk_inodes;
                        r = operation_check(store_operation(j->store), e);
                }
        sandbox_list_free(l, n);
        sum.measured_usec = now_usec(CLOCK_REALTIME);
        if (r >= 0)
                cri_worker_note(j, &sum, sizeof(sum));
        return r;
}

static const CriCall measure_call = {"measure", &runtime__v1__image_fs_info_request__descriptor,
                                     &runtime__v1__image_fs_info_response__descriptor, measure, CRI_WORKER};

void cri_measure_start(CriServer *s)
{
        uint64_t now = now_usec(CLOCK_MONOTONIC);

        if (s->measuring || s->ending || (s->measured_usec > 0 && now - s->measured_usec < PAUSE_USEC))
                return;
        s->measuring = cri_worker_start(s, NULL, &measure_call, NULL, 0) >= 0;
        s->measured_usec = now;
}

void cri_measure_ended(CriServer *s, const CriCall *call)
{
        if (call == &measure_call)
                s->measuring = false;
        else if (call->flags & CRI_IMAGES)
                s->measured_usec = 0;
}
