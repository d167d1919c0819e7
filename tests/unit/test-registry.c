/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The registry protocol, against a registry in this process that is controlled by each case: a correct one,
 * and hostile ones. */

#include <openssl/evp.h>
#include <sys/stat.h>

#include "prepare/oci/oci.h"
#include "prepare/registry/registry-internal.h"
#include "prepare/transfer/transfer.h"
#include "tests/unit/registry-server.h"
#include "tests/unit/store-fixture.h"

#define MANIFEST "{\"schemaVersion\": 2}"
#define OTHER "{\"schemaVersion\": 3}"
#define BLOB "the content of a layer"
#define MEDIA_TYPE "application/vnd.oci.image.manifest.v1+json"

/* --- What cases have in common ------------------------------------------------------------------------- */

typedef struct Case {
        Fixture f;
        Server server, second; /* the second is another host */
        Transfer *transfer;
        OciSource *source;
        Text notes;
} Case;

static void case_done(Case *c)
{
        oci_source_free(c->source);
        transfer_free(c->transfer);
        server_done(&c->server);
        server_done(&c->second);
        text_done(&c->notes);
        fixture_done(&c->f);
}

/* For the functions that answer. */
static Case *current;

static void note(const char *line, void *userdata)
{
        Case *c = userdata;

        text_addf(&c->notes, "%s\n", line);
}

static const char *notes(Case *c)
{
        text_add(&c->notes, "");
        return c->notes.data ?: "";
}

/* Configuration files only from the scratch directory, none of this host. */
static int case_new(Case *c, void (*answer)(const ServerRequest *q, ServerAnswer *a))
{
        char path[PATH_MAX + 64];

        *c = (Case){};
        current = c;
        int r = fixture_new(&c->f);
        if (r < 0 || server_start(&c->server, answer) < 0 || server_start(&c->second, answer) < 0)
                return -EIO;
        snprintf(path, sizeof(path), "%s/registries.conf", c->f.scratch.path);
        setenv("CONTAINERS_REGISTRIES_CONF", path, true);
        snprintf(path, sizeof(path), "%s/auth.json", c->f.scratch.path);
        setenv("REGISTRY_AUTH_FILE", path, true);
        unsetenv("http_proxy");
        unsetenv("all_proxy");
        unsetenv("ALL_PROXY");
        r = scratch_file(&c->f.scratch, "registries.conf", "");
        return r < 0 ? r : scratch_file(&c->f.scratch, "auth.json", "{}");
}

/* The source for REFERENCE at the server. */
static int case_open(Case *c, const char *reference, unsigned insecure)
{
        static const char *dirs[2]; /* which have to outlive the source */

        dirs[0] = c->f.scratch.path;
        const TransferOptions to = {.insecure = insecure,
                                    .config_dirs = dirs,
                                    .n_retries = 1,
                                    .retry_delay_usec = 1000,
                                    .stall_timeout_usec = 5 * 1000000ULL,
                                    .note = note,
                                    .userdata = c};
        const RegistryOptions o = {.insecure = insecure, .config_dirs = dirs, .note = note, .userdata = c};

        int r = transfer_new(&to, &c->transfer, &c->f.error);
        if (r < 0)
                return r;
        return registry_source_new(c->transfer, c->f.store, reference, &o, &c->source, &c->f.error);
}

#define CASE(c, answer)                                                                                     \
        _cleanup_(case_done) Case c;                                                                        \
        ASSERT_OK(case_new(&c, (answer)))

/* The source for team/app:1 at the server, over http. */
#define CASE_OPEN(c, suffix)                                                                                \
        do {                                                                                                \
                char reference_[512];                                                                       \
                snprintf(reference_, sizeof(reference_), "%s/team/app%s", (c).server.host, (suffix));       \
                ASSERT_WORKS((c).f, case_open(&(c), reference_, INSECURE_HTTP));                            \
        } while (0)

static int get(Case *c, const char *digest, char **ret)
{
        _cleanup_free_ char *media_type = NULL;
        size_t size;

        error_done(&c->f.error);
        return c->source->vtable->get_manifest(c->source, digest, ret, &size, &media_type, &c->f.error);
}

static const char *digest_of(const char *text)
{
        static __thread char digests[4][80]; /* the server's thread calls this, too */
        static __thread unsigned n;
        char *digest = digests[n++ % 4];
        unsigned char hash[32];

        EVP_Digest(text, strlen(text), hash, NULL, EVP_sha256(), NULL);
        char *hex = hex_encode(hash, sizeof(hash));
        snprintf(digest, 80, "sha256:%s", hex);
        free(hex);
        return digest;
}

/* The content of the blob as it arrived. */
static int get_blob(Case *c, const char *content, uint64_t size, char **ret)
{
        OciDescriptor d = {.digest = (char *) digest_of(content), .size = size};
        _cleanup_close_ int fd = -EBADF;
        size_t n;

        error_done(&c->f.error);
        int r = c->source->vtable->open_blob(c->source, &d, &fd, &c->f.error);
        return r < 0 ? r : read_fd_bounded(fd, 4096, ret, &n);
}

