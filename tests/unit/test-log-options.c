/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the parameters of Logs say. */

#include "stage0/report/report.h"
#include "tests/unit/test.h"

/* The parameter that is not valid; NULL: all are. */
static const char *read_options(json_object **parameters, const char *text, LogOptions *ret)
{
        const char *wrong = NULL;

        json_object_put(*parameters);
        *parameters = NULL;
        if (json_parse_strict(text, strlen(text), parameters, NULL, NULL) < 0)
                return "no JSON";
        int r = log_options_read(*parameters, ret, &wrong);
        return r == 0 ? NULL : r == -EINVAL ? wrong : "another error";
}

TEST(what_is_not_given)
{
        _cleanup_json_ json_object *parameters = NULL;
        LogOptions o;

        ASSERT_NULL(read_options(&parameters, "{\"stdout\":0}", &o));
        ASSERT_NULL(o.app);
        ASSERT_TRUE(o.raw && !o.follow && !o.json && !o.prefix && !o.timestamps && o.end_fd == 0);
        ASSERT_TRUE(o.lines == UINT64_MAX && o.since_usec == 0 && o.until_usec == 0);
}

TEST(what_is_given)
{
        _cleanup_json_ json_object *parameters = NULL;
        LogOptions o;

        ASSERT_NULL(read_options(
                        &parameters,
                        "{\"app\":\"a\",\"follow\":true,\"lines\":0,\"sinceUSec\":0,\"untilUSec\":"
                        "9223372036854775807,\"format\":\"json\",\"timestamps\":true,\"prefix\":true}",
                        &o));
        ASSERT_STREQ(o.app, "a");
        ASSERT_TRUE(o.follow && o.json && o.prefix && o.timestamps);
        ASSERT_TRUE(o.lines == 0 && o.until_usec == INT64_MAX);
        ASSERT_NULL(read_options(&parameters,
                                 "{\"app\":null,\"lines\":null,\"format\":\"text\",\"follow\":false}", &o));
        ASSERT_TRUE(!o.app && !o.json && !o.follow && o.lines == UINT64_MAX);
}

TEST(what_is_not_valid)
{
        static const char *const texts[][2] = {
                        {"{\"lines\":-1}", "lines"},          {"{\"lines\":\"5\"}", "lines"},
                        {"{\"sinceUSec\":-1}", "sinceUSec"},  {"{\"untilUSec\":0}", "untilUSec"},
                        {"{\"untilUSec\":1.5}", "untilUSec"}, {"{\"format\":\"xml\"}", "format"},
                        {"{\"format\":1}", "format"},         {"{\"app\":[]}", "app"},
        };
        _cleanup_json_ json_object *parameters = NULL;
        LogOptions o;

        for (size_t i = 0; i < ELEMENTSOF(texts); i++)
                ASSERT_STREQ(read_options(&parameters, texts[i][0], &o), texts[i][1]);
}

int main(void)
{
        RUN(what_is_not_given);
        RUN(what_is_given);
        RUN(what_is_not_valid);
        return TEST_END();
}
