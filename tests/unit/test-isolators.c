/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* stage1/isolators.c: the directives of isolators for systemd, and the verdicts for the user. */

#include <linux/capability.h>

#include "library/libcapng.h"
#include "stage1/stage1.h"
#include "tests/unit/isolator-lists.h"
#include "tests/unit/test.h"

static const HostFeatures all_features = {.cpu = true,
                                          .cpuset = true,
                                          .memory = true,
                                          .io = true,
                                          .pids = true,
                                          .hugetlb = true,
                                          .apparmor = true,
                                          .selinux = SELINUX_ENFORCING,
                                          .resources = true,
                                          .block_device = true};

static char *directives(const char *const *texts, bool pod_scope)
{
        IsolatorList l = {};
        _cleanup_text_ Text slice = {}, service = {}, all = {};
        char *text = NULL;

        if (list_of(texts, &l) >= 0 &&
            stage1_isolator_directives(&l, pod_scope, &slice, pod_scope ? NULL : &service) >= 0) {
                text_add_bytes(&all, slice.data, slice.size);
                text_add(&all, "|");
                text_add_bytes(&all, service.data, service.size);
                if (text_take(&all, &text, NULL) < 0)
                        text = NULL;
        }
        isolator_list_done(&l);
        for (char *c = text; c && *c; c++)
                if (*c == '\n')
                        *c = ' ';
        return text;
}

static const struct {
        const char *app, *pod; /* what comes out: slice, "|", service */
        const char *in[7];
} cases[] = {
                {"|", "|", {NULL}},
                {"MemoryMax=1073741824 MemorySwapMax=0 MemoryLow=1073741824 |",
                 "MemoryMax=1073741824 MemorySwapMax=0 |",
                 {"resource/memory", "{'limit':'1Gi'}"}},
                {"MemoryMax=2000 MemorySwapMax=0 MemoryLow=1000 |",
                 "MemoryMax=2000 MemorySwapMax=0 |",
                 {"resource/memory", "{'request':'1K','limit':'2K'}"}},
                {"MemoryMax=1000 MemorySwapMax=0 MemoryLow=1000 |",
                 "MemoryMax=1000 MemorySwapMax=0 |",
                 {"resource/memory", "{'request':'2K','limit':'1K'}"}},
                {"MemoryLow=1000 |", "|", {"resource/memory", "{'request':'1K'}"}},
                /* Zero is not accepted by systemd: the memory would be unlimited. */
                {"MemoryMax=1 MemorySwapMax=0 MemoryLow=0 |",
                 "MemoryMax=1 MemorySwapMax=0 |",
                 {"resource/memory", "{'limit':'0'}"}},
                {"CPUQuota=50% CPUWeight=50 |", "CPUQuota=50% |", {"resource/cpu", "{'limit':'500m'}"}},
                {"CPUQuota=12.5% CPUWeight=10 |",
                 "CPUQuota=12.5% |",
                 {"resource/cpu", "{'limit':'125m','request':'100m'}"}},
                {"CPUQuota=0.1% CPUWeight=1 |", "CPUQuota=0.1% |", {"resource/cpu", "{'limit':'1m'}"}},
                {"CPUQuota=0.1% CPUWeight=1 |", "CPUQuota=0.1% |", {"resource/cpu", "{'limit':'0'}"}},
                {"CPUQuota=20000000% CPUWeight=10000 |",
                 "CPUQuota=20000000% |",
                 {"resource/cpu", "{'limit':'9000000'}"}},
                {"CPUWeight=150 |", "|", {"resource/cpu", "{'request':'1.5'}"}},
                {"CPUWeight=10000 |", "|", {"resource/cpu", "{'request':'9223372036854775'}"}},
                {"CPUWeight=100 |", "|", {"os/linux/cpu-shares", "1024"}},
                {"AllowedCPUs=0-3,7 MemoryHigh=4096 MemorySwapMax=infinity |",
                 "AllowedCPUs=0-3,7 MemoryHigh=4096 MemorySwapMax=infinity |",
                 {"os/linux/cgroup",
                  "{'cpuset.cpus':'0-3,7','memory.high':'4096','memory.swap.max':'max'}"}},
                {"MemoryMax=1000 MemoryLow=1000 MemorySwapMax=5 |",
                 "MemoryMax=1000 MemorySwapMax=5 |",
                 {"resource/memory", "{'limit':'1K'}", "os/linux/cgroup", "{'memory.swap.max':'5'}"}},
                /* Not by systemd. */
                {"MemoryMin=3 |",
                 "MemoryMin=3 |",
                 {"os/linux/cgroup", "{'hugetlb.2MB.max':'4096','memory.min':'3'}"}},
                /* In either order. */
                {"MemoryLow=7 MemoryMax=1000 MemorySwapMax=0 |",
                 "MemoryLow=7 MemoryMax=1000 MemorySwapMax=0 |",
                 {"os/linux/cgroup", "{'memory.low':'7'}", "resource/memory", "{'limit':'1K'}"}},
                {"CPUWeight=1 |", "|", {"os/linux/cpu-shares", "2"}},
                {"CPUWeight=10000 |", "|", {"os/linux/cpu-shares", "262144"}},
                /* A request takes precedence over shares, and shares over a request that is derived from the
                 * limit. */
                {"CPUWeight=20 |",
                 "|",
                 {"os/linux/cpu-shares", "1024", "resource/cpu", "{'request':'200m'}"}},
                {"CPUWeight=20 |",
                 "|",
                 {"resource/cpu", "{'request':'200m'}", "os/linux/cpu-shares", "1024"}},
                {"CPUQuota=20% CPUWeight=50 |",
                 "CPUQuota=20% |",
                 {"resource/cpu", "{'limit':'200m'}", "os/linux/cpu-shares", "512"}},
                {"|OOMScoreAdjust=500 ", "|", {"os/linux/oom-score-adj", "500"}},
                {"|OOMScoreAdjust=-1000 ", "|", {"os/linux/oom-score-adj", "-1000"}},
                {"|", "|", {"os/linux/no-new-privileges", "true"}},
                {"|", "|", {"os/linux/capabilities-retain-set", "{'set':['CAP_KILL']}"}},
                {"|", "|", {"os/linux/seccomp-remove-set", "{'set':['reboot']}"}},
                {"|", "|", {"resource/block-iops", "{'default':true,'limit':'10'}"}},
                {"|", "|", {"os/unix/sysctl", "{'net.ipv4.ip_forward':'1'}"}},
                {"|", "|", {"example.com/memory-max", "'1\\n[Service]\\nExecStart=/bin/sh'"}},
};

