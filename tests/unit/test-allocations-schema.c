/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Each allocation fails once, in what schema/ reads and writes: see allocations.h. Documents that are not valid are
 * among them: their findings need memory, too, and they are never accepted. */

#include "schema/hooks.h"
#include "schema/idl.h"
#include "schema/oci.h"
#include "schema/schema-internal.h"
#include "schema/seccomp-profile.h"
#include "schema/settings.h"
#include "tests/unit/allocations.h"
#include "tests/unit/schema.h"

/* A case for each document, which is written with ' for ". */
#define DOCUMENT(name, work, ...)                                                                           \
        TEST(name)                                                                                          \
        {                                                                                                   \
                _cleanup_free_ char *text = json_text_of(__VA_ARGS__);                                      \
                for_each_failing_allocation(work, text);                                                    \
        }
#define INVALID(name, work, ...)                                                                            \
        TEST(name)                                                                                          \
        {                                                                                                   \
                _cleanup_free_ char *text = json_text_of(__VA_ARGS__);                                      \
                for_each_failing_allocation_of_invalid(work, text);                                         \
        }

static char *json_text_of(const char *single)
{
        char *text = json_text(single);

        if (!text)
                abort();
        return text;
}

static void add_findings(Text *t, const Findings *f)
{
        _cleanup_free_ char *text = findings_text(f);

        text_add(t, text ?: "");
        t->failed |= !text;
}

/* --- JSON ---------------------------------------------------------------------------------------------- */

static int parse_json(void *userdata, Text *result, Error *e)
{
        _cleanup_json_ json_object *o = NULL;
        _cleanup_findings_ Findings findings = {};
        _cleanup_free_ char *text = NULL;
        const char *s = userdata;

        int r = json_parse_strict(s, strlen(s), &o, &findings, e);
        if (r >= 0)
                r = without_message(json_format(o, &text), e);
        text_add(result, text ?: "");
        add_findings(result, &findings);
        return r;
}

DOCUMENT(json, parse_json,
         "{'a':[1,-2.5e10,18446744073709551615,true,null],'b':{'c':'\\u00e4\\ud83d\\ude00\\n','d':{}},'e':[]}")
INVALID(json_with_a_key_twice, parse_json, "{'a':1,'a':2}")
INVALID(json_that_is_cut, parse_json, "{'a':[1,")

/* --- Manifests ----------------------------------------------------------------------------------------- */

static int parse_image(void *userdata, Text *result, Error *e)
{
        _cleanup_(image_manifest_freep) ImageManifest *m = NULL;
        _cleanup_(app_freep) App *copy = NULL;
        _cleanup_findings_ Findings findings = {};
        _cleanup_free_ char *text = NULL;
        const char *s = userdata;

        int r = image_manifest_parse(s, strlen(s), &m, &findings, e);
        if (r >= 0 && m->app) {
                r = without_message(app_copy(m->app, &copy), e);
                if (r >= 0) {
                        app_free(m->app);
                        m->app = TAKE_PTR(copy);
                }
        }
        if (r >= 0)
                r = without_message(image_manifest_format(m, &text), e);
        text_add(result, text ?: "");
        add_findings(result, &findings);
        return r;
}

#define IMAGE(inner) "{'acKind':'ImageManifest','acVersion':'0.8.11','name':'example.com/app'" inner "}"

