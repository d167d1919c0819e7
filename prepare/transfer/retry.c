/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Performs a request with retries.
 *
 * Connections break and servers are overloaded; then the same request is sent again after a while that
 * doubles each time, with a random part so that many hosts do not come back together, or after as long as
 * the server asks for. Definite errors (no such file, invalid certificate) are not retried. A download that
 * progresses is not given up: only attempts without progress count.
 */

#include <poll.h>
#include <sys/random.h>

#include "prepare/transfer/transfer-internal.h"

#define RESTARTS_MAX 3U          /* of a file that is another one each time */
#define SILENT_RETRIES_MAX 2U    /* where nothing answers at all */
#define PROGRESS_SIZE (1U << 20) /* bytes; what gets that much further begins to count anew */
#define DELAY_MAX_USEC (30 * 1000000ULL)

typedef struct Tries {
        unsigned n_retries, n_silent, n_restarts;
        uint64_t best; /* how far it ever got */
} Tries;

void transfer_reply_done(TransferReply *r)
{
        free(r->etag);
        free(r->last_modified);
        free(r->content_type);
        free(r->effective_url);
        free(r->challenge);
        free(r->digest);
        free(r->link);
        free(r->error_body);
        *r = TRANSFER_REPLY_NULL;
}

/* --- When ---------------------------------------------------------------------------------------------- */

/* Between half of it and all of it. */
static uint64_t jitter(uint64_t usec)
{
        uint32_t random = 0;

        if (getrandom(&random, sizeof(random), GRND_NONBLOCK) < 0)
                random = 0;
        return usec / 2 + usec / 2 * (random & 0xffff) / 0xffff;
}

static uint64_t back_off(const Transfer *t, unsigned n)
{
        return jitter(MIN(t->options.retry_delay_usec << MIN(n, 16U), DELAY_MAX_USEC));
}

/* Until when the first server has to answer. 0: there is no such bound. */
static uint64_t answer_deadline(const Transfer *t, const TransferRequest *q)
{
        uint64_t bound = q->is_content ? 0 : t->options.answer_timeout_usec;

        return bound == 0 ? 0 : now_usec(CLOCK_MONOTONIC) + bound;
}

/* Whether to try again, after *RET. */
static bool is_worthwhile(const Transfer *t, const TransferRequest *q, const Result *result,
                          const Sink *sink, Tries *tries, uint64_t *ret)
{
        uint64_t wait = result->response.retry_after_usec;

        if (result->again == AGAIN_AT_ONCE) {
                *ret = 0;
                return tries->n_restarts++ < RESTARTS_MAX;
        }
        if (sink->done >= tries->best && sink->done - tries->best >= PROGRESS_SIZE) {
                tries->best = sink->done;
                tries->n_retries = tries->n_silent = 0;
        }
        if (result->again == AGAIN_NEVER || (result->again == AGAIN_IF_NOT_PROBE && q->probe))
                return false;
        if (result->again == AGAIN_IF_NOT_PROBE && tries->n_silent++ >= SILENT_RETRIES_MAX)
                return false;
        if (tries->n_retries >= t->options.n_retries)
                return false;
        bool has_wait = result->response.status >= 400 && wait != UNKNOWN;
        if (has_wait && wait > t->options.retry_after_max_usec)
                return false;
        *ret = has_wait ? wait + jitter(t->options.retry_delay_usec) : back_off(t, tries->n_retries);
        tries->n_retries++;
        return true;
}

static int pause_for(const Transfer *t, uint64_t usec, Error *e)
{
        uint64_t end = now_usec(CLOCK_MONOTONIC) + usec;

        for (;;) {
                uint64_t now = now_usec(CLOCK_MONOTONIC);
                uint64_t left = end > now ? end - now : 0;
                int r = operation_poll(t->options.operation, -1, 0, (int) MIN((left + 999) / 1000, 60000ULL),
                                       e);
                if (r < 0 || left == 0)
                        return r;
        }
}

/* What the server wants us to wait is part of the story when that is too long. */
static int give_up(const Transfer *t, const Result *result, int code, Error *e)
{
        uint64_t wait = result->response.retry_after_usec;

        if (result->again == AGAIN_AT_ONCE)
                return error_hint(e, code, "It changes while it is being downloaded: try again later.");
        if (result->response.status < 400 || wait == UNKNOWN || wait <= t->options.retry_after_max_usec)
                return code;
        return error_hint(e, code, "The server asks to come back in %llu s.",
                          (unsigned long long) (wait / 1000000));
}

/* --- The request --------------------------------------------------------------------------------------- */

static void fill_in_reply(Result *from, bool connected, TransferReply *to)
{
        Response *r = &from->response;

        transfer_reply_done(to);
        *to = (TransferReply){
                        .status = r->status,
                        .elsewhere = from->elsewhere,
                        .connected = connected,
                        .not_modified = r->status == 304,
                        .etag = TAKE_PTR(r->etag),
                        .last_modified = r->last_modified_is_strong ? TAKE_PTR(r->last_modified) : NULL,
                        .content_type = TAKE_PTR(r->content_type),
                        .effective_url = TAKE_PTR(from->effective_url),
                        .challenge = TAKE_PTR(r->challenge),
                        .digest = TAKE_PTR(r->digest),
                        .link = TAKE_PTR(r->link),
                        .error_body = TAKE_PTR(r->error_body),
                        .expires_usec = r->expires_usec,
        };
}

int transfer_perform(Transfer *t, const TransferRequest *q, Sink *sink, TransferReply *reply, Error *e)
{
        _cleanup_(result_done) Result result = {};
        _cleanup_error_ Error error = ERROR_NULL;
        uint64_t answer_usec = answer_deadline(t, q);
        Tries tries = {.best = sink->done};
        bool connected = false;
        uint64_t delay = 0;
        int r;

        for (;;) {
                error_done(&error);
                result_done(&result);
                r = operation_check(t->options.operation, &error);
                if (r >= 0)
                        r = transfer_follow(t, q, answer_usec, sink, &result, &error);
                connected = connected || result.connected;
                if (sink->received > 0 ||
                    result.again == AGAIN_AT_ONCE) /* it has answered, with content: that is resumed */
                        answer_usec = 0;
                if (r >= 0 || operation_ended(r) || !is_worthwhile(t, q, &result, sink, &tries, &delay))
                        break;
                if (answer_usec > 0 && now_usec(CLOCK_MONOTONIC) + delay >= answer_usec)
                        break;
                if (result.again != AGAIN_AT_ONCE)
                        transfer_note(t, "%s; trying again in %.1f s", error.message ?: "It failed",
                                      (double) delay / 1e6);
                r = pause_for(t, delay, &error);
                if (r < 0)
                        break;
        }
        if (r < 0 && !operation_ended(r))
                r = give_up(t, &result, r, &error);
        fill_in_reply(&result, connected, reply);
        if (r < 0)
                (void) error_move(e, &error);
        return r;
}
