/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Rules of the packet filter that protect the host's loopback from pods, and pods from the network of the host.
 *
 * So that ports are reachable from the host's own 127.0.0.1, the plugin portmap makes the kernel route such
 * addresses on the bridge (route_localnet). From then on the kernel also accepts packets for 127.0.0.0/8
 * from the bridge, and a pod that can send arbitrary packets, which requires CAP_NET_RAW without a user
 * namespace, could reach services that are intended for the host only. There are no legitimate packets of
 * this kind, so a rule drops them, before all other rules of the packet filter.
 *
 * The bridge plugin enables forwarding, so the host forwards to pods whatever another host sends by a route to their subnet,
 * for ports that are not published, too. In networks with published ports only ("acnspawn/outside"), packets from other
 * interfaces than the bridge pass only if a rule has translated their destination, or if they belong to a connection that
 * passed before. The rule is in the table mangle, where rules that accept everything else that is forwarded do not precede it.
 *
 * There is one rule per host, or per bridge, which remains, as do the kernel's setting and the bridge.
 *
 * IPv6 lets every process bind a socket to any address (IPV6_FREEBIND), and send from there, also from that of another pod. So in
 * the pod's network namespace, whose rules the pod cannot change, packets are dropped whose source is not an address of that
 * namespace. IPv4 refuses them itself.
 */

#include "stage0/network/network-internal.h"

#define RULES_MAX 3U /* of a network */
#define RULE_WORDS_MAX 20U

typedef struct Rule {
        const char *program, *table;
        const char *words[RULE_WORDS_MAX]; /* of the rule, the chain first */
        const char *failure;               /* what is not blocked without it */
} Rule;

static Rule loopback_rule(void)
{
        return (Rule){.program = "iptables",
                      .table = "raw",
                      .words = {"PREROUTING", "!", "-i", "lo", "-d", "127.0.0.0/8", "-m", "comment",
                                "--comment", "acnspawn: the loopback of the host is its own", "-j", "DROP"},
                      .failure = "packets addressed to the host's loopback cannot be blocked"};
}

static Rule outside_rule(const char *program, const char *bridge)
{
        return (Rule){.program = program,
                      .table = "mangle",
                      .words = {"FORWARD", "!", "-i", bridge, "-o", bridge, "-m", "conntrack", "!",
                                "--ctstate", "DNAT,RELATED,ESTABLISHED", "-m", "comment", "--comment",
                                "acnspawn: from outside published ports only", "-j", "DROP"},
                      .failure = "ports that are not published cannot be blocked for other hosts"};
}

static Rule source_rule(void)
{
        return (Rule){.program = "ip6tables",
                      .table = "raw",
                      .words = {"OUTPUT", "!", "-s", "::/128", "-m", "addrtype", "!", "--src-type", "LOCAL",
                                "-m", "comment", "--comment", "acnspawn: from own addresses only", "-j",
                                "DROP"},
                      .failure = "packets with IPv6 addresses of others as their source cannot be blocked"};
}

/* Waits for other processes that change rules, with a timeout. */
static pid_t start(const Rule *rule, const char *action, int netns_fd)
{
        const char *argv[8 + RULE_WORDS_MAX] = {rule->program, "-w", "5", "-t", rule->table, action};
        size_t n = 6;

        for (size_t i = 0; i < RULE_WORDS_MAX && rule->words[i]; i++)
                argv[n++] = rule->words[i];
        return network_program_start(argv, netns_fd, -EBADF);
}

static int add_note(Attachment *a, const Rule *rule)
{
        _cleanup_free_ char *before = TAKE_PTR(a->note);

        return xasprintf(&a->note, "%s%s%s (%s -t %s)", before ?: "", before ? "; " : "", rule->failure,
                         rule->program, rule->table);
}

/* Looks for all of them at once, each of which takes some milliseconds, and inserts those that are missing. */
static int insert_all(Attachment *a, const Rule *rules, size_t n)
{
        pid_t pids[RULES_MAX];
        int r = 0;

        for (size_t i = 0; i < n; i++)
                pids[i] = start(&rules[i], "-C", -EBADF);
        for (size_t i = 0; i < n; i++)
                if (!network_program_succeeded(pids[i]) &&
                    !network_program_succeeded(start(&rules[i], "-I", -EBADF)) && r >= 0)
                        r = add_note(a, &rules[i]);
        return r;
}

