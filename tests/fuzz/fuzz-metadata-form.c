/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Forms sent to the metadata service by any app of a pod: the parser must not read outside of its input, and
 * the values that it returns must be inside of it. The first byte selects the parser: of forms, or of paths. */

#include "library/libcrypto.h"
#include "metadata/routes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_form(const uint8_t *data, size_t size)
{
        /* Of the exact size, so that sanitizers detect reads beyond it. */
        _cleanup_free_ char *copy = malloc(size);
        MetadataForm form;

        if (!copy && size > 0)
                return;
        if (size > 0)
                memcpy(copy, data, size);
        if (metadata_form_parse(copy, size, &form) < 0)
                return;
        for (size_t i = 0; i < _METADATA_FIELD_MAX; i++) {
                const char *value = form.fields[i].value;
                size_t n = form.fields[i].size;
                if (value && (value < copy || n > size || value + n > copy + size))
                        abort();
                if (!value && n > 0)
                        abort();
        }
}

static void fuzz_path(const uint8_t *data, size_t size)
{
        _cleanup_free_ char *path = strndup((const char *) data, size);
        MetadataRoute route;

        if (!path)
                return;
        (void) metadata_form_type(path);
        if (metadata_route("token", 5, path, &route) < 0)
                return;
        if (metadata_resource_is_app(route.resource) != (route.app != NULL))
                abort();
        if (route.app && (route.app < path || route.app + route.app_size > path + strlen(path)))
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (library_load(&crypto_library, NULL) < 0)
                return 0;
        if (size == 0)
                return 0;
        if (data[0] == '/')
                fuzz_path(data, size);
        else
                fuzz_form(data + 1, size - 1);
        return 0;
}
