/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Parses the result of ADD: addresses, routes, name servers.
 *
 * The result as a whole is passed to the next plugin unchanged; here those parts are parsed that are shown
 * to users and written into files. Addresses have to be accepted by the C library, and names must have only
 * characters of host names, so that none of it can be misinterpreted where it is used.
 */

#include <arpa/inet.h>

#include "stage0/network/network-internal.h"

#define ITEMS_MAX 256U /* of any list */

void network_dns_done(NetworkDns *d)
{
        strv_free(d->servers);
        strv_free(d->search);
        strv_free(d->options);
        free(d->domain);
        *d = (NetworkDns){};
}

static void report_done(NetworkReport *r)
{
        free(r->network);
        free(r->interface);
        free(r->mac);
        free(r->note);
        for (size_t i = 0; i < r->n_addresses; i++) {
                free(r->addresses[i].address);
                free(r->addresses[i].gateway);
        }
        for (size_t i = 0; i < r->n_routes; i++) {
                free(r->routes[i].destination);
                free(r->routes[i].gateway);
        }
        free(r->addresses);
        free(r->routes);
        network_dns_done(&r->dns);
        *r = (NetworkReport){};
}

void network_report_free(NetworkReport *l, size_t n)
{
        for (size_t i = 0; i < n; i++)
                report_done(&l[i]);
        free(l);
}

/* --- Words --------------------------------------------------------------------------------------------- */

static bool is_address(const char *s)
{
        struct in6_addr buffer;

        return inet_pton(AF_INET, s, &buffer) == 1 || inet_pton(AF_INET6, s, &buffer) == 1;
}

/* An address with its prefix length after a slash. */
static bool is_prefix(const char *s)
{
        char address[INET6_ADDRSTRLEN];
        size_t n = strcspn(s, "/");
        uint32_t length;

        if (s[n] != '/' || n >= sizeof(address))
                return false;
        memcpy(address, s, n);
        address[n] = 0;
        return is_address(address) && parse_u32(s + n + 1, &length) >= 0 &&
               length <= (strchr(address, ':') ? 128U : 32U);
}

/* A name that is valid in resolv.conf. */
static bool is_name(const char *s)
{
        size_t n = strlen(s);

        return n > 0 && n < 256 &&
               strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-") == n;
}

static bool is_mac(const char *s)
{
        size_t n = strlen(s);

        return n > 0 && n < 64 && strspn(s, "0123456789abcdefABCDEF:") == n;
}

/* --- Members ------------------------------------------------------------------------------------------- */

static int invalid(const char *what, json_object *v, Error *e)
{
        const char *text = v ? json_print(v) : "null";
        _cleanup_free_ char *shown = text_escape_for_terminal(text ?: "");

        return error_set(e, -EBADMSG, "\"%s\" in the result is not valid: %.100s", what, shown ?: "");
}

/* A string that passes CHECK. 0: it is missing, or empty, and *RET is unchanged. */
static int take_text(json_object *o, const char *key, bool (*check)(const char *s), char **ret, Error *e)
{
        json_object *v;

        if (!json_object_object_get_ex(o, key, &v) || !v)
                return 0;
        if (!json_object_is_type(v, json_type_string))
                return invalid(key, v, e);
        const char *s = json_object_get_string(v);
        if (isempty(s))
                return 0;
        if (!check(s))
                return invalid(key, v, e);
        char *copy = strdup(s);
        if (!copy)
                return error_oom(e);
        free(*ret);
        *ret = copy;
        return 1;
}

static int take_texts(json_object *o, const char *key, bool (*check)(const char *s), char ***ret, Error *e)
{
        json_object *l;

        if (!json_object_object_get_ex(o, key, &l) || !l)
                return 0;
        if (!json_object_is_type(l, json_type_array) || json_object_array_length(l) > ITEMS_MAX)
                return invalid(key, l, e);
        for (size_t i = 0; i < json_object_array_length(l); i++) {
                json_object *v = json_object_array_get_idx(l, i);

                if (!json_object_is_type(v, json_type_string) || !check(json_object_get_string(v)))
                        return invalid(key, v, e);
                if (strv_extend(ret, json_object_get_string(v)) < 0)
                        return error_oom(e);
        }
        return 0;
}

/* A list of objects; *RET is NULL if it is missing. */
static int take_list(json_object *o, const char *key, json_object **ret, Error *e)
{
        json_object *l = NULL;

        if (json_object_object_get_ex(o, key, &l) && l &&
            (!json_object_is_type(l, json_type_array) || json_object_array_length(l) > ITEMS_MAX))
                return invalid(key, l, e);
        for (size_t i = 0; l && i < json_object_array_length(l); i++)
                if (!json_object_is_type(json_object_array_get_idx(l, i), json_type_object))
                        return invalid(key, json_object_array_get_idx(l, i), e);
        *ret = l;
        return 0;
}

