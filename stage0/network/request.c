/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Parses a network as given by the user: its name, and arguments for its plugins.
 *
 *     NAME[:ARG=VALUE[;ARG=VALUE…]]
 *
 * The arguments are passed to every plugin as CNI_ARGS, with the flag to ignore unknown ones. Three of them
 * also have newer names: IP=, MAC= and ALIAS= become "ips", "mac" and "aliases" for the plugins that declare
 * to support them.
 */

#include <arpa/inet.h>

#include "stage0/network/network-internal.h"

void network_request_done(NetworkRequest *r)
{
        free(r->name);
        free(r->args);
        strv_free(r->ips);
        strv_free(r->aliases);
        free(r->mac);
        *r = (NetworkRequest){};
}

static bool is_address(const char *s)
{
        char address[INET6_ADDRSTRLEN];
        struct in6_addr buffer;
        size_t n = strcspn(s, "/");

        if (n >= sizeof(address))
                return false;
        memcpy(address, s, n);
        address[n] = 0;
        return inet_pton(AF_INET, address, &buffer) == 1 || inet_pton(AF_INET6, address, &buffer) == 1;
}

static bool is_mac(const char *s)
{
        unsigned n = 0;

        for (; n < 6; n++, s += 2) {
                if (n > 0 && *s++ != ':')
                        return false;
                if (strspn(s, "0123456789abcdefABCDEF") < 2)
                        return false;
        }
        return *s == 0;
}

static int take_ip(NetworkRequest *r, const char *value, Error *e)
{
        if (!is_address(value))
                return error_set(e, -EINVAL, "'%s' is not an IP address", value);
        return strv_extend(&r->ips, value) < 0 ? error_oom(e) : 0;
}

static int take_mac(NetworkRequest *r, const char *value, Error *e)
{
        if (!is_mac(value))
                return error_set(e, -EINVAL, "'%s' is not an address such as 02:00:00:00:00:01", value);
        free(r->mac);
        r->mac = strdup(value);
        return r->mac ? 0 : error_oom(e);
}

static int take_alias(NetworkRequest *r, const char *value, Error *e)
{
        return strv_extend(&r->aliases, value) < 0 ? error_oom(e) : 0;
}

static const struct {
        const char *prefix;
        int (*take)(NetworkRequest *r, const char *value, Error *e);
} known[] = {{"IP=", take_ip}, {"MAC=", take_mac}, {"ALIAS=", take_alias}};

/* Of several arguments of one name CNI_ARGS has the first. */
static bool is_repeated(char *const *done, const char *pair)
{
        size_t n = strcspn(pair, "=") + 1;

        STRV_FOREACH (d, done)
                if (strncmp(*d, pair, n) == 0)
                        return true;
        return false;
}

static int take_arguments(NetworkRequest *r, const char *s, Error *e)
{
        _cleanup_strv_free_ char **pairs = NULL, **args = NULL;

        if (strv_split(s, ";", &pairs) < 0 || strv_extend(&args, "IgnoreUnknown=1") < 0)
                return error_oom(e);
        STRV_FOREACH (pair, pairs) {
                for (size_t i = 0; i < ELEMENTSOF(known); i++) {
                        const char *value = startswith(*pair, known[i].prefix);
                        int k = value ? known[i].take(r, value, e) : 0;
                        if (k < 0)
                                return k;
                }
                if (!is_repeated(args, *pair) && strv_extend(&args, *pair) < 0)
                        return error_oom(e);
        }
        r->args = strv_join(args, ";");
        return r->args ? 0 : error_oom(e);
}

int network_request_parse(const char *s, NetworkRequest *ret, Error *e)
{
        _cleanup_(network_request_done) NetworkRequest q = {};
        size_t n = strcspn(s, ":");

        int r = pod_network_check(s, e);
        if (r < 0)
                return r;
        q.name = strndup(s, n);
        if (!q.name)
                return error_oom(e);
        r = take_arguments(&q, s[n] ? s + n + 1 : "", e);
        if (r < 0)
                return error_prefix(e, r, "Network '%s'", q.name);
        *ret = q;
        q = (NetworkRequest){};
        return 0;
}
