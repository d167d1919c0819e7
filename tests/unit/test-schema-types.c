/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The simple types of the specification, quantities, lists of pairs, and the meaning of names and labels. */

#include "schema/schema.h"
#include "tests/unit/test.h"

typedef int (*CheckFunction)(const char *s, Error *e);

/* The first string with an unexpected result, or NULL. */
static const char *misjudged(CheckFunction check, const char *const *strings, int expected)
{
        for (; *strings; strings++) {
                _cleanup_error_ Error e = {};

                bool as_expected = check(*strings, &e) == expected && (expected < 0) == !isempty(e.message);
                if (!as_expected)
                        return *strings;
        }
        return NULL;
}

#define STRINGS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define ASSERT_VALID(check, ...) ASSERT_STREQ(misjudged((check), STRINGS(__VA_ARGS__), 0), NULL)
#define ASSERT_INVALID(check, ...) ASSERT_STREQ(misjudged((check), STRINGS(__VA_ARGS__), -EINVAL), NULL)

#define HEX64 "8d3fffddf79e9a232ffd19f9ccaa4d6b37a6a243dbe0f23137b108a043d9da13"
#define HEX128 HEX64 HEX64

TEST(names)
{
        ASSERT_VALID(ac_name_check, "database", "product-database", "a", "0", "9-0");
        ASSERT_INVALID(ac_name_check, "", "-", "-a", "a-", "a--b", "A", "a_b", "a/b", "a.b", "a b", "a\n",
                       "\xc3\xa9", "..");
        ASSERT_VALID(ac_identifier_check, "database", "example.com/database", "example.com/~user/app_v1",
                     "sub-domain.example.com/org/product/release", "0", "a~_b", "a--b", "a/..b");
        ASSERT_INVALID(ac_identifier_check, "", "/", "a/", "/a", "a//b", "a/../b", "a/./b", "A", "a b",
                       "a:b", "a%", "\xff");
}

TEST(versions)
{
        ASSERT_VALID(ac_version_check, "0.8.11", "0.5.2", "1.30.0", "0.0.1", "1.2.3-alpha.1", "1.2.3-0.x-y",
                     "1.2.3+001", "1.2.3-rc.1+build.5", "9223372036854775807.0.0", "1.0.0--");
        ASSERT_INVALID(ac_version_check, "", "0", "0.8", "0.8.11.1", "v0.8.11", "0.8.011", "00.8.1",
                       "0.8.-1", "0.0.0", "0.8.11-", "0.8.11+", "0.8.11-01", "0.8.11-a..b", "0.8.11-a_b",
                       "0.8.11 ", " 0.8.11", "9223372036854775808.0.0", "1.2.3+a+b");
}

TEST(image_ids)
{
        ASSERT_VALID(image_id_check, "sha512-" HEX128);
        ASSERT_EQ(strlen("sha512-" HEX128), IMAGE_ID_LENGTH);
        ASSERT_INVALID(image_id_check, "", "sha512-", "sha512", "sha512-...", "sha512-" HEX64,
                       "sha512-" HEX128 "0", "sha256-" HEX64, "SHA512-" HEX128, HEX128,
                       "sha512-" HEX64 "/../" HEX64, "sha512-g" HEX128);
}

TEST(uuids)
{
        ASSERT_VALID(uuid_check, "6733c088-a507-4694-aabf-edbe4fc5266f",
                     "6733C088-A507-4694-AABF-EDBE4FC5266F");
        ASSERT_INVALID(uuid_check, "", "6733c088a5074694aabfedbe4fc5266f",
                       "6733c088-a507-4694-aabf-edbe4fc5266", "6733c088-a507-4694-aabf-edbe4fc5266ff",
                       "6733c088-a507-4694-aabf-edbe4fc5266g", "6733c088_a507-4694-aabf-edbe4fc5266f");
}

TEST(environment_names)
{
        ASSERT_VALID(environment_name_check, "PATH", "_", "a.b-c", "A1", "1A", ".a", "-a", "A B", "a/b",
                     "ProgramFiles(x86)", "\xc3\xa9");
        ASSERT_INVALID(environment_name_check, "", "A=B", "=");
}

