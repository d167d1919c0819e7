/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The options of prepare and run for networks and name resolution.
 *
 * An exposed port is written as with rkt, NAME:[IP:]HOSTPORT with the name of a port in an app's image, or
 * as with other tools, [IP:]HOSTPORT:APPPORT[/PROTOCOL], where FIRST-LAST denotes a range of ports. A value that
 * begins with a number is of the second form, although a port could have such a name. An IPv6 address is
 * written in brackets.
 */

#include <arpa/inet.h>

#include "stage0/arguments/pod-values.h"

/* --- Networks ------------------------------------------------------------------------------------------ */

static int set_mode(const Option *o, const char *value, PrepareOptions *p, NetMode mode, Error *e)
{
        if (p->networks)
                return option_invalid(o, value, e, "cannot be combined with the network '%s'",
                                      p->networks[0]);
        p->net = mode;
        return 0;
}

/* By their names, before the arguments. Plugins cannot tell two attachments of a pod to one network apart when they remove them. */
static bool same_network(const char *a, const char *b)
{
        size_t n = strcspn(a, ":");

        return n == strcspn(b, ":") && memcmp(a, b, n) == 0;
}

static int add_network(const Option *o, const char *value, const char *word, PrepareOptions *p, Error *e)
{
        _cleanup_error_ Error reason = ERROR_NULL;

        if (p->net == NET_HOST)
                return option_invalid(o, value, e, "cannot be combined with --net=host");
        if (pod_network_check(word, &reason) < 0)
                return option_invalid_because(o, value, e, &reason);
        STRV_FOREACH (other, p->networks)
                if (same_network(*other, word))
                        return option_invalid(o, value, e, "the pod is in the network '%.*s' already",
                                              (int) strcspn(word, ":"), word);
        if (strv_length(p->networks) >= NETWORKS_MAX)
                return option_invalid(o, value, e, "a pod can be in no more than %u networks", NETWORKS_MAX);
        p->net = NET_NETWORKS;
        return strv_extend(&p->networks, word) < 0 ? error_oom(e) : 0;
}

