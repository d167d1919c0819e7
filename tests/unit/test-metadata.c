/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The parts of the metadata service that need no process: paths, forms, signatures, the configuration's
 * format, and the responses that are rendered from a configuration. */

#include <sys/mman.h>

#include "library/libcrypto.h"
#include "metadata/protocol.h"
#include "metadata/tables.h"
#include "tests/unit/test.h"

#define UUID "5a7a7a3c-40d1-4cb0-9d5b-5f2d0d6a2c11"
#define TOKEN "0123456789abcdefghijkl"
#define IMAGE_ID                                                                                            \
        "sha512-"                                                                                           \
        "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce47d0d13c5d85f2b0ff8318d2877eec2f6" \
        "3b931bd47417a81a538327af927da3e"
#define BASE "/" TOKEN "/acMetadata/v1/"

static const uint8_t key[METADATA_KEY_SIZE] = "a key of a pod, which would be random";

static const char pod_manifest[] =
                "{\"acVersion\":\"0.8.11\",\"acKind\":\"PodManifest\",\"apps\":[{\"name\":\"web\",\"image\":"
                "{\"id\":\"" IMAGE_ID "\"},\"annotations\":[{\"name\":\"color\",\"value\":\"green\"}]},{"
                "\"name\":\"web-log\",\"image\":{\"id\":\"" IMAGE_ID "\"}}]}";
static const char image_manifest[] = "{ \"acKind\":\"ImageManifest\", "
                                     "\"acVersion\":\"0.8.11\",\"name\":\"example.com/web\",\"annotations\":"
                                     "[{\"name\":\"color\",\"value\":\"red\"}]}";

static const MetadataApp apps[] = {
                {"web-log", IMAGE_ID, image_manifest, sizeof(image_manifest) - 1},
                {"web", IMAGE_ID, image_manifest, sizeof(image_manifest) - 1},
};
static const MetadataConfig config = {
                .uuid = UUID,
                .token = TOKEN,
                .key = key,
                .pod_manifest = pod_manifest,
                .pod_manifest_size = sizeof(pod_manifest) - 1,
                .apps = apps,
                .n_apps = ELEMENTSOF(apps),
                .verify_timeout_msec = 7,
};

static int route(const char *path, MetadataRoute *ret)
{
        return metadata_route(TOKEN, strlen(TOKEN), path, ret);
}

