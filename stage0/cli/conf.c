/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn.conf and its drop-ins, found as systemd finds its configuration files: the first directory that has
 * acnspawn.conf takes precedence, then the drop-ins of all directories in the order of their names, of which the
 * first directory takes precedence, too. Without any file that is two or three system calls for each directory.
 */

#include <sys/stat.h>

#include "basic/ini.h"
#include "config.h"
#include "stage0/cli/conf.h"

#define CONF_NAME "acnspawn.conf"
#define CONF_FILES_MAX 256U
#define CONF_WARNINGS_MAX 64U

#define APPS "prepare run add-app launch launch-group" /* the verbs that make apps of the command line */

const ConfKey conf_keys[N_CONF_KEYS] = {
                {"Store", "Directory", "dir", NULL, "", ACNSPAWN_STATEDIR},
                {"Image", "PullPolicy", "pull-policy", "update", APPS " update-app fetch", "new"},
                {"Image", "MinSpeed", "min-speed", NULL, APPS " update-app fetch update", "512"},
                {"Pod", "Network", "net", "network", "prepare run", "none"},
                {"Pod", "StopTimeout", "stop-timeout", NULL, "prepare run", "10s"},
                {"Pod", "Memory", "memory", NULL, "prepare run", "infinity"},
                {"Pod", "CPU", "cpu", NULL, "prepare run", "infinity"},
                {"Pod", "TasksMax", "tasks-max", NULL, "prepare run", "8192"},
                {"Pod", "DNS", "dns", NULL, "prepare run", "of the network"},
                {"Pod", "DNSSearch", "dns-search", NULL, "prepare run", "of the network"},
                {"Pod", "DNSOption", "dns-option", NULL, "prepare run", "of the network"},
                {"Pod", "HostsEntry", "hosts-entry", NULL, "prepare run", "none"},
                {"Pod", "ImagePolicy", "image-policy", NULL, "prepare run", "none"},
                {"App", "Memory", "memory", NULL, APPS, "infinity"},
                {"App", "CPU", "cpu", NULL, APPS, "infinity"},
                {"App", "CPUShares", "cpu-shares", NULL, APPS, "1024"},
                {"App", "TasksMax", "tasks-max", NULL, APPS, "2048"},
                {"App", "Log", "log", NULL, APPS, "auto"},
                {"App", "LogSize", "log-size", NULL, APPS, "a share of the journal"},
                {"App", "LogRate", "log-rate", NULL, APPS, "LogSize in an hour"},
                {"Run", "DetachKeys", "detach-keys", NULL, "run attach", "ctrl-],ctrl-],ctrl-]"},
                {"Run", "ReadyTimeout", "ready-timeout", NULL, "run", "infinity"},
};

void conf_done(Conf *c)
{
        for (size_t i = 0; i < N_CONF_KEYS; i++)
                free(c->values[i].value);
        strv_free(c->files);
        strv_free(c->warnings);
        *c = (Conf){};
}

/* --- What a file says ---------------------------------------------------------------------------------- */

typedef struct Reader {
        Conf *conf;
        const char *file;
        char section[32];    /* empty: before the first one */
        bool known, ignored; /* the section; IGNORED: without a warning for each of its lines */
} Reader;

static int warn(const char *what, unsigned line, Reader *x)
{
        Conf *c = x->conf;

        if (strv_length(c->warnings) >= CONF_WARNINGS_MAX)
                return 0;
        return strv_extendf(&c->warnings, "%s:%u: %s", x->file, line, what);
}

static int on_mistake(IniMistake what, unsigned line, void *userdata)
{
        return warn(ini_mistake_to_string(what), line, userdata);
}

static int warn_unknown(const char *what, const char *name, const char *near, unsigned line, Reader *x)
{
        _cleanup_free_ char *shown = text_escape_for_terminal(name), *text = NULL;

        if (!shown || xasprintf(&text, "%s '%.64s' is unknown, and ignored%s%s%s", what, shown,
                                near ? "; did you mean '" : "", near ?: "", near ? "'?" : "") < 0)
                return -ENOMEM;
        return warn(text, line, x);
}

