/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* prepare/build/: builds image archives from image layouts on disk (spec: aci.md, "Image Layout" and "Image
 * Archives"). */

#include "prepare/pack/pack.h"

/* --- Layouts (layout.c) -------------------------------------------------------------------------------- */

/* A directory with the file "manifest" and the directory "rootfs", and nothing else. */
typedef struct Layout {
        char *path;
        int dir_fd, rootfs_fd;
        char *manifest_text; /* byte for byte */
        size_t manifest_size;
        ImageManifest *manifest;
} Layout;

/* Opens and checks a layout: its entries, and the manifest, all errors of which are in FINDINGS (may be
 * NULL). Symlinks in place of any of these are refused. -EINVAL, -EBADMSG, -ENOENT, … */
int layout_open(const char *dir, Layout **ret, Findings *findings, Error *e);
Layout *layout_free(Layout *l);
DEFINE_TRIVIAL_CLEANUP_FUNC(Layout *, layout_free);
/* The default file name of its image: the last component of the name, and the labels version, os and arch if
 * present, as in "reduce-worker-1.0.0-linux-amd64.aci". */
int layout_file_name(const Layout *l, char **ret, Error *e);

/* --- Building (build.c, output.c) ---------------------------------------------------------------------- */

typedef struct BuildOptions {
        PackOptions pack;
        bool sign;
        const char *key;             /* the user's key to sign with; NULL: gpg's default */
        const char *gnupghome;       /* NULL: gpg's default */
        const char *passphrase_file; /* passphrase for encryption, after compressing; or NULL */
        bool replace;                /* an existing FILE is replaced together with its signature */
} BuildOptions;

/* Uses SOURCE_DATE_EPOCH of the environment, if it is set, as the upper limit of file times. -EINVAL: it is
 * not a number. */
int build_options_from_environment(BuildOptions *o, Error *e);

/* Packs the layout into an image and writes it to a descriptor. The image depends on the layout and the
 * options alone: manifest, names, contents, owners, modes, times (in seconds), attributes. */
int build_image(const Layout *l, const BuildOptions *o, int out_fd, char **ret_id, Error *e);
/* The same into a file that must end in .aci, and with o->sign the signature into FILE.asc, which covers the
 * distributed, that is the encrypted image. Each file appears atomically. -EEXIST: it exists and is not to
 * be replaced. */
int build_image_file(const Layout *l, const BuildOptions *o, const char *file, char **ret_id, Error *e);

/* A new file that gets its name when it is complete. */
typedef struct Output {
        int dir_fd, fd;
        char *name;      /* in DIR_FD */
        char *temporary; /* temporary name before that; NULL: none */
        char *path;      /* for messages */
} Output;

#define OUTPUT_NULL ((Output){.dir_fd = -EBADF, .fd = -EBADF})
/* -EEXIST if it exists and REPLACE is not set, and in any case if it exists and is not a regular file. */
int output_open(const char *path, bool replace, Output *ret, Error *e);
int output_publish(Output *o, bool replace, Error *e);
void output_done(Output *o); /* removes it if it was not published */
/* Creates an unnamed file in the directory DIR_FD, readable only by this process. */
int output_scratch(int dir_fd, int *ret_fd, Error *e);
