/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Libraries are found as the loader finds them: in the directories that a program or library specifies
 * (DT_RUNPATH, DT_RPATH), then the loader's cache, then in the directories that are built into the loader.
 *
 * Names are those that the loader will open in a pod, whose /lib, /lib64 and /bin are links into /usr: the
 * file of that name may be a symlink on the host, which is resolved when it is mounted. Everything is
 * resolved below the root, and the number of attempts is limited.
 */

#include <elf.h>

#include "stage1/library-search.h"

#define OBJECTS_MAX 512U
#define PROBES_MAX 20000U /* files tried, whether found or not */
#define DIRECTORIES_MAX 32U
#define CACHE_SIZE_MAX (16U * 1024U * 1024U)

/* Debian's multiarch directories, in which its loader looks before the general ones. */
static const struct {
        unsigned elf_class;
        uint16_t machine;
        const char *directory;
} machine_directories[] = {
                {ELFCLASS64, EM_X86_64, "/lib/x86_64-linux-gnu"},
                {ELFCLASS64, EM_AARCH64, "/lib/aarch64-linux-gnu"},
                {ELFCLASS64, EM_RISCV, "/lib/riscv64-linux-gnu"},
                {ELFCLASS64, EM_S390, "/lib/s390x-linux-gnu"},
                {ELFCLASS64, EM_PPC64, "/lib/powerpc64le-linux-gnu"},
                {ELFCLASS64, EM_MIPS, "/lib/mips64el-linux-gnuabi64"},
                {ELFCLASS64, 258, "/lib/loongarch64-linux-gnu"},
                {ELFCLASS32, EM_386, "/lib/i386-linux-gnu"},
                {ELFCLASS32, EM_ARM, "/lib/arm-linux-gnueabihf"},
                {ELFCLASS32, EM_ARM, "/lib/arm-linux-gnueabi"},
};

void closure_done(Closure *c)
{
        for (size_t i = 0; i < c->n_objects; i++) {
                free(c->objects[i].path);
                elf_file_done(&c->objects[i].elf);
        }
        free(c->objects);
        free(c->common);
        ld_cache_free(c->cache);
        *c = (Closure){.root_fd = -EBADF};
}

/* --- Names --------------------------------------------------------------------------------------------- */

typedef struct Path {
        char text[PATH_MAX];
} Path;

/* False: the path would be too long, so that no such file can exist. */
static bool path_join(Path *p, const char *directory, const char *name)
{
        int n = snprintf(p->text, sizeof(p->text), "%s/%s", directory, name);

        return n > 0 && (size_t) n < sizeof(p->text);
}

static bool path_set(Path *p, const char *text)
{
        size_t n = strlen(text);

        if (n >= sizeof(p->text))
                return false;
        memcpy(p->text, text, n + 1);
        return true;
}

/* Removes empty and "." components, and ".." with the component before it, by text alone. */
static void path_collapse(Path *p)
{
        char *end = p->text;

        for (const char *s = p->text; *s;) {
                s += strspn(s, "/");
                size_t n = strcspn(s, "/");
                if (n == 2 && s[0] == '.' && s[1] == '.') {
                        while (end > p->text && *--end != '/')
                                ;
                } else if (n > 0 && !(n == 1 && s[0] == '.')) {
                        *end++ = '/'; /* END never overtakes S, which has passed at least one slash */
                        memmove(end, s, n);
                        end += n;
                }
                s += n;
        }
        *end = 0;
}

/* Whether a pod has the first component of PATH as a link into /usr. */
static bool path_is_merged(const char *path)
{
        static const char *const merged[] = {"/lib/", "/lib64/", "/lib32/", "/libx32/", "/bin/", "/sbin/"};

        for (size_t i = 0; i < ELEMENTSOF(merged); i++)
                if (startswith(path, merged[i]))
                        return true;
        return false;
}

/* --- Objects ------------------------------------------------------------------------------------------- */

static bool closure_has(const Closure *c, const char *path)
{
        const char *name = strrchr(path, '/') + 1;

        for (size_t i = 0; i < c->n_objects; i++)
                if (streq(c->objects[i].name, name) && streq(c->objects[i].path, path))
                        return true;
        return false;
}

static bool closure_has_name(const Closure *c, const char *name)
{
        for (size_t i = 0; i < c->n_objects; i++)
                if (streq(c->objects[i].name, name))
                        return true;
        return false;
}

/* Takes ownership of ELF on success. */
static int closure_add(Closure *c, const char *path, ElfFile *elf, size_t loader, Error *e)
{
        if (c->n_objects >= OBJECTS_MAX)
                return error_set(e, -E2BIG, "The systemd of the pod needs more than %u files", OBJECTS_MAX);
        if (GREEDY_REALLOC(c->objects, c->objects_allocated, c->n_objects + 1) < 0)
                return error_oom(e);
        char *copy = strdup(path);
        if (!copy)
                return error_oom(e);
        c->objects[c->n_objects++] = (Object){
                        .path = copy,
                        .name = strrchr(copy, '/') + 1,
                        .elf = *elf,
                        .loader = loader,
        };
        *elf = (ElfFile){};
        return 1;
}

