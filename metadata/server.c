/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The main loop of the service: one thread that waits for its parent, for SIGTERM, and for the HTTP library.
 *
 * Serving begins as soon as there is a configuration and a listening socket, in any order. If a
 * configuration is refused, the previous one stays in force.
 */

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

#include "metadata/server.h"

#define MESSAGES_PER_TURN 16U

/* Reports a result to the parent. If the parent does not read, the message is lost. */
static void report(MetadataServer *s, MetadataMessageType type, uint64_t serial, int code, const Error *e)
{
        MetadataMessage m = {.type = type, .serial = serial, .code = code};

        if (code < 0)
                (void) snprintf(m.text, sizeof(m.text), "%s", e->message ?: strerror(-code));
        (void) metadata_message_send(s->channel, &m, -EBADF);
}

static int take_config(MetadataServer *s, int fd, Error *e)
{
        _cleanup_(metadata_config_owned_done) MetadataConfigOwned config = {};
        MetadataTables *tables;

        int r = metadata_config_decode(fd, &config, e);
        if (r < 0)
                return r;
        r = metadata_tables_new(&config.config, &tables, e);
        if (r < 0)
                return r;
        metadata_tables_free(s->tables);
        s->tables = tables;
        return 0;
}

static int socket_option(int fd, int option)
{
        int value = -1;
        socklen_t size = sizeof(value);

        return getsockopt(fd, SOL_SOCKET, option, &value, &size) < 0 ? -errno : value;
}

static int take_listener(MetadataServer *s, int *fd, Error *e)
{
        if (s->daemon || s->listen_fd >= 0)
                return error_set(e, -EALREADY, "There already is a listening socket");
        if (socket_option(*fd, SO_ACCEPTCONN) != 1 || socket_option(*fd, SO_TYPE) != SOCK_STREAM)
                return error_set(e, -ENOTSOCK, "The received descriptor is not a listening stream socket");
        int flags = fcntl(*fd, F_GETFL);
        if (flags < 0 || fcntl(*fd, F_SETFL, flags | O_NONBLOCK) < 0)
                return error_set_errno(e, -errno, "Cannot set the listening socket to non-blocking mode");
        s->listen_fd = TAKE_FD(*fd);
        return 0;
}

static void begin_serving(MetadataServer *s)
{
        _cleanup_error_ Error e = ERROR_NULL;

        if (s->daemon || s->listen_fd < 0 || !s->tables)
                return;
        report(s, METADATA_MESSAGE_SERVING, 0, metadata_http_start(s, &e), &e);
}

static void take_message(MetadataServer *s, const MetadataMessage *m, int *fd)
{
        _cleanup_error_ Error e = ERROR_NULL;
        int r;

        switch (m->type) {
        case METADATA_MESSAGE_CONFIG:
                r = take_config(s, *fd, &e);
                report(s, METADATA_MESSAGE_CONFIGURED, m->serial, r, &e);
                break;
        case METADATA_MESSAGE_LISTENER:
                r = take_listener(s, fd, &e);
                if (r < 0)
                        report(s, METADATA_MESSAGE_SERVING, 0, r, &e);
                break;
        case METADATA_MESSAGE_VERDICT:
                metadata_query_answered(s, m->serial, m->code > 0);
                break;
        }
        begin_serving(s);
}

/* 1: continue; 0: the parent has ended. */
static int read_channel(MetadataServer *s)
{
        for (unsigned i = 0; i < MESSAGES_PER_TURN; i++) {
                _cleanup_close_ int fd = -EBADF;
                MetadataMessage m;

                int r = metadata_message_receive(s->channel, &m, &fd);
                if (r == -EAGAIN)
                        return 1;
                if (r <= 0)
                        return r;
                take_message(s, &m, &fd);
        }
        return 1;
}

/* In milliseconds, for poll(); -1: no time-out. Rounded up, so that the loop does not spin. */
static int poll_timeout(const MetadataServer *s, uint64_t next)
{
        MHD_UNSIGNED_LONG_LONG library;
        uint64_t msec = UINT64_MAX;

        if (s->resumed)
                return 0;
        if (next != UINT64_MAX)
                msec = next > s->now ? (next - s->now + 999) / 1000 : 0;
        if (s->daemon && MHD_get_timeout(s->daemon, &library) == MHD_YES)
                msec = MIN(msec, (uint64_t) library);
        return msec == UINT64_MAX ? -1 : (int) MIN(msec, (uint64_t) 60000);
}

/* 1: continue; 0: end. */
static int serve_turn(MetadataServer *s, Error *e)
{
        struct pollfd fds[] = {
                        {.fd = s->channel, .events = POLLIN},
                        {.fd = s->signal_fd, .events = POLLIN},
                        {.fd = s->epoll_fd, .events = POLLIN},
        };

        s->now = now_usec(CLOCK_MONOTONIC);
        uint64_t next = metadata_connections_expire(s);
        uint64_t query_due = metadata_queries_expire(s);
        if (poll(fds, ELEMENTSOF(fds), poll_timeout(s, MIN(next, query_due))) < 0)
                return errno == EINTR ? 1 : error_set_errno(e, -errno, "Cannot wait");
        s->now = now_usec(CLOCK_MONOTONIC);

        if (fds[1].revents)
                return 0;
        if (fds[0].revents) {
                int r = read_channel(s);
                if (r <= 0)
                        return r < 0 ? error_set_errno(e, r, "Cannot read the control channel") : 0;
        }
        s->resumed = false;
        if (s->daemon && MHD_run(s->daemon) != MHD_YES)
                return error_set(e, -EIO, "The HTTP server has failed");
        return 1;
}

static int open_signals(MetadataServer *s, Error *e)
{
        sigset_t mask;

        (void) sigemptyset(&mask);
        (void) sigaddset(&mask, SIGTERM);
        if (sigprocmask(SIG_BLOCK, &mask, NULL) < 0)
                return error_set_errno(e, -errno, "Cannot block signals");
        s->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
        if (s->signal_fd < 0)
                return error_set_errno(e, -errno, "Cannot watch signals");
        (void) signal(SIGPIPE, SIG_IGN);
        return 0;
}

int metadata_serve(int channel, Error *e)
{
        MetadataServer s = {
                        .channel = channel, .signal_fd = -EBADF, .listen_fd = -EBADF, .epoll_fd = -EBADF};

        int r = open_signals(&s, e);
        if (r >= 0)
                r = metadata_http_prepare(&s, e);
        if (r >= 0)
                do
                        r = serve_turn(&s, e);
                while (r > 0);
        metadata_http_stop(&s);
        safe_close(s.signal_fd);
        safe_close(s.listen_fd);
        return r;
}
