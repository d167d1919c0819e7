/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* From a .pod file to the same structures that the command line of prepare and run fills in.
 *
 * The keys are those of the options' tables, so that whatever an option can say a file can say, and a value is
 * checked by the option's own handler, whose message names the key then. A mistake does not end it: all of them
 * are findings with file and line. */

#include "schema/settings.h"
#include "stage0/arguments/pod-declared.h"
#include "stage0/arguments/pod-values.h"

/* Far more than the number of changes of a pod. */
#define FIND_TRIES 64

/* --- Keys ---------------------------------------------------------------------------------------------- */

/* Words that systemd does not write with one capital. */
static const char *const key_words[] = {"AppArmor", "CPU",     "DNS", "GIDs", "IOPS",
                                        "OOM",      "SELinux", "TTY", "UUID"};

static void add_key_word(char **to, const char *end, const char *word, size_t n)
{
        for (size_t i = 0; i < ELEMENTSOF(key_words); i++)
                if (strlen(key_words[i]) == n && strncasecmp(key_words[i], word, n) == 0)
                        word = key_words[i];
        for (size_t i = 0; i < n && *to < end; i++)
                *(*to)++ = i == 0 ? to_upper(word[i]) : word[i];
}

void option_key(const Option *o, char ret[static KEY_MAX])
{
        char *to = ret;

        for (const char *s = o->name; *s;) {
                size_t n = strcspn(s, "-");
                add_key_word(&to, ret + KEY_MAX - 1, s, n);
                s += n + (s[n] == '-');
        }
        *to = 0;
}

static int option_argument(const Option *o, const char *value, void *target, Error *e)
{
        return strv_extend(target, value) < 0 ? error_oom(e) : 0;
}

static int option_reference(const Option *o, const char *value, void *target, Error *e)
{
        _cleanup_reference_ Reference x = {};

        if (isempty(value))
                return option_invalid(o, value, e, "must not be empty");
        if (reference_parse(value, &x, NULL) >= 0) {
                bool is_path = x.kind == REFERENCE_FILE || x.kind == REFERENCE_OCI ||
                               x.kind == REFERENCE_DOCKER_ARCHIVE || x.kind == REFERENCE_OCI_ARCHIVE;
                if (x.kind == REFERENCE_STANDARD_INPUT)
                        return option_invalid(o, value, e,
                                              "an image cannot be read from standard input here");
                if (is_path && !path_is_absolute(x.body))
                        return option_invalid(o, value, e, "the path of a file must be absolute");
        }
        return option_copy(o, value, target, e);
}

/* What is not an option on the command line, but a word. */
static const Option word_options[] = {
                {NULL, "image", 0, "IMAGE", false, "The image", "image", option_reference,
                 offsetof(AppOverrides, reference)},
                {NULL, "arguments", 0, "WORD…", false, "Arguments of the app", NULL, option_argument,
                 offsetof(AppOverrides, args), OPTION_WORDS},
                OPTION_END,
};

const Option *const declared_options[_KEY_SECTION_MAX][4] = {
                [KEY_IN_POD] = {pod_options, image_options, run_options},
                [KEY_IN_APP] = {app_options, word_options},
};

static const struct {
        const char *option, *reason;
} excluded[] = {
                {"name", "the name of the file is the pod's, that of the section the app's"},
                {"interactive", "there is no terminal; Input= of an app says what its standard input is"},
                {"replace", "is for the command line, where the pod is run"},
                {"declared", "is for the command line, where the pod is run"},
                {"service", "is for the command line, where the pod is run"},
                {"detach", "is for the command line, where the pod is run"},
                {"detach-keys", "is for the command line, where the pod is run"},
                {"images", "is for the command line, where the pod is run"},
                {"apps", "is for the command line, where the pod is run"},
                {"raw", "is for the command line, where the pod is run"},
                {"keep-unit", "is for the command line, where the pod is run"},
                {"executor", "is ExitPolicy=tasks"},
};

