/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the store has, as a fetcher sees it: one index for all of its threads, so that each image is read once however
 * many ask for it. Whoever puts images together afterwards goes on with the same index.
 */

#include "prepare/fetch/fetch-internal.h"

ImageIndex *fetcher_lock_index(Fetcher *f, Error *e)
{
        (void) pthread_mutex_lock(&f->looking);
        if (!f->index && image_index_new(f->store, &f->index, e) < 0)
                fetcher_unlock_index(f);
        return f->index;
}

void fetcher_unlock_index(Fetcher *f)
{
        (void) pthread_mutex_unlock(&f->looking);
}

int fetcher_open(Fetcher *f, const char *id, Image **ret, Error *e)
{
        ImageIndex *x = fetcher_lock_index(f, e);

        if (!x)
                return -ENOMEM;
        int r = image_index_open(x, id, ret, e);
        fetcher_unlock_index(f);
        return r;
}

int fetcher_look_up(Fetcher *f, const char *name, const PairList *labels, Image **ret, Error *e)
{
        ImageIndex *x = fetcher_lock_index(f, e);

        if (!x)
                return -ENOMEM;
        int r = image_index_find(x, name, labels, ret, e);
        fetcher_unlock_index(f);
        return r;
}

int fetcher_look_up_reference(Fetcher *f, const char *reference, Image **ret, Error *e)
{
        ImageIndex *x = fetcher_lock_index(f, e);

        if (!x)
                return -ENOMEM;
        int r = image_index_look_up(x, reference, ret, e);
        fetcher_unlock_index(f);
        return r;
}

int fetcher_index(Fetcher *f, ImageIndex **ret, Error *e)
{
        *ret = fetcher_lock_index(f, e);
        if (!*ret)
                return -ENOMEM;
        fetcher_unlock_index(f);
        return 0;
}

void fetcher_forget(Fetcher *f, const char *id)
{
        (void) pthread_mutex_lock(&f->looking);
        if (f->index)
                image_index_forget(f->index, id);
        (void) pthread_mutex_unlock(&f->looking);
}
