/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* stage0/files/: the files of apps, seen from the host: copied in and out, and made into images. */

#include "prepare/prepare.h"

/* Says what was left out and why, one thing at a time. PATH is as the user would write it. */
typedef struct FilesNotes {
        void (*note)(const char *path, const char *why, void *userdata);
        void *userdata;
} FilesNotes;

/* --- Roots of apps (root.c) ---------------------------------------------------------------------------- */

typedef enum AppRootView {
        APP_ROOT_AS_SEEN, /* by the app, if it runs: with its volumes, /proc and so on. Else as the next */
        APP_ROOT_FILES,   /* what is of its image, and what it wrote to it; only to be read */
        APP_ROOT_WRITE,   /* as the first, to be written to */
} AppRootView;

typedef struct AppRoot {
        const Pod *pod;
        const PodApp *app;
        int fd;        /* O_PATH */
        bool live;     /* as the app sees it */
        bool changing; /* the app may write to it meanwhile */
} AppRoot;

#define APP_ROOT_NULL ((AppRoot){.fd = -EBADF})
/* Opens the root of APP (NULL: the only app) of a pod that is prepared, runs or has ended; one that does not
 * run is locked by this. Both pod and manifest must stay until app_root_done(). */
int app_root_open(Pod *p, const char *app, AppRootView view, AppRoot *ret, Error *e);
void app_root_done(AppRoot *r);
#define _cleanup_app_root_ _cleanup_(app_root_done)

/* --- Copying (copy*.c, place.c) ------------------------------------------------------------------------ */

/* One side of a copy. */
typedef struct CopySide {
        AppRoot *root;    /* NULL: the host */
        const char *path; /* of the host as it is, of an app from its root on; never empty */
} CopySide;

typedef struct CopyOptions {
        bool archive; /* keep owners, set-ID bits, ACLs and capabilities; owners in an app's root count from
                         the pod's range of uids */
        bool follow;  /* a symlink that is to be copied: what it leads to */
        FilesNotes notes;
} CopyOptions;

/* Copies SOURCES, directories with all that is in them, as cp -R would: into TARGET if that is a directory,
 * else to that name. A source that ends in "/." stands for what is in it. Each file appears whole or not at
 * all; what is there is replaced, but never a directory by a file or the other way round. No symlink is
 * followed below SOURCES or TARGET. Sides that are apps are resolved inside the app's root. -EROFS: the
 * target is mounted read-only; -ENOTDIR, -EISDIR, -ENOENT, …; -EBUSY: a file is mounted in its place;
 * devices, sockets and FIFOs are left out with a note, and refused if they are a source themselves. */
int files_copy(const CopySide *sources, size_t n_sources, const CopySide *target, const CopyOptions *o,
               Error *e);

/* --- As archives (stream.c, export.c) ------------------------------------------------------------------ */

/* Writes what SOURCE, of an app, names to OUT_FD as a tar archive, with the owners that the app sees. */
int files_pack(const CopySide *source, const CopyOptions *o, int out_fd, Error *e);
/* Unpacks the archive (compressed or not) that IN_FD delivers into the directory TARGET of an app. What it
 * holds is checked as an image's layer is before anything is copied. */
int files_unpack(Store *s, int in_fd, const CopySide *target, const CopyOptions *o, Error *e);

typedef struct ExportOptions {
        PackOptions pack;
        const char *name; /* name[:version][,label=value]…; NULL: the image's */
        FilesNotes notes;
} ExportOptions;

/* Makes an image of the root (opened with APP_ROOT_FILES): what was in the image and what the app wrote. Its
 * manifest is that of the app's image, without dependencies and whitelist, as everything is in it. */
int files_export(const AppRoot *root, const ExportOptions *o, int out_fd, const char *what, char **ret_id,
                 Error *e);
