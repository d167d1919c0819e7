/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* prepare/pods/reify*.c: from requests to reified pod manifests and pod directories. */

#include <sys/file.h>
#include <sys/stat.h>

#include "prepare/pods/reify-internal.h"
#include "tests/unit/aci.h"
#include "tests/unit/scratch.h"
#include "tests/unit/test.h"

/* --- Help ---------------------------------------------------------------------------------------------- */

typedef struct Fixture {
        Scratch dir;
        Store *store;
        Pod *pod;
        PodRequest request;
        ExitPolicy exit_policy;
        char **warnings;
        Error e;
} Fixture;

#define FIXTURE_NULL                                                                                        \
        {                                                                                                   \
                .dir = SCRATCH_NULL                                                                         \
        }

static void fixture_done(Fixture *f)
{
        pod_free(f->pod);
        pod_request_done(&f->request);
        store_unref(f->store);
        strv_free(f->warnings);
        error_done(&f->e);
        scratch_done(&f->dir);
}

static int fixture_new(Fixture *f)
{
        _cleanup_free_ char *path = NULL;

        int r = scratch_new(&f->dir);
        if (r >= 0)
                r = xasprintf(&path, "%s/store", f->dir.path);
        return r < 0 ? r : store_open_with_flags(path, STORE_UNPRIVILEGED, NULL, &f->store, &f->e);
}

#define FIXTURE(f)                                                                                          \
        _cleanup_(fixture_done) Fixture f = FIXTURE_NULL;                                                   \
        ASSERT_OK(fixture_new(&f))

/* An image of that name with MORE in its manifest. Returns its ID, which stays valid until the next
 * call. */
static const char *import(Fixture *f, const char *name, const char *more)
{
        static const char *const files[] = {"rootfs/file", "content", NULL};
        static char id[IMAGE_ID_LENGTH + 1];
        _cleanup_(image_freep) Image *i = NULL;
        _cleanup_free_ char *manifest = NULL;

        if (xasprintf(&manifest, "{\"acKind\":\"ImageManifest\",\"acVersion\":\"0.8.11\",\"name\":\"%s\"%s}",
                      name, more) < 0 ||
            aci_import_files(f->store, manifest, files, &i, &f->e) < 0)
                return NULL;
        snprintf(id, sizeof(id), "%s", i->id);
        return id;
}

#define APP(more) ",\"app\":{\"exec\":[\"/bin/web\",\"-a\"],\"user\":\"1\",\"group\":\"2\"" more "}"
#define POINT(name, path, more) "{\"name\":\"" name "\",\"path\":\"" path "\"" more "}"
#define POINTS(points) APP(",\"mountPoints\":[" points "]")

/* A further app of the request. */
static AppOverrides *add_app(Fixture *f, const char *reference)
{
        PodRequest *q = &f->request;

        if (GREEDY_REALLOC(q->apps, q->apps_allocated, q->n_apps + 1) < 0)
                abort();
        q->apps[q->n_apps] = (AppOverrides){.reference = strdup(reference)};
        return &q->apps[q->n_apps++];
}

static Volume *add_volume(Fixture *f, const char *name, const char *source)
{
        PodRequest *q = &f->request;

        if (GREEDY_REALLOC(q->volumes, q->volumes_allocated, q->n_volumes + 1) < 0)
                abort();
        q->volumes[q->n_volumes] = (Volume){.name = strdup(name),
                                            .kind = source ? VOLUME_HOST : VOLUME_EMPTY,
                                            .source = source ? strdup(source) : NULL,
                                            .mode = source ? 0 : 0755};
        return &q->volumes[q->n_volumes++];
}

/* A volume that shows a path of the scratch directory. */
static void add_host_volume(Fixture *f, const char *name, const char *relative)
{
        _cleanup_free_ char *path = NULL;

        if (xasprintf(&path, "%s/%s", f->dir.path, relative) < 0)
                abort();
        (void) add_volume(f, name, path);
}

static void add_mount(Fixture *f, const char *volume, const char *path)
{
        PodRequest *q = &f->request;

        if (GREEDY_REALLOC(q->mounts, q->mounts_allocated, q->n_mounts + 1) < 0)
                abort();
        q->mounts[q->n_mounts++] = (Mount){.volume = strdup(volume), .path = strdup(path)};
}

static void add_isolator(IsolatorList *l, const char *name, const char *value)
{
        if (GREEDY_REALLOC(l->items, l->allocated, l->n + 1) < 0 ||
            isolator_parse(name, value, &l->items[l->n++], NULL) < 0)
                abort();
}

static void set_template(Fixture *f, const char *text)
{
        if (pod_manifest_parse(text, strlen(text), &f->request.template, NULL, &f->e) < 0)
                abort();
}

#define TEMPLATE(apps, more)                                                                                \
        "{\"acVersion\":\"0.8.11\",\"acKind\":\"PodManifest\",\"apps\":[" apps "]" more "}"

static int reify(Fixture *f)
{
        f->pod = pod_free(f->pod);
        f->warnings = strv_free(f->warnings);
        int r = pod_new(f->store, &f->pod, &f->e);
        if (r >= 0) {
                f->pod->config.exit_policy = f->exit_policy;
                r = pod_allocate_uids(f->pod, &f->e);
        }
        return r < 0 ? r : pod_reify(f->pod, &f->request, &f->warnings, &f->e);
}

static char *file_content(Fixture *f, const char *path)
{
        char *text = NULL;

        return read_file_at(f->pod->dir_fd, path, 1 << 20, &text, NULL) < 0 ? NULL : text;
}

static const Mount *find_mount(const PodApp *a, const char *path)
{
        for (size_t i = 0; i < a->n_mounts; i++)
                if (streq(a->mounts[i].path, path))
                        return &a->mounts[i];
        return NULL;
}

/* --- Apps ---------------------------------------------------------------------------------------------- */

TEST(simple)
{
        FIXTURE(f);
        _cleanup_free_ char *manifest = NULL, *lowers = NULL, *expected = NULL, *text = NULL, *text2 = NULL;
        _cleanup_(pod_freep) Pod *again = NULL;
        struct stat st;

        const char *id = import(&f, "example.com/web", ACI_VERSION("1.0") APP(""));
        ASSERT_NOT_NULL(id);
        (void) add_app(&f, "example.com/web");
        ASSERT_OK(reify(&f));
        ASSERT_EQ(f.pod->manifest->n_apps, 1);
        const PodApp *a = f.pod->manifest->apps[0];
        ASSERT_STREQ(a->name, "web");
        ASSERT_STREQ(a->image_id, id);
        ASSERT_STREQ(a->image_name, "example.com/web");
        ASSERT_STREQ(pair_list_get(&a->image_labels, "version"), "1.0");
        ASSERT_STREQ(a->app->exec[1], "-a");
        ASSERT_STREQ(a->app->user, "1");
        ASSERT_EQ(strv_length(f.warnings), 0);

        manifest = file_content(&f, "apps/web/manifest");
        ASSERT_CONTAINS(manifest, "{\"acKind\":\"ImageManifest\"");
        lowers = file_content(&f, "apps/web/lowers");
        ASSERT_OK(xasprintf(&expected, "%s/images/%s/rootfs\n", store_path(f.store), id));
        ASSERT_STREQ(lowers, expected);
        ASSERT_OK(fstatat(f.pod->dir_fd, "apps/web/upper", &st, AT_SYMLINK_NOFOLLOW));
        ASSERT_EQ(st.st_mode, S_IFDIR | 0755);
        ASSERT_OK(fstatat(f.pod->dir_fd, "apps/web/work", &st, AT_SYMLINK_NOFOLLOW));
        ASSERT_EQ(st.st_mode, S_IFDIR | 0755);

        ASSERT_OK(pod_publish(f.pod, &f.e));
        ASSERT_OK(pod_find(f.store, f.pod->uuid, &again, &f.e));
        ASSERT_NOT_NULL(again->manifest);
        ASSERT_OK(pod_manifest_format(f.pod->manifest, &text));
        ASSERT_OK(pod_manifest_format(again->manifest, &text2));
        ASSERT_STREQ(text, text2);
}

