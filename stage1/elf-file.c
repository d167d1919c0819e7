/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Reading what a program needs from its ELF headers.
 *
 * Only the headers are read, through a small window, since this runs for every library at every start of a
 * pod. The program headers lead to the dynamic section, that to the string table, and that to the names.
 * Both classes are read into the same structures; the byte order must be the machine's, as nothing else
 * could run here. Every offset and every count in the file is checked before it is used: a damaged file is
 * refused, and a hostile one costs no more than a large real one. Nothing is mapped, so that a file that
 * shrinks while we look at it is an error and not a fault.
 */

#include <elf.h>
#include <sys/stat.h>

#include "schema/schema.h"
#include "stage1/elf-file.h"

#define WINDOW_SIZE 2048U
#define SEGMENTS_MAX 64U
#define DYNAMIC_MAX 1024U
#define NEEDED_MAX 256U
#define NAME_LENGTH_MAX 255U
#define PATH_LENGTH_MAX 4095U
#define NOTES_MAX 1024U
#define WISHES_MAX 256U
#define SONAMES_MAX 16U
#define WISH_SIZE_MAX WINDOW_SIZE

/* The owner and type of a note that names what may be opened at run time. */
#define WISH_OWNER "FDO"
#define WISH_TYPE 0x407c0c0aU

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define NATIVE_DATA ELFDATA2LSB
#else
#define NATIVE_DATA ELFDATA2MSB
#endif

/* A program header of either class. */
typedef struct Segment {
        uint32_t type;
        uint64_t offset, address, size, align;
} Segment;

typedef struct Reader {
        int fd;
        uint64_t size;
        bool wide; /* 64 bit */
        Segment segments[SEGMENTS_MAX];
        size_t n_segments;
        uint64_t window_offset;
        size_t window_size;
        char window[WINDOW_SIZE];
} Reader;

/* Where the strings are, and which of them say something to us. */
typedef struct Dynamic {
        uint64_t strings_address, strings_size;
        uint64_t needed[NEEDED_MAX];
        size_t n_needed;
        uint64_t runpath, rpath;
        bool has_runpath, has_rpath, no_default_directories;
} Dynamic;

static void elf_wish_done(ElfWish *w)
{
        free(w->feature);
        strv_free(w->sonames);
        *w = (ElfWish){};
}

void elf_file_done(ElfFile *f)
{
        free(f->interpreter);
        strv_free(f->needed);
        free(f->runpath);
        free(f->rpath);
        for (size_t i = 0; i < f->n_wishes; i++)
                elf_wish_done(&f->wishes[i]);
        free(f->wishes);
        *f = (ElfFile){};
}

/* --- Bytes --------------------------------------------------------------------------------------------- */

static int fill_window(Reader *r, uint64_t offset)
{
        ssize_t n = pread(r->fd, r->window, sizeof(r->window), (off_t) offset);

        r->window_size = 0;
        if (n < 0)
                return -errno;
        r->window_offset = offset;
        r->window_size = (size_t) n;
        return 0;
}

/* N bytes from OFFSET on, all of which must be there. P stays valid until the next call. */
static int peek(Reader *r, uint64_t offset, size_t n, const char **ret)
{
        if (n > sizeof(r->window) || offset > r->size || n > r->size - offset)
                return -EBADMSG;
        if (offset < r->window_offset || offset - r->window_offset > r->window_size ||
            n > r->window_size - (size_t) (offset - r->window_offset)) {
                int k = fill_window(r, offset);
                if (k < 0)
                        return k;
                if (n > r->window_size)
                        return -EBADMSG; /* it has shrunk */
        }
        *ret = r->window + (offset - r->window_offset);
        return 0;
}

static int read_struct(Reader *r, uint64_t offset, void *p, size_t n)
{
        const char *bytes;
        int k = peek(r, offset, n, &bytes);

        if (k >= 0)
                memcpy(p, bytes, n);
        return k;
}

