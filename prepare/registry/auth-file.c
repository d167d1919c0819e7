/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Credentials from the files that "podman login", "docker login" and others write:
 *
 *     {"auths": {"example.com:5000/team": {"auth": "base64 of user:password", "identitytoken": "…"}}}
 *
 * An entry is for a registry or for a namespace of it; of those that match a repository the longest is used.
 * If $REGISTRY_AUTH_FILE is set, only that file is read, otherwise the first default file with a matching
 * entry.
 *
 * Such files can also name programs that give the credentials (credential-helper.c): for a registry of its
 * own (credHelpers), which is asked before the file's own entry, or for all that have no entry (credsStore).
 * If a helper fails, a note is given and it is ignored: public images can be fetched without credentials.
 *
 * A file with an entry for a registry must not be writable by others, as it may name programs; one with a
 * password or a token must not be readable by others either. The same holds for auth.d.
 *
 * All data is wiped before it is freed, and no message contains any of it.
 */

#include <sys/stat.h>

#include "library/libcrypto.h"
#include "prepare/registry/registry-internal.h"
#include "prepare/transfer/transfer.h"

#define AUTH_FILE_SIZE_MAX (1024U * 1024U)
#define AUTH_LENGTH_MAX 65536U
#define HELPER_TIME_MAX_USEC (60 * 1000000ULL) /* a helper may have to ask the user to unlock its key ring */

static void free_secret(char *s)
{
        if (s)
                explicit_bzero(s, strlen(s));
        free(s);
}

static void free_secretp(char **s)
{
        free_secret(*s);
}

void registry_credentials_done(RegistryCredentials *c)
{
        free_secret(c->user);
        free_secret(c->password);
        free_secret(c->identity_token);
        free(c->origin);
        *c = (RegistryCredentials){};
}

static const char *get_string(json_object *o, const char *key)
{
        json_object *v;

        if (!json_object_object_get_ex(o, key, &v) || !json_object_is_type(v, json_type_string))
                return NULL;
        return isempty(json_object_get_string(v)) ? NULL : json_object_get_string(v);
}

static json_object *get_object(json_object *o, const char *key)
{
        json_object *v;

        return json_object_object_get_ex(o, key, &v) && json_object_is_type(v, json_type_object) ? v : NULL;
}

/* Frees the tree of a file; what its entries consist of is wiped first. */
static void file_freep(json_object **file)
{
        json_object *auths = *file ? get_object(*file, "auths") : NULL;

        if (auths) {
                json_object_object_foreach (auths, name, entry) {
                        (void) name;
                        if (!json_object_is_type(entry, json_type_object))
                                continue;
                        json_object_object_foreach (entry, key, value) {
                                (void) key;
                                if (json_object_is_type(value, json_type_string))
                                        explicit_bzero((char *) json_object_get_string(value),
                                                       (size_t) json_object_get_string_len(value));
                        }
                }
        }
        json_object_put(*file);
}

/* --- One entry ----------------------------------------------------------------------------------------- */

/* Base64 with its padding, of text without NUL. */
static int decode_base64(const char *s, char **ret)
{
        _cleanup_(free_secretp) char *text = NULL;
        size_t n = strlen(s), padding = endswith(s, "==") ? 2 : endswith(s, "=") ? 1 : 0;

        /* The decoder itself would ignore white space and accept padding anywhere. */
        if (n == 0 || n % 4 != 0 || n > AUTH_LENGTH_MAX || strcspn(s, "= \t\r\n") != n - padding)
                return -EINVAL;
        text = calloc(1, n / 4 * 3 + 1);
        if (!text)
                return -ENOMEM;
        int size = EVP_DecodeBlock((unsigned char *) text, (const unsigned char *) s, (int) n);
        if (size < 0 || (size_t) size < padding || strlen(text) != (size_t) size - padding)
                return -EINVAL;
        *ret = TAKE_PTR(text);
        return 0;
}

/* "user:password" into C. */
static int split_auth(const char *auth, RegistryCredentials *c)
{
        _cleanup_(free_secretp) char *text = NULL;

        int r = decode_base64(auth, &text);
        if (r < 0)
                return r;
        char *colon = strchr(text, ':');
        if (!colon || colon == text)
                return -EINVAL;
        *colon = 0;
        c->user = strdup(text);
        c->password = strdup(colon + 1);
        *colon = ':'; /* so that all of it is wiped */
        return c->user && c->password ? 0 : -ENOMEM;
}

int registry_auth_decode(const char *auth, char **ret_user, char **ret_password, Error *e)
{
        _cleanup_(registry_credentials_done) RegistryCredentials c = {};
        int r = library_load(&crypto_library, e);

        if (r < 0)
                return r;
        r = split_auth(auth, &c);
        if (r < 0)
                return r == -ENOMEM ? error_oom(e)
                                    : error_set(e, r, "\"auth\" is not a user and a password in Base64");
        *ret_user = TAKE_PTR(c.user);
        *ret_password = TAKE_PTR(c.password);
        return 0;
}

