/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Credentials: the files they are read from, the hosts they are sent to, and that they are not disclosed to
 * others. */

#include <sys/stat.h>

#include "tests/unit/transfer-fixture.h"

#define SECRET "s3cret-word"

static void serve_ok(Connection *c)
{
        answer(c, "200 OK", "", "ok");
}

static void serve_failure(Connection *c)
{
        answer(c, "401 Unauthorized", "", "");
}

/* auth.d/NAME with FORMAT, whose one %u is the server's port. */
__attribute__((format(printf, 4, 0))) static int write_auth(const Net *n, const char *name, const Server *s,
                                                            const char *format)
{
        char text[2048];

        snprintf(text, sizeof(text), format, s->port);
        return net_auth(n, name, text, 0600);
}

static const char *sent(const Server *s, char *buffer, size_t size)
{
        return asked(s->last, "Authorization", buffer, size);
}

/* --- From files ---------------------------------------------------------------------------------------- */

TEST(configured)
{
        SERVER(s, serve_ok);
        NET(n, INSECURE_HTTP);
        char value[256];

        ASSERT_OK(write_auth(&n, "a.conf", &s,
                             "# a comment\n; another\n\n[Host]\n Name = other.example.com 127.0.0.1:%u \n"
                             "User=alice\nPassword=" SECRET " =x \n[Host]\nName=example.org\nToken=abc\n"));
        ASSERT_OK(net_get(&n, &s, "/"));
        /* alice:s3cret-word =x */
        ASSERT_STREQ(sent(&s, value, sizeof(value)), "Basic YWxpY2U6czNjcmV0LXdvcmQgPXg=");
        /* An argument takes precedence over the configuration; "" is an empty one. */
        n.request.authorization = "Bearer given";
        ASSERT_OK(net_get(&n, &s, "/"));
        ASSERT_STREQ(sent(&s, value, sizeof(value)), "Bearer given");
        n.request.authorization = "";
        ASSERT_OK(net_get(&n, &s, "/"));
        ASSERT_NULL(sent(&s, value, sizeof(value)));
}

TEST(looked_up)
{
        NET(n, 0);
        const Server s = {.port = 8443};
        char *value = NULL;

        ASSERT_OK(write_auth(&n, "a.conf", &s,
                             "[Host]\nName=Example.COM\nName=[::1]:%u\nToken=abc\n"
                             "[Host]\nName=example.com:8443\nToken=def\n"));
        ASSERT_EQ(transfer_authorization(n.transfer, "https://example.com/x", &value, NULL, &n.error), 1);
        ASSERT_STREQ(value, "Bearer abc");
        value = authorization_free(value);
        ASSERT_EQ(transfer_authorization(n.transfer, "https://EXAMPLE.com.:443/", &value, NULL, &n.error),
                  1);
        value = authorization_free(value);
        ASSERT_EQ(transfer_authorization(n.transfer, "https://[::1]:8443/", &value, NULL, &n.error), 1);
        value = authorization_free(value);
        ASSERT_EQ(transfer_authorization(n.transfer, "https://example.com:8443/", &value, NULL, &n.error),
                  1);
        ASSERT_STREQ(value, "Bearer def");
        value = authorization_free(value);
        ASSERT_EQ(transfer_authorization(n.transfer, "https://example.com:8444/", &value, NULL, &n.error),
                  0);
        ASSERT_EQ(transfer_authorization(n.transfer, "https://sub.example.com/", &value, NULL, &n.error), 0);
        ASSERT_EQ(transfer_authorization(n.transfer, "https://example.com.evil.example.org/", &value, NULL,
                                         &n.error),
                  0);
        ASSERT_EQ(transfer_authorization(n.transfer, "https://example.com@example.org/", &value, NULL,
                                         &n.error),
                  0);
        ASSERT_ERR(transfer_authorization(n.transfer, "http://example.com/", &value, NULL, &n.error),
                   -EPERM);
}

