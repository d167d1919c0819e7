/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Findings in invalid image manifests: their paths and messages. Findings in pod manifests are tested with
 * pod manifests, those in isolators with isolators. */

#include "tests/unit/schema.h"

/* JSON in the texts here has single quotes. */
static int parse(const char *json, ImageManifest **ret, Findings *f, Error *e)
{
        _cleanup_free_ char *text = json_text(json);

        return image_manifest_parse(text, strlen(text), ret, f, e);
}

#define START "{'acKind':'ImageManifest','acVersion':'0.8.11','name':'example.com/x'"
#define APP(members) START ",'app':{'user':'0','group':'0'," members "}}"

/* One thing wrong each: where, and what is said. */
static const struct {
        const char *text, *path, *message;
} faults[] = {
                {"[]", "", "must be an object, not a list"},
                {"null", "", "must be an object, not null"},
                {"{'acVersion':'0.8.11','name':'x'}", "acKind", "is required, but missing"},
                {"{'acKind':'PodManifest','acVersion':'0.8.11','name':'x'}", "acKind",
                 "must be \"ImageManifest\", not \"PodManifest\""},
                {"{'acKind':'ImageManifest','name':'x'}", "acVersion", "is required, but missing"},
                {"{'acKind':'ImageManifest','acVersion':8,'name':'x'}", "acVersion",
                 "must be a string, not a number"},
                {"{'acKind':'ImageManifest','acVersion':'0.8','name':'x'}", "acVersion",
                 "\"0.8\" is not a version"},
                {"{'acKind':'ImageManifest','acVersion':'0.8.11'}", "name", "is required, but missing"},
                {"{'acKind':'ImageManifest','acVersion':'0.8.11','name':null}", "name",
                 "is required, but missing"},
                {"{'acKind':'ImageManifest','acVersion':'0.8.11','name':'X'}", "name",
                 "is not an AC Identifier"},
                {START ",'Name':'y'}", "Name", "is given twice, in two spellings"},
                {START ",'labels':{}}", "labels", "must be a list, not an object"},
                {START ",'labels':[{'name':'name','value':'x'}]}", "labels[0].name",
                 "\"name\" is not a valid name of a label"},
                {START ",'labels':[{'name':'a','value':'x'},{'name':'a','value':'x'}]}", "labels[1].name",
                 "\"a\" appears twice"},
                {START ",'labels':[{'name':'os','value':'linux'},{'name':'arch','value':'arm64'}]}",
                 "labels[1].value", "\"arm64\" is not known; it must be one of amd64 i386 aarch64"},
                {START ",'labels':[{'name':'os','value':'OS/360'}]}", "labels[0].value",
                 "\"OS/360\" is not known; it must be one of linux, freebsd, darwin"},
                {START ",'labels':[{'name':'os','value':'linux'},{'name':'arch','value':''}]}",
                 "labels[1].value", "\"\" is not known"},
                {START ",'labels':[{'name':'a'}]}", "labels[0].value", "is required, but missing"},
                {START ",'annotations':[{'name':'created','value':'today'}]}", "annotations[0].value",
                 "\"today\" is not a time as in"},
                {START ",'annotations':[{'name':'homepage','value':'ftp://example.com'}]}",
                 "annotations[0].value", "is not a URL"},
                {START ",'annotations':[{'name':'documentation','value':'http://'}]}",
                 "annotations[0].value", "is not a URL"},
                {START ",'annotations':[{'name':'documentation','value':'http://a b'}]}",
                 "annotations[0].value", "is not a URL"},
                {START ",'annotations':[{'name':'A','value':''}]}", "annotations[0].name",
                 "\"A\" is not an AC Identifier"},
                {START ",'dependencies':[{'imageID':'" ID "'}]}", "dependencies[0].imageName",
                 "is required, but missing"},
                {START ",'dependencies':[{'imageName':'x','imageID':'sha512-...'}]}",
                 "dependencies[0].imageID", "is not an image ID"},
                {START ",'dependencies':[{'imageName':'x','imageID':'sha512-/../../../etc'}]}",
                 "dependencies[0].imageID", "is not an image ID"},
                {START ",'dependencies':[{'imageName':'x','size':-1}]}", "dependencies[0].size",
                 "must be a number from 0 to"},
                {START ",'dependencies':[{'imageName':'x','size':18446744073709551615}]}",
                 "dependencies[0].size", "must be a number from 0 to"},
                {START ",'dependencies':[{'imageName':'x','size':1.5}]}", "dependencies[0].size",
                 "must be a whole number, not a fraction"},
                {START ",'pathWhitelist':['/a','']}", "pathWhitelist[1]", "\"\" is not a path"},
                {START ",'pathWhitelist':['b/../c']}", "pathWhitelist[0]", "must not contain \"..\""},
                {START ",'pathWhitelist':['/a/../b']}", "pathWhitelist[0]", "must not contain \"..\""},
                {START ",'pathWhitelist':'/a'}", "pathWhitelist", "must be a list of strings, not a string"},
                {START ",'app':{'group':'0'}}", "app.user", "is required, but missing"},
                {START ",'app':{'user':'','group':'0'}}", "app.user", "must not be empty"},
                {START ",'app':{'user':0,'group':'0'}}", "app.user", "must be a string, not a number"},
                {START ",'app':{'user':'0'}}", "app.group", "is required, but missing"},
                {START ",'app':[]}", "app", "must be an object, not a list"},
                {APP("'exec':'/bin/sh'"), "app.exec", "must be a list of strings, not a string"},
                {APP("'exec':['/bin/sh',1]"), "app.exec[1]", "must be a string, not a number"},
                {APP("'supplementaryGIDs':[-1]"), "app.supplementaryGIDs[0]",
                 "must be a number from 0 to 4294967294"},
                {APP("'supplementaryGIDs':[4294967295]"), "app.supplementaryGIDs[0]",
                 "must be a number from 0 to"},
                {APP("'supplementaryGIDs':['0']"), "app.supplementaryGIDs[0]",
                 "must be a whole number, not a string"},
                {APP("'eventHandlers':{}"), "app.eventHandlers", "must be a list, not an object"},
                {APP("'eventHandlers':[{'name':'start','exec':[]}]"), "app.eventHandlers[0].name",
                 "\"start\" is not an event"},
                {APP("'eventHandlers':[{'exec':['/a']}]"), "app.eventHandlers[0].name",
                 "is required, but missing"},
                {APP("'eventHandlers':[{'name':'pre-start'},{'name':'pre-start'}]"), "app.eventHandlers[1]",
                 "there is already a handler for pre-start"},
                {APP("'workingDirectory':'opt'"), "app.workingDirectory", "\"opt\" is not an absolute path"},
                {APP("'environment':[{'name':'A=','value':''}]"), "app.environment[0].name",
                 "\"A=\" is not the name of an environment variable"},
                {APP("'environment':[{'name':'A','value':''},{'name':'B','value':''},{'name':'A','value':''}"
                     "]"),
                 "app.environment[2].name", "\"A\" appears twice"},
                {APP("'environment':[{'name':'A','value':1}]"), "app.environment[0].value",
                 "must be a string, not a number"},
                {APP("'mountPoints':[{'name':'a','path':''}]"), "app.mountPoints[0].path",
                 "must not be empty"},
                {APP("'mountPoints':[{'name':'a','path':'/a/../../etc'}]"), "app.mountPoints[0].path",
                 "must not contain \"..\""},
                {APP("'mountPoints':[{'name':'a/b','path':'/a'}]"), "app.mountPoints[0].name",
                 "\"a/b\" is not an AC Name"},
                {APP("'mountPoints':[{'name':'a','path':'/a','readOnly':'yes'}]"),
                 "app.mountPoints[0].readOnly", "must be true or false, not a string"},
                {APP("'ports':[{'name':'a','protocol':'tcp','port':0}]"), "app.ports[0].port",
                 "must be a number from 1 to 65535"},
                {APP("'ports':[{'name':'a','protocol':'tcp','port':65536}]"), "app.ports[0].port",
                 "must be a number from 1 to 65535"},
                {APP("'ports':[{'name':'a','protocol':'tcp','port':4294967297}]"), "app.ports[0].port",
                 "must be a number from 1 to 65535"},
                {APP("'ports':[{'name':'a','protocol':'tcp','port':65535,'count':2}]"), "app.ports[0].count",
                 "the range of 2 ports from 65535 on ends beyond 65535"},
                {APP("'ports':[{'name':'a','protocol':'','port':1}]"), "app.ports[0].protocol",
                 "must not be empty"},
                {APP("'userAnnotations':{'a b':1}"), "app.userAnnotations[\"a b\"]",
                 "must be a string, not a number"},
                {APP("'userLabels':{'k':null}"), "app.userLabels.k", "must be a string, not null"},
};