static int read_entry(json_object *entry, RegistryCredentials *c)
{
        const char *auth = get_string(entry, "auth"), *token = get_string(entry, "identitytoken"),
                   *user = get_string(entry, "username"), *password = get_string(entry, "password");
        int r = 0;

        if (auth)
                r = split_auth(auth, c);
        else if (user && password) {
                c->user = strdup(user);
                c->password = strdup(password);
                r = c->user && c->password ? 0 : -ENOMEM;
        } else if (!token)
                return 0; /* an empty entry, left after a logout or for a helper */
        if (r < 0)
                return r;
        if (token) {
                c->identity_token = strdup(token);
                if (!c->identity_token)
                        return -ENOMEM;
        }
        return 1;
}

/* --- Entries ------------------------------------------------------------------------------------------- */

/* How specifically the KEY of an entry matches NAME, "host[:port]/repository": its length, 0 if it does not
 * match. Docker writes keys that are URLs, of which only the host counts. */
static size_t match_key(const char *key, const char *name)
{
        const char *rest = startswith(key, "https://") ?: startswith(key, "http://");
        size_t n = rest ? strcspn(rest, "/") : strlen(key);

        key = rest ?: key;
        while (n > 0 && key[n - 1] == '/')
                n--;
        size_t host = strcspn(key, "/");
        host = MIN(host, n);
        if (n == 0 || strlen(name) < n || strncasecmp(key, name, host) != 0 ||
            memcmp(key + host, name + host, n - host) != 0)
                return 0;
        return name[n] == '/' || name[n] == 0 ? n : 0;
}

static json_object *find_entry(json_object *table, const char *name, const char **ret_key)
{
        json_object *best = NULL;
        size_t best_length = 0;

        json_object_object_foreach (table, key, value) {
                size_t length = match_key(key, name);
                if (length <= best_length)
                        continue;
                best = value;
                best_length = length;
                *ret_key = key;
        }
        return best;
}

void credential_helper_done(CredentialHelper *h)
{
        free(h->name);
        free(h->server);
        *h = (CredentialHelper){};
}

/* Of one registry, or if there is NO_ENTRY, of all. Helpers know registries by the name that "login" wrote:
 * KEY, or else the host. */
static int copy_helper(json_object *file, const char *name, const char *key, bool no_entry,
                       CredentialHelper *ret)
{
        json_object *helpers = get_object(file, "credHelpers"), *found = NULL;
        const char *helper = NULL, *of_helper;

        if (helpers)
                found = find_entry(helpers, name, &of_helper);
        if (found && json_object_is_type(found, json_type_string))
                helper = json_object_get_string(found);
        else if (no_entry)
                helper = get_string(file, "credsStore");
        if (isempty(helper))
                return 0;
        ret->name = strdup(helper);
        ret->server = key ? strdup(key) : strndup(name, strcspn(name, "/"));
        return ret->name && ret->server ? 0 : -ENOMEM;
}

/* FILE, read, for NAME. */
static int find_in_tree(json_object *file, const char *what, const char *name, RegistryCredentials *c,
                        CredentialHelper *ret_helper, Error *e)
{
        json_object *auths, *entry = NULL;
        const char *key = NULL;

        if (!json_object_is_type(file, json_type_object))
                return error_set(e, -EINVAL, "%s is not a file of credentials: it is not a JSON object",
                                 what);
        auths = get_object(file, "auths");
        if (auths)
                entry = find_entry(auths, name, &key);
        int r = entry && json_object_is_type(entry, json_type_object) ? read_entry(entry, c) : 0;
        if (r >= 0 && copy_helper(file, name, key, r == 0, ret_helper) < 0)
                r = -ENOMEM;
        if (r == -ENOMEM)
                return error_oom(e);
        if (r < 0) {
                _cleanup_free_ char *shown = text_escape_for_terminal(key);
                return error_set(e, r,
                                 "%s: the entry for '%s' has an 'auth' that is not base64 of "
                                 "user:password",
                                 what, shown ?: "?");
        }
        return r;
}

int auth_file_find(const char *text, size_t size, const char *what, const char *host, const char *repository,
                   RegistryCredentials *ret, CredentialHelper *ret_helper, Error *e)
{
        _cleanup_(registry_credentials_done) RegistryCredentials c = {};
        _cleanup_(credential_helper_done) CredentialHelper helper = {};
        _cleanup_(file_freep) json_object *file = NULL;
        _cleanup_free_ char *name = NULL;
        _cleanup_error_ Error why = ERROR_NULL;

        int r = library_load(&crypto_library, e); /* decodes base64 */
        if (r < 0)
                return r;
        r = json_parse_strict(text, size, &file, NULL, &why);
        if (r < 0)
                return error_set(e, r, "%s is not a file of credentials: %s", what,
                                 why.message ?: strerror(-r));
        if (xasprintf(&name, "%s/%s", host, repository) < 0)
                return error_oom(e);
        r = find_in_tree(file, what, name, &c, &helper, e);
        if (r < 0)
                return r;
        if (r > 0) {
                c.origin = strdup(what);
                if (!c.origin)
                        return error_oom(e);
                *ret = c;
                c = (RegistryCredentials){};
        }
        *ret_helper = TAKE_GENERIC(helper, CredentialHelper, (CredentialHelper){});
        return r;
}

