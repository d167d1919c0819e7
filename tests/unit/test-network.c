/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Networks: options, configurations, results of plugins, and misbehaving plugins. The plugins are shell
 * scripts written by the test; no network is changed. */

#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "config.h"
#include "stage0/network/network-internal.h"
#include "tests/unit/scratch.h"
#include "tests/unit/test.h"

/* --- What users write ---------------------------------------------------------------------------------- */

TEST(requests)
{
        _cleanup_(network_request_done) NetworkRequest q = {};

        ASSERT_OK(network_request_parse("lan:IP=10.0.0.9;MAC=02:00:00:00:00:01;ALIAS=a;ALIAS=b;K=v", &q,
                                        NULL));
        ASSERT_STREQ(q.name, "lan");
        ASSERT_STREQ(q.args, "IgnoreUnknown=1;IP=10.0.0.9;MAC=02:00:00:00:00:01;ALIAS=a;K=v");
        ASSERT_STREQ(q.ips[0], "10.0.0.9");
        ASSERT_STREQ(q.mac, "02:00:00:00:00:01");
        ASSERT_EQ(strv_length(q.aliases), 2U);
}

TEST(requests_that_are_refused)
{
        static const char *const bad[] = {"",
                                          ":",
                                          "a:",
                                          "a:b",
                                          "a:=x",
                                          "a/b",
                                          ".a",
                                          "-a",
                                          "a b",
                                          "a:K=v;",
                                          "a:IP=x",
                                          "a:MAC=1",
                                          "a:K=\xff",
                                          "a:K=a,b",
                                          "a:IP=1.2.3",
                                          "a:K=v\nX=y",
                                          "a:MAC=02:00:00:00:00:0"};

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                NetworkRequest q = {};
                ASSERT_ERR(network_request_parse(bad[i], &q, NULL), -EINVAL);
        }
}

/* --- Configurations ------------------------------------------------------------------------------------ */

static int parse(const char *text, bool list, CniNetwork **ret, Error *e)
{
        return cni_network_parse(text, strlen(text), list, "/etc/x.conf", ret, e);
}

TEST(configurations)
{
        _cleanup_(cni_network_freep) CniNetwork *l = NULL, *one = NULL;

        ASSERT_OK(parse("{\"cniVersion\":\"0.4.0\",\"cniVersions\":[\"0.3.1\",\"1.0.0\",\"9.9.9\"],\"name\":"
                        "\"n\","
                        "\"plugins\":[{\"type\":\"a\",\"capabilities\":{\"portMappings\":true,\"ips\":false}"
                        "}]}",
                        true, &l, NULL));
        ASSERT_STREQ(l->name, "n");
        ASSERT_STREQ(l->versions[0], "1.0.0");
        ASSERT_EQ(strv_length(l->versions), 3U);
        ASSERT_TRUE(cni_network_can(l, "portMappings"));
        ASSERT_FALSE(cni_network_can(l, "ips"));
        ASSERT_OK(parse("{\"cniVersion\":\"0.3.1\",\"name\":\"n\",\"type\":\"a\"}", false, &one, NULL));
        ASSERT_EQ(json_object_array_length(one->plugins), 1U);
        ASSERT_TRUE(cni_version_at_least("1.0.0", "0.4.0"));
        ASSERT_FALSE(cni_version_at_least("0.3.1", "0.4.0"));
}

TEST(state_that_a_reboot_removes)
{
        static const struct {
                const char *plugin;
                bool is_volatile;
                const char *leases; /* NULL: none that outlive a reboot; "": in the usual directory */
        } cases[] = {
                        {"\"type\":\"portmap\"", true, NULL},
                        {"\"type\":\"ptp\",\"ipam\":{}", true, NULL},
                        {"\"type\":\"ptp\",\"ipam\":null", true, NULL},
                        {"\"type\":\"ptp\",\"ipam\":{\"type\":\"host-local\",\"dataDir\":\"/run/cni\"}",
                         true, NULL},
                        {"\"type\":\"ptp\",\"ipam\":{\"type\":\"host-local\",\"dataDir\":\"/runner\"}",
                         false, "/runner"},
                        {"\"type\":\"ptp\",\"ipam\":{\"type\":\"host-local\"}", false, ""},
                        {"\"type\":\"ptp\",\"ipam\":{\"type\":\"dhcp\"}", false, NULL},
                        {"\"type\":\"tuning\",\"dataDir\":\"/run/tuning\"", true, NULL},
                        {"\"type\":\"tuning\",\"dataDir\":\"/var/lib/tuning\"", false, NULL},
                        {"\"type\":\"flannel\"", false, NULL},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(cni_network_freep) CniNetwork *n = NULL;
                _cleanup_free_ char *text = NULL;
                const char *directory = NULL;

                ASSERT_OK(xasprintf(
                                &text,
                                "{\"cniVersion\":\"0.4.0\",\"name\":\"n\",\"plugins\":[{\"type\":\"bridge\"},"
                                "{%s}]}",
                                cases[i].plugin));
                ASSERT_OK(parse(text, true, &n, NULL));
                ASSERT_EQ(cni_state_is_volatile(n->plugins), cases[i].is_volatile);
                ASSERT_EQ(cni_plugin_keeps_leases(json_object_array_get_idx(n->plugins, 1), &directory),
                          cases[i].leases != NULL);
                ASSERT_STREQ(directory ?: "", cases[i].leases ?: "");
        }
}

