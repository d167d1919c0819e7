/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Malformed and malicious archives: each is refused with its reason, and nothing of it stays in the store.
 * The names are those of the attacks that the project keeps a list of: A1 is a name with "..", and so on. */

#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "prepare/unpack/unpack-internal.h"
#include "tests/unit/store-fixture.h"

TEST(plain_image)
{
        _cleanup_(image_freep) Image *i = NULL, *again = NULL;
        struct stat st;
        FIXTURE(f);

        aci_begin(&f.tar);
        aci_file(&f.tar, "rootfs/x", "hello");
        aci_end(&f.tar);
        ASSERT_IMPORTS(f, i);
        ASSERT_STREQ(i->manifest->name, "example.com/app");
        ASSERT_STREQ(i->manifest_text, ACI_MANIFEST("example.com/app", ACI_VERSION("1.0")));
        ASSERT_EQ(i->size, f.tar.size);
        ASSERT_OK(fstatat(i->dir_fd, "rootfs/x", &st, 0));
        ASSERT_EQ(st.st_size, 5);
        /* The same again is the same image. */
        ASSERT_IMPORTS(f, again);
        ASSERT_STREQ(i->id, again->id);
        ASSERT_EQ(count_entries(f.store, "images"), 1);
}

TEST(a1_dot_dot)
{
        FIXTURE(f);

        aci_begin(&f.tar);
        aci_file(&f.tar, "rootfs/../../../escaped", "x");
        aci_end(&f.tar);
        ASSERT_REFUSED(f, -EBADMSG, "has a '..' component");
        ASSERT_FALSE(scratch_has(&f.scratch, "escaped"));
        text_done(&f.tar);
        aci_begin(&f.tar);
        aci_file(&f.tar, "../escaped", "x");
        aci_end(&f.tar);
        ASSERT_REFUSED(f, -EBADMSG, "'../escaped'");
}

TEST(a2_absolute)
{
        FIXTURE(f);

        aci_begin(&f.tar);
        aci_file(&f.tar, "/rootfs/x", "x");
        aci_end(&f.tar);
        ASSERT_REFUSED(f, -EBADMSG, "'/rootfs/x': the name is absolute");
}

TEST(a3_through_symlink)
{
        char target[PATH_MAX + 16];
        FIXTURE(f);

        snprintf(target, sizeof(target), "%.90s", f.scratch.path);
        aci_begin(&f.tar);
        aci_symlink(&f.tar, "rootfs/a", target);
        aci_file(&f.tar, "rootfs/a/escaped", "x");
        aci_end(&f.tar);
        ASSERT_REFUSED(f, -EBADMSG, "leads through");
        ASSERT_FALSE(scratch_has(&f.scratch, "escaped"));
        text_done(&f.tar);
        aci_begin(&f.tar);
        aci_symlink(&f.tar, "rootfs/a", ".");
        aci_file(&f.tar, "rootfs/a/b/c/x", "x");
        aci_end(&f.tar);
        ASSERT_REFUSED(f, -EBADMSG, "leads through a symbolic link");
}

TEST(a3_replaced)
{
        static const struct {
                char first, second;
        } kinds[] = {{'5', '2'}, {'2', '5'}, {'0', '2'}, {'2', '0'}, {'5', '0'}, {'0', '5'}, {'0', '0'},
                     {'5', '5'}, {'6', '0'}, {'0', '6'}, {'5', '1'}, {'2', '1'}, {'0', '1'}};

        for (size_t k = 0; k < ELEMENTSOF(kinds); k++) {
                FIXTURE(f);
                aci_begin(&f.tar);
                aci_file(&f.tar, "rootfs/file", "x");
                aci_entry(&f.tar, (AciEntry){.name = "rootfs/a",
                                             .type = kinds[k].first,
                                             .mode = 0711,
                                             .link = "file"});
                aci_entry(&f.tar, (AciEntry){.name = "rootfs/a",
                                             .type = kinds[k].second,
                                             .mode = 0711,
                                             .link = "rootfs/file"});
                aci_end(&f.tar);
                ASSERT_REFUSED(f, -EBADMSG, "'rootfs/a': the archive has it twice");
        }
}