TEST(timestamps)
{
        ASSERT_VALID(timestamp_check, "2014-10-27T19:32:27.67021798Z", "2015-05-18T13:49:28.351729952-04:00",
                     "2004-05-14T23:11:14+00:00", "2000-02-29T00:00:00Z");
        ASSERT_INVALID(timestamp_check, "", "garbage", "1416015188", "2014-11-1417:36:54",
                       "2014-11-14 17:36:54Z", "2014-11-14T17:36:54", "2014-13-14T17:36:54Z",
                       "2014-02-29T17:36:54Z", "1900-02-29T00:00:00Z", "2014-04-31T17:36:54Z",
                       "2014-04-00T17:36:54Z", "2014-04-01T24:00:00Z", "2014-04-01T23:60:00Z",
                       "2014-04-01T23:59:60Z", "2014-04-01T23:59:59.Z", "2014-04-01T23:59:59+24:00",
                       "2014-04-01T23:59:59Zx", "2014-04-01T23:59:59+0000", "2014-4-1T23:59:59Z", "2014",
                       "2014-04-01T");
}

TEST(messages_name_the_value)
{
        _cleanup_error_ Error e = {};
        char many[5000];

        ASSERT_ERR(ac_name_check("a_b", &e), -EINVAL);
        ASSERT_STREQ(e.message, "\"a_b\" is not an AC Name: it has characters other than lower case "
                                "letters, digits and "
                                "\"-\"");
        ASSERT_ERR(ac_name_check("a--b", &e), -EINVAL);
        ASSERT_STREQ(e.message, "\"a--b\" is not an AC Name: it has too many in a row of \"-\"");
        ASSERT_ERR(ac_identifier_check("/a", &e), -EINVAL);
        ASSERT_CONTAINS(e.message, "begins with one of \"-._~/\"");
        ASSERT_ERR(image_id_check("sha512-abc", &e), -EINVAL);
        ASSERT_CONTAINS(e.message, "\"sha512-abc\" is not an image ID");
        /* Control characters are escaped, long strings are shortened. */
        ASSERT_ERR(ac_name_check("\x1b[2J", &e), -EINVAL);
        ASSERT_NOT_CONTAINS(e.message, "\x1b");
        ASSERT_CONTAINS(e.message, "\\x1b[2J");
        memset(many, 'A', sizeof(many) - 1);
        many[sizeof(many) - 1] = 0;
        ASSERT_ERR(ac_name_check(many, &e), -EINVAL);
        ASSERT_LT(strlen(e.message), 300);
        ASSERT_CONTAINS(e.message, "AAA...\"");
        /* Not within a character. */
        memset(many, 0, sizeof(many));
        for (int i = 0; i < 60; i++)
                memcpy(many + 2 * i + 1, "\xc3\xa9", 2);
        many[0] = 'x';
        ASSERT_ERR(ac_name_check(many, &e), -EINVAL);
        ASSERT_TRUE(utf8_is_valid(e.message, strlen(e.message)));
        ASSERT_NOT_CONTAINS(e.message, "\\x");
        ASSERT_ERR(ac_name_check("", NULL), -EINVAL);
}

/* --- Quantities ---------------------------------------------------------------------------------------- */

typedef struct Quantity {
        const char *text;
        uint64_t scale, value;
} Quantity;

