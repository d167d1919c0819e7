/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The apps of a pod: their images, names, and commands.
 *
 * What an app is comes from its image, unless a template has an app object of its own, which then takes the
 * place of the image's as a whole (spec: pods.md, "app"). The options of the command line are applied on
 * top, which the specification allows the executor to append or override. The reified manifest has the
 * result, so that the image's manifest is not needed again.
 */

#include "prepare/fetch/fetch.h"
#include "prepare/oci/oci.h"
#include "prepare/pods/reify-internal.h"
#include "schema/oci.h"

/* --- Isolators ----------------------------------------------------------------------------------------- */

/* Alternatives, of which only one can be in effect. */
static const IsolatorType exclusive_types[][2] = {
                {ISOLATOR_CAPABILITIES_RETAIN_SET, ISOLATOR_CAPABILITIES_REMOVE_SET},
                {ISOLATOR_SECCOMP_RETAIN_SET, ISOLATOR_SECCOMP_REMOVE_SET},
};

static bool are_rivals(const Isolator *a, const Isolator *b)
{
        for (size_t i = 0; i < ELEMENTSOF(exclusive_types); i++)
                if ((a->type == exclusive_types[i][0] && b->type == exclusive_types[i][1]) ||
                    (a->type == exclusive_types[i][1] && b->type == exclusive_types[i][0]))
                        return true;
        return false;
}

static void remove_overridden(IsolatorList *l, const Isolator *o)
{
        size_t n = 0;

        for (size_t i = 0; i < l->n; i++) {
                if (streq(l->items[i].name, o->name) || are_rivals(&l->items[i], o))
                        isolator_done(&l->items[i]);
                else
                        l->items[n++] = l->items[i];
        }
        l->n = n;
}

static int check_contradictions(const IsolatorList *l, const char *whose, Error *e)
{
        for (size_t i = 0; i < l->n; i++)
                for (size_t k = 0; k < i; k++) {
                        if (streq(l->items[i].name, l->items[k].name))
                                return error_set(e, -EINVAL, "The isolator %s of %s is given twice",
                                                 l->items[i].name, whose);
                        if (are_rivals(&l->items[i], &l->items[k]))
                                return error_set(e, -EINVAL,
                                                 "The isolators %s and %s of %s exclude each other",
                                                 l->items[k].name, l->items[i].name, whose);
                }
        return 0;
}

/* A limit of memory is one without swap, unless it comes with one of swap: that of an image is not one of the limit that takes
 * the place of the image's. */
static int drop_swap(IsolatorList *into, const IsolatorList *overrides)
{
        return isolator_list_find(overrides, ISOLATOR_RESOURCE_MEMORY)
                               ? isolator_list_drop_attribute(into, CGROUP_SWAP_MAX)
                               : 0;
}

int isolators_override(IsolatorList *into, const IsolatorList *overrides, const char *whose, Error *e)
{
        IsolatorList copy = {};

        int r = check_contradictions(overrides, whose, e);
        if (r < 0 || overrides->n == 0)
                return r;
        for (size_t i = 0; i < overrides->n; i++)
                remove_overridden(into, &overrides->items[i]);
        if (drop_swap(into, overrides) < 0)
                return error_oom(e);
        if (isolator_list_copy(overrides, &copy) < 0)
                return error_oom(e);
        if (GREEDY_REALLOC(into->items, into->allocated, into->n + copy.n) < 0) {
                isolator_list_done(&copy);
                return error_oom(e);
        }
        memcpy(into->items + into->n, copy.items, copy.n * sizeof(Isolator));
        into->n += copy.n;
        free(copy.items);
        return 0;
}

/* --- What to execute ----------------------------------------------------------------------------------- */

static int check_exec(const App *a, const char *name, Error *e)
{
        if (a->exec && !isempty(a->exec[0]))
                return 0;
        return error_set(e, -ENOEXEC, "The image of app %s has no command", name);
}

static void cut_off(char **l, size_t n)
{
        for (size_t i = n; i < strv_length(l);) {
                free(l[i]);
                memmove(l + i, l + i + 1, (strv_length(l + i + 1) + 1) * sizeof(char *));
        }
}

/* --exec replaces the image's executable and its arguments. The user's arguments are appended to the result;
 * they replace the Cmd of an OCI image, which is only a default. */
