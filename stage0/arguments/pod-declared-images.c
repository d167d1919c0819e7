/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The images of declared pods: which images of the store they mean, so that those are not removed while the pods do not run;
 * and whether a pod could be made of them.
 *
 * What an image is called in a file is looked up as a start of the pod would do it, but nothing is fetched or imported. Of files,
 * layouts and archives the image stays that the store has of them, which a start does not import again. */

#include "schema/oci.h"
#include "schema/settings.h"
#include "stage0/arguments/pod-declared.h"

static bool is_in_store_only(ReferenceKind k)
{
        return k == REFERENCE_IMAGE || k == REFERENCE_URL || k == REFERENCE_DOCKER;
}

/* The last assignment of a key that has one value; NULL: none, or it was taken back. */
static const DeclaredSetting *last_setting(const Declared *d, DeclaredSection section, size_t app,
                                           const char *key)
{
        const DeclaredSetting *found = NULL;

        for (size_t i = 0; i < d->n_settings; i++) {
                const DeclaredSetting *s = &d->settings[i];
                if (s->section == section && (section != DECLARED_APP || s->app == app) &&
                    streq(s->key, key))
                        found = *s->value ? s : NULL;
        }
        return found;
}

/* What is not valid is as if it was not there: no pod is made of it. *RET stays NULL then. A specifier whose value cannot be found
 * out is an error. */
static int read_value(const Declared *d, const DeclaredSetting *s, char **ret)
{
        _cleanup_free_ char *value = NULL;
        const char *reason;
        char bad;

        if (!s)
                return 0;
        int r = declared_value(s->value, &value, &reason);
        if (r >= 0)
                r = declared_expand(value, d->name, ret, &bad);
        return r == -EINVAL ? 0 : r;
}

/* --- Images that are needed ---------------------------------------------------------------------------- */

typedef struct Needed {
        Context *context;
        char **ids;
} Needed;

/* The store does not know of each file, in its present state, which image it is: then those that came from there count. */
static int add_images_of_path(Needed *n, const char *reference, const char *path)
{
        Image **images = NULL;
        size_t count = 0, n_damaged;

        int r = image_list_readable(n->context->store, &images, &count, &n_damaged, &n->context->error);
        for (size_t i = 0; r >= 0 && i < count; i++) {
                const char *origin = images[i]->info.origin;
                if (streq_ptr(origin, reference) || streq_ptr(origin, path))
                        r = strv_extend(&n->ids, images[i]->id);
        }
        image_list_free(images, count);
        return r;
}

static int add_local(Needed *n, const char *reference, const Reference *x)
{
        _cleanup_free_ char *id = NULL;
        Context *c = n->context;

        int r = fetch_find_id(c->store, reference, context_config_dirs(c), &id, NULL);
        return r >= 0 ? strv_extend(&n->ids, id) : add_images_of_path(n, reference, x->body);
}

/* Only an image that is not there is not needed; whatever else keeps it from being found is an error. */
static int add_reference(Needed *n, const char *reference)
{
        Context *c = n->context;
        _cleanup_reference_ Reference x = {};
        _cleanup_error_ Error error = ERROR_NULL;
        _cleanup_free_ char *id = NULL, *shown = NULL;

        if (reference_parse(reference, &x, NULL) < 0 || x.kind == REFERENCE_STANDARD_INPUT)
                return 0;
        if (!is_in_store_only(x.kind))
                return add_local(n, reference, &x);
        int r = fetch_find_id(c->store, reference, context_config_dirs(c), &id, &error);
        if (r == -ENOENT || (r == -EINVAL && x.kind == REFERENCE_IMAGE)) /* it is no name */
                return 0;
        if (r < 0) {
                shown = reference_for_display(reference);
                (void) error_move(&c->error, &error);
                return error_prefix(&c->error, r, "the image '%s'", shown ?: "?");
        }
        return strv_extend(&n->ids, id);
}

