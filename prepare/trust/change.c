/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Changing which keys are trusted.
 *
 * A key is stored as gpg exports it: armored, with its own signatures only. An existing copy of the same key
 * is imported along with it, so that adding an older copy never loses a revocation. Directories and files
 * are created without write permission for others; writers are serialized by a flock on the file .lock, which
 * others cannot open, and files are replaced atomically for readers.
 */

#include <ctype.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "prepare/trust/trust-internal.h"
#include "schema/schema.h"

#define SHORTEST_FINGERPRINT 16U /* digits by which a key may be named */

/* --- The directories ----------------------------------------------------------------------------------- */

/* The administrator's directory of trusted keys, made if need be, with a lock, and in it a prefix's. */
typedef struct Place {
        int keys_fd, lock_fd, dir_fd;
        char *path;
} Place;

#define PLACE_NULL ((Place){.keys_fd = -EBADF, .lock_fd = -EBADF, .dir_fd = -EBADF})

static void place_done(Place *p)
{
        safe_close(p->keys_fd);
        safe_close(p->lock_fd);
        safe_close(p->dir_fd);
        free(p->path);
}

/* Makes NAME in PARENT_FD (or finds it) and opens it; PATH is extended by it. */
static int enter(int parent_fd, const char *name, char **path, int *ret_fd, Error *e)
{
        _cleanup_free_ char *longer = NULL;

        if (xasprintf(&longer, "%s/%s", *path, name) < 0)
                return error_oom(e);
        if (mkdirat(parent_fd, name, 0755) < 0 && errno != EEXIST)
                return error_set_errno(e, errno, "Cannot create the directory '%s' for trusted keys",
                                       longer);
        int r = trust_open_directory(parent_fd, name, longer, ret_fd, e);
        if (r == -ENOENT)
                return error_set_errno(e, r, "Cannot open '%s' of the trusted keys", longer);
        if (r < 0)
                return r;
        free(*path);
        *path = TAKE_PTR(longer);
        return 0;
}

