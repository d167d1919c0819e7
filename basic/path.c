/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Untrusted paths, walked by descriptor.
 *
 * Paths of an image, a manifest or an app are never resolved by string: openat2() resolves them, with the
 * root (or the base) given as a descriptor, so that neither "..", nor an absolute path, nor a symlink, nor a
 * component that is replaced meanwhile leads out of it.
 */

#include <dirent.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "basic/basic.h"

#define MOUNTS_FILE_MAX (16U << 20)

static int do_openat2(int dir_fd, const char *path, int flags, uint64_t resolve)
{
        struct open_how how = {
                        .flags = (uint64_t) (flags | O_CLOEXEC) | (flags & O_PATH ? 0 : O_NOCTTY),
                        .resolve = resolve,
        };

        /* EAGAIN: a rename raced with the walk; the walk has to be repeated. */
        for (unsigned tries = 0; tries < 64; tries++) {
                int fd = (int) syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));
                if (fd >= 0)
                        return fd;
                if (errno != EAGAIN && errno != EINTR)
                        return -errno;
        }
        return -EAGAIN;
}

int open_in_root(int root_fd, const char *path, int flags)
{
        return do_openat2(root_fd, path, flags, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

int open_no_symlinks(int dir_fd, const char *path, int flags)
{
        return do_openat2(dir_fd, path, flags, RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

int open_beneath(int dir_fd, const char *path, int flags)
{
        return do_openat2(dir_fd, path, flags,
                          RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

static int open_path(const char *path, bool symlinks, int flags)
{
        if (!symlinks)
                return open_no_symlinks(AT_FDCWD, path, O_PATH | flags);
        int fd = open(path, O_PATH | O_CLOEXEC | flags);
        return fd < 0 ? -errno : fd;
}

/* With O_PATH alone the kernel leaves an automount as it is; with O_DIRECTORY it has the file system mounted. */
int open_to_mount(const char *path, bool symlinks)
{
        int fd = open_path(path, symlinks, O_DIRECTORY);

        return fd == -ENOTDIR ? open_path(path, symlinks, 0) : fd;
}

int open_cached(const char *path, bool symlinks)
{
        const struct open_how how = {
                        .flags = O_PATH | O_CLOEXEC,
                        .resolve = RESOLVE_CACHED |
                                   (symlinks ? 0 : RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS),
        };
        int fd = (int) syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));

        return fd < 0 ? -EAGAIN : fd;
}

int fd_stat_cached(int fd, struct statx *ret)
{
        return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS | STATX_MNT_ID, ret) < 0
                               ? -errno
                               : 0;
}

/* The fields from the seventh on, up to "-", say so. */
int fd_mount_is_shared(int fd, bool may_be_slave)
{
        _cleanup_free_ char *text = NULL;
        struct statx st;
        char id[24];

        int r = fd_stat_cached(fd, &st);
        if (r < 0)
                return r;
        snprintf(id, sizeof(id), "%llu ", (unsigned long long) st.stx_mnt_id);
        r = read_file_at(AT_FDCWD, "/proc/self/mountinfo", MOUNTS_FILE_MAX, &text, NULL);
        for (char *line = text, *next; r >= 0 && line; line = next) {
                next = strchr(line, '\n');
                if (next)
                        *next++ = 0;
                if (!startswith(line, id))
                        continue;
                char *end = strstr(line, " - ");
                if (end)
                        *end = 0;
                return strstr(line, " shared:") || (may_be_slave && strstr(line, " master:"));
        }
        return r < 0 ? r : -ENOENT;
}

static int compare_descriptors(const void *a, const void *b)
{
        return *(const int *) a - *(const int *) b;
}

int fds_close_others(int *kept, size_t n)
{
        unsigned from = STDERR_FILENO + 1;

        qsort(kept, n, sizeof(int), compare_descriptors);
        for (size_t i = 0; i < n; i++) {
                unsigned fd = (unsigned) kept[i];
                if (kept[i] < 0)
                        continue;
                if (fd > from && syscall(SYS_close_range, from, fd - 1, 0) < 0)
                        return -errno;
                from = MAX(from, fd + 1);
        }
        return syscall(SYS_close_range, from, ~0U, 0) < 0 ? -errno : 0;
}

int fd_reopen(int fd, int flags)
{
        char path[sizeof("/proc/self/fd/") + 12];

        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        int n = open(path, flags | O_CLOEXEC | O_NOCTTY);
        return n < 0 ? -errno : n;
}

static mode_t callers_umask = 0022;

void umask_set_own(void)
{
        callers_umask = umask(0022);
}

mode_t umask_of_caller(void)
{
        return callers_umask;
}

int mkdir_at(int dir_fd, const char *path, mode_t mode)
{
        return mkdirat(dir_fd, path, mode) < 0 || fchmodat(dir_fd, path, mode, 0) < 0 ? -errno : 0;
}

/* Opens the directory NAME in PARENT, which is PATH from the root on, or creates it. */
static int open_or_make(int root_fd, const char *path, int parent, const char *name, mode_t mode)
{
        /* The prefix is resolved from the root each time, so that a symlink in it stays inside. */
        int fd = open_in_root(root_fd, path, O_PATH | O_DIRECTORY);

        if (fd != -ENOENT)
                return fd;
        if (mkdirat(parent, name, mode) < 0)
                return errno == EEXIST ? -ELOOP : -errno; /* it exists, but is a dangling symlink */
        fd = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

int mkdir_p_in_root(int root_fd, const char *path, mode_t mode, int *ret_fd)
{
        _cleanup_strv_free_ char **parts = NULL;
        _cleanup_free_ char *so_far = NULL;
        _cleanup_close_ int parent = -EBADF;

        int r = strv_split(path, "/", &parts);
        if (r < 0)
                return r;
        if (strv_contains(parts, ".."))
                return -EINVAL;
        /* Mostly all of it exists. */
        int whole = open_in_root(root_fd, path, O_PATH | O_DIRECTORY);
        if (whole >= 0) {
                if (ret_fd)
                        *ret_fd = whole;
                else
                        safe_close(whole);
                return 0;
        }
        parent = open_in_root(root_fd, ".", O_PATH | O_DIRECTORY);
        if (parent < 0)
                return parent;
        so_far = strdup("");
        if (!so_far)
                return -ENOMEM;

        STRV_FOREACH (part, parts) {
                char *longer;

                if (streq(*part, "."))
                        continue;
                r = xasprintf(&longer, "%s/%s", so_far, *part);
                if (r < 0)
                        return r;
                free(so_far);
                so_far = longer;
                int fd = open_or_make(root_fd, so_far, parent, *part, mode);
                if (fd < 0)
                        return fd;
                safe_close(parent);
                parent = fd;
        }
        if (ret_fd)
                *ret_fd = TAKE_FD(parent);
        return 0;
}

int open_mount_target_in_root(int root_fd, const char *path)
{
        _cleanup_free_ char *parent = NULL;
        _cleanup_close_ int parent_fd = -EBADF;
        const char *slash = strrchr(path, '/');

        int fd = open_in_root(root_fd, path, O_PATH);
        if (fd != -ENOENT)
                return fd;
        parent = strndup(path, (size_t) (slash - path) + 1);
        if (!parent)
                return -ENOMEM;
        int r = mkdir_p_in_root(root_fd, parent, 0755, &parent_fd);
        if (r < 0)
                return r;
        fd = openat(parent_fd, slash + 1, O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_WRONLY | O_NOCTTY,
                    0644);
        return fd < 0 ? -errno : fd;
}

int mkdir_p(const char *path, mode_t mode)
{
        _cleanup_free_ char *copy = strdup(path);

        if (!copy)
                return -ENOMEM;
        for (char *p = copy + strspn(copy, "/"); *p;) {
                p += strcspn(p, "/");
                char c = *p;
                *p = 0;
                if (mkdir(copy, mode) < 0 && errno != EEXIST)
                        return -errno;
                *p = c;
                p += strspn(p, "/");
        }
        /* If it existed already, it may be something other than a directory. */
        int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        safe_close(fd);
        return 0;
}

/* A directory that is being emptied: its stream, and its name, to be removed once it is empty. */
typedef struct RemoveFrame {
        DIR *dir;
        char name[NAME_MAX + 1];
} RemoveFrame;

/* The depth from which directories are first moved up: each level takes a descriptor, and the depth of the
 * tree is untrusted. */
#define REMOVE_DEPTH_MAX 128
#define REMOVE_TRIES 1000U

typedef struct RemoveStack {
        RemoveFrame *frames;
        size_t n, allocated;
        unsigned moved; /* number of directories moved up so far: makes their names unique */
        /* Something was moved into the lowest directory since it was last read from the start. */
        bool rescan;
} RemoveStack;

static void remove_stack_done(RemoveStack *s)
{
        for (size_t i = 0; i < s->n; i++)
                closedir(s->frames[i].dir);
        free(s->frames);
}

/* Mounts are never emptied (-EXDEV). They are not recognizable by device number: a bind mount may show
 * another part of the same file system. */
static int remove_stack_push(RemoveStack *s, int dir_fd, const char *name)
{
        _cleanup_close_ int fd = do_openat2(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK,
                                            RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);

        if (fd < 0)
                return fd;
        if (GREEDY_REALLOC(s->frames, s->allocated, s->n + 1) < 0)
                return -ENOMEM;
        DIR *d = fdopendir(fd);
        if (!d)
                return -errno;
        (void) TAKE_FD(fd);
        RemoveFrame *f = &s->frames[s->n++];
        f->dir = d;
        snprintf(f->name, sizeof(f->name), "%s", name);
        return 0;
}

/* Unlinking has failed: either it is a directory, which has to be emptied first, or there is no
 * permission. */
static int enter_refused(RemoveStack *s, int dir_fd, const char *name, int code)
{
        int r = remove_stack_push(s, dir_fd, name);

        return r == -ENOTDIR ? code : r;
}

/* Moves the directory NAME of the topmost frame up into the lowest one, which is read again before it is
 * removed. */
static int remove_stack_move_up(RemoveStack *s, const char *name)
{
        char new_name[64];

        /* The tree may already contain the name; occupying names takes its author more effort than skipping
         * them. */
        do {
                snprintf(new_name, sizeof(new_name), ".acnspawn-removing-%d-%u", (int) getpid(), s->moved++);
                if (renameat(dirfd(s->frames[s->n - 1].dir), name, dirfd(s->frames[0].dir), new_name) >= 0) {
                        s->rescan = true;
                        return 0;
                }
        } while (errno == EEXIST || errno == ENOTEMPTY || errno == ENOTDIR);
        return -errno;
}

/* Removes the next entry of the topmost directory, descends into it, or leaves the directory when it is
 * empty. */
static int remove_step(RemoveStack *s, int top_fd)
{
        RemoveFrame *f = &s->frames[s->n - 1];
        struct dirent *de;

        do {
                errno = 0;
                de = readdir(f->dir);
        } while (de && (streq(de->d_name, ".") || streq(de->d_name, "..")));
        if (!de) {
                if (errno != 0)
                        return -errno;
                if (s->n == 1 && s->rescan) {
                        s->rescan = false;
                        rewinddir(f->dir);
                        return 0;
                }
                closedir(f->dir);
                s->n--;
                int parent = s->n > 0 ? dirfd(s->frames[s->n - 1].dir) : top_fd;
                return unlinkat(parent, f->name, AT_REMOVEDIR) < 0 && errno != ENOENT ? -errno : 0;
        }
        if (unlinkat(dirfd(f->dir), de->d_name, 0) >= 0 || errno == ENOENT)
                return 0;
        if (errno != EISDIR && errno != EPERM)
                return -errno;
        if (s->n >= REMOVE_DEPTH_MAX)
                return remove_stack_move_up(s, de->d_name);
        return enter_refused(s, dirfd(f->dir), de->d_name, -errno);
}

static int remove_once(int dir_fd, const char *name)
{
        _cleanup_(remove_stack_done) RemoveStack s = {};

        if (unlinkat(dir_fd, name, 0) >= 0 || errno == ENOENT)
                return 0;
        if (errno != EISDIR && errno != EPERM)
                return -errno;

        /* An explicit, bounded stack instead of recursion, as the depth of the tree is untrusted. */
        int r = enter_refused(&s, dir_fd, name, -errno);
        if (r == -ENOENT)
                return 0;
        while (r >= 0 && s.n > 0)
                r = remove_step(&s, dir_fd);
        return r;
}

/* Repeated, since another process may create a file in a directory that has just been emptied. */
int rm_rf_at(int dir_fd, const char *name)
{
        for (unsigned i = 0;; i++) {
                int r = remove_once(dir_fd, name);
                if (r != -ENOTEMPTY || i >= REMOVE_TRIES)
                        return r;
        }
}

bool path_is_absolute(const char *p)
{
        return p && p[0] == '/';
}

int path_make_absolute(const char *p, char **ret)
{
        _cleanup_free_ char *directory = NULL;

        if (path_is_absolute(p))
                return xasprintf(ret, "%s", p);
        directory = getcwd(NULL, 0);
        if (!directory)
                return -errno;
        return xasprintf(ret, "%s/%s", streq(directory, "/") ? "" : directory, p);
}

int path_normalize(const char *p, char **ret)
{
        _cleanup_strv_free_ char **parts = NULL;
        _cleanup_text_ Text t = {};

        if (!path_is_absolute(p))
                return -EINVAL;
        int r = strv_split(p, "/", &parts);
        if (r < 0)
                return r;
        STRV_FOREACH (part, parts) {
                if (streq(*part, ".."))
                        return -EINVAL;
                if (!streq(*part, "."))
                        text_addf(&t, "/%s", *part);
        }
        if (t.size == 0)
                text_add(&t, "/");
        return text_take(&t, ret, NULL);
}

bool path_is_normalized(const char *p)
{
        if (streq(p, "/"))
                return true;
        while (*p == '/') {
                size_t n = strcspn(++p, "/");
                if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
                        return false;
                p += n;
                if (!*p)
                        return true;
        }
        return false;
}

bool path_has_prefix(const char *path, const char *prefix)
{
        const char *rest = startswith(path, prefix);

        return rest && (*rest == 0 || *rest == '/' || endswith(prefix, "/"));
}

int list_names(int dir_fd, char ***ret)
{
        _cleanup_strv_free_ char **l = NULL;
        size_t n = 0, allocated = 0;
        struct dirent *de;
        int r = 0;

        int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        DIR *d = fdopendir(fd);
        if (!d) {
                r = -errno;
                safe_close(fd);
                return r;
        }
        while (r >= 0 && (errno = 0, de = readdir(d)))
                if (!streq(de->d_name, ".") && !streq(de->d_name, "..")) {
                        r = GREEDY_REALLOC(l, allocated, n + 2);
                        if (r < 0)
                                break;
                        l[n + 1] = NULL;
                        l[n] = strdup(de->d_name);
                        r = l[n++] ? 0 : -ENOMEM;
                }
        if (r >= 0 && errno != 0)
                r = -errno;
        closedir(d);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(l);
        return 0;
}

bool path_in_proc_may_be_covered(const char *path)
{
        static const char *const files[] = {
                        "/cpuinfo", "/diskstats", "/loadavg",
                        "/meminfo", "/slabinfo",  "/stat",
                        "/swaps",   "/uptime",    "/sys/crypto/fips_enabled",
        };

        for (size_t i = 0; i < ELEMENTSOF(files); i++)
                if (streq(path, files[i]))
                        return true;
        return false;
}
