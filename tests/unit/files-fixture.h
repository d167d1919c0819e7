/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Copies between the host and the root of an app of a pod that does not run, neither of which needs root:
 *
 *     FILES(f);                                   directories: f.root, the app's; f.host; f.outside
 *     ASSERT_OK(put(f.host.fd, "a", "content"));
 *     ASSERT_OK(copy_in(&f, "a", "/b"));
 */

#include <linux/limits.h>
#include <sched.h>
#include <sys/stat.h>

#include "stage0/files/files-internal.h"
#include "tests/unit/pod.h"
#include "tests/unit/scratch.h"
#include "tests/unit/test.h"

#define SECRET "what is outside"

typedef struct Files {
        Scratch scratch;
        int root_fd, host_fd, outside_fd;
        char host[PATH_MAX + 8];
        PodManifest *manifest;
        Pod pod;
        AppRoot root;
        CopyOptions options;
        Text notes;
        Error error;
} Files;

static void take_note(const char *path, const char *why, void *userdata)
{
        text_addf(userdata, "%s: %s\n", path, why);
}

_unused_ static const char *noted(const Files *f)
{
        return f->notes.data ?: "";
}

static int put(int dir_fd, const char *name, const char *content)
{
        _cleanup_close_ int fd =
                        openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);

        return fd < 0 ? -errno : loop_write(fd, content, strlen(content));
}

/* Content of the file, valid until the next call; "(none)": the file does not exist. */
_unused_ static const char *get(int dir_fd, const char *name)
{
        static char buffer[4096];
        _cleanup_close_ int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : loop_read(fd, buffer, sizeof(buffer) - 1);

        if (n < 0)
                return "(none)";
        buffer[n] = 0;
        return buffer;
}

_unused_ static struct stat status(int dir_fd, const char *name)
{
        struct stat st;

        if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                memset(&st, 0, sizeof(st));
        return st;
}

static void files_done(Files *f)
{
        text_done(&f->notes);
        error_done(&f->error);
        safe_close(f->root_fd);
        safe_close(f->host_fd);
        safe_close(f->outside_fd);
        pod_manifest_free(f->manifest);
        scratch_done(&f->scratch);
}

static int open_new(const Scratch *s, const char *name)
{
        int r = scratch_dir(s, name);

        if (r < 0)
                return r;
        int fd = openat(s->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

static int files_new(Files *f)
{
        *f = (Files){.scratch = SCRATCH_NULL, .root_fd = -EBADF, .host_fd = -EBADF, .outside_fd = -EBADF};
        int r = scratch_new(&f->scratch);
        if (r < 0)
                return r;
        f->root_fd = open_new(&f->scratch, "root");
        f->host_fd = open_new(&f->scratch, "host");
        f->outside_fd = open_new(&f->scratch, "outside");
        f->manifest = parse_test_manifest();
        if (f->root_fd < 0 || f->host_fd < 0 || f->outside_fd < 0 || !f->manifest)
                return -EIO;
        snprintf(f->host, sizeof(f->host), "%s/host", f->scratch.path);
        f->pod = (Pod){.uuid = (char *) "5a7a7a3c-40d1-4cb0-9d5b-5f2d0d6a2c11",
                       .state = POD_PREPARED,
                       .dir_fd = -EBADF,
                       .config.name = (char *) "site",
                       .manifest = f->manifest};
        f->root = (AppRoot){.pod = &f->pod, .app = f->manifest->apps[0], .fd = f->root_fd};
        f->options.notes = (FilesNotes){.note = take_note, .userdata = &f->notes};
        return put(f->outside_fd, "secret", SECRET);
}

#define FILES(f)                                                                                            \
        _cleanup_(files_done) Files f;                                                                      \
        ASSERT_OK(files_new(&f))

static CopySide in_app(Files *f, const char *path)
{
        return (CopySide){.root = &f->root, .path = path};
}

/* PATH is in the directory of the host. The text is good until the next but three. */
static CopySide on_host(Files *f, const char *path)
{
        static char paths[4][2 * PATH_MAX + 16];
        static unsigned next;
        char *p = paths[next++ % ELEMENTSOF(paths)];

        snprintf(p, sizeof(paths[0]), "%s/%s", f->host, path);
        return (CopySide){.path = p};
}

static int copy(Files *f, CopySide from, CopySide to)
{
        error_done(&f->error);
        text_done(&f->notes);
        return files_copy(&from, 1, &to, &f->options, &f->error);
}

_unused_ static int copy_in(Files *f, const char *from, const char *to)
{
        return copy(f, on_host(f, from), in_app(f, to));
}

_unused_ static int copy_out(Files *f, const char *from, const char *to)
{
        return copy(f, in_app(f, from), on_host(f, to));
}

/* Files that are copied into an app belong to root, and only root can create such files: without root
 * privileges this enters a user namespace as its root. Returns the reason if that fails. */
static const char *become_root(void)
{
        char uids[32], gids[32];

        if (geteuid() == 0)
                return NULL;
        snprintf(uids, sizeof(uids), "0 %u 1", geteuid());
        snprintf(gids, sizeof(gids), "0 %u 1", getegid());
        if (unshare(CLONE_NEWUSER) < 0)
                return "ordinary users may have no user namespaces here";
        if (write_attribute_at(AT_FDCWD, "/proc/self/setgroups", "deny") < 0 ||
            write_attribute_at(AT_FDCWD, "/proc/self/uid_map", uids) < 0 ||
            write_attribute_at(AT_FDCWD, "/proc/self/gid_map", gids) < 0)
                return "a user namespace cannot be set up here";
        return NULL;
}

/* Nothing was written where nothing was to be. */
#define ASSERT_OUTSIDE_UNTOUCHED(f)                                                                         \
        do {                                                                                                \
                _cleanup_strv_free_ char **names_ = NULL;                                                   \
                ASSERT_OK(list_names((f).outside_fd, &names_));                                             \
                ASSERT_EQ(strv_length(names_), 1);                                                          \
                ASSERT_STREQ(get((f).outside_fd, "secret"), SECRET);                                        \
        } while (0)
