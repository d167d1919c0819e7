/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Tries one operation that an app should or should not be able to do, and exits 0 on success; else the exit
 * status is the errno, and the output the reason. For operations without a busybox applet. Links statically. */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int check(long r)
{
        if (r >= 0)
                return 0;
        return errno > 0 && errno < 126 ? errno : 125;
}

static int poke_abstract(const char *name)
{
        struct sockaddr_un sa = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        size_t n = strlen(name);

        if (fd < 0 || n + 1 > sizeof(sa.sun_path))
                return check(-1);
        memcpy(sa.sun_path + 1, name, n);
        return check(connect(fd, (struct sockaddr *) &sa,
                             (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + n)));
}

/* Listens at an abstract address until killed. */
static int poke_listen(const char *name)
{
        struct sockaddr_un sa = {.sun_family = AF_UNIX};
        size_t n = strlen(name);
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd < 0 || n + 1 > sizeof(sa.sun_path))
                return check(-1);
        memcpy(sa.sun_path + 1, name, n);
        if (bind(fd, (struct sockaddr *) &sa, (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + n)) <
                            0 ||
            listen(fd, 10) < 0)
                return check(-1);
        for (;;)
                pause();
}

/* Sends the standard input to the stream socket PATH, and writes the answer to the standard output. */
static int poke_talk(const char *path)
{
        struct sockaddr_un sa = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        char text[4096];
        ssize_t n;

        if (fd < 0 || strlen(path) >= sizeof(sa.sun_path))
                return check(-1);
        memcpy(sa.sun_path, path, strlen(path));
        if (connect(fd, (struct sockaddr *) &sa, sizeof(sa)) < 0)
                return check(-1);
        while ((n = read(0, text, sizeof(text))) > 0)
                if (write(fd, text, (size_t) n) != n)
                        return check(-1);
        while ((n = read(fd, text, sizeof(text))) > 0)
                if (write(1, text, (size_t) n) != n)
                        return check(-1);
        return check(n);
}

static int poke_read(const char *path)
{
        char c;
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

        if (fd < 0)
                return check(-1);
        ssize_t n = read(fd, &c, 1);
        if (n == 0) {
                errno = ENODATA;
                return check(-1);
        }
        return check(n);
}

static int poke_write(const char *path)
{
        int fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);

        return check(fd < 0 ? -1 : write(fd, "x", 1));
}

static int poke_open_for_writing(const char *path)
{
        return check(open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK));
}

static int poke_umount(const char *path)
{
        return check(umount2(path, MNT_DETACH));
}

static int poke_mount(const char *path)
{
        return check(mount("none", path, "tmpfs", 0, NULL));
}

static int poke_mknod(const char *path)
{
        return check(mknod(path, S_IFCHR | 0600, makedev(1, 3)));
}

static int poke_keyctl(const char *unused)
{
        (void) unused;
        return check(syscall(SYS_add_key, "user", "acnspawn-test", "x", 1L, -3L));
}

static int poke_kill(const char *pid)
{
        return check(kill(atoi(pid), 0));
}

static int poke_trace(const char *pid)
{
        long r = ptrace(PTRACE_SEIZE, atoi(pid), NULL, NULL);

        if (r < 0)
                return check(r);
        (void) ptrace(PTRACE_INTERRUPT, atoi(pid), NULL, NULL);
        (void) waitpid(atoi(pid), NULL, __WALL);
        (void) ptrace(PTRACE_DETACH, atoi(pid), NULL, NULL);
        return 0;
}

/* Makes standard output a pipe of packets, writes N of them, a line each, and exits. */
static int poke_packets(const char *n)
{
        char line[32];

        if (fcntl(STDOUT_FILENO, F_SETFL, O_WRONLY | O_DIRECT) < 0)
                return check(-1);
        for (int i = 0; i < atoi(n); i++) {
                int size = snprintf(line, sizeof(line), "%d\n", i);
                if (write(STDOUT_FILENO, line, (size_t) size) != size)
                        return check(-1);
        }
        return 0;
}

