/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Pod manifests: templates and reified ones, of today and of 0.5.2. */

#include "tests/unit/schema.h"

/* JSON in the texts here has single quotes. */
static int parse(const char *json, PodManifest **ret, Findings *f, Error *e)
{
        _cleanup_free_ char *text = json_text(json);

        return pod_manifest_parse(text, strlen(text), ret, f, e);
}

/* The result of format(), with single quotes as well. */
static char *format(const PodManifest *m)
{
        char *text;

        return pod_manifest_format(m, &text) < 0 ? NULL : single_quoted(text);
}

#define START(version) "{'acVersion':'" version "','acKind':'PodManifest','apps':["
#define POD(members) START("0.8.11") "]," members "}"
#define IMAGE "'image':{'id':'" ID "'}"
#define ONE_APP(members) START("0.8.11") "{'name':'a'," IMAGE "," members "}]}"

/* Everything a pod manifest can have, in canonical form. */
static const char complete[] = "{\n"
                               "  'acVersion': '0.8.11',\n"
                               "  'acKind': 'PodManifest',\n"
                               "  'apps': [\n"
                               "    {\n"
                               "      'name': 'worker',\n"
                               "      'image': {\n"
                               "        'name': 'example.com/worker',\n"
                               "        'id': '" ID "',\n"
                               "        'labels': [\n"
                               "          {\n"
                               "            'name': 'version',\n"
                               "            'value': '1.0.0'\n"
                               "          }\n"
                               "        ]\n"
                               "      },\n"
                               "      'app': {\n"
                               "        'user': '0',\n"
                               "        'group': '0',\n"
                               "        'mountPoints': [\n"
                               "          {\n"
                               "            'name': 'work',\n"
                               "            'path': '/var/lib/work'\n"
                               "          }\n"
                               "        ]\n"
                               "      },\n"
                               "      'readOnlyRootFS': true,\n"
                               "      'mounts': [\n"
                               "        {\n"
                               "          'volume': 'worklib',\n"
                               "          'path': '/var/lib/work'\n"
                               "        },\n"
                               "        {\n"
                               "          'volume': 'own',\n"
                               "          'path': '/own',\n"
                               "          'appVolume': {\n"
                               "            'name': 'own',\n"
                               "            'kind': 'empty',\n"
                               "            'mode': '1777',\n"
                               "            'uid': 5,\n"
                               "            'gid': 6\n"
                               "          }\n"
                               "        }\n"
                               "      ],\n"
                               "      'annotations': [\n"
                               "        {\n"
                               "          'name': 'foo',\n"
                               "          'value': 'baz'\n"
                               "        }\n"
                               "      ]\n"
                               "    },\n"
                               "    {\n"
                               "      'name': 'other',\n"
                               "      'image': {\n"
                               "        'name': 'example.com/other'\n"
                               "      }\n"
                               "    }\n"
                               "  ],\n"
                               "  'volumes': [\n"
                               "    {\n"
                               "      'name': 'worklib',\n"
                               "      'readOnly': false,\n"
                               "      'kind': 'host',\n"
                               "      'source': '/opt/work',\n"
                               "      'recursive': true\n"
                               "    },\n"
                               "    {\n"
                               "      'name': 'scratch',\n"
                               "      'kind': 'empty',\n"
                               "      'mode': '0755',\n"
                               "      'uid': 0,\n"
                               "      'gid': 0\n"
                               "    }\n"
                               "  ],\n"
                               "  'isolators': [\n"
                               "    {\n"
                               "      'name': 'resource/memory',\n"
                               "      'value': {\n"
                               "        'limit': '4G'\n"
                               "      }\n"
                               "    }\n"
                               "  ],\n"
                               "  'annotations': [\n"
                               "    {\n"
                               "      'name': 'ip-address',\n"
                               "      'value': '10.1.2.3'\n"
                               "    }\n"
                               "  ],\n"
                               "  'ports': [\n"
                               "    {\n"
                               "      'name': 'ftp',\n"
                               "      'hostPort': 2121,\n"
                               "      'hostIP': '203.0.113.23',\n"
                               "      'podPort': {\n"
                               "        'name': 'ftp',\n"
                               "        'protocol': 'tcp',\n"
                               "        'port': 21\n"
                               "      }\n"
                               "    },\n"
                               "    {\n"
                               "      'name': 'http',\n"
                               "      'hostPort': 80\n"
                               "    }\n"
                               "  ],\n"
                               "  'userAnnotations': {\n"
                               "    'a': 'b'\n"
                               "  },\n"
                               "  'userLabels': {\n"
                               "    'c': 'd'\n"
                               "  }\n"
                               "}\n";

