/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which files declare a pod: as systemd finds units and their drop-ins. The first directory that has NAME.pod
 * takes precedence; of drop-ins of the same name, too. An empty file, or a link to /dev/null, masks those of the
 * directories below. But an empty file may also be what an interrupted change has left of another one: where data is removed that a
 * file does not name, it is an error. Directories are opened once and files relative to them; only regular files are read. */

#include <sys/stat.h>

#include "config.h"
#include "stage0/declared/declared.h"

#define NAME_LENGTH_MAX 63U

/* --- Directories and names ----------------------------------------------------------------------------- */

int declared_dirs(const char *config_dir, char ***ret)
{
        _cleanup_strv_free_ char **l = NULL;

        if (!isempty(config_dir)) {
                if (strv_extendf(&l, "%s/pods", config_dir) < 0)
                        return -ENOMEM;
        } else if (strv_extend(&l, ACNSPAWN_SYSCONFDIR "/pods") < 0 ||
                   strv_extend(&l, "/run/acnspawn/pods") < 0 ||
                   strv_extend(&l, ACNSPAWN_LIBEXECDIR "/pods") < 0)
                return -ENOMEM;
        *ret = TAKE_PTR(l);
        return 0;
}

int declared_find_dirs(const char *config_dir, char ***ret, Error *e)
{
        if (!isempty(config_dir) && access(config_dir, F_OK) < 0)
                return error_set_errno(e, -errno, "Cannot open the configuration directory '%s'",
                                       config_dir);
        return declared_dirs(config_dir, ret) < 0 ? error_oom(e) : 0;
}

bool declared_name_is_valid(const char *name)
{
        size_t n = strlen(name);

        if (n == 0 || n > NAME_LENGTH_MAX)
                return false;
        for (size_t i = 0; i < n; i++) {
                bool edge = i == 0 || i + 1 == n || name[i - 1] == '.' || name[i + 1] == '.';
                bool plain = is_lower(name[i]) || is_digit(name[i]);

                if (!plain && (edge || (name[i] != '-' && name[i] != '.')))
                        return false;
        }
        return true;
}

static int file_error(Error *e, int r, const char *dir, const char *file)
{
        if (r == -EBADMSG)
                return error_set(e, r, "'%s/%s' is not a regular file", dir, file);
        if (r == -EFBIG)
                return error_set(e, r, "'%s/%s' is larger than %u bytes", dir, file, DECLARED_FILE_MAX);
        return error_set_errno(e, r, "Cannot read '%s/%s'", dir, file);
}

/* -ENOENT: PATH, which could not be found, is not there. A link that leads nowhere is, and so is what is below it: the file
 * system that it leads to may not be mounted now. */
static int explain_missing(int at, const char *path, const char *shown, Error *e)
{
        _cleanup_free_ char *part = strdup(path);
        struct stat st;

        if (!part)
                return error_oom(e);
        while (fstatat(at, part, &st, AT_SYMLINK_NOFOLLOW) < 0) {
                char *slash = strrchr(part, '/');

                if (errno != ENOENT || !slash)
                        return -ENOENT;
                *slash = 0;
        }
        if (!S_ISLNK(st.st_mode) || fstatat(at, part, &st, 0) >= 0 || errno != ENOENT)
                return -ENOENT;
        return error_set(e, -ENOLINK, "Cannot read '%s': %s a link that leads to nothing", shown,
                         streq(part, path) ? "it is" : "it is below");
}

/* -ENOENT: there is none. */
static int open_dir(const char *path, int *ret, Error *e)
{
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0)
                return errno == ENOENT ? explain_missing(AT_FDCWD, path, path, e)
                                       : error_set_errno(e, -errno, "Cannot open '%s'", path);
        *ret = fd;
        return 0;
}

static int file_missing(int dir_fd, const char *dir, const char *file, Error *e)
{
        _cleanup_free_ char *shown = NULL;

        return xasprintf(&shown, "%s/%s", dir, file) < 0 ? error_oom(e)
                                                         : explain_missing(dir_fd, file, shown, e);
}

