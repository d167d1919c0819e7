/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The responses of the service, rendered once per configuration, so that a request is only a look-up without
 * copying or parsing.
 *
 * Responses are reference-counted by libmicrohttpd and own their text. Tables are never changed: a new
 * configuration creates new ones, and the old responses are freed when the last connection has sent them.
 */

#include "library/libcrypto.h"
#include "metadata/tables.h"

#define REQUEST_TIMEOUT_MSEC 15000U
#define VERIFY_TIMEOUT_MSEC 5000U

struct MHD_Response *metadata_response_new(char *text, size_t size, const char *content_type,
                                           const char *allow)
{
        if (!text)
                return NULL;
        struct MHD_Response *r = MHD_create_response_from_buffer_with_free_callback(size, text, free);
        if (!r) {
                free(text);
                return NULL;
        }
        if (MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, content_type) != MHD_YES ||
            (allow && MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, allow) != MHD_YES)) {
                MHD_destroy_response(r);
                return NULL;
        }
        return r;
}

/* Renders TEXT as the response for R; takes ownership of TEXT. */
static int render(MetadataResource r, char *text, size_t size, struct MHD_Response **slot, Error *e)
{
        *slot = metadata_response_new(text, size, metadata_resource_content_type(r), NULL);
        return *slot ? 0 : error_oom(e);
}

static int render_copy(MetadataResource r, const char *text, size_t size, struct MHD_Response **slot,
                       Error *e)
{
        char *copy = malloc(size + 1);

        if (copy)
                memcpy(copy, text, size);
        return render(r, copy, size, slot, e);
}

static int render_annotations(MetadataResource r, const PairList *l, struct MHD_Response **slot, Error *e)
{
        char *text;

        if (annotations_format(l, &text) < 0)
                return error_oom(e);
        return render(r, text, strlen(text), slot, e);
}

/* "Fully-reified": an empty list of annotations is written explicitly, as by pod/annotations. Clients
 * compare the two. */
static int render_pod_manifest(const MetadataConfig *c, struct MHD_Response **slot, Error *e)
{
        _cleanup_json_ json_object *o = NULL;
        json_object *member;

        int r = json_parse_strict(c->pod_manifest, c->pod_manifest_size, &o, NULL, e);
        if (r < 0)
                return r;
        if (json_object_object_get_ex(o, "annotations", &member) && member)
                return render_copy(METADATA_POD_MANIFEST, c->pod_manifest, c->pod_manifest_size, slot, e);

        if (json_member_add(o, "annotations", json_object_new_array()) < 0)
                return error_oom(e);
        const char *text = json_print_pretty(o);
        if (!text)
                return error_oom(e);
        return render_copy(METADATA_POD_MANIFEST, text, strlen(text), slot, e);
}

static int render_pod(MetadataTables *t, const MetadataConfig *c, const PodManifest *m, Error *e)
{
        int r = render_annotations(METADATA_POD_ANNOTATIONS, &m->annotations,
                                   t->responses + METADATA_POD_ANNOTATIONS, e);

        if (r >= 0)
                r = render_pod_manifest(c, t->responses + METADATA_POD_MANIFEST, e);
        if (r >= 0)
                r = render_copy(METADATA_POD_UUID, t->uuid, strlen(t->uuid),
                                t->responses + METADATA_POD_UUID, e);
        return r;
}

static int merged_annotations(const MetadataConfig *c, const MetadataApp *a, const PodApp *app,
                              PairList *ret, Error *e)
{
        _cleanup_(image_manifest_freep) ImageManifest *image = NULL;

        int r = image_manifest_parse(a->image_manifest, a->image_manifest_size, &image, NULL, e);
        if (r < 0)
                return error_prefix(e, r, "The image manifest of app %s of pod %s", a->name, c->uuid);
        r = app_annotations_merge(&image->annotations, &app->annotations, ret);
        return r < 0 ? error_oom(e) : 0;
}

static struct MHD_Response **app_slot(MetadataTablesApp *t, MetadataResource r)
{
        return t->responses + (r - METADATA_APP_ANNOTATIONS);
}