TEST(directives)
{
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_free_ char *app = directives(cases[i].in, false),
                                    *pod = directives(cases[i].in, true);
                ASSERT_STREQ(app, cases[i].app);
                ASSERT_STREQ(pod, cases[i].pod);
        }
}

/* Verdict and detail of one isolator as "VERDICT: DETAIL". */
static char *verdict(const char *name, const char *value, bool pod_scope, const HostFeatures *h)
{
        const char *texts[] = {name, value, NULL};
        IsolatorList l = {};
        IsolatorVerdict v = -1;
        _cleanup_free_ char *detail = NULL;
        char *text = NULL;

        if (list_of(texts, &l) >= 0 && isolator_verdict(&l, l.items, pod_scope, h, &v, &detail) >= 0 &&
            xasprintf(&text, "%s: %s", isolator_verdict_to_string(v), detail) < 0)
                text = NULL;
        isolator_list_done(&l);
        return text;
}

static const struct {
        const char *name, *value, *app, *pod;
} verdicts[] = {
                {"resource/memory", "{'limit':'1K'}", "enforced: the app at most 1000 bytes, without swap",
                 "enforced: all apps together at most 1000 bytes, without swap"},
                {"resource/memory", "{'limit':'2K','request':'1K'}",
                 "modified: the app at most 2000 bytes, without swap; 1000 bytes are protected where the "
                 "apps of the pod compete",
                 "modified: all apps together at most 2000 bytes, without swap; 1000 bytes are protected "
                 "where pods compete"},
                {"resource/memory", "{'request':'1K'}", "modified: 1000 bytes are protected",
                 "modified: 1000 bytes are protected where pods compete"},
                {"resource/memory", "{}", "ignored: neither", "ignored: neither"},
                {"resource/cpu", "{'limit':'125m'}", "enforced: the app at most 12.5% of one CPU",
                 "enforced: all apps together at most 12.5% of one CPU"},
                {"resource/cpu", "{'limit':'0'}",
                 "modified: the app at most 0.1% of one CPU, the smallest possible",
                 "modified: all apps together"},
                {"resource/cpu", "{'request':'500m'}", "modified: a weight of 50 where the apps",
                 "modified: a weight of 50 where pods compete"},
                {"resource/cpu", "{'limit':'2','request':'500m'}",
                 "modified: the app at most 200% of one CPU; a weight of 50",
                 "modified: all apps together at most 200% of one CPU; a weight of 50 where pods"},
                {"os/linux/cgroup", "{'hugetlb.1GB.max':'0'}", "enforced: hugetlb.1GB.max is 0",
                 "enforced: hugetlb.1GB.max is 0"},
                {"os/linux/cgroup", "{'memory.high':'4096','cpuset.mems':'0'}",
                 "enforced: memory.high is 4096; cpuset.mems is 0", "enforced: memory.high is 4096"},
                {"os/linux/cpu-shares", "1024", "enforced: a weight of 100 where",
                 "enforced: a weight of 100 where pods compete"},
                {"os/linux/cpu-shares", "1000", "modified: a weight of 98 (the nearest possible weight)",
                 "modified: a weight of 98 (the nearest possible weight) where pods"},
                {"os/linux/oom-score-adj", "100", "enforced: the app's processes start with 100",
                 "ignored: it is for apps"},
                {"os/linux/oom-score-adj", "-100", "enforced: the app's processes start with -100",
                 "ignored: it is for apps"},
                {"os/linux/no-new-privileges", "true", "enforced: the launcher sets",
                 "ignored: it is for apps"},
                {"os/linux/no-new-privileges", "false", "off: the flag is not set",
                 "ignored: it is for apps"},
                {"os/linux/capabilities-retain-set", "{'set':['CAP_KILL']}", "enforced: the launcher bounds",
                 "enforced: apps that are added to the pod can have these, besides the defaults"},
                {"os/linux/capabilities-remove-set", "{'set':['CAP_KILL','CAP_NONSENSE']}",
                 "modified: the launcher bounds the app's capabilities; without effect, or with a "
                 "different effect, on this machine: CAP_NONSENSE",
                 "ignored: it is for apps"},
                {"os/linux/seccomp-remove-set", "{'set':['reboot']}", "enforced: the launcher filters",
                 "ignored: it is for apps"},
                {"os/linux/seccomp-remove-set", "{'set':['reboot','nonsense_call']}",
                 "modified: the launcher filters", "ignored: "},
                {"os/linux/seccomp-remove-set", "{'set':['nonsense_call']}",
                 "ignored: Isolator os/linux/seccomp-remove-set names no", "ignored: it is for apps"},
                {"os/linux/seccomp-retain-set", "{'set':['@appc.io/all','read']}",
                 "off: the app has no filter and may make every system call", "ignored: it is for apps"},
                {"os/linux/seccomp-retain-set", "{'set':['@appc.io/all','@acnspawn/within-default']}",
                 "modified: the launcher filters the app's system calls; it is the default filter",
                 "ignored: it is for apps"},
                {"os/linux/seccomp-retain-set", "{'set':['read']}",
                 "modified: the launcher filters the app's system calls; the calls that every process needs "
                 "are allowed as well (@systemd/default)",
                 "ignored: it is for apps"},
                {"os/linux/seccomp-retain-set", "{'set':['read','@systemd/default']}",
                 "enforced: the launcher filters the app's system calls", "ignored: it is for apps"},
                {"os/linux/seccomp-retain-set",
                 "{'set':['read','clone','reboot','@systemd/default','@acnspawn/within-default']}",
                 "modified: the launcher filters the app's system calls; the default filter refuses or "
                 "limits clone, reboot",
                 "ignored: it is for apps"},
                {"os/linux/seccomp-retain-set",
                 "{'set':['read','@systemd/default','@acnspawn/within-default']}",
                 "enforced: the launcher filters the app's system calls", "ignored: it is for apps"},
                {"os/linux/selinux-context", "{'user':'u','role':'r','type':'t','level':'l'}",
                 "modified: the app is executed in the context u:r:t:l; whether its domain",
                 "ignored: it is for apps"},
                {"os/linux/apparmor-profile", "'web'",
                 "modified: the app is executed in the profile web, whose mode is unknown",
                 "ignored: it is for apps"},
                {"resource/block-bandwidth", "{'default':true,'limit':'2M'}",
                 "enforced: the app at most 2000000 bytes a second",
                 "enforced: all apps together at most 2000000"},
                {"resource/block-iops", "{'default':true,'limit':'1000'}",
                 "enforced: the app at most 1000 operations a second", "enforced: all apps together"},
                {"resource/block-iops", "{'default':true,'limit':'0'}",
                 "modified: the app at most 1 operations", "modified: all apps together"},
                {"resource/network-bandwidth", "{'default':true,'limit':'1G'}", "ignored: network",
                 "ignored: network"},
                {"os/unix/sysctl", "{'net.ipv4.ip_forward':'1'}", "enforced: net.ipv4.ip_forward: set",
                 "enforced: net.ipv4.ip_forward: set"},
                {"example.com/magic", "[]", "ignored: there is no isolator of this name",
                 "ignored: there is no isolator"},
};

