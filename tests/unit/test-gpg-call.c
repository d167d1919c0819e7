/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A gpg that hangs: the operation ends on request, at its deadline and when gpg does not respond for too long, and no
 * process of gpg is left. A script in PATH hangs, ignoring SIGTERM, in the commands for which there is a file
 * hang-COMMAND, and runs gpg otherwise. Each hanging process holds a lock, by which the test detects it. */

#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "prepare/prepare.h"
#include "prepare/trust/trust-internal.h"
#include "tests/unit/gpg-fixture.h"

static GpgFixture g;
static char key[41];

#define CONTENT "the bytes of an image\n"
#define MSEC 1000U
#define HANGS_WITHIN_USEC (60000U * MSEC)

/* The longest time so far from the beginning of an operation until gpg has hung: on a loaded machine all takes longer. */
static uint64_t slowest_usec;

static uint64_t ends_after_usec(void)
{
        return MAX(200U * MSEC, 5 * slowest_usec);
}

static uint64_t soon_usec(void)
{
        return 1000U * MSEC + 20 * slowest_usec;
}

/* %1$s: the directory; %2$s: PATH without it. */
static const char gpg_script[] =
                "#!/bin/sh\n"
                "PATH='%2$s'\n"
                "for i; do case $i in\n"
                "--version|--verify|--import|--list-keys|--decrypt|--symmetric|--export|--detach)\n"
                "        what=$i ;; esac; done\n"
                "if [ -e '%1$s'/skip$what ]; then\n"
                "        rm '%1$s'/skip$what\n"
                "elif [ -e '%1$s'/hang$what ]; then\n"
                "        trap '' TERM\n"
                "        exec 2>>'%1$s'/lock\n"
                "        flock -s 2\n"
                "        exec sleep 1000\n"
                "fi\n"
                "exec gpg \"$@\"\n";
static const char gpgconf_script[] = "#!/bin/sh\n"
                                     "PATH='%2$s'\n"
                                     "gpgconf \"$@\" | sed 's,:[^:]*/gpg$,:%1$s/gpg,'\n";

static int make_script(const char *name, const char *format, const char *path)
{
        char text[8192];

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(text, sizeof(text), format, g.scratch.path, path);
#pragma GCC diagnostic pop
        int r = scratch_file(&g.scratch, name, text);
        return r < 0 ? r : fchmodat(g.scratch.fd, name, 0755, 0) < 0 ? -errno : 0;
}

/* Keys, a signature and an encrypted file are made before the script is in PATH. */
static int make_files(void)
{
        _cleanup_free_ char *path = strdup(getenv("PATH") ?: "/usr/bin:/bin"), *longer = NULL;

        int r = gpg_fixture_new(&g);
        const char *made = r < 0 ? NULL : gpg_make_key(&g, "good", NULL, "0");
        if (!made || !path)
                return r < 0 ? r : -EIO;
        memcpy(key, made, 40);
        if (scratch_file(&g.scratch, "image", CONTENT) < 0 ||
            scratch_file(&g.scratch, "passphrase", "x") < 0 ||
            fchmodat(g.scratch.fd, "passphrase", 0600, 0) < 0 ||
            GPG(&g, "--armor", "--output", gpg_path(&g, "image.asc"), "-u", key, "--detach-sign",
                gpg_path(&g, "image")) != 0 ||
            GPG(&g, "--output", gpg_path(&g, "image.gpg"), "--passphrase", "x", "--symmetric",
                gpg_path(&g, "image")) != 0)
                return -EIO;
        if (make_script("gpg", gpg_script, path) < 0 || make_script("gpgconf", gpgconf_script, path) < 0 ||
            xasprintf(&longer, "%s:%s", g.scratch.path, path) < 0 || setenv("PATH", longer, 1) < 0)
                return -EIO;
        return 0;
}

/* --- What hangs, and what has to follow ---------------------------------------------------------------- */

static void hang(const char *what)
{
        (void) scratch_file(&g.scratch, what, "");
}

static void hang_no_more(void)
{
        static const char *const all[] = {"hang--version",   "hang--verify",  "hang--import",
                                          "hang--list-keys", "hang--decrypt", "hang--symmetric",
                                          "hang--export",    "hang--detach",  "skip--verify"};

        for (size_t i = 0; i < ELEMENTSOF(all); i++)
                (void) unlinkat(g.scratch.fd, all[i], 0);
}

