/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Runs a function in a child process, in which the n-th system call of some kinds fails, or is the last one
 * before it is killed. A seccomp filter reports these calls, of all threads of the child, to this process,
 * which decides the result of each:
 *
 *     Fault f = {.kind = FAULT_ENOSPC, .step = 7};
 *     ASSERT_OK(fault_run(&f, function, userdata));
 *     f.reached: there was a seventh; f.result, f.message: results of FUNCTION
 *
 * No privilege is needed. -ENOSYS: the kernel's seccomp does not support this. */

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "basic/basic.h"

typedef enum FaultKind {
        FAULT_ENOSPC,
        FAULT_EIO,
        FAULT_EDQUOT,
        FAULT_EMFILE,
        FAULT_EMLINK,
        FAULT_KILL,
        _FAULT_MAX
} FaultKind;

/* Calls that change a file system. Removing is included only for FAULT_KILL: files that cannot be removed
 * stay. */
static const int fault_writers[] = {
                SYS_write,     SYS_pwrite64,  SYS_writev,    SYS_openat,          SYS_openat2,
                SYS_mkdirat,   SYS_mknodat,   SYS_linkat,    SYS_symlinkat,       SYS_renameat,
                SYS_renameat2, SYS_ftruncate, SYS_fallocate, SYS_copy_file_range, SYS_fsync,
                SYS_fdatasync, SYS_syncfs,    SYS_fsetxattr, SYS_lsetxattr,       SYS_fchmod,
                SYS_fchmodat,  SYS_fchown,    SYS_fchownat,  SYS_utimensat,       SYS_unlinkat,
#ifdef SYS_mkdir /* newer architectures have mkdirat() alone */
                SYS_mkdir,
#endif
};
/* What makes a descriptor. */
static const int fault_openers[] = {SYS_openat, SYS_openat2,  SYS_dup,
                                    SYS_fcntl,  SYS_eventfd2, SYS_memfd_create};

static const int fault_linkers[] = {SYS_linkat};

static const struct {
        int error;
        const char *name;
        const int *calls;
        size_t n_calls;
} fault_kinds[_FAULT_MAX] = {
                [FAULT_ENOSPC] = {ENOSPC, "ENOSPC", fault_writers, ELEMENTSOF(fault_writers)},
                [FAULT_EIO] = {EIO, "EIO", fault_writers, ELEMENTSOF(fault_writers)},
                [FAULT_EDQUOT] = {EDQUOT, "EDQUOT", fault_writers, ELEMENTSOF(fault_writers)},
                [FAULT_EMFILE] = {EMFILE, "EMFILE", fault_openers, ELEMENTSOF(fault_openers)},
                [FAULT_EMLINK] = {EMLINK, "EMLINK", fault_linkers, ELEMENTSOF(fault_linkers)},
                [FAULT_KILL] = {0, "SIGKILL", fault_writers, ELEMENTSOF(fault_writers)},
};

typedef int (*FaultFunction)(void *userdata, Error *e);

typedef struct Fault {
        FaultKind kind;
        unsigned step; /* from 1 */
        bool reached;
        int call;   /* its number, if it was reached */
        int result; /* of the function; unless it was killed */
        char message[4096];
} Fault;

typedef struct FaultShared {
        int result;
        char message[4096];
} FaultShared;

/* In the child. */
static bool fault_is_going;

/* Pipes have no disk that is full or broken. */
static inline bool fault_is_of_file(pid_t thread, int fd)
{
        char path[64];
        struct stat st;

        snprintf(path, sizeof(path), "/proc/%d/fd/%d", thread, fd);
        return stat(path, &st) >= 0 && S_ISREG(st.st_mode);
}

/* Programs that it starts have the filter, too, but report in ways of their own. */
static inline bool fault_is_of(pid_t pid, pid_t thread)
{
        char path[64];

        snprintf(path, sizeof(path), "/proc/%d/task/%d", pid, thread);
        return access(path, F_OK) >= 0;
}

