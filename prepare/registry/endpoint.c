/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One place of a registry, host and repository, and requests to it.
 *
 * A request goes out over https. Where configuration or the user allows http, it is tried when no
 * connection by TLS can be set up, and kept for what follows; never after there was such a connection. A
 * reply of 401 is answered once, by what endpoint-auth.c comes up with; a second one is the end, so that no
 * registry can keep us going in circles. What a registry says about a failure goes into the message.
 *
 * Registries redirect requests to other servers. The replies and failures of these count for the one request
 * only: a challenge of theirs does not get the registry's credentials, and that they cannot be reached
 * neither switches the registry to http nor marks it as unreachable.
 */

#include "prepare/registry/endpoint.h"

void endpoint_init(Endpoint *p, RegistryPlace *place, Transfer *t, const RegistryOptions *o)
{
        *p = (Endpoint){
                        .place = *place,
                        .transfer = t,
                        .options = o,
        };
        p->insecure = o->insecure | endpoint_insecure_options(p);
        *place = (RegistryPlace){};
        (void) pthread_mutex_init(&p->lock, NULL);
}

void endpoint_done(Endpoint *p)
{
        free(p->place.host);
        free(p->place.repository);
        free(p->place.insecure_by);
        registry_certificates_done(&p->certificates);
        authorization_free(p->basic);
        authorization_free(p->bearer);
        authorization_free(p->identity_token);
        free(p->origin);
        authorization_free(p->authorization);
        (void) pthread_mutex_destroy(&p->lock);
}

/* --- What is insecure ---------------------------------------------------------------------------------- */

static bool test_and_set(Endpoint *p, bool *flag)
{
        (void) pthread_mutex_lock(&p->lock);
        bool was = *flag;
        *flag = true;
        (void) pthread_mutex_unlock(&p->lock);
        return was;
}

/* The hole that a file opens is as worth a line as one that an option opens. */
static void note_insecure(Endpoint *p)
{
        Notes notes = {p->options->note, p->options->userdata};

        if (p->place.insecure_by && !test_and_set(p, &p->insecure_noted))
                notes_add(&notes,
                          "Anybody on the way can read and change what comes from '%s': %s has insecure = "
                          "true for it",
                          p->place.host, p->place.insecure_by);
}

static bool may_use_http(Endpoint *p)
{
        (void) pthread_mutex_lock(&p->lock);
        bool may = p->insecure & INSECURE_HTTP && !p->https;
        (void) pthread_mutex_unlock(&p->lock);
        return may;
}

/* After a request by SCHEME with the result R: true if no connection by https came about, and it is to be
 * repeated, as this may be a registry that speaks http only. */
static bool try_http(Endpoint *p, const char *scheme, const TransferReply *reply, int r)
{
        static const int codes[] = {ECONNREFUSED, ECONNRESET, EKEYREJECTED, EKEYEXPIRED, EBADMSG, EIO};

        if (streq(scheme, "https") && reply->connected)
                (void) test_and_set(p, &p->https);
        if (!streq(scheme, "https") || !may_use_http(p))
                return false;
        for (size_t i = 0; i < ELEMENTSOF(codes); i++)
                if (r == -codes[i]) {
                        (void) test_and_set(p, &p->http);
                        return true;
                }
        return false;
}

/* --- What went wrong ----------------------------------------------------------------------------------- */

static int explain_silence(const Endpoint *p, int r, Error *e)
{
        if (p->insecure & INSECURE_HTTP || !e || e->hint || (r != -EKEYREJECTED && r != -EBADMSG))
                return r;
        return error_hint(e, r,
                          "If '%s' speaks plain http, and it does not matter that anybody on the way could "
                          "change the image: --insecure-options=http, or insecure = true in registries.conf "
                          "(acnspawn-registries(5)).",
                          p->place.host);
}