TEST(owners)
{
        FIXTURE(f);
        struct stat st;

        if (geteuid() != 0)
                TEST_SKIP("only root can give files away");
        ASSERT_NOT_NULL(import(&f, "example.com/web", POINTS(POINT("data", "/data", ""))));
        (void) add_app(&f, "example.com/web");
        Volume *v = add_volume(&f, "data", NULL);
        v->uid = 7;
        v->gid = 65535;
        v->mode = 03770;
        ASSERT_OK(reify(&f));
        uint32_t base = f.pod->config.uid_base;
        ASSERT_OK(fstatat(f.pod->dir_fd, "apps/web/upper", &st, 0));
        ASSERT_EQ(st.st_uid, base);
        ASSERT_EQ(st.st_gid, base);
        ASSERT_OK(fstatat(f.pod->dir_fd, "volumes/data", &st, 0));
        ASSERT_EQ(st.st_uid, base + 7);
        ASSERT_EQ(st.st_gid, base + 65535);
        ASSERT_EQ(st.st_mode & 07777, 03770);

        f.pod = pod_free(f.pod);
        ASSERT_OK(pod_new(f.store, &f.pod, &f.e));
        f.pod->config.private_users = false;
        ASSERT_OK(pod_allocate_uids(f.pod, &f.e));
        ASSERT_OK(pod_reify(f.pod, &f.request, NULL, &f.e));
        ASSERT_OK(fstatat(f.pod->dir_fd, "volumes/data", &st, 0));
        ASSERT_EQ(st.st_uid, 7);
}

TEST(names)
{
        FIXTURE(f);
        char long_name[APP_NAME_MAX + 2];

        ASSERT_NOT_NULL(import(&f, "example.com/web", APP("")));
        (void) add_app(&f, "example.com/web");
        (void) add_app(&f, "example.com/web");
        ASSERT_ERR(reify(&f), -EEXIST);
        ASSERT_CONTAINS(f.e.message, "'web'");
        ASSERT_CONTAINS(f.e.hint, "--name=");
        f.request.apps[1].name = strdup("other");
        ASSERT_OK(reify(&f));
        ASSERT_STREQ(f.pod->manifest->apps[1]->name, "other");
        free(f.request.apps[1].name);
        f.request.apps[1].name = strdup("../x");
        ASSERT_ERR(reify(&f), -EINVAL);
        ASSERT_CONTAINS(f.e.message, "example.com/web");
        memset(long_name, 'a', sizeof(long_name) - 1);
        long_name[sizeof(long_name) - 1] = 0;
        free(f.request.apps[1].name);
        f.request.apps[1].name = strdup(long_name);
        ASSERT_ERR(reify(&f), -ENAMETOOLONG);
        f.request.apps[1].name[APP_NAME_MAX] = 0;
        ASSERT_OK(reify(&f));
}

TEST(exec)
{
        FIXTURE(f);

        ASSERT_NOT_NULL(import(&f, "example.com/web", APP("")));
        AppOverrides *o = add_app(&f, "example.com/web");
        ASSERT_OK(strv_extend(&o->args, "x y"));
        ASSERT_OK(reify(&f));
        const App *a = f.pod->manifest->apps[0]->app;
        ASSERT_EQ(strv_length(a->exec), 3);
        ASSERT_STREQ(a->exec[0], "/bin/web");
        ASSERT_STREQ(a->exec[2], "x y");
        ASSERT_OK(strv_extend(&o->exec, "sh"));
        ASSERT_OK(reify(&f));
        a = f.pod->manifest->apps[0]->app;
        ASSERT_EQ(strv_length(a->exec), 2);
        ASSERT_STREQ(a->exec[0], "sh");
        ASSERT_STREQ(a->exec[1], "x y");
}

TEST(no_exec)
{
        FIXTURE(f);

        ASSERT_NOT_NULL(import(&f, "example.com/base", ""));
        AppOverrides *o = add_app(&f, "example.com/base");
        ASSERT_ERR(reify(&f), -ENOEXEC);
        ASSERT_CONTAINS(f.e.message, "app base");
        ASSERT_CONTAINS(f.e.hint, "--exec=");
        ASSERT_OK(strv_extend(&o->exec, "/bin/sh"));
        ASSERT_OK(reify(&f));
        ASSERT_STREQ(f.pod->manifest->apps[0]->app->user, "0");
        ASSERT_STREQ(f.pod->manifest->apps[0]->app->group, "0");
}

TEST(overrides)
{
        FIXTURE(f);

        ASSERT_NOT_NULL(import(&f, "example.com/web",
                               APP(",\"environment\":[{\"name\":\"A\",\"value\":\"image\"},{\"name\":\"B\","
                                   "\"value\":\"image\"},"
                                   "{\"name\":\"C\",\"value\":\"image\"}],\"supplementaryGIDs\":[5,6],"
                                   "\"workingDirectory\":\"/image\"")));
        AppOverrides *o = add_app(&f, "example.com/web");
        ASSERT_OK(pair_list_set(&f.request.environment, "B", "pod"));
        ASSERT_OK(pair_list_set(&f.request.environment, "C", "pod"));
        ASSERT_OK(pair_list_set(&o->environment, "C", "app"));
        ASSERT_OK(pair_list_set(&o->environment, "D", "app"));
        ASSERT_OK(pair_list_set(&o->annotations, "x", "1"));
        ASSERT_OK(pair_list_set(&o->user_annotations, "X Y", "2"));
        ASSERT_OK(pair_list_set(&o->user_labels, "Z", "3"));
        ASSERT_OK(pair_list_set(&f.request.annotations, "pod", "4"));
        ASSERT_OK(pair_list_set(&f.request.user_labels, "Pod", "5"));
        o->user = strdup("root");
        o->working_directory = strdup("//a/./b/");
        o->read_only_rootfs = true;
        o->supplementary_gids = calloc(1, sizeof(uint32_t));
        o->supplementary_gids[0] = 9;
        o->n_supplementary_gids = 1;
        ASSERT_OK(reify(&f));
        const PodApp *p = f.pod->manifest->apps[0];
        const App *a = p->app;
        ASSERT_STREQ(pair_list_get(&a->environment, "A"), "image");
        ASSERT_STREQ(pair_list_get(&a->environment, "B"), "pod");
        ASSERT_STREQ(pair_list_get(&a->environment, "C"), "app");
        ASSERT_STREQ(pair_list_get(&a->environment, "D"), "app");
        ASSERT_STREQ(pair_list_get(&p->annotations, "x"), "1");
        ASSERT_STREQ(pair_list_get(&a->user_annotations, "X Y"), "2");
        ASSERT_STREQ(pair_list_get(&a->user_labels, "Z"), "3");
        ASSERT_STREQ(pair_list_get(&f.pod->manifest->annotations, "pod"), "4");
        ASSERT_STREQ(pair_list_get(&f.pod->manifest->user_labels, "Pod"), "5");
        ASSERT_STREQ(a->user, "root");
        ASSERT_STREQ(a->group, ":user"); /* of that user, not the image's */
        ASSERT_STREQ(a->working_directory, "/a/b");
        ASSERT_TRUE(p->read_only_rootfs);
        ASSERT_EQ(a->n_supplementary_gids, 1);
        ASSERT_EQ(a->supplementary_gids[0], 9);
        ASSERT_OK(pod_publish(f.pod, &f.e));
}