/* Of at most ten members each: json-c loses the key of a further one if it cannot make room for that (0.16). */
DOCUMENT(image_manifest, parse_image,
         IMAGE(",'labels':[{'name':'version','value':'1'},{'name':'os','value':'linux'},{'name':'arch','value':'amd64'}],"
               "'app':{'exec':['/bin/x','y'],'user':'0','group':'0','workingDirectory':'/',"
               "'environment':[{'name':'A','value':'b'}],"
               "'eventHandlers':[{'name':'pre-start','exec':['/p']},{'name':'post-stop','exec':['/q']}],"
               "'isolators':[{'name':'resource/memory','value':{'request':'1M','limit':'1G'}},"
               "{'name':'os/linux/capabilities-retain-set','value':{'set':['CAP_KILL']}},"
               "{'name':'os/linux/seccomp-retain-set','value':{'set':['read'],'errno':'EPERM'}},"
               "{'name':'os/linux/sysctl','value':{'net.core.somaxconn':'5'}},"
               "{'name':'os/linux/cgroup','value':{'memory.high':'1048576'}},"
               "{'name':'os/linux/selinux-context','value':{'user':'u','role':'r','type':'t','level':'s0'}},"
               "{'name':'os/linux/apparmor-profile','value':'x'},"
               "{'name':'os/linux/no-new-privileges','value':true},{'name':'example.com/other','value':{'a':[1]}}],"
               "'mountPoints':[{'name':'work','path':'/srv','readOnly':true}],"
               "'ports':[{'name':'web','protocol':'tcp','port':80,'count':2,'socketActivated':true}]}"))
DOCUMENT(image_manifest_of_others, parse_image,
         IMAGE(",'app':{'exec':['/x'],'user':'0','group':'0','supplementaryGIDs':[1,2],'userLabels':{'a':'b'},"
               "'userAnnotations':{'a':'b'}},"
               "'dependencies':[{'imageName':'example.com/base','labels':[{'name':'os','value':'linux'},"
               "{'name':'arch','value':'amd64'}],'size':7}],"
               "'pathWhitelist':['/x'],'annotations':[{'name':'homepage','value':'http://example.com'}]"))
INVALID(image_manifest_with_findings, parse_image,
        "{'acKind':'ImageManifest','acVersion':'x','name':'A b','labels':[{'name':7},{},{'name':'a','value':'b'},"
        "{'name':'a','value':'c'}],'app':{'exec':[7],'user':'','isolators':[{'name':'resource/memory',"
        "'value':{'limit':'x'}}],'mountPoints':[{'name':'a'}],'ports':[{'name':'p','port':0}]},'more':1}")

static int parse_pod(void *userdata, Text *result, Error *e)
{
        _cleanup_(pod_manifest_freep) PodManifest *m = NULL;
        _cleanup_findings_ Findings findings = {};
        _cleanup_free_ char *text = NULL;
        const char *s = userdata;

        int r = pod_manifest_parse(s, strlen(s), &m, &findings, e);
        if (r >= 0)
                r = pod_manifest_check_reified(m, e);
        if (r >= 0)
                r = pod_settings_check(m, e);
        if (r >= 0)
                r = pod_volume_settings_check(m, e);
        if (r >= 0)
                r = without_message(pod_manifest_format(m, &text), e);
        text_add(result, text ?: "");
        add_findings(result, &findings);
        return r;
}

#define POD(inner) "{'acKind':'PodManifest','acVersion':'0.8.11'" inner "}"

DOCUMENT(pod_manifest, parse_pod,
         POD(",'apps':[{'name':'a','image':{'id':'" ID
             "','name':'example.com/app','labels':[{'name':'version','value':'1'}]},"
             "'app':{'exec':['/x'],'user':'0','group':'0','mountPoints':[{'name':'work','path':'/srv'}]},"
             "'readOnlyRootFS':true,'mounts':[{'volume':'work','path':'/srv'},{'volume':'own','path':'/own',"
             "'appVolume':{'name':'own','kind':'empty'}}],"
             "'annotations':[{'name':'acnspawn/restart','value':'on-failure'},"
             "{'name':'acnspawn/grant','value':'CAP_KILL,seccomp'},"
             "{'name':'acnspawn/masked-paths','value':'/proc/kcore'}]},"
             "{'name':'b','image':{'id':'" ID "'},'annotations':[{'name':'acnspawn/after','value':'a'}]}],"
             "'volumes':[{'name':'work','kind':'empty','mode':'0700','uid':1,'gid':2},"
             "{'name':'own','kind':'empty'},"
             "{'name':'more','kind':'host','source':'/srv','readOnly':true,'recursive':false}],"
             "'isolators':[{'name':'resource/cpu','value':{'limit':'500m'}}],"
             "'annotations':[{'name':'acnspawn/volume/work','value':'kind=tmpfs,size=1M'}],"
             "'userLabels':{'a':'b'},'userAnnotations':{'c':'d'},"
             "'ports':[{'name':'web','hostPort':80,'hostIP':'127.0.0.1','podPort':{'name':'web','port':80,'protocol':'tcp'}}]"))
