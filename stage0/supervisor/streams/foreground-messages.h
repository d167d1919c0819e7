/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* foreground-messages.c: the packets between `acnspawn run` in the foreground and the supervisor that it has
 * started, on a socket pair that no other process has. They synchronize changes of the client's terminal,
 * which the supervisor writes to. */

#include <sys/ioctl.h>

#include "basic/basic.h"

typedef enum ForegroundEvent {
        /* from the client */
        FOREGROUND_READY,       /* its terminal is in the mode that the app needs: output may be shown */
        FOREGROUND_SIZE,        /* the terminal was resized */
        FOREGROUND_CLOSE_STDIN, /* the end of the pipe ends the app's standard input */
        FOREGROUND_LEAVE,       /* continue without the client */
        /* from the supervisor */
        FOREGROUND_STARTED, /* the app has started; TERMINAL: it has one */
        FOREGROUND_ESCAPES, /* the client's terminal may show output of the app now */
        FOREGROUND_ENDED,   /* the app has ended */
        _FOREGROUND_EVENT_MAX,
} ForegroundEvent;

typedef struct ForegroundMessage {
        uint32_t event;
        uint32_t terminal;
        struct winsize size;
} ForegroundMessage;

/* Does not block. SIZE may be NULL. */
int foreground_send(int fd, ForegroundEvent event, bool terminal, const struct winsize *size);
/* 1: *RET is a message; 0: the peer has closed the connection; -EAGAIN: none now. */
int foreground_receive(int fd, ForegroundMessage *ret);
