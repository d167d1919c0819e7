/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Shared by the sources of prepare/transfer/. From the bottom up:
 *
 *     url          parsed URLs
 *     auth         credentials, from auth.d (auth-file, auth-json)
 *     response     the headers of a response
 *     exchange     one request and its response (explain: errors)
 *     follow       the request and its redirects
 *     retry        all of it, with a limited number of retries
 *     get          the body into memory
 *     download     the body into a file that can be resumed
 */

#include <pthread.h>

#include "library/libcurl.h"
#include "prepare/transfer/transfer.h"

/* --- URLs ---------------------------------------------------------------------------------------------- */

typedef struct Url {
        char *scheme, *host; /* in lower case */
        char *user, *password;
        char *plain; /* without these two and without fragment: passed to libcurl */
        uint16_t port;
} Url;

int url_split(const char *url, Url *ret);
void url_done(Url *u);
uint16_t url_default_port(const char *scheme);
/* For targets of redirects: their queries are often access tokens. */
char *url_for_display_without_query(const char *url);

/* --- Credentials --------------------------------------------------------------------------------------- */

typedef struct Credential {
        char *host;
        uint16_t port; /* 0: the scheme's default */
        char *authorization;
        char *certificate, *key; /* files for TLS, or NULL */
        char *origin;            /* the file it is from, or NULL: the caller's, or the URL's */
        size_t directory;        /* index of its directory */
} Credential;

typedef struct Credentials {
        Credential *items;
        size_t n, allocated;
        bool loaded;
} Credentials;

void credential_done(Credential *c);
void credentials_done(Credentials *c);
/* Reads auth.d of all DIRS. */
int credentials_load(Credentials *c, const char *const *dirs, Error *e);
/* Adds a copy of TEMPLATE, of the file ORIGIN, for each of HOSTS ("example.com", "example.com:8443").
 * -EINVAL: a host is malformed (named by *RET_HOST). -EEXIST: there is one from the same directory. */
int credentials_add(Credentials *c, const Credential *template, const char *origin, char *const *hosts,
                    const char **ret_host);
const Credential *credentials_find(const Credentials *c, const Url *u);
/* One file's text, NAME.conf or NAME.json. PATH is for messages. */
int credentials_parse_ini(Credentials *c, size_t directory, const char *path, const char *text, Error *e);
int credentials_parse_json(Credentials *c, size_t directory, const char *path, const char *text, size_t size,
                           Error *e);
int authorization_bearer(const char *token, char **ret);

/* --- The object ---------------------------------------------------------------------------------------- */

/* A libcurl handle and its connection: used by one thread at a time, and kept for the next request. */
typedef struct Handle {
        CURLM *multi;
        CURL *easy;
        struct Handle *next;
} Handle;

struct Transfer {
        TransferOptions options; /* with defaults filled in; config_dirs points to the next member */
        char **config_dirs;
        char *ca_file, *ca_dir;    /* or NULL: libcurl's own */
        pthread_mutex_t lock;      /* protects the members below */
        pthread_mutex_t note_lock; /* one note at a time */
        Handle *idle;
        Credentials credentials;
        unsigned noted; /* the insecure options that the user was notified of */
};

int transfer_take_handle(Transfer *t, Handle **ret, Error *e);
void transfer_return_handle(Transfer *t, Handle *h);
void transfer_note(Transfer *t, const char *format, ...) _printf_(2, 3);
/* Notifies the user of the first use of OPTION. */
void transfer_note_insecure(Transfer *t, unsigned option, const char *shown_url);
/* Copies the credentials of auth.d for U. 1: found. */
int transfer_find_credential(Transfer *t, const Url *u, Credential *ret, Error *e);

/* --- Responses ----------------------------------------------------------------------------------------- */

#define UNKNOWN UINT64_MAX

typedef struct Response {
        unsigned status;
        char *etag, *last_modified, *content_type, *challenge, *digest, *link;
        char *location;            /* absolute */
        uint64_t length;           /* of this body, or UNKNOWN */
        uint64_t range_first;      /* of Content-Range, or UNKNOWN */
        uint64_t range_total;      /* the same */
        uint64_t retry_after_usec; /* from now, or UNKNOWN */
        uint64_t expires_usec;
        bool last_modified_is_strong, length_is_absurd;
        char *error_body;
} Response;

