/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* interrupt.c: signals that end a program cancel its operation. */

#include "basic/basic.h"

/* From now on the first SIGINT, SIGTERM or SIGHUP is only recorded, and cancels O; until interrupt_release(),
 * before which O must not be freed. One that was recorded before cancels O at once. */
int interrupt_catch(Operation *o);
void interrupt_release(void);
/* Blocks these signals: those that arrive from now on stay pending in the kernel. */
void interrupt_block(void);
/* As if SIG had arrived and been caught. */
void interrupt_note(int sig);
/* Ends the process by the recorded signal; after interrupt_release(). */
void interrupt_raise(void);
