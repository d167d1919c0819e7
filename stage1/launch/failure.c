/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Failures of the launcher: a human-readable message, and the cause for the app's status. */

#include "stage1/launch/launch.h"

static int set(Failure *f, AppCause cause, int code, bool with_errno, const char *format, va_list ap)
{
        _cleanup_free_ char *s = NULL;

        if (vasprintf(&s, format, ap) < 0)
                s = NULL;
        f->cause = cause;
        return (with_errno ? error_set_errno : error_set)(&f->error, code, "%s", s ?: "Failed");
}

int failure_set(Failure *f, AppCause cause, int code, const char *format, ...)
{
        va_list ap;

        va_start(ap, format);
        int r = set(f, cause, code, false, format, ap);
        va_end(ap);
        return r;
}

int failure_set_errno(Failure *f, AppCause cause, int code, const char *format, ...)
{
        va_list ap;

        va_start(ap, format);
        int r = set(f, cause, code, true, format, ap);
        va_end(ap);
        return r;
}
