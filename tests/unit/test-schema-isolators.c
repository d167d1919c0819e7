/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Isolators: single ones from a command line, and lists in manifests. */

#include "tests/unit/schema.h"

TEST(names)
{
        for (unsigned t = ISOLATOR_UNKNOWN + 1; t < _ISOLATOR_TYPE_MAX; t++) {
                const char *name = isolator_type_to_string((IsolatorType) t);

                ASSERT_NOT_NULL(name);
                ASSERT_OK(ac_identifier_check(name, NULL));
                ASSERT_EQ(isolator_type_from_string(name), (IsolatorType) t);
        }
        ASSERT_NULL(isolator_type_to_string(ISOLATOR_UNKNOWN));
        ASSERT_NULL(isolator_type_to_string(_ISOLATOR_TYPE_MAX));
        ASSERT_EQ(isolator_type_from_string("resource/network-ponies"), ISOLATOR_UNKNOWN);
}

/* JSON here has single quotes. */
static int isolator_from(const char *name, const char *json, Isolator *ret, Error *e)
{
        _cleanup_free_ char *text = json_text(json);

        return isolator_parse(name, text, ret, e);
}

#define PARSE(name, json)                                                                                   \
        _cleanup_(isolator_done) Isolator i = {};                                                           \
        _cleanup_error_ Error e = {};                                                                       \
        int r = isolator_from(name, json, &i, &e);                                                          \
        if (r < 0)                                                                                          \
        TEST_FAIL("%s", e.message)

TEST(memory)
{
        PARSE("resource/memory", "{'request': '1G', 'limit': 2147483648}");
        ASSERT_EQ(i.type, ISOLATOR_RESOURCE_MEMORY);
        ASSERT_STREQ(i.name, "resource/memory");
        ASSERT_TRUE(i.has_request && i.has_limit);
        ASSERT_EQ(i.request, 1000000000);
        ASSERT_EQ(i.limit, 2147483648);
        ASSERT_NOT_NULL(i.value);
}

TEST(memory_half)
{
        PARSE("resource/memory", "{'default': false, 'limit': '4G', 'request': null}");
        ASSERT_FALSE(i.has_request);
        ASSERT_TRUE(i.has_limit);
}

TEST(cpu)
{
        PARSE("resource/cpu", "{'request': '250m', 'limit': 0.5}");
        ASSERT_EQ(i.type, ISOLATOR_RESOURCE_CPU);
        ASSERT_EQ(i.request, 250);
        ASSERT_EQ(i.limit, 500);
}

TEST(bandwidth)
{
        PARSE("resource/block-bandwidth", "{'default': true, 'limit': '2M'}");
        ASSERT_EQ(i.type, ISOLATOR_RESOURCE_BLOCK_BANDWIDTH);
        ASSERT_EQ(i.limit, 2000000);
}

TEST(capabilities)
{
        PARSE("os/linux/capabilities-retain-set", "{'set': ['CAP_NET_ADMIN', 'kill', 'cap_ponies']}");
        ASSERT_EQ(i.type, ISOLATOR_CAPABILITIES_RETAIN_SET);
        ASSERT_EQ(strv_length(i.set), 3);
        ASSERT_STREQ(i.set[0], "CAP_NET_ADMIN");
        ASSERT_STREQ(i.set[1], "CAP_KILL");
        ASSERT_STREQ(i.set[2], "CAP_PONIES");
}

TEST(seccomp)
{
        PARSE("os/linux/seccomp-remove-set", "{'errno': 'ENOTSUP', 'set': ['@appc.io/empty', '_llseek']}");
        ASSERT_EQ(i.type, ISOLATOR_SECCOMP_REMOVE_SET);
        ASSERT_STREQ(i.errno_name, "ENOTSUP");
        ASSERT_STREQ(i.set[0], "@appc.io/empty");
        ASSERT_STREQ(i.set[1], "_llseek");
}

TEST(seccomp_without_errno)
{
        PARSE("os/linux/seccomp-retain-set", "{'errno': '', 'set': ['read']}");
        ASSERT_EQ(i.type, ISOLATOR_SECCOMP_RETAIN_SET);
        ASSERT_NULL(i.errno_name);
}