TEST(routes)
{
        static const struct {
                const char *path;
                MetadataResource resource;
                const char *app;
        } cases[] = {
                        {BASE "pod/annotations", METADATA_POD_ANNOTATIONS, NULL},
                        {BASE "pod/annotations/", METADATA_POD_ANNOTATIONS, NULL},
                        {BASE "pod/manifest", METADATA_POD_MANIFEST, NULL},
                        {BASE "pod/uuid", METADATA_POD_UUID, NULL},
                        {BASE "pod/hmac/sign", METADATA_HMAC_SIGN, NULL},
                        {BASE "pod/hmac/verify/", METADATA_HMAC_VERIFY, NULL},
                        {BASE "apps/web/annotations", METADATA_APP_ANNOTATIONS, "web"},
                        {BASE "apps/pod/image/manifest", METADATA_APP_IMAGE_MANIFEST, "pod"},
                        {BASE "apps/apps/image/id/", METADATA_APP_IMAGE_ID, "apps"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                MetadataRoute r = {};
                ASSERT_OK(route(cases[i].path, &r));
                ASSERT_EQ(r.resource, cases[i].resource);
                ASSERT_EQ(r.app != NULL, cases[i].app != NULL);
                if (cases[i].app) {
                        ASSERT_EQ(r.app_size, strlen(cases[i].app));
                        ASSERT_MEMEQ(r.app, cases[i].app, r.app_size);
                }
        }
}

TEST(routes_unknown)
{
        static const char *const cases[] = {
                        "",
                        "/",
                        "*",
                        TOKEN,
                        "/" TOKEN,
                        "/" TOKEN "/",
                        "/" TOKEN "/acMetadata",
                        BASE,
                        BASE "pod",
                        BASE "pod/",
                        BASE "pod/uuid//",
                        BASE "pod/uuidx",
                        BASE "pod/uuid/x",
                        BASE "pod//uuid",
                        BASE "pod/annotation",
                        BASE "apps",
                        BASE "apps/",
                        BASE "apps//annotations",
                        BASE "apps/web",
                        BASE "apps/web/",
                        BASE "annotations",
                        BASE "apps/web/uuid",
                        BASE "apps/web/pod/uuid",
                        BASE "apps/web/image",
                        BASE "image/id",
                        BASE "apps/../annotations/x",
                        "//acMetadata/v1/pod/uuid",
                        "/" TOKEN "//acMetadata/v1/pod/uuid",
                        "/" TOKEN "x/acMetadata/v1/pod/uuid",
                        "/0123456789abcdefghijk/acMetadata/v1/pod/uuid",
                        "/0123456789abcdefghijkm/acMetadata/v1/pod/uuid",
                        "/0123456789ABCDEFGHIJKL/acMetadata/v1/pod/uuid",
                        "/" TOKEN "/acMetadata/v2/pod/uuid",
                        "/" TOKEN "/acmetadata/v1/pod/uuid",
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                MetadataRoute r = {.app_size = 42};
                if (route(cases[i], &r) != -ENOENT)
                        TEST_FAIL("%s is taken for a route", cases[i]);
                ASSERT_EQ(r.app_size, 42);
        }
}

/* Parses TEXT and formats the fields as "content|uuid|signature", with "-" for missing ones. */
static int form(const char *text, size_t size, char *ret, size_t ret_size)
{
        _cleanup_free_ char *copy =
                        malloc(size + 1); /* of the exact size, so that a sanitizer sees overruns */
        MetadataForm f;

        if (!copy)
                return -ENOMEM;
        memcpy(copy, text, size);
        int r = metadata_form_parse(size > 0 ? copy : NULL, size, &f);
        if (r < 0)
                return r;
        ret[0] = 0;
        for (size_t i = 0; i < _METADATA_FIELD_MAX; i++) {
                size_t n = strlen(ret);
                (void) snprintf(ret + n, ret_size - n, "%s%.*s", i > 0 ? "|" : "",
                                f.fields[i].value ? (int) f.fields[i].size : 1, f.fields[i].value ?: "-");
        }
        return 0;
}

TEST(forms)
{
        static const struct {
                const char *text, *expected;
        } cases[] = {
                        {"", "-|-|-"},
                        {"content=a", "a|-|-"},
                        {"content=", "|-|-"},
                        {"content", "|-|-"},
                        {"content=a+b%20c%2bd%2Be", "a b c+d+e|-|-"},
                        {"content=a=b==", "a=b==|-|-"},
                        {"signature=s&uuid=u&content=c", "c|u|s"},
                        {"&&content=c&&", "c|-|-"},
                        {"%63ontent=c", "c|-|-"},
                        {"Content=x&contents=y&conten=z&=w&other", "-|-|-"},
                        {"a=1&b=2&a=3&content=c", "c|-|-"},
                        {"content=%26uuid%3d1&uuid=2", "&uuid=1|2|-"},
                        {"content=Old+MacDonald+Had+A+Farm", "Old MacDonald Had A Farm|-|-"},
        };
        char shown[256];

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                ASSERT_OK(form(cases[i].text, strlen(cases[i].text), shown, sizeof(shown)));
                ASSERT_STREQ(shown, cases[i].expected);
        }
}

