/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Documents of OCI and Docker images: accepted ones, refused ones with the reason, and their conversion to
 * image manifests. */

#include "schema/oci.h"
#include "tests/unit/schema.h"
#include "tests/unit/test.h"

#define D1 "sha256:" HEX64
#define CONFIG_TYPE "application/vnd.oci.image.config.v1+json"
#define LAYER_TYPE "application/vnd.oci.image.layer.v1.tar+gzip"
#define DESCRIPTOR(type) "{'mediaType':'" type "','digest':'" D1 "','size':7}"
#define MANIFEST(config, layers) "{'schemaVersion':2,'config':" config ",'layers':[" layers "]}"
#define ROOTFS "'rootfs':{'type':'layers','diff_ids':['" D1 "']}"
#define CONFIG(inner) "{'os':'linux','architecture':'amd64','config':{" inner "}," ROOTFS "}"

TEST(digests)
{
        ASSERT_OK(oci_digest_check(D1, NULL));
        ASSERT_OK(oci_digest_check("sha512:" HEX64 HEX64, NULL));
        ASSERT_ERR(oci_digest_check(HEX64, NULL), -EINVAL);
        ASSERT_ERR(oci_digest_check("sha256:" HEX64 "0", NULL), -EINVAL);
        ASSERT_ERR(oci_digest_check("sha512:" HEX64, NULL), -EINVAL);
        ASSERT_ERR(oci_digest_check("sha256:../../../../../../../../../../../../../../../../../../../../../"
                                    "etc",
                                    NULL),
                   -EINVAL);
        ASSERT_ERR(oci_digest_check(
                                   "sha256:8D3FFFDDF79E9A232FFD19F9CCAA4D6B37A6A243DBE0F23137B108A043D9DA13",
                                   NULL),
                   -EINVAL);
        ASSERT_ERR(oci_digest_check("md5:d41d8cd98f00b204e9800998ecf8427e", NULL), -EINVAL);
}

/* --- What a document is -------------------------------------------------------------------------------- */

static int kind(const char *single, const char *media_type, OciKind *ret, Error *e)
{
        _cleanup_free_ char *text = json_text(single);

        error_done(e);
        return oci_document_kind(text, strlen(text), media_type, ret, e);
}

TEST(kinds_of_documents)
{
        _cleanup_error_ Error e = ERROR_NULL;
        OciKind k;

        ASSERT_OK(kind("{'schemaVersion':2,'manifests':[]}", NULL, &k, &e));
        ASSERT_EQ(k, OCI_KIND_INDEX);
        ASSERT_OK(kind(MANIFEST("{}", ""), "application/vnd.docker.distribution.manifest.v2+json", &k, &e));
        ASSERT_EQ(k, OCI_KIND_MANIFEST);
        ASSERT_OK(kind(MANIFEST("{}", ""), "application/json; charset=utf-8", &k, &e));
        /* CVE-2021-41190: a document that is both. */
        ASSERT_ERR(kind("{'schemaVersion':2,'manifests':[],'layers':[]}", NULL, &k, &e), -EINVAL);
        ASSERT_CONTAINS(e.message, "both an index and a manifest");
        ASSERT_ERR(kind(MANIFEST("{}", ""), "application/vnd.oci.image.index.v1+json", &k, &e), -EINVAL);
        ASSERT_CONTAINS(e.message, "its Content-Type says that it is an image index");
        ASSERT_ERR(kind("{'mediaType':'application/vnd.oci.image.manifest.v1+json','manifests':[]}", NULL,
                        &k, &e),
                   -EINVAL);
        ASSERT_CONTAINS(e.message, "its mediaType says");
        ASSERT_ERR(kind("{'schemaVersion':1,'fsLayers':[]}", NULL, &k, &e), -EPROTONOSUPPORT);
        ASSERT_CONTAINS(e.message, "schema 1");
        ASSERT_TRUE(e.hint != NULL);
        ASSERT_ERR(kind(MANIFEST("{}", ""), "application/vnd.docker.distribution.manifest.v1+prettyjws", &k,
                        &e),
                   -EPROTONOSUPPORT);
        ASSERT_ERR(kind(MANIFEST("{}", ""), "text/html", &k, &e), -EPROTONOSUPPORT);
        ASSERT_CONTAINS(e.message, "\"text/html\" is not an image manifest");
        ASSERT_ERR(kind("{}", NULL, &k, &e), -EINVAL);
        ASSERT_ERR(kind("[]", NULL, &k, &e), -EINVAL);
        ASSERT_ERR(kind("{'layers':[],'layers':[]}", NULL, &k, &e), -EBADMSG);
}

