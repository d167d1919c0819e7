/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The strict parser of JSON: accepted and refused documents, and the position of errors. */

#include "schema/schema.h"
#include "tests/unit/test.h"

static int parse(const char *text, json_object **ret, Error *e)
{
        return json_parse_strict(text, strlen(text), ret, NULL, e);
}

TEST(values)
{
        static const struct {
                const char *text, *plain;
        } cases[] = {
                        {"null", "null"},
                        {" true ", "true"},
                        {"\t\r\nfalse\n", "false"},
                        {"0", "0"},
                        {"-0", "0"},
                        {"-1", "-1"},
                        {"9223372036854775807", "9223372036854775807"},
                        {"-9223372036854775808", "-9223372036854775808"},
                        {"18446744073709551615", "18446744073709551615"},
                        {"1.50", "1.50"},
                        {"1e3", "1e3"},
                        {"-0.25E-2", "-0.25E-2"},
                        {"\"\"", "\"\""},
                        {"\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"a\\\"\\\\/\\b\\f\\n\\r\\t\""},
                        {"\"\\u0041\\u00e9\\u20ac\"", "\"A\xc3\xa9\xe2\x82\xac\""},
                        {"\"\\ud83d\\uDE00\"", "\"\xf0\x9f\x98\x80\""},
                        {"\"\\uffff\\ue000\"", "\"\xef\xbf\xbf\xee\x80\x80\""},
                        {"\"\x7f\xf4\x8f\xbf\xbf\"", "\"\x7f\xf4\x8f\xbf\xbf\""},
                        {"[]", "[]"},
                        {"[ ]", "[]"},
                        {"{ }", "{}"},
                        {"[1,[2,[]],{}]", "[1,[2,[]],{}]"},
                        {"{\"a\":{\"b\":[null]},\"\":1}", "{\"a\":{\"b\":[null]},\"\":1}"},
                        {"{\"a\":1,\"A\":2}", "{\"a\":1,\"A\":2}"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_json_ json_object *o = NULL;
                _cleanup_error_ Error e = {};
                int r = parse(cases[i].text, &o, &e);

                if (r < 0)
                        TEST_FAIL("%s: %s", cases[i].text, e.message);
                ASSERT_STREQ(json_object_to_json_string_ext(
                                             o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE),
                             cases[i].plain);
        }
}

static const struct {
        const char *text, *where, *message;
} fault_cases[] = {
                {"", "line 1, column 1", "the text ends where a value is expected"},
                {" \n ", "line 2, column 2", "the text ends"},
                {"{\"a\":1,\n \"b\":2,\n \"a\":3}", "line 3, column 2", "key \"a\" appears twice"},
                {"{\"a\":1,\"\\u0061\":2}", "line 1, column 8", "key \"a\" appears twice"},
                {"NaN", "line 1, column 1", "'N' where a value"},
                {"[Infinity]", "line 1, column 2", "'I' where a value"},
                {"-Infinity", "line 1, column 2", "'I' where a digit"},
                {"nan", "line 1, column 1", "'n' where a value"},
                {"TRUE", "line 1, column 1", "'T'"},
                {"truex", "line 1, column 5", "'x' where the end of the text"},
                {"nul", "line 1, column 1", "'n'"},
                {"{} {}", "line 1, column 4", "'{' where the end of the text"},
                {"{}\n\n]", "line 3, column 1", "']' where the end of the text"},
                {"[1,]", "line 1, column 4", "']' where a value"},
                {"[,1]", "line 1, column 2", "','"},
                {"[1 2]", "line 1, column 4", "'2' where ',' or ']'"},
                {"{\"a\":1,}", "line 1, column 8", "'}' where a key in quotes"},
                {"{a:1}", "line 1, column 2", "'a' where a key in quotes"},
                {"{'a':1}", "line 1, column 2", "'''"},
                {"{\"a\" 1}", "line 1, column 6", "'1' where ':'"},
                {"{\"a\":}", "line 1, column 6", "'}' where a value"},
                {"{1:2}", "line 1, column 2", "'1' where a key in quotes"},
                {"[1}", "line 1, column 3", "'}' where ',' or ']'"},
                {"{\"a\":1]", "line 1, column 7", "']' where ',' or '}'"},
                {"[", "line 1, column 2", "the text ends"},
                {"{\"a\"", "line 1, column 5", "the text ends where ':'"},
                {"]", "line 1, column 1", "']'"},
                {"// x\n1", "line 1, column 1", "'/'"},
                {"/* x */1", "line 1, column 1", "'/'"},
                {"01", "line 1, column 1", "leading zero"},
                {"-01", "line 1, column 2", "leading zero"},
                {"+1", "line 1, column 1", "'+'"},
                {".5", "line 1, column 1", "'.'"},
                {"1.", "line 1, column 3", "the text ends where a digit"},
                {"1.e3", "line 1, column 3", "'e' where a digit"},
                {"1e", "line 1, column 3", "the text ends where a digit"},
                {"0x10", "line 1, column 2", "'x'"},
                {"18446744073709551616", "line 1, column 1", "does not fit into 64 bits"},
                {"-9223372036854775809", "line 1, column 1", "does not fit into 64 bits"},
                {"[1e999]", "line 1, column 2", "number 1e999 is too large"},
                {"-1e400", "line 1, column 1", "too large"},
                {"\"abc", "line 1, column 5", "the text ends where the end of the string"},
                {"\"a\nb\"", "line 1, column 3", "control character 0x0a"},
                {"\"a\tb\"", "line 1, column 3", "control character 0x09"},
                {"\"\\x\"", "line 1, column 3", "'x' where an escape"},
                {"\"\\", "line 1, column 3", "the text ends where an escape"},
                {"\"\\u12\"", "line 1, column 2", "four hex digits"},
                {"\"\\u12g4\"", "line 1, column 2", "four hex digits"},
                {"\"ab\\u0000\"", "line 1, column 4", "\\u0000 is not allowed"},
                {"{\"\\u0000\":1}", "line 1, column 3", "\\u0000 is not allowed"},
                {"\"\\ud800\"", "line 1, column 2", "half of a surrogate pair"},
                {"\"\\ud800x\"", "line 1, column 2", "half of a surrogate pair"},
                {"\"\\ud800\\u0041\"", "line 1, column 2", "first half of a surrogate pair"},
                {"\"\\ud800\\ud800\"", "line 1, column 2", "first half of a surrogate pair"},
                {"\"\\udc00\"", "line 1, column 2", "half of a surrogate pair"},
                {"\"\xff\"", "line 1, column 2", "byte 0xff is not valid UTF-8"},
                {"\"\xc0\xaf\"", "line 1, column 2", "byte 0xc0 is not valid UTF-8"},
                {"\"\xed\xa0\x80\"", "line 1, column 2", "byte 0xed is not valid UTF-8"},
                {"\"\xc3\xa9\xc3\"", "line 1, column 3", "byte 0xc3 is not valid UTF-8"},
                {"\xff", "line 1, column 1", "byte 0xff is not valid UTF-8"},
                {"\xef\xbb\xbf{}", "line 1, column 1", "byte order mark"},
                {"\xc2\xa0{}", "line 1, column 1", "not ASCII"},
                {"{\x01}", "line 1, column 2", "control character 0x01"},
};

TEST(faults)
{
        for (size_t i = 0; i < ELEMENTSOF(fault_cases); i++) {
                _cleanup_json_ json_object *o = NULL;
                _cleanup_findings_ Findings f = {};
                _cleanup_error_ Error e = {};
                int r = json_parse_strict(fault_cases[i].text, strlen(fault_cases[i].text), &o, &f, &e);

                if (r != -EBADMSG)
                        TEST_FAIL("%s gave %d", fault_cases[i].text, r);
                ASSERT_NULL(o);
                ASSERT_EQ(f.n, 1);
                if (!streq(f.items[0].path, fault_cases[i].where) ||
                    !strstr(f.items[0].message, fault_cases[i].message))
                        TEST_FAIL("%s: %s: %s", fault_cases[i].text, f.items[0].path, f.items[0].message);
                ASSERT_CONTAINS(e.message, fault_cases[i].where);
                ASSERT_CONTAINS(e.message, fault_cases[i].message);
                ASSERT_TRUE(utf8_is_valid(e.message, strlen(e.message)));
        }
}

TEST(nul_in_the_text)
{
        static const char *const texts[] = {"\0{}", "{}\0", "[1,\0]", "\"a\0b\"", "{\"a\0\":1}", "1\0"};
        static const size_t sizes[] = {3, 3, 5, 5, 8, 2};

        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                _cleanup_json_ json_object *o = NULL;
                _cleanup_error_ Error e = {};

                ASSERT_ERR(json_parse_strict(texts[i], sizes[i], &o, NULL, &e), -EBADMSG);
                ASSERT_CONTAINS(e.message, "control character 0x00");
        }
}

