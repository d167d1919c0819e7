/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the headers of an answer say: which state of the resource this is, which part of it, how long it may
 * be taken to be so, and when to come back. libcurl has split them; here they are read, and what makes no
 * sense is as if it was not there.
 */

#include "prepare/transfer/transfer-internal.h"

#define VALUE_MAX 4096U                                 /* bytes of a header that is kept */
#define VALIDATOR_MAX 512U                              /* of one that is sent back */
#define EXPIRES_MAX_USEC (366 * 24 * 3600 * 1000000ULL) /* from now: what says longer means "for ever" */
#define SECONDS_MAX (100ULL * 366 * 24 * 3600)

void response_done(Response *r)
{
        free(r->etag);
        free(r->last_modified);
        free(r->content_type);
        free(r->challenge);
        free(r->digest);
        free(r->link);
        free(r->location);
        free(r->error_body);
        *r = (Response){};
}

/* --- Headers ------------------------------------------------------------------------------------------- */

/* The N-th header of the name; NULL: there is none, or it is not fit to be looked at. */
static const char *header(CURL *easy, const char *name, size_t n)
{
        struct curl_header *h = NULL;

        if (curl_easy_header(easy, name, n, CURLH_HEADER, -1, &h) != CURLHE_OK ||
            strlen(h->value) > VALUE_MAX)
                return NULL;
        for (const char *p = h->value; *p; p++)
                if ((unsigned char) *p < ' ' && *p != '\t')
                        return NULL;
        return h->value;
}

static size_t count_headers(CURL *easy, const char *name)
{
        struct curl_header *h = NULL;

        return curl_easy_header(easy, name, 0, CURLH_HEADER, -1, &h) == CURLHE_OK
                               ? MIN(h->amount, (size_t) 64)
                               : 0;
}

static int copy_header(CURL *easy, const char *name, size_t max, char **ret)
{
        const char *value = header(easy, name, 0);

        if (isempty(value) || strlen(value) > max)
                return 0;
        *ret = strdup(value);
        return *ret ? 0 : -ENOMEM;
}

/* Several headers of one name are one with commas. */
static int join_headers(CURL *easy, const char *name, char **ret)
{
        _cleanup_strv_free_ char **values = NULL;

        for (size_t i = 0, n = count_headers(easy, name); i < n; i++) {
                const char *value = header(easy, name, i);
                if (!isempty(value) && strv_extend(&values, value) < 0)
                        return -ENOMEM;
        }
        if (!values)
                return 0;
        *ret = strv_join(values, ", ");
        return *ret ? 0 : -ENOMEM;
}

static int read_content_type(CURL *easy, char **ret)
{
        _cleanup_free_ char *s = NULL;

        int r = copy_header(easy, "Content-Type", VALUE_MAX, &s);
        if (r < 0 || !s)
                return r;
        s[strcspn(s, "; \t")] = 0;
        for (char *p = s; *p; p++)
                *p = to_lower(*p);
        *ret = TAKE_PTR(s);
        return 0;
}

/* Seconds since the epoch; -1: no date. */
static time_t header_date(CURL *easy, const char *name)
{
        const char *value = header(easy, name, 0);

        return isempty(value) ? (time_t) -1 : curl_getdate(value, NULL);
}

/* --- Which part ---------------------------------------------------------------------------------------- */

/* Decimal digits up to one of END; what follows it is returned. NULL: no number. */
static const char *take_number(const char *s, char end, uint64_t *ret)
{
        char digits[21];
        size_t n = strspn(s, "0123456789");

        if (n == 0 || n >= sizeof(digits) || s[n] != end)
                return NULL;
        memcpy(digits, s, n);
        digits[n] = 0;
        if (parse_u64(digits, ret) < 0)
                return NULL;
        return s + n + (end != 0);
}

/* "bytes FIRST-LAST/TOTAL", "bytes FIRST-LAST/…*", "bytes …*" + "/TOTAL". */
static void read_content_range(const char *value, Response *r)
{
        uint64_t first = UNKNOWN, last = 0, total = UNKNOWN;

        const char *p = value ? startswith(value, "bytes ") : NULL;
        if (!p)
                return;
        if (startswith(p, "*/"))
                p += 2;
        else {
                p = take_number(p, '-', &first);
                p = p ? take_number(p, '/', &last) : NULL;
                if (!p || last < first)
                        return;
        }
        if (!streq(p, "*") && (!take_number(p, 0, &total) || (first != UNKNOWN && last >= total)))
                return;
        r->range_first = first;
        r->range_total = total;
}

/* --- How long ------------------------------------------------------------------------------------------ */

typedef struct Caching {
        bool fresh_forbidden; /* no-store, no-cache */
        uint64_t max_age;     /* seconds, or UNKNOWN */
} Caching;

static void read_directive(char *s, Caching *c)
{
        s += strspn(s, " \t");
        for (char *p = s; *p; p++)
                *p = to_lower(*p);
        size_t n = strcspn(s, " \t=");
        const char *value = strchr(s, '=');
        if ((n == 8 && strncmp(s, "no-store", n) == 0) || (n == 8 && strncmp(s, "no-cache", n) == 0))
                c->fresh_forbidden = true;
        if (n != 7 || strncmp(s, "max-age", n) != 0 || !value)
                return;
        value += 1 + strspn(value + 1, " \t\"");
        char digits[24] = "";
        size_t size = strspn(value, "0123456789");
        memcpy(digits, value, MIN(size, sizeof(digits) - 1));
        uint64_t seconds = 0;
        if (size >= sizeof(digits) || parse_u64(digits, &seconds) == -ERANGE)
                seconds = SECONDS_MAX;
        c->max_age = MIN(seconds, c->max_age);
}

