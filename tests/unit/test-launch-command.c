/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Finding an app's executable, and the causes that are given for those that cannot be executed. */

#include <elf.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "stage1/launch/launch.h"
#include "tests/unit/scratch.h"
#include "tests/unit/test.h"

static int put(const Scratch *s, const char *path, const void *content, size_t size, mode_t mode)
{
        _cleanup_close_ int fd = openat(s->fd, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

        if (fd < 0 || loop_write(fd, content, size) < 0 || fchmod(fd, mode) < 0)
                return -errno;
        return 0;
}

static int put_text(const Scratch *s, const char *path, const char *text, mode_t mode)
{
        return put(s, path, text, strlen(text), mode);
}

/* Looks for NAME with PATH set to a format with the scratch directory in it. */
static int find(const Scratch *s, const char *name, const char *path, Command *ret, Failure *f)
{
        _cleanup_strv_free_ char **environment = NULL;
        char *argv[] = {(char *) name, (char *) "argument", NULL};

        if (path && strv_extendf(&environment, path, s->path, s->path) < 0)
                return -ENOMEM;
        return command_find(argv, environment, ret, f);
}

/* Same, with a name below the scratch directory. */
static int find_here(const Scratch *s, const char *name, Command *ret, Failure *f)
{
        _cleanup_free_ char *path = NULL;

        if (xasprintf(&path, "%s/%s", s->path, name) < 0)
                return -ENOMEM;
        return find(s, path, NULL, ret, f);
}

#define EXPECT_FAILURE(expression, c, text)                                                                 \
        do {                                                                                                \
                Failure failure = {};                                                                       \
                Command found = {};                                                                         \
                ASSERT_TRUE((expression) < 0);                                                              \
                ASSERT_EQ(failure.cause, c);                                                                \
                ASSERT_CONTAINS(failure.error.message, text);                                               \
                error_done(&failure.error);                                                                 \
        } while (0)

TEST(search)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_(command_done) Command c = {}, d = {};
        Failure f = {};

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(mkdirat(s.fd, "a", 0755));
        ASSERT_OK(mkdirat(s.fd, "b", 0755));
        ASSERT_OK(mkdirat(s.fd, "a/tool", 0755));
        ASSERT_OK(put_text(&s, "b/tool", "true\n", 0755));
        ASSERT_OK(put_text(&s, "a/plain", "true\n", 0644));
        ASSERT_OK(put_text(&s, "b/plain", "true\n", 0755));

        /* Files that cannot be executed are skipped if another directory has the same name. */
        ASSERT_OK(find(&s, "tool", "PATH=/nowhere:%s/a:%s/b", &c, &f));
        ASSERT_CONTAINS(c.path, "/b/tool");
        ASSERT_OK(find(&s, "plain", "PATH=%s/a:%s/b", &d, &f));
        ASSERT_CONTAINS(d.path, "/b/plain");
        EXPECT_FAILURE(find(&s, "plain", "PATH=/nowhere:%s/a:", &found, &failure),
                       CAUSE_COMMAND_NOT_EXECUTABLE, "/a/plain: Permission denied");
        EXPECT_FAILURE(find(&s, "tool", "PATH=%s/a", &found, &failure), CAUSE_COMMAND_NOT_EXECUTABLE,
                       "Is a directory");
        EXPECT_FAILURE(find(&s, "missing", "PATH=%s/a:%s/b", &found, &failure), CAUSE_COMMAND_NOT_FOUND,
                       "Command missing is not in the image (searched in PATH)");
        EXPECT_FAILURE(find(&s, "tool", "PATH=", &found, &failure), CAUSE_COMMAND_NOT_FOUND,
                       "searched in PATH");
        EXPECT_FAILURE(find(&s, "", "PATH=%s/a", &found, &failure), CAUSE_COMMAND_NOT_FOUND,
                       "is not in the image");
}

