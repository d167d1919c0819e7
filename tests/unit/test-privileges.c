/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* stage1/privileges.c: privileges beyond the defaults that the isolators of an image request, the grants for
 * them, and the effect of the isolators without a grant. */

#include <linux/capability.h>

#include "library/libcapng.h"
#include "schema/settings.h"
#include "stage1/seccomp-filter.h"
#include "stage1/stage1.h"
#include "tests/unit/isolator-lists.h"
#include "tests/unit/test.h"

#define CAPS "os/linux/capabilities-retain-set"
#define RETAIN "os/linux/seccomp-retain-set"
#define REMOVE "os/linux/seccomp-remove-set"
#define SYSCTL "os/unix/sysctl"

/* "NAME (TEXT) OPTION!; …" with "!" for privileges that cannot be granted to an image. */
static char *ask(const char *const *texts)
{
        _cleanup_(privilege_list_done) PrivilegeList p = {};
        IsolatorList l = {};
        _cleanup_text_ Text t = {};
        char *text = NULL;

        if (list_of(texts, &l) >= 0 && stage1_privileges(&l, &p) >= 0) {
                for (size_t i = 0; i < p.n; i++)
                        text_addf(&t, "%s%s (%s)%s%s%s", i > 0 ? "; " : "", p.items[i].name, p.items[i].text,
                                  p.items[i].option ? " " : "", p.items[i].option ?: "",
                                  p.items[i].grantable ? "" : "!");
                text_add(&t, "");
                if (text_take(&t, &text, NULL) < 0)
                        text = NULL;
        }
        isolator_list_done(&l);
        return text;
}

