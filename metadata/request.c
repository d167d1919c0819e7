/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Handles one request, from its header to the response.
 *
 * The library calls the handler once when the header is complete, then for every piece of the body, then
 * once more for the response. Errors of a request are detected as early as possible and answered at the end,
 * after reading and discarding a body of reasonable size, so that the client receives the response and can
 * keep its connection. Bodies are stored only for the two endpoints that take a form, with limits for each
 * and for all together.
 */

#include "metadata/server.h"

#define BODY_FIRST 4096U

void metadata_request_reset(MetadataServer *s, MetadataRequest *q)
{
        s->bodies -= q->body_allocated;
        free(q->body);
        if (q->signature)
                MHD_destroy_response(q->signature);
        *q = (MetadataRequest){};
}

static const char *header_get(struct MHD_Connection *http, const char *name)
{
        return MHD_lookup_connection_value(http, MHD_HEADER_KIND, name);
}

/* The result of checking the header alone. */
static MetadataAnswer check_header(const MetadataServer *s, struct MHD_Connection *http, const char *url,
                                   const char *method, MetadataRoute *ret)
{
        uint64_t size;

        if (metadata_route(s->tables->token, s->tables->token_size, url, ret) < 0)
                return METADATA_ANSWER_NOT_FOUND;
        if (!metadata_resource_is_post(ret->resource)) {
                bool get = streq(method, MHD_HTTP_METHOD_GET) || streq(method, MHD_HTTP_METHOD_HEAD);
                return get ? METADATA_ANSWER_NONE : METADATA_ANSWER_ONLY_GET;
        }
        if (!streq(method, MHD_HTTP_METHOD_POST))
                return METADATA_ANSWER_ONLY_POST;
        if (!metadata_form_type(header_get(http, MHD_HTTP_HEADER_CONTENT_TYPE)))
                return METADATA_ANSWER_NOT_A_FORM;
        const char *length = header_get(http, MHD_HTTP_HEADER_CONTENT_LENGTH);
        if (length && (parse_u64(length, &size) < 0 || size > METADATA_BODY_MAX))
                return METADATA_ANSWER_TOO_LARGE;
        return METADATA_ANSWER_NONE;
}

/* Whether to respond at once, so that the client does not send its body. The library closes the connection
 * then. */
static bool answer_early(struct MHD_Connection *http, const char *method)
{
        const char *length = header_get(http, MHD_HTTP_HEADER_CONTENT_LENGTH);
        uint64_t size;

        if (!streq(method, MHD_HTTP_METHOD_POST) && !streq(method, MHD_HTTP_METHOD_PUT))
                return false;
        return header_get(http, MHD_HTTP_HEADER_EXPECT) ||
               (length && (parse_u64(length, &size) < 0 || size > METADATA_DISCARD_MAX));
}

static const unsigned statuses[_METADATA_ANSWER_MAX] = {
                [METADATA_ANSWER_VALID] = MHD_HTTP_OK,
                [METADATA_ANSWER_INVALID] = MHD_HTTP_FORBIDDEN,
                [METADATA_ANSWER_BAD_FORM] = MHD_HTTP_BAD_REQUEST,
                [METADATA_ANSWER_NOT_FOUND] = MHD_HTTP_NOT_FOUND,
                [METADATA_ANSWER_ONLY_GET] = MHD_HTTP_METHOD_NOT_ALLOWED,
                [METADATA_ANSWER_ONLY_POST] = MHD_HTTP_METHOD_NOT_ALLOWED,
                [METADATA_ANSWER_TOO_LARGE] = 413,
                [METADATA_ANSWER_NOT_A_FORM] = MHD_HTTP_UNSUPPORTED_MEDIA_TYPE,
                [METADATA_ANSWER_FAILED] = MHD_HTTP_INTERNAL_SERVER_ERROR,
                [METADATA_ANSWER_BUSY] = MHD_HTTP_SERVICE_UNAVAILABLE,
};

static enum MHD_Result answer(MetadataServer *s, struct MHD_Connection *http, MetadataAnswer a)
{
        return MHD_queue_response(http, statuses[a], s->answers[a]);
}

static enum MHD_Result request_begin(MetadataServer *s, MetadataConnection *c, const char *url,
                                     const char *method)
{
        MetadataRequest *q = &c->request;

        q->begun = true;
        q->answer = check_header(s, c->http, url, method, &q->route);
        if (q->answer != METADATA_ANSWER_NONE && answer_early(c->http, method))
                return answer(s, c->http, q->answer);
        return MHD_YES;
}

static int body_reserve(MetadataServer *s, MetadataRequest *q, size_t size)
{
        size_t room = MAX(q->body_allocated, (size_t) BODY_FIRST);

        if (size <= q->body_allocated)
                return 0;
        while (room < size)
                room *= 2;
        if (s->bodies - q->body_allocated + room > METADATA_BODIES_MAX)
                return -EBUSY;
        char *p = realloc(q->body, room);
        if (!p)
                return -ENOMEM;
        s->bodies += room - q->body_allocated;
        q->body = p;
        q->body_allocated = room;
        return 0;
}

