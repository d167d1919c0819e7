/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The protocol between stage0 and the launcher for running a command beside an app ("launch enter").
 *
 * This launcher runs on the host, from a sealed copy in memory. The socket is its descriptor ENTER_SOCKET;
 * stage0 sends one EnterRequest with descriptors there: the launch file, the app's main process as a pidfd,
 * the ends of three streams, and the cgroup.procs files of all hierarchies in which the app's cgroup is not
 * stage0's. The launcher answers with EnterReply packets: with a terminal, first one that carries the
 * terminal's master; at the end one with the command's wait status, or the reason why it was not started.
 */

#include <signal.h>
#include <sys/ioctl.h>

#include "stage1/app-status.h"

#define ENTER_PROTOCOL_VERSION 4U
#define ENTER_SOCKET 3
#define ENTER_CGROUPS_MAX 32U

/* The signal by which stage0 ends the launcher, and with it the command; the death of stage0 has the same
 * effect. */
#define ENTER_END SIGPWR

/* Descriptors of a request. For streams that are to be the terminal the descriptor is ignored. */
enum {
        ENTER_FD_FILE,
        ENTER_FD_APP,
        ENTER_FD_STDIN,
        ENTER_FD_STDOUT,
        ENTER_FD_STDERR,
        ENTER_FD_CGROUPS,
};

typedef struct EnterRequest {
        uint32_t version;
        int32_t app;                     /* the app's main process, as a PID of the host */
        uint32_t modules;                /* security modules whose labels are applied: LAUNCH_APPARMOR and so
                                          * on */
        bool shell;                      /* the launch file has no command: run the user's shell */
        bool terminal;                   /* standard input and output are a new terminal of the pod */
        bool terminal_errors;            /* standard error as well */
        bool credentials;                /* the app has credentials */
        struct winsize size;             /* of the terminal */
        char identity[APP_IDENTITY_MAX]; /* the user and groups the app was started as, from its record; or
                                          * empty */
        char user[256];                  /* the user to run as; empty: the app's user */
        char metadata_url[512];          /* of the pod; or empty */
} EnterRequest;

typedef enum EnterEvent {
        ENTER_TERMINAL, /* carries the master */
        ENTER_ENDED,    /* status is that of waitpid() */
        ENTER_FAILED,   /* cause is an AppCause, text the reason */
} EnterEvent;

typedef struct EnterReply {
        uint32_t event;
        int32_t status;
        int32_t cause;
        char text[1500]; /* NUL-terminated */
} EnterReply;
