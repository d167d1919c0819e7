/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* host-journal.c: records for the journal of the host. */

#include <systemd/sd-event.h>

#include "prepare/pods/pods.h"

typedef struct HostJournal HostJournal;

#define HOST_JOURNAL_SOCKET "/run/systemd/journal/socket"

typedef struct HostRecord {
        const char *app;   /* NULL: the record is about the pod */
        const char *image; /* NULL: not known */
        const char *stream; /* "stdout" or "stderr", for what an app has written; NULL: it is acnspawn's own */
        const char *line_break; /* "line-max" or "eof": the line goes on in the next record, or was not ended; else NULL */
        const char *message_id; /* of the message catalog; NULL: none */
        int priority;           /* as syslog(3) */
        const char *level;      /* the "<N>" that was removed from the message; NULL: none */
        const char *message;
        size_t size;
        int exit_status; /* of what has ended; negative: none */
} HostRecord;

/* ON_ROOM is called when records are taken again after one was not, or are dropped from then on. SOCKET is the path of
 * the journal's socket, which is connected to with the first record. P, SOCKET and EVENT are lent. */
int host_journal_new(sd_event *event, const Pod *p, const char *socket, void (*on_room)(void *userdata),
                     void *userdata, HostJournal **ret);
HostJournal *host_journal_free(HostJournal *j); /* NULL is fine */
DEFINE_TRIVIAL_CLEANUP_FUNC(HostJournal *, host_journal_free);

/* Does not wait. -EAGAIN: the journal takes nothing now, see ON_ROOM. A record that cannot be sent for another reason is
 * dropped: 0. */
int host_journal_send(HostJournal *j, const HostRecord *r);
/* Waits until the journal takes a record again, at most TIMEOUT_MSEC. */
void host_journal_wait(HostJournal *j, int timeout_msec);

/* Waits until the journal has taken what was sent, at most TIMEOUT_MSEC: then all but the last record is stored. */
void host_journal_sync(const HostJournal *j, unsigned timeout_msec);

/* Whether FD is a stream of the host's journal, as systemd sets $JOURNAL_STREAM of a service to. */
bool fd_is_journal_stream(int fd);