/* --- Index --------------------------------------------------------------------------------------------- */

#define ENTRY(platform) "{'mediaType':'m','digest':'" D1 "','size':1" platform "}"
#define FOR(os, arch) ",'platform':{'os':'" os "','architecture':'" arch "'}"
#define FOR_VARIANT(arch, variant)                                                                          \
        ",'platform':{'os':'linux','architecture':'" arch "','variant':'" variant "'}"

static int select_from(const char *entries, const char *arch, size_t *ret, Error *e)
{
        _cleanup_(oci_index_freep) OciIndex *i = NULL;
        _cleanup_free_ char *single = NULL, *text = NULL;
        const OciDescriptor *d;

        error_done(e);
        if (xasprintf(&single, "{'schemaVersion':2,'manifests':[%s]}", entries) < 0)
                return -ENOMEM;
        text = json_text(single);
        int r = oci_index_parse(text, strlen(text), &i, NULL, e);
        if (r >= 0)
                r = oci_index_select(i, "linux", arch, &d, e);
        if (r >= 0)
                *ret = (size_t) (d - i->manifests);
        return r;
}

TEST(choosing_from_an_index)
{
        static const char arms[] = ENTRY(FOR_VARIANT("arm", "v6")) "," ENTRY(FOR_VARIANT(
                        "arm", "v7")) "," ENTRY(FOR_VARIANT("arm64", "v8")) "," ENTRY(FOR("linux", "386"));
        _cleanup_error_ Error e = ERROR_NULL;
        size_t i = 99;

        ASSERT_OK(select_from(ENTRY(FOR("linux", "arm64")) "," ENTRY(FOR("linux", "amd64")), "amd64", &i,
                              &e));
        ASSERT_EQ(i, 1);
        ASSERT_OK(select_from(arms, "armv7l", &i, &e));
        ASSERT_EQ(i, 1);
        ASSERT_OK(select_from(arms, "armv6l", &i, &e));
        ASSERT_EQ(i, 0);
        ASSERT_OK(select_from(arms, "aarch64", &i, &e));
        ASSERT_EQ(i, 2);
        ASSERT_OK(select_from(arms, "amd64", &i, &e)); /* runs i386 if there is nothing better */
        ASSERT_EQ(i, 3);
        ASSERT_OK(select_from(ENTRY("") "," ENTRY(FOR("linux", "arm64")), "amd64", &i, &e));
        ASSERT_EQ(i, 0);
        /* A processor level that this machine is not known to support. */
        ASSERT_ERR(select_from(ENTRY(FOR_VARIANT("amd64", "v3")), "amd64", &i, &e), -ENOENT);
        ASSERT_CONTAINS(e.message, "linux/amd64/v3");
        ASSERT_ERR(select_from(ENTRY(FOR("linux", "arm64")) "," ENTRY(FOR("windows", "amd64")) "," ENTRY(
                                               FOR("unknown", "unknown")),
                               "amd64", &i, &e),
                   -ENOENT);
        ASSERT_STREQ(e.message,
                     "There is no image for this host (linux/amd64), only for: linux/arm64, windows/amd64");
        ASSERT_ERR(select_from("", "amd64", &i, &e), -ENOENT);
        ASSERT_ERR(select_from("{'mediaType':'m','digest':'sha256:..','size':-1}", "amd64", &i, &e),
                   -EINVAL);
        ASSERT_CONTAINS(e.message, "manifests[0].digest");
}

/* --- Manifest ------------------------------------------------------------------------------------------ */

static int manifest(const char *single, Error *e)
{
        _cleanup_(oci_manifest_freep) OciManifest *m = NULL;
        _cleanup_free_ char *text = json_text(single);

        error_done(e);
        int r = oci_manifest_parse(text, strlen(text), &m, NULL, e);
        return r < 0 ? r : oci_manifest_check_image(m, e);
}

