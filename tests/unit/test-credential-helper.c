/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Credential helpers: working ones, and malfunctioning ones. */

#include <signal.h>
#include <sys/stat.h>

#include "prepare/registry/registry-internal.h"
#include "tests/unit/scratch.h"
#include "tests/unit/test.h"

#define SECOND_USEC 1000000ULL

typedef struct Case {
        Scratch scratch;
        Error error;
        RegistryCredentials given;
} Case;

static void case_done(Case *c)
{
        registry_credentials_done(&c->given);
        error_done(&c->error);
        scratch_done(&c->scratch);
}

/* Runs a helper with this SCRIPT, which gets the scratch directory in $HERE. */
static int ask(Case *c, const char *script, mode_t mode, uint64_t time_max)
{
        _cleanup_free_ char *text = NULL;

        registry_credentials_done(&c->given);
        error_done(&c->error);
        if (setenv("PATH", c->scratch.path, true) < 0 || setenv("HERE", c->scratch.path, true) < 0 ||
            xasprintf(&text, "#!/bin/sh\n%s\n", script) < 0 ||
            scratch_file(&c->scratch, "docker-credential-x", text) < 0 ||
            fchmodat(c->scratch.fd, "docker-credential-x", mode, 0) < 0)
                return -EIO;
        return credential_helper_ask("x", "example.com:5000", time_max, NULL, &c->given, &c->error);
}

#define CASE(c)                                                                                             \
        _cleanup_(case_done) Case c = {.scratch = SCRATCH_NULL};                                            \
        ASSERT_OK(scratch_new(&c.scratch))

TEST(answers)
{
        CASE(c);
        _cleanup_free_ char *seen = NULL;

        ASSERT_EQ(ask(&c,
                      "read server; echo \"$1 $# $server\" > $HERE/seen\n"
                      "echo '{\"ServerURL\":\"x\",\"Username\":\"me\",\"Secret\":\"sesame\"}'",
                      0755, 10 * SECOND_USEC),
                  1);
        ASSERT_STREQ(c.given.user, "me");
        ASSERT_STREQ(c.given.password, "sesame");
        ASSERT_NULL(c.given.identity_token);
        ASSERT_OK(read_file_at(c.scratch.fd, "seen", 100, &seen, NULL));
        ASSERT_STREQ(seen, "get 1 example.com:5000\n");

        ASSERT_EQ(ask(&c, "echo '{\"Username\":\"<token>\",\"Secret\":\"refresh\"}'", 0755,
                      10 * SECOND_USEC),
                  1);
        ASSERT_STREQ(c.given.identity_token, "refresh");
        ASSERT_NULL(c.given.user);
}

TEST(nothing_for_that_registry)
{
        CASE(c);

        ASSERT_EQ(ask(&c, "echo 'credentials not found in native keychain'; exit 1", 0755, 10 * SECOND_USEC),
                  0);
        ASSERT_EQ(ask(&c, "echo '{\"Username\":\"\",\"Secret\":\"\"}'", 0755, 10 * SECOND_USEC), 0);
}

