/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Locations of images according to registries.conf: the file that podman, CRI-O, buildah and skopeo also
 * read, so that a host is configured once. Read are $CONTAINERS_REGISTRIES_CONF or
 * /etc/containers/registries.conf, then the files NAME.conf of the directory beside it with ".d" at its end,
 * then those of registries.d of our own configuration. What a later file says of a prefix, an alias or the
 * search list replaces what an earlier one says.
 *
 * Unknown keys are reported, not ignored silently: a host that blocks registries in an unsupported form must
 * not believe them blocked.
 */

#include "prepare/registry/registry-internal.h"

#define FILES_MAX 256U
#define RULES_MAX 4096U

void notes_add(const Notes *n, const char *format, ...)
{
        _cleanup_free_ char *line = NULL;
        va_list ap;

        if (!n || !n->note)
                return;
        va_start(ap, format);
        (void) xvasprintf(&line, format, ap);
        va_end(ap);
        if (line)
                n->note(line, n->userdata);
}

static void mirror_done(RegistryMirror *m)
{
        free(m->location);
        *m = (RegistryMirror){};
}

static void rule_done(RegistryRule *r)
{
        free(r->prefix);
        free(r->location);
        free(r->file);
        for (size_t i = 0; i < r->n_mirrors; i++)
                mirror_done(r->mirrors + i);
        free(r->mirrors);
        *r = (RegistryRule){};
}

void registries_conf_done(RegistriesConf *c)
{
        strv_free(c->search);
        for (size_t i = 0; i < c->n_rules; i++)
                rule_done(c->rules + i);
        free(c->rules);
        pair_list_done(&c->aliases);
        *c = (RegistriesConf){};
}

/* --- Tables of keys ------------------------------------------------------------------------------------ */

/* The position in the file, for messages, and the receiver of notes. */
typedef struct Source {
        const char *file;
        const char *table; /* "", "[[registry]] 2: " */
        RegistriesConf *conf;
        const Notes *notes;
        Error *e;
} Source;

/* Values go to TARGET, a structure that depends on the table. */
typedef struct Key {
        const char *name;
        int (*read)(const Source *s, const struct Key *k, json_object *value, void *target);
        size_t offset;
} Key;

static int wrong_type(const Source *s, const char *key, const char *expected)
{
        return error_set(s->e, -EINVAL, "%s: %s'%s' is not %s", s->file, s->table, key, expected);
}

static int read_bool(const Source *s, const Key *k, json_object *v, void *target)
{
        if (!json_object_is_type(v, json_type_boolean))
                return wrong_type(s, k->name, "true or false");
        *(bool *) ((char *) target + k->offset) = json_object_get_boolean(v);
        return 0;
}

/* Locations: checked by what reads references. Empty is as good as absent. */
static int read_location(const Source *s, const Key *k, json_object *v, void *target)
{
        _cleanup_free_ char *host = NULL, *path = NULL;
        _cleanup_error_ Error why = ERROR_NULL;
        char **place = (char **) ((char *) target + k->offset);

        if (!json_object_is_type(v, json_type_string))
                return wrong_type(s, k->name, "a string");
        const char *text = json_object_get_string(v), *wild = startswith(text, "*.");
        if (text[0] == 0)
                return 0;
        /* Only prefixes may have wildcards. */
        if (streq(k->name, "prefix") && wild && strchr(wild, '/'))
                return error_set(s->e, -EINVAL, "%s: %s'*' in '%s' may only stand for hosts, without a path",
                                 s->file, s->table, text);
        int r = registry_location_parse(streq(k->name, "prefix") && wild ? wild : text, &host, &path, &why);
        if (r < 0)
                return error_set(s->e, r, "%s: %s'%s' is '%s', which is not a location of a registry: %s",
                                 s->file, s->table, k->name, text, why.message ?: strerror(-r));
        r = xasprintf(place, "%s%s%s%s", text != wild && streq(k->name, "prefix") && wild ? "*." : "", host,
                      path ? "/" : "", path ?: "");
        return r < 0 ? error_oom(s->e) : 0;
}

