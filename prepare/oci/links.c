/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Copies files of lower layers that are targets of a layer's hard links (see prepare/unpack/links-below.c), and hides those in the place of a
 * layer's device nodes, which are left out.
 *
 * They are searched from the next lower layer downwards, as overlayfs would, without following a symbolic
 * link, and copied: content (cloned if the file system supports that), owner, mode, attributes and times.
 * Both the target and the link are in the layer then, as if overlayfs had copied the file up.
 *
 * The result depends on the layers below, so such a layer is not shared with other images that have a layer
 * of the same digest: its name in the store is the hash of the digests of all layers up to it
 * (LAYER_ID_MADE). Earlier versions named it like a layer that was unpacked: images of that time have these
 * layers, which are not used for other images.
 */

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "prepare/oci/oci-internal.h"

typedef struct Filling {
        Store *store;
        Layer *layers; /* all layers of the image */
        size_t n_layers;
        Layer *layer;         /* the layer whose links are filled */
        int dir_fd, below_fd; /* the layer's own directory, and that of the empty files */
} Filling;

static void filling_done(Filling *f)
{
        safe_close(f->below_fd);
}

static int make_chain_id(char *const *diff_ids, size_t n, char **ret, Error *e)
{
        _cleanup_free_ char *digest = NULL;
        _cleanup_text_ Text t = {};

        text_add(&t, "acnspawn links\n");
        for (size_t i = 0; i < n; i++)
                text_addf(&t, "%s\n", diff_ids[i]);
        if (t.failed || digest_bytes("sha256:", t.data, t.size, &digest) < 0 ||
            xasprintf(ret, LAYER_ID_MADE "%s", digest + strlen("sha256:")) < 0)
                return error_oom(e);
        return 0;
}

int layer_set_ids(Layer *l, Error *e)
{
        const char *digits = startswith(l->diff_id, "sha256:");

        if (!digits)
                return error_set(e, -EPROTONOSUPPORT,
                                 "Layer %u is named by a digest that the store does not use (%s)", l->number,
                                 l->diff_id);
        if (xasprintf(&l->content_id, LAYER_ID_UNPACKED "%s", digits) < 0 ||
            !(l->id = strdup(l->content_id)))
                return error_oom(e);
        return make_chain_id(l->diff_ids, l->number, &l->chain_id, e);
}

/* --- The source ---------------------------------------------------------------------------------------- */

static const Layer *find_layer(const Filling *f, const char *diff_id)
{
        for (size_t i = 0; i < f->n_layers; i++)
                if (streq(f->layers[i].diff_id, diff_id))
                        return &f->layers[i];
        return NULL;
}

/* Finds TARGET in the layers below: *RET_FD is the directory that contains it. Returns the number of its layer, 0: there is none. */
static int find_below(const Filling *f, const char *target, int *ret_fd, struct stat *ret, Error *e)
{
        /* A layer that is repeated further up is listed only there, but also counts here. */
        for (unsigned n = f->layer->number - 1; n-- > 0;) {
                const Layer *l = find_layer(f, f->layer->diff_ids[n]);
                _cleanup_close_ int dir_fd = -EBADF;

                if (!l || (l->links && l->links->n > 0))
                        return error_set(e, -EOPNOTSUPP,
                                         "its target's layer is repeated further up, with hard links of "
                                         "its own");
                dir_fd = layer_open(f->store, l, e);
                if (dir_fd < 0)
                        return dir_fd;
                int r = layer_look_up(dir_fd, target, ret_fd, ret);
                if (r == -ELOOP)
                        return error_set(e, -EBADMSG, "its path contains a symbolic link of layer %u",
                                         n + 1);
                if (r == -ENOENT)
                        break;
                if (r < 0)
                        return error_set_errno(e, r, "cannot access layer %u", n + 1);
                if (r > 0)
                        return (int) n + 1;
        }
        return 0;
}

/* *RET_FD: the directory that contains it. */
static int find_source(const Filling *f, const char *target, int *ret_fd, struct stat *ret, Error *e)
{
        int r = find_below(f, target, ret_fd, ret, e);

        if (r == 0)
                return error_set(
                                e, -EBADMSG,
                                "it leads to no earlier entry of the archive, and to no file of the layers below");
        if (r > 0 && S_ISDIR(ret->st_mode)) {
                *ret_fd = safe_close(*ret_fd);
                return error_set(e, -EBADMSG, "its target is a directory of layer %d", r);
        }
        return MIN(r, 0);
}