/* An empty element of PATH is the working directory. */
TEST(working_directory)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_(command_done) Command c = {}, d = {};
        char *argv[] = {(char *) "tool", NULL}, *environment[] = {(char *) "PATH=/nowhere:", NULL};
        Failure f = {};

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(put_text(&s, "tool", "true\n", 0755));
        _cleanup_close_ int before = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
        ASSERT_OK(fchdir(s.fd));
        int r = command_find(argv, environment, &c, &f);
        environment[0] = NULL;
        int none = command_find(argv, environment, &d, &f);
        ASSERT_OK(fchdir(before));
        ASSERT_OK(r);
        ASSERT_STREQ(c.path, "tool");
        ASSERT_ERR(none, -ENOENT);
        error_done(&f.error);
}

TEST(given_path)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(put_text(&s, "plain", "true\n", 0644));
        ASSERT_OK(symlinkat("loop", s.fd, "loop"));
        ASSERT_OK(mkfifoat(s.fd, "fifo", 0777));
        EXPECT_FAILURE(find_here(&s, "missing", &found, &failure), CAUSE_COMMAND_NOT_FOUND,
                       "/missing is not in the image");
        EXPECT_FAILURE(find_here(&s, "plain/x", &found, &failure), CAUSE_COMMAND_NOT_FOUND,
                       "is not in the image");
        EXPECT_FAILURE(find_here(&s, "plain", &found, &failure), CAUSE_COMMAND_NOT_EXECUTABLE,
                       "Permission denied");
        EXPECT_FAILURE(find_here(&s, "loop", &found, &failure), CAUSE_COMMAND_NOT_EXECUTABLE,
                       "symbolic links");
        EXPECT_FAILURE(find_here(&s, "fifo", &found, &failure), CAUSE_COMMAND_NOT_EXECUTABLE,
                       "Permission denied");
}

TEST(scripts)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_(command_done) Command good = {}, plain = {}, empty = {}, garbage = {};
        Failure f = {};

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(put_text(&s, "good", "#! \t/bin/sh -e\n", 0755));
        ASSERT_OK(put_text(&s, "bad", "#!/no/such/interpreter -x", 0755));
        ASSERT_OK(put_text(&s, "worse", "#!/etc/passwd\n", 0755));
        ASSERT_OK(put_text(&s, "plain", "exit 3\n", 0755));
        ASSERT_OK(put_text(&s, "empty", "#!\n", 0755));
        ASSERT_OK(put_text(&s, "garbage", "exit 3\n\1\2", 0755));
        ASSERT_OK(find_here(&s, "garbage", &garbage, &f));
        ASSERT_NULL(garbage.shell_argv);
        ASSERT_OK(find_here(&s, "good", &good, &f));
        ASSERT_EQ(good.format, COMMAND_SCRIPT);
        ASSERT_STREQ(good.interpreter, "/bin/sh");
        ASSERT_OK(find_here(&s, "plain", &plain, &f));
        ASSERT_STREQ(plain.shell_argv[0], "/bin/sh");
        ASSERT_STREQ(plain.shell_argv[1], plain.path);
        ASSERT_STREQ(plain.shell_argv[2], "argument");
        ASSERT_NULL(plain.shell_argv[3]);
        ASSERT_OK(find_here(&s, "empty", &empty, &f));
        ASSERT_NULL(empty.interpreter);
        EXPECT_FAILURE(find_here(&s, "bad", &found, &failure), CAUSE_COMMAND_NOT_EXECUTABLE,
                       "its interpreter /no/such/interpreter is not in the image");
        EXPECT_FAILURE(find_here(&s, "worse", &found, &failure), CAUSE_COMMAND_NOT_EXECUTABLE,
                       "/etc/passwd cannot be executed");
}

typedef struct Program64 {
        Elf64_Ehdr header;
        Elf64_Phdr segments[2];
        char loader[64];
} Program64;

typedef struct Program32 {
        Elf32_Ehdr header;
        Elf32_Phdr segments[1];
        char loader[64];
} Program32;

static Program64 program64(const char *loader)
{
        Program64 p = {
                        .header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64},
                                   .e_phoff = offsetof(Program64, segments),
                                   .e_phentsize = sizeof(Elf64_Phdr),
                                   .e_phnum = 2},
                        .segments = {{.p_type = PT_LOAD},
                                     {.p_type = PT_INTERP,
                                      .p_offset = offsetof(Program64, loader),
                                      .p_filesz = 64}},
        };

        snprintf(p.loader, sizeof(p.loader), "%s", loader);
        return p;
}

