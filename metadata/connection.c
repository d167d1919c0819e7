/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The connections, and their protection against slow or greedy clients.
 *
 * There is one rule: a connection has to complete a request every so often (15 seconds by default), however
 * it spends the time: idle, sending a header byte by byte, sending a body, or not reading the answer. The
 * list is in the order in which connections last did so, so the overdue ones are at its head. When there are
 * too many connections, the head is ended early. A connection is ended by shutting down its socket: the
 * library then finds it closed and cleans up later.
 */

#include <sys/socket.h>

#include "metadata/server.h"

static void list_remove(MetadataServer *s, MetadataConnection *c)
{
        if (c->previous)
                c->previous->next = c->next;
        else
                s->first = c->next;
        if (c->next)
                c->next->previous = c->previous;
        else
                s->last = c->previous;
        c->previous = c->next = NULL;
}

static void list_append(MetadataServer *s, MetadataConnection *c)
{
        c->since = s->now;
        c->previous = s->last;
        if (s->last)
                s->last->next = c;
        else
                s->first = c;
        s->last = c;
}

static void connection_end(MetadataServer *s, MetadataConnection *c)
{
        list_remove(s, c);
        c->ended = true;
        (void) shutdown(c->fd, SHUT_RDWR);
}

MetadataConnection *metadata_connection_get(struct MHD_Connection *http)
{
        const union MHD_ConnectionInfo *info =
                        MHD_get_connection_info(http, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

        return info ? info->socket_context : NULL;
}

static void connection_started(MetadataServer *s, struct MHD_Connection *http, void **context)
{
        const union MHD_ConnectionInfo *info =
                        MHD_get_connection_info(http, MHD_CONNECTION_INFO_CONNECTION_FD);
        MetadataConnection *c = calloc(1, sizeof(*c));

        if (!info || !c) {
                free(c);
                if (info)
                        (void) shutdown(info->connect_fd, SHUT_RDWR);
                return;
        }
        c->http = http;
        c->fd = info->connect_fd;
        list_append(s, c);
        *context = c;
        if (++s->n_connections > METADATA_CONNECTIONS_EVICT)
                connection_end(s, s->first);
}

static void connection_closed(MetadataServer *s, MetadataConnection *c)
{
        if (!c->ended && !c->suspended)
                list_remove(s, c);
        metadata_request_reset(s, &c->request);
        s->n_connections--;
        free(c);
}

void metadata_connection_notify(void *server, struct MHD_Connection *http, void **context,
                                enum MHD_ConnectionNotificationCode code)
{
        if (code == MHD_CONNECTION_NOTIFY_STARTED)
                connection_started(server, http, context);
        else if (*context) {
                connection_closed(server, *context);
                *context = NULL;
        }
}

void metadata_connection_completed(void *server, struct MHD_Connection *http, void **closure,
                                   enum MHD_RequestTerminationCode code)
{
        MetadataConnection *c = metadata_connection_get(http);

        if (!c)
                return;
        metadata_request_reset(server, &c->request);
        if (c->ended || c->suspended)
                return;
        list_remove(server, c);
        list_append(server, c);
}

void metadata_connection_suspend(MetadataServer *s, MetadataConnection *c)
{
        if (!c->ended)
                list_remove(s, c);
        c->suspended = true;
        MHD_suspend_connection(c->http);
}

void metadata_connection_resume(MetadataServer *s, MetadataConnection *c)
{
        c->suspended = false;
        if (!c->ended)
                list_append(s, c);
        MHD_resume_connection(c->http);
        s->resumed = true;
}

uint64_t metadata_connections_expire(MetadataServer *s)
{
        uint64_t timeout = s->tables ? s->tables->request_timeout_usec : UINT64_MAX;

        while (s->first && s->now - s->first->since >= timeout)
                connection_end(s, s->first);
        return s->first && s->tables ? s->first->since + timeout : UINT64_MAX;
}
