/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Values of options that are lists of KEY=VALUE between commas: a table has a row for each key. */

#include "stage0/arguments/pod-fields.h"

/* The error about a word that is not KEY=VALUE; lists the words that are valid. */
static int not_a_field(const Option *o, const char *whole, const Field *fields, size_t n_fields,
                       const char *text, Error *e)
{
        _cleanup_text_ Text words = {};

        for (size_t i = 0; i < n_fields; i++)
                text_addf(&words, "%s%s%s", words.size > 0 ? ", " : "", fields[i].key,
                          fields[i].alone ? "" : "=");
        if (words.failed)
                return error_oom(e);
        return option_invalid(o, whole, e, "'%s' is none of %s", text, words.data ?: "");
}

static int store_field(const Option *o, const char *whole, const Field *fields, size_t n_fields,
                       const char *text, void *target, Error *e)
{
        const char *equals = strchr(text, '='), *reason = "not valid";
        _cleanup_free_ char *key = strndup(text, strcspn(text, "="));

        if (!key)
                return error_oom(e);
        for (size_t i = 0; i < n_fields; i++) {
                if (!streq(fields[i].key, key) || (!equals && !fields[i].alone))
                        continue;
                const char *value = equals ? equals + 1 : "true";
                int r = fields[i].store(key, target, value, &reason);
                if (r == -ENOMEM)
                        return error_oom(e);
                return r < 0 ? option_invalid(o, whole, e, "%s '%s' %s", key, value, reason) : 0;
        }
        if (!equals)
                return not_a_field(o, whole, fields, n_fields, text, e);

        int r = option_invalid(o, whole, e, "unknown key '%s'", key);
        const char *near = nearest_match(key, &fields[0].key, n_fields, sizeof(Field));
        return near ? error_hint(e, r, "Did you mean '%s'?", near) : r;
}

int store_fields(const Option *o, const char *whole, const Field *fields, size_t n_fields,
                 char *const *texts, void *target, Error *e)
{
        STRV_FOREACH (s, texts) {
                int r = store_field(o, whole, fields, n_fields, *s, target, e);
                if (r < 0)
                        return r;
        }
        return 0;
}
