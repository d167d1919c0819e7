/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The store: opening it, directories that are refused as a store, finding and removing images, and
 * concurrent processes. */

#include <linux/fs.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include "tests/unit/store-fixture.h"

static int reopen(Fixture *f, const char *name)
{
        _cleanup_(store_unrefp) Store *s = NULL;
        char path[PATH_MAX + 64];

        snprintf(path, sizeof(path), "%s/%s", f->scratch.path, name);
        return store_open_with_flags(path, STORE_UNPRIVILEGED, NULL, &s, &f->error);
}

TEST(layout)
{
        _cleanup_free_ char *version = NULL, *resolved = NULL;
        struct stat st;
        FIXTURE(f);

        ASSERT_OK(read_file_at(store_fd(f.store), "version", 10, &version, NULL));
        ASSERT_STREQ(version, "1\n");
        ASSERT_OK(fstat(store_fd(f.store), &st));
        ASSERT_EQ(st.st_mode, S_IFDIR | 0700);
        ASSERT_TRUE(scratch_has(&f.scratch, "store/pods/prepared"));
        ASSERT_TRUE(scratch_has(&f.scratch, "store/rendered"));
        resolved = realpath(f.scratch.path, NULL);
        ASSERT_CONTAINS(store_path(f.store), resolved);
        ASSERT_OK(reopen(&f, "store"));
        /* Directories that a killed process did not create are created by the next one. */
        ASSERT_OK(unlinkat(store_fd(f.store), "names", AT_REMOVEDIR));
        ASSERT_OK(reopen(&f, "store"));
        ASSERT_TRUE(scratch_has(&f.scratch, "store/names"));
        ASSERT_OK(reopen(&f, "some/where/deep"));
        ASSERT_TRUE(scratch_has(&f.scratch, "some/where/deep/version"));
}