TEST(complete_fields)
{
        _cleanup_(pod_manifest_freep) PodManifest *m = NULL;
        _cleanup_error_ Error e = {};

        if (parse(complete, &m, NULL, &e) < 0)
                TEST_FAIL("%s", e.message);
        ASSERT_EQ(m->n_apps, 2);
        const PodApp *a = pod_manifest_find_app(m, "worker");
        ASSERT_NOT_NULL(a);
        ASSERT_STREQ(a->image_id, ID);
        ASSERT_STREQ(a->image_name, "example.com/worker");
        ASSERT_STREQ(pair_list_get(&a->image_labels, "version"), "1.0.0");
        ASSERT_TRUE(a->read_only_rootfs);
        ASSERT_EQ(a->n_mounts, 2);
        ASSERT_EQ(a->mounts[1].app_volume->mode, 01777);
        ASSERT_EQ(a->mounts[1].app_volume->gid, 6);
        ASSERT_NULL(m->apps[1]->image_id);
        ASSERT_NULL(m->apps[1]->app);
        ASSERT_NULL(pod_manifest_find_app(m, "third"));
        const Volume *v = pod_manifest_find_volume(m, "worklib");
        ASSERT_NOT_NULL(v);
        ASSERT_EQ(v->kind, VOLUME_HOST);
        ASSERT_STREQ(v->source, "/opt/work");
        ASSERT_TRUE(v->has_read_only && !v->read_only && v->has_recursive && v->recursive);
        ASSERT_EQ(m->volumes[1].mode, 0755);
        ASSERT_FALSE(m->volumes[1].has_read_only);
        ASSERT_NULL(pod_manifest_find_volume(m, "x"));
        ASSERT_EQ(m->ports[0].pod_port->port, 21);
        ASSERT_STREQ(m->ports[0].host_ip, "203.0.113.23");
        ASSERT_EQ(m->ports[1].host_port, 80);
        ASSERT_STREQ(pair_list_get(&m->user_labels, "c"), "d");
}

TEST(complete_round_trip)
{
        _cleanup_(pod_manifest_freep) PodManifest *m = NULL;
        _cleanup_free_ char *text = NULL;

        ASSERT_OK(parse(complete, &m, NULL, NULL));
        text = format(m);
        ASSERT_NOT_NULL(text);
        ASSERT_STREQ(text, complete);
}