static int poke_chroot(const char *path)
{
        return check(chroot(path));
}

/* Uses N megabytes and says when it has them. */
/* Creates as many inotify instances as it can, then creates the file NAME, and keeps the instances until
 * killed. */
/* Mounts a file system at PATH that has one file, "program", with the content of this program, and serves it, in a child: nothing
 * is answered while that is stopped. After SIGUSR1 it takes requests and answers none: who waits for one cannot be killed. USER:PATH:
 * the kernel counts it as mounted by that user. */
static volatile sig_atomic_t fuse_is_silent;
static const char *fuse_mark; /* is made once there is a request that is not answered */

static void be_silent(int sig)
{
        (void) sig;
        fuse_is_silent = 1;
}

static void fuse_attributes(struct fuse_attr *a, uint64_t node, uint64_t size)
{
        *a = (struct fuse_attr){.ino = node,
                                .size = node == FUSE_ROOT_ID ? 0 : size,
                                .mode = node == FUSE_ROOT_ID ? S_IFDIR | 0755 : S_IFREG | 0755,
                                .nlink = 1,
                                .blksize = 4096};
}

static void fuse_answer(int fd, uint64_t unique, int error, const void *p, size_t n)
{
        struct fuse_out_header h = {.len = (uint32_t) (sizeof(h) + n), .error = error, .unique = unique};
        struct iovec v[] = {{&h, sizeof(h)}, {(void *) (uintptr_t) p, n}};

        if (writev(fd, v, 2) < 0 && errno != ENOENT)
                _exit(1);
}

