/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Shared by the sources of prepare/images/. */

#include "prepare/images/images.h"
#include "schema/oci.h"

/* Whether an error is a shortage of resources, which says nothing about the image itself. */
static inline bool image_is_shortage(int r)
{
        return r == -ENOMEM || r == -EMFILE || r == -ENFILE;
}

/* Another reference to the data of I; its descriptor is still to be opened. NULL: out of memory. */
Image *image_share(Image *i);
/* Opens the directory of the image ID. -ENOENT, with a message: it does not exist. */
int image_open_directory(Store *s, const char *id, Error *e);

Store *image_index_store(const ImageIndex *x);
size_t image_index_n_damaged(const ImageIndex *x);
/* The images sorted by name, then version. The caller frees only the array. */
Image **image_index_by_name(const ImageIndex *x);

/* Copies owner, mode and attributes of the directory FROM to the directory TO, and returns FROM's status;
 * the times have to be set after all other changes to TO. */
int directory_copy_metadata(const Store *s, int from, int to, struct stat *ret);

/* --- Trees made from layers (rendered.c) --------------------------------------------------------------- */

typedef struct RenderedTree {
        Store *store;
        char *const *layers; /* uppermost first, relative to the store */
        char *const *paths;  /* a list, sorted; NULL: none */
        size_t n_paths;
        /* Makes the tree, as the directory "rootfs" of DIR_FD. If it makes none, that result is stored. */
        int (*make)(int dir_fd, void *userdata, Error *e);
        void *userdata;
} RenderedTree;

/* The tree's path relative to the store; the tree is made if it does not exist. 1: it has a rootfs; 0: it
 * has none. */
int rendered_get(const RenderedTree *t, char **ret, Error *e);
/* The layers' directories, lowest first: those that have "rootfs". */
typedef struct LayerFds {
        int *fds;
        size_t n;
} LayerFds;

void layer_fds_done(LayerFds *l);
#define _cleanup_layer_fds_ _cleanup_(layer_fds_done)
/* For a layer's "rootfs", the path of another file of the layer. */
int layer_file(const char *layer, const char *file, char **ret);
int layer_fds_open(Store *s, char *const *layers, LayerFds *l, Error *e);
/* Whether one of the LAYERS, N of them, has directories without an entry. */
int layers_imply(Store *s, char *const *layers, size_t n, Error *e);

/* --- Images (image-index.c, image.c, layers.c, export.c) ----------------------------------------------- */

/* Like image_list_best(). New images are noticed only if no known one matches. -ENOENT, without a message:
 * there is none. The ID is the index's, until it changes. */
int image_index_find_id(ImageIndex *x, const char *name, const PairList *labels, const char **ret, Error *e);
/* Records that an image was used now. Failure does not matter. */
void image_touch(const Image *i);
/* The image's own overlay lower directories, uppermost first, relative to the store: "images/ID/rootfs", or
 * "layers/D/rootfs" for each layer of an OCI image. */
int image_own_layers(const Image *i, char ***ret);
/* image_export() from the image's directory; messages do not name it. */
int image_replay(int image_fd, const char *id, const Operation *o, ImageSink sink, void *userdata, Error *e);

/* --- Rendering (render.c) ------------------------------------------------------------------------------ */

/* Renders those of PATHS (absolute) that are in the overlay of LAYERS (relative to the store, uppermost
 * first) as a tree of its own, and returns its path relative to the store, "rendered/<key>/rootfs". Rendered
 * once; later calls find the tree. */
int render_whitelist(Store *s, char *const *layers, char *const *paths, char **ret, Error *e);
/* The same for implied directories (attributes.c): if LAYERS need one, an additional layer for the top,
 * "rendered/<key>/rootfs". 1: needed; 0: not needed, *RET is unchanged. */
int render_attributes(Store *s, char *const *layers, char **ret, Error *e);
/* Copies NAME of one directory, which is not itself a directory and has the status ST, to another: a hard
 * link, or a copy if the file has too many (render-copy.c). */
int render_place_file(const Store *s, int from_fd, int to_fd, const char *name, const struct stat *st);
/* Writes the file "implied" of a tree that was made from these layers: directories for which none of them
 * has an entry. */
int attributes_note_implied(Store *s, const int *fds, size_t n, int dir_fd, Error *e);
