/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Mount targets in the app's root.
 *
 * Missing targets are created. The paths are walked as in a chroot, so that no symlink of the image leads
 * out of the root; but it may lead from one path in it to another. So volumes are mounted in the order of the real
 * paths of their targets, whatever the order is in which they were given: one that is inside of another comes after
 * it, and is mounted in it. Each target is opened, compared by the real path of what was opened, and only then mounted
 * on: none may equal, or hide, one that is mounted already, which a symlink in a volume could lead to, and none may cover
 * the kernel's file systems, whose paths may be symlinks as well.
 * The checks of prepare, based on the image alone, are not sufficient, as the app itself may have changed
 * symlinks and directories by the time its post-stop handler runs.
 */

#include <limits.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "stage1/launch/launch.h"

int target_attach(int mount_fd, int target_fd)
{
        if (syscall(SYS_move_mount, mount_fd, "", target_fd, "",
                    MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
                return -errno;
        return 0;
}

/* Whether FD is in the mount ROOT_FD itself, and not in a volume that is mounted in it. */
static bool is_of_root(int root_fd, int fd)
{
        struct statx root, x;

        return fd_stat_cached(root_fd, &root) >= 0 && fd_stat_cached(fd, &x) >= 0 &&
               root.stx_mnt_id == x.stx_mnt_id;
}

/* Opens the target for the mount of a directory; an existing file is replaced by a directory (spec: ace.md,
 * "Volume Setup"), unless it is in another volume, as a file of the host may be. */
static int open_directory_target(int root_fd, const char *path)
{
        int fd, r = mkdir_p_in_root(root_fd, path, 0755, &fd);

        if (r != -ENOTDIR)
                return r < 0 ? r : fd;

        _cleanup_free_ char *parent = strndup(path, (size_t) (strrchr(path, '/') - path) + 1);
        _cleanup_close_ int parent_fd = -EBADF;
        if (!parent)
                return -ENOMEM;
        parent_fd = open_in_root(root_fd, parent, O_PATH | O_DIRECTORY);
        if (parent_fd < 0)
                return parent_fd;
        if (!is_of_root(root_fd, parent_fd))
                return r;
        if (unlinkat(parent_fd, strrchr(path, '/') + 1, 0) < 0)
                return -errno;
        r = mkdir_p_in_root(root_fd, path, 0755, &fd);
        return r < 0 ? r : fd;
}

static int open_in(int root_fd, bool directory, const char *path)
{
        return directory ? open_directory_target(root_fd, path) : open_mount_target_in_root(root_fd, path);
}

/* A root that came read-only is the same file system as the one in which mount points can be made. What is made there below a
 * mount of the root, such as /dev, is not in the root: that file system is read-only itself. */
static int open_target(const Launch *l, int mount_fd, const char *path)
{
        struct stat st;

        if (fstat(mount_fd, &st) < 0)
                return -errno;
        bool directory = S_ISDIR(st.st_mode);
        int r = open_in(l->root_fd, directory, path);
        if (r != -EROFS || l->maker_fd < 0)
                return r;
        _cleanup_close_ int made = open_in(l->maker_fd, directory, path);
        return made < 0 ? made : open_in(l->root_fd, directory, path);
}

int target_mount(const Launch *l, int mount_fd, const char *path)
{
        _cleanup_close_ int target = open_target(l, mount_fd, path);

        return target < 0 ? target : target_attach(mount_fd, target);
}

int target_check_private(int root_fd, int fd, const char *path, Failure *f)
{
        int r = is_of_root(root_fd, fd) ? 0 : fd_mount_is_shared(fd, false);

        if (r == 0)
                return 0;
        if (r < 0)
                return failure_set_errno(f, CAUSE_SETUP, r, "Cannot find out about the mount that has %s",
                                         path);
        return failure_set(
                        f, CAUSE_SETUP, -EINVAL,
                        "Nothing can be mounted at %s, which is in a volume that has propagation=shared: it would be "
                        "mounted on the host as well, and stay there",
                        path);
}

/* --- Volumes ------------------------------------------------------------------------------------------- */

typedef struct Target {
        const char *path;    /* as requested */
        int mount_fd;        /* the volume's mount; not owned */
        char real[PATH_MAX]; /* its real path in the app's root: until it is mounted, as far as there is one */
} Target;

/* Paths in the app's root that no volume may hide. */
typedef struct Places {
        char proc[PATH_MAX], dev[PATH_MAX];
} Places;

/* The root is attached at LAUNCH_MOUNT_PATH of the pod, with which paths in its /proc begin. */
static int find_real_path(int fd, char ret[static PATH_MAX])
{
        char link[64], path[PATH_MAX + sizeof(LAUNCH_MOUNT_PATH)];

        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, path, sizeof(path) - 1);
        if (n < 0)
                return -errno;
        path[n] = 0;
        const char *inside = startswith(path, LAUNCH_MOUNT_PATH);
        if (!inside || strlen(inside) >= PATH_MAX)
                return -EXDEV;
        snprintf(ret, PATH_MAX, "%s", isempty(inside) ? "/" : inside);
        return 0;
}

/* Of a path that need not be there: that of the last directory in it that is, and the rest. */
static int foresee_real_path(int root_fd, const char *path, char ret[static PATH_MAX])
{
        _cleanup_free_ char *there = strdup(path);
        _cleanup_close_ int fd = -EBADF;

        if (!there)
                return -ENOMEM;
        while ((fd = open_in_root(root_fd, isempty(there) ? "/" : there, O_PATH)) == -ENOENT && *there)
                *(strrchr(there, '/') ?: there) = 0;
        int r = fd < 0 ? fd : find_real_path(fd, ret);
        if (r < 0)
                return r;
        size_t n = streq(ret, "/") ? 0 : strlen(ret);
        const char *rest = path + strlen(there);
        if (n + strlen(rest) >= PATH_MAX)
                return -ENAMETOOLONG;
        if (*rest)
                memcpy(ret + n, rest, strlen(rest) + 1);
        return 0;
}

/* "/" sorts before everything else, so that a directory comes before what is in it. */
static int compare_targets(const void *a, const void *b)
{
        const char *p = ((const Target *) a)->real, *q = ((const Target *) b)->real;

        while (*p && *p == *q)
                p++, q++;
        int x = *p == '/' ? 1 : (unsigned char) *p, y = *q == '/' ? 1 : (unsigned char) *q;
        return x - y;
}

/* The credentials are in a directory of /dev. */
static int check_place(const Places *p, const Target *t, Failure *f)
{
        const char *in_dev = path_has_prefix(t->real, p->dev) ? t->real + strlen(p->dev) : NULL;
        const char *in_proc = path_has_prefix(t->real, p->proc) ? t->real + strlen(p->proc) : NULL;

        if ((!in_proc || path_in_proc_may_be_covered(in_proc)) && !path_has_prefix(p->proc, t->real) &&
            !path_has_prefix(p->dev, t->real) &&
            !(in_dev && path_has_prefix(in_dev, &LAUNCH_CREDENTIALS_PATH[strlen("/dev")])))
                return 0;
        return failure_set(f, CAUSE_SETUP, -EINVAL,
                           "The volume at %s would actually be mounted at %s, where no volume is allowed",
                           t->path, t->real);
}

/* What is mounted already stays to be seen. */
static int check_hides(const Target *mounted, const Target *t, Failure *f)
{
        if (!path_has_prefix(mounted->real, t->real))
                return 0;
        if (streq(mounted->real, t->real))
                return failure_set(f, CAUSE_SETUP, -EINVAL,
                                   "The volumes at %s and %s would both be mounted at %s", mounted->path,
                                   t->path, t->real);
        return failure_set(f, CAUSE_SETUP, -EINVAL,
                           "The volume at %s would actually be mounted at %s, and hide the one at %s",
                           t->path, t->real, mounted->path);
}

static int mount_volume(const Launch *l, const Places *p, Target *targets, size_t i, Failure *f)
{
        Target *t = &targets[i];
        /* As it was seen: links on the way there may be in what is hidden by now. */
        _cleanup_close_ int fd = open_target(l, t->mount_fd, t->real);

        int r = fd < 0 ? fd : find_real_path(fd, t->real);
        if (r < 0)
                return failure_set_errno(f, CAUSE_SETUP, r, "Cannot mount a volume at %s", t->path);
        r = check_place(p, t, f);
        for (size_t k = 0; r >= 0 && k < i; k++)
                r = check_hides(&targets[k], t, f);
        if (r >= 0)
                r = target_check_private(l->root_fd, fd, t->path, f);
        if (r < 0)
                return r;
        r = target_attach(t->mount_fd, fd);
        return r < 0 ? failure_set_errno(f, CAUSE_SETUP, r, "Cannot mount a volume at %s", t->path) : 0;
}

/* In the order in which they are mounted. */
static int find_targets(const Launch *l, Target *targets, Failure *f)
{
        size_t n = 0;

        for (size_t i = 0; i < l->n_volumes; i++) {
                Target *t = &targets[n];

                if (i == launch_dev_volume(l))
                        continue;
                *t = (Target){.path = l->config.mounts[i], .mount_fd = l->volume_fds[i]};
                int r = foresee_real_path(l->root_fd, t->path, t->real);
                if (r < 0)
                        return failure_set_errno(f, CAUSE_SETUP, r, "Cannot mount a volume at %s", t->path);
                n++;
        }
        qsort(targets, n, sizeof(Target), compare_targets);
        return (int) n;
}

static int find_places(const Launch *l, int proc_fd, int dev_fd, Places *ret, Failure *f)
{
        int r = find_real_path(proc_fd, ret->proc);

        if (r >= 0)
                r = find_real_path(dev_fd, ret->dev);
        return r < 0 ? failure_set_errno(f, CAUSE_SETUP, r, "Cannot find /proc and /dev in the app's root")
                     : 0;
}

size_t launch_dev_volume(const Launch *l)
{
        for (size_t i = 0; i < l->n_volumes; i++)
                if (streq(l->config.mounts[i], "/dev"))
                        return i;
        return SIZE_MAX;
}

int launch_mount_volumes(const Launch *l, int proc_fd, int dev_fd, Failure *f)
{
        _cleanup_free_ Target *targets = calloc(l->n_volumes + 1, sizeof(Target));
        Places places;

        if (!targets)
                return failure_set(f, CAUSE_SETUP, -ENOMEM, "Out of memory");
        int r = l->n_volumes > 0 ? find_places(l, proc_fd, dev_fd, &places, f) : 0;
        if (r < 0)
                return r;
        int n = find_targets(l, targets, f);
        for (int i = 0; r >= 0 && i < n; i++)
                r = mount_volume(l, &places, targets, (size_t) i, f);
        return n < 0 ? n : r;
}
