/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Text in the responses of registries: challenges, tokens, errors; and files of credentials. */

#include "prepare/registry/registry-internal.h"
#include "tests/unit/scratch.h"
#include "tests/unit/test.h"

/* --- Challenges ---------------------------------------------------------------------------------------- */

/* What is kept of a challenge, as one line. */
static int show_challenge(const char *s, char **ret, Error *e)
{
        _cleanup_(registry_challenge_done) RegistryChallenge c = {};

        int r = registry_challenge_parse(s, &c, e);
        if (r < 0)
                return r;
        return xasprintf(ret, "%s%s%s|%s|%s|%s", c.basic ? "basic " : "", c.bearer ? "bearer " : "",
                         c.other ?: "", c.realm ?: "-", c.service ?: "-", c.scope ?: "-");
}

static const struct {
        const char *text, *shown;
} challenges[] = {
                {"Basic realm=\"x\"", "basic |-|-|-"},
                {"basic", "basic |-|-|-"},
                {"Bearer realm=\"https://example.com/t\",service=\"s\",scope=\"repository:a/b:pull\"",
                 "bearer |https://example.com/t|s|repository:a/b:pull"},
                {"bearer Realm=x , SERVICE = \"y\" ,other=\"z\"", "bearer |x|y|-"},
                {"Bearer realm=\"a\\\"b\\\\c\"", "bearer |a\"b\\c|-|-"},
                {"Negotiate, Basic realm=\"no\", Bearer realm=\"yes\",scope=\"s\"",
                 "basic bearer Negotiate|yes|-|s"},
                {"Bearer realm=\"yes\", Basic realm=\"no\"", "basic bearer |yes|-|-"},
                {"Bearer realm=\"1\", Bearer realm=\"2\"", "bearer |1|-|-"},
                {"Negotiate YWJj/+==, Basic realm=\"x\"", "basic Negotiate|-|-|-"},
                {"Digest realm=\"x\", nonce=\"y\"", "Digest|-|-|-"},
                {", , Basic realm=\"x\", ,", "basic |-|-|-"},
                {"Bearer", "bearer |-|-|-"},
                {"Bearer realm=\"with , comma = and Basic \"", "bearer |with , comma = and Basic |-|-"},
};

TEST(challenges)
{
        for (size_t i = 0; i < ELEMENTSOF(challenges); i++) {
                _cleanup_free_ char *shown = NULL;
                _cleanup_error_ Error e = ERROR_NULL;

                if (show_challenge(challenges[i].text, &shown, &e) < 0)
                        TEST_FAIL("%s: %s", challenges[i].text, e.message);
                ASSERT_STREQ(shown, challenges[i].shown);
        }
}

TEST(invalid_challenges)
{
        static const char *const texts[] = {
                        "",
                        "\"Bearer\"",
                        "Bearer realm=\"x",
                        "Bearer service=x,realm=",
                        "Bearer realm=\"x\" service=\"y\"",
                        "Bearer realm=\"x\",realm=\"y\"",
                        "Bearer realm=\"x\\",
                        "Bearer realm=\"a\nb\"",
                        "Bearer realm=\"\xff\"",
                        "Bearer =x",
                        "Basic realm=\"x\";",
                        "a b c",
                        "a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q",
        };

        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                _cleanup_free_ char *shown = NULL;

                if (show_challenge(texts[i], &shown, NULL) != -EBADMSG)
                        TEST_FAIL("'%s' is taken: %s", texts[i], shown);
        }
        _cleanup_free_ char *large = calloc(1, CHALLENGE_SIZE_MAX + 2), *shown = NULL;
        ASSERT_NOT_NULL(large);
        memset(large, 'a', CHALLENGE_SIZE_MAX + 1);
        ASSERT_ERR(show_challenge(large, &shown, NULL), -EBADMSG);
}

/* --- Tokens -------------------------------------------------------------------------------------------- */