/* --- The files of this host ---------------------------------------------------------------------------- */

/* 1: it has credentials, which replace what C has. */
static int ask_helper(const CredentialHelper *h, const char *path, const Operation *o, const Notes *n,
                      RegistryCredentials *c, Error *e)
{
        _cleanup_(registry_credentials_done) RegistryCredentials given = {};
        _cleanup_error_ Error why = ERROR_NULL;

        int r = credential_helper_ask(h->name, h->server, HELPER_TIME_MAX_USEC, o, &given, &why);
        if (r == -ENOMEM)
                return error_oom(e);
        if (operation_ended(r))
                return error_set(e, r, "%s", why.message ?: "Interrupted");
        if (r < 0) {
                _cleanup_free_ char *name = text_escape_for_terminal(h->name),
                                    *server = text_escape_for_terminal(h->server);
                notes_add(n, "No credentials for '%s' come from the helper '%s', which %s names: %s",
                          server ?: "?", name ?: "?", path, why.message ?: strerror(-r));
                return 0;
        }
        if (r == 0)
                return 0;
        given.origin = strdup(path);
        if (!given.origin)
                return error_oom(e);
        registry_credentials_done(c);
        *c = TAKE_GENERIC(given, RegistryCredentials, (RegistryCredentials){});
        return 1;
}

/* SECRET: it contains data that others must not read. */
static int check_file(int fd, const char *path, bool secret, Error *e)
{
        struct stat st;

        if (fstat(fd, &st) < 0)
                return error_set_errno(e, errno, "Cannot examine %s", path);
        if (!secret && (st.st_uid == 0 || st.st_uid == geteuid()) && !(st.st_mode & 0022))
                return 0;
        int r = secret_file_check(fd, path, e);
        return r < 0 ? r : 0;
}

static int find_in_file(const char *path, bool needed, const char *host, const char *repository,
                        const Operation *o, const Notes *n, RegistryCredentials *ret, Error *e)
{
        _cleanup_(registry_credentials_done) RegistryCredentials c = {};
        _cleanup_(credential_helper_done) CredentialHelper helper = {};
        _cleanup_free_ char *text = NULL;
        size_t size = 0;

        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (fd < 0 && (errno == ENOENT || errno == ENOTDIR) && !needed)
                return 0;
        int r = fd < 0 ? -errno : read_fd_bounded(fd, AUTH_FILE_SIZE_MAX, &text, &size);
        if (r < 0)
                return error_set_errno(e, r, "Cannot read the credentials in %s", path);
        r = auth_file_find(text, size, path, host, repository, &c, &helper, e);
        explicit_bzero(text, size);
        if (r > 0 || (r == 0 && helper.name)) {
                int k = check_file(fd, path, r > 0, e);
                r = k < 0 ? k : r;
        }
        if (r >= 0 && helper.name) {
                int k = ask_helper(&helper, path, o, n, &c, e);
                r = k != 0 ? k : r;
        }
        if (r > 0)
                *ret = TAKE_GENERIC(c, RegistryCredentials, (RegistryCredentials){});
        return r;
}

/* BASE may be NULL: there is no such file. */
static int find_below(const char *base, const char *name, const char *host, const char *repository,
                      const Operation *o, const Notes *n, RegistryCredentials *ret, Error *e)
{
        _cleanup_free_ char *path = NULL;

        if (isempty(base) || !path_is_absolute(base))
                return 0;
        if (xasprintf(&path, "%s/%s", base, name) < 0)
                return error_oom(e);
        return find_in_file(path, false, host, repository, o, n, ret, e);
}

int registry_credentials_find(const char *host, const char *repository, const Operation *o, const Notes *n,
                              RegistryCredentials *ret, Error *e)
{
        const char *chosen = secure_getenv("REGISTRY_AUTH_FILE"), *home = secure_getenv("HOME"),
                   *config = secure_getenv("XDG_CONFIG_HOME"), *docker = secure_getenv("DOCKER_CONFIG");
        char runtime[64];

        if (!isempty(chosen))
                return find_in_file(chosen, true, host, repository, o, n, ret, e);
        snprintf(runtime, sizeof(runtime), "/run/containers/%u", getuid());
        const struct {
                const char *base, *name;
        } files[] = {
                        {secure_getenv("XDG_RUNTIME_DIR"), "containers/auth.json"},
                        {runtime, "auth.json"},
                        {isempty(config) ? home : config,
                         isempty(config) ? ".config/containers/auth.json" : "containers/auth.json"},
                        {isempty(docker) ? home : docker,
                         isempty(docker) ? ".docker/config.json" : "config.json"},
                        {"/etc/containers", "auth.json"},
        };
        for (size_t i = 0; i < ELEMENTSOF(files); i++) {
                int r = find_below(files[i].base, files[i].name, host, repository, o, n, ret, e);
                if (r != 0)
                        return r;
        }
        return 0;
}
