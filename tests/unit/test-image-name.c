/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Names of images on command lines, and comparison of versions. */

#include "prepare/pods/pods-internal.h"
#include "tests/unit/test.h"

TEST(names)
{
        _cleanup_(image_name_done) ImageName n = {};
        _cleanup_free_ char *text = NULL;

        ASSERT_OK(image_name_parse("example.com/app", &n, NULL));
        ASSERT_STREQ(n.name, "example.com/app");
        ASSERT_EQ(n.labels.n, 0);
        image_name_done(&n);
        ASSERT_OK(image_name_parse("example.com/app:1.0:2,arch=amd64,note=a=b", &n, NULL));
        ASSERT_STREQ(n.name, "example.com/app");
        ASSERT_STREQ(pair_list_get(&n.labels, "version"), "1.0:2");
        ASSERT_STREQ(pair_list_get(&n.labels, "arch"), "amd64");
        ASSERT_STREQ(pair_list_get(&n.labels, "note"), "a=b");
        ASSERT_OK(image_name_format(n.name, &n.labels, &text));
        ASSERT_STREQ(text, "example.com/app:1.0:2,arch=amd64,note=a=b");
        image_name_done(&n);
        ASSERT_OK(image_name_parse("app,version=3,os=linux", &n, NULL));
        ASSERT_STREQ(pair_list_get(&n.labels, "version"), "3");
}

TEST(wrong_names)
{
        static const struct {
                const char *text, *why;
        } cases[] = {
                        {"", "'' is not an image name"},
                        {"example.com/app:",
                         "The label version in the image name 'example.com/app:' has no value"},
                        {"Example", "'Example' is not an image name"},
                        {":1.0", "is not an image name"},
                        {"a,b", "'b' in the image name 'a,b' is not a label"},
                        {"a,b=", "The label b in the image name 'a,b=' has no value"},
                        {"a,=b", "A label in the image name 'a,=b' is not valid"},
                        {"a,", "is not a label"},
                        {"a:1,version=2", "The label version is given twice"},
                        {"a,b=1,b=1", "The label b is given twice"},
                        {"a,name=b", "has a label 'name'"},
                        {"a\x1b[31m", "'a\\x1b[31m' is not an image name"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(image_name_done) ImageName n = {};
                _cleanup_error_ Error e = ERROR_NULL;
                ASSERT_ERR(image_name_parse(cases[i].text, &n, &e), -EINVAL);
                ASSERT_CONTAINS(e.message, cases[i].why);
                ASSERT_NULL(n.name);
        }
}

TEST(matching)
{
        ImageManifest m = {.name = (char *) "example.com/app"};
        _cleanup_(pair_list_done) PairList wanted = {};

        ASSERT_OK(pair_list_set(&m.labels, "version", "1"));
        ASSERT_OK(pair_list_set(&m.labels, "arch", "amd64"));
        ASSERT_TRUE(image_name_matches("example.com/app", &wanted, &m));
        ASSERT_FALSE(image_name_matches("example.com/ap", &wanted, &m));
        ASSERT_OK(pair_list_set(&wanted, "arch", "amd64"));
        ASSERT_TRUE(image_name_matches("example.com/app", &wanted, &m));
        ASSERT_OK(pair_list_set(&wanted, "channel", "beta"));
        ASSERT_FALSE(image_name_matches("example.com/app", &wanted, &m));
        pair_list_done(&m.labels);
}

TEST(versions)
{
        /* From old to new. */
        static const char *const order[] = {
                        NULL,
                        "~x",
                        "",
                        "0",
                        "0.9",
                        "1.0~a",
                        "1.0-alpha",
                        "1.0-alpha.1",
                        "1.0-beta",
                        "1.0-rc1",
                        "1.0-rc2",
                        "1.0-rc10",
                        "1.0",
                        "1.0-1",
                        "1.0-2",
                        "1.0-10",
                        "1.0a",
                        "1.0.1-rc1",
                        "1.0.1",
                        "1.2",
                        "1.9",
                        "1.10",
                        "2",
                        "10",
                        "20240101",
                        "99999999999999999999998",
                        "99999999999999999999999",
                        "100000000000000000000000",
        };

        for (size_t i = 0; i < ELEMENTSOF(order); i++)
                for (size_t j = 0; j < ELEMENTSOF(order); j++) {
                        int r = image_version_compare(order[i], order[j]), expected = (i > j) - (i < j);
                        if (r != expected)
                                TEST_FAIL("%s and %s: %d", order[i] ?: "none", order[j] ?: "none", r);
                }
}

TEST(equal_versions)
{
        static const char *const equal[][2] = {
                        {"1.0", "v1.0"}, {"1.0", "1.00"}, {"1.0", "1_0"}, {"1.0+build", "1.0.build"},
                        {"01", "1"},     {"", ""},
        };

        for (size_t i = 0; i < ELEMENTSOF(equal); i++) {
                ASSERT_EQ(image_version_compare(equal[i][0], equal[i][1]), 0);
                ASSERT_EQ(image_version_compare(equal[i][1], equal[i][0]), 0);
        }
        ASSERT_LT(image_version_compare("version", "very"), 0);
}

int main(void)
{
        RUN(names);
        RUN(wrong_names);
        RUN(matching);
        RUN(versions);
        RUN(equal_versions);
        return TEST_END();
}
