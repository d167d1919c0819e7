/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Formatting text for display: widths, shortening, colours, times and sizes. */

#include "basic/basic.h"

typedef enum Color {
        COLOR_NONE,
        COLOR_BOLD,
        COLOR_GREY,
        COLOR_GREEN,
        COLOR_YELLOW,
        COLOR_RED,
        _COLOR_MAX
} Color;

/* Properties of the output device. Tests fill it in; programs use display_of(). */
typedef struct Display {
        bool terminal; /* output to a terminal: shorten, abbreviate */
        bool colors;
        bool utf8;
        size_t columns; /* 0: no limit */
        uint64_t now;   /* microseconds since the epoch: the base of relative times */
} Display;

/* The properties of FD: COLUMNS is honoured on terminals, NO_COLOR and the like for colours. */
Display display_of(int fd);

/* The escape sequence that begins or (COLOR_NONE) ends a colour; "" where the display has none. */
const char *color_sequence(const Display *d, Color c);

/* Columns of S on a terminal: wide characters count as two, combining ones as none. */
size_t text_width(const char *s);
/* S in at most WIDTH columns, with an ellipsis at the end if something was cut off. NULL: out of memory. */
char *text_ellipsize(const char *s, size_t width, bool utf8);
/* The same with the ellipsis in the middle: a third of the remaining width for the beginning, the rest for
 * the end. */
char *text_ellipsize_middle(const char *s, size_t width, bool utf8);
/* Breaks S between words into lines of at most WIDTH columns (a longer word gets a line of its own). Every
 * line after the first begins with INDENT spaces, which count. */
void text_wrap(Text *t, const char *s, size_t indent, size_t width);

/* All return NULL when out of memory. */
char *format_timestamp(uint64_t usec);              /* "Thu 2016-05-12 08:30:00 UTC", local time */
char *format_relative(uint64_t usec, uint64_t now); /* "2min 3s ago", "5min left" */
char *format_span(uint64_t usec);                   /* "1h 30min"; the two largest units */
char *format_size(uint64_t bytes);                  /* "1.5M", "2.0G", powers of 1024 */
