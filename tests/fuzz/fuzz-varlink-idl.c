/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Descriptions of Varlink interfaces, up to the first NUL; it is followed by a JSON value that is checked
 * against the type T. */

#include "schema/idl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void compare(const char *text, const char *kind, json_object *v)
{
        const char *p = NULL;
        char where[IDL_NAME_MAX];
        int r = idl_find(text, kind, "T", &p);

        if (r < 0)
                return;
        if (p < text || p > text + strlen(text))
                abort();
        r = idl_compare(text, p, v, where);
        if (strlen(where) >= sizeof(where) || (r == 0 && where[0]))
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _cleanup_free_ char *text = malloc(size + 1);
        _cleanup_json_ json_object *v = NULL;
        const char *p = NULL;

        if (!text)
                return 0;
        memcpy(text, data, size);
        text[size] = 0;
        size_t n = strlen(text) + 1;
        if (idl_find(text, "", "", &p) == 0)
                abort();
        if (n < size && json_parse_bounded(text + n, size - n, 32, 65536, &v, NULL, NULL) >= 0) {
                compare(text, "type", v);
                compare(text, "method", v);
        }
        return 0;
}
