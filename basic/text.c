/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Growing texts, and conversion between text and numbers.
 *
 * The parsers are strict: the whole string must be the number, in range, without a sign, space or suffix
 * unless documented. Nothing here depends on the locale.
 */

#include <inttypes.h>
#include <sys/random.h>

#include "basic/basic.h"

int xvasprintf(char **ret, const char *format, va_list ap)
{
        char *s;

        if (vasprintf(&s, format, ap) < 0)
                return -ENOMEM;
        *ret = s;
        return 0;
}

int xasprintf(char **ret, const char *format, ...)
{
        va_list ap;

        va_start(ap, format);
        int r = xvasprintf(ret, format, ap);
        va_end(ap);
        return r;
}

int grow_array(void **p, size_t *allocated, size_t n, size_t size)
{
        if (n <= *allocated)
                return 0;
        size_t want = MAX(n, MAX(*allocated * 2, (size_t) 8));
        void *q = reallocarray(*p, want, size);
        if (!q)
                return -ENOMEM;
        *p = q;
        *allocated = want;
        return 0;
}

static int parse_number(const char *s, unsigned base, uint64_t max, uint64_t *ret)
{
        uint64_t v = 0;

        if (isempty(s))
                return -EINVAL;
        for (; *s; s++) {
                unsigned digit = (unsigned char) *s - (unsigned) '0';
                if (digit >= base)
                        return -EINVAL;
                if (v > (max - digit) / base)
                        return -ERANGE;
                v = v * base + digit;
        }
        *ret = v;
        return 0;
}

int parse_u64(const char *s, uint64_t *ret)
{
        return parse_number(s, 10, UINT64_MAX, ret);
}

int parse_u32(const char *s, uint32_t *ret)
{
        uint64_t v;
        int r = parse_number(s, 10, UINT32_MAX, &v);

        if (r >= 0)
                *ret = (uint32_t) v;
        return r;
}

int parse_octal(const char *s, uint32_t *ret)
{
        uint64_t v;
        int r = parse_number(s, 8, UINT32_MAX, &v);

        if (r >= 0)
                *ret = (uint32_t) v;
        return r;
}

int parse_boolean(const char *s)
{
        static const char *const yes[] = {"1", "yes", "y", "true", "t", "on"};
        static const char *const no[] = {"0", "no", "n", "false", "f", "off"};

        for (size_t i = 0; s && i < ELEMENTSOF(yes); i++) {
                if (strcasecmp(s, yes[i]) == 0)
                        return 1;
                if (strcasecmp(s, no[i]) == 0)
                        return 0;
        }
        return -EINVAL;
}

int word_index(const char *const *words, size_t n, const char *s)
{
        for (size_t i = 0; s && i < n; i++)
                if (streq_ptr(words[i], s))
                        return (int) i;
        return -EINVAL;
}

/* The units of systemd.time(7); a displayed time span can be used as input. */
static const struct {
        const char *suffix;
        uint64_t usec;
} time_units[] = {
                {"us", 1},
                {"usec", 1},
                {"ms", 1000},
                {"msec", 1000},
                {"", 1000000},
                {"s", 1000000},
                {"sec", 1000000},
                {"second", 1000000},
                {"seconds", 1000000},
                {"m", 60000000},
                {"min", 60000000},
                {"minute", 60000000},
                {"minutes", 60000000},
                {"h", 3600000000ULL},
                {"hr", 3600000000ULL},
                {"hour", 3600000000ULL},
                {"hours", 3600000000ULL},
                {"d", 86400000000ULL},
                {"day", 86400000000ULL},
                {"days", 86400000000ULL},
                {"w", 604800000000ULL},
                {"week", 604800000000ULL},
                {"weeks", 604800000000ULL},
                {"month", 2629800000000ULL},
                {"months", 2629800000000ULL},
                {"y", 31557600000000ULL},
                {"year", 31557600000000ULL},
                {"years", 31557600000000ULL},
};

static int lookup_time_unit(const char *s, size_t n, uint64_t *ret)
{
        for (size_t i = 0; i < ELEMENTSOF(time_units); i++)
                if (strlen(time_units[i].suffix) == n && strncmp(time_units[i].suffix, s, n) == 0) {
                        *ret = time_units[i].usec;
                        return 0;
                }
        return -EINVAL;
}

int parse_usec(const char *s, uint64_t *ret)
{
        uint64_t total = 0;

        s += strspn(s, " ");
        if (!*s)
                return -EINVAL;
        if (streq(s, "infinity")) {
                *ret = UINT64_MAX;
                return 0;
        }
        while (*s) {
                uint64_t value = 0, unit;

                if (!is_digit(*s))
                        return -EINVAL;
                for (; is_digit(*s); s++)
                        if (__builtin_mul_overflow(value, 10U, &value) ||
                            __builtin_add_overflow(value, (unsigned) (*s - '0'), &value))
                                return -ERANGE;
                s += strspn(s, " ");
                size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz");
                int r = lookup_time_unit(s, n, &unit);
                if (r < 0)
                        return r;
                s += n;
                s += strspn(s, " ");
                if (__builtin_mul_overflow(value, unit, &value) ||
                    __builtin_add_overflow(total, value, &total))
                        return -ERANGE;
        }
        *ret = total;
        return 0;
}

