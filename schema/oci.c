/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The documents that describe the components of an OCI or Docker image: index, manifest, layout file, and
 * the manifest.json of Docker's archives.
 *
 * They are parsed by tables, like the manifests of the App Container specification. Docker's documents
 * differ from OCI's only in their media types. The kind of a document is determined by its mediaType, by the
 * type with which it was transferred, or by its members; if these contradict each other, the document is
 * refused, since two programs that decide differently would get different images for one digest.
 */

#include "schema/oci.h"
#include "schema/schema-internal.h"

/* --- Digests ------------------------------------------------------------------------------------------- */

static const struct {
        const char *prefix;
        size_t n_digits;
} algorithms[] = {{"sha256:", 64}, {"sha512:", 128}};

int oci_digest_check(const char *s, Error *e)
{
        for (size_t i = 0; i < ELEMENTSOF(algorithms); i++) {
                const char *digits = startswith(s, algorithms[i].prefix);
                if (digits && strlen(digits) == algorithms[i].n_digits &&
                    strspn(digits, "0123456789abcdef") == algorithms[i].n_digits)
                        return 0;
        }
        return error_value(e, s,
                           "is not a digest: expected \"sha256:\" and 64, or \"sha512:\" and 128 hex digits "
                           "in lower case");
}

/* --- Descriptors --------------------------------------------------------------------------------------- */

static void u64_parse(Parser *p, const Type *t, json_object *v, void *target)
{
        uint64_t *place = target;
        int64_t i;

        if (parse_integer(p, v, 0, INT64_MAX, &i))
                *place = (uint64_t) i;
}

static const Type type_bytes = {.parse = u64_parse, .size = sizeof(uint64_t)};
static const Type type_digest = {STRING_OPS, .size = sizeof(char *), .check = oci_digest_check};
/* Some writers omit such a member, others write an empty string. */
static const Type type_optional_string = {STRING_OPS, .size = sizeof(char *), .empty_is_absent = true};

static const Field platform_fields[] = {
                {"architecture", &type_optional_string, offsetof(OciPlatform, architecture)},
                {"os", &type_optional_string, offsetof(OciPlatform, os)},
                {"variant", &type_optional_string, offsetof(OciPlatform, variant)},
                {"os.version", &type_optional_string, offsetof(OciPlatform, os_version)},
                {},
};
static const Type type_platform = {OBJECT_OPS, .size = sizeof(OciPlatform), .fields = platform_fields};
static const Type type_platform_pointer = {POINTER_OPS, .size = sizeof(OciPlatform *),
                                           .item = &type_platform};

static const Field descriptor_fields[] = {
                {"mediaType", &type_string_required, offsetof(OciDescriptor, media_type), FIELD_REQUIRED},
                {"digest", &type_digest, offsetof(OciDescriptor, digest), FIELD_REQUIRED},
                {"size", &type_bytes, offsetof(OciDescriptor, size), FIELD_REQUIRED},
                {"platform", &type_platform_pointer, offsetof(OciDescriptor, platform)},
                {"artifactType", &type_optional_string, offsetof(OciDescriptor, artifact_type)},
                {"annotations", &type_user_map, offsetof(OciDescriptor, annotations)},
                {},
};
static const Type type_descriptor = {OBJECT_OPS, .size = sizeof(OciDescriptor), .fields = descriptor_fields};
static const Type type_descriptors = {LIST_OPS, .item = &type_descriptor};

void oci_descriptor_done(OciDescriptor *d)
{
        object_done(&type_descriptor, d);
}

int oci_descriptor_copy(const OciDescriptor *d, OciDescriptor *ret)
{
        OciDescriptor copy = {};

        int r = object_copy(&type_descriptor, d, &copy);
        if (r < 0) {
                oci_descriptor_done(&copy);
                return r;
        }
        *ret = copy;
        return 0;
}

/* --- Kinds of documents -------------------------------------------------------------------------------- */

