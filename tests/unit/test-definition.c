/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* prepare/pods/definition.c: the definition of a pod, written and read. The requests come from command
 * lines, so that an option that is not handled here fails the test. */

#include "stage0/arguments/pod-arguments.h"
#include "stage0/verbs/verb.h"
#include "tests/unit/pod.h"
#include "tests/unit/store-fixture.h"

/* --- Help ---------------------------------------------------------------------------------------------- */

static int new_pod(Fixture *f, Pod **ret)
{
        int r = pod_new(f->store, ret, &f->error);

        if (r < 0)
                return r;
        (*ret)->manifest = parse_test_manifest();
        return (*ret)->manifest ? 0 : -ENOMEM;
}

/* The text that is written for a request. */
static char *write_request(Fixture *f, const PodRequest *q)
{
        _cleanup_(pod_freep) Pod *p = NULL;
        char *text = NULL;

        int r = new_pod(f, &p);
        if (r >= 0)
                r = pod_definition_write(p, q, &f->error);
        if (r >= 0)
                r = read_file_at(p->dir_fd, "definition", MANIFEST_SIZE_MAX, &text, NULL);
        if (p)
                pod_abandon(p);
        return r < 0 ? NULL : text;
}

/* The same for a command line. */
static char *write_line(Fixture *f, const char *const *line)
{
        _cleanup_pod_arguments_ PodArguments a;
        Context c = {.verb = &verb_prepare};

        pod_arguments_init(&a);
        int r = pod_arguments_parse(&c, NULL, NULL, (int) strv_length((char **) line), (char **) line, &a);
        if (r == 1)
                return write_request(f, &a.request);
        printf("# %s\n", c.error.message ?: "?");
        error_done(&c.error);
        return NULL;
}

/* What TEXT is when it was read and written again. */
static char *write_again(Fixture *f, const char *text)
{
        _cleanup_(pod_definition_done) PodDefinition d = {};
        _cleanup_(pod_freep) Pod *p = NULL;

        int r = new_pod(f, &p);
        if (r >= 0)
                r = write_file_new_at(p->dir_fd, "definition", text, strlen(text), 0600);
        if (r >= 0)
                r = pod_definition_read(p, &d, &f->error);
        if (p)
                pod_abandon(p);
        return r < 0 ? NULL : write_request(f, &d.request);
}

static int read_text(Fixture *f, const char *text, size_t size, PodDefinition *ret)
{
        _cleanup_(pod_freep) Pod *p = NULL;

        int r = new_pod(f, &p);
        if (r >= 0)
                r = write_file_new_at(p->dir_fd, "definition", text, size, 0600);
        error_done(&f->error);
        if (r >= 0)
                r = pod_definition_read(p, ret, &f->error);
        if (p)
                pod_abandon(p);
        return r;
}

/* --- Options ------------------------------------------------------------------------------------------- */

static char profile_path[PATH_MAX + 16]; /* of a profile of system calls */