/* --- Copying ------------------------------------------------------------------------------------------- */

static int check_space(const Filling *f, const struct stat *st, Error *e)
{
        FreeSpace space;

        int r = free_space_read(f->dir_fd, &space);
        if (r < 0)
                return error_set_errno(e, r, "cannot determine the free space of the store");
        if (space.inodes == 0 || space.bytes < (uint64_t) st->st_blocks * 512U)
                return error_set(e, -ENOSPC, "its file needs more space than the store has");
        return 0;
}

/* Owner before mode and attributes, which chown() may clear. */
static int copy_file(const Filling *f, int from_dir, const char *name, int to, const struct stat *st)
{
        const struct timespec times[2] = {st->st_atim, st->st_mtim};
        _cleanup_close_ int from = open_beneath(from_dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);

        if (from < 0)
                return from;
        if (ftruncate(to, 0) < 0)
                return -errno;
        int r = file_copy_content(from, to, st->st_size, f->store->operation);
        if (r < 0)
                return r;
        if (fchown(to, st->st_uid, st->st_gid) < 0 &&
            !(errno == EPERM && f->store->flags & STORE_UNPRIVILEGED))
                return -errno;
        if (fchmod(to, st->st_mode & 07777U) < 0)
                return -errno;
        r = xattr_copy_all(from, to);
        if (r < 0)
                return r;
        return futimens(to, times) < 0 ? -errno : 0;
}