/* Overlong forms and surrogates are not valid. */
size_t utf8_length(const char *s, size_t n)
{
        static const struct {
                unsigned char first_min, first_max, second_min, second_max, length;
        } forms[] = {
                        {0x00, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2},
                        {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
                        {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
                        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4},
                        {0xf4, 0xf4, 0x80, 0x8f, 4},
        };
        const unsigned char *p = (const unsigned char *) s;

        for (size_t i = 0; n > 0 && i < ELEMENTSOF(forms); i++) {
                if (*p < forms[i].first_min || *p > forms[i].first_max)
                        continue;
                if (forms[i].length > n)
                        return 0;
                if (forms[i].length > 1 && (p[1] < forms[i].second_min || p[1] > forms[i].second_max))
                        return 0;
                for (size_t k = 2; k < forms[i].length; k++)
                        if ((p[k] & 0xc0) != 0x80)
                                return 0;
                return forms[i].length;
        }
        return 0;
}

bool utf8_is_valid(const char *s, size_t n)
{
        while (n > 0) {
                size_t k = utf8_length(s, n);
                if (k == 0)
                        return false;
                s += k;
                n -= k;
        }
        return true;
}

int random_hex(char ret[static RANDOM_HEX_SIZE])
{
        uint64_t x;

        if (getrandom(&x, sizeof(x), 0) != sizeof(x))
                return -EIO;
        snprintf(ret, RANDOM_HEX_SIZE, "%016" PRIx64, x);
        return 0;
}

int random_uuid(char ret[static UUID_TEXT_SIZE])
{
        unsigned char b[16];

        /* Nothing is kept secret by it, so it need not wait for entropy when the host has just started. */
        if (getrandom(b, sizeof(b), GRND_INSECURE) != sizeof(b))
                return -EIO;
        b[6] = (unsigned char) ((b[6] & 0x0f) | 0x40);
        b[8] = (unsigned char) ((b[8] & 0x3f) | 0x80);
        snprintf(ret, UUID_TEXT_SIZE, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
                 b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
                 b[14], b[15]);
        return 0;
}

char *hex_encode(const void *p, size_t n)
{
        static const char digits[] = "0123456789abcdef";
        const unsigned char *b = p;
        char *s = malloc(2 * n + 1);

        if (!s)
                return NULL;
        for (size_t i = 0; i < n; i++) {
                s[2 * i] = digits[b[i] >> 4];
                s[2 * i + 1] = digits[b[i] & 15];
        }
        s[2 * n] = 0;
        return s;
}

static int unhex(char c)
{
        if (is_digit(c))
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        if (c >= 'A' && c <= 'F')
                return c - 'A' + 10;
        return -EINVAL;
}

int hex_decode(const char *s, size_t n, void *ret)
{
        unsigned char *b = ret;

        if (strlen(s) != 2 * n)
                return -EINVAL;
        for (size_t i = 0; i < n; i++)
                if (unhex(s[2 * i]) < 0 || unhex(s[2 * i + 1]) < 0)
                        return -EINVAL;
        for (size_t i = 0; i < n; i++)
                b[i] = (unsigned char) (unhex(s[2 * i]) << 4 | unhex(s[2 * i + 1]));
        return 0;
}

void text_done(Text *t)
{
        free(t->data);
        *t = (Text){};
}

void text_add_bytes(Text *t, const void *p, size_t n)
{
        if (t->failed || GREEDY_REALLOC(t->data, t->allocated, t->size + n + 1) < 0) {
                t->failed = true;
                return;
        }
        if (n > 0)
                memcpy(t->data + t->size, p, n);
        t->size += n;
        t->data[t->size] = 0;
}

void text_add(Text *t, const char *s)
{
        text_add_bytes(t, s, strlen(s));
}

void text_addf(Text *t, const char *format, ...)
{
        _cleanup_free_ char *s = NULL;
        va_list ap;

        va_start(ap, format);
        int r = xvasprintf(&s, format, ap);
        va_end(ap);
        if (r < 0)
                t->failed = true;
        else
                text_add(t, s);
}

int text_take(Text *t, char **ret, size_t *ret_size)
{
        if (!t->failed && !t->data)
                text_add_bytes(t, "", 0);
        if (t->failed)
                return -ENOMEM;
        if (ret_size)
                *ret_size = t->size;
        *ret = TAKE_PTR(t->data);
        text_done(t);
        return 0;
}

uint64_t now_usec(clockid_t clock)
{
        struct timespec ts = {};

        (void) clock_gettime(clock, &ts);
        return (uint64_t) ts.tv_sec * 1000000U + (uint64_t) ts.tv_nsec / 1000U;
}

uint64_t deadline_after(uint64_t timeout_usec)
{
        uint64_t now = now_usec(CLOCK_MONOTONIC);

        return timeout_usec > UINT64_MAX - now ? UINT64_MAX : now + timeout_usec;
}

uint64_t deadline_left(uint64_t deadline)
{
        uint64_t now = now_usec(CLOCK_MONOTONIC);

        return deadline == UINT64_MAX ? UINT64_MAX : deadline > now ? deadline - now : 0;
}

int deadline_left_msec(uint64_t deadline)
{
        uint64_t left = deadline_left(deadline);

        return left == UINT64_MAX ? -1 : (int) MIN((left + 999) / 1000, (uint64_t) INT32_MAX);
}

char *format_utc(uint64_t usec)
{
        char text[64] = "?";
        time_t t = (time_t) (usec / 1000000U);
        struct tm tm;

        if (gmtime_r(&t, &tm))
                (void) strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &tm);
        return strdup(text);
}