static int override_exec(App *a, const AppOverrides *o, const Image *i, const char *name, Error *e)
{
        bool has_args = o && o->args && o->args[0], has_exec = o && o->exec && o->exec[0];
        bool oci = i->info.kind == IMAGE_KIND_OCI;

        if (oci && has_args && !has_exec && a->exec)
                cut_off(a->exec, oci_entrypoint_size(&i->manifest->annotations, strv_length(a->exec)));
        if (has_exec) {
                char **exec = NULL;
                if (strv_copy(o->exec, &exec) < 0)
                        return error_oom(e);
                strv_free(a->exec);
                a->exec = exec;
        }
        /* An OCI image may have neither; then the arguments are the command. */
        int r = oci && has_args ? 0 : check_exec(a, name, e);
        if (r < 0)
                return error_hint(e, r,
                                  "Give one with --exec=PROGRAM after the image, and arguments after '--'.");
        if (has_args)
                STRV_FOREACH (arg, o->args)
                        if (strv_extend(&a->exec, *arg) < 0)
                                return error_oom(e);
        return 0;
}

static int replace(char **s, const char *by)
{
        char *copy;

        if (!by)
                return 0;
        copy = strdup(by);
        if (!copy)
                return -ENOMEM;
        free(*s);
        *s = copy;
        return 0;
}

static int override_working_directory(App *a, const AppOverrides *o, const char *name, Error *e)
{
        _cleanup_free_ char *normal = NULL, *shown = NULL;

        if (!o->working_directory)
                return 0;
        int r = path_normalize(o->working_directory, &normal);
        if (r == -ENOMEM || replace(&a->working_directory, normal) < 0)
                return error_oom(e);
        if (r >= 0)
                return 0;
        shown = text_escape_for_terminal(o->working_directory);
        return error_set(e, r,
                         "'%s' cannot be the working directory of app %s: it must be an absolute path "
                         "without '..'",
                         shown ?: "?", name);
}

static int override_gids(App *a, const AppOverrides *o)
{
        uint32_t *copy;

        if (o->n_supplementary_gids == 0)
                return 0;
        copy = calloc(o->n_supplementary_gids, sizeof(uint32_t));
        if (!copy)
                return -ENOMEM;
        memcpy(copy, o->supplementary_gids, o->n_supplementary_gids * sizeof(uint32_t));
        free(a->supplementary_gids);
        a->supplementary_gids = copy;
        a->n_supplementary_gids = o->n_supplementary_gids;
        return 0;
}

/* Another user comes with its own groups: those of the image are meant for the image's user. */
static int override_user(App *a, const AppOverrides *o)
{
        if (replace(&a->user, o->user) < 0)
                return -ENOMEM;
        if (o->user) {
                free(a->supplementary_gids);
                a->supplementary_gids = NULL;
                a->n_supplementary_gids = 0;
        }
        return replace(&a->group, o->group ?: o->user ? GROUPS_OF_USER : NULL);
}

static int check_environment(const PairList *l, const char *name, Error *e)
{
        for (size_t i = 0; i < l->n; i++) {
                int r = environment_name_check(l->items[i].name, e);
                if (r < 0)
                        return error_prefix(e, r, "The environment of app %s is not valid", name);
        }
        return 0;
}

static int override_app(PodApp *a, const AppOverrides *o, Error *e)
{
        App *app = a->app;

        int r = override_working_directory(app, o, a->name, e);
        if (r >= 0)
                r = check_environment(&o->environment, a->name, e);
        if (r >= 0)
                r = isolators_override(&app->isolators, &o->isolators, a->name, e);
        if (r < 0)
                return r;
        if (override_user(app, o) < 0 || pair_list_merge(&app->environment, &o->environment) < 0 ||
            pair_list_merge(&app->user_annotations, &o->user_annotations) < 0 ||
            pair_list_merge(&app->user_labels, &o->user_labels) < 0 ||
            pair_list_merge(&a->annotations, &o->annotations) < 0 || override_gids(app, o) < 0)
                return error_oom(e);
        a->read_only_rootfs = a->read_only_rootfs || o->read_only_rootfs;
        return 0;
}

/* --- Images -------------------------------------------------------------------------------------------- */

