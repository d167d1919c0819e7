/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Copying files of apps, as far as possible without root: resolving paths, preserved attributes, refused
 * operations, and that exchanging files meanwhile does not lead to copies from, or to, files outside of the
 * app's root. Owners, and races with a running app, are tested in tests/integration/files.py. */

#include <pthread.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/xattr.h>

#include "tests/unit/files-fixture.h"

/* --- What paths lead to -------------------------------------------------------------------------------- */

static int make_etc(Files *f)
{
        int r = mkdirat(f->root_fd, "etc", 0755) < 0 ? -errno : 0;

        if (r >= 0)
                r = put(f->root_fd, "etc/name", "inside");
        if (r >= 0)
                r = put(f->root_fd, "secret", "the app's own");
        return r;
}

TEST(paths_stay_in_the_root)
{
        FILES(f);
        static const struct {
                const char *link, *target, *path, *content;
        } l[] = {
                        {"absolute", "/etc/name", "/absolute", "inside"},
                        {"relative", "etc/name", "/relative", "inside"},
                        {"climbs", "../../../../../../../etc/name", "/climbs", "inside"},
                        {"etc/up", "..", "/etc/up/etc/name", "inside"},
                        {"away", "../outside", "/away/../secret", NULL},
                        {"top", "/", "/top/top/top/secret", "the app's own"},
                        {NULL, NULL, "/../../../etc/name", "inside"},
                        {NULL, NULL, "../../secret", "the app's own"},
                        {NULL, NULL, "etc/../../outside/secret", NULL},
                        {NULL, NULL, "//etc//.//name", "inside"},
        };

        ASSERT_OK(make_etc(&f));
        f.options.follow = true;
        for (size_t i = 0; i < ELEMENTSOF(l); i++) {
                if (l[i].link)
                        ASSERT_OK(symlinkat(l[i].target, f.root_fd, l[i].link));
                int r = copy_out(&f, l[i].path, "copy");
                if (!l[i].content) {
                        ASSERT_ERR(r, -ENOENT);
                        ASSERT_CONTAINS(f.error.message, "does not exist");
                        continue;
                }
                ASSERT_WORKS(f, r);
                ASSERT_STREQ(get(f.host_fd, "copy"), l[i].content);
                ASSERT_OK(unlinkat(f.host_fd, "copy", 0));
        }
        ASSERT_OUTSIDE_UNTOUCHED(f);
}

TEST(links_are_copied_unless_followed)
{
        FILES(f);
        char target[64] = "";

        ASSERT_OK(make_etc(&f));
        ASSERT_OK(symlinkat("/etc/name", f.root_fd, "link"));
        ASSERT_WORKS(f, copy_out(&f, "/link", "link"));
        ASSERT_EQ(readlinkat(f.host_fd, "link", target, sizeof(target) - 1), 9);
        ASSERT_STREQ(target, "/etc/name");
        f.options.follow = true;
        ASSERT_WORKS(f, copy_out(&f, "/link", "file"));
        ASSERT_STREQ(get(f.host_fd, "file"), "inside");
        ASSERT_OK(symlinkat("link", f.root_fd, "again"));
        ASSERT_OK(symlinkat("loop", f.root_fd, "loop"));
        ASSERT_WORKS(f, copy_out(&f, "/again", "again"));
        ASSERT_STREQ(get(f.host_fd, "again"), "inside");
        ASSERT_FAILS(f, copy_out(&f, "/loop", "x"), -ELOOP, "'site:web:/loop' cannot be opened");
}

/* The name of a source in a directory, and whether its contents are copied instead. */
TEST(names_of_sources)
{
        FILES(f);
        static const struct {
                const char *path, *name;
                int code;
        } l[] = {
                        {"/etc/name", "name", 0},
                        {"/etc", "etc", 0},
                        {"/etc///", "etc", 0},
                        {"/etc/.", NULL, 0},
                        {"/", NULL, 0},
                        {".", NULL, 0},
                        {"/etc/..", NULL, 0},
                        {"/etc/./", NULL, 0},
                        {"/etc/name/", NULL, -ENOTDIR},
                        {"/none", NULL, -ENOENT},
                        {"/none/", NULL, -ENOENT},
        };

        ASSERT_OK(make_etc(&f));
        for (size_t i = 0; i < ELEMENTSOF(l); i++) {
                _cleanup_(source_done) Source s = SOURCE_NULL;
                CopySide side = in_app(&f, l[i].path);

                error_done(&f.error);
                int r = source_open(&side, false, &s, &f.error);
                if (l[i].code < 0) {
                        ASSERT_ERR(r, l[i].code);
                        continue;
                }
                ASSERT_OK(r);
                ASSERT_STREQ(s.name, l[i].name);
                ASSERT_EQ(s.content, l[i].name == NULL);
        }
}

