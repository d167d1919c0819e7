/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Each allocation fails once, in what programs read: files that declare pods, groups of tasks, networks and the results of
 * their plugins, resolver files, requests of clients, calls of apps, configurations of the launcher. See allocations.h. */

#include "containers/containers.h"
#include "schema/idl.h"
#include "schema/schema-internal.h"
#include "stage0/arguments/pod-arguments.h"
#include "stage0/arguments/task-group.h"
#include "stage0/declared/declared.h"
#include "stage0/host-service/host-service.h"
#include "stage0/mounts/mounts-internal.h"
#include "stage0/network/network-internal.h"
#include "stage1/launch-config.h"
#include "tests/unit/allocations.h"
#include "varlink/varlink.h"

/* --- Pods that are declared ---------------------------------------------------------------------------- */

static int parse_declared(void *userdata, Text *result, Error *e)
{
        _cleanup_(declared_freep) Declared *d = declared_new("x");
        const char *s = userdata;

        int r = d ? declared_parse(d, "x.pod", s, strlen(s)) : -ENOMEM;
        if (r >= 0)
                r = declared_check_units(d);
        if (r < 0)
                return without_message(r, e);
        declared_sort_findings(d);
        for (size_t i = 0; i < d->n_settings; i++)
                text_addf(result, "%zu %s=%s\n", d->settings[i].app, d->settings[i].key,
                          d->settings[i].value);
        for (size_t i = 0; i < d->n_findings; i++)
                text_addf(result, "%u: %s (%s)\n", d->findings[i].place.line, d->findings[i].text,
                          d->findings[i].hint ?: "");
        return 0;
}

INPUT(declared, parse_declared,
      "[Pod]\nNet=host\nPort=80:8080 \"81:81\"\nMemory=\n# comment\n[App web]\nImage=docker://x\n"
      "Arguments=a \"b c\" 'd' \\\n  e\nHostname=%i.%%\n[App db]\nImage=y\n[Unit]\nAfter=x.service\n[Install]\nWantedBy=multi-user.target\n")
INPUT(declared_with_mistakes, parse_declared,
      "Key=early\n[App]\n[App a b]\nno assignment\n[Unit]\nExecStart=x\n[Install]\nAlias=y\n[Pod")

static int find_needs(void *userdata, Text *result, Error *e)
{
        _cleanup_(declared_freep) Declared *d = declared_new("x");
        const char *s = userdata;

        int r = d ? declared_parse(d, "x.pod", s, strlen(s)) : -ENOMEM;
        if (r >= 0)
                r = declared_add_mounts(d, result);
        if (r >= 0)
                r = declared_uses_network(d, false);
        if (r < 0)
                return without_message(r, e);
        text_addf(result, "network: %d\n", r);
        return 0;
}

INPUT(needs_of_declared, find_needs,
      "[Pod]\nVolume=a,kind=host,source=/srv/%i '/b c:/d' e,kind=image,source=/e.aci\nEnvironmentFile=/f\n"
      "LoadCredential=g:/h\n[App web]\nImage=oci:/i:1\nLogFile=/j,format=cri\n[App db]\nImage=k.example/l\n")
INPUT(needs_of_declared_with_mistakes, find_needs,
      "[Pod]\nVolume=a,kind=host,source=../b '/c\nEnvironmentFile=%?\nLoadCredential=g\n[App web]\nImage='/i\nLogFile=,j\n")

static int read_words(void *userdata, Text *result, Error *e)
{
        _cleanup_free_ char *whole = NULL, *expanded = NULL, *quoted = NULL;
        _cleanup_strv_free_ char **words = NULL;
        const char *reason = NULL;
        char bad = 0;

        int r = declared_words(userdata, &words, &reason);
        if (r >= 0)
                r = declared_value(userdata, &whole, &reason);
        if (r >= 0)
                r = declared_expand(whole, "x", &expanded, &bad);
        if (r >= 0)
                r = declared_quote(expanded, false, &quoted);
        add_list(result, words);
        text_addf(result, "%s %s %s %s", whole ?: "", expanded ?: "", quoted ?: "", reason ?: "");
        return without_message(r, e);
}

INPUT(words, read_words, "a \"b c\" 'd e' \\x41\\101\\u00e4 %i.%%")
INVALID_INPUT(words_with_a_mistake, read_words, "a \"b")

/* --- Groups of tasks ----------------------------------------------------------------------------------- */

