/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* prepare/images/: the images of a store: importing an archive, finding, reading, and rendering them to the
 * layers of an overlay. */

#include "prepare/store/store.h"
#include "prepare/unpack/unpack.h"
#include "schema/schema.h"

/* --- Images (image.c) ---------------------------------------------------------------------------------- */

typedef enum ImageKind { IMAGE_KIND_ACI, IMAGE_KIND_OCI, _IMAGE_KIND_MAX } ImageKind;

/* The signer whose signature was checked when an image was imported. */
typedef struct ImageSigner {
        char *fingerprint, *user_id; /* of the key */
        char *prefix;                /* prefix of names that the key is trusted for ("": any) */
        char *key, *stamp;           /* the signing key, and the state of its files at that time */
        char *trust;          /* SIGNER_OFFERED: by a key that was trusted for that import only; else NULL */
        uint64_t signed_time; /* these are in microseconds since the epoch */
        uint64_t expires, key_expires; /* of the signature, of the key; 0: never */
} ImageSigner;

#define SIGNER_OFFERED "offered"

/* Information about an image besides its content: the file "info". Strings are owned and may be NULL. */
typedef struct ImageInfo {
        uint64_t import_time;  /* microseconds since the epoch */
        uint64_t size;         /* bytes, uncompressed */
        uint64_t archive_size; /* bytes, as transferred */
        ImageKind kind;
        char *origin;       /* the file, URL or reference it was read from, as written by the user */
        char *reference;    /* the same normalised: a name with labels, a URL, docker://… */
        ImageSigner signer; /* no fingerprint: no signature was checked */
        char *config_digest, *manifest_digest; /* "sha256:…" of an OCI image */
} ImageInfo;

void image_info_done(ImageInfo *i);
#define _cleanup_image_info_ _cleanup_(image_info_done)
const char *image_kind_to_string(ImageKind k); /* "aci", "oci" */

typedef struct Image {
        char *id;            /* sha512-… */
        int dir_fd;          /* images/<id>, readable; -EBADF for images in lists */
        char *manifest_text; /* byte for byte as in the archive */
        size_t manifest_size;
        ImageManifest *manifest;
        uint64_t import_time; /* microseconds since the epoch */
        uint64_t last_used;
        uint64_t size; /* bytes of the uncompressed archive */
        ImageInfo info;
        char **layer_ids; /* of an OCI image, see LAYER_ID_UNPACKED, uppermost first */
        /* The image of an index that owns all of the above except the descriptor; and the number of
         * references to this image, itself included (0: never shared). */
        struct Image *shared;
        unsigned n_users;
} Image;

Image *image_free(Image *i);
DEFINE_TRIVIAL_CLEANUP_FUNC(Image *, image_free);

/* --- All images (image-index.c) ------------------------------------------------------------------------ */

/* Sorted by name, then version. */
int image_list(Store *s, Image ***ret, size_t *ret_n, Error *e);
/* The same, but images that cannot be read are left out and counted. */
int image_list_readable(Store *s, Image ***ret, size_t *ret_n, size_t *ret_n_damaged, Error *e);
void image_list_free(Image **l, size_t n);
/* The IDs of all images, damaged or not, that begin with PREFIX (IMAGE_ID_PREFIX: all), sorted. */
int image_list_ids(Store *s, const char *prefix, char ***ret, Error *e);
/* True if the image came only from registries. */
bool image_is_of_registry(const Image *i);
/* Of those in LIST that have the name and the labels, the one to prefer: for this host's os and arch, then
 * not of a registry, where the name is that of the repository, then of the highest version, then the latest
 * import. NULL: none. */
Image *image_list_best(Image **list, size_t n, const char *name, const PairList *labels);

/* A cache of the images of a store, for many look-ups: each is read once. Not thread-safe. Images that
 * cannot be read are left out. */
typedef struct ImageIndex ImageIndex;
int image_index_new(Store *s, ImageIndex **ret, Error *e);
ImageIndex *image_index_free(ImageIndex *x);
DEFINE_TRIVIAL_CLEANUP_FUNC(ImageIndex *, image_index_free);
/* Updates the index for added and removed images. */
int image_index_refresh(ImageIndex *x, Error *e);
/* Fails if an image other than BUT could not be read, as it was listed, though it may be whole: what it needs is not known. */
int image_index_check_read(const ImageIndex *x, const char *but, Error *e);
/* Requests an update before the next look-up. */
void image_index_invalidate(ImageIndex *x);
/* The same, and the image of this ID is read again. */
void image_index_forget(ImageIndex *x, const char *id);
/* The images, by ID. They belong to the index, and are valid until it changes. */
Image **image_index_images(const ImageIndex *x, size_t *ret_n);
/* The image of that ID, which is read only if the index does not have it, with a descriptor of its own. It
 * may outlive the index; its data is shared, and must not be changed. It may be freed by any thread. */
