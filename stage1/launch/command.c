/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The executable: finds it as execvp() would, and explains why it cannot be executed.
 *
 * All checks are done before the exec, since later the app's filter of system calls is in force and no file
 * can be examined any more: whether the command exists, may be executed, and has the interpreter or loader
 * that it names. The files are untrusted; only little of them is read, and the checks never accept more than
 * the kernel does.
 */

#include <elf.h>
#include <limits.h>
#include <paths.h>
#include <sys/stat.h>

#include "stage1/launch/launch.h"

#define HEAD_SIZE 256U /* the part of a file that the kernel reads to determine its format */
#define SEGMENTS_MAX 64U

void command_done(Command *c)
{
        free(c->path);
        free(c->interpreter);
        free(c->shell_argv);
        free(c->label);
        *c = (Command){};
}

/* Whether this process may execute PATH, according to its mode. */
static int check_executable(const char *path)
{
        struct stat st;

        if (stat(path, &st) < 0)
                return -errno;
        if (S_ISDIR(st.st_mode))
                return -EISDIR;
        if (!S_ISREG(st.st_mode))
                return -EACCES;
        return access(path, X_OK) < 0 ? -errno : 0;
}

static bool is_absent(int r)
{
        return r == -ENOENT || r == -ENOTDIR;
}

/* The first in PATH that can be executed wins. If there is none, the error is that of the first existing
 * file. */
static int search_path(const char *name, const char *path, char **ret)
{
        _cleanup_free_ char *found = NULL;
        int result = -ENOENT;

        for (const char *p = path, *end; p; p = *end ? end + 1 : NULL) {
                _cleanup_free_ char *candidate = NULL;

                end = strchrnul(p, ':');
                int r = xasprintf(&candidate, "%.*s%s%s", (int) (end - p), p, end > p ? "/" : "", name);
                if (r < 0)
                        return r;
                r = check_executable(candidate);
                if (r >= 0) {
                        *ret = TAKE_PTR(candidate);
                        return 0;
                }
                if (is_absent(result) && !is_absent(r)) {
                        result = r;
                        found = TAKE_PTR(candidate);
                }
        }
        *ret = TAKE_PTR(found);
        return result;
}

typedef struct Segment {
        uint32_t type;
        uint64_t offset, size;
} Segment;

static Segment read_segment(const char *p, bool wide)
{
        Elf64_Phdr h64;
        Elf32_Phdr h32;

        if (wide) {
                memcpy(&h64, p, sizeof(h64));
                return (Segment){h64.p_type, h64.p_offset, h64.p_filesz};
        }
        memcpy(&h32, p, sizeof(h32));
        return (Segment){h32.p_type, h32.p_offset, h32.p_filesz};
}

/* The offset of the program headers, and their number; 0 if the file is not valid. */
static size_t find_segments(const char *head, bool wide, uint64_t *ret_offset)
{
        Elf64_Ehdr e64;
        Elf32_Ehdr e32;

        memcpy(&e64, head, sizeof(e64));
        memcpy(&e32, head, sizeof(e32));
        *ret_offset = wide ? e64.e_phoff : e32.e_phoff;
        if (wide)
                return e64.e_phentsize == sizeof(Elf64_Phdr) ? MIN(e64.e_phnum, SEGMENTS_MAX) : 0;
        return e32.e_phentsize == sizeof(Elf32_Phdr) ? MIN(e32.e_phnum, SEGMENTS_MAX) : 0;
}

/* The loader of a dynamically linked program. */
static int read_loader(int fd, const char *head, char **ret)
{
        bool wide = head[EI_CLASS] == ELFCLASS64;
        size_t each = wide ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr);
        char segments[SEGMENTS_MAX * sizeof(Elf64_Phdr)], path[PATH_MAX + 1] = {};
        uint64_t offset;
        size_t n = find_segments(head, wide, &offset);

        if (pread(fd, segments, n * each, (off_t) offset) != (ssize_t) (n * each))
                return 0;
        for (size_t i = 0; i < n; i++) {
                Segment s = read_segment(segments + i * each, wide);
                if (s.type != PT_INTERP)
                        continue;
                if (s.size > PATH_MAX || pread(fd, path, s.size, (off_t) s.offset) <= 0)
                        return 0;
                *ret = strdup(path);
                return *ret ? 0 : -ENOMEM;
        }
        return 0;
}

/* The interpreter in the first line of a script. */
static int read_shebang(const char *head, char **ret)
{
        const char *begin = head + 2 + strspn(head + 2, " \t");
        size_t n = strcspn(begin, " \t\n");

        if (n == 0)
                return 0;
        *ret = strndup(begin, n);
        return *ret ? 0 : -ENOMEM;
}