/* A value for each option that has one and is part of a definition. */
static const struct {
        const char *name, *value;
} values[] = {
                {"volume", "/etc:/mnt:ro,idmap=no"},
                {"mount", "data:/data:ro"},
                {"port", "8080:80"},
                {"publish", "8081:81"},
                {"environment", "A=b c"},
                {"environment-file", "/etc/os-release"},
                {"env", "B=c"},
                {"env-file", "/etc/os-release"},
                {"credential", "a:/etc/hostname"},
                {"load-credential", "b:/etc/passwd"},
                {"set-credential", "c:secret"},
                {"annotation", "example.com/x=y"},
                {"user-annotation", "x=y"},
                {"user-label", "x=y"},
                {"isolator", "os/linux/oom-score-adj=5"},
                {"memory", "64Mi"},
                {"cpu", "500m"},
                {"cpu-shares", "77"},
                {"tasks-max", "11"},
                {"block-bandwidth", "2M"},
                {"block-iops", "100"},
                {"sysctl", "net.ipv4.ip_forward=1"},
                {"exec", "/bin/other"},
                {"entrypoint", "/bin/another"},
                {"user", "1000:1001"},
                {"group", "1002"},
                {"supplementary-gids", "5,6"},
                {"working-directory", "/tmp"},
                {"workdir", "/srv"},
                {"oom-score-adj", "7"},
                {"seccomp", "mode=retain,errno=EPERM,@systemd/default"},
                {"apparmor-profile", "x"},
                {"selinux-context", "u:r:t:s0"},
                {"caps-retain", "CAP_CHOWN"},
                {"caps-remove", "CAP_KILL"},
                {"caps-ambient", "CAP_CHOWN"},
                {"control-images", "example.com/*"},
                {"group-policy", "strict"},
                {"seccomp-profile", profile_path},
                {"device", "/dev/null:/dev/a,all"},
                {"device-policy", "closed"},
                {"sys", "writable"},
                {"landlock", "optional"},
                {"grant", "seccomp"},
                {"image-policy", "registry"},
                {"fate-group", "one"},
                {"transient", "true"},
                {"share-cgroups", "true"},
                {"max-runtime", "1h"},
                {"input", "pipe"},
                {"pid", "app:db"},
                {"restart", "always"},
                {"restart-delay", "1s"},
                {"restart-delay-max", "2s"},
                {"restart-limit", "3"},
                {"after", "db"},
                {"socket-activated", "80,53/udp"},
                {"control", "true"},
                {"notify", "true"},
                {"start-timeout", "4s"},
                {"health-cmd", "true"},
                {"health-interval", "5s"},
                {"health-timeout", "6s"},
                {"health-retries", "7"},
                {"health-start-period", "8s"},
                {"health-start-interval", "9s"},
                {"health-on-failure", "kill"},
                {"stop-signal", "SIGINT"},
                {"stop-timeout", "10s"},
                {"log-size", "1Mi"},
                {"log-rate", "2Mi"},
                {"log-file", "/var/log/web.log"},
                {"log", "none"},
                {"oom-group", "true"},
                {"masked-paths", "/proc/kcore,/srv/x"},
                {"read-only-paths", "none"},
};

/* Options that are stored elsewhere (PodConfig, the manifest's names of apps), or apply only to this
 * preparation. */
static const char *const pod_elsewhere[] = {
                "name",
                "replace",
                "pod-manifest",
                "net",
                "network",
                "hostname",
                "dns",
                "dns-search",
                "dns-option",
                "hosts-entry",
                "exit-policy",
                "stop-timeout",
                "exit-idle-time",
                "metadata",
                "no-userns",
                "stage1",
                "uuid-file",
                "pull-policy",
                "min-speed",
                "insecure-options",
                "passphrase-file",
};
static const char *const app_elsewhere[] = {"name"};

static bool is_in(const char *const *l, size_t n, const char *s)
{
        for (size_t i = 0; i < n; i++)
                if (streq(l[i], s))
                        return true;
        return false;
}

static const char *value_of(const Option *o)
{
        for (size_t i = 0; i < ELEMENTSOF(values); i++)
                if (streq(values[i].name, o->name))
                        return values[i].value;
        return NULL;
}

static void check_option(Fixture *f, const Option *o, bool of_app)
{
        _cleanup_free_ char *word = NULL, *plain = NULL, *text = NULL, *again = NULL;
        const char *line[4] = {"--exit-policy=never"}, /* which some options need, and is kept elsewhere */
                        *none[2] = {"example.com/web"};

        if (of_app ? is_in(app_elsewhere, ELEMENTSOF(app_elsewhere), o->name)
                   : is_in(pod_elsewhere, ELEMENTSOF(pod_elsewhere), o->name))
                return;
        if (o->value && !value_of(o))
                TEST_FAIL("there is no value for --%s in this test", o->name);
        ASSERT_OK(xasprintf(&word, o->value ? "--%s=%s" : "--%s", o->name, value_of(o) ?: ""));
        line[1 + of_app] = word;
        line[1 + !of_app] = "example.com/web";
        plain = write_line(f, none);
        text = write_line(f, line);
        if (!plain || !text)
                TEST_FAIL("%s: %s", word, f->error.message ?: "?");
        if (streq(plain, text))
                TEST_FAIL("%s is not recorded: %s", word, text);
        again = write_again(f, text);
        if (!again)
                TEST_FAIL("%s: %s", word, f->error.message ?: "?");
        ASSERT_STREQ(again, text);
}

