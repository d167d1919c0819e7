/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Creates the files of an archive's entries, below a private temporary directory.
 *
 * Everything is created exclusively, by name in a directory that was opened without following symlinks (see
 * unpack-path.c). So an entry can neither be placed outside, nor replace an earlier one: the file system
 * itself is the list of existing names, whatever their number. Disk space is charged before it is used, by
 * the size that the archive states, holes included, and inodes are. As others use the disk, too, the free
 * space is read again and again.
 */

#include <search.h>
#include <sys/stat.h>

#include "library/libarchive.h"
#include "prepare/unpack/record.h"
#include "prepare/unpack/unpack-internal.h"

static int look_at_free_space(Unpack *u, Error *e)
{
        FreeSpace space;

        int r = free_space_read(u->dir_fd, &space);
        if (r < 0)
                return error_set_errno(e, r, "Cannot check the free space of the store");
        u->unchecked = u->n_unchecked = 0;
        u->budget = MIN(u->budget, space.bytes);
        u->inodes = space.inodes;
        return 0;
}

static int no_room(const Unpack *u, Error *e)
{
        char left[24] = "less than 1";

        if (u->budget >> 20 > 0)
                snprintf(left, sizeof(left), "%" PRIu64, u->budget >> 20);
        int r = error_set(
                        e, -ENOSPC,
                        "The image needs more space than the store has (%s MiB left, %llu MiB are kept free)",
                        left, DISK_RESERVE >> 20);

        return error_hint(e, r, "Remove images with 'acnspawn image rm', or pods with 'acnspawn gc'.");
}

static int no_inodes(Error *e)
{
        int r = error_set(e, -ENOSPC,
                          "The image has more files than the file system of the store has inodes for (%u "
                          "are kept free)",
                          INODE_RESERVE);

        return error_hint(e, r, "Remove images with 'acnspawn image rm', or pods with 'acnspawn gc'.");
}

int unpack_charge(Unpack *u, uint64_t bytes, Error *e)
{
        uint64_t cost;

        if (++u->n_entries > ENTRIES_MAX)
                return error_set(e, -E2BIG, "The archive has more than %u entries", ENTRIES_MAX);
        /* Not every entry takes an inode: hard links, and those that replace another one, do not. */
        if (u->unchecked >= SPACE_INTERVAL || u->n_unchecked >= SPACE_INTERVAL_INODES || u->inodes == 0) {
                int r = look_at_free_space(u, e);
                if (r < 0)
                        return r;
        }
        if (u->inodes == 0)
                return no_inodes(e);
        if (__builtin_add_overflow(bytes, ENTRY_COST, &cost) || cost > u->budget)
                return no_room(u, e);
        u->inodes--;
        u->budget -= cost;
        u->unchecked += cost;
        u->n_unchecked++;
        return 0;
}

int unpack_charge_bytes(Unpack *u, uint64_t bytes, Error *e)
{
        if (bytes > u->budget)
                return no_room(u, e);
        u->budget -= bytes;
        u->unchecked += bytes;
        return 0;
}

static int open_temporary(int dir_fd, FILE **ret)
{
        _cleanup_close_ int fd = -EBADF;

        int r = temporary_file(dir_fd, &fd);
        if (r < 0)
                return r;
        *ret = fdopen(fd, "w+");
        if (!*ret)
                return -errno;
        (void) TAKE_FD(fd);
        return 0;
}

int unpack_init(Unpack *u, int dir_fd, bool unprivileged, Error *e)
{
        *u = UNPACK_NULL;
        u->dir_fd = dir_fd;
        u->unprivileged = unprivileged;
        u->budget = UINT64_MAX;
        int r = look_at_free_space(u, e);
        if (r < 0)
                return r;
        r = open_temporary(dir_fd, &u->directories);
        if (r >= 0)
                r = open_temporary(dir_fd, &u->digests);
        return r < 0 ? error_set_errno(e, r, "Cannot create a temporary file in the store") : 0;
}

void unpack_done(Unpack *u)
{
        safe_close(u->parent_fd);
        free(u->parent);
        tdestroy(u->left_out, free);
        free(u->device);
        free(u->first_time);
        text_done(&u->implied);
        (void) links_below_free(u->links_below);
        if (u->directories)
                fclose(u->directories);
        if (u->digests)
                fclose(u->digests);
        content_hash_done(&u->hash);
        *u = UNPACK_NULL;
}

/* --- The kinds of entries ------------------------------------------------------------------------------ */

