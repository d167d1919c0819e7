/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The files of trusted keys.
 *
 * A key is trusted by the path of its file: the directory is the prefix, the name is the fingerprint. The
 * content is only used to check signatures; a key in a file named after another key is not trusted by it. As
 * a user who can add files there controls what may run on this host, every directory of the path and every
 * file is opened without following symlinks, by descriptor, and has to belong to root or to this user and
 * must not be writable by others.
 */

#include <sys/stat.h>

#include "prepare/trust/trust-internal.h"
#include "schema/schema.h"

bool trust_prefix_covers(const char *prefix, const char *name)
{
        const char *rest = startswith(name, prefix);

        return prefix[0] == 0 || (rest && (rest[0] == 0 || rest[0] == '/'));
}

int trust_prefix_directory(const char *prefix, char **ret)
{
        if (prefix[0] == 0) {
                *ret = strdup("root.d");
                return *ret ? 0 : -ENOMEM;
        }
        int r = xasprintf(ret, "prefix.d/%s", prefix);
        for (char *p = r < 0 ? NULL : strchr(*ret, '/') + 1; p && *p; p++)
                if (*p == '/')
                        *p = ',';
        return r < 0 ? r : 0;
}

/* --- Opening with checks of owner and mode ------------------------------------------------------------- */

static int check_safe(const struct stat *st, const char *path, Error *e)
{
        const char *kind = S_ISDIR(st->st_mode) ? "directory" : "file";

        if (st->st_uid != 0 && st->st_uid != geteuid()) {
                int r = error_set(e, -EPERM, "The %s of trusted keys '%s' belongs to user %u", kind, path,
                                  (unsigned) st->st_uid);
                return error_hint(e, r, "Check whose keys these are, then run: chown root: '%s'", path);
        }
        if (!S_ISLNK(st->st_mode) && (st->st_mode & 0022)) {
                int r = error_set(e, -EPERM,
                                  "The %s of trusted keys '%s' can be written to by others (mode %04o)",
                                  kind, path, st->st_mode & 07777U);
                return error_hint(e, r, "Check whether another user changed it, then run: chmod go-w '%s'",
                                  path);
        }
        return 0;
}

