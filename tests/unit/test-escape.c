/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The output of apps, as it is shown on a terminal. Complete names are tested in test-text.c. */

#include "basic/basic.h"
#include "tests/unit/test.h"

/* All that comes out, with IN cut at every place. */
static char *neutral(const char *in, size_t size, size_t cut, Neutralizer z)
{
        Text t = {};
        char *s;

        neutralizer_add(&z, in, cut, &t);
        neutralizer_add(&z, in + cut, size - cut, &t);
        neutralizer_end(&z, &t);
        return text_take(&t, &s, NULL) < 0 ? NULL : s;
}

static void check(const char *in, const char *out, Neutralizer z)
{
        size_t size = strlen(in);
        Neutralizer single = z;
        _cleanup_text_ Text t = {};

        for (size_t cut = 0; cut <= size; cut++) {
                _cleanup_free_ char *s = neutral(in, size, cut, z);
                ASSERT_STREQ(s, out);
        }
        for (size_t i = 0; i < size; i++)
                neutralizer_add(&single, in + i, 1, &t);
        neutralizer_end(&single, &t);
        ASSERT_STREQ(t.data ?: "", out);
}

#define CHECK(in, out, ...) check(in, out, (Neutralizer){__VA_ARGS__})

TEST(text_stays)
{
        CHECK("", "");
        CHECK("one\ttwo\nthree", "one\ttwo\nthree");
        CHECK("caf\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x98\x80", "caf\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x98\x80");
        /* Joiners are how some scripts and emoji are written. */
        CHECK("\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb",
              "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb");
}

TEST(controls_become_visible)
{
        CHECK("a\033[2Jb", "a\\x1b[2Jb");
        CHECK("\033]0;title\007", "\\x1b]0;title\\x07");
        CHECK("\033]52;c;aGk=\033\\", "\\x1b]52;c;aGk=\\x1b\\");
        CHECK("\033P$q\033\\", "\\x1bP$q\\x1b\\");
        CHECK("a\bb\x7f\x0b\x0c\x0e", "a\\x08b\\x7f\\x0b\\x0c\\x0e");
        CHECK("a\rb", "a\\x0db");
        CHECK("\xc2\x9b"
              "31m\xc2\x85\xc2\x90",
              "\\xc2\\x9b31m\\xc2\\x85\\xc2\\x90");
        CHECK("\x9b"
              "2J\xff",
              "\\x9b2J\\xff");
        CHECK("\033", "\\x1b");
        CHECK("\033[", "\\x1b[", .colors = true);
        CHECK("\033[3", "\\x1b[3", .colors = true);
}

TEST(reordering_becomes_visible)
{
        CHECK("a\xe2\x80\xae"
              "b\xe2\x81\xa9\xe2\x80\xa8",
              "a\\u202eb\\u2069\\u2028");
        CHECK("\xef\xbb\xbf\xf3\xa0\x81\x81", "\\ufeff\\U000e0041");
}

TEST(invalid_utf8_becomes_visible)
{
        CHECK("cut \xe2\x82", "cut \\xe2\\x82");
        CHECK("\xe2\x82x\xe2", "\\xe2\\x82x\\xe2");
        CHECK("\xc1\xbf\xed\xa0\x80\xf4\x90\x80\x80", "\\xc1\\xbf\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80");
        CHECK("\xe0\x80\xf0\x80", "\\xe0\\x80\\xf0\\x80");
}

TEST(colours_stay_where_there_are_any)
{
        CHECK("\033[31mred\033[0m", "\033[31mred\033[0m", .colors = true);
        CHECK("\033[1;38;5;8mx\033[m", "\033[1;38;5;8mx\033[m", .colors = true);
        CHECK("\033[48;2;8;8;8mx\033[m", "\033[48;2;8;8;8mx\033[m", .colors = true);
        CHECK("\033[38:2::8:8:8mx\033[m", "\033[38:2::8:8:8mx\033[m", .colors = true);
        CHECK("\033[31mred", "\\x1b[31mred");
        /* What follows is in no colour. */
        CHECK("\033[31mred", "\033[31mred\033[0m", .colors = true);
        CHECK("\033[31mred\n", "\033[31mred\n\033[0m", .colors = true);
        /* Other sequences that begin alike are none. */
        CHECK("\033[31;1Hx", "\\x1b[31;1Hx", .colors = true);
        CHECK("\033[?25l\033[>4m\033[6n", "\\x1b[?25l\\x1b[>4m\\x1b[6n", .colors = true);
        CHECK("\033[31 m\033\033[1m\033[0m", "\\x1b[31 m\\x1b\033[1m\033[0m", .colors = true);
        /* ... nor is what would hide text. */
        CHECK("\033[8mx", "\\x1b[8mx", .colors = true);
        CHECK("\033[1;08mx", "\\x1b[1;08mx", .colors = true);
        CHECK("\033[38;5;1;8mx", "\\x1b[38;5;1;8mx", .colors = true);
        CHECK("\033[38;2;1;1;1;8mx", "\\x1b[38;2;1;1;1;8mx", .colors = true);
        CHECK("\033[38;8mx", "\\x1b[38;8mx", .colors = true);
}

TEST(endless_sequences_are_text)
{
        char in[200] = "\033[", out[200] = "\\x1b[";

        memset(in + 2, '1', 100);
        memset(out + 5, '1', 100);
        CHECK(in, out, .colors = true);
        strcat(in, "m");
        strcat(out, "m");
        CHECK(in, out, .colors = true);
}

TEST(carriage_returns_stay_by_option)
{
        CHECK("10%\r20%\r\n", "10%\r20%\r\n", .returns = true);
}

TEST(json_is_the_same_json)
{
        static const struct {
                const char *in, *out;
        } cases[] = {
                        {"{\"a\": \"b\"}\n", "{\"a\": \"b\"}\n"},
                        {"\"\x7f\xc2\x9b\xc3\xa9\"", "\"\\u007f\\u009b\xc3\xa9\""},
                        {"\"\xe2\x80\xae\xef\xbb\xbf\"", "\"\\u202e\\ufeff\""},
                        {"\"\xf3\xa0\x81\x81\xf0\x9f\x98\x80\"", "\"\\udb40\\udc41\xf0\x9f\x98\x80\""},
                        {"\"\\u0007\"", "\"\\u0007\""},
                        {"\"\xff\"", "\"\"" /* it would be no JSON */},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_text_ Text t = {};
                text_add_json(&t, cases[i].in);
                ASSERT_STREQ(t.data, cases[i].out);
        }
}

int main(void)
{
        RUN(text_stays);
        RUN(controls_become_visible);
        RUN(reordering_becomes_visible);
        RUN(invalid_utf8_becomes_visible);
        RUN(colours_stay_where_there_are_any);
        RUN(endless_sequences_are_text);
        RUN(carriage_returns_stay_by_option);
        RUN(json_is_the_same_json);
        return TEST_END();
}
