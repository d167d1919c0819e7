/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sockets passed to this process: from descriptor 3 on, with their number, their names and our pid in the
 * environment, as sd_listen_fds(3) has it.
 *
 * They are taken before anything else is done, so that no program that we execute inherits them. A pod can
 * use a socket that waits for connections or datagrams at an address that can be shown. */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "stage0/supervisor/run-internal.h"

#define FIRST 3
#define NAMES_SIZE_MAX (64U * 1024U)

typedef union Address {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
        struct sockaddr_un un;
        struct sockaddr_storage storage;
} Address;

void passed_socket_done(PassedSocket *s)
{
        safe_close(s->fd);
        free(s->name);
        free(s->listen);
        *s = (PassedSocket){.fd = -EBADF};
}

void passed_sockets_done(PassedSockets *l)
{
        for (size_t i = 0; i < l->n; i++)
                passed_socket_done(&l->items[i]);
        free(l->items);
        *l = (PassedSockets){};
}

/* --- One socket ---------------------------------------------------------------------------------------- */

/* Names that can be written into a unit file without quoting. */
static bool is_plain(const char *s, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (!strchr("/._-@+=,", s[i]) && !(s[i] >= '0' && s[i] <= '9') &&
                    !(s[i] >= 'a' && s[i] <= 'z') && !(s[i] >= 'A' && s[i] <= 'Z'))
                        return false;
        return n > 0;
}

static int describe_unix(PassedSocket *s, const Address *a, socklen_t size, Error *e)
{
        size_t n = size - MIN(size, (socklen_t) offsetof(struct sockaddr_un, sun_path));
        bool abstract = n > 1 && a->un.sun_path[0] == 0;

        if (n == 0)
                return error_set(e, -EINVAL, "it is a unix socket without an address");
        if (!abstract)
                n = strnlen(a->un.sun_path, n);
        if (!is_plain(a->un.sun_path + abstract, n - abstract) || (!abstract && a->un.sun_path[0] != '/'))
                return error_set(e, -EINVAL, "the address of this unix socket cannot be passed on");
        return xasprintf(&s->listen, "%s%.*s", abstract ? "@" : "", (int) (n - abstract),
                         a->un.sun_path + abstract) < 0
                               ? error_oom(e)
                               : 0;
}

static int describe_in(PassedSocket *s, const Address *a, socklen_t size, Error *e)
{
        char text[INET_ADDRSTRLEN] = "";

        s->port = ntohs(a->in.sin_port);
        (void) inet_ntop(AF_INET, &a->in.sin_addr, text, sizeof(text));
        return xasprintf(&s->listen, "%s:%u", text, s->port) < 0 ? error_oom(e) : 0;
}

static int describe_in6(PassedSocket *s, const Address *a, socklen_t size, Error *e)
{
        char text[INET6_ADDRSTRLEN] = "";

        s->port = ntohs(a->in6.sin6_port);
        if (a->in6.sin6_scope_id != 0)
                return error_set(e, -EINVAL, "its address is of one interface only");
        (void) inet_ntop(AF_INET6, &a->in6.sin6_addr, text, sizeof(text));
        return xasprintf(&s->listen, "[%s]:%u", text, s->port) < 0 ? error_oom(e) : 0;
}

static const struct {
        int family;
        int (*describe)(PassedSocket *s, const Address *a, socklen_t size, Error *e);
        bool has_port;
} families[] = {
                {AF_UNIX, describe_unix, false},
                {AF_INET, describe_in, true},
                {AF_INET6, describe_in6, true},
};

static int get_option(int fd, int option)
{
        int value = 0;
        socklen_t size = sizeof(value);

        return getsockopt(fd, SOL_SOCKET, option, &value, &size) < 0 ? -errno : value;
}

static int check_type(PassedSocket *s, bool has_port, Error *e)
{
        int protocol = get_option(s->fd, SO_PROTOCOL);

        s->type = get_option(s->fd, SO_TYPE);
        s->udp = s->type == SOCK_DGRAM;
        if (s->type != SOCK_STREAM && s->type != SOCK_DGRAM && (has_port || s->type != SOCK_SEQPACKET))
                return error_set(e, -EPROTOTYPE, "sockets of its type cannot be passed on");
        if (has_port && protocol != IPPROTO_TCP && protocol != IPPROTO_UDP && protocol != IPPROTO_MPTCP)
                return error_set(e, -EPROTOTYPE, "its protocol is neither TCP nor UDP");
        if (s->type != SOCK_DGRAM && get_option(s->fd, SO_ACCEPTCONN) <= 0)
                return error_set(e, -EINVAL, "it does not listen, or is a connection already (Accept=yes)");
        return 0;
}