/* Opens NAME with O_PATH. */
static int open_safe(int parent_fd, const char *name, const char *path, struct stat *ret, Error *e)
{
        _cleanup_close_ int fd = openat(parent_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

        if (fd < 0 && errno == ENOENT)
                return -ENOENT; /* to be handled by the caller */
        if (fd < 0 || fstat(fd, ret) < 0) {
                int r = error_set_errno(e, errno, "Cannot open '%s' of the trusted keys", path);
                return r == -EACCES ? error_hint(e, r, "Run it as root, for example with sudo.") : r;
        }
        int r = check_safe(ret, path, e);
        return r < 0 ? r : TAKE_FD(fd);
}

int trust_open_directory(int parent_fd, const char *name, const char *path, int *ret_fd, Error *e)
{
        struct stat st;
        _cleanup_close_ int fd = open_safe(parent_fd, name, path, &st, e);

        if (fd < 0)
                return fd;
        if (!S_ISDIR(st.st_mode)) {
                int r = error_set(e, -EPERM, "'%s', where trusted keys are, is %s, not a directory", path,
                                  S_ISLNK(st.st_mode) ? "a symlink" : "a file");
                return error_hint(e, r, "Replace it by a directory.");
        }
        int n = fd_reopen(fd, O_RDONLY | O_DIRECTORY);
        if (n < 0)
                return error_set_errno(e, n, "Cannot open '%s' of the trusted keys", path);
        *ret_fd = n;
        return 0;
}

/* A symlink to /dev/null stands for an empty file; any other is refused. */
static int check_mask(int fd, const char *path, Error *e)
{
        char target[32] = "";
        ssize_t n = readlinkat(fd, "", target, sizeof(target) - 1);

        if (n >= 0 && streq(target, "/dev/null"))
                return 0;
        int r = error_set(e, -EPERM, "'%s', a file of a trusted key, is a symlink", path);
        return error_hint(e, r,
                          "Put the key itself there; 'acnspawn trust' does. Only a symlink to /dev/null is "
                          "taken, and hides the key of that name.");
}

static int read_key_file(int parent_fd, const char *name, TrustFile *f, Error *e)
{
        struct stat st;
        _cleanup_close_ int fd = open_safe(parent_fd, name, f->path, &st, e), readable = -EBADF;

        if (fd < 0)
                return fd;
        if (S_ISLNK(st.st_mode))
                return check_mask(fd, f->path, e);
        if (!S_ISREG(st.st_mode))
                return error_set(e, -EPERM, "'%s', a file of a trusted key, is not a regular file", f->path);
        /* The ctime cannot be set by users. */
        if (xasprintf(&f->stamp, "%ju.%jd.%jd.%09ld", (uintmax_t) st.st_ino, (intmax_t) st.st_size,
                      (intmax_t) st.st_ctim.tv_sec, st.st_ctim.tv_nsec) < 0)
                return error_oom(e);
        readable = fd_reopen(fd, O_RDONLY);
        int r = readable < 0 ? readable : read_fd_bounded(readable, TRUST_KEY_FILE_MAX, &f->data, &f->size);
        return r < 0 ? error_set_errno(e, r, "Cannot read the trusted key '%s'", f->path) : 0;
}

/* --- Reading the directories --------------------------------------------------------------------------- */

static void file_done(TrustFile *f)
{
        free(f->fingerprint);
        free(f->prefix);
        free(f->path);
        free(f->data);
        free(f->stamp);
        *f = (TrustFile){};
}

/* 40 digits, or the 64 of later versions; as a file is called. */
static bool is_key_name(const char *s)
{
        size_t n = strspn(s, "0123456789abcdef");

        return s[n] == 0 && (n == 40 || n == 64);
}

/* Temporary and hidden files. */
static bool is_ignored(const char *name)
{
        return name[0] == '.' || endswith(name, ".tmp") || endswith(name, "~");
}

static char *upper_case(const char *s)
{
        char *u = strdup(s);

        for (char *p = u; p && *p; p++)
                *p = to_upper(*p);
        return u;
}

/* The names in a directory of keys, or that of the only key that is asked for. */
static int list_key_names(const Trust *t, int fd, char ***ret)
{
        _cleanup_strv_free_ char **names = NULL;

        if (!t->only)
                return list_names(fd, ret);
        int r = strv_extend(&names, t->only);
        for (char *p = r < 0 ? NULL : names[0]; p && *p; p++)
                *p = to_lower(*p);
        if (r >= 0)
                *ret = TAKE_PTR(names);
        return r;
}

static int read_key(Trust *t, int dir_fd, size_t dir, const char *path, const char *prefix, const char *name,
                    Error *e)
{
        _cleanup_(file_done) TrustFile f = {.dir = dir};

        f.fingerprint = upper_case(name);
        f.prefix = strdup(prefix);
        if (!f.fingerprint || !f.prefix || xasprintf(&f.path, "%s/%s", path, name) < 0 ||
            GREEDY_REALLOC(t->files, t->allocated, t->n_files + 1) < 0)
                return error_oom(e);
        int r = read_key_file(dir_fd, name, &f, e);
        if (r < 0)
                return r == -ENOENT ? 0 : r; /* removed meanwhile */
        for (size_t i = 0; i < t->n_files; i++)
                f.hidden = f.hidden || (t->files[i].size == 0 && t->files[i].dir < dir &&
                                        streq(t->files[i].prefix, prefix) &&
                                        streq(t->files[i].fingerprint, f.fingerprint));
        t->files[t->n_files++] = TAKE_GENERIC(f, TrustFile, (TrustFile){});
        return 0;
}

static int stray(Trust *t, const char *path, const char *name, Error *e)
{
        if (is_ignored(name))
                return 0;
        return strv_extendf(&t->strays, "%s/%s", path, name) < 0 ? error_oom(e) : 0;
}

static int read_keys(Trust *t, int parent_fd, size_t dir, const char *parent, const char *name,
                     const char *prefix, Error *e)
{
        _cleanup_strv_free_ char **names = NULL;
        _cleanup_close_ int fd = -EBADF;
        _cleanup_free_ char *path = NULL;

        if (xasprintf(&path, "%s/%s", parent, name) < 0)
                return error_oom(e);
        int r = trust_open_directory(parent_fd, name, path, &fd, e);
        if (r < 0)
                return r == -ENOENT ? 0 : r;
        r = list_key_names(t, fd, &names);
        if (r < 0)
                return error_set_errno(e, r, "Cannot list the trusted keys in '%s'", path);
        strv_sort(names);
        STRV_FOREACH (n, names) {
                r = is_key_name(*n) ? read_key(t, fd, dir, path, prefix, *n, e) : stray(t, path, *n, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* The prefix that a directory stands for; NULL: it is none. */
static char *directory_prefix(const char *name)
{
        char *prefix = strdup(name);

        for (char *p = prefix; p && *p; p++)
                if (*p == ',')
                        *p = '/';
        if (prefix && ac_identifier_check(prefix, NULL) < 0) {
                free(prefix);
                prefix = NULL;
        }
        return prefix;
}

static int read_prefixes(Trust *t, int parent_fd, size_t dir, const char *parent, Error *e)
{
        _cleanup_strv_free_ char **names = NULL;
        _cleanup_close_ int fd = -EBADF;
        _cleanup_free_ char *path = NULL;

        if (xasprintf(&path, "%s/prefix.d", parent) < 0)
                return error_oom(e);
        int r = trust_open_directory(parent_fd, "prefix.d", path, &fd, e);
        if (r < 0)
                return r == -ENOENT ? 0 : r;
        r = list_names(fd, &names);
        if (r < 0)
                return error_set_errno(e, r, "Cannot list the prefixes in '%s'", path);
        strv_sort(names);
        STRV_FOREACH (n, names) {
                _cleanup_free_ char *prefix = directory_prefix(*n);
                r = prefix ? read_keys(t, fd, dir, path, *n, prefix, e) : stray(t, path, *n, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int read_directory(Trust *t, size_t dir, Error *e)
{
        _cleanup_close_ int fd = -EBADF, keys_fd = -EBADF;
        _cleanup_free_ char *path = NULL;

        int r = trust_open_directory(AT_FDCWD, t->dirs[dir], t->dirs[dir], &fd, e);
        if (r < 0)
                return r == -ENOENT ? 0 : r;
        if (xasprintf(&path, "%s/" TRUSTED_KEYS, t->dirs[dir]) < 0)
                return error_oom(e);
        r = trust_open_directory(fd, TRUSTED_KEYS, path, &keys_fd, e);
        if (r < 0)
                return r == -ENOENT ? 0 : r;
        r = read_keys(t, keys_fd, dir, path, "root.d", "", e);
        return r < 0 ? r : read_prefixes(t, keys_fd, dir, path, e);
}

static void forget(Trust *t)
{
        for (size_t i = 0; i < t->n_files; i++)
                file_done(&t->files[i]);
        t->n_files = 0;
        t->strays = strv_free(t->strays);
        if (t->has_home)
                gpg_home_done(&t->home);
        t->has_home = false;
}

int trust_reload(Trust *t, Error *e)
{
        int r = 0;

        forget(t);
        for (size_t i = 0; r >= 0 && i < strv_length(t->dirs); i++)
                r = read_directory(t, i, e);
        return r < 0 ? r : 0;
}

int trust_open_key(const char *const *config_dirs, const char *fingerprint, const Operation *o, Trust **ret,
                   Error *e)
{
        _cleanup_(trust_freep) Trust *t = calloc(1, sizeof(Trust));

        if (!t)
                return error_oom(e);
        t->operation = o;
        pthread_mutex_init(&t->mutex, NULL);
        t->home = GPG_HOME_NULL;
        if (fingerprint && !(t->only = strdup(fingerprint)))
                return error_oom(e);
        for (const char *const *d = config_dirs ?: usual_config_dirs; *d; d++)
                if (strv_extend(&t->dirs, *d) < 0)
                        return error_oom(e);
        int r = trust_reload(t, e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(t);
        return 0;
}

int trust_open(const char *const *config_dirs, const Operation *o, Trust **ret, Error *e)
{
        return trust_open_key(config_dirs, NULL, o, ret, e);
}

Trust *trust_free(Trust *t)
{
        if (!t)
                return NULL;
        forget(t);
        free(t->files);
        strv_free(t->dirs);
        free(t->only);
        pthread_mutex_destroy(&t->mutex);
        free(t);
        return NULL;
}

const char *trust_find(const Trust *t, const char *fingerprint, const char *name)
{
        const char *found = NULL;

        for (size_t i = 0; i < t->n_files; i++) {
                const TrustFile *f = &t->files[i];
                if (trust_file_counts(f) && streq(f->fingerprint, fingerprint) &&
                    (!name || trust_prefix_covers(f->prefix, name)) &&
                    (!found || strlen(f->prefix) > strlen(found)))
                        found = f->prefix;
        }
        return found;
}

bool trust_covers(const Trust *t, const char *name)
{
        for (size_t i = 0; i < t->n_files; i++)
                if (trust_file_counts(&t->files[i]) && trust_prefix_covers(t->files[i].prefix, name))
                        return true;
        return false;
}

char *trust_stamp(const Trust *t, const char *fingerprint)
{
        _cleanup_text_ Text all = {};
        char *stamp;

        for (size_t i = 0; i < t->n_files; i++) {
                const TrustFile *f = &t->files[i];
                if (trust_file_counts(f) && streq(f->fingerprint, fingerprint))
                        text_addf(&all, "%s%s", all.size > 0 ? "," : "", f->stamp);
        }
        return text_take(&all, &stamp, NULL) < 0 ? NULL : stamp;
}

void trust_add_prefixes(Text *t, const Trust *trust, const char *fingerprint)
{
        const char *separator = " only for ";

        for (size_t i = 0; i < trust->n_files; i++) {
                const TrustFile *f = &trust->files[i];
                if (!trust_file_counts(f) || !streq(f->fingerprint, fingerprint))
                        continue;
                text_addf(t, "%s'%s'", separator, f->prefix);
                separator = " and ";
        }
}