TEST(a4_hard_links)
{
        static const struct {
                const char *target, *why;
        } cases[] = {
                        {"/etc/shadow", "the name is absolute"},
                        {"../../../../etc/shadow", "'..' component"},
                        {"manifest", "leads out of rootfs"},
                        {"rootfs", "leads out of rootfs"},
                        {"rootfs/later", "is no earlier entry"},
                        {"rootfs/missing/x", "is no earlier entry"},
                        {"rootfs/link/group", "leads through a symbolic link"},
                        {"rootfs/dir", "the hard link leads to a directory"},
                        {"rootfs/x", "is no earlier entry"},
        };

        for (size_t k = 0; k < ELEMENTSOF(cases); k++) {
                FIXTURE(f);
                aci_begin(&f.tar);
                aci_symlink(&f.tar, "rootfs/link", "/etc");
                aci_dir(&f.tar, "rootfs/dir");
                aci_hard_link(&f.tar, "rootfs/x", cases[k].target);
                aci_file(&f.tar, "rootfs/later", "");
                aci_end(&f.tar);
                ASSERT_REFUSED(f, -EBADMSG, cases[k].why);
        }
}

/* The new name is a symbolic link as well: nothing may be unpacked through it. */
TEST(a4_through_hard_link_to_symlink)
{
        FIXTURE(f);

        aci_begin(&f.tar);
        aci_symlink(&f.tar, "rootfs/link", "/etc");
        aci_hard_link(&f.tar, "rootfs/x", "rootfs/link");
        aci_file(&f.tar, "rootfs/x/escaped", "");
        aci_end(&f.tar);
        ASSERT_REFUSED(f, -EBADMSG, "'rootfs/x/escaped': the name leads through a symbolic link");
}

TEST(a8_overlay_attributes)
{
        static const char *const records[] = {
                        "SCHILY.xattr.trusted.overlay.opaque=y",
                        "SCHILY.xattr.user.overlay.redirect=/x",
                        "LIBARCHIVE.xattr.trusted.overlay.metacopy=eQ==",
                        "SCHILY.xattr.trusted.overlay.overlay.whiteout=y",
        };

        for (size_t k = 0; k < ELEMENTSOF(records); k++) {
                FIXTURE(f);
                aci_begin(&f.tar);
                ACI_PAX(&f.tar, records[k]);
                aci_dir(&f.tar, "rootfs/x");
                aci_end(&f.tar);
                ASSERT_REFUSED(f, -EBADMSG, "would control overlayfs");
        }
}

TEST(a8_whiteouts)
{
        _cleanup_(image_freep) Image *i = NULL;
        struct stat st;
        FIXTURE(f);

        aci_begin(&f.tar);
        aci_entry(&f.tar, (AciEntry){.name = "rootfs/etc", .type = '3', .mode = 0});
        aci_end(&f.tar);
        ASSERT_REFUSED(f, -EBADMSG, "whiteout");
        text_done(&f.tar);
        /* Names with a meaning in another image format have none here. */
        aci_begin(&f.tar);
        aci_file(&f.tar, "rootfs/.wh.etc", "");
        aci_end(&f.tar);
        ASSERT_IMPORTS(f, i);
        ASSERT_OK(fstatat(i->dir_fd, "rootfs/.wh.etc", &st, 0));
}

TEST(a9_sparse_file_of_8_eib)
{
        static const char map[512] = "1\n8000000000000000000\n0\n"; /* one piece, at the end, of no length */
        FIXTURE(f);

        aci_begin(&f.tar);
        ACI_PAX(&f.tar, "GNU.sparse.major=1", "GNU.sparse.minor=0", "GNU.sparse.name=rootfs/huge",
                "GNU.sparse.realsize=8000000000000000000");
        aci_entry(&f.tar,
                  (AciEntry){.name = "rootfs/x", .type = '0', .mode = 0644, .size = 512, .content = map});
        aci_end(&f.tar);
        ASSERT_REFUSED(f, -ENOSPC, "more space than the store has");
        ASSERT_CONTAINS(f.error.hint, "image rm");
        text_done(&f.tar);
        /* A plain one, whose content is not even there. */
        aci_begin(&f.tar);
        ACI_PAX(&f.tar, "size=9223372036854775000");
        aci_entry(&f.tar, (AciEntry){.name = "rootfs/x", .type = '0', .mode = 0644});
        aci_end(&f.tar);
        ASSERT_REFUSED(f, -ENOSPC, "more space than the store has");
}

