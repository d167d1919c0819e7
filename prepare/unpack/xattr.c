/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Extended attributes and ACLs.
 *
 * An image's rootfs becomes a lower directory of overlays, so the attributes that control overlayfs
 * (redirects, opaque directories, whiteouts) must never come from an archive: they could hide or move files
 * of other layers. ACLs are attributes to the kernel, but text in archives; they are translated here, by
 * number only, as the names of the host's users mean nothing in an image.
 */

#include <endian.h>
#include <limits.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <sys/xattr.h>

#include "library/libarchive.h"
#include "prepare/unpack/unpack-internal.h"

static bool acts_on_overlay(const char *name)
{
        return startswith(name, "trusted.overlay.") || startswith(name, "user.overlay.");
}

static int xattr_check(const char *name, size_t size, size_t *total, const char *path, Error *e)
{
        _cleanup_free_ char *shown = text_escape_for_terminal(name);

        if (acts_on_overlay(name))
                return unpack_error(
                                e, -EBADMSG, path,
                                "its attribute %s would control overlayfs, which is not allowed in images",
                                shown ?: "?");
        if (isempty(name) || strlen(name) > XATTR_NAME_MAX)
                return unpack_error(e, -EBADMSG, path, "it has an attribute with a name of %zu bytes",
                                    strlen(name));
        if (size > XATTR_SIZE_MAX)
                return unpack_error(e, -E2BIG, path, "its attribute %s is longer than %u bytes",
                                    shown ?: "?", XATTR_SIZE_MAX);
        *total += strlen(name) + size;
        if (*total > XATTRS_SIZE_MAX)
                return unpack_error(e, -E2BIG, path, "its attributes are longer than %u bytes",
                                    XATTRS_SIZE_MAX);
        return 0;
}

int xattr_check_all(struct archive_entry *entry, const char *path, size_t *ret_total, Error *e)
{
        size_t size, total = 0;
        const char *name;
        const void *value;

        (void) archive_entry_xattr_reset(entry);
        while (archive_entry_xattr_next(entry, &name, &value, &size) == ARCHIVE_OK) {
                int r = xattr_check(name ?: "", size, &total, path, e);
                if (r < 0)
                        return r;
        }
        *ret_total = total;
        return 0;
}

int xattr_set(const MetadataTarget *t, const char *name, const void *value, size_t size, const char *path,
              Error *e)
{
        _cleanup_free_ char *link = NULL, *shown = NULL;
        int r;

        if (t->fd >= 0)
                r = fsetxattr(t->fd, name, value, size, 0) < 0 ? -errno : 0;
        else {
                /* There is no lsetxattrat(): use the path of the directory's descriptor. */
                r = xasprintf(&link, "/proc/self/fd/%d/%s", t->parent_fd, t->name);
                if (r >= 0 && lsetxattr(link, name, value, size, 0) < 0)
                        r = -errno;
        }
        if (r >= 0)
                return 0;
        shown = text_escape_for_terminal(name);
        return unpack_error(e, r, path, "cannot set its attribute %s: %s", shown ?: "?", strerror(-r));
}

