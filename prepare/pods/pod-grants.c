/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The file "grants" of a pod: the origin of each isolator of its manifest, and the decisions about the
 * privileges that its images request. It is written when the pod is prepared, by the code that makes the
 * decisions, and is only read to show them; nothing is enforced by it. It is in the pod's own directory,
 * which no image and no app can write to. A pod without isolators has none. An app that came or was changed while the pod ran has a
 * file of its own beside its other files. The file of the pod is not changed when an app is removed: what is in it of apps that are not in the
 * manifest is passed over.
 */

#include "prepare/pods/pods-internal.h"

#define GRANTS_FILE "grants"
#define GRANTS_SIZE_MAX (4U * 1024U * 1024U)

static const char *const sources[_GRANT_SOURCE_MAX] = {
                [GRANT_UNKNOWN] = "unknown",
                [GRANT_IMAGE] = "image",
                [GRANT_COMMAND_LINE] = "command line",
                [GRANT_POD_MANIFEST] = "pod manifest",
                [GRANT_CONFIGURATION] = "acnspawn.conf",
};

static const char *const decisions[_GRANT_DECISION_MAX] = {
                [GRANT_GRANTED] = "granted",
                [GRANT_REPLACED] = "replaced",
                [GRANT_WITHHELD] = "withheld",
};

const char *grant_source_to_string(GrantSource s)
{
        return (unsigned) s < _GRANT_SOURCE_MAX ? sources[s] : NULL;
}

const char *grant_decision_to_string(GrantDecision d)
{
        return (unsigned) d < _GRANT_DECISION_MAX ? decisions[d] : NULL;
}

static void origin_done(IsolatorOrigin *o)
{
        free(o->app);
        free(o->isolator);
}

static void grant_done(Grant *g)
{
        free(g->app);
        free(g->isolator);
        free(g->name);
        free(g->text);
}

void pod_grants_done(PodGrants *g)
{
        for (size_t i = 0; i < g->n_origins; i++)
                origin_done(&g->origins[i]);
        for (size_t i = 0; i < g->n_grants; i++)
                grant_done(&g->grants[i]);
        free(g->origins);
        free(g->grants);
        *g = (PodGrants){};
}

int pod_grants_add_origin(PodGrants *g, const char *app, const char *isolator, GrantSource source)
{
        if (GREEDY_REALLOC(g->origins, g->origins_allocated, g->n_origins + 1) < 0)
                return -ENOMEM;
        IsolatorOrigin *o = &g->origins[g->n_origins++];
        *o = (IsolatorOrigin){.isolator = strdup(isolator), .source = source};
        if (!o->isolator || (app && !(o->app = strdup(app))))
                return -ENOMEM;
        return 0;
}

int pod_grants_add(PodGrants *g, const Grant *grant)
{
        if (GREEDY_REALLOC(g->grants, g->grants_allocated, g->n_grants + 1) < 0)
                return -ENOMEM;
        Grant *k = &g->grants[g->n_grants++];
        *k = (Grant){.app = strdup(grant->app),
                     .isolator = grant->isolator ? strdup(grant->isolator) : NULL,
                     .name = strdup(grant->name),
                     .text = strdup(grant->text),
                     .decision = grant->decision,
                     .by = grant->by};
        return k->app && (k->isolator || !grant->isolator) && k->name && k->text ? 0 : -ENOMEM;
}

GrantSource pod_grants_source(const PodGrants *g, const char *app, const char *isolator)
{
        for (size_t i = 0; i < g->n_origins; i++)
                if (streq_ptr(g->origins[i].app, app) && streq(g->origins[i].isolator, isolator))
                        return g->origins[i].source;
        return GRANT_UNKNOWN;
}

/* --- The file ------------------------------------------------------------------------------------------ */

static json_object *origin_format(const IsolatorOrigin *i)
{
        _cleanup_json_ json_object *o = json_object_new_object();

        if (json_member_add_text(o, "app", i->app) < 0 ||
            json_member_add_text(o, "isolator", i->isolator) < 0 ||
            json_member_add_text(o, "source", grant_source_to_string(i->source)) < 0)
                return NULL;
        return TAKE_PTR(o);
}

static json_object *grant_format(const Grant *g)
{
        _cleanup_json_ json_object *o = json_object_new_object();

        if (json_member_add_text(o, "app", g->app) < 0 ||
            json_member_add_text(o, "isolator", g->isolator) < 0 ||
            json_member_add_text(o, "name", g->name) < 0 || json_member_add_text(o, "text", g->text) < 0 ||
            json_member_add_text(o, "decision", grant_decision_to_string(g->decision)) < 0 ||
            json_member_add_text(o, "by", grant_source_to_string(g->by)) < 0)
                return NULL;
        return TAKE_PTR(o);
}