TEST(a9_bomb)
{
        Unpack u = UNPACK_NULL;
        FIXTURE(f);

        /* Files that do not fit into the store are refused by their stated size, before they are written. */
        ASSERT_OK(unpack_init(&u, store_fd(f.store), true, &f.error));
        uint64_t budget = u.budget;
        ASSERT_OK(unpack_charge(&u, 1000, &f.error));
        ASSERT_EQ(u.budget, budget - 1000 - ENTRY_COST);
        ASSERT_ERR(unpack_charge(&u, budget, &f.error), -ENOSPC);
        ASSERT_ERR(unpack_charge(&u, UINT64_MAX, &f.error), -ENOSPC);
        u.n_entries = ENTRIES_MAX;
        ASSERT_ERR(unpack_charge(&u, 0, &f.error), -E2BIG);
        ASSERT_CONTAINS(f.error.message, "more than 4194304 entries");
        unpack_done(&u);
}

TEST(a9_long_and_deep)
{
        _cleanup_text_ Text deep = {}, record = {};
        _cleanup_(image_freep) Image *i = NULL;
        FIXTURE(f);

        for (unsigned k = 0; k < 600; k++)
                text_add(&deep, "/d");
        text_addf(&record, "path=rootfs%s", deep.data);
        aci_begin(&f.tar);
        ACI_PAX(&f.tar, record.data);
        aci_dir(&f.tar, "x");
        aci_end(&f.tar);
        ASSERT_REFUSED(f, -E2BIG, "more than 512 components");

        record.data[strlen("path=rootfs") + 2U * 500] = 0;
        text_done(&f.tar);
        aci_begin(&f.tar);
        ACI_PAX(&f.tar, record.data);
        aci_dir(&f.tar, "x");
        aci_end(&f.tar);
        ASSERT_IMPORTS(f, i);
        ASSERT_OK(image_remove(f.store, i->id, NULL, &f.error));

        text_done(&record);
        text_add(&record, "path=rootfs/");
        for (unsigned k = 0; k < 300; k++)
                text_add(&record, "x");
        text_done(&f.tar);
        aci_begin(&f.tar);
        ACI_PAX(&f.tar, record.data);
        aci_dir(&f.tar, "x");
        aci_end(&f.tar);
        ASSERT_REFUSED(f, -ENAMETOOLONG, "longer than 255 bytes");
        for (unsigned k = 0; k < 5000; k++)
                text_add(&record, k % 100 ? "x" : "/");
        text_done(&f.tar);
        aci_begin(&f.tar);
        ACI_PAX(&f.tar, record.data);
        aci_dir(&f.tar, "x");
        aci_end(&f.tar);
        ASSERT_REFUSED(f, -ENAMETOOLONG, "longer than 4095 bytes");
        ASSERT_LT(strlen(f.error.message), 500);
}

/* The map of a sparse file in the old GNU format can continue without limit in header blocks. */
TEST(a9_endless_headers)
{
        unsigned char block[512] = {};
        unsigned char *h;
        FIXTURE(f);

        aci_begin(&f.tar);
        aci_entry(&f.tar, (AciEntry){.name = "rootfs/x", .type = 'S', .mode = 0644});
        h = (unsigned char *) f.tar.data + f.tar.size - 512;
        memcpy(h + 257, "ustar  ", 8);
        snprintf((char *) h + 386, 12, "%011o", 0);
        h[482] = 1;
        aci_checksum(h);
        for (unsigned k = 0; k < 21; k++) {
                snprintf((char *) block + k * 24, 12, "%011o", k);
                snprintf((char *) block + k * 24 + 12, 12, "%011o", 0);
        }
        block[504] = 1;
        for (unsigned k = 0; k < 17U * 1024 * 1024 / 512 + 1024; k++)
                text_add_bytes(&f.tar, block, sizeof(block));
        aci_end(&f.tar);
        ASSERT_REFUSED(f, -E2BIG, "more than 16777216 bytes of headers");
}