TEST(no_new_privileges)
{
        PARSE("os/linux/no-new-privileges", "true");
        ASSERT_TRUE(i.enabled);
}

TEST(numbers)
{
        PARSE("os/linux/oom-score-adj", "-1000");
        ASSERT_EQ(i.number, -1000);
}

TEST(selinux)
{
        PARSE("os/linux/selinux-context",
              "{'user':'system_u','role':'system_r','type':'dhcpc_t','level':'s0:c1,c2'}");
        ASSERT_STREQ(i.text, "system_u:system_r:dhcpc_t:s0:c1,c2");
}

TEST(apparmor)
{
        PARSE("os/linux/apparmor-profile", "'acnspawn-app'");
        ASSERT_EQ(i.type, ISOLATOR_APPARMOR_PROFILE);
        ASSERT_STREQ(i.text, "acnspawn-app");
}

TEST(sysctl)
{
        PARSE("os/unix/sysctl", "{'net.ipv4.tcp_mtu_probing': '1', 'net/ipv4/conf/eth0.1/forwarding': '0'}");
        ASSERT_EQ(i.sysctl.n, 2);
        ASSERT_STREQ(pair_list_get(&i.sysctl, "net.ipv4.tcp_mtu_probing"), "1");
}

TEST(unknown)
{
        PARSE("example.com/ponies", "{'n': [1, null, 'x']}");
        ASSERT_EQ(i.type, ISOLATOR_UNKNOWN);
        ASSERT_STREQ(json_object_to_json_string_ext(i.value, JSON_C_TO_STRING_PLAIN),
                     "{\"n\":[1,null,\"x\"]}");
}

TEST(unknown_null)
{
        PARSE("example.com/ponies", "null");
        ASSERT_NULL(i.value);
        ASSERT_STREQ(i.name, "example.com/ponies");
}

