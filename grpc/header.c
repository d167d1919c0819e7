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

static bool is_hex(const char *s, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (!is_digit(s[i]) && (s[i] < 'a' || s[i] > 'f'))
                        return false;
        return true;
}

/* Later versions may have more after the flags, with a dash. */
int grpc_traceparent_parse(const char *s, size_t size, char ret[static GRPC_TRACE_ID_SIZE])
{
        const size_t id = 3, parent = id + 33, flags = parent + 17, end = flags + 2;

        if (size < end || (size > end && s[end] != '-') || s[id - 1] != '-' || s[parent - 1] != '-' ||
            s[flags - 1] != '-' || !is_hex(s, 2) || !is_hex(s + id, 32) || !is_hex(s + parent, 16) ||
            !is_hex(s + flags, 2) || memcmp(s, "ff", 2) == 0 || strspn(s + id, "0") >= 32)
                return -EINVAL;
        memcpy(ret, s + id, 32);
        ret[32] = 0;
        return 0;
}

static const char *const status_names[N_GRPC_STATUSES] = {
                [GRPC_OK] = "OK",
                [GRPC_CANCELLED] = "CANCELLED",
                [GRPC_UNKNOWN] = "UNKNOWN",
                [GRPC_INVALID_ARGUMENT] = "INVALID_ARGUMENT",
                [GRPC_DEADLINE_EXCEEDED] = "DEADLINE_EXCEEDED",
                [GRPC_NOT_FOUND] = "NOT_FOUND",
                [GRPC_ALREADY_EXISTS] = "ALREADY_EXISTS",
                [GRPC_PERMISSION_DENIED] = "PERMISSION_DENIED",
                [GRPC_RESOURCE_EXHAUSTED] = "RESOURCE_EXHAUSTED",
                [GRPC_FAILED_PRECONDITION] = "FAILED_PRECONDITION",
                [GRPC_ABORTED] = "ABORTED",
                [GRPC_OUT_OF_RANGE] = "OUT_OF_RANGE",
                [GRPC_UNIMPLEMENTED] = "UNIMPLEMENTED",
                [GRPC_INTERNAL] = "INTERNAL",
                [GRPC_UNAVAILABLE] = "UNAVAILABLE",
                [GRPC_DATA_LOSS] = "DATA_LOSS",
                [GRPC_UNAUTHENTICATED] = "UNAUTHENTICATED",
};

const char *grpc_status_to_string(GrpcStatus status)
{
        return (unsigned) status < N_GRPC_STATUSES ? status_names[status] : "UNKNOWN";
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
