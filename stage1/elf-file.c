/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Reads which libraries a program needs from its ELF headers.
 *
 * Only the headers are read, through a small window, since this runs for every library at every start of a
 * pod. The program headers lead to the dynamic section, that to the string table, and that to the names.
 * Both classes are read into the same structures; the byte order must be the machine's, as other programs
 * cannot run here. Every offset and every count in the file is checked before it is used: a damaged file is
 * refused, and a malicious one takes no more time than a large valid one. Nothing is mapped, so that a file
 * that shrinks while it is read causes an error and not SIGBUS.
 */

#include <elf.h>
#include <sys/stat.h>

#include "stage1/elf-internal.h"

#define DYNAMIC_MAX 1024U
#define NEEDED_MAX 256U
#define PATH_LENGTH_MAX 4095U

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define NATIVE_DATA ELFDATA2LSB
#else
#define NATIVE_DATA ELFDATA2MSB
#endif

/* Location of the string table, and the offsets of the strings that are used here. */
typedef struct Dynamic {
        uint64_t strings_address, strings_size;
        uint64_t needed[NEEDED_MAX];
        size_t n_needed;
        uint64_t runpath, rpath;
        bool has_runpath, has_rpath, no_default_directories;
} Dynamic;

void elf_file_done(ElfFile *f)
{
        free(f->interpreter);
        strv_free(f->needed);
        free(f->runpath);
        free(f->rpath);
        for (size_t i = 0; i < f->n_dlopen_notes; i++)
                dlopen_note_done(&f->dlopen_notes[i]);
        free(f->dlopen_notes);
        *f = (ElfFile){};
}

/* --- Bytes --------------------------------------------------------------------------------------------- */

static int fill_window(ElfReader *r, uint64_t offset)
{
        ssize_t n = pread(r->fd, r->window, sizeof(r->window), (off_t) offset);

        r->window_size = 0;
        if (n < 0)
                return -errno;
        r->window_offset = offset;
        r->window_size = (size_t) n;
        return 0;
}

int elf_peek(ElfReader *r, uint64_t offset, size_t n, const char **ret)
{
        if (n > sizeof(r->window) || offset > r->size || n > r->size - offset)
                return -EBADMSG;
        if (offset < r->window_offset || offset - r->window_offset > r->window_size ||
            n > r->window_size - (size_t) (offset - r->window_offset)) {
                int k = fill_window(r, offset);
                if (k < 0)
                        return k;
                if (n > r->window_size)
                        return -EBADMSG; /* the file was truncated meanwhile */
        }
        *ret = r->window + (offset - r->window_offset);
        return 0;
}

int elf_read_struct(ElfReader *r, uint64_t offset, void *p, size_t n)
{
        const char *bytes;
        int k = elf_peek(r, offset, n, &bytes);

        if (k >= 0)
                memcpy(p, bytes, n);
        return k;
}

int elf_read_string(ElfReader *r, uint64_t offset, uint64_t end, size_t max, char **ret)
{
        _cleanup_text_ Text t = {};

        end = MIN(end, r->size);
        for (;;) {
                const char *p;
                if (offset >= end)
                        return -EBADMSG;
                size_t n = (size_t) MIN(end - offset, (uint64_t) 256);
                int k = elf_peek(r, offset, n, &p);
                if (k < 0)
                        return k;
                size_t length = strnlen(p, n);
                if (length > max - t.size)
                        return -E2BIG;
                text_add_bytes(&t, p, length);
                if (length < n)
                        return text_take(&t, ret, NULL);
                offset += n;
        }
}

/* --- Headers ------------------------------------------------------------------------------------------- */

static int read_segment(ElfReader *r, uint64_t offset, ElfSegment *ret)
{
        Elf64_Phdr wide;
        Elf32_Phdr narrow;
        int k;

        if (r->wide) {
                k = elf_read_struct(r, offset, &wide, sizeof(wide));
                if (k >= 0)
                        *ret = (ElfSegment){wide.p_type, wide.p_offset, wide.p_vaddr, wide.p_filesz,
                                            wide.p_align};
        } else {
                k = elf_read_struct(r, offset, &narrow, sizeof(narrow));
                if (k >= 0)
                        *ret = (ElfSegment){narrow.p_type, narrow.p_offset, narrow.p_vaddr, narrow.p_filesz,
                                            narrow.p_align};
        }
        return k;
}