TEST(built_by_hand)
{
        _cleanup_(pod_manifest_freep) PodManifest *m = pod_manifest_new(), *again = NULL;
        _cleanup_free_ char *empty = NULL, *text = NULL;
        _cleanup_error_ Error e = {};

        ASSERT_NOT_NULL(m);
        empty = format(m);
        ASSERT_NOT_NULL(empty);
        ASSERT_STREQ(empty, "{\n  'acVersion': '0.8.11',\n  'acKind': 'PodManifest',\n  'apps': []\n}\n");
        for (int i = 0; i < 20; i++) {
                PodApp *a = pod_manifest_add_app(m);
                Volume *v = pod_manifest_add_volume(m);

                ASSERT_TRUE(a && v);
                ASSERT_OK(xasprintf(&a->name, "app-%d", i));
                ASSERT_OK(xasprintf(&v->name, "volume-%d", i));
                a->image_id = strdup(ID);
                for (int k = 0; k < 10; k++) {
                        Mount *mount = pod_app_add_mount(a);
                        ASSERT_NOT_NULL(mount);
                        mount->volume = strdup(v->name);
                        ASSERT_OK(xasprintf(&mount->path, "/m/%d", k));
                }
        }
        text = format(m);
        ASSERT_NOT_NULL(text);
        if (parse(text, &again, NULL, &e) < 0)
                TEST_FAIL("%s", e.message);
        ASSERT_OK(pod_manifest_check_reified(again, &e));
        /* Items that are taken out and reused. */
        PodApp *first = m->apps[0], *second = m->apps[1];
        char *name = strdup(first->name);
        size_t n = m->n_apps;
        ASSERT_TRUE(pod_manifest_take_app(m, name) == first);
        ASSERT_NULL(pod_manifest_take_app(m, name));
        ASSERT_EQ(m->n_apps, n - 1);
        ASSERT_TRUE(m->apps[0] == second); /* it has not moved */
        ASSERT_EQ(pod_manifest_index_of(m, second), 0);
        free(name);
        ASSERT_NULL(pod_app_free(first));
        ASSERT_NULL(pod_app_free(NULL));
        mount_done(second->mounts);
        ASSERT_NULL(second->mounts[0].path);
        volume_done(m->volumes);
        ASSERT_NULL(m->volumes[0].name);
        ASSERT_NULL(volume_free(NULL));
        ASSERT_NULL(pod_manifest_free(NULL));
}

TEST(tolerated)
{
        static const char *const texts[] = {
                        START("0.8.11") "]}",
                        /* What the reference writes. */
                        POD("'volumes':null,'isolators':null,'annotations':null,'ports':null"),
                        POD("'isolators':[{'name':'example.com/x','value':1}]"),
                        POD("'annotations':[{'name':'example.com/a/b','value':'1'}]"),
                        POD("'ports':[{'name':'a','hostPort':1,'hostIP':''},{'name':'a','hostPort':2}]"),
                        POD("'volumes':[{'name':'a','kind':'empty','recursive':true}]"),
                        START("1.30.0") "]}",
                        ONE_APP("'mounts':[{'volume':'late-bound','path':'/x'}]"),
                        ONE_APP("'mounts':[{'volume':'v','path':'/x','mountPoint':'ignored'}]"),
        };

        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                _cleanup_(pod_manifest_freep) PodManifest *m = NULL;
                _cleanup_error_ Error e = {};

                if (parse(texts[i], &m, NULL, &e) < 0)
                        TEST_FAIL("%s: %s", texts[i], e.message);
        }
}

TEST(image_id_in_lower_case)
{
        _cleanup_(pod_manifest_freep) PodManifest *m = NULL;
        _cleanup_free_ char *text = replace(START("0.8.11") "{'name':'a'," IMAGE "}]}", "8d3fff", "8D3FFF");

        ASSERT_OK(parse(text, &m, NULL, NULL));
        ASSERT_STREQ(m->apps[0]->image_id, ID);
}

#define VOLUME(members) POD("'volumes':[{'name':'v'," members "}]")
#define PORT(members) POD("'ports':[{'name':'p'," members "}]")

