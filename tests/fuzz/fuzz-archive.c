/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Complete imports of untrusted archives into a store in memory: decompression, the tar reader, unpacking,
 * the manifest. For every input, the import succeeds and leaves one image, or fails with a message and
 * leaves nothing; no file appears outside of the store.
 *
 * A fuzzer cannot guess checksums, so those of all blocks that look like tar headers are corrected first.
 * The store is on a separate tmpfs in a private mount namespace. */

#include <dirent.h>
#include <sched.h>
#include <sys/mount.h>

#include "tests/unit/aci.h"
#include "tests/unit/scratch.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static Scratch scratch = SCRATCH_NULL;
static Store *store;

static void give_up(const char *why)
{
        fprintf(stderr, "fuzz-archive: %s\n", why);
        abort();
}

static bool mounted;

static void clean_up(void)
{
        store = store_unref(store);
        if (mounted) {
                scratch.fd = safe_close(scratch.fd);
                (void) umount2(scratch.path, MNT_DETACH);
                (void) rmdir(scratch.path);
        } else
                scratch_done(&scratch);
}

/* Best effort: without it the store is on disk, which is slower. */
static void use_memory(void)
{
        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("tmpfs", scratch.path, "tmpfs", MS_NOSUID | MS_NODEV, "size=256m,mode=0700") < 0)
                return;
        mounted = true;
        safe_close(scratch.fd);
        scratch.fd = open(scratch.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void open_store(void)
{
        _cleanup_error_ Error e = {};
        _cleanup_free_ char *path = NULL;

        /* Unprivileged users cannot remove directories that they may not read. */
        if (geteuid() != 0) {
                printf("SKIP: imports are for root\n");
                exit(77);
        }
        if (scratch_new(&scratch) < 0)
                give_up("no scratch directory");
        use_memory();
        (void) atexit(clean_up);
        if (xasprintf(&path, "%s/store", scratch.path) < 0 ||
            store_open_with_flags(path, STORE_UNPRIVILEGED, NULL, &store, &e) < 0)
                give_up(e.message ?: "no memory");
}

static unsigned count(int dir_fd, const char *path)
{
        unsigned n = 0;
        DIR *d = fdopendir(openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));

        if (!d)
                give_up("a directory of the store is not there");
        for (struct dirent *de; (de = readdir(d));)
                n += !streq(de->d_name, ".") && !streq(de->d_name, "..");
        closedir(d);
        return n;
}

static void repair_checksums(uint8_t *data, size_t size)
{
        for (size_t i = 0; i + 512 <= size; i += 512)
                if (memcmp(data + i + 257, "ustar", 5) == 0)
                        aci_checksum(data + i);
}

static void check_failure(const Error *e)
{
        if (!e->message || !startswith(e->message, "Cannot import "))
                give_up("a failure without a message");
        if (!utf8_is_valid(e->message, strlen(e->message)) || strlen(e->message) > 16384)
                give_up("a message that cannot be shown");
        for (const char *c = e->message; *c; c++)
                if ((unsigned char) *c < 0x20 || *c == 0x7f)
                        give_up("a message with a control character");
}

static void check_success(const Image *i)
{
        _cleanup_error_ Error e = {};

        if (!i || count(store->fd, "images") != 1)
                give_up("a success without an image");
        if (faccessat(i->dir_fd, "rootfs", F_OK, AT_SYMLINK_NOFOLLOW) < 0)
                give_up("an image without a root");
        if (image_remove(store, i->id, NULL, &e) < 0)
                give_up(e.message);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
        (void) argc;
        (void) argv;
        if (!store)
                open_store();
        return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _cleanup_(image_freep) Image *image = NULL;
        _cleanup_error_ Error e = {};
        _cleanup_close_ int fd = -EBADF;
        _cleanup_free_ uint8_t *copy = malloc(size + 1);

        (void) LLVMFuzzerInitialize(NULL, NULL);
        if (!copy)
                return 0;
        memcpy(copy, data, size);
        repair_checksums(copy, size);
        fd = aci_fd(copy, size);
        if (fd < 0)
                give_up("no memory file");
        if (image_import(store, fd, "fuzz", &image, &e) < 0)
                check_failure(&e);
        else
                check_success(image);
        if (count(store->fd, "images") != 0 || count(store->fd, "tmp") != 0)
                give_up("something is left in the store");
        if (count(scratch.fd, ".") != 1)
                give_up("something appeared beside the store");
        return 0;
}
