/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* URLs: taken apart, checked and put together by libcurl's own parser, so that what is checked here is what
 * libcurl will connect to. There is no second parser that could interpret a host name differently.
 */

#include "library/libcurl.h"
#include "prepare/transfer/transfer-internal.h"

#define DISPLAY_MAX 512U /* bytes of a URL in a message */

static inline void curlu_cleanupp(CURLU **u)
{
        curl_url_cleanup(*u);
}

static inline void curl_freep(char **s)
{
        curl_free(*s);
}

#define _cleanup_curlu_ _cleanup_(curlu_cleanupp)
#define _cleanup_curl_ _cleanup_(curl_freep)

static int urlcode_to_errno(CURLUcode code)
{
        return code == CURLUE_OK ? 0 : code == CURLUE_OUT_OF_MEMORY ? -ENOMEM : -EINVAL;
}

static bool has_unfit_characters(const char *s)
{
        for (; *s; s++)
                if ((unsigned char) *s <= ' ' || *s == 0x7f)
                        return true;
        return false;
}

static int url_parse(const char *url, CURLU **ret)
{
        _cleanup_curlu_ CURLU *u = curl_url();

        if (!u)
                return -ENOMEM;
        if (isempty(url) || strlen(url) > URL_SIZE_MAX || has_unfit_characters(url))
                return -EINVAL;
        int r = urlcode_to_errno(curl_url_set(u, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME));
        if (r >= 0)
                *ret = TAKE_PTR(u);
        return r;
}

static int url_part(CURLU *u, CURLUPart part, unsigned flags, char **ret)
{
        _cleanup_curl_ char *s = NULL;

        int r = urlcode_to_errno(curl_url_get(u, part, &s, flags));
        if (r < 0)
                return r;
        char *copy = strdup(s);
        if (!copy)
                return -ENOMEM;
        *ret = copy;
        return 0;
}

/* That there is none is no failure; that it cannot be decoded (to a line break, say) is one. */
static int url_optional_part(CURLU *u, CURLUPart part, CURLUcode none, char **ret)
{
        _cleanup_curl_ char *s = NULL;

        if (curl_url_get(u, part, &s, 0) == none)
                return 0;
        return url_part(u, part, CURLU_URLDECODE, ret);
}

static int without_credentials(CURLU *u)
{
        static const CURLUPart parts[] = {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_OPTIONS,
                                          CURLUPART_FRAGMENT};

        for (size_t i = 0; i < ELEMENTSOF(parts); i++) {
                int r = urlcode_to_errno(curl_url_set(u, parts[i], NULL, 0));
                if (r < 0)
                        return r;
        }
        return 0;
}

static void normalize_host(char *host)
{
        size_t length = strlen(host);

        for (char *p = host; *p; p++)
                *p = to_lower(*p);
        if (length > 1 && host[length - 1] == '.') /* the root label is no part of a name */
                host[length - 1] = 0;
}

int url_split(const char *url, Url *ret)
{
        _cleanup_curlu_ CURLU *u = NULL;
        _cleanup_free_ char *port = NULL;
        _cleanup_(url_done) Url x = {};
        uint32_t n = 0;

        int r = library_load(&curl_library, NULL);
        if (r >= 0)
                r = url_parse(url, &u);
        if (r >= 0)
                r = url_part(u, CURLUPART_SCHEME, 0, &x.scheme);
        if (r >= 0)
                r = url_part(u, CURLUPART_HOST, 0, &x.host);
        if (r == -EINVAL && x.scheme && url_default_port(x.scheme) == 0) { /* file:, for one */
                x.host = strdup("");
                r = x.host ? 0 : -ENOMEM;
        }
        if (r >= 0)
                r = url_part(u, CURLUPART_PORT, CURLU_DEFAULT_PORT, &port);
        if (r < 0 && r != -ENOMEM && x.host) /* of a scheme that libcurl does not know there is none */
                r = 0;
        if (r >= 0 && port)
                r = parse_u32(port, &n);
        if (r >= 0)
                r = url_optional_part(u, CURLUPART_USER, CURLUE_NO_USER, &x.user);
        if (r >= 0)
                r = url_optional_part(u, CURLUPART_PASSWORD, CURLUE_NO_PASSWORD, &x.password);
        if (r >= 0)
                r = without_credentials(u);
        if (r >= 0)
                r = url_part(u, CURLUPART_URL, 0, &x.plain);
        if (r < 0)
                return r;
        normalize_host(x.host);
        x.port = (uint16_t) n;
        *ret = x;
        x = (Url){};
        return 0;
}

