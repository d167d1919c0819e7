/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Credentials, and the servers that they are for.
 *
 * They come from the files in auth.d, and are for exactly the hosts and ports that are named there: no
 * patterns, no subdomains. They are stored as header values, and wiped when they are freed.
 */

#include "library/libcrypto.h"
#include "prepare/transfer/transfer-internal.h"

char *authorization_free(char *s)
{
        if (s)
                explicit_bzero(s, strlen(s));
        free(s);
        return NULL;
}

void credential_done(Credential *c)
{
        free(c->host);
        authorization_free(c->authorization);
        free(c->certificate);
        free(c->key);
        free(c->origin);
        *c = (Credential){};
}

void credentials_done(Credentials *c)
{
        for (size_t i = 0; i < c->n; i++)
                credential_done(&c->items[i]);
        free(c->items);
        *c = (Credentials){};
}

/* --- Header values ------------------------------------------------------------------------------------- */

/* A line break would be a header of its own. */
static bool is_one_line(const char *s)
{
        for (; *s; s++)
                if ((unsigned char) *s < ' ' || *s == 0x7f)
                        return false;
        return true;
}

int authorization_basic(const char *user, const char *password, char **ret)
{
        _cleanup_(authorization_freep) char *plain = NULL, *encoded = NULL;

        if (strchr(user, ':') || !is_one_line(user) || !is_one_line(password))
                return -EINVAL;
        int r = library_load(&crypto_library, NULL);
        if (r >= 0)
                r = xasprintf(&plain, "%s:%s", user, password);
        if (r < 0)
                return r;
        size_t n = strlen(plain);
        encoded = malloc((n + 2) / 3 * 4 + 1);
        if (!encoded)
                return -ENOMEM;
        (void) EVP_EncodeBlock((unsigned char *) encoded, (const unsigned char *) plain, (int) n);
        return xasprintf(ret, "Basic %s", encoded);
}

int authorization_bearer(const char *token, char **ret)
{
        if (isempty(token) || !is_one_line(token) || strchr(token, ' '))
                return -EINVAL;
        return xasprintf(ret, "Bearer %s", token);
}

/* --- The list ------------------------------------------------------------------------------------------ */

/* "HOST", "HOST:PORT", "[ADDRESS]:PORT": what is left when a URL is made of it and taken apart again. */
static int parse_host(const char *s, Credential *ret)
{
        _cleanup_free_ char *url = NULL;
        _cleanup_(url_done) Url u = {};

        if (isempty(s) || strpbrk(s, "/@?#\\*"))
                return -EINVAL;
        int r = xasprintf(&url, "https://%s/", s);
        if (r >= 0)
                r = url_split(url, &u);
        if (r < 0)
                return r;
        const char *colon = strrchr(s, ':');
        bool has_port = colon && !strchr(colon, ']');
        if (has_port && !colon[1])
                return -EINVAL;
        ret->host = TAKE_PTR(u.host);
        ret->port = has_port ? u.port : 0;
        return 0;
}

static bool same_place(const Credential *a, const Credential *b)
{
        return a->port == b->port && streq(a->host, b->host);
}

static int add_one(Credentials *l, const Credential *template, const char *origin, const char *host)
{
        _cleanup_(credential_done) Credential c = {.directory = template->directory};

        int r = parse_host(host, &c);
        if (r < 0)
                return r;
        for (size_t i = 0; i < l->n; i++)
                if (same_place(&l->items[i], &c) && l->items[i].directory == c.directory)
                        return -EEXIST;
        if ((template->authorization && !(c.authorization = strdup(template->authorization))) ||
            (template->certificate && !(c.certificate = strdup(template->certificate))) ||
            (template->key && !(c.key = strdup(template->key))) || !(c.origin = strdup(origin)))
                return -ENOMEM;
        r = GREEDY_REALLOC(l->items, l->allocated, l->n + 1);
        if (r < 0)
                return r;
        l->items[l->n++] = c;
        c = (Credential){};
        return 0;
}

int credentials_add(Credentials *c, const Credential *template, const char *origin, char *const *hosts,
                    const char **ret_host)
{
        STRV_FOREACH (host, hosts) {
                int r = add_one(c, template, origin, *host);
                if (r < 0) {
                        *ret_host = *host;
                        return r;
                }
        }
        return 0;
}

/* The directories were read strongest first, so the first that fits it is. */
const Credential *credentials_find(const Credentials *c, const Url *u)
{
        for (size_t i = 0; i < c->n; i++) {
                uint16_t port = c->items[i].port ?: url_default_port(u->scheme);

                if (port == u->port && streq(c->items[i].host, u->host))
                        return &c->items[i];
        }
        return NULL;
}