TEST(every_option_is_recorded)
{
        FIXTURE(f);

        for (const Option *o = pod_options; o->name; o++)
                check_option(&f, o, false);
        for (const Option *o = app_options; o->name; o++)
                check_option(&f, o, true);
}

TEST(all_options_together)
{
        _cleanup_free_ char *text = NULL, *again = NULL;
        _cleanup_strv_free_ char **line = NULL;
        FIXTURE(f);

        for (const Option *o = pod_options; o->name; o++)
                if (!is_in(pod_elsewhere, ELEMENTSOF(pod_elsewhere), o->name) && value_of(o))
                        ASSERT_OK(strv_extendf(&line, "--%s=%s", o->name, value_of(o)));
        ASSERT_OK(strv_extend(&line, "--exit-policy=never"));
        ASSERT_OK(strv_extend(&line, "--verify"));
        ASSERT_OK(strv_extend(&line, "--volume=e,kind=empty,mode=0700,uid=3,gid=4,readOnly=true"));
        ASSERT_OK(strv_extend(&line, "--volume=h,kind=host,source=/srv,recursive=false,symlinks=true"));
        ASSERT_OK(strv_extend(&line, "--port=1000-1003:2000-2003/udp"));
        ASSERT_OK(strv_extend(&line, "example.com/web"));
        for (const Option *o = app_options; o->name; o++)
                if (!is_in(app_elsewhere, ELEMENTSOF(app_elsewhere), o->name) && value_of(o))
                        ASSERT_OK(strv_extendf(&line, "--%s=%s", o->name, value_of(o)));
        ASSERT_OK(strv_extend(&line, "--read-only"));
        ASSERT_OK(strv_extend(&line, "--"));
        ASSERT_OK(strv_extend(&line, "one"));
        ASSERT_OK(strv_extend(&line, ""));
        text = write_line(&f, (const char *const *) line);
        ASSERT_NOT_NULL(text);
        again = write_again(&f, text);
        if (!again)
                TEST_FAIL("%s", f.error.message ?: "?");
        ASSERT_STREQ(again, text);
        ASSERT_CONTAINS(text, "\"args\":[\"one\",\"\"]");
        ASSERT_CONTAINS(text, "\"supplementaryGIDs\":[5,6]");
        ASSERT_CONTAINS(text, "\"id\":\"" TEST_IMAGE_ID "\"");
}

/* --- Values -------------------------------------------------------------------------------------------- */

/* "--" without arguments gives no arguments, and bytes that are not UTF-8 are unchanged. */
TEST(bytes_and_empty_lists)
{
        static const char *const line[] = {"web", "-E", "A=\xff\x01", "--", "\xc3\x28", "", "ok", NULL};
        _cleanup_(pod_definition_done) PodDefinition d = {};
        _cleanup_free_ char *text = NULL;
        FIXTURE(f);

        text = write_line(&f, line);
        ASSERT_NOT_NULL(text);
        ASSERT_CONTAINS(text, "\"args\":[{\"hex\":\"c328\"},\"\",\"ok\"]");
        ASSERT_WORKS(f, read_text(&f, text, strlen(text), &d));
        const AppOverrides *a = &d.request.apps[0];
        ASSERT_STREQ(pair_list_get(&a->environment, "A"), "\xff\x01");
        ASSERT_EQ(strv_length(a->args), 3);
        ASSERT_STREQ(a->args[0], "\xc3\x28");
        ASSERT_STREQ(a->args[1], "");
        ASSERT_NULL(a->exec);
        ASSERT_STREQ(a->name, "web"); /* as in the manifest */
        ASSERT_EQ(d.n_images, 1);
        ASSERT_STREQ(d.images[0].app, "web");
        ASSERT_STREQ(d.images[0].id, TEST_IMAGE_ID);
        ASSERT_STREQ(d.images[0].name, "example.com/web");
}

