/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* prepare/transfer/: downloads over HTTP, into memory or into the store's downloads/.
 *
 * A Transfer has the configuration, the connections that are kept open and the credentials; any number of
 * threads may use one. A request is retried where that makes sense, follows redirects except to a weaker
 * scheme, and is limited in size and time. Nothing here ever prints, and messages, notes and URLs never
 * contain a password, a token or a control character. */

#include "prepare/store/store.h"

/* --- Insecure options (insecure.c) --------------------------------------------------------------------- */

/* Each disables one protection. The first two are used here. */
typedef enum InsecureOptions {
        INSECURE_HTTP = 1 << 0,      /* http:// is allowed, without any protection */
        INSECURE_TLS = 1 << 1,       /* certificates are not verified */
        INSECURE_SIGNATURE = 1 << 2, /* images need no signature */
        INSECURE_PUBKEY = 1 << 3,    /* keys that discovery offers are trusted for one image, once */
} InsecureOptions;

/* A list such as "http,tls"; "none" and "all" are valid, too. -EINVAL. */
int insecure_options_from_string(const char *s, unsigned *ret);

/* --- URLs (url.c) -------------------------------------------------------------------------------------- */

/* Checks that URL can be requested: well-formed, https:// (or http:// with INSECURE_HTTP), with a host, no
 * control characters or spaces, at most URL_SIZE_MAX bytes. -EINVAL, -EPROTONOSUPPORT, -EPERM. */
#define URL_SIZE_MAX 8192U
int url_check(const char *url, unsigned insecure, Error *e);
/* HOST or HOST:PORT in lower case, the key of credentials; the scheme's default port is left out. */
int url_host(const char *url, char **ret);
/* URL without user and password, to be stored or requested again. -EINVAL. */
int url_without_credentials(const char *url, char **ret);
/* URL as messages show it: without user, password and fragment, control characters escaped, shortened if it
 * is very long. For any string: one that cannot be parsed is shown as "(a malformed URL)". NULL: out of
 * memory. */
char *url_for_display(const char *url);

/* --- Transfers (transfer.c) ---------------------------------------------------------------------------- */

typedef struct Transfer Transfer;

#define TRANSFER_RETRIES_NONE UINT32_MAX
#define TRANSFER_SPEED_ANY UINT64_MAX

/* Members that are 0 or NULL have the default in parentheses. */
typedef struct TransferOptions {
        Operation *operation; /* ends all requests when it ends, and gets the debug messages */
        unsigned insecure;    /* InsecureOptions */
        /* Directories that contain auth.d, by descending precedence (/etc/acnspawn, /usr/lib/acnspawn). */
        const char *const *config_dirs;
        uint32_t n_retries;            /* after the first try (4) */
        uint64_t connect_timeout_usec; /* for one connection, with TLS (30 s) */
        uint64_t answer_timeout_usec; /* from the first try to the first byte of an answer, connection included, anew for the
                                        * server that a redirect leads to; then it is not tried again, unless content has been
                                        * received (no bound but those of each try) */
        uint64_t stall_timeout_usec;   /* abort after so long without progress (60 s) */
        uint64_t speed_min;            /* abort below, in bytes per second (512) */
        uint64_t speed_window_usec;    /* averaged over the last of this duration (120 s) */
        uint64_t retry_delay_usec;     /* before the first retry; doubled each time, with jitter (0.5 s) */
        uint64_t retry_after_max_usec; /* limit of the server's Retry-After (60 s) */
        /* Called once when an insecure option is used, and on each retry. Not called by two threads at
         * once. */
        void (*note)(const char *line, void *userdata);
        void *userdata;
} TransferOptions;

/* The operation of requests. */
Operation *transfer_operation(const Transfer *t);
/* O may be NULL. Reads the environment: http_proxy, https_proxy, all_proxy and no_proxy are libcurl's;
 * CURL_CA_BUNDLE, SSL_CERT_FILE and SSL_CERT_DIR are as in curl(1). auth.d is read by the first request. The
 * strings of O are copied. */
int transfer_new(const TransferOptions *o, Transfer **ret, Error *e);
Transfer *transfer_free(Transfer *t);
DEFINE_TRIVIAL_CLEANUP_FUNC(Transfer *, transfer_free);

/* Certificates for one request, in addition to those of auth.d and of this host. */
typedef struct TransferTls {
        const char *authorities;       /* PEM text: additional trusted authorities, also after redirects; or
                                        * NULL */
        const char *certificate, *key; /* files of the client certificate for the host of the URL, or NULL */
        const char *origin;            /* their origin, for messages */
} TransferTls;

