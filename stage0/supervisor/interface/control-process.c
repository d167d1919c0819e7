/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The process that talks HTTP with an app, from the side of the supervisor.
 *
 * It is unprivileged, outside the pod, and has the listening socket of one app. For each call of the app it makes a pair of sockets,
 * and sends one of them here: what it may do over that is the supervisor's decision. Most apps that could do so never call, so the
 * first connection starts it. If it ends, by a fault or killed, it is started again, at most once a second. */

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "containers/containers.h"
#include "stage0/supervisor/interface/control-api.h"
#include "stage0/supervisor/services/service-user.h"

#define RESTART_INTERVAL_USEC UINT64_C(1000000)

struct ControlProcess {
        Pod *pod;
        sd_event *event;
        sd_event_source *first, *restart, *source;
        void (*connected)(void *userdata, int fd);
        void *userdata;
        int listen_fd, channel;
        pid_t pid;
        uint64_t started_usec;
};

static void stop(ControlProcess *p)
{
        p->source = sd_event_source_disable_unref(p->source);
        p->channel = safe_close(p->channel);
        if (p->pid <= 0)
                return;
        (void) kill(p->pid, SIGKILL);
        while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR)
                ;
        p->pid = 0;
}

static int spawn(ControlProcess *p, int theirs, Error *e)
{
        _cleanup_free_ char *program = NULL, *uid = NULL, *gid = NULL;
        unsigned user = (unsigned) pod_service_user(&p->pod->config);
        sigset_t none;

        int r = helper_program_path(CONTROL_PROGRAM, &program, e);
        if (r < 0)
                return r;
        if (xasprintf(&uid, "--uid=%u", user) < 0 || xasprintf(&gid, "--gid=%u", user) < 0)
                return error_oom(e);
        char *argv[] = {program, uid, gid, NULL};
        sigemptyset(&none);
        return helper_program_spawn(argv, &none, CONTROL_CHANNEL_FD, &theirs, 1, &p->pid, e);
}

/* -EAGAIN: there is nothing to read; -ECONNRESET: the process has ended. */
static int take(ControlProcess *p)
{
        int type = 0, domain = 0;
        socklen_t size = sizeof(int);
        int fd = -EBADF;
        size_t n_fds = 0;
        char byte;

        ssize_t n = recv_fds(p->channel, &byte, 1, &fd, 1, &n_fds);
        if (n <= 0)
                return n == -EAGAIN ? -EAGAIN : -ECONNRESET;
        if (n_fds == 0)
                return -EBADMSG;
        if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0 || type != SOCK_STREAM ||
            getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) < 0 || domain != AF_UNIX) {
                safe_close(fd);
                return -EBADMSG;
        }
        p->connected(p->userdata, fd);
        return 0;
}

static int plan(ControlProcess *p);

static int on_channel(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        ControlProcess *p = userdata;
        int r = take(p);

        if (r >= 0 || r == -EAGAIN)
                return 0;
        log_debug("A process that serves an app of pod %s has ended", pod_display_name(p->pod));
        return plan(p);
}

static int start(ControlProcess *p, Error *e)
{
        _cleanup_close_ int theirs = -EBADF;
        int pair[2];

        p->started_usec = now_usec(CLOCK_MONOTONIC);
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
                return error_set_errno(e, -errno, "Cannot create a socket pair");
        p->channel = pair[0];
        theirs = pair[1];
        int r = spawn(p, theirs, e);
        if (r < 0)
                return r;
        r = send_fds(p->channel, "L", 1, &p->listen_fd, 1);
        if (r >= 0)
                r = sd_event_add_io(p->event, &p->source, p->channel, EPOLLIN, on_channel, p);
        return r < 0 ? error_set_errno(e, r, "Cannot connect to %s", CONTROL_PROGRAM) : 0;
}

static int start_or_plan(ControlProcess *p)
{
        _cleanup_error_ Error e = ERROR_NULL;

        if (start(p, &e) >= 0)
                return 0;
        log_warning("Pod %s: apps cannot launch others: %s", pod_display_name(p->pod),
                    e.message ?: "the service for that cannot be started");
        return plan(p);
}

static int on_restart(sd_event_source *source, uint64_t usec, void *userdata)
{
        return start_or_plan(userdata);
}

static int plan(ControlProcess *p)
{
        uint64_t since = now_usec(CLOCK_MONOTONIC) - p->started_usec;
        uint64_t delay = since < RESTART_INTERVAL_USEC ? RESTART_INTERVAL_USEC - since : 0;

        stop(p);
        p->restart = sd_event_source_disable_unref(p->restart);
        return sd_event_add_time_relative(p->event, &p->restart, CLOCK_MONOTONIC, delay, 0, on_restart, p);
}

static int on_first(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        ControlProcess *p = userdata;

        p->first = sd_event_source_disable_unref(p->first);
        return start_or_plan(p);
}

int control_process_new(Pod *pod, sd_event *event, int listen_fd, void (*connected)(void *userdata, int fd),
                        void *userdata, ControlProcess **ret, Error *e)
{
        ControlProcess *p = malloc(sizeof(ControlProcess));

        if (!p) {
                safe_close(listen_fd);
                return error_oom(e);
        }
        *p = (ControlProcess){.pod = pod,
                              .event = event,
                              .connected = connected,
                              .userdata = userdata,
                              .listen_fd = listen_fd,
                              .channel = -EBADF};
        int r = sd_event_add_io(event, &p->first, listen_fd, EPOLLIN, on_first, p);
        if (r < 0) {
                control_process_free(p);
                return error_set_errno(e, r, "Cannot watch a socket");
        }
        *ret = p;
        return 0;
}

ControlProcess *control_process_free(ControlProcess *p)
{
        if (!p)
                return NULL;
        sd_event_source_disable_unref(p->first);
        sd_event_source_disable_unref(p->restart);
        stop(p);
        safe_close(p->listen_fd);
        free(p);
        return NULL;
}