#define ASSERT_GET(c, digest, expected)                                                                     \
        do {                                                                                                \
                _cleanup_free_ char *text_ = NULL;                                                          \
                ASSERT_WORKS((c).f, get(&(c), (digest), &text_));                                           \
                ASSERT_STREQ(text_, expected);                                                              \
        } while (0)
#define ASSERT_GET_FAILS(c, digest, code, why)                                                              \
        do {                                                                                                \
                _cleanup_free_ char *text_ = NULL;                                                          \
                int r_ = get(&(c), (digest), &text_);                                                       \
                if (r_ != (code))                                                                           \
                        TEST_FAIL("get_manifest returned %d: %s", r_, (c).f.error.message ?: "");           \
                ASSERT_CONTAINS((c).f.error.message, (why));                                                \
        } while (0)

static void say_error(ServerAnswer *a, unsigned status, const char *code)
{
        static char body[256];

        snprintf(body, sizeof(body), "{\"errors\":[{\"code\":\"%s\",\"message\":\"so it is\"}]}", code);
        a->status = status;
        a->body = body;
}

/* A registry with one image. */
static void serve(const ServerRequest *q, ServerAnswer *a)
{
        char quoted[100];

        snprintf(quoted, sizeof(quoted), "\"%s\"", digest_of(MANIFEST));
        if (strstr(q->path, "/blobs/"))
                a->body = BLOB;
        else if (!endswith(q->path, "/manifests/1") && !endswith(q->path, digest_of(MANIFEST)))
                say_error(a, 404, "MANIFEST_UNKNOWN");
        else if (streq(q->if_none_match, quoted))
                a->status = 304;
        else {
                a->body = MANIFEST;
                add_header(a, "Content-Type: %s; charset=utf-8", MEDIA_TYPE);
                add_header(a, "Docker-Content-Digest: %s", digest_of(MANIFEST));
                add_header(a, "ETag: %s", quoted);
        }
}

/* --- As it should be ----------------------------------------------------------------------------------- */

static void expect_accept(const ServerRequest *q, ServerAnswer *a)
{
        if (strstr(q->path, "/manifests/") && !strstr(q->accept, "application/vnd."))
                say_error(a, 400, "NO_ACCEPT");
        else
                serve(q, a);
}

TEST(manifest_and_blob)
{
        CASE(c, expect_accept);
        _cleanup_free_ char *text = NULL, *media_type = NULL, *blob = NULL;
        size_t size;

        CASE_OPEN(c, ":1");
        ASSERT_NULL(registry_source_digest(c.source));
        ASSERT_WORKS(c.f,
                     c.source->vtable->get_manifest(c.source, NULL, &text, &size, &media_type, &c.f.error));
        ASSERT_STREQ(text, MANIFEST);
        ASSERT_EQ(size, strlen(MANIFEST));
        ASSERT_STREQ(media_type, MEDIA_TYPE);
        ASSERT_STREQ(registry_source_digest(c.source), digest_of(MANIFEST));
        ASSERT_GET(c, digest_of(MANIFEST), MANIFEST);
        ASSERT_WORKS(c.f, get_blob(&c, BLOB, strlen(BLOB), &blob));
        ASSERT_STREQ(blob, BLOB);
        ASSERT_EQ(c.server.n_requests, 3);
        ASSERT_NOT_CONTAINS(c.server.log, "Basic");
        ASSERT_CONTAINS(c.source->reference, "docker://127.0.0.1:");
        ASSERT_CONTAINS(c.source->reference, "/team/app:1");
        ASSERT_STREQ(c.source->image_version, "1");
        ASSERT_CONTAINS(notes(&c), "http");
        ASSERT_EQ(count_entries(c.f.store, "downloads"), 0);
}

/* To learn that nothing has changed takes one request. */
TEST(unchanged_costs_one_request)
{
        CASE(c, serve);

        CASE_OPEN(c, ":1");
        ASSERT_EQ(registry_source_unchanged(c.source, digest_of(MANIFEST), &c.f.error), 1);
        ASSERT_EQ(c.server.n_requests, 1);
        ASSERT_EQ(registry_source_unchanged(c.source, digest_of(OTHER), &c.f.error), 0);
        ASSERT_EQ(c.server.n_requests, 2);
        /* The manifest that was received instead is not requested again. */
        ASSERT_GET(c, NULL, MANIFEST);
        ASSERT_EQ(c.server.n_requests, 2);
        ASSERT_ERR(registry_source_unchanged(c.source, "x", &c.f.error), -EINVAL);
}

TEST(reference_by_digest)
{
        CASE(c, serve);
        char suffix[128];

        snprintf(suffix, sizeof(suffix), ":other@%s", digest_of(MANIFEST));
        CASE_OPEN(c, suffix);
        ASSERT_EQ(registry_source_unchanged(c.source, digest_of(MANIFEST), &c.f.error), 1);
        ASSERT_EQ(c.server.n_requests, 1);
        ASSERT_EQ(registry_source_unchanged(c.source, digest_of(OTHER), &c.f.error), 0);
        ASSERT_GET(c, NULL, MANIFEST);
        ASSERT_EQ(c.server.n_requests, 2);
        ASSERT_CONTAINS(c.server.log, digest_of(MANIFEST));
        ASSERT_NOT_CONTAINS(c.server.log, "manifests/other");
}

