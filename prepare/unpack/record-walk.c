/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Lists the entries of a tree.
 *
 * Directories that are still to be read wait in a file, so neither the depth nor the width of the tree takes
 * memory or descriptors. Each is opened by its whole path without following a symlink. Attributes that the
 * host sets on files by itself, such as labels of security modules, do not belong to the image and are left
 * out.
 */

#include <dirent.h>
#include <endian.h>
#include <sys/xattr.h>

#include "library/libcrypto.h"
#include "prepare/unpack/record.h"

#define XATTR_NAMES_MAX (64U * 1024U)
#define XATTR_VALUE_MAX (64U * 1024U)

const char *const record_tops[] = {"manifest", "rootfs", NULL};

typedef struct Walk {
        int dir_fd;
        const Operation *operation;
        RecordSort *sort; /* receives the lines */
        FILE *in, *out;   /* both ends of the queue of directories, each with a NUL at its end */
        uint64_t n_in, n_flushed, n_out;
        char *queued;
        size_t queued_size;
        char *names, *value; /* of attributes */
        EVP_MD_CTX *digest;
        Text path, line;
        char link[PATH_MAX];
} Walk;

static void walk_done(Walk *w)
{
        if (w->in)
                fclose(w->in);
        if (w->out)
                fclose(w->out);
        EVP_MD_CTX_free(w->digest);
        free(w->queued);
        free(w->names);
        free(w->value);
        text_done(&w->path);
        text_done(&w->line);
        (void) record_sort_free(w->sort);
}

static int walk_init(Walk *w, int tmp_fd)
{
        _cleanup_close_ int fd = -EBADF;

        int r = record_sort_new(tmp_fd, &w->sort);
        if (r >= 0)
                r = temporary_file(tmp_fd, &fd);
        if (r < 0)
                return r;
        int other = fd_reopen(fd, O_RDONLY);
        if (other < 0)
                return other;
        w->in = fdopen(other, "r");
        if (!w->in) {
                safe_close(other);
                return -ENOMEM;
        }
        w->out = fdopen(fd, "w");
        if (!w->out)
                return -ENOMEM;
        (void) TAKE_FD(fd);
        w->names = malloc(XATTR_NAMES_MAX);
        w->value = malloc(XATTR_VALUE_MAX);
        w->digest = EVP_MD_CTX_new();
        return w->names && w->value && w->digest ? 0 : -ENOMEM;
}

static int walk_error(Error *e, int code, const char *path, const char *what)
{
        _cleanup_free_ char *shown = text_escape_for_terminal(path);

        return error_set_errno(e, code, "Cannot %s '%s'", what, shown ?: "?");
}

/* --- The queue ----------------------------------------------------------------------------------------- */

static int enqueue(Walk *w, const char *path, Error *e)
{
        size_t n = strlen(path) + 1;

        if (fwrite(path, 1, n, w->out) != n)
                return error_set_errno(e, errno ?: EIO, "Cannot write a temporary file in the store");
        w->n_in++;
        return 0;
}

/* 1, or 0 if there is none. */
static int dequeue(Walk *w, const char **ret, Error *e)
{
        if (w->n_out == w->n_in)
                return 0;
        if (w->n_out == w->n_flushed) {
                if (fflush(w->out) != 0)
                        return error_set_errno(e, errno, "Cannot write a temporary file in the store");
                w->n_flushed = w->n_in;
        }
        errno = 0; /* stays so at the end of the file */
        if (getdelim(&w->queued, &w->queued_size, 0, w->in) < 0)
                return error_set_errno(e, errno ?: EIO, "Cannot read a temporary file of the store back");
        w->n_out++;
        *ret = w->queued;
        return 1;
}

/* --- Attributes ---------------------------------------------------------------------------------------- */

static bool xattr_is_the_hosts(const char *name)
{
        static const char *const prefixes[] = {"security.selinux", "security.SMACK64", "security.apparmor",
                                               "security.ima",     "security.evm",     "btrfs."};

        for (size_t i = 0; i < ELEMENTSOF(prefixes); i++)
                if (startswith(name, prefixes[i]))
                        return true;
        return startswith(name, "system.") && !streq(name, ACL_ACCESS) && !streq(name, ACL_DEFAULT);
}

static int hash_xattr(Walk *w, const char *name)
{
        ssize_t n = lgetxattr(w->link, name, w->value, XATTR_VALUE_MAX);

        if (n < 0)
                return -errno;
        uint64_t size = htole64((uint64_t) n);
        return EVP_DigestUpdate(w->digest, name, strlen(name) + 1) == 1 &&
                                               EVP_DigestUpdate(w->digest, &size, sizeof(size)) == 1 &&
                                               EVP_DigestUpdate(w->digest, w->value, (size_t) n) == 1
                               ? 0
                               : -EIO;
}

/* The hash of all of them, in the order of their names. */
static int hash_xattrs(Walk *w, size_t size, char **ret)
{
        _cleanup_strv_free_ char **names = NULL;
        unsigned char hash[EVP_MAX_MD_SIZE];
        unsigned n;
        int r = 0;

        for (const char *p = w->names; p < w->names + size && r >= 0; p += strlen(p) + 1)
                if (!xattr_is_the_hosts(p))
                        r = strv_extend(&names, p);
        if (r < 0 || !names)
                return r;
        strv_sort(names);
        if (EVP_DigestInit_ex(w->digest, EVP_sha256(), NULL) != 1)
                return -EIO;
        STRV_FOREACH (name, names) {
                r = hash_xattr(w, *name);
                if (r < 0)
                        return r;
        }
        if (EVP_DigestFinal_ex(w->digest, hash, &n) != 1)
                return -EIO;
        *ret = hex_encode(hash, n);
        return *ret ? 0 : -ENOMEM;
}

