/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The files of the host that the systemd of a pod needs: its programs, the loader, and every library they
 * load.
 *
 * The libraries are found in two rounds. The first collects required libraries, and a missing one is an
 * error. The second collects libraries that are opened at run time if they exist, and their dependencies in
 * turn; there a missing library is no error, and features of systemd that have no meaning in a pod are left
 * out.
 *
 * The pod needs no loader cache, unless a library is in a directory that only the cache lists; then the
 * cache is one of the files. All of this runs at every start of a pod, so nothing is opened twice and of
 * each file only the headers are read.
 *
 * libcrypto may be replaced by a stub (stub/libcrypto.c): if every file that needs it imports only what the stub
 * defines, and none opens it by dlopen(), as symbols looked up at run time are not in the headers. Where any of this
 * cannot be determined, the host's library is used.
 */

#include <link.h>

#include "stage1/library-search.h"
#include "stage1/stage1.h"
#include "stage1/stub/libcrypto.h"

/* The programs that a pod's systemd starts by itself, all from the package systemd. */
static const struct {
        const char *name;
        bool optional; /* exists in some versions only */
} programs[] = {
                {"systemd", false},
                {"systemd-journald", false},
                {"systemd-executor", true},
};

static const char *const program_directories[] = {"/usr/lib/systemd", "/lib/systemd"};

/* systemd's names of the features that no program above uses in a container: they are for tools or for
 * hardware. */
static const char *const unwanted_features[] = {
                "archive",  "cryptsetup", "curl",      "dw",       "elf",  "fdisk",      "fido2",
                "gcrypt",   "gnutls",     "idn",       "ip4tc",    "kmod", "microhttpd", "p11-kit",
                "passwdqc", "pcre2",      "pwquality", "qrencode", "tpm",
};

/* --- Programs and the two rounds ----------------------------------------------------------------------- */

static int add_program(Closure *c, const char *name, Error *e)
{
        for (size_t i = 0; i < ELEMENTSOF(program_directories); i++) {
                char path[64];
                snprintf(path, sizeof(path), "%s/%s", program_directories[i], name);
                int r = closure_add_path(c, path, NO_LOADER, e);
                if (r != 0)
                        return r;
        }
        return 0;
}

static int add_programs(Closure *c, Error *e)
{
        for (size_t i = 0; i < ELEMENTSOF(programs); i++) {
                int r = add_program(c, programs[i].name, e);
                if (r < 0)
                        return r;
                if (r > 0 || programs[i].optional)
                        continue;
                error_set(e, -ENOENT, "Program %s/%s does not exist for this machine",
                          program_directories[0], programs[i].name);
                return error_hint(e, -ENOENT,
                                  "Pods boot the systemd of the host; install its package (on Debian: "
                                  "systemd).");
        }
        return 0;
}

/* The loaders that the programs name. There is one, unless programs of different C libraries are installed
 * side by side. */
static int add_interpreters(Closure *c, Error *e)
{
        size_t n = c->n_objects;

        for (size_t i = 0; i < n; i++) {
                const char *interpreter = c->objects[i].elf.interpreter;
                if (!interpreter)
                        continue;
                int r = closure_add_path(c, interpreter, NO_LOADER, e);
                if (r < 0)
                        return r;
                if (r > 0)
                        continue;
                error_set(e, -ENOENT, "%s needs the loader %s, which does not exist", c->objects[i].path,
                          interpreter);
                return error_hint(e, -ENOENT, "Install the C library for this machine (on Debian: libc6).");
        }
        return 0;
}

static int add_needed(Closure *c, size_t i, Error *e)
{
        STRV_FOREACH (name, c->objects[i].elf.needed) {
                int r = closure_add_library(c, *name, i, e);
                if (r < 0)
                        return r;
                if (r > 0)
                        continue;
                error_set(e, -ENOENT, "%s needs the library %s, which does not exist", c->objects[i].path,
                          *name);
                return error_hint(e, -ENOENT,
                                  "Install the package that has %s, or repair that of systemd (on Debian: "
                                  "apt-get install --reinstall systemd).",
                                  *name);
        }
        return 0;
}

static bool is_unwanted(const char *feature)
{
        for (size_t i = 0; i < ELEMENTSOF(unwanted_features); i++)
                if (streq(unwanted_features[i], feature))
                        return true;
        return false;
}

/* A damaged optional library is ignored here: the program that opens it at run time reports it. */
static int ignore_invalid_file(int r)
{
        return r == -EBADMSG || r == -E2BIG ? 0 : r;
}

static int add_dlopen_libraries(Closure *c, size_t i)
{
        /* The array of objects may move; what they point to does not. */
        const DlopenNote *dlopen_notes = c->objects[i].elf.dlopen_notes;
        size_t n = c->objects[i].elf.n_dlopen_notes;

        for (size_t k = 0; k < n; k++) {
                int r = 0;
                if (is_unwanted(dlopen_notes[k].feature))
                        continue;
                for (char **name = dlopen_notes[k].sonames; r == 0 && name && *name; name++)
                        r = ignore_invalid_file(closure_add_library(c, *name, i, NULL));
                if (r < 0)
                        return r;
        }
        return 0;
}

static int add_optional(Closure *c, size_t n_needed, Error *e)
{
        for (size_t i = 0; i < c->n_objects; i++) {
                int r = add_dlopen_libraries(c, i);
                char **needed = i >= n_needed ? c->objects[i].elf.needed : NULL;
                for (char **name = needed; r >= 0 && name && *name; name++)
                        r = ignore_invalid_file(closure_add_library(c, *name, i, NULL));
                if (r < 0)
                        return error_set_errno(e, r, "Cannot find the libraries that %s may open",
                                               c->objects[i].path);
        }
        return 0;
}