/* A registry that gives the manifest to those with a password only, or has it no more. */
static void serve_basic(const ServerRequest *q, ServerAnswer *a);

TEST(reference_by_digest_without_credentials)
{
        CASE(c, serve_basic);
        char suffix[128];

        snprintf(suffix, sizeof(suffix), "@%s", digest_of(MANIFEST));
        CASE_OPEN(c, suffix);
        ASSERT_EQ(registry_source_unchanged(c.source, digest_of(MANIFEST), &c.f.error), -EACCES);
        ASSERT_CONTAINS(c.f.error.message, "there are no credentials for it (401)");
        ASSERT_EQ(c.server.n_requests, 1);
}

TEST(reference_by_digest_that_is_gone)
{
        CASE(c, serve);
        char suffix[128];

        snprintf(suffix, sizeof(suffix), "@%s", digest_of(OTHER));
        CASE_OPEN(c, suffix);
        ASSERT_EQ(registry_source_unchanged(c.source, digest_of(OTHER), &c.f.error), -ENOENT);
        ASSERT_CONTAINS(c.f.error.message, "(404): MANIFEST_UNKNOWN");
}

TEST(unknown_tag)
{
        CASE(c, serve);

        CASE_OPEN(c, ":2");
        ASSERT_GET_FAILS(c, NULL, -ENOENT, "(404): MANIFEST_UNKNOWN: so it is");
        ASSERT_CONTAINS(c.f.error.message, "Cannot fetch the manifest of docker://127.0.0.1:");
        ASSERT_CONTAINS(c.f.error.hint, "which tags");
        ASSERT_NOT_CONTAINS(c.f.error.hint, "library/");
}

TEST(http_has_to_be_allowed)
{
        CASE(c, serve);
        char reference[128];

        snprintf(reference, sizeof(reference), "%s/app:1", c.server.host);
        ASSERT_WORKS(c.f, case_open(&c, reference, 0));
        ASSERT_GET_FAILS(c, NULL, -EKEYREJECTED, "Cannot fetch the manifest of");
        ASSERT_CONTAINS(c.f.error.hint, "--insecure-options=http");
        ASSERT_CONTAINS(c.f.error.hint, "insecure = true");
        ASSERT_EQ(c.server.n_requests, 0);
}

TEST(insecure_by_configuration)
{
        CASE(c, serve);
        char text[512];

        snprintf(text, sizeof(text),
                 "[[registry]]\nprefix = 'images.example.com/sub'\nlocation = '%s/team'\n"
                 "insecure = true\n",
                 c.server.host);
        ASSERT_OK(scratch_file(&c.f.scratch, "registries.conf", text));
        ASSERT_WORKS(c.f, case_open(&c, "images.example.com/sub/app:1", 0));
        ASSERT_GET(c, NULL, MANIFEST);
        ASSERT_CONTAINS(c.server.log, "/v2/team/app/manifests/1");
        ASSERT_STREQ(c.source->reference, "docker://images.example.com/sub/app:1");
        ASSERT_CONTAINS(notes(&c), "registries.conf has insecure = true for it");
        ASSERT_NOT_CONTAINS(notes(&c), "--insecure-options");
}

/* --- Lies ---------------------------------------------------------------------------------------------- */

static void serve_other(const ServerRequest *q, ServerAnswer *a)
{
        a->body = OTHER;
        if (endswith(q->path, "/claims"))
                add_header(a, "Docker-Content-Digest: %s", digest_of(MANIFEST));
        else if (endswith(q->path, "/garbage"))
                add_header(a, "Docker-Content-Digest: sha256:../../x");
}

TEST(wrong_digests)
{
        static const char *const tags[] = {":claims", ":garbage"};

        for (size_t i = 0; i < ELEMENTSOF(tags); i++) {
                CASE(c, serve_other);

                CASE_OPEN(c, tags[i]);
                ASSERT_GET_FAILS(c, NULL, -EBADMSG, "but it says '");
                ASSERT_GET_FAILS(c, digest_of(MANIFEST), -EBADMSG, "sends as the manifest sha256:");
                ASSERT_GET_FAILS(c, "sha256:../../x", -EINVAL, "64 hex digits");
        }
}

static void serve_endless(const ServerRequest *q, ServerAnswer *a)
{
        a->endless = true;
}

TEST(endless_documents)
{
        CASE(c, serve_endless);
        _cleanup_free_ char *blob = NULL;

        CASE_OPEN(c, ":1");
        ASSERT_GET_FAILS(c, NULL, -EFBIG, "larger than 4194304 bytes");
        ASSERT_ERR(get_blob(&c, BLOB, 100, &blob), -EFBIG);
        ASSERT_ERR(get_blob(&c, "", 0, &blob), -EFBIG);
        ASSERT_EQ(count_entries(c.f.store, "downloads"), 0);
}