/* Those of the image are the groups of its user. */
TEST(groups_of_another_user)
{
        FIXTURE(f);

        ASSERT_NOT_NULL(import(&f, "example.com/web", APP(",\"supplementaryGIDs\":[5,6]")));
        AppOverrides *o = add_app(&f, "example.com/web");
        o->user = strdup("1000");
        ASSERT_OK(reify(&f));
        const App *a = f.pod->manifest->apps[0]->app;
        ASSERT_STREQ(a->group, ":user");
        ASSERT_EQ(a->n_supplementary_gids, 0);
        ASSERT_OK(pod_publish(f.pod, &f.e));
}

TEST(overrides_refused)
{
        FIXTURE(f);

        ASSERT_NOT_NULL(import(&f, "example.com/web", APP("")));
        AppOverrides *o = add_app(&f, "example.com/web");
        o->working_directory = strdup("a");
        ASSERT_ERR(reify(&f), -EINVAL);
        ASSERT_CONTAINS(f.e.message, "working directory of app web");
        free(o->working_directory);
        o->working_directory = strdup("/a/../b");
        ASSERT_ERR(reify(&f), -EINVAL);
        free(o->working_directory);
        o->working_directory = NULL;
        ASSERT_OK(pair_list_set(&o->environment, "A=B", ""));
        ASSERT_ERR(reify(&f), -EINVAL);
        ASSERT_CONTAINS(f.e.message, "environment of app web");
}

static const Isolator *find_isolator(const IsolatorList *l, const char *name)
{
        for (size_t i = 0; i < l->n; i++)
                if (streq(l->items[i].name, name))
                        return &l->items[i];
        return NULL;
}

TEST(isolators)
{
        FIXTURE(f);

        ASSERT_NOT_NULL(import(
                        &f, "example.com/web",
                        APP(",\"isolators\":[{\"name\":\"resource/memory\",\"value\":{\"limit\":\"1G\"}},"
                            "{\"name\":\"resource/cpu\",\"value\":{\"limit\":\"250m\"}},"
                            "{\"name\":\"os/linux/"
                            "capabilities-retain-set\",\"value\":{\"set\":[\"CAP_KILL\"]}},"
                            "{\"name\":\"example.com/unknown\",\"value\":7}]")));
        AppOverrides *o = add_app(&f, "example.com/web");
        add_isolator(&o->isolators, "resource/memory", "{\"limit\":\"2G\"}");
        add_isolator(&o->isolators, "os/linux/capabilities-remove-set", "{\"set\":[\"CAP_CHOWN\"]}");
        add_isolator(&f.request.isolators, "resource/memory", "{\"limit\":\"3G\"}");
        ASSERT_OK(reify(&f));
        const IsolatorList *l = &f.pod->manifest->apps[0]->app->isolators;
        ASSERT_EQ(l->n, 4);
        ASSERT_EQ(find_isolator(l, "resource/memory")->limit, 2000000000);
        ASSERT_EQ(find_isolator(l, "resource/cpu")->limit, 250);
        ASSERT_NULL(find_isolator(l, "os/linux/capabilities-retain-set"));
        ASSERT_STREQ(find_isolator(l, "os/linux/capabilities-remove-set")->set[0], "CAP_CHOWN");
        ASSERT_NOT_NULL(find_isolator(l, "example.com/unknown"));
        ASSERT_EQ(find_isolator(&f.pod->manifest->isolators, "resource/memory")->limit, 3000000000);
        ASSERT_OK(pod_publish(f.pod, &f.e));

        add_isolator(&o->isolators, "os/linux/capabilities-retain-set", "{\"set\":[\"CAP_KILL\"]}");
        ASSERT_ERR(reify(&f), -EINVAL);
        ASSERT_CONTAINS(f.e.message, "exclude each other");
        ASSERT_CONTAINS(f.e.message, "web");
}

/* Milli-cores of an image from before 0.7.0 mean the same in the pod manifest, which is newer. */
/* The image's limit of swap is not one of the limit of memory that is given in place of the image's. */
TEST(swap_of_images)
{
        FIXTURE(f);

        ASSERT_NOT_NULL(import(&f, "example.com/web",
                               APP(",\"isolators\":[{\"name\":\"os/linux/cgroup\",\"value\":"
                                   "{\"memory.swap.max\":\"max\",\"cpuset.cpus\":\"0\"}}]")));
        AppOverrides *o = add_app(&f, "example.com/web");
        ASSERT_OK(reify(&f));
        const Isolator *i = find_isolator(&f.pod->manifest->apps[0]->app->isolators, "os/linux/cgroup");
        ASSERT_STREQ(pair_list_get(&i->cgroup, "memory.swap.max"), "max");
        add_isolator(&o->isolators, "resource/memory", "{\"limit\":\"1G\"}");
        ASSERT_OK(reify(&f));
        i = find_isolator(&f.pod->manifest->apps[0]->app->isolators, "os/linux/cgroup");
        ASSERT_NULL(pair_list_get(&i->cgroup, "memory.swap.max"));
        ASSERT_STREQ(pair_list_get(&i->cgroup, "cpuset.cpus"), "0");
        add_isolator(&o->isolators, "os/linux/cgroup", "{\"memory.swap.max\":\"4096\"}");
        ASSERT_OK(reify(&f));
        i = find_isolator(&f.pod->manifest->apps[0]->app->isolators, "os/linux/cgroup");
        ASSERT_STREQ(pair_list_get(&i->cgroup, "memory.swap.max"), "4096");
}

TEST(isolators_of_old_images)
{
        static const char manifest[] =
                        "{\"acKind\":\"ImageManifest\",\"acVersion\":\"0.5.2\",\"name\":\"example.com/"
                        "old\"" APP(",\"isolators\":[{\"name\":\"resource/"
                                    "cpu\",\"value\":{\"request\":\"250\",\"limit\":\"250\"}}]") "}";
        static const char *const files[] = {"rootfs/file", "content", NULL};
        FIXTURE(f);
        _cleanup_(image_freep) Image *i = NULL;
        _cleanup_(pod_freep) Pod *p = NULL;

        ASSERT_OK(aci_import_files(f.store, manifest, files, &i, &f.e));
        (void) add_app(&f, "example.com/old");
        ASSERT_OK(reify(&f));
        ASSERT_OK(pod_publish(f.pod, &f.e));
        ASSERT_OK(pod_find(f.store, f.pod->uuid, &p, &f.e));
        ASSERT_STREQ(p->manifest->ac_version, SCHEMA_VERSION);
        ASSERT_EQ(find_isolator(&p->manifest->apps[0]->app->isolators, "resource/cpu")->limit, 250);
}

TEST(platforms)
{
        FIXTURE(f);

        ASSERT_NOT_NULL(import(&f, "example.com/bsd",
                               ",\"labels\":[{\"name\":\"os\",\"value\":\"freebsd\"},{\"name\":\"arch\","
                               "\"value\":\"amd64\"}]" APP("")));
        (void) add_app(&f, "example.com/bsd");
        ASSERT_ERR(reify(&f), -EPROTONOSUPPORT);
        ASSERT_CONTAINS(f.e.message, "freebsd");
        pod_request_done(&f.request);
        ASSERT_NOT_NULL(import(&f, "example.com/s390",
                               ",\"labels\":[{\"name\":\"os\",\"value\":\"linux\"},{\"name\":\"arch\","
                               "\"value\":\"s390x\"}]" APP("")));
        (void) add_app(&f, "example.com/s390");
        ASSERT_OK(reify(&f));
        if (!streq(host_arch_label(), "s390x")) {
                ASSERT_EQ(strv_length(f.warnings), 1);
                ASSERT_CONTAINS(f.warnings[0], "s390x");
        }
}

