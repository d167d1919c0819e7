/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* prepare/fetch/: from what a user writes for an image to the image in the store, wherever it is: there
 * already, in a file, on the network, in a registry; with the images that it depends on. */

#include "prepare/images/images.h"
#include "prepare/transfer/transfer.h"

/* --- References (reference.c) -------------------------------------------------------------------------- */

typedef enum ReferenceKind {
        REFERENCE_STANDARD_INPUT, /* "-" */
        REFERENCE_FILE,           /* a path: with a slash and there, or clearly a path, or ending in .aci */
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
        char *body; /* the path, URL, name; without what tells the kind, but of a URL all of it */
        char *tag;  /* or NULL */
} Reference;

void reference_done(Reference *r);
#define _cleanup_reference_ _cleanup_(reference_done)
/* Looks at the file system for one thing only: whether a word with a slash in it is a file, or else a
 * name. */
int reference_parse(const char *s, Reference *ret, Error *e);
/* What the app of the image S is called by S itself, if that is a reference of a registry, or of a layout or
 * an archive with such a reference behind it: the same image may be in the store by another name. -EINVAL:
 * S does not say. */
int reference_app_name(const char *s, char **ret);
/* S as it means the same in any current directory: files, layouts and archives by their absolute paths. What is
 * no reference is copied as it is. */
int reference_make_absolute(const char *s, char **ret);

/* --- Fetching (fetch.c) -------------------------------------------------------------------------------- */

typedef enum PullPolicy {
        PULL_NEW,    /* what is in the store is used; what is not is fetched (default) */
        PULL_UPDATE, /* what comes from the network is asked for again, and fetched if it has changed */
        PULL_NEVER,  /* only what is in the store, and local files */
        _PULL_POLICY_MAX,
} PullPolicy;

int pull_policy_from_string(const char *s); /* -EINVAL */

typedef enum FetchPhase {
        FETCH_LOOKING, /* for where it is */
        FETCH_DOWNLOADING,
        FETCH_IMPORTING, /* reading, checking and unpacking */
        FETCH_FETCHED,
        FETCH_FOUND, /* it was there already, and unchanged */
        FETCH_FAILED,
        _FETCH_PHASE_MAX,
} FetchPhase;

typedef struct FetchOptions {
        PullPolicy policy;
        unsigned insecure;     /* InsecureOptions */
        uint64_t speed_min;    /* as in TransferOptions */
        const char *signature; /* file with the detached signature, instead of the one beside the image */
        const char *passphrase_file;    /* for encrypted images */
        const char *const *config_dirs; /* NULL: the usual ones */
        bool no_dependencies;           /* of what is fetched */
        /* A line for the user, such as that an insecure option is made use of; and what goes on with one
         * image. WHAT names it: as the user did, or as an image does that depends on it. TOTAL 0: unknown.
         * Both may be NULL, and are called by several threads, but never by two at once. */
        void (*note)(const char *line, void *userdata);
        void (*progress)(const char *what, FetchPhase phase, uint64_t done, uint64_t total, void *userdata);
        void *userdata;
} FetchOptions;

/* Fetches images into one store with the same options. What it needs (connections, trusted keys) is made
 * when it is needed for the first time. Any number of threads may use one; an image that two of them want is
 * fetched once. S and what O points to must outlive it. */
typedef struct Fetcher Fetcher;

int fetcher_new(Store *s, const FetchOptions *o, Fetcher **ret, Error *e);
Fetcher *fetcher_free(Fetcher *f);
DEFINE_TRIVIAL_CLEANUP_FUNC(Fetcher *, fetcher_free);

/* The image that REFERENCE means, with everything it depends on in the store. What came over the network is
 * there only if its signature is by a key that is trusted for its name (but for INSECURE_SIGNATURE, and what
 * registries have, where digests and TLS are all there is), and if its manifest has the name and the labels
 * that were asked for. */
int fetcher_fetch(Fetcher *f, const char *reference, Image **ret, Error *e);
/* The image of that name and labels, or with that ID if one is given, which its name must then fit: what
 * manifests ask for. */
int fetcher_fetch_named(Fetcher *f, const char *name, const PairList *labels, const char *id, Image **ret,
                        Error *e);
/* The images of the store, as far as they were looked at: the fetcher's. Not while somebody fetches. */
ImageIndex *fetcher_index(Fetcher *f);

/* The ID of the image of the store that REFERENCE means; nothing is fetched. A URL, a reference of a
 * registry (completed by the configuration in CONFIG_DIRS; NULL: the usual ones), of a layout or an archive
 * means what was fetched by it last. Anything else is looked up as image_find_id() does it. -ENOENT.
 * (known.c) */
int fetch_find_id(Store *s, const char *reference, const char *const *config_dirs, char **ret, Error *e);

/* Whether the signature by which an image came into the store would be good today. Images without one are
 * fine. -EKEYREJECTED says why not; other errors, that it cannot be found out. CONFIG_DIRS as above.
 * (signer.c) */
int image_check_signer(const Image *i, const char *const *config_dirs, Error *e);

/* --- What was no image (archive.c) --------------------------------------------------------------------- */

/* Whether what was asked for as something else begins like HTML. */
bool is_web_page(const char *data, size_t size);

/* --- What names and URLs came to (remote.c) ------------------------------------------------------------ */

/* Removes what is known of places whose image is no longer in the store. Appends to REMOVED (or NULL) what
 * they are. */
int remotes_collect(Store *s, bool dry_run, char ***removed, Error *e);
