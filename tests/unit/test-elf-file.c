/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* stage1/elf-file.c: the libraries that an ELF file needs are read, and malformed files are refused. */

#include <sys/mman.h>

#include "stage1/elf-file.h"
#include "tests/unit/elf-builder.h"
#include "tests/unit/scratch.h"
#include "tests/unit/test.h"

static int file_of(const void *p, size_t n)
{
        int fd = memfd_create("elf", MFD_CLOEXEC);

        return fd >= 0 && loop_write(fd, p, n) >= 0 ? fd : -EBADF;
}

static int read_bytes(const void *p, size_t n, ElfFile *ret)
{
        _cleanup_close_ int fd = file_of(p, n);

        return elf_read(fd, ret);
}

static int read_plan(const ElfPlan *p, ElfFile *ret)
{
        static ElfImage image;

        elf_build(p, &image);
        return read_bytes(image.bytes, image.size, ret);
}

static const ElfPlan full_plan = {
                .interpreter = "/lib64/ld-linux.so.2",
                .runpath = "/usr/lib/private:$ORIGIN",
                .rpath = "/old",
                .needed = {"libone.so.1", "libtwo.so.2"},
                .notes = {"[{\"feature\":\"zip\",\"soname\":[\"libz.so.2\",\"libz.so.1\"]}]",
                          "[{\"soname\":[\"liby.so\"]},{}]"},
                .no_default_directories = true,
};

static void check_full(const ElfFile *f)
{
        ASSERT_STREQ(f->interpreter, "/lib64/ld-linux.so.2");
        ASSERT_STREQ(f->runpath, "/usr/lib/private:$ORIGIN");
        ASSERT_STREQ(f->rpath, "/old");
        ASSERT_TRUE(f->no_default_directories);
        ASSERT_EQ(strv_length(f->needed), 2);
        ASSERT_STREQ(f->needed[0], "libone.so.1");
        ASSERT_STREQ(f->needed[1], "libtwo.so.2");
        ASSERT_EQ(f->n_dlopen_notes, 2);
        ASSERT_STREQ(f->dlopen_notes[0].feature, "zip");
        ASSERT_EQ(strv_length(f->dlopen_notes[0].sonames), 2);
        ASSERT_STREQ(f->dlopen_notes[0].sonames[1], "libz.so.1");
        ASSERT_STREQ(f->dlopen_notes[1].feature, "");
        ASSERT_STREQ(f->dlopen_notes[1].sonames[0], "liby.so");
}

TEST(both_classes)
{
        for (int narrow = 0; narrow < 2; narrow++) {
                _cleanup_elf_file_ ElfFile f = {};
                ElfPlan p = full_plan;
                p.narrow = narrow;
                p.machine = narrow ? EM_386 : EM_X86_64;
                ASSERT_OK(read_plan(&p, &f));
                ASSERT_EQ(f.elf_class, narrow ? ELFCLASS32 : ELFCLASS64);
                ASSERT_EQ(f.machine, narrow ? EM_386 : EM_X86_64);
                check_full(&f);
        }
}

TEST(nothing_needed)
{
        _cleanup_elf_file_ ElfFile f = {};

        ASSERT_OK(read_plan(&(ElfPlan){}, &f));
        ASSERT_NULL(f.needed);
        ASSERT_NULL(f.interpreter);
        ASSERT_NULL(f.runpath);
        ASSERT_EQ(f.n_dlopen_notes, 0);
}

TEST(no_elf_file)
{
        _cleanup_close_ int directory = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        static ElfImage image;
        ElfFile f;

        ASSERT_ERR(read_bytes("", 0, &f), -ENOEXEC);
        ASSERT_ERR(read_bytes("#!/bin/sh\nexec true and a long line of no meaning at all here\n", 62, &f),
                   -ENOEXEC);
        ASSERT_ERR(elf_read(directory, &f), -ENOEXEC);
        ASSERT_ERR(elf_read(-EBADF, &f), -EBADF);
        ASSERT_ERR(read_plan(&(ElfPlan){.type = ET_REL}, &f), -ENOEXEC);
        ASSERT_ERR(read_plan(&(ElfPlan){.type = ET_CORE}, &f), -ENOEXEC);

        elf_build(&full_plan, &image);
        image.bytes[EI_DATA] = image.bytes[EI_DATA] == ELFDATA2LSB ? ELFDATA2MSB : ELFDATA2LSB;
        ASSERT_ERR(read_bytes(image.bytes, image.size, &f), -ENOEXEC);
}