TEST(blobs_of_another_size)
{
        CASE(c, serve);
        _cleanup_free_ char *blob = NULL;

        CASE_OPEN(c, ":1");
        ASSERT_ERR(get_blob(&c, BLOB, strlen(BLOB) + 1, &blob), -EBADMSG);
        ASSERT_CONTAINS(c.f.error.message, "has 22 bytes at the registry '127.0.0.1:");
        ASSERT_CONTAINS(c.f.error.message, "but the manifest says 23");
        ASSERT_ERR(get_blob(&c, BLOB, strlen(BLOB) - 1, &blob), -EFBIG);
        ASSERT_EQ(count_entries(c.f.store, "downloads"), 0);
}

static void serve_html(const ServerRequest *q, ServerAnswer *a)
{
        a->status = 404;
        a->body = "<html>\x1b[2J</html>";
}

TEST(errors_that_are_no_documents)
{
        CASE(c, serve_html);

        CASE_OPEN(c, ":1");
        ASSERT_GET_FAILS(c, NULL, -ENOENT, "404");
        ASSERT_NOT_CONTAINS(c.f.error.message, "html");
        ASSERT_CONTAINS(c.f.error.hint, "registries.conf");
}

static void serve_too_many(const ServerRequest *q, ServerAnswer *a)
{
        if (q->number < 2) {
                say_error(a, 429, "TOOMANYREQUESTS");
                add_header(a, "Retry-After: 0");
        } else
                serve(q, a);
}

static void serve_always_too_many(const ServerRequest *q, ServerAnswer *a)
{
        say_error(a, 429, "TOOMANYREQUESTS");
}

TEST(too_many_requests)
{
        {
                CASE(c, serve_too_many);
                CASE_OPEN(c, ":1");
                ASSERT_GET(c, NULL, MANIFEST);
                ASSERT_EQ(c.server.n_requests, 2);
        }
        CASE(c, serve_always_too_many);
        CASE_OPEN(c, ":1");
        ASSERT_GET_FAILS(c, NULL, -EBUSY, "TOOMANYREQUESTS: so it is");
        ASSERT_CONTAINS(c.f.error.hint, "Wait, or give credentials");
        ASSERT_LE(c.server.n_requests, 5);
}

/* --- Tokens -------------------------------------------------------------------------------------------- */

static const char *token_realm; /* NULL: this registry's own */
static const char *token_reply;
static const char *required; /* the token that is right */
static char last_form[512];

static void serve_with_token(const ServerRequest *q, ServerAnswer *a)
{
        char wanted[128];

        snprintf(wanted, sizeof(wanted), "Bearer %s", required);
        if (streq(q->method, "POST"))
                snprintf(last_form, sizeof(last_form), "%s", q->form);
        if (streq(q->path, "/token"))
                a->body = token_reply;
        else if (streq(q->authorization, wanted))
                serve(q, a);
        else {
                say_error(a, 401, "UNAUTHORIZED");
                if (token_realm)
                        add_header(a, "WWW-Authenticate: Bearer realm=\"%s\",service=\"s p\"", token_realm);
                else
                        add_header(a,
                                   "WWW-Authenticate: Bearer realm=\"http://%s/token\",service=\"s p\","
                                   "scope=\"repository:team/app:pull\"",
                                   current->server.host);
        }
}

static void token_case(const char *realm, const char *reply, const char *right)
{
        token_realm = realm;
        token_reply = reply;
        required = right;
}

TEST(anonymous_token)
{
        CASE(c, serve_with_token);
        _cleanup_free_ char *blob = NULL;

        token_case(NULL, "{\"token\": \"abc\", \"expires_in\": 300}", "abc");
        CASE_OPEN(c, ":1");
        ASSERT_GET(c, NULL, MANIFEST);
        ASSERT_WORKS(c.f, get_blob(&c, BLOB, strlen(BLOB), &blob));
        /* One refusal, one token, then no more of either. */
        ASSERT_EQ(c.server.n_requests, 4);
        ASSERT_CONTAINS(c.server.log, "GET /token?service=s p&scope=repository:team/app:pull \n");
}

TEST(token_with_credentials)
{
        CASE(c, serve_with_token);
        char text[256];

        token_case(NULL, "{\"access_token\": \"abc\"}", "abc");
        snprintf(text, sizeof(text), "{\"auths\":{\"%s/team\":{\"auth\":\"dXNlcjpzZWNyZXQ=\"}}}",
                 c.server.host);
        ASSERT_OK(scratch_file(&c.f.scratch, "auth.json", text));
        ASSERT_EQ(fchmodat(c.f.scratch.fd, "auth.json", 0600, 0), 0);
        CASE_OPEN(c, ":1");
        ASSERT_GET(c, NULL, MANIFEST);
        ASSERT_CONTAINS(c.server.log, "scope=repository:team/app:pull Basic dXNlcjpzZWNyZXQ=\n");
        ASSERT_CONTAINS(c.server.log, "/manifests/1 Bearer abc\n");
        ASSERT_NOT_CONTAINS(notes(&c), "secret");
}