/* A symbolic link or a FIFO: NAME of one directory as TO_NAME of another. */
static int copy_other(const Filling *f, int from_dir, const char *name, int to_dir, const char *to_name,
                      const struct stat *st)
{
        const struct timespec times[2] = {st->st_atim, st->st_mtim};
        char target[LINK_SIZE_MAX + 2];

        if (S_ISLNK(st->st_mode)) {
                ssize_t n = readlinkat(from_dir, name, target, sizeof(target) - 1);
                if (n < 0)
                        return -errno;
                target[n] = 0;
                if (symlinkat(target, to_dir, to_name) < 0)
                        return -errno;
        } else if (mknodat(to_dir, to_name, S_IFIFO | (st->st_mode & 07777U), 0) < 0)
                return -errno;
        if (fchownat(to_dir, to_name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0 &&
            !(errno == EPERM && f->store->flags & STORE_UNPRIVILEGED))
                return -errno;
        if (!S_ISLNK(st->st_mode) && fchmodat(to_dir, to_name, st->st_mode & 07777U, 0) < 0)
                return -errno;
        return utimensat(to_dir, to_name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

/* --- The names ----------------------------------------------------------------------------------------- */

/* Calls FUNCTION for PATH if that is still the empty file INODE; the times of its directory are
 * preserved. */
static int for_name(const Filling *f, const char *path, ino_t inode,
                    int (*function)(const Filling *f, int parent_fd, const char *name, const char *argument),
                    const char *argument)
{
        _cleanup_close_ int fd = -EBADF;
        _cleanup_free_ char *parent = NULL;
        const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
        struct stat st, directory;

        parent = slash ? strndup(path, (size_t) (slash - path)) : strdup(".");
        if (!parent)
                return -ENOMEM;
        fd = open_beneath(f->dir_fd, parent, O_RDONLY | O_DIRECTORY);
        if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
                return 0; /* replaced by a later entry */
        if (fd < 0)
                return fd;
        if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : -errno;
        if (st.st_ino != inode)
                return 0;
        if (fstat(fd, &directory) < 0)
                return -errno;
        int r = function(f, fd, name, argument);
        if (r < 0)
                return r;
        const struct timespec times[2] = {directory.st_atim, directory.st_mtim};
        return futimens(fd, times) < 0 ? -errno : 0;
}

static int remove_name(const Filling *f, int parent_fd, const char *name, const char *argument)
{
        return unlinkat(parent_fd, name, 0) < 0 ? -errno : 0;
}

/* ARGUMENT: the new file, in the directory "below". */
static int replace_name(const Filling *f, int parent_fd, const char *name, const char *argument)
{
        if (unlinkat(parent_fd, name, 0) < 0)
                return -errno;
        return linkat(f->below_fd, argument, parent_fd, name, 0) < 0 ? -errno : 0;
}

/* A whiteout of the directory may follow the link in the archive: the target is then hidden, and the link
 * stays. */
static int hide_target(const Filling *f, const LinkBelow *l)
{
        _cleanup_free_ char *path = strdup(l->target);

        if (!path)
                return -ENOMEM;
        for (char *slash = strrchr(path, '/');; slash = strrchr(path, '/')) {
                if (slash)
                        *slash = 0;
                _cleanup_close_ int fd = open_beneath(f->dir_fd, slash ? path : ".", O_RDONLY | O_DIRECTORY);
                if (fd >= 0 && unpack_is_opaque(fd))
                        return for_name(f, l->target, l->inode, remove_name, NULL);
                if (!slash)
                        return 0;
        }
}

static int fill_with_other(const Filling *f, const LinkBelow *l, int from_dir, const char *number,
                           const struct stat *st)
{
        const char *name = strrchr(l->target, '/') ? strrchr(l->target, '/') + 1 : l->target;
        char other[40];

        snprintf(other, sizeof(other), "%s.other", number);
        int r = copy_other(f, from_dir, name, f->below_fd, other, st);
        if (r >= 0)
                r = for_name(f, l->target, l->inode, replace_name, other);
        for (char *const *n = l->names; r >= 0 && n && *n; n++)
                r = for_name(f, *n, l->inode, replace_name, other);
        return r;
}

static int fill_link(const Filling *f, size_t i, Error *e)
{
        const LinkBelow *l = &f->layer->links->links[i];
        const char *name = strrchr(l->target, '/') ? strrchr(l->target, '/') + 1 : l->target;
        _cleanup_close_ int fd = -EBADF, from_dir = -EBADF;
        struct stat st, source;
        char number[24];

        snprintf(number, sizeof(number), "%zu", i);
        fd = openat(f->below_fd, number, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
                return error_set_errno(e, errno, "cannot open its directory");
        int r = find_source(f, l->target, &from_dir, &source, e);
        if (r < 0)
                return r;
        r = hide_target(f, l);
        if (r < 0)
                return error_set_errno(e, r, "cannot hide its target");
        if (S_ISREG(source.st_mode)) {
                r = check_space(f, &source, e);
                if (r < 0)
                        return r;
                r = copy_file(f, from_dir, name, fd, &source);
        } else
                r = fill_with_other(f, l, from_dir, number, &source);
        return r < 0 ? error_set_errno(e, r, "cannot copy its file") : 0;
}

/* --- Devices ------------------------------------------------------------------------------------------- */

/* Whether the layers below have PATH, and this one neither has nor hides it. */
static int shines_through(const Filling *f, const char *path, Error *e)
{
        _cleanup_close_ int own_fd = -EBADF, fd = -EBADF;
        _cleanup_error_ Error why = ERROR_NULL;
        struct stat st;

        int r = layer_look_up(f->dir_fd, path, &own_fd, &st);
        if (r > 0 || r == -ENOENT || r == -ELOOP) /* a later entry of the archive has replaced it */
                return 0;
        if (r < 0)
                return error_set_errno(e, r, "cannot look it up");
        r = find_below(f, path, &fd, &st, &why);
        if (r == -EBADMSG) /* there is a link of a layer below, which a directory of this one hides */
                return 0;
        if (r < 0 && r != -EOPNOTSUPP)
                return error_move(e, &why);
        return r != 0;
}

/* The times of its directory are preserved. */
static int hide(const Filling *f, const char *path)
{
        const char *slash = strrchr(path, '/');
        _cleanup_free_ char *parent = strndup(path, (size_t) (slash - path));
        _cleanup_close_ int fd = parent ? open_beneath(f->dir_fd, parent, O_RDONLY | O_DIRECTORY) : -ENOMEM;
        struct stat st;

        if (fd < 0)
                return fd;
        if (fstat(fd, &st) < 0 || mknodat(fd, slash + 1, S_IFCHR, makedev(0, 0)) < 0)
                return -errno;
        return futimens(fd, (struct timespec[2]){st.st_atim, st.st_mtim}) < 0 ? -errno : 0;
}

/* From the last to the first: a device may be in the place of a directory that had others in it. */
static int hide_all(const Filling *f, const char **ret_first, size_t *ret_n, Error *e)
{
        const LinksBelow *l = f->layer->links;

        for (size_t i = l->n_devices; i-- > 0;) {
                int r = operation_check(f->store->operation, e);
                if (r < 0)
                        return r;
                r = shines_through(f, l->devices[i], e);
                if (r == 0)
                        continue;
                if (r > 0 && (r = hide(f, l->devices[i])) < 0)
                        (void) error_set_errno(e, r, "cannot create a whiteout");
                if (r < 0) {
                        _cleanup_free_ char *shown = text_escape_for_terminal(l->devices[i]);
                        return error_prefix(e, r, "Layer %u (%s): Cannot leave out the device '%s'",
                                            f->layer->number, f->layer->descriptor->digest, shown ?: "?");
                }
                (*ret_n)++;
                *ret_first = l->devices[i] + strlen("rootfs");
        }
        return 0;
}

static int hide_below_devices(const Filling *f, Error *e)
{
        const char *first = NULL;
        size_t n = 0;

        int r = hide_all(f, &first, &n, e);
        if (r < 0 || n == 0)
                return r;
        r = write_file_new_at(f->dir_fd, WHITEOUTS_FILE, "", 0, 0644);
        if (r < 0 && r != -EEXIST)
                return error_set_errno(e, r, "Cannot write the files of layer %u to the store",
                                       f->layer->number);
        _cleanup_free_ char *shown = text_escape_for_terminal(first);
        operation_message(
                        f->store->operation, LOG_LEVEL_WARNING,
                        "Files of the lower layers of the image are hidden, %zu, the first of which is '%s', as layer "
                        "%u has device nodes in their place, which are left out",
                        n, shown ?: "?", f->layer->number);
        return 0;
}

/* --- One layer ----------------------------------------------------------------------------------------- */

static int open_filling(Filling *f, Error *e)
{
        f->dir_fd = f->layer->temporary.dir_fd;
        if (f->layer->links->n == 0)
                return 0; /* it has devices only */
        f->below_fd = openat(f->dir_fd, LINKS_BELOW, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return f->below_fd < 0 ? error_set_errno(e, errno, "Cannot open layer %u", f->layer->number) : 0;
}

static int fill_layer(Filling *f, Error *e)
{
        Layer *l = f->layer;
        char *id = NULL;

        int r = open_filling(f, e);
        for (size_t i = 0; r >= 0 && i < l->links->n; i++) {
                r = operation_check(f->store->operation, e);
                if (r < 0)
                        return r;
                r = fill_link(f, i, e);
                if (r < 0) {
                        const LinkBelow *link = &l->links->links[i];
                        _cleanup_free_ char *shown = text_escape_for_terminal(link->names ? link->names[0]
                                                                                          : link->target);
                        return error_prefix(e, r, "Layer %u (%s): Cannot unpack the hard link '%s'",
                                            l->number, l->descriptor->digest, shown ?: "?");
                }
        }
        if (r >= 0)
                r = hide_below_devices(f, e);
        if (r < 0)
                return r;
        r = rm_rf_at(l->temporary.dir_fd, LINKS_BELOW);
        if (r < 0)
                return error_set_errno(e, r, "Cannot clean up layer %u", l->number);
        r = record_write(l->temporary.dir_fd, NULL, f->store->operation, e);
        if (r < 0)
                return r;
        id = strdup(l->chain_id);
        if (!id)
                return error_oom(e);
        free(l->id);
        l->id = id;
        l->links = links_below_free(l->links);
        return 0;
}

int layers_fill_links(Store *s, Layer *layers, size_t n, Error *e)
{
        for (size_t i = 0; i < n; i++) {
                _cleanup_(filling_done) Filling f = {.store = s,
                                                     .layers = layers,
                                                     .n_layers = n,
                                                     .layer = &layers[i],
                                                     .dir_fd = -EBADF,
                                                     .below_fd = -EBADF};
                int r = layers[i].links ? fill_layer(&f, e) : 0;
                if (r < 0)
                        return r;
        }
        return 0;
}
