/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Questions to the parent: whether another pod has made a signature, and whether we may make some. The keys
 * of other pods never come here.
 *
 * A question goes out with the content in a sealed memfd; the connection is suspended and everybody else is
 * served on. The number of questions that wait is bounded, and each is answered with no if the parent has
 * not answered in time. An answer that comes later finds its question gone.
 *
 * Whether we may sign is asked once, when the first signature is asked for; whoever wants one until the
 * answer is there waits with the first.
 */

#include "metadata/server.h"

static MetadataQuestion *find_free(MetadataServer *s)
{
        for (size_t i = 0; i < METADATA_QUESTIONS_MAX; i++)
                if (!s->questions[i].connection)
                        return s->questions + i;
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

/* 0: this can be no pod's signature, there is no need to ask. */
static int send_question(MetadataServer *s, uint64_t serial, const MetadataForm *form)
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

int metadata_question_ask(MetadataServer *s, MetadataConnection *c, const MetadataForm *form)
{
        MetadataQuestion *q = find_free(s);

        if (!q)
                return -EBUSY;
        int r = send_question(s, s->question_serial + 1, form);
        if (r <= 0)
                return r == -EAGAIN ? -EBUSY : r;
        *q = (MetadataQuestion){
                        .connection = c,
                        .serial = ++s->question_serial,
                        .deadline = s->now + s->tables->verify_timeout_usec,
        };
        s->n_questions++;
        metadata_connection_suspend(s, c);
        return 1;
}

static void settle(MetadataServer *s, MetadataQuestion *q, bool valid)
{
        MetadataConnection *c = q->connection;

        *q = (MetadataQuestion){};
        s->n_questions--;
        c->request.answer = valid ? METADATA_ANSWER_VALID : METADATA_ANSWER_INVALID;
        metadata_connection_resume(s, c);
}

int metadata_question_ask_to_sign(MetadataServer *s, MetadataConnection *c)
{
        const MetadataMessage m = {.type = METADATA_MESSAGE_SIGN, .serial = s->question_serial + 1};

        if (s->sign_serial == 0) {
                int r = metadata_message_send(s->channel, &m, -EBADF);
                if (r < 0)
                        return r;
                s->sign_serial = ++s->question_serial;
                s->sign_deadline = s->now + s->tables->verify_timeout_usec;
        }
        metadata_connection_suspend(s, c);
        c->next = s->signers;
        s->signers = c;
        return 1;
}

static void settle_signers(MetadataServer *s, bool may)
{
        s->may_sign = may;
        s->sign_serial = 0;
        for (MetadataConnection *c; (c = s->signers);) {
                s->signers = c->next;
                c->next = NULL;
                c->request.answer = may ? METADATA_ANSWER_VALID : METADATA_ANSWER_BUSY;
                metadata_connection_resume(s, c);
        }
}

void metadata_question_answered(MetadataServer *s, uint64_t serial, bool valid)
{
        if (s->sign_serial > 0 && s->sign_serial == serial)
                settle_signers(s, valid);
        for (size_t i = 0; i < METADATA_QUESTIONS_MAX; i++)
                if (s->questions[i].connection && s->questions[i].serial == serial) {
                        settle(s, s->questions + i, valid);
                        return;
                }
}

uint64_t metadata_questions_expire(MetadataServer *s)
{
        uint64_t next = UINT64_MAX;

        if (s->sign_serial > 0 && s->sign_deadline <= s->now)
                settle_signers(s, false);
        if (s->sign_serial > 0)
                next = s->sign_deadline;
        if (s->n_questions == 0)
                return next;
        for (size_t i = 0; i < METADATA_QUESTIONS_MAX; i++) {
                MetadataQuestion *q = s->questions + i;
                if (!q->connection)
                        continue;
                if (q->deadline <= s->now)
                        settle(s, q, false);
                else
                        next = MIN(next, q->deadline);
        }
        return next;
}

void metadata_questions_cancel(MetadataServer *s)
{
        settle_signers(s, false);
        for (size_t i = 0; i < METADATA_QUESTIONS_MAX; i++)
                if (s->questions[i].connection)
                        settle(s, s->questions + i, false);
}