#define OCI_INDEX "application/vnd.oci.image.index.v1+json"
#define OCI_MANIFEST "application/vnd.oci.image.manifest.v1+json"
#define DOCKER_LIST "application/vnd.docker.distribution.manifest.list.v2+json"
#define DOCKER_MANIFEST "application/vnd.docker.distribution.manifest.v2+json"
#define DOCKER_SCHEMA1 "application/vnd.docker.distribution.manifest.v1+"

const char *const oci_manifest_media_types[] = {OCI_INDEX, OCI_MANIFEST, DOCKER_LIST, DOCKER_MANIFEST, NULL};

static const struct {
        const char *media_type;
        OciKind kind;
} document_types[] = {
                {OCI_INDEX, OCI_KIND_INDEX},
                {DOCKER_LIST, OCI_KIND_INDEX},
                {OCI_MANIFEST, OCI_KIND_MANIFEST},
                {DOCKER_MANIFEST, OCI_KIND_MANIFEST},
};

static int refuse_schema1(Error *e)
{
        int r = error_set(e, -EPROTONOSUPPORT,
                          "The manifest is of Docker's schema 1, which cannot be verified and is not "
                          "supported");
        return error_hint(e, r, "Push the image again with a current tool, which writes schema 2 or OCI.");
}

/* 1: MEDIA_TYPE determines the kind of the document; 0: it does not. */
static int kind_of_media_type(const char *media_type, OciKind *ret, Error *e)
{
        _cleanup_free_ char *bare = strndup(media_type, strcspn(media_type, "; ")), *quoted = NULL;
        static const char *const vague[] = {"", "application/json", "text/plain",
                                            "application/octet-stream"};

        if (!bare)
                return error_oom(e);
        for (size_t i = 0; i < ELEMENTSOF(document_types); i++)
                if (streq(bare, document_types[i].media_type)) {
                        *ret = document_types[i].kind;
                        return 1;
                }
        for (size_t i = 0; i < ELEMENTSOF(vague); i++)
                if (streq(bare, vague[i]))
                        return 0;
        if (startswith(bare, DOCKER_SCHEMA1))
                return refuse_schema1(e);
        quoted = quote_value(bare);
        return error_set(e, -EPROTONOSUPPORT, "A document of type %s is not an image manifest",
                         quoted ?: "that is not known");
}

static int kind_of_content(json_object *o, OciKind *ret, Error *e)
{
        bool index = json_object_object_get_ex(o, "manifests", NULL);
        bool manifest = json_object_object_get_ex(o, "config", NULL) ||
                        json_object_object_get_ex(o, "layers", NULL);

        if (index && manifest)
                return error_set(e, -EINVAL,
                                 "The document is both an index and a manifest: it has \"manifests\" and "
                                 "\"config\" or \"layers\"");
        if (!index && !manifest)
                return error_set(e, -EINVAL, "The document is neither an image index nor an image manifest");
        *ret = index ? OCI_KIND_INDEX : OCI_KIND_MANIFEST;
        return 0;
}

static bool is_schema1(json_object *o)
{
        json_object *v;

        return json_object_object_get_ex(o, "schemaVersion", &v) && json_object_is_type(v, json_type_int) &&
               json_object_get_int64(v) == 1;
}

static int check_agreement(const char *media_type, OciKind kind, const char *where, Error *e)
{
        OciKind said = kind;

        int r = kind_of_media_type(media_type, &said, e);
        if (r < 0)
                return r;
        if (said == kind)
                return 0;
        return error_set(e, -EINVAL, "The document is an image %s, but %s says that it is an image %s",
                         kind == OCI_KIND_INDEX ? "index" : "manifest", where,
                         said == OCI_KIND_INDEX ? "index" : "manifest");
}

int oci_document_kind(const char *text, size_t size, const char *media_type, OciKind *ret, Error *e)
{
        _cleanup_json_ json_object *o = NULL;
        json_object *own;
        OciKind kind = OCI_KIND_INDEX;

        int r = json_parse_strict(text, size, &o, NULL, e);
        if (r < 0)
                return error_prefix(e, r, "Invalid image manifest");
        if (!json_object_is_type(o, json_type_object))
                return error_set(e, -EINVAL, "The image manifest is not a JSON object");
        if (is_schema1(o))
                return refuse_schema1(e);
        r = kind_of_content(o, &kind, e);
        if (r >= 0 && json_object_object_get_ex(o, "mediaType", &own) &&
            json_object_is_type(own, json_type_string))
                r = check_agreement(json_object_get_string(own), kind, "its mediaType", e);
        if (r >= 0 && media_type)
                r = check_agreement(media_type, kind, "its Content-Type", e);
        if (r < 0)
                return r;
        *ret = kind;
        return 0;
}

