/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Twenty processes at one store (E5): each imports, renders, looks up, removes and collects, in an order of
 * its own, for some seconds. No process may see incomplete objects: the only errors are that an image does
 * not exist any more, or is in use. In the end every image is complete, and no temporary files are left. */

#include <signal.h>
#include <sys/wait.h>

#include "prepare/collect/collect.h"
#include "tests/unit/store-fixture.h"

#define PROCESSES 20U
#define SECONDS 3U
#define IMAGES 4U

typedef struct Shared {
        unsigned n_done, n_failed;
        char why[2048]; /* of one of the failures */
} Shared;

typedef struct Worker {
        Store *store;
        unsigned random;
        Text tars[IMAGES];
} Worker;

static unsigned next_random(Worker *w, unsigned n)
{
        w->random = w->random * 1103515245U + 12345U;
        return (w->random >> 16) % n;
}

/* Each but the first depends on the one before it; odd ones are rendered. */
static void make_tar(Text *t, unsigned k)
{
        _cleanup_free_ char *manifest = NULL, *dependency = NULL;

        if (k > 0 && xasprintf(&dependency, ",\"dependencies\":[{\"imageName\":\"i%u\"}]", k - 1) < 0)
                abort();
        if (xasprintf(&manifest, ACI_MANIFEST("i%u", "%s%s"), k, dependency ?: "",
                      k % 2 ? ",\"pathWhitelist\":[\"/a\",\"/b\"]" : "") < 0)
                abort();
        aci_manifest(t, manifest);
        aci_file(t, "rootfs/a", "a");
        aci_file(t, "rootfs/dir/b", "b");
        aci_end(t);
}

static int import_one(Worker *w, Error *e)
{
        _cleanup_(image_freep) Image *i = NULL;

        return aci_import(w->store, &w->tars[next_random(w, IMAGES)], &i, e);
}

static int render_one(Worker *w, Error *e)
{
        _cleanup_(image_freep) Image *i = NULL;
        _cleanup_strv_free_ char **layers = NULL;
        _cleanup_close_ int lock = -EBADF;
        char name[8];

        snprintf(name, sizeof(name), "i%u", next_random(w, IMAGES));
        int r = store_lock_shared(w->store, &lock, e);
        if (r >= 0)
                r = image_find(w->store, name, &i, e);
        if (r >= 0)
                r = image_layers(w->store, i, &layers, e);
        /* As long as we hold the lock, they stay. */
        STRV_FOREACH (l, layers)
                if (r >= 0 && access(*l, F_OK) < 0)
                        r = error_set(e, -EPROTO, "The layer %s is not there", *l);
        return r;
}

static int remove_one(Worker *w, Error *e)
{
        char name[8];

        snprintf(name, sizeof(name), "i%u", next_random(w, IMAGES));
        return image_remove(w->store, name, NULL, e);
}

static int collect_all(Worker *w, Error *e)
{
        return store_gc(w->store, &(GcOptions){.expire_prepared_usec = UINT64_MAX}, e);
}

static int list_all(Worker *w, Error *e)
{
        Image **list;
        size_t n;

        int r = image_list(w->store, &list, &n, e);
        if (r >= 0)
                image_list_free(list, n);
        return r;
}

static int (*const actions[])(Worker *w, Error *e) = {import_one, render_one, remove_one, collect_all,
                                                      list_all};

static bool is_expected(int r)
{
        return r >= 0 || r == -ENOENT || r == -EBUSY;
}

static void work(const char *path, unsigned k, Shared *shared)
{
        uint64_t end = now_usec(CLOCK_MONOTONIC) + SECONDS * UINT64_C(1000000);
        Worker w = {.random = k * 7919 + 1};
        Error e = ERROR_NULL;

        for (unsigned i = 0; i < IMAGES; i++)
                make_tar(&w.tars[i], i);
        if (store_open_with_flags(path, STORE_UNPRIVILEGED, NULL, &w.store, &e) < 0)
                _exit(1);
        while (now_usec(CLOCK_MONOTONIC) < end) {
                unsigned action = next_random(&w, ELEMENTSOF(actions));
                int r = actions[action](&w, &e);
                (void) __atomic_add_fetch(&shared->n_done, 1, __ATOMIC_RELAXED);
                if (!is_expected(r) && __atomic_add_fetch(&shared->n_failed, 1, __ATOMIC_RELAXED) == 1)
                        snprintf(shared->why, sizeof(shared->why), "action %u came to %d: %s", action, r,
                                 e.message ?: "");
                error_done(&e);
        }
        _exit(0);
}

static void check_store(Fixture *f)
{
        Worker w = {.store = f->store};
        Image **list;
        size_t n;

        ASSERT_WORKS(*f, collect_all(&w, &f->error));
        ASSERT_EQ(count_entries(f->store, "tmp"), 0);
        ASSERT_WORKS(*f, image_list(f->store, &list, &n, &f->error));
        ASSERT_LE(n, IMAGES);
        image_list_free(list, n);
        for (unsigned k = 0; k < IMAGES; k++) {
                _cleanup_(image_freep) Image *i = NULL;
                text_done(&f->tar);
                make_tar(&f->tar, k);
                ASSERT_IMPORTS(*f, i);
        }
        /* From the uppermost down, so that no image is needed by another. */
        for (unsigned k = IMAGES; k-- > 0;) {
                char name[16];
                snprintf(name, sizeof(name), "i%u", k);
                ASSERT_WORKS(*f, image_remove(f->store, name, NULL, &f->error));
        }
        ASSERT_TRUE(store_is_empty(f->store));
        ASSERT_EQ(count_entries(f->store, "rendered"), 0);
}

TEST(e5_twenty_processes)
{
        pid_t pids[PROCESSES];
        FIXTURE(f);
        Shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                              0);

        ASSERT_TRUE(shared != MAP_FAILED);
        for (unsigned k = 0; k < PROCESSES; k++) {
                pids[k] = fork();
                if (pids[k] == 0)
                        work(store_path(f.store), k, shared);
                ASSERT_GT(pids[k], 0);
        }
        bool crashed = false;
        for (unsigned k = 0; k < PROCESSES; k++) {
                int status = 0;
                crashed = waitpid(pids[k], &status, 0) < 0 || !WIFEXITED(status) ||
                          WEXITSTATUS(status) != 0 || crashed;
        }
        ASSERT_FALSE(crashed);
        if (shared->n_failed > 0)
                TEST_FAIL("%u of %u: %s", shared->n_failed, shared->n_done, shared->why);
        ASSERT_GT(shared->n_done, PROCESSES);
        check_store(&f);
        munmap(shared, sizeof(*shared));
}

int main(void)
{
        if (access("/dev/shm", W_OK) >= 0)
                (void) setenv("TMPDIR", "/dev/shm", false);
        RUN(e5_twenty_processes);
        return TEST_END();
}