static int add_manifest_app(Needed *n, const PodApp *a)
{
        _cleanup_free_ char *name = NULL;

        if (a->image_id)
                return add_reference(n, a->image_id);
        if (!a->image_name)
                return 0;
        int r = image_name_format(a->image_name, &a->image_labels, &name);
        return r < 0 ? r : add_reference(n, name);
}

static int add_manifest_volume(Needed *n, const PodManifest *m, const Volume *v)
{
        VolumeSettings s;

        int r = volume_settings_read(m, v, &s, NULL);
        return r < 0 || !s.image[0] ? (r == -ENOMEM ? r : 0) : add_reference(n, s.image);
}

static int add_manifest(Needed *n, const char *path)
{
        _cleanup_(pod_manifest_freep) PodManifest *m = NULL;
        _cleanup_free_ char *text = NULL;
        size_t size = 0;

        Error *e = &n->context->error;
        int r = read_file_at(AT_FDCWD, path, MANIFEST_SIZE_MAX, &text, &size);
        if (r == -ENOENT)
                return 0;
        r = r < 0 ? error_set_errno(e, r, "Cannot read '%s'", path)
                  : pod_manifest_parse(text, size, &m, NULL, e);
        for (size_t i = 0; r >= 0 && i < m->n_apps; i++)
                r = add_manifest_app(n, m->apps[i]);
        for (size_t i = 0; r >= 0 && i < m->n_volumes; i++)
                r = add_manifest_volume(n, m, &m->volumes[i]);
        return r;
}

/* The image of a volume, NAME,kind=image,source=REFERENCE. */
static int add_volume(Needed *n, const char *text)
{
        _cleanup_strv_free_ char **fields = NULL;
        const char *source = NULL;

        if (strv_split_fields(text, &fields) < 0)
                return -ENOMEM;
        if (!strv_contains(fields, "kind=image"))
                return 0;
        STRV_FOREACH (f, fields)
                source = startswith(*f, "source=") ?: source;
        return source ? add_reference(n, source) : 0;
}

static int add_volumes(Needed *n, const Declared *d)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < d->n_settings; i++) {
                const DeclaredSetting *s = &d->settings[i];
                _cleanup_strv_free_ char **words = NULL;
                const char *reason;

                if (s->section != DECLARED_POD || !streq(s->key, "Volume"))
                        continue;
                r = declared_words(s->value, &words, &reason);
                if (r == -EINVAL) /* what is not valid makes no pod */
                        r = 0;
                for (char **w = words; r >= 0 && w && *w; w++) {
                        _cleanup_free_ char *text = NULL;
                        char bad;
                        r = declared_expand(*w, d->name, &text, &bad);
                        r = r >= 0 ? add_volume(n, text) : r == -EINVAL ? 0 : r;
                }
        }
        return r;
}

static int add_pod(Needed *n, const Declared *d)
{
        _cleanup_free_ char *manifest = NULL;

        for (size_t i = 0; i < d->n_apps; i++) {
                _cleanup_free_ char *reference = NULL;
                int r = read_value(d, last_setting(d, DECLARED_APP, i, "Image"), &reference);
                if (r >= 0 && reference)
                        r = add_reference(n, reference);
                if (r < 0)
                        return r;
        }
        int r = read_value(d, last_setting(d, DECLARED_POD, 0, "PodManifest"), &manifest);
        if (r >= 0 && manifest)
                r = add_manifest(n, manifest);
        return r < 0 ? r : add_volumes(n, d);
}

static int for_each_declared(Context *c, int (*function)(Context *c, Declared *d, void *userdata),
                             void *userdata)
{
        _cleanup_strv_free_ char **dirs = NULL, **names = NULL;

        int r = declared_find_dirs(c->config_dirs[0], &dirs, &c->error);
        if (r >= 0)
                r = declared_list_to_keep(dirs, &names, &c->error);
        for (char **name = names; r >= 0 && name && *name; name++) {
                _cleanup_(declared_freep) Declared *d = NULL;

                r = declared_load_to_keep(dirs, *name, &d, &c->error);
                if (r == -ENOENT || r == -ERFKILL) { /* it has just been removed, or masked */
                        error_done(&c->error);
                        r = 0;
                } else if (r >= 0)
                        r = function(c, d, userdata);
        }
        return r;
}