typedef struct TransferRequest {
        const char *url;      /* a user and password in it are sent to that host only */
        char *const *headers; /* "Name: value"; except for Accept…, sent to that host only. May be NULL */
        const char *etag;     /* of the cached copy: the reply may be that it is current (not_modified) */
        const char *last_modified; /* the same without an ETag: Last-Modified of the cached reply */
        const char *authorization; /* "Basic …", "Bearer …"; NULL: that of auth.d for the host; "": none */
        const char *form;          /* sent by POST as a web form, but not after redirects; NULL: use GET */
        unsigned insecure;      /* allowed beyond the Transfer's options; the caller has notified the user */
        const TransferTls *tls; /* or NULL */
        bool no_certificate;    /* no client certificate is sent, even if auth.d has one for the host */
        uint64_t size_max;      /* bytes of the body; 0: TRANSFER_GET_MAX, or the free disk space. A download
                                 * needs that much free space if the server states no length */
        const char *what;       /* for messages: "the image example.com/app:1.0"; may be NULL */
        bool is_content;        /* of what is known to be needed: answer_timeout_usec does not apply */
        bool probe;             /* one of several endpoints: no retry if the connection fails */
        /* Called periodically, and at the end. TOTAL 0: unknown. */
        void (*progress)(uint64_t done, uint64_t total, void *userdata);
        void *userdata;
} TransferRequest;

#define TRANSFER_GET_MAX (16ULL << 20) /* bytes */

typedef struct TransferReply {
        unsigned status; /* of HTTP; 0: there was no response */
        bool elsewhere;  /* a redirect led to another origin: the response or the failure is of that one, and
                         * says nothing of the host of the URL */
        bool connected;  /* in some attempt the host of the URL was connected to, with https by TLS */
        bool not_modified;   /* the copy with the request's ETag or date is current; no body */
        char *etag;          /* as sent, with quotes; or NULL */
        char *last_modified; /* as sent, if it is a strong validator; or NULL */
        char *content_type;  /* without parameters, in lower case; or NULL */
        char *effective_url; /* after redirects, without user and password */
        char *challenge;     /* WWW-Authenticate; or NULL */
        char *digest;        /* Docker-Content-Digest; or NULL. not verified */
        char *link;          /* Link; or NULL */
        char *error_body;    /* beginning of the body of a status of 400 and more, untrusted text; or NULL */
        uint64_t expires_usec; /* CLOCK_REALTIME: valid until then without another request; 0: not */
} TransferReply;

#define TRANSFER_REPLY_NULL ((TransferReply){})
void transfer_reply_done(TransferReply *r);

/* Fetches into memory; the body is NUL-terminated. Fetches into the store's downloads/: the descriptor is at
 * offset 0, readable, and of an unlinked file: its space is released by the last close. An interrupted
 * download, even by kill -9, is resumed by the next download of the same URL, if the server supports that
 * and the file has not changed.
 *
 * RET may be NULL; else it is initialised, and on failure filled in as far as known (status, challenge,
 * error_body). With not_modified there is a body of NULL, or a descriptor of -EBADF.
 *
 * Errors: -EACCES: 401, 403, 407. -ENOENT: 404, 410. -EHOSTUNREACH: unknown host. -ECONNREFUSED,
 * -ECONNRESET: also a truncated body. -ETIMEDOUT. -EKEYREJECTED: TLS. -EKEYEXPIRED: TLS, because the clock of this host is wrong. -EPERM: an insecure option would be
 * needed. -ELOOP: too many redirects. -EFBIG: larger than size_max. -EBUSY: 429, 503. -EREMOTEIO: another
 * status with which the server says that it fails; -EPROTO: any other. -EBADMSG: malformed HTTP. -EINTR,
 * -ETIME: see operation_check(). -EINVAL, -EPROTONOSUPPORT: the URL. */
int transfer_get(Transfer *t, const TransferRequest *r, char **ret_body, size_t *ret_size,
                 TransferReply *ret, Error *e);
int transfer_download(Transfer *t, const TransferRequest *r, Store *s, int *ret_fd, TransferReply *ret,
                      Error *e);

/* --- Credentials (auth.c, auth-file.c) ----------------------------------------------------------------- */

/* The value of the Authorization header of auth.d for the host of URL, to be used elsewhere in the protocol
 * (for a registry's token server). *RET_ORIGIN (or NULL): its file. 0: none. Wipe it after use
 * (authorization_free()). */
int transfer_authorization(Transfer *t, const char *url, char **ret, char **ret_origin, Error *e);
/* Whether FD, the file PATH, may be read for secrets: a regular file, owned by root or the current user,
 * that others can neither read nor write. 1; 0: it is empty, or /dev/null; -EPERM. */
int secret_file_check(int fd, const char *path, Error *e);
char *authorization_free(char *s);
DEFINE_TRIVIAL_CLEANUP_FUNC(char *, authorization_free);
/* "Basic …" of user and password. */
int authorization_basic(const char *user, const char *password, char **ret);
