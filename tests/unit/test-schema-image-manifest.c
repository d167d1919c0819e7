/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Image manifests: parsed, formatted, copied. Invalid ones are in test-schema-findings.c. */

#include "tests/unit/schema.h"

/* JSON in the texts here has single quotes. */
static int parse(const char *json, ImageManifest **ret, Findings *f, Error *e)
{
        _cleanup_free_ char *text = json_text(json);

        return image_manifest_parse(text, strlen(text), ret, f, e);
}

/* The result of format(), with single quotes as well. */
static char *format(const ImageManifest *m)
{
        char *text;

        return image_manifest_format(m, &text) < 0 ? NULL : single_quoted(text);
}

#define START "{'acKind':'ImageManifest','acVersion':'0.8.11','name':'example.com/x'"
#define APP(members) START ",'app':{'user':'0','group':'0'," members "}}"

/* Everything an image manifest can have, in canonical form. */
static const char complete[] = "{\n"
                               "  'acKind': 'ImageManifest',\n"
                               "  'acVersion': '0.8.11',\n"
                               "  'name': 'example.com/worker',\n"
                               "  'labels': [\n"
                               "    {\n"
                               "      'name': 'version',\n"
                               "      'value': '1.0.0'\n"
                               "    },\n"
                               "    {\n"
                               "      'name': 'os',\n"
                               "      'value': 'linux'\n"
                               "    },\n"
                               "    {\n"
                               "      'name': 'arch',\n"
                               "      'value': 'amd64'\n"
                               "    }\n"
                               "  ],\n"
                               "  'app': {\n"
                               "    'exec': [\n"
                               "      '/bin/worker',\n"
                               "      '',\n"
                               "      'a\\nb \\\\ %n $x \xc3\xa9 \\u001b'\n"
                               "    ],\n"
                               "    'user': '100',\n"
                               "    'group': '/bin/worker',\n"
                               "    'supplementaryGIDs': [\n"
                               "      400,\n"
                               "      0\n"
                               "    ],\n"
                               "    'eventHandlers': [\n"
                               "      {\n"
                               "        'exec': [\n"
                               "          '/bin/pre'\n"
                               "        ],\n"
                               "        'name': 'pre-start'\n"
                               "      },\n"
                               "      {\n"
                               "        'exec': [\n"
                               "          '/bin/post',\n"
                               "          '-v'\n"
                               "        ],\n"
                               "        'name': 'post-stop'\n"
                               "      }\n"
                               "    ],\n"
                               "    'workingDirectory': '/opt/work',\n"
                               "    'environment': [\n"
                               "      {\n"
                               "        'name': 'DEBUG',\n"
                               "        'value': ''\n"
                               "      }\n"
                               "    ],\n"
                               "    'isolators': [\n"
                               "      {\n"
                               "        'name': 'resource/memory',\n"
                               "        'value': {\n"
                               "          'limit': '1G'\n"
                               "        }\n"
                               "      },\n"
                               "      {\n"
                               "        'name': 'example.com/own',\n"
                               "        'value': [\n"
                               "          1,\n"
                               "          2.50,\n"
                               "          null,\n"
                               "          {},\n"
                               "          []\n"
                               "        ]\n"
                               "      },\n"
                               "      {\n"
                               "        'name': 'example.com/null',\n"
                               "        'value': null\n"
                               "      }\n"
                               "    ],\n"
                               "    'mountPoints': [\n"
                               "      {\n"
                               "        'name': 'work',\n"
                               "        'path': '/var/lib/work'\n"
                               "      },\n"
                               "      {\n"
                               "        'name': 'conf',\n"
                               "        'path': '/etc/conf',\n"
                               "        'readOnly': true\n"
                               "      }\n"
                               "    ],\n"
                               "    'ports': [\n"
                               "      {\n"
                               "        'name': 'health',\n"
                               "        'protocol': 'tcp',\n"
                               "        'port': 4000,\n"
                               "        'socketActivated': true\n"
                               "      },\n"
                               "      {\n"
                               "        'name': 'ftp-data',\n"
                               "        'protocol': 'tcp',\n"
                               "        'port': 20000,\n"
                               "        'count': 1000\n"
                               "      }\n"
                               "    ],\n"
                               "    'userAnnotations': {\n"
                               "      'Any Key': 'v'\n"
                               "    },\n"
                               "    'userLabels': {\n"
                               "      'k': ''\n"
                               "    }\n"
                               "  },\n"
                               "  'dependencies': [\n"
                               "    {\n"
                               "      'imageName': 'example.com/base',\n"
                               "      'imageID': '" ID "',\n"
                               "      'labels': [\n"
                               "        {\n"
                               "          'name': 'env',\n"
                               "          'value': 'canary'\n"
                               "        }\n"
                               "      ],\n"
                               "      'size': 22017258\n"
                               "    }\n"
                               "  ],\n"
                               "  'pathWhitelist': [\n"
                               "    '/etc/ca.crt',\n"
                               "    '/etc/systemd/system/'\n"
                               "  ],\n"
                               "  'annotations': [\n"
                               "    {\n"
                               "      'name': 'created',\n"
                               "      'value': '2014-10-27T19:32:27.67021798Z'\n"
                               "    },\n"
                               "    {\n"
                               "      'name': 'homepage',\n"
                               "      'value': 'https://example.com'\n"
                               "    }\n"
                               "  ]\n"
                               "}\n";

