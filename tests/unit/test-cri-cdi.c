/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Files of the Container Device Interface. */

#include "cri/cdi/cdi.h"
#include "tests/unit/test.h"

static int parse(const char *text, CdiSpec **ret, Error *e)
{
        return cdi_spec_parse(text, strlen(text), false, ret, e);
}

static int parse_yaml(const char *text, CdiSpec **ret, Error *e)
{
        return cdi_spec_parse(text, strlen(text), true, ret, e);
}

#define DEVICE(edits)                                                                                       \
        "{\"kind\":\"example.com/net\",\"devices\":[{\"name\":\"eth0\",\"containerEdits\":{" edits "}}]}"

TEST(devices)
{
        _cleanup_(cdi_spec_freep) CdiSpec *s = NULL;
        _cleanup_error_ Error e = ERROR_NULL;

        ASSERT_OK(parse("{\"cdiVersion\":\"0.6.0\",\"kind\":\"example.com/"
                        "net\",\"containerEdits\":{\"env\":[\"ALL=1\"]},\"devices\":["
                        "{\"name\":\"eth0\",\"containerEdits\":{\"env\":[\"A=b=c\",\"A=d\"],\"deviceNodes\":"
                        "[{\"path\":\"/dev/n0\"},"
                        "{\"path\":\"/dev/n1\",\"hostPath\":\"/dev/zero\",\"permissions\":\"rwm\"}],"
                        "\"mounts\":[{\"hostPath\":\"/a\",\"containerPath\":\"/"
                        "b\",\"options\":[\"ro\",\"nosuid\",\"nodev\",\"bind\"]}]}},"
                        "{\"name\":\"1:2.x\",\"containerEdits\":{\"additionalGids\":[0,5,4294967294],\"hooks\":[]}}]}",
                        &s, &e));
        ASSERT_STREQ(pair_list_get(&s->edits.environment, "ALL"), "1");
        const CdiDevice *d = cdi_spec_find(s, "eth0");
        ASSERT_NOT_NULL(d);
        ASSERT_STREQ(pair_list_get(&d->edits.environment, "A"), "d");
        ASSERT_EQ(d->edits.n_nodes, 2);
        ASSERT_STREQ(d->edits.nodes[0].host_path, "/dev/n0");
        ASSERT_STREQ(d->edits.nodes[1].host_path, "/dev/zero");
        ASSERT_TRUE(d->edits.mounts[0].read_only && d->edits.mounts[0].plain);
        ASSERT_NULL(d->edits.unsupported);
        d = cdi_spec_find(s, "1:2.x");
        ASSERT_NOT_NULL(d);
        ASSERT_EQ(d->edits.n_gids, 2);
        ASSERT_EQ(d->edits.gids[0], 5);
        ASSERT_EQ(d->edits.gids[1], 4294967294U);
        ASSERT_NULL(d->edits.unsupported);
        ASSERT_NULL(cdi_spec_find(s, "eth"));
}

TEST(names)
{
        static const char *const bad[] = {
                        "",         "=",         "eth0",    "example.com/net", "example.com/net=",
                        "net=eth0", "/net=eth0", "a/b/c=d", "a/b=c/d",         "a/b=-c"};

        ASSERT_STREQ(cdi_name_split("example.com/net=eth0"), "eth0");
        ASSERT_STREQ(cdi_name_split("a/b-c_d=0:1"), "0:1");
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                ASSERT_NULL(cdi_name_split(bad[i]));
}

