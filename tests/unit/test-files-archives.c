/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Files of apps as archives and as images, as far as possible without root: copying in and out, and
 * malicious archives that try to write outside of the target. */

#include "tests/unit/aci.h"
#include "tests/unit/files-fixture.h"

typedef struct Archives {
        Files files;
        Store *store;
} Archives;

static void archives_done(Archives *a)
{
        (void) store_unref(a->store);
        files_done(&a->files);
}

static int archives_new(Archives *a)
{
        char path[PATH_MAX + 8];

        *a = (Archives){};
        int r = files_new(&a->files);
        if (r < 0)
                return r;
        snprintf(path, sizeof(path), "%s/store", a->files.scratch.path);
        return store_open_with_flags(path, STORE_UNPRIVILEGED, NULL, &a->store, NULL);
}

#define ARCHIVES(a)                                                                                         \
        _cleanup_(archives_done) Archives a;                                                                \
        ASSERT_OK(archives_new(&a))

static int unpack_fd(Archives *a, int fd, const char *path)
{
        Files *f = &a->files;
        CopySide to = in_app(f, path);

        error_done(&f->error);
        text_done(&f->notes);
        return files_unpack(a->store, fd, &to, &f->options, &f->error);
}

static int unpack(Archives *a, Text *t, const char *path)
{
        aci_end(t);
        _cleanup_close_ int fd = aci_fd(t->data, t->size);

        return unpack_fd(a, fd, path);
}

static bool nothing_is_left(const Archives *a)
{
        _cleanup_strv_free_ char **names = NULL;
        _cleanup_close_ int fd = openat(store_fd(a->store), "tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        return list_names(fd, &names) >= 0 && strv_length(names) == 0;
}

/* --- Out and in ---------------------------------------------------------------------------------------- */

TEST(out_and_in_again)
{
        ARCHIVES(a);
        Files *f = &a.files;
        _cleanup_close_ int fd = memfd_create("archive", MFD_CLOEXEC);
        const struct timespec times[2] = {{.tv_sec = 77}, {.tv_sec = 1000000000}};
        char target[64] = "";

        ASSERT_OK(mkdirat(f->root_fd, "d", 0711));
        ASSERT_OK(put(f->root_fd, "d/a", "content"));
        ASSERT_OK(fchmodat(f->root_fd, "d/a", 0640, 0));
        ASSERT_OK(utimensat(f->root_fd, "d/a", times, 0));
        ASSERT_OK(linkat(f->root_fd, "d/a", f->root_fd, "d/b", 0));
        ASSERT_OK(symlinkat("../../outside/secret", f->root_fd, "d/link"));
        CopySide from = in_app(f, "/d");
        ASSERT_WORKS(*f, files_pack(&from, &f->options, fd, &f->error));
        ASSERT_OK(mkdirat(f->root_fd, "e", 0755));
        ASSERT_EQ(lseek(fd, 0, SEEK_SET), 0);
        ASSERT_WORKS(*f, unpack_fd(&a, fd, "/e"));
        ASSERT_STREQ(get(f->root_fd, "e/d/a"), "content");
        struct stat st = status(f->root_fd, "e/d/a");
        ASSERT_EQ(st.st_mode & 07777U, 0640);
        ASSERT_EQ(st.st_mtim.tv_sec, 1000000000);
        ASSERT_EQ(st.st_ino, status(f->root_fd, "e/d/b").st_ino);
        ASSERT_EQ(status(f->root_fd, "e/d").st_mode & 07777U, 0711);
        ASSERT_EQ(readlinkat(f->root_fd, "e/d/link", target, sizeof(target) - 1), 20);
        ASSERT_OUTSIDE_UNTOUCHED(*f);
        ASSERT_TRUE(nothing_is_left(&a));
}

TEST(archives_need_a_directory)
{
        ARCHIVES(a);
        _cleanup_text_ Text t = {};

        aci_file(&t, "a", "x");
        ASSERT_OK(put(a.files.root_fd, "file", "old"));
        ASSERT_FAILS(a.files, unpack(&a, &t, "/new"), -ENOTDIR,
                     "is not a directory, which an archive requires");
        ASSERT_FAILS(a.files, unpack(&a, &t, "/file"), -ENOTDIR,
                     "is not a directory, which an archive requires");
        ASSERT_STREQ(get(a.files.root_fd, "file"), "old");
}

/* --- Malicious archives -------------------------------------------------------------------------------- */

TEST(entries_that_would_be_elsewhere)
{
        static const char *const names[] = {"../outside/made", "a/../../outside/made", "..",
                                            "../../../made"};

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                ARCHIVES(a);
                _cleanup_text_ Text t = {};

                aci_file(&t, "before", "x");
                aci_file(&t, names[i], "x");
                ASSERT_FAILS(a.files, unpack(&a, &t, "/"), -EBADMSG, "..");
                /* Errors are detected before the first file is created. */
                ASSERT_STREQ(get(a.files.root_fd, "before"), "(none)");
                ASSERT_OUTSIDE_UNTOUCHED(a.files);
                ASSERT_TRUE(nothing_is_left(&a));
        }
}