static int render_app(MetadataTablesApp *t, const MetadataConfig *c, const MetadataApp *a, const PodApp *app,
                      Error *e)
{
        _cleanup_(pair_list_done) PairList annotations = {};

        t->name = strdup(a->name);
        if (!t->name)
                return error_oom(e);
        int r = merged_annotations(c, a, app, &annotations, e);
        if (r >= 0)
                r = render_annotations(METADATA_APP_ANNOTATIONS, &annotations,
                                       app_slot(t, METADATA_APP_ANNOTATIONS), e);
        if (r >= 0)
                r = render_copy(METADATA_APP_IMAGE_MANIFEST, a->image_manifest, a->image_manifest_size,
                                app_slot(t, METADATA_APP_IMAGE_MANIFEST), e);
        if (r >= 0)
                r = render_copy(METADATA_APP_IMAGE_ID, a->image_id, strlen(a->image_id),
                                app_slot(t, METADATA_APP_IMAGE_ID), e);
        return r;
}

static int compare_apps(const void *a, const void *b)
{
        return strcmp(((const MetadataTablesApp *) a)->name, ((const MetadataTablesApp *) b)->name);
}

static int render_apps(MetadataTables *t, const MetadataConfig *c, const PodManifest *m, Error *e)
{
        t->apps = calloc(c->n_apps + 1, sizeof(MetadataTablesApp));
        if (!t->apps)
                return error_oom(e);
        for (size_t i = 0; i < c->n_apps; i++) {
                const PodApp *app = pod_manifest_find_app(m, c->apps[i].name);
                if (!app)
                        return error_set(e, -EINVAL, "Pod %s has no app %s", c->uuid, c->apps[i].name);
                int r = render_app(t->apps + t->n_apps++, c, c->apps + i, app, e);
                if (r < 0)
                        return r;
        }
        qsort(t->apps, t->n_apps, sizeof(MetadataTablesApp), compare_apps);
        return 0;
}

static int set_identity(MetadataTables *t, const MetadataConfig *c, Error *e)
{
        t->uuid = strdup(c->uuid);
        t->token = strdup(c->token);
        if (!t->uuid || !t->token)
                return error_oom(e);
        t->token_size = strlen(t->token);
        memcpy(t->key, c->key, METADATA_KEY_SIZE);
        t->request_timeout_usec = (c->request_timeout_msec ?: REQUEST_TIMEOUT_MSEC) * 1000ULL;
        t->verify_timeout_usec = (c->verify_timeout_msec ?: VERIFY_TIMEOUT_MSEC) * 1000ULL;
        return 0;
}

int metadata_tables_new(const MetadataConfig *config, MetadataTables **ret, Error *e)
{
        _cleanup_(metadata_tables_freep) MetadataTables *t = calloc(1, sizeof(*t));
        _cleanup_(pod_manifest_freep) PodManifest *m = NULL;

        if (!t)
                return error_oom(e);
        int r = pod_manifest_parse(config->pod_manifest, config->pod_manifest_size, &m, NULL, e);
        if (r < 0)
                return error_prefix(e, r, "The manifest of pod %s", config->uuid);
        r = set_identity(t, config, e);
        if (r >= 0)
                r = render_pod(t, config, m, e);
        if (r >= 0)
                r = render_apps(t, config, m, e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(t);
        return 0;
}

static void free_responses(struct MHD_Response **l, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (l[i])
                        MHD_destroy_response(l[i]);
}

MetadataTables *metadata_tables_free(MetadataTables *t)
{
        if (!t)
                return NULL;
        free_responses(t->responses, METADATA_POD_RESOURCES);
        for (size_t i = 0; i < t->n_apps; i++) {
                free_responses(t->apps[i].responses, METADATA_APP_RESOURCES);
                free(t->apps[i].name);
        }
        free(t->apps);
        free(t->uuid);
        free(t->token);
        OPENSSL_cleanse(t->key, sizeof(t->key));
        free(t);
        return NULL;
}

static int compare_route(const void *key, const void *item)
{
        const MetadataRoute *route = key;
        const MetadataTablesApp *app = item;
        int d = strncmp(route->app, app->name, route->app_size);

        return d ?: -(app->name[route->app_size] != 0);
}

struct MHD_Response *metadata_tables_find(const MetadataTables *t, const MetadataRoute *route)
{
        if (!metadata_resource_is_app(route->resource))
                return t->responses[route->resource];
        const MetadataTablesApp *app =
                        bsearch(route, t->apps, t->n_apps, sizeof(MetadataTablesApp), compare_route);
        return app ? app->responses[route->resource - METADATA_APP_ANNOTATIONS] : NULL;
}