TEST(complete_fields)
{
        _cleanup_(image_manifest_freep) ImageManifest *m = NULL;
        _cleanup_error_ Error e = {};

        if (parse(complete, &m, NULL, &e) < 0)
                TEST_FAIL("%s", e.message);
        ASSERT_STREQ(m->ac_version, "0.8.11");
        ASSERT_STREQ(m->name, "example.com/worker");
        ASSERT_STREQ(pair_list_get(&m->labels, "arch"), "amd64");
        ASSERT_EQ(m->n_dependencies, 1);
        ASSERT_STREQ(m->dependencies[0].image_id, ID);
        ASSERT_TRUE(m->dependencies[0].has_size);
        ASSERT_EQ(m->dependencies[0].size, 22017258);
        ASSERT_STREQ(pair_list_get(&m->dependencies[0].labels, "env"), "canary");
        ASSERT_EQ(strv_length(m->path_whitelist), 2);
        ASSERT_STREQ(m->path_whitelist[1], "/etc/systemd/system/");
        ASSERT_EQ(m->annotations.n, 2);
}

/* As the reference implementation takes them. */
TEST(relative_paths_in_whitelists)
{
        static const char text[] = START ",'pathWhitelist':['/a','b/c','./d']}";
        _cleanup_(image_manifest_freep) ImageManifest *m = NULL;
        _cleanup_findings_ Findings f = {};
        _cleanup_error_ Error e = {};

        if (parse(text, &m, &f, &e) < 0)
                TEST_FAIL("%s", e.message);
        ASSERT_EQ(strv_length(m->path_whitelist), 3);
        ASSERT_STREQ(m->path_whitelist[1], "b/c"); /* as it is written */
        ASSERT_EQ(f.n, 0);
        ASSERT_EQ(f.n_warnings, 2);
        ASSERT_STREQ(f.warnings[0].path, "pathWhitelist[1]");
        ASSERT_CONTAINS(f.warnings[0].message, "is not an absolute path");
}

TEST(complete_app)
{
        _cleanup_(image_manifest_freep) ImageManifest *m = NULL;

        ASSERT_OK(parse(complete, &m, NULL, NULL));
        const App *a = m->app;
        ASSERT_EQ(strv_length(a->exec), 3);
        ASSERT_STREQ(a->exec[2], "a\nb \\ %n $x \xc3\xa9 \x1b");
        ASSERT_STREQ(a->user, "100");
        ASSERT_STREQ(a->group, "/bin/worker");
        ASSERT_EQ(a->n_supplementary_gids, 2);
        ASSERT_EQ(a->supplementary_gids[0], 400);
        ASSERT_STREQ(a->pre_start[0], "/bin/pre");
        ASSERT_STREQ(a->post_stop[1], "-v");
        ASSERT_STREQ(a->working_directory, "/opt/work");
        ASSERT_STREQ(pair_list_get(&a->environment, "DEBUG"), "");
        ASSERT_EQ(a->isolators.n, 3);
        ASSERT_EQ(a->isolators.items[0].limit, 1000000000);
        ASSERT_EQ(a->isolators.items[1].type, ISOLATOR_UNKNOWN);
        ASSERT_EQ(a->n_mount_points, 2);
        ASSERT_FALSE(a->mount_points[0].read_only);
        ASSERT_TRUE(a->mount_points[1].read_only);
        ASSERT_EQ(a->n_ports, 2);
        ASSERT_EQ(a->ports[0].count, 1);
        ASSERT_TRUE(a->ports[0].socket_activated);
        ASSERT_EQ(a->ports[1].count, 1000);
        ASSERT_STREQ(pair_list_get(&a->user_annotations, "Any Key"), "v");
        ASSERT_STREQ(pair_list_get(&a->user_labels, "k"), "");
}