const char *declared_excluded(KeySection section, const Option *o)
{
        for (size_t i = 0; i < ELEMENTSOF(excluded); i++)
                if (streq(o->name, excluded[i].option))
                        return excluded[i].reason;
        return NULL;
}

/* --- One setting --------------------------------------------------------------------------------------- */

typedef struct Applier {
        Declared *declared;
        PodArguments *arguments;
        RunArguments *own;
        Error *error;
        char **keys[_KEY_SECTION_MAX]; /* all, for hints */
} Applier;

/* A handler's error about setting S. */
static int refuse(Applier *x, const DeclaredSetting *s, Error *reason)
{
        int r = reason->code == -ENOMEM ? -ENOMEM
                                        : declared_add_finding(x->declared, &s->place, true, reason->hint,
                                                               "%s", reason->message ?: "not valid");

        return r < 0 ? error_oom(x->error) : 0;
}

static int _printf_(4, 5) find(Applier *x, const DeclaredSetting *s, bool error, const char *format, ...)
{
        _cleanup_free_ char *text = NULL;
        va_list ap;

        va_start(ap, format);
        int r = xvasprintf(&text, format, ap);
        va_end(ap);
        if (r < 0)
                return error_oom(x->error);
        r = declared_add_finding(x->declared, &s->place, error, NULL, "%s=: %s", s->key, text);
        return r < 0 ? error_oom(x->error) : 0;
}

static const Option *find_key(KeySection section, const char *key, size_t *ret_table)
{
        for (size_t t = 0; declared_options[section][t]; t++)
                for (const Option *o = declared_options[section][t]; !option_is_end(o); o++) {
                        char its[KEY_MAX];

                        if (!o->name)
                                continue;
                        option_key(o, its);
                        if (streq(its, key)) {
                                *ret_table = t;
                                return o;
                        }
                }
        return NULL;
}

static int list_keys(KeySection section, char ***ret)
{
        for (size_t t = 0; declared_options[section][t]; t++)
                for (const Option *o = declared_options[section][t]; !option_is_end(o); o++) {
                        char key[KEY_MAX];

                        if (!o->name || declared_excluded(section, o))
                                continue;
                        option_key(o, key);
                        if (strv_extend(ret, key) < 0)
                                return -ENOMEM;
                }
        return 0;
}

static int unknown_key(Applier *x, const DeclaredSetting *s, KeySection section)
{
        KeySection other = section == KEY_IN_POD ? KEY_IN_APP : KEY_IN_POD;
        const char *meant = NULL;
        size_t table;

        const Option *there = find_key(other, s->key, &table);
        if (there && declared_excluded(other, there))
                return find(x, s, true, "%s", declared_excluded(other, there));
        if (there)
                return find(x, s, true, "belongs into %s",
                            other == KEY_IN_POD ? "[Pod]" : "the section of an app, [App NAME]");
        if (!x->keys[section] && list_keys(section, &x->keys[section]) < 0)
                return error_oom(x->error);
        char **keys = x->keys[section];
        STRV_FOREACH (k, keys)
                if (strcasecmp(*k, s->key) == 0)
                        meant = *k;
        if (!meant)
                meant = nearest_match(s->key, (const char *const *) keys, strv_length(keys), sizeof(*keys));
        _cleanup_free_ char *hint = NULL;
        if (meant && xasprintf(&hint, "Did you mean %s=?", meant) < 0)
                return error_oom(x->error);
        int r = declared_add_finding(x->declared, &s->place, false, hint,
                                     "unknown key '%s', which is ignored", s->key);
        return r < 0 ? error_oom(x->error) : 0;
}

/* Paths are absolute: there is no directory that they could be relative to, neither where the pod is started nor where its
 * file is. */
static const char *path_problem(const Option *o, const char *value)
{
        bool is_credential = o->handler == option_credential;
        const char *path = is_credential ? strchr(value, ':') : value;
        _cleanup_free_ char *absolute = NULL;

        if (volume_option_make_absolute(o, value, &absolute) != 0)
                return "the path must be absolute";
        if (!path ||
            (!is_credential && !streq_ptr(o->complete, "file") && !streq_ptr(o->complete, "directory")))
                return NULL;
        path += is_credential;
        if (streq(path, "-"))
                return "standard input cannot be read here";
        return path_is_absolute(path) ? NULL : "the path must be absolute";
}

