/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Failures at any step of preparing a pod, of making, importing and removing a volume, of removing an image, and of
 * trusting a key (E1, E2): see test-faults.c. */

#include "stage0/control/control.h"
#include "prepare/trust/trust.h"
#include "tests/unit/gpg-fixture.h"
#include "tests/unit/store-faults.h"

/* --- Pods ---------------------------------------------------------------------------------------------- */

static bool is_prepared(Store *s)
{
        _cleanup_(pod_freep) Pod *p = NULL;

        return pod_open_by_name(s, "pod", &p, NULL) >= 0 && p->state == POD_PREPARED;
}

/* A second try finds the pod, if it was published. The name of one that was not stays until it is collected. */
static int prepare(void *userdata, Error *e)
{
        AppOverrides apps[] = {{.reference = (char *) "example.com/app", .name = (char *) "web"}};
        Volume volumes[] = {{.name = (char *) "work", .kind = VOLUME_EMPTY, .mode = 0700}};
        Mount mounts[] = {{.volume = (char *) "work", .path = (char *) "/work"}};
        const PodRequest q = {.apps = apps,
                              .n_apps = 1,
                              .volumes = volumes,
                              .n_volumes = 1,
                              .mounts = mounts,
                              .n_mounts = 1};
        const PrepareOptions options = {.name = "pod", .net = NET_HOST};
        _cleanup_strv_free_ char **warnings = NULL;
        _cleanup_(pod_freep) Pod *p = NULL;
        Operation *o = userdata;

        if (!fault_is_going) {
                int r = collect(o->fixture->store, e);
                if (r < 0 || is_prepared(o->fixture->store))
                        return r;
        }
        return prepare_pod(o->fixture->store, &q, &options, &p, &warnings, e);
}

static int remove_pod(Operation *o)
{
        _cleanup_(pod_freep) Pod *p = NULL;

        int r = pod_open_by_name(o->fixture->store, "pod", &p, &o->fixture->error);
        if (r >= 0)
                r = pod_lock(p, false, &o->fixture->error);
        return r < 0 ? r : pod_remove(p, &o->fixture->error);
}

static void prepare_under(FaultKind kind)
{
        static const char *const files[] = {"rootfs/bin/web", "", "rootfs/work/x", "x", NULL};
        _cleanup_(image_freep) Image *app = NULL;
        FIXTURE(f);
        Operation o = {.fixture = &f,
                       .run = prepare,
                       .undo = remove_pod,
                       .prefix = "Cannot ",
                       .leaves = true};

        if (geteuid() != 0)
                TEST_SKIP("only root can prepare the root of a pod");
        ASSERT_WORKS(f,
                     aci_import_files(
                                     f.store,
                                     ACI_MANIFEST("example.com/app",
                                                  ",\"app\":{\"exec\":[\"/bin/web\"],\"user\":\"0\",\"group\":\"0\"}"),
                                     files, &app, &f.error));
        ASSERT_WORKS(f, prepare(&o, &f.error));
        ASSERT_WORKS(f, remove_pod(&o));
        ASSERT_WORKS(f, collect(f.store, &f.error));
        try_all(&o, kind, 20);
}

TEST(e1_prepare_killed)
{
        prepare_under(FAULT_KILL);
}
TEST(e2_prepare_enospc)
{
        prepare_under(FAULT_ENOSPC);
}
TEST(e2_prepare_eio)
{
        prepare_under(FAULT_EIO);
}
TEST(e2_prepare_emfile)
{
        prepare_under(FAULT_EMFILE);
}

/* --- Volumes ------------------------------------------------------------------------------------------- */

static int make_volume(void *userdata, Error *e)
{
        Pair labels[] = {{(char *) "a", (char *) "b"}};
        const NamedVolume v = {.name = (char *) "data", .mode = 0750, .labels = {.items = labels, .n = 1}};
        Operation *o = userdata;

        return named_volume_create(o->fixture->store, &v, e);
}

