/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* basic/text.c: numbers, time spans, UTF-8, escaping, hex, text that grows. */

#include "basic/basic.h"
#include "tests/unit/test.h"

TEST(numbers_in_range)
{
        uint64_t v = 0;
        uint32_t u = 0;

        ASSERT_OK(parse_u64("0", &v));
        ASSERT_EQ(v, 0);
        ASSERT_OK(parse_u64("18446744073709551615", &v));
        ASSERT_EQ(v, UINT64_MAX);
        ASSERT_OK(parse_u64("0018", &v));
        ASSERT_EQ(v, 18);
        ASSERT_OK(parse_u32("4294967295", &u));
        ASSERT_EQ(u, UINT32_MAX);
        ASSERT_OK(parse_octal("01777", &u));
        ASSERT_EQ(u, 01777);
        ASSERT_OK(parse_octal("0", &u));
        ASSERT_EQ(u, 0);
}

TEST(numbers_out_of_range_leave_the_result_alone)
{
        uint64_t v = 7;
        uint32_t u = 7;

        ASSERT_ERR(parse_u64("18446744073709551616", &v), -ERANGE);
        ASSERT_ERR(parse_u64("99999999999999999999999999999999", &v), -ERANGE);
        ASSERT_ERR(parse_u32("4294967296", &u), -ERANGE);
        ASSERT_ERR(parse_octal("77777777777", &u), -ERANGE);
        ASSERT_EQ(v, 7);
        ASSERT_EQ(u, 7);
}

TEST(numbers_are_whole_strings_without_frills)
{
        static const char *const wrong[] = {
                        "",     " ",   "+1",  "-1", " 1", "1 ",       "1\n",
                        "0x10", "1.0", "1e3", "a",  "1a", "\xd9\xa1", "--1",
        };
        uint64_t v = 7;
        uint32_t u = 7;

        for (size_t i = 0; i < ELEMENTSOF(wrong); i++) {
                ASSERT_ERR(parse_u64(wrong[i], &v), -EINVAL);
                ASSERT_ERR(parse_u32(wrong[i], &u), -EINVAL);
                ASSERT_ERR(parse_octal(wrong[i], &u), -EINVAL);
        }
        ASSERT_ERR(parse_u64(NULL, &v), -EINVAL);
        ASSERT_ERR(parse_octal("8", &u), -EINVAL);
        ASSERT_ERR(parse_octal("0o7", &u), -EINVAL);
        ASSERT_EQ(v, 7);
        ASSERT_EQ(u, 7);
}

TEST(booleans)
{
        ASSERT_EQ(parse_boolean("yes"), 1);
        ASSERT_EQ(parse_boolean("TRUE"), 1);
        ASSERT_EQ(parse_boolean("1"), 1);
        ASSERT_EQ(parse_boolean("on"), 1);
        ASSERT_EQ(parse_boolean("no"), 0);
        ASSERT_EQ(parse_boolean("False"), 0);
        ASSERT_EQ(parse_boolean("0"), 0);
        ASSERT_EQ(parse_boolean("off"), 0);
        ASSERT_ERR(parse_boolean(""), -EINVAL);
        ASSERT_ERR(parse_boolean("2"), -EINVAL);
        ASSERT_ERR(parse_boolean("yes "), -EINVAL);
        ASSERT_ERR(parse_boolean(NULL), -EINVAL);
}

TEST(time_spans)
{
        static const struct {
                const char *text;
                uint64_t usec;
        } cases[] = {
                        {"0", 0},
                        {"30", 30 * 1000000ULL},
                        {"1us", 1},
                        {"250ms", 250000},
                        {"5min", 300 * 1000000ULL},
                        {"5 min", 300 * 1000000ULL},
                        {"1h 30s", 3630 * 1000000ULL},
                        {"1h30s", 3630 * 1000000ULL},
                        {"2d", 2 * 86400 * 1000000ULL},
                        {"1w", 7 * 86400 * 1000000ULL},
                        {"1y 2month", 36817200 * 1000000ULL}, /* as it is shown */
                        {"1 year 1 week 1 minute 1 second", 32162461 * 1000000ULL},
                        {" 1s ", 1000000},
                        {"infinity", UINT64_MAX},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                uint64_t v = 99;
                ASSERT_OK(parse_usec(cases[i].text, &v));
                ASSERT_EQ(v, cases[i].usec);
        }
}

TEST(time_spans_refused)
{
        static const char *const wrong[] = {"",     " ",    "s",  "-1s",        "1 parsec",
                                            "1.5s", "1s x", "+3", "infinity 1", "5S"};
        uint64_t v = 7;

        for (size_t i = 0; i < ELEMENTSOF(wrong); i++)
                ASSERT_ERR(parse_usec(wrong[i], &v), -EINVAL);
        ASSERT_ERR(parse_usec("18446744073709551615s", &v), -ERANGE);
        ASSERT_ERR(parse_usec("99999999999999999999s", &v), -ERANGE);
        ASSERT_ERR(parse_usec("18446744073709551615us 1us", &v), -ERANGE);
        ASSERT_EQ(v, 7);
}