int image_index_open(ImageIndex *x, const char *id, Image **ret, Error *e);
/* Opens the result of image_find_id(). */
int image_index_look_up(ImageIndex *x, const char *reference, Image **ret, Error *e);
/* Opens the result of image_list_best(). New images are noticed only if no known one matches. -ENOENT,
 * without a message: there is none. */
int image_index_find(ImageIndex *x, const char *name, const PairList *labels, Image **ret, Error *e);

/* --- Importing, finding, rendering (import.c, image-check.c, image-find.c, layers.c) ------------------- */

/* Imports an ACI (tar, plain or compressed with gzip, bzip2, xz or zstd) from FD in one pass. ORIGIN is its
 * name in messages and in the info file. The image appears in the store atomically; importing an existing
 * image is success. */
int image_import(Store *s, int fd, const char *origin, Image **ret, Error *e);

typedef struct ImportOptions {
        const char *origin;
        uint64_t size_max; /* limit of bytes read from the descriptor; 0: limited by the disk only */
        /* Called for all data read, before decompression, in order; called by a thread of the pipeline, and
         * never after image_import_with() has returned. */
        int (*observe)(const void *data, size_t size, void *userdata, Error *e);
        /* Called after everything has been read and is valid, and observe() is not called any more: the
         * image is published only if this returns >= 0. May set the reference and the signer of INFO. */
        int (*approve)(const char *id, const ImageManifest *m, ImageInfo *info, void *userdata, Error *e);
        void (*progress)(uint64_t done, void *userdata); /* bytes read so far, called regularly by that
                                                          * thread */
        char **ret_unexpected_entry; /* also set on failure: a name that is not allowed in images, see
                                      * image_check(); or NULL */
        void *userdata;
} ImportOptions;

/* The same with options. If the image already exists, its info gets the reference and the signer of this
 * import. */
int image_import_with(Store *s, int fd, const ImportOptions *o, Image **ret, Error *e);
/* Checks whether the archive read from FD is a valid image, by every check of importing; nothing is written.
 * O may be NULL.
 * FINDINGS (may be NULL) gets the errors of its manifest, which is *RET_MANIFEST (may be NULL).
 * *RET_UNEXPECTED_ENTRY (or NULL; set also on failure): a name in the archive that is not allowed in images, which
 * may identify the actual format. */
int image_check(int fd, const Operation *o, Findings *findings, ImageManifest **ret_manifest,
                char **ret_unexpected_entry, Error *e);
/* Finds an image by a user's reference: an existing file (imported first; must contain '/' or end in .aci),
 * an ID, a unique prefix of an ID ("sha512-abcd" or at least four hex digits), or
 * name[:version][,label=value]…. Of several matches of a name, those for this host's os and arch are
 * preferred, then those that are not of a registry, then the highest version, then the latest import. Messages
 * list candidates and near misses. */
int image_find(Store *s, const char *reference, Image **ret, Error *e);
int image_open(Store *s, const char *id, Image **ret, Error *e); /* exact ID */
/* The IDs of layers of OCI images, with 64 hex digits after them. A layer that was unpacked is named by the
 * SHA-256 of its uncompressed archive. A layer that was made here has files of several layers; what is hashed
 * for its ID is a text about these (links.c, attributes.c of prepare/oci/). The text could be the archive of
 * another image, so these IDs are a name space of their own. Both prefixes have LAYER_ID_PREFIX_SIZE bytes. */
#define LAYER_ID_UNPACKED "sha256-"
#define LAYER_ID_MADE "merged-"
#define LAYER_ID_PREFIX_SIZE 7U
#define LAYER_ID_SIZE (LAYER_ID_PREFIX_SIZE + 64U)
/* Whether S begins with the ID of a layer. */
bool layer_id_begins(const char *s);
bool layer_id_check(const char *s);
/* The layers of an OCI image, from its file "layers". */
int image_read_layer_ids(int image_fd, char ***ret, Error *e);
/* The overlay lower directories that render the image, uppermost first, as absolute paths (spec: ace.md,
 * "Filesystem Setup"): its own rootfs, then its dependencies in reverse order of override. */