TEST(requests_refused)
{
        FIXTURE(f);

        ASSERT_ERR(reify(&f), -EINVAL);
        ASSERT_CONTAINS(f.e.message, "at least one app");
        ASSERT_CONTAINS(f.e.hint, "acnspawn run");
        (void) add_app(&f, "example.com/web");
        ASSERT_ERR(reify(&f), -ENOENT);
        ASSERT_CONTAINS(f.e.message, "example.com/web");
        set_template(&f, TEMPLATE("", ""));
        ASSERT_ERR(reify(&f), -EINVAL);
        ASSERT_CONTAINS(f.e.message, "not from both");
}

static void check_empty_pod(Fixture *f)
{
        ASSERT_OK(reify(f));
        ASSERT_EQ(f->pod->manifest->n_apps, 0);
        ASSERT_EQ(faccessat(f->pod->dir_fd, "apps", F_OK, 0), 0);
        ASSERT_OK(pod_publish(f->pod, &f->e));
        ASSERT_OK(pod_load(f->pod, &f->e)); /* as it was written */
        ASSERT_EQ(f->pod->manifest->n_apps, 0);
        ASSERT_EQ(f->pod->config.exit_policy, f->exit_policy);
}

/* Only a pod that does not end when nothing runs in it. */
TEST(pods_without_apps)
{
        FIXTURE(f);

        for (int by_manifest = 0; by_manifest < 2; by_manifest++) {
                if (by_manifest)
                        set_template(&f, TEMPLATE("", ",\"userLabels\":{\"x\":\"y\"}"));
                for (ExitPolicy p = 0; p < _EXIT_POLICY_MAX; p++) {
                        f.exit_policy = p;
                        if (exit_policy_is_open(p)) {
                                check_empty_pod(&f);
                                continue;
                        }
                        ASSERT_ERR(reify(&f), -EINVAL);
                        ASSERT_CONTAINS(f.e.message, "A pod needs at least one app, and none was given");
                        ASSERT_CONTAINS(f.e.hint, by_manifest ? "under 'apps'" : "acnspawn run");
                        ASSERT_CONTAINS(f.e.hint,
                                        "With --exit-policy=never or tasks a pod can be without apps.");
                        error_done(&f.e);
                }
        }
        ASSERT_STREQ(pair_list_get(&f.pod->manifest->user_labels, "x"), "y");
}

/* --- Volumes ------------------------------------------------------------------------------------------- */

TEST(host_volume)
{
        FIXTURE(f);

        ASSERT_NOT_NULL(import(&f, "example.com/web",
                               POINTS(POINT("data", "/var/data", ",\"readOnly\":true"))));
        (void) add_app(&f, "example.com/web");
        ASSERT_OK(scratch_dir(&f.dir, "srv"));
        add_host_volume(&f, "data", "./srv//");
        ASSERT_OK(reify(&f));
        ASSERT_EQ(strv_length(f.warnings), 0);
        const PodManifest *m = f.pod->manifest;
        ASSERT_EQ(m->n_volumes, 1);
        ASSERT_NOT_NULL(endswith(m->volumes[0].source, "/srv"));
        ASSERT_EQ(m->apps[0]->n_mounts, 1);
        ASSERT_STREQ(m->apps[0]->mounts[0].volume, "data");
        ASSERT_STREQ(m->apps[0]->mounts[0].path, "/var/data");
        ASSERT_TRUE(m->apps[0]->app->mount_points[0].read_only);
        ASSERT_OK(pod_publish(f.pod, &f.e));
}

TEST(host_volume_refused)
{
        static const struct {
                const char *source; /* below the scratch directory, or as it is */
                int code;
                const char *why;
        } cases[] = {
                        {"missing", -ENOENT, "No such file"},
                        {"link", -ELOOP, "/link is a symbolic link"},
                        {"link/sub", -ELOOP, "/link is a symbolic link"},
                        {"srv/inner", -ELOOP, "/srv/inner is a symbolic link"},
                        {"file/x", -ENOTDIR, "Not a directory"},
                        {"srv/../srv", -EINVAL, "without '..'"},
        };
        FIXTURE(f);

        ASSERT_NOT_NULL(import(&f, "example.com/web", APP("")));
        (void) add_app(&f, "example.com/web");
        ASSERT_OK(scratch_dir(&f.dir, "srv"));
        ASSERT_OK(scratch_dir(&f.dir, "srv/sub"));
        ASSERT_OK(scratch_symlink(&f.dir, "link", "srv"));
        ASSERT_OK(scratch_symlink(&f.dir, "srv/inner", "sub"));
        ASSERT_OK(scratch_file(&f.dir, "file", ""));
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                add_host_volume(&f, "data", cases[i].source);
                ASSERT_ERR(reify(&f), cases[i].code);
                ASSERT_CONTAINS(f.e.message, "'data'");
                ASSERT_CONTAINS(f.e.message, cases[i].why);
                volume_done(&f.request.volumes[--f.request.n_volumes]);
        }
        (void) add_volume(&f, "data", "relative");
        ASSERT_ERR(reify(&f), -EINVAL);
        ASSERT_CONTAINS(f.e.message, "absolute");
        volume_done(&f.request.volumes[--f.request.n_volumes]);
        (void) add_volume(&f, "data", "/\xff");
        ASSERT_ERR(reify(&f), -EILSEQ);
        volume_done(&f.request.volumes[--f.request.n_volumes]);
        add_host_volume(&f, "data", "file");
        ASSERT_OK(reify(&f));
        ASSERT_CONTAINS(f.warnings[0], "'data' is not used");
}

TEST(empty_volume)
{
        FIXTURE(f);
        struct stat st;

        ASSERT_NOT_NULL(import(&f, "example.com/web", APP("")));
        (void) add_app(&f, "example.com/web");
        Volume *v = add_volume(&f, "data", NULL);
        v->mode = 01777;
        add_mount(&f, "data", "/tmp//data/");
        ASSERT_OK(reify(&f));
        ASSERT_STREQ(f.pod->manifest->apps[0]->mounts[0].path, "/tmp/data");
        ASSERT_OK(fstatat(f.pod->dir_fd, "volumes/data", &st, 0));
        ASSERT_EQ(st.st_mode, S_IFDIR | 01777);
        v = &f.request.volumes[0];
        v->uid = 65536;
        ASSERT_ERR(reify(&f), -ERANGE);
        ASSERT_CONTAINS(f.e.message, "user 65536");
        v->uid = 0;
        v->mode = 010000;
        ASSERT_ERR(reify(&f), -EINVAL);
        v->mode = 0755;
        free(v->name);
        v->name = strdup("..");
        ASSERT_ERR(reify(&f), -EINVAL);
}

TEST(volume_names)
{
        FIXTURE(f);

        ASSERT_NOT_NULL(import(&f, "example.com/web", APP("")));
        (void) add_app(&f, "example.com/web");
        add_mount(&f, "logs", "/logs");
        ASSERT_ERR(reify(&f), -ENOENT);
        ASSERT_CONTAINS(f.e.message, "App web");
        ASSERT_CONTAINS(f.e.message, "'logs'");
        ASSERT_CONTAINS(f.e.hint, "--volume=logs,");
        (void) add_volume(&f, "data", NULL);
        (void) add_volume(&f, "cache", NULL);
        ASSERT_ERR(reify(&f), -ENOENT);
        ASSERT_CONTAINS(f.e.hint, "data, cache");
        (void) add_volume(&f, "data", NULL);
        ASSERT_ERR(reify(&f), -EEXIST);
        ASSERT_CONTAINS(f.e.message, "'data'");
}

