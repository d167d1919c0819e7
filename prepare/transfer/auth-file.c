/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The files in auth.d.
 *
 * NAME.conf is in the style of systemd's configuration; NAME.json is a document as rkt had them
 * (auth-json.c). A file in a stronger directory hides the one of the same name in a weaker one; an empty
 * file, or a link to /dev/null, just hides. A host may be named once in a directory. A file that others can
 * read is refused, because its content is not secret, and so is one that does not belong to root (or, in
 * tests, this user), because its owner could observe what is fetched. Messages name file and line, never a
 * value.
 */

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "prepare/transfer/transfer-internal.h"

#define AUTH_FILE_MAX (256U << 10) /* bytes */
#define SECRET_FILE_MAX (64U << 10)
#define AUTH_FILES_MAX 4096U

static void wipe(void *p, size_t n)
{
        if (p)
                explicit_bzero(p, n);
}

/* --- Reading secret files ------------------------------------------------------------------------------ */

int secret_file_check(int fd, const char *path, Error *e)
{
        struct stat st;
        int r;

        if (fstat(fd, &st) < 0)
                return error_set_errno(e, errno, "Cannot examine %s", path);
        if (S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3))
                return 0;
        if (!S_ISREG(st.st_mode))
                return error_set(e, -EPERM, "%s holds no credentials: it is not a regular file", path);
        if (st.st_size == 0)
                return 0;
        if (st.st_uid != 0 && st.st_uid != geteuid()) {
                r = error_set(e, -EPERM,
                              "%s is not read for credentials: it belongs to user %u, not to root", path,
                              (unsigned) st.st_uid);
                return error_hint(e, r, "Check its content, then run: chown root: %s", path);
        }
        if (st.st_mode & 0077) {
                r = error_set(e, -EPERM,
                              "%s is not read for credentials: others may read or write it (mode %04o)",
                              path, st.st_mode & 07777U);
                return error_hint(e, r, "Run: chmod 0600 %s; and change the secrets in it.", path);
        }
        return 1;
}

/* 0: nothing in it. */
static int read_secret_file(int dir_fd, const char *name, const char *path, size_t max, char **ret,
                            size_t *ret_size, Error *e)
{
        _cleanup_close_ int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

        if (fd < 0)
                return error_set_errno(e, errno, "Cannot read the credentials in %s", path);
        int r = secret_file_check(fd, path, e);
        if (r <= 0)
                return r;
        r = read_fd_bounded(fd, max, ret, ret_size);
        if (r < 0)
                return error_set_errno(e, r, "Cannot read the credentials in %s", path);
        return *ret_size > 0;
}

/* --- NAME.conf ----------------------------------------------------------------------------------------- */

typedef enum Key {
        KEY_NAME,
        KEY_USER,
        KEY_PASSWORD,
        KEY_PASSWORD_FILE,
        KEY_TOKEN,
        KEY_TOKEN_FILE,
        KEY_CERTIFICATE,
        KEY_KEY,
        _KEY_MAX,
        _KEY_INVALID = -EINVAL,
} Key;

static const char *const key_names[_KEY_MAX] = {
                [KEY_NAME] = "Name",
                [KEY_USER] = "User",
                [KEY_PASSWORD] = "Password",
                [KEY_PASSWORD_FILE] = "PasswordFile",
                [KEY_TOKEN] = "Token",
                [KEY_TOKEN_FILE] = "TokenFile",
                [KEY_CERTIFICATE] = "ClientCertificate",
                [KEY_KEY] = "ClientKey",
};

/* One section, with what can be said about it. */
typedef struct Section {
        Credentials *credentials;
        const char *path;
        size_t directory;
        unsigned line, begin; /* BEGIN 0: before the first section */
        char *values[_KEY_MAX];
        Error *error;
} Section;

static void section_clear(Section *s)
{
        for (size_t i = 0; i < _KEY_MAX; i++)
                s->values[i] = authorization_free(s->values[i]);
}

static int section_error(const Section *s, unsigned line, const char *why)
{
        int r = error_set(s->error, -EINVAL, "%s:%u: %s", s->path, line, why);
        return error_hint(s->error, r, "See acnspawn-auth.d(5).");
}

/* What is in the file at values[KEY] becomes the value of INTO, without the newline at its end. */
static int section_read_file(Section *s, Key key, Key into)
{
        _cleanup_(authorization_freep) char *content = NULL;
        size_t n = 0;

        if (!s->values[key])
                return 0;
        if (s->values[into])
                return section_error(s, s->begin, "a secret and a file with it cannot be given both");
        if (!path_is_absolute(s->values[key]))
                return section_error(s, s->begin, "the path of a file has to be absolute");
        int r = read_secret_file(AT_FDCWD, s->values[key], s->values[key], SECRET_FILE_MAX, &content, &n,
                                 s->error);
        if (r < 0)
                return r;
        if (r == 0)
                return section_error(s, s->begin, "the file with the secret is empty");
        if (n > 0 && content[n - 1] == '\n')
                content[--n] = 0;
        if (strlen(content) != n || strchr(content, '\n'))
                return section_error(s, s->begin, "the file with the secret has more than one line");
        s->values[into] = TAKE_PTR(content);
        return 0;
}