TEST(programs)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_(command_done) Command fine = {}, odd = {}, beyond = {}, tiny = {};
        Program64 good = program64("/bin/sh"), bad = program64("/lib/ld-missing.so.1"), strange = bad,
                  cut = bad;
        Program32 bad32 = {
                        .header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS32},
                                   .e_phoff = offsetof(Program32, segments),
                                   .e_phentsize = sizeof(Elf32_Phdr),
                                   .e_phnum = 1},
                        .segments = {{.p_type = PT_INTERP,
                                      .p_offset = offsetof(Program32, loader),
                                      .p_filesz = 20}},
                        .loader = "/lib/ld32-missing.so",
        };
        Failure f = {};

        strange.header.e_phentsize = 1;
        cut.header.e_phoff = UINT64_MAX - 8;
        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(put(&s, "good", &good, sizeof(good), 0755));
        ASSERT_OK(put(&s, "bad", &bad, sizeof(bad), 0755));
        ASSERT_OK(put(&s, "bad32", &bad32, sizeof(bad32), 0755));
        ASSERT_OK(put(&s, "strange", &strange, sizeof(strange), 0755));
        ASSERT_OK(put(&s, "cut", &cut, sizeof(cut), 0755));
        ASSERT_OK(put(&s, "tiny", "\177ELF", 4, 0755));
        ASSERT_OK(find_here(&s, "good", &fine, &f));
        ASSERT_EQ(fine.format, COMMAND_ELF);
        ASSERT_STREQ(fine.interpreter, "/bin/sh");
        /* Errors that only the kernel detects are reported by it. */
        ASSERT_OK(find_here(&s, "strange", &odd, &f));
        ASSERT_NULL(odd.interpreter);
        ASSERT_OK(find_here(&s, "cut", &beyond, &f));
        ASSERT_NULL(beyond.interpreter);
        ASSERT_OK(find_here(&s, "tiny", &tiny, &f));
        ASSERT_NULL(tiny.interpreter);
        EXPECT_FAILURE(find_here(&s, "bad", &found, &failure), CAUSE_COMMAND_NOT_EXECUTABLE,
                       "its interpreter /lib/ld-missing.so.1 is not");
        EXPECT_FAILURE(find_here(&s, "bad32", &found, &failure), CAUSE_COMMAND_NOT_EXECUTABLE,
                       "its interpreter /lib/ld32-missing.so is not");
}

/* The exec itself: its errors, and a file without "#!". */
TEST(execute)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_(command_done) Command script = {}, damaged = {};
        char *argv[] = {(char *) "x", NULL};
        Failure f = {};
        int status = -1;

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(put_text(&s, "script", "test \"$1\" = argument && exit 3\n", 0755));
        ASSERT_OK(put_text(&s, "damaged", "\177ELF, or so it says", 0755));
        ASSERT_OK(find_here(&s, "script", &script, &f));
        pid_t pid = fork();
        if (pid == 0) {
                command_execute(&script, argv, argv + 1, &f);
                _exit(1);
        }
        ASSERT_EQ(waitpid(pid, &status, 0), pid);
        ASSERT_TRUE(WIFEXITED(status));
        ASSERT_EQ(WEXITSTATUS(status), 3);
        ASSERT_OK(find_here(&s, "damaged", &damaged, &f));
        ASSERT_ERR(command_execute(&damaged, argv, argv + 1, &f), -ENOEXEC);
        ASSERT_EQ(f.cause, CAUSE_COMMAND_NOT_EXECUTABLE);
        ASSERT_CONTAINS(f.error.message, "damaged or a program for another kind of machine");
        error_done(&f.error);
}

int main(void)
{
        RUN(search);
        RUN(working_directory);
        RUN(given_path);
        RUN(scripts);
        RUN(programs);
        RUN(execute);
        return TEST_END();
}
