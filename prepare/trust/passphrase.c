/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Passphrases: read from a file that is private to the user, and passed to gpg without being stored on disk.
 *
 * gpg gets the passphrase by the option passphrase-file, which names a memfd of this process by its /proc/PID/fd:
 * no agent takes part in it, it is on no command line, and it is gone with the descriptor.
 */

#include <sys/mman.h>
#include <sys/stat.h>

#include "prepare/trust/trust-internal.h"

static int check_private(int fd, const char *path, Error *e)
{
        struct stat st;

        if (fstat(fd, &st) < 0)
                return error_set_errno(e, errno, "Cannot examine the passphrase file '%s'", path);
        if (S_ISFIFO(st.st_mode)) /* of a shell: <(...) */
                return 0;
        if (!S_ISREG(st.st_mode))
                return error_set(e, -EINVAL, "The passphrase file '%s' is not a regular file", path);
        if (st.st_uid != 0 && st.st_uid != geteuid())
                return error_set(e, -EPERM, "The passphrase file '%s' belongs to user %u", path,
                                 (unsigned) st.st_uid);
        if (!(st.st_mode & 0077))
                return 0;
        int r = error_set(e, -EPERM, "The passphrase file '%s' is open to others (mode %04o)", path,
                          st.st_mode & 07777U);
        return error_hint(e, r, "Run: chmod 0600 '%s'", path);
}

static int check_text(const char *text, size_t n, const char *path, Error *e)
{
        if (n > TRUST_PASSPHRASE_MAX)
                return error_set(e, -EFBIG, "The passphrase in '%s' is longer than %u bytes", path,
                                 TRUST_PASSPHRASE_MAX);
        if (n == 0)
                return error_set(e, -EINVAL, "There is no passphrase in '%s'", path);
        if (memchr(text, 0, n) || memchr(text, '\n', n))
                return error_set(e, -EINVAL, "The passphrase in '%s' is more than one line of text", path);
        return 0;
}

/* Reads it from a file that only the user can read, without the newline at its end. To be wiped. */
static int read_passphrase(const char *path, char **ret, Error *e)
{
        char text[TRUST_PASSPHRASE_MAX + 3] = "";
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

        if (fd < 0)
                return error_set_errno(e, errno, "Cannot open the passphrase file '%s'", path);
        int r = check_private(fd, path, e);
        if (r < 0)
                return r;
        ssize_t n = loop_read(fd, text, sizeof(text) - 1);
        if (n < 0)
                return error_set_errno(e, (int) n, "Cannot read the passphrase file '%s'", path);
        n -= n > 0 && text[n - 1] == '\n';
        r = check_text(text, (size_t) n, path, e);
        char *copy = r < 0 ? NULL : strndup(text, (size_t) n);
        explicit_bzero(text, sizeof(text));
        if (r >= 0 && !copy)
                return error_oom(e);
        if (r >= 0)
                *ret = copy;
        return r;
}

int passphrase_home_new(const char *path, const char *more_options, GpgHome *ret, int *ret_fd, Error *e)
{
        _cleanup_close_ int fd = memfd_create("passphrase", MFD_CLOEXEC);
        _cleanup_free_ char *options = NULL;
        char *passphrase = NULL;

        if (fd < 0)
                return error_set_errno(e, errno, "Cannot keep the passphrase");
        int r = read_passphrase(path, &passphrase, e);
        if (r < 0)
                return r;
        r = loop_write(fd, passphrase, strlen(passphrase));
        explicit_bzero(passphrase, strlen(passphrase));
        free(passphrase);
        if (r < 0)
                return error_set_errno(e, r, "Cannot keep the passphrase");
        if (xasprintf(&options, "pinentry-mode loopback\npassphrase-file /proc/%d/fd/%d\n%s", (int) getpid(),
                      fd, more_options ?: "") < 0)
                return error_oom(e);
        r = gpg_home_new(options, ret, e);
        if (r >= 0)
                *ret_fd = TAKE_FD(fd);
        return r;
}
