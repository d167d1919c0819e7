/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* A Transfer for requests to the test's own server, with a store, a directory of configuration, and recorded
 * messages:
 *
 *     SERVER(s, handler);
 *     NET(n, INSECURE_HTTP);
 *     ASSERT_OK(net_get(&n, &s, "/path"));
 */

#include "prepare/prepare.h"
#include "tests/unit/http-server.h"
#include "tests/unit/scratch.h"
#include "tests/unit/test.h"

typedef struct Net {
        Scratch scratch;
        char config[PATH_MAX + 16];
        const char *dirs[2];
        Store *store;
        Operation *operation; /* for the next net_open(); the caller's, or NULL */
        Transfer *transfer;
        Text notes;
        Error error;
        TransferReply reply;
        char *body;
        size_t size;
        int fd;
        TransferRequest request; /* but for the URL */
        uint64_t stall_usec;     /* long, as a server of a busy machine may be late; for net_open() */
} Net;

static inline void net_done(Net *n)
{
        (void) transfer_free(n->transfer);
        (void) store_unref(n->store);
        text_done(&n->notes);
        error_done(&n->error);
        transfer_reply_done(&n->reply);
        free(n->body);
        safe_close(n->fd);
        scratch_done(&n->scratch);
}

static inline void net_note(const char *line, void *userdata)
{
        text_addf(userdata, "%s\n", line);
}

static inline int net_open(Net *n, unsigned insecure)
{
        const TransferOptions o = {.operation = n->operation,
                                   .insecure = insecure,
                                   .config_dirs = n->dirs,
                                   .n_retries = 3,
                                   .connect_timeout_usec = 5 * 1000000ULL,
                                   .stall_timeout_usec = n->stall_usec,
                                   .retry_delay_usec = 5 * 1000ULL,
                                   .retry_after_max_usec = 1500 * 1000ULL,
                                   .note = net_note,
                                   .userdata = &n->notes};

        n->transfer = transfer_free(n->transfer);
        return transfer_new(&o, &n->transfer, &n->error);
}

static inline int net_new(Net *n, unsigned insecure)
{
        static const char *const variables[] = {
                        "http_proxy", "https_proxy", "HTTPS_PROXY",    "all_proxy",     "ALL_PROXY",
                        "no_proxy",   "NO_PROXY",    "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"};
        char path[PATH_MAX + 16];

        *n = (Net){.scratch = SCRATCH_NULL, .fd = -EBADF, .stall_usec = 20 * 1000000ULL};
        for (size_t i = 0; i < ELEMENTSOF(variables); i++)
                (void) unsetenv(variables[i]);
        int r = scratch_new(&n->scratch);
        if (r < 0)
                return r;
        snprintf(n->config, sizeof(n->config), "%s/config", n->scratch.path);
        n->dirs[0] = n->config;
        r = scratch_dir(&n->scratch, "config");
        if (r >= 0)
                r = scratch_dir(&n->scratch, "config/auth.d");
        if (r < 0)
                return r;
        snprintf(path, sizeof(path), "%s/store", n->scratch.path);
        r = store_open_with_flags(path, STORE_UNPRIVILEGED, NULL, &n->store, &n->error);
        return r < 0 ? r : net_open(n, insecure);
}

#define NET(n, insecure)                                                                                    \
        _cleanup_(net_done) Net n;                                                                          \
        ASSERT_OK(net_new(&n, insecure))

static inline void net_url(const Server *s, const char *path, char *ret, size_t size)
{
        snprintf(ret, size, "%s://127.0.0.1:%u%s", s->tls ? "https" : "http", s->port, path);
}

static inline void net_forget(Net *n)
{
        error_done(&n->error);
        transfer_reply_done(&n->reply);
        free(n->body);
        n->body = NULL;
        safe_close(n->fd);
        n->fd = -EBADF;
}

static inline int net_get_url(Net *n, const char *url)
{
        net_forget(n);
        n->request.url = url;
        int r = transfer_get(n->transfer, &n->request, &n->body, &n->size, &n->reply, &n->error);
        n->request.url = NULL;
        return r;
}

static inline int net_get(Net *n, const Server *s, const char *path)
{
        char url[1024];

        net_url(s, path, url, sizeof(url));
        return net_get_url(n, url);
}

static inline int net_download(Net *n, const Server *s, const char *path)
{
        char url[1024];

        net_forget(n);
        net_url(s, path, url, sizeof(url));
        n->request.url = url;
        int r = transfer_download(n->transfer, &n->request, n->store, &n->fd, &n->reply, &n->error);
        n->request.url = NULL;
        return r;
}

/* A file auth.d/NAME with credentials for the server. */
static inline int net_auth(const Net *n, const char *name, const char *text, mode_t mode)
{
        char path[256];

        snprintf(path, sizeof(path), "config/auth.d/%s", name);
        int r = scratch_file(&n->scratch, path, text);
        if (r < 0)
                return r;
        return fchmodat(n->scratch.fd, path, mode, 0) < 0 ? -errno : 0;
}