/* The string at OFFSET, which must end before END and have at most MAX bytes. */
static int read_string(Reader *r, uint64_t offset, uint64_t end, size_t max, char **ret)
{
        _cleanup_text_ Text t = {};

        end = MIN(end, r->size);
        for (;;) {
                const char *p;
                if (offset >= end)
                        return -EBADMSG;
                size_t n = (size_t) MIN(end - offset, (uint64_t) 256);
                int k = peek(r, offset, n, &p);
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

static int read_segment(Reader *r, uint64_t offset, Segment *ret)
{
        Elf64_Phdr wide;
        Elf32_Phdr narrow;
        int k;

        if (r->wide) {
                k = read_struct(r, offset, &wide, sizeof(wide));
                if (k >= 0)
                        *ret = (Segment){wide.p_type, wide.p_offset, wide.p_vaddr, wide.p_filesz,
                                         wide.p_align};
        } else {
                k = read_struct(r, offset, &narrow, sizeof(narrow));
                if (k >= 0)
                        *ret = (Segment){narrow.p_type, narrow.p_offset, narrow.p_vaddr, narrow.p_filesz,
                                         narrow.p_align};
        }
        return k;
}

static int read_segments(Reader *r, uint64_t offset, size_t n, size_t entry_size)
{
        if (entry_size != (r->wide ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr)))
                return -EBADMSG;
        if (n > SEGMENTS_MAX)
                return -E2BIG;
        if (offset > r->size)
                return -EBADMSG;
        for (size_t i = 0; i < n; i++) {
                Segment s;
                int k = read_segment(r, offset + i * entry_size, &s);
                if (k < 0)
                        return k;
                if (s.offset > r->size || s.size > r->size - s.offset)
                        return -EBADMSG;
                r->segments[r->n_segments++] = s;
        }
        return 0;
}

static int read_header(Reader *r, ElfFile *f)
{
        unsigned char id[EI_NIDENT];
        Elf64_Ehdr wide;
        Elf32_Ehdr narrow;
        uint16_t type;

        if (r->size < sizeof(narrow) || read_struct(r, 0, id, sizeof(id)) < 0 ||
            memcmp(id, ELFMAG, SELFMAG) != 0 || id[EI_DATA] != NATIVE_DATA ||
            (id[EI_CLASS] != ELFCLASS64 && id[EI_CLASS] != ELFCLASS32))
                return -ENOEXEC;
        f->elf_class = id[EI_CLASS];
        r->wide = f->elf_class == ELFCLASS64;
        int k = r->wide ? read_struct(r, 0, &wide, sizeof(wide))
                        : read_struct(r, 0, &narrow, sizeof(narrow));
        if (k < 0)
                return k;
        type = r->wide ? wide.e_type : narrow.e_type;
        f->machine = r->wide ? wide.e_machine : narrow.e_machine;
        if (type != ET_EXEC && type != ET_DYN)
                return -ENOEXEC;
        return r->wide ? read_segments(r, wide.e_phoff, wide.e_phnum, wide.e_phentsize)
                       : read_segments(r, narrow.e_phoff, narrow.e_phnum, narrow.e_phentsize);
}

static const Segment *find_segment(const Reader *r, uint32_t type)
{
        for (size_t i = 0; i < r->n_segments; i++)
                if (r->segments[i].type == type)
                        return &r->segments[i];
        return NULL;
}

/* Where in the file the byte is that will be at ADDRESS, and where the bytes that follow it end. */
static int find_address(const Reader *r, uint64_t address, uint64_t *ret_offset, uint64_t *ret_end)
{
        for (size_t i = 0; i < r->n_segments; i++) {
                const Segment *s = &r->segments[i];
                if (s->type == PT_LOAD && address >= s->address && address - s->address < s->size) {
                        *ret_offset = s->offset + (address - s->address);
                        *ret_end = s->offset + s->size;
                        return 0;
                }
        }
        return -EBADMSG;
}

/* --- The dynamic section ------------------------------------------------------------------------------- */

static int take_entry(Dynamic *d, int64_t tag, uint64_t value)
{
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

static int read_entry(Reader *r, uint64_t offset, int64_t *ret_tag, uint64_t *ret_value)
{
        Elf64_Dyn wide;
        Elf32_Dyn narrow;
        int k = r->wide ? read_struct(r, offset, &wide, sizeof(wide))
                        : read_struct(r, offset, &narrow, sizeof(narrow));

        if (k < 0)
                return k;
        *ret_tag = r->wide ? wide.d_tag : narrow.d_tag;
        *ret_value = r->wide ? wide.d_un.d_val : narrow.d_un.d_val;
        return 0;
}

static int read_entries(Reader *r, const Segment *s, Dynamic *d)
{
        size_t entry_size = r->wide ? sizeof(Elf64_Dyn) : sizeof(Elf32_Dyn);
        uint64_t n = s->size / entry_size;

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
                k = take_entry(d, tag, value);
                if (k < 0)
                        return k;
        }
        return 0;
}

/* The string tables of large libraries are large, but the names we look for stand beside each other. */
static int read_dynamic_strings(Reader *r, const Dynamic *d, ElfFile *f)
{
        uint64_t start, end;

        if (d->n_needed == 0 && !d->has_runpath && !d->has_rpath)
                return 0;
        int k = find_address(r, d->strings_address, &start, &end);
        if (k < 0)
                return k;
        uint64_t room = MIN(end - start, d->strings_size);
        for (size_t i = 0; i < d->n_needed; i++) {
                char *name;
                if (d->needed[i] >= room)
                        return -EBADMSG;
                k = read_string(r, start + d->needed[i], start + room, NAME_LENGTH_MAX, &name);
                if (k >= 0)
                        k = strv_consume(&f->needed, name);
                if (k < 0)
                        return k;
        }
        if ((d->has_runpath && d->runpath >= room) || (d->has_rpath && d->rpath >= room))
                return -EBADMSG;
        if (d->has_runpath)
                k = read_string(r, start + d->runpath, start + room, PATH_LENGTH_MAX, &f->runpath);
        if (k >= 0 && d->has_rpath)
                k = read_string(r, start + d->rpath, start + room, PATH_LENGTH_MAX, &f->rpath);
        return k;
}

static int read_dynamic(Reader *r, ElfFile *f)
{
        const Segment *s = find_segment(r, PT_DYNAMIC);
        Dynamic d = {};

        if (!s)
                return 0;
        int k = read_entries(r, s, &d);
        if (k < 0)
                return k;
        f->no_default_directories = d.no_default_directories;
        return read_dynamic_strings(r, &d, f);
}

static int read_interpreter(Reader *r, ElfFile *f)
{
        const Segment *s = find_segment(r, PT_INTERP);

        return s ? read_string(r, s->offset, s->offset + s->size, PATH_LENGTH_MAX, &f->interpreter) : 0;
}

/* --- Notes --------------------------------------------------------------------------------------------- */

static const char *json_text_member(json_object *o, const char *key)
{
        json_object *v;

        return json_object_object_get_ex(o, key, &v) && json_object_is_type(v, json_type_string)
                               ? json_object_get_string(v)
                               : "";
}

static int read_sonames(json_object *list, ElfWish *w)
{
        size_t n = MIN(json_object_array_length(list), (size_t) SONAMES_MAX);

        for (size_t i = 0; i < n; i++) {
                json_object *item = json_object_array_get_idx(list, i);
                const char *name = json_object_is_type(item, json_type_string) ? json_object_get_string(item)
                                                                               : "";
                if (!name[0] || strlen(name) > NAME_LENGTH_MAX || strchr(name, '/'))
                        continue;
                int k = strv_extend(&w->sonames, name);
                if (k < 0)
                        return k;
        }
        return 0;
}

static int add_wish(ElfFile *f, json_object *o)
{
        ElfWish w = {};
        json_object *list;

        if (!json_object_is_type(o, json_type_object) || !json_object_object_get_ex(o, "soname", &list) ||
            !json_object_is_type(list, json_type_array))
                return 0;
        if (GREEDY_REALLOC(f->wishes, f->wishes_allocated, f->n_wishes + 1) < 0)
                return -ENOMEM;
        w.feature = strdup(json_text_member(o, "feature"));
        int k = w.feature ? read_sonames(list, &w) : -ENOMEM;
        if (k < 0 || !w.sonames) {
                elf_wish_done(&w);
                return k;
        }
        f->wishes[f->n_wishes++] = w;
        return 0;
}

/* What the file can do without is described here, so what cannot be understood of it is passed over. */
static int read_wish(ElfFile *f, const char *text, size_t size)
{
        _cleanup_json_ json_object *list = NULL;

        if (json_parse_strict(text, strnlen(text, size), &list, NULL, NULL) < 0 ||
            !json_object_is_type(list, json_type_array))
                return 0;
        size_t n = json_object_array_length(list);
        for (size_t i = 0; i < n && f->n_wishes < WISHES_MAX; i++) {
                int k = add_wish(f, json_object_array_get_idx(list, i));
                if (k < 0)
                        return k;
        }
        return 0;
}

static uint64_t align_up(uint64_t n, uint64_t align)
{
        return (n + align - 1) / align * align;
}

static bool is_wish(Reader *r, const Elf64_Nhdr *header, uint64_t name)
{
        char owner[sizeof(WISH_OWNER)];

        return header->n_type == WISH_TYPE && header->n_namesz == sizeof(owner) &&
               header->n_descsz <= WISH_SIZE_MAX && read_struct(r, name, owner, sizeof(owner)) >= 0 &&
               memcmp(owner, WISH_OWNER, sizeof(owner)) == 0;
}

/* The note at *OFFSET, which moves behind it. The header is the same in both classes. */
static int read_note(Reader *r, uint64_t *offset, uint64_t end, uint64_t align, ElfFile *f)
{
        Elf64_Nhdr header;
        const char *p;

        int k = read_struct(r, *offset, &header, sizeof(header));
        if (k < 0)
                return k;
        uint64_t name = *offset + sizeof(header), text_at = align_up(name + header.n_namesz, align);
        *offset = align_up(text_at + header.n_descsz, align);
        if (!is_wish(r, &header, name))
                return 0;
        if (text_at > end || header.n_descsz > end - text_at)
                return -EBADMSG;
        k = peek(r, text_at, header.n_descsz, &p);
        return k < 0 ? k : read_wish(f, p, header.n_descsz);
}

static int read_notes(Reader *r, ElfFile *f)
{
        size_t n = 0;

        for (size_t i = 0; i < r->n_segments; i++) {
                const Segment *s = &r->segments[i];
                uint64_t offset = s->offset, end = s->offset + s->size;
                if (s->type != PT_NOTE)
                        continue;
                while (offset < end && end - offset >= sizeof(Elf64_Nhdr)) {
                        if (n++ >= NOTES_MAX)
                                return -E2BIG;
                        int k = read_note(r, &offset, end, s->align == 8 ? 8 : 4, f);
                        if (k < 0)
                                return k;
                }
        }
        return 0;
}

int elf_read(int fd, ElfFile *ret)
{
        _cleanup_elf_file_ ElfFile f = {};
        Reader r = {.fd = fd};
        struct stat st;

        if (fstat(fd, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode))
                return -ENOEXEC;
        r.size = (uint64_t) st.st_size;
        int k = read_header(&r, &f);
        if (k >= 0)
                k = read_interpreter(&r, &f);
        if (k >= 0)
                k = read_notes(&r, &f);
        if (k >= 0)
                k = read_dynamic(&r, &f);
        if (k < 0)
                return k;
        *ret = f;
        f = (ElfFile){};
        return 0;
}
