/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The parser of command lines.
 *
 * It walks the words once. A word that begins with a dash is looked up in the option sets that the caller
 * has configured for this position of the command line, and its handler stores the value; any other word is
 * returned to the caller, who may change the sets before continuing. This is sufficient for the
 * position-sensitive grammar of prepare and run. Options that are valid only at other positions are kept in
 * sets marked as misplaced, so that the message can say where they belong.
 */

#include "stage0/cli/options.h"

/* --- Messages ------------------------------------------------------------------------------------------ */

void option_label(const Option *o, char ret[static OPTION_LABEL_MAX])
{
        if (o->label)
                snprintf(ret, OPTION_LABEL_MAX, "%s", o->label);
        else if (o->name && !o->by_letter)
                snprintf(ret, OPTION_LABEL_MAX, "--%s", o->name);
        else
                snprintf(ret, OPTION_LABEL_MAX, "-%c", o->letter);
}

int option_invalid(const Option *o, const char *value, Error *e, const char *reason, ...)
{
        _cleanup_free_ char *text = NULL, *shown = text_escape_for_terminal(value);
        char label[OPTION_LABEL_MAX];
        va_list ap;

        va_start(ap, reason);
        int r = xvasprintf(&text, reason, ap);
        va_end(ap);
        if (r < 0)
                return error_oom(e);
        option_label(o, label);
        return error_set(e, -EINVAL, "Invalid value '%s' for %s: %s", shown ?: "", label, text);
}

int option_invalid_because(const Option *o, const char *value, Error *e, const Error *reason)
{
        if (reason->code == -ENOMEM)
                return error_oom(e);
        return option_invalid(o, value, e, "%s", reason->message ?: "not valid");
}

static const char *nearest_option(const OptionParser *p, const char *name)
{
        const char *best[16] = {};
        size_t n = 0;

        for (size_t i = 0; i < p->n_sets && n < ELEMENTSOF(best); i++) {
                size_t k = 0;

                while (!option_is_end(&p->sets[i].options[k]))
                        k++;
                if (k > 0)
                        best[n++] = nearest_match(name, &p->sets[i].options[0].name, k, sizeof(Option));
        }
        return nearest_match(name, best, n, sizeof(best[0]));
}

static bool has_option(const OptionParser *p, const char *name)
{
        for (size_t i = 0; i < p->n_sets; i++)
                for (const Option *o = p->sets[i].options; !option_is_end(o); o++)
                        if (streq_ptr(o->name, name))
                                return true;
        return false;
}

/* The option with this name in other tools, or with a similar name. */
static const char *meant_option(const OptionParser *p, const char *word)
{
        const char *synonym = option_synonym(word);
        size_t dashes = strspn(word, "-");

        if (synonym && has_option(p, synonym))
                return synonym;
        if (option_instead(word))
                return NULL;
        return dashes > 1 ? nearest_option(p, word + dashes) : NULL;
}

static int unknown_option(const OptionParser *p, const char *word, Error *e)
{
        _cleanup_free_ char *shown = text_escape_for_terminal(word);
        const char *near = meant_option(p, word);

        int r = error_set(e, -EINVAL, "Unknown option '%s'", shown ?: "");
        if (!near && option_instead(word))
                return error_hint(e, r, "%s", option_instead(word));
        return near ? error_hint(e, r, "Did you mean '--%s'?", near) : r;
}

/* --- Looking options up -------------------------------------------------------------------------------- */

static bool option_matches(const Option *o, const char *name, size_t n, char letter)
{
        if (letter)
                return o->letter == letter;
        return o->name && strlen(o->name) == n && strncmp(o->name, name, n) == 0;
}

/* An option that is valid here takes precedence over a misplaced one of the same name. */
static const Option *find_option(OptionParser *p, const char *name, size_t n, char letter,
                                 OptionSet **ret_set)
{
        const Option *misplaced = NULL;

        for (size_t i = 0; i < p->n_sets; i++)
                for (const Option *o = p->sets[i].options; !option_is_end(o); o++) {
                        if (!option_matches(o, name, n, letter))
                                continue;
                        if (misplaced && p->sets[i].misplaced)
                                continue;
                        *ret_set = &p->sets[i];
                        if (!p->sets[i].misplaced)
                                return o;
                        misplaced = o;
                }
        return misplaced;
}

static void mark_given(OptionSet *set, const Option *o)
{
        size_t i = (size_t) (o - set->options);

        if (i < OPTIONS_MAX)
                set->given[i / 64] |= UINT64_C(1) << i % 64;
}

bool option_was_given(const OptionSet *set, const char *name)
{
        for (size_t i = 0; i < OPTIONS_MAX && !option_is_end(&set->options[i]); i++)
                if (streq_ptr(set->options[i].name, name))
                        return (set->given[i / 64] >> i % 64 & 1) != 0;
        return false;
}

void option_mark_given(OptionSet *set, const char *name)
{
        for (const Option *o = set->options; !option_is_end(o); o++)
                if (streq_ptr(o->name, name))
                        mark_given(set, o);
}