INVALID(pod_manifest_with_findings, parse_pod,
        POD(",'apps':[{'name':'a'},{'name':'a','image':{'id':'x'}}],'volumes':[{'name':'v','kind':'x'}],'ports':[{}]"))
INVALID(pod_manifest_with_a_cycle, parse_pod,
        POD(",'apps':[{'name':'a','image':{'id':'" ID
            "'},'annotations':[{'name':'acnspawn/after','value':'b'}]},"
            "{'name':'b','image':{'id':'" ID "'},'annotations':[{'name':'acnspawn/after','value':'a'}]}]"))

/* --- Settings ------------------------------------------------------------------------------------------ */

static int read_settings(void *userdata, Text *result, Error *e)
{
        _cleanup_(pod_manifest_freep) PodManifest *m = NULL;
        _cleanup_app_settings_ AppSettings s = {};
        unsigned at = allocations_suspend();
        const char *text = userdata;

        int r = pod_manifest_parse(text, strlen(text), &m, NULL, e);
        allocations_resume(at);
        if (r < 0)
                return r;
        r = app_settings_read(m->apps[0], &s, e);
        if (r < 0)
                return r;
        _cleanup_free_ char *after = strv_join(s.after, " "), *grants = strv_join(s.grants, " "),
                            *sockets = strv_join(s.socket_activated, " "),
                            *caps = strv_join(s.caps_ambient, " "),
                            *command = strv_join(s.health.command, " "),
                            *masked = strv_join(s.masked.paths, " ");
        if (!after || !grants || !sockets || !caps || !command || !masked)
                return error_oom(e);
        text_addf(result, "%d %s|%s|%s|%s|%s|%s|%s|%s|%s", s.restart, after, grants, sockets, caps, command,
                  masked, s.hooks ?: "", s.fate_group ?: "", s.seccomp_profile ?: "");
        return 0;
}

#define SETTINGS(list) POD(",'apps':[{'name':'a','image':{'id':'" ID "'},'annotations':[" list "]}]")

DOCUMENT(app_settings, read_settings,
         SETTINGS("{'name':'acnspawn/restart','value':'always'},"
                  "{'name':'acnspawn/after','value':'b,c'},"
                  "{'name':'acnspawn/grant','value':'CAP_KILL,port:web'},"
                  "{'name':'acnspawn/health-cmd','value':'[\\\"CMD\\\",\\\"/check\\\",\\\"it\\\"]'},"
                  "{'name':'acnspawn/masked-paths','value':'/proc/kcore,/proc/keys'},"
                  "{'name':'acnspawn/socket-activated','value':'web,53/udp'},"
                  "{'name':'acnspawn/fate-group','value':'g'}"))
INVALID(app_settings_with_a_mistake, read_settings,
        SETTINGS("{'name':'acnspawn/grant','value':'nothing such'}"))

static int read_health(void *userdata, Text *result, Error *e)
{
        PairList l = {};

        int r = health_settings_from_oci(userdata, &l, e);
        for (size_t i = 0; r >= 0 && i < l.n; i++)
                text_addf(result, "%s=%s\n", l.items[i].name, l.items[i].value);
        pair_list_done(&l);
        return r;
}

DOCUMENT(health_of_oci, read_health,
         "{'Test':['CMD','/check','it'],'Interval':5000000000,'Timeout':1000000000,'Retries':3}")