static void fuse_serve(int fd, const char *program, size_t size)
{
        static char request[1 << 20];

        (void) signal(SIGUSR1, be_silent);
        for (;;) {
                ssize_t n = read(fd, request, sizeof(request));
                if (n < (ssize_t) sizeof(struct fuse_in_header))
                        _exit(0);
                if (fuse_is_silent && fuse_mark)
                        (void) close(open(fuse_mark, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
                if (fuse_is_silent)
                        continue;
                const struct fuse_in_header *h = (const void *) request;
                const void *argument = request + sizeof(*h);
                if (h->opcode == FUSE_INIT) {
                        const struct fuse_init_in *in = argument;
                        struct fuse_init_out out = {.major = FUSE_KERNEL_VERSION,
                                                    .minor = in->minor,
                                                    .max_readahead = in->max_readahead,
                                                    .max_write = 65536};
                        fuse_answer(fd, h->unique, 0, &out, sizeof(out));
                } else if (h->opcode == FUSE_LOOKUP && strcmp(argument, "program") == 0) {
                        struct fuse_entry_out out = {.nodeid = 2};
                        fuse_attributes(&out.attr, 2, size);
                        fuse_answer(fd, h->unique, 0, &out, sizeof(out));
                } else if (h->opcode == FUSE_GETATTR) {
                        struct fuse_attr_out out = {};
                        fuse_attributes(&out.attr, h->nodeid, size);
                        fuse_answer(fd, h->unique, 0, &out, sizeof(out));
                } else if (h->opcode == FUSE_OPEN || h->opcode == FUSE_OPENDIR) {
                        struct fuse_open_out out = {.open_flags = FOPEN_KEEP_CACHE};
                        fuse_answer(fd, h->unique, 0, &out, sizeof(out));
                } else if (h->opcode == FUSE_READ) {
                        const struct fuse_read_in *in = argument;
                        size_t left = in->offset < size ? size - in->offset : 0;
                        fuse_answer(fd, h->unique, 0, program + in->offset,
                                    left < in->size ? left : in->size);
                } else if (h->opcode == FUSE_RELEASE || h->opcode == FUSE_FLUSH ||
                           h->opcode == FUSE_RELEASEDIR)
                        fuse_answer(fd, h->unique, 0, NULL, 0);
                else if (h->opcode != FUSE_FORGET && h->opcode != FUSE_BATCH_FORGET &&
                         h->opcode != FUSE_INTERRUPT)
                        fuse_answer(fd, h->unique, h->opcode == FUSE_LOOKUP ? -ENOENT : -ENOSYS, NULL, 0);
        }
}

static int poke_fuse(const char *path)
{
        unsigned user = *path == '/' ? 0 : (unsigned) strtoul(path, (char **) &path, 10);
        int program = open("/proc/self/exe", O_RDONLY | O_CLOEXEC),
            fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
        struct stat st;
        char options[100];

        if (program < 0 || fd < 0 || fstat(program, &st) < 0)
                return check(-1);
        path += *path == ':';
        void *content = mmap(NULL, (size_t) st.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, program, 0);
        if (content == MAP_FAILED)
                return check(-1);
        snprintf(options, sizeof(options), "fd=%d,rootmode=40755,user_id=%u,group_id=0,allow_other", fd,
                 user);
        if (mount("fuse", path, "fuse", 0, options) < 0)
                return check(-1);
        pid_t pid = fork();
        if (pid == 0) {
                (void) close(0);
                (void) close(1);
                (void) close(2);
                fuse_serve(fd, content, (size_t) st.st_size);
        }
        return check(pid);
}

static void *serve_fuse(void *fd)
{
        fuse_serve(*(int *) fd, NULL, 0);
        return NULL;
}

/* Waits for its own file system, which it does not serve any more: SIGKILL ends neither thread, as the other one is in the table of
 * descriptors that keeps /dev/fuse open. */
static int poke_deadlock(const char *path)
{
        static int fd;
        char options[100], file[300];
        pthread_t thread;
        struct stat st;

        fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
        if (fd < 0)
                return check(-1);
        snprintf(options, sizeof(options), "fd=%d,rootmode=40755,user_id=0,group_id=0", fd);
        if (mount("fuse", path, "fuse", 0, options) < 0 ||
            pthread_create(&thread, NULL, serve_fuse, &fd) != 0 || stat(path, &st) < 0)
                return check(-1);
        fuse_mark = "/out/up";
        fuse_is_silent = 1;
        snprintf(file, sizeof(file), "%s/program", path);
        return check(stat(file, &st));
}

/* Makes so many cgroups below its own, or as many as there can be. */
static int poke_cgroups(const char *number)
{
        char path[64];
        int n = 0, r = 0;

        if (unshare(CLONE_NEWCGROUP) < 0 || mount("cgroup", "/srv", "cgroup2", 0, NULL) < 0)
                return check(-1);
        for (; n < atoi(number) && r == 0; n += r == 0) {
                snprintf(path, sizeof(path), "/srv/made-%d", n);
                r = check(mkdir(path, 0755));
        }
        printf("%d cgroups\n", n);
        return r;
}

/* Waits for signals, in the place of an app. */
static int poke_wait(const char *name)
{
        if (*name && close(open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644)) < 0)
                return check(-1);
        for (;;)
                pause();
}

/* Opens so many terminals, or as many as there are. */
static int poke_terminals(const char *number)
{
        int n = 0;

        while (n < atoi(number) && open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC) >= 0)
                n++;
        int r = n < atoi(number) ? check(-1) : 0;
        printf("%d terminals\n", n);
        return r;
}

/* A call with the numbers NUMBER:ARGUMENT:ARGUMENT:ARGUMENT. */
static int poke_call3(const char *numbers)
{
        unsigned long n[4] = {0};

        for (size_t i = 0; i < 4 && numbers; i++) {
                n[i] = strtoul(numbers, NULL, 0);
                numbers = strchr(numbers, ':');
                numbers = numbers ? numbers + 1 : NULL;
        }
        return check(syscall((long) n[0], n[1], n[2], n[3], 0, 0, 0));
}

