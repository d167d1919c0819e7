/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Image archives in files, and on standard input.
 *
 * A file named by the user needs no signature, but a signature that is given is checked.
 *
 * A file that was imported before and is unchanged is not read again: the store records the image of a file
 * by device, inode, size, mtime and ctime. The ctime is set by the kernel only. The only gap: a file that is
 * changed twice within one tick of that clock, or while it is read, has the same times before and after. So
 * a result is only recorded if the file had not been changed for a while when reading began, and is the same
 * when it has ended (git's index has to do the same). File systems that control these times themselves
 * (FUSE, network) are not reliable: files on them are always read.
 */

#include <poll.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "prepare/fetch/fetch-internal.h"
#include "prepare/oci/oci.h"

#define QUIET_SECONDS 3        /* time for which a file has to be unchanged before it is read */
#define NOTICE_DELAY_MSEC 1000 /* until a message says what is being waited for */

/* --- Opening ------------------------------------------------------------------------------------------- */

static int refuse(const char *shown, mode_t mode, Error *e)
{
        int r = S_ISDIR(mode) ? -EISDIR : -EBADMSG;

        r = error_set(e, r, "'%s' is a %s, not an image", shown,
                      S_ISDIR(mode)    ? "directory"
                      : S_ISSOCK(mode) ? "socket"
                                       : "device");
        return error_hint(e, r, "Give the path of an image archive (.aci)%s.",
                          S_ISDIR(mode)   ? "; of an OCI layout, 'oci:DIRECTORY'"
                          : S_ISCHR(mode) ? ", or redirect standard input from one"
                                          : "");
}

static int check_type(int fd, const char *shown, struct stat *ret, Error *e)
{
        if (fstat(fd, ret) < 0)
                return error_set_errno(e, errno, "Cannot examine '%s'", shown);
        return S_ISREG(ret->st_mode) || S_ISFIFO(ret->st_mode) ? 0 : refuse(shown, ret->st_mode, e);
}

/* Waits for data in the pipe: a FIFO may never get a writer, and a writer may be slow. */
static int wait_for_data(Fetcher *f, int fd, const char *shown, Error *e)
{
        int r;

        while ((r = operation_poll(f->store->operation, fd, POLLIN, NOTICE_DELAY_MSEC, e)) == 0)
                fetcher_note(f, "Waiting for data from %s…", shown);
        return r > 0                ? 0
               : operation_ended(r) ? r
                                    : error_set_errno(e, r, "Cannot wait for data from %s", shown);
}

static int clear_nonblock(int fd, Error *e)
{
        int r = fd_set_blocking(fd);

        return r < 0 ? error_set_errno(e, r, "Cannot read an image from a pipe") : 0;
}

static int open_file(const char *path, const char *shown, Error *e)
{
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

        if (fd < 0) {
                int r = error_set_errno(e, errno, "Cannot open the image '%s'", shown);
                return r == -ENOENT || r == -ENOTDIR
                                       ? error_hint(e, r, "Give the path of an image archive (.aci).")
                                       : r;
        }
        return TAKE_FD(fd);
}

static int open_reference(const Reference *r, const char *shown, Error *e)
{
        if (r->kind == REFERENCE_FILE)
                return open_file(r->body, shown, e);
        int fd = input_open("-", O_RDONLY);
        return fd < 0 ? error_set(e, fd, "Cannot read an image from standard input: %s", input_problem(fd))
                      : fd;
}

/* --- Files that were imported before ------------------------------------------------------------------- */

static bool times_can_be_trusted(int fd)
{
        /* ext4, btrfs, XFS, tmpfs, overlayfs, ZFS, F2FS. An overlay's are those of the file it shows, whose
           device and inode change when it is copied up. */
        static const uint32_t known[] = {0xef53,     0x9123683e, 0x58465342, 0x01021994,
                                         0x794c7630, 0x2fc12fc1, 0xf2f52010};
        struct statfs fs;

        if (fstatfs(fd, &fs) < 0)
                return false;
        for (size_t i = 0; i < ELEMENTSOF(known); i++)
                if ((uint32_t) fs.f_type == known[i])
                        return true;
        return false;
}

/* The key of the file in the store; NULL: it was changed too recently, or cannot be identified reliably. */
static char *place_of(int fd, const struct stat *st, const struct timespec *now)
{
        char *place;

        if (!S_ISREG(st->st_mode) || !times_can_be_trusted(fd) ||
            st->st_ctim.tv_sec + QUIET_SECONDS > now->tv_sec ||
            st->st_mtim.tv_sec + QUIET_SECONDS > now->tv_sec)
                return NULL;
        return xasprintf(&place, "file:%ju:%ju:%ju:%jd.%09ld:%jd.%09ld", (uintmax_t) st->st_dev,
                         (uintmax_t) st->st_ino, (uintmax_t) st->st_size, (intmax_t) st->st_mtim.tv_sec,
                         st->st_mtim.tv_nsec, (intmax_t) st->st_ctim.tv_sec, st->st_ctim.tv_nsec) < 0
                               ? NULL
                               : place;
}

int fetch_file_place(const char *path, char **ret, Error *e)
{
        _cleanup_free_ char *shown = text_escape_for_terminal(path);
        const Reference layout = {.kind = REFERENCE_OCI, .body = (char *) path};
        struct timespec now;
        struct stat st;

        /* To open a FIFO or a device may have an effect. */
        bool is_there = stat(path, &st) >= 0;
        if (is_there && S_ISDIR(st.st_mode))
                return fetch_local_place(&layout, ret) < 0 ? error_oom(e) : 0;
        if (is_there && !S_ISREG(st.st_mode))
                return 0;
        _cleanup_close_ int fd = open_file(path, shown ?: "?", e);
        if (fd < 0)
                return fd;
        if (fstat(fd, &st) < 0 || clock_gettime(CLOCK_REALTIME, &now) < 0)
                return error_set_errno(e, -errno, "Cannot examine '%s'", shown ?: "?");
        *ret = place_of(fd, &st, &now);
        return 0;
}

static Image *known_image(Fetcher *f, const char *place)
{
        _cleanup_remote_ Remote m = {};
        Image *i = NULL;

        if (!place || f->options.signature || remote_read(f->store, place, &m) < 0 ||
            fetcher_open(f, m.image, &i, NULL) < 0)
                return NULL;
        return i;
}

/* Records the result if the file is still the same as when reading began. */
static void keep_place(Fetcher *f, int fd, const char *place, const Image *i)
{
        _cleanup_free_ char *now_place = NULL;
        const Remote m = {.image = i->id};
        struct timespec now;
        struct stat st;

        if (!place || fstat(fd, &st) < 0 || clock_gettime(CLOCK_REALTIME, &now) < 0)
                return;
        now_place = place_of(fd, &st, &now);
        if (streq_ptr(place, now_place))
                (void) remote_write(f->store, place, &m); /* on failure it will be read again */
}

/* --- Import -------------------------------------------------------------------------------------------- */

/* If the archive turns out to be of another kind, it is imported as such; a pipe cannot be, as it has been
 * read in part. */
static int import_other(Fetcher *f, const char *unexpected_entry, const struct stat *st, const char *path,
                        const char *what, int result, Image **ret, Error *e)
{
        static const ReferenceKind kinds[] = {[OCI_CHECK_ARCHIVE] = REFERENCE_OCI_ARCHIVE,
                                              [OCI_CHECK_DOCKER_ARCHIVE] = REFERENCE_DOCKER_ARCHIVE};
        static const char *const prefixes[] = {[OCI_CHECK_ARCHIVE] = "oci-archive:",
                                               [OCI_CHECK_DOCKER_ARCHIVE] = "docker-archive:"};
        OciCheckKind kind;
        bool found;

        if (result != -EBADMSG || !unexpected_entry || oci_kind_by_member(unexpected_entry, &kind) < 0)
                return result;
        if (!path || !S_ISREG(st->st_mode))
                return error_hint(e, result, "It looks like an archive for '%s%s'.", prefixes[kind],
                                  path ?: "-");
        const Reference r = {.kind = kinds[kind], .body = (char *) path};
        error_done(e);
        return fetch_oci(f, &r, what, ret, &found, e);
}

/* PATH: NULL for standard input. */
static int import_file(Fetcher *f, int fd, const struct stat *st, const char *path, const char *what,
                       Image **ret, Error *e)
{
        const char *origin = path ?: what;
        _cleanup_archive_ Archive a = {
                        .fetcher = f,
                        .what = what,
                        .origin = origin,
                        .total = S_ISREG(st->st_mode) ? (uint64_t) st->st_size : 0,
        };

        int r = f->options.signature ? archive_read_signature(&a, f->options.signature, e) : 0;
        if (r >= 0)
                r = archive_import(&a, fd, ret, e);
        return r < 0 ? import_other(f, a.unexpected_entry, st, path, what, r, ret, e) : r;
}

/* A directory is an image only as an OCI layout. */
static int fetch_directory(Fetcher *f, const char *path, const char *what, Image **ret, bool *ret_found,
                           Error *e)
{
        const Reference r = {.kind = REFERENCE_OCI, .body = (char *) path};

        return fetch_oci(f, &r, what, ret, ret_found, e);
}

static bool is_layout(int fd, const struct stat *st)
{
        return S_ISDIR(st->st_mode) && (faccessat(fd, "oci-layout", F_OK, AT_SYMLINK_NOFOLLOW) >= 0 ||
                                        faccessat(fd, "index.json", F_OK, AT_SYMLINK_NOFOLLOW) >= 0);
}

int fetch_file(Fetcher *f, const Reference *r, const char *what, Image **ret, bool *ret_found, Error *e)
{
        _cleanup_close_ int fd = open_reference(r, what, e);
        _cleanup_free_ char *place = NULL;
        struct timespec now;
        struct stat st;

        if (fd < 0)
                return fd;
        if (r->kind == REFERENCE_FILE && fstat(fd, &st) >= 0 && is_layout(fd, &st))
                return fetch_directory(f, r->body, what, ret, ret_found, e);
        int k = check_type(fd, what, &st, e);
        if (k >= 0 && S_ISFIFO(st.st_mode))
                k = wait_for_data(f, fd, what, e);
        if (k >= 0 && r->kind == REFERENCE_FILE)
                k = clear_nonblock(fd, e);
        if (k < 0)
                return k;
        if (r->kind == REFERENCE_FILE && clock_gettime(CLOCK_REALTIME, &now) >= 0)
                place = place_of(fd, &st, &now);
        *ret = known_image(f, place);
        if (*ret) {
                *ret_found = true;
                return 0;
        }
        k = import_file(f, fd, &st, r->kind == REFERENCE_FILE ? r->body : NULL, what, ret, e);
        if (k == -EPERM && geteuid() != 0)
                return error_hint(e, k, "Images have files of several users: run acnspawn as root.");
        if (k >= 0)
                keep_place(f, fd, place, *ret);
        return k;
}