static int section_authorization(Section *s, Credential *c)
{
        char *const *v = s->values;
        int r;

        if (v[KEY_TOKEN] && (v[KEY_USER] || v[KEY_PASSWORD]))
                return section_error(s, s->begin, "'Token=' and 'User=' cannot be given both");
        if (!v[KEY_USER] != !v[KEY_PASSWORD])
                return section_error(s, s->begin, "'User=' and a password go together");
        if (!v[KEY_CERTIFICATE] && v[KEY_KEY])
                return section_error(s, s->begin, "'ClientKey=' needs 'ClientCertificate='");
        if (v[KEY_TOKEN])
                r = authorization_bearer(v[KEY_TOKEN], &c->authorization);
        else if (v[KEY_USER])
                r = authorization_basic(v[KEY_USER], v[KEY_PASSWORD], &c->authorization);
        else if (v[KEY_CERTIFICATE])
                r = 0;
        else
                return section_error(s, s->begin, "there are no credentials in this section");
        if (r == -EINVAL)
                return section_error(s, s->begin,
                                     "user, password or token have characters that they cannot have");
        return r < 0 ? error_oom(s->error) : 0;
}

/* libcurl reads it, but its permissions are checked here. */
static int section_check_key(const Section *s)
{
        const char *path = s->values[KEY_KEY] ?: s->values[KEY_CERTIFICATE];

        if (!path)
                return 0;
        if (!path_is_absolute(path) || !path_is_absolute(s->values[KEY_CERTIFICATE]))
                return section_error(s, s->begin, "the path of a file has to be absolute");
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (fd < 0)
                return error_set_errno(s->error, errno, "Cannot read the key in %s", path);
        int r = secret_file_check(fd, path, s->error);
        return r != 0 ? r : section_error(s, s->begin, "the file with the key is empty");
}

static int section_add(Section *s, const Credential *c)
{
        _cleanup_strv_free_ char **hosts = NULL;
        const char *host = "";

        int r = strv_split(s->values[KEY_NAME] ?: "", " \t", &hosts);
        if (r < 0)
                return error_oom(s->error);
        if (strv_length(hosts) == 0)
                return section_error(s, s->begin, "the section needs a 'Name=' of the host");
        r = credentials_add(s->credentials, c, s->path, hosts, &host);
        if (r == -ENOMEM)
                return error_oom(s->error);
        if (r >= 0)
                return 0;
        _cleanup_free_ char *shown = text_escape_for_terminal(host), *why = NULL;
        if (xasprintf(&why,
                      r == -EEXIST ? "there are credentials for '%s' in this directory already"
                                   : "'%s' is not a HOST or HOST:PORT",
                      shown ?: "?") < 0)
                return error_oom(s->error);
        return section_error(s, s->begin, why);
}

static int section_end(Section *s)
{
        _cleanup_(credential_done) Credential c = {.directory = s->directory};

        if (s->begin == 0)
                return 0;
        int r = section_read_file(s, KEY_PASSWORD_FILE, KEY_PASSWORD);
        if (r >= 0)
                r = section_read_file(s, KEY_TOKEN_FILE, KEY_TOKEN);
        if (r >= 0)
                r = section_authorization(s, &c);
        if (r >= 0)
                r = section_check_key(s);
        if (r < 0)
                return r;
        c.certificate = TAKE_PTR(s->values[KEY_CERTIFICATE]);
        c.key = TAKE_PTR(s->values[KEY_KEY]);
        return section_add(s, &c);
}

static Key key_from_string(const char *s)
{
        for (Key k = 0; k < _KEY_MAX; k++)
                if (streq(key_names[k], s))
                        return k;
        return _KEY_INVALID;
}

static char *strip(char *s)
{
        s += strspn(s, " \t\r");
        size_t n = strlen(s);
        while (n > 0 && strchr(" \t\r", s[n - 1]))
                n--;
        s[n] = 0;
        return s;
}

static int section_assign(Section *s, char *line)
{
        char *equals = strchr(line, '=');

        if (!equals)
                return section_error(s, s->line, "this is neither KEY=VALUE nor [Host]");
        if (s->begin == 0)
                return section_error(s, s->line, "a line [Host] has to come first");
        *equals = 0;
        Key k = key_from_string(strip(line));
        if (k < 0)
                return section_error(s, s->line, "this key is not known in [Host]");
        const char *value = strip(equals + 1);
        if (s->values[k] && k != KEY_NAME)
                return section_error(s, s->line, "this key is in the section already");
        if (!value[0])
                return section_error(s, s->line, "this key has no value");
        if (!s->values[k]) {
                s->values[k] = strdup(value);
                return s->values[k] ? 0 : error_oom(s->error);
        }
        char *both = NULL; /* names add up */
        if (xasprintf(&both, "%s %s", s->values[k], value) < 0)
                return error_oom(s->error);
        free(s->values[k]);
        s->values[k] = both;
        return 0;
}

