/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Text of apps and images for a terminal: the output is UTF-8 without control characters except for newline,
 * tab, and by option carriage return and colours; it does not depend on how the input is split. The first
 * byte has the options, the second is the position of the split. */

#include "basic/basic.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t color_length(const char *s, size_t n)
{
        size_t i = 2;

        if (n < 3 || s[0] != '\033' || s[1] != '[')
                return 0;
        while (i < n && (is_digit(s[i]) || s[i] == ';' || s[i] == ':'))
                i++;
        return i < n && s[i] == 'm' ? i + 1 : 0;
}

static void check(const char *s, size_t n, const Neutralizer *z)
{
        if (!utf8_is_valid(s, n))
                abort();
        for (size_t i = 0; i < n;) {
                unsigned char c = (unsigned char) s[i];
                size_t k = z->colors ? color_length(s + i, n - i) : 0;

                if (k == 0 && (c < 0x20 || c == 0x7f) && c != '\n' && c != '\t' &&
                    !(c == '\r' && z->returns))
                        abort();
                if (c == 0xc2 && (unsigned char) s[i + 1] < 0xa0)
                        abort();
                i += k ?: 1;
        }
}

static void neutralize(Neutralizer z, const char *data, size_t size, size_t step, Text *t)
{
        for (size_t i = 0; i < size; i += step)
                neutralizer_add(&z, data + i, MIN(step, size - i), t);
        neutralizer_end(&z, t);
        if (t->failed)
                exit(0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _cleanup_text_ Text whole = {}, cut = {}, json = {};

        if (size < 2)
                return 0;
        const Neutralizer z = {.colors = data[0] & 1, .returns = data[0] & 2};
        size_t step = 1U + data[1] % 100U;
        size -= 2;
        char *text = malloc(size + 1);
        if (!text)
                return 0;
        memcpy(text, data + 2, size);
        text[size] = 0;
        neutralize(z, text, size, size + 1, &whole);
        neutralize(z, text, size, step, &cut);
        if (whole.size != cut.size || (whole.size > 0 && memcmp(whole.data, cut.data, whole.size) != 0))
                abort();
        check(whole.data ?: "", whole.size, &z);

        _cleanup_free_ char *escaped = text_escape_for_terminal(text);
        if (escaped) {
                check(escaped, strlen(escaped), &(Neutralizer){});
                if (strchr(escaped, '\n') || strchr(escaped, '\t'))
                        abort();
        }
        text_add_json(&json, text);
        if (json.data && !utf8_is_valid(json.data, json.size))
                abort();
        free(text);
        return 0;
}
