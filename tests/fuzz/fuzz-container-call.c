/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Calls of an app to launch others. What is accepted names a method, and, but for the list, a container below another one. */

#include <stdlib.h>

#include "containers/containers.h"
#include "schema/nested.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _cleanup_container_call_ ContainerCall c = {};

        if (container_call_parse((const char *) data, size, &c, NULL) < 0)
                return 0;
        json_object *path = json_object_object_get(c.parameters, "container");
        if (!c.method || (c.kind != CALL_LIST && (!path || !nested_is_path(json_object_get_string(path)))))
                abort();
        return 0;
}
