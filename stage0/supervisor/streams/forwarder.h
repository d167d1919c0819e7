/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* forwarder.c: reads the output of apps, and passes it to the journals, to log files, to attached clients and, in the foreground, to
 * standard output and standard error. */

#include "stage0/supervisor/streams/host-journal.h"
#include "stage0/supervisor/streams/inputs.h"

typedef struct Forwarders Forwarders;

typedef struct ForwarderOptions {
        const Pod *pod;
        AppTable *apps;
        bool show;   /* also on our standard output and standard error */
        bool prefix; /* line by line, the app's name in front */
        bool raw;    /* pass control characters to a terminal; those of an app's terminal always are */
        void (*reader_gone)(void *userdata); /* whoever has read what is shown does not any more */
        void *userdata;
} ForwarderOptions;

int forwarders_new(sd_event *event, const ForwarderOptions *o, Forwarders **ret, Error *e);
/* Discards output that is still to be shown; see forwarders_show_rest(). */
Forwarders *forwarders_free(Forwarders *all);
DEFINE_TRIVIAL_CLEANUP_FUNC(Forwarders *, forwarders_free);
/* An app that is added or removed while the pod runs. Its output is stored before it is removed. */
int forwarders_add_app(Forwarders *all, AppInstance *app, Error *e);
void forwarders_remove_app(Forwarders *all, AppInstance *app);
/* Makes a pipe for APP that belongs to OWNER, its standard output or (ERROR) standard error; what comes out
 * of it goes to JOURNAL_FD, which is taken over on success. */
int forwarders_add(Forwarders *all, const AppInstance *app, bool error, int journal_fd, uid_t owner,
                   int *ret_write_fd);
/* The same with a terminal, MASTER_FD, which is taken over on success, too, and does not block. */
int forwarders_add_terminal(Forwarders *all, const AppInstance *app, int journal_fd, int master_fd);
/* Passes the output of apps to the clients that INPUTS knows, too. */
void forwarders_set_inputs(Forwarders *all, Inputs *inputs);
/* Shows only APP, unchanged. */
void forwarders_show_only(Forwarders *all, const char *app);
/* Whether nothing is buffered for standard output and standard error. */
bool forwarders_have_shown(const Forwarders *all);
/* While they are held, apps that fill their pipe wait. */
void forwarders_hold(Forwarders *all, bool hold);
void forwarders_show_nothing(Forwarders *all);
/* Takes everything that is in the pipes of APP. */
void forwarders_drain(Forwarders *all, const AppInstance *app);
/* Passes on everything that is in the pipes of APP (NULL: of all apps). Then, which may be at once, FLUSHED is called
 * with FD, a copy of which is kept until then. -EUSERS: too many are waiting for that. */
int forwarders_flush(Forwarders *all, const AppInstance *app, int fd, void (*flushed)(int fd));
/* Begins to open the log files of all apps, by processes in the cgroup and in the mount namespace that this process has now. */
int forwarders_open_logs(Forwarders *all, Error *e);
/* Waits until they are open. -ETIME: a file system does not answer. */
int forwarders_await_logs(Forwarders *all, Error *e);
/* Log files are opened in the mount namespace HOST_FD, a copy of which is kept, from now on. */
int forwarders_set_host(Forwarders *all, const MountNamespace *host);
/* That copy, lent; negative: there is none. */
const MountNamespace *forwarders_host(const Forwarders *all);
/* Checks whether the log file of an app that is about to be added can be opened. Waits for its file system, but not for long: to be
 * called in a child process, which has kept forwarders_host(). */
int forwarders_check_log(const Forwarders *all, const PodApp *app, Error *e);
/* Moves the processes that write log files to the supervisor's cgroup of the pod. */
void forwarders_move_writers(const Forwarders *all, const Cgroups *c);
typedef void (*LogsFunction)(void *userdata, int r, const Error *e);
/* Opens the log file of APP, or those of all apps (NULL), anew by its path. Everything read before is in the old
 * file, everything read later goes to the new one. If that fails for an app, it keeps the old file; the others
 * get theirs. FUNCTION is called with the result once, unless this fails: when the files are open, after a time-out, or at the end
 * of the pod. -ENODATA: there is no log file. */
int forwarders_reopen(Forwarders *all, const char *app, LogsFunction function, void *userdata, Error *e);
/* Adds a message of the supervisor about APP, or about the pod (NULL), to the host's journal if the output of apps is there.
 * It is dropped if the journal takes nothing. */
void forwarders_report(Forwarders *all, const AppInstance *app, HostRecord *r);
/* Waits for a moment until the host's journal has the lines that were sent before a last message about the pod. */
void forwarders_sync_host(Forwarders *all);
/* After the end of the pod: reads the rest of the pipes, and closes them. */
void forwarders_end(Forwarders *all);
/* Waits until everything is shown, as long as the reader of our output takes. */
void forwarders_show_rest(Forwarders *all, const Operation *o);
