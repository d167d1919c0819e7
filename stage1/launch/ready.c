/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the launcher does beside an app that starts.
 *
 *     launch delay APP first=USEC max=USEC [extend] [orderly]    before it (ExecStartPre=)
 *     launch ready APP [notify] [timeout=USEC …]       after it (ExecStartPost=)
 *
 * The delay grows with every start in a row; systemd has waited for its first part. Doing the rest here
 * works with every version of systemd, and the time that a start may take does not run while we wait:
 * systemd is told so ("extend"). A run that lasted begins the row anew; and so does one that has ended in
 * order ("orderly") where systemd does not follow it up, but a connection does.
 *
 * For systemd the app has started when the second ends, so that units that are ordered after the app wait for
 * it. An app that tells by itself that it is ready ("notify") does so over a socket of the process that runs
 * the pod, which passes it on. Where there is a health check, its first success is waited for.
 */

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "stage1/backoff.h"
#include "stage1/launch/launch.h"

#define EXTRA_USEC UINT64_C(1000000)      /* for systemd to notice that we have ended */
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
                {"extend", offsetof(LaunchNumbers, extend)}, {"tell", offsetof(LaunchNumbers, tell)},
                {"leave", offsetof(LaunchNumbers, leave)},   {"orderly", offsetof(LaunchNumbers, orderly)},
                {"always", offsetof(LaunchNumbers, always)}, {"notify", offsetof(LaunchNumbers, notify)},
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

/* A signal wakes us at once: poll() has them unblocked. Without handlers it would end us, too; but then
 * nobody would say with what status. */
static void wake(int sig) {}

/* Until something happens to one of the N descriptors, or that time is up (UINT64_MAX: never): how many it
 * happened to. -EINTR: one of the signals that end us has come; they are blocked from then on. */
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

/* Whether, within that time, such a signal comes, or the process that MAIN_FD (or -1) stands for ends. */
static bool pause_for(int main_fd, uint64_t usec)
{
        struct pollfd p = {.fd = main_fd, .events = POLLIN};

        return wait_for_events(&p, 1, usec) != 0;
}

/* systemd's own words. Whatever becomes of it: then the start takes too long, and that is told. */
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
        s.row = n->orderly && s.state == APP_ENDED && backoff_ended_well(&s) ? 0 : backoff_row(&s);
        if (s.row > 0)
                delay = backoff_delay(n->first, n->max, s.row) - n->first;
        if (delay > 0 && n->extend)
                extend_start(delay + EXTRA_USEC);
        if (delay > 0 && pause_for(-1, delay))
                return 125;
        s.row++; /* while we waited the record said that a start is due */
        s.begins = true;
        return app_status_write(l->status_fd, l->app, &s) < 0 ? 125 : 0;
}

/* --- After it ------------------------------------------------------------------------------------------ */

/* The cgroup of the unified hierarchy, in a line of its own. In the others a process may be moved on: where the
 * pids controller is one of them, the app has a cgroup of its own there. */
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

/* Whether process PID is where we are, in the cgroup of the app's service. */
static bool is_in_own_cgroup(const char *pid)
{
        _cleanup_free_ char *own = unified_of("self"), *other = unified_of(pid);

        return own && other && streq(own, other);
}

/* systemd says which process is the app's main one; if that ends, there is nothing to wait for. */
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

/* What the app told before it ended has come by then. */
static int ask_now(Launch *l)
{
        _cleanup_close_ int sock = launch_await_begin(l, true);

        return sock < 0 ? sock : launch_await_end(sock);
}

static int await_word(Launch *l)
{
        _cleanup_close_ int main_fd = open_main_process(), sock = -EBADF;

        if (main_fd < 0)
                return ask_now(l);
        sock = launch_await_begin(l, false);
        if (sock < 0)
                return sock;
        struct pollfd p[] = {{.fd = sock, .events = POLLIN}, {.fd = main_fd, .events = POLLIN}};
        int r = wait_for_events(p, ELEMENTSOF(p), UINT64_MAX);
        if (r < 0)
                return r;
        return p[0].revents ? launch_await_end(sock) : ask_now(l);
}

/* A connection that stage0 hung up on for others is made again, as in request.c. */
static int wait_until_told(Launch *l)
{
        int r = -ECONNABORTED;

        for (unsigned i = 0; i < 50 && r == -ECONNABORTED; i++) {
                if (i > 0)
                        (void) usleep(20000);
                r = await_word(l);
        }
        return r;
}

/* For systemd the launcher has started; the app's root is there, and a check can use it, a little later. */
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

/* A failure counts as often as there would be a check if there were no others: those in between are there so
 * that an app that is ready sooner is known to be. */
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
        int r = n->notify ? wait_until_told(l) : 0;

        if (r >= 0 && n->retries > 0)
                r = check_while_starting(l, n);
        if (r >= 0)
                r = record_ready(l);
        /* That it is ready is recorded; telling fails only if the process that runs the pod is gone. */
        if (r >= 0)
                (void) launch_tell(l, LAUNCH_READY);
        return r < 0 ? 125 : 0;
}