static int read_segments(ElfReader *r, uint64_t offset, size_t n, size_t entry_size)
{
        if (entry_size != (r->wide ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr)))
                return -EBADMSG;
        if (n > SEGMENTS_MAX)
                return -E2BIG;
        if (offset > r->size)
                return -EBADMSG;
        for (size_t i = 0; i < n; i++) {
                ElfSegment s;
                int k = read_segment(r, offset + i * entry_size, &s);
                if (k < 0)
                        return k;
                if (s.offset > r->size || s.size > r->size - s.offset)
                        return -EBADMSG;
                r->segments[r->n_segments++] = s;
        }
        return 0;
}

static int read_header(ElfReader *r, ElfFile *f)
{
        unsigned char id[EI_NIDENT];
        Elf64_Ehdr wide;
        Elf32_Ehdr narrow;
        uint16_t type;

        if (r->size < sizeof(narrow) || elf_read_struct(r, 0, id, sizeof(id)) < 0 ||
            memcmp(id, ELFMAG, SELFMAG) != 0 || id[EI_DATA] != NATIVE_DATA ||
            (id[EI_CLASS] != ELFCLASS64 && id[EI_CLASS] != ELFCLASS32))
                return -ENOEXEC;
        f->elf_class = id[EI_CLASS];
        r->wide = f->elf_class == ELFCLASS64;
        int k = r->wide ? elf_read_struct(r, 0, &wide, sizeof(wide))
                        : elf_read_struct(r, 0, &narrow, sizeof(narrow));
        if (k < 0)
                return k;
        type = r->wide ? wide.e_type : narrow.e_type;
        f->machine = r->wide ? wide.e_machine : narrow.e_machine;
        if (type != ET_EXEC && type != ET_DYN)
                return -ENOEXEC;
        return r->wide ? read_segments(r, wide.e_phoff, wide.e_phnum, wide.e_phentsize)
                       : read_segments(r, narrow.e_phoff, narrow.e_phnum, narrow.e_phentsize);
}

const ElfSegment *elf_find_segment(const ElfReader *r, uint32_t type)
{
        for (size_t i = 0; i < r->n_segments; i++)
                if (r->segments[i].type == type)
                        return &r->segments[i];
        return NULL;
}

int elf_find_address(const ElfReader *r, uint64_t address, uint64_t *ret_offset, uint64_t *ret_end)
{
        for (size_t i = 0; i < r->n_segments; i++) {
                const ElfSegment *s = &r->segments[i];
                if (s->type == PT_LOAD && address >= s->address && address - s->address < s->size) {
                        *ret_offset = s->offset + (address - s->address);
                        *ret_end = s->offset + s->size;
                        return 0;
                }
        }
        return -EBADMSG;
}

/* --- The dynamic section ------------------------------------------------------------------------------- */

static int take_entry(int64_t tag, uint64_t value, void *userdata)
{
        Dynamic *d = userdata;

        switch (tag) {
        case DT_NEEDED:
                if (d->n_needed >= NEEDED_MAX)
                        return -E2BIG;
                d->needed[d->n_needed++] = value;
                break;
        case DT_STRTAB:
                d->strings_address = value;
                break;
        case DT_STRSZ:
                d->strings_size = value;
                break;
        case DT_RUNPATH:
                d->runpath = value;
                d->has_runpath = true;
                break;
        case DT_RPATH:
                d->rpath = value;
                d->has_rpath = true;
                break;
        case DT_FLAGS_1:
                d->no_default_directories = value & DF_1_NODEFLIB;
                break;
        }
        return 0;
}

