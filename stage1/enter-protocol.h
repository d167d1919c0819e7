/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What stage0 and the launcher say to each other when a command is to run beside an app ("launch enter").
 *
 * This launcher runs on the host, from a sealed copy in memory. The socket is its descriptor ENTER_SOCKET;
 * stage0 sends one EnterRequest with descriptors there: the launch file, the app's main process as a pidfd,
 * the ends of three streams, and the cgroup.procs files of all hierarchies in which the app is somewhere
 * else than we are. The launcher answers with EnterReply packets: with a terminal, first one that brings the
 * terminal's master; at the end one that says how the command ended, or why it did not begin.
 */

#include <signal.h>
#include <sys/ioctl.h>

#include "stage1/app-status.h"

#define ENTER_PROTOCOL_VERSION 4U
#define ENTER_SOCKET 3
#define ENTER_CGROUPS_MAX 32U

/* The signal by which stage0 ends the launcher, and with it the command; stage0's death is the same. */
#define ENTER_END SIGPWR

/* Descriptors of a request. Those of streams that are to be the terminal are any descriptor. */
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
        int32_t app;                     /* the app's main process, by the host's numbers */
        uint32_t modules;                /* security modules whose labels count: LAUNCH_APPARMOR and so on */
        bool shell;                      /* the launch file has no command of its own: the user's shell */
        bool terminal;                   /* standard input and output are a new terminal of the pod's */
        bool terminal_errors;            /* standard error, too */
        bool credentials;                /* the app has some */
        struct winsize size;             /* of the terminal */
        char identity[APP_IDENTITY_MAX]; /* who the app was started as, from its record; or empty */
        char user[256];                  /* to be somebody else than the app; empty: who the app is */
        char metadata_url[512];          /* of the pod; or empty */
} EnterRequest;

typedef enum EnterEvent {
        ENTER_TERMINAL, /* brings the master */
        ENTER_ENDED,    /* status is what waitpid() says */
        ENTER_FAILED,   /* cause is an AppCause, text says why */
} EnterEvent;

typedef struct EnterReply {
        uint32_t event;
        int32_t status;
        int32_t cause;
        char text[1500]; /* NUL-terminated */
} EnterReply;
