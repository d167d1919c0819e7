/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Credentials on the command line of prepare and run: NAME:FILE, or NAME:VALUE. FILE may be "-" for standard
 * input, and a socket on which somebody listens who says the secret and hangs up, as systemd has it. */

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "stage0/pod-arguments.h"

#define SOCKET_SECONDS 30

static int connect_to(const char *path)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        struct timeval patience = {.tv_sec = SOCKET_SECONDS};
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd < 0)
                return -errno;
        if (strlen(path) >= sizeof(address.sun_path))
                return -ENAMETOOLONG;
        memcpy(address.sun_path, path, strlen(path));
        (void) setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        if (connect(fd, (const struct sockaddr *) &address, sizeof(address)) < 0)
                return -errno;
        return TAKE_FD(fd);
}

/* -EALREADY: it is standard input, which was one before, and would be an empty one now. */
static int open_credential(const char *path)
{
        static bool input_was_read = false;
        struct stat st;

        if (streq(path, "-")) {
                if (input_was_read)
                        return -EALREADY;
                input_was_read = true;
                int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
                return fd < 0 ? -errno : fd;
        }
        if (stat(path, &st) < 0)
                return -errno;
        if (S_ISSOCK(st.st_mode))
                return connect_to(path);
        if (S_ISDIR(st.st_mode))
                return -EISDIR;
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        return fd < 0 ? -errno : fd;
}

static int add(const Option *o, const char *value, const char *name, const void *data, size_t size,
               CredentialList *l, Error *e)
{
        _cleanup_error_ Error reason = ERROR_NULL;

        int r = credential_list_add(l, name, data, size, &reason);
        return r < 0 ? option_invalid_because(o, value, e, &reason) : 0;
}

/* What is behind the colon, which may be a secret, is in no message. */
static int split(const Option *o, const char *value, char **ret_name, Error *e)
{
        const char *colon = strchr(value, ':');
        char *name;

        if (!colon)
                return option_invalid(o, "…", e, "must be NAME:%s",
                                      streq(o->name, "set-credential") ? "VALUE" : "FILE");
        name = strndup(value, (size_t) (colon - value));
        if (!name)
                return error_oom(e);
        *ret_name = name;
        return 0;
}

int option_set_credential(const Option *o, const char *value, void *target, Error *e)
{
        _cleanup_free_ char *name = NULL;

        int r = split(o, value, &name, e);
        if (r < 0)
                return r;
        const char *secret = strchr(value, ':') + 1;
        return add(o, name, name, secret, strlen(secret), target, e);
}

int option_credential(const Option *o, const char *value, void *target, Error *e)
{
        _cleanup_free_ char *name = NULL, *data = NULL;
        _cleanup_close_ int fd = -EBADF;

        int r = split(o, value, &name, e);
        if (r < 0)
                return r;
        fd = open_credential(strchr(value, ':') + 1);
        if (fd < 0)
                return option_invalid(o, value, e, "%s",
                                      fd == -EALREADY ? "standard input has been read already"
                                                      : strerror(-fd));
        data = malloc(CREDENTIALS_SIZE_MAX + 1);
        if (!data)
                return error_oom(e);
        ssize_t n = loop_read(fd, data, CREDENTIALS_SIZE_MAX + 1);
        r = n < 0 ? option_invalid(o, value, e, "cannot be read: %s", strerror((int) -n))
                  : add(o, value, name, data, (size_t) n, target, e);
        explicit_bzero(data, CREDENTIALS_SIZE_MAX + 1);
        return r;
}
