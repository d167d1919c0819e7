/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the files of prepare/fetch/ share: the fetcher, and a function for each kind of image. */

#include <pthread.h>

#include "prepare/discovery/discovery.h"
#include "prepare/fetch/fetch.h"
#include "prepare/trust/trust.h"

struct Fetcher {
        Store *store;
        Fetcher *parent; /* whose locks, index and notes this one uses (root()); or NULL */
        bool is_brief;
        Fetcher *brief; /* the same, with a bound for answers: for images that are in the store; created on first use */
        FetchOptions options;
        uint64_t answer_timeout_usec; /* as of TransferOptions, of the brief one */
        pthread_mutex_t lock;         /* protects the following members */
        Transfer *transfer;           /* created on first use */
        Trust *trust;
        char **active_places; /* places that a thread is fetching */
        pthread_cond_t idle;
        pthread_mutex_t index_lock; /* protects the index; only NOTES_LOCK may be locked while it is
                                        * held */
        ImageIndex *index;          /* of the store */
        pthread_mutex_t notes_lock; /* protects NOTES */
        char **notes;               /* notes already given */
        uint64_t lost_usec;         /* with these hosts */
        char **silent_hosts;        /* that were not reached; protected by LOCK */
        char **verified_images;     /* IDs of images whose signers were checked; protected by LOCK */
};

/* --- Shared by all kinds (fetch.c) --------------------------------------------------------------------- */

/* The fetcher that F was made by for a part of its work, or F. */
Fetcher *fetcher_root(Fetcher *f);
void fetcher_note(Fetcher *f, const char *format, ...) _printf_(2, 3); /* each text once */
void fetcher_progress(Fetcher *f, const char *what, OperationPhase phase, uint64_t done, uint64_t total);
int fetcher_transfer(Fetcher *f, Transfer **ret, Error *e);
int fetcher_trust(Fetcher *f, Trust **ret, Error *e);
/* Between begin and end no other thread fetches PLACE: a second one waits and then finds what the first has
 * fetched. -EINTR, -ETIME. */
int fetcher_begin(Fetcher *f, const char *place, Error *e);
void fetcher_end(Fetcher *f, const char *place);

/* --- Lookup in the store (lookup.c)
 * --------------------------------------------------------------------- */

/* The index, locked for this thread until it is unlocked. */
ImageIndex *fetcher_lock_index(Fetcher *f);
void fetcher_unlock_index(Fetcher *f);
/* Like image_open(), image_index_find(), image_index_look_up(), but each image is read only once. */
int fetcher_open(Fetcher *f, const char *id, Image **ret, Error *e);
int fetcher_look_up(Fetcher *f, const char *name, const PairList *labels, Image **ret, Error *e);
int fetcher_look_up_reference(Fetcher *f, const char *reference, Image **ret, Error *e);
/* Invalidates an image: it may have been in the store before, and its information has changed. */
void fetcher_forget(Fetcher *f, const char *id);

/* --- Places (remote.c) --------------------------------------------------------------------------------- */

typedef struct Remote {
        char *image;         /* its ID */
        char *etag;          /* or NULL; for a registry, the digest of the manifest */
        char *last_modified; /* or NULL */
        char *signer;        /* fingerprint of the key whose signature was checked, or NULL */
        uint64_t expires_usec;
        uint64_t asked_usec; /* when the server was asked last; set by remote_write() */
} Remote;

void remote_done(Remote *r);
#define _cleanup_remote_ _cleanup_(remote_done)
int remote_read(Store *s, const char *place, Remote *ret); /* -ENOENT: none; other errors: it is not known */
/* True also if that cannot be found out. */
bool remote_image_is_there(Store *s, const char *id);
int remote_write(Store *s, const char *place, const Remote *m);
/* The place of a layout or an archive, R (known.c). -ENOMEM. */
int fetch_local_place(const Reference *r, char **ret);

/* --- Import of one archive (archive.c) ----------------------------------------------------------------- */

