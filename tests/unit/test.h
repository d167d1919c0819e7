/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The whole of the unit tests' framework. A test program looks like this:
 *
 *     #include "tests/unit/test.h"
 *
 *     TEST(addition)
 *     {
 *             ASSERT_EQ(1 + 1, 2);
 *     }
 *
 *     int main(void)
 *     {
 *             RUN(addition);
 *             return TEST_END();
 *     }
 *
 * Every RUN() prints "ok NAME", "not ok NAME: why" or "skip NAME: why" on a line of its own, which is what
 * tests/run counts. An assertion that does not hold says where, what and both values, and leaves the test
 * function; the remaining tests still run. The program exits 1 if any test failed, 77 if all of them were
 * skipped.
 *
 * The assertions return from the function they stand in, so they work in functions that return void. Cleanup
 * attributes are honoured on the way out.
 */

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static unsigned test_n_passed_, test_n_failed_, test_n_skipped_;
static char test_reason_[2048];
static enum { TEST_GOING_, TEST_FAILED_, TEST_SKIPPED_ } test_state_;

/* Keeps the first reason only: what follows a failure is usually its consequence. Newlines would break the
 * line format. */
__attribute__((format(printf, 3, 4), unused)) static void test_fail_(const char *file, int line,
                                                                     const char *format, ...)
{
        va_list ap;
        int n;

        if (test_state_ == TEST_FAILED_)
                return;
        test_state_ = TEST_FAILED_;
        n = snprintf(test_reason_, sizeof test_reason_, "%s:%d: ", file, line);
        va_start(ap, format);
        vsnprintf(test_reason_ + n, sizeof test_reason_ - (size_t) n, format, ap);
        va_end(ap);
        for (char *p = test_reason_; *p; p++)
                if (*p == '\n')
                        *p = '~';
}

__attribute__((unused)) static void test_run_(const char *name, void (*function)(void))
{
        test_state_ = TEST_GOING_;
        test_reason_[0] = 0;
        function();
        switch (test_state_) {
        case TEST_GOING_:
                test_n_passed_++;
                printf("ok %s\n", name);
                break;
        case TEST_FAILED_:
                test_n_failed_++;
                printf("not ok %s: %s\n", name, test_reason_);
                break;
        case TEST_SKIPPED_:
                test_n_skipped_++;
                printf("skip %s: %s\n", name, test_reason_);
                break;
        }
        fflush(stdout);
}

__attribute__((unused)) static int test_end_(void)
{
        if (test_n_failed_ > 0)
                return 1;
        return test_n_passed_ == 0 && test_n_skipped_ > 0 ? 77 : 0;
}

#define TEST(name) static void test_##name(void)
#define RUN(name) test_run_(#name, test_##name)
#define TEST_END() test_end_()

/* Leaves the test as failed, or as one that cannot run here. */
#define TEST_FAIL(...)                                                                                      \
        do {                                                                                                \
                test_fail_(__FILE__, __LINE__, __VA_ARGS__);                                                \
                return;                                                                                     \
        } while (0)
#define TEST_SKIP(...)                                                                                      \
        do {                                                                                                \
                test_state_ = TEST_SKIPPED_;                                                                \
                snprintf(test_reason_, sizeof test_reason_, __VA_ARGS__);                                   \
                return;                                                                                     \
        } while (0)

/* For a program that cannot run at all: "if (…) return TEST_SKIP_ALL("no root here");" in main(). */
#define TEST_SKIP_ALL(...) (printf("SKIP: " __VA_ARGS__), putchar('\n'), 77)