TEST(leases_that_a_loss_of_power_has_emptied)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        static const char *const kept[] = {"n/10.0.0.2", "n/lock", "n/last_reserved_ip.0", "n/10.0.0"};
        static const char *const lost[] = {"n/10.0.0.3", "n/fd00::3"};

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(cni_leases_settle_in(s.path, "n")); /* the plugin has not run */
        ASSERT_ERR(cni_leases_settle_in(s.path, ".."), -EINVAL);
        ASSERT_EQ(mkdirat(s.fd, "n", 0700), 0);
        for (size_t i = 0; i < ELEMENTSOF(kept); i++)
                ASSERT_OK(scratch_file(&s, kept[i], i == 0 ? "pod\r\neth0" : ""));
        for (size_t i = 0; i < ELEMENTSOF(lost); i++)
                ASSERT_OK(scratch_file(&s, lost[i], ""));
        _cleanup_close_ int lock = openat(s.fd, "n/lock", O_RDONLY | O_CLOEXEC);
        ASSERT_EQ(flock(lock, LOCK_EX), 0);
        ASSERT_OK(cni_leases_settle_in(s.path, "n")); /* one may be in the making */
        for (size_t i = 0; i < ELEMENTSOF(lost); i++)
                ASSERT_EQ(faccessat(s.fd, lost[i], F_OK, 0), 0);
        ASSERT_EQ(flock(lock, LOCK_UN), 0);
        ASSERT_OK(cni_leases_settle_in(s.path, "n"));
        for (size_t i = 0; i < ELEMENTSOF(kept); i++)
                ASSERT_EQ(faccessat(s.fd, kept[i], F_OK, 0), 0);
        for (size_t i = 0; i < ELEMENTSOF(lost); i++)
                ASSERT_EQ(faccessat(s.fd, lost[i], F_OK, 0), -1);
}

TEST(directories_are_those_of_the_build)
{
        const char *const own[] = {"/x", NULL};
        _cleanup_strv_free_ char **usual = NULL, **l = NULL;

        ASSERT_OK(cni_config_directories(NULL, &usual));
        ASSERT_STREQ(usual[0], ACNSPAWN_SYSCONFDIR "/net.d");
        ASSERT_STREQ(usual[1], ACNSPAWN_LIBEXECDIR "/net.d");
        ASSERT_STREQ(usual[2], "/etc/cni/net.d");
        ASSERT_OK(cni_config_directories(own, &l));
        ASSERT_EQ(strv_length(l), 1U);
        ASSERT_STREQ(l[0], "/x/net.d");
}