static const Quantity quantities[] = {
                {"0", 1, 0},
                {"0", 1000, 0},
                {"1", 1, 1},
                {"128974848", 1, 128974848},
                {"125952Ki", 1, 128974848},
                {"123Mi", 1, 128974848},
                {"1G", 1, 1000000000},
                {"1Gi", 1, 1073741824},
                {"2M", 1, 2000000},
                {"1k", 1, 1000},
                {"1K", 1, 1000},
                {"1T", 1, 1000000000000},
                {"1P", 1, 1000000000000000},
                {"9E", 1, 9000000000000000000},
                {"7Ei", 1, UINT64_C(8070450532247928832)},
                {"1Ti", 1, UINT64_C(1) << 40},
                {"1Pi", 1, UINT64_C(1) << 50},
                {"9223372036854775807", 1, INT64_MAX},
                {"+5", 1, 5},
                {"007", 1, 7},
                {"1.5Gi", 1, 1610612736},
                {"1.", 1, 1},
                {".5Ki", 1, 512},
                {"0.3", 1000, 300},
                {"300m", 1000, 300},
                {"250m", 1000, 250},
                {"1", 1000, 1000},
                {"1.5", 1000, 1500},
                {"0.0005", 1000, 1}, /* rounded up */
                {"1n", 1000, 1},
                {"1u", 1000, 1},
                {"1500u", 1000, 2},
                {"300m", 1, 1},
                {"1m", 1, 1},
                {"1000m", 1, 1},
                {"1001m", 1, 2},
                {"0m", 1, 0},
                {"0.000", 1, 0},
                {"0Ei", 1, 0},
                {"0e999999", 1, 0},
                {"1e3", 1, 1000},
                {"1E3", 1, 1000},
                {"1E", 1, 1000000000000000000},
                {"12e-1", 1, 2},
                {"1e-999999999999", 1, 1},
                {"1.25e2", 1, 125},
                {"1000000000000000000000000000n", 1, 1000000000000000000},
                {"0.000000000000000000000000000000000000000000000000000000001Ei", 1, 1},
                {"9223372036854775.807", 1000, INT64_MAX},
                {"1.0000000000000000000000000000000000000001", 1, 2},
                {"1.00000000000000000000000000000000000000000000", 1, 1},
};

TEST(quantities_valid)
{
        for (size_t i = 0; i < ELEMENTSOF(quantities); i++) {
                _cleanup_error_ Error e = {};
                uint64_t v = 0;
                int r = quantity_parse(quantities[i].text, quantities[i].scale, &v, &e);

                if (r != 0 || v != quantities[i].value)
                        TEST_FAIL("\"%s\" gave %d, %" PRIu64 " (%s)", quantities[i].text, r, v,
                                  e.message ?: "");
        }
}

TEST(quantities_invalid)
{
        const char *const bad[] = {
                        "",      "G",
                        ".",     "-1",
                        "-0",    "--1",
                        "1GG",   "1g",
                        "1 G",   " 1",
                        "1 ",    "1Mib",
                        "1.2.3", "1e",
                        "1e+",   "1e3.5",
                        "0x10",  "1,5",
                        "NaN",   "inf",
                        "1_000", "+",
                        "1Zi",   "e3",
                        "1e3G",  "11111111111111111111111111111111111111111111111111111111111111111"};

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                _cleanup_error_ Error e = {};
                uint64_t v = 42;
                int r = quantity_parse(bad[i], 1, &v, &e);

                if (r != -EINVAL || v != 42 || isempty(e.message))
                        TEST_FAIL("\"%s\" gave %d, %" PRIu64, bad[i], r, v);
        }
}

TEST(quantities_overflow)
{
        const char *const large[] = {"9223372036854775808",
                                     "9223372036854775807.1",
                                     "8Ei",
                                     "10E",
                                     "1e19",
                                     "1e999",
                                     "1e99999999999999999999",
                                     "18446744073709551616",
                                     "9999999999999999999999999999999Ei",
                                     "111111111111111111111111111111111111111111111111111111111111111E"};
        _cleanup_error_ Error e = {};
        uint64_t v = 42;

        for (size_t i = 0; i < ELEMENTSOF(large); i++) {
                int r = quantity_parse(large[i], 1, &v, &e);

                if (r != -ERANGE || v != 42)
                        TEST_FAIL("\"%s\" gave %d, %" PRIu64, large[i], r, v);
        }
        ASSERT_CONTAINS(e.message, "2^63-1");
        ASSERT_ERR(quantity_parse("9223372036854775.808", 1000, &v, NULL), -ERANGE);
        ASSERT_ERR(quantity_parse("8Ei", 1000, &v, NULL), -ERANGE);
}

/* --- Pairs --------------------------------------------------------------------------------------------- */

