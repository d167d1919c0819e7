/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Authentication at a registry. The first request has no credentials; a registry that requires
 * authentication answers 401 with the scheme: user and password with each request (Basic), or a token of a
 * token service (Bearer), with or without credentials. Tokens are for one repository, as is an endpoint, and
 * are kept while they are valid.
 *
 * The registry names the token service. According to the protocol it gets the credentials for this registry,
 * but never those for the service's own host: otherwise a registry could name another party's service and
 * obtain a token for that. It is requested over https, or over http if that is allowed for this registry.
 */

#include "prepare/registry/endpoint.h"

#define TOKEN_REPLY_MAX (256U * 1024U)
/* A token that is about to expire is not used, as it might expire in transit. */
#define TOKEN_MARGIN_USEC (10 * 1000000ULL)

const char *endpoint_scheme(Endpoint *p)
{
        (void) pthread_mutex_lock(&p->lock);
        const char *scheme = p->http && !p->https ? "http" : "https";
        (void) pthread_mutex_unlock(&p->lock);
        return scheme;
}

/* Under the lock of P. */
static bool is_valid(const Endpoint *p)
{
        return p->authorization && now_usec(CLOCK_BOOTTIME) < p->expires_usec;
}

char *endpoint_authorization(Endpoint *p)
{
        (void) pthread_mutex_lock(&p->lock);
        char *copy = strdup(is_valid(p) ? p->authorization : "");
        (void) pthread_mutex_unlock(&p->lock);
        return copy;
}

/* --- Certificates -------------------------------------------------------------------------------------- */

static int find_certificates(Endpoint *p, Error *e)
{
        int r = p->certificates_known ? 0 : registry_certificates_find(p->place.host, &p->certificates, e);

        p->certificates_known = r >= 0;
        return r;
}

int endpoint_tls(Endpoint *p, TransferTls *ret, Error *e)
{
        (void) pthread_mutex_lock(&p->lock);
        int r = find_certificates(p, e);
        (void) pthread_mutex_unlock(&p->lock);
        if (r < 0)
                return r;
        *ret = (TransferTls){.authorities = p->certificates.authorities,
                             .certificate = p->certificates.certificate,
                             .key = p->certificates.key,
                             .origin = p->certificates.directory};
        return 0;
}

/* --- Credentials --------------------------------------------------------------------------------------- */

/* auth.d provides a complete header. */
static int read_auth_d(Endpoint *p, Error *e)
{
        _cleanup_(authorization_freep) char *header = NULL;
        _cleanup_free_ char *url = NULL;

        /* With that scheme in any case: credentials are for the name, and nothing is sent here. */
        if (xasprintf(&url, "https://%s/", p->place.host) < 0)
                return error_oom(e);
        free(TAKE_PTR(p->origin));
        int r = transfer_authorization(p->transfer, url, &header, &p->origin, e);
        if (r <= 0 || !header)
                return r;
        if (strncasecmp(header, "Bearer ", strlen("Bearer ")) == 0)
                p->bearer = TAKE_PTR(header);
        else
                p->basic = TAKE_PTR(header);
        return 1;
}

static int read_files(Endpoint *p, Error *e)
{
        _cleanup_(registry_credentials_done) RegistryCredentials c = {};
        Notes notes = {p->options->note, p->options->userdata};

        int r = registry_credentials_find(p->place.host, p->place.repository,
                                          transfer_operation(p->transfer), &notes, &c, e);
        if (r <= 0)
                return r;
        free(p->origin);
        p->origin = TAKE_PTR(c.origin);
        if (c.identity_token) {
                p->identity_token = TAKE_PTR(c.identity_token);
                return 1;
        }
        r = authorization_basic(c.user, c.password, &p->basic);
        if (r == -EINVAL)
                return error_set(e, r,
                                 "%s: the user or password for '%s' has characters that it cannot have",
                                 p->origin, p->place.host);
        return r < 0 ? error_oom(e) : 1;
}

/* 1: the caller has credentials for this endpoint. */
static int use_login(Endpoint *p, Error *e)
{
        const RegistryLogin *l = p->options->login;

        if (!l || (l->registry ? !streq(l->registry, p->place.host) : p->place.mirror))
                return 0;
        int r = 0;
        if (l->bearer_token)
                r = xasprintf(&p->bearer, "Bearer %s", l->bearer_token);
        else if (l->identity_token)
                r = (p->identity_token = strdup(l->identity_token)) ? 0 : -ENOMEM;
        else
                r = authorization_basic(l->user ?: "", l->password ?: "", &p->basic);
        if (r == -EINVAL)
                return error_set(e, r, "The user or password for '%s' has characters that it cannot have",
                                 p->place.host);
        free(p->origin);
        p->origin = strdup("the caller");
        return r < 0 || !p->origin ? error_oom(e) : 1;
}

