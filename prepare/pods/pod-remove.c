/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Removes a pod. It is moved to the garbage first, so that it cannot be used any more, and then its files
 * are removed; its config and manifest last, so that a failed removal can be diagnosed and repeated. Its
 * uids are free for another pod only after the last file owned by one of them is removed.
 */

#include "prepare/pods/pods-internal.h"

static int removal_failed(const Pod *p, const char *name, int r, Error *e)
{
        bool mounted = r == -EXDEV || r == -EBUSY, immutable = r == -EPERM;
        _cleanup_free_ char *path = NULL;

        if (mounted)
                r = error_set(e, -EBUSY, "Cannot remove '%s' of pod %s: a file system is mounted in it",
                              name, pod_display_name(p));
        else
                r = error_set_errno(e, r, "Cannot remove '%s' of pod %s", name, pod_display_name(p));
        if ((!mounted && !immutable) || pod_path(p, &path) < 0)
                return r;
        return error_hint(e, r,
                          mounted ? "Unmount what is below %s, then remove the pod again."
                                  : "Files in it are immutable: chattr -R -i -a %s, then remove the pod "
                                    "again.",
                          path);
}

static int remove_content(Pod *p, Error *e)
{
        /* Without the link a removal of a copy that goes on later would not know that it is one. */
        static const char *const last[] = {"ended", "config", "pod", STORE_LINK};
        _cleanup_strv_free_ char **names = NULL;
        int result = 0;

        int r = list_names(p->dir_fd, &names);
        if (r < 0)
                return error_set_errno(e, r, "Cannot read the directory of pod %s", pod_display_name(p));
        STRV_FOREACH (name, names) {
                bool later = false;

                for (size_t i = 0; i < ELEMENTSOF(last); i++)
                        later = later || streq(*name, last[i]);
                r = later ? 0 : rm_rf_at(p->dir_fd, *name);
                if (r < 0 && result >= 0)
                        result = removal_failed(p, *name, r, e);
        }
        for (size_t i = 0; result >= 0 && i < ELEMENTSOF(last); i++) {
                r = rm_rf_at(p->dir_fd, last[i]);
                if (r < 0)
                        result = removal_failed(p, last[i], r, e);
        }
        return result;
}

/* Removes a pod that this process has locked. */
static int remove_locked(Pod *p, Error *e)
{
        _cleanup_free_ char *path = NULL;
        int r = 0;

        p->store_lock_fd = safe_close(p->store_lock_fd);
        /* Not synced: if a loss of power undoes a part of the removal, the collector repeats it. */
        if (p->place != POD_GARBAGE && (r = pod_move(p, POD_GARBAGE)) < 0)
                r = error_set_errno(e, r, "Cannot move pod %s to %s", pod_display_name(p),
                                    pod_state_to_place(POD_GARBAGE));
        if (r >= 0)
                pod_journal_unlink(p);
        if (r >= 0 && p->config.name)
                registry_drop(p->store, REGISTRY_NAMES, p->config.name, p->uuid);
        if (r >= 0)
                r = remove_content(p, e);
        if (r < 0)
                return r;
        if (pod_place_path(p->uuid, POD_GARBAGE, &path) < 0)
                return error_oom(e);
        if (unlinkat(store_fd(p->store), path, AT_REMOVEDIR) < 0 && errno != ENOENT)
                return error_set_errno(e, errno, "Cannot remove the directory of pod %s",
                                       pod_display_name(p));
        pod_drop_uids(p);
        return 0;
}

int pod_remove(Pod *p, Error *e)
{
        bool ours = p->locked;
        int r;

        if (!ours && (p->state == POD_EMBRYO || p->state == POD_PREPARING))
                return error_set(e, -EBUSY, "Pod %s is still being prepared", pod_display_name(p));
        if (p->state == POD_RUNNING) {
                r = error_set(e, -EBUSY, "Pod %s is running", pod_display_name(p));
                return error_hint(e, r,
                                  "Stop it first: 'acnspawn stop %s'; or do both: 'acnspawn rm --force %s'.",
                                  pod_display_name(p), pod_display_name(p));
        }
        r = pod_lock(p, true, e);
        if (r >= 0 && p->place == POD_EXITED)
                r = pod_exclude_readers(p, true, e);
        if (r >= 0)
                r = remove_locked(p, e);
        if (r < 0 && p->place != POD_GARBAGE)
                pod_take_name_back(p);
        return r;
}

/* Searches both registries for the UUID, because the pod's configuration may be lost. */
size_t pod_drop_keys(const Pod *p)
{
        _cleanup_strv_free_ char **names = NULL, **bases = NULL;
        uint32_t base;

        (void) registry_list_of(p->store, REGISTRY_NAMES, p->uuid, &names, NULL);
        (void) registry_list_of(p->store, REGISTRY_UIDS, p->uuid, &bases, NULL);
        STRV_FOREACH (name, names)
                registry_drop(p->store, REGISTRY_NAMES, *name, p->uuid);
        STRV_FOREACH (key, bases) {
                registry_drop(p->store, REGISTRY_UIDS, *key, p->uuid);
                if (parse_u32(*key, &base) >= 0)
                        host_uids_drop(p, base);
        }
        return strv_length(names) + strv_length(bases);
}

void pod_abandon(Pod *p)
{
        /* If this fails, the collector removes them. */
        if (p->locked && p->place != POD_RUNNING)
                (void) remove_locked(p, NULL);
}
