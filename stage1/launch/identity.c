/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The identity of the app's processes: user and group of the manifest.
 *
 * A number is a number, also if the image has a user of that name; names are looked up in the image's own /etc/passwd and
 * /etc/group, and a value that begins with "/" stands for the owner of that file (spec: aci.md, "user, group"). For OCI images the groups
 * may be those that these files list for the user. The files are untrusted: they must be regular, are read
 * up to a limit and parsed by accounts.c, without the C library's name services.
 */

#include <sys/stat.h>

#include "stage1/launch/accounts.h"
#include "stage1/launch/launch.h"

#define DATABASE_SIZE_MAX (4U * 1024U * 1024U)
#define GROUPS_MAX 65536U /* the kernel's limit (NGROUPS_MAX) */

/* No magic links: the launcher still has descriptors that must not be reachable for the app. */
static int open_in_image(const char *path, int flags)
{
        _cleanup_close_ int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

        return root < 0 ? -errno : open_in_root(root, path, flags);
}

/* Reads a database of the image. 0: there is no such file. */
static int read_database(const char *database, char **ret, Failure *f)
{
        _cleanup_close_ int fd = open_in_image(database, O_RDONLY | O_NONBLOCK | O_NOCTTY);
        size_t size;

        if (fd == -ENOENT || fd == -ENOTDIR)
                return 0;
        int r = fd < 0 ? fd : read_fd_bounded(fd, DATABASE_SIZE_MAX, ret, &size);
        if (r == -EBADMSG)
                return failure_set_errno(f, CAUSE_USER, -EBADMSG, "%s in the image is not a regular file",
                                         database);
        if (r == -EFBIG)
                return failure_set_errno(f, CAUSE_USER, -EFBIG, "%s in the image is larger than %u bytes",
                                         database, DATABASE_SIZE_MAX);
        if (r < 0)
                return failure_set_errno(f, CAUSE_USER, r, "Cannot read %s of the image", database);
        return 1;
}

/* 1: found. 0: not found, or the file does not exist; *RET_WRONG, which may be NULL, may say why. */
static int lookup(const char *database, const char *name, uint32_t id, Account *ret, const char **ret_wrong,
                  Failure *f)
{
        AccountKind kind = streq(database, "/etc/group") ? ACCOUNT_GROUP : ACCOUNT_USER;
        _cleanup_free_ char *text = NULL;

        int r = read_database(database, &text, f);
        return r <= 0 ? r : accounts_find(text, kind, name, id, ret, ret_wrong);
}

static int owner_of_path(const char *what, const char *path, struct stat *ret, Failure *f)
{
        _cleanup_close_ int fd = open_in_image(path, O_PATH);
        int r = fd < 0 ? fd : fstat(fd, ret) < 0 ? -errno : 0;

        if (r < 0)
                return failure_set_errno(f, CAUSE_USER, r, "%s is the owner of %s, which cannot be examined",
                                         what, path);
        return 0;
}

/* The largest number means "unchanged" to the kernel. Other numbers outside of the pod's range are refused
 * by the kernel later. */
static int check_id(const char *what, const char *value, uint32_t id, Failure *f)
{
        if (id == UINT32_MAX)
                return failure_set(f, CAUSE_USER, -ERANGE, "%s %s is out of range", what, value);
        return 0;
}

static int resolve(const char *what, const char *database, const char *value, Account *ret, Failure *f)
{
        int r = parse_u32(value, &ret->id);
        const char *wrong = NULL;

        if (r == -ERANGE)
                return failure_set(f, CAUSE_USER, r, "%s %s is out of range", what, value);
        if (r < 0)
                r = lookup(database, value, 0, ret, &wrong, f);
        if (r < 0)
                return r;
        if (r == 0 && wrong)
                return failure_set(f, CAUSE_USER, -EINVAL,
                                   "%s %s: its line in %s of the image is not valid, %s", what, value,
                                   database, wrong);
        if (r == 0 && parse_u32(value, &ret->id) < 0)
                return failure_set(f, CAUSE_USER, -ENOENT, "%s %s is not in %s of the image, nor a number",
                                   what, value, database);
        return check_id(what, value, ret->id, f);
}

/* *RET: the user's entry of passwd; for a user without one the number, and the group of the file's owner if
 * there is one. */
static int resolve_user(const LaunchConfig *c, Account *ret, Failure *f)
{
        struct stat st;
        int r;

        if (path_is_absolute(c->user)) {
                r = owner_of_path("User", c->user, &st, f);
                if (r < 0)
                        return r;
                *ret = (Account){.id = st.st_uid, .gid = st.st_gid};
                r = check_id("User", c->user, ret->id, f);
        } else
                r = resolve("User", "/etc/passwd", c->user, ret, f);
        if (r < 0 || ret->found)
                return r;
        Account by_number = {};
        if (lookup("/etc/passwd", NULL, ret->id, &by_number, NULL, f) > 0)
                *ret = by_number;
        return 0;
}

static int add_group(Identity *id, gid_t gid, Failure *f)
{
        if (id->n_groups >= GROUPS_MAX)
                return failure_set(f, CAUSE_USER, -E2BIG, "The user is in more than %u groups of the image",
                                   GROUPS_MAX);
        if (GREEDY_REALLOC(id->groups, id->groups_allocated, id->n_groups + 1) < 0)
                return failure_set_errno(f, CAUSE_USER, -ENOMEM, "Cannot list the groups of the user");
        id->groups[id->n_groups++] = gid;
        return 0;
}

typedef struct GroupList {
        Identity *id;
        Failure *failure;
} GroupList;

