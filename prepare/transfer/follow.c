/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Performs a request and follows its redirects.
 *
 * libcurl's own redirects are not used, as more has to be checked at each step: a redirect from https must
 * lead to https, and only http and https are allowed; and data for one host, above all credentials, is not
 * sent to another, nor to the first host after a redirect through another.
 */

#include "prepare/transfer/transfer-internal.h"

#define REDIRECTS_MAX 10U

void result_done(Result *r)
{
        response_done(&r->response);
        free(r->effective_url);
        *r = (Result){};
}

/* The current request of a chain of redirects. */
typedef struct Step {
        Transfer *transfer;
        const TransferRequest *request;
        Url url;
        uint64_t answer_usec; /* as of transfer_follow(); anew after each redirect */
        bool same_origin;     /* all redirects so far stayed at the first origin */
        unsigned n_redirects;
        char *shown;
        Credential credential;
} Step;

static void step_done(Step *s)
{
        url_done(&s->url);
        free(s->shown);
        credential_done(&s->credential);
}

/* --- What is sent along -------------------------------------------------------------------------------- */

/* The credentials for the first host: the caller's, the URL's, or those of auth.d. */
static int find_credentials(Step *s, Error *e)
{
        const char *given = s->request->authorization;

        int r = transfer_find_credential(s->transfer, &s->url, &s->credential, e);
        if (r < 0)
                return r;
        if (!given && !s->url.user)
                return 0;
        s->credential.authorization = authorization_free(s->credential.authorization);
        free(TAKE_PTR(s->credential.origin));
        if (given && !given[0])
                return 0;
        if (given) {
                s->credential.authorization = strdup(given);
                return s->credential.authorization ? 0 : error_oom(e);
        }
        r = authorization_basic(s->url.user, s->url.password ?: "", &s->credential.authorization);
        if (r == -EINVAL)
                return error_set(e, r,
                                 "The user or password in the URL '%s' has characters that it cannot have",
                                 s->shown);
        return r < 0 ? error_oom(e) : 0;
}

static bool is_fit_for_header(const char *s)
{
        for (; *s; s++)
                if ((unsigned char) *s < ' ' && *s != '\t')
                        return false;
        return true;
}

static int append(struct curl_slist **l, const char *line)
{
        if (!is_fit_for_header(line))
                return -EINVAL;
        struct curl_slist *n = curl_slist_append(*l, line);
        if (!n)
                return -ENOMEM;
        *l = n;
        return 0;
}

static int add_headers(const Step *s, struct curl_slist **l)
{
        _cleanup_(authorization_freep) char *line = NULL;
        int r = 0;

        STRV_FOREACH (h, s->request->headers) {
                if (s->same_origin || strncasecmp(*h, "Accept", strlen("Accept")) == 0)
                        r = append(l, *h);
                if (r < 0)
                        return r;
        }
        if (!s->same_origin || !s->credential.authorization)
                return 0;
        r = xasprintf(&line, "Authorization: %s", s->credential.authorization);
        return r < 0 ? r : append(l, line);
}

/* Insecure TLS that a request allows applies to its host only. A redirect from http to http elsewhere is not
 * weaker. */
static unsigned insecure_options(const Step *s)
{
        unsigned of_request = s->request->insecure;

        return s->transfer->options.insecure |
               (s->same_origin ? of_request : of_request & ~(unsigned) INSECURE_TLS);
}

static void note_insecure_options(const Step *s)
{
        if (streq(s->url.scheme, "http") && !(s->same_origin && s->request->insecure & INSECURE_HTTP))
                transfer_note_insecure(s->transfer, INSECURE_HTTP, s->shown);
        else if (s->transfer->options.insecure & INSECURE_TLS)
                transfer_note_insecure(s->transfer, INSECURE_TLS, s->shown);
}

/* --- Redirects ----------------------------------------------------------------------------------------- */

/* Checks that TO may be gone to from where we are. */
static int check_redirect(const Step *s, const Exchange *x, const Url *to, const char *shown, Error *e)
{
        bool secure = streq(to->scheme, "https");

        if (!secure && !streq(to->scheme, "http"))
                return exchange_error(x, e, -EPERM, "it redirects to '%s', and only https is followed",
                                      shown);
        if (!secure && streq(s->url.scheme, "https")) {
                int r = exchange_error(x, e, -EPERM, "it redirects to '%s', from https to http", shown);
                return error_hint(e, r,
                                  "An attacker on the network could change the response. Tell the "
                                  "administrator of the server.");
        }
        if (s->n_redirects >= REDIRECTS_MAX)
                return exchange_error(x, e, -ELOOP, "it redirects more than %u times, now to '%s'",
                                      REDIRECTS_MAX, shown);
        return 0;
}

