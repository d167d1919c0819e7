/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Layers of OCI images (image-spec, "Image Layer Filesystem Changeset").
 *
 * A layer becomes a lower directory of overlays, independent of the other layers of an image. Removals of
 * files of the layers below are stored in the archive as files with special names, and converted to those of
 * overlayfs:
 *
 *     .wh.NAME      a whiteout, that is a character device 0:0 at NAME; if the layer itself has NAME, before or
 *                   after that in the archive, NAME remains: a directory is made opaque
 *     .wh..wh..opq  the attribute that makes its directory opaque
 *     .wh..wh.*     metadata of AUFS, the origin of this format: ignored
 *
 * Only these create such an attribute; a layer that contains one itself is refused. Device nodes are left out, also 0:0, which is
 * what a whiteout is in a layer that was made of overlayfs's own directory, and so are hard links to them: what the layers below
 * have there is hidden (prepare/oci/links.c), by a later directory at that path, too; layers of earlier versions, which did not hide it, stay as
 * they are. Other entries may occur twice; the later one replaces the earlier one. That is the only difference from
 * unpacking an ACI, where nothing is ever replaced: the existing file is removed by name in a directory that
 * was opened without following symlinks, and only then is the new one created, exclusively, as always.
 */

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "library/libarchive.h"
#include "prepare/unpack/unpack-internal.h"

#define WHITEOUT_PREFIX ".wh."
#define AUFS_PREFIX ".wh..wh."
#define OPAQUE_NAME ".wh..wh..opq"

bool unpack_is_whiteout(const struct stat *st)
{
        return S_ISCHR(st->st_mode) && st->st_rdev == 0;
}

bool unpack_is_opaque(int fd)
{
        static const char *const names[] = {"trusted.overlay.opaque", "user.overlay.opaque"};
        char value;

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (fgetxattr(fd, names[i], &value, 1) == 1 && value == 'y')
                        return true;
        return false;
}

int unpack_set_opaque(Unpack *u, int fd, const char *path, Error *e)
{
        int r = fsetxattr(fd, "trusted.overlay.opaque", "y", 1, 0);

        if (r < 0 && errno == EPERM && u->unprivileged)
                r = fsetxattr(fd, "user.overlay.opaque", "y", 1, 0);
        if (r < 0)
                return unpack_error_errno(e, errno, path, "cannot make the directory opaque");
        u->has_whiteouts = true;
        return 0;
}

int unpack_make_way(int parent_fd, const char *name, const char *path, bool directory, bool *ret_hides,
                    Error *e)
{
        struct stat st;

        if (fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0
                                       : unpack_error_errno(e, errno, path,
                                                            "cannot check for an earlier entry");
        if (S_ISDIR(st.st_mode) && directory)
                return 1;
        int r = rm_rf_at(parent_fd, name);
        if (r < 0)
                return unpack_error_errno(e, r, path, "cannot replace an earlier entry");
        *ret_hides = !S_ISDIR(st.st_mode);
        return 0;
}

int unpack_layer_init(Unpack *u, int dir_fd, bool unprivileged, Error *e)
{
        const Metadata m = {.mode = 0755};

        int r = unpack_init(u, dir_fd, unprivileged, e);
        if (r < 0)
                return r;
        u->layer = true;
        if (mkdirat(dir_fd, "rootfs", 0700) < 0 || fchmodat(dir_fd, "rootfs", DIRECTORY_MODE_IMPLIED, 0) < 0)
                return error_set_errno(e, errno, "Cannot create a directory in the store");
        u->has_rootfs = true;
        return metadata_defer(u, dir_fd, &m, NULL, "rootfs", e);
}

/* --- Special names ------------------------------------------------------------------------------------- */

/* The parent of PATH, which is created if it is missing, and its last component. */
static int open_parent(Unpack *u, const char *path, struct archive_entry *entry, int *ret_fd,
                       const char **ret_name, Error *e)
{
        Metadata m;

        int r = unpack_charge(u, 0, e);
        if (r >= 0)
                r = metadata_read(entry, path, &m, e);
        return r < 0 ? r : unpack_open_parent(u, path, &m.times[1], ret_fd, ret_name, e);
}

static int make_opaque(Unpack *u, int dir_fd, const char *name, const char *path, Error *e)
{
        _cleanup_close_ int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (fd < 0)
                return unpack_error_errno(e, errno, path, "cannot open the directory");
        return unpack_set_opaque(u, fd, path, e);
}

/* PATH: the path to hide. */
static int make_whiteout(Unpack *u, const char *path, struct archive_entry *entry, Error *e)
{
        const char *name;
        struct stat st;
        int parent_fd;

        int r = open_parent(u, path, entry, &parent_fd, &name, e);
        if (r < 0)
                return r;
        u->has_whiteouts = true;
        bool is_there = fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) >= 0;
        if (is_there && links_below_is_target(u->links_below, &st, path)) {
                /* It is only the placeholder of a hard link to a file that is hidden now. */
                if (unlinkat(parent_fd, name, 0) < 0)
                        return unpack_error_errno(e, errno, path, "cannot create the whiteout");
                is_there = false;
                errno = ENOENT;
        }
        if (is_there)
                return S_ISDIR(st.st_mode) ? make_opaque(u, parent_fd, name, path, e) : 0;
        if (errno != ENOENT || mknodat(parent_fd, name, S_IFCHR, makedev(0, 0)) < 0)
                return unpack_error_errno(e, errno, path, "cannot create the whiteout");
        return 0;
}

