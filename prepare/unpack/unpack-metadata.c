/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Owners, modes, attributes and times of unpacked files.
 *
 * Files get theirs as soon as their content is written. Directories get theirs at the very end: files
 * created in them would change their times, and their modes and default ACLs would affect these files. The
 * pending metadata is kept in a file, so that memory does not grow with the archive; a later record for the
 * same directory overrides an earlier one, so that the entry of a directory that was only implied before
 * takes effect.
 */

#include <sys/stat.h>
#include <sys/xattr.h>

#include "library/libarchive.h"
#include "prepare/unpack/unpack-internal.h"

static struct timespec make_time(time_t seconds, long nanoseconds)
{
        bool valid = nanoseconds >= 0 && nanoseconds < 1000000000L;

        return (struct timespec){.tv_sec = seconds, .tv_nsec = valid ? nanoseconds : 0};
}

int metadata_read(struct archive_entry *entry, const char *path, Metadata *ret, Error *e)
{
        int64_t uid = archive_entry_uid(entry), gid = archive_entry_gid(entry);

        /* The highest number means "unchanged" to chown(). */
        if (uid < 0 || uid >= UINT32_MAX || gid < 0 || gid >= UINT32_MAX)
                return unpack_error(e, -EBADMSG, path, "its owner %" PRId64 ":%" PRId64 " is out of range",
                                    uid, gid);
        *ret = (Metadata){
                        .uid = (uid_t) uid,
                        .gid = (gid_t) gid,
                        .mode = archive_entry_perm(entry) & 07777U,
                        .times[1] = make_time(archive_entry_mtime(entry), archive_entry_mtime_nsec(entry)),
        };
        ret->times[0] = archive_entry_atime_is_set(entry) ? make_time(archive_entry_atime(entry),
                                                                      archive_entry_atime_nsec(entry))
                                                          : ret->times[1];
        return 0;
}

static int set_owner(const Unpack *u, const MetadataTarget *t, const Metadata *m)
{
        int r = t->fd >= 0 ? fchown(t->fd, m->uid, m->gid)
                           : fchownat(t->parent_fd, t->name, m->uid, m->gid, AT_SYMLINK_NOFOLLOW);

        return r < 0 && !(errno == EPERM && u->unprivileged) ? -errno : 0;
}

static int set_mode(const MetadataTarget *t, const Metadata *m)
{
        if (t->is_symlink)
                return 0;
        /* By name, except for symlinks: this process created the file, in a private directory. */
        int r = t->fd >= 0 ? fchmod(t->fd, m->mode) : fchmodat(t->parent_fd, t->name, m->mode, 0);
        return r < 0 ? -errno : 0;
}

bool time_is_usual(time_t seconds)
{
        return seconds >= USUAL_TIME_MIN && seconds <= USUAL_TIME_MAX;
}

/* File systems store the nearest time that they can represent, and report no error. */
static int note_time(Unpack *u, const MetadataTarget *t, const Metadata *m, const char *path)
{
        struct stat st;
        int r = t->fd >= 0 ? fstat(t->fd, &st) : fstatat(t->parent_fd, t->name, &st, AT_SYMLINK_NOFOLLOW);

        if (r < 0)
                return -errno;
        if (st.st_mtim.tv_sec == m->times[1].tv_sec || u->n_times++ > 0)
                return 0;
        u->first_time = strdup(path);
        return u->first_time ? 0 : -ENOMEM;
}

static int set_times(Unpack *u, const MetadataTarget *t, const Metadata *m, const char *path)
{
        int r = t->fd >= 0 ? futimens(t->fd, m->times)
                           : utimensat(t->parent_fd, t->name, m->times, AT_SYMLINK_NOFOLLOW);

        if (r < 0)
                return -errno;
        return time_is_usual(m->times[1].tv_sec) ? 0 : note_time(u, t, m, path);
}

static int set_acl(Unpack *u, const MetadataTarget *t, struct archive_entry *entry, const char *path,
                   Error *e)
{
        _cleanup_free_ void *acl = NULL;
        size_t size = 0;

        int r = xattr_encode_acl(entry, ACL_ACCESS, path, &acl, &size, e);
        if (r < 0 || !acl)
                return r;
        r = unpack_charge_bytes(u, size, e);
        return r < 0 ? r : xattr_set(t, ACL_ACCESS, acl, size, path, e);
}

int metadata_apply(Unpack *u, const MetadataTarget *t, const Metadata *m, struct archive_entry *entry,
                   const char *path, Error *e)
{
        int r = set_owner(u, t, m);

        if (r < 0)
                return unpack_error_errno(e, r, path, "cannot set its owner");
        r = set_mode(t, m);
        if (r < 0)
                return unpack_error_errno(e, r, path, "cannot set its mode");
        r = xattr_set_all(t, entry, path, e);
        if (r >= 0 && !t->is_symlink)
                r = set_acl(u, t, entry, path, e);
        if (r < 0)
                return r;
        r = set_times(u, t, m, path);
        return r < 0 ? unpack_error_errno(e, r, path, "cannot set its times") : 0;
}

/* --- Directories --------------------------------------------------------------------------------------- */

