/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* TLS: accepted certificates, and the messages about others; no redirect from https to http. */

#include "tests/unit/transfer-fixture.h"

#define DAY (24 * 3600L)

static void serve_ok(Connection *c)
{
        answer(c, "200 OK", "ETag: \"a\"\r\n", "ok");
}

static void serve_to_http(Connection *c)
{
        const Server *other = c->server->userdata;
        char headers[256];

        snprintf(headers, sizeof(headers), "Location: http://127.0.0.1:%u/plain\r\n", other->port);
        answer(c, "302 Found", headers, "");
}

static void serve_to_https(Connection *c)
{
        const Server *other = c->server->userdata;
        char headers[256];

        snprintf(headers, sizeof(headers), "Location: https://127.0.0.1:%u/safe\r\n", other->port);
        answer(c, "302 Found", headers, "");
}

/* A server with a certificate, which VARIABLE names as trusted; NULL: it is not trusted. */
static int start(Server *s, Net *n, const char *names, long from, long to, const char *variable,
                 unsigned insecure)
{
        char path[PATH_MAX + 16];

        snprintf(path, sizeof(path), "%s/ca.pem", n->scratch.path);
        s->tls = make_tls(names, from, to, path);
        if (!s->tls)
                return -EIO;
        if (variable)
                (void) setenv(variable, path, 1);
        else
                (void) setenv("CURL_CA_BUNDLE", "/etc/ssl/certs/ca-certificates.crt", 1);
        int r = server_start(s);
        return r < 0 ? r : net_open(n, insecure);
}

#define TLS_SERVER(s, n, names, from, to, variable, insecure)                                               \
        _cleanup_(server_done) Server s = {.fd = -1};                                                       \
        ASSERT_OK(server_listen(&s, serve_ok));                                                             \
        NET(n, 0);                                                                                          \
        ASSERT_OK(start(&s, &n, names, from, to, variable, insecure))

TEST(trusted)
{
        static const char *const variables[] = {"CURL_CA_BUNDLE", "SSL_CERT_FILE"};

        for (size_t i = 0; i < ELEMENTSOF(variables); i++) {
                TLS_SERVER(s, n, "IP:127.0.0.1", -DAY, DAY, variables[i], 0);
                ASSERT_OK(net_get(&n, &s, "/"));
                ASSERT_STREQ(n.body, "ok");
                ASSERT_NULL(n.notes.data);
                ASSERT_OK(net_download(&n, &s, "/"));
        }
}

TEST(another_name)
{
        TLS_SERVER(s, n, "DNS:example.com", -DAY, DAY, "CURL_CA_BUNDLE", 0);

        n.request.what = "the image example.com/app";
        ASSERT_ERR(net_get(&n, &s, "/"), -EKEYREJECTED);
        ASSERT_CONTAINS(n.error.message, "Cannot fetch the image example.com/app from 'https://127.0.0.1:");
        ASSERT_CONTAINS(n.error.message, "the certificate that the server shows is not one for '127.0.0.1:");
        ASSERT_EQ(s.n_requests, 0);
}

TEST(expired)
{
        TLS_SERVER(s, n, "IP:127.0.0.1", -2 * DAY, -DAY, "CURL_CA_BUNDLE", 0);

        ASSERT_ERR(net_get(&n, &s, "/"), -EKEYREJECTED);
        ASSERT_CONTAINS(n.error.message, "has expired");
        ASSERT_CONTAINS(n.error.hint, "clock");
        ASSERT_EQ(s.n_requests, 0);
}

TEST(not_valid_yet)
{
        TLS_SERVER(s, n, "IP:127.0.0.1", DAY, 2 * DAY, "CURL_CA_BUNDLE", 0);

        ASSERT_ERR(net_get(&n, &s, "/"), -EKEYREJECTED);
        ASSERT_CONTAINS(n.error.message, "is not valid yet");
}

