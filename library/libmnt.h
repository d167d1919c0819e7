/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* libmount, loaded when one of these functions is called for the first time; see library.h. */

#include <libmount.h>

#include "library/library.h"

#define MOUNT_FUNCTIONS(F)                                                                                  \
        F(mnt_free_iter)                                                                                    \
        F(mnt_fs_get_fstype)                                                                                \
        F(mnt_fs_get_option)                                                                                \
        F(mnt_fs_get_target)                                                                                \
        F(mnt_new_iter)                                                                                     \
        F(mnt_new_table_from_file)                                                                          \
        F(mnt_table_next_fs)                                                                                \
        F(mnt_unref_table)

typedef struct MountFunctions {
        MOUNT_FUNCTIONS(LIBRARY_MEMBER)
} MountFunctions;

extern MountFunctions mount_functions;
extern Library mount_library;

#define MOUNT_CALL(function, ...) LIBRARY_CALL(mount_library, mount_functions.function, __VA_ARGS__)

#define mnt_free_iter(...) MOUNT_CALL(mnt_free_iter, __VA_ARGS__)
#define mnt_fs_get_fstype(...) MOUNT_CALL(mnt_fs_get_fstype, __VA_ARGS__)
#define mnt_fs_get_option(...) MOUNT_CALL(mnt_fs_get_option, __VA_ARGS__)
#define mnt_fs_get_target(...) MOUNT_CALL(mnt_fs_get_target, __VA_ARGS__)
#define mnt_new_iter(...) MOUNT_CALL(mnt_new_iter, __VA_ARGS__)
#define mnt_new_table_from_file(...) MOUNT_CALL(mnt_new_table_from_file, __VA_ARGS__)
#define mnt_table_next_fs(...) MOUNT_CALL(mnt_table_next_fs, __VA_ARGS__)
#define mnt_unref_table(...) MOUNT_CALL(mnt_unref_table, __VA_ARGS__)