typedef struct Entry {
        const char *path, *name; /* whole, and the last component */
        int parent_fd;
        struct archive *archive;
        struct archive_entry *entry;
        Metadata metadata;
} Entry;

static int create_error(Error *e, int code, const Entry *x)
{
        if (code == EEXIST)
                return unpack_error(e, -EBADMSG, x->path, "the archive has it twice");
        return unpack_error_errno(e, code, x->path, "cannot create it");
}

static int write_block(int fd, const char *p, size_t n, off_t offset)
{
        while (n > 0) {
                ssize_t k = pwrite(fd, p, n, offset);
                if (k < 0 && errno == EINTR)
                        continue;
                if (k < 0)
                        return -errno;
                p += k;
                n -= (size_t) k;
                offset += k;
        }
        return 0;
}

/* Before N bytes are written: the size of the file was charged, but others write meanwhile, too. */
static int charge_written(Unpack *u, size_t n, Error *e)
{
        int r = space_meter_add(&u->written, u->dir_fd, n, 0);

        if (r != -ENOSPC)
                return r < 0 ? error_set_errno(e, r, "Cannot check the free space of the store") : 0;
        u->budget = 0;
        return no_room(u, e);
}

/* Only the blocks in the archive are written; gaps between them become holes. *RET_HASHED: the content is
 * hashed already, as it has no holes that its header does not state. */
static int write_content(Unpack *u, const Entry *x, int fd, bool *ret_hashed, Error *e)
{
        int64_t size = archive_entry_size(x->entry), end = 0;
        bool hashed = true;

        for (;;) {
                const void *p;
                la_int64_t offset;
                size_t n;

                int a = archive_read_data_block(x->archive, &p, &n, &offset);
                if (a == ARCHIVE_EOF)
                        break;
                if (a != ARCHIVE_OK)
                        return unpack_error(e, -EBADMSG, x->path, "its content is damaged: %s",
                                            archive_error_string(x->archive) ?: "unknown error");
                if (offset < end || offset > size || n > (uint64_t) (size - offset)) {
                        if (n == 0)
                                continue;
                        return unpack_error(e, -EBADMSG, x->path, "its sparse map is damaged");
                }
                hashed = hashed && (u->hash.sparse || offset == end);
                if (hashed)
                        content_hash_add(&u->hash, (uint64_t) offset, p, n);
                int r = charge_written(u, n, e);
                if (r < 0)
                        return error_prefix(e, r, "Cannot unpack '%s'", x->path);
                r = write_block(fd, p, n, offset);
                if (r < 0)
                        return unpack_error_errno(e, r, x->path, "cannot write its content");
                end = offset + (int64_t) n;
        }
        if (end < size && ftruncate(fd, size) < 0)
                return unpack_error_errno(e, errno, x->path, "cannot set its size");
        *ret_hashed = hashed && (u->hash.sparse || end == size);
        return 0;
}

/* Stores the digest for the record, where it is matched with the path by the inode. A file with unexpected
 * holes is hashed now, as a sparse file: the size of holes is untrusted, and hashing their zeros could take
 * hours. */
static int note_digest(Unpack *u, const Entry *x, int fd, bool hashed, Error *e)
{
        uint64_t size = (uint64_t) archive_entry_size(x->entry);
        DigestRecord d = {};
        struct stat st;

        int r = fstat(fd, &st) < 0 ? -errno : 0;
        if (r >= 0)
                r = hashed ? content_hash_finish(&u->hash, size, d.hash)
                           : content_hash_file(&u->hash, fd, size, true, NULL, NULL, d.hash);
        d.sparse = u->hash.sparse;
        d.inode = st.st_ino;
        if (r >= 0 && fwrite(&d, sizeof(d), 1, u->digests) != 1)
                r = -EIO;
        return r < 0 ? unpack_error_errno(e, r, x->path, "cannot record its hash") : 0;
}

static int make_file(Unpack *u, Entry *x, Error *e)
{
        _cleanup_close_ int fd = -EBADF;
        bool hashed = false;

        if (archive_entry_size(x->entry) < 0)
                return unpack_error(e, -EBADMSG, x->path, "its size is negative");
        int r = unpack_charge(u, (uint64_t) archive_entry_size(x->entry), e);
        if (r < 0)
                return error_prefix(e, r, "Cannot unpack '%s'", x->path);
        fd = openat(x->parent_fd, x->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY,
                    0600);
        if (fd < 0)
                return create_error(e, errno, x);
        r = content_hash_init(&u->hash, archive_entry_sparse_count(x->entry) > 0);
        if (r < 0)
                return unpack_error_errno(e, r, x->path, "cannot hash its content");
        r = write_content(u, x, fd, &hashed, e);
        if (r >= 0)
                r = note_digest(u, x, fd, hashed, e);
        if (r < 0)
                return r;
        const MetadataTarget t = {.fd = fd};
        return metadata_apply(u, &t, &x->metadata, x->entry, x->path, e);
}

