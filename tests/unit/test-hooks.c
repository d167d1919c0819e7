/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Lists of hooks: what is read is written, and what is not valid is refused with its reason. */

#include "schema/hooks.h"
#include "tests/unit/test.h"

#define FULL                                                                                                \
        "[{\"path\":\"/usr/bin/a\",\"args\":[\"a\",\"b c\"],\"env\":[\"X=y\"],\"timeout\":5},{\"path\":\"/b\",\"timeout\":30}]"

TEST(what_is_read_is_written)
{
        _cleanup_hook_list_ HookList l = {}, copy = {};
        _cleanup_free_ char *text = NULL;

        ASSERT_OK(hook_list_parse(FULL, &l, NULL));
        ASSERT_EQ(l.n, 2);
        ASSERT_STREQ(l.items[0].path, "/usr/bin/a");
        ASSERT_STREQ(l.items[0].args[1], "b c");
        ASSERT_STREQ(l.items[0].env[0], "X=y");
        ASSERT_EQ(l.items[0].timeout_sec, 5);
        ASSERT_NULL(l.items[1].args);
        ASSERT_EQ(l.items[1].timeout_sec, HOOK_TIMEOUT_SEC_DEFAULT);
        ASSERT_OK(hook_list_extend(&copy, &l));
        ASSERT_OK(hook_list_format(&copy, &text));
        ASSERT_STREQ(text, FULL);
}

TEST(mistakes)
{
        static const struct {
                const char *text, *message;
        } cases[] = {
                        {"", ""},
                        {"{}", "It is not a list of hooks"},
                        {"[5]", "It is not a list of hooks"},
                        {"[{}]", "\"path\" of a hook is ''"},
                        {"[{\"path\":\"a\"}]", "\"path\" of a hook is 'a'"},
                        {"[{\"path\":\"/a/../b\"}]", "which is not an absolute path"},
                        {"[{\"path\":5}]", "\"path\" is not a string"},
                        {"[{\"path\":\"/a\",\"args\":{}}]", "\"args\" is not a list"},
                        {"[{\"path\":\"/a\",\"args\":[{}]}]", "\"args\" is not a list of strings"},
                        {"[{\"path\":\"/a\",\"env\":[\"x\"]}]", "\"env\" has 'x'"},
                        {"[{\"path\":\"/a\",\"timeout\":601}]", "\"timeout\" is 601"},
                        {"[{\"path\":\"/a\",\"timeout\":-1}]", "\"timeout\" is -1"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_hook_list_ HookList l = {};
                _cleanup_error_ Error e = ERROR_NULL;
                ASSERT_ERR(hook_list_parse(cases[i].text, &l, &e), *cases[i].text ? -EINVAL : -EBADMSG);
                ASSERT_CONTAINS(e.message, cases[i].message);
                ASSERT_EQ(l.n, 0);
        }
}

TEST(too_many)
{
        _cleanup_hook_list_ HookList l = {}, all = {};

        ASSERT_OK(hook_list_parse("[{\"path\":\"/a\"}]", &l, NULL));
        for (size_t i = 0; i < HOOKS_MAX; i++)
                ASSERT_OK(hook_list_extend(&all, &l));
        ASSERT_ERR(hook_list_extend(&all, &l), -E2BIG);
}

int main(void)
{
        RUN(what_is_read_is_written);
        RUN(mistakes);
        RUN(too_many);
        return TEST_END();
}
