/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Small ELF files, as far as a loader's search for libraries sees them: headers, a dynamic section, notes,
 * strings. */

#include <elf.h>

#include "basic/basic.h"

typedef struct ElfImport {
        const char *library, *version, *symbol;
} ElfImport;

typedef struct ElfPlan {
        bool narrow;      /* 32 bit */
        uint16_t machine; /* 0: x86-64 */
        uint16_t type;    /* 0: ET_DYN */
        const char *interpreter, *runpath, *rpath;
        const char *needed[400];
        const char *notes[8]; /* JSON of .note.dlopen */
        bool no_default_directories;
        ElfImport imports[16];
        bool hashed;  /* the symbols are in the hash table, as those of programs may be */
        bool no_hash; /* there is no such table */
} ElfPlan;

#define ELF_BUILDER_SIZE_MAX 65536U

typedef struct ElfImage {
        char bytes[ELF_BUILDER_SIZE_MAX];
        size_t size;
} ElfImage;

/* What stands in the file behind the headers, and where. */
typedef struct ElfPlaces {
        uint64_t interpreter, interpreter_size, notes, notes_size, dynamic, dynamic_size, strings,
                        strings_size, hash, symbols, numbers, needs;
} ElfPlaces;

/* Where the strings of an import are among the others. */
typedef struct ElfImportNames {
        uint32_t library, version, symbol;
} ElfImportNames;

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
        /* A note of another type, of a size that needs padding. */
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

static inline size_t elf_count_imports(const ElfPlan *p)
{
        size_t n = 0;

        while (n < ELEMENTSOF(p->imports) && p->imports[n].symbol)
                n++;
        return n;
}

static inline uint32_t elf_put_string(ElfImage *f, const ElfPlaces *at, const char *s)
{
        return (uint32_t) (elf_put(f, s, strlen(s) + 1) - at->strings);
}

/* One bucket, and one word for the filter. The first symbol is the null symbol. */
static inline void elf_put_hash(ElfImage *f, const ElfPlan *p, size_t n)
{
        uint32_t head[] = {1, p->hashed ? 1 : (uint32_t) n + 1, 1, 0}, bucket = p->hashed && n > 0;

        elf_put(f, head, sizeof(head));
        elf_put(f, &(uint64_t){0}, p->narrow ? 4 : 8);
        elf_put(f, &bucket, sizeof(bucket));
        for (size_t i = 0; p->hashed && i < n; i++)
                elf_put(f, &(uint32_t){i + 1 == n ? 0x11 : 0x10}, sizeof(uint32_t));
}

/* Each import has a version of its own, from number 2 on. */
static inline void elf_put_imports(ElfImage *f, const ElfPlan *p, const ElfImportNames *names, ElfPlaces *at)
{
        size_t n = elf_count_imports(p), symbol_size = p->narrow ? sizeof(Elf32_Sym) : sizeof(Elf64_Sym);

        elf_align(f, 8);
        at->hash = f->size;
        elf_put_hash(f, p, n);
        elf_align(f, 8);
        at->symbols = f->size;
        for (size_t i = 0; i <= n; i++) {
                Elf64_Sym symbol = {.st_name = i > 0 ? names[i - 1].symbol : 0};
                elf_put(f, &symbol, symbol_size);
        }
        at->numbers = f->size;
        for (size_t i = 0; i <= n; i++)
                elf_put(f, &(uint16_t){(uint16_t) (i > 0 ? i + 1 : 0)}, sizeof(uint16_t));
        elf_align(f, 8);
        at->needs = f->size;
        for (size_t i = 0; i < n; i++) {
                Elf64_Verneed need = {.vn_version = 1,
                                      .vn_cnt = 1,
                                      .vn_file = names[i].library,
                                      .vn_aux = sizeof(need),
                                      .vn_next = sizeof(need) + sizeof(Elf64_Vernaux)};
                Elf64_Vernaux version = {.vna_other = (Elf64_Half) (i + 2), .vna_name = names[i].version};
                elf_put(f, &need, sizeof(need));
                elf_put(f, &version, sizeof(version));
        }
}

static inline void elf_put_import_entries(ElfImage *f, const ElfPlan *p, const ElfPlaces *at)
{
        if (elf_count_imports(p) == 0)
                return;
        if (!p->no_hash)
                elf_put_dynamic(f, p, DT_GNU_HASH, 0x1000 + at->hash);
        elf_put_dynamic(f, p, DT_SYMTAB, 0x1000 + at->symbols);
        elf_put_dynamic(f, p, DT_VERSYM, 0x1000 + at->numbers);
        elf_put_dynamic(f, p, DT_VERNEED, 0x1000 + at->needs);
        elf_put_dynamic(f, p, DT_VERNEEDNUM, elf_count_imports(p));
}

static inline void elf_put_body(ElfImage *f, const ElfPlan *p, ElfPlaces *at)
{
        uint64_t names[ELEMENTSOF(p->needed)], runpath = 0, rpath = 0;
        ElfImportNames imports[ELEMENTSOF(p->imports)];

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
        for (size_t i = 0; i < elf_count_imports(p); i++) {
                imports[i].library = elf_put_string(f, at, p->imports[i].library);
                imports[i].version = elf_put_string(f, at, p->imports[i].version);
                imports[i].symbol = elf_put_string(f, at, p->imports[i].symbol);
        }
        at->strings_size = f->size - at->strings;
        if (elf_count_imports(p) > 0)
                elf_put_imports(f, p, imports, at);
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
        elf_put_import_entries(f, p, at);
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