TEST(configurations_that_are_refused)
{
        static const struct {
                const char *text, *message;
        } bad[] = {
                        {"[]", "it is not a JSON object"},
                        {"{\"cniVersion\":\"0.4.0\",\"plugins\":[]}", "\"name\" is not"},
                        {"{\"cniVersion\":\"0.4.0\",\"name\":\"../n\",\"plugins\":[]}", "\"name\" is not"},
                        {"{\"cniVersion\":\"0.4.0\",\"name\":\"n\",\"acnspawn/ipv6\":true,\"plugins\":[]}",
                         "can only be \"optional\""},
                        {"{\"cniVersion\":\"0.4.0\",\"name\":\"n\",\"acnspawn/outside\":\"all\",\"plugins\":[]}",
                         "can only be \"published\""},
                        {"{\"name\":\"n\",\"plugins\":[]}", "it has no \"cniVersion\""},
                        {"{\"cniVersion\":\"0.1.0\",\"name\":\"n\",\"plugins\":[]}",
                         "\"cniVersion\" is 0.1.0"},
                        {"{\"cniVersion\":\"0.4.0\",\"name\":\"n\",\"plugins\":[]}",
                         "is not a list of plugins"},
                        {"{\"cniVersion\":\"0.4.0\",\"name\":\"n\",\"plugins\":[1]}",
                         "plugin 1 is not a JSON object"},
                        {"{\"cniVersion\":\"0.4.0\",\"name\":\"n\",\"plugins\":[{\"type\":\"../sh\"}]}",
                         "not the name of a program"},
                        {"{\"cniVersion\":\"0.4.0\",\"name\":\"n\",\"plugins\":[{\"type\":\"a\","
                         "\"ipam\":{\"type\":\"/bin/sh\"}}]}",
                         "in the \"ipam\" of plugin 1"},
        };

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                _cleanup_(cni_network_freep) CniNetwork *n = NULL;
                _cleanup_error_ Error e = ERROR_NULL;

                ASSERT_TRUE(parse(bad[i].text, true, &n, &e) < 0);
                ASSERT_CONTAINS(e.message, bad[i].message);
        }
}

/* --- Results ------------------------------------------------------------------------------------------- */

static int parse_result(const char *text, NetworkReport **ret, Error *e)
{
        _cleanup_json_ json_object *o = NULL;

        *ret = calloc(1, sizeof(NetworkReport));
        int r = json_parse_strict(text, strlen(text), &o, NULL, e);
        return r < 0 ? r : cni_result_parse(o, "eth0", *ret, e);
}

TEST(results)
{
        NetworkReport *r = NULL;

        ASSERT_OK(parse_result(
                        "{\"interfaces\":[{\"name\":\"eth0\"},{\"name\":\"eth0\",\"mac\":\"02:00\","
                        "\"sandbox\":"
                        "\"/x\"}],\"ips\":[{\"address\":\"10.0.0.2/24\",\"gateway\":\"10.0.0.1\","
                        "\"interface\":1},{\"address\":\"10.0.0.3/"
                        "24\",\"interface\":0}],\"routes\":[{\"dst\":"
                        "\"::/0\",\"gw\":\"fe80::1\"}],\"dns\":{\"nameservers\":[\"10.0.0.1\"],\"domain\":"
                        "\"example.com\",\"search\":[],\"options\":[\"ndots:2\"]}}",
                        &r, NULL));
        ASSERT_EQ(r->n_addresses, 1U);
        ASSERT_STREQ(r->addresses[0].address, "10.0.0.2/24");
        ASSERT_STREQ(r->mac, "02:00");
        ASSERT_STREQ(r->routes[0].gateway, "fe80::1");
        ASSERT_STREQ(r->dns.options[0], "ndots:2");
        network_report_free(r, 1);
}

TEST(results_that_are_refused)
{
        static const char *const bad[] = {
                        "[]",
                        "{\"ips\":{}}",
                        "{\"ips\":[1]}",
                        "{\"ips\":[{}]}",
                        "{\"ips\":[{\"address\":\"10.0.0.2\"}]}",
                        "{\"ips\":[{\"address\":\"10.0.0.2/33\"}]}",
                        "{\"ips\":[{\"address\":\"x/1\"}]}",
                        "{\"routes\":[{\"dst\":\"0.0.0.0/0\",\"gw\":\"here\"}]}",
                        "{\"dns\":{\"nameservers\":[\"a\\nnameserver b\"]}}",
                        "{\"dns\":{\"domain\":\"a b\"}}",
                        "{\"dns\":[]}",
        };

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                NetworkReport *r = NULL;
                ASSERT_ERR(parse_result(bad[i], &r, NULL), -EBADMSG);
                network_report_free(r, 1);
        }
}

/* --- Plugins ------------------------------------------------------------------------------------------- */

static const char protocol[] = "#!/bin/sh\n"
                               "cat >\"$0.$CNI_COMMAND.stdin\"; env | sort >\"$0.$CNI_COMMAND.env\"\n"
                               "echo \"$CNI_COMMAND ${0##*/}\" >>\"${0%/*}/order\"\n";

/* A script that records its input and then executes BODY. */
static int make_plugin(const Scratch *s, const char *name, const char *body)
{
        _cleanup_free_ char *text = NULL;

        int r = xasprintf(&text, "%s%s\n", protocol, body);
        if (r >= 0)
                r = scratch_file(s, name, text);
        return r >= 0 && fchmodat(s->fd, name, 0755, 0) < 0 ? -errno : r;
}