/* A token may be taken back before its time. */
TEST(token_that_is_refused_later)
{
        CASE(c, serve_with_token);

        token_case(NULL, "{\"token\": \"first\"}", "first");
        CASE_OPEN(c, ":1");
        ASSERT_GET(c, NULL, MANIFEST);
        token_case(NULL, "{\"token\": \"second\"}", "second");
        ASSERT_GET(c, digest_of(MANIFEST), MANIFEST);
        ASSERT_EQ(c.server.n_requests, 6);
}

TEST(refusals_do_not_go_in_circles)
{
        CASE(c, serve_with_token);

        token_case(NULL, "{\"token\": \"abc\"}", "another");
        CASE_OPEN(c, ":1");
        ASSERT_GET_FAILS(c, NULL, -EACCES, "(401): UNAUTHORIZED");
        ASSERT_CONTAINS(c.f.error.hint, "auth.d");
        ASSERT_EQ(c.server.n_requests, 3);
        ASSERT_NOT_CONTAINS(c.f.error.message, "abc");
}

TEST(token_services_that_answer_nonsense)
{
        static const char *const replies[] = {"", "<html>", "{}", "{\"token\": \"a\\r\\nHost: x\"}",
                                              "[\"token\"]"};

        for (size_t i = 0; i < ELEMENTSOF(replies); i++) {
                CASE(c, serve_with_token);

                token_case(NULL, replies[i], "abc");
                CASE_OPEN(c, ":1");
                ASSERT_GET_FAILS(c, NULL, -EBADMSG, "its token service 'http://127.0.0.1:");
                ASSERT_EQ(c.server.n_requests, 2);
        }
}

TEST(realms_that_are_refused)
{
        static const struct {
                const char *realm;
                int code;
        } cases[] = {{"", -EBADMSG},
                     {"file:///etc/shadow", -EPROTONOSUPPORT},
                     {"ftp://example.com/", -EPROTONOSUPPORT},
                     {"/token", -EINVAL},
                     {"http://127.0.0.1:1/#fragment", -EINVAL}};

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                CASE(c, serve_with_token);

                token_case(cases[i].realm, "", "abc");
                CASE_OPEN(c, ":1");
                ASSERT_GET_FAILS(c, NULL, cases[i].code, "it requires a token");
                ASSERT_EQ(c.server.n_requests, 1);
        }
}

/* The registry names a token service on another host. It gets the credentials for the registry, not those
 * for that host: the operator of the registry must not get tokens with credentials for other hosts. */
TEST(realm_on_another_host)
{
        CASE(c, serve_with_token);
        char text[512], realm[64];

        snprintf(realm, sizeof(realm), "http://%s/token", c.second.host);
        token_case(realm, "{\"token\": \"abc\"}", "abc");
        snprintf(text, sizeof(text), "{\"auths\":{\"%s\":{\"auth\":\"dGhlaXJzOng=\"}}}", c.second.host);
        ASSERT_OK(scratch_file(&c.f.scratch, "auth.json", text));
        ASSERT_EQ(fchmodat(c.f.scratch.fd, "auth.json", 0600, 0), 0);
        ASSERT_EQ(mkdirat(c.f.scratch.fd, "auth.d", 0700), 0);
        snprintf(text, sizeof(text), "[Host]\nName=%s\nUser=theirs\nPassword=x\n", c.second.host);
        ASSERT_OK(scratch_file(&c.f.scratch, "auth.d/second.conf", text));
        ASSERT_EQ(fchmodat(c.f.scratch.fd, "auth.d/second.conf", 0600, 0), 0);
        CASE_OPEN(c, ":1");
        ASSERT_GET(c, NULL, MANIFEST);
        ASSERT_STREQ(c.second.log, "GET /token?service=s p&scope=repository:team/app:pull \n");
}

/* An identity token goes into a form, not into a URL. */
TEST(identity_token)
{
        CASE(c, serve_with_token);
        char text[256];

        token_case(NULL, "{\"token\": \"abc\"}", "abc");
        snprintf(text, sizeof(text),
                 "{\"auths\":{\"%s\":{\"auth\":\"YTpi\",\"identitytoken\":\"refresh me\"}}}", c.server.host);
        ASSERT_OK(scratch_file(&c.f.scratch, "auth.json", text));
        ASSERT_EQ(fchmodat(c.f.scratch.fd, "auth.json", 0600, 0), 0);
        CASE_OPEN(c, ":1");
        ASSERT_GET(c, NULL, MANIFEST);
        ASSERT_CONTAINS(c.server.log, "POST /token \n");
        ASSERT_STREQ(last_form, "grant_type=refresh_token&client_id=acnspawn&service=s%20p&"
                                "scope=repository%3Ateam%2Fapp%3Apull&refresh_token=refresh%20me");
        ASSERT_NOT_CONTAINS(c.server.log, "refresh");
}

static void serve_moved_token(const ServerRequest *q, ServerAnswer *a)
{
        serve_with_token(q, a);
        if (streq(q->path, "/token")) {
                a->status = 307;
                add_header(a, "Location: http://%s/token", current->second.host);
        }
}

