/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The Transfer: configuration, connections that are kept open, and credentials.
 *
 * libcurl's handles are for one thread at a time. So each request takes a handle, with the connections that
 * it has kept open, out of the Transfer, and gives it back: as many handles are there as requests ran at
 * once. A multi handle goes with each, as only that interface can wait for something else as well: being
 * interrupted.
 */

#include "library/libcrypto.h"
#include "prepare/transfer/transfer-internal.h"

#include "config.h"

#define DEFAULT_RETRIES 4U
#define DEFAULT_CONNECT_TIMEOUT_USEC (30 * 1000000ULL)
#define DEFAULT_STALL_TIMEOUT_USEC (60 * 1000000ULL)
#define DEFAULT_SPEED_MIN 512ULL
#define DEFAULT_SPEED_WINDOW_USEC (120 * 1000000ULL)
#define DEFAULT_RETRY_DELAY_USEC (500 * 1000ULL)
#define DEFAULT_RETRY_AFTER_MAX_USEC (60 * 1000000ULL)

static const char *const default_config_dirs[] = {ACNSPAWN_SYSCONFDIR, ACNSPAWN_LIBEXECDIR, NULL};

/* --- Making one ---------------------------------------------------------------------------------------- */

static void fill_in_defaults(TransferOptions *o)
{
        if (o->n_retries == 0)
                o->n_retries = DEFAULT_RETRIES;
        else if (o->n_retries == TRANSFER_RETRIES_NONE)
                o->n_retries = 0;
        if (o->connect_timeout_usec == 0)
                o->connect_timeout_usec = DEFAULT_CONNECT_TIMEOUT_USEC;
        if (o->stall_timeout_usec == 0)
                o->stall_timeout_usec = DEFAULT_STALL_TIMEOUT_USEC;
        if (o->speed_min == 0)
                o->speed_min = DEFAULT_SPEED_MIN;
        else if (o->speed_min == TRANSFER_SPEED_ANY)
                o->speed_min = 0;
        if (o->speed_window_usec == 0)
                o->speed_window_usec = DEFAULT_SPEED_WINDOW_USEC;
        if (o->retry_delay_usec == 0)
                o->retry_delay_usec = DEFAULT_RETRY_DELAY_USEC;
        if (o->retry_after_max_usec == 0)
                o->retry_after_max_usec = DEFAULT_RETRY_AFTER_MAX_USEC;
}

static int copy_variable(const char *name, char **ret)
{
        const char *value = getenv(name);

        if (isempty(value))
                return 0;
        *ret = strdup(value);
        return *ret ? 1 : -ENOMEM;
}

/* curl(1) has its own variable first, then OpenSSL's. */
static int read_environment(Transfer *t)
{
        int r = copy_variable("CURL_CA_BUNDLE", &t->ca_file);
        if (r != 0)
                return r;
        r = copy_variable("SSL_CERT_DIR", &t->ca_dir);
        return r < 0 ? r : copy_variable("SSL_CERT_FILE", &t->ca_file);
}

static int copy_options(Transfer *t, const TransferOptions *o)
{
        if (o)
                t->options = *o;
        fill_in_defaults(&t->options);
        const char *const *dirs = t->options.config_dirs ?: default_config_dirs;
        for (; *dirs; dirs++) {
                int r = strv_extend(&t->config_dirs, *dirs);
                if (r < 0)
                        return r;
        }
        t->options.config_dirs = (const char *const *) t->config_dirs;
        return read_environment(t);
}

int transfer_new(const TransferOptions *o, Transfer **ret, Error *e)
{
        int r = library_load(&curl_library, e);
        if (r >= 0)
                r = library_load(&crypto_library, e); /* credentials, names of files */
        if (r < 0)
                return r;
        /* Counted by libcurl, and never given back: others of the process may use it, too. */
        if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
                return error_set(e, -EIO, "libcurl cannot be initialized");
        _cleanup_(transfer_freep) Transfer *t = calloc(1, sizeof(Transfer));

        if (!t)
                return error_oom(e);
        (void) pthread_mutex_init(&t->lock, NULL);
        (void) pthread_mutex_init(&t->note_lock, NULL);
        r = copy_options(t, o);
        if (r < 0)
                return error_oom(e);
        *ret = TAKE_PTR(t);
        return 0;
}

static void handle_free(Handle *h)
{
        if (h->easy)
                curl_easy_cleanup(h->easy);
        if (h->multi)
                (void) curl_multi_cleanup(h->multi);
        free(h);
}

Transfer *transfer_free(Transfer *t)
{
        if (!t)
                return NULL;
        while (t->idle) {
                Handle *h = t->idle;
                t->idle = h->next;
                handle_free(h);
        }
        credentials_done(&t->credentials);
        strv_free(t->config_dirs);
        free(t->ca_file);
        free(t->ca_dir);
        (void) pthread_mutex_destroy(&t->lock);
        (void) pthread_mutex_destroy(&t->note_lock);
        free(t);
        return NULL;
}

