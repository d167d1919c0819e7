/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The documents of OCI images (image-spec 1.1) and of Docker's images (schema 2, which OCI came from): image
 * index and manifest list, image manifest, image config, the file oci-layout, and the manifest.json of
 * Docker's archives; and the conversion of an image config to an image manifest of the App Container
 * specification.
 *
 * As schema.h: pure functions; text comes in, a structure or findings come out. All documents are untrusted:
 * sizes are limited by MANIFEST_SIZE_MAX and JSON is parsed strictly. Unknown members are ignored, as both
 * specifications require.
 */

#include "schema/schema.h"

#define OCI_LAYERS_MAX 400U /* of one image; overlayfs supports 500 in all */
#define OCI_REF_NAME                                                                                        \
        "org.opencontainers.image.ref.name" /* annotation of an index: the tag, or a reference */

/* --- Digests and media types --------------------------------------------------------------------------- */

/* "sha256:" and 64, or "sha512:" and 128 hex digits in lower case. -EINVAL. */
int oci_digest_check(const char *s, Error *e);

typedef enum OciKind { OCI_KIND_INDEX, OCI_KIND_MANIFEST } OciKind;

/* The media types for the Accept header of a registry request. NULL at the end. */
extern const char *const oci_manifest_media_types[];

/* Determines the kind of the document TEXT: an index (or manifest list) or the manifest of one image.
 * MEDIA_TYPE is that of the response (Content-Type) or of the descriptor, or NULL. Refused with a message: a
 * document that could be read as both, one whose own mediaType differs, Docker's schema 1
 * (-EPROTONOSUPPORT), and one that is neither (-EINVAL; -EBADMSG: not JSON). */
int oci_document_kind(const char *text, size_t size, const char *media_type, OciKind *ret, Error *e);

/* A path of a config or a client, which may be relative, to "/", and have "." and "..": absolute and without, resolved as a text. */
int oci_clean_path(const char *path, char **ret);

/* --- Descriptors, index, manifest ---------------------------------------------------------------------- */

typedef struct OciPlatform {
        char *architecture, *os;
        char *variant; /* or NULL */
        char *os_version;
} OciPlatform;

typedef struct OciDescriptor {
        char *media_type;
        char *digest;
        uint64_t size;         /* bytes */
        OciPlatform *platform; /* index only; or NULL */
        char *artifact_type;   /* or NULL */
        PairList annotations;
} OciDescriptor;

void oci_descriptor_done(OciDescriptor *d);
int oci_descriptor_copy(const OciDescriptor *d, OciDescriptor *ret);

/* An image index, or a manifest list of Docker's. */
typedef struct OciIndex {
        char *media_type; /* or NULL */
        OciDescriptor *manifests;
        size_t n_manifests;
        PairList annotations;
} OciIndex;

OciIndex *oci_index_free(OciIndex *i);
DEFINE_TRIVIAL_CLEANUP_FUNC(OciIndex *, oci_index_free);
int oci_index_parse(const char *text, size_t size, OciIndex **ret, Findings *findings, Error *e);

/* The image for OS and ARCHITECTURE (appc's words, see host_os_label()) in the index: of several the one
 * whose variant is the highest that this architecture still runs, then the first. Descriptors without a
 * platform are used if there is no other. -ENOENT: the message lists the available platforms. */
int oci_index_select(const OciIndex *i, const char *os, const char *arch, const OciDescriptor **ret,
                     Error *e);

typedef struct OciManifest {
        char *media_type;    /* or NULL */
        char *artifact_type; /* or NULL */
        OciDescriptor config;
        OciDescriptor *layers; /* lowest first */
        size_t n_layers;
        PairList annotations;
} OciManifest;

OciManifest *oci_manifest_free(OciManifest *m);
DEFINE_TRIVIAL_CLEANUP_FUNC(OciManifest *, oci_manifest_free);
int oci_manifest_parse(const char *text, size_t size, OciManifest **ret, Findings *findings, Error *e);
/* Checks that it is an image that can be run: a config and layers of known media types, not too many layers.
 * -EPROTONOSUPPORT names the artifact, or the kind of layer. */
int oci_manifest_check_image(const OciManifest *m, Error *e);

/* The file "oci-layout". */
int oci_layout_parse(const char *text, size_t size, Findings *findings, Error *e);

/* --- Image config -------------------------------------------------------------------------------------- */

