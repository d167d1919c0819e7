/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The sockets by which apps tell that they are ready.
 *
 * Each app has one of its own, so that a message is known to be the app's, whichever of its processes sent
 * it and even if that process has ended. systemd's own socket, which all would share, has to find out the
 * unit from the sender's number: it drops messages of processes that have ended since, and accepts fields
 * that an app must not set (see notice.c).
 *
 * Readiness is passed to the launcher that runs as the unit's ExecStartPost= and waits for it. A status text
 * and a request for more time are passed on to the pod's systemd in the name of the app's main process,
 * which is held by a descriptor; they are lost if systemd's socket is full.
 *
 * An app may name another of its processes as its main one (MAINPID=). systemd 252 knows processes by their
 * numbers, and a number is a process's only until the parent has reaped it: were the parent another process
 * of the app, systemd would signal whichever process has the number by then, and would not learn of the end.
 * So the process has to be a child of the pod's systemd (its parent has ended), as that of a daemon that
 * forks twice is; it has to be in the app's own service, and no launcher. All of that is checked on a
 * descriptor of the process; and as the message is passed on as one of an unprivileged user, systemd checks
 * again that the process belongs to the service. The first process may end once the message was passed on:
 * descriptors that come with a message are closed then, which is what sd_notify_barrier(3) waits for. When
 * it has ended before, the message can come from the launcher that waits for the app to be ready, which
 * systemd accepts in place of it.
 *
 * A call that stops an app may give it more time than its unit allows. The unit cannot be changed while it runs, so the
 * supervisor sends EXTEND_TIMEOUT_USEC in the name of the main process, or of the launcher that waits for the handler. A unit has one timer
 * in systemd: of its start (for each command anew), of its run time, or of its stop. It also runs while the pod is paused, and would have
 * the pod's systemd kill the app as soon as both continue. So the supervisor sends the time that is left while they are frozen: systemd reads
 * its socket before it looks at its timers. For the same reason it is sent again when the connection to systemd ends: one that executes itself
 * again computes all time-outs anew, without extensions, but keeps that socket.
 *
 * An app that sends too many messages is not read from for the rest of the second. */

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "schema/settings.h"
#include "stage0/supervisor/apps/app-life.h"
#include "stage0/supervisor/launchers/notice.h"
#include "stage0/supervisor/launchers/notices.h"

#define EXTEND_MAX_USEC (UINT64_C(365) * 24 * 3600 * 1000000)
#define STOP_MARGIN_USEC                                                                                    \
        UINT64_C(5000000) /* systemd kills the app this long after the process that waits for the stop */
#define GRACE_USEC UINT64_C(1000000) /* the least time that a start or a stop has left after a pause */
#define DELAY_MARGIN_USEC                                                                                   \
        UINT64_C(5000000) /* for the launcher that waits before a restart, beyond the delay */
#define WINDOW_USEC UINT64_C(1000000)
#define WINDOW_MAX 200U     /* messages that are read of an app per second */
#define WINDOW_MAIN_PIDS 4U /* requests that are processed; each looks at all processes of the app */
#define NOBODY 65534U

typedef struct AppNotices AppNotices;

struct AppNotices {
        Notices *all;
        AppInstance *app;
        int fd; /* the app's socket, or -EBADF */
        sd_event_source *source, *pause;
        uint64_t window_usec; /* when the second began in which N messages came */
        unsigned n, n_main_pids;
        bool warned;           /* a refused main process was reported, in this execution */
        uint64_t extend_until; /* a time-out that is not passed on yet, or 0 */
        uint64_t stop_until; /* when the call that stops the app kills it, or how long the app asks to have for its stop; or 0 */
        uint64_t asked_until; /* when the time-out of a stop is over that is not reported yet; or 0 */
        /* When the time-out is over that its unit has while it does this; UINT64_MAX: it has none. */
        uint64_t unit_until[_UNIT_ACTIVITY_MAX];
        UnitActivity activity; /* as systemd has reported */
        bool ready;
        int waiting_fd; /* connection of the launcher that waits, or -EBADF */
        int asking_fd;  /* lent: that of a launcher whose request is being handled, or -EBADF */
        void (*answer)(int sock);
};