/* acnspawn's own configuration takes precedence over the files of others. */
static int find_credentials(Endpoint *p, Error *e)
{
        if (p->credentials_known)
                return 0;
        int r = use_login(p, e);
        if (r == 0)
                r = read_auth_d(p, e);
        if (r == 0)
                r = read_files(p, e);
        if (r < 0)
                return r;
        p->credentials_known = true;
        return 0;
}

/* --- Tokens -------------------------------------------------------------------------------------------- */

static void add_encoded(Text *t, const char *value, size_t n)
{
        static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";

        for (size_t i = 0; i < n; i++)
                if (value[i] && strchr(plain, value[i]))
                        text_add_bytes(t, value + i, 1);
                else
                        text_addf(t, "%%%02X", (unsigned char) value[i]);
}

/* What the token is for, as a query or form: the service's name, and the scopes, which spaces separate. */
static int format_purpose(const Endpoint *p, const RegistryChallenge *c, char **ret)
{
        _cleanup_text_ Text t = {};
        _cleanup_free_ char *own = NULL;

        if (isempty(c->scope) && xasprintf(&own, "repository:%s:pull", p->place.repository) < 0)
                return -ENOMEM;
        if (c->service) {
                text_add(&t, "service=");
                add_encoded(&t, c->service, strlen(c->service));
        }
        for (const char *s = own ?: c->scope; *s;) {
                size_t n = strcspn(s, " ");
                if (n > 0) {
                        text_add(&t, t.size > 0 ? "&scope=" : "scope=");
                        add_encoded(&t, s, n);
                }
                s += n + strspn(s + n, " ");
        }
        return text_take(&t, ret, NULL);
}

/* The token service in messages: what is refused there is not the registry's doing. */
static int token_error(const Endpoint *p, const RegistryChallenge *c, int code, const TransferReply *reply,
                       Error *e)
{
        _cleanup_free_ char *text = NULL, *error_code = NULL, *service = url_for_display(c->realm);

        if (reply->error_body && !reply->elsewhere &&
            registry_error_parse(reply->error_body, strlen(reply->error_body), &text, &error_code) > 0)
                code = error_set(e, code, "its token service '%s' says (%u): %s", service ?: "?",
                                 reply->status, text);
        else
                code = error_prefix(e, code, "its token service '%s' returned no token", service ?: "?");
        if ((reply->status == 401 || reply->status == 403) && !reply->elsewhere && p->origin &&
            (p->basic || p->identity_token))
                return error_hint(e, code,
                                  "The credentials from %s were sent: check user and password in it.",
                                  p->origin);
        const char *hint = registry_error_hint(error_code, reply->status);
        return hint ? error_hint(e, code, "%s", hint) : code;
}

static bool is_on_host_of(const Endpoint *p, const char *realm)
{
        _cleanup_free_ char *url = NULL, *ours = NULL, *theirs = NULL;

        return xasprintf(&url, "https://%s/", p->place.host) >= 0 && url_host(url, &ours) >= 0 &&
               url_host(realm, &theirs) >= 0 && streq(ours, theirs);
}

/* A token by URL, or by a FORM that is sent there. */
static int ask_for_token(Endpoint *p, const RegistryChallenge *c, const char *url, const char *form,
                         char **ret, uint64_t *ret_seconds, Error *e)
{
        _cleanup_(transfer_reply_done) TransferReply reply = TRANSFER_REPLY_NULL;
        _cleanup_(authorization_freep) char *body = NULL, *token = NULL;
        _cleanup_error_ Error why = ERROR_NULL;
        size_t size;
        /* For a token service the registry's authorities are trusted as well, but the client certificate is
         * only for the registry itself. */
        const TransferTls tls = {.authorities = p->certificates.authorities,
                                 .origin = p->certificates.directory};
        const TransferRequest q = {
                        .url = url,
                        .tls = &tls,
                        .no_certificate = !is_on_host_of(p, c->realm),
                        .form = form,
                        .authorization = form || !p->basic ? "" : p->basic,
                        .size_max = TOKEN_REPLY_MAX,
                        .what = "a token",
                        .insecure = endpoint_insecure_options(p),
        };

        int r = transfer_get(p->transfer, &q, &body, &size, &reply, e);
        if (operation_ended(r) || r == -ENOMEM)
                return r;
        if (r < 0)
                return token_error(p, c, r, &reply, e);
        r = registry_token_parse(body, size, &token, ret_seconds, &why);
        if (r < 0) {
                error_set(e, r, "%s", why.message ?: strerror(-r));
                return token_error(p, c, r, &reply, e);
        }
        return xasprintf(ret, "Bearer %s", token) < 0 ? error_oom(e) : 0;
}

