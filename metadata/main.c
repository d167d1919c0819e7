/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn-metadata: the App Container metadata service of one pod.
 *
 * Not meant to be started by hand: its parent gives it a control channel as descriptor 3 (see metadata.h).
 * It gets the user and group to run as, drops everything it does not need, and serves until its parent ends.
 */

#include <sys/socket.h>

#include "library/libcrypto.h"
#include "metadata/drop.h"
#include "metadata/server.h"

static int parse_id(const char *argument, const char *value, uint32_t *ret, Error *e)
{
        int r = parse_u32(value, ret);

        if (r >= 0 && *ret == UINT32_MAX)
                r = -ERANGE;
        return r < 0 ? error_set_errno(e, r, "%s is not a user or group number", argument) : 0;
}

static int parse_arguments(int argc, char **argv, uid_t *ret_uid, gid_t *ret_gid, Error *e)
{
        uint32_t uid = UINT32_MAX, gid = UINT32_MAX;
        int r = 0;

        for (int i = 1; i < argc && r >= 0; i++) {
                const char *value;
                if ((value = startswith(argv[i], "--uid=")))
                        r = parse_id(argv[i], value, &uid, e);
                else if ((value = startswith(argv[i], "--gid=")))
                        r = parse_id(argv[i], value, &gid, e);
                else
                        r = error_set(e, -EINVAL, "Unknown argument %s", argv[i]);
        }
        if (r < 0)
                return r;
        *ret_uid = uid;
        *ret_gid = gid;
        return 0;
}

static int check_channel(Error *e)
{
        int type = 0, flags;
        socklen_t size = sizeof(type);

        if (getsockopt(METADATA_CHANNEL_FD, SOL_SOCKET, SO_TYPE, &type, &size) < 0 ||
            type != SOCK_SEQPACKET) {
                error_set(e, -EINVAL, "There is no control channel on descriptor %d", METADATA_CHANNEL_FD);
                return error_hint(e, -EINVAL,
                                  METADATA_PROGRAM " is started by acnspawn for a pod, never by hand.");
        }
        flags = fcntl(METADATA_CHANNEL_FD, F_GETFL);
        if (flags < 0 || fcntl(METADATA_CHANNEL_FD, F_SETFL, flags | O_NONBLOCK) < 0 ||
            fcntl(METADATA_CHANNEL_FD, F_SETFD, FD_CLOEXEC) < 0)
                return error_set_errno(e, -errno, "Cannot set up the control channel");
        return 0;
}

static int run(int argc, char **argv, Error *e)
{
        uid_t uid;
        gid_t gid;

        int r = parse_arguments(argc, argv, &uid, &gid, e);
        if (r >= 0)
                r = check_channel(e);
        /* It cannot be loaded later, without a file system. */
        if (r >= 0)
                r = library_load(&crypto_library, e);
        if (r >= 0)
                r = metadata_drop(uid, gid, METADATA_CONNECTIONS_MAX, 0, e);
        if (r < 0)
                return r;
        /* Releases stderr, so that a process that reads the parent's stderr to its end need not wait for
         * this service. From here on failures of a configuration or the socket are reported through the
         * channel. */
        if (dup2(STDIN_FILENO, STDERR_FILENO) < 0)
                return error_set_errno(e, -errno, "Cannot release stderr");
        return metadata_serve(METADATA_CHANNEL_FD, e);
}

int main(int argc, char **argv)
{
        _cleanup_error_ Error e = ERROR_NULL;

        int r = run(argc, argv, &e);
        if (r < 0)
                error_print(&e, r);
        return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
