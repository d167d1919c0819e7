/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Credential helpers: "docker-credential-NAME get" reads the name of a registry and answers
 *
 *     {"ServerURL": "example.com:5000", "Username": "…", "Secret": "…"}
 *
 * A file of credentials only says NAME. That is a word, never a path or a command line, and no shell is
 * involved; the program has to be in PATH, to belong to root or to this user, and must not be writable by
 * others. So a file can only select one of the installed helpers.
 *
 * The answer of a helper is untrusted: its time and size are limited. It is the leader of a process group,
 * which is killed as a whole at the end. Its standard error is discarded, as by convention its errors are on
 * standard output.
 */

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "prepare/registry/registry-internal.h"

#define NAME_LENGTH_MAX 64U
#define ANSWER_SIZE_MAX 65536U
#define SHOWN_SIZE_MAX 200U /* of its error text in messages */

#define NOT_FOUND "credentials not found in native keychain" /* by convention */
#define USER_OF_TOKENS "<token>"                             /* the secret is an identity token */

/* --- Which program ------------------------------------------------------------------------------------- */

static bool name_is_valid(const char *name)
{
        static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
        size_t n = strlen(name);

        return n > 0 && n <= NAME_LENGTH_MAX && strspn(name, allowed) == n && name[0] != '.' &&
               name[0] != '-';
}

/* 1: PATH is a program that may be run; 0: there is none. */
static int check_program(const char *path, Error *e)
{
        struct stat st;

        if (stat(path, &st) < 0 || !S_ISREG(st.st_mode) || access(path, X_OK) < 0)
                return 0;
        if ((st.st_uid == 0 || st.st_uid == geteuid()) && !(st.st_mode & (S_IWGRP | S_IWOTH)))
                return 1;
        return error_set(e, -EPERM, "the program %s could have been written by others than root and you",
                         path);
}

static int find_program(const char *name, char **ret, Error *e)
{
        const char *path = secure_getenv("PATH");
        _cleanup_strv_free_ char **dirs = NULL;

        if (strv_split(isempty(path) ? "/usr/local/bin:/usr/bin:/bin" : path, ":", &dirs) < 0)
                return error_oom(e);
        STRV_FOREACH (dir, dirs) {
                _cleanup_free_ char *program = NULL;
                if (!path_is_absolute(*dir))
                        continue;
                if (xasprintf(&program, "%s/docker-credential-%s", *dir, name) < 0)
                        return error_oom(e);
                int r = check_program(program, e);
                if (r < 0)
                        return r;
                if (r > 0) {
                        *ret = TAKE_PTR(program);
                        return 0;
                }
        }
        return error_set(e, -ENOENT, "there is no program docker-credential-%s in PATH", name);
}

/* --- Running it ---------------------------------------------------------------------------------------- */

typedef struct Helper {
        pid_t pid;
        int pid_fd, input, output;
        Text answer;
        int status; /* of waitpid(), once PID is 0 */
} Helper;

#define HELPER_NULL ((Helper){.pid_fd = -EBADF, .input = -EBADF, .output = -EBADF})

/* The group exists as long as its leader has not been reaped. */
static void end_group(Helper *h)
{
        if (h->pid <= 0)
                return;
        (void) kill(-h->pid, SIGKILL);
        while (waitpid(h->pid, &h->status, 0) < 0 && errno == EINTR)
                ;
        h->pid = 0;
}

static void helper_done(Helper *h)
{
        end_group(h);
        safe_close(h->pid_fd);
        safe_close(h->input);
        safe_close(h->output);
        if (h->answer.data)
                explicit_bzero(h->answer.data, h->answer.size);
        text_done(&h->answer);
}

static int make_input(Helper *h, const char *server)
{
        h->input = memfd_create("acnspawn-credential", MFD_CLOEXEC);
        if (h->input < 0)
                return -errno;
        int r = loop_write(h->input, server, strlen(server));
        if (r >= 0)
                r = loop_write(h->input, "\n", 1);
        if (r >= 0 && lseek(h->input, 0, SEEK_SET) < 0)
                r = -errno;
        return r;
}

static int spawn(Helper *h, const char *program, int output, posix_spawn_file_actions_t *actions,
                 posix_spawnattr_t *attributes)
{
        char *argv[] = {(char *) program, (char *) "get", NULL};
        sigset_t none, all;

        sigemptyset(&none);
        sigfillset(&all);
        int r = posix_spawn_file_actions_adddup2(actions, h->input, STDIN_FILENO);
        if (r == 0)
                r = posix_spawn_file_actions_adddup2(actions, output, STDOUT_FILENO);
        if (r == 0)
                r = posix_spawn_file_actions_addopen(actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
        if (r == 0)
                r = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                                                         POSIX_SPAWN_SETSIGDEF);
        if (r == 0)
                r = posix_spawnattr_setsigmask(attributes, &none);
        if (r == 0)
                r = posix_spawnattr_setsigdefault(attributes, &all);
        if (r == 0)
                r = posix_spawn(&h->pid, program, actions, attributes, argv, environ);
        return -r;
}

static int start(Helper *h, const char *program, const char *server)
{
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attributes;
        int fds[2];

        int r = make_input(h, server);
        if (r < 0)
                return r;
        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        h->output = fds[0];
        (void) fcntl(h->output, F_SETFL, O_NONBLOCK);
        (void) posix_spawn_file_actions_init(&actions);
        (void) posix_spawnattr_init(&attributes);
        r = spawn(h, program, fds[1], &actions, &attributes);
        (void) posix_spawn_file_actions_destroy(&actions);
        (void) posix_spawnattr_destroy(&attributes);
        safe_close(fds[1]);
        if (r < 0) {
                h->pid = 0;
                return r;
        }
        h->pid_fd = (int) syscall(SYS_pidfd_open, h->pid, 0);
        return h->pid_fd < 0 ? -errno : 0;
}