/* -ERFKILL: it is masked; -ENODATA: by being empty. */
static int read_file(int dir_fd, const char *dir, const char *file, char **ret, size_t *ret_size, Error *e)
{
        _cleanup_close_ int fd = openat(dir_fd, file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        struct stat st, null;

        if (fd < 0 && errno == ENOENT)
                return file_missing(dir_fd, dir, file, e);
        if (fd < 0)
                return file_error(e, -errno, dir, file);
        if (fstat(fd, &st) < 0)
                return file_error(e, -errno, dir, file);
        if (S_ISREG(st.st_mode) && st.st_size == 0) {
                int r = error_set(e, -ENODATA, "'%s/%s' is empty", dir, file);
                return error_hint(
                                e, r,
                                "A link to /dev/null masks for good what is declared; an empty file may be the rest of one.");
        }
        if (S_ISCHR(st.st_mode) && stat("/dev/null", &null) >= 0 && st.st_rdev == null.st_rdev)
                return -ERFKILL;
        int r = read_fd_bounded(fd, DECLARED_FILE_MAX, ret, ret_size);
        return r < 0 ? file_error(e, r, dir, file) : 0;
}

/* --- Lists --------------------------------------------------------------------------------------------- */

/* Names in DIR with SUFFIX that are not in L yet. */
static int add_names(char *const *names, const char *suffix, size_t max, char ***l)
{
        STRV_FOREACH (name, names) {
                if (**name == '.' || !endswith(*name, suffix) || strv_contains(*l, *name))
                        continue;
                if (strv_length(*l) >= max)
                        return -E2BIG;
                if (strv_extend(l, *name) < 0)
                        return -ENOMEM;
        }
        return 0;
}

/* Files in any of the directories, sorted; PATH, if not NULL, is a directory in each. */
static int list_files(char *const *dirs, const char *path, const char *suffix, size_t max, char ***ret,
                      Error *e)
{
        _cleanup_strv_free_ char **l = NULL;

        STRV_FOREACH (dir, dirs) {
                _cleanup_strv_free_ char **names = NULL;
                _cleanup_close_ int fd = -EBADF;
                _cleanup_free_ char *whole = NULL;

                if (xasprintf(&whole, "%s%s%s", *dir, path ? "/" : "", path ?: "") < 0)
                        return error_oom(e);
                int r = open_dir(whole, &fd, e);
                if (r == -ENOENT)
                        continue;
                if (r < 0)
                        return r;
                r = list_names(fd, &names);
                if (r < 0)
                        return error_set_errno(e, r, "Cannot read '%s'", whole);
                r = add_names(names, suffix, max, &l);
                if (r == -E2BIG)
                        return error_set(e, r, "There are more than %zu files in '%s'", max, whole);
                if (r < 0)
                        return error_oom(e);
        }
        strv_sort(l);
        *ret = TAKE_PTR(l);
        return 0;
}

static bool is_masked(int r)
{
        return r == -ERFKILL || r == -ENODATA;
}

/* The first directory with FILE. -ENOENT, -ERFKILL, -ENODATA. */
static int read_first(char *const *dirs, const char *path, const char *file, Declared *d, Error *e)
{
        STRV_FOREACH (dir, dirs) {
                _cleanup_free_ char *whole = NULL, *text = NULL, *shown = NULL;
                _cleanup_close_ int fd = -EBADF;
                size_t size = 0;

                if (xasprintf(&whole, "%s%s%s", *dir, path ? "/" : "", path ?: "") < 0 ||
                    xasprintf(&shown, "%s/%s", whole, file) < 0)
                        return error_oom(e);
                int r = open_dir(whole, &fd, e);
                if (r >= 0)
                        r = read_file(fd, whole, file, &text, &size, e);
                if (r == -ENOENT)
                        continue;
                if (r < 0)
                        return r;
                r = d ? declared_parse(d, shown, text, size) : 0;
                return r < 0 ? error_oom(e) : 0;
        }
        return -ENOENT;
}

/* Those of DIRS in which list_files() succeeds, and why it does not in the others. */
static int readable_dirs(char *const *dirs, const char *path, const char *suffix, size_t max, char ***ret,
                         char ***ret_failures)
{
        _cleanup_strv_free_ char **l = NULL, **failures = NULL;

        STRV_FOREACH (dir, dirs) {
                _cleanup_strv_free_ char **files = NULL;
                _cleanup_error_ Error e = ERROR_NULL;
                int r = list_files((char *[]){*dir, NULL}, path, suffix, max, &files, &e);

                r = strv_extend(r < 0 ? &failures : &l, r < 0 ? e.message ?: strerror(-r) : *dir);
                if (r < 0)
                        return r;
        }
        *ret = TAKE_PTR(l);
        *ret_failures = TAKE_PTR(failures);
        return 0;
}

int declared_readable_dirs(char *const *dirs, char ***ret, char ***ret_failures)
{
        return readable_dirs(dirs, NULL, DECLARED_SUFFIX, DECLARED_PODS_MAX, ret, ret_failures);
}

/* EMPTY: with those that are masked by an empty file. */
static int list_pods(char *const *dirs, bool empty, char ***ret, Error *e)
{
        _cleanup_strv_free_ char **files = NULL, **l = NULL;

        int r = list_files(dirs, NULL, DECLARED_SUFFIX, DECLARED_PODS_MAX, &files, e);
        if (r < 0)
                return r;
        STRV_FOREACH (file, files) {
                _cleanup_free_ char *name = strndup(*file, strlen(*file) - strlen(DECLARED_SUFFIX));

                if (!name)
                        return error_oom(e);
                if (!declared_name_is_valid(name))
                        continue;
                r = read_first(dirs, NULL, *file, NULL, NULL);
                if (is_masked(r) && !(empty && r == -ENODATA)) /* other failures are for who reads it */
                        continue;
                if (strv_extend(&l, name) < 0)
                        return error_oom(e);
        }
        *ret = TAKE_PTR(l);
        return 0;
}

int declared_list(char *const *dirs, char ***ret, Error *e)
{
        return list_pods(dirs, false, ret, e);
}

int declared_list_to_keep(char *const *dirs, char ***ret, Error *e)
{
        return list_pods(dirs, true, ret, e);
}

int declared_list_misnamed(char *const *dirs, char ***ret, Error *e)
{
        _cleanup_strv_free_ char **files = NULL, **l = NULL;

        int r = list_files(dirs, NULL, DECLARED_SUFFIX, DECLARED_PODS_MAX, &files, e);
        STRV_FOREACH (file, files) {
                _cleanup_free_ char *name = strndup(*file, strlen(*file) - strlen(DECLARED_SUFFIX));

                if (!name || (!declared_name_is_valid(name) && strv_extend(&l, *file) < 0))
                        return error_oom(e);
        }
        if (r >= 0)
                *ret = TAKE_PTR(l);
        return r;
}

int declared_exists(char *const *dirs, const char *name, Error *e)
{
        _cleanup_free_ char *file = NULL;
        int result = 0;

        if (!declared_name_is_valid(name))
                return 0;
        if (xasprintf(&file, "%s" DECLARED_SUFFIX, name) < 0)
                return error_oom(e);
        STRV_FOREACH (dir, dirs) {
                _cleanup_error_ Error why = ERROR_NULL;
                _cleanup_close_ int fd = -EBADF;

                int r = open_dir(*dir, &fd, &why);
                if (r >= 0 && read_first((char *[]){*dir, NULL}, NULL, file, NULL, NULL) != -ENOENT)
                        return 1;
                if (r < 0 && r != -ENOENT && result >= 0)
                        result = error_move(e, &why);
        }
        return result;
}

/* --- Reading ------------------------------------------------------------------------------------------- */

#define DROP_INS ".conf", DECLARED_DROP_INS_MAX

typedef enum LoadMode {
        LOAD_TO_START,
        LOAD_TO_KEEP, /* an empty file is an error */
        LOAD_PARTLY,
} LoadMode;

static int read_drop_ins(char *const *dirs, const char *path, LoadMode mode, Declared *d, Error *e)
{
        _cleanup_strv_free_ char **files = NULL;

        int r = list_files(dirs, path, DROP_INS, &files, e);
        if (r < 0)
                return r;
        STRV_FOREACH (drop_in, files) {
                _cleanup_error_ Error why = ERROR_NULL;
                r = read_first(dirs, path, *drop_in, d, &why);
                if (r < 0 && r != -ENOENT && (!is_masked(r) || (r == -ENODATA && mode == LOAD_TO_KEEP)))
                        return error_move(e, &why);
        }
        return 0;
}

static int add_failure(Declared *d, const char *text, Error *e)
{
        const DeclaredPlace place = {.file = d->files[0]};

        return declared_add_finding(d, &place, true, NULL, "%s", text) < 0 ? error_oom(e) : 0;
}

/* The same, and what cannot be read are findings. */
static int read_drop_ins_partly(char *const *dirs, const char *path, Declared *d, Error *e)
{
        _cleanup_strv_free_ char **readable = NULL, **failures = NULL, **files = NULL;

        int r = readable_dirs(dirs, path, DROP_INS, &readable, &failures);
        if (r < 0)
                return error_oom(e);
        STRV_FOREACH (failure, failures)
                r = r < 0 ? r : add_failure(d, *failure, e);
        if (r >= 0)
                r = list_files(readable, path, DROP_INS, &files, e);
        STRV_FOREACH (drop_in, files) {
                _cleanup_error_ Error why = ERROR_NULL;
                int k = r < 0 ? 0 : read_first(readable, path, *drop_in, d, &why);
                if (k < 0 && !is_masked(k) && k != -ENOENT)
                        r = add_failure(d, why.message ?: strerror(-k), e);
        }
        return r;
}

/* For the units, which are written before all file systems are mounted: the next file of that name, if the first is a link that leads to
 * nothing as yet. The start of the pod reads the first. */
static int read_next(char *const *dirs, const char *file, Declared *d, Error *e)
{
        _cleanup_error_ Error first = ERROR_NULL;

        (void) error_move(&first, e);
        for (; *dirs; dirs++) {
                _cleanup_error_ Error why = ERROR_NULL;
                int r = read_first((char *[]){*dirs, NULL}, NULL, file, d, &why);

                if (r >= 0)
                        return add_failure(d, first.message ?: strerror(ENOLINK), e);
                if (is_masked(r)) /* masked: there are no units, and the link is what is to be mended */
                        break;
                if (r != -ENOENT && r != -ENOLINK)
                        return error_move(e, &why);
        }
        return error_move(e, &first);
}

static int load(char *const *dirs, const char *name, const char *file, LoadMode mode, Declared **ret,
                Error *e)
{
        _cleanup_(declared_freep) Declared *d = declared_new(name);
        _cleanup_free_ char *path = NULL;

        if (!d || xasprintf(&path, "%s.d", file) < 0)
                return error_oom(e);
        int r = read_first(dirs, NULL, file, d, e);
        if (r == -ENOLINK && mode == LOAD_PARTLY)
                r = read_next(dirs, file, d, e);
        if (r >= 0)
                r = mode == LOAD_PARTLY ? read_drop_ins_partly(dirs, path, d, e)
                                        : read_drop_ins(dirs, path, mode, d, e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(d);
        return 0;
}

static int load_name(char *const *dirs, const char *name, LoadMode mode, Declared **ret, Error *e)
{
        _cleanup_free_ char *file = NULL, *list = NULL;

        if (!declared_name_is_valid(name))
                return error_set(e, -EINVAL, "'%s' is not a valid name for a pod", name);
        if (xasprintf(&file, "%s" DECLARED_SUFFIX, name) < 0)
                return error_oom(e);
        int r = load(dirs, name, file, mode, ret, e);
        if (r == -ERFKILL)
                return error_set(e, r, "Pod '%s' is masked", name);
        if (r == -ENODATA && mode != LOAD_TO_KEEP)
                return error_prefix(e, -ERFKILL, "Pod '%s' is masked", name);
        if (r != -ENOENT)
                return r;
        r = error_set(e, r, "No file declares a pod '%s'", name);
        list = strv_join(dirs, ", ");
        return error_hint(e, r, "It would be %s, in one of: %s", file, list ?: "?");
}

int declared_load(char *const *dirs, const char *name, Declared **ret, Error *e)
{
        return load_name(dirs, name, LOAD_TO_START, ret, e);
}

int declared_load_to_keep(char *const *dirs, const char *name, Declared **ret, Error *e)
{
        return load_name(dirs, name, LOAD_TO_KEEP, ret, e);
}

int declared_load_partly(char *const *dirs, const char *name, Declared **ret, Error *e)
{
        return load_name(dirs, name, LOAD_PARTLY, ret, e);
}

int declared_load_file(const char *path, Declared **ret, Error *e)
{
        const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
        const char *suffix = endswith(file, DECLARED_SUFFIX);
        _cleanup_free_ char *name = strndup(file, suffix ? (size_t) (suffix - file) : 0), *dir = NULL;

        if (!name ||
            xasprintf(&dir, "%.*s", slash ? MAX((int) (slash - path), 1) : 1, slash ? path : ".") < 0)
                return error_oom(e);
        if (!suffix || !declared_name_is_valid(name)) {
                int r = error_set(e, -EINVAL, "'%s' is not named as a file that declares a pod", path);
                return error_hint(e, r,
                                  "Its name is that of the pod, in lower case letters, digits, '-' and '.', "
                                  "with the suffix '" DECLARED_SUFFIX "'.");
        }
        int r = load((char *[]){dir, NULL}, name, file, LOAD_TO_START, ret, e);
        if (is_masked(r))
                return error_set(e, -ERFKILL, "'%s' is empty, or a link to /dev/null: it masks pod '%s'",
                                 path, name);
        return r == -ENOENT ? error_set_errno(e, r, "Cannot read '%s'", path) : r;
}
