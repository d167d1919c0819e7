/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Messages of sd_notify(3): lines NAME=VALUE. Three of them count. The others would change what systemd does
 * with the app's unit: MAINPID= could make another process the app's, FDSTORE=1 leave descriptors behind,
 * STOPPING=1 and RELOADING=1 put the unit into states that nothing here waits for. */

#include "stage0/run/notice.h"

static void take_line(const char *line, Notice *n)
{
        const char *value;
        uint64_t usec;

        if (streq(line, "READY=1"))
                n->ready = true;
        else if ((value = startswith(line, "STATUS=")))
                n->status = value;
        else if ((value = startswith(line, "EXTEND_TIMEOUT_USEC=")) && parse_u64(value, &usec) >= 0)
                n->extend_usec = usec;
}

int notice_parse(char *text, size_t n, Notice *ret)
{
        Notice notice = {};

        if (n > NOTICE_SIZE_MAX || memchr(text, 0, n))
                return -EBADMSG;
        text[n] = 0;
        for (char *line = text, *next; line; line = next) {
                next = strchr(line, '\n');
                if (next)
                        *next++ = 0;
                take_line(line, &notice);
        }
        *ret = notice;
        return 0;
}