TEST(names_of_targets)
{
        FILES(f);
        static const struct {
                const char *path, *name;
                int code;
        } l[] = {
                        {"/etc", NULL, 0},
                        {"/etc/", NULL, 0},
                        {"/etc/new", "new", 0},
                        {"/etc/name", "name", 0},
                        {"/new", "new", 0},
                        {"new", "new", 0},
                        {"/dangling", "dangling", 0},
                        {"/none/new", NULL, -ENOENT},
                        {"/etc/new/", NULL, -ENOENT},
                        {"/etc/name/", NULL, -ENOTDIR},
                        {"/etc/name/x", NULL, -ENOTDIR},
        };

        ASSERT_OK(make_etc(&f));
        ASSERT_OK(symlinkat("/outside/new", f.root_fd, "dangling"));
        for (size_t i = 0; i < ELEMENTSOF(l); i++) {
                _cleanup_(target_done) Target t = TARGET_NULL;
                CopySide side = in_app(&f, l[i].path);

                error_done(&f.error);
                int r = target_open(&side, &t, &f.error);
                if (l[i].code < 0) {
                        ASSERT_ERR(r, l[i].code);
                        continue;
                }
                ASSERT_OK(r);
                ASSERT_STREQ(t.name, l[i].name);
        }
}

/* A link in the place of a copy is replaced, and one in its path is resolved inside of the root. */
TEST(targets_that_are_links)
{
        FILES(f);

        ASSERT_OK(put(f.host_fd, "a", "new"));
        ASSERT_OK(symlinkat("../outside/made", f.root_fd, "dangling"));
        ASSERT_WORKS(f, copy_in(&f, "a", "/dangling"));
        ASSERT_STREQ(get(f.root_fd, "dangling"), "new");
        ASSERT_OK(symlinkat("../outside", f.root_fd, "way"));
        ASSERT_FAILS(f, copy_in(&f, "a", "/way/a"), -ENOENT, "its directory does not exist");
        ASSERT_OK(symlinkat("../outside/secret", f.root_fd, "file"));
        ASSERT_WORKS(f, copy_in(&f, "a", "/file"));
        ASSERT_STREQ(get(f.root_fd, "file"), "new");
        ASSERT_OUTSIDE_UNTOUCHED(f);
}

/* --- Trees --------------------------------------------------------------------------------------------- */

TEST(no_link_is_followed_below)
{
        FILES(f);
        char target[64] = "";

        ASSERT_OK(mkdirat(f.root_fd, "d", 0755));
        ASSERT_OK(symlinkat("../../outside", f.root_fd, "d/dir"));
        ASSERT_OK(symlinkat("../../outside/secret", f.root_fd, "d/file"));
        f.options.follow = true; /* of what is named only */
        ASSERT_WORKS(f, copy_out(&f, "/d", "d"));
        ASSERT_EQ(readlinkat(f.host_fd, "d/dir", target, sizeof(target) - 1), 13);
        ASSERT_STREQ(target, "../../outside");
        ASSERT_TRUE(S_ISLNK(status(f.host_fd, "d/file").st_mode));

        /* Nor is it in the target. */
        ASSERT_OK(mkdirat(f.host_fd, "e", 0755));
        ASSERT_OK(mkdirat(f.host_fd, "e/x", 0755));
        ASSERT_OK(put(f.host_fd, "e/x/new", "new"));
        ASSERT_OK(mkdirat(f.root_fd, "e", 0755));
        ASSERT_OK(symlinkat("../../outside", f.root_fd, "e/x"));
        ASSERT_FAILS(f, copy_in(&f, "e", "/"), -ENOTDIR, "something else is in its place");
        ASSERT_OUTSIDE_UNTOUCHED(f);
}

