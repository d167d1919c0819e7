/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The libraries that a program may open at run time: programs of systemd list them in notes, as JSON, and
 * work without those that do not exist. Parts of a note's JSON that do not parse are therefore ignored,
 * while any other defect makes the file invalid.
 */

#include <elf.h>

#include "schema/schema.h"
#include "stage1/elf-internal.h"

#define NOTES_MAX 1024U
#define DLOPEN_NOTES_MAX 256U
#define SONAMES_MAX 16U
#define DLOPEN_NOTE_SIZE_MAX WINDOW_SIZE

/* The owner and type of a note that lists libraries opened at run time. */
#define DLOPEN_NOTE_OWNER "FDO"
#define DLOPEN_NOTE_TYPE 0x407c0c0aU

void dlopen_note_done(DlopenNote *w)
{
        free(w->feature);
        strv_free(w->sonames);
        *w = (DlopenNote){};
}

static const char *json_text_member(json_object *o, const char *key)
{
        json_object *v;

        return json_object_object_get_ex(o, key, &v) && json_object_is_type(v, json_type_string)
                               ? json_object_get_string(v)
                               : "";
}

static int read_sonames(json_object *list, DlopenNote *w)
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

static int add_dlopen_note(ElfFile *f, json_object *o)
{
        DlopenNote w = {};
        json_object *list;

        if (!json_object_is_type(o, json_type_object) || !json_object_object_get_ex(o, "soname", &list) ||
            !json_object_is_type(list, json_type_array))
                return 0;
        if (GREEDY_REALLOC(f->dlopen_notes, f->wishes_allocated, f->n_dlopen_notes + 1) < 0)
                return -ENOMEM;
        w.feature = strdup(json_text_member(o, "feature"));
        int k = w.feature ? read_sonames(list, &w) : -ENOMEM;
        if (k < 0 || !w.sonames) {
                dlopen_note_done(&w);
                return k;
        }
        f->dlopen_notes[f->n_dlopen_notes++] = w;
        return 0;
}

/* A note describes optional libraries only, so parts that do not parse are ignored. */
static int read_dlopen_note(ElfFile *f, const char *text, size_t size)
{
        _cleanup_json_ json_object *list = NULL;

        int r = json_parse_strict(text, strnlen(text, size), &list, NULL, NULL);
        if (r == -ENOMEM)
                return r;
        if (r < 0 || !json_object_is_type(list, json_type_array))
                return 0;
        size_t n = json_object_array_length(list);
        for (size_t i = 0; i < n && f->n_dlopen_notes < DLOPEN_NOTES_MAX; i++) {
                int k = add_dlopen_note(f, json_object_array_get_idx(list, i));
                if (k < 0)
                        return k;
        }
        return 0;
}

static uint64_t align_up(uint64_t n, uint64_t align)
{
        return (n + align - 1) / align * align;
}

static bool is_dlopen_note(ElfReader *r, const Elf64_Nhdr *header, uint64_t name)
{
        char owner[sizeof(DLOPEN_NOTE_OWNER)];

        return header->n_type == DLOPEN_NOTE_TYPE && header->n_namesz == sizeof(owner) &&
               header->n_descsz <= DLOPEN_NOTE_SIZE_MAX &&
               elf_read_struct(r, name, owner, sizeof(owner)) >= 0 &&
               memcmp(owner, DLOPEN_NOTE_OWNER, sizeof(owner)) == 0;
}

/* Reads the note at *OFFSET and advances *OFFSET past it. The header is the same in both classes. */
static int read_note(ElfReader *r, uint64_t *offset, uint64_t end, uint64_t align, ElfFile *f)
{
        Elf64_Nhdr header;
        const char *p;

        int k = elf_read_struct(r, *offset, &header, sizeof(header));
        if (k < 0)
                return k;
        uint64_t name = *offset + sizeof(header), text_at = align_up(name + header.n_namesz, align);
        *offset = align_up(text_at + header.n_descsz, align);
        if (!is_dlopen_note(r, &header, name))
                return 0;
        if (text_at > end || header.n_descsz > end - text_at)
                return -EBADMSG;
        k = elf_peek(r, text_at, header.n_descsz, &p);
        return k < 0 ? k : read_dlopen_note(f, p, header.n_descsz);
}

int elf_read_notes(ElfReader *r, ElfFile *f)
{
        size_t n = 0;

        for (size_t i = 0; i < r->n_segments; i++) {
                const ElfSegment *s = &r->segments[i];
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
