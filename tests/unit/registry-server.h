/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* A registry controlled by a test, in the test's own process: a thread replies to each request by calling
 * the test's function, and records the requests. Over plain http, on a port of 127.0.0.1 that the kernel
 * chooses. */

#include <arpa/inet.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct ServerRequest {
        const char *method, *path;
        char *query;               /* as "name=value&…", decoded; "" */
        const char *authorization; /* "" */
        const char *if_none_match; /* "" */
        const char *accept;        /* the first of them; "" */
        char *form;                /* what was posted; "" */
        unsigned number;           /* from 1 on */
} ServerRequest;

typedef struct ServerAnswer {
        unsigned status; /* 0: 200 */
        const char *body;
        size_t size; /* 0: strlen(body) */
        bool endless;
        char headers[6][512]; /* "Name: value" */
} ServerAnswer;

typedef struct Server {
        struct MHD_Daemon *daemon;
        unsigned port;
        char host[32]; /* "127.0.0.1:PORT" */
        void (*answer)(const ServerRequest *q, ServerAnswer *a);
        pthread_mutex_t lock;
        unsigned n_requests;
        char log[8192]; /* "GET /path authorization\n" of each */
} Server;

typedef struct ServerState {
        char *form;
        size_t size;
} ServerState;

__attribute__((unused, format(printf, 2, 3))) static void add_header(ServerAnswer *a, const char *format,
                                                                     ...)
{
        va_list ap;

        for (size_t i = 0; i < 6; i++)
                if (!a->headers[i][0]) {
                        va_start(ap, format);
                        vsnprintf(a->headers[i], sizeof(a->headers[i]), format, ap);
                        va_end(ap);
                        return;
                }
}

static enum MHD_Result server_add_argument(void *cls, enum MHD_ValueKind kind, const char *name,
                                           const char *value)
{
        Text *t = cls;

        text_addf(t, "%s%s=%s", t->size > 0 ? "&" : "", name, value ?: "");
        return MHD_YES;
}

static ssize_t server_endless(void *cls, uint64_t pos, char *buffer, size_t max)
{
        memset(buffer, ' ', max);
        return (ssize_t) max;
}

static void server_ask(Server *s, struct MHD_Connection *c, const char *method, const char *path, char *form,
                       ServerAnswer *a)
{
        _cleanup_text_ Text query = {};
        const char *v;
        ServerRequest q = {.method = method, .path = path, .form = form ?: (char *) ""};

        MHD_get_connection_values(c, MHD_GET_ARGUMENT_KIND, server_add_argument, &query);
        text_add_bytes(&query, "", 1);
        q.query = query.data;
        q.authorization = (v = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Authorization")) ? v : "";
        q.if_none_match = (v = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "If-None-Match")) ? v : "";
        q.accept = (v = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Accept")) ? v : "";
        pthread_mutex_lock(&s->lock);
        q.number = ++s->n_requests;
        size_t n = strlen(s->log);
        snprintf(s->log + n, sizeof(s->log) - n, "%s %s%s%s %s\n", method, path, query.data[0] ? "?" : "",
                 query.data, q.authorization);
        s->answer(&q, a);
        pthread_mutex_unlock(&s->lock);
}

static enum MHD_Result server_send(struct MHD_Connection *c, const ServerAnswer *a)
{
        const char *body = a->body ?: "";
        struct MHD_Response *r;

        if (a->endless)
                r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 65536, server_endless, NULL, NULL);
        else
                r = MHD_create_response_from_buffer(a->size ?: strlen(body), (void *) body,
                                                    MHD_RESPMEM_MUST_COPY);
        for (size_t i = 0; i < 6 && a->headers[i][0]; i++) {
                char name[64], *colon = strchr(a->headers[i], ':');

                snprintf(name, sizeof(name), "%.*s", (int) (colon - a->headers[i]), a->headers[i]);
                MHD_add_response_header(r, name, colon + 2);
        }
        enum MHD_Result k = MHD_queue_response(c, a->status ?: 200, r);
        MHD_destroy_response(r);
        return k;
}

static enum MHD_Result server_on_request(void *cls, struct MHD_Connection *c, const char *path,
                                         const char *method, const char *version, const char *data,
                                         size_t *size, void **state)
{
        ServerState *st = *state;
        ServerAnswer a = {};

        if (!st) {
                *state = calloc(1, sizeof(ServerState));
                return *state ? MHD_YES : MHD_NO;
        }
        if (*size > 0) {
                char *p = realloc(st->form, st->size + *size + 1);
                if (!p)
                        return MHD_NO;
                memcpy(p + st->size, data, *size);
                st->form = p;
                st->size += *size;
                p[st->size] = 0;
                *size = 0;
                return MHD_YES;
        }
        server_ask(cls, c, method, path, st->form, &a);
        return server_send(c, &a);
}

static void server_on_end(void *cls, struct MHD_Connection *c, void **state,
                          enum MHD_RequestTerminationCode why)
{
        ServerState *st = *state;

        if (st)
                free(st->form);
        free(st);
}

static int server_start(Server *s, void (*answer)(const ServerRequest *q, ServerAnswer *a))
{
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

        s->answer = answer;
        pthread_mutex_init(&s->lock, NULL);
        s->daemon = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION, 0,
                                     NULL, NULL, server_on_request, s, MHD_OPTION_SOCK_ADDR, &address,
                                     MHD_OPTION_NOTIFY_COMPLETED, server_on_end, NULL, MHD_OPTION_END);
        if (!s->daemon)
                return -EIO;
        s->port = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
        snprintf(s->host, sizeof(s->host), "127.0.0.1:%u", s->port);
        return 0;
}

static void server_done(Server *s)
{
        if (s->daemon)
                MHD_stop_daemon(s->daemon);
        s->daemon = NULL;
}
#define _cleanup_server_ _cleanup_(server_done)