static int take_whiteout(Unpack *u, const char *path, const char *last, struct archive_entry *entry,
                         Error *e)
{
        const char *name = last + strlen(WHITEOUT_PREFIX);
        _cleanup_free_ char *hidden = NULL;

        if (isempty(name) || streq(name, ".") || streq(name, ".."))
                return unpack_error(e, -EBADMSG, path, "the whiteout has no name to hide");
        if (!archive_entry_hardlink(entry) && archive_entry_filetype(entry) == AE_IFDIR)
                return unpack_error(e, -EBADMSG, path, "a whiteout cannot be a directory");
        if (xasprintf(&hidden, "%.*s%s", (int) (last - path), path, name) < 0)
                return error_oom(e);
        return make_whiteout(u, hidden, entry, e);
}

static int take_opaque(Unpack *u, const char *path, struct archive_entry *entry, Error *e)
{
        const char *name;
        int parent_fd;

        int r = open_parent(u, path, entry, &parent_fd, &name, e);
        return r < 0 ? r : make_opaque(u, parent_fd, ".", path, e);
}

/* 1: the name was a special one, and was processed. */
static int take_special(Unpack *u, const char *path, struct archive_entry *entry, Error *e)
{
        const char *last = strrchr(path, '/') + 1;
        int r;

        for (const char *p = path; p; p = strchr(p, '/') ? strchr(p, '/') + 1 : NULL) {
                if (p == last && streq(p, OPAQUE_NAME))
                        break;
                if (startswith(p, AUFS_PREFIX))
                        return 1;
                if (p != last && startswith(p, WHITEOUT_PREFIX))
                        return unpack_error(e, -EBADMSG, path, "it is below a whiteout");
        }
        if (!startswith(last, WHITEOUT_PREFIX))
                return 0;
        r = streq(last, OPAQUE_NAME) ? take_opaque(u, path, entry, e)
                                     : take_whiteout(u, path, last, entry, e);
        return r < 0 ? r : 1;
}

/* --- Entries ------------------------------------------------------------------------------------------- */

static bool is_device(struct archive_entry *entry)
{
        mode_t type = archive_entry_filetype(entry);

        return !archive_entry_hardlink(entry) && (type == AE_IFCHR || type == AE_IFBLK);
}

/* The device is not created, but an earlier entry at that path is removed. A whiteout is made later, and only if the layers below have something
 * there: it shows up in directory listings, without attributes, if none of them has the directory, which is the usual case. */
static int take_device(Unpack *u, const char *path, struct archive_entry *entry, Error *e)
{
        const char *name;
        int parent_fd;
        bool hides;

        int r = open_parent(u, path, entry, &parent_fd, &name, e);
        if (r >= 0)
                r = unpack_make_way(parent_fd, name, path, false, &hides, e);
        return r < 0 ? r : unpack_leave_out_device(u, path, e);
}

int unpack_layer_entry(Unpack *u, struct archive *a, struct archive_entry *entry, Error *e)
{
        _cleanup_free_ char *inside = NULL, *path = NULL;
        const char *name = archive_entry_pathname(entry);

        if (isempty(name))
                return error_set(e, -EBADMSG, "The archive has an entry without a name");
        /* Absolute names are relative to the root of the image. */
        if (xasprintf(&inside, "rootfs/%s", name) < 0)
                return error_oom(e);
        int r = unpack_normalize_path(inside, &path, e);
        if (r < 0)
                return r;
        r = streq(path, "rootfs") ? 0 : take_special(u, path, entry, e);
        if (r != 0)
                return r < 0 ? r : 0;
        if (is_device(entry) && !streq(path, "rootfs"))
                return take_device(u, path, entry, e);
        return unpack_entry(u, path, a, entry, e);
}
