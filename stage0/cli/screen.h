/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* A screen of its own on the terminal: text that is redrawn until a key ends it. */

#include <termios.h>

#include "basic/basic.h"

typedef struct Screen {
        bool open, keys;
        struct termios mode; /* of standard input, as it was */
} Screen;

/* Takes the alternate screen of the terminal that standard output is; single keys are read if standard input is a
 * terminal as well. Call interrupt_catch() before, so that a signal does not leave the terminal like this. */
void screen_open(Screen *s);
/* Restores the terminal. May be called again. */
void screen_close(Screen *s);
/* Replaces what is shown by as many lines of TEXT as the terminal has. A failure is one of stdout. */
void screen_show(Screen *s, const char *text);
/* Waits for a key or for so long. The key, 0 if none was pressed, -EINTR with a message after a signal. */
int screen_wait(Screen *s, uint64_t usec, Error *e);
