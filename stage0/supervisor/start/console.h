/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What systemd-nspawn and the pod's console print, of which only the end is kept. */

#include "basic/basic.h"

#define CONSOLE_KEPT 8192U

typedef struct Console {
        char text[CONSOLE_KEPT];
        size_t size;
} Console;

void console_add(Console *c, const char *data, size_t n);
/* The output as the reason why a pod did not start: one sentence, and more lines, which may be NULL. Both
 * are safe to print on a terminal. If nothing was printed the sentence says so. */
int console_reason(const Console *c, char **ret_reason, char **ret_hint);