static int poke_inotify(const char *name)
{
        while (inotify_init1(IN_CLOEXEC) >= 0)
                ;
        int r = check(-1);
        if (r != EMFILE || close(open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644)) < 0)
                return r;
        for (;;)
                pause();
}

static int poke_memory(const char *megabytes)
{
        size_t n = (size_t) atoi(megabytes) << 20;
        char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (p == MAP_FAILED)
                return check(-1);
        memset(p, 1, n);
        printf("have %s MB\n", megabytes);
        fflush(stdout);
        return 0;
}

/* The same, and keeps it until a signal ends the process. */
static int poke_hold(const char *megabytes)
{
        int r = poke_memory(megabytes);

        while (r == 0)
                pause();
        return r;
}

/* A new thread and newer system calls, which an outdated filter would kill. */
static int poke_modern(const char *unused)
{
        struct {
                uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
        } args = {.exit_signal = SIGCHLD};
        int status;

        (void) unused;
        long pid = syscall(SYS_clone3, &args, sizeof(args));
        if (pid == 0)
                _exit(7);
        /* Refusing with ENOSYS is fine too: libraries fall back on clone(). */
        if (pid < 0)
                return errno == ENOSYS ? 0 : check(-1);
        if (waitpid((pid_t) pid, &status, 0) < 0)
                return check(-1);
        return WIFEXITED(status) && WEXITSTATUS(status) == 7 ? 0 : 124;
}

/* Any system call, with one argument: "NUMBER" or "NUMBER:ARGUMENT". */
static int poke_call(const char *number)
{
        const char *argument = strchr(number, ':');

        return check(syscall(atoi(number), argument ? strtoul(argument + 1, NULL, 0) : 0, 0, 0, 0, 0, 0));
}

/* The same by the system call entry of 32-bit x86 programs. */
static int poke_call32(const char *number)
{
#ifdef __x86_64__
        const char *argument = strchr(number, ':');
        long r = atoi(number), first = argument ? strtol(argument + 1, NULL, 0) : 0;

        __asm__ volatile("int $0x80"
                         : "+a"(r)
                         : "b"(first), "c"(0L), "d"(0L)
                         : "memory", "r8", "r9", "r10", "r11");
        if ((int) r >= 0)
                return 0;
        errno = -(int) r;
#else
        (void) number;
        errno = ENOTSUP;
#endif
        return check(-1);
}

static int poke_segv(const char *unused)
{
        (void) unused;
        signal(SIGSEGV, SIG_DFL);
        return raise(SIGSEGV);
}

/* Leaves behind a process in a separate session that ignores SIGTERM, and exits. */
static int poke_daemon(const char *file)
{
        pid_t pid = fork();

        if (pid != 0)
                return check(pid);
        setsid();
        signal(SIGTERM, SIG_IGN);
        signal(SIGHUP, SIG_IGN);
        if (fork() != 0)
                _exit(0);
        close(open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
        for (;;)
                pause();
}

/* Replies to each datagram at this UDP port, of IPv4 and IPv6, with its content and "!", until killed. */
static int poke_udp_echo(const char *port)
{
        struct sockaddr_in6 sa = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t) atoi(port))}, from;
        int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        char data[512];

        if (fd < 0 || bind(fd, (struct sockaddr *) &sa, sizeof(sa)) < 0)
                return check(-1);
        for (;;) {
                socklen_t size = sizeof(from);
                ssize_t n = recvfrom(fd, data, sizeof(data) - 1, 0, (struct sockaddr *) &from, &size);
                if (n < 0)
                        return check(-1);
                data[n] = '!';
                (void) sendto(fd, data, (size_t) n + 1, 0, (struct sockaddr *) &from, size);
        }
}

/* Sends "hello" by UDP, "FROM,TO,PORT" being addresses of IPv6: bound to FROM, which may be an address of another host. With '@' in front of FROM
 * it is only the source of this message. */