/* Like the loader, the search continues if a file is for another machine. */
static bool closure_fits(const Closure *c, const ElfFile *elf)
{
        return c->n_objects == 0 ||
               (c->objects[0].elf.elf_class == elf->elf_class && c->objects[0].elf.machine == elf->machine);
}

static bool means_absent(int r)
{
        return r == -ENOENT || r == -ENOTDIR || r == -ELOOP || r == -EACCES || r == -ENAMETOOLONG ||
               r == -ENXIO || r == -EISDIR;
}

/* 1: it exists and is now (or was already) among the objects; 0: there is no suitable file. */
static int try_name(Closure *c, const char *path, size_t loader, Error *e)
{
        _cleanup_elf_file_ ElfFile elf = {};
        _cleanup_close_ int fd = -EBADF;

        if (closure_has(c, path))
                return 1;
        if (c->n_probes++ >= PROBES_MAX)
                return error_set(e, -E2BIG, "The libraries of systemd were not found within %u attempts",
                                 PROBES_MAX);
        fd = open_in_root(c->root_fd, path, O_RDONLY | O_NONBLOCK);
        if (means_absent(fd))
                return 0;
        if (fd < 0)
                return error_set_errno(e, fd, "Cannot open %s", path);
        int r = elf_read(fd, &elf);
        if (r == -ENOEXEC)
                return 0;
        if (r < 0)
                return error_set_errno(e, r, "Cannot read the dependencies of %s", path);
        return closure_fits(c, &elf) ? closure_add(c, path, &elf, loader, e) : 0;
}

/* The same for a path that is not normalized. On a host without merged /usr, the file may exist in /lib
 * only. */
static int try_path(Closure *c, Path *p, size_t loader, Error *e)
{
        Path merged;

        path_collapse(p);
        if (!p->text[0])
                return 0;
        if (path_is_merged(p->text) && path_join(&merged, "/usr", p->text + 1)) {
                int r = try_name(c, merged.text, loader, e);
                if (r != 0)
                        return r;
        }
        return try_name(c, p->text, loader, e);
}

/* --- Where libraries are searched ---------------------------------------------------------------------- */

/* Writes the directory D of N bytes, with the object's own directory for $ORIGIN. False: no directory that
 * can be searched. */
static bool expand_directory(const Object *o, const char *d, size_t n, Path *ret)
{
        static const char *const origins[] = {"$ORIGIN", "${ORIGIN}"};

        for (size_t i = 0; i < ELEMENTSOF(origins); i++) {
                size_t k = strlen(origins[i]);
                if (n < k || strncmp(d, origins[i], k) != 0 || (n > k && d[k] != '/'))
                        continue;
                int m = snprintf(ret->text, sizeof(ret->text), "%.*s%.*s", (int) (o->name - o->path),
                                 o->path, (int) (n - k), d + k);
                return m > 0 && (size_t) m < sizeof(ret->text) && !strchr(d + k, '$');
        }
        if (n == 0 || n >= sizeof(ret->text) || d[0] != '/' || memchr(d, '$', n))
                return false;
        memcpy(ret->text, d, n);
        ret->text[n] = 0;
        return true;
}

/* Searches NAME in the directories of LIST, which the object BRINGER specifies, on behalf of the object
 * LOADER. */
static int search_list(Closure *c, const char *list, size_t bringer, const char *name, size_t loader,
                       Error *e)
{
        const char *d = list;

        for (unsigned i = 0; i < DIRECTORIES_MAX; i++) {
                Path directory, p;
                size_t n = strcspn(d, ":");
                if (expand_directory(&c->objects[bringer], d, n, &directory) &&
                    path_join(&p, directory.text, name)) {
                        int r = try_path(c, &p, loader, e);
                        if (r != 0)
                                return r;
                }
                if (!d[n])
                        break;
                d += n + 1;
        }
        return 0;
}

/* DT_RUNPATH applies to the direct dependencies of an object only, DT_RPATH also to their dependencies. */
static int search_own(Closure *c, const char *name, size_t loader, Error *e)
{
        if (c->objects[loader].elf.runpath)
                return search_list(c, c->objects[loader].elf.runpath, loader, name, loader, e);
        for (size_t i = loader; i != NO_LOADER; i = c->objects[i].loader) {
                if (c->objects[i].elf.runpath || !c->objects[i].elf.rpath)
                        continue;
                int r = search_list(c, c->objects[i].elf.rpath, i, name, loader, e);
                if (r != 0)
                        return r;
        }
        return 0;
}

static bool has_own_directories(const Closure *c, size_t loader)
{
        if (c->objects[loader].elf.runpath || c->objects[loader].elf.no_default_directories)
                return true;
        for (size_t i = loader; i != NO_LOADER; i = c->objects[i].loader)
                if (c->objects[i].elf.rpath)
                        return true;
        return false;
}

