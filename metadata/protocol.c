/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sends and receives the messages of the control channel, and creates sealed memfds for data that is too
 * large for one.
 *
 * Messages are of one fixed size, so that a packet either is a message or is refused. Nothing here blocks: a
 * full or an empty channel is the caller's decision.
 */

#include <sys/mman.h>
#include <sys/socket.h>

#include "metadata/protocol.h"

int metadata_message_send(int channel, const MetadataMessage *m, int fd)
{
        /* The channel is non-blocking at both ends. */
        return send_fds(channel, m, sizeof(*m), &fd, fd >= 0 ? 1 : 0);
}

int metadata_message_receive(int channel, MetadataMessage *ret, int *ret_fd)
{
        _cleanup_close_ int fd = -EBADF;
        MetadataMessage m;
        size_t n_fds = 0;

        ssize_t n = recv_fds(channel, &m, sizeof(m), &fd, 1, &n_fds);
        if (n < 0)
                return n == -ECONNRESET ? 0 : (int) n;
        if (n == 0)
                return 0;
        if ((size_t) n != sizeof(m) || m.type == 0 || m.type >= _METADATA_MESSAGE_TYPE_MAX)
                return -EBADMSG;
        m.uuid[sizeof(m.uuid) - 1] = 0;
        m.signature[sizeof(m.signature) - 1] = 0;
        m.text[sizeof(m.text) - 1] = 0;
        *ret = m;
        *ret_fd = TAKE_FD(fd);
        return 1;
}

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

static int memfd_open(const char *name)
{
        /* Hosts may require the flag (vm.memfd_noexec=2); kernels before 6.3 do not have it. */
        int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

        if (fd < 0 && errno == EINVAL)
                fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
        return fd < 0 ? -errno : fd;
}

int metadata_memfd_new(const char *name, const void *p, size_t n, int *ret)
{
        _cleanup_close_ int fd = memfd_open(name);

        if (fd < 0)
                return fd;
        int r = loop_write(fd, p, n);
        if (r < 0)
                return r;
        if (fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
                return -errno;
        *ret = TAKE_FD(fd);
        return 0;
}