static const struct {
        const char *name, *value, *message;
} refusals[] = {
                {"resource/memory", "3", "must be an object, not a number"},
                {"resource/memory", "{'limit':'much'}", "limit: \"much\" is not a quantity"},
                {"resource/memory", "{'limit':'-1G'}", "limit: \"-1G\" is negative"},
                {"resource/memory", "{'limit':-1}", "limit: \"-1\" is negative"},
                {"resource/memory", "{'limit':'1e999'}",
                 "limit: \"1e999\" is more than the largest quantity"},
                {"resource/memory", "{'limit':1e99}", "limit: \"1e99\" is more than"},
                {"resource/memory", "{'limit':true}",
                 "limit: must be a quantity such as \"1G\", not a boolean"},
                {"resource/memory", "{'default':true,'limit':'1G'}", "default: must be false"},
                {"resource/memory", "{'limit':'1G','LIMIT':'2G'}",
                 "LIMIT: is given twice, in two spellings"},
                {"resource/memory", "{'limit':'1G','limit':'2G'}", "key \"limit\" appears twice"},
                {"resource/cpu", "{'default':true}", "default: must be false"},
                {"resource/block-iops", "{'limit':'1000'}", "default: must be true"},
                {"resource/network-bandwidth", "{'default':true,'request':'1'}",
                 "request: is not supported"},
                {"os/linux/capabilities-remove-set", "{}", "set: is required, but missing"},
                {"os/linux/capabilities-remove-set", "{'set':[]}", "set: must not be empty"},
                {"os/linux/capabilities-remove-set", "{'set':['CAP_X','CAP Y']}",
                 "set[1]: \"CAP Y\" is not the name"},
                {"os/linux/capabilities-remove-set", "{'set':'CAP_X'}", "set: must be a list of strings"},
                {"os/linux/capabilities-remove-set", "['CAP_X']", "must be an object, not a list"},
                {"os/linux/seccomp-retain-set", "{'set':[]}", "set: must not be empty"},
                {"os/linux/seccomp-retain-set", "{'set':['read\\nExecStart=/x']}", "set[0]: "},
                {"os/linux/seccomp-retain-set", "{'set':['@']}", "set[0]: \"@\" is neither"},
                {"os/linux/seccomp-retain-set", "{'set':['read'],'errno':'eperm'}",
                 "errno: \"eperm\" is not the name"},
                {"os/linux/seccomp-retain-set", "{'set':['read'],'errno':'PERM'}", "errno: "},
                {"os/linux/no-new-privileges", "'true'", "must be true or false, not a string"},
                {"os/linux/no-new-privileges", "null", "must be true or false, not null"},
                {"os/linux/oom-score-adj", "1001", "must be a number from -1000 to 1000"},
                {"os/linux/oom-score-adj", "'5'", "must be a whole number, not a string"},
                {"os/linux/cpu-shares", "1", "must be a number from 2 to 262144"},
                {"os/linux/cpu-shares", "262145", "must be a number from 2 to 262144"},
                {"os/linux/cpu-shares", "18446744073709551615", "must be a number from 2"},
                {"os/linux/cpu-shares", "1024.0", "must be a whole number, not a fraction"},
                {"os/linux/selinux-context", "{'user':'u','role':'r','type':'t'}", "level: is required"},
                {"os/linux/selinux-context", "{'user':'u:v','role':'r','type':'t','level':'s'}", "user: "},
                {"os/linux/selinux-context", "{'user':'u','role':'','type':'t','level':'s'}", "role: "},
                {"os/linux/apparmor-profile", "'a b'", "\"a b\" is not one word"},
                {"os/linux/apparmor-profile", "''", "is not one word"},
                {"os/unix/sysctl", "[]", "must be an object, not a list"},
                {"os/linux/cgroup", "{'memory.max':'1'}", "is not a supported attribute of cgroups"},
                {"os/linux/cgroup", "{'hugetlb.2MB.max':'all'}", "must be a number of bytes, or max"},
                {"os/linux/cgroup", "{'hugetlb.':'1'}", "is not a supported attribute of cgroups"},
                {"os/linux/cgroup", "{'hugetlb.2MB.rsvd.max':'1'}",
                 "is not a supported attribute of cgroups"},
                {"os/linux/cgroup", "{'hugetlb.MB.max':'1'}", "is not a supported attribute of cgroups"},
                {"os/linux/cgroup", "{'memory.high':'1G'}", "must be a number of bytes, or max"},
                {"os/linux/cgroup", "{'memory.high':'99999999999999999999'}",
                 "must be a number of bytes, or max"},
                {"os/linux/cgroup", "{'cpuset.cpus':'0\\nDelegate=yes'}", "must be a list of numbers"},
                {"os/linux/cgroup", "{'cpuset.cpus':'-1'}", "must be a list of numbers"},
                {"os/linux/cgroup", "{'cpuset.cpus':'0--3'}", "must be a list of numbers"},
                {"os/linux/cgroup", "{'cpuset.cpus':'0,,3'}", "must be a list of numbers"},
                {"os/linux/cgroup", "{'cpuset.cpus':'3-1'}", "must be a list of numbers"},
                {"os/linux/cgroup", "{'cpuset.mems':'0-1-2'}", "must be a list of numbers"},
                {"os/linux/cgroup", "{'cpuset.mems':'4294967296'}", "must be a list of numbers"},
                {"os/linux/cgroup", "{'memory.high':'0'}", "must be a number of bytes, or max"},
                {"os/linux/cgroup", "{'memory.low':'18446744073709551615'}",
                 "must be a number of bytes, or max"},
                {"os/unix/sysctl", "{'net.x':1}", "[\"net.x\"]: must be a string, not a number"},
                {"os/unix/sysctl", "{'net/../kernel':'1'}", "is not the name of a kernel parameter"},
                {"os/unix/sysctl", "{'':'1'}", "is not the name of a kernel parameter"},
                {"os/unix/sysctl", "{'/etc/passwd':'1'}", "is not the name of a kernel parameter"},
                {"os/unix/sysctl", "{'net.x\\n':'1'}", "is not the name of a kernel parameter"},
                {"Not/Valid", "1", "Invalid name of an isolator"},
                {"resource/memory", "{",
                 "Invalid value of isolator resource/memory: Invalid JSON: line 1, column 2"},
                {"resource/memory", "", "Invalid JSON"},
};

