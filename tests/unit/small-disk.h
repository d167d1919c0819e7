/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Part of a test on a file system of its own, with a size of its own:
 *
 *     static void fill_it(void)
 *     {
 *             FIXTURE(f);
 *             …
 *     }
 *
 *     TEST(full_disk)
 *     {
 *             on_small_disk("size=80m", fill_it);
 *     }
 *
 * The function runs in a child, with a tmpfs as TMPDIR that is mounted there only. Its assertions are the
 * test's. */

#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "tests/unit/scratch.h"
#include "tests/unit/test.h"

static inline bool small_disk_write(const char *path, const char *text)
{
        _cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);

        return fd >= 0 && loop_write(fd, text, strlen(text)) >= 0;
}

/* A mount namespace; without privileges in a user namespace, in which this user is root and the only one. */
static inline bool small_disk_unshare(void)
{
        char users[64], groups[64];

        if (geteuid() == 0)
                return unshare(CLONE_NEWNS) >= 0;
        snprintf(users, sizeof(users), "0 %u 1\n", geteuid());
        snprintf(groups, sizeof(groups), "0 %u 1\n", getegid());
        return unshare(CLONE_NEWNS | CLONE_NEWUSER) >= 0 && small_disk_write("/proc/self/setgroups", "deny") &&
               small_disk_write("/proc/self/uid_map", users) && small_disk_write("/proc/self/gid_map", groups);
}

static inline void small_disk_child(const char *options, const char *path, void (*function)(void), int out)
{
        if (!small_disk_unshare() || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("small", path, "tmpfs", 0, options) < 0) {
                test_state_ = TEST_SKIPPED_;
                snprintf(test_reason_, sizeof(test_reason_), "no file system can be mounted here");
        } else if (setenv("TMPDIR", path, 1) >= 0)
                function();
        if (loop_write(out, &test_state_, sizeof(test_state_)) < 0 ||
            loop_write(out, test_reason_, sizeof(test_reason_)) < 0)
                _exit(1);
        _exit(0);
}

static inline void on_small_disk(const char *options, void (*function)(void))
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        int fds[2];

        ASSERT_OK(scratch_new(&s));
        ASSERT_TRUE(pipe2(fds, O_CLOEXEC) >= 0);
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0)
                small_disk_child(options, s.path, function, fds[1]);
        safe_close(fds[1]);
        bool complete = pid > 0 &&
                        loop_read(fds[0], &test_state_, sizeof(test_state_)) == sizeof(test_state_) &&
                        loop_read(fds[0], test_reason_, sizeof(test_reason_)) == sizeof(test_reason_);
        safe_close(fds[0]);
        if (pid > 0)
                (void) waitpid(pid, NULL, 0);
        ASSERT_TRUE(complete);
}
