/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Calls of the supervisor: each on a connection of its own, as waiting for the end of an app can take long, and the replies of a
 * connection come one after the other. */

#include <poll.h>
#include <sys/socket.h>

#include "containers/containers.h"
#include "varlink/varlink.h"

#define INTERFACE "org.acnspawn.Control."

static int connect_to_supervisor(int channel, VarlinkClient **ret)
{
        _cleanup_close_ int theirs = -EBADF;
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
                return -errno;
        theirs = pair[1];
        int r = send_fds(channel, "C", 1, &theirs, 1);
        if (r < 0) {
                safe_close(pair[0]);
                return r;
        }
        return varlink_client_new(pair[0], NULL, ret);
}

static int push_streams(VarlinkClient *c, const ContainerCall *call, int fds[static 2])
{
        static const char *const outputs[] = {"stdout", "stderr"};
        size_t n = call->kind == CALL_OUTPUT || call->kind == CALL_SESSION ? 2
                   : call->kind == CALL_INPUT                              ? 1
                                                                           : 0;
        int r = 0;

        for (size_t i = 0; r >= 0 && i < n; i++) {
                r = json_member_add(call->parameters, call->kind == CALL_INPUT ? "stdin" : outputs[i],
                                    json_object_new_int((int) i));
                if (r >= 0)
                        r = varlink_client_push_fd(c, TAKE_FD(fds[i]));
        }
        return r;
}

static int send_call(VarlinkClient *c, const ContainerCall *call, const char *token, int fds[static 2])
{
        _cleanup_free_ char *method = NULL;
        bool streams = call->kind == CALL_OUTPUT || call->kind == CALL_INPUT || call->kind == CALL_SESSION;

        int r = push_streams(c, call, fds);
        if (r >= 0)
                r = json_member_add_text(call->parameters, "token", token);
        if (r >= 0)
                r = xasprintf(&method, INTERFACE "%s", call->method);
        return r < 0 ? r : varlink_client_send(c, method, call->parameters, streams, NULL);
}

/* A client that has gone needs no reply, and does not keep its place. */
static int await(VarlinkClient *c, int http_fd, VarlinkReply *reply)
{
        for (;;) {
                struct pollfd p[] = {{.fd = varlink_client_fd(c), .events = POLLIN}, {.fd = http_fd}};
                int r = varlink_client_next(c, 0, reply, NULL);

                if (r != -ETIMEDOUT)
                        return r;
                if (poll(p, ELEMENTSOF(p), -1) < 0 && errno != EINTR)
                        return -errno;
                if (p[1].revents & (POLLHUP | POLLERR | POLLNVAL))
                        return -ECONNRESET;
        }
}

int control_exchange(int channel, int http_fd, const ContainerCall *call, const char *token,
                     int fds[static 2], VarlinkClient **ret, VarlinkReply *reply)
{
        VarlinkClient *c = NULL;
        int r = connect_to_supervisor(channel, &c);

        if (r >= 0)
                r = send_call(c, call, token, fds);
        if (r >= 0)
                r = await(c, http_fd, reply);
        for (size_t i = 0; i < 2; i++)
                fds[i] = safe_close(fds[i]);
        if (r < 0) {
                varlink_client_free(c);
                return r;
        }
        *ret = c;
        return 0;
}
