/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The functions of libsystemd that are used. */

#include "config.h"
#include "library/libsystemd.h"

SystemdFunctions systemd_functions;

#define LIBRARY_TABLE systemd_functions
DEFINE_LIBRARY(systemd_library, SYSTEMD_FUNCTIONS, LIBRARY_REQUIRED, SYSTEMD_FILE, "libsystemd0",
               "speaking to systemd");

#ifdef LIBRARY_STRICT

/* In developers' builds a descriptor that an event source watches must not be closed before the source is freed: the kernel
 * reports events of an open file, which another process may still hold, for a source that is not there any more. Tests find
 * it, as safe_close() fails an assertion then.
 *
 * Only sources are known that somebody has a reference of; others are freed with their event loop. */

#include <assert.h>

#define WATCHED_MAX 65536

static struct {
        const sd_event_source *source;
        pid_t owner; /* other processes may close their copies */
} watched[WATCHED_MAX];
static int n_watched; /* above the highest descriptor that was watched */

static SystemdFunctions original;

static void check_closed(int fd)
{
        if (fd >= n_watched || !watched[fd].source || watched[fd].owner != getpid())
                return;
        fprintf(stderr,
                "Error of the program: descriptor %d is closed, and an event source still watches it.\n",
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