static int run(const Scratch *s, const char *type, unsigned *ret_code, Error *e)
{
        _cleanup_json_ json_object *input = json_object_new_object();
        _cleanup_free_ char *text = NULL;
        CniCall c = {.command = "ADD",
                     .type = type,
                     .network = "net",
                     .container = "id",
                     .netns = "/ns",
                     .interface = "eth0",
                     .args = "IgnoreUnknown=1",
                     .path = s->path,
                     .input = input};
        size_t size = 0;

        return cni_plugin_run(&c, &text, &size, ret_code, e);
}

TEST(plugins_that_fail)
{
        static const struct {
                const char *body;
                int code;
                const char *message;
        } bad[] = {
                        {"echo '{\"code\":7,\"msg\":\"no room\",\"details\":\"left\"}'; exit 1", -EIO,
                         "The CNI plugin 'p' of network 'net' failed (ADD): no room; left"},
                        {"echo first >&2; echo last >&2; exit 3", -EIO, "failed (ADD): last"},
                        {"exit 3", -EIO, "it exited with status 3 and no message"},
                        {"kill -9 $$", -EIO, "it was killed by SIGKILL"},
                        {"exec cat /dev/zero", -EFBIG, "it printed more than 1048576 bytes and was killed"},
                        {"exec cat /dev/zero >&2", -ETIME, "it did not end within"},
                        {"sleep 1000 & sleep 1000", -ETIME, "it did not end within"},
                        {"printf '{\"msg\":\"\\\\u001b[31m\"}'; exit 1", -EIO, "\\x1b[31m"},
        };

        cni_timeout_usec = 1000000;
        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
                _cleanup_error_ Error e = ERROR_NULL;
                unsigned code = 0;

                ASSERT_OK(scratch_new(&s));
                ASSERT_OK(make_plugin(&s, "p", bad[i].body));
                ASSERT_ERR(run(&s, "p", &code, &e), bad[i].code);
                ASSERT_CONTAINS(e.message, bad[i].message);
                ASSERT_EQ(code, i == 0 ? 7U : 0U);
        }
        cni_timeout_usec = 60000000;
}

static char *slurp(const Scratch *s, const char *name)
{
        char *text = NULL;

        return read_file_at(s->fd, name, 65536, &text, NULL) < 0 ? NULL : text;
}

/* A message is written once while the plugin runs. */
TEST(a_plugin_that_takes_long)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_close_ int before = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3), said_fd = -EBADF;
        _cleanup_free_ char *said = NULL;
        unsigned code;

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(make_plugin(&s, "p", "sleep 1; echo '{}'"));
        ASSERT_OK(make_plugin(&s, "quick", "echo '{}'"));
        said_fd = openat(s.fd, "said", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        ASSERT_TRUE(before >= 0 && said_fd >= 0);
        cni_notice_usec = 300000;
        (void) fflush(stderr);
        ASSERT_OK(dup2(said_fd, STDERR_FILENO));
        int quick = run(&s, "quick", &code, NULL), slow = run(&s, "p", &code, NULL);
        (void) dup2(before, STDERR_FILENO);
        cni_notice_usec = 3000000;
        ASSERT_OK(quick);
        ASSERT_OK(slow);
        said = slurp(&s, "said");
        ASSERT_STREQ(said, "Waiting for the CNI plugin 'p' of network 'net' (ADD), for 60 s at most.\n");
}

TEST(a_plugin_that_is_missing)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_error_ Error e = ERROR_NULL;
        unsigned code;

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(scratch_dir(&s, "bridge"));
        ASSERT_ERR(run(&s, "bridge", &code, &e), -ENOENT);
        ASSERT_CONTAINS(e.message, "There is no CNI plugin 'bridge'");
        ASSERT_CONTAINS(e.hint, "containernetworking-plugins");
}

static void make_attachment(Attachment *a, const char *plugins)
{
        *a = (Attachment){.network = strdup("net"),
                          .interface = strdup("eth0"),
                          .args = strdup("IgnoreUnknown=1"),
                          .version = strdup("0.4.0"),
                          .plugins = json_tokener_parse(plugins),
                          .runtime = json_tokener_parse("{\"ips\":[\"10.0.0.2\"],\"mac\":\"x\"}")};
}