/* The rest of the file can be used. */
TEST(what_is_not_supported)
{
        static const struct {
                const char *text, *what;
        } cases[] = {
                        {DEVICE("\"hooks\":[{\"hookName\":\"createContainer\",\"path\":\"/x\"},{\"hookName\":\"poststop\",\"path\":\"/y\"}]"),
                         "the hook poststop of /y"},
                        {DEVICE("\"hooks\":[{\"hookName\":\"startContainer\",\"path\":\"/x\"}]"),
                         "the hook startContainer of /x"},
                        {DEVICE("\"hooks\":[{\"path\":\"/y\"}]"), "the hook /y"},
                        {DEVICE("\"intelRdt\":{}"), "intelRdt"},
                        {DEVICE("\"deviceNodes\":[{\"path\":\"/dev/a\",\"permissions\":\"rwx\"}]"),
                         "permissions of device nodes"},
                        {DEVICE("\"mounts\":[{\"hostPath\":\"/a\",\"containerPath\":\"/"
                                "b\",\"type\":\"tmpfs\"}]"),
                         "mounts of file systems"},
                        {DEVICE("\"mounts\":[{\"hostPath\":\"/a\",\"containerPath\":\"/"
                                "b\",\"options\":[\"noexec\"]}]"),
                         "options of mounts"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(cdi_spec_freep) CdiSpec *s = NULL;
                _cleanup_error_ Error e = ERROR_NULL;
                ASSERT_OK(parse(cases[i].text, &s, &e));
                ASSERT_CONTAINS(s->devices[0].edits.unsupported, cases[i].what);
        }
}

TEST(mistakes)
{
        static const struct {
                const char *text, *message;
        } cases[] = {
                        {"", ""},
                        {"[]", "an object is expected"},
                        {"{}", "is not a kind of devices"},
                        {"{\"kind\":5}", "\"kind\" is not a string"},
                        {"{\"kind\":\"a/b\\u0000c\"}", "is not allowed in a string"},
                        {"{\"kind\":\"a/b\",\"devices\":[{\"name\":\"a b\"}]}",
                         "'a b' is not the name of a device"},
                        {"{\"kind\":\"a/b\",\"devices\":[{\"name\":\"a\"},{\"name\":\"a\"}]}",
                         "There are two devices 'a'"},
                        {"{\"kind\":\"a/b\",\"devices\":[5]}", "an object is expected"},
                        {DEVICE("\"env\":[\"x\"]"),
                         "Device 'eth0': \"env\" has an entry that is not NAME=VALUE"},
                        {DEVICE("\"additionalGids\":[-1]"),
                         "\"additionalGids\" has an entry that is not the number of a group"},
                        {DEVICE("\"additionalGids\":[4294967295]"), "not the number of a group"},
                        {DEVICE("\"additionalGids\":[\"5\"]"), "not the number of a group"},
                        {DEVICE("\"hooks\":[{\"hookName\":\"prestart\"}]"), "A hook has no \"path\""},
                        {DEVICE("\"hooks\":[{\"hookName\":5}]"), "\"hookName\" is not a string"},
                        {DEVICE("\"hooks\":[{\"hookName\":\"createContainer\",\"path\":\"/x\",\"timeout\":0}]"),
                         "\"timeout\" is 0"},
                        {DEVICE("\"hooks\":[{\"hookName\":\"createContainer\",\"path\":\"/x\",\"args\":[5]}]"),
                         "\"args\" is not a list of strings"},
                        {DEVICE("\"hooks\":[{\"hookName\":\"createContainer\",\"path\":\"/x\",\"env\":[\"=\"]}]"),
                         "\"env\" has '='"},
                        {DEVICE("\"hooks\":{}"), "\"hooks\" is not a list"},
                        {DEVICE("\"deviceNodes\":[{}]"), "A device node has no \"path\" below /dev"},
                        {DEVICE("\"deviceNodes\":[{\"path\":\"/etc/x\"}]"), "below /dev"},
                        {DEVICE("\"deviceNodes\":[{\"path\":\"/dev/../x\"}]"),
                         "'/dev/../x', which is not an absolute path"},
                        {DEVICE("\"deviceNodes\":[{\"path\":\"/dev/a:/b\"}]"),
                         "which is not an absolute path that can be used"},
                        {DEVICE("\"mounts\":[{\"hostPath\":\"/a\"}]"), "no \"containerPath\""},
                        {DEVICE("\"mounts\":[{\"hostPath\":\"/a\",\"containerPath\":\"/"
                                "b\",\"options\":[5]}]"),
                         "\"options\" is not a list of strings"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(cdi_spec_freep) CdiSpec *s = NULL;
                _cleanup_error_ Error e = ERROR_NULL;
                ASSERT_ERR(parse(cases[i].text, &s, &e), -EINVAL);
                ASSERT_CONTAINS(e.message, cases[i].message);
        }
}

/* --- YAML ---------------------------------------------------------------------------------------------- */

TEST(devices_in_yaml)
{
        static const char text[] = "# of a driver\n"
                                   "---\n"
                                   "cdiVersion: 0.5.0\n"
                                   "kind: example.com/net\n"
                                   "containerEdits:\n"
                                   "  env:\n"
                                   "  - ALL=1\n"
                                   "devices:\n"
                                   "- containerEdits:\n"
                                   "    deviceNodes:\n"
                                   "    - {path: /dev/n0, hostPath: \"/dev/\\x7aero\"}\n"
                                   "    mounts:\n"
                                   "    - hostPath: /a\n"
                                   "      containerPath: '/b'\n"
                                   "      options: [ro, nosuid, nodev, bind]\n"
                                   "      type: ~\n"
                                   "    additionalGids: [0, 5]\n"
                                   "    hooks:\n"
                                   "  name: \"0\"\n"
                                   "...\n";
        _cleanup_(cdi_spec_freep) CdiSpec *s = NULL, *json = NULL;
        _cleanup_error_ Error e = ERROR_NULL;

        ASSERT_OK(parse_yaml(text, &s, &e));
        ASSERT_STREQ(s->kind, "example.com/net");
        ASSERT_STREQ(pair_list_get(&s->edits.environment, "ALL"), "1");
        const CdiDevice *d = cdi_spec_find(s, "0");
        ASSERT_NOT_NULL(d);
        ASSERT_STREQ(d->edits.nodes[0].host_path, "/dev/zero");
        ASSERT_STREQ(d->edits.mounts[0].target, "/b");
        ASSERT_TRUE(d->edits.mounts[0].read_only && d->edits.mounts[0].plain);
        ASSERT_EQ(d->edits.n_gids, 1);
        ASSERT_EQ(d->edits.gids[0], 5);
        ASSERT_NULL(d->edits.unsupported);
        /* JSON is YAML. */
        ASSERT_OK(parse_yaml(DEVICE("\"additionalGids\":[7]"), &json, &e));
        ASSERT_EQ(cdi_spec_find(json, "eth0")->edits.gids[0], 7);
}

#define YAML(more) "kind: a/b\ndevices:\n- name: x\n  containerEdits:\n    " more "\n"

TEST(mistakes_in_yaml)
{
        static const struct {
                const char *text, *message;
        } cases[] = {
                        {"", "an object is expected"},
                        {"- a\n", "an object is expected"},
                        {"kind: [\n", "Line 2: "},
                        {"a: b: c\n", "Line 1: mapping values are not allowed"},
                        {"kind: a/b\nkind: a/c\n", "Line 2: this key is there twice"},
                        {"kind: a/b\n--- {}\n", "Line 2: there is a second document"},
                        {"kind: &x a/b\n", "Line 1: anchors are not supported"},
                        {"kind: a/b\ndevices: &x []\n", "Line 2: anchors are not supported"},
                        {"kind: a/b\nother: &x {}\n", "Line 2: anchors are not supported"},
                        {"kind: a/b\nother: *x\n", "Line 2: aliases are not supported"},
                        {"kind: a/b\n<<: {}\n", "Line 2: merge keys are not supported"},
                        {"kind: a/b\n? [a]\n: c\n", "Line 2: keys that are not text are not supported"},
                        {"kind: a/b\n? {a: b}\n: c\n", "Line 2: keys that are not text are not supported"},
                        {"kind: !!str a/b\n", "Line 1: types of values ('!') are not supported"},
                        {"kind: a/b\nother: !x []\n", "Line 2: types of values ('!') are not supported"},
                        {"kind: \"a/b\\0c\"\n", "Line 1: text with a NUL is not supported"},
                        {"kind: a/b\nother: \xff\n", "Line "},
                        {"kind: 5\n", "\"kind\" is not a string"},
                        {"kind: true\n", "\"kind\" is not a string"},
                        {"kind: ~\n", "is not a kind of devices"},
                        {"kind: a/b\ndevices:\n- name: no\n",
                         "Line 3: versions of YAML differ about this word"},
                        {"kind: a/b\ndevices:\n- name: 0\n", "\"name\" is not a string"},
                        {"kind: a/b\ndevices:\n- name: 1_0\n", "\"name\" is not a string"},
                        {YAML("additionalGids: [017]"), "is not the number of a group"},
                        {YAML("additionalGids: [0x1f]"), "is not the number of a group"},
                        {YAML("additionalGids: [1e3]"), "is not the number of a group"},
                        {YAML("additionalGids: [99999999999999999999]"), "is not the number of a group"},
                        {YAML("additionalGids: ['5']"), "is not the number of a group"},
                        {YAML("env: [[[[[[[[[[[[[]]]]]]]]]]]]]"), "Line 5: it is nested too deeply"},
                        {YAML("env: [x]"), "Device 'x': \"env\" has an entry that is not NAME=VALUE"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(cdi_spec_freep) CdiSpec *s = NULL;
                _cleanup_error_ Error e = ERROR_NULL;
                ASSERT_ERR(parse_yaml(cases[i].text, &s, &e), -EINVAL);
                ASSERT_CONTAINS(e.message, cases[i].message);
        }
}

/* The number of values is bounded, and so is the depth that the library reads ahead. */
TEST(yaml_without_end)
{
        enum { N = 1 << 20 };
        static const char *const patterns[] = {"[", "{a: ", "- ", "a, ", "[],", "{},"};
        _cleanup_free_ char *text = malloc(N + 1);

        ASSERT_NOT_NULL(text);
        for (size_t i = 0; i < ELEMENTSOF(patterns); i++) {
                _cleanup_(cdi_spec_freep) CdiSpec *s = NULL;
                _cleanup_error_ Error e = ERROR_NULL;
                size_t size = strlen(patterns[i]), n = (size_t) snprintf(text, N, i < 3 ? "" : "kind: [");
                for (; n + size <= N; n += size)
                        memcpy(text + n, patterns[i], size);
                text[n] = 0;
                ASSERT_ERR(parse_yaml(text, &s, &e), -EINVAL);
                ASSERT_CONTAINS(e.message, i < 3 ? "nested too deeply" : "there are too many values");
        }
}

int main(void)
{
        RUN(devices);
        RUN(names);
        RUN(what_is_not_supported);
        RUN(mistakes);
        RUN(devices_in_yaml);
        RUN(mistakes_in_yaml);
        RUN(yaml_without_end);
        return TEST_END();
}