typedef struct Archive {
        Fetcher *fetcher;
        const char *what;      /* for progress */
        const char *origin;    /* for messages and the info file */
        const char *reference; /* normalised, or NULL */
        const ImageName *name; /* required name of the manifest, or NULL */
        const char *id;        /* required ID, or NULL */
        uint64_t total;        /* bytes, if known */
        SignatureCheck *check; /* NULL: no signature */
        bool offered;          /* by a key that is trusted for this image only, once */
        Decryption *decryption;
        char *unexpected_entry; /* for an archive that is not an image: a name in it that identifies its
                                 * format */
        Signer signer;          /* set once the signature has been verified */
} Archive;

void archive_done(Archive *a);
#define _cleanup_archive_ _cleanup_(archive_done)
/* Reads a file with signatures that the user has named. */
int archive_read_signature(Archive *a, const char *file, Error *e);
/* Imports the data read from FD, decrypting it first if it is encrypted. The checked bytes are those that
 * are unpacked. */
int archive_import(Archive *a, int fd, Image **ret, Error *e);
/* Hint if the response is_web_page(). */
#define HINT_PAGE                                                                                           \
        "The server has sent a web page: check the URL, and whether a login is required "                   \
        "there."
/* Whether the image HAVE_ID, of manifest M, has the name and the labels, and the ID; NULL: any. -EBADMSG,
 * with a message about the difference. */
int check_identity(const char *have_id, const ImageManifest *m, const ImageName *name, const char *id,
                   Error *e);

/* --- Signers of images that are in the store (signer.c) ------------------------------------------------ */

/* Copies the information about a signer that is stored. OFFERED: by a key that is trusted for this image
 * only, once. RET owns the copied strings also on failure, which is -ENOMEM. */
int signer_copy(const Signer *s, bool offered, ImageSigner *ret);
/* Checks an image in the store that was requested by a name or a URL: if it was imported with a signature,
 * that has to be valid today; if it came from a registry, no key may be trusted for its name. -EKEYREJECTED,
 * unless INSECURE_SIGNATURE is given, or INSECURE_PUBKEY for a key that was accepted by it. */
int fetcher_check_signer(Fetcher *f, const Image *i, Error *e);

/* A, completely read, is about to be imported as the image ID with the manifest M. -ESTALE: it was signed
 * before the image of the same name and labels in the store. */
int archive_check_age(const Archive *a, const char *id, const ImageManifest *m, Error *e);
/* The same of I, which is in the store, and what REFERENCE is taken to mean without its bytes having come.
 * WAS_ASKED: a server has said so now. */
int fetcher_check_age(Fetcher *f, const char *what, const char *reference, const Image *i, bool was_asked,
                      Error *e);

/* --- By kind ------------------------------------------------------------------------------------------- */

/* An image to be fetched, and its required name and ID. */
typedef struct FetchTarget {
        const char *what;
        const ImageName *name; /* or NULL */
        const char *id;        /* or NULL */
} FetchTarget;

/* The key in the store of the file PATH, or of the layout in the directory PATH. *RET stays NULL if there is none: it was changed too
 * recently, cannot be identified, or is no regular file. */
int fetch_file_place(const char *path, char **ret, Error *e);
int fetch_file(Fetcher *f, const Reference *r, const char *what, Image **ret, bool *ret_found, Error *e);
/* PUBKEYS: URLs of keys that were discovered, or NULL. */
int fetch_url(Fetcher *f, const char *url, const char *signature_url, const FetchTarget *w,
              char *const *pubkeys, Image **ret, bool *ret_found, Error *e);
int fetch_name(Fetcher *f, const FetchTarget *w, Image **ret, bool *ret_found, Error *e);
int fetch_oci(Fetcher *f, const Reference *r, const char *what, Image **ret, bool *ret_found, Error *e);

/* "https://HOST/x.aci" -> "https://HOST/x.aci.asc"; a query ("?…") is kept at the end. */
int signature_url_of(const char *url, char **ret);
/* A Trust with the trusted keys, and those at the URLs of PUBKEYS, for this image only. */
int fetch_pubkeys(Fetcher *f, const ImageName *name, char *const *pubkeys, StoreTemporary *ret_dir,
                  Trust **ret, Error *e);

/* --- Dependencies (dependencies.c, fetch.c) ------------------------------------------------------------ */

int fetch_dependencies(Fetcher *f, const Image *i, Error *e);
/* fetcher_fetch_named() without dependencies. */
int fetch_image_by_name(Fetcher *f, const char *name, const PairList *labels, const char *id, Image **ret,
                        Error *e);