static int compare_paths(const void *a, const void *b)
{
        return strcmp(a, b);
}

static bool is_left_out(const Unpack *u, const char *path)
{
        return tfind(path, &u->left_out, compare_paths);
}

/* The OS specification lists them (OS-SPEC.md, "Devices and File Systems"); every app has them. */
static bool is_standard_device(const char *path)
{
        static const char *const names[] = {"console", "full", "null",    "ptmx",
                                            "random",  "tty",  "urandom", "zero"};
        const char *name = startswith(path, "rootfs/dev/");

        for (size_t i = 0; name && i < ELEMENTSOF(names); i++)
                if (streq(name, names[i]))
                        return true;
        return false;
}

bool unpack_hides_by_device(const Unpack *u, const char *path)
{
        return !u->lowest && !is_standard_device(path) && is_left_out(u, path);
}

/* An entry of a layer may follow another one of the same path. */
static int make_layer_directory(Unpack *u, Entry *x, Error *e)
{
        _cleanup_close_ int fd = -EBADF;
        bool hides = false;

        int there = unpack_make_way(x->parent_fd, x->name, x->path, true, &hides, e);
        if (there < 0)
                return there;
        if (!there && mkdirat(x->parent_fd, x->name, 0700) < 0)
                return create_error(e, errno, x);
        fd = openat(x->parent_fd, x->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fchmod(fd, 0700) < 0)
                return create_error(e, errno, x);
        int r = there ? xattr_clear(fd) : 0;
        if (r < 0)
                return unpack_error_errno(e, r, x->path, "cannot remove the attributes of an earlier entry");
        if (hides || (!there && unpack_hides_by_device(u, x->path)))
                r = unpack_set_opaque(u, fd, x->path, e);
        return r < 0 ? r : metadata_defer(u, fd, &x->metadata, x->entry, x->path, e);
}

