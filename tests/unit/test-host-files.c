/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* stage1/host-files.c: the files of a pod's systemd, in trees made for the tests and on this machine, where
 * the results are compared with the loader. */

#include <dlfcn.h>
#include <sys/stat.h>

#include "stage1/elf-file.h"
#include "stage1/stage1.h"
#include "stage1/stub/libcrypto.h"
#include "tests/unit/child.h"
#include "tests/unit/elf-builder.h"
#include "tests/unit/ld-cache-builder.h"
#include "tests/unit/scratch.h"
#include "tests/unit/test.h"

#define MULTIARCH "usr/lib/x86_64-linux-gnu"
#define PROGRAM .interpreter = "/lib64/ld-linux-x86-64.so.2"

/* --- Trees --------------------------------------------------------------------------------------------- */

static int put_file(const Scratch *s, const char *path, const void *p, size_t n)
{
        _cleanup_free_ char *directory = strdup(path);
        char *slash = strrchr(directory, '/');

        if (slash) {
                *slash = 0;
                int r = mkdir_p_in_root(s->fd, directory, 0755, NULL);
                if (r < 0)
                        return r;
        }
        (void) unlinkat(s->fd, path, 0);
        return write_file_new_at(s->fd, path, p, n, 0755);
}

static int put_elf(const Scratch *s, const char *path, const ElfPlan *plan)
{
        static ElfImage image;

        elf_build(plan, &image);
        return put_file(s, path, image.bytes, image.size);
}

/* A host with programs that need nothing but the loader. */
static int new_tree(Scratch *s)
{
        static const char *const programs[] = {"systemd", "systemd-journald"};
        int r = scratch_new(s);

        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(programs); i++) {
                _cleanup_free_ char *path = NULL;
                r = xasprintf(&path, "usr/lib/systemd/%s", programs[i]);
                if (r >= 0)
                        r = put_elf(s, path, &(ElfPlan){PROGRAM});
        }
        if (r >= 0)
                r = put_elf(s, "usr/lib64/ld-linux-x86-64.so.2", &(ElfPlan){});
        if (r >= 0)
                r = scratch_symlink(s, "lib", "usr/lib");
        return r < 0 ? r : scratch_symlink(s, "lib64", "usr/lib64");
}

static int put_systemd(const Scratch *s, const ElfPlan *plan)
{
        return put_elf(s, "usr/lib/systemd/systemd", plan);
}

/* The files beyond the two programs and the loader, with a space between them. */
static int libraries_of(const Scratch *s, char **ret)
{
        _cleanup_stage1_host_files_ Stage1HostFiles files = {};
        _cleanup_error_ Error e = {};
        int r = stage1_host_files(s->fd, NULL, &files, &e);

        if (r < 0)
                return r;
        *ret = strv_join(files.paths + MIN(strv_length(files.paths), (size_t) 3), " ");
        return 0;
}

static void check_libraries(const Scratch *s, const char *expected)
{
        _cleanup_free_ char *libraries = NULL;

        ASSERT_OK(libraries_of(s, &libraries));
        ASSERT_STREQ(libraries, expected);
}

static void check_error(const Scratch *s, int code, const char *message, const char *hint)
{
        _cleanup_error_ Error e = {};
        Stage1HostFiles files = {};

        ASSERT_ERR(stage1_host_files(s->fd, NULL, &files, &e), code);
        ASSERT_NULL(files.paths);
        ASSERT_CONTAINS(e.message, message);
        if (hint)
                ASSERT_CONTAINS(e.hint, hint);
}

TEST(programs_and_loader)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_stage1_host_files_ Stage1HostFiles files = {};
        _cleanup_free_ char *text = NULL;

        ASSERT_OK(new_tree(&s));
        ASSERT_OK(put_elf(&s, "usr/lib/systemd/systemd-executor", &(ElfPlan){PROGRAM}));
        ASSERT_OK(stage1_host_files(s.fd, NULL, &files, NULL));
        text = strv_join(files.paths, "\n");
        ASSERT_STREQ(text, "/usr/lib/systemd/systemd\n"
                           "/usr/lib/systemd/systemd-journald\n"
                           "/usr/lib/systemd/systemd-executor\n"
                           "/usr/lib64/ld-linux-x86-64.so.2");
}

TEST(missing_files_are_named)
{
        static const char *const programs[] = {"systemd", "systemd-journald"};

        for (size_t i = 0; i < ELEMENTSOF(programs); i++) {
                _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
                _cleanup_free_ char *path = NULL, *message = NULL;
                ASSERT_OK(new_tree(&s));
                ASSERT_OK(xasprintf(&path, "usr/lib/systemd/%s", programs[i]));
                ASSERT_OK(xasprintf(&message, "Program /%s does not exist for this machine", path));
                ASSERT_OK(unlinkat(s.fd, path, 0));
                check_error(&s, -ENOENT, message, "(on Debian: systemd)");
        }
}