typedef struct Record {
        Metadata metadata;
        bool implied; /* by a deeper entry: it has no entry of its own */
        size_t path_size, acl_access_size,
                        acl_default_size; /* sizes of the data that follows in the file, in this order */
} Record;

/* Errors are detected by ferror() later. */
static void write_part(FILE *f, const void *p, size_t size)
{
        if (size > 0)
                (void) fwrite(p, 1, size, f);
}

int metadata_defer(Unpack *u, int fd, const Metadata *m, struct archive_entry *entry, const char *path,
                   Error *e)
{
        _cleanup_free_ void *acl_access = NULL, *acl_default = NULL;
        const MetadataTarget t = {.fd = fd};
        Record record = {.metadata = *m, .implied = !entry, .path_size = strlen(path)};
        int r = 0;

        if (entry) {
                r = xattr_set_all(&t, entry, path, e);
                if (r >= 0)
                        r = xattr_encode_acl(entry, ACL_ACCESS, path, &acl_access, &record.acl_access_size,
                                             e);
                if (r >= 0)
                        r = xattr_encode_acl(entry, ACL_DEFAULT, path, &acl_default,
                                             &record.acl_default_size, e);
                if (r >= 0)
                        r = unpack_charge_bytes(u, record.acl_access_size + record.acl_default_size, e);
        }
        if (r < 0)
                return r;
        write_part(u->directories, &record, sizeof(record));
        write_part(u->directories, path, record.path_size);
        write_part(u->directories, acl_access, record.acl_access_size);
        write_part(u->directories, acl_default, record.acl_default_size);
        return ferror(u->directories) ? unpack_error_errno(e, EIO, path, "cannot record its metadata") : 0;
}

static int read_part(FILE *f, size_t size, void **ret, Error *e)
{
        _cleanup_free_ char *p = malloc(size + 1);

        if (!p)
                return error_oom(e);
        if (size > 0 && fread(p, size, 1, f) != 1)
                return error_set(e, -EIO, "Cannot read the metadata of directories back");
        p[size] = 0;
        *ret = TAKE_PTR(p);
        return 0;
}

/* Records the name of a directory that has no entry of its own. Its mode shows whether a later entry was
 * found. */
static int note_implied(Unpack *u, int fd, const Record *record, const char *path)
{
        struct stat st;

        if (!record->implied)
                return 0;
        if (fstat(fd, &st) < 0)
                return -errno;
        if ((st.st_mode & 07777) == DIRECTORY_MODE_IMPLIED)
                text_add_bytes(&u->implied, path, record->path_size + 1);
        if (u->implied.size > IMPLIED_SIZE_MAX)
                return -E2BIG;
        return u->implied.failed ? -ENOMEM : 0;
}

static int apply_record(Unpack *u, const Record *record, Error *e)
{
        _cleanup_free_ void *path = NULL, *acl_access = NULL, *acl_default = NULL;
        _cleanup_close_ int fd = -EBADF;

        int r = read_part(u->directories, record->path_size, &path, e);
        if (r >= 0)
                r = read_part(u->directories, record->acl_access_size, &acl_access, e);
        if (r >= 0)
                r = read_part(u->directories, record->acl_default_size, &acl_default, e);
        if (r < 0)
                return r;
        fd = open_beneath(u->dir_fd, path, O_RDONLY | O_DIRECTORY);
        /* A later entry of a layer has replaced it. If that was a directory again, it has a record of its
         * own, which is applied later. */
        if (u->layer && (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP))
                return 0;
        if (fd < 0)
                return unpack_error_errno(e, fd, path, "cannot open it to set its metadata");

        const MetadataTarget t = {.fd = fd};
        if (u->layer) {
                (void) fremovexattr(fd, ACL_ACCESS);
                (void) fremovexattr(fd, ACL_DEFAULT);
        }
        r = note_implied(u, fd, record, path);
        if (r < 0)
                return unpack_error_errno(e, r, path, "cannot record that it has no entry");
        r = set_owner(u, &t, &record->metadata);
        if (r >= 0)
                r = set_mode(&t, &record->metadata);
        if (r < 0)
                return unpack_error_errno(e, r, path, "cannot set owner and mode");
        if (record->acl_access_size > 0)
                r = xattr_set(&t, ACL_ACCESS, acl_access, record->acl_access_size, path, e);
        if (r >= 0 && record->acl_default_size > 0)
                r = xattr_set(&t, ACL_DEFAULT, acl_default, record->acl_default_size, path, e);
        if (r < 0)
                return r;
        r = set_times(u, &t, &record->metadata, path);
        return r < 0 ? unpack_error_errno(e, r, path, "cannot set its times") : 0;
}

int unpack_finish(Unpack *u, Error *e)
{
        Record record;

        if (fflush(u->directories) != 0)
                return error_set_errno(e, errno, "Cannot record the metadata of directories");
        rewind(u->directories);
        while (fread(&record, sizeof(record), 1, u->directories) == 1) {
                int r = apply_record(u, &record, e);
                if (r < 0)
                        return r;
        }
        return ferror(u->directories) ? error_set(e, -EIO, "Cannot read the metadata of directories back")
                                      : 0;
}