TEST(verdicts)
{
        for (size_t i = 0; i < ELEMENTSOF(verdicts); i++) {
                _cleanup_free_ char *app =
                                verdict(verdicts[i].name, verdicts[i].value, false, &all_features);
                _cleanup_free_ char *pod = verdict(verdicts[i].name, verdicts[i].value, true, &all_features);
                ASSERT_CONTAINS(app, verdicts[i].app);
                ASSERT_CONTAINS(pod, verdicts[i].pod);
                ASSERT_EQ(strncmp(app, verdicts[i].app, 8), 0);
        }
}

/* If several isolators of a list conflict, only the one in force is reported as enforced. */
TEST(verdicts_of_several)
{
        static const struct {
                const char *texts[5];
                const char *first, *second;
        } several[] = {
                        {{"resource/memory", "{'limit':'1K'}", "resource/memory", "{'limit':'2K'}"},
                         "ignored: a later one of this name",
                         "enforced: the app at most 2000 bytes"},
                        {{"os/linux/capabilities-retain-set", "{'set':['CAP_KILL']}",
                          "os/linux/capabilities-retain-set", "{'set':['CAP_CHOWN']}"},
                         "ignored: a later one of this name",
                         "enforced: "},
                        {{"os/linux/capabilities-remove-set", "{'set':['CAP_KILL']}",
                          "os/linux/capabilities-remove-set", "{'set':['CAP_CHOWN']}"},
                         "enforced: ",
                         "enforced: "},
                        {{"os/linux/no-new-privileges", "true", "os/linux/no-new-privileges", "false"},
                         "ignored: a later one of this name",
                         "off: "},
                        {{"os/linux/cpu-shares", "1024", "resource/cpu", "{'request':'200m'}"},
                         "ignored: resource/cpu requests a weight",
                         "modified: a weight of 20"},
                        {{"os/linux/cpu-shares", "1024", "resource/cpu", "{'limit':'200m'}"},
                         "enforced: a weight of 100",
                         "enforced: the app at most 20%"},
        };

        for (size_t i = 0; i < ELEMENTSOF(several); i++) {
                const char *const expected[] = {several[i].first, several[i].second};
                IsolatorList l = {};
                ASSERT_OK(list_of(several[i].texts, &l));
                for (size_t k = 0; k < l.n; k++) {
                        _cleanup_free_ char *detail = NULL, *text = NULL;
                        IsolatorVerdict v;
                        ASSERT_OK(isolator_verdict(&l, &l.items[k], false, &all_features, &v, &detail));
                        ASSERT_OK(xasprintf(&text, "%s: %s", isolator_verdict_to_string(v), detail));
                        ASSERT_TRUE(startswith(text, expected[k]) != NULL);
                }
                isolator_list_done(&l);
        }
}

