/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Checks the entries of an archive as unpacking would, without writing anything to disk.
 *
 * The checks are those of unpack.c and of the functions it calls. The state that the file system has there
 * (existing names, their types, symlinks) is kept here as a tree of names in memory: an entry takes 16 bytes
 * and its last name, both are bounded. Names are found by a hash table; its hash has a random key that the
 * author of the archive cannot know.
 */

#include <sys/random.h>

#include "library/libarchive.h"
#include "prepare/unpack/unpack-internal.h"

#define NAMES_MAX (256U << 20) /* bytes of all names */
#define NO_NODE 0U             /* the root is never in a list */

typedef enum NodeType { NODE_DIRECTORY, NODE_IMPLIED, NODE_FILE, NODE_SYMLINK, NODE_OTHER } NodeType;

typedef struct Node {
        uint32_t parent, name, next; /* NEXT: in the same bucket */
        uint32_t type;
} Node;

struct UnpackCheck {
        Node *nodes; /* the first is the root */
        size_t n_nodes, nodes_allocated;
        char *names;
        size_t names_size, names_allocated;
        uint32_t *buckets;
        size_t n_buckets; /* a power of two */
        uint64_t key[2];
        bool has_rootfs;
        char *odd_time; /* the path of the first entry for which time_is_usual() is false */
        const Operation *operation;
};

int unpack_check_new(const Operation *o, UnpackCheck **ret, Error *e)
{
        _cleanup_(unpack_check_freep) UnpackCheck *c = calloc(1, sizeof(UnpackCheck));

        if (!c || GREEDY_REALLOC(c->nodes, c->nodes_allocated, 1) < 0)
                return error_oom(e);
        c->nodes[0] = (Node){.type = NODE_DIRECTORY};
        c->n_nodes = 1;
        c->operation = o;
        if (getrandom(c->key, sizeof(c->key), 0) != sizeof(c->key))
                return error_set_errno(e, errno, "Cannot get random numbers");
        c->key[1] |= 1;
        *ret = TAKE_PTR(c);
        return 0;
}

UnpackCheck *unpack_check_free(UnpackCheck *c)
{
        if (!c)
                return NULL;
        free(c->nodes);
        free(c->names);
        free(c->buckets);
        free(c->odd_time);
        free(c);
        return NULL;
}

const char *unpack_check_odd_time(const UnpackCheck *c)
{
        return c->odd_time;
}

bool unpack_check_has_rootfs(const UnpackCheck *c)
{
        return c->has_rootfs;
}

/* --- The tree of names --------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t a, uint64_t b)
{
        unsigned __int128 x = (unsigned __int128) a * b;

        return (uint64_t) x ^ (uint64_t) (x >> 64);
}

static uint64_t hash_name(const UnpackCheck *c, uint32_t parent, const char *name, size_t n)
{
        uint64_t h = mix(c->key[0] ^ parent, c->key[1]) ^ n;

        for (size_t i = 0; i < n; i += 8) {
                uint64_t word = 0;
                memcpy(&word, name + i, MIN(n - i, (size_t) 8));
                h = mix(h ^ word ^ c->key[0], c->key[1]);
        }
        return h;
}

static uint32_t *bucket(UnpackCheck *c, uint32_t parent, const char *name, size_t n)
{
        return &c->buckets[hash_name(c, parent, name, n) & (c->n_buckets - 1)];
}

static int grow_table(UnpackCheck *c)
{
        size_t n = MAX(c->n_buckets * 2, (size_t) 1024);
        uint32_t *buckets = calloc(n, sizeof(uint32_t));

        if (!buckets)
                return -ENOMEM;
        free(c->buckets);
        c->buckets = buckets;
        c->n_buckets = n;
        for (uint32_t i = 1; i < c->n_nodes; i++) {
                const char *name = c->names + c->nodes[i].name;
                uint32_t *b = bucket(c, c->nodes[i].parent, name, strlen(name));
                c->nodes[i].next = *b;
                *b = i;
        }
        return 0;
}

static uint32_t find(UnpackCheck *c, uint32_t parent, const char *name, size_t n)
{
        if (c->n_buckets == 0)
                return NO_NODE;
        for (uint32_t i = *bucket(c, parent, name, n); i != NO_NODE; i = c->nodes[i].next) {
                const char *other = c->names + c->nodes[i].name;
                if (c->nodes[i].parent == parent && strncmp(other, name, n) == 0 && other[n] == 0)
                        return i;
        }
        return NO_NODE;
}

static int add(UnpackCheck *c, uint32_t parent, const char *name, size_t n, NodeType type, uint32_t *ret,
               Error *e)
{
        if (c->n_nodes > ENTRIES_MAX)
                return error_set(e, -E2BIG, "The archive has more than %u entries", ENTRIES_MAX);
        if (c->names_size + n + 1 > NAMES_MAX)
                return error_set(e, -E2BIG, "The names in the archive are longer than %u MiB",
                                 NAMES_MAX >> 20);
        if (GREEDY_REALLOC(c->nodes, c->nodes_allocated, c->n_nodes + 1) < 0 ||
            GREEDY_REALLOC(c->names, c->names_allocated, c->names_size + n + 1) < 0 ||
            (c->n_nodes >= c->n_buckets && grow_table(c) < 0))
                return error_oom(e);
        uint32_t i = (uint32_t) c->n_nodes++, *b = bucket(c, parent, name, n);
        c->nodes[i] = (Node){.parent = parent, .name = (uint32_t) c->names_size, .next = *b, .type = type};
        memcpy(c->names + c->names_size, name, n);
        c->names[c->names_size + n] = 0;
        c->names_size += n + 1;
        *b = i;
        *ret = i;
        return 0;
}

/* --- The checks, in the order of unpack.c -------------------------------------------------------------- */