static const struct {
        const char *in[7];
        const char *expected;
} cases[] = {
                /* what asks for no more than the defaults */
                {{NULL}, ""},
                {{CAPS, "{'set':['CAP_KILL','CAP_CHOWN']}"}, ""},
                {{CAPS, "{'set':['CAP_NO_SUCH_THING']}"}, ""},
                {{"os/linux/capabilities-remove-set", "{'set':['CAP_SYS_ADMIN']}"}, ""},
                {{"os/linux/no-new-privileges", "true"}, ""},
                {{"os/linux/no-new-privileges", "false"}, ""},
                {{"os/linux/oom-score-adj", "0"}, ""},
                {{"os/linux/oom-score-adj", "1000"}, ""},
                {{"resource/memory", "{'limit':'1G','request':'1G'}", "resource/cpu", "{'request':'64'}",
                  "os/linux/cpu-shares", "262144"},
                 ""},
                {{"resource/tasks", "{'limit':'2048'}"}, ""},
                {{"resource/tasks", "{}"}, ""},
                {{"resource/tasks", "{'limit':'2049'}"},
                 "tasks-max (2049 processes and threads) --tasks-max=2049"},
                {{"resource/tasks", "{'limit':'1G'}"},
                 "tasks-max (processes and threads without a limit) --tasks-max=infinity"},
                {{"example.com/magic", "{'set':['CAP_SYS_ADMIN']}"}, ""},
                {{SYSCTL, "{}"}, ""},
                {{REMOVE, "{'set':['reboot','read']}"}, ""},
                {{REMOVE, "{'set':['@appc.io/empty']}"}, ""},
                /* sets that real images have */
                {{RETAIN, "{'set':['@docker/default-whitelist']}"}, ""},
                {{RETAIN, "{'set':['@rkt/default-whitelist']}"}, ""},
                {{RETAIN, "{'set':['@acnspawn/default','getppid']}"}, ""},
                {{RETAIN, "{'set':['accept','bind','listen','read','socket','write','clone','clone3']}"},
                 ""},
                {{RETAIN, "{'set':['@systemd/system-service']}"}, ""},
                {{RETAIN,
                  "{'set':['@systemd/aio','@systemd/process','@systemd/network-io','@systemd/default']}"},
                 ""},
                {{RETAIN, "{'set':['no_such_call','@no/such-set']}"}, ""},
                {{RETAIN, "{'set':['@appc.io/all','@acnspawn/within-default']}"}, ""},
                {{RETAIN, "{'set':['mount','@acnspawn/within-default']}"}, ""},
                /* capabilities */
                {{CAPS, "{'set':['CAP_SYS_ADMIN','sys_ptrace','CAP_KILL']}"},
                 "CAP_SYS_PTRACE (CAP_SYS_PTRACE); CAP_SYS_ADMIN (CAP_SYS_ADMIN)"},
                {{CAPS, "{'set':['CAP_SYS_ADMIN']}", CAPS, "{'set':['CAP_KILL']}"}, ""},
                {{CAPS, "{'set':['CAP_KILL']}", CAPS, "{'set':['CAP_NET_ADMIN']}"},
                 "CAP_NET_ADMIN (CAP_NET_ADMIN)"},
                /* system calls */
                {{RETAIN, "{'set':['@appc.io/all']}"}, "seccomp (no system call filter)"},
                {{RETAIN, "{'set':['read','@appc.io/all']}"}, "seccomp (no system call filter)"},
                {{RETAIN, "{'set':['@rkt/default-whitelist','keyctl']}"},
                 "seccomp (the system call keyctl)"},
                {{RETAIN, "{'set':['read','mount','umount2']}"},
                 "seccomp (the system calls mount, umount2)"},
                {{RETAIN, "{'set':['@systemd/keyring']}"},
                 "seccomp (the system calls add_key, keyctl, request_key)"},
                {{RETAIN, "{'set':['@systemd/swap']}"}, "seccomp (the system calls swapoff, swapon)"},
                {{RETAIN, "{'set':['io_uring_setup','@systemd/aio']}"},
                 "seccomp (the system call io_uring_setup)"},
                /* what a capability is for comes with it */
                {{CAPS, "{'set':['CAP_SYS_ADMIN']}", RETAIN, "{'set':['mount']}"},
                 "CAP_SYS_ADMIN (CAP_SYS_ADMIN)"},
                /* the rest */
                {{"os/linux/oom-score-adj", "-1"}, "oom-score-adj (the OOM score -1)"},
                {{"os/linux/apparmor-profile", "'unconfined'"},
                 "apparmor-profile (the AppArmor profile unconfined)"},
                {{"os/linux/selinux-context", "{'user':'u','role':'r','type':'t','level':'l'}"},
                 "selinux-context (the SELinux context u:r:t:l)"},
                {{SYSCTL, "{'net.core.somaxconn':'9','kernel.sem':'1 2 3 4'}"},
                 "sysctl:net.core.somaxconn (the kernel parameter net.core.somaxconn=9) "
                 "--sysctl=net.core.somaxconn=9; sysctl:kernel.sem (the kernel parameter kernel.sem=1 2 3 "
                 "4) "
                 "--sysctl='kernel.sem=1 2 3 4'"},
                {{SYSCTL, "{'kernel.panic':'1'}"},
                 "sysctl:kernel.panic (the kernel parameter kernel.panic=1, which is the host's)!"},
};

TEST(privileges_requested)
{
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_free_ char *text = ask(cases[i].in);
                ASSERT_STREQ(text, cases[i].expected);
        }
}

/* @systemd/mount and @known exceed the default by more calls than are shown. */
TEST(long_lists_are_cut)
{
        const char *mount[] = {RETAIN, "{'set':['@systemd/mount']}", NULL};
        _cleanup_free_ char *text = ask(mount);

        ASSERT_CONTAINS(text, "seccomp (the system calls ");
        ASSERT_CONTAINS(text, " more)");
        ASSERT_LT(strlen(text), 200);
}