TEST(tokens)
{
        static const struct {
                const char *text, *token;
                uint64_t seconds;
        } cases[] = {
                        {"{\"token\": \"abc.DEF-1_~+/==\"}", "abc.DEF-1_~+/==", 60},
                        {"{\"access_token\": \"a\", \"expires_in\": 300}", "a", 300},
                        {"{\"token\": \"a\", \"access_token\": \"b\", \"expires_in\": 1}", "a", 60},
                        {"{\"token\": \"a\", \"expires_in\": -5}", "a", 60},
                        {"{\"token\": \"a\", \"expires_in\": 9223372036854775807}", "a", 3600},
                        {"{\"token\": \"a\", \"expires_in\": \"x\"}", "a", 60},
                        {"{\"token\": \"\", \"access_token\": \"b\"}", "b", 60},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_free_ char *token = NULL;
                uint64_t seconds;

                ASSERT_OK(registry_token_parse(cases[i].text, strlen(cases[i].text), &token, &seconds,
                                               NULL));
                ASSERT_STREQ(token, cases[i].token);
                ASSERT_EQ(seconds, cases[i].seconds);
        }
}

TEST(invalid_tokens)
{
        static const char *const texts[] = {
                        "",
                        "<html>",
                        "[]",
                        "{}",
                        "\"token\"",
                        "{\"token\": 1}",
                        "{\"token\": \"a b\"}",
                        "{\"token\": \"a\\r\\nX-Header: b\"}",
                        "{\"token\": \"=\"}",
                        "{\"token\": \"a===\"}",
                        "{\"token\": \"a\", \"token\": \"b\"}",
        };

        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                _cleanup_free_ char *token = NULL;
                _cleanup_error_ Error e = ERROR_NULL;
                uint64_t seconds;

                if (registry_token_parse(texts[i], strlen(texts[i]), &token, &seconds, &e) != -EBADMSG)
                        TEST_FAIL("'%s' is taken", texts[i]);
                ASSERT_CONTAINS(e.message, "its reply");
        }
}

/* --- Errors -------------------------------------------------------------------------------------------- */

TEST(errors)
{
        static const struct {
                const char *text, *shown, *code;
        } cases[] = {
                        {"{\"errors\":[{\"code\":\"NAME_UNKNOWN\",\"message\":\"who?\"}]}",
                         "NAME_UNKNOWN: who?", "NAME_UNKNOWN"},
                        {"{\"errors\":[{\"message\":\"a\\u001b[2J\"},{\"code\":\"X\"}]}", "a\\x1b[2J; X",
                         "X"},
                        {"{\"errors\":[{\"code\":\"lower\"}]}", "lower", NULL},
                        {"{\"errors\":[{\"code\":\"A\"},{\"code\":\"B\"},{\"code\":\"C\"},{\"code\":\"D\"}]"
                         "}",
                         "A; B; C", "A"},
        };
        static const char *const none[] = {"",
                                           "<html>",
                                           "{}",
                                           "[]",
                                           "{\"errors\":[]}",
                                           "{\"errors\":{}}",
                                           "{\"errors\":[1,null,{}]}"};

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_free_ char *shown = NULL, *code = NULL;

                ASSERT_EQ(registry_error_parse(cases[i].text, strlen(cases[i].text), &shown, &code), 1);
                ASSERT_STREQ(shown, cases[i].shown);
                ASSERT_STREQ(code, cases[i].code);
        }
        for (size_t i = 0; i < ELEMENTSOF(none); i++) {
                _cleanup_free_ char *shown = NULL, *code = NULL;

                ASSERT_EQ(registry_error_parse(none[i], strlen(none[i]), &shown, &code), 0);
                ASSERT_NULL(shown);
        }
}

TEST(long_errors_are_cut)
{
        _cleanup_free_ char *shown = NULL, *code = NULL;
        char text[2000] = "{\"errors\":[{\"message\":\"";

        for (size_t i = 0; i < 400; i++)
                strncat(text, "é", sizeof(text) - strlen(text) - 1);
        strncat(text, "\"}]}", sizeof(text) - strlen(text) - 1);
        ASSERT_EQ(registry_error_parse(text, strlen(text), &shown, &code), 1);
        ASSERT_LE(strlen(shown), 310);
        ASSERT_TRUE(utf8_is_valid(shown, strlen(shown)));
}

TEST(hints)
{
        ASSERT_CONTAINS(registry_error_hint("MANIFEST_UNKNOWN", 404), "tag");
        ASSERT_CONTAINS(registry_error_hint(NULL, 401), "auth.d");
        ASSERT_CONTAINS(registry_error_hint("UNAUTHORIZED", 401), "auth.d");
        ASSERT_CONTAINS(registry_error_hint("TOOMANYREQUESTS", 429), "Wait");
        ASSERT_NULL(registry_error_hint(NULL, 500));
}

