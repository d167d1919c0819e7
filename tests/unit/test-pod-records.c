/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* stage0/host/: the records of a pod are written on a disk that is full once their space is reserved. */

#include "stage0/host/host.h"
#include "tests/unit/scratch.h"
#include "tests/unit/small-disk.h"
#include "tests/unit/test.h"

static void fill(int dir_fd)
{
        static const char zeros[4096];
        _cleanup_close_ int fd = openat(dir_fd, "filler", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

        while (write(fd, zeros, sizeof(zeros)) > 0) {
        }
        ASSERT_EQ(errno, ENOSPC);
}

static void write_all(void)
{
        const LogDrops drops[] = {{.app = (char *) "web", .lines = 1}, {.app = (char *) "web", .lines = 2}};
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_error_ Error e = ERROR_NULL;
        PodManifest manifest = {};
        PodRuntime runtime = {.supervisor = 10, .nspawn = 11};
        PodResult result = {};
        LogDrops dropped = {};

        ASSERT_OK(scratch_new(&s));
        Pod p = {.dir_fd = s.fd, .manifest = &manifest};
        ASSERT_OK(pod_reserve_records(&p, &e));
        fill(s.fd);
        ASSERT_ERR(pod_runtime_read(&p, &runtime), -ENOENT);
        ASSERT_ERR(pod_drops_read(&p, "web", &dropped), -ENOENT);
        for (size_t i = 0; i < ELEMENTSOF(drops); i++) {
                runtime.leader = (pid_t) (12 + i);
                ASSERT_OK(pod_runtime_write(&p, &runtime));
                ASSERT_OK(pod_drops_write(&p, &drops[i], 1));
        }
        ASSERT_OK(pod_result_write(&p, &(PodResult){.exit_status = 7}));
        ASSERT_OK(pod_runtime_read(&p, &runtime));
        ASSERT_EQ(runtime.leader, 13);
        ASSERT_OK(pod_drops_read(&p, "web", &dropped));
        ASSERT_EQ(dropped.lines, 2);
        ASSERT_OK(pod_result_read(&p, &result));
        ASSERT_EQ(result.exit_status, 7);
}

TEST(each_record_has_its_space)
{
        on_small_disk("size=128k", write_all);
}

int main(void)
{
        RUN(each_record_has_its_space);
        return TEST_END();
}
