/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Credentials that are read from files: regular files, standard input ("-"), and, as with systemd, a socket
 * on which a process listens that writes the secret and closes the connection. The kind of source is
 * recorded, with the path if that can be read again.
 */

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "prepare/pods/pods-internal.h"

#define SOCKET_SECONDS 30

static int connect_to(const char *path)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        struct timeval limit = {.tv_sec = SOCKET_SECONDS};
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd < 0)
                return -errno;
        if (strlen(path) >= sizeof(address.sun_path))
                return -ENAMETOOLONG;
        memcpy(address.sun_path, path, strlen(path));
        (void) setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
        if (connect(fd, (const struct sockaddr *) &address, sizeof(address)) < 0)
                return -errno;
        return TAKE_FD(fd);
}

static bool is_descriptor(const char *path)
{
        return startswith(path, "/dev/fd/") || startswith(path, "/dev/std") || startswith(path, "/proc/");
}

static int open_credential(const char *path, CredentialSource *ret_source)
{
        struct stat st;

        *ret_source = CREDENTIAL_INPUT;
        if (streq(path, "-"))
                return input_open(path, O_RDONLY);
        if (stat(path, &st) < 0)
                return -errno;
        if (S_ISDIR(st.st_mode))
                return -EISDIR;
        if ((S_ISREG(st.st_mode) || S_ISSOCK(st.st_mode)) && !is_descriptor(path))
                *ret_source = CREDENTIAL_FILE;
        if (S_ISSOCK(st.st_mode))
                return connect_to(path);
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        return fd < 0 ? -errno : fd;
}

static int add_content(CredentialList *l, const char *name, int fd, Error *e)
{
        char *data = malloc(CREDENTIALS_SIZE_MAX + 1);

        if (!data)
                return error_oom(e);
        ssize_t n = loop_read(fd, data, CREDENTIALS_SIZE_MAX + 1);
        int r = n < 0 ? error_set(e, (int) n, "cannot be read: %s", strerror((int) -n))
                      : credential_list_add(l, name, data, (size_t) n, e);
        explicit_bzero(data, CREDENTIALS_SIZE_MAX + 1);
        free(data);
        return r;
}

int credential_list_add_file(CredentialList *l, const char *name, const char *path, Error *e)
{
        _cleanup_free_ char *absolute = NULL;
        _cleanup_close_ int fd = -EBADF;
        CredentialSource source;

        fd = open_credential(path, &source);
        if (fd < 0)
                return error_set(e, fd, "%s", input_problem(fd));
        if (source == CREDENTIAL_FILE && path_make_absolute(path, &absolute) < 0)
                return error_oom(e);
        int r = add_content(l, name, fd, e);
        if (r < 0)
                return r;
        l->items[l->n - 1].source = source;
        l->items[l->n - 1].path = TAKE_PTR(absolute);
        return r;
}
