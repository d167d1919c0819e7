/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Image manifests (spec: aci.md), and the common part of parsing both kinds of manifests. */

#include "schema/schema-internal.h"

/* --- Both manifests ------------------------------------------------------------------------------------ */

/* The version determines how some values are read, so it is looked up first, at any position and in any
 * spelling. */
static bool uses_milli_cores(json_object *document)
{
        if (!json_object_is_type(document, json_type_object))
                return false;
        json_object_object_foreach (document, key, v)
                if (strcasecmp(key, "acVersion") == 0 && json_object_is_type(v, json_type_string))
                        return ac_version_before(json_object_get_string(v), 0, 7);
        return false;
}

int manifest_parse(const char *text, size_t size, const char *what, const Type *t, void *target,
                   Findings *findings, Error *e)
{
        _cleanup_findings_ Findings own = {};
        _cleanup_json_ json_object *document = NULL;
        _cleanup_parser_ Parser p = {.findings = findings ?: &own, .extensible = t->extensible};
        size_t first = p.findings->n;

        int r = t->nul_is_parsed ? json_parse_with_nul(text, size, &document, p.findings, e)
                                 : json_parse_strict(text, size, &document, p.findings, e);
        if (r < 0)
                return error_prefix(e, r, "Invalid %s", what);
        p.milli_cores = uses_milli_cores(document);
        t->parse(&p, t, document, target);
        return parser_conclude(&p, what, first, e);
}

/* --- Image manifests ----------------------------------------------------------------------------------- */

/* Entries are not normalized: a trailing slash means a directory. */
static int whitelist_check(const char *s, Error *e)
{
        _cleanup_free_ char *absolute = NULL, *normal = NULL;

        if (isempty(s))
                return error_value(e, s, "is not a path");
        if (xasprintf(&absolute, "/%s", s) < 0)
                return error_oom(e);
        int r = path_normalize(absolute, &normal);
        if (r == -ENOMEM)
                return error_oom(e);
        return r < 0 ? error_value(e, s, "must not contain \"..\"") : 0;
}

/* The specification requires absolute paths; the reference implementation also accepts others, relative to
 * the root. */
static void whitelist_entry_parse(Parser *p, const Type *t, json_object *v, void *target)
{
        char **s = target;

        string_parse(p, t, v, target);
        if (*s && !path_is_absolute(*s))
                parser_warning(p, "is not an absolute path, and is taken as relative to the root");
}

static void size_parse(Parser *p, const Type *t, json_object *v, void *target)
{
        Dependency *d = target;
        int64_t size;

        if (!parse_integer(p, v, 0, INT64_MAX, &size))
                return;
        d->has_size = true;
        d->size = (uint64_t) size;
}

static int size_format(const Type *t, const void *source, json_object **ret)
{
        const Dependency *d = source;

        if (!d->has_size)
                return 0;
        *ret = json_object_new_uint64(d->size);
        return *ret ? 1 : -ENOMEM;
}

static const Type type_size = {.parse = size_parse, .format = size_format};
static const Field dependency_fields[] = {
                {"imageName", &type_ac_identifier, offsetof(Dependency, image_name), FIELD_REQUIRED},
                {"imageID", &type_image_id, offsetof(Dependency, image_id)},
                {"labels", &type_labels, offsetof(Dependency, labels)},
                {"size", &type_size, 0},
                {},
};
static const Type type_dependency = {OBJECT_OPS, .size = sizeof(Dependency), .fields = dependency_fields};
static const Type type_dependencies = {LIST_OPS, .item = &type_dependency};
static const Type type_whitelist_entry = {
                .parse = whitelist_entry_parse,
                .format = string_format,
                .copy = string_copy,
                .done = string_done,
                .size = sizeof(char *),
                .check = whitelist_check,
};
static const Type type_whitelist = {STRINGS_OPS, .size = sizeof(char **), .item = &type_whitelist_entry};

static const Type type_kind = {CONSTANT_OPS, .constant = "ImageManifest"};

static const Field image_manifest_fields[] = {
                {"acKind", &type_kind, 0, FIELD_REQUIRED},
                {"acVersion", &type_ac_version, offsetof(ImageManifest, ac_version), FIELD_REQUIRED},
                {"name", &type_ac_identifier, offsetof(ImageManifest, name), FIELD_REQUIRED},
                {"labels", &type_labels, offsetof(ImageManifest, labels)},
                {"app", &type_app_pointer, offsetof(ImageManifest, app)},
                LIST_FIELD("dependencies", ImageManifest, dependencies, n_dependencies, &type_dependencies,
                           0),
                {"pathWhitelist", &type_whitelist, offsetof(ImageManifest, path_whitelist)},
                {"annotations", &type_annotations, offsetof(ImageManifest, annotations)},
                {},
};
static const Type type_image_manifest = {
                OBJECT_OPS,
                .size = sizeof(ImageManifest),
                .fields = image_manifest_fields,
};
static const Type type_image_manifest_pointer = {
                POINTER_OPS,
                .size = sizeof(void *),
                .item = &type_image_manifest,
};

ImageManifest *image_manifest_free(ImageManifest *m)
{
        pointer_done(&type_image_manifest_pointer, &m);
        return NULL;
}

int image_manifest_parse(const char *text, size_t size, ImageManifest **ret, Findings *findings, Error *e)
{
        _cleanup_(image_manifest_freep) ImageManifest *m = NULL;
        int r = manifest_parse(text, size, "image manifest", &type_image_manifest_pointer, &m, findings, e);

        if (r < 0)
                return r;
        *ret = TAKE_PTR(m);
        return 0;
}

int image_manifest_format(const ImageManifest *m, char **ret)
{
        return manifest_format(&type_image_manifest, m, ret);
}
