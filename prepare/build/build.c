/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Builds an image for distribution from a layout: packed, compressed, encrypted, signed, in this order
 * (spec: aci.md, "Image Archives"). The signature covers the file as it is distributed, so that it can be
 * verified before anything is decrypted. */

#include <sys/stat.h>

#include "prepare/build/build.h"
#include "prepare/trust/trust.h"

int build_options_from_environment(BuildOptions *o, Error *e)
{
        const char *s = getenv("SOURCE_DATE_EPOCH");
        uint64_t n;

        if (isempty(s))
                return 0;
        if (parse_u64(s, &n) < 0 || n > INT64_MAX) {
                _cleanup_free_ char *shown = text_escape_for_terminal(s);
                int r = error_set(e, -EINVAL, "SOURCE_DATE_EPOCH is '%s', which is not a number of seconds",
                                  shown ?: "?");
                return error_hint(e, r, "Set it to seconds since 1970, or unset it.");
        }
        o->pack.tree.has_mtime_max = true;
        o->pack.tree.mtime_max = (int64_t) n;
        return 0;
}

static int pack(const Layout *l, const BuildOptions *o, int fd, const char *what, char **ret_id, Error *e)
{
        int r = pack_image(l->rootfs_fd, l->manifest_text, l->manifest_size, &o->pack, fd, what, ret_id, e);

        return r < 0 ? error_prefix(e, r, "Cannot build '%s'", l->path) : 0;
}

/* Packs into an unnamed temporary file in the directory TMP_FD, then encrypts that. */
static int pack_encrypted(const Layout *l, const BuildOptions *o, int tmp_fd, int fd, const char *what,
                          char **ret_id, Error *e)
{
        _cleanup_close_ int plain = -EBADF;
        _cleanup_free_ char *id = NULL;

        int r = output_scratch(tmp_fd, &plain, e);
        if (r >= 0)
                r = pack(l, o, plain, what, &id, e);
        if (r < 0)
                return r;
        if (lseek(plain, 0, SEEK_SET) < 0)
                return error_set_errno(e, errno, "Cannot read %s back", what);
        r = encrypt_symmetric(plain, fd, o->passphrase_file, o->pack.operation, e);
        if (r >= 0)
                *ret_id = TAKE_PTR(id);
        return r;
}

int build_image(const Layout *l, const BuildOptions *o, int out_fd, char **ret_id, Error *e)
{
        const char *dir = getenv("TMPDIR");
        _cleanup_close_ int tmp = -EBADF;

        if (!o->passphrase_file)
                return pack(l, o, out_fd, "the image", ret_id, e);
        dir = isempty(dir) ? "/var/tmp" : dir;
        tmp = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (tmp < 0)
                return error_set_errno(e, errno, "Cannot open '%s' for temporary files", dir);
        return pack_encrypted(l, o, tmp, out_fd, "the image", ret_id, e);
}

/* --- Into a file --------------------------------------------------------------------------------------- */

/* An output file inside of the layout would become part of the image, or make the next build fail. */
static int check_outside(const Layout *l, const Output *out, Error *e)
{
        _cleanup_close_ int fd = fcntl(out->dir_fd, F_DUPFD_CLOEXEC, 3);
        struct stat layout, st, parent;

        if (fd < 0 || fstat(fd, &st) < 0 || fstat(l->dir_fd, &layout) < 0)
                return error_set_errno(e, errno, "Cannot write '%s'", out->path);
        for (;;) {
                if (st.st_dev == layout.st_dev && st.st_ino == layout.st_ino) {
                        int r = error_set(e, -EINVAL,
                                          "Cannot write '%s': it is inside of the layout that the image is "
                                          "built from",
                                          out->path);
                        return error_hint(e, r, "Name a file somewhere else with --output=FILE.aci.");
                }
                int up = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
                if (up < 0 || fstat(up, &parent) < 0) {
                        safe_close(up);
                        return 0; /* the layout was opened, so it is not below a directory without access */
                }
                safe_close(fd);
                fd = up;
                if (parent.st_dev == st.st_dev && parent.st_ino == st.st_ino)
                        return 0;
                st = parent;
        }
}

static int sign(const BuildOptions *o, const Output *image, const Output *signature, Error *e)
{
        _cleanup_free_ char *text = NULL;

        if (lseek(image->fd, 0, SEEK_SET) < 0)
                return error_set_errno(e, errno, "Cannot read '%s' back", image->path);
        int r = sign_detached(o->key, o->gnupghome, image->fd, o->pack.operation, &text, e);
        if (r < 0)
                return r;
        r = loop_write(signature->fd, text, strlen(text));
        return r < 0 ? error_set_errno(e, r, "Cannot write '%s'", signature->path) : 0;
}

/* The image is published first: a new image beside an old signature, or none, is never accepted by
 * mistake. */
static int publish(const BuildOptions *o, Output *image, Output *signature, Error *e)
{
        _cleanup_free_ char *stale = NULL;

        int r = output_publish(image, o->replace, e);
        if (r < 0)
                return r;
        if (o->sign)
                return output_publish(signature, o->replace, e);
        if (xasprintf(&stale, "%s.asc", image->name) < 0)
                return error_oom(e);
        if (o->replace && unlinkat(image->dir_fd, stale, 0) < 0 && errno != ENOENT)
                return error_set_errno(e, errno,
                                       "Cannot remove '%s.asc', the signature of the previous image",
                                       image->path);
        return 0;
}

static int check_name(const char *file, Error *e)
{
        const char *suffix = endswith(file, ".aci");

        if (suffix && suffix > file && suffix[-1] != '/')
                return 0;
        _cleanup_free_ char *shown = text_escape_for_terminal(file);
        int r = error_set(e, -EINVAL, "Cannot write '%s': the name of an image archive ends in .aci",
                          shown ?: "?");
        return error_hint(e, r, "The specification requires it; name it, for example, '%s.aci'.",
                          shown ?: "image");
}

int build_image_file(const Layout *l, const BuildOptions *o, const char *file, char **ret_id, Error *e)
{
        _cleanup_(output_done) Output image = OUTPUT_NULL, signature = OUTPUT_NULL;
        _cleanup_free_ char *signature_path = NULL, *what = NULL, *id = NULL;

        int r = check_name(file, e);
        if (r >= 0)
                r = output_open(file, o->replace, &image, e);
        if (r >= 0)
                r = check_outside(l, &image, e);
        if (r < 0)
                return r;
        if (xasprintf(&signature_path, "%s.asc", file) < 0 || xasprintf(&what, "'%s'", image.path) < 0)
                return error_oom(e);
        if (o->sign)
                r = output_open(signature_path, o->replace, &signature, e);
        if (r >= 0)
                r = o->passphrase_file ? pack_encrypted(l, o, image.dir_fd, image.fd, what, &id, e)
                                       : pack(l, o, image.fd, what, &id, e);
        if (r >= 0 && o->sign)
                r = sign(o, &image, &signature, e);
        if (r >= 0)
                r = publish(o, &image, &signature, e);
        if (r >= 0)
                *ret_id = TAKE_PTR(id);
        return r;
}
