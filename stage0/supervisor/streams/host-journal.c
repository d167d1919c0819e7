/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Records for the journal of the host, in its native protocol: a datagram of fields for each.
 *
 * sd_journal_sendv() would wait for a journal that takes nothing, and with it the pod. Here a record that is not taken is
 * the caller's to keep; when the journal takes nothing for ten seconds, records are dropped for a while instead. The
 * fields are written here alone: what an app writes becomes the value of MESSAGE, whose length precedes it, and so never a
 * field of its own.
 */

#include <endian.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "library/libsystemd.h"
#include "stage0/supervisor/streams/host-journal.h"

#define PATIENCE_USEC UINT64_C(10000000) /* in which a journal that is full has to take a record */
#define PAUSE_USEC UINT64_C(1000000)     /* after a failure, before the next connection is tried */

struct HostJournal {
        sd_event *event;
        const char *socket;
        void (*on_room)(void *userdata);
        void *userdata;
        Text pod; /* the fields that are the same in all records */
        Text record;
        int fd;
        sd_event_source *source, *timer;
        uint64_t again_usec; /* before, no connection is tried */
};

/* --- Fields -------------------------------------------------------------------------------------------- */

static void add_binary(Text *t, const char *name, const char *value, size_t size)
{
        uint64_t length = htole64(size);

        text_addf(t, "%s\n", name);
        text_add_bytes(t, &length, sizeof(length));
        text_add_bytes(t, value, size);
        text_add(t, "\n");
}

static void add_field(Text *t, const char *name, const char *value)
{
        if (!value)
                return;
        if (strchr(value, '\n'))
                add_binary(t, name, value, strlen(value));
        else
                text_addf(t, "%s=%s\n", name, value);
}

static void format_record(HostJournal *j, const HostRecord *r)
{
        Text *t = &j->record;

        t->size = 0;
        text_add_bytes(t, j->pod.data, j->pod.size);
        text_addf(t, "PRIORITY=%d\n", r->priority);
        add_field(t, "SYSLOG_IDENTIFIER", r->stream ? r->app : "acnspawn");
        add_field(t, "ACNSPAWN_APP", r->app);
        add_field(t, "ACNSPAWN_IMAGE", r->image);
        add_field(t, "ACNSPAWN_STREAM", r->stream);
        add_field(t, "ACNSPAWN_LINE_BREAK", r->line_break);
        add_field(t, "ACNSPAWN_LEVEL", r->level);
        add_field(t, "MESSAGE_ID", r->message_id);
        if (r->exit_status >= 0)
                text_addf(t, "EXIT_STATUS=%d\n", r->exit_status);
        add_binary(t, "MESSAGE", r->message, r->size);
}

/* --- The connection ------------------------------------------------------------------------------------ */

static void disconnect(HostJournal *j)
{
        j->source = sd_event_source_disable_unref(j->source);
        j->timer = sd_event_source_disable_unref(j->timer);
        j->fd = safe_close(j->fd);
}

static int connect_journal(HostJournal *j)
{
        struct sockaddr_un sa = {.sun_family = AF_UNIX};
        size_t n = strlen(j->socket);
        uint64_t now = now_usec(CLOCK_MONOTONIC);

        if (j->fd >= 0)
                return 0;
        if (now < j->again_usec || n >= sizeof(sa.sun_path))
                return -ENOTCONN;
        j->again_usec = now + PAUSE_USEC;
        memcpy(sa.sun_path, j->socket, n);
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0 || connect(fd, (struct sockaddr *) &sa, sizeof(sa)) < 0)
                return -errno;
        j->fd = TAKE_FD(fd);
        return 0;
}

static int on_writable(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        HostJournal *j = userdata;

        j->source = sd_event_source_disable_unref(j->source);
        j->timer = sd_event_source_disable_unref(j->timer);
        j->on_room(j->userdata);
        return 0;
}

static int on_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
        HostJournal *j = userdata;

        disconnect(j);
        j->again_usec = now_usec(CLOCK_MONOTONIC) + PATIENCE_USEC;
        log_warning("The journal of the host takes nothing: output of apps is not stored there for a while");
        j->on_room(j->userdata);
        return 0;
}

