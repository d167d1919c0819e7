/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* stage0/host/process.c: processes referred to by a descriptor, while they run and after their parent has reaped them. */

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "stage0/host/host.h"
#include "tests/unit/test.h"

/* A child that is stopped, and exits with 7 once it goes on; *RET_FD refers to it. */
static void start(pid_t *ret_pid, int *ret_fd)
{
        pid_t pid = *ret_pid = fork();

        if (pid == 0) {
                (void) raise(SIGSTOP);
                _exit(7);
        }
        ASSERT_TRUE(pid > 0);
        ASSERT_TRUE(waitpid(pid, NULL, WUNTRACED) == pid);
        *ret_fd = (int) syscall(SYS_pidfd_open, pid, 0);
        ASSERT_TRUE(*ret_fd >= 0);
}

TEST(how_a_process_has_ended)
{
        const struct {
                int sig, status;
        } cases[] = {{SIGCONT, 7 << 8}, {SIGKILL, SIGKILL}};

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_close_ int fd = -EBADF;
                int status = -1;

                pid_t pid = 0, number = 0;
                start(&pid, &fd);
                ASSERT_TRUE(process_is_alive(fd));
                ASSERT_OK(process_number(fd, &number));
                ASSERT_EQ(number, pid);
                ASSERT_ERR(process_wait_status(fd, &status), -EOPNOTSUPP); /* it has not */
                ASSERT_OK(kill(pid, cases[i].sig));
                ASSERT_TRUE(waitpid(pid, NULL, 0) == pid);
                ASSERT_FALSE(process_is_alive(fd));
                ASSERT_ERR(process_number(fd, &number), -ESRCH);
                int r = process_wait_status(fd, &status);
                if (r == -EOPNOTSUPP)
                        continue; /* before Linux 6.15 */
                ASSERT_OK(r);
                ASSERT_EQ(status, cases[i].status);
        }
        ASSERT_FALSE(process_is_alive(-EBADF));
        ASSERT_TRUE(process_wait_status(STDIN_FILENO, &(int){0}) < 0);
}

int main(void)
{
        RUN(how_a_process_has_ended);
        return TEST_END();
}
