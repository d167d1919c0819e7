/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* fetch: what references mean, and what is kept of places. */

#include "prepare/fetch/fetch-internal.h"
#include "tests/unit/aci.h"
#include "tests/unit/scratch.h"
#include "tests/unit/test.h"

/* --- References ---------------------------------------------------------------------------------------- */

TEST(references)
{
        static const struct {
                const char *text;
                ReferenceKind kind;
                const char *body, *tag;
        } cases[] = {
                        {"-", REFERENCE_STANDARD_INPUT, "-", NULL},
                        {"/a/b", REFERENCE_FILE, "/a/b", NULL},
                        {"./a", REFERENCE_FILE, "./a", NULL},
                        {"../a", REFERENCE_FILE, "../a", NULL},
                        {".", REFERENCE_FILE, ".", NULL},
                        {"a.aci", REFERENCE_FILE, "a.aci", NULL},
                        {"/https://x", REFERENCE_FILE, "/https://x", NULL},
                        {"example.com/app", REFERENCE_IMAGE, "example.com/app", NULL},
                        {"example.com/app:1.0,a=b", REFERENCE_IMAGE, "example.com/app:1.0,a=b", NULL},
                        {"sha512-abcd", REFERENCE_IMAGE, "sha512-abcd", NULL},
                        {"app", REFERENCE_IMAGE, "app", NULL},
                        {"https://example.com/x.aci", REFERENCE_URL, "https://example.com/x.aci", NULL},
                        {"HTTPS://example.com/x", REFERENCE_URL, "HTTPS://example.com/x", NULL},
                        {"http://example.com/x", REFERENCE_URL, "http://example.com/x", NULL},
                        {"docker://example.com:5000/a:1@sha256:00", REFERENCE_DOCKER,
                         "example.com:5000/a:1@sha256:00", NULL},
                        {"oci:dir", REFERENCE_OCI, "dir", NULL},
                        {"oci:/dir:example.com/app:1.0", REFERENCE_OCI, "/dir", "example.com/app:1.0"},
                        {"oci-archive:a.tar:1", REFERENCE_OCI_ARCHIVE, "a.tar", "1"},
                        {"docker-archive:a.tar:@0", REFERENCE_DOCKER_ARCHIVE, "a.tar", "@0"},
                        {"ocidir", REFERENCE_IMAGE, "ocidir", NULL},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_error_ Error e = ERROR_NULL;
                _cleanup_reference_ Reference r = {};
                if (reference_parse(cases[i].text, &r, &e) < 0)
                        TEST_FAIL("%s: %s", cases[i].text, e.message);
                ASSERT_EQ(r.kind, cases[i].kind);
                ASSERT_STREQ(r.body, cases[i].body);
                ASSERT_TRUE(streq_ptr(r.tag, cases[i].tag));
        }
}

