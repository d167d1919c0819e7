/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Lookup in the store for a fetcher: one index for all of its threads, so that each image is read once.
 * Resolving layers afterwards uses the same index.
 */

#include "prepare/fetch/fetch-internal.h"

ImageIndex *fetcher_lock_index(Fetcher *f)
{
        f = fetcher_root(f);
        (void) pthread_mutex_lock(&f->index_lock);
        return f->index;
}

void fetcher_unlock_index(Fetcher *f)
{
        (void) pthread_mutex_unlock(&fetcher_root(f)->index_lock);
}

int fetcher_open(Fetcher *f, const char *id, Image **ret, Error *e)
{
        int r = image_index_open(fetcher_lock_index(f), id, ret, e);

        fetcher_unlock_index(f);
        return r;
}

int fetcher_look_up(Fetcher *f, const char *name, const PairList *labels, Image **ret, Error *e)
{
        int r = image_index_find(fetcher_lock_index(f), name, labels, ret, e);

        fetcher_unlock_index(f);
        return r;
}

int fetcher_look_up_reference(Fetcher *f, const char *reference, Image **ret, Error *e)
{
        int r = image_index_look_up(fetcher_lock_index(f), reference, ret, e);

        fetcher_unlock_index(f);
        return r;
}

void fetcher_forget(Fetcher *f, const char *id)
{
        image_index_forget(fetcher_lock_index(f), id);
        fetcher_unlock_index(f);
}

ImageIndex *fetcher_index(Fetcher *f)
{
        return fetcher_root(f)->index;
}
