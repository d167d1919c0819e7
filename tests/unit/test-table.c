/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Tables as text and as JSON, and the formatting of widths, times and sizes. */

#include "stage0/cli/options.h"
#include "stage0/cli/table.h"
#include "tests/unit/test.h"

#define SECOND 1000000ULL
#define NOW (1000000000ULL * SECOND)

static const TableColumn columns[] = {
                {"ID", "id", false, 0},     {"NAME", "name", false, 4}, {"APPS", "apps", false, 6},
                {"MADE", "made", false, 0}, {"SIZE", "size", true, 0},
};

static const Display plain = {.utf8 = true, .now = NOW};

static Table *example(void)
{
        Table *t = table_new(columns, ELEMENTSOF(columns));
        char *apps[] = {(char *) "web", (char *) "proxy", NULL};

        table_add_text_as(t, "0123456789", "0123");
        table_add_text(t, "first");
        table_add_list(t, apps);
        table_add_time(t, NOW - 125 * SECOND);
        table_add_size(t, 1536);

        table_add_text(t, "4567");
        table_add_text(t, NULL);
        table_add_list(t, NULL);
        table_add_none(t);
        table_add_number(t, -3);
        table_set_color(t, COLOR_RED);
        return t;
}

#define ASSERT_TABLE(t, d, legend, text)                                                                    \
        do {                                                                                                \
                _cleanup_free_ char *_s = NULL;                                                             \
                ASSERT_OK(table_format((t), (d), (legend), &_s));                                           \
                ASSERT_STREQ(_s, (text));                                                                   \
        } while (false)

TEST(aligned)
{
        _cleanup_(table_freep) Table *t = example();

        ASSERT_EQ(table_n_rows(t), 2);
        ASSERT_TABLE(t, &plain, true,
                     "ID   NAME  APPS       MADE        SIZE\n"
                     "0123 first web, proxy 2min 5s ago 1.5K\n"
                     "4567 -     -          -             -3\n");
        ASSERT_TABLE(t, &plain, false,
                     "0123 first web, proxy 2min 5s ago 1.5K\n"
                     "4567 -     -          -             -3\n");
}

TEST(narrow)
{
        _cleanup_(table_freep) Table *t = example();
        Display d = plain;

        d.columns = 34;
        ASSERT_TABLE(t, &d, false,
                     "0123 first web, … 2min 5s ago 1.5K\n"
                     "4567 -     -      -             -3\n");
        d.utf8 = false;
        ASSERT_TABLE(t, &d, false,
                     "0123 first web... 2min 5s ago 1.5K\n"
                     "4567 -     -      -             -3\n");
        d.utf8 = true;
        d.columns = 10; /* what may not be cut stays */
        ASSERT_TABLE(t, &d, false,
                     "0123 fir… web, … 2min 5s ago 1.5K\n"
                     "4567 -    -      -             -3\n");
}

TEST(cut_in_the_middle)
{
        static const TableColumn one[] = {{.header = "N", .key = "n", .shrink_to = 4, .middle = true}};
        _cleanup_(table_freep) Table *t = table_new(one, 1);
        Display d = plain;

        table_add_text(t, "registry.example.com/team/app-one");
        d.columns = 20;
        ASSERT_TABLE(t, &d, false, "regist…/team/app-one\n");
        d.utf8 = false;
        ASSERT_TABLE(t, &d, false, "regis...team/app-one\n");
        d.columns = 4;
        d.utf8 = true;
        ASSERT_TABLE(t, &d, false, "r…ne\n");
        d.columns = 40;
        ASSERT_TABLE(t, &d, false, "registry.example.com/team/app-one\n");

        /* Wide characters are not cut in two. */
        _cleanup_free_ char *s = text_ellipsize_middle("日本語日本語", 6, true);
        ASSERT_STREQ(s, "…本語");
}