#define ASSERT_TRUE(x)                                                                                      \
        do {                                                                                                \
                if (!(x))                                                                                   \
                        TEST_FAIL("%s does not hold", #x);                                                  \
        } while (0)
#define ASSERT_FALSE(x)                                                                                     \
        do {                                                                                                \
                if (x)                                                                                      \
                        TEST_FAIL("%s holds, should not", #x);                                              \
        } while (0)
#define ASSERT_NULL(x)                                                                                      \
        do {                                                                                                \
                if ((x) != NULL)                                                                            \
                        TEST_FAIL("%s is not NULL", #x);                                                    \
        } while (0)
#define ASSERT_NOT_NULL(x)                                                                                  \
        do {                                                                                                \
                if ((x) == NULL)                                                                            \
                        TEST_FAIL("%s is NULL", #x);                                                        \
        } while (0)

/* For functions that return a negative errno. strerror() of what is no errno says so by itself. */
#define ASSERT_OK(r)                                                                                        \
        do {                                                                                                \
                long long _r_ = (long long) (r);                                                            \
                if (_r_ < 0)                                                                                \
                        TEST_FAIL("%s failed: %lld (%s)", #r, _r_, strerror((int) -_r_));                   \
        } while (0)
#define ASSERT_ERR(r, code)                                                                                 \
        do {                                                                                                \
                long long _r_ = (long long) (r), _code_ = (long long) (code);                               \
                if (_r_ != _code_)                                                                          \
                        TEST_FAIL("%s returned %lld%s%s%s, expected %s (%lld)", #r, _r_,                    \
                                  _r_ < 0 ? " (" : "", _r_ < 0 ? strerror((int) -_r_) : "",                 \
                                  _r_ < 0 ? ")" : "", #code, _code_);                                       \
        } while (0)

/* Waits until CONDITION is true, which another process or thread brings about; false after a minute. The limit is for slow
 * and busy machines: no passing test waits that long. */
#define WAIT_FOR_MAX_USEC (60 * 1000 * 1000U)
#define WAIT_FOR(condition)                                                                                 \
        __extension__({                                                                                     \
                unsigned usec_ = 0;                                                                         \
                for (; !(condition) && usec_ < WAIT_FOR_MAX_USEC; usec_ += 5000)                            \
                        (void) usleep(5000);                                                                \
                usec_ < WAIT_FOR_MAX_USEC;                                                                  \
        })

/* True if the process PID, which is not a child of this one, has exited. PID 1 may never reap it if it is not an init. */
__attribute__((unused)) static bool test_has_exited(long pid)
{
        char path[64], text[512] = "";
        FILE *f;

        snprintf(path, sizeof path, "/proc/%ld/stat", pid);
        f = fopen(path, "re");
        if (!f)
                return true;
        size_t n = fread(text, 1, sizeof text - 1, f);
        fclose(f);
        const char *state = strrchr(text, ')');
        return n == 0 || (state && (state[2] == 'Z' || state[2] == 'X'));
}

/* Integers of any type. Widened to 128 bits, so that neither -1 and UINT64_MAX nor two large unsigned
 * numbers meet. */
__extension__ typedef __int128 test_wide_;
#define ASSERT_COMPARE_(a, op, b)                                                                           \
        do {                                                                                                \
                test_wide_ _a_ = (a), _b_ = (b);                                                            \
                if (!(_a_ op _b_))                                                                          \
                        TEST_FAIL("%s %s %s does not hold: %s%" PRIu64 ", %s%" PRIu64, #a, #op, #b,         \
                                  _a_ < 0 ? "-" : "", (uint64_t) (_a_ < 0 ? -_a_ : _a_),                    \
                                  _b_ < 0 ? "-" : "", (uint64_t) (_b_ < 0 ? -_b_ : _b_));                   \
        } while (0)
#define ASSERT_EQ(a, b) ASSERT_COMPARE_(a, ==, b)
#define ASSERT_NE(a, b) ASSERT_COMPARE_(a, !=, b)
#define ASSERT_LT(a, b) ASSERT_COMPARE_(a, <, b)
#define ASSERT_LE(a, b) ASSERT_COMPARE_(a, <=, b)
#define ASSERT_GT(a, b) ASSERT_COMPARE_(a, >, b)
#define ASSERT_GE(a, b) ASSERT_COMPARE_(a, >=, b)

/* Two strings; NULL equals only NULL. */
#define ASSERT_STREQ(a, b)                                                                                  \
        do {                                                                                                \
                const char *_a_ = (a), *_b_ = (b);                                                          \
                if (_a_ != _b_ && (!_a_ || !_b_ || strcmp(_a_, _b_) != 0))                                  \
                        TEST_FAIL("%s is \"%s\", expected \"%s\"", #a, _a_ ? _a_ : "(null)",                \
                                  _b_ ? _b_ : "(null)");                                                    \
        } while (0)
#define ASSERT_CONTAINS(haystack, needle)                                                                   \
        do {                                                                                                \
                const char *_h_ = (haystack), *_n_ = (needle);                                              \
                if (!_h_ || !strstr(_h_, _n_))                                                              \
                        TEST_FAIL("%s is \"%s\", which does not contain \"%s\"", #haystack,                 \
                                  _h_ ? _h_ : "(null)", _n_);                                               \
        } while (0)
#define ASSERT_NOT_CONTAINS(haystack, needle)                                                               \
        do {                                                                                                \
                const char *_h_ = (haystack), *_n_ = (needle);                                              \
                if (_h_ && strstr(_h_, _n_))                                                                \
                        TEST_FAIL("%s is \"%s\", which contains \"%s\"", #haystack, _h_, _n_);              \
        } while (0)
/* Any call that reports in F's error object: it works, or it fails for that reason. */
#define ASSERT_WORKS(f, call)                                                                               \
        do {                                                                                                \
                int r_ = (call);                                                                            \
                if (r_ < 0)                                                                                 \
                        TEST_FAIL("%s failed: %s", #call, (f).error.message ?: strerror(-r_));              \
        } while (0)
#define ASSERT_FAILS(f, call, code, why)                                                                    \
        do {                                                                                                \
                error_done(&(f).error); /* what an earlier call said */                                     \
                ASSERT_ERR((call), (code));                                                                 \
                ASSERT_CONTAINS((f).error.message, (why));                                                  \
        } while (0)
#define ASSERT_MEMEQ(a, b, n)                                                                               \
        do {                                                                                                \
                if (memcmp((a), (b), (n)) != 0)                                                             \
                        TEST_FAIL("%zu bytes of %s and %s differ", (size_t) (n), #a, #b);                   \
        } while (0)