/* Limits apply in every unit that the pod may be in; its weights relative to others are those of that unit. */
TEST(verdicts_in_a_unit_of_the_host)
{
        static const struct {
                const char *name, *value, *app, *pod;
        } in_unit[] = {
                        {"resource/memory", "{'limit':'1K'}", "enforced: the app at most 1000 bytes",
                         "enforced: all apps together at most 1000 bytes"},
                        {"resource/memory", "{'limit':'2K','request':'1K'}",
                         "modified: the app at most 2000 bytes",
                         "modified: all apps together at most 2000 bytes, without swap; the pod's share is "
                         "that of its unit (MemoryLow=)"},
                        {"resource/memory", "{'request':'1K'}", "modified: 1000 bytes are protected",
                         "ignored: the pod's share is that of its unit (MemoryLow=)"},
                        {"resource/cpu", "{'request':'500m'}", "modified: a weight of 50 where the apps",
                         "ignored: the pod's share is that of its unit (CPUWeight=)"},
                        {"os/linux/cpu-shares", "1024", "enforced: a weight of 100 where",
                         "ignored: the pod's share is that of its unit (CPUWeight=)"},
        };
        const HostFeatures h = {.cpu = true, .memory = true, .host_unit = true};

        for (size_t i = 0; i < ELEMENTSOF(in_unit); i++) {
                _cleanup_free_ char *app = verdict(in_unit[i].name, in_unit[i].value, false, &h);
                _cleanup_free_ char *pod = verdict(in_unit[i].name, in_unit[i].value, true, &h);
                ASSERT_TRUE(app && startswith(app, in_unit[i].app));
                ASSERT_TRUE(pod && startswith(pod, in_unit[i].pod));
        }
}

/* Without its controller a limit is not in force, regardless of other features of the host. */
TEST(missing_controllers)
{
        HostFeatures no_memory = all_features, no_cpu = all_features;
        _cleanup_free_ char *a = NULL, *b = NULL, *c = NULL, *d = NULL;

        no_memory.memory = no_cpu.cpu = false;
        a = verdict("resource/memory", "{'limit':'1K'}", false, &no_memory);
        ASSERT_STREQ(a, "ignored: this host has no cgroup v2 controller 'memory' for pods");
        b = verdict("resource/cpu", "{'limit':'1'}", true, &no_cpu);
        ASSERT_STREQ(b, "ignored: this host has no cgroup v2 controller 'cpu' for pods");
        c = verdict("os/linux/cpu-shares", "1024", false, &no_cpu);
        ASSERT_CONTAINS(c, "controller 'cpu'");
        d = verdict("resource/memory", "{'limit':'1K'}", false, &no_cpu);
        ASSERT_CONTAINS(d, "enforced: ");
}

