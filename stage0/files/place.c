/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Resolves a side of a copy: a path on the host, as seen by the caller, or one in the root of an app, which
 * is resolved as in a chroot there, by the kernel in one step. From then on only descriptors are used.
 *
 * Kernel file systems such as /proc are refused: they do not contain regular files, and writes to them would
 * be done with the privileges of the host's root.
 */

#include <linux/magic.h>
#include <limits.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include "schema/settings.h"
#include "stage0/files/files-internal.h"

static const long kernel_file_systems[] = {
                PROC_SUPER_MAGIC,   SYSFS_MAGIC,    CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC,
                DEVPTS_SUPER_MAGIC, DEBUGFS_MAGIC,  TRACEFS_MAGIC,      SECURITYFS_MAGIC,
                BPF_FS_MAGIC,       PSTOREFS_MAGIC, EFIVARFS_MAGIC,     NSFS_MAGIC,
                SELINUX_MAGIC,      SMACK_MAGIC,    BINFMTFS_MAGIC,     0x19800202L, /* mqueue */
                0x62656570L,                                                         /* configfs */
                0x65735543L,                                                         /* fusectl */
};

int side_show(const CopySide *s, char **ret)
{
        _cleanup_free_ char *path = text_escape_for_terminal(s->path);

        if (!path)
                return -ENOMEM;
        if (!s->root)
                return xasprintf(ret, "%s", path);
        const Pod *p = s->root->pod;
        return xasprintf(ret, "%s:%s:%s", pod_display_name(p), s->root->app->name, path);
}

int side_error(Error *e, int code, const CopySide *s, const char *format, ...)
{
        _cleanup_free_ char *shown = NULL, *why = NULL;
        va_list ap;

        (void) side_show(s, &shown);
        va_start(ap, format);
        (void) xvasprintf(&why, format, ap);
        va_end(ap);
        return error_set(e, code, "Cannot copy, as '%s' %s", shown ?: "?", why ?: "?");
}

static int side_error_errno(Error *e, int code, const CopySide *s, const char *what)
{
        code = code > 0 ? -code : code;
        if (code == -ENOENT)
                return side_error(e, code, s, "does not exist");
        if (code == -ENOTDIR)
                return side_error(e, code, s, "leads through something that is not a directory");
        return side_error(e, code, s, "%s: %s", what, strerror(-code));
}

bool is_kernel_file_system(int fd)
{
        struct statfs fs;

        if (fstatfs(fd, &fs) < 0)
                return false;
        for (size_t i = 0; i < ELEMENTSOF(kernel_file_systems); i++)
                if ((long) fs.f_type == kernel_file_systems[i])
                        return true;
        return false;
}

static int check_file_system(int fd, const CopySide *s, Error *e)
{
        if (!is_kernel_file_system(fd))
                return 0;
        return side_error(e, -EOPNOTSUPP, s, "is in a kernel file system, such as /proc");
}

/* --- Volumes ------------------------------------------------------------------------------------------- */

static int read_link(int fd, char *buffer)
{
        char link[32];

        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, buffer, PATH_MAX - 1);
        if (n < 0)
                return -errno;
        buffer[n] = 0;
        return 0;
}

