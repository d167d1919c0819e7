/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Keys and signatures for tests, made by the program gpg in a home of its own. gpg runs with
 * --faked-system-time, so that keys can have expired. */

#include <signal.h>
#include <sys/wait.h>

#include "basic/basic.h"
#include "tests/unit/scratch.h"
#include "tests/unit/test.h"

typedef struct GpgFixture {
        Scratch scratch; /* its directory "home" is gpg's */
        char home[PATH_MAX + 8];
} GpgFixture;

/* Runs ARGV with standard input, output and error on /dev/null. Returns its exit status. */
static inline int run_silently(const char *const *argv)
{
        int status;
        pid_t pid = fork();

        if (pid == 0) {
                int fd = open("/dev/null", O_RDWR);
                dup2(fd, 0);
                dup2(fd, 1);
                if (!getenv("ACNSPAWN_TEST_VERBOSE"))
                        dup2(fd, 2);
                execvp(argv[0], (char *const *) argv);
                _exit(127);
        }
        return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* gpg with the words, which end with NULL. */
static inline int gpg_run(const GpgFixture *g, const char *const *words)
{
        const char *argv[64] = {"gpg",     "--homedir",       g->home,    "--batch",      "--yes",
                                "--quiet", "--pinentry-mode", "loopback", "--passphrase", ""};
        size_t n = 10;

        for (const char *const *w = words; *w && n + 1 < ELEMENTSOF(argv); w++)
                argv[n++] = *w;
        return run_silently(argv);
}
#define GPG(g, ...) gpg_run(g, (const char *const[]){__VA_ARGS__, NULL})

static inline int gpg_fixture_new(GpgFixture *g)
{
        g->scratch = SCRATCH_NULL;
        int r = scratch_new(&g->scratch);

        if (r < 0)
                return r;
        snprintf(g->home, sizeof(g->home), "%s/home", g->scratch.path);
        return mkdir(g->home, 0700) < 0 ? -errno : 0;
}

/* Ends the agent that gpg has started for secret keys. */
static inline void gpg_fixture_done(GpgFixture *g)
{
        if (g->scratch.fd < 0)
                return;
        (void) run_silently((const char *const[]){"gpgconf", "--homedir", g->home, "--kill", "all", NULL});
        scratch_done(&g->scratch);
}

/* Scratch file NAME as text; *RET_SIZE may be NULL. The caller frees. */
static inline char *gpg_fixture_read(const GpgFixture *g, const char *name, size_t *ret_size)
{
        char *text = NULL;
        size_t n = 0;

        if (read_file_at(g->scratch.fd, name, 64 << 20, &text, &n) < 0)
                return NULL;
        if (ret_size)
                *ret_size = n;
        return text;
}

/* Path of a scratch file; valid until the fourth call from now. */
static inline const char *gpg_path(const GpgFixture *g, const char *name)
{
        static char paths[4][PATH_MAX + 256];
        static unsigned n;
        char *p = paths[n++ % 4];

        snprintf(p, sizeof(paths[0]), "%s/%s", g->scratch.path, name);
        return p;
}

/* Makes a key that has NAME in its address, without a passphrase; exports it to the file NAME.key; returns
 * its fingerprint (static; valid until the eighth call from now) or NULL. TIME: when it is made, or NULL;
 * EXPIRE: as for gpg, "0" is never. */
static inline const char *gpg_make_key(const GpgFixture *g, const char *name, const char *time,
                                       const char *expire)
{
        static char fingerprints[8][80];
        static unsigned n;
        char user[128], faked[64], out[PATH_MAX + 300], file[128], log[2 * PATH_MAX + 1024];
        char *fpr = fingerprints[n++ % 8];

        snprintf(user, sizeof(user), "%s <%s@example.com>", name, name);
        snprintf(faked, sizeof(faked), "--faked-system-time=%s!", time ?: "20250101T000000");
        if (GPG(g, time ? faked : "--quiet", "--quick-gen-key", user, "ed25519", "sign", expire) != 0)
                return NULL;
        snprintf(file, sizeof(file), "%s.key", name);
        snprintf(out, sizeof(out), "--output=%s/%s", g->scratch.path, file);
        if (GPG(g, "--armor", out, "--export", user) != 0)
                return NULL;
        snprintf(out, sizeof(out), "%s/%s.fpr", g->scratch.path, name);
        /* The fingerprint: from the file name of the revocation certificate. */
        snprintf(log, sizeof(log),
                 "exec gpg --homedir '%s' --batch --with-colons --list-keys '%s' | "
                 "sed -n 's/^fpr:*\\([0-9A-F]*\\):.*/\\1/p;' | head -n 1 > '%s'",
                 g->home, user, out);
        if (run_silently((const char *const[]){"sh", "-c", log, NULL}) != 0)
                return NULL;
        snprintf(file, sizeof(file), "%s.fpr", name);
        _cleanup_free_ char *text = gpg_fixture_read(g, file, NULL);
        if (!text || strlen(text) < 40)
                return NULL;
        snprintf(fpr, 80, "%.40s", text);
        return fpr;
}