static const struct {
        const char *text, *path, *message;
} faults[] = {
                {"{'acVersion':'0.8.11','acKind':'PodManifest'}", "apps", "is required, but missing"},
                {"{'acVersion':'0.8.11','acKind':'ImageManifest','apps':[]}", "acKind",
                 "must be \"PodManifest\", not \"ImageManifest\""},
                {START("0.8.11") "{" IMAGE "}]}", "apps[0].name", "is required, but missing"},
                {START("0.8.11") "{'name':'a'}]}", "apps[0].image", "is required, but missing"},
                {START("0.8.11") "{'name':'a','image':{}}]}", "apps[0].image",
                 "needs an id, or a name by which it can be found"},
                {START("0.8.11") "{'name':'a','image':{'id':'sha512-x'}}]}", "apps[0].image.id",
                 "is not an image ID"},
                {START("0.8.11") "{'name':'a'," IMAGE "},{'name':'b'," IMAGE "},{'name':'a'," IMAGE "}]}",
                 "apps[2].name", "\"a\" appears twice"},
                {ONE_APP("'app':{'user':'0','group':'0','isolators':[{'name':'resource/cpu',"
                         "'value':{'limit':'1x'}}]}"),
                 "apps[0].app.isolators[0].value.limit", "\"1x\" is not a quantity"},
                {ONE_APP("'readOnlyRootFS':1"), "apps[0].readOnlyRootFS",
                 "must be true or false, not a number"},
                {ONE_APP("'mounts':[{'path':'/x'}]"), "apps[0].mounts[0].volume",
                 "is required, but missing"},
                {ONE_APP("'mounts':[{'volume':'v'}]"), "apps[0].mounts[0].path", "is required, but missing"},
                {ONE_APP("'mounts':[{'volume':'v','path':'/a/../b'}]"), "apps[0].mounts[0].path",
                 "must not contain \"..\""},
                {ONE_APP("'mounts':[{'volume':'v','mountPoint':'/x'}]"), "apps[0].mounts[0].mountPoint",
                 "\"/x\" is not an AC Name"},
                {ONE_APP("'app':{'user':'0','group':'0'},'mounts':[{'volume':'v','mountPoint':'x'}]"),
                 "apps[0].mounts[0].mountPoint", "the app has no mount point \"x\""},
                {ONE_APP("'mounts':[{'volume':'v','path':'/x','appVolume':{'name':'v'}}]"),
                 "apps[0].mounts[0].appVolume.kind", "is required, but missing"},
                {ONE_APP("'annotations':[{'name':'x','value':''},{'name':'x','value':''}]"),
                 "apps[0].annotations[1].name", "\"x\" appears twice"},
                {POD("'volumes':[{'name':'v','kind':'empty'},{'name':'v','kind':'empty'}]"),
                 "volumes[1].name", "\"v\" appears twice"},
                {VOLUME("'kind':'tmpfs'"), "volumes[0].kind",
                 "\"tmpfs\" is not a kind of volume: expected empty or host"},
                {VOLUME("'kind':'host'"), "volumes[0].source", "needs the absolute path"},
                {VOLUME("'kind':'host','source':''"), "volumes[0].source", "needs the absolute path"},
                {VOLUME("'kind':'host','source':'x'"), "volumes[0].source", "\"x\" is not an absolute path"},
                {VOLUME("'kind':'host','source':'/x','mode':'0755'"), "volumes[0].mode",
                 "has no meaning for a volume of kind host"},
                {VOLUME("'kind':'host','source':'/x','uid':0"), "volumes[0].uid",
                 "has no meaning for a volume of kind host"},
                {VOLUME("'kind':'host','source':'/x','gid':0"), "volumes[0].gid",
                 "has no meaning for a volume of kind host"},
                {VOLUME("'kind':'empty','source':'/x'"), "volumes[0].source",
                 "has no meaning for a volume of kind empty"},
                {VOLUME("'kind':'empty','mode':'0999'"), "volumes[0].mode", "\"0999\" is not a mode"},
                {VOLUME("'kind':'empty','mode':'17777'"), "volumes[0].mode", "is not a mode"},
                {VOLUME("'kind':'empty','mode':''"), "volumes[0].mode", "is not a mode"},
                {VOLUME("'kind':'empty','mode':493"), "volumes[0].mode",
                 "must be a string such as \"0755\", not a number"},
                {VOLUME("'kind':'empty','uid':-1"), "volumes[0].uid",
                 "must be a number from 0 to 4294967294"},
                {VOLUME("'kind':'empty','gid':4294967295"), "volumes[0].gid",
                 "must be a number from 0 to 4294967294"},
                {VOLUME("'kind':'empty','readOnly':'no'"), "volumes[0].readOnly",
                 "must be true or false, not a string"},
                {PORT("'podPort':null"), "ports[0].hostPort", "is required, but missing"},
                {PORT("'hostPort':0"), "ports[0].hostPort", "must be a number from 1 to 65535"},
                {PORT("'hostPort':'80'"), "ports[0].hostPort", "must be a whole number, not a string"},
                {PORT("'hostPort':1,'hostIP':'::1%lo'"), "ports[0].hostIP",
                 "\"::1%lo\" is not an IP address"},
                {PORT("'hostPort':1,'hostIP':'10.0.0.256'"), "ports[0].hostIP", "is not an IP address"},
                {PORT("'hostPort':1,'hostIP':'010.0.0.1'"), "ports[0].hostIP", "is not an IP address"},
                {PORT("'hostPort':1,'hostIP':'10.0.0'"), "ports[0].hostIP", "is not an IP address"},
                {PORT("'hostPort':1,'hostIP':'10.0.0.1.'"), "ports[0].hostIP", "is not an IP address"},
                {PORT("'hostPort':1,'podPort':{'name':'x','protocol':'tcp'}"), "ports[0].podPort.port",
                 "is required, but missing"},
                {POD("'isolators':[{'name':'os/unix/sysctl','value':{'a.b':'1'}},{'name':'os/unix/sysctl',"
                     "'value':{}}]"),
                 "isolators[1]", "os/unix/sysctl must not appear more than once"},
                {POD("'isolators':[{'name':'os/unix/sysctl','value':{'a.b':1}}]"),
                 "isolators[0].value[\"a.b\"]", "must be a string, not a number"},
                {POD("'userLabels':[]"), "userLabels", "must be an object, not a list"},
};