/* The hint of FS_TOPDIR_FL on the directory NAME of the store. */
static int is_spread(Fixture *f, const char *name)
{
        _cleanup_close_ int fd = openat(store_fd(f->store), name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int flags;

        return fd < 0 || ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0 ? -errno : (flags & FS_TOPDIR_FL) != 0;
}

TEST(pods_and_images_are_kept_apart_on_disk)
{
        struct statfs fs;
        FIXTURE(f);

        ASSERT_OK(fstatfs(store_fd(f.store), &fs));
        if (fs.f_type != EXT4_SUPER_MAGIC)
                TEST_SKIP("the scratch directory is not on ext4");
        ASSERT_EQ(is_spread(&f, "tmp"), 1);
        ASSERT_EQ(is_spread(&f, "pods/embryo"), 1);
        ASSERT_EQ(is_spread(&f, "images"), 0);
}

TEST(path_without_symlinks)
{
        _cleanup_(store_unrefp) Store *s = NULL;
        char path[PATH_MAX + 64];
        FIXTURE(f);

        ASSERT_OK(scratch_symlink(&f.scratch, "link", "store"));
        snprintf(path, sizeof(path), "%s/link/../link", f.scratch.path);
        ASSERT_WORKS(f, store_open_with_flags(path, STORE_UNPRIVILEGED, NULL, &s, &f.error));
        ASSERT_STREQ(store_path(s), store_path(f.store));
}

TEST(refused)
{
        FIXTURE(f);

        ASSERT_OK(scratch_dir(&f.scratch, "full"));
        ASSERT_OK(scratch_file(&f.scratch, "full/x", ""));
        ASSERT_FAILS(f, reopen(&f, "full"), -ENOTEMPTY, "full is neither a store nor an empty directory");
        ASSERT_OK(scratch_file(&f.scratch, "file", ""));
        ASSERT_FAILS(f, reopen(&f, "file"), -ENOTDIR, "Cannot open the store");
        ASSERT_STREQ(f.error.hint, "Name a directory with --dir=.");
        ASSERT_FAILS(f, reopen(&f, "file/store"), -ENOTDIR, "Cannot create the store");

        ASSERT_OK(fchmod(store_fd(f.store), 0720));
        ASSERT_FAILS(f, reopen(&f, "store"), -EPERM, "can be written to by others (mode 0720)");
        ASSERT_OK(fchmod(store_fd(f.store), 0755));
        ASSERT_FAILS(f, reopen(&f, "store"), -EPERM, "is open to others (mode 0755)");
        ASSERT_CONTAINS(f.error.hint, "chmod 0700");
        ASSERT_OK(fchmod(store_fd(f.store), 0700));
        ASSERT_OK(scratch_file(&f.scratch, "store/version", "2\n"));
        ASSERT_FAILS(f, reopen(&f, "store"), -EPROTONOSUPPORT, "has layout version '2'");
        ASSERT_OK(scratch_file(&f.scratch, "store/version", "1"));
        ASSERT_FAILS(f, reopen(&f, "store"), -EPROTONOSUPPORT, "has layout version '1'");
}

TEST(existing_empty_directory)
{
        struct stat st;
        FIXTURE(f);

        /* Left by a process that was killed while creating it. */
        ASSERT_OK(scratch_dir(&f.scratch, "empty"));
        ASSERT_OK(scratch_file(&f.scratch, "empty/version.17-1.tmp", ""));
        ASSERT_WORKS(f, reopen(&f, "empty"));
        ASSERT_OK(fstatat(f.scratch.fd, "empty", &st, 0));
        ASSERT_EQ(st.st_mode & 07777, 0700);
        ASSERT_OK(scratch_dir(&f.scratch, "open"));
        ASSERT_OK(fchmodat(f.scratch.fd, "open", 0777, 0));
        ASSERT_FAILS(f, reopen(&f, "open"), -EPERM, "can be written to by others");
        ASSERT_FALSE(scratch_has(&f.scratch, "open/version"));
}

TEST(unfit_file_system)
{
        Store *s = NULL;
        FIXTURE(f);

        if (geteuid() != 0)
                TEST_SKIP("only root owns /proc");
        int r = store_open("/proc/sys/net", NULL, &s, &f.error);
        ASSERT_ERR(r, -EOPNOTSUPP);
        ASSERT_CONTAINS(f.error.message, "is not suitable for pods (proc)");
}

TEST(directory_of_another_user)
{
        FIXTURE(f);

        if (geteuid() != 0)
                TEST_SKIP("only root can give directories away");
        ASSERT_OK(fchown(store_fd(f.store), 1000, 1000));
        ASSERT_FAILS(f, reopen(&f, "store"), -EPERM, "belongs to user 1000, but is opened by user 0");
}

TEST(locks)
{
        _cleanup_close_ int a = -EBADF, b = -EBADF, c = -EBADF;
        FIXTURE(f);

        ASSERT_OK(store_lock_shared(f.store, &a, &f.error));
        ASSERT_OK(store_lock_shared(f.store, &b, &f.error));
        c = openat(store_fd(f.store), "lock", O_RDONLY | O_CLOEXEC);
        ASSERT_TRUE(flock(c, LOCK_EX | LOCK_NB) < 0);
        a = safe_close(a);
        b = safe_close(b);
        ASSERT_OK(store_lock_exclusive(f.store, &a, &f.error));
        ASSERT_TRUE(flock(c, LOCK_SH | LOCK_NB) < 0);
}

TEST(temporaries)
{
        StoreTemporary a = STORE_TEMPORARY_NULL, b = STORE_TEMPORARY_NULL, c = STORE_TEMPORARY_NULL;
        FIXTURE(f);

        ASSERT_OK(store_temporary_new(f.store, &a, &f.error));
        ASSERT_OK(store_temporary_new(f.store, &b, &f.error));
        _cleanup_close_ int fd = openat(store_fd(f.store), a.name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ASSERT_TRUE(flock(fd, LOCK_EX | LOCK_NB) < 0); /* in use */
        ASSERT_OK(write_file_new_at(b.dir_fd, "x", "b", 1, 0644));
        ASSERT_EQ(store_temporary_publish(&a, "rendered/x", &f.error), 1);
        ASSERT_NULL(a.name);
        ASSERT_EQ(store_temporary_publish(&b, "rendered/x", &f.error), 0);
        ASSERT_NULL(b.name);
        store_temporary_done(&a);
        store_temporary_done(&b);
        ASSERT_EQ(count_entries(f.store, "tmp"), 0);
        ASSERT_FALSE(scratch_has(&f.scratch, "store/rendered/x/x"));

        ASSERT_FAILS(f, store_detach_tree(f.store, "rendered/y", &c, &f.error), -ENOENT, "does not exist");
        ASSERT_OK(store_detach_tree(f.store, "rendered/x", &c, &f.error));
        ASSERT_EQ(count_entries(f.store, "rendered"), 0);
        store_temporary_done(&c);
        ASSERT_EQ(count_entries(f.store, "tmp"), 0);
}

/* --- Finding ------------------------------------------------------------------------------------------- */

#define LABELS(version, arch)                                                                               \
        ",\"labels\":[{\"name\":\"version\",\"value\":\"" version "\"},"                                    \
        "{\"name\":\"os\",\"value\":\"linux\"},{\"name\":\"arch\",\"value\":\"" arch "\"}]"

static char *import_id(Fixture *f, const char *manifest)
{
        _cleanup_(image_freep) Image *i = NULL;

        return aci_import_files(f->store, manifest, NULL, &i, &f->error) < 0 ? NULL : TAKE_PTR(i->id);
}

#define ASSERT_FINDS(f, reference, expected)                                                                \
        do {                                                                                                \
                _cleanup_(image_freep) Image *found_ = NULL;                                                \
                ASSERT_WORKS(f, image_find((f).store, (reference), &found_, &(f).error));                   \
                ASSERT_STREQ(found_->id, (expected));                                                       \
        } while (0)

#define ASSERT_FINDS_NOT(f, reference, code, why)                                                           \
        do {                                                                                                \
                _cleanup_(image_freep) Image *found_ = NULL;                                                \
                ASSERT_FAILS(f, image_find((f).store, (reference), &found_, &(f).error), (code), (why));    \
        } while (0)

TEST(find_by_name)
{
        _cleanup_free_ char *nine = NULL, *ten = NULL, *other = NULL, *foreign = NULL;
        FIXTURE(f);

        ten = import_id(&f, ACI_MANIFEST("example.com/app", ACI_VERSION("1.10")));
        nine = import_id(&f, ACI_MANIFEST("example.com/app", ACI_VERSION("1.9")));
        other = import_id(&f, ACI_MANIFEST("example.com/other", ""));
        foreign = import_id(&f, ACI_MANIFEST("example.com/app", LABELS("2", "aarch64")));
        if (streq(host_arch_label(), "aarch64"))
                TEST_SKIP("the machine is the other one");
        ASSERT_FINDS(f, "example.com/app", ten);
        ASSERT_FINDS(f, "example.com/app:1.9", nine);
        ASSERT_FINDS(f, "example.com/other", other);
        ASSERT_FINDS(f, "example.com/app:2", foreign);
        ASSERT_FINDS(f, "example.com/app,arch=aarch64", foreign);

        ASSERT_FINDS_NOT(f, "example.com/app:3", -ENOENT, "is named 'example.com/app:3'");
        ASSERT_CONTAINS(f.error.hint, "The store has these images of that name: example.com/app:1.9, "
                                      "example.com/app:1.10, example.com/app:2");
        ASSERT_FINDS_NOT(f, "example.com/ap", -ENOENT, "is named");
        ASSERT_CONTAINS(f.error.hint, "Did you mean example.com/app:1.9");
        ASSERT_FINDS_NOT(f, "example.org/other", -ENOENT, "is named");
        ASSERT_STREQ(f.error.hint, "Did you mean example.com/other?");
        ASSERT_FINDS_NOT(f, "something", -ENOENT, "is named");
        ASSERT_CONTAINS(f.error.hint, "'acnspawn image list' shows the images in the store");
        ASSERT_CONTAINS(f.error.hint, "If it is an image of a registry, write 'docker://something'");
        ASSERT_FINDS_NOT(f, "", -EINVAL, "is empty");
        ASSERT_FINDS_NOT(f, "Capitals", -EINVAL, "'Capitals' is not an image name");
}

/* Another image with the same content, under an ID that begins like ID, as hashes do not collide by chance. */
static int copy_image(Fixture *f, const char *id, const char *copy)
{
        _cleanup_free_ char *command = NULL;

        if (xasprintf(&command, "cp -a %s/images/%s %s/images/%s", store_path(f->store), id,
                      store_path(f->store), copy) < 0)
                return -ENOMEM;
        return system(command) == 0 ? 0 : -EIO;
}

TEST(a14_find_by_id)
{
        _cleanup_free_ char *id = NULL, *copy = NULL, *named = NULL, *manifest = NULL;
        char prefix[64];
        FIXTURE(f);

        id = import_id(&f, ACI_MANIFEST("example.com/app", ACI_VERSION("7")));
        ASSERT_FINDS(f, id, id);
        snprintf(prefix, sizeof(prefix), "%.20s", id);
        ASSERT_FINDS(f, prefix, id);
        ASSERT_FINDS(f, prefix + strlen("sha512-"), id);
        ASSERT_FINDS_NOT(f, "sha512-", -EINVAL, "no digits");
        ASSERT_FINDS_NOT(f, "sha512-0123012301230123", -ENOENT,
                         "has an ID that begins with sha512-0123012301230123");
        ASSERT_FINDS_NOT(f, "sha512-../../x", -ENOENT, "has an ID that begins with sha512-../../x");

        copy = strdup(id);
        copy[134] = copy[134] == '0' ? '1' : '0';
        ASSERT_OK(copy_image(&f, id, copy));
        ASSERT_FINDS_NOT(f, prefix, -ENOTUNIQ, "is the beginning of several image IDs");
        ASSERT_CONTAINS(f.error.message, "(example.com/app:7)");
        ASSERT_FINDS(f, copy, copy);

        /* A name that could be the beginning of an ID. */
        ASSERT_OK(image_remove(f.store, copy, NULL, &f.error));
        ASSERT_OK(xasprintf(&manifest,
                            "{\"acKind\":\"ImageManifest\",\"acVersion\":\"0.8.11\",\"name\":\"%.4s\"}",
                            id + strlen("sha512-")));
        named = import_id(&f, manifest);
        snprintf(prefix, sizeof(prefix), "%.4s", id + strlen("sha512-"));
        ASSERT_FINDS_NOT(f, prefix, -ENOTUNIQ, "the beginning of");
        ASSERT_FINDS(f, named, named);
}

TEST(find_by_file)
{
        char path[PATH_MAX + 64];
        _cleanup_(image_freep) Image *i = NULL;
        FIXTURE(f);

        aci_begin(&f.tar);
        aci_end(&f.tar);
        snprintf(path, sizeof(path), "%s/x.aci", f.scratch.path);
        ASSERT_OK(write_file_new_at(f.scratch.fd, "x.aci", f.tar.data, f.tar.size, 0644));
        ASSERT_WORKS(f, image_find(f.store, path, &i, &f.error));
        ASSERT_STREQ(i->manifest->name, "example.com/app");
        snprintf(path, sizeof(path), "%s/y.aci", f.scratch.path);
        ASSERT_FINDS_NOT(f, path, -ENOENT, "Cannot open the image");
        ASSERT_OK(mkfifoat(f.scratch.fd, "y.aci", 0600));
        ASSERT_FINDS_NOT(f, path, -EBADMSG, "is not a regular file");
        ASSERT_FINDS_NOT(f, f.scratch.path, -EISDIR, "is not a regular file");
        ASSERT_FINDS_NOT(f, "missing.aci", -ENOENT, "Cannot open the image missing.aci");
}

TEST(damaged_images)
{
        _cleanup_free_ char *good = NULL, *bad = NULL, *path = NULL;
        Image **list = NULL;
        size_t n = 0;
        FIXTURE(f);

        good = import_id(&f, ACI_MANIFEST("example.com/good", ""));
        bad = import_id(&f, ACI_MANIFEST("example.com/bad", ""));
        ASSERT_OK(xasprintf(&path, "store/images/%s/manifest", bad));
        ASSERT_OK(scratch_file(&f.scratch, path, "{"));
        ASSERT_FAILS(f, image_list(f.store, &list, &n, &f.error), -EBADMSG, bad);
        ASSERT_CONTAINS(f.error.message, "is damaged: Its manifest is not valid");
        ASSERT_CONTAINS(f.error.hint, "acnspawn image rm sha512-");
        ASSERT_FINDS(f, "example.com/good", good);
        ASSERT_FINDS_NOT(f, "example.com/bad", -ENOENT, "is named");
        ASSERT_WORKS(f, image_remove(f.store, bad, NULL, &f.error));
        ASSERT_WORKS(f, image_list(f.store, &list, &n, &f.error));
        ASSERT_EQ(n, 1);
        image_list_free(list, n);
}

TEST(listed_by_name_and_version)
{
        static const char *const manifests[] = {
                        ACI_MANIFEST("b", ACI_VERSION("10")),
                        ACI_MANIFEST("b", ACI_VERSION("9")),
                        ACI_MANIFEST("c", ""),
                        ACI_MANIFEST("a", ""),
                        ACI_MANIFEST("b", ""),
        };
        Image **list = NULL;
        size_t n = 0;
        _cleanup_text_ Text t = {};
        FIXTURE(f);

        for (size_t k = 0; k < ELEMENTSOF(manifests); k++) {
                _cleanup_free_ char *id = import_id(&f, manifests[k]);
                ASSERT_NOT_NULL(id);
        }
        ASSERT_WORKS(f, image_list(f.store, &list, &n, &f.error));
        for (size_t k = 0; k < n; k++)
                text_addf(&t, "%s%s ", list[k]->manifest->name,
                          pair_list_get(&list[k]->manifest->labels, "version") ?: "");
        image_list_free(list, n);
        ASSERT_STREQ(t.data, "a b b9 b10 c ");
}

/* --- Removing ------------------------------------------------------------------------------------------ */

TEST(remove_what_a_pod_needs)
{
        _cleanup_free_ char *id = NULL, *line = NULL, *removed = NULL;
        FIXTURE(f);

        id = import_id(&f, ACI_MANIFEST("example.com/app", ""));
        ASSERT_OK(scratch_dir(&f.scratch, "store/pods/prepared/11111111-1111-4111-8111-111111111111"));
        ASSERT_OK(scratch_dir(&f.scratch, "store/pods/prepared/11111111-1111-4111-8111-111111111111/apps"));
        ASSERT_OK(scratch_dir(&f.scratch,
                              "store/pods/prepared/11111111-1111-4111-8111-111111111111/apps/app"));
        ASSERT_OK(xasprintf(&line, "/layer\n%s/images/%s/rootfs\n", store_path(f.store), id));
        ASSERT_OK(scratch_file(&f.scratch,
                               "store/pods/prepared/11111111-1111-4111-8111-111111111111/apps/app/lowers",
                               line));
        ASSERT_FAILS(f, image_remove(f.store, "example.com/app", &removed, &f.error), -EBUSY,
                     "is needed by the pod 11111111-1111-4111-8111-111111111111");
        ASSERT_NULL(removed);
        /* A pod that has ended needs nothing. */
        ASSERT_OK(renameat(f.scratch.fd, "store/pods/prepared/11111111-1111-4111-8111-111111111111",
                           f.scratch.fd, "store/pods/exited/11111111-1111-4111-8111-111111111111"));
        ASSERT_WORKS(f, image_remove(f.store, "example.com/app", &removed, &f.error));
        ASSERT_STREQ(removed, id);
        ASSERT_TRUE(store_is_empty(f.store));
        ASSERT_FAILS(f, image_remove(f.store, id, NULL, &f.error), -ENOENT, "has an ID that begins with");
}

TEST(remove_what_an_image_needs)
{
        _cleanup_free_ char *base = NULL, *newer = NULL, *app = NULL;
        FIXTURE(f);

        base = import_id(&f, ACI_MANIFEST("example.com/base", ACI_VERSION("1")));
        app = import_id(&f, ACI_MANIFEST("example.com/app",
                                         ",\"dependencies\":[{\"imageName\":\"example.com/base\"}]"));
        ASSERT_FAILS(f, image_remove(f.store, base, NULL, &f.error), -EBUSY,
                     "is needed by the image example.com/app");
        newer = import_id(&f, ACI_MANIFEST("example.com/base", ACI_VERSION("2")));
        ASSERT_WORKS(f, image_remove(f.store, base, NULL, &f.error)); /* another one will do */
        ASSERT_FAILS(f, image_remove(f.store, newer, NULL, &f.error), -EBUSY, "example.com/app");
        ASSERT_STREQ(f.error.hint, "Remove the images that need it first.");
        ASSERT_WORKS(f, image_remove(f.store, app, NULL, &f.error));
        ASSERT_WORKS(f, image_remove(f.store, newer, NULL, &f.error));
}

/* --- Processes ----------------------------------------------------------------------------------------- */

static void make_large_image(Text *t)
{
        char name[64];

        aci_begin(t);
        for (unsigned k = 0; k < 500; k++) {
                snprintf(name, sizeof(name), "rootfs/%u/%u", k % 7, k);
                aci_file(t, name, "some content");
        }
        aci_end(t);
}

TEST(e5_imports_at_once)
{
        enum { N = 6 };
        pid_t pids[N];
        int status;
        FIXTURE(f);

        make_large_image(&f.tar);
        for (unsigned k = 0; k < N; k++) {
                pids[k] = fork();
                if (pids[k] == 0) {
                        Image *i = NULL;
                        _exit(aci_import(f.store, &f.tar, &i, &f.error) >= 0 && i ? 0 : 1);
                }
        }
        for (unsigned k = 0; k < N; k++) {
                ASSERT_OK(waitpid(pids[k], &status, 0));
                ASSERT_EQ(status, 0);
        }
        ASSERT_EQ(count_entries(f.store, "images"), 1);
        ASSERT_EQ(count_entries(f.store, "tmp"), 0);
}

/* Killed at some time: no image, or a complete one; leftovers below tmp/ can be locked, that is, collected. */
TEST(e1_killed_imports)
{
        FIXTURE(f);

        make_large_image(&f.tar);
        for (unsigned k = 0; k < 20; k++) {
                struct timespec pause = {.tv_nsec = k * 1500000};
                Image **list = NULL;
                size_t n = 0;
                pid_t pid = fork();
                if (pid == 0) {
                        Image *i = NULL;
                        _exit(aci_import(f.store, &f.tar, &i, &f.error) < 0);
                }
                nanosleep(&pause, NULL);
                kill(pid, SIGKILL);
                waitpid(pid, NULL, 0);
                ASSERT_WORKS(f, image_list(f.store, &list, &n, &f.error));
                if (n > 0)
                        ASSERT_WORKS(f, image_remove(f.store, list[0]->id, NULL, &f.error));
                image_list_free(list, n);
        }
        DIR *d = fdopendir(openat(store_fd(f.store), "tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        for (struct dirent *de; (de = readdir(d));) {
                if (de->d_name[0] == '.')
                        continue;
                _cleanup_close_ int fd = openat(dirfd(d), de->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                ASSERT_OK(flock(fd, LOCK_EX | LOCK_NB));
                ASSERT_OK(rm_rf_at(dirfd(d), de->d_name));
        }
        closedir(d);
        _cleanup_(image_freep) Image *i = NULL;
        ASSERT_IMPORTS(f, i);
}

int main(void)
{
        RUN(layout);
        RUN(pods_and_images_are_kept_apart_on_disk);
        RUN(path_without_symlinks);
        RUN(refused);
        RUN(existing_empty_directory);
        RUN(unfit_file_system);
        RUN(directory_of_another_user);
        RUN(locks);
        RUN(temporaries);
        RUN(find_by_name);
        RUN(a14_find_by_id);
        RUN(find_by_file);
        RUN(damaged_images);
        RUN(listed_by_name_and_version);
        RUN(remove_what_a_pod_needs);
        RUN(remove_what_an_image_needs);
        RUN(e5_imports_at_once);
        RUN(e1_killed_imports);
        return TEST_END();
}
