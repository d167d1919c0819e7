/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Connections to a socket of ours, on which one packet is expected.
 *
 * The loop that answers them has other things to do: it never waits for a caller. Who has said something by
 * the time that he is accepted, as a launcher has, is answered at once. Who has not is watched, for a short
 * time. Only so many may be silent: one more, and the one that has been silent for longest is hung up on, so
 * that whoever connects without end, and says nothing, keeps out nobody who does speak.
 */

#include <sys/socket.h>

#include "stage0/run/callers.h"

#define SILENT_MAX 32U
#define SILENT_USEC 2000000U

typedef struct Caller Caller;

struct Caller {
        Caller *next;
        Callers *all;
        int fd;
        sd_event_source *source, *timer;
};

struct Callers {
        sd_event *event;
        sd_event_source *source;
        CallerFunction function;
        void *userdata;
        Caller *silent; /* the oldest first */
        size_t n_silent;
};

static Caller *caller_free(Caller *c)
{
        sd_event_source_disable_unref(c->source);
        sd_event_source_disable_unref(c->timer);
        safe_close(c->fd);
        free(c);
        return NULL;
}

static void hang_up(Caller *c)
{
        for (Caller **i = &c->all->silent; *i; i = &(*i)->next)
                if (*i == c) {
                        *i = c->next;
                        c->all->n_silent--;
                        break;
                }
        caller_free(c);
}

Callers *callers_free(Callers *all)
{
        if (!all)
                return NULL;
        while (all->silent)
                hang_up(all->silent);
        sd_event_source_disable_unref(all->source);
        free(all);
        return NULL;
}

static int on_word(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        Caller *c = userdata;

        if (c->all->function(c->all->userdata, fd) != -EAGAIN)
                hang_up(c);
        return 0;
}

static int on_silence(sd_event_source *source, uint64_t usec, void *userdata)
{
        hang_up(userdata);
        return 0;
}

static int watch(Caller *c)
{
        int r = sd_event_add_io(c->all->event, &c->source, c->fd, EPOLLIN, on_word, c);

        return r < 0 ? r
                     : sd_event_add_time_relative(c->all->event, &c->timer, CLOCK_MONOTONIC, SILENT_USEC, 0,
                                                  on_silence, c);
}

/* Takes FD over, whatever comes of it. */
static void wait_for_word(Callers *all, int fd)
{
        Caller *c = calloc(1, sizeof(Caller)), **last = &all->silent;

        if (!c) {
                safe_close(fd);
                return;
        }
        *c = (Caller){.all = all, .fd = fd};
        if (watch(c) < 0) {
                caller_free(c);
                return;
        }
        if (all->n_silent >= SILENT_MAX)
                hang_up(all->silent);
        while (*last)
                last = &(*last)->next;
        *last = c;
        all->n_silent++;
}

static int on_connection(sd_event_source *source, int listen_fd, uint32_t revents, void *userdata)
{
        _cleanup_close_ int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        Callers *all = userdata;

        if (fd >= 0 && all->function(all->userdata, fd) == -EAGAIN)
                wait_for_word(all, TAKE_FD(fd));
        return 0;
}

int callers_new(sd_event *event, int listen_fd, CallerFunction function, void *userdata, Callers **ret)
{
        _cleanup_(callers_freep) Callers *all = calloc(1, sizeof(Callers));

        if (!all)
                return -ENOMEM;
        *all = (Callers){.event = event, .function = function, .userdata = userdata};
        int r = sd_event_add_io(event, &all->source, listen_fd, EPOLLIN, on_connection, all);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(all);
        return 0;
}