int image_layers(Store *s, const Image *i, char ***ret, Error *e);
/* The same with the images of an index, without refreshing it; marks all of them as used. */
int image_layers_used(Store *s, ImageIndex *x, const Image *i, char ***ret, Error *e);

/* --- Verifying and exporting (verify.c, export.c) ------------------------------------------------------ */

/* Compares the image of that ID, and its layers, with the records made when they were unpacked; with
 * CHECK_ID also its archive with its ID. The image may be damaged in any way: differences are in CHECK, and
 * 0 is returned. Errors: there is no record (-ENOENT), the record is damaged (-EBADMSG), or something cannot
 * be read at all. */
int image_verify(Store *s, const char *id, bool check_id, RecordCheck *check, Error *e);
/* The same for all images and layers from which overlay lower directories (absolute, as image_layers()
 * returns them) are made, without their IDs. -EBADMSG with a message that names the first altered file. */
int image_verify_layers(Store *s, char *const *layers, Error *e);

typedef int (*ImageSink)(const void *p, size_t n, void *userdata, Error *e);
/* Passes the uncompressed archive to SINK, byte for byte as it was imported. -EBADMSG: the image was
 * altered, which may be known only after the last byte; -ENOENT: it was imported without a recipe. */
int image_export(const Image *i, const Operation *o, ImageSink sink, void *userdata, Error *e);

enum {
        RENDER_ARCHIVE =
                        1, /* with set-ID bits, capabilities, ACLs, attributes of the system and device nodes */
        RENDER_TOP = 2,    /* the directory itself gets owner, mode and attributes of the image's root */
};
/* Copies the root of an app of the image (spec: ace.md, "Filesystem Setup") to the empty directory DIR_FD:
 * the layers merged, whiteouts and whitelists applied (render-image.c). The image and its dependencies must
 * not be removed meanwhile: hold the store's lock. */
int image_render(Store *s, const Image *i, int dir_fd, unsigned flags, Error *e);
/* Copies SIZE bytes of FROM to the empty file TO: cloned if possible, else copied with holes
 * (render-copy.c). O may be NULL. */
int file_copy_content(int from, int to, off_t size, const Operation *o);

/* --- Names (image-name.c) ------------------------------------------------------------------------------ */

typedef struct ImageName {
        char *name;
        PairList labels; /* "version" is one of them */
} ImageName;

void image_name_done(ImageName *n);
/* name[:version][,label=value]… */
int image_name_parse(const char *s, ImageName *ret, Error *e);
/* The image has that name and all those labels. */
bool image_name_matches(const char *name, const PairList *labels, const ImageManifest *m);
/* "example.com/app:1.0,arch=amd64" */
int image_name_format(const char *name, const PairList *labels, char **ret);
/* Less than, equal to or greater than zero. NULL: no version, which is older than any version. */
int image_version_compare(const char *a, const char *b);

/* --- More of images (image-info.c, image.c, image-find.c) ---------------------------------------------- */

/* The file "info" (image-info.c). Writing replaces the file as a whole; SYNC: durably, for an image that is
 * already published. */
int image_info_read(int image_fd, ImageInfo *ret, Error *e);
int image_info_write(int image_fd, const ImageInfo *i, bool sync, Error *e);
/* Updates reference and signer of an existing image from FROM. */
int image_info_update(Image *i, const ImageInfo *from, Error *e);
/* Caches the result of a check of the present signer in a separate file, which other processes may be reading. If the file
 * is lost, the next check only takes longer. */
int image_info_note_checked(int image_fd, const ImageSigner *signer);
/* The ID of the image in the store for REFERENCE; files are not imported. The image may be damaged. */
int image_find_id(Store *s, const char *reference, char **ret, Error *e);

/* --- Rendered trees (render.c) ------------------------------------------------------------------------- */

/* The layers a rendered tree was made from: a text with one path per line, relative to the store, of all
 * depths. KEY_FD is "rendered/<key>". */
int render_read_layers(int key_fd, char **ret);

/* --- Implied directories (attributes.c) ---------------------------------------------------------------- */

/* Makes in DIR_FD the directory "rootfs", with the directories that layers only imply, with their attributes
 * of lower layers. FDS: the layers, lowest first, each with its "rootfs" and "implied". 1: there are some;
 * 0: there are none, and nothing was made. */
int attributes_make(Store *s, const int *fds, size_t n, int dir_fd, Error *e);
/* Writes the file "implied" of an unpacked layer; without such directories there is no file. */
int implied_write(int dir_fd, const Text *implied);