TEST(a_list_of_plugins)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_(attachment_done) Attachment a = {};

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(make_plugin(&s, "one",
                              "[ $CNI_COMMAND = DEL ] || echo '{\"ips\":[{\"address\":\"10.0.0.2/24\"}]}'"));
        ASSERT_OK(make_plugin(&s, "two",
                              "[ $CNI_COMMAND = DEL ] || echo '{\"ips\":[{\"address\":\"10.0.0.3/24\"}]}'"));
        make_attachment(&a, "[{\"type\":\"one\",\"capabilities\":{\"ips\":true}},{\"type\":\"two\"}]");
        CniTarget t = {.container = "id", .netns = "/ns", .path = s.path};
        ASSERT_OK(cni_attach(&a, &t, NULL));
        ASSERT_OK(cni_detach(&a, &t, NULL));

        _cleanup_free_ char *order = slurp(&s, "order"), *first = slurp(&s, "one.ADD.stdin");
        _cleanup_free_ char *second = slurp(&s, "two.ADD.stdin"), *del = slurp(&s, "one.DEL.stdin");
        _cleanup_free_ char *environment = slurp(&s, "one.ADD.env");
        ASSERT_STREQ(order, "ADD one\nADD two\nDEL two\nDEL one\n");
        ASSERT_CONTAINS(first, "\"runtimeConfig\":{\"ips\":[\"10.0.0.2\"]}");
        ASSERT_NOT_CONTAINS(first, "prevResult");
        ASSERT_CONTAINS(second, "\"prevResult\":{\"ips\":[{\"address\":\"10.0.0.2/24\"}]}");
        ASSERT_NOT_CONTAINS(second, "runtimeConfig");
        ASSERT_CONTAINS(del, "\"prevResult\":{\"ips\":[{\"address\":\"10.0.0.3/24\"}]}");
        ASSERT_CONTAINS(environment,
                        "CNI_ARGS=IgnoreUnknown=1\nCNI_COMMAND=ADD\nCNI_CONTAINERID=id\nCNI_IFNAME=eth0\n"
                        "CNI_NETNS=/ns\n");
        ASSERT_NOT_CONTAINS(environment, "HOME=");
}

TEST(invalid_answers)
{
        static const char *const bodies[] = {"", "echo '{'", "echo '{\"ips\":[{}]}'", "echo '{} {}'"};

        for (size_t i = 0; i < ELEMENTSOF(bodies); i++) {
                _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
                _cleanup_(attachment_done) Attachment a = {};
                _cleanup_error_ Error e = ERROR_NULL;

                ASSERT_OK(scratch_new(&s));
                ASSERT_OK(make_plugin(&s, "one", bodies[i]));
                make_attachment(&a, "[{\"type\":\"one\"}]");
                CniTarget t = {.container = "id", .netns = "/ns", .path = s.path};
                ASSERT_TRUE(cni_attach(&a, &t, &e) < 0);
                ASSERT_CONTAINS(e.message,
                                "The CNI plugin 'one' of network 'net' returned an invalid result");
                ASSERT_NULL(a.result);
        }
}

/* --- The record, ports, bandwidth ---------------------------------------------------------------------- */

TEST(records)
{
        _cleanup_(network_record_done) NetworkRecord r = {}, again = {};
        _cleanup_free_ char *text = NULL;

        r.plugin_path = strdup("/a:/b");
        r.attachments = calloc(1, sizeof(Attachment));
        r.n_attachments = 1;
        make_attachment(&r.attachments[0], "[{\"type\":\"one\"}]");
        r.ports = calloc(2, sizeof(PortMapping));
        r.n_ports = 2;
        r.ports[0] = (PortMapping){
                        .name = strdup("http"), .udp = true, .host_port = 80, .port = 8080, .count = 2};
        r.ports[1] = (PortMapping){
                        .name = strdup("s"), .sctp = true, .host_port = 81, .port = 1, .count = 1};
        ASSERT_OK(network_record_format(&r, &text));
        ASSERT_OK(network_record_parse(text, strlen(text), &again));
        ASSERT_STREQ(again.attachments[0].version, "0.4.0");
        ASSERT_FALSE(again.stuck);
        ASSERT_NULL(again.attachments[0].result);
        ASSERT_TRUE(again.ports[0].udp && again.ports[0].count == 2 && !again.ports[0].host_ip);
        ASSERT_TRUE(again.ports[1].sctp && !again.ports[1].udp && !again.ports[0].sctp);
        for (size_t n = 0; n < strlen(text); n++) {
                NetworkRecord half = {};
                ASSERT_TRUE(network_record_parse(text, n, &half) < 0);
        }
}

