/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* An image layout on disk: opened once, checked, and from then on used by its descriptors alone. */

#include "prepare/build/build.h"

static const char layout_hint[] = "A layout is a directory with the file 'manifest' and the directory "
                                  "'rootfs', and nothing else.";

/* DIR is such a file, or has one. */
static bool is_for_buildah(const char *dir)
{
        static const char *const names[] = {"Dockerfile", "Containerfile"};
        const char *base = strrchr(dir, '/') ? strrchr(dir, '/') + 1 : dir;

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                _cleanup_free_ char *path = NULL;
                if (streq(base, names[i]))
                        return true;
                if (xasprintf(&path, "%s/%s", dir, names[i]) >= 0 && access(path, F_OK) >= 0)
                        return true;
        }
        return false;
}

static int layout_error(Error *e, int code, const char *dir, const char *why)
{
        _cleanup_free_ char *shown = text_escape_for_terminal(dir);

        int r = error_set(e, code, "'%s' is not an image layout: %s", shown ?: "?", why);
        if (is_for_buildah(dir))
                return error_hint(
                                e, r,
                                "'buildah build -t oci-archive:FILE' builds an image from a Dockerfile; 'acnspawn run "
                                "oci-archive:FILE' runs it.");
        return error_hint(e, r, "%s", layout_hint);
}

/* Other entries are refused, since they would silently be missing in the image. */
static int check_names(const Layout *l, Error *e)
{
        _cleanup_strv_free_ char **names = NULL;
        _cleanup_free_ char *shown = NULL, *why = NULL;

        int r = list_names(l->dir_fd, &names);
        if (r < 0)
                return error_set_errno(e, r, "Cannot read the directory '%s'", l->path);
        strv_sort(names);
        STRV_FOREACH (n, names) {
                if (streq(*n, "manifest") || streq(*n, "rootfs"))
                        continue;
                shown = text_escape_for_terminal(*n);
                if (xasprintf(&why, "it contains '%s'", shown ?: "?") < 0)
                        return error_oom(e);
                return layout_error(e, -EINVAL, l->path, why);
        }
        return 0;
}

static int open_rootfs(Layout *l, Error *e)
{
        l->rootfs_fd = open_no_symlinks(l->dir_fd, "rootfs", O_RDONLY | O_DIRECTORY);
        if (l->rootfs_fd >= 0)
                return 0;
        if (l->rootfs_fd == -ENOENT)
                return layout_error(e, -ENOENT, l->path, "it has no rootfs");
        if (l->rootfs_fd == -ELOOP || l->rootfs_fd == -ENOTDIR)
                return layout_error(e, -EINVAL, l->path, "its rootfs is not a directory");
        return error_set_errno(e, l->rootfs_fd, "Cannot open the rootfs of '%s'", l->path);
}

static int read_manifest(Layout *l, Findings *findings, Error *e)
{
        _cleanup_close_ int fd = open_no_symlinks(l->dir_fd, "manifest", O_RDONLY | O_NONBLOCK | O_NOCTTY);

        if (fd == -ENOENT)
                return layout_error(e, -ENOENT, l->path, "it has no manifest");
        if (fd == -ELOOP)
                return layout_error(e, -EINVAL, l->path, "its manifest is a symbolic link");
        int r = fd < 0 ? fd : read_fd_bounded(fd, MANIFEST_SIZE_MAX, &l->manifest_text, &l->manifest_size);
        if (r == -EBADMSG)
                return layout_error(e, -EINVAL, l->path, "its manifest is not a regular file");
        if (r == -EFBIG)
                return error_set(e, r, "The manifest of '%s' is longer than %u bytes", l->path,
                                 MANIFEST_SIZE_MAX);
        if (r < 0)
                return error_set_errno(e, r, "Cannot read the manifest of '%s'", l->path);
        r = image_manifest_parse(l->manifest_text, l->manifest_size, &l->manifest, findings, e);
        if (r >= 0)
                return 0;
        r = error_prefix(e, r, "The manifest of '%s' is not valid", l->path);
        return error_hint(e, r, "For all errors, run: acnspawn validate %s/manifest", l->path);
}

int layout_open(const char *dir, Layout **ret, Findings *findings, Error *e)
{
        _cleanup_(layout_freep) Layout *l = calloc(1, sizeof(Layout));

        if (!l)
                return error_oom(e);
        *l = (Layout){.path = text_escape_for_terminal(dir), .dir_fd = -EBADF, .rootfs_fd = -EBADF};
        if (!l->path)
                return error_oom(e);
        l->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (l->dir_fd < 0 && errno == ENOTDIR)
                return layout_error(e, -ENOTDIR, dir, "it is not a directory");
        if (l->dir_fd < 0) {
                int r = error_set_errno(e, errno, "Cannot open the layout '%s'", l->path);
                return r == -ENOENT ? error_hint(e, r, "%s", layout_hint) : r;
        }
        int r = read_manifest(l, findings, e);
        if (r >= 0)
                r = open_rootfs(l, e);
        if (r >= 0)
                r = check_names(l, e);
        if (r >= 0)
                *ret = TAKE_PTR(l);
        return r;
}

Layout *layout_free(Layout *l)
{
        if (!l)
                return NULL;
        safe_close(l->dir_fd);
        safe_close(l->rootfs_fd);
        (void) image_manifest_free(l->manifest);
        free(l->manifest_text);
        free(l->path);
        free(l);
        return NULL;
}

/* Labels may have any value; characters that are not suitable for a file name become an underscore. */
static void add_part(Text *t, const char *s)
{
        for (; *s; s++)
                text_add_bytes(t, (unsigned char) *s <= ' ' || strchr("/\\\177", *s) ? "_" : s, 1);
}

int layout_file_name(const Layout *l, char **ret, Error *e)
{
        static const char *const labels[] = {"version", "os", "arch"};
        const char *slash = strrchr(l->manifest->name, '/');
        _cleanup_text_ Text t = {};

        add_part(&t, slash ? slash + 1 : l->manifest->name);
        for (size_t i = 0; i < ELEMENTSOF(labels); i++) {
                const char *value = pair_list_get(&l->manifest->labels, labels[i]);
                if (isempty(value))
                        continue;
                text_add(&t, "-");
                add_part(&t, value);
        }
        text_add(&t, ".aci");
        return text_take(&t, ret, NULL) < 0 ? error_oom(e) : 0;
}
