/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Delays before an app is restarted, and waiting until it is ready.
 *
 *     launch delay APP first=USEC max=USEC [extend] [orderly]    before it (ExecStartPre=)
 *     launch ready APP [notify] [timeout=USEC …]       after it (ExecStartPost=)
 *
 * The delay grows with every consecutive start; systemd has waited for its first part. Waiting for the rest
 * here works with every version of systemd, and systemd is asked to extend the start time-out meanwhile
 * ("extend"). A sufficiently long run resets the count; so does a successful end ("orderly") of an app that
 * is next started by a connection and not restarted by systemd.
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

#include "stage1/backoff.h"
#include "stage1/launch/launch.h"

#define EXTRA_USEC UINT64_C(1000000)      /* for systemd to notice that this process has ended */
#define FIRST_PAUSE_USEC UINT64_C(100000) /* between the first two checks */
#define LOOK_USEC UINT64_C(10000)

/* --- The command line ---------------------------------------------------------------------------------- */

static const struct {
        const char *name;
        size_t offset;
} numbers[] = {
                {"first=", offsetof(LaunchNumbers, first)},
                {"max=", offsetof(LaunchNumbers, max)},
                {"timeout=", offsetof(LaunchNumbers, timeout)},
                {"retries=", offsetof(LaunchNumbers, retries)},
                {"act=", offsetof(LaunchNumbers, act)},
                {"interval=", offsetof(LaunchNumbers, interval)},
                {"start-period=", offsetof(LaunchNumbers, start_period)},
                {"start-interval=", offsetof(LaunchNumbers, start_interval)},
                {"starts=", offsetof(LaunchNumbers, starts)},
};

static const struct {
        const char *name;
        size_t offset;
} words[] = {
                {"extend", offsetof(LaunchNumbers, extend)},   {"tell", offsetof(LaunchNumbers, tell)},
                {"orderly", offsetof(LaunchNumbers, orderly)}, {"always", offsetof(LaunchNumbers, always)},
                {"notify", offsetof(LaunchNumbers, notify)},
};