/* Features missing on a host are reported, and not claimed to be in force. */
TEST(missing_features)
{
        static const struct {
                const char *name, *value, *expected;
        } l[] = {
                        {"os/linux/apparmor-profile", "'web'", "ignored: AppArmor is not active"},
                        {"os/linux/selinux-context", "{'user':'u','role':'r','type':'t','level':'l'}",
                         "ignored: SELinux is not active"},
                        {"os/linux/oom-score-adj", "-5", "modified: -5 takes CAP_SYS_RESOURCE"},
                        {"os/linux/oom-score-adj", "5", "enforced: "},
                        {"resource/block-iops", "{'default':true,'limit':'1'}", "ignored: the disk of"},
        };
        const HostFeatures h = {.io = true};

        for (size_t i = 0; i < ELEMENTSOF(l); i++) {
                _cleanup_free_ char *v = verdict(l[i].name, l[i].value, false, &h);
                ASSERT_CONTAINS(v, l[i].expected);
        }
}

/* --- Processes and threads ----------------------------------------------------------------------------- */

TEST(tasks_verdicts)
{
        static const struct {
                HostFeatures host;
                const char *limit, *app, *pod;
        } l[] = {
                        {{.pids = true, .own_users = true},
                         "{'limit':'50'}",
                         "enforced: the app at most 50 processes and threads",
                         "enforced: all apps together at most 50 processes and threads"},
                        {{.pids_v1 = true, .own_users = true},
                         "{'limit':50}",
                         "enforced: the app at most 50 processes and threads",
                         "enforced: all apps together at most 50 processes and threads"},
                        {{.own_users = true},
                         "{'limit':'50'}",
                         "modified: each user of the pod at most 50 processes and threads, in all apps "
                         "together: this host has no cgroup controller 'pids' for pods",
                         "ignored: this host has no cgroup controller 'pids' for pods; only the limits of "
                         "its apps hold, for each user of the pod"},
                        {{},
                         "{'limit':'50'}",
                         "ignored: this host has no cgroup controller 'pids' for pods, and the pod's users "
                         "are the host's",
                         "ignored: this host has no cgroup controller 'pids' for pods, and the pod's users "
                         "are the host's"},
                        {{},
                         "{'limit':'4194304'}",
                         "off: as many processes and threads as the host has",
                         "off: as many processes and threads as the host has"},
                        {{.pids = true}, "{}", "ignored: neither", "ignored: neither"},
        };

        for (size_t i = 0; i < ELEMENTSOF(l); i++) {
                _cleanup_free_ char *app = verdict("resource/tasks", l[i].limit, false, &l[i].host);
                _cleanup_free_ char *pod = verdict("resource/tasks", l[i].limit, true, &l[i].host);
                ASSERT_TRUE(app && startswith(app, l[i].app));
                ASSERT_TRUE(pod && startswith(pod, l[i].pod));
        }
}

TEST(tasks_by_default)
{
        static const struct {
                const char *isolator;
                uint64_t app, pod;
                size_t defaults;
        } l[] = {{NULL, 2048, 8192, 1},
                 {"{}", 2048, 8192, 1},
                 {"{'limit':'7'}", 7, 7, 0},
                 {"{'limit':'4194303'}", 4194303, 4194303, 0},
                 {"{'limit':'4194304'}", STAGE1_TASKS_UNLIMITED, STAGE1_TASKS_UNLIMITED, 0}};
        const Isolator *defaults[STAGE1_DEFAULTS_MAX];

        for (size_t i = 0; i < ELEMENTSOF(l); i++) {
                IsolatorList list = {};
                if (l[i].isolator)
                        ASSERT_OK(list_of((const char *const[]){"resource/tasks", l[i].isolator, NULL},
                                          &list));
                ASSERT_EQ(stage1_tasks_max(&list, false), l[i].app);
                ASSERT_EQ(stage1_tasks_max(&list, true), l[i].pod);
                const App app = {.isolators = list};
                ASSERT_EQ(stage1_default_isolators(&list, NULL, &all_features, defaults), l[i].defaults);
                if (l[i].defaults > 0)
                        ASSERT_EQ(defaults[0]->limit, 8192);
                ASSERT_EQ(stage1_default_isolators(&list, &app, &(HostFeatures){}, defaults), l[i].defaults);
                if (l[i].defaults > 0)
                        ASSERT_EQ(defaults[0]->limit, 2048);
                isolator_list_done(&list);
        }
}

