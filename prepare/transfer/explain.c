/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Explains failed requests: translates errors of libcurl and HTTP to messages that name the resource, its
 * URL and a remedy; and determines whether a retry is useful.
 */

#include <openssl/x509_vfy.h>
#include <time.h>

#include "config.h"
#include "prepare/transfer/transfer-internal.h"

/* With FORMAT NULL the existing message is the reason. */
int exchange_error(const Exchange *x, Error *e, int code, const char *format, ...)
{
        _cleanup_free_ char *why = NULL;
        const char *what = x->request->what;
        va_list ap;

        if (format) {
                va_start(ap, format);
                int n = xvasprintf(&why, format, ap);
                va_end(ap);
                if (n < 0)
                        return error_oom(e);
                (void) error_set(e, code, "%s", why);
        }
        if (!what)
                return error_prefix(e, code, "Cannot fetch '%s'", x->shown);
        _cleanup_free_ char *shown = text_escape_for_terminal(what);
        return error_prefix(e, code, "Cannot fetch %s from '%s'", shown ?: "it", x->shown);
}

/* --- TLS ----------------------------------------------------------------------------------------------- */

static const char *const tls_hint_unknown = "If its authority is to be trusted, add that one's certificate "
                                            "to the host's (update-ca-certificates), "
                                            "or name a file of it by CURL_CA_BUNDLE.";

static const struct {
        long result;
        const char *why, *hint;
} tls_reasons[] = {
                {X509_V_ERR_CERT_HAS_EXPIRED, "has expired",
                 "Tell the administrator of the server; or the clock of this host is wrong: see date(1)."},
                {X509_V_ERR_CERT_NOT_YET_VALID, "is not valid yet",
                 "The clock of this host may be wrong: see date(1)."},
                {X509_V_ERR_CERT_REVOKED, "has been revoked", "Tell the administrator of the server."},
                {X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, "is self-signed, and not trusted here", NULL},
                {X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, "is signed by an authority that is not trusted here",
                 NULL},
                {X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, "is signed by an authority that is not known here",
                 NULL},
                {X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY,
                 "is signed by an authority that is not known here", NULL},
                {X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE,
                 "is signed by an authority that is not known here", NULL},
};

/* A host without a battery has the clock of 1970 until it has reached a time server. */
static bool clock_is_wrong(void)
{
        return now_usec(CLOCK_REALTIME) / 1000000 < BUILD_EPOCH;
}

/* That is no word about the server: see the errors of transfer_get(). */
static int explain_clock(const Exchange *x, const char *host, Error *e)
{
        time_t now = (time_t) (now_usec(CLOCK_REALTIME) / 1000000);
        char date[16] = "?";
        struct tm tm;

        if (gmtime_r(&now, &tm))
                (void) strftime(date, sizeof(date), "%Y-%m-%d", &tm);
        int r = exchange_error(
                        x, e, -EKEYEXPIRED,
                        "the certificate of '%s' cannot be checked, as the clock of this host is wrong: it is at %s, "
                        "before acnspawn was built",
                        host, date);
        return error_hint(e, r, "Set it: see date(1), or wait for its time server.");
}

static int explain_certificate(const Exchange *x, const char *host, const char *detail, Error *e)
{
        long result = 0;

        (void) curl_easy_getinfo(x->easy, CURLINFO_SSL_VERIFYRESULT, &result);
        if (result == X509_V_ERR_CERT_NOT_YET_VALID && clock_is_wrong())
                return explain_clock(x, host, e);
        for (size_t i = 0; i < ELEMENTSOF(tls_reasons); i++)
                if (tls_reasons[i].result == result) {
                        int r = exchange_error(x, e, -EKEYREJECTED, "the certificate of '%s' %s", host,
                                               tls_reasons[i].why);
                        return error_hint(e, r, "%s", tls_reasons[i].hint ?: tls_hint_unknown);
                }
        int r = exchange_error(x, e, -EKEYREJECTED,
                               "the certificate that the server shows is not one for '%s' (%s)", host,
                               detail);
        return error_hint(e, r, "Another server may be answering in its place, or the name is wrong.");
}

/* --- Client certificates ------------------------------------------------------------------------------- */

static bool has_client_certificate(const Exchange *x)
{
        const TransferTls *tls = x->request->tls;

        return x->credential && (x->credential->certificate || (tls && tls->certificate));
}

