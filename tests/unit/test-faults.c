/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Failures at any step of an import or of rendering: full disks, quotas, broken disks, no descriptors left,
 * kill -9 (E1, E2). Afterwards the store is unchanged, or the operation is complete; the message says what
 * failed and why; and a repetition succeeds. */

#include <sys/stat.h>

#include "tests/unit/store-faults.h"

/* --- Import -------------------------------------------------------------------------------------------- */

static int import_tar(void *userdata, Error *e)
{
        Operation *o = userdata;
        _cleanup_(image_freep) Image *i = NULL;

        if (lseek(o->fd, 0, SEEK_SET) < 0)
                return -errno;
        return image_import(o->fixture->store, o->fd, "test.aci", &i, e);
}

static int remove_image(Operation *o)
{
        return image_remove(o->fixture->store, "example.com/app", NULL, &o->fixture->error);
}

static void fill_tar(Text *t)
{
        _cleanup_text_ Text content = {};

        while (content.size < 3U << 16)
                text_add(&content, "some content of a file, again and again. ");
        aci_begin(t);
        aci_file(t, "rootfs/x", content.data);
        aci_dir(t, "rootfs/dir");
        aci_file(t, "rootfs/dir/y", "y");
        aci_file(t, "rootfs/implied/deep/z", "z");
        aci_hard_link(t, "rootfs/hard", "rootfs/x");
        aci_symlink(t, "rootfs/soft", "x");
        aci_entry(t, (AciEntry){.name = "rootfs/fifo", .type = '6', .mode = 0600});
        aci_end(t);
}

static void import_under(FaultKind kind)
{
        FIXTURE(f);
        Operation o = {.fixture = &f,
                       .run = import_tar,
                       .undo = remove_image,
                       .prefix = "Cannot import test.aci: "};

        fill_tar(&f.tar);
        _cleanup_close_ int fd = aci_fd(f.tar.data, f.tar.size);
        o.fd = fd;
        ASSERT_WORKS(f, import_tar(&o, &f.error)); /* what is made once stays: the lock, for one */
        ASSERT_OK(remove_image(&o));
        try_all(&o, kind, 20);
}

TEST(e1_import_killed)
{
        import_under(FAULT_KILL);
}
TEST(e2_import_enospc)
{
        import_under(FAULT_ENOSPC);
}
TEST(e2_import_eio)
{
        import_under(FAULT_EIO);
}
TEST(e2_import_edquot)
{
        import_under(FAULT_EDQUOT);
}
TEST(e2_import_emfile)
{
        import_under(FAULT_EMFILE);
}

/* --- Rendering ----------------------------------------------------------------------------------------- */

static int render(void *userdata, Error *e)
{
        Operation *o = userdata;
        _cleanup_strv_free_ char **layers = NULL;

        return image_layers(o->fixture->store, o->image, &layers, e);
}

