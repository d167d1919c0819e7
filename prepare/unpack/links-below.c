/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Hard links of a layer to files of the layers below it.
 *
 * Builders that record the changes of a file system write them: a further name of a file in the layers below
 * is a hard link in the archive, without the file. If a layer is unpacked over these layers, the link makes
 * overlayfs copy the file up. Here layers are unpacked separately and in parallel, so the target of the link
 * is not known yet: an empty file is created as a placeholder, at the target and at each name, and the
 * entries that follow apply to it as they would to the file itself. Once the layers below are unpacked the
 * placeholders get the content (prepare/oci/links.c).
 *
 * The placeholders are also linked in the directory "below", beside rootfs, by their number, so that their
 * inodes are not reused if the archive replaces their names. The size of a placeholder is its number plus
 * one, by which it is recognized.
 *
 * Device nodes, which are left out, are noted, too: what the layers below have in their place has to be hidden, and is not known yet.
 */

#include <sys/stat.h>

#include "prepare/unpack/unpack-internal.h"

#define LINKS_BELOW_MAX 65536U
#define NAMES_BELOW_MAX (64U << 20) /* bytes of all names */

static void placeholder_done(LinkBelow *l)
{
        free(l->target);
        (void) strv_free(l->names);
}

LinksBelow *links_below_free(LinksBelow *l)
{
        if (!l)
                return NULL;
        for (size_t i = 0; i < l->n; i++)
                placeholder_done(&l->links[i]);
        free(l->links);
        for (size_t i = 0; i < l->n_devices; i++)
                free(l->devices[i]);
        free(l->devices);
        free(l);
        return NULL;
}

/* --- Looking up a file in layers ----------------------------------------------------------------------- */

