/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Failures at any step of importing an OCI image, and of recording the result of a fetch (E1, E2): see
 * test-faults.c. The layers are read by one thread here, so that the n-th step is the same one each time.
 * Layers that were complete before the failure stay for the next try, or go with the next collection. */

#include <sys/stat.h>

#include "prepare/fetch/fetch-internal.h"
#include "prepare/oci/oci-internal.h"
#include "tests/unit/store-faults.h"

/* --- An image layout ----------------------------------------------------------------------------------- */

typedef struct Blob {
        char *digest;
        size_t size;
} Blob;

static Blob add_blob(int dir_fd, const void *p, size_t n)
{
        Blob b = {.size = n};
        char name[128];

        if (digest_bytes("sha256:", p, n, &b.digest) < 0)
                abort();
        snprintf(name, sizeof(name), "blobs/sha256/%s", b.digest + strlen("sha256:"));
        if (write_file_new_at(dir_fd, name, p, n, 0644) < 0)
                abort();
        return b;
}

static Blob add_layer(int dir_fd, bool upper)
{
        _cleanup_text_ Text t = {};

        aci_file(&t, "dir/of-both", upper ? "upper" : "lower");
        if (upper) {
                aci_file(&t, ".wh.gone", "");
                aci_file(&t, "implied/x", "x");
        } else {
                aci_file(&t, "gone", "");
                aci_entry(&t, (AciEntry){.name = "implied", .type = '5', .mode = 01777});
        }
        aci_end(&t);
        return add_blob(dir_fd, t.data, t.size);
}

static void add_documents(int dir_fd, const Blob *layers)
{
        static const char layout[] = "{\"imageLayoutVersion\":\"1.0.0\"}";
        _cleanup_text_ Text config = {}, manifest = {}, index = {};
        Blob b;

        text_addf(&config,
                  "{\"os\":\"linux\",\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"%s\",\"%s\"]}}",
                  layers[0].digest, layers[1].digest);
        b = add_blob(dir_fd, config.data, config.size);
        text_addf(&manifest,
                  "{\"schemaVersion\":2,\"config\":{\"mediaType\":\"application/"
                  "vnd.oci.image.config.v1+json\","
                  "\"digest\":\"%s\",\"size\":%zu},\"layers\":[",
                  b.digest, b.size);
        free(b.digest);
        for (size_t i = 0; i < 2; i++)
                text_addf(&manifest,
                          "%s{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar\",\"digest\":\"%s\","
                          "\"size\":%zu}",
                          i > 0 ? "," : "", layers[i].digest, layers[i].size);
        text_add(&manifest, "]}");
        b = add_blob(dir_fd, manifest.data, manifest.size);
        text_addf(&index,
                  "{\"schemaVersion\":2,\"manifests\":[{\"mediaType\":"
                  "\"application/vnd.oci.image.manifest.v1+json\",\"digest\":\"%s\",\"size\":%zu}]}",
                  b.digest, b.size);
        free(b.digest);
        if (write_file_new_at(dir_fd, "oci-layout", layout, strlen(layout), 0644) < 0 ||
            write_file_new_at(dir_fd, "index.json", index.data, index.size, 0644) < 0)
                abort();
}

static void make_layout(const char *path)
{
        if (mkdir(path, 0755) < 0)
                abort();
        _cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (mkdirat(fd, "blobs", 0755) < 0 || mkdirat(fd, "blobs/sha256", 0755) < 0)
                abort();
        Blob layers[] = {add_layer(fd, false), add_layer(fd, true)};
        add_documents(fd, layers);
        free(layers[0].digest);
        free(layers[1].digest);
}

/* --- Importing it -------------------------------------------------------------------------------------- */

static char layout_path[PATH_MAX + 8];

static int import_layout(void *userdata, Error *e)
{
        static const OciImportOptions options = {.n_parallel = 1};
        _cleanup_(oci_source_freep) OciSource *source = NULL;
        _cleanup_(image_freep) Image *i = NULL;
        Operation *o = userdata;

        int r = oci_layout_open(layout_path, NULL, &source, e);
        return r < 0 ? r : oci_import(o->fixture->store, source, &options, &i, e);
}

