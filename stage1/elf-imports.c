/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The symbols that a file imports from one library.
 *
 * An import says only by its version which library it is to come from: the table of needed versions
 * (DT_VERNEED) has the versions of each library, under numbers, and a second table (DT_VERSYM) the number of every
 * symbol. So the numbers of the library are collected first, and then the names of the symbols that have one of
 * them. How many symbols there are follows from the GNU hash table (DT_GNU_HASH), which ends with the last.
 */

#include <elf.h>

#include "stage1/elf-internal.h"

#define LIBRARIES_MAX 256U
#define VERSIONS_MAX 32U /* of one library */
#define SYMBOLS_MAX (1U << 20)
#define IMPORTS_MAX 4096U
#define SYMBOL_LENGTH_MAX 4095U
#define HASH_LAST 1U /* ends the chain of a bucket */

typedef struct Version {
        unsigned number;
        char *name;
} Version;

/* Addresses; 0: there is no such table. */
typedef struct Tables {
        uint64_t strings, strings_size, symbols, hash, numbers, needs, n_needs;
} Tables;

typedef struct Imports {
        ElfReader reader;
        Tables tables;
        uint64_t strings, strings_end; /* in the file */
        Version versions[VERSIONS_MAX];
        size_t n_versions;
} Imports;

static void imports_done(Imports *m)
{
        for (size_t i = 0; i < m->n_versions; i++)
                free(m->versions[i].name);
}

static int take_entry(int64_t tag, uint64_t value, void *userdata)
{
        Tables *t = userdata;
        const struct {
                int64_t tag;
                uint64_t *place;
        } places[] = {
                        {DT_STRTAB, &t->strings},     {DT_STRSZ, &t->strings_size}, {DT_SYMTAB, &t->symbols},
                        {DT_GNU_HASH, &t->hash},      {DT_VERSYM, &t->numbers},     {DT_VERNEED, &t->needs},
                        {DT_VERNEEDNUM, &t->n_needs},
        };

        for (size_t i = 0; i < ELEMENTSOF(places); i++)
                if (places[i].tag == tag)
                        *places[i].place = value;
        return 0;
}

static int open_tables(Imports *m)
{
        const Tables *t = &m->tables;

        int r = elf_read_dynamic(&m->reader, take_entry, &m->tables);
        if (r < 0)
                return r;
        if (!t->strings || !t->symbols || !t->hash || !t->numbers || !t->needs)
                return -ENODATA;
        r = elf_find_address(&m->reader, t->strings, &m->strings, &m->strings_end);
        if (r < 0)
                return r;
        m->strings_end = MIN(m->strings_end, m->strings + MIN(t->strings_size, m->reader.size));
        return 0;
}

static int read_name(Imports *m, uint64_t offset, char **ret)
{
        return elf_read_string(&m->reader, m->strings + offset, m->strings_end, SYMBOL_LENGTH_MAX, ret);
}

/* --- Versions ------------------------------------------------------------------------------------------ */

/* The structures are those of both classes. */
static int add_versions(Imports *m, uint64_t offset, unsigned n)
{
        for (unsigned i = 0; i < n; i++) {
                Elf64_Vernaux v;
                if (m->n_versions >= VERSIONS_MAX)
                        return -E2BIG;
                int r = elf_read_struct(&m->reader, offset, &v, sizeof(v));
                if (r < 0)
                        return r;
                Version *version = &m->versions[m->n_versions];
                r = read_name(m, v.vna_name, &version->name);
                if (r < 0)
                        return r;
                version->number = v.vna_other;
                m->n_versions++;
                offset += v.vna_next;
        }
        return 0;
}

static int read_versions(Imports *m, const char *library)
{
        uint64_t offset, end;

        if (m->tables.n_needs > LIBRARIES_MAX)
                return -E2BIG;
        int r = elf_find_address(&m->reader, m->tables.needs, &offset, &end);
        for (uint64_t i = 0; r >= 0 && i < m->tables.n_needs; i++) {
                _cleanup_free_ char *name = NULL;
                Elf64_Verneed need;
                r = elf_read_struct(&m->reader, offset, &need, sizeof(need));
                if (r < 0)
                        return r;
                r = read_name(m, need.vn_file, &name);
                if (r >= 0 && streq(name, library))
                        r = add_versions(m, offset + need.vn_aux, need.vn_cnt);
                offset += need.vn_next;
        }
        if (r < 0)
                return r;
        return m->n_versions > 0 ? 0 : -ENODATA;
}

