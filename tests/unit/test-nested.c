/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Names, paths and cgroups of nested apps. */

#include "schema/nested.h"

#include "tests/unit/test.h"

TEST(names_of_nested_apps)
{
        static const struct {
                const char *name;
                size_t parent, level;
        } cases[] = {
                        {"web", 0, 1},       {"web-0n1", 3, 2},  {"web-0n1-0nzz", 7, 3},
                        {"a-b-0n0", 3, 2},   {"0n1", 0, 1},      {"web-0n", 0, 1},
                        {"web-0n1-x", 0, 1}, {"web-x0n1", 0, 1}, {"web-0n1-0n2-0n3", 11, 4},
                        {"", 0, 1},          {"-0n1", 0, 1},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                ASSERT_EQ(nested_parent_length(cases[i].name), cases[i].parent);
                ASSERT_EQ(nested_level(cases[i].name), cases[i].level);
                ASSERT_EQ(nested_is_name(cases[i].name), cases[i].parent > 0);
        }
}

TEST(places)
{
        ASSERT_TRUE(nested_is_below("web-0n1", "web"));
        ASSERT_TRUE(nested_is_below("web-0n1-0n2", "web"));
        ASSERT_TRUE(nested_is_below("web-0n1-0n2", "web-0n1"));
        ASSERT_FALSE(nested_is_below("web", "web"));
        ASSERT_FALSE(nested_is_below("web-0n1", "web-0n1"));
        ASSERT_FALSE(nested_is_below("web-0n12", "web-0n1"));
        ASSERT_FALSE(nested_is_below("web-x-0n1", "web"));
        ASSERT_FALSE(nested_is_below("web-0n1-x", "web"));
        ASSERT_FALSE(nested_is_below("db-0n1", "web"));
}

TEST(cgroups)
{
        static const char *const cases[][3] = {
                        {"web", "app-web.slice", "app-web.slice"},
                        {"a-b", "app-a_b.slice", "app-a_b.slice"},
                        {"a-b-0n1", "app-a_b-0n1.slice", "app-a_b.slice/app-a_b-0n1.slice"},
                        {"w-0n1-0nz2", "app-w-0n1-0nz2.slice",
                         "app-w.slice/app-w-0n1.slice/app-w-0n1-0nz2.slice"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_free_ char *slice = NULL, *slices = NULL;
                ASSERT_OK(nested_slice(cases[i][0], &slice));
                ASSERT_STREQ(slice, cases[i][1]);
                ASSERT_OK(nested_slices(cases[i][0], &slices));
                ASSERT_STREQ(slices, cases[i][2]);
        }
}

/* To the last level also if there were many apps before, and with any name within what files and cgroups can have. */
TEST(limits)
{
        static const uint64_t first[] = {1, 1200, 40000};

        for (size_t i = 0; i < ELEMENTSOF(first); i++) {
                _cleanup_free_ char *name = strdup("web");
                uint64_t number = first[i];
                for (size_t level = 2; level <= NESTED_LEVELS_MAX; level++) {
                        char *next = NULL;
                        ASSERT_OK(nested_name(name, number++, &next));
                        ASSERT_TRUE(nested_is_below(next, name));
                        ASSERT_EQ(nested_level(next), level);
                        free(name);
                        name = next;
                }
                char *more = NULL;
                ASSERT_ERR(nested_name(name, number, &more), -E2BIG);
        }
        char name[200], *more = NULL;
        memset(name, 'a', sizeof(name) - 1);
        name[sizeof(name) - 1] = 0;
        ASSERT_ERR(nested_name(name, 1, &more), -ENAMETOOLONG);
        ASSERT_OK(nested_name("web", UINT64_MAX, &more));
        ASSERT_STREQ(more, "web-0n3w5e11264sgsf");
        free(more);
}

TEST(paths)
{
        static const char *const valid[] = {"web/a", "web/helper/probe", "a-b/c-d"},
                                 *const invalid[] = {"",     "web",  "/a",  "a/",     "a//b", "a/-b",
                                                     "a/b-", "a-/b", "A/b", "a/b--c", "a/."};
        char deep[2 * 33];

        for (size_t i = 0; i < ELEMENTSOF(valid); i++)
                ASSERT_TRUE(nested_is_path(valid[i]));
        for (size_t i = 0; i < ELEMENTSOF(invalid); i++)
                ASSERT_FALSE(nested_is_path(invalid[i]));
        for (size_t i = 0; i < sizeof(deep); i++)
                deep[i] = i % 2 ? '/' : 'a';
        deep[2 * 32 - 1] = 0;
        ASSERT_TRUE(nested_is_path(deep));
        deep[2 * 32 - 1] = '/';
        deep[2 * 33 - 1] = 0;
        ASSERT_FALSE(nested_is_path(deep));
}

int main(void)
{
        RUN(names_of_nested_apps);
        RUN(places);
        RUN(cgroups);
        RUN(limits);
        RUN(paths);
        return TEST_END();
}