TEST(manifests)
{
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_text_ Text many = {};

        ASSERT_OK(manifest(MANIFEST(DESCRIPTOR(CONFIG_TYPE), DESCRIPTOR(LAYER_TYPE)), &e));
        ASSERT_OK(manifest(MANIFEST(DESCRIPTOR("application/vnd.docker.container.image.v1+json"),
                                    DESCRIPTOR("application/vnd.docker.image.rootfs.diff.tar.gzip")),
                           &e));
        ASSERT_OK(manifest(MANIFEST(DESCRIPTOR(CONFIG_TYPE),
                                    DESCRIPTOR("application/vnd.oci.image.layer.nondistributable.v1.tar")),
                           &e));
        ASSERT_ERR(manifest(MANIFEST(DESCRIPTOR("application/vnd.cncf.helm.config.v1+json"), ""), &e),
                   -EPROTONOSUPPORT);
        ASSERT_CONTAINS(e.message, "an artifact of type \"application/vnd.cncf.helm.config.v1+json\"");
        ASSERT_ERR(manifest(MANIFEST(DESCRIPTOR(CONFIG_TYPE), DESCRIPTOR(LAYER_TYPE "+encrypted")), &e),
                   -EPROTONOSUPPORT);
        ASSERT_CONTAINS(e.message, "Layer 1 of the image is encrypted");
        ASSERT_ERR(manifest(MANIFEST(DESCRIPTOR(CONFIG_TYPE), DESCRIPTOR("text/plain")), &e),
                   -EPROTONOSUPPORT);
        ASSERT_ERR(manifest("{'schemaVersion':2,'layers':[]}", &e), -EINVAL);
        ASSERT_CONTAINS(e.message, "config: is required");
        ASSERT_ERR(manifest("{'schemaVersion':3,'layers':[],'config':" DESCRIPTOR(CONFIG_TYPE) "}", &e),
                   -EINVAL);
        ASSERT_ERR(manifest(MANIFEST(DESCRIPTOR(CONFIG_TYPE), "7"), &e), -EINVAL);
        ASSERT_CONTAINS(e.message, "layers[0]");
        ASSERT_ERR(manifest(MANIFEST("{'mediaType':'x','digest':'" D1 "','size':9223372036854775808}", ""),
                            &e),
                   -EINVAL);
        for (unsigned i = 0; i <= OCI_LAYERS_MAX; i++)
                text_addf(&many, "%s" DESCRIPTOR(LAYER_TYPE), i ? "," : "");
        char *single = NULL;
        ASSERT_OK(xasprintf(&single, MANIFEST(DESCRIPTOR(CONFIG_TYPE), "%s"), many.data));
        ASSERT_ERR(manifest(single, &e), -EINVAL);
        ASSERT_CONTAINS(e.message, "at most 400");
        free(single);
}

TEST(layout_files)
{
        ASSERT_OK(oci_layout_parse("{\"imageLayoutVersion\":\"1.0.0\"}", 30, NULL, NULL));
        ASSERT_ERR(oci_layout_parse("{\"imageLayoutVersion\":\"2.0.0\"}", 30, NULL, NULL), -EINVAL);
        ASSERT_ERR(oci_layout_parse("{}", 2, NULL, NULL), -EINVAL);
}

TEST(docker_archives)
{
        _cleanup_free_ char *text =
                        json_text("[{'Config':'x.json','RepoTags':null,'Layers':['a/layer.tar']},"
                                  "{'Config':'y.json','RepoTags':['a:1','b:2'],'Layers':null}]");
        _cleanup_(docker_archive_freep) DockerArchive *a = NULL, *b = NULL;

        ASSERT_OK(docker_archive_parse(text, strlen(text), &a, NULL, NULL));
        ASSERT_EQ(a->n_images, 2);
        ASSERT_STREQ(a->images[0].layers[0], "a/layer.tar");
        ASSERT_STREQ(a->images[1].repo_tags[1], "b:2");
        ASSERT_ERR(docker_archive_parse("[]", 2, &b, NULL, NULL), -EINVAL);
        ASSERT_ERR(docker_archive_parse("{}", 2, &b, NULL, NULL), -EINVAL);
        ASSERT_ERR(docker_archive_parse("[{}]", 4, &b, NULL, NULL), -EINVAL);
}

