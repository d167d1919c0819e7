/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* notice.c: parses one message of sd_notify(3). */

#include "basic/basic.h"

#define NOTICE_SIZE_MAX 4096U /* bytes of one message; the limit of systemd */

typedef struct Notice {
        bool ready;           /* READY=1 */
        uint64_t extend_usec; /* EXTEND_TIMEOUT_USEC=; 0: not asked for */
        uint32_t main_pid;    /* MAINPID=, by the pod's numbers; 0: none */
        const char *status;   /* STATUS=; lies in the message, or NULL */
} Notice;

/* Pure. Parses the message of N bytes at TEXT, which has room for one more. Unknown fields are ignored.
 * -EBADMSG: it is too long, or holds a NUL. */
int notice_parse(char *text, size_t n, Notice *ret);