TEST(utf8_valid)
{
        static const char *const good[] = {
                        "",
                        "abc",
                        "\x7f",
                        "\xc2\x80",
                        "\xdf\xbf",
                        "\xe0\xa0\x80",
                        "\xed\x9f\xbf",
                        "\xee\x80\x80",
                        "\xef\xbf\xbf",
                        "\xf0\x90\x80\x80",
                        "\xf4\x8f\xbf\xbf",
                        "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\xa7",
        };

        for (size_t i = 0; i < ELEMENTSOF(good); i++)
                ASSERT_TRUE(utf8_is_valid(good[i], strlen(good[i])));
        ASSERT_TRUE(utf8_is_valid("a\0b", 3));
}

TEST(utf8_invalid)
{
        static const char *const bad[] = {
                        "\x80",             /* continuation alone */
                        "\xc3",             /* cut short */
                        "\xe2\x82",         /* cut short */
                        "\xf0\x9f\x90",     /* cut short */
                        "\xc0\x80",         /* overlong NUL */
                        "\xc1\xbf",         /* overlong */
                        "\xe0\x9f\xbf",     /* overlong */
                        "\xf0\x8f\xbf\xbf", /* overlong */
                        "\xed\xa0\x80",     /* surrogate */
                        "\xed\xbf\xbf",     /* surrogate */
                        "\xf4\x90\x80\x80", /* beyond U+10FFFF */
                        "\xf5\x80\x80\x80",
                        "\xfe",
                        "\xff",
                        "ok\xc3(",
                        "\xe2\x28\xa1",
        };

        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                ASSERT_FALSE(utf8_is_valid(bad[i], strlen(bad[i])));
        /* The length applies, not the NUL: the sequence is not complete within the first byte. */
        ASSERT_FALSE(utf8_is_valid("\xc3\xa9", 1));
}

