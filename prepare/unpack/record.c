/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The record of an image: the state of its files, so that later changes can be detected.
 *
 * The file "files" beside "rootfs" has a line for everything in it (record-line.c), sorted by path. The
 * hashes of the content are computed while it is unpacked, and recorded with the inode of the file. When all
 * is unpacked the tree is walked once for the rest, since only the file system knows the result of entries
 * that were implied, replaced or linked; hash and path are matched by the inode. So no content is read back,
 * and no list of the archive's names is kept in memory.
 *
 * The last line has the number of lines and the hash of all bytes before it: so a damaged record is not
 * mistaken for altered files.
 */

#include <sys/mman.h>

#include "library/libcrypto.h"
#include "prepare/unpack/record.h"

/* --- Digests by inode ---------------------------------------------------------------------------------- */

/* A hash table; INODE 0 is a free slot. */
typedef struct Slot {
        DigestRecord digest;
        uint64_t first; /* offset of the first line of that file in the record; 0: not written yet */
} Slot;

typedef struct DigestTable {
        Slot *slots;
        size_t n;
} DigestTable;

#define TABLE_MEMORY_MAX (16U << 20) /* larger ones are kept in a file */

static void table_done(DigestTable *t)
{
        if (t->slots)
                (void) munmap(t->slots, t->n * sizeof(Slot));
}

static Slot *table_find(const DigestTable *t, uint64_t inode)
{
        if (t->n == 0)
                return NULL;
        /* Consecutive inodes have adjacent slots, as they have on disk. */
        for (size_t i = inode % t->n;; i = (i + 1) % t->n)
                if (t->slots[i].digest.inode == inode || t->slots[i].digest.inode == 0)
                        return &t->slots[i];
}

static int table_allocate(DigestTable *t, size_t n, int dir_fd)
{
        _cleanup_close_ int fd = -EBADF;
        size_t size = n * sizeof(Slot);

        if (size > TABLE_MEMORY_MAX) {
                int r = temporary_file(dir_fd, &fd);
                if (r < 0)
                        return r;
                /* Allocate all of it now: if the disk is full later, an access to the mapping raises
                 * SIGBUS. */
                r = space_meter_add(&(SpaceMeter){}, fd, size, 0);
                if (r >= 0)
                        r = -posix_fallocate(fd, 0, (off_t) size);
                if (r < 0)
                        return r;
        }
        void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
                       fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
        if (p == MAP_FAILED)
                return -errno;
        t->slots = p;
        t->n = n;
        return 0;
}

/* Of two digests for one inode the later one is used: the earlier file was replaced. */
static int table_fill(DigestTable *t, FILE *digests, int dir_fd)
{
        DigestRecord d;

        if (!digests)
                return 0;
        off_t size = fflush(digests) == 0 && fseeko(digests, 0, SEEK_END) == 0 ? ftello(digests) : -1;
        if (size < 0)
                return -errno;
        rewind(digests);
        int r = table_allocate(t, 2 * ((size_t) size / sizeof(DigestRecord)) + 1, dir_fd);
        if (r < 0)
                return r;
        while (fread(&d, sizeof(d), 1, digests) == 1)
                table_find(t, d.inode)->digest = d;
        return ferror(digests) ? -EIO : 0;
}

/* --- Writing ------------------------------------------------------------------------------------------- */

typedef struct Writer {
        int dir_fd;
        const Operation *operation;
        DigestTable table;
        FILE *file;
        EVP_MD_CTX *digest;
        ContentHash content;
        uint64_t written, n_lines;
        SpaceMeter meter;
        Text line;
        char hex[HASH_HEX_SIZE + 1];
} Writer;

static void writer_done(Writer *w)
{
        table_done(&w->table);
        if (w->file)
                fclose(w->file);
        EVP_MD_CTX_free(w->digest);
        content_hash_done(&w->content);
        text_done(&w->line);
}

static int write_text(Writer *w, const char *p, size_t n)
{
        int r = space_meter_add(&w->meter, w->dir_fd, n, 0);
        if (r < 0)
                return r;
        if (fwrite(p, 1, n, w->file) != n)
                return errno ? -errno : -EIO;
        w->written += n;
        return EVP_DigestUpdate(w->digest, p, n) == 1 ? 0 : -EIO;
}

