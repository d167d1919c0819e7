/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Requests the discovery pages of an image (spec: discovery.md, "Discovery URL"): the one of the name
 * itself, then those of the paths above it up to the host, until one has the requested elements.
 *
 * All of them are pages of one host. So if the host does not answer, or its certificate is not valid, the
 * others are not requested.
 */

#include "prepare/discovery/discovery.h"

#define WHAT "the discovery page"

/* Whether an error concerns the host, and not one page. */
static bool is_host_error(int error)
{
        return error == -EHOSTUNREACH || error == -ECONNREFUSED || error == -ECONNRESET ||
               error == -ETIMEDOUT || error == -EKEYREJECTED || error == -EKEYEXPIRED;
}

/* Whether further attempts are pointless. */
static bool is_final(int error)
{
        return operation_ended(error) || error == -ENOMEM;
}

int discovery_note_attempt(char ***attempts, int error, const Error *e)
{
        if (strv_length(*attempts) >= DISCOVERY_ATTEMPTS_MAX)
                return 0;
        return strv_extend(attempts, e->message ?: strerror(-error));
}

typedef struct Walk {
        Transfer *transfer;
        const char *name;
        const PairList *labels;
        bool http;
        Discovery *discovery;
        char ***attempts;
} Walk;

/* 1: there is a page; 0: there is none; negative errno: is_final(), stop. *RET_UNREACHABLE: the host does
 * not answer. */
static int get_page(Walk *w, const char *scheme, const char *path, DiscoveryPage *ret, bool *ret_unreachable,
                    Error *e)
{
        _cleanup_free_ char *url = NULL, *body = NULL;
        _cleanup_error_ Error error = ERROR_NULL;
        size_t size;

        if (xasprintf(&url, "%s://%s?ac-discovery=1", scheme, path) < 0)
                return error_oom(e);
        const TransferRequest q = {.url = url, .what = WHAT, .size_max = DISCOVERY_BODY_MAX, .probe = true};
        int r = transfer_get(w->transfer, &q, &body, &size, NULL, &error);
        if (r >= 0) {
                *ret_unreachable = false;
                r = discovery_page_parse(body, size, ret, e);
                return r < 0 ? r : 1;
        }
        if (is_final(r)) {
                (void) error_move(e, &error);
                return r;
        }
        *ret_unreachable = is_host_error(r);
        return discovery_note_attempt(w->attempts, r, &error) < 0 ? error_oom(e) : 0;
}

static int read_page(Walk *w, const char *scheme, const char *path, bool *ret_unreachable, Error *e)
{
        _cleanup_discovery_page_ DiscoveryPage p = {};

        int r = get_page(w, scheme, path, &p, ret_unreachable, e);
        if (r <= 0)
                return r;
        if (discovery_add_page(w->discovery, &p, w->name, w->labels) < 0)
                return error_oom(e);
        return 1;
}

static bool has(const Discovery *d, DiscoveryKind want)
{
        return want == DISCOVERY_IMAGE ? d->n_endpoints > 0 : d->pubkeys != NULL;
}

/* Requests the page of one path. 1: it has the requested elements. */
static int query_path(Walk *w, const char *path, DiscoveryKind want, bool *ret_unreachable, Error *e)
{
        bool unreachable = true, http_dead = true;

        int r = read_page(w, "https", path, &unreachable, e);
        if (r >= 0 && !has(w->discovery, want) && w->http)
                r = read_page(w, "http", path, &http_dead, e);
        if (r < 0)
                return r;
        *ret_unreachable = unreachable && http_dead;
        if (has(w->discovery, want))
                return 1;
        if (r > 0 && strv_length(*w->attempts) < DISCOVERY_ATTEMPTS_MAX &&
            strv_extendf(w->attempts, "https://%s?ac-discovery=1 has no information about it", path) < 0)
                return error_oom(e);
        return 0;
}

int discovery_walk(Transfer *t, const char *name, const PairList *labels, DiscoveryKind want,
                   unsigned insecure, Discovery *d, char ***attempts, Error *e)
{
        _cleanup_free_ char *path = strdup(name);
        Walk w = {t, name, labels, insecure & INSECURE_HTTP, d, attempts};
        bool unreachable = false;

        if (!path)
                return error_oom(e);
        for (;;) {
                int r = query_path(&w, path, want, &unreachable, e);
                if (r != 0)
                        return r;
                char *slash = strrchr(path, '/');
                if (unreachable || !slash)
                        return 0;
                *slash = 0;
        }
}