TEST(absolute_entries_are_inside)
{
        ARCHIVES(a);
        _cleanup_text_ Text t = {};

        aci_file(&t, "/made", "x");
        int r = unpack(&a, &t, "/");
        ASSERT_EQ(access("/made", F_OK), -1);
        if (r >= 0)
                ASSERT_STREQ(get(a.files.root_fd, "made"), "x");
}

TEST(entries_through_links)
{
        ARCHIVES(a);
        _cleanup_text_ Text t = {}, second = {};

        /* A link of the archive's own. */
        aci_symlink(&t, "way", "../outside");
        aci_file(&t, "way/made", "x");
        int r = unpack(&a, &t, "/");
        ASSERT_TRUE(r < 0 || S_ISDIR(status(a.files.root_fd, "way").st_mode));
        ASSERT_OUTSIDE_UNTOUCHED(a.files);

        /* One that is there. */
        ASSERT_OK(symlinkat("../outside", a.files.root_fd, "there"));
        aci_dir(&second, "there");
        aci_file(&second, "there/made", "x");
        ASSERT_FAILS(a.files, unpack(&a, &second, "/"), -ENOTDIR, "something else is in its place");
        ASSERT_OUTSIDE_UNTOUCHED(a.files);
        ASSERT_TRUE(nothing_is_left(&a));
}

TEST(hard_links_out)
{
        ARCHIVES(a);
        _cleanup_text_ Text t = {};

        aci_hard_link(&t, "got", "../outside/secret");
        ASSERT_TRUE(unpack(&a, &t, "/") < 0);
        ASSERT_STREQ(get(a.files.root_fd, "got"), "(none)");
        ASSERT_OUTSIDE_UNTOUCHED(a.files);
}

TEST(modes_without_archive)
{
        ARCHIVES(a);
        _cleanup_text_ Text t = {};

        aci_entry(&t, (AciEntry){.name = "suid", .type = '0', .mode = 06755, .content = "x", .size = 1});
        aci_entry(&t, (AciEntry){.name = "fifo", .type = '6', .mode = 0644});
        ASSERT_WORKS(a.files, unpack(&a, &t, "/"));
        ASSERT_EQ(status(a.files.root_fd, "suid").st_mode & 07777U, 0755);
        ASSERT_CONTAINS(noted(&a.files), "are kept with --archive only");
        ASSERT_EQ(status(a.files.root_fd, "fifo").st_mode, 0);
}

TEST(damaged_archives)
{
        ARCHIVES(a);
        static const char nonsense[] = "this is not an archive, whatever its length may be";
        _cleanup_text_ Text t = {};

        aci_file(&t, "a", "x");
        aci_entry(&t,
                  (AciEntry){.name = "cut", .type = '0', .mode = 0644, .size = 100000, .no_content = true});
        _cleanup_close_ int cut = aci_fd(t.data, t.size), none = aci_fd(nonsense, sizeof(nonsense));
        ASSERT_TRUE(unpack_fd(&a, cut, "/") < 0);
        ASSERT_TRUE(unpack_fd(&a, none, "/") < 0);
        ASSERT_STREQ(get(a.files.root_fd, "a"), "(none)");
        ASSERT_TRUE(nothing_is_left(&a));
}