TEST(findings)
{
        for (size_t i = 0; i < ELEMENTSOF(faults); i++)
                ASSERT_ONE_FINDING(pod_manifest, "pod manifest", faults[i]);
}

/* --- Reified ------------------------------------------------------------------------------------------- */

TEST(reified)
{
        static const struct {
                const char *text, *message;
        } cases[] = {
                        {START("0.8.11") "]}", NULL},
                        {START("0.8.11") "{'name':'a'," IMAGE "}]}", NULL},
                        {START("0.8.11") "{'name':'a','image':{'name':'x'}}]}",
                         "apps[0].image.id: is required to run the pod, but missing"},
                        {ONE_APP("'mounts':[{'volume':'v','path':'/x'}]"),
                         "apps[0].mounts[0]: there is no volume \"v\""},
                        {ONE_APP("'mounts':[{'volume':'v','path':'/"
                                 "x','appVolume':{'name':'v','kind':'empty'}}]"),
                         NULL},
                        {ONE_APP("'mounts':[{'volume':'v','mountPoint':'x'}]"),
                         "apps[0].mounts[0]: has no path yet (and 1 more)"},
                        {ONE_APP("'app':{'user':'0','group':'0','mountPoints':[{'name':'m','path':'/m'}]}"),
                         "apps[0].app.mountPoints[0]: no volume is mounted on mount point \"m\""},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(pod_manifest_freep) PodManifest *m = NULL;
                _cleanup_error_ Error e = {};

                ASSERT_OK(parse(cases[i].text, &m, NULL, NULL));
                ASSERT_EQ(pod_manifest_check_reified(m, &e), cases[i].message ? -EINVAL : 0);
                if (cases[i].message)
                        ASSERT_CONTAINS(e.message, cases[i].message);
                else
                        ASSERT_NULL(e.message);
        }
}

/* --- 0.5.2 --------------------------------------------------------------------------------------------- */

TEST(mounts_by_name)
{
        static const char text[] =
                        START("0.5.2") "{'name':'backup'," IMAGE ",'mounts':[{'volume':'work',"
                                       "'mountPoint':'backup'}],"
                                       "'app':{'exec':['/bin/backup'],'user':'0','group':'0','mountPoints':["
                                       "{'name':'other','path':'/o'},{'name':'backup','path':'/mnt/bar'}],"
                                       "'isolators':[{'name':'resource/cpu','value':{'limit':'500'}}]}}],"
                                       "'volumes':[{'name':'work','kind':'host','source':'/opt/work',"
                                       "'readOnly':true}]}";
        _cleanup_(pod_manifest_freep) PodManifest *m = NULL, *again = NULL;
        _cleanup_free_ char *formatted = NULL;
        _cleanup_error_ Error e = {};

        if (parse(text, &m, NULL, &e) < 0)
                TEST_FAIL("%s", e.message);
        ASSERT_STREQ(m->apps[0]->mounts[0].path, "/mnt/bar");
        ASSERT_EQ(m->apps[0]->app->isolators.items[0].limit, 500);
        formatted = format(m);
        ASSERT_NOT_NULL(formatted);
        ASSERT_CONTAINS(formatted, "'path': '/mnt/bar'\n        }\n      ]");
        ASSERT_OK(parse(formatted, &again, NULL, &e));
        ASSERT_EQ(again->apps[0]->app->isolators.items[0].limit, 500);
}