static int read_pull_from(const Source *s, const Key *k, json_object *v, void *target)
{
        static const char *const words[_PULL_FROM_MAX] = {"all", "digest-only", "tag-only"};

        for (PullFrom i = 0; i < _PULL_FROM_MAX && json_object_is_type(v, json_type_string); i++)
                if (streq(json_object_get_string(v), words[i])) {
                        ((RegistryMirror *) target)->pull_from = i;
                        return 0;
                }
        return wrong_type(s, k->name, "\"all\", \"digest-only\" or \"tag-only\"");
}

/* Reads TABLE by KEYS. Other keys are reported. */
static int read_table(const Source *s, json_object *table, const Key *keys, size_t n_keys, void *target)
{
        if (!json_object_is_type(table, json_type_object))
                return error_set(s->e, -EINVAL, "%s: %snot a table", s->file, s->table);
        json_object_object_foreach (table, name, value) {
                size_t i = 0;

                while (i < n_keys && !streq(keys[i].name, name))
                        i++;
                if (i == n_keys) {
                        _cleanup_free_ char *shown = text_escape_for_terminal(name);
                        notes_add(s->notes, "%s: %s'%s' is not used", s->file, s->table, shown ?: "?");
                        continue;
                }
                int r = keys[i].read(s, keys + i, value, target);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* --- [[registry]] -------------------------------------------------------------------------------------- */

static int read_mirror(const Source *s, json_object *v, RegistryRule *rule)
{
        static const Key keys[] = {
                        {"location", read_location, offsetof(RegistryMirror, location)},
                        {"insecure", read_bool, offsetof(RegistryMirror, insecure)},
                        {"pull-from-mirror", read_pull_from, 0},
        };

        if (GREEDY_REALLOC(rule->mirrors, rule->mirrors_allocated, rule->n_mirrors + 1) < 0)
                return error_oom(s->e);
        RegistryMirror *m = rule->mirrors + rule->n_mirrors++;
        *m = (RegistryMirror){};
        int r = read_table(s, v, keys, ELEMENTSOF(keys), m);
        if (r >= 0 && !m->location)
                return error_set(s->e, -EINVAL, "%s: %sa mirror has no 'location'", s->file, s->table);
        return r;
}

static int read_mirrors(const Source *s, const Key *k, json_object *v, void *target)
{
        if (!json_object_is_type(v, json_type_array))
                return wrong_type(s, k->name, "an array of tables");
        for (size_t i = 0; i < json_object_array_length(v); i++) {
                int r = read_mirror(s, json_object_array_get_idx(v, i), target);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int finish_rule(const Source *s, RegistryRule *rule)
{
        if (!rule->prefix && !rule->location)
                return error_set(s->e, -EINVAL, "%s: %sneither 'prefix' nor 'location' is given", s->file,
                                 s->table);
        if (!rule->prefix) {
                rule->prefix = strdup(rule->location);
                if (!rule->prefix)
                        return error_oom(s->e);
        }
        rule->file = strdup(s->file);
        return rule->file ? 0 : error_oom(s->e);
}

/* Puts RULE, whose content is taken, in the place of one with its prefix, or at the end. */
static int put_rule(const Source *s, RegistryRule *rule)
{
        RegistriesConf *c = s->conf;

        for (size_t i = 0; i < c->n_rules; i++) {
                if (!streq(c->rules[i].prefix, rule->prefix))
                        continue;
                if (streq(c->rules[i].file, rule->file))
                        return error_set(s->e, -EINVAL, "%s: '%s' has two [[registry]] tables", s->file,
                                         rule->prefix);
                rule_done(c->rules + i);
                c->rules[i] = *rule;
                *rule = (RegistryRule){};
                return 0;
        }
        if (c->n_rules == RULES_MAX)
                return error_set(s->e, -E2BIG, "%s: there are more than %u registries", s->file, RULES_MAX);
        if (GREEDY_REALLOC(c->rules, c->rules_allocated, c->n_rules + 1) < 0)
                return error_oom(s->e);
        c->rules[c->n_rules++] = *rule;
        *rule = (RegistryRule){};
        return 0;
}

static int read_registry(const Source *s, json_object *v)
{
        static const Key keys[] = {
                        {"prefix", read_location, offsetof(RegistryRule, prefix)},
                        {"location", read_location, offsetof(RegistryRule, location)},
                        {"insecure", read_bool, offsetof(RegistryRule, insecure)},
                        {"blocked", read_bool, offsetof(RegistryRule, blocked)},
                        {"mirror-by-digest-only", read_bool, offsetof(RegistryRule, mirror_by_digest_only)},
                        {"mirror", read_mirrors, 0},
        };
        _cleanup_(rule_done) RegistryRule rule = {};

        int r = read_table(s, v, keys, ELEMENTSOF(keys), &rule);
        if (r >= 0)
                r = finish_rule(s, &rule);
        return r < 0 ? r : put_rule(s, &rule);
}

static int read_registries(const Source *s, const Key *k, json_object *v, void *target)
{
        if (!json_object_is_type(v, json_type_array))
                return wrong_type(s, k->name, "an array of tables");
        for (size_t i = 0; i < json_object_array_length(v); i++) {
                char table[64];
                Source inside = *s;

                snprintf(table, sizeof(table), "[[registry]] number %zu: ", i + 1);
                inside.table = table;
                int r = read_registry(&inside, json_object_array_get_idx(v, i));
                if (r < 0)
                        return r;
        }
        return 0;
}

/* --- The rest of the file ------------------------------------------------------------------------------ */

static int read_search(const Source *s, const Key *k, json_object *v, void *target)
{
        _cleanup_strv_free_ char **list = NULL;

        if (!json_object_is_type(v, json_type_array))
                return wrong_type(s, k->name, "an array of strings");
        for (size_t i = 0; i < json_object_array_length(v); i++) {
                json_object *item = json_object_array_get_idx(v, i);
                _cleanup_free_ char *host = NULL, *path = NULL;

                if (!json_object_is_type(item, json_type_string))
                        return wrong_type(s, k->name, "an array of strings");
                int r = registry_location_parse(json_object_get_string(item), &host, &path, s->e);
                if (r < 0)
                        return error_prefix(s->e, r, "%s: '%s'", s->file, k->name);
                /* A reference that was completed has to mean the same when it is read again. */
                if (!registry_is_host(host))
                        return error_set(s->e, -EINVAL,
                                         "%s: '%s' has '%s', which without a dot or a port cannot be told "
                                         "from a repository",
                                         s->file, k->name, host);
                r = path ? strv_extendf(&list, "%s/%s", host, path) : strv_extend(&list, host);
                if (r < 0)
                        return error_oom(s->e);
        }
        strv_free(s->conf->search);
        s->conf->search = TAKE_PTR(list);
        return 0;
}

static int read_aliases(const Source *s, const Key *k, json_object *v, void *target)
{
        if (!json_object_is_type(v, json_type_object))
                return wrong_type(s, k->name, "a table");
        json_object_object_foreach (v, name, value) {
                _cleanup_(registry_reference_done) RegistryReference r = {};

                if (!json_object_is_type(value, json_type_string))
                        return wrong_type(s, name, "a string");
                const char *text = json_object_get_string(value);
                /* Empty takes an alias of an earlier file back. */
                int q = text[0] ? registry_reference_parse(text, &r, s->e) : 0;
                if (q < 0)
                        return error_prefix(s->e, q, "%s: the alias '%s'", s->file, name);
                if (text[0] && (!r.registry || r.tag || r.digest))
                        return error_set(s->e, -EINVAL,
                                         "%s: the alias '%s' is for '%s', which is not a registry and a "
                                         "repository without tag",
                                         s->file, name, text);
                if (pair_list_set(&s->conf->aliases, name, text) < 0)
                        return error_oom(s->e);
        }
        return 0;
}

/* Ambiguous short names are always refused, so this has no effect. */
static int read_short_name_mode(const Source *s, const Key *k, json_object *v, void *target)
{
        return json_object_is_type(v, json_type_string) ? 0 : wrong_type(s, k->name, "a string");
}

static int read_old_form(const Source *s, const Key *k, json_object *v, void *target)
{
        int r = error_set(s->e, -EINVAL, "%s is in the first form of such files, with a table 'registries'",
                          s->file);
        return error_hint(s->e, r,
                          "Write it in the second form: unqualified-search-registries = […], and for each "
                          "registry that is blocked or insecure a table [[registry]].");
}

/* Strings may have control characters by their escapes, and messages have such strings. */
static int show_error(const Error *why, int code, Error *e)
{
        _cleanup_free_ char *shown = text_escape_for_terminal(why->message ?: strerror(-code));

        if (!shown)
                return error_oom(e);
        code = error_set(e, code, "%s", shown);
        return why->hint ? error_hint(e, code, "%s", why->hint) : code;
}

int registries_conf_add(RegistriesConf *c, const char *text, size_t size, const char *what, const Notes *n,
                        Error *e)
{
        static const Key keys[] = {
                        {"unqualified-search-registries", read_search, 0},
                        {"short-name-mode", read_short_name_mode, 0},
                        {"registry", read_registries, 0},
                        {"aliases", read_aliases, 0},
                        {"registries", read_old_form, 0},
        };
        _cleanup_json_ json_object *root = NULL;
        _cleanup_error_ Error why = ERROR_NULL;
        Source s = {.file = what, .table = "", .conf = c, .notes = n, .e = &why};

        int r = toml_parse(text, size, what, &root, &why);
        if (r >= 0)
                r = read_table(&s, root, keys, ELEMENTSOF(keys), NULL);
        return r < 0 ? show_error(&why, r, e) : 0;
}

/* --- Files --------------------------------------------------------------------------------------------- */

static int add_file(RegistriesConf *c, const char *path, bool needed, const Notes *n, Error *e)
{
        _cleanup_free_ char *text = NULL;
        size_t size;

        int r = read_file_at(AT_FDCWD, path, TOML_SIZE_MAX, &text, &size);
        if (r == -ENOENT && !needed)
                return 0;
        if (r < 0)
                return error_set_errno(e, r, "Cannot read %s", path);
        return registries_conf_add(c, text, size, path, n, e);
}

/* All NAME.conf of a directory, by name. */
static int add_directory(RegistriesConf *c, const char *path, const Notes *n, Error *e)
{
        _cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_strv_free_ char **names = NULL;
        size_t n_files = 0;

        if (fd < 0)
                return errno == ENOENT ? 0 : error_set_errno(e, -errno, "Cannot open %s", path);
        int r = list_names(fd, &names);
        if (r < 0)
                return error_set_errno(e, r, "Cannot list %s", path);
        strv_sort(names);
        STRV_FOREACH (name, names) {
                _cleanup_free_ char *file = NULL;

                if (!endswith(*name, ".conf") || (*name)[0] == '.')
                        continue;
                if (n_files++ == FILES_MAX)
                        return error_set(e, -E2BIG, "%s has more than %u files", path, FILES_MAX);
                if (xasprintf(&file, "%s/%s", path, *name) < 0)
                        return error_oom(e);
                r = add_file(c, file, true, n, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int add_directory_beside(RegistriesConf *c, const char *base, const char *suffix, const Notes *n,
                                Error *e)
{
        _cleanup_free_ char *path = NULL;

        if (xasprintf(&path, "%s%s", base, suffix) < 0)
                return error_oom(e);
        return add_directory(c, path, n, e);
}

int registries_conf_load(const char *const *config_dirs, const Notes *n, RegistriesConf *ret, Error *e)
{
        const char *const *dirs = config_dirs ?: usual_config_dirs;
        _cleanup_(registries_conf_done) RegistriesConf c = {};
        const char *chosen = secure_getenv("CONTAINERS_REGISTRIES_CONF");
        const char *file = isempty(chosen) ? "/etc/containers/registries.conf" : chosen;

        int r = add_file(&c, file, !isempty(chosen), n, e);
        if (r >= 0)
                r = add_directory_beside(&c, file, ".d", n, e);
        /* The strongest last. */
        for (size_t i = strv_length((char *const *) dirs); r >= 0 && i > 0; i--)
                r = add_directory_beside(&c, dirs[i - 1], "/registries.d", n, e);
        if (r < 0 && (!e || e->hint))
                return r;
        if (r < 0)
                return error_hint(e, r, "See containers-registries.conf(5) and acnspawn-registries(5).");
        *ret = c;
        c = (RegistriesConf){};
        return 0;
}
