/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Signing and encrypting images that were built.
 *
 * A signature is made by the user's own key, in the user's home directory of gpg and with the user's agent,
 * which can prompt for a passphrase. If no agent was running before, the one that gpg has started is stopped
 * again. Encrypting needs no key, and uses a temporary home.
 */

#include <sys/socket.h>
#include <sys/un.h>

#include "prepare/trust/trust-internal.h"

static const char encrypt_options[] = "cipher-algo AES256\n"
                                      "s2k-cipher-algo AES256\n"
                                      "s2k-digest-algo SHA512\n"
                                      "s2k-count 65011712\n";

static int data_from_fd(int fd, gpgme_data_t *ret, Error *e)
{
        _cleanup_gpg_data_ gpgme_data_t d = NULL;
        gpgme_error_t err = gpgme_data_new_from_fd(&d, fd);

        if (err)
                return gpg_fail(e, err, "Cannot pass data to gpg");
        (void) gpgme_data_set_flag(d, "io-buffer-size", GPG_IO_BUFFER_SIZE);
        *ret = TAKE_PTR(d);
        return 0;
}

static int take_text(gpgme_data_t data, char **ret, Error *e)
{
        size_t n = 0;
        char *text = gpgme_data_release_and_get_mem(data, &n);

        *ret = text && n > 0 ? strndup(text, n) : NULL;
        bool oom = text && n > 0 && !*ret;
        gpgme_free(text);
        return *ret ? 0 : oom ? error_oom(e) : error_set(e, -EIO, "Cannot sign: gpg gives no signature");
}

/* --- The user's agent ---------------------------------------------------------------------------------- */

/* Runs gpgconf for the user's home; its output, or NULL. */
static char *run_gpgconf(const char *gnupghome, const char *command, const char *what)
{
        const char *program = gpgme_get_dirinfo("gpgconf-name");
        const char *with_home[] = {"gpgconf", "--homedir", gnupghome, command, what, NULL};
        const char *without[] = {"gpgconf", command, what, NULL};
        _cleanup_gpg_context_ gpgme_ctx_t c = NULL;
        _cleanup_gpg_data_ gpgme_data_t out = NULL;
        char *text = NULL;

        if (!program || gpgme_new(&c) || gpgme_set_protocol(c, GPGME_PROTOCOL_SPAWN) ||
            gpgme_data_new(&out) ||
            gpgme_op_spawn(c, program, gnupghome ? with_home : without, NULL, out, NULL, 0))
                return NULL;
        return take_text(TAKE_PTR(out), &text, NULL) < 0 ? NULL : text;
}

static bool agent_is_running(const char *gnupghome)
{
        _cleanup_free_ char *path = run_gpgconf(gnupghome, "--list-dirs", "agent-socket");
        struct sockaddr_un address = {.sun_family = AF_UNIX};

        if (path)
                path[strcspn(path, "\n")] = 0;
        if (isempty(path) || strlen(path) >= sizeof(address.sun_path))
                return true; /* not known: leave it alone */
        memcpy(address.sun_path, path, strlen(path) + 1);
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        return fd < 0 || connect(fd, (struct sockaddr *) &address, sizeof(address)) >= 0;
}

/* --- Signing ------------------------------------------------------------------------------------------- */

static int add_signer(gpgme_ctx_t c, const char *key_id, Error *e)
{
        _cleanup_gpg_key_ gpgme_key_t key = NULL;
        int r;

        if (!key_id) /* gpg takes its own default */
                return 0;
        gpgme_error_t err = gpgme_get_key(c, key_id, &key, 1);
        if (!err)
                err = gpgme_signers_add(c, key);
        if (!err)
                return 0;
        r = gpg_fail(e, err, "Cannot sign by the key '%s'", key_id);
        if (gpgme_err_code(err) != GPG_ERR_EOF && gpgme_err_code(err) != GPG_ERR_AMBIGUOUS_NAME)
                return r;
        r = error_set(e, -ENOKEY, "Cannot sign by the key '%s': %s", key_id,
                      gpgme_err_code(err) == GPG_ERR_EOF ? "there is no such secret key"
                                                         : "there are several of that name");
        return error_hint(e, r, "'gpg --list-secret-keys' shows the available keys.");
}