static int set_hex(Writer *w, const unsigned char *hash)
{
        _cleanup_free_ char *hex = hex_encode(hash, CONTENT_HASH_SIZE);

        if (!hex)
                return -ENOMEM;
        memcpy(w->hex, hex, sizeof(w->hex));
        return 0;
}

static int look_for_end(uint64_t n, void *userdata)
{
        const Writer *w = userdata;

        return operation_check(w->operation, NULL);
}

static int hash_again(Writer *w, RecordEntry *x)
{
        unsigned char hash[CONTENT_HASH_SIZE];
        _cleanup_close_ int fd = open_quietly(w->dir_fd, x->path, O_RDONLY | O_NOFOLLOW | O_NOCTTY);

        if (fd < 0)
                return fd;
        int r = content_hash_file(&w->content, fd, x->size, false, look_for_end, w, hash);
        if (r >= 0)
                r = set_hex(w, hash);
        x->hash = w->hex;
        return r;
}

/* Completes the entry of a regular file, whose line begins at the current offset. */
static int add_content(Writer *w, RecordEntry *x)
{
        Slot *slot = table_find(&w->table, x->inode);

        x->inode = 0;
        if (!slot || slot->digest.inode == 0)
                return hash_again(w, x);
        x->first = slot->first;
        if (x->first > 0)
                return 0;
        slot->first = w->written;
        x->sparse = slot->digest.sparse;
        x->hash = w->hex;
        return set_hex(w, slot->digest.hash);
}

static int write_line(Writer *w, char *line)
{
        RecordEntry x;

        int r = record_line_parse(line, &x);
        if (r >= 0 && S_ISREG(x.mode))
                r = add_content(w, &x);
        if (r < 0)
                return r;
        w->line.size = 0;
        record_line_format(&w->line, &x);
        w->n_lines++;
        return w->line.failed ? -ENOMEM : write_text(w, w->line.data, w->line.size);
}

static int write_end(Writer *w)
{
        unsigned char hash[EVP_MAX_MD_SIZE];
        unsigned n;

        if (EVP_DigestFinal_ex(w->digest, hash, &n) != 1)
                return -EIO;
        int r = set_hex(w, hash);
        if (r < 0)
                return r;
        if (fprintf(w->file, "end %" PRIu64 " %s\n", w->n_lines, w->hex) < 0)
                return -EIO;
        return fflush(w->file) != 0 ? -errno : 0;
}

static int open_record(Writer *w)
{
        int fd = openat(w->dir_fd, RECORD_FILE, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);

        w->file = fd < 0 ? NULL : fdopen(fd, "w");
        w->digest = EVP_MD_CTX_new();
        if (!w->file) {
                int r = fd < 0 ? -errno : -ENOMEM;
                safe_close(fd);
                return r;
        }
        if (!w->digest || EVP_DigestInit_ex(w->digest, EVP_sha256(), NULL) != 1)
                return -ENOMEM;
        return write_text(w, RECORD_HEADER, strlen(RECORD_HEADER));
}

int record_write(int dir_fd, FILE *digests, const Operation *o, Error *e)
{
        _cleanup_(record_sort_freep) RecordSort *lines = NULL;
        _cleanup_(writer_done) Writer w = {.dir_fd = dir_fd, .operation = o};
        char *line;

        int r = record_walk(dir_fd, dir_fd, record_tops, o, &lines, e);
        if (r < 0)
                return error_prefix(e, r, "Cannot write the record of the image's files");
        r = table_fill(&w.table, digests, dir_fd);
        if (r >= 0)
                r = open_record(&w);
        while (r >= 0 && (r = record_sort_next(lines, &line)) > 0)
                r = write_line(&w, line);
        if (r >= 0)
                r = write_end(&w);
        if (operation_ended(r))
                return operation_check(o, e) ?: error_set(e, r, "Interrupted");
        return r < 0 ? error_set_errno(e, r, "Cannot write the record of the image's files") : 0;
}
