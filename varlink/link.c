/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A connection: messages in and out of a non-blocking socket, with their descriptors.
 *
 * Descriptors are sent with the first byte of their message, in a sendmsg() of its own. The kernel ends a
 * recvmsg() behind the data that it has descriptors of; so what arrives together belongs to the message that
 * the last byte read is of.
 *
 * Nothing is read while there is a complete message: the rest waits in the socket, and then in the peer. In
 * the event loop the source "work" dispatches one message at a time, so that connections take turns. Only
 * there a connection ends, whatever the reason: functions that callers use mark it as broken.
 */

#include <poll.h>
#include <sys/epoll.h>

#include "varlink/varlink-internal.h"

#define READ_SIZE 65536U

/* --- Descriptors --------------------------------------------------------------------------------------- */

void varlink_fds_done(VarlinkFds *f)
{
        for (size_t i = 0; i < f->n; i++)
                safe_close(f->fds[i]);
        f->n = 0;
}

int varlink_fds_push(VarlinkFds *f, int fd)
{
        if (fd < 0)
                return -EBADF;
        if (f->n == VARLINK_FDS_MAX) {
                safe_close(fd);
                return -E2BIG;
        }
        f->fds[f->n++] = fd;
        return 0;
}

int varlink_fds_take(VarlinkFds *f, size_t i)
{
        return i >= f->n || f->fds[i] < 0 ? -ENXIO : TAKE_FD(f->fds[i]);
}

/* --- Beginning and end --------------------------------------------------------------------------------- */

int link_init(Link *l, int fd, const VarlinkLimits *limits)
{
        int flags = fcntl(fd, F_GETFL);

        *l = (Link){.fd = fd, .limits = limits ? *limits : (VarlinkLimits){}, .out_end = &l->out};
        l->limits.message_size = MIN(l->limits.message_size ?: 1024U * 1024U, MANIFEST_SIZE_MAX);
        l->limits.depth = l->limits.depth ?: 32;
        l->limits.n_values = l->limits.n_values ?: 65536;
        l->limits.queue_size = MAX(l->limits.queue_size ?: 2U * 1024U * 1024U, l->limits.message_size + 1);
        l->limits.queue_length = l->limits.queue_length ?: 256;
        l->limits.message_usec = l->limits.message_usec ?: 30U * 1000000U;
        if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) {
                int r = -errno;
                link_done(l);
                return r;
        }
        return 0;
}

/* The first message of the queue. */
static void drop_message(Link *l)
{
        LinkMessage *m = l->out;

        l->out = m->next;
        if (!l->out)
                l->out_end = &l->out;
        l->out_size -= m->size;
        l->out_length--;
        varlink_fds_done(&m->fds);
        free(m->text);
        free(m);
}

static void drop_input(Link *l)
{
        for (size_t i = 0; i < l->n_arrived; i++)
                safe_close(l->arrived[i].fd);
        l->in = (free(l->in), NULL);
        l->begin = l->scanned = l->end = l->allocated = l->n_arrived = 0;
}

void link_done(Link *l)
{
        if (l->io) { /* without an event loop libsystemd is not needed */
                l->io = sd_event_source_disable_unref(l->io);
                l->timer = sd_event_source_disable_unref(l->timer);
                l->work = sd_event_source_disable_unref(l->work);
        }
        while (l->out)
                drop_message(l);
        drop_input(l);
        l->fd = safe_close(l->fd);
}

/* --- In ------------------------------------------------------------------------------------------------ */

static bool is_complete(Link *l)
{
        char *nul = l->end > l->scanned ? memchr(l->in + l->scanned, 0, l->end - l->scanned) : NULL;

        l->scanned = nul ? (size_t) (nul - l->in) : l->end;
        return nul;
}

int link_receive(Link *l)
{
        int fds[VARLINK_FDS_MAX + 1];
        size_t n_fds = 0;

        if (l->begin > 0) {
                memmove(l->in, l->in + l->begin, l->end - l->begin);
                for (size_t i = 0; i < l->n_arrived; i++)
                        l->arrived[i].at -= l->begin;
                l->end -= l->begin;
                l->scanned -= l->begin;
                l->begin = 0;
        }
        int r = GREEDY_REALLOC(l->in, l->allocated, l->end + READ_SIZE);
        if (r < 0)
                return r;
        ssize_t n = recv_fds(l->fd, l->in + l->end, READ_SIZE, fds, ELEMENTSOF(fds), &n_fds);
        if (n <= 0)
                return (int) n;
        l->end += (size_t) n;
        for (size_t i = 0; i < n_fds; i++) {
                if (l->n_arrived == ELEMENTSOF(l->arrived)) {
                        safe_close(fds[i]);
                        r = -E2BIG;
                        continue;
                }
                l->arrived[l->n_arrived].fd = fds[i];
                l->arrived[l->n_arrived++].at = l->end - 1;
        }
        return r < 0 ? r : 1;
}