/* The content of a form is sent to the given host only. */
TEST(identity_token_and_redirect)
{
        CASE(c, serve_moved_token);
        char text[256];

        token_case(NULL, "{\"token\": \"abc\"}", "abc");
        snprintf(text, sizeof(text), "{\"auths\":{\"%s\":{\"identitytoken\":\"refresh\"}}}", c.server.host);
        ASSERT_OK(scratch_file(&c.f.scratch, "auth.json", text));
        ASSERT_EQ(fchmodat(c.f.scratch.fd, "auth.json", 0600, 0), 0);
        CASE_OPEN(c, ":1");
        ASSERT_GET_FAILS(c, NULL, -EPROTO, "it redirects (307) a POST request");
        ASSERT_STREQ(c.second.log, "");
}

/* --- Basic --------------------------------------------------------------------------------------------- */

static void serve_basic(const ServerRequest *q, ServerAnswer *a)
{
        if (streq(q->authorization, "Basic dXNlcjpzZWNyZXQ="))
                serve(q, a);
        else {
                say_error(a, 401, "UNAUTHORIZED");
                add_header(a, "WWW-Authenticate: Basic realm=\"x\"");
        }
}

TEST(basic)
{
        CASE(c, serve_basic);
        _cleanup_free_ char *blob = NULL;
        char text[256];

        ASSERT_EQ(mkdirat(c.f.scratch.fd, "auth.d", 0700), 0);
        snprintf(text, sizeof(text), "[Host]\nName=%s\nUser=user\nPassword=secret\n", c.server.host);
        ASSERT_OK(scratch_file(&c.f.scratch, "auth.d/x.conf", text));
        ASSERT_EQ(fchmodat(c.f.scratch.fd, "auth.d/x.conf", 0600, 0), 0);
        CASE_OPEN(c, ":1");
        ASSERT_GET(c, NULL, MANIFEST);
        ASSERT_WORKS(c.f, get_blob(&c, BLOB, strlen(BLOB), &blob));
        ASSERT_EQ(c.server.n_requests, 3);
}

TEST(basic_with_wrong_password)
{
        CASE(c, serve_basic);
        char text[256];

        snprintf(text, sizeof(text), "{\"auths\":{\"%s\":{\"auth\":\"dXNlcjp3cm9uZw==\"}}}", c.server.host);
        ASSERT_OK(scratch_file(&c.f.scratch, "auth.json", text));
        ASSERT_EQ(fchmodat(c.f.scratch.fd, "auth.json", 0600, 0), 0);
        CASE_OPEN(c, ":1");
        ASSERT_GET_FAILS(c, NULL, -EACCES, "401");
        ASSERT_CONTAINS(c.f.error.hint, "auth.json");
        ASSERT_NOT_CONTAINS(c.f.error.message, "wrong");
        ASSERT_EQ(c.server.n_requests, 2);
        /* The next request is refused as well, without unnecessary requests. */
        ASSERT_GET_FAILS(c, NULL, -EACCES, "it does not take the credentials from ");
        ASSERT_CONTAINS(c.f.error.message, "/auth.json, which were sent (401)");
        ASSERT_EQ(c.server.n_requests, 3);
}

/* Files written by podman and docker are read only if they are not accessible to others, like auth.d. */
TEST(credentials_that_others_can_read)
{
        CASE(c, serve_basic);
        char text[256];

        snprintf(text, sizeof(text), "{\"auths\":{\"%s\":{\"auth\":\"dXNlcjpzZWNyZXQ=\"}}}", c.server.host);
        ASSERT_OK(scratch_file(&c.f.scratch, "auth.json", text));
        ASSERT_EQ(fchmodat(c.f.scratch.fd, "auth.json", 0640, 0), 0);
        CASE_OPEN(c, ":1");
        ASSERT_GET_FAILS(c, NULL, -EPERM,
                         "auth.json is not read for credentials: others may read or write it");
        ASSERT_CONTAINS(c.f.error.hint, "chmod 0600 ");
        ASSERT_EQ(c.server.n_requests, 1);
}

TEST(basic_without_credentials)
{
        CASE(c, serve_basic);

        CASE_OPEN(c, ":1");
        ASSERT_GET_FAILS(c, NULL, -EACCES, "there are no credentials for it (401)");
        ASSERT_CONTAINS(c.f.error.hint, "auth.d");
        ASSERT_EQ(c.server.n_requests, 1);
}

static void serve_odd_challenge(const ServerRequest *q, ServerAnswer *a)
{
        say_error(a, 401, "UNAUTHORIZED");
        if (endswith(q->path, "/negotiate"))
                add_header(a, "WWW-Authenticate: Negotiate");
        else if (endswith(q->path, "/broken"))
                add_header(a, "WWW-Authenticate: Bearer realm=\"x");
}

TEST(odd_challenges)
{
        static const struct {
                const char *tag, *why;
                int code;
        } cases[] = {{":negotiate", "by the scheme 'Negotiate', which is not supported", -EACCES},
                     {":broken", "header of its reply is not valid", -EBADMSG},
                     {":none", "does not say by which scheme", -EACCES}};

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                CASE(c, serve_odd_challenge);

                CASE_OPEN(c, cases[i].tag);
                ASSERT_GET_FAILS(c, NULL, cases[i].code, cases[i].why);
                ASSERT_EQ(c.server.n_requests, 1);
        }
}