static int remove_rendered(Operation *o)
{
        _cleanup_strv_free_ char **names = NULL;
        _cleanup_close_ int fd =
                        openat(o->fixture->store->fd, "rendered", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int r = list_names(fd, &names);

        STRV_FOREACH (name, names)
                if (r >= 0)
                        r = rm_rf_at(fd, *name);
        return r;
}

static void render_under(FaultKind kind)
{
        static const char *const base_files[] = {"rootfs/a", "a", "rootfs/dir/b", "b", NULL};
        static const char *const app_files[] = {"rootfs/dir/c", "c", "rootfs/d", "d", NULL};
        _cleanup_(image_freep) Image *base = NULL, *app = NULL;
        FIXTURE(f);
        Operation o = {.fixture = &f, .run = render, .undo = remove_rendered, .prefix = "Cannot "};

        ASSERT_WORKS(f, aci_import_files(f.store, ACI_MANIFEST("example.com/base", ""), base_files, &base,
                                         &f.error));
        ASSERT_WORKS(f,
                     aci_import_files(
                                     f.store,
                                     ACI_MANIFEST("example.com/app",
                                                  ",\"dependencies\":[{\"imageName\":\"example.com/base\"}],"
                                                  "\"pathWhitelist\":[\"/a\",\"/dir/b\",\"/dir/c\"]"),
                                     app_files, &app, &f.error));
        o.image = app;
        ASSERT_WORKS(f, render(&o, &f.error));
        ASSERT_OK(remove_rendered(&o));
        ASSERT_WORKS(f, collect(f.store, &f.error));
        try_all(&o, kind, 10);
}

TEST(e1_render_killed)
{
        render_under(FAULT_KILL);
}
TEST(e2_render_enospc)
{
        render_under(FAULT_ENOSPC);
}
TEST(e2_render_eio)
{
        render_under(FAULT_EIO);
}
TEST(e2_render_emfile)
{
        render_under(FAULT_EMFILE);
}

/* A file that has as many links as may be is copied. */
TEST(render_with_too_many_links)
{
        static const char *const files[] = {"rootfs/a", "some content", NULL};
        _cleanup_(image_freep) Image *app = NULL;
        _cleanup_strv_free_ char **layers = NULL;
        _cleanup_free_ char *content = NULL;
        struct stat st, original;
        FIXTURE(f);
        Operation o = {.fixture = &f};
        Fault fault = {.kind = FAULT_EMLINK, .step = 1};

        ASSERT_WORKS(f, aci_import_files(f.store,
                                         ACI_MANIFEST("example.com/app", ",\"pathWhitelist\":[\"/a\"]"),
                                         files, &app, &f.error));
        o.image = app;
        int r = fault_run(&fault, render, &o);
        if (r == -ENOSYS)
                TEST_SKIP("system calls cannot be made to fail here");
        ASSERT_OK(r);
        if (fault.result < 0)
                TEST_FAIL("%s", fault.message);
        ASSERT_TRUE(fault.reached);
        ASSERT_WORKS(f, image_layers(f.store, app, &layers, &f.error));
        _cleanup_close_ int fd = open(layers[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ASSERT_OK(read_file_at(fd, "a", 100, &content, NULL));
        ASSERT_STREQ(content, "some content");
        ASSERT_OK(fstatat(fd, "a", &st, 0));
        ASSERT_OK(fstatat(app->dir_fd, "rootfs/a", &original, 0));
        ASSERT_EQ(st.st_nlink, 1);
        ASSERT_EQ(st.st_mode, original.st_mode);
        ASSERT_EQ(st.st_mtim.tv_sec, original.st_mtim.tv_sec);
}

/* Its holes can be as large as the disk, and stay holes. */
TEST(render_with_too_many_links_to_holes)
{
        _cleanup_(image_freep) Image *app = NULL;
        _cleanup_strv_free_ char **layers = NULL;
        struct stat st;
        FIXTURE(f);
        Operation o = {.fixture = &f};
        Fault fault = {.kind = FAULT_EMLINK, .step = 1};

        aci_manifest(&f.tar, ACI_MANIFEST("example.com/app", ",\"pathWhitelist\":[\"/a\"]"));
        aci_dir(&f.tar, "rootfs");
        ACI_PAX(&f.tar, "GNU.sparse.size=67108864");
        aci_file(&f.tar, "rootfs/a", "hello");
        aci_end(&f.tar);
        ASSERT_IMPORTS(f, app);
        o.image = app;
        int r = fault_run(&fault, render, &o);
        if (r == -ENOSYS)
                TEST_SKIP("system calls cannot be made to fail here");
        ASSERT_OK(r);
        if (fault.result < 0)
                TEST_FAIL("%s", fault.message);
        ASSERT_WORKS(f, image_layers(f.store, app, &layers, &f.error));
        _cleanup_close_ int fd = open(layers[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ASSERT_OK(fstatat(fd, "a", &st, 0));
        ASSERT_EQ(st.st_nlink, 1);
        ASSERT_EQ(st.st_size, 67108864);
        ASSERT_LT(st.st_blocks, 1024);
}

int main(void)
{
        /* On a tmpfs: there are hundreds of imports here, each of which would wait for the disk. */
        if (access("/dev/shm", W_OK) >= 0)
                (void) setenv("TMPDIR", "/dev/shm", false);
        RUN(e1_import_killed);
        RUN(e2_import_enospc);
        RUN(e2_import_eio);
        RUN(e2_import_edquot);
        RUN(e2_import_emfile);
        RUN(e1_render_killed);
        RUN(e2_render_enospc);
        RUN(e2_render_eio);
        RUN(e2_render_emfile);
        RUN(render_with_too_many_links);
        RUN(render_with_too_many_links_to_holes);
        return TEST_END();
}