/* --- Images -------------------------------------------------------------------------------------------- */

static int make_pod_directory(Archives *a, const char *manifest)
{
        Files *f = &a->files;
        int fd = open_new(&f->scratch, "pod");

        if (fd < 0)
                return fd;
        f->pod.dir_fd = fd;
        if (mkdirat(fd, "apps", 0755) < 0 || mkdirat(fd, "apps/web", 0755) < 0)
                return -errno;
        return put(fd, "apps/web/manifest", manifest);
}

static int export(Archives *a, const char *name, int fd, char **ret_id)
{
        const ExportOptions o = {
                        .pack.compression = COMPRESSION_NONE, .name = name, .notes = a->files.options.notes};

        error_done(&a->files.error);
        return files_export(&a->files.root, &o, fd, "the image", ret_id, &a->files.error);
}

static int import(Archives *a, int fd, Image **ret)
{
        _cleanup_text_ Text t = {};
        char buffer[4096];
        ssize_t n;

        if (lseek(fd, 0, SEEK_SET) < 0)
                return -errno;
        while ((n = read(fd, buffer, sizeof(buffer))) > 0)
                text_add_bytes(&t, buffer, (size_t) n);
        return aci_import(a->store, &t, ret, &a->files.error);
}

TEST(an_image_of_a_root)
{
        ARCHIVES(a);
        Files *f = &a.files;
        _cleanup_free_ char *id = NULL, *again = NULL, *named = NULL;
        _cleanup_(image_freep) Image *image = NULL;
        _cleanup_close_ int one = memfd_create("one", MFD_CLOEXEC), two = memfd_create("two", MFD_CLOEXEC),
                            three = memfd_create("three", MFD_CLOEXEC);

        ASSERT_OK(make_pod_directory(&a, "{\"acKind\":\"ImageManifest\",\"acVersion\":\"0.8.11\",\"name\":"
                                         "\"example.com/web\","
                                         "\"labels\":[{\"name\":\"version\",\"value\":\"1\"}],"
                                         "\"dependencies\":[{\"imageName\":\"example.com/base\"}],"
                                         "\"pathWhitelist\":[\"/etc\"]}"));
        ASSERT_OK(put(f->root_fd, "a", "content"));
        ASSERT_OK(symlinkat("../outside/secret", f->root_fd, "link"));
        ASSERT_WORKS(*f, export(&a, NULL, one, &id));
        ASSERT_WORKS(*f, export(&a, NULL, two, &again));
        ASSERT_STREQ(id, again);
        ASSERT_WORKS(*f, export(&a, "example.com/other:2,color=red", three, &named));
        ASSERT_TRUE(!streq(id, named));

        ASSERT_OK(import(&a, three, &image));
        ASSERT_STREQ(image->manifest->name, "example.com/other");
        ASSERT_STREQ(pair_list_get(&image->manifest->labels, "version"), "2");
        ASSERT_STREQ(pair_list_get(&image->manifest->labels, "color"), "red");
        ASSERT_EQ(image->manifest->n_dependencies, 0);
        ASSERT_NULL(image->manifest->path_whitelist);
        ASSERT_STREQ(get(image->dir_fd, "rootfs/a"), "content");
        ASSERT_FAILS(*f, export(&a, "Not A Name", one, &named), -EINVAL, "is not an image name");
        safe_close(f->pod.dir_fd);
}

int main(void)
{
        const char *why = become_root();

        if (why)
                return TEST_SKIP_ALL("%s", why);
        RUN(out_and_in_again);
        RUN(archives_need_a_directory);
        RUN(entries_that_would_be_elsewhere);
        RUN(absolute_entries_are_inside);
        RUN(entries_through_links);
        RUN(hard_links_out);
        RUN(modes_without_archive);
        RUN(damaged_archives);
        RUN(an_image_of_a_root);
        return TEST_END();
}
