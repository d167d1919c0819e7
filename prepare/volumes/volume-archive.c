/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Named volumes as tar archives.
 *
 * On disk the owners are those that apps see, so nothing is mapped. An archive to import is untrusted: it is
 * unpacked below tmp/ by the code and within the limits of images, and becomes a volume when it is complete;
 * an archive without its end is refused.
 *
 * A quota is an extended attribute of the archive's first entry, the directory itself, which no app can set. It is
 * in force before the first file is unpacked, so that all files count.
 */

#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "library/libarchive.h"
#include "prepare/pack/pack.h"
#include "prepare/volumes/volumes-internal.h"
#include "schema/settings.h"

#define QUOTA_ATTRIBUTE "trusted.acnspawn.quota"

/* --- Exporting ----------------------------------------------------------------------------------------- */

static bool leave_out(int fd, const struct stat *st, const char *path, void *userdata)
{
        const char *why = S_ISSOCK(st->st_mode)                          ? "a socket"
                          : S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode) ? "a device"
                                                                         : NULL;

        if (why)
                operation_message(userdata, LOG_LEVEL_WARNING, "'%s' is left out: it is %s", path, why);
        return why;
}

static int write_archive(Store *s, const NamedVolume *v, int data_fd, int fd, Error *e)
{
        _cleanup_(compressor_freep) Compressor *c = NULL;
        _cleanup_(tar_writer_freep) TarWriter *w = NULL;
        char quota[24];
        const PackXattr attribute = {.name = (char *) QUOTA_ATTRIBUTE,
                                     .value = quota,
                                     .size = (size_t) snprintf(quota, sizeof(quota), "%" PRIu64, v->quota)};
        const TreeOptions o = {.one_file_system = true,
                               .top_xattr = v->quota > 0 ? &attribute : NULL,
                               .leave_out = leave_out,
                               .userdata = s->operation};

        int r = compressor_new(COMPRESSION_NONE, fd, "the archive", s->operation, &c, e);
        if (r >= 0)
                r = tar_writer_new(c, &w, e);
        if (r >= 0)
                r = tar_writer_add_tree(w, data_fd, ".", &o, e);
        return r < 0 ? r : tar_writer_finish(w, NULL, NULL, e);
}

int named_volume_export(Store *s, const char *name, int fd, Error *e)
{
        _cleanup_named_volume_ NamedVolume v = {};
        _cleanup_close_ int lock = -EBADF, data_fd = -EBADF;
        _cleanup_free_ char *path = NULL;

        int r = named_volume_read(s, name, &v, e);
        if (r >= 0)
                r = volume_path(name, &path, e);
        if (r < 0)
                return r;
        /* The volume is not removed meanwhile. */
        lock = open_no_symlinks(s->fd, path, O_RDONLY | O_DIRECTORY);
        r = lock < 0 ? lock : flock(lock, LOCK_SH) < 0 ? -errno : 0;
        if (r >= 0)
                r = data_fd = named_volume_open_data(s, name, O_RDONLY);
        if (r < 0)
                return error_set_errno(e, r, "Cannot open the volume %s", name);
        r = write_archive(s, &v, data_fd, fd, e);
        if (r == -EAGAIN)
                return error_hint(e, r,
                                  "An app is writing to it: 'acnspawn pause' its pod before, and 'acnspawn "
                                  "resume' it after.");
        return r;
}

/* --- Importing ----------------------------------------------------------------------------------------- */

typedef struct Import {
        Unpack unpack;
        Store *store;
        int dir_fd;         /* the temporary directory */
        NamedVolume volume; /* borrows the strings of the request */
        bool has_quota;     /* it is settled */
        bool has_entries;
} Import;

/* Volumes are mounted without devices. */
static bool is_device(struct archive_entry *entry)
{
        return !archive_entry_hardlink(entry) &&
               (archive_entry_filetype(entry) == AE_IFCHR || archive_entry_filetype(entry) == AE_IFBLK);
}