TEST(pairs)
{
        PairList l = {}, copy = {};

        ASSERT_NULL(pair_list_get(&l, "a"));
        ASSERT_OK(pair_list_set(&l, "a", "1"));
        ASSERT_OK(pair_list_set(&l, "b", "2"));
        ASSERT_OK(pair_list_set(&l, "a", "3"));
        ASSERT_EQ(l.n, 2);
        ASSERT_STREQ(l.items[0].name, "a");
        ASSERT_STREQ(pair_list_get(&l, "a"), "3");
        ASSERT_OK(pair_list_copy(&l, &copy));
        ASSERT_OK(pair_list_set(&l, "b", "4"));
        ASSERT_STREQ(pair_list_get(&copy, "b"), "2");
        pair_list_done(&l);
        ASSERT_EQ(l.n, 0);
        pair_list_done(&copy);
}

TEST(annotations)
{
        PairList image = {}, app = {}, merged = {};
        _cleanup_free_ char *text = NULL, *empty = NULL;

        ASSERT_OK(annotations_format(&image, &empty));
        ASSERT_STREQ(empty, "[]\n");
        ASSERT_OK(pair_list_set(&image, "a", "image"));
        ASSERT_OK(pair_list_set(&image, "b", "image \"quoted\" / \xff\x01"));
        ASSERT_OK(pair_list_set(&app, "c", "app"));
        ASSERT_OK(pair_list_set(&app, "a", "app"));
        ASSERT_OK(app_annotations_merge(&image, &app, &merged));
        ASSERT_OK(annotations_format(&merged, &text));
        ASSERT_STREQ(text, "[\n"
                           "  {\n    \"name\": \"a\",\n    \"value\": \"app\"\n  },\n"
                           "  {\n    \"name\": \"b\",\n    \"value\": \"image \\\"quoted\\\" / "
                           "\xef\xbf\xbd\\u0001\"\n  },\n"
                           "  {\n    \"name\": \"c\",\n    \"value\": \"app\"\n  }\n"
                           "]\n");
        pair_list_done(&image);
        pair_list_done(&app);
        pair_list_done(&merged);
}

/* --- Meaning ------------------------------------------------------------------------------------------- */

TEST(app_names)
{
        static const struct {
                const char *image, *app;
        } cases[] = {
                        {"example.com/reduce-worker", "reduce-worker"},
                        {"database", "database"},
                        {"example.com/~user/app_v1", "app-v1"},
                        {"example.com/a.b_~c", "a-b-c"},
                        {"example.com/App", "app"},
                        {"example.com/-x-", "x"},
                        {"x/\xc3\xa9t\xc3\xa9", "t"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_free_ char *name = NULL;

                ASSERT_OK(app_name_from_image_name(cases[i].image, &name));
                ASSERT_STREQ(name, cases[i].app);
                ASSERT_OK(ac_name_check(name, NULL));
        }
        char *unset = NULL;
        ASSERT_ERR(app_name_from_image_name("example.com/", &unset), -EINVAL);
        ASSERT_ERR(app_name_from_image_name("", &unset), -EINVAL);
        ASSERT_ERR(app_name_from_image_name("a/._~", &unset), -EINVAL);
        ASSERT_NULL(unset);
}

TEST(host_labels)
{
        _cleanup_(image_manifest_freep) ImageManifest *m = NULL;
        _cleanup_free_ char *text = NULL;
        _cleanup_error_ Error e = {};

        ASSERT_STREQ(host_os_label(), "linux");
#ifdef __x86_64__
        ASSERT_STREQ(host_arch_label(), "amd64");
#endif
        /* An image for this machine is a valid one. */
        ASSERT_OK(xasprintf(&text,
                            "{\"acKind\":\"ImageManifest\",\"acVersion\":\"0.8.11\",\"name\":\"x\","
                            "\"labels\":["
                            "{\"name\":\"os\",\"value\":\"%s\"},{\"name\":\"arch\",\"value\":\"%s\"}]}",
                            host_os_label(), host_arch_label()));
        ASSERT_OK(image_manifest_parse(text, strlen(text), &m, NULL, &e));
}

int main(void)
{
        RUN(names);
        RUN(versions);
        RUN(image_ids);
        RUN(uuids);
        RUN(environment_names);
        RUN(timestamps);
        RUN(messages_name_the_value);
        RUN(quantities_valid);
        RUN(quantities_invalid);
        RUN(quantities_overflow);
        RUN(pairs);
        RUN(annotations);
        RUN(app_names);
        RUN(host_labels);
        return TEST_END();
}
