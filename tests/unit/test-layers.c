/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The order of an image's layers, errors in dependencies, and trees rendered by pathWhitelist. */

#include <sys/stat.h>
#include <sys/xattr.h>

#include "tests/unit/store-fixture.h"

#define DEPENDENCY(name) "{\"imageName\":\"" name "\"}"
#define DEPENDENCIES(...) ",\"dependencies\":[" __VA_ARGS__ "]"
#define FILES(...) ((const char *const[]){__VA_ARGS__, NULL})

static Image *add(Fixture *f, const char *manifest, const char *const *files)
{
        Image *i = NULL;

        return aci_import_files(f->store, manifest, files, &i, &f->error) < 0 ? NULL : i;
}

static void image_done(Image **i)
{
        *i = image_free(*i);
}
#define _cleanup_image_ _cleanup_(image_done)

/* "app c d": the names of the images the layers belong to. */
static char *layer_names(Fixture *f, char *const *layers)
{
        _cleanup_text_ Text t = {};
        char *s = NULL;

        STRV_FOREACH (l, layers) {
                _cleanup_free_ char *id = NULL;
                _cleanup_image_ Image *i = NULL;
                const char *p = strstr(*l, "sha512-");
                if (!startswith(*l, store_path(f->store)) || !endswith(*l, "/rootfs"))
                        return NULL;
                if (p)
                        id = strndup(p, IMAGE_ID_LENGTH);
                if (id && image_open(f->store, id, &i, NULL) < 0)
                        return NULL;
                text_addf(&t, "%s%s", l == layers ? "" : " ", i ? i->manifest->name : "rendered");
        }
        return text_take(&t, &s, NULL) < 0 ? NULL : s;
}

#define ASSERT_LAYERS(f, image, expected)                                                                   \
        do {                                                                                                \
                _cleanup_strv_free_ char **layers_ = NULL;                                                  \
                _cleanup_free_ char *names_ = NULL;                                                         \
                ASSERT_WORKS(f, image_layers((f).store, (image), &layers_, &(f).error));                    \
                names_ = layer_names(&(f), layers_);                                                        \
                ASSERT_STREQ(names_, (expected));                                                           \
        } while (0)

#define ASSERT_NO_LAYERS(f, image, code, why)                                                               \
        do {                                                                                                \
                _cleanup_strv_free_ char **layers_ = NULL;                                                  \
                ASSERT_FAILS(f, image_layers((f).store, (image), &layers_, &(f).error), (code), (why));     \
        } while (0)

/* The two examples of the specification. */
TEST(order)
{
        _cleanup_image_ Image *a = NULL, *b = NULL, *c = NULL, *d = NULL;
        FIXTURE(f);

        d = add(&f, ACI_MANIFEST("d", ""), NULL);
        b = add(&f, ACI_MANIFEST("b", ""), NULL);
        c = add(&f, ACI_MANIFEST("c", DEPENDENCIES(DEPENDENCY("d"))), NULL);
        a = add(&f, ACI_MANIFEST("a", DEPENDENCIES(DEPENDENCY("b") "," DEPENDENCY("c"))), NULL);
        ASSERT_LAYERS(f, d, "d");
        ASSERT_LAYERS(f, c, "c d");
        ASSERT_LAYERS(f, a, "a c d b");
}

TEST(order_of_a_diamond)
{
        _cleanup_image_ Image *a = NULL, *b = NULL, *c = NULL, *d = NULL;
        FIXTURE(f);

        d = add(&f, ACI_MANIFEST("d", ""), NULL);
        b = add(&f, ACI_MANIFEST("b", DEPENDENCIES(DEPENDENCY("d"))), NULL);
        c = add(&f, ACI_MANIFEST("c", DEPENDENCIES(DEPENDENCY("d"))), NULL);
        a = add(&f, ACI_MANIFEST("a", DEPENDENCIES(DEPENDENCY("b") "," DEPENDENCY("c"))), NULL);
        ASSERT_LAYERS(f, a, "a c d b");
}

