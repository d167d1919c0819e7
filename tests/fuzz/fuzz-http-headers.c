/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The headers of a server's response, as libcurl passes them on: content range, Retry-After, freshness,
 * authentication challenge. The input is sent by a server in this process over a socket; the parsed values
 * must be within their bounds. */

#include <sys/socket.h>
#include <sys/un.h>

#include "prepare/registry/registry-internal.h"
#include "prepare/transfer/transfer-internal.h"

#define INPUT_MAX (64U << 10) /* what a socket takes at once */
#define ROUNDS_MAX 1000U

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t ignore(char *data, size_t size, size_t n, void *userdata)
{
        return size * n;
}

static void check_line(const char *s)
{
        for (; s && *s; s++)
                if ((unsigned char) *s < ' ' && *s != '\t')
                        abort();
}

static void check(const Response *r)
{
        _cleanup_(registry_challenge_done) RegistryChallenge c = {};
        _cleanup_error_ Error e = ERROR_NULL;

        check_line(r->etag);
        check_line(r->last_modified);
        check_line(r->content_type);
        check_line(r->challenge);
        check_line(r->digest);
        check_line(r->link);
        if (r->range_first != UNKNOWN && r->range_total != UNKNOWN && r->range_first >= r->range_total)
                abort();
        if (r->content_type && strpbrk(r->content_type, "; ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
                abort();
        if (r->challenge)
                (void) registry_challenge_parse(r->challenge, &c, &e);
}

/* Listens on a socket without a network address. */
static int listen_here(char name[static 64])
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        int n = snprintf(name, 64, "acnspawn-fuzz-http-%d", (int) getpid());
        memcpy(address.sun_path + 1, name, (size_t) n);
        socklen_t size = (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + (size_t) n);
        if (fd < 0 || bind(fd, (struct sockaddr *) &address, size) < 0 || listen(fd, 1) < 0)
                abort();
        return fd;
}

static void run(CURLM *multi, int listener, const void *data, size_t size)
{
        _cleanup_close_ int fd = -EBADF;

        for (unsigned i = 0; i < ROUNDS_MAX; i++) {
                int running = 0;
                if (curl_multi_perform(multi, &running) != CURLM_OK || running == 0)
                        return;
                if (fd < 0) {
                        fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
                        if (fd < 0 || send(fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t) size)
                                return;
                        (void) shutdown(fd, SHUT_WR);
                }
                (void) curl_multi_poll(multi, NULL, 0, 10, NULL);
        }
}

static void serve(Transfer *t, const char *name, int listener, const void *data, size_t size)
{
        _cleanup_(response_done) Response r = {};
        Handle *h;

        if (transfer_take_handle(t, &h, NULL) < 0)
                abort();
        (void) curl_easy_setopt(h->easy, CURLOPT_URL, "http://127.0.0.1/");
        (void) curl_easy_setopt(h->easy, CURLOPT_ABSTRACT_UNIX_SOCKET, name);
        (void) curl_easy_setopt(h->easy, CURLOPT_NOSIGNAL, 1L);
        (void) curl_easy_setopt(h->easy, CURLOPT_PROXY, "");
        (void) curl_easy_setopt(h->easy, CURLOPT_FORBID_REUSE, 1L);
        (void) curl_easy_setopt(h->easy, CURLOPT_WRITEFUNCTION, ignore);
        if (curl_multi_add_handle(h->multi, h->easy) == CURLM_OK) {
                run(h->multi, listener, data, size);
                if (response_read(h->easy, &r) >= 0)
                        check(&r);
                (void) curl_multi_remove_handle(h->multi, h->easy);
        }
        transfer_return_handle(t, h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static Transfer *transfer;
        static const char *const dirs[] = {NULL};
        static char name[64];
        static int listener;
        const TransferOptions o = {.config_dirs = dirs};

        if (size > INPUT_MAX)
                return 0;
        if (!transfer) {
                if (transfer_new(&o, &transfer, NULL) < 0)
                        abort();
                listener = listen_here(name);
        }
        serve(transfer, name, listener, data, size);
        return 0;
}
