/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* OCI images from layouts written by the test: conversion of layers, refused images, and that nothing is
 * left of them. */

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "prepare/images/images-internal.h"
#include "prepare/oci/oci-internal.h"
#include "tests/unit/small-disk.h"
#include "tests/unit/store-fixture.h"

#define LAYERS_MAX_HERE 140

typedef struct OciLayout {
        Fixture f;
        int fd;
        char *path;
        Text layers, diff_ids; /* JSON */
        unsigned n_layers;
        char *last_digest; /* of the layer added last, or of the last blob */
        const char *config_more;
        OciImportOptions options;
} OciLayout;

static void layout_done(OciLayout *l)
{
        fixture_done(&l->f);
        safe_close(l->fd);
        free(l->path);
        free(l->last_digest);
        text_done(&l->layers);
        text_done(&l->diff_ids);
}

static void write_at(OciLayout *l, const char *name, const void *p, size_t n)
{
        (void) unlinkat(l->fd, name, 0);
        if (write_file_new_at(l->fd, name, p, n, 0644) < 0)
                abort();
}

/* Keeps the digest in l->last_digest. */
static const char *add_blob(OciLayout *l, const void *p, size_t n)
{
        char name[128];

        free(l->last_digest);
        l->last_digest = NULL;
        if (digest_bytes("sha256:", p, n, &l->last_digest) < 0)
                abort();
        snprintf(name, sizeof(name), "blobs/sha256/%s", l->last_digest + 7);
        write_at(l, name, p, n);
        return l->last_digest;
}

