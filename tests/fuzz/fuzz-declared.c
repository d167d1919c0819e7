/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Files that declare pods: their lines, and the words and specifiers of the values. What was read is written,
 * and must be read as the same. */

#include "basic/ini.h"
#include "stage0/declared/declared.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_quoting(const char *word, bool whole)
{
        _cleanup_free_ char *quoted = NULL, *line = NULL, *read = NULL, *expanded = NULL;
        _cleanup_(declared_freep) Declared *d = declared_new("x");
        _cleanup_strv_free_ char **words = NULL;
        const char *reason = NULL;
        char bad = 0;

        if (!d || declared_quote(word, whole, &quoted) < 0 || xasprintf(&line, "[Pod]\nA=%s\n", quoted) < 0)
                return;
        if (strlen(line) > INI_LINE_MAX || declared_parse(d, "x", line, strlen(line)) < 0)
                return;
        if (d->n_settings != 1 || d->n_findings > 0)
                abort();
        const char *value = d->settings[0].value;
        int r = whole ? declared_value(value, &read, &reason) : declared_words(value, &words, &reason);
        if (r == -ENOMEM)
                return;
        if (r < 0 || (!whole && strv_length(words) != 1))
                abort();
        r = declared_expand(whole ? read : words[0], "x", &expanded, &bad);
        if (r != -ENOMEM && (r < 0 || !streq(expanded, word)))
                abort();
}

static void check_value(const char *value)
{
        _cleanup_free_ char *whole = NULL, *expanded = NULL;
        _cleanup_strv_free_ char **words = NULL;
        const char *reason = NULL;
        char bad = 0;

        if (declared_words(value, &words, &reason) == -EINVAL && !reason)
                abort();
        STRV_FOREACH (word, words)
                check_quoting(*word, false);
        if (declared_value(value, &whole, &reason) >= 0)
                check_quoting(whole, true);
        (void) declared_expand(value, "x", &expanded, &bad);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _cleanup_(declared_freep) Declared *d = declared_new("x");

        if (!d || declared_parse(d, "x.pod", (const char *) data, size) < 0)
                return 0;
        for (size_t i = 0; i < d->n_settings; i++) {
                if (d->settings[i].app >= MAX(d->n_apps, (size_t) 1) || !*d->settings[i].key)
                        abort();
                check_value(d->settings[i].value);
        }
        declared_sort_findings(d);
        return 0;
}