/* The descriptors of the message that ends before END. */
static int take_fds(Link *l, size_t end, VarlinkFds *ret)
{
        size_t kept = 0;
        int r = 0;

        for (size_t i = 0; i < l->n_arrived; i++) {
                if (l->arrived[i].at >= end)
                        l->arrived[kept++] = l->arrived[i];
                else if (varlink_fds_push(ret, l->arrived[i].fd) < 0)
                        r = -E2BIG;
        }
        l->n_arrived = kept;
        return r;
}

int link_take(Link *l, json_object **ret, VarlinkFds *ret_fds)
{
        _cleanup_json_ json_object *o = NULL;
        bool complete = is_complete(l);
        size_t size = l->scanned - l->begin;

        if (size > l->limits.message_size)
                return -EMSGSIZE;
        if (!complete)
                return 0;
        int r = json_parse_bounded(l->in + l->begin, size, l->limits.depth, l->limits.n_values, &o, NULL,
                                   NULL);
        if (r < 0)
                return r;
        if (!json_object_is_type(o, json_type_object))
                return -EBADMSG;
        r = take_fds(l, l->scanned + 1, ret_fds);
        if (r < 0) {
                varlink_fds_done(ret_fds);
                return r;
        }
        l->begin = ++l->scanned;
        if (l->begin == l->end)
                drop_input(l);
        l->timed = false;
        *ret = TAKE_PTR(o);
        return 1;
}

int message_read(json_object *message, const MessageField *fields, size_t n)
{
        json_object_object_foreach (message, key, value) {
                const MessageField *f = fields, *end = fields + n;
                while (f < end && !streq(f->key, key))
                        f++;
                if (f == end || (value && !json_object_is_type(value, f->type)))
                        return -EBADMSG;
                if (!value)
                        continue;
                if (f->type == json_type_boolean)
                        *(bool *) f->target = json_object_get_boolean(value);
                else if (f->type == json_type_string)
                        *(const char **) f->target = json_object_get_string(value);
                else
                        *(json_object **) f->target = value;
        }
        return 0;
}

/* --- Out ----------------------------------------------------------------------------------------------- */

/* Sends what the socket takes; returns how much. */
static ssize_t send_part(int fd, const LinkMessage *m)
{
        union {
                struct cmsghdr align;
                char buffer[CMSG_SPACE(sizeof(m->fds.fds))];
        } control = {};
        struct iovec iov = {.iov_base = m->text + m->sent, .iov_len = m->size - m->sent};
        struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1};
        ssize_t k;

        if (m->fds.n > 0) {
                h.msg_control = control.buffer;
                h.msg_controllen = CMSG_SPACE(sizeof(int) * m->fds.n);
                struct cmsghdr *c = CMSG_FIRSTHDR(&h);
                c->cmsg_level = SOL_SOCKET;
                c->cmsg_type = SCM_RIGHTS;
                c->cmsg_len = CMSG_LEN(sizeof(int) * m->fds.n);
                memcpy(CMSG_DATA(c), m->fds.fds, sizeof(int) * m->fds.n);
        }
        do
                k = sendmsg(fd, &h, MSG_NOSIGNAL | MSG_DONTWAIT);
        while (k < 0 && errno == EINTR);
        return k < 0 ? -errno : k;
}

int link_flush(Link *l)
{
        while (l->out) {
                LinkMessage *m = l->out;
                ssize_t n = send_part(l->fd, m);
                if (n < 0)
                        return n == -EAGAIN ? 0 : (int) n;
                varlink_fds_done(&m->fds); /* they went with the first byte */
                m->sent += (size_t) n;
                if (m->sent < m->size)
                        continue;
                drop_message(l);
                l->timed = false;
        }
        return 0;
}

static void settle(Link *l);

