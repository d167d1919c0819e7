/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Pruning: removes at once what collections would remove sooner or later, by the same code without their grace
 * periods. Pods that are prepared stay, as they are about to be run; volumes are removed only if they are named
 * as a part.
 */

#include "prepare/collect/collect-internal.h"

/* Keeps the error of the first failure. */
static int note_result(int first, int r, Error *e, Error *failure)
{
        if (first < 0 || r >= 0)
                return first;
        (void) error_move(e, failure);
        return r;
}

static void note_volume(const char *name, uint64_t size, void *userdata)
{
        const PruneOptions *o = userdata;

        if (o->removed)
                o->removed(&(GcItem){.kind = "volume", .id = name, .size = size}, o->userdata);
}

static int prune_pods_and_downloads(Store *s, const PruneOptions *o, Error *e)
{
        const unsigned parts = (o->parts & PRUNE_PODS ? GC_PODS : 0) |
                               (o->parts & PRUNE_DOWNLOADS ? GC_DOWNLOADS : 0) |
                               (o->parts & PRUNE_IMAGES ? GC_ORIGINS : 0);

        return store_gc(s,
                        &(GcOptions){.parts = parts,
                                     .kept = o->kept ? &o->kept->pods : NULL,
                                     .expire_prepared_usec = UINT64_MAX,
                                     .dry_run = o->dry_run,
                                     .unmeasured = o->unmeasured,
                                     .selected = o->selected,
                                     .release = o->release,
                                     .removed = o->removed,
                                     .userdata = o->userdata},
                        e);
}

static int prune_images(Store *s, const PruneOptions *o, Error *e)
{
        if (o->kept && o->kept->all_images)
                return 0;
        return image_gc(s,
                        &(ImageGcOptions){.kept = o->kept ? o->kept->images : NULL,
                                          .dry_run = o->dry_run,
                                          .unmeasured = o->unmeasured,
                                          .selected = o->selected,
                                          .removed = o->removed,
                                          .userdata = o->userdata},
                        e);
}

static bool volume_is_selected(const char *name, void *userdata)
{
        const PruneOptions *o = userdata;

        return !o->selected || o->selected("volume", name, o->userdata);
}

static int prune_volumes(Store *s, const PruneOptions *o, Error *e)
{
        if (o->kept && o->kept->all_volumes)
                return 0;
        return named_volumes_prune(s,
                                   &(VolumePrune){.kept = o->kept ? o->kept->volumes : NULL,
                                                  .dry_run = o->dry_run,
                                                  .unmeasured = o->unmeasured,
                                                  .selected = volume_is_selected,
                                                  .removed = note_volume,
                                                  .userdata = (void *) o},
                                   e);
}

void prune_kept_done(PruneKept *k)
{
        kept_pods_done(&k->pods);
        strv_free(k->images);
        strv_free(k->volumes);
        *k = (PruneKept){};
}

int store_prune(Store *s, const PruneOptions *o, Error *e)
{
        /* Pods first: what they use can be removed after them. */
        static const struct {
                unsigned parts;
                int (*prune)(Store *s, const PruneOptions *o, Error *e);
        } steps[] = {
                        {PRUNE_PODS | PRUNE_DOWNLOADS | PRUNE_IMAGES, prune_pods_and_downloads},
                        {PRUNE_IMAGES, prune_images},
                        {PRUNE_VOLUMES, prune_volumes},
        };
        int result = 0;

        for (size_t i = 0; i < ELEMENTSOF(steps); i++) {
                _cleanup_error_ Error failure = ERROR_NULL;

                if (!(o->parts & steps[i].parts) || operation_check(s->operation, NULL) < 0)
                        continue;
                result = note_result(result, steps[i].prune(s, o, &failure), e, &failure);
        }
        return result < 0 ? result : operation_check(s->operation, e);
}