TEST(unknown_authority)
{
        if (access("/etc/ssl/certs/ca-certificates.crt", R_OK) < 0)
                TEST_SKIP("the package ca-certificates is not installed");
        TLS_SERVER(s, n, "IP:127.0.0.1", -DAY, DAY, NULL, 0);

        ASSERT_ERR(net_get(&n, &s, "/"), -EKEYREJECTED);
        ASSERT_CONTAINS(n.error.message, "is self-signed");
        ASSERT_CONTAINS(n.error.hint, "CURL_CA_BUNDLE");
        ASSERT_NULL(n.notes.data); /* no second try */
}

TEST(authorities_cannot_be_read)
{
        TLS_SERVER(s, n, "IP:127.0.0.1", -DAY, DAY, "CURL_CA_BUNDLE", 0);

        (void) setenv("CURL_CA_BUNDLE", "/does/not/exist.pem", 1);
        ASSERT_OK(net_open(&n, 0));
        ASSERT_ERR(net_get(&n, &s, "/"), -EKEYREJECTED);
        ASSERT_CONTAINS(n.error.message, "trusted authorities cannot be read");
}

TEST(unchecked)
{
        TLS_SERVER(s, n, "DNS:example.com", -2 * DAY, -DAY, NULL, INSECURE_TLS);

        ASSERT_OK(net_get(&n, &s, "/"));
        ASSERT_CONTAINS(n.notes.data, "--insecure-options=tls");
        size_t size = n.notes.size;
        ASSERT_OK(net_get(&n, &s, "/"));
        ASSERT_EQ(n.notes.size, size);
}

/* Even where http is allowed. */
TEST(to_http)
{
        SERVER(plain, serve_ok);
        TLS_SERVER(s, n, "IP:127.0.0.1", -DAY, DAY, "CURL_CA_BUNDLE", INSECURE_HTTP);
        char from[64], to[64];

        s.userdata = &plain;
        s.handler = serve_to_http;
        net_url(&s, "/x", from, sizeof(from));
        net_url(&plain, "/plain", to, sizeof(to));
        ASSERT_ERR(net_get(&n, &s, "/x"), -EPERM);
        ASSERT_CONTAINS(n.error.message, from);
        ASSERT_CONTAINS(n.error.message, to);
        ASSERT_CONTAINS(n.error.message, "from https to http");
        ASSERT_EQ(plain.n_requests, 0);
        ASSERT_ERR(net_download(&n, &s, "/x"), -EPERM);
        ASSERT_EQ(plain.n_requests, 0);
}

TEST(from_http_to_https)
{
        _cleanup_(server_done) Server plain = {.fd = -1};
        TLS_SERVER(s, n, "IP:127.0.0.1", -DAY, DAY, "CURL_CA_BUNDLE", INSECURE_HTTP);

        ASSERT_OK(server_listen(&plain, serve_to_https));
        plain.userdata = &s;
        ASSERT_OK(server_start(&plain));
        ASSERT_OK(net_get(&n, &plain, "/"));
        ASSERT_STREQ(n.body, "ok");
        ASSERT_CONTAINS(n.reply.effective_url, "https://");
}

/* A server with another protocol, and a client that expects TLS. */
TEST(no_tls)
{
        SERVER(plain, serve_ok);
        NET(n, 0);
        char url[64];

        snprintf(url, sizeof(url), "https://127.0.0.1:%u/", plain.port);
        ASSERT_ERR(net_get_url(&n, url), -EKEYREJECTED);
        ASSERT_CONTAINS(n.error.message, "the TLS handshake with '");
}

int main(void)
{
        RUN(trusted);
        RUN(another_name);
        RUN(expired);
        RUN(not_valid_yet);
        RUN(unknown_authority);
        RUN(authorities_cannot_be_read);
        RUN(unchecked);
        RUN(to_http);
        RUN(from_http_to_https);
        RUN(no_tls);
        return TEST_END();
}
