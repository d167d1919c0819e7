/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The parser of TOML: its results, as JSON, and its messages about invalid text. */

#include "prepare/registry/registry-internal.h"
#include "tests/unit/test.h"

static const struct {
        const char *text, *json;
} valid[] = {
                {"", "{}"},
                {"# only a comment", "{}"},
                {"a = 1", "{\"a\":1}"},
                {"a=\"x\"\r\nb='y'\n", "{\"a\":\"x\",\"b\":\"y\"}"},
                {"a = true # yes\nb = false", "{\"a\":true,\"b\":false}"},
                {"a = \"q\\\"\\\\\\t\\u00e9\\U0001F600\"", "{\"a\":\"q\\\"\\\\\\t\u00e9\U0001F600\"}"},
                {"a = 'no \\escape'", "{\"a\":\"no \\\\escape\"}"},
                {"a = \"\"\nb = ''", "{\"a\":\"\",\"b\":\"\"}"},
                {"\"a/b c\" = 0\n'd.e' = 9223372036854775807", "{\"a/b c\":0,\"d.e\":9223372036854775807}"},
                {"a = []", "{\"a\":[]}"},
                {"a = [ 1, [\"x\", 'y'],\n # why\n 2,\n]", "{\"a\":[1,[\"x\",\"y\"],2]}"},
                {"a = {}\nb = { c = 1, \"d\" = {e = \"f\"} }",
                 "{\"a\":{},\"b\":{\"c\":1,\"d\":{\"e\":\"f\"}}}"},
                {"x = 1\n[a]\nb = 1\n[a.c]\nd = 2\n[e.f]\n[e]\ng = 3",
                 "{\"x\":1,\"a\":{\"b\":1,\"c\":{\"d\":2}},\"e\":{\"f\":{},\"g\":3}}"},
                {"[[r]]\na = 1\n[[r.m]]\nb = 1\n[[r.m]]\nb = 2\n[[ r ]]\n[r.s]\nc = 1",
                 "{\"r\":[{\"a\":1,\"m\":[{\"b\":1},{\"b\":2}]},{\"s\":{\"c\":1}}]}"},
                {"[a . \"b.c\"]\nd = 1", "{\"a\":{\"b.c\":{\"d\":1}}}"},
};

TEST(valid)
{
        for (size_t i = 0; i < ELEMENTSOF(valid); i++) {
                _cleanup_json_ json_object *o = NULL;
                _cleanup_error_ Error e = ERROR_NULL;

                if (toml_parse(valid[i].text, strlen(valid[i].text), "t", &o, &e) < 0)
                        TEST_FAIL("%s: %s", valid[i].text, e.message);
                ASSERT_STREQ(json_object_to_json_string_ext(
                                             o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE),
                             valid[i].json);
        }
}

static const struct {
        const char *text, *why;
} invalid[] = {
                {"a", "t, line 1: '=' is missing behind a name"},
                {"\n\na = ", "t, line 3: a value is missing"},
                {"a = 1 b = 2", "'b' where the line should end"},
                {"a = 1\na = 2", "t, line 2: 'a' appears twice"},
                {"a = {b = 1, b = 2}", "'b' appears twice"},
                {"[a]\n[a]", "t, line 2: 'a' appears twice"},
                {"[[a]]\n[a]", "'a' appears twice"},
                {"[a]\n[[a]]", "not an array of tables"},
                {"a = [1]\n[[a]]", "not an array of tables"},
                {"a = [{}]\n[a.b]", "nothing can be added"},
                {"a = {}\n[a.b]", "nothing can be added"},
                {"a = {}\n[a]", "'a' appears twice"},
                {"a = 1\n[a.b]", "'a' is not a table"},
                {"a.b = 1", "dotted names are not understood"},
                {"a = 1979-05-27", "the value '1979-05-27' is not understood"},
                {"a = 1.5", "the value '1.5'"},
                {"a = 01", "the value '01'"},
                {"a = -1", "the value '-1'"},
                {"a = 9223372036854775808", "the value '9223372036854775808'"},
                {"a = True", "the value 'True'"},
                {"a = example.com", "a string goes in quotes"},
                {"a = \"\"\"x\"\"\"", "over several lines"},
                {"a = '''x'''", "over several lines"},
                {"a = \"x", "the line ends inside of a string"},
                {"a = \"x\ny\"", "the line ends inside of a string"},
                {"a = \"\\q\"", "an escape that TOML does not have"},
                {"a = \"\\u12\"", "without 4 hex digits"},
                {"a = \"\\u0000\"", "an escape that is not a character"},
                {"a = \"\\ud800\"", "an escape that is not a character"},
                {"a = \"\\U00110000\"", "an escape that is not a character"},
                {"a = \"\x01\"", "control character 0x01"},
                {"# \x01", "control character 0x01"},
                {"a = [1", "an array is not closed"},
                {"a = [1 2]", "an array is not closed"},
                {"a = {b = 1,}", "a name is expected"},
                {"a = {b = 1", "',' is missing"},
                {"[a", "']' is missing"},
                {"[[a]", "']' is missing"},
                {"[]", "a name is expected"},
                {"= 1", "a name is expected"},
                {"[a]x", "'x' where the line should end"},
                {"a = \"\xff\"", "not text"},
                {"a = [[[[[[[[[[[[]]]]]]]]]]]]", "nested more than 8 deep"},
                {"a={b={b={b={b={b={b={b={b={b={}}}}}}}}}}", "nested more than 8 deep"},
                {"[a.b.c.d.e.f.g.h.i]", "nested more than 8 deep"},
};

TEST(invalid)
{
        for (size_t i = 0; i < ELEMENTSOF(invalid); i++) {
                json_object *o = NULL;
                _cleanup_error_ Error e = ERROR_NULL;

                if (toml_parse(invalid[i].text, strlen(invalid[i].text), "t", &o, &e) != -EBADMSG)
                        TEST_FAIL("'%s' is taken", invalid[i].text);
                ASSERT_CONTAINS(e.message, invalid[i].why);
                ASSERT_NULL(o);
        }
}

TEST(zeros_and_sizes)
{
        _cleanup_free_ char *large = calloc(1, TOML_SIZE_MAX + 1);
        json_object *o = NULL;

        ASSERT_NOT_NULL(large);
        ASSERT_ERR(toml_parse("a = 1\0b", 7, "t", &o, NULL), -EBADMSG);
        ASSERT_ERR(toml_parse(large, TOML_SIZE_MAX + 1, "t", &o, NULL), -EFBIG);
}

int main(void)
{
        RUN(valid);
        RUN(invalid);
        RUN(zeros_and_sizes);
        return TEST_END();
}