static int handle_option(const OptionParser *p, OptionSet *set, const Option *option, bool by_letter,
                         const char *value, Error *e)
{
        Option given = *option;
        const Option *o = &given;
        char label[OPTION_LABEL_MAX];

        given.by_letter = by_letter;
        option_label(o, label);
        if (set->misplaced)
                return error_set(e, -EINVAL, "Option %s %s", label, set->misplaced);
        if (value && !o->value)
                return error_set(e, -EINVAL, "Option %s takes no value", label);
        if (!value && o->value && !o->value_optional)
                return error_set(e, -EINVAL, "Option %s needs a value: %s", label, o->value);
        set->n_seen++;
        mark_given(set, option);
        int r = o->handler(o, value, (char *) set->data + o->offset, e);
        return r < 0 || !p->on_option ? r : p->on_option(set, o, value, p->userdata, e) ?: r;
}

/* The next word as the value of an option; NULL if there is none. */
static const char *take_word(OptionParser *p)
{
        return p->index < p->argc ? p->argv[p->index++] : NULL;
}

static int parse_long(OptionParser *p, const char *word, Error *e)
{
        const char *name = word + 2, *equals = strchrnul(name, '='), *value = *equals ? equals + 1 : NULL;
        OptionSet *set = NULL;
        const Option *o = find_option(p, name, (size_t) (equals - name), 0, &set);

        if (!o) {
                _cleanup_free_ char *label = strndup(word, (size_t) (equals - word));
                return label ? unknown_option(p, label, e) : error_oom(e);
        }
        if (!value && o->value && !o->value_optional && !set->misplaced)
                value = take_word(p);
        return handle_option(p, set, o, false, value, e);
}

static int parse_cluster(OptionParser *p, Error *e)
{
        char letter = *p->cluster++;
        OptionSet *set = NULL;
        const Option *o = find_option(p, NULL, 0, letter, &set);
        const char *value = NULL;

        if (!o) {
                const char label[] = {'-', letter, 0};
                return unknown_option(p, label, e);
        }
        if (o->value && !o->value_optional && !set->misplaced) {
                value = *p->cluster ? p->cluster : take_word(p);
                p->cluster = NULL;
        }
        return handle_option(p, set, o, true, value, e);
}

int options_next(OptionParser *p, const char **ret_word, Error *e)
{
        for (;;) {
                const char *word;
                int r;

                if (p->cluster && *p->cluster) {
                        r = parse_cluster(p, e);
                        if (r != 0)
                                return r;
                        continue;
                }
                word = take_word(p);
                if (!word)
                        return OPTION_DONE;
                if (streq(word, "--") || streq(word, "---"))
                        return word[2] ? OPTION_NEXT : OPTION_DASHES;
                if (word[0] != '-' || !word[1]) {
                        *ret_word = word;
                        return OPTION_WORD;
                }
                if (word[1] != '-') {
                        p->cluster = word + 1;
                        continue;
                }
                r = parse_long(p, word, e);
                if (r != 0)
                        return r;
        }
}

int options_words(OptionParser *p, const char ***ret_words, size_t *ret_n, Error *e)
{
        _cleanup_free_ const char **words = calloc((size_t) p->argc + 1, sizeof(char *));
        size_t n = 0;
        int r;

        if (!words)
                return error_oom(e);
        while ((r = options_next(p, &words[n], e)) > 0) {
                if (r == OPTION_STOP)
                        break;
                if (r == OPTION_NEXT)
                        return unknown_option(p, "---", e);
                if (r == OPTION_WORD)
                        n++;
                while (r == OPTION_DASHES && p->index < p->argc)
                        words[n++] = p->argv[p->index++];
        }
        if (r < 0)
                return r;
        words[n] = NULL;
        *ret_words = TAKE_PTR(words);
        *ret_n = n;
        return r;
}

/* --- Stock handlers ------------------------------------------------------------------------------------ */

int option_true(const Option *o, const char *value, void *target, Error *e)
{
        *(bool *) target = true;
        return 0;
}

int option_stop(const Option *o, const char *value, void *target, Error *e)
{
        *(bool *) target = true;
        return OPTION_STOP;
}

int option_false(const Option *o, const char *value, void *target, Error *e)
{
        *(bool *) target = false;
        return 0;
}

int option_string(const Option *o, const char *value, void *target, Error *e)
{
        *(const char **) target = value;
        return 0;
}

int option_word(const Option *o, const char *value, void *target, Error *e)
{
        return isempty(value) ? option_invalid(o, value, e, "must not be empty")
                              : option_string(o, value, target, e);
}

int option_copy(const Option *o, const char *value, void *target, Error *e)
{
        char *copy = strdup(value);

        if (!copy)
                return error_oom(e);
        free(*(char **) target);
        *(char **) target = copy;
        return 0;
}

int option_usec(const Option *o, const char *value, void *target, Error *e)
{
        if (parse_usec(value, target) < 0)
                return option_invalid(o, value, e, "not a time span such as '30s', '5min' or 'infinity'");
        return 0;
}

int option_u64(const Option *o, const char *value, void *target, Error *e)
{
        if (parse_u64(value, target) < 0)
                return option_invalid(o, value, e, "not a whole number");
        return 0;
}