int link_send(Link *l, json_object *message, VarlinkFds *fds)
{
        const int format = JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE;
        size_t size;

        if (l->broken < 0)
                return -ECONNRESET;
        const char *text = json_object_to_json_string_length(message, format, &size);
        if (!text)
                return -ENOMEM;
        if (size > l->limits.message_size)
                return -EMSGSIZE;
        if (l->out_length == l->limits.queue_length || l->out_size + size + 1 > l->limits.queue_size) {
                link_break(l, -ENOBUFS);
                return -ENOBUFS;
        }
        LinkMessage *m = calloc(1, sizeof(LinkMessage));
        char *copy = m ? malloc(size + 1) : NULL;
        if (!copy) {
                free(m);
                return -ENOMEM;
        }
        memcpy(copy, text, size + 1);
        *m = (LinkMessage){.text = copy, .size = size + 1};
        if (fds) {
                m->fds = *fds;
                fds->n = 0;
        }
        *l->out_end = m;
        l->out_end = &m->next;
        l->out_size += m->size;
        l->out_length++;
        int r = link_flush(l);
        if (r < 0)
                link_break(l, r);
        settle(l);
        return r < 0 ? -ECONNRESET : 0;
}

/* --- In the event loop --------------------------------------------------------------------------------- */

void link_break(Link *l, int reason)
{
        if (l->broken < 0)
                return;
        l->broken = reason;
        while (l->out)
                drop_message(l);
        (void) shutdown(l->fd, SHUT_RDWR);
        settle(l);
}

void link_hold(Link *l, bool hold, bool outlives_peer)
{
        l->held = hold;
        l->outlives_peer = outlives_peer;
        l->timed = false;
        settle(l);
}

/* Whether there is anything to do without waiting. */
static bool has_work(Link *l)
{
        return l->broken < 0 ||
               (!l->held &&
                (is_complete(l) || l->scanned - l->begin > l->limits.message_size || (l->ended && !l->out)));
}

/* Decides what is waited for: the only place that does. */
static void settle(Link *l)
{
        if (!l->work)
                return;
        bool work = has_work(l), wanted = !l->held && !l->ended && !work;
        bool timed = l->broken == 0 && (l->out || (wanted && l->end > l->begin));
        /* The end of a peer is always reported: it must not be where nothing is done about it. */
        bool watched = l->broken == 0 && (wanted || l->out || (l->held && !l->outlives_peer));

        (void) sd_event_source_set_io_events(l->io, (wanted ? EPOLLIN : 0) | (l->out ? EPOLLOUT : 0));
        (void) sd_event_source_set_enabled(l->io, watched ? SD_EVENT_ON : SD_EVENT_OFF);
        (void) sd_event_source_set_enabled(l->work, work ? SD_EVENT_ONESHOT : SD_EVENT_OFF);
        if (timed && l->timed)
                return;
        l->timed = timed;
        if (timed)
                (void) sd_event_source_set_time_relative(l->timer, l->limits.message_usec);
        (void) sd_event_source_set_enabled(l->timer, timed ? SD_EVENT_ONESHOT : SD_EVENT_OFF);
}

static int on_io(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        Link *l = userdata;
        int r = link_flush(l);

        if (r >= 0 && revents & (EPOLLHUP | EPOLLERR) && l->held)
                r = -ECONNRESET;
        else if (r >= 0 && revents & (EPOLLIN | EPOLLHUP) && !l->held && !is_complete(l)) {
                r = link_receive(l);
                l->ended |= r == 0;
        }
        if (r < 0 && r != -EAGAIN)
                link_break(l, r);
        settle(l);
        return 0;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
        link_break(userdata, -ETIMEDOUT);
        return 0;
}

static int on_work(sd_event_source *source, void *userdata)
{
        _cleanup_json_ json_object *message = NULL;
        _cleanup_(varlink_fds_done) VarlinkFds fds = {};
        Link *l = userdata;

        int r = l->broken < 0 ? l->broken : l->held ? 0 : link_take(l, &message, &fds);
        if (r == 0 && !l->held && l->ended && !l->out)
                r = -ECONNRESET;
        if (r < 0) {
                l->on_end(l->userdata, r);
                return 0;
        }
        settle(l);
        if (r > 0)
                l->on_message(l->userdata, message, &fds);
        return 0;
}

int link_attach(Link *l, sd_event *event, void (*on_message)(void *, json_object *, VarlinkFds *),
                void (*on_end)(void *, int), void *userdata)
{
        l->on_message = on_message;
        l->on_end = on_end;
        l->userdata = userdata;
        int r = sd_event_add_io(event, &l->io, l->fd, EPOLLIN, on_io, l);
        if (r < 0)
                return r;
        r = sd_event_add_time_relative(event, &l->timer, CLOCK_MONOTONIC, 0, 0, on_timer, l);
        if (r < 0)
                return r;
        (void) sd_event_source_set_enabled(l->timer, SD_EVENT_OFF);
        r = sd_event_add_defer(event, &l->work, on_work, l);
        if (r < 0)
                return r;
        settle(l);
        return 0;
}
