/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* stage0/control/detach-keys.c: which keys detach from a terminal, and which do not. */

#include "stage0/control/control.h"
#include "tests/unit/test.h"

static size_t find(DetachKeys *k, const char *s)
{
        return detach_keys_find(k, s, strlen(s));
}

TEST(names_of_keys)
{
        static const struct {
                const char *text;
                int r;
                size_t n;
                unsigned char first;
        } cases[] = {
                        {"ctrl-],ctrl-],ctrl-]", 0, 3, 0x1d},
                        {"ctrl-p,ctrl-q", 0, 2, 0x10},
                        {"a", 0, 1, 'a'},
                        {"^A", 0, 1, 1},
                        {"^", 0, 1, '^'},
                        {"ctrl-@", 0, 1, 0},
                        {"", 0, 0, 0},
                        {"ctrl-1", -EINVAL, 0, 0},
                        {"ctrl-", -EINVAL, 0, 0},
                        {"ab", -EINVAL, 0, 0},
                        {"\303\244", -EINVAL, 0, 0},
                        {"a,b,c,d,e,f,g,h", 0, 8, 'a'},
                        {"a,b,c,d,e,f,g,h,i", -EINVAL, 0, 0},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                DetachKeys k = {};
                ASSERT_EQ(detach_keys_parse(cases[i].text, &k), cases[i].r);
                ASSERT_EQ(k.n, cases[i].n);
                ASSERT_EQ(k.keys[0], cases[i].first);
        }
}

TEST(all_of_them_in_a_row)
{
        DetachKeys k = {};

        ASSERT_OK(detach_keys_parse(DETACH_KEYS_DEFAULT, &k));
        ASSERT_EQ(find(&k, "abc"), 3);
        ASSERT_EQ(find(&k, "a\x1d\x1d\x1d"
                           "b"),
                  3);
        ASSERT_EQ(find(&k, "\x1d\x1d"
                           "a\x1d"),
                  4);
        ASSERT_EQ(find(&k, "\x1d"), 1);
        ASSERT_EQ(find(&k, "\x1d"), 0);
        ASSERT_OK(detach_keys_parse("", &k));
        ASSERT_EQ(find(&k, "\x1d\x1d\x1d"), 3);
        ASSERT_OK(detach_keys_parse("ctrl-p,q", &k));
        ASSERT_EQ(find(&k, "\x10\x10q"), 2);
        ASSERT_EQ(find(&k, "qqq"), 3);
}

TEST(not_one_now_and_one_then)
{
        DetachKeys k = {};

        ASSERT_OK(detach_keys_parse(DETACH_KEYS_DEFAULT, &k));
        ASSERT_EQ(find(&k, "\x1d\x1d"), 2);
        k.first_usec -= 2000000;
        ASSERT_EQ(find(&k, "\x1d"), 1);
        ASSERT_EQ(find(&k, "\x1d\x1d"), 1);
}

int main(void)
{
        RUN(names_of_keys);
        RUN(all_of_them_in_a_row);
        RUN(not_one_now_and_one_then);
        return TEST_END();
}
