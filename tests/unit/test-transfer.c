/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Requests into memory: responses, redirects, and retries. */

#include <curl/curl.h>
#include <poll.h>

#include "tests/unit/transfer-fixture.h"

/* --- Answers ------------------------------------------------------------------------------------------- */

static void serve_documents(Connection *c)
{
        char etag[128];

        if (asks_for(c, "/etag") && asked(c->request, "If-None-Match", etag, sizeof(etag)) &&
            streq(etag, "\"one\""))
                say(c, "HTTP/1.1 304 Not Modified\r\nETag: \"one\"\r\nCache-Control: max-age=60\r\n\r\n");
        else if (asks_for(c, "/etag"))
                answer(c, "200 OK",
                       "ETag: \"one\"\r\nCache-Control: public, Max-Age=100\r\nAge: 40\r\n"
                       "Content-Type: Text/HTML; charset=utf-8\r\nDocker-Content-Digest: sha256:00\r\n",
                       "hello");
        else if (asks_for(c, "/no-store"))
                answer(c, "200 OK", "Cache-Control: no-store, max-age=100\r\n", "x");
        else if (asks_for(c, "/expires"))
                answer(c, "200 OK",
                       "Date: Sat, 01 Jan 2000 00:00:00 GMT\r\nExpires: Sat, 01 Jan 2000 01:00:00 GMT\r\n",
                       "x");
        else if (asks_for(c, "/for-ever"))
                answer(c, "200 OK", "Cache-Control: max-age=99999999999999999999999999\r\n", "x");
        else if (asks_for(c, "/chunked"))
                say(c,
                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
        else if (asks_for(c, "/empty"))
                answer(c, "200 OK", "", "");
        else if (asks_for(c, "/kept")) {
                say(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
                server_stall(c);
        } else
                answer(c, "404 Not Found", "", "there is no such page");
}

TEST(documents)
{
        SERVER(s, serve_documents);
        NET(n, INSECURE_HTTP);
        char agent[128];

        ASSERT_OK(net_get(&n, &s, "/etag"));
        ASSERT_STREQ(n.body, "hello");
        ASSERT_EQ(n.size, 5);
        ASSERT_EQ(n.reply.status, 200);
        ASSERT_STREQ(n.reply.etag, "\"one\"");
        ASSERT_STREQ(n.reply.content_type, "text/html");
        ASSERT_STREQ(n.reply.digest, "sha256:00");
        ASSERT_FALSE(n.reply.not_modified);
        ASSERT_NOT_NULL(asked(s.last, "User-Agent", agent, sizeof(agent)));
        ASSERT_CONTAINS(agent, "acnspawn/");
        ASSERT_NULL(asked(s.last, "Authorization", agent, sizeof(agent)));
        n.request.etag = "\"one\"";
        ASSERT_OK(net_get(&n, &s, "/etag"));
        ASSERT_TRUE(n.reply.not_modified);
        ASSERT_NULL(n.body);
        n.request.etag = NULL;
        ASSERT_OK(net_get(&n, &s, "/chunked"));
        ASSERT_STREQ(n.body, "abcde");
        ASSERT_OK(net_get(&n, &s, "/empty"));
        ASSERT_STREQ(n.body, "");
}

static bool expires_in(const Net *n, uint64_t seconds)
{
        uint64_t then = now_usec(CLOCK_REALTIME) + seconds * 1000000ULL;

        return n->reply.expires_usec <= then && n->reply.expires_usec + 5000000ULL >= then;
}

TEST(caching)
{
        SERVER(s, serve_documents);
        NET(n, INSECURE_HTTP);

        ASSERT_OK(net_get(&n, &s, "/etag"));
        ASSERT_TRUE(expires_in(&n, 60));
        ASSERT_OK(net_get(&n, &s, "/no-store"));
        ASSERT_EQ(n.reply.expires_usec, 0);
        ASSERT_OK(net_get(&n, &s, "/expires"));
        ASSERT_TRUE(expires_in(&n, 3600));
        ASSERT_OK(net_get(&n, &s, "/for-ever"));
        ASSERT_TRUE(expires_in(&n, 366 * 24 * 3600));
        ASSERT_OK(net_get(&n, &s, "/empty"));
        ASSERT_EQ(n.reply.expires_usec, 0);
}

static void serve_statuses(Connection *c)
{
        if (asks_for(c, "/401"))
                answer(c, "401 Unauthorized",
                       "WWW-Authenticate: Basic realm=\"a\"\r\nWWW-Authenticate: Bearer realm=\"b\"\r\n",
                       "{\"errors\":[]}");
        else if (asks_for(c, "/403"))
                answer(c, "403 Forbidden", "", "");
        else if (asks_for(c, "/410"))
                answer(c, "410 Gone", "", "");
        else if (asks_for(c, "/418"))
                answer(c, "418 Teapot", "", "");
        else if (asks_for(c, "/206"))
                answer(c, "206 Partial Content", "Content-Range: bytes 0-0/5\r\n", "x");
        else if (asks_for(c, "/304"))
                answer(c, "304 Not Modified", "", "");
        else
                answer(c, "404 Not Found", "", "");
}

TEST(statuses)
{
        SERVER(s, serve_statuses);
        NET(n, INSECURE_HTTP);

        n.request.what = "the image example.com/app:1.0";
        ASSERT_ERR(net_get(&n, &s, "/404"), -ENOENT);
        ASSERT_CONTAINS(n.error.message,
                        "Cannot fetch the image example.com/app:1.0 from 'http://127.0.0.1:");
        ASSERT_CONTAINS(n.error.message, "/404': the server does not have it (404)");
        ASSERT_EQ(n.reply.status, 404);
        ASSERT_EQ(s.n_requests, 1);
        ASSERT_ERR(net_get(&n, &s, "/401"), -EACCES);
        ASSERT_STREQ(n.reply.challenge, "Basic realm=\"a\", Bearer realm=\"b\"");
        ASSERT_STREQ(n.reply.error_body, "{\"errors\":[]}");
        ASSERT_CONTAINS(n.error.hint, "auth.d");
        ASSERT_ERR(net_get(&n, &s, "/403"), -EACCES);
        ASSERT_CONTAINS(n.error.hint, "auth.d");
        ASSERT_ERR(net_get(&n, &s, "/410"), -ENOENT);
        ASSERT_ERR(net_get(&n, &s, "/418"), -EPROTO);
        ASSERT_CONTAINS(n.error.message, "status 418");
        ASSERT_ERR(net_get(&n, &s, "/206"), -EBADMSG);
        ASSERT_ERR(net_get(&n, &s, "/304"), -EPROTO);
        ASSERT_EQ(s.n_requests, 7); /* none was worth a second try */
}

/* --- What is no answer --------------------------------------------------------------------------------- */

static void serve_nonsense(Connection *c)
{
        char line[2048];

        memset(line, 'x', sizeof(line));
        if (asks_for(c, "/headers")) {
                say(c, "HTTP/1.1 200 OK\r\n");
                for (unsigned i = 0; i < 200 && say(c, "X-%u: %.*s\r\n", i, (int) sizeof(line), line); i++)
                        ;
                say(c, "\r\n");
        } else if (asks_for(c, "/lines")) {
                say(c, "HTTP/1.1 200 OK\r\n");
                for (unsigned i = 0; i < 2000 && say(c, "X: y\r\n"); i++)
                        ;
                say(c, "\r\n");
        } else if (asks_for(c, "/length"))
                say(c, "HTTP/1.1 200 OK\r\nContent-Length: -7\r\n\r\nx");
        else if (asks_for(c, "/lengths"))
                say(c, "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\nx");
        else if (asks_for(c, "/chunk"))
                say(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc");
        else if (asks_for(c, "/large"))
                say(c, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nx");
        else if (asks_for(c, "/endless")) {
                say(c, "HTTP/1.1 200 OK\r\n\r\n");
                for (unsigned i = 0; i < 1000 && say_bytes(c, line, sizeof(line)); i++)
                        ;
        } else if (asks_for(c, "/endless-error")) {
                say(c, "HTTP/1.1 404 Not Found\r\n\r\n");
                for (unsigned i = 0; i < 1000 && say_bytes(c, line, sizeof(line)); i++)
                        ;
        } else
                say(c, "220 this is not a HTTP\r\n");
}

TEST(nonsense)
{
        SERVER(s, serve_nonsense);
        NET(n, INSECURE_HTTP);

        n.request.size_max = 999;
        ASSERT_ERR(net_get(&n, &s, "/headers"), -EFBIG);
        ASSERT_CONTAINS(n.error.message, "more than 256 KiB");
        ASSERT_ERR(net_get(&n, &s, "/lines"), -EFBIG);
        ASSERT_ERR(net_get(&n, &s, "/length"), -EBADMSG);
        ASSERT_CONTAINS(n.error.message, "does not speak HTTP as it should");
        ASSERT_TRUE(net_get(&n, &s, "/lengths") < 0);
        ASSERT_TRUE(net_get(&n, &s, "/chunk") < 0);
        ASSERT_ERR(net_get(&n, &s, "/large"), -EFBIG);
        ASSERT_CONTAINS(n.error.message, "larger than 999 bytes");
        ASSERT_ERR(net_get(&n, &s, "/endless"), -EFBIG);
        ASSERT_ERR(net_get(&n, &s, "/endless-error"), -ENOENT);
        ASSERT_EQ(strlen(n.reply.error_body), 4096);
        ASSERT_ERR(net_get(&n, &s, "/"), -EBADMSG);
}

/* --- Trying again -------------------------------------------------------------------------------------- */

static void serve_late(Connection *c)
{
        if (asks_for(c, "/503") && c->n < 3)
                answer(c, "503 Service Unavailable", "", "");
        else if (asks_for(c, "/429") && c->n == 1)
                answer(c, "429 Too Many Requests", "Retry-After: 1\r\n", "");
        else if (asks_for(c, "/tomorrow"))
                answer(c, "429 Too Many Requests", "Retry-After: 86400\r\n", "");
        else if (asks_for(c, "/never"))
                answer(c, "500 Internal Server Error", "", "");
        else if (asks_for(c, "/hang-up") && c->n < 3)
                return;
        else if (asks_for(c, "/half") && c->n < 3)
                say(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345");
        else if (asks_for(c, "/silent"))
                server_stall(c);
        else if (asks_for(c, "/broken") && c->n == 1) {
                say(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345");
                usleep(1200000);
        } else if (asks_for(c, "/moved")) {
                usleep(600000);
                answer(c, "302 Found", "Location: /slow\r\n", "");
        } else if (asks_for(c, "/slow")) {
                usleep(600000);
                answer(c, "200 OK", "", "at last");
        } else if (asks_for(c, "/drip")) {
                say(c, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
                for (unsigned i = 0; i < 200 && say(c, "x"); i++)
                        usleep(10000);
        } else if (asks_for(c, "/burst")) {
                static const char burst[50000];

                say(c, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
                say_bytes(c, burst, sizeof(burst));
                for (unsigned i = 0; i < 300 && say(c, "x"); i++)
                        usleep(10000);
        } else
                answer(c, "200 OK", "", "at last");
}

TEST(again)
{
        static const char *const paths[] = {"/503", "/hang-up", "/half"};
        NET(n, INSECURE_HTTP);

        for (size_t i = 0; i < ELEMENTSOF(paths); i++) {
                SERVER(s, serve_late);
                ASSERT_OK(net_get(&n, &s, paths[i]));
                ASSERT_STREQ(n.body, "at last");
                ASSERT_EQ(s.n_requests, 3);
        }
        ASSERT_CONTAINS(n.notes.data, "(503); trying again in 0.0 s");
        ASSERT_CONTAINS(n.notes.data,
                        "it is truncated: the connection ended after 5 of 10 bytes; trying again");
}

TEST(again_when_the_server_says)
{
        SERVER(s, serve_late);
        NET(n, INSECURE_HTTP);
        uint64_t begin = now_usec(CLOCK_MONOTONIC);

        ASSERT_OK(net_get(&n, &s, "/429"));
        ASSERT_GE(now_usec(CLOCK_MONOTONIC) - begin, 1000000);
        ASSERT_EQ(s.n_requests, 2);
        ASSERT_ERR(net_get(&n, &s, "/tomorrow"), -EBUSY);
        ASSERT_EQ(s.n_requests, 3);
        ASSERT_CONTAINS(n.error.hint, "86400 s");
}

TEST(not_for_ever)
{
        SERVER(s, serve_late);
        NET(n, INSECURE_HTTP);

        ASSERT_ERR(net_get(&n, &s, "/never"), -EREMOTEIO);
        ASSERT_EQ(s.n_requests, 4);
        ASSERT_CONTAINS(n.error.message, "(500)");
}

TEST(stalled)
{
        SERVER(s, serve_late);
        NET(n, INSECURE_HTTP);
        uint64_t begin = now_usec(CLOCK_MONOTONIC);

        n.stall_usec = 300 * 1000ULL;
        ASSERT_OK(net_open(&n, INSECURE_HTTP));
        ASSERT_ERR(net_get(&n, &s, "/silent"), -ETIMEDOUT);
        ASSERT_CONTAINS(n.error.message, "has not answered within 0.3 s");
        ASSERT_EQ(s.n_requests, 3);
        ASSERT_ERR(net_get(&n, &s, "/drip"), -ETIMEDOUT);
        ASSERT_CONTAINS(n.error.message, "stalled");
        ASSERT_LT(now_usec(CLOCK_MONOTONIC) - begin, 6000000);
}

/* One that is asked for what is there already. */
TEST(no_answer)
{
        SERVER(s, serve_late);
        NET(n, INSECURE_HTTP);
        const TransferOptions o = {.insecure = INSECURE_HTTP,
                                   .config_dirs = n.dirs,
                                   .answer_timeout_usec = 300 * 1000ULL};

        n.transfer = transfer_free(n.transfer);
        ASSERT_OK(transfer_new(&o, &n.transfer, &n.error));
        ASSERT_ERR(net_get(&n, &s, "/silent"), -ETIMEDOUT);
        ASSERT_CONTAINS(n.error.message, "the server has not answered within 0.3 s");
        for (unsigned i = 0; i < 500 && s.n_requests < 1; i++) /* it may not have read it yet */
                (void) poll(NULL, 0, 10);
        ASSERT_EQ(s.n_requests, 1);
        /* What is answered may take longer than that. */
        const TransferOptions slow = {.insecure = INSECURE_HTTP,
                                      .config_dirs = n.dirs,
                                      .answer_timeout_usec = 800 * 1000ULL,
                                      .stall_timeout_usec = 900 * 1000ULL,
                                      .n_retries = TRANSFER_RETRIES_NONE};
        n.transfer = transfer_free(n.transfer);
        ASSERT_OK(transfer_new(&slow, &n.transfer, &n.error));
        ASSERT_ERR(net_get(&n, &s, "/drip"), -ETIMEDOUT);
        ASSERT_CONTAINS(n.error.message, "stalled");
        n.request.is_content = true;
        ASSERT_ERR(net_get(&n, &s, "/silent"), -ETIMEDOUT);
        ASSERT_CONTAINS(n.error.message, "the server has not answered within 0.9 s");
}

/* The bound is one of each server, and only until it sends something. */
TEST(answered)
{
        SERVER(s, serve_late);
        SERVER(broken, serve_late);
        NET(n, INSECURE_HTTP);
        const TransferOptions o = {.insecure = INSECURE_HTTP,
                                   .config_dirs = n.dirs,
                                   .retry_delay_usec = 1000,
                                   .answer_timeout_usec = 1000 * 1000ULL};

        n.transfer = transfer_free(n.transfer);
        ASSERT_OK(transfer_new(&o, &n.transfer, &n.error));
        ASSERT_OK(net_get(&n, &s, "/moved"));
        ASSERT_STREQ(n.body, "at last");
        ASSERT_OK(net_get(&n, &broken, "/broken"));
        ASSERT_STREQ(n.body, "at last");
        ASSERT_EQ(broken.n_requests, 2);
}

/* It never stalls, and would take for ever. */
TEST(too_slow)
{
        SERVER(s, serve_late);
        NET(n, INSECURE_HTTP);
        const TransferOptions o = {.insecure = INSECURE_HTTP,
                                   .config_dirs = n.dirs,
                                   .stall_timeout_usec = 60 * 1000000ULL,
                                   .speed_min = 1000,
                                   .speed_window_usec = 500 * 1000ULL};

        n.transfer = transfer_free(n.transfer);
        ASSERT_OK(transfer_new(&o, &n.transfer, &n.error));
        ASSERT_ERR(net_get(&n, &s, "/drip"), -ETIMEDOUT);
        ASSERT_CONTAINS(n.error.message, "the server is too slow: ");
        ASSERT_CONTAINS(n.error.message, "less than 1000 per second");
        ASSERT_CONTAINS(n.error.hint, "--min-speed=");
        ASSERT_EQ(s.n_requests, 1);
        /* What arrived fast at first buys no time for what follows. */
        ASSERT_ERR(net_get(&n, &s, "/burst"), -ETIMEDOUT);
        ASSERT_CONTAINS(n.error.message, "the server is too slow: ");
        ASSERT_CONTAINS(n.error.message, "bytes in the last ");
        ASSERT_EQ(s.n_requests, 2);
}

static uint16_t closed_port(void)
{
        Server s;

        if (server_listen(&s, serve_late) < 0)
                return 1;
        server_done(&s);
        return s.port;
}

TEST(nobody)
{
        NET(n, INSECURE_HTTP);
        char url[128];

        snprintf(url, sizeof(url), "http://127.0.0.1:%u/x", closed_port());
        ASSERT_ERR(net_get_url(&n, url), -ECONNREFUSED);
        ASSERT_CONTAINS(n.error.message, "refuses the connection");
        ASSERT_CONTAINS(n.notes.data, "trying again");
        text_done(&n.notes);
        n.request.probe = true;
        ASSERT_ERR(net_get_url(&n, url), -ECONNREFUSED);
        ASSERT_NULL(n.notes.data);
        n.request.probe = false;
        /* A name that no resolver has to be asked about. */
        ASSERT_ERR(net_get_url(&n, "http://nothing.invalid./x"), -EHOSTUNREACH);
        ASSERT_CONTAINS(n.error.message, "the name of the host 'nothing.invalid' cannot be resolved");
}

/* --- Redirects ----------------------------------------------------------------------------------------- */

static void serve_redirects(Connection *c)
{
        const Server *other = c->server->userdata;
        char headers[512] = "Location: /end\r\n";

        if (asks_for(c, "/end"))
                answer(c, "200 OK", "", "the end");
        else if (asks_for(c, "/loop"))
                answer(c, "302 Found", "Location: /loop\r\n", "");
        else if (asks_for(c, "/file"))
                answer(c, "302 Found", "Location: file:///etc/passwd\r\n", "");
        else if (asks_for(c, "/ftp"))
                answer(c, "301 Moved", "Location: ftp://example.com/x\r\n", "");
        else if (asks_for(c, "/nowhere"))
                answer(c, "302 Found", "", "");
        else if (asks_for(c, "/control"))
                answer(c, "302 Found", "Location: http://exam\033[1mple.com/\r\n", "");
        else {
                if (asks_for(c, "/other"))
                        snprintf(headers, sizeof(headers),
                                 "Location: http://me:pw@127.0.0.1:%u/end?sig=SECRET\r\n", other->port);
                answer(c, "307 Temporary Redirect", headers, "");
        }
}

TEST(redirects)
{
        SERVER(other, serve_redirects);
        SERVER(s, serve_redirects);
        NET(n, INSECURE_HTTP);
        char *headers[] = {(char *) "Accept: text/html", (char *) "X-Secret: abc", NULL};
        char value[128], url[256];

        s.userdata = &other;
        n.request.headers = headers;
        n.request.authorization = "Bearer TOKEN";
        ASSERT_OK(net_get(&n, &s, "/near"));
        ASSERT_STREQ(n.body, "the end");
        ASSERT_STREQ(asked(s.last, "Authorization", value, sizeof(value)), "Bearer TOKEN");
        ASSERT_STREQ(asked(s.last, "X-Secret", value, sizeof(value)), "abc");
        net_url(&s, "/end", url, sizeof(url));
        ASSERT_STREQ(n.reply.effective_url, url);
        /* To another host, credentials and headers are not sent, and those in the redirect are not used. */
        ASSERT_OK(net_get(&n, &s, "/other"));
        ASSERT_EQ(other.n_requests, 1);
        ASSERT_NULL(asked(other.last, "Authorization", value, sizeof(value)));
        ASSERT_NULL(asked(other.last, "X-Secret", value, sizeof(value)));
        ASSERT_STREQ(asked(other.last, "Accept", value, sizeof(value)), "text/html");
        ASSERT_NOT_CONTAINS(n.reply.effective_url, "me:pw");
}

TEST(redirects_refused)
{
        SERVER(s, serve_redirects);
        NET(n, INSECURE_HTTP);

        ASSERT_ERR(net_get(&n, &s, "/loop"), -ELOOP);
        ASSERT_CONTAINS(n.error.message, "redirects more than 10 times");
        ASSERT_EQ(s.n_requests, 11);
        ASSERT_ERR(net_get(&n, &s, "/file"), -EPERM);
        ASSERT_CONTAINS(n.error.message, "it redirects to 'file:///etc/passwd', and only https is followed");
        ASSERT_ERR(net_get(&n, &s, "/ftp"), -EPERM);
        ASSERT_ERR(net_get(&n, &s, "/nowhere"), -EBADMSG);
        ASSERT_TRUE(net_get(&n, &s, "/control") < 0);
        ASSERT_NOT_CONTAINS(n.error.message, "\033");
}

/* --- Insecure options and threads ---------------------------------------------------------------------- */

TEST(http_needs_its_option)
{
        SERVER(s, serve_documents);
        NET(n, 0);

        ASSERT_ERR(net_get(&n, &s, "/etag"), -EPERM);
        ASSERT_CONTAINS(n.error.hint, "--insecure-options=http");
        ASSERT_EQ(s.n_requests, 0);
        ASSERT_NULL(n.notes.data);
        ASSERT_OK(net_open(&n, INSECURE_HTTP));
        ASSERT_OK(net_get(&n, &s, "/etag"));
        ASSERT_CONTAINS(n.notes.data, "http is in use");
        size_t size = n.notes.size;
        ASSERT_OK(net_get(&n, &s, "/etag"));
        ASSERT_EQ(n.notes.size, size); /* once is enough */
}

typedef struct Worker {
        Net *net;
        const Server *server;
        unsigned n_good;
} Worker;

static void *work(void *userdata)
{
        Worker *w = userdata;
        char url[256];

        net_url(w->server, "/etag", url, sizeof(url));
        for (unsigned i = 0; i < 5; i++) {
                const TransferRequest q = {.url = url};
                _cleanup_free_ char *body = NULL;
                if (transfer_get(w->net->transfer, &q, &body, NULL, NULL, NULL) >= 0 && streq(body, "hello"))
                        w->n_good++;
        }
        return NULL;
}

TEST(threads)
{
        SERVER(s, serve_documents);
        NET(n, INSECURE_HTTP);
        Worker w[4];
        pthread_t t[4];

        for (size_t i = 0; i < ELEMENTSOF(t); i++) {
                w[i] = (Worker){.net = &n, .server = &s};
                ASSERT_EQ(pthread_create(&t[i], NULL, work, &w[i]), 0);
        }
        for (size_t i = 0; i < ELEMENTSOF(t); i++)
                (void) pthread_join(t[i], NULL);
        for (size_t i = 0; i < ELEMENTSOF(t); i++)
                ASSERT_EQ(w[i].n_good, 5);
}

TEST(proxy)
{
        SERVER(s, serve_documents);
        NET(n, INSECURE_HTTP);
        char url[64];

        snprintf(url, sizeof(url), "http://127.0.0.1:%u", s.port);
        ASSERT_EQ(setenv("http_proxy", url, 1), 0);
        int r = net_get_url(&n, "http://unknown.invalid/etag");
        ASSERT_EQ(unsetenv("http_proxy"), 0);
        ASSERT_ERR(r, -ENOENT); /* it knows paths only */
        ASSERT_CONTAINS(s.last, "GET http://unknown.invalid/etag HTTP/1.1");
}

TEST(invalid_proxy)
{
        static const char *const proxies[] = {
                        "http://user:s3cret@[::nonsense/",      "ftp://user:s3cret@127.0.0.1:9/",
                        "strange://user:s3cret@127.0.0.1:9",    "socks9://user:s3cret@127.0.0.1",
                        "http://user:s3cret@127.0.0.1:number/", "strange://user:s3@cret@127.0.0.1/a@b"};
        NET(n, INSECURE_HTTP);

        for (size_t i = 0; i < ELEMENTSOF(proxies); i++) {
                ASSERT_EQ(setenv("http_proxy", proxies[i], 1), 0);
                ASSERT_ERR(net_get_url(&n, "http://test.invalid/x"), -EHOSTUNREACH);
                ASSERT_CONTAINS(n.error.message, "the proxy cannot be used");
                ASSERT_NOT_CONTAINS(n.error.message, "cret");
                ASSERT_NOT_CONTAINS(n.error.message, "s3");
                ASSERT_CONTAINS(n.error.hint, "http_proxy");
        }
        ASSERT_EQ(unsetenv("http_proxy"), 0);
}

/* Of the connections that are kept open. */
TEST(sockets_are_closed_on_exec)
{
        SERVER(s, serve_documents);
        NET(n, INSECURE_HTTP);
        unsigned seen = 0;

        ASSERT_OK(net_get(&n, &s, "/kept"));
        for (int fd = 3; fd < 256; fd++) {
                struct sockaddr_in peer;
                socklen_t size = sizeof(peer);
                if (getpeername(fd, (struct sockaddr *) &peer, &size) < 0 || peer.sin_family != AF_INET ||
                    peer.sin_port != htons(s.port))
                        continue;
                seen++;
                ASSERT_TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        }
        ASSERT_EQ(seen, 1);
}

int main(void)
{
        RUN(documents);
        RUN(caching);
        RUN(statuses);
        RUN(nonsense);
        RUN(again);
        RUN(again_when_the_server_says);
        RUN(not_for_ever);
        RUN(stalled);
        RUN(no_answer);
        RUN(answered);
        RUN(too_slow);
        RUN(nobody);
        RUN(redirects);
        RUN(redirects_refused);
        RUN(http_needs_its_option);
        RUN(threads);
        RUN(proxy);
        RUN(invalid_proxy);
        RUN(sockets_are_closed_on_exec);
        return TEST_END();
}