TEST(missing_loader_and_library)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;

        ASSERT_OK(new_tree(&s));
        ASSERT_OK(put_systemd(&s, &(ElfPlan){PROGRAM, .needed = {"liba.so.1"}}));
        ASSERT_OK(put_elf(&s, MULTIARCH "/liba.so.1", &(ElfPlan){.needed = {"libb.so.2"}}));
        check_error(&s, -ENOENT,
                    "/" MULTIARCH "/liba.so.1 needs the library libb.so.2, which does not exist",
                    "package that has libb.so.2");
        ASSERT_OK(put_elf(&s, MULTIARCH "/libb.so.2", &(ElfPlan){}));
        check_libraries(&s, "/" MULTIARCH "/liba.so.1 /" MULTIARCH "/libb.so.2");
        ASSERT_OK(unlinkat(s.fd, "usr/lib64/ld-linux-x86-64.so.2", 0));
        check_error(&s, -ENOENT, "/usr/lib/systemd/systemd needs the loader /lib64/ld-linux-x86-64.so.2",
                    "libc6");
}

TEST(broken_files_are_named)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        static ElfPlan many;

        ASSERT_OK(new_tree(&s));
        ASSERT_OK(put_systemd(&s, &(ElfPlan){PROGRAM, .needed = {"liba.so"}}));
        ASSERT_OK(put_file(&s, "usr/lib/liba.so", ELFMAG, SELFMAG));
        check_error(&s, -ENOENT, "needs the library liba.so", NULL); /* too short to be an ELF file at all */
        for (size_t i = 0; i < ELEMENTSOF(many.needed) - 1; i++)
                many.needed[i] = "libx.so";
        ASSERT_OK(put_elf(&s, "usr/lib/liba.so", &many));
        check_error(&s, -E2BIG, "Cannot read the dependencies of /usr/lib/liba.so", NULL);
        ASSERT_OK(put_file(&s, "usr/lib/systemd/systemd", "#!/bin/sh\n", 10));
        check_error(&s, -ENOENT, "Program /usr/lib/systemd/systemd", NULL);
}

/* --- Where libraries are found ------------------------------------------------------------------------- */

TEST(circles)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;

        ASSERT_OK(new_tree(&s));
        ASSERT_OK(put_systemd(&s, &(ElfPlan){PROGRAM, .needed = {"liba.so"}}));
        ASSERT_OK(put_elf(&s, "usr/lib/liba.so",
                          &(ElfPlan){.needed = {"libb.so", "liba.so", "ld-linux-x86-64.so.2"}}));
        ASSERT_OK(put_elf(&s, "usr/lib/libb.so", &(ElfPlan){.needed = {"liba.so"}}));
        check_libraries(&s, "/usr/lib/liba.so /usr/lib/libb.so");
}

TEST(runpath_is_for_its_bringer)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;

        ASSERT_OK(new_tree(&s));
        ASSERT_OK(put_systemd(&s, &(ElfPlan){PROGRAM, .needed = {"liba.so"},
                                             .runpath = "/nowhere::relative:/usr/lib/own"}));
        ASSERT_OK(put_elf(&s, "usr/lib/own/liba.so", &(ElfPlan){.needed = {"libb.so"}}));
        ASSERT_OK(put_elf(&s, "usr/lib/liba.so", &(ElfPlan){}));
        ASSERT_OK(put_elf(&s, "usr/lib/own/libb.so", &(ElfPlan){}));
        check_error(&s, -ENOENT, "/usr/lib/own/liba.so needs the library libb.so", NULL);
        ASSERT_OK(put_elf(&s, "usr/lib/libb.so", &(ElfPlan){}));
        check_libraries(&s, "/usr/lib/own/liba.so /usr/lib/libb.so");
}

/* Like libsystemd-shared for libsystemd-core, which has no path to it: the program has loaded it already. */
TEST(loaded_libraries_are_found)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;

        ASSERT_OK(new_tree(&s));
        ASSERT_OK(put_systemd(&s, &(ElfPlan){PROGRAM, .needed = {"liba.so", "libb.so"},
                                             .runpath = "/usr/lib/own"}));
        ASSERT_OK(put_elf(&s, "usr/lib/own/liba.so", &(ElfPlan){.needed = {"libb.so"}}));
        ASSERT_OK(put_elf(&s, "usr/lib/own/libb.so", &(ElfPlan){}));
        check_libraries(&s, "/usr/lib/own/liba.so /usr/lib/own/libb.so");
}