static int poke_send_from(const char *argument)
{
        struct sockaddr_in6 from = {.sin6_family = AF_INET6}, to = {.sin6_family = AF_INET6};
        char source[64], target[64];
        unsigned port;
        int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0), one = 1;
        bool once = *argument == '@';

        if (fd < 0 || sscanf(argument + once, "%63[^,],%63[^,],%u", source, target, &port) != 3 ||
            inet_pton(AF_INET6, source, &from.sin6_addr) != 1 ||
            inet_pton(AF_INET6, target, &to.sin6_addr) != 1)
                return EINVAL;
        to.sin6_port = htons((uint16_t) port);
        if (setsockopt(fd, IPPROTO_IPV6, IPV6_FREEBIND, &one, sizeof(one)) < 0 ||
            (!once && bind(fd, (struct sockaddr *) &from, sizeof(from)) < 0))
                return check(-1);
        union {
                char data[CMSG_SPACE(sizeof(struct in6_pktinfo))];
                struct cmsghdr head;
        } control = {.head = {.cmsg_level = IPPROTO_IPV6,
                              .cmsg_type = IPV6_PKTINFO,
                              .cmsg_len = CMSG_LEN(sizeof(struct in6_pktinfo))}};
        struct in6_pktinfo info = {.ipi6_addr = from.sin6_addr};
        struct iovec v = {.iov_base = (char *) "hello", .iov_len = 5};
        struct msghdr m = {.msg_name = &to, .msg_namelen = sizeof(to), .msg_iov = &v, .msg_iovlen = 1};
        if (once) {
                memcpy(CMSG_DATA(&control.head), &info, sizeof(info));
                m.msg_control = &control;
                m.msg_controllen = sizeof(control);
        }
        return check(sendmsg(fd, &m, 0));
}

static void tell(const char *what, long r)
{
        printf("%s: %s\n", what, r >= 0 ? "possible" : strerror(errno));
        fflush(stdout);
}

static void door_of_connections(int fd, const struct sockaddr_in *target)
{
        const struct sockaddr none = {.sa_family = AF_UNSPEC};
        struct sockaddr_in any = {.sin_family = AF_INET};
        int c = accept(fd, NULL, NULL), more;

        tell("tcp accept", c);
        tell("tcp answer", send(c, "hello", 5, 0));
        tell("tcp disconnect", connect(c, &none, sizeof(none)));
        tell("tcp connect", connect(c, (const struct sockaddr *) target, sizeof(*target)));
        tell("tcp send at once",
             sendto(c, "x", 1, MSG_FASTOPEN, (const struct sockaddr *) target, sizeof(*target)));
        tell("tcp bind", bind(c, (struct sockaddr *) &any, sizeof(any)));
        more = accept(fd, NULL, NULL);
        tell("tcp accept again", more);
        (void) connect(fd, &none, sizeof(none));
        tell("tcp connect the listener", connect(fd, (const struct sockaddr *) target, sizeof(*target)));
        (void) shutdown(fd, SHUT_RDWR); /* so that the pod ends */
}

static void door_of_datagrams(int fd, const struct sockaddr_in *target)
{
        struct sockaddr_storage peer;
        socklen_t size = sizeof(peer);
        char data[64];

        tell("udp send", sendto(fd, "door", 4, 0, (const struct sockaddr *) target, sizeof(*target)));
        tell("udp receive", recvfrom(fd, data, sizeof(data), 0, (struct sockaddr *) &peer, &size));
        tell("udp answer", sendto(fd, "hello", 5, 0, (struct sockaddr *) &peer, size));
        tell("udp connect", connect(fd, (const struct sockaddr *) target, sizeof(*target)));
        tell("udp connect to the peer", connect(fd, (struct sockaddr *) &peer, size));
        tell("udp answer connected", send(fd, "again", 5, 0));
}