/* --- Config -------------------------------------------------------------------------------------------- */

static int convert_with(const char *single, Findings *findings, char **ret, Error *e)
{
        _cleanup_(image_manifest_freep) ImageManifest *m = NULL;
        _cleanup_(oci_config_freep) OciConfig *c = NULL;
        _cleanup_free_ char *text = json_text(single);

        error_done(e);
        int r = oci_config_parse(text, strlen(text), &c, findings, e);
        if (r >= 0)
                r = oci_config_to_image_manifest(c, "example.com/app", "1.0", &m, findings, e);
        if (r >= 0)
                r = image_manifest_format(m, ret);
        if (r >= 0)
                (void) single_quoted(*ret);
        return r;
}

static int convert(const char *single, char **ret, Error *e)
{
        return convert_with(single, NULL, ret, e);
}

TEST(a_config_as_an_image_manifest)
{
        static const char config[] =
                        "{'created':'2024-01-02T03:04:05.123456789Z','author':'Somebody',"
                        "'architecture':'arm','variant':'v6','os':'linux','config':{"
                        "'User':'www:staff','ExposedPorts':{'80/tcp':{},'80':{},'53/udp':{},'7000-7010':{}},"
                        "'Env':['PATH=/bin','A=1','NOTHING','A=2=3','E='],"
                        "'Entrypoint':['/bin/app'],'Cmd':['-x',''],'WorkingDir':'srv//app/',"
                        "'Volumes':{'/Var/lib':{},'/var/lib/':{},'/var.lib':{}},"
                        "'Labels':{'Com.Example.Name':'x','com.example.name':'y','homepage':'no "
                        "url','é':'z',"
                        "'org.opencontainers.image.stopSignal':'mine'},"
                        "'StopSignal':'SIGQUIT','Healthcheck':{'Test':['CMD','/x/y']}}," ROOTFS
                        ",'history':[{'created':'x'}]}";
        static const char expected[] =
                        "{\n  'acKind': 'ImageManifest',\n  'acVersion': '0.8.11',\n"
                        "  'name': 'example.com/app',\n  'labels': [\n"
                        "    {\n      'name': 'version',\n      'value': '1.0'\n    },\n"
                        "    {\n      'name': 'os',\n      'value': 'linux'\n    },\n"
                        "    {\n      'name': 'arch',\n      'value': 'armv6l'\n    }\n  ],\n"
                        "  'app': {\n    'exec': [\n      '/bin/app',\n      '-x',\n      ''\n    ],\n"
                        "    'user': 'www',\n    'group': 'staff',\n    'workingDirectory': '/srv/app',\n"
                        "    'environment': [\n"
                        "      {\n        'name': 'PATH',\n        'value': '/bin'\n      },\n"
                        "      {\n        'name': 'A',\n        'value': '2=3'\n      },\n"
                        "      {\n        'name': 'E',\n        'value': ''\n      }\n    ],\n"
                        "    'mountPoints': [\n"
                        "      {\n        'name': 'var-lib',\n        'path': '/Var/lib'\n      },\n"
                        "      {\n        'name': 'var-lib-2',\n        'path': '/var/lib'\n      },\n"
                        "      {\n        'name': 'var-lib-3',\n        'path': '/var.lib'\n      }\n    "
                        "],\n"
                        "    'ports': [\n"
                        "      {\n        'name': '80-tcp',\n        'protocol': 'tcp',\n        'port': "
                        "80\n"
                        "      },\n"
                        "      {\n        'name': '53-udp',\n        'protocol': 'udp',\n        'port': "
                        "53\n"
                        "      },\n"
                        "      {\n        'name': '7000-7010-tcp',\n        'protocol': 'tcp',\n"
                        "        'port': 7000,\n        'count': 11\n      }\n    ]\n  },\n"
                        "  'annotations': [\n"
                        "    {\n      'name': 'created',\n      'value': '2024-01-02T03:04:05.123456789Z'\n"
                        "    },\n"
                        "    {\n      'name': 'authors',\n      'value': 'Somebody'\n    },\n"
                        "    {\n      'name': 'org.opencontainers.image.stopsignal',\n"
                        "      'value': 'SIGQUIT'\n    },\n"
                        "    {\n      'name': 'org.opencontainers.image.healthcheck',\n"
                        "      'value': '{\\'Test\\':[\\'CMD\\',\\'/x/y\\']}'\n    },\n"
                        "    {\n      'name': 'com.example.name',\n      'value': 'x'\n    },\n"
                        "    {\n      'name': 'com.example.name-2',\n      'value': 'y'\n    },\n"
                        "    {\n      'name': 'label/homepage',\n      'value': 'no url'\n    },\n"
                        "    {\n      'name': 'label',\n      'value': 'z'\n    },\n"
                        "    {\n      'name': 'label/org.opencontainers.image.stopsignal',\n"
                        "      'value': 'mine'\n    },\n"
                        "    {\n      'name': 'acnspawn/oci-entrypoint-size',\n"
                        "      'value': '1'\n    }\n  ]\n}\n";
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_free_ char *got = NULL;

        int r = convert(config, &got, &e);
        if (r < 0)
                TEST_FAIL("%s", e.message);
        ASSERT_STREQ(got, expected);
}

