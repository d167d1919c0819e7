/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Calls to the systemd of a pod, over its private socket.
 *
 * It accepts a peer as root only if the peer is root in its own user namespace and a process in its own pid
 * namespace. So a child process joins both, and its child, which is then in them, makes the calls. No other
 * namespace of the pod is joined: the socket is reached through a descriptor of the root of the pod's PID 1.
 * Processes of the pod cannot access these processes: they are not dumpable, and their memory belongs to the
 * host's user namespace. Only the command line would be readable, and is therefore cleared. */

#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <sys/un.h>

#include "stage0/control/control-internal.h"
#include "stage1/enter-protocol.h"

typedef struct Call {
        Pod *pod;
        int leader_fd, root_fd, sock;
        int namespaces; /* of the pod that are not those of the host */
        /* NULL: no call, the connection itself is passed back */
        int (*function)(sd_bus *bus, void *data, int *ret_fd, Error *e);
        void *data;
        size_t size;
} Call;

typedef struct Answer {
        int32_t code;
        char message[768], hint[512];
        char data[MANAGER_DATA_MAX];
} Answer;

static void bus_unrefp(sd_bus **b)
{
        sd_bus_flush_close_unref(*b);
}

int manager_unit_path(const char *unit, char **ret)
{
        return sd_bus_path_encode("/org/freedesktop/systemd1/unit", unit, ret);
}

int manager_error(const sd_bus_error *error, int r, const char *what, Error *e)
{
        return error_set(e, r, "The pod's systemd cannot %s: %s", what, error->message ?: strerror(-r));
}

/* --- In the pod ---------------------------------------------------------------------------------------- */

static int become_root_of_pod(void)
{
        if (setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0 ||
            prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
                return -errno;
        return 0;
}

static int connect_manager(const Call *c, sd_bus **ret)
{
        _cleanup_(bus_unrefp) sd_bus *bus = NULL;
        char address[96];

        snprintf(address, sizeof(address), "unix:path=/proc/self/fd/%d/run/systemd/private", c->root_fd);
        int r = sd_bus_new(&bus);
        if (r >= 0)
                r = sd_bus_set_address(bus, address);
        if (r >= 0)
                r = sd_bus_start(bus);
        if (r >= 0)
                *ret = TAKE_PTR(bus);
        return r;
}

/* A connected socket, before the authentication. */
static int connect_socket(const Call *c, int *ret_fd)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/run/systemd/private",
                 c->root_fd);
        if (fd < 0 || connect(fd, (const struct sockaddr *) &address, sizeof(address)) < 0)
                return -errno;
        *ret_fd = TAKE_FD(fd);
        return 0;
}

static _noreturn_ void inner_child(const Call *c)
{
        _cleanup_(bus_unrefp) sd_bus *bus = NULL;
        _cleanup_error_ Error e = ERROR_NULL;
        Answer answer = {};
        int fd = -EBADF, r = become_root_of_pod();

        if (r >= 0)
                r = c->function ? connect_manager(c, &bus) : connect_socket(c, &fd);
        if (r < 0)
                r = error_set_errno(&e, r, "Cannot reach the systemd of pod %s", pod_display_name(c->pod));
        else if (c->function)
                r = c->function(bus, c->data, &fd, &e);
        answer.code = MIN(r, 0);
        snprintf(answer.message, sizeof(answer.message), "%s", e.message ?: "");
        snprintf(answer.hint, sizeof(answer.hint), "%s", e.hint ?: "");
        if (c->size > 0)
                memcpy(answer.data, c->data, c->size);
        (void) send_fds(c->sock, &answer, sizeof(answer), &fd, r >= 0 && fd >= 0 ? 1 : 0);
        _exit(0);
}

/* The addresses of the command line in /proc/self/stat (fields 48 and 49), which all processes of the pid
 * namespace can read. */
static void wipe_command_line(void)
{
        _cleanup_free_ char *text = NULL;
        unsigned long begin = 0, end = 0;

        if (read_file_at(AT_FDCWD, "/proc/self/stat", 4096, &text, NULL) < 0 || !strrchr(text, ')'))
                return;
        char *p = strrchr(text, ')') + 1;
        for (unsigned field = 3; field <= 49 && p; field++) {
                p = strchr(p, ' ');
                if (p && field == 48)
                        begin = strtoul(p, NULL, 10);
                if (p && field == 49)
                        end = strtoul(p, NULL, 10);
                if (p)
                        p++;
        }
        if (begin > 0 && begin < end)
                memset((char *) begin, 0, end - begin);
}

static _noreturn_ void outer_child(const Call *c)
{
        wipe_command_line();
        if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
            (c->namespaces != 0 && setns(c->leader_fd, c->namespaces) < 0) ||
            prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
                _exit(1);
        pid_t pid = fork();
        if (pid == 0)
                inner_child(c);
        if (pid > 0)
                (void) waitpid(pid, NULL, 0);
        _exit(pid < 0);
}