/* Interfaces, forwarding, neighbours and settings that load modules cannot be granted to images. */
TEST(kernel_parameters)
{
        static const struct {
                const char *name;
                bool grantable, own;
        } names[] = {
                        {"net.core.somaxconn", true, true},
                        {"net/ipv4/ip_local_port_range", true, true},
                        {"net.ipv4.ip_unprivileged_port_start", true, true},
                        {"net.ipv4.ping_group_range", true, true},
                        {"net.ipv4.tcp_keepalive_time", true, true},
                        {"fs.mqueue.msg_max", true, true},
                        {"kernel.shmmax", true, true},
                        {"kernel.msgmnb", true, true},
                        {"kernel.sem", true, true},
                        {"net.ipv4.ip_forward", false, true},
                        {"net.ipv4.conf.all.proxy_arp_pvlan", false, true},
                        {"net/ipv4/conf/eth0/proxy_arp", false, true},
                        {"net.ipv4.conf.eth0.forwarding", false, true},
                        {"net.ipv6.conf.all.forwarding", false, true},
                        {"net.ipv4.neigh.default.gc_thresh1", false, true},
                        {"net.ipv6.neigh.eth0.proxy_delay", false, true},
                        {"net.ipv4.conf.all.rp_filter", false, true},
                        {"net.ipv4.ip_nonlocal_bind", false, true},
                        {"net.ipv4.tcp_congestion_control", false, true},
                        {"net.netfilter.nf_conntrack_max", false, true},
                        {"net.ipv4.tcp_", false, true},
                        {"kernel.hostname", false, true},
                        {"kernel.domainname", false, true},
                        {"kernel.core_pattern", false, false},
                        {"kernel.shmmaxx", false, false},
                        {"fs.file-max", false, false},
                        {"vm.overcommit_memory", false, false},
                        {"user.max_user_namespaces", false, false},
        };

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                _cleanup_free_ char *value = NULL, *text = NULL, *expected = NULL;
                ASSERT_OK(xasprintf(&value, "{'%s':'1'}", names[i].name));
                const char *texts[] = {SYSCTL, value, NULL};
                text = ask(texts);
                ASSERT_OK(xasprintf(&expected, "sysctl:%s (the kernel parameter %s=1%s)%s%s%s%s",
                                    names[i].name, names[i].name,
                                    names[i].own ? "" : ", which is the host's",
                                    names[i].own ? " --sysctl=" : "", names[i].own ? names[i].name : "",
                                    names[i].own ? "=1" : "", names[i].grantable ? "" : "!"));
                ASSERT_STREQ(text, expected);
        }
}

TEST(grants)
{
        static const struct {
                const char *name;
                bool grantable;
                const char *grants;
                bool granted;
        } l[] = {
                        {"CAP_SYS_ADMIN", true, "all", true},
                        {"CAP_SYS_ADMIN", true, "CAP_SYS_ADMIN,seccomp", true},
                        {"CAP_SYS_ADMIN", true, "cap_sys_admin", true},
                        {"CAP_SYS_ADMIN", true, "CAP_SYS_PTRACE,seccomp", false},
                        {"CAP_SYS_ADMIN", true, "none", false},
                        {"seccomp", true, "CAP_SYS_ADMIN, seccomp", true},
                        {"seccomp", true, "oom-score-adj", false},
                        {"sysctl:net.core.somaxconn", true, "sysctl:net/core/somaxconn", true},
                        {"sysctl:net.core.somaxconn", true, "sysctl:net.core.somaxcon", false},
                        {"sysctl:net.ipv4.ip_forward", false, "sysctl:net.ipv4.ip_forward", false},
                        {"sysctl:net.ipv4.ip_forward", false, "all", false},
        };

        for (size_t i = 0; i < ELEMENTSOF(l); i++) {
                _cleanup_strv_free_ char **grants = NULL;
                const Privilege p = {.name = (char *) l[i].name, .grantable = l[i].grantable};
                ASSERT_OK(grants_parse(l[i].grants, &grants));
                ASSERT_EQ(privilege_is_granted(&p, grants), l[i].granted);
                ASSERT_FALSE(privilege_is_granted(&p, NULL));
        }
}

