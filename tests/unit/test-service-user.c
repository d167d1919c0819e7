/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The users of services of pods: none is a user of the pod, and pods have different ones. */

#include "stage0/supervisor/services/service-user.h"
#include "tests/unit/test.h"

static uid_t user_of(uint32_t base, uint32_t n_ranges)
{
        return pod_service_user(
                        &(PodConfig){.uid_base = base, .n_uid_ranges = n_ranges, .private_users = true});
}

TEST(outside_of_all_ranges_that_pods_get)
{
        for (uint32_t base = 0x80000; base <= 0x6fff0000; base += 0x10000) {
                uid_t u = user_of(base, 0);
                if (u < 0x7fff0000 || u > 0x7fffffff || u == user_of(base + 0x10000, 0))
                        TEST_FAIL("range %u: user %u", base, u);
        }
}

TEST(outside_of_ranges_that_are_chosen)
{
        static const struct {
                uint32_t base, n;
        } ranges[] = {{0x7fff0000, 1}, {0x7ffe0000, 1}, {0x7ffe0000, 2}, {0x7f000000, UID_RANGES_MAX},
                      {0x10000, 1},    {0x80000000, 1}, {0xfffe0000, 1}, {0x7fff0000, UID_RANGES_MAX}};

        for (size_t i = 0; i < ELEMENTSOF(ranges); i++) {
                uid_t u = user_of(ranges[i].base, ranges[i].n);
                uint64_t end = (uint64_t) ranges[i].base + (uint64_t) ranges[i].n * 0x10000;
                if ((u >= ranges[i].base && u < end) || u < 0x10000 || u == UINT32_MAX)
                        TEST_FAIL("range %u: user %u", ranges[i].base, u);
        }
}

/* Also where the range begins or ends within a block. */
TEST(outside_of_ranges_that_begin_anywhere)
{
        static const struct {
                uint32_t base, n;
        } ranges[] = {{1, 6}, {1000, 100000}, {0x7ffeffff, 2}, {0x7fff0001, 0x20000}, {0xfffeffff, 1}};

        for (size_t i = 0; i < ELEMENTSOF(ranges); i++) {
                const PodConfig c = {
                                .uid_base = ranges[i].base, .n_uids = ranges[i].n, .private_users = true};
                uid_t u = pod_service_user(&c);
                if (u >= c.uid_base && u - c.uid_base < c.n_uids)
                        TEST_FAIL("range %u: user %u", c.uid_base, u);
        }
}

int main(void)
{
        RUN(outside_of_all_ranges_that_pods_get);
        RUN(outside_of_ranges_that_are_chosen);
        RUN(outside_of_ranges_that_begin_anywhere);
        return TEST_END();
}