static int parse_task_group(void *userdata, Text *result, Error *e)
{
        const char *s = userdata;
        PodRequest q = {};

        int r = task_group_parse(s, strlen(s), NULL, false, &q, e);
        for (size_t i = 0; r >= 0 && i < q.n_apps; i++) {
                const AppOverrides *a = &q.apps[i];
                text_addf(result, "%s %s %s ", a->name, a->reference, a->user ?: "");
                add_list(result, a->exec);
                for (size_t k = 0; k < a->annotations.n; k++)
                        text_addf(result, "%s=%s ", a->annotations.items[k].name,
                                  a->annotations.items[k].value);
                for (size_t k = 0; k < a->environment.n; k++)
                        text_addf(result, "%s=%s ", a->environment.items[k].name,
                                  a->environment.items[k].value);
                for (size_t k = 0; k < a->isolators.n; k++)
                        text_addf(result, "%s %" PRIu64 " ", a->isolators.items[k].name,
                                  a->isolators.items[k].limit);
                for (size_t k = 0; k < a->n_mounts; k++)
                        text_addf(result, "%s on %s ", a->mounts[k].volume, a->mounts[k].path);
        }
        pod_request_done(&q);
        return r;
}

INPUT(task_group, parse_task_group,
      "{\"tasks\":[{\"task_id\":{\"value\":\"Web.1\"},\"name\":\"web\",\"agent_id\":{\"value\":\"a\"},\"container\":{\"type\":\"MESOS\","
      "\"mesos\":{\"image\":{\"type\":\"DOCKER\",\"docker\":{\"name\":\"library/busybox:1\"}}},\"volumes\":[{\"mode\":\"RW\","
      "\"container_path\":\"/data\",\"source\":{\"type\":\"SANDBOX_PATH\",\"sandbox_path\":{\"type\":\"PARENT\",\"path\":\"shared\"}}},"
      "{\"mode\":\"RO\",\"container_path\":\"/x\",\"host_path\":\"/srv\"}],\"linux_info\":{\"share_cgroups\":false}},"
      "\"command\":{\"value\":\"true\",\"user\":\"7\",\"environment\":{\"variables\":[{\"name\":\"A\",\"value\":\"b\"}]}},"
      "\"resources\":[{\"name\":\"cpus\",\"type\":\"SCALAR\",\"scalar\":{\"value\":0.25}},{\"name\":\"mem\",\"type\":\"SCALAR\",\"scalar\":{\"value\":32}}],"
      "\"health_check\":{\"type\":\"COMMAND\",\"command\":{\"value\":\"true\"},\"interval_seconds\":1.5},"
      "\"kill_policy\":{\"grace_period\":{\"nanoseconds\":1000000000}},\"labels\":{\"labels\":[{\"key\":\"a\",\"value\":\"b\"}]}}]}")
INVALID_INPUT(task_group_with_mistakes, parse_task_group,
              "{\"tasks\":[{\"task_id\":{\"value\":\"a\"},\"resources\":[{\"name\":\"mem\",\"scalar\":{\"value\":1e308}}]},3,{\"x\":[]}],\"y\":{}}")

/* --- Networks ------------------------------------------------------------------------------------------ */

static int parse_network(void *userdata, Text *result, Error *e)
{
        _cleanup_(cni_network_freep) CniNetwork *n = NULL;
        _cleanup_free_ char *plugins = NULL;
        const char *s = userdata;

        int r = cni_network_parse(s, strlen(s), true, "x.conflist", &n, e);
        if (r >= 0)
                r = without_message(cni_network_drop_ipv6(n, "why not"), e);
        if (r >= 0)
                r = without_message(json_format(n->plugins, &plugins), e);
        if (r < 0)
                return r;
        add_list(result, n->versions);
        text_addf(result, "%s %s %s", n->name, plugins, n->note ?: "");
        return 0;
}

INPUT(network, parse_network,
      "{\"cniVersion\":\"1.0.0\",\"cniVersions\":[\"0.4.0\",\"1.1.0\"],\"name\":\"default\",\"plugins\":[{\"type\":\"bridge\","
      "\"capabilities\":{\"ips\":true,\"mac\":true},\"ipam\":{\"type\":\"host-local\",\"ranges\":[[{\"subnet\":\"172.16.0.0/16\"}],"
      "[{\"subnet\":\"fd00::/64\"}]],\"routes\":[{\"dst\":\"0.0.0.0/0\"},{\"dst\":\"::/0\"}]}},{\"type\":\"portmap\"}]}")
INVALID_INPUT(network_with_a_mistake, parse_network,
              "{\"cniVersion\":\"1.0.0\",\"name\":\"n\",\"plugins\":[{\"type\":\"a/b\"}]}")

static int parse_result(void *userdata, Text *result, Error *e)
{
        _cleanup_json_ json_object *o = NULL;
        const char *s = userdata;
        NetworkReport *n = calloc(1, sizeof(*n));

        int r = n ? json_parse_strict(s, strlen(s), &o, NULL, e) : error_oom(e);
        if (r >= 0)
                r = cni_result_parse(o, "eth0", n, e);
        if (r >= 0) {
                text_addf(result, "%s %zu %zu ", n->mac ?: "", n->n_addresses, n->n_routes);
                add_list(result, n->dns.servers);
                add_list(result, n->dns.search);
                add_list(result, n->dns.options);
        }
        network_report_free(n, n ? 1 : 0);
        return r;
}