/* The default profile is one of two, depending on whether the app may mount. */
TEST(profile_by_default)
{
        static const struct {
                const char *name, *value, *profile; /* NULL: none by default */
        } l[] = {{NULL, NULL, "acnspawn-app"},
                 {"os/linux/capabilities-retain-set", "{'set':['CAP_CHOWN']}", "acnspawn-app"},
                 {"os/linux/capabilities-retain-set", "{'set':['CAP_SYS_ADMIN']}", "acnspawn-app-mounts"},
                 {"os/linux/seccomp-retain-set", "{'set':['@appc.io/all']}", "acnspawn-app-mounts"},
                 {"os/linux/apparmor-profile", "'web'", NULL}};
        const HostFeatures with = {.apparmor = true};
        const Isolator *defaults[STAGE1_DEFAULTS_MAX];

        for (size_t i = 0; i < ELEMENTSOF(l); i++) {
                App app = {};
                if (l[i].name)
                        ASSERT_OK(list_of((const char *const[]){l[i].name, l[i].value, NULL},
                                          &app.isolators));
                size_t n = stage1_default_isolators(&app.isolators, &app, &with, defaults);
                ASSERT_EQ(n, l[i].profile ? 2 : 1);
                if (l[i].profile)
                        ASSERT_STREQ(defaults[1]->text, l[i].profile);
                ASSERT_EQ(stage1_default_isolators(&app.isolators, &app, &(HostFeatures){}, defaults), 1);
                isolator_list_done(&app.isolators);
        }
}

/* A manifest with two apps that have these isolators; NULL: none. */
static int sysctls(const char *pod, const char *a, const char *b, bool host_network, PairList *ret, Error *e)
{
        const char *const values[] = {pod, a, b};
        App app_objects[2] = {};
        PodApp apps[2] = {{.name = (char *) "a", .app = &app_objects[0]},
                          {.name = (char *) "b", .app = &app_objects[1]}};
        PodApp *list[] = {&apps[0], &apps[1]};
        PodManifest m = {.apps = list, .n_apps = 2};
        IsolatorList *const lists[] = {&m.isolators, &app_objects[0].isolators, &app_objects[1].isolators};
        int r = 0;

        for (size_t i = 0; i < 3; i++)
                if (r >= 0 && values[i])
                        r = list_of((const char *const[]){"os/unix/sysctl", values[i], NULL}, lists[i]);
        if (r >= 0)
                r = stage1_sysctls(&m, (SharedNamespaces){.network = host_network}, ret, e);
        for (size_t i = 0; i < 3; i++)
                isolator_list_done(lists[i]);
        return r;
}

TEST(sysctls)
{
        static const struct {
                const char *pod, *a, *b;
                bool host_network;
                const char *expected; /* an error, or all that is set */
        } l[] = {
                        {NULL, NULL, NULL, false, ""},
                        {"{'net.ipv4.ip_forward':'1'}", NULL, NULL, false, "net/ipv4/ip_forward=1 "},
                        {"{'net/ipv4/conf/eth0.1/forwarding':'1'}",
                         "{'net.ipv4.conf.eth0/1.forwarding':'1'}", NULL, false,
                         "net/ipv4/conf/eth0.1/forwarding=1 "},
                        {NULL, "{'kernel.shmmax':'1','kernel.sem':'1 2 3 4'}", "{'fs.mqueue.msg_max':'7'}",
                         false, "kernel/shmmax=1 kernel/sem=1 2 3 4 fs/mqueue/msg_max=7 "},
                        {NULL, "{'kernel.shmmax':'1'}", "{'kernel/shmmax':'2'}", false,
                         "App b sets the kernel parameter kernel/shmmax to '2', but '1' is requested as "
                         "well"},
                        {"{'kernel.shmmax':'1'}", NULL, "{'kernel/shmmax':'2'}", false,
                         "but '1' is requested as well"},
                        {"{'kernel.panic':'1'}", NULL, NULL, false,
                         "The pod requests the kernel parameter kernel.panic, which is the host's"},
                        {NULL, "{'kernel.hostname/x':'1'}", NULL, false, "which is the host's"},
                        {NULL, "{'kernel.shmmaxx':'1'}", NULL, false, "which is the host's"},
                        {NULL, "{'vm.overcommit_memory':'1'}", NULL, false,
                         "App a requests the kernel parameter vm."},
                        {NULL, "{'network.x':'1'}", NULL, false, "which is the host's"},
                        {NULL, "{'net.core.somaxconn':'1'}", NULL, true,
                         "but the pod is in the host's network"},
                        {NULL, "{'kernel.sem':'1'}", NULL, true, "kernel/sem=1 "},
        };

        for (size_t i = 0; i < ELEMENTSOF(l); i++) {
                _cleanup_error_ Error e = ERROR_NULL;
                _cleanup_text_ Text t = {};
                _cleanup_free_ char *text = NULL;
                PairList list = {};

                int r = sysctls(l[i].pod, l[i].a, l[i].b, l[i].host_network, &list, &e);
                for (size_t k = 0; k < list.n; k++)
                        text_addf(&t, "%s=%s ", list.items[k].name, list.items[k].value);
                ASSERT_OK(text_take(&t, &text, NULL));
                pair_list_done(&list);
                if (r < 0)
                        ASSERT_CONTAINS(e.message, l[i].expected);
                else
                        ASSERT_STREQ(text, l[i].expected);
        }
}