TEST(by_labels_and_id)
{
        _cleanup_image_ Image *one = NULL, *two = NULL, *by_version = NULL, *by_id = NULL;
        _cleanup_strv_free_ char **layers = NULL;
        _cleanup_free_ char *manifest = NULL;
        FIXTURE(f);

        one = add(&f, ACI_MANIFEST("base", ACI_VERSION("1")), NULL);
        two = add(&f, ACI_MANIFEST("base", ACI_VERSION("2")), NULL);
        by_version = add(&f, ACI_MANIFEST("a", DEPENDENCIES("{\"imageName\":\"base\"" ACI_VERSION("1") "}")),
                         NULL);
        ASSERT_WORKS(f, image_layers(f.store, by_version, &layers, &f.error));
        ASSERT_CONTAINS(layers[1], one->id);
        ASSERT_OK(xasprintf(&manifest,
                            ACI_MANIFEST("b", DEPENDENCIES("{\"imageName\":\"base\",\"imageID\":\"%s\","
                                                           "\"size\":%u}")),
                            two->id, (unsigned) two->size));
        by_id = add(&f, manifest, NULL);
        layers = strv_free(layers);
        ASSERT_WORKS(f, image_layers(f.store, by_id, &layers, &f.error));
        ASSERT_CONTAINS(layers[1], two->id);
}

TEST(missing)
{
        _cleanup_image_ Image *a = NULL, *b = NULL;
        FIXTURE(f);

        b = add(&f,
                ACI_MANIFEST("example.com/b",
                             DEPENDENCIES("{\"imageName\":\"example.com/base\"" ACI_VERSION("3") "}")),
                NULL);
        a = add(&f,
                ACI_MANIFEST("example.com/a", ACI_VERSION("1") DEPENDENCIES(DEPENDENCY("example.com/b"))),
                NULL);
        ASSERT_NO_LAYERS(f, a, -ENOENT,
                         "The image example.com/base:3, on which example.com/a:1 -> example.com/b depends, "
                         "is not in the store");
        ASSERT_CONTAINS(f.error.hint, "Import it");
}

TEST(a13_cycles)
{
        _cleanup_image_ Image *a = NULL, *b = NULL, *self = NULL;
        FIXTURE(f);

        self = add(&f, ACI_MANIFEST("self", DEPENDENCIES(DEPENDENCY("self"))), NULL);
        ASSERT_NO_LAYERS(f, self, -ELOOP, "lead back to it: self -> self");
        a = add(&f, ACI_MANIFEST("a", DEPENDENCIES(DEPENDENCY("b"))), NULL);
        b = add(&f, ACI_MANIFEST("b", DEPENDENCIES(DEPENDENCY("a"))), NULL);
        ASSERT_NO_LAYERS(f, a, -ELOOP, "a -> b -> a");
        ASSERT_NO_LAYERS(f, b, -ELOOP, "b -> a -> b");
}

/* A chain, each of which needs the one before it twice: as a tree it would have 2^64 leaves. */
TEST(a13_depth)
{
        _cleanup_image_ Image *last = NULL;
        _cleanup_strv_free_ char **layers = NULL;
        FIXTURE(f);

        for (unsigned k = 0; k < 66; k++) {
                _cleanup_free_ char *manifest = NULL;
                last = image_free(last);
                if (k == 0)
                        ASSERT_OK(xasprintf(&manifest, ACI_MANIFEST("i0", "")));
                else
                        ASSERT_OK(xasprintf(
                                        &manifest,
                                        ACI_MANIFEST("i%u",
                                                     DEPENDENCIES(DEPENDENCY("i%u") "," DEPENDENCY("i%u"))),
                                        k, k - 1, k - 1));
                last = add(&f, manifest, NULL);
                ASSERT_NOT_NULL(last);
                layers = strv_free(layers);
                if (k == 63) {
                        ASSERT_WORKS(f, image_layers(f.store, last, &layers, &f.error));
                        ASSERT_EQ(strv_length(layers), 64);
                }
        }
        ASSERT_NO_LAYERS(f, last, -ELOOP, "more than 64 levels deep: i65 -> i64");
}

