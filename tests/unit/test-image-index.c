/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Many images in a store, and looking up many of them: the cost, and the number of descriptors. */

#include <sys/resource.h>

#include "prepare/collect/collect.h"
#include "prepare/fetch/fetch.h"
#include "tests/unit/faults.h"
#include "tests/unit/store-fixture.h"

#define MANY 40U

static Image *add(Fixture *f, const char *manifest)
{
        static const char *const none[] = {NULL};
        Image *i = NULL;

        return aci_import_files(f->store, manifest, none, &i, &f->error) < 0 ? NULL : i;
}

/* The images "base0", "base1", …, and one that depends on all of them, which is returned. */
static Image *add_many(Fixture *f)
{
        _cleanup_text_ Text dependencies = {};
        _cleanup_free_ char *manifest = NULL;

        for (unsigned i = 0; i < MANY; i++) {
                _cleanup_free_ char *base = NULL;

                if (xasprintf(&base, ACI_MANIFEST("base%u", ""), i) < 0)
                        return NULL;
                (void) image_free(add(f, base));
                text_addf(&dependencies, "%s{\"imageName\":\"base%u\"}", i > 0 ? "," : "", i);
        }
        if (xasprintf(&manifest, ACI_MANIFEST("app", ",\"dependencies\":[%s]"), dependencies.data) < 0)
                return NULL;
        return add(f, manifest);
}

/* Opening an image needs a few of these calls; listing the store for each dependency would need a few for
 * each pair of images. */
#define CALLS_MAX (20U * MANY)

static void assert_few_calls(FaultFunction function, Fixture *f)
{
        Fault fault = {.kind = FAULT_EMFILE, .step = CALLS_MAX};

        int r = fault_run(&fault, function, f);
        if (r == -ENOSYS)
                TEST_SKIP("seccomp cannot report system calls here");
        ASSERT_OK(r);
        if (fault.reached)
                TEST_FAIL("more than %u files were opened for %u images", CALLS_MAX, MANY);
        ASSERT_STREQ(fault.message, "");
        ASSERT_OK(fault.result);
}

static int fetch_app(void *userdata, Error *e)
{
        static const FetchOptions never = {.policy = PULL_NEVER};
        _cleanup_(fetcher_freep) Fetcher *fetcher = NULL;
        _cleanup_(image_freep) Image *i = NULL;
        Fixture *f = userdata;

        int r = fetcher_new(f->store, &never, &fetcher, e);
        return r < 0 ? r : fetcher_fetch(fetcher, "app", &i, e);
}

static int find_layers(void *userdata, Error *e)
{
        _cleanup_(image_freep) Image *i = NULL;
        _cleanup_strv_free_ char **layers = NULL;
        Fixture *f = userdata;

        int r = image_find(f->store, "app", &i, e);
        if (r >= 0)
                r = image_layers(f->store, i, &layers, e);
        return r < 0 ? r : strv_length(layers) == MANY + 1 ? 0 : -EBADMSG;
}

static int collect_images(void *userdata, Error *e)
{
        static const ImageGcOptions all = {.dry_run = true};
        Fixture *f = userdata;

        return image_gc(f->store, &all, e);
}

TEST(dependencies_are_looked_up_in_one_list)
{
        _cleanup_(image_freep) Image *app = NULL;
        FIXTURE(f);

        app = add_many(&f);
        ASSERT_NOT_NULL(app);
        assert_few_calls(fetch_app, &f);
        assert_few_calls(find_layers, &f);
        assert_few_calls(collect_images, &f);
}

TEST(more_images_than_descriptors)
{
        static const struct rlimit few = {32, 32};
        _cleanup_(image_freep) Image *app = NULL;
        Image **list = NULL;
        size_t n = 0;
        FIXTURE(f);

        app = add_many(&f);
        ASSERT_NOT_NULL(app);
        ASSERT_OK(setrlimit(RLIMIT_NOFILE, &few));
        ASSERT_WORKS(f, image_list(f.store, &list, &n, &f.error));
        ASSERT_EQ(n, MANY + 1);
        image_list_free(list, n);
        ASSERT_WORKS(f, find_layers(&f, &f.error));
        ASSERT_WORKS(f, fetch_app(&f, &f.error));
}