struct Notices {
        Pod *pod;
        sd_event *event;
        Admission *admission;
        pid_t leader;
        AppTable *apps;
        uint64_t frozen_usec; /* since when the processes of the pod are frozen; 0: they are not */
};

Notices *notices_free(Notices *n)
{
        if (!n)
                return NULL;
        FOREACH_APP(app, n->apps)
        notices_remove_app(app);
        free(n);
        return NULL;
}

int notices_add_app(Notices *n, AppInstance *app)
{
        app->notices = malloc(sizeof(AppNotices));
        if (!app->notices)
                return -ENOMEM;
        *app->notices = (AppNotices){.all = n,
                                     .app = app,
                                     .unit_until = {UINT64_MAX, UINT64_MAX, UINT64_MAX},
                                     .fd = -EBADF,
                                     .waiting_fd = -EBADF,
                                     .asking_fd = -EBADF};
        return 0;
}

void notices_remove_app(AppInstance *app)
{
        AppNotices *a = app->notices;

        if (!a)
                return;
        sd_event_source_disable_unref(a->source);
        sd_event_source_disable_unref(a->pause);
        safe_close(a->fd);
        safe_close(a->waiting_fd);
        app->notices = (free(a), NULL);
}

int notices_new(Pod *p, AppTable *apps, sd_event *event, Admission *admission, Notices **ret, Error *e)
{
        _cleanup_(notices_freep) Notices *n = calloc(1, sizeof(Notices));

        if (!n)
                return error_oom(e);
        *n = (Notices){.pod = p, .apps = apps, .event = event, .admission = admission};
        FOREACH_APP(app, apps)
        if (notices_add_app(n, app) < 0)
                return error_oom(e);
        *ret = TAKE_PTR(n);
        return 0;
}

void notices_set_leader(Notices *n, pid_t leader)
{
        n->leader = leader;
}

/* --- To the pod's systemd ------------------------------------------------------------------------------ */

/* The address of its socket, which lies in a root that is the pod's. */
static int open_systemd(const Notices *n)
{
        _cleanup_close_ int root = -EBADF;
        char path[64];

        snprintf(path, sizeof(path), "/proc/%d/root", (int) n->leader);
        root = n->leader > 0 ? open(path, O_PATH | O_DIRECTORY | O_CLOEXEC) : -EBADF;
        return root < 0 ? -ESRCH : open_in_root(root, "run/systemd/notify", O_PATH);
}

