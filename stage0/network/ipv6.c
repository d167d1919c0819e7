/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* IPv6 in networks that are configured for any host, such as "default".
 *
 * A configuration with "acnspawn/ipv6": "optional" has IPv6 ranges and routes that are left out where they
 * cannot work or would do harm. The bridge plugin enables forwarding of IPv6 on the host; a host that
 * forwards ignores router advertisements, so a host with a default route from advertisements processed by
 * the kernel would lose it some minutes later. On such a host IPv6 is left out until its administrator
 * changes the settings.
 */

#include "stage0/network/network-internal.h"

#define PROC_FILE_MAX (4U * 1024U * 1024U)
#define ROUTE_FLAG_ADVERTISED 0x00040000U /* RTF_ADDRCONF of linux/ipv6_route.h */

static bool is_one(const char *text)
{
        return text && *text == '1';
}

/* A line is: destination, its length, source, its length, next hop, metric, two counters, flags,
 * interface. */
static bool is_advertised_default(char *line)
{
        _cleanup_strv_free_ char **words = NULL;

        if (strv_split(line, " ", &words) < 0 || strv_length(words) < 10)
                return false;
        return words[0][strspn(words[0], "0")] == 0 && streq(words[1], "00") &&
               strtoul(words[8], NULL, 16) & ROUTE_FLAG_ADVERTISED;
}

/* Interfaces that accept advertisements while forwarding ("accept_ra" is 2) keep their routes. */
static bool keeps_route(char *line)
{
        char *space = strrchr(line, ' ');
        _cleanup_free_ char *path = NULL, *text = NULL;

        if (!space || strchr(space + 1, '/') ||
            xasprintf(&path, "/proc/sys/net/ipv6/conf/%s/accept_ra", space + 1) < 0)
                return false;
        return read_file_at(AT_FDCWD, path, 64, &text, NULL) >= 0 && *text == '2';
}

const char *ipv6_obstacle_in(const char *disabled, const char *forwarding, const char *routes)
{
        _cleanup_strv_free_ char **lines = NULL;

        if (!disabled)
                return "the host's kernel does not support it";
        if (is_one(disabled))
                return "it is disabled on the host (net.ipv6.conf.all.disable_ipv6)";
        if (is_one(forwarding) || !routes)
                return NULL;
        if (strv_split(routes, "\n", &lines) < 0)
                return NULL;
        for (char **l = lines; l && *l; l++)
                if (is_advertised_default(*l) && !keeps_route(*l))
                        return "the host would lose its own default route, which comes from router "
                               "advertisements (set accept_ra of the interface to 2, or "
                               "net.ipv6.conf.all.forwarding to 1)";
        return NULL;
}

/* NULL if it cannot be read. Files in /proc report no size. */
static char *read_proc(const char *path)
{
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        _cleanup_free_ char *text = fd < 0 ? NULL : malloc(PROC_FILE_MAX);

        if (!text)
                return NULL;
        ssize_t n = loop_read(fd, text, PROC_FILE_MAX - 1);
        if (n < 0)
                return NULL;
        text[n] = 0;
        return TAKE_PTR(text);
}

const char *ipv6_obstacle(void)
{
        _cleanup_free_ char *disabled = read_proc("/proc/sys/net/ipv6/conf/all/disable_ipv6");
        _cleanup_free_ char *forwarding = read_proc("/proc/sys/net/ipv6/conf/all/forwarding");
        _cleanup_free_ char *routes = is_one(forwarding) ? NULL : read_proc("/proc/net/ipv6_route");

        return ipv6_obstacle_in(disabled, forwarding, routes);
}

/* --- Removing IPv6 ------------------------------------------------------------------------------------- */

static bool is_ipv6(json_object *o, const char *key)
{
        json_object *v;

        return json_object_object_get_ex(o, key, &v) && json_object_is_type(v, json_type_string) &&
               strchr(json_object_get_string(v), ':');
}

static bool is_ipv6_range(json_object *set)
{
        return json_object_is_type(set, json_type_array) && json_object_array_length(set) > 0 &&
               is_ipv6(json_object_array_get_idx(set, 0), "subnet");
}

static bool is_ipv6_route(json_object *route)
{
        return is_ipv6(route, "dst");
}

static void drop(json_object *o, const char *key, bool (*is_one_of)(json_object *item))
{
        json_object *l;

        if (!json_object_object_get_ex(o, key, &l) || !json_object_is_type(l, json_type_array))
                return;
        for (size_t i = json_object_array_length(l); i-- > 0;)
                if (is_one_of(json_object_array_get_idx(l, i)))
                        (void) json_object_array_del_idx(l, i, 1);
}

int cni_network_drop_ipv6(CniNetwork *n, const char *why)
{
        for (size_t i = 0; i < json_object_array_length(n->plugins); i++) {
                json_object *ipam;

                if (!json_object_object_get_ex(json_object_array_get_idx(n->plugins, i), "ipam", &ipam))
                        continue;
                drop(ipam, "ranges", is_ipv6_range);
                drop(ipam, "routes", is_ipv6_route);
        }
        free(n->note);
        n->note = NULL;
        return xasprintf(&n->note, "no IPv6: %s", why);
}