/* --- Other hosts --------------------------------------------------------------------------------------- */

/* Blobs are on another host, as for registries that keep them in an object store. */
static void serve_redirects(const ServerRequest *q, ServerAnswer *a)
{
        if (streq(q->path, "/store"))
                a->body = BLOB;
        else if (!streq(q->authorization, "Basic dXNlcjpzZWNyZXQ="))
                serve_basic(q, a);
        else {
                a->status = 307;
                add_header(a, "Location: http://%s/store?signature=x", current->second.host);
        }
}

TEST(redirected_blobs)
{
        CASE(c, serve_redirects);
        _cleanup_free_ char *blob = NULL;
        char text[256];

        snprintf(text, sizeof(text), "{\"auths\":{\"%s\":{\"auth\":\"dXNlcjpzZWNyZXQ=\"}}}", c.server.host);
        ASSERT_OK(scratch_file(&c.f.scratch, "auth.json", text));
        ASSERT_EQ(fchmodat(c.f.scratch.fd, "auth.json", 0600, 0), 0);
        CASE_OPEN(c, ":1");
        ASSERT_WORKS(c.f, get_blob(&c, BLOB, strlen(BLOB), &blob));
        ASSERT_STREQ(blob, BLOB);
        ASSERT_STREQ(c.second.log, "GET /store?signature=x \n");
}

/* What was asked for is elsewhere, where a challenge names a token service of its own. */
static void serve_challenge_elsewhere(const ServerRequest *q, ServerAnswer *a)
{
        if (startswith(q->path, "/v2/")) {
                a->status = 307;
                add_header(a, "Location: http://%s/store", current->second.host);
        } else if (streq(q->path, "/token"))
                a->body = "{\"token\": \"abc\"}";
        else {
                say_error(a, 401, "UNAUTHORIZED");
                add_header(a, "WWW-Authenticate: %s realm=\"http://%s/token\",service=\"x\"",
                           current->second.n_requests > 1 ? "Basic" : "Bearer", current->second.host);
        }
}

TEST(challenge_of_a_redirects_target)
{
        static const char *const credentials[] = {"\"auth\":\"dXNlcjpzZWNyZXQ=\"",
                                                  "\"identitytoken\":\"refresh\""};

        for (size_t i = 0; i < ELEMENTSOF(credentials); i++) {
                CASE(c, serve_challenge_elsewhere);
                _cleanup_free_ char *blob = NULL;
                char text[256];

                snprintf(text, sizeof(text), "{\"auths\":{\"%s\":{%s}}}", c.server.host, credentials[i]);
                ASSERT_OK(scratch_file(&c.f.scratch, "auth.json", text));
                ASSERT_EQ(fchmodat(c.f.scratch.fd, "auth.json", 0600, 0), 0);
                CASE_OPEN(c, ":1");
                ASSERT_GET_FAILS(c, NULL, -EACCES, "/store': the server requires authentication (401)");
                ASSERT_NOT_CONTAINS(c.f.error.message, "so it is"); /* which the registry did not say */
                ASSERT_CONTAINS(c.f.error.hint, "redirects to that server, which does not get");
                ASSERT_EQ(get_blob(&c, BLOB, strlen(BLOB), &blob), -EACCES);
                ASSERT_STREQ(c.second.log, "GET /store \nGET /store \n");
                ASSERT_EQ(c.server.n_requests, 2);
        }
}

static int write_mirrors(Case *c);

/* The target of a redirect that cannot be reached is not the registry. */
static void serve_dead_end(const ServerRequest *q, ServerAnswer *a)
{
        if (startswith(q->path, "/v2/mirror/") && !strstr(q->path, "/blobs/"))
                say_error(a, 404, "NAME_UNKNOWN");
        else if (strstr(q->path, "/blobs/")) {
                a->status = 307;
                add_header(a, "Location: http://127.0.0.1:1/store");
        } else
                serve(q, a);
}

TEST(unreachable_target_of_a_redirect)
{
        CASE(c, serve_dead_end);
        _cleanup_free_ char *blob = NULL;

        ASSERT_OK(write_mirrors(&c));
        ASSERT_WORKS(c.f, case_open(&c, "images.example.com/app:1", 0));
        ASSERT_EQ(get_blob(&c, BLOB, strlen(BLOB), &blob), -ECONNREFUSED);
        ASSERT_CONTAINS(c.f.error.message, "'127.0.0.1:1' refuses the connection");
        unsigned n = c.server.n_requests;
        ASSERT_GET(c, NULL, MANIFEST);
        ASSERT_EQ(c.server.n_requests, n + 2); /* of the mirror, and of the registry */
}

/* The first mirror does not respond, the second has no or different content, the third endpoint is the
 * registry. */
static void serve_mirrors(const ServerRequest *q, ServerAnswer *a)
{
        if (startswith(q->path, "/v2/mirror/") && strstr(q->path, "manifests/sha256:"))
                a->body = OTHER;
        else if (startswith(q->path, "/v2/mirror/"))
                say_error(a, 404, "NAME_UNKNOWN");
        else
                serve(q, a);
}