/* That one did hang, and none is left. */
static bool has_hung_and_ended(void)
{
        _cleanup_close_ int fd = openat(g.scratch.fd, "lock", O_RDONLY | O_CLOEXEC);

        hang_no_more();
        /* A killed process closes its descriptors a moment later. */
        return fd >= 0 && WAIT_FOR(flock(fd, LOCK_EX | LOCK_NB) >= 0) &&
               unlinkat(g.scratch.fd, "lock", 0) >= 0;
}

static bool is_hanging(void)
{
        _cleanup_close_ int fd = openat(g.scratch.fd, "lock", O_RDONLY | O_CLOEXEC);

        return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0;
}

static void wait_until_it_hangs(void)
{
        uint64_t begin = now_usec(CLOCK_MONOTONIC), now = begin;

        for (; !is_hanging() && now < begin + HANGS_WITHIN_USEC; now = now_usec(CLOCK_MONOTONIC))
                usleep(MSEC);
        slowest_usec = MAX(slowest_usec, now - begin);
}

/* An operation that ends soon: at a deadline, or by being cancelled once gpg hangs. */
typedef struct Ending {
        Operation *operation;
        uint64_t end_usec;
        pthread_t thread;
        bool cancels;
        Error error;
} Ending;

static void *cancel_later(void *userdata)
{
        Ending *x = userdata;

        wait_until_it_hangs();
        x->end_usec = now_usec(CLOCK_MONOTONIC);
        operation_cancel(x->operation);
        return NULL;
}

static void begin(Ending *x, bool cancels)
{
        *x = (Ending){.end_usec = now_usec(CLOCK_MONOTONIC) + ends_after_usec(),
                      .cancels = cancels,
                      .error = ERROR_NULL};
        const OperationOptions o = {.deadline_usec = cancels ? 0 : x->end_usec};
        if (operation_new(&o, &x->operation) < 0 ||
            (cancels && thread_start(&x->thread, cancel_later, x) < 0))
                abort();
}

static void ending_done(Ending *x)
{
        if (x->cancels)
                pthread_join(x->thread, NULL);
        operation_free(x->operation);
        error_done(&x->error);
}
#define _cleanup_ending_ _cleanup_(ending_done)

#define ASSERT_ENDED(x, r, code)                                                                            \
        do {                                                                                                \
                uint64_t now_ = now_usec(CLOCK_MONOTONIC);                                                  \
                if ((r) != (code))                                                                          \
                        TEST_FAIL("%d: %s", (r), (x)->error.message ?: "");                                 \
                ASSERT_TRUE(now_ >= (x)->end_usec);                                                         \
                ASSERT_TRUE(now_ < (x)->end_usec + soon_usec());                                            \
                ASSERT_TRUE(has_hung_and_ended());                                                          \
        } while (0)

/* --- Cases --------------------------------------------------------------------------------------------- */

/* First, as GPGME runs gpg for its version and keeps the result: the calls that follow work again. */
TEST(version)
{
        _cleanup_ending_ Ending x = {};
        _cleanup_trust_keys_ TrustKeys keys = {};
        _cleanup_error_ Error e = ERROR_NULL;
        size_t n = 0;
        _cleanup_free_ char *text = gpg_fixture_read(&g, "good.key", &n);

        hang("hang--version");
        begin(&x, true);
        int r = trust_inspect_key(text, n, "it", x.operation, &keys, &x.error);
        ASSERT_ENDED(&x, r, -EINTR);
        ASSERT_OK(trust_inspect_key(text, n, "it", NULL, &keys, &e));
        ASSERT_EQ(keys.n, 1);
}

TEST(keys)
{
        static const char *const commands[] = {"hang--import", "hang--list-keys"};
        size_t n = 0;
        _cleanup_free_ char *text = gpg_fixture_read(&g, "good.key", &n);

        for (size_t i = 0; i < 2 * ELEMENTSOF(commands); i++) {
                _cleanup_ending_ Ending x = {};
                _cleanup_trust_keys_ TrustKeys keys = {};
                bool cancels = i % 2 == 0;

                hang(commands[i / 2]);
                begin(&x, cancels);
                int r = trust_inspect_key(text, n, "it", x.operation, &keys, &x.error);
                ASSERT_ENDED(&x, r, cancels ? -EINTR : -ETIME);
        }
}

