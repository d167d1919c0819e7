/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The plain parts of basic/: macros, the error object, messages, lists of strings. */

#include <sys/wait.h>

#include "basic/basic.h"
#include "tests/unit/scratch.h"
#include "tests/unit/test.h"

/* Allocations that are too large must fail, also under AddressSanitizer. */
const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__asan_default_options(void)
{
        return "allocator_may_return_null=1";
}

/* --- Macros -------------------------------------------------------------------------------------------- */

TEST(take_pointer_and_descriptor)
{
        _cleanup_free_ char *p = strdup("x");
        _cleanup_close_ int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

        ASSERT_NOT_NULL(p);
        ASSERT_OK(fd);
        _cleanup_free_ char *q = TAKE_PTR(p);
        ASSERT_NULL(p);
        ASSERT_STREQ(q, "x");
        _cleanup_close_ int moved = TAKE_FD(fd);
        ASSERT_EQ(fd, -EBADF);
        ASSERT_OK(fcntl(moved, F_GETFD));
}

static int open_and_leave(int *number)
{
        _cleanup_close_ int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

        *number = fd;
        errno = EXDEV; /* closing must leave errno as it is */
        return fd;
}

TEST(cleanup_closes_and_keeps_errno)
{
        int number = -1;

        ASSERT_OK(open_and_leave(&number));
        ASSERT_EQ(errno, EXDEV);
        ASSERT_EQ(fcntl(number, F_GETFD), -1);
        ASSERT_EQ(safe_close(-EBADF), -EBADF);
        ASSERT_EQ(safe_close(-1), -EBADF);
}

TEST(string_comparisons)
{
        ASSERT_STREQ(startswith("foobar", "foo"), "bar");
        ASSERT_STREQ(startswith("foo", "foo"), "");
        ASSERT_STREQ(startswith("foo", ""), "foo");
        ASSERT_NULL(startswith("foo", "foobar"));
        ASSERT_NULL(startswith("", "x"));
        ASSERT_STREQ(endswith("foobar", "bar"), "bar");
        ASSERT_STREQ(endswith("bar", ""), "");
        ASSERT_NULL(endswith("ar", "bar"));
        ASSERT_NULL(endswith("bar.", "bar"));
        ASSERT_TRUE(streq_ptr(NULL, NULL));
        ASSERT_FALSE(streq_ptr("a", NULL));
        ASSERT_FALSE(streq_ptr(NULL, ""));
        ASSERT_TRUE(streq_ptr("a", "a"));
        ASSERT_TRUE(isempty(NULL));
        ASSERT_TRUE(isempty(""));
        ASSERT_FALSE(isempty(" "));
}

TEST(greedy_realloc_grows_and_keeps)
{
        _cleanup_free_ uint32_t *a = NULL;
        size_t allocated = 0;

        for (uint32_t i = 0; i < 1000; i++) {
                ASSERT_OK(GREEDY_REALLOC(a, allocated, i + 1));
                ASSERT_GE(allocated, i + 1);
                a[i] = i;
        }
        for (uint32_t i = 0; i < 1000; i++)
                ASSERT_EQ(a[i], i);
        size_t before = allocated;
        ASSERT_ERR(GREEDY_REALLOC(a, allocated, SIZE_MAX / 2), -ENOMEM);
        ASSERT_EQ(allocated, before);
        ASSERT_EQ(a[999], 999);
}

TEST(xasprintf_formats)
{
        _cleanup_free_ char *s = NULL;

        ASSERT_OK(xasprintf(&s, "%s-%d", "a", 7));
        ASSERT_STREQ(s, "a-7");
}

/* --- The error object ---------------------------------------------------------------------------------- */

TEST(error_set_returns_negative_code)
{
        _cleanup_error_ Error e = ERROR_NULL;

        ASSERT_ERR(error_set(&e, -ENOENT, "No %s", "image"), -ENOENT);
        ASSERT_EQ(e.code, -ENOENT);
        ASSERT_STREQ(e.message, "No image");
        ASSERT_NULL(e.hint);
        ASSERT_ERR(error_set(&e, EPERM, "Again"), -EPERM);
        ASSERT_STREQ(e.message, "Again");
}