TEST(rkt_documents)
{
        SERVER(s, serve_ok);
        NET(n, INSECURE_HTTP);
        char value[256];

        ASSERT_OK(write_auth(
                        &n, "basic.json", &s,
                        "{\"rktKind\": \"auth\", \"rktVersion\": \"v1\", \"domains\": [\"127.0.0.1:%u\"],"
                        "\"type\": \"basic\", \"credentials\": {\"user\": \"foo\", \"password\": "
                        "\"bar\"}}"));
        ASSERT_OK(net_get(&n, &s, "/"));
        ASSERT_STREQ(sent(&s, value, sizeof(value)), "Basic Zm9vOmJhcg==");
        ASSERT_OK(write_auth(
                        &n, "basic.json", &s,
                        "{\"rktKind\": \"auth\", \"rktVersion\": \"v1\", \"domains\": [\"127.0.0.1:%u\"],"
                        "\"type\": \"oauth\", \"credentials\": {\"token\": \"sometoken\"}}"));
        ASSERT_OK(net_open(&n, INSECURE_HTTP));
        ASSERT_OK(net_get(&n, &s, "/"));
        ASSERT_STREQ(sent(&s, value, sizeof(value)), "Bearer sometoken");
        ASSERT_OK(write_auth(&n, "basic.json", &s,
                             "{\"rktKind\": \"dockerAuth\", \"rktVersion\": \"v1\", \"registries\": "
                             "[\"127.0.0.1:%u\"],"
                             "\"credentials\": {\"user\": \"foo\", \"password\": \"bar\"}}"));
        ASSERT_OK(net_open(&n, INSECURE_HTTP));
        ASSERT_OK(net_get(&n, &s, "/"));
        ASSERT_STREQ(sent(&s, value, sizeof(value)), "Basic Zm9vOmJhcg==");
}

TEST(secrets_in_files)
{
        SERVER(s, serve_ok);
        NET(n, INSECURE_HTTP);
        char value[256], text[PATH_MAX + 256];

        ASSERT_OK(net_auth(&n, "password", "bar\n", 0600));
        snprintf(text, sizeof(text),
                 "[Host]\nName=127.0.0.1:%u\nUser=foo\nPasswordFile=%s/auth.d/password\n", s.port, n.config);
        ASSERT_OK(net_auth(&n, "a.conf", text, 0600));
        ASSERT_OK(net_get(&n, &s, "/"));
        ASSERT_STREQ(sent(&s, value, sizeof(value)), "Basic Zm9vOmJhcg==");
        ASSERT_OK(net_auth(&n, "password", "bar\n", 0644));
        ASSERT_OK(net_open(&n, INSECURE_HTTP));
        ASSERT_ERR(net_get(&n, &s, "/"), -EPERM);
        ASSERT_CONTAINS(n.error.message, "others may read or write it (mode 0644)");
        snprintf(text, sizeof(text), "[Host]\nName=127.0.0.1:%u\nClientCertificate=%s/auth.d/password\n",
                 s.port, n.config);
        ASSERT_OK(net_auth(&n, "a.conf", text, 0600));
        ASSERT_OK(net_open(&n, INSECURE_HTTP));
        ASSERT_ERR(net_get(&n, &s, "/"), -EPERM);
        ASSERT_CONTAINS(n.error.message, "others may read or write it (mode 0644)");
}