TEST(rpath_is_inherited)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;

        ASSERT_OK(new_tree(&s));
        ASSERT_OK(put_systemd(&s, &(ElfPlan){PROGRAM, .needed = {"liba.so"}, .rpath = "/usr/lib/own"}));
        ASSERT_OK(put_elf(&s, "usr/lib/own/liba.so", &(ElfPlan){.needed = {"libb.so"}}));
        ASSERT_OK(put_elf(&s, "usr/lib/own/libb.so",
                          &(ElfPlan){.needed = {"libc.so"}, .runpath = "/nowhere"}));
        ASSERT_OK(put_elf(&s, "usr/lib/own/libc.so", &(ElfPlan){}));
        check_error(&s, -ENOENT, "/usr/lib/own/libb.so needs the library libc.so",
                    NULL); /* DT_RUNPATH stops it */
        ASSERT_OK(put_elf(&s, "usr/lib/libc.so", &(ElfPlan){}));
        check_libraries(&s, "/usr/lib/own/liba.so /usr/lib/own/libb.so /usr/lib/libc.so");
}

TEST(origin)
{
        static const char *const lists[] = {"$ORIGIN/../own", "${ORIGIN}/../own",
                                            "$ORIGINAL:$LIB/own:$ORIGIN/./..//own/"};

        for (size_t i = 0; i < ELEMENTSOF(lists); i++) {
                _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
                ASSERT_OK(new_tree(&s));
                ASSERT_OK(put_systemd(&s, &(ElfPlan){PROGRAM, .needed = {"liba.so"}, .runpath = lists[i]}));
                ASSERT_OK(put_elf(&s, "usr/lib/own/liba.so",
                                  &(ElfPlan){.needed = {"libb.so"}, .runpath = "$ORIGIN"}));
                ASSERT_OK(put_elf(&s, "usr/lib/own/libb.so", &(ElfPlan){}));
                check_libraries(&s, "/usr/lib/own/liba.so /usr/lib/own/libb.so");
        }
}

TEST(other_machines_are_passed_over)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;

        ASSERT_OK(new_tree(&s));
        ASSERT_OK(put_systemd(&s, &(ElfPlan){PROGRAM, .needed = {"liba.so"}, .runpath = "/a:/b:/c:/d"}));
        ASSERT_OK(put_elf(&s, "a/liba.so", &(ElfPlan){.narrow = true, .machine = EM_386}));
        ASSERT_OK(put_elf(&s, "b/liba.so", &(ElfPlan){.machine = EM_AARCH64}));
        ASSERT_OK(put_file(&s, "c/liba.so", "GROUP ( libc.so.6 )\n", 20));
        check_error(&s, -ENOENT, "needs the library liba.so", NULL);
        ASSERT_OK(put_elf(&s, "d/liba.so", &(ElfPlan){}));
        check_libraries(&s, "/d/liba.so");
}

TEST(narrow_host)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        static const char *const programs[] = {"systemd", "systemd-journald"};

        ASSERT_OK(new_tree(&s));
        for (size_t i = 0; i < ELEMENTSOF(programs); i++) {
                _cleanup_free_ char *path = NULL;
                ASSERT_OK(xasprintf(&path, "usr/lib/systemd/%s", programs[i]));
                ASSERT_OK(put_elf(&s, path,
                                  &(ElfPlan){.narrow = true,
                                             .machine = EM_386,
                                             .interpreter = "/lib/ld-linux.so.2",
                                             .needed = {"libc.so.6"}}));
        }
        ASSERT_OK(put_elf(&s, "usr/lib/ld-linux.so.2", &(ElfPlan){.narrow = true, .machine = EM_386}));
        ASSERT_OK(put_elf(&s, MULTIARCH "/libc.so.6", &(ElfPlan){}));
        ASSERT_OK(put_elf(&s, "usr/lib/i386-linux-gnu/libc.so.6",
                          &(ElfPlan){.narrow = true, .machine = EM_386}));
        check_libraries(&s, "/usr/lib/i386-linux-gnu/libc.so.6");
}

/* A host on which /lib is a directory of its own. */
TEST(host_without_merged_usr)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;

        ASSERT_OK(new_tree(&s));
        ASSERT_OK(unlinkat(s.fd, "lib", 0));
        ASSERT_OK(put_systemd(&s, &(ElfPlan){PROGRAM, .needed = {"liba.so", "libb.so"}}));
        ASSERT_OK(put_elf(&s, "lib/x86_64-linux-gnu/liba.so", &(ElfPlan){}));
        ASSERT_OK(put_elf(&s, MULTIARCH "/libb.so", &(ElfPlan){}));
        check_libraries(&s, "/lib/x86_64-linux-gnu/liba.so /" MULTIARCH "/libb.so");
}

