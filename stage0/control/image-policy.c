/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Whether the image of an app can be updated as its image policy says. */

#include "stage0/control/control-internal.h"

static bool is_remote(ReferenceKind k)
{
        return k == REFERENCE_URL || k == REFERENCE_DOCKER || k == REFERENCE_IMAGE;
}

int image_policy_check(ImagePolicy policy, const char *reference, Error *e)
{
        _cleanup_reference_ Reference x = {};

        if (policy == IMAGE_POLICY_NONE)
                return 0;
        int r = reference_parse(reference, &x, e);
        if (r < 0)
                return r;
        if (x.kind == REFERENCE_STANDARD_INPUT)
                return error_set(
                                e, -EINVAL,
                                "the image is read from standard input: there is nothing to update it from");
        if (policy != IMAGE_POLICY_REGISTRY || is_remote(x.kind))
                return 0;
        r = error_set(e, -EINVAL,
                      "'%s' is not on the network, and --image-policy=registry is for names, URLs and "
                      "docker:// references",
                      x.body);
        return error_hint(e, r, "With --image-policy=local the file is read again.");
}

int image_policies_check(const PodRequest *q, Error *e)
{
        for (size_t i = 0; i < q->n_apps; i++) {
                const AppOverrides *a = &q->apps[i];
                const PodApp app = {.name = (char *) "", .annotations = a->annotations};
                _cleanup_app_settings_ AppSettings s = {};

                if (app_settings_read(&app, &s, NULL) < 0) /* of which the manifest's check says more */
                        continue;
                int r = image_policy_check((ImagePolicy) s.image_policy, a->reference, e);
                if (r < 0)
                        return error_prefix(e, r, "App %s", a->name ?: a->reference);
        }
        return 0;
}