static void door_of_unix_datagrams(int fd, const char *name)
{
        struct sockaddr_un sa = {.sun_family = AF_UNIX};
        socklen_t size = (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
        char data[64];

        memcpy(sa.sun_path + 1, name, strlen(name));
        tell("unix receive", recv(fd, data, sizeof(data), 0));
        tell("unix send", sendto(fd, "door", 4, 0, (struct sockaddr *) &sa, size));
        tell("unix connect", connect(fd, (struct sockaddr *) &sa, size));
}

/* What an app can do with the sockets that it was started by: "PORT", of the host's 127.0.0.1, where nobody has to answer; the abstract
 * socket of that name is tried, too. In its own network it can do anything. */
static int poke_door(const char *port)
{
        struct sockaddr_in target = {.sin_family = AF_INET,
                                     .sin_port = htons((uint16_t) atoi(port)),
                                     .sin_addr.s_addr = htonl(INADDR_LOOPBACK)},
                           own = target;
        socklen_t size = sizeof(own);

        for (int fd = 3; fd < 3 + atoi(getenv("LISTEN_FDS") ? getenv("LISTEN_FDS") : "0"); fd++) {
                int family = 0, type = 0;
                socklen_t n = sizeof(int);

                (void) getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &n);
                (void) getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n);
                if (family == AF_UNIX)
                        door_of_unix_datagrams(fd, port);
                else if (type == SOCK_DGRAM)
                        door_of_datagrams(fd, &target);
                else
                        door_of_connections(fd, &target);
        }
        int server = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
        own.sin_port = 0;
        tell("own bind", bind(server, (struct sockaddr *) &own, sizeof(own)));
        (void) listen(server, 1);
        (void) getsockname(server, (struct sockaddr *) &own, &size);
        tell("own connect", connect(client, (struct sockaddr *) &own, size));
        return 0;
}

/* Types on the terminal that we have. */
static int poke_type(const char *what)
{
        int fd = open("/dev/tty", O_RDWR | O_CLOEXEC);
        long r = fd < 0 ? -1 : 0;

        for (; r >= 0 && *what; what++)
                r = ioctl(fd, TIOCSTI, what);
        return check(r);
}

/* Where sd_notify() sends to. */
static int notify_socket(struct sockaddr_un *ret)
{
        const char *path = getenv("NOTIFY_SOCKET");

        *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
        if (!path || strlen(path) >= sizeof(ret->sun_path))
                return -1;
        memcpy(ret->sun_path, path, strlen(path));
        return socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

/* Sends a message as sd_notify() does, and ends. */
static int poke_notify(const char *text)
{
        struct sockaddr_un sa;
        int fd = notify_socket(&sa);

        if (fd < 0)
                return ENOENT;
        return check(sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *) &sa, sizeof(sa)));
}

/* The same, and waits like sd_notify_barrier() until the message has been processed: the descriptor that
 * accompanies it is closed then. */
static int poke_notify_barrier(const char *text)
{
        struct sockaddr_un sa;
        struct iovec v = {.iov_base = (char *) text, .iov_len = strlen(text)};
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int))];
        } control = {.header = {.cmsg_len = CMSG_LEN(sizeof(int)),
                                .cmsg_level = SOL_SOCKET,
                                .cmsg_type = SCM_RIGHTS}};
        struct msghdr m = {.msg_name = &sa,
                           .msg_namelen = sizeof(sa),
                           .msg_iov = &v,
                           .msg_iovlen = 1,
                           .msg_control = &control,
                           .msg_controllen = sizeof(control)};
        int fds[2], fd = notify_socket(&sa);
        char byte;

        if (fd < 0 || pipe2(fds, O_CLOEXEC) < 0)
                return ENOENT;
        memcpy(CMSG_DATA(&control.header), &fds[1], sizeof(int));
        int r = check(sendmsg(fd, &m, MSG_NOSIGNAL));
        close(fds[1]);
        return r ? r : check(read(fds[0], &byte, 1));
}

/* Sends such messages until killed. */
static int poke_notify_without_end(const char *text)
{
        struct sockaddr_un sa;
        int fd = notify_socket(&sa);

        for (;;)
                if (fd < 0 ||
                    sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *) &sa, sizeof(sa)) < 0)
                        return check(-1);
}

