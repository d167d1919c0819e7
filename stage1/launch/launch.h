/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The launcher's own parts; nothing here is for other rooms. */

#include "stage1/app-status.h"
#include "stage1/launch-config.h"
#include "stage1/launch-protocol.h"

/* What stage0 answered, and what the launcher holds while it works. */
typedef struct Launch {
        LaunchPhase phase;
        const char *app;
        LaunchConfig config;
        char *metadata_url;
        int root_fd, dev_fd; /* detached mounts */
        int *volume_fds;
        size_t n_volumes;
        int status_fd;     /* the directory of records */
        int record_fd;     /* the app's record, once "running" is written: stays writable after privileges are gone */
        int stdout_fd, stderr_fd; /* streams to the journal */
} Launch;

void launch_done(Launch *l);

/* Failures inside the launcher carry the cause that goes into the record. */
typedef struct Failure {
        AppCause cause;
        Error error;
} Failure;

int failure_set(Failure *f, AppCause cause, int code, const char *format, ...) _printf_(4, 5);

/* request.c: asks stage0 for what belongs to the app. */
int launch_request(Launch *l, Failure *f);
/* streams.c: connections to the journal for standard output and standard error. */
int launch_open_streams(Launch *l, Failure *f);
/* root.c: builds the app's root in a mount namespace of its own and makes it the root directory. */
int launch_enter_root(Launch *l, Failure *f);

/* identity.c: user and group of the manifest, looked up in what is the root directory now. */
typedef struct Identity {
        uid_t uid;
        gid_t gid;
        char *home; /* from the image's passwd, or NULL */
} Identity;
int identity_resolve(const LaunchConfig *c, Identity *ret, Failure *f);
/* Takes the identity and gives up every privilege the app is not to have. */
int identity_assume(const LaunchConfig *c, const Identity *id, Failure *f);

/* execute.c: environment, working directory, and the exec itself; returns only on failure. */
int launch_execute(Launch *l, char *const *argv, const Identity *id, Failure *f);
/* Everything from the request on to the exec of what the phase is for (the app's exec, or an event handler); returns only on
 * failure. RUNNING is called as root in the app's root, just before privileges are given up; may be NULL. */
int launch_become(Launch *l, int (*running)(Launch *l, Failure *f), Failure *f);

/* handler.c: runs the phase's event handler as a child that is confined as the app is, and waits for it. On SIGTERM, which the
 * pod's systemd sends when time is up, the handler is killed and counts as timed out. A handler that could not be started
 * is a failure. */
int launch_run_handler(Launch *l, HandlerStatus *ret, Failure *f);

/* record.c: the app's record, before, while and after it runs. */
int record_pre_start_begin(Launch *l);
int record_pre_start_end(Launch *l, const HandlerStatus *h, const Failure *f);
int record_running(Launch *l, Failure *f);
void record_main_failed(Launch *l, const Failure *f);
/* What systemd says of the main process (in SERVICE_RESULT, EXIT_CODE and EXIT_STATUS), put together with what is recorded. */
int record_main_ended(Launch *l, AppStatus *ret);