/* A shell script has no control characters other than white space. */
static bool is_text(const char *head, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if ((unsigned char) head[i] < ' ' && !memchr("\t\n\v\f\r\033", head[i], 6))
                        return false;
        return true;
}

/* Determines how the kernel will execute the file. One that may be executed but not read cannot be
 * examined. */
static int inspect_file(Command *c)
{
        _cleanup_close_ int fd = open(c->path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        char head[HEAD_SIZE + 1] = {};

        ssize_t n = fd < 0 ? -1 : pread(fd, head, HEAD_SIZE, 0);

        if (n < 0)
                return 0;
        if (memcmp(head, ELFMAG, SELFMAG) == 0) {
                c->format = COMMAND_ELF;
                return read_loader(fd, head, &c->interpreter);
        }
        if (startswith(head, "#!")) {
                c->format = COMMAND_SCRIPT;
                return read_shebang(head, &c->interpreter);
        }
        if (is_text(head, (size_t) n))
                c->format = COMMAND_TEXT;
        return 0;
}

/* A text without "#!" is a script for the shell, as for execvp(). */
static int prepare_shell(Command *c, char *const *argv)
{
        size_t n = strv_length(argv);

        c->shell_argv = calloc(n + 2, sizeof(char *));
        if (!c->shell_argv)
                return -ENOMEM;
        c->shell_argv[0] = (char *) _PATH_BSHELL;
        c->shell_argv[1] = c->path;
        for (size_t i = 1; i < n; i++)
                c->shell_argv[i + 1] = argv[i];
        return 0;
}

static int not_usable(const char *name, const char *path, int code, Failure *f)
{
        if (is_absent(code))
                return failure_set(f, CAUSE_COMMAND_NOT_FOUND, code, "Command %s is not in the image%s",
                                   name, strchr(name, '/') ? "" : " (searched in PATH)");
        return failure_set_errno(f, CAUSE_COMMAND_NOT_EXECUTABLE, code, "Cannot execute %s", path ?: name);
}

static int check_interpreter(const Command *c, Failure *f)
{
        int r = c->interpreter ? check_executable(c->interpreter) : 0;

        if (r >= 0)
                return 0;
        if (is_absent(r))
                return failure_set(f, CAUSE_COMMAND_NOT_EXECUTABLE, r,
                                   "Cannot execute %s: its interpreter %s is not in the image", c->path,
                                   c->interpreter);
        return failure_set_errno(f, CAUSE_COMMAND_NOT_EXECUTABLE, r,
                                 "Cannot execute %s: its interpreter %s cannot be executed", c->path,
                                 c->interpreter);
}

int command_find(char *const *argv, char *const *environment, Command *ret, Failure *f)
{
        _cleanup_(command_done) Command c = {};
        const char *path = DEFAULT_PATH;
        int r;

        STRV_FOREACH (e, environment)
                path = startswith(*e, "PATH=") ?: path;
        if (strchr(argv[0], '/')) {
                c.path = strdup(argv[0]);
                r = c.path ? check_executable(c.path) : -ENOMEM;
        } else
                r = argv[0][0] ? search_path(argv[0], path, &c.path) : -ENOENT;
        if (r < 0)
                return not_usable(argv[0], c.path, r, f);
        r = inspect_file(&c);
        if (r >= 0 && c.format == COMMAND_TEXT)
                r = prepare_shell(&c, argv);
        if (r < 0)
                return failure_set_errno(f, CAUSE_SETUP, r, "Cannot examine %s", c.path);
        r = check_interpreter(&c, f);
        if (r < 0)
                return r;
        *ret = c;
        c = (Command){};
        return 0;
}

/* The filter may be in force: makes no system call except the exec itself. */
int command_execute(const Command *c, char *const *argv, char *const *environment, Failure *f)
{
        execve(c->path, argv, environment);
        if (errno == ENOEXEC && c->shell_argv) {
                execve(c->shell_argv[0], c->shell_argv, environment);
                return failure_set_errno(
                                f, CAUSE_COMMAND_NOT_EXECUTABLE, -errno,
                                "Cannot execute %s, which is not a program, by the shell " _PATH_BSHELL,
                                c->path);
        }
        if (errno == ENOEXEC && c->format == COMMAND_ELF)
                return failure_set_errno(
                                f, CAUSE_COMMAND_NOT_EXECUTABLE, -errno,
                                "Cannot execute %s, which is damaged or a program for another kind of "
                                "machine",
                                c->path);
        return failure_set_errno(f, CAUSE_COMMAND_NOT_EXECUTABLE, -errno, "Cannot execute %s%s", c->path,
                                 errno == EACCES || errno == EPERM ? c->label ?: "" : "");
}