static int trust_with_key(const char *name, const Operation *o, Trust **ret, Error *e)
{
        const char *dirs[] = {gpg_path(&g, name), NULL};
        size_t n = 0;
        _cleanup_free_ char *text = gpg_fixture_read(&g, "good.key", &n);

        int r = trust_open(dirs, NULL, ret, e);
        if (r >= 0)
                r = trust_add(*ret, NULL, text, n, "the key", e);
        if (r < 0)
                return r;
        *ret = trust_free(*ret);
        return trust_open(dirs, o, ret, e);
}

TEST(addition)
{
        _cleanup_ending_ Ending x = {};
        _cleanup_(trust_freep) Trust *t = NULL;
        size_t n = 0;
        _cleanup_free_ char *text = gpg_fixture_read(&g, "good.key", &n);

        hang("hang--export");
        begin(&x, true);
        ASSERT_OK(trust_open((const char *const[]){gpg_path(&g, "empty"), NULL}, x.operation, &t, &x.error));
        int r = trust_add(t, NULL, text, n, "the key", &x.error);
        ASSERT_ENDED(&x, r, -EINTR);
}

/* Before any data of the image; and while the image is checked. */
TEST(signature)
{
        size_t n = 0;
        _cleanup_free_ char *text = gpg_fixture_read(&g, "image.asc", &n);

        for (unsigned i = 0; i < 2; i++) {
                _cleanup_(trust_freep) Trust *t = NULL;
                _cleanup_(signature_check_freep) SignatureCheck *check = NULL;
                _cleanup_ending_ Ending x = {};
                const char *home;

                /* The home with the trusted keys takes most of the time, and is not what is tested. */
                ASSERT_OK(trust_with_key("etc", NULL, &t, &x.error));
                ASSERT_OK(trust_home(t, &home, &x.error));
                begin(&x, i == 0);
                t->operation = x.operation;
                hang("hang--verify");
                if (i == 1)
                        hang("skip--verify");
                int r = signature_check_new(t, text, n, "the signature", &check, &x.error);
                if (i == 1) {
                        ASSERT_OK(r);
                        signature_check_update(check, CONTENT, strlen(CONTENT));
                        r = signature_check_finish(check, "example.com/app", NULL, &x.error);
                }
                ASSERT_ENDED(&x, r, i == 0 ? -EINTR : -ETIME);
        }
}

/* Without an operation that ends, such as after an error of the download. */
TEST(freed)
{
        _cleanup_(trust_freep) Trust *t = NULL;
        SignatureCheck *check = NULL;
        Decryption *d = NULL;
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_close_ int fd = openat(g.scratch.fd, "image.gpg", O_RDONLY | O_CLOEXEC), plain = -EBADF;
        size_t n = 0;
        _cleanup_free_ char *text = gpg_fixture_read(&g, "image.asc", &n);

        ASSERT_OK(trust_with_key("etc", NULL, &t, &e));
        hang("hang--verify");
        hang("skip--verify");
        ASSERT_OK(signature_check_new(t, text, n, "the signature", &check, &e));
        signature_check_update(check, CONTENT, strlen(CONTENT));
        wait_until_it_hangs();
        uint64_t begin_usec = now_usec(CLOCK_MONOTONIC);
        check = signature_check_free(check);
        ASSERT_TRUE(now_usec(CLOCK_MONOTONIC) < begin_usec + soon_usec());
        ASSERT_TRUE(has_hung_and_ended());

        hang("hang--decrypt");
        ASSERT_OK(decryption_new(fd, gpg_path(&g, "passphrase"), NULL, NULL, NULL, &d, &plain, &e));
        wait_until_it_hangs();
        begin_usec = now_usec(CLOCK_MONOTONIC);
        d = decryption_free(d);
        ASSERT_TRUE(now_usec(CLOCK_MONOTONIC) < begin_usec + soon_usec());
        ASSERT_TRUE(has_hung_and_ended());
}

TEST(decryption)
{
        for (unsigned i = 0; i < 2; i++) {
                _cleanup_close_ int fd = openat(g.scratch.fd, "image.gpg", O_RDONLY | O_CLOEXEC),
                                    plain = -EBADF;
                _cleanup_(decryption_freep) Decryption *d = NULL;
                _cleanup_ending_ Ending x = {};
                char some[100];

                hang("hang--decrypt");
                begin(&x, i == 0);
                ASSERT_OK(decryption_new(fd, gpg_path(&g, "passphrase"), x.operation, NULL, NULL, &d, &plain,
                                         &x.error));
                ASSERT_EQ(loop_read(plain, some, sizeof(some)), 0);
                int r = decryption_finish(d, &x.error);
                ASSERT_ENDED(&x, r, i == 0 ? -EINTR : -ETIME);
        }
}