bool attachment_maps_ports(const Attachment *a)
{
        if (!json_object_object_get_ex(a->runtime, "portMappings", NULL))
                return false;
        for (size_t i = 0; i < json_object_array_length(a->plugins); i++)
                if (streq(cni_plugin_type(json_object_array_get_idx(a->plugins, i)), "portmap"))
                        return true;
        return false;
}

/* The bridge of the network, or NULL. */
static const char *bridge_of(const Attachment *a)
{
        for (size_t i = 0; i < json_object_array_length(a->plugins); i++) {
                json_object *plugin = json_object_array_get_idx(a->plugins, i), *v;

                if (!streq(cni_plugin_type(plugin), "bridge"))
                        continue;
                bool named = json_object_object_get_ex(plugin, "bridge", &v) &&
                             json_object_is_type(v, json_type_string);
                return named ? json_object_get_string(v) : "cni0"; /* the plugin's default */
        }
        return NULL;
}

static bool is_there(const char *path)
{
        return access(path, F_OK) >= 0;
}

static int shield_one(Attachment *a)
{
        const char *bridge = a->published_only ? bridge_of(a) : NULL;
        Rule rules[RULES_MAX];
        size_t n = 0;

        if (attachment_maps_ports(a))
                rules[n++] = loopback_rule();
        if (bridge)
                rules[n++] = outside_rule("iptables", bridge);
        if (bridge && is_there("/proc/sys/net/ipv6"))
                rules[n++] = outside_rule("ip6tables", bridge);
        return insert_all(a, rules, n);
}

int network_shield(NetworkRecord *record)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < record->n_attachments; i++)
                r = shield_one(&record->attachments[i]);
        return r;
}

/* --- What plugins miss --------------------------------------------------------------------------------- */

#define CHAIN_LENGTH 28U /* of the plugins' names of chains */

bool network_masquerade_chains(const Attachment *a, const char *container, const char *action)
{
        _cleanup_free_ char *both = NULL, *digest = NULL, *chain = NULL;
        bool translates = false, made = false;
        json_object *v;

        for (size_t i = 0; i < json_object_array_length(a->plugins); i++)
                translates = translates ||
                             (json_object_object_get_ex(json_object_array_get_idx(a->plugins, i), "ipMasq",
                                                        &v) &&
                              json_object_get_boolean(v));
        if (!translates || xasprintf(&both, "%s%s", a->network, container) < 0 ||
            digest_bytes("sha512:", both, strlen(both), &digest) < 0 ||
            xasprintf(&chain, "CNI-%.*s", (int) (CHAIN_LENGTH - strlen("CNI-")),
                      digest + strlen("sha512:")) < 0)
                return false;
        static const char *const programs[] = {"iptables", "ip6tables"};
        for (size_t i = 0; i < ELEMENTSOF(programs); i++) {
                const Rule rule = {.program = programs[i], .table = "nat", .words = {chain}};
                made = network_program_succeeded(start(&rule, action, -EBADF)) || made;
        }
        return made;
}

/* --- In the pod's network namespace -------------------------------------------------------------------- */

pid_t network_shield_sources_start(const char *netns)
{
        _cleanup_close_ int fd = -EBADF;
        const Rule rule = source_rule();

        if (!is_there("/proc/sys/net/ipv6"))
                return 0;
        fd = open(netns, O_RDONLY | O_CLOEXEC);
        return fd < 0 ? -errno : start(&rule, "-A", fd);
}

int network_shield_sources_finish(pid_t pid, NetworkRecord *record)
{
        const Rule rule = source_rule();

        if (pid == 0 || network_program_succeeded(pid))
                return 0;
        for (size_t i = 0; i < record->n_attachments; i++)
                if (add_note(&record->attachments[i], &rule) < 0)
                        return -ENOMEM;
        return 1;
}