TEST(colors_take_no_room)
{
        _cleanup_(table_freep) Table *t = example();
        Display d = plain;

        d.colors = true;
        ASSERT_TABLE(t, &d, false,
                     "0123 first web, proxy 2min 5s ago 1.5K\n"
                     "4567 -     -          -             \033[0;1;31m-3\033[0m\n");
}

TEST(last_column_is_not_padded)
{
        static const TableColumn two[] = {{"A", "a", false, 0}, {"B", "b", false, 0}};
        _cleanup_(table_freep) Table *t = table_new(two, ELEMENTSOF(two));

        table_add_text(t, "1");
        table_add_text(t, "long");
        table_add_text(t, "22");
        table_add_text(t, "x");
        ASSERT_TABLE(t, &plain, true, "A  B\n1  long\n22 x\n");
}

/* Text of images can neither control the terminal nor look like another row. */
TEST(untrusted_text)
{
        static const TableColumn one[] = {{"A", "a", false, 0}};
        _cleanup_(table_freep) Table *t = table_new(one, 1);
        json_object *o;
        char *list[] = {(char *) "a\tb", NULL};

        table_add_text(t, "x\ny\033[2J\xff");
        table_add_list(t, list);
        ASSERT_TABLE(t, &plain, false, "x\\x0ay\\x1b[2J\\xff\na\\x09b\n");
        o = table_to_json(t);
        ASSERT_TRUE(o);
        ASSERT_STREQ(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN),
                     "[{\"a\":\"x\\ny\\u001b[2J\xef\xbf\xbd\"},{\"a\":[\"a\\tb\"]}]");
        json_object_put(o);
}

TEST(json)
{
        _cleanup_(table_freep) Table *t = example();
        _cleanup_free_ char *s = NULL, *pretty = NULL;
        json_object *o = table_to_json(t);

        ASSERT_OK(json_to_text(o, false, &s));
        ASSERT_STREQ(s, "[{\"id\":\"0123456789\",\"name\":\"first\",\"apps\":[\"web\",\"proxy\"],"
                        "\"made\":999999875000000,\"size\":1536},"
                        "{\"id\":\"4567\",\"name\":null,\"apps\":[],\"made\":null,\"size\":-3}]\n");
        ASSERT_OK(json_to_text(o, true, &pretty));
        ASSERT_CONTAINS(pretty, "\n    \"id\": \"0123456789\",\n");
        json_object_put(o);
        ASSERT_ERR(json_to_text(NULL, false, &s), -ENOMEM);
}

TEST(empty)
{
        _cleanup_(table_freep) Table *t = table_new(columns, ELEMENTSOF(columns));
        json_object *o = table_to_json(t);

        ASSERT_EQ(table_n_rows(t), 0);
        ASSERT_TABLE(t, &plain, true, "ID NAME APPS MADE SIZE\n");
        ASSERT_STREQ(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN), "[]");
        json_object_put(o);
}

TEST(widths)
{
        ASSERT_EQ(text_width(""), 0);
        ASSERT_EQ(text_width("abc"), 3);
        ASSERT_EQ(text_width("äöü…"), 4);
        ASSERT_EQ(text_width("日本"), 4);      /* wide */
        ASSERT_EQ(text_width("e\xcc\x81"), 1); /* combining */
        ASSERT_EQ(text_width("\xff\xc3"), 2);  /* no UTF-8: nothing is read beyond the end */
}

#define ASSERT_ELLIPSIZED(s, width, utf8, text)                                                             \
        do {                                                                                                \
                _cleanup_free_ char *_s = text_ellipsize(s, width, utf8);                                   \
                ASSERT_STREQ(_s, text);                                                                     \
        } while (false)

TEST(ellipsis)
{
        ASSERT_ELLIPSIZED("abcdef", 6, true, "abcdef");
        ASSERT_ELLIPSIZED("abcdef", 5, true, "abcd…");
        ASSERT_ELLIPSIZED("abcdef", 5, false, "ab...");
        ASSERT_ELLIPSIZED("abcdef", 2, false, "..");
        ASSERT_ELLIPSIZED("abcdef", 0, true, "");
        ASSERT_ELLIPSIZED("日本語", 5, true, "日本…");
        ASSERT_ELLIPSIZED("日本語", 4, true, "日…"); /* half a character is none */
}

