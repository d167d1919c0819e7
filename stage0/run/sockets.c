/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The sockets by which the apps of a pod are started, on their way to the pod's systemd.
 *
 * Ports of a pod with a network that were passed no socket get one from us, as early as that, so that a port
 * that is taken is told before anything runs, and whoever connects while the pod starts waits. Without a
 * network the pod's systemd makes them.
 *
 * All go through nspawn to the pod's PID 1, which knows them again by their addresses: a drop-in of the
 * socket unit names those. When the pod is up we look whether PID 1 really has them. It would drop one in
 * silence.
 */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "stage0/run/run-internal.h"

int pod_sockets_served(const PodSockets *s, ServedPort **ret, size_t *ret_n)
{
        ServedPort *l = calloc(s ? s->n + 1 : 1, sizeof(ServedPort));
        size_t n = 0;

        if (!l)
                return -ENOMEM;
        for (size_t i = 0; s && i < s->n; i++)
                if (s->items[i].port > 0)
                        l[n++] = (ServedPort){.udp = s->items[i].udp, .port = s->items[i].port};
        *ret = l;
        *ret_n = n;
        return 0;
}

/* --- Those that nobody passed -------------------------------------------------------------------------- */

static int bind_one(int fd, int family, const char *ip, uint32_t port)
{
        struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t) port)};
        struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t) port)};
        int off = 0;

        if (family == AF_INET) {
                if (ip && inet_pton(AF_INET, ip, &in.sin_addr) != 1)
                        return -EINVAL;
                return bind(fd, (struct sockaddr *) &in, sizeof(in)) < 0 ? -errno : 0;
        }
        if (ip && inet_pton(AF_INET6, ip, &in6.sin6_addr) != 1)
                return -EINVAL;
        if (setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) < 0 ||
            bind(fd, (struct sockaddr *) &in6, sizeof(in6)) < 0)
                return -errno;
        return 0;
}

static int listen_in_pod(const Pod *p, int family, bool udp, const char *ip, uint32_t port)
{
        _cleanup_close_ int fd = network_socket(p, family, (udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC);
        int one = 1;

        if (fd < 0)
                return -errno;
        /* Connections that have ended a moment ago are in nobody's way. */
        if (!udp && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0)
                return -errno;
        int r = bind_one(fd, family, ip, port);
        if (r >= 0 && !udp && listen(fd, 4096) < 0)
                r = -errno;
        return r < 0 ? r : TAKE_FD(fd);
}

static int open_one(const Pod *p, PodSockets *s, size_t target, const char *ip, uint32_t port, Error *e)
{
        const SocketTarget *t = &s->targets[target];
        bool udp = streq(t->port->protocol, "udp"), v4 = ip && !strchr(ip, ':');
        PassedSocket x = {.number = -1};

        x.fd = listen_in_pod(p, v4 ? AF_INET : AF_INET6, udp, ip, port);
        if (!ip && (x.fd == -EAFNOSUPPORT || x.fd == -EADDRNOTAVAIL))
                x.fd = listen_in_pod(p, AF_INET, udp, ip, port);
        if (x.fd < 0)
                return error_set_errno(e, x.fd, "Cannot listen on port %u/%s for port '%s' of app %s", port,
                                       t->port->protocol, t->port->name, t->app->name);
        int r = socket_describe(&x, e);
        if (r >= 0 && pod_sockets_add(s, &x, target) < 0)
                r = error_oom(e);
        passed_socket_done(&x);
        return r;
}

static int open_target(const Pod *p, PodSockets *s, size_t target, Error *e)
{
        const SocketTarget *t = &s->targets[target];
        /* In the host's network nothing leads from one port to another. */
        const ExposedPort *x = p->config.net == NET_HOST ? socket_find_exposure(p->manifest, t, NULL) : NULL;
        const char *ip = x && !isempty(x->host_ip) ? x->host_ip : NULL;
        uint32_t first = x ? x->host_port : t->port->port;
        int r = 0;

        for (uint32_t k = 0; r >= 0 && k < stage1_port_count(t->port); k++)
                r = open_one(p, s, target, ip, first + k, e);
        return r;
}

int pod_sockets_open(const Pod *p, PodSockets *s, Error *e)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && p->config.net != NET_NONE && i < s->n_targets; i++)
                if (s->targets[i].n == 0)
                        r = open_target(p, s, i, e);
        return r;
}

/* --- For the pod's systemd ----------------------------------------------------------------------------- */

static const char *directive_of(const PassedSocket *x)
{
        return x->type == SOCK_DGRAM       ? "ListenDatagram"
               : x->type == SOCK_SEQPACKET ? "ListenSequentialPacket"
                                           : "ListenStream";
}