static int remove_volume(Operation *o)
{
        return named_volume_remove(o->fixture->store, "data", &o->fixture->error);
}

/* A volume that is gone is removed. */
static int remove_volume_once(void *userdata, Error *e)
{
        Operation *o = userdata;
        int r = named_volume_remove(o->fixture->store, "data", e);

        return r == -ENOENT && !fault_is_going ? 0 : r;
}

static int make_volume_again(Operation *o)
{
        return make_volume(o, &o->fixture->error);
}

static void volume_under(FaultKind kind)
{
        FIXTURE(f);
        Operation o = {.fixture = &f,
                       .run = make_volume,
                       .undo = remove_volume,
                       .prefix = "Cannot ",
                       .leaves = true};

        ASSERT_WORKS(f, make_volume(&o, &f.error));
        ASSERT_WORKS(f, remove_volume(&o));
        ASSERT_WORKS(f, collect(f.store, &f.error));
        try_all(&o, kind, 3);
        o = (Operation){.fixture = &f,
                        .run = remove_volume_once,
                        .undo = make_volume_again,
                        .prefix = "Cannot ",
                        .leaves = true};
        ASSERT_WORKS(f, make_volume(&o, &f.error));
        try_all(&o, kind, 0);
}

TEST(e1_volume_killed)
{
        volume_under(FAULT_KILL);
}
TEST(e2_volume_enospc)
{
        volume_under(FAULT_ENOSPC);
}
TEST(e2_volume_eio)
{
        volume_under(FAULT_EIO);
}
TEST(e2_volume_emfile)
{
        volume_under(FAULT_EMFILE);
}

static int import_volume(void *userdata, Error *e)
{
        Operation *o = userdata;
        const NamedVolume v = {.name = (char *) "data", .mode = 0750};
        const VolumeImport i = {.volume = &v, .has_mode = true, .fd = o->fd};

        if (lseek(o->fd, 0, SEEK_SET) < 0)
                return -errno;
        int r = named_volume_import(o->fixture->store, &i, e);
        return r == -EEXIST && !fault_is_going ? 0 : r; /* of the first try */
}

static void import_volume_under(FaultKind kind)
{
        FIXTURE(f);
        Operation o = {.fixture = &f,
                       .run = import_volume,
                       .undo = remove_volume,
                       .prefix = "Cannot ",
                       .leaves = true};

        aci_file(&f.tar, "x", "content");
        aci_file(&f.tar, "dir/y", "y");
        aci_symlink(&f.tar, "l", "x");
        aci_end(&f.tar);
        _cleanup_close_ int fd = aci_fd(f.tar.data, f.tar.size);
        o.fd = fd;
        ASSERT_WORKS(f, import_volume(&o, &f.error));
        ASSERT_WORKS(f, remove_volume(&o));
        ASSERT_WORKS(f, collect(f.store, &f.error));
        try_all(&o, kind, 8);
}

TEST(e1_volume_import_killed)
{
        import_volume_under(FAULT_KILL);
}
TEST(e2_volume_import_enospc)
{
        import_volume_under(FAULT_ENOSPC);
}
TEST(e2_volume_import_eio)
{
        import_volume_under(FAULT_EIO);
}
TEST(e2_volume_import_emfile)
{
        import_volume_under(FAULT_EMFILE);
}

/* --- Removing an image --------------------------------------------------------------------------------- */

static const char *const image_files[] = {"rootfs/a", "a", "rootfs/dir/b", "b", NULL};

static int import_image(Operation *o)
{
        _cleanup_(image_freep) Image *i = NULL;

        return aci_import_files(o->fixture->store, ACI_MANIFEST("example.com/app", ""), image_files, &i,
                                &o->fixture->error);
}

static int remove_image_once(void *userdata, Error *e)
{
        Operation *o = userdata;
        int r = image_remove(o->fixture->store, "example.com/app", NULL, e);

        return r == -ENOENT && !fault_is_going ? 0 : r;
}

