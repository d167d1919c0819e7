/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* ImageFsInfo: the disk space of the store. A worker measures the trees in the background (usage-measure.c). Before its first result,
 * the size of images is the sum that the index has. */

#include "cri/statistics/usage.h"

#define NSEC_PER_USEC 1000U

static Runtime__V1__UInt64Value *number(CriJob *j, uint64_t value)
{
        Runtime__V1__UInt64Value *n = cri_message(&j->memory, &runtime__v1__uint64_value__descriptor);

        if (n)
                n->value = value;
        return n;
}

static int add(CriJob *j, const CriSample *sample, uint64_t otherwise, size_t *n,
               Runtime__V1__FilesystemUsage ***list)
{
        Runtime__V1__FilesystemUsage *p =
                        cri_message(&j->memory, &runtime__v1__filesystem_usage__descriptor);

        *list = cri_alloc(&j->memory, sizeof(Runtime__V1__FilesystemUsage *));
        if (!p || !*list ||
            !(p->fs_id = cri_message(&j->memory, &runtime__v1__filesystem_identifier__descriptor)) ||
            !(p->fs_id->mountpoint = cri_strdup(&j->memory, store_path(j->store))) ||
            !(p->used_bytes = number(j, sample ? sample->bytes : otherwise)) ||
            (sample && !(p->inodes_used = number(j, sample->inodes))))
                return -ENOMEM;
        p->timestamp = (int64_t) ((sample ? sample->measured_usec : now_usec(CLOCK_REALTIME)) *
                                  NSEC_PER_USEC);
        (*list)[(*n)++] = p;
        return 0;
}

static uint64_t size_of_images(CriJob *j)
{
        size_t n = 0, n_damaged;
        Image **l = NULL;
        uint64_t sum = 0;

        if (image_list_readable(j->store, &l, &n, &n_damaged, NULL) < 0)
                return 0;
        for (size_t i = 0; i < n; i++)
                sum += l[i]->size;
        image_list_free(l, n);
        return sum;
}

/* Both are one file system, which clients recognize by the name. */
int cri_image_fs_info(CriJob *j, const void *request, void *reply, Error *e)
{
        const CriSample *images = cri_sample_find(j->server, CRI_IMAGES_KEY),
                        *layers = cri_sample_find(j->server, CRI_LAYERS_KEY);
        Runtime__V1__ImageFsInfoResponse *p = reply;

        if (add(j, images, images ? 0 : size_of_images(j), &p->n_image_filesystems, &p->image_filesystems) <
                            0 ||
            add(j, layers, 0, &p->n_container_filesystems, &p->container_filesystems) < 0)
                return error_oom(e);
        return 0;
}
