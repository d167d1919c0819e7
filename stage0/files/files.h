/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* stage0/files/: files of apps: copying them in and out, and exporting them as images. */

#include "prepare/prepare.h"

/* Reports each file that was left out, and why. PATH: as in the command line. */
typedef struct FilesNotes {
        void (*note)(const char *path, const char *why, void *userdata);
        void *userdata;
} FilesNotes;

/* --- Roots of apps (root.c) ---------------------------------------------------------------------------- */

typedef enum AppRootView {
        APP_ROOT_AS_SEEN, /* as seen by the app, if it runs: with volumes, /proc and so on. Else as the next */
        APP_ROOT_FILES,   /* its image's files and its changes to them; read-only */
        APP_ROOT_WRITE,   /* as the first, for writing */
} AppRootView;

typedef struct AppRoot {
        const Pod *pod;
        const PodApp *app;
        int fd;        /* O_PATH */
        bool live;     /* as the app sees it */
        bool changing; /* the app may write to it meanwhile */
} AppRoot;

#define APP_ROOT_NULL ((AppRoot){.fd = -EBADF})
/* Opens the root of APP (NULL: the only app) of a pod that is prepared, running or exited; locks the pod
 * unless it is running. Pod and manifest must remain valid until app_root_done(). */
int app_root_open(Pod *p, const char *app, AppRootView view, AppRoot *ret, Error *e);
void app_root_done(AppRoot *r);
#define _cleanup_app_root_ _cleanup_(app_root_done)

/* --- Copying (copy*.c, place.c) ------------------------------------------------------------------------ */

/* One side of a copy. */
typedef struct CopySide {
        AppRoot *root;    /* NULL: the host */
        const char *path; /* of the host, or relative to the app's root; never empty */
} CopySide;

typedef struct CopyOptions {
        bool archive; /* keep owners, set-ID bits, ACLs and capabilities; owners in an app's root count from
                         the pod's range of uids */
        bool follow;  /* copy the target of a symlink */
        const Operation *operation; /* copying ends with it; or NULL */
        FilesNotes notes;
} CopyOptions;

/* Copies SOURCES, directories recursively, as cp -R: into TARGET if that is a directory, else to that name.
 * A source that ends in "/." denotes the directory's content. Each file appears complete or not at all;
 * existing files are replaced, but never a directory by a file or vice versa. No symlink is followed below
 * SOURCES or TARGET. Sides that are apps are resolved inside the app's root. -EROFS: the target is mounted
 * read-only; -ENOTDIR, -EISDIR, -ENOENT, …; -EBUSY: a file is mounted in its place; devices, sockets and
 * FIFOs are left out with a note, and refused if they are a source themselves. */
int files_copy(const CopySide *sources, size_t n_sources, const CopySide *target, const CopyOptions *o,
               Error *e);

/* --- As archives (stream.c, export.c) ------------------------------------------------------------------ */

/* Writes SOURCE, of an app, to OUT_FD as a tar archive, with the owners that the app sees. */
int files_pack(const CopySide *source, const CopyOptions *o, int out_fd, Error *e);
/* Unpacks the archive (compressed or not) of IN_FD into the directory TARGET of an app. Its content is
 * checked like an image's layer before anything is copied. */
int files_unpack(Store *s, int in_fd, const CopySide *target, const CopyOptions *o, Error *e);

typedef struct ExportOptions {
        PackOptions pack;
        const char *name; /* name[:version][,label=value]…; NULL: the image's */
        FilesNotes notes;
} ExportOptions;

/* Creates an image of the root (opened with APP_ROOT_FILES): the image's files with the app's changes. Its
 * manifest is that of the app's image, without dependencies and whitelist, as it is complete. */
int files_export(const AppRoot *root, const ExportOptions *o, int out_fd, const char *what, char **ret_id,
                 Error *e);
