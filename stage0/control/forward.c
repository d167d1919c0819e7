/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Forwards between the standard streams of this process and a command or an app in a pod: input, output,
 * signals, and the state of a terminal.
 *
 * The standard streams are shared with the calling process and are never set to non-blocking mode: they are
 * written in pieces that fit when poll() reports them writable. A terminal is put into raw mode, as line
 * editing is done by the terminal in the pod, and restored however the process ends; after a suspension it
 * is made raw again. Output that is still in the pipes when a command ends is forwarded; background
 * processes that it left do not delay the end.
 *
 * Output may have changed more of the terminal than its mode: the selected screen, the cursor, mouse
 * reporting. It may also have sent a query to the terminal, whose reply would be read as input by the
 * calling shell. So unread input is discarded, and the terminal is reset, at the end and at every
 * suspension. */

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>

#include "stage0/control/control-internal.h"

#define CHUNK 4096U /* a writable pipe accepts this many bytes */
#define SLACK 65536 /* bytes that may be in transit in a terminal */

typedef struct Stream {
        int from, to;
        bool close_to; /* a pipe: closed at the end of the input */
        char data[CHUNK];
        size_t begin, end;
        ssize_t remaining; /* once the other side has ended: this many bytes may still be from it */
} Stream;

typedef struct ForwardLoop {
        Forward *f;
        Stream streams[3];
        int signal_fd;
        sigset_t old_mask;
        struct termios old_mode;
        bool is_terminal; /* our standard input: OLD_MODE is its mode */
        bool raw;
        bool escapes; /* output was not plain text */
        bool ended;   /* reported by the other side */
        int error;
} Loop;

static const int forwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM};
static const int own[] = {SIGWINCH, SIGCONT, SIGTSTP};

/* --- The terminal -------------------------------------------------------------------------------------- */

/* Leaves the alternate screen, shows the cursor, ends reports of mouse, focus and pastes; the rest is a
 * "soft reset". Terminals ignore unknown sequences. */
static const char plain[] = "\033[?1047l\033[?25h\033[?1000l\033[?1002l\033[?1003l\033[?1004l\033[?1005l"
                            "\033[?1006l\033[?1015l\033[?2004l\033[!p\033[0m\033(B\017";

void forward_get_size(struct winsize *ret)
{
        if (ioctl(STDOUT_FILENO, TIOCGWINSZ, ret) < 0 && ioctl(STDIN_FILENO, TIOCGWINSZ, ret) < 0)
                *ret = (struct winsize){};
}

static void report_size(const Loop *l)
{
        struct winsize size;

        forward_get_size(&size);
        if (l->f->terminal && size.ws_row > 0)
                l->f->ops->on_resize(l->f, &size);
}

static void set_mode(Loop *l, bool raw)
{
        struct termios mode = l->old_mode;

        if (!l->is_terminal || (!raw && !l->raw))
                return;
        if (raw)
                cfmakeraw(&mode);
        else
                (void) tcflush(STDIN_FILENO, TCIFLUSH);
        (void) tcsetattr(STDIN_FILENO, TCSANOW, &mode);
        l->raw = raw;
}

/* Does not wait for a terminal that is not writable now. */
static void restore_terminal(Loop *l)
{
        struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};

        if (l->escapes && isatty(STDOUT_FILENO) && poll(&p, 1, 0) > 0 && !(p.revents & (POLLHUP | POLLERR)))
                (void) !write(STDOUT_FILENO, plain, sizeof(plain) - 1);
        l->escapes = false;
        set_mode(l, false);
}

void forward_set_terminal(Forward *f, bool terminal)
{
        f->terminal = terminal;
        set_mode(f->loop, terminal);
        report_size(f->loop);
}

void forward_note_escapes(Forward *f)
{
        f->loop->escapes = true;
}

/* The streams of a terminal exist only from now on. */
void forward_take_terminal(Forward *f, int master)
{
        int copy = fcntl(master, F_DUPFD_CLOEXEC, 3);

        f->fds[0] = master;
        f->fds[1] = copy;
        f->loop->streams[0] = (Stream){.from = STDIN_FILENO, .to = master};
        f->loop->streams[1] = (Stream){.from = copy, .to = STDOUT_FILENO};
        (void) fcntl(master, F_SETFL, O_RDWR | O_NONBLOCK); /* both are one */
        forward_set_terminal(f, true);
}

