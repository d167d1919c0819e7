/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Apps of a command line that are nested under an app of a running pod. */

#include "stage0/arguments/pod-arguments.h"

static int replace(char **s, const char *by)
{
        char *copy = strdup(by);

        if (!copy)
                return -ENOMEM;
        free(*s);
        *s = copy;
        return 0;
}

/* The image of the parent is in the store as long as the pod is. */
static int share_image(AppOverrides *o, const PodApp *parent, Error *e)
{
        if (!o->name && parent->image_name &&
            app_name_from_image_name(parent->image_name, &o->name) == -ENOMEM)
                return error_oom(e);
        o->read_only_rootfs = true;
        return replace(&o->reference, parent->image_id) < 0 ? error_oom(e) : 0;
}

int pod_arguments_nest(PodArguments *a, const Pod *p, const char *parent, Error *e)
{
        const PodApp *app = parent && p->manifest ? pod_manifest_find_app(p->manifest, parent) : NULL;

        if (parent && !app)
                return error_set(e, -ENOENT, "Pod %s has no app '%s' for another one to be nested under",
                                 pod_display_name(p), parent);
        for (size_t i = 0; i < a->request.n_apps; i++) {
                AppOverrides *o = &a->request.apps[i];
                bool shares = streq_ptr(o->reference, PARENT_IMAGE);

                if (shares && !app)
                        return error_set(e, -EINVAL,
                                         "'" PARENT_IMAGE "' is the image of an app given with --parent=");
                int r = shares ? share_image(o, app, e) : 0;
                if (r >= 0 && app && replace(&o->parent, app->name) < 0)
                        r = error_oom(e);
                if (r < 0)
                        return r;
        }
        return 0;
}
