/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Each allocation fails once, in importing and rendering (E3): see allocations.h. The
 * store is unchanged after a failure. */

#include "tests/unit/allocations.h"
#include "tests/unit/store-fixture.h"

/* --- Import and rendering ------------------------------------------------------------------------------ */

typedef struct Import {
        Fixture *fixture;
        int fd;
        const Image *image;
} Import;

/* Each import is into an empty store, which is empty again after a failure. */
static int import(void *userdata, Text *result, Error *e)
{
        Import *i = userdata;
        _cleanup_(image_freep) Image *image = NULL;

        if (lseek(i->fd, 0, SEEK_SET) < 0)
                return -errno;
        int r = image_import(i->fixture->store, i->fd, "test.aci", &image, e);
        unsigned at = allocations_suspend();
        if (count_entries(i->fixture->store, "tmp") > 0)
                return error_set(e, -ENOTEMPTY, "There is rubbish");
        if (r >= 0)
                r = image_remove(i->fixture->store, image->id, NULL, e);
        else if (count_entries(i->fixture->store, "images") > 0) /* published, but then not read */
                (void) image_remove(i->fixture->store, "example.com/app", NULL, NULL);
        allocations_resume(at);
        return r;
}

TEST(e3_import)
{
        FIXTURE(f);
        Import i = {.fixture = &f};

        aci_begin(&f.tar);
        aci_file(&f.tar, "rootfs/implied/x", "x");
        aci_hard_link(&f.tar, "rootfs/h", "rootfs/implied/x");
        aci_symlink(&f.tar, "rootfs/l", "x");
        aci_end(&f.tar);
        _cleanup_close_ int fd = aci_fd(f.tar.data, f.tar.size);
        i.fd = fd;
        for_each_failing_allocation(import, &i);
}

static int render(void *userdata, Text *result, Error *e)
{
        _cleanup_strv_free_ char **layers = NULL, **names = NULL;
        Import *i = userdata;

        int r = image_layers(i->fixture->store, i->image, &layers, e);
        unsigned at = allocations_suspend();
        _cleanup_close_ int fd =
                        openat(i->fixture->store->fd, "rendered", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (count_entries(i->fixture->store, "tmp") > 0)
                return error_set(e, -ENOTEMPTY, "There is rubbish");
        if (fd < 0 || list_names(fd, &names) < 0)
                return -EIO;
        STRV_FOREACH (name, names)
                (void) rm_rf_at(fd, *name);
        allocations_resume(at);
        return r;
}

TEST(e3_render)
{
        static const char *const files[] = {"rootfs/a", "a", "rootfs/dir/b", "b", NULL};
        _cleanup_(image_freep) Image *base = NULL, *app = NULL;
        FIXTURE(f);
        Import i = {.fixture = &f};

        ASSERT_WORKS(f, aci_import_files(f.store, ACI_MANIFEST("example.com/base", ""), files, &base,
                                         &f.error));
        ASSERT_WORKS(f,
                     aci_import_files(
                                     f.store,
                                     ACI_MANIFEST("example.com/app",
                                                  ",\"dependencies\":[{\"imageName\":\"example.com/base\"}],"
                                                  "\"pathWhitelist\":[\"/a\",\"/dir/b\"]"),
                                     NULL, &app, &f.error));
        i.image = app;
        for_each_failing_allocation(render, &i);
}

int main(void)
{
        if (access("/dev/shm", W_OK) >= 0)
                (void) setenv("TMPDIR", "/dev/shm", false);
        RUN(e3_import);
        RUN(e3_render);
        return TEST_END();
}