TEST(links_stay_inside_and_keep_their_name)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;

        ASSERT_OK(new_tree(&s));
        ASSERT_OK(put_systemd(&s, &(ElfPlan){PROGRAM, .needed = {"liba.so.1", "libb.so"}}));
        ASSERT_OK(put_elf(&s, "usr/lib/liba.so.1.2.3", &(ElfPlan){}));
        ASSERT_OK(scratch_symlink(&s, "usr/lib/liba.so.1", "liba.so.1.2.3"));
        ASSERT_OK(scratch_symlink(&s, "usr/lib/libb.so", "/proc/self/exe"));
        check_error(&s, -ENOENT, "needs the library libb.so", NULL);
        ASSERT_OK(unlinkat(s.fd, "usr/lib/libb.so", 0));
        ASSERT_OK(scratch_symlink(&s, "usr/lib/libb.so", "libb.so"));
        check_error(&s, -ENOENT, "needs the library libb.so", NULL);
        ASSERT_OK(unlinkat(s.fd, "usr/lib/libb.so", 0));
        ASSERT_OK(mkfifoat(s.fd, "usr/lib/libb.so", 0600));
        check_error(&s, -ENOENT, "needs the library libb.so", NULL);
        ASSERT_OK(unlinkat(s.fd, "usr/lib/libb.so", 0));
        ASSERT_OK(put_elf(&s, "usr/lib/libb.so", &(ElfPlan){}));
        check_libraries(&s, "/usr/lib/liba.so.1 /usr/lib/libb.so");
}

TEST(names_with_slashes)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;

        ASSERT_OK(new_tree(&s));
        ASSERT_OK(put_elf(&s, "usr/lib/own/liba.so", &(ElfPlan){}));
        ASSERT_OK(put_systemd(&s, &(ElfPlan){PROGRAM, .needed = {"/lib/own/liba.so"}}));
        check_libraries(&s, "/usr/lib/own/liba.so");
        ASSERT_OK(put_systemd(&s, &(ElfPlan){PROGRAM, .needed = {"own/liba.so"}}));
        check_error(&s, -ENOENT, "needs the library own/liba.so", NULL);
        ASSERT_OK(put_systemd(&s, &(ElfPlan){PROGRAM, .needed = {"/"}}));
        check_error(&s, -ENOENT, "needs the library /,", NULL);
}

/* --- The cache ----------------------------------------------------------------------------------------- */

static int put_cache(const Scratch *s, const CacheLine *lines, size_t n)
{
        _cleanup_free_ char *data = NULL;
        size_t size;
        int r = cache_build(lines, n, false, &data, &size);

        return r < 0 ? r : put_file(s, "etc/ld.so.cache", data, size);
}

TEST(cache_goes_before_default_directories)
{
        static const CacheLine lines[] = {{"liba.so", "/lib32/liba.so", 0},
                                          {"liba.so", "/usr/lib/first/../liba.so", 0}};
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;

        ASSERT_OK(new_tree(&s));
        ASSERT_OK(put_systemd(&s, &(ElfPlan){PROGRAM, .needed = {"liba.so"}}));
        ASSERT_OK(put_elf(&s, "usr/lib32/liba.so", &(ElfPlan){.narrow = true, .machine = EM_386}));
        ASSERT_OK(put_elf(&s, MULTIARCH "/liba.so", &(ElfPlan){}));
        ASSERT_OK(put_elf(&s, "usr/lib/liba.so", &(ElfPlan){}));
        ASSERT_OK(put_cache(&s, lines, ELEMENTSOF(lines)));
        check_libraries(&s, "/usr/lib/liba.so");
}

TEST(cache_is_needed_where_only_it_knows)
{
        static const CacheLine lines[] = {{"liba.so", "/opt/a/liba.so", 0}};
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;

        ASSERT_OK(new_tree(&s));
        ASSERT_OK(put_systemd(&s, &(ElfPlan){PROGRAM, .needed = {"liba.so"}}));
        ASSERT_OK(put_elf(&s, "opt/a/liba.so", &(ElfPlan){}));
        check_error(&s, -ENOENT, "needs the library liba.so", NULL);
        ASSERT_OK(put_cache(&s, lines, ELEMENTSOF(lines)));
        check_libraries(&s, "/opt/a/liba.so /etc/ld.so.cache");
        ASSERT_OK(put_systemd(&s,
                              &(ElfPlan){PROGRAM, .needed = {"liba.so"}, .no_default_directories = true}));
        check_error(&s, -ENOENT, "needs the library liba.so", NULL);
}

