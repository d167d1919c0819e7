/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Stands for the programs of critest's images: nginx, httpd, nonewprivs, pause, by the name it is called by. Built statically by
 * images.py, and part of no build of the product. */

#define _GNU_SOURCE

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void serve(int port)
{
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((unsigned short) port)};
        int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
        if (bind(fd, (struct sockaddr *) &a, sizeof(a)) < 0 || listen(fd, 64) < 0) {
                perror("bind");
                exit(1);
        }
        for (;;) {
                char request[4096];
                static const char answer[] =
                                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 16\r\nConnection: close\r\n\r\n<html>ok</html>\n";
                int c = accept(fd, NULL, NULL);
                if (c < 0)
                        continue;
                if (fork() == 0) {
                        alarm(30);
                        size_t n = 0;
                        while (n < sizeof(request) - 1) {
                                ssize_t k = read(c, request + n, sizeof(request) - 1 - n);
                                if (k <= 0)
                                        break;
                                n += (size_t) k;
                                request[n] = 0;
                                if (strstr(request, "\r\n\r\n"))
                                        break;
                        }
                        (void) !write(c, answer, sizeof(answer) - 1);
                        shutdown(c, SHUT_WR);
                        while (read(c, request, sizeof(request)) > 0)
                                ;
                        _exit(0);
                }
                close(c);
        }
}

static void stop(int s)
{
        (void) s;
        _exit(0);
}

int main(int argc, char **argv)
{
        const char *base = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
        (void) argc;
        if (!strcmp(base, "nonewprivs")) {
                printf("Effective uid: %d\n", (int) geteuid());
                return 0;
        }
        signal(SIGTERM, stop);
        signal(SIGINT, stop);
        signal(SIGQUIT, stop);
        if (!strcmp(base, "pause"))
                for (;;)
                        pause();
        signal(SIGCHLD, SIG_IGN);
        if (!strcmp(base, "httpd")) {
                printf("httpd: ready\n");
                fflush(stdout);
                serve(80);
        }
        int port = 80;
        FILE *f = fopen("/etc/web-port", "r");
        if (f) {
                if (fscanf(f, "%d", &port) != 1)
                        port = 80;
                fclose(f);
        }
        f = fopen("/var/run/nginx.pid", "w");
        if (f) {
                fprintf(f, "%d\n", (int) getpid());
                fclose(f);
        }
        static const char title[] = "nginx: master process nginx -g daemon off;";
        size_t room = strlen(argv[argc - 1]) + (size_t) (argv[argc - 1] - argv[0]) + 1;
        memset(argv[0], 0, room);
        strncpy(argv[0], title, room - 1);
        prctl(PR_SET_NAME, "nginx");
        serve(port);
}