static void *target_of(Applier *x, const DeclaredSetting *s, size_t table, const Option *o)
{
        void *data = s->section == DECLARED_APP ? (void *) &x->arguments->request.apps[s->app]
                     : declared_options[KEY_IN_POD][table] == run_options ? (void *) x->own
                                                                          : (void *) x->arguments;

        return (char *) data + o->offset;
}

/* VALUE, without quotes, is taken. */
static int give(Applier *x, const DeclaredSetting *s, const Option *o, size_t table, char *value)
{
        _cleanup_free_ _unused_ char *owned = value;
        _cleanup_free_ char *expanded = NULL;
        _cleanup_error_ Error reason = ERROR_NULL;
        char label[KEY_MAX + 1], bad = 0;
        Option labelled = *o;

        int r = declared_expand(value, x->declared->name, &expanded, &bad);
        if (r == -ENOMEM)
                return error_oom(x->error);
        if (r == -EINVAL && bad)
                return find(x, s, true, "the specifier %%%c is unknown; a percent sign is written %%%%",
                            bad);
        if (r == -EINVAL)
                return find(x, s, true, "a percent sign at the end; it is written %%%%");
        if (r < 0)
                return find(x, s, true, "the specifier %%%c has no value here: %s", bad, strerror(-r));
        const char *problem = path_problem(o, expanded);
        snprintf(label, sizeof(label), "%s=", s->key);
        labelled.label = label;
        if (problem)
                (void) option_invalid(&labelled, expanded, &reason, "%s", problem);
        else { /* what it keeps of the value is owned by the arguments */
                const char *kept = expanded;
                if (strv_consume(&x->arguments->strings, TAKE_PTR(expanded)) < 0)
                        return error_oom(x->error);
                r = o->handler(&labelled, kept, target_of(x, s, table, o), &reason);
        }
        return reason.code < 0 || r < 0 ? refuse(x, s, &reason) : 0;
}

