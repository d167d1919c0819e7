/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Runs the programs that read and write the rules of the packet filter (iptables, nft): directly, without a shell, with an
 * environment of only a fixed PATH. */

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "stage0/network/network-internal.h"

#define LIST_USEC UINT64_C(7000000) /* iptables waits 5 s for its lock */
#define CHUNK_SIZE 16384U
#define NEEDLE_MAX 64U

static _noreturn_ void child(const char *const *argv, int netns_fd, int output_fd)
{
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        sigset_t none;

        sigemptyset(&none);
        (void) sigprocmask(SIG_SETMASK, &none, NULL);
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || null < 0 ||
            (netns_fd >= 0 && setns(netns_fd, CLONE_NEWNET) < 0))
                _exit(125);
        for (int fd = 0; fd <= 2; fd++)
                if (dup2(fd == STDOUT_FILENO && output_fd >= 0 ? output_fd : null, fd) < 0)
                        _exit(125);
        (void) clearenv();
        (void) putenv((char *) "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        (void) execvp(argv[0], (char *const *) argv);
        _exit(127);
}

pid_t network_program_start(const char *const *argv, int netns_fd, int output_fd)
{
        pid_t pid = fork();

        if (pid == 0)
                child(argv, netns_fd, output_fd);
        return pid;
}

bool network_program_succeeded(pid_t pid)
{
        int status = 0;

        if (pid < 0)
                return false;
        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return false;
        return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* --- Looking for a text -------------------------------------------------------------------------------- */

/* Reads until NEEDLE was found (1) or the output has ended (0). Keeps only the bytes that may be the beginning of NEEDLE.
 * -ETIME: the deadline has passed. */
static int search(int fd, const char *needle, uint64_t deadline)
{
        char window[NEEDLE_MAX + CHUNK_SIZE];
        size_t length = strnlen(needle, NEEDLE_MAX), kept = 0;

        for (;;) {
                struct pollfd p = {.fd = fd, .events = POLLIN};
                int ready = poll(&p, 1, deadline_left_msec(deadline));

                if (ready == 0)
                        return -ETIME;
                ssize_t n = ready < 0 ? -1 : read(fd, window + kept, CHUNK_SIZE);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : 0;
                kept += (size_t) n;
                if (memmem(window, kept, needle, length))
                        return 1;
                size_t rest = MIN(kept, length - 1);
                memmove(window, window + kept - rest, rest);
                kept = rest;
        }
}

int network_program_prints(const char *const *argv, const char *needle)
{
        _cleanup_close_ int output = -EBADF, theirs = -EBADF;
        int fds[2];

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        output = fds[0];
        theirs = fds[1];
        pid_t pid = network_program_start(argv, -EBADF, theirs);
        if (pid < 0)
                return -errno;
        theirs = safe_close(theirs);
        int r = search(output, needle, deadline_after(LIST_USEC));
        if (r != 0)
                (void) kill(pid, SIGKILL);
        bool succeeded = network_program_succeeded(pid);
        return r != 0 ? r : succeeded ? 0 : -EIO;
}