/* Only ports that the app could not open by itself, and only those that the operator does not expose. */
TEST(ports_of_the_host)
{
        Port ports[] = {{.name = (char *) "web",
                         .protocol = (char *) "tcp",
                         .port = 80,
                         .socket_activated = true},
                        {.name = (char *) "own", .protocol = (char *) "tcp", .port = 81},
                        {.name = (char *) "high",
                         .protocol = (char *) "udp",
                         .port = 1024,
                         .socket_activated = true},
                        {.name = (char *) "dns",
                         .protocol = (char *) "udp",
                         .port = 53,
                         .socket_activated = true}};
        ExposedPort exposed = {.name = (char *) "web", .host_port = 80};
        const App app = {.ports = ports, .n_ports = ELEMENTSOF(ports)};
        const PodManifest plain = {}, m = {.ports = &exposed, .n_ports = 1};
        _cleanup_(privilege_list_done) PrivilegeList all = {}, rest = {};

        ASSERT_OK(stage1_port_privileges(&plain, &app, &all));
        ASSERT_EQ(all.n, 2);
        ASSERT_STREQ(all.items[0].name, "port:web");
        ASSERT_STREQ(all.items[0].text, "the host's port 80/tcp");
        ASSERT_OK(stage1_port_privileges(&m, &app, &rest));
        ASSERT_EQ(rest.n, 1);
        ASSERT_STREQ(rest.items[0].name, "port:dns");
}

TEST(words_that_grant_nothing)
{
        static const char *const l[] = {
                        "",         ",",          "everything",    "all,seccomp", "none,CAP_KILL",
                        "all,none", "CAP_",       "CAP_SYS-ADMIN", "SYS_ADMIN",   "sysctl:",
                        "sysctl",   "seccomp;all"};

        for (size_t i = 0; i < ELEMENTSOF(l); i++) {
                _cleanup_strv_free_ char **grants = NULL;
                ASSERT_ERR(grants_parse(l[i], &grants), -EINVAL);
                ASSERT_NULL(grants);
                ASSERT_ERR(app_setting_check("grant", l[i], NULL), -EINVAL);
        }
}

/* --- Without what is not granted ----------------------------------------------------------------------- */

/* A set that names mount, without a filter or with one, allows no more than the default filter. */
TEST(bounded_system_calls)
{
        static const char *const sets[] = {
                        "{'set':['@appc.io/all']}", "{'set':['mount','clone','unshare','read']}",
                        "{'set':['@systemd/mount'],'errno':'EDOM'}", "{'set':['@known','@systemd/known']}"};

        for (size_t i = 0; i < ELEMENTSOF(sets); i++) {
                const char *texts[] = {RETAIN, sets[i], NULL};
                const uint64_t capabilities = stage1_capabilities(NULL);
                _cleanup_seccomp_program_ SeccompProgram p = {};
                _cleanup_(privilege_list_done) PrivilegeList asked = {};
                IsolatorList l = {};

                ASSERT_OK(list_of(texts, &l));
                ASSERT_TRUE(seccomp_allows(&l, capabilities, "mount"));
                ASSERT_OK(stage1_bound_system_calls(&l, NULL));
                ASSERT_OK(stage1_bound_system_calls(&l, NULL)); /* changes nothing any more */
                ASSERT_FALSE(seccomp_allows(&l, capabilities, "mount"));
                ASSERT_FALSE(seccomp_allows(&l, capabilities, "reboot"));
                ASSERT_FALSE(seccomp_allows(&l, capabilities, "io_uring_setup"));
                ASSERT_TRUE(seccomp_allows(&l, capabilities, "read") == (i != 2));
                ASSERT_TRUE(seccomp_has_filter(&l));
                ASSERT_STREQ(l.items[0].errno_name, i == 2 ? "EDOM" : NULL);
                ASSERT_OK(seccomp_compile(&l, capabilities, &p, NULL));
                ASSERT_GT(p.n, 10);
                ASSERT_OK(stage1_privileges(&l, &asked));
                ASSERT_EQ(asked.n, 0);
                isolator_list_done(&l);
        }
}

/* Names of the remaining isolators, or only those of the given types. */
static char *withhold(const char *const *texts, uint32_t types, uint64_t *ret_capabilities)
{
        IsolatorList l = {};
        _cleanup_text_ Text t = {};
        char *text = NULL;

        if (list_of(texts, &l) < 0 || stage1_withhold_privileges(&l, types, NULL) < 0)
                return NULL;
        for (size_t i = 0; i < l.n; i++)
                text_addf(&t, "%s%s", i > 0 ? " " : "", l.items[i].name);
        text_add(&t, "");
        if (text_take(&t, &text, NULL) < 0)
                text = NULL;
        *ret_capabilities = stage1_capabilities(&l);
        isolator_list_done(&l);
        return text;
}

