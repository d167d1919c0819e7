/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Imports one image archive, from any source, into the store.
 *
 *     archive -> [decryption] -> decompression, hash, unpacking -> approval -> store
 *        \-> signature check
 *
 * Every byte is read once: the signature check and unpacking see the same bytes, so that the archive cannot
 * be replaced in between. The signature covers the archive as transferred, encrypted if it is; in that case
 * the decryption's reader passes the bytes to the check. The unpacked files stay in the store's tmp/ until
 * all checks have succeeded; otherwise they are removed.
 */

#include <sys/stat.h>

#include "prepare/fetch/fetch-internal.h"

#define PEEK_SIZE 32U

void archive_done(Archive *a)
{
        a->check = signature_check_free(a->check);
        a->decryption = decryption_free(a->decryption);
        signer_done(&a->signer);
        free(a->unexpected_entry);
}

/* --- Checks -------------------------------------------------------------------------------------------- */

int check_identity(const char *have_id, const ImageManifest *m, const ImageName *name, const char *id,
                   Error *e)
{
        _cleanup_free_ char *have = NULL, *expected = NULL;

        if (id && !streq(id, have_id))
                return error_set(e, -EBADMSG, "It has the ID %s, but %s was requested", have_id, id);
        if (!name || image_name_matches(name->name, &name->labels, m))
                return 0;
        if (image_name_format(m->name, &m->labels, &have) < 0 ||
            image_name_format(name->name, &name->labels, &expected) < 0)
                return error_oom(e);
        return error_set(e, -EBADMSG, "Its manifest says that it is %s, but %s was requested", have,
                         expected);
}

/* Called when everything was read. The decryption is finished first, as it reads the archive's last
 * bytes. */
static int approve(const char *id, const ImageManifest *m, ImageInfo *info, void *userdata, Error *e)
{
        Archive *a = userdata;

        int r = a->decryption ? decryption_finish(a->decryption, e) : 0;
        if (r >= 0)
                r = check_identity(id, m, a->name, a->id, e);
        if (r >= 0 && a->check)
                r = signature_check_finish(a->check, m->name, &a->signer, e);
        if (r >= 0 && a->reference && !(info->reference = strdup(a->reference)))
                r = error_oom(e);
        if (r >= 0 && a->check)
                r = signer_copy(&a->signer, a->offered, &info->signer) < 0 ? error_oom(e) : 0;
        if (r >= 0 && a->check && a->reference) /* for a file named by the user no name is required */
                r = archive_check_age(a, id, m, e);
        return r;
}

int archive_read_signature(Archive *a, const char *file, Error *e)
{
        _cleanup_free_ char *data = NULL, *shown = text_escape_for_terminal(file), *what = NULL;
        Trust *trust;
        size_t size;

        int r = fetcher_trust(a->fetcher, &trust, e);
        if (r < 0)
                return r;
        r = read_file_at(AT_FDCWD, file, TRUST_SIGNATURE_MAX, &data, &size);
        if (r < 0) {
                r = error_set_errno(e, r, "Cannot read the signature '%s'", shown ?: "?");
                return r == -ENOENT ? error_hint(e, r,
                                                 "It is a file beside the image, with .asc at its end.")
                                    : r;
        }
        if (xasprintf(&what, "the signature '%s'", shown ?: "?") < 0)
                return error_oom(e);
        return signature_check_new(trust, data, size, what, &a->check, e);
}

/* --- Encrypted archives -------------------------------------------------------------------------------- */

/* A pipe cannot be rewound, but its content can be peeked at. */
static bool pipe_is_encrypted(int fd)
{
        int copy[2];
        char data[PEEK_SIZE];
        ssize_t n;

        if (pipe2(copy, O_CLOEXEC) < 0)
                return false;
        n = tee(fd, copy[1], sizeof(data), 0);
        if (n > 0)
                n = read(copy[0], data, (size_t) n);
        safe_close(copy[0]);
        safe_close(copy[1]);
        return n > 0 && is_encrypted_data(data, (size_t) n);
}