TEST(complete_round_trip)
{
        _cleanup_(image_manifest_freep) ImageManifest *m = NULL;
        _cleanup_free_ char *text = NULL;

        ASSERT_OK(parse(complete, &m, NULL, NULL));
        text = format(m);
        ASSERT_NOT_NULL(text);
        ASSERT_STREQ(text, complete);
}

TEST(copied_app)
{
        _cleanup_(image_manifest_freep) ImageManifest *m = NULL;
        _cleanup_free_ char *text = NULL;
        App *copy = NULL, *original;

        ASSERT_OK(parse(complete, &m, NULL, NULL));
        ASSERT_OK(app_copy(m->app, &copy));
        ASSERT_EQ(copy->isolators.items[0].type, ISOLATOR_RESOURCE_MEMORY);
        ASSERT_EQ(copy->isolators.items[0].limit, 1000000000);
        ASSERT_TRUE(copy->isolators.items[0].value != m->app->isolators.items[0].value);
        original = m->app;
        m->app = copy;
        app_free(original);
        text = format(m);
        ASSERT_NOT_NULL(text);
        ASSERT_STREQ(text, complete);
}

/* Bytes that are not UTF-8 are possible only from command lines; a copy keeps them, the JSON text cannot. */
TEST(bytes_of_a_command_line)
{
        _cleanup_(image_manifest_freep) ImageManifest *m = NULL;
        _cleanup_(app_freep) App *copy = NULL;
        _cleanup_free_ char *text = NULL;

        ASSERT_OK(parse(APP("'exec':['/a'],'userLabels':{'k':'v'}"), &m, NULL, NULL));
        ASSERT_OK(strv_extend(&m->app->exec, "x\xffy"));
        ASSERT_OK(pair_list_set(&m->app->environment, "E", "\xff"));
        ASSERT_OK(pair_list_set(&m->app->user_labels, "\xfe", "\xff"));
        ASSERT_OK(app_copy(m->app, &copy));
        ASSERT_STREQ(copy->exec[1], "x\xffy");
        text = format(m);
        ASSERT_NOT_NULL(text);
        ASSERT_CONTAINS(text, "'x\xef\xbf\xbdy'");
        ASSERT_CONTAINS(text, "'\xef\xbf\xbd': '\xef\xbf\xbd'");
        ASSERT_TRUE(utf8_is_valid(text, strlen(text)));
}

TEST(smallest)
{
        _cleanup_(image_manifest_freep) ImageManifest *m = NULL;
        _cleanup_free_ char *text = NULL;

        ASSERT_OK(parse(START "}", &m, NULL, NULL));
        ASSERT_NULL(m->app);
        text = format(m);
        ASSERT_NOT_NULL(text);
        ASSERT_STREQ(text, "{\n  'acKind': 'ImageManifest',\n  'acVersion': '0.8.11',\n  'name': "
                           "'example.com/x'\n}\n");
}

