/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Delays before an app is restarted, and waiting until it is ready.
 *
 *     launch delay APP [extend]                 before it (ExecStartPre=)
 *     launch ready APP [notify] [timeout=USEC …]  after it (ExecStartPost=)
 *
 * The supervisor says how long the delay is, which grows with every consecutive start; systemd has waited for its
 * first part. Waiting for the rest here works with every version of systemd, and systemd is asked to extend the start
 * time-out meanwhile ("extend").
 *
 * For systemd the app has started when the second command ends, so that units that are ordered after the app
 * wait for it. An app that notifies readiness itself ("notify") does so over a socket of the process that
 * runs the pod, which forwards it. With a health check, the command waits for its first success.
 */

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "stage1/launch/launch.h"

#define EXTRA_USEC                                                                                          \
        UINT64_C(3600000000) /* for a pause of the pod: the time-out would be over when it continues */
#define FIRST_PAUSE_USEC UINT64_C(100000) /* between the first two checks */

/* --- The command line ---------------------------------------------------------------------------------- */

static const struct {
        const char *name;
        size_t offset;
} numbers[] = {
                {"timeout=", offsetof(LaunchNumbers, timeout)},
                {"interval=", offsetof(LaunchNumbers, interval)},
                {"start-period=", offsetof(LaunchNumbers, start_period)},
                {"start-interval=", offsetof(LaunchNumbers, start_interval)},
};

static const struct {
        const char *name;
        size_t offset;
} words[] = {
                {"extend", offsetof(LaunchNumbers, extend)},
                {"notify", offsetof(LaunchNumbers, notify)},
};

static int parse_word(const char *word, LaunchNumbers *n)
{
        const char *pid = startswith(word, "pid=");

        if (pid) {
                n->pid = pid;
                return 0;
        }
        for (size_t i = 0; i < ELEMENTSOF(numbers); i++) {
                const char *value = startswith(word, numbers[i].name);
                if (value)
                        return parse_u64(value, (uint64_t *) ((char *) n + numbers[i].offset));
        }
        for (size_t i = 0; i < ELEMENTSOF(words); i++)
                if (streq(word, words[i].name)) {
                        *(bool *) ((char *) n + words[i].offset) = true;
                        return 0;
                }
        return -EINVAL;
}

int launch_numbers_parse(char *const *arguments, LaunchNumbers *ret)
{
        LaunchNumbers n = {};
        int r = 0;

        for (char *const *word = arguments; r >= 0 && *word; word++)
                r = parse_word(*word, &n);
        if (r >= 0)
                *ret = n;
        return r;
}

/* --- Waiting ------------------------------------------------------------------------------------------- */

void launch_block_signals(sigset_t *set)
{
        sigfillset(set);
        sigdelset(set, SIGCHLD);
        sigdelset(set, SIGCONT);
        (void) sigprocmask(SIG_BLOCK, set, NULL);
}

static bool signal_is_pending(const sigset_t *set)
{
        static const struct timespec none = {};

        return sigtimedwait(set, NULL, &none) > 0;
}

/* A signal interrupts the wait at once: poll() has them unblocked. Without handlers a signal would also end
 * this process, but not with an exit status of its own. */
static void wake(int sig) {}

/* Any signal may be the one by which the app is stopped, but those that end no process by themselves. */
static void catch_signals(const struct sigaction *sa)
{
        for (int s = 1; s < NSIG; s++)
                if (s != SIGCHLD && s != SIGCONT)
                        (void) sigaction(s, sa, NULL);
}

/* Waits for an event of one of the N descriptors, or until the time-out (UINT64_MAX: none); returns the
 * number of descriptors with events. -EINTR: a signal to end this process has arrived; these signals are
 * blocked from then on. */
static int wait_for_events(struct pollfd *p, size_t n, uint64_t usec)
{
        const struct sigaction sa = {.sa_handler = wake};
        struct timespec t = {.tv_sec = (time_t) (usec / 1000000), .tv_nsec = (long) (usec % 1000000 * 1000)};
        sigset_t set, open;

        launch_block_signals(&set);
        catch_signals(&sa);
        if (signal_is_pending(&set))
                return -EINTR;
        sigemptyset(&open);
        int r = ppoll(p, n, usec == UINT64_MAX ? NULL : &t, &open);
        return r < 0 ? -errno : r;
}

/* Whether, within that time, such a signal arrives, or the process that MAIN_FD (or -1) refers to ends. */
static bool pause_for(int main_fd, uint64_t usec)
{
        struct pollfd p = {.fd = main_fd, .events = POLLIN};

        return wait_for_events(&p, 1, usec) != 0;
}

/* Uses systemd's notification protocol. Errors are ignored: the start then times out, which is reported. */
static void extend_start(uint64_t usec)
{
        const char *path = getenv("NOTIFY_SOCKET");
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        _cleanup_close_ int sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        char text[64];

        if (sock < 0 || !path || !path_is_absolute(path) || strlen(path) >= sizeof(address.sun_path))
                return;
        memcpy(address.sun_path, path, strlen(path));
        int n = snprintf(text, sizeof(text), "EXTEND_TIMEOUT_USEC=%llu", (unsigned long long) usec);
        (void) sendto(sock, text, (size_t) n, MSG_NOSIGNAL, (const struct sockaddr *) &address,
                      sizeof(address));
}