static int make_directory(Unpack *u, Entry *x, Error *e)
{
        _cleanup_close_ int fd = -EBADF;
        struct stat st;

        if (u->layer)
                return make_layer_directory(u, x, e);
        if (mkdirat(x->parent_fd, x->name, 0700) < 0) {
                if (errno != EEXIST || fstatat(x->parent_fd, x->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                        return create_error(e, errno, x);
                if (!S_ISDIR(st.st_mode) || (st.st_mode & 0777) != DIRECTORY_MODE_IMPLIED)
                        return create_error(e, EEXIST, x);
        }
        fd = openat(x->parent_fd, x->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fchmod(fd, 0700) < 0)
                return create_error(e, errno, x);
        return metadata_defer(u, fd, &x->metadata, x->entry, x->path, e);
}

int unpack_check_symlink(const char *path, const char *target, Error *e)
{
        if (isempty(target))
                return unpack_error(e, -EBADMSG, path, "the symbolic link leads nowhere");
        if (strlen(target) > LINK_SIZE_MAX)
                return unpack_error(e, -ENAMETOOLONG, path, "the symbolic link is longer than %u bytes",
                                    LINK_SIZE_MAX);
        return 0;
}

static int make_symlink(Unpack *u, Entry *x, Error *e)
{
        const char *target = archive_entry_symlink(x->entry);
        const MetadataTarget t = {
                        .fd = -EBADF, .parent_fd = x->parent_fd, .name = x->name, .is_symlink = true};

        int r = unpack_check_symlink(x->path, target, e);
        if (r < 0)
                return r;
        if (symlinkat(target, x->parent_fd, x->name) < 0)
                return create_error(e, errno, x);
        return metadata_apply(u, &t, &x->metadata, x->entry, x->path, e);
}

/* What is a hard link to it is this device, too. */
static int note_left_out(Unpack *u, const char *path, Error *e)
{
        u->left_out_size += strlen(path) + LEFT_OUT_COST;
        if (u->left_out_size > LEFT_OUT_SIZE_MAX)
                return unpack_error(e, -E2BIG, path, "the archive has too many device nodes");
        char *copy = strdup(path);
        char *const *found = copy ? tsearch(copy, &u->left_out, compare_paths) : NULL;
        if (!found || *found != copy)
                free(copy);
        return found ? 0 : error_oom(e);
}

int unpack_leave_out_device(Unpack *u, const char *path, Error *e)
{
        int r = note_left_out(u, path, e);

        if (r < 0 || is_standard_device(path))
                return r;
        if (u->n_devices++ == 0 && !(u->device = strdup(path + strlen("rootfs"))))
                return error_oom(e);
        return u->link_below && !u->lowest ? links_below_note_device(u, path, e) : 0;
}

static void report_devices(const Unpack *u, Operation *o)
{
        _cleanup_free_ char *shown = text_escape_for_terminal(u->device ?: "");

        if (u->n_devices > 0)
                operation_message(o, LOG_LEVEL_WARNING,
                                  "Device nodes of the image are left out, %u, the first of which is '%s'; "
                                  "--device= gives an app a device",
                                  u->n_devices, shown ?: "?");
}

static void report_times(const Unpack *u, Operation *o)
{
        _cleanup_free_ char *shown = text_escape_for_terminal(u->first_time ?: "");

        if (u->n_times > 0)
                operation_message(
                                o, LOG_LEVEL_WARNING,
                                "The file system of the store cannot store the modification times of %u files, the first "
                                "of which is '%s': they get the nearest possible time",
                                u->n_times, shown ?: "?");
}

void unpack_report(const Unpack *u, Operation *o)
{
        report_devices(u, o);
        report_times(u, o);
}

static int take_device(Unpack *u, Entry *x, Error *e)
{
        /* In the lower directory of an overlay such a device is a whiteout: it hides a file of the layers
         * below. */
        if (archive_entry_filetype(x->entry) == AE_IFCHR && archive_entry_rdevmajor(x->entry) == 0 &&
            archive_entry_rdevminor(x->entry) == 0)
                return unpack_error(e, -EBADMSG, x->path,
                                    "a character device 0:0 is a whiteout, which images must not contain");
        return unpack_leave_out_device(u, x->path, e);
}

static int make_fifo(Unpack *u, Entry *x, Error *e)
{
        const MetadataTarget t = {.fd = -EBADF, .parent_fd = x->parent_fd, .name = x->name};

        if (mknodat(x->parent_fd, x->name, S_IFIFO | 0600, 0) < 0)
                return create_error(e, errno, x);
        return metadata_apply(u, &t, &x->metadata, x->entry, x->path, e);
}

/* The target is a name in the archive, not relative to the link as the target of a symlink. */
static int link_target(const Unpack *u, const Entry *x, char **ret, Error *e)
{
        _cleanup_free_ char *inside = NULL, *target = NULL;
        const char *name = archive_entry_hardlink(x->entry);

        if (u->layer) {
                if (xasprintf(&inside, "rootfs/%s", name) < 0)
                        return error_oom(e);
                name = inside;
        }
        int r = unpack_normalize_path(name, &target, e);
        if (r < 0)
                return error_prefix(e, r, "Cannot unpack the hard link '%s'", x->path);
        if (!startswith(target, "rootfs/"))
                return unpack_error(e, -EBADMSG, x->path, "the hard link leads out of rootfs");
        *ret = TAKE_PTR(target);
        return 0;
}

/* 1: the entry exists, and is the same file. */
static int is_linked(const Entry *x, const struct stat *st)
{
        struct stat there;

        return fstatat(x->parent_fd, x->name, &there, AT_SYMLINK_NOFOLLOW) >= 0 &&
               there.st_dev == st->st_dev && there.st_ino == st->st_ino;
}

/* 1: TARGET, created by an earlier entry, is in the directory *RET_FD and is *RET; 0: there is none. */
static int find_link_target(const Unpack *u, const Entry *x, char *target, int *ret_fd, struct stat *ret,
                            Error *e)
{
        char *slash = strrchr(target, '/');

        *slash = 0;
        _cleanup_close_ int fd = open_beneath(u->dir_fd, target, O_PATH | O_DIRECTORY);
        *slash = '/';
        if (fd == -ELOOP)
                return unpack_error(e, -EBADMSG, x->path, "the hard link leads through a symbolic link");
        if (fd < 0 && fd != -ENOENT && fd != -ENOTDIR)
                return unpack_error_errno(e, fd, x->path, "cannot open the directory of its target");
        if (fd < 0 || fstatat(fd, slash + 1, ret, AT_SYMLINK_NOFOLLOW) < 0 || unpack_is_whiteout(ret))
                return 0;
        *ret_fd = TAKE_FD(fd);
        return 1;
}

/* The target can only be in the layers below. */
static int find_target_below(Unpack *u, Entry *x, char *target, int *ret_fd, struct stat *ret, Error *e)
{
        int r = links_below_add(u, target, x->path, &x->metadata.times[1], e);

        if (r >= 0)
                r = unpack_open_parent(u, x->path, &x->metadata.times[1], &x->parent_fd, &x->name, e);
        return r < 0 ? r : find_link_target(u, x, target, ret_fd, ret, e);
}

/* Overlayfs links its whiteouts, which are devices, to each other. */
static int leave_out_link(Unpack *u, Entry *x, Error *e)
{
        bool hides;
        int r = u->layer ? unpack_make_way(x->parent_fd, x->name, x->path, false, &hides, e) : 0;

        return r < 0 ? r : unpack_leave_out_device(u, x->path, e);
}

static int make_hard_link(Unpack *u, Entry *x, Error *e)
{
        _cleanup_free_ char *target = NULL;
        _cleanup_close_ int fd = -EBADF;
        bool hides;
        struct stat st;

        int r = link_target(u, x, &target, e);
        if (r < 0)
                return r;
        r = find_link_target(u, x, target, &fd, &st, e);
        if (r == 0 && is_left_out(u, target))
                return leave_out_link(u, x, e);
        if (r == 0)
                r = find_target_below(u, x, target, &fd, &st, e);
        if (r < 0)
                return r;
        if (S_ISDIR(st.st_mode))
                return unpack_error(e, -EBADMSG, x->path, "the hard link leads to a directory");
        if (u->layer && is_linked(x, &st))
                return 0;
        r = u->layer ? unpack_make_way(x->parent_fd, x->name, x->path, false, &hides, e) : 0;
        if (r < 0)
                return r;
        /* Symbolic links are linked, too, not followed. */
        if (linkat(fd, strrchr(target, '/') + 1, x->parent_fd, x->name, 0) < 0)
                return create_error(e, errno, x);
        return links_below_note_name(u->links_below, &st, x->path, e);
}

static const struct {
        mode_t type;
        int (*make)(Unpack *u, Entry *x, Error *e);
        bool charges; /* by itself, with its content */
} kinds[] = {
                {AE_IFREG, make_file, true}, {AE_IFDIR, make_directory}, {AE_IFLNK, make_symlink},
                {AE_IFCHR, take_device},     {AE_IFBLK, take_device},    {AE_IFIFO, make_fifo},
};

static int make_by_kind(Unpack *u, Entry *x, Error *e)
{
        mode_t type = archive_entry_filetype(x->entry);

        for (size_t i = 0; i < ELEMENTSOF(kinds); i++) {
                if (kinds[i].type != type)
                        continue;
                bool hides;
                int r = kinds[i].charges ? 0 : unpack_charge(u, 0, e);
                if (r >= 0 && u->layer && type != AE_IFDIR)
                        r = unpack_make_way(x->parent_fd, x->name, x->path, false, &hides, e);
                return r < 0 ? r : kinds[i].make(u, x, e);
        }
        return unpack_error(e, -EBADMSG, x->path, "its type is not allowed in images");
}

int unpack_entry(Unpack *u, const char *path, struct archive *a, struct archive_entry *entry, Error *e)
{
        bool is_link = archive_entry_hardlink(entry);
        Entry x = {.path = path, .archive = a, .entry = entry};
        size_t attributes_size;

        if (streq(path, "rootfs")) {
                if (is_link || archive_entry_filetype(entry) != AE_IFDIR)
                        return unpack_error(e, -EBADMSG, path, "it has to be a directory");
        }
        int r = metadata_read(entry, path, &x.metadata, e);
        if (r < 0)
                return r;
        r = xattr_check_all(entry, path, &attributes_size, e);
        if (r < 0)
                return r;
        r = unpack_charge_bytes(u, attributes_size, e);
        if (r < 0)
                return error_prefix(e, r, "Cannot unpack '%s'", path);
        r = unpack_open_parent(u, path, &x.metadata.times[1], &x.parent_fd, &x.name, e);
        if (r < 0)
                return r;
        u->has_rootfs = true;
        if (!is_link)
                return make_by_kind(u, &x, e);
        r = unpack_charge(u, 0, e);
        return r < 0 ? r : make_hard_link(u, &x, e);
}
