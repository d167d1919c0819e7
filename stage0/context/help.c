/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The help: rendered from the tables of verbs and options, in the layout of systemd's tools, so that it
 * always matches the program.
 */

#include "stage0/context/context.h"

/* The column of the description of an option or a verb. */
#define OPTION_COLUMN 27
#define VERB_COLUMN 30
#define COLUMNS_MAX 100 /* longer lines are hard to read on any terminal */

static size_t help_width(const Display *d)
{
        return d->columns > 0 ? MIN(MAX(d->columns, (size_t) 50), (size_t) COLUMNS_MAX) : 80;
}

static void add_heading(Text *t, const Display *d, const char *heading)
{
        text_addf(t, "\n%s%s:%s\n", color_sequence(d, COLOR_BOLD), heading, color_sequence(d, COLOR_NONE));
}

/* S with characters that the display supports: only the ellipsis is not ASCII. NULL: out of memory. */
static char *spelled(const Display *d, const char *s)
{
        static const char ellipsis[] = "…";
        _cleanup_text_ Text t = {};
        char *result;

        for (const char *end; !d->utf8 && (end = strstr(s, ellipsis)); s = end + strlen(ellipsis)) {
                text_add_bytes(&t, s, (size_t) (end - s));
                text_add(&t, "...");
        }
        text_add(&t, s);
        return text_take(&t, &result, NULL) < 0 ? NULL : result;
}

/* One line of two columns; a left side that is too long gets a separate line. */
static void add_line(Text *t, const Display *d, const char *left_text, size_t column, const char *right_text)
{
        _cleanup_free_ char *left = spelled(d, left_text), *right = spelled(d, right_text);

        if (!left || !right) {
                t->failed = true;
                return;
        }
        size_t w = text_width(left);
        if (w + 1 < column)
                text_addf(t, "%s%*s", left, (int) (column - w), "");
        else
                text_addf(t, "%s\n%*s", left, (int) column, "");
        text_wrap(t, right, column, help_width(d));
        text_add(t, "\n");
}

static void add_option(Text *t, const Display *d, const Option *o)
{
        _cleanup_text_ Text left = {};
        const char *value = o->value ?: "", *equals = o->value ? "=" : "";
        bool brackets = o->value && o->value_optional;

        if (o->letter)
                text_addf(&left, "  -%c", o->letter);
        else
                text_add(&left, "    ");
        if (o->name)
                text_addf(&left, " --%s%s%s%s%s", o->name, brackets ? "[" : "", equals, value,
                          brackets ? "]" : "");
        else if (o->value)
                text_addf(&left, " %s", value);
        if (left.data && !left.failed)
                add_line(t, d, left.data, OPTION_COLUMN, o->help);
        else
                t->failed = true;
}

static void add_options(Text *t, const Display *d, const Option *options)
{
        for (const Option *o = options; !option_is_end(o); o++) {
                if (o->group)
                        add_heading(t, d, o->group);
                add_option(t, d, o);
        }
}

static void add_paragraph(Text *t, const Display *d, const char *text)
{
        text_add(t, "\n");
        text_wrap(t, text, 0, help_width(d));
        text_add(t, "\n");
}

/* One usage line per line of the synopsis. */
static void add_usage(Text *t, const Verb *verb)
{
        for (const char *s = verb->synopsis; *s;) {
                size_t n = strcspn(s, "\n");
                text_addf(t, "acnspawn %s%s%.*s\n", verb->name, n > 0 ? " " : "", (int) n, s);
                s += n + (s[n] == '\n');
        }
        if (!verb->synopsis[0])
                text_addf(t, "acnspawn %s\n", verb->name);
}

static void add_verb(Text *t, const Display *d, const Verb *v)
{
        _cleanup_free_ char *left = NULL;

        if (xasprintf(&left, "  %s%s%s", v->name, v->brief ? " " : "", v->brief ?: "") < 0)
                t->failed = true;
        else
                add_line(t, d, left, VERB_COLUMN, v->summary);
}

static void add_verbs(Text *t, const Display *d, const Verb *const *verbs)
{
        for (const Verb *const *v = verbs; *v; v++) {
                if ((*v)->group)
                        add_heading(t, d, (*v)->group);
                add_verb(t, d, *v);
        }
}

