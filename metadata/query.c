/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Queries to the parent: whether another pod has made a signature, and whether this service may return
 * signatures. The service never gets the keys of other pods.
 *
 * A query is sent with the content in a sealed memfd; its connection is suspended while others are served.
 * The number of pending queries is limited, and each is treated as answered with no if the parent does not
 * answer in time. A late answer is ignored.
 *
 * Permission to sign is queried once, when the first signature is requested; further requests wait for the
 * same answer.
 */

#include "metadata/server.h"

static MetadataQuery *find_free(MetadataServer *s)
{
        for (size_t i = 0; i < METADATA_QUERIES_MAX; i++)
                if (!s->queries[i].connection)
                        return s->queries + i;
        return NULL;
}

static bool copy_field(const MetadataForm *form, MetadataField f, char *ret, size_t size)
{
        if (form->fields[f].size >= size || memchr(form->fields[f].value, 0, form->fields[f].size))
                return false;
        memcpy(ret, form->fields[f].value, form->fields[f].size);
        ret[form->fields[f].size] = 0;
        return true;
}

/* 0: not a valid signature of any pod, no query is needed. */
static int send_query(MetadataServer *s, uint64_t serial, const MetadataForm *form)
{
        MetadataMessage m = {.type = METADATA_MESSAGE_VERIFY, .serial = serial};
        _cleanup_close_ int fd = -EBADF;

        if (!copy_field(form, METADATA_FIELD_UUID, m.uuid, sizeof(m.uuid)) || uuid_check(m.uuid, NULL) < 0 ||
            !copy_field(form, METADATA_FIELD_SIGNATURE, m.signature, sizeof(m.signature)) ||
            strlen(m.signature) != METADATA_SIGNATURE_SIZE - 1)
                return 0;
        int r = metadata_memfd_new("acnspawn-metadata-content", form->fields[METADATA_FIELD_CONTENT].value,
                                   form->fields[METADATA_FIELD_CONTENT].size, &fd);
        if (r >= 0)
                r = metadata_message_send(s->channel, &m, fd);
        return r < 0 ? r : 1;
}

int metadata_query_verify(MetadataServer *s, MetadataConnection *c, const MetadataForm *form)
{
        MetadataQuery *q = find_free(s);

        if (!q)
                return -EBUSY;
        int r = send_query(s, s->query_serial + 1, form);
        if (r <= 0)
                return r == -EAGAIN ? -EBUSY : r;
        *q = (MetadataQuery){
                        .connection = c,
                        .serial = ++s->query_serial,
                        .deadline = s->now + s->tables->verify_timeout_usec,
        };
        s->n_queries++;
        metadata_connection_suspend(s, c);
        return 1;
}

static void complete_query(MetadataServer *s, MetadataQuery *q, bool valid)
{
        MetadataConnection *c = q->connection;

        *q = (MetadataQuery){};
        s->n_queries--;
        c->request.answer = valid ? METADATA_ANSWER_VALID : METADATA_ANSWER_INVALID;
        metadata_connection_resume(s, c);
}

int metadata_query_may_sign(MetadataServer *s, MetadataConnection *c)
{
        const MetadataMessage m = {.type = METADATA_MESSAGE_SIGN, .serial = s->query_serial + 1};

        if (s->sign_serial == 0) {
                int r = metadata_message_send(s->channel, &m, -EBADF);
                if (r < 0)
                        return r;
                s->sign_serial = ++s->query_serial;
                s->sign_deadline = s->now + s->tables->verify_timeout_usec;
        }
        metadata_connection_suspend(s, c);
        c->next = s->sign_waiters;
        s->sign_waiters = c;
        return 1;
}

static void complete_sign_waiters(MetadataServer *s, bool may)
{
        s->may_sign = may;
        s->sign_serial = 0;
        for (MetadataConnection *c; (c = s->sign_waiters);) {
                s->sign_waiters = c->next;
                c->next = NULL;
                c->request.answer = may ? METADATA_ANSWER_VALID : METADATA_ANSWER_BUSY;
                metadata_connection_resume(s, c);
        }
}

void metadata_query_answered(MetadataServer *s, uint64_t serial, bool valid)
{
        if (s->sign_serial > 0 && s->sign_serial == serial)
                complete_sign_waiters(s, valid);
        for (size_t i = 0; i < METADATA_QUERIES_MAX; i++)
                if (s->queries[i].connection && s->queries[i].serial == serial) {
                        complete_query(s, s->queries + i, valid);
                        return;
                }
}

uint64_t metadata_queries_expire(MetadataServer *s)
{
        uint64_t next = UINT64_MAX;

        if (s->sign_serial > 0 && s->sign_deadline <= s->now)
                complete_sign_waiters(s, false);
        if (s->sign_serial > 0)
                next = s->sign_deadline;
        if (s->n_queries == 0)
                return next;
        for (size_t i = 0; i < METADATA_QUERIES_MAX; i++) {
                MetadataQuery *q = s->queries + i;
                if (!q->connection)
                        continue;
                if (q->deadline <= s->now)
                        complete_query(s, q, false);
                else
                        next = MIN(next, q->deadline);
        }
        return next;
}

void metadata_queries_cancel(MetadataServer *s)
{
        complete_sign_waiters(s, false);
        for (size_t i = 0; i < METADATA_QUERIES_MAX; i++)
                if (s->queries[i].connection)
                        complete_query(s, s->queries + i, false);
}
