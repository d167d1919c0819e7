/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Reads the extended attributes of a file for an archive.
 *
 * Attributes that belong to the file are included: user ones, trusted ones (visible to root only), and of
 * the security ones the file capabilities and all that are not listed below. Labels and measurements that
 * the security modules of this host set on every file are left out, and also attributes of the current file
 * system (system.*, btrfs.*): with them the same tree would be a different image on another host. Attributes
 * that control overlayfs are refused, as unpacking refuses them. ACLs are written as text, which readers of
 * tar expect, with numeric IDs only.
 */

#include <endian.h>
#include <limits.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <sys/xattr.h>

#include "prepare/pack/pack-internal.h"

static const char *const refused[] = {"trusted.overlay.", "user.overlay."};
static const char *const kept[] = {"user.", "trusted.", "security."};
static const char *const left_out[] = {
                "security.selinux", "security.SMACK64", "security.ima", "security.evm", "security.apparmor",
};

void pack_xattrs_done(PackXattrs *x)
{
        for (size_t i = 0; i < x->n; i++) {
                free(x->items[i].name);
                free(x->items[i].value);
        }
        free(x->items);
        free(x->acl_access);
        free(x->acl_default);
        *x = (PackXattrs){};
}

static bool has_prefix_of(const char *name, const char *const *list, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (startswith(name, list[i]))
                        return true;
        return false;
}

static int xattr_error(Error *e, int code, const char *path, const char *name, const char *why)
{
        _cleanup_free_ char *shown = text_escape_for_terminal(name);

        return pack_error(e, code, path, "its attribute %s %s", shown ?: "?", why);
}

/* Uses /proc, since fgetxattr() does not work with O_PATH descriptors. */
static ssize_t read_value(int fd, const char *name, void *buffer, size_t size)
{
        char link[32];

        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        ssize_t n = getxattr(link, name, buffer, size);
        return n < 0 ? -errno : n;
}

/* --- ACLs ---------------------------------------------------------------------------------------------- */

static const struct {
        uint16_t tag;
        const char *name;
        bool has_id;
} acl_tags[] = {
                {ACL_USER_OBJ, "user", false}, {ACL_USER, "user", true},  {ACL_GROUP_OBJ, "group", false},
                {ACL_GROUP, "group", true},    {ACL_MASK, "mask", false}, {ACL_OTHER, "other", false},
};

static bool add_acl_entry(Text *t, const struct posix_acl_xattr_entry *x)
{
        uint16_t perm = le16toh(x->e_perm);
        char id[16] = "";

        for (size_t i = 0; i < ELEMENTSOF(acl_tags); i++) {
                if (acl_tags[i].tag != le16toh(x->e_tag))
                        continue;
                if (acl_tags[i].has_id)
                        snprintf(id, sizeof(id), "%" PRIu32, le32toh(x->e_id));
                text_addf(t, "%s%s:%s:%c%c%c", t->size > 0 ? "," : "", acl_tags[i].name, id,
                          perm & ACL_READ ? 'r' : '-', perm & ACL_WRITE ? 'w' : '-',
                          perm & ACL_EXECUTE ? 'x' : '-');
                return true;
        }
        return false;
}

static int acl_to_text(const unsigned char *value, size_t size, char **ret)
{
        struct posix_acl_xattr_header head;
        struct posix_acl_xattr_entry entry;
        _cleanup_text_ Text t = {};

        if (size < sizeof(head) || (size - sizeof(head)) % sizeof(entry) != 0)
                return -EINVAL;
        memcpy(&head, value, sizeof(head));
        if (le32toh(head.a_version) != POSIX_ACL_XATTR_VERSION)
                return -EINVAL;
        for (size_t n = sizeof(head); n < size; n += sizeof(entry)) {
                memcpy(&entry, value + n, sizeof(entry));
                if (!add_acl_entry(&t, &entry))
                        return -EINVAL;
        }
        return text_take(&t, ret, NULL);
}