static int read_volume(void *userdata, Text *result, Error *e)
{
        static const Volume v = {.name = (char *) "v", .kind = VOLUME_HOST, .source = (char *) "/srv"};
        VolumeSettings s = {};

        int r = volume_settings_parse(userdata, &v, &s, e);
        text_addf(result, "%zu %d", r < 0 ? 0 : s.n_ranges, s.id_map);
        return r;
}

DOCUMENT(volume_settings, read_volume, "idmap=0:0:10,propagation=slave,dev=true")

/* --- Hooks, profiles, descriptions --------------------------------------------------------------------- */

static int read_hooks(void *userdata, Text *result, Error *e)
{
        _cleanup_hook_list_ HookList l = {}, copy = {};
        _cleanup_free_ char *text = NULL;

        int r = hook_list_parse(userdata, &l, e);
        if (r >= 0)
                r = without_message(hook_list_extend(&copy, &l), e);
        if (r >= 0)
                r = without_message(hook_list_format(&copy, &text), e);
        text_add(result, text ?: "");
        return r;
}

DOCUMENT(hooks, read_hooks,
         "[{'path':'/usr/bin/a','args':['a','b c'],'env':['X=y'],'timeout':5},{'path':'/b','timeout':30}]")
INVALID(hooks_with_a_mistake, read_hooks, "[{'path':'/a'},{'path':'/a/../b'}]")

static int read_profile(void *userdata, Text *result, Error *e)
{
        _cleanup_(seccomp_profile_freep) SeccompProfile *p = NULL;
        const char *s = userdata;

        int r = seccomp_profile_parse(s, strlen(s), &p, e);
        for (size_t i = 0; r >= 0 && i < p->n_rules; i++)
                text_addf(result, "%zu %s %#x\n", strv_length(p->rules[i].names),
                          p->rules[i].names ? p->rules[i].names[0] : "", p->rules[i].action);
        return r;
}

DOCUMENT(seccomp_profile, read_profile,
         "{'defaultAction':'SCMP_ACT_ERRNO','defaultErrnoRet':38,'architectures':['SCMP_ARCH_X86_64'],"
         "'syscalls':[{'names':['execve','read','none_such'],'action':'SCMP_ACT_ALLOW','args':[]},"
         "{'name':'getpid','action':'SCMP_ACT_ERRNO','errnoRet':13,'args':null},"
         "{'names':['personality'],'action':'SCMP_ACT_ALLOW','args':[{'index':0,'value':8,'op':'SCMP_CMP_EQ'}]},"
         "{'names':['mount'],'action':'SCMP_ACT_ALLOW','includes':{'caps':['CAP_SYS_ADMIN'],'arches':['amd64']}},"
         "{'names':['ptrace'],'action':'SCMP_ACT_ALLOW','excludes':{'minKernel':'4.8'}}]}")
INVALID(seccomp_profile_with_a_mistake, read_profile,
        "{'defaultAction':'SCMP_ACT_ERRNO','syscalls':[{'names':['a'],'action':'x'}]}")

static int compare_value(void *userdata, Text *result, Error *e)
{
        static const char interface[] = "interface org.example.a\n"
                                        "type Tree (name: string, children: []Tree, kind: ?(on, off))\n"
                                        "method Do(tree: Tree, more: ?[]?int) -> ()\n";
        unsigned at = allocations_suspend();
        _cleanup_json_ json_object *o = NULL;
        char where[IDL_NAME_MAX] = "";
        const char *s = userdata, *p = NULL;

        int r = json_parse_strict(s, strlen(s), &o, NULL, e);
        allocations_resume(at);
        if (r >= 0)
                r = without_message(idl_find(interface, "method", "Do", &p), e);
        if (r >= 0)
                r = without_message(idl_compare(interface, p, o, where), e);
        text_addf(result, "at '%s'", where);
        return r;
}

DOCUMENT(description, compare_value,
         "{'tree':{'name':'a','children':[{'name':'b','children':[],'kind':'on'}]},'more':[1,null]}")
