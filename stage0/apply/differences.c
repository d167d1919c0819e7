/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Compares a running pod with its declaration, and names each difference by the key of the .pod file. */

#include "schema/settings.h"
#include "stage0/apply/apply-internal.h"

bool is_live_limit(IsolatorType type, const HostFeatures *h)
{
        switch (type) {
        case ISOLATOR_RESOURCE_MEMORY:
                return h->memory;
        case ISOLATOR_RESOURCE_CPU:
        case ISOLATOR_CPU_SHARES:
                return h->cpu;
        case ISOLATOR_RESOURCE_TASKS:
                return h->pids || h->pids_v1;
        default:
                return false;
        }
}

/* The start of a pod warns of it, too. Tasks have a limit also without a controller. */
static bool is_ignored(IsolatorType type, const HostFeatures *h)
{
        return (type == ISOLATOR_RESOURCE_MEMORY || type == ISOLATOR_RESOURCE_CPU ||
                type == ISOLATOR_CPU_SHARES) &&
               !is_live_limit(type, h);
}

/* --- Words --------------------------------------------------------------------------------------------- */

/* Members of definitions, by the name of their option where that is another one. */
static const struct {
        const char *member, *word;
} words[] = {
                {"args", "arguments"},
                {"annotations/", "annotation "},
                {"credentials", "credential"},
                {"mounts", "mount"},
                {"podManifest", "pod-manifest"},
                {"ports", "port"},
                {"readOnlyRootFS", "read-only"},
                {"supplementaryGIDs", "supplementary-gids"},
                {"userAnnotations/", "user-annotation "},
                {"userLabels/", "user-label "},
                {"volumes/", "volume "},
                {"workingDirectory", "working-directory"},
};

static int add_word(char ***l, const char *key)
{
        const char *rest = startswith(key, "annotations/" SETTING_PREFIX);

        if (!rest)
                rest = startswith(key, "isolators/");
        if (rest)
                return strv_extend(l, rest);
        for (size_t i = 0; i < ELEMENTSOF(words); i++) {
                rest = startswith(key, words[i].member);
                if (rest && (!*rest || endswith(words[i].member, "/")))
                        return strv_extendf(l, "%s%s", words[i].word, rest);
        }
        return strv_extend(l, key);
}

static int add_words(char ***l, char *const *keys)
{
        STRV_FOREACH (key, keys)
                if (add_word(l, *key) < 0)
                        return -ENOMEM;
        return 0;
}

/* --- The pod ------------------------------------------------------------------------------------------- */

static bool same_list(char *const *a, char *const *b)
{
        size_t n = strv_length(a);

        if (n != strv_length(b))
                return false;
        for (size_t i = 0; i < n; i++)
                if (!streq(a[i], b[i]))
                        return false;
        return true;
}

static int compare_configs(const PodConfig *a, const PodConfig *b, char ***keys)
{
        const struct {
                const char *word;
                bool same;
        } parts[] = {
                        {"dns", same_list(a->dns, b->dns)},
                        {"dns-option", same_list(a->dns_options, b->dns_options)},
                        {"dns-search", same_list(a->dns_search, b->dns_search)},
                        {"exit-idle-time", a->exit_idle_usec == b->exit_idle_usec},
                        {"exit-policy", a->exit_policy == b->exit_policy},
                        {"hostname", streq_ptr(a->hostname, b->hostname)},
                        {"hosts-entry", same_list(a->hosts_entries, b->hosts_entries)},
                        {"metadata",
                         a->reduced_metadata == b->reduced_metadata && a->no_metadata == b->no_metadata},
                        {"net", a->net == b->net && same_list(a->networks, b->networks)},
                        {"no-userns", a->private_users == b->private_users},
                        {"stage1", streq_ptr(a->stage1, b->stage1)},
                        {"stop-timeout", a->stop_timeout_usec == b->stop_timeout_usec},
                        {"strict", a->strict == b->strict},
        };

        for (size_t i = 0; i < ELEMENTSOF(parts); i++)
                if (!parts[i].same && strv_extend(keys, parts[i].word) < 0)
                        return -ENOMEM;
        return 0;
}

/* --- Volumes ------------------------------------------------------------------------------------------- */

static const char *settings_of(const PodManifest *m, const Volume *v)
{
        _cleanup_free_ char *name = NULL;

        return xasprintf(&name, VOLUME_SETTINGS_PREFIX "%s", v->name) < 0
                               ? NULL
                               : pair_list_get(&m->annotations, name);
}

/* Owner and mode of a named volume are those of its first use. */
static bool same_volume(const PodManifest *m, const Volume *v, const PodManifest *n, const Volume *w)
{
        const char *settings = settings_of(m, v);

        if (v->kind != w->kind || !streq_ptr(v->source, w->source) ||
            (v->has_read_only && v->read_only) != (w->has_read_only && w->read_only) ||
            volume_is_recursive(v) != volume_is_recursive(w) || !streq_ptr(settings, settings_of(n, w)))
                return false;
        return v->kind == VOLUME_HOST || startswith(settings ?: "", "kind=named,") ||
               (v->mode == w->mode && v->uid == w->uid && v->gid == w->gid);
}