static void body_drop(MetadataServer *s, MetadataRequest *q, MetadataAnswer a)
{
        s->bodies -= q->body_allocated;
        free(q->body);
        q->body = NULL;
        q->body_size = q->body_allocated = 0;
        q->answer = a;
}

static enum MHD_Result request_body(MetadataServer *s, MetadataRequest *q, const char *p, size_t n)
{
        bool wanted = q->answer == METADATA_ANSWER_NONE && metadata_resource_is_post(q->route.resource);

        if (wanted && n > METADATA_BODY_MAX - q->body_size)
                body_drop(s, q, METADATA_ANSWER_TOO_LARGE);
        else if (wanted && body_reserve(s, q, q->body_size + n) < 0)
                body_drop(s, q, METADATA_ANSWER_BUSY);
        else if (wanted) {
                memcpy(q->body + q->body_size, p, n);
                q->body_size += n;
                return MHD_YES;
        }
        q->discarded += n;
        return q->discarded <= METADATA_DISCARD_MAX ? MHD_YES : MHD_NO;
}

static enum MHD_Result answer_sign(MetadataServer *s, MetadataConnection *c, const MetadataForm *form)
{
        char *signature = malloc(METADATA_SIGNATURE_SIZE);

        if (!signature || metadata_hmac_sign(s->tables->key, form->fields[METADATA_FIELD_CONTENT].value,
                                             form->fields[METADATA_FIELD_CONTENT].size, signature) < 0) {
                free(signature);
                return answer(s, c->http, METADATA_ANSWER_FAILED);
        }
        struct MHD_Response *response = metadata_response_new(signature, METADATA_SIGNATURE_SIZE - 1,
                                                              METADATA_TYPE_TEXT, NULL);
        if (!response)
                return answer(s, c->http, METADATA_ANSWER_FAILED);
        if (s->may_sign) {
                enum MHD_Result r = MHD_queue_response(c->http, MHD_HTTP_OK, response);
                MHD_destroy_response(response);
                return r;
        }
        c->request.signature = response;
        c->request.query_sent = true;
        return metadata_query_may_sign(s, c) < 0 ? answer(s, c->http, METADATA_ANSWER_BUSY) : MHD_YES;
}

static enum MHD_Result answer_verify(MetadataServer *s, MetadataConnection *c, const MetadataForm *form)
{
        const MetadataTables *t = s->tables;
        int r;

        for (MetadataField f = 0; f < _METADATA_FIELD_MAX; f++)
                if (!form->fields[f].value)
                        return answer(s, c->http, METADATA_ANSWER_BAD_FORM);

        if (form->fields[METADATA_FIELD_UUID].size == strlen(t->uuid) &&
            strncasecmp(form->fields[METADATA_FIELD_UUID].value, t->uuid, strlen(t->uuid)) == 0) {
                r = metadata_hmac_verify(t->key, form->fields[METADATA_FIELD_CONTENT].value,
                                         form->fields[METADATA_FIELD_CONTENT].size,
                                         form->fields[METADATA_FIELD_SIGNATURE].value,
                                         form->fields[METADATA_FIELD_SIGNATURE].size);
                return answer(s, c->http, r > 0 ? METADATA_ANSWER_VALID : METADATA_ANSWER_INVALID);
        }
        c->request.query_sent = true;
        r = metadata_query_verify(s, c, form);
        if (r > 0)
                return MHD_YES;
        return answer(s, c->http, r == 0 ? METADATA_ANSWER_INVALID : METADATA_ANSWER_BUSY);
}

static enum MHD_Result request_end(MetadataServer *s, MetadataConnection *c)
{
        MetadataRequest *q = &c->request;
        MetadataForm form;

        if (q->signature && q->answer == METADATA_ANSWER_VALID)
                return MHD_queue_response(c->http, MHD_HTTP_OK, q->signature);
        if (q->answer != METADATA_ANSWER_NONE)
                return answer(s, c->http, q->answer);
        if (q->query_sent)
                return MHD_YES; /* not answered yet */
        if (!metadata_resource_is_post(q->route.resource)) {
                struct MHD_Response *response = metadata_tables_find(s->tables, &q->route);
                return response ? MHD_queue_response(c->http, MHD_HTTP_OK, response)
                                : answer(s, c->http, METADATA_ANSWER_NOT_FOUND);
        }
        if (metadata_form_parse(q->body, q->body_size, &form) < 0 ||
            !form.fields[METADATA_FIELD_CONTENT].value)
                return answer(s, c->http, METADATA_ANSWER_BAD_FORM);
        return q->route.resource == METADATA_HMAC_SIGN ? answer_sign(s, c, &form)
                                                       : answer_verify(s, c, &form);
}

enum MHD_Result metadata_request_handle(void *server, struct MHD_Connection *http, const char *url,
                                        const char *method, const char *version, const char *upload,
                                        size_t *upload_size, void **closure)
{
        MetadataConnection *c = metadata_connection_get(http);
        MetadataServer *s = server;

        if (!c)
                return MHD_NO;
        if (!c->request.begun)
                return request_begin(s, c, url, method);
        if (*upload_size == 0)
                return request_end(s, c);
        enum MHD_Result r = request_body(s, &c->request, upload, *upload_size);
        *upload_size = 0;
        return r;
}
