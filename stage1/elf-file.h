/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What a dynamically linked program or library says it needs: the part of an ELF file that its loader reads
 * first. */

#include "basic/basic.h"

/* A library that the file opens at run time if it is there (.note.dlopen): any one of these names will do,
 * the best first. */
typedef struct ElfWish {
        char *feature; /* what it is for, in one word; "" if the note does not say */
        char **sonames;
} ElfWish;

typedef struct ElfFile {
        unsigned elf_class; /* ELFCLASS32 or ELFCLASS64 */
        uint16_t machine;
        char *interpreter; /* the loader; NULL for libraries */
        char **needed;
        char *runpath, *rpath; /* lists of directories as they stand in the file, or NULL */
        bool no_default_directories;
        ElfWish *wishes;
        size_t n_wishes, wishes_allocated;
} ElfFile;

void elf_file_done(ElfFile *f);
#define _cleanup_elf_file_ _cleanup_(elf_file_done)

/* Reads the headers of the regular file FD, never all of it. -ENOEXEC: no ELF program or library, or of the
 * other byte order; -EBADMSG: damaged; -E2BIG: more of something than any real file has. */
int elf_read(int fd, ElfFile *ret);
