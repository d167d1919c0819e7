/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Full-screen output on a terminal: text that is redrawn until a key is pressed. */

#include <termios.h>

#include "basic/basic.h"

typedef struct Screen {
        bool open, keys;
        struct termios mode; /* original mode of standard input */
} Screen;

/* Switches the terminal of standard output to the alternate screen; single keys are read if standard input
 * is a terminal as well. Call interrupt_catch() before, so that the terminal is restored after a signal. */
void screen_open(Screen *s);
/* Restores the terminal. May be called again. */
void screen_close(Screen *s);
/* Shows as many lines of TEXT as fit on the terminal. A failure is one of stdout. */
void screen_show(Screen *s, const char *text);
/* Waits for a key, with a timeout. Returns the key, 0 if none was pressed, operation_check()'s
 * errors. */
int screen_wait(Screen *s, const Operation *o, uint64_t usec, Error *e);
