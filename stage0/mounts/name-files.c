/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* /etc/hostname, /etc/hosts and /etc/resolv.conf in the root of an app: written into its overlay before any
 * of its processes is there, and so into its writable layer; the image stays unchanged, and the next clean
 * root gets them anew.
 *
 * A file of the image is kept, unless the user configured its content, or the file has none: an empty file,
 * as tools leave in images as mount points, or a dangling symbolic link, as to the host's resolver. Paths in
 * the image are untrusted: they are walked as in a chroot, and the file is always created anew beside its
 * siblings in /etc, so that nothing is written through a link. */

#include <limits.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "stage0/mounts/mounts-internal.h"

/* An attribute of these files, with the time of their last change, by which they are recognized later. An
 * app that changes it affects only its own files. */
#define MARK "user.acnspawn.made"

static void format_mark(char mark[static 64], const struct stat *st)
{
        snprintf(mark, 64, "%lld.%09ld", (long long) st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
}

/* On file systems without such attributes, the file counts as the app's. */
static void set_mark(int fd)
{
        char mark[64];
        struct stat st;

        if (fstat(fd, &st) < 0)
                return;
        format_mark(mark, &st);
        (void) fsetxattr(fd, MARK, mark, strlen(mark), 0);
}

bool name_file_is_made(int fd, const struct stat *st)
{
        char path[64], mark[64], found[64];

        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        ssize_t n = S_ISREG(st->st_mode) ? getxattr(path, MARK, found, sizeof(found) - 1) : -1;
        if (n < 0)
                return false;
        found[n] = 0;
        format_mark(mark, st);
        return streq(mark, found);
}

/* Whether PATH, absolute or relative to /etc, is a mount point of the app. */
static bool leads_into_mount(const PodApp *app, const char *target)
{
        static const char *const places[] = {"/dev", "/proc", "/sys"};
        _cleanup_strv_free_ char **words = NULL;
        char path[PATH_MAX] = "";
        size_t size = 0;

        if (target[0] != '/')
                size = (size_t) snprintf(path, sizeof(path), "/etc");
        if (strv_split(target, "/", &words) < 0)
                return true;
        STRV_FOREACH (w, words) {
                size_t n = strlen(*w);

                if (streq(*w, "..")) {
                        while (size > 0 && path[--size] != '/')
                                ;
                        path[size] = 0;
                } else if (!streq(*w, ".") && size + n + 2 <= sizeof(path)) {
                        path[size++] = '/';
                        memcpy(path + size, *w, n + 1);
                        size += n;
                }
        }
        for (size_t i = 0; i < ELEMENTSOF(places); i++)
                if (path_has_prefix(path, places[i]))
                        return true;
        for (size_t i = 0; i < app->n_mounts; i++)
                if (path_has_prefix(path, app->mounts[i].path))
                        return true;
        return false;
}

enum { KEEP, MAKE, REPLACE };

/* For a path that leads to no file. MAKE: the file is missing, or a dangling link; KEEP: a link into a
 * mount of the app. */
static int is_dangling(const PodApp *app, int etc_fd, const char *name)
{
        char target[PATH_MAX];
        ssize_t n = readlinkat(etc_fd, name, target, sizeof(target) - 1);

        if (n < 0)
                return errno == ENOENT ? MAKE : -errno;
        target[n] = 0;
        return leads_into_mount(app, target) ? KEEP : MAKE;
}

/* Decides about an existing file, which is the image's. */
static int judge(const PodApp *app, int root_fd, int etc_fd, NameFile f, bool asked)
{
        _cleanup_close_ int fd = open_in_root(root_fd, name_file_path(f), O_PATH);
        struct stat st;

        if (fd == -ENOENT || fd == -ELOOP || fd == -ENOTDIR)
                return asked ? MAKE : is_dangling(app, etc_fd, strrchr(name_file_path(f), '/') + 1);
        if (fd < 0)
                return fd;
        if (fstat(fd, &st) < 0)
                return -errno;
        if (S_ISREG(st.st_mode) && st.st_size == 0)
                return MAKE;
        return asked ? REPLACE : KEEP;
}

static int write_name(int etc_fd, const char *name, const char *text, uid_t owner, bool mark)
{
        _cleanup_close_ int fd = -EBADF;

        if (unlinkat(etc_fd, name, 0) < 0 && errno != ENOENT)
                return -errno;
        fd = openat(etc_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
        if (fd < 0)
                return -errno;
        int r = loop_write(fd, text, strlen(text));
        if (r >= 0 && (fchown(fd, owner, owner) < 0 || fchmod(fd, 0644) < 0))
                r = -errno;
        if (r >= 0 && mark)
                set_mark(fd);
        return r;
}

/* -ENOTDIR, -ELOOP: the image has something else in its place. */
static int open_etc(int root_fd, uid_t owner)
{
        int fd = open_in_root(root_fd, "/etc", O_PATH | O_DIRECTORY);

        if (fd != -ENOENT)
                return fd;
        int r = mkdir_p_in_root(root_fd, "/etc", 0755, &fd);
        if (r < 0)
                return r;
        if (fchownat(fd, "", owner, owner, AT_EMPTY_PATH) < 0) {
                r = -errno;
                safe_close(fd);
                return r;
        }
        return fd;
}

static bool names_servers(const NameFiles *f)
{
        const char *text = f->text[NAME_RESOLV_CONF];

        return text && strstr(text, "nameserver");
}

/* If they cannot be made now, those that were made before are used. So are name servers while the host has no connection, and its
 * resolv.conf none. */
static void renew(PodMounts *m)
{
        NameFiles now = {};

        if (!m->names.text[NAME_HOSTNAME] || !name_files_are_old(&m->names) ||
            name_files_make(m->pod, &now, NULL) < 0)
                return;
        if (names_servers(&m->names) && !names_servers(&now)) {
                free(now.text[NAME_RESOLV_CONF]);
                now.text[NAME_RESOLV_CONF] = TAKE_PTR(m->names.text[NAME_RESOLV_CONF]);
                now.lacks_servers = m->names.lacks_servers;
        }
        name_files_done(&m->names);
        m->names = now;
}

int pod_mounts_write_names(PodMounts *m, const PodApp *app, int root_fd, Error *e)
{
        uid_t owner = pod_root_uid(m->pod);
        _cleanup_close_ int etc_fd = open_etc(root_fd, owner);

        renew(m);
        for (NameFile f = 0; f < _NAME_FILE_MAX; f++) {
                const char *path = name_file_path(f);
                bool asked = m->names.asked[f];

                if (!m->names.text[f] || (etc_fd < 0 && !asked && (etc_fd == -ENOTDIR || etc_fd == -ELOOP)))
                        continue;
                int r = etc_fd < 0 ? etc_fd : judge(app, root_fd, etc_fd, f, asked);
                if (r > KEEP)
                        r = write_name(etc_fd, strrchr(path, '/') + 1, m->names.text[f], owner, r == MAKE);
                if (r < 0)
                        return error_set_errno(e, r, "Cannot write %s of app %s", path, app->name);
        }
        return 0;
}

int pod_mounts_make_names(PodMounts *m, Error *e)
{
        int r = name_files_make(m->pod, &m->names, e);
        if (r >= 0 && m->names.lacks_servers)
                operation_message(
                                pod_operation(m->pod), LOG_LEVEL_WARNING,
                                "Apps of pod %s have no name servers: its networks name none, and those of the "
                                "host's /etc/resolv.conf are on the host's own loopback or one link only; "
                                "--dns=ADDRESS gives them one",
                                pod_display_name(m->pod));
        return r;
}