static int read_cache_control(CURL *easy, Caching *c)
{
        _cleanup_free_ char *value = NULL;
        _cleanup_strv_free_ char **directives = NULL;

        *c = (Caching){.max_age = UNKNOWN};
        int r = join_headers(easy, "Cache-Control", &value);
        if (r < 0 || !value)
                return r;
        r = strv_split(value, ",", &directives);
        if (r < 0)
                return r;
        for (char **d = directives; d && *d; d++)
                read_directive(*d, c);
        return 0;
}

/* Seconds for which the answer is fresh from when it was made. RFC 9111, 4.2.1, without guessing. */
static uint64_t fresh_seconds(CURL *easy, const Caching *c)
{
        if (c->fresh_forbidden)
                return 0;
        if (c->max_age != UNKNOWN)
                return c->max_age;
        time_t expires = header_date(easy, "Expires"), date = header_date(easy, "Date");
        if (date == (time_t) -1)
                date = (time_t) (now_usec(CLOCK_REALTIME) / 1000000ULL);
        return expires > date ? (uint64_t) (expires - date) : 0;
}

static int read_expiry(CURL *easy, uint64_t *ret)
{
        uint64_t age = 0;
        Caching c;

        int r = read_cache_control(easy, &c);
        if (r < 0)
                return r;
        const char *value = header(easy, "Age", 0);
        if (value && parse_u64(value, &age) < 0)
                age = 0;
        uint64_t seconds = MIN(fresh_seconds(easy, &c), SECONDS_MAX);
        *ret = seconds > age ? now_usec(CLOCK_REALTIME) + MIN((seconds - age) * 1000000ULL, EXPIRES_MAX_USEC)
                             : 0;
        return 0;
}

/* Seconds, or a date. */
static uint64_t read_retry_after(CURL *easy)
{
        const char *value = header(easy, "Retry-After", 0);
        uint64_t seconds = 0;

        if (isempty(value))
                return UNKNOWN;
        if (parse_u64(value, &seconds) >= 0)
                return MIN(seconds, SECONDS_MAX) * 1000000ULL;
        time_t when = curl_getdate(value, NULL), now = (time_t) (now_usec(CLOCK_REALTIME) / 1000000ULL);
        if (when == (time_t) -1)
                return UNKNOWN;
        return when > now ? (uint64_t) (when - now) * 1000000ULL : 0;
}

/* --- All of it ----------------------------------------------------------------------------------------- */

static int read_strings(CURL *easy, Response *r)
{
        const struct {
                const char *name;
                size_t max;
                char **to;
        } wanted[] = {
                        {"ETag", VALIDATOR_MAX, &r->etag},
                        {"Last-Modified", VALIDATOR_MAX, &r->last_modified},
                        {"Docker-Content-Digest", VALIDATOR_MAX, &r->digest},
        };

        for (size_t i = 0; i < ELEMENTSOF(wanted); i++) {
                int k = copy_header(easy, wanted[i].name, wanted[i].max, wanted[i].to);
                if (k < 0)
                        return k;
        }
        int k = join_headers(easy, "WWW-Authenticate", &r->challenge);
        if (k >= 0)
                k = join_headers(easy, "Link", &r->link);
        return k < 0 ? k : read_content_type(easy, &r->content_type);
}

static int read_location(CURL *easy, Response *r)
{
        char *location = NULL;

        (void) curl_easy_getinfo(easy, CURLINFO_REDIRECT_URL, &location);
        if (!location)
                return 0;
        r->location = strdup(location);
        return r->location ? 0 : -ENOMEM;
}

/* RFC 9110, 8.8.2.2: it is as good as an ETag if the file was not changed in the second of the answer. */
static bool is_strong(CURL *easy)
{
        time_t modified = header_date(easy, "Last-Modified"), date = header_date(easy, "Date");

        return modified != (time_t) -1 && date != (time_t) -1 && modified < date;
}

int response_read(CURL *easy, Response *ret)
{
        _cleanup_(response_done)
                        Response r = {.length = UNKNOWN, .range_first = UNKNOWN, .range_total = UNKNOWN};
        curl_off_t length = -1;
        long status = 0;

        (void) curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
        (void) curl_easy_getinfo(easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
        r.status = (unsigned) status;
        if (length >= 0)
                r.length = (uint64_t) length;
        int k = read_strings(easy, &r);
        if (k >= 0)
                k = read_location(easy, &r);
        if (k >= 0)
                k = read_expiry(easy, &r.expires_usec);
        if (k < 0)
                return k;
        read_content_range(header(easy, "Content-Range", 0), &r);
        r.retry_after_usec = read_retry_after(easy);
        r.last_modified_is_strong = is_strong(easy);
        /* libcurl takes a number beyond all bounds for none. */
        r.length_is_absurd = length < 0 && header(easy, "Content-Length", 0) &&
                             !header(easy, "Transfer-Encoding", 0);
        response_done(ret);
        *ret = r;
        r = (Response){};
        return 0;
}