/* Neither members for other runtimes, nor labels with acnspawn's names, become isolators, grants or
 * settings. */
TEST(nothing_of_a_config_is_a_right)
{
        static const char config[] =
                        "{'os':'linux','architecture':'amd64','Privileged':true,'isolators':[{'name':"
                        "'os/linux/capabilities-retain-set','value':{'set':['CAP_SYS_ADMIN']}}],'config':{"
                        "'Cmd':['x'],'Privileged':true,'CapAdd':['ALL'],'SecurityOpt':['seccomp=unconfined',"
                        "'apparmor=unconfined'],'Sysctls':{'net.ipv4.ip_forward':'1'},'OomScoreAdj':-1000,"
                        "'Devices':[{'PathOnHost':'/dev/mem'}],'isolators':[{'name':'os/linux/"
                        "oom-score-adj',"
                        "'value':-1000}],'Labels':{'acnspawn/grant':'all','acnspawn/restart':'always',"
                        "'appc.io/executor/supports-systemd-notify':'true'}}," ROOTFS "}";
        _cleanup_(image_manifest_freep) ImageManifest *m = NULL;
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_free_ char *got = NULL;

        ASSERT_OK(convert(config, &got, &e));
        for (char *c = got; *c; c++)
                *c = *c == '\'' ? '"' : *c;
        ASSERT_OK(image_manifest_parse(got, strlen(got), &m, NULL, NULL));
        ASSERT_EQ(m->app->isolators.n, 0);
        ASSERT_NULL(pair_list_get(&m->annotations, "acnspawn/grant"));
        ASSERT_NULL(pair_list_get(&m->annotations, "appc.io/executor/supports-systemd-notify"));
        ASSERT_STREQ(pair_list_get(&m->annotations, "label/acnspawn/grant"), "all");
        ASSERT_NULL(pair_list_get(&m->annotations, "acnspawn/restart"));
}