TEST(error_set_replaces_message_and_hint)
{
        _cleanup_error_ Error e = ERROR_NULL;

        error_set(&e, -EIO, "First");
        ASSERT_ERR(error_hint(&e, 0, "Try %d", 2), -EIO);
        ASSERT_STREQ(e.hint, "Try 2");
        error_set(&e, -EINVAL, "Second, was \"%s\"", e.message);
        ASSERT_STREQ(e.message, "Second, was \"First\"");
        ASSERT_NULL(e.hint);
}

TEST(error_set_errno_appends_reason)
{
        _cleanup_error_ Error e = ERROR_NULL;

        ASSERT_ERR(error_set_errno(&e, -EACCES, "Cannot open %s", "x"), -EACCES);
        ASSERT_STREQ(e.message, "Cannot open x: Permission denied");
}

TEST(error_prefix_puts_context_in_front)
{
        _cleanup_error_ Error e = ERROR_NULL;

        error_set(&e, -EINVAL, "bad port");
        error_hint(&e, 0, "Use 1 to 65535");
        ASSERT_ERR(error_prefix(&e, 0, "App %s", "web"), -EINVAL);
        ASSERT_STREQ(e.message, "App web: bad port");
        ASSERT_STREQ(e.hint, "Use 1 to 65535");
        ASSERT_ERR(error_prefix(&e, -EBADMSG, "Pod"), -EBADMSG);
        ASSERT_STREQ(e.message, "Pod: App web: bad port");
        ASSERT_EQ(e.code, -EBADMSG);
}

TEST(error_prefix_without_message)
{
        _cleanup_error_ Error e = ERROR_NULL;

        ASSERT_ERR(error_prefix(&e, -ENOSPC, "Store"), -ENOSPC);
        ASSERT_STREQ(e.message, "Store: No space left on device");
}

TEST(error_object_is_optional)
{
        ASSERT_ERR(error_set(NULL, -EIO, "x"), -EIO);
        ASSERT_ERR(error_set_errno(NULL, EIO, "x"), -EIO);
        ASSERT_ERR(error_prefix(NULL, -EBUSY, "x"), -EBUSY);
        ASSERT_ERR(error_hint(NULL, -EBUSY, "x"), -EBUSY);
        ASSERT_ERR(error_oom(NULL), -ENOMEM);
        error_done(NULL);
}

TEST(error_without_code_is_still_a_failure)
{
        _cleanup_error_ Error e = ERROR_NULL;

        ASSERT_LT(error_set(&e, 0, "x"), 0);
        ASSERT_LT(error_set(NULL, 0, "x"), 0);
}

TEST(error_done_clears)
{
        Error e = ERROR_NULL;

        error_oom(&e);
        ASSERT_STREQ(e.message, "Out of memory");
        ASSERT_EQ(e.code, -ENOMEM);
        error_done(&e);
        ASSERT_EQ(e.code, 0);
        ASSERT_NULL(e.message);
        error_done(&e);
}

/* --- Messages ------------------------------------------------------------------------------------------ */

/* Runs F in a child whose stderr is a file, and returns its output. */
static int capture(void (*f)(void), char *ret, size_t size)
{
        int pipe_fds[2], status;

        if (pipe(pipe_fds) < 0)
                return -errno;
        fflush(stdout);
        pid_t pid = fork();
        if (pid < 0)
                return -errno;
        if (pid == 0) {
                dup2(pipe_fds[1], STDERR_FILENO);
                f();
                _exit(0);
        }
        close(pipe_fds[1]);
        ssize_t n = loop_read(pipe_fds[0], ret, size - 1);
        close(pipe_fds[0]);
        if (n < 0)
                return (int) n;
        ret[n] = 0;
        if (waitpid(pid, &status, 0) < 0)
                return -errno;
        return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -ECHILD;
}

static void say_something(void)
{
        Error e = ERROR_NULL;

        unsetenv("SYSTEMD_COLORS");
        log_error("broken %d", 1);
        log_warning("careful");
        log_info("by the way");
        log_debug("not seen");
        log_set_max_level(LOG_LEVEL_DEBUG);
        log_debug("seen");
        log_set_max_level(LOG_LEVEL_ERROR);
        log_info("not seen");
        error_set(&e, -EIO, "It failed");
        error_print(&e, e.code);
        log_set_max_level(LOG_LEVEL_INFO);
        error_hint(&e, 0, "Try again");
        error_print(&e, e.code);
        error_print(NULL, -ENOENT);
        error_done(&e);
}