/* --- Index and manifest -------------------------------------------------------------------------------- */

static void version_parse(Parser *p, const Type *t, json_object *v, void *target)
{
        int64_t version;

        (void) parse_integer(p, v, 2, 2, &version);
}

static const Type type_schema_version = {.parse = version_parse};

static const Field index_fields[] = {
                {"schemaVersion", &type_schema_version, 0, FIELD_REQUIRED},
                {"mediaType", &type_optional_string, offsetof(OciIndex, media_type)},
                LIST_FIELD("manifests", OciIndex, manifests, n_manifests, &type_descriptors, FIELD_REQUIRED),
                {"annotations", &type_user_map, offsetof(OciIndex, annotations)},
                {},
};
static const Type type_index = {OBJECT_OPS, .size = sizeof(OciIndex), .fields = index_fields};
static const Type type_index_pointer = {POINTER_OPS, .size = sizeof(void *), .item = &type_index};

OciIndex *oci_index_free(OciIndex *i)
{
        pointer_done(&type_index_pointer, &i);
        return NULL;
}

int oci_index_parse(const char *text, size_t size, OciIndex **ret, Findings *findings, Error *e)
{
        _cleanup_(oci_index_freep) OciIndex *i = NULL;

        int r = manifest_parse(text, size, "image index", &type_index_pointer, &i, findings, e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(i);
        return 0;
}

static void manifest_finish(Parser *p, void *target)
{
        const OciManifest *m = target;

        if (m->n_layers > OCI_LAYERS_MAX) {
                size_t mark = parser_enter_key(p, "layers");
                parser_finding(p, "there are %zu; at most %u can be stacked", m->n_layers, OCI_LAYERS_MAX);
                parser_leave(p, mark);
        }
}

static const Field manifest_fields[] = {
                {"schemaVersion", &type_schema_version, 0, FIELD_REQUIRED},
                {"mediaType", &type_optional_string, offsetof(OciManifest, media_type)},
                {"artifactType", &type_optional_string, offsetof(OciManifest, artifact_type)},
                {"config", &type_descriptor, offsetof(OciManifest, config), FIELD_REQUIRED},
                LIST_FIELD("layers", OciManifest, layers, n_layers, &type_descriptors, FIELD_REQUIRED),
                {"annotations", &type_user_map, offsetof(OciManifest, annotations)},
                {},
};
static const Type type_manifest = {
                OBJECT_OPS,
                .size = sizeof(OciManifest),
                .fields = manifest_fields,
                .finish = manifest_finish,
};
static const Type type_manifest_pointer = {POINTER_OPS, .size = sizeof(void *), .item = &type_manifest};

OciManifest *oci_manifest_free(OciManifest *m)
{
        pointer_done(&type_manifest_pointer, &m);
        return NULL;
}

int oci_manifest_parse(const char *text, size_t size, OciManifest **ret, Findings *findings, Error *e)
{
        _cleanup_(oci_manifest_freep) OciManifest *m = NULL;

        int r = manifest_parse(text, size, "OCI image manifest", &type_manifest_pointer, &m, findings, e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(m);
        return 0;
}

/* --- Check for an image -------------------------------------------------------------------------------- */

static const char *const config_types[] = {
                "application/vnd.oci.image.config.v1+json",
                "application/vnd.docker.container.image.v1+json",
};

/* The compression of a layer is detected by its first bytes. Layers that are not distributable are treated
 * like others if they are available. */
static const char *const layer_types[] = {
                "application/vnd.oci.image.layer.v1.tar",
                "application/vnd.oci.image.layer.v1.tar+gzip",
                "application/vnd.oci.image.layer.v1.tar+zstd",
                "application/vnd.oci.image.layer.nondistributable.v1.tar",
                "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
                "application/vnd.oci.image.layer.nondistributable.v1.tar+zstd",
                "application/vnd.docker.image.rootfs.diff.tar",
                "application/vnd.docker.image.rootfs.diff.tar.gzip",
                "application/vnd.docker.image.rootfs.diff.tar.zstd",
                "application/vnd.docker.image.rootfs.foreign.diff.tar",
                "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
};

static bool is_one_of(const char *s, const char *const *l, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (streq(s, l[i]))
                        return true;
        return false;
}

static int check_layer(const OciDescriptor *d, size_t i, Error *e)
{
        _cleanup_free_ char *quoted = NULL;

        if (is_one_of(d->media_type, layer_types, ELEMENTSOF(layer_types)))
                return 0;
        quoted = quote_value(d->media_type);
        if (endswith(d->media_type, "+encrypted"))
                return error_set(e, -EPROTONOSUPPORT, "Layer %zu of the image is encrypted (%s)", i + 1,
                                 quoted ?: "?");
        return error_set(e, -EPROTONOSUPPORT, "Layer %zu is not a layer of an image: it is of type %s",
                         i + 1, quoted ?: "?");
}

int oci_manifest_check_image(const OciManifest *m, Error *e)
{
        if (!is_one_of(m->config.media_type, config_types, ELEMENTSOF(config_types))) {
                _cleanup_free_ char *quoted = quote_value(m->artifact_type ?: m->config.media_type);
                return error_set(e, -EPROTONOSUPPORT, "This is an artifact of type %s, not an image",
                                 quoted ?: "?");
        }
        for (size_t i = 0; i < m->n_layers; i++) {
                int r = check_layer(&m->layers[i], i, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* --- The file oci-layout ------------------------------------------------------------------------------- */

static int layout_version_check(const char *s, Error *e)
{
        return startswith(s, "1.") ? 0 : error_value(e, s, "is not a known version of the layout");
}

static const Type type_layout_version = {STRING_OPS, .size = sizeof(char *), .check = layout_version_check};
static const Field layout_fields[] = {
                {"imageLayoutVersion", &type_layout_version, 0, FIELD_REQUIRED},
                {},
};
static const Type type_layout = {OBJECT_OPS, .size = sizeof(char *), .fields = layout_fields};

int oci_layout_parse(const char *text, size_t size, Findings *findings, Error *e)
{
        char *version = NULL;

        int r = manifest_parse(text, size, "image layout", &type_layout, &version, findings, e);
        free(version);
        return r;
}

/* --- manifest.json ------------------------------------------------------------------------------------- */

static const Field archive_image_fields[] = {
                {"Config", &type_string_required, offsetof(DockerArchiveImage, config), FIELD_REQUIRED},
                {"RepoTags", &type_strings, offsetof(DockerArchiveImage, repo_tags)},
                {"Layers", &type_strings, offsetof(DockerArchiveImage, layers)},
                {},
};
static const Type type_archive_image = {
                OBJECT_OPS,
                .size = sizeof(DockerArchiveImage),
                .fields = archive_image_fields,
};
static const Type type_archive = {LIST_OPS, .size = sizeof(DockerArchive), .item = &type_archive_image};
static const Type type_archive_pointer = {POINTER_OPS, .size = sizeof(void *), .item = &type_archive};

DockerArchive *docker_archive_free(DockerArchive *a)
{
        pointer_done(&type_archive_pointer, &a);
        return NULL;
}

int docker_archive_parse(const char *text, size_t size, DockerArchive **ret, Findings *findings, Error *e)
{
        _cleanup_(docker_archive_freep) DockerArchive *a = NULL;

        int r = manifest_parse(text, size, "manifest.json", &type_archive_pointer, &a, findings, e);
        if (r < 0)
                return r;
        if (a->n_images == 0)
                return error_set(e, -EINVAL, "The archive's manifest.json does not list any image");
        *ret = TAKE_PTR(a);
        return 0;
}
