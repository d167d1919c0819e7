/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Maps the path of a request to a resource.
 *
 * A path is /TOKEN/acMetadata/v1/ and then either the name of one of the pod's resources or apps/APP/ and
 * the name of one of an app's; one trailing slash is ignored. A path with the wrong token is answered
 * exactly like an unknown path.
 */

#include "library/libcrypto.h"
#include "metadata/routes.h"

#define PREFIX "/acMetadata/v1/"

static const struct {
        const char *name, *content_type;
} resources[_METADATA_RESOURCE_MAX] = {
                [METADATA_POD_ANNOTATIONS] = {"pod/annotations", METADATA_TYPE_JSON},
                [METADATA_POD_MANIFEST] = {"pod/manifest", METADATA_TYPE_JSON},
                [METADATA_POD_UUID] = {"pod/uuid", METADATA_TYPE_TEXT},
                [METADATA_APP_ANNOTATIONS] = {"annotations", METADATA_TYPE_JSON},
                [METADATA_APP_IMAGE_MANIFEST] = {"image/manifest", METADATA_TYPE_JSON},
                [METADATA_APP_IMAGE_ID] = {"image/id", METADATA_TYPE_TEXT},
                [METADATA_HMAC_SIGN] = {"pod/hmac/sign", METADATA_TYPE_TEXT},
                [METADATA_HMAC_VERIFY] = {"pod/hmac/verify", METADATA_TYPE_TEXT},
};

const char *metadata_resource_content_type(MetadataResource r)
{
        return resources[r].content_type;
}

static bool name_matches(const char *path, const char *name)
{
        const char *rest = startswith(path, name);

        return rest && (!*rest || streq(rest, "/"));
}

int metadata_route(const char *token, size_t token_size, const char *path, MetadataRoute *ret)
{
        MetadataRoute route = {};
        size_t size;

        if (*path++ != '/')
                return -ENOENT;
        size = strcspn(path, "/");
        if (size != token_size || CRYPTO_memcmp(path, token, size) != 0)
                return -ENOENT;
        path = startswith(path + size, PREFIX);
        if (!path)
                return -ENOENT;

        const char *app = startswith(path, "apps/");
        if (app) {
                route.app = app;
                route.app_size = strcspn(app, "/");
                path = app + route.app_size;
                if (route.app_size == 0 || *path++ != '/')
                        return -ENOENT;
        }
        for (MetadataResource r = 0; r < _METADATA_RESOURCE_MAX; r++)
                if (metadata_resource_is_app(r) == (app != NULL) && name_matches(path, resources[r].name)) {
                        route.resource = r;
                        *ret = route;
                        return 0;
                }
        return -ENOENT;
}