TEST(messages_one_line_each_by_level)
{
        char text[1024];

        ASSERT_OK(capture(say_something, text, sizeof(text)));
        ASSERT_STREQ(text, "Error: broken 1\nWarning: careful\nby the way\nDebug: seen\nError: It failed.\n"
                           "Error: It failed.\nTry again\nError: No such file or directory.\n");
}

static void say_with_colors(void)
{
        setenv("SYSTEMD_COLORS", "1", 1);
        log_error("x");
        setenv("SYSTEMD_COLORS", "0", 1);
        log_error("y");
}

TEST(messages_colors_on_request_only)
{
        char text[256];

        ASSERT_OK(capture(say_with_colors, text, sizeof(text)));
        ASSERT_CONTAINS(text, "\033[");
        ASSERT_CONTAINS(text, "\033[0mx\n");
        ASSERT_CONTAINS(text, "Error: y\n");
}

TEST(messages_keep_errno_and_level)
{
        log_set_max_level(LOG_LEVEL_WARNING);
        errno = ENOTTY;
        log_debug("dropped");
        ASSERT_EQ(errno, ENOTTY);
        log_set_max_level(LOG_LEVEL_INFO);
}

TEST(colors_follow_environment)
{
        _cleanup_close_ int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

        unsetenv("SYSTEMD_COLORS");
        ASSERT_FALSE(colors_enabled(fd));
        setenv("SYSTEMD_COLORS", "256", 1);
        ASSERT_TRUE(colors_enabled(fd));
        setenv("SYSTEMD_COLORS", "no", 1);
        ASSERT_FALSE(colors_enabled(fd));
        setenv("SYSTEMD_COLORS", "", 1); /* as if it were not set */
        ASSERT_FALSE(colors_enabled(fd));
        unsetenv("SYSTEMD_COLORS");
}

/* --- Lists of strings ---------------------------------------------------------------------------------- */

TEST(strv_empty_list)
{
        _cleanup_strv_free_ char **copy = NULL;

        ASSERT_EQ(strv_length(NULL), 0);
        ASSERT_FALSE(strv_contains(NULL, "x"));
        ASSERT_OK(strv_copy(NULL, &copy));
        ASSERT_EQ(strv_length(copy), 0);
        strv_sort(NULL);
        _cleanup_free_ char *joined = strv_join(NULL, ",");
        ASSERT_STREQ(joined, "");
        ASSERT_NULL(strv_free(NULL));
        STRV_FOREACH (s, (char **) NULL)
                TEST_FAIL("an empty list has an element");
}

TEST(strv_grows)
{
        _cleanup_strv_free_ char **l = NULL;

        ASSERT_OK(strv_extend(&l, "a"));
        ASSERT_OK(strv_extendf(&l, "%s%d", "b", 2));
        ASSERT_OK(strv_consume(&l, strdup("")));
        ASSERT_ERR(strv_consume(&l, NULL), -ENOMEM);
        ASSERT_EQ(strv_length(l), 3);
        ASSERT_STREQ(l[1], "b2");
        ASSERT_NULL(l[3]);
        ASSERT_TRUE(strv_contains(l, "b2"));
        ASSERT_TRUE(strv_contains(l, ""));
        ASSERT_FALSE(strv_contains(l, "b"));
}

TEST(strv_copy_is_deep)
{
        _cleanup_strv_free_ char **l = NULL, **copy = NULL;

        ASSERT_OK(strv_split("x y", " ", &l));
        ASSERT_OK(strv_copy(l, &copy));
        copy[0][0] = 'z';
        ASSERT_STREQ(l[0], "x");
        ASSERT_STREQ(copy[1], "y");
        ASSERT_NULL(copy[2]);
}

TEST(strv_split_drops_empty_fields)
{
        _cleanup_strv_free_ char **l = NULL, **none = NULL;

        ASSERT_OK(strv_split("//a//b/c/", "/", &l));
        ASSERT_EQ(strv_length(l), 3);
        _cleanup_free_ char *joined = strv_join(l, ", ");
        ASSERT_STREQ(joined, "a, b, c");
        ASSERT_OK(strv_split("///", "/", &none));
        ASSERT_EQ(strv_length(none), 0);
}