/* Errors in the isolators and ports of a template, whether its apps have app objects or not. */
TEST(manifests)
{
        static const struct {
                const char *apps, *expected;
        } l[] = {
                        {"{'name':'a','image':{'name':'x.org/a'}}", NULL},
                        {"{'name':'a','image':{'name':'x.org/a'},'app':{'exec':['/"
                         "x'],'user':'0','group':'0',"
                         "'isolators':[{'name':'os/linux/seccomp-remove-set','value':{'set':['execve']}}]}}",
                         "App a: Isolator os/linux/seccomp-remove-set blocks execve"},
                        {"{'name':'b','image':{'name':'x.org/b'}},{'name':'a','image':{'name':'x.org/a'},"
                         "'app':{'exec':['/x'],'user':'0','group':'0','isolators':[{'name':'os/unix/sysctl',"
                         "'value':{'kernel.panic':'1'}}]}}",
                         "App a requests the kernel parameter kernel.panic, which is the host's"},
                        {"{'name':'a','image':{'name':'x.org/a'},'app':{'exec':['/"
                         "x'],'user':'0','group':'0',"
                         "'ports':[{'name':'p','protocol':'sctp','port':80,'socketActivated':true}]}}",
                         "Port 'p' of app a cannot be socket-activated: its protocol is 'sctp'"},
        };

        for (size_t i = 0; i < ELEMENTSOF(l); i++) {
                _cleanup_(pod_manifest_freep) PodManifest *m = NULL;
                _cleanup_error_ Error e = ERROR_NULL;
                _cleanup_free_ char *text = NULL;

                ASSERT_OK(xasprintf(&text, "{'acVersion':'0.8.11','acKind':'PodManifest','apps':[%s]}",
                                    l[i].apps));
                for (char *c = text; *c; c++)
                        *c = *c == '\'' ? '"' : *c;
                ASSERT_OK(pod_manifest_parse(text, strlen(text), &m, NULL, &e));
                ASSERT_EQ(stage1_manifest_check(m, &e) < 0, l[i].expected != NULL);
                if (l[i].expected)
                        ASSERT_CONTAINS(e.message, l[i].expected);
        }
}

#define RETAIN(set) "{'name':'os/linux/capabilities-retain-set','value':{'set':[" set "]}}"
#define REMOVE(set) "{'name':'os/linux/capabilities-remove-set','value':{'set':[" set "]}}"

/* Capabilities declared for the pod are added to the default set, whatever apps it starts with; without such a declaration
 * those of the apps are. None is removed. */
TEST(capabilities_of_pods)
{
        static const struct {
                const char *pod, *app; /* isolators; app: NULL without one */
                uint64_t more;         /* than the default set */
        } l[] = {
                        {"", NULL, 0},
                        {RETAIN("'CAP_SYS_TIME'"), NULL, UINT64_C(1) << CAP_SYS_TIME},
                        {RETAIN("'CAP_SYS_TIME','CAP_NONSENSE','CAP_KILL'"), NULL,
                         UINT64_C(1) << CAP_SYS_TIME},
                        {RETAIN("'CAP_SYS_TIME'") "," RETAIN("'CAP_BPF'"), NULL, UINT64_C(1) << CAP_BPF},
                        {REMOVE("'CAP_KILL'"), NULL, 0},
                        {"", RETAIN("'CAP_BPF'"), UINT64_C(1) << CAP_BPF},
                        {"", REMOVE("'CAP_KILL'"), 0},
                        {RETAIN("'CAP_SYS_TIME'"), RETAIN("'CAP_BPF'"), UINT64_C(1) << CAP_SYS_TIME},
        };

        for (size_t i = 0; i < ELEMENTSOF(l); i++) {
                _cleanup_(pod_manifest_freep) PodManifest *m = NULL;
                _cleanup_free_ char *app = NULL, *text = NULL;

                ASSERT_OK(xasprintf(&app,
                                    "{'name':'a','image':{'name':'x.org/a'},'app':{'exec':['/x'],'user':'0',"
                                    "'group':'0','isolators':[%s]}}",
                                    l[i].app ?: ""));
                ASSERT_OK(xasprintf(
                                &text,
                                "{'acVersion':'0.8.11','acKind':'PodManifest','apps':[%s],'isolators':[%s]}",
                                l[i].app ? app : "", l[i].pod));
                for (char *c = text; *c; c++)
                        *c = *c == '\'' ? '"' : *c;
                ASSERT_OK(pod_manifest_parse(text, strlen(text), &m, NULL, NULL));
                bool declared;
                ASSERT_EQ(stage1_pod_capabilities(m, &declared), stage1_capabilities(NULL) | l[i].more);
                ASSERT_EQ(declared, strstr(l[i].pod, "capabilities-retain-set") != NULL);
        }
}

