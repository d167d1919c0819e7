/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Between our caller and a command in a pod: what is typed goes in, what is written comes out, signals are
 * passed on, and a terminal is one.
 *
 * Our own descriptors are our caller's as well and are never made non-blocking: they are written to in
 * pieces that fit when poll() says so. A terminal is put into raw mode, as the pod's end does the line editing, and
 * put back whatever ends us; after a stop it is made raw again. What a command has left in its streams when
 * it ends is still passed on; what it started and left behind does not keep us.
 */

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>

#include "stage0/control/control-internal.h"

#define CHUNK 4096U /* what a pipe that can be written to takes at once */

typedef struct Stream {
        int from, to;
        bool close_to; /* a pipe: the end of what we read is the end of what it is given */
        char data[CHUNK];
        size_t begin, end;
} Stream;

typedef struct Loop {
        Forward *f;
        Stream streams[3];
        int signal_fd;
        sigset_t old_mask;
        struct termios old_mode;
        bool raw;
        bool ended; /* the launcher has told how */
        EnterReply reply;
        int error;
} Loop;

static const int forwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM};
static const int own[] = {SIGWINCH, SIGCONT};

/* --- The terminal -------------------------------------------------------------------------------------- */

void forward_get_size(struct winsize *ret)
{
        if (ioctl(STDOUT_FILENO, TIOCGWINSZ, ret) < 0)
                *ret = (struct winsize){};
}

static void set_size(const Loop *l)
{
        struct winsize size;

        forward_get_size(&size);
        if (l->f->terminal && l->f->fds[0] >= 0 && size.ws_row > 0)
                (void) ioctl(l->f->fds[0], TIOCSWINSZ, &size);
}

static void set_raw(Loop *l)
{
        struct termios mode = l->old_mode;

        cfmakeraw(&mode);
        if (l->raw)
                (void) tcsetattr(STDIN_FILENO, TCSANOW, &mode);
}

static void restore_terminal(Loop *l)
{
        if (l->raw)
                (void) tcsetattr(STDIN_FILENO, TCSANOW, &l->old_mode);
        l->raw = false;
}

/* The streams of a terminal are there only now. */
static void take_terminal(Loop *l, int master)
{
        int copy = fcntl(master, F_DUPFD_CLOEXEC, 3);

        l->f->fds[0] = master;
        l->f->fds[1] = copy;
        l->streams[0] = (Stream){.from = STDIN_FILENO, .to = master};
        l->streams[1] = (Stream){.from = copy, .to = STDOUT_FILENO};
        (void) fcntl(master, F_SETFL, O_RDWR | O_NONBLOCK); /* both are one */
        l->raw = tcgetattr(STDIN_FILENO, &l->old_mode) >= 0;
        set_raw(l);
        set_size(l);
}

/* --- Signals ------------------------------------------------------------------------------------------- */

/* nohup, and shells for what they put into the background, have us ignore what is not meant for us. */
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
                sigaddset(&set, own[i]);
        if (sigprocmask(SIG_BLOCK, &set, &l->old_mask) < 0)
                return -errno;
        l->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        return l->signal_fd < 0 ? -errno : 0;
}

/* Once the command has ended a signal is for us: whoever does not read any more need not keep us. */
static void on_signal(Loop *l)
{
        struct signalfd_siginfo si;

        if (read(l->signal_fd, &si, sizeof(si)) != (ssize_t) sizeof(si))
                return;
        if (si.ssi_signo == SIGCONT)
                set_raw(l);
        if (si.ssi_signo == SIGWINCH || si.ssi_signo == SIGCONT)
                set_size(l);
        else if (l->ended)
                l->error = -EINTR;
        else
                (void) kill(l->f->pid, (int) si.ssi_signo);
}

/* --- The launcher -------------------------------------------------------------------------------------- */

static void on_launcher(Loop *l)
{
        int fd = -EBADF;
        size_t n_fds = 0;
        EnterReply reply;

        ssize_t n = recv_fds(l->f->socket, &reply, sizeof(reply), &fd, 1, &n_fds);
        if (n != (ssize_t) sizeof(reply)) {
                l->error = -ECONNRESET;
                return;
        }
        reply.text[sizeof(reply.text) - 1] = 0;
        if (reply.event == ENTER_TERMINAL) {
                if (n_fds == 1 && !l->raw)
                        take_terminal(l, TAKE_FD(fd));
        } else {
                l->reply = reply;
                l->ended = true;
        }
        safe_close(fd);
}

/* --- Streams ------------------------------------------------------------------------------------------- */

static void close_end(Loop *l, int *fd)
{
        for (size_t i = 0; i < ELEMENTSOF(l->f->fds); i++)
                if (*fd == l->f->fds[i])
                        l->f->fds[i] = safe_close(l->f->fds[i]); /* else it is our caller's */
        *fd = -EBADF;
}

static void fill(Loop *l, Stream *s)
{
        ssize_t n = read(s->from, s->data, sizeof(s->data));

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        s->begin = 0;
        s->end = n > 0 ? (size_t) n : 0;
        if (n > 0)
                return;
        close_end(l, &s->from);
        if (s->close_to)
                close_end(l, &s->to);
}

/* Who wrote it gets to know that nobody reads it. */
static void pour(Loop *l, Stream *s)
{
        ssize_t n = write(s->to, s->data + s->begin, s->end - s->begin);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (n >= 0) {
                s->begin += (size_t) n;
                return;
        }
        s->begin = s->end = 0;
        close_end(l, &s->to);
        close_end(l, &s->from);
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
        if (s->from < 0 || s->to < 0 || (i == 0 && l->ended))
                return (struct pollfd){.fd = -1};
        return (struct pollfd){.fd = s->from, .events = POLLIN};
}

static void on_stream(Loop *l, size_t i)
{
        Stream *s = &l->streams[i];

        if (has_data(s))
                pour(l, s);
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
                on_launcher(l);
        return l->error < 0 ? l->error : 1;
}

static void prepare_streams(Loop *l)
{
        int *fds = l->f->fds;

        if (fds[0] >= 0)
                (void) fcntl(fds[0], F_SETFL, O_WRONLY | O_NONBLOCK);
        l->streams[0] = (Stream){.from = fds[0] < 0 ? -EBADF : STDIN_FILENO, .to = fds[0], .close_to = true};
        l->streams[1] = (Stream){.from = fds[1], .to = STDOUT_FILENO};
        l->streams[2] = (Stream){.from = fds[2], .to = STDERR_FILENO};
}

int forward_streams(Forward *f, EnterReply *ret, Error *e)
{
        Loop l = {.f = f, .signal_fd = -EBADF};

        (void) fflush(NULL);
        prepare_streams(&l);
        int r = open_signals(&l);
        while (r >= 0) {
                r = step(&l);
                if (r == 0)
                        break;
        }
        restore_terminal(&l);
        safe_close(l.signal_fd);
        (void) sigprocmask(SIG_SETMASK, &l.old_mask, NULL);
        if (r < 0 && l.ended)
                r = 0;
        if (r == -ECONNRESET)
                return error_set(e, r, "The command was killed together with the launcher");
        if (r < 0)
                return error_set_errno(e, r, "Cannot pass on what the command reads and writes");
        *ret = l.reply;
        return 0;
}
