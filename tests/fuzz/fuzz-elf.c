/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* ELF files, and the loader's cache, which are untrusted if the user provides the systemd of pods: the
 * parsers must not read outside of their input. The first byte selects the parser: C for a cache, in which
 * case the second byte is the length of the name to look up. */

#include <sys/mman.h>

#include "stage1/elf-file.h"
#include "stage1/ld-cache.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_strings(char *const *l)
{
        STRV_FOREACH (s, l)
                if (strlen(*s) > 255)
                        abort();
}

static void fuzz_elf(const uint8_t *data, size_t size)
{
        _cleanup_elf_file_ ElfFile f = {};
        _cleanup_close_ int fd = memfd_create("elf", MFD_CLOEXEC);

        if (fd < 0 || loop_write(fd, data, size) < 0 || elf_read(fd, &f) < 0)
                return;
        check_strings(f.needed);
        for (size_t i = 0; i < f.n_dlopen_notes; i++)
                check_strings(f.dlopen_notes[i].sonames);
        STRV_FOREACH (library, f.needed) {
                _cleanup_strv_free_ char **imports = NULL;
                if (elf_read_imports(fd, *library, &imports) >= 0 && strv_length(imports) > 4096)
                        abort();
        }
        if (strv_length(f.needed) > 256 || (f.interpreter && strlen(f.interpreter) > 4095))
                abort();
}

static int check_path(const char *path, void *userdata)
{
        (void) userdata;
        if (path[0] != '/')
                abort();
        return strlen(path) > 1000000;
}

static void fuzz_cache(const uint8_t *data, size_t size)
{
        _cleanup_(ld_cache_freep) LdCache *c = NULL;
        _cleanup_free_ char *name = NULL;
        size_t n = size > 0 ? data[0] : 0;

        if (size < 1 + n)
                return;
        size_t rest = size - 1 - n;
        char *copy = malloc(rest ? rest
                                 : 1); /* of the exact size, so that sanitizers detect reads beyond it */
        name = strndup((const char *) data + 1, n);
        if (!name || !copy) {
                free(copy);
                return;
        }
        memcpy(copy, data + 1 + n, rest);
        if (ld_cache_new(copy, rest, &c) >= 0)
                (void) ld_cache_lookup(c, name, check_path, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (size > 0 && data[0] == 'C')
                fuzz_cache(data + 1, size - 1);
        else
                fuzz_elf(data, size);
        return 0;
}