TEST(size_is_what_counts)
{
        _cleanup_json_ json_object *o = NULL;

        /* Without reading the NUL after it: the text may be a part of a buffer. */
        ASSERT_OK(json_parse_strict("[12]garbage", 4, &o, NULL, NULL));
        ASSERT_EQ(json_object_array_length(o), 1);
        ASSERT_ERR(json_parse_strict("\"\\u0041", 5, &o, NULL, NULL), -EBADMSG);
        ASSERT_ERR(json_parse_strict("true", 3, &o, NULL, NULL), -EBADMSG);
        ASSERT_ERR(json_parse_strict("\"\xc3\xa9\"", 2, &o, NULL, NULL), -EBADMSG);
}

static char *repeat(const char *before, const char *s, size_t n, const char *after)
{
        _cleanup_text_ Text t = {};
        char *text;

        text_add(&t, before);
        for (size_t i = 0; i < n; i++)
                text_add(&t, s);
        text_add(&t, after);
        return text_take(&t, &text, NULL) < 0 ? NULL : text;
}

#define REFUSED(text, said)                                                                                 \
        do {                                                                                                \
                _cleanup_free_ char *_text_ = (text);                                                       \
                _cleanup_json_ json_object *_o_ = NULL;                                                     \
                _cleanup_error_ Error _e_ = {};                                                             \
                ASSERT_NOT_NULL(_text_);                                                                    \
                ASSERT_ERR(parse(_text_, &_o_, &_e_), -EBADMSG);                                            \
                ASSERT_CONTAINS(_e_.message, said);                                                         \
        } while (0)