TEST(damaged_cache_is_passed_over)
{
        static const char *const caches[] = {"", "garbage", "glibc-ld.so.cache1.1 garbage"};

        for (size_t i = 0; i < ELEMENTSOF(caches); i++) {
                _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
                ASSERT_OK(new_tree(&s));
                ASSERT_OK(put_systemd(&s, &(ElfPlan){PROGRAM, .needed = {"liba.so"}}));
                ASSERT_OK(put_elf(&s, MULTIARCH "/liba.so", &(ElfPlan){}));
                ASSERT_OK(put_file(&s, "etc/ld.so.cache", caches[i], strlen(caches[i])));
                check_libraries(&s, "/" MULTIARCH "/liba.so");
        }
}

/* --- What may be opened at run time -------------------------------------------------------------------- */

TEST(dlopen_notes)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;

        ASSERT_OK(new_tree(&s));
        ASSERT_OK(put_systemd(&s,
                              &(ElfPlan){PROGRAM, .needed = {"liba.so"},
                                         .notes = {"[{\"feature\":\"x\",\"soname\":[\"libx.so.2\",\"libx.so."
                                                   "1\"]}]",
                                                   "[{\"feature\":\"y\",\"soname\":[\"liby.so\"]}]",
                                                   "[{\"feature\":\"tpm\",\"soname\":[\"libtpm.so\"]}]"}}));
        ASSERT_OK(put_elf(&s, "usr/lib/liba.so", &(ElfPlan){.notes = {"[{\"soname\":[\"libw.so\"]}]"}}));
        check_libraries(&s, "/usr/lib/liba.so");
        ASSERT_OK(put_elf(&s, "usr/lib/libx.so.1", &(ElfPlan){.needed = {"libdeep.so", "libmissing.so"}}));
        ASSERT_OK(put_elf(&s, "usr/lib/libdeep.so", &(ElfPlan){}));
        ASSERT_OK(put_elf(&s, "usr/lib/libtpm.so", &(ElfPlan){}));
        ASSERT_OK(put_elf(&s, "usr/lib/libw.so", &(ElfPlan){}));
        check_libraries(&s, "/usr/lib/liba.so /usr/lib/libx.so.1 /usr/lib/libw.so /usr/lib/libdeep.so");
        ASSERT_OK(put_elf(&s, "usr/lib/libx.so.2", &(ElfPlan){}));
        check_libraries(&s, "/usr/lib/liba.so /usr/lib/libx.so.2 /usr/lib/libw.so");
}

TEST(broken_wishes_are_no_fault)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        static ElfImage image;

        ASSERT_OK(new_tree(&s));
        ASSERT_OK(put_systemd(&s, &(ElfPlan){PROGRAM, .notes = {"[{\"soname\":[\"libx.so\"]}]"}}));
        elf_build(&(ElfPlan){.needed = {"liby.so"}}, &image);
        ASSERT_OK(put_file(&s, "usr/lib/libx.so", image.bytes, image.size - 8));
        check_libraries(&s, "");
}

/* --- Bounds -------------------------------------------------------------------------------------------- */

TEST(too_many_libraries)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;

        ASSERT_OK(new_tree(&s));
        ASSERT_OK(put_systemd(&s, &(ElfPlan){PROGRAM, .needed = {"lib0.so"}}));
        for (unsigned i = 0; i < 520; i++) {
                char path[64], next[32];
                snprintf(path, sizeof(path), MULTIARCH "/lib%u.so", i);
                snprintf(next, sizeof(next), "lib%u.so", i + 1);
                ASSERT_OK(put_elf(&s, path, &(ElfPlan){.needed = {next}}));
        }
        check_error(&s, -E2BIG, "The systemd of the pod needs more than 512 files", NULL);
}

/* --- The stub of libcrypto ----------------------------------------------------------------------------- */

#define CRYPTO "libcrypto.so.3"
#define CRYPTO_PATH "/" MULTIARCH "/" CRYPTO
#define KNOWN                                                                                               \
        {                                                                                                   \
                CRYPTO, "OPENSSL_3.0.0", "EVP_sha256"                                                       \
        }

/* Whose systemd needs a library, of that plan, and a libcrypto. */
static int new_crypto_tree(Scratch *s, const ElfPlan *library)
{
        int r = new_tree(s);

        if (r >= 0)
                r = put_systemd(s, &(ElfPlan){PROGRAM, .needed = {"liba.so"}});
        if (r >= 0)
                r = put_elf(s, MULTIARCH "/liba.so", library);
        return r < 0 ? r : put_elf(s, MULTIARCH "/" CRYPTO, &(ElfPlan){});
}