typedef struct Entry {
        const char *path, *name;
        uint32_t parent;
        struct archive *archive;
        struct archive_entry *entry;
} Entry;

/* Finds the parent directory of the entry; missing directories are implied. */
static int open_parent(UnpackCheck *c, Entry *x, Error *e)
{
        const char *p = x->path;

        x->parent = 0;
        for (const char *slash; (slash = strchr(p, '/')); p = slash + 1) {
                size_t n = (size_t) (slash - p);
                uint32_t i = find(c, x->parent, p, n);
                if (i == NO_NODE) {
                        int r = add(c, x->parent, p, n, NODE_IMPLIED, &i, e);
                        if (r < 0)
                                return r;
                }
                if (c->nodes[i].type == NODE_SYMLINK)
                        return unpack_error(e, -EBADMSG, x->path,
                                            "the name leads through a symbolic link of the archive");
                if (c->nodes[i].type > NODE_IMPLIED)
                        return unpack_error(e, -EBADMSG, x->path,
                                            "the name leads through something that is not a directory");
                x->parent = i;
        }
        x->name = p;
        return 0;
}

static int create(UnpackCheck *c, const Entry *x, NodeType type, Error *e)
{
        uint32_t i = find(c, x->parent, x->name, strlen(x->name));

        if (i == NO_NODE)
                return add(c, x->parent, x->name, strlen(x->name), type, &i, e);
        if (type != NODE_DIRECTORY || c->nodes[i].type != NODE_IMPLIED)
                return unpack_error(e, -EBADMSG, x->path, "the archive has it twice");
        c->nodes[i].type = NODE_DIRECTORY;
        return 0;
}

static int check_content(const Entry *x, Error *e)
{
        int64_t size = archive_entry_size(x->entry), end = 0;
        la_int64_t offset;
        const void *p;
        size_t n;
        int a;

        while ((a = archive_read_data_block(x->archive, &p, &n, &offset)) == ARCHIVE_OK) {
                if (n > 0 && (offset < end || offset > size || n > (uint64_t) (size - offset)))
                        return unpack_error(e, -EBADMSG, x->path, "its sparse map is damaged");
                end = n > 0 ? offset + (int64_t) n : end;
        }
        if (a != ARCHIVE_EOF)
                return unpack_error(e, -EBADMSG, x->path, "its content is damaged: %s",
                                    archive_error_string(x->archive) ?: "unknown error");
        return 0;
}

static int check_file(UnpackCheck *c, const Entry *x, Error *e)
{
        if (archive_entry_size(x->entry) < 0)
                return unpack_error(e, -EBADMSG, x->path, "its size is negative");
        int r = create(c, x, NODE_FILE, e);
        return r < 0 ? r : check_content(x, e);
}

static int check_directory(UnpackCheck *c, const Entry *x, Error *e)
{
        return create(c, x, NODE_DIRECTORY, e);
}

