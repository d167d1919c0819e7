/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sets up libmicrohttpd: it runs in the main thread; its epoll descriptor is one of those that the main loop
 * polls. */

#include "metadata/server.h"

/* Header and body buffer of one connection; the header of a request has to fit. */
#define CONNECTION_MEMORY (16U * 1024U)

static const struct {
        const char *text, *allow;
} answers[_METADATA_ANSWER_MAX] = {
                [METADATA_ANSWER_VALID] = {"valid\n"},
                [METADATA_ANSWER_INVALID] = {"not valid\n"},
                [METADATA_ANSWER_BAD_FORM] = {"form is malformed or lacks a field\n"},
                [METADATA_ANSWER_NOT_FOUND] = {"not found\n"},
                [METADATA_ANSWER_ONLY_GET] = {"only GET and HEAD are allowed\n", "GET, HEAD"},
                [METADATA_ANSWER_ONLY_POST] = {"only POST is allowed\n", "POST"},
                [METADATA_ANSWER_TOO_LARGE] = {"form is too large\n"},
                [METADATA_ANSWER_NOT_A_FORM] = {"form must be application/x-www-form-urlencoded\n"},
                [METADATA_ANSWER_FAILED] = {"failed\n"},
                [METADATA_ANSWER_BUSY] = {"busy, try again\n"},
};

int metadata_http_prepare(MetadataServer *s, Error *e)
{
        for (MetadataAnswer a = 0; a < _METADATA_ANSWER_MAX; a++) {
                if (!answers[a].text)
                        continue;
                char *text = strdup(answers[a].text);
                s->answers[a] = metadata_response_new(text, strlen(answers[a].text), METADATA_TYPE_TEXT,
                                                      answers[a].allow);
                if (!s->answers[a])
                        return error_oom(e);
        }
        return 0;
}

int metadata_http_start(MetadataServer *s, Error *e)
{
        int fd = TAKE_FD(s->listen_fd); /* the library closes it, also on failure */

        s->daemon = MHD_start_daemon(
                        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, metadata_request_handle, s,
                        MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, METADATA_CONNECTIONS_MAX,
                        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t) CONNECTION_MEMORY,
                        MHD_OPTION_NOTIFY_CONNECTION, metadata_connection_notify, s,
                        MHD_OPTION_NOTIFY_COMPLETED, metadata_connection_completed, s, MHD_OPTION_END);
        if (!s->daemon)
                return error_set(e, -EIO, "Cannot start the HTTP server");
        const union MHD_DaemonInfo *info = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_EPOLL_FD);
        if (!info)
                return error_set(e, -EIO, "The HTTP server has no epoll descriptor");
        s->epoll_fd = info->epoll_fd;
        return 0;
}

void metadata_http_stop(MetadataServer *s)
{
        /* The library requires that no connection is suspended any more. */
        metadata_queries_cancel(s);
        if (s->daemon) {
                (void) MHD_run(s->daemon);
                MHD_stop_daemon(s->daemon);
        }
        s->daemon = NULL;
        for (MetadataAnswer a = 0; a < _METADATA_ANSWER_MAX; a++)
                if (s->answers[a])
                        MHD_destroy_response(s->answers[a]);
        s->tables = metadata_tables_free(s->tables);
}
