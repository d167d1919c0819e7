/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Parser for messages of sd_notify(3): lines NAME=VALUE, of which four are evaluated. The others would
 * change how systemd treats the app's unit: FDSTORE=1 could leave descriptors behind, STOPPING=1 and
 * RELOADING=1 put the unit into states that nothing here waits for. */

#include "stage0/supervisor/launchers/notice.h"

static void take_line(const char *line, Notice *n)
{
        const char *value;
        uint64_t usec;
        uint32_t pid;

        if (streq(line, "READY=1"))
                n->ready = true;
        else if ((value = startswith(line, "STATUS=")))
                n->status = value;
        else if ((value = startswith(line, "EXTEND_TIMEOUT_USEC=")) && parse_u64(value, &usec) >= 0)
                n->extend_usec = usec;
        else if ((value = startswith(line, "MAINPID=")) && parse_u32(value, &pid) >= 0)
                n->main_pid = pid;
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
