/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* prepare/registry/: images of registries that speak the registry protocol, version 2 (OCI distribution
 * specification): what references mean, where configuration says that images are, credentials, and the
 * protocol itself, as a source of the OCI importer. */

#include "prepare/store/store.h"

typedef struct Transfer Transfer;   /* prepare/transfer/transfer.h */
typedef struct OciSource OciSource; /* prepare/oci/oci.h */

/* --- References (reference.c) -------------------------------------------------------------------------- */

typedef struct RegistryReference {
        char *registry; /* host[:port], lower case; NULL: a short name, which only configuration completes */
        char *repository; /* "team/app" */
        char *tag;        /* NULL: none was written */
        char *digest;     /* "sha256:…" or "sha512:…", or NULL; if given it decides, whatever the tag */
} RegistryReference;

void registry_reference_done(RegistryReference *r);
/* [docker://][REGISTRY[:PORT]/]REPOSITORY[:TAG][@DIGEST], by the grammar of the distribution project. Pure.
 * -EINVAL says which part is wrong. */
int registry_reference_parse(const char *s, RegistryReference *ret, Error *e);
/* The same as text, without "docker://". */
int registry_reference_format(const RegistryReference *r, char **ret);

/* --- Sources (registry.c) ------------------------------------------------------------------------------ */

typedef struct RegistryOptions {
        unsigned insecure; /* InsecureOptions: the same as the Transfer's */
        /* What has registries.d in it, strongest first; NULL: usual_config_dirs. */
        const char *const *config_dirs;
        /* What is worth a line to the user: holes that configuration opens, mirrors that did not do, keys of
         * configuration files that are not used. May come from several threads. */
        void (*note)(const char *line, void *userdata);
        /* Bytes of a blob that have come; from several threads. TOTAL: 0 if unknown. */
        void (*progress)(const char *what, uint64_t done, uint64_t total, void *userdata);
        void *userdata;
} RegistryOptions;

/* What the reference S means with the configuration of this host: short names completed, tag "latest" if
 * none is written. This is the image's normalised reference, "docker://…". No network. */
int registry_reference_resolve(const char *s, const RegistryOptions *o, char **ret, Error *e);

/* A source that fetches what the reference names, over T; broken downloads wait in S to be resumed. T, S and
 * what O points to must outlive the source. No network yet. The source is freed by its vtable's free(). */
int registry_source_new(Transfer *t, Store *s, const char *reference, const RegistryOptions *o,
                        OciSource **ret, Error *e);
/* The digest ("sha256:…") of the manifest or index that the reference came to, as a key for the next call;
 * NULL before the first get_manifest(). Owned by the source. */
const char *registry_source_digest(const OciSource *src);
/* Asks, in one request, whether the reference still comes to the manifest or index with DIGEST. Returns 1 if
 * so, 0 if there is another one, which is kept: get_manifest() does not ask for it again. */
int registry_source_unchanged(OciSource *src, const char *digest, Error *e);