/* A truncated file, at any length, has offsets beyond its end. */
TEST(truncated_anywhere)
{
        for (int narrow = 0; narrow < 2; narrow++) {
                static ElfImage image;
                ElfPlan p = full_plan;
                p.narrow = narrow;
                elf_build(&p, &image);
                for (size_t n = 0; n < image.size; n++) {
                        ElfFile f;
                        int r = read_bytes(image.bytes, n, &f);
                        if (r != -ENOEXEC && r != -EBADMSG)
                                TEST_FAIL("%zu of %zu bytes: %d", n, image.size, r);
                }
        }
}

/* Not every changed byte can be detected, but none may cause invalid accesses, which sanitizers detect. */
TEST(damaged_anywhere)
{
        static const unsigned char values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
        static ElfImage image;

        elf_build(&full_plan, &image);
        for (size_t i = 0; i < image.size; i++)
                for (size_t k = 0; k < ELEMENTSOF(values); k++) {
                        _cleanup_elf_file_ ElfFile f = {};
                        char saved = image.bytes[i];
                        image.bytes[i] = (char) values[k];
                        int r = read_bytes(image.bytes, image.size, &f);
                        image.bytes[i] = saved;
                        if (r != 0 && r != -ENOEXEC && r != -EBADMSG && r != -E2BIG)
                                TEST_FAIL("byte %zu as 0x%02x: %d", i, values[k], r);
                }
}

/* --- Imports ------------------------------------------------------------------------------------------- */

static int imports_of_bytes(const void *p, size_t n, const char *library, char ***ret)
{
        _cleanup_close_ int fd = file_of(p, n);

        return elf_read_imports(fd, library, ret);
}

static int imports_of(const ElfPlan *p, const char *library, char ***ret)
{
        static ElfImage image;

        elf_build(p, &image);
        return imports_of_bytes(image.bytes, image.size, library, ret);
}

static const ElfPlan importing_plan = {
                .needed = {"liba.so.1", "libb.so.2"},
                .imports = {{"liba.so.1", "A_1", "first"},
                            {"libb.so.2", "B_1", "other"},
                            {"liba.so.1", "A_2", "second"}},
};

TEST(imports_of_one_library)
{
        for (int i = 0; i < 4; i++) {
                _cleanup_strv_free_ char **a = NULL, **b = NULL;
                _cleanup_free_ char *all = NULL;
                ElfPlan p = importing_plan;
                char **none = NULL;
                p.narrow = i & 1;
                p.hashed = i & 2;
                ASSERT_OK(imports_of(&p, "liba.so.1", &a));
                all = strv_join(a, " ");
                ASSERT_STREQ(all, "first@A_1 second@A_2");
                ASSERT_OK(imports_of(&p, "libb.so.2", &b));
                ASSERT_EQ(strv_length(b), 1);
                ASSERT_STREQ(b[0], "other@B_1");
                ASSERT_ERR(imports_of(&p, "libc.so.3", &none), -ENODATA);
        }
}

TEST(imports_that_cannot_be_determined)
{
        ElfPlan p = importing_plan;
        char **none = NULL;

        ASSERT_ERR(imports_of(&(ElfPlan){.needed = {"liba.so.1"}}, "liba.so.1", &none), -ENODATA);
        p.no_hash = true;
        ASSERT_ERR(imports_of(&p, "liba.so.1", &none), -ENODATA);
        ASSERT_ERR(imports_of_bytes("#!/bin/sh\n", 10, "liba.so.1", &none), -ENOEXEC);
}

TEST(imports_of_damaged_files)
{
        static const unsigned char values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
        static ElfImage image;

        for (int hashed = 0; hashed < 2; hashed++) {
                ElfPlan p = importing_plan;
                p.hashed = hashed;
                elf_build(&p, &image);
                for (size_t n = 0; n < image.size; n++) {
                        char **none = NULL;
                        int r = imports_of_bytes(image.bytes, n, "liba.so.1", &none);
                        if (r != -ENOEXEC && r != -EBADMSG)
                                TEST_FAIL("%zu of %zu bytes: %d", n, image.size, r);
                }
                for (size_t i = 0; i < image.size; i++)
                        for (size_t k = 0; k < ELEMENTSOF(values); k++) {
                                _cleanup_strv_free_ char **l = NULL;
                                char saved = image.bytes[i];
                                image.bytes[i] = (char) values[k];
                                int r = imports_of_bytes(image.bytes, image.size, "liba.so.1", &l);
                                image.bytes[i] = saved;
                                if (r != 0 && r != -ENOEXEC && r != -EBADMSG && r != -E2BIG && r != -ENODATA)
                                        TEST_FAIL("byte %zu as 0x%02x: %d", i, values[k], r);
                        }
        }
}

