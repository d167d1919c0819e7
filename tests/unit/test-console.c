/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* stage0/supervisor/start/console.c: the message about a pod that did not start, from its console output. */

#include "stage0/supervisor/start/console.h"
#include "tests/unit/test.h"

static int explain(const char *text, char **reason, char **hint)
{
        Console c = {};

        free(*reason);
        free(*hint);
        *reason = *hint = NULL;
        console_add(&c, text, strlen(text));
        return console_reason(&c, reason, hint);
}

TEST(reasons)
{
        static const struct {
                const char *text, *reason, *hint;
        } cases[] = {
                        {"", "systemd-nspawn ended without a message", NULL},
                        {"\r\n\n", "systemd-nspawn ended without a message", NULL},
                        {"Error: Cannot do it.\n", "Cannot do it", NULL},
                        {"Error: Cannot do it.\nInstall it.\nThen again.\n", "Cannot do it",
                         "Install it.\nThen again."},
                        {"Only this", "Only this", NULL},
                        {"first\r\nlast\r\n", "last",
                         "Output of systemd-nspawn and the pod's systemd:\n  first\n  last"},
                        {"\033[31mred\033[0m\n", "\\x1b[31mred\\x1b[0m", NULL},
        };
        _cleanup_free_ char *reason = NULL, *hint = NULL;

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                ASSERT_OK(explain(cases[i].text, &reason, &hint));
                ASSERT_STREQ(reason, cases[i].reason);
                if (cases[i].hint)
                        ASSERT_STREQ(hint, cases[i].hint);
                else
                        ASSERT_NULL(hint);
        }
}

TEST(the_end_is_kept)
{
        _cleanup_free_ char *reason = NULL, *hint = NULL, *much = calloc(3, CONSOLE_KEPT);
        Console c = {};

        ASSERT_NOT_NULL(much);
        memset(much, 'x', 3 * CONSOLE_KEPT - 1);
        for (size_t i = 99; i < 3 * CONSOLE_KEPT; i += 100)
                much[i] = '\n';
        for (size_t i = 0; i < 1000; i++)
                console_add(&c, "0123456789\n", 11);
        ASSERT_EQ(c.size, CONSOLE_KEPT);
        console_add(&c, "end", 3);
        ASSERT_EQ(c.size, CONSOLE_KEPT);
        ASSERT_OK(console_reason(&c, &reason, &hint));
        ASSERT_STREQ(reason, "end");
        console_add(&c, much, 3 * CONSOLE_KEPT - 1); /* more than there is room for, in one piece */
        ASSERT_EQ(c.size, CONSOLE_KEPT);
        ASSERT_TRUE(memcmp(c.text, much + 2 * CONSOLE_KEPT - 1, CONSOLE_KEPT) == 0);
}

int main(void)
{
        RUN(reasons);
        RUN(the_end_is_kept);
        return TEST_END();
}