static bool archive_is_encrypted(int fd)
{
        struct stat st;

        return fstat(fd, &st) >= 0 && S_ISFIFO(st.st_mode) ? pipe_is_encrypted(fd) : is_encrypted(fd);
}

static int see(const void *data, size_t size, void *userdata, Error *e)
{
        Archive *a = userdata;

        if (a->check)
                signature_check_update(a->check, data, size);
        return 0;
}

static int decrypt(Archive *a, int fd, int *ret_fd, Error *e)
{
        const char *file = a->fetcher->options.passphrase_file;

        if (!file) {
                int r = error_set(e, -ENOTSUP, "The image %s is encrypted", a->origin);
                return error_hint(e, r, "Name a file that has its passphrase with --passphrase-file=.");
        }
        int r = decryption_new(fd, file, a->fetcher->store->operation, see, a, &a->decryption, ret_fd, e);
        return r < 0 ? error_prefix(e, r, "Cannot decrypt %s", a->origin) : r;
}

/* The decrypted data was not an image. If decryption failed, its error is the reason; if it has completed,
 * the data is really not an image. */
static int explain_failure(Archive *a, int fd, int r, Error *e)
{
        _cleanup_error_ Error error = ERROR_NULL;
        char c;

        if (operation_ended(r) || !a->decryption || read(fd, &c, 1) != 0 ||
            decryption_finish(a->decryption, &error) >= 0)
                return r;
        return error_prefix(e, error_move(e, &error), "Cannot decrypt %s", a->origin);
}

/* --- Data that is not an image
 * --------------------------------------------------------------------------------- */

bool is_web_page(const char *data, size_t size)
{
        size_t i = 0;

        while (i < size && data[i] && strchr(" \t\r\n", data[i]))
                i++;
        return i < size && data[i] == '<';
}

/* A login page or an error page of a server. */
static bool file_is_web_page(int fd)
{
        char head[PEEK_SIZE];
        ssize_t n = pread(fd, head, sizeof(head), 0);

        return n > 0 && is_web_page(head, (size_t) n);
}

static int add_hint(const Archive *a, int fd, int r, Error *e)
{
        if ((r != -EBADMSG && (r != -EINVAL || a->reference)) || !e)
                return r;
        if (file_is_web_page(fd))
                return error_hint(e, r, a->reference ? HINT_PAGE : "It looks like a web page.");
        if (e->hint)
                return r;
        return error_hint(e, r,
                          a->reference ? "Check the URL; the file may have been damaged when it was "
                                         "uploaded."
                                       : "If it was copied or downloaded, repeat that; 'acnspawn validate' "
                                         "shows all errors of a file.");
}

/* --- Import -------------------------------------------------------------------------------------------- */

static void progress(uint64_t done, void *userdata)
{
        Archive *a = userdata;

        fetcher_progress(a->fetcher, a->what, OPERATION_IMPORTING, done, a->total);
}

int archive_import(Archive *a, int fd, Image **ret, Error *e)
{
        _cleanup_close_ int plain_fd = -EBADF;
        bool encrypted = archive_is_encrypted(fd);
        const ImportOptions o = {
                        .origin = a->origin,
                        .observe = a->check && !encrypted ? see : NULL,
                        .approve = approve,
                        .progress = progress,
                        .ret_unexpected_entry = &a->unexpected_entry,
                        .userdata = a,
        };

        int r = operation_check(a->fetcher->store->operation, e);
        if (r >= 0 && encrypted)
                r = decrypt(a, fd, &plain_fd, e);
        if (r < 0)
                return r;
        fetcher_progress(a->fetcher, a->what, OPERATION_IMPORTING, 0, a->total);
        r = image_import_with(a->fetcher->store, encrypted ? plain_fd : fd, &o, ret, e);
        return r < 0 ? add_hint(a, fd, explain_failure(a, plain_fd, r, e), e) : r;
}