/* --- Signals ------------------------------------------------------------------------------------------- */

/* Signals that nohup, or a shell for background jobs, has set to be ignored stay ignored. */
static bool is_ignored(int sig)
{
        struct sigaction sa;

        return sigaction(sig, NULL, &sa) >= 0 && sa.sa_handler == SIG_IGN;
}

static int open_signals(Loop *l)
{
        sigset_t set;

        sigemptyset(&set);
        for (size_t i = 0; i < ELEMENTSOF(forwarded); i++)
                if (!is_ignored(forwarded[i]))
                        sigaddset(&set, forwarded[i]);
        for (size_t i = 0; i < ELEMENTSOF(own); i++)
                if (own[i] != SIGTSTP || !is_ignored(SIGTSTP))
                        sigaddset(&set, own[i]);
        if (sigprocmask(SIG_BLOCK, &set, &l->old_mask) < 0)
                return -errno;
        l->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        return l->signal_fd < 0 ? -errno : 0;
}

static void resume(Loop *l)
{
        if (l->f->terminal)
                set_mode(l, true);
        report_size(l);
        if (l->f->ops->on_suspend)
                l->f->ops->on_suspend(l->f, false);
}

/* As if the signal were not handled: the calling shell has the terminal meanwhile. */
static void suspend(Loop *l)
{
        sigset_t set;

        if (l->f->ops->on_suspend)
                l->f->ops->on_suspend(l->f, true);
        restore_terminal(l);
        sigemptyset(&set);
        sigaddset(&set, SIGTSTP);
        (void) raise(SIGTSTP);
        (void) sigprocmask(SIG_UNBLOCK, &set, NULL); /* here we stop */
        (void) sigprocmask(SIG_BLOCK, &set, NULL);
        resume(l);
}

/* Once the command has ended a signal is for this process: it need not wait for a reader that has stopped
 * reading. */
static void on_signal(Loop *l)
{
        struct signalfd_siginfo si;

        if (read(l->signal_fd, &si, sizeof(si)) != (ssize_t) sizeof(si))
                return;
        if (si.ssi_signo == SIGTSTP)
                suspend(l);
        else if (si.ssi_signo == SIGCONT)
                resume(l);
        else if (si.ssi_signo == SIGWINCH)
                report_size(l);
        else if (l->ended || l->f->ops->on_signal(l->f, (int) si.ssi_signo) > 0) {
                l->f->signal = (int) si.ssi_signo;
                l->error = -EINTR;
        }
}

/* Output of background processes may continue without end. */
static void note_end(Loop *l)
{
        for (size_t i = 1; i < ELEMENTSOF(l->streams); i++) {
                int n = 0;

                if (l->streams[i].from >= 0)
                        (void) ioctl(l->streams[i].from, FIONREAD, &n);
                l->streams[i].remaining = (ssize_t) n + SLACK;
        }
        l->ended = true;
}

static void on_event(Loop *l)
{
        int r = l->f->ops->on_event(l->f);

        if (r < 0)
                l->error = r;
        if (r > 0)
                note_end(l);
}

/* --- Streams ------------------------------------------------------------------------------------------- */

static void close_end(Loop *l, int *fd)
{
        for (size_t i = 0; i < ELEMENTSOF(l->f->fds); i++)
                if (*fd == l->f->fds[i])
                        l->f->fds[i] = safe_close(l->f->fds[i]); /* else it is a standard stream */
        *fd = -EBADF;
}

/* Checks data that has just been read for escape sequences, or for the detach keys. */
static void inspect_data(Loop *l, Stream *s)
{
        Forward *f = l->f;

        if (s != &l->streams[0]) {
                l->escapes |= f->terminal && text_has_escapes(s->data, s->end);
                return;
        }
        size_t n = l->is_terminal ? detach_keys_find(&f->keys, s->data, s->end) : s->end;
        if (n == s->end)
                return;
        (void) !write(s->to, s->data, n); /* keys before the last one; discarded if they cannot be written
        now */
        s->end = 0;
        f->detached = true;
}

static void fill(Loop *l, Stream *s)
{
        ssize_t n = read(s->from, s->data, sizeof(s->data));

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        s->begin = 0;
        s->end = n > 0 ? (size_t) n : 0;
        s->remaining -= n > 0 ? n : 0;
        if (n > 0) {
                inspect_data(l, s);
                return;
        }
        close_end(l, &s->from);
        if (!s->close_to)
                return;
        if (l->f->ops->on_input_end)
                l->f->ops->on_input_end(l->f);
        close_end(l, &s->to);
}