static const char *replaced_in(const Scratch *s)
{
        static char path[256];
        _cleanup_stage1_host_files_ Stage1HostFiles files = {};

        if (stage1_host_files(s->fd, NULL, &files, NULL) < 0)
                return "nothing, it failed";
        snprintf(path, sizeof(path), "%s", files.libcrypto ?: "");
        return path;
}

static void check_replaced(const ElfPlan *library, const char *expected)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;

        ASSERT_OK(new_crypto_tree(&s, library));
        ASSERT_STREQ(replaced_in(&s), expected);
}

TEST(stub_where_it_has_all)
{
#ifndef __x86_64__
        TEST_SKIP("the trees are for x86-64, and the stub is not");
#endif
        check_replaced(&(ElfPlan){.needed = {CRYPTO}, .imports = {KNOWN}}, CRYPTO_PATH);
        check_replaced(&(ElfPlan){.needed = {CRYPTO},
                                  .imports = {KNOWN, {CRYPTO, "OPENSSL_3.0.0", "BN_free"}}},
                       CRYPTO_PATH);
        check_replaced(&(ElfPlan){.needed = {CRYPTO, "libb.so"},
                                  .imports = {KNOWN, {"libb.so", "B_1", "something"}}},
                       "nothing, it failed"); /* libb.so is not there */
        check_replaced(&(ElfPlan){}, "");     /* and it is not needed */
}

TEST(no_stub_that_lacks_something)
{
        check_replaced(&(ElfPlan){.needed = {CRYPTO},
                                  .imports = {KNOWN, {CRYPTO, "OPENSSL_3.0.0", "RSA_new"}}},
                       "");
        check_replaced(&(ElfPlan){.needed = {CRYPTO},
                                  .imports = {KNOWN, {CRYPTO, "OPENSSL_3.2.0", "BN_free"}}},
                       "");
        /* Without versions and without a hash table this cannot be determined. */
        check_replaced(&(ElfPlan){.needed = {CRYPTO}}, "");
        check_replaced(&(ElfPlan){.needed = {CRYPTO}, .imports = {KNOWN}, .no_hash = true}, "");
        /* What is looked up at run time is in no table. */
        check_replaced(&(ElfPlan){.needed = {CRYPTO},
                                  .imports = {KNOWN},
                                  .notes = {"[{\"feature\":\"x\",\"soname\":[\"" CRYPTO "\"]}]"}},
                       "");
}

/* The library that lacks something may be any. */
TEST(no_stub_if_one_of_many_needs_more)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;

        ASSERT_OK(new_crypto_tree(&s, &(ElfPlan){.needed = {CRYPTO, "libb.so"}, .imports = {KNOWN}}));
        ASSERT_OK(put_elf(
                        &s, MULTIARCH "/libb.so",
                        &(ElfPlan){.needed = {CRYPTO}, .imports = {{CRYPTO, "OPENSSL_3.0.0", "RSA_new"}}}));
        ASSERT_STREQ(replaced_in(&s), "");
}

TEST(no_stub_of_another_machine)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        static const char crypto[] = "usr/lib/i386-linux-gnu/" CRYPTO;
        static const char *const files[] = {"usr/lib/systemd/systemd-journald", "usr/lib/ld-linux.so.2", crypto};
        ElfPlan library = {.narrow = true, .machine = EM_386, .needed = {CRYPTO}, .imports = {KNOWN}};

        ASSERT_OK(new_tree(&s));
        for (size_t i = 0; i < ELEMENTSOF(files); i++)
                ASSERT_OK(put_elf(&s, files[i], &(ElfPlan){.narrow = true, .machine = EM_386}));
        ASSERT_OK(put_systemd(&s, &(ElfPlan){.narrow = true,
                                             .machine = EM_386,
                                             .needed = {"liba.so"},
                                             .interpreter = "/lib/ld-linux.so.2"}));
        ASSERT_OK(put_elf(&s, "usr/lib/i386-linux-gnu/liba.so", &library));
        ASSERT_STREQ(replaced_in(&s), "");
}

TEST(no_stub_for_two_libraries)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;

        ASSERT_OK(new_crypto_tree(&s, &(ElfPlan){.needed = {CRYPTO, "libb.so"}, .imports = {KNOWN}}));
        ASSERT_OK(put_elf(&s, MULTIARCH "/libb.so",
                          &(ElfPlan){.needed = {CRYPTO}, .imports = {KNOWN}, .runpath = "/usr/lib/own"}));
        ASSERT_OK(put_elf(&s, "usr/lib/own/" CRYPTO, &(ElfPlan){}));
        ASSERT_STREQ(replaced_in(&s), "");
}

static bool program_uses_stub(const Scratch *s, const char *program)
{
        _cleanup_stage1_host_files_ Stage1HostFiles files = {};

        return stage1_host_files(s->fd, program, &files, NULL) >= 0 && files.program_uses_stub;
}