/* An image volume that would be another image, and is the same otherwise: its manifest has the ID, and a newer image of that name was
 * fetched, or the reference is another one. */
static bool is_of_another_image(const PodManifest *m, const Volume *v, const PodManifest *n, const Volume *w)
{
        VolumeSettings a, b;

        return volume_settings_read(m, v, &a, NULL) >= 0 && volume_settings_read(n, w, &b, NULL) >= 0 &&
               *a.image && *b.image && a.nested == b.nested && a.no_exec == b.no_exec &&
               streq(a.sub_path, b.sub_path);
}

static bool has_volume(const PodRequest *q, const char *name)
{
        for (size_t i = 0; i < q->n_volumes; i++)
                if (streq(q->volumes[i].name, name))
                        return true;
        return false;
}

/* Those of the start are compared as they were defined. Of others the manifests tell: a volume that came with an app is in the
 * definition of that app, and not in the one of an app that takes its place. */
static int compare_later_volumes(const Pod *p, const Pod *wanted, const PodRequest *old, const PodRequest *q,
                                 bool of_images, char ***keys)
{
        for (size_t i = 0; i < q->n_volumes; i++) {
                const char *name = q->volumes[i].name;
                const Volume *v = pod_manifest_find_volume(p->manifest, name),
                             *w = pod_manifest_find_volume(wanted->manifest, name);
                if (v && w && !has_volume(old, name) && !same_volume(p->manifest, v, wanted->manifest, w) &&
                    is_of_another_image(p->manifest, v, wanted->manifest, w) == of_images &&
                    strv_extendf(keys, "volume %s", name) < 0)
                        return -ENOMEM;
        }
        return 0;
}

int differences_of_pods(const Pod *p, const Pod *wanted, const PodRequest *old, const PodRequest *q,
                        char ***ret)
{
        _cleanup_strv_free_ char **keys = NULL, **members = NULL;

        if (compare_configs(&p->config, &wanted->config, &keys) < 0 ||
            pod_request_compare(old, q, &members) < 0 || add_words(&keys, members) < 0 ||
            compare_later_volumes(p, wanted, old, q, false, &keys) < 0)
                return -ENOMEM;
        *ret = TAKE_PTR(keys);
        return 0;
}

int differences_of_images(const Pod *p, const Pod *wanted, const PodRequest *old, const PodRequest *q,
                          char ***l)
{
        return compare_later_volumes(p, wanted, old, q, true, l);
}

/* Only of a pod that was made of its file. */
int differences_of_runs(const Pod *p, const Pod *wanted, char ***ret)
{
        _cleanup_strv_free_ char **old = NULL, **new = NULL, **keys = NULL;

        if (!p->config.declared_run || !wanted->config.declared_run)
                return 0;
        if (strv_split(p->config.declared_run, " ", &old) < 0 ||
            strv_split(wanted->config.declared_run, " ", &new) < 0)
                return -ENOMEM;
        STRV_FOREACH (word, new)
                if (!strv_contains(old, *word) &&
                    strv_extendf(&keys, "%.*s", (int) strcspn(*word, "="), *word) < 0)
                        return -ENOMEM;
        *ret = TAKE_PTR(keys);
        return 0;
}

/* --- An app -------------------------------------------------------------------------------------------- */

/* That of an isolator of APP; ISOLATOR_UNKNOWN: the member is none that APP has. */
static IsolatorType type_of(const AppOverrides *app, const char *key)
{
        const char *name = startswith(key, "isolators/");

        for (size_t i = 0; name && i < app->isolators.n; i++)
                if (streq(app->isolators.items[i].name, name))
                        return app->isolators.items[i].type;
        return ISOLATOR_UNKNOWN;
}

/* Which of them, or, if only the files have other names, that they are. */
static int add_credentials(char ***l, char *const *names)
{
        STRV_FOREACH (name, names)
                if (strv_extendf(l, "credential %s", *name) < 0)
                        return -ENOMEM;
        return 0;
}

int differences_of_apps(const PodApp *app, const AppOverrides *old, const AppOverrides *new,
                        const char *image_id, char *const *credentials, const HostFeatures *h, char ***ret,
                        bool *ret_limits)
{
        _cleanup_strv_free_ char **keys = NULL, **members = NULL;
        bool limits = strv_length(credentials) == 0;

        if (app_overrides_compare(old, new, &members) < 0)
                return -ENOMEM;
        if (!streq(app->image_id, image_id)) {
                limits = false;
                if (strv_extend(&keys, "image") < 0)
                        return -ENOMEM;
        }
        if (add_credentials(&keys, credentials) < 0)
                return -ENOMEM;
        STRV_FOREACH (member, members) {
                if (is_ignored(type_of(new, *member), h)) {
                        log_warning("%s of app %s is ignored: this host has no cgroup v2 controller for it.",
                                    *member + strlen("isolators/"), new->name);
                        continue;
                }
                if (is_ignored(type_of(old, *member), h))
                        continue;
                limits = limits && is_live_limit(type_of(new, *member), h);
                if (streq(*member, "credentials") && strv_length(credentials) > 0)
                        continue;
                if (add_word(&keys, *member) < 0)
                        return -ENOMEM;
        }
        *ret = TAKE_PTR(keys);
        *ret_limits = limits;
        return 0;
}
