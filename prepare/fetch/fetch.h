/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* prepare/fetch/: resolves a user's reference to an image in the store, fetching it with its dependencies if
 * necessary: from a file, the network, or a registry. */

#include "prepare/images/images.h"
#include "prepare/transfer/transfer.h"

/* --- References (reference.c) -------------------------------------------------------------------------- */

typedef enum ReferenceKind {
        REFERENCE_STANDARD_INPUT, /* "-" */
        REFERENCE_FILE,           /* a path: with a slash and existing, or clearly a path, or ending in
                                   * .aci */
        REFERENCE_URL,            /* https://…, http://… */
        REFERENCE_IMAGE,          /* an image ID, the beginning of one, or name[:version][,label=value]… */
        REFERENCE_DOCKER,         /* docker://REFERENCE */
        REFERENCE_OCI,            /* oci:DIR[:TAG] */
        REFERENCE_DOCKER_ARCHIVE, /* docker-archive:FILE[:TAG] */
        REFERENCE_OCI_ARCHIVE,    /* oci-archive:FILE[:TAG] */
        _REFERENCE_KIND_MAX,
} ReferenceKind;

typedef struct Reference {
        ReferenceKind kind;
        char *body; /* the path, URL, name; without the prefix of its kind, except for a URL */
        char *tag;  /* or NULL */
} Reference;

void reference_done(Reference *r);
#define _cleanup_reference_ _cleanup_(reference_done)
/* Accesses the file system only to determine whether a word with a slash is a file or a name. */
int reference_parse(const char *s, Reference *ret, Error *e);
/* The name of the app of the image S, derived from S itself, if that is a reference of a registry, or of a
 * layout or an archive with such a reference as tag: the same image may be in the store by another name.
 * -EINVAL: S has no such reference. */
int reference_app_name(const char *s, char **ret);
/* S for messages and tables: without control characters, and a URL without its password. NULL: out of memory. */
char *reference_for_display(const char *s);
/* S in a form that does not depend on the current directory: files, layouts and archives with absolute paths. Copies S
 * unchanged if it is no reference. */
int reference_make_absolute(const char *s, char **ret);

/* --- Fetching (fetch.c) -------------------------------------------------------------------------------- */

typedef enum PullPolicy {
        PULL_NEW,    /* images in the store are used; others are fetched (default) */
        PULL_UPDATE, /* images from the network are checked for newer versions, which are fetched */
        PULL_NEVER,  /* only what is in the store, and local files */
        _PULL_POLICY_MAX,
} PullPolicy;

int pull_policy_from_string(const char *s); /* -EINVAL */

typedef struct FetchOptions {
        PullPolicy policy;
        unsigned insecure;     /* InsecureOptions */
        uint64_t speed_min;    /* as in TransferOptions */
        const char *signature; /* file with the detached signature, instead of the one beside the image */
        const char *passphrase_file;    /* for encrypted images */
        const char *const *config_dirs; /* NULL: the defaults */
        bool no_dependencies;           /* of fetched images */
        /* With PULL_UPDATE, an image of the store is taken, with a warning, if its server cannot be asked for a newer one. */
        bool or_stored;
        const struct RegistryLogin *login; /* credentials for a registry (registry.h), or NULL */
} FetchOptions;

/* Fetches images into one store with the same options. The store's operation receives messages, as when an insecure
 * option takes effect, and the progress of each image, under the name by which the user or an image that depends on it
 * refers to it. The fetcher opens connections and keyrings on first use. Any number of threads may use one fetcher; an
 * image that two of them request is fetched once. S and what O points to must outlive it. */
typedef struct Fetcher Fetcher;

int fetcher_new(Store *s, const FetchOptions *o, Fetcher **ret, Error *e);
Fetcher *fetcher_free(Fetcher *f);
DEFINE_TRIVIAL_CLEANUP_FUNC(Fetcher *, fetcher_free);

/* The image of REFERENCE, with all its dependencies in the store. An image from the network is imported only
 * if it is signed by a key that is trusted for its name (except with INSECURE_SIGNATURE, and from
 * registries, where only digests and TLS protect it), and if its manifest has the requested name and
 * labels. */
int fetcher_fetch(Fetcher *f, const char *reference, Image **ret, Error *e);
/* The image of that name and labels, or with that ID if one is given, whose name must then match: for
 * requests of manifests. */
int fetcher_fetch_named(Fetcher *f, const char *name, const PairList *labels, const char *id, Image **ret,
                        Error *e);
/* The index of the images of the store, owned by the fetcher. Not to be used during a fetch. */
ImageIndex *fetcher_index(Fetcher *f);

/* The ID of the image of the store for REFERENCE; nothing is fetched. A URL, a reference of a registry
 * (completed by the configuration in CONFIG_DIRS; NULL: the defaults), of a layout or an archive refers to
 * the image that was last fetched by it. Other references are looked up by image_find_id(). -ENOENT.
 * (known.c) */
int fetch_find_id(Store *s, const char *reference, const char *const *config_dirs, char **ret, Error *e);

/* Checks that the signature with which an image was imported would be accepted today. Images without one
 * pass. -EKEYREJECTED: it would not, with the reason; other errors: that cannot be determined. CONFIG_DIRS
 * as above. O, or NULL: if it has ended, so does gpg. (signer.c) */
int image_check_signer(const Image *i, const char *const *config_dirs, const Operation *o, Error *e);

/* --- Data that is not an image (archive.c)
 * --------------------------------------------------------------------- */

/* Whether the received data begins like HTML. */
bool is_web_page(const char *data, size_t size);

/* --- Results of names and URLs (remote.c) -------------------------------------------------------------- */

/* A reference of a registry, and what it was when it was fetched last. An image may have any number of them. */
typedef struct FetchedReference {
        char *reference; /* normalised, without "docker://": "example.com/team/app:1.0" */
        char *image;     /* the ID; the image is in the store */
        char *digest;    /* "sha256:…" of its manifest or index, or NULL */
} FetchedReference;

/* All of them, sorted by reference. */
int fetched_references(Store *s, FetchedReference **ret, size_t *ret_n, Error *e);
void fetched_references_free(FetchedReference *l, size_t n);

/* Removes the entries of places whose image is no longer in the store. Appends these places to REMOVED (may
 * be NULL). */
int remotes_collect(Store *s, bool dry_run, char ***removed, Error *e);