/* One that was not on disk when power was lost is empty then, and names nothing. */
TEST(records_on_disk)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_(network_record_done) NetworkRecord r = {}, again = {}, damaged = {};
        _cleanup_error_ Error e = ERROR_NULL;
        char uuid[] = "00000000-0000-4000-8000-000000000000";

        ASSERT_OK(scratch_new(&s));
        Pod p = {.uuid = uuid, .dir_fd = s.fd};
        ASSERT_ERR(network_record_read(&p, &again, &e), -ENOENT);
        ASSERT_OK(scratch_file(&s, "network", ""));
        ASSERT_ERR(network_record_read(&p, &again, &e), -ENOENT);
        ASSERT_NULL(e.message);
        r.plugin_path = strdup("/a");
        ASSERT_OK(network_record_write(&p, &r, &e));
        ASSERT_OK(network_record_read(&p, &again, &e));
        ASSERT_STREQ(again.plugin_path, "/a");
        ASSERT_OK(scratch_file(&s, "network", "{"));
        ASSERT_TRUE(network_record_read(&p, &damaged, &e) < 0);
        ASSERT_STREQ(e.message,
                     "Cannot read the network record of pod 00000000-0000-4000-8000-000000000000: Bad message");
}

TEST(ports_overlap)
{
        char ip[] = "10.0.0.1", other[] = "10.0.0.2", all_four[] = "0.0.0.0",
             all_six[] = "::", six[] = "::1";
        PortMapping a = {.host_port = 80, .count = 10}, b = {.host_port = 89, .count = 1};

        ASSERT_TRUE(port_mappings_overlap(&a, &b));
        b.host_port = 90;
        ASSERT_FALSE(port_mappings_overlap(&a, &b));
        b = (PortMapping){.host_port = 80, .count = 1, .udp = true};
        ASSERT_FALSE(port_mappings_overlap(&a, &b));
        b = (PortMapping){.host_port = 80, .count = 1, .sctp = true};
        ASSERT_FALSE(port_mappings_overlap(&a, &b));
        b = (PortMapping){.host_port = 80, .count = 1, .host_ip = ip};
        ASSERT_TRUE(port_mappings_overlap(&a, &b));
        a.host_ip = other;
        ASSERT_FALSE(port_mappings_overlap(&a, &b));
        a.host_ip = all_four;
        ASSERT_TRUE(port_mappings_overlap(&a, &b));
        ASSERT_TRUE(port_mappings_overlap(&b, &a));
        b.host_ip = all_six;
        ASSERT_FALSE(port_mappings_overlap(&a, &b));
        a.host_ip = NULL;
        ASSERT_TRUE(port_mappings_overlap(&a, &b));
        a.host_ip = six;
        ASSERT_TRUE(port_mappings_overlap(&a, &b));
}

TEST(ports_of_all_protocols_for_plugins)
{
        char name[] = "p";
        PortMapping l[] = {{.name = name, .host_port = 80, .port = 1, .count = 1},
                           {.name = name, .udp = true, .host_port = 80, .port = 2, .count = 1},
                           {.name = name, .sctp = true, .host_port = 80, .port = 3, .count = 1}};
        _cleanup_json_ json_object *o = port_mappings_runtime(l, ELEMENTSOF(l));

        ASSERT_STREQ(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN),
                     "[{\"hostPort\":80,\"containerPort\":1,\"protocol\":\"tcp\"},{\"hostPort\":80,\"containerPort\":2,\"protocol\":\"udp\"},"
                     "{\"hostPort\":80,\"containerPort\":3,\"protocol\":\"sctp\"}]");
}

/* Where the kernel has it. */
TEST(ports_of_sctp)
{
        char ip[] = "127.0.0.1", name[] = "p";
        PortMapping q = {.name = name, .host_ip = ip, .sctp = true, .host_port = 47200, .count = 1};
        _cleanup_error_ Error e = ERROR_NULL;
        int *fds = NULL, *more = NULL;
        size_t n = 0, n_more = 0;

        int r = port_mappings_reserve(&q, 1, &fds, &n, &e);
        if (r == -EPROTONOSUPPORT) {
                ASSERT_STREQ(e.message, "Port 'p' cannot be exposed: the kernel of this host has no SCTP");
                ASSERT_CONTAINS(e.hint, "modprobe sctp");
                return;
        }
        ASSERT_OK(r);
        ASSERT_ERR(port_mappings_reserve(&q, 1, &more, &n_more, &e), -EADDRINUSE);
        ASSERT_CONTAINS(e.message, "Port 47200/sctp of the host is in use");
        safe_close(fds[0]);
        free(fds);
}