INVALID(description_that_does_not_match, compare_value, "{'tree':{'name':'a','children':[{'name':5}]}}")

/* --- OCI ----------------------------------------------------------------------------------------------- */

#define D1 "sha256:" HEX64
#define DESCRIPTOR(type, more) "{'mediaType':'" type "','digest':'" D1 "','size':7" more "}"

static int parse_index(void *userdata, Text *result, Error *e)
{
        _cleanup_(oci_index_freep) OciIndex *i = NULL;
        _cleanup_findings_ Findings findings = {};
        const OciDescriptor *d = NULL;
        const char *s = userdata;
        OciKind kind;

        int r = oci_document_kind(s, strlen(s), NULL, &kind, e);
        if (r >= 0)
                r = oci_index_parse(s, strlen(s), &i, &findings, e);
        if (r >= 0)
                r = oci_index_select(i, "linux", "amd64", &d, e);
        if (r >= 0)
                text_addf(result, "%zu %s", i->n_manifests, d->digest);
        return r;
}

#define INDEX_TYPE "application/vnd.oci.image.manifest.v1+json"

DOCUMENT(oci_index, parse_index,
         "{'schemaVersion':2,'manifests':[" DESCRIPTOR(INDEX_TYPE, ",'platform':{'os':'linux','architecture':'arm64','variant':'v8'}") "," DESCRIPTOR(
                         INDEX_TYPE,
                         ",'platform':{'os':'linux','architecture':'amd64'},'annotations':{'a':'b'}") "]}")
INVALID(oci_index_of_others, parse_index,
        "{'schemaVersion':2,'manifests':[" DESCRIPTOR(INDEX_TYPE, ",'platform':{'os':'linux','architecture':'arm64'}") "," DESCRIPTOR(
                        INDEX_TYPE, ",'platform':{'os':'windows','architecture':'amd64'}") "]}")

static int parse_manifest(void *userdata, Text *result, Error *e)
{
        _cleanup_(oci_manifest_freep) OciManifest *m = NULL;
        _cleanup_findings_ Findings findings = {};
        const char *s = userdata;

        int r = oci_manifest_parse(s, strlen(s), &m, &findings, e);
        if (r >= 0)
                r = oci_manifest_check_image(m, e);
        if (r >= 0)
                text_addf(result, "%zu %s", m->n_layers, m->config.digest);
        add_findings(result, &findings);
        return r;
}

DOCUMENT(oci_manifest, parse_manifest,
         "{'schemaVersion':2,'config':" DESCRIPTOR(
                         "application/vnd.oci.image.config.v1+json",
                         "") ",'layers':[" DESCRIPTOR("application/vnd.oci.image.layer.v1.tar+gzip",
                                                      "") "],'annotations':{'a':'b'}}")
INVALID(oci_manifest_with_findings, parse_manifest,
        "{'schemaVersion':1,'config':{},'layers':[{'digest':'x'}]}")

static int convert_config(void *userdata, Text *result, Error *e)
{
        _cleanup_(oci_config_freep) OciConfig *c = NULL;
        _cleanup_(image_manifest_freep) ImageManifest *m = NULL;
        _cleanup_findings_ Findings findings = {};
        _cleanup_free_ char *text = NULL;
        const char *s = userdata;

        int r = oci_config_parse(s, strlen(s), &c, &findings, e);
        if (r >= 0)
                r = oci_config_to_image_manifest(c, "example.com/app", "1.0", &m, NULL, e);
        if (r >= 0)
                r = without_message(image_manifest_format(m, &text), e);
        text_add(result, text ?: "");
        add_findings(result, &findings);
        return r;
}

