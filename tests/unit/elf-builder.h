/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Small ELF files, as far as a loader's search for libraries sees them: headers, a dynamic section, notes,
 * strings. */

#include <elf.h>

#include "basic/basic.h"

typedef struct ElfPlan {
        bool narrow;      /* 32 bit */
        uint16_t machine; /* 0: x86-64 */
        uint16_t type;    /* 0: ET_DYN */
        const char *interpreter, *runpath, *rpath;
        const char *needed[400];
        const char *notes[8]; /* JSON of .note.dlopen */
        bool no_default_directories;
} ElfPlan;

#define ELF_BUILDER_SIZE_MAX 65536U

typedef struct ElfImage {
        char bytes[ELF_BUILDER_SIZE_MAX];
        size_t size;
} ElfImage;

/* What stands in the file behind the headers, and where. */
typedef struct ElfPlaces {
        uint64_t interpreter, interpreter_size, notes, notes_size, dynamic, dynamic_size, strings,
                        strings_size;
} ElfPlaces;

static inline uint64_t elf_put(ElfImage *f, const void *p, size_t n)
{
        uint64_t at = f->size;

        if (n > sizeof(f->bytes) - f->size)
                abort();
        memcpy(f->bytes + f->size, p, n);
        f->size += n;
        return at;
}

static inline void elf_align(ElfImage *f, size_t n)
{
        while (f->size % n != 0)
                f->bytes[f->size++] = 0;
}

static inline void elf_put_dynamic(ElfImage *f, const ElfPlan *p, int64_t tag, uint64_t value)
{
        Elf64_Dyn wide = {.d_tag = tag, .d_un.d_val = value};
        Elf32_Dyn narrow = {.d_tag = (Elf32_Sword) tag, .d_un.d_val = (Elf32_Word) value};

        elf_put(f, p->narrow ? (void *) &narrow : (void *) &wide, p->narrow ? sizeof(narrow) : sizeof(wide));
}

static inline void elf_put_notes(ElfImage *f, const ElfPlan *p, ElfPlaces *at)
{
        Elf64_Nhdr other = {.n_namesz = 4, .n_descsz = 5, .n_type = 3};

        elf_align(f, 4);
        at->notes = f->size;
        /* One that means something else, of a size that needs padding. */
        elf_put(f, &other, sizeof(other));
        elf_put(f, "GNU\0abcde", 9);
        for (size_t i = 0; i < ELEMENTSOF(p->notes) && p->notes[i]; i++) {
                Elf64_Nhdr h = {.n_namesz = 4,
                                .n_descsz = (Elf64_Word) strlen(p->notes[i]) + 1,
                                .n_type = 0x407c0c0a};
                elf_align(f, 4);
                elf_put(f, &h, sizeof(h));
                elf_put(f, "FDO", 4);
                elf_put(f, p->notes[i], h.n_descsz);
        }
        elf_align(f, 4);
        at->notes_size = f->size - at->notes;
}

static inline void elf_put_body(ElfImage *f, const ElfPlan *p, ElfPlaces *at)
{
        uint64_t names[ELEMENTSOF(p->needed)], runpath = 0, rpath = 0;

        if (p->interpreter) {
                at->interpreter = elf_put(f, p->interpreter, strlen(p->interpreter) + 1);
                at->interpreter_size = strlen(p->interpreter) + 1;
        }
        elf_put_notes(f, p, at);
        at->strings = elf_put(f, "", 1);
        for (size_t i = 0; i < ELEMENTSOF(p->needed) && p->needed[i]; i++)
                names[i] = elf_put(f, p->needed[i], strlen(p->needed[i]) + 1) - at->strings;
        if (p->runpath)
                runpath = elf_put(f, p->runpath, strlen(p->runpath) + 1) - at->strings;
        if (p->rpath)
                rpath = elf_put(f, p->rpath, strlen(p->rpath) + 1) - at->strings;
        at->strings_size = f->size - at->strings;
        elf_align(f, 8);
        at->dynamic = f->size;
        for (size_t i = 0; i < ELEMENTSOF(p->needed) && p->needed[i]; i++)
                elf_put_dynamic(f, p, DT_NEEDED, names[i]);
        if (p->runpath)
                elf_put_dynamic(f, p, DT_RUNPATH, runpath);
        if (p->rpath)
                elf_put_dynamic(f, p, DT_RPATH, rpath);
        if (p->no_default_directories)
                elf_put_dynamic(f, p, DT_FLAGS_1, DF_1_NODEFLIB);
        elf_put_dynamic(f, p, DT_STRTAB, 0x1000 + at->strings);
        elf_put_dynamic(f, p, DT_STRSZ, at->strings_size);
        elf_put_dynamic(f, p, DT_NULL, 0);
        at->dynamic_size = f->size - at->dynamic;
}

