/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The child process that keeps moves between cgroups fast: it ends when its time is over, and with its owner. Without the right to
 * write to cgroups it ends at once. */

#include <sys/wait.h>

#include "stage0/supervisor/apps/cgroup-moves.h"
#include "tests/unit/test.h"

#define LONG_USEC UINT64_C(3600000000)

static bool has_child(void)
{
        return waitid(P_ALL, 0, &(siginfo_t){}, WEXITED | WNOHANG | WNOWAIT) >= 0;
}

/* The event loop reaps it. */
static int wait_for_end(sd_event *event)
{
        int r = 0;

        while (r >= 0 && has_child())
                r = sd_event_run(event, 100000);
        return r;
}

TEST(it_ends_by_itself)
{
        sd_event *event = NULL;
        CgroupMoves *m = NULL;

        ASSERT_OK(sd_event_new(&event));
        ASSERT_OK(cgroup_moves_new(event, &m));
        ASSERT_FALSE(has_child());
        for (unsigned i = 0; i < 3; i++) {
                cgroup_moves_expect(m, 1000);
                ASSERT_TRUE(has_child());
                ASSERT_OK(wait_for_end(event));
        }
        cgroup_moves_free(m);
        sd_event_unref(event);
}

/* Ends and starts that overlap in any way leave one child at most. */
TEST(times_follow_each_other)
{
        sd_event *event = NULL;
        CgroupMoves *m = NULL;

        ASSERT_OK(sd_event_new(&event));
        ASSERT_OK(cgroup_moves_new(event, &m));
        for (unsigned i = 0; i < 200; i++) {
                cgroup_moves_expect(m, i * 17 % 100);
                if (i % 7 == 0)
                        ASSERT_OK(sd_event_run(event, 0));
        }
        /* The last time counts, also if it is shorter. */
        cgroup_moves_expect(m, LONG_USEC);
        cgroup_moves_expect(m, 1);
        ASSERT_OK(wait_for_end(event));
        cgroup_moves_free(m);
        sd_event_unref(event);
}

TEST(it_ends_with_its_owner)
{
        sd_event *event = NULL;
        CgroupMoves *m = NULL;

        ASSERT_OK(sd_event_new(&event));
        ASSERT_OK(cgroup_moves_new(event, &m));
        cgroup_moves_expect(m, LONG_USEC);
        cgroup_moves_free(m);
        ASSERT_FALSE(has_child());
        cgroup_moves_expect(NULL, LONG_USEC);
        ASSERT_FALSE(has_child());
        sd_event_unref(event);
}

int main(void)
{
        if (library_load(&systemd_library, NULL) < 0)
                return 1;
        RUN(it_ends_by_itself);
        RUN(times_follow_each_other);
        RUN(it_ends_with_its_owner);
        return TEST_END();
}