static int section_line(Section *s, char *line)
{
        line = strip(line);
        if (!line[0] || line[0] == '#' || line[0] == ';')
                return 0;
        if (line[0] != '[')
                return section_assign(s, line);
        if (!streq(line, "[Host]"))
                return section_error(s, s->line, "this section is not known; there is only [Host]");
        int r = section_end(s);
        section_clear(s);
        s->begin = s->line;
        return r;
}

int credentials_parse_ini(Credentials *c, size_t directory, const char *path, const char *text, Error *e)
{
        Section s = {.credentials = c, .path = path, .directory = directory, .error = e};
        char *copy = strdup(text);
        size_t size = strlen(text);
        int r = 0;

        if (!copy)
                return error_oom(e);
        for (char *line = copy, *next = copy; r >= 0 && next; line = next) {
                next = strchr(line, '\n');
                if (next)
                        *next++ = 0;
                s.line++;
                r = section_line(&s, line);
        }
        if (r >= 0)
                r = section_end(&s);
        section_clear(&s);
        wipe(copy, size);
        free(copy);
        return r;
}

/* --- Directories --------------------------------------------------------------------------------------- */

static int load_file(Credentials *c, size_t directory, int dir_fd, const char *dir, const char *name,
                     Error *e)
{
        _cleanup_free_ char *path = NULL, *text = NULL;
        size_t size = 0;

        if (xasprintf(&path, "%s/auth.d/%s", dir, name) < 0)
                return error_oom(e);
        int r = read_secret_file(dir_fd, name, path, AUTH_FILE_MAX, &text, &size, e);
        if (r <= 0)
                return r;
        if (strlen(text) != size)
                r = error_set(e, -EINVAL, "%s is not text: there are NUL bytes in it", path);
        else if (endswith(name, ".json"))
                r = credentials_parse_json(c, directory, path, text, size, e);
        else
                r = credentials_parse_ini(c, directory, path, text, e);
        wipe(text, size);
        return r;
}

/* A user who can add files to it could redirect credentials. */
static int check_directory(int fd, const char *dir, Error *e)
{
        struct stat st;

        if (fstat(fd, &st) < 0)
                return error_set_errno(e, errno, "Cannot examine %s/auth.d", dir);
        if ((st.st_uid == 0 || st.st_uid == geteuid()) && !(st.st_mode & 0022))
                return 0;
        int r = error_set(e, -EPERM,
                          "%s/auth.d is not read for credentials: it can be written to by others (owner %u, "
                          "mode %04o)",
                          dir, (unsigned) st.st_uid, st.st_mode & 07777U);
        return error_hint(e, r, "Check its content, then run: chown root: %s/auth.d && chmod go-w %s/auth.d",
                          dir, dir);
}

/* SEEN: the names of the files of the stronger directories. */
static int load_directory(Credentials *c, size_t directory, const char *dir, char ***seen, Error *e)
{
        _cleanup_strv_free_ char **names = NULL;
        _cleanup_free_ char *path = NULL;

        if (xasprintf(&path, "%s/auth.d", dir) < 0)
                return error_oom(e);
        _cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return errno == ENOENT ? 0 : error_set_errno(e, errno, "Cannot read %s", path);
        int r = check_directory(fd, dir, e);
        if (r < 0)
                return r;
        r = list_names(fd, &names);
        if (r < 0)
                return error_set_errno(e, r, "Cannot read %s", path);
        if (strv_length(names) > AUTH_FILES_MAX)
                return error_set(e, -E2BIG, "There are more than %u files in %s", AUTH_FILES_MAX, path);
        strv_sort(names);
        STRV_FOREACH (name, names) {
                if ((*name)[0] == '.' || !(endswith(*name, ".conf") || endswith(*name, ".json")) ||
                    strv_contains(*seen, *name))
                        continue;
                r = strv_extend(seen, *name);
                if (r < 0)
                        return error_oom(e);
                r = load_file(c, directory, fd, dir, *name, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

int credentials_load(Credentials *c, const char *const *dirs, Error *e)
{
        _cleanup_strv_free_ char **seen = NULL;
        _cleanup_(credentials_done) Credentials l = {};

        for (size_t i = 0; dirs && dirs[i]; i++) {
                int r = load_directory(&l, i, dirs[i], &seen, e);
                if (r < 0)
                        return r;
        }
        l.loaded = true;
        credentials_done(c);
        *c = l;
        l = (Credentials){};
        return 0;
}
