/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* prepare/build/: image layouts, as people write them on disk, made into image archives (spec: aci.md,
 * "Image Layout" and "Image Archives"). */

#include "prepare/pack/pack.h"

/* --- Layouts (layout.c) -------------------------------------------------------------------------------- */

/* A directory that holds the file "manifest" and the directory "rootfs", and nothing else. */
typedef struct Layout {
        char *path;
        int dir_fd, rootfs_fd;
        char *manifest_text; /* byte for byte */
        size_t manifest_size;
        ImageManifest *manifest;
} Layout;

/* Opens and checks it: what is in it, and the manifest, of which FINDINGS (or NULL) has all that is wrong.
 * Symlinks in place of any of these are refused. -EINVAL, -EBADMSG, -ENOENT, … */
int layout_open(const char *dir, Layout **ret, Findings *findings, Error *e);
Layout *layout_free(Layout *l);
DEFINE_TRIVIAL_CLEANUP_FUNC(Layout *, layout_free);
/* How its image is called if nobody says: the last part of the name, and the labels version, os and arch as
 * far as there are any, as in "reduce-worker-1.0.0-linux-amd64.aci". */
int layout_file_name(const Layout *l, char **ret, Error *e);

/* --- Building (build.c, output.c) ---------------------------------------------------------------------- */

typedef struct BuildOptions {
        PackOptions pack;
        bool sign;
        const char *key;             /* by which of the user's keys; NULL: gpg's default */
        const char *gnupghome;       /* NULL: the usual place */
        const char *passphrase_file; /* encrypt with it, after compressing; or NULL */
        bool replace;                /* FILE may be there, and is replaced together with its signature */
} BuildOptions;

/* Takes SOURCE_DATE_EPOCH of the environment, if it is set, as the latest time of a file. -EINVAL: it is no
 * number. */
int build_options_from_environment(BuildOptions *o, Error *e);

/* Packs the layout into an image and writes it to a descriptor. The image depends on the layout and the
 * options alone: manifest, names, contents, owners, modes, times (in seconds), attributes. */
int build_image(const Layout *l, const BuildOptions *o, int out_fd, char **ret_id, Error *e);
/* The same into a file that must end in .aci, and with o->sign the signature into FILE.asc, made of what is
 * to be distributed, that is of the encrypted image. Each appears whole or not at all. -EEXIST: it is there
 * and is not to be replaced. */
int build_image_file(const Layout *l, const BuildOptions *o, const char *file, char **ret_id, Error *e);

/* A new file that gets its name when it is complete. */
typedef struct Output {
        int dir_fd, fd;
        char *name;      /* in DIR_FD */
        char *temporary; /* what it is called before that; NULL: nothing */
        char *path;      /* for messages */
} Output;

#define OUTPUT_NULL ((Output){.dir_fd = -EBADF, .fd = -EBADF})
/* -EEXIST if it is there already and REPLACE is not set, and in any case if what is there is no file. */
int output_open(const char *path, bool replace, Output *ret, Error *e);
int output_publish(Output *o, bool replace, Error *e);
void output_done(Output *o); /* unpublished: nothing stays of it */
/* A file without a name in the directory DIR_FD, which only we can read. */
int output_scratch(int dir_fd, int *ret_fd, Error *e);
