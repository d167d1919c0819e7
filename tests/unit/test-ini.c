/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Configuration files: what lines become, and mistakes, which do not end reading. */

#include "basic/ini.h"
#include "tests/unit/test.h"

static int on_section(const char *name, unsigned line, void *userdata)
{
        text_addf(userdata, "%u[%s]\n", line, name);
        return 0;
}

static int on_assignment(const char *key, const char *value, unsigned line, void *userdata)
{
        text_addf(userdata, "%u %s=<%s>\n", line, key, value);
        return streq(key, "stop") ? -ECANCELED : 0;
}

static int on_mistake(IniMistake what, unsigned line, void *userdata)
{
        text_addf(userdata, "%u! %s\n", line, ini_mistake_to_string(what));
        return 0;
}

static int read_ini(const char *text, size_t size, Text *ret)
{
        const IniEvents ev = {on_section, on_assignment, on_mistake, ret};

        return ini_parse(text, size, &ev);
}

TEST(lines)
{
        static const struct {
                const char *text, *events;
        } cases[] = {
                        {"", ""},
                        {"\n\n  \n", ""},
                        {"[A]\na=b", "1[A]\n2 a=<b>\n"},
                        {"\xef\xbb\xbf[A]\r\na=b\r\n", "1[A]\n2 a=<b>\n"},
                        {"  [A b]  \n \ta \t= \t b c  \n", "1[A b]\n2 a=<b c>\n"},
                        {"a=\nb==\nc = = \n", "1 a=<>\n2 b=<=>\n3 c=<=>\n"},
                        {"# [A]\n; a=b\n  # x\na=#b;c\n", "4 a=<#b;c>\n"},
                        {"a=b\\\nc\nd=e", "1 a=<b c>\n3 d=<e>\n"},
                        {"a=b \\\n# comment\n  c\\\\\nd=e", "1 a=<b  c\\\\>\n4 d=<e>\n"},
                        {"a=b\\", "1 a=<b>\n"},
                        {"\\\n\\\n", ""},
                        {"[A\n[]\n=b\nword\na=b", "1! the name of the section does not end with ']'\n2[]\n"
                                                  "3! the line is not KEY=VALUE\n4! the line is not KEY=VALUE\n"
                                                  "5 a=<b>\n"},
                        {"a=\xff\nb=c", "1! the line is not UTF-8\n2 b=<c>\n"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_text_ Text t = {};

                ASSERT_OK(read_ini(cases[i].text, strlen(cases[i].text), &t));
                ASSERT_STREQ(t.data ?: "", cases[i].events);
        }
}

TEST(bytes)
{
        _cleanup_text_ Text t = {};

        ASSERT_OK(read_ini("a=\0b\nc=d\0", 10, &t));
        ASSERT_STREQ(t.data, "1! the line is not UTF-8\n2! the line is not UTF-8\n");
}

TEST(long_lines)
{
        _cleanup_text_ Text t = {}, events = {};

        text_add(&t, "a=");
        for (size_t i = 0; i < INI_LINE_MAX / 64; i++)
                text_add(&t, "0123456789012345678901234567890123456789012345678901234567890\\\n");
        text_add(&t, "\nb=c\n");
        ASSERT_OK(read_ini(t.data, t.size, &events));
        ASSERT_CONTAINS(events.data, "1 a=<0123");
        ASSERT_CONTAINS(events.data, "b=<c>");
        text_done(&events);
        text_done(&t);
        text_add(&t, "a=");
        for (size_t i = 0; i < INI_LINE_MAX / 8; i++)
                text_add(&t, "01234567");
        text_add(&t, "\nb=c\n");
        ASSERT_OK(read_ini(t.data, t.size, &events));
        ASSERT_STREQ(events.data, "1! the line is longer than 262144 bytes\n2 b=<c>\n");
}

TEST(events_end_reading)
{
        _cleanup_text_ Text t = {};

        ASSERT_ERR(read_ini("stop=1\na=b", 10, &t), -ECANCELED);
        ASSERT_STREQ(t.data, "1 stop=<1>\n");
}

int main(void)
{
        RUN(lines);
        RUN(bytes);
        RUN(long_lines);
        RUN(events_end_reading);
        return TEST_END();
}
