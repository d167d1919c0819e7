/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* prepare/oci/: OCI and Docker images: sources, from which their documents and blobs are read, and importing
 * them into the store.
 *
 * A source provides documents and blobs and is untrusted: all its data is checked here against the requested
 * digest.
 */

#include "prepare/images/images.h"
#include "schema/oci.h"

/* --- Sources ------------------------------------------------------------------------------------------- */

typedef struct OciSource OciSource;

typedef struct OciSourceVTable {
        /* The manifest or index with that DIGEST; NULL: the one of the source's reference. At most
         * MANIFEST_SIZE_MAX bytes, NUL-terminated. *RET_MEDIA_TYPE may become NULL: not known. */
        int (*get_manifest)(OciSource *s, const char *digest, char **ret, size_t *ret_size,
                            char **ret_media_type, Error *e);
        /* Returns a descriptor positioned at the first byte of a blob; D->size bytes are read from it.
         * Further bytes are ignored, so sources that can detect that a blob is longer refuse it. Called by
         * several threads. */
        int (*open_blob)(OciSource *s, const OciDescriptor *d, int *ret_fd, Error *e);
        /* Frees the source, calling oci_source_done() for these members. */
        void (*free)(OciSource *s);
        /* Reports that the data of open_blob() does not have D's digest. 1: the next open_blob() uses
         * another place; 0: there is no other. Called by several threads. NULL: there never is another
         * place. */
        int (*reject_blob)(OciSource *s, const OciDescriptor *d);
} OciSourceVTable;

/* The first member of the structure of each kind of source. */
struct OciSource {
        const OciSourceVTable *vtable;
        char *reference;        /* normalized, for messages and the info file */
        char *image_name;       /* for the image manifest, see oci_name_from_reference() */
        char *image_version;    /* or NULL */
        bool layers_by_diff_id; /* the digests of layers are those of the uncompressed layers, whatever
                                   open_blob() delivers */
};

void oci_source_done(OciSource *s);
OciSource *oci_source_free(OciSource *s);
DEFINE_TRIVIAL_CLEANUP_FUNC(OciSource *, oci_source_free);

/* An image layout in a directory. TAG is the ref.name annotation of the image (whole, or its tag), or a
 * digest; NULL: the only one. The message lists what there is. */
int oci_layout_open(const char *dir, const char *tag, OciSource **ret, Error *e);
/* The same as a tar archive, plain or compressed, in FILE; "-" is standard input. What cannot be read in any
 * order is copied to the store first, as a temporary file. */
int oci_archive_open(Store *s, const char *file, const char *tag, OciSource **ret, Error *e);
/* Archives of "docker save" and similar commands. TAG: a whole reference ("example.com/app:1.0"), or "@N",
 * the N-th image from 0 on; NULL: the only one. */
int docker_archive_open(Store *s, const char *file, const char *tag, OciSource **ret, Error *e);
/* The number of its images. */
int docker_archive_count(Store *s, const char *file, size_t *ret, Error *e);

/* --- Digests ------------------------------------------------------------------------------------------- */

/* The digest of N bytes, of the same algorithm as LIKE ("sha512:"). */
int digest_bytes(const char *like, const void *p, size_t n, char **ret);

/* --- Import -------------------------------------------------------------------------------------------- */

typedef struct OciImportOptions {
        unsigned n_parallel; /* layers at a time; 0: one per processor */
        /* Called after everything has been read and checked; the image is published only if this returns >=
         * 0. May fill INFO. May be NULL, like all of these. */
        int (*approve)(const char *id, const ImageManifest *m, ImageInfo *info, void *userdata, Error *e);
        /* Bytes of layers read so far, and in total; called first with 0. Called by several threads, but not
         * concurrently. */
        void (*progress)(uint64_t done, uint64_t total, void *userdata);
        void *userdata;
} OciImportOptions;

/* Imports the image of SRC: the one for this host, if there are several. Layers that are in the store are
 * not read; layers are published first, the image last. The image's ID is the SHA-512 of its config. An
 * image that already exists is success. */
int oci_import(Store *s, OciSource *src, const OciImportOptions *o, Image **ret, Error *e);

/* --- Verifying (verify.c) ------------------------------------------------------------------------------ */

/* For an OCI image, adds to image_verify() what follows from the ID: that is the hash of the config, and the
 * list of layers is computed from it. Nothing for another image. 0, also if there are differences. */
int oci_image_verify(Store *s, const char *id, RecordCheck *check, Error *e);
/* The same with the first difference as an error: -EBADMSG. */
int oci_image_check_unaltered(Store *s, const char *id, Error *e);

/* --- Checking (check.c) -------------------------------------------------------------------------------- */

typedef enum OciCheckKind { OCI_CHECK_LAYOUT, OCI_CHECK_ARCHIVE, OCI_CHECK_DOCKER_ARCHIVE } OciCheckKind;

/* The probable kind of an archive with a member of that name. -ENOENT: none of these kinds. */
int oci_kind_by_member(const char *name, OciCheckKind *ret);

/* Reports an error, or a WARNING. DOCUMENT is a file of the layout, PATH the position in it ("": the whole file). */
typedef void (*OciReport)(const char *document, const char *path, const char *message, bool warning,
                          void *userdata);

/* Checks all images of a layout: the documents, and sizes and digests of the blobs. Uses no store, so archives have to be
 * plain files. O may be NULL. Returns 0 if the layout is valid, perhaps with warnings; 1 if errors were reported; a negative
 * errno if it could not be read. */
int oci_check(const char *path, OciCheckKind kind, const Operation *o, OciReport report, void *userdata,
              Error *e);
