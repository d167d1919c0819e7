/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* prepare/transfer/: what comes over HTTP, into memory or into the store's downloads/.
 *
 * A Transfer is the configuration, the connections that are kept open and the credentials; any number of
 * threads may use one. A request is tried again where that makes sense, follows redirects that lead to no
 * weaker scheme, and is bounded in size and time. Nothing here ever prints, and no message, note or URL that
 * comes from here has a password, a token or a control character in it. */

#include "prepare/store/store.h"

/* --- Insecure options (insecure.c) --------------------------------------------------------------------- */

/* Each disables one protection. The first two are used here. */
typedef enum InsecureOptions {
        INSECURE_HTTP = 1 << 0,      /* http:// is taken, with no protection at all */
        INSECURE_TLS = 1 << 1,       /* certificates are not checked */
        INSECURE_SIGNATURE = 1 << 2, /* images need no signature */
        INSECURE_PUBKEY = 1 << 3,    /* keys that discovery offers are trusted for one image, once */
} InsecureOptions;

/* A list such as "http,tls"; "none" and "all" are words, too. -EINVAL. */
int insecure_options_from_string(const char *s, unsigned *ret);

/* --- URLs (url.c) -------------------------------------------------------------------------------------- */

/* Whether URL is one that can be asked: well-formed, https:// (or http:// with INSECURE_HTTP), with a host,
 * no control characters or spaces, at most URL_SIZE_MAX bytes. -EINVAL, -EPROTONOSUPPORT, -EPERM. */
#define URL_SIZE_MAX 8192U
int url_check(const char *url, unsigned insecure, Error *e);
/* HOST or HOST:PORT in lower case, as credentials are looked up; the scheme's own port is left out. */
int url_host(const char *url, char **ret);
/* URL without user and password, fit to be stored or asked again. -EINVAL. */
int url_without_credentials(const char *url, char **ret);
/* URL as messages show it: without user, password and fragment, control characters escaped, shortened if it
 * is very long. For anything: what cannot be taken apart is shown as "(a malformed URL)". NULL: out of
 * memory. */
char *url_for_display(const char *url);

/* --- Transfers (transfer.c) ---------------------------------------------------------------------------- */

typedef struct Transfer Transfer;

#define TRANSFER_RETRIES_NONE UINT32_MAX
#define TRANSFER_SPEED_ANY UINT64_MAX

/* What is 0 or NULL has the default in parentheses. */
typedef struct TransferOptions {
        unsigned insecure; /* InsecureOptions */
        /* What has auth.d in it, strongest first (/etc/acnspawn, /usr/lib/acnspawn). */
        const char *const *config_dirs;
        uint32_t n_retries;            /* after the first try (4) */
        uint64_t connect_timeout_usec; /* for one connection, with TLS (30 s) */
        uint64_t stall_timeout_usec;   /* after so long with hardly a byte it is broken off (60 s) */
        uint64_t speed_min; /* bytes per second, averaged over all of a transfer: less is given up (512) */
        uint64_t speed_grace_usec;     /* after so long, for the first time (120 s) */
        uint64_t retry_delay_usec;     /* before the first retry; doubled each time, with jitter (0.5 s) */
        uint64_t retry_after_max_usec; /* what a server may have us wait (60 s) */
        /* Told once when an insecure option is made use of, and when something is tried again. Not called by
           two threads at once. */
        void (*note)(const char *line, void *userdata);
        void *userdata;
} TransferOptions;

/* O may be NULL. Reads the environment: http_proxy, https_proxy, all_proxy and no_proxy are libcurl's;
 * CURL_CA_BUNDLE, SSL_CERT_FILE and SSL_CERT_DIR are as in curl(1). auth.d is read when the first request is
 * made. The strings of O are copied. */
int transfer_new(const TransferOptions *o, Transfer **ret, Error *e);
Transfer *transfer_free(Transfer *t);
DEFINE_TRIVIAL_CLEANUP_FUNC(Transfer *, transfer_free);

/* Certificates for one request, beside those of auth.d and of this host. */
typedef struct TransferTls {
        const char *authorities;       /* PEM text: additional trusted authorities, also after redirects; or
                                        * NULL */
        const char *certificate, *key; /* files that are shown to the host of the URL, or NULL */
        const char *origin;            /* where all that is from, for messages */
} TransferTls;

