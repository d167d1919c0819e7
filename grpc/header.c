/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Values of the headers of gRPC. */

#include "grpc/grpc-internal.h"

#define TIMEOUT_DIGITS_MAX 8U

static const struct {
        char unit;
        uint64_t nsec;
} units[] = {
                {'H', UINT64_C(3600000000000)}, {'M', UINT64_C(60000000000)}, {'S', UINT64_C(1000000000)},
                {'m', UINT64_C(1000000)},       {'u', UINT64_C(1000)},        {'n', 1},
};

int grpc_timeout_parse(const char *s, size_t size, uint64_t *ret)
{
        uint64_t n = 0;

        if (size < 2 || size > TIMEOUT_DIGITS_MAX + 1)
                return -EINVAL;
        for (size_t i = 0; i < size - 1; i++) {
                if (!is_digit(s[i]))
                        return -EINVAL;
                n = n * 10 + (uint64_t) (s[i] - '0');
        }
        for (size_t i = 0; i < ELEMENTSOF(units); i++)
                if (units[i].unit == s[size - 1]) {
                        /* At most 99999999 hours, which fits. */
                        *ret = units[i].nsec >= 1000 ? n * (units[i].nsec / 1000) : n * units[i].nsec / 1000;
                        *ret = MAX(*ret, UINT64_C(1));
                        return 0;
                }
        return -EINVAL;
}

char *grpc_message_encode(const char *s)
{
        _cleanup_text_ Text t = {};
        char *ret = NULL;

        for (const unsigned char *p = (const unsigned char *) s; *p; p++)
                if (*p >= 0x20 && *p < 0x7f && *p != '%')
                        text_add_bytes(&t, p, 1);
                else
                        text_addf(&t, "%%%02X", *p);
        return text_take(&t, &ret, NULL) < 0 ? NULL : ret;
}
