/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Each allocation in acnspawn's code fails once, in parsing, importing and rendering (E3): the call then
 * fails with -ENOMEM and leaves nothing behind, or succeeds without the allocation. Leaks and invalid
 * accesses are detected by the sanitized build.
 *
 * The program is linked with --wrap for the allocating functions, so allocations in libraries are not
 * affected. */

#include "tests/unit/store-fixture.h"

#define STEPS_MAX 20000U

/* --- The failing allocator ----------------------------------------------------------------------------- */

static unsigned fault_at, fault_count; /* 0: none */

static bool fails(void)
{
        unsigned at = __atomic_load_n(&fault_at, __ATOMIC_RELAXED);

        if (at == 0 || __atomic_add_fetch(&fault_count, 1, __ATOMIC_RELAXED) != at)
                return false;
        errno = ENOMEM;
        return true;
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
char *__real_strdup(const char *s);
char *__real_strndup(const char *s, size_t n);
int __real_vasprintf(char **ret, const char *format, va_list ap);
int __real___vasprintf_chk(char **ret, int flag, const char *format, va_list ap);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
char *__wrap_strdup(const char *s);
char *__wrap_strndup(const char *s, size_t n);
int __wrap_vasprintf(char **ret, const char *format, va_list ap);
int __wrap___vasprintf_chk(char **ret, int flag, const char *format, va_list ap);

void *__wrap_malloc(size_t n)
{
        return fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
        return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
        return fails() ? NULL : __real_realloc(p, n);
}

char *__wrap_strdup(const char *s)
{
        return fails() ? NULL : __real_strdup(s);
}

char *__wrap_strndup(const char *s, size_t n)
{
        return fails() ? NULL : __real_strndup(s, n);
}

int __wrap_vasprintf(char **ret, const char *format, va_list ap)
{
        return fails() ? -1 : __real_vasprintf(ret, format, ap);
}

int __wrap___vasprintf_chk(char **ret, int flag, const char *format, va_list ap)
{
        return fails() ? -1 : __real___vasprintf_chk(ret, flag, format, ap);
}

/* --- One operation, with each allocation failing ------------------------------------------------------- */

typedef int (*Work)(void *userdata, Error *e);

static void try_all(Work work, void *userdata, unsigned min)
{
        for (unsigned n = 1;; n++) {
                _cleanup_error_ Error e = ERROR_NULL;

                fault_count = 0;
                fault_at = n;
                int r = work(userdata, &e);
                fault_at = 0;
                if (fault_count < n) {
                        ASSERT_OK(r);
                        ASSERT_GT(n, min);
                        return;
                }
                if (r < 0 && r != -ENOMEM)
                        TEST_FAIL("allocation %u of %u failed, which came to %d: %s", n, fault_count, r,
                                  e.message ?: "");
                if (r < 0 && !e.message)
                        TEST_FAIL("allocation %u failed without a message", n);
                ASSERT_LT(n, STEPS_MAX);
        }
}

/* --- Parsing ------------------------------------------------------------------------------------------- */

static const char image_text[] = ACI_MANIFEST(
                "example.com/app",
                ACI_VERSION("1.0") ",\"app\":{\"exec\":[\"/bin/"
                                   "x\",\"y\"],\"user\":\"0\",\"group\":\"0\",\"supplementaryGIDs\":[1],"
                                   "\"workingDirectory\":\"/"
                                   "\",\"environment\":[{\"name\":\"A\",\"value\":\"b\"}],"
                                   "\"eventHandlers\":[{\"name\":\"pre-start\",\"exec\":[\"/p\"]}],"
                                   "\"isolators\":[{\"name\":\"resource/"
                                   "memory\",\"value\":{\"limit\":\"1G\"}},"
                                   "{\"name\":\"os/linux/"
                                   "capabilities-retain-set\",\"value\":{\"set\":[\"CAP_KILL\"]}},"
                                   "{\"name\":\"os/linux/"
                                   "seccomp-retain-set\",\"value\":{\"set\":[\"read\"],\"errno\":\"EPERM\"}}"
                                   ","
                                   "{\"name\":\"example.com/other\",\"value\":{}}],"
                                   "\"mountPoints\":[{\"name\":\"work\",\"path\":\"/"
                                   "srv\",\"readOnly\":true}],"
                                   "\"ports\":[{\"name\":\"web\",\"protocol\":\"tcp\",\"port\":80,\"count\":"
                                   "2,\"socketActivated\":true}],"
                                   "\"userLabels\":{\"a\":\"b\"},\"userAnnotations\":{\"a\":\"b\"}},"
                                   "\"dependencies\":[{\"imageName\":\"example.com/"
                                   "base\",\"labels\":[{\"name\":\"os\",\"value\":\"linux\"},"
                                   "{\"name\":\"arch\",\"value\":\"amd64\"}],\"size\":7}],"
                                   "\"pathWhitelist\":[\"/"
                                   "x\"],\"annotations\":[{\"name\":\"homepage\",\"value\":\"http://"
                                   "example.com\"}]");

static int parse_image(void *userdata, Error *e)
{
        _cleanup_(image_manifest_freep) ImageManifest *m = NULL;
        _cleanup_findings_ Findings findings = {};
        _cleanup_free_ char *text = NULL;
        const char *s = userdata;

        int r = image_manifest_parse(s, strlen(s), &m, &findings, e);
        if (r >= 0 && image_manifest_format(m, &text) < 0)
                r = error_oom(e);
        return r;
}

TEST(e3_image_manifest)
{
        try_all(parse_image, (void *) image_text, 50);
}

/* Findings need memory as well; an invalid document is rejected anyway. */
static int parse_faulty(void *userdata, Error *e)
{
        _cleanup_(image_manifest_freep) ImageManifest *m = NULL;
        _cleanup_findings_ Findings findings = {};
        const char *s = userdata;

        int r = image_manifest_parse(s, strlen(s), &m, &findings, e);
        return r == -EINVAL ? 0 : r >= 0 ? -EPROTO : r;
}

TEST(e3_findings)
{
        static const char text[] = ACI_MANIFEST("A b", ",\"labels\":[{\"name\":7},{}],\"app\":{\"exec\":[7],"
                                                       "\"user\":\"\"}");

        try_all(parse_faulty, (void *) text, 10);
}

static const char pod_text[] =
                "{\"acKind\":\"PodManifest\",\"acVersion\":\"0.8.11\",\"apps\":[{\"name\":\"a\",\"image\":{"
                "\"id\":\"sha512-"
                "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789a"
                "bcdef"
                "0123456789abcdef0123456789abcdef\",\"name\":\"example.com/"
                "app\",\"labels\":[{\"name\":\"version\","
                "\"value\":\"1\"}]},\"app\":{\"exec\":[\"/"
                "x\"],\"user\":\"0\",\"group\":\"0\",\"mountPoints\":"
                "[{\"name\":\"work\",\"path\":\"/srv\"}]},\"mounts\":[{\"volume\":\"work\",\"path\":\"/"
                "srv\"}],"
                "\"annotations\":[{\"name\":\"a\",\"value\":\"b\"}]}],"
                "\"volumes\":[{\"name\":\"work\",\"kind\":\"empty\",\"mode\":\"0700\",\"uid\":1,\"gid\":2},"
                "{\"name\":\"more\",\"kind\":\"host\",\"source\":\"/srv\",\"readOnly\":true}],"
                "\"isolators\":[{\"name\":\"resource/cpu\",\"value\":{\"limit\":\"500m\"}}],"
                "\"ports\":[{\"name\":\"web\",\"hostPort\":80}]}";

static int parse_pod(void *userdata, Error *e)
{
        _cleanup_(pod_manifest_freep) PodManifest *m = NULL;
        _cleanup_findings_ Findings findings = {};
        _cleanup_free_ char *text = NULL;
        const char *s = userdata;

        int r = pod_manifest_parse(s, strlen(s), &m, &findings, e);
        if (r >= 0 && pod_manifest_format(m, &text) < 0)
                r = error_oom(e);
        return r;
}

TEST(e3_pod_manifest)
{
        try_all(parse_pod, (void *) pod_text, 40);
}

/* --- Import and rendering ------------------------------------------------------------------------------ */

typedef struct Import {
        Fixture *fixture;
        int fd;
        const Image *image;
} Import;

/* Each import is into an empty store, which is empty again after a failure. */
static int import(void *userdata, Error *e)
{
        Import *i = userdata;
        _cleanup_(image_freep) Image *image = NULL;

        if (lseek(i->fd, 0, SEEK_SET) < 0)
                return -errno;
        int r = image_import(i->fixture->store, i->fd, "test.aci", &image, e);
        unsigned at = __atomic_exchange_n(&fault_at, 0, __ATOMIC_RELAXED);
        if (count_entries(i->fixture->store, "tmp") > 0)
                return error_set(e, -ENOTEMPTY, "There is rubbish");
        if (r >= 0)
                r = image_remove(i->fixture->store, image->id, NULL, e);
        else if (count_entries(i->fixture->store, "images") > 0) /* published, but then not read */
                (void) image_remove(i->fixture->store, "example.com/app", NULL, NULL);
        fault_at = at;
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
        try_all(import, &i, 40);
}

static int render(void *userdata, Error *e)
{
        _cleanup_strv_free_ char **layers = NULL, **names = NULL;
        Import *i = userdata;

        int r = image_layers(i->fixture->store, i->image, &layers, e);
        unsigned at = __atomic_exchange_n(&fault_at, 0, __ATOMIC_RELAXED);
        _cleanup_close_ int fd =
                        openat(i->fixture->store->fd, "rendered", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (count_entries(i->fixture->store, "tmp") > 0)
                return error_set(e, -ENOTEMPTY, "There is rubbish");
        if (fd < 0 || list_names(fd, &names) < 0)
                return -EIO;
        STRV_FOREACH (name, names)
                (void) rm_rf_at(fd, *name);
        fault_at = at;
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
        try_all(render, &i, 20);
}

int main(void)
{
        if (access("/dev/shm", W_OK) >= 0)
                (void) setenv("TMPDIR", "/dev/shm", false);
        RUN(e3_image_manifest);
        RUN(e3_findings);
        RUN(e3_pod_manifest);
        RUN(e3_import);
        RUN(e3_render);
        return TEST_END();
}