/* Whether this call is counted: opening an existing file changes nothing. */
static inline bool fault_counts(const Fault *f, pid_t thread, const struct seccomp_data *d)
{
        if (f->kind == FAULT_EMFILE)
                return d->nr != SYS_fcntl || d->args[1] == F_DUPFD_CLOEXEC;
        if (f->kind != FAULT_KILL && (d->nr == SYS_write || d->nr == SYS_writev))
                return fault_is_of_file(thread, (int) d->args[0]);
        if (d->nr == SYS_openat)
                return d->args[2] & O_CREAT;
        if (d->nr == SYS_openat2)
                return false;
        return d->nr != SYS_unlinkat || f->kind == FAULT_KILL;
}

static inline int fault_install(const int *calls, size_t n)
{
        struct sock_filter code[64] = {
                        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        };
        size_t k = 1;

        for (size_t i = 0; i < n; i++) {
                code[k++] = (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned) calls[i], 0,
                                                          1);
                code[k++] = (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
        }
        code[k++] = (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        const struct sock_fprog program = {.len = (unsigned short) k, .filter = code};
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return -errno;
        long fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
        return fd < 0 ? -errno : (int) fd;
}

static inline void fault_child(const Fault *f, FaultFunction function, void *userdata, int sock,
                               FaultShared *s)
{
        Error e = ERROR_NULL;
        int fd = fault_install(fault_kinds[f->kind].calls, fault_kinds[f->kind].n_calls);

        if (fd < 0 || send_fds(sock, "x", 1, &fd, 1) < 0)
                _exit(77);
        safe_close(fd);
        safe_close(sock);
        fault_is_going = true;
        s->result = function(userdata, &e);
        snprintf(s->message, sizeof(s->message), "%s", e.message ?: "");
        _exit(0);
}

/* Answers until the process is gone. */
static inline int fault_supervise(Fault *f, int listener, pid_t pid)
{
        unsigned n = 0;

        for (;;) {
                struct pollfd p = {.fd = listener, .events = POLLIN};
                struct seccomp_notif call = {};
                struct seccomp_notif_resp answer = {.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};

                if (poll(&p, 1, 60000) <= 0)
                        return -ETIMEDOUT;
                if (!(p.revents & POLLIN))
                        return 0;
                if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) < 0)
                        continue;
                answer.id = call.id;
                if (fault_counts(f, (pid_t) call.pid, &call.data) && fault_is_of(pid, (pid_t) call.pid) &&
                    ++n == f->step) {
                        f->reached = true;
                        f->call = call.data.nr;
                        if (f->kind == FAULT_KILL) {
                                (void) kill(pid, SIGKILL);
                                continue;
                        }
                        answer.flags = 0;
                        answer.error = -fault_kinds[f->kind].error;
                }
                (void) ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
        }
}

static inline int fault_run(Fault *f, FaultFunction function, void *userdata)
{
        FaultShared *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        int socks[2], listener = -EBADF, status = 0;
        size_t n_fds = 0;
        char x;

        if (s == MAP_FAILED || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socks) < 0)
                return -errno;
        pid_t pid = fork();
        if (pid < 0)
                return -errno;
        if (pid == 0)
                fault_child(f, function, userdata, socks[1], s);
        safe_close(socks[1]);
        int r = recv_fds(socks[0], &x, 1, &listener, 1, &n_fds) == 1 && n_fds == 1
                                ? fault_supervise(f, listener, pid)
                                : -ENOSYS;
        if (r < 0)
                (void) kill(pid, SIGKILL);
        safe_close(listener);
        safe_close(socks[0]);
        (void) waitpid(pid, &status, 0);
        f->result = s->result;
        memcpy(f->message, s->message, sizeof(f->message));
        munmap(s, sizeof(*s));
        bool killed = f->reached && f->kind == FAULT_KILL;
        if (r >= 0 && !killed && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
                return -EPROTO; /* crashed */
        return r;
}
