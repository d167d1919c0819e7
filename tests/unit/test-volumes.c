/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Named volumes of a store, without pods: made, read, listed, removed, pruned, written as archives and read. */

#include <limits.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "prepare/volumes/volumes.h"
#include "tests/unit/store-fixture.h"

static int make_volume(Fixture *f, const char *name, uint32_t mode)
{
        const NamedVolume v = {.name = (char *) name, .mode = mode, .uid = getuid(), .gid = getgid()};

        error_done(&f->error);
        return named_volume_create(f->store, &v, &f->error);
}

static unsigned count_volumes(Fixture *f)
{
        _cleanup_strv_free_ char **names = NULL;

        int r = named_volume_list(f->store, &names, &f->error);
        return r < 0 ? UINT_MAX : (unsigned) strv_length(names);
}

static void write_data(Fixture *f, const char *name, const char *file, const char *text)
{
        _cleanup_close_ int fd = named_volume_open_data(f->store, name, O_RDONLY);

        ASSERT_OK(fd);
        ASSERT_OK(write_file_new_at(fd, file, text, strlen(text), 0640));
}

TEST(made_complete_and_once)
{
        _cleanup_named_volume_ NamedVolume v = {}, labelled = {.name = strdup("labelled"), .mode = 0700};
        FIXTURE(f);

        ASSERT_EQ(make_volume(&f, "data", 02750), 1);
        ASSERT_EQ(make_volume(&f, "data", 0700), 0);
        ASSERT_OK(named_volume_read(f.store, "data", &v, &f.error));
        ASSERT_STREQ(v.name, "data");
        ASSERT_EQ(v.mode, 02750);
        ASSERT_EQ(v.labels.n, 0);
        ASSERT_TRUE(now_usec(CLOCK_REALTIME) - v.created_usec < 60 * UINT64_C(1000000));
        named_volume_done(&v);
        ASSERT_OK(pair_list_set(&labelled.labels, "tier", "db \"x\""));
        ASSERT_EQ(named_volume_create(f.store, &labelled, &f.error), 1);
        ASSERT_OK(named_volume_read(f.store, "labelled", &v, &f.error));
        ASSERT_STREQ(pair_list_get(&v.labels, "tier"), "db \"x\"");
        ASSERT_EQ(count_volumes(&f), 2);
        ASSERT_EQ(count_entries(f.store, "tmp"), 0);
}

TEST(names)
{
        static const char *const bad[] = {
                        "",
                        ".",
                        "..",
                        "a/b",
                        "/a",
                        "A",
                        "a_",
                        "-a",
                        "a.b",
                        "a-",
                        "\n",
                        "../volumes/a",
                        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"};
        FIXTURE(f);

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                _cleanup_named_volume_ NamedVolume v = {};
                ASSERT_EQ(make_volume(&f, bad[i], 0755), -EINVAL);
                ASSERT_EQ(named_volume_read(f.store, bad[i], &v, NULL), -EINVAL);
                ASSERT_EQ(named_volume_remove(f.store, bad[i], NULL), -EINVAL);
                ASSERT_EQ(named_volume_export(f.store, bad[i], -EBADF, NULL), -EINVAL);
                ASSERT_EQ(named_volume_open_data(f.store, bad[i], O_RDONLY), -EINVAL);
        }
        ASSERT_EQ(count_entries(f.store, "volumes"), 0);
        ASSERT_EQ(make_volume(&f, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 0755),
                  1);
}

TEST(damaged)
{
        static const char *const bad[] = {"",
                                          "{",
                                          "[]",
                                          "{\"created\":1}",
                                          "{\"created\":-1,\"labels\":{}}",
                                          "{\"created\":\"1\",\"labels\":{}}",
                                          "{\"created\":1,\"labels\":[]}",
                                          "{\"created\":1,\"labels\":{\"a\":1}}",
                                          "{\"created\":1,\"labels\":{},\"quota\":0}",
                                          "{\"created\":1,\"labels\":{},\"quota\":\"1\"}"};
        FIXTURE(f);

        ASSERT_EQ(make_volume(&f, "data", 0755), 1);
        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                _cleanup_named_volume_ NamedVolume v = {};
                ASSERT_OK(write_file_atomic_at(store_fd(f.store), "volumes/data/meta", bad[i],
                                               strlen(bad[i]), 0600, false));
                ASSERT_EQ(named_volume_read(f.store, "data", &v, &f.error), -EBADMSG);
        }
        ASSERT_EQ(count_volumes(&f), 1);
        ASSERT_OK(named_volume_remove(f.store, "data", &f.error));
}

