/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Full-screen output on a terminal: the alternate screen, so that the previous content is restored, and keys
 * without echo. Text is redrawn in place, line by line, which does not flicker. Ctrl-C stays a signal;
 * Ctrl-Z is read as a key, so that the terminal is restored before the process stops.
 */

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "stage0/cli/screen.h"

#define ENTER "\033[?1049h\033[?25l" /* alternate screen, no cursor */
#define LEAVE "\033[?25h\033[?1049l"
#define HOME "\033[H"
#define CLEAR_LINE "\033[K"
#define CLEAR_REST "\033[J"
#define CTRL_Z 0x1a
#define LINES_DEFAULT 24U

static size_t terminal_lines(void)
{
        struct winsize size = {};

        return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) >= 0 && size.ws_row > 0 ? size.ws_row : LINES_DEFAULT;
}

static void read_single_keys(Screen *s)
{
        struct termios mode;

        s->keys = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &s->mode) >= 0;
        if (!s->keys)
                return;
        mode = s->mode;
        mode.c_lflag &= ~(tcflag_t) (ICANON | ECHO);
        mode.c_cc[VSUSP] = _POSIX_VDISABLE;
        mode.c_cc[VMIN] = 1;
        mode.c_cc[VTIME] = 0;
        (void) tcsetattr(STDIN_FILENO, TCSADRAIN, &mode);
}

void screen_open(Screen *s)
{
        if (s->open)
                return;
        read_single_keys(s);
        (void) fputs(ENTER, stdout);
        (void) fflush(stdout);
        s->open = true;
}

void screen_close(Screen *s)
{
        if (!s->open)
                return;
        (void) fputs(LEAVE, stdout);
        (void) fflush(stdout);
        if (s->keys)
                (void) tcsetattr(STDIN_FILENO, TCSAFLUSH, &s->mode);
        s->open = false;
}

void screen_show(Screen *s, const char *text)
{
        size_t room = terminal_lines();

        (void) fputs(HOME, stdout);
        for (const char *p = text; *p && room > 0; room--) {
                size_t n = strcspn(p, "\n");

                /* Do not write a newline after the last line, which would scroll. */
                (void) fprintf(stdout, "%.*s" CLEAR_LINE "%s", (int) n, p, room > 1 ? "\n" : "");
                p += n + (p[n] == '\n');
        }
        if (room > 0)
                (void) fputs(CLEAR_REST, stdout);
        (void) fflush(stdout);
}

static void suspend(Screen *s)
{
        screen_close(s);
        (void) raise(SIGTSTP);
        screen_open(s);
}

int screen_wait(Screen *s, const Operation *o, uint64_t usec, Error *e)
{
        unsigned char key;

        int r = operation_poll(o, s->keys ? STDIN_FILENO : -1, POLLIN,
                               (int) MIN(usec / 1000, (uint64_t) INT_MAX), e);
        if (r <= 0)
                return r < 0 && !operation_ended(r) ? error_set_errno(e, r, "Cannot read from the terminal")
                                                    : r;
        if (read(STDIN_FILENO, &key, 1) != 1) { /* the terminal was closed */
                s->keys = false;
                return 0;
        }
        if (key == CTRL_Z) {
                suspend(s);
                return 0;
        }
        return key;
}