/* The path of FD in the root of the app, and of NAME (or NULL) in it. */
static int path_in_root(const AppRoot *root, int fd, const char *name, char ret[static PATH_MAX])
{
        char base[PATH_MAX], path[PATH_MAX];

        int r = read_link(root->fd, base);
        if (r >= 0)
                r = read_link(fd, path);
        if (r < 0)
                return r;
        const char *inside = streq(base, "/") ? path : startswith(path, base);
        if (!inside)
                return -EXDEV;
        if (streq(inside, "/"))
                inside = "";
        r = snprintf(ret, PATH_MAX, "%s%s%s", inside, name || !*inside ? "/" : "", name ?: "");
        return r < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* The real path of a mount of the app: a component may be a symlink, and the last one may not exist. */
static int place_of_mount(const AppRoot *root, const Mount *m, char ret[static PATH_MAX])
{
        _cleanup_free_ char *parent = strdup(m->path);
        char *slash = NULL;

        if (!parent)
                return -ENOMEM;
        for (;;) {
                _cleanup_close_ int fd = open_in_root(root->fd, *parent ? parent : "/", O_PATH);
                if (fd >= 0)
                        return path_in_root(root, fd, slash ? m->path + (slash - parent) + 1 : NULL, ret);
                slash = strrchr(parent, '/');
                if (fd != -ENOENT || !slash)
                        return fd;
                *slash = 0;
        }
}

/* The mount of the app that FD, or NAME in it, is in, or would be in if the app ran; NULL: none. */
static const Mount *find_mount(const AppRoot *root, int fd, const char *name)
{
        char path[PATH_MAX], place[PATH_MAX];
        const Mount *found = NULL;
        size_t longest = 0;

        if (path_in_root(root, fd, name, path) < 0)
                return NULL;
        for (size_t i = 0; i < root->app->n_mounts; i++) {
                if (place_of_mount(root, &root->app->mounts[i], place) < 0 || strlen(place) <= longest ||
                    !path_has_prefix(path, place))
                        continue;
                found = &root->app->mounts[i];
                longest = strlen(place);
        }
        return found;
}

static int refuse_volume(const CopySide *s, const Mount *m, Error *e)
{
        int r = side_error(e, -ENXIO, s, "is on the volume %s, which is mounted only while the app runs",
                           m->volume);
        const Volume *v = m->app_volume ?: pod_manifest_find_volume(s->root->pod->manifest, m->volume);
        VolumeSettings x = {};
        if (v && v->kind == VOLUME_HOST)
                return error_hint(e, r, "It is %s on the host.", v->source);
        if (!v || volume_settings_read(s->root->pod->manifest, v, &x, NULL) < 0)
                return r;
        if (x.image[0])
                return error_hint(e, r, "It is the image %s, which 'acnspawn image render' writes.",
                                  x.image);
        if (!x.named[0])
                return r;
        return error_hint(e, r, "It is the named volume %s, which 'acnspawn volume export' writes.",
                          x.named);
}

static int check_volume(const CopySide *s, int fd, const char *name, Error *e)
{
        const Mount *m = s->root && !s->root->live ? find_mount(s->root, fd, name) : NULL;

        return m ? refuse_volume(s, m, e) : 0;
}

/* The same of a path that is not there: the place of a volume is made when the app starts, if the image lacks it. */
static int check_volume_by_path(const CopySide *s, Error *e)
{
        const char *path = s->path + strspn(s->path, "/");
        const Mount *found = NULL;

        for (size_t i = 0; s->root && !s->root->live && i < s->root->app->n_mounts; i++) {
                const Mount *m = &s->root->app->mounts[i];
                if (path_has_prefix(path, m->path + 1) && (!found || strlen(m->path) > strlen(found->path)))
                        found = m;
        }
        return found ? refuse_volume(s, found, e) : 0;
}

/* --- Opening ------------------------------------------------------------------------------------------- */

static int side_open(const CopySide *s, const char *path, int flags)
{
        if (s->root)
                return open_in_root(s->root->fd, path, flags);
        int fd = open(path, flags | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

/* The last component, without trailing slashes; RET_DIRECTORY: the syntax of the path requires a directory.
 * NULL in *RET: it has no name of its own. */
static int last_component(const char *path, char **ret, bool *ret_directory)
{
        size_t n = strlen(path), begin;

        while (n > 0 && path[n - 1] == '/')
                n--;
        *ret_directory = path[n] == '/' || n == 0;
        for (begin = n; begin > 0 && path[begin - 1] != '/'; begin--)
                ;
        char *name = strndup(path + begin, n - begin);
        if (!name)
                return -ENOMEM;
        if (streq(name, "") || streq(name, ".") || streq(name, "..")) {
                *ret_directory = true;
                free(name);
                name = NULL;
        }
        *ret = name;
        return 0;
}

int source_open(const CopySide *s, bool follow, Source *ret, Error *e)
{
        Source x = SOURCE_NULL;
        bool directory;

        if (last_component(s->path, &x.name, &directory) < 0)
                return error_oom(e);
        x.content = !x.name;
        x.fd = side_open(s, s->path, O_PATH | (follow || directory ? 0 : O_NOFOLLOW));
        int r = x.fd < 0 ? x.fd : fstat(x.fd, &x.st) < 0 ? -errno : 0;
        int k = r == -ENOENT ? check_volume_by_path(s, e) : 0;
        if (r < 0)
                r = k < 0 ? k : side_error_errno(e, r, s, "cannot be opened");
        if (r >= 0)
                r = check_file_system(x.fd, s, e);
        if (r >= 0)
                r = check_volume(s, x.fd, NULL, e);
        if (r < 0)
                source_done(&x);
        else
                *ret = x;
        return r;
}

void source_done(Source *s)
{
        safe_close(s->fd);
        free(s->name);
        *s = SOURCE_NULL;
}

/* The parent directory of PATH, which does not exist. */
static int open_parent(const CopySide *s, const char *name, int *ret_fd)
{
        const char *end = s->path + strlen(s->path);
        _cleanup_free_ char *path = NULL;

        /* NAME is the last component, followed by slashes only. */
        while (end > s->path && end[-1] == '/')
                end--;
        size_t n = (size_t) (end - s->path) - strlen(name);
        if (xasprintf(&path, "%.*s.", (int) n, s->path) < 0)
                return -ENOMEM;
        *ret_fd = side_open(s, path, O_PATH | O_DIRECTORY);
        return MIN(*ret_fd, 0);
}

static int find_target(const CopySide *s, Target *x)
{
        bool directory;
        struct stat st;

        int fd = side_open(s, s->path, O_PATH);
        if (fd >= 0 && fstat(fd, &st) >= 0 && S_ISDIR(st.st_mode)) {
                x->dir_fd = fd;
                return 0;
        }
        if (fd < 0 && fd != -ENOENT)
                return fd;
        safe_close(fd);
        int r = last_component(s->path, &x->name, &directory);
        if (r < 0)
                return r;
        if (directory)
                return fd < 0 ? -ENOENT : -ENOTDIR;
        return open_parent(s, x->name, &x->dir_fd);
}

static int check_writable(const CopySide *s, int fd, Error *e)
{
        struct statvfs fs;
        bool root_only = s->root && s->root->app->read_only_rootfs;

        if (fstatvfs(fd, &fs) < 0)
                return side_error_errno(e, errno, s, "cannot be checked");
        if (!(fs.f_flag & ST_RDONLY) && !(root_only && !s->root->live))
                return 0;
        const Mount *m = s->root ? find_mount(s->root, fd, NULL) : NULL;
        if (m)
                return side_error(e, -EROFS, s, "is on the volume %s, which is mounted read-only",
                                  m->volume);
        return side_error(e, -EROFS, s,
                          root_only ? "is in a root that is read-only for the app"
                                    : "is on a file system that is mounted read-only");
}

int target_open(const CopySide *s, Target *ret, Error *e)
{
        Target x = TARGET_NULL;

        int r = find_target(s, &x), k = r == -ENOENT ? check_volume_by_path(s, e) : 0;
        if (k < 0)
                r = k;
        else if (r == -ENOENT) {
                r = side_error(e, r, s,
                               endswith(s->path, "/") ? "does not exist"
                                                      : "cannot be created: its directory does not exist");
                r = error_hint(e, r, "Create the directory first.");
        } else if (r < 0)
                r = side_error_errno(e, r, s, "cannot be opened");
        if (r >= 0)
                r = check_file_system(x.dir_fd, s, e);
        if (r >= 0)
                r = check_volume(s, x.dir_fd, x.name, e);
        if (r >= 0)
                r = check_writable(s, x.dir_fd, e);
        if (r < 0)
                target_done(&x);
        else
                *ret = x;
        return r;
}

void target_done(Target *t)
{
        safe_close(t->dir_fd);
        free(t->name);
        *t = TARGET_NULL;
}
