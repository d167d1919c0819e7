/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Several operations in one process, on one store: one that is cancelled in the middle of a fetch or of
 * unpacking, or whose deadline passes, leaves nothing incomplete, and does not affect the others. */

#include <poll.h>
#include <sys/file.h>

#include "prepare/fetch/fetch-internal.h"
#include "tests/unit/http-server.h"
#include "tests/unit/store-fixture.h"

#define CONTENT_SIZE (1U << 20) /* bytes of an image: more than pipes, sockets and buffers hold */
#define PART_SIZE (16U << 10)   /* bytes that a pipe holds */

typedef struct Work {
        Operation *operation;
        Store *store; /* a handle of its own */
        int result;
        Error error;
        Image *image;
        pthread_t thread;
        char reference[64]; /* of a fetch */
        int fd;             /* of an import */
        Text messages;
        unsigned n_ended, n_failed;
} Work;

static void take_message(LogLevel level, const char *line, void *userdata)
{
        Work *w = userdata;

        if (level != LOG_LEVEL_DEBUG)
                text_addf(&w->messages, "%s\n", line);
}

static void take_progress(const OperationProgress *p, void *userdata)
{
        Work *w = userdata;

        w->n_ended += p->phase == OPERATION_DONE;
        w->n_failed += p->phase == OPERATION_FAILED;
}

static int work_new(Work *w, Store *s, uint64_t usec)
{
        const OperationOptions o = {.deadline_usec = usec > 0 ? now_usec(CLOCK_MONOTONIC) + usec : 0,
                                    .message = take_message,
                                    .progress = take_progress,
                                    .userdata = w};

        *w = (Work){.fd = -EBADF};
        int r = operation_new(&o, &w->operation);
        return r < 0 ? r : store_open_again(s, w->operation, &w->store, NULL);
}

static void work_done(Work *w)
{
        image_free(w->image);
        store_unref(w->store);
        operation_free(w->operation);
        error_done(&w->error);
        text_done(&w->messages);
}

#define WORK(w, store, usec)                                                                                \
        _cleanup_(work_done) Work w;                                                                        \
        ASSERT_OK(work_new(&(w), (store), (usec)))

/* The image example.com/NAME, with incompressible content. */
static void make_image(Text *t, const char *name)
{
        _cleanup_free_ char *content = malloc(CONTENT_SIZE + 1), *manifest = NULL;
        uint32_t x = 1;

        for (size_t i = 0; content && i < CONTENT_SIZE; i++) {
                x = x * 1664525U + 1013904223U;
                content[i] = (char) ('a' + (x >> 24) % 26);
        }
        if (content)
                content[CONTENT_SIZE] = 0;
        (void) xasprintf(&manifest,
                         "{\"acKind\":\"ImageManifest\",\"acVersion\":\"0.8.11\",\"name\":\"example.com/"
                         "%s\"}",
                         name);
        aci_manifest(t, manifest ?: "");
        aci_dir(t, "rootfs");
        aci_file(t, "rootfs/first", content ?: "");
        aci_file(t, "rootfs/last", "x");
        aci_end(t);
}

static bool wait_for_entries(Store *s, const char *directory, unsigned n)
{
        return WAIT_FOR(count_entries(s, directory) >= n);
}

/* --- Fetching ------------------------------------------------------------------------------------------ */

typedef struct Images {
        Text whole, stalling;
} Images;

static void images_done(Images *i)
{
        text_done(&i->whole);
        text_done(&i->stalling);
}