TEST(directories_and_files_do_not_replace_each_other)
{
        FILES(f);

        ASSERT_OK(put(f.host_fd, "a", "new"));
        ASSERT_OK(mkdirat(f.host_fd, "d", 0755));
        ASSERT_OK(put(f.host_fd, "d/a", "new"));
        ASSERT_OK(mkdirat(f.root_fd, "d", 0755));
        ASSERT_OK(mkdirat(f.root_fd, "d/a", 0755));
        ASSERT_FAILS(f, copy_in(&f, "d", "/"), -EISDIR, "there is a directory in its place");
        ASSERT_TRUE(S_ISDIR(status(f.root_fd, "d/a").st_mode));
        ASSERT_OK(put(f.root_fd, "file", "old"));
        ASSERT_ERR(copy_in(&f, "d", "/file"), -ENOTDIR);
        ASSERT_STREQ(get(f.root_fd, "file"), "old");
        ASSERT_FAILS(f, copy_in(&f, "a", "/file/"), -ENOTDIR, "/file/");
}

TEST(several_sources_need_a_directory)
{
        FILES(f);

        ASSERT_OK(put(f.host_fd, "a", "1"));
        ASSERT_OK(put(f.host_fd, "b", "2"));
        const CopySide sources[] = {on_host(&f, "a"), on_host(&f, "b")}, file = in_app(&f, "/new"),
                       directory = in_app(&f, "/");
        ASSERT_FAILS(f, files_copy(sources, 2, &file, &f.options, &f.error), -ENOTDIR,
                     "'site:web:/new' is not a directory");
        ASSERT_STREQ(get(f.root_fd, "new"), "(none)");
        ASSERT_OK(files_copy(sources, 2, &directory, &f.options, NULL));
        ASSERT_STREQ(get(f.root_fd, "a"), "1");
        ASSERT_STREQ(get(f.root_fd, "b"), "2");
}

TEST(content_of_a_directory)
{
        FILES(f);

        ASSERT_OK(mkdirat(f.host_fd, "d", 0755));
        ASSERT_OK(put(f.host_fd, "d/a", "1"));
        ASSERT_WORKS(f, copy_in(&f, "d/.", "/"));
        ASSERT_STREQ(get(f.root_fd, "a"), "1");
        ASSERT_WORKS(f, copy_in(&f, "d", "/new"));
        ASSERT_STREQ(get(f.root_fd, "new/a"), "1");
        ASSERT_WORKS(f, copy_in(&f, "d", "/new"));
        ASSERT_STREQ(get(f.root_fd, "new/d/a"), "1");
}

TEST(a_tree_is_not_copied_into_itself)
{
        FILES(f);

        ASSERT_OK(mkdirat(f.host_fd, "d", 0755));
        ASSERT_OK(put(f.host_fd, "d/a", "1"));
        ASSERT_WORKS(f, copy(&f, on_host(&f, "d"), on_host(&f, "d/copy")));
        ASSERT_CONTAINS(noted(&f), "it is the target itself");
        ASSERT_STREQ(get(f.host_fd, "d/copy/a"), "1");
        ASSERT_EQ(status(f.host_fd, "d/copy/copy").st_mode, 0);
}

TEST(depth_is_bounded)
{
        FILES(f);
        int fd = fcntl(f.root_fd, F_DUPFD_CLOEXEC, 3);

        for (unsigned i = 0; fd >= 0 && i < PATH_DEPTH_MAX + 10; i++) {
                int r = mkdirat(fd, "d", 0755);
                int next = r < 0 ? -1 : openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                safe_close(fd);
                fd = next;
        }
        ASSERT_OK(fd);
        safe_close(fd);
        ASSERT_ERR(copy_out(&f, "/d", "copy"), -E2BIG);
        ASSERT_NOT_NULL(f.error.message);
}

/* --- What is kept -------------------------------------------------------------------------------------- */

