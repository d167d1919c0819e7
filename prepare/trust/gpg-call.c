/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Calls of GPGME that end with their operation.
 *
 * A function of GPGME returns when gpg has closed its pipes, however long that takes: GPGME checks a request to cancel
 * only when gpg writes something, and does not kill gpg, which is not even its child (an intermediate process that
 * ends at once prevents zombies). So a thread watches each call: once the operation has ended, gpg has not responded
 * for too long, or the caller stops the call, it kills gpg, and the call returns.
 *
 * A handler of fork() finds the processes: in every process that the calling thread forks during the call, it opens a
 * pidfd of that process and sends it to the watching thread. A pidfd cannot be mistaken for a later process with the
 * same number. The handler only does system calls, as required after the fork of a process with threads.
 */

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "prepare/trust/trust-internal.h"

#define KILL_INTERVAL_MSEC                                                                                  \
        100 /* SIGTERM first, so that gpg removes its locks; SIGKILL from the second time on */
#define EXIT_TIME_MSEC 1000 /* in which gpg has to exit after the call */
#define FORK_TIME_MSEC 5000 /* in which a forked process has to execute gpg */

/* Valid during a call of this thread. In this model no function of the dynamic linker finds it, which a handler of fork()
 * may not call. */
static _Thread_local int report_fd __attribute__((tls_model("initial-exec"))) = -EBADF;

/* --- Processes that are forked ------------------------------------------------------------------------- */

typedef union PidfdMessage {
        struct cmsghdr header;
        char buffer[CMSG_SPACE(sizeof(int))];
} PidfdMessage;

static void send_own_pidfd(void)
{
        PidfdMessage m = {.header = {.cmsg_level = SOL_SOCKET,
                                     .cmsg_type = SCM_RIGHTS,
                                     .cmsg_len = CMSG_LEN(sizeof(int))}};
        char byte = 0;
        struct iovec iov = {.iov_base = &byte, .iov_len = 1};
        struct msghdr h = {.msg_iov = &iov,
                           .msg_iovlen = 1,
                           .msg_control = m.buffer,
                           .msg_controllen = sizeof(m.buffer)};

        if (report_fd < 0)
                return;
        int fd = (int) syscall(SYS_pidfd_open, getpid(), 0);
        if (fd < 0)
                return;
        memcpy(CMSG_DATA(&m.header), &fd, sizeof(fd));
        (void) sendmsg(report_fd, &h, MSG_NOSIGNAL | MSG_DONTWAIT);
        (void) close(fd);
}

static void add_fork_handler(void)
{
        (void) pthread_atfork(NULL, NULL, send_own_pidfd);
}

static bool ends_within(int pidfd, int msec)
{
        struct pollfd p = {.fd = pidfd, .events = POLLIN};

        return poll(&p, 1, msec) > 0;
}

static void remove_ended(GpgCall *c)
{
        size_t n = 0;

        for (size_t i = 0; i < c->n_processes; i++)
                if (ends_within(c->processes[i], 0))
                        (void) close(c->processes[i]);
                else
                        c->processes[n++] = c->processes[i];
        c->n_processes = n;
}

/* A process that cannot be stored, since no memory is left, is killed: nothing could end it later. */
static void add_process(GpgCall *c, int pidfd)
{
        remove_ended(c);
        if (GREEDY_REALLOC(c->processes, c->n_processes_allocated, c->n_processes + 1) < 0) {
                (void) process_signal(pidfd, SIGKILL);
                (void) close(pidfd);
                return;
        }
        c->processes[c->n_processes++] = pidfd;
}

/* Returns whether no process can send any more. */
static bool receive_processes(GpgCall *c)
{
        for (;;) {
                PidfdMessage m = {};
                char byte;
                struct iovec iov = {.iov_base = &byte, .iov_len = 1};
                struct msghdr h = {.msg_iov = &iov,
                                   .msg_iovlen = 1,
                                   .msg_control = m.buffer,
                                   .msg_controllen = sizeof(m.buffer)};
                int fd;

                ssize_t size = recvmsg(c->receive_fd, &h, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
                if (size <= 0)
                        return size == 0;
                if (!CMSG_FIRSTHDR(&h))
                        continue;
                memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&h)), sizeof(fd));
                add_process(c, fd);
        }
}

static void kill_processes(GpgCall *c)
{
        remove_ended(c);
        for (size_t i = 0; i < c->n_processes; i++)
                (void) process_signal(c->processes[i], c->n_kills > 0 ? SIGKILL : SIGTERM);
        c->n_kills++;
}

/* The call can return before a process that it has forked has sent its pidfd: when the intermediate process was killed.
 * Until it executes gpg, which is later, such a process has the sending end of the socket. */
static void receive_last_processes(GpgCall *c)
{
        struct pollfd p = {.fd = c->receive_fd, .events = POLLIN};

        c->send_fd = safe_close(c->send_fd);
        while (!receive_processes(c) && poll(&p, 1, FORK_TIME_MSEC) > 0)
                ;
}

/* The call can return before gpg does: after an error of its data, and shortly before gpg exits. */
static void end_processes(GpgCall *c)
{
        receive_last_processes(c);
        for (size_t i = 0; i < c->n_processes; i++) {
                if (!ends_within(c->processes[i], c->result < 0 || c->stopped ? 0 : EXIT_TIME_MSEC)) {
                        (void) process_signal(c->processes[i], SIGKILL);
                        (void) ends_within(c->processes[i], EXIT_TIME_MSEC);
                }
                (void) close(c->processes[i]);
        }
        c->n_processes = 0;
}

