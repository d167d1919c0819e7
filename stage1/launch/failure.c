/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Failures of the launcher: a message for people, and the cause that goes into the app's record. */

#include "stage1/launch/launch.h"

int failure_set(Failure *f, AppCause cause, int code, const char *format, ...)
{
        _cleanup_free_ char *s = NULL;
        va_list ap;

        va_start(ap, format);
        int r = vasprintf(&s, format, ap);
        va_end(ap);
        if (r < 0)
                s = NULL;
        f->cause = cause;
        return error_set_errno(&f->error, code, "%s", s ?: "Failed");
}