TEST(modes_and_times)
{
        FILES(f);
        const struct timespec times[2] = {{.tv_sec = 77, .tv_nsec = 7},
                                          {.tv_sec = 1000000000, .tv_nsec = 123456789}};
        static const struct {
                mode_t mode, plain, archive;
        } l[] = {
                        {0644, 0644, 0644},    {0000, 0000, 0000},   {0400, 0400, 0400},
                        {0777, 0777, 0777},    {04755, 0755, 04755}, {02755, 0755, 02755},
                        {01644, 01644, 01644},
        };
        mode_t mask = umask(077); /* must not matter */

        for (size_t i = 0; i < ELEMENTSOF(l); i++)
                for (unsigned archive = 0; archive < 2; archive++) {
                        if (!(l[i].mode & 0400) && geteuid() != 0)
                                continue;
                        f.options.archive = archive > 0;
                        ASSERT_OK(put(f.host_fd, "a", "x"));
                        ASSERT_OK(fchmodat(f.host_fd, "a", l[i].mode, 0));
                        ASSERT_OK(utimensat(f.host_fd, "a", times, 0));
                        ASSERT_WORKS(f, copy_in(&f, "a", "/a"));
                        struct stat st = status(f.root_fd, "a");
                        ASSERT_EQ(st.st_mode & 07777U, archive ? l[i].archive : l[i].plain);
                        ASSERT_EQ(st.st_mtim.tv_sec, 1000000000);
                        ASSERT_EQ(st.st_mtim.tv_nsec, 123456789);
                        ASSERT_EQ(st.st_uid, geteuid());
                        if (!archive && l[i].mode & 06000)
                                ASSERT_CONTAINS(noted(&f), "are kept with --archive only");
                        else
                                ASSERT_STREQ(noted(&f), "");
                        ASSERT_OK(unlinkat(f.host_fd, "a", 0));
                }
        umask(mask);
}

/* A directory gets its mode after its contents, and an existing one keeps its own. */
TEST(modes_of_directories)
{
        FILES(f);

        ASSERT_OK(mkdirat(f.host_fd, "d", 0700));
        ASSERT_OK(put(f.host_fd, "d/a", "x"));
        ASSERT_OK(fchmodat(f.host_fd, "d", 01555, 0));
        ASSERT_WORKS(f, copy_in(&f, "d", "/d"));
        ASSERT_EQ(status(f.root_fd, "d").st_mode & 07777U, 01555);
        ASSERT_STREQ(get(f.root_fd, "d/a"), "x");
        ASSERT_OK(fchmodat(f.host_fd, "d", 0755, 0));
        ASSERT_OK(mkdirat(f.root_fd, "e", 0711));
        ASSERT_WORKS(f, copy_in(&f, "d/.", "/e"));
        ASSERT_EQ(status(f.root_fd, "e").st_mode & 07777U, 0711);
        ASSERT_OK(fchmodat(f.root_fd, "d", 0755, 0));
}

