/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A server that gets its sockets by the protocol of sd_listen_fds(3), without any library.
 *
 *     serve [max=N] [idle=SECONDS]   answers every connection and every datagram with one line, and ends
 *                                    with status 0 after N of them, or after this time without any
 *     serve close                    closes its sockets and continues to run
 *     serve shutdown                 shuts them down, and ends
 *     serve leave                    ends, without accepting pending connections
 *     serve fail                     ends with status 3 after one answer
 *
 * On SIGTERM it ends between two answers, with status 0. The line describes the server and the socket: the
 * pid, the values of LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES, the number and the name of the socket of the
 * request, and the request. */

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FIRST 3
#define SOCKETS_MAX 1000

static int n_sockets;
static volatile sig_atomic_t stopped;

static void stop(int sig)
{
        stopped = 1;
}

static void name_of(int i, char name[static 300])
{
        const char *s = getenv("LISTEN_FDNAMES") ?: "";

        for (; i > 0 && s; i--) {
                s = strchr(s, ':');
                s = s ? s + 1 : NULL;
        }
        snprintf(name, 300, "%.*s", s ? (int) strcspn(s, ":") : 0, s ?: "");
}

static int say(int i, const char *asked, char *line, size_t size)
{
        char name[300];

        name_of(i, name);
        return snprintf(line, size, "pid=%d listen_pid=%s fds=%s names=%s fd=%d name=%s asked=%.*s\n",
                        (int) getpid(), getenv("LISTEN_PID") ?: "-", getenv("LISTEN_FDS") ?: "-",
                        getenv("LISTEN_FDNAMES") ?: "-", FIRST + i, name, (int) strcspn(asked, "\n"), asked);
}

static void answer_datagram(int i)
{
        char asked[300], line[2000];
        struct sockaddr_storage from;
        socklen_t size = sizeof(from);
        ssize_t n = recvfrom(FIRST + i, asked, sizeof(asked) - 1, 0, (struct sockaddr *) &from, &size);

        if (n < 0)
                return;
        asked[n] = 0;
        n = say(i, asked, line, sizeof(line));
        if (size > sizeof(sa_family_t))
                (void) !sendto(FIRST + i, line, (size_t) n, 0, (struct sockaddr *) &from, size);
}

static void answer_connection(int i)
{
        char asked[300], line[2000];
        int fd = accept(FIRST + i, NULL, NULL);
        ssize_t n = fd < 0 ? -1 : read(fd, asked, sizeof(asked) - 1);

        if (n >= 0) {
                asked[n] = 0;
                n = say(i, asked, line, sizeof(line));
                (void) !write(fd, line, (size_t) n);
        }
        if (fd >= 0)
                close(fd);
}

static bool is_datagram(int fd)
{
        int type = 0;
        socklen_t size = sizeof(type);

        (void) getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size);
        return type == SOCK_DGRAM;
}

/* While the signal is blocked it is only delivered between two replies. */
static int serve(long max, int idle)
{
        const struct timespec time = {.tv_sec = idle};
        sigset_t none, term;
        struct pollfd p[SOCKETS_MAX];
        long served = 0;

        for (int i = 0; i < n_sockets; i++)
                p[i] = (struct pollfd){.fd = FIRST + i, .events = POLLIN};
        sigemptyset(&none);
        sigemptyset(&term);
        sigaddset(&term, SIGTERM);
        (void) sigprocmask(SIG_BLOCK, &term, NULL);
        (void) signal(SIGTERM, stop);
        while (!stopped && (max < 0 || served < max)) {
                int n = ppoll(p, (nfds_t) n_sockets, idle < 0 ? NULL : &time, &none);
                if (n == 0)
                        return 0;
                if (n < 0 && errno != EINTR)
                        return 1;
                for (int i = 0; n > 0 && i < n_sockets && (max < 0 || served < max); i++)
                        if (p[i].revents & POLLIN) {
                                if (is_datagram(p[i].fd))
                                        answer_datagram(i);
                                else
                                        answer_connection(i);
                                served++;
                        }
        }
        return 0;
}

int main(int argc, char *argv[])
{
        const char *word = argc > 1 ? argv[1] : "";
        long max = -1;
        int idle = -1;

        n_sockets = atoi(getenv("LISTEN_FDS") ?: "0");
        if (n_sockets < 1 || n_sockets > SOCKETS_MAX || atoi(getenv("LISTEN_PID") ?: "0") != getpid()) {
                fprintf(stderr, "serve: no sockets for this process\n");
                return 2;
        }
        for (int i = 1; i < argc; i++) {
                (void) sscanf(argv[i], "max=%ld", &max);
                (void) sscanf(argv[i], "idle=%d", &idle);
        }
        for (int i = 0; i < n_sockets; i++) {
                if (strcmp(word, "close") == 0)
                        close(FIRST + i);
                if (strcmp(word, "shutdown") == 0)
                        shutdown(FIRST + i, SHUT_RDWR);
        }
        if (strcmp(word, "close") == 0)
                for (;;)
                        pause();
        if (strcmp(word, "shutdown") == 0 || strcmp(word, "leave") == 0)
                return 0;
        if (strcmp(word, "fail") == 0) {
                (void) serve(1, -1);
                return 3;
        }
        return serve(max, idle);
}
