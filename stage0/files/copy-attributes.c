/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Attributes of a file that is copied into or out of a pod.
 *
 * User and group IDs are valid on one side only. Those of a pod's files are offset by the base of its range,
 * on the host as well as in file capabilities and ACLs, and are converted. Without "archive" a copy is owned
 * by root on its side (in a pod: the pod's root), and so has no attributes that grant rights of the owner:
 * no set-ID bits, no capabilities, no ACL. Otherwise an app could create a set-user-ID root program on the
 * host.
 */

#include <endian.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <linux/xattr.h>
#include <sys/xattr.h>

#include "stage0/files/files-internal.h"

#define NOBODY 65534U

static const char not_taken[] = "the target does not support such extended attributes";
static const char not_mapped[] = "its owner has no ID on the other side, and is now nobody";
static const char not_kept[] = "set-ID bits, capabilities and ACLs are kept with --archive only";

/* --- Owners -------------------------------------------------------------------------------------------- */

uid_t attributes_maker(const Attributes *a)
{
        return a->to.mapped ? a->to.base : geteuid();
}

/* False: there is no such ID on the other side. */
static bool map_id(const Attributes *a, uint32_t id, uint32_t *ret)
{
        bool known = true;

        if (a->from.mapped) {
                known = id - a->from.base < a->from.count;
                id = known ? id - a->from.base : NOBODY;
        }
        if (a->to.mapped) {
                known = known && id < a->to.count;
                id = a->to.base + (known ? id : NOBODY);
        }
        *ret = id;
        return known;
}

static bool map_owner(const Attributes *a, const struct stat *st, uint32_t *ret_uid, uint32_t *ret_gid)
{
        *ret_uid = a->uid;
        *ret_gid = a->gid;
        if (!a->archive)
                return true;
        bool known = map_id(a, st->st_uid, ret_uid);
        return map_id(a, st->st_gid, ret_gid) && known;
}

/* --- Extended attributes ------------------------------------------------------------------------------- */

/* Capabilities of a file are valid in the user namespace whose root is ROOTID; without ROOTID, in the
 * host's. */
static ssize_t convert_capability(const Attributes *a, unsigned char *value, size_t n)
{
        struct vfs_ns_cap_data data = {};
        uint32_t root = 0;

        if (n != XATTR_CAPS_SZ_2 && n != XATTR_CAPS_SZ_3)
                return -EINVAL;
        memcpy(&data, value, n);
        if (n == XATTR_CAPS_SZ_3)
                root = le32toh(data.rootid);
        /* On an id-mapped layer the kernel may return either. */
        if (a->from.mapped && root == 0)
                root = a->from.base;
        if (!map_id(a, root, &root))
                return -EINVAL;
        uint32_t magic = le32toh(data.magic_etc) & ~VFS_CAP_REVISION_MASK;
        data.magic_etc = htole32(magic | (root > 0 ? VFS_CAP_REVISION_3 : VFS_CAP_REVISION_2));
        data.rootid = htole32(root);
        n = root > 0 ? XATTR_CAPS_SZ_3 : XATTR_CAPS_SZ_2;
        memcpy(value, &data, n);
        return (ssize_t) n;
}

static ssize_t convert_acl(const Attributes *a, unsigned char *value, size_t n)
{
        struct posix_acl_xattr_entry entry;

        for (size_t i = sizeof(struct posix_acl_xattr_header); i + sizeof(entry) <= n; i += sizeof(entry)) {
                uint32_t id;

                memcpy(&entry, value + i, sizeof(entry));
                if (le16toh(entry.e_tag) != ACL_USER && le16toh(entry.e_tag) != ACL_GROUP)
                        continue;
                if (!map_id(a, le32toh(entry.e_id), &id))
                        return -EINVAL;
                entry.e_id = htole32(id);
                memcpy(value + i, &entry, sizeof(entry));
        }
        return (ssize_t) n;
}

static ssize_t keep(const Attributes *a, unsigned char *value, size_t n)
{
        return (ssize_t) n;
}

static const struct {
        const char *name;
        bool is_prefix, archive;
        ssize_t (*convert)(const Attributes *a, unsigned char *value, size_t n);
} kinds[] = {
                {"user.", true, false, keep},
                {XATTR_NAME_CAPS, false, true, convert_capability},
                {XATTR_NAME_POSIX_ACL_ACCESS, false, true, convert_acl},
                {XATTR_NAME_POSIX_ACL_DEFAULT, false, true, convert_acl},
};

/* The buffer is one byte larger than any value: a converted value may be longer. */
static const char *copy_xattr(const Attributes *a, const char *from, int fd, const char *name,
                              unsigned char *value)
{
        for (size_t i = 0; i < ELEMENTSOF(kinds); i++) {
                if (kinds[i].is_prefix ? !startswith(name, kinds[i].name) : !streq(name, kinds[i].name))
                        continue;
                if (kinds[i].archive && !a->archive)
                        return not_kept;
                ssize_t n = getxattr(from, name, value, XATTR_SIZE_MAX);
                if (n < 0)
                        return NULL; /* it was removed meanwhile */
                n = kinds[i].convert(a, value, (size_t) n);
                if (n < 0)
                        return not_mapped;
                return fsetxattr(fd, name, value, (size_t) n, 0) < 0 ? not_taken : NULL;
        }
        return NULL;
}

static int copy_xattrs(const Attributes *a, int from_fd, int fd, const char **ret_why)
{
        _cleanup_free_ char *names = NULL;
        _cleanup_free_ unsigned char *value = NULL;
        char from[32];

        snprintf(from, sizeof(from), "/proc/self/fd/%d", from_fd);
        ssize_t n = listxattr(from, NULL, 0); /* most files have none */
        if (n <= 0)
                return 0;
        names = malloc(XATTR_LIST_MAX);
        value = malloc(XATTR_SIZE_MAX + XATTR_CAPS_SZ_3);
        if (!names || !value)
                return -ENOMEM;
        n = listxattr(from, names, XATTR_LIST_MAX);
        for (const char *p = names; n > 0 && p < names + n; p += strlen(p) + 1)
                *ret_why = copy_xattr(a, from, fd, p, value) ?: *ret_why;
        return 0;
}

/* --- All ----------------------------------------------------------------------------------------------- */

int attributes_copy(const Attributes *a, int from_fd, const struct stat *st, int fd, const char **ret_why)
{
        const struct timespec times[2] = {st->st_atim, st->st_mtim};
        mode_t special = S_ISDIR(st->st_mode) ? S_ISUID : S_ISUID | S_ISGID;
        uint32_t uid, gid;

        if (!map_owner(a, st, &uid, &gid))
                *ret_why = not_mapped;
        if (!a->archive && st->st_mode & special)
                *ret_why = not_kept;
        if (fchown(fd, uid, gid) < 0 || fchmod(fd, st->st_mode & (a->archive ? 07777U : 01777U)) < 0)
                return -errno;
        int r = copy_xattrs(a, from_fd, fd, ret_why);
        if (r < 0)
                return r;
        return futimens(fd, times) < 0 ? -errno : 0;
}

int attributes_copy_symlink(const Attributes *a, const struct stat *st, int fd)
{
        const struct timespec times[2] = {st->st_atim, st->st_mtim};
        uint32_t uid, gid;

        (void) map_owner(a, st, &uid, &gid);
        if (fchownat(fd, "", uid, gid, AT_EMPTY_PATH) < 0 || utimensat(fd, "", times, AT_EMPTY_PATH) < 0)
                return -errno;
        return 0;
}
