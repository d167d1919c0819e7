/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* prepare/registry/: images in registries with the registry protocol, version 2 (OCI distribution
 * specification): references, configuration of registries and mirrors, credentials, and the protocol itself,
 * as a source of the OCI importer. */

#include "prepare/store/store.h"

typedef struct Transfer Transfer;   /* prepare/transfer/transfer.h */
typedef struct OciSource OciSource; /* prepare/oci/oci.h */

/* --- References (reference.c) -------------------------------------------------------------------------- */

typedef struct RegistryReference {
        char *registry;   /* host[:port], lower case; NULL: a short name, to be completed by configuration */
        char *repository; /* "team/app" */
        char *tag;        /* NULL: none */
        char *digest;     /* "sha256:…" or "sha512:…", or NULL; takes precedence over the tag */
} RegistryReference;

void registry_reference_done(RegistryReference *r);
/* [docker://][REGISTRY[:PORT]/]REPOSITORY[:TAG][@DIGEST], by the grammar of the distribution project. Pure.
 * -EINVAL says which part is wrong. */
int registry_reference_parse(const char *s, RegistryReference *ret, Error *e);
/* The same as text, without "docker://". */
int registry_reference_format(const RegistryReference *r, char **ret);

/* --- Sources (registry.c) ------------------------------------------------------------------------------ */

/* Credentials for one registry, which take precedence over those of this host. NULL: none of that kind. */
typedef struct RegistryLogin {
        const char *registry; /* host[:port] that they are for; NULL: that of the reference, and not its mirrors */
        const char *user, *password;
        const char *identity_token; /* an OAuth2 refresh token */
        const char *bearer_token;   /* sent as it is */
} RegistryLogin;

typedef struct RegistryOptions {
        const RegistryLogin *login; /* or NULL */
        unsigned insecure;          /* InsecureOptions: the same as the Transfer's */
        /* Directories that contain registries.d, by descending precedence; NULL: usual_config_dirs. */
        const char *const *config_dirs;
        /* Notes for the user: insecure configuration, mirrors that failed, unused keys of configuration
         * files. May be called from several threads. */
        void (*note)(const char *line, void *userdata);
        /* Bytes of a blob received; called from several threads. TOTAL: 0 if unknown. */
        void (*progress)(const char *what, uint64_t done, uint64_t total, void *userdata);
        void *userdata;
} RegistryOptions;

/* Resolves the reference S with the configuration of this host: short names are completed, the tag defaults
 * to "latest". The result is the image's normalised reference, "docker://…". Does not use the network. */
int registry_reference_resolve(const char *s, const RegistryOptions *o, char **ret, Error *e);

/* The user and the password in AUTH, Base64 as in files of other tools; both are to be wiped by authorization_free().
 * -EINVAL: it is not valid. (auth-file.c) */
int registry_auth_decode(const char *auth, char **ret_user, char **ret_password, Error *e);

/* A source that fetches the image of the reference with T; interrupted downloads are kept in S to be
 * resumed. T, S and the pointers of O must outlive the source. Does not use the network yet. The source is
 * freed by its vtable's free(). */
int registry_source_new(Transfer *t, Store *s, const char *reference, const RegistryOptions *o,
                        OciSource **ret, Error *e);
/* The digest ("sha256:…") of the manifest or index that the reference resolved to, as a key for the next
 * call; NULL before the first get_manifest(). Owned by the source. */
const char *registry_source_digest(const OciSource *src);
/* Checks with one request whether the reference still resolves to the manifest or index with DIGEST, and the
 * credentials are good for it. Returns 1 if so, 0 if there is another one, which is kept: get_manifest() does
 * not request it again. */
int registry_source_unchanged(OciSource *src, const char *digest, Error *e);