TEST(secrets_are_not_written)
{
        static const char *const line[] = {"--set-credential=shared:geheim", "web",
                                           "--set-credential=own:top-secret",
                                           "--credential=file:definition-secret", NULL};
        _cleanup_(pod_definition_done) PodDefinition d = {};
        _cleanup_free_ char *text = NULL, *path = NULL;
        char before[PATH_MAX];
        FIXTURE(f);

        ASSERT_OK(write_file_new_at(f.scratch.fd, "definition-secret", "in-a-file", 9, 0600));
        ASSERT_NOT_NULL(getcwd(before, sizeof(before)));
        ASSERT_OK(chdir(f.scratch.path)); /* where a relative path begins */
        text = write_line(&f, line);
        ASSERT_OK(chdir(before));
        ASSERT_NOT_NULL(text);
        ASSERT_NOT_CONTAINS(text, "geheim");
        ASSERT_NOT_CONTAINS(text, "top-secret");
        ASSERT_NOT_CONTAINS(text, "in-a-file");
        ASSERT_WORKS(f, read_text(&f, text, strlen(text), &d));
        ASSERT_EQ(d.request.credentials.n, 1);
        ASSERT_STREQ(d.request.credentials.items[0].name, "shared");
        ASSERT_EQ((int) d.request.credentials.items[0].source, (int) CREDENTIAL_GIVEN);
        const CredentialList *own = &d.request.apps[0].credentials;
        ASSERT_EQ(own->n, 2);
        ASSERT_EQ((int) own->items[1].source, (int) CREDENTIAL_FILE);
        ASSERT_OK(xasprintf(&path, "%s/definition-secret", f.scratch.path));
        ASSERT_STREQ(own->items[1].path, path);
        ASSERT_NULL(own->items[1].data);
}

/* A source that can be read only once is not stored as a file name. */
TEST(pipes_are_no_files)
{
        _cleanup_free_ char *path = NULL;
        CredentialList l = {};
        FIXTURE(f);
        int fds[2];

        ASSERT_OK(pipe2(fds, O_CLOEXEC));
        ASSERT_EQ(write(fds[1], "x", 1), 1);
        close(fds[1]);
        ASSERT_OK(xasprintf(&path, "/dev/fd/%d", fds[0]));
        ASSERT_WORKS(f, credential_list_add_file(&l, "a", path, &f.error));
        ASSERT_EQ((int) l.items[0].source, (int) CREDENTIAL_INPUT);
        ASSERT_NULL(l.items[0].path);
        ASSERT_MEMEQ(l.items[0].data, "x", 1);
        close(fds[0]);
        credential_list_done(&l);
}

/* Files by their absolute paths, names as they are. */
TEST(references_hold_anywhere)
{
        static const struct {
                const char *reference, *start, *end;
        } cases[] = {
                        {"example.com/web:1", "example.com", "/web:1"},
                        {"docker://nginx", "docker", "://nginx"},
                        {"/a/b.aci", "/a", "/b.aci"},
                        {"b.aci", "/", "/b.aci"},
                        {"oci:dir:tag", "oci:/", "/dir:tag"},
                        {"docker-archive:x.tar", "docker-archive:/", "/x.tar"},
                        {"https://example.com/a.aci", "https:", "//example.com/a.aci"},
                        {"-", "-", ""},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_free_ char *s = NULL;

                ASSERT_OK(reference_make_absolute(cases[i].reference, &s));
                if (!startswith(s, cases[i].start) || !endswith(s, cases[i].end))
                        TEST_FAIL("%s became %s", cases[i].reference, s);
        }
}

