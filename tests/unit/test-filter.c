/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Filters of lists: which objects match, and the messages about wrong ones. */

#include "stage0/cli/filter.h"
#include "tests/unit/test.h"

typedef struct Thing {
        const char *name;
        PairList labels;
} Thing;

static bool name_matches(const void *object, const char *value)
{
        return filter_glob(value, ((const Thing *) object)->name);
}

static bool label_matches(const void *object, const char *value)
{
        return filter_pair(value, &((const Thing *) object)->labels);
}

static int check_even(const char *value, Error *e)
{
        return strlen(value) % 2 == 0 ? 0 : error_set(e, -EINVAL, "must be of even length");
}

static bool length_matches(const void *object, const char *value)
{
        return strlen(((const Thing *) object)->name) == strlen(value);
}

static const FilterKey keys[] = {
                {"name", false, NULL, name_matches},
                {"label", true, NULL, label_matches},
                {"length", false, check_even, length_matches},
                FILTER_KEY_END,
};

static const Option option = {NULL, "filter", 'f', "KEY=VALUE", false, "", NULL, option_filter, 0};

/* A negative errno: a filter is not valid. */
static int match(const Thing *t, const char *const *filters)
{
        _cleanup_error_ Error e = ERROR_NULL;
        Filters f = {.keys = keys};

        for (; *filters; filters++) {
                int r = option_filter(&option, *filters, &f, &e);
                if (r < 0)
                        return r;
        }
        return filters_match(&f, t);
}

#define MATCH(...) match(&thing, (const char *const[]){__VA_ARGS__, NULL})

TEST(matching)
{
        Thing thing = {.name = "web1"};

        ASSERT_OK(pair_list_set(&thing.labels, "tier", "front"));
        ASSERT_OK(pair_list_set(&thing.labels, "zone", "a=b"));
        ASSERT_OK(pair_list_set(&thing.labels, "empty", ""));
        ASSERT_EQ(match(&thing, (const char *const[]){NULL}), true);
        ASSERT_EQ(MATCH("name=web1"), true);
        ASSERT_EQ(MATCH("name=w?b[0-9]"), true);
        ASSERT_EQ(MATCH("name=*"), true);
        ASSERT_EQ(MATCH("name=web"), false);
        /* one of several with the same key; all with different ones */
        ASSERT_EQ(MATCH("name=db*", "name=web*"), true);
        ASSERT_EQ(MATCH("name=db*", "name=x"), false);
        ASSERT_EQ(MATCH("name=web*", "length=four"), true);
        ASSERT_EQ(MATCH("name=web*", "length=to"), false);
        ASSERT_EQ(MATCH("name=x", "length=four"), false);
        /* all labels */
        ASSERT_EQ(MATCH("label=tier"), true);
        ASSERT_EQ(MATCH("label=tier=front", "label=zone=a=b"), true);
        ASSERT_EQ(MATCH("label=tier=front", "label=zone=c"), false);
        ASSERT_EQ(MATCH("label=tier=back"), false);
        ASSERT_EQ(MATCH("label=tie"), false);
        ASSERT_EQ(MATCH("label=tierx"), false);
        ASSERT_EQ(MATCH("label=empty="), true);
        ASSERT_EQ(MATCH("label=tier="), false);
        pair_list_done(&thing.labels);
}

TEST(missing_and_lists)
{
        char *l[] = {(char *) "one", (char *) "two", NULL};

        ASSERT_TRUE(!filter_glob("*", NULL));
        ASSERT_TRUE(filter_glob_any("t*", l));
        ASSERT_TRUE(!filter_glob_any("three", l));
        ASSERT_TRUE(!filter_glob_any("*", NULL));
}

TEST(messages)
{
        static const struct {
                const char *value, *message;
        } cases[] = {
                        {"name", "must be KEY=VALUE"},
                        {"", "must be KEY=VALUE"},
                        {"=x", "must be KEY=VALUE"},
                        {"nam=x", "'nam' is none of name, label, length"},
                        {"names=x", "'names' is none of name, label, length"},
                        {"a\033=x", "'a\\x1b' is none of"},
                        {"name=", "the value must not be empty"},
                        {"length=odd", "must be of even length"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_error_ Error e = ERROR_NULL;
                Filters f = {.keys = keys};

                ASSERT_ERR(option_filter(&option, cases[i].value, &f, &e), -EINVAL);
                ASSERT_CONTAINS(e.message, "for --filter: ");
                ASSERT_CONTAINS(e.message, cases[i].message);
                ASSERT_EQ(f.n, 0);
        }
}

TEST(too_many)
{
        _cleanup_error_ Error e = ERROR_NULL;
        Filters f = {.keys = keys};

        for (size_t i = 0; i < FILTERS_MAX; i++)
                ASSERT_OK(option_filter(&option, "name=x", &f, &e));
        ASSERT_ERR(option_filter(&option, "name=x", &f, &e), -EINVAL);
        ASSERT_CONTAINS(e.message, "there are more than 64 filters");
}

int main(void)
{
        RUN(matching);
        RUN(missing_and_lists);
        RUN(messages);
        RUN(too_many);
        return TEST_END();
}
