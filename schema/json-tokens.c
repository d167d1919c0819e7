/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The scalar tokens of JSON: strings, numbers, true, false and null, strictly by RFC 8259, and the messages
 * about invalid ones. Objects and lists are in json.c.
 */

#include <math.h>

#include "schema/json-internal.h"

#define NUMBER_LENGTH_MAX 128U

int json_fault(JsonReader *r, const char *at, const char *format, ...)
{
        va_list ap;

        va_start(ap, format);
        if (vasprintf(&r->fault, format, ap) < 0)
                r->fault = NULL;
        va_end(ap);
        r->fault_at = at;
        return r->fault ? -EBADMSG : -ENOMEM;
}

int json_unexpected(JsonReader *r, const char *expected)
{
        if (r->p == r->end)
                return json_fault(r, r->p, "the text ends where %s is expected", expected);
        unsigned char c = (unsigned char) *r->p;
        size_t n = utf8_length(r->p, (size_t) (r->end - r->p));
        if (n == 0)
                return json_fault(r, r->p, "byte 0x%02x is not valid UTF-8", c);
        if (c < 0x20 || c == 0x7f)
                return json_fault(r, r->p, "control character 0x%02x where %s is expected", c, expected);
        if (n == 3 && memcmp(r->p, "\xef\xbb\xbf", 3) == 0)
                return json_fault(r, r->p, "byte order mark where %s is expected", expected);
        if (n > 1)
                return json_fault(r, r->p, "character that is not ASCII where %s is expected", expected);
        return json_fault(r, r->p, "'%c' where %s is expected", c, expected);
}

char json_skip_space(JsonReader *r)
{
        while (r->p < r->end && (*r->p == ' ' || *r->p == '\t' || *r->p == '\n' || *r->p == '\r'))
                r->p++;
        /* NUL means the end; a NUL in the text is unexpected everywhere, like the end. */
        return r->p < r->end ? *r->p : 0;
}

/* --- Strings ------------------------------------------------------------------------------------------- */

static bool read_hex4(JsonReader *r, uint32_t *ret)
{
        uint32_t v = 0;

        if (r->end - r->p < 4)
                return false;
        for (int i = 0; i < 4; i++) {
                char c = r->p[i];
                uint32_t digit = is_digit(c)            ? (uint32_t) (c - '0')
                                 : c >= 'a' && c <= 'f' ? (uint32_t) (c - 'a') + 10
                                 : c >= 'A' && c <= 'F' ? (uint32_t) (c - 'A') + 10
                                                        : 16;
                if (digit > 15)
                        return false;
                v = v << 4 | digit;
        }
        r->p += 4;
        *ret = v;
        return true;
}

static void add_code_point(Text *t, uint32_t c)
{
        char b[4];
        size_t n;

        if (c < 0x80) {
                b[0] = (char) c;
                n = 1;
        } else if (c < 0x800) {
                b[0] = (char) (0xc0 | c >> 6);
                n = 2;
        } else if (c < 0x10000) {
                b[0] = (char) (0xe0 | c >> 12);
                n = 3;
        } else {
                b[0] = (char) (0xf0 | c >> 18);
                n = 4;
        }
        for (size_t i = n - 1; i > 0; i--, c >>= 6)
                b[i] = (char) (0x80 | (c & 0x3f));
        text_add_bytes(t, b, n);
}

/* After "\u". */
static int read_unicode_escape(JsonReader *r)
{
        const char *at = r->p - 2;
        uint32_t c, low;

        if (!read_hex4(r, &c))
                return json_fault(r, at, "\\u is not followed by four hex digits");
        if (c == 0 && !r->nul_is_parsed)
                return json_fault(r, at, "\\u0000 is not allowed in a string");
        if (c >= 0xd800 && c <= 0xdbff && r->end - r->p >= 2 && r->p[0] == '\\' && r->p[1] == 'u') {
                r->p += 2;
                if (!read_hex4(r, &low) || low < 0xdc00 || low > 0xdfff)
                        return json_fault(r, at, "first half of a surrogate pair without the second");
                c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        } else if (c >= 0xd800 && c <= 0xdfff)
                return json_fault(r, at, "half of a surrogate pair");
        add_code_point(&r->string, c);
        return 0;
}