void response_done(Response *r);
int response_read(CURL *easy, Response *ret);

/* Samples of how much was received after how much time of transferring, oldest first. */
#define SPEED_SAMPLES 16U
typedef struct SpeedSample {
        uint64_t usec, size;
} SpeedSample;

/* The destination of a body. DONE: bytes of the whole received so far. */
typedef struct Sink Sink;
struct Sink {
        uint64_t done, total;   /* TOTAL: or UNKNOWN */
        uint64_t size_max;      /* or UNKNOWN */
        uint64_t shown_usec;    /* when progress was last reported */
        uint64_t time_max_usec; /* timeout of each request; 0: none while data arrives */
        uint64_t active_usec;   /* duration of the previous requests, and */
        uint64_t received;      /* bytes received by them */
        SpeedSample samples[SPEED_SAMPLES];
        unsigned n_samples;
        /* Adds request headers (Range); may be NULL. */
        int (*headers)(Sink *s, struct curl_slist **l);
        /* A body of the requested range follows. Sets DONE and TOTAL. -ESTALE: another range, repeat the
         * request. */
        int (*begin)(Sink *s, const Response *r, Error *e);
        int (*write)(Sink *s, const void *data, size_t n, Error *e);
        /* Whether status 416 means that the body is complete. */
        bool (*is_complete)(const Sink *s, const Response *r);
};

/* --- Requests ------------------------------------------------------------------------------------------ */

typedef enum Again {
        AGAIN_NEVER,
        AGAIN_AT_ONCE,      /* the sink has to start over */
        AGAIN_IF_NOT_PROBE, /* no connection: a few times, not for a probe */
        AGAIN_LATER,
} Again;

/* One request and its response. */
typedef struct Exchange {
        Transfer *transfer;
        const TransferRequest *request;
        const char *url;   /* without credentials */
        const char *shown; /* the same for messages */
        struct curl_slist *headers;
        const Credential *credential; /* client certificate to present; NULL: this is another host */
        unsigned insecure;            /* options allowed here */
        Sink *sink;

        Response response;
        Again again; /* if it failed */

        /* During the request: */
        CURL *easy;
        bool begun, enough;
        bool connected;                             /* the connection was set up, with https by TLS */
        uint64_t n_headers, header_size, body_size; /* bytes */
        uint64_t window_usec,
                        window_size; /* start of the stall detection's window, and bytes received before it */
        uint64_t begin_usec;         /* when waiting for the response began; 0: not yet */
        uint64_t deadline_usec;
        uint64_t answer_usec; /* when the first byte has to be there; 0: no bound */
        Text error_body;
        int result; /* result of a callback */
        Error error;
        char detail[CURL_ERROR_SIZE];
        char peer[80]; /* " at 192.0.2.1:3128": the peer, perhaps a proxy; or empty */
} Exchange;

void exchange_done(Exchange *x);
/* Success: there was a response, with any status. */
int exchange_run(Exchange *x, Error *e);
/* Converts a libcurl error into an Error. */
int exchange_explain(Exchange *x, CURLcode code, Error *e);
/* Converts a status of 400 and more into an Error. */
int exchange_explain_status(Exchange *x, Error *e);
/* "Cannot fetch WHAT from 'URL': …" */
int exchange_error(const Exchange *x, Error *e, int code, const char *format, ...) _printf_(4, 5);

/* Removes the oldest parts in the directory downloads/ DIR_FD if all of them occupy too much (kept.c). OWN: the
 * caller's own part, which is the last to go, and is left to it; or NULL. 0: OWN must not be kept; else 1. */
int downloads_limit(int dir_fd, const char *own);

typedef struct Result {
        Response response;
        char *effective_url;
        Again again;
        bool elsewhere, connected; /* as of TransferReply; CONNECTED: of this attempt */
} Result;

void result_done(Result *r);
/* The request and its redirects. ANSWER_USEC: when the first byte of an answer has to be there; 0: no such bound. */
int transfer_follow(Transfer *t, const TransferRequest *q, uint64_t answer_usec, Sink *sink, Result *ret,
                    Error *e);
/* All of it, with retries; REPLY as in transfer_get(). */
int transfer_perform(Transfer *t, const TransferRequest *q, Sink *sink, TransferReply *reply, Error *e);