/* tests/vm/quota.py is about file systems that have them. */
TEST(quota_is_read_but_not_in_force)
{
        static const char meta[] = "{\"created\":1,\"labels\":{},\"quota\":1048576}";
        _cleanup_named_volume_ NamedVolume v = {};
        FIXTURE(f);

        ASSERT_EQ(make_volume(&f, "data", 0755), 1);
        ASSERT_OK(write_file_atomic_at(store_fd(f.store), "volumes/data/meta", meta, strlen(meta), 0600,
                                       false));
        ASSERT_OK(named_volume_read(f.store, "data", &v, &f.error));
        ASSERT_EQ(v.quota, 1U << 20);
        ASSERT_TRUE(!named_volume_quota_in_force(f.store, &v));
        volume_quotas_release(f.store);
}

TEST(quota_is_refused)
{
        const NamedVolume v = {.name = (char *) "data", .mode = 0755, .quota = 1U << 20};
        FIXTURE(f);

        ASSERT_EQ(named_volume_create(f.store, &v, &f.error), -EOPNOTSUPP);
        ASSERT_CONTAINS(f.error.message, "The volume data cannot have a quota: the file system of the store");
        ASSERT_EQ(count_volumes(&f), 0);
        ASSERT_EQ(count_entries(f.store, "tmp"), 0);
}

TEST(links_are_not_followed)
{
        _cleanup_named_volume_ NamedVolume v = {};
        FIXTURE(f);

        ASSERT_EQ(make_volume(&f, "data", 0755), 1);
        ASSERT_OK(symlinkat("data", store_fd(f.store), "volumes/other"));
        ASSERT_EQ(named_volume_read(f.store, "other", &v, &f.error), -ELOOP);
        ASSERT_EQ(named_volume_open_data(f.store, "other", O_RDONLY), -ELOOP);
        ASSERT_EQ(named_volume_export(f.store, "other", -EBADF, &f.error), -ELOOP);
        ASSERT_OK(unlinkat(store_fd(f.store), "volumes/data/data", AT_REMOVEDIR));
        ASSERT_OK(symlinkat("/", store_fd(f.store), "volumes/data/data"));
        ASSERT_EQ(named_volume_open_data(f.store, "data", O_RDONLY), -ELOOP);
        ASSERT_EQ(named_volume_export(f.store, "data", -EBADF, &f.error), -ELOOP);
        ASSERT_EQ(named_volume_size(f.store, "data"), 0);
}

