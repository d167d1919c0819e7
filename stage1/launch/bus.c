/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The bus of a pod, one process for each client: "launch bus".
 *
 * There is no D-Bus daemon in a pod, and none is needed: the only service is the pod's systemd, which has a
 * private socket, without a bus. systemctl -M and busctl -M need a bus, though, at its well-known path in
 * the machine. If the pod is registered with the host's systemd-machined, the pod's systemd listens there
 * and starts this program for every connection.
 *
 * Only root of the host can reach that path, by joining the pod's namespaces: the apps' roots do not contain
 * it. In addition the client has to be root. It may then do what systemd permits root.
 *
 * The client may have ended the pod, and waits to be told that. When the pod's systemd leaves, it closes its
 * connection, and all processes of the pod get SIGTERM: what systemd sent before is still forwarded, for a
 * limited time if the client does not read.
 */

#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "stage1/launch/bus.h"

#define CLIENT_FD 3 /* sd_listen_fds(3) */
#define TIMEOUT_USEC UINT64_C(60000000)
#define END_SECONDS 2U /* after SIGTERM */

static int connect_manager(void)
{
        static const struct sockaddr_un address = {.sun_family = AF_UNIX,
                                                   .sun_path = "/run/systemd/private"};
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (fd < 0 || connect(fd, (const struct sockaddr *) &address, sizeof(address)) < 0)
                return -errno;
        return TAKE_FD(fd);
}

/* For systemd the UID 0 is sufficient; no capabilities are needed. */
static int drop_capabilities(void)
{
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};

        if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
            syscall(SYS_capset, &header, none) < 0)
                return -errno;
        return 0;
}

/* SIGALRM is not handled, and ends the process. */
static void limit_time(int sig)
{
        (void) sig;
        (void) alarm(END_SECONDS);
}

int bus_main(void)
{
        const struct sigaction on_term = {.sa_handler = limit_time, .sa_flags = SA_RESTART};
        struct ucred peer;
        socklen_t size = sizeof(peer);
        int flags = fcntl(CLIENT_FD, F_GETFL);

        if (flags < 0 || getsockopt(CLIENT_FD, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.uid != 0 ||
            fcntl(CLIENT_FD, F_SETFD, FD_CLOEXEC) < 0 || fcntl(CLIENT_FD, F_SETFL, flags | O_NONBLOCK) < 0 ||
            sigaction(SIGTERM, &on_term, NULL) < 0 || drop_capabilities() < 0)
                return 125;
        _cleanup_close_ int manager_fd = connect_manager();
        if (manager_fd < 0)
                return 125;
        const BusClient client = {.pid = (uint32_t) peer.pid, .own_pid = (uint32_t) getpid()};
        return bus_relay(CLIENT_FD, manager_fd, &client, TIMEOUT_USEC) < 0 ? 1 : 0;
}
