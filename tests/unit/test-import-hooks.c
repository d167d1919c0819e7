/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The hooks of an import: observers of its bytes, approval, progress. */

#include <archive.h>

#include "tests/unit/store-fixture.h"

typedef struct Witness {
        Text seen;
        uint64_t done, fail_after;
        int verdict;
        bool asked, signs;
        char *id, *name;
} Witness;

static void witness_done(Witness *w)
{
        text_done(&w->seen);
        free(w->id);
        free(w->name);
}

#define _cleanup_witness_ _cleanup_(witness_done)

static int observe(const void *data, size_t size, void *userdata, Error *e)
{
        Witness *w = userdata;

        text_add_bytes(&w->seen, data, size);
        if (w->fail_after > 0 && w->seen.size >= w->fail_after)
                return error_set(e, -EKEYREJECTED, "I have seen enough");
        return 0;
}

static int approve(const char *id, const ImageManifest *m, ImageInfo *info, void *userdata, Error *e)
{
        Witness *w = userdata;

        w->asked = true;
        w->id = strdup(id);
        w->name = strdup(m->name);
        if (w->verdict < 0)
                return error_set(e, w->verdict, "I do not know the key");
        if (w->signs) {
                info->reference = strdup("example.com/app:1.0");
                info->signer.fingerprint = strdup("0123456789ABCDEF0123456789ABCDEF01234567");
                info->signer.user_id = strdup("Somebody <somebody@example.com>");
                info->signer.prefix = strdup("example.com");
        }
        return 0;
}

static void progress(uint64_t done, void *userdata)
{
        Witness *w = userdata;

        w->done = done;
}

static int import(Fixture *f, const Text *archive, Witness *w, uint64_t size_max, Image **ret)
{
        _cleanup_close_ int fd = aci_fd(archive->data, archive->size);
        const ImportOptions o = {
                        .origin = "test.aci",
                        .size_max = size_max,
                        .observe = observe,
                        .approve = approve,
                        .progress = progress,
                        .userdata = w,
        };

        error_done(&f->error);
        f->error = ERROR_NULL;
        return image_import_with(f->store, fd, &o, ret, &f->error);
}

static void make_archive(Text *t, Text *compressed)
{
        aci_begin(t);
        aci_file(t, "rootfs/hello", "hello world\n");
        aci_end(t);
        ASSERT_OK(aci_compress(t, ARCHIVE_FILTER_GZIP, compressed));
}

TEST(every_byte_is_seen_as_it_came)
{
        _cleanup_text_ Text tar = {}, gz = {};
        _cleanup_witness_ Witness w = {};
        _cleanup_(image_freep) Image *i = NULL;
        FIXTURE(f);

        make_archive(&tar, &gz);
        ASSERT_OK(import(&f, &gz, &w, gz.size, &i));
        ASSERT_EQ(w.seen.size, gz.size);
        ASSERT_TRUE(memcmp(w.seen.data, gz.data, gz.size) == 0);
        ASSERT_EQ(w.done, gz.size);
        ASSERT_STREQ(w.id, i->id);
        ASSERT_STREQ(w.name, "example.com/app");
        ASSERT_EQ(i->info.archive_size, gz.size);
        ASSERT_STREQ(i->info.origin, "test.aci");
        ASSERT_TRUE(!i->info.signer.fingerprint && !i->info.reference && !i->layer_ids);
}

TEST(nothing_is_kept_without_consent)
{
        _cleanup_text_ Text tar = {}, gz = {};
        _cleanup_(image_freep) Image *i = NULL;
        FIXTURE(f);

        make_archive(&tar, &gz);
        _cleanup_witness_ Witness no = {.verdict = -EKEYREJECTED};
        ASSERT_ERR(import(&f, &gz, &no, 0, &i), -EKEYREJECTED);
        ASSERT_STREQ(f.error.message, "Cannot import test.aci: I do not know the key");
        ASSERT_TRUE(store_is_empty(f.store));

        _cleanup_witness_ Witness stops = {.fail_after = 1};
        ASSERT_ERR(import(&f, &gz, &stops, 0, &i), -EKEYREJECTED);
        ASSERT_STREQ(f.error.message, "Cannot import test.aci: I have seen enough");
        ASSERT_TRUE(!stops.asked);
        ASSERT_TRUE(store_is_empty(f.store));
}

/* Damaged archives are refused before any approval. */
TEST(damage_is_refused_before_the_hooks)
{
        _cleanup_text_ Text tar = {};
        _cleanup_witness_ Witness w = {};
        _cleanup_(image_freep) Image *i = NULL;
        FIXTURE(f);

        aci_begin(&tar);
        ASSERT_ERR(import(&f, &tar, &w, 0, &i), -EBADMSG);
        ASSERT_TRUE(!w.asked);
        ASSERT_TRUE(store_is_empty(f.store));
}

TEST(longer_than_allowed)
{
        _cleanup_text_ Text tar = {}, gz = {};
        _cleanup_witness_ Witness w = {};
        _cleanup_(image_freep) Image *i = NULL;
        FIXTURE(f);

        make_archive(&tar, &gz);
        ASSERT_ERR(import(&f, &gz, &w, gz.size - 1, &i), -EFBIG);
        ASSERT_CONTAINS(f.error.message, "is longer than");
        ASSERT_TRUE(store_is_empty(f.store));
}

/* An image that came without a signature gets its signer when it comes with one, and keeps it. */
TEST(signer_is_remembered)
{
        _cleanup_text_ Text tar = {}, gz = {};
        FIXTURE(f);

        make_archive(&tar, &gz);
        for (unsigned k = 0; k < 3; k++) {
                _cleanup_witness_ Witness w = {.signs = k == 1};
                _cleanup_(image_freep) Image *i = NULL, *again = NULL;
                ASSERT_OK(import(&f, &gz, &w, 0, &i));
                ASSERT_OK(image_open(f.store, i->id, &again, &f.error));
                ASSERT_STREQ(again->info.origin, "test.aci");
                if (k == 0) {
                        ASSERT_TRUE(!again->info.signer.fingerprint);
                        continue;
                }
                ASSERT_STREQ(again->info.reference, "example.com/app:1.0");
                ASSERT_STREQ(again->info.signer.fingerprint, "0123456789ABCDEF0123456789ABCDEF01234567");
                ASSERT_STREQ(again->info.signer.user_id, "Somebody <somebody@example.com>");
                ASSERT_STREQ(again->info.signer.prefix, "example.com");
        }
}

int main(void)
{
        RUN(every_byte_is_seen_as_it_came);
        RUN(nothing_is_kept_without_consent);
        RUN(damage_is_refused_before_the_hooks);
        RUN(longer_than_allowed);
        RUN(signer_is_remembered);
        return TEST_END();
}
