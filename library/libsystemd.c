/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The functions of libsystemd that are used. */

#include "config.h"
#include "library/libsystemd.h"

SystemdFunctions systemd_functions;

#define LIBRARY_TABLE systemd_functions
DEFINE_LIBRARY(systemd_library, SYSTEMD_FUNCTIONS, LIBRARY_REQUIRED, SYSTEMD_FILE, "libsystemd0",
               "speaking to systemd");

#ifdef LIBRARY_STRICT

/* Sanitized builds check that an event source is freed before the descriptor that it watches is closed. Closing does not
 * remove the open file from the epoll set while another process holds a copy of it, and a closed descriptor cannot be
 * removed from the set any more: epoll then reports events for a source that was freed. check_closed() fails an assertion,
 * so that tests find such code.
 *
 * Only sources whose reference the caller keeps are tracked; floating sources are freed with their event loop. */

#include <assert.h>

#define WATCHED_MAX 65536

static struct {
        const sd_event_source *source;
        pid_t owner; /* a forked child may close its copies */
} watched[WATCHED_MAX];
static int n_watched; /* one more than the highest descriptor that was watched */

static SystemdFunctions original;

static void check_closed(int fd)
{
        if (fd >= n_watched || !watched[fd].source || watched[fd].owner != getpid())
                return;
        fprintf(stderr, "Error of the program: descriptor %d is closed while an event source watches it.\n",
                fd);
        assert(!watched[fd].source);
}

static int add_io(sd_event *event, sd_event_source **ret, int fd, uint32_t events,
                  sd_event_io_handler_t callback, void *userdata)
{
        int r = (original.sd_event_add_io)(event, ret, fd, events, callback, userdata);

        if (r < 0 || !ret || fd >= WATCHED_MAX)
                return r;
        watched[fd].source = *ret;
        watched[fd].owner = getpid();
        n_watched = fd >= n_watched ? fd + 1 : n_watched;
        return r;
}

static sd_event_source *disable_unref(sd_event_source *source)
{
        for (int i = 0; source && i < n_watched; i++)
                if (watched[i].source == source)
                        watched[i].source = NULL;
        return (original.sd_event_source_disable_unref)(source);
}

static void watch_descriptors(void)
{
        original = systemd_functions;
        systemd_functions.sd_event_add_io = add_io;
        systemd_functions.sd_event_source_disable_unref = disable_unref;
        close_check = check_closed;
}

__attribute__((constructor)) static void wrap(void)
{
        systemd_library.wrap = watch_descriptors;
}

#endif