/* --- Bounds -------------------------------------------------------------------------------------------- */

static const char *needed_names(ElfPlan *p, size_t n, const char *name)
{
        for (size_t i = 0; i < n; i++)
                p->needed[i] = name;
        return name;
}

TEST(absurd_counts)
{
        static ElfImage image;
        static ElfPlan p;
        char name[300];
        ElfFile f;

        needed_names(&p, 256, "liba.so");
        {
                _cleanup_elf_file_ ElfFile good = {};
                ASSERT_OK(read_plan(&p, &good));
                ASSERT_EQ(strv_length(good.needed), 256);
        }
        needed_names(&p, 257, "liba.so");
        ASSERT_ERR(read_plan(&p, &f), -E2BIG);

        memset(name, 'a', sizeof(name));
        name[255] = 0;
        {
                _cleanup_elf_file_ ElfFile good = {};
                ASSERT_OK(read_plan(&(ElfPlan){.needed = {name}}, &good));
                ASSERT_STREQ(good.needed[0], name);
        }
        name[255] = 'a';
        name[256] = 0;
        ASSERT_ERR(read_plan(&(ElfPlan){.needed = {name}}, &f), -E2BIG);

        elf_build(&full_plan, &image);
        Elf64_Ehdr h;
        memcpy(&h, image.bytes, sizeof(h));
        h.e_phnum = 0xffff;
        memcpy(image.bytes, &h, sizeof(h));
        ASSERT_ERR(read_bytes(image.bytes, image.size, &f), -E2BIG);
        h.e_phnum = ELF_BUILDER_SEGMENTS;
        h.e_phoff = UINT64_MAX - 8;
        memcpy(image.bytes, &h, sizeof(h));
        ASSERT_ERR(read_bytes(image.bytes, image.size, &f), -EBADMSG);
        h.e_phoff = sizeof(h);
        h.e_phentsize = 1;
        memcpy(image.bytes, &h, sizeof(h));
        ASSERT_ERR(read_bytes(image.bytes, image.size, &f), -EBADMSG);
}

/* Thousands of notes, in a file that is nothing else. */
TEST(endless_notes)
{
        static ElfImage image;
        Elf64_Phdr notes = {.p_type = PT_NOTE, .p_align = 4};
        ElfFile f;

        elf_build(&(ElfPlan){}, &image);
        notes.p_offset = image.size;
        notes.p_filesz = sizeof(image.bytes) - image.size;
        image.size = sizeof(image.bytes); /* zeros: notes without name and content */
        memcpy(image.bytes + sizeof(Elf64_Ehdr) + 2 * sizeof(notes), &notes, sizeof(notes));
        ASSERT_ERR(read_bytes(image.bytes, image.size, &f), -E2BIG);
}

/* What may be missing may also be described badly. */
TEST(notes_that_say_nothing)
{
        static const char *const texts[] = {
                        "",
                        "{",
                        "{}",
                        "[1, null, [], {}]",
                        "[{\"soname\":\"liba.so\"}]",
                        "[{\"soname\":[]}]",
                        "[{\"soname\":[1, \"\", \"../../liba.so\"]}]",
        };

        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                _cleanup_elf_file_ ElfFile f = {};
                ASSERT_OK(read_plan(&(ElfPlan){.notes = {texts[i]}, .needed = {"libx.so"}}, &f));
                ASSERT_EQ(f.n_dlopen_notes, 0);
                ASSERT_STREQ(f.needed[0], "libx.so");
        }
}

TEST(real_programs)
{
        static const char *const paths[] = {"/usr/bin/env", "/proc/self/exe"};

        for (size_t i = 0; i < ELEMENTSOF(paths); i++) {
                _cleanup_elf_file_ ElfFile f = {};
                _cleanup_close_ int fd = open(paths[i], O_RDONLY | O_CLOEXEC);
                ASSERT_OK(elf_read(fd, &f));
                ASSERT_NOT_NULL(f.interpreter);
                ASSERT_TRUE(strv_contains(f.needed, "libc.so.6"));
        }
}

int main(void)
{
        RUN(both_classes);
        RUN(nothing_needed);
        RUN(no_elf_file);
        RUN(truncated_anywhere);
        RUN(damaged_anywhere);
        RUN(imports_of_one_library);
        RUN(imports_that_cannot_be_determined);
        RUN(imports_of_damaged_files);
        RUN(absurd_counts);
        RUN(endless_notes);
        RUN(notes_that_say_nothing);
        RUN(real_programs);
        return TEST_END();
}
