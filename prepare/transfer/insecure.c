/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The insecure options: a list of words, each of which disables one protection. */

#include "prepare/transfer/transfer.h"

static const struct {
        const char *name;
        unsigned options;
} insecure_words[] = {
                {"none", 0},
                {"http", INSECURE_HTTP},
                {"tls", INSECURE_TLS},
                {"signature", INSECURE_SIGNATURE},
                {"pubkey", INSECURE_PUBKEY},
                {"all", INSECURE_HTTP | INSECURE_TLS | INSECURE_SIGNATURE | INSECURE_PUBKEY},
};

static int insecure_word(const char *s, unsigned *options)
{
        for (size_t i = 0; i < ELEMENTSOF(insecure_words); i++)
                if (streq(insecure_words[i].name, s)) {
                        *options |= insecure_words[i].options;
                        return 0;
                }
        return -EINVAL;
}

int insecure_options_from_string(const char *s, unsigned *ret)
{
        _cleanup_strv_free_ char **words = NULL;
        unsigned options = 0;

        int r = strv_split(s, ",", &words);
        if (r < 0)
                return r;
        if (strv_length(words) == 0)
                return -EINVAL;
        STRV_FOREACH (word, words) {
                r = insecure_word(*word, &options);
                if (r < 0)
                        return r;
        }
        *ret = options;
        return 0;
}
