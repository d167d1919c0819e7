/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Finds images of the store by the reference with which they were fetched.
 *
 * The results are recorded in remotes/, where fetching uses those of URLs and of registries' references as
 * well. Layouts and archives of OCI images are recorded by their real paths. The reference in an image's info does not count: it is that
 * of the image's last import, and another image may have come from there since.
 */

#include "prepare/fetch/fetch-internal.h"
#include "prepare/registry/registry.h"

/* 1: *RET, which may be damaged: the caller that opens it says so; 0: there is none. */
static int find_by_place(Store *s, const char *place, char **ret, Error *e)
{
        _cleanup_remote_ Remote m = {};

        int r = remote_read(s, place, &m);
        if (r < 0 && r != -ENOENT)
                return error_set_errno(e, r, "Cannot read what came from '%s'", place);
        if (r < 0 || !remote_image_is_there(s, m.image)) /* it may have been removed */
                return 0;
        *ret = TAKE_PTR(m.image);
        return 1;
}

/* The recorded form of a place: without credentials, and with defaults filled in; of a file, by what identifies it. NULL: there is no
 * record of it. */
static int place_of(const Reference *ref, const char *const *config_dirs, char **ret, Error *e)
{
        const RegistryOptions o = {.config_dirs = config_dirs};

        if (ref->kind == REFERENCE_FILE)
                return fetch_file_place(ref->body, ret, e);
        if (ref->kind == REFERENCE_DOCKER)
                return registry_reference_resolve(ref->body, &o, ret, e);
        if (ref->kind == REFERENCE_URL)
                return url_without_credentials(ref->body, ret) < 0 ? error_oom(e) : 0;
        return fetch_local_place(ref, ret) < 0 ? error_oom(e) : 0;
}

/* A path that is not there any more is taken as it is written. */
int fetch_local_place(const Reference *r, char **ret)
{
        const char *kind = r->kind == REFERENCE_OCI           ? "oci"
                           : r->kind == REFERENCE_OCI_ARCHIVE ? "oci-archive"
                                                              : "docker-archive";
        _cleanup_free_ char *path = realpath(r->body, NULL);

        if (!path && path_make_absolute(r->body, &path) < 0)
                return -ENOMEM;
        return xasprintf(ret, "%s:%s%s%s", kind, path, r->tag ? ":" : "", r->tag ?: "");
}

int fetch_find_id(Store *s, const char *reference, const char *const *config_dirs, char **ret, Error *e)
{
        _cleanup_reference_ Reference ref = {};
        _cleanup_free_ char *place = NULL, *shown = NULL;

        int r = isempty(reference) ? -EINVAL : reference_parse(reference, &ref, NULL);
        if (r < 0 || ref.kind == REFERENCE_IMAGE || ref.kind == REFERENCE_STANDARD_INPUT)
                return image_find_id(s, reference, ret, e);
        r = place_of(&ref, config_dirs, &place, e);
        if (r >= 0 && place)
                r = find_by_place(s, place, ret, e);
        if (r != 0)
                return MIN(r, 0);
        shown = text_escape_for_terminal(reference);
        bool is_file = ref.kind == REFERENCE_FILE && (!place || startswith(place, "file:"));
        r = error_set(e, -ENOENT, "No image in the store %s came from '%s'%s", store_path(s), shown ?: "?",
                      is_file ? " as it is now" : "");
        return error_hint(
                        e, r,
                        "Fetch it with 'acnspawn fetch', or name an image that 'acnspawn image list' shows.");
}