static void *go_on(void *unused)
{
        for (;;)
                pause();
        return NULL;
}

/* The process continues without its main thread. */
static int poke_leader(const char *unused)
{
        pthread_t thread;

        if (pthread_create(&thread, NULL, go_on, NULL) != 0)
                return check(-1);
        syscall(SYS_exit, 0);
        return 0;
}

/* The number of processes that can be created, at most this many; all of them exist at the same time. */
static int poke_forks(const char *max)
{
        int wanted = atoi(max), made = 0;

        while (made < wanted) {
                pid_t pid = fork();
                if (pid < 0)
                        break;
                if (pid == 0) {
                        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
                        for (;;)
                                pause();
                }
                made++;
        }
        printf("made %d\n", made);
        return 0;
}

/* A fork bomb: for this many seconds each process forks as often as it can. Prints the maximum number of
 * processes. */
static int poke_bomb(const char *seconds)
{
        struct counters {
                atomic_int now, most;
        } *c = mmap(NULL, sizeof(*c), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        time_t end = time(NULL) + atoi(seconds);
        pid_t first = getpid();

        if (c == MAP_FAILED)
                return check(-1);
        signal(SIGCHLD, SIG_IGN);
        c->now = c->most = 1;
        while (time(NULL) <= end) {
                pid_t pid = fork();
                if (pid == 0) {
                        int n = ++c->now, most = c->most;
                        while (n > most && !atomic_compare_exchange_weak(&c->most, &most, n))
                                ;
                }
                if (pid < 0)
                        usleep(1000); /* others run on this machine, too */
        }
        if (getpid() != first) {
                c->now--;
                _exit(0);
        }
        printf("most %d\n", c->most);
        return 0;
}

static const struct {
        const char *name;
        int (*function)(const char *argument);
} pokes[] = {
                {"abstract", poke_abstract},
                {"read", poke_read},
                {"write", poke_write},
                {"open", poke_open_for_writing},
                {"umount", poke_umount},
                {"mount", poke_mount},
                {"mknod", poke_mknod},
                {"keyctl", poke_keyctl},
                {"kill", poke_kill},
                {"chroot", poke_chroot},
                {"memory", poke_memory},
                {"hold", poke_hold},
                {"modern", poke_modern},
                {"segv", poke_segv},
                {"daemon", poke_daemon},
                {"call", poke_call},
                {"call32", poke_call32},
                {"trace", poke_trace},
                {"packets", poke_packets},
                {"udp-echo", poke_udp_echo},
                {"send-from", poke_send_from},
                {"door", poke_door},
                {"type", poke_type},
                {"leader", poke_leader},
                {"notify", poke_notify},
                {"listen", poke_listen},
                {"talk", poke_talk},
                {"notify-without-end", poke_notify_without_end},
                {"notify-barrier", poke_notify_barrier},
                {"forks", poke_forks},
                {"bomb", poke_bomb},
                {"inotify", poke_inotify},
                {"terminals", poke_terminals},
                {"fuse", poke_fuse},
                {"deadlock", poke_deadlock},
                {"cgroups", poke_cgroups},
                {"wait", poke_wait},
                {"call3", poke_call3},
};

int main(int argc, char **argv)
{
        for (size_t i = 0; argc >= 2 && i < sizeof(pokes) / sizeof(pokes[0]); i++) {
                if (strcmp(pokes[i].name, argv[1]) != 0)
                        continue;
                errno = 0;
                int r = pokes[i].function(argc > 2 ? argv[2] : "");
                if (r == 0)
                        printf("%s %s: possible\n", argv[1], argc > 2 ? argv[2] : "");
                else
                        printf("%s %s: %s\n", argv[1], argc > 2 ? argv[2] : "", strerror(r));
                return r;
        }
        fprintf(stderr, "usage: poke WHAT [ARGUMENT]\n");
        return 2;
}
