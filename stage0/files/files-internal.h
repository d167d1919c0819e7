/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Shared by the sources of stage0/files/. */

#include <sys/stat.h>

#include "stage0/control/control.h"
#include "stage0/files/files.h"
#include "stage0/host/host.h"
#include "stage0/mounts/mounts.h"

/* --- place.c: resolving a side of a copy --------------------------------------------------------------- */

/* For messages: "POD:APP:PATH", or the path. */
int side_show(const CopySide *s, char **ret);
/* "Cannot copy 'SIDE': …" */
int side_error(Error *e, int code, const CopySide *s, const char *format, ...) _printf_(4, 5);

typedef struct Source {
        int fd; /* O_PATH; a symlink only if it is not to be followed */
        struct stat st;
        bool content; /* only its content */
        char *name;   /* its name in a target that is a directory; NULL: it has none */
} Source;

#define SOURCE_NULL ((Source){.fd = -EBADF})
int source_open(const CopySide *s, bool follow, Source *ret, Error *e);
void source_done(Source *s);

typedef struct Target {
        int dir_fd; /* O_PATH */
        char *name; /* in it; NULL: the existing directory itself */
} Target;

#define TARGET_NULL ((Target){.dir_fd = -EBADF})
/* Refuses targets that are not writable. */
int target_open(const CopySide *s, Target *ret, Error *e);
void target_done(Target *t);

bool is_kernel_file_system(int fd);

/* --- copy-attributes.c: owners, modes, times, extended attributes -------------------------------------- */

/* How owners are numbered. */
typedef struct Owners {
        bool mapped; /* in a pod's range */
        uint32_t base, count;
} Owners;

typedef struct Attributes {
        Owners from, to;
        bool archive;
        uid_t uid; /* without ARCHIVE: the owner of the copies */
        gid_t gid;
} Attributes;

/* The initial owner of new files; in a pod only its root can create files of this owner. */
uid_t attributes_maker(const Attributes *a);

/* Copies the attributes of FROM_FD, with the status ST, to the new file FD. *RET_WHY (a constant string):
 * what could not be kept; NULL: all was. */
int attributes_copy(const Attributes *a, int from_fd, const struct stat *st, int fd, const char **ret_why);
/* The same for a symlink, opened with O_PATH. */
int attributes_copy_symlink(const Attributes *a, const struct stat *st, int fd);

/* --- copy-file.c --------------------------------------------------------------------------------------- */

/* Creates a copy of the regular file FROM_FD at NAME in DIR_FD, replacing an existing file. */
int file_copy(const Attributes *a, int from_fd, const struct stat *st, int dir_fd, const char *name,
              const Operation *o, const char **ret_why, Error *e);
int symlink_copy(const Attributes *a, int from_fd, const struct stat *st, int dir_fd, const char *name);
/* The same for another name of the file NAME in FROM_FD. */
int hard_link_copy(int from_dir_fd, const char *from_name, int dir_fd, const char *name);

/* --- sides.c ------------------------------------------------------------------------------------------- */

/* SHOWN: name of SOURCE, given by FROM, in messages. */
int source_copy(const Source *s, const CopySide *from, const char *shown, const CopySide *to,
                const CopyOptions *o, Error *e);

/* --- copy.c -------------------------------------------------------------------------------------------- */

/* Copies SOURCE into TARGET; SHOWN: name of the source in messages. */
int tree_copy(const Source *source, const Target *target, const char *shown, const Attributes *a,
              const CopyOptions *o, Error *e);

/* --- view.c: packing in the pod's user namespace ------------------------------------------------------- */

/* TreeOptions.leave_out: sockets, and kernel file systems, with a note. USERDATA is FilesNotes. */
bool files_leave_out(int fd, const struct stat *st, const char *path, void *userdata);

/* Calls FUNCTION in a child that is root in the pod's user namespace, or in an equivalent one, so that
 * owners are those that the pod sees. *RET_TEXT may remain NULL. */
int pod_view_call(const Pod *p, const Operation *o,
                  int (*function)(void *data, int *ret_fd, char **ret_text, Error *e), void *data,
                  const char *what, char **ret_text, Error *e);
