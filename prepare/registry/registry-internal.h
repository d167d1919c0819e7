/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Inside of prepare/registry/. All but endpoint.c and registry.c is free of network. */

#include "prepare/registry/registry.h"
#include "schema/schema.h"

/* What is said to the user; NOTE may be NULL. */
typedef struct Notes {
        void (*note)(const char *line, void *userdata);
        void *userdata;
} Notes;

void notes_add(const Notes *n, const char *format, ...) _printf_(2, 3);

/* --- References (reference.c) -------------------------------------------------------------------------- */

/* Whether what stands before the first slash of a reference is a registry. */
bool registry_is_host(const char *first);
int registry_repository_check(const char *s, Error *e);
/* "sha256:" and 64, or "sha512:" and 128 hex digits, lower case. */
int registry_digest_check(const char *s, Error *e);
/* host[:port][/path]: a location of the configuration; the path is NULL if there is none. */
int registry_location_parse(const char *s, char **ret_host, char **ret_path, Error *e);

/* --- TOML (toml.c) ------------------------------------------------------------------------------------- */

#define TOML_SIZE_MAX (1024U * 1024U)

/* Reads TOML 1.0 text into json-c's tree. Dates, floating point numbers, multi-line strings and dotted keys
 * are refused by name: nothing that is configured here has them. -EBADMSG, with WHAT and the line. */
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
        char *location; /* NULL: as the prefix has it */
        char *file;     /* where it is written, for messages */
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
/* Adds what TEXT, the content of the file WHAT, says: a later rule for the same prefix, search list or alias
 * replaces the earlier. */
int registries_conf_add(RegistriesConf *c, const char *text, size_t size, const char *what, const Notes *n,
                        Error *e);
/* The files of this host. CONFIG_DIRS as in RegistryOptions. */
int registries_conf_load(const char *const *config_dirs, const Notes *n, RegistriesConf *ret, Error *e);
/* Completes a short name in place, and the tag. -EINVAL: nothing says where it could be. */
int registries_conf_complete(const RegistriesConf *c, RegistryReference *r, Error *e);

/* One place to ask, in the order in which they are to be asked. */
typedef struct RegistryPlace {
        char *host, *repository;
        bool mirror;
        char *insecure_by; /* the file that says insecure = true, or NULL */
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
        char *name;   /* as the file has it: anything */
        char *server; /* what it is to be asked for */
} CredentialHelper;

void credential_helper_done(CredentialHelper *h);
/* What the text of an auth.json or config.json file has for HOST/REPOSITORY: the entry with the longest
 * matching name. Returns 1, or 0 if there is none. *RET_HELPER is the program that is to be asked first, or
 * has no name; whatever it cannot give, the entry has. */
int auth_file_find(const char *text, size_t size, const char *what, const char *host, const char *repository,
                   RegistryCredentials *ret, CredentialHelper *ret_helper, Error *e);
/* Asks docker-credential-NAME, for at most so long. 1; 0: it has none. Errors describe the failure, to
 * follow the name of the helper. (credential-helper.c) */
int credential_helper_ask(const char *name, const char *server, uint64_t time_max_usec,
                          RegistryCredentials *ret, Error *e);
/* What one that has ended well has said. As above. */
int credential_helper_parse(const char *answer, size_t size, RegistryCredentials *ret, Error *e);
/* The same in the files of this host. */
int registry_credentials_find(const char *host, const char *repository, const Notes *n,
                              RegistryCredentials *ret, Error *e);

/* --- Certificates (certs-d.c) -------------------------------------------------------------------------- */

typedef struct RegistryCertificates {
        char *directory;         /* where they are */
        char *authorities;       /* PEM text, or NULL: only those of this host */
        char *certificate, *key; /* files, or NULL */
} RegistryCertificates;

void registry_certificates_done(RegistryCertificates *c);
/* What there is for HOST ("example.com:5000"). 1: something; 0: there is no directory. */
int registry_certificates_find(const char *host, RegistryCertificates *ret, Error *e);

/* --- What registries answer (challenge.c, reply.c) ----------------------------------------------------- */

#define CHALLENGE_SIZE_MAX (8U * 1024U)

typedef struct RegistryChallenge {
        bool basic;
        bool bearer;
        char *realm, *service, *scope; /* of the bearer challenge */
        char *other;                   /* a scheme that is neither, for messages */
} RegistryChallenge;

void registry_challenge_done(RegistryChallenge *c);
/* Takes a WWW-Authenticate header apart (RFC 9110, section 11.6.1). -EBADMSG. */
int registry_challenge_parse(const char *s, RegistryChallenge *ret, Error *e);

/* The answer of a token service. *RET is fit for a header; its life is in seconds, within what is sensible.
 * -EBADMSG. */
int registry_token_parse(const char *text, size_t size, char **ret, uint64_t *ret_seconds, Error *e);
/* What an error body of a registry says, as "CODE: message", escaped and cut for a message; RET_CODE is the
 * first code ("MANIFEST_UNKNOWN"), or NULL. Returns 1, or 0 if TEXT is no such body. */
int registry_error_parse(const char *text, size_t size, char **ret_text, char **ret_code);
/* What the user can do about an error with this code, or this HTTP status; NULL: nothing to say. */
const char *registry_error_hint(const char *code, unsigned status);