/* --- Credentials --------------------------------------------------------------------------------------- */

/* "user:password" for "a", "b" and so on. */
static const char auths[] = "{\"auths\": {"
                            "\"example.com\": {\"auth\": \"YTpmb3ItaG9zdA==\"},"
                            "\"example.com/team\": {\"auth\": \"YjpmOnRlYW0=\"},"
                            "\"Example.com:5000\": {\"username\": \"c\", \"password\": \"port\"},"
                            "\"https://url.example.com/v1/\": {\"auth\": \"ZDp1cmw=\"},"
                            "\"oauth.example.com\": {\"auth\": \"ZTo=\", \"identitytoken\": \"refresh\"},"
                            "\"empty.example.com\": {},"
                            "\"https://left.example.com/v1/\": {},"
                            "\"both.example.com\": {\"auth\": \"YTpmb3ItaG9zdA==\"},"
                            "\"bad.example.com\": {\"auth\": \"c2VjcmV0\"},"
                            "\"worse.example.com\": {\"auth\": \"!!!!\"}"
                            "}, \"credHelpers\": {\"helped.example.com\": \"he\\u001blp\", "
                            "\"both.example.com\": \"own\"}, "
                            "\"credsStore\": \"store\"}";

static const struct {
        const char *host, *repository, *user, *password, *token, *helper, *server;
} entries[] = {
                {"example.com", "app", "a", "for-host", NULL, NULL},
                {"example.com", "team/app", "b", "f:team", NULL, NULL},
                {"example.com", "team", "b", "f:team", NULL, NULL},
                {"example.com", "teams/app", "a", "for-host", NULL, NULL},
                {"example.com:5000", "team/app", "c", "port", NULL, NULL},
                {"url.example.com", "app", "d", "url", NULL, NULL},
                {"oauth.example.com", "app", "e", "", "refresh", NULL},
                {"empty.example.com", "app", NULL, NULL, NULL, "store", "empty.example.com"},
                {"helped.example.com", "app", NULL, NULL, NULL, "he\x1blp", "helped.example.com"},
                {"other.example.com", "app", NULL, NULL, NULL, "store", "other.example.com"},
                {"xexample.com", "app", NULL, NULL, NULL, "store", "xexample.com"},
                {"left.example.com", "app", NULL, NULL, NULL, "store", "https://left.example.com/v1/"},
                {"both.example.com", "app", "a", "for-host", NULL, "own", "both.example.com"},
                {"example.com.evil.example.org", "app", NULL, NULL, NULL, "store",
                 "example.com.evil.example.org"},
};

TEST(credentials)
{
        for (size_t i = 0; i < ELEMENTSOF(entries); i++) {
                _cleanup_(registry_credentials_done) RegistryCredentials c = {};
                _cleanup_(credential_helper_done) CredentialHelper helper = {};
                _cleanup_error_ Error e = ERROR_NULL;

                int r = auth_file_find(auths, strlen(auths), "f", entries[i].host, entries[i].repository, &c,
                                       &helper, &e);
                if (r < 0)
                        TEST_FAIL("%s", e.message);
                ASSERT_EQ(r, entries[i].user != NULL);
                ASSERT_STREQ(c.user, entries[i].user);
                ASSERT_STREQ(c.password, entries[i].password);
                ASSERT_STREQ(c.identity_token, entries[i].token);
                ASSERT_STREQ(helper.name, entries[i].helper);
                ASSERT_STREQ(helper.server, entries[i].server);
        }
}

/* Messages have nothing of the secrets. */
TEST(invalid_credentials)
{
        _cleanup_(registry_credentials_done) RegistryCredentials c = {};
        _cleanup_(credential_helper_done) CredentialHelper helper = {};
        _cleanup_error_ Error e = ERROR_NULL;

        ASSERT_ERR(auth_file_find(auths, strlen(auths), "f", "bad.example.com", "a", &c, &helper, &e),
                   -EINVAL);
        ASSERT_STREQ(e.message, "f: the entry for 'bad.example.com' has an 'auth' that is not base64 of "
                                "user:password");
        ASSERT_ERR(auth_file_find(auths, strlen(auths), "f", "worse.example.com", "a", &c, &helper, &e),
                   -EINVAL);
        ASSERT_NOT_CONTAINS(e.message, "!!!!");
        ASSERT_ERR(auth_file_find("[]", 2, "f", "a", "b", &c, &helper, &e), -EINVAL);
        ASSERT_ERR(auth_file_find("{", 1, "f", "a", "b", &c, &helper, &e), -EBADMSG);
        ASSERT_CONTAINS(e.message, "f is not a file of credentials");
        ASSERT_EQ(auth_file_find("{\"auths\": 1}", 12, "f", "a", "b", &c, &helper, &e), 0);
}