static int apply_quota(Import *i, Error *e)
{
        _cleanup_close_ int fd =
                        openat(i->dir_fd, "rootfs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        i->has_quota = true;
        if (fd < 0)
                return error_set_errno(e, -errno, "Cannot open the directory of the volume");
        return volume_quota_set(i->store, fd, i->volume.name, i->volume.quota, e);
}

static int parse_quota(const void *value, size_t size, uint64_t *ret)
{
        char text[24] = "";

        if (size == 0 || size >= sizeof(text))
                return -EINVAL;
        memcpy(text, value, size);
        return volume_quota_parse(text, ret);
}

/* The quota that the archive has, if ENTRY is its directory. */
static int take_quota(Import *i, struct archive_entry *entry, Error *e)
{
        const char *name;
        const void *value;
        size_t size;

        (void) archive_entry_xattr_reset(entry);
        while (archive_entry_xattr_next(entry, &name, &value, &size) == ARCHIVE_OK) {
                if (!streq(name ?: "", QUOTA_ATTRIBUTE))
                        continue;
                if (parse_quota(value, size, &i->volume.quota) < 0)
                        return error_set(e, -EBADMSG, "The archive has a quota that is not valid");
                int r = apply_quota(i, e);
                return r == -EOPNOTSUPP ? error_hint(e, r,
                                                     "Import it without the quota of the archive: "
                                                     "--quota=none")
                                        : r;
        }
        return 0;
}

static int take_entry(struct archive *a, struct archive_entry *entry, void *userdata, Error *e)
{
        const char *name = archive_entry_pathname(entry);
        _cleanup_free_ char *inside = NULL, *path = NULL;
        Import *i = userdata;

        if (isempty(name))
                return error_set(e, -EBADMSG, "The archive has an entry without a name");
        if (name[0] == '/')
                return error_set(e, -EBADMSG, "The archive has an entry with an absolute name");
        if (xasprintf(&inside, "rootfs/%s", name) < 0)
                return error_oom(e);
        int r = unpack_normalize_path(inside, &path, e);
        if (r < 0)
                return r;
        if (!i->has_quota && !i->has_entries && streq(path, "rootfs"))
                r = take_quota(i, entry, e);
        i->has_entries = true;
        if (r < 0)
                return r;
        if (is_device(entry)) {
                operation_message(i->store->operation, LOG_LEVEL_WARNING, "'%s' is left out: it is a device",
                                  name);
                return 0;
        }
        return unpack_entry(&i->unpack, path, a, entry, e);
}

static int unpack(Import *i, int fd, Error *e)
{
        _cleanup_(archive_reader_freep) ArchiveReader *reader = NULL;
        PipelineOptions o = {.hooks.operation = i->store->operation};
        PipelineResult result = {};

        if (__builtin_add_overflow(i->unpack.budget, STREAM_SLACK, &o.size_max))
                o.size_max = UINT64_MAX;
        int r = archive_reader_new(fd, &o, &reader, e);
        if (r >= 0)
                r = archive_reader_run(reader, take_entry, i, &result, e);
        if (r >= 0)
                r = unpack_finish(&i->unpack, e);
        free(result.id);
        return r;
}

static int settle_data(const Store *s, int dir_fd, const VolumeImport *i, bool *ret_exceeded)
{
        _cleanup_close_ int fd = -EBADF;
        struct stat st;

        if (renameat(dir_fd, "rootfs", dir_fd, "data") < 0)
                return -errno;
        fd = openat(dir_fd, "data", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        if (fremovexattr(fd, QUOTA_ATTRIBUTE) < 0 && errno != ENODATA && errno != EOPNOTSUPP &&
            errno != EPERM)
                return -errno;
        *ret_exceeded = volume_quota_is_exceeded(fd);
        int r = i->has_owner ? volume_set_owner(s, fd, i->volume->uid, i->volume->gid) : 0;
        if (r < 0)
                return r;
        mode_t mode = i->has_mode ? i->volume->mode : st.st_mode & 07777;
        return fchmod(fd, mode) < 0 ? -errno : 0;
}

static int fill(Store *s, int dir_fd, const VolumeImport *i, Error *e)
{
        Import x = {.unpack = UNPACK_NULL, .store = s, .dir_fd = dir_fd, .volume = *i->volume};
        bool exceeded = false;

        int r = unpack_layer_init(&x.unpack, dir_fd, s->flags & STORE_UNPRIVILEGED, e);
        if (r >= 0 && i->has_quota)
                r = apply_quota(&x, e);
        if (r >= 0)
                r = unpack(&x, i->fd, e);
        unpack_done(&x.unpack);
        if (r < 0)
                return r;
        r = settle_data(s, dir_fd, i, &exceeded);
        if (r >= 0)
                r = volume_write_meta(dir_fd, &x.volume);
        if (r < 0)
                return error_set_errno(e, r, "Cannot create the volume %s in the store %s", i->volume->name,
                                       s->path);
        /* Root is not limited on every file system. */
        return exceeded ? error_set(e, -EDQUOT, "The files in the archive use more than the volume's quota")
                        : 0;
}

static int refuse_existing(const char *name, Error *e)
{
        int r = error_set(e, -EEXIST, "There is a volume '%s' already", name);

        return error_hint(e, r, "Choose another name, or remove it first: acnspawn volume rm %s", name);
}

int named_volume_import(Store *s, const VolumeImport *i, Error *e)
{
        _cleanup_(store_temporary_done) StoreTemporary t = STORE_TEMPORARY_NULL;
        _cleanup_free_ char *path = NULL;

        int r = volume_path(i->volume->name, &path, e);
        if (r >= 0 && faccessat(s->fd, path, F_OK, AT_SYMLINK_NOFOLLOW) >= 0)
                r = refuse_existing(i->volume->name, e);
        if (r >= 0)
                r = store_temporary_new(s, &t, e);
        if (r < 0)
                return r;
        r = fill(s, t.dir_fd, i, e);
        if (r < 0)
                r = error_prefix(e, r, "Cannot import the volume %s", i->volume->name);
        if (r == -EDQUOT)
                return error_hint(e, r, "Give it a larger one with --quota=, or none with --quota=none.");
        if (r < 0)
                return r;
        r = store_temporary_publish(&t, path, e);
        return r != 0 ? r : refuse_existing(i->volume->name, e);
}