/* Its libraries are examined, too, and are not files of the pod. */
TEST(stub_for_another_program)
{
#ifndef __x86_64__
        TEST_SKIP("the trees are for x86-64, and the stub is not");
#endif
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        ElfPlan more = {.needed = {CRYPTO}, .imports = {{CRYPTO, "OPENSSL_3.0.0", "RSA_new"}}};

        ASSERT_OK(new_crypto_tree(&s, &(ElfPlan){.needed = {CRYPTO}, .imports = {KNOWN}}));
        ASSERT_FALSE(program_uses_stub(&s, "/usr/bin/program")); /* it is not there */
        ASSERT_OK(put_elf(&s, "usr/bin/program", &(ElfPlan){PROGRAM, .needed = {"liba.so", "libonly.so"}}));
        ASSERT_FALSE(program_uses_stub(&s, "/usr/bin/program")); /* nor is one of its libraries */
        ASSERT_OK(put_elf(&s, MULTIARCH "/libonly.so", &(ElfPlan){}));
        ASSERT_TRUE(program_uses_stub(&s, "/usr/bin/program"));
        check_libraries(&s, "/" MULTIARCH "/liba.so " CRYPTO_PATH);
        ASSERT_OK(put_elf(&s, MULTIARCH "/libonly.so", &more));
        ASSERT_FALSE(program_uses_stub(&s, "/usr/bin/program"));
        ASSERT_STREQ(replaced_in(&s), CRYPTO_PATH); /* for the pod it will do */
}

static const char *const stub_names[] = {
#define NAME(name) #name,
                LIBCRYPTO_STUB_FUNCTIONS(NAME)};

/* The entries of the table are in the file that was built, in order. */
TEST(stub_matches_its_table)
{
        const char *path = getenv("ACNSPAWN_TEST_STUB");
        void *stub = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;

        if (!path)
                TEST_SKIP("$ACNSPAWN_TEST_STUB is not set");
        ASSERT_NOT_NULL(stub);
        for (size_t i = 0; i < ELEMENTSOF(stub_names); i++) {
                if (i > 0 && strcmp(stub_names[i - 1], stub_names[i]) >= 0)
                        TEST_FAIL("%s is not behind %s", stub_names[i], stub_names[i - 1]);
                void *(*function)(void) = (void *(*) (void) ) dlvsym(stub, stub_names[i], "OPENSSL_3.0.0");
                if (!function)
                        TEST_FAIL("the stub has no %s", stub_names[i]);
                ASSERT_NULL(function());
        }
        dlclose(stub);
}

/* Not when the tests are run by an emulator. */
static bool systemd_is_for_this_program(void)
{
        _cleanup_close_ int fd = open("/usr/lib/systemd/systemd", O_RDONLY | O_CLOEXEC);
        _cleanup_close_ int self_fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
        _cleanup_elf_file_ ElfFile theirs = {}, own = {};

        return elf_read(fd, &theirs) >= 0 && elf_read(self_fd, &own) >= 0 && theirs.machine == own.machine;
}

/* On this machine: all imports of its libraries are in the stub, or the pod gets the library of the host. */
TEST(stub_on_this_machine)
{
        _cleanup_close_ int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        _cleanup_stage1_host_files_ Stage1HostFiles files = {};
        const char *path = getenv("ACNSPAWN_TEST_STUB");
        void *stub = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
        bool all = true, any = false;

        if (!systemd_is_for_this_program() || !stub)
                TEST_SKIP("this machine has no systemd of its architecture, or $ACNSPAWN_TEST_STUB is not set");
        ASSERT_OK(stage1_host_files(root, "/usr/bin/systemd-nspawn", &files, NULL));
        STRV_FOREACH (file, files.paths) {
                _cleanup_strv_free_ char **imports = NULL;
                _cleanup_close_ int fd = open(*file, O_RDONLY | O_CLOEXEC);
                (void) elf_read_imports(fd, CRYPTO, &imports);
                STRV_FOREACH (import, imports) {
                        char *version = strchr(*import, '@');
                        *version++ = 0;
                        any = true;
                        all = all && dlvsym(stub, *import, version);
                }
        }
        dlclose(stub);
        if (!any)
                TEST_SKIP("no library of systemd links libcrypto here");
        ASSERT_EQ(files.libcrypto != NULL, all);
        if (!all)
                TEST_SKIP("the libraries of systemd import more than the stub has");
        ASSERT_TRUE(files.program_uses_stub);
}

/* --- This machine -------------------------------------------------------------------------------------- */