static int read_entry(ElfReader *r, uint64_t offset, int64_t *ret_tag, uint64_t *ret_value)
{
        Elf64_Dyn wide;
        Elf32_Dyn narrow;
        int k = r->wide ? elf_read_struct(r, offset, &wide, sizeof(wide))
                        : elf_read_struct(r, offset, &narrow, sizeof(narrow));

        if (k < 0)
                return k;
        *ret_tag = r->wide ? wide.d_tag : narrow.d_tag;
        *ret_value = r->wide ? wide.d_un.d_val : narrow.d_un.d_val;
        return 0;
}

int elf_read_dynamic(ElfReader *r, int (*take)(int64_t tag, uint64_t value, void *userdata), void *userdata)
{
        const ElfSegment *s = elf_find_segment(r, PT_DYNAMIC);
        size_t entry_size = r->wide ? sizeof(Elf64_Dyn) : sizeof(Elf32_Dyn);
        uint64_t n = s ? s->size / entry_size : 0;

        for (uint64_t i = 0; i < n; i++) {
                int64_t tag;
                uint64_t value;
                if (i >= DYNAMIC_MAX)
                        return -E2BIG;
                int k = read_entry(r, s->offset + i * entry_size, &tag, &value);
                if (k < 0)
                        return k;
                if (tag == DT_NULL)
                        break;
                k = take(tag, value, userdata);
                if (k < 0)
                        return k;
        }
        return 0;
}

/* String tables of large libraries are large, but the names that are needed are adjacent. */
static int read_dynamic_strings(ElfReader *r, const Dynamic *d, ElfFile *f)
{
        uint64_t start, end;

        if (d->n_needed == 0 && !d->has_runpath && !d->has_rpath)
                return 0;
        int k = elf_find_address(r, d->strings_address, &start, &end);
        if (k < 0)
                return k;
        uint64_t room = MIN(end - start, d->strings_size);
        for (size_t i = 0; i < d->n_needed; i++) {
                char *name;
                if (d->needed[i] >= room)
                        return -EBADMSG;
                k = elf_read_string(r, start + d->needed[i], start + room, NAME_LENGTH_MAX, &name);
                if (k >= 0)
                        k = strv_consume(&f->needed, name);
                if (k < 0)
                        return k;
        }
        if ((d->has_runpath && d->runpath >= room) || (d->has_rpath && d->rpath >= room))
                return -EBADMSG;
        if (d->has_runpath)
                k = elf_read_string(r, start + d->runpath, start + room, PATH_LENGTH_MAX, &f->runpath);
        if (k >= 0 && d->has_rpath)
                k = elf_read_string(r, start + d->rpath, start + room, PATH_LENGTH_MAX, &f->rpath);
        return k;
}

static int read_dynamic(ElfReader *r, ElfFile *f)
{
        Dynamic d = {};

        int k = elf_read_dynamic(r, take_entry, &d);
        if (k < 0)
                return k;
        f->no_default_directories = d.no_default_directories;
        return read_dynamic_strings(r, &d, f);
}

static int read_interpreter(ElfReader *r, ElfFile *f)
{
        const ElfSegment *s = elf_find_segment(r, PT_INTERP);

        return s ? elf_read_string(r, s->offset, s->offset + s->size, PATH_LENGTH_MAX, &f->interpreter) : 0;
}

int elf_open(ElfReader *r, int fd, ElfFile *f)
{
        struct stat st;

        *r = (ElfReader){.fd = fd};
        if (fstat(fd, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode))
                return -ENOEXEC;
        r->size = (uint64_t) st.st_size;
        return read_header(r, f);
}

int elf_read(int fd, ElfFile *ret)
{
        _cleanup_elf_file_ ElfFile f = {};
        ElfReader r;

        int k = elf_open(&r, fd, &f);
        if (k >= 0)
                k = read_interpreter(&r, &f);
        if (k >= 0)
                k = elf_read_notes(&r, &f);
        if (k >= 0)
                k = read_dynamic(&r, &f);
        if (k < 0)
                return k;
        *ret = f;
        f = (ElfFile){};
        return 0;
}