/* Moves *FD to its subdirectory NAME. Results as those of layer_look_up(). */
static int descend(int *fd, const char *name)
{
        struct stat st;

        if (fstatat(*fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : -errno;
        if (S_ISLNK(st.st_mode))
                return -ELOOP;
        if (!S_ISDIR(st.st_mode))
                return -ENOENT;
        int next = openat(*fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (next < 0)
                return -errno;
        safe_close(*fd);
        *fd = next;
        return 1;
}

int layer_look_up(int dir_fd, const char *path, int *ret_parent_fd, struct stat *ret)
{
        _cleanup_close_ int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_free_ char *copy = strdup(path);
        bool opaque = false;

        if (fd < 0 || !copy)
                return fd < 0 ? -errno : -ENOMEM;
        char *name = copy;
        for (char *slash; (slash = strchr(name, '/')); name = slash + 1) {
                opaque = opaque || unpack_is_opaque(fd);
                *slash = 0;
                int r = descend(&fd, name);
                if (r <= 0)
                        return r == 0 && opaque ? -ENOENT : r;
        }
        opaque = opaque || unpack_is_opaque(fd);
        if (fstatat(fd, name, ret, AT_SYMLINK_NOFOLLOW) < 0)
                return errno != ENOENT ? -errno : opaque ? -ENOENT : 0;
        if (unpack_is_whiteout(ret))
                return -ENOENT;
        *ret_parent_fd = TAKE_FD(fd);
        return 1;
}

/* --- Placeholders -------------------------------------------------------------------------------------- */

static int charge_name(LinksBelow *l, const char *name, const char *path, Error *e)
{
        l->names_size += strlen(name) + 1;
        if (l->names_size > NAMES_BELOW_MAX)
                return unpack_error(
                                e, -E2BIG, path,
                                "the layer has too many hard links to files of the layers below, or devices");
        return 0;
}

/* The number of the placeholder ST; -1: it is another file. */
static ssize_t find_link(const LinksBelow *l, const struct stat *st)
{
        if (!l || !S_ISREG(st->st_mode) || st->st_size < 1 || (uint64_t) st->st_size > l->n)
                return -1;
        return l->links[st->st_size - 1].inode == st->st_ino ? (ssize_t) st->st_size - 1 : -1;
}

bool links_below_is_target(const LinksBelow *l, const struct stat *st, const char *path)
{
        ssize_t i = find_link(l, st);

        return i >= 0 && streq(l->links[i].target, path);
}

int links_below_note_name(LinksBelow *l, const struct stat *st, const char *path, Error *e)
{
        ssize_t i = find_link(l, st);

        if (i < 0)
                return 0;
        int r = charge_name(l, path, path, e);
        if (r < 0)
                return r;
        return strv_extend(&l->links[i].names, path) < 0 ? error_oom(e) : 0;
}

/* Creates the placeholder of that number, in the directory "below" and as NAME in PARENT_FD. */
static int make_placeholder(Unpack *u, size_t i, int parent_fd, const char *name, struct stat *ret)
{
        _cleanup_close_ int below_fd = -EBADF, fd = -EBADF;
        char number[24];

        if (i == 0 && mkdirat(u->dir_fd, LINKS_BELOW, 0700) < 0)
                return -errno;
        below_fd = openat(u->dir_fd, LINKS_BELOW, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (below_fd < 0)
                return -errno;
        snprintf(number, sizeof(number), "%zu", i);
        fd = openat(below_fd, number, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0 || ftruncate(fd, (off_t) i + 1) < 0 || fstat(fd, ret) < 0)
                return -errno;
        return linkat(below_fd, number, parent_fd, name, 0) < 0 ? -errno : 0;
}

static int no_target(const char *path, Error *e)
{
        return unpack_error(e, -EBADMSG, path,
                            "the target of the hard link is no earlier entry of the archive");
}

/* Checks that this layer does not hide TARGET in the layers below. */
static int check_visible(const Unpack *u, const char *target, const char *path, Error *e)
{
        _cleanup_close_ int parent_fd = -EBADF;
        struct stat st;

        int r = layer_look_up(u->dir_fd, target, &parent_fd, &st);
        if (r == -ELOOP)
                return unpack_error(e, -EBADMSG, path, "the hard link leads through a symbolic link");
        if (r == -ENOENT || r > 0)
                return no_target(path, e);
        return r < 0 ? unpack_error_errno(e, r, path, "cannot look up its target") : 0;
}

static int make_links(Unpack *u, Error *e)
{
        if (!u->links_below)
                u->links_below = calloc(1, sizeof(LinksBelow));
        return u->links_below ? 0 : error_oom(e);
}

int links_below_note_device(Unpack *u, const char *path, Error *e)
{
        int r = make_links(u, e);

        if (r >= 0)
                r = charge_name(u->links_below, path, path, e);
        if (r < 0)
                return r;
        LinksBelow *l = u->links_below;
        if (l->n_devices >= LINKS_BELOW_MAX)
                return unpack_error(e, -E2BIG, path, "the layer has more than %u device nodes",
                                    LINKS_BELOW_MAX);
        if (GREEDY_REALLOC(l->devices, l->allocated_devices, l->n_devices + 1) < 0)
                return error_oom(e);
        char *copy = strdup(path);
        if (!copy)
                return error_oom(e);
        l->devices[l->n_devices++] = copy;
        return 0;
}

int links_below_add(Unpack *u, const char *target, const char *path, const struct timespec *mtime, Error *e)
{
        const char *name;
        struct stat st;
        int parent_fd;

        if (!u->link_below)
                return no_target(path, e);
        int r = check_visible(u, target, path, e);
        if (r < 0)
                return r;
        r = make_links(u, e);
        if (r < 0)
                return r;
        LinksBelow *l = u->links_below;
        if (l->n >= LINKS_BELOW_MAX)
                return unpack_error(e, -E2BIG, path,
                                    "the layer has hard links to more than %u files of the layers below",
                                    LINKS_BELOW_MAX);
        if (GREEDY_REALLOC(l->links, l->allocated, l->n + 1) < 0)
                return error_oom(e);
        r = charge_name(l, target, path, e);
        if (r >= 0)
                r = unpack_charge(u, 0, e);
        if (r >= 0)
                r = unpack_open_parent(u, target, mtime, &parent_fd, &name, e);
        if (r < 0)
                return r;
        r = make_placeholder(u, l->n, parent_fd, name, &st);
        if (r < 0)
                return unpack_error_errno(e, r, path, "cannot create its target");
        char *copy = strdup(target);
        if (!copy)
                return error_oom(e);
        l->links[l->n++] = (LinkBelow){.inode = st.st_ino, .target = copy};
        return 0;
}