TEST(template)
{
        static const char manifest[] =
                        "{\"acVersion\":\"0.8.11\",\"acKind\":\"PodManifest\",\"apps\":[{\"name\":\"web\","
                        "\"image\":{\"name\":\"example.com/"
                        "web\",\"labels\":[{\"name\":\"os\",\"value\":\"linux\"}]},"
                        "\"mounts\":[{\"volume\":\"data\",\"mountPoint\":\"data\"}],"
                        "\"annotations\":[{\"name\":\"acnspawn/restart\",\"value\":\"always\"}]}],"
                        "\"volumes\":[{\"name\":\"data\",\"kind\":\"empty\"}],"
                        "\"isolators\":[{\"name\":\"resource/memory\",\"value\":{\"limit\":\"1G\"}}]}";
        _cleanup_(pod_definition_done) PodDefinition d = {};
        _cleanup_free_ char *text = NULL, *again = NULL;
        PodRequest q = {};
        FIXTURE(f);

        ASSERT_WORKS(f, pod_manifest_parse(manifest, strlen(manifest), &q.template, NULL, &f.error));
        text = write_request(&f, &q);
        pod_request_done(&q);
        ASSERT_NOT_NULL(text);
        ASSERT_WORKS(f, read_text(&f, text, strlen(text), &d));
        ASSERT_EQ(d.request.n_apps, 0);
        ASSERT_STREQ(d.request.template->apps[0]->mounts[0].path, "data");
        ASSERT_NULL(d.request.template->apps[0]->image_id); /* what is asked for stays open */
        again = write_request(&f, &d.request);
        ASSERT_STREQ(again, text);
}

/* Neither apps nor a manifest: valid only for a pod that may be empty. */
TEST(without_apps)
{
        _cleanup_(pod_definition_done) PodDefinition d = {}, e = {};
        _cleanup_(pod_freep) Pod *p = NULL;
        PodRequest q = {};
        FIXTURE(f);

        ASSERT_OK(pod_new(f.store, &p, &f.error));
        p->manifest = pod_manifest_new();
        p->config.exit_policy = EXIT_NEVER;
        ASSERT_OK(pair_list_set(&q.user_labels, "x", "y"));
        ASSERT_WORKS(f, pod_definition_write(p, &q, &f.error));
        pod_request_done(&q);
        ASSERT_WORKS(f, pod_definition_read(p, &d, &f.error));
        ASSERT_EQ(d.request.n_apps, 0);
        ASSERT_EQ(d.n_images, 0);
        ASSERT_NULL(d.request.template);
        ASSERT_STREQ(pair_list_get(&d.request.user_labels, "x"), "y");
        p->config.exit_policy = EXIT_ON_ALL;
        ASSERT_ERR(pod_definition_read(p, &e, &f.error), -EINVAL);
        ASSERT_CONTAINS(f.error.message, "either 'podManifest' or 'apps'");
        pod_abandon(p);
}

/* --- Damage -------------------------------------------------------------------------------------------- */

#define IMAGES "\"images\":[{\"app\":\"web\",\"id\":\"" TEST_IMAGE_ID "\",\"name\":\"x\"}]"
#define APPS "\"apps\":[{\"image\":\"x\",\"name\":\"web\"}]"
#define APPS_WITH(more) "\"apps\":[{\"image\":\"x\",\"name\":\"web\"," more "}]"