static void remove_image_under(FaultKind kind)
{
        FIXTURE(f);
        Operation o = {.fixture = &f,
                       .run = remove_image_once,
                       .undo = import_image,
                       .prefix = "Cannot ",
                       .leaves = true};

        ASSERT_WORKS(f, import_image(&o));
        ASSERT_WORKS(f, remove_image_once(&o, &f.error));
        ASSERT_WORKS(f, collect(f.store, &f.error));
        ASSERT_WORKS(f, import_image(&o));
        try_all(&o, kind, 0);
}

TEST(e1_remove_image_killed)
{
        remove_image_under(FAULT_KILL);
}
TEST(e2_remove_image_enospc)
{
        remove_image_under(FAULT_ENOSPC);
}
TEST(e2_remove_image_eio)
{
        remove_image_under(FAULT_EIO);
}

/* --- Trust --------------------------------------------------------------------------------------------- */

/* The configuration is in the directory of the store, which is what is compared. */
static struct {
        char etc[PATH_MAX + 16], *key;
        const char *fingerprint;
        size_t size;
} trusted;

static int open_trust(Trust **ret, Error *e)
{
        const char *const dirs[] = {trusted.etc, NULL};

        return trust_open(dirs, NULL, ret, e);
}

static int trust_key(void *userdata, Error *e)
{
        _cleanup_(trust_freep) Trust *t = NULL;

        int r = open_trust(&t, e);
        return r < 0 ? r : trust_add(t, "example.com/app", trusted.key, trusted.size, "the key", e);
}

static int distrust_key(Operation *o)
{
        _cleanup_(trust_freep) Trust *t = NULL;
        _cleanup_strv_free_ char **removed = NULL;

        int r = open_trust(&t, &o->fixture->error);
        return r < 0 ? r
                     : trust_remove(t, "example.com/app", trusted.fingerprint, &removed, &o->fixture->error);
}

static void trust_under(FaultKind kind)
{
        _cleanup_(gpg_fixture_done) GpgFixture g = {.scratch = SCRATCH_NULL};
        FIXTURE(f);
        Operation o = {.fixture = &f, .run = trust_key, .undo = distrust_key, .prefix = "Cannot "};

        ASSERT_OK(gpg_fixture_new(&g));
        const char *fingerprint = gpg_make_key(&g, "key", NULL, "0");
        if (!fingerprint)
                TEST_SKIP("gpg makes no keys here");
        snprintf(trusted.etc, sizeof(trusted.etc), "%s/etc", store_path(f.store));
        trusted.fingerprint = fingerprint;
        trusted.key = gpg_fixture_read(&g, "key.key", &trusted.size);
        ASSERT_NOT_NULL(trusted.key);
        ASSERT_WORKS(f, trust_key(&o, &f.error));
        ASSERT_WORKS(f, distrust_key(&o));
        try_all(&o, kind, 3);
        free(trusted.key);
}

TEST(e1_trust_killed)
{
        trust_under(FAULT_KILL);
}
TEST(e2_trust_enospc)
{
        trust_under(FAULT_ENOSPC);
}
TEST(e2_trust_eio)
{
        trust_under(FAULT_EIO);
}

int main(void)
{
        if (access("/dev/shm", W_OK) >= 0)
                (void) setenv("TMPDIR", "/dev/shm", false);
        RUN(e1_prepare_killed);
        RUN(e2_prepare_enospc);
        RUN(e2_prepare_eio);
        RUN(e2_prepare_emfile);
        RUN(e1_volume_killed);
        RUN(e2_volume_enospc);
        RUN(e2_volume_eio);
        RUN(e2_volume_emfile);
        RUN(e1_volume_import_killed);
        RUN(e2_volume_import_enospc);
        RUN(e2_volume_import_eio);
        RUN(e2_volume_import_emfile);
        RUN(e1_remove_image_killed);
        RUN(e2_remove_image_enospc);
        RUN(e2_remove_image_eio);
        RUN(e1_trust_killed);
        RUN(e2_trust_enospc);
        RUN(e2_trust_eio);
        return TEST_END();
}