/* Its output is shown only if it fails, and then shortened. */
TEST(invalid_answers)
{
        static const struct {
                const char *script;
                int code;
                const char *why;
        } answers[] = {
                        {"echo 'the \033[31mkeychain is locked'; echo more; exit 3", -EIO,
                         "it fails (exit status 3): the \\x1b[31mkeychain is locked"},
                        {"exit 1", -EIO, "it fails (exit status 1)"},
                        {"kill -TERM $$", -EIO, "it was ended by the signal 15"},
                        {"echo sesame", -EBADMSG, "its answer is not a JSON object"},
                        {"echo '[\"sesame\"]'", -EBADMSG, "its answer is not a JSON object"},
                        {"echo '{\"Secret\":\"sesame\"}'", -EBADMSG,
                         "its answer has no Username and Secret"},
                        {"echo '{\"Username\":1,\"Secret\":\"sesame\"}'", -EBADMSG,
                         "no Username and Secret"},
                        {"echo '{\"Secret\":\"sesame\",\"Secret\":\"sesame\",\"Username\":\"x\"}'", -EBADMSG,
                         "not a JSON object"},
                        {"true", -EBADMSG, "its answer is not a JSON object"},
                        {"while echo on and on and on and on and on and on; do :; done", -EFBIG,
                         "its answer is longer than 65536 bytes"},
        };

        for (size_t i = 0; i < ELEMENTSOF(answers); i++) {
                CASE(c);

                ASSERT_ERR(ask(&c, answers[i].script, 0755, 10 * SECOND_USEC), answers[i].code);
                ASSERT_CONTAINS(c.error.message, answers[i].why);
                ASSERT_NOT_CONTAINS(c.error.message, "sesame");
                ASSERT_NOT_CONTAINS(c.error.message, "more\n");
        }
}

/* It and its children are killed, at once or after the timeout. */
TEST(it_takes_too_long)
{
        CASE(c);
        _cleanup_free_ char *pid = NULL;
        uint32_t number;

        ASSERT_ERR(ask(&c, "/bin/sleep 60 & echo $! > $HERE/pid; wait", 0755, SECOND_USEC), -ETIMEDOUT);
        ASSERT_CONTAINS(c.error.message, "it has not answered within 1 s");
        ASSERT_OK(read_file_at(c.scratch.fd, "pid", 100, &pid, NULL));
        pid[strcspn(pid, "\n")] = 0;
        ASSERT_OK(parse_u32(pid, &number));
        ASSERT_TRUE(WAIT_FOR(test_has_exited(number)));
}

/* A process that keeps its standard output open does not block. */
TEST(it_leaves_a_process_behind)
{
        CASE(c);
        uint64_t begin = now_usec(CLOCK_MONOTONIC);

        ASSERT_EQ(ask(&c, "/bin/sleep 60 & echo '{\"Username\":\"a\",\"Secret\":\"b\"}'", 0755,
                      30 * SECOND_USEC),
                  1);
        ASSERT_LE(now_usec(CLOCK_MONOTONIC) - begin, 20 * SECOND_USEC);
}

TEST(invalid_names)
{
        static const char *const names[] = {
                        "",    "../x",
                        "a/b", "x y",
                        "x;y", "-x",
                        ".x",  "$(x)",
                        "x\n", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
        CASE(c);

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                error_done(&c.error);
                ASSERT_ERR(credential_helper_ask(names[i], "a", SECOND_USEC, NULL, &c.given, &c.error),
                           -EINVAL);
                ASSERT_STREQ(c.error.message, "that is not the name of a helper");
        }
}

TEST(programs_that_are_not_run)
{
        CASE(c);
        struct stat st;

        ASSERT_ERR(ask(&c, "touch $HERE/run", 0777, SECOND_USEC), -EPERM);
        ASSERT_CONTAINS(c.error.message, "could have been written by others");
        ASSERT_ERR(ask(&c, "touch $HERE/run", 0644, SECOND_USEC), -ENOENT);
        ASSERT_CONTAINS(c.error.message, "no program docker-credential-x in PATH");
        ASSERT_EQ(fchmodat(c.scratch.fd, "docker-credential-x", 0755, 0), 0);
        ASSERT_OK(setenv("PATH", ".:relative:/nowhere", true));
        ASSERT_ERR(credential_helper_ask("x", "a", SECOND_USEC, NULL, &c.given, &c.error), -ENOENT);
        ASSERT_EQ(fstatat(c.scratch.fd, "run", &st, 0), -1);
}

int main(void)
{
        RUN(answers);
        RUN(nothing_for_that_registry);
        RUN(invalid_answers);
        RUN(it_takes_too_long);
        RUN(it_leaves_a_process_behind);
        RUN(invalid_names);
        RUN(programs_that_are_not_run);
        return TEST_END();
}