static int describe(PassedSocket *s, Error *e)
{
        Address a = {};
        socklen_t size = sizeof(a);
        struct stat st;

        if (fstat(s->fd, &st) < 0)
                return error_set(e, -EBADF, "it is not open");
        if (!S_ISSOCK(st.st_mode))
                return error_set(e, -ENOTSOCK, "it is not a socket");
        s->inode = st.st_ino;
        if (getsockname(s->fd, &a.any, &size) < 0)
                return error_set_errno(e, -errno, "its address cannot be read");
        for (size_t i = 0; i < ELEMENTSOF(families); i++)
                if (families[i].family == a.any.sa_family) {
                        int r = check_type(s, families[i].has_port, e);
                        return r < 0 ? r : families[i].describe(s, &a, size, e);
                }
        return error_set(e, -EAFNOSUPPORT, "it is neither an IP nor a unix socket");
}

int socket_describe(PassedSocket *s, Error *e)
{
        int r = describe(s, e);

        if (r >= 0 && s->port == 0 && s->listen[0] != '/' && s->listen[0] != '@')
                r = error_set(e, -EINVAL, "it has no port");
        return r;
}

/* --- All of them --------------------------------------------------------------------------------------- */

/* 0: none were passed to this process. */
static int read_variables(uint32_t *ret_n, PassedSockets *l, Error *e)
{
        const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
        uint32_t p;

        if (isempty(pid) || isempty(count))
                return 0;
        if (parse_u32(pid, &p) < 0)
                return error_set(e, -EINVAL, "LISTEN_PID is not the number of a process");
        if ((pid_t) p != getpid()) {
                l->foreign_pid = (pid_t) p;
                return 0;
        }
        if (parse_u32(count, ret_n) < 0)
                return error_set(e, -EINVAL, "LISTEN_FDS is not a number of sockets");
        if (*ret_n > STAGE1_SOCKETS_MAX)
                return error_set(e, -E2BIG,
                                 "LISTEN_FDS says that %u sockets are passed; more than %u cannot be",
                                 *ret_n, STAGE1_SOCKETS_MAX);
        return 1;
}

/* Fields may be empty. */
static int take_name(const char **names, char **ret)
{
        size_t n = *names ? strcspn(*names, ":") : 0;

        *ret = strndup(*names ?: "", n);
        if (*names)
                *names = (*names)[n] ? *names + n + 1 : NULL;
        return *ret ? 0 : -ENOMEM;
}

static int take_all(uint32_t n, PassedSockets *l, Error *e)
{
        const char *names = getenv("LISTEN_FDNAMES");

        if (names && strlen(names) > NAMES_SIZE_MAX)
                return error_set(e, -E2BIG, "LISTEN_FDNAMES is too long");
        l->items = calloc(n + 1, sizeof(PassedSocket));
        if (!l->items)
                return error_oom(e);
        for (uint32_t i = 0; i < n; i++) {
                PassedSocket *s = &l->items[i];

                *s = (PassedSocket){.fd = FIRST + (int) i, .number = FIRST + (int) i};
                l->n = i + 1;
                if (take_name(&names, &s->name) < 0)
                        return error_oom(e);
                if (fcntl(s->fd, F_SETFD, FD_CLOEXEC) < 0) {
                        s->fd = -EBADF;
                        return error_set(e, -EBADF,
                                         "LISTEN_FDS says that %u sockets are passed, but descriptor %d "
                                         "is not open",
                                         n, FIRST + (int) i);
                }
                int r = socket_describe(s, e);
                if (r < 0)
                        return error_prefix(e, r, "Descriptor %d, passed by LISTEN_FDS, cannot be used",
                                            FIRST + (int) i);
        }
        return n > 0 && names ? error_set(e, -EINVAL,
                                          "LISTEN_FDNAMES has more names than LISTEN_FDS sockets")
                              : 0;
}

int passed_sockets_take(PassedSockets *ret, Error *e)
{
        PassedSockets l = {.pid = getpid()};
        uint32_t n = 0;

        int r = read_variables(&n, &l, e);
        if (r > 0)
                r = take_all(n, &l, e);
        /* Programs that we execute must not see them. */
        (void) unsetenv("LISTEN_PID");
        (void) unsetenv("LISTEN_FDS");
        (void) unsetenv("LISTEN_FDNAMES");
        if (r < 0) {
                passed_sockets_done(&l);
                return r;
        }
        *ret = l;
        return 0;
}