TEST(findings)
{
        for (size_t i = 0; i < ELEMENTSOF(faults); i++)
                ASSERT_ONE_FINDING(image_manifest, "image manifest", faults[i]);
}

TEST(all_findings_at_once)
{
        static const char text[] = "{'acKind':'ImageManifest','name':'X','app':{'exec':[1],'isolators':["
                                   "{'name':'resource/memory','value':{'limit':'x','default':1}}]},"
                                   "'labels':[1]}";
        _cleanup_(image_manifest_freep) ImageManifest *m = NULL;
        _cleanup_findings_ Findings f = {};
        _cleanup_free_ char *found = NULL;
        _cleanup_error_ Error e = {};

        /* Previous findings of the caller stay, and are not part of the error. */
        f.items = calloc(1, sizeof(Finding));
        f.items[0] = (Finding){strdup("before"), strdup("x")};
        f.n = f.allocated = 1;
        ASSERT_ERR(parse(text, &m, &f, &e), -EINVAL);
        found = findings_text(&f);
        ASSERT_STREQ(found, "before: x\n"
                            "name: \"X\" is not an AC Identifier: it has characters other than lower case "
                            "letters, digits and \"-._~/\"\n"
                            "app.exec[0]: must be a string, not a number\n"
                            "app.isolators[0].value.limit: \"x\" is not a quantity as in 123Mi, 1G, 250m or "
                            "0.3\n"
                            "app.isolators[0].value.default: must be true or false, not a number\n"
                            "app.user: is required, but missing\n"
                            "app.group: is required, but missing\n"
                            "labels[0]: must be an object, not a number\n"
                            "acVersion: is required, but missing\n");
        ASSERT_CONTAINS(e.message, "Invalid image manifest: name: \"X\"");
        ASSERT_CONTAINS(e.message, "(and 7 more)");
}

