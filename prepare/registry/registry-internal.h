/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Internal to prepare/registry/. Only endpoint.c and registry.c use the network. */

#include "prepare/registry/registry.h"
#include "schema/schema.h"

/* Notes for the user; NOTE may be NULL. */
typedef struct Notes {
        void (*note)(const char *line, void *userdata);
        void *userdata;
} Notes;

void notes_add(const Notes *n, const char *format, ...) _printf_(2, 3);

/* --- References (reference.c) -------------------------------------------------------------------------- */

/* Whether the part before the first slash of a reference is a registry. */
bool registry_is_host(const char *first);
int registry_repository_check(const char *s, Error *e);
/* "sha256:" and 64, or "sha512:" and 128 hex digits, lower case. */
int registry_digest_check(const char *s, Error *e);
/* host[:port][/path]: a location of the configuration; the path is NULL if there is none. */
int registry_location_parse(const char *s, char **ret_host, char **ret_path, Error *e);

/* --- TOML (toml.c) ------------------------------------------------------------------------------------- */

#define TOML_SIZE_MAX (1024U * 1024U)

/* Reads TOML 1.0 text into json-c's tree. Dates, floating point numbers, multi-line strings and dotted keys
 * are refused by name: the files read here do not need them. -EBADMSG, with WHAT and the line. */
int toml_parse(const char *text, size_t size, const char *what, json_object **ret, Error *e);

/* --- registries.conf (registries-conf.c, registries-find.c) -------------------------------------------- */

typedef enum PullFrom { PULL_FROM_ALL, PULL_FROM_DIGEST_ONLY, PULL_FROM_TAG_ONLY, _PULL_FROM_MAX } PullFrom;

typedef struct RegistryMirror {
        char *location;
        bool insecure;
        PullFrom pull_from;
} RegistryMirror;

typedef struct RegistryRule {
        char *prefix;   /* "host[:port][/path]" or "*.domain" */
        char *location; /* NULL: the prefix */
        char *file;     /* the file with the rule, for messages */
        bool insecure, blocked, mirror_by_digest_only;
        RegistryMirror *mirrors;
        size_t n_mirrors, mirrors_allocated;
} RegistryRule;

typedef struct RegistriesConf {
        char **search; /* unqualified-search-registries */
        RegistryRule *rules;
        size_t n_rules, rules_allocated;
        PairList aliases; /* short name -> reference without tag */
} RegistriesConf;

void registries_conf_done(RegistriesConf *c);
/* Adds the rules in TEXT, the content of the file WHAT: a later rule for the same prefix, search list or
 * alias replaces the earlier. */
int registries_conf_add(RegistriesConf *c, const char *text, size_t size, const char *what, const Notes *n,
                        Error *e);
/* The files of this host. CONFIG_DIRS as in RegistryOptions. */
int registries_conf_load(const char *const *config_dirs, const Notes *n, RegistriesConf *ret, Error *e);
/* Completes a short name in place, and the tag. -EINVAL: no registry is configured for it. */
int registries_conf_complete(const RegistriesConf *c, RegistryReference *r, Error *e);

/* An endpoint to try, in the order in which they are tried. */
typedef struct RegistryPlace {
        char *host, *repository;
        bool mirror;
        char *insecure_by; /* the file with insecure = true, or NULL */
} RegistryPlace;

typedef struct RegistryPlaces {
        RegistryPlace *items;
        size_t n, allocated;
} RegistryPlaces;

void registry_places_done(RegistryPlaces *p);
/* -EPERM: configuration blocks it. */
int registries_conf_places(const RegistriesConf *c, const RegistryReference *r, RegistryPlaces *ret,
                           Error *e);

/* --- Credentials (auth-file.c) ------------------------------------------------------------------------- */

typedef struct RegistryCredentials {
        char *user, *password;
        char *identity_token; /* an OAuth2 refresh token, instead of a password; or NULL */
        char *origin;         /* the file, for messages */
} RegistryCredentials;

void registry_credentials_done(RegistryCredentials *c); /* wipes them */

/* A program that has credentials. */
typedef struct CredentialHelper {
        char *name;   /* as in the file: untrusted */
        char *server; /* the server to pass to it */
} CredentialHelper;

void credential_helper_done(CredentialHelper *h);
/* Looks up HOST/REPOSITORY in the text of an auth.json or config.json file: the entry with the longest
 * matching name. Returns 1, or 0 if there is none. *RET_HELPER is the program to run first, or has no name;
 * if it has no credentials, those of the entry are used. */
int auth_file_find(const char *text, size_t size, const char *what, const char *host, const char *repository,
                   RegistryCredentials *ret, CredentialHelper *ret_helper, Error *e);
/* Runs docker-credential-NAME, with a timeout, and until the operation O (or NULL) ends. 1; 0: it has none. Errors are phrased to follow the name of
 * the helper. (credential-helper.c) */
int credential_helper_ask(const char *name, const char *server, uint64_t time_max_usec, const Operation *o,
                          RegistryCredentials *ret, Error *e);
/* Parses the output of a helper that exited successfully. As above. */
int credential_helper_parse(const char *answer, size_t size, RegistryCredentials *ret, Error *e);
/* The same in the files of this host. */
int registry_credentials_find(const char *host, const char *repository, const Operation *o, const Notes *n,
                              RegistryCredentials *ret, Error *e);

/* --- Certificates (certs-d.c) -------------------------------------------------------------------------- */

typedef struct RegistryCertificates {
        char *directory;         /* their directory */
        char *authorities;       /* PEM text, or NULL: only the host's trusted authorities */
        char *certificate, *key; /* files, or NULL */
} RegistryCertificates;

void registry_certificates_done(RegistryCertificates *c);
/* Finds the certificates for HOST ("example.com:5000"). 1: found; 0: there is no directory. */
int registry_certificates_find(const char *host, RegistryCertificates *ret, Error *e);

/* --- Replies of registries (challenge.c, reply.c) ------------------------------------------------------ */

#define CHALLENGE_SIZE_MAX (8U * 1024U)

typedef struct RegistryChallenge {
        bool basic;
        bool bearer;
        char *realm, *service, *scope; /* of the bearer challenge */
        char *other;                   /* a scheme that is neither, for messages */
} RegistryChallenge;

void registry_challenge_done(RegistryChallenge *c);
/* Parses a WWW-Authenticate header (RFC 9110, section 11.6.1). -EBADMSG. */
int registry_challenge_parse(const char *s, RegistryChallenge *ret, Error *e);

/* Parses the reply of a token service. *RET is valid in a header; its lifetime is in seconds, clamped to
 * sensible values. -EBADMSG. */
int registry_token_parse(const char *text, size_t size, char **ret, uint64_t *ret_seconds, Error *e);
/* Formats an error body of a registry as "CODE: message", escaped and truncated for a message; RET_CODE is
 * the first code ("MANIFEST_UNKNOWN"), or NULL. Returns 1, or 0 if TEXT is no such body. */
int registry_error_parse(const char *text, size_t size, char **ret_text, char **ret_code);
/* A hint for an error with this code, or this HTTP status; NULL: none. */
const char *registry_error_hint(const char *code, unsigned status);