static void send_image(Connection *c, const Text *t, size_t n)
{
        char header[128];

        snprintf(header, sizeof(header), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", t->size);
        (void) (say_bytes(c, header, strlen(header)) && say_bytes(c, t->data, n));
}

static void serve_images(Connection *c)
{
        const Images *images = c->server->userdata;

        if (asks_for(c, "/whole.aci"))
                send_image(c, &images->whole, images->whole.size);
        else if (asks_for(c, "/stalling.aci")) {
                send_image(c, &images->stalling, images->stalling.size / 2);
                server_stall(c);
        } else
                (void) answer(c, "404 Not Found", "", "");
}

static void *fetch(void *userdata)
{
        static const FetchOptions o = {.insecure = INSECURE_HTTP | INSECURE_SIGNATURE,
                                       .no_dependencies = true};
        _cleanup_(fetcher_freep) Fetcher *f = NULL;
        Work *w = userdata;

        w->result = fetcher_new(w->store, &o, &f, &w->error);
        if (w->result >= 0)
                w->result = fetcher_fetch(f, w->reference, &w->image, &w->error);
        return NULL;
}

static void name_image(Work *w, const Server *s, const char *name)
{
        snprintf(w->reference, sizeof(w->reference), "http://127.0.0.1:%u/%s.aci", s->port, name);
}

/* Answers one request. */
static void serve_once(Connection *c)
{
        const Images *images = c->server->userdata;

        if (c->n == 1)
                send_image(c, &images->whole, images->whole.size);
        else
                server_stall(c);
}

TEST(a_silent_server_of_a_stored_image)
{
        const FetchOptions o = {.insecure = INSECURE_HTTP | INSECURE_SIGNATURE,
                                .policy = PULL_UPDATE,
                                .or_stored = true};
        FIXTURE(f);
        WORK(w, f.store, 0);
        _cleanup_(images_done) Images images = {};
        _cleanup_(fetcher_freep) Fetcher *fetcher = NULL, *next = NULL;
        _cleanup_(image_freep) Image *image = NULL;
        SERVER(s, serve_once);

        s.userdata = &images;
        make_image(&images.whole, "whole");
        name_image(&w, &s, "whole");
        ASSERT_OK(fetcher_new(w.store, &o, &fetcher, &w.error));
        ASSERT_OK(fetcher_fetch(fetcher, w.reference, &w.image, &w.error));
        ASSERT_OK(fetcher_new(w.store, &o, &next, &w.error));
        next->answer_timeout_usec = 200 * 1000ULL;
        ASSERT_OK(fetcher_fetch(next, w.reference, &image, &w.error));
        ASSERT_STREQ(image->id, w.image->id);
        ASSERT_CONTAINS(w.messages.data, "of the store is used");
        ASSERT_CONTAINS(w.messages.data, "the server has not answered within 0.2 s");
        for (unsigned i = 0; i < 500 && s.n_requests < 2; i++) /* it may not have read it yet */
                (void) poll(NULL, 0, 10);
        ASSERT_EQ(s.n_requests, 2);
}

TEST(one_of_two_fetches_is_cancelled)
{
        FIXTURE(f);
        WORK(a, f.store, 0);
        WORK(b, f.store, 0);
        _cleanup_(images_done) Images images = {};
        SERVER(s, serve_images);

        s.userdata = &images;
        make_image(&images.whole, "whole");
        make_image(&images.stalling, "stalling");
        name_image(&a, &s, "stalling");
        name_image(&b, &s, "whole");
        ASSERT_OK(thread_start(&a.thread, fetch, &a));
        bool begun = wait_for_entries(f.store, "downloads", 1);
        /* While the first waits for its server the second is fetched. */
        (void) fetch(&b);
        operation_cancel(a.operation);
        threads_join(&a.thread, 1);

        ASSERT_TRUE(begun);
        if (b.result < 0)
                TEST_FAIL("fetching failed: %s", b.error.message ?: "");
        ASSERT_ERR(a.result, -EINTR);
        ASSERT_EQ(count_entries(f.store, "images"), 1);
        ASSERT_EQ(count_entries(f.store, "tmp"), 0);
        ASSERT_STREQ(b.image->manifest->name, "example.com/whole");
        /* Each has heard of its own. */
        ASSERT_EQ(a.n_failed, 1);
        ASSERT_EQ(a.n_ended, 0);
        ASSERT_EQ(b.n_failed, 0);
        ASSERT_EQ(b.n_ended, 1);
        ASSERT_CONTAINS(b.messages.data ?: "", "127.0.0.1");
        ASSERT_TRUE(!operation_is_cancelled(b.operation));
}

TEST(fetch_with_a_deadline)
{
        FIXTURE(f);
        WORK(a, f.store, 200000);
        _cleanup_(images_done) Images images = {};
        SERVER(s, serve_images);

        s.userdata = &images;
        make_image(&images.stalling, "stalling");
        name_image(&a, &s, "stalling");
        (void) fetch(&a);
        ASSERT_ERR(a.result, -ETIME);
        ASSERT_CONTAINS(a.error.message, "The deadline has passed");
        ASSERT_TRUE(store_is_empty(f.store));
}

/* --- Unpacking ----------------------------------------------------------------------------------------- */

static void *import(void *userdata)
{
        Work *w = userdata;

        w->result = image_import(w->store, w->fd, "test.aci", &w->image, &w->error);
        return NULL;
}

/* More than the pipe holds has been read when this returns. */
static bool write_half(int fd, const Text *t)
{
        return loop_write(fd, t->data, t->size / 2) >= 0;
}

TEST(one_of_two_imports_is_cancelled)
{
        _cleanup_close_ int in = -EBADF, out = -EBADF;
        _cleanup_text_ Text stalling = {}, whole = {};
        FIXTURE(f);
        WORK(a, f.store, 0);
        WORK(b, f.store, 0);
        int fds[2];

        make_image(&stalling, "stalling");
        make_image(&whole, "whole");
        ASSERT_OK(pipe2(fds, O_CLOEXEC));
        in = fds[0];
        out = fds[1];
        a.fd = in;
        ASSERT_OK(thread_start(&a.thread, import, &a));
        bool begun = write_half(out, &stalling) && wait_for_entries(f.store, "tmp", 1);
        b.result = aci_import(b.store, &whole, &b.image, &b.error);
        operation_cancel(a.operation);
        threads_join(&a.thread, 1);

        ASSERT_TRUE(begun);
        ASSERT_OK(b.result);
        ASSERT_ERR(a.result, -EINTR);
        ASSERT_CONTAINS(a.error.message, "Interrupted");
        ASSERT_EQ(count_entries(f.store, "images"), 1);
        ASSERT_EQ(count_entries(f.store, "tmp"), 0);
}

TEST(import_with_a_deadline)
{
        _cleanup_close_ int in = -EBADF, out = -EBADF;
        _cleanup_text_ Text stalling = {};
        FIXTURE(f);
        WORK(a, f.store, 200000);
        int fds[2];

        make_image(&stalling, "stalling");
        ASSERT_OK(pipe2(fds, O_CLOEXEC));
        in = fds[0];
        out = fds[1];
        a.fd = in;
        ASSERT_OK(loop_write(out, stalling.data, PART_SIZE));
        (void) import(&a);
        ASSERT_ERR(a.result, -ETIME);
        ASSERT_CONTAINS(a.error.message, "The deadline has passed");
        ASSERT_TRUE(store_is_empty(f.store));
}

/* --- The store's lock ---------------------------------------------------------------------------------- */

static void *cancel_soon(void *userdata)
{
        (void) usleep(30000);
        operation_cancel(userdata);
        return NULL;
}

TEST(waiting_for_the_lock_is_cancelled)
{
        _cleanup_close_ int held = -EBADF, wanted = -EBADF;
        FIXTURE(f);
        WORK(a, f.store, 0);

        ASSERT_OK(store_lock_exclusive(f.store, &held, &f.error));
        ASSERT_OK(thread_start(&a.thread, cancel_soon, a.operation));
        int r = store_lock_shared(a.store, &wanted, &a.error);
        threads_join(&a.thread, 1);
        ASSERT_ERR(r, -EINTR);
        held = safe_close(held);
        ASSERT_OK(store_lock_shared(a.store, &wanted, &a.error));
}

int main(void)
{
        RUN(a_silent_server_of_a_stored_image);
        RUN(one_of_two_fetches_is_cancelled);
        RUN(fetch_with_a_deadline);
        RUN(one_of_two_imports_is_cancelled);
        RUN(import_with_a_deadline);
        RUN(waiting_for_the_lock_is_cancelled);
        return TEST_END();
}
