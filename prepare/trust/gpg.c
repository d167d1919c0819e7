/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* GPGME and the program gpg behind it, kept apart from the user's.
 *
 * Every operation that needs no secret key of the user works in a home directory of its own. As root that is
 * a tmpfs that is not mounted anywhere: gpg accesses it through /proc/PID/fd of this process, and it is
 * removed with the last descriptor, however the process ends. Other users get a directory with a flock;
 * directories whose owner has ended are removed by the next process. gpg.conf there disables daemons (keys
 * are public, and passphrases are passed by this program) and network access, and trusts every key in the
 * home: which keys are in it, and for what they are trusted, is decided by this program.
 */

#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "prepare/trust/trust-internal.h"

#define HOME_ATTEMPTS 64 /* other processes may take a new directory for a stale one */
#define HOME_PREFIX "acnspawn-gnupg-"
#define HOME_SIZE "256m" /* of the tmpfs: a limit, not a reservation */

static const char home_options[] = "no-autostart\n"
                                   "batch\n"
                                   "trust-model always\n"
                                   "no-auto-check-trustdb\n"
                                   "no-auto-key-retrieve\n"
                                   "no-auto-key-locate\n"
                                   "disable-dirmngr\n"
                                   "no-random-seed-file\n"
                                   "no-secmem-warning\n"
                                   "no-greeting\n";

/* --- Errors -------------------------------------------------------------------------------------------- */

static const struct {
        gpg_err_code_t code;
        int error;
} codes[] = {
                {GPG_ERR_NO_DATA, -EBADMSG},    {GPG_ERR_BAD_DATA, -EBADMSG},
                {GPG_ERR_UNEXPECTED, -EBADMSG}, {GPG_ERR_INV_ENGINE, -ENOPKG},
                {GPG_ERR_CANCELED, -ECANCELED}, {GPG_ERR_BAD_PASSPHRASE, -EKEYREJECTED},
                {GPG_ERR_NO_SECKEY, -ENOKEY},   {GPG_ERR_NO_PUBKEY, -ENOKEY},
                {GPG_ERR_INV_VALUE, -EINVAL},
};

static int error_code(gpgme_error_t err)
{
        for (size_t i = 0; i < ELEMENTSOF(codes); i++)
                if (gpgme_err_code(err) == codes[i].code)
                        return codes[i].error;
        int n = gpgme_err_code_to_errno(gpgme_err_code(err));
        return n > 0 ? -n : -EIO;
}

int gpg_fail(Error *e, gpgme_error_t err, const char *format, ...)
{
        _cleanup_free_ char *message = NULL;
        char reason[256] = "";
        va_list ap;

        va_start(ap, format);
        (void) xvasprintf(&message, format, ap);
        va_end(ap);
        if (!message)
                return error_oom(e);
        (void) gpgme_strerror_r(err, reason, sizeof(reason));
        reason[sizeof(reason) - 1] = 0;
        if (gpgme_err_code(err) != GPG_ERR_INV_ENGINE)
                return error_set(e, error_code(err), "%s: gpg: %s", message, reason);
        int r = error_set(e, error_code(err), "%s: the program gpg is missing, or does not work", message);
        return error_hint(e, r, "Install the package gnupg.");
}

/* --- The home directory -------------------------------------------------------------------------------- */

static const struct {
        unsigned command;
        const char *key, *value;
} tmpfs_settings[] = {
                {FSCONFIG_SET_STRING, "size", HOME_SIZE},
                {FSCONFIG_SET_STRING, "mode", "0700"},
                {FSCONFIG_CMD_CREATE, NULL, NULL},
};

/* -EPERM and the like where this cannot be done. */
static int new_tmpfs_home(GpgHome *ret)
{
        _cleanup_close_ int fs = (int) syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC);

        if (fs < 0)
                return -errno;
        for (size_t i = 0; i < ELEMENTSOF(tmpfs_settings); i++)
                if (syscall(SYS_fsconfig, fs, tmpfs_settings[i].command, tmpfs_settings[i].key,
                            tmpfs_settings[i].value, 0) < 0)
                        return -errno;
        _cleanup_close_ int fd = (int) syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC,
                                               MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
        if (fd < 0)
                return -errno;
        _cleanup_free_ char *path = NULL;
        if (xasprintf(&path, "/proc/%d/fd/%d", (int) getpid(), fd) < 0)
                return -ENOMEM;
        if (access(path, R_OK) < 0) /* a /proc that is not of our pid namespace */
                return -errno;
        ret->path = TAKE_PTR(path);
        ret->fd = TAKE_FD(fd);
        return 0;
}