static int remove_image(Operation *o)
{
        return image_remove(o->fixture->store, "app", NULL, &o->fixture->error);
}

static void import_under(FaultKind kind)
{
        FIXTURE(f);
        Operation o = {.fixture = &f,
                       .run = import_layout,
                       .undo = remove_image,
                       .prefix = "Cannot ",
                       .leaves = true};

        snprintf(layout_path, sizeof(layout_path), "%s/app", f.scratch.path);
        make_layout(layout_path);
        ASSERT_WORKS(f, import_layout(&o, &f.error));
        ASSERT_WORKS(f, remove_image(&o));
        ASSERT_WORKS(f, collect(f.store, &f.error));
        ASSERT_EQ(count_entries(f.store, "layers"), 0);
        try_all(&o, kind, 20);
}

TEST(e1_oci_killed)
{
        import_under(FAULT_KILL);
}
TEST(e2_oci_enospc)
{
        import_under(FAULT_ENOSPC);
}
TEST(e2_oci_eio)
{
        import_under(FAULT_EIO);
}
TEST(e2_oci_emfile)
{
        import_under(FAULT_EMFILE);
}

/* --- What a place came to ------------------------------------------------------------------------------ */

#define PLACE "https://example.com/app.aci"

typedef struct Noting {
        Store *store;
        Remote remote;
} Noting;

static int note(void *userdata, Error *e)
{
        const Noting *n = userdata;

        (void) e;
        return remote_write(n->store, PLACE, &n->remote);
}

/* Without and with a previous record: at all times the old or the new one exists completely. */
static void note_under(FaultKind kind, bool replaces)
{
        _cleanup_free_ char *first = NULL, *second = NULL;
        bool more = true;
        FIXTURE(f);

        ASSERT_OK(xasprintf(&first, "sha512-%0128d", 1));
        ASSERT_OK(xasprintf(&second, "sha512-%0128d", 2));
        const Noting old = {.store = f.store, .remote = {.image = first, .etag = (char *) "\"old\""}};
        Noting new = {.store = f.store, .remote = {.image = second, .etag = (char *) "\"new\""}};
        for (unsigned n = 1; more && n < STEPS_MAX; n++) {
                Fault fault = {.kind = kind, .step = n};
                _cleanup_remote_ Remote there = {};

                if (replaces)
                        ASSERT_OK(remote_write(f.store, PLACE, &old.remote));
                else
                        (void) rm_rf_at(store_fd(f.store), "remotes");
                int r = fault_run(&fault, note, &new);
                if (r == -ENOSYS)
                        TEST_SKIP("system calls cannot be made to fail here");
                ASSERT_OK(r);
                more = fault.reached;
                r = remote_read(f.store, PLACE, &there);
                if (!more)
                        ASSERT_OK(fault.result);
                if (r == -ENOENT)
                        ASSERT_TRUE(!replaces && more);
                else
                        ASSERT_STREQ(there.image, r >= 0 && streq(there.etag, "\"new\"") ? second : first);
                if (kind != FAULT_KILL && r >= 0)
                        ASSERT_EQ(count_entries(f.store, "remotes"), 1);
                if (!more)
                        ASSERT_GT(n, 1);
        }
}

TEST(e2_places)
{
        static const FaultKind kinds[] = {FAULT_KILL, FAULT_ENOSPC, FAULT_EIO, FAULT_EMFILE};

        for (size_t i = 0; i < ELEMENTSOF(kinds); i++) {
                note_under(kinds[i], false);
                note_under(kinds[i], true);
        }
}

int main(void)
{
        /* On a tmpfs: there are hundreds of imports here, each of which would wait for the disk. */
        if (access("/dev/shm", W_OK) >= 0)
                (void) setenv("TMPDIR", "/dev/shm", false);
        RUN(e1_oci_killed);
        RUN(e2_oci_enospc);
        RUN(e2_oci_eio);
        RUN(e2_oci_emfile);
        RUN(e2_places);
        return TEST_END();
}
