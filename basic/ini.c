/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The reader of configuration files. It knows lines, and neither sections nor keys: these are passed on, with
 * mistakes among them, so that reading goes on and all mistakes are known at once. */

#include "basic/ini.h"

static const char blanks[] = " \t\r";

const char *ini_mistake_to_string(IniMistake m)
{
        _Static_assert(INI_LINE_MAX == 262144, "the size in the text");
        static const char *const texts[] = {
                        [INI_SECTION_WITHOUT_END] = "the name of the section does not end with ']'",
                        [INI_NO_ASSIGNMENT] = "the line is not KEY=VALUE",
                        [INI_LINE_TOO_LONG] = "the line is longer than 262144 bytes",
                        [INI_NO_TEXT] = "the line is not UTF-8",
        };

        return texts[m];
}

static int take_section(const IniEvents *ev, char *line, unsigned number)
{
        size_t n = strlen(line);

        if (line[n - 1] != ']')
                return ev->mistake(INI_SECTION_WITHOUT_END, number, ev->userdata);
        line[n - 1] = 0;
        return ev->section(line + 1, number, ev->userdata);
}

static int take_assignment(const IniEvents *ev, char *line, unsigned number)
{
        char *equals = strchr(line, '=');
        size_t n = equals ? (size_t) (equals - line) : 0;

        while (n > 0 && strchr(blanks, line[n - 1]))
                n--;
        if (n == 0)
                return ev->mistake(INI_NO_ASSIGNMENT, number, ev->userdata);
        line[n] = 0;
        equals++;
        return ev->assignment(line, equals + strspn(equals, blanks), number, ev->userdata);
}

/* A whole line; LINE is emptied. */
static int end_line(const IniEvents *ev, Text *line, unsigned number)
{
        _cleanup_free_ char *whole = NULL;
        size_t n = 0;

        if (!line->data && !line->failed)
                return 0;
        if (text_take(line, &whole, &n) < 0)
                return -ENOMEM;
        *line = (Text){};
        while (n > 0 && whole[n - 1] && strchr(blanks, whole[n - 1]))
                whole[--n] = 0;
        if (n == 0)
                return 0;
        if (n > INI_LINE_MAX)
                return ev->mistake(INI_LINE_TOO_LONG, number, ev->userdata);
        if (strlen(whole) != n || !utf8_is_valid(whole, n))
                return ev->mistake(INI_NO_TEXT, number, ev->userdata);
        return *whole == '[' ? take_section(ev, whole, number) : take_assignment(ev, whole, number);
}

/* Whether the last character is a backslash that no other one escapes. */
static bool is_continued(const char *s, size_t n)
{
        size_t backslashes = 0;

        while (backslashes < n && s[n - 1 - backslashes] == '\\')
                backslashes++;
        return backslashes % 2 == 1;
}

int ini_parse(const char *text, size_t size, const IniEvents *ev)
{
        _cleanup_text_ Text line = {};
        unsigned number = 0, first = 0;
        bool continued = false;

        if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) { /* a byte order mark */
                text += 3;
                size -= 3;
        }
        for (const char *p = text, *end = text + size; p < end;) {
                const char *newline = memchr(p, '\n', (size_t) (end - p)), *stop = newline ?: end, *s = p;

                p = newline ? newline + 1 : end;
                number++;
                while (s < stop && *s && strchr(blanks, *s))
                        s++;
                if (s < stop && (*s == '#' || *s == ';'))
                        continue; /* also between lines that belong together */
                if (!continued)
                        first = number;
                size_t n = (size_t) (stop - s);
                if (n > 0 && s[n - 1] == '\r')
                        n--;
                continued = is_continued(s, n);
                text_add_bytes(&line, s, continued ? n - 1 : n);
                if (continued) {
                        text_add(&line, " ");
                        continue;
                }
                int r = end_line(ev, &line, first);
                if (r < 0)
                        return r;
        }
        return end_line(ev, &line, first);
}