int context_for_each_declared(Context *c, int (*function)(Context *c, Declared *d, void *userdata),
                              void *userdata, const char *what)
{
        int r = for_each_declared(c, function, userdata);

        return r < 0 ? error_prefix(&c->error, r, "%s", what) : 0;
}

static int add_declared(Context *c, Declared *d, void *userdata)
{
        int r = add_pod(userdata, d);

        return r < 0 && !c->error.message ? error_set_errno(&c->error, r, "pod '%s'", d->name) : r;
}

int context_declared_images(Context *c, char ***ret)
{
        Needed n = {.context = c};

        int r = c->store ? context_for_each_declared(c, add_declared, &n,
                                                     "Cannot find out which images declared pods need")
                         : 0;
        if (r < 0) {
                strv_free(n.ids);
                return r;
        }
        *ret = n.ids;
        return 0;
}

/* --- Images of pods that are kept ----------------------------------------------------------------------- */

static int add_images_of(const Pod *p, char ***ids)
{
        const PodManifest *m = p->manifest;
        int r = 0;

        for (size_t i = 0; r >= 0 && m && i < m->n_apps; i++)
                r = m->apps[i]->image_id ? strv_extend(ids, m->apps[i]->image_id) : 0;
        for (size_t i = 0; r >= 0 && m && i < m->n_volumes; i++) {
                VolumeSettings s;

                r = volume_settings_read(m, &m->volumes[i], &s, NULL);
                r = r < 0 ? (r == -ENOMEM ? r : 0) : s.image[0] ? strv_extend(ids, s.image) : 0;
        }
        return r;
}

/* Of what cannot be read now it is not known whether it is kept; what is damaged is not run again. */
static int add_if_kept(Context *c, const KeptPods *kept, Pod *p, char ***ids)
{
        int r = p->unreadable ? pod_load(p, &c->error) : 0;

        if (p->unreadable)
                return error_prefix(&c->error, r, "Cannot find out which images pods of units need");
        error_done(&c->error);
        return kept_pods_have(kept, p) && add_images_of(p, ids) < 0 ? error_oom(&c->error) : 0;
}

static int add_kept(Context *c, const KeptPods *kept, char ***ids)
{
        Pod **pods = NULL;
        size_t n = 0;

        if (!c->store || !kept->names)
                return 0;
        int r = pod_list_all(c->store, &pods, &n, &c->error);
        if (r < 0)
                return r;
        for (size_t i = 0; r >= 0 && i < n; i++)
                r = add_if_kept(c, kept, pods[i], ids);
        pod_list_free(pods, n);
        return r;
}

int context_needed_images(Context *c, const KeptPods *kept, char ***ret)
{
        _cleanup_strv_free_ char **ids = NULL;

        int r = context_declared_images(c, &ids);
        if (r >= 0)
                r = add_kept(c, kept, &ids);
        if (r >= 0)
                *ret = TAKE_PTR(ids);
        return r;
}

/* --- Checking the images of one pod -------------------------------------------------------------------- */

/* A name without a domain, as "nginx", is hardly that of an image which discovery could find. */
static bool is_for_registry(const char *reference)
{
        size_t n = strcspn(reference, "/:@,");

        return oci_reference_is_likely(reference) && !memchr(reference, '.', n);
}

/* Without a pull policy it is fetched. */
static int add_missing_image(Declared *d, const DeclaredPlace *place, const char *reference, bool never,
                             bool store)
{
        _cleanup_free_ char *shown = reference_for_display(reference), *hint = NULL;

        if (store && never)
                return xasprintf(&hint, "'acnspawn fetch %s' fetches it.", shown ?: "?") < 0
                                       ? -ENOMEM
                                       : declared_add_finding(
                                                         d, place, true, hint,
                                                         "Image=: '%s' is not in the store, and PullPolicy=never",
                                                         shown ?: "?");
        if (is_for_registry(reference) &&
            xasprintf(&hint,
                      "It is fetched when the pod is started, from a host of that name; an image of a registry is "
                      "named docker://%s.",
                      shown ?: "?") < 0)
                return -ENOMEM;
        return declared_add_finding(d, place, false, hint ?: "It is fetched when the pod is started.",
                                    store ? "Image=: '%s' is not in the store"
                                          : "Image=: only root can check whether '%s' is in the store",
                                    shown ?: "?");
}