TEST(bounds)
{
        _cleanup_free_ char *deep = repeat("", "[", 64, ""), *closed = NULL, *big = NULL;
        _cleanup_json_ json_object *o = NULL;
        _cleanup_error_ Error e = {};

        closed = repeat(deep, "]", 64, "");
        ASSERT_OK(parse(closed, &o, &e));
        REFUSED(repeat("", "[", 65, "1"), "line 1, column 65: nesting deeper than 64 levels");
        REFUSED(repeat("", "[", 10000, ""), "nesting deeper");
        REFUSED(repeat("", "{\"a\":", 10000, "1"), "nesting deeper");
        REFUSED(repeat("[", "{},", 70000, "1]"), "more than 65536 objects and lists");
        REFUSED(repeat("[", "1,", 300000, "1]"), "more than 262144 values");
        REFUSED(repeat("", "1", 200, ""), "number of more than 128 characters");
        big = repeat("\"", "0123456789abcdef", MANIFEST_SIZE_MAX / 16, "\"");
        json_object_putp(&o);
        o = NULL;
        ASSERT_ERR(parse(big, &o, &e), -EFBIG);
        ASSERT_CONTAINS(e.message, "4194306 bytes");
        ASSERT_NULL(o);
}

TEST(lossy_strings)
{
        static const struct {
                const char *in, *out;
        } cases[] = {
                        {"", ""},
                        {"plain \xc3\xa9", "plain \xc3\xa9"},
                        {"a\xff"
                         "b",
                         "a\xef\xbf\xbd"
                         "b"},
                        {"\xc3", "\xef\xbf\xbd"},
                        {"\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd"},
                        {"\xc0\x80", "\xef\xbf\xbd\xef\xbf\xbd"},
                        {"\xf0\x9f\x98\x80\x80", "\xf0\x9f\x98\x80\xef\xbf\xbd"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_json_ json_object *o = json_new_string_lossy(cases[i].in);

                ASSERT_NOT_NULL(o);
                ASSERT_STREQ(json_object_get_string(o), cases[i].out);
        }
}

int main(void)
{
        RUN(values);
        RUN(faults);
        RUN(nul_in_the_text);
        RUN(size_is_what_counts);
        RUN(bounds);
        RUN(lossy_strings);
        return TEST_END();
}