static int parse_word(const char *word, LaunchNumbers *n)
{
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

/* Waits for an event of one of the N descriptors, or until the time-out (UINT64_MAX: none); returns the
 * number of descriptors with events. -EINTR: a signal to end this process has arrived; these signals are
 * blocked from then on. */
static int wait_for_events(struct pollfd *p, size_t n, uint64_t usec)
{
        const struct sigaction sa = {.sa_handler = wake};
        struct timespec t = {.tv_sec = (time_t) (usec / 1000000), .tv_nsec = (long) (usec % 1000000 * 1000)};
        sigset_t set, open;

        launch_block_signals(&set);
        for (int s = 1; s < NSIG; s++)
                if (s != SIGCHLD && s != SIGCONT)
                        (void) sigaction(s, &sa, NULL);
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

int launch_delay(Launch *l, const LaunchNumbers *n)
{
        _cleanup_app_status_ AppStatus s = {};
        uint64_t delay = 0;

        if (app_status_read(l->status_fd, l->app, &s) < 0)
                s = (AppStatus){.exit_status = -1, .pre_start.exit_status = -1, .post_stop.exit_status = -1};
        s.consecutive_starts = n->orderly && s.state == APP_ENDED && backoff_ended_successfully(&s)
                                               ? 0
                                               : backoff_consecutive_starts(&s);
        if (s.consecutive_starts > 0)
                delay = backoff_delay(n->first, n->max, s.consecutive_starts) - n->first;
        if (delay > 0 && n->extend)
                extend_start(delay + EXTRA_USEC);
        if (delay > 0 && pause_for(-1, delay))
                return 125;
        s.consecutive_starts++; /* only now: during the delay the record shows that the next start is
                                 * pending */
        s.restarting = true;
        return app_status_write(l->status_fd, l->app, &s) < 0 ? 125 : 0;
}

/* --- After it ------------------------------------------------------------------------------------------ */

/* The cgroup in the unified hierarchy, a line of its own. In the other hierarchies a process may be moved:
 * with the pids controller of version 1 the app has a cgroup of its own there. */
static char *unified_of(const char *pid)
{
        _cleanup_free_ char *all = NULL;
        char path[64];

        snprintf(path, sizeof(path), "/proc/%s/cgroup", pid);
        if (read_file_at(AT_FDCWD, path, 65536, &all, NULL) < 0)
                return NULL;
        const char *line = startswith(all, "0::") ? all : strstr(all, "\n0::");
        if (!line)
                return NULL;
        line += *line == '\n';
        return strndup(line, strcspn(line, "\n"));
}

/* Whether process PID is in the same cgroup as this process, that of the app's service. */
static bool is_in_own_cgroup(const char *pid)
{
        _cleanup_free_ char *own = unified_of("self"), *other = unified_of(pid);

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

/* A notification that the app sent before it ended has arrived by then. */
static int query_readiness_now(Launch *l)
{
        _cleanup_close_ int sock = launch_await_begin(l, true);

        return sock < 0 ? sock : launch_await_end(sock);
}

static int await_word(Launch *l)
{
        _cleanup_close_ int main_fd = open_main_process(), sock = -EBADF;

        if (main_fd < 0)
                return query_readiness_now(l);
        sock = launch_await_begin(l, false);
        if (sock < 0)
                return sock;
        struct pollfd p[] = {{.fd = sock, .events = POLLIN}, {.fd = main_fd, .events = POLLIN}};
        int r = wait_for_events(p, ELEMENTSOF(p), UINT64_MAX);
        if (r < 0)
                return r;
        return p[0].revents ? launch_await_end(sock) : query_readiness_now(l);
}

/* A connection that stage0 closed in favour of others is made again, as in request.c. */
static int wait_until_notified(Launch *l)
{
        int r = -ECONNABORTED;

        for (unsigned i = 0; i < 50 && r == -ECONNABORTED; i++) {
                if (i > 0)
                        (void) usleep(20000);
                r = await_word(l);
        }
        return r;
}

/* systemd regards the service as started when the launcher runs; the app's root, which a check needs, is set
 * up a little later. */
static int wait_until_runs(Launch *l, int main_fd)
{
        for (;;) {
                _cleanup_app_status_ AppStatus s = {};
                int r = app_status_read(l->status_fd, l->app, &s);
                if (r < 0 || s.state == APP_RUNNING)
                        return r;
                if (pause_for(main_fd, LOOK_USEC))
                        return -EINTR;
        }
}

/* Failures count only at the configured interval: the additional checks in between serve to detect readiness
 * earlier. */
static int wait_until_healthy(Launch *l, const LaunchNumbers *n, int main_fd, HealthStatus *h)
{
        uint64_t begin = now_usec(CLOCK_MONOTONIC), counted = begin, pause = FIRST_PAUSE_USEC;

        for (;;) {
                int r = health_check(l, n->timeout, h);
                uint64_t now = now_usec(CLOCK_MONOTONIC);
                if (r < 0)
                        return r;
                if (r > 0)
                        break;
                if (now - begin >= n->start_period && now - counted >= n->interval) {
                        counted = now;
                        r = health_count(l, n, h);
                } else
                        r = health_status_write(l->status_fd, l->app, h);
                if (r < 0)
                        return r;
                if (pause_for(main_fd, pause))
                        return -EINTR;
                pause = MIN(pause * 2, MIN(n->interval, n->start_interval));
        }
        h->state = HEALTH_HEALTHY;
        h->failures = 0;
        return health_status_write(l->status_fd, l->app, h);
}

static int check_while_starting(Launch *l, const LaunchNumbers *n)
{
        _cleanup_health_status_ HealthStatus h = {.last.exit_status = -1};
        _cleanup_close_ int main_fd = open_main_process();

        if (main_fd < 0)
                return main_fd;
        int r = health_status_write(l->status_fd, l->app, &h);
        if (r >= 0)
                r = wait_until_runs(l, main_fd);
        return r < 0 ? r : wait_until_healthy(l, n, main_fd, &h);
}

int launch_ready(Launch *l, const LaunchNumbers *n)
{
        int r = n->notify ? wait_until_notified(l) : 0;

        if (r >= 0 && n->retries > 0)
                r = check_while_starting(l, n);
        if (r >= 0)
                r = record_ready(l);
        /* Readiness is recorded; the notification fails only if the process that runs the pod has ended. */
        if (r >= 0)
                (void) launch_send_notice(l, LAUNCH_READY);
        return r < 0 ? 125 : 0;
}