/* What the registry says, in place of what HTTP says. */
static int explain(const Endpoint *p, const EndpointRequest *q, const TransferReply *reply, int r, Error *e)
{
        _cleanup_free_ char *text = NULL, *code = NULL;

        if (operation_ended(r) || r == -ENOMEM)
                return r;
        if (reply->elsewhere && (reply->status == 401 || reply->status == 403))
                return error_hint(e, r,
                                  "The registry '%s' redirects to that server, which does not get the "
                                  "registry's credentials.",
                                  p->place.host);
        if (reply->elsewhere)
                return r;
        if (reply->status < 400)
                return explain_silence(p, r, e);
        if (reply->error_body &&
            registry_error_parse(reply->error_body, strlen(reply->error_body), &text, &code) > 0)
                r = error_set(e, r, "Cannot fetch %s: the registry '%s' says (%u): %s", q->what,
                              p->place.host, reply->status, text);
        const char *hint = registry_error_hint(code, reply->status);
        if (!hint)
                return r;
        /* A convention of the largest registry, which others follow. */
        bool own = !strchr(p->place.repository, '/') && reply->status < 429;
        return error_hint(e, r, "%s%s%s%s", hint,
                          own ? " The images of a registry itself are often 'library/" : "",
                          own ? p->place.repository : "", own ? "' there." : "");
}

/* --- Requests ------------------------------------------------------------------------------------------ */

/* Where the body goes. */
typedef struct Body {
        Store *store; /* or NULL: into memory */
        char **text;
        size_t *size;
        int *fd;
} Body;

static int perform(Endpoint *p, const TransferRequest *q, const Body *b, TransferReply *reply, Error *e)
{
        return b->store ? transfer_download(p->transfer, q, b->store, b->fd, reply, e)
                        : transfer_get(p->transfer, q, b->text, b->size, reply, e);
}

static int try_once(Endpoint *p, const EndpointRequest *q, const char *scheme, const char *authorization,
                    const Body *b, TransferReply *reply, Error *e)
{
        _cleanup_free_ char *url = NULL;
        TransferTls tls = {};

        int r = endpoint_tls(p, &tls, e);
        if (r < 0)
                return r;
        if (xasprintf(&url, "%s://%s/v2/%s/%s", scheme, p->place.host, p->place.repository, q->path) < 0)
                return error_oom(e);
        const TransferRequest request = {
                        .url = url,
                        .headers = q->headers,
                        .etag = q->etag,
                        .authorization = authorization,
                        .size_max = q->size_max,
                        .what = q->what,
                        .insecure = endpoint_insecure_options(p),
                        .tls = &tls,
                        .is_content = b->store,
                        .probe = q->has_alternatives || (streq(scheme, "https") && may_use_http(p)),
                        .progress = q->progress,
                        .userdata = q->userdata,
        };
        return perform(p, &request, b, reply, e);
}

static int ask(Endpoint *p, const EndpointRequest *q, const Body *b, TransferReply *reply, Error *e)
{
        bool authenticated = false;

        note_insecure(p);
        for (;;) {
                _cleanup_(authorization_freep) char *authorization = endpoint_authorization(p);
                const char *scheme = endpoint_scheme(p);

                if (!authorization)
                        return error_oom(e);
                transfer_reply_done(reply);
                int r = try_once(p, q, scheme, authorization, b, reply, e);
                bool http = try_http(p, scheme, reply, r);
                if (r >= 0)
                        return r;
                if (http)
                        continue;
                if (reply->status == 0 && !reply->elsewhere && !operation_ended(r) && r != -ENOMEM)
                        (void) test_and_set(p, &p->unreachable);
                if (reply->status != 401 || reply->elsewhere || authenticated)
                        return explain(p, q, reply, r, e);
                r = endpoint_authenticate(p, reply->challenge, authorization, e);
                if (operation_ended(r) || r == -ENOMEM)
                        return r;
                if (r < 0)
                        return error_prefix(e, r, "Cannot fetch %s from the registry '%s'", q->what,
                                            p->place.host);
                authenticated = true;
        }
}

int endpoint_get(Endpoint *p, const EndpointRequest *q, char **ret_body, size_t *ret_size,
                 TransferReply *ret, Error *e)
{
        const Body b = {.text = ret_body, .size = ret_size};

        *ret = TRANSFER_REPLY_NULL;
        return ask(p, q, &b, ret, e);
}

int endpoint_download(Endpoint *p, const EndpointRequest *q, Store *s, int *ret_fd, TransferReply *ret,
                      Error *e)
{
        const Body b = {.store = s, .fd = ret_fd};

        *ret = TRANSFER_REPLY_NULL;
        return ask(p, q, &b, ret, e);
}