/* Removes homes in BASE whose owner has ended: they are not locked any more. */
static void remove_stale_homes(int base_fd)
{
        _cleanup_strv_free_ char **names = NULL;

        if (list_names(base_fd, &names) < 0)
                return;
        STRV_FOREACH (n, names) {
                struct stat st;

                if (!startswith(*n, HOME_PREFIX))
                        continue;
                _cleanup_close_ int fd =
                                openat(base_fd, *n, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                if (fd >= 0 && fstat(fd, &st) >= 0 && st.st_uid == geteuid() &&
                    flock(fd, LOCK_EX | LOCK_NB) >= 0)
                        (void) rm_rf_at(base_fd, *n);
        }
}

/* -EAGAIN: another process has taken the directory for a stale one before it was locked. */
static int make_locked_directory(const char *path, int *ret_fd)
{
        struct stat st;

        if (mkdir(path, 0700) < 0)
                return -errno;
        _cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return errno == ENOENT ? -EAGAIN : -errno;
        if (flock(fd, LOCK_EX | LOCK_NB) < 0)
                return -errno;
        if (fstat(fd, &st) < 0)
                return -errno;
        if (st.st_nlink == 0)
                return -EAGAIN;
        *ret_fd = TAKE_FD(fd);
        return 0;
}

static int directory_home(GpgHome *ret)
{
        const char *base = getenv("XDG_RUNTIME_DIR");

        if (isempty(base))
                base = getenv("TMPDIR");
        if (isempty(base) || !path_is_absolute(base))
                base = "/tmp";
        _cleanup_close_ int base_fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (base_fd < 0)
                return -errno;
        remove_stale_homes(base_fd);
        int r = -EAGAIN;
        for (unsigned i = 0; i < HOME_ATTEMPTS && r == -EAGAIN; i++) {
                _cleanup_free_ char *path = NULL;
                char hex[RANDOM_HEX_SIZE];

                r = random_hex(hex);
                if (r >= 0)
                        r = xasprintf(&path, "%s/%s%s", base, HOME_PREFIX, hex);
                if (r >= 0)
                        r = make_locked_directory(path, &ret->fd);
                if (r >= 0)
                        ret->name = TAKE_PTR(path);
        }
        if (r < 0)
                return r;
        ret->path = strdup(ret->name);
        return ret->path ? 0 : -ENOMEM;
}

void gpg_home_done(GpgHome *h)
{
        if (h->name)
                (void) rm_rf_at(AT_FDCWD, h->name);
        safe_close(h->fd);
        free(h->name);
        free(h->path);
        *h = GPG_HOME_NULL;
}

int gpg_home_new(const char *options, GpgHome *ret, Error *e)
{
        _cleanup_gpg_home_ GpgHome h = GPG_HOME_NULL;
        _cleanup_free_ char *text = NULL;

        int r = new_tmpfs_home(&h);
        if (r < 0)
                r = directory_home(&h);
        if (r >= 0)
                r = xasprintf(&text, "%s%s", home_options, options ?: "");
        if (r >= 0)
                r = write_file_new_at(h.fd, "gpg.conf", text, strlen(text), 0600);
        if (r < 0)
                return error_set_errno(e, r, "Cannot create a private directory for gpg");
        *ret = TAKE_GENERIC(h, GpgHome, GPG_HOME_NULL);
        return 0;
}

/* --- Contexts ------------------------------------------------------------------------------------------ */

static void initialize(void)
{
        (void) gpgme_check_version(NULL);
}

/* GPGME keeps for the whole process that gpg did not work, as when an operation that has ended killed it. */
static gpgme_error_t check_gpg(void)
{
        gpgme_error_t err = gpgme_engine_check_version(GPGME_PROTOCOL_OpenPGP);

        if (!err || gpgme_set_engine_info(GPGME_PROTOCOL_OpenPGP, NULL, NULL))
                return err;
        return gpgme_engine_check_version(GPGME_PROTOCOL_OpenPGP);
}

/* Runs gpg for its version. */
static gpgme_error_t open_context(const char *home, gpgme_ctx_t *ret)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;

        (void) pthread_once(&once, initialize);
        gpgme_error_t err = check_gpg();
        if (!err)
                err = gpgme_new(ret);
        if (!err)
                err = gpgme_set_protocol(*ret, GPGME_PROTOCOL_OpenPGP);
        if (!err && home)
                err = gpgme_ctx_set_engine_info(*ret, GPGME_PROTOCOL_OpenPGP, NULL, home);
        return err;
}

int gpg_context_new(const Operation *o, const char *home, gpgme_ctx_t *ret, Error *e)
{
        _cleanup_gpg_context_ gpgme_ctx_t c = NULL;
        GpgCall call;

        int r = library_load(&gpgme_library, e);
        if (r >= 0)
                r = gpg_call_begin(&call, o, e);
        if (r < 0)
                return r;
        gpgme_error_t err = open_context(home, &c);
        r = gpg_call_end(&call, e);
        if (r < 0)
                return r;
        if (err)
                return gpg_fail(e, err, "Cannot work with OpenPGP");
        gpgme_set_offline(c, 1);
        *ret = TAKE_PTR(c);
        return 0;
}

int gpg_data_from_callbacks(gpgme_data_cbs_t callbacks, void *userdata, gpgme_data_t *ret, Error *e)
{
        _cleanup_gpg_data_ gpgme_data_t d = NULL;
        gpgme_error_t err = gpgme_data_new_from_cbs(&d, callbacks, userdata);

        if (err)
                return gpg_fail(e, err, "Cannot pass data to gpg");
        /* Unknown to older versions, which then use small blocks. */
        (void) gpgme_data_set_flag(d, "io-buffer-size", GPG_IO_BUFFER_SIZE);
        *ret = TAKE_PTR(d);
        return 0;
}

int gpg_thread_start(pthread_t *ret, void *(*function)(void *), void *userdata, Error *e)
{
        int r = thread_start(ret, function, userdata);

        return r < 0 ? error_set_errno(e, r, "Cannot start a thread for gpg") : 0;
}