TEST(mounts_by_name_of_the_image)
{
        _cleanup_(pod_manifest_freep) PodManifest *m = NULL, *again = NULL;
        _cleanup_free_ char *formatted = NULL;
        _cleanup_error_ Error e = {};
        MountPoint points[] = {{(char *) "work", (char *) "/srv/work", false}};
        App app = {.mount_points = points, .n_mount_points = 1};

        ASSERT_OK(parse(ONE_APP("'mounts':[{'volume':'v','mountPoint':'work'},{'volume':'v','path':'/x'}]"),
                        &m, NULL, NULL));
        ASSERT_STREQ(m->apps[0]->mounts[0].path, "work");
        formatted = format(m);
        ASSERT_NOT_NULL(formatted);
        ASSERT_CONTAINS(formatted, "'mountPoint': 'work'");
        ASSERT_OK(parse(formatted, &again, NULL, NULL));
        ASSERT_STREQ(again->apps[0]->mounts[0].path, "work");
        ASSERT_ERR(pod_app_resolve_mounts(m->apps[0], NULL, &e), -ENOENT);
        ASSERT_STREQ(e.message, "App a has no mount point \"work\", which mounts[0] refers to");
        ASSERT_OK(pod_app_resolve_mounts(m->apps[0], &app, NULL));
        ASSERT_STREQ(m->apps[0]->mounts[0].path, "/srv/work");
        ASSERT_STREQ(m->apps[0]->mounts[1].path, "/x");
        points[0].name = (char *) "else";
        ASSERT_ERR(pod_app_resolve_mounts(again->apps[0], &app, NULL), -ENOENT);
}

/* --- Examples ------------------------------------------------------------------------------------------ */

static void example(const char *name, size_t n_apps, int reified, const char *message)
{
        _cleanup_free_ char *text = spec_example(name), *formatted = NULL, *again = NULL;
        _cleanup_(pod_manifest_freep) PodManifest *m = NULL, *m2 = NULL;
        _cleanup_error_ Error e = {};

        if (!text)
                TEST_SKIP("the package appc-spec is not installed");
        if (parse(text, &m, NULL, &e) < 0)
                TEST_FAIL("%s", e.message);
        ASSERT_EQ(m->n_apps, n_apps);
        ASSERT_ERR(pod_manifest_check_reified(m, &e), reified);
        if (message)
                ASSERT_CONTAINS(e.message, message);
        formatted = format(m);
        ASSERT_NOT_NULL(formatted);
        ASSERT_OK(parse(formatted, &m2, NULL, NULL));
        again = format(m2);
        ASSERT_NOT_NULL(again);
        ASSERT_STREQ(again, formatted);
}

TEST(example_runtime)
{
        example("pod_runtime.json", 3, 0, NULL);
}

TEST(example_template)
{
        example("pod_template.json", 3, -EINVAL,
                "apps[1].image.id: is required to run the pod, but missing (and 1 more)");
}

int main(void)
{
        RUN(complete_fields);
        RUN(complete_round_trip);
        RUN(built_by_hand);
        RUN(tolerated);
        RUN(image_id_in_lower_case);
        RUN(findings);
        RUN(reified);
        RUN(mounts_by_name);
        RUN(mounts_by_name_of_the_image);
        RUN(example_runtime);
        RUN(example_template);
        return TEST_END();
}