/* -EAGAIN: on_room() will be called. */
static int wait_for_room(HostJournal *j)
{
        if (j->source)
                return -EAGAIN;
        int r = sd_event_add_io(j->event, &j->source, j->fd, EPOLLOUT, on_writable, j);
        if (r >= 0)
                r = sd_event_add_time_relative(j->event, &j->timer, CLOCK_MONOTONIC, PATIENCE_USEC, 0,
                                               on_timeout, j);
        if (r >= 0)
                return -EAGAIN;
        disconnect(j);
        return 0;
}

static int send_record(HostJournal *j)
{
        ssize_t n;

        do
                n = send(j->fd, j->record.data, j->record.size, MSG_NOSIGNAL | MSG_DONTWAIT);
        while (n < 0 && errno == EINTR);
        return n < 0 ? -errno : 0;
}

int host_journal_send(HostJournal *j, const HostRecord *r)
{
        if (j->source)
                return -EAGAIN;
        format_record(j, r);
        if (j->record.failed) {
                text_done(&j->record);
                return 0;
        }
        /* A journal that was started anew has another socket behind the same path. */
        for (unsigned attempt = 0; attempt < 2 && connect_journal(j) >= 0; attempt++) {
                int k = send_record(j);
                if (k == -EAGAIN || k == -ENOBUFS)
                        return wait_for_room(j);
                if (k >= 0 || k == -EMSGSIZE)
                        return 0;
                disconnect(j);
                j->again_usec = 0;
        }
        return 0;
}

void host_journal_wait(HostJournal *j, int timeout_msec)
{
        struct pollfd p = {.fd = j->fd, .events = POLLOUT};

        if (!j->source)
                return;
        if (poll(&p, 1, timeout_msec) > 0) {
                j->source = sd_event_source_disable_unref(j->source);
                j->timer = sd_event_source_disable_unref(j->timer);
        } else {
                disconnect(j);
                j->again_usec = now_usec(CLOCK_MONOTONIC) + PATIENCE_USEC;
        }
}

void host_journal_sync(const HostJournal *j, unsigned timeout_msec)
{
        int waiting = 0;

        if (j->fd < 0)
                return;
        for (unsigned i = 0; i < timeout_msec && ioctl(j->fd, SIOCOUTQ, &waiting) >= 0 && waiting > 0; i++)
                nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* --- Making -------------------------------------------------------------------------------------------- */

int host_journal_new(sd_event *event, const Pod *p, const char *socket, void (*on_room)(void *userdata),
                     void *userdata, HostJournal **ret)
{
        _cleanup_(host_journal_freep) HostJournal *j = calloc(1, sizeof(HostJournal));

        if (!j)
                return -ENOMEM;
        *j = (HostJournal){.event = event,
                           .socket = socket,
                           .on_room = on_room,
                           .userdata = userdata,
                           .fd = -EBADF};
        add_field(&j->pod, "ACNSPAWN_POD", pod_display_name(p));
        add_field(&j->pod, "ACNSPAWN_UUID", p->uuid);
        add_field(&j->pod, "ACNSPAWN_NAME", p->config.name);
        if (j->pod.failed)
                return -ENOMEM;
        *ret = TAKE_PTR(j);
        return 0;
}

HostJournal *host_journal_free(HostJournal *j)
{
        if (!j)
                return NULL;
        disconnect(j);
        text_done(&j->pod);
        text_done(&j->record);
        free(j);
        return NULL;
}

bool fd_is_journal_stream(int fd)
{
        const char *s = secure_getenv("JOURNAL_STREAM");
        unsigned long long device, inode;
        struct stat st;
        int end = 0;

        return s && sscanf(s, "%llu:%llu%n", &device, &inode, &end) == 2 && s[end] == 0 &&
               fstat(fd, &st) >= 0 && st.st_dev == (dev_t) device && st.st_ino == (ino_t) inode;
}