/* The writer gets SIGPIPE or EPIPE. */
static void write_data(Loop *l, Stream *s)
{
        ssize_t n = write(s->to, s->data + s->begin, s->end - s->begin);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (n >= 0) {
                s->begin += (size_t) n;
                return;
        }
        s->begin = s->end = 0;
        if (s == &l->streams[0] && s->close_to && l->f->ops->on_input_end)
                l->f->ops->on_input_end(l->f);
        close_end(l, &s->to);
        close_end(l, &s->from);
        l->f->detached |= l->f->detach_when_unread && s != &l->streams[0];
}

static bool has_data(const Stream *s)
{
        return s->begin < s->end && s->to >= 0;
}

static struct pollfd poll_stream(const Loop *l, size_t i)
{
        const Stream *s = &l->streams[i];

        if (has_data(s))
                return (struct pollfd){.fd = s->to, .events = POLLOUT};
        if (s->from < 0 || s->to < 0 || (l->ended && (i == 0 || s->remaining <= 0)))
                return (struct pollfd){.fd = -1};
        return (struct pollfd){.fd = s->from, .events = POLLIN};
}

static void on_stream(Loop *l, size_t i)
{
        Stream *s = &l->streams[i];

        if (has_data(s))
                write_data(l, s);
        else
                fill(l, s);
}

/* 0: nothing more is to be done. */
static int step(Loop *l)
{
        struct pollfd p[ELEMENTSOF(l->streams) + 2];
        size_t n = ELEMENTSOF(l->streams);
        bool pending = false;

        for (size_t i = 0; i < n; i++) {
                p[i] = poll_stream(l, i);
                pending |= i > 0 && has_data(&l->streams[i]);
        }
        p[n] = (struct pollfd){.fd = l->ended ? -1 : l->f->socket, .events = POLLIN};
        p[n + 1] = (struct pollfd){.fd = l->signal_fd, .events = POLLIN};
        int k = poll(p, n + 2, l->ended && !pending ? 0 : -1);
        if (k < 0)
                return errno == EINTR ? 1 : -errno;
        if (k == 0)
                return 0;
        if (p[n + 1].revents)
                on_signal(l);
        for (size_t i = 0; i < n; i++)
                if (p[i].revents)
                        on_stream(l, i);
        if (p[n].revents)
                on_event(l);
        return l->error < 0 ? l->error : !l->f->detached;
}

static void prepare_streams(Loop *l)
{
        int *fds = l->f->fds;

        if (fds[0] >= 0)
                (void) fcntl(fds[0], F_SETFL, O_WRONLY | O_NONBLOCK);
        l->streams[0] = (Stream){.from = fds[0] < 0 ? -EBADF : STDIN_FILENO, .to = fds[0], .close_to = true};
        l->streams[1] = (Stream){.from = fds[1], .to = STDOUT_FILENO};
        l->streams[2] = (Stream){.from = fds[2], .to = STDERR_FILENO};
        l->is_terminal = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &l->old_mode) >= 0;
        if (l->f->terminal)
                forward_set_terminal(l->f, true);
}

int forward_streams(Forward *f, Error *e)
{
        Loop l = {.f = f, .signal_fd = -EBADF};

        (void) fflush(NULL);
        f->loop = &l;
        int r = open_signals(&l);
        if (r >= 0)
                prepare_streams(&l);
        while (r >= 0) {
                r = step(&l);
                if (r == 0)
                        break;
        }
        restore_terminal(&l);
        safe_close(l.signal_fd);
        (void) sigprocmask(SIG_SETMASK, &l.old_mask, NULL);
        f->loop = NULL;
        if (r < 0 && (l.ended || f->signal > 0))
                r = 0;
        if (r == -ECONNRESET)
                return error_set(e, r, "%s was killed together with what started it", f->ops->what);
        return r < 0 ? error_set_errno(e, r, "Cannot forward the standard streams of %s", f->ops->what) : 0;
}

void forward_done(Forward *f)
{
        for (size_t i = 0; i < ELEMENTSOF(f->fds); i++)
                f->fds[i] = safe_close(f->fds[i]);
        f->socket = safe_close(f->socket);
}