/* All that is there now. */
static int read_answer(Helper *h, Error *e)
{
        char buffer[4096];
        ssize_t n;

        while ((n = read(h->output, buffer, sizeof(buffer))) > 0) {
                text_add_bytes(&h->answer, buffer, (size_t) n);
                explicit_bzero(buffer, sizeof(buffer));
                if (h->answer.failed)
                        return error_oom(e);
                if (h->answer.size > ANSWER_SIZE_MAX)
                        return error_set(e, -EFBIG, "its answer is longer than %u bytes", ANSWER_SIZE_MAX);
        }
        if (n == 0) /* end of output: only wait for its end */
                h->output = safe_close(h->output);
        return 0;
}

/* Waits for the end of the program, even if other processes still have its standard output open. */
static int wait_for_end(Helper *h, uint64_t time_max_usec, const Operation *o, Error *e)
{
        uint64_t end = now_usec(CLOCK_MONOTONIC) + time_max_usec;

        for (;;) {
                struct pollfd fds[] = {{.fd = h->pid_fd, .events = POLLIN},
                                       {.fd = h->output, .events = POLLIN},
                                       {.fd = operation_fd(o), .events = POLLIN}};
                uint64_t now = now_usec(CLOCK_MONOTONIC);
                int r = operation_check(o, e);

                if (r < 0)
                        return r;
                if (now >= end)
                        return error_set(e, -ETIMEDOUT, "it has not answered within %g s",
                                         (double) time_max_usec / 1e6);
                if (poll(fds, ELEMENTSOF(fds), (int) ((end - now) / 1000 + 1)) < 0 && errno != EINTR)
                        return error_set_errno(e, errno, "it cannot be waited for");
                if (h->output >= 0)
                        r = read_answer(h, e);
                if (r < 0 || fds[0].revents != 0)
                        return r;
        }
}

/* --- What it says -------------------------------------------------------------------------------------- */

static const char *get_text(json_object *o, const char *key)
{
        json_object *v;

        return json_object_object_get_ex(o, key, &v) && json_object_is_type(v, json_type_string)
                               ? json_object_get_string(v)
                               : NULL;
}

static void wipe(const char *s)
{
        if (s)
                explicit_bzero((char *) s, strlen(s));
}

static int take_answer(json_object *o, RegistryCredentials *c, Error *e)
{
        const char *user = get_text(o, "Username"), *secret = get_text(o, "Secret");

        if (!user || !secret)
                return error_set(e, -EBADMSG, "its answer has no Username and Secret");
        if (isempty(user) && isempty(secret))
                return 0;
        if (streq(user, USER_OF_TOKENS))
                c->identity_token = strdup(secret);
        else {
                c->user = strdup(user);
                c->password = strdup(secret);
        }
        return c->identity_token || (c->user && c->password) ? 1 : error_oom(e);
}

int credential_helper_parse(const char *answer, size_t size, RegistryCredentials *ret, Error *e)
{
        _cleanup_(registry_credentials_done) RegistryCredentials c = {};
        _cleanup_json_ json_object *o = NULL;

        /* A parser's message could quote the secret. */
        int r = json_parse_strict(answer, size, &o, NULL, NULL);
        if (r == -ENOMEM)
                return error_oom(e);
        if (r < 0 || !json_object_is_type(o, json_type_object))
                return error_set(e, -EBADMSG, "its answer is not a JSON object");
        r = take_answer(o, &c, e);
        wipe(get_text(o, "Secret"));
        if (r > 0) {
                *ret = c;
                c = (RegistryCredentials){};
        }
        return r;
}

static int explain_failure(Helper *h, Error *e)
{
        _cleanup_free_ char *text = NULL, *shown = NULL;
        size_t n;

        if (WIFSIGNALED(h->status))
                return error_set(e, -EIO, "it was ended by the signal %d", WTERMSIG(h->status));
        if (text_take(&h->answer, &text, &n) < 0)
                return error_oom(e);
        text[strcspn(text, "\r\n")] = 0;
        if (streq(text, NOT_FOUND))
                return 0;
        text[MIN(strlen(text), SHOWN_SIZE_MAX)] = 0;
        shown = text_escape_for_terminal(text);
        return error_set(e, -EIO, "it fails (exit status %d)%s%s", WEXITSTATUS(h->status),
                         isempty(shown) ? "" : ": ", shown ?: "");
}

int credential_helper_ask(const char *name, const char *server, uint64_t time_max_usec, const Operation *o,
                          RegistryCredentials *ret, Error *e)
{
        _cleanup_(helper_done) Helper h = HELPER_NULL;
        _cleanup_free_ char *program = NULL;

        if (!name_is_valid(name))
                return error_set(e, -EINVAL, "that is not the name of a helper");
        int r = find_program(name, &program, e);
        if (r < 0)
                return r;
        r = start(&h, program, server);
        if (r < 0)
                return error_set_errno(e, r, "%s cannot be run", program);
        r = wait_for_end(&h, time_max_usec, o, e);
        end_group(&h);
        if (r < 0)
                return r;
        if (WIFEXITED(h.status) && WEXITSTATUS(h.status) == 0)
                return credential_helper_parse(h.answer.data ?: "", h.answer.size, ret, e);
        return explain_failure(&h, e);
}