/* --- Mounts -------------------------------------------------------------------------------------------- */

TEST(implicit_volumes)
{
        FIXTURE(f);

        ASSERT_NOT_NULL(import(&f, "example.com/web",
                               POINTS(POINT("data", "/var/data", "") "," POINT("x", "/x", ""))));
        (void) add_app(&f, "example.com/web");
        add_app(&f, "example.com/web")->name = strdup("two");
        (void) add_volume(&f, "web-data", NULL); /* used by other mounts, too */
        add_mount(&f, "web-data", "/elsewhere");
        ASSERT_OK(reify(&f));
        const PodManifest *m = f.pod->manifest;
        ASSERT_EQ(m->n_volumes, 5);
        ASSERT_STREQ(find_mount(m->apps[0], "/var/data")->volume, "web-data-2");
        ASSERT_STREQ(find_mount(m->apps[1], "/var/data")->volume, "two-data");
        ASSERT_STREQ(find_mount(m->apps[0], "/x")->volume, "web-x");
        ASSERT_EQ(strv_length(f.warnings), 4);
        ASSERT_CONTAINS(f.warnings[0], "App web");
        ASSERT_CONTAINS(f.warnings[0], "'data' (/var/data)");
        ASSERT_CONTAINS(f.warnings[0], "--volume=data,kind=host,source=");
        ASSERT_TRUE(faccessat(f.pod->dir_fd, "volumes/two-data", F_OK, 0) == 0);
        ASSERT_OK(pod_publish(f.pod, &f.e));
}

TEST(satisfied_mount_points)
{
        FIXTURE(f);

        ASSERT_NOT_NULL(import(&f, "example.com/web",
                               POINTS(POINT("data", "/var/data", "") "," POINT("x", "/x", ""))));
        (void) add_app(&f, "example.com/web");
        (void) add_volume(&f, "v", NULL);
        add_mount(&f, "v", "/var/data/."); /* by its path */
        add_mount(&f, "v", "x");           /* by its name */
        ASSERT_OK(reify(&f));
        ASSERT_EQ(f.pod->manifest->n_volumes, 1);
        ASSERT_EQ(f.pod->manifest->apps[0]->n_mounts, 2);
        ASSERT_STREQ(find_mount(f.pod->manifest->apps[0], "/x")->volume, "v");
        ASSERT_EQ(strv_length(f.warnings), 0);
        add_mount(&f, "v", "y");
        ASSERT_ERR(reify(&f), -ENOENT);
        ASSERT_CONTAINS(f.e.message, "\"y\"");
        ASSERT_CONTAINS(f.e.hint, "data, x");
}

TEST(targets_refused)
{
        static const struct {
                const char *path, *why;
        } cases[] = {
                        {"/", "root of the app"},
                        {"//", "root of the app"},
                        {"/proc", "over /proc"},
                        {"/proc/sys", "over /proc"},
                        {"/a/../b", "contains '..'"},
                        {"/\xff", "UTF-8"},
                        {"/data", "both mounted on"},
                        {"/data/sub", NULL},
                        {"/proc/cpuinfo", NULL},
                        {"/dev", NULL},
                        {"/dev/log", NULL},
                        {"/dev/credentials/x", "reserved"},
                        {"/dat/", NULL},
                        {"/data-2/sub", NULL},
        };
        FIXTURE(f);

        ASSERT_NOT_NULL(import(&f, "example.com/web", APP("")));
        (void) add_app(&f, "example.com/web");
        (void) add_volume(&f, "v", NULL);
        (void) add_volume(&f, "w", NULL);
        add_mount(&f, "w", "/data");
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                add_mount(&f, "v", cases[i].path);
                if (cases[i].why) {
                        ASSERT_ERR(reify(&f), -EINVAL);
                        ASSERT_CONTAINS(f.e.message, "pp web");
                        ASSERT_CONTAINS(f.e.message, cases[i].why);
                } else
                        ASSERT_OK(reify(&f));
                mount_done(&f.request.mounts[--f.request.n_mounts]);
        }
}

/* One inside of another is mounted in it, whatever is alphabetically between the two. */
TEST(volumes_in_volumes)
{
        FIXTURE(f);

        ASSERT_NOT_NULL(import(&f, "example.com/web", APP("")));
        (void) add_app(&f, "example.com/web");
        (void) add_volume(&f, "v", NULL);
        add_mount(&f, "v", "/data/sub");
        add_mount(&f, "v", "/data-1");
        add_mount(&f, "v", "/data!");
        add_mount(&f, "v", "/data");
        ASSERT_OK(reify(&f));
        add_mount(&f, "v", "/data/sub");
        ASSERT_ERR(reify(&f), -EINVAL);
        ASSERT_CONTAINS(f.e.message, "volumes 'v' and 'v' are both mounted on /data/sub");
}

/* An image cannot cause mounts at forbidden paths, or long processing times. */
TEST(hostile_mount_points)
{
        FIXTURE(f);
        _cleanup_text_ Text t = {};

        ASSERT_NOT_NULL(import(&f, "example.com/proc", POINTS(POINT("a", "/proc/self", ""))));
        ASSERT_NOT_NULL(import(&f, "example.com/twice",
                               POINTS(POINT("a", "/a", "") "," POINT("b", "/a", ""))));
        (void) add_app(&f, "example.com/proc");
        ASSERT_ERR(reify(&f), -EINVAL);
        ASSERT_CONTAINS(f.e.message, "over /proc");
        pod_request_done(&f.request);
        (void) add_app(&f, "example.com/twice");
        ASSERT_ERR(reify(&f), -EINVAL);
        ASSERT_CONTAINS(f.e.message, "have the same path /a");
        pod_request_done(&f.request);

        text_add(&t, ",\"app\":{\"exec\":[\"x\"],\"user\":\"0\",\"group\":\"0\",\"mountPoints\":[");
        for (unsigned i = 0; i < 600; i++)
                text_addf(&t, "%s{\"name\":\"p%u\",\"path\":\"/p%u\"}", i > 0 ? "," : "", i, i);
        text_add(&t, "]}");
        ASSERT_NOT_NULL(import(&f, "example.com/many", t.data));
        (void) add_app(&f, "example.com/many");
        ASSERT_ERR(reify(&f), -E2BIG);
        ASSERT_CONTAINS(f.e.message, "App many");
}

TEST(hidden_files)
{
        static const char *const files[] = {"rootfs/etc/conf", "x", NULL};
        FIXTURE(f);
        _cleanup_(image_freep) Image *i = NULL;

        ASSERT_OK(aci_import_files(f.store, ACI_MANIFEST("example.com/web", APP("")), files, &i, &f.e));
        (void) add_app(&f, "example.com/web");
        (void) add_volume(&f, "v", NULL);
        add_mount(&f, "v", "/etc");
        ASSERT_OK(reify(&f));
        ASSERT_EQ(strv_length(f.warnings), 1);
        ASSERT_CONTAINS(f.warnings[0], "hides the image's content of /etc");
        free(f.request.mounts[0].path);
        f.request.mounts[0].path = strdup("/var");
        ASSERT_OK(reify(&f));
        ASSERT_EQ(strv_length(f.warnings), 0);
}

/* --- Templates ----------------------------------------------------------------------------------------- */