/* --- Symbols ------------------------------------------------------------------------------------------- */

static int read_word(Imports *m, uint64_t offset, uint32_t *ret)
{
        return elf_read_struct(&m->reader, offset, ret, sizeof(*ret));
}

/* The symbol that LAST is the first of in its bucket is in the chain that ends with the last symbol of all. */
static int follow_last_chain(Imports *m, uint64_t chains, uint32_t first_hashed, uint32_t last,
                             uint32_t *ret)
{
        uint32_t hash = 0;

        if (last < first_hashed)
                return -EBADMSG;
        for (; !(hash & HASH_LAST); last++) {
                if (last >= SYMBOLS_MAX)
                        return -E2BIG;
                int r = read_word(m, chains + (uint64_t) (last - first_hashed) * sizeof(hash), &hash);
                if (r < 0)
                        return r;
        }
        *ret = last;
        return 0;
}

/* The table: four words, a bloom filter, the first symbol of each bucket, a word for each symbol. */
static int count_symbols(Imports *m, uint32_t *ret)
{
        struct {
                uint32_t n_buckets, first_hashed, n_filter, shift;
        } head;
        uint64_t offset, end;
        uint32_t last = 0;

        int r = elf_find_address(&m->reader, m->tables.hash, &offset, &end);
        if (r >= 0)
                r = elf_read_struct(&m->reader, offset, &head, sizeof(head));
        if (r < 0)
                return r;
        if (head.n_buckets > SYMBOLS_MAX || head.first_hashed > SYMBOLS_MAX)
                return -E2BIG;
        offset += sizeof(head) + (uint64_t) head.n_filter * (m->reader.wide ? 8 : 4);
        for (uint32_t i = 0; i < head.n_buckets; i++, offset += sizeof(uint32_t)) {
                uint32_t symbol;
                r = read_word(m, offset, &symbol);
                if (r < 0)
                        return r;
                last = MAX(last, symbol);
        }
        if (last == 0) {
                *ret = head.first_hashed;
                return 0;
        }
        return follow_last_chain(m, offset, head.first_hashed, last, ret);
}

static const Version *find_version(const Imports *m, unsigned number)
{
        for (size_t i = 0; i < m->n_versions; i++)
                if (m->versions[i].number == number)
                        return &m->versions[i];
        return NULL;
}

static int add_symbol(Imports *m, uint64_t symbols, uint32_t i, const Version *v, char ***names)
{
        _cleanup_free_ char *name = NULL;
        uint32_t offset; /* the first member of the structures of both classes */

        int r = read_word(m,
                          symbols + (uint64_t) i * (m->reader.wide ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym)),
                          &offset);
        if (r >= 0)
                r = read_name(m, offset, &name);
        return r < 0 ? r : strv_extendf(names, "%s@%s", name, v->name);
}

static int read_symbols(Imports *m, char ***names)
{
        uint64_t symbols, numbers, end;
        uint32_t n = 0, n_names = 0;

        int r = count_symbols(m, &n);
        if (r >= 0)
                r = elf_find_address(&m->reader, m->tables.symbols, &symbols, &end);
        if (r >= 0)
                r = elf_find_address(&m->reader, m->tables.numbers, &numbers, &end);
        for (uint32_t i = 0; r >= 0 && i < n; i++) {
                uint16_t number;
                r = elf_read_struct(&m->reader, numbers + i * sizeof(number), &number, sizeof(number));
                const Version *v = r >= 0 ? find_version(m, number) : NULL;
                if (v)
                        r = ++n_names > IMPORTS_MAX ? -E2BIG : add_symbol(m, symbols, i, v, names);
        }
        return r;
}

int elf_read_imports(int fd, const char *library, char ***ret)
{
        _cleanup_(imports_done) Imports m = {};
        _cleanup_strv_free_ char **names = NULL;
        _cleanup_elf_file_ ElfFile f = {};

        int r = elf_open(&m.reader, fd, &f);
        if (r >= 0)
                r = open_tables(&m);
        if (r >= 0)
                r = read_versions(&m, library);
        if (r >= 0)
                r = read_symbols(&m, &names);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(names);
        return 0;
}