DOCUMENT(oci_config, convert_config,
         "{'os':'linux','architecture':'amd64','created':'2020-01-01T00:00:00Z','author':'me','config':{'User':'1:2',"
         "'ExposedPorts':{'80/tcp':{},'53/udp':{}},'Env':['PATH=/bin','A=b'],'Entrypoint':['/a'],'Cmd':['b','c'],"
         "'Volumes':{'/srv':{}},'WorkingDir':'/w','Labels':{'l':'m'},'StopSignal':'SIGINT',"
         "'Healthcheck':{'Test':['CMD-SHELL','true'],'Interval':1000000000}},"
         "'rootfs':{'type':'layers','diff_ids':['" D1 "']},'history':[{'created_by':'x'}]}")
INVALID(oci_config_with_findings, convert_config,
        "{'os':5,'config':{'Env':['x'],'ExposedPorts':{'a':{}}},'rootfs':{}}")

static int parse_docker(void *userdata, Text *result, Error *e)
{
        _cleanup_(docker_archive_freep) DockerArchive *a = NULL;
        _cleanup_findings_ Findings findings = {};
        const char *s = userdata;

        int r = docker_archive_parse(s, strlen(s), &a, &findings, e);
        if (r >= 0)
                text_addf(result, "%zu", a->n_images);
        add_findings(result, &findings);
        return r;
}

DOCUMENT(docker_archive, parse_docker,
         "[{'Config':'" HEX64
         ".json','RepoTags':['example.com/a:1','example.com/a:2'],'Layers':['a/layer.tar','b/layer.tar']}]")

static int name_reference(void *userdata, Text *result, Error *e)
{
        _cleanup_free_ char *name = NULL, *version = NULL, *app = NULL;

        int r = oci_name_from_reference(userdata, &name, &version, e);
        if (r >= 0)
                r = without_message(oci_app_name_from_reference(userdata, &app), e);
        text_addf(result, "%s %s %s", name ?: "", version ?: "", app ?: "");
        return r;
}

DOCUMENT(oci_names, name_reference, "Example.com:5000/Team_a/app:1.0")

/* --- Names --------------------------------------------------------------------------------------------- */

static int check_names(void *userdata, Text *result, Error *e)
{
        _cleanup_free_ char *name = NULL, *annotations = NULL;
        PairList image = {}, app = {}, merged = {};

        int r = without_message(app_name_from_image_name(userdata, &name), e);
        if (r >= 0)
                r = without_message(pair_list_set(&image, "a", "1"), e);
        if (r >= 0)
                r = without_message(pair_list_set(&image, "b", "2"), e);
        if (r >= 0)
                r = without_message(pair_list_set(&app, "a", "\xff"), e);
        if (r >= 0)
                r = without_message(app_annotations_merge(&image, &app, &merged), e);
        if (r >= 0)
                r = without_message(annotations_format(&merged, &annotations), e);
        text_addf(result, "%s %s", name ?: "", annotations ?: "");
        pair_list_done(&image);
        pair_list_done(&app);
        pair_list_done(&merged);
        return r;
}

DOCUMENT(names, check_names, "example.com/Some_App")

int main(void)
{
        RUN(json);
        RUN(json_with_a_key_twice);
        RUN(json_that_is_cut);
        RUN(image_manifest);
        RUN(image_manifest_of_others);
        RUN(image_manifest_with_findings);
        RUN(pod_manifest);
        RUN(pod_manifest_with_findings);
        RUN(pod_manifest_with_a_cycle);
        RUN(app_settings);
        RUN(app_settings_with_a_mistake);
        RUN(health_of_oci);
        RUN(volume_settings);
        RUN(hooks);
        RUN(hooks_with_a_mistake);
        RUN(seccomp_profile);
        RUN(seccomp_profile_with_a_mistake);
        RUN(description);
        RUN(description_that_does_not_match);
        RUN(oci_index);
        RUN(oci_index_of_others);
        RUN(oci_manifest);
        RUN(oci_manifest_with_findings);
        RUN(oci_config);
        RUN(oci_config_with_findings);
        RUN(docker_archive);
        RUN(oci_names);
        RUN(names);
        return TEST_END();
}