TEST(forms_refused)
{
        static const char *const cases[] = {
                        "content=%",
                        "content=%4",
                        "content=%4&uuid=u",
                        "content=%zz",
                        "content=%-1",
                        "content=% 1",
                        "%=a",
                        "content=a&content=a",
                        "content=a&%63ontent=b",
                        "1&2&3&4&5&6&7&8&9&10&11&12&13&14&15&16&17",
        };
        char shown[256] = "untouched";

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                if (form(cases[i], strlen(cases[i]), shown, sizeof(shown)) != -EINVAL)
                        TEST_FAIL("%s is taken for a form", cases[i]);
                ASSERT_STREQ(shown, "untouched");
        }
}

TEST(form_bytes)
{
        char text[] = "content=%00%ff\x00x", decoded[] = "\x00\xff\x00x";
        MetadataForm f;

        ASSERT_OK(metadata_form_parse(text, sizeof(text) - 1, &f));
        ASSERT_EQ(f.fields[METADATA_FIELD_CONTENT].size, 4);
        ASSERT_MEMEQ(f.fields[METADATA_FIELD_CONTENT].value, decoded, 4);
}

TEST(form_types)
{
        ASSERT_TRUE(metadata_form_type("application/x-www-form-urlencoded"));
        ASSERT_TRUE(metadata_form_type("Application/X-WWW-Form-URLEncoded ; charset=utf-8"));
        ASSERT_TRUE(metadata_form_type("application/x-www-form-urlencoded; charset=utf-8"));
        ASSERT_FALSE(metadata_form_type(NULL));
        ASSERT_FALSE(metadata_form_type(""));
        ASSERT_FALSE(metadata_form_type("text/plain"));
        ASSERT_FALSE(metadata_form_type("multipart/form-data; boundary=x"));
        ASSERT_FALSE(metadata_form_type("application/x-www-form-urlencoded2"));
        ASSERT_FALSE(metadata_form_type("application/x-www-form-urlencoded x"));
}

/* RFC 4231, cases 1 and 2: keys shorter than ours, which zeros at the end do not change. */
TEST(signatures)
{
        static const struct {
                const char *key, *content, *expected;
        } cases[] = {
                        {"\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b",
                         "Hi There",
                         "h6p83qXvYZ1P8LQkGh1ssCN59OLOTsJ4etCzBUXhfN7aqDO31rinAgOLJ06uo/"
                         "Tkvp2RTuth8XAuaWwgOhJoVA=="},
                        {"Jefe", "what do ya want for nothing?",
                         "Fkt6e/z4GeLjlfvnO1bgo4e9ZCIugx/"
                         "WECcM1+olBVSXWL91wFqZSm0DT2X48Ob9yuqxo01Ka0tjbgcKOLznNw=="},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                char signature[METADATA_SIGNATURE_SIZE];
                uint8_t k[METADATA_KEY_SIZE] = {};
                memcpy(k, cases[i].key, strlen(cases[i].key));
                ASSERT_OK(metadata_hmac_sign(k, cases[i].content, strlen(cases[i].content), signature));
                ASSERT_EQ(strlen(signature), METADATA_SIGNATURE_SIZE - 1);
                ASSERT_STREQ(signature, cases[i].expected);
        }
}

TEST(signatures_verified)
{
        char signature[METADATA_SIGNATURE_SIZE], other[METADATA_SIGNATURE_SIZE + 1];
        uint8_t k[METADATA_KEY_SIZE];
        size_t n = METADATA_SIGNATURE_SIZE - 1;

        ASSERT_OK(metadata_key_generate(k));
        ASSERT_OK(metadata_hmac_sign(k, "content", 7, signature));
        ASSERT_EQ(metadata_hmac_verify(k, "content", 7, signature, n), 1);
        ASSERT_EQ(metadata_hmac_verify(k, "content", 6, signature, n), 0);
        ASSERT_EQ(metadata_hmac_verify(k, "Content", 7, signature, n), 0);
        ASSERT_EQ(metadata_hmac_verify(key, "content", 7, signature, n), 0);
        ASSERT_EQ(metadata_hmac_verify(k, "content", 7, signature, n - 1), 0);
        ASSERT_EQ(metadata_hmac_verify(k, "content", 7, "", 0), 0);
        memcpy(other, signature, METADATA_SIGNATURE_SIZE);
        other[0] ^= 1;
        ASSERT_EQ(metadata_hmac_verify(k, "content", 7, other, n), 0);
        (void) snprintf(other, sizeof(other), "%s\n", signature);
        ASSERT_EQ(metadata_hmac_verify(k, "content", 7, other, n + 1), 0);
        /* Nothing can be signed as well. */
        ASSERT_OK(metadata_hmac_sign(k, NULL, 0, signature));
        ASSERT_EQ(metadata_hmac_verify(k, "", 0, signature, n), 1);
}

