/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Quantities of resources (spec: ace.md, "Resource Isolators"): "123Mi", "250m", "0.3", "1e3".
 *
 * The value is computed exactly, in decimal digits: the digits of the number are multiplied by the binary
 * suffix and by the scale, and the exponent only moves the point. A remaining fraction is rounded up, so
 * that a request above zero never becomes zero. No floating point is involved, and the amount of work is
 * limited by the limit of the length.
 *
 * The specification writes the metric thousand as K, the reference implementation as k: both are accepted.
 * Decimal exponents and the suffixes n and u are the reference's. Of signs only a plus is accepted.
 */

#include "schema/schema-internal.h"

#define QUANTITY_LENGTH_MAX 64U
/* 64 digits times 2^60 times a scale below 2^60. */
#define DIGITS_MAX (QUANTITY_LENGTH_MAX + 20U + 20U)

typedef struct Decimal {
        uint8_t digits[DIGITS_MAX]; /* least significant first */
        size_t n;
        int exponent; /* power of ten */
} Decimal;

static const struct {
        const char *suffix;
        int ten, two;
} suffixes[] = {
                {"", 0, 0},    {"n", -9, 0},  {"u", -6, 0},  {"m", -3, 0},  {"k", 3, 0},   {"K", 3, 0},
                {"M", 6, 0},   {"G", 9, 0},   {"T", 12, 0},  {"P", 15, 0},  {"E", 18, 0},  {"Ki", 0, 10},
                {"Mi", 0, 20}, {"Gi", 0, 30}, {"Ti", 0, 40}, {"Pi", 0, 50}, {"Ei", 0, 60},
};

/* FACTOR is at most 2^60, so that ten times it, and the carry, fit. */
static void decimal_multiply(Decimal *d, uint64_t factor)
{
        uint64_t carry = 0;

        for (size_t i = 0; i < d->n; i++) {
                carry += d->digits[i] * factor;
                d->digits[i] = (uint8_t) (carry % 10);
                carry /= 10;
        }
        for (; carry > 0 && d->n < DIGITS_MAX; carry /= 10)
                d->digits[d->n++] = (uint8_t) (carry % 10);
}

/* Reads the number before the suffix. Leading zeros are dropped. */
static bool decimal_read(Decimal *d, const char **s)
{
        uint8_t read[QUANTITY_LENGTH_MAX];
        size_t n = 0, any = 0;
        bool point = false;

        for (const char *p = *s;; p++) {
                if (*p == '.' && !point) {
                        point = true;
                        continue;
                }
                if (*p < '0' || *p > '9') {
                        *s = p;
                        break;
                }
                any++;
                if (n > 0 || *p != '0')
                        read[n++] = (uint8_t) (*p - '0');
                if (point)
                        d->exponent--;
        }
        for (size_t i = 0; i < n; i++)
                d->digits[i] = read[n - 1 - i];
        d->n = n;
        return any > 0;
}

static bool append_digit(uint64_t *v, uint8_t digit)
{
        return !__builtin_mul_overflow(*v, UINT64_C(10), v) && !__builtin_add_overflow(*v, digit, v);
}

/* Rounds up to a whole number; false if it does not fit. */
static bool decimal_to_u64(const Decimal *d, uint64_t *ret)
{
        uint64_t v = 0;
        bool rest = false;
        /* The index of the units digit; lower ones are after the point. */
        int64_t one = -(int64_t) d->exponent;

        for (int64_t i = (int64_t) d->n - 1; i >= 0 && i >= one; i--)
                if (!append_digit(&v, d->digits[i]))
                        return false;
        for (int64_t i = MIN(one, (int64_t) d->n) - 1; i >= 0; i--)
                rest = rest || d->digits[i] != 0;
        for (int64_t zeros = d->exponent; v > 0 && zeros > 0; zeros--)
                if (!append_digit(&v, 0))
                        return false;
        if (__builtin_add_overflow(v, (uint64_t) rest, &v) || v > (uint64_t) INT64_MAX)
                return false;
        *ret = v;
        return true;
}

/* "e3", "E-6": the exponent is clamped to a range beyond which the result does not change. */
static bool exponent_read(const char *s, int *ret)
{
        bool negative;
        int v = 0;

        if (*s != 'e' && *s != 'E')
                return false;
        s++;
        negative = *s == '-';
        if (*s == '-' || *s == '+')
                s++;
        if (!*s)
                return false;
        for (; is_digit(*s); s++)
                v = MIN(v * 10 + (*s - '0'), 10000);
        *ret = negative ? -v : v;
        return *s == 0;
}

static bool suffix_read(const char *s, Decimal *d)
{
        int exponent;

        for (size_t i = 0; i < ELEMENTSOF(suffixes); i++)
                if (streq(s, suffixes[i].suffix)) {
                        d->exponent += suffixes[i].ten;
                        decimal_multiply(d, UINT64_C(1) << suffixes[i].two);
                        return true;
                }
        if (!exponent_read(s, &exponent))
                return false;
        d->exponent += exponent;
        return true;
}

int quantity_parse(const char *s, uint64_t scale, uint64_t *ret, Error *e)
{
        Decimal d = {};
        const char *p = s;

        if (*p == '-')
                return error_value(e, s, "is negative, which is not valid for a quantity");
        if (strnlen(s, QUANTITY_LENGTH_MAX + 1) > QUANTITY_LENGTH_MAX)
                return error_value(e, s, "is too long for a quantity");
        if (*p == '+')
                p++;
        if (!decimal_read(&d, &p) || !suffix_read(p, &d))
                return error_value(e, s, "is not a quantity as in 123Mi, 1G, 250m or 0.3");
        decimal_multiply(&d, scale);
        if (!decimal_to_u64(&d, ret))
                return error_set(e, -ERANGE, "\"%s\" is more than the largest quantity, 2^63-1", s);
        return 0;
}