static int sign(gpgme_ctx_t c, const char *key_id, int fd, char **ret, Error *e)
{
        _cleanup_gpg_data_ gpgme_data_t in = NULL, out = NULL;

        gpgme_set_armor(c, 1);
        int r = add_signer(c, key_id, e);
        if (r >= 0)
                r = data_from_fd(fd, &in, e);
        if (r < 0)
                return r;
        gpgme_error_t err = gpgme_data_new(&out);
        if (!err)
                err = gpgme_op_sign(c, in, out, GPGME_SIG_MODE_DETACH);
        if (err)
                return key_id ? gpg_fail(e, err, "Cannot sign by the key '%s'", key_id)
                              : gpg_fail(e, err, "Cannot sign by the default key");
        return take_text(TAKE_PTR(out), ret, e);
}

/* Stops the user's agent, if it was started for this; also after the operation has ended. */
static void stop_agent(const char *gnupghome)
{
        GpgCall call;

        if (gpg_call_begin(&call, NULL, NULL) < 0)
                return;
        free(run_gpgconf(gnupghome, "--kill", "gpg-agent"));
        (void) gpg_call_end(&call, NULL);
}

int sign_detached(const char *key_id, const char *gnupghome, int fd, const Operation *o, char **ret_armored,
                  Error *e)
{
        _cleanup_gpg_context_ gpgme_ctx_t c = NULL;
        _cleanup_free_ char *armored = NULL;
        _cleanup_(gpg_call_done) GpgCall call = GPG_CALL_NULL;

        int r = gpg_context_new(o, gnupghome, &c, e);
        if (r >= 0)
                r = gpg_call_start(&call, o, 0, e); /* the user may take any time for the passphrase */
        if (r < 0)
                return r;
        gpg_call_enter(&call);
        bool was_running = agent_is_running(gnupghome);
        int signed_ = sign(c, key_id, fd, &armored, e);
        gpg_call_leave();
        r = gpg_call_finish(&call, e);
        if (!was_running)
                stop_agent(gnupghome);
        if (r < 0 || signed_ < 0)
                return r < 0 ? r : signed_;
        *ret_armored = TAKE_PTR(armored);
        return 0;
}

/* --- Encrypting ---------------------------------------------------------------------------------------- */

int encrypt_symmetric(int fd_in, int fd_out, const char *passphrase_file, const Operation *o, Error *e)
{
        _cleanup_gpg_home_ GpgHome home = GPG_HOME_NULL;
        _cleanup_gpg_context_ gpgme_ctx_t c = NULL;
        _cleanup_gpg_data_ gpgme_data_t in = NULL, out = NULL;
        _cleanup_close_ int passphrase_fd = -EBADF;
        _cleanup_(gpg_call_done) GpgCall call = GPG_CALL_NULL;

        int r = passphrase_home_new(passphrase_file, encrypt_options, &home, &passphrase_fd, e);
        if (r >= 0)
                r = gpg_context_new(o, home.path, &c, e);
        if (r >= 0)
                r = data_from_fd(fd_in, &in, e);
        if (r >= 0)
                r = data_from_fd(fd_out, &out, e);
        if (r >= 0)
                r = gpg_call_start(&call, o, 0, e); /* for as long as the image takes */
        if (r < 0)
                return r;
        /* An image is already compressed, or intentionally not: with compression its size would reveal its
         * content. */
        gpg_call_enter(&call);
        gpgme_error_t err = gpgme_op_encrypt(c, NULL, GPGME_ENCRYPT_SYMMETRIC | GPGME_ENCRYPT_NO_COMPRESS,
                                             in, out);
        gpg_call_leave();
        r = gpg_call_finish(&call, e);
        if (r < 0)
                return r;
        return err ? gpg_fail(e, err, "Cannot encrypt the image") : 0;
}