/* --- Before a start ------------------------------------------------------------------------------------ */

/* The unit is stopped, and would fail by any other exit status. A fault of this process is one. */
static void stop_delay(int sig, siginfo_t *info, void *context)
{
        if (info->si_code <= 0) /* sent by a process */
                _exit(0);
        (void) signal(sig, SIG_DFL);
        (void) raise(sig);
}

int launch_delay(Launch *l, const LaunchNumbers *n)
{
        const struct sigaction sa = {.sa_sigaction = stop_delay, .sa_flags = SA_SIGINFO};
        LaunchEvent starts = {.kind = LAUNCH_STARTS};
        uint64_t delay = 0;

        catch_signals(&sa); /* the supervisor says that the app waits as soon as it is asked */
        if (launch_ask(l, LAUNCH_DELAY, &delay) < 0)
                return 125;
        if (delay == 0)
                return 0;
        if (n->extend)
                extend_start(delay + EXTRA_USEC);
        if (pause_for(-1, delay)) /* stopped, as above */
                return 0;
        return launch_send_event(l, &starts) < 0 ? 125 : 0;
}

/* --- After it ------------------------------------------------------------------------------------------ */

/* Whether process PID is in the same cgroup as this process, that of the app's service. */
static bool is_in_own_cgroup(const char *pid)
{
        _cleanup_free_ char *own = unified_cgroup("self"), *other = unified_cgroup(pid);

        return own && other && streq(own, other);
}

/* systemd passes the app's main PID; if that process ends, there is nothing to wait for. */
static int open_main_process(void)
{
        const char *text = getenv("MAINPID");
        uint32_t pid;

        if (!text || parse_u32(text, &pid) < 0 || pid == 0)
                return -ESRCH;
        _cleanup_close_ int fd = (int) syscall(SYS_pidfd_open, (pid_t) pid, 0);
        if (fd < 0)
                return -errno;
        return is_in_own_cgroup(text) ? TAKE_FD(fd) : -ESRCH;
}

/* Asks for WHAT until the main process has ended. -ESRCH: it has. */
static int await(Launch *l, LaunchPhase what, int main_fd)
{
        _cleanup_close_ int sock = launch_ask_begin(l, what);

        if (sock < 0)
                return sock;
        struct pollfd p[] = {{.fd = sock, .events = POLLIN}, {.fd = main_fd, .events = POLLIN}};
        int r = wait_for_events(p, ELEMENTSOF(p), UINT64_MAX);
        if (r < 0)
                return r;
        return p[0].revents ? launch_ask_end(sock) : -ESRCH;
}

/* A notification that the app sent before it ended has arrived by then. */
static int await_notification(Launch *l, int main_fd)
{
        int r = main_fd < 0 ? -ESRCH : await(l, LAUNCH_AWAIT_READY, main_fd);

        return r == -ESRCH ? launch_ask(l, LAUNCH_ASK_READY, NULL) : r;
}

/* A connection that the supervisor closed in favour of others is made again, as in request.c. */
static int wait_until_notified(Launch *l)
{
        _cleanup_close_ int main_fd = open_main_process();
        int r = -ECONNABORTED;

        for (unsigned i = 0; i < 50 && r == -ECONNABORTED; i++) {
                if (i > 0)
                        (void) usleep(20000);
                r = await_notification(l, main_fd);
        }
        return r;
}

/* systemd regards the service as started when the launcher runs; the app's root, which a check needs, is set
 * up a little later. */
static int wait_until_runs(Launch *l, int main_fd)
{
        int r = -ECONNABORTED;

        for (unsigned i = 0; i < 50 && r == -ECONNABORTED; i++) {
                if (i > 0)
                        (void) usleep(20000);
                r = await(l, LAUNCH_AWAIT_EXEC, main_fd);
        }
        return r;
}

/* Failures count only at the configured interval: the additional checks in between serve to detect readiness
 * earlier. */
static int wait_until_healthy(Launch *l, const LaunchNumbers *n, int main_fd)
{
        uint64_t begin = now_usec(CLOCK_MONOTONIC), counted = begin, pause = FIRST_PAUSE_USEC;

        for (;;) {
                uint64_t from = MAX(begin + n->start_period, counted + n->interval);
                bool counts = false;
                int r = health_check(l, n->timeout, 0, from, &counts);

                if (r != 0)
                        return MIN(r, 0);
                if (counts)
                        counted = now_usec(CLOCK_MONOTONIC);
                if (pause_for(main_fd, pause))
                        return -EINTR;
                pause = MIN(pause * 2, MIN(n->interval, n->start_interval));
        }
}

static int check_while_starting(Launch *l, const LaunchNumbers *n)
{
        _cleanup_close_ int main_fd = open_main_process();

        if (main_fd < 0)
                return main_fd;
        int r = wait_until_runs(l, main_fd);
        return r < 0 ? r : wait_until_healthy(l, n, main_fd);
}

int launch_ready(Launch *l, const LaunchNumbers *n)
{
        LaunchEvent ready = {.kind = LAUNCH_READY};
        int r = n->notify ? wait_until_notified(l) : 0;

        if (r >= 0 && n->timeout > 0)
                r = check_while_starting(l, n);
        if (r >= 0)
                r = launch_send_event(l, &ready);
        return r < 0 ? 125 : 0;
}