TEST(template)
{
        FIXTURE(f);

        ASSERT_NOT_NULL(import(&f, "example.com/web", ACI_VERSION("1.0") APP("")));
        ASSERT_NOT_NULL(import(&f, "example.com/web", ACI_VERSION("2.0") APP("")));
        set_template(&f, TEMPLATE("{\"name\":\"one\",\"image\":{\"name\":\"example.com/web\",\"labels\":"
                                  "[{\"name\":\"version\",\"value\":\"1.0\"}]},\"readOnlyRootFS\":true,"
                                  "\"annotations\":[{\"name\":\"a\",\"value\":\"b\"}]},"
                                  "{\"name\":\"two\",\"image\":{\"name\":\"example.com/web\"},"
                                  "\"app\":{\"exec\":[\"other\"],\"user\":\"7\",\"group\":\"8\"}}",
                                  ",\"annotations\":[{\"name\":\"p\",\"value\":\"q\"}],\"userLabels\":{"
                                  "\"X\":\"Y\"},"
                                  "\"isolators\":[{\"name\":\"resource/"
                                  "memory\",\"value\":{\"limit\":\"1G\"}}]"));
        ASSERT_OK(pair_list_set(&f.request.annotations, "p", "replaced"));
        ASSERT_OK(pair_list_set(&f.request.environment, "E", "1"));
        ASSERT_OK(reify(&f));
        const PodManifest *m = f.pod->manifest;
        ASSERT_EQ(m->n_apps, 2);
        ASSERT_STREQ(pair_list_get(&m->apps[0]->image_labels, "version"), "1.0");
        ASSERT_STREQ(m->apps[0]->app->exec[0], "/bin/web");
        ASSERT_TRUE(m->apps[0]->read_only_rootfs);
        ASSERT_STREQ(pair_list_get(&m->apps[0]->annotations, "a"), "b");
        ASSERT_STREQ(pair_list_get(&m->apps[1]->image_labels, "version"), "2.0");
        ASSERT_NE(strcmp(m->apps[0]->image_id, m->apps[1]->image_id), 0);
        ASSERT_STREQ(m->apps[1]->app->exec[0], "other");
        ASSERT_EQ(strv_length(m->apps[1]->app->exec), 1);
        ASSERT_STREQ(m->apps[1]->app->user, "7");
        ASSERT_STREQ(pair_list_get(&m->apps[1]->app->environment, "E"), "1");
        ASSERT_STREQ(pair_list_get(&m->annotations, "p"), "replaced");
        ASSERT_STREQ(pair_list_get(&m->user_labels, "X"), "Y");
        ASSERT_EQ(m->isolators.n, 1);
        ASSERT_OK(pod_publish(f.pod, &f.e));
}

/* Errors of a template that do not depend on its images are detected without them. */
TEST(template_alone)
{
#define ALONE(app, more) TEMPLATE("{\"name\":\"a\",\"image\":{\"name\":\"example.com/a\"}" app "}", more)
#define OBJECT(more) ",\"app\":{\"user\":\"0\",\"group\":\"0\"" more "}"
#define EXEC ",\"exec\":[\"/x\"]"
#define HTTP OBJECT(EXEC ",\"ports\":[{\"name\":\"http\",\"protocol\":\"tcp\",\"port\":80}]")
#define EXPOSED(name, port) "{\"name\":\"" name "\",\"hostPort\":" port "}"
        static const struct {
                const char *text, *expected;
        } l[] = {
                        {TEMPLATE("", ""), NULL}, /* which the exit policy decides */
                        {ALONE("", ""), NULL},
                        {ALONE(OBJECT(EXEC), ""), NULL},
                        {ALONE(OBJECT(""), ""), "The app object of app a has no command"},
                        {ALONE(OBJECT(EXEC ",\"mountPoints\":[" POINT("x", "/d", "") "," POINT("y", "/d",
                                                                                               "") "]"),
                               ""),
                         "App a: the mount points 'x' and 'y' have the same path /d"},
                        {ALONE(HTTP, ",\"ports\":[" EXPOSED("http", "8080") "]"), NULL},
                        {ALONE(HTTP, ",\"ports\":[" EXPOSED("admin", "8080") "]"),
                         "The port 'admin' cannot be exposed: no app has a port of that name"},
                        /* which the image may have */
                        {ALONE("", ",\"ports\":[" EXPOSED("admin", "8080") "]"), NULL},
                        {ALONE("", ",\"ports\":[" EXPOSED("one", "8080") "," EXPOSED("two", "8080") "]"),
                         "Ports 'one' and 'two' are both exposed as port 8080 of the host"},
                        {ALONE("",
                               ",\"volumes\":[{\"name\":\"v\",\"kind\":\"empty\",\"uid\":70000,\"gid\":0,"
                               "\"mode\":\"0755\"}]"),
                         "Volume 'v' cannot belong to user 70000"},
                        {ALONE("",
                               ",\"volumes\":[{\"name\":\"v\",\"kind\":\"host\",\"source\":\"/a/../b\"}]"),
                         "The source of volume 'v' must be an absolute path without '..'"},
                        /* whether it is there is not asked */
                        {ALONE("", ",\"volumes\":[{\"name\":\"v\",\"kind\":\"host\",\"source\":\"/"
                                   "nonexistent\"}]"),
                         NULL},
        };

        for (size_t i = 0; i < ELEMENTSOF(l); i++) {
                _cleanup_(pod_manifest_freep) PodManifest *m = NULL;
                _cleanup_error_ Error e = ERROR_NULL;

                ASSERT_OK(pod_manifest_parse(l[i].text, strlen(l[i].text), &m, NULL, &e));
                ASSERT_EQ(pod_template_check(m, &e) < 0, l[i].expected != NULL);
                if (l[i].expected)
                        ASSERT_CONTAINS(e.message, l[i].expected);
        }
}

TEST(template_images)
{
        FIXTURE(f);
        _cleanup_free_ char *text = NULL;

        const char *id = import(&f, "example.com/web", APP(""));
        ASSERT_OK(xasprintf(
                        &text,
                        TEMPLATE("{\"name\":\"a\",\"image\":{\"id\":\"%s\",\"name\":\"example.com/other\"}}",
                                 ""),
                        id));
        set_template(&f, text);
        ASSERT_ERR(reify(&f), -EINVAL);
        ASSERT_CONTAINS(f.e.message, "is example.com/web, not example.com/other");
        free(f.request.template->apps[0]->image_name);
        f.request.template->apps[0]->image_name = strdup("example.com/web");
        ASSERT_OK(reify(&f));
        ASSERT_STREQ(f.pod->manifest->apps[0]->image_id, id);

        pod_request_done(&f.request);
        set_template(&f, TEMPLATE("{\"name\":\"a\",\"image\":{\"name\":\"example.com/web\",\"labels\":"
                                  "[{\"name\":\"version\",\"value\":\"3\"}]}}",
                                  ""));
        ASSERT_ERR(reify(&f), -ENOENT);
        ASSERT_CONTAINS(f.e.message, "App a");
        ASSERT_CONTAINS(f.e.message, "example.com/web:3");
        ASSERT_CONTAINS(f.e.hint, "acnspawn");
}

