/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Console output before a pod is up, which explains a start that failed.
 *
 * Until systemd-nspawn is executed the output is that of our own child, in the form of our messages: "Error:
 * " and a sentence, then a line with the hint. After that it is output of nspawn and the pod's systemd; the
 * last line usually names the failure. */

#include "stage0/supervisor/start/console.h"

void console_add(Console *c, const char *data, size_t n)
{
        if (n > sizeof(c->text)) {
                data += n - sizeof(c->text);
                n = sizeof(c->text);
        }
        if (c->size + n > sizeof(c->text)) {
                size_t drop = c->size + n - sizeof(c->text);

                memmove(c->text, c->text + drop, c->size - drop);
                c->size -= drop;
        }
        memcpy(c->text + c->size, data, n);
        c->size += n;
}

/* Lines that are not empty, without control characters. */
static int split(const Console *c, char ***ret)
{
        _cleanup_strv_free_ char **raw = NULL, **lines = NULL;
        _cleanup_free_ char *text = strndup(c->text, c->size);

        int r = text ? strv_split(text, "\r\n", &raw) : -ENOMEM;
        STRV_FOREACH (line, raw) {
                char *safe = text_escape_for_terminal(*line);

                r = safe ? strv_consume(&lines, safe) : -ENOMEM;
                if (r < 0)
                        return r;
        }
        if (r >= 0)
                *ret = TAKE_PTR(lines);
        return r;
}

/* "Error: what happened." and the lines behind it. */
static int reason_of_ours(char **lines, const char *sentence, char **ret_reason, char **ret_hint)
{
        size_t n = strlen(sentence);
        _cleanup_free_ char *reason = strndup(sentence, endswith(sentence, ".") ? n - 1 : n);
        char *hint = lines[1] ? strv_join(lines + 1, "\n") : NULL;

        if (!reason || (lines[1] && !hint)) {
                free(hint);
                return -ENOMEM;
        }
        *ret_reason = TAKE_PTR(reason);
        *ret_hint = hint;
        return 0;
}

static int reason_of_others(char **lines, char **ret_reason, char **ret_hint)
{
        size_t n = strv_length(lines);
        _cleanup_free_ char *reason =
                        strdup(n > 0 ? lines[n - 1] : "systemd-nspawn ended without a message");
        _cleanup_text_ Text hint = {};

        if (!reason)
                return -ENOMEM;
        if (n > 1) {
                text_add(&hint, "Output of systemd-nspawn and the pod's systemd:");
                STRV_FOREACH (line, lines)
                        text_addf(&hint, "\n  %s", *line);
                int r = text_take(&hint, ret_hint, NULL);
                if (r < 0)
                        return r;
        } else
                *ret_hint = NULL;
        *ret_reason = TAKE_PTR(reason);
        return 0;
}

int console_reason(const Console *c, char **ret_reason, char **ret_hint)
{
        _cleanup_strv_free_ char **lines = NULL;

        int r = split(c, &lines);
        if (r < 0)
                return r;
        const char *sentence = lines ? startswith(lines[0], "Error: ") : NULL;
        return sentence ? reason_of_ours(lines, sentence, ret_reason, ret_hint)
                        : reason_of_others(lines, ret_reason, ret_hint);
}