TEST(ports_are_taken)
{
        PortMapping q = {.host_port = 0, .count = 1};
        char ip[] = "127.0.0.1", name[] = "p";
        _cleanup_error_ Error e = ERROR_NULL;
        int *fds = NULL, *more = NULL;
        size_t n = 0, n_more = 0;

        q.host_ip = ip;
        q.name = name;
        for (q.host_port = 47000; q.host_port < 47100; q.host_port++)
                if (port_mappings_reserve(&q, 1, &fds, &n, NULL) >= 0)
                        break;
        ASSERT_EQ(n, 1U);
        ASSERT_ERR(port_mappings_reserve(&q, 1, &more, &n_more, &e), -EADDRINUSE);
        ASSERT_CONTAINS(e.message, "is in use by another process");
        safe_close(fds[0]);
        free(fds);
        ASSERT_OK(port_mappings_reserve(&q, 1, &fds, &n, NULL));
        safe_close(fds[0]);
        free(fds);
}

TEST(ipv6_that_would_do_harm)
{
        static const char advertised[] =
                        "fd61636e737000000000000000000000 40 00000000000000000000000000000000 00 "
                        "00000000000000000000000000000000 00000100 00000001 00000000 00000001     none0\n"
                        "00000000000000000000000000000000 00 00000000000000000000000000000000 00 "
                        "fe800000000000000000000000000001 00000400 00000001 00000000 00450003     none0\n";
        static const char by_hand[] =
                        "00000000000000000000000000000000 00 00000000000000000000000000000000 00 "
                        "fe800000000000000000000000000001 00000400 00000001 00000000 00000003     none0\n";

        ASSERT_CONTAINS(ipv6_obstacle_in(NULL, NULL, NULL), "kernel does not support it");
        ASSERT_CONTAINS(ipv6_obstacle_in("1\n", "0\n", ""), "disabled");
        ASSERT_NULL(ipv6_obstacle_in("0\n", "0\n", ""));
        ASSERT_NULL(ipv6_obstacle_in("0\n", "0\n", by_hand));
        ASSERT_CONTAINS(ipv6_obstacle_in("0\n", "0\n", advertised), "router advertisements");
        ASSERT_NULL(ipv6_obstacle_in("0\n", "1\n", advertised));
}

TEST(ipv6_is_left_out)
{
        _cleanup_(cni_network_freep) CniNetwork *n = NULL, *bad = NULL;
        static const char text[] = "{\"cniVersion\":\"0.4.0\",\"name\":\"n\",\"acnspawn/"
                                   "ipv6\":\"optional\",\"plugins\":[{\"type\":"
                                   "\"a\",\"ipam\":{\"type\":\"b\",\"ranges\":[[{\"subnet\":\"10.0.0.0/"
                                   "8\"}],[{\"subnet\":\"fd00::/"
                                   "64\"}],5],\"routes\":[{\"dst\":\"::/0\"},{\"dst\":\"0.0.0.0/"
                                   "0\"}]}},{\"type\":\"c\"}]}";

        ASSERT_OK(parse(text, true, &n, NULL));
        ASSERT_TRUE(n->optional_ipv6);
        ASSERT_OK(cni_network_drop_ipv6(n, "why"));
        ASSERT_STREQ(n->note, "no IPv6: why");
        ASSERT_STREQ(json_object_to_json_string_ext(n->plugins,
                                                    JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE),
                     "[{\"type\":\"a\",\"ipam\":{\"type\":\"b\",\"ranges\":[[{\"subnet\":\"10.0.0.0/"
                     "8\"}],5],\"routes\":[{\"dst\":\"0.0.0.0/0\"}]}},{\"type\":\"c\"}]");
        ASSERT_ERR(parse("{\"cniVersion\":\"0.4.0\",\"name\":\"n\",\"acnspawn/ipv6\":\"no\",\"type\":\"a\"}",
                         false, &bad, NULL),
                   -EINVAL);
}

TEST(bandwidth)
{
        _cleanup_json_ json_object *o = network_bandwidth_runtime(1000000),
                                   *huge = network_bandwidth_runtime(UINT64_MAX - 1);

        ASSERT_STREQ(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN),
                     "{\"ingressRate\":8000000,\"ingressBurst\":400000,\"egressRate\":8000000,"
                     "\"egressBurst\":400000}");
        ASSERT_CONTAINS(json_object_to_json_string(huge), "9223372036854775807");
}