#define ASSERT_WORDS(call, text)                                                                            \
        do {                                                                                                \
                _cleanup_free_ char *_s = call;                                                             \
                ASSERT_STREQ(_s, text);                                                                     \
        } while (false)

TEST(sizes)
{
        ASSERT_WORDS(format_size(0), "0B");
        ASSERT_WORDS(format_size(1023), "1023B");
        ASSERT_WORDS(format_size(1024), "1.0K");
        ASSERT_WORDS(format_size(1536), "1.5K");
        ASSERT_WORDS(format_size(330ULL << 20), "330.0M");
        ASSERT_WORDS(format_size(UINT64_MAX), "15.9E");
}

TEST(times)
{
        ASSERT_WORDS(format_span(0), "0s");
        ASSERT_WORDS(format_span(1500), "1ms");
        ASSERT_WORDS(format_span(90 * SECOND), "1min 30s");
        ASSERT_WORDS(format_span(90 * SECOND + 5000), "1min 30s");
        ASSERT_WORDS(format_span(26 * 3600 * SECOND + 7 * SECOND), "1d 2h");
        ASSERT_WORDS(format_span(UINT64_MAX), "infinity");
        ASSERT_WORDS(format_relative(NOW - 10 * SECOND, NOW), "10s ago");
        ASSERT_WORDS(format_relative(NOW + 10 * SECOND, NOW), "10s left");
        ASSERT_WORDS(format_relative(NOW, NOW), "now");
}

TEST(timestamps)
{
        setenv("TZ", "UTC", 1);
        tzset();
        ASSERT_WORDS(format_timestamp(NOW), "Sun 2001-09-09 01:46:40 UTC");
}

static uint64_t moment(const char *s)
{
        uint64_t usec = 0;

        return moment_parse(s, NOW, &usec) < 0 ? 1 : usec;
}

TEST(moments)
{
        setenv("TZ", "UTC", 1);
        tzset();
        ASSERT_EQ(moment("now"), NOW);
        ASSERT_EQ(moment("10s ago"), NOW - 10 * SECOND);
        ASSERT_EQ(moment("-10s"), NOW - 10 * SECOND);
        ASSERT_EQ(moment("1h 30min"), NOW - 5400 * SECOND);
        ASSERT_EQ(moment("5000w"), 0);
        ASSERT_EQ(moment("@5"), 5 * SECOND);
        ASSERT_EQ(moment("today"), NOW - (3600 + 46 * 60 + 40) * SECOND);
        ASSERT_EQ(moment("yesterday"), moment("today") - 86400 * SECOND);
        ASSERT_EQ(moment("2001-09-09"), moment("today"));
        ASSERT_EQ(moment("01:46:40"), NOW);
        ASSERT_EQ(moment("01:46"), NOW - 40 * SECOND);
        ASSERT_EQ(moment("2001-09-09 01:46:40"), NOW);
        ASSERT_EQ(moment("2001-09-09T01:46:40.25Z"), NOW + SECOND / 4);
        ASSERT_EQ(moment("2001-09-09T03:46:40.000001+02:00"), NOW + 1);
        ASSERT_EQ(moment("2001-09-08 20:46 -0500"), NOW - 40 * SECOND);
        ASSERT_EQ(moment("Sun 2001-09-09 01:46:40 UTC"), NOW);
        setenv("TZ", "XYZ-2", 1); /* east of Greenwich */
        ASSERT_EQ(moment("2001-09-09 03:46:40"), NOW);
        ASSERT_EQ(moment("2001-09-09 03:46:40 XYZ"), NOW);
        ASSERT_EQ(moment("2001-09-09 01:46:40 UTC"), NOW);
        setenv("TZ", "UTC", 1);
        tzset();
        static const char *const bad[] = {"",
                                          "soon",
                                          "5",
                                          "-5",
                                          "@",
                                          "@x",
                                          "@99999999999999",
                                          "infinity",
                                          "2001-02-30",
                                          "2001-13-01",
                                          "2001-09-09 25:00",
                                          "2001-09-09 01:46 Mars",
                                          "12:00x",
                                          "1960-01-01",
                                          " ago"};
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                ASSERT_EQ(moment(bad[i]), 1);
}

