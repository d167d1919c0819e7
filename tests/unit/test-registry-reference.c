/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* References to images of registries: valid ones and their parts, and the messages about invalid ones. */

#include "prepare/registry/registry-internal.h"
#include "tests/unit/test.h"

#define HEX64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const struct {
        const char *text, *registry, *repository, *tag, *digest;
} valid[] = {
                {"app", NULL, "app", NULL, NULL},
                {"app:1.0", NULL, "app", "1.0", NULL},
                {"team/app", NULL, "team/app", NULL, NULL},
                {"docker://team/app:x", NULL, "team/app", "x", NULL},
                {"example.com/app", "example.com", "app", NULL, NULL},
                {"Example.COM/app", "example.com", "app", NULL, NULL},
                {"example.com:5000/a/b/c:tag", "example.com:5000", "a/b/c", "tag", NULL},
                {"localhost/app", "localhost", "app", NULL, NULL},
                {"localhost:5000", NULL, "localhost", "5000", NULL},
                {"host:5000/app", "host:5000", "app", NULL, NULL},
                {"127.0.0.1:80/app:_x", "127.0.0.1:80", "app", "_x", NULL},
                {"[::1]/app", "[::1]", "app", NULL, NULL},
                {"[2001:DB8::1]:5000/app:1", "[2001:db8::1]:5000", "app", "1", NULL},
                {"a-b.example.com/a__b/c---d/e.f_g:T-.x", "a-b.example.com", "a__b/c---d/e.f_g", "T-.x",
                 NULL},
                {"app@sha256:" HEX64, NULL, "app", NULL, "sha256:" HEX64},
                {"example.com:1/app:1@sha256:" HEX64, "example.com:1", "app", "1", "sha256:" HEX64},
                {"app@sha512:" HEX64 HEX64, NULL, "app", NULL, "sha512:" HEX64 HEX64},
};

TEST(valid)
{
        for (size_t i = 0; i < ELEMENTSOF(valid); i++) {
                _cleanup_(registry_reference_done) RegistryReference r = {};
                _cleanup_error_ Error e = ERROR_NULL;

                if (registry_reference_parse(valid[i].text, &r, &e) < 0)
                        TEST_FAIL("%s", e.message);
                ASSERT_STREQ(r.registry, valid[i].registry);
                ASSERT_STREQ(r.repository, valid[i].repository);
                ASSERT_STREQ(r.tag, valid[i].tag);
                ASSERT_STREQ(r.digest, valid[i].digest);
        }
}

static const struct {
        const char *text, *why;
} invalid[] = {
                {"", "it has no repository"},
                {"docker://", "it has no repository"},
                {"example.com/", "it has no repository"},
                {"/app", "has an empty part"},
                {"a//b", "has an empty part"},
                {"a/", "has an empty part"},
                {"a/Upper", "has upper case letters"},
                {"HOST/app", "has upper case letters"},
                {"Upper", "has upper case letters"},
                {"a_-b", "has a part that is not"},
                {"a..b/c", "'a..b' is not a host name"},
                {"x/a..b", "has a part that is not"},
                {"a___b", "has a part that is not"},
                {"a-", "has a part that is not"},
                {"-a", "has a part that is not"},
                {"../a", "'..' is not a host name"},
                {"x/../a", "has a part that is not"},
                {"x/%2e%2e/a", "has a part that is not"},
                {"a b", "has a part that is not"},
                {"a?b=c", "has a part that is not"},
                {"a#b", "has a part that is not"},
                {"user:secret@example.com/app", "the digest 'example.com/app' is neither"},
                {"https://example.com/app", "it is a URL"},
                {"a\nb", "has a part that is not"},
                {"a\xff", "has a part that is not"},
                {"app:", "the tag is empty"},
                {"app:.x", "the tag '.x'"},
                {"app:-x", "the tag '-x'"},
                {"app:a:b", "the tag 'a:b'"},
                {"app@", "the digest ''"},
                {"app@sha256:abc", "64 hex digits"},
                {"app@sha256:" HEX64 "0", "64 hex digits"},
                {"app@sha512:" HEX64, "128 hex digits"},
                {"app@md5:" HEX64, "neither of sha256 nor of sha512"},
                {"app@sha256:" HEX64 "@sha256:" HEX64, "64 hex digits"},
                {"example.com:0/app", "no valid port"},
                {"example.com:65536/app", "no valid port"},
                {"example.com:/app", "no valid port"},
                {"example.com:80x/app", "no valid port"},
                {"-x.example.com/app", "is not a host name"},
                {"x-.example.com/app", "is not a host name"},
                {".example.com/app", "is not a host name"},
                {"example.com./app", "is not a host name"},
                {"[::1/app", "is not a host name"},
                {"[::g]/app", "is not a host name"},
                {"[::1]x/app", "no valid port"},
                {"[]:1/app", "is not a host name"},
};

TEST(invalid)
{
        for (size_t i = 0; i < ELEMENTSOF(invalid); i++) {
                RegistryReference r = {};
                _cleanup_error_ Error e = ERROR_NULL;

                if (registry_reference_parse(invalid[i].text, &r, &e) != -EINVAL)
                        TEST_FAIL("'%s' is taken", invalid[i].text);
                ASSERT_CONTAINS(e.message, invalid[i].why);
                ASSERT_CONTAINS(e.message, "is not a reference to an image of a registry");
                ASSERT_CONTAINS(e.hint, "REPOSITORY[:TAG][@DIGEST]");
                ASSERT_NULL(r.repository);
        }
}

/* The longest that is taken, and one more. */
TEST(lengths)
{
        char repository[300], tag[300], text[2000];
        RegistryReference r = {};

        memset(repository, 'a', sizeof(repository));
        memset(tag, 'b', sizeof(tag));
        snprintf(text, sizeof(text), "%.*s:%.*s", 255, repository, 128, tag);
        ASSERT_OK(registry_reference_parse(text, &r, NULL));
        registry_reference_done(&r);
        snprintf(text, sizeof(text), "%.*s", 256, repository);
        ASSERT_ERR(registry_reference_parse(text, &r, NULL), -EINVAL);
        snprintf(text, sizeof(text), "a:%.*s", 129, tag);
        ASSERT_ERR(registry_reference_parse(text, &r, NULL), -EINVAL);
        snprintf(text, sizeof(text), "%.*s.example.com/a", 63, repository);
        ASSERT_OK(registry_reference_parse(text, &r, NULL));
        registry_reference_done(&r);
        snprintf(text, sizeof(text), "%.*s.example.com/a", 64, repository);
        ASSERT_ERR(registry_reference_parse(text, &r, NULL), -EINVAL);
        memset(text, 'a', sizeof(text) - 1);
        text[sizeof(text) - 1] = 0;
        ASSERT_ERR(registry_reference_parse(text, &r, NULL), -EINVAL);
}

TEST(format)
{
        static const char *const same[] = {"app", "app:1", "example.com/app", "example.com:5000/a/b:1",
                                           ("[::1]:1/app:x@sha256:" HEX64)};

        for (size_t i = 0; i < ELEMENTSOF(same); i++) {
                _cleanup_(registry_reference_done) RegistryReference r = {};
                _cleanup_free_ char *text = NULL;

                ASSERT_OK(registry_reference_parse(same[i], &r, NULL));
                ASSERT_OK(registry_reference_format(&r, &text));
                ASSERT_STREQ(text, same[i]);
        }
}

int main(void)
{
        RUN(valid);
        RUN(invalid);
        RUN(lengths);
        RUN(format);
        return TEST_END();
}
