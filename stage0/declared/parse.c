/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The syntax of .pod files, which is that of systemd's units (systemd.syntax(7)): sections, KEY=VALUE, lines
 * that are continued after a backslash, comments that begin with # or ;.
 *
 * A mistake is a finding with file and line, and reading goes on, so that all mistakes are known at once.
 * Sections of one name are one section, over all files. What is unknown is ignored with a warning, but what
 * begins with X-, which is for other programs, silently. */

#include "basic/ini.h"
#include "stage0/declared/declared.h"

#define KEY_SHOWN_MAX 128

Declared *declared_new(const char *name)
{
        _cleanup_(declared_freep) Declared *d = calloc(1, sizeof(Declared));

        if (!d || !(d->name = strdup(name)))
                return NULL;
        return TAKE_PTR(d);
}

Declared *declared_free(Declared *d)
{
        if (!d)
                return NULL;
        for (size_t i = 0; i < d->n_apps; i++)
                free(d->apps[i].name);
        for (size_t i = 0; i < d->n_settings; i++) {
                free(d->settings[i].key);
                free(d->settings[i].value);
        }
        for (size_t i = 0; i < d->n_findings; i++) {
                free(d->findings[i].text);
                free(d->findings[i].hint);
        }
        free(d->apps);
        free(d->settings);
        free(d->findings);
        strv_free(d->files);
        strv_free(d->texts);
        free(d->name);
        free(d);
        return NULL;
}

int declared_add_finding(Declared *d, const DeclaredPlace *place, bool error, const char *hint,
                         const char *format, ...)
{
        DeclaredFinding f = {.place = *place, .error = error};
        va_list ap;

        d->has_errors = d->has_errors || error;
        if (d->n_findings >= DECLARED_FINDINGS_MAX) {
                d->n_more_findings++;
                return 0;
        }
        va_start(ap, format);
        int r = xvasprintf(&f.text, format, ap);
        va_end(ap);
        if (r < 0)
                return -ENOMEM;
        f.hint = hint ? strdup(hint) : NULL;
        if ((hint && !f.hint) || GREEDY_REALLOC(d->findings, d->findings_allocated, d->n_findings + 1) < 0) {
                free(f.text);
                free(f.hint);
                return -ENOMEM;
        }
        d->findings[d->n_findings++] = f;
        return 0;
}

static size_t index_of_file(const Declared *d, const char *file)
{
        size_t i = 0;

        while (d->files[i] && d->files[i] != file)
                i++;
        return i;
}

static bool is_before(const Declared *d, const DeclaredPlace *a, const DeclaredPlace *b)
{
        size_t i = index_of_file(d, a->file), j = index_of_file(d, b->file);

        return i != j ? i < j : a->line < b->line;
}

void declared_sort_findings(Declared *d)
{
        for (size_t i = 1; i < d->n_findings; i++) {
                DeclaredFinding f = d->findings[i];
                size_t k = i;

                for (; k > 0 && is_before(d, &f.place, &d->findings[k - 1].place); k--)
                        d->findings[k] = d->findings[k - 1];
                d->findings[k] = f;
        }
}

/* --- The lines ----------------------------------------------------------------------------------------- */

typedef struct Reader {
        Declared *declared;
        DeclaredPlace place; /* of the present logical line: its first one */
        DeclaredSection section;
        size_t app;
        bool ignored, outside; /* an unknown section; before the first one */
} Reader;

static const char *const section_names[_DECLARED_SECTION_MAX] = {
                [DECLARED_POD] = "Pod",         [DECLARED_APP] = "App",       [DECLARED_UNIT] = "Unit",
                [DECLARED_SERVICE] = "Service", [DECLARED_SOCKET] = "Socket", [DECLARED_UPDATE] = "Update",
                [DECLARED_INSTALL] = "Install",
};

static int find_app(Reader *x, const char *name)
{
        Declared *d = x->declared;

        for (size_t i = 0; i < d->n_apps; i++)
                if (streq(d->apps[i].name, name)) {
                        x->app = i;
                        return 0;
                }
        if (d->n_apps >= DECLARED_APPS_MAX) {
                x->ignored = true;
                return declared_add_finding(d, &x->place, true, NULL, "there are more than %u apps",
                                            DECLARED_APPS_MAX);
        }
        char *copy = strdup(name);
        if (!copy || GREEDY_REALLOC(d->apps, d->apps_allocated, d->n_apps + 1) < 0) {
                free(copy);
                return -ENOMEM;
        }
        x->app = d->n_apps;
        d->apps[d->n_apps++] = (DeclaredApp){.place = x->place, .name = copy};
        return 0;
}

static int unknown_section(Reader *x, const char *name)
{
        const char *near = nearest_match(name, section_names, ELEMENTSOF(section_names),
                                         sizeof(section_names[0]));
        _cleanup_free_ char *hint = NULL;

        x->ignored = true;
        if (startswith(name, "X-"))
                return 0;
        if (near && xasprintf(&hint, "Did you mean [%s%s]?", near, streq(near, "App") ? " NAME" : "") < 0)
                return -ENOMEM;
        return declared_add_finding(x->declared, &x->place, false, hint,
                                    "unknown section [%.*s], which is ignored", KEY_SHOWN_MAX, name);
}