static int check_symlink(UnpackCheck *c, const Entry *x, Error *e)
{
        int r = unpack_check_symlink(x->path, archive_entry_symlink(x->entry), e);

        return r < 0 ? r : create(c, x, NODE_SYMLINK, e);
}

static int check_node(UnpackCheck *c, const Entry *x, Error *e)
{
        bool is_null = archive_entry_rdevmajor(x->entry) == 0 && archive_entry_rdevminor(x->entry) == 0;

        if (archive_entry_filetype(x->entry) == AE_IFCHR && is_null)
                return unpack_error(e, -EBADMSG, x->path,
                                    "a character device 0:0 is a whiteout, which images must not contain");
        return create(c, x, NODE_OTHER, e);
}

/* Finds the node of TARGET, or refuses it with the reason why it cannot be linked to. */
static int find_target(UnpackCheck *c, const Entry *x, const char *target, NodeType *ret, Error *e)
{
        uint32_t i = 0;

        for (const char *p = target; *p;) {
                size_t n = strcspn(p, "/");
                if (c->nodes[i].type == NODE_SYMLINK)
                        return unpack_error(e, -EBADMSG, x->path,
                                            "the hard link leads through a symbolic link");
                i = find(c, i, p, n);
                if (i == NO_NODE)
                        return unpack_error(
                                        e, -EBADMSG, x->path,
                                        "the target of the hard link is no earlier entry of the archive");
                p += n + (p[n] == '/');
        }
        if (c->nodes[i].type <= NODE_IMPLIED)
                return unpack_error(e, -EBADMSG, x->path, "the hard link leads to a directory");
        *ret = c->nodes[i].type;
        return 0;
}

static int check_hard_link(UnpackCheck *c, const Entry *x, Error *e)
{
        _cleanup_free_ char *target = NULL;
        NodeType type = NODE_OTHER;

        int r = unpack_normalize_path(archive_entry_hardlink(x->entry), &target, e);
        if (r < 0)
                return error_prefix(e, r, "Cannot unpack the hard link '%s'", x->path);
        if (!startswith(target, "rootfs/"))
                return unpack_error(e, -EBADMSG, x->path, "the hard link leads out of rootfs");
        r = find_target(c, x, target, &type, e);
        return r < 0 ? r : create(c, x, type, e);
}

static const struct {
        mode_t type;
        int (*check)(UnpackCheck *c, const Entry *x, Error *e);
} kinds[] = {
                {AE_IFREG, check_file}, {AE_IFDIR, check_directory}, {AE_IFLNK, check_symlink},
                {AE_IFCHR, check_node}, {AE_IFBLK, check_node},      {AE_IFIFO, check_node},
};

static int check_by_kind(UnpackCheck *c, const Entry *x, Error *e)
{
        for (size_t i = 0; i < ELEMENTSOF(kinds); i++)
                if (kinds[i].type == archive_entry_filetype(x->entry))
                        return kinds[i].check(c, x, e);
        return unpack_error(e, -EBADMSG, x->path, "its type is not allowed in images");
}

static int check_acls(const Entry *x, Error *e)
{
        static const char *const names[] = {ACL_ACCESS, ACL_DEFAULT};

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                _cleanup_free_ void *acl = NULL;
                size_t size;
                int r = xattr_encode_acl(x->entry, names[i], x->path, &acl, &size, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

int unpack_check_entry(UnpackCheck *c, const char *path, struct archive *a, struct archive_entry *entry,
                       Error *e)
{
        bool is_link = archive_entry_hardlink(entry);
        Entry x = {.path = path, .archive = a, .entry = entry};
        Metadata metadata;
        size_t size;

        int r = operation_check(c->operation, e);
        if (r < 0)
                return r;
        if (streq(path, "rootfs") && (is_link || archive_entry_filetype(entry) != AE_IFDIR))
                return unpack_error(e, -EBADMSG, path, "it has to be a directory");
        r = metadata_read(entry, path, &metadata, e);
        if (r >= 0)
                r = xattr_check_all(entry, path, &size, e);
        if (r >= 0)
                r = open_parent(c, &x, e);
        if (r >= 0 && !c->odd_time && !time_is_usual(metadata.times[1].tv_sec) &&
            !(c->odd_time = strdup(path)))
                r = error_oom(e);
        if (r < 0)
                return r;
        c->has_rootfs = true;
        r = is_link ? check_hard_link(c, &x, e) : check_by_kind(c, &x, e);
        return r < 0 || is_link ? r : check_acls(&x, e);
}