TEST(wrapping)
{
        _cleanup_text_ Text t = {}, empty = {};

        text_wrap(&t, "one two three fourfivesixseven eight", 4, 12);
        ASSERT_STREQ(t.data, "one two\n    three\n    fourfivesixseven\n    eight");
        text_wrap(&empty, "", 4, 12);
        ASSERT_EQ(empty.size, 0);
}

/* --- --format ------------------------------------------------------------------------------------------ */

static const Option format_option = {NULL, "format", 0, "FORMAT", false, "", NULL, option_table_format, 0};

static int parse_format(TableFormat *f, const char *value, Error *e)
{
        *f = (TableFormat){.fields = columns, .n_fields = ELEMENTSOF(columns)};
        return option_table_format(&format_option, value, f, e);
}

static const char *const usual[] = {"id", "name", NULL};

TEST(selected_columns)
{
        static const struct {
                const char *format, *text;
        } cases[] = {
                        {NULL, "ID   NAME\n0123 first\n4567 -\n"},
                        {"name", "NAME\nfirst\n-\n"},
                        {"size,id", "SIZE ID\n1.5K 0123\n  -3 4567\n"},
                        {"made,apps,size,name,id", "MADE        APPS       SIZE NAME  ID\n"
                                                   "2min 5s ago web, proxy 1.5K first 0123\n"
                                                   "-           -            -3 -     4567\n"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(table_freep) Table *t = example();
                _cleanup_table_format_ TableFormat f = {.fields = columns, .n_fields = ELEMENTSOF(columns)};
                _cleanup_error_ Error e = ERROR_NULL;

                if (cases[i].format)
                        ASSERT_OK(parse_format(&f, cases[i].format, &e));
                ASSERT_EQ(table_format_given(&f), cases[i].format != NULL);
                ASSERT_OK(table_select_format(t, &f, usual));
                ASSERT_EQ(table_n_rows(t), 2);
                ASSERT_TABLE(t, &plain, true, cases[i].text);
        }
}

TEST(selected_members)
{
        _cleanup_(table_freep) Table *t = example();
        _cleanup_table_format_ TableFormat f = {};
        _cleanup_error_ Error e = ERROR_NULL;

        ASSERT_OK(parse_format(&f, "size,id", &e));
        ASSERT_OK(table_select_format(t, &f, usual));
        json_object *o = table_to_json(t);
        ASSERT_STREQ(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN),
                     "[{\"size\":1536,\"id\":\"0123456789\"},{\"size\":-3,\"id\":\"4567\"}]");
        json_object_put(o);
}