TEST(tokens)
{
        _cleanup_free_ char *a = NULL, *b = NULL;

        ASSERT_OK(metadata_token_generate(&a));
        ASSERT_OK(metadata_token_generate(&b));
        ASSERT_EQ(strlen(a), 48);
        ASSERT_TRUE(!streq(a, b));
}

TEST(config_round_trip)
{
        _cleanup_(metadata_config_owned_done) MetadataConfigOwned o = {};
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_close_ int fd = -EBADF;

        ASSERT_OK(metadata_config_encode(&config, &fd, &e));
        int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
        ASSERT_EQ(fcntl(fd, F_GET_SEALS) & seals, seals);
        ASSERT_OK(metadata_config_decode(fd, &o, &e));
        ASSERT_STREQ(o.config.uuid, UUID);
        ASSERT_STREQ(o.config.token, TOKEN);
        ASSERT_MEMEQ(o.config.key, key, METADATA_KEY_SIZE);
        ASSERT_EQ(o.config.pod_manifest_size, strlen(pod_manifest));
        ASSERT_STREQ(o.config.pod_manifest, pod_manifest);
        ASSERT_EQ(o.config.n_apps, 2);
        ASSERT_STREQ(o.config.apps[1].name, "web");
        ASSERT_STREQ(o.config.apps[1].image_id, IMAGE_ID);
        ASSERT_STREQ(o.config.apps[1].image_manifest, image_manifest);
        ASSERT_EQ(o.config.verify_timeout_msec, 7);
        ASSERT_EQ(o.config.request_timeout_msec, 0);
}

TEST(config_refused)
{
        _cleanup_error_ Error e = ERROR_NULL;
        MetadataConfig c = config;
        int fd = -EBADF;

        c.token = "short";
        ASSERT_ERR(metadata_config_encode(&c, &fd, &e), -EINVAL);
        ASSERT_CONTAINS(e.message, "The token of pod " UUID " is not 22 to 128 letters");
        c.token = "0123456789abcdefghijk/";
        ASSERT_ERR(metadata_config_encode(&c, &fd, &e), -EINVAL);
        c = config;
        c.uuid = "../../etc/passwd";
        ASSERT_ERR(metadata_config_encode(&c, &fd, &e), -EINVAL);
        c = config;
        c.n_apps = METADATA_APPS_MAX + 1;
        ASSERT_ERR(metadata_config_encode(&c, &fd, &e), -E2BIG);
        ASSERT_CONTAINS(e.message, "has 4097 apps; its metadata service supports at most 4096");
        c = config;
        c.pod_manifest_size = SIZE_MAX;
        ASSERT_ERR(metadata_config_encode(&c, &fd, &e), -E2BIG);
        ASSERT_CONTAINS(e.message, "The manifests of pod " UUID " are too large");
        ASSERT_EQ(fd, -EBADF);
}

