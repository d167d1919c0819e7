/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Who the app's processes are: user and group of the manifest.
 *
 * Names are looked up in the image's own /etc/passwd and /etc/group, then taken as numbers, and a value that
 * begins with
 * "/" stands for the owner of that file (spec: aci.md, "user, group"). The files are a stranger's: they must
 * be regular, are read with a bound and parsed here, without the C library's name services.
 */

#include <sys/stat.h>

#include "stage1/launch/launch.h"

#define DATABASE_SIZE_MAX (4U * 1024U * 1024U)
#define FIELDS_MAX 7U

/* No magic links: the launcher still has descriptors that the app is not to profit from. */
static int open_in_image(const char *path, int flags)
{
        _cleanup_close_ int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

        return root < 0 ? -errno : open_in_root(root, path, flags);
}

/* Cuts a line of passwd or group into fields in place. */
static size_t split_fields(char *line, char *fields[static FIELDS_MAX])
{
        size_t n = 0;

        for (char *p = line; p && n < FIELDS_MAX;) {
                fields[n++] = p;
                p = strchr(p, ':');
                if (p)
                        *p++ = 0;
        }
        return n;
}

typedef struct Entry {
        bool found;
        uint32_t id, gid;
        char *home;
} Entry;

/* Looks NAME (or, with NAME NULL, the number ID) up in passwd or group: the number is field 2 in both. */
static int scan_database(char *text, const char *name, uint32_t id, Entry *ret)
{
        char *fields[FIELDS_MAX], *next;

        for (char *line = text; line && *line; line = next) {
                uint32_t number, gid = 0;

                next = strchr(line, '\n');
                if (next)
                        *next++ = 0;
                size_t n = split_fields(line, fields);
                if (n < 3 || parse_u32(fields[2], &number) < 0 ||
                    (name ? !streq(fields[0], name) : number != id))
                        continue;
                if (n >= 4)
                        (void) parse_u32(fields[3], &gid);
                char *home = n >= 6 && path_is_absolute(fields[5]) ? strdup(fields[5]) : NULL;
                *ret = (Entry){.found = true, .id = number, .gid = gid, .home = home};
                return 1;
        }
        return 0;
}

/* 1: found, 0: not in the file (or there is no such file). */
static int lookup(const char *database, const char *name, uint32_t id, Entry *ret, Failure *f)
{
        _cleanup_close_ int fd = open_in_image(database, O_RDONLY | O_NONBLOCK | O_NOCTTY);
        _cleanup_free_ char *text = NULL;
        size_t size;

        if (fd == -ENOENT || fd == -ENOTDIR)
                return 0;
        int r = fd < 0 ? fd : read_fd_bounded(fd, DATABASE_SIZE_MAX, &text, &size);
        if (r == -EBADMSG)
                return failure_set_errno(f, CAUSE_USER, -EBADMSG, "%s in the image is no regular file",
                                         database);
        if (r == -EFBIG)
                return failure_set_errno(f, CAUSE_USER, -EFBIG, "%s in the image is larger than %u bytes",
                                         database, DATABASE_SIZE_MAX);
        if (r < 0)
                return failure_set_errno(f, CAUSE_USER, r, "Cannot read %s of the image", database);
        return scan_database(text, name, id, ret);
}

static int owner_of_path(const char *what, const char *path, struct stat *ret, Failure *f)
{
        _cleanup_close_ int fd = open_in_image(path, O_PATH);
        int r = fd < 0 ? fd : fstat(fd, ret) < 0 ? -errno : 0;

        if (r < 0)
                return failure_set_errno(f, CAUSE_USER, r,
                                         "%s is the owner of %s, which cannot be looked at", what, path);
        return 0;
}

/* The last number means "leave as it is" to the kernel. What else is not in the pod's range, the kernel
 * refuses later. */
static int check_id(const char *what, const char *value, uint32_t id, Failure *f)
{
        if (id == UINT32_MAX)
                return failure_set(f, CAUSE_USER, -ERANGE, "%s %s is out of range", what, value);
        return 0;
}

static int resolve(const char *what, const char *database, const char *value, Entry *ret, Failure *f)
{
        int r = lookup(database, value, 0, ret, f);

        if (r < 0)
                return r;
        if (r == 0) {
                r = parse_u32(value, &ret->id);
                if (r == -ERANGE)
                        return failure_set(f, CAUSE_USER, r, "%s %s is out of range", what, value);
                if (r < 0)
                        return failure_set(f, CAUSE_USER, -ENOENT,
                                           "%s %s is not in %s of the image, nor a number", what, value,
                                           database);
        }
        return check_id(what, value, ret->id, f);
}

static int resolve_user(const LaunchConfig *c, Identity *id, Failure *f)
{
        Entry e = {};
        struct stat st;
        int r;

        if (path_is_absolute(c->user)) {
                r = owner_of_path("User", c->user, &st, f);
                if (r < 0)
                        return r;
                e.id = st.st_uid;
                r = check_id("User", c->user, e.id, f);
        } else
                r = resolve("User", "/etc/passwd", c->user, &e, f);
        if (r >= 0 && !e.found) {
                Entry by_number = {};
                if (lookup("/etc/passwd", NULL, e.id, &by_number, f) > 0)
                        e.home = by_number.home;
        }
        id->uid = e.id;
        id->home = e.home;
        return r;
}

static int resolve_group(const LaunchConfig *c, Identity *id, Failure *f)
{
        Entry e = {};
        struct stat st;
        int r;

        if (path_is_absolute(c->group)) {
                r = owner_of_path("Group", c->group, &st, f);
                if (r < 0)
                        return r;
                e.id = st.st_gid;
                r = check_id("Group", c->group, e.id, f);
        } else
                r = resolve("Group", "/etc/group", c->group, &e, f);
        free(e.home);
        id->gid = e.id;
        return r;
}

int identity_resolve(const LaunchConfig *c, Identity *ret, Failure *f)
{
        Identity id = {};
        int r = resolve_user(c, &id, f);

        if (r >= 0)
                r = resolve_group(c, &id, f);
        for (size_t i = 0; r >= 0 && i < c->n_gids; i++)
                r = check_id("Supplementary group", "of the manifest", c->gids[i], f);
        if (r < 0) {
                free(id.home);
                return r;
        }
        *ret = id;
        return 0;
}