TEST(damage)
{
        static const struct {
                const char *text, *why;
        } cases[] = {
                        {"", "is damaged"},
                        {"[]", "not an object"},
                        {"{}", "'version' is not 1"},
                        {"{\"version\":2," IMAGES "," APPS "}", "'version' is not 1"},
                        {"{\"version\":1," IMAGES "}", "either 'podManifest' or 'apps'"},
                        {"{\"version\":1," APPS "}", "0 images and 1 apps"},
                        {"{\"version\":1," IMAGES "," APPS ",\"more\":1}", "unknown member 'more'"},
                        {"{\"version\":1," IMAGES ",\"apps\":[{\"image\":\"x\",\"name\":\"other\"}]}",
                         "not the image of app other"},
                        {"{\"version\":1," IMAGES ",\"apps\":[{\"image\":\"x\"}]}",
                         "apps[0]: 'name' is missing"},
                        {"{\"version\":1," IMAGES ",\"apps\":[3]}", "apps[0]: it is not an object"},
                        {"{\"version\":1," IMAGES "," APPS_WITH("\"exec\":\"x\"") "}",
                         "'exec' is not a list"},
                        {"{\"version\":1," IMAGES "," APPS_WITH("\"exec\":[1]") "}", "'exec' is not a text"},
                        {"{\"version\":1," IMAGES "," APPS_WITH("\"exec\":[null]") "}",
                         "'exec' is not a text"},
                        {"{\"version\":1," IMAGES "," APPS_WITH("\"user\":{\"hex\":\"fg\"}") "}",
                         "'user' is not hexadecimal"},
                        {"{\"version\":1," IMAGES "," APPS_WITH("\"user\":{\"hex\":\"ff0\"}") "}",
                         "'user' is not hexadecimal"},
                        {"{\"version\":1," IMAGES "," APPS_WITH("\"user\":{\"hex\":\"00\"}") "}",
                         "'user' is not hexadecimal"},
                        {"{\"version\":1," IMAGES "," APPS_WITH("\"supplementaryGIDs\":[-1]") "}",
                         "not a number of 32 bits"},
                        {"{\"version\":1," IMAGES "," APPS_WITH("\"readOnlyRootFS\":1") "}",
                         "not true or false"},
                        {"{\"version\":1," IMAGES
                         "," APPS_WITH("\"isolators\":[{\"name\":\"os/linux/oom-score-adj\","
                                       "\"value\":\"x\"}]") "}",
                         "apps[0]: isolators[0]: "},
                        {"{\"version\":1," IMAGES "," APPS_WITH("\"isolators\":[{\"value\":{}}]") "}",
                         "'name' is missing"},
                        {"{\"version\":1," IMAGES
                         "," APPS_WITH("\"credentials\":[{\"name\":\"a\",\"source\":\"b\"}]") "}",
                         "'source' is not one of the known words"},
                        {"{\"version\":1," IMAGES
                         "," APPS_WITH("\"mounts\":[{\"volume\":\"a\",\"path\":\"/a\","
                                       "\"appVolume\":{\"name\":\"x\"}}]") "}",
                         "'kind' is missing"},
                        {"{\"version\":1,\"images\":[{\"app\":\"web\",\"id\":\"../x\",\"name\":\"x\"}]," APPS
                         "}",
                         "is damaged"},
                        {"{\"version\":1," IMAGES ",\"podManifest\":{\"acKind\":\"x\"}}", "is damaged"},
        };
        FIXTURE(f);

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(pod_definition_done) PodDefinition d = {};

                int r = read_text(&f, cases[i].text, strlen(cases[i].text), &d);
                if (r >= 0)
                        TEST_FAIL("accepted: %s", cases[i].text);
                ASSERT_CONTAINS(f.error.message, "The definition of pod ");
                ASSERT_CONTAINS(f.error.message, cases[i].why);
        }
}

/* Truncated at any position it is refused, without leaks and double frees. */
TEST(every_prefix_is_refused)
{
        static const char *const line[] = {"--volume=/etc:/x:ro",
                                           "--port=8080:80",
                                           "web",
                                           "--memory=1Mi",
                                           "--set-credential=a:b",
                                           "--",
                                           "x",
                                           NULL};
        _cleanup_free_ char *text = NULL;
        FIXTURE(f);

        text = write_line(&f, line);
        ASSERT_NOT_NULL(text);
        for (size_t n = 0; n < strlen(text); n += 7) {
                _cleanup_(pod_definition_done) PodDefinition d = {};

                ASSERT_TRUE(read_text(&f, text, n, &d) < 0);
        }
}

TEST(bounds)
{
        _cleanup_(pod_definition_done) PodDefinition d = {};
        _cleanup_free_ char *large = malloc(MANIFEST_SIZE_MAX + 2), *text = NULL;
        PodRequest q = {};
        FIXTURE(f);

        ASSERT_NOT_NULL(large);
        memset(large, ' ', MANIFEST_SIZE_MAX + 1);
        ASSERT_ERR(read_text(&f, large, MANIFEST_SIZE_MAX + 1, &d), -EFBIG);
        ASSERT_CONTAINS(f.error.message, "Cannot read the file 'definition'");
        memset(large, 'x', MANIFEST_SIZE_MAX);
        large[MANIFEST_SIZE_MAX] = 0;
        ASSERT_OK(pair_list_set(&q.user_labels, "large", large));
        q.apps = calloc(1, sizeof(AppOverrides));
        q.n_apps = 1;
        q.apps[0].reference = strdup("web");
        text = write_request(&f, &q);
        ASSERT_NULL(text);
        ASSERT_CONTAINS(f.error.message, "is larger than 4194304 bytes");
        pod_request_done(&q);
}