static int collect(Closure *c, Error *e)
{
        int r = add_programs(c, e);

        if (r >= 0)
                r = add_interpreters(c, e);
        for (size_t i = 0; r >= 0 && i < c->n_objects; i++)
                r = add_needed(c, i, e);
        return r < 0 ? r : add_optional(c, c->n_objects, e);
}

/* Copies the paths out of the closure. */
static int closure_paths(const Closure *c, char ***ret)
{
        _cleanup_strv_free_ char **paths = calloc(c->n_objects + 2, sizeof(char *));

        if (!paths)
                return -ENOMEM;
        for (size_t i = 0; i < c->n_objects; i++) {
                paths[i] = strdup(c->objects[i].path);
                if (!paths[i])
                        return -ENOMEM;
        }
        if (c->cache_needed) {
                paths[c->n_objects] = strdup(LD_CACHE_PATH);
                if (!paths[c->n_objects])
                        return -ENOMEM;
        }
        *ret = TAKE_PTR(paths);
        return 0;
}

/* --- The stub of libcrypto ----------------------------------------------------------------------------- */

#define STUB_SYMBOL(name) #name "@" LIBCRYPTO_STUB_SYMBOL_VERSION,

static const char *const stub_symbols[] = {LIBCRYPTO_STUB_FUNCTIONS(STUB_SYMBOL)};

static int compare_symbols(const void *a, const void *b)
{
        return strcmp(*(const char *const *) a, *(const char *const *) b);
}

/* Whether the stub has all that the object imports from libcrypto. */
static bool stub_satisfies(const Closure *c, const Object *o)
{
        _cleanup_strv_free_ char **imports = NULL;
        _cleanup_close_ int fd = open_in_root(c->root_fd, o->path, O_RDONLY | O_NONBLOCK);

        if (fd < 0 || elf_read_imports(fd, LIBCRYPTO_STUB_SONAME, &imports) < 0)
                return false;
        STRV_FOREACH (name, imports)
                if (!bsearch(name, stub_symbols, ELEMENTSOF(stub_symbols), sizeof(stub_symbols[0]),
                             compare_symbols))
                        return false;
        return true;
}

static bool opens_libcrypto(const ElfFile *f)
{
        for (size_t i = 0; i < f->n_dlopen_notes; i++)
                if (strv_contains(f->dlopen_notes[i].sonames, LIBCRYPTO_STUB_SONAME))
                        return true;
        return false;
}

/* Whether the objects from number FIRST on can do with the stub. */
static bool can_use_stub(const Closure *c, size_t first)
{
        for (size_t i = first; i < c->n_objects; i++) {
                const Object *o = &c->objects[i];
                if (opens_libcrypto(&o->elf) ||
                    (strv_contains(o->elf.needed, LIBCRYPTO_STUB_SONAME) && !stub_satisfies(c, o)))
                        return false;
        }
        return true;
}

/* The only libcrypto of the closure; NULL: there is none, or more than one. */
static const char *find_libcrypto(const Closure *c)
{
        const char *path = NULL;

        for (size_t i = 0; i < c->n_objects; i++)
                if (streq(c->objects[i].name, LIBCRYPTO_STUB_SONAME)) {
                        if (path)
                                return NULL;
                        path = c->objects[i].path;
                }
        return path;
}

extern const ElfW(Ehdr) __ehdr_start
                __attribute__((visibility("hidden"))); /* by the linker: our own header */

/* The stub was built along with this code. */
static bool is_for_this_machine(const Closure *c)
{
        return c->objects[0].elf.elf_class == __ehdr_start.e_ident[EI_CLASS] &&
               c->objects[0].elf.machine == __ehdr_start.e_machine;
}

/* Adds PROGRAM and its libraries to the closure, and says whether all of them can do with the stub. */
static bool program_can_use_stub(Closure *c, const char *program)
{
        size_t first = c->n_objects;

        if (closure_add_path(c, program, NO_LOADER, NULL) <= 0)
                return false;
        for (size_t i = first; i < c->n_objects; i++)
                if (add_needed(c, i, NULL) < 0)
                        return false;
        return can_use_stub(c, first);
}

static void choose_libcrypto(Closure *c, const char *program, Stage1HostFiles *f)
{
        const char *path = is_for_this_machine(c) && can_use_stub(c, 0) ? find_libcrypto(c) : NULL;

        STRV_FOREACH (p, f->paths)
                if (path && streq(*p, path))
                        f->libcrypto = *p;
        f->program_uses_stub = f->libcrypto && program && program_can_use_stub(c, program);
}

/* --- Altogether ---------------------------------------------------------------------------------------- */

void stage1_host_files_done(Stage1HostFiles *f)
{
        strv_free(f->paths);
        *f = (Stage1HostFiles){};
}

int stage1_host_files(int root_fd, const char *program, Stage1HostFiles *ret, Error *e)
{
        _cleanup_closure_ Closure c = {.root_fd = root_fd};
        Stage1HostFiles files = {};

        int r = collect(&c, e);
        if (r < 0)
                return r;
        r = closure_paths(&c, &files.paths);
        if (r < 0)
                return error_oom(e);
        choose_libcrypto(&c, program, &files);
        *ret = files;
        return 0;
}