TEST(references_refused)
{
        static const struct {
                const char *text, *why;
        } cases[] = {
                        {"", "is empty"},
                        {"oci:", "not complete"},
                        {"oci:dir:", "not complete"},
                        {"oci::tag", "not complete"},
                        {"docker://", "not complete"},
                        {"ftp://example.com/x.aci", "cannot be fetched from"},
                        {"file:///x.aci", "cannot be fetched from"},
                        {"containers-storage:localhost/a:1", "the storage of podman, buildah and CRI-O"},
                        {"docker-daemon:a:1", "the storage of the Docker daemon"},
                        {"containerd:a", "the storage of containerd"},
                        {"dir:/x", "a directory written by skopeo"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_error_ Error e = ERROR_NULL;
                _cleanup_reference_ Reference r = {};
                ASSERT_TRUE(reference_parse(cases[i].text, &r, &e) < 0);
                ASSERT_CONTAINS(e.message, cases[i].why);
        }
}

TEST(ways_from_other_stores)
{
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_reference_ Reference r = {};

        ASSERT_ERR(reference_parse("containers-storage:localhost/a:1", &r, &e), -EPROTONOSUPPORT);
        ASSERT_CONTAINS(e.hint, "skopeo copy 'containers-storage:localhost/a:1' oci:DIRECTORY:TAG");
        ASSERT_CONTAINS(e.hint, "acnspawn fetch oci:DIRECTORY:TAG");
}

TEST(names_of_apps)
{
        static const char *const cases[][2] = {
                        {"docker://example.com:5000/team/web:1.0", "web"},
                        {"docker://nginx", "nginx"},
                        {"docker://nginx@sha256:00", "nginx"},
                        {"oci:/dir:example.com/app:1.0", "app"},
                        {"docker-archive:a.tar:example.com/b:2", "b"},
                        {"oci:/dir:1.0", NULL},
                        {"docker-archive:a.tar:@0", NULL},
                        {"example.com/app", NULL},
                        {"./app.aci", NULL},
                        {"ftp://x", NULL},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_free_ char *name = NULL;
                int r = reference_app_name(cases[i][0], &name);
                ASSERT_EQ(r, cases[i][1] ? 0 : -EINVAL);
                ASSERT_TRUE(streq_ptr(name, cases[i][1]));
        }
}

TEST(signatures_beside_images)
{
        static const char *const cases[][2] = {
                        {"https://x/a.aci", "https://x/a.aci.asc"},
                        {"https://x/a.aci?b=c", "https://x/a.aci.asc?b=c"},
                        {"https://x/a?b=c.aci#d", "https://x/a.asc?b=c.aci#d"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_free_ char *s = NULL;
                ASSERT_OK(signature_url_of(cases[i][0], &s));
                ASSERT_STREQ(s, cases[i][1]);
        }
}

TEST(policies)
{
        ASSERT_EQ(pull_policy_from_string("new"), PULL_NEW);
        ASSERT_EQ(pull_policy_from_string("update"), PULL_UPDATE);
        ASSERT_EQ(pull_policy_from_string("never"), PULL_NEVER);
        ASSERT_ERR(pull_policy_from_string("always"), -EINVAL);
}

/* --- Places -------------------------------------------------------------------------------------------- */

#define AN_ID                                                                                               \
        "sha512-0123456789012345678901234567890123456789012345678901234567890123"                           \
        "0123456789012345678901234567890123456789012345678901234567890123"
#define PLACE "https://example.com/x.aci"

static int open_store(const Scratch *scratch, Store **ret)
{
        char path[PATH_MAX + 8];

        snprintf(path, sizeof(path), "%s/store", scratch->path);
        return store_open_with_flags(path, STORE_UNPRIVILEGED, NULL, ret, NULL);
}

TEST(places)
{
        _cleanup_(scratch_done) Scratch scratch = SCRATCH_NULL;
        _cleanup_(store_unrefp) Store *s = NULL;
        _cleanup_remote_ Remote m = {}, none = {};
        const Remote written = {.image = (char *) AN_ID, .etag = (char *) "\"x\"", .expires_usec = 7};

        ASSERT_OK(scratch_new(&scratch));
        ASSERT_OK(open_store(&scratch, &s));
        ASSERT_ERR(remote_read(s, PLACE, &none), -ENOENT);
        ASSERT_OK(remote_write(s, PLACE, &written));
        ASSERT_OK(remote_read(s, PLACE, &m));
        ASSERT_STREQ(m.image, AN_ID);
        ASSERT_STREQ(m.etag, "\"x\"");
        ASSERT_NULL(m.signer);
        ASSERT_EQ(m.expires_usec, 7);
        ASSERT_ERR(remote_read(s, PLACE "x", &none), -ENOENT);
}

static void damage(Store *s, const char *text)
{
        _cleanup_close_ int fd = openat(store_fd(s), "remotes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_strv_free_ char **names = NULL;

        if (list_names(fd, &names) >= 0 && names && names[0])
                (void) write_file_atomic_at(fd, names[0], text, strlen(text), 0600, false);
}

TEST(places_damaged)
{
        static const char *const texts[] = {
                        "",
                        "{",
                        "[]",
                        "{}",
                        "null",
                        "{\"url\":\"" PLACE "\"}",
                        "{\"url\":1,\"image\":2}",
                        "{\"url\":\"" PLACE "\",\"image\":\"../../x\"}",
                        "{\"url\":\"https://example.com/other\",\"image\":\"" AN_ID "\"}",
                        "{\"url\":\"" PLACE "\",\"image\":\"" AN_ID "\",\"etag\":{}}",
        };
        _cleanup_(scratch_done) Scratch scratch = SCRATCH_NULL;
        _cleanup_(store_unrefp) Store *s = NULL;
        const Remote written = {.image = (char *) AN_ID};

        ASSERT_OK(scratch_new(&scratch));
        ASSERT_OK(open_store(&scratch, &s));
        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                _cleanup_remote_ Remote m = {};
                ASSERT_OK(remote_write(s, PLACE, &written));
                damage(s, texts[i]);
                ASSERT_ERR(remote_read(s, PLACE, &m), -ENOENT);
        }
}

TEST(places_collected)
{
        _cleanup_(scratch_done) Scratch scratch = SCRATCH_NULL;
        _cleanup_(store_unrefp) Store *s = NULL;
        _cleanup_strv_free_ char **removed = NULL;
        const Remote written = {.image = (char *) AN_ID};

        ASSERT_OK(scratch_new(&scratch));
        ASSERT_OK(open_store(&scratch, &s));
        ASSERT_OK(remotes_collect(s, false, &removed, NULL));
        ASSERT_OK(remote_write(s, PLACE, &written));
        /* Its image does not exist, but it is recent: the process that writes it may be about to publish the
         * image. */
        ASSERT_OK(remotes_collect(s, false, &removed, NULL));
        ASSERT_NULL(removed);
}

/* A process was killed between writing a file and its rename. */
TEST(places_half_written)
{
        _cleanup_(scratch_done) Scratch scratch = SCRATCH_NULL;
        _cleanup_(store_unrefp) Store *s = NULL;
        const Remote written = {.image = (char *) AN_ID};
        static const char other[] = "{\"url\":\"docker://example.com/app:1\",\"image\":\"" AN_ID
                                    "\",\"etag\":\"earlier\"}";
        FetchedReference *l = NULL;
        char name[128];
        size_t n = 0;

        ASSERT_OK(scratch_new(&scratch));
        ASSERT_OK(open_store(&scratch, &s));
        ASSERT_EQ(mkdirat(store_fd(s), "images/" AN_ID, 0700), 0);
        ASSERT_OK(remote_write(s, "docker://example.com/app:1", &written));
        _cleanup_close_ int fd = openat(store_fd(s), "remotes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_strv_free_ char **names = NULL;
        ASSERT_OK(list_names(fd, &names));
        snprintf(name, sizeof(name), "%s.7-1.tmp", names[0]);
        ASSERT_OK(write_file_new_at(fd, name, other, strlen(other), 0600));
        ASSERT_OK(fetched_references(s, &l, &n, NULL));
        ASSERT_EQ(n, 1U);
        ASSERT_NULL(l[0].digest);
        fetched_references_free(l, n);
}

/* --- Identity ------------------------------------------------------------------------------------------ */

TEST(identity)
{
        _cleanup_(image_manifest_freep) ImageManifest *m = NULL;
        _cleanup_(image_name_done) ImageName right = {}, wrong = {};
        _cleanup_error_ Error e = ERROR_NULL;
        static const char text[] = ACI_MANIFEST("example.com/app", ACI_VERSION("1.0"));

        ASSERT_OK(image_manifest_parse(text, strlen(text), &m, NULL, NULL));
        ASSERT_OK(image_name_parse("example.com/app", &right, NULL));
        ASSERT_OK(image_name_parse("example.com/app:2.0", &wrong, NULL));
        ASSERT_OK(check_identity(AN_ID, m, NULL, NULL, &e));
        ASSERT_OK(check_identity(AN_ID, m, &right, AN_ID, &e));
        ASSERT_ERR(check_identity(AN_ID, m, &wrong, NULL, &e), -EBADMSG);
        ASSERT_CONTAINS(e.message, "it is example.com/app:1.0, but example.com/app:2.0 was requested");
        ASSERT_ERR(check_identity(AN_ID, m, &right, "sha512-0", &e), -EBADMSG);
}

int main(void)
{
        RUN(references);
        RUN(references_refused);
        RUN(ways_from_other_stores);
        RUN(names_of_apps);
        RUN(signatures_beside_images);
        RUN(policies);
        RUN(places);
        RUN(places_damaged);
        RUN(places_collected);
        RUN(places_half_written);
        RUN(identity);
        return TEST_END();
}
