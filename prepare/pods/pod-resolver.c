/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Name resolution of a pod as given by the user: its name servers, and entries of its /etc/hosts.
 *
 * These values become words of files that every C library parses in its own way, so they are checked
 * strictly: an address has to be accepted by the C library, a name has only characters of host names.
 */

#include <arpa/inet.h>

#include "prepare/pods/pods-internal.h"

#define LIST_MAX 256U
#define NAMES_MAX 64U /* of one entry */

static bool is_address(const char *s)
{
        struct in6_addr buffer;

        return inet_pton(AF_INET, s, &buffer) == 1 || inet_pton(AF_INET6, s, &buffer) == 1;
}

static bool consists_of(const char *s, size_t max, const char *more)
{
        static const char alnum[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
        size_t n = strlen(s);

        for (const char *c = s; *c; c++)
                if (!strchr(alnum, *c) && !strchr(more, *c))
                        return false;
        return n > 0 && n <= max;
}

/* Labels separated by dots; a dot at the end denotes the root. */
static bool is_domain(const char *s)
{
        return consists_of(s, 253, "_-.") && *s != '.' && *s != '-' && !strstr(s, "..");
}

static int refuse(const char *s, const char *what, Error *e)
{
        _cleanup_free_ char *shown = text_escape_for_terminal(s);

        return error_set(e, -EINVAL, "'%.300s' is %s", shown ?: "?", what);
}

int pod_dns_check(char *const *servers, Error *e)
{
        if (strv_length(servers) > LIST_MAX)
                return error_set(e, -E2BIG, "more than %u name servers are given", LIST_MAX);
        STRV_FOREACH (s, servers)
                if (streq(*s, "none") || streq(*s, "host")) {
                        if (strv_length(servers) > 1)
                                return error_set(e, -EINVAL, "'%s' cannot be combined with others", *s);
                } else if (!is_address(*s))
                        return refuse(*s, "not a valid IP address, and neither 'none' nor 'host'", e);
        return 0;
}

int pod_dns_search_check(const char *s, Error *e)
{
        return streq(s, ".") || is_domain(s) ? 0 : refuse(s, "not a valid domain", e);
}

int pod_dns_option_check(const char *s, Error *e)
{
        return consists_of(s, 255, "_-:.")
                               ? 0
                               : refuse(s, "not a valid option of resolv.conf, such as ndots:2", e);
}

int pod_hosts_entry_check(const char *s, Error *e)
{
        static const char form[] = "neither IP=NAME[,NAME…] nor 'host'";
        const char *equals = strchr(s, '=');
        _cleanup_free_ char *address = NULL;
        _cleanup_strv_free_ char **names = NULL;

        if (streq(s, "host"))
                return 0;
        if (!equals || equals[1] == ',' || equals[1] == 0 || strstr(equals, ",,") || endswith(s, ","))
                return refuse(s, form, e);
        address = strndup(s, (size_t) (equals - s));
        if (!address || strv_split(equals + 1, ",", &names) < 0)
                return error_oom(e);
        if (!is_address(address))
                return refuse(address, "not a valid IP address", e);
        if (strv_length(names) > NAMES_MAX)
                return error_set(e, -E2BIG, "more than %u names are given to %s", NAMES_MAX, address);
        STRV_FOREACH (name, names)
                if (!is_domain(*name))
                        return refuse(*name, "not a valid host name", e);
        return 0;
}

static int check_list(char *const *l, int (*check)(const char *s, Error *e), const char *what, Error *e)
{
        if (strv_length(l) > LIST_MAX)
                return error_set(e, -E2BIG, "more than %u %s are given", LIST_MAX, what);
        STRV_FOREACH (s, l) {
                int r = check(*s, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

int pod_resolver_check(const PodConfig *c, Error *e)
{
        int r = pod_dns_check(c->dns, e);

        if (r >= 0 && c->dns && streq(c->dns[0], "none") && (c->dns_search || c->dns_options))
                return error_set(e, -EINVAL,
                                 "--dns=none keeps the image's resolv.conf, and cannot be combined "
                                 "with --dns-search= and --dns-option=");
        if (r >= 0)
                r = check_list(c->dns_search, pod_dns_search_check, "search domains", e);
        if (r >= 0)
                r = check_list(c->dns_options, pod_dns_option_check, "options of resolv.conf", e);
        return r < 0 ? r : check_list(c->hosts_entries, pod_hosts_entry_check, "entries of /etc/hosts", e);
}