TEST(a14_wrong_dependency)
{
        _cleanup_image_ Image *base = NULL, *by_id = NULL, *by_size = NULL;
        _cleanup_free_ char *manifest = NULL;
        FIXTURE(f);

        base = add(&f, ACI_MANIFEST("base", ""), NULL);
        ASSERT_OK(xasprintf(&manifest,
                            ACI_MANIFEST("a", DEPENDENCIES("{\"imageName\":\"other\",\"imageID\":\"%s\"}")),
                            base->id));
        by_id = add(&f, manifest, NULL);
        ASSERT_NO_LAYERS(f, by_id, -EBADMSG, "The dependency other of a has the ID of another image");
        by_size = add(&f, ACI_MANIFEST("b", DEPENDENCIES("{\"imageName\":\"base\",\"size\":17}")), NULL);
        ASSERT_NO_LAYERS(f, by_size, -EBADMSG, "should have 17 bytes");
}

/* --- pathWhitelist ------------------------------------------------------------------------------------- */

#define WHITELIST(...) ",\"pathWhitelist\":[" __VA_ARGS__ "]"

static bool has(const char *root, const char *path)
{
        char whole[PATH_MAX];
        struct stat st;

        snprintf(whole, sizeof(whole), "%s/%s", root, path);
        return lstat(whole, &st) >= 0;
}

static char *content(const char *root, const char *path)
{
        char whole[PATH_MAX], *text = NULL;

        snprintf(whole, sizeof(whole), "%s/%s", root, path);
        (void) read_file_at(AT_FDCWD, whole, 1000, &text, NULL);
        return text;
}

#define ASSERT_CONTENT(root, path, expected)                                                                \
        do {                                                                                                \
                _cleanup_free_ char *content_ = content((root), (path));                                    \
                ASSERT_STREQ(content_, (expected));                                                         \
        } while (0)

TEST(whitelist)
{
        _cleanup_image_ Image *base = NULL, *app = NULL;
        _cleanup_strv_free_ char **layers = NULL, **again = NULL;
        struct stat st;
        FIXTURE(f);

        base = add(&f, ACI_MANIFEST("base", ""),
                   FILES("rootfs/etc/both", "base", "rootfs/etc/base", "base", "rootfs/etc/unlisted", "base",
                         "rootfs/deep/er/x", "base"));
        app = add(&f,
                  ACI_MANIFEST("app", DEPENDENCIES(DEPENDENCY("base")) WHITELIST(
                                                      "\"/etc/both\",\"/etc/base\",\"/etc/app\",\"/deep/er/"
                                                      "\",\"/missing/x\",\"/etc/both/\"")),
                  FILES("rootfs/etc/both", "app", "rootfs/etc/app", "app", "rootfs/etc/secret", "app"));
        ASSERT_LAYERS(f, app, "rendered");
        ASSERT_WORKS(f, image_layers(f.store, app, &layers, &f.error));
        ASSERT_CONTENT(layers[0], "etc/both", "app");
        ASSERT_CONTENT(layers[0], "etc/base", "base");
        ASSERT_CONTENT(layers[0], "etc/app", "app");
        ASSERT_FALSE(has(layers[0], "etc/unlisted"));
        ASSERT_FALSE(has(layers[0], "etc/secret"));
        ASSERT_TRUE(has(layers[0], "deep/er"));
        ASSERT_FALSE(has(layers[0], "deep/er/x"));
        ASSERT_FALSE(has(layers[0], "missing"));
        /* And that "etc" and "deep" need no layer of their own. */
        ASSERT_EQ(count_entries(f.store, "rendered"), 2);
        ASSERT_EQ(count_entries(f.store, "tmp"), 0);
        /* No copies. */
        ASSERT_OK(fstatat(base->dir_fd, "rootfs/etc/base", &st, 0));
        ASSERT_EQ(st.st_nlink, 2);
        /* Once. */
        ASSERT_WORKS(f, image_layers(f.store, app, &again, &f.error));
        ASSERT_STREQ(again[0], layers[0]);

        /* It goes with any image that is in it. */
        ASSERT_FAILS(f, image_remove(f.store, base->id, NULL, &f.error), -EBUSY, "needed by the image app");
        ASSERT_WORKS(f, image_remove(f.store, app->id, NULL, &f.error));
        ASSERT_EQ(count_entries(f.store, "rendered"), 0);
        ASSERT_OK(fstatat(base->dir_fd, "rootfs/etc/base", &st, 0));
        ASSERT_EQ(st.st_nlink, 1);
}