/* --- Handles ------------------------------------------------------------------------------------------- */

int transfer_take_handle(Transfer *t, Handle **ret, Error *e)
{
        (void) pthread_mutex_lock(&t->lock);
        Handle *h = t->idle;
        if (h)
                t->idle = h->next;
        (void) pthread_mutex_unlock(&t->lock);
        if (!h) {
                h = calloc(1, sizeof(Handle));
                if (!h)
                        return error_oom(e);
                h->easy = curl_easy_init();
                h->multi = curl_multi_init();
                if (!h->easy || !h->multi) {
                        handle_free(h);
                        return error_oom(e);
                }
        }
        *ret = h;
        return 0;
}

void transfer_return_handle(Transfer *t, Handle *h)
{
        /* A new one for each request: libcurl 7.88 keeps a pointer to the last header of an answer when it is reset,
         * and follows it if the next answer begins with a folded line. Connections are the multi handle's. */
        curl_easy_cleanup(h->easy);
        h->easy = curl_easy_init();
        if (!h->easy) {
                handle_free(h);
                return;
        }
        (void) pthread_mutex_lock(&t->lock);
        h->next = t->idle;
        t->idle = h;
        (void) pthread_mutex_unlock(&t->lock);
}

/* --- Notes --------------------------------------------------------------------------------------------- */

Operation *transfer_operation(const Transfer *t)
{
        return t->options.operation;
}

void transfer_note(Transfer *t, const char *format, ...)
{
        _cleanup_free_ char *line = NULL;
        va_list ap;

        if (!t->options.note)
                return;
        va_start(ap, format);
        int n = xvasprintf(&line, format, ap);
        va_end(ap);
        if (n < 0)
                return;
        (void) pthread_mutex_lock(&t->note_lock);
        t->options.note(line, t->options.userdata);
        (void) pthread_mutex_unlock(&t->note_lock);
}

void transfer_note_insecure(Transfer *t, unsigned option, const char *shown_url)
{
        (void) pthread_mutex_lock(&t->lock);
        bool noted = t->noted & option;
        t->noted |= option;
        (void) pthread_mutex_unlock(&t->lock);
        if (noted)
                return;
        if (option == INSECURE_HTTP)
                transfer_note(t,
                              "http is in use (--insecure-options=http): anybody on the way can read and "
                              "change '%s'",
                              shown_url);
        else
                transfer_note(t,
                              "Certificates are not checked (--insecure-options=tls): anybody on the way "
                              "can pose as the server of '%s'",
                              shown_url);
}

/* --- Credentials --------------------------------------------------------------------------------------- */

static int copy_credential(const Credential *c, Credential *ret)
{
        _cleanup_(credential_done) Credential copy = {.port = c->port};

        if ((c->authorization && !(copy.authorization = strdup(c->authorization))) ||
            (c->certificate && !(copy.certificate = strdup(c->certificate))) ||
            (c->key && !(copy.key = strdup(c->key))) || (c->origin && !(copy.origin = strdup(c->origin))))
                return -ENOMEM;
        *ret = copy;
        copy = (Credential){};
        return 1;
}

/* Under the lock of T. */
static int find_credential(Transfer *t, const Url *u, Credential *ret, Error *e)
{
        if (!t->credentials.loaded) {
                int r = credentials_load(&t->credentials, t->options.config_dirs, e);
                if (r < 0)
                        return r;
        }
        const Credential *c = credentials_find(&t->credentials, u);
        if (!c)
                return 0;
        return copy_credential(c, ret) < 0 ? error_oom(e) : 1;
}

int transfer_find_credential(Transfer *t, const Url *u, Credential *ret, Error *e)
{
        (void) pthread_mutex_lock(&t->lock);
        int r = find_credential(t, u, ret, e);
        (void) pthread_mutex_unlock(&t->lock);
        return r;
}

int transfer_authorization(Transfer *t, const char *url, char **ret, char **ret_origin, Error *e)
{
        _cleanup_(credential_done) Credential c = {};
        _cleanup_(url_done) Url u = {};

        int r = url_check(url, t->options.insecure, e);
        if (r < 0)
                return r;
        r = url_split(url, &u);
        if (r < 0)
                return error_oom(e); /* it has been taken apart before */
        r = transfer_find_credential(t, &u, &c, e);
        if (r <= 0 || !c.authorization)
                return r < 0 ? r : 0;
        *ret = TAKE_PTR(c.authorization);
        if (ret_origin)
                *ret_origin = TAKE_PTR(c.origin);
        return 1;
}
