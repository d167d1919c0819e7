/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Restrictions of mounts that hold for root of the pod, too.
 *
 * An app that has CAP_SYS_ADMIN in the pod's user namespace could mount a read-only volume anew for writing:
 * the mount namespace that it is in belongs to that user namespace. The kernel forbids it for mounts that
 * came into a mount namespace of fewer privileges from one of more: there read-only, nodev and nosuid are
 * locked, and stay so in every clone. So a child of ours makes such a namespace, of the pod's users, in
 * which it finds our mounts locked, and sends back clones. This costs about a millisecond, and only apps
 * with that capability need it.
 */

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "stage0/mounts/mounts-internal.h"

#define AT_ONCE_MAX 250U /* the kernel passes 253 descriptors with one message */

static void place_name(char name[static 16], size_t i)
{
        snprintf(name, 16, "k%u", (unsigned) i);
}

/* Files are held by files, directories by directories. */
static int hold(PodMounts *m, int mount_fd, size_t i)
{
        char name[16];
        struct statx st;

        place_name(name, i);
        int r = fd_stat_cached(mount_fd, &st);
        if (r < 0)
                return r;
        if (!S_ISDIR(st.stx_mode)) {
                _cleanup_close_ int fd = openat(m->holder_fd, name,
                                                O_CREAT | O_EXCL | O_CLOEXEC | O_WRONLY | O_NOFOLLOW, 0600);
                if (fd < 0)
                        return -errno;
                return mount_attach(mount_fd, m->holder_fd, name);
        }
        return pod_mounts_hold(m, mount_fd, name);
}

static void release(PodMounts *m, size_t n)
{
        if (fchdir(m->holder_fd) < 0)
                return;
        for (size_t i = 0; i < n; i++) {
                char name[16];

                place_name(name, i);
                (void) umount2(name, MNT_DETACH | UMOUNT_NOFOLLOW);
                if (unlinkat(m->holder_fd, name, AT_REMOVEDIR) < 0)
                        (void) unlinkat(m->holder_fd, name, 0);
        }
}

static int clone_locked(int *fds, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                char name[16];

                place_name(name, i);
                int r = fds[i] = mount_clone(AT_FDCWD, name, true);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* A descriptor refers to a mount of the namespace that it was opened in; only the working directory is
 * carried over into a new one. */
static _noreturn_ void child(PodMounts *m, size_t n, int sock)
{
        int fds[AT_ONCE_MAX];
        int32_t r = 0;

        (void) prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        if (fchdir(m->holder_fd) < 0 || setns(m->userns_fd, CLONE_NEWUSER) < 0 || unshare(CLONE_NEWNS) < 0)
                r = -errno;
        if (r >= 0)
                r = clone_locked(fds, n);
        (void) send_fds(sock, &r, sizeof(r), fds, r < 0 ? 0 : n);
        _exit(0);
}

static int receive(int sock, int *fds, size_t n)
{
        int32_t code = -EIO;
        size_t n_fds = 0;

        ssize_t size = recv_fds(sock, &code, sizeof(code), fds, n, &n_fds);
        if (size == (ssize_t) sizeof(code) && code == 0 && n_fds == n)
                return 0;
        for (size_t i = 0; i < n_fds; i++)
                safe_close(fds[i]);
        return size < 0 ? (int) size : code < 0 ? code : -EIO;
}

static int fetch_locked(PodMounts *m, int *ret_fds, size_t n)
{
        int socks[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks) < 0)
                return -errno;
        pid_t pid = fork();
        if (pid == 0)
                child(m, n, socks[1]);
        int r = pid < 0 ? -errno : 0;
        safe_close(socks[1]);
        if (r >= 0)
                r = receive(socks[0], ret_fds, n);
        safe_close(socks[0]);
        if (pid > 0)
                (void) waitpid(pid, NULL, 0);
        return r;
}

int pod_mounts_lock(PodMounts *m, int *mount_fds, size_t n, Error *e)
{
        int locked[AT_ONCE_MAX], r = n > AT_ONCE_MAX ? -E2BIG : 0;
        size_t held = 0;

        for (; r >= 0 && held < n; held++)
                r = hold(m, mount_fds[held], held);
        if (r >= 0)
                r = fetch_locked(m, locked, n);
        release(m, held);
        if (r < 0)
                return error_set_errno(e, r, "Cannot lock the mounts of pod %s", pod_display_name(m->pod));
        for (size_t i = 0; i < n; i++) {
                safe_close(mount_fds[i]);
                mount_fds[i] = locked[i];
        }
        return 0;
}