/* Only the part below the image with the list is rendered, and only its own list acts on it. */
TEST(whitelist_of_a_dependency)
{
        _cleanup_image_ Image *d = NULL, *c = NULL, *b = NULL, *a = NULL;
        _cleanup_strv_free_ char **layers = NULL;
        FIXTURE(f);

        d = add(&f, ACI_MANIFEST("d", ""), FILES("rootfs/x", "d", "rootfs/y", "d"));
        c = add(&f, ACI_MANIFEST("c", DEPENDENCIES(DEPENDENCY("d")) WHITELIST("\"/x\",\"/z\"")),
                FILES("rootfs/z", "c"));
        b = add(&f, ACI_MANIFEST("b", DEPENDENCIES(DEPENDENCY("d"))), NULL);
        a = add(&f, ACI_MANIFEST("a", DEPENDENCIES(DEPENDENCY("b") "," DEPENDENCY("c") "," DEPENDENCY("b"))),
                NULL);
        ASSERT_LAYERS(f, a, "a b d rendered");
        ASSERT_WORKS(f, image_layers(f.store, a, &layers, &f.error));
        ASSERT_TRUE(has(layers[3], "x"));
        ASSERT_TRUE(has(layers[3], "z"));
        ASSERT_FALSE(has(layers[3], "y"));
}

TEST(whitelist_of_a_whitelist)
{
        _cleanup_image_ Image *d = NULL, *c = NULL, *a = NULL;
        _cleanup_strv_free_ char **layers = NULL;
        _cleanup_free_ char *text = NULL;
        FIXTURE(f);

        d = add(&f, ACI_MANIFEST("d", ""), FILES("rootfs/x", "d", "rootfs/y", "d", "rootfs/z", "d"));
        c = add(&f, ACI_MANIFEST("c", DEPENDENCIES(DEPENDENCY("d")) WHITELIST("\"/x\",\"/y\"")), NULL);
        a = add(&f, ACI_MANIFEST("a", DEPENDENCIES(DEPENDENCY("c")) WHITELIST("\"/y\",\"/z\"")), NULL);
        ASSERT_WORKS(f, image_layers(f.store, a, &layers, &f.error));
        ASSERT_EQ(strv_length(layers), 1);
        ASSERT_FALSE(has(layers[0], "x"));
        ASSERT_TRUE(has(layers[0], "y"));
        ASSERT_FALSE(has(layers[0], "z"));
        /* Removing finds the innermost image, too. */
        _cleanup_close_ int fd = open(layers[0], O_PATH | O_DIRECTORY | O_CLOEXEC),
                            key = openat(fd, "..", O_PATH | O_CLOEXEC);
        ASSERT_OK(render_read_layers(key, &text));
        ASSERT_CONTAINS(text, d->id);
        ASSERT_CONTAINS(text, "rendered/");
}