TEST(pods_without_one)
{
        _cleanup_(pod_definition_done) PodDefinition d = {};
        _cleanup_(pod_freep) Pod *p = NULL;
        FIXTURE(f);

        ASSERT_OK(new_pod(&f, &p));
        ASSERT_ERR(pod_definition_read(p, &d, &f.error), -ENOENT);
        ASSERT_CONTAINS(f.error.message, "has no recorded definition");
        pod_abandon(p);
}

/* The keys in which two command lines differ, joined; of their first apps, or (POD) of the rest. To be freed. */
static char *compare_lines(const char *const *a, const char *const *b, bool pod)
{
        _cleanup_pod_arguments_ PodArguments x, y;
        _cleanup_strv_free_ char **keys = NULL;
        Context c = {.verb = &verb_prepare};

        pod_arguments_init(&x);
        pod_arguments_init(&y);
        if (pod_arguments_parse(&c, NULL, NULL, (int) strv_length((char **) a), (char **) a, &x) != 1 ||
            pod_arguments_parse(&c, NULL, NULL, (int) strv_length((char **) b), (char **) b, &y) != 1 ||
            pod_request_separate(&x.request) < 0 || pod_request_separate(&y.request) < 0)
                return NULL;
        int r = pod ? pod_request_compare(&x.request, &y.request, &keys)
                    : app_overrides_compare(&x.request.apps[0], &y.request.apps[0], &keys);
        return r < 0 ? NULL : strv_join(keys, " ");
}

#define LINE(...) ((const char *const[]){__VA_ARGS__, NULL})

TEST(differences)
{
        const struct {
                const char *const *a, *const *b;
                const char *app, *pod;
        } cases[] = {
                        {LINE("a.aci"), LINE("b.aci"), "", ""},
                        {LINE("a.aci", "--exec=x"), LINE("a.aci", "--exec=y"), "exec", ""},
                        {LINE("a.aci", "--user=1"), LINE("a.aci"), "user", ""},
                        {LINE("a.aci"), LINE("a.aci", "--restart=always", "--environment=A=b"),
                         "annotations/acnspawn/restart environment", ""},
                        /* In whatever way an amount is written, or an option given. */
                        {LINE("a.aci", "--memory=64Mi"), LINE("a.aci", "--memory=65536Ki"), "", ""},
                        {LINE("a.aci", "--memory=64Mi", "--cpu=1"), LINE("a.aci", "--memory=65Mi"),
                         "isolators/resource/cpu isolators/resource/memory", ""},
                        {LINE("--environment=A=b", "a.aci"), LINE("a.aci", "--environment=A=b"), "", ""},
                        /* A volume that is new is the matter of the app that mounts it. */
                        {LINE("--volume=v,kind=empty", "a.aci", "--mount=v:/v"), LINE("a.aci"), "mounts",
                         ""},
                        {LINE("--volume=v,kind=empty", "a.aci", "--mount=v:/v"),
                         LINE("--volume=v,kind=empty,mode=700", "a.aci", "--mount=v:/v"), "", "volumes/v"},
                        {LINE("--net=default", "--port=80:81", "a.aci"), LINE("a.aci"), "", "ports"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_free_ char *app = compare_lines(cases[i].a, cases[i].b, false);
                _cleanup_free_ char *pod = compare_lines(cases[i].a, cases[i].b, true);
                _cleanup_free_ char *back = compare_lines(cases[i].b, cases[i].a, false);
                ASSERT_STREQ(app, cases[i].app);
                ASSERT_STREQ(back, cases[i].app);
                ASSERT_STREQ(pod, cases[i].pod);
        }
}

TEST(the_request_for_one_app)
{
        _cleanup_error_ Error e = ERROR_NULL;
        char *args[] = {(char *) "-x", (char *) "a\xff", NULL};
        AppOverrides app = {.reference = (char *) "example.com/web", .user = (char *) "7", .args = args};
        const PodRequest q = {.apps = &app, .n_apps = 1};
        _cleanup_json_ json_object *o = NULL;
        PodDefinition d = {};

        ASSERT_OK(app_request_format(&q, &o, &e));
        ASSERT_OK(app_request_parse(o, &d, &e));
        ASSERT_EQ(d.request.n_apps, 1);
        ASSERT_NULL(d.request.apps[0].name); /* it follows from the image */
        ASSERT_STREQ(d.request.apps[0].reference, "example.com/web");
        ASSERT_STREQ(d.request.apps[0].user, "7");
        ASSERT_STREQ(d.request.apps[0].args[1], "a\xff");
        pod_definition_done(&d);

        static const char *const bad[] = {"[]",
                                          "{}",
                                          "{\"apps\":[]}",
                                          "{\"apps\":[{}]}",
                                          "{\"apps\":[{\"image\":\"a\"},{\"image\":\"b\"}]}",
                                          "{\"apps\":[{\"image\":\"a\",\"x\":1}]}",
                                          ("{\"apps\":[{\"image\":\"a\"}],\"images\":[{\"app\":\"a\",\"id\":"
                                           "\"b\",\"name\":\"c\"}]}")};
        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                json_object *x = json_tokener_parse(bad[i]);
                error_done(&e);
                ASSERT_ERR(app_request_parse(x, &d, &e), -EINVAL);
                ASSERT_CONTAINS(e.message, "The description of the app is not valid");
                pod_definition_done(&d);
                json_object_put(x);
        }
}