TEST(directories)
{
        SERVER(s, serve_ok);
        NET(n, INSECURE_HTTP);
        char second[PATH_MAX + 32], value[256], text[256];
        const char *const dirs[] = {n.config, second, NULL};
        const TransferOptions o = {.insecure = INSECURE_HTTP, .config_dirs = dirs};

        snprintf(second, sizeof(second), "%s/vendor", n.scratch.path);
        ASSERT_OK(scratch_dir(&n.scratch, "vendor"));
        ASSERT_OK(scratch_dir(&n.scratch, "vendor/auth.d"));
        snprintf(text, sizeof(text), "[Host]\nName=127.0.0.1:%u\nToken=vendor\n", s.port);
        ASSERT_OK(scratch_file(&n.scratch, "vendor/auth.d/v.conf", text));
        ASSERT_OK(fchmodat(n.scratch.fd, "vendor/auth.d/v.conf", 0600, 0));
        n.transfer = transfer_free(n.transfer);
        ASSERT_OK(transfer_new(&o, &n.transfer, &n.error));
        ASSERT_OK(net_get(&n, &s, "/"));
        ASSERT_STREQ(sent(&s, value, sizeof(value)), "Bearer vendor");
        /* The administrator's directory goes first. */
        ASSERT_OK(write_auth(&n, "z.conf", &s, "[Host]\nName=127.0.0.1:%u\nToken=local\n"));
        n.transfer = transfer_free(n.transfer);
        ASSERT_OK(transfer_new(&o, &n.transfer, &n.error));
        ASSERT_OK(net_get(&n, &s, "/"));
        ASSERT_STREQ(sent(&s, value, sizeof(value)), "Bearer local");
        /* A link to /dev/null hides the file of that name. */
        ASSERT_OK(unlinkat(n.scratch.fd, "config/auth.d/z.conf", 0));
        ASSERT_OK(scratch_symlink(&n.scratch, "config/auth.d/v.conf", "/dev/null"));
        n.transfer = transfer_free(n.transfer);
        ASSERT_OK(transfer_new(&o, &n.transfer, &n.error));
        ASSERT_OK(net_get(&n, &s, "/"));
        ASSERT_NULL(sent(&s, value, sizeof(value)));
}

/* --- Refused ------------------------------------------------------------------------------------------- */

static const struct {
        const char *name, *text;
        mode_t mode;
        int code;
        const char *why;
} refused[] = {
                {"a.conf", "[Host]\nName=example.com\nToken=" SECRET "\n", 0640, -EPERM, "(mode 0640)"},
                {"a.conf", "[Host]\nName=example.com\nToken=" SECRET "\n", 0604, -EPERM, "(mode 0604)"},
                {"a.conf", "Name=example.com\n", 0600, -EINVAL, "a.conf:1: a line [Host] has to come first"},
                {"a.conf", "[Hosts]\n", 0600, -EINVAL, "this section is not known"},
                {"a.conf", "[Host]\n\nPasword=" SECRET "\n", 0600, -EINVAL,
                 "a.conf:3: this key is not known"},
                {"a.conf", "[Host]\nname " SECRET "\n", 0600, -EINVAL, "neither KEY=VALUE nor [Host]"},
                {"a.conf", "[Host]\nToken=" SECRET "\n", 0600, -EINVAL, "needs a 'Name='"},
                {"a.conf", "[Host]\nName=example.com\n", 0600, -EINVAL, "no credentials in this section"},
                {"a.conf", "[Host]\nName=example.com\nUser=u\n", 0600, -EINVAL,
                 "'User=' and a password go together"},
                {"a.conf", "[Host]\nName=e.com\nToken=" SECRET "\nToken=x\n", 0600, -EINVAL, "already"},
                {"a.conf", "[Host]\nName=e.com\nToken=" SECRET " x\n", 0600, -EINVAL, "characters"},
                {"a.conf", "[Host]\nName=e.com\nToken=\n", 0600, -EINVAL, "has no value"},
                {"a.conf", "[Host]\nName=e.com\nUser=a:b\nPassword=" SECRET "\n", 0600, -EINVAL,
                 "characters"},
                {"a.conf", "[Host]\nName=e.com\nUser=a\nPassword=" SECRET "\nToken=x\n", 0600, -EINVAL,
                 "both"},
                {"a.conf", "[Host]\nName=*.example.com\nToken=" SECRET "\n", 0600, -EINVAL,
                 "is not a HOST or HOST:PORT"},
                {"a.conf", "[Host]\nName=https://example.com\nToken=x\n", 0600, -EINVAL,
                 "is not a HOST or HOST:PORT"},
                {"a.conf", "[Host]\nName=a.com A.com\nToken=" SECRET "\n", 0600, -EINVAL, "already"},
                {"a.conf", "[Host]\nName=a.com\nTokenFile=relative\n", 0600, -EINVAL, "absolute"},
                {"a.json", "{\"rktKind\":\"auth\"", 0600, -EBADMSG, "a.json"},
                {"a.json", "[]", 0600, -EINVAL, "JSON object"},
                {"a.json", "{\"rktKind\":\"paths\",\"rktVersion\":\"v1\"}", 0600, -EINVAL,
                 "'paths' does not belong"},
                {"a.json", "{\"rktKind\":\"auth\",\"rktVersion\":\"v2\"}", 0600, -EINVAL,
                 "'v2' is not known"},
                {"a.json",
                 "{\"rktKind\":\"auth\",\"rktVersion\":\"v1\",\"domains\":[\"a\"],\"type\":\"aws\","
                 "\"credentials\":{}}",
                 0600, -EINVAL, "'aws' is not known"},
                {"a.json",
                 "{\"rktKind\":\"auth\",\"rktVersion\":\"v1\",\"domains\":\"a\",\"type\":\"oauth\","
                 "\"credentials\":{\"token\":\"" SECRET "\"}}",
                 0600, -EINVAL, "list of hosts"},
                {"a.json",
                 "{\"rktKind\":\"auth\",\"rktVersion\":\"v1\",\"domains\":[\"a\"],\"type\":\"oauth\","
                 "\"credentials\":{\"token\":\"" SECRET "\\n\"}}",
                 0600, -EINVAL, "characters"},
};