TEST(a10_truncated)
{
        _cleanup_text_ Text whole = {};
        FIXTURE(f);

        aci_begin(&whole);
        aci_file(&whole, "rootfs/x", "hello");
        ACI_PAX(&whole, "mtime=1.5");
        aci_dir(&whole, "rootfs/dir");
        for (size_t n = 0; n <= whole.size; n += n % 512 ? 511 : 1) {
                text_done(&f.tar);
                text_add_bytes(&f.tar, whole.data, n);
                ASSERT_REFUSED(f, -EBADMSG, "");
        }
        ASSERT_CONTAINS(f.error.message, "The archive has no end mark: it is truncated");
}

TEST(a10_garbage_after_end)
{
        _cleanup_(image_freep) Image *i = NULL;
        FIXTURE(f);

        aci_begin(&f.tar);
        aci_end(&f.tar);
        for (unsigned k = 0; k < 20; k++)
                aci_end(&f.tar); /* padding, as of tape blocks */
        size_t n = f.tar.size;
        text_add(&f.tar, "x");
        ASSERT_REFUSED(f, -EBADMSG, "Data follows the end of the archive");
        f.tar.size = n;
        /* A second archive is garbage, too. */
        aci_file(&f.tar, "rootfs/later", "x");
        aci_end(&f.tar);
        ASSERT_REFUSED(f, -EBADMSG, "Data follows the end of the archive");
        f.tar.size = n;
        ASSERT_IMPORTS(f, i);
        ASSERT_EQ(i->size, n);
}

TEST(a10_duplicates)
{
        FIXTURE(f);

        aci_begin(&f.tar);
        aci_manifest(&f.tar, ACI_MANIFEST("example.com/other", ""));
        aci_end(&f.tar);
        ASSERT_REFUSED(f, -EBADMSG, "two manifests");
        text_done(&f.tar);
        aci_begin(&f.tar);
        aci_dir(&f.tar, "./rootfs/");
        aci_end(&f.tar);
        ASSERT_REFUSED(f, -EBADMSG, "'rootfs': the archive has it twice");
}

TEST(a12_manifest)
{
        static const AciEntry wrong[] = {
                        {.name = "manifest", .type = '2', .link = "rootfs/x"},
                        {.name = "manifest", .type = '5', .mode = 0755},
                        {.name = "manifest", .type = '1', .link = "rootfs/x"},
                        {.name = "manifest", .type = '6'},
        };
        _cleanup_(image_freep) Image *i = NULL;
        FIXTURE(f);

        aci_dir(&f.tar, "rootfs");
        aci_end(&f.tar);
        ASSERT_REFUSED(f, -EBADMSG, "has no manifest");
        for (size_t k = 0; k < ELEMENTSOF(wrong); k++) {
                text_done(&f.tar);
                aci_dir(&f.tar, "rootfs");
                aci_file(&f.tar, "rootfs/x", "{}");
                aci_entry(&f.tar, wrong[k]);
                aci_end(&f.tar);
                ASSERT_REFUSED(f, -EBADMSG, "manifest is not a regular file");
        }
        text_done(&f.tar);
        aci_dir(&f.tar, "rootfs");
        aci_entry(&f.tar, (AciEntry){.name = "manifest", .type = '0', .size = 1U << 30, .no_content = true});
        ASSERT_REFUSED(f, -EFBIG, "longer than 4194304 bytes (1073741824)");
        text_done(&f.tar);
        aci_dir(&f.tar, "rootfs");
        aci_manifest(&f.tar, "{\"acKind\":\"PodManifest\"}");
        aci_end(&f.tar);
        ASSERT_REFUSED(f, -EINVAL, "The manifest is not valid");
        text_done(&f.tar);
        /* At the end is fine. */
        aci_dir(&f.tar, "./");
        aci_dir(&f.tar, "./rootfs");
        aci_manifest(&f.tar, ACI_MANIFEST("example.com/app", ""));
        aci_end(&f.tar);
        ASSERT_IMPORTS(f, i);
}

