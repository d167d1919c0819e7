/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Where an app has its files in the pod directory.
 *
 * That is apps/<app>. When the image of an app is replaced, the files of the new app are made beside those of the old
 * one, in apps/<app>@<image>. When only its settings are, the image is the same, and they are in apps/<app>@<revision>. Which
 * of the two belongs to the pod's app follows from the image and the revision that the manifest names, so the one write of
 * the manifest makes the change: whatever is killed before or after it leaves the old app or the new one, with all its
 * files.
 */

#include "prepare/pods/reify-internal.h"

#define IMAGE_DIGITS 39 /* "sha512-" and 128 bits */

int pod_app_replacement(const PodApp *app, char **ret)
{
        const char *revision = pair_list_get(&app->annotations, APP_REVISION);

        return xasprintf(ret, "%s@%.*s", app->name, IMAGE_DIGITS, revision ?: app->image_id);
}

int pod_app_set_revision(PodApp *app, const PodApp *old)
{
        const char *last = pair_list_get(&old->annotations, APP_REVISION);
        char next[24];
        uint64_t n = 0;

        pair_list_remove(&app->annotations, APP_REVISION);
        if (!streq(app->image_id, old->image_id))
                return 0;
        if (last)
                (void) parse_u64(last, &n);
        snprintf(next, sizeof(next), "%" PRIu64, n + 1);
        return pair_list_set(&app->annotations, APP_REVISION, next);
}

int pod_app_path(const Pod *p, const PodApp *app, const char *file, char **ret)
{
        _cleanup_free_ char *replacement = NULL, *path = NULL;
        const char *name = app->name;

        if (app->image_id &&
            (pod_app_replacement(app, &replacement) < 0 || xasprintf(&path, "apps/%s", replacement) < 0))
                return -ENOMEM;
        if (path && faccessat(p->dir_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) >= 0)
                name = replacement;
        return xasprintf(ret, "apps/%s%s%s", name, file ? "/" : "", file ?: "");
}