int xattr_set_all(const MetadataTarget *t, struct archive_entry *entry, const char *path, Error *e)
{
        const char *name;
        const void *value;
        size_t size;

        (void) archive_entry_xattr_reset(entry);
        while (archive_entry_xattr_next(entry, &name, &value, &size) == ARCHIVE_OK) {
                if (streq(name, ACL_ACCESS) || streq(name, ACL_DEFAULT))
                        continue; /* see xattr_encode_acl() */
                if (streq(name, "security.selinux"))
                        continue; /* from the policy of the host where it was packed */
                int r = xattr_set(t, name, value, size, path, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* --- ACLs ---------------------------------------------------------------------------------------------- */

static const struct {
        int tag;         /* libarchive's */
        uint16_t kernel; /* in the order required by the kernel */
        bool has_id;
} acl_tags[] = {
                {ARCHIVE_ENTRY_ACL_USER_OBJ, ACL_USER_OBJ, false},
                {ARCHIVE_ENTRY_ACL_USER, ACL_USER, true},
                {ARCHIVE_ENTRY_ACL_GROUP_OBJ, ACL_GROUP_OBJ, false},
                {ARCHIVE_ENTRY_ACL_GROUP, ACL_GROUP, true},
                {ARCHIVE_ENTRY_ACL_MASK, ACL_MASK, false},
                {ARCHIVE_ENTRY_ACL_OTHER, ACL_OTHER, false},
};

static int translate_acl_entry(int permset, int tag, int id, const char *name,
                               struct posix_acl_xattr_entry *ret, const char *path, Error *e)
{
        for (size_t i = 0; i < ELEMENTSOF(acl_tags); i++) {
                if (acl_tags[i].tag != tag)
                        continue;
                if (acl_tags[i].has_id && id < 0) {
                        _cleanup_free_ char *shown = text_escape_for_terminal(name ?: "");
                        return unpack_error(e, -EBADMSG, path, "its ACL names '%s' without a number",
                                            shown ?: "?");
                }
                *ret = (struct posix_acl_xattr_entry){
                                .e_tag = htole16(acl_tags[i].kernel),
                                .e_perm = htole16((uint16_t) (permset & 07)),
                                .e_id = htole32(acl_tags[i].has_id ? (uint32_t) id
                                                                   : (uint32_t) ACL_UNDEFINED_ID),
                };
                return 0;
        }
        return unpack_error(e, -EBADMSG, path, "its ACL is of an unknown kind");
}

static int compare_acl_entries(const void *a, const void *b)
{
        const struct posix_acl_xattr_entry *x = a, *y = b;
        uint16_t xt = le16toh(x->e_tag), yt = le16toh(y->e_tag);
        uint32_t xi = le32toh(x->e_id), yi = le32toh(y->e_id);

        return xt != yt ? (xt < yt ? -1 : 1) : xi != yi ? (xi < yi ? -1 : 1) : 0;
}

/* An attribute of that name as it is in the archive. */
static int copy_raw_acl(struct archive_entry *entry, const char *name, void **ret, size_t *ret_size,
                        Error *e)
{
        const char *n;
        const void *value;
        size_t size;

        (void) archive_entry_xattr_reset(entry);
        while (archive_entry_xattr_next(entry, &n, &value, &size) == ARCHIVE_OK) {
                if (!streq(n, name) || size == 0)
                        continue;
                void *copy = malloc(size);
                if (!copy)
                        return error_oom(e);
                *ret = memcpy(copy, value, size);
                *ret_size = size;
                break;
        }
        return 0;
}

int xattr_encode_acl(struct archive_entry *entry, const char *name, const char *path, void **ret,
                     size_t *ret_size, Error *e)
{
        int type = streq(name, ACL_ACCESS) ? ARCHIVE_ENTRY_ACL_TYPE_ACCESS : ARCHIVE_ENTRY_ACL_TYPE_DEFAULT;
        _cleanup_free_ struct posix_acl_xattr_header *acl = NULL;
        int permset, tag, id, entry_type;
        const char *who;
        int n = 0;

        if (archive_entry_acl_types(entry) &
            ~(ARCHIVE_ENTRY_ACL_TYPE_ACCESS | ARCHIVE_ENTRY_ACL_TYPE_DEFAULT))
                return unpack_error(e, -EBADMSG, path,
                                    "it has an NFSv4 ACL, which Linux file systems do not support");
        int max = archive_entry_acl_reset(entry, type);
        if (max <= 0)
                return copy_raw_acl(entry, name, ret, ret_size, e);
        acl = calloc(1, sizeof(*acl) + (size_t) max * sizeof(struct posix_acl_xattr_entry));
        if (!acl)
                return error_oom(e);
        struct posix_acl_xattr_entry *entries = (struct posix_acl_xattr_entry *) (acl + 1);
        acl->a_version = htole32(POSIX_ACL_XATTR_VERSION);
        while (n < max &&
               archive_entry_acl_next(entry, type, &entry_type, &permset, &tag, &id, &who) == ARCHIVE_OK) {
                int r = translate_acl_entry(permset, tag, id, who, &entries[n++], path, e);
                if (r < 0)
                        return r;
        }
        qsort(entries, (size_t) n, sizeof(*entries), compare_acl_entries);
        *ret_size = sizeof(*acl) + (size_t) n * sizeof(*entries);
        *ret = TAKE_PTR(acl);
        return 0;
}

/* --- Removing attributes ------------------------------------------------------------------------------- */

/* Attributes of the system, or set by acnspawn. */
static bool attribute_stays(const char *name)
{
        return startswith(name, "system.") || streq(name, "security.selinux") || acts_on_overlay(name);
}

int xattr_clear(int fd)
{
        _cleanup_free_ char *names = malloc(XATTR_LIST_MAX);

        if (!names)
                return -ENOMEM;
        ssize_t n = flistxattr(fd, names, XATTR_LIST_MAX);
        if (n < 0)
                return errno == EOPNOTSUPP ? 0 : -errno;
        for (const char *p = names; p < names + n; p += strlen(p) + 1)
                if (!attribute_stays(p) && fremovexattr(fd, p) < 0 && errno != ENODATA)
                        return -errno;
        return 0;
}

/* --- Copying between files ----------------------------------------------------------------------------- */

static int copy_one(int from_fd, int to_fd, const char *name)
{
        _cleanup_free_ char *value = malloc(XATTR_SIZE_MAX);

        if (!value)
                return -ENOMEM;
        ssize_t n = fgetxattr(from_fd, name, value, XATTR_SIZE_MAX);
        if (n < 0)
                return -errno;
        return fsetxattr(to_fd, name, value, (size_t) n, 0) < 0 ? -errno : 0;
}

int xattr_copy_all(int from_fd, int to_fd)
{
        _cleanup_free_ char *names = malloc(XATTR_LIST_MAX);

        if (!names)
                return -ENOMEM;
        ssize_t n = flistxattr(from_fd, names, XATTR_LIST_MAX);
        if (n < 0)
                return errno == EOPNOTSUPP ? 0 : -errno;
        for (const char *p = names; p < names + n; p += strlen(p) + 1) {
                int r = acts_on_overlay(p) ? 0 : copy_one(from_fd, to_fd, p);
                if (r < 0)
                        return r;
        }
        return 0;
}