void url_done(Url *u)
{
        free(u->scheme);
        free(u->host);
        free(u->user);
        authorization_free(u->password);
        free(u->plain);
        *u = (Url){};
}

uint16_t url_default_port(const char *scheme)
{
        return streq(scheme, "https") ? 443 : streq(scheme, "http") ? 80 : 0;
}

/* --- What others use ----------------------------------------------------------------------------------- */

int url_check(const char *url, unsigned insecure, Error *e)
{
        _cleanup_free_ char *shown = NULL;
        _cleanup_(url_done) Url u = {};

        int r = library_load(&curl_library, e);
        if (r < 0)
                return r;
        shown = url_for_display(url);
        r = url_split(url, &u);
        if (r == -ENOMEM || !shown)
                return error_oom(e);
        if (r < 0)
                return error_set(e, -EINVAL, "What was given is not a URL of the form https://HOST/PATH");
        if (streq(u.scheme, "https"))
                return 0;
        if (!streq(u.scheme, "http")) {
                r = error_set(e, -EPROTONOSUPPORT, "'%s' cannot be fetched: only https is supported", shown);
                return error_hint(e, r, "Download it with another program, and name the file.");
        }
        if (insecure & INSECURE_HTTP)
                return 0;
        r = error_set(e, -EPERM, "'%s' is not fetched: with http anybody on the way can read and change it",
                      shown);
        return error_hint(e, r, "Use https, or --insecure-options=http if that is intended.");
}

int url_host(const char *url, char **ret)
{
        _cleanup_(url_done) Url u = {};

        int r = url_split(url, &u);
        if (r < 0)
                return r;
        if (u.port != url_default_port(u.scheme))
                return xasprintf(ret, "%s:%u", u.host, (unsigned) u.port);
        *ret = TAKE_PTR(u.host);
        return 0;
}

int url_without_credentials(const char *url, char **ret)
{
        _cleanup_(url_done) Url u = {};

        int r = url_split(url, &u);
        if (r >= 0)
                *ret = TAKE_PTR(u.plain);
        return r;
}

static char *shorten(char *s)
{
        if (s && strlen(s) > DISPLAY_MAX) {
                size_t end = DISPLAY_MAX;
                while (end > 0 && ((unsigned char) s[end] & 0xc0) == 0x80) /* not within a character */
                        end--;
                memcpy(s + end, "…", strlen("…") + 1);
        }
        return s;
}

char *url_for_display(const char *url)
{
        _cleanup_(url_done) Url u = {};

        int r = url ? url_split(url, &u) : -EINVAL;
        if (r == -ENOMEM)
                return NULL;
        return r < 0 ? strdup("(a malformed URL)") : shorten(text_escape_for_terminal(u.plain));
}

char *url_for_display_without_query(const char *url)
{
        _cleanup_(url_done) Url u = {};

        int r = url ? url_split(url, &u) : -EINVAL;
        char *query = u.plain ? strchr(u.plain, '?') : NULL;
        if (!query)
                return r == -ENOMEM ? NULL : url_for_display(url);
        *query = 0;
        _cleanup_free_ char *escaped = shorten(text_escape_for_terminal(u.plain));
        char *s = NULL;
        if (escaped)
                (void) xasprintf(&s, "%s?…", escaped);
        return s;
}