typedef struct OciConfig {
        char *created, *author;          /* or NULL */
        OciPlatform platform;            /* members may be NULL: not stated */
        char *user;                      /* or NULL */
        char *working_directory;         /* or NULL */
        char *stop_signal;               /* or NULL */
        char *healthcheck;               /* JSON text, or NULL */
        char **entrypoint, **cmd, **env; /* env: "NAME=value" */
        char **exposed_ports, **volumes;
        PairList labels;
        char **diff_ids; /* lowest first */
} OciConfig;

OciConfig *oci_config_free(OciConfig *c);
DEFINE_TRIVIAL_CLEANUP_FUNC(OciConfig *, oci_config_free);
int oci_config_parse(const char *text, size_t size, OciConfig **ret, Findings *findings, Error *e);

/* The labels os and arch for a platform; *RET_ARCH is NULL if it does not state an architecture.
 * -EPROTONOSUPPORT: the label table has no entry for it. Both results are constants. */
int oci_platform_to_labels(const OciPlatform *p, const char **ret_os, const char **ret_arch, Error *e);

/* The group of an image whose User names no group: the primary group of the user in the image's /etc/passwd,
 * and the groups that list the user in its /etc/group. It cannot be the name of a group, as ":" separates
 * the fields of these files. */
#define GROUPS_OF_USER ":user"

/* The image manifest for an image of that config (spec: aci.md, "Image Manifest Schema"). NAME is an AC
 * Identifier; VERSION becomes the label of that name, or is NULL.
 *
 *   Entrypoint, Cmd  exec, the one after the other; without either the app has no exec
 *   Env              environment; of duplicate names the last one counts
 *   User             user and group; no user: 0; no group: GROUPS_OF_USER
 *   WorkingDir       workingDirectory; relative ones are relative to the root, ".." is resolved
 *   ExposedPorts     ports, named "80-tcp"; ranges are ports with a count
 *   Volumes          mountPoints, named after their path
 *   Labels           annotations: upper case becomes lower case, other characters that identifiers do not
 *                    have become "-", names with a meaning in the specification get "label/" in
 *                    front; of two that are mapped to the same name the second gets "-2", and so on
 *   StopSignal, Healthcheck, created, author
 *                    annotations org.opencontainers.image.stopsignal, ….healthcheck, created, authors
 *   os, architecture, variant
 *                    labels os and arch
 *
 * What other engines ignore, or is of no use here, is left out, with a warning among FINDINGS (or NULL): variables, ports
 * and volumes that are none. Other members that an image manifest cannot express are refused; the error names them
 * (-EINVAL, -EPROTONOSUPPORT). */
int oci_config_to_image_manifest(const OciConfig *c, const char *name, const char *version,
                                 ImageManifest **ret, Findings *findings, Error *e);

/* --- Names --------------------------------------------------------------------------------------------- */

/* Converts an image reference ("registry.example.com:5000/team/app:1.0", a digest may follow) to image name
 * and version: the name is an AC Identifier in which the ":" of a port becomes "~" and other characters that
 * are not valid in identifiers become "-"; *RET_VERSION is the tag, NULL without one. -EINVAL: the resulting
 * name would be empty. */
int oci_name_from_reference(const char *reference, char **ret_name, char **ret_version, Error *e);

/* The default name of an app, by the reference of its image in a registry: the last component of the
 * repository. -EINVAL. */
int oci_app_name_from_reference(const char *reference, char **ret);
/* Whether S has the form of a reference in a registry: "nginx", "HOST:PORT/app:1.0". */
bool oci_reference_is_likely(const char *s);

/* The number of elements of exec that are the config's Entrypoint; those that follow are its Cmd. */
#define OCI_ENTRYPOINT_SIZE "acnspawn/oci-entrypoint-size"
/* The number in these annotations, at most N; N if there is no valid one. */
size_t oci_entrypoint_size(const PairList *annotations, size_t n);

/* --- manifest.json of Docker's archives ---------------------------------------------------------------- */

typedef struct DockerArchiveImage {
        char *config; /* name of a member of the archive */
        char **repo_tags;
        char **layers; /* names of members, lowest first */
} DockerArchiveImage;

typedef struct DockerArchive {
        DockerArchiveImage *images;
        size_t n_images;
} DockerArchive;

DockerArchive *docker_archive_free(DockerArchive *a);
DEFINE_TRIVIAL_CLEANUP_FUNC(DockerArchive *, docker_archive_free);
int docker_archive_parse(const char *text, size_t size, DockerArchive **ret, Findings *findings, Error *e);
