/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the files of prepare/oci/ share. */

#include "prepare/oci/oci.h"
#include "prepare/unpack/unpack.h"

/* --- Digests (digest.c) -------------------------------------------------------------------------------- */

/* Something that is read in pieces and compared with its digest at the end. */
typedef struct Digester {
        struct evp_md_ctx_st *context;
        uint64_t size; /* bytes so far */
        bool failed;
} Digester;

/* ALGORITHM: a digest, or only what it begins with ("sha256:"). */
int digester_init(Digester *d, const char *algorithm);
void digester_done(Digester *d);
#define _cleanup_digester_ _cleanup_(digester_done)
void digester_add(Digester *d, const void *p, size_t n);
/* "sha256:…" of all that was added. */
int digester_finish(Digester *d, char **ret);
/* The digest of N bytes, of the same algorithm as LIKE. */
int digest_bytes(const char *like, const void *p, size_t n, char **ret);
/* Whether the SIZE bytes of FD from OFFSET on have that digest: 1, 0. Moves its offset. */
int digest_check_fd(const char *digest, int fd, off_t offset, uint64_t size, Error *e);
/* WHAT, which is N bytes at P, has that digest. -EBADMSG. */
int digest_check_bytes(const char *digest, const void *p, size_t n, const char *what, Error *e);

/* --- Layers (layers.c) --------------------------------------------------------------------------------- */

/* What has to be done for a layer. */
typedef enum LayerNeed {
        LAYER_NEEDS_NOTHING, /* the store has it, or it is in its temporary directory */
        LAYER_NEEDS_DIGEST,  /* the store has it, if the blob is what the config says */
        LAYER_NEEDS_ALL,
} LayerNeed;

/* A layer of the image that is imported. */
typedef struct Layer {
        const OciDescriptor *descriptor;
        char *const *diff_ids; /* of all layers of the image; this one's is that of NUMBER - 1 */
        const char *diff_id;
        unsigned number;  /* in the image, from 1 on, the lowest first */
        char *content_id; /* "sha256-…", by its own digest */
        char *chain_id;   /* the same by those of all layers up to it, see links.c; NULL: never used */
        char *id;         /* how the store calls it: one of these */
        LayerNeed need;
        bool trusted;             /* the layer of that ID in the store was made of this very blob */
        StoreTemporary temporary; /* unpacked, not published yet */
        LinksBelow *links;        /* of it that need files of the layers below, or NULL */
        uint64_t done;            /* bytes read */
} Layer;

void layer_done(Layer *l);
int layer_path(const Layer *l, char **ret); /* relative to the store */
/* Whether the store has it. */
bool layer_is_there(Store *s, const Layer *l);
/* Sets the IDs. */
int layer_set_ids(Layer *l, Error *e);
/* Writes down that the layer, which is in the store, was made of its blob. */
void layer_note_blob(Store *s, const Layer *l);
/* Reads and unpacks those of LAYERS that are neither in the store nor in a temporary directory. */
int layers_read(Store *s, OciSource *src, Layer *layers, size_t n, const OciImportOptions *o, Error *e);
/* Gives the links of LAYERS (lowest first) their files. */
int layers_fill_links(Store *s, Layer *layers, size_t n, Error *e);
/* Opens its directory, wherever that is now. */
int layer_open(Store *s, const Layer *l, Error *e);
/* Bytes of the uncompressed layer. */
int layer_read_size(Store *s, const Layer *l, uint64_t *ret, Error *e);
/* The layer hides all that is below it. */
int layer_hides_all(Store *s, const Layer *l, Error *e);

/* --- Attributes of directories (attributes.c) ---------------------------------------------------------- */

/* The layer that has to be on top of LAYERS (lowest first) for directories that these only imply. 1: there
 * is one, in *RET; 0: they need none. */
int attributes_layer(Store *s, const Layer *layers, size_t n, Layer *ret, Error *e);

/* --- Files of a layout or an archive (files-*.c) ------------------------------------------------------- */

typedef struct Files Files;

struct Files {
        /* A descriptor that stands at the beginning of the file NAME, which has *RET_SIZE bytes; several
         * threads may call it. -ENOENT without a message: there is no such file. */
        int (*open)(Files *f, const char *name, int *ret_fd, uint64_t *ret_size, Error *e);
        void (*free)(Files *f);
};

Files *files_free(Files *f);
DEFINE_TRIVIAL_CLEANUP_FUNC(Files *, files_free);
/* The whole of a file of at most MANIFEST_SIZE_MAX bytes. -ENOENT without a message. */
int files_read(Files *f, const char *name, char **ret, size_t *ret_size, Error *e);
/* The whole of what FD, which has SIZE bytes, delivers: at most MANIFEST_SIZE_MAX. WHAT names it, as in
 * "manifest sha256:…". */
int document_read(int fd, uint64_t size, const char *what, const char *name, char **ret, size_t *ret_size,
                  Error *e);
int files_open_directory(const char *dir, Files **ret, Error *e);
/* A tar archive; FILE "-" is standard input. S: for the copy of what cannot be read in any order; NULL: that
 * is refused (-ENOTSUP). */
int files_open_archive(Store *s, const char *file, Files **ret, Error *e);

/* --- Names of local sources (source-layout.c) ---------------------------------------------------------- */

/* NAME: a tag, or a reference; NULL: there is none, the file's own name is all there is. */
int oci_source_set_name(OciSource *s, const char *path, const char *name, Error *e);
/* "oci:DIR:TAG" */
int oci_source_set_reference(OciSource *s, const char *transport, const char *path, const char *tag,
                             Error *e);