TEST(users)
{
        static const struct {
                const char *user, *expected;
        } cases[] = {
                        {"", "'user': '0',\n    'group': ':user'"},
                        {"app", "'user': 'app',\n    'group': ':user'"},
                        {"1000", "'user': '1000',\n    'group': ':user'"},
                        {"1000:1001", "'user': '1000',\n    'group': '1001'"},
                        {"app:", "'user': 'app',\n    'group': ':user'"},
                        {":5", "'user': '0',\n    'group': '5'"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_free_ char *single = NULL, *got = NULL;
                _cleanup_error_ Error e = ERROR_NULL;

                ASSERT_OK(xasprintf(&single, CONFIG("'User':'%s'"), cases[i].user));
                ASSERT_OK(convert(single, &got, &e));
                ASSERT_CONTAINS(got, cases[i].expected);
                ASSERT_TRUE(!strstr(got, "'exec'"));
        }
}

TEST(configs_that_are_refused)
{
        static const struct {
                const char *config, *why;
        } cases[] = {
                        {"{'config':{}}", "rootfs: is required"},
                        {"{'rootfs':{'type':'layers','diff_ids':['sha256:x']}}", "rootfs.diff_ids[0]"},
                        {"{'rootfs':{'type':'layers','diff_ids':{}}}", "rootfs.diff_ids: must be a list"},
                        {"{'os':7," ROOTFS "}", "os: must be a string"},
                        {"{'created':'yesterday'," ROOTFS "}", "created: \"yesterday\""},
                        {"{'architecture':'vax','os':'linux'," ROOTFS "}", "for \"linux/vax\""},
                        {"{'architecture':'amd64','os':'windows'," ROOTFS "}", "\"windows/amd64\""},
                        {CONFIG("'Cmd':'/bin/sh'"), "config.Cmd: must be a list of strings"},
                        {CONFIG("'Cmd':[1]"), "config.Cmd[0]"},
                        {CONFIG("'Entrypoint':{}"), "config.Entrypoint"},
                        {CONFIG("'Env':['A=\\u0000']"), "config.Env[0]: must not contain a NUL"},
                        {CONFIG("'Cmd':['\\u0000']"), "config.Cmd[0]: must not contain a NUL"},
                        {CONFIG("'User':'\\u0000'"), "config.User: must not contain a NUL"},
                        {CONFIG("'Labels':{'a\\u0000':''}"), "\\u0000 is not allowed in a key"},
                        {CONFIG("'Env':{}"), "config.Env"},
                        {CONFIG("'User':7"), "config.User"},
                        {CONFIG("'User':'/etc/passwd'"), "is neither \"user\" nor \"user:group\""},
                        {CONFIG("'User':'a:b:c'"), "is neither"},
                        {CONFIG("'User':'a\\nb'"), "is neither"},
                        {CONFIG("'ExposedPorts':['80']"), "config.ExposedPorts: must be an object"},
                        {CONFIG("'Labels':{'a':7}"), "config.Labels.a: must be a string"},
                        {CONFIG("'Labels':[]"), "config.Labels"},
                        {CONFIG("'Healthcheck':7"), "config.Healthcheck"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_error_ Error e = ERROR_NULL;
                _cleanup_free_ char *got = NULL;

                if (convert(cases[i].config, &got, &e) >= 0)
                        TEST_FAIL("accepted: %s", cases[i].config);
                ASSERT_CONTAINS(e.message, cases[i].why);
        }
}

/* As other engines: what cannot be used is left out, with a warning. */
TEST(odd_parts_of_configs)
{
        static const struct {
                const char *config, *without, *path, *why;
        } cases[] = {
                        {"{'rootfs':{'type':'zfs','diff_ids':[]}}", NULL, "rootfs.type", "not \"layers\""},
                        {"{'rootfs':{'diff_ids':[]}}", NULL, NULL, NULL},
                        {CONFIG("'Env':['=x']"), "environment", "config.Env", "\"=x\" has no valid name"},
                        {CONFIG("'Env':['A']"), "environment", "config.Env", "\"A\" has no \"=\""},
                        {CONFIG("'ExposedPorts':{'0/tcp':{}}"), "ports", "config.ExposedPorts", "\"0/tcp\""},
                        {CONFIG("'ExposedPorts':{'abc':{}}"), "ports", "config.ExposedPorts", "\"abc\""},
                        {CONFIG("'ExposedPorts':{'65536':{}}"), "ports", "config.ExposedPorts", "\"65536\""},
                        {CONFIG("'ExposedPorts':{'9-8':{}}"), "ports", "config.ExposedPorts", "\"9-8\""},
                        {CONFIG("'ExposedPorts':{'80/icmp':{}}"), "ports", "config.ExposedPorts", "icmp"},
                        {CONFIG("'Volumes':{'/':{}}"), "mountPoints", "config.Volumes", "\"/\""},
                        {CONFIG("'Volumes':{'/a/..':{}}"), "mountPoints", "config.Volumes", "\"/a/..\""},
                        {CONFIG("'Volumes':{'dev/':{}}"), "mountPoints", "config.Volumes", "\"dev/\""},
                        {CONFIG("'Volumes':{'/proc/x':{}}"), "mountPoints", "config.Volumes", "\"/proc/x\""},
                        {CONFIG("'Labels':{'a':'x\\u0000'}"), "\"a\"", "config.Labels.a", "NUL"},
                        {"{'history':[{'created_by':'\\u0000'}]," ROOTFS "}", NULL, NULL, NULL},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_findings_ Findings findings = {};
                _cleanup_free_ char *got = NULL;
                _cleanup_error_ Error e = ERROR_NULL;

                if (convert_with(cases[i].config, &findings, &got, &e) < 0)
                        TEST_FAIL("%s: %s", cases[i].config, e.message);
                ASSERT_EQ(findings.n, 0);
                ASSERT_EQ(findings.n_warnings, (size_t) (cases[i].path != NULL));
                if (cases[i].without && strstr(got, cases[i].without))
                        TEST_FAIL("%s: it has %s", cases[i].config, cases[i].without);
                if (!cases[i].path)
                        continue;
                ASSERT_STREQ(findings.warnings[0].path, cases[i].path);
                ASSERT_CONTAINS(findings.warnings[0].message, cases[i].why);
        }
}

TEST(paths_in_configs)
{
        static const char *const cases[][2] = {
                        {"/a/../../b", "/b"},
                        {"a//b/.", "/a/b"},
                        {"..", "/"},
                        {"/a/b/../c/", "/a/c"},
                        {".../..a", "/.../..a"},
                        {"/a/../../..//b", "/b"},
                        {"./", "/"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_free_ char *config = NULL, *got = NULL, *expected = NULL;
                _cleanup_error_ Error e = ERROR_NULL;

                ASSERT_OK(xasprintf(&config, CONFIG("'WorkingDir':'%s','Volumes':{'%s':{}}"), cases[i][0],
                                    cases[i][0]));
                ASSERT_OK(convert(config, &got, &e));
                ASSERT_OK(xasprintf(&expected, "'workingDirectory': '%s'", cases[i][1]));
                ASSERT_CONTAINS(got, expected);
                ASSERT_EQ(strstr(got, "mountPoints") != NULL, !streq(cases[i][1], "/"));
        }
}

/* Bounds, and that nothing takes long. */
TEST(huge_configs)
{
        static const struct {
                const char *key, *entry, *open, *close;
        } cases[] = {
                        {"ExposedPorts", "'%u':{}", "{", "}"},
                        {"Volumes", "'/a%u':{}", "{", "}"},
                        {"Labels", "'a%u':''", "{", "}"},
                        {"Env", "'A%u=x'", "[", "]"},
                        {"Cmd", "'%u'", "[", "]"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_free_ char *single = NULL, *got = NULL;
                _cleanup_error_ Error e = ERROR_NULL;
                _cleanup_text_ Text t = {};

                for (unsigned k = 0; k < 60000; k++) {
                        text_add(&t, k ? "," : "");
                        text_addf(&t, cases[i].entry, k + 1);
                }
                ASSERT_OK(xasprintf(&single, CONFIG("'%s':%s%s%s"), cases[i].key, cases[i].open, t.data,
                                    cases[i].close));
                int r = convert(single, &got, &e);
                if (streq(cases[i].key, "Cmd"))
                        ASSERT_OK(r);
                else
                        ASSERT_TRUE(r < 0);
        }
}

TEST(names_from_references)
{
        static const struct {
                const char *reference, *name, *version;
        } cases[] = {
                        {"example.org/library/nginx:1.25", "example.org/library/nginx", "1.25"},
                        {"localhost:5000/a/b", "localhost~5000/a/b", NULL},
                        {"localhost:5000/a/b:V1", "localhost~5000/a/b", "V1"},
                        {"example.com/app@" D1, "example.com/app", NULL},
                        {"example.com/app:2@" D1, "example.com/app", "2"},
                        {"App_1", "app_1", NULL},
                        {"//x//y/", "x/y", NULL},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_free_ char *name = NULL, *version = NULL;

                ASSERT_OK(oci_name_from_reference(cases[i].reference, &name, &version, NULL));
                ASSERT_STREQ(name, cases[i].name);
                ASSERT_TRUE(streq_ptr(version, cases[i].version));
        }
        char *name, *version;
        ASSERT_ERR(oci_name_from_reference("", &name, &version, NULL), -EINVAL);
        ASSERT_ERR(oci_name_from_reference("..", &name, &version, NULL), -EINVAL);
        ASSERT_ERR(oci_name_from_reference("a/../b", &name, &version, NULL), -EINVAL);
}

TEST(names_of_apps_from_references)
{
        static const char *const cases[][2] = {
                        {"example.org/library/nginx:1.25", "nginx"},
                        {"localhost:5000/Team/My_App", "my-app"},
                        {"example.com/app:2@" D1, "app"},
                        {"nginx", "nginx"},
        };
        _cleanup_free_ char *none = NULL;

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_free_ char *name = NULL;
                ASSERT_OK(oci_app_name_from_reference(cases[i][0], &name));
                ASSERT_STREQ(name, cases[i][1]);
        }
        ASSERT_ERR(oci_app_name_from_reference("..", &none), -EINVAL);
}

TEST(forms_of_references)
{
        static const char *const likely[] = {"nginx",
                                             "nginx:1.25",
                                             "library/nginx",
                                             "example.com/a/b:V1",
                                             "localhost:5000/x",
                                             "localhost:5000/x:1@" D1,
                                             "a_b/c-d.e"};
        static const char *const unlikely[] = {
                        "",    "Nginx:1",      "a,version=1", "./x",     "/x",
                        "x/",  "a:b/c",        "a:",          "a:1/",    "sha512-abcd",
                        "a b", "localhost:/x", "-x",          "x:1,y=z", "oci:dir:a/b"};

        for (size_t i = 0; i < ELEMENTSOF(likely); i++)
                if (!oci_reference_is_likely(likely[i]))
                        TEST_FAIL("%s", likely[i]);
        for (size_t i = 0; i < ELEMENTSOF(unlikely); i++)
                if (oci_reference_is_likely(unlikely[i]))
                        TEST_FAIL("%s", unlikely[i]);
}

/* Labels of the image cannot replace those that the conversion sets. */
TEST(sizes_of_entrypoints)
{
        static const struct {
                const char *value;
                size_t expected;
        } cases[] = {{"0", 0}, {"2", 2}, {"3", 3}, {"4", 3}, {"-1", 3}, {"x", 3}, {"", 3}, {NULL, 3}};
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_free_ char *got = NULL;

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                PairList l = {};
                if (cases[i].value)
                        ASSERT_OK(pair_list_set(&l, OCI_ENTRYPOINT_SIZE, cases[i].value));
                ASSERT_EQ(oci_entrypoint_size(&l, 3), cases[i].expected);
                pair_list_done(&l);
        }
        ASSERT_OK(convert(CONFIG("'Cmd':['a'],'Labels':{'acnspawn/oci-entrypoint-size':'7'}"), &got, &e));
        ASSERT_CONTAINS(got, "'name': 'label/acnspawn/oci-entrypoint-size',\n      'value': '7'");
        ASSERT_CONTAINS(got, "'name': 'acnspawn/oci-entrypoint-size',\n      'value': '0'");
}

TEST(working_directories)
{
        static const char *const cases[][2] = {
                        {"", "/"},          {"/", "/"},     {"/a", "/a"},         {"a/b/", "/a/b"},
                        {"a//./b", "/a/b"}, {"../a", "/a"}, {"/a/../../b", "/b"}, {"/a/..", "/"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_free_ char *directory = NULL;
                ASSERT_OK(oci_clean_path(cases[i][0], &directory));
                ASSERT_STREQ(directory, cases[i][1]);
        }
}

int main(void)
{
        RUN(working_directories);
        RUN(digests);
        RUN(kinds_of_documents);
        RUN(choosing_from_an_index);
        RUN(manifests);
        RUN(layout_files);
        RUN(docker_archives);
        RUN(a_config_as_an_image_manifest);
        RUN(nothing_of_a_config_is_a_right);
        RUN(users);
        RUN(configs_that_are_refused);
        RUN(odd_parts_of_configs);
        RUN(paths_in_configs);
        RUN(huge_configs);
        RUN(names_from_references);
        RUN(names_of_apps_from_references);
        RUN(forms_of_references);
        RUN(sizes_of_entrypoints);
        return TEST_END();
}