static int write_mirrors(Case *c)
{
        char text[1024];

        snprintf(text, sizeof(text),
                 "[[registry]]\nprefix = 'images.example.com'\nlocation = '%s/own'\ninsecure = true\n"
                 "[[registry.mirror]]\nlocation = '127.0.0.1:1'\ninsecure = true\n"
                 "[[registry.mirror]]\nlocation = '%s/mirror'\ninsecure = true\n",
                 c->server.host, c->server.host);
        return scratch_file(&c->f.scratch, "registries.conf", text);
}

TEST(mirrors)
{
        CASE(c, serve_mirrors);
        _cleanup_free_ char *blob = NULL;

        ASSERT_OK(write_mirrors(&c));
        ASSERT_WORKS(c.f, case_open(&c, "images.example.com/app:1", 0));
        ASSERT_GET(c, NULL, MANIFEST);
        ASSERT_CONTAINS(notes(&c), "The mirror '127.0.0.1:1' failed, trying the next: ");
        ASSERT_CONTAINS(notes(&c), "NAME_UNKNOWN: so it is");
        ASSERT_EQ(c.server.n_requests, 2);
        /* Later requests are sent to the endpoint of the manifest. */
        ASSERT_WORKS(c.f, get_blob(&c, BLOB, strlen(BLOB), &blob));
        ASSERT_CONTAINS(c.server.log, "GET /v2/own/app/blobs/sha256:");
        ASSERT_EQ(c.server.n_requests, 3);
}

TEST(mirror_with_something_else)
{
        CASE(c, serve_mirrors);
        char reference[256];

        ASSERT_OK(write_mirrors(&c));
        snprintf(reference, sizeof(reference), "images.example.com/app@%s", digest_of(MANIFEST));
        ASSERT_WORKS(c.f, case_open(&c, reference, 0));
        ASSERT_GET(c, NULL, MANIFEST);
        ASSERT_CONTAINS(notes(&c), "has the digest");
        /* If no endpoint has it, the error is that of the registry itself. */
        ASSERT_GET_FAILS(c, digest_of("x"), -ENOENT, "MANIFEST_UNKNOWN");
}

/* --- Threads ------------------------------------------------------------------------------------------- */

typedef struct Reader {
        Case *c;
        unsigned number;
        int result;
        pthread_t thread;
} Reader;

static void *read_blob(void *userdata)
{
        Reader *r = userdata;
        _cleanup_close_ int fd = -EBADF;
        char digest[80];

        /* Different ones, as the layers of an image are. */
        snprintf(digest, sizeof(digest), "sha256:%064x", r->number);
        OciDescriptor d = {.digest = digest, .size = strlen(BLOB)};
        r->result = r->c->source->vtable->open_blob(r->c->source, &d, &fd, NULL);
        return NULL;
}

/* All of them are refused at first; one token is sufficient for all. */
TEST(one_token_for_all_threads)
{
        CASE(c, serve_with_token);
        Reader readers[8] = {};
        unsigned n = 0;

        token_case(NULL, "{\"token\": \"abc\"}", "abc");
        CASE_OPEN(c, ":1");
        for (size_t i = 0; i < ELEMENTSOF(readers); i++) {
                readers[i].c = &c;
                readers[i].number = (unsigned) i;
                ASSERT_EQ(pthread_create(&readers[i].thread, NULL, read_blob, readers + i), 0);
        }
        for (size_t i = 0; i < ELEMENTSOF(readers); i++)
                pthread_join(readers[i].thread, NULL);
        for (size_t i = 0; i < ELEMENTSOF(readers); i++)
                ASSERT_OK(readers[i].result);
        for (const char *p = c.server.log; (p = strstr(p, "/token")); p++)
                n++;
        ASSERT_EQ(n, 1);
}

int main(void)
{
        RUN(manifest_and_blob);
        RUN(unchanged_costs_one_request);
        RUN(reference_by_digest);
        RUN(reference_by_digest_without_credentials);
        RUN(reference_by_digest_that_is_gone);
        RUN(unknown_tag);
        RUN(http_has_to_be_allowed);
        RUN(insecure_by_configuration);
        RUN(wrong_digests);
        RUN(endless_documents);
        RUN(blobs_of_another_size);
        RUN(errors_that_are_no_documents);
        RUN(too_many_requests);
        RUN(anonymous_token);
        RUN(token_with_credentials);
        RUN(token_that_is_refused_later);
        RUN(refusals_do_not_go_in_circles);
        RUN(token_services_that_answer_nonsense);
        RUN(realms_that_are_refused);
        RUN(realm_on_another_host);
        RUN(identity_token);
        RUN(identity_token_and_redirect);
        RUN(basic);
        RUN(basic_with_wrong_password);
        RUN(credentials_that_others_can_read);
        RUN(basic_without_credentials);
        RUN(odd_challenges);
        RUN(redirected_blobs);
        RUN(challenge_of_a_redirects_target);
        RUN(unreachable_target_of_a_redirect);
        RUN(mirrors);
        RUN(mirror_with_something_else);
        RUN(one_token_for_all_threads);
        return TEST_END();
}