TEST(the_request_for_a_pod)
{
        static const char *const good[] = {"{}", "{\"apps\":[{\"image\":\"a\"},{\"image\":\"b\"}]}"};
        static const char *const bad[] = {
                        "[]",
                        "{\"apps\":[{}]}",
                        "{\"apps\":[],\"version\":1}",
                        ("{\"isolators\":[{\"name\":\"resource/tasks\",\"value\":{\"limit\":"
                         "\"5\"},\"configured\":true}]}"),
                        ("{\"apps\":[{\"image\":\"a\",\"isolators\":[{\"name\":\"resource/"
                         "tasks\",\"value\":{\"limit\":\"5\"},\"configured\":true}]}]}"),
                        ("{\"apps\":[{\"image\":\"a\"}],\"images\":[{\"app\":\"a\",\"id\":"
                         "\"b\",\"name\":\"c\"}]}"),
                        ("{\"apps\":[{\"image\":\"a\"}],\"podManifest\":{\"acVersion\":"
                         "\"0.8.11\",\"acKind\":"
                         "\"PodManifest\",\"apps\":[]}}")};

        for (size_t i = 0; i < ELEMENTSOF(good) + ELEMENTSOF(bad); i++) {
                bool is_good = i < ELEMENTSOF(good);
                _cleanup_json_ json_object *o =
                                json_tokener_parse(is_good ? good[i] : bad[i - ELEMENTSOF(good)]);
                _cleanup_(pod_definition_done) PodDefinition d = {};
                _cleanup_error_ Error e = ERROR_NULL;

                int r = pod_request_parse(o, &d, &e);
                ASSERT_EQ(r, is_good ? 0 : -EINVAL);
                if (!is_good)
                        ASSERT_CONTAINS(e.message, "The description of the pod is not valid");
        }
}

int main(void)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;

        if (scratch_new(&s) < 0 ||
            scratch_file(&s, "profile", "{\"defaultAction\": \"SCMP_ACT_ALLOW\"}\n") < 0)
                return EXIT_FAILURE;
        snprintf(profile_path, sizeof(profile_path), "%s/profile", s.path);
        RUN(every_option_is_recorded);
        RUN(all_options_together);
        RUN(bytes_and_empty_lists);
        RUN(secrets_are_not_written);
        RUN(pipes_are_no_files);
        RUN(references_hold_anywhere);
        RUN(template);
        RUN(without_apps);
        RUN(damage);
        RUN(every_prefix_is_refused);
        RUN(bounds);
        RUN(pods_without_one);
        RUN(differences);
        RUN(the_request_for_one_app);
        RUN(the_request_for_a_pod);
        return TEST_END();
}
