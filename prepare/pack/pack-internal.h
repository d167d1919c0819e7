/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Shared by the sources of prepare/pack/. */

#include "prepare/pack/pack.h"

/* What the writer works for; or NULL. */
const Operation *tar_writer_operation(const TarWriter *w);
const Operation *compressor_operation(const Compressor *c);

/* "Cannot pack 'PATH': …" */
int pack_error(Error *e, int code, const char *path, const char *format, ...) _printf_(4, 5);
int pack_error_errno(Error *e, int code, const char *path, const char *what);

/* The extended attributes of a file, by a descriptor of any kind. */
typedef struct PackXattrs {
        PackXattr *items; /* sorted by name */
        size_t n, allocated;
        char *acl_access, *acl_default;
} PackXattrs;

void pack_xattrs_done(PackXattrs *x);
int pack_xattrs_read(int fd, const char *path, PackXattrs *ret, Error *e);
int pack_xattrs_add(PackXattrs *x, const char *name, const void *value, size_t size, Error *e);