TEST(refused)
{
        for (size_t k = 0; k < ELEMENTSOF(refusals); k++) {
                Isolator i = {.number = 42};
                _cleanup_error_ Error e = {};
                int r = isolator_from(refusals[k].name, refusals[k].value, &i, &e);

                if (r != -EINVAL && r != -EBADMSG)
                        TEST_FAIL("%s %s gave %d", refusals[k].name, refusals[k].value, r);
                ASSERT_EQ(i.number, 42);
                ASSERT_CONTAINS(e.message, refusals[k].message);
        }
}

/* --- In manifests -------------------------------------------------------------------------------------- */

static int parse_list(const char *version, const char *isolators, ImageManifest **ret, Error *e)
{
        _cleanup_free_ char *quoted = NULL, *text = NULL;

        if (xasprintf(&quoted,
                      "{'acKind':'ImageManifest','acVersion':'%s','name':'x',"
                      "'app':{'user':'0','group':'0','isolators':%s}}",
                      version, isolators) < 0)
                return -ENOMEM;
        text = json_text(quoted);
        return image_manifest_parse(text, strlen(text), ret, NULL, e);
}

#define SECCOMP(which) "{'name':'os/linux/seccomp-" which "-set','value':{'set':['read']}}"
#define CAPS(which) "{'name':'os/linux/capabilities-" which "-set','value':{'set':['CAP_KILL']}}"
#define MEMORY "{'name':'resource/memory','value':{'limit':'1G'}}"

TEST(together)
{
        static const struct {
                const char *isolators, *message;
        } cases[] = {
                        {"[" SECCOMP("retain") "," SECCOMP("retain") "]",
                         "app.isolators[1]: os/linux/seccomp-retain-set must not appear more than once"},
                        {"[" SECCOMP("retain") "," MEMORY "," SECCOMP("remove") "]",
                         "app.isolators[2]: os/linux/seccomp-remove-set cannot be used together"},
                        {"[" CAPS("remove") "," CAPS("retain") "]",
                         "app.isolators[1]: os/linux/capabilities-retain-set cannot be used together"},
                        {"[" MEMORY "," MEMORY "]", NULL},
                        {"[" CAPS("remove") "," CAPS("remove") "]", NULL},
                        {"[{'name':'a','value':1},{'name':'a','value':null}]", NULL},
                        {"[{'name':'a'}]", "app.isolators[0].value: is required, but missing"},
                        {"[{'name':'resource/memory'}]", "app.isolators[0].value: is required, but missing"},
                        {"[{'value':1}]", "app.isolators[0].name: is required, but missing"},
                        {"[{'name':'resource/memory','value':{'limit':'x'}}]",
                         "app.isolators[0].value.limit: \"x\" is not a quantity"},
                        {"[{'name':'resource/memory','value':null}]",
                         "app.isolators[0].value: must be an object, not null"},
                        {"[null]", "app.isolators[0]: must be an object, not null"},
                        {"{}", "app.isolators: must be a list, not an object"},
                        {"null", NULL},
                        {"[]", NULL},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(image_manifest_freep) ImageManifest *m = NULL;
                _cleanup_error_ Error e = {};
                int r = parse_list(SCHEMA_VERSION, cases[i].isolators, &m, &e);

                ASSERT_EQ(r, cases[i].message ? -EINVAL : 0);
                if (cases[i].message)
                        ASSERT_CONTAINS(e.message, cases[i].message);
        }
}

static uint64_t cpu_limit(const char *version, const char *quantity)
{
        _cleanup_(image_manifest_freep) ImageManifest *m = NULL;
        _cleanup_free_ char *isolators = NULL;

        if (xasprintf(&isolators, "[{'name':'resource/cpu','value':{'limit':%s}}]", quantity) < 0 ||
            parse_list(version, isolators, &m, NULL) < 0)
                return UINT64_MAX;
        return m->app->isolators.items[0].limit;
}