INPUT(network_result, parse_result,
      "{\"interfaces\":[{\"name\":\"eth0\",\"mac\":\"02:00:00:00:00:01\",\"sandbox\":\"/x\"}],\"ips\":[{\"address\":\"10.0.0.2/24\","
      "\"gateway\":\"10.0.0.1\",\"interface\":0}],\"routes\":[{\"dst\":\"::/0\",\"gw\":\"fe80::1\"}],"
      "\"dns\":{\"nameservers\":[\"10.0.0.1\"],\"domain\":\"example.com\",\"search\":[\"a\"],\"options\":[\"ndots:2\"]}}")
INVALID_INPUT(network_result_with_a_mistake, parse_result, "{\"dns\":{\"search\":[\"a\\nb\"]}}")

static int parse_network_record(void *userdata, Text *result, Error *e)
{
        _cleanup_(network_record_done) NetworkRecord n = {};
        _cleanup_free_ char *text = NULL;
        const char *s = userdata;

        int r = network_record_parse(s, strlen(s), &n);
        if (r >= 0)
                r = network_record_format(&n, &text);
        text_add(result, text ?: "");
        return without_message(r, e);
}

INPUT(network_record, parse_network_record,
      "{\"ports\":[{\"name\":\"p\",\"hostIP\":\"\",\"udp\":false,\"hostPort\":1,\"port\":2,\"count\":3}],\"networks\":[{\"network\":\"n\","
      "\"interface\":\"eth0\",\"args\":\"\",\"version\":\"1.0.0\",\"plugins\":[{\"type\":\"a\"}],\"runtime\":{},\"result\":{}}],\"pluginPath\":\"/a\"}")

static int parse_network_request(void *userdata, Text *result, Error *e)
{
        _cleanup_(network_request_done) NetworkRequest q = {};

        int r = network_request_parse(userdata, &q, e);
        if (r < 0)
                return r;
        text_addf(result, "%s %s %s ", q.name, q.args ?: "", q.mac ?: "");
        add_list(result, q.ips);
        add_list(result, q.aliases);
        return 0;
}

INPUT(network_request, parse_network_request, "lan:IP=10.0.0.1;MAC=02:00:00:00:00:01;ALIAS=x;Other=y")

static int parse_resolver(void *userdata, Text *result, Error *e)
{
        _cleanup_(network_dns_done) NetworkDns d = {};
        _cleanup_free_ char *text = NULL;

        int r = resolv_conf_parse(userdata, true, &d);
        if (r >= 0)
                r = resolv_conf_format(&d, &text);
        text_add(result, text ?: "");
        return without_message(r, e);
}

INPUT(resolver, parse_resolver,
      "# x\nnameserver 10.0.0.1\nnameserver 127.0.0.53\nnameserver fe80::1%eth0\nsearch a.example.com b\noptions ndots:2 edns0\nsearch c d\n")

/* --- Requests ------------------------------------------------------------------------------------------ */

static int parse_host_request(void *userdata, Text *result, Error *e)
{
        _cleanup_pod_arguments_ PodArguments a;
        _cleanup_json_ json_object *o = NULL, *again = NULL;
        _cleanup_free_ char *field = NULL, *text = NULL;
        const char *s = userdata;

        pod_arguments_init(&a);
        int r = json_parse_strict(s, strlen(s), &o, NULL, e);
        if (r >= 0)
                r = host_request_parse(o, &a, &field, e);
        if (r < 0)
                return r;
        r = app_request_format(&a.request, &again, e);
        if (r >= 0)
                r = without_message(json_format(again, &text), e);
        text_addf(result, "%s %s", a.options.name ?: "", text ?: "");
        add_list(result, a.options.networks);
        add_list(result, a.options.dns);
        add_list(result, a.options.hosts_entries);
        return r;
}

INPUT(host_request, parse_host_request,
      "{\"definition\":{\"apps\":[{\"image\":\"example.com/web\",\"name\":\"web\",\"args\":[\"a\",{\"hex\":\"ff\"}],"
      "\"isolators\":[{\"name\":\"resource/memory\",\"value\":{\"limit\":\"1M\"}}],\"mounts\":[{\"volume\":\"v\",\"path\":\"/v\"}]}],"
      "\"volumes\":[{\"name\":\"v\",\"kind\":\"empty\"}],\"ports\":[{\"name\":\"p\",\"hostPort\":80}]},"
      "\"credentials\":[{\"name\":\"k\",\"data\":\"00ff\",\"app\":\"web\"}],"
      "\"options\":{\"name\":\"web\",\"net\":[\"default\"],\"dns\":[\"192.0.2.1\"],\"dnsSearch\":[\"example.com\"],"
      "\"hostsEntry\":[\"192.0.2.1=a\"],\"exitPolicy\":\"all\",\"stopTimeout\":\"1s\"},\"fetch\":{\"pullPolicy\":\"update\"}}")