/* Each truncation, and each inverted byte of the structure, is refused or harmless, without a crash. */
TEST(config_damaged)
{
        _cleanup_close_ int fd = -EBADF;
        _cleanup_free_ char *data = NULL;
        size_t size;

        ASSERT_OK(metadata_config_encode(&config, &fd, NULL));
        ASSERT_OK(read_fd_bounded(fd, METADATA_CONFIG_MAX, &data, &size));
        for (size_t i = 0; i < size; i++) {
                _cleanup_(metadata_config_owned_done) MetadataConfigOwned o = {};
                _cleanup_close_ int cut = -EBADF, damaged = -EBADF;
                _cleanup_error_ Error e = ERROR_NULL;

                ASSERT_OK(metadata_memfd_new("cut", data, i, &cut));
                ASSERT_ERR(metadata_config_decode(cut, &o, &e), -EBADMSG);
                ASSERT_CONTAINS(e.message, "The configuration is malformed");
                data[i] ^= (char) 0x80;
                ASSERT_OK(metadata_memfd_new("damaged", data, size, &damaged));
                data[i] ^= (char) 0x80;
                int r = metadata_config_decode(damaged, &o, &e);
                ASSERT_TRUE(r >= 0 || r == -EBADMSG);
        }
}

TEST(tables)
{
        _cleanup_(metadata_tables_freep) MetadataTables *t = NULL;
        _cleanup_error_ Error e = ERROR_NULL;
        MetadataRoute a, b;

        ASSERT_OK(metadata_tables_new(&config, &t, &e));
        ASSERT_EQ(t->verify_timeout_usec, 7000);
        ASSERT_EQ(t->request_timeout_usec, 15000000);
        ASSERT_OK(route(BASE "apps/web/image/id", &a));
        ASSERT_OK(route(BASE "apps/web-log/image/id", &b));
        ASSERT_NOT_NULL(metadata_tables_find(t, &a));
        ASSERT_NOT_NULL(metadata_tables_find(t, &b));
        ASSERT_TRUE(metadata_tables_find(t, &a) != metadata_tables_find(t, &b));
        ASSERT_STREQ(MHD_get_response_header(metadata_tables_find(t, &a), "Content-Type"),
                     "text/plain; charset=us-ascii");
        static const char *const unknown[] = {"w", "we", "web-", "web-lo", "web-logs", "x", "a"};
        for (size_t i = 0; i < ELEMENTSOF(unknown); i++) {
                MetadataRoute r = {.resource = METADATA_APP_IMAGE_ID,
                                   .app = unknown[i],
                                   .app_size = strlen(unknown[i])};
                ASSERT_NULL(metadata_tables_find(t, &r));
        }
}

TEST(tables_refused)
{
        MetadataApp app = {"nobody", IMAGE_ID, image_manifest, sizeof(image_manifest) - 1};
        _cleanup_error_ Error e = ERROR_NULL;
        MetadataTables *t = NULL;
        MetadataConfig c = config;

        c.apps = &app;
        c.n_apps = 1;
        ASSERT_ERR(metadata_tables_new(&c, &t, &e), -EINVAL);
        ASSERT_STREQ(e.message, "Pod " UUID " has no app nobody");
        app.name = "web";
        app.image_manifest = "{}";
        app.image_manifest_size = 2;
        ASSERT_ERR(metadata_tables_new(&c, &t, &e), -EINVAL);
        ASSERT_CONTAINS(e.message, "The image manifest of app web of pod " UUID ": ");
        c.pod_manifest_size = 10;
        ASSERT_ERR(metadata_tables_new(&c, &t, &e), -EBADMSG);
        ASSERT_CONTAINS(e.message, "The manifest of pod " UUID ": ");
        ASSERT_NULL(t);
}

int main(void)
{
        if (library_load(&crypto_library, NULL) < 0)
                return 1;
        RUN(routes);
        RUN(routes_unknown);
        RUN(forms);
        RUN(forms_refused);
        RUN(form_bytes);
        RUN(form_types);
        RUN(signatures);
        RUN(signatures_verified);
        RUN(tokens);
        RUN(config_round_trip);
        RUN(config_refused);
        RUN(config_damaged);
        RUN(tables);
        RUN(tables_refused);
        return TEST_END();
}