static int explain_client_certificate(const Exchange *x, const char *host, const char *detail, Error *e)
{
        int r = exchange_error(x, e, -EKEYREJECTED, "the client certificate for '%s' cannot be used (%s)",
                               host, detail);
        if (has_client_certificate(x) && !x->credential->certificate)
                return error_hint(e, r, "See the files *.cert and *.key in %s.", x->request->tls->origin);
        return error_hint(e, r, "See 'ClientCertificate=' and 'ClientKey=' in auth.d.");
}

/* If a server requires a client certificate, or does not accept it, only the text of the TLS alert shows that. It comes
 * after the handshake, while the request is sent or its answer awaited. */
static bool is_about_our_certificate(const Exchange *x, CURLcode code, const char *detail)
{
        static const CURLcode codes[] = {CURLE_RECV_ERROR, CURLE_SEND_ERROR, CURLE_GOT_NOTHING, CURLE_HTTP2,
                                         CURLE_SSL_CONNECT_ERROR};
        bool connected = false;

        for (size_t i = 0; i < ELEMENTSOF(codes); i++)
                connected = connected || code == codes[i];
        if (!connected || x->header_size > 0)
                return false;
        return strstr(detail, "alert certificate required") || strstr(detail, "alert bad certificate") ||
               (strstr(detail, "alert handshake failure") && !has_client_certificate(x));
}

static int explain_rejection(const Exchange *x, const char *host, const char *detail, Error *e)
{
        if (has_client_certificate(x))
                return explain_client_certificate(x, host, detail, e);
        int r = exchange_error(x, e, -EKEYREJECTED, "'%s' probably requires a client certificate (%s)", host,
                               detail);
        return error_hint(e, r,
                          "It is given by 'ClientCertificate=' in auth.d (acnspawn-auth.d(5)), or for a "
                          "registry in certs.d (acnspawn-registries(5)).");
}

/* --- Connections --------------------------------------------------------------------------------------- */

static int explain_connect(const Exchange *x, const char *host, const char *detail, Error *e)
{
        long number = 0;

        (void) curl_easy_getinfo(x->easy, CURLINFO_OS_ERRNO, &number);
        if (number == ECONNREFUSED) {
                int r = exchange_error(x, e, -ECONNREFUSED, "'%s' refuses the connection", host);
                return error_hint(e, r, "Nothing listens there: check that the server runs, and the port.");
        }
        int code = number > 0 ? (int) -number : -ECONNREFUSED;
        return exchange_error(x, e, code, "there is no connection to '%s': %s", host,
                              number > 0 ? strerror((int) number) : detail);
}

static int explain_proxy_authentication(const Exchange *x, Error *e)
{
        bool https = startswith(x->url, "https:");

        int r = exchange_error(x, e, -EACCES,
                               "the proxy%s requires a user and password, or different ones (407)", x->peer);
        return error_hint(e, r, "Give them in the environment, as %s=http://USER:PASSWORD@PROXY:PORT.",
                          https ? "https_proxy" : "http_proxy");
}

static int explain_broken(const Exchange *x, const char *host, const char *detail, Error *e)
{
        const Sink *s = x->sink;
        long status = 0;

        (void) curl_easy_getinfo(x->easy, CURLINFO_HTTP_CONNECTCODE, &status);
        if (status == 407)
                return explain_proxy_authentication(x, e);
        if (status >= 300)
                return exchange_error(x, e, -ECONNREFUSED,
                                      "the proxy%s does not connect to '%s' (status %ld)", x->peer, host,
                                      status);
        if (x->body_size == 0 && !x->begun)
                return exchange_error(x, e, -ECONNRESET, "'%s' closed the connection without an answer (%s)",
                                      host, detail);
        if (s->total == UNKNOWN)
                return exchange_error(x, e, -ECONNRESET,
                                      "the connection broke after %llu bytes, before the end (%s)",
                                      (unsigned long long) s->done, detail);
        return exchange_error(x, e, -ECONNRESET,
                              "it is truncated: the connection ended after %llu of %llu bytes",
                              (unsigned long long) s->done, (unsigned long long) s->total);
}

static int explain_time(const Exchange *x, const char *host, const char *detail, Error *e)
{
        int r = exchange_error(x, e, -ETIMEDOUT, "no connection to '%s' within %g s", host,
                               (double) x->transfer->options.connect_timeout_usec / 1e6);
        return error_hint(e, r,
                          "Check that the network is up, and whether a proxy is needed (https_proxy).");
}

static int explain_resolve(const Exchange *x, const char *host, const char *detail, Error *e)
{
        int r = exchange_error(x, e, -EHOSTUNREACH, "the name of the host '%s' cannot be resolved", host);
        return error_hint(e, r,
                          "Check its spelling, and /etc/resolv.conf; behind a proxy, set https_proxy.");
}

