/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Forms as browsers, curl and every HTTP library send them: name=value&name=value, with + for a space and
 * %XX for a byte.
 *
 * The input comes from the apps of a pod. It is decoded in place, which always fits as decoding only
 * shrinks, and in one pass. Ambiguous input is refused, as it is going to be signed: an invalid escape, or a
 * duplicate field.
 */

#include "metadata/routes.h"

static const char *const field_names[_METADATA_FIELD_MAX] = {
                [METADATA_FIELD_CONTENT] = "content",
                [METADATA_FIELD_UUID] = "uuid",
                [METADATA_FIELD_SIGNATURE] = "signature",
};

/* Decodes N bytes in place and returns the resulting number. */
static int decode(char *p, size_t n, size_t *ret)
{
        size_t out = 0;

        for (size_t i = 0; i < n; i++) {
                char c = p[i];
                if (c == '%') {
                        char digits[3] = {};
                        if (n - i < 3)
                                return -EINVAL;
                        memcpy(digits, p + i + 1, 2);
                        if (hex_decode(digits, 1, &c) < 0)
                                return -EINVAL;
                        i += 2;
                } else if (c == '+')
                        c = ' ';
                p[out++] = c;
        }
        *ret = out;
        return 0;
}

static int take_field(MetadataForm *form, const char *name, size_t name_size, const char *value, size_t size)
{
        for (MetadataField f = 0; f < _METADATA_FIELD_MAX; f++) {
                if (strlen(field_names[f]) != name_size || memcmp(field_names[f], name, name_size) != 0)
                        continue;
                if (form->fields[f].value)
                        return -EINVAL;
                form->fields[f].value = value;
                form->fields[f].size = size;
        }
        return 0;
}

static int parse_pair(MetadataForm *form, char *pair, size_t size)
{
        char *separator = memchr(pair, '=', size);
        size_t name_size = separator ? (size_t) (separator - pair) : size;
        char *value = separator ? separator + 1 : pair + size;
        size_t value_size = (size_t) (pair + size - value);

        if (decode(value, value_size, &value_size) < 0 || decode(pair, name_size, &name_size) < 0)
                return -EINVAL;
        return take_field(form, pair, name_size, value, value_size);
}

int metadata_form_parse(char *data, size_t size, MetadataForm *ret)
{
        MetadataForm form = {};
        size_t n = 0;

        for (char *p = data, *end = data + size; p < end;) {
                char *separator = memchr(p, '&', (size_t) (end - p)) ?: end;

                if (separator > p &&
                    (++n > METADATA_FIELDS_MAX || parse_pair(&form, p, (size_t) (separator - p)) < 0))
                        return -EINVAL;
                p = separator + 1;
        }
        *ret = form;
        return 0;
}

bool metadata_form_type(const char *content_type)
{
        static const char type[] = "application/x-www-form-urlencoded";

        if (!content_type || strncasecmp(content_type, type, sizeof(type) - 1) != 0)
                return false;
        content_type += sizeof(type) - 1;
        return content_type[strspn(content_type, " \t")] == 0 ||
               content_type[strspn(content_type, " \t")] == ';';
}