/* A foreign architecture may run (binfmt_misc), a foreign operating system cannot. */
static int check_platform(Reify *r, const char *app, const Image *i, Error *e)
{
        const char *os = pair_list_get(&i->manifest->labels, "os"),
                   *arch = pair_list_get(&i->manifest->labels, "arch");

        if (!os)
                return 0;
        if (!streq(os, host_os_label()))
                return error_set(e, -EPROTONOSUPPORT,
                                 "The image %s of app %s is for %s, this machine runs %s", i->manifest->name,
                                 app, os, host_os_label());
        if (!arch || streq(arch, host_arch_label()) ||
            (streq(arch, "i386") && streq(host_arch_label(), "amd64")))
                return 0;
        return reify_warn(r, e, "App %s: its image %s is for %s, this machine is %s", app, i->manifest->name,
                          arch, host_arch_label());
}

static int check_name(const char *name, const char *image_name, Error *e)
{
        int k = ac_name_check(name, e);

        if (k < 0) {
                k = error_prefix(e, k, "The app of image %s needs another name", image_name);
                return error_hint(e, k, "Names of apps consist of lower case letters, digits and '-'.");
        }
        if (strlen(name) > APP_NAME_MAX) {
                k = error_set(e, -ENAMETOOLONG,
                              "The name of the app of image %s is longer than %u characters", image_name,
                              APP_NAME_MAX);
                return error_hint(e, k, "Give it a shorter one with --name= after the image.");
        }
        return 0;
}

static int check_app_name(Reify *r, const char *name, const char *image_name, Error *e)
{
        int k = check_name(name, image_name, e);

        if (k < 0)
                return k;
        if (!pod_manifest_find_app(r->manifest, name))
                return 0;
        k = error_set(e, -EEXIST, "Two apps of the pod have the name '%s'", name);
        return error_hint(e, k, "Give one of them another name with --name= after the image.");
}

/* Keeps the image, even on failure, and its layers. */
static int keep_image(Reify *r, Image *i, Error *e)
{
        if (GREEDY_REALLOC(r->images, r->images_allocated, r->n_images + 1) < 0) {
                image_free(i);
                return error_oom(e);
        }
        AppImage *a = &r->images[r->n_images++];
        *a = (AppImage){.image = i};
        int k = image_layers_used(r->pod->store, r->index, i, &a->layers, e);
        if (k < 0 || !r->request->verify)
                return k;
        k = oci_image_check_unaltered(r->pod->store, i->id, e);
        return k < 0 ? k : image_verify_layers(r->pod->store, a->layers, e);
}

/* Adds an app to the manifest, with the identification of its image. */
static int add_app(Reify *r, const char *name, const Image *i, PodApp **ret, Error *e)
{
        PodApp *a;

        int k = check_app_name(r, name, i->manifest->name, e);
        if (k >= 0)
                k = check_platform(r, name, i, e);
        if (k < 0)
                return k;
        a = pod_manifest_add_app(r->manifest);
        if (!a || copy_string(name, &a->name) < 0 || copy_string(i->id, &a->image_id) < 0 ||
            copy_string(i->manifest->name, &a->image_name) < 0 ||
            pair_list_copy(&i->manifest->labels, &a->image_labels) < 0)
                return error_oom(e);
        *ret = a;
        return 0;
}

/* The app object: a copy of SOURCE, or an empty one for an image without an app. */
static int set_app(PodApp *a, const App *source, Error *e)
{
        if (source)
                return app_copy(source, &a->app) < 0 ? error_oom(e) : 0;
        a->app = calloc(1, sizeof(App));
        if (!a->app || copy_string("0", &a->app->user) < 0 || copy_string("0", &a->app->group) < 0)
                return error_oom(e);
        return 0;
}

static int add_mounts(PodApp *a, const Mount *mounts, size_t n, Error *e)
{
        for (size_t i = 0; i < n; i++) {
                Mount *m = pod_app_add_mount(a);
                if (!m || mount_copy(&mounts[i], m) < 0)
                        return error_oom(e);
        }
        return 0;
}

/* The last steps, common to apps of templates and of the command line. O may be NULL. */
static int complete_app(Reify *r, PodApp *a, const AppOverrides *o, const Image *i, Error *e)
{
        const PodRequest *q = r->request;
        bool separate = o && o->separate;

        int k = separate ? 0 : check_environment(&q->environment, a->name, e);
        if (k >= 0 && !separate && pair_list_merge(&a->app->environment, &q->environment) < 0)
                k = error_oom(e);
        if (k >= 0 && o)
                k = override_app(a, o, e);
        if (k >= 0)
                k = override_exec(a->app, o, i, a->name, e);
        if (k >= 0 && !separate)
                k = add_mounts(a, q->mounts, q->n_mounts, e);
        if (k >= 0 && o)
                k = add_mounts(a, o->mounts, o->n_mounts, e);
        return k;
}