/* After the backslash. */
static int read_escape(JsonReader *r)
{
        static const char escapes[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
        const char *found;

        if (r->p == r->end)
                return json_unexpected(r, "an escape");
        char c = *r->p++;
        if (c == 'u')
                return read_unicode_escape(r);
        found = c ? strchr(escapes, c) : NULL;
        if (!found) {
                r->p--;
                return json_unexpected(r, "an escape");
        }
        text_add_bytes(&r->string, meanings + (found - escapes), 1);
        return 0;
}

/* Reads a run of characters without escapes. */
static int read_plain(JsonReader *r)
{
        const char *start = r->p;

        while (r->p < r->end && *r->p != '"' && *r->p != '\\') {
                unsigned char c = (unsigned char) *r->p;
                size_t n = c < 0x80 ? 1 : utf8_length(r->p, (size_t) (r->end - r->p));

                if (n == 0 || c < 0x20)
                        return json_unexpected(r, "text or the end of the string");
                r->p += n;
        }
        text_add_bytes(&r->string, start, (size_t) (r->p - start));
        return 0;
}

int json_read_string(JsonReader *r)
{
        r->string.size = 0;
        r->p++;
        for (;;) {
                int q = read_plain(r);
                if (q < 0)
                        return q;
                if (r->p == r->end)
                        return json_unexpected(r, "the end of the string");
                if (*r->p++ == '"')
                        break;
                q = read_escape(r);
                if (q < 0)
                        return q;
        }
        text_add_bytes(&r->string, "", 0);
        return r->string.failed ? -ENOMEM : 0;
}

/* --- Numbers and words --------------------------------------------------------------------------------- */

static size_t skip_digits(JsonReader *r)
{
        const char *start = r->p;

        while (r->p < r->end && is_digit(*r->p))
                r->p++;
        return (size_t) (r->p - start);
}

/* Skips over a number; *RET_FRACTION: it has a fraction or an exponent. */
static int scan_number(JsonReader *r, bool *ret_fraction)
{
        bool fraction = false;

        if (*r->p == '-')
                r->p++;
        const char *first = r->p;
        if (skip_digits(r) == 0)
                return json_unexpected(r, "a digit");
        if (*first == '0' && r->p - first > 1)
                return json_fault(r, first, "number with a leading zero");
        if (r->p < r->end && *r->p == '.') {
                fraction = true;
                r->p++;
                if (skip_digits(r) == 0)
                        return json_unexpected(r, "a digit");
        }
        if (r->p < r->end && (*r->p == 'e' || *r->p == 'E')) {
                fraction = true;
                r->p++;
                if (r->p < r->end && (*r->p == '+' || *r->p == '-'))
                        r->p++;
                if (skip_digits(r) == 0)
                        return json_unexpected(r, "a digit");
        }
        *ret_fraction = fraction;
        return 0;
}

static int make_fraction(JsonReader *r, const char *at, const char *literal, json_object **ret)
{
        /* The decimal point must be accepted in any locale. */
        if (!r->locale)
                r->locale = newlocale(LC_ALL_MASK, "C", (locale_t) 0);
        if (!r->locale)
                return -ENOMEM;
        double d = strtod_l(literal, NULL, r->locale);
        if (!isfinite(d))
                return json_fault(r, at, "number %s is too large", literal);
        *ret = json_object_new_double_s(d, literal); /* keeps the original digits */
        return *ret ? 0 : -ENOMEM;
}

static int make_integer(JsonReader *r, const char *at, const char *literal, json_object **ret)
{
        bool negative = *literal == '-';
        uint64_t v;

        if (parse_u64(literal + negative, &v) < 0 || (negative && v > (uint64_t) INT64_MAX + 1))
                return json_fault(r, at, "number %s does not fit into 64 bits", literal);
        if (negative)
                *ret = json_object_new_int64(v == 0 ? 0 : -(int64_t) (v - 1) - 1);
        else if (v > (uint64_t) INT64_MAX)
                *ret = json_object_new_uint64(v);
        else
                *ret = json_object_new_int64((int64_t) v);
        return *ret ? 0 : -ENOMEM;
}

int json_read_number(JsonReader *r, json_object **ret)
{
        char literal[NUMBER_LENGTH_MAX + 1];
        const char *at = r->p;
        bool fraction = false;

        int q = scan_number(r, &fraction);
        if (q < 0)
                return q;
        size_t n = (size_t) (r->p - at);
        if (n > NUMBER_LENGTH_MAX)
                return json_fault(r, at, "number of more than %u characters", NUMBER_LENGTH_MAX);
        memcpy(literal, at, n);
        literal[n] = 0;
        return fraction ? make_fraction(r, at, literal, ret) : make_integer(r, at, literal, ret);
}

int json_read_word(JsonReader *r, json_object **ret)
{
        static const char *const words[] = {"null", "true", "false"};

        for (size_t i = 0; i < ELEMENTSOF(words); i++) {
                size_t n = strlen(words[i]);

                if ((size_t) (r->end - r->p) < n || memcmp(r->p, words[i], n) != 0)
                        continue;
                r->p += n;
                *ret = i == 0 ? NULL : json_object_new_boolean(i == 1);
                return i > 0 && !*ret ? -ENOMEM : 0;
        }
        return json_unexpected(r, "a value");
}