/* The visible files, if layers have different types of files at a path. */
TEST(whitelist_kinds)
{
        _cleanup_image_ Image *low = NULL, *middle = NULL, *app = NULL;
        _cleanup_strv_free_ char **layers = NULL;
        FIXTURE(f);

        low = add(&f, ACI_MANIFEST("low", ""),
                  FILES("rootfs/dir/x", "low", "rootfs/file", "low", "rootfs/hidden/x", "low",
                        "rootfs/link/x", "low"));
        aci_manifest(&f.tar, ACI_MANIFEST("middle", DEPENDENCIES(DEPENDENCY("low"))));
        aci_file(&f.tar, "rootfs/dir", "now a file");
        aci_file(&f.tar, "rootfs/file/x", "now a directory");
        aci_file(&f.tar, "rootfs/hidden", "not listed itself");
        aci_symlink(&f.tar, "rootfs/link", "/etc");
        aci_end(&f.tar);
        ASSERT_IMPORTS(f, middle);
        app = add(&f,
                  ACI_MANIFEST("app", DEPENDENCIES(DEPENDENCY("middle"))
                                                      WHITELIST("\"/dir\",\"/dir/x\",\"/file/x\",\"/hidden/"
                                                                "x\",\"/link\",\"/link/x\",\"/link-x\"")),
                  NULL);
        ASSERT_WORKS(f, image_layers(f.store, app, &layers, &f.error));
        ASSERT_CONTENT(layers[0], "dir", "now a file");
        ASSERT_CONTENT(layers[0], "file/x", "now a directory");
        ASSERT_FALSE(has(layers[0], "hidden"));
        char target[16] = {}, path[PATH_MAX];
        snprintf(path, sizeof(path), "%s/link", layers[0]);
        ASSERT_EQ(readlink(path, target, sizeof(target)), 4);
}

TEST(whitelist_metadata)
{
        _cleanup_image_ Image *low = NULL, *app = NULL;
        _cleanup_strv_free_ char **layers = NULL;
        struct stat st;
        char path[PATH_MAX];
        FIXTURE(f);

        aci_manifest(&f.tar, ACI_MANIFEST("low", ""));
        aci_entry(&f.tar, (AciEntry){.name = "rootfs", .type = '5', .mode = 0711, .mtime = 7});
        aci_entry(&f.tar, (AciEntry){.name = "rootfs/tmp", .type = '5', .mode = 01777, .mtime = 5});
        aci_file(&f.tar, "rootfs/tmp/x", "");
        aci_entry(&f.tar, (AciEntry){.name = "rootfs/both", .type = '5', .mode = 0700, .mtime = 6});
        aci_file(&f.tar, "rootfs/both/x", "");
        aci_end(&f.tar);
        ASSERT_IMPORTS(f, low);
        text_done(&f.tar);
        aci_manifest(&f.tar,
                     ACI_MANIFEST("app", DEPENDENCIES(DEPENDENCY("low")) WHITELIST("\"/tmp/x\",\"/both\"")));
        aci_entry(&f.tar, (AciEntry){.name = "rootfs", .type = '5', .mode = 0755, .mtime = 8});
        aci_entry(&f.tar, (AciEntry){.name = "rootfs/both", .type = '5', .mode = 0750, .mtime = 9});
        aci_end(&f.tar);
        ASSERT_IMPORTS(f, app);
        ASSERT_WORKS(f, image_layers(f.store, app, &layers, &f.error));
        static const struct {
                const char *path;
                mode_t mode;
                time_t mtime;
        } expected[] = {{"", 0755, 8}, {"tmp", 01777, 5}, {"both", 0750, 9}};
        for (size_t k = 0; k < ELEMENTSOF(expected); k++) {
                snprintf(path, sizeof(path), "%s/%s", layers[0], expected[k].path);
                ASSERT_OK(stat(path, &st));
                ASSERT_EQ(st.st_mode & 07777, expected[k].mode);
                ASSERT_EQ(st.st_mtim.tv_sec, expected[k].mtime);
        }
}

int main(void)
{
        RUN(order);
        RUN(order_of_a_diamond);
        RUN(by_labels_and_id);
        RUN(missing);
        RUN(a13_cycles);
        RUN(a13_depth);
        RUN(a14_wrong_dependency);
        RUN(whitelist);
        RUN(whitelist_of_a_dependency);
        RUN(whitelist_of_a_whitelist);
        RUN(whitelist_kinds);
        RUN(whitelist_metadata);
        return TEST_END();
}
