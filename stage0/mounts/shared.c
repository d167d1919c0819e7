/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Volumes of the host that pass on mounts both ways.
 *
 * The mounts in the namespace of this process are slaves: what is mounted on a clone of them never reaches the host. So the
 * volume is cloned in the host's namespace, by a child, which sends the clone back; it is attached in the namespace of the app
 * alone, and shares its mounts with the host from there. */

#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stage0/mounts/mounts-internal.h"

/* What the child sends: a descriptor comes with a code of 0. */
typedef struct SharedReply {
        int code;
        char message[512], hint[256];
} SharedReply;

static _noreturn_ void clone_in_host(const PodMounts *m, const Volume *v, const VolumeSettings *s, int sock)
{
        _cleanup_error_ Error e = ERROR_NULL;
        SharedReply reply = {};

        int fd = setns(m->host_fd, CLONE_NEWNS) < 0
                                 ? error_set_errno(&e, -errno,
                                                   "Cannot enter the mount namespace of the host")
                                 : volume_mount_in_host(v, s, &e);
        if (fd < 0) {
                reply.code = fd;
                snprintf(reply.message, sizeof(reply.message), "%s", e.message ?: strerror(-fd));
                snprintf(reply.hint, sizeof(reply.hint), "%s", e.hint ?: "");
        }
        _exit(send_fds(sock, &reply, sizeof(reply), &fd, fd >= 0) < 0);
}

static int receive(int sock, const Volume *v, Error *e)
{
        SharedReply reply = {};
        int fd = -EBADF;
        size_t n_fds = 0;

        ssize_t n = recv_fds(sock, &reply, sizeof(reply), &fd, 1, &n_fds);
        if (n != (ssize_t) sizeof(reply) || (reply.code == 0 && n_fds != 1)) {
                safe_close(fd);
                return error_set_errno(e, n < 0 ? (int) n : -EIO, "Cannot mount volume %s", v->name);
        }
        if (reply.code >= 0)
                return fd;
        reply.message[sizeof(reply.message) - 1] = reply.hint[sizeof(reply.hint) - 1] = 0;
        int r = error_set(e, reply.code, "%s", reply.message);
        return *reply.hint ? error_hint(e, r, "%s", reply.hint) : r;
}

int pod_mounts_clone_shared(PodMounts *m, const Volume *v, const VolumeSettings *s, Error *e)
{
        _cleanup_close_ int ours = -EBADF, theirs = -EBADF;
        int pair[2];

        if (m->userns_fd >= 0 || m->host_fd < 0)
                return error_set(
                                e, -EINVAL,
                                "Volume '%s' cannot have propagation=shared in a pod with users of its own: it takes --no-userns",
                                v->name);
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return error_set_errno(e, -errno, "Cannot mount volume %s", v->name);
        ours = pair[0];
        theirs = pair[1];
        pid_t pid = fork();
        if (pid < 0)
                return error_set_errno(e, -errno, "Cannot mount volume %s", v->name);
        if (pid == 0)
                clone_in_host(m, v, s, theirs);
        theirs = safe_close(theirs);
        int r = receive(ours, v, e);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;
        return r;
}