TEST(sizes_and_holes)
{
        FILES(f);
        static const off_t sizes[] = {0, 1, 4095, 4096, 4097, 262144, 262145, 3000000};
        const off_t large = (off_t) 1 << 32;

        for (size_t i = 0; i < ELEMENTSOF(sizes); i++) {
                _cleanup_free_ char *data = malloc((size_t) sizes[i] + 1),
                                    *back = malloc((size_t) sizes[i] + 1);
                ASSERT_NOT_NULL(data);
                ASSERT_NOT_NULL(back);
                for (off_t k = 0; k < sizes[i]; k++)
                        data[k] = (char) (k * 7 + k / 4096);
                _cleanup_close_ int fd =
                                openat(f.host_fd, "a", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
                ASSERT_OK(loop_write(fd, data, (size_t) sizes[i]));
                ASSERT_WORKS(f, copy_in(&f, "a", "/a"));
                _cleanup_close_ int copied = openat(f.root_fd, "a", O_RDONLY | O_CLOEXEC);
                ASSERT_EQ(loop_read(copied, back, (size_t) sizes[i] + 1), sizes[i]);
                ASSERT_MEMEQ(data, back, sizes[i]);
        }

        _cleanup_close_ int fd = openat(f.host_fd, "hole", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        if (ftruncate(fd, large) < 0)
                TEST_SKIP("there is no room for a file of 4 GiB, though it is a hole");
        ASSERT_EQ(pwrite(fd, "x", 1, large / 2), 1);
        ASSERT_WORKS(f, copy_in(&f, "hole", "/hole"));
        struct stat st = status(f.root_fd, "hole");
        ASSERT_EQ(st.st_size, large);
        ASSERT_LT(st.st_blocks, 4096);
        _cleanup_close_ int copied = openat(f.root_fd, "hole", O_RDONLY | O_CLOEXEC);
        char c = 0;
        ASSERT_EQ(pread(copied, &c, 1, large / 2), 1);
        ASSERT_EQ(c, 'x');
}

TEST(hard_links)
{
        FILES(f);

        ASSERT_OK(mkdirat(f.host_fd, "d", 0755));
        ASSERT_OK(put(f.host_fd, "d/a", "x"));
        ASSERT_OK(linkat(f.host_fd, "d/a", f.host_fd, "d/b", 0));
        ASSERT_OK(linkat(f.host_fd, "d/a", f.host_fd, "outside-of-d", 0));
        for (unsigned i = 0; i < 2; i++) { /* twice: over themselves, too */
                ASSERT_WORKS(f, copy_in(&f, "d/.", "/"));
                ASSERT_EQ(status(f.root_fd, "a").st_ino, status(f.root_fd, "b").st_ino);
                ASSERT_EQ(status(f.root_fd, "a").st_nlink, 2);
        }
        _cleanup_strv_free_ char **names = NULL;
        ASSERT_OK(list_names(f.root_fd, &names));
        ASSERT_EQ(strv_length(names), 2); /* nothing half made stays */
}

TEST(attributes_of_users)
{
        FILES(f);
        char value[16] = "";

        ASSERT_OK(put(f.host_fd, "a", "x"));
        _cleanup_close_ int fd = openat(f.host_fd, "a", O_RDWR | O_CLOEXEC);
        if (fsetxattr(fd, "user.x", "value", 5, 0) < 0)
                TEST_SKIP("this file system takes no attributes: %s", strerror(errno));
        ASSERT_WORKS(f, copy_in(&f, "a", "/a"));
        _cleanup_close_ int copied = openat(f.root_fd, "a", O_RDONLY | O_CLOEXEC);
        ASSERT_EQ(fgetxattr(copied, "user.x", value, sizeof(value)), 5);
        ASSERT_STREQ(value, "value");
}

/* An existing file is replaced atomically: processes that have it open keep the old one. */
TEST(files_are_replaced)
{
        FILES(f);
        char old[8] = "";

        ASSERT_OK(put(f.root_fd, "a", "old"));
        _cleanup_close_ int fd = openat(f.root_fd, "a", O_RDONLY | O_CLOEXEC);
        ASSERT_OK(put(f.host_fd, "a", "newer"));
        ASSERT_WORKS(f, copy_in(&f, "a", "/a"));
        ASSERT_STREQ(get(f.root_fd, "a"), "newer");
        ASSERT_EQ(read(fd, old, sizeof(old)), 3);
        ASSERT_STREQ(old, "old");
}

/* --- What is refused ----------------------------------------------------------------------------------- */

TEST(what_is_no_file)
{
        FILES(f);
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        _cleanup_close_ int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        ASSERT_OK(mkdirat(f.root_fd, "d", 0755));
        ASSERT_OK(mkfifoat(f.root_fd, "d/fifo", 0644));
        ASSERT_OK(put(f.root_fd, "d/file", "x"));
        snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/d/socket", f.root_fd);
        ASSERT_OK(bind(sock, (struct sockaddr *) &address, sizeof(address)));
        ASSERT_WORKS(f, copy_out(&f, "/d", "d"));
        ASSERT_CONTAINS(noted(&f), "site:web:/d/fifo: it is a device, a socket or a FIFO\n");
        ASSERT_CONTAINS(noted(&f), "site:web:/d/socket: it is a device, a socket or a FIFO\n");
        ASSERT_STREQ(get(f.host_fd, "d/file"), "x");
        ASSERT_EQ(status(f.host_fd, "d/fifo").st_mode, 0);
        ASSERT_FAILS(f, copy_out(&f, "/d/fifo", "x"), -EOPNOTSUPP,
                     "'site:web:/d/fifo' is a device, a socket or a FIFO");
        ASSERT_FAILS(f, copy(&f, (CopySide){.path = "/dev/null"}, in_app(&f, "/null")), -EOPNOTSUPP,
                     "is a device");
}

TEST(file_systems_of_the_kernel)
{
        FILES(f);
        const CopySide proc = {.path = "/proc/self/status"}, place = {.path = "/proc/self/comm"};

        if (access("/proc/self/status", R_OK) < 0)
                TEST_SKIP("there is no /proc here");
        ASSERT_OK(put(f.root_fd, "a", "x"));
        ASSERT_FAILS(f, copy(&f, proc, in_app(&f, "/a")), -EOPNOTSUPP, "in a kernel file system");
        ASSERT_FAILS(f, copy(&f, in_app(&f, "/a"), place), -EOPNOTSUPP, "in a kernel file system");
        ASSERT_STREQ(get(f.root_fd, "a"), "x");
}

TEST(roots_that_are_read_only)
{
        FILES(f);

        f.manifest->apps[0]->read_only_rootfs = true;
        ASSERT_OK(put(f.host_fd, "a", "x"));
        ASSERT_FAILS(f, copy_in(&f, "a", "/a"), -EROFS,
                     "'site:web:/a' is in a root that is read-only for the app");
        ASSERT_STREQ(get(f.root_fd, "a"), "(none)");
}

TEST(volumes_of_apps_that_do_not_run)
{
        FILES(f);
        Mount mounts[] = {{.volume = (char *) "data", .path = (char *) "/data"},
                          {.volume = (char *) "deep", .path = (char *) "/data/deep"}};
        PodApp app = *f.manifest->apps[0];

        app.mounts = mounts;
        app.n_mounts = ELEMENTSOF(mounts);
        f.root.app = &app;
        ASSERT_OK(mkdirat(f.root_fd, "data", 0755));
        ASSERT_OK(mkdirat(f.root_fd, "data/deep", 0755));
        ASSERT_OK(mkdirat(f.root_fd, "database", 0755));
        ASSERT_OK(put(f.root_fd, "data/a", "x"));
        ASSERT_OK(put(f.host_fd, "a", "x"));
        ASSERT_FAILS(f, copy_out(&f, "/data/a", "b"), -ENXIO,
                     "is on the volume data, which is mounted only while");
        ASSERT_FAILS(f, copy_in(&f, "a", "/data/deep/a"), -ENXIO, "is on the volume deep");
        ASSERT_FAILS(f, copy_in(&f, "a", "/data"), -ENXIO, "is on the volume data");
        ASSERT_WORKS(f, copy_in(&f, "a", "/database/a"));
        f.root.live = true;
        ASSERT_WORKS(f, copy_out(&f, "/data/a", "b"));
}

/* --- Races --------------------------------------------------------------------------------------------- */

/* A process exchanges a directory, and a file, for links that lead out of the root, as fast as it can. */
typedef struct Exchanger {
        int dir_fd;
        const char *const (*pairs)[2];
        size_t n;
        bool stop;
} Exchanger;

static void *exchange(void *data)
{
        Exchanger *x = data;

        while (!__atomic_load_n(&x->stop, __ATOMIC_RELAXED))
                for (size_t i = 0; i < x->n; i++)
                        (void) syscall(SYS_renameat2, x->dir_fd, x->pairs[i][0], x->dir_fd, x->pairs[i][1],
                                       2 /* RENAME_EXCHANGE */);
        return NULL;
}

/* Whether the secret is anywhere in it. */
static bool has_secret(int dir_fd, const char *const *names)
{
        for (; *names; names++)
                if (streq(get(dir_fd, *names), SECRET))
                        return true;
        return false;
}

TEST(exchanged_while_it_is_copied_out)
{
        FILES(f);
        static const char *const pairs[][2] = {
                        {"d", "link-d"}, {"secret", "link-file"}, {"way", "link-way"}};
        static const char *const copies[] = {"d/secret", "secret", "way/d/secret", "d", NULL};
        Exchanger x = {.dir_fd = f.root_fd, .pairs = pairs, .n = ELEMENTSOF(pairs)};
        unsigned copied = 0, failed = 0;
        const char *leaked = NULL;
        pthread_t thread;

        ASSERT_OK(mkdirat(f.root_fd, "d", 0755));
        ASSERT_OK(put(f.root_fd, "d/secret", "inside"));
        ASSERT_OK(put(f.root_fd, "secret", "inside"));
        ASSERT_OK(mkdirat(f.root_fd, "way", 0755));
        ASSERT_OK(mkdirat(f.root_fd, "way/d", 0755));
        ASSERT_OK(put(f.root_fd, "way/d/secret", "inside"));
        ASSERT_OK(symlinkat("../outside", f.root_fd, "link-d"));
        ASSERT_OK(symlinkat("../outside/secret", f.root_fd, "link-file"));
        ASSERT_OK(symlinkat("../..", f.root_fd, "link-way"));
        ASSERT_EQ(pthread_create(&thread, NULL, exchange, &x), 0);
        for (unsigned i = 0; i < 300; i++) {
                static const char *const sources[] = {"/d/secret", "/secret", "/way/d/secret", "/."};
                char name[32];

                f.options.follow = i % 8 >= 4;
                snprintf(name, sizeof(name), "copy-%u", i);
                (void) mkdirat(f.host_fd, name, 0755);
                int r = copy_out(&f, sources[i % 4], name);
                copied += r >= 0;
                failed += r < 0;
                _cleanup_close_ int fd = openat(f.host_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                leaked = has_secret(fd, copies) ? sources[i % 4] : leaked;
        }
        __atomic_store_n(&x.stop, true, __ATOMIC_RELAXED);
        ASSERT_EQ(pthread_join(thread, NULL), 0);
        ASSERT_STREQ(leaked, NULL);
        ASSERT_GT(copied, 0);
        ASSERT_EQ(copied + failed, 300);
        ASSERT_OUTSIDE_UNTOUCHED(f);
}

TEST(exchanged_while_it_is_copied_in)
{
        FILES(f);
        static const char *const pairs[][2] = {{"d", "link-d"}, {"file", "link-file"}};
        Exchanger x = {.dir_fd = f.root_fd, .pairs = pairs, .n = ELEMENTSOF(pairs)};
        unsigned copied = 0;
        pthread_t thread;

        ASSERT_OK(mkdirat(f.host_fd, "t", 0755));
        ASSERT_OK(mkdirat(f.host_fd, "t/d", 0755));
        ASSERT_OK(put(f.host_fd, "t/d/new", "new"));
        ASSERT_OK(put(f.host_fd, "t/d/secret", "new"));
        ASSERT_OK(put(f.host_fd, "t/file", "new"));
        ASSERT_OK(mkdirat(f.root_fd, "d", 0755));
        ASSERT_OK(put(f.root_fd, "file", "old"));
        ASSERT_OK(symlinkat("../outside", f.root_fd, "link-d"));
        ASSERT_OK(symlinkat("../outside/secret", f.root_fd, "link-file"));
        ASSERT_EQ(pthread_create(&thread, NULL, exchange, &x), 0);
        for (unsigned i = 0; i < 300; i++)
                copied += copy_in(&f, i % 2 ? "t/." : "t/d/new", i % 2 ? "/" : "/d/new") >= 0;
        __atomic_store_n(&x.stop, true, __ATOMIC_RELAXED);
        ASSERT_EQ(pthread_join(thread, NULL), 0);
        ASSERT_GT(copied, 0);
        ASSERT_OUTSIDE_UNTOUCHED(f);
}

int main(void)
{
        const char *why = become_root();

        if (why)
                return TEST_SKIP_ALL("%s", why);
        RUN(paths_stay_in_the_root);
        RUN(links_are_copied_unless_followed);
        RUN(names_of_sources);
        RUN(names_of_targets);
        RUN(targets_that_are_links);
        RUN(no_link_is_followed_below);
        RUN(directories_and_files_do_not_replace_each_other);
        RUN(several_sources_need_a_directory);
        RUN(content_of_a_directory);
        RUN(a_tree_is_not_copied_into_itself);
        RUN(depth_is_bounded);
        RUN(modes_and_times);
        RUN(modes_of_directories);
        RUN(sizes_and_holes);
        RUN(hard_links);
        RUN(attributes_of_users);
        RUN(files_are_replaced);
        RUN(what_is_no_file);
        RUN(file_systems_of_the_kernel);
        RUN(roots_that_are_read_only);
        RUN(volumes_of_apps_that_do_not_run);
        RUN(exchanged_while_it_is_copied_out);
        RUN(exchanged_while_it_is_copied_in);
        return TEST_END();
}
