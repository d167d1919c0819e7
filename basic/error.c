/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The error object: the message for the user about a failure, built where the failure happens.
 *
 * A function that fails fills the object in ("what failed, on which object, why") and returns the negative
 * errno; its callers may prepend context or add a hint. Nothing here prints; programs do that once,
 * by error_print() (log.c). Out of memory must not hide the first failure: when a message cannot be built, the
 * code alone is kept.
 */

#include "basic/basic.h"

static int normalize(const Error *e, int code)
{
        if (code == 0 && e && e->code != 0)
                code = e->code;
        if (code == 0)
                code = EIO;
        return code > 0 ? -code : code;
}

static void replace(Error *e, int code, char *message)
{
        free(e->message);
        free(e->hint);
        *e = (Error){.code = code, .message = message};
}

void error_done(Error *e)
{
        if (!e)
                return;
        replace(e, 0, NULL);
}

static _printf_(1, 0) char *format_message(const char *format, va_list ap)
{
        char *s = NULL;

        (void) xvasprintf(&s, format, ap);
        return s;
}

int error_set(Error *e, int code, const char *format, ...)
{
        va_list ap;

        code = normalize(e, code);
        if (!e)
                return code;

        va_start(ap, format);
        char *message = format_message(format, ap);
        va_end(ap);
        replace(e, code, message);
        return code;
}

int error_set_errno(Error *e, int code, const char *format, ...)
{
        char *s = NULL;
        va_list ap;

        code = normalize(e, code);
        if (!e)
                return code;

        va_start(ap, format);
        char *message = format_message(format, ap);
        va_end(ap);
        if (message && asprintf(&s, "%s: %s", message, strerror(-code)) < 0)
                s = NULL;
        if (s) {
                free(message);
                message = s;
        }
        replace(e, code, message);
        return code;
}

int error_prefix(Error *e, int code, const char *format, ...)
{
        char *s = NULL;
        va_list ap;

        code = normalize(e, code);
        if (!e)
                return code;

        va_start(ap, format);
        char *context = format_message(format, ap);
        va_end(ap);
        if (context && asprintf(&s, "%s: %s", context, e->message ?: strerror(-code)) >= 0) {
                free(e->message);
                e->message = s;
        }
        free(context);
        e->code = code;
        return code;
}

int error_hint(Error *e, int code, const char *format, ...)
{
        va_list ap;

        code = normalize(e, code);
        if (!e)
                return code;

        va_start(ap, format);
        char *hint = format_message(format, ap);
        va_end(ap);
        free(e->hint);
        e->hint = hint;
        e->code = code;
        return code;
}

int error_oom(Error *e)
{
        return error_set(e, -ENOMEM, "Out of memory");
}

int error_copy(Error *e, const Error *from)
{
        Error copy = {.code = from->code,
                      .message = from->message ? strdup(from->message) : NULL,
                      .hint = from->hint ? strdup(from->hint) : NULL};

        return error_move(e, &copy);
}

int error_move(Error *e, Error *from)
{
        int code = from->code;

        error_done(e);
        if (e)
                *e = TAKE_GENERIC(*from, Error, ERROR_NULL);
        else
                error_done(from);
        return code;
}