/* A realm that is asked: over https, or over http where the registry may be, without a fragment. */
static int check_realm(const Endpoint *p, const RegistryChallenge *c, Error *e)
{
        if (isempty(c->realm))
                return error_set(e, -EBADMSG, "it requires a token, but names no token service");
        int r = strchr(c->realm, '#') ? -EINVAL : url_check(c->realm, p->insecure, e);
        if (r == -ENOMEM)
                return r;
        if (r < 0) {
                _cleanup_free_ char *shown = url_for_display(c->realm);
                r = error_set(e, r, "it requires a token of '%s', which is not used: %s", shown ?: "?",
                              r == -EPERM ? "it would be sent without protection"
                                          : "that is not a URL of a service");
                return r == -EPERM ? error_hint(e, r, "The registry has to offer tokens by https.") : r;
        }
        return 0;
}

static int get_token(Endpoint *p, const RegistryChallenge *c, Error *e)
{
        _cleanup_(authorization_freep) char *form = NULL, *header = NULL;
        _cleanup_free_ char *url = NULL, *purpose = NULL;
        uint64_t seconds;

        int r = check_realm(p, c, e);
        if (r < 0)
                return r;
        if (format_purpose(p, c, &purpose) < 0)
                return error_oom(e);
        if (p->identity_token) {
                _cleanup_text_ Text encoded = {};
                add_encoded(&encoded, p->identity_token, strlen(p->identity_token));
                text_add_bytes(&encoded, "", 1);
                if (encoded.failed ||
                    xasprintf(&form, "grant_type=refresh_token&client_id=acnspawn&%s&refresh_token=%s",
                              purpose, encoded.data) < 0)
                        return error_oom(e);
                explicit_bzero(encoded.data, encoded.size);
        } else if (xasprintf(&url, "%s%s%s", c->realm, strchr(c->realm, '?') ? "&" : "?", purpose) < 0)
                return error_oom(e);
        r = ask_for_token(p, c, url ?: c->realm, form, &header, &seconds, e);
        if (r < 0)
                return r;
        uint64_t life = seconds * 1000000;
        authorization_free(p->authorization);
        p->authorization = TAKE_PTR(header);
        p->expires_usec = now_usec(CLOCK_BOOTTIME) + life - MIN(life / 2, TOKEN_MARGIN_USEC);
        return 0;
}

/* --- Authentication
 * -------------------------------------------------------------------------------------- */

static int refuse(const Endpoint *p, const RegistryChallenge *c, const char *used, Error *e)
{
        int r;

        if (!isempty(used) && (p->basic || p->bearer)) {
                r = error_set(e, -EACCES, "it does not take the credentials from %s, which were sent (401)",
                              p->origin ?: "this host");
                return error_hint(e, r, "See whether user and password in %s are right.",
                                  p->origin ?: "its files");
        }
        if (!c->basic && !c->bearer)
                r = error_set(e, -EACCES,
                              "it requires authentication by the scheme '%s', which is not supported",
                              c->other ?: "?");
        else
                r = error_set(e, -EACCES,
                              "it requires authentication, and there are no credentials for it (401)");
        return error_hint(e, r, "%s", registry_error_hint(NULL, 401));
}

static int use_header(Endpoint *p, const char *header, Error *e)
{
        char *copy = strdup(header);

        if (!copy)
                return error_oom(e);
        authorization_free(p->authorization);
        p->authorization = copy;
        p->expires_usec = UINT64_MAX;
        return 0;
}

/* Under the lock of P, so that several threads do not all ask for the token. */
static int authenticate(Endpoint *p, const char *challenge, const char *used, Error *e)
{
        _cleanup_(registry_challenge_done) RegistryChallenge c = {};

        /* Another thread was faster. */
        if (is_valid(p) && !streq(p->authorization, used))
                return 0;
        if (!challenge)
                return error_set(e, -EACCES,
                                 "it requires authentication, but does not say by which scheme (401)");
        int r = registry_challenge_parse(challenge, &c, e);
        if (r >= 0)
                r = find_credentials(p, e);
        if (r < 0)
                return r;
        /* A header that is for good was refused. */
        if (!isempty(used) && (streq_ptr(used, p->basic) || streq_ptr(used, p->bearer)))
                return refuse(p, &c, used, e);
        if (c.bearer && p->bearer)
                return use_header(p, p->bearer, e);
        if (c.bearer)
                return get_token(p, &c, e);
        if (c.basic && p->basic)
                return use_header(p, p->basic, e);
        return refuse(p, &c, used, e);
}

int endpoint_authenticate(Endpoint *p, const char *challenge, const char *used, Error *e)
{
        (void) pthread_mutex_lock(&p->lock);
        int r = authenticate(p, challenge, used, e);
        (void) pthread_mutex_unlock(&p->lock);
        return r;
}