TEST(encryption)
{
        _cleanup_close_ int in = openat(g.scratch.fd, "image", O_RDONLY | O_CLOEXEC);
        _cleanup_close_ int out = openat(g.scratch.fd, "out", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        _cleanup_ending_ Ending x = {};

        hang("hang--symmetric");
        begin(&x, true);
        int r = encrypt_symmetric(in, out, gpg_path(&g, "passphrase"), x.operation, &x.error);
        ASSERT_ENDED(&x, r, -EINTR);
}

TEST(signing)
{
        _cleanup_close_ int fd = openat(g.scratch.fd, "image", O_RDONLY | O_CLOEXEC);
        _cleanup_ending_ Ending x = {};
        _cleanup_free_ char *armored = NULL;

        hang("hang--detach");
        begin(&x, true);
        int r = sign_detached(key, g.home, fd, x.operation, &armored, &x.error);
        ASSERT_ENDED(&x, r, -EINTR);
        ASSERT_TRUE(armored == NULL);
}

/* Without an operation: gpg has to respond in time. Time in which it waits for this program does not count. */
TEST(no_response)
{
        _cleanup_gpg_context_ gpgme_ctx_t c = NULL;
        _cleanup_gpg_data_ gpgme_data_t d = NULL;
        _cleanup_(gpg_call_done) GpgCall call = GPG_CALL_NULL;
        _cleanup_ending_ Ending x = {.error = ERROR_NULL};
        size_t n = 0;
        _cleanup_free_ char *text = gpg_fixture_read(&g, "good.key", &n);

        ASSERT_OK(gpg_context_new(NULL, g.home, &c, &x.error));
        ASSERT_EQ(gpgme_data_new_from_mem(&d, text, n, 0), 0);
        hang("hang--import");
        uint64_t limit_usec = ends_after_usec();
        ASSERT_OK(gpg_call_start(&call, NULL, limit_usec, &x.error));
        gpg_call_waits(&call, true);
        usleep((useconds_t) (2 * limit_usec));
        gpg_call_waits(&call, false);
        x.end_usec = now_usec(CLOCK_MONOTONIC) + limit_usec;
        gpg_call_enter(&call);
        (void) gpgme_op_import(c, d);
        gpg_call_leave();
        int r = gpg_call_finish(&call, &x.error);
        ASSERT_ENDED(&x, r, -ETIMEDOUT);
        ASSERT_CONTAINS(x.error.message, "gpg has not responded");
}

static volatile bool forks_slowly;

static void before_the_report(void)
{
        if (forks_slowly)
                usleep(300 * MSEC);
}

/* The call ends before the process that it has forked has reported itself. */
TEST(late_process)
{
        _cleanup_(gpg_call_done) GpgCall call = GPG_CALL_NULL;
        _cleanup_error_ Error e = ERROR_NULL;
        int status = 0;

        ASSERT_OK(gpg_call_start(&call, NULL, 0, &e));
        gpg_call_enter(&call);
        forks_slowly = true;
        pid_t pid = fork();
        if (pid == 0) {
                (void) execlp("sleep", "sleep", "10", NULL);
                _exit(1);
        }
        forks_slowly = false;
        gpg_call_leave();
        gpg_call_stop(&call);
        (void) gpg_call_finish(&call, &e); /* the thread may see only the end, not the stop */
        ASSERT_EQ(waitpid(pid, &status, 0), pid);
        ASSERT_TRUE(WIFSIGNALED(status));
}

int main(void)
{
        /* Called in the order of registration. */
        (void) pthread_atfork(NULL, NULL, before_the_report);
        if (run_silently((const char *const[]){"gpg", "--version", NULL}) != 0) {
                printf("SKIP: the program gpg is missing\n");
                return 77;
        }
        int r = make_files();
        if (r < 0) {
                printf("not ok make_files: %s\n", strerror(-r));
                return 1;
        }
        RUN(version);
        RUN(keys);
        RUN(addition);
        RUN(signature);
        RUN(freed);
        RUN(decryption);
        RUN(encryption);
        RUN(signing);
        RUN(no_response);
        RUN(late_process);
        gpg_fixture_done(&g);
        return TEST_END();
}