static int add_acl(const unsigned char *value, size_t size, const char *path, const char *name, char **ret,
                   Error *e)
{
        int r = acl_to_text(value, size, ret);

        if (r == -ENOMEM)
                return error_oom(e);
        return r < 0 ? xattr_error(e, -ENOTSUP, path, name, "is not a supported ACL") : 0;
}

/* --- All attributes
 * ----------------------------------------------------------------------------------------------- */

int pack_xattrs_add(PackXattrs *x, const char *name, const void *value, size_t size, Error *e)
{
        if (GREEDY_REALLOC(x->items, x->allocated, x->n + 1) < 0)
                return error_oom(e);
        PackXattr *i = &x->items[x->n];
        *i = (PackXattr){.name = strdup(name), .value = malloc(size + 1), .size = size};
        x->n++;
        if (!i->name || !i->value)
                return error_oom(e);
        memcpy(i->value, value, size);
        return 0;
}

static int read_one(int fd, const char *name, const char *path, void *buffer, PackXattrs *x, Error *e)
{
        bool is_acl = streq(name, ACL_ACCESS) || streq(name, ACL_DEFAULT);

        if (has_prefix_of(name, refused, ELEMENTSOF(refused)))
                return xattr_error(e, -ENOTSUP, path, name,
                                   "controls overlayfs, which is not allowed in images");
        if (!is_acl && (!has_prefix_of(name, kept, ELEMENTSOF(kept)) ||
                        has_prefix_of(name, left_out, ELEMENTSOF(left_out))))
                return 0;
        ssize_t n = read_value(fd, name, buffer, XATTR_SIZE_MAX);
        if (n == -ENODATA)
                return pack_error(e, -EAGAIN, path, "its attributes changed while it was read");
        if (n < 0)
                return xattr_error(e, (int) n, path, name, strerror((int) -n));
        if (is_acl)
                return add_acl(buffer, (size_t) n, path, name,
                               streq(name, ACL_ACCESS) ? &x->acl_access : &x->acl_default, e);
        return pack_xattrs_add(x, name, buffer, (size_t) n, e);
}

static int compare(const void *a, const void *b)
{
        return strcmp(((const PackXattr *) a)->name, ((const PackXattr *) b)->name);
}

static int check_size(const PackXattrs *x, const char *path, Error *e)
{
        size_t total = 0;

        for (size_t i = 0; i < x->n; i++)
                total += strlen(x->items[i].name) + x->items[i].size;
        if (total > XATTRS_SIZE_MAX)
                return pack_error(e, -E2BIG, path, "its attributes are longer than %u bytes",
                                  XATTRS_SIZE_MAX);
        return 0;
}

int pack_xattrs_read(int fd, const char *path, PackXattrs *ret, Error *e)
{
        _cleanup_free_ char *names = NULL, *value = NULL;
        _cleanup_(pack_xattrs_done) PackXattrs x = {};
        char link[32];

        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        ssize_t n = listxattr(link, NULL, 0); /* most files have none */
        if (n == 0 || (n < 0 && errno == EOPNOTSUPP)) {
                *ret = (PackXattrs){};
                return 0;
        }
        names = malloc(XATTR_LIST_MAX);
        value = malloc(XATTR_SIZE_MAX);
        if (!names || !value)
                return error_oom(e);
        n = listxattr(link, names, XATTR_LIST_MAX);
        if (n < 0)
                return pack_error_errno(e, errno, path, "cannot read its attributes");
        for (const char *p = names; p < names + n; p += strlen(p) + 1) {
                int r = read_one(fd, p, path, value, &x, e);
                if (r < 0)
                        return r;
        }
        if (x.n > 1)
                qsort(x.items, x.n, sizeof(PackXattr), compare);
        int r = check_size(&x, path, e);
        if (r >= 0)
                *ret = TAKE_GENERIC(x, PackXattrs, (PackXattrs){});
        return r;
}