static int grants_format(const PodGrants *g, json_object **ret)
{
        _cleanup_json_ json_object *o = json_object_new_object();
        json_object *origins = json_object_new_array(), *grants = json_object_new_array();
        int r = 0;

        for (size_t i = 0; r >= 0 && i < g->n_origins; i++)
                r = json_list_append(origins, origin_format(&g->origins[i]));
        for (size_t i = 0; r >= 0 && i < g->n_grants; i++)
                r = json_list_append(grants, grant_format(&g->grants[i]));
        int k = json_member_add(o, "isolators", origins), q = json_member_add(o, "grants", grants);
        if (r < 0 || k < 0 || q < 0)
                return -ENOMEM;
        *ret = TAKE_PTR(o);
        return 0;
}

/* APP, or (it is NULL) apps that are not in M. */
static bool is_to_go(const char *app, const PodManifest *m, const char *of)
{
        return app ? streq_ptr(app, of) : of && !pod_manifest_find_app(m, of);
}

static void forget(PodGrants *g, const char *app, const PodManifest *m)
{
        size_t n = 0;

        for (size_t i = 0; i < g->n_origins; i++)
                if (is_to_go(app, m, g->origins[i].app))
                        origin_done(&g->origins[i]);
                else
                        g->origins[n++] = g->origins[i];
        g->n_origins = n;
        n = 0;
        for (size_t i = 0; i < g->n_grants; i++)
                if (is_to_go(app, m, g->grants[i].app))
                        grant_done(&g->grants[i]);
                else
                        g->grants[n++] = g->grants[i];
        g->n_grants = n;
}

static int write_grants(const Pod *p, const char *path, const PodGrants *g, Error *e)
{
        _cleanup_json_ json_object *o = NULL;

        const char *text = grants_format(g, &o) >= 0 ? json_print(o) : NULL;
        if (!text)
                return error_oom(e);
        int r = write_file_atomic_at(p->dir_fd, path, text, strlen(text), 0600, false);
        return r < 0 ? error_set_errno(e, r, "Cannot write the file '%s' of pod %s", path,
                                       pod_display_name(p))
                     : 0;
}

int pod_grants_write(const Pod *p, const PodGrants *g, Error *e)
{
        if (g->n_origins > 0 || g->n_grants > 0)
                return write_grants(p, GRANTS_FILE, g, e);
        (void) unlinkat(p->dir_fd, GRANTS_FILE, 0);
        return 0;
}

int pod_grants_write_app(const Pod *p, const PodApp *app, const PodGrants *g, Error *e)
{
        _cleanup_free_ char *path = NULL;

        return pod_app_path(p, app, GRANTS_FILE, &path) < 0 ? error_oom(e) : write_grants(p, path, g, e);
}

static int word_of(json_object *o, const char *key, const char *const *words, size_t n)
{
        json_object *v = json_object_object_get(o, key);
        const char *s = json_object_is_type(v, json_type_string) ? json_object_get_string(v) : "";

        for (size_t i = 0; i < n; i++)
                if (streq(words[i], s))
                        return (int) i;
        return -EINVAL;
}

static char *text_of(json_object *o, const char *key)
{
        json_object *v = json_object_object_get(o, key);

        return json_object_is_type(v, json_type_string) ? (char *) json_object_get_string(v) : NULL;
}

static int origin_parse(json_object *o, PodGrants *g)
{
        int source = word_of(o, "source", sources, _GRANT_SOURCE_MAX);
        const char *isolator = text_of(o, "isolator");

        if (source < 0 || !isolator)
                return -EINVAL;
        return pod_grants_add_origin(g, text_of(o, "app"), isolator, (GrantSource) source);
}

static int grant_parse(json_object *o, PodGrants *g)
{
        int decision = word_of(o, "decision", decisions, _GRANT_DECISION_MAX),
            by = word_of(o, "by", sources, _GRANT_SOURCE_MAX);
        Grant grant = {.app = text_of(o, "app"),
                       .isolator = text_of(o, "isolator"),
                       .name = text_of(o, "name"),
                       .text = text_of(o, "text")};

        if (decision < 0 || by < 0 || !grant.app || !grant.name || !grant.text)
                return -EINVAL;
        grant.decision = (GrantDecision) decision;
        grant.by = (GrantSource) by;
        return pod_grants_add(g, &grant);
}

