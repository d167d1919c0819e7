/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Libraries that are loaded on first use: one that is missing, or lacks a function, makes calls fail, and never ends the
 * process. Such calls come without library_load() here, which is an assertion in sanitized builds. */

#include <zlib.h>

#include "library/library.h"
#include "tests/unit/test.h"

static int last;

static int number(int a)
{
        return last = a;
}

static const char *text(const char *s)
{
        return s;
}

static void nothing(int a)
{
        last = a;
}

static size_t size(void)
{
        return 7;
}

static __typeof__(zlibVersion) *version;
static const LibraryFunction known[] = {{"zlibVersion", &version}},
                             unknown[] = {{"no_such_function", &version}};

static Library missing = {
                .file = "libacnspawn-missing.so.1",
                .package = "libacnspawn-missing1",
                .purpose = "tests",
                .functions = known,
                .n_functions = 1,
};

static Library other = {
                .file = "libz.so.1",
                .package = "zlib1g",
                .purpose = "tests",
                .functions = unknown,
                .n_functions = 1,
};

static Library there = {
                .file = "libz.so.1",
                .package = "zlib1g",
                .purpose = "tests",
                .functions = known,
                .n_functions = 1,
};

TEST(what_cannot_be_loaded_is_named)
{
        _cleanup_error_ Error e = ERROR_NULL, e2 = ERROR_NULL;

        ASSERT_ERR(library_load(&missing, &e), -ELIBACC);
        ASSERT_CONTAINS(e.message,
                        "Cannot load a library that is needed for tests: libacnspawn-missing.so.1");
        ASSERT_CONTAINS(e.hint, "libacnspawn-missing1");
        ASSERT_ERR(library_load(&other, &e2), -ELIBACC);
        ASSERT_CONTAINS(e2.message, "it has no no_such_function()");
        ASSERT_EQ(missing.loaded + other.loaded, 0);
}

TEST(calls_without_the_library_fail)
{
#ifdef __SANITIZE_ADDRESS__
        TEST_SKIP("these calls fail an assertion in sanitized builds");
#endif
        last = 0;
        ASSERT_ERR(LIBRARY_CALL(missing, number, 5), -ELIBACC);
        ASSERT_ERR(LIBRARY_CALL(missing, number, LIBRARY_CALL(missing, number, 5)), -ELIBACC);
        ASSERT_NULL(LIBRARY_CALL(missing, text, "x"));
        ASSERT_EQ(LIBRARY_CALL(missing, size, ), (size_t) -ELIBACC);
        LIBRARY_CALL(other, nothing, 5);
        ASSERT_EQ(last, 0);
}

TEST(calls_with_the_library_are_made)
{
        ASSERT_OK(library_load(&there, NULL));
        ASSERT_NOT_NULL(version);
        ASSERT_EQ(LIBRARY_CALL(there, number, 5), 5);
        ASSERT_STREQ(LIBRARY_CALL(there, text, "x"), "x");
        ASSERT_EQ(LIBRARY_CALL(there, size, ), (size_t) 7);
        LIBRARY_CALL(there, nothing, 6);
        ASSERT_EQ(last, 6);
        ASSERT_STREQ(LIBRARY_CALL(there, version, ), version());
}

int main(void)
{
        RUN(what_cannot_be_loaded_is_named);
        RUN(calls_without_the_library_fail);
        RUN(calls_with_the_library_are_made);
        return TEST_END();
}