/* What libcurl has to say here may be the proxy's URL, with a password in it. */
static int explain_proxy(const Exchange *x, const char *host, const char *detail, Error *e)
{
        int r = exchange_error(x, e, -EHOSTUNREACH,
                               "the proxy cannot be used: its name cannot be resolved, or it is no URL of a "
                               "kind that libcurl supports, or it does not answer as a proxy");
        return error_hint(e, r,
                          "See the environment variables http_proxy, https_proxy, all_proxy and no_proxy.");
}

static int explain_tls(const Exchange *x, const char *host, const char *detail, Error *e)
{
        return exchange_error(x, e, -EKEYREJECTED, "the TLS handshake with '%s' failed (%s)", host, detail);
}

static int explain_ca_file(const Exchange *x, const char *host, const char *detail, Error *e)
{
        int r = exchange_error(x, e, -EKEYREJECTED,
                               "the certificates of trusted authorities cannot be read (%s)", detail);
        if (x->request->tls && x->request->tls->authorities)
                return error_hint(e, r,
                                  "See the files *.crt in %s: each has to be a certificate in PEM form.",
                                  x->request->tls->origin);
        return error_hint(e, r,
                          "See CURL_CA_BUNDLE, SSL_CERT_FILE and SSL_CERT_DIR, or install ca-certificates.");
}

static int explain_no_http(const Exchange *x, const char *host, const char *detail, Error *e)
{
        return exchange_error(x, e, -EBADMSG, "'%s' does not speak HTTP as it should (%s)", host, detail);
}

static int explain_memory(const Exchange *x, const char *host, const char *detail, Error *e)
{
        return error_oom(e);
}

static const struct {
        CURLcode code;
        Again again;
        int (*explain)(const Exchange *x, const char *host, const char *detail, Error *e);
} curl_reasons[] = {
                {CURLE_COULDNT_RESOLVE_HOST, AGAIN_IF_NOT_PROBE, explain_resolve},
                {CURLE_COULDNT_RESOLVE_PROXY, AGAIN_NEVER, explain_proxy},
                {CURLE_PROXY, AGAIN_NEVER, explain_proxy},
                {CURLE_COULDNT_CONNECT, AGAIN_IF_NOT_PROBE, explain_connect},
                {CURLE_OPERATION_TIMEDOUT, AGAIN_IF_NOT_PROBE, explain_time},
                {CURLE_GOT_NOTHING, AGAIN_LATER, explain_broken},
                {CURLE_PARTIAL_FILE, AGAIN_LATER, explain_broken},
                {CURLE_SEND_ERROR, AGAIN_LATER, explain_broken},
                {CURLE_RECV_ERROR, AGAIN_LATER, explain_broken},
                {CURLE_HTTP2, AGAIN_LATER, explain_broken},
                {CURLE_HTTP2_STREAM, AGAIN_LATER, explain_broken},
                {CURLE_PEER_FAILED_VERIFICATION, AGAIN_NEVER, explain_certificate},
                {CURLE_SSL_CONNECT_ERROR, AGAIN_NEVER, explain_tls},
                {CURLE_SSL_CIPHER, AGAIN_NEVER, explain_tls},
                {CURLE_SSL_CACERT_BADFILE, AGAIN_NEVER, explain_ca_file},
                {CURLE_SSL_CERTPROBLEM, AGAIN_NEVER, explain_client_certificate},
                {CURLE_WEIRD_SERVER_REPLY, AGAIN_NEVER, explain_no_http},
                {CURLE_UNSUPPORTED_PROTOCOL, AGAIN_NEVER, explain_no_http}, /* HTTP/0.9: anything at all */
                {CURLE_BAD_CONTENT_ENCODING, AGAIN_NEVER, explain_no_http},
                {CURLE_OUT_OF_MEMORY, AGAIN_NEVER, explain_memory},
};

/* libcurl has looked at the proxy's URL, and not tried to connect. It does not have a code of its own for
 * that, and quotes the URL, user and password included. */
static bool is_about_the_proxy(const Exchange *x)
{
        return startswith(x->detail, "Unsupported proxy");
}

/* Removes what is between "://" and "@" in a word, whatever quotes the URL. */
static void remove_credentials(char *detail)
{
        for (char *p = detail; (p = strstr(p, "://"));) {
                p += strlen("://");
                char *end = p + strcspn(p, " \t\r\n"), *at = memrchr(p, '@', (size_t) (end - p));
                if (at)
                        memmove(p, at + 1, strlen(at + 1) + 1);
        }
}

