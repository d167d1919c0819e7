/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Tar archives with OCI and Docker images, and their layers: the first byte selects the parser. Checksums of
 * headers are corrected first, as a fuzzer cannot guess them. For every input, a failed import leaves
 * nothing, and no file appears outside of the store. */

#include <dirent.h>
#include <sys/stat.h>

#include "prepare/oci/oci-internal.h"
#include "tests/unit/aci.h"
#include "tests/unit/scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static Scratch scratch = SCRATCH_NULL;
static Store *store;

static void clean_up(void)
{
        store = store_unref(store);
        scratch_done(&scratch);
}

static void open_store(void)
{
        _cleanup_free_ char *path = NULL;

        if (scratch_new(&scratch) < 0 || xasprintf(&path, "%s/store", scratch.path) < 0 ||
            store_open_with_flags(path, STORE_UNPRIVILEGED, NULL, &store, NULL) < 0)
                abort();
        (void) atexit(clean_up);
}

static unsigned count(int dir_fd, const char *path)
{
        DIR *d = fdopendir(openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        unsigned n = 0;

        if (!d)
                abort();
        for (struct dirent *de; (de = readdir(d));)
                n += !streq(de->d_name, ".") && !streq(de->d_name, "..");
        closedir(d);
        return n;
}

static void check_message(const Error *e)
{
        if (!e->message || !utf8_is_valid(e->message, strlen(e->message)))
                abort();
        for (const char *c = e->message; *c; c++)
                if ((unsigned char) *c < 0x20 || *c == 0x7f)
                        abort();
}

static void fuzz_image(int fd, bool docker)
{
        _cleanup_(oci_source_freep) OciSource *source = NULL;
        _cleanup_(image_freep) Image *image = NULL;
        _cleanup_error_ Error e = ERROR_NULL;
        char path[40];

        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        int r = docker ? docker_archive_open(store, path, NULL, &source, &e)
                       : oci_archive_open(store, path, NULL, &source, &e);
        if (r >= 0)
                r = oci_import(store, source, NULL, &image, &e);
        if (r < 0)
                check_message(&e);
        else if (image_remove(store, image->id, NULL, &e) < 0)
                abort();
}

static int take_entry(struct archive *a, struct archive_entry *entry, void *userdata, Error *e)
{
        return unpack_layer_entry(userdata, a, entry, e);
}

static void fuzz_layer(int fd)
{
        _cleanup_(store_temporary_done) StoreTemporary t = STORE_TEMPORARY_NULL;
        _cleanup_(archive_reader_freep) ArchiveReader *reader = NULL;
        const PipelineOptions o = {.size_max = 16U << 20, .sha256 = true, .lenient = true};
        _cleanup_(unpack_done) Unpack u = UNPACK_NULL;
        _cleanup_error_ Error e = ERROR_NULL;
        PipelineResult result = {};
        struct stat st;

        if (store_temporary_new(store, &t, NULL) < 0 || unpack_layer_init(&u, t.dir_fd, true, NULL) < 0)
                abort();
        u.link_below = true;
        int r = archive_reader_new(fd, &o, &reader, &e);
        if (r >= 0)
                r = archive_reader_run(reader, take_entry, &u, &result, &e);
        if (r >= 0)
                r = unpack_finish(&u, &e);
        free(result.id);
        if (r < 0)
                check_message(&e);
        /* Each placeholder for a file of a lower layer is still a separate file. */
        for (size_t i = 0; u.links_below && i < u.links_below->n; i++) {
                char name[40];
                snprintf(name, sizeof(name), LINKS_BELOW "/%zu", i);
                if (fstatat(t.dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
                    st.st_ino != u.links_below->links[i].inode || st.st_size != (off_t) i + 1)
                        abort();
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _cleanup_free_ uint8_t *copy = malloc(size + 1);
        _cleanup_close_ int fd = -EBADF;

        if (geteuid() != 0) {
                printf("SKIP: imports are for root\n");
                exit(77);
        }
        if (!copy || size < 1)
                return 0;
        if (!store)
                open_store();
        memcpy(copy, data + 1, size - 1);
        for (size_t i = 0; i + 512 <= size - 1; i += 512)
                if (memcmp(copy + i + 257, "ustar", 5) == 0)
                        aci_checksum(copy + i);
        fd = aci_fd(copy, size - 1);
        if (fd < 0)
                return 0;
        if (data[0] == 'd' || data[0] == 'o')
                fuzz_image(fd, data[0] == 'd');
        else if (data[0] == 'l')
                fuzz_layer(fd);
        if (count(store->fd, "tmp") != 0 || count(store->fd, "images") != 0 || count(scratch.fd, ".") != 1)
                abort();
        return 0;
}