TEST(strv_split_fields_keeps_empty_and_escaped_ones)
{
        _cleanup_strv_free_ char **l = NULL, **none = NULL;

        ASSERT_OK(strv_split_fields("a,,b\\,c\\\\,\\d", &l));
        _cleanup_free_ char *joined = strv_join(l, "|");
        ASSERT_STREQ(joined, "a||b,c\\|\\d");
        ASSERT_OK(strv_split_fields("", &none));
        ASSERT_EQ(strv_length(none), 1);
}

TEST(strv_sort_by_bytes)
{
        _cleanup_strv_free_ char **l = NULL;

        ASSERT_OK(strv_split("b a B \xc3\xa4 10 9", " ", &l));
        strv_sort(l);
        _cleanup_free_ char *joined = strv_join(l, " ");
        ASSERT_STREQ(joined, "10 9 B a b \xc3\xa4");
}

/* --- Time ---------------------------------------------------------------------------------------------- */

TEST(arguments_are_evaluated_once)
{
        int n = 0, m = 10;
        char text[CONST_MAX(2, 3)];

        ASSERT_EQ(MIN(++n, ++m), 1);
        ASSERT_EQ(MAX(++n, ++m), 12);
        ASSERT_EQ(n, 2);
        ASSERT_EQ(m, 12);
        ASSERT_EQ(MAX(MIN(n++, 1), MIN(0, m--)), 1);
        ASSERT_EQ(n, 3);
        ASSERT_EQ(m, 11);
        ASSERT_EQ(sizeof(text), 3U);
        ASSERT_EQ(CONST_MIN(2, 3), 2);
}

TEST(deadlines)
{
        uint64_t now = now_usec(CLOCK_MONOTONIC), deadline = deadline_after(3600 * 1000000ULL);

        ASSERT_GE(deadline, now + 3600 * 1000000ULL);
        ASSERT_LE(deadline_left(deadline), 3600 * 1000000ULL);
        ASSERT_GT(deadline_left(deadline), 3000 * 1000000ULL);
        for (size_t i = 0; i < 1000000; i++) /* the clock goes on meanwhile */
                ASSERT_EQ(deadline_left(deadline_after(0)), 0);
        ASSERT_EQ(deadline_left(1), 0);
        ASSERT_EQ(deadline_left_msec(deadline_after(UINT64_MAX)), -1);
        ASSERT_EQ(deadline_left_msec(deadline_after(UINT64_MAX / 2)), INT32_MAX);
        ASSERT_EQ(deadline_left_msec(deadline_after(0)), 0);
        ASSERT_GT(deadline_left_msec(deadline_after(1000)), -1);
        ASSERT_LE(deadline_left_msec(deadline_after(1000)), 1);
        ASSERT_TRUE(deadline_after(UINT64_MAX) == UINT64_MAX);
        ASSERT_TRUE(deadline_after(UINT64_MAX - 1) == UINT64_MAX);
        ASSERT_TRUE(deadline_left(UINT64_MAX) == UINT64_MAX);
}

int main(void)
{
        RUN(take_pointer_and_descriptor);
        RUN(cleanup_closes_and_keeps_errno);
        RUN(string_comparisons);
        RUN(greedy_realloc_grows_and_keeps);
        RUN(xasprintf_formats);
        RUN(error_set_returns_negative_code);
        RUN(error_set_replaces_message_and_hint);
        RUN(error_set_errno_appends_reason);
        RUN(error_prefix_puts_context_in_front);
        RUN(error_prefix_without_message);
        RUN(error_object_is_optional);
        RUN(error_without_code_is_still_a_failure);
        RUN(error_done_clears);
        RUN(messages_one_line_each_by_level);
        RUN(messages_colors_on_request_only);
        RUN(messages_keep_errno_and_level);
        RUN(colors_follow_environment);
        RUN(strv_empty_list);
        RUN(strv_grows);
        RUN(strv_copy_is_deep);
        RUN(strv_split_drops_empty_fields);
        RUN(strv_split_fields_keeps_empty_and_escaped_ones);
        RUN(strv_sort_by_bytes);
        RUN(arguments_are_evaluated_once);
        RUN(deadlines);
        return TEST_END();
}
