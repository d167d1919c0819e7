/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Ports of a sandbox, as a client's. Each connection looks for the sandbox again, in a process of its own: a namespace that was
 * kept here would outlive the sandbox. */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "cri/streams/streams.h"

#define CONNECT_SECONDS 10

typedef struct Target {
        CriJob *job;
        const char *id;
        uint16_t ports[FORWARDS_MAX]; /* that were requested; none: all are */
        size_t n_ports;
} Target;

static bool is_requested(const Target *t, uint16_t port)
{
        for (size_t i = 0; i < t->n_ports; i++)
                if (t->ports[i] == port)
                        return true;
        return t->n_ports == 0;
}

static int connect_address(const Pod *p, pid_t leader, const struct sockaddr *a, socklen_t size, int *ret)
{
        const struct timeval limit = {.tv_sec = CONNECT_SECONDS};
        int fd = network_socket(p, leader, a->sa_family, SOCK_STREAM);

        if (fd < 0)
                return fd;
        if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) < 0 || connect(fd, a, size) < 0) {
                int r = errno == EINPROGRESS ? -ETIMEDOUT : -errno;
                safe_close(fd);
                return r;
        }
        *ret = fd;
        return 0;
}

/* The second address is for servers that listen on IPv6 only; its failure is not of interest. */
static int connect_loopback(const Pod *p, pid_t leader, uint16_t port, int *ret)
{
        const struct sockaddr_in a = {.sin_family = AF_INET,
                                      .sin_port = htons(port),
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        const struct sockaddr_in6 b = {.sin6_family = AF_INET6,
                                       .sin6_port = htons(port),
                                       .sin6_addr = IN6ADDR_LOOPBACK_INIT};

        int r = connect_address(p, leader, (const struct sockaddr *) &a, sizeof(a), ret);
        if (r == -ECONNREFUSED &&
            connect_address(p, leader, (const struct sockaddr *) &b, sizeof(b), ret) >= 0)
                r = 0;
        return r;
}

static int connect_port(uint16_t port, void *userdata, int *ret_fd, Error *e)
{
        const Target *t = userdata;
        _cleanup_sandbox_ Sandbox s = {};
        PodRuntime runtime = {};

        if (!is_requested(t, port))
                return error_set(e, -EACCES,
                                 "Port %u of sandbox %s was not requested by the call of PortForward", port,
                                 t->id);
        int r = sandbox_find(t->job, t->id, &s, e);
        if (r >= 0 && !sandbox_is_ready(&s))
                r = error_set(e, -ESRCH, "it is not ready");
        if (r >= 0 && (r = pod_runtime_read(s.pod, &runtime)) < 0)
                r = error_set_errno(e, r, "its state cannot be read");
        if (r >= 0 && (r = connect_loopback(s.pod, runtime.leader, port, ret_fd)) < 0)
                r = error_set(e, r, "%s", strerror(-r));
        return r < 0 ? error_prefix(e, r, "Cannot connect to port %u of sandbox %s", port, t->id) : 0;
}

/* The process whose end is that of the sandbox. */
static int watch_sandbox(CriJob *j, const char *id, int *ret, Error *e)
{
        _cleanup_sandbox_ Sandbox s = {};
        PodRuntime runtime = {};

        int r = sandbox_find(j, id, &s, e);
        if (r < 0)
                return r;
        if (!sandbox_is_ready(&s) || pod_runtime_read(s.pod, &runtime) < 0 || runtime.leader <= 0)
                return error_set(e, -ESRCH, "Sandbox %s is not ready", s.id);
        int fd = (int) syscall(SYS_pidfd_open, runtime.leader, 0);
        if (fd < 0)
                return error_set_errno(e, -errno, "Cannot watch sandbox %s", s.id);
        *ret = fd;
        return 0;
}

int cri_stream_port_forward(CriJob *j, Session *session, const void *request, int *ret_exit, Error *e)
{
        const Runtime__V1__PortForwardRequest *q = request;
        Target t = {.job = j, .id = q->pod_sandbox_id};
        _cleanup_close_ int fd = -EBADF;

        for (; t.n_ports < MIN(q->n_port, (size_t) FORWARDS_MAX); t.n_ports++)
                t.ports[t.n_ports] = (uint16_t) q->port[t.n_ports];
        char *ended = cri_printf(&j->memory, "Sandbox %s has ended", t.id);
        int r = ended ? watch_sandbox(j, t.id, &fd, e) : error_oom(e);
        if (r < 0)
                return r;
        const ForwardHandler h = {.connect = connect_port,
                                  .fd = fd,
                                  .ended = ended,
                                  .ports = t.ports,
                                  .n_ports = t.n_ports,
                                  .userdata = &t};
        return session_forward(session, &h);
}
