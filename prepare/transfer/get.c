/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The body into memory: for documents, which are small. */

#include "prepare/transfer/transfer-internal.h"

#define GET_TIME_MAX_USEC (300 * 1000000ULL)

typedef struct Memory {
        Sink sink; /* first */
        Text text;
} Memory;

/* Each try begins anew. */
static int memory_begin(Sink *s, const Response *r, Error *e)
{
        Memory *m = (Memory *) s;

        if (r->status == 206)
                return error_set(e, -EBADMSG, "the server sends a part where all was asked for (206)");
        text_done(&m->text);
        m->text = (Text){};
        s->done = 0;
        s->total = r->length;
        return 0;
}

static int memory_write(Sink *s, const void *data, size_t n, Error *e)
{
        Memory *m = (Memory *) s;

        text_add_bytes(&m->text, data, n);
        return m->text.failed ? error_oom(e) : 0;
}

int transfer_get(Transfer *t, const TransferRequest *r, char **ret_body, size_t *ret_size,
                 TransferReply *ret, Error *e)
{
        _cleanup_(transfer_reply_done) TransferReply own = TRANSFER_REPLY_NULL;
        TransferReply *reply = ret ?: &own;
        _cleanup_free_ char *body = NULL;
        size_t size = 0;
        Memory m = {.sink = {.begin = memory_begin,
                             .write = memory_write,
                             .total = UNKNOWN,
                             .time_max_usec = GET_TIME_MAX_USEC,
                             .size_max = r->size_max ?: TRANSFER_GET_MAX}};

        *reply = TRANSFER_REPLY_NULL;
        int k = transfer_perform(t, r, &m.sink, reply, e);
        if (k >= 0 && !reply->not_modified && text_take(&m.text, &body, &size) < 0)
                k = error_oom(e);
        text_done(&m.text);
        if (k < 0)
                return k;
        *ret_body = TAKE_PTR(body);
        if (ret_size)
                *ret_size = size;
        return 0;
}
