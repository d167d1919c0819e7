/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The dependencies of a dynamically linked program or library: the part of an ELF file that its loader reads
 * first. */

#include "basic/basic.h"

/* A library that the file opens at run time if it exists (.note.dlopen): alternative names, in order of
 * preference. */
typedef struct DlopenNote {
        char *feature; /* the feature that it is for; "" if the note does not name one */
        char **sonames;
} DlopenNote;

typedef struct ElfFile {
        unsigned elf_class; /* ELFCLASS32 or ELFCLASS64 */
        uint16_t machine;
        char *interpreter; /* the dynamic loader; NULL for libraries */
        char **needed;
        char *runpath, *rpath; /* lists of directories as written in the file, or NULL */
        bool no_default_directories;
        DlopenNote *dlopen_notes;
        size_t n_dlopen_notes, wishes_allocated;
} ElfFile;

void elf_file_done(ElfFile *f);
#define _cleanup_elf_file_ _cleanup_(elf_file_done)

/* Reads the headers of the regular file FD, never all of it. -ENOEXEC: no ELF program or library, or of the
 * other byte order; -EBADMSG: damaged; -E2BIG: a limit is exceeded that no valid file reaches. */
int elf_read(int fd, ElfFile *ret);

/* elf-imports.c: the symbols that the file FD takes from LIBRARY (a name as in DT_NEEDED), each as "NAME@VERSION".
 * -ENODATA: this cannot be told, as they have no versions or the file has no hash table that says how many symbols
 * there are; otherwise errors as of elf_read(). */
int elf_read_imports(int fd, const char *library, char ***ret);