/* --- The result ---------------------------------------------------------------------------------------- */

/* The index of the pod's interface in the list, or -1; others are the host's end, or a bridge. */
static int take_interface(json_object *o, NetworkReport *r, int *ret_index, Error *e)
{
        json_object *l, *name, *sandbox;

        *ret_index = -1;
        int k = take_list(o, "interfaces", &l, e);
        for (size_t i = 0; k >= 0 && l && i < json_object_array_length(l); i++) {
                json_object *item = json_object_array_get_idx(l, i);

                if (!json_object_object_get_ex(item, "name", &name) ||
                    !json_object_is_type(name, json_type_string) ||
                    !streq(json_object_get_string(name), r->interface) ||
                    !json_object_object_get_ex(item, "sandbox", &sandbox) ||
                    isempty(json_object_get_string(sandbox)))
                        continue;
                *ret_index = (int) i;
                k = take_text(item, "mac", is_mac, &r->mac, e);
        }
        return k < 0 ? k : 0;
}

static int take_address(json_object *item, int index, NetworkReport *r, Error *e)
{
        NetworkAddress *a = &r->addresses[r->n_addresses];
        json_object *v;

        if (index >= 0 && json_object_object_get_ex(item, "interface", &v) &&
            json_object_is_type(v, json_type_int) && json_object_get_int(v) != index)
                return 0;
        *a = (NetworkAddress){};
        r->n_addresses++;
        int k = take_text(item, "address", is_prefix, &a->address, e);
        if (k == 0)
                return invalid("address", NULL, e);
        return k < 0 ? k : take_text(item, "gateway", is_address, &a->gateway, e);
}

static int take_addresses(json_object *o, int index, NetworkReport *r, Error *e)
{
        json_object *l;

        int k = take_list(o, "ips", &l, e);
        if (k < 0 || !l)
                return k;
        r->addresses = calloc(json_object_array_length(l) + 1, sizeof(NetworkAddress));
        if (!r->addresses)
                return error_oom(e);
        for (size_t i = 0; k >= 0 && i < json_object_array_length(l); i++)
                k = take_address(json_object_array_get_idx(l, i), index, r, e);
        return k;
}

static int take_route(json_object *item, NetworkReport *r, Error *e)
{
        NetworkRoute *route = &r->routes[r->n_routes++];

        *route = (NetworkRoute){};
        int k = take_text(item, "dst", is_prefix, &route->destination, e);
        if (k == 0)
                return invalid("dst", NULL, e);
        return k < 0 ? k : take_text(item, "gw", is_address, &route->gateway, e);
}

static int take_routes(json_object *o, NetworkReport *r, Error *e)
{
        json_object *l;

        int k = take_list(o, "routes", &l, e);
        if (k < 0 || !l)
                return k;
        r->routes = calloc(json_object_array_length(l) + 1, sizeof(NetworkRoute));
        if (!r->routes)
                return error_oom(e);
        for (size_t i = 0; k >= 0 && i < json_object_array_length(l); i++)
                k = take_route(json_object_array_get_idx(l, i), r, e);
        return k;
}

static int take_dns(json_object *o, NetworkDns *d, Error *e)
{
        json_object *v;

        if (!json_object_object_get_ex(o, "dns", &v) || !v)
                return 0;
        if (!json_object_is_type(v, json_type_object))
                return invalid("dns", v, e);
        int k = take_texts(v, "nameservers", is_address, &d->servers, e);
        if (k >= 0)
                k = take_texts(v, "search", is_name, &d->search, e);
        if (k >= 0)
                k = take_texts(v, "options", is_name, &d->options, e);
        return k < 0 ? k : take_text(v, "domain", is_name, &d->domain, e);
}

int cni_result_parse(json_object *result, const char *interface, NetworkReport *ret, Error *e)
{
        _cleanup_(report_done) NetworkReport r = {.interface = strdup(interface)};
        int index = -1;

        if (!r.interface)
                return error_oom(e);
        if (!json_object_is_type(result, json_type_object))
                return error_set(e, -EBADMSG, "the result is not a JSON object");
        int k = take_interface(result, &r, &index, e);
        if (k >= 0)
                k = take_addresses(result, index, &r, e);
        if (k >= 0)
                k = take_routes(result, &r, e);
        if (k >= 0)
                k = take_dns(result, &r.dns, e);
        if (k < 0)
                return k;
        *ret = r;
        r = (NetworkReport){};
        return 0;
}