int option_net(const Option *o, const char *value, void *target, Error *e)
{
        _cleanup_strv_free_ char **words = NULL;
        PrepareOptions *p = target;

        if (streq(value, "none") || streq(value, "host"))
                return set_mode(o, value, p, (NetMode) net_mode_from_string(value), e);
        if (strv_split(value, ",", &words) < 0)
                return error_oom(e);
        if (!words)
                return option_invalid(o, value, e, "must be none, host, or names of networks");
        STRV_FOREACH (s, words) {
                int r = streq(*s, "none") || streq(*s, "host")
                                        ? option_invalid(o, value, e, "'%s' cannot be combined with others",
                                                         *s)
                                        : add_network(o, value, *s, p, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* --- Names --------------------------------------------------------------------------------------------- */

static int add_checked(const Option *o, const char *value, int (*check)(const char *s, Error *e), char ***l,
                       Error *e)
{
        _cleanup_error_ Error reason = ERROR_NULL;
        int r = check(value, &reason);

        if (r < 0)
                return option_invalid_because(o, value, e, &reason);
        return strv_extend(l, value) < 0 ? error_oom(e) : 0;
}

int option_dns(const Option *o, const char *value, void *target, Error *e)
{
        _cleanup_error_ Error reason = ERROR_NULL;
        char ***l = target;

        if (strv_extend(l, value) < 0)
                return error_oom(e);
        return pod_dns_check(*l, &reason) < 0 ? option_invalid_because(o, value, e, &reason) : 0;
}

int option_dns_search(const Option *o, const char *value, void *target, Error *e)
{
        return add_checked(o, value, pod_dns_search_check, target, e);
}

int option_dns_option(const Option *o, const char *value, void *target, Error *e)
{
        return add_checked(o, value, pod_dns_option_check, target, e);
}

int option_hosts_entry(const Option *o, const char *value, void *target, Error *e)
{
        return add_checked(o, value, pod_hosts_entry_check, target, e);
}

/* --- Ports --------------------------------------------------------------------------------------------- */

static const char port_forms[] = "must be NAME:[IP:]PORT or [IP:]PORT[-LAST]:APPPORT[-LAST][/udp|/sctp]";

static int parse_port(const Option *o, const char *value, const char *s, uint32_t *ret, Error *e)
{
        if (parse_u32(s, ret) < 0 || *ret < 1 || *ret > UINT16_MAX)
                return option_invalid(o, value, e, "'%s' is not a port: a number from 1 to 65535", s);
        return 0;
}

/* PORT or PORT-LAST */
static int parse_ports(const Option *o, const char *value, char *s, uint32_t *ret_first, uint32_t *ret_count,
                       Error *e)
{
        char *dash = strchr(s, '-');
        uint32_t last;

        if (dash)
                *dash = 0;
        int r = parse_port(o, value, s, ret_first, e);
        if (r >= 0)
                r = parse_port(o, value, dash ? dash + 1 : s, &last, e);
        if (r < 0)
                return r;
        if (last < *ret_first)
                return option_invalid(o, value, e, "the last port, %u, is below the first, %u", last,
                                      *ret_first);
        *ret_count = last - *ret_first + 1;
        return 0;
}

/* Removes an address and the colon after it from the beginning of *S, if there is one. */
static int take_ip(const Option *o, const char *value, char **s, char **ret, Error *e)
{
        bool brackets = **s == '[';
        char *end = strchr(*s, brackets ? ']' : ':'), *rest = end && brackets ? end + 1 : end;
        struct in6_addr buffer;

        if (!end || *rest != ':')
                return brackets ? option_invalid(o, value, e, "%s", port_forms) : 0;
        if (!brackets && !memchr(*s, '.', (size_t) (end - *s)))
                return 0;
        *end = 0;
        const char *ip = *s + brackets;
        if (inet_pton(brackets ? AF_INET6 : AF_INET, ip, &buffer) != 1)
                return option_invalid(o, value, e, "'%s' is not an IP address", ip);
        free(*ret);
        *ret = strdup(ip);
        *s = rest + 1;
        return *ret ? 0 : error_oom(e);
}

/* APPPORT[-LAST][/tcp|udp|sctp]: a port that need not be declared by an image, or COUNT of them. */
static int make_pod_port(const Option *o, const char *value, char *s, uint32_t count, ExposedPort *x,
                         Error *e)
{
        char *slash = strchr(s, '/');
        const char *protocol = slash ? slash + 1 : "tcp";
        uint32_t port = 0, n = 0;

        if (!streq(protocol, "tcp") && !streq(protocol, "udp") && !streq(protocol, "sctp"))
                return option_invalid(o, value, e, "the protocol must be tcp, udp or sctp");
        if (slash)
                *slash = 0;
        int r = parse_ports(o, value, s, &port, &n, e);
        if (r < 0)
                return r;
        if (n != count)
                return option_invalid(o, value, e, "%u port%s of the host cannot be mapped to %u", count,
                                      count == 1 ? "" : "s", n);
        x->pod_port = calloc(1, sizeof(Port));
        if (!x->pod_port || xasprintf(&x->name, "port-%u-%s", x->host_port, protocol) < 0)
                return error_oom(e);
        *x->pod_port = (Port){
                        .name = strdup(x->name), .protocol = strdup(protocol), .port = port, .count = count};
        return x->pod_port->name && x->pod_port->protocol ? 0 : error_oom(e);
}

/* NAME:[IP:]PORT */
static int parse_named(const Option *o, const char *value, char *s, ExposedPort *x, Error *e)
{
        _cleanup_error_ Error reason = ERROR_NULL;
        char *colon = strchr(s, ':');

        *colon = 0;
        if (ac_name_check(s, &reason) < 0)
                return option_invalid_because(o, value, e, &reason);
        x->name = strdup(s);
        if (!x->name)
                return error_oom(e);
        s = colon + 1;
        int r = take_ip(o, value, &s, &x->host_ip, e);
        return r < 0 ? r : parse_port(o, value, s, &x->host_port, e);
}

static int parse_exposed(const Option *o, const char *value, ExposedPort *x, Error *e)
{
        _cleanup_free_ char *copy = strdup(value);
        char *s = copy, *colon;
        uint32_t count = 0;

        if (!copy)
                return error_oom(e);
        int r = take_ip(o, value, &s, &x->host_ip, e);
        if (r < 0)
                return r;
        colon = strchr(s, ':');
        if (!colon)
                return option_invalid(o, value, e, "%s", port_forms);
        if (s == copy && strspn(s, "0123456789-") < (size_t) (colon - s))
                return parse_named(o, value, s, x, e);
        *colon = 0;
        r = parse_ports(o, value, s, &x->host_port, &count, e);
        return r < 0 ? r : make_pod_port(o, value, colon + 1, count, x, e);
}

int option_port(const Option *o, const char *value, void *target, Error *e)
{
        PodRequest *q = target;

        if (GREEDY_REALLOC(q->ports, q->ports_allocated, q->n_ports + 1) < 0)
                return error_oom(e);
        /* An incomplete item is freed with the rest. */
        ExposedPort *x = &q->ports[q->n_ports++];
        *x = (ExposedPort){};
        return parse_exposed(o, value, x, e);
}