TEST(removed)
{
        _cleanup_close_ int fd = -EBADF;
        FIXTURE(f);

        ASSERT_EQ(named_volume_remove(f.store, "data", &f.error), -ENOENT);
        ASSERT_EQ(make_volume(&f, "data", 0755), 1);
        write_data(&f, "data", "file", "text");
        fd = openat(store_fd(f.store), "volumes/data", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ASSERT_OK(flock(fd, LOCK_SH));
        ASSERT_EQ(named_volume_remove(f.store, "data", &f.error), -EBUSY);
        ASSERT_EQ(count_volumes(&f), 1);
        fd = safe_close(fd);
        ASSERT_OK(named_volume_remove(f.store, "data", &f.error));
        ASSERT_EQ(count_volumes(&f), 0);
        ASSERT_EQ(count_entries(f.store, "tmp"), 0);
}

static void count_removed(const char *name, uint64_t size, void *userdata)
{
        unsigned *n = userdata;

        ASSERT_TRUE(size >= (streq(name, "a") ? 100000U : 1U));
        (*n)++;
}

TEST(pruned)
{
        char text[100000] = {};
        unsigned n = 0;
        FIXTURE(f);

        memset(text, 'x', sizeof(text) - 1);
        ASSERT_EQ(make_volume(&f, "a", 0755), 1);
        ASSERT_EQ(make_volume(&f, "b", 0755), 1);
        write_data(&f, "a", "file", text);
        write_data(&f, "b", "file", "text"); /* an empty directory takes no space on a tmpfs */
        VolumePrune o = {.dry_run = true, .removed = count_removed, .userdata = &n};
        ASSERT_OK(named_volumes_prune(f.store, &o, &f.error));
        ASSERT_EQ(n, 2);
        ASSERT_EQ(count_volumes(&f), 2);
        o.dry_run = false;
        ASSERT_OK(named_volumes_prune(f.store, &o, &f.error));
        ASSERT_EQ(n, 4);
        ASSERT_EQ(count_volumes(&f), 0);
        ASSERT_EQ(count_entries(f.store, "tmp"), 0);
}

/* --- Archives ------------------------------------------------------------------------------------------ */

static int import(Fixture *f, const char *name, int fd)
{
        const NamedVolume v = {.name = (char *) name};
        const VolumeImport i = {.volume = &v, .fd = fd};

        error_done(&f->error);
        return named_volume_import(f->store, &i, &f->error);
}

TEST(there_and_back)
{
        _cleanup_close_ int tar = -EBADF, fd = -EBADF;
        _cleanup_named_volume_ NamedVolume v = {};
        _cleanup_free_ char *text = NULL;
        struct stat a, b;
        FIXTURE(f);

        ASSERT_EQ(make_volume(&f, "data", 01771), 1);
        write_data(&f, "data", "file", "text");
        fd = named_volume_open_data(f.store, "data", O_RDONLY);
        ASSERT_OK(linkat(fd, "file", fd, "link", 0));
        ASSERT_OK(symlinkat("file", fd, "symlink"));
        tar = openat(f.scratch.fd, "tar", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        ASSERT_OK(named_volume_export(f.store, "data", tar, &f.error));
        ASSERT_OK((int) lseek(tar, 0, SEEK_SET));
        ASSERT_OK(import(&f, "copy", tar));
        ASSERT_OK(named_volume_read(f.store, "copy", &v, &f.error));
        ASSERT_EQ(v.mode, 01771);
        safe_close(fd);
        fd = named_volume_open_data(f.store, "copy", O_RDONLY);
        ASSERT_OK(read_file_at(fd, "link", 100, &text, NULL));
        ASSERT_STREQ(text, "text");
        ASSERT_OK(fstatat(fd, "file", &a, 0));
        ASSERT_OK(fstatat(fd, "link", &b, 0));
        ASSERT_TRUE(a.st_ino == b.st_ino && (a.st_mode & 07777) == 0640);
        ASSERT_OK(fstatat(fd, "symlink", &a, AT_SYMLINK_NOFOLLOW));
        ASSERT_TRUE(S_ISLNK(a.st_mode));
        ASSERT_OK((int) lseek(tar, 0, SEEK_SET));
        ASSERT_EQ(import(&f, "copy", tar), -EEXIST);
        /* Cut anywhere before the two blocks that end it, nothing is left. */
        for (off_t size = lseek(tar, 0, SEEK_END) - 1024; size >= 0; size -= 512) {
                ASSERT_OK(ftruncate(tar, size));
                ASSERT_OK((int) lseek(tar, 0, SEEK_SET));
                if (import(&f, "cut", tar) >= 0)
                        TEST_FAIL("an archive cut to %lld bytes was imported", (long long) size);
        }
        ASSERT_EQ(count_volumes(&f), 2);
        ASSERT_EQ(count_entries(f.store, "tmp"), 0);
}

int main(void)
{
        RUN(made_complete_and_once);
        RUN(names);
        RUN(damaged);
        RUN(quota_is_read_but_not_in_force);
        RUN(quota_is_refused);
        RUN(links_are_not_followed);
        RUN(removed);
        RUN(pruned);
        RUN(there_and_back);
        return TEST_END();
}
