/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The manifest that the metadata service shows, without what one app has no need to know of the others.
 *
 * According to the specification every app can read the whole manifest of its pod. In it are the variables of all apps, in which many
 * images want passwords, the paths of volumes on the host, and settings of acnspawn in annotations, some of which have paths as well. */

#include <json-c/json.h>

#include "stage0/supervisor/services/metadata-manifest.h"

#define NO_PATH "/"
#define OWN_ANNOTATIONS "acnspawn/"

static int set(json_object *o, const char *key, json_object *value)
{
        if (value && json_object_object_add(o, key, value) >= 0)
                return 0;
        json_object_put(value);
        return -ENOMEM;
}

static int reduce_volume(json_object *volume)
{
        return json_object_object_get(volume, "source")
                               ? set(volume, "source", json_object_new_string(NO_PATH))
                               : 0;
}

static int reduce_annotations(json_object *o)
{
        json_object *l = json_object_object_get(o, "annotations");

        for (size_t i = l ? json_object_array_length(l) : 0; i-- > 0;) {
                json_object *name = json_object_object_get(json_object_array_get_idx(l, i), "name");
                if (name && startswith(json_object_get_string(name), OWN_ANNOTATIONS) &&
                    json_object_array_del_idx(l, i, 1) < 0)
                        return -ENOMEM;
        }
        return 0;
}

static int reduce_app(json_object *app)
{
        json_object *own = json_object_object_get(app, "app");
        json_object *mounts = json_object_object_get(app, "mounts");

        int r = reduce_annotations(app);
        if (r >= 0 && own && json_object_object_get(own, "environment"))
                r = set(own, "environment", json_object_new_array());
        for (size_t i = 0, n = mounts ? json_object_array_length(mounts) : 0; r >= 0 && i < n; i++) {
                json_object *mount = json_object_array_get_idx(mounts, i);
                json_object *volume = json_object_object_get(mount, "appVolume");
                r = volume ? reduce_volume(volume) : 0;
        }
        return r;
}

static int reduce_each(json_object *o, const char *key, int (*reduce)(json_object *item))
{
        json_object *l = json_object_object_get(o, key);
        int r = 0;

        for (size_t i = 0, n = l ? json_object_array_length(l) : 0; r >= 0 && i < n; i++)
                r = reduce(json_object_array_get_idx(l, i));
        return r;
}

int metadata_manifest_reduce(const char *text, size_t size, char **ret, size_t *ret_size)
{
        _cleanup_json_ json_object *o = NULL;

        int r = json_parse_strict(text, size, &o, NULL, NULL);
        if (r >= 0)
                r = reduce_annotations(o);
        if (r >= 0)
                r = reduce_each(o, "apps", reduce_app);
        if (r >= 0)
                r = reduce_each(o, "volumes", reduce_volume);
        if (r < 0)
                return r;
        const char *reduced = json_print_pretty(o);
        char *copy = reduced ? strdup(reduced) : NULL;
        if (!copy)
                return -ENOMEM;
        *ret = copy;
        *ret_size = strlen(copy);
        return 0;
}