static int take_section(const char *name, unsigned line, void *userdata)
{
        Reader *x = userdata;

        x->known = x->ignored = false;
        for (size_t i = 0; i < N_CONF_KEYS && !x->known; i++)
                x->known = streq(conf_keys[i].section, name);
        x->ignored = !x->known;
        snprintf(x->section, sizeof(x->section), "%s", name);
        if (x->known || startswith(name, "X-"))
                return 0;
        return warn_unknown("the section", name,
                            nearest_match(name, &conf_keys[0].section, N_CONF_KEYS, sizeof(ConfKey)), line,
                            x);
}

static int set_value(Reader *x, size_t key, const char *value, unsigned line)
{
        ConfValue *v = &x->conf->values[key];
        char *copy = *value ? strdup(value) : NULL; /* empty: as if it was not set */

        if (*value && !copy)
                return -ENOMEM;
        free(v->value);
        *v = (ConfValue){.value = copy, .file = x->file, .line = line};
        return 0;
}

static int take_assignment(const char *key, const char *value, unsigned line, void *userdata)
{
        Reader *x = userdata;

        if (x->ignored || startswith(key, "X-"))
                return 0;
        if (!x->known)
                return warn("the line belongs to no section, and is ignored", line, x);
        for (size_t i = 0; i < N_CONF_KEYS; i++)
                if (streq(conf_keys[i].section, x->section) && streq(conf_keys[i].key, key))
                        return set_value(x, i, value, line);
        return warn_unknown("the key", key,
                            nearest_match(key, &conf_keys[0].key, N_CONF_KEYS, sizeof(ConfKey)), line, x);
}

/* -ENOENT, without a message: there is none. */
static int read_file(Conf *c, const char *path, Error *e)
{
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        _cleanup_free_ char *text = NULL;
        struct stat st;
        size_t size = 0;

        if (fd < 0 && errno == ENOENT)
                return -ENOENT;
        int r = fd < 0 || fstat(fd, &st) < 0 ? -errno : 0;
        if (r >= 0 && S_ISCHR(st.st_mode)) /* a link to /dev/null masks the file below */
                return 0;
        if (r >= 0)
                r = S_ISREG(st.st_mode) ? read_fd_bounded(fd, CONF_FILE_MAX, &text, &size) : -EBADMSG;
        if (r == -EBADMSG)
                return error_set(e, r, "'%s' is not a regular file", path);
        if (r < 0)
                return error_set_errno(e, r, "Cannot read '%s'", path);
        if (strv_extend(&c->files, path) < 0)
                return error_oom(e);
        Reader x = {.conf = c, .file = c->files[strv_length(c->files) - 1]};
        const IniEvents events = {take_section, take_assignment, on_mistake, &x};
        return ini_parse(text, size, &events) < 0 ? error_oom(e) : 0;
}

/* --- Which files --------------------------------------------------------------------------------------- */

static int read_main(Conf *c, const char *const *dirs, Error *e)
{
        for (; *dirs; dirs++) {
                _cleanup_free_ char *path = NULL;

                if (xasprintf(&path, "%s/" CONF_NAME, *dirs) < 0)
                        return error_oom(e);
                int r = read_file(c, path, e);
                if (r != -ENOENT)
                        return r;
        }
        return 0;
}

/* The names in all directories, each once. */
static int list_drop_ins(const char *const *dirs, char ***ret, Error *e)
{
        _cleanup_strv_free_ char **l = NULL;

        for (; *dirs; dirs++) {
                _cleanup_strv_free_ char **names = NULL;
                _cleanup_free_ char *path = NULL;
                _cleanup_close_ int fd = -EBADF;

                if (xasprintf(&path, "%s/" CONF_NAME ".d", *dirs) < 0)
                        return error_oom(e);
                fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                if (fd < 0 && errno == ENOENT)
                        continue;
                int r = fd < 0 ? -errno : list_names(fd, &names);
                if (r < 0)
                        return error_set_errno(e, r, "Cannot read '%s'", path);
                STRV_FOREACH (name, names) {
                        if (**name == '.' || !endswith(*name, ".conf") || strv_contains(l, *name))
                                continue;
                        if (strv_length(l) >= CONF_FILES_MAX)
                                return error_set(e, -E2BIG, "There are more than %u files in '%s'",
                                                 CONF_FILES_MAX, path);
                        if (strv_extend(&l, *name) < 0)
                                return error_oom(e);
                }
        }
        if (l)
                strv_sort(l);
        *ret = TAKE_PTR(l);
        return 0;
}