TEST(hints)
{
        ASSERT_CONTAINS(cni_failure_hint("portmap",
                                         "exec: \"iptables\": executable file not found in $PATH"),
                        "package iptables");
        ASSERT_CONTAINS(cni_failure_hint("bridge", "could not add \"br\": operation not supported"),
                        "modprobe bridge");
        ASSERT_NULL(cni_failure_hint("bridge", "something else"));
}

/* --- Network namespaces -------------------------------------------------------------------------------- */

static ino_t own_namespace(void)
{
        struct stat st;

        return stat("/proc/thread-self/ns/net", &st) < 0 ? 0 : st.st_ino;
}

typedef struct Inside {
        ino_t seen;
        int result;
} Inside;

static int look_inside(void *userdata)
{
        Inside *x = userdata;

        x->seen = own_namespace();
        return x->result;
}

/* Another process, in a network namespace of its own, which ends when END is closed. 0: that is not possible here. */
static pid_t start_elsewhere(int *end)
{
        int ready[2], last[2];
        char byte = '-';

        if (pipe2(ready, O_CLOEXEC) < 0 || pipe2(last, O_CLOEXEC) < 0)
                return 0;
        pid_t pid = fork();
        if (pid == 0) {
                safe_close(last[1]);
                byte = unshare(CLONE_NEWNET) < 0 ? '-' : '+';
                (void) !write(ready[1], &byte, 1);
                (void) !read(last[0], &byte, 1);
                _exit(0);
        }
        safe_close(last[0]);
        safe_close(ready[1]);
        (void) !read(ready[0], &byte, 1);
        safe_close(ready[0]);
        *end = last[1];
        if (pid > 0 && byte == '+')
                return pid;
        *end = safe_close(*end);
        if (pid > 0)
                (void) waitpid(pid, NULL, 0);
        return 0;
}

TEST(work_in_a_network_namespace_leaves_the_caller_where_it_is)
{
        int end = -EBADF;
        pid_t pid = start_elsewhere(&end);

        if (pid == 0)
                TEST_SKIP("no network namespace can be made");
        ino_t before = own_namespace();
        Inside x = {.result = -EADDRINUSE};
        _cleanup_close_ int fd = network_namespace_open(pid);
        ASSERT_OK(fd);
        ASSERT_ERR(network_namespace_run(fd, look_inside, &x), -EADDRINUSE);
        ASSERT_TRUE(x.seen != 0 && x.seen != before);
        ASSERT_EQ(own_namespace(), before);

        Pod p = {.config.net = NET_NONE};
        for (int i = 0; i < 200; i++) {
                _cleanup_close_ int sock = network_socket(&p, pid, AF_INET, SOCK_STREAM);
                ASSERT_OK(sock);
        }
        ASSERT_EQ(own_namespace(), before);

        /* What cannot be entered is not called. */
        _cleanup_close_ int other = open("/dev/null", O_RDONLY | O_CLOEXEC);
        x.seen = 0;
        ASSERT_ERR(network_namespace_run(other, look_inside, &x), -EINVAL);
        ASSERT_EQ(x.seen, (ino_t) 0);
        ASSERT_ERR(network_namespace_open(0), -ESRCH);
        ASSERT_EQ(own_namespace(), before);

        safe_close(end);
        (void) waitpid(pid, NULL, 0);
}

int main(void)
{
        RUN(work_in_a_network_namespace_leaves_the_caller_where_it_is);
        RUN(requests);
        RUN(requests_that_are_refused);
        RUN(configurations);
        RUN(state_that_a_reboot_removes);
        RUN(leases_that_a_loss_of_power_has_emptied);
        RUN(directories_are_those_of_the_build);
        RUN(configurations_that_are_refused);
        RUN(results);
        RUN(results_that_are_refused);
        RUN(plugins_that_fail);
        RUN(a_plugin_that_takes_long);
        RUN(a_plugin_that_is_missing);
        RUN(a_list_of_plugins);
        RUN(invalid_answers);
        RUN(records);
        RUN(records_on_disk);
        RUN(ports_overlap);
        RUN(ports_of_all_protocols_for_plugins);
        RUN(ports_of_sctp);
        RUN(ports_are_taken);
        RUN(ipv6_that_would_do_harm);
        RUN(ipv6_is_left_out);
        RUN(bandwidth);
        RUN(hints);
        return TEST_END();
}