/* Every type has an entry in the table: each ignored isolator has a reason. */
TEST(every_type_has_a_verdict)
{
        for (int t = 0; t <= _ISOLATOR_TYPE_MAX; t++)
                for (int pod = 0; pod < 2; pod++) {
                        _cleanup_free_ char *detail = NULL;
                        Isolator i = {.name = (char *) "x", .type = (IsolatorType) t};
                        const IsolatorList l = {.items = &i, .n = 1};
                        IsolatorVerdict v;
                        ASSERT_OK(isolator_verdict(&l, &i, pod, &all_features, &v, &detail));
                        ASSERT_NOT_NULL(isolator_verdict_to_string(v));
                        ASSERT_GT(strlen(detail), 10);
                        ASSERT_OK(isolator_verdict(&l, &i, pod, &all_features, &v, NULL));
                }
        ASSERT_NULL(isolator_verdict_to_string((IsolatorVerdict) 17));
}

TEST(detect)
{
        HostFeatures h = {};

        ASSERT_OK(host_features_detect(false, &h));
        if (access("/sys/fs/cgroup/cgroup.controllers", F_OK) < 0 &&
            access("/sys/fs/cgroup/unified/cgroup.controllers", F_OK) < 0)
                ASSERT_FALSE(h.cpu || h.memory || h.io || h.pids);
}

/* As of apply_landlock(). */
TEST(confined_apps)
{
        static const char *const plain[] = {NULL};
        static const char *const admin[] = {"os/linux/capabilities-retain-set", "{'set':['CAP_SYS_ADMIN']}",
                                            NULL};
        static const char *const unfiltered[] = {"os/linux/seccomp-retain-set", "{'set':['@appc.io/all']}",
                                                 NULL};
        static const char *const narrow[] = {"os/linux/capabilities-retain-set", "{'set':['CAP_SYS_ADMIN']}",
                                             "os/linux/seccomp-remove-set", "{'set':['mount']}", NULL};
        static const char *const tracing[] = {"os/linux/capabilities-retain-set",
                                              "{'set':['CAP_SYS_PTRACE']}", NULL};
        static const struct {
                const char *const *isolators;
                int since; /* the version of Landlock */
                bool traces;
        } l[] = {{plain, 2, false},
                 {unfiltered, 2, false},
                 {narrow, 2, false},
                 {admin, 6, false},
                 {tracing, 2, true}};

        for (size_t i = 0; i < ELEMENTSOF(l); i++) {
                App app = {};
                const PodApp in_pod = {.name = (char *) "a", .app = &app};
                PodApp apart = in_pod, shared = in_pod;
                ASSERT_OK(list_of(l[i].isolators, &app.isolators));
                ASSERT_OK(pair_list_set(&apart.annotations, "acnspawn/pid", "private"));
                ASSERT_OK(pair_list_set(&shared.annotations, "acnspawn/pid", "shared"));
                for (int version = 0; version < 8; version++) {
                        const HostFeatures h = {.landlock = version};
                        ASSERT_EQ(stage1_app_is_confined(&in_pod, &h), version >= l[i].since);
                        ASSERT_TRUE(stage1_app_is_confined(&apart, &h)); /* it sees no others */
                        ASSERT_EQ(stage1_app_is_confined(&shared, &h), !l[i].traces);
                }
                pair_list_done(&apart.annotations);
                pair_list_done(&shared.annotations);
                isolator_list_done(&app.isolators);
        }
}

int main(void)
{
        if (library_load(&capng_library, NULL) < 0)
                return 1;
        RUN(directives);
        RUN(tasks_verdicts);
        RUN(tasks_by_default);
        RUN(profile_by_default);
        RUN(verdicts);
        RUN(verdicts_of_several);
        RUN(verdicts_in_a_unit_of_the_host);
        RUN(missing_controllers);
        RUN(missing_features);
        RUN(sysctls);
        RUN(manifests);
        RUN(capabilities_of_pods);
        RUN(every_type_has_a_verdict);
        RUN(confined_apps);
        RUN(detect);
        return TEST_END();
}
