/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The lists of image layers of a pod, one of each app and of each volume that is an image.
 *
 * They have absolute paths, as the store was when the pod was prepared; in a store that was moved since they are in the same place
 * of it. */

#include "prepare/pods/pods-internal.h"

#define LOWERS_SIZE_MAX (1U * 1024U * 1024U)

/* The place of a layer in its store, after the last of these: a path of a store may have one, too. NULL: it is in none. */
static const char *place_in_store(const char *path)
{
        static const char *const directories[] = {"/images/", "/layers/", "/rendered/"};
        const char *place = NULL;

        for (size_t i = 0; i < ELEMENTSOF(directories); i++)
                for (const char *s = path; (s = strstr(s, directories[i])); s++)
                        if (!place || s > place)
                                place = s;
        return place;
}

static int add_lower(const Pod *p, char ***lowers, const char *lower)
{
        const char *place = path_has_prefix(lower, store_path(p->store)) ? NULL : place_in_store(lower);

        return place ? strv_extendf(lowers, "%s%s", store_path(p->store), place)
                     : strv_extend(lowers, lower);
}

int pod_lowers_read(const Pod *p, const char *path, char ***ret)
{
        _cleanup_strv_free_ char **lines = NULL, **lowers = NULL;
        _cleanup_free_ char *text = NULL;

        int r = read_file_at(p->dir_fd, path, LOWERS_SIZE_MAX, &text, NULL);
        if (r >= 0)
                r = strv_split(text, "\n", &lines);
        for (char **line = lines; r >= 0 && line && *line; line++)
                r = add_lower(p, &lowers, *line);
        if (r >= 0 && !lowers)
                r = -ENOENT;
        if (r >= 0)
                *ret = TAKE_PTR(lowers);
        return r;
}
