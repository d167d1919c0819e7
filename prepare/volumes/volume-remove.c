/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Removes named volumes that no pod uses.
 *
 * The store's lock is held exclusively while users are looked for and the volume is renamed below tmp/; its
 * files are deleted after that, and then the limits of its quota. If the process is killed in between, "gc" deletes
 * the rest.
 */

#include "prepare/volumes/volumes-internal.h"

#define USERS_SHOWN_MAX 8U

static int refuse_unknown(const VolumeUsers *u, const char *what, Error *e)
{
        int r = error_set(e, -EBUSY,
                          "Cannot remove %s: the manifest of pod %s cannot be read, so it is not "
                          "known which volumes it uses",
                          what, u->unknown);

        return error_hint(e, r, "Remove the pod first: acnspawn rm %s", u->unknown);
}

static int refuse_used(const VolumeUsers *u, const char *name, Error *e)
{
        _cleanup_text_ Text list = {};
        size_t n = 0;

        for (size_t i = 0; i < u->n; i++) {
                if (!streq(u->items[i].volume, name))
                        continue;
                if (n++ < USERS_SHOWN_MAX)
                        text_addf(&list, "%s%s (%s)", n > 1 ? ", " : "", u->items[i].pod,
                                  pod_state_to_string(u->items[i].state));
        }
        if (n == 0)
                return 0;
        if (list.failed)
                return error_oom(e);
        int r = error_set(e, -EBUSY, "The volume %s is used by the pod%s %s%s", name, n > 1 ? "s" : "",
                          list.data, n > USERS_SHOWN_MAX ? " and others" : "");
        return error_hint(e, r, "Remove these pods first, with 'acnspawn rm'.");
}

static int detach(Store *s, const char *name, StoreTemporary *ret, Error *e)
{
        _cleanup_free_ char *path = NULL;

        int r = volume_path(name, &path, e);
        if (r < 0)
                return r;
        r = store_detach_tree(s, path, ret, e);
        if (r == -ENOENT)
                return volume_does_not_exist(s, name, e);
        return r == -EBUSY ? error_set(e, r, "The volume %s is being read or written by another command",
                                       name)
                           : r;
}

static int check_and_detach(Store *s, const char *name, StoreTemporary *ret, Error *e)
{
        _cleanup_volume_users_ VolumeUsers users = {};
        _cleanup_close_ int lock = -EBADF;

        int r = store_lock_exclusive(s, &lock, e);
        if (r >= 0)
                r = volume_users_read(s, &users, e);
        if (r >= 0)
                r = refuse_used(&users, name, e);
        if (r >= 0 && users.unknown)
                r = refuse_unknown(&users, name, e);
        return r < 0 ? r : detach(s, name, ret, e);
}

static int remove_volume(Store *s, const char *name, Error *e)
{
        /* Emptied after the lock is released. */
        _cleanup_(store_temporary_done) StoreTemporary t = STORE_TEMPORARY_NULL;
        _cleanup_free_ char *path = NULL;

        int r = volume_path(name, &path, e);
        if (r >= 0 && faccessat(s->fd, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
                r = volume_does_not_exist(s, name, e);
        return r < 0 ? r : check_and_detach(s, name, &t, e);
}

int named_volume_remove(Store *s, const char *name, Error *e)
{
        int r = remove_volume(s, name, e);

        if (r >= 0)
                volume_quotas_release(s);
        return r;
}

/* --- All that are not used ----------------------------------------------------------------------------- */

static bool is_used(const VolumeUsers *u, const char *name)
{
        for (size_t i = 0; i < u->n; i++)
                if (streq(u->items[i].volume, name))
                        return true;
        return false;
}

typedef struct Detached {
        char **names;
        StoreTemporary *trees; /* NULL in a dry run */
        size_t n;
} Detached;

static void detached_done(Detached *d)
{
        for (size_t i = 0; d->trees && i < d->n; i++)
                store_temporary_done(&d->trees[i]);
        free(d->trees);
        strv_free(d->names);
}

static int detach_unused(Store *s, const VolumePrune *o, Detached *d, Error *e)
{
        _cleanup_volume_users_ VolumeUsers users = {};
        _cleanup_strv_free_ char **names = NULL;
        _cleanup_close_ int lock = -EBADF;
        int result = 0;

        int r = o->dry_run ? store_lock_shared(s, &lock, e) : store_lock_exclusive(s, &lock, e);
        if (r >= 0)
                r = volume_users_read(s, &users, e);
        if (r >= 0 && users.unknown)
                r = refuse_unknown(&users, "volumes", e);
        if (r >= 0)
                r = named_volume_list(s, &names, e);
        if (r < 0)
                return r;
        d->trees = calloc(strv_length(names) + 1, sizeof(StoreTemporary));
        if (!d->trees)
                return error_oom(e);
        STRV_FOREACH (name, names) {
                StoreTemporary *t = &d->trees[d->n];

                *t = STORE_TEMPORARY_NULL;
                if (is_used(&users, *name) || strv_contains(o->kept, *name) ||
                    (o->selected && !o->selected(*name, o->userdata)))
                        continue;
                if (strv_extend(&d->names, *name) < 0)
                        return error_oom(e);
                d->n++;
                r = o->dry_run ? 0 : detach(s, *name, t, result < 0 ? NULL : e);
                result = result < 0 ? result : r;
        }
        return result;
}

static int prune(Store *s, const VolumePrune *o, Error *e)
{
        _cleanup_(detached_done) Detached d = {};

        int r = detach_unused(s, o, &d, e);
        for (size_t i = 0; i < d.n; i++) {
                if (!o->dry_run && !d.trees[i].name)
                        continue; /* that failed */
                if (o->removed)
                        o->removed(d.names[i],
                                   o->unmeasured ? 0
                                   : o->dry_run  ? named_volume_size(s, d.names[i])
                                                 : disk_usage_at(d.trees[i].dir_fd, "data", s->operation),
                                   o->userdata);
        }
        return r;
}

int named_volumes_prune(Store *s, const VolumePrune *o, Error *e)
{
        int r = prune(s, o, e);

        if (!o->dry_run)
                volume_quotas_release(s);
        return r;
}
