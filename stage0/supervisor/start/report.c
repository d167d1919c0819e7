/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Reports of the supervisor to the client that started it, through a pipe: one byte, '1', when the pod is up
 * and the client may leave, and at the end a report: a header, a message and a hint. A client that has ended
 * does not read it, which is no failure. */

#include <sys/wait.h>

#include "stage0/supervisor/start/foreground.h"

#define TEXT_MAX 16384U /* of message and hint each: both fit into a pipe, so writing never blocks */

typedef enum ReportKind {
        REPORT_UP = '1',      /* the only byte, without the rest of the header */
        REPORT_WARNING = 'w', /* the pod is up, with a warning */
        REPORT_ENDED = 'x', /* the pod has ended with STATUS; the message, if any, says why it was not up */
        REPORT_ERROR = 'e',
} ReportKind;

typedef struct Header {
        char kind;
        int32_t status;
        uint32_t message_size, hint_size;
} Header;

static uint32_t text_size(const char *s)
{
        return s ? (uint32_t) strnlen(s, TEXT_MAX) : 0;
}

static int send_report(int fd, ReportKind kind, int status, const char *message, const char *hint)
{
        const Header h = {.kind = (char) kind,
                          .status = status,
                          .message_size = text_size(message),
                          .hint_size = text_size(hint)};
        _cleanup_text_ Text t = {};

        text_add_bytes(&t, &h, sizeof(h));
        text_add_bytes(&t, message ?: "", h.message_size);
        text_add_bytes(&t, hint ?: "", h.hint_size);
        return t.failed ? -ENOMEM : loop_write(fd, t.data, t.size);
}

int report_warning(int fd, const char *text)
{
        return send_report(fd, REPORT_WARNING, 0, text, NULL);
}

int report_error(int fd, const Error *e)
{
        return send_report(fd, REPORT_ERROR, e->code, e->message, e->hint);
}

int report_end(int fd, int r, const Error *e)
{
        if (r < 0)
                return send_report(fd, REPORT_ERROR, r, e->message ?: strerror(-r), e->hint);
        return send_report(fd, REPORT_ENDED, r, e->message, e->hint);
}

/* --- The client ---------------------------------------------------------------------------------------- */

static int read_text(int fd, size_t size, char **ret)
{
        _cleanup_free_ char *s = size <= TEXT_MAX ? calloc(1, size + 1) : NULL;

        if (!s)
                return -ENOMEM;
        if (loop_read(fd, s, size) != (ssize_t) size)
                return -ECHILD;
        *ret = TAKE_PTR(s);
        return 0;
}

static int set_error(const char *message, const char *hint, int code, Error *e)
{
        int r = error_set(e, code, "%s", message);

        return hint[0] ? error_hint(e, r, "%s", hint) : r;
}

int report_read(Pod *p, int fd, int *ret_status, Error *e)
{
        _cleanup_free_ char *message = NULL, *hint = NULL;
        Header h;

        int r = loop_read(fd, &h.kind, 1) == 1 ? 0 : -ECHILD;
        if (r >= 0 && h.kind == REPORT_UP)
                return 1;
        if (r >= 0 && loop_read(fd, (char *) &h + 1, sizeof(h) - 1) != (ssize_t) sizeof(h) - 1)
                r = -ECHILD;
        if (r >= 0)
                r = read_text(fd, h.message_size, &message);
        if (r >= 0)
                r = read_text(fd, h.hint_size, &hint);
        if (r == -ENOMEM)
                return error_oom(e);
        if (r < 0)
                return r;
        if (h.kind == REPORT_WARNING) {
                log_warning("Pod %s is up, but: %s.", pod_display_name(p), message);
                return 1;
        }
        if (h.kind == REPORT_ERROR)
                return set_error(message, hint, h.status < 0 ? h.status : -EIO, e);
        if (message[0])
                (void) set_error(message, hint, -EIO, e);
        *ret_status = h.status;
        return 0;
}

int report_silence(Pod *p, pid_t pid, int *ret_signal, Error *e)
{
        int status = 0;

        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        if (ret_signal)
                *ret_signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        if (WIFSIGNALED(status))
                return error_set(e, -ECHILD, "The process that runs pod %s was killed", pod_display_name(p));
        return error_set(e, -ECHILD, "The supervisor of pod %s ended without a report (status %d)",
                         pod_display_name(p), WEXITSTATUS(status));
}