/* --- The watching thread ------------------------------------------------------------------------------- */

enum {
        COMMAND_NONE,
        COMMAND_STOP, /* end the call */
        COMMAND_END,  /* the call has ended */
};

static void command(GpgCall *c, int what)
{
        __atomic_store_n(&c->command, what, __ATOMIC_RELEASE);
        (void) eventfd_write(c->event_fd, 1);
}

/* Milliseconds until gpg has to respond; -1: no limit. */
static int time_left(const GpgCall *c)
{
        if (c->limit_usec == 0)
                return -1;
        uint64_t now = now_usec(CLOCK_MONOTONIC), since = __atomic_load_n(&c->since_usec, __ATOMIC_ACQUIRE);
        uint64_t passed = since == GPG_CALL_WAITS || since > now ? 0 : now - since;

        return passed >= c->limit_usec ? 0 : (int) ((c->limit_usec - passed) / 1000U + 1);
}

/* Whether the call has to end, and the error that it then has. */
static int check(GpgCall *c, bool woken)
{
        int r = operation_check(c->operation, &c->error);

        if (r < 0)
                return r;
        if (woken) /* cancelled by the process that this one was forked from */
                return error_set(&c->error, -EINTR, "Interrupted");
        if (__atomic_load_n(&c->command, __ATOMIC_ACQUIRE) == COMMAND_STOP)
                return error_set(&c->error, -ECANCELED, "The check was stopped");
        if (time_left(c) != 0)
                return 0;
        r = error_set(&c->error, -ETIMEDOUT, "gpg has not responded for %u seconds, and was ended",
                      (unsigned) (c->limit_usec / 1000000U));
        return error_hint(&c->error, r, "Check that this program works: gpg --version");
}

static void *watch(void *userdata)
{
        GpgCall *c = userdata;

        for (;;) {
                struct pollfd p[] = {{.fd = c->event_fd, .events = POLLIN},
                                     {.fd = c->receive_fd, .events = POLLIN},
                                     {.fd = c->result < 0 ? -EBADF : operation_fd(c->operation),
                                      .events = POLLIN}};
                eventfd_t value;

                if (poll(p, ELEMENTSOF(p), c->result < 0 ? KILL_INTERVAL_MSEC : time_left(c)) < 0)
                        continue; /* EINTR; memory for three descriptors is not lacking for long */
                if (p[0].revents && eventfd_read(c->event_fd, &value) >= 0 &&
                    __atomic_load_n(&c->command, __ATOMIC_ACQUIRE) == COMMAND_END)
                        return NULL;
                if (p[1].revents)
                        (void) receive_processes(c);
                if (c->result >= 0)
                        c->result = check(c, p[2].revents != 0);
                if (c->result < 0)
                        kill_processes(c);
        }
}

/* --- Interface ----------------------------------------------------------------------------------------- */

static int open_descriptors(GpgCall *c)
{
        int sockets[2];

        c->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (c->event_fd < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
                return -errno;
        c->receive_fd = sockets[0];
        c->send_fd = sockets[1];
        return 0;
}

int gpg_call_start(GpgCall *c, const Operation *o, uint64_t limit_usec, Error *e)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;

        *c = GPG_CALL_NULL;
        c->operation = o;
        c->limit_usec = limit_usec;
        c->since_usec = now_usec(CLOCK_MONOTONIC);
        int r = operation_check(o, e);
        if (r < 0)
                return r;
        (void) pthread_once(&once, add_fork_handler);
        r = open_descriptors(c);
        if (r < 0) {
                gpg_call_done(c);
                return error_set_errno(e, r, "Cannot watch gpg");
        }
        r = gpg_thread_start(&c->thread, watch, c, e);
        if (r < 0) {
                gpg_call_done(c);
                return r;
        }
        c->running = true;
        return 0;
}

void gpg_call_enter(GpgCall *c)
{
        report_fd = c->send_fd;
}

void gpg_call_leave(void)
{
        report_fd = -EBADF;
}

void gpg_call_waits(GpgCall *c, bool waits)
{
        uint64_t since = waits ? GPG_CALL_WAITS : now_usec(CLOCK_MONOTONIC);

        __atomic_store_n(&c->since_usec, since, __ATOMIC_RELEASE);
}

void gpg_call_stop(GpgCall *c)
{
        if (!c->running)
                return;
        c->stopped = true;
        command(c, COMMAND_STOP);
}

int gpg_call_finish(GpgCall *c, Error *e)
{
        if (c->running) {
                command(c, COMMAND_END);
                pthread_join(c->thread, NULL);
                c->running = false;
                end_processes(c);
        }
        int r = c->result;
        if (r >= 0)
                return 0;
        r = error_set(e, r, "%s", c->error.message ?: strerror(-r));
        return c->error.hint ? error_hint(e, r, "%s", c->error.hint) : r;
}

void gpg_call_done(GpgCall *c)
{
        (void) gpg_call_finish(c, NULL);
        free(c->processes);
        safe_close(c->event_fd);
        safe_close(c->receive_fd);
        safe_close(c->send_fd);
        error_done(&c->error);
        *c = GPG_CALL_NULL;
}

int gpg_call_begin(GpgCall *c, const Operation *o, Error *e)
{
        int r = gpg_call_start(c, o, GPG_TIME_LIMIT_USEC, e);

        if (r >= 0)
                gpg_call_enter(c);
        return r;
}

int gpg_call_end(GpgCall *c, Error *e)
{
        gpg_call_leave();
        int r = gpg_call_finish(c, e);
        gpg_call_done(c);
        return r;
}