static bool same_host(const Url *a, const Url *b)
{
        return a->port == b->port && streq(a->host, b->host) && streq(a->scheme, b->scheme);
}

static int step_to(Step *s, const Exchange *x, Error *e)
{
        _cleanup_(url_done) Url to = {};
        _cleanup_free_ char *shown = url_for_display_without_query(x->response.location);

        if (!shown)
                return error_oom(e);
        int r = x->response.location ? url_split(x->response.location, &to) : -EINVAL;
        if (r == -ENOMEM)
                return error_oom(e);
        if (r < 0)
                return exchange_error(x, e, -EBADMSG,
                                      "it redirects (%u), but does not say where to in a URL",
                                      x->response.status);
        r = check_redirect(s, x, &to, shown, e);
        if (r < 0)
                return r;
        s->same_origin = s->same_origin && same_host(&s->url, &to);
        s->n_redirects++;
        if (s->answer_usec > 0) /* each server has its own time */
                s->answer_usec = now_usec(CLOCK_MONOTONIC) + s->transfer->options.answer_timeout_usec;
        url_done(&s->url);
        s->url = to;
        to = (Url){};
        free(s->shown);
        s->shown = TAKE_PTR(shown);
        return 0;
}

/* --- All steps ----------------------------------------------------------------------------------------- */

static bool is_redirect(unsigned status)
{
        return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* 1: there is an answer. 0: one step further. */
static int evaluate_answer(Step *s, Exchange *x, Error *e)
{
        unsigned status = x->response.status;

        if (status >= 200 && status < 300)
                return 1;
        if (status == 304 && (s->request->etag || s->request->last_modified))
                return 1;
        if (is_redirect(status) && s->request->form)
                return exchange_error(x, e, -EPROTO,
                                      "it redirects (%u) a POST request, which is not followed", status);
        if (is_redirect(status))
                return step_to(s, x, e);
        if (status == 416 && x->sink->is_complete && x->sink->is_complete(x->sink, &x->response))
                return 1;
        int r = exchange_explain_status(x, e);
        if (status == 416 && x->sink->done > 0) { /* the file is now shorter than the downloaded part */
                x->sink->done = 0;
                x->again = AGAIN_AT_ONCE;
        }
        return r;
}

static int make_step(Step *s, Sink *sink, Result *ret, Error *e)
{
        _cleanup_(exchange_done) Exchange x = {
                        .transfer = s->transfer,
                        .request = s->request,
                        .url = s->url.plain,
                        .shown = s->shown,
                        .credential = s->same_origin ? &s->credential : NULL,
                        .insecure = insecure_options(s),
                        .sink = sink,
                        .answer_usec = s->answer_usec,
                        .deadline_usec = sink->time_max_usec != 0
                                                         ? now_usec(CLOCK_MONOTONIC) + sink->time_max_usec
                                                         : 0,
        };

        note_insecure_options(s);
        int r = add_headers(s, &x.headers);
        if (r < 0)
                return r == -EINVAL ? error_set(e, r, "A header for '%s' has characters that it cannot have",
                                                s->shown)
                                    : error_oom(e);
        r = exchange_run(&x, e);
        ret->connected = ret->connected || s->n_redirects > 0 || x.connected;
        if (r >= 0)
                r = evaluate_answer(s, &x, e);
        if (r != 0) {
                response_done(&ret->response);
                ret->response = x.response;
                x.response = (Response){};
                ret->again = x.again;
        }
        return r;
}

int transfer_follow(Transfer *t, const TransferRequest *q, uint64_t answer_usec, Sink *sink, Result *ret,
                    Error *e)
{
        _cleanup_(step_done) Step s = {
                        .transfer = t, .request = q, .answer_usec = answer_usec, .same_origin = true};
        _cleanup_(result_done) Result result = {};

        int r = url_check(q->url, t->options.insecure | q->insecure, e);
        if (r < 0)
                return r;
        s.shown = url_for_display(q->url);
        if (!s.shown || url_split(q->url, &s.url) < 0)
                return error_oom(e);
        r = find_credentials(&s, e);
        while (r == 0)
                r = make_step(&s, sink, &result, e);
        result.effective_url = TAKE_PTR(s.url.plain);
        result.elsewhere = !s.same_origin;
        result_done(ret);
        *ret = result;
        result = (Result){};
        return r < 0 ? r : 0;
}