TEST(texts_with_fields)
{
        static const struct {
                const char *format, *text;
        } cases[] = {
                        {"{name}", "first\n\n"},
                        {"{id}\\t{size}", "0123456789\t1536\n4567\t-3\n"},
                        {"{apps}{apps}", "web,proxyweb,proxy\n\n"},
                        {"{made}\\n", "999999875000000\n\n\n\n"},
                        {"{{{id}}}\\\\", "{0123456789}\\\n{4567}\\\n"},
                        {"\\t", "\t\n\t\n"},
                        {"a b {{}}", "a b {}\na b {}\n"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(table_freep) Table *t = example();
                _cleanup_table_format_ TableFormat f = {};
                _cleanup_error_ Error e = ERROR_NULL;
                _cleanup_free_ char *text = NULL;

                ASSERT_OK(parse_format(&f, cases[i].format, &e));
                ASSERT_OK(table_fill_text(t, &f, &text));
                ASSERT_STREQ(text, cases[i].text);
        }
}

TEST(fields_of_texts)
{
        _cleanup_table_format_ TableFormat f = {};
        _cleanup_error_ Error e = ERROR_NULL;

        ASSERT_OK(parse_format(&f, "{{name}} {size}", &e));
        ASSERT_TRUE(table_format_has(&f, "size") && !table_format_has(&f, "name"));
        ASSERT_OK(parse_format(&f, "name,id", &e));
        ASSERT_TRUE(table_format_has(&f, "name") && !table_format_has(&f, "size"));
}

/* Untrusted text cannot make rows, nor control the terminal; documents become pairs. */
TEST(values_of_texts)
{
        static const TableColumn two[] = {{"A", "a", false, 0}, {"B", "b", false, 0}};
        _cleanup_(table_freep) Table *t = table_new(two, 2);
        TableFormat f = {.fields = two, .n_fields = 2, .text = "{a}|{b}"};
        json_object *o = json_object_new_object();
        _cleanup_free_ char *text = NULL;

        json_object_object_add(o, "x", json_object_new_string("1"));
        json_object_object_add(o, "y", json_object_new_int(2));
        table_add_text(t, "one\ntwo\033[2J");
        table_add_json(t, o, "x=1, y=2");
        table_add_none(t);
        table_add_json(t, json_object_new_boolean(true), "yes");
        ASSERT_OK(table_fill_text(t, &f, &text));
        ASSERT_STREQ(text, "one\\x0atwo\\x1b[2J|x=1,y=2\n|true\n");
}

TEST(wrong_formats)
{
        static const struct {
                const char *format, *message;
        } cases[] = {
                        {"", "must be fields, as in 'id', or a text with fields, as in '{id}'"},
                        {",", "must be fields"},
                        {"nme", "there is no field 'nme'; the fields are id, name, apps, made, size"},
                        {"{nme}", "there is no field 'nme'; the fields are id, name, apps, made, size"},
                        {"{.Name}", "there is no field '.Name'"},
                        {"{{.Name}}{.Name}", "templates of podman and docker are not understood"},
                        {"{}", "there is no field ''"},
                        {"id,id", "'id' is given twice"},
                        {"{id", "a brace is not closed, or not opened; a brace itself is doubled"},
                        {"id}", "a brace is not closed, or not opened"},
                        {"{id}\\x", "'\\' must be followed by t, n or another '\\'"},
                        {"{id}\\", "'\\' must be followed by"},
                        {"\033", "there is no field '\\x1b'"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_table_format_ TableFormat f = {};
                _cleanup_error_ Error e = ERROR_NULL;

                ASSERT_ERR(parse_format(&f, cases[i].format, &e), -EINVAL);
                ASSERT_CONTAINS(e.message, "for --format: ");
                ASSERT_CONTAINS(e.message, cases[i].message);
        }
        _cleanup_table_format_ TableFormat f = {};
        _cleanup_error_ Error e = ERROR_NULL;
        ASSERT_ERR(parse_format(&f, "json", &e), -EINVAL);
        ASSERT_STREQ(e.hint, "--json shows JSON.");
}

int main(void)
{
        RUN(selected_columns);
        RUN(selected_members);
        RUN(texts_with_fields);
        RUN(fields_of_texts);
        RUN(values_of_texts);
        RUN(wrong_formats);
        RUN(aligned);
        RUN(narrow);
        RUN(cut_in_the_middle);
        RUN(colors_take_no_room);
        RUN(last_column_is_not_padded);
        RUN(untrusted_text);
        RUN(json);
        RUN(empty);
        RUN(widths);
        RUN(ellipsis);
        RUN(sizes);
        RUN(times);
        RUN(timestamps);
        RUN(moments);
        RUN(wrapping);
        return TEST_END();
}