/* Returns 1 if the image can be used without the network and without an import; 0 if not, after adding a finding where one
 * is due. STORE: the content of the store is known. */
static int check_image(Context *c, Declared *d, size_t app, const char *reference, bool never, bool store)
{
        const DeclaredSetting *s = last_setting(d, DECLARED_APP, app, "Image");
        const DeclaredPlace place = s ? s->place : d->apps[app].place;
        _cleanup_reference_ Reference x = {};
        _cleanup_free_ char *id = NULL;
        int r = 0;

        if (reference_parse(reference, &x, NULL) < 0)
                return 0;
        if (!is_in_store_only(x.kind)) {
                if (access(x.body, R_OK) < 0)
                        r = declared_add_finding(d, &place, true, NULL, "Image=: cannot read '%s': %s",
                                                 x.body, strerror(errno));
                return r;
        }
        if (!store && !is_for_registry(reference))
                return 0;
        if (c->store && fetch_find_id(c->store, reference, context_config_dirs(c), &id, NULL) >= 0)
                return 1;
        return add_missing_image(d, &place, reference, never, store);
}

static int add_missing_network(Context *c, Declared *d, const char *name, char *const *known)
{
        const DeclaredSetting *s = last_setting(d, DECLARED_POD, 0, "Net")
                                                   ?: last_setting(d, DECLARED_POD, 0, "Network");
        const DeclaredPlace whole = {.file = d->files[0]};
        _cleanup_free_ char *list = strv_join(known, ", "), *hint = NULL;

        if (!list || (known && xasprintf(&hint, "Available networks: %s.", list) < 0))
                return -ENOMEM;
        return declared_add_finding(d, s ? &s->place : &whole, true, hint, "%s=: there is no network '%s'",
                                    s ? s->key : "Net", name);
}

/* What preparing would find out, if there are all images for that. */
static int check_networks(Context *c, Declared *d, const PodArguments *a)
{
        _cleanup_strv_free_ char **known = NULL;

        int r = a->options.networks ? network_names(context_config_dirs(c), &known) : 0;
        STRV_FOREACH (word, a->options.networks) {
                _cleanup_free_ char *name = strndup(*word, strcspn(*word, ":"));
                if (!name)
                        return -ENOMEM;
                if (r >= 0 && !strv_contains(known, name))
                        r = add_missing_network(c, d, name, known);
        }
        return r == -ENOMEM ? r : 0;
}

/* --- What preparing finds ------------------------------------------------------------------------------ */

/* True if MESSAGE has NAME, which is preceded by BEFORE and is no part of another name. */
static bool names(const char *message, const char *before, const char *name)
{
        size_t n = strlen(before);

        for (const char *at = strstr(message, before); at; at = strstr(at + 1, before)) {
                const char *rest = startswith(at + n, name);
                if (rest && !is_lower(*rest) && !is_digit(*rest) && *rest != '-')
                        return true;
        }
        return false;
}

static bool names_volume(const char *message, const DeclaredSetting *s)
{
        _cleanup_strv_free_ char **words = NULL;
        const char *reason;

        if (!streq(s->key, "Volume") || declared_words(s->value, &words, &reason) < 0)
                return false;
        STRV_FOREACH (word, words) {
                (*word)[strcspn(*word, ",:")] = 0;
                if (**word && names(message, "olume '", *word))
                        return true;
        }
        return false;
}