/* Before 0.7.0 the unit was the milli-core. */
TEST(cpu_of_old)
{
        ASSERT_EQ(cpu_limit("0.8.11", "'2'"), 2000);
        ASSERT_EQ(cpu_limit("0.7.0", "'2'"), 2000);
        ASSERT_EQ(cpu_limit("1.30.0", "'2'"), 2000);
        ASSERT_EQ(cpu_limit("0.6.9", "'500'"), 500);
        ASSERT_EQ(cpu_limit("0.5.2", "500"), 500);
        ASSERT_EQ(cpu_limit("0.5.2", "'1k'"), 1000);
        ASSERT_EQ(cpu_limit("0.5.2", "'500m'"), 500);
        ASSERT_EQ(cpu_limit("0.5.2", "'0.5'"), 500);
        ASSERT_EQ(cpu_limit("0.5.2", "0.5"), 500);
}

/* The value is stored in a form with the same meaning in every version of the document. */
TEST(cpu_of_old_written_anew)
{
        _cleanup_(image_manifest_freep) ImageManifest *m = NULL;
        _cleanup_error_ Error e = {};

        ASSERT_OK(parse_list("0.5.2", "[{'name':'resource/cpu','value':{'request':'250','limit':'500'}}]",
                             &m, &e));
        const Isolator *i = m->app->isolators.items;
        ASSERT_EQ(i->request, 250);
        ASSERT_STREQ(json_object_to_json_string_ext(i->value, JSON_C_TO_STRING_PLAIN),
                     "{\"request\":\"250m\",\"limit\":\"500m\"}");
}

/* An app whose image could be read must not make the pod's manifest unreadable. */
TEST(depth)
{
        _cleanup_(isolator_done) Isolator i = {};
        _cleanup_error_ Error e = {};
        char nested[200] = "";

        memset(nested, '[', 32);
        memset(nested + 32, ']', 32);
        ASSERT_OK(isolator_parse("example.com/deep", nested, &i, &e));
        memset(nested, '[', 33);
        memset(nested + 33, ']', 33);
        ASSERT_ERR(isolator_parse("example.com/deep", nested, &i, &e), -EINVAL);
        ASSERT_STREQ(e.message,
                     "Invalid value of isolator example.com/deep: is nested deeper than 32 levels");
        memset(nested, '[', 65);
        nested[65] = 0;
        ASSERT_ERR(isolator_parse("example.com/deep", nested, &i, &e), -EBADMSG);
}

/* A copy has attributes of its own. */
TEST(cgroup)
{
        App *copy = NULL;

        PARSE("os/linux/cgroup", "{'memory.swap.max': 'max', 'cpuset.cpus': '0-3,7'}");
        ASSERT_EQ(i.cgroup.n, 2);
        App app = {.isolators = {&i, 1, 1}};
        ASSERT_OK(app_copy(&app, &copy));
        const Isolator *other = isolator_list_find(&copy->isolators, ISOLATOR_CGROUP);
        ASSERT_STREQ(pair_list_get(&other->cgroup, "cpuset.cpus"), "0-3,7");
        ASSERT_TRUE(other->cgroup.items != i.cgroup.items);
        app_free(copy);
        ASSERT_STREQ(pair_list_get(&i.cgroup, "memory.swap.max"), "max");
}

int main(void)
{
        RUN(names);
        RUN(memory);
        RUN(memory_half);
        RUN(cpu);
        RUN(bandwidth);
        RUN(capabilities);
        RUN(seccomp);
        RUN(seccomp_without_errno);
        RUN(no_new_privileges);
        RUN(numbers);
        RUN(selinux);
        RUN(apparmor);
        RUN(sysctl);
        RUN(cgroup);
        RUN(unknown);
        RUN(unknown_null);
        RUN(refused);
        RUN(together);
        RUN(cpu_of_old);
        RUN(cpu_of_old_written_anew);
        RUN(depth);
        return TEST_END();
}