static int read_xattrs(Walk *w, int parent_fd, const char *name, char **ret)
{
        snprintf(w->link, sizeof(w->link), "/proc/self/fd/%d/%s", parent_fd, name);
        ssize_t n = llistxattr(w->link, w->names, XATTR_NAMES_MAX);
        if (n < 0)
                return errno == EOPNOTSUPP ? 0 : -errno;
        return n == 0 ? 0 : hash_xattrs(w, (size_t) n, ret);
}

/* --- Entries ------------------------------------------------------------------------------------------- */

static int read_link(int parent_fd, const char *name, char *buffer, size_t size)
{
        ssize_t n = readlinkat(parent_fd, name, buffer, size);

        if (n < 0)
                return -errno;
        if ((size_t) n >= size)
                return -ENAMETOOLONG;
        buffer[n] = 0;
        return 0;
}

static int add_line(Walk *w, const RecordEntry *x, Error *e)
{
        w->line.size = 0;
        record_line_format(&w->line, x);
        int r = w->line.failed ? -ENOMEM : record_sort_add(w->sort, w->line.data, w->line.size);
        return r < 0 ? walk_error(e, r, x->path, "write down") : 0;
}

/* PATH is that of NAME in PARENT_FD. */
static int visit(Walk *w, int parent_fd, const char *name, const char *path, Error *e)
{
        _cleanup_free_ char *xattrs = NULL;
        char target[PATH_MAX];
        struct stat st;

        if (fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return walk_error(e, errno, path, "look at");
        int r = read_xattrs(w, parent_fd, name, &xattrs);
        if (r < 0)
                return walk_error(e, r, path, "read the attributes of");
        RecordEntry x = {
                        .path = path,
                        .mode = st.st_mode,
                        .uid = st.st_uid,
                        .gid = st.st_gid,
                        .size = (uint64_t) st.st_size,
                        .device = st.st_rdev,
                        .xattrs = xattrs,
                        .inode = S_ISREG(st.st_mode) ? st.st_ino : 0,
        };
        if (S_ISLNK(st.st_mode)) {
                r = read_link(parent_fd, name, target, sizeof(target));
                if (r < 0)
                        return walk_error(e, r, path, "read the symbolic link");
                x.link = target;
        }
        r = add_line(w, &x, e);
        return r >= 0 && S_ISDIR(st.st_mode) ? enqueue(w, path, e) : r;
}

static int read_entries(Walk *w, DIR *d, const char *directory, Error *e)
{
        struct dirent *de;

        while ((errno = 0, de = readdir(d))) {
                if (streq(de->d_name, ".") || streq(de->d_name, ".."))
                        continue;
                w->path.size = 0;
                text_addf(&w->path, "%s/%s", directory, de->d_name);
                if (w->path.failed)
                        return error_oom(e);
                int r = visit(w, dirfd(d), de->d_name, w->path.data, e);
                if (r < 0)
                        return r;
        }
        return errno != 0 ? walk_error(e, errno, directory, "read the directory") : 0;
}

/* Reading must not change the access time. Only the owner of the file may use O_NOATIME. */
int open_quietly(int dir_fd, const char *path, int flags)
{
        int fd = open_beneath(dir_fd, path, flags | O_NOATIME);

        return fd == -EPERM ? open_beneath(dir_fd, path, flags) : fd;
}

static int read_directory(Walk *w, const char *path, Error *e)
{
        int fd = open_quietly(w->dir_fd, path, O_RDONLY | O_DIRECTORY);
        DIR *d = fd < 0 ? NULL : fdopendir(fd);

        if (!d) {
                int r = walk_error(e, fd < 0 ? fd : errno, path, "open the directory");
                safe_close(fd);
                return r;
        }
        int r = read_entries(w, d, path, e);
        closedir(d);
        return r >= 0 ? operation_check(w->operation, e) : r;
}

int record_walk(int dir_fd, int tmp_fd, const char *const *tops, const Operation *o, RecordSort **ret,
                Error *e)
{
        _cleanup_(walk_done) Walk w = {.dir_fd = dir_fd, .operation = o};
        const char *path = NULL;
        struct stat st;

        int r = library_load(&crypto_library, e);
        if (r < 0)
                return r;
        r = walk_init(&w, tmp_fd);
        if (r < 0)
                return error_set_errno(e, r, "Cannot create a temporary file in the store");
        for (; *tops && r >= 0; tops++)
                if (fstatat(dir_fd, *tops, &st, AT_SYMLINK_NOFOLLOW) >= 0 || errno != ENOENT)
                        r = visit(&w, dir_fd, *tops, *tops, e);
        while (r >= 0 && (r = dequeue(&w, &path, e)) > 0)
                r = read_directory(&w, path, e);
        if (r >= 0 && (r = record_sort_finish(w.sort)) < 0)
                r = error_set_errno(e, r, "Cannot write a temporary file in the store");
        if (r >= 0)
                *ret = TAKE_PTR(w.sort);
        return r;
}