static void collect(const char *line, void *userdata)
{
        Text *t = userdata;

        text_addf(t, "%s\n", line);
}

TEST(files)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_(registry_credentials_done) RegistryCredentials c = {};
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_text_ Text t = {};
        Notes n = {collect, &t};
        char path[PATH_MAX + 32];

        ASSERT_OK(scratch_new(&s));
        snprintf(path, sizeof(path), "%s/auth.json", s.path);
        ASSERT_OK(setenv("REGISTRY_AUTH_FILE", path, true));
        ASSERT_OK(setenv("PATH", s.path, true));
        ASSERT_ERR(registry_credentials_find("example.com", "app", NULL, &n, &c, &e), -ENOENT);
        ASSERT_CONTAINS(e.message, "Cannot read the credentials in ");
        ASSERT_OK(scratch_file(&s, "auth.json", auths));
        ASSERT_EQ(fchmodat(s.fd, "auth.json", 0600, 0), 0);
        ASSERT_EQ(registry_credentials_find("other.example.com", "app", NULL, &n, &c, &e), 0);
        text_add_bytes(&t, "", 1);
        ASSERT_CONTAINS(t.data,
                        "No credentials for 'other.example.com' come from the helper 'store', which ");
        ASSERT_CONTAINS(t.data, "auth.json names: there is no program docker-credential-store in PATH");
        ASSERT_EQ(registry_credentials_find("example.com", "app", NULL, &n, &c, &e), 1);
        ASSERT_STREQ(c.user, "a");
        ASSERT_STREQ(c.origin, path);
        registry_credentials_done(&c);

        /* Without it, the first of the usual places that has an entry. */
        ASSERT_OK(unsetenv("REGISTRY_AUTH_FILE"));
        ASSERT_EQ(mkdirat(s.fd, "containers", 0755), 0);
        ASSERT_EQ(mkdirat(s.fd, ".docker", 0755), 0);
        ASSERT_OK(setenv("XDG_RUNTIME_DIR", s.path, true));
        ASSERT_OK(setenv("HOME", s.path, true));
        ASSERT_OK(unsetenv("XDG_CONFIG_HOME"));
        ASSERT_OK(unsetenv("DOCKER_CONFIG"));
        ASSERT_OK(scratch_file(&s, "containers/auth.json",
                               "{\"auths\":{\"unit.example.com\":{\"auth\":\"YTpi\"}}}"));
        ASSERT_OK(scratch_file(&s, ".docker/config.json",
                               "{\"auths\":{\"unit.example.com\":{\"auth\":\"YTpj\"},"
                               "\"unit.example.org\":{\"auth\":\"YTpk\"}}}"));
        ASSERT_ERR(registry_credentials_find("unit.example.com", "app", NULL, &n, &c, &e), -EPERM);
        ASSERT_CONTAINS(e.message, "others may read or write it (mode 0644)");
        ASSERT_EQ(registry_credentials_find("elsewhere.example.com", "app", NULL, &n, &c, &e), 0);
        ASSERT_EQ(fchmodat(s.fd, "containers/auth.json", 0600, 0), 0);
        ASSERT_EQ(fchmodat(s.fd, ".docker/config.json", 0600, 0), 0);
        ASSERT_EQ(registry_credentials_find("unit.example.com", "app", NULL, &n, &c, &e), 1);
        ASSERT_STREQ(c.password, "b");
        registry_credentials_done(&c);
        ASSERT_EQ(registry_credentials_find("unit.example.org", "app", NULL, &n, &c, &e), 1);
        ASSERT_STREQ(c.password, "d");
}

int main(void)
{
        RUN(challenges);
        RUN(invalid_challenges);
        RUN(tokens);
        RUN(invalid_tokens);
        RUN(errors);
        RUN(long_errors_are_cut);
        RUN(hints);
        RUN(credentials);
        RUN(invalid_credentials);
        RUN(files);
        return TEST_END();
}