TEST(escape_for_terminal)
{
        static const struct {
                const char *in, *out;
        } cases[] = {
                        {"", ""},
                        {"plain text", "plain text"},
                        {"caf\xc3\xa9", "caf\xc3\xa9"},
                        {"a\033[31mb", "a\\x1b[31mb"},
                        {"line\nline\r\t", "line\\x0aline\\x0d\\x09"},
                        {"\x7f", "\\x7f"},
                        {"\xc2\x9b"
                         "2J",
                         "\\xc2\\x9b2J"}, /* C1: CSI in one character */
                        {"\xff\xfe", "\\xff\\xfe"},
                        {"\xc2\xa0", "\xc2\xa0"},
                        {"cut \xe2\x82", "cut \\xe2\\x82"},
                        /* Characters that change the order, are invisible, or begin a line. */
                        {"gpj.\xe2\x80\xae.exe", "gpj.\\u202e.exe"},
                        {"a\xe2\x81\xa6"
                         "b\xe2\x81\xa9",
                         "a\\u2066b\\u2069"},
                        {"we\xe2\x80\x8b"
                         "b\xe2\x80\x8d\xe2\x80\x8f",
                         "we\\u200bb\\u200d\\u200f"},
                        {"\xef\xbb\xbfx\xe2\x81\xa0", "\\ufeffx\\u2060"},
                        {"\xe2\x80\xa8\xe2\x80\xa9", "\\u2028\\u2029"},
                        {"\xf3\xa0\x81\x81\xf3\xa0\x84\x80", "\\U000e0041\\U000e0100"},
                        {"\xc2\xad\xe3\x85\xa4\xd8\x9c", "\\u00ad\\u3164\\u061c"},
                        /* Text of other scripts is text. */
                        {"\xd8\xa7\xd9\x84 \xd7\xa9 \xe6\xbc\xa2 \xf0\x9f\x98\x80",
                         "\xd8\xa7\xd9\x84 \xd7\xa9 \xe6\xbc\xa2 \xf0\x9f\x98\x80"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_free_ char *s = text_escape_for_terminal(cases[i].in);
                ASSERT_STREQ(s, cases[i].out);
        }
}

TEST(random_names)
{
        char a[RANDOM_HEX_SIZE], b[RANDOM_HEX_SIZE];

        ASSERT_OK(random_hex(a));
        ASSERT_OK(random_hex(b));
        ASSERT_EQ(strspn(a, "0123456789abcdef"), 16);
        ASSERT_EQ(strlen(a), 16);
        ASSERT_TRUE(!streq(a, b));
}

TEST(random_uuids)
{
        static const char form[] = "hhhhhhhh-hhhh-4hhh-vhhh-hhhhhhhhhhhh";
        char a[UUID_TEXT_SIZE], b[UUID_TEXT_SIZE];

        for (unsigned n = 0; n < 100; n++) {
                ASSERT_OK(random_uuid(a));
                ASSERT_OK(random_uuid(b));
                ASSERT_TRUE(!streq(a, b));
                ASSERT_EQ(strlen(a), strlen(form));
                for (size_t i = 0; form[i]; i++)
                        if (form[i] == 'h')
                                ASSERT_TRUE(strchr("0123456789abcdef", a[i]));
                        else if (form[i] == 'v')
                                ASSERT_TRUE(strchr("89ab", a[i]));
                        else
                                ASSERT_EQ(a[i], form[i]);
        }
}

TEST(hex_there_and_back)
{
        unsigned char bytes[256], back[256];

        for (unsigned i = 0; i < 256; i++)
                bytes[i] = (unsigned char) i;
        _cleanup_free_ char *s = hex_encode(bytes, sizeof(bytes));
        ASSERT_NOT_NULL(s);
        ASSERT_EQ(strlen(s), 512);
        ASSERT_NOT_NULL(startswith(s, "000102"));
        ASSERT_STREQ(s + 508, "feff");
        ASSERT_OK(hex_decode(s, sizeof(back), back));
        ASSERT_MEMEQ(bytes, back, sizeof(back));
        ASSERT_OK(hex_decode("AbCd", 2, back));
        ASSERT_EQ(back[0], 0xab);
        ASSERT_EQ(back[1], 0xcd);
        _cleanup_free_ char *none = hex_encode("", 0);
        ASSERT_STREQ(none, "");
}

TEST(hex_refused_leaves_the_result_alone)
{
        unsigned char b[2] = {1, 2};

        ASSERT_ERR(hex_decode("abc", 2, b), -EINVAL);
        ASSERT_ERR(hex_decode("abcde", 2, b), -EINVAL);
        ASSERT_ERR(hex_decode("abcg", 2, b), -EINVAL);
        ASSERT_ERR(hex_decode("0x00", 2, b), -EINVAL);
        ASSERT_ERR(hex_decode("ab\xff\xff", 2, b), -EINVAL);
        ASSERT_EQ(b[0], 1);
        ASSERT_EQ(b[1], 2);
}

TEST(text_grows)
{
        _cleanup_text_ Text t = {};
        _cleanup_free_ char *s = NULL;
        size_t n = 0;

        text_add(&t, "a");
        text_addf(&t, "%d", 42);
        text_add_bytes(&t, "x\0y", 3);
        text_add_bytes(&t, NULL, 0);
        ASSERT_OK(text_take(&t, &s, &n));
        ASSERT_EQ(n, 6);
        ASSERT_MEMEQ(s, "a42x\0y", 7);
        ASSERT_NULL(t.data);
        ASSERT_EQ(t.size, 0);
}

TEST(text_empty_is_a_string)
{
        _cleanup_text_ Text t = {};
        _cleanup_free_ char *s = NULL;

        ASSERT_OK(text_take(&t, &s, NULL));
        ASSERT_STREQ(s, "");
}

TEST(text_long)
{
        _cleanup_text_ Text t = {};
        _cleanup_free_ char *s = NULL;
        size_t n = 0;

        for (unsigned i = 0; i < 100000; i++)
                text_addf(&t, "%05u", i);
        ASSERT_OK(text_take(&t, &s, &n));
        ASSERT_EQ(n, 500000);
        ASSERT_STREQ(s + 499990, "9999899999");
}

TEST(text_remembers_failure)
{
        _cleanup_text_ Text t = {};
        char *s = (char *) "untouched";

        text_add(&t, "x");
        t.failed = true;
        text_add(&t, "y");
        ASSERT_ERR(text_take(&t, &s, NULL), -ENOMEM);
        ASSERT_STREQ(s, "untouched");
}

TEST(clock_goes_forward)
{
        uint64_t a = now_usec(CLOCK_MONOTONIC), b = now_usec(CLOCK_MONOTONIC);

        ASSERT_GT(a, 0);
        ASSERT_GE(b, a);
        ASSERT_GT(now_usec(CLOCK_REALTIME), 1600000000ULL * 1000000ULL);
}

int main(void)
{
        RUN(numbers_in_range);
        RUN(numbers_out_of_range_leave_the_result_alone);
        RUN(numbers_are_whole_strings_without_frills);
        RUN(booleans);
        RUN(time_spans);
        RUN(time_spans_refused);
        RUN(utf8_valid);
        RUN(utf8_invalid);
        RUN(escape_for_terminal);
        RUN(random_names);
        RUN(random_uuids);
        RUN(hex_there_and_back);
        RUN(hex_refused_leaves_the_result_alone);
        RUN(text_grows);
        RUN(text_empty_is_a_string);
        RUN(text_long);
        RUN(text_remembers_failure);
        RUN(clock_goes_forward);
        return TEST_END();
}
