/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The simple types of the specification (types.md): names, identifiers, versions, image IDs, UUIDs, times.
 *
 * The checks are written out by hand rather than as regular expressions: so messages can name the error, and
 * the time is linear in the length of the string. None of them depends on the locale.
 */

#include "schema/schema-internal.h"

static bool is_hex(char c)
{
        return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Words of lower case letters and digits, separated by at most IN_A_ROW separators. */
static int name_check(const char *s, const char *separators, size_t in_a_row, const char *what, Error *e)
{
        _cleanup_free_ char *quoted = NULL;
        const char *why = NULL;
        size_t separated = 0;

        if (!*s)
                return error_set(e, -EINVAL, "must be an %s, not an empty string", what);
        for (const char *c = s; *c && !why; c++) {
                separated = strchr(separators, *c) ? separated + 1 : 0;
                if (separated == 0 && !is_lower(*c) && !is_digit(*c))
                        why = "has characters other than lower case letters, digits and";
                else if (separated > 0 && c == s)
                        why = "begins with one of";
                else if (separated > in_a_row)
                        why = "has too many in a row of";
        }
        if (!why && separated > 0)
                why = "ends with one of";
        if (!why)
                return 0;
        quoted = quote_value(s);
        return error_set(e, -EINVAL, "%s is not an %s: it %s \"%s\"", quoted ?: "this", what, why,
                         separators);
}

/* The regular expression of the specification requires single dashes, the reference does not. This follows
 * the specification: names become parts of unit names, where for systemd a dash separates a slice from the
 * one below it. */
int ac_name_check(const char *s, Error *e)
{
        return name_check(s, "-", 1, "AC Name", e);
}

/* The regular expression of the specification requires single separators, which refuses its own example
 * example.com/~user/app_v1; the reference accepts any number. So does this, except for components that have
 * a special meaning in a path. */
int ac_identifier_check(const char *s, Error *e)
{
        int r = name_check(s, "-._~/", SIZE_MAX, "AC Identifier", e);

        if (r >= 0 && (strstr(s, "//") || strstr(s, "/./") || strstr(s, "/../")))
                return error_value(e, s,
                                   "is not an AC Identifier: it has a part that is empty, \".\" or \"..\"");
        return r;
}

/* One of the three numbers of a version: no leading zeros, 63 bits. */
static bool version_number(const char **s, uint64_t *ret)
{
        const char *p = *s;
        uint64_t v = 0;

        if (!is_digit(*p) || (*p == '0' && is_digit(p[1])))
                return false;
        for (; is_digit(*p); p++) {
                unsigned digit = (unsigned) (*p - '0');
                if (v > ((uint64_t) INT64_MAX - digit) / 10)
                        return false;
                v = v * 10 + digit;
        }
        *s = p;
        *ret = v;
        return true;
}

/* The dot-separated identifiers after - or +. Numeric identifiers must not begin with 0 in a pre-release. */
static bool version_words(const char **s, bool zeros)
{
        const char *p = *s;

        for (;;) {
                const char *word = p;
                bool digits = true;

                for (; is_digit(*p) || is_lower(*p) || is_upper(*p) || *p == '-'; p++)
                        digits = digits && is_digit(*p);
                if (p == word || (!zeros && digits && *word == '0' && p - word > 1))
                        return false;
                if (*p != '.')
                        break;
                p++;
        }
        *s = p;
        return true;
}

static bool version_numbers(const char **s, uint64_t v[static 3])
{
        for (int i = 0; i < 3; i++) {
                if (i > 0 && *(*s)++ != '.')
                        return false;
                if (!version_number(s, v + i))
                        return false;
        }
        return true;
}

/* SemVer 2.0.0. 0.0.0 is refused, as by the reference. The major version is not checked: rkt wrote its own
 * version into the pod manifests that it made, and those have to be readable. */
int ac_version_check(const char *s, Error *e)
{
        const char *p = s;
        uint64_t v[3];

        bool valid = version_numbers(&p, v);
        if (valid && *p == '-') {
                p++;
                valid = version_words(&p, false);
        }
        if (valid && *p == '+') {
                p++;
                valid = version_words(&p, true);
        }
        if (!valid || *p)
                return error_value(e, s,
                                   "is not a version as in " SCHEMA_VERSION " (semantic versioning 2.0.0)");
        if (v[0] == 0 && v[1] == 0 && v[2] == 0)
                return error_value(e, s, "is not a version of the specification");
        return 0;
}

bool ac_version_before(const char *s, uint64_t major, uint64_t minor)
{
        uint64_t v[3];

        if (!version_numbers(&s, v))
                return false;
        return v[0] < major || (v[0] == major && v[1] < minor);
}

int image_id_check(const char *s, Error *e)
{
        const char *digits = startswith(s, IMAGE_ID_PREFIX);
        size_t n = 0;

        while (digits && is_hex(digits[n]) && n <= IMAGE_ID_LENGTH)
                n++;
        if (!digits || digits[n] || strlen(IMAGE_ID_PREFIX) + n != IMAGE_ID_LENGTH)
                return error_value(e, s,
                                   "is not an image ID: expected \"" IMAGE_ID_PREFIX
                                   "\" and 128 hex digits");
        return 0;
}

/* The reference also accepts UUIDs without dashes; those are not in the text form of RFC 4122. */
int uuid_check(const char *s, Error *e)
{
        static const char form[] = "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh";
        size_t i;

        for (i = 0; form[i] && s[i]; i++)
                if (form[i] == 'h' ? !is_hex(s[i]) : s[i] != '-')
                        break;
        if (form[i] || s[i])
                return error_value(e, s, "is not a UUID as in 6733c088-a507-4694-aabf-edbe4fc5266f");
        return 0;
}

int environment_name_check(const char *s, Error *e)
{
        if (*s && !strchr(s, '='))
                return 0;
        return error_value(e, s, "is not the name of an environment variable: it is empty, or has \"=\"");
}

/* Reads exactly N digits from *S, as a number from MIN to MAX. */
static bool timestamp_number(const char **s, unsigned n, unsigned min, unsigned max, unsigned *ret)
{
        unsigned v = 0;

        for (; n > 0; n--, (*s)++) {
                if (!is_digit(**s))
                        return false;
                v = v * 10 + (unsigned) (**s - '0');
        }
        *ret = v;
        return v >= min && v <= max;
}

static unsigned days_of_month(unsigned year, unsigned month)
{
        static const unsigned char days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
        bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

        return days[month - 1] + (month == 2 && leap ? 1U : 0U);
}

static bool timestamp_separator(const char **s, char c)
{
        return *(*s)++ == c;
}

static bool timestamp_date(const char **s)
{
        unsigned year, month, day;

        return timestamp_number(s, 4, 0, 9999, &year) && timestamp_separator(s, '-') &&
               timestamp_number(s, 2, 1, 12, &month) && timestamp_separator(s, '-') &&
               timestamp_number(s, 2, 1, days_of_month(year, month), &day);
}

static bool timestamp_zone(const char **s)
{
        unsigned v;

        if (**s == 'Z') {
                (*s)++;
                return true;
        }
        if (**s != '+' && **s != '-')
                return false;
        (*s)++;
        return timestamp_number(s, 2, 0, 23, &v) && timestamp_separator(s, ':') &&
               timestamp_number(s, 2, 0, 59, &v);
}

/* A second of 60 is refused, as by the reference: leap seconds are not supported. */
static bool timestamp_time(const char **s)
{
        unsigned v;

        if (!timestamp_number(s, 2, 0, 23, &v) || !timestamp_separator(s, ':') ||
            !timestamp_number(s, 2, 0, 59, &v) || !timestamp_separator(s, ':') ||
            !timestamp_number(s, 2, 0, 59, &v))
                return false;
        if (**s == '.') {
                (*s)++;
                size_t n = strspn(*s, "0123456789");
                *s += n;
                return n > 0;
        }
        return true;
}

int timestamp_check(const char *s, Error *e)
{
        const char *p = s;

        if (!timestamp_date(&p) || *p++ != 'T' || !timestamp_time(&p) || !timestamp_zone(&p) || *p)
                return error_value(e, s, "is not a time as in 2014-10-27T19:32:27Z (RFC 3339)");
        return 0;
}