/* NAME is what stands between the brackets; it is changed. */
static int take_section(Reader *x, char *name)
{
        size_t n = strlen(name);

        x->outside = x->ignored = false;
        x->section = DECLARED_NONE;
        while (n > 0 && strchr(" \t", name[n - 1]))
                name[--n] = 0;
        name += strspn(name, " \t");
        size_t first = strcspn(name, " \t");
        char *rest = name + first + strspn(name + first, " \t");
        bool is_app = first == strlen("App") && startswith(name, "App");
        if (is_app && !*rest) {
                x->ignored = true;
                return declared_add_finding(x->declared, &x->place, true, "Write [App web], for example.",
                                            "the section of an app needs the name of the app");
        }
        if (is_app) {
                x->section = DECLARED_APP;
                return find_app(x, rest);
        }
        for (int i = DECLARED_POD; i < _DECLARED_SECTION_MAX; i++)
                if (i != DECLARED_APP && streq(name, section_names[i])) {
                        x->section = (DeclaredSection) i;
                        x->declared->has_update |= i == DECLARED_UPDATE;
                        return 0;
                }
        return unknown_section(x, name);
}

/* An empty value takes back what was said before; in what is for systemd, that does it itself. */
static void take_back(Declared *d, const DeclaredSetting *s)
{
        if (*s->value || s->section == DECLARED_UNIT || s->section == DECLARED_SERVICE ||
            s->section == DECLARED_SOCKET || s->section == DECLARED_UPDATE)
                return;
        for (size_t i = 0; i < d->n_settings; i++) {
                DeclaredSetting *other = &d->settings[i];
                if (other->section == s->section && other->app == s->app && streq(other->key, s->key))
                        other->value[0] = 0;
        }
}

static int add_setting(Reader *x, const char *key, size_t key_length, const char *value)
{
        Declared *d = x->declared;
        DeclaredSetting s = {.place = x->place,
                             .section = x->section,
                             .app = x->section == DECLARED_APP ? x->app : 0};

        if (d->n_settings >= DECLARED_SETTINGS_MAX)
                return declared_add_finding(d, &x->place, true, NULL, "there are more than %u settings",
                                            DECLARED_SETTINGS_MAX);
        s.key = strndup(key, key_length);
        s.value = strdup(value);
        if (!s.key || !s.value ||
            GREEDY_REALLOC(d->settings, d->settings_allocated, d->n_settings + 1) < 0) {
                free(s.key);
                free(s.value);
                return -ENOMEM;
        }
        take_back(d, &s);
        d->settings[d->n_settings++] = s;
        return 0;
}

static int no_section(Reader *x)
{
        return declared_add_finding(x->declared, &x->place, true, "The first one is usually [Pod].",
                                    "the line belongs to no section");
}

/* --- What the reader of lines tells -------------------------------------------------------------------- */

static int on_section(const char *name, unsigned line, void *userdata)
{
        _cleanup_free_ char *copy = strdup(name);
        Reader *x = userdata;

        x->place.line = line;
        return copy ? take_section(x, copy) : -ENOMEM;
}

static int on_assignment(const char *key, const char *value, unsigned line, void *userdata)
{
        Reader *x = userdata;

        x->place.line = line;
        if (x->ignored)
                return 0;
        if (x->outside)
                return no_section(x);
        return startswith(key, "X-") ? 0 : add_setting(x, key, strlen(key), value);
}

/* What follows a section without a name belongs to none. */
static int on_mistake(IniMistake what, unsigned line, void *userdata)
{
        Reader *x = userdata;

        x->place.line = line;
        if (what == INI_SECTION_WITHOUT_END) {
                x->outside = false;
                x->ignored = true;
        } else if (what == INI_NO_ASSIGNMENT && x->ignored)
                return 0;
        else if (what == INI_NO_ASSIGNMENT && x->outside)
                return no_section(x);
        return declared_add_finding(
                        x->declared, &x->place, true,
                        what == INI_NO_TEXT
                                        ? "It has to be UTF-8. In a word, other bytes are written as \\xNN."
                                        : NULL,
                        "%s", ini_mistake_to_string(what));
}

int declared_parse(Declared *d, const char *path, const char *text, size_t size)
{
        Reader x = {.declared = d, .outside = true};

        if (strv_extend(&d->files, path) < 0 || strv_consume(&d->texts, strndup(text, size)) < 0)
                return -ENOMEM;
        x.place.file = d->files[strv_length(d->files) - 1];
        if (memchr(text, 0, size))
                return declared_add_finding(d, &x.place, true, NULL,
                                            "the file is not text: it has NUL bytes");
        return ini_parse(text, size,
                         &(IniEvents){.section = on_section,
                                      .assignment = on_assignment,
                                      .mistake = on_mistake,
                                      .userdata = &x});
}
