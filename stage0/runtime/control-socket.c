/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Requests of other processes to the one that runs a pod: one packet over a socket in the pod directory, a
 * word and, after a space, the name of an app. The reply, if there is one, is "done", or an errno and a
 * message. Processes are never signalled by a recorded PID. */

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "stage0/runtime/runtime.h"

#define CONTROL_SOCKET "control"
#define DONE "done"
#define REPLY_MAX 8192U
#define REPLY_SECONDS 60

/* The path of a socket is limited in length: the directory is given by its descriptor. */
static int socket_address(int dir_fd, const char *name, struct sockaddr_un *ret)
{
        *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
        int n = snprintf(ret->sun_path, sizeof(ret->sun_path), "/proc/self/fd/%d/%s", dir_fd, name);
        return n < 0 || (size_t) n >= sizeof(ret->sun_path) ? -ENAMETOOLONG : 0;
}

int socket_bind_at(int dir_fd, const char *name, int type)
{
        struct sockaddr_un address;
        _cleanup_close_ int fd = -EBADF;

        int r = socket_address(dir_fd, name, &address);
        if (r < 0)
                return r;
        fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return -errno;
        (void) unlinkat(dir_fd, name, 0);
        if (bind(fd, (struct sockaddr *) &address, sizeof(address)) < 0 ||
            fchmodat(dir_fd, name, 0600, 0) < 0)
                return -errno;
        return TAKE_FD(fd);
}

int socket_listen_at(int dir_fd, const char *name, int *ret_fd)
{
        _cleanup_close_ int fd = socket_bind_at(dir_fd, name, SOCK_SEQPACKET);

        if (fd < 0)
                return fd;
        if (listen(fd, 1024) < 0)
                return -errno;
        *ret_fd = TAKE_FD(fd);
        return 0;
}

int socket_connect_at(int dir_fd, const char *name, int *ret_fd)
{
        struct sockaddr_un address;
        _cleanup_close_ int fd = -EBADF;

        int r = socket_address(dir_fd, name, &address);
        if (r < 0)
                return r;
        fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (fd < 0 || connect(fd, (struct sockaddr *) &address, sizeof(address)) < 0)
                return -errno;
        *ret_fd = TAKE_FD(fd);
        return 0;
}

static const char *const words[_CONTROL_OP_MAX] = {
                [CONTROL_STOP] = "stop", [CONTROL_KILL] = "kill", [CONTROL_REOPEN] = "reopen"};

int notify_listen(Pod *p, int *ret_fd, Error *e)
{
        int r = socket_bind_at(p->dir_fd, NOTIFY_SOCKET_NAME, SOCK_DGRAM);

        if (r < 0)
                return error_set_errno(e, r, "Cannot create the notification socket of pod %s",
                                       pod_display_name(p));
        *ret_fd = r;
        return 0;
}

int control_listen(Pod *p, int *ret_fd, Error *e)
{
        int r = socket_listen_at(p->dir_fd, CONTROL_SOCKET, ret_fd);

        return r < 0 ? error_set_errno(e, r, "Cannot create the control socket of pod %s",
                                       pod_display_name(p))
                     : 0;
}

static int send_text(Pod *p, const char *text, int *ret_fd, Error *e)
{
        _cleanup_close_ int fd = -EBADF;

        int r = socket_connect_at(p->dir_fd, CONTROL_SOCKET, &fd);
        if (r >= 0)
                r = send_fds(fd, text, strlen(text), NULL, 0);
        if (r < 0)
                return error_set_errno(e, r, "Cannot reach the process that runs pod %s",
                                       pod_display_name(p));
        if (ret_fd)
                *ret_fd = TAKE_FD(fd);
        return 0;
}

int control_send(Pod *p, ControlOp op, Error *e)
{
        return send_text(p, words[op], NULL, e);
}

/* A supervisor of a version that does not support the request closes the connection. */
static int receive_reply(Pod *p, int fd, Error *e)
{
        const struct timeval patience = {.tv_sec = REPLY_SECONDS};
        char reply[REPLY_MAX], *message;

        (void) setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        ssize_t n = recv(fd, reply, sizeof(reply) - 1, 0);
        if (n < 0)
                return error_set_errno(e, errno == EAGAIN ? -ETIMEDOUT : -errno,
                                       "The process that runs pod %s does not answer", pod_display_name(p));
        reply[n] = 0;
        if (streq(reply, DONE))
                return 0;
        long code = strtol(reply, &message, 10);
        if (code <= 0 || code > 4095 || *message != ' ')
                return error_set(e, -EOPNOTSUPP,
                                 "The process that runs pod %s has ended, or is of a version that does not "
                                 "support "
                                 "this",
                                 pod_display_name(p));
        return error_set(e, -(int) code, "%s", message + 1);
}

int control_reopen(Pod *p, const char *app, Error *e)
{
        _cleanup_close_ int fd = -EBADF;
        _cleanup_free_ char *text = NULL;

        if (xasprintf(&text, "%s%s%s", words[CONTROL_REOPEN], app ? " " : "", app ?: "") < 0)
                return error_oom(e);
        int r = send_text(p, text, &fd, e);
        return r < 0 ? r : receive_reply(p, fd, e);
}

int control_receive(int fd, ControlRequest *ret)
{
        char text[sizeof(ret->app) + 16];

        ssize_t n = recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT);
        if (n < 0)
                return -errno;
        text[n] = 0;
        char *app = strchr(text, ' ');
        if (app)
                *app++ = 0;
        if (app && strlen(app) >= sizeof(ret->app))
                return -EBADMSG;
        for (size_t i = 0; i < ELEMENTSOF(words); i++)
                if (streq(words[i], text)) {
                        *ret = (ControlRequest){.op = (ControlOp) i};
                        if (app)
                                memcpy(ret->app, app, strlen(app) + 1);
                        return 0;
                }
        return -EBADMSG;
}

void control_reply(int fd, int r, const Error *e)
{
        char text[REPLY_MAX];

        if (r < 0)
                snprintf(text, sizeof(text), "%d %s", -r, e->message ?: strerror(-r));
        else
                snprintf(text, sizeof(text), "%s", DONE);
        (void) send_fds_now(fd, text, strlen(text), NULL, 0);
}