/* --- From the command line ----------------------------------------------------------------------------- */

static int app_name_of(const AppOverrides *o, const Image *i, char **ret, Error *e)
{
        if (o->name)
                return copy_string(o->name, ret) < 0 ? error_oom(e) : 0;
        int r = reference_app_name(o->reference, ret);
        if (r == -EINVAL)
                r = app_name_from_image_name(i->manifest->name, ret);
        if (r == -ENOMEM)
                return error_oom(e);
        if (r < 0) {
                r = error_set(e, r, "No name for an app can be made from the image name %s",
                              i->manifest->name);
                return error_hint(e, r, "Name it with --name= after the image.");
        }
        return 0;
}

static int reify_requested_app(Reify *r, size_t index, Error *e)
{
        const AppOverrides *o = &r->request->apps[index];
        _cleanup_(image_freep) Image *i = NULL;
        _cleanup_free_ char *name = NULL, *path = NULL;
        PodApp *a;

        int k = reify_take_image(r, index, &i, e);
        if (k >= 0)
                k = app_name_of(o, i, &name, e);
        if (k >= 0)
                k = reify_nested_name(r, o, &name, &path, e);
        if (k >= 0)
                k = add_app(r, name, i, &a, e);
        if (k >= 0)
                k = set_app(a, i->manifest->app, e);
        if (k >= 0)
                k = complete_app(r, a, o, i, e);
        if (k >= 0 && path)
                k = reify_nested_app(r, a, path, e);
        if (k >= 0)
                k = reify_image_settings(r, a, i->manifest, i->info.kind == IMAGE_KIND_OCI, e);
        if (k >= 0)
                k = reify_socket_ports(a, e);
        return k < 0 ? k : keep_image(r, TAKE_PTR(i), e);
}

/* --- From a template ----------------------------------------------------------------------------------- */

static int reify_template_app(Reify *r, size_t index, Error *e)
{
        const PodApp *t = r->request->template->apps[index];
        _cleanup_(image_freep) Image *i = NULL;
        PodApp *a;

        int k = reify_take_image(r, index, &i, e);
        if (k >= 0)
                k = add_app(r, t->name, i, &a, e);
        if (k >= 0)
                k = set_app(a, t->app ?: i->manifest->app, e);
        if (k < 0)
                return k;
        a->read_only_rootfs = t->read_only_rootfs;
        if (pair_list_copy(&t->annotations, &a->annotations) < 0)
                return error_oom(e);
        k = add_mounts(a, t->mounts, t->n_mounts, e);
        if (k >= 0)
                k = complete_app(r, a, NULL, i, e);
        if (k >= 0)
                k = reify_image_settings(r, a, i->manifest, i->info.kind == IMAGE_KIND_OCI, e);
        if (k >= 0)
                k = reify_socket_ports(a, e);
        return k < 0 ? k : keep_image(r, TAKE_PTR(i), e);
}

int template_app_check(const PodApp *t, Error *e)
{
        int r = check_name(t->name, t->image_name ?: t->image_id ?: "?", e);

        if (r < 0 || !t->app)
                return r;
        if (check_exec(t->app, t->name, NULL) < 0)
                return error_set(e, -ENOEXEC, "The app object of app %s has no command", t->name);
        r = check_environment(&t->app->environment, t->name, e);
        return r < 0 ? r : mount_points_check(t, e);
}

/* That of another pod, from which a pod manifest was taken, means nothing here. */
static int set_revisions(Reify *r)
{
        for (size_t i = r->first_app; i < r->manifest->n_apps; i++) {
                PodApp *a = r->manifest->apps[i];
                if (!r->old)
                        pair_list_remove(&a->annotations, APP_REVISION);
                else if (pod_app_set_revision(a, r->old) < 0)
                        return -ENOMEM;
        }
        return 0;
}

int reify_apps(Reify *r, Error *e)
{
        const PodRequest *q = r->request;
        int k = 0;

        for (size_t i = 0; q->template && i < q->template->n_apps && k >= 0; i++)
                k = reify_template_app(r, i, e);
        for (size_t i = 0; !q->template && i < q->n_apps && k >= 0; i++)
                k = reify_requested_app(r, i, e);
        if (k >= 0 && set_revisions(r) < 0)
                k = error_oom(e);
        return k;
}