static int send_as(int sock, int target, const struct ucred *sender, char *text)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        struct iovec v = {.iov_base = text, .iov_len = strlen(text)};
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(*sender))];
        } control = {.header = {.cmsg_len = CMSG_LEN(sizeof(*sender)),
                                .cmsg_level = SOL_SOCKET,
                                .cmsg_type = SCM_CREDENTIALS}};
        struct msghdr m = {.msg_name = &address,
                           .msg_namelen = sizeof(address),
                           .msg_iov = &v,
                           .msg_iovlen = 1,
                           .msg_control = &control,
                           .msg_controllen = sizeof(control)};

        snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d", target);
        memcpy(CMSG_DATA(&control.header), sender, sizeof(*sender));
        return sendmsg(sock, &m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static int tell_systemd(Notices *n, const struct ucred *sender, char *text)
{
        _cleanup_close_ int target = open_systemd(n), sock = -EBADF;

        if (target < 0)
                return target;
        sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        return sock < 0 ? -errno : send_as(sock, target, sender, text);
}

static void pass_on(AppNotices *a, const char *name, const char *value)
{
        struct ucred sender = {.uid = pod_root_uid(a->all->pod), .gid = pod_root_uid(a->all->pod)};
        char text[NOTICE_SIZE_MAX + 64];

        snprintf(text, sizeof(text), "%s=%s", name, value);
        /* As long as the descriptor of the main process is open, its number is not reused. */
        int r = admission_awaited_process(a->app, &sender.pid);
        if (r >= 0)
                r = tell_systemd(a->all, &sender, text);
        if (r < 0)
                log_debug("A message of app %s is not passed on to the pod's systemd: %s", a->app->name,
                          strerror(-r));
}

/* What the timer of the unit is for. What systemd does by now may not have been reported yet. */
static UnitActivity find_activity(const AppNotices *a)
{
        return app_is_ending(a->app) || admission_runs_post_stop(a->app) ? UNIT_STOPS
                                                                         : a->app->units[0].activity;
}

static void keep_extension(AppNotices *a, uint64_t until)
{
        UnitActivity activity = find_activity(a);
        uint64_t *kept = activity == UNIT_STOPS ? &a->stop_until : &a->unit_until[activity];

        *kept = MAX(*kept, until);
}

/* systemd has two timers for the start: one for exec(), which the app is past, and one for the launcher that
 * waits. The request is for the second, so it is kept until that launcher has connected. */
static void extend(AppNotices *a)
{
        uint64_t now = now_usec(CLOCK_MONOTONIC);
        char value[24];

        if ((!a->ready && a->waiting_fd < 0) || a->extend_until <= now)
                return;
        snprintf(value, sizeof(value), "%" PRIu64, a->extend_until - now);
        keep_extension(a, a->extend_until);
        a->extend_until = 0;
        pass_on(a, "EXTEND_TIMEOUT_USEC", value);
}

/* --- Time to start, and to stop ------------------------------------------------------------------------ */

static void send_extension(AppNotices *a, uint64_t usec)
{
        char value[24];

        snprintf(value, sizeof(value), "%" PRIu64, usec);
        pass_on(a, "EXTEND_TIMEOUT_USEC", value);
}

static uint64_t stop_deadline(const AppNotices *a)
{
        return deadline_after(a->app->settings.stop_timeout_usec ?: a->all->pod->config.stop_timeout_usec);
}

/* When the time-out of the unit, which is up, is over; UINT64_MAX: it has none. */
static uint64_t find_timeout(AppNotices *a)
{
        UnitActivity activity = find_activity(a);

        if (activity != UNIT_STOPS)
                return a->unit_until[activity];
        bool begun = a->activity == UNIT_STOPS || admission_runs_post_stop(a->app);
        if (!begun && a->asked_until == 0)
                a->asked_until = stop_deadline(a);
        return MAX(a->stop_until, begun ? a->unit_until[UNIT_STOPS] : a->asked_until);
}

/* The pod is frozen: the time counts from when systemd reads the message, which is when it continues. */
static void extend_frozen(AppNotices *a)
{
        uint64_t now = a->all->frozen_usec;

        if (a->app->units[0].life != UNIT_UP)
                return;
        uint64_t until = find_timeout(a);
        if (until != UINT64_MAX)
                send_extension(a, MAX(until, now + GRACE_USEC) - now);
}

/* No app gets more time by that, however often; one that is asked to stop gets its stop time-out once more at most. The pod's systemd
 * may be there again before a supervisor that is stopped has sent this: it uses its own time-outs then. */
void notices_extend_again(Notices *n)
{
        uint64_t now = now_usec(CLOCK_MONOTONIC);

        FOREACH_APP(app, n->apps)
        {
                bool is_up = app->notices && app->units[0].life == UNIT_UP;
                uint64_t until = is_up ? find_timeout(app->notices) : UINT64_MAX;
                if (until != UINT64_MAX && until > now)
                        send_extension(app->notices, until - now);
        }
}

/* The stop of the unit has begun, or a call gives the app more time for it. */
static void extend_stop(AppNotices *a)
{
        uint64_t now = now_usec(CLOCK_MONOTONIC);

        if (a->all->frozen_usec > 0)
                extend_frozen(a);
        else if (a->activity == UNIT_STOPS && a->stop_until > now)
                send_extension(a, a->stop_until - now);
}

void notices_set_frozen(Notices *n, bool frozen)
{
        uint64_t now = now_usec(CLOCK_MONOTONIC), passed = n->frozen_usec > 0 ? now - n->frozen_usec : 0;

        n->frozen_usec = frozen ? now : 0;
        FOREACH_APP(app, n->apps)
        {
                AppNotices *a = app->notices;
                if (!a)
                        continue;
                a->stop_until += a->stop_until > 0 ? passed : 0;
                a->asked_until += a->asked_until > 0 && a->asked_until < UINT64_MAX ? passed : 0;
                for (size_t i = 0; i < ELEMENTSOF(a->unit_until); i++)
                        a->unit_until[i] += a->unit_until[i] < UINT64_MAX ? passed : 0;
                if (frozen)
                        extend_frozen(a);
        }
}

void notices_extend_stop(AppInstance *app, uint64_t usec)
{
        uint64_t until = now_usec(CLOCK_MONOTONIC) + MIN(usec, EXTEND_MAX_USEC) + STOP_MARGIN_USEC;

        FOREACH_APP(x, app->table)
        if (x->notices && app_is_up(x) && (x == app || nested_is_below(x->name, app->name))) {
                x->notices->stop_until = MAX(x->notices->stop_until, until);
                extend_stop(x->notices);
        }
}

/* The time-out of the unit for what it does from now on. */
static void begin_activity(AppNotices *a, UnitActivity activity)
{
        const AppSettings *s = &a->app->settings;

        a->unit_until[activity] = activity == UNIT_STARTS ? deadline_after(s->start_timeout_usec)
                                  : activity == UNIT_RUNS ? deadline_after(s->max_runtime_usec ?: UINT64_MAX)
                                                          : stop_deadline(a);
}

/* The launcher that waits asks for more time itself, if its unit allows less. */
static void begin_delay(AppNotices *a)
{
        begin_activity(a, UNIT_STARTS);
        a->unit_until[UNIT_STARTS] = MAX(a->unit_until[UNIT_STARTS],
                                         deadline_after(app_life_delay(a->app) + DELAY_MARGIN_USEC));
}

void notices_begin_phase(AppInstance *app, LaunchPhase phase)
{
        if (phase == LAUNCH_DELAY)
                begin_delay(app->notices);
        if (phase == LAUNCH_PRE_START || phase == LAUNCH_MAIN)
                begin_activity(app->notices, UNIT_STARTS);
        if (phase == LAUNCH_MAIN)
                begin_activity(app->notices, UNIT_RUNS);
        if (phase == LAUNCH_POST_STOP)
                begin_activity(app->notices, UNIT_STOPS);
}

void notices_set_activity(AppInstance *app, UnitLife life, UnitActivity activity)
{
        AppNotices *a = app->notices;

        if (!a) /* the app is being removed */
                return;
        bool stopping = life == UNIT_UP && activity == UNIT_STOPS, stopped = a->activity == UNIT_STOPS;
        /* If the unit was down when systemd reported it, only the end of the stop is reported. */
        if (!stopping && (stopped || life != UNIT_UP))
                a->stop_until = a->asked_until = 0;
        if (life == UNIT_UP && activity != UNIT_STARTS && a->activity != activity)
                begin_activity(a, activity);
        a->activity = life == UNIT_UP ? activity : UNIT_STARTS;
        if (stopping)
                extend_stop(a);
}

/* --- Another main process ------------------------------------------------------------------------------ */

/* The process at the other end of SOCK, as long as that is open. */
static int peer_of(int sock, pid_t *ret)
{
        struct pollfd p = {.fd = sock};
        struct ucred peer;
        socklen_t n = sizeof(peer);

        if (sock < 0 || poll(&p, 1, 0) != 0 || getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0)
                return -ESRCH;
        *ret = peer.pid;
        return 0;
}

/* The sender that systemd accepts it from: the main process, or the launcher that the unit waits for. */
static int find_sender(const AppNotices *a, pid_t *ret)
{
        if (admission_main_process(a->app, ret) >= 0)
                return 0;
        return peer_of(a->asking_fd >= 0 ? a->asking_fd : a->waiting_fd, ret);
}

/* With an unprivileged uid: systemd accepts any PID from root without a check. */
static int tell_main_process(AppNotices *a, uint32_t number)
{
        uid_t nobody = a->all->pod->config.private_users ? pod_root_uid(a->all->pod) + NOBODY : NOBODY;
        struct ucred sender = {.uid = nobody, .gid = nobody};
        char text[32];

        snprintf(text, sizeof(text), "MAINPID=%" PRIu32, number);
        int r = find_sender(a, &sender.pid);
        return r < 0 ? r : tell_systemd(a->all, &sender, text);
}

/* In another pid namespace than the pod's no process but the main one is a child of the pod's systemd. */
static int check_main_process(const AppNotices *a, uint32_t number)
{
        uint32_t own;
        pid_t pid;

        int r = admission_main_process(a->app, &pid);
        if (r >= 0)
                r = process_innermost_number(pid, &own);
        return r < 0 ? r : own == number ? 0 : -EXDEV;
}

static int set_main_process(AppNotices *a, uint32_t number)
{
        Notices *n = a->all;
        pid_t pid, current;

        if (a->app->settings.pid.mode != PID_POD)
                return check_main_process(a, number);
        if (number <= 1)
                return -EPERM;
        _cleanup_close_ int fd = pod_app_open_process(n->pod, a->app->name, n->leader, number, &pid);
        if (fd < 0)
                return fd;
        if (admission_main_process(a->app, &current) >= 0 && current == pid)
                return 0;
        int r = admission_may_be_main_process(n->admission, pid);
        if (r >= 0)
                r = tell_main_process(a, number);
        return r < 0 ? r : admission_set_main_process(n->admission, a->app, pid, fd);
}

static const char *refusal(int code)
{
        return code == -ECHILD ? "its parent is still there, which systemd would have to be (a daemon forks "
                                 "twice)"
               : code == -ESRCH ? "it is no process of the app, or the app has ended"
               : code == -EPERM ? "it belongs to the pod"
               : code == -EXDEV
                               ? "the app is in another pid namespace than the pod, where the first process stays it"
               : code == -EBUSY ? "too many were named within a second"
                                : strerror(-code);
}

static void take_main_process(AppNotices *a, uint32_t number)
{
        int r = ++a->n_main_pids > WINDOW_MAIN_PIDS ? -EBUSY : set_main_process(a, number);

        if (r >= 0)
                return;
        if (a->warned)
                log_debug("App %s names process %" PRIu32 " as its main one: %s", a->app->name, number,
                          refusal(r));
        else
                log_warning("App %s names process %" PRIu32 " as its main process, which is refused: %s.",
                            a->app->name, number, refusal(r));
        a->warned = true;
}

/* --- From the app -------------------------------------------------------------------------------------- */

static void set_ready(AppNotices *a)
{
        a->ready = true;
        if (a->waiting_fd >= 0)
                a->answer(a->waiting_fd);
        a->waiting_fd = safe_close(a->waiting_fd);
}

static void take_notice(AppNotices *a, const Notice *notice)
{
        if (notice->main_pid > 0)
                take_main_process(a, notice->main_pid);
        if (notice->extend_usec > 0) {
                a->extend_until = now_usec(CLOCK_MONOTONIC) + MIN(notice->extend_usec, EXTEND_MAX_USEC);
                extend(a);
        }
        if (notice->status)
                pass_on(a, "STATUS", notice->status);
        if (notice->ready)
                set_ready(a);
}

/* The message is only peeked at, so that it stays in the queue, with its descriptors (a barrier, above all),
 * until it is handled. When it is taken out there is no room for descriptors, and the kernel closes them. 0:
 * there is no message. */
static int receive(AppNotices *a)
{
        char text[NOTICE_SIZE_MAX + 2];
        Notice notice;

        ssize_t n = recv(a->fd, text, NOTICE_SIZE_MAX + 1, MSG_PEEK | MSG_DONTWAIT);
        if (n < 0)
                return 0;
        if (notice_parse(text, (size_t) n, &notice) >= 0)
                take_notice(a, &notice);
        (void) recv(a->fd, text, 1, MSG_DONTWAIT);
        return 1;
}

/* Only messages received so far: the kernel limits their number. */
static void receive_all(AppNotices *a)
{
        for (unsigned i = 0; a->fd >= 0 && i < 4096 && receive(a) > 0; i++)
                ;
}

static int on_pause_end(sd_event_source *source, uint64_t usec, void *userdata)
{
        AppNotices *a = userdata;

        (void) sd_event_source_set_enabled(a->source, SD_EVENT_ON);
        return 0;
}

static int pause_for(AppNotices *a, uint64_t usec)
{
        a->pause = sd_event_source_disable_unref(a->pause);
        int r = sd_event_add_time_relative(a->all->event, &a->pause, CLOCK_MONOTONIC, usec, 0, on_pause_end,
                                           a);
        return r < 0 ? r : sd_event_source_set_enabled(a->source, SD_EVENT_OFF);
}

static int on_message(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        AppNotices *a = userdata;
        uint64_t now = now_usec(CLOCK_MONOTONIC);

        if (now - a->window_usec >= WINDOW_USEC) {
                a->window_usec = now;
                a->n = a->n_main_pids = 0;
        }
        (void) receive(a);
        if (++a->n >= WINDOW_MAX)
                (void) pause_for(a, a->window_usec + WINDOW_USEC - now);
        return 0;
}

static int open_socket(AppNotices *a, PodMounts *m)
{
        _cleanup_close_ int fd = pod_mounts_open_notify(m, a->app->manifest);

        if (fd < 0)
                return fd;
        int r = sd_event_add_io(a->all->event, &a->source, fd, EPOLLIN, on_message, a);
        if (r >= 0)
                a->fd = TAKE_FD(fd);
        return r;
}

/* --- Executions ---------------------------------------------------------------------------------------- */

int notices_begin(PodMounts *m, AppInstance *app, int *ret_fd, Error *e)
{
        AppNotices *a = app->notices;
        char byte;

        if (!app->settings.notify)
                return 0;
        int r = a->fd < 0 ? open_socket(a, m) : 0;
        while (a->fd >= 0 && recv(a->fd, &byte, 1, MSG_DONTWAIT) >= 0)
                ; /* of an earlier execution; none of its processes is left */
        a->ready = a->warned = false;
        a->extend_until = 0;
        if (r >= 0)
                r = pod_mounts_clone_notify(m, app->manifest);
        if (r < 0)
                return error_set_errno(e, r, "Cannot create the readiness socket of app %s", app->name);
        *ret_fd = r;
        return 1;
}

void notices_end(AppInstance *app)
{
        AppNotices *a = app->notices;

        a->waiting_fd = safe_close(a->waiting_fd);
        a->ready = false;
}

bool notices_is_ready(AppInstance *app)
{
        AppNotices *a = app->notices;

        if (!a)
                return false;
        receive_all(a);
        return a->ready;
}

int notices_await(AppInstance *app, int sock, bool wait, void (*answer)(int sock))
{
        AppNotices *a = app->notices;

        a->asking_fd = sock;
        receive_all(a);
        a->asking_fd = -EBADF;
        if (a->ready || !wait)
                return a->ready;
        safe_close(a->waiting_fd);
        a->waiting_fd = fcntl(sock, F_DUPFD_CLOEXEC, 3);
        a->answer = answer;
        if (a->waiting_fd < 0)
                return -errno;
        extend(a);
        return 0;
}
