/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The keys that detach from a terminal of a pod.
 *
 * Keys are forwarded to the app at once, as the rest of the sequence may not follow; only the last key is
 * not. All keys must be typed within a second, so that occasional single keys for the app do not detach. */

#include "stage0/control/control-internal.h"

#define TIME_USEC UINT64_C(1000000)

/* "a", "ctrl-a": letters and @ [ \ ] ^ _ have a control character. */
static int parse_key(const char *s)
{
        const char *control = startswith(s, "ctrl-") ?: startswith(s, "^");
        const char *c = control && *control ? control : s;

        if (strlen(c) != 1 || *c <= ' ' || *c > '~')
                return -EINVAL;
        if (c == s)
                return *c;
        if (*c >= 'a' && *c <= 'z')
                return *c - 'a' + 1;
        return *c >= '@' && *c <= '_' ? *c - '@' : -EINVAL;
}

int detach_keys_parse(const char *s, DetachKeys *ret)
{
        _cleanup_strv_free_ char **words = NULL;
        DetachKeys k = {};

        int r = strv_split(s, ",", &words);
        if (r < 0)
                return r;
        STRV_FOREACH (word, words) {
                int key = parse_key(*word);

                if (key < 0 || k.n >= ELEMENTSOF(k.keys))
                        return -EINVAL;
                k.keys[k.n++] = (unsigned char) key;
        }
        *ret = k;
        return 0;
}

size_t detach_keys_find(DetachKeys *k, const void *data, size_t size)
{
        const unsigned char *p = data;
        uint64_t now = now_usec(CLOCK_MONOTONIC);

        for (size_t i = 0; k->n > 0 && i < size; i++) {
                if (k->typed > 0 && (now - k->first_usec > TIME_USEC || p[i] != k->keys[k->typed]))
                        k->typed = 0;
                if (p[i] != k->keys[k->typed])
                        continue;
                if (k->typed++ == 0)
                        k->first_usec = now;
                if (k->typed == k->n) {
                        k->typed = 0;
                        return i;
                }
        }
        return size;
}