static int read_drop_in(Conf *c, const char *const *dirs, const char *name, Error *e)
{
        for (; *dirs; dirs++) {
                _cleanup_free_ char *path = NULL;

                if (xasprintf(&path, "%s/" CONF_NAME ".d/%s", *dirs, name) < 0)
                        return error_oom(e);
                int r = read_file(c, path, e);
                if (r != -ENOENT)
                        return r;
        }
        return 0;
}

int conf_load(const char *config_dir, Conf *ret, Error *e)
{
        const char *usual[] = {ACNSPAWN_SYSCONFDIR, "/run/acnspawn", ACNSPAWN_LIBEXECDIR, NULL},
                   *only[] = {config_dir, NULL}, *const *dirs = isempty(config_dir) ? usual : only;
        _cleanup_(conf_done) Conf c = {};
        _cleanup_strv_free_ char **names = NULL;

        int r = read_main(&c, dirs, e);
        if (r >= 0)
                r = list_drop_ins(dirs, &names, e);
        for (char **n = names; r >= 0 && n && *n; n++)
                r = read_drop_in(&c, dirs, *n, e);
        if (r < 0)
                return r;
        *ret = c;
        c = (Conf){};
        return 0;
}

/* --- Values -------------------------------------------------------------------------------------------- */

static bool is_for(const ConfKey *k, const char *verb)
{
        const char *found = strstr(k->verbs, verb);
        size_t n = strlen(verb);

        return found && (found == k->verbs || found[-1] == ' ') && (!found[n] || found[n] == ' ');
}

static const Option *find_option(const OptionSet *set, const char *name)
{
        for (const Option *o = set->options; !option_is_end(o); o++)
                if (streq_ptr(o->name, name))
                        return o;
        return NULL;
}

/* An option that can be given several times is given once for each word. */
static int give_value(const Option *o, const char *value, void *target, Error *e)
{
        _cleanup_strv_free_ char **words = NULL;
        int r = 0;

        if (o->repeat != OPTION_WORDS)
                return o->handler(o, value, target, e);
        if (strv_split(value, " \t", &words) < 0)
                return error_oom(e);
        for (char **w = words; r >= 0 && w && *w; w++)
                r = o->handler(o, *w, target, e);
        return r;
}

static int apply_one(const ConfKey *k, const ConfValue *v, const OptionSet *set, Error *e)
{
        const Option *o = find_option(set, k->option);

        if (!o || option_was_given(set, k->option) || (k->other && option_was_given(set, k->other)))
                return 0;
        int r = give_value(o, v->value, (char *) set->data + o->offset, e);
        return r < 0 ? error_prefix(e, r, "%s:%u: %s=", v->file, v->line, k->key) : 0;
}

int conf_apply(const Conf *c, const char *verb, const char *section, const OptionSet *set, Error *e)
{
        for (size_t i = 0; i < N_CONF_KEYS; i++) {
                const ConfKey *k = &conf_keys[i];

                if (!c->values[i].value || !streq(k->section, section) || !is_for(k, verb))
                        continue;
                int r = apply_one(k, &c->values[i], set, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

bool conf_pulls_never(const Conf *c)
{
        return streq_ptr(c->values[1].value, "never");
}

int conf_store_directory(const Conf *c, const char **ret, Error *e)
{
        const ConfValue *v = &c->values[0];

        if (!v->value)
                return 0;
        if (!path_is_absolute(v->value))
                return error_set(e, -EINVAL, "%s:%u: Directory= must be an absolute path", v->file, v->line);
        *ret = v->value;
        return 0;
}

int conf_find_store(const char *config_dir, Conf *c, const char **dir, Error *e)
{
        if (*dir)
                return 0;
        int r = conf_load(config_dir, c, e);
        if (r >= 0)
                r = conf_store_directory(c, dir, e);
        if (r >= 0 && !*dir)
                *dir = ACNSPAWN_STATEDIR;
        return r;
}
