/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The programs of a pod: the host's systemd with the libraries it needs (or those of the tree of --stage1=),
 * and our launcher, mounted read-only over their places in the pod's root. They are mounts of the namespace
 * that systemd-nspawn is started in and end with it; what stays in the pod's directory are empty files.
 *
 * Where all of them can do with the stub of libcrypto (stage1/stub/libcrypto.c), it takes the place of the
 * host's. Of what nspawn loads nothing can be mounted over, so it gets the stub by LD_PRELOAD.
 */

#include <sys/mount.h>
#include <sys/syscall.h>

#include "stage0/supervisor/run-internal.h"
#include "stage1/stub/libcrypto.h"

/* A file to mount something on. All of them are one empty file with many names: a file system may take long
 * for each new file (ext4 does if many were removed lately), and there are some thirty. *EMPTY_FD is that
 * file, once there is one. */
static int open_target(int parent_fd, const char *name, int *empty_fd, int *ret)
{
        bool linked = *empty_fd >= 0 && linkat(*empty_fd, "", parent_fd, name, AT_EMPTY_PATH) >= 0;

        int fd = openat(parent_fd, name,
                        (linked ? 0 : O_CREAT) | O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, 0444);
        if (fd < 0)
                return -errno;
        if (*empty_fd < 0)
                *empty_fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        *ret = fd;
        return 0;
}

/* SOURCE is resolved on the host (or in the tree of --stage1), TARGET is a name in the root that we made. */
static int bind_file(int source_root_fd, const char *source, int root_fd, const char *target, int *empty_fd)
{
        struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
        _cleanup_free_ char *parent = strndup(target, (size_t) (strrchr(target, '/') - target) + 1);
        _cleanup_close_ int source_fd = -EBADF, parent_fd = -EBADF, tree = -EBADF, target_fd = -EBADF;
        const char *name = strrchr(target, '/') + 1;

        if (!parent)
                return -ENOMEM;
        source_fd = open_in_root(source_root_fd, source, O_PATH);
        if (source_fd < 0)
                return source_fd;
        int r = mkdir_p_in_root(root_fd, parent, 0755, &parent_fd);
        if (r < 0)
                return r;
        r = open_target(parent_fd, name, empty_fd, &target_fd);
        if (r < 0)
                return r;
        tree = (int) syscall(SYS_open_tree, source_fd, "",
                             OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
        if (tree < 0 || syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0 ||
            syscall(SYS_move_mount, tree, "", target_fd, "",
                    MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
                return -errno;
        return 0;
}

/* Of SOURCE_ROOT all but the library that STUB, a file of the host's, replaces. */
static int bind_files(int source_root, const Stage1HostFiles *files, const char *stub, int host_root,
                      int root_fd, int *empty_fd, Error *e)
{
        STRV_FOREACH (path, files->paths) {
                bool use_stub = stub && *path == files->libcrypto;
                int r = use_stub ? bind_file(host_root, stub, root_fd, *path, empty_fd)
                                 : bind_file(source_root, *path, root_fd, *path, empty_fd);
                if (r < 0)
                        return error_set_errno(e, r, "Cannot bind %s into the pod's root",
                                               use_stub ? stub : *path);
        }
        return 0;
}

/* Without the stub a pod takes more memory, and runs all the same. */
static char *stub_path(const Stage1HostFiles *files)
{
        char *path = NULL;

        if (files->libcrypto && helper_program_path(LIBCRYPTO_STUB, &path, NULL) < 0)
                log_debug("The pod loads libcrypto: its stub " LIBCRYPTO_STUB " is missing");
        return path;
}

static int bind_systemd(const Pod *p, int root_fd, int host_root, int *empty_fd, char **ret_stub, Error *e)
{
        _cleanup_stage1_host_files_ Stage1HostFiles files = {};
        _cleanup_free_ char *stub = NULL;
        const char *tree = p->config.stage1;
        _cleanup_close_ int source_root = open(tree ?: "/", O_PATH | O_DIRECTORY | O_CLOEXEC);

        if (source_root < 0)
                return error_set_errno(e, -errno, "Cannot open the systemd tree %s", tree ?: "/");
        int r = stage1_host_files(source_root, tree ? NULL : NSPAWN_PROGRAM, &files, e);
        if (r < 0 && tree)
                return error_hint(e, r, "It is looked for below %s, as the pod was prepared with --stage1=.",
                                  tree);
        if (r < 0)
                return r;
        stub = stub_path(&files);
        r = bind_files(source_root, &files, stub, host_root, root_fd, empty_fd, e);
        if (r >= 0 && files.program_uses_stub)
                *ret_stub = TAKE_PTR(stub);
        return r;
}

/* See stage1/launch/shutdown.c for the second. */
static const char *const launcher_places[] = {"/acnspawn/launch", "/usr/lib/systemd/systemd-shutdown"};

static int bind_launcher(int root_fd, int host_root, int *empty_fd, Error *e)
{
        _cleanup_free_ char *launcher = NULL;

        int r = helper_program_path("launch", &launcher, e);
        if (r < 0)
                return r;
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(launcher_places); i++)
                r = bind_file(host_root, launcher, root_fd, launcher_places[i], empty_fd);
        return r < 0 ? error_set_errno(e, r, "Cannot bind %s into the pod's root", launcher) : 0;
}

int pod_bind_host_files(const Pod *p, int root_fd, char **ret_stub, Error *e)
{
        _cleanup_close_ int empty_fd = -EBADF, host_root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

        *ret_stub = NULL;
        if (host_root < 0)
                return error_set_errno(e, -errno, "Cannot open the root directory of the host");
        int r = bind_systemd(p, root_fd, host_root, &empty_fd, ret_stub, e);
        return r < 0 ? r : bind_launcher(root_fd, host_root, &empty_fd, e);
}