/* "/lib/x" as "/usr/lib/x", and the directories for particular processors as the general one. */
static int canonical_path(const char *path, size_t n, char **ret)
{
        _cleanup_free_ char *copy = strndup(path, n);
        char *special = strstr(copy, "/glibc-hwcaps/"), *name = strrchr(copy, '/');

        if (special)
                memmove(special, name, strlen(name) + 1);
        return xasprintf(ret, "%s%s", startswith(copy, "/lib") ? "/usr" : "", copy);
}

/* "NAME => PATH (ADDRESS)", or "PATH (ADDRESS)" of the loader itself. */
static int add_listed(char ***l, const char *line)
{
        const char *arrow = strstr(line, " => "), *path = arrow ? arrow + 4 : line + strspn(line, "\t "),
                   *end = strstr(path, " (");
        char *canonical;

        if (path[0] != '/' || !end)
                return 0;
        int r = canonical_path(path, (size_t) (end - path), &canonical);
        if (r >= 0 && strv_contains(*l, canonical)) {
                free(canonical);
                return 0;
        }
        return r < 0 ? r : strv_consume(l, canonical);
}

static int list_with_loader(const char *loader, const char *program, char ***l)
{
        char *argv[] = {(char *) loader, (char *) "--list", (char *) program, NULL};
        _cleanup_strv_free_ char **lines = NULL;
        _cleanup_free_ char *text = NULL;
        int r = child_output(argv, &text);

        if (r >= 0)
                r = strv_split(text, "\n", &lines);
        for (char **line = lines; r >= 0 && line && *line; line++)
                r = add_listed(l, *line);
        return r;
}

static size_t count_wishes(char *const *files)
{
        size_t n = 0;

        STRV_FOREACH (file, files) {
                _cleanup_elf_file_ ElfFile f = {};
                _cleanup_close_ int fd = open(*file, O_RDONLY | O_CLOEXEC);
                if (elf_read(fd, &f) >= 0)
                        n += f.n_dlopen_notes;
        }
        return n;
}

static int is_program(const char *path)
{
        return startswith(path, "/usr/lib/systemd/systemd") != NULL;
}

TEST(same_as_the_loader)
{
        _cleanup_close_ int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        _cleanup_stage1_host_files_ Stage1HostFiles found = {};
        _cleanup_strv_free_ char **listed = NULL;
        const char *loader = NULL;

        if (access("/usr/lib/systemd/systemd", X_OK) < 0)
                TEST_SKIP("this machine has no systemd");
        ASSERT_OK(stage1_host_files(root, NULL, &found, NULL));
        char **files = found.paths;
        STRV_FOREACH (file, files)
                if (strstr(*file, "/ld-") || strstr(*file, "/ld64"))
                        loader = *file;
        ASSERT_NOT_NULL(loader);
        STRV_FOREACH (file, files)
                if (is_program(*file))
                        ASSERT_OK(list_with_loader(loader, *file, &listed));
        ASSERT_GT(strv_length(listed), 5);
        STRV_FOREACH (file, listed)
                if (!strv_contains(files, *file))
                        TEST_FAIL("%s is not among the files found", *file);
        if (count_wishes(files) > 0)
                return; /* then there may be more */
        STRV_FOREACH (file, files)
                if (!is_program(*file) && !strv_contains(listed, *file) && !streq(*file, "/etc/ld.so.cache"))
                        TEST_FAIL("%s is not what the loader loads", *file);
}

int main(void)
{
        /* meson sets this variable so that tests find the stub; the programs run here must find the real
         * library. */
        (void) unsetenv("LD_LIBRARY_PATH");
        RUN(programs_and_loader);
        RUN(missing_files_are_named);
        RUN(missing_loader_and_library);
        RUN(broken_files_are_named);
        RUN(circles);
        RUN(runpath_is_for_its_bringer);
        RUN(loaded_libraries_are_found);
        RUN(rpath_is_inherited);
        RUN(origin);
        RUN(other_machines_are_passed_over);
        RUN(narrow_host);
        RUN(host_without_merged_usr);
        RUN(links_stay_inside_and_keep_their_name);
        RUN(names_with_slashes);
        RUN(cache_goes_before_default_directories);
        RUN(cache_is_needed_where_only_it_knows);
        RUN(damaged_cache_is_passed_over);
        RUN(dlopen_notes);
        RUN(broken_wishes_are_no_fault);
        RUN(too_many_libraries);
        RUN(stub_where_it_has_all);
        RUN(no_stub_that_lacks_something);
        RUN(no_stub_if_one_of_many_needs_more);
        RUN(no_stub_of_another_machine);
        RUN(no_stub_for_two_libraries);
        RUN(stub_for_another_program);
        RUN(stub_matches_its_table);
        RUN(stub_on_this_machine);
        RUN(same_as_the_loader);
        return TEST_END();
}
