/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The protocol between the supervisor and the launcher for running a command beside an app ("launch enter").
 *
 * This launcher runs on the host, from a sealed copy in memory. The socket is its descriptor ENTER_SOCKET; the
 * supervisor sends one EnterRequest with descriptors there. The launcher answers with EnterMessage packets: the
 * process that becomes the command, which is a child of the supervisor, and with a terminal its master. It ends then.
 * The socket is closed when the command is executed, or when that has failed: the report says which. If the
 * supervisor closes its end, or dies, before the command is executed, it is not.
 */

#include <signal.h>
#include <sys/ioctl.h>

#include "stage1/app-status.h"

#define ENTER_PROTOCOL_VERSION 5U
#define ENTER_SOCKET 3
#define ENTER_CGROUPS_MAX 32U

/* Descriptors of a request. For streams that are to be the terminal the descriptor is ignored. */
enum {
        ENTER_FD_FILE,   /* the launch file */
        ENTER_FD_APP,    /* the app's main process, a pidfd */
        ENTER_FD_REPORT, /* memory for an EnterReport, writable */
        ENTER_FD_CGROUP, /* directory of the command's cgroup in the v2 hierarchy */
        ENTER_FD_STDIN,
        ENTER_FD_STDOUT,
        ENTER_FD_STDERR,
        ENTER_FD_CGROUPS, /* "tasks" in the other hierarchies in which the app's cgroup is not the supervisor's */
};

typedef struct EnterRequest {
        uint32_t version;
        int32_t app;          /* the app's main process, as a PID of the host */
        uint32_t modules;     /* security modules whose labels are applied: LAUNCH_APPARMOR and so
                                          * on */
        bool shell;           /* the launch file has no command: run the user's shell */
        bool terminal;        /* standard input and output are a new terminal of the pod */
        bool terminal_errors; /* standard error as well */
        bool credentials;     /* the app has credentials, or the socket of the control API among them */
        struct winsize size;  /* of the terminal */
        char identity[APP_IDENTITY_MAX]; /* the user and groups the app was started as; or
                                          * empty */
        char user[256];                  /* the user to run as; empty: the app's user */
        char metadata_url[512];          /* of the pod; or empty */
} EnterRequest;

typedef enum EnterEvent {
        ENTER_PROCESS,  /* pid is that of the process, as a PID of the host */
        ENTER_TERMINAL, /* carries the master */
} EnterEvent;

typedef struct EnterMessage {
        uint32_t event;
        int32_t pid;
} EnterMessage;

typedef struct EnterReport {
        uint32_t failed; /* the command was not executed: */
        int32_t cause;   /* an AppCause */
        char text[1500]; /* NUL-terminated: why */
} EnterReport;
