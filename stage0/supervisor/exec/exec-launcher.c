/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Starts the launcher on the host, from where it enters a pod.
 *
 * /proc/PID/exe of a process in the pod gives access to the file of its program, which an attacker in the
 * pod could then write to (CVE-2019-5736). So the program that enters the pod is a sealed copy in memory,
 * not a file of the host, which cannot be written, and cannot even be read by the pod. */

#include <linux/close_range.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "stage0/supervisor/exec/exec-internal.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

static int make_memory_file(void)
{
        int fd = memfd_create("acnspawn-launch", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);

        if (fd < 0 && errno == EINVAL) /* before Linux 6.3 every memfd was executable */
                fd = memfd_create("acnspawn-launch", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        return fd < 0 ? -errno : fd;
}

int launcher_open(int *ret_fd, Error *e)
{
        _cleanup_free_ char *path = NULL;

        int r = helper_program_path("launch", &path, e);
        if (r < 0)
                return r;
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return error_set_errno(e, -errno, "Cannot open %s", path);
        *ret_fd = fd;
        return 0;
}

int launcher_copy(int source, int *ret_fd)
{
        struct stat st;
        off_t at = 0;

        if (fstat(source, &st) < 0)
                return -errno;
        _cleanup_close_ int fd = make_memory_file();
        if (fd < 0)
                return fd;
        for (off_t left = st.st_size; left > 0;) {
                ssize_t n = sendfile(fd, source, &at, (size_t) left);
                if (n <= 0)
                        return n < 0 ? -errno : -EIO;
                left -= n;
        }
        if (fchmod(fd, 0111) < 0 ||
            fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
                return -errno;
        *ret_fd = TAKE_FD(fd);
        return 0;
}

/* No descriptor of this process is passed on except for the socket. */
static _noreturn_ void child(int program, int sock, pid_t parent)
{
        char *const argv[] = {(char *) "launch", (char *) "enter", NULL}, *const environment[] = {NULL};
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        sigset_t none;

        sigemptyset(&none);
        if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent || null < 0 ||
            chdir("/") < 0 || setsid() < 0)
                _exit(125);
        program = fcntl(program, F_DUPFD_CLOEXEC, 10);
        for (int fd = 0; fd <= 2; fd++)
                if (dup2(null, fd) < 0)
                        _exit(125);
        if (sock == ENTER_SOCKET ? fcntl(sock, F_SETFD, 0) < 0 : dup2(sock, ENTER_SOCKET) < 0)
                _exit(125);
        if (syscall(SYS_close_range, ENTER_SOCKET + 1, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
                _exit(125);
        (void) sigprocmask(SIG_SETMASK, &none, NULL);
        (void) syscall(SYS_execveat, program, "", argv, environment, AT_EMPTY_PATH);
        _exit(125);
}

int launcher_start(int program, pid_t *ret_pid, int *ret_socket)
{
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return -errno;
        pid_t parent = getpid(), pid = fork();
        if (pid == 0)
                child(program, pair[1], parent);
        int r = pid < 0 ? -errno : 0;
        safe_close(pair[1]);
        if (r < 0) {
                safe_close(pair[0]);
                return r;
        }
        *ret_pid = pid;
        *ret_socket = pair[0];
        return 0;
}