static int give_words(Applier *x, const DeclaredSetting *s, const Option *o, size_t table)
{
        _cleanup_strv_free_ char **words = NULL;
        const char *reason = NULL;

        int r = declared_words(s->value, &words, &reason);
        if (r == -ENOMEM)
                return error_oom(x->error);
        if (r < 0)
                return find(x, s, true, "%s", reason);
        for (size_t i = 0; words && words[i]; i++) {
                char *word = strdup(words[i]);
                r = word ? give(x, s, o, table, word) : error_oom(x->error);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int give_value(Applier *x, const DeclaredSetting *s, const Option *o, size_t table)
{
        const char *reason = NULL;
        char *value = NULL;

        int r = declared_value(s->value, &value, &reason);
        if (r == -ENOMEM)
                return error_oom(x->error);
        return r < 0 ? find(x, s, true, "%s", reason) : give(x, s, o, table, value);
}

static int give_boolean(Applier *x, const DeclaredSetting *s, const Option *o, size_t table)
{
        _cleanup_error_ Error reason = ERROR_NULL;
        int b = parse_boolean(s->value);

        if (b < 0)
                return find(x, s, true, "'%s' is neither yes nor no", s->value);
        if (b > 0 && o->handler(o, NULL, target_of(x, s, table, o), &reason) < 0)
                return refuse(x, s, &reason);
        return 0;
}

static bool is_same_key(const DeclaredSetting *a, const DeclaredSetting *b)
{
        return a->section == b->section && a->app == b->app && streq(a->key, b->key);
}

/* Whether another assignment of the key comes in [FIRST, END). */
static bool has_other(const Declared *d, const DeclaredSetting *s, size_t first, size_t end)
{
        for (size_t i = first; i < end; i++)
                if (!isempty(d->settings[i].value) && is_same_key(&d->settings[i], s))
                        return true;
        return false;
}

/* All words of the key, at its first assignment. */
static int give_joined(Applier *x, size_t index, const Option *o, size_t table)
{
        const Declared *d = x->declared;
        const DeclaredSetting *s = &d->settings[index];
        _cleanup_strv_free_ char **all = NULL;

        for (size_t i = index; i < d->n_settings; i++) {
                _cleanup_strv_free_ char **words = NULL;
                const char *reason = NULL;

                if (!is_same_key(&d->settings[i], s))
                        continue;
                int r = declared_words(d->settings[i].value, &words, &reason);
                if (r == -ENOMEM)
                        return error_oom(x->error);
                if (r < 0)
                        return find(x, &d->settings[i], true, "%s", reason);
                STRV_FOREACH (word, words)
                        if (strv_extend(&all, *word) < 0)
                                return error_oom(x->error);
        }
        char *joined = strv_join(all, ",");
        return joined ? give(x, s, o, table, joined) : error_oom(x->error);
}

static int apply_setting(Applier *x, size_t index)
{
        const Declared *d = x->declared;
        const DeclaredSetting *s = &d->settings[index];
        KeySection section = s->section == DECLARED_APP ? KEY_IN_APP : KEY_IN_POD;
        size_t table = 0;

        if (s->section != DECLARED_APP && s->section != DECLARED_POD)
                return 0;
        const Option *o = find_key(section, s->key, &table);
        if (!o)
                return unknown_key(x, s, section);
        const char *reason = declared_excluded(section, o);
        if (reason)
                return find(x, s, true, "%s", reason);
        if (isempty(s->value))
                return 0;
        switch (o->repeat) {
        case OPTION_WORDS:
                return give_words(x, s, o, table);
        case OPTION_LINES:
                return give_value(x, s, o, table);
        case OPTION_JOINED:
                return has_other(d, s, 0, index) ? 0 : give_joined(x, index, o, table);
        default:
                break;
        }
        if (has_other(d, s, index + 1, d->n_settings))
                return 0;
        return o->value ? give_value(x, s, o, table) : give_boolean(x, s, o, table);
}

/* --- The pod as a whole -------------------------------------------------------------------------------- */

static int begin_apps(Applier *x)
{
        const Declared *d = x->declared;
        PodRequest *q = &x->arguments->request;

        if (GREEDY_REALLOC(q->apps, q->apps_allocated, d->n_apps + 1) < 0)
                return error_oom(x->error);
        for (size_t i = 0; i < d->n_apps; i++) {
                AppOverrides *app = &q->apps[q->n_apps++];
                _cleanup_error_ Error reason = ERROR_NULL;
                const Option name = {.name = "name", .label = "[App]"};

                *app = (AppOverrides){};
                int r = option_app_name(&name, d->apps[i].name, &app->name, &reason);
                if (r == -ENOMEM ||
                    (r < 0 && declared_add_finding(x->declared, &d->apps[i].place, true, NULL,
                                                   "'%s' is not a valid name for an app: %s",
                                                   d->apps[i].name, reason.message) < 0))
                        return error_oom(x->error);
        }
        return 0;
}

static int find_in_pod(Applier *x, const DeclaredPlace *place, const char *hint, const char *text)
{
        const DeclaredPlace whole = {.file = x->declared->files[0]};
        int r = declared_add_finding(x->declared, place ?: &whole, true, hint, "%s", text);

        return r < 0 ? error_oom(x->error) : 0;
}

static int check_images(Applier *x)
{
        const Declared *d = x->declared;
        const PodArguments *a = x->arguments;

        for (size_t i = 0; i < d->n_apps; i++) {
                DeclaredSetting s = {.section = DECLARED_APP, .app = i, .key = (char *) "Image"};
                _cleanup_free_ char *text = NULL;

                if (a->request.apps[i].reference || has_other(d, &s, 0, d->n_settings))
                        continue;
                if (xasprintf(&text, "app '%s' has no image", d->apps[i].name) < 0)
                        return error_oom(x->error);
                int r = find_in_pod(x, &d->apps[i].place, "Name one with Image=.", text);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Names of After=, which are apps of the file. */
static int check_order(Applier *x, size_t app)
{
        const char *after =
                        pair_list_get(&x->arguments->request.apps[app].annotations, SETTING_PREFIX "after");
        const DeclaredSetting key = {.section = DECLARED_APP, .app = app, .key = (char *) "After"};
        _cleanup_strv_free_ char **names = NULL;
        const Declared *d = x->declared;
        const DeclaredSetting *s = NULL;

        for (size_t i = 0; after && i < d->n_settings; i++)
                if (is_same_key(&d->settings[i], &key))
                        s = &d->settings[i];
        if (!s)
                return 0;
        if (strv_split(after, ",", &names) < 0)
                return error_oom(x->error);
        STRV_FOREACH (name, names) {
                bool known = false;
                for (size_t i = 0; i < d->n_apps; i++)
                        known = known || streq(d->apps[i].name, *name);
                int r = known ? 0 : find(x, s, true, "the pod has no app '%s'", *name);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int find_only_app(Applier *x)
{
        _cleanup_free_ char *text = NULL;

        if (xasprintf(&text, "%s in [Pod] is for the only app, and the pod has %s",
                      x->arguments->only_app_option, x->declared->n_apps > 0 ? "several" : "none") < 0)
                return error_oom(x->error);
        return find_in_pod(x, NULL, "It belongs into the section of an app.", text);
}

static int check_pod(Applier *x)
{
        const PodArguments *a = x->arguments;
        const char *conflict = pod_arguments_conflict(a);
        int r = check_images(x);

        for (size_t i = 0; r >= 0 && i < a->request.n_apps; i++)
                r = check_order(x, i);
        if (r >= 0 && a->manifest_file && a->request.n_apps > 0)
                r = find_in_pod(x, NULL, NULL, "there are apps beside PodManifest=, which names them");
        if (r >= 0 && !a->manifest_file && a->request.n_apps == 0 &&
            !exit_policy_is_open(a->options.exit_policy))
                r = find_in_pod(x, NULL, "Add a section [App NAME] with Image=.",
                                "the pod has no apps: that needs ExitPolicy=never, or PodManifest=");
        if (r >= 0 && conflict)
                r = find_in_pod(x, NULL, NULL, conflict);
        if (r >= 0 && a->declares_capabilities && !exit_policy_is_open(a->options.exit_policy))
                r = find_in_pod(x, NULL, "For an app it belongs into the section of the app.",
                                "CapsRetain= in [Pod] is for apps that are added to a pod with "
                                "ExitPolicy=never");
        if (r >= 0 && a->only_app_option[0] && !a->manifest_file && a->request.n_apps != 1)
                r = find_only_app(x);
        return r;
}

int declared_apply(Declared *d, PodArguments *a, RunArguments *own, Error *e)
{
        Applier x = {.declared = d, .arguments = a, .own = own, .error = e};
        int r = begin_apps(&x);

        for (size_t i = 0; r >= 0 && i < d->n_settings; i++)
                r = apply_setting(&x, i);
        if (r >= 0)
                r = check_pod(&x);
        if (r >= 0 && a->request.n_apps == 1 && a->only_app_option[0] && !a->manifest_file)
                r = only_app_give(a, e);
        for (size_t i = 0; i < _KEY_SECTION_MAX; i++)
                strv_free(x.keys[i]);
        declared_sort_findings(d);
        a->options.strict = own->strict;
        a->describes_pod = a->describes_whole_pod = a->declared = true;
        return r;
}

/* --- For verbs ----------------------------------------------------------------------------------------- */

static void report_one(const DeclaredFinding *f)
{
        _cleanup_free_ char *text = text_escape_for_terminal(f->text);
        LogLevel level = f->error ? LOG_LEVEL_ERROR : LOG_LEVEL_WARNING;
        const char *hint = f->hint ?: "", *dot = f->hint ? ". " : "";

        if (f->place.line > 0)
                log_message(level, "%s:%u: %s%s%s", f->place.file, f->place.line, text ?: "", dot, hint);
        else
                log_message(level, "%s: %s%s%s", f->place.file, text ?: "", dot, hint);
}

int declared_report(Context *c, const Declared *d)
{
        size_t n = d->n_more_findings;

        for (size_t i = 0; i < d->n_findings; i++) {
                report_one(&d->findings[i]);
                n += d->findings[i].error;
        }
        if (!d->has_errors)
                return 0;
        return error_set(&c->error, -EINVAL, "Pod '%s' cannot be made: its declaration has %zu mistake%s",
                         d->name, n, n == 1 ? "" : "s");
}

/* --- Defaults of the host (acnspawn.conf) -------------------------------------------------------------- */

/* Verbs that compare a declared pod with another one, or check it, have the pod that this one makes. */
#define MAKING_VERB "run"

/* What the file says in a section takes precedence. */
static void mark_settings(const Declared *d, DeclaredSection section, size_t app, OptionSet *set)
{
        size_t table = 0;

        for (size_t i = 0; i < d->n_settings; i++) {
                const DeclaredSetting *s = &d->settings[i];
                const Option *o =
                                s->section == section && s->app == app && *s->value
                                                ? find_key(section == DECLARED_APP ? KEY_IN_APP : KEY_IN_POD,
                                                           s->key, &table)
                                                : NULL;
                if (o)
                        option_mark_given(set, o->name);
        }
}

static int apply_conf_to_apps(Context *c, const Declared *d, PodArguments *a)
{
        for (size_t i = 0; i < d->n_apps; i++) {
                OptionSet set = {app_options, &a->request.apps[i]};

                mark_settings(d, DECLARED_APP, i, &set);
                app_arguments_mark_conf(&a->request.apps[i], &set);
                IsolatorList *isolators = &a->request.apps[i].isolators;
                size_t n = isolators->n;
                int r = context_apply_conf_as(c, MAKING_VERB, "App", &set);
                isolators_mark_conf(isolators, n);
                if (r < 0)
                        return r;
        }
        return 0;
}

int context_apply_declared_conf(Context *c, const Declared *d, PodArguments *a, RunArguments *own)
{
        static const char *const sections[] = {"Pod", "Image", "Run"};
        OptionSet sets[] = {{pod_options, a}, {image_options, a}, {run_options, own}};
        size_t n = a->request.isolators.n;

        pod_arguments_mark_conf(a, &sets[0]);
        for (size_t i = 0; i < ELEMENTSOF(sets); i++) {
                mark_settings(d, DECLARED_POD, 0, &sets[i]);
                int r = context_apply_conf_as(c, MAKING_VERB, sections[i], &sets[i]);
                if (r < 0)
                        return r;
        }
        isolators_mark_conf(&a->request.isolators, n);
        const char *conflict = pod_arguments_conflict(a);
        if (conflict)
                return error_set(&c->error, -EINVAL, "With DNS=none in acnspawn.conf: %s", conflict);
        int r = apply_conf_to_apps(c, d, a);
        return r < 0 ? r : pod_arguments_give_settings(a, &c->error);
}

int context_load_declared(Context *c, const char *name, PodArguments *a, RunArguments *own)
{
        _cleanup_(declared_freep) Declared *d = NULL;
        _cleanup_strv_free_ char **dirs = NULL;

        int r = declared_find_dirs(c->config_dirs[0], &dirs, &c->error);
        if (r >= 0)
                r = declared_load(dirs, name, &d, &c->error);
        if (r >= 0)
                r = declared_apply(d, a, own, &c->error);
        if (r >= 0 && declared_check_units(d) < 0)
                r = error_oom(&c->error);
        if (r >= 0)
                r = declared_report(c, d);
        if (r >= 0)
                r = context_apply_declared_conf(c, d, a, own);
        if (r < 0)
                return r;
        char *words = NULL;
        if (run_arguments_format(own, &words) < 0 || strv_consume(&a->strings, words) < 0 ||
            strv_extend(&a->strings, d->name) < 0)
                return error_oom(&c->error);
        size_t n = strv_length(a->strings);
        a->options.declared_run = a->strings[n - 2];
        a->options.name = a->strings[n - 1];
        return 0;
}

/* --- Preparing declared pods --------------------------------------------------------------------------- */

static int refuse_running(Context *c, const Pod *old)
{
        int r = error_set(&c->error, -EBUSY, "Pod '%s' runs already (%s)", old->config.name, old->uuid);

        return error_hint(&c->error, r,
                          "'acnspawn stop %s' ends it; --replace stops and removes it when the new one is "
                          "prepared.",
                          old->config.name);
}

/* WHAT: what another process does with the pod. */
static int refuse_busy(Context *c, const char *name, const Pod *old, const char *what)
{
        error_done(&c->error);
        int r = error_set(&c->error, -EBUSY, "Pod '%s' is being %s by another process (%s)", name, what,
                          old->uuid);
        return error_hint(&c->error, r, "'acnspawn list' shows its state.");
}

/* True if another process has started or removed the pod, or is about to remove it, since it was found. */
static bool has_moved(const Pod *old)
{
        _cleanup_(pod_freep) Pod *now = NULL;
        int r = pod_open(old->store, old->uuid, &now, NULL);

        return r == -ENOENT ||
               (r >= 0 && (now->place != old->place || (old->config.name && !now->config.name)));
}

/* What was never run is removed later, so nothing else may run it meanwhile. */
static int lock_unused(Context *c, const char *name, Pod *old)
{
        PodState was = old->state;
        int r = pod_lock(old, true, &c->error);

        if (r == -EBUSY)
                return has_moved(old) ? -EAGAIN : refuse_busy(c, name, old, "started or removed");
        return r >= 0 && old->state != was ? -EAGAIN : r;
}

/* Locks OLD, which has the name, for what is done with a pod of its state. -EAGAIN, -ENOENT: it has changed since it was found. */
static int take_old(Context *c, PodArguments *a, Pod *old)
{
        int r;

        switch (old->state) {
        case POD_RUNNING:
                return refuse_running(c, old);
        case POD_EMBRYO:
        case POD_PREPARING:
                return refuse_busy(c, a->options.name, old, "prepared");
        case POD_EXITED:
                r = lock_ended_pod(old, &c->error);
                if (r < 0)
                        return r == -EBUSY && (old->state == POD_GARBAGE || has_moved(old)) ? -EAGAIN : r;
                a->options.predecessor = old;
                a->options.name = NULL;
                return 0;
        case POD_PREPARED:
        case POD_ABORTED_PREPARE:
                r = lock_unused(c, a->options.name, old);
                if (r >= 0)
                        a->options.unused = old;
                return r;
        default:
                return -ENOENT; /* its name is free */
        }
}

/* Another process may change the pod between the two steps, so they are repeated. *RET is NULL if no pod has the name. */
static int find_old(Context *c, PodArguments *a, Pod **ret)
{
        for (unsigned tries = 0;; tries++) {
                _cleanup_(pod_freep) Pod *old = NULL;

                int r = pod_open_by_name(c->store, a->options.name, &old, &c->error);
                if (r == -ENOENT) {
                        error_done(&c->error);
                        return 0;
                }
                if (r >= 0)
                        r = take_old(c, a, old);
                if (r >= 0)
                        *ret = TAKE_PTR(old);
                if (r == -EAGAIN && old && tries >= FIND_TRIES)
                        return refuse_busy(c, a->options.name, old, "changed");
                if ((r != -ENOENT && r != -EAGAIN) || tries >= FIND_TRIES)
                        return r;
                error_done(&c->error);
        }
}

int context_prepare_declared(Context *c, PodArguments *a, Pod **ret)
{
        _cleanup_(pod_freep) Pod *old = NULL;
        int r = a->options.replace ? 0 : find_old(c, a, &old);

        if (r >= 0)
                r = pod_arguments_prepare(c, a, ret);
        a->options.predecessor = a->options.unused = NULL;
        return r;
}
