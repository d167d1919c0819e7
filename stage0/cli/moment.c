/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Parses points in time: dates and times of day (in the host's time zone, unless another is given), time
 * spans before now, and a few words; also the format of "status" and "logs --timestamps".
 *
 * strptime() does the parsing. The rest that it leaves is a fraction of the second, of which only
 * microseconds are used, and a time zone.
 */

#include "stage0/cli/options.h"

#define SECOND 1000000ULL

static const char *skip_weekday(const char *s)
{
        static const char *const days[] = {"Sun ", "Mon ", "Tue ", "Wed ", "Thu ", "Fri ", "Sat "};

        for (size_t i = 0; i < ELEMENTSOF(days); i++)
                if (startswith(s, days[i]))
                        return s + 4;
        return s;
}

/* "5min", "-5min" and "5min ago". A number alone is ambiguous: it could be seconds since 1970. */
static int parse_ago(const char *s, uint64_t now, uint64_t *ret)
{
        _cleanup_free_ char *span = strdup(*s == '-' ? s + 1 : s);
        uint64_t usec;

        if (!span)
                return -ENOMEM;
        if (endswith(span, " ago"))
                span[strlen(span) - 4] = 0;
        if (!strpbrk(span, "abcdefghijklmnopqrstuvwxyz") || parse_usec(span, &usec) < 0 ||
            usec == UINT64_MAX)
                return -EINVAL;
        *ret = now > usec ? now - usec : 0;
        return 0;
}

static int parse_epoch(const char *s, uint64_t *ret)
{
        uint64_t seconds;
        int r = parse_u64(s, &seconds);

        if (r < 0)
                return r;
        return __builtin_mul_overflow(seconds, SECOND, ret) ? -ERANGE : 0;
}

/* Up to six digits after a dot. */
static const char *take_fraction(const char *s, uint64_t *ret)
{
        uint64_t unit = SECOND;

        *ret = 0;
        if (*s != '.')
                return s;
        for (s++; is_digit(*s); s++) {
                unit /= 10;
                *ret += (uint64_t) (*s - '0') * unit;
        }
        return s;
}

/* The rest of the text is a time zone; none: that of the host. */
static int to_seconds(struct tm *tm, const char *zone, time_t *ret)
{
        struct tm as_written = *tm, offset = {};
        bool local = !*zone;

        zone += strspn(zone, " ");
        for (size_t i = 0; !local && i < 2; i++)
                local = streq(zone, tzname[i]);
        if (!local && !streq(zone, "UTC")) {
                const char *end = strptime(zone, "%z", &offset);
                if (!end || *end)
                        return -EINVAL;
        }
        *ret = local ? mktime(tm) : timegm(tm) - offset.tm_gmtoff;
        /* There is no 30th of February. */
        return tm->tm_mday != as_written.tm_mday || tm->tm_mon != as_written.tm_mon || *ret < 0 ? -EINVAL
                                                                                                : 0;
}

static int midnight(uint64_t now, int days, struct tm *ret)
{
        time_t seconds = (time_t) (now / SECOND);

        if (!localtime_r(&seconds, ret))
                return -EINVAL;
        ret->tm_hour = ret->tm_min = ret->tm_sec = 0;
        ret->tm_mday += days;
        ret->tm_isdst = -1;
        return 0;
}

static int parse_date(const char *s, uint64_t now, uint64_t *ret)
{
        static const char *const forms[] = {
                        "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M",
                        "%Y-%m-%d",          "%H:%M:%S",          "%H:%M"};

        for (size_t i = 0; i < ELEMENTSOF(forms); i++) {
                uint64_t fraction;
                time_t seconds;
                struct tm tm;

                int r = midnight(now, 0, &tm);
                if (r < 0)
                        return r;
                const char *rest = strptime(skip_weekday(s), forms[i], &tm);
                if (!rest)
                        continue;
                rest = take_fraction(rest, &fraction);
                if (to_seconds(&tm, rest, &seconds) < 0)
                        continue;
                *ret = (uint64_t) seconds * SECOND + fraction;
                return 0;
        }
        return -EINVAL;
}

static int parse_day(uint64_t now, int days, uint64_t *ret)
{
        struct tm tm;
        int r = midnight(now, days, &tm);

        if (r >= 0)
                *ret = (uint64_t) mktime(&tm) * SECOND;
        return r;
}

int moment_parse(const char *s, uint64_t now, uint64_t *ret)
{
        tzset();
        if (streq(s, "now")) {
                *ret = now;
                return 0;
        }
        if (streq(s, "today") || streq(s, "yesterday"))
                return parse_day(now, *s == 'y' ? -1 : 0, ret);
        if (*s == '@')
                return parse_epoch(s + 1, ret);
        int r = parse_ago(s, now, ret);
        return r == -EINVAL ? parse_date(s, now, ret) : r;
}

int option_moment(const Option *o, const char *value, void *target, Error *e)
{
        int r = moment_parse(value, now_usec(CLOCK_REALTIME), target);

        if (r == -ENOMEM)
                return error_oom(e);
        return r < 0 ? option_invalid(o, value, e,
                                      "not a point in time such as '2026-01-31 12:00', '12:00', '10min ago' "
                                      "or 'today'")
                     : 0;
}