/* Forms that the specification does not allow, but real documents contain. */
TEST(tolerated)
{
        static const char *const texts[] = {
                        START ",'labels':null,'app':null,'dependencies':null,'annotations':null,"
                              "'pathWhitelist':null}",
                        START ",'labels':[],'pathWhitelist':[],'unknownField':{'a':[1]}}",
                        APP("'exec':null"),
                        APP("'exec':[]"),
                        APP("'workingDirectory':''"),
                        APP("'supplementaryGids':[1]"),
                        APP("'EXEC':['/a'],'EventHandlers':[]"),
                        APP("'eventHandlers':[{'name':'pre-start'}]"),
                        APP("'ports':[{'name':'a','protocol':'tcp','port':1,'count':0}]"),
                        APP("'ports':[{'name':'a','protocol':'tcp','port':65535},{'name':'a','protocol':'"
                            "udp',"
                            "'port':1,'count':65535}]"),
                        START ",'labels':[{'name':'arch','value':'anything'}]}",
                        START ",'labels':[{'name':'os','value':'darwin'},{'name':'arch','value':'x86_64'}]}",
                        START ",'annotations':[{'name':'a.b/c','value':''},{'name':'homepage',"
                              "'value':'HTTP://example.com'}]}",
        };

        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                _cleanup_(image_manifest_freep) ImageManifest *m = NULL;
                _cleanup_error_ Error e = {};

                if (parse(texts[i], &m, NULL, &e) < 0)
                        TEST_FAIL("%s: %s", texts[i], e.message);
                ASSERT_NOT_NULL(m);
        }
}

TEST(normalized)
{
        _cleanup_(image_manifest_freep) ImageManifest *m = NULL;

        ASSERT_OK(parse(APP("'SupplementaryGids':[7],'mountPoints':[{'name':'a','path':'data//x/'},"
                            "{'name':'b','path':'/./b'}]"),
                        &m, NULL, NULL));
        ASSERT_STREQ(m->app->mount_points[0].path, "/data/x");
        ASSERT_STREQ(m->app->mount_points[1].path, "/b");
        ASSERT_EQ(m->app->supplementary_gids[0], 7);
}

/* The specification's example has "sha512-..." where the digest of a dependency would be. */
TEST(example_of_the_specification)
{
        _cleanup_free_ char *text = spec_example("image.json"), *whole = NULL, *formatted = NULL,
                            *again = NULL, *found = NULL;
        _cleanup_(image_manifest_freep) ImageManifest *m = NULL, *m2 = NULL;
        _cleanup_findings_ Findings f = {};

        if (!text)
                TEST_SKIP("the package appc-spec is not installed");
        ASSERT_ERR(parse(text, &m, &f, NULL), -EINVAL);
        found = findings_text(&f);
        ASSERT_EQ(f.n, 1);
        ASSERT_CONTAINS(found, "dependencies[0].imageID: \"sha512-...\" is not an image ID");
        whole = replace(text, "sha512-...", ID);
        ASSERT_OK(parse(whole, &m, NULL, NULL));
        ASSERT_STREQ(m->name, "example.com/reduce-worker");
        ASSERT_EQ(m->app->isolators.n, 5);
        ASSERT_EQ(m->app->isolators.items[0].limit, 20);
        ASSERT_STREQ(m->app->isolators.items[4].errno_name, "EACCESS");
        formatted = format(m);
        ASSERT_NOT_NULL(formatted);
        ASSERT_OK(parse(formatted, &m2, NULL, NULL));
        again = format(m2);
        ASSERT_NOT_NULL(again);
        ASSERT_STREQ(again, formatted);
}

/* Every document that is written can be parsed again. */
TEST(too_much_to_write)
{
        _cleanup_(image_manifest_freep) ImageManifest *m = NULL;
        _cleanup_free_ char *big = malloc(MANIFEST_SIZE_MAX + 1), *written = NULL;

        ASSERT_NOT_NULL(big);
        memset(big, 'x', MANIFEST_SIZE_MAX);
        big[MANIFEST_SIZE_MAX] = 0;
        ASSERT_OK(parse(START "}", &m, NULL, NULL));
        ASSERT_OK(pair_list_set(&m->annotations, "big", big));
        ASSERT_ERR(image_manifest_format(m, &written), -EFBIG);
        ASSERT_NULL(written);
        big[MANIFEST_SIZE_MAX / 2] = 0;
        ASSERT_OK(pair_list_set(&m->annotations, "big", big));
        ASSERT_OK(image_manifest_format(m, &written));
}

int main(void)
{
        RUN(complete_fields);
        RUN(relative_paths_in_whitelists);
        RUN(complete_app);
        RUN(complete_round_trip);
        RUN(copied_app);
        RUN(bytes_of_a_command_line);
        RUN(smallest);
        RUN(tolerated);
        RUN(normalized);
        RUN(too_much_to_write);
        RUN(example_of_the_specification);
        return TEST_END();
}
