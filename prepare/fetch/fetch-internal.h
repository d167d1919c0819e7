/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <pthread.h>

#include "prepare/discovery/discovery.h"
#include "prepare/fetch/fetch.h"
#include "prepare/trust/trust.h"

struct Fetcher {
        Store *store;
        FetchOptions options;
        pthread_mutex_t lock; /* of what follows */
        Transfer *transfer;   /* NULL: not needed so far */
        Trust *trust;
        char **busy; /* places that a thread is at */
        pthread_cond_t idle;
        pthread_mutex_t looking; /* in the index; of the others only TOLD is locked under it */
        ImageIndex *index;       /* of the store */
        pthread_mutex_t told;    /* of the caller's note() and progress() */
        char **notes;            /* that were given already; under TOLD */
        char **signed_well;      /* IDs of images whose signers were looked at; under LOCK */
};

/* --- What all kinds need (fetch.c) --------------------------------------------------------------------- */

void fetcher_note(Fetcher *f, const char *format, ...) _printf_(2, 3); /* each text once */
void fetcher_progress(Fetcher *f, const char *what, FetchPhase phase, uint64_t done, uint64_t total);
int fetcher_transfer(Fetcher *f, Transfer **ret, Error *e);
int fetcher_trust(Fetcher *f, Trust **ret, Error *e);
/* Between the two, nobody else is at PLACE: whoever comes second finds what the first has fetched.
 * -EINTR. */
int fetcher_begin(Fetcher *f, const char *place, Error *e);
void fetcher_end(Fetcher *f, const char *place);

/* --- What the store has (lookup.c) --------------------------------------------------------------------- */

/* The index, which nobody else uses until it is unlocked. */
ImageIndex *fetcher_lock_index(Fetcher *f);
void fetcher_unlock_index(Fetcher *f);
/* image_open(), image_index_find(), image_index_look_up(): what is read is read once. */
int fetcher_open(Fetcher *f, const char *id, Image **ret, Error *e);
int fetcher_look_up(Fetcher *f, const char *name, const PairList *labels, Image **ret, Error *e);
int fetcher_look_up_reference(Fetcher *f, const char *reference, Image **ret, Error *e);
/* What was fetched may have been there before, and what is known of it has changed. */
void fetcher_forget(Fetcher *f, const char *id);

/* --- Places (remote.c) --------------------------------------------------------------------------------- */

typedef struct Remote {
        char *image;         /* its ID */
        char *etag;          /* or NULL; of a registry, the digest of the manifest */
        char *last_modified; /* or NULL */
        char *signer;        /* fingerprint of the key whose signature was checked, or NULL */
        uint64_t expires_usec;
} Remote;

void remote_done(Remote *r);
#define _cleanup_remote_ _cleanup_(remote_done)
int remote_read(Store *s, const char *place, Remote *ret); /* -ENOENT, -ENOMEM */
int remote_write(Store *s, const char *place, const Remote *m);

/* --- One archive on its way into the store (archive.c) ------------------------------------------------- */

typedef struct Archive {
        Fetcher *fetcher;
        const char *what;      /* for progress */
        const char *origin;    /* for messages and the info file */
        const char *reference; /* normalised, or NULL */
        const ImageName *name; /* that the manifest must have, or NULL */
        const char *id;        /* that it must have, or NULL */
        uint64_t total;        /* bytes, if known */
        SignatureCheck *check; /* NULL: nobody vouches for it */
        bool offered;          /* by a key that is trusted for this once */
        Decryption *decryption;
        char *stranger; /* of an archive that is no image: the name by which it may be known what it is */
        Signer signer; /* filled in once the signature has been found to be good */
} Archive;

void archive_done(Archive *a);
#define _cleanup_archive_ _cleanup_(archive_done)
/* Reads a file with signatures that the user has named. */
int archive_read_signature(Archive *a, const char *file, Error *e);
/* Imports what FD delivers, decrypting it first if it is encrypted. What is checked is what is unpacked. */
int archive_import(Archive *a, int fd, Image **ret, Error *e);
/* What to do where what was asked for is_web_page(). */
#define HINT_PAGE                                                                                           \
        "The server has sent a web page: see whether the URL is right, and whether somebody has to log in " \
        "there."
/* Whether the image HAVE_ID, of manifest M, has the name and the labels, and the ID; NULL: any. -EBADMSG,
 * with a message that says what it has instead. */
int check_identity(const char *have_id, const ImageManifest *m, const ImageName *name, const char *id,
                   Error *e);

/* --- Signers of images that are in the store (signer.c) ------------------------------------------------ */

/* Copies what is to be kept of a signer. OFFERED: by a key that is trusted for this once. What was copied is
 * RET's also on failure, which is -ENOMEM. */
int signer_remember(const Signer *s, bool offered, ImageSigner *ret);
/* An image that is in the store, and was asked for by a name or a URL: if somebody's signature brought it
 * there, that has to be good today. -EKEYREJECTED, but for INSECURE_SIGNATURE. */
int fetcher_check_signer(Fetcher *f, const Image *i, Error *e);

/* A, of which all is known, is about to become the image ID with the manifest M. -ESTALE: it was signed
 * before the one of the same name and labels that is there. */
int archive_check_age(const Archive *a, const char *id, const ImageManifest *m, Error *e);

/* --- By kind ------------------------------------------------------------------------------------------- */

/* Where an image is to be fetched from, and what it has to be. */
typedef struct Wanted {
        const char *what;
        const ImageName *name; /* or NULL */
        const char *id;        /* or NULL */
} Wanted;

int fetch_file(Fetcher *f, const Reference *r, const char *what, Image **ret, bool *ret_found, Error *e);
/* PUBKEYS: URLs of keys that were discovered, or NULL. */
int fetch_url(Fetcher *f, const char *url, const char *signature_url, const Wanted *w, char *const *pubkeys,
              Image **ret, bool *ret_found, Error *e);
int fetch_name(Fetcher *f, const Wanted *w, Image **ret, bool *ret_found, Error *e);
int fetch_oci(Fetcher *f, const Reference *r, const char *what, Image **ret, bool *ret_found, Error *e);

/* "https://HOST/x.aci" -> "https://HOST/x.aci.asc"; what follows "?" stays behind it. */
int signature_url_of(const char *url, char **ret);
/* The keys that are trusted, and those at the URLs of PUBKEYS, for this image alone and for now. */
int fetch_pubkeys(Fetcher *f, const ImageName *name, char *const *pubkeys, StoreTemporary *ret_dir,
                  Trust **ret, Error *e);

/* --- Dependencies (dependencies.c, fetch.c) ------------------------------------------------------------ */

int fetch_dependencies(Fetcher *f, const Image *i, Error *e);
/* fetcher_fetch_named() of one image alone. */
int fetch_wanted_image(Fetcher *f, const char *name, const PairList *labels, const char *id, Image **ret,
                       Error *e);