static int add_listed_group(void *userdata, gid_t gid)
{
        GroupList *l = userdata;

        return add_group(l->id, gid, l->failure);
}

/* Adds the groups of the image's group file that have the user as a member. */
static int add_groups_of(const char *name, Identity *id, Failure *f)
{
        GroupList l = {.id = id, .failure = f};
        _cleanup_free_ char *text = NULL;

        int r = read_database("/etc/group", &text, f);
        return r <= 0 ? r : accounts_list_groups(text, name, add_listed_group, &l);
}

static int resolve_group(const LaunchConfig *c, const Account *user, Identity *id, Failure *f)
{
        Account e = {};
        struct stat st;
        int r;

        if (streq(c->group, GROUPS_OF_USER)) {
                id->gid = user->gid; /* 0 for users without an entry */
                return check_id("Group", "of the user", id->gid, f);
        }
        if (path_is_absolute(c->group)) {
                r = owner_of_path("Group", c->group, &st, f);
                if (r < 0)
                        return r;
                e.id = st.st_gid;
                r = check_id("Group", c->group, e.id, f);
        } else
                r = resolve("Group", "/etc/group", c->group, &e, f);
        id->gid = e.id;
        account_done(&e);
        return r;
}

/* As after a login, the primary group is also a supplementary one: otherwise a program that changes its group would
 * escape permissions that deny access to this group. */
static int add_groups(const LaunchConfig *c, const Account *user, Identity *id, Failure *f)
{
        bool of_user = streq(c->group, GROUPS_OF_USER) || c->merges_groups;
        int r = of_user || c->strict_groups ? add_group(id, id->gid, f) : 0;

        if (r >= 0 && of_user && !c->strict_groups && user->name)
                r = add_groups_of(user->name, id, f);
        for (size_t i = 0; r >= 0 && i < c->n_gids; i++) {
                r = check_id("Supplementary group", "of the manifest", c->gids[i], f);
                if (r >= 0)
                        r = add_group(id, c->gids[i], f);
        }
        return r;
}

void identity_done(Identity *id)
{
        free(id->groups);
        free(id->home);
        free(id->shell);
        *id = (Identity){};
}

int identity_resolve(const LaunchConfig *c, Identity *ret, Failure *f)
{
        Identity id = {};
        Account user = {};
        int r = resolve_user(c, &user, f);

        id.uid = user.id;
        if (r >= 0)
                r = resolve_group(c, &user, &id, f);
        if (r >= 0)
                r = add_groups(c, &user, &id, f);
        if (r >= 0) {
                id.home = TAKE_PTR(user.home);
                id.shell = TAKE_PTR(user.shell);
        }
        account_done(&user);
        if (r < 0) {
                free(id.groups);
                return r;
        }
        *ret = id;
        return 0;
}

/* --- Identity of one execution
 * ---------------------------------------------------------------------------------- */

/* "UID:GID:GROUP,GROUP". If there are too many groups for the buffer, they are looked up again in each
 * process. */
static int format_identity(const Identity *id, char **ret)
{
        _cleanup_text_ Text t = {};
        _cleanup_free_ char *text = NULL;
        size_t size;

        text_addf(&t, "%u:%u:", id->uid, id->gid);
        for (size_t i = 0; i < id->n_groups; i++)
                text_addf(&t, "%s%u", i > 0 ? "," : "", id->groups[i]);
        int r = text_take(&t, &text, &size);
        if (r < 0)
                return r;
        if (size >= APP_IDENTITY_MAX)
                *strrchr(text, ':') = 0;
        *ret = TAKE_PTR(text);
        return 0;
}

static int parse_groups(char *text, Identity *id)
{
        Failure f = {};
        char *word;

        id->n_groups = 0;
        while (*text && (word = strsep(&text, ","))) {
                uint32_t gid;
                int r = parse_u32(word, &gid);
                if (r >= 0)
                        r = add_group(id, gid, &f);
                error_done(&f.error);
                if (r < 0)
                        return r;
                if (!text)
                        break;
        }
        return 0;
}

/* Replaces the numbers in ID. */
static int parse_identity(const char *text, Identity *id)
{
        _cleanup_free_ char *copy = strdup(text);
        char *rest = copy, *uid = strsep(&rest, ":"), *gid = rest ? strsep(&rest, ":") : NULL;

        if (!copy)
                return -ENOMEM;
        if (!gid || parse_u32(uid, &id->uid) < 0 || parse_u32(gid, &id->gid) < 0)
                return -EBADMSG;
        return rest ? parse_groups(rest, id) : 0;
}

static int remember(Launch *l, const Identity *id, Failure *f)
{
        if (format_identity(id, &l->identity) < 0)
                return failure_set(f, CAUSE_SETUP, -ENOMEM, "Out of memory");
        if (l->shared_identity)
                snprintf(l->shared_identity, APP_IDENTITY_MAX, "%s", l->identity);
        return 0;
}

int identity_find(Launch *l, Identity *ret, Failure *f)
{
        Failure ignored = {};
        Identity id = {};

        if (!l->identity) {
                int r = identity_resolve(&l->config, ret, f);
                return r < 0 ? r : remember(l, ret, f);
        }
        (void) identity_resolve(&l->config, &id, &ignored); /* to get home and shell */
        error_done(&ignored.error);
        int r = parse_identity(l->identity, &id);
        if (r < 0) {
                identity_done(&id);
                return failure_set_errno(f, CAUSE_USER, r,
                                         "Cannot determine the user that app %s was started as", l->app);
        }
        *ret = id;
        return 0;
}