TEST(findings_are_bounded)
{
        _cleanup_text_ Text t = {};
        _cleanup_(image_manifest_freep) ImageManifest *m = NULL;
        _cleanup_findings_ Findings f = {};

        text_add(&t, START ",'pathWhitelist':[0");
        for (int i = 0; i < 100000; i++)
                text_add(&t, ",0");
        text_add(&t, "]}");
        ASSERT_ERR(parse(t.data, &m, &f, NULL), -EINVAL);
        ASSERT_EQ(f.n, 257);
        ASSERT_STREQ(f.items[256].message, "there are more errors, which are not listed");
}

TEST(no_json)
{
        _cleanup_(image_manifest_freep) ImageManifest *m = NULL;
        _cleanup_findings_ Findings f = {};
        _cleanup_error_ Error e = {};

        ASSERT_ERR(parse("{\n  'acKind' ", &m, &f, &e), -EBADMSG);
        ASSERT_EQ(f.n, 1);
        ASSERT_STREQ(f.items[0].path, "line 2, column 12");
        ASSERT_CONTAINS(e.message, "Invalid image manifest: Invalid JSON: line 2, column 12: the text ends "
                                   "where ':' is expected");
}

/* A document with unknown keys is valid; a bounded number of them is reported as ignored. */
TEST(unknown_keys_are_warnings)
{
        _cleanup_(image_manifest_freep) ImageManifest *m = NULL, *many = NULL;
        _cleanup_findings_ Findings f = {}, of_many = {};
        _cleanup_text_ Text t = {};

        ASSERT_OK(parse(START ",'nonsense':1,'app':{'exec':['/x'],'user':'0','group':'0','isolator':[],"
                              "'mountPoints':[{'name':'a','path':'/a','read-only':true}]}}",
                        &m, &f, NULL));
        ASSERT_EQ(f.n, 0);
        ASSERT_EQ(f.n_warnings, 3);
        ASSERT_STREQ(f.warnings[0].path, "nonsense");
        ASSERT_STREQ(f.warnings[0].message, "is not in the specification, and is ignored");
        ASSERT_STREQ(f.warnings[1].path, "app.isolator");
        ASSERT_STREQ(f.warnings[2].path, "app.mountPoints[0].read-only");

        text_add(&t, START);
        for (int i = 0; i < 10000; i++)
                text_addf(&t, ",'x%d':0", i);
        text_add(&t, "}");
        ASSERT_OK(parse(t.data, &many, &of_many, NULL));
        ASSERT_EQ(of_many.n_warnings, 256);
}

int main(void)
{
        RUN(unknown_keys_are_warnings);
        RUN(findings);
        RUN(all_findings_at_once);
        RUN(findings_are_bounded);
        RUN(no_json);
        return TEST_END();
}