TEST(template_volumes)
{
        FIXTURE(f);

        ASSERT_NOT_NULL(import(&f, "example.com/web", POINTS(POINT("work", "/srv", ""))));
        set_template(&f, TEMPLATE("{\"name\":\"a\",\"image\":{\"name\":\"example.com/web\"},\"mounts\":["
                                  "{\"volume\":\"own\",\"path\":\"/"
                                  "own\",\"appVolume\":{\"name\":\"own\",\"kind\":\"empty\","
                                  "\"mode\":\"0700\"}},{\"volume\":\"shared\",\"mountPoint\":\"work\"}]},"
                                  "{\"name\":\"b\",\"image\":{\"name\":\"example.com/web\"},\"mounts\":["
                                  "{\"volume\":\"own\",\"path\":\"/own\"}]}",
                                  ",\"volumes\":[{\"name\":\"own\",\"kind\":\"empty\"}]"));
        (void) add_volume(&f, "shared", NULL);
        (void) add_volume(&f, "work", NULL);
        ASSERT_OK(reify(&f));
        const PodManifest *m = f.pod->manifest;
        ASSERT_STREQ(find_mount(m->apps[0], "/own")->volume, "a-own");
        ASSERT_NULL(find_mount(m->apps[0], "/own")->app_volume);
        ASSERT_EQ(pod_manifest_find_volume(m, "a-own")->mode, 0700);
        ASSERT_STREQ(find_mount(m->apps[0], "/srv")->volume, "shared");
        ASSERT_STREQ(find_mount(m->apps[1], "/own")->volume, "own");
        ASSERT_STREQ(find_mount(m->apps[1], "/srv")->volume, "work");
        ASSERT_EQ(strv_length(f.warnings), 0);
        ASSERT_OK(pod_publish(f.pod, &f.e));

        (void) add_volume(&f, "own", NULL);
        ASSERT_ERR(reify(&f), -EEXIST);
}

/* --- Ports --------------------------------------------------------------------------------------------- */

#define PORTS                                                                                               \
        APP(",\"ports\":[{\"name\":\"http\",\"port\":80,\"protocol\":\"tcp\"},{\"name\":\"dns\",\"port\":"  \
            "53,\"protocol\":\"udp\"}]")

static void add_port(Fixture *f, const char *name, uint32_t host_port)
{
        PodRequest *q = &f->request;

        if (GREEDY_REALLOC(q->ports, q->ports_allocated, q->n_ports + 1) < 0)
                abort();
        q->ports[q->n_ports++] = (ExposedPort){.name = strdup(name), .host_port = host_port};
}

TEST(ports)
{
        FIXTURE(f);

        ASSERT_NOT_NULL(import(&f, "example.com/web", PORTS));
        (void) add_app(&f, "example.com/web");
        add_port(&f, "http", 8080);
        add_port(&f, "dns", 8080); /* another protocol */
        ASSERT_OK(reify(&f));
        ASSERT_EQ(f.pod->manifest->n_ports, 2);
        ASSERT_OK(pod_publish(f.pod, &f.e));

        add_port(&f, "http", 8080);
        ASSERT_ERR(reify(&f), -EINVAL);
        ASSERT_CONTAINS(f.e.message, "port 8080");
        f.request.ports[2].host_port = 8081;
        ASSERT_OK(reify(&f));
        free(f.request.ports[2].name);
        f.request.ports[2].name = strdup("ftp");
        ASSERT_ERR(reify(&f), -ENOENT);
        ASSERT_CONTAINS(f.e.message, "'ftp'");
        ASSERT_CONTAINS(f.e.hint, "http (app web)");
        f.request.ports[2].pod_port = calloc(1, sizeof(Port));
        *f.request.ports[2].pod_port =
                        (Port){.name = strdup("ftp"), .protocol = strdup("tcp"), .port = 21, .count = 1};
        ASSERT_OK(reify(&f));
        ASSERT_OK(pod_publish(f.pod, &f.e));
        add_app(&f, "example.com/web")->name = strdup("two");
        ASSERT_ERR(reify(&f), -ENOTUNIQ);
        ASSERT_CONTAINS(f.e.message, "web and two");
}

/* --- Together with the store --------------------------------------------------------------------------- */

TEST(layers_of_dependencies)
{
        FIXTURE(f);
        _cleanup_free_ char *lowers = NULL, *base = NULL, *expected = NULL;

        base = strdup(import(&f, "example.com/base", ""));
        const char *id = import(&f, "example.com/web",
                                ",\"dependencies\":[{\"imageName\":\"example.com/base\"}]" APP(""));
        ASSERT_NOT_NULL(id);
        (void) add_app(&f, id);
        ASSERT_OK(reify(&f));
        lowers = file_content(&f, "apps/web/lowers");
        ASSERT_OK(xasprintf(&expected, "%s/images/%s/rootfs\n%s/images/%s/rootfs\n", store_path(f.store), id,
                            store_path(f.store), base));
        ASSERT_STREQ(lowers, expected);
}

/* Whether images could be removed at the moment. */
static bool store_is_locked(Store *s)
{
        _cleanup_close_ int fd = openat(store_fd(s), "lock", O_RDONLY | O_CLOEXEC);

        return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0;
}

TEST(images_stay)
{
        FIXTURE(f);
        _cleanup_free_ char *id = NULL;

        ASSERT_NOT_NULL(import(&f, "example.com/web", APP("")));
        (void) add_app(&f, "example.com/web");
        ASSERT_FALSE(store_is_locked(f.store));
        ASSERT_OK(reify(&f));
        ASSERT_TRUE(store_is_locked(f.store));
        ASSERT_OK(pod_publish(f.pod, &f.e));
        ASSERT_FALSE(store_is_locked(f.store));
        ASSERT_ERR(image_remove(f.store, "example.com/web", &id, &f.e), -EBUSY);
        ASSERT_CONTAINS(f.e.message, f.pod->uuid);
        ASSERT_OK(pod_remove(f.pod, &f.e));
        ASSERT_OK(image_remove(f.store, "example.com/web", &id, &f.e));
}

TEST(abandoned)
{
        FIXTURE(f);

        ASSERT_NOT_NULL(import(&f, "example.com/web", POINTS(POINT("data", "/data", ""))));
        (void) add_app(&f, "example.com/web");
        ASSERT_OK(reify(&f));
        ASSERT_ERR(pod_reify(f.pod, &f.request, NULL, &f.e), -EINVAL);
        pod_abandon(f.pod);
        ASSERT_FALSE(store_is_locked(f.store));
        _cleanup_free_ char *uuid = strdup(f.pod->uuid);
        f.pod = pod_free(f.pod);
        ASSERT_ERR(pod_find(f.store, uuid, &f.pod, &f.e), -ENOENT);
}

/* --- Another app for a running pod --------------------------------------------------------------------- */

/* A running pod of one app, and a request for another. */
static int reify_running(Fixture *f)
{
        if (!import(f, "example.com/web", ACI_VERSION("1.0") APP("")) ||
            !import(f, "example.com/db", ACI_VERSION("1.0") POINTS(POINT("data", "/var/data", ""))))
                return -EIO;
        (void) add_app(f, "example.com/web");
        int r = reify(f);
        if (r < 0)
                return r;
        f->pod->state = POD_RUNNING;
        free(f->request.apps[0].reference);
        f->request.apps[0].reference = strdup("example.com/db");
        return 0;
}

static bool exists(Fixture *f, const char *path)
{
        return faccessat(f->pod->dir_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) >= 0;
}

