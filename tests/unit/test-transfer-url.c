/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* URLs and the words of --insecure-options=. */

#include "prepare/transfer/transfer.h"
#include "tests/unit/test.h"

TEST(checked)
{
        static const struct {
                const char *url;
                unsigned insecure;
                int code;
        } cases[] = {
                        {"https://example.com/x", 0, 0},
                        {"HTTPS://example.com", 0, 0},
                        {"http://example.com/x", 0, -EPERM},
                        {"http://example.com/x", INSECURE_TLS, -EPERM},
                        {"http://example.com/x", INSECURE_HTTP, 0},
                        {"file:///etc/passwd", INSECURE_HTTP, -EPROTONOSUPPORT},
                        {"ftp://example.com/", INSECURE_HTTP, -EPROTONOSUPPORT},
                        {"docker://example.com/", 0, -EPROTONOSUPPORT},
                        {"example.com/x", 0, -EINVAL},
                        {"https://", 0, -EINVAL},
                        {"https://a%0d%0ab:c@example.com/", 0, -EINVAL},
                        {"https://exa mple.com/", 0, -EINVAL},
                        {"https://example.com/\n", 0, -EINVAL},
                        {"https://example.com:99999/", 0, -EINVAL},
                        {"", 0, -EINVAL},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_error_ Error e = ERROR_NULL;
                int r = url_check(cases[i].url, cases[i].insecure, &e);
                if (r != cases[i].code)
                        TEST_FAIL("%s: %d", cases[i].url, r);
        }
        char large[URL_SIZE_MAX + 64] = "https://example.com/";
        memset(large + strlen(large), 'x', URL_SIZE_MAX);
        ASSERT_ERR(url_check(large, 0, NULL), -EINVAL);
}

TEST(taken_apart)
{
        static const struct {
                const char *url, *host, *plain, *shown;
        } cases[] = {
                        {"https://Example.com/x", "example.com", "https://Example.com/x",
                         "https://Example.com/x"},
                        {"https://a:b@example.com:443/x#f", "example.com", "https://example.com:443/x",
                         "https://example.com:443/x"},
                        {"http://example.com:8080", "example.com:8080", "http://example.com:8080/",
                         "http://example.com:8080/"},
                        {"https://[::1]:5000/v2/?q=1", "[::1]:5000", "https://[::1]:5000/v2/?q=1",
                         "https://[::1]:5000/v2/?q=1"},
                        {"https://example.com.:443/", "example.com", "https://example.com.:443/",
                         "https://example.com.:443/"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_free_ char *host = NULL, *plain = NULL, *shown = url_for_display(cases[i].url);
                ASSERT_OK(url_host(cases[i].url, &host));
                ASSERT_STREQ(host, cases[i].host);
                ASSERT_OK(url_without_credentials(cases[i].url, &plain));
                ASSERT_STREQ(plain, cases[i].plain);
                ASSERT_STREQ(shown, cases[i].shown);
        }
}

TEST(shown)
{
        char large[4096] = "https://example.com/";
        _cleanup_free_ char *malformed = url_for_display("https://me:secret@exa mple.com/"),
                            *none = url_for_display(NULL);

        ASSERT_STREQ(malformed, "(a malformed URL)");
        ASSERT_STREQ(none, "(a malformed URL)");
        memset(large + strlen(large), 'x', 4000);
        _cleanup_free_ char *shown = url_for_display(large);
        ASSERT_LT(strlen(shown), 600);
        ASSERT_CONTAINS(shown, "…");
}

TEST(insecure_options)
{
        unsigned o = 99;

        ASSERT_OK(insecure_options_from_string("none", &o));
        ASSERT_EQ(o, 0);
        ASSERT_OK(insecure_options_from_string("http,tls", &o));
        ASSERT_EQ(o, INSECURE_HTTP | INSECURE_TLS);
        ASSERT_OK(insecure_options_from_string("signature,pubkey", &o));
        ASSERT_EQ(o, INSECURE_SIGNATURE | INSECURE_PUBKEY);
        ASSERT_OK(insecure_options_from_string("all", &o));
        ASSERT_EQ(o, INSECURE_HTTP | INSECURE_TLS | INSECURE_SIGNATURE | INSECURE_PUBKEY);
        ASSERT_ERR(insecure_options_from_string("http,nonsense", &o), -EINVAL);
        ASSERT_ERR(insecure_options_from_string("", &o), -EINVAL);
        ASSERT_ERR(insecure_options_from_string("HTTP", &o), -EINVAL);
}

int main(void)
{
        RUN(checked);
        RUN(taken_apart);
        RUN(shown);
        RUN(insecure_options);
        return TEST_END();
}