/* The text of "acnspawn --help", with VERBS, or (VERB given) "acnspawn VERB --help". */
static int format_help(const Verb *const *verbs, const Verb *verb, const Display *d, char **ret)
{
        _cleanup_text_ Text t = {};

        if (verb) {
                add_usage(&t, verb);
                add_paragraph(&t, d, verb->text ?: verb->summary);
                for (const Option *const *o = verb->options; o && *o; o++)
                        add_options(&t, d, *o);
        } else {
                text_add(&t, "acnspawn [OPTIONS…] COMMAND …\n");
                add_paragraph(&t, d, "Run pods of App Container and OCI images as systemd services.");
                add_verbs(&t, d, verbs);
        }
        add_options(&t, d, global_options);
        text_addf(&t, "\nSee the %s(1) man page for details.\n", (verb ? verb->page : NULL) ?: "acnspawn");
        return text_take(&t, ret, NULL);
}

static int show(Context *c, const Display *d, const char *text)
{
        _cleanup_free_ char *shown = spelled(d, text);

        return shown ? context_show_text(c, shown) : error_oom(&c->error);
}

int context_show_help(Context *c, const Verb *verb)
{
        _cleanup_free_ char *text = NULL;
        Display d = display_of(STDOUT_FILENO);

        int r = format_help(c->verbs, verb, &d, &text);
        return r < 0 ? error_oom(&c->error) : show(c, &d, text);
}

int context_show_group_help(Context *c, const char *word)
{
        Display d = display_of(STDOUT_FILENO);
        _cleanup_text_ Text t = {};
        size_t n = strlen(word);
        const char *page = NULL;

        text_addf(&t, "acnspawn %s COMMAND …\n", word);
        add_heading(&t, &d, "Commands");
        for (const Verb *const *v = c->verbs; *v; v++) {
                if (!startswith((*v)->name, word) || (*v)->name[n] != ' ')
                        continue;
                add_verb(&t, &d, *v);
                page = (*v)->page;
        }
        text_addf(&t, "\nTry 'acnspawn %s COMMAND --help' for more information.\n", word);
        text_addf(&t, "See the %s(1) man page for details.\n", page ?: "acnspawn");
        return t.failed ? error_oom(&c->error) : show(c, &d, t.data);
}

/* --- Machine-readable help ----------------------------------------------------------------------------- */

static void dump_options(Text *t, const char *verb, const Option *options)
{
        for (const Option *o = options; !option_is_end(o); o++)
                text_addf(t, "option\t%s\t%s%s\t%s%.1s\t%s\t%s\t%s\t%s\n", verb, o->name ? "--" : "",
                          o->name ?: "-", o->letter ? "-" : "", o->letter ? &o->letter : "-",
                          !o->value           ? "flag"
                          : o->value_optional ? "optional"
                                              : "value",
                          o->value ?: "-", o->complete ?: "-", o->help);
}

int help_dump(const Verb *const *verbs, char **ret)
{
        _cleanup_text_ Text t = {};

        dump_options(&t, "-", global_options);
        for (const Verb *const *v = verbs; *v; v++) {
                text_addf(&t, "verb\t%s\t%s\t%s\t%s\n", (*v)->name, (*v)->words ?: "-", (*v)->summary,
                          (*v)->page ?: "acnspawn");
                if ((*v)->also)
                        text_addf(&t, "also\t%s\t%s\t%s\t%s\n", (*v)->also, (*v)->name, (*v)->summary,
                                  (*v)->page ?: "acnspawn");
                for (const Option *const *o = (*v)->options; o && *o; o++)
                        dump_options(&t, (*v)->name, *o);
        }
        return text_take(&t, ret, NULL);
}

const Verb *verb_find(const Verb *const *verbs, const char *name, const char *second)
{
        for (const Verb *const *v = verbs; *v; v++) {
                const char *rest = startswith((*v)->name, name);

                if (streq_ptr((*v)->also, name))
                        return *v;
                if (!rest)
                        continue;
                if (!*rest || (*rest == ' ' && second && streq(rest + 1, second)))
                        return *v;
        }
        return NULL;
}