static int write_drop_in(int units_fd, const PodSockets *s, size_t target)
{
        _cleanup_free_ char *unit = NULL, *directory = NULL, *file = NULL, *text = NULL;
        _cleanup_text_ Text t = {};
        size_t size;

        text_add(&t, "# What the pod was started with.\n[Socket]\nListenStream=\n");
        for (size_t i = 0; i < s->n; i++)
                if (s->target_of[i] == target)
                        text_addf(&t, "%s=%s\n", directive_of(&s->items[i]), s->items[i].listen);
        int r = text_take(&t, &text, &size);
        if (r >= 0)
                r = stage1_socket_unit_name(s->targets[target].app, s->targets[target].port, &unit);
        if (r >= 0)
                r = xasprintf(&directory, "%s.d", unit);
        if (r >= 0)
                r = xasprintf(&file, "%s/listen.conf", directory);
        if (r >= 0 && mkdirat(units_fd, directory, 0755) < 0 && errno != EEXIST)
                r = -errno;
        return r < 0 ? r : write_file_atomic_at(units_fd, file, text, size, 0644, false);
}

int pod_sockets_write_units(const Pod *p, const PodSockets *s, Error *e)
{
        _cleanup_close_ int units_fd =
                        open_beneath(p->dir_fd, "root/acnspawn/units", O_RDONLY | O_DIRECTORY);
        int r = units_fd < 0 ? units_fd : 0;

        for (size_t i = 0; r >= 0 && i < s->n_targets; i++)
                if (s->targets[i].n > 0)
                        r = write_drop_in(units_fd, s, i);
        return r < 0 ? error_set_errno(e, r, "Cannot write the socket units of pod %s", pod_display_name(p))
                     : 0;
}

/* --- For whoever asks ---------------------------------------------------------------------------------- */

static const char *type_of(const PassedSocket *x)
{
        if (x->port > 0)
                return x->udp ? "udp" : "tcp";
        return x->type == SOCK_DGRAM ? "datagram" : x->type == SOCK_SEQPACKET ? "seqpacket" : "stream";
}

static int describe(const PodSockets *s, size_t i, ServedSocket *ret)
{
        const SocketTarget *t = &s->targets[s->target_of[i]];
        const PassedSocket *x = &s->items[i];

        *ret = (ServedSocket){.app = strdup(t->app->name),
                              .port = strdup(t->port->name),
                              .type = strdup(type_of(x)),
                              .address = strdup(x->listen)};
        if (!isempty(x->name) && !(ret->name = strdup(x->name)))
                return -ENOMEM;
        return ret->app && ret->port && ret->type && ret->address ? 0 : -ENOMEM;
}

int pod_sockets_record(Pod *p, const PodSockets *s, Error *e)
{
        ServedSocket *l = calloc(s->n + 1, sizeof(ServedSocket));
        size_t n = 0;
        int r = l ? 0 : -ENOMEM;

        for (size_t i = 0; r >= 0 && i < s->n; i++)
                if (s->items[i].number >= 0)
                        r = describe(s, i, &l[n++]);
        if (r >= 0 && n > 0)
                r = served_sockets_write(p, l, n);
        if (l)
                served_sockets_free(l, n);
        return r < 0 ? error_set_errno(e, r, "Cannot record the sockets of pod %s", pod_display_name(p)) : 0;
}

size_t pod_sockets_count(const PodSockets *s)
{
        return s ? s->n : 0;
}

/* Beyond the places first, so that none is overwritten that is still to be moved. */
int pod_sockets_place(const PodSockets *s, int first)
{
        size_t n = pod_sockets_count(s);

        for (size_t i = 0; i < n; i++) {
                int fd = fcntl(s->items[i].fd, F_DUPFD_CLOEXEC, first + (int) n);
                if (fd < 0)
                        return -errno;
                s->items[i].fd = fd;
        }
        for (size_t i = 0; i < n; i++)
                if (dup2(s->items[i].fd, first + (int) i) < 0)
                        return -errno;
        return 0;
}

void pod_sockets_close(PodSockets *s)
{
        for (size_t i = 0; s && i < s->n; i++)
                s->items[i].fd = safe_close(s->items[i].fd);
}

static bool process_has(int fds_dir, char *const *names, ino_t inode)
{
        struct stat st;

        STRV_FOREACH (name, names)
                if (fstatat(fds_dir, *name, &st, 0) >= 0 && S_ISSOCK(st.st_mode) && st.st_ino == inode)
                        return true;
        return false;
}

int pod_sockets_check(const PodSockets *s, pid_t leader, Error *e)
{
        _cleanup_strv_free_ char **names = NULL;
        _cleanup_close_ int dir = -EBADF;
        char path[64], buffer[512];

        if (pod_sockets_count(s) == 0)
                return 0;
        snprintf(path, sizeof(path), "/proc/%d/fd", (int) leader);
        dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0 || list_names(dir, &names) < 0)
                return 0; /* it is about to end, which is told by others */
        for (size_t i = 0; i < s->n; i++)
                if (!process_has(dir, names, s->items[i].inode))
                        return error_set(e, -EADDRNOTAVAIL,
                                         "The pod's systemd did not take socket %s for port '%s' of app %s",
                                         socket_show(&s->items[i], buffer),
                                         s->targets[s->target_of[i]].port->name,
                                         s->targets[s->target_of[i]].app->name);
        return 0;
}