TEST(an_app_for_a_running_pod)
{
        FIXTURE(f);
        _cleanup_(pod_manifest_freep) PodManifest *added = NULL;
        _cleanup_strv_free_ char **volumes = NULL;
        _cleanup_free_ char *text = NULL;
        PodApp *app = NULL;

        ASSERT_OK(reify_running(&f));
        const PodApp *web = f.pod->manifest->apps[0];
        ASSERT_OK(pod_reify_app(f.pod, &f.request, NULL, &f.warnings, &f.e));
        ASSERT_EQ(f.pod->manifest->n_apps, 2);
        ASSERT_TRUE(f.pod->manifest->apps[0] == web);
        ASSERT_TRUE(exists(&f, "apps/db/lowers") && exists(&f, "apps/db/upper") &&
                    exists(&f, "volumes/db-data"));
        ASSERT_OK(pod_format_added(f.pod, 1, 0, &text, &f.e));

        /* The supervisor knows nothing of it yet. */
        pod_app_free(pod_manifest_take_app(f.pod->manifest, "db"));
        volume_done(&f.pod->manifest->volumes[0]);
        f.pod->manifest->n_volumes = 0;
        ASSERT_OK(pod_manifest_parse(text, strlen(text), &added, NULL, &f.e));
        ASSERT_EQ(added->n_apps, 1);
        ASSERT_OK(pod_merge_added(f.pod, added, &app, &volumes, &f.e));
        ASSERT_STREQ(app->name, "db");
        ASSERT_STREQ(volumes[0], "db-data");
        ASSERT_STREQ(find_mount(app, "/var/data")->volume, "db-data");
        ASSERT_TRUE(pod_manifest_find_app(f.pod->manifest, "db") == app);
        ASSERT_OK(pod_manifest_check_reified(f.pod->manifest, &f.e));
        ASSERT_ERR(pod_merge_added(f.pod, added, &app, &volumes, &f.e),
                   -EBADMSG); /* nothing is left in it */

        /* A volume that an app mounts stays. */
        pod_drop_volume(f.pod, "db-data");
        ASSERT_EQ(f.pod->manifest->n_volumes, 1);
        pod_app_free(pod_manifest_take_app(f.pod->manifest, "db"));
        pod_drop_volume(f.pod, "db-data");
        ASSERT_EQ(f.pod->manifest->n_volumes, 0);
        pod_drop_volume(f.pod, "db-data");
        ASSERT_OK(pod_sweep(f.pod));
        ASSERT_TRUE(!exists(&f, "apps/db") && !exists(&f, "volumes/db-data"));
        ASSERT_TRUE(exists(&f, "apps/web"));
}

/* Its files are made beside those of the old app, and which are the app's follows from the image that the manifest has. */
TEST(an_app_that_replaces_another)
{
        FIXTURE(f);
        _cleanup_free_ char *old_path = NULL, *new_path = NULL, *gone = NULL;

        ASSERT_OK(reify_running(&f));
        ASSERT_OK(pod_reify_app(f.pod, &f.request, NULL, &f.warnings, &f.e));
        ASSERT_EQ(f.pod->manifest->n_volumes, 1);
        _cleanup_(pod_app_freep) PodApp *old = pod_manifest_take_app(f.pod->manifest, "db");
        free(old->image_id);
        old->image_id = strdup("sha512-0000000000000000000000000000000000000000000000000000000000000000");
        ASSERT_OK(pod_app_path(f.pod, old, NULL, &old_path));
        ASSERT_STREQ(old_path, "apps/db");

        ASSERT_OK(pod_reify_app(f.pod, &f.request, old, &f.warnings, &f.e));
        const PodApp *new = f.pod->manifest->apps[1];
        ASSERT_OK(pod_app_path(f.pod, new, "upper", &new_path));
        ASSERT_TRUE(startswith(new_path, "apps/db@sha512-") && endswith(new_path, "/upper"));
        ASSERT_TRUE(exists(&f, new_path) && exists(&f, "apps/db/upper"));
        /* The volume of its mount point is that of the old one. */
        ASSERT_EQ(f.pod->manifest->n_volumes, 1);
        ASSERT_STREQ(find_mount(new, "/var/data")->volume, "db-data");

        ASSERT_OK(pod_sweep(f.pod));
        ASSERT_TRUE(exists(&f, new_path) && !exists(&f, "apps/db"));
        ASSERT_OK(pod_app_path(f.pod, old, NULL, &gone));
        ASSERT_STREQ(gone, "apps/db");
}

TEST(settings_of_volumes_come_and_go_with_them)
{
        FIXTURE(f);
        _cleanup_(pod_manifest_freep) PodManifest *added = NULL;
        _cleanup_strv_free_ char **volumes = NULL;
        _cleanup_free_ char *text = NULL;
        PodApp *app = NULL;

        ASSERT_OK(reify_running(&f));
        Volume *v = add_volume(&f, "db-cache", NULL);
        v->settings = strdup("kind=tmpfs");
        add_mount(&f, "db-cache", "/cache");
        ASSERT_OK(pod_reify_app(f.pod, &f.request, NULL, &f.warnings, &f.e));
        ASSERT_OK(pod_format_added(f.pod, 1, 0, &text, &f.e));
        ASSERT_CONTAINS(text, "acnspawn/volume/db-cache");
        pod_app_free(pod_manifest_take_app(f.pod->manifest, "db"));
        pod_drop_volume(f.pod, "db-cache");
        pod_drop_volume(f.pod, "db-data");
        ASSERT_NULL(pair_list_get(&f.pod->manifest->annotations, "acnspawn/volume/db-cache"));
        ASSERT_OK(pod_manifest_parse(text, strlen(text), &added, NULL, &f.e));
        ASSERT_OK(pod_merge_added(f.pod, added, &app, &volumes, &f.e));
        ASSERT_STREQ(pair_list_get(&f.pod->manifest->annotations, "acnspawn/volume/db-cache"), "kind=tmpfs");
}

TEST(what_cannot_be_added_to_a_running_pod)
{
        FIXTURE(f);

        ASSERT_OK(reify_running(&f));
        f.pod->state = POD_EXITED;
        ASSERT_ERR(pod_reify_app(f.pod, &f.request, NULL, NULL, &f.e), -ESRCH);
        f.pod->state = POD_RUNNING;
        add_isolator(&f.request.isolators, "resource/memory", "{\"limit\":\"1G\"}");
        ASSERT_ERR(pod_reify_app(f.pod, &f.request, NULL, NULL, &f.e), -EINVAL);
        ASSERT_CONTAINS(f.e.message, "which runs");
        isolator_list_done(&f.request.isolators);
        (void) add_app(&f, "example.com/web");
        ASSERT_ERR(pod_reify_app(f.pod, &f.request, NULL, NULL, &f.e), -EINVAL);
        free(f.request.apps[--f.request.n_apps].reference);
        f.request.apps[0].name = strdup("web");
        ASSERT_ERR(pod_reify_app(f.pod, &f.request, NULL, NULL, &f.e), -EEXIST);
        ASSERT_CONTAINS(f.e.message, "'web'");
        ASSERT_OK(pod_sweep(f.pod));
        ASSERT_TRUE(exists(&f, "apps/web"));
}

int main(void)
{
        RUN(simple);
        RUN(owners);
        RUN(names);
        RUN(exec);
        RUN(no_exec);
        RUN(overrides);
        RUN(groups_of_another_user);
        RUN(overrides_refused);
        RUN(isolators);
        RUN(swap_of_images);
        RUN(isolators_of_old_images);
        RUN(platforms);
        RUN(requests_refused);
        RUN(pods_without_apps);
        RUN(host_volume);
        RUN(host_volume_refused);
        RUN(empty_volume);
        RUN(volume_names);
        RUN(implicit_volumes);
        RUN(satisfied_mount_points);
        RUN(targets_refused);
        RUN(volumes_in_volumes);
        RUN(hostile_mount_points);
        RUN(hidden_files);
        RUN(template);
        RUN(template_alone);
        RUN(template_images);
        RUN(template_volumes);
        RUN(ports);
        RUN(layers_of_dependencies);
        RUN(images_stay);
        RUN(abandoned);
        RUN(an_app_for_a_running_pod);
        RUN(an_app_that_replaces_another);
        RUN(settings_of_volumes_come_and_go_with_them);
        RUN(what_cannot_be_added_to_a_running_pod);
        return TEST_END();
}