/* What the message is about: a volume or an app that it names, else the file as a whole. */
static DeclaredPlace place_of(const Declared *d, const char *message)
{
        for (size_t i = 0; i < d->n_settings; i++)
                if (names_volume(message, &d->settings[i]))
                        return d->settings[i].place;
        for (size_t i = 0; i < d->n_apps; i++)
                if (names(message, "App ", d->apps[i].name) || names(message, "app ", d->apps[i].name) ||
                    names(message, "app '", d->apps[i].name))
                        return d->apps[i].place;
        return (DeclaredPlace){.file = d->files[0]};
}

/* R becomes a finding at setting S, or where its message belongs. */
static int add_failure(Context *c, Declared *d, const DeclaredSetting *s, int r)
{
        const char *message = c->error.message ?: strerror(-r);
        const DeclaredPlace place = s ? s->place : place_of(d, message);

        if (operation_ended(r) || r == -ENOMEM)
                return r;
        int k = declared_add_finding(d, &place, true, c->error.hint, "%s", message);
        error_done(&c->error);
        c->usage = false;
        return k < 0 ? error_oom(&c->error) : 0;
}

/* The images are not looked for: of those that the manifest names by an ID alone nothing else is known. */
static int check_manifest(Context *c, Declared *d, PodArguments *a)
{
        int r = pod_arguments_read_manifest(c, a);

        return r < 0 ? add_failure(c, d, last_setting(d, DECLARED_POD, 0, "PodManifest"), r) : 0;
}

/* Also of images that are not in the store. */
static int check_policy(Context *c, Declared *d, size_t app, const AppOverrides *o)
{
        const PodApp named = {.name = (char *) "", .annotations = o->annotations};
        _cleanup_app_settings_ AppSettings s = {};

        if (app_settings_read(&named, &s, NULL) < 0)
                return 0;
        int r = image_policy_check((ImagePolicy) s.image_policy, o->reference, &c->error);
        if (r >= 0)
                return 0;
        (void) error_prefix(&c->error, r, "App %s", d->apps[app].name);
        return add_failure(c, d,
                           last_setting(d, DECLARED_APP, app, "ImagePolicy")
                                           ?: last_setting(d, DECLARED_APP, app, "Image"),
                           r);
}

/* The same that 'acnspawn prepare --dry-run' does, without the network. */
static int try_to_prepare(Context *c, Declared *d, PodArguments *a)
{
        _cleanup_(pod_freep) Pod *p = NULL;

        a->fetch.policy = PULL_NEVER;
        a->options.dry_run = true;
        a->options.name = NULL; /* another pod may have it, which is not changed */
        int r = pod_arguments_prepare(c, a, &p);
        if (r < 0)
                return add_failure(c, d, NULL, r);
        pod_abandon(p);
        return 0;
}

int context_verify_declared_images(Context *c, Declared *d, PodArguments *a, RunArguments *run, bool store)
{
        bool all = a->request.n_apps == d->n_apps && !a->manifest_file;
        int r = d->has_errors ? 0 : context_apply_declared_conf(c, d, a, run);

        if (r < 0)
                r = add_failure(c, d, NULL, r);
        const bool is_known =
                        !d->has_errors; /* what is declared; what is found below is wrong with the images */
        if (r >= 0 && a->manifest_file && is_known)
                r = check_manifest(c, d, a);
        for (size_t i = 0; r >= 0 && i < a->request.n_apps && i < d->n_apps; i++) {
                const AppOverrides *o = &a->request.apps[i];
                int k = o->reference ? check_image(c, d, i, o->reference, a->fetch.policy == PULL_NEVER,
                                                   store)
                                     : 0;

                if (k == -ENOMEM)
                        return error_oom(&c->error);
                all = all && k > 0;
                r = o->reference && is_known ? check_policy(c, d, i, o) : 0;
        }
        if (r >= 0 && all && c->store && !d->has_errors)
                r = try_to_prepare(c, d, a);
        else if (r >= 0 && check_networks(c, d, a) < 0)
                r = error_oom(&c->error);
        declared_sort_findings(d);
        return r < 0 ? r : 0;
}