static int layout_new(OciLayout *l)
{
        *l = (OciLayout){.fd = -EBADF};
        int r = fixture_new(&l->f);
        if (r < 0)
                return r;
        if (xasprintf(&l->path, "%s/app", l->f.scratch.path) < 0 || mkdir(l->path, 0755) < 0)
                return -errno;
        l->fd = open(l->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (mkdirat(l->fd, "blobs", 0755) < 0 || mkdirat(l->fd, "blobs/sha256", 0755) < 0)
                return -errno;
        write_at(l, "oci-layout", "{\"imageLayoutVersion\":\"1.0.0\"}", 30);
        return 0;
}

#define LAYOUT(l)                                                                                           \
        _cleanup_(layout_done) OciLayout l;                                                                 \
        ASSERT_OK(layout_new(&l))

static void add_layer_as(OciLayout *l, const Text *diff, const Text *blob, const char *diff_id)
{
        _cleanup_free_ char *own = NULL;

        if (!diff_id && digest_bytes("sha256:", diff->data, diff->size, &own) < 0)
                abort();
        text_addf(&l->diff_ids, "%s\"%s\"", l->n_layers ? "," : "", diff_id ?: own);
        text_addf(&l->layers,
                  "%s{\"mediaType\":\"application/"
                  "vnd.oci.image.layer.v1.tar\",\"digest\":\"%s\",\"size\":%zu}",
                  l->n_layers ? "," : "", add_blob(l, blob->data, blob->size), blob->size);
        l->n_layers++;
}

/* The archive in l->f.tar, which begins anew. */
static void add_layer(OciLayout *l)
{
        aci_end(&l->f.tar);
        add_layer_as(l, &l->f.tar, &l->f.tar, NULL);
        text_done(&l->f.tar);
        l->f.tar = (Text){};
}

static void finish(OciLayout *l)
{
        _cleanup_text_ Text config = {}, manifest = {}, index = {};

        text_addf(&config, "{\"os\":\"linux\"%s,\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[%s]}}",
                  l->config_more ?: "", l->diff_ids.data ?: "");
        const char *digest = add_blob(l, config.data, config.size);
        text_addf(&manifest,
                  "{\"schemaVersion\":2,\"config\":{\"mediaType\":\"application/"
                  "vnd.oci.image.config.v1+json\","
                  "\"digest\":\"%s\",\"size\":%zu},\"layers\":[%s]}",
                  digest, config.size, l->layers.data ?: "");
        digest = add_blob(l, manifest.data, manifest.size);
        text_addf(&index,
                  "{\"schemaVersion\":2,\"manifests\":[{\"mediaType\":"
                  "\"application/vnd.oci.image.manifest.v1+json\",\"digest\":\"%s\",\"size\":%zu,"
                  "\"annotations\":{\"" OCI_REF_NAME "\":\"1.0\"}}]}",
                  digest, manifest.size);
        write_at(l, "index.json", index.data, index.size);
}

static int import(OciLayout *l, Image **ret)
{
        _cleanup_(oci_source_freep) OciSource *s = NULL;

        error_done(&l->f.error);
        int r = oci_layout_open(l->path, NULL, &s, &l->f.error);
        return r < 0 ? r : oci_import(l->f.store, s, &l->options, ret, &l->f.error);
}

#define ASSERT_OCI_REFUSED(l, code, why)                                                                    \
        do {                                                                                                \
                _cleanup_(image_freep) Image *image_ = NULL;                                                \
                finish(&(l));                                                                               \
                int r_ = import(&(l), &image_);                                                             \
                if (r_ != (code))                                                                           \
                        TEST_FAIL("import returned %d: %s", r_, (l).f.error.message ?: "");                 \
                ASSERT_CONTAINS((l).f.error.message, (why));                                                \
                ASSERT_TRUE(store_is_empty((l).f.store));                                                   \
                ASSERT_EQ(count_entries((l).f.store, "layers"), 0);                                         \
        } while (0)

/* The number of differences, the first of which is in *RET ("PATH KIND"), or a negative errno. */
static int verify(OciLayout *l, const Image *i, char **ret)
{
        _cleanup_record_check_ RecordCheck check = {.n_max = 8};

        error_done(&l->f.error);
        int r = oci_image_verify(l->f.store, i->id, &check, &l->f.error);
        if (r >= 0 && check.n_found > 0 && ret)
                r = xasprintf(ret, "%s %s", check.differences[0].path,
                              difference_kind_to_string(check.differences[0].kind));
        return r < 0 ? r : (int) check.n_found;
}

/* Whatever kinds of layers it has, it is found to be what its ID says. */
#define ASSERT_OCI_IMPORTS(l, image)                                                                        \
        do {                                                                                                \
                finish(&(l));                                                                               \
                int r_ = import(&(l), &(image));                                                            \
                if (r_ < 0)                                                                                 \
                        TEST_FAIL("import failed: %s", (l).f.error.message ?: "");                          \
                r_ = verify(&(l), (image), NULL);                                                           \
                if (r_ != 0)                                                                                \
                        TEST_FAIL("verifying it returned %d: %s", r_, (l).f.error.message ?: "");           \
                ASSERT_EQ(count_entries((l).f.store, "tmp"), 0);                                            \
        } while (0)

/* 'f', 'd', 'l', 'w' (a whiteout), 'o' (an opaque directory), '-': the type of PATH in the N-th own layer. */
static char what_is(OciLayout *l, const Image *i, size_t n, const char *path)
{
        _cleanup_strv_free_ char **own = NULL;
        _cleanup_close_ int fd = -EBADF;
        char value, name[PATH_MAX];
        struct stat st;

        if (image_own_layers(i, &own) < 0 || n >= strv_length(own))
                return '?';
        snprintf(name, sizeof(name), "%s/%s", own[n], path);
        if (fstatat(l->f.store->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return '-';
        if (S_ISCHR(st.st_mode))
                return st.st_rdev == 0 ? 'w' : 'c';
        if (!S_ISDIR(st.st_mode))
                return S_ISLNK(st.st_mode) ? 'l' : 'f';
        fd = openat(l->f.store->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return fgetxattr(fd, "trusted.overlay.opaque", &value, 1) == 1 ||
                                               fgetxattr(fd, "user.overlay.opaque", &value, 1) == 1
                               ? 'o'
                               : 'd';
}

TEST(whiteouts_and_opaque_directories)
{
        LAYOUT(l);
        _cleanup_(image_freep) Image *i = NULL;

        aci_file(&l.f.tar, ".wh.gone", "");
        aci_file(&l.f.tar, "a/.wh.b", ""); /* then something new of that name */
        aci_file(&l.f.tar, "a/b/new", "");
        aci_file(&l.f.tar, "c/mine", ""); /* first something new, then the whiteout */
        aci_file(&l.f.tar, ".wh.c", "");
        aci_file(&l.f.tar, "d", ""); /* a file hides by itself */
        aci_file(&l.f.tar, ".wh.d", "");
        aci_file(&l.f.tar, "e/before", "");
        aci_file(&l.f.tar, "e/.wh..wh..opq", "");
        aci_file(&l.f.tar, "e/after", "");
        aci_file(&l.f.tar, ".wh..wh.aufs", ""); /* metadata of AUFS */
        aci_dir(&l.f.tar, ".wh..wh.plnk");
        aci_file(&l.f.tar, ".wh..wh.plnk/1.2", "");
        aci_hard_link(&l.f.tar, ".wh.linked", ".wh..wh.aufs");
        aci_file(&l.f.tar, ".wh.x", "");
        aci_symlink(&l.f.tar, "x", "target");
        aci_file(&l.f.tar, ".wh.y", "");
        aci_dir(&l.f.tar, "y");
        aci_file(&l.f.tar, ".wh..w", "");
        add_layer(&l);
        ASSERT_OCI_IMPORTS(l, i);
        ASSERT_EQ(what_is(&l, i, 0, "gone"), 'w');
        ASSERT_EQ(what_is(&l, i, 0, "a"), 'd');
        ASSERT_EQ(what_is(&l, i, 0, "a/b"), 'o');
        ASSERT_EQ(what_is(&l, i, 0, "a/b/new"), 'f');
        ASSERT_EQ(what_is(&l, i, 0, "c"), 'o');
        ASSERT_EQ(what_is(&l, i, 0, "c/mine"), 'f');
        ASSERT_EQ(what_is(&l, i, 0, "d"), 'f');
        ASSERT_EQ(what_is(&l, i, 0, "e"), 'o');
        ASSERT_EQ(what_is(&l, i, 0, "e/before"), 'f');
        ASSERT_EQ(what_is(&l, i, 0, "e/after"), 'f');
        ASSERT_EQ(what_is(&l, i, 0, "e/.wh..wh..opq"), '-');
        ASSERT_EQ(what_is(&l, i, 0, ".wh..wh.plnk"), '-');
        ASSERT_EQ(what_is(&l, i, 0, "linked"), 'w');
        ASSERT_EQ(what_is(&l, i, 0, "x"), 'l');
        ASSERT_EQ(what_is(&l, i, 0, "y"), 'o');
        ASSERT_EQ(what_is(&l, i, 0, ".w"), 'w');
}

TEST(whiteouts_that_are_refused)
{
        static const char *const names[] = {".wh.",   "a/.wh..", ".wh...",
                                            ".wh./x", ".wh.a/x", "b/.wh../../x"};

        for (size_t k = 0; k < ELEMENTSOF(names); k++) {
                LAYOUT(l);
                aci_file(&l.f.tar, names[k], "");
                add_layer(&l);
                ASSERT_OCI_REFUSED(l, -EBADMSG, "Cannot unpack");
        }
        LAYOUT(l);
        aci_dir(&l.f.tar, ".wh.dir");
        add_layer(&l);
        ASSERT_OCI_REFUSED(l, -EBADMSG, "a whiteout cannot be a directory");
}

TEST(later_entries_replace_earlier_ones)
{
        LAYOUT(l);
        _cleanup_(image_freep) Image *i = NULL;
        struct stat st;
        char name[PATH_MAX];

        aci_file(&l.f.tar, "f", "one");
        aci_file(&l.f.tar, "f", "other");
        aci_dir(&l.f.tar, "d/deep/er");
        aci_entry(&l.f.tar, (AciEntry){.name = "d", .type = '5', .mode = 04777});
        aci_symlink(&l.f.tar, "d", "/etc"); /* a directory that was to be 04777 */
        aci_file(&l.f.tar, "s", "");
        aci_entry(&l.f.tar, (AciEntry){.name = "s", .type = '5', .mode = 0710});
        aci_file(&l.f.tar, "s/in", "");
        aci_entry(&l.f.tar, (AciEntry){.name = "s", .type = '5', .mode = 0750});
        aci_file(&l.f.tar, "h", "");
        aci_hard_link(&l.f.tar, "h", "h");
        aci_hard_link(&l.f.tar, "s2", "/h");
        aci_entry(&l.f.tar, (AciEntry){.name = "null", .type = '3', .mode = 0666, .major = 1, .minor = 3});
        aci_file(&l.f.tar, "/absolute", "");
        add_layer(&l);
        ASSERT_OCI_IMPORTS(l, i);
        ASSERT_EQ(what_is(&l, i, 0, "d"), 'l');
        ASSERT_EQ(what_is(&l, i, 0, "s"),
                  'o'); /* a file of that name had been there, and hid what is below */
        ASSERT_EQ(what_is(&l, i, 0, "s/in"), 'f');
        ASSERT_EQ(what_is(&l, i, 0, "h"), 'f');
        ASSERT_EQ(what_is(&l, i, 0, "s2"), 'f');
        ASSERT_EQ(what_is(&l, i, 0, "null"), '-');
        ASSERT_EQ(what_is(&l, i, 0, "absolute"), 'f');
        snprintf(name, sizeof(name), "layers/%s/rootfs/f", i->layer_ids[0]);
        ASSERT_OK(fstatat(l.f.store->fd, name, &st, AT_SYMLINK_NOFOLLOW));
        ASSERT_EQ(st.st_size, 5);
        snprintf(name, sizeof(name), "layers/%s/rootfs/s", i->layer_ids[0]);
        ASSERT_OK(fstatat(l.f.store->fd, name, &st, AT_SYMLINK_NOFOLLOW));
        ASSERT_EQ(st.st_mode & 07777, 0750);
}

TEST(hostile_layers)
{
        static const struct {
                AciEntry first, second;
                const char *why;
        } cases[] = {
                        {{.name = "../x", .type = '0'}, {}, "'..'"},
                        {{.name = "a/../../x", .type = '0'}, {}, "'..'"},
                        {{.name = "s", .type = '2', .link = "/etc"},
                         {.name = "s/x", .type = '0'},
                         "symbolic link"},
                        {{.name = "f", .type = '0'}, {.name = "f/x", .type = '0'}, "is not a directory"},
                        {{.name = "h", .type = '1', .link = "../../x"}, {}, "'..'"},
                        {{.name = "h", .type = '1', .link = "/etc/shadow"}, {}, "no earlier entry"},
                        {{.name = ".wh.w", .type = '0'},
                         {.name = "h", .type = '1', .link = "w"},
                         "no earlier entry"},
                        {{.name = "x", .type = '0', .size = 1 << 20, .no_content = true}, {}, "Layer 1"},
                        {{.name = "f", .type = '0'},
                         {.name = ".", .type = '3', .major = 1, .minor = 3},
                         "has to be a directory"},
                        {{.name = "./", .type = '4', .major = 8},
                         {.name = "f", .type = '0'},
                         "has to be a directory"},
        };

        for (size_t k = 0; k < ELEMENTSOF(cases); k++) {
                LAYOUT(l);
                aci_entry(&l.f.tar, cases[k].first);
                if (cases[k].second.name)
                        aci_entry(&l.f.tar, cases[k].second);
                add_layer(&l);
                ASSERT_OCI_REFUSED(l, -EBADMSG, cases[k].why);
        }
        LAYOUT(l);
        ACI_PAX(&l.f.tar, "SCHILY.xattr.trusted.overlay.redirect=/x");
        aci_dir(&l.f.tar, "d");
        add_layer(&l);
        ASSERT_OCI_REFUSED(l, -EBADMSG, "would control overlayfs");
}

TEST(digests_and_sizes)
{
        static const char wrong[] =
                        "sha256:8d3fffddf79e9a232ffd19f9ccaa4d6b37a6a243dbe0f23137b108a043d9da13";
        char name[128];

        {
                LAYOUT(l);
                aci_file(&l.f.tar, "x", "y");
                aci_end(&l.f.tar);
                add_layer_as(&l, &l.f.tar, &l.f.tar, wrong);
                ASSERT_OCI_REFUSED(l, -EBADMSG, "it does not match the image's config");
        }
        {
                LAYOUT(l);
                aci_file(&l.f.tar, "x", "y");
                add_layer(&l);
                snprintf(name, sizeof(name), "blobs/sha256/%s", l.last_digest + 7);
                _cleanup_text_ Text t = {};
                aci_file(&t, "x", "z");
                aci_end(&t);
                write_at(&l, name, t.data, t.size);
                ASSERT_OCI_REFUSED(l, -EBADMSG, "damaged or was replaced");
                memset(t.data, 'x', t.size); /* that it is no archive either is not what is wrong */
                write_at(&l, name, t.data, t.size);
                ASSERT_OCI_REFUSED(l, -EBADMSG, "damaged or was replaced");
                write_at(&l, name, t.data, t.size - 1);
                ASSERT_OCI_REFUSED(l, -EBADMSG, "bytes instead of");
                ASSERT_OK(unlinkat(l.fd, name, 0));
                ASSERT_OCI_REFUSED(l, -ENOENT, "has no blob sha256:");
                ASSERT_OK(symlinkat("/etc/passwd", l.fd, name));
                ASSERT_OCI_REFUSED(l, -ELOOP, "symbolic link");
                ASSERT_OK(unlinkat(l.fd, name, 0));
                ASSERT_OK(mkfifoat(l.fd, name, 0600));
                ASSERT_OCI_REFUSED(l, -EBADMSG, "not a regular file");
        }
        {
                LAYOUT(l);
                finish(&l);
                snprintf(name, sizeof(name), "blobs/sha256/%s", l.last_digest + 7);
                write_at(&l, name, "{}", 2); /* the manifest */
                _cleanup_(image_freep) Image *i = NULL;
                ASSERT_ERR(import(&l, &i), -EBADMSG);
                ASSERT_CONTAINS(l.f.error.message, "its digest is");
        }
        {
                LAYOUT(l);
                aci_file(&l.f.tar, "x", "y");
                add_layer(&l);
                text_addf(&l.diff_ids, ",\"%s\"", wrong);
                ASSERT_OCI_REFUSED(l, -EBADMSG, "manifest has 1 layers, but its config has 2");
        }
}

TEST(layers_are_shared_and_read_once)
{
        LAYOUT(l);
        _cleanup_(image_freep) Image *i = NULL, *again = NULL, *other = NULL;
        _cleanup_free_ char *first = NULL;
        char name[128];

        aci_file(&l.f.tar, "x", "y");
        add_layer(&l);
        first = strdup(l.last_digest);
        ASSERT_OCI_IMPORTS(l, i);
        ASSERT_STREQ(i->manifest->name, "app");
        ASSERT_STREQ(pair_list_get(&i->manifest->labels, "version"), "1.0");
        ASSERT_EQ(i->info.kind, IMAGE_KIND_OCI);
        /* What is there is not read: the blob may be gone. */
        snprintf(name, sizeof(name), "blobs/sha256/%s", first + 7);
        ASSERT_OK(unlinkat(l.fd, name, 0));
        ASSERT_OCI_IMPORTS(l, again);
        ASSERT_STREQ(again->id, i->id);
        aci_file(&l.f.tar, "z", "");
        add_layer(&l);
        ASSERT_OCI_IMPORTS(l, other);
        ASSERT_EQ(strv_length(other->layer_ids), 2);
        ASSERT_STREQ(other->layer_ids[1], i->layer_ids[0]);
        ASSERT_EQ(count_entries(l.f.store, "layers"), 2);

        GcOptions gc = {.expire_prepared_usec = UINT64_MAX};
        ASSERT_WORKS(l.f, image_remove(l.f.store, other->id, NULL, &l.f.error));
        ASSERT_EQ(count_entries(l.f.store, "layers"), 1);
        ASSERT_EQ(what_is(&l, i, 0, "x"), 'f');
        ASSERT_WORKS(l.f, store_gc(l.f.store, &gc, &l.f.error));
        ASSERT_EQ(count_entries(l.f.store, "layers"), 1);
        ASSERT_WORKS(l.f, image_remove(l.f.store, i->id, NULL, &l.f.error));
        ASSERT_EQ(count_entries(l.f.store, "layers"), 0);
        ASSERT_TRUE(store_is_empty(l.f.store));
}

/* --- Layers that the store has ------------------------------------------------------------------------- */

/* Begins another image in the same layout. */
static void begin_image(OciLayout *l)
{
        text_done(&l->layers);
        text_done(&l->diff_ids);
        l->layers = l->diff_ids = (Text){};
        l->n_layers = 0;
}

static int remove_blob(OciLayout *l, const char *digest)
{
        char name[128];

        snprintf(name, sizeof(name), "blobs/sha256/%s", digest + 7);
        return unlinkat(l->fd, name, 0) < 0 ? -errno : 0;
}

/* The one that was used last. */
static const char *digest_of(const Text *t)
{
        static char digest[80];
        _cleanup_free_ char *s = NULL;

        if (digest_bytes("sha256:", t->data, t->size, &s) < 0)
                abort();
        snprintf(digest, sizeof(digest), "%s", s);
        return digest;
}

/* The config has the diff ID of a layer of another image, which the manifest does not name. */
TEST(a_layer_of_others_that_is_only_claimed)
{
        _cleanup_(image_freep) Image *i = NULL, *other = NULL;
        _cleanup_text_ Text secret = {}, mine = {};
        _cleanup_free_ char *diff_id = NULL;
        LAYOUT(l);

        aci_file(&secret, "secret", "of the first image");
        aci_end(&secret);
        ASSERT_OK(digest_bytes("sha256:", secret.data, secret.size, &diff_id));
        add_layer_as(&l, &secret, &secret, NULL);
        ASSERT_OCI_IMPORTS(l, i);

        aci_file(&mine, "other", "");
        aci_end(&mine);
        for (unsigned k = 0; k < 3; k++) {
                begin_image(&l);
                l.config_more = ",\"author\":\"somebody else\"";
                add_layer_as(&l, &mine, &mine, diff_id);
                if (k == 1) /* it need not even be there */
                        ASSERT_OK(remove_blob(&l, l.last_digest));
                if (k == 2) { /* as in a store without records of the sources of layers */
                        char name[PATH_MAX];
                        snprintf(name, sizeof(name), "layers/%s/hashed", i->layer_ids[0]);
                        ASSERT_OK(unlinkat(l.f.store->fd, name, 0));
                }
                finish(&l);
                ASSERT_ERR(import(&l, &other), k == 1 ? -ENOENT : -EBADMSG);
                ASSERT_CONTAINS(l.f.error.message,
                                k == 1 ? "has no blob" : "it does not match the image's config");
        }
        ASSERT_EQ(count_entries(l.f.store, "images"), 1);
        ASSERT_EQ(count_entries(l.f.store, "layers"), 1);
        ASSERT_EQ(count_entries(l.f.store, "tmp"), 0);
        ASSERT_EQ(what_is(&l, i, 0, "secret"), 'f');
}

/* A manifest with the config of an image in the store and other layers, which its source does not have. */
TEST(blobs_of_a_known_config_that_nobody_has)
{
        _cleanup_(image_freep) Image *i = NULL, *other = NULL;
        _cleanup_text_ Text tar = {}, fake = {};
        LAYOUT(l);

        aci_file(&tar, "secret", "of the image");
        aci_end(&tar);
        add_layer_as(&l, &tar, &tar, NULL);
        ASSERT_OCI_IMPORTS(l, i);
        begin_image(&l);
        aci_file(&fake, "other", "");
        aci_end(&fake);
        add_layer_as(&l, &tar, &fake, NULL);
        for (unsigned k = 0; k < 2; k++) {
                _cleanup_free_ char *blob = strdup(digest_of(&fake));
                if (k > 0)
                        ASSERT_OK(remove_blob(&l, blob));
                finish(&l);
                ASSERT_ERR(import(&l, &other), k == 0 ? -EBADMSG : -ENOENT);
                ASSERT_CONTAINS(l.f.error.message,
                                k == 0 ? "it does not match the image's config" : "has no blob");
        }
        ASSERT_EQ(count_entries(l.f.store, "images"), 1);
        /* The image itself is read again without its blobs, whose digests are known. */
        begin_image(&l);
        add_layer_as(&l, &tar, &tar, NULL);
        ASSERT_OK(remove_blob(&l, l.last_digest));
        ASSERT_OCI_IMPORTS(l, other);
        ASSERT_STREQ(other->id, i->id);
}

/* The same layer compressed in another way is read once and shared. */
TEST(a_layer_in_another_form)
{
        _cleanup_(image_freep) Image *i = NULL, *second = NULL, *third = NULL, *fourth = NULL;
        _cleanup_text_ Text tar = {}, gzip = {}, longer = {};
        _cleanup_free_ char *diff_id = NULL, *blob = NULL;
        LAYOUT(l);

        aci_file(&tar, "x", "content");
        aci_end(&tar);
        ASSERT_OK(digest_bytes("sha256:", tar.data, tar.size, &diff_id));
        ASSERT_OK(aci_compress(&tar, ARCHIVE_FILTER_GZIP, &gzip));
        add_layer_as(&l, &tar, &tar, NULL);
        ASSERT_OCI_IMPORTS(l, i);

        begin_image(&l);
        l.config_more = ",\"author\":\"second\"";
        add_layer_as(&l, &tar, &gzip, NULL);
        blob = strdup(l.last_digest);
        ASSERT_OCI_IMPORTS(l, second);
        ASSERT_STREQ(second->layer_ids[0], i->layer_ids[0]);
        ASSERT_EQ(count_entries(l.f.store, "layers"), 1);

        /* Now it is known. */
        begin_image(&l);
        l.config_more = ",\"author\":\"third\"";
        add_layer_as(&l, &tar, &gzip, NULL);
        ASSERT_OK(remove_blob(&l, blob));
        ASSERT_OCI_IMPORTS(l, third);
        ASSERT_EQ(count_entries(l.f.store, "layers"), 1);

        /* What does not end is not read to its end. */
        begin_image(&l);
        l.config_more = ",\"author\":\"fourth\"";
        text_add_bytes(&longer, tar.data, tar.size);
        for (unsigned k = 0; k < 4096; k++)
                aci_end(&longer);
        text_done(&gzip);
        gzip = (Text){};
        ASSERT_OK(aci_compress(&longer, ARCHIVE_FILTER_GZIP, &gzip));
        add_layer_as(&l, &tar, &gzip, NULL);
        finish(&l);
        ASSERT_ERR(import(&l, &fourth), -EBADMSG);
        ASSERT_CONTAINS(l.f.error.message, "it is longer than");
}

typedef struct Removal {
        OciLayout *layout;
        char *id;          /* of the image to remove; NULL: it was removed */
        unsigned n_absurd; /* progress reports beyond the total */
        uint64_t after;    /* bytes of layers that are read before */
} Removal;

static void remove_meanwhile(uint64_t done, uint64_t total, void *userdata)
{
        Removal *x = userdata;

        if (x->id && image_remove(x->layout->f.store, x->id, NULL, NULL) < 0)
                abort();
        x->id = NULL;
        x->n_absurd += done > total;
}

/* Whoever removes the only other image with a layer, while further layers are read, does not make the import fail. */
TEST(an_image_with_the_same_layers_that_is_removed_meanwhile)
{
        for (unsigned k = 0; k < 3; k++) { /* a known blob, another form of it, and both */
                _cleanup_(image_freep) Image *i = NULL, *second = NULL;
                _cleanup_text_ Text one = {}, two = {}, gzip = {};
                Removal removal = {};
                LAYOUT(l);

                aci_file(&one, "one", "content");
                aci_end(&one);
                aci_file(&two, "two", "content");
                aci_end(&two);
                ASSERT_OK(aci_compress(&two, ARCHIVE_FILTER_GZIP, &gzip));
                add_layer_as(&l, &one, &one, NULL);
                add_layer_as(&l, &two, &two, NULL);
                ASSERT_OCI_IMPORTS(l, i);

                begin_image(&l);
                if (k != 1)
                        add_layer_as(&l, &one, &one, NULL);
                if (k != 0)
                        add_layer_as(&l, &two, &gzip, NULL);
                aci_file(&l.f.tar, "three", "3");
                add_layer(&l);
                removal = (Removal){.layout = &l, .id = i->id};
                l.options = (OciImportOptions){
                                .n_parallel = 1, .progress = remove_meanwhile, .userdata = &removal};
                ASSERT_OCI_IMPORTS(l, second);
                ASSERT_NULL(removal.id);
                ASSERT_EQ(removal.n_absurd, 0);
                ASSERT_EQ(strv_length(second->layer_ids), k == 2 ? 3 : 2);
                ASSERT_EQ(count_entries(l.f.store, "layers"), k == 2 ? 3 : 2);
        }
}

/* --- Hard links to files of lower layers --------------------------------------------------------------- */

static struct stat status_of(OciLayout *l, const Image *i, size_t layer, const char *path)
{
        struct stat st = {};
        char name[PATH_MAX];

        snprintf(name, sizeof(name), "layers/%s/rootfs/%s", i->layer_ids[layer], path);
        (void) fstatat(l->f.store->fd, name, &st, AT_SYMLINK_NOFOLLOW);
        return st;
}

static char *content_of(OciLayout *l, const Image *i, size_t layer, const char *path)
{
        char name[PATH_MAX], *text = NULL;

        snprintf(name, sizeof(name), "layers/%s/rootfs/%s", i->layer_ids[layer], path);
        (void) read_file_at(l->f.store->fd, name, 4096, &text, NULL);
        return text;
}

static void add_base(OciLayout *l, const char *content)
{
        aci_entry(&l->f.tar, (AciEntry){.name = "d", .type = '5', .mode = 0750});
        ACI_PAX(&l->f.tar, "SCHILY.xattr.user.note=kept");
        aci_entry(&l->f.tar, (AciEntry){.name = "d/file",
                                        .type = '0',
                                        .mode = 04711,
                                        .uid = 12,
                                        .gid = 34,
                                        .mtime = 1000000,
                                        .content = content,
                                        .size = strlen(content)});
        aci_symlink(&l->f.tar, "d/link", "/etc/shadow");
        aci_symlink(&l->f.tar, "way", "d");
        aci_entry(&l->f.tar, (AciEntry){.name = "d/fifo", .type = '6', .mode = 0640});
        aci_dir(&l->f.tar, "d/dir");
        add_layer(l);
}

/* The next image of the layout: a layer over that base, DIFF as the bytes of BLOB. */
static void begin_image_over(OciLayout *l, const char *base, const Text *diff, const Text *blob)
{
        begin_image(l);
        add_base(l, base);
        add_layer_as(l, diff, blob, NULL);
}

TEST(hard_links_to_lower_layers)
{
        _cleanup_(image_freep) Image *i = NULL;
        _cleanup_free_ char *file = NULL, *own = NULL;
        LAYOUT(l);

        add_base(&l, "of the lowest");
        aci_file(&l.f.tar, "between", "");
        add_layer(&l);
        aci_hard_link(&l.f.tar, "new/name", "d/file");
        aci_hard_link(&l.f.tar, "third", "new/name");
        aci_hard_link(&l.f.tar, "s", "./d//link");
        aci_hard_link(&l.f.tar, "s2", "d/link");
        aci_hard_link(&l.f.tar, "pipe", "/d/fifo");
        aci_file(&l.f.tar, "own", "mine");
        add_layer(&l);
        ASSERT_OCI_IMPORTS(l, i);
        /* One on top for the attributes of "d", which has no entry in the third. */
        ASSERT_EQ(strv_length(i->layer_ids), 4);
        ASSERT_EQ(status_of(&l, i, 0, "d").st_mode & 07777, 0750);

        struct stat st = status_of(&l, i, 1, "new/name");
        ASSERT_EQ(st.st_mode, S_IFREG | 04711);
        ASSERT_EQ(st.st_nlink, 3);
        ASSERT_EQ(st.st_mtime, 1000000);
        if (geteuid() == 0)
                ASSERT_EQ(st.st_uid, 12);
        ASSERT_EQ(status_of(&l, i, 1, "d/file").st_ino, st.st_ino);
        ASSERT_EQ(status_of(&l, i, 1, "third").st_ino, st.st_ino);
        /* Nothing is shared with the layer below. */
        ASSERT_TRUE(status_of(&l, i, 3, "d/file").st_ino != st.st_ino);
        ASSERT_EQ(status_of(&l, i, 3, "d/file").st_nlink, 1);
        file = content_of(&l, i, 1, "third");
        ASSERT_STREQ(file, "of the lowest");
        own = content_of(&l, i, 1, "own");
        ASSERT_STREQ(own, "mine");
        ASSERT_TRUE(S_ISLNK(status_of(&l, i, 1, "s").st_mode));
        ASSERT_EQ(status_of(&l, i, 1, "s").st_ino, status_of(&l, i, 1, "d/link").st_ino);
        ASSERT_EQ(status_of(&l, i, 1, "s").st_ino, status_of(&l, i, 1, "s2").st_ino);
        ASSERT_EQ(status_of(&l, i, 1, "pipe").st_mode, S_IFIFO | 0640);

        char name[PATH_MAX], value[8];
        snprintf(name, sizeof(name), "%s/layers/%s/rootfs/third", l.f.store->path, i->layer_ids[1]);
        ASSERT_EQ(getxattr(name, "user.note", value, sizeof(value)), 4);

        /* The record has been made of what is there in the end. */
        _cleanup_record_check_ RecordCheck check = {.n_max = 8};
        ASSERT_WORKS(l.f, image_verify(l.f.store, i->id, false, &check, &l.f.error));
        ASSERT_EQ(check.n_found, 0);
        snprintf(name, sizeof(name), "layers/%s/below", i->layer_ids[1]);
        ASSERT_TRUE(faccessat(l.f.store->fd, name, F_OK, 0) < 0);
}

/* The layer with the link is never shared with other images that have the same digest. */
TEST(hard_links_to_different_lower_layers)
{
        _cleanup_(image_freep) Image *one = NULL, *two = NULL, *again = NULL;
        _cleanup_free_ char *first = NULL, *second = NULL;
        _cleanup_text_ Text shared = {};
        LAYOUT(l);

        aci_hard_link(&shared, "x", "d/file");
        aci_end(&shared);
        add_base(&l, "one");
        add_layer_as(&l, &shared, &shared, NULL);
        ASSERT_OCI_IMPORTS(l, one);
        begin_image_over(&l, "two", &shared, &shared);
        ASSERT_OCI_IMPORTS(l, two);
        first = content_of(&l, one, 1, "x");
        second = content_of(&l, two, 1, "x");
        ASSERT_STREQ(first, "one");
        ASSERT_STREQ(second, "two");

        /* What was made once is found again, without the blobs. */
        l.config_more = ",\"author\":\"again\"";
        begin_image_over(&l, "one", &shared, &shared);
        ASSERT_OK(remove_blob(&l, l.last_digest));
        ASSERT_OCI_IMPORTS(l, again);
        ASSERT_STREQ(again->layer_ids[1], one->layer_ids[1]);

        ASSERT_WORKS(l.f, image_remove(l.f.store, one->id, NULL, &l.f.error));
        ASSERT_WORKS(l.f, image_remove(l.f.store, two->id, NULL, &l.f.error));
        ASSERT_EQ(what_is(&l, again, 1, "x"), 'f');
        ASSERT_WORKS(l.f, image_remove(l.f.store, again->id, NULL, &l.f.error));
        ASSERT_EQ(count_entries(l.f.store, "layers"), 0);
}

static void add_message(LogLevel level, const char *line, void *userdata)
{
        text_addf(userdata, "%s\n", line);
}

/* Whether the N-th layer of I is marked as one that hides something. */
static bool has_whiteouts(OciLayout *l, const Image *i, size_t n)
{
        char name[PATH_MAX];

        snprintf(name, sizeof(name), "layers/%s/whiteouts", i->layer_ids[n]);
        return faccessat(l->f.store->fd, name, F_OK, AT_SYMLINK_NOFOLLOW) >= 0;
}

/* Device nodes are left out, and what the layers below have in their place is hidden. */
TEST(devices_over_files_of_lower_layers)
{
        _cleanup_(operation_freep) Operation *operation = NULL;
        _cleanup_(image_freep) Image *i = NULL;
        _cleanup_text_ Text said = {};
        LAYOUT(l);

        ASSERT_OK(operation_new(&(OperationOptions){.message = add_message, .userdata = &said}, &operation));
        l.f.store->operation = operation;
        aci_dir(&l.f.tar, "d");
        aci_file(&l.f.tar, "d/file", "lower");
        aci_file(&l.f.tar, "d/kept", "lower");
        aci_dir(&l.f.tar, "d/directory");
        aci_file(&l.f.tar, "null", "lower");
        aci_file(&l.f.tar, "removed", "lower");
        aci_entry(&l.f.tar, (AciEntry){.name = "lowest", .type = '3', .mode = 0644, .major = 1, .minor = 3});
        add_layer(&l);
        aci_file(&l.f.tar, ".wh.removed", "");
        add_layer(&l);
        aci_entry(&l.f.tar, (AciEntry){.name = "d", .type = '5', .mode = 0755, .mtime = 1000000});
        aci_entry(&l.f.tar, (AciEntry){.name = "d/file", .type = '3', .mode = 0644, .major = 1, .minor = 3});
        aci_entry(&l.f.tar, (AciEntry){.name = "d/directory", .type = '4', .mode = 0644, .major = 8});
        aci_entry(&l.f.tar, (AciEntry){.name = "null", .type = '3', .mode = 0644});
        aci_entry(&l.f.tar,
                  (AciEntry){.name = "removed", .type = '3', .mode = 0644, .major = 1, .minor = 3});
        aci_entry(&l.f.tar,
                  (AciEntry){.name = "nothing", .type = '3', .mode = 0644, .major = 1, .minor = 3});
        aci_entry(&l.f.tar, (AciEntry){.name = "d/kept", .type = '3', .mode = 0644, .major = 1, .minor = 3});
        aci_file(&l.f.tar, "d/kept", "later");
        add_layer(&l);
        ASSERT_OCI_IMPORTS(l, i);
        size_t top = strv_length(i->layer_ids) - 3;
        static const char *const hidden[] = {"d/file", "d/directory", "null"}, *const absent[] = {"removed",
                                                                                                  "nothing"};
        for (size_t k = 0; k < ELEMENTSOF(hidden); k++) {
                struct stat st = status_of(&l, i, top, hidden[k]);
                ASSERT_TRUE(unpack_is_whiteout(&st));
        }
        for (size_t k = 0; k < ELEMENTSOF(absent); k++)
                ASSERT_EQ(status_of(&l, i, top, absent[k]).st_mode, 0);
        ASSERT_TRUE(S_ISREG(status_of(&l, i, top, "d/kept").st_mode));
        ASSERT_EQ(status_of(&l, i, top, "d").st_mtime, 1000000);
        ASSERT_EQ(status_of(&l, i, top + 2, "lowest").st_mode, 0);
        ASSERT_TRUE(has_whiteouts(&l, i, top));
        ASSERT_FALSE(has_whiteouts(&l, i, top + 2));
        ASSERT_CONTAINS(said.data,
                        "Files of the lower layers of the image are hidden, 3, the first of which is "
                        "'/d/file', as layer 3 has device nodes in their place, which are left out\n");
        l.f.store->operation = NULL;
}

/* The directory is that of the layer alone, as if the device had been in the place of the one below before. */
TEST(directories_in_the_place_of_devices)
{
        _cleanup_(image_freep) Image *i = NULL;
        LAYOUT(l);

        aci_file(&l.f.tar, "d/lower", "lower");
        aci_file(&l.f.tar, "implied/lower", "lower");
        aci_file(&l.f.tar, "before/lower", "lower");
        aci_entry(&l.f.tar, (AciEntry){.name = "lowest", .type = '3', .mode = 0644, .major = 1, .minor = 3});
        aci_dir(&l.f.tar, "lowest");
        aci_entry(&l.f.tar, (AciEntry){.name = "deeper", .type = '3', .mode = 0644, .major = 1, .minor = 3});
        aci_file(&l.f.tar, "deeper/own", "lower");
        add_layer(&l);
        aci_entry(&l.f.tar, (AciEntry){.name = "d", .type = '3', .mode = 0644, .major = 1, .minor = 3});
        aci_dir(&l.f.tar, "d");
        aci_dir(&l.f.tar, "d");
        aci_entry(&l.f.tar, (AciEntry){.name = "implied", .type = '4', .mode = 0644, .major = 8});
        aci_file(&l.f.tar, "implied/own", "upper");
        aci_dir(&l.f.tar, "before");
        aci_entry(&l.f.tar, (AciEntry){.name = "before", .type = '3', .mode = 0644, .major = 1, .minor = 3});
        add_layer(&l);
        aci_entry(&l.f.tar,
                  (AciEntry){.name = "dev/null", .type = '3', .mode = 0644, .major = 1, .minor = 3});
        aci_file(&l.f.tar, "dev/null/own", "uppermost");
        add_layer(&l);
        ASSERT_OCI_IMPORTS(l, i);
        size_t top = strv_length(i->layer_ids) - 2;
        /* Every app has this one in a /dev of its own: it hides nothing, so that its layer is the same everywhere. */
        ASSERT_FALSE(has_whiteouts(&l, i, top - 1));
        static const char *const opaque[] = {"d", "implied"};
        for (size_t k = 0; k < ELEMENTSOF(opaque); k++) {
                _cleanup_free_ char *path = NULL;
                ASSERT_OK(xasprintf(&path, "layers/%s/rootfs/%s", i->layer_ids[top], opaque[k]));
                _cleanup_close_ int fd = openat(l.f.store->fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                ASSERT_OK(fd);
                ASSERT_TRUE(unpack_is_opaque(fd));
        }
        struct stat st = status_of(&l, i, top, "before");
        ASSERT_TRUE(unpack_is_whiteout(&st));
        ASSERT_TRUE(has_whiteouts(&l, i, top));
        ASSERT_FALSE(has_whiteouts(&l, i, top + 1)); /* nothing is below the lowest layer */
}

/* The last entry of a path counts, also of a path to others. */
TEST(devices_in_the_place_of_directories_with_devices)
{
        _cleanup_(image_freep) Image *i = NULL;
        LAYOUT(l);

        aci_file(&l.f.tar, "d/device", "lower");
        add_layer(&l);
        aci_entry(&l.f.tar,
                  (AciEntry){.name = "d/device", .type = '3', .mode = 0644, .major = 1, .minor = 3});
        aci_entry(&l.f.tar, (AciEntry){.name = "d", .type = '3', .mode = 0644, .major = 1, .minor = 3});
        add_layer(&l);
        ASSERT_OCI_IMPORTS(l, i);
        struct stat st = status_of(&l, i, strv_length(i->layer_ids) - 2, "d");
        ASSERT_TRUE(unpack_is_whiteout(&st));
}

/* Overlayfs makes all whiteouts of one inode: in an archive of its directory all but the first are hard links. */
TEST(hard_links_to_devices)
{
        static const char *const hidden[] = {"a", "b", "c", "d/e", "dev/null", "of-dev"};
        _cleanup_(image_freep) Image *i = NULL;
        LAYOUT(l);

        for (size_t k = 0; k < ELEMENTSOF(hidden); k++)
                aci_file(&l.f.tar, hidden[k], hidden[k]);
        aci_file(&l.f.tar, "d/kept", "kept");
        aci_entry(&l.f.tar, (AciEntry){.name = "z", .type = '3', .mode = 0644, .major = 1, .minor = 3});
        aci_hard_link(&l.f.tar, "z2", "z");
        add_layer(&l);
        aci_entry(&l.f.tar, (AciEntry){.name = "a", .type = '3', .mode = 0});
        aci_file(&l.f.tar, "b", "replaced by the link");
        aci_hard_link(&l.f.tar, "b", "a");
        aci_hard_link(&l.f.tar, "c", "/b");
        aci_hard_link(&l.f.tar, "d/e", "a");
        aci_hard_link(&l.f.tar, "nothing", "a");
        aci_entry(&l.f.tar,
                  (AciEntry){.name = "dev/null", .type = '3', .mode = 0644, .major = 1, .minor = 3});
        aci_hard_link(&l.f.tar, "of-dev", "dev/null");
        add_layer(&l);
        ASSERT_OCI_IMPORTS(l, i);
        size_t n = strv_length(i->layer_ids);
        for (size_t k = 0; k < ELEMENTSOF(hidden); k++) {
                struct stat st = status_of(&l, i, n - 2, hidden[k]);
                if (!streq(hidden[k], "dev/null") && !unpack_is_whiteout(&st))
                        TEST_FAIL("'%s' is not hidden", hidden[k]);
        }
        ASSERT_EQ(status_of(&l, i, n - 2, "nothing").st_mode, 0);
        ASSERT_EQ(status_of(&l, i, n - 1, "z").st_mode, 0);
        ASSERT_EQ(status_of(&l, i, n - 1, "z2").st_mode, 0);
        ASSERT_TRUE(S_ISREG(status_of(&l, i, n - 1, "d/kept").st_mode));
}

TEST(a_lowest_layer_with_devices_further_up)
{
        _cleanup_(image_freep) Image *one = NULL, *two = NULL, *again = NULL;
        _cleanup_text_ Text shared = {};
        LAYOUT(l);

        aci_entry(&shared, (AciEntry){.name = "d/file", .type = '3', .mode = 0644, .major = 1, .minor = 3});
        aci_entry(&shared, (AciEntry){.name = "e", .type = '3', .mode = 0644, .major = 1, .minor = 3});
        aci_dir(&shared, "e");
        aci_end(&shared);
        add_layer_as(&l, &shared, &shared, NULL);
        ASSERT_OCI_IMPORTS(l, one);
        ASSERT_EQ(what_is(&l, one, strv_length(one->layer_ids) - 1, "e"), 'd');
        begin_image_over(&l, "two", &shared, &shared);
        ASSERT_OCI_IMPORTS(l, two);
        struct stat st = status_of(&l, two, strv_length(two->layer_ids) - 2, "d/file");
        ASSERT_TRUE(unpack_is_whiteout(&st));
        ASSERT_EQ(what_is(&l, two, strv_length(two->layer_ids) - 2, "e"), 'o');
        ASSERT_EQ(status_of(&l, one, strv_length(one->layer_ids) - 1, "d/file").st_mode, 0);

        /* What was made once is found again, without the blobs. */
        l.config_more = ",\"author\":\"again\"";
        begin_image_over(&l, "two", &shared, &shared);
        ASSERT_OK(remove_blob(&l, l.last_digest));
        ASSERT_OCI_IMPORTS(l, again);
        ASSERT_STREQ(again->layer_ids[0], two->layer_ids[0]);
}

static void remove_after_layer(uint64_t done, uint64_t total, void *userdata)
{
        Removal *x = userdata;

        if (done > x->after)
                remove_meanwhile(done, total, userdata);
}

/* The layer that was found first is collected before the image is published: then that of the lowest one does not replace it. */
TEST(a_layer_with_devices_that_is_removed_meanwhile)
{
        _cleanup_(image_freep) Image *one = NULL, *two = NULL, *third = NULL;
        _cleanup_text_ Text shared = {}, gzip = {};
        LAYOUT(l);

        aci_entry(&shared, (AciEntry){.name = "d/file", .type = '3', .mode = 0644, .major = 1, .minor = 3});
        aci_end(&shared);
        ASSERT_OK(aci_compress(&shared, ARCHIVE_FILTER_GZIP, &gzip));
        add_layer_as(&l, &shared, &shared, NULL);
        ASSERT_OCI_IMPORTS(l, one);
        begin_image_over(&l, "two", &shared, &shared);
        ASSERT_OCI_IMPORTS(l, two);

        begin_image_over(&l, "two", &shared, &gzip);
        aci_file(&l.f.tar, "three", "3");
        add_layer(&l);
        Removal removal = {.layout = &l, .id = two->id, .after = gzip.size};
        l.options = (OciImportOptions){
                        .n_parallel = 1, .progress = remove_after_layer, .userdata = &removal};
        ASSERT_OCI_IMPORTS(l, third);
        ASSERT_NULL(removal.id);
        struct stat st = status_of(&l, third, strv_length(third->layer_ids) - 2, "d/file");
        ASSERT_TRUE(unpack_is_whiteout(&st));
}

/* What is hashed for the IDs of layers that were made here. */
static void add_text_of_links(const OciLayout *l, Text *t)
{
        _cleanup_free_ char *ids = strdup(l->diff_ids.data);

        text_add(t, "acnspawn links\n");
        for (char *p = strtok(ids, "\","); p; p = strtok(NULL, "\","))
                text_addf(t, "%s\n", p);
}

/* Gives a layer in the store and in the list of I another name. */
static int rename_layer(OciLayout *l, const Image *i, size_t n, const char *id)
{
        char from[256], to[256];
        _cleanup_text_ Text t = {};

        snprintf(from, sizeof(from), "layers/%s", i->layer_ids[n]);
        snprintf(to, sizeof(to), "layers/%s", id);
        if (renameat(l->f.store->fd, from, l->f.store->fd, to) < 0)
                return -errno;
        for (size_t k = 0; i->layer_ids[k]; k++)
                text_addf(&t, "%s\n", k == n ? id : i->layer_ids[k]);
        snprintf(to, sizeof(to), "images/%s/layers", i->id);
        return write_file_atomic_at(l->f.store->fd, to, t.data, t.size, 0644, false);
}

/* A layer that was made of several is not that of an image whose blob is the text that its ID is the hash of;
 * neither in a store of an earlier version, which had it in the name space of blobs. */
TEST(a_layer_made_of_several_is_no_blob)
{
        _cleanup_(image_freep) Image *i = NULL, *old = NULL, *other = NULL, *again = NULL;
        _cleanup_text_ Text links = {}, shared = {}, attributes = {};
        _cleanup_free_ char *blob = NULL, *secret = NULL, *first = NULL;
        char name[256], id[80];
        LAYOUT(l);

        add_base(&l, "secret");
        aci_hard_link(&shared, "new/x", "d/file");
        aci_end(&shared);
        add_layer_as(&l, &shared, &shared, NULL);
        blob = strdup(l.last_digest);
        add_text_of_links(&l, &links);
        ASSERT_OCI_IMPORTS(l, i);
        ASSERT_EQ(strv_length(i->layer_ids), 3);
        ASSERT_NOT_NULL(startswith(i->layer_ids[0], LAYER_ID_MADE));
        ASSERT_NOT_NULL(startswith(i->layer_ids[1], LAYER_ID_MADE));
        ASSERT_NOT_NULL(startswith(i->layer_ids[2], LAYER_ID_UNPACKED));
        text_addf(&attributes, "acnspawn attributes\n%s\n%s\n", i->layer_ids[2], i->layer_ids[1]);

        l.config_more = ",\"author\":\"somebody else\"";
        for (unsigned k = 0; k < 6; k++) {
                const Text *text = k % 3 == 1 ? &attributes : &links;

                if (k == 3) { /* as an earlier version left it */
                        snprintf(id, sizeof(id), "sha256-%s", digest_of(&links) + 7);
                        text_done(&attributes);
                        text_addf(&attributes, "acnspawn attributes\n%s\n%s\n", i->layer_ids[2], id);
                        ASSERT_OK(rename_layer(&l, i, 1, id));
                        ASSERT_WORKS(l.f, image_open(l.f.store, i->id, &old, &l.f.error));
                        snprintf(name, sizeof(name), "sha256-%s", digest_of(&attributes) + 7);
                        ASSERT_OK(rename_layer(&l, old, 0, name));
                        snprintf(name, sizeof(name), "layers/%s/hashed", id);
                        ASSERT_EQ(unlinkat(l.f.store->fd, name, 0), 0);
                        snprintf(name, sizeof(name), "layers/%s/blobs", id);
                        ASSERT_OK(write_file_new_at(l.f.store->fd, name, blob, strlen(blob), 0644));
                        old = image_free(old);
                }
                begin_image(&l);
                if (k % 3 < 2)
                        add_layer_as(&l, text, text, NULL);
                else { /* or the digest of its blob is named, which is not there */
                        add_layer_as(&l, text, &shared, NULL);
                        ASSERT_OK(remove_blob(&l, blob));
                }
                finish(&l);
                ASSERT_TRUE(import(&l, &other) < 0);
                ASSERT_CONTAINS(l.f.error.message, k % 3 == 2 ? "has no blob" : "Layer 1");
                if (k == 3 || k == 4)
                        ASSERT_CONTAINS(l.f.error.message, k == 3 ? "uncompressed, but the layer sha256-"
                                                                  : "it is longer than 0 bytes");
                ASSERT_EQ(count_entries(l.f.store, "images"), 1);
        }

        /* The image of that time goes on working, and is not taken for an altered one; its layer is made anew for
         * others. */
        ASSERT_WORKS(l.f, image_open(l.f.store, i->id, &old, &l.f.error));
        int n = verify(&l, old, &first);
        if (n != 0)
                TEST_FAIL("verifying it returned %d: %s", n, first ?: l.f.error.message ?: "");
        ASSERT_STREQ(old->layer_ids[1], id);
        secret = content_of(&l, old, 1, "new/x");
        ASSERT_STREQ(secret, "secret");
        l.config_more = ",\"author\":\"again\"";
        begin_image_over(&l, "secret", &shared, &shared);
        ASSERT_OCI_IMPORTS(l, again);
        ASSERT_STREQ(again->layer_ids[1], i->layer_ids[1]);
        ASSERT_WORKS(l.f, image_remove(l.f.store, old->id, NULL, &l.f.error));
        ASSERT_EQ(count_entries(l.f.store, "layers"), 3);
        ASSERT_WORKS(l.f, image_remove(l.f.store, again->id, NULL, &l.f.error));
        ASSERT_EQ(count_entries(l.f.store, "layers"), 0);
}

/* In the order of the archive, as if it were unpacked on top of the lower layers. */
TEST(hard_links_to_lower_layers_and_what_follows)
{
        _cleanup_(image_freep) Image *i = NULL;
        _cleanup_free_ char *old = NULL, *new = NULL, *replaced = NULL, *kept = NULL, *hidden = NULL;
        LAYOUT(l);

        aci_file(&l.f.tar, "a/file", "old a");
        aci_file(&l.f.tar, "b/file", "old b");
        aci_file(&l.f.tar, "c/file", "old c");
        aci_file(&l.f.tar, "e/file", "old e");
        add_layer(&l);
        aci_hard_link(&l.f.tar, "a-name", "a/file");
        aci_file(&l.f.tar, "a/file", "new a");
        aci_hard_link(&l.f.tar, "b-name", "b/file");
        aci_hard_link(&l.f.tar, "b-too", "b/file");
        aci_file(&l.f.tar, "b-name", "another");
        aci_hard_link(&l.f.tar, "c-name", "c/file");
        aci_file(&l.f.tar, "c/.wh.file", "");
        aci_hard_link(&l.f.tar, "e-name", "e/file");
        aci_file(&l.f.tar, "e/.wh..wh..opq", "");
        add_layer(&l);
        ASSERT_OCI_IMPORTS(l, i);
        size_t k = strv_length(i->layer_ids) - 2;
        old = content_of(&l, i, k, "a-name");
        ASSERT_STREQ(old, "old a");
        new = content_of(&l, i, k, "a/file");
        ASSERT_STREQ(new, "new a");
        replaced = content_of(&l, i, k, "b-name");
        ASSERT_STREQ(replaced, "another");
        kept = content_of(&l, i, k, "b-too");
        ASSERT_STREQ(kept, "old b");
        hidden = content_of(&l, i, k, "c-name");
        ASSERT_STREQ(hidden, "old c");
        ASSERT_EQ(what_is(&l, i, k, "c/file"), 'w');
        ASSERT_EQ(what_is(&l, i, k, "e-name"), 'f');
        ASSERT_EQ(what_is(&l, i, k, "e/file"), '-');
        ASSERT_EQ(what_is(&l, i, k, "e"), 'o');
}

TEST(hard_links_to_lower_layers_that_are_refused)
{
        static const struct {
                const char *middle, *before, *target, *why;
        } cases[] = {
                        {NULL, NULL, "way/file", "its path contains a symbolic link of layer 1"},
                        {NULL, NULL, "d/link/x", "its path contains a symbolic link of layer 1"},
                        {NULL, NULL, "d/dir", "its target is a directory of layer 1"},
                        {NULL, NULL, "d/file/x", "no earlier entry of the archive"},
                        {NULL, NULL, "d/missing", "to no file of the layers below"},
                        {NULL, NULL, "/etc/shadow", "to no file of the layers below"},
                        {NULL, NULL, "../../etc/shadow", "'..'"},
                        {NULL, NULL, "d/../../x", "'..'"},
                        {"d/.wh.file", NULL, "d/file", "to no file of the layers below"},
                        {"d/.wh..wh..opq", NULL, "d/file", "to no file of the layers below"},
                        {".wh.d", NULL, "d/file", "to no file of the layers below"},
                        {"d", NULL, "d/file", "no earlier entry of the archive"},
                        {NULL, "d/.wh.file", "d/file", "no earlier entry of the archive"},
                        {NULL, "d/.wh..wh..opq", "d/file", "no earlier entry of the archive"},
                        {NULL, ".wh..wh..opq", "d/file", "no earlier entry of the archive"},
                        {NULL, ".wh.d", "d/file", "no earlier entry of the archive"},
                        {NULL, "d", "d/file", "no earlier entry of the archive"},
        };

        for (size_t k = 0; k < ELEMENTSOF(cases); k++) {
                LAYOUT(l);
                add_base(&l, "content");
                aci_file(&l.f.tar, cases[k].middle ?: "between", "");
                add_layer(&l);
                aci_file(&l.f.tar, cases[k].before ?: "before", "");
                aci_hard_link(&l.f.tar, "x", cases[k].target);
                add_layer(&l);
                ASSERT_OCI_REFUSED(l, -EBADMSG, cases[k].why);
                ASSERT_CONTAINS(l.f.error.message, "Layer 3");
        }
        /* The lowest layer has none below it, and those above it do not matter. */
        LAYOUT(l);
        aci_hard_link(&l.f.tar, "x", "d/file");
        add_layer(&l);
        add_base(&l, "content");
        ASSERT_OCI_REFUSED(l, -EBADMSG, "to no file of the layers below");
}

/* As some tools write them: without padding after the last byte of the last file. */
TEST(a_layer_without_padding_and_end_mark)
{
        LAYOUT(l);
        _cleanup_(image_freep) Image *i = NULL;

        aci_file(&l.f.tar, "short", "content");
        l.f.tar.size = 512 + strlen("content");
        add_layer_as(&l, &l.f.tar, &l.f.tar, NULL);
        ASSERT_OCI_IMPORTS(l, i);
        ASSERT_EQ(what_is(&l, i, 0, "short"), 'f');
}

TEST(many_layers_and_the_same_one_again)
{
        LAYOUT(l);
        _cleanup_(image_freep) Image *i = NULL;
        _cleanup_strv_free_ char **layers = NULL;
        char name[32];

        for (unsigned k = 0; k < LAYERS_MAX_HERE; k++) {
                snprintf(name, sizeof(name), "f%u", k == 70 ? 0 : k); /* the first one again */
                aci_file(&l.f.tar, name, "");
                add_layer(&l);
        }
        ASSERT_OCI_IMPORTS(l, i);
        ASSERT_WORKS(l.f, image_layers(l.f.store, i, &layers, &l.f.error));
        ASSERT_EQ(strv_length(layers), LAYERS_MAX_HERE - 1);
        ASSERT_EQ(what_is(&l, i, 0, "f139"), 'f');
        ASSERT_EQ(what_is(&l, i, 69, "f0"), 'f');
}

TEST(attributes_of_directories_without_entries)
{
        LAYOUT(l);
        _cleanup_(image_freep) Image *i = NULL;
        char name[PATH_MAX];
        struct stat st;

        aci_entry(&l.f.tar, (AciEntry){.name = "tmp", .type = '5', .mode = 01777});
        aci_entry(&l.f.tar, (AciEntry){.name = "gone", .type = '5', .mode = 0700});
        add_layer(&l);
        aci_file(&l.f.tar, ".wh.gone", "");
        add_layer(&l);
        aci_file(&l.f.tar, "tmp/x", "");
        aci_file(&l.f.tar, "gone/x", "");
        add_layer(&l);
        ASSERT_OCI_IMPORTS(l, i);
        ASSERT_EQ(strv_length(i->layer_ids), 4);
        ASSERT_EQ(what_is(&l, i, 0, "tmp"), 'd');
        ASSERT_EQ(what_is(&l, i, 0, "tmp/x"), '-');
        ASSERT_EQ(what_is(&l, i, 0, "gone"), '-');
        snprintf(name, sizeof(name), "layers/%s/rootfs/tmp", i->layer_ids[0]);
        ASSERT_OK(fstatat(l.f.store->fd, name, &st, AT_SYMLINK_NOFOLLOW));
        ASSERT_EQ(st.st_mode & 07777, 01777);
}

/* Directories of the layer that is made count, too: 300 that the second layer implies. */
static void imply_many(void)
{
        char name[32];
        LAYOUT(l);

        for (unsigned i = 0; i < 300; i++) {
                snprintf(name, sizeof(name), "%u", i);
                aci_entry(&l.f.tar, (AciEntry){.name = name, .type = '5', .mode = 0750});
        }
        add_layer(&l);
        for (unsigned i = 0; i < 300; i++) {
                snprintf(name, sizeof(name), "%u/x", i);
                aci_file(&l.f.tar, name, "");
        }
        add_layer(&l);
        ASSERT_OCI_REFUSED(l, -ENOSPC, "No space left");
}

TEST(inodes_of_implied_directories)
{
        /* The reserve, the store, both layers, and half of the third. */
        on_small_disk("size=200m,nr_inodes=5206", imply_many);
}

TEST(images_that_hide_or_have_nothing)
{
        _cleanup_(image_freep) Image *i = NULL, *empty = NULL;
        LAYOUT(l);
        LAYOUT(nothing);

        aci_file(&l.f.tar, "below", "");
        add_layer(&l);
        aci_file(&l.f.tar, ".wh..wh..opq", "");
        aci_file(&l.f.tar, "above", "");
        add_layer(&l);
        ASSERT_OCI_IMPORTS(l, i);
        ASSERT_EQ(strv_length(i->layer_ids), 1);
        ASSERT_EQ(what_is(&l, i, 0, "above"), 'f');
        ASSERT_EQ(count_entries(l.f.store, "layers"), 1);

        ASSERT_OCI_IMPORTS(nothing, empty);
        ASSERT_EQ(strv_length(empty->layer_ids), 1);
        ASSERT_EQ(what_is(&nothing, empty, 0, "."), 'd');
}

TEST(rendered_trees_without_what_layers_remove)
{
        LAYOUT(l);
        _cleanup_(image_freep) Image *i = NULL, *aci = NULL, *above = NULL;
        _cleanup_strv_free_ char **layers = NULL, **none = NULL;
        _cleanup_free_ char *gone = NULL, *stays = NULL;

        aci_file(&l.f.tar, "d/gone", "");
        aci_file(&l.f.tar, "d/stays", "");
        aci_file(&l.f.tar, "o/old", "");
        add_layer(&l);
        aci_file(&l.f.tar, "d/.wh.gone", "");
        aci_file(&l.f.tar, "o/.wh..wh..opq", "");
        add_layer(&l);
        ASSERT_OCI_IMPORTS(l, i);
        ASSERT_WORKS(l.f,
                     aci_import_files(
                                     l.f.store,
                                     ACI_MANIFEST("example.com/top",
                                                  ",\"dependencies\":[{\"imageName\":\"app\"}],"
                                                  "\"pathWhitelist\":[\"/d/gone\",\"/d/stays\",\"/o/old\"]"),
                                     NULL, &aci, &l.f.error));
        ASSERT_WORKS(l.f, image_layers(l.f.store, aci, &layers, &l.f.error));
        ASSERT_EQ(strv_length(layers), 1);
        ASSERT_OK(xasprintf(&gone, "%s/d/gone", layers[0]));
        ASSERT_OK(xasprintf(&stays, "%s/d/stays", layers[0]));
        ASSERT_TRUE(access(gone, F_OK) < 0);
        ASSERT_OK(access(stays, F_OK));
        /* Removing applies only to its own layers, not to those of other images. */
        ASSERT_WORKS(l.f,
                     aci_import_files(l.f.store,
                                      ACI_MANIFEST("example.com/above",
                                                   ",\"dependencies\":[{\"imageName\":\"example.com/top\"},"
                                                   "{\"imageName\":\"app\"}]"),
                                      NULL, &above, &l.f.error));
        ASSERT_FAILS(l.f, image_layers(l.f.store, above, &none, &l.f.error), -EOPNOTSUPP,
                     "removes files of its lower layers");
        ASSERT_FAILS(l.f, image_remove(l.f.store, i->id, NULL, &l.f.error), -EBUSY, "is needed by");
}

/* A sparse map takes far more memory than it has bytes, and compresses very well. */
TEST(an_archive_with_an_endless_map_of_holes)
{
        _cleanup_(oci_source_freep) OciSource *s = NULL;
        _cleanup_free_ char *path = NULL;
        _cleanup_text_ Text map = {};
        LAYOUT(l);

        text_add(&map, "99999999\n");
        while (map.size < ENTRY_HEADERS_MAX + (1U << 20))
                text_add(&map, "0\n0\n0\n0\n0\n0\n0\n0\n0\n0\n0\n0\n0\n0\n0\n0\n0\n0\n0\n0\n0\n0\n0\n0\n");
        ACI_PAX(&l.f.tar, "GNU.sparse.major=1", "GNU.sparse.minor=0", "GNU.sparse.realsize=0");
        aci_entry(&l.f.tar, (AciEntry){.name = "x", .type = '0', .content = map.data, .size = map.size});
        aci_end(&l.f.tar);
        ASSERT_OK(xasprintf(&path, "%s/app.tar", l.f.scratch.path));
        ASSERT_OK(write_file_new_at(AT_FDCWD, path, l.f.tar.data, l.f.tar.size, 0644));
        ASSERT_FAILS(l.f, oci_archive_open(l.f.store, path, NULL, &s, &l.f.error), -E2BIG,
                     "A member of the archive has more than 16777216 bytes of headers");
}

static void count_finding(const char *document, const char *path, const char *message, bool warning,
                          void *userdata)
{
        *(unsigned *) userdata += strstr(message, "its content does not match") != NULL;
}

/* A short list of images may refer to many layers: repeated layers are read once. */
TEST(layers_of_several_images_are_checked_once)
{
        _cleanup_free_ char *path = NULL, *config = NULL;
        unsigned n = 0;
        LAYOUT(l);

        ASSERT_OK(xasprintf(&config,
                            "{\"os\":\"linux\",\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"sha256:%"
                            "064d\"]}}",
                            0));
        aci_file(&l.f.tar, "manifest.json",
                 "[{\"Config\":\"c.json\",\"Layers\":[\"l.tar\"]},{\"Config\":\"c.json\",\"Layers\":[\"l."
                 "tar\"]}]");
        aci_file(&l.f.tar, "c.json", config);
        aci_file(&l.f.tar, "l.tar", "not what the config says");
        aci_end(&l.f.tar);
        ASSERT_OK(xasprintf(&path, "%s/images.tar", l.f.scratch.path));
        ASSERT_OK(write_file_new_at(AT_FDCWD, path, l.f.tar.data, l.f.tar.size, 0644));
        ASSERT_EQ(oci_check(path, OCI_CHECK_DOCKER_ARCHIVE, NULL, count_finding, &n, &l.f.error), 1);
        ASSERT_EQ(n, 1);
}

/* Replaces a file of the image. */
static int replace(const Image *i, const char *name, const char *content, size_t n)
{
        return write_file_atomic_at(i->dir_fd, name, content, n, 0644, false);
}

/* The list of layers, in which those of LINES (uppermost first) are, as numbers; 'x' is an unknown one. */
static int relist(const Image *i, const char *lines)
{
        _cleanup_text_ Text t = {};

        for (; *lines; lines++)
                if (*lines == 'x')
                        text_addf(&t, "sha256-%064d\n", 1);
                else
                        text_addf(&t, "%s\n", i->layer_ids[*lines - '0']);
        return replace(i, "layers", t.data ?: "", t.size);
}

TEST(altered_lists_of_layers)
{
        static const struct {
                const char *lines, *first;
        } cases[] = {
                        {"0123", NULL},
                        {"123", "layers content"}, /* without the one of implied directories */
                        {"012", "layers missing"}, /* without the lowest */
                        {"013", "layers content"},
                        {"023", "layers content"},
                        {"0132", "layers content"},
                        {"00123", "layers added"},
                        {"0123x", "layers content"},
                        {"x0123", "layers added"},
                        {"x123", "layers content"},
                        {"0x23", "layers content"},
                        {"", "layers missing"},
                        {"0", "layers missing"},
                        {"0123", NULL},
        };
        _cleanup_(image_freep) Image *i = NULL;
        LAYOUT(l);

        add_base(&l, "lowest");
        aci_file(&l.f.tar, "second", "2");
        add_layer(&l);
        aci_file(&l.f.tar, "d/third", "3");
        add_layer(&l);
        ASSERT_OCI_IMPORTS(l, i);
        ASSERT_EQ(strv_length(i->layer_ids), 4);
        for (size_t k = 0; k < ELEMENTSOF(cases); k++) {
                _cleanup_free_ char *first = NULL;

                ASSERT_OK(relist(i, cases[k].lines));
                int n = verify(&l, i, &first);
                ASSERT_WORKS(l.f, n);
                if (!streq_ptr(first, cases[k].first))
                        TEST_FAIL("'%s': %s", cases[k].lines, first ?: "nothing");
                ASSERT_EQ(n, cases[k].first ? 1 : 0);
                if (cases[k].first) {
                        ASSERT_FAILS(l.f, oci_image_check_unaltered(l.f.store, i->id, &l.f.error), -EBADMSG,
                                     "was altered in the store: 'layers'");
                        ASSERT_CONTAINS(l.f.error.hint, "image verify");
                }
        }
}

TEST(altered_config)
{
        _cleanup_free_ char *config = NULL, *first = NULL, *second = NULL;
        _cleanup_(image_freep) Image *i = NULL;
        size_t size;
        LAYOUT(l);

        add_base(&l, "only");
        ASSERT_OCI_IMPORTS(l, i);
        ASSERT_OK(read_file_at(i->dir_fd, "config", 4096, &config, &size));
        config[2] ^= 1;
        ASSERT_OK(replace(i, "config", config, size));
        ASSERT_EQ(verify(&l, i, &first), 1);
        ASSERT_STREQ(first, "config content");
        ASSERT_OK(unlinkat(i->dir_fd, "config", 0));
        ASSERT_EQ(verify(&l, i, &second), 1);
        ASSERT_STREQ(second, "config missing");
}

static int disapprove(const char *id, const ImageManifest *m, ImageInfo *info, void *userdata, Error *e)
{
        return error_set(e, -EACCES, "No");
}

TEST(import_that_is_not_approved)
{
        LAYOUT(l);

        aci_file(&l.f.tar, "x", "y");
        add_layer(&l);
        l.options.approve = disapprove;
        ASSERT_OCI_REFUSED(l, -EACCES, "Cannot import oci:");
}

int main(void)
{
        RUN(whiteouts_and_opaque_directories);
        RUN(whiteouts_that_are_refused);
        RUN(later_entries_replace_earlier_ones);
        RUN(hostile_layers);
        RUN(digests_and_sizes);
        RUN(layers_are_shared_and_read_once);
        RUN(a_layer_of_others_that_is_only_claimed);
        RUN(blobs_of_a_known_config_that_nobody_has);
        RUN(a_layer_in_another_form);
        RUN(an_image_with_the_same_layers_that_is_removed_meanwhile);
        RUN(hard_links_to_lower_layers);
        RUN(hard_links_to_different_lower_layers);
        RUN(a_layer_made_of_several_is_no_blob);
        RUN(devices_over_files_of_lower_layers);
        RUN(directories_in_the_place_of_devices);
        RUN(devices_in_the_place_of_directories_with_devices);
        RUN(hard_links_to_devices);
        RUN(a_lowest_layer_with_devices_further_up);
        RUN(a_layer_with_devices_that_is_removed_meanwhile);
        RUN(hard_links_to_lower_layers_and_what_follows);
        RUN(hard_links_to_lower_layers_that_are_refused);
        RUN(a_layer_without_padding_and_end_mark);
        RUN(many_layers_and_the_same_one_again);
        RUN(attributes_of_directories_without_entries);
        RUN(inodes_of_implied_directories);
        RUN(images_that_hide_or_have_nothing);
        RUN(rendered_trees_without_what_layers_remove);
        RUN(an_archive_with_an_endless_map_of_holes);
        RUN(layers_of_several_images_are_checked_once);
        RUN(altered_lists_of_layers);
        RUN(altered_config);
        RUN(import_that_is_not_approved);
        return TEST_END();
}
