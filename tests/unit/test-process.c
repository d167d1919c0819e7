/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* basic/process.c, stage0/host/process.c: processes referred to by a descriptor, while they run and after their parent has reaped them. */

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
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

static void on_signal(int sig)
{
        (void) sig;
}

/* A signal that interrupts the question is no answer. */
TEST(signals_while_it_is_asked)
{
        _cleanup_close_ int fd = -EBADF;
        unsigned n_ended = 0;
        pid_t pid;

        ASSERT_TRUE(sigaction(SIGUSR1, &(struct sigaction){.sa_handler = on_signal}, NULL) >= 0);
        start(&pid, &fd);
        pid_t parent = getpid(), sender = fork();
        if (sender == 0)
                for (;;)
                        if (kill(parent, SIGUSR1) < 0)
                                _exit(0);
        ASSERT_TRUE(sender > 0);
        for (unsigned i = 0; i < 100000; i++)
                n_ended += !process_is_alive(fd);
        ASSERT_OK(kill(sender, SIGKILL));
        ASSERT_OK(kill(pid, SIGKILL));
        ASSERT_TRUE(waitpid(sender, NULL, 0) == sender);
        ASSERT_TRUE(waitpid(pid, NULL, 0) == pid);
        ASSERT_EQ(n_ended, 0);
        ASSERT_FALSE(process_is_alive(fd));
}

/* From now on pidfd_send_signal() fails with CODE. */
static bool refuse_descriptors(int code)
{
        struct sock_filter rules[] = {
                        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_send_signal, 0, 1),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t) code),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        const struct sock_fprog program = {.len = ELEMENTSOF(rules), .filter = rules};

        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) >= 0 &&
               prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) >= 0;
}

/* Ends with 0 if signals work there. */
static int signal_where_refused(int code)
{
        _cleanup_close_ int fd = -EBADF;
        int status = 0;
        pid_t pid;

        if (!refuse_descriptors(code))
                return 77;
        start(&pid, &fd);
        if (process_signal(fd, 0) < 0 || process_signal(fd, SIGKILL) < 0 || waitpid(pid, &status, 0) != pid)
                return 1;
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
                return 2;
        return process_signal(fd, 0) == -ESRCH && process_signal(fd, SIGKILL) == -ESRCH ? 0 : 3;
}

TEST(signals_where_a_filter_refuses_descriptors)
{
        static const int codes[] = {EPERM, EACCES, ENOSYS};

        for (size_t i = 0; i < ELEMENTSOF(codes); i++) {
                int status = 0;
                pid_t pid = fork();
                if (pid == 0)
                        _exit(signal_where_refused(codes[i]));
                ASSERT_TRUE(waitpid(pid, &status, 0) == pid);
                if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
                        TEST_SKIP("no filter of system calls can be set here");
                ASSERT_EQ(status, 0);
        }
}

static int refused_number(void)
{
        _cleanup_close_ int fd = -EBADF;
        int status = 0;
        pid_t pid;

        start(&pid, &fd);
        if (process_signal(fd, 0) < 0)
                return 1;
        if (process_signal(fd, SIGKILL) != -EPERM)
                return 2;
        if (!process_is_alive(fd) || kill(pid, SIGKILL) < 0 || waitpid(pid, &status, 0) != pid)
                return 3;
        return process_signal(fd, SIGKILL) == -ESRCH ? 0 : 4;
}

/* The first process of a pid namespace that still has the /proc of the one outside. */
static int with_outer_proc(void)
{
        int status = 0;

        if (unshare(CLONE_NEWUSER | CLONE_NEWPID) < 0 || !refuse_descriptors(EPERM))
                return 77;
        pid_t pid = fork();
        if (pid == 0)
                _exit(refused_number());
        return pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status) ? 5 : WEXITSTATUS(status);
}

/* The number that /proc has may be that of another process. */
TEST(no_signals_by_numbers_of_another_namespace)
{
        int status = 0;
        pid_t pid = fork();

        if (pid == 0)
                _exit(with_outer_proc());
        ASSERT_TRUE(waitpid(pid, &status, 0) == pid);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
                TEST_SKIP("no pid namespace or filter of system calls can be made here");
        ASSERT_EQ(status, 0);
}

int main(void)
{
        RUN(how_a_process_has_ended);
        RUN(signals_while_it_is_asked);
        RUN(signals_where_a_filter_refuses_descriptors);
        RUN(no_signals_by_numbers_of_another_namespace);
        return TEST_END();
}