static int list_parse(json_object *o, const char *key, int (*parse)(json_object *o, PodGrants *g),
                      PodGrants *g)
{
        json_object *l = json_object_object_get(o, key);
        int r = json_object_is_type(l, json_type_array) ? 0 : -EINVAL;

        for (size_t i = 0; r >= 0 && i < json_object_array_length(l); i++) {
                json_object *item = json_object_array_get_idx(l, i);
                r = json_object_is_type(item, json_type_object) ? parse(item, g) : -EINVAL;
        }
        return r;
}

/* Adds what is in the file to G, in the place of what is known of APP, if it is not NULL. */
static int read_grants(const Pod *p, const char *path, const char *app, PodGrants *g, Error *e)
{
        _cleanup_json_ json_object *o = NULL;
        _cleanup_free_ char *text = NULL;
        size_t size;

        int r = read_file_at(p->dir_fd, path, GRANTS_SIZE_MAX, &text, &size);
        if (r == -ENOENT)
                return 0;
        if (app)
                forget(g, app, NULL);
        if (r >= 0)
                r = json_parse_strict(text, size, &o, NULL, NULL);
        if (r >= 0)
                r = json_object_is_type(o, json_type_object) ? 0 : -EINVAL;
        if (r >= 0)
                r = list_parse(o, "isolators", origin_parse, g);
        if (r >= 0)
                r = list_parse(o, "grants", grant_parse, g);
        return r < 0 ? error_set_errno(e, r, "Cannot read the file '%s' of pod %s", path,
                                       pod_display_name(p))
                     : 0;
}

int pod_grants_read(const Pod *p, PodGrants *ret, Error *e)
{
        PodGrants g = {};

        int r = read_grants(p, GRANTS_FILE, NULL, &g, e);
        if (p->manifest)
                forget(&g, NULL, p->manifest);
        for (size_t i = 0; r >= 0 && p->manifest && i < p->manifest->n_apps; i++) {
                _cleanup_free_ char *path = NULL;
                const PodApp *app = p->manifest->apps[i];

                r = pod_app_path(p, app, GRANTS_FILE, &path) < 0 ? error_oom(e)
                                                                 : read_grants(p, path, app->name, &g, e);
        }
        if (r < 0) {
                pod_grants_done(&g);
                return r;
        }
        *ret = g;
        return 0;
}

static bool is_of(const Isolator *i, uint32_t types)
{
        return types & UINT32_C(1) << i->type;
}

/* Keeps what is known of APP, but for the origins of isolators of TYPES. */
static void keep_others(PodGrants *g, const char *app, uint32_t types)
{
        size_t n = 0;

        for (size_t i = 0; i < g->n_origins; i++) {
                IsolatorOrigin *o = &g->origins[i];
                if (streq_ptr(o->app, app) &&
                    !(types & UINT32_C(1) << isolator_type_from_string(o->isolator)))
                        g->origins[n++] = *o;
                else
                        origin_done(o);
        }
        g->n_origins = n;
        n = 0;
        for (size_t i = 0; i < g->n_grants; i++)
                if (streq_ptr(g->grants[i].app, app))
                        g->grants[n++] = g->grants[i];
                else
                        grant_done(&g->grants[i]);
        g->n_grants = n;
}

int pod_grants_format_app(const Pod *p, const PodApp *app, uint32_t types, GrantSource source,
                          char **ret_path, char **ret_text, Error *e)
{
        _cleanup_(pod_grants_done) PodGrants g = {};
        _cleanup_json_ json_object *o = NULL;
        _cleanup_free_ char *path = NULL;

        int r = pod_grants_read(p, &g, e);
        if (r < 0)
                return r;
        keep_others(&g, app->name, types);
        for (size_t i = 0; r >= 0 && i < app->app->isolators.n; i++) {
                const Isolator *isolator = &app->app->isolators.items[i];
                if (is_of(isolator, types))
                        r = pod_grants_add_origin(&g, app->name, isolator->name, source);
        }
        if (r >= 0)
                r = pod_app_path(p, app, GRANTS_FILE, &path);
        if (r >= 0)
                r = grants_format(&g, &o);
        const char *text = r < 0 ? NULL : json_print(o);
        if (!text || !(*ret_text = strdup(text)))
                return error_oom(e);
        *ret_path = TAKE_PTR(path);
        return 0;
}
