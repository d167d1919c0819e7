/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Counters of network interfaces, as reported by the kernel. */

#include "stage0/report/report.h"
#include "tests/unit/test.h"

TEST(interfaces)
{
        static const char text[] =
                        "Inter-|   Receive                                                |  Transmit\n"
                        " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets "
                        "errs drop\n"
                        "    lo:  100       2    0    0    0     0          0         0   100       2    0  "
                        "  0    "
                        "0     0       0          0\n"
                        "veth-a:18446744073709551615 20 3 4 5 6 7 8 90 10 11 12 13 14 15 16\n";
        _cleanup_free_ NetworkUsage *l = NULL;
        size_t n = 0;

        ASSERT_OK(network_usage_parse(text, &l, &n));
        ASSERT_EQ(n, 2);
        ASSERT_STREQ(l[0].name, "lo");
        ASSERT_EQ(l[0].received_bytes, 100);
        ASSERT_EQ(l[0].sent_packets, 2);
        ASSERT_STREQ(l[1].name, "veth-a");
        ASSERT_EQ(l[1].received_bytes, UINT64_MAX);
        ASSERT_EQ(l[1].received_packets, 20);
        ASSERT_EQ(l[1].received_errors, 3);
        ASSERT_EQ(l[1].received_dropped, 4);
        ASSERT_EQ(l[1].sent_bytes, 90);
        ASSERT_EQ(l[1].sent_packets, 10);
        ASSERT_EQ(l[1].sent_errors, 11);
        ASSERT_EQ(l[1].sent_dropped, 12);
}

TEST(invalid_lines)
{
        static const char *const table[] = {
                        "",       "\n\n",      "lo",
                        "lo:",    "lo: 1 2 3", "lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 x",
                        ":::::::"};

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                _cleanup_free_ NetworkUsage *l = NULL;
                size_t n = 1;
                ASSERT_OK(network_usage_parse(table[i], &l, &n));
                ASSERT_EQ(n, 0);
        }
}

int main(void)
{
        RUN(interfaces);
        RUN(invalid_lines);
        return TEST_END();
}