int exchange_explain(Exchange *x, CURLcode code, Error *e)
{
        _cleanup_free_ char *host = NULL, *shown_host = NULL, *detail = NULL;

        remove_credentials(x->detail);
        (void) url_host(x->url, &host);
        shown_host = text_escape_for_terminal(host ?: "?");
        detail = text_escape_for_terminal(x->detail[0] ? x->detail : curl_easy_strerror(code));
        if (!shown_host || !detail)
                return error_oom(e);
        if (is_about_the_proxy(x))
                return explain_proxy(x, shown_host, detail, e);
        if (is_about_our_certificate(x, code, detail))
                return explain_rejection(x, shown_host, detail, e);
        for (size_t i = 0; i < ELEMENTSOF(curl_reasons); i++)
                if (curl_reasons[i].code == code) {
                        x->again = curl_reasons[i].again;
                        int r = curl_reasons[i].explain(x, shown_host, detail, e);
                        if (r == -EACCES) /* of a proxy */
                                x->again = AGAIN_NEVER;
                        return r;
                }
        return exchange_error(x, e, -EIO, "%s", detail);
}

/* --- Statuses ------------------------------------------------------------------------------------------ */

static const char *const auth_hint =
                "If it is not public, put credentials into " ACNSPAWN_SYSCONFDIR "/auth.d/ "
                "(acnspawn-auth.d(5)).";

static const struct {
        unsigned status;
        int code;
        Again again;
        const char *why, *hint;
} status_reasons[] = {
                {400, -EPROTO, AGAIN_NEVER, "the server does not understand the request", NULL},
                {401, -EACCES, AGAIN_NEVER, "the server requires authentication", NULL},
                {403, -EACCES, AGAIN_NEVER, "the server does not allow it", NULL},
                {404, -ENOENT, AGAIN_NEVER, "the server does not have it",
                 "Check the spelling of name and version."},
                {408, -ETIMEDOUT, AGAIN_LATER, "the server gave up waiting for the request", NULL},
                {410, -ENOENT, AGAIN_NEVER, "it does not exist any more", NULL},
                {425, -EREMOTEIO, AGAIN_LATER, "it is too early for the server", NULL},
                {429, -EBUSY, AGAIN_LATER, "the server has had too many requests",
                 "Try again later; with credentials many servers allow more."},
                {500, -EREMOTEIO, AGAIN_LATER, "the server has an error", "Try again later."},
                {501, -EPROTO, AGAIN_NEVER, "the server cannot do that", NULL},
                {502, -EREMOTEIO, AGAIN_LATER, "a server behind the server fails", "Try again later."},
                {503, -EBUSY, AGAIN_LATER, "the server is not available now", "Try again later."},
                {504, -ETIMEDOUT, AGAIN_LATER, "a server behind the server does not answer",
                 "Try again later."},
};

static bool has_credentials(const Exchange *x)
{
        return x->credential && x->credential->authorization;
}

/* A caller that gives the header itself says where it is from. */
static int explain_credentials(Exchange *x, Error *e)
{
        const char *why = x->response.status == 401 ? "the server does not accept"
                                                    : "the server does not allow it with";
        const char *origin = x->credential->origin;

        if (x->request->authorization)
                return exchange_error(x, e, -EACCES, "%s the credentials that were sent (%u)", why,
                                      x->response.status);
        int r = exchange_error(x, e, -EACCES, "%s the credentials from %s, which were sent (%u)", why,
                               origin ?: "the URL", x->response.status);
        return error_hint(e, r, "Check user and password in %s.", origin ?: "the URL");
}

int exchange_explain_status(Exchange *x, Error *e)
{
        unsigned status = x->response.status;

        x->again = AGAIN_NEVER;
        if (status == 407)
                return explain_proxy_authentication(x, e);
        for (size_t i = 0; i < ELEMENTSOF(status_reasons); i++) {
                if (status_reasons[i].status != status)
                        continue;
                x->again = status_reasons[i].again;
                if ((status == 401 || status == 403) && has_credentials(x))
                        return explain_credentials(x, e);
                int r = exchange_error(x, e, status_reasons[i].code, "%s (%u)", status_reasons[i].why,
                                       status);
                const char *hint = status == 401 || status == 403 ? auth_hint : status_reasons[i].hint;
                return hint ? error_hint(e, r, "%s", hint) : r;
        }
        x->again = status >= 500 ? AGAIN_LATER : AGAIN_NEVER;
        return exchange_error(x, e, status >= 500 ? -EREMOTEIO : -EPROTO,
                              "the server answers with status %u", status);
}
