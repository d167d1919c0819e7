/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* stage0/mounts/names.c and prepare/pods/pod-resolver.c: resolver files, and options for names. */

#include "prepare/pods/pods-internal.h"
#include "stage0/mounts/mounts-internal.h"
#include "tests/unit/test.h"

TEST(resolver_files)
{
        static const struct {
                const char *text, *all, *reachable;
        } cases[] = {
                        {"", NULL, NULL},
                        {"nameserver 127.0.0.53\noptions edns0 trust-ad\nsearch a.example b.example\n",
                         "search a.example b.example\nnameserver 127.0.0.53\noptions edns0 trust-ad\n",
                         "search a.example b.example\noptions edns0 trust-ad\n"},
                        {"#x\n nameserver\t192.0.2.1 # y\r\nnameserver ::1\nnameserver "
                         "fe80::1%eth0\nnameserver "
                         "fe80::1\nnameserver 2001:db8::1\nnameserver 0.0.0.0\nnameserver ::ffff:127.0.0.1",
                         "nameserver 192.0.2.1\nnameserver ::1\nnameserver fe80::1%eth0\nnameserver "
                         "fe80::1\nnameserver 2001:db8::1\nnameserver 0.0.0.0\nnameserver "
                         "::ffff:127.0.0.1\n",
                         "nameserver 192.0.2.1\nnameserver 2001:db8::1\n"},
                        {"domain a.example\nsearch b.example\nnameserver\nsortlist x\nfoo bar\n",
                         "search b.example\n", "search b.example\n"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++)
                for (int reachable = 0; reachable <= 1; reachable++) {
                        _cleanup_(network_dns_done) NetworkDns d = {};
                        _cleanup_free_ char *text = NULL;
                        const char *expected = reachable ? cases[i].reachable : cases[i].all;

                        ASSERT_OK(resolv_conf_parse(cases[i].text, reachable, &d));
                        ASSERT_OK(resolv_conf_format(&d, &text));
                        if (expected)
                                ASSERT_STREQ(text, expected);
                        else
                                ASSERT_NULL(text);
                }
}

TEST(a_domain_is_a_list_of_one)
{
        _cleanup_free_ char *text = NULL;
        char *servers[] = {(char[]){"192.0.2.1"}, NULL};
        NetworkDns d = {.servers = servers, .domain = (char[]){"example.com"}};

        ASSERT_OK(resolv_conf_format(&d, &text));
        ASSERT_STREQ(text, "search example.com\nnameserver 192.0.2.1\n");
}

TEST(entries)
{
        static const struct {
                const char *text;
                bool valid;
        } cases[] = {
                        {"192.0.2.1=a", true},
                        {"2001:db8::1=a,b.example.com,c_d", true},
                        {"host", true},
                        {"", false},
                        {"=a", false},
                        {"192.0.2.1", false},
                        {"192.0.2.1=", false},
                        {"192.0.2.1=,a", false},
                        {"192.0.2.1=a,", false},
                        {"192.0.2.1=a,,b", false},
                        {"192.0.2.1=a b", false},
                        {"192.0.2.1=a\nb", false},
                        {"192.0.2.1=-a", false},
                        {"192.0.2.1=a..b", false},
                        {"192.0.2.1=a#b", false},
                        {"192.0.2=a", false},
                        {"fe80::1%eth0=a", false},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++)
                ASSERT_EQ(pod_hosts_entry_check(cases[i].text, NULL), cases[i].valid ? 0 : -EINVAL);
}

TEST(words_of_resolver_files)
{
        static const char *const bad[] = {"", "a b", "a\nb", "a#b", "a;b", "\xff"};

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                char *list[] = {(char *) bad[i], NULL};

                ASSERT_ERR(pod_dns_check(list, NULL), -EINVAL);
                ASSERT_ERR(pod_dns_search_check(bad[i], NULL), -EINVAL);
                ASSERT_ERR(pod_dns_option_check(bad[i], NULL), -EINVAL);
        }
        ASSERT_OK(pod_dns_search_check(".", NULL));
        ASSERT_OK(pod_dns_search_check("example.com.", NULL));
        ASSERT_OK(pod_dns_option_check("ndots:2", NULL));
}

TEST(configuration)
{
        char *none[] = {(char[]){"none"}, NULL}, *search[] = {(char[]){"example.com"}, NULL};
        _cleanup_error_ Error e = ERROR_NULL;
        PodConfig c = {.dns = none};

        ASSERT_OK(pod_resolver_check(&c, &e));
        c.dns_search = search;
        ASSERT_ERR(pod_resolver_check(&c, &e), -EINVAL);
        ASSERT_CONTAINS(e.message, "--dns=none");
}

int main(void)
{
        RUN(resolver_files);
        RUN(a_domain_is_a_list_of_one);
        RUN(entries);
        RUN(words_of_resolver_files);
        RUN(configuration);
        return TEST_END();
}