#define BIT(cap) (UINT64_C(1) << (cap))

TEST(withheld)
{
        const uint64_t defaults = stage1_capabilities(NULL);
        const struct {
                const char *in[9];
                uint32_t types;
                const char *left;
                uint64_t capabilities;
        } l[] = {
                        {{CAPS, "{'set':['CAP_SYS_ADMIN','CAP_KILL']}"},
                         UINT32_MAX,
                         "os/linux/capabilities-remove-set",
                         BIT(CAP_KILL)},
                        {{CAPS, "{'set':['CAP_SYS_ADMIN']}"},
                         UINT32_MAX,
                         "os/linux/capabilities-remove-set",
                         0},
                        {{CAPS, "{'set':['CAP_KILL']}", CAPS, "{'set':['CAP_SYS_ADMIN','CAP_CHOWN']}"},
                         UINT32_MAX,
                         "os/linux/capabilities-remove-set os/linux/capabilities-remove-set",
                         BIT(CAP_CHOWN)},
                        {{"os/linux/oom-score-adj", "-5", SYSCTL, "{'kernel.sem':'1'}",
                          "os/linux/apparmor-profile", "'x'", "resource/memory", "{'limit':'1G'}"},
                         UINT32_MAX,
                         "resource/memory",
                         defaults},
                        {{"os/linux/oom-score-adj", "5"}, UINT32_MAX, "os/linux/oom-score-adj", defaults},
                        {{"resource/tasks", "{'limit':'50'}"}, UINT32_MAX, "resource/tasks", defaults},
                        /* what is the operator's stays */
                        {{CAPS, "{'set':['CAP_SYS_ADMIN']}", "resource/tasks", "{'limit':'5000'}"},
                         UINT32_C(1) << ISOLATOR_RESOURCE_TASKS,
                         CAPS,
                         BIT(CAP_SYS_ADMIN)},
                        {{CAPS, "{'set':['CAP_SYS_ADMIN']}", "os/linux/oom-score-adj", "-5"},
                         UINT32_C(1) << ISOLATOR_OOM_SCORE_ADJ,
                         CAPS,
                         BIT(CAP_SYS_ADMIN)},
        };

        for (size_t i = 0; i < ELEMENTSOF(l); i++) {
                uint64_t capabilities = 0;
                _cleanup_free_ char *left = withhold(l[i].in, l[i].types, &capabilities);
                ASSERT_STREQ(left, l[i].left);
                ASSERT_EQ(capabilities, l[i].capabilities);
        }
}

/* A set that includes all of the defaults, and more, needs no message. */
TEST(withheld_from_a_set_with_all_defaults)
{
        const char *texts[] = {
                        CAPS,
                        "{'set':['CAP_AUDIT_WRITE','CAP_CHOWN','CAP_DAC_OVERRIDE','CAP_FSETID','CAP_FOWNER',"
                        "'CAP_KILL','CAP_MKNOD','CAP_NET_RAW','CAP_NET_BIND_SERVICE','CAP_SETUID','CAP_"
                        "SETGID',"
                        "'CAP_SETPCAP','CAP_SETFCAP','CAP_SYS_CHROOT','CAP_SYS_PTRACE']}",
                        NULL};
        uint64_t capabilities = 0;
        _cleanup_free_ char *left = withhold(texts, UINT32_MAX, &capabilities);

        ASSERT_STREQ(left, "");
        ASSERT_EQ(capabilities, stage1_capabilities(NULL));
}

int main(void)
{
        if (library_load(&capng_library, NULL) < 0)
                return 1;
        RUN(privileges_requested);
        RUN(long_lists_are_cut);
        RUN(kernel_parameters);
        RUN(grants);
        RUN(ports_of_the_host);
        RUN(words_that_grant_nothing);
        RUN(bounded_system_calls);
        RUN(withheld);
        RUN(withheld_from_a_set_with_all_defaults);
        return TEST_END();
}