TEST(what_comes_and_goes)
{
        _cleanup_(image_index_freep) ImageIndex *x = NULL;
        _cleanup_(image_freep) Image *one = NULL, *two = NULL, *found = NULL;
        const PairList none = {};
        size_t n = 0;
        FIXTURE(f);

        ASSERT_WORKS(f, image_index_new(f.store, &x, &f.error));
        ASSERT_ERR(image_index_find(x, "a", &none, &found, &f.error), -ENOENT);
        one = add(&f, ACI_MANIFEST("a", ACI_VERSION("1")));
        ASSERT_WORKS(f, image_index_find(x, "a", &none, &found, &f.error));
        ASSERT_STREQ(found->id, one->id);
        ASSERT_TRUE(found->dir_fd >= 0);

        /* An image matches, so no other is searched for, unless that is requested. */
        two = add(&f, ACI_MANIFEST("a", ACI_VERSION("2")));
        found = image_free(found);
        ASSERT_WORKS(f, image_index_find(x, "a", &none, &found, &f.error));
        ASSERT_STREQ(found->id, one->id);
        image_index_invalidate(x);
        found = image_free(found);
        ASSERT_WORKS(f, image_index_find(x, "a", &none, &found, &f.error));
        ASSERT_STREQ(found->id, two->id);

        ASSERT_WORKS(f, image_remove(f.store, two->id, NULL, &f.error));
        found = image_free(found);
        ASSERT_WORKS(f, image_index_find(x, "a", &none, &found, &f.error));
        ASSERT_STREQ(found->id, one->id);
        (void) image_index_images(x, &n);
        ASSERT_EQ(n, 1);
        ASSERT_WORKS(f, image_remove(f.store, one->id, NULL, &f.error));
        found = image_free(found);
        ASSERT_ERR(image_index_find(x, "a", &none, &found, &f.error), -ENOENT);
        ASSERT_NULL(f.error.message);
}

TEST(layers_that_were_read_are_shared)
{
        _cleanup_(image_index_freep) ImageIndex *x = NULL;
        _cleanup_(image_freep) Image *a = NULL, *b = NULL, *same = NULL, *again = NULL, *none = NULL;
        FIXTURE(f);

        a = add(&f, ACI_MANIFEST("a", ACI_VERSION("1")));
        b = add(&f, ACI_MANIFEST("b", ACI_VERSION("1")));
        ASSERT_WORKS(f, image_index_new(f.store, &x, &f.error));
        ASSERT_WORKS(f, image_index_open(x, b->id, &same, &f.error)); /* and nothing else is read */
        size_t n = 0;
        (void) image_index_images(x, &n);
        ASSERT_EQ(n, 1);
        ASSERT_WORKS(f, image_index_look_up(x, "b", &again, &f.error));
        ASSERT_TRUE(same->manifest == again->manifest);
        ASSERT_NE(same->dir_fd, again->dir_fd);
        again = image_free(again);
        ASSERT_WORKS(f, image_index_look_up(x, a->id, &again, &f.error));
        ASSERT_STREQ(again->manifest->name, "a");
        /* What is known of it may have changed. */
        image_index_forget(x, b->id);
        again = image_free(again);
        ASSERT_WORKS(f, image_index_open(x, b->id, &again, &f.error));
        ASSERT_TRUE(same->manifest != again->manifest);
        ASSERT_WORKS(f, image_remove(f.store, b->id, NULL, &f.error));
        ASSERT_FAILS(f, image_index_open(x, b->id, &none, &f.error), -ENOENT, "is not in the store");
        /* They outlive the index. */
        x = image_index_free(x);
        ASSERT_STREQ(same->manifest->name, "b");
        ASSERT_STREQ(again->manifest->name, "b");
}

int main(void)
{
        RUN(dependencies_are_looked_up_in_one_list);
        RUN(more_images_than_descriptors);
        RUN(what_comes_and_goes);
        RUN(layers_that_were_read_are_shared);
        return TEST_END();
}