/* Like the loader, the search works without a cache that is missing or unreadable. */
static int load_cache(Closure *c, Error *e)
{
        _cleanup_close_ int fd = -EBADF;
        char *data;
        size_t size;

        if (c->cache_tried)
                return 0;
        c->cache_tried = true;
        fd = open_in_root(c->root_fd, LD_CACHE_PATH, O_RDONLY | O_NONBLOCK);
        if (fd < 0)
                return 0;
        int r = read_fd_bounded(fd, CACHE_SIZE_MAX, &data, &size);
        if (r >= 0)
                r = ld_cache_new(data, size, &c->cache);
        return r == -ENOMEM ? error_oom(e) : 0;
}

static bool is_machine_directory(const ElfFile *elf, size_t i)
{
        return machine_directories[i].elf_class == elf->elf_class &&
               machine_directories[i].machine == elf->machine;
}

/* The N-th directory that is built into the loader, or into that of another distribution; NULL after the
 * last. */
static const char *default_directory(const Closure *c, size_t n)
{
        for (size_t i = 0; i < ELEMENTSOF(machine_directories); i++)
                if (is_machine_directory(&c->objects[0].elf, i) && n-- == 0)
                        return machine_directories[i].directory;
        if (c->objects[0].elf.elf_class == ELFCLASS64 && n-- == 0)
                return "/lib64";
        return n == 0 ? "/lib" : NULL;
}

/* Whether PATH is directly in one of the loader's built-in directories. */
static bool in_default_directory(const Closure *c, const char *path)
{
        const char *d;

        for (size_t i = 0; (d = default_directory(c, i)); i++) {
                const char *rest = startswith(startswith(path, "/usr") ?: path, d);
                if (rest && rest[0] == '/' && !strchr(rest + 1, '/'))
                        return true;
        }
        return false;
}

typedef struct CacheSearch {
        Closure *closure;
        size_t loader;
        Error *error;
} CacheSearch;

static int try_cached_path(const char *path, void *userdata)
{
        CacheSearch *s = userdata;
        Path p;

        if (!path_set(&p, path))
                return 0;
        int r = try_path(s->closure, &p, s->loader, s->error);
        if (r > 0 && !in_default_directory(s->closure, p.text))
                s->closure->cache_needed = true;
        return r;
}

static int search_common(Closure *c, const char *name, size_t loader, Error *e)
{
        const char *d;
        int r = load_cache(c, e);

        if (r >= 0 && c->cache)
                r = ld_cache_lookup(c->cache, name, try_cached_path, &(CacheSearch){c, loader, e});
        if (r == -EBADMSG)
                r = 0; /* a damaged cache is ignored; the built-in directories are still searched */
        for (size_t i = 0; r == 0 && (d = default_directory(c, i)); i++) {
                Path p;
                if (path_join(&p, d, name))
                        r = try_path(c, &p, loader, e);
        }
        return r;
}

/* --- One library --------------------------------------------------------------------------------------- */

static bool is_interpreter(const Closure *c, const char *name)
{
        const char *interpreter = c->objects[0].elf.interpreter;
        const char *slash = interpreter ? strrchr(interpreter, '/') : NULL;

        return slash && streq(slash + 1, name);
}

static bool was_found_before(const Closure *c, const char *name)
{
        for (size_t i = 0; i < c->n_common; i++)
                if (streq(c->common[i], name))
                        return true;
        return false;
}

int closure_add_path(Closure *c, const char *path, size_t loader, Error *e)
{
        Path p;

        return path[0] == '/' && path_set(&p, path) ? try_path(c, &p, loader, e) : 0;
}

static int look_for_library(Closure *c, const char *name, size_t loader, Error *e)
{
        bool own = has_own_directories(c, loader);
        int r = 0;

        if (!own && was_found_before(c, name))
                return 1;
        if (strchr(name, '/')) /* or relative to the working directory, which makes no sense for a system
                                *                                  library */
                return closure_add_path(c, name, loader, e);
        if (own)
                r = search_own(c, name, loader, e);
        if (r != 0 || c->objects[loader].elf.no_default_directories)
                return r;
        r = search_common(c, name, loader, e);
        if (r <= 0)
                return r;
        if (GREEDY_REALLOC(c->common, c->common_allocated, c->n_common + 1) < 0)
                return error_oom(e);
        c->common[c->n_common++] = name;
        return 1;
}

/* The loader does not search a library that the program has loaded already. It is searched here all the
 * same, since another program may have to find it; but if nothing is found, it is sufficient that it has
 * been loaded. */
int closure_add_library(Closure *c, const char *name, size_t loader, Error *e)
{
        if (is_interpreter(c, name))
                return 1;
        int r = look_for_library(c, name, loader, e);
        return r == 0 && closure_has_name(c, name) ? 1 : r;
}
