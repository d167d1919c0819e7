/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* libarchive, loaded when one of these functions is called for the first time; see library.h. */

#include <archive.h>
#include <archive_entry.h>

#include "library/library.h"

#define ARCHIVE_FUNCTIONS(F)                                                                                \
        F(archive_entry_acl_next)                                                                           \
        F(archive_entry_acl_reset)                                                                          \
        F(archive_entry_acl_types)                                                                          \
        F(archive_entry_atime)                                                                              \
        F(archive_entry_atime_is_set)                                                                       \
        F(archive_entry_atime_nsec)                                                                         \
        F(archive_entry_filetype)                                                                           \
        F(archive_entry_gid)                                                                                \
        F(archive_entry_hardlink)                                                                           \
        F(archive_entry_mtime)                                                                              \
        F(archive_entry_mtime_nsec)                                                                         \
        F(archive_entry_pathname)                                                                           \
        F(archive_entry_perm)                                                                               \
        F(archive_entry_rdevmajor)                                                                          \
        F(archive_entry_rdevminor)                                                                          \
        F(archive_entry_size)                                                                               \
        F(archive_entry_sparse_count)                                                                       \
        F(archive_entry_symlink)                                                                            \
        F(archive_entry_uid)                                                                                \
        F(archive_entry_xattr_next)                                                                         \
        F(archive_entry_xattr_reset)                                                                        \
        F(archive_error_string)                                                                             \
        F(archive_filter_bytes)                                                                             \
        F(archive_filter_count)                                                                             \
        F(archive_read_data)                                                                                \
        F(archive_read_data_block)                                                                          \
        F(archive_read_data_skip)                                                                           \
        F(archive_read_free)                                                                                \
        F(archive_read_new)                                                                                 \
        F(archive_read_next_header)                                                                         \
        F(archive_read_open)                                                                                \
        F(archive_read_open2)                                                                               \
        F(archive_read_support_filter_bzip2)                                                                \
        F(archive_read_support_format_empty)                                                                \
        F(archive_read_support_format_raw)                                                                  \
        F(archive_read_support_format_tar)                                                                  \
        F(archive_set_error)

typedef struct ArchiveFunctions {
        ARCHIVE_FUNCTIONS(LIBRARY_MEMBER)
} ArchiveFunctions;

extern ArchiveFunctions archive_functions;
extern Library archive_library;

#define ARCHIVE_CALL(function, ...) LIBRARY_CALL(archive_library, archive_functions.function, __VA_ARGS__)

#define archive_entry_acl_next(...) ARCHIVE_CALL(archive_entry_acl_next, __VA_ARGS__)
#define archive_entry_acl_reset(...) ARCHIVE_CALL(archive_entry_acl_reset, __VA_ARGS__)
#define archive_entry_acl_types(...) ARCHIVE_CALL(archive_entry_acl_types, __VA_ARGS__)
#define archive_entry_atime(...) ARCHIVE_CALL(archive_entry_atime, __VA_ARGS__)
#define archive_entry_atime_is_set(...) ARCHIVE_CALL(archive_entry_atime_is_set, __VA_ARGS__)
#define archive_entry_atime_nsec(...) ARCHIVE_CALL(archive_entry_atime_nsec, __VA_ARGS__)
#define archive_entry_filetype(...) ARCHIVE_CALL(archive_entry_filetype, __VA_ARGS__)
#define archive_entry_gid(...) ARCHIVE_CALL(archive_entry_gid, __VA_ARGS__)
#define archive_entry_hardlink(...) ARCHIVE_CALL(archive_entry_hardlink, __VA_ARGS__)
#define archive_entry_mtime(...) ARCHIVE_CALL(archive_entry_mtime, __VA_ARGS__)
#define archive_entry_mtime_nsec(...) ARCHIVE_CALL(archive_entry_mtime_nsec, __VA_ARGS__)
#define archive_entry_pathname(...) ARCHIVE_CALL(archive_entry_pathname, __VA_ARGS__)
#define archive_entry_perm(...) ARCHIVE_CALL(archive_entry_perm, __VA_ARGS__)
#define archive_entry_rdevmajor(...) ARCHIVE_CALL(archive_entry_rdevmajor, __VA_ARGS__)
#define archive_entry_rdevminor(...) ARCHIVE_CALL(archive_entry_rdevminor, __VA_ARGS__)
#define archive_entry_size(...) ARCHIVE_CALL(archive_entry_size, __VA_ARGS__)
#define archive_entry_sparse_count(...) ARCHIVE_CALL(archive_entry_sparse_count, __VA_ARGS__)
#define archive_entry_symlink(...) ARCHIVE_CALL(archive_entry_symlink, __VA_ARGS__)
#define archive_entry_uid(...) ARCHIVE_CALL(archive_entry_uid, __VA_ARGS__)
#define archive_entry_xattr_next(...) ARCHIVE_CALL(archive_entry_xattr_next, __VA_ARGS__)
#define archive_entry_xattr_reset(...) ARCHIVE_CALL(archive_entry_xattr_reset, __VA_ARGS__)
#define archive_error_string(...) ARCHIVE_CALL(archive_error_string, __VA_ARGS__)
#define archive_filter_bytes(...) ARCHIVE_CALL(archive_filter_bytes, __VA_ARGS__)
#define archive_filter_count(...) ARCHIVE_CALL(archive_filter_count, __VA_ARGS__)
#define archive_read_data(...) ARCHIVE_CALL(archive_read_data, __VA_ARGS__)
#define archive_read_data_block(...) ARCHIVE_CALL(archive_read_data_block, __VA_ARGS__)
#define archive_read_data_skip(...) ARCHIVE_CALL(archive_read_data_skip, __VA_ARGS__)
#define archive_read_free(...) ARCHIVE_CALL(archive_read_free, __VA_ARGS__)
#define archive_read_new(...) ARCHIVE_CALL(archive_read_new, __VA_ARGS__)
#define archive_read_next_header(...) ARCHIVE_CALL(archive_read_next_header, __VA_ARGS__)
#define archive_read_open(...) ARCHIVE_CALL(archive_read_open, __VA_ARGS__)
#define archive_read_open2(...) ARCHIVE_CALL(archive_read_open2, __VA_ARGS__)
#define archive_read_support_filter_bzip2(...) ARCHIVE_CALL(archive_read_support_filter_bzip2, __VA_ARGS__)
#define archive_read_support_format_empty(...) ARCHIVE_CALL(archive_read_support_format_empty, __VA_ARGS__)
#define archive_read_support_format_raw(...) ARCHIVE_CALL(archive_read_support_format_raw, __VA_ARGS__)
#define archive_read_support_format_tar(...) ARCHIVE_CALL(archive_read_support_format_tar, __VA_ARGS__)
#define archive_set_error(...) ARCHIVE_CALL(archive_set_error, __VA_ARGS__)