TEST(a15_rootfs_is_no_directory)
{
        static const AciEntry wrong[] = {
                        {.name = "rootfs", .type = '2', .link = "/"},
                        {.name = "rootfs", .type = '0'},
                        {.name = "rootfs", .type = '1', .link = "manifest"},
        };

        for (size_t k = 0; k < ELEMENTSOF(wrong); k++) {
                FIXTURE(f);
                aci_manifest(&f.tar, ACI_MANIFEST("example.com/app", ""));
                aci_entry(&f.tar, wrong[k]);
                aci_end(&f.tar);
                ASSERT_REFUSED(f, -EBADMSG, "'rootfs': it has to be a directory");
        }
}

TEST(layout)
{
        FIXTURE(f);

        aci_manifest(&f.tar, ACI_MANIFEST("example.com/app", ""));
        aci_end(&f.tar);
        ASSERT_REFUSED(f, -EBADMSG, "has no rootfs");
        text_done(&f.tar);
        aci_begin(&f.tar);
        aci_file(&f.tar, "rootfs2/\x1b[31m", "x");
        aci_end(&f.tar);
        ASSERT_REFUSED(f, -EBADMSG, "'rootfs2/\\x1b[31m': it is neither the manifest nor below rootfs");
        text_done(&f.tar);
        text_add(&f.tar, "This is some text, and no archive at all.\n");
        ASSERT_REFUSED(f, -EBADMSG, "not a tar archive");
}

TEST(damaged_header)
{
        FIXTURE(f);

        aci_begin(&f.tar);
        aci_file(&f.tar, "rootfs/x", "hello");
        f.tar.data[f.tar.size - 1024] ^= 1;
        aci_end(&f.tar);
        ASSERT_REFUSED(f, -EBADMSG, "The archive is damaged");
}

static void *write_slowly(void *userdata)
{
        _cleanup_text_ Text t = {};
        int fd = *(int *) userdata;

        aci_begin(&t);
        aci_file(&t, "rootfs/../x", "x");
        (void) loop_write(fd, t.data, t.size);
        return NULL; /* and leaves the pipe open */
}

/* A failure does not wait for the rest of a stream that may never come. */
TEST(failure_on_open_pipe)
{
        _cleanup_(image_freep) Image *i = NULL;
        int fds[2];
        pthread_t thread;
        FIXTURE(f);

        ASSERT_OK(pipe2(fds, O_CLOEXEC));
        ASSERT_OK(-pthread_create(&thread, NULL, write_slowly, &fds[1]));
        /* The reader fills whole blocks first, so the rest of one has to come. */
        static char zeros[512 * 1024];
        pthread_join(thread, NULL);
        pid_t pid = fork();
        if (pid == 0) {
                (void) loop_write(fds[1], zeros, sizeof(zeros));
                pause();
                _exit(0);
        }
        int r = image_import(f.store, fds[0], "pipe", &i, &f.error);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        close(fds[0]);
        close(fds[1]);
        ASSERT_ERR(r, -EBADMSG);
        ASSERT_CONTAINS(f.error.message, "'..' component");
        ASSERT_TRUE(store_is_empty(f.store));
}

int main(void)
{
        RUN(plain_image);
        RUN(a1_dot_dot);
        RUN(a2_absolute);
        RUN(a3_through_symlink);
        RUN(a3_replaced);
        RUN(a4_hard_links);
        RUN(a4_through_hard_link_to_symlink);
        RUN(a8_overlay_attributes);
        RUN(a8_whiteouts);
        RUN(a9_sparse_file_of_8_eib);
        RUN(a9_bomb);
        RUN(a9_long_and_deep);
        RUN(a9_endless_headers);
        RUN(a10_truncated);
        RUN(a10_garbage_after_end);
        RUN(a10_duplicates);
        RUN(a12_manifest);
        RUN(a15_rootfs_is_no_directory);
        RUN(layout);
        RUN(damaged_header);
        RUN(failure_on_open_pipe);
        return TEST_END();
}