typedef struct TransferRequest {
        const char *url;      /* a user and password in it go to that host only */
        char *const *headers; /* "Name: value"; but for Accept…, they go to that host only. May be NULL */
        const char *etag;     /* what we have: the reply may be that it is still so (not_modified) */
        const char *last_modified; /* the same where there is no ETag: the reply's, as it was */
        const char *authorization; /* "Basic …", "Bearer …"; NULL: what auth.d has for the host; "": none */
        const char *form;       /* sent by POST as a web form, but not after redirects; NULL: it is a GET */
        unsigned insecure;      /* allowed beyond the Transfer's options; the caller has notified the user */
        const TransferTls *tls; /* or NULL */
        bool no_certificate;    /* no client certificate is sent, even if auth.d has one for the host */
        uint64_t size_max;      /* bytes of the body; 0: TRANSFER_GET_MAX, or as much as the disk takes */
        const char *what;       /* for messages: "the image example.com/app:1.0"; may be NULL */
        bool probe;             /* one of several places: no second try where nothing answers at all */
        /* Now and then, and at the end. TOTAL 0: unknown. */
        void (*progress)(uint64_t done, uint64_t total, void *userdata);
        void *userdata;
} TransferRequest;

#define TRANSFER_GET_MAX (16ULL << 20) /* bytes */

typedef struct TransferReply {
        unsigned status;       /* of HTTP; 0: there was no answer */
        bool not_modified;     /* what has the request's ETag or date is still what there is; no body */
        char *etag;            /* as sent, with quotes; or NULL */
        char *last_modified;   /* as sent, if it tells this file from every later one; or NULL */
        char *content_type;    /* without parameters, in lower case; or NULL */
        char *effective_url;   /* after redirects, without user and password */
        char *challenge;       /* WWW-Authenticate; or NULL */
        char *digest;          /* Docker-Content-Digest; or NULL. A claim, not a fact */
        char *link;            /* Link; or NULL */
        char *error_body;      /* for a status of 400 and more: its beginning, untrusted text; or NULL */
        uint64_t expires_usec; /* CLOCK_REALTIME: until then it need not be asked for again; 0: ask again */
} TransferReply;

#define TRANSFER_REPLY_NULL ((TransferReply){})
void transfer_reply_done(TransferReply *r);

/* Fetches into memory; the body is NUL-terminated. Fetches into the store's downloads/: the descriptor is
 * at offset 0, readable, and of a file that has no name any more: its space is given back by the last close.
 * What was broken off, be it by kill -9, is resumed by the next download of the same URL, if the server can
 * do that and the file is still the same.
 *
 * RET may be NULL; else it is initialised, and filled in as far as known on failure as well (status,
 * challenge, error_body). With not_modified there is a body of NULL, or a descriptor of -EBADF.
 *
 * Errors: -EACCES: 401, 403, 407. -ENOENT: 404, 410. -EHOSTUNREACH: unknown host. -ECONNREFUSED,
 * -ECONNRESET: also a body that ends too early. -ETIMEDOUT. -EKEYREJECTED: TLS. -EPERM: an insecure option
 * would be needed. -ELOOP: too many redirects. -EFBIG: larger than size_max. -EBUSY: 429, 503. -EREMOTEIO:
 * any other status. -EBADMSG: not HTTP as it should be. -EINTR: interrupted. -EINVAL, -EPROTONOSUPPORT: the
 * URL. */
int transfer_get(Transfer *t, const TransferRequest *r, char **ret_body, size_t *ret_size,
                 TransferReply *ret, Error *e);
int transfer_download(Transfer *t, const TransferRequest *r, Store *s, int *ret_fd, TransferReply *ret,
                      Error *e);

/* --- Credentials (auth.c, auth-file.c) ----------------------------------------------------------------- */

/* The value of an Authorization header that auth.d has for the host of URL, to be presented elsewhere in the
 * protocol (to a registry's token server). *RET_ORIGIN (or NULL): the file that has it. 0: none. Wipe it
 * after use (authorization_free()). */
int transfer_authorization(Transfer *t, const char *url, char **ret, char **ret_origin, Error *e);
/* Whether FD, the file PATH, may be read for secrets: a regular file of root's or ours that others can
 * neither read nor write. 1; 0: it is empty, or /dev/null; -EPERM. */
int secret_file_check(int fd, const char *path, Error *e);
char *authorization_free(char *s);
DEFINE_TRIVIAL_CLEANUP_FUNC(char *, authorization_free);
/* "Basic …" of user and password. */
int authorization_basic(const char *user, const char *password, char **ret);