TEST(files_refused)
{
        SERVER(s, serve_ok);
        NET(n, INSECURE_HTTP);

        for (size_t i = 0; i < ELEMENTSOF(refused); i++) {
                ASSERT_OK(net_auth(&n, refused[i].name, refused[i].text, refused[i].mode));
                ASSERT_OK(net_open(&n, INSECURE_HTTP));
                ASSERT_ERR(net_get(&n, &s, "/"), refused[i].code);
                ASSERT_CONTAINS(n.error.message, refused[i].why);
                ASSERT_NOT_CONTAINS(n.error.message, SECRET);
                ASSERT_NOT_CONTAINS(n.error.hint, SECRET);
                char path[64];
                snprintf(path, sizeof(path), "config/auth.d/%s", refused[i].name);
                ASSERT_OK(unlinkat(n.scratch.fd, path, 0));
        }
        ASSERT_EQ(s.n_requests, 0);
}

TEST(special_files_refused)
{
        SERVER(s, serve_ok);
        NET(n, INSECURE_HTTP);

        ASSERT_OK(mkfifoat(n.scratch.fd, "config/auth.d/a.conf", 0600));
        ASSERT_ERR(net_get(&n, &s, "/"), -EPERM);
        ASSERT_CONTAINS(n.error.message, "not a regular file");
        ASSERT_OK(unlinkat(n.scratch.fd, "config/auth.d/a.conf", 0));
        ASSERT_OK(fchmodat(n.scratch.fd, "config/auth.d", 0777, 0));
        ASSERT_ERR(net_get(&n, &s, "/"), -EPERM);
        ASSERT_CONTAINS(n.error.message, "can be written to by others");
        ASSERT_OK(fchmodat(n.scratch.fd, "config/auth.d", 0755, 0));
        ASSERT_OK(net_get(&n, &s, "/"));
}

TEST(same_host_twice)
{
        SERVER(s, serve_ok);
        NET(n, INSECURE_HTTP);

        ASSERT_OK(net_auth(&n, "a.conf", "[Host]\nName=example.com\nToken=a\n", 0600));
        ASSERT_OK(net_auth(&n, "b.conf", "[Host]\nName=example.com\nToken=b\n", 0600));
        ASSERT_ERR(net_get(&n, &s, "/"), -EINVAL);
        ASSERT_CONTAINS(n.error.message,
                        "b.conf:1: there are credentials for 'example.com' in this directory already");
}

