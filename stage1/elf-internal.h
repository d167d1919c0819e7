/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Shared by elf-file.c, elf-imports.c and elf-notes.c. */

#include "stage1/elf-file.h"

#define WINDOW_SIZE 2048U
#define SEGMENTS_MAX 64U
#define NAME_LENGTH_MAX 255U /* of a library */

/* A program header of either class. */
typedef struct ElfSegment {
        uint32_t type;
        uint64_t offset, address, size, align;
} ElfSegment;

typedef struct ElfReader {
        int fd;
        uint64_t size;
        bool wide; /* 64 bit */
        ElfSegment segments[SEGMENTS_MAX];
        size_t n_segments;
        uint64_t window_offset;
        size_t window_size;
        char window[WINDOW_SIZE];
} ElfReader;

/* N bytes from OFFSET on, all of which must exist (-EBADMSG). *RET stays valid until the next call. */
int elf_peek(ElfReader *r, uint64_t offset, size_t n, const char **ret);
/* The same as a copy. */
int elf_read_struct(ElfReader *r, uint64_t offset, void *p, size_t n);

/* Reads the header and the program headers of the regular file FD into R and F. */
int elf_open(ElfReader *r, int fd, ElfFile *f);
const ElfSegment *elf_find_segment(const ElfReader *r, uint32_t type);
/* The file offset of the byte that is loaded at ADDRESS, and the end of its segment's data in the file. */
int elf_find_address(const ElfReader *r, uint64_t address, uint64_t *ret_offset, uint64_t *ret_end);
/* The string at OFFSET, which must end before END and have at most MAX bytes. */
int elf_read_string(ElfReader *r, uint64_t offset, uint64_t end, size_t max, char **ret);
/* Calls TAKE for each entry of the dynamic section, if there is one, until it fails. */
int elf_read_dynamic(ElfReader *r, int (*take)(int64_t tag, uint64_t value, void *userdata), void *userdata);

void dlopen_note_done(DlopenNote *w);
/* Adds the dlopen notes of the file to F->dlopen_notes. */
int elf_read_notes(ElfReader *r, ElfFile *f);