/* Removes leftovers of killed writers; the lock excludes other writers. */
static void remove_leftovers(int parent_fd, const char *directory)
{
        _cleanup_close_ int fd =
                        openat(parent_fd, directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        _cleanup_strv_free_ char **names = NULL;

        if (fd < 0 || list_names(fd, &names) < 0)
                return;
        STRV_FOREACH (n, names)
                if (endswith(*n, ".tmp"))
                        (void) unlinkat(fd, *n, 0);
}

/* The same for all prefixes, and the directories of those that have no keys any more. */
static void tidy(int keys_fd)
{
        _cleanup_close_ int fd =
                        openat(keys_fd, "prefix.d", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        _cleanup_strv_free_ char **names = NULL;

        remove_leftovers(keys_fd, "root.d");
        if (fd < 0 || list_names(fd, &names) < 0)
                return;
        STRV_FOREACH (n, names) {
                remove_leftovers(fd, *n);
                (void) unlinkat(fd, *n, AT_REMOVEDIR); /* none that is not empty */
        }
}

static int enter_keys(Trust *t, Place *p, Error *e)
{
        _cleanup_close_ int fd = -EBADF;

        p->path = strdup(t->dirs[0]);
        if (!p->path)
                return error_oom(e);
        int r = mkdir_p(p->path, 0755);
        if (r < 0)
                return error_set_errno(e, r, "Cannot create the directory '%s' for trusted keys", p->path);
        r = trust_open_directory(AT_FDCWD, p->path, p->path, &fd, e);
        if (r >= 0)
                r = enter(fd, TRUSTED_KEYS, &p->path, &p->keys_fd, e);
        if (r < 0)
                return r;
        p->lock_fd = lock_file_at(p->keys_fd, ".lock", LOCK_EX, t->operation, e);
        if (operation_ended(p->lock_fd))
                return p->lock_fd;
        if (p->lock_fd < 0)
                return error_set_errno(e, p->lock_fd, "Cannot lock the trusted keys in '%s'", p->path);
        tidy(p->keys_fd);
        return 0;
}

static int place_open(Trust *t, const char *prefix, Place *ret, Error *e)
{
        _cleanup_(place_done) Place p = PLACE_NULL;
        _cleanup_close_ int prefixes_fd = -EBADF;
        _cleanup_free_ char *directory = NULL;

        if (trust_prefix_directory(prefix, &directory) < 0)
                return error_oom(e);
        int r = enter_keys(t, &p, e);
        char *slash = strchr(directory, '/');
        if (slash) {
                *slash = 0;
                if (r >= 0)
                        r = enter(p.keys_fd, directory, &p.path, &prefixes_fd, e);
        }
        if (r >= 0)
                r = enter(slash ? prefixes_fd : p.keys_fd, slash ? slash + 1 : directory, &p.path, &p.dir_fd,
                          e);
        if (r < 0)
                return r;
        *ret = TAKE_GENERIC(p, Place, PLACE_NULL);
        return 0;
}

/* --- Adding -------------------------------------------------------------------------------------------- */

static int export_key(const Operation *o, const char *home, const char *fingerprint, char **ret,
                      size_t *ret_size, Error *e)
{
        _cleanup_gpg_context_ gpgme_ctx_t c = NULL;
        _cleanup_gpg_data_ gpgme_data_t d = NULL;
        char *exported;
        GpgCall call;

        int r = gpg_context_new(o, home, &c, e);
        if (r >= 0)
                r = gpg_call_begin(&call, o, e);
        if (r < 0)
                return r;
        gpgme_set_armor(c, 1);
        gpgme_error_t err = gpgme_data_new(&d);
        if (!err)
                err = gpgme_op_export(c, fingerprint, GPGME_EXPORT_MODE_MINIMAL, d);
        r = gpg_call_end(&call, e);
        if (r < 0)
                return r;
        if (err)
                return gpg_fail(e, err, "Cannot export the public key %s", fingerprint);
        exported = gpgme_data_release_and_get_mem(TAKE_PTR(d), ret_size);
        *ret = exported && *ret_size > 0 ? malloc(*ret_size) : NULL;
        if (*ret)
                memcpy(*ret, exported, *ret_size);
        gpgme_free(exported);
        return *ret ? 0
                    : error_set(e, -EIO, "Cannot export the public key %s: gpg gives nothing", fingerprint);
}

static char *file_name(const char *fingerprint)
{
        char *name = strdup(fingerprint);

        for (char *p = name; p && *p; p++)
                *p = to_lower(*p);
        return name;
}

/* Imports an existing copy of the key into the home as well. *RET: the file's content, or NULL. */
static int import_present(const Operation *o, const Place *p, const char *home, const char *name, char **ret,
                          size_t *ret_size, Error *e)
{
        _cleanup_free_ unsigned char *keys = NULL;
        struct stat st;
        size_t n;

        if (fstatat(p->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) >= 0 && S_ISLNK(st.st_mode))
                return 0; /* to /dev/null; another would have been refused */
        int r = read_file_at(p->dir_fd, name, TRUST_KEY_FILE_MAX, ret, ret_size);
        if (r == -ENOENT)
                return 0;
        if (r < 0) /* too long, or no file: it was checked when it was read */
                return error_set_errno(e, r, "Cannot read the trusted key '%s/%s'", p->path, name);
        if (*ret_size == 0 || public_keys_decode(*ret, *ret_size, "", &keys, &n, NULL) < 0)
                return 0;
        return keys_import(o, home, keys, n, e);
}

/* 1: the file has changed. */
static int add_one(const Operation *o, const Place *p, const char *home, const char *fingerprint, Error *e)
{
        _cleanup_free_ char *name = file_name(fingerprint), *before = NULL, *now = NULL;
        size_t n_before = 0, n_now = 0;

        if (!name)
                return error_oom(e);
        int r = import_present(o, p, home, name, &before, &n_before, e);
        if (r >= 0)
                r = export_key(o, home, fingerprint, &now, &n_now, e);
        if (r < 0)
                return r;
        if (before && n_before == n_now && memcmp(before, now, n_now) == 0)
                return 0;
        /* A link to /dev/null that hid the vendor's is replaced, too. */
        r = write_file_atomic_at(p->dir_fd, name, now, n_now, 0644, true);
        return r < 0 ? error_set_errno(e, r, "Cannot write the trusted key '%s/%s'", p->path, name) : 1;
}

static int check_prefix(const char *prefix, Error *e)
{
        int r = ac_identifier_check(prefix, e);

        if (r >= 0)
                return 0;
        r = error_prefix(e, r, "Cannot trust keys for the prefix '%s'", prefix);
        return error_hint(e, r,
                          "A prefix is an image name or the beginning of one, such as example.com/app.");
}

int trust_add(Trust *t, const char *prefix, const void *data, size_t size, const char *what, Error *e)
{
        _cleanup_(place_done) Place p = PLACE_NULL;
        _cleanup_gpg_home_ GpgHome h = GPG_HOME_NULL;
        _cleanup_free_ unsigned char *binary = NULL;
        _cleanup_trust_keys_ TrustKeys keys = {};
        int n_changed = 0;
        size_t n = 0;

        int r = prefix ? check_prefix(prefix, e) : 0;
        if (r >= 0)
                r = trust_inspect_key(data, size, what, t->operation, &keys, e);
        if (r >= 0)
                r = public_keys_decode(data, size, what, &binary, &n, e);
        if (r >= 0)
                r = gpg_home_new(NULL, &h, e);
        if (r >= 0)
                r = keys_import(t->operation, h.path, binary, n, e);
        if (r >= 0)
                r = place_open(t, prefix ?: "", &p, e);
        for (size_t i = 0; r >= 0 && i < keys.n; i++) {
                r = add_one(t->operation, &p, h.path, keys.items[i].fingerprint, e);
                n_changed += r > 0;
        }
        if (r >= 0)
                r = trust_reload(t, e);
        return r < 0 ? r : n_changed;
}

/* --- Removing ------------------------------------------------------------------------------------------ */

static int normalize_fingerprint(const char *s, char **ret, Error *e)
{
        _cleanup_free_ char *shown = text_escape_for_terminal(s);
        _cleanup_text_ Text t = {};
        const char *p = startswith(s, "0x") ?: s;

        for (; isxdigit((unsigned char) *p) || *p == ' ' || *p == ':'; p++)
                if (*p != ' ' && *p != ':')
                        text_addf(&t, "%c", to_upper(*p));
        if (t.failed)
                return error_oom(e);
        if (*p != 0 || t.size < SHORTEST_FINGERPRINT) {
                int r = error_set(e, -EINVAL, "'%s' is not the fingerprint of a key", shown ?: "");
                return error_hint(
                                e, r,
                                "It has 40 hexadecimal digits; at least the last 16 of them are required.");
        }
        return text_take(&t, ret, NULL) < 0 ? error_oom(e) : 0;
}

int trust_fingerprint_check(const char *s, Error *e)
{
        _cleanup_free_ char *normal = NULL;

        return normalize_fingerprint(s, &normal, e);
}

static bool is_meant(const TrustFile *f, const char *prefix, const char *fingerprint)
{
        return trust_file_counts(f) && endswith(f->fingerprint, fingerprint) &&
               (!prefix || streq(f->prefix, prefix));
}

/* Finds the key of FINGERPRINT: -ENOENT, -ENOTUNIQ. */
static int find_by_fingerprint(const Trust *t, const char *prefix, const char *fingerprint, Error *e)
{
        const TrustFile *found = NULL;

        for (size_t i = 0; i < t->n_files; i++) {
                const TrustFile *f = &t->files[i];
                if (!is_meant(f, prefix, fingerprint))
                        continue;
                if (found && !streq(found->fingerprint, f->fingerprint)) {
                        int r = error_set(e, -ENOTUNIQ, "Several trusted keys end in %s: %s and %s",
                                          fingerprint, found->fingerprint, f->fingerprint);
                        return error_hint(e, r, "Give the fingerprint in full.");
                }
                found = f;
        }
        if (found)
                return 0;
        int r = prefix ? error_set(e, -ENOENT, "The key %s is not trusted %s%s%s", fingerprint,
                                   prefix[0] ? "for '" : "as a root key", prefix, prefix[0] ? "'" : "")
                       : error_set(e, -ENOENT, "The key %s is not trusted for anything", fingerprint);
        return error_hint(e, r, "'acnspawn trust --list' shows which keys are.");
}

static int remove_file(Trust *t, const TrustFile *f, char ***lines, Error *e)
{
        _cleanup_(place_done) Place p = PLACE_NULL;
        _cleanup_free_ char *name = file_name(f->fingerprint);

        int r = name ? place_open(t, f->prefix, &p, e) : error_oom(e);
        if (r < 0)
                return r;
        if (f->dir == 0) {
                r = unlinkat(p.dir_fd, name, 0) < 0 && errno != ENOENT ? -errno : fsync_dir(p.dir_fd);
                if (r < 0)
                        return error_set_errno(e, r, "Cannot remove the trusted key '%s'", f->path);
                return strv_extendf(lines, "%s", f->path) < 0 ? error_oom(e) : 0;
        }
        r = write_file_atomic_at(p.dir_fd, name, "", 0, 0644, true);
        if (r < 0)
                return error_set_errno(e, r, "Cannot hide the trusted key '%s' by '%s/%s'", f->path, p.path,
                                       name);
        return strv_extendf(lines, "%s (hidden by %s/%s)", f->path, p.path, name) < 0 ? error_oom(e) : 0;
}

int trust_remove(Trust *t, const char *prefix, const char *fingerprint, char ***ret, Error *e)
{
        _cleanup_strv_free_ char **lines = NULL;
        _cleanup_free_ char *meant = NULL;

        int r = normalize_fingerprint(fingerprint, &meant, e);
        if (r >= 0)
                r = find_by_fingerprint(t, prefix, meant, e);
        for (size_t i = 0; r >= 0 && i < t->n_files; i++)
                if (is_meant(&t->files[i], prefix, meant))
                        r = remove_file(t, &t->files[i], &lines, e);
        if (r >= 0) {
                _cleanup_(place_done) Place p = PLACE_NULL;

                (void) enter_keys(t, &p, NULL); /* the directory of a prefix that has no keys any more */
                r = trust_reload(t, e);
        }
        if (r < 0)
                return r;
        if (ret)
                *ret = TAKE_PTR(lines);
        return 0;
}
