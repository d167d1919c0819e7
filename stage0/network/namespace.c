/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The network namespace of a pod with networks.
 *
 * It is bound to a file, so that it exists before the pod's first process and after its last one: plugins
 * need it to find the host's side of what they have set up. It is owned by the user namespace of the host,
 * not the pod's. It is created in a child, so this process never leaves its own.
 */

#include <linux/magic.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include "stage0/network/network-internal.h"

/* Neither the kernel nor nspawn brings it up in a namespace created like this. */
static int raise_loopback(void)
{
        _cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};

        return fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) < 0 ? -errno : 0;
}

/* Capabilities in the pod's user namespace do not apply to this network namespace: CAP_NET_BIND_SERVICE and
 * CAP_NET_RAW, which apps have by default, have no effect here. This setting allows ports below 1024 and
 * ping. */
static int allow_any_port(void)
{
        (void) write_attribute_at(AT_FDCWD, "/proc/sys/net/ipv4/ping_group_range", "0 2147483647");
        return write_attribute_at(AT_FDCWD, "/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
}

static int bind_namespace(const char *path)
{
        return mount("/proc/self/ns/net", path, NULL, MS_BIND, NULL) < 0 ? -errno : 0;
}

enum { STEP_UNSHARE, STEP_LOOPBACK, STEP_PORTS, STEP_BIND, _STEP_MAX };

static const char *const step_messages[_STEP_MAX] = {
                [STEP_UNSHARE] = "Cannot create a network namespace",
                [STEP_LOOPBACK] = "Cannot bring up the loopback interface of a network namespace",
                [STEP_PORTS] = "Cannot write net.ipv4.ip_unprivileged_port_start of a network namespace",
                [STEP_BIND] = "Cannot bind a network namespace to a file",
};

typedef struct Outcome {
        int step, code;
} Outcome;

static Outcome work_in_child(const char *path, bool any_port)
{
        if (unshare(CLONE_NEWNET) < 0)
                return (Outcome){STEP_UNSHARE, -errno};
        int r = raise_loopback();
        if (r < 0)
                return (Outcome){STEP_LOOPBACK, r};
        r = any_port ? allow_any_port() : 0;
        if (r < 0)
                return (Outcome){STEP_PORTS, r};
        return (Outcome){STEP_BIND, bind_namespace(path)};
}

static int run_child(const char *path, bool any_port, Outcome *ret)
{
        int fds[2];

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        pid_t pid = fork();
        if (pid == 0) {
                (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
                Outcome o = work_in_child(path, any_port);
                _exit(loop_write(fds[1], &o, sizeof(o)) < 0);
        }
        int r = pid < 0 ? -errno : 0;
        safe_close(fds[1]);
        if (r >= 0 && loop_read(fds[0], ret, sizeof(*ret)) != (ssize_t) sizeof(*ret))
                r = -ECHILD;
        safe_close(fds[0]);
        if (pid > 0)
                (void) waitpid(pid, NULL, 0);
        return r;
}

int network_namespace_make(const char *path, bool any_port, Error *e)
{
        Outcome o = {};

        int r = mkdir_p(NETWORK_NETNS_DIRECTORY, 0755);
        if (r < 0)
                return error_set_errno(e, r, "Cannot create the directory " NETWORK_NETNS_DIRECTORY);
        r = write_file_new_at(AT_FDCWD, path, "", 0, 0444);
        if (r < 0)
                return error_set_errno(e, r, "Cannot create the file %s", path);
        r = run_child(path, any_port, &o);
        if (r < 0)
                return error_set_errno(e, r, "Cannot start a process to create a network namespace");
        if (o.code < 0 && (unsigned) o.step < _STEP_MAX)
                return error_set_errno(e, o.code, "%s", step_messages[o.step]);
        return 0;
}

static int open_namespace(const Pod *p)
{
        _cleanup_free_ char *path = NULL;

        if (network_namespace_path(p, &path) < 0)
                return -ENOMEM;
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        return fd < 0 ? -errno : fd;
}

int network_enter(const Pod *p, Error *e)
{
        _cleanup_close_ int fd = -EBADF;

        if (p->config.net != NET_NETWORKS)
                return 0;
        fd = open_namespace(p);
        if (fd < 0)
                return error_set_errno(e, fd, "Cannot open the network namespace of pod %s",
                                       pod_display_name(p));
        return setns(fd, CLONE_NEWNET) < 0
                               ? error_set_errno(e, -errno, "Cannot enter the network namespace of pod %s",
                                                 pod_display_name(p))
                               : 0;
}

int network_namespace_open(pid_t leader)
{
        char path[64];

        if (leader <= 0)
                return -ESRCH;
        snprintf(path, sizeof(path), "/proc/%d/ns/net", (int) leader);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

typedef struct InNamespace {
        int netns_fd, result;
        int (*function)(void *userdata);
        void *userdata;
} InNamespace;

static void *thread_in_namespace(void *userdata)
{
        InNamespace *x = userdata;

        x->result = setns(x->netns_fd, CLONE_NEWNET) < 0 ? -errno : x->function(x->userdata);
        return NULL;
}

/* A thread that enters the namespace and ends there, as returning from it could fail: the caller never leaves its own
 * namespace. */
int network_namespace_run(int netns_fd, int (*function)(void *userdata), void *userdata)
{
        InNamespace x = {.netns_fd = netns_fd, .function = function, .userdata = userdata};
        pthread_t thread;

        int r = thread_start(&thread, thread_in_namespace, &x);
        if (r < 0)
                return r;
        threads_join(&thread, 1);
        return x.result;
}

typedef struct SocketKind {
        int family, type;
} SocketKind;

static int open_socket(void *userdata)
{
        const SocketKind *k = userdata;
        int fd = socket(k->family, k->type | SOCK_CLOEXEC, 0);

        return fd < 0 ? -errno : fd;
}

int network_socket(const Pod *p, pid_t leader, int family, int type)
{
        SocketKind kind = {.family = family, .type = type};
        _cleanup_close_ int fd = -EBADF;

        if (p->config.net == NET_HOST)
                return open_socket(&kind);
        fd = p->config.net == NET_NETWORKS ? open_namespace(p) : network_namespace_open(leader);
        return fd < 0 ? fd : network_namespace_run(fd, open_socket, &kind);
}

bool network_namespace_is_bound(const char *path)
{
        struct statfs st;

        return statfs(path, &st) >= 0 && st.f_type == NSFS_MAGIC;
}

int network_namespace_remove(const char *path, Error *e)
{
        if (umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) < 0 && errno != EINVAL && errno != ENOENT)
                return error_set_errno(e, -errno, "Cannot unmount the network namespace %s", path);
        if (unlink(path) < 0 && errno != ENOENT)
                return error_set_errno(e, -errno, "Cannot remove %s", path);
        return 0;
}