/* --- On the host --------------------------------------------------------------------------------------- */

static int take_answer(const Call *c, int sock, int *ret_fd, Error *e)
{
        int fd = -EBADF;
        size_t n_fds = 0;
        Answer answer;

        ssize_t n = recv_fds(sock, &answer, sizeof(answer), &fd, 1, &n_fds);
        if (n != (ssize_t) sizeof(answer))
                return error_set(e, -ECONNRESET, "The systemd of pod %s cannot be reached: the pod ends",
                                 pod_display_name(c->pod));
        if (answer.code < 0) {
                (void) error_set(e, answer.code, "%s", answer.message);
                return answer.hint[0] ? error_hint(e, answer.code, "%s", answer.hint) : answer.code;
        }
        if (c->size > 0)
                memcpy(c->data, answer.data, c->size);
        if (n_fds > 0 && ret_fd)
                *ret_fd = TAKE_FD(fd);
        safe_close(fd);
        return 0;
}

static int call_in_child(Call *c, int *ret_fd, Error *e)
{
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return error_set_errno(e, -errno, "Cannot create a pair of sockets");
        _cleanup_close_ int sock = pair[0];
        c->sock = pair[1];
        pid_t pid = fork();
        if (pid == 0)
                outer_child(c);
        safe_close(pair[1]);
        if (pid < 0)
                return error_set_errno(e, -errno, "Cannot fork");
        int r = take_answer(c, sock, ret_fd, e);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;
        return r;
}

/* The recorded pid may have been reused: checks that a process of the pod has it. */
static int open_leader(Pod *p, Call *c, Error *e)
{
        PodRuntime runtime = {};
        char path[64];
        int fds[ENTER_CGROUPS_MAX];
        size_t n = 0;

        int r = pod_runtime_read(p, &runtime);
        if (r >= 0 && runtime.leader <= 0)
                r = -ENOENT;
        if (r < 0)
                return error_set(e, -ESRCH, "Pod %s is not up yet", pod_display_name(p));
        c->leader_fd = (int) syscall(SYS_pidfd_open, runtime.leader, 0);
        snprintf(path, sizeof(path), "/proc/%d/root", (int) runtime.leader);
        c->root_fd = c->leader_fd < 0 ? -EBADF : open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (c->root_fd < 0)
                return error_set(e, -ESRCH, "Pod %s is about to end", pod_display_name(p));
        r = pod_cgroup_open_process(p, runtime.leader, fds, ELEMENTSOF(fds), &n);
        for (size_t i = 0; i < n; i++)
                safe_close(fds[i]);
        if (r == -ESRCH || process_signal(c->leader_fd, 0) < 0)
                return error_set(e, -ESRCH, "Pod %s is about to end", pod_display_name(p));
        return 0;
}

int pod_manager_call(Pod *p, int (*function)(sd_bus *bus, void *data, int *ret_fd, Error *e), void *data,
                     size_t size, int *ret_fd, Error *e)
{
        Call c = {
                        .pod = p,
                        .leader_fd = -EBADF,
                        .root_fd = -EBADF,
                        .namespaces = (p->config.host_pid ? 0 : CLONE_NEWPID) |
                                      (p->config.private_users ? CLONE_NEWUSER : 0),
                        .function = function,
                        .data = data,
                        .size = size,
        };
        int r = size > MANAGER_DATA_MAX ? error_set_errno(e, -E2BIG, "Cannot query the systemd of a pod")
                                        : open_leader(p, &c, e);

        /* On the host: no library is loaded in the pod's namespaces. */
        if (r >= 0)
                r = library_load(&systemd_library, e);
        if (r >= 0)
                r = call_in_child(&c, ret_fd, e);
        safe_close(c.leader_fd);
        safe_close(c.root_fd);
        return r;
}

/* The peer's credentials are those of the process that has called connect(2), even after the descriptor is
 * passed on. */
int pod_manager_connect(Pod *p, sd_bus **ret, Error *e)
{
        _cleanup_(bus_unrefp) sd_bus *bus = NULL;
        _cleanup_close_ int fd = -EBADF;

        int r = pod_manager_call(p, NULL, NULL, 0, &fd, e);
        if (r < 0)
                return r;
        r = sd_bus_new(&bus);
        if (r >= 0)
                r = sd_bus_set_fd(bus, fd, fd);
        if (r >= 0) {
                TAKE_FD(fd);
                r = sd_bus_start(bus);
        }
        if (r < 0)
                return error_set_errno(e, r, "Cannot reach the systemd of pod %s", pod_display_name(p));
        *ret = TAKE_PTR(bus);
        return 0;
}