/* --- Not disclosed to others --------------------------------------------------------------------------- */

static void serve_to_other(Connection *c)
{
        const Server *other = c->server->userdata;
        char headers[256];

        snprintf(headers, sizeof(headers), "Location: http://127.0.0.1:%u%s\r\n", other->port,
                 asks_for(c, "/back") ? "/back" : "/");
        answer(c, "302 Found", headers, "");
}

TEST(not_after_a_redirect)
{
        SERVER(other, serve_ok);
        SERVER(s, serve_to_other);
        NET(n, INSECURE_HTTP);
        char value[256], text[512];

        s.userdata = &other;
        snprintf(text, sizeof(text),
                 "[Host]\nName=127.0.0.1:%u\nToken=one\n[Host]\nName=127.0.0.1:%u\nToken=two\n", s.port,
                 other.port);
        ASSERT_OK(net_auth(&n, "a.conf", text, 0600));
        ASSERT_OK(net_get(&n, &s, "/"));
        ASSERT_STREQ(sent(&s, value, sizeof(value)), "Bearer one");
        /* A server must not be able to redirect credentials for another host to that host. */
        ASSERT_NULL(sent(&other, value, sizeof(value)));
        /* Not even by the way of another back home. */
        other.userdata = &s;
        other.handler = serve_to_other;
        ASSERT_ERR(net_get(&n, &s, "/back"), -ELOOP);
        ASSERT_NULL(sent(&s, value, sizeof(value)));
        ASSERT_NULL(sent(&other, value, sizeof(value)));
}

TEST(not_in_messages)
{
        SERVER(s, serve_failure);
        NET(n, INSECURE_HTTP);
        char url[256], value[256];

        snprintf(url, sizeof(url), "http://me:" SECRET "@127.0.0.1:%u/x", s.port);
        ASSERT_ERR(net_get_url(&n, url), -EACCES);
        ASSERT_STREQ(sent(&s, value, sizeof(value)), "Basic bWU6czNjcmV0LXdvcmQ=");
        ASSERT_NOT_CONTAINS(s.last, SECRET);
        ASSERT_NOT_CONTAINS(n.error.message, SECRET);
        ASSERT_NOT_CONTAINS(n.error.message, "me:");
        ASSERT_NOT_CONTAINS(n.reply.effective_url, SECRET);
        ASSERT_NOT_CONTAINS(n.notes.data, SECRET);
        ASSERT_ERR(net_get_url(&n, "http://me:" SECRET "@exa mple.com/"), -EINVAL);
        ASSERT_NOT_CONTAINS(n.error.message, SECRET);
        ASSERT_ERR(net_get_url(&n, "ftp://me:" SECRET "@example.com/"), -EPROTONOSUPPORT);
        ASSERT_NOT_CONTAINS(n.error.message, SECRET);
}

TEST(not_split_into_headers)
{
        SERVER(s, serve_ok);
        NET(n, INSECURE_HTTP);
        char *headers[] = {(char *) "X: a\r\nEvil: b", NULL};

        n.request.authorization = "Bearer a\r\nEvil: b";
        ASSERT_ERR(net_get(&n, &s, "/"), -EINVAL);
        n.request.authorization = NULL;
        n.request.headers = headers;
        ASSERT_ERR(net_get(&n, &s, "/"), -EINVAL);
        n.request.headers = NULL;
        ASSERT_ERR(net_get_url(&n, "http://a%0d%0ab:c@127.0.0.1/"), -EINVAL);
        ASSERT_EQ(s.n_requests, 0);
}

int main(void)
{
        RUN(configured);
        RUN(looked_up);
        RUN(rkt_documents);
        RUN(secrets_in_files);
        RUN(directories);
        RUN(files_refused);
        RUN(special_files_refused);
        RUN(same_host_twice);
        RUN(not_after_a_redirect);
        RUN(not_in_messages);
        RUN(not_split_into_headers);
        return TEST_END();
}
