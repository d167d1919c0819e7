/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Shared by the sources of prepare/oci/. */

#include "prepare/oci/oci.h"
#include "prepare/unpack/unpack.h"

/* --- Digests (digest.c) -------------------------------------------------------------------------------- */

/* Computes the digest of data that is read in pieces. */
typedef struct Digester {
        struct evp_md_ctx_st *context;
        uint64_t size; /* bytes so far */
        bool failed;
} Digester;

/* ALGORITHM: a digest, or only its prefix ("sha256:"). */
int digester_init(Digester *d, const char *algorithm);
void digester_done(Digester *d);
#define _cleanup_digester_ _cleanup_(digester_done)
void digester_add(Digester *d, const void *p, size_t n);
/* "sha256:…" of all added data. */
int digester_finish(Digester *d, char **ret);
/* Whether the SIZE bytes of FD from OFFSET on have that digest: 1, 0. Moves its offset. */
int digest_check_fd(const char *digest, int fd, off_t offset, uint64_t size, const Operation *o, Error *e);
/* Checks that WHAT, N bytes at P, has that digest. -EBADMSG. */
int digest_check_bytes(const char *digest, const void *p, size_t n, const char *what, Error *e);

/* --- Layers (layers.c) --------------------------------------------------------------------------------- */

/* The work to be done for a layer. */
typedef enum LayerNeed {
        LAYER_NEEDS_NOTHING, /* the store has it, or it is in its temporary directory */
        LAYER_NEEDS_DIGEST,  /* the store has it, provided that the blob matches the config */
        LAYER_NEEDS_ALL,
} LayerNeed;

/* A layer of the image being imported. */
typedef struct Layer {
        const OciDescriptor *descriptor;
        char *const *diff_ids; /* of all layers of the image; this one's is that of NUMBER - 1 */
        const char *diff_id;
        unsigned number;  /* in the image, from 1 on, the lowest first */
        char *content_id; /* by its own digest */
        char *chain_id;   /* by the digests of all layers up to it, see links.c; NULL: never used */
        char *id;         /* its name in the store: one of these */
        LayerNeed need;
        bool checked;             /* the blob was read, and is what the config says */
        bool hashed;              /* it also has the digest of the descriptor */
        StoreTemporary temporary; /* unpacked, not published yet */
        LinksBelow *links; /* hard links and devices that concern files of the layers below, or NULL */
        uint64_t done;     /* bytes read */
} Layer;

void layer_done(Layer *l);
int layer_path(const Layer *l, char **ret); /* relative to the store */
/* Whether the store has it. */
bool layer_is_there(Store *s, const Layer *l);
/* Sets the IDs. */
int layer_set_ids(Layer *l, Error *e);
/* Records that the layer in the store has the content of its blob, if that was hashed. */
void layer_note_blob(Store *s, const Layer *l);
/* The layers of an image, lowest first, without those that are repeated further up; room for one more. They
 * refer to CONFIG, and have no descriptors. Also set on failure. *RET_N has to be 0 before. */
int layers_of_config(const OciConfig *config, Layer **ret, size_t *ret_n, Error *e);
/* Reads and unpacks those of LAYERS that are neither in the store nor in a temporary directory. */
int layers_read(Store *s, OciSource *src, Layer *layers, size_t n, const OciImportOptions *o, Error *e);
#define WHITEOUTS_FILE "whiteouts" /* in the directory of a layer that hides something of those below it */
/* Copies the target files of the links of LAYERS (lowest first), and hides what is below the devices that were left out. */
int layers_fill_links(Store *s, Layer *layers, size_t n, Error *e);
/* Opens its directory, in the store or temporary. */
int layer_open(Store *s, const Layer *l, Error *e);
/* Bytes of the uncompressed layer. */
int layer_read_size(Store *s, const Layer *l, uint64_t *ret, Error *e);
/* Whether the layer hides everything below it. */
int layer_hides_all(Store *s, const Layer *l, Error *e);

/* --- Attributes of directories (attributes.c) ---------------------------------------------------------- */

/* The additional top layer for LAYERS (lowest first), for directories that these only imply. 1: needed, in
 * *RET; 0: not needed. */
int attributes_layer(Store *s, const Layer *layers, size_t n, Layer *ret, Error *e);

/* --- Files of a layout or an archive (files-*.c) ------------------------------------------------------- */

typedef struct Files Files;

struct Files {
        /* Returns a descriptor positioned at the beginning of the file NAME, which has *RET_SIZE bytes;
         * thread-safe. -ENOENT without a message: there is no such file. */
        int (*open)(Files *f, const char *name, int *ret_fd, uint64_t *ret_size, Error *e);
        void (*free)(Files *f);
};

Files *files_free(Files *f);
DEFINE_TRIVIAL_CLEANUP_FUNC(Files *, files_free);
/* Reads a file of at most MANIFEST_SIZE_MAX bytes. -ENOENT without a message. */
int files_read(Files *f, const char *name, char **ret, size_t *ret_size, Error *e);
/* Reads SIZE bytes from FD: at most MANIFEST_SIZE_MAX. WHAT is the name for messages, as in "manifest
 * sha256:…". */
int document_read(int fd, uint64_t size, const char *what, const char *name, char **ret, size_t *ret_size,
                  Error *e);
int files_open_directory(const char *dir, Files **ret, Error *e);
/* A tar archive; FILE "-" is standard input. S: for a temporary copy if it is not seekable; NULL: that is
 * refused (-ENOTSUP). Waiting for data and reading end with the operation O (or NULL). */
int files_open_archive(Store *s, const char *file, const Operation *o, Files **ret, Error *e);

/* --- Names of local sources (source-layout.c) ---------------------------------------------------------- */

/* NAME: a tag, or a reference; NULL: derived from the file's own name. */
int oci_source_set_name(OciSource *s, const char *path, const char *name, Error *e);
/* "oci:DIR:TAG" */
int oci_source_set_reference(OciSource *s, const char *transport, const char *path, const char *tag,
                             Error *e);
