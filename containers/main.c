/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn-control: serves one app of a pod that may launch others. Not meant to be started by hand: the supervisor of the pod gives
 * it a channel as descriptor 3 (containers.h), and the user and group to run as. */

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "containers/containers.h"
#include "metadata/drop.h"

static int parse_arguments(int argc, char **argv, uint32_t *ret_uid, uint32_t *ret_gid, Error *e)
{
        for (int i = 1; i < argc; i++) {
                const char *uid = startswith(argv[i], "--uid="), *gid = startswith(argv[i], "--gid=");
                int r = uid ? parse_u32(uid, ret_uid) : gid ? parse_u32(gid, ret_gid) : -EINVAL;
                if (r < 0)
                        return error_set(e, r, "Unknown argument %s", argv[i]);
        }
        return 0;
}

static int check_channel(Error *e)
{
        socklen_t size = sizeof(int);
        int type = 0;

        if (getsockopt(CONTROL_CHANNEL_FD, SOL_SOCKET, SO_TYPE, &type, &size) >= 0 && type == SOCK_SEQPACKET)
                return 0;
        (void) error_set(e, -EINVAL, "There is no channel on descriptor %d", CONTROL_CHANNEL_FD);
        return error_hint(e, -EINVAL, CONTROL_PROGRAM " is started by acnspawn for an app, never by hand.");
}

/* So that a process that reads the supervisor's output to its end need not wait for this one. */
static int release_streams(Error *e)
{
        int fd = open("/dev/null", O_RDWR | O_CLOEXEC | O_NOCTTY);
        int r = fd < 0 ? -errno : 0;

        for (int i = 0; r >= 0 && i <= STDERR_FILENO; i++)
                if (dup2(fd, i) < 0)
                        r = -errno;
        if (fd > STDERR_FILENO)
                safe_close(fd);
        return r < 0 ? error_set_errno(e, r, "Cannot use the null device") : 0;
}

/* The channel does not block, and the socket is there already. */
static int receive_listener(int *ret, Error *e)
{
        size_t n_fds = 0;
        char byte;

        ssize_t n = recv_fds(CONTROL_CHANNEL_FD, &byte, 1, ret, 1, &n_fds);
        while (n == -EAGAIN) {
                (void) usleep(1000);
                n = recv_fds(CONTROL_CHANNEL_FD, &byte, 1, ret, 1, &n_fds);
        }
        return n == 1 && n_fds == 1 ? 0 : error_set(e, -EBADMSG, "The supervisor has sent no socket");
}

static int run(int argc, char **argv, Error *e)
{
        uint32_t uid = UINT32_MAX, gid = UINT32_MAX;
        int listen_fd = -EBADF;

        int r = parse_arguments(argc, argv, &uid, &gid, e);
        if (r >= 0)
                r = check_channel(e);
        if (r >= 0)
                r = release_streams(e);
        if (r >= 0)
                r = metadata_drop(uid, gid, 8 * CONTROL_CONNECTIONS_MAX, CONTROL_TASKS_MAX, e);
        if (r >= 0)
                r = receive_listener(&listen_fd, e);
        if (r < 0)
                return r;
        (void) signal(SIGPIPE, SIG_IGN);
        return control_serve(CONTROL_CHANNEL_FD, listen_fd, e);
}

int main(int argc, char **argv)
{
        _cleanup_error_ Error e = ERROR_NULL;

        int r = run(argc, argv, &e);
        if (r < 0)
                error_print(&e, r);
        _exit(r < 0 ? EXIT_FAILURE : EXIT_SUCCESS); /* threads may still wait */
}
