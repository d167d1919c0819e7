/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The strict reader of JSON against json-c's own: all documents that the strict one accepts must be accepted
 * by json-c, with the same values. The reverse does not hold, which is the reason for the strict one. */

#include "schema/schema.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void tokener_freep(json_tokener **t)
{
        if (*t)
                json_tokener_free(*t);
}

static json_object *read_with_json_c(const uint8_t *data, size_t size)
{
        _cleanup_(tokener_freep) json_tokener *t = json_tokener_new_ex(128);
        /* With a NUL at the end, so that json-c detects the end of a number. */
        _cleanup_free_ char *text = malloc(size + 1);

        if (!t || !text)
                return NULL;
        memcpy(text, data, size);
        text[size] = 0;
        json_tokener_set_flags(t, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
        json_object *o = json_tokener_parse_ex(t, text, (int) size + 1);
        if (json_tokener_get_error(t) != json_tokener_success)
                abort();
        return o;
}

/* json-c 0.16 takes some pairs of surrogates, such as \ud837\ude00, for a single one. */
static bool has_surrogates(const uint8_t *data, size_t size)
{
        return memmem(data, size, "\\ud", 3) || memmem(data, size, "\\uD", 3);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _cleanup_json_ json_object *ours = NULL, *theirs = NULL;
        _cleanup_findings_ Findings findings = {};
        _cleanup_error_ Error e = {};

        int r = json_parse_strict((const char *) data, size, &ours, &findings, &e);
        if (r < 0) {
                if (!e.message || (r == -EBADMSG) != (findings.n == 1))
                        abort();
                if (!utf8_is_valid(e.message, strlen(e.message)))
                        abort();
                return 0;
        }
        theirs = read_with_json_c(data, size);
        if (!json_object_equal(ours, theirs) && !has_surrogates(data, size))
                abort();
        return 0;
}