/* The file is one segment, loaded at 0x1000. */
static inline void elf_set_segment(ElfImage *f, const ElfPlan *p, size_t i, uint32_t type, uint64_t at,
                                   uint64_t size)
{
        Elf64_Phdr wide = {.p_type = type,
                           .p_offset = at,
                           .p_vaddr = 0x1000 + at,
                           .p_filesz = size,
                           .p_memsz = size,
                           .p_align = 4};
        Elf32_Phdr narrow = {
                        .p_type = type,
                        .p_offset = (Elf32_Off) at,
                        .p_vaddr = (Elf32_Addr) (0x1000 + at),
                        .p_filesz = (Elf32_Word) size,
                        .p_memsz = (Elf32_Word) size,
                        .p_align = 4,
        };

        if (p->narrow)
                memcpy(f->bytes + sizeof(Elf32_Ehdr) + i * sizeof(narrow), &narrow, sizeof(narrow));
        else
                memcpy(f->bytes + sizeof(Elf64_Ehdr) + i * sizeof(wide), &wide, sizeof(wide));
}

#define ELF_BUILDER_SEGMENTS 4U

static inline void elf_set_header(ElfImage *f, const ElfPlan *p)
{
        Elf64_Ehdr wide = {
                        .e_type = p->type ? p->type : ET_DYN,
                        .e_machine = p->machine ? p->machine : EM_X86_64,
                        .e_phoff = sizeof(Elf64_Ehdr),
                        .e_phentsize = sizeof(Elf64_Phdr),
                        .e_phnum = ELF_BUILDER_SEGMENTS,
        };
        Elf32_Ehdr narrow = {
                        .e_type = wide.e_type,
                        .e_machine = wide.e_machine,
                        .e_phoff = sizeof(Elf32_Ehdr),
                        .e_phentsize = sizeof(Elf32_Phdr),
                        .e_phnum = ELF_BUILDER_SEGMENTS,
        };

        if (p->narrow)
                memcpy(f->bytes, &narrow, sizeof(narrow));
        else
                memcpy(f->bytes, &wide, sizeof(wide));
        memcpy(f->bytes, ELFMAG, SELFMAG);
        f->bytes[EI_CLASS] = p->narrow ? ELFCLASS32 : ELFCLASS64;
        f->bytes[EI_DATA] = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;
}

static inline void elf_build(const ElfPlan *p, ElfImage *ret)
{
        ElfPlaces at = {};

        memset(ret->bytes, 0, sizeof(ret->bytes));
        ret->size = p->narrow ? sizeof(Elf32_Ehdr) + ELF_BUILDER_SEGMENTS * sizeof(Elf32_Phdr)
                              : sizeof(Elf64_Ehdr) + ELF_BUILDER_SEGMENTS * sizeof(Elf64_Phdr);
        elf_put_body(ret, p, &at);
        elf_set_header(ret, p);
        elf_set_segment(ret, p, 0, PT_LOAD, 0, ret->size);
        elf_set_segment(ret, p, 1, PT_DYNAMIC, at.dynamic, at.dynamic_size);
        elf_set_segment(ret, p, 2, PT_NOTE, at.notes, at.notes_size);
        elf_set_segment(ret, p, 3, p->interpreter ? PT_INTERP : PT_NULL, at.interpreter,
                        at.interpreter_size);
}