INVALID_INPUT(host_request_with_a_mistake, parse_host_request,
              "{\"definition\":{\"apps\":[{\"image\":\"example.com/web\"}]},\"options\":{\"exitPolicy\":\"such\"}}")

static int parse_call(void *userdata, Text *result, Error *e)
{
        _cleanup_container_call_ ContainerCall c = {};
        _cleanup_free_ char *text = NULL;
        const char *s = userdata;

        int r = container_call_parse(s, strlen(s), &c, e);
        if (r >= 0)
                r = without_message(json_format(c.parameters, &text), e);
        if (r >= 0)
                text_addf(result, "%s %s", c.method, text);
        return r;
}

INPUT(container_call, parse_call,
      "{\"type\":\"LAUNCH_NESTED_CONTAINER\",\"launch_nested_container\":{\"container_id\":{\"parent\":{\"value\":\"web\"},\"value\":\"a\"},"
      "\"command\":{\"value\":\"exit 3\",\"environment\":{\"variables\":[{\"name\":\"A\",\"value\":\"b\",\"type\":\"VALUE\"}]}},"
      "\"container\":{\"type\":\"MESOS\",\"mesos\":{\"image\":{\"type\":\"APPC\",\"appc\":{\"name\":\"example.com/a\"}}}}}}")
INVALID_INPUT(container_call_with_a_mistake, parse_call,
              "{\"type\":\"KILL_CONTAINER\",\"kill_container\":{\"container_id\":{}}}")

static int parse_process_io(void *userdata, Text *result, Error *e)
{
        const char *s = userdata;
        ProcessIo p = {};

        int r = process_io_parse(s, strlen(s), &p, e);
        if (r >= 0)
                text_addf(result, "%d %.*s", p.kind, (int) p.size, p.data ? (const char *) p.data : "");
        process_io_done(&p);
        return r;
}

INPUT(process_io, parse_process_io,
      "{\"type\":\"ATTACH_CONTAINER_INPUT\",\"attach_container_input\":{\"type\":\"PROCESS_IO\",\"process_io\":"
      "{\"type\":\"DATA\",\"data\":{\"type\":\"STDIN\",\"data\":\"aGVsbG8=\"}}}}")

/* --- The launcher -------------------------------------------------------------------------------------- */

static int parse_launch_config(void *userdata, Text *result, Error *e)
{
        _cleanup_launch_config_ LaunchConfig c = {};
        _cleanup_free_ char *text = NULL;
        const Text *t = userdata;
        size_t size = 0;

        int r = launch_config_parse(t->data, t->size, &c);
        if (r >= 0)
                r = launch_config_format(&c, &text, &size);
        for (size_t i = 0; i < size; i++)
                if (text[i] == 0)
                        text[i] = '\n';
        text_add_bytes(result, text ?: "", size);
        return without_message(r, e);
}

TEST(launch_config)
{
        static char *exec[] = {(char *) "/bin/x", (char *) "y", NULL},
                    *environment[] = {(char *) "A=b", NULL}, *mounts[] = {(char *) "/srv", NULL},
                    *masked[] = {(char *) "/proc/kcore", NULL};
        gid_t gids[] = {5, 6};
        const LaunchConfig c = {.app = (char *) "web",
                                .exec = exec,
                                .environment = environment,
                                .user = (char *) "0",
                                .group = (char *) "0",
                                .gids = gids,
                                .n_gids = 2,
                                .working_directory = (char *) "/",
                                .mounts = mounts,
                                .masked = masked,
                                .has_masked = true,
                                .has_filter = true,
                                .apparmor_profile = (char *) "p"};
        _cleanup_text_ Text t = {};

        ASSERT_OK(launch_config_format(&c, &t.data, &t.size));
        for_each_failing_allocation(parse_launch_config, &t);
}

int main(void)
{
        RUN(declared);
        RUN(declared_with_mistakes);
        RUN(needs_of_declared);
        RUN(needs_of_declared_with_mistakes);
        RUN(words);
        RUN(words_with_a_mistake);
        RUN(task_group);
        RUN(task_group_with_mistakes);
        RUN(network);
        RUN(network_with_a_mistake);
        RUN(network_result);
        RUN(network_result_with_a_mistake);
        RUN(network_record);
        RUN(network_request);
        RUN(resolver);
        RUN(host_request);
        RUN(host_request_with_a_mistake);
        RUN(container_call);
        RUN(container_call_with_a_mistake);
        RUN(process_io);
        RUN(launch_config);
        return TEST_END();
}
